// Command conformance is the driver of the Go client. tests/conformance/README.md has the protocol.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"codeq"
)

type command struct {
	ID             int
	Do             string
	Client         string
	Worker         string
	Task           string
	Queue          string
	Key            string
	URL            json.RawMessage
	Streams        string
	Transport      codeq.Transport
	Token          string
	Input          json.RawMessage
	Options        options
	Items          []item
	Queues         []string
	Concurrency    int
	LeaseSeconds   float64
	TimeoutSeconds *float64
	GraceSeconds   *float64
	Stubborn, Echo bool
	Output         json.RawMessage
	Error          *string
	Permanent      *string
	RetryIn        *float64
	Hold           *string
	Used           *int
	Progress       *float64
	Note           string
	Log            *string
	Seconds        float64
	Batch          string
	Schedule       string
	Ask            string
	On             string
	FailFast       bool
	Failed         bool
	Prefix         string
	Times          times
}

type times struct {
	Cron, Tz string
	Every    string
	Times    int
	Overlap  string
}

type item struct {
	Input   json.RawMessage
	Options options
}

type options struct {
	DelaySeconds            *float64
	Priority                *int
	MaxAttempts             *int
	IdempotencyKey          *string
	IdempotencyMode         *string
	Unique                  *unique
	Lane                    *string
	Cost                    *int
	ExecutionTimeoutSeconds *float64
	TTLSeconds              *float64
	Tags                    []string
	Batch                   *string
	After                   []string
	TimeoutSeconds          *float64
}

type unique struct {
	Key, While, On             string
	ForSeconds, MaxWaitSeconds float64
}

func (o options) list() []codeq.EnqueueOption {
	var list []codeq.EnqueueOption
	if o.DelaySeconds != nil {
		list = append(list, codeq.Delay(seconds(*o.DelaySeconds)))
	}
	if o.Priority != nil {
		list = append(list, codeq.Priority(*o.Priority))
	}
	if o.MaxAttempts != nil {
		list = append(list, codeq.MaxAttempts(*o.MaxAttempts))
	}
	if o.IdempotencyKey != nil {
		list = append(list, codeq.IdempotencyKey(*o.IdempotencyKey))
	}
	if o.IdempotencyMode != nil {
		list = append(list, codeq.IdempotencyMode(*o.IdempotencyMode))
	}
	if u := o.Unique; u != nil {
		list = append(list, codeq.UniqueBy(codeq.Unique{
			Key: u.Key, While: u.While, On: u.On, For: seconds(u.ForSeconds), MaxWait: seconds(u.MaxWaitSeconds),
		}))
	}
	if o.Lane != nil {
		list = append(list, codeq.Lane(*o.Lane))
	}
	if o.Cost != nil {
		list = append(list, codeq.Cost(*o.Cost))
	}
	if o.ExecutionTimeoutSeconds != nil {
		list = append(list, codeq.ExecutionTimeout(seconds(*o.ExecutionTimeoutSeconds)))
	}
	if o.TTLSeconds != nil {
		list = append(list, codeq.TTL(seconds(*o.TTLSeconds)))
	}
	if o.Tags != nil {
		list = append(list, codeq.Tags(o.Tags...))
	}
	if o.Batch != nil {
		list = append(list, codeq.InBatch(*o.Batch))
	}
	if o.After != nil {
		list = append(list, codeq.After(o.After...))
	}
	return list
}

type fields map[string]any

// running is a handler that waits to be told how to end.
type running struct {
	attempt *codeq.Attempt
	end     chan command
}

type opened struct {
	client *codeq.Client

	mutex   sync.Mutex
	workers map[string]*codeq.Worker
	running map[string]*running
}

var (
	clientsMutex sync.Mutex
	clients      = map[string]*opened{}
	sayMutex     sync.Mutex
)

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

// say writes a line in ASCII.
func say(line fields) {
	data, err := json.Marshal(line)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	escaped := make([]byte, 0, len(data)+1)
	for _, char := range string(data) {
		if char < 0x7f {
			escaped = append(escaped, byte(char))
			continue
		}
		quoted := strconv.QuoteToASCII(string(char))
		if char > 0xffff {
			// JSON has two escapes for it.
			high, low := (char-0x10000)>>10+0xd800, (char-0x10000)&0x3ff+0xdc00
			escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, high, low)
		} else if char == 0x7f {
			escaped = append(escaped, `\u007f`...)
		} else {
			escaped = append(escaped, quoted[1:len(quoted)-1]...)
		}
	}
	sayMutex.Lock()
	defer sayMutex.Unlock()
	os.Stdout.Write(append(escaped, '\n'))
}

func clientOf(name string) (*opened, error) {
	clientsMutex.Lock()
	defer clientsMutex.Unlock()
	if found := clients[name]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("there is no client %s", name)
}

func taskOf(queue string) *codeq.Task[json.RawMessage, json.RawMessage] {
	return codeq.NewTask[json.RawMessage, json.RawMessage](queue)
}

func contextFor(limit *float64) (context.Context, context.CancelFunc) {
	if limit == nil {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), seconds(*limit))
}

func do(c command) (fields, error) {
	if c.Do == "open" {
		return fields{}, openClient(c)
	}
	of, err := clientOf(c.Client)
	if err != nil {
		return nil, err
	}
	switch c.Do {
	case "enqueue":
		ctx, cancel := contextFor(c.Options.TimeoutSeconds)
		defer cancel()
		run, err := taskOf(c.Queue).Enqueue(ctx, of.client, c.Input, c.Options.list()...)
		if err != nil {
			return nil, err
		}
		return fields{"id": run.ID()}, nil
	case "enqueue_many":
		items := make([]codeq.Item[json.RawMessage], len(c.Items))
		for i, each := range c.Items {
			items[i] = codeq.Item[json.RawMessage]{Input: each.Input, Options: each.Options.list()}
		}
		runs, err := taskOf(c.Queue).EnqueueItems(context.Background(), of.client, items)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(runs))
		for i, run := range runs {
			ids[i] = run.ID()
		}
		return fields{"ids": ids}, nil
	case "by_key":
		run, err := taskOf(c.Queue).RunByKey(context.Background(), of.client, c.Key)
		if err != nil {
			return nil, err
		}
		return fields{"id": run.ID()}, nil
	case "result":
		ctx, cancel := contextFor(c.TimeoutSeconds)
		defer cancel()
		output, err := taskOf(c.Queue).Run(of.client, c.Task).Result(ctx)
		return fields{"output": output}, err
	case "cancel":
		grace := time.Duration(-1)
		if c.GraceSeconds != nil {
			grace = seconds(*c.GraceSeconds)
		}
		return fields{}, taskOf("any").Run(of.client, c.Task).Cancel(context.Background(), grace)
	case "batch", "batch_ask", "batch_results":
		return of.batch(context.Background(), c)
	case "schedule", "schedule_ask", "schedules":
		return of.schedule(context.Background(), c)
	case "worker":
		return fields{}, of.work(c)
	case "finish", "block":
		found, err := of.find(c)
		if err != nil {
			return nil, err
		}
		found.end <- c
		if c.Do == "block" {
			// The handler answers.
			return nil, nil
		}
		return fields{}, nil
	case "say":
		found, err := of.find(c)
		if err != nil {
			return nil, err
		}
		if c.Progress != nil {
			found.attempt.Progress(*c.Progress, c.Note)
		}
		if c.Log != nil {
			found.attempt.Log(*c.Log)
		}
		return fields{}, nil
	case "close":
		of.mutex.Lock()
		worker := of.workers[c.Worker]
		of.mutex.Unlock()
		if c.GraceSeconds == nil {
			return fields{}, worker.Close()
		}
		return fields{}, worker.CloseIn(seconds(*c.GraceSeconds))
	case "shut":
		of.shut()
		clientsMutex.Lock()
		defer clientsMutex.Unlock()
		delete(clients, c.Client)
		return fields{}, nil
	}
	return nil, fmt.Errorf("no such command: %s", c.Do)
}

func (of *opened) batch(ctx context.Context, c command) (fields, error) {
	batch := of.client.Batch(c.Batch)
	switch c.Do {
	case "batch":
		options := codeq.BatchOptions{On: c.On, FailFast: c.FailFast}
		_, callback, err := taskOf(c.Queue).CallBack(ctx, of.client, c.Batch, c.Input, options)
		if err != nil {
			return nil, err
		}
		return fields{"id": callback.ID()}, nil
	case "batch_results":
		members := []fields{}
		for each, err := range batch.Results(ctx, c.Failed) {
			if err != nil {
				return nil, err
			}
			member := fields{"task": each.TaskID, "status": each.Status}
			if each.Error != "" {
				member["error"] = each.Error
			}
			if len(each.Result) > 0 {
				var output any
				if err := each.Output(&output); err != nil {
					return nil, err
				}
				member["output"] = output
			}
			members = append(members, member)
		}
		return fields{"members": members}, nil
	}
	ask := map[string]func(context.Context) (codeq.BatchProgress, error){
		"seal": batch.Seal, "progress": batch.Progress, "cancel": batch.Cancel,
	}[c.Ask]
	progress, err := ask(ctx)
	return fields{
		"phase": progress.Phase, "total": progress.Total, "pending": progress.Pending,
		"succeeded": progress.Succeeded, "failed": progress.Failed, "cancelled": progress.Cancelled,
	}, err
}

func (of *opened) schedule(ctx context.Context, c command) (fields, error) {
	var schedule codeq.Schedule
	var err error
	switch {
	case c.Do == "schedules":
		ids := []string{}
		for each, err := range of.client.Schedules(ctx, c.Prefix) {
			if err != nil {
				return nil, err
			}
			ids = append(ids, each.ID)
		}
		return fields{"ids": ids}, nil
	case c.Do == "schedule":
		every, _ := time.ParseDuration(c.Times.Every)
		schedule, err = taskOf(c.Queue).PutSchedule(ctx, of.client, c.Schedule, c.Input, codeq.Times{
			Cron: c.Times.Cron, TZ: c.Times.Tz, Every: every, Times: c.Times.Times, Overlap: c.Times.Overlap,
		})
	case c.Ask == "run":
		id, err := of.client.RunSchedule(ctx, c.Schedule)
		return fields{"task": id}, err
	case c.Ask == "delete":
		return fields{}, of.client.DeleteSchedule(ctx, c.Schedule)
	case c.Ask == "pause":
		schedule, err = of.client.PauseSchedule(ctx, c.Schedule, "")
	case c.Ask == "resume":
		schedule, err = of.client.ResumeSchedule(ctx, c.Schedule)
	default:
		schedule, err = of.client.Schedule(ctx, c.Schedule)
	}
	return fields{
		"id": schedule.ID, "version": schedule.Version, "fired": schedule.Fired,
		"hasNext": schedule.NextAt != nil, "isPaused": schedule.Paused != nil,
	}, err
}

func openClient(c command) error {
	if before, err := clientOf(c.Client); err == nil {
		before.shut()
	}
	var urls []string
	if json.Unmarshal(c.URL, &urls) != nil {
		urls = []string{""}
		if err := json.Unmarshal(c.URL, &urls[0]); err != nil {
			return err
		}
	}
	client, err := codeq.Open(codeq.Options{
		URLs: urls, Token: c.Token, Transport: c.Transport, Streams: c.Streams,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return err
	}
	clientsMutex.Lock()
	defer clientsMutex.Unlock()
	clients[c.Client] = &opened{client: client, workers: map[string]*codeq.Worker{}, running: map[string]*running{}}
	return nil
}

func (of *opened) find(c command) (*running, error) {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	if found := of.running[c.Worker+" "+c.Task]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("worker %s does not run %s", c.Worker, c.Task)
}

func (of *opened) shut() {
	of.mutex.Lock()
	over := "the scenario is over"
	for _, each := range of.running {
		select {
		case each.end <- command{Error: &over}:
		default:
		}
	}
	workers := of.workers
	of.mutex.Unlock()
	var closing sync.WaitGroup
	for _, worker := range workers {
		closing.Go(func() { worker.CloseIn(0) })
	}
	closing.Wait()
	of.client.Close()
}

func (of *opened) work(c command) error {
	event := func(name string, more fields) {
		more["event"], more["client"], more["worker"] = name, c.Client, c.Worker
		say(more)
	}
	handle := func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		if c.Echo {
			return input, nil
		}
		attempt := codeq.Current(ctx)
		own := &running{attempt, make(chan command, 1)}
		of.mutex.Lock()
		of.running[c.Worker+" "+attempt.ID] = own
		of.mutex.Unlock()
		event("started", startedOf(attempt, input))
		told := ctx.Done()
		for {
			select {
			case <-told:
				told = nil
				event("told", fields{"task": attempt.ID, "attempt": attempt.Number, "code": codeq.CodeOf(context.Cause(ctx))})
				if !c.Stubborn {
					return nil, context.Cause(ctx)
				}
			case how := <-own.end:
				if how.Do != "block" {
					return outputOf(how, attempt)
				}
				for end := time.Now().Add(seconds(how.Seconds)); time.Now().Before(end); {
				}
				say(fields{"id": how.ID, "ok": fields{}})
			}
		}
	}
	settings := codeq.HandlerOptions{Lease: seconds(c.LeaseSeconds)}
	if c.TimeoutSeconds != nil {
		settings.Timeout = seconds(*c.TimeoutSeconds)
	}
	var handlers []codeq.Handler
	for _, queue := range c.Queues {
		handlers = append(handlers, taskOf(queue).Handle(handle, settings))
	}
	worker, err := of.client.NewWorker(codeq.WorkerOptions{
		Concurrency: c.Concurrency,
		Name:        c.Client + "-" + c.Worker,
		OnSettled: func(attempt *codeq.Attempt, as codeq.Settled) {
			if !c.Echo {
				event("settled", fields{"task": attempt.ID, "attempt": attempt.Number, "as": as})
			}
		},
		OnRefused: func(err *codeq.Error) { event("refused", fields{"task": err.TaskID, "code": err.Code}) },
	}, handlers...)
	if err != nil {
		return err
	}
	of.mutex.Lock()
	of.workers[c.Worker] = worker
	of.mutex.Unlock()
	go func() {
		if err := worker.Run(context.Background()); err != nil {
			event("stopped", fields{"code": codeq.CodeOf(err)})
		}
	}()
	return nil
}

func startedOf(attempt *codeq.Attempt, input json.RawMessage) fields {
	started := fields{
		"task": attempt.ID, "queue": attempt.Task, "attempt": attempt.Number, "maxAttempts": attempt.MaxAttempts,
		"priority": attempt.Priority, "tags": append([]string{}, attempt.Tags...), "fencingToken": attempt.FencingToken,
		"lane": attempt.Lane, "cost": attempt.Cost, "input": input,
	}
	if attempt.ScheduleID != "" {
		started["schedule"] = fields{"id": attempt.ScheduleID, "forMs": attempt.ScheduledFor.UnixMilli()}
	}
	if attempt.BatchID != "" {
		batch := fields{"id": attempt.BatchID}
		if attempt.BatchEnded != nil {
			batch["ended"] = attempt.BatchEnded
		}
		started["batch"] = batch
	}
	return started
}

func outputOf(how command, attempt *codeq.Attempt) (json.RawMessage, error) {
	if how.Used != nil {
		attempt.Used(*how.Used)
	}
	switch {
	case how.Hold != nil:
		return nil, codeq.RateLimited(*how.Hold, errors.New(*how.Error))
	case how.RetryIn != nil:
		return nil, codeq.RetryIn(seconds(*how.RetryIn), errors.New(*how.Error))
	case how.Permanent != nil:
		return nil, codeq.Permanent(errors.New(*how.Permanent))
	case how.Error != nil:
		return nil, errors.New(*how.Error)
	}
	return how.Output, nil
}

func answer(c command) {
	found, err := do(c)
	if err == nil {
		if found != nil {
			say(fields{"id": c.ID, "ok": found})
		}
		return
	}
	said := fields{"code": codeq.CodeOf(err), "message": err.Error()}
	if said["code"] == "" {
		said["code"] = "driver_failed"
	}
	if failed := (*codeq.TaskFailed)(nil); errors.As(err, &failed) {
		said["reason"], said["attempts"] = failed.Reason, failed.Attempts
	}
	say(fields{"id": c.ID, "error": said})
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			fmt.Fprintln(os.Stderr, err)
			continue
		}
		go answer(c)
	}
}
