package codeq

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strconv"
	"time"

	"codeq/producerpb"
)

// InBatch makes the task a member of an open batch.
func InBatch(id string) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.BatchId = id }
}

// After keeps the task from workers until the tasks with these ids have succeeded.
func After(ids ...string) EnqueueOption {
	return func(task *producerpb.CreateTask) { task.After = ids }
}

// BatchOptions says when the callback of a batch runs.
type BatchOptions struct {
	// On is "success" (default): the callback runs when every member succeeded; or "end": when every member has ended.
	On string
	// FailFast cancels the members that have not ended at the first failure.
	FailFast bool
	// OpenFor is how long the batch may stay open, in whole seconds; the default is 24 hours.
	OpenFor time.Duration
}

// Batch is a batch of the server, by its id.
type Batch struct {
	client *Client
	id     string
}

// Batch is a batch that was created earlier, such as that of an [Attempt].
func (c *Client) Batch(id string) *Batch { return &Batch{c, id} }

// CallBack creates an open batch whose callback is this task. Add members with [InBatch], then call Seal. The same call
// with the same id gives the same batch.
func (t *Task[In, Out]) CallBack(ctx context.Context, client *Client, id string, input In, options BatchOptions) (*Batch, *Run[Out], error) {
	payload, err := encodeWithin(input, "input", t.name)
	if err != nil {
		return nil, nil, err
	}
	task := &producerpb.CreateTask{}
	for _, option := range t.defaults {
		option(task)
	}
	body := map[string]any{
		"command": t.name, "payload": json.RawMessage(payload), "priority": task.Priority, "maxAttempts": task.MaxAttempts,
		"webhook": task.Webhook, "timeoutSeconds": task.TimeoutSeconds, "ttlSeconds": task.TtlSeconds,
		"failFast": options.FailFast,
	}
	if len(task.Tags) > 0 {
		body["tags"] = task.Tags
	}
	if options.On != "" {
		body["on"] = options.On
	}
	if options.OpenFor > 0 {
		body["openSeconds"] = wholeSeconds(options.OpenFor)
	}
	var made struct{ CallbackID string }
	batch := client.Batch(id)
	if err := client.ask(ctx, "PUT", batch.path(""), body, &made); err != nil {
		return nil, nil, err
	}
	return batch, t.Run(client, made.CallbackID), nil
}

// ID is the id of the batch.
func (b *Batch) ID() string { return b.id }

// BatchEnd is how the members of a batch ended.
type BatchEnd struct {
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
}

// BatchProgress is how far a batch has come.
type BatchProgress struct {
	BatchEnd
	Phase string `json:"phase"`
	// All members, and those that have not ended.
	Total   int `json:"total"`
	Pending int `json:"pending"`
}

// Seal ends the adding of members: the callback runs when those that were added have ended.
func (b *Batch) Seal(ctx context.Context) (BatchProgress, error) { return b.ask(ctx, "POST", "/seal") }

// Progress asks the server how far the batch has come.
func (b *Batch) Progress(ctx context.Context) (BatchProgress, error) { return b.ask(ctx, "GET", "") }

// Cancel cancels the callback and, in the background, the members that have not ended.
func (b *Batch) Cancel(ctx context.Context) (BatchProgress, error) {
	return b.ask(ctx, "POST", "/cancel")
}

// BatchMember is a member of a batch, with its result once it has ended.
type BatchMember struct {
	TaskID string          `json:"taskId"`
	Task   string          `json:"command"`
	Status string          `json:"status"`
	Error  string          `json:"error"`
	Result json.RawMessage `json:"result"`
}

// Output reads what the handler of the member returned.
func (m BatchMember) Output(into any) error { return decodeOutput(m.Result, into) }

// Results gives the members, or only those that failed, until the callback is deleted. It ends after an error.
func (b *Batch) Results(ctx context.Context, onlyFailed bool) iter.Seq2[BatchMember, error] {
	return func(yield func(BatchMember, error) bool) {
		query := url.Values{"failed": {strconv.FormatBool(onlyFailed)}}
		for {
			var page struct {
				Members []BatchMember
				Next    string
			}
			if err := b.client.ask(ctx, "GET", b.path("/results?"+query.Encode()), nil, &page); err != nil {
				yield(BatchMember{}, err)
				return
			}
			for _, member := range page.Members {
				if !yield(member, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("after", page.Next)
		}
	}
}

func (b *Batch) ask(ctx context.Context, method, path string) (BatchProgress, error) {
	var progress BatchProgress
	return progress, b.client.ask(ctx, method, b.path(path), nil, &progress)
}

func (b *Batch) path(rest string) string { return "/batches/" + url.PathEscape(b.id) + rest }
