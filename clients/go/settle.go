package weir

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// jobsMax is how many confirms, settles and releases wait for their answers at most.
const jobsMax = 1 << 16

// Errors of confirming, settling and releasing.
var (
	// ErrBusy: too many settlements wait for their answers already.
	ErrBusy = errors.New("weir: 65536 settlements wait for their answers already; try again")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("weir: the client was closed")
)

var actionNames = [...]string{actionConfirm: "confirm", actionSettle: "settle", actionRelease: "release", actionExtend: "extend"}

// job is a confirm, settle, release or later end that is repeated until it is answered.
type job struct {
	client    *Client
	token     [tokenLen]byte
	amount    int64
	action    uint8
	requestID uint64
	spooled   bool
	began     time.Time
	// Closed with the final answer.
	done chan struct{}

	mu sync.Mutex
	// The node that made the hold, if it is known.
	home  *node
	tries int
	// The node that said no last, to try another.
	avoid *node
	// The nodes that said that the token is another's.
	foreign uint64
	outcome Outcome
	isDone  bool
}

// begin starts a job of a hold.
func (c *Client) begin(h *Hold, action uint8, amount int64) (*job, error) {
	j := &job{token: h.token, amount: amount, action: action, requestID: h.requestID, home: h.node}
	return j, c.start(j, true)
}

// start counts a job, writes it to the spool, and sends it.
func (c *Client) start(j *job, spool bool) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return ErrClosed
	}
	if c.pending >= jobsMax {
		c.mu.Unlock()
		return ErrBusy
	}
	c.pending++
	c.mu.Unlock()
	j.client, j.began, j.done = c, time.Now(), make(chan struct{})
	// A later end that nobody waits for is not wanted any more, so none is spooled.
	if spool && j.action != actionExtend && c.spool != nil {
		if err := c.spool.add(j); err != nil {
			c.finished()
			return err
		}
		j.spooled = true
	}
	j.send()
	return nil
}

// finished counts a job out, and tells Close after the last.
func (c *Client) finished() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	if c.closing && c.pending == 0 {
		close(c.idle)
	}
}

// releaseLate gives back what was granted to a caller that no longer waited.
func (c *Client) releaseLate(n *node, entry []byte) {
	if Verdict(entry[tokenLen]) != Granted {
		return
	}
	j := &job{action: actionRelease, home: n}
	copy(j.token[:], entry)
	if err := c.start(j, true); err != nil {
		c.log.Warn("weir: a late grant was not released; it ends at its deadline", "error", err)
	}
}

// send puts the job on a connection of the node that is likeliest to answer, or tries again later.
func (j *job) send() {
	c := j.client
	for range len(c.nodes) {
		if c.isShut() {
			return
		}
		j.mu.Lock()
		if j.isDone {
			j.mu.Unlock()
			return // answered while its timer ran
		}
		without, favourite := j.foreign, j.home
		if j.avoid != nil {
			without |= 1 << j.avoid.index
			favourite = nil
		}
		n := c.choose(without, favourite)
		if n == nil || (j.avoid != nil && (!n.isOpen() || n.isLast(time.Now())) && j.foreign&(1<<j.avoid.index) == 0 && j.avoid.isOpen()) {
			n = c.choose(j.foreign, j.home)
		}
		j.avoid = nil
		j.mu.Unlock()
		if cn := n.pick(); cn != nil {
			if cn.gatherJob(j) {
				return
			}
			continue
		}
		n.open()
		break
	}
	j.later()
}

// later sends the job again after a while.
func (j *job) later() {
	j.mu.Lock()
	j.tries++
	wait := backoff(j.tries)
	j.mu.Unlock()
	time.AfterFunc(wait, j.send)
}

// again tries once more what was not answered by a node.
func (j *job) again(n *node) {
	j.mu.Lock()
	j.avoid = n
	over := j.isDone
	j.mu.Unlock()
	if !over {
		j.later()
	}
}

// abandon ends a later end that nobody waits for any more.
func (j *job) abandon() {
	j.mu.Lock()
	over := j.isDone
	j.isDone = true
	j.mu.Unlock()
	if !over {
		j.client.finished()
	}
}

// answered takes a node's answer: a final one ends the job.
func (j *job) answered(n *node, outcome Outcome) {
	verdict := outcome.Verdict
	if verdict == CutOff {
		n.putLast()
	}
	if !verdict.isFinal() {
		j.again(n)
		return
	}
	if verdict == Foreign {
		j.mu.Lock()
		j.foreign |= 1 << n.index
		everywhere := j.foreign == 1<<len(j.client.nodes)-1
		j.mu.Unlock()
		if !everywhere && n != j.home {
			j.later()
			return
		}
	}
	j.mu.Lock()
	if j.isDone {
		j.mu.Unlock()
		return
	}
	j.isDone, j.outcome = true, outcome
	j.mu.Unlock()
	c := j.client
	if j.spooled {
		c.spool.done(j)
	}
	c.observe(actionNames[j.action], verdict, j.began)
	close(j.done)
	c.finished()
}

// wait waits for the final answer.
func (j *job) wait(ctx context.Context) (Outcome, error) {
	var shut chan struct{}
	if j.client != nil {
		shut = j.client.done
	}
	select {
	case <-j.done:
		return j.outcome, nil
	case <-ctx.Done():
		if j.action == actionExtend {
			j.abandon()
			return Outcome{Verdict: Timeout}, fmt.Errorf("weir: no answer to extend: %w", ctx.Err())
		}
		return Outcome{Verdict: Pending}, fmt.Errorf("weir: no answer to %s yet, it is repeated: %w", actionNames[j.action], ctx.Err())
	case <-shut:
		return Outcome{Verdict: Pending}, ErrClosed
	}
}
