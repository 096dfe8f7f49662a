package codeq

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is what can go wrong, with a code to branch on. Codes of the server are passed on as they are; the
// others are made by this package.
type Error struct {
	Code    string
	Message string
	// Of the task that the error is about, if there is one.
	TaskID string
	// Whether the server may have done what was asked although no answer arrived.
	Ambiguous bool
	cause     error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.cause }

// Retryable says whether the same call may succeed later without being changed.
func (e *Error) Retryable() bool { return retryable[e.Code] }

// TaskFailed is the error of [Run.Result] when the task failed or is a dead letter.
type TaskFailed struct {
	TaskID string
	// What the worker gave as the reason, or LEASE_EXPIRED, MAX_ATTEMPTS, TIMEOUT, EXPIRED or CANCELLED.
	Reason string
	// How many times a worker was given the task.
	Attempts int
}

func (e *TaskFailed) Error() string { return "task " + e.TaskID + " failed: " + e.Reason }

// CodeOf is the code of an error of this package, and empty for other errors.
func CodeOf(err error) string {
	if failed := (*TaskFailed)(nil); errors.As(err, &failed) {
		return "task_failed"
	}
	if own := (*Error)(nil); errors.As(err, &own) {
		return own.Code
	}
	return ""
}

type permanentError struct{ cause error }

func (e *permanentError) Error() string { return e.cause.Error() }
func (e *permanentError) Unwrap() error { return e.cause }

// Permanent marks an error of a handler as one that another attempt cannot mend: the task fails at once.
func Permanent(err error) error { return &permanentError{err} }

type delayedError struct {
	cause error
	delay time.Duration
}

func (e *delayedError) Error() string { return e.cause.Error() }
func (e *delayedError) Unwrap() error { return e.cause }

type heldError struct {
	cause error
	hold  time.Duration
}

func (e *heldError) Error() string { return e.cause.Error() }
func (e *heldError) Unwrap() error { return e.cause }

// RetryIn marks an error of a handler with the delay before the next attempt, to the millisecond. It counts as
// an attempt.
func RetryIn(delay time.Duration, err error) error { return &delayedError{err, delay} }

// RateLimited marks an error with the pause that another system asks for: the value of a Retry-After header, which is
// seconds or a date, or a duration such as "30s". The lane of the task is held for so long; a task without a lane waits by itself. The
// task keeps its turn, and no attempt is counted, up to 100 times in a row. Another value leaves the delay to the retry
// policy.
func RateLimited(retryAfter string, err error) error {
	text := strings.TrimSpace(retryAfter)
	if seconds, bad := strconv.Atoi(text); bad == nil && seconds >= 0 {
		return &heldError{err, time.Duration(min(seconds, holdSecondsMax)) * time.Second}
	}
	if hold, bad := time.ParseDuration(text); bad == nil && hold >= 0 {
		return &heldError{err, hold}
	}
	if at, bad := http.ParseTime(text); bad == nil {
		return &heldError{err, time.Until(at)}
	}
	return err
}

// The longest delay that the server takes.
const delaySecondsMax = 316_224_000

// The longest time for which a lane is held.
const holdSecondsMax = 86_400

// Codes after which the same call may succeed later.
var retryable = map[string]bool{
	// Made here.
	"timeout":         true,
	"unavailable":     true,
	"handler_timeout": true,
	"task_timeout":    true,
	// In the server's table of errors.
	"result_not_found":      true,
	"after_crowded":         true,
	"artifacts_unavailable": true,
	"backup_under_way":      true,
	"body_too_slow":         true,
	"too_many_feeds":        true,
	"rate_limited":          true,
	"quota_exceeded":        true,
	"disk_full":             true,
	"storage_failed":        true,
	"no_leader":             true,
	"outcome_unknown":       true,
	"shutting_down":         true,
	"overloaded":            true,
	"keys_unavailable":      true,
}

// What the streams say to a caller that they refuse, and its code.
var refusals = map[string]string{
	"missing Authorization header":          "missing_authorization",
	"missing token":                         "missing_authorization",
	"invalid Authorization format":          "invalid_authorization",
	"invalid token":                         "invalid_token",
	"the API key is mistyped or incomplete": "mistyped_key",
	"token is expired":                      "token_expired",
	"token is not valid yet":                "token_not_active",
	"token was revoked":                     "token_revoked",
	"invalid issuer":                        "invalid_issuer",
	"invalid audience":                      "invalid_audience",
	"invalid token claims":                  "invalid_claims",
	"missing eventTypes":                    "missing_event_types",
	"missing scope":                         "missing_scope",
	"invalid tenant claims":                 "invalid_tenant",
}

func unavailable(message string, cause error) *Error {
	return &Error{Code: "unavailable", Message: message, Ambiguous: true, cause: cause}
}

func closedError() *Error { return &Error{Code: "closed", Message: "the client was closed"} }

// asError is the error itself when it is one of this package.
func asError(err error) *Error {
	if own := (*Error)(nil); errors.As(err, &own) {
		return own
	}
	return unavailable(err.Error(), err)
}
