// The client of the benchmarks that is not ours: gRPC and HTTP as they come with Go. It takes the load
// as a JSON argument, says "ready" when it works, counts between the lines begin and end that it reads,
// and answers the latter with its report. It ends with its input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

type load struct {
	// streams or http
	Kind string `json:"kind"`
	// closed, paced, or for HTTP also echo
	Part           string `json:"part"`
	TasksPerSecond int    `json:"tasksPerSecond"`

	ProducerPort  int `json:"producerPort"`
	WorkerPort    int `json:"workerPort"`
	Producers     int `json:"producers"`
	Slots         int `json:"slots"`
	WorkerStreams int `json:"workerStreams"`
	// Tasks in a message of the producer, and that a worker asks for at once.
	Batch    int `json:"batch"`
	BatchOut int `json:"batchOut"`

	Port        int `json:"port"`
	Connections int `json:"connections"`
}

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("give the load as one JSON argument"))
	}
	var asked load
	if err := json.Unmarshal([]byte(os.Args[1]), &asked); err != nil {
		fail(err)
	}
	meter := newMeter()
	switch asked.Kind {
	case "streams":
		runStreams(asked, meter)
	case "http":
		runHTTP(asked, meter)
	default:
		fail(fmt.Errorf("there is no load called %q", asked.Kind))
	}
	say("ready")
	words := bufio.NewScanner(os.Stdin)
	for words.Scan() {
		if words.Text() == "begin" {
			meter.begin()
		} else {
			say(meter.end())
		}
	}
}

func say(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
