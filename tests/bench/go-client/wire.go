package main

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of producerpb and workerpb that a load needs, by the numbers of proto/*.proto.

// Messages are bytes on both sides; gRPC is told to leave them alone.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(message any) ([]byte, error) {
	return *message.(*[]byte), nil
}

func (rawCodec) Unmarshal(bytes []byte, into any) error {
	*into.(*[]byte) = append([]byte(nil), bytes...)
	return nil
}

func appendText(to []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), text)
}

func appendBytes(to []byte, number protowire.Number, bytes []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), bytes)
}

func appendNumber(to []byte, number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(to, number, protowire.VarintType), value)
}

func helloEvent(token, workerID string) []byte {
	hello := appendText(nil, 1, token)
	if workerID != "" {
		hello = appendText(hello, 2, workerID)
	}
	return appendBytes(nil, 1, hello)
}

func createEvent(firstSeq uint64, count int, payload []byte) []byte {
	tasks := make([][]byte, count)
	for i := range tasks {
		task := appendNumber(make([]byte, 0, 32+len(payload)), 1, firstSeq+uint64(i))
		task = appendText(task, 2, command)
		tasks[i] = appendBytes(task, 3, payload)
	}
	return listEvent(2, 3, tasks)
}

// Up to 1 asks for a single task, more for a batch.
func readyEvent(count int) []byte {
	ready := appendText(nil, 1, command)
	ready = appendNumber(ready, 3, uint64(count))
	return appendBytes(nil, 2, ready)
}

func resultEvent(tasks []assigned, isBatch bool) []byte {
	results := make([][]byte, len(tasks))
	for i, task := range tasks {
		result := appendText(make([]byte, 0, 96), 1, task.id)
		result = appendText(result, 2, "COMPLETED")
		result = appendText(result, 3, `{"ok":true}`)
		results[i] = appendNumber(result, 100, task.leaseToken)
	}
	if isBatch {
		return listEvent(0, 7, results)
	}
	return listEvent(3, 7, results)
}

// A list of one goes under the number of single messages where there is one.
func listEvent(single, batch protowire.Number, items [][]byte) []byte {
	if len(items) == 1 && single != 0 {
		return appendBytes(nil, single, items[0])
	}
	var list []byte
	for _, item := range items {
		list = appendBytes(list, 1, item)
	}
	return appendBytes(nil, batch, list)
}

type createAck struct {
	seq uint64
	ok  bool
	why string
}

func readCreateAcks(event []byte) (acks []createAck, err error) {
	err = readItems(event, 2, 4, func(item []byte) error {
		var ack createAck
		err := fields(item, func(number protowire.Number, value uint64, bytes []byte) error {
			switch number {
			case 1:
				ack.seq = value
			case 2:
				ack.ok = value != 0
			case 4:
				ack.why = string(bytes)
			}
			return nil
		})
		acks = append(acks, ack)
		return err
	})
	return acks, err
}

type assigned struct {
	id         string
	payload    []byte
	leaseToken uint64
}

func readTask(bytes []byte) (task assigned, err error) {
	err = fields(bytes, func(number protowire.Number, value uint64, bytes []byte) error {
		switch number {
		case 1:
			task.id = string(bytes)
		case 3:
			task.payload = bytes
		case 100:
			task.leaseToken = value
		}
		return nil
	})
	return task, err
}

type workerReply struct {
	tasks []assigned
	// How many results were accepted.
	accepted int
}

func readWorkerReply(event []byte) (reply workerReply, err error) {
	err = fields(event, func(number protowire.Number, _ uint64, body []byte) error {
		switch number {
		case 2, 8: // TaskAssignment and TaskBatch both hold tasks as their number 1.
			return fields(body, func(_ protowire.Number, _ uint64, item []byte) error {
				task, err := readTask(item)
				reply.tasks = append(reply.tasks, task)
				return err
			})
		case 3, 9:
			return readItems(event, 3, 9, func(item []byte) error {
				reply.accepted++
				return checkResultAck(item)
			})
		default:
			return fmt.Errorf("the worker stream got %d: %q", number, body)
		}
	})
	return reply, err
}

func checkResultAck(item []byte) error {
	ok, why := false, ""
	err := fields(item, func(number protowire.Number, value uint64, bytes []byte) error {
		switch number {
		case 2:
			ok = value != 0
		case 3:
			why = string(bytes)
		}
		return nil
	})
	if err == nil && !ok {
		err = fmt.Errorf("a result was refused: %s", why)
	}
	return err
}

// The items of an event that holds one of them, or a batch with the list as its number 1.
func readItems(event []byte, single, batch protowire.Number, each func([]byte) error) error {
	return fields(event, func(number protowire.Number, _ uint64, body []byte) error {
		switch number {
		case single:
			return each(body)
		case batch:
			return fields(body, func(_ protowire.Number, _ uint64, item []byte) error {
				return each(item)
			})
		default:
			return fmt.Errorf("expected %d or %d, got %d: %q", single, batch, number, body)
		}
	})
}

var errWire = errors.New("a message is not what protobuf writes")

func fields(
	message []byte,
	each func(number protowire.Number, value uint64, bytes []byte) error,
) error {
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return errWire
		}
		message = message[length:]
		var value uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			value, length = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			bytes, length = protowire.ConsumeBytes(message)
		default:
			length = protowire.ConsumeFieldValue(number, kind, message)
		}
		if length < 0 {
			return errWire
		}
		message = message[length:]
		if err := each(number, value, bytes); err != nil {
			return err
		}
	}
	return nil
}
