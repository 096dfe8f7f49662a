package codeq

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	helloTimeMax = 10 * time.Second
	endTimeMax   = 5 * time.Second
)

// pauseAfter is how long to wait before another try: longer with every one, and different for every client.
func pauseAfter(tries int) time.Duration {
	most := min(5*time.Second, 100*time.Millisecond<<min(max(tries-1, 0), 16))
	return most/2 + rand.N(most/2)
}

// transports finds the servers of a client: the next one when one does not answer, and streams where there are any.
type transports struct {
	servers []*httpAPI
	options Options

	mutex   sync.Mutex
	current int
	// Addresses of streams at which another server answers.
	foreign          map[string]bool
	isWithoutStreams bool
}

func newTransports(options Options) (*transports, error) {
	t := &transports{options: options, foreign: map[string]bool{}}
	for _, text := range options.URLs {
		api, err := newHTTPAPI(text, options)
		if err != nil {
			return nil, err
		}
		t.servers = append(t.servers, api)
	}
	return t, nil
}

func (t *transports) api() *httpAPI {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.servers[t.current]
}

// passOver makes the next server the current one: this one did not answer.
func (t *transports) passOver(server *httpAPI) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.servers[t.current] == server {
		t.current = (t.current + 1) % len(t.servers)
	}
}

// streamsFailed: the next session goes over HTTP, if it may.
func (t *transports) streamsFailed(foreignAddress string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.isWithoutStreams = true
	if foreignAddress != "" {
		t.foreign[foreignAddress] = true
	}
}

// ask makes a request that has no stream, at the next server when one cannot be reached.
func (t *transports) ask(ctx context.Context, r request, into any) error {
	var err error
	for range t.servers {
		server := t.api()
		if _, err = server.ask(ctx, r, into); CodeOf(err) != "unavailable" {
			return err
		}
		t.passOver(server)
	}
	return err
}

func (t *transports) close() {
	for _, server := range t.servers {
		server.client.CloseIdleConnections()
	}
}

// target is the address of the streams and the server that has to answer there, if that is known.
func (t *transports) target(ctx context.Context, server *httpAPI, port, otherPort string) (address, instance string, err error) {
	if t.options.Streams != "" {
		return t.options.Streams, "", nil
	}
	_, _, body, err := server.exchange(ctx, request{method: "GET", path: "/healthz"})
	if err != nil {
		return "", "", err
	}
	var health struct {
		Instance string
		Streams  map[string]int
	}
	// Something in between may not let the page through.
	if json.Unmarshal(body, &health) != nil {
		return "", "", nil
	}
	number := health.Streams[port]
	if number == 0 {
		number = health.Streams[otherPort]
	}
	address = net.JoinHostPort(server.base.Hostname(), strconv.Itoa(number))
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if number == 0 || t.foreign[address] {
		return "", "", nil
	}
	return address, health.Instance, nil
}

// opened is a session that was opened, and how.
type opened[E, R any] struct {
	session[E, R]
	transport Transport
	address   string
	instance  string
}

// open uses the transport `stay` when it is not Auto, because leases can only be ended there.
func open[E, R any](ctx context.Context, t *transports, k *kind[E, R], token string, stay Transport) (*opened[E, R], error) {
	server := t.api()
	only := t.options.Transport
	if stay != Auto {
		only = stay
	}
	t.mutex.Lock()
	if only == Auto && t.isWithoutStreams {
		t.isWithoutStreams = false
		only = HTTP
	}
	t.mutex.Unlock()
	if only != HTTP {
		address, instance, err := t.target(ctx, server, k.port, k.otherPort)
		if err != nil {
			return nil, err
		}
		if address != "" {
			s, err := openStream(k, address, t.options, server.isTLS())
			if err != nil {
				t.streamsFailed("")
				return nil, err
			}
			return &opened[E, R]{s, Streams, address, instance}, nil
		}
	}
	if only == Streams {
		return nil, unavailable("the server has no streams that can be reached; give their address, or use HTTP", nil)
	}
	return &opened[E, R]{newHTTPSession(k, server, token), HTTP, "", ""}, nil
}

// listener is the owner of a connection. It is called with its lock held.
type listener[R any] interface {
	opened()
	reply(*R)
	// lost: the session was lost, or none could be opened. Whether to open another one.
	lost(*Error) bool
	// refused: the server does not accept the Hello. Whether to try again.
	refused(*Error) bool
	// mustStay: whether the next session has to use the transport of the last one.
	mustStay() bool
}

// connection keeps one session with a server open: after a pause it opens another one when the session is lost.
// What was sent in a session that ended may have arrived or not; the owner sends it again. Its methods are called
// with the lock of the owner, except close.
type connection[E, R any] struct {
	mutex      *sync.Mutex
	transports *transports
	kind       *kind[E, R]
	token      func(context.Context) (string, error)
	hello      func(token string) *E
	listener   listener[R]

	// Ends with the connection.
	life      context.Context
	end       context.CancelFunc
	session   *opened[E, R]
	stopped   chan struct{}
	last      Transport
	isOpen    bool
	isEnding  bool
	failures  int
	lastError *Error
}

// connect opens a session unless there is one.
func (c *connection[E, R]) connect() {
	if c.life == nil {
		c.life, c.end = context.WithCancel(context.Background())
	}
	if c.stopped == nil && c.life.Err() == nil {
		c.stopped = make(chan struct{})
		go c.run(c.stopped)
	}
}

func (c *connection[E, R]) send(event *E) {
	if c.isOpen {
		c.session.send(event)
	}
}

// renew half closes the session; the owner is told of its end as of a lost one.
func (c *connection[E, R]) renew() {
	if !c.isOpen {
		return
	}
	c.isEnding, c.isOpen = true, false
	s := c.session
	s.finish()
	// Of no effect on a session that has ended.
	time.AfterFunc(endTimeMax, s.cut)
}

// close half closes the session and waits for its end.
func (c *connection[E, R]) close() {
	c.mutex.Lock()
	c.renew()
	stopped, isEnding := c.stopped, c.isEnding
	if c.end != nil {
		c.end()
	}
	c.mutex.Unlock()
	if stopped != nil && isEnding {
		select {
		case <-stopped:
		case <-time.After(endTimeMax):
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.cut()
}

func (c *connection[E, R]) cut() {
	if c.life == nil {
		c.life, c.end = context.WithCancel(context.Background())
	}
	c.end()
	c.isOpen = false
	if c.session != nil {
		c.session.cut()
	}
}

func (c *connection[E, R]) run(stopped chan struct{}) {
	defer close(stopped)
	for {
		pause, again := c.live()
		if !again {
			return
		}
		select {
		case <-time.After(pause):
		case <-c.life.Done():
		}
	}
}

// live is one session from its beginning to its end; whether to open another one, and when.
func (c *connection[E, R]) live() (time.Duration, bool) {
	server := c.transports.api()
	problem := c.hold()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.isOpen = false
	if c.session != nil {
		c.session.cut()
		c.session = nil
	}
	c.lastError = problem
	isAskedFor := c.isEnding
	c.isEnding = false
	again := false
	switch {
	case c.life.Err() != nil:
	case !problem.Retryable():
		c.failures++
		again = c.listener.refused(problem)
	case isAskedFor:
		c.failures = 0
		again = c.listener.lost(problem)
	default:
		c.failures++
		c.transports.passOver(server)
		again = c.listener.lost(problem)
	}
	if !again {
		c.stopped = nil
	}
	if c.failures == 0 {
		return 0, again
	}
	return pauseAfter(c.failures), again
}

func (c *connection[E, R]) hold() *Error {
	c.mutex.Lock()
	stay := Auto
	if c.listener.mustStay() {
		stay = c.last
	}
	c.mutex.Unlock()
	token, err := c.token(c.life)
	if err != nil {
		return unavailable("there is no token: "+err.Error(), err)
	}
	s, err := open(c.life, c.transports, c.kind, token, stay)
	if err != nil {
		return asError(err)
	}
	c.mutex.Lock()
	c.session = s
	c.mutex.Unlock()
	s.send(c.hello(token))
	limit := time.AfterFunc(helloTimeMax, s.cut)
	reply, err := s.recv()
	limit.Stop()
	if err == nil && s.instance != "" && c.kind.instance(reply) != s.instance {
		c.transports.streamsFailed(s.address)
		return unavailable("another server answers on "+s.address, nil)
	}
	if err != nil {
		problem := problemOf(err)
		if problem.Retryable() && s.transport == Streams {
			c.transports.streamsFailed("")
		}
		return problem
	}
	c.mutex.Lock()
	if c.life.Err() == nil {
		c.last, c.failures, c.lastError, c.isOpen = s.transport, 0, nil, true
		c.listener.opened()
	}
	c.mutex.Unlock()
	for {
		reply, err := s.recv()
		if err != nil {
			return problemOf(err)
		}
		c.mutex.Lock()
		c.listener.reply(reply)
		c.mutex.Unlock()
	}
}

func problemOf(err error) *Error {
	if err == io.EOF {
		return unavailable("the server ended the session", nil)
	}
	return asError(err)
}
