package codeq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

const (
	defaultLease       = time.Minute
	defaultGrace       = 10 * time.Second
	defaultConcurrency = 10
	reasonCharsMax     = 2000
	stackBytesMax      = 4096
)

// Settled is what the server made of an attempt.
type Settled string

const (
	Completed  Settled = "completed"
	Failed     Settled = "failed"
	Retry      Settled = "retry"
	DeadLetter Settled = "dead_letter"
	HandedBack Settled = "handed_back"
)

// HandlerOptions are how a worker runs the handler of a task.
type HandlerOptions struct {
	// How long the server waits for a sign of life of the worker; it is extended while the handler runs. Default: a
	// minute.
	Lease time.Duration
	// How long the handler may take. Default: as long as it wants.
	Timeout time.Duration
	// The delay before the next attempt after an error, unless the error has one. Default: the backoff of the server.
	RetryDelay func(attempt int, err error) time.Duration
}

// Handler is a task with the function that does it.
type Handler struct {
	name    string
	options HandlerOptions
	run     func(ctx context.Context, payload []byte) ([]byte, error)
}

// Handle makes a handler. Its context ends when the lease is lost, the task is cancelled, its time is over or the
// worker closes; [context.Cause] says which. An error means another attempt, see [Permanent], [RetryIn] and
// [RateLimited].
func (t *Task[In, Out]) Handle(run func(ctx context.Context, input In) (Out, error), options ...HandlerOptions) Handler {
	handler := Handler{name: t.name}
	if len(options) > 0 {
		handler.options = options[len(options)-1]
	}
	if handler.options.Lease == 0 {
		handler.options.Lease = defaultLease
	}
	handler.run = func(ctx context.Context, payload []byte) ([]byte, error) {
		var input In
		if err := json.Unmarshal(payload, &input); err != nil {
			// It would not fit next time either.
			return nil, Permanent(fmt.Errorf("the input of %s does not fit: %w", t.name, err))
		}
		output, err := run(ctx, input)
		if err != nil {
			return nil, err
		}
		return encodeOutput(output, t.name)
	}
	return handler
}

// WorkerOptions are how a worker works. The zero value is good for most.
type WorkerOptions struct {
	// How many handlers run at a time. Default: 10.
	Concurrency int
	// As people see it. Default: made of the host and the process.
	Name string
	// How long running handlers get to finish when the worker closes. Default: 10 seconds; negative for none.
	Grace time.Duration
	// The functions below are called one at a time, in the order of what happened.

	// OnSettled: a handler has ended, and the server has answered what it made of that.
	OnSettled func(*Attempt, Settled)
	// OnRefused: the server refused the outcome of a handler, so it has no effect.
	OnRefused func(*Error)
	// OnConnection: the worker is connected, or the reason why not.
	OnConnection func(*Error)
}

// Worker runs handlers for the tasks that the server gives it.
type Worker struct {
	client   *Client
	options  WorkerOptions
	handlers map[string]Handler
	logger   *slog.Logger
	core     *workerCore
	// What the functions of the options are to be told.
	events  *queue[func()]
	told    chan struct{}
	starts  sync.Once
	closes  sync.Once
	closed  chan struct{}
	problem error
	// Has the values of the context that was given to Run.
	base context.Context
}

// NewWorker makes a worker for these handlers; Run starts it.
func (c *Client) NewWorker(options WorkerOptions, handlers ...Handler) (*Worker, error) {
	if len(handlers) == 0 {
		return nil, &Error{Code: "invalid_option", Message: "a worker needs at least one handler"}
	}
	if options.Concurrency == 0 {
		options.Concurrency = defaultConcurrency
	}
	if options.Concurrency < 0 || options.Concurrency > 10_000 {
		message := fmt.Sprintf("invalid concurrency %d: from 1 to 10000", options.Concurrency)
		return nil, &Error{Code: "invalid_option", Message: message}
	}
	if options.Grace == 0 {
		options.Grace = defaultGrace
	}
	if options.Name == "" {
		host, _ := os.Hostname()
		options.Name = fmt.Sprintf("%s-%d-%s", host, os.Getpid(), randomText()[:6])
	}
	w := &Worker{
		client: c, options: options, handlers: map[string]Handler{}, events: newQueue[func()](),
		logger: c.options.Logger.With("worker", options.Name), told: make(chan struct{}), closed: make(chan struct{}),
		base: context.Background(),
	}
	for _, handler := range handlers {
		key := strings.ToLower(handler.name)
		if _, isTwice := w.handlers[key]; isTwice {
			return nil, &Error{Code: "invalid_option", Message: "two handlers for " + handler.name}
		}
		if handler.options.Lease < time.Second {
			return nil, &Error{Code: "invalid_option", Message: "the lease of " + handler.name + " is shorter than a second"}
		}
		w.handlers[key] = handler
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.isClosed {
		return nil, closedError()
	}
	c.workers[w] = true
	w.core = newWorkerCore(w, handlers)
	return w, nil
}

// Name is the name of the worker.
func (w *Worker) Name() string { return w.options.Name }

// Run works until the context ends, then lets running handlers finish within the grace, hands back the others
// without an attempt being counted, and returns nil. It returns an error when the server does not want this worker,
// or could not be told everything. Close ends it as well.
func (w *Worker) Run(ctx context.Context) error {
	w.start(ctx)
	select {
	case <-ctx.Done():
		return w.Close()
	case <-w.closed:
		return w.problem
	}
}

func (w *Worker) start(ctx context.Context) {
	w.starts.Do(func() {
		w.base = context.WithoutCancel(ctx)
		go w.tell()
		w.core.begin()
	})
}

// Close is what happens at the end of the context of Run.
func (w *Worker) Close() error { return w.CloseIn(w.options.Grace) }

// CloseIn is Close with another grace.
func (w *Worker) CloseIn(grace time.Duration) error {
	w.closes.Do(func() {
		// One that never ran has nothing to tell.
		w.start(context.Background())
		w.end(w.core.close(max(grace, 0)))
	})
	<-w.closed
	return w.problem
}

// fail: the server does not want this worker.
func (w *Worker) fail(err *Error) {
	w.logger.Error("the server does not want this worker", "error", err, "code", err.Code)
	go w.closes.Do(func() { w.end(err) })
}

func (w *Worker) end(problem error) {
	w.client.mutex.Lock()
	delete(w.client.workers, w)
	w.client.mutex.Unlock()
	w.events.close(errors.New("the worker has closed"))
	<-w.told
	w.problem = problem
	close(w.closed)
}

func (w *Worker) tell() {
	defer close(w.told)
	for {
		run, err := w.events.pop()
		if err != nil {
			return
		}
		run()
	}
}

func (w *Worker) settled(attempt *Attempt, settled Settled) {
	if w.options.OnSettled != nil {
		w.events.push(func() { w.options.OnSettled(attempt, settled) })
	}
}

func (w *Worker) refused(err *Error) {
	w.logger.Warn("the server refused the outcome of a task", "task", err.TaskID, "error", err, "code", err.Code)
	if w.options.OnRefused != nil {
		w.events.push(func() { w.options.OnRefused(err) })
	}
}

func (w *Worker) connected(err *Error) {
	if err != nil {
		w.logger.Warn("no connection to the server", "error", err, "code", err.Code)
	}
	if w.options.OnConnection != nil {
		w.events.push(func() { w.options.OnConnection(err) })
	}
}

// handle runs the handler of an attempt, and says how it ended.
func (w *Worker) handle(ctx context.Context, handler Handler, attempt *Attempt) outcome {
	ctx, end := w.client.options.Tracing.Handle(context.WithValue(ctx, attemptKey{}, attempt), attempt)
	result, err := runSafely(ctx, handler, attempt.Payload)
	end(err)
	if err == nil {
		return outcome{kind: Completed, result: result}
	}
	var reason *Error
	if ctx.Err() != nil {
		errors.As(context.Cause(ctx), &reason)
	}
	if reason != nil {
		switch reason.Code {
		case "handler_timeout", "task_timeout":
			err = reason
		default:
			// The handler did not fail: it was told to stop.
			return outcome{kind: HandedBack}
		}
	}
	w.logger.Warn("a task failed", "queue", attempt.Task, "task", attempt.ID, "attempt", attempt.Number, "error", err)
	return outcomeOf(err, handler, attempt.Number)
}

type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// LogValue has the stack too.
func (e *panicError) LogValue() slog.Value {
	return slog.GroupValue(slog.String("message", e.Error()), slog.String("stack", string(e.stack)))
}

func runSafely(ctx context.Context, handler Handler, payload []byte) (result []byte, err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		// Also after runtime.Goexit, which a failed assertion calls, say.
		err = &panicError{recover(), debug.Stack()}
	}()
	result, err = handler.run(ctx, payload)
	returned = true
	return result, err
}

// outcome is what the server is to be told about an attempt: Completed, Failed, Retry or HandedBack.
type outcome struct {
	kind    Settled
	result  []byte
	text    string
	stack   string
	delayMs uint64
	// For how long the lane of the task is held.
	holdSeconds int32
}

func outcomeOf(err error, handler Handler, attempt int) outcome {
	text, stack := reasonOf(err), stackOf(err)
	if permanent := (*permanentError)(nil); errors.As(err, &permanent) {
		return outcome{kind: Failed, text: text}
	}
	if delayed := (*delayedError)(nil); errors.As(err, &delayed) {
		return outcome{kind: Retry, text: text, delayMs: delayMs(delayed.delay)}
	}
	if held := (*heldError)(nil); errors.As(err, &held) {
		return outcome{kind: Retry, text: text, holdSeconds: max(1, min(wholeSeconds(max(0, held.hold)), holdSecondsMax))}
	}
	if handler.options.RetryDelay != nil {
		return outcome{kind: Retry, text: text, stack: stack, delayMs: delayMs(handler.options.RetryDelay(attempt, err))}
	}
	return outcome{kind: Retry, text: text, stack: stack}
}

// delayMs is not zero, which would leave it to the server's policy.
func delayMs(delay time.Duration) uint64 {
	return max(1, min(wholeMs(delay), 1000*delaySecondsMax))
}

// stackOf is where a handler panicked; other errors have no stack.
func stackOf(err error) string {
	panicked := (*panicError)(nil)
	if !errors.As(err, &panicked) {
		return ""
	}
	return strings.ToValidUTF8(string(panicked.stack[:min(len(panicked.stack), stackBytesMax)]), "")
}

// reasonOf is never empty, and no longer than the server takes.
func reasonOf(err error) string {
	// What the server says when it notices first.
	if CodeOf(err) == "task_timeout" {
		return "TIMEOUT"
	}
	text := strings.ToValidUTF8(err.Error(), "\uFFFD")
	if strings.TrimSpace(text) == "" {
		return "the handler failed without a message"
	}
	return cutText(text, reasonCharsMax)
}
