package weir

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// flight is one frame on its way: being gathered, waiting for its turn, or sent and not answered yet. Its connection owns it.
type flight struct {
	// The whole frame. The number, the count and the length are written when it is sent.
	buf []byte
	// Where its entries begin.
	entriesAt int
	count     int
	number    uint64
	sentAt    time.Time
	// Asks: who waits for which entries, in order.
	parts []part
	// Confirms, settles and releases, in the order of the entries.
	jobs []*job
	// The one job is a later end.
	extends bool
	// The jobs were given to another connection, as the answer took too long.
	givenUp bool
	// A question for the id of a handle.
	lookup *lookup
}

// part is a run of entries of a frame of asks that belong to one caller.
type part struct {
	call  *call
	count int
}

var flights = sync.Pool{New: func() any { return new(flight) }}

func (f *flight) recycle() {
	clear(f.parts)
	clear(f.jobs)
	*f = flight{buf: f.buf[:0], parts: f.parts[:0], jobs: f.jobs[:0]}
	flights.Put(f)
}

// isAwaited tells whether anybody still waits for an answer to the frame; settlements always do.
func (f *flight) isAwaited() bool {
	if f.lookup != nil {
		return !f.lookup.isOver()
	}
	for _, p := range f.parts {
		if p.call.state.Load() == callWaiting {
			return true
		}
	}
	return len(f.jobs) > 0
}

// lane is the frames of one kind: how many are in flight, and those that wait for room.
type lane struct {
	inFlight, most int
	queue          []*flight
	sweepAt        int
}

// wait lets a frame wait for room. What nobody awaits any more is swept out, so there are at most twice as many as callers that wait;
// how many it swept.
func (l *lane) wait(f *flight) int32 {
	l.queue = append(l.queue, f)
	if len(l.queue) <= l.sweepAt {
		return 0
	}
	var kept []*flight
	for _, f := range l.queue {
		if f.isAwaited() {
			kept = append(kept, f)
		} else {
			f.recycle()
		}
	}
	swept := len(l.queue) - len(kept)
	l.queue, l.sweepAt = kept, max(queueMax, 2*len(kept))
	return int32(swept)
}

// dropAbandoned takes the asks out of a frame of which nobody waits for the answers any more: what is late is not asked.
func (f *flight) dropAbandoned() {
	kept, at, to := f.parts[:0], f.entriesAt, f.entriesAt
	for _, p := range f.parts {
		size := p.count * askLen
		if p.call.state.Load() == callAbandoned {
			f.count -= p.count
		} else {
			copy(f.buf[to:], f.buf[at:at+size])
			to += size
			kept = append(kept, p)
		}
		at += size
	}
	f.parts, f.buf = kept, f.buf[:to]
}

const (
	callWaiting = iota
	callAnswered
	callAbandoned
)

// call is one caller that waits for answers to its asks in one frame.
type call struct {
	state atomic.Uint32
	// Set before it is answered: the verdict of all asks, or granted and the entries of the answer.
	verdict Verdict
	answers []byte
	node    *node
	ready   chan struct{}
	timer   *time.Timer
	// The ask's own repetition: see Ask.Retry.
	retry bool
}

var calls = sync.Pool{New: func() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &call{ready: make(chan struct{}, 1), timer: timer}
}}

func newCall(n *node) *call {
	c := calls.Get().(*call)
	c.state.Store(callWaiting)
	c.verdict, c.answers, c.node, c.retry = Granted, c.answers[:0], n, false
	return c
}

// refuse tells the caller that all of its asks got the same no.
func (c *call) refuse(verdict Verdict) {
	if c.state.CompareAndSwap(callWaiting, callAnswered) {
		c.verdict = verdict
		c.ready <- struct{}{}
	}
}

// answer gives the caller its entries of an answer; false if it no longer waits.
func (c *call) answer(entries []byte) bool {
	if !c.state.CompareAndSwap(callWaiting, callAnswered) {
		return false
	}
	c.answers = append(c.answers[:0], entries...)
	c.ready <- struct{}{}
	return true
}

// hasHold tells whether this grant is the one that the caller has already: an ask that was repeated may be answered twice.
func (c *call) hasHold(entry []byte) bool {
	return c.retry && c.state.Load() == callAnswered && len(c.answers) >= tokenLen && bytes.Equal(c.answers[:tokenLen], entry[:tokenLen])
}

// wait waits for the answer until the deadline; false if it was not there, and then nobody waits any more. A call that was answered
// may be recycled, one that was not belongs to its frame.
func (c *call) wait(ctx context.Context, deadline time.Time) bool {
	if c.waitUntil(ctx, deadline) {
		return true
	}
	if c.state.CompareAndSwap(callWaiting, callAbandoned) {
		return false
	}
	<-c.ready
	return true
}

// waitUntil waits for the answer for a while; false if it was not there yet.
func (c *call) waitUntil(ctx context.Context, until time.Time) bool {
	select {
	case <-c.ready:
		return true
	default:
	}
	c.timer.Reset(time.Until(until))
	select {
	case <-c.ready:
		c.timer.Stop()
		return true
	case <-c.timer.C:
	case <-ctx.Done():
		c.timer.Stop()
	}
	return false
}

func (c *call) recycle() {
	if c.retry {
		return // a second answer may still come
	}
	c.node = nil
	calls.Put(c)
}
