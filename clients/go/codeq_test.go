package codeq_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"codeq"
	"codeq/codeqtest"
)

type greet struct{ Name string }
type greeting struct{ Text string }

var greeter = codeq.NewTask[greet, greeting]("greet", codeq.MaxAttempts(3))

func hello(_ context.Context, input greet) (greeting, error) {
	return greeting{"hello " + input.Name}, nil
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestATaskIsDone(t *testing.T) {
	server := codeqtest.Start(t)
	for _, transport := range []codeq.Transport{codeq.Auto, codeq.Streams, codeq.HTTP} {
		client, err := codeq.Open(codeq.Options{URLs: []string{server.URL}, Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		server.Work(t, client, greeter.Handle(hello))
		run, err := greeter.Enqueue(within(t), client, greet{"Ada <&>"})
		if err != nil {
			t.Fatal(err)
		}
		output, err := run.Result(within(t))
		if err != nil || output.Text != "hello Ada <&>" {
			t.Errorf("over %q: %v, %v", transport, output, err)
		}
		status, err := run.Status(within(t))
		if err != nil || status.Status != "COMPLETED" || status.Task != "greet" {
			t.Errorf("over %q: %+v, %v", transport, status, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestADelayPassesWithTheClockOfTheServer(t *testing.T) {
	server := codeqtest.Start(t)
	client := server.Client(t)
	server.Work(t, client, greeter.Handle(hello))
	before := server.Now()
	const delay = time.Hour + time.Millisecond
	run, err := greeter.Enqueue(within(t), client, greet{"Ada"}, codeq.Delay(delay))
	if err != nil {
		t.Fatal(err)
	}
	server.Advance(t, delay)
	if passed := server.Now().Sub(before); passed != delay {
		t.Errorf("%s have passed", passed)
	}
	if _, err := run.Result(within(t)); err != nil {
		t.Error(err)
	}
}

func TestErrorsOfHandlers(t *testing.T) {
	server := codeqtest.Start(t)
	client := server.Client(t)
	var mutex sync.Mutex
	attempts := map[string]int{}
	server.Work(t, client, greeter.Handle(func(ctx context.Context, input greet) (greeting, error) {
		mutex.Lock()
		defer mutex.Unlock()
		attempts[input.Name]++
		switch input.Name {
		case "permanent":
			return greeting{}, codeq.Permanent(errors.New("there is nobody"))
		case "limited":
			if attempts[input.Name] == 1 {
				return greeting{}, codeq.RateLimited("3600", errors.New("slow down"))
			}
		case "panic":
			panic("at the disco")
		}
		return hello(ctx, input)
	}))
	result := func(name string, advance time.Duration, options ...codeq.EnqueueOption) (greeting, error) {
		run, err := greeter.Enqueue(within(t), client, greet{name}, options...)
		if err != nil {
			t.Fatal(err)
		}
		for advance > 0 {
			status, err := run.Status(within(t))
			if err != nil {
				t.Fatal(err)
			}
			mutex.Lock()
			isHeld := attempts[name] > 0 && status.Status == "PENDING"
			mutex.Unlock()
			if isHeld {
				if status.Attempts != 0 {
					t.Errorf("a hold counts as an attempt: %+v", status)
				}
				server.Advance(t, advance)
				break
			}
		}
		return run.Result(within(t))
	}
	var failed *codeq.TaskFailed
	if _, err := result("permanent", 0); !errors.As(err, &failed) || failed.Reason != "there is nobody" || failed.Attempts != 1 {
		t.Errorf("permanent: %v", err)
	}
	if output, err := result("limited", time.Hour); err != nil || output.Text != "hello limited" {
		t.Errorf("limited: %v, %v", output, err)
	}
	if _, err := result("panic", 0, codeq.MaxAttempts(1)); !errors.As(err, &failed) || !strings.Contains(failed.Reason, "at the disco") {
		t.Errorf("panic: %v", err)
	}
	mutex.Lock()
	defer mutex.Unlock()
	if attempts["permanent"] != 1 || attempts["limited"] != 2 || attempts["panic"] != 1 {
		t.Errorf("attempts: %v", attempts)
	}
}

func TestAnInputThatDoesNotFitFailsAtOnce(t *testing.T) {
	server := codeqtest.Start(t)
	client := server.Client(t)
	server.Work(t, client, greeter.Handle(hello))
	run, err := codeq.NewTask[int, greeting]("greet").Enqueue(within(t), client, 7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(within(t)); codeq.CodeOf(err) != "task_failed" || !strings.Contains(err.Error(), "does not fit") {
		t.Error(err)
	}
}

func TestShutdownHandsBackWithoutAnAttempt(t *testing.T) {
	server := codeqtest.Start(t)
	client := server.Client(t)
	started := make(chan struct{})
	var cause error
	worker, err := client.NewWorker(codeq.WorkerOptions{Grace: -1}, greeter.Handle(func(ctx context.Context, _ greet) (greeting, error) {
		close(started)
		<-ctx.Done()
		cause = context.Cause(ctx)
		return greeting{}, ctx.Err()
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	run, err := greeter.Enqueue(within(t), client, greet{"Ada"})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if codeq.CodeOf(cause) != "worker_closing" {
		t.Errorf("the cause is %v", cause)
	}
	status, err := run.Status(within(t))
	if err != nil || status.Status != "PENDING" || status.Attempts != 0 {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestACancelEndsTheContext(t *testing.T) {
	server := codeqtest.Start(t)
	client := server.Client(t)
	started, causes := make(chan struct{}), make(chan error, 1)
	server.Work(t, client, greeter.Handle(func(ctx context.Context, _ greet) (greeting, error) {
		codeq.Current(ctx).Progress(0.5, "half")
		codeq.Current(ctx).Log("a line")
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return greeting{}, ctx.Err()
	}))
	run, err := greeter.Enqueue(within(t), client, greet{"Ada"})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	if err := run.Cancel(within(t), time.Minute); err != nil {
		t.Fatal(err)
	}
	if cause := <-causes; codeq.CodeOf(cause) != "task_cancelled" {
		t.Errorf("the cause is %v", cause)
	}
	var failed *codeq.TaskFailed
	if _, err := run.Result(within(t)); !errors.As(err, &failed) || failed.Reason != "CANCELLED" {
		t.Error(err)
	}
}

func TestSeveralTasksAtOnce(t *testing.T) {
	server := codeqtest.Start(t)
	client := server.Client(t)
	server.Work(t, client, greeter.Handle(hello))
	inputs := make([]greet, 500)
	for i := range inputs {
		inputs[i].Name = strings.Repeat("a", i)
	}
	runs, err := greeter.EnqueueMany(within(t), client, inputs)
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range runs {
		output, err := run.Result(within(t))
		if err != nil || len(output.Text) != len("hello ")+i {
			t.Fatalf("%d: %v, %v", i, output, err)
		}
	}
}

func TestATokenThatIsRefused(t *testing.T) {
	server := codeqtest.Start(t)
	client, err := codeq.Open(codeq.Options{URLs: []string{server.URL}, Token: "wrong", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := greeter.Enqueue(within(t), client, greet{}); codeq.CodeOf(err) != "invalid_token" {
		t.Errorf("a producer gets %v", err)
	}
	worker, err := client.NewWorker(codeq.WorkerOptions{}, greeter.Handle(hello))
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Run(within(t)); codeq.CodeOf(err) != "invalid_token" {
		t.Errorf("a worker gets %v", err)
	}
}

func TestWhatAContextSays(t *testing.T) {
	client, err := codeq.Open(codeq.Options{URLs: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = greeter.Enqueue(ctx, client, greet{})
	if codeq.CodeOf(err) != "timeout" || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := greeter.Run(client, "x").Result(stopped); codeq.CodeOf(err) != "aborted" || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	client.Close()
	if _, err := greeter.Enqueue(t.Context(), client, greet{}); codeq.CodeOf(err) != "closed" {
		t.Error(err)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for _, options := range []codeq.Options{
		{URLs: []string{"ftp://host"}}, {URLs: []string{"host:80"}}, {URLs: []string{"http://a:b@host"}}, {Transport: "pigeons"},
	} {
		if _, err := codeq.Open(options); codeq.CodeOf(err) != "invalid_option" {
			t.Errorf("%+v: %v", options, err)
		}
	}
	client, err := codeq.Open(codeq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler := greeter.Handle(hello)
	short := greeter.Handle(hello, codeq.HandlerOptions{Lease: time.Millisecond})
	for _, handlers := range [][]codeq.Handler{nil, {handler, handler}, {short}} {
		if _, err := client.NewWorker(codeq.WorkerOptions{}, handlers...); codeq.CodeOf(err) != "invalid_option" {
			t.Error(err)
		}
	}
	if _, err := client.NewWorker(codeq.WorkerOptions{Concurrency: -1}, handler); codeq.CodeOf(err) != "invalid_option" {
		t.Error(err)
	}
}

func TestTheServerKeepsWhereAHandlerPanicked(t *testing.T) {
	server := codeqtest.Start(t)
	for _, transport := range []codeq.Transport{codeq.Streams, codeq.HTTP} {
		client, err := codeq.Open(codeq.Options{URLs: []string{server.URL}, Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		worker := server.Work(t, client, greeter.Handle(panics))
		run, err := greeter.Enqueue(within(t), client, greet{"disco"}, codeq.MaxAttempts(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(within(t)); err == nil {
			t.Error("it did not panic")
		}
		request, _ := http.NewRequestWithContext(within(t), "GET", server.URL+"/v1/codeq/tasks/"+run.ID(), nil)
		request.Header.Set("Authorization", "Bearer dev-token")
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(reply.Body)
		if err != nil || !bytes.Contains(body, []byte(`"stack":"goroutine`)) || !bytes.Contains(body, []byte("codeq_test.panics")) {
			t.Errorf("%s: %v: %s", transport, err, body)
		}
		if err := errors.Join(reply.Body.Close(), worker.Close(), client.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func panics(context.Context, greet) (greeting, error) {
	panic("at the disco")
}

func TestFailuresAreLogged(t *testing.T) {
	server := codeqtest.Start(t)
	var written bytes.Buffer
	client, err := codeq.Open(codeq.Options{URLs: []string{server.URL}, Logger: slog.New(slog.NewTextHandler(&written, nil))})
	if err != nil {
		t.Fatal(err)
	}
	worker := server.Work(t, client, greeter.Handle(func(context.Context, greet) (greeting, error) {
		return greeting{}, codeq.Permanent(errors.New("out of paper"))
	}))
	run, err := greeter.Enqueue(within(t), client, greet{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(within(t)); err == nil {
		t.Error("it did not fail")
	}
	if err := errors.Join(worker.Close(), client.Close()); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a task failed", "out of paper", run.ID(), worker.Name()} {
		if !strings.Contains(written.String(), text) {
			t.Errorf("%q is not in the log: %s", text, written.String())
		}
	}
}

func TestRetryAfterMayBeADate(t *testing.T) {
	cause := errors.New("slow down")
	for _, header := range []string{"", "soon", "-1"} {
		if err := codeq.RateLimited(header, cause); err != cause {
			t.Errorf("%q gives a delay", header)
		}
	}
	at := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, pause := range []string{at, "120", "1m30s"} {
		if err := codeq.RateLimited(pause, cause); err == cause || !errors.Is(err, cause) {
			t.Errorf("%q gives no delay", pause)
		}
	}
}

func TestAScheduleCreatesTasksThatKnowTheirInstant(t *testing.T) {
	server := codeqtest.Start(t)
	for _, transport := range []codeq.Transport{codeq.Streams, codeq.HTTP} {
		client, err := codeq.Open(codeq.Options{URLs: []string{server.URL}, Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		digest := codeq.NewTask[greet, greeting]("digest-"+string(transport), codeq.Tags("daily"))
		fired := make(chan *codeq.Attempt, 2)
		server.Work(t, client, digest.Handle(func(ctx context.Context, input greet) (greeting, error) {
			fired <- codeq.Current(ctx)
			return greeting{input.Name}, nil
		}))
		start := server.Now().Truncate(time.Hour).Add(time.Hour)
		put, err := digest.PutSchedule(within(t), client, digest.Name(), greet{"Ada"}, codeq.Times{
			Every: time.Hour, From: start, Until: start.Add(time.Minute), Within: 10 * time.Minute, Grace: 5 * time.Second,
			Except: []string{"2026-12-25"},
		}, codeq.Lane("acme"))
		if err != nil || put.Version != 1 || put.NextAt == nil || !put.NextAt.Equal(start) {
			t.Fatalf("%+v, %v", put, err)
		}
		server.Advance(t, start.Sub(server.Now()))
		attempt := <-fired
		if attempt.ScheduleID != digest.Name() || !attempt.ScheduledFor.Equal(start) || attempt.Lane != "acme" {
			t.Errorf("over %q: %q for %v in lane %q", transport, attempt.ScheduleID, attempt.ScheduledFor, attempt.Lane)
		}
		for each, err := range client.Schedules(within(t), digest.Name()) {
			if err != nil || each.Task != digest.Name() || each.Fired != 1 {
				t.Errorf("%+v, %v", each, err)
			}
		}
		if _, err := digest.Run(client, attempt.ID).Result(within(t)); err != nil {
			t.Error(err)
		}
		id, err := client.RunSchedule(within(t), digest.Name())
		if err != nil || id != (<-fired).ID {
			t.Errorf("%q, %v", id, err)
		}
		paused, err := client.PauseSchedule(within(t), digest.Name(), "a move")
		if err != nil || paused.Paused == nil || paused.Paused.Reason != "a move" {
			t.Errorf("%+v, %v", paused, err)
		}
		if resumed, err := client.ResumeSchedule(within(t), digest.Name()); err != nil || resumed.Paused != nil {
			t.Errorf("%+v, %v", resumed, err)
		}
		if err := client.DeleteSchedule(within(t), digest.Name()); err != nil {
			t.Error(err)
		}
		if _, err := client.Schedule(within(t), digest.Name()); codeq.CodeOf(err) != "schedule_not_found" {
			t.Error(err)
		}
		if _, err := digest.PutSchedule(within(t), client, "x", greet{}, codeq.Times{Every: time.Hour}, codeq.Delay(time.Hour)); err == nil {
			t.Error("a schedule takes a delay")
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheCallbackOfABatchReadsTheResultsOfItsMembers(t *testing.T) {
	server := codeqtest.Start(t)
	half := codeq.NewTask[int, float64]("half")
	total := codeq.NewTask[string, float64]("total", codeq.Priority(3), codeq.Tags("sum"))
	for _, transport := range []codeq.Transport{codeq.Streams, codeq.HTTP} {
		client, err := codeq.Open(codeq.Options{URLs: []string{server.URL}, Transport: transport})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		server.Work(t, client, half.Handle(func(ctx context.Context, n int) (float64, error) {
			batch := client.Batch(codeq.Current(ctx).BatchID)
			if n > 1 {
				_, err := half.Enqueue(ctx, client, n/2, codeq.InBatch(batch.ID()))
				return float64(n) / 2, errors.Join(err, codeq.Permanent(errors.New("odd")))
			}
			_, err := batch.Seal(ctx)
			return float64(n) / 2, err
		}), total.Handle(func(ctx context.Context, of string) (float64, error) {
			attempt := codeq.Current(ctx)
			if *attempt.BatchEnded != (codeq.BatchEnd{Succeeded: 1, Failed: 1}) || attempt.Priority != 3 {
				return 0, codeq.Permanent(errors.New(of))
			}
			sum := 0.0
			for member, err := range client.Batch(attempt.BatchID).Results(ctx, false) {
				var output float64
				if err != nil {
					return 0, err
				}
				if member.Status == "COMPLETED" {
					if err := member.Output(&output); err != nil {
						return 0, err
					}
				}
				sum += output
			}
			return sum, nil
		}))
		id := "open-" + string(transport)
		options := codeq.BatchOptions{On: "end", OpenFor: time.Hour}
		batch, callback, err := total.CallBack(within(t), client, id, "the ends were not told", options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := half.Enqueue(within(t), client, 3, codeq.InBatch(batch.ID())); err != nil {
			t.Fatal(err)
		}
		if sum, err := callback.Result(within(t)); err != nil || sum != 0.5 {
			t.Errorf("over %q: %v, %v", transport, sum, err)
		}
		progress, err := batch.Progress(within(t))
		if err != nil || progress.Phase != "released" || progress.Total != 2 || progress.Failed != 1 {
			t.Errorf("over %q: %+v, %v", transport, progress, err)
		}
		failed := 0
		for member, err := range batch.Results(within(t), true) {
			if err != nil || !strings.Contains(member.Error, "odd") {
				t.Errorf("over %q: %+v, %v", transport, member, err)
			}
			failed++
		}
		if failed != 1 {
			t.Errorf("over %q: %d members failed", transport, failed)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatABatchIsRefusedWith(t *testing.T) {
	server := codeqtest.Start(t)
	client := server.Client(t)
	done := codeq.NewTask[string, string]("done")
	batch, _, err := done.CallBack(within(t), client, "b", "x", codeq.BatchOptions{FailFast: true})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = done.CallBack(within(t), client, "b", "y", codeq.BatchOptions{})
	if codeq.CodeOf(err) != "batch_exists" {
		t.Error(err)
	}
	if progress, err := batch.Cancel(within(t)); err != nil || progress.Phase != "cancelled" {
		t.Errorf("%+v, %v", progress, err)
	}
	_, err = greeter.Enqueue(within(t), client, greet{"Ada"}, codeq.InBatch("b"))
	if codeq.CodeOf(err) != "batch_sealed" {
		t.Error(err)
	}
	_, err = client.Batch("unknown").Seal(within(t))
	if codeq.CodeOf(err) != "batch_not_found" {
		t.Error(err)
	}
	for _, err := range client.Batch("unknown").Results(within(t), false) {
		if codeq.CodeOf(err) != "batch_not_found" {
			t.Error(err)
		}
	}
	first, err := greeter.Enqueue(within(t), client, greet{"Ada"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := greeter.Enqueue(within(t), client, greet{"Bo"}, codeq.After(first.ID()))
	if err != nil {
		t.Fatal(err)
	}
	_, err = greeter.Enqueue(within(t), client, greet{"Cy"}, codeq.After(second.ID()))
	if codeq.CodeOf(err) != "after_waits" {
		t.Error(err)
	}
}
