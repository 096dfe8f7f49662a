package codeq

import "context"

// TraceContext is a W3C trace context, as it stands in headers.
type TraceContext struct{ Parent, State string }

// Tracing are hooks for a tracing library; codeqotel has them for OpenTelemetry.
type Tracing interface {
	// Enqueue is called before tasks are enqueued, and end when they are stored. The tasks carry the context.
	Enqueue(ctx context.Context, task string, count int) (trace TraceContext, end func(error))
	// Handle is called before a handler, which gets the context that it returns; end gets the handler's error.
	Handle(ctx context.Context, attempt *Attempt) (handler context.Context, end func(error))
}

type passOn struct{}

func (passOn) Enqueue(ctx context.Context, _ string, _ int) (TraceContext, func(error)) {
	end := func(error) {}
	if attempt := Current(ctx); attempt != nil {
		return attempt.Trace, end
	}
	return TraceContext{}, end
}

func (passOn) Handle(ctx context.Context, _ *Attempt) (context.Context, func(error)) {
	return ctx, func(error) {}
}
