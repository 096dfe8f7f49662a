package codeq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"time"

	"codeq/producerpb"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// The server takes messages of 4 MiB.
const payloadBytesMax = 4*1024*1024 - 64*1024

// Task is a kind of task: the name of its queue, and the types of its input and output, which travel as JSON.
type Task[In, Out any] struct {
	name     string
	defaults []EnqueueOption
}

// NewTask defines a task. The options hold for each task that is enqueued, before those of Enqueue.
func NewTask[In, Out any](name string, defaults ...EnqueueOption) *Task[In, Out] {
	return &Task[In, Out]{name, defaults}
}

// Name is the name of the queue.
func (t *Task[In, Out]) Name() string { return t.name }

// EnqueueOption says how a task is enqueued.
type EnqueueOption func(*producerpb.CreateTask)

// Delay keeps the task from workers for so long, to the millisecond.
func Delay(delay time.Duration) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.DelayMs = wholeMs(delay) }
}

// RunAt keeps the task from workers until then; it wins over Delay.
func RunAt(at time.Time) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.RunAt = timestamppb.New(at) }
}

// Priority is from 0 to 9; higher ones come first.
func Priority(priority int) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.Priority = int32(priority) }
}

// MaxAttempts is how often a worker gets the task before it is a dead letter.
func MaxAttempts(attempts int) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.MaxAttempts = int32(attempts) }
}

// IdempotencyKey: a second task with the same key is the first one.
func IdempotencyKey(key string) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.IdempotencyKey = key }
}

// IdempotencyMode says what a key does whose first task had another input: "strict" refuses this task, "first" gives the
// first one. The default is the setting of the server, which is "strict" unless it was changed.
func IdempotencyMode(mode string) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.IdempotencyMode = mode }
}

// Unique says that one task of the queue at a time has the key.
type Unique struct {
	// Such as the id of an account.
	Key string
	// While a task has its key: "unfinished" (default) until it has ended, "waiting" until a worker begins it.
	While string
	// On says what happens when a task has the key: "return" (default) gives that task, "refuse" fails with the code
	// unique_key_held, "replace" and "latest" give the waiting task the new input, priority and time, and "cancel"
	// cancels the task and creates this one.
	On string
	// For is how long the key is held at least, also when the task ends before.
	For time.Duration
	// MaxWait is how long later calls may put off the task.
	MaxWait time.Duration
}

// UniqueBy lets one task of the queue at a time have a key.
func UniqueBy(unique Unique) EnqueueOption {
	return func(task *producerpb.CreateTask) {
		task.UniqueKey, task.UniqueWhile, task.UniqueOn = unique.Key, unique.While, unique.On
		task.UniqueFor, task.UniqueMaxWait = lengthOf(unique.For), lengthOf(unique.MaxWait)
	}
}

// Lane gives the task a lane: limits, rates and fair shares apply to the tasks of the queue with the same lane.
func Lane(lane string) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.Lane = lane }
}

// Cost is how many units of rates and fair shares the task takes; the default is 1.
func Cost(units int) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.Cost = int32(units) }
}

// lengthOf is empty for none, and otherwise as a person would write it: 90s, 2m, 1h.
func lengthOf(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	ms := time.Duration(wholeMs(d)) * time.Millisecond
	for _, unit := range []struct {
		name   string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if ms%unit.length == 0 {
			return fmt.Sprint(int64(ms/unit.length), unit.name)
		}
	}
	return fmt.Sprint(ms.Milliseconds(), "ms")
}

// ExecutionTimeout is how long a worker may take for one attempt.
func ExecutionTimeout(timeout time.Duration) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.TimeoutSeconds = wholeSeconds(timeout) }
}

// TTL is how long the task may wait for a worker once it may be claimed.
func TTL(ttl time.Duration) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.TtlSeconds = wholeSeconds(ttl) }
}

// Tags are labels to find the task by.
func Tags(tags ...string) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.Tags = tags }
}

// Webhook is the URL that gets the result.
func Webhook(address string) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.Webhook = address }
}

// wholeMs rounds up.
func wholeMs(d time.Duration) uint64 {
	return uint64(max(0, (d+time.Millisecond-1)/time.Millisecond))
}

// wholeSeconds rounds up.
func wholeSeconds(d time.Duration) int32 {
	return int32(min((d+time.Second-1)/time.Second, math.MaxInt32))
}

// Enqueue returns when the task is stored. A task that was not acknowledged is sent again, and stored once. It
// tries for 30 seconds when the context has no deadline.
func (t *Task[In, Out]) Enqueue(ctx context.Context, client *Client, input In, options ...EnqueueOption) (*Run[Out], error) {
	runs, err := t.EnqueueMany(ctx, client, []In{input}, options...)
	if err != nil {
		if each := (*EnqueueManyError)(nil); errors.As(err, &each) {
			return nil, each.Errors[0]
		}
		return nil, err
	}
	return runs[0], nil
}

// EnqueueMany enqueues a task for each input, with the same options. It is not one transaction: an
// [*EnqueueManyError] says which tasks were not stored.
func (t *Task[In, Out]) EnqueueMany(ctx context.Context, client *Client, inputs []In, options ...EnqueueOption) ([]*Run[Out], error) {
	items := make([]Item[In], len(inputs))
	for i, input := range inputs {
		items[i] = Item[In]{input, options}
	}
	return t.EnqueueItems(ctx, client, items)
}

// Item is one task of several.
type Item[In any] struct {
	Input   In
	Options []EnqueueOption
}

// EnqueueItems is EnqueueMany with options for each task.
func (t *Task[In, Out]) EnqueueItems(ctx context.Context, client *Client, items []Item[In]) (runs []*Run[Out], err error) {
	if len(items) == 0 {
		return nil, nil
	}
	if _, hasDeadline := ctx.Deadline(); !hasDeadline {
		limited, cancel := context.WithTimeout(ctx, defaultStoreTime)
		defer cancel()
		ctx = limited
	}
	trace, end := client.options.Tracing.Enqueue(ctx, t.name, len(items))
	defer func() { end(err) }()
	messages := make([]*producerpb.CreateTask, len(items))
	for i, item := range items {
		payload, err := encodeWithin(item.Input, "input", t.name)
		if err != nil {
			return nil, err
		}
		message := &producerpb.CreateTask{Command: t.name, Payload: payload, TraceParent: trace.Parent, TraceState: trace.State}
		for _, options := range [][]EnqueueOption{t.defaults, item.Options} {
			for _, option := range options {
				option(message)
			}
		}
		messages[i] = message
	}
	created, err := client.producer.create(ctx, messages)
	if err != nil {
		return nil, err
	}
	problem := &EnqueueManyError{Errors: make([]error, len(items)), IDs: make([]string, len(items))}
	runs = make([]*Run[Out], len(items))
	for i, each := range created {
		problem.Errors[i], problem.IDs[i] = each.err, each.taskID
		if each.err != nil {
			problem.refused++
		}
		runs[i] = t.Run(client, each.taskID)
	}
	if problem.refused > 0 {
		return nil, problem
	}
	return runs, nil
}

// EnqueueManyError says what became of each task: its id, or the error.
type EnqueueManyError struct {
	IDs     []string
	Errors  []error
	refused int
}

func (e *EnqueueManyError) Error() string {
	return fmt.Sprintf("%d of %d tasks were not stored: %v", e.refused, len(e.Errors), errors.Join(e.Errors...))
}

// Unwrap gives the errors of the tasks that were not stored.
func (e *EnqueueManyError) Unwrap() []error {
	var errs []error
	for _, err := range e.Errors {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Run is a task that was enqueued.
type Run[Out any] struct {
	client *Client
	id     string
}

// Run is a task that was enqueued earlier, or elsewhere.
func (t *Task[In, Out]) Run(client *Client, id string) *Run[Out] { return &Run[Out]{client, id} }

// RunByKey is the task of an idempotency key. The code of the error is not_found when no task has the key, and
// task_deleted when its task has ended and was deleted; then TaskID is its id.
func (t *Task[In, Out]) RunByKey(ctx context.Context, client *Client, key string) (*Run[Out], error) {
	var found struct{ ID string }
	if err := client.ask(ctx, "GET", "/tasks/by-key/"+url.PathEscape(key), nil, &found); err != nil {
		return nil, err
	}
	return t.Run(client, found.ID), nil
}

// ID is the id of the task.
func (r *Run[Out]) ID() string { return r.id }

// Result waits until the task has ended, or the context. The error is a [*TaskFailed] when the task failed.
func (r *Run[Out]) Result(ctx context.Context) (Out, error) {
	var output Out
	found, err := r.client.producer.result(ctx, r.id)
	if err != nil {
		return output, err
	}
	if found.Status != "COMPLETED" {
		return output, &TaskFailed{TaskID: r.id, Reason: found.Error, Attempts: int(found.Attempts)}
	}
	if err := decodeOutput(found.ResultJson, &output); err != nil {
		message := fmt.Sprintf("the output of task %s does not fit: %v", r.id, err)
		return output, &Error{Code: "invalid_output", Message: message, TaskID: r.id, cause: err}
	}
	return output, nil
}

// Cancel ends the task as failed, with the reason CANCELLED. When a worker has it, its handler is told to stop, and
// loses the task after the grace; a negative grace is the default of the server.
func (r *Run[Out]) Cancel(ctx context.Context, grace time.Duration) error {
	body := map[string]any{}
	if grace >= 0 {
		body["graceSeconds"] = wholeSeconds(grace)
	}
	return r.client.ask(ctx, "POST", "/tasks/"+url.PathEscape(r.id)+"/cancel", body, nil)
}

// Status is where a task is and how it got there.
type Status struct {
	ID          string    `json:"id"`
	Task        string    `json:"command"`
	Status      string    `json:"status"`
	Priority    int       `json:"priority"`
	Attempts    int       `json:"attempts"`
	MaxAttempts int       `json:"maxAttempts"`
	Error       string    `json:"error"`
	Tags        []string  `json:"tags"`
	CreatedAt   time.Time `json:"createdAt"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// Status asks the server where the task is.
func (r *Run[Out]) Status(ctx context.Context) (Status, error) {
	var status Status
	return status, r.client.ask(ctx, "GET", "/tasks/"+url.PathEscape(r.id), nil, &status)
}

func encodeWithin(value any, what, task string) ([]byte, error) {
	data, err := encode(value)
	if err != nil {
		message := fmt.Sprintf("the %s of %s cannot be written as JSON: %v", what, task, err)
		return nil, &Error{Code: "invalid_" + what, Message: message, cause: err}
	}
	if len(data) > payloadBytesMax {
		message := fmt.Sprintf("the %s of %s has %d bytes, and at most %d are taken; store it elsewhere and pass a reference", what, task, len(data), payloadBytesMax)
		code := "invalid_output"
		if what == "input" {
			code = "payload_too_large"
		}
		return nil, &Error{Code: code, Message: message}
	}
	return data, nil
}

const wrapperKey = "$value"

var wrapped = []byte(`{"` + wrapperKey + `":`)

// encodeOutput makes a result for the server, which has to be a JSON object. Anything else is put into an object
// with one key, and so is an object that could be mistaken for that, or for no output.
func encodeOutput(output any, task string) ([]byte, error) {
	data, err := encodeWithin(output, "output", task)
	if err != nil {
		return nil, err
	}
	if data[0] == '{' && len(data) > len("{}") && !bytes.HasPrefix(data, wrapped) {
		return data, nil
	}
	return append(append(bytes.Clone(wrapped), data...), '}'), nil
}

func decodeOutput(data []byte, into any) error {
	if len(data) == 0 {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	if len(fields) == 0 {
		return nil
	}
	if value, isWrapped := fields[wrapperKey]; isWrapped && len(fields) == 1 {
		data = value
	}
	return json.Unmarshal(data, into)
}
