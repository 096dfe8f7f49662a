// Package codeqtest starts a real server for tests, in memory and with a clock that only the test moves. It is the
// program codeq (codeq test-server): the one in the PATH, or the command line in the variable CODEQ_TEST_SERVER.
package codeqtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"codeq"
)

// Server is a server for one test.
type Server struct {
	// Address of the HTTP API.
	URL string
	// host:port of the streams.
	Streams string

	input  io.WriteCloser
	output *bufio.Reader
	now    time.Time
}

// Start starts a server that ends with the test. The variables, such as "MAX_ATTEMPTS_DEFAULT=3", are settings of the
// server.
func Start(t testing.TB, variables ...string) *Server {
	t.Helper()
	words := strings.Fields(os.Getenv("CODEQ_TEST_SERVER"))
	if len(words) == 0 {
		path, err := exec.LookPath("codeq")
		if err != nil {
			t.Fatal("the program codeq is not in the PATH; install it, or set CODEQ_TEST_SERVER to a command line that starts it, such as: npx codeq test-server")
		}
		words = []string{path, "test-server"}
	}
	command := exec.Command(words[0], words[1:]...)
	command.Env = append(os.Environ(), variables...)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("the server cannot be started: %v", err)
	}
	server := &Server{input: input, output: bufio.NewReader(output)}
	t.Cleanup(func() {
		// The server ends with its input.
		input.Close()
		command.Wait()
	})
	if err := server.read(); err != nil {
		t.Fatal(err)
	}
	return server
}

// Client is a client of the server that is closed at the end of the test.
func (s *Server) Client(t testing.TB) *codeq.Client {
	t.Helper()
	client, err := codeq.Open(codeq.Options{URLs: []string{s.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// Work runs a worker that is closed at the end of the test.
func (s *Server) Work(t testing.TB, client *codeq.Client, handlers ...codeq.Handler) *codeq.Worker {
	t.Helper()
	worker, err := client.NewWorker(codeq.WorkerOptions{Grace: -1}, handlers...)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return worker
}

// Now is what the clock of the server shows.
func (s *Server) Now() time.Time { return s.now }

// Advance moves the clock of the server, with everything that becomes due on the way. Workers have the clock of the
// machine: the lease of a task that a handler works on ends when it is moved by more than the lease.
func (s *Server) Advance(t testing.TB, by time.Duration) {
	t.Helper()
	if _, err := fmt.Fprintf(s.input, "advance %d\n", by.Milliseconds()); err != nil {
		t.Fatal(err)
	}
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) read() error {
	line, err := s.output.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the server has ended; what it wrote to stderr says why: %w", err)
	}
	var said struct {
		URL, Streams string
		Now          time.Time
	}
	if err := json.Unmarshal(line, &said); err != nil {
		return fmt.Errorf("the server said %q: %w", line, err)
	}
	if said.URL != "" {
		s.URL, s.Streams = said.URL, said.Streams
	}
	s.now = said.Now
	return nil
}
