package weir

import (
	"errors"
	"io"
	"time"
)

// fail tells everybody in frames that they will not be answered on this connection: asks get the verdict, settlements are tried
// again.
func (c *conn) fail(frames []*flight, verdict Verdict) {
	for _, f := range frames {
		for _, p := range f.parts {
			p.call.refuse(verdict)
		}
		if !f.givenUp {
			for _, j := range f.jobs {
				j.again(c.node)
			}
		}
		if f.lookup != nil {
			f.lookup.end(verdict, Budget{})
		}
	}
}

// lose ends the connection, once: whatever is in flight on it is told.
func (c *conn) lose(cause error) {
	c.mu.Lock()
	if c.lost {
		c.mu.Unlock()
		return
	}
	c.lost = true
	var frames []*flight
	for slot, f := range c.slots {
		if f != nil {
			frames = append(frames, f)
			c.slots[slot] = nil
		}
	}
	inFlight := len(frames)
	frames = append(append(frames, c.ofAsks.queue...), c.ofResolves.queue...)
	for _, f := range []*flight{c.asks, c.resolves} {
		if f != nil {
			frames = append(frames, f)
		}
	}
	c.ofAsks.queue, c.ofResolves.queue, c.asks, c.resolves = nil, nil, nil, nil
	c.askTimer.Stop()
	c.resolveTimer.Stop()
	c.mu.Unlock()
	close(c.closed)
	c.net.Close()
	// An idle connection that the node ends in order is no fault of the node.
	if inFlight > 0 || !errors.Is(cause, io.EOF) {
		c.node.putLast()
	}
	c.node.forget(c, cause)
	c.fail(frames, Unreachable)
}

// watch looks at a connection from time to time: settlements whose answers take too long go elsewhere, and a connection on which
// nothing comes at all is given up.
func (c *conn) watch(now time.Time, patience time.Duration) {
	var late []*job
	c.mu.Lock()
	silent := now.Sub(c.lastRead) > patience
	stuck := false
	for _, f := range c.slots {
		if f == nil || now.Sub(f.sentAt) <= patience {
			continue
		}
		stuck = stuck || silent || now.Sub(f.sentAt) > 4*patience
		if len(f.jobs) > 0 && !f.givenUp {
			f.givenUp = true
			late = append(late, f.jobs...)
		}
	}
	c.mu.Unlock()
	for _, j := range late {
		j.again(c.node)
	}
	if stuck {
		c.lose(errors.New("weir: no answer came in time"))
	}
}
