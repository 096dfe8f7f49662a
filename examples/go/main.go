// Command codeq-example works on tasks, or enqueues one and prints its result, over gRPC streams:
//
//	codeq-example worker
//	codeq-example producer NAME
//
// CODEQ_STREAMS is the address of either stream (default 127.0.0.1:9091), CODEQ_TOKEN the token. The
// packages producerpb and workerpb are generated from the published protos.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"codeq/producerpb"
	"codeq/workerpb"
)

const command = "greet-go"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	// With TLS: credentials.NewTLS. The token is sent in the first message, so do not use plain text
	// beyond this machine.
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient(setting("CODEQ_STREAMS", "127.0.0.1:9091"), plain)
	if err != nil {
		return err
	}
	defer connection.Close()
	switch {
	case len(args) == 1 && args[0] == "worker":
		return work(ctx, connection, greet)
	case len(args) == 2 && args[0] == "producer":
		return produce(ctx, connection, map[string]string{"name": args[1]})
	default:
		return errors.New("usage: codeq-example worker | codeq-example producer NAME")
	}
}

func greet(payload []byte) (any, error) {
	var input struct{ Name string }
	if err := json.Unmarshal(payload, &input); err != nil {
		return nil, err
	}
	if input.Name == "" {
		return nil, errors.New("the name is empty")
	}
	return map[string]string{"text": "hello " + input.Name + " from Go"}, nil
}

// work asks for one task at a time and reports what became of it, until the context ends. A task that
// the server has sent and that was not reported is offered again when its lease ends.
func work(ctx context.Context, connection *grpc.ClientConn, handle func([]byte) (any, error)) error {
	stream, err := workerpb.NewWorkerStreamClient(connection).Stream(ctx)
	if err != nil {
		return err
	}
	ask := func(event *workerpb.WorkerEvent) (*workerpb.ServerEvent, error) {
		if err := stream.Send(event); err != nil {
			return nil, err
		}
		answer, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if refusal := answer.GetError(); refusal != nil {
			return nil, fmt.Errorf("%s: %s", refusal.GetErrorCode(), refusal.GetMessage())
		}
		return answer, nil
	}
	hello := &workerpb.Hello{Token: setting("CODEQ_TOKEN", "dev-token"), WorkerId: "go-example"}
	if _, err := ask(&workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Hello{Hello: hello}}); err != nil {
		return err
	}
	fmt.Println("working")
	ready := &workerpb.Ready{Commands: []string{command}, LeaseSeconds: 60}
	for {
		answer, err := ask(&workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Ready{Ready: ready}})
		if err != nil {
			return err
		}
		if _, err := ask(report(answer.GetTask().GetTask(), handle)); err != nil {
			return err
		}
	}
}

func report(task *workerpb.Task, handle func([]byte) (any, error)) *workerpb.WorkerEvent {
	value, err := handle(task.GetPayload())
	if err == nil {
		var text []byte
		if text, err = json.Marshal(value); err == nil {
			result := &workerpb.Result{
				TaskId: task.GetId(), Status: "COMPLETED", ResultJson: text, LeaseToken: task.GetLeaseToken(),
			}
			return &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Result{Result: result}}
		}
	}
	// The server offers the task again, after the delay of its retry policy.
	nack := &workerpb.Nack{TaskId: task.GetId(), Reason: err.Error(), LeaseToken: task.GetLeaseToken()}
	return &workerpb.WorkerEvent{Event: &workerpb.WorkerEvent_Nack{Nack: nack}}
}

func produce(ctx context.Context, connection *grpc.ClientConn, input any) error {
	payload, err := json.Marshal(input)
	if err != nil {
		return err
	}
	stream, err := producerpb.NewProducerStreamClient(connection).Stream(ctx)
	if err != nil {
		return err
	}
	ask := func(event *producerpb.ProducerEvent) (*producerpb.ServerEvent, error) {
		if err := stream.Send(event); err != nil {
			return nil, err
		}
		answer, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		if refusal := answer.GetError(); refusal != nil {
			return nil, fmt.Errorf("%s: %s", refusal.GetErrorCode(), refusal.GetMessage())
		}
		return answer, nil
	}
	hello := &producerpb.Hello{Token: setting("CODEQ_TOKEN", "dev-token")}
	if _, err := ask(&producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_Hello{Hello: hello}}); err != nil {
		return err
	}
	create := &producerpb.CreateTask{Seq: 1, Command: command, Payload: payload, MaxAttempts: 1}
	answer, err := ask(&producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_Create{Create: create}})
	if err != nil {
		return err
	}
	created := answer.GetCreateAck()
	if !created.GetOk() {
		return fmt.Errorf("%s: %s", created.GetErrorCode(), created.GetErrorMessage())
	}
	fmt.Println("enqueued", created.GetTaskId())
	await := &producerpb.AwaitResult{TaskId: created.GetTaskId(), WaitSeconds: 30}
	answer, err = ask(&producerpb.ProducerEvent{Event: &producerpb.ProducerEvent_AwaitResult{AwaitResult: await}})
	if err != nil {
		return err
	}
	result := answer.GetTaskResult()
	if !result.GetOk() {
		return fmt.Errorf("%s: %s", result.GetErrorCode(), result.GetErrorMessage())
	}
	fmt.Println(result.GetStatus(), string(result.GetResultJson()), result.GetError())
	return nil
}

func setting(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}
