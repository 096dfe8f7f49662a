package codeq

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	answerTimeMax = 15 * time.Second
	idleMax       = 32
)

// httpAPI makes requests to one server.
type httpAPI struct {
	base   *url.URL
	client *http.Client
}

func newHTTPAPI(text string, options Options) (*httpAPI, error) {
	base, err := url.Parse(text)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Hostname() == "" || base.User != nil {
		message := fmt.Sprintf("invalid URL %q: give http://host:port or https://host:port", text)
		return nil, &Error{Code: "invalid_option", Message: message}
	}
	base.Path = strings.TrimRight(base.Path, "/")
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: idleMax,
		IdleConnTimeout:     time.Minute,
		TLSClientConfig:     options.TLS,
	}
	// The token goes to no other server.
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &httpAPI{base: base, client: &http.Client{Transport: transport, CheckRedirect: refuse}}, nil
}

func (a *httpAPI) isTLS() bool { return a.base.Scheme == "https" }

type request struct {
	method string
	path   string
	token  string
	// JSON text, or nothing.
	body    []byte
	headers map[string]string
	// How long the server may hold the request.
	wait time.Duration
}

// ask reads the answer into `into`, and says whether there was one. A refusal is an [*Error] with its code.
func (a *httpAPI) ask(ctx context.Context, r request, into any) (bool, error) {
	r.path = "/v1/codeq" + r.path
	status, header, body, err := a.exchange(ctx, r)
	if err != nil {
		return false, err
	}
	if status < 200 || status >= 300 {
		return false, refusalOf(status, header, body)
	}
	if len(body) == 0 || into == nil {
		return len(body) > 0, nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return false, &Error{Code: "not_codeq", Message: "what answers is not a codeQ server: " + err.Error(), cause: err}
	}
	return true, nil
}

func (a *httpAPI) exchange(ctx context.Context, r request) (int, http.Header, []byte, error) {
	limited, cancel := context.WithTimeout(ctx, answerTimeMax+r.wait)
	defer cancel()
	made, err := http.NewRequestWithContext(limited, r.method, a.base.String()+r.path, bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, nil, &Error{Code: "invalid_option", Message: err.Error(), cause: err}
	}
	if r.body != nil {
		made.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		made.Header.Set("Authorization", "Bearer "+r.token)
	}
	made.Header.Set("User-Agent", userAgent)
	for name, value := range r.headers {
		made.Header.Set(name, value)
	}
	reply, err := a.client.Do(made)
	if err == nil {
		defer reply.Body.Close()
		var body []byte
		if body, err = io.ReadAll(reply.Body); err == nil {
			return reply.StatusCode, reply.Header, body, nil
		}
	}
	if ctx.Err() != nil {
		return 0, nil, nil, contextError(ctx, "the server has not answered")
	}
	return 0, nil, nil, unavailable(fmt.Sprintf("cannot reach %s: %v", a.base.Host, err), err)
}

func refusalOf(status int, header http.Header, body []byte) *Error {
	code := header.Get("Codeq-Error")
	if code == "" {
		code = codeOfStatus(status)
	}
	var said struct{ Error, TaskID string }
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		said.Error = fmt.Sprintf("the server answered with status %d", status)
	}
	return &Error{Code: code, Message: said.Error, TaskID: said.TaskID}
}

// codeOfStatus is for answers without a code, of something between the client and the server.
func codeOfStatus(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "unauthenticated"
	case status == http.StatusForbidden:
		return "permission_denied"
	case status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests:
		return "unavailable"
	case status == http.StatusNotFound || status < 400:
		return "not_codeq"
	}
	return "invalid_argument"
}

func contextError(ctx context.Context, message string) *Error {
	code := "timeout"
	if ctx.Err() == context.Canceled {
		code = "aborted"
	}
	cause := context.Cause(ctx)
	return &Error{Code: code, Message: message + ": " + cause.Error(), cause: cause}
}
