package main

import (
	"math"
	"sync"
	"time"
)

// Durations are counted in steps of 10 us; longer ones than the last step are counted there.
const (
	step  = 10 * time.Microsecond
	steps = 200_000
)

type histogram struct {
	counts []uint32
	total  int
}

func (h *histogram) add(took time.Duration) {
	h.counts[min(max(0, int(took/step)), steps-1)]++
	h.total++
}

// In milliseconds; nil when nothing was counted.
func (h *histogram) quantile(share float64) *float64 {
	left := int(math.Ceil(float64(h.total) * share))
	if left == 0 {
		return nil
	}
	for at, count := range h.counts {
		left -= int(count)
		if left <= 0 {
			ms := (float64(at) + 0.5) * step.Seconds() * 1000
			return &ms
		}
	}
	return nil
}

type latency struct {
	P50Ms *float64 `json:"p50Ms,omitempty"`
	P99Ms *float64 `json:"p99Ms,omitempty"`
}

// The same as LoadReport in load.ts.
type report struct {
	Seconds    float64            `json:"seconds"`
	Finished   int                `json:"finished"`
	Deliveries int                `json:"deliveries"`
	Latency    map[string]latency `json:"latency"`
}

var latencyNames = []string{"create", "claim", "submit", "pickup", "cycle"}

// Counts while it is on.
type meter struct {
	mutex      sync.Mutex
	isOn       bool
	began      time.Time
	finished   int
	deliveries int
	latencies  map[string]*histogram
}

func newMeter() *meter {
	m := &meter{latencies: map[string]*histogram{}}
	for _, name := range latencyNames {
		m.latencies[name] = &histogram{counts: make([]uint32, steps)}
	}
	return m
}

func (m *meter) begin() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, each := range m.latencies {
		clear(each.counts)
		each.total = 0
	}
	m.finished, m.deliveries = 0, 0
	m.began = time.Now()
	m.isOn = true
}

func (m *meter) end() report {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.isOn = false
	found := report{
		Seconds:    time.Since(m.began).Seconds(),
		Finished:   m.finished,
		Deliveries: m.deliveries,
		Latency:    map[string]latency{},
	}
	for name, each := range m.latencies {
		found.Latency[name] = latency{P50Ms: each.quantile(0.5), P99Ms: each.quantile(0.99)}
	}
	return found
}

// Runs when it is on, with everything to itself.
func (m *meter) count(note func(*meter)) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.isOn {
		note(m)
	}
}
