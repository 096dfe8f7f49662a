// Package codeq is the client library of codeQ: producers enqueue tasks and wait for results, workers run handlers
// for the tasks of a queue.
//
//	var resize = codeq.NewTask[Image, Thumbnail]("resize")
//
//	client, err := codeq.Open(codeq.Options{})
//	run, err := resize.Enqueue(ctx, client, Image{URL: "..."})
//	thumbnail, err := run.Result(ctx)
package codeq

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
)

const userAgent = "codeq-go/0.1.0"

// Transport is how a client talks to the server.
type Transport string

const (
	// Auto uses streams where they can be reached, and HTTP where not.
	Auto    Transport = ""
	Streams Transport = "streams"
	HTTP    Transport = "http"
)

// Options say which server to use, and who is asking. The zero value is good for development.
type Options struct {
	// Addresses of the HTTP API of all nodes. Default: CODEQ_URL (several are separated by commas), or a server on
	// this machine.
	URLs []string
	// Default: CODEQ_TOKEN, or the token of a server for development.
	Token string
	// TokenSource is asked for a token before each connection; it wins over Token.
	TokenSource func(context.Context) (string, error)
	Transport   Transport
	// Address (host:port) of the streams. Default: the server is asked for its ports.
	Streams string
	// For https URLs; nil for the certificates of the system.
	TLS *tls.Config
	// Default: slog.Default().
	Logger *slog.Logger
	// Default: traces are passed on, and no spans are made.
	Tracing Tracing
}

// Client is a connection to a server, or to the nodes of a cluster. It is safe for use by several goroutines, and
// reconnects by itself.
type Client struct {
	options    Options
	transports *transports
	producer   *producer

	mutex    sync.Mutex
	workers  map[*Worker]bool
	isClosed bool
}

// Open checks the options. It does not wait for the server: a server that cannot be reached is tried again.
func Open(options Options) (*Client, error) {
	if len(options.URLs) == 0 {
		given := or(os.Getenv("CODEQ_URL"), or(os.Getenv("CODEQ_BASE_URL"), "http://127.0.0.1:8080"))
		options.URLs = strings.Split(given, ",")
	}
	switch options.Transport {
	case Auto, Streams, HTTP:
	default:
		message := fmt.Sprintf("invalid transport %q: choose Auto, Streams or HTTP", options.Transport)
		return nil, &Error{Code: "invalid_option", Message: message}
	}
	options.Token = or(options.Token, or(os.Getenv("CODEQ_TOKEN"), "dev-token"))
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	if options.Tracing == nil {
		options.Tracing = passOn{}
	}
	t, err := newTransports(options)
	if err != nil {
		return nil, err
	}
	c := &Client{options: options, transports: t, workers: map[*Worker]bool{}}
	c.producer = newProducer(t, c.token)
	return c, nil
}

func (c *Client) token(ctx context.Context) (string, error) {
	if c.options.TokenSource != nil {
		return c.options.TokenSource(ctx)
	}
	return c.options.Token, nil
}

// Close closes the client and its workers. Calls that wait get an error with the code closed.
func (c *Client) Close() error {
	c.mutex.Lock()
	c.isClosed = true
	var workers []*Worker
	for worker := range c.workers {
		workers = append(workers, worker)
	}
	c.mutex.Unlock()
	errs := make(chan error, len(workers))
	for _, worker := range workers {
		go func() { errs <- worker.Close() }()
	}
	var problem error
	for range workers {
		if err := <-errs; err != nil {
			problem = err
		}
	}
	c.producer.close()
	c.transports.close()
	return problem
}

// ask makes a request that has no stream.
func (c *Client) ask(ctx context.Context, method, path string, body, into any) error {
	token, err := c.token(ctx)
	if err != nil {
		return unavailable("there is no token: "+err.Error(), err)
	}
	r := request{method: method, path: path, token: token}
	if body != nil {
		if r.body, err = encode(body); err != nil {
			return err
		}
	}
	return c.transports.ask(ctx, r, into)
}

// encode is json.Marshal without its escapes for HTML.
func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

func randomText() string {
	var random [16]byte
	rand.Read(random[:])
	return hex.EncodeToString(random[:])
}
