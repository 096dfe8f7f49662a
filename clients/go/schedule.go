package codeq

import (
	"context"
	"iter"
	"net/url"
	"time"

	"codeq/producerpb"
)

// Times says when a schedule fires and what it does then. Either Cron or Every is required.
type Times struct {
	// Five fields (minute, hour, day, month, weekday), or six with seconds in front: "0 9 * * MON-FRI".
	Cron string
	// Elapsed time, at least one second, counted from 1970-01-01T00:00Z plus Offset.
	Every, Offset time.Duration
	// The IANA time zone of Cron and Except; the default is UTC.
	TZ string
	// Nothing fires before From and after Until.
	From, Until time.Time
	// Local dates ("2026-12-25") and cron expressions at which nothing fires; at most 8.
	Except []string
	// Tasks to create in all; the default is any number.
	Times int
	// What happens while a task of the schedule has not ended: "skip" (default), "one", "replace" or "allow".
	Overlap string
	// With Overlap "replace": how long the worker of the cancelled task gets to stop; the default is 30 seconds.
	Grace time.Duration
	// What happens after down time: "latest" (default), "all" or "none".
	CatchUp string
	// How late a task may be created.
	Within time.Duration
	// Tasks are created up to so much later, always the same for the same schedule.
	Spread time.Duration
	// Pauses the schedule after so many failed tasks in a row.
	PauseAfterFailures int
}

// Schedule is a schedule as the server has it.
type Schedule struct {
	ID   string `json:"id"`
	Task string `json:"command"`
	// Grows with every change of what was put.
	Version int `json:"version"`
	// The next nominal instant, and the last one that became a task; nil when there is none.
	NextAt *time.Time `json:"nextAt"`
	LastAt *time.Time `json:"lastAt"`
	// Tasks created at nominal instants, and those of them that have not ended.
	Fired int `json:"fired"`
	Live  int `json:"live"`
	// Nominal instants that became no task, by the reason.
	Skipped map[string]int `json:"skipped"`
	// Failed tasks in a row.
	Failures int `json:"failures"`
	// Who paused the schedule, and why; nil when nobody did.
	Paused *struct {
		By     string    `json:"by"`
		Reason string    `json:"reason"`
		At     time.Time `json:"at"`
	} `json:"paused"`
}

// scheduleFields are those of a task without the ones that a schedule has no use for.
type scheduleFields struct {
	creationFields
	Cron               string   `json:"cron,omitempty"`
	Every              string   `json:"every,omitempty"`
	Offset             string   `json:"offset,omitempty"`
	TZ                 string   `json:"tz,omitempty"`
	From               string   `json:"from,omitempty"`
	Until              string   `json:"until,omitempty"`
	Except             []string `json:"except,omitempty"`
	Times              int      `json:"times,omitempty"`
	Overlap            string   `json:"overlap,omitempty"`
	GraceSeconds       int32    `json:"graceSeconds,omitempty"`
	CatchUp            string   `json:"catchUp,omitempty"`
	Within             string   `json:"within,omitempty"`
	Spread             string   `json:"spread,omitempty"`
	PauseAfterFailures int      `json:"pauseAfterFailures,omitempty"`
}

// PutSchedule creates a schedule of this task, or changes it; the same call again changes nothing. Options such as [Delay]
// and [IdempotencyKey], which concern a single task, are refused by the server. The token has to be an administrator's.
func (t *Task[In, Out]) PutSchedule(ctx context.Context, client *Client, id string, input In, times Times, options ...EnqueueOption) (Schedule, error) {
	payload, err := encodeWithin(input, "input", t.name)
	if err != nil {
		return Schedule{}, err
	}
	task := &producerpb.CreateTask{Command: t.name, Payload: payload}
	for _, each := range [][]EnqueueOption{t.defaults, options} {
		for _, option := range each {
			option(task)
		}
	}
	body := scheduleFields{
		creationFields: fieldsOf(task),
		Cron:           times.Cron, Every: lengthOf(times.Every), Offset: lengthOf(times.Offset), TZ: times.TZ,
		From: instantOf(times.From), Until: instantOf(times.Until), Except: times.Except, Times: times.Times,
		Overlap: times.Overlap, GraceSeconds: wholeSeconds(times.Grace), CatchUp: times.CatchUp,
		Within: lengthOf(times.Within), Spread: lengthOf(times.Spread), PauseAfterFailures: times.PauseAfterFailures,
	}
	return client.askSchedule(ctx, "PUT", schedulePath(id, ""), body)
}

// Schedule asks for a schedule; the code of the error is schedule_not_found when there is none.
func (c *Client) Schedule(ctx context.Context, id string) (Schedule, error) {
	return c.askSchedule(ctx, "GET", schedulePath(id, ""), nil)
}

// Schedules gives the schedules in the order of their ids, or those whose ids begin with prefix. It ends after an error.
func (c *Client) Schedules(ctx context.Context, prefix string) iter.Seq2[Schedule, error] {
	return func(yield func(Schedule, error) bool) {
		query := url.Values{"prefix": {prefix}}
		for {
			var page struct {
				Schedules []Schedule
				Next      string
			}
			if err := c.ask(ctx, "GET", "/admin/schedules?"+query.Encode(), nil, &page); err != nil {
				yield(Schedule{}, err)
				return
			}
			for _, schedule := range page.Schedules {
				if !yield(schedule, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("after", page.Next)
		}
	}
}

// PauseSchedule creates nothing until the schedule is resumed.
func (c *Client) PauseSchedule(ctx context.Context, id, reason string) (Schedule, error) {
	return c.askSchedule(ctx, "POST", schedulePath(id, "/pause"), map[string]string{"reason": reason})
}

// ResumeSchedule goes on; what was due during the pause is skipped.
func (c *Client) ResumeSchedule(ctx context.Context, id string) (Schedule, error) {
	return c.askSchedule(ctx, "POST", schedulePath(id, "/resume"), nil)
}

// RunSchedule creates a task now and gives its id; the plan does not change.
func (c *Client) RunSchedule(ctx context.Context, id string) (string, error) {
	var made struct{ TaskID string }
	err := c.ask(ctx, "POST", schedulePath(id, "/run"), nil, &made)
	return made.TaskID, err
}

// DeleteSchedule deletes a schedule; its tasks stay.
func (c *Client) DeleteSchedule(ctx context.Context, id string) error {
	return c.ask(ctx, "DELETE", schedulePath(id, ""), nil, nil)
}

func (c *Client) askSchedule(ctx context.Context, method, path string, body any) (Schedule, error) {
	var schedule Schedule
	return schedule, c.ask(ctx, method, path, body, &schedule)
}

func schedulePath(id, rest string) string { return "/admin/schedules/" + url.PathEscape(id) + rest }

// instantOf is empty for the zero time.
func instantOf(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}
