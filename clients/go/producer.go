package codeq

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"time"

	"codeq/producerpb"

	"google.golang.org/grpc"
)

const (
	batchMax         = 1000
	batchBytesMax    = 1024 * 1024
	messageOverhead  = 512
	resultWait       = 60 * time.Second
	httpBatchMax     = 100
	defaultStoreTime = 30 * time.Second
)

// creation is a task on its way. It is sent again in the next session until it is acknowledged, with the same
// idempotency key, so it is never stored twice.
type creation struct {
	message *producerpb.CreateTask
	tries   int
	taskID  string
	err     error
	// Closed when one of them is set.
	stored chan struct{}
}

type awaited struct {
	taskID   string
	waiters  int
	refusals int
	result   *producerpb.TaskResult
	err      error
	ended    chan struct{}
}

func (a *awaited) isOver() bool { return a.result != nil || a.err != nil }

// producer creates tasks and waits for results over one connection.
type producer struct {
	mutex       sync.Mutex
	connection  *connection[producerpb.ProducerEvent, producerpb.ServerEvent]
	creations   map[uint64]*creation
	unsent      []*creation
	awaited     map[string]*awaited
	keyPrefix   string
	lastSeq     uint64
	isScheduled bool
	isClosed    bool
}

func newProducer(t *transports, token func(context.Context) (string, error)) *producer {
	p := &producer{
		creations: map[uint64]*creation{},
		awaited:   map[string]*awaited{},
		keyPrefix: "auto:" + randomText() + ":",
	}
	p.connection = &connection[producerpb.ProducerEvent, producerpb.ServerEvent]{
		mutex: &p.mutex, transports: t, kind: producerKind, token: token, listener: p,
		hello: func(token string) *producerpb.ProducerEvent {
			hello := &producerpb.Hello{Token: token}
			return &producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_Hello{Hello: hello}}
		},
	}
	return p
}

// create waits until each task is stored or refused, in the order of the messages.
func (p *producer) create(ctx context.Context, messages []*producerpb.CreateTask) ([]*creation, error) {
	p.mutex.Lock()
	if p.isClosed {
		p.mutex.Unlock()
		return nil, closedError()
	}
	created := make([]*creation, len(messages))
	for i, message := range messages {
		p.lastSeq++
		message.Seq = p.lastSeq
		if message.IdempotencyKey == "" {
			message.IdempotencyKey = fmt.Sprint(p.keyPrefix, p.lastSeq)
		}
		created[i] = &creation{message: message, stored: make(chan struct{})}
		p.creations[message.Seq] = created[i]
	}
	p.unsent = append(p.unsent, created...)
	p.schedule()
	p.mutex.Unlock()
	for _, each := range created {
		select {
		case <-each.stored:
		case <-ctx.Done():
			p.giveUp(ctx, created)
			return created, nil
		}
	}
	return created, nil
}

func (p *producer) giveUp(ctx context.Context, created []*creation) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, each := range created {
		if _, isOpen := p.creations[each.message.Seq]; isOpen {
			err := contextError(ctx, "the task was not stored in time"+p.why())
			err.Ambiguous = each.tries > 0
			p.settle(each, "", err)
		}
	}
}

func (p *producer) why() string {
	if p.connection.lastError == nil {
		return ""
	}
	return " (" + p.connection.lastError.Message + ")"
}

func (p *producer) settle(each *creation, taskID string, err error) {
	delete(p.creations, each.message.Seq)
	each.taskID, each.err = taskID, err
	close(each.stored)
}

func (p *producer) result(ctx context.Context, taskID string) (*producerpb.TaskResult, error) {
	p.mutex.Lock()
	if p.isClosed {
		p.mutex.Unlock()
		return nil, closedError()
	}
	found := p.awaited[taskID]
	if found == nil {
		found = &awaited{taskID: taskID, ended: make(chan struct{})}
		p.awaited[taskID] = found
		p.ask(found)
		p.connection.connect()
	}
	found.waiters++
	p.mutex.Unlock()
	var problem *Error
	select {
	case <-found.ended:
	case <-ctx.Done():
		problem = contextError(ctx, "task "+taskID+" has no result yet")
		problem.TaskID = taskID
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	found.waiters--
	if found.waiters == 0 && p.awaited[taskID] == found {
		delete(p.awaited, taskID)
	}
	if found.isOver() {
		return found.result, found.err
	}
	problem.Message += p.why()
	return nil, problem
}

func (p *producer) close() {
	p.mutex.Lock()
	p.isClosed = true
	p.mutex.Unlock()
	p.connection.close()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.failAll(closedError())
}

// What the connection calls.

func (p *producer) opened() {
	for _, each := range p.awaited {
		p.ask(each)
	}
	p.flush()
}

func (p *producer) reply(reply *producerpb.ServerEvent) {
	switch event := reply.Event.(type) {
	case *producerpb.ServerEvent_CreateAck:
		p.acknowledged(event.CreateAck)
	case *producerpb.ServerEvent_CreateAckBatch:
		for _, ack := range event.CreateAckBatch.Acks {
			p.acknowledged(ack)
		}
	case *producerpb.ServerEvent_TaskResult:
		p.answered(event.TaskResult)
	}
}

func (p *producer) lost(*Error) bool {
	bySeq := func(a, b *creation) int { return cmp.Compare(a.message.Seq, b.message.Seq) }
	p.unsent = slices.SortedFunc(maps.Values(p.creations), bySeq)
	return len(p.creations) > 0 || len(p.awaited) > 0
}

func (p *producer) refused(err *Error) bool {
	p.failAll(err)
	return false
}

func (p *producer) mustStay() bool { return false }

func (p *producer) failAll(err *Error) {
	for _, each := range p.creations {
		p.settle(each, "", err)
	}
	for _, each := range p.awaited {
		p.end(each, nil, err)
	}
}

func (p *producer) end(each *awaited, result *producerpb.TaskResult, err error) {
	if !each.isOver() {
		each.result, each.err = result, err
		close(each.ended)
	}
}

// schedule lets what is asked for at the same time travel together.
func (p *producer) schedule() {
	if p.isScheduled {
		return
	}
	p.isScheduled = true
	go func() {
		runtime.Gosched()
		p.mutex.Lock()
		defer p.mutex.Unlock()
		p.isScheduled = false
		p.flush()
	}()
}

func (p *producer) flush() {
	if !p.connection.isOpen {
		if len(p.creations) > 0 {
			p.connection.connect()
		}
		return
	}
	var batch []*producerpb.CreateTask
	size := 0
	for _, each := range p.unsent {
		if p.creations[each.message.Seq] != each {
			continue
		}
		each.tries++
		if len(batch) >= batchMax || size+len(each.message.Payload) > batchBytesMax {
			p.send(batch)
			batch, size = nil, 0
		}
		batch = append(batch, each.message)
		size += len(each.message.Payload) + messageOverhead
	}
	p.unsent = nil
	p.send(batch)
}

func (p *producer) send(batch []*producerpb.CreateTask) {
	switch len(batch) {
	case 0:
	case 1:
		p.connection.send(&producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_Create{Create: batch[0]}})
	default:
		tasks := &producerpb.CreateTaskBatch{Tasks: batch}
		p.connection.send(&producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_CreateBatch{CreateBatch: tasks}})
	}
}

func (p *producer) acknowledged(ack *producerpb.CreateAck) {
	each := p.creations[ack.Seq]
	switch {
	case each == nil:
	case ack.Ok:
		p.settle(each, ack.TaskId, nil)
	case retryable[ack.ErrorCode]:
		p.unsent = append(p.unsent, each)
		p.after(pauseAfter(each.tries), p.flush)
	default:
		p.settle(each, "", &Error{Code: ack.ErrorCode, Message: ack.ErrorMessage})
	}
}

func (p *producer) ask(each *awaited) {
	if each.isOver() {
		return
	}
	asked := &producerpb.AwaitResult{TaskId: each.taskID, WaitSeconds: int32(resultWait / time.Second)}
	p.connection.send(&producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_AwaitResult{AwaitResult: asked}})
}

func (p *producer) answered(result *producerpb.TaskResult) {
	each := p.awaited[result.TaskId]
	switch {
	case each == nil:
	case result.Ok:
		p.end(each, result, nil)
	case result.ErrorCode == "result_not_found":
		p.ask(each)
	case retryable[result.ErrorCode]:
		each.refusals++
		p.after(pauseAfter(each.refusals), func() { p.ask(each) })
	default:
		err := &Error{Code: result.ErrorCode, Message: result.ErrorMessage, TaskID: result.TaskId}
		p.end(each, nil, err)
	}
}

func (p *producer) after(pause time.Duration, run func()) {
	time.AfterFunc(pause, func() {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		run()
	})
}

type producerSession = httpSession[producerpb.ProducerEvent, producerpb.ServerEvent]

var producerKind = &kind[producerpb.ProducerEvent, producerpb.ServerEvent]{
	port: "producer", otherPort: "worker",
	stream: func(ctx context.Context, cc grpc.ClientConnInterface) (grpc.BidiStreamingClient[producerpb.ProducerEvent, producerpb.ServerEvent], error) {
		return producerpb.NewProducerStreamClient(cc).Stream(ctx)
	},
	instance:  func(reply *producerpb.ServerEvent) string { return reply.GetHelloAck().GetInstance() },
	request:   producerRequest,
	isWaiting: func(event *producerpb.ProducerEvent) bool { return event.GetAwaitResult() != nil },
}

func producerRequest(ctx context.Context, s *producerSession, event *producerpb.ProducerEvent) error {
	switch event := event.Event.(type) {
	case *producerpb.ProducerEvent_Hello:
		ack := &producerpb.ServerEvent_HelloAck{HelloAck: &producerpb.HelloAck{}}
		return s.greet(ctx, &producerpb.ServerEvent{Event: ack})
	case *producerpb.ProducerEvent_Create:
		return httpCreate(ctx, s, []*producerpb.CreateTask{event.Create})
	case *producerpb.ProducerEvent_CreateBatch:
		return httpCreateBatch(ctx, s, event.CreateBatch.Tasks)
	case *producerpb.ProducerEvent_AwaitResult:
		return httpResult(ctx, s, event.AwaitResult)
	}
	return nil
}

// A request has one trace context, one idempotency mode and a limited number of tasks.
func httpCreateBatch(ctx context.Context, s *producerSession, tasks []*producerpb.CreateTask) error {
	for len(tasks) > 0 {
		first, count := tasks[0], 1
		for count < min(len(tasks), httpBatchMax) && hasSameHeaders(tasks[count], first) {
			count++
		}
		if err := httpCreate(ctx, s, tasks[:count]); err != nil {
			return err
		}
		tasks = tasks[count:]
	}
	return nil
}

func hasSameHeaders(a, b *producerpb.CreateTask) bool {
	return a.TraceParent == b.TraceParent && a.TraceState == b.TraceState && a.IdempotencyMode == b.IdempotencyMode
}

type uniqueFields struct {
	Key     string `json:"key"`
	While   string `json:"while,omitempty"`
	On      string `json:"on,omitempty"`
	For     string `json:"for,omitempty"`
	MaxWait string `json:"maxWait,omitempty"`
}

type creationFields struct {
	Command        string          `json:"command"`
	Priority       int32           `json:"priority,omitempty"`
	Webhook        string          `json:"webhook,omitempty"`
	MaxAttempts    int32           `json:"maxAttempts,omitempty"`
	IdempotencyKey string          `json:"idempotencyKey,omitempty"`
	DelaySeconds   float64         `json:"delaySeconds,omitempty"`
	RunAt          string          `json:"runAt,omitempty"`
	Tags           []string        `json:"tags,omitempty"`
	TimeoutSeconds int32           `json:"timeoutSeconds,omitempty"`
	TTLSeconds     int32           `json:"ttlSeconds,omitempty"`
	Unique         *uniqueFields   `json:"unique,omitempty"`
	Lane           string          `json:"lane,omitempty"`
	Cost           int32           `json:"cost,omitempty"`
	BatchID        string          `json:"batchId,omitempty"`
	After          []string        `json:"after,omitempty"`
	Payload        json.RawMessage `json:"payload"`
}

func fieldsOf(task *producerpb.CreateTask) creationFields {
	fields := creationFields{
		Command: task.Command, Priority: task.Priority, Webhook: task.Webhook, MaxAttempts: task.MaxAttempts,
		IdempotencyKey: task.IdempotencyKey, DelaySeconds: float64(task.DelayMs) / 1000, Tags: task.Tags,
		TimeoutSeconds: task.TimeoutSeconds, TTLSeconds: task.TtlSeconds, Lane: task.Lane, Cost: task.Cost,
		Payload: task.Payload, BatchID: task.BatchId, After: task.After,
	}
	if task.RunAt != nil {
		fields.RunAt = task.RunAt.AsTime().Format(time.RFC3339Nano)
	}
	if task.UniqueKey != "" {
		fields.Unique = &uniqueFields{
			Key: task.UniqueKey, While: task.UniqueWhile, On: task.UniqueOn,
			For: task.UniqueFor, MaxWait: task.UniqueMaxWait,
		}
	}
	return fields
}

func httpCreate(ctx context.Context, s *producerSession, tasks []*producerpb.CreateTask) error {
	headers := map[string]string{}
	if mode := tasks[0].IdempotencyMode; mode != "" {
		headers["codeq-idempotency-mode"] = mode
	}
	if parent := tasks[0].TraceParent; parent != "" {
		headers["traceparent"] = parent
		if state := tasks[0].TraceState; state != "" {
			headers["tracestate"] = state
		}
	}
	fields := make([]creationFields, len(tasks))
	for i, task := range tasks {
		fields[i] = fieldsOf(task)
	}
	body, err := encode(map[string]any{"tasks": fields})
	if err != nil {
		return err
	}
	var answer struct {
		Results []struct {
			Task        struct{ ID string }
			Error, Code string
		}
	}
	_, err = s.ask(ctx, "POST", "/tasks/batch", body, headers, 0, &answer)
	if CodeOf(err) == "unavailable" || ctx.Err() != nil {
		return err
	}
	batch := &producerpb.CreateAckBatch{}
	for i, task := range tasks {
		ack := &producerpb.CreateAck{Seq: task.Seq}
		switch {
		case err != nil:
			ack.ErrorCode, ack.ErrorMessage = CodeOf(err), err.Error()
		case i < len(answer.Results):
			said := answer.Results[i]
			ack.Ok, ack.TaskId = said.Task.ID != "", said.Task.ID
			ack.ErrorCode, ack.ErrorMessage = said.Code, said.Error
		}
		batch.Acks = append(batch.Acks, ack)
	}
	s.replies.push(&producerpb.ServerEvent{Event: &producerpb.ServerEvent_CreateAckBatch{CreateAckBatch: batch}})
	return nil
}

func httpResult(ctx context.Context, s *producerSession, asked *producerpb.AwaitResult) error {
	found := &producerpb.TaskResult{TaskId: asked.TaskId}
	var answer struct {
		Result struct {
			Status, Error string
			Result        json.RawMessage
		}
		Task struct {
			Attempts          int32
			LastKnownLocation string
		}
	}
	path := fmt.Sprintf("/tasks/%s/result?waitSeconds=%d", url.PathEscape(asked.TaskId), asked.WaitSeconds)
	_, err := s.ask(ctx, "GET", path, nil, nil, time.Duration(asked.WaitSeconds)*time.Second, &answer)
	switch {
	case CodeOf(err) == "unavailable" || ctx.Err() != nil:
		return err
	case err != nil:
		found.ErrorCode, found.ErrorMessage = CodeOf(err), err.Error()
	default:
		found.Ok, found.Status, found.Error = true, answer.Result.Status, answer.Result.Error
		found.ResultJson = bytes.TrimSpace(answer.Result.Result)
		found.Attempts = answer.Task.Attempts
		// An attempt that ended with a result did not come back, but it counts as an attempt.
		if answer.Task.LastKnownLocation != "DLQ_SET" {
			found.Attempts++
		}
	}
	s.replies.push(&producerpb.ServerEvent{Event: &producerpb.ServerEvent_TaskResult{TaskResult: found}})
	return nil
}
