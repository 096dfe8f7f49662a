package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	createBody = `{"command":"` + command + `","payload":{"data":"` +
		`xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}}`
	claimBody  = `{"commands":["` + command + `"],"waitSeconds":5}`
	resultBody = `{"status":"COMPLETED","result":{"ok":true}}`
)

var echoBody = strings.Repeat("x", 300)

// Connections that do one request after the other: a cycle again and again, or each when it is due.
func runHTTP(asked load, m *meter) {
	transport := &http.Transport{
		MaxIdleConnsPerHost: asked.Connections,
		MaxConnsPerHost:     asked.Connections,
	}
	c := &httpClient{
		client: &http.Client{Transport: transport},
		base:   fmt.Sprintf("http://127.0.0.1:%d", asked.Port),
		meter:  m,
	}
	step := c.cycle
	if asked.Part == "echo" {
		step = c.echo
	}
	if asked.Part == "paced" {
		due := make(chan time.Time, unansweredMax)
		go atRate(asked.TasksPerSecond, func(at time.Time) { due <- at })
		for range asked.Connections {
			go func() {
				for at := range due {
					step(at)
				}
			}()
		}
		return
	}
	for range asked.Connections {
		go func() {
			for {
				step(time.Now())
			}
		}()
	}
}

type httpClient struct {
	client *http.Client
	base   string
	meter  *meter
}

func (c *httpClient) cycle(due time.Time) {
	const tasks = "/v1/codeq/tasks"
	started := time.Now()
	c.post(tasks, createBody, http.StatusAccepted)
	created := time.Now()
	var claimed struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(c.post(tasks+"/claim", claimBody, http.StatusOK), &claimed); err != nil {
		fail(err)
	}
	taken := time.Now()
	c.post(tasks+"/"+claimed.ID+"/result", resultBody, http.StatusOK)
	ended := time.Now()
	c.meter.count(func(m *meter) {
		m.finished++
		m.deliveries++
		m.latencies["create"].add(created.Sub(started))
		m.latencies["claim"].add(taken.Sub(created))
		m.latencies["submit"].add(ended.Sub(taken))
		m.latencies["cycle"].add(ended.Sub(due))
	})
}

func (c *httpClient) echo(time.Time) {
	c.post("/", echoBody, http.StatusOK)
	c.meter.count(func(m *meter) { m.finished++ })
}

func (c *httpClient) post(path, body string, expected int) []byte {
	request, err := http.NewRequest(http.MethodPost, c.base+path, strings.NewReader(body))
	if err != nil {
		fail(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	reply, err := c.client.Do(request)
	if err != nil {
		fail(err)
	}
	text, err := io.ReadAll(reply.Body)
	reply.Body.Close()
	if err != nil {
		fail(err)
	}
	if reply.StatusCode != expected {
		fail(fmt.Errorf("expected %d, got %d %s", expected, reply.StatusCode, text))
	}
	return text
}
