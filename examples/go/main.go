// Command codeq-example works on tasks, or enqueues one and prints its result:
//
//	codeq-example worker
//	codeq-example producer NAME
//
// CODEQ_URL is the address of the server, CODEQ_TOKEN the token; the defaults are those of a server for development.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"codeq"
)

type greet struct {
	Name string `json:"name"`
}

type greeting struct {
	Text string `json:"text"`
}

var greeter = codeq.NewTask[greet, greeting]("greet-go", codeq.MaxAttempts(1))

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	client, err := codeq.Open(codeq.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	switch {
	case len(args) == 1 && args[0] == "worker":
		return work(ctx, client)
	case len(args) == 2 && args[0] == "producer":
		return produce(ctx, client, args[1])
	}
	return errors.New("usage: codeq-example worker | codeq-example producer NAME")
}

// work runs until a signal comes; then it finishes its tasks, or hands them back.
func work(ctx context.Context, client *codeq.Client) error {
	connected := func(problem *codeq.Error) {
		if problem == nil {
			fmt.Println("working")
		}
	}
	worker, err := client.NewWorker(codeq.WorkerOptions{OnConnection: connected}, greeter.Handle(handle))
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func handle(ctx context.Context, input greet) (greeting, error) {
	if input.Name == "" {
		return greeting{}, errors.New("the name is empty")
	}
	codeq.Current(ctx).Progress(0.5, "thinking of a greeting")
	return greeting{"hello " + input.Name + " from Go"}, nil
}

func produce(ctx context.Context, client *codeq.Client, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	run, err := greeter.Enqueue(ctx, client, greet{name})
	if err != nil {
		return err
	}
	fmt.Println("enqueued", run.ID())
	output, err := run.Result(ctx)
	if err != nil {
		return err
	}
	fmt.Println(output.Text)
	return nil
}
