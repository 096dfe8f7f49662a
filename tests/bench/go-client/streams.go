package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	token   = "dev-token"
	command = "bench"
	// Messages of the producer that may be without an answer.
	unansweredMax = 1 << 16
)

// One producer stream, and worker streams that share the slots on a connection of their own.
func runStreams(asked load, m *meter) {
	loop := &closedLoop{
		batch: asked.Batch,
		room:  asked.Producers*asked.Batch + asked.Slots*asked.BatchOut,
	}
	workers := dial(asked.WorkerPort)
	for index := range asked.WorkerStreams {
		s := open(workers, "/workerpb.WorkerStream/Stream", helloEvent(token, fmt.Sprintf("worker-%d", index)))
		// Divided as evenly as it goes.
		slots := (asked.Slots + index) / asked.WorkerStreams
		work(s, slots, asked, m, loop.finished)
	}
	s := open(dial(asked.ProducerPort), "/producerpb.ProducerStream/Stream", helloEvent(token, ""))
	p := newProducer(s, asked, m)
	if asked.Part == "closed" {
		loop.create = func() { p.create(closedPayload, loop.answered) }
		loop.start(asked.Producers)
		return
	}
	go atRate(asked.TasksPerSecond, func(time.Time) {
		p.create(payloadAt(time.Now()), func() {})
	})
}

func dial(port int) *grpc.ClientConn {
	connection, err := grpc.NewClient(
		fmt.Sprintf("passthrough:///127.0.0.1:%d", port),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})),
	)
	if err != nil {
		fail(err)
	}
	return connection
}

// A stream whose Hello was answered. Messages are sent by a goroutine of their own, so that a receiver
// never waits for room to send.
type stream struct {
	call     grpc.ClientStream
	outgoing chan []byte
}

func open(connection *grpc.ClientConn, method string, hello []byte) *stream {
	shape := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	call, err := connection.NewStream(context.Background(), shape, method)
	if err != nil {
		fail(err)
	}
	s := &stream{call: call, outgoing: make(chan []byte, unansweredMax)}
	go func() {
		for message := range s.outgoing {
			if err := call.SendMsg(&message); err != nil {
				fail(err)
			}
		}
	}()
	s.outgoing <- hello
	if reply := s.receive(); len(reply) == 0 || reply[0] != 1<<3|2 {
		fail(fmt.Errorf("the Hello was refused: %q", reply))
	}
	return s
}

func (s *stream) receive() []byte {
	var message []byte
	if err := s.call.RecvMsg(&message); err != nil {
		fail(err)
	}
	return message
}

type sent struct {
	at   time.Time
	done func()
}

type producer struct {
	stream *stream
	batch  int
	mutex  sync.Mutex
	// Numbered from the start; seq of a task is that number times the batch, and its place in it.
	count      uint64
	unanswered []sent
}

func newProducer(s *stream, asked load, m *meter) *producer {
	p := &producer{stream: s, batch: asked.Batch, unanswered: make([]sent, unansweredMax)}
	go func() {
		for {
			acks, err := readCreateAcks(s.receive())
			if err != nil {
				fail(err)
			}
			for _, ack := range acks {
				if !ack.ok {
					fail(fmt.Errorf("a create failed: %s", ack.why))
				}
			}
			p.mutex.Lock()
			answered := p.unanswered[acks[0].seq/uint64(p.batch)%unansweredMax]
			p.mutex.Unlock()
			took := time.Since(answered.at)
			m.count(func(m *meter) { m.latencies["create"].add(took) })
			answered.done()
		}
	}()
	return p
}

func (p *producer) create(payload []byte, done func()) {
	p.mutex.Lock()
	number := p.count
	p.count++
	p.unanswered[number%unansweredMax] = sent{at: time.Now(), done: done}
	p.mutex.Unlock()
	p.stream.outgoing <- createEvent(number*uint64(p.batch), p.batch, payload)
}

// The slots of one stream: each has one Ready out; when its tasks arrive it sends their results and the
// next Ready without waiting for the acknowledgement.
func work(s *stream, slots int, asked load, m *meter, finished func(int)) {
	ready := readyEvent(asked.BatchOut)
	readys := make([]time.Time, 0, slots)
	var submitted []time.Time
	for range slots {
		readys = append(readys, time.Now())
		s.outgoing <- ready
	}
	deliver := func(tasks []assigned) {
		now := time.Now()
		waited := now.Sub(readys[0])
		readys = append(readys[1:], now)
		submitted = append(submitted, now)
		s.outgoing <- resultEvent(tasks, asked.BatchOut > 1)
		s.outgoing <- ready
		m.count(func(m *meter) {
			m.deliveries++
			m.latencies["claim"].add(waited)
			if asked.Part == "paced" {
				for _, task := range tasks {
					m.latencies["pickup"].add(ageOf(task.payload, now))
				}
			}
		})
	}
	go func() {
		for {
			reply, err := readWorkerReply(s.receive())
			if err != nil {
				fail(err)
			}
			if len(reply.tasks) > 0 {
				deliver(reply.tasks)
				continue
			}
			took := time.Since(submitted[0])
			submitted = submitted[1:]
			m.count(func(m *meter) {
				m.finished += reply.accepted
				m.latencies["submit"].add(took)
			})
			finished(reply.accepted)
		}
	}()
}

// Producers that create again as soon as they are answered, and rest while as much is unfinished as all
// producers and slots together can hold.
type closedLoop struct {
	mutex   sync.Mutex
	batch   int
	room    int
	resting int
	create  func()
}

func (l *closedLoop) start(producers int) {
	l.mutex.Lock()
	l.resting = producers
	l.mutex.Unlock()
	l.wake(0, 0)
}

func (l *closedLoop) answered()          { l.wake(0, 1) }
func (l *closedLoop) finished(count int) { l.wake(count, 0) }

func (l *closedLoop) wake(room, resting int) {
	l.mutex.Lock()
	l.room += room
	l.resting += resting
	starting := min(l.resting, l.room/l.batch)
	l.resting -= starting
	l.room -= starting * l.batch
	l.mutex.Unlock()
	for range starting {
		l.create()
	}
}

// On time, whether or not the last one was answered; `next` is told when it was due.
func atRate(perSecond int, next func(due time.Time)) {
	started := time.Now()
	for count := 0; ; count++ {
		due := started.Add(time.Duration(count) * time.Second / time.Duration(perSecond))
		time.Sleep(time.Until(due))
		next(due)
	}
}

const (
	payloadBytes = 100
	momentAt     = len(`{"at":"`)
	momentDigits = 14
)

var began = time.Now()
var closedPayload = payloadAt(began)

// JSON of 100 bytes that says when it was made.
func payloadAt(moment time.Time) []byte {
	head := fmt.Sprintf(`{"at":"%0*d","data":"`, momentDigits, moment.Sub(began).Microseconds())
	tail := bytes.Repeat([]byte("x"), payloadBytes-len(head)-2)
	return []byte(head + string(tail) + `"}`)
}

func ageOf(payload []byte, now time.Time) time.Duration {
	us, err := strconv.Atoi(string(payload[momentAt : momentAt+momentDigits]))
	if err != nil {
		fail(err)
	}
	return now.Sub(began) - time.Duration(us)*time.Microsecond
}
