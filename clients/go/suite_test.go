package weir

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The driver of clients/conform: each scenario is a test. WEIR_FAKE_NODE is the path of the scripted node (cargo build -p fake-node).

type scenario struct {
	Name    string
	Options struct {
		DeadlineMs  *int `json:"deadline_ms"`
		LingerUs    int  `json:"linger_us"`
		Connections *int
		BatchMax    int  `json:"batch_max"`
		AnswerMs    *int `json:"answer_ms"`
		Auth        string
		Spool       bool
	}
	Steps []step
}

type askStep struct {
	Budget    json.RawMessage
	Amount    string
	Unit      string
	User      uint64
	RequestID uint64 `json:"request_id"`
	Retry     bool
	Confirm   bool
	Pod       json.RawMessage
}

type step struct {
	askStep
	Do         string
	Start      string
	Hold       string
	Holds      []string
	Asks       []askStep
	Times      int
	DeadlineMs *int `json:"deadline_ms"`
	WaitMs     *int `json:"wait_ms"`
	ConfirmMs  int  `json:"confirm_ms"`
	Call       string
	Order      json.RawMessage
	Ms         int
	What       string
	Verdict    string
	Count      *int
	Min        *int
	Text       string
	Base       string
	Expect     map[string]any
}

// got is what a call gave.
type got struct {
	verdicts []Verdict
	repeat   *bool
	deadline time.Time
	err      string
	expect   map[string]any
}

type driver struct {
	t       *testing.T
	play    scenario
	control net.Conn
	reader  *bufio.Reader
	nodes   string
	spool   string
	client  *Client

	mu     sync.Mutex
	holds  map[string]*Hold
	calls  map[string]chan got
	events []Event
	logged bytes.Buffer
}

func TestSuite(t *testing.T) {
	program := os.Getenv("WEIR_FAKE_NODE")
	if program == "" {
		t.Skip("WEIR_FAKE_NODE names no scripted node; make clients-go runs this test")
	}
	text, err := os.ReadFile("../conform/scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Format    int
		Scenarios []scenario
	}
	if err := json.Unmarshal(text, &suite); err != nil {
		t.Fatal(err)
	}
	if suite.Format != 1 {
		t.Fatalf("scenarios of format %d, expected 1", suite.Format)
	}
	file, err := filepath.Abs("../conform/scenarios.json")
	if err != nil {
		t.Fatal(err)
	}
	node := exec.Command(program, file)
	node.Stderr = os.Stderr
	input, _ := node.StdinPipe()
	output, _ := node.StdoutPipe()
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close(); _ = node.Wait() })
	var where struct{ Control string }
	if err := json.NewDecoder(output).Decode(&where); err != nil {
		t.Fatal(err)
	}
	for _, play := range suite.Scenarios {
		t.Run(play.Name, func(t *testing.T) {
			t.Parallel()
			control, err := net.Dial("tcp", where.Control)
			if err != nil {
				t.Fatal(err)
			}
			defer control.Close()
			d := &driver{t: t, play: play, control: control, reader: bufio.NewReader(control), holds: map[string]*Hold{},
				calls: map[string]chan got{}, spool: filepath.Join(t.TempDir(), "spool")}
			d.run()
		})
	}
}

func (d *driver) run() {
	var begun struct{ Nodes []string }
	d.order(map[string]string{"play": d.play.Name}, &begun)
	d.nodes = strings.Join(begun.Nodes, ",")
	for i, s := range d.play.Steps {
		d.step(i, s)
	}
	if d.client != nil {
		d.client.shutOnce()
	}
	var judged struct {
		Passed   bool
		Failures []string
		Seen     []json.RawMessage
	}
	d.order("judge", &judged)
	if !judged.Passed {
		d.t.Errorf("the node says: %s\nseen: %s", strings.Join(judged.Failures, "; "), slices.Collect(func(yield func(string) bool) {
			for _, seen := range judged.Seen {
				yield("\n  " + string(seen))
			}
		}))
	}
}

// order says something to the node; it must agree.
func (d *driver) order(order, answer any) {
	d.t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.control.Write(append(text, '\n')); err != nil {
		d.t.Fatal(err)
	}
	line, err := d.reader.ReadBytes('\n')
	if err != nil {
		d.t.Fatalf("the scripted node says nothing to %s: %v", text, err)
	}
	var ok struct {
		OK    bool
		Error string
	}
	if err := json.Unmarshal(line, &ok); err != nil || !ok.OK {
		d.t.Fatalf("%s: %s", text, line)
	}
	if answer != nil {
		if err := json.Unmarshal(line, answer); err != nil {
			d.t.Fatalf("%s: %v", line, err)
		}
	}
}

// Write takes what the client logs.
func (d *driver) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.logged.Write(line)
}

func (d *driver) hold(name string) *Hold {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.holds[name] == nil {
		d.t.Fatalf("no hold is called %q", name)
	}
	return d.holds[name]
}

func (d *driver) step(i int, s step) {
	d.t.Helper()
	switch s.Do {
	case "open":
		d.open(s)
	case "close":
		ctx, cancel := context.WithTimeout(context.Background(), ms(s.WaitMs, 5000))
		defer cancel()
		_ = d.client.Close(ctx)
	case "reserve", "reserve_all", "confirm", "extend", "settle", "release":
		done := make(chan got, 1)
		if s.Start != "" {
			d.calls[s.Start] = done
			go func() { done <- d.call(s) }()
			return
		}
		d.compare(i, s.Do, d.call(s))
	case "join":
		d.compare(i, "join "+s.Call, <-d.calls[s.Call])
	case "drop":
		d.drop(i, s)
	case "drop_if":
		if hold := d.holds[s.Hold]; hold != nil {
			hold.dropped()
		}
	case "detach":
		d.hold(s.Hold).Detach()
	case "order":
		d.order(s.Order, nil)
	case "sleep":
		time.Sleep(time.Duration(s.Ms) * time.Millisecond)
	case "observed":
		d.observed(i, s)
	default:
		d.textStep(i, s)
	}
}

func ms(given *int, otherwise int) time.Duration {
	if given != nil {
		otherwise = *given
	}
	return time.Duration(otherwise) * time.Millisecond
}

func (d *driver) open(s step) {
	o := d.play.Options
	connections := 1
	if o.Connections != nil {
		connections = *o.Connections
	}
	opts := []Option{Auth(o.Auth), Deadline(ms(o.DeadlineMs, 10000)), Linger(time.Duration(o.LingerUs) * time.Microsecond),
		Connections(connections), BatchMax(o.BatchMax), AnswerWait(ms(o.AnswerMs, 10000)), Log(slog.New(slog.NewTextHandler(d, nil))),
		Hook(func(e Event) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.events = append(d.events, e)
		})}
	if o.Spool {
		opts = append(opts, Spool(d.spool))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := Dial(ctx, d.nodes, opts...)
	expected := s.Expect["error"]
	switch {
	case expected == nil && err != nil:
		d.t.Fatalf("open: %v", err)
	case expected == nil:
		d.client = client
	case expected == "unauthorised" && errors.Is(err, ErrUnauthorised):
	case expected == "version" && errors.Is(err, ErrVersion):
	case expected == "wrong_door" && errors.Is(err, ErrWrongDoor):
	case err == nil:
		client.shutOnce()
		d.t.Fatalf("open: no error, expected %v", expected)
	default:
		d.t.Logf("open: %v, expected %v", err, expected)
		if expected == "unauthorised" || expected == "version" {
			d.t.Fatalf("open: %v, expected %v", err, expected)
		}
	}
}

func (d *driver) ask(s askStep) Ask {
	ask := Ask{Amount: Money(s.Amount, s.Unit), User: s.User, RequestID: s.RequestID, Retry: s.Retry}
	if err := json.Unmarshal(s.Budget, &ask.Budget); err != nil {
		if err := json.Unmarshal(s.Budget, &ask.Handle); err != nil {
			d.t.Fatalf("budget %s", s.Budget)
		}
	}
	return ask
}

func (d *driver) call(s step) got {
	ctx := context.Background()
	g := got{expect: s.Expect}
	wait := s.WaitMs
	if s.Do == "reserve" || s.Do == "reserve_all" {
		wait = s.DeadlineMs
	}
	if wait != nil || !strings.HasPrefix(s.Do, "reserve") {
		bounded, cancel := context.WithTimeout(ctx, ms(wait, 30000))
		defer cancel()
		ctx = bounded
	}
	var outcome Outcome
	var err error
	switch s.Do {
	case "reserve":
		if s.Times > 0 {
			g.verdicts = d.reserveAtOnce(ctx, s)
			return g
		}
		reserve := d.client.Reserve
		if s.Confirm {
			reserve = d.client.ReserveConfirmed
		}
		hold, verdict := reserve(ctx, d.ask(s.askStep))
		d.keep(s.Hold, hold)
		g.verdicts = []Verdict{verdict}
		return g
	case "reserve_all":
		g.verdicts = d.reserveAll(ctx, s)
		return g
	case "confirm":
		outcome, err = d.hold(s.Hold).Confirm(ctx)
	case "extend":
		outcome, err = d.hold(s.Hold).Extend(ctx, time.Duration(s.ConfirmMs)*time.Millisecond)
	case "settle":
		hold := d.hold(s.Hold)
		unit := hold.unit
		amount, bad := ParseAmount(s.Amount, unit)
		if bad != nil {
			amount = Amount{err: bad}
		}
		outcome, err = hold.Settle(ctx, amount)
	case "release":
		outcome, err = d.hold(s.Hold).ReleaseWait(ctx)
	}
	g.verdicts, g.repeat, g.deadline = []Verdict{outcome.Verdict}, &outcome.Repeat, outcome.Deadline
	if err != nil && outcome.Verdict != Pending {
		d.t.Logf("%s: %v", s.Do, err)
	}
	return g
}

// reserveAtOnce makes the same ask in as many goroutines as the step says.
func (d *driver) reserveAtOnce(ctx context.Context, s step) []Verdict {
	verdicts := make([]Verdict, s.Times)
	var all sync.WaitGroup
	for at := range verdicts {
		all.Add(1)
		go func() {
			defer all.Done()
			var hold *Hold
			if hold, verdicts[at] = d.client.Reserve(ctx, d.ask(s.askStep)); hold != nil {
				hold.dropped()
			}
		}()
	}
	all.Wait()
	return verdicts
}

func (d *driver) reserveAll(ctx context.Context, s step) (verdicts []Verdict) {
	var asks []Ask
	for range max(s.Times, 1) {
		for _, a := range s.Asks {
			ask := d.ask(a)
			switch {
			case string(s.Pod) == "true":
				ask.Pod = 1
			case len(a.Pod) > 0:
				if err := json.Unmarshal(a.Pod, &ask.Pod); err != nil {
					d.t.Errorf("pod %s: %v", a.Pod, err)
				}
			}
			asks = append(asks, ask)
		}
	}
	grants := 0
	for _, decision := range d.client.ReserveAll(ctx, asks) {
		verdicts = append(verdicts, decision.Verdict)
		if decision.Hold == nil {
			continue
		}
		if grants < len(s.Holds) {
			d.keep(s.Holds[grants], decision.Hold)
		} else {
			decision.Hold.dropped()
		}
		grants++
	}
	return verdicts
}

func (d *driver) keep(name string, hold *Hold) {
	if name == "" || hold == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds[name] = hold
}

// named is the suite's name of a verdict.
func named(v Verdict) string {
	if _, known := verdictNames[v]; !known {
		return "unknown"
	}
	return v.String()
}

// errorsOf are the verdicts that the suite calls errors.
var errorsOf = map[Verdict]string{FrameRefused: "refused", BadAmount: "amount", TooLarge: "too_large"}

func (d *driver) compare(i int, what string, g got) {
	d.t.Helper()
	for member, expected := range g.expect {
		found := any(nil)
		switch member {
		case "verdict":
			found = named(g.verdicts[0])
			if list, several := expected.([]any); several && slices.Contains(list, found) {
				continue
			}
		case "verdicts":
			names := []any{}
			for at, v := range g.verdicts {
				name := any(named(v))
				if list, several := expected.([]any)[at].([]any); several && slices.Contains(list, name) {
					name = list
				}
				names = append(names, name)
			}
			found = names
		case "all":
			found = expected
			for _, v := range g.verdicts {
				if named(v) != expected {
					found = named(v)
				}
			}
		case "code":
			found = float64(g.verdicts[0])
		case "repeat":
			found = *g.repeat
		case "deadline_ms":
			found = float64(g.deadline.UnixMilli())
		case "error":
			found = errorsOf[g.verdicts[0]]
			if g.verdicts[0] == Unreachable && (expected == "unauthorised" || expected == "version") {
				found = expected
			}
		}
		if fmt.Sprint(found) != fmt.Sprint(expected) {
			d.t.Fatalf("step %d, %s: %s is %v, expected %v", i, what, member, found, expected)
		}
	}
}

// drop does at once what the garbage collector does in the end.
func (d *driver) drop(i int, s step) {
	d.mu.Lock()
	before := bytes.Count(d.logged.Bytes(), []byte{'\n'})
	d.mu.Unlock()
	hold := d.hold(s.Hold)
	hold.dropped()
	hold.dropped()
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := bytes.Count(d.logged.Bytes(), []byte{'\n'}) - before
	if expected, given := s.Expect["logged"]; given && float64(lines) != expected {
		d.t.Fatalf("step %d, drop: %d lines were logged, expected %v:\n%s", i, lines, expected, d.logged.String())
	}
}

func (d *driver) observed(i int, s step) {
	until := time.Now().Add(20 * time.Second)
	for {
		d.mu.Lock()
		found := 0
		for _, e := range d.events {
			if e.What == s.What && named(e.Verdict) == s.Verdict {
				found++
			}
		}
		d.mu.Unlock()
		enough := (s.Count == nil && s.Min == nil && found > 0) || (s.Count != nil && found == *s.Count) || (s.Min != nil && found >= *s.Min)
		if enough {
			return
		}
		if time.Now().After(until) || (s.Count != nil && found > *s.Count) {
			d.t.Fatalf("step %d: the hook heard %d times of %s %s: %v", i, found, s.What, s.Verdict, d.events)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// textStep does the steps about the log, the spool's file and amounts.
func (d *driver) textStep(i int, s step) {
	switch s.Do {
	case "said":
		d.mu.Lock()
		defer d.mu.Unlock()
		if !bytes.Contains(d.logged.Bytes(), []byte(s.Text)) {
			d.t.Fatalf("step %d: the log does not say %q: %s", i, s.Text, d.logged.String())
		}
	case "spool_append":
		file, err := os.OpenFile(d.spool, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			d.t.Fatal(err)
		}
		_, err = file.WriteString(s.Text)
		if err = errors.Join(err, file.Close()); err != nil {
			d.t.Fatal(err)
		}
	case "spool_pending":
		file, err := os.Open(d.spool)
		if err != nil {
			d.t.Fatal(err)
		}
		defer file.Close()
		left, _, err := readSpool(file)
		if err != nil || s.Count == nil || len(left) != *s.Count {
			d.t.Fatalf("step %d: the spool has %d entries, expected %v (%v)", i, len(left), s.Count, err)
		}
	case "amount":
		amount := Money(s.Text, s.Unit)
		if wrong := s.Expect["error"] == true; wrong != (amount.Err() != nil) {
			d.t.Fatalf("step %d: amount %q: %v, expected an error: %v", i, s.Text, amount.Err(), wrong)
		}
		if base, given := s.Expect["base"]; given && strconv.FormatInt(amount.Base(), 10) != base {
			d.t.Fatalf("step %d: amount %q is %d, expected %v", i, s.Text, amount.Base(), base)
		}
	case "format":
		base, err := strconv.ParseInt(s.Base, 10, 64)
		unit, unitErr := ParseUnit(s.Unit)
		if text := BaseUnits(base, unit).Text(); err != nil || unitErr != nil || text != s.Expect["text"] {
			d.t.Fatalf("step %d: %s %s is %q, expected %v", i, s.Base, s.Unit, text, s.Expect["text"])
		}
	default:
		d.t.Fatalf("step %d: no step is called %q", i, s.Do)
	}
}
