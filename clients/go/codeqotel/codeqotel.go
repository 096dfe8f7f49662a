// Package codeqotel makes OpenTelemetry spans of what a codeQ client does: one for every enqueue, and one for every
// run of a handler, which belongs to the trace of the producer. It is a module of its own, so that the client does not
// need OpenTelemetry.
package codeqotel

import (
	"context"

	"codeq"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// New makes the spans with this provider; nil is the global one.
//
//	client, err := codeq.Open(codeq.Options{Tracing: codeqotel.New(nil)})
func New(provider trace.TracerProvider) codeq.Tracing {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return &tracing{provider.Tracer("codeq/codeqotel")}
}

type tracing struct{ tracer trace.Tracer }

// Tasks carry W3C trace contexts, whatever the program uses elsewhere.
var w3c propagation.TraceContext

func (t *tracing) Enqueue(ctx context.Context, task string, count int) (codeq.TraceContext, func(error)) {
	attributes := attributesOf(task, "send")
	if count > 1 {
		attributes = append(attributes, attribute.Int("messaging.batch.message_count", count))
	}
	ctx, span := t.tracer.Start(ctx, "send "+task,
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(attributes...))
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return codeq.TraceContext{Parent: carrier["traceparent"], State: carrier["tracestate"]}, endOf(span)
}

func (t *tracing) Handle(ctx context.Context, attempt *codeq.Attempt) (context.Context, func(error)) {
	carrier := propagation.MapCarrier{"traceparent": attempt.Trace.Parent, "tracestate": attempt.Trace.State}
	ctx = w3c.Extract(ctx, carrier)
	attributes := append(attributesOf(attempt.Task, "process"),
		attribute.String("messaging.message.id", attempt.ID), attribute.Int("codeq.attempt", attempt.Number))
	ctx, span := t.tracer.Start(ctx, "process "+attempt.Task,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
	return ctx, endOf(span)
}

func attributesOf(task, operation string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "codeq"),
		attribute.String("messaging.destination.name", task),
		attribute.String("messaging.operation.type", operation),
	}
}

func endOf(span trace.Span) func(error) {
	return func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
