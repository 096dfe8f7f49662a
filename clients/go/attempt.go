package codeq

import (
	"context"
	"math"
	"sync"
	"time"

	"codeq/workerpb"
)

const (
	noteCharsMax = 200
	lineCharsMax = 500
	logsMax      = 50
	unitsMax     = 1_000_000_000
)

// Attempt is what a handler knows of its task, and how it can tell about its work.
type Attempt struct {
	ID   string
	Task string
	// The first attempt is 1.
	Number      int
	MaxAttempts int
	Priority    int
	Tags        []string
	// Empty for none.
	Lane string
	// How many units of rates the task was enqueued with.
	Cost int
	// Grows with every attempt of the task, so that other systems can refuse an older one.
	FencingToken uint64
	CreatedAt    time.Time
	// The JSON text of the input.
	Payload []byte
	// Of the producer, if it sent one.
	Trace TraceContext
	// The schedule that created the task, and the instant that the task was created for, which stays the same over
	// retries; empty and zero for other tasks.
	ScheduleID   string
	ScheduledFor time.Time
	// The batch that the task belongs to; empty for none. See [Client.Batch].
	BatchID string
	// Only for the callback of the batch: how the members ended.
	BatchEnded *BatchEnd

	mutex    sync.Mutex
	progress *workerpb.Progress
	logs     []string
	used     *workerpb.Units
}

type attemptKey struct{}

// Current is the attempt of the handler that has this context, and nil elsewhere.
func Current(ctx context.Context) *Attempt {
	attempt, _ := ctx.Value(attemptKey{}).(*Attempt)
	return attempt
}

// Progress says how far the work has come, from 0 to 1, for people who look at the task.
func (a *Attempt) Progress(fraction float64, note string) {
	percent := int32(math.Round(min(max(fraction, 0), 1) * 100))
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.progress = &workerpb.Progress{Percent: percent, Text: cutText(note, noteCharsMax)}
}

// Log adds a line for people who look at the task; the server keeps the last 50.
func (a *Attempt) Log(line string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.logs = append(a.logs, cutText(line, lineCharsMax))
	if len(a.logs) > logsMax {
		a.logs = a.logs[len(a.logs)-logsMax:]
	}
}

// Used says how many units of the rate the attempt really took, such as the tokens of a language model. The server
// corrects the rate of the lane by the difference to the cost when the attempt ends. The last call counts. Units
// below 0 count as 0, and above 1,000,000,000 as that many.
func (a *Attempt) Used(units int) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.used = &workerpb.Units{Count: int32(max(0, min(units, unitsMax)))}
}

func (a *Attempt) takenUnits() *workerpb.Units {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.used
}

func (a *Attempt) hasNews() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.progress != nil || len(a.logs) > 0
}

func (a *Attempt) takeNews() (*workerpb.Progress, []string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	progress, logs := a.progress, a.logs
	a.progress, a.logs = nil, nil
	return progress, logs
}

func newAttempt(task *workerpb.Task) *Attempt {
	var ended *BatchEnd
	if task.IsBatchCallback {
		ended = &BatchEnd{int(task.BatchSucceeded), int(task.BatchFailed), int(task.BatchCancelled)}
	}
	var scheduledFor time.Time
	if task.ScheduleId != "" {
		scheduledFor = time.UnixMilli(int64(task.ScheduledForMs)).UTC()
	}
	return &Attempt{
		ScheduleID: task.ScheduleId, ScheduledFor: scheduledFor,
		BatchID: task.BatchId, BatchEnded: ended,
		ID: task.Id, Task: task.Command, Number: int(task.Attempts) + 1, MaxAttempts: int(task.MaxAttempts),
		Priority: int(task.Priority), Tags: task.Tags, Lane: task.Lane, Cost: int(max(task.Cost, 1)), FencingToken: task.LeaseToken,
		CreatedAt: task.CreatedAt.AsTime(), Payload: task.Payload,
		Trace: TraceContext{Parent: task.TraceParent, State: task.TraceState},
	}
}

// cutText keeps whole characters.
func cutText(text string, charsMax int) string {
	count := 0
	for at := range text {
		if count == charsMax {
			return text[:at]
		}
		count++
	}
	return text
}
