package codeqotel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"codeq"
	"codeq/codeqotel"
	"codeq/codeqtest"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func TestTheSpansOfATaskAreOneTrace(t *testing.T) {
	server := codeqtest.Start(t)
	recorder := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorder))
	client, err := codeq.Open(codeq.Options{URLs: []string{server.URL}, Tracing: codeqotel.New(provider)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	task := codeq.NewTask[string, string]("greet")
	worker := server.Work(t, client, task.Handle(func(context.Context, string) (string, error) {
		return "", codeq.Permanent(errors.New("out of paper"))
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run, err := task.Enqueue(ctx, client, "Ada")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(ctx); err == nil {
		t.Error("it did not fail")
	}
	if err := worker.Close(); err != nil {
		t.Fatal(err)
	}
	spans := map[string]trace.ReadOnlySpan{}
	for _, span := range recorder.Ended() {
		spans[span.Name()] = span
	}
	sent, processed := spans["send greet"], spans["process greet"]
	if sent == nil || processed == nil || len(spans) != 2 {
		t.Fatalf("the spans are %v", spans)
	}
	if processed.Parent().SpanID() != sent.SpanContext().SpanID() || processed.Parent().TraceID() != sent.SpanContext().TraceID() {
		t.Error("the run of the handler does not belong to the enqueue")
	}
	if sent.Status().Code == codes.Error || processed.Status().Code != codes.Error {
		t.Error("the error is not where it happened")
	}
}
