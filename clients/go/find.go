package weir

import (
	"context"
	"math"
	"sync"
	"time"
)

const (
	// handleMax is how long a handle may be, in bytes.
	handleMax = 128
	// foundMax is how many handles of a node are remembered; then all are forgotten.
	foundMax = 1 << 16
	// findVersion is the first version of the protocol that knows handles, extendVersion the first that knows later ends.
	findVersion   = 3
	extendVersion = 4
)

// Budget is what a handle stands for on one node.
type Budget struct {
	// ID is its number there: another node may have another for a budget that it made of a template.
	ID uint64
	// Unit is what it counts in.
	Unit Unit
}

// lookup is a question for the number of a budget.
type lookup struct {
	once    sync.Once
	done    chan struct{}
	budget  Budget
	verdict Verdict
}

func (l *lookup) end(verdict Verdict, budget Budget) {
	l.once.Do(func() {
		l.verdict, l.budget = verdict, budget
		close(l.done)
	})
}

func (l *lookup) isOver() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *lookup) answer(m *message) {
	verdict, budget := Unreachable, Budget{}
	if m.template == idFound {
		verdict, budget.ID = Verdict(m.root[20]), little.Uint64(m.root[8:])
		copy(budget.Unit.code[:], m.root[16:])
	}
	l.end(verdict, budget)
}

// book is the handles of a node whose numbers are known.
type book struct {
	mu    sync.RWMutex
	found map[string]Budget
}

func (b *book) get(handle string) (Budget, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	budget, known := b.found[handle]
	return budget, known
}

func (b *book) put(handle string, budget Budget) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found == nil || len(b.found) >= foundMax {
		b.found = map[string]Budget{}
	}
	b.found[handle] = budget
}

func (b *book) forget(handle string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.found, handle)
}

// Find asks the first node that works which budget a handle stands for. A budget that is not there yet is made, where one of the
// node's templates fits the handle. [Client.Reserve] does this by itself for asks with a Handle, once for each handle.
func (c *Client) Find(ctx context.Context, handle string) (Budget, Verdict) {
	deadline := c.deadline(ctx, time.Now(), askTime)
	cn, verdict := c.route(ctx, deadline)
	if cn == nil {
		return Budget{}, verdict
	}
	return cn.find(ctx, deadline, handle)
}

// find asks the node of the connection what a handle stands for, unless that is known.
func (c *conn) find(ctx context.Context, deadline time.Time, handle string) (Budget, Verdict) {
	if budget, known := c.node.book.get(handle); known {
		return budget, Granted
	}
	if c.welcome.version < findVersion {
		return Budget{}, Unsupported
	}
	if len(handle) == 0 || len(handle) > handleMax {
		return Budget{}, UnknownBudget
	}
	l := &lookup{done: make(chan struct{})}
	f := flights.Get().(*flight)
	f.lookup = l
	f.buf = appendFind(f.buf[:0], handle, c.welcome.version)
	c.mu.Lock()
	c.sendAndUnlock(f)
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	// Unless the answer came at the last moment.
	l.end(Timeout, Budget{})
	if l.verdict == Granted {
		c.node.book.put(handle, l.budget)
	}
	return l.budget, l.verdict
}

// nobody is the number of no budget: configured ones are below 2^62, and those made of templates are counted from there.
const nobody = math.MaxUint64

// name gives asks with handles the numbers of their budgets on a node, in a copy; the verdicts of those that have none are left
// beside their places.
func (c *conn) name(ctx context.Context, deadline time.Time, asks []Ask) ([]Ask, map[int]Verdict) {
	var named []Ask
	var noes map[int]Verdict
	for i := range asks {
		if asks[i].Handle == "" {
			continue
		}
		if named == nil {
			named = append([]Ask(nil), asks...)
		}
		budget, verdict := c.find(ctx, deadline, asks[i].Handle)
		named[i].Budget = budget.ID
		if verdict != Granted {
			if noes == nil {
				noes = map[int]Verdict{}
			}
			noes[i] = verdict
			// The node refuses it, and the rest of its pod.
			named[i].Budget = nobody
		}
	}
	if named == nil {
		return asks, nil
	}
	return named, noes
}
