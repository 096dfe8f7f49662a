package codeq

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"codeq/workerpb"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// More than one, so that the next tasks are on their way while these are worked on.
	readysMax        = 8
	tasksPerReadyMax = 256
	tickMax          = 500 * time.Millisecond
	ticksPerLease    = 12
	// What a handler says is sent at most this often.
	newsPause = time.Second
	// How long a handler that was told to stop may go on before it is given up.
	stopTimeMax = 5 * time.Second
	// How long a closing worker waits for the acknowledgements of what it has to tell.
	tellTimeMax = 10 * time.Second
)

// Refusals of a Ready that another one would meet as well.
var hopeless = map[string]bool{"missing_scope": true, "event_type_not_allowed": true, "invalid_command": true, "invalid_argument": true}

// The lease is somebody else's, or nobody's: what a repeat of an outcome that worked is told.
var overtaken = map[string]bool{"not_owner": true, "not_in_progress": true, "task_unknown": true}

type leaseKey struct {
	taskID string
	token  uint64
}

// leased is a task that the worker has. It occupies a slot until its handler has ended, and its lease is kept until
// the server has acknowledged how it ended, through any number of connections.
type leased struct {
	key     leaseKey
	handler Handler
	attempt *Attempt
	// What the producer leaves an attempt; zero for any time.
	producerLimit time.Duration
	arrivedAt     time.Time
	// When the lease was last asked for, and the beginning of the last one that was confirmed.
	beatAt, confirmedAt time.Time
	isRunning, isKept   bool
	stop                context.CancelCauseFunc
	isTold              bool
	timer               *time.Timer
	outcome             *outcome
	isSent              bool
	tries               int
}

type coreState int

const (
	// Asks for tasks while it has free slots.
	running coreState = iota
	// Asks for no more; ends when its tasks are finished or handed back.
	draining
	closed
)

// workerCore is the part of a worker that talks to the server.
type workerCore struct {
	worker   *Worker
	commands []string
	claim    time.Duration
	tick     time.Duration

	mutex      sync.Mutex
	connection *connection[workerpb.WorkerEvent, workerpb.ServerEvent]
	state      coreState
	wasOpen    bool
	tasks      map[leaseKey]*leased
	// Received and not started: there were more than asked for.
	waiting     []*leased
	unsent      []*leased
	running     int
	held        []int
	isScheduled bool
	ticking     *time.Timer
	// Closed and replaced when something has ended.
	changed chan struct{}
}

func newWorkerCore(w *Worker, handlers []Handler) *workerCore {
	c := &workerCore{worker: w, tasks: map[leaseKey]*leased{}, changed: make(chan struct{}), claim: handlers[0].options.Lease}
	for _, handler := range handlers {
		c.commands = append(c.commands, handler.name)
		c.claim = min(c.claim, handler.options.Lease)
	}
	c.tick = min(tickMax, c.claim/ticksPerLease)
	c.connection = &connection[workerpb.WorkerEvent, workerpb.ServerEvent]{
		mutex: &c.mutex, transports: w.client.transports, kind: workerKind, token: w.client.token, listener: c,
		hello: func(token string) *workerpb.WorkerEvent {
			hello := &workerpb.Hello{Token: token, WorkerId: w.options.Name}
			return &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Hello{Hello: hello}}
		},
	}
	return c
}

func (c *workerCore) begin() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.connection.connect()
}

// close returns when nothing is left, with an error when the server could not be told everything.
func (c *workerCore) close(grace time.Duration) error {
	c.mutex.Lock()
	if c.state == closed {
		c.mutex.Unlock()
		return nil
	}
	c.state = draining
	waiting := c.waiting
	c.waiting = nil
	for _, task := range waiting {
		c.finish(task, outcome{kind: HandedBack})
	}
	// A Ready cannot be taken back, but the server forgets those of a session that ends.
	c.connection.renew()
	c.mutex.Unlock()
	nothingRuns := func() bool { return c.running == 0 }
	if !c.until(nothingRuns, grace) {
		c.each(func(task *leased) {
			c.tell(task, &Error{Code: "worker_closing", Message: "the worker is shutting down"})
		})
		if !c.until(nothingRuns, stopTimeMax) {
			c.each(func(task *leased) { c.giveUp(task, outcome{kind: HandedBack}) })
		}
	}
	isTold := c.until(func() bool { return len(c.tasks) == 0 }, tellTimeMax)
	if isTold {
		c.connection.close()
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	left, problem := len(c.tasks), c.connection.lastError
	c.halt()
	if isTold {
		return nil
	}
	message := fmt.Sprintf("the server has not acknowledged the results of %d tasks", left)
	if problem != nil {
		message += ": " + problem.Message
	}
	return unavailable(message, nil)
}

func (c *workerCore) each(run func(*leased)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, task := range c.tasks {
		run(task)
	}
}

// until waits for the condition; false when it does not hold in this time.
func (c *workerCore) until(holds func() bool, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		c.mutex.Lock()
		isSo, changed := holds(), c.changed
		c.mutex.Unlock()
		if isSo {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			c.mutex.Lock()
			defer c.mutex.Unlock()
			return holds()
		}
	}
}

func (c *workerCore) change() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *workerCore) halt() {
	c.state = closed
	c.connection.cut()
	if c.ticking != nil {
		c.ticking.Stop()
	}
	for _, task := range c.tasks {
		task.stopTimer()
		task.isRunning = false
	}
	clear(c.tasks)
}

func (t *leased) stopTimer() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// What the connection calls.

func (c *workerCore) opened() {
	c.wasOpen = true
	c.worker.connected(nil)
	for _, task := range c.tasks {
		if task.isKept {
			c.beat(task)
		}
	}
	c.flush()
}

func (c *workerCore) lost(err *Error) bool {
	c.held = nil
	c.unsent = nil
	for _, task := range c.tasks {
		if task.outcome != nil {
			task.isSent = false
			c.unsent = append(c.unsent, task)
		}
	}
	if c.state == running {
		c.worker.connected(err)
	}
	return c.state == running || len(c.tasks) > 0
}

// refused: a token that was good may be good again; one that never was is a mistake.
func (c *workerCore) refused(err *Error) bool {
	if c.wasOpen {
		return c.lost(err)
	}
	c.fail(err)
	return false
}

func (c *workerCore) mustStay() bool { return len(c.tasks) > 0 }

func (c *workerCore) fail(err *Error) {
	if c.state == closed {
		return
	}
	for _, task := range c.tasks {
		c.tell(task, err)
	}
	isDraining := c.state == draining
	c.halt()
	c.change()
	if !isDraining {
		c.worker.fail(err)
	}
}

func (c *workerCore) reply(reply *workerpb.ServerEvent) {
	switch event := reply.Event.(type) {
	case *workerpb.ServerEvent_Task:
		c.received([]*workerpb.Task{event.Task.Task})
	case *workerpb.ServerEvent_TaskBatch:
		c.received(event.TaskBatch.Tasks)
	case *workerpb.ServerEvent_ResultAck:
		c.acknowledged(event.ResultAck, false)
	case *workerpb.ServerEvent_ResultAckBatch:
		for _, ack := range event.ResultAckBatch.Acks {
			c.acknowledged(ack, false)
		}
	case *workerpb.ServerEvent_NackAck:
		c.acknowledged(event.NackAck, event.NackAck.Dlq)
	case *workerpb.ServerEvent_AbandonAck:
		c.acknowledged(event.AbandonAck, false)
	case *workerpb.ServerEvent_HeartbeatAck:
		c.beaten(event.HeartbeatAck)
	case *workerpb.ServerEvent_Error:
		err := &Error{Code: event.Error.ErrorCode, Message: event.Error.Message}
		if hopeless[err.Code] {
			c.fail(err)
		} else {
			c.worker.logger.Warn("the server complains", "error", err, "code", err.Code)
		}
	}
}

// Tasks come in.

func (c *workerCore) received(tasks []*workerpb.Task) {
	if len(c.held) > 0 {
		c.held = c.held[1:]
	}
	if c.state == closed {
		return
	}
	now := time.Now()
	for _, task := range tasks {
		handler, isOurs := c.worker.handlers[strings.ToLower(task.Command)]
		if !isOurs {
			continue
		}
		got := &leased{
			key: leaseKey{task.Id, task.LeaseToken}, handler: handler, attempt: newAttempt(task), arrivedAt: now,
			beatAt: now, confirmedAt: now, isKept: true, producerLimit: time.Duration(task.TimeoutSeconds) * time.Second,
		}
		c.tasks[got.key] = got
		if handler.options.Lease > c.claim {
			c.beat(got)
		}
		switch {
		case c.state != running:
			c.finish(got, outcome{kind: HandedBack})
		case c.running < c.worker.options.Concurrency:
			c.start(got)
		default:
			c.waiting = append(c.waiting, got)
		}
	}
	if c.ticking == nil && len(c.tasks) > 0 {
		c.arm()
	}
	c.schedule()
}

func (c *workerCore) start(task *leased) {
	c.running++
	task.isRunning = true
	ctx, stop := context.WithCancelCause(c.worker.base)
	task.stop = stop
	if limit, err := task.limit(); err != nil {
		task.timer = c.after(limit, func() { c.outOfTime(task, err) })
	}
	go func() {
		ended := c.worker.handle(ctx, task.handler, task.attempt)
		stop(context.Canceled)
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if task.isRunning {
			c.finish(task, ended)
		}
	}()
}

// limit is what ends first: the time that the handler gives itself, or what the producer leaves the attempt.
func (t *leased) limit() (time.Duration, *Error) {
	own, given := t.handler.options.Timeout, t.producerLimit
	left := max(0, given-time.Since(t.arrivedAt))
	if given > 0 && (own == 0 || left <= own) {
		message := fmt.Sprintf("the task may take no longer than %s, as its producer said", given)
		return left, &Error{Code: "task_timeout", Message: message, TaskID: t.key.taskID}
	}
	if own == 0 {
		return 0, nil
	}
	return own, &Error{Code: "handler_timeout", Message: fmt.Sprintf("the handler took longer than %s", own), TaskID: t.key.taskID}
}

func (c *workerCore) outOfTime(task *leased, err *Error) {
	c.tell(task, err)
	task.timer = c.after(stopTimeMax, func() { c.giveUp(task, outcomeOf(err, task.handler, task.attempt.Number)) })
}

// tell the handler to stop.
func (c *workerCore) tell(task *leased, reason *Error) {
	if task.isRunning && !task.isTold {
		task.isTold = true
		task.stop(reason)
	}
}

// giveUp: the handler goes on, but nobody waits for it.
func (c *workerCore) giveUp(task *leased, how outcome) {
	if task.isRunning {
		c.worker.logger.Warn("a handler was told to stop and goes on", "queue", task.attempt.Task, "task", task.key.taskID)
		c.finish(task, how)
	}
}

func (c *workerCore) finish(task *leased, how outcome) {
	if task.isRunning {
		task.isRunning = false
		c.running--
	}
	task.stopTimer()
	if task.isKept && task.attempt.hasNews() {
		c.beat(task)
	}
	task.outcome = &how
	c.unsent = append(c.unsent, task)
	if len(c.waiting) > 0 && c.state == running {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.start(next)
	}
	c.change()
	c.schedule()
}

// Leases are kept.

func (c *workerCore) arm() { c.ticking = c.after(c.tick, c.ticked) }

func (c *workerCore) ticked() {
	c.ticking = nil
	if c.state == closed {
		return
	}
	now := time.Now()
	for _, task := range c.tasks {
		lease := task.handler.options.Lease
		switch {
		case !task.isKept:
		case !now.Before(task.confirmedAt.Add(lease)):
			c.lose(task, fmt.Sprintf("the lease of task %s was not extended within %s", task.key.taskID, lease))
		case task.attempt.hasNews() && !now.Before(task.beatAt.Add(newsPause)), now.Add(c.tick).After(task.beatAt.Add(lease / 3)):
			c.beat(task)
		}
	}
	if len(c.tasks) > 0 {
		c.arm()
	}
}

func (c *workerCore) beat(task *leased) {
	if !c.connection.isOpen {
		return
	}
	task.beatAt = time.Now()
	progress, logs := task.attempt.takeNews()
	beat := &workerpb.Heartbeat{
		TaskId: task.key.taskID, LeaseToken: task.key.token, ExtendSeconds: wholeSeconds(task.handler.options.Lease),
		Progress: progress, Logs: logs,
	}
	c.connection.send(&workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Heartbeat{Heartbeat: beat}})
}

func (c *workerCore) beaten(ack *workerpb.HeartbeatAck) {
	task := c.find(ack)
	switch {
	case task == nil || !task.isKept:
	case ack.Cancelled:
		message := fmt.Sprintf("task %s was cancelled; its handler should stop", ack.TaskId)
		c.tell(task, &Error{Code: "task_cancelled", Message: message, TaskID: ack.TaskId})
	case ack.Ok:
		task.confirmedAt = task.beatAt
	case !retryable[ack.ErrorCode]:
		c.lose(task, fmt.Sprintf("the lease of task %s is lost: %s", ack.TaskId, ack.ErrorMessage))
	}
}

func (c *workerCore) lose(task *leased, message string) {
	task.isKept = false
	c.tell(task, &Error{Code: "lease_lost", Message: message, TaskID: task.key.taskID})
}

// Outcomes go out.

// schedule lets what ends at the same time travel together.
func (c *workerCore) schedule() {
	if c.isScheduled {
		return
	}
	c.isScheduled = true
	go func() {
		runtime.Gosched()
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.isScheduled = false
		c.flush()
	}()
}

func (c *workerCore) flush() {
	if c.state == closed {
		return
	}
	if !c.connection.isOpen {
		// A worker that is closing and has something to tell after all.
		if len(c.unsent) > 0 {
			c.connection.connect()
		}
		return
	}
	c.sendOutcomes()
	if c.state != running {
		return
	}
	free := c.worker.options.Concurrency - c.running - len(c.waiting)
	for _, count := range c.held {
		free -= count
	}
	for free > 0 && len(c.held) < readysMax {
		count := min(free, tasksPerReadyMax)
		c.held = append(c.held, count)
		free -= count
		ready := &workerpb.Ready{Commands: c.commands, LeaseSeconds: wholeSeconds(c.claim), Count: int32(count)}
		c.connection.send(&workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Ready{Ready: ready}})
	}
}

func (c *workerCore) sendOutcomes() {
	var results []*workerpb.Result
	size := 0
	for _, task := range c.unsent {
		how := task.outcome
		if how == nil || task.isSent || c.tasks[task.key] != task {
			continue
		}
		task.isSent = true
		task.tries++
		id, token := task.key.taskID, task.key.token
		switch how.kind {
		case Retry:
			nack := &workerpb.Nack{
				TaskId: id, LeaseToken: token, DelayMs: how.delayMs, Reason: how.text, Stack: how.stack,
				HoldSeconds: how.holdSeconds, Used: task.attempt.takenUnits(),
			}
			c.connection.send(&workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Nack{Nack: nack}})
		case HandedBack:
			abandon := &workerpb.Abandon{TaskId: id, LeaseToken: token, Interrupted: true}
			c.connection.send(&workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Abandon{Abandon: abandon}})
		default:
			if len(results) >= batchMax || size+len(how.result) > batchBytesMax {
				c.sendResults(results)
				results, size = nil, 0
			}
			result := &workerpb.Result{
				TaskId: id, LeaseToken: token, Status: "COMPLETED", ResultJson: how.result, Used: task.attempt.takenUnits(),
			}
			if how.kind == Failed {
				result.Status, result.Error = "FAILED", how.text
			}
			results = append(results, result)
			size += len(how.result) + messageOverhead
		}
	}
	c.unsent = nil
	c.sendResults(results)
}

func (c *workerCore) sendResults(results []*workerpb.Result) {
	switch len(results) {
	case 0:
	case 1:
		c.connection.send(&workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Result{Result: results[0]}})
	default:
		batch := &workerpb.ResultBatch{Results: results}
		c.connection.send(&workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_ResultBatch{ResultBatch: batch}})
	}
}

// ack is what all acknowledgements have.
type ack interface {
	GetTaskId() string
	GetLeaseToken() uint64
	GetOk() bool
	GetErrorCode() string
	GetErrorMessage() string
}

func (c *workerCore) acknowledged(ack ack, isDead bool) {
	task := c.find(ack)
	if task == nil || task.outcome == nil || !task.isSent {
		return
	}
	if !ack.GetOk() && retryable[ack.GetErrorCode()] {
		task.isSent = false
		c.unsent = append(c.unsent, task)
		c.after(pauseAfter(task.tries), c.flush)
		return
	}
	settled := task.outcome.kind
	isFinal := settled == Completed || settled == Failed
	isRepeat := task.tries > 1 && overtaken[ack.GetErrorCode()]
	delete(c.tasks, task.key)
	if ack.GetOk() || (isRepeat && !isFinal) {
		if isDead {
			settled = DeadLetter
		}
		c.worker.settled(task.attempt, settled)
	} else {
		c.worker.refused(&Error{Code: ack.GetErrorCode(), Message: ack.GetErrorMessage(), TaskID: ack.GetTaskId()})
	}
	c.change()
}

func (c *workerCore) find(ack ack) *leased {
	if task := c.tasks[leaseKey{ack.GetTaskId(), ack.GetLeaseToken()}]; task != nil || ack.GetLeaseToken() != 0 {
		return task
	}
	for key, task := range c.tasks {
		if key.taskID == ack.GetTaskId() {
			return task
		}
	}
	return nil
}

func (c *workerCore) after(pause time.Duration, run func()) *time.Timer {
	return time.AfterFunc(pause, func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		run()
	})
}

// The same over HTTP.

const (
	httpClaimMax  = 10
	httpClaimWait = 20 * time.Second
)

type workerSession = httpSession[workerpb.WorkerEvent, workerpb.ServerEvent]

var workerKind = &kind[workerpb.WorkerEvent, workerpb.ServerEvent]{
	port: "worker", otherPort: "producer",
	stream: func(ctx context.Context, cc grpc.ClientConnInterface) (grpc.BidiStreamingClient[workerpb.WorkerEvent, workerpb.ServerEvent], error) {
		return workerpb.NewWorkerStreamClient(cc).Stream(ctx)
	},
	instance:  func(reply *workerpb.ServerEvent) string { return reply.GetHelloAck().GetInstance() },
	request:   workerRequest,
	isWaiting: func(event *workerpb.WorkerEvent) bool { return event.GetReady() != nil },
}

func workerRequest(ctx context.Context, s *workerSession, event *workerpb.WorkerEvent) error {
	switch event := event.Event.(type) {
	case *workerpb.WorkerEvent_Hello:
		ack := &workerpb.ServerEvent_HelloAck{HelloAck: &workerpb.HelloAck{}}
		return s.greet(ctx, &workerpb.ServerEvent{Event: ack})
	case *workerpb.WorkerEvent_Ready:
		return httpClaim(ctx, s, event.Ready)
	case *workerpb.WorkerEvent_Result:
		return httpSubmit(ctx, s, []*workerpb.Result{event.Result})
	case *workerpb.WorkerEvent_ResultBatch:
		for rest := event.ResultBatch.Results; len(rest) > 0; {
			count := min(len(rest), httpBatchMax)
			if err := httpSubmit(ctx, s, rest[:count]); err != nil {
				return err
			}
			rest = rest[count:]
		}
	case *workerpb.WorkerEvent_Nack:
		nack := event.Nack
		said := &workerpb.NackAck{TaskId: nack.TaskId, LeaseToken: nack.LeaseToken}
		body := map[string]any{"delaySeconds": float64(nack.DelayMs) / 1000, "reason": nack.Reason}
		if nack.Stack != "" {
			body["stack"] = nack.Stack
		}
		if nack.HoldSeconds > 0 {
			body["holdSeconds"] = nack.HoldSeconds
		}
		if nack.Used != nil {
			body["used"] = nack.Used.Count
		}
		answer, err := httpTell(ctx, s, nack, "nack", body, &said.Ok, &said.ErrorCode, &said.ErrorMessage)
		if err != nil {
			return err
		}
		said.Dlq = answer.Status == "dlq"
		s.replies.push(&workerpb.ServerEvent{Event: &workerpb.ServerEvent_NackAck{NackAck: said}})
	case *workerpb.WorkerEvent_Heartbeat:
		beat := event.Heartbeat
		said := &workerpb.HeartbeatAck{TaskId: beat.TaskId, LeaseToken: beat.LeaseToken}
		body := map[string]any{"extendSeconds": beat.ExtendSeconds}
		if beat.Progress != nil {
			body["progress"] = map[string]any{"percent": beat.Progress.Percent, "text": beat.Progress.Text}
		}
		if len(beat.Logs) > 0 {
			body["logs"] = beat.Logs
		}
		answer, err := httpTell(ctx, s, beat, "heartbeat", body, &said.Ok, &said.ErrorCode, &said.ErrorMessage)
		if err != nil {
			return err
		}
		said.Cancelled = answer.Cancelled
		s.replies.push(&workerpb.ServerEvent{Event: &workerpb.ServerEvent_HeartbeatAck{HeartbeatAck: said}})
	case *workerpb.WorkerEvent_Abandon:
		abandon := event.Abandon
		said := &workerpb.AbandonAck{TaskId: abandon.TaskId, LeaseToken: abandon.LeaseToken}
		body := map[string]any{"interrupted": abandon.Interrupted}
		if _, err := httpTell(ctx, s, abandon, "abandon", body, &said.Ok, &said.ErrorCode, &said.ErrorMessage); err != nil {
			return err
		}
		s.replies.push(&workerpb.ServerEvent{Event: &workerpb.ServerEvent_AbandonAck{AbandonAck: said}})
	}
	return nil
}

type taskFields struct {
	ID, Command, Payload            string
	Priority, MaxAttempts, Attempts int32
	LeaseToken                      uint64
	TraceParent, TraceState         string
	Tags                            []string
	TimeoutSeconds                  int32
	Lane                            string
	Cost                            int32
	CreatedAt                       time.Time
	BatchID                         string
	IsBatchCallback                 bool
	BatchEnded                      BatchEnd
	ScheduleID                      string
	ScheduledFor                    time.Time
}

func (f taskFields) task() *workerpb.Task {
	var scheduledForMs uint64
	if f.ScheduleID != "" {
		scheduledForMs = uint64(f.ScheduledFor.UnixMilli())
	}
	return &workerpb.Task{
		ScheduleId: f.ScheduleID, ScheduledForMs: scheduledForMs,
		Id: f.ID, Command: f.Command, Payload: []byte(f.Payload), Priority: f.Priority, MaxAttempts: f.MaxAttempts,
		Attempts: f.Attempts, LeaseToken: f.LeaseToken, TraceParent: f.TraceParent, TraceState: f.TraceState,
		Tags: f.Tags, TimeoutSeconds: f.TimeoutSeconds, Lane: f.Lane, Cost: f.Cost, CreatedAt: timestamppb.New(f.CreatedAt),
		BatchId: f.BatchID, IsBatchCallback: f.IsBatchCallback, BatchSucceeded: uint64(f.BatchEnded.Succeeded),
		BatchFailed: uint64(f.BatchEnded.Failed), BatchCancelled: uint64(f.BatchEnded.Cancelled),
	}
}

// httpClaim takes what is there; when there is nothing, it waits for one task, over and over.
func httpClaim(ctx context.Context, s *workerSession, ready *workerpb.Ready) error {
	wanted := map[string]any{"commands": ready.Commands, "leaseSeconds": ready.LeaseSeconds}
	wanted["count"] = min(max(ready.Count, 1), httpClaimMax)
	body, err := encode(wanted)
	if err != nil {
		return err
	}
	var taken struct{ Tasks []taskFields }
	_, err = s.ask(ctx, "POST", "/tasks/claim/batch", body, nil, 0, &taken)
	delete(wanted, "count")
	wanted["waitSeconds"] = int(httpClaimWait / time.Second)
	if body, _ = encode(wanted); err != nil {
		return httpComplain(s, err)
	}
	for len(taken.Tasks) == 0 {
		if ctx.Err() != nil {
			return nil
		}
		var one taskFields
		isOne, err := s.ask(ctx, "POST", "/tasks/claim", body, nil, httpClaimWait, &one)
		if err != nil {
			return httpComplain(s, err)
		}
		if isOne {
			taken.Tasks = []taskFields{one}
		}
	}
	batch := &workerpb.TaskBatch{}
	for _, fields := range taken.Tasks {
		batch.Tasks = append(batch.Tasks, fields.task())
	}
	s.replies.push(&workerpb.ServerEvent{Event: &workerpb.ServerEvent_TaskBatch{TaskBatch: batch}})
	return nil
}

// httpComplain: a refusal of the token ends the session, another one is told as on a stream.
func httpComplain(s *workerSession, err error) error {
	refusal := asError(err)
	if refusal.Retryable() || refusal.Code == "aborted" {
		return refusal
	}
	for _, code := range refusals {
		if refusal.Code == code {
			return refusal
		}
	}
	said := &workerpb.ServerError{Message: refusal.Message, ErrorCode: refusal.Code}
	s.replies.push(&workerpb.ServerEvent{Event: &workerpb.ServerEvent_Error{Error: said}})
	return nil
}

type resultFields struct {
	TaskID     string          `json:"taskId"`
	Status     string          `json:"status"`
	Error      string          `json:"error,omitempty"`
	LeaseToken uint64          `json:"leaseToken"`
	Result     json.RawMessage `json:"result,omitempty"`
	Used       *int32          `json:"used,omitempty"`
}

func httpSubmit(ctx context.Context, s *workerSession, results []*workerpb.Result) error {
	fields := make([]resultFields, len(results))
	for i, result := range results {
		fields[i] = resultFields{result.TaskId, result.Status, result.Error, result.LeaseToken, result.ResultJson, nil}
		if result.Used != nil {
			fields[i].Used = &result.Used.Count
		}
	}
	body, err := encode(map[string]any{"results": fields})
	if err != nil {
		return err
	}
	var answer struct {
		Results []struct{ Error, Code string }
	}
	_, err = s.ask(ctx, "POST", "/tasks/batch/results", body, nil, 0, &answer)
	if CodeOf(err) == "unavailable" || ctx.Err() != nil {
		return err
	}
	batch := &workerpb.ResultAckBatch{}
	for i, result := range results {
		ack := &workerpb.ResultAck{TaskId: result.TaskId, LeaseToken: result.LeaseToken}
		switch {
		case err != nil:
			ack.ErrorCode, ack.ErrorMessage = CodeOf(err), err.Error()
		case i < len(answer.Results):
			said := answer.Results[i]
			ack.Ok, ack.ErrorCode, ack.ErrorMessage = said.Error == "", said.Code, said.Error
		}
		batch.Acks = append(batch.Acks, ack)
	}
	s.replies.push(&workerpb.ServerEvent{Event: &workerpb.ServerEvent_ResultAckBatch{ResultAckBatch: batch}})
	return nil
}

type toldFields struct {
	Status    string
	Cancelled bool
}

type about interface {
	GetTaskId() string
	GetLeaseToken() uint64
}

func httpTell(ctx context.Context, s *workerSession, of about, verb string, body map[string]any, ok *bool, code, message *string) (toldFields, error) {
	var answer toldFields
	body["leaseToken"] = of.GetLeaseToken()
	data, err := encode(body)
	if err != nil {
		return answer, err
	}
	_, err = s.ask(ctx, "POST", "/tasks/"+url.PathEscape(of.GetTaskId())+"/"+verb, data, nil, 0, &answer)
	if CodeOf(err) == "unavailable" || ctx.Err() != nil {
		return answer, err
	}
	if err != nil {
		*code, *message = CodeOf(err), err.Error()
		return answer, nil
	}
	*ok = true
	return answer, nil
}
