// A producer or a worker of one library, started by clients-bench.ts: <library> produce|work <options>. A producer
// enqueues for a number of seconds, says how far it came, and ends; a worker works until it is stopped.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"codeq"

	"github.com/hibiken/asynq"
)

type options struct {
	Port, Producers, Concurrency int
	Tasks                        int64
	Seconds                      float64
}

type payload struct {
	At   string `json:"at"`
	Data string `json:"data"`
}

type output struct {
	OK bool `json:"ok"`
}

var given = payload{strings.Repeat("0", 14), strings.Repeat("x", 68)}

func main() {
	library, role := os.Args[1], os.Args[2]
	var o options
	must(json.Unmarshal([]byte(os.Args[3]), &o))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch library + " " + role {
	case "codeq produce":
		client := open(o)
		produce(o, func() error {
			_, err := bench.Enqueue(ctx, client, given)
			return err
		})
	case "codeq work":
		worker, err := open(o).NewWorker(codeq.WorkerOptions{Concurrency: o.Concurrency}, bench.Handle(
			func(context.Context, payload) (output, error) { return output{true}, nil }, codeq.HandlerOptions{}))
		must(err)
		must(worker.Run(ctx))
	case "asynq produce":
		client := asynq.NewClient(redis(o))
		text, err := json.Marshal(given)
		must(err)
		produce(o, func() error {
			// Kept with its result for an hour.
			_, err := client.Enqueue(asynq.NewTask("bench", text), asynq.Retention(time.Hour))
			return err
		})
	case "asynq work":
		server := asynq.NewServer(redis(o), asynq.Config{Concurrency: o.Concurrency, LogLevel: asynq.ErrorLevel})
		handlers := asynq.NewServeMux()
		handlers.HandleFunc("bench", func(_ context.Context, task *asynq.Task) error {
			var input payload
			if err := json.Unmarshal(task.Payload(), &input); err != nil {
				return err
			}
			_, err := task.ResultWriter().Write([]byte(`{"ok":true}`))
			return err
		})
		must(server.Start(handlers))
		<-ctx.Done()
		server.Shutdown()
	default:
		log.Fatalf("unknown: %s %s", library, role)
	}
}

var bench = codeq.NewTask[payload, output]("bench")

func open(o options) *codeq.Client {
	client, err := codeq.Open(codeq.Options{URLs: []string{fmt.Sprintf("http://127.0.0.1:%d", o.Port)}})
	must(err)
	return client
}

func redis(o options) asynq.RedisClientOpt {
	return asynq.RedisClientOpt{Addr: fmt.Sprintf("127.0.0.1:%d", o.Port)}
}

func produce(o options, enqueue func() error) {
	must(enqueue())
	var left, count atomic.Int64
	left.Store(o.Tasks)
	cpu, began := cpuSeconds(), time.Now()
	var producers sync.WaitGroup
	for range o.Producers {
		producers.Go(func() {
			for left.Add(-1) >= 0 && time.Since(began).Seconds() < o.Seconds {
				must(enqueue())
				count.Add(1)
			}
		})
	}
	producers.Wait()
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"tasks": count.Load(), "seconds": time.Since(began).Seconds(), "cpuSeconds": cpuSeconds() - cpu,
	}))
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(used.Utime) + seconds(used.Stime)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
