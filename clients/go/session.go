package codeq

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	messageBytesMax = 16 * 1024 * 1024
	keepaliveTime   = 20 * time.Second
	keepaliveWait   = 10 * time.Second
)

// A session carries events to the server (E) and replies back (R): on a stream, or as requests over HTTP. It ends
// once: recv returns io.EOF when the server has answered everything, and another error else.
type session[E, R any] interface {
	// send never blocks.
	send(event *E)
	// finish: the server still answers what it was asked, then the session ends.
	finish()
	cut()
	recv() (*R, error)
}

// kind is one of the two sorts of sessions.
type kind[E, R any] struct {
	// As in the list of ports of the health page; the other one stands in.
	port, otherPort string
	stream          func(context.Context, grpc.ClientConnInterface) (grpc.BidiStreamingClient[E, R], error)
	// instance is the server that says so in its greeting.
	instance func(*R) string
	// request does over HTTP what the event asks for.
	request func(context.Context, *httpSession[E, R], *E) error
	// isWaiting says whether the server may hold the event.
	isWaiting func(*E) bool
}

// A queue without a limit, which one goroutine reads.
type queue[T any] struct {
	mutex sync.Mutex
	ready *sync.Cond
	items []T
	end   error
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.ready = sync.NewCond(&q.mutex)
	return q
}

func (q *queue[T]) push(item T) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.end == nil {
		q.items = append(q.items, item)
		q.ready.Signal()
	}
}

// close lets the reader have what is in the queue, then the error.
func (q *queue[T]) close(err error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.end == nil {
		q.end = err
		q.ready.Broadcast()
	}
}

func (q *queue[T]) pop() (T, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for len(q.items) == 0 && q.end == nil {
		q.ready.Wait()
	}
	var item T
	if len(q.items) == 0 {
		return item, q.end
	}
	item = q.items[0]
	var none T
	q.items[0] = none
	q.items = q.items[1:]
	return item, nil
}

type grpcSession[E, R any] struct {
	connection *grpc.ClientConn
	stream     grpc.BidiStreamingClient[E, R]
	cancel     context.CancelFunc
	unsent     *queue[*E]
}

func openStream[E, R any](k *kind[E, R], address string, options Options, isTLS bool) (*grpcSession[E, R], error) {
	security := insecure.NewCredentials()
	if isTLS {
		security = credentials.NewTLS(options.TLS)
	}
	connection, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(security),
		grpc.WithUserAgent(userAgent),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveWait}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax)),
	)
	if err != nil {
		return nil, &Error{Code: "invalid_option", Message: err.Error(), cause: err}
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &grpcSession[E, R]{connection: connection, cancel: cancel, unsent: newQueue[*E]()}
	// A server that accepts the connection and says nothing must not hold up the opening for ever.
	limit := time.AfterFunc(helloTimeMax, s.cut)
	defer limit.Stop()
	if s.stream, err = k.stream(ctx, connection); err != nil {
		s.cut()
		return nil, endOf(err)
	}
	go s.write()
	return s, nil
}

func (s *grpcSession[E, R]) send(event *E) { s.unsent.push(event) }

func (s *grpcSession[E, R]) finish() { s.unsent.close(io.EOF) }

func (s *grpcSession[E, R]) cut() {
	s.unsent.close(io.ErrClosedPipe)
	s.cancel()
	s.connection.Close()
}

func (s *grpcSession[E, R]) recv() (*R, error) {
	reply, err := s.stream.Recv()
	if err == io.EOF {
		return nil, err
	}
	if err != nil {
		return nil, endOf(err)
	}
	return reply, nil
}

func (s *grpcSession[E, R]) write() {
	for {
		event, err := s.unsent.pop()
		if err == io.EOF {
			s.stream.CloseSend()
		}
		// After an error of Send, recv says why.
		if err != nil || s.stream.Send(event) != nil {
			return
		}
	}
}

func endOf(err error) *Error {
	said := status.Convert(err)
	message := said.Message()
	code := refusals[strings.TrimPrefix(message, "auth failed: ")]
	if message == "" {
		message = fmt.Sprintf("the server ended the stream (%s)", said.Code())
	}
	switch said.Code() {
	case codes.Unauthenticated:
		return &Error{Code: or(code, "unauthenticated"), Message: message, cause: err}
	case codes.PermissionDenied:
		return &Error{Code: or(code, "permission_denied"), Message: message, cause: err}
	case codes.Unimplemented:
		return &Error{Code: "not_codeq", Message: message, cause: err}
	}
	return unavailable(message, err)
}

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// httpSession makes a request of every event; the first that does not get through ends the session.
type httpSession[E, R any] struct {
	kind    *kind[E, R]
	api     *httpAPI
	token   string
	replies *queue[*R]
	// Of all requests, and of those that the server may hold.
	all, waiting   context.Context
	cutAll, cutWas context.CancelFunc

	mutex       sync.Mutex
	underWay    int
	isFinishing bool
}

func newHTTPSession[E, R any](k *kind[E, R], api *httpAPI, token string) *httpSession[E, R] {
	s := &httpSession[E, R]{kind: k, api: api, token: token, replies: newQueue[*R]()}
	s.all, s.cutAll = context.WithCancel(context.Background())
	s.waiting, s.cutWas = context.WithCancel(s.all)
	return s
}

func (s *httpSession[E, R]) send(event *E) {
	isWaiting := s.kind.isWaiting(event)
	ctx := s.all
	if isWaiting {
		ctx = s.waiting
	}
	s.mutex.Lock()
	s.underWay++
	s.mutex.Unlock()
	go func() {
		err := s.kind.request(ctx, s, event)
		if err != nil && ctx.Err() == nil {
			s.end(err)
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.underWay--
		s.endWhenDone()
	}()
}

func (s *httpSession[E, R]) finish() {
	s.cutWas()
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.isFinishing = true
	s.endWhenDone()
}

func (s *httpSession[E, R]) cut() { s.end(unavailable("the session was cut", nil)) }

func (s *httpSession[E, R]) recv() (*R, error) { return s.replies.pop() }

func (s *httpSession[E, R]) end(err error) {
	s.replies.close(err)
	s.cutAll()
}

func (s *httpSession[E, R]) endWhenDone() {
	if s.isFinishing && s.underWay == 0 {
		s.end(io.EOF)
	}
}

// greet asks for a task that cannot be, which shows whether the server is there and knows the token.
func (s *httpSession[E, R]) greet(ctx context.Context, reply *R) error {
	_, err := s.ask(ctx, "GET", "/tasks/hello", nil, nil, 0, nil)
	if err != nil && CodeOf(err) != "not_found" {
		return err
	}
	s.replies.push(reply)
	return nil
}

func (s *httpSession[E, R]) ask(ctx context.Context, method, path string, body []byte, headers map[string]string, wait time.Duration, into any) (bool, error) {
	return s.api.ask(ctx, request{method: method, path: path, token: s.token, body: body, headers: headers, wait: wait}, into)
}
