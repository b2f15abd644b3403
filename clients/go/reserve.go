package weir

import (
	"cmp"
	"context"
	"runtime"
	"time"
)

const (
	// askTime is how long an ask waits for its answer where nothing else is said: a bidder's time.
	askTime = 20 * time.Millisecond
	// confirmTime is the same where the hold is confirmed at once: the work is long, and can wait for its money.
	confirmTime = time.Second
)

// repeatAfter is how long an ask with Retry waits at most before it is repeated.
const repeatAfter = 250 * time.Millisecond

// Ask is a request to reserve an amount of a budget.
type Ask struct {
	// Budget is the budget's number; 0 where it is named by its handle.
	Budget uint64
	// Handle is the budget's name, such as "team-42/gpt-5". The library asks each node once for its number.
	Handle string
	// Amount is the most that may be spent: it is what is reserved.
	Amount Amount
	// User is whom it is for, in plans that look at users; 0 for nobody.
	User uint64
	// RequestID names the request in the books; 0 lets the library draw one.
	RequestID uint64
	// Pod joins neighbours of one ReserveAll with the same number, which is not 0: they are granted all or none.
	Pod uint16
	// Retry repeats the ask, under the same request id and on the same connection while that lives, where no answer comes or its
	// frame was refused as busy; the node remembers the answer. Otherwise nothing is ever asked twice. Of several asks in one
	// call ([Client.ReserveAll]) that of the first of a frame counts for its whole frame, which is repeated where it was refused
	// as busy, and not where no answer comes: its asks get [Timeout]. A verdict of the node, such as [Busy] of a single ask, is
	// an answer, and never repeated.
	Retry bool
}

// id is the request id of the ask at this place of a call that drew its ids from here on.
func (a *Ask) id(ids uint64, at int) uint64 {
	if a.RequestID != 0 {
		return a.RequestID
	}
	return ids + uint64(at)
}

// Decision is the answer to one ask.
type Decision struct {
	Verdict Verdict
	// Hold is there where the verdict is Granted.
	Hold *Hold
}

// Reserve asks for an amount. With [Granted] there is a hold, which is to be settled or released; any other verdict is a no, and
// there is none. The deadline of the context, or else [Deadline], bounds the wait: after it the verdict is [Timeout], and a grant
// that comes later is released by the library. Nothing is asked twice.
//
// Asks of many goroutines share frames: see [Linger].
func (c *Client) Reserve(ctx context.Context, ask Ask) (*Hold, Verdict) {
	began := time.Now()
	deadline := c.deadline(ctx, began, askTime)
	hold, verdict := c.reserveOne(ctx, deadline, ask)
	if verdict == UnknownBudget && ask.Handle != "" {
		// The number that was known may be of a budget that is over: the handle may stand for another one by now.
		hold, verdict = c.reserveAnew(ctx, deadline, ask)
	}
	c.observe("reserve", verdict, began)
	return hold, verdict
}

// ReserveConfirmed is Reserve for work of unknown length: the hold is confirmed at once, and lives for an hour and not for seconds. The
// deadline covers the confirm, too; without one in the context or in the options it is 1 s. A hold that is not confirmed by then is
// released, and the verdict is [Timeout]; where the confirm is refused it is the confirm's.
func (c *Client) ReserveConfirmed(ctx context.Context, ask Ask) (*Hold, Verdict) {
	ctx, cancel := context.WithDeadline(ctx, c.deadline(ctx, time.Now(), confirmTime))
	defer cancel()
	hold, verdict := c.Reserve(ctx, ask)
	if verdict != Granted {
		return nil, verdict
	}
	outcome, _ := hold.Confirm(ctx)
	switch outcome.Verdict {
	case Confirmed:
		return hold, Granted
	case Pending:
		outcome.Verdict = Timeout
	}
	hold.Release()
	return nil, outcome.Verdict
}

// reserveAnew asks once more if the handle stands for another budget than before.
func (c *Client) reserveAnew(ctx context.Context, deadline time.Time, ask Ask) (*Hold, Verdict) {
	cn, verdict := c.route(ctx, deadline)
	if cn == nil {
		return nil, verdict
	}
	before, known := cn.node.book.get(ask.Handle)
	if !known {
		return nil, UnknownBudget
	}
	cn.node.book.forget(ask.Handle)
	if budget, verdict := cn.find(ctx, deadline, ask.Handle); verdict != Granted || budget.ID == before.ID {
		return nil, UnknownBudget
	}
	return c.reserveOne(ctx, deadline, ask)
}

func (c *Client) reserveOne(ctx context.Context, deadline time.Time, ask Ask) (*Hold, Verdict) {
	if verdict := c.check(&ask); verdict != Granted {
		return nil, verdict
	}
	cn, cl, verdict := c.send(ctx, deadline, &ask)
	if verdict != Granted {
		return nil, verdict
	}
	if ask.Retry {
		c.repeat(ctx, deadline, cn, cl, ask)
	}
	if !cl.wait(ctx, deadline) {
		return nil, Timeout
	}
	verdict = cl.verdict
	if verdict == Granted {
		verdict = Unreachable // the answer had too few entries
		if len(cl.answers) >= decisionLen {
			verdict = Verdict(cl.answers[tokenLen])
		}
	}
	if verdict == UnitMismatch && ask.Handle != "" {
		budget, _ := cl.node.book.get(ask.Handle)
		c.unitsLogged.Do(func() {
			c.log.Warn("weir: an ask is in another unit than its budget; further ones are not logged", "handle", ask.Handle,
				"found", ask.Amount.unit.String(), "expected", budget.Unit.String())
		})
	}
	var hold *Hold
	if verdict == Granted {
		single := new(singleHold)
		hold = &single.hold
		hold.grant(c, cl.node, cl.answers, ask.Amount, ask.RequestID)
		runtime.SetFinalizer(single, (*singleHold).dropped)
	}
	cl.recycle()
	return hold, verdict
}

// send finds a connection and puts an ask on it; where the connection is lost before anything was sent, on another.
func (c *Client) send(ctx context.Context, deadline time.Time, ask *Ask) (*conn, *call, Verdict) {
	for {
		cn, verdict := c.route(ctx, deadline)
		if cn == nil {
			return nil, nil, verdict
		}
		if ask.Handle != "" {
			budget, verdict := cn.find(ctx, deadline, ask.Handle)
			if verdict != Granted {
				return nil, nil, verdict
			}
			ask.Budget = budget.ID
		}
		cl := newCall(cn.node)
		sent := false
		if cl.retry = ask.Retry; ask.Retry {
			sent = cn.ask(cl, c.flags()|flagRemember, []Ask{*ask}, 0)
		} else {
			sent = cn.gatherAsk(cl, c.flags(), ask)
		}
		if sent {
			return cn, cl, Granted
		}
	}
}

// repeat sends an ask again on its connection while no answer comes: after a quarter of its time, and ever later.
func (c *Client) repeat(ctx context.Context, deadline time.Time, cn *conn, cl *call, ask Ask) {
	pause := min(time.Until(deadline)/4, repeatAfter)
	for pause > 0 && time.Until(deadline) > pause {
		if cl.waitUntil(ctx, time.Now().Add(pause)) {
			cl.ready <- struct{}{} // for whoever waits for the answer
			return
		}
		if ctx.Err() != nil || !cn.ask(cl, c.flags()|flagRemember, []Ask{ask}, 0) {
			return
		}
		pause *= 2
	}
}

// ReserveAll asks for several amounts in one frame, or as few as hold them, and answers in their order. Members of a pod stand side
// by side and are granted all or none; a pod that is larger than a frame gets [TooLarge].
//
// Each ask has its own verdict. Unlike [Client.Reserve] it asks nothing anew whose handle came to stand for another budget: that ask
// gets [UnknownBudget], and the next call asks for the handle's number again.
func (c *Client) ReserveAll(ctx context.Context, asks []Ask) []Decision {
	return c.ReserveInto(ctx, asks, make([]Decision, 0, len(asks)))
}

// ReserveInto is ReserveAll that appends its answers to a slice of the caller's, to save an allocation.
func (c *Client) ReserveInto(ctx context.Context, asks []Ask, to []Decision) []Decision {
	began := time.Now()
	deadline := c.deadline(ctx, began, askTime)
	from := len(to)
	var sent [window]sentFrame
	first, count := 0, 0
	for rest := asks; len(rest) > 0 || count > 0; {
		if len(rest) > 0 && count < window {
			f := c.sendFrame(ctx, deadline, rest)
			sent[(first+count)%window] = f
			rest = rest[len(f.asks):]
			count++
			continue
		}
		to = c.landFrame(ctx, deadline, &sent[first], to)
		first, count = (first+1)%window, count-1
	}
	if c.options.hook != nil {
		for _, d := range to[from:] {
			c.observe("reserve", d.Verdict, began)
		}
	}
	return to
}

// sentFrame is one frame of a call with many asks.
type sentFrame struct {
	asks []Ask
	// The request id that was drawn for the first of them.
	ids uint64
	// Who waits for the answer; nil if it was not sent, and why.
	call    *call
	verdict Verdict
	// Why handles have no budgets, by place.
	noes map[int]Verdict
}

// sendFrame asks as many of the asks as a frame takes.
func (c *Client) sendFrame(ctx context.Context, deadline time.Time, asks []Ask) sentFrame {
	if c.isShut() || c.isClosing() {
		return sentFrame{asks: asks, verdict: Closed}
	}
	flags := c.flags()
	if asks[0].Retry {
		flags |= flagRemember
	}
	for {
		cn, verdict := c.route(ctx, deadline)
		if cn == nil {
			return sentFrame{asks: asks, verdict: verdict}
		}
		count, verdict := frameOf(asks, cn.batchMax)
		f := sentFrame{asks: asks[:count], verdict: verdict}
		if verdict != Granted {
			return f
		}
		f.asks, f.noes = cn.name(ctx, deadline, f.asks)
		f.ids = c.ids.Add(uint64(count)) - uint64(count)
		cl := newCall(cn.node)
		cl.retry = asks[0].Retry
		if cn.ask(cl, flags, f.asks, f.ids) {
			f.call = cl
			return f
		}
	}
}

// landFrame waits for the answers to a frame, and appends them.
func (c *Client) landFrame(ctx context.Context, deadline time.Time, f *sentFrame, to []Decision) []Decision {
	verdict := f.verdict
	if f.call != nil {
		verdict = Timeout
		if f.call.wait(ctx, deadline) {
			verdict = f.call.verdict
		}
	}
	if verdict == Granted {
		to = c.decisions(f, to)
		f.call.recycle()
		return to
	}
	for range f.asks {
		to = append(to, Decision{Verdict: verdict})
	}
	return to
}

// frameOf is how many of the asks the next frame takes, without taking a pod apart; TooLarge of the members of a pod that no frame
// can hold.
func frameOf(asks []Ask, most int) (int, Verdict) {
	if len(asks) <= most {
		return len(asks), Granted
	}
	count := most
	for count > 0 && asks[count].Pod != 0 && asks[count-1].Pod == asks[count].Pod {
		count--
	}
	if count > 0 {
		return count, Granted
	}
	for count < len(asks) && asks[count].Pod == asks[0].Pod {
		count++
	}
	return count, TooLarge
}

// decisions makes holds of the entries of an answer.
func (c *Client) decisions(f *sentFrame, to []Decision) []Decision {
	var block *holdBlock
	used := 0
	answers := f.call.answers
	for i := range f.asks {
		if len(answers) < decisionLen {
			to = append(to, Decision{Verdict: Unreachable}) // the answer had too few entries
			continue
		}
		entry := answers[:decisionLen]
		answers = answers[decisionLen:]
		if verdict := Verdict(entry[tokenLen]); verdict != Granted {
			if no, known := f.noes[i]; known && verdict == UnknownBudget {
				verdict = no
			} else if handle := f.asks[i].Handle; handle != "" && verdict == UnknownBudget {
				f.call.node.book.forget(handle)
			}
			to = append(to, Decision{Verdict: verdict})
			continue
		}
		if block == nil || used == len(block.holds) {
			block, used = new(holdBlock), 0
			runtime.SetFinalizer(block, (*holdBlock).dropped)
		}
		hold := &block.holds[used]
		used++
		hold.grant(c, f.call.node, entry, f.asks[i].Amount, f.asks[i].id(f.ids, i))
		to = append(to, Decision{Granted, hold})
	}
	return to
}

// check looks at an ask before it is sent, and gives it a request id if it has none.
func (c *Client) check(ask *Ask) Verdict {
	if c.isShut() {
		return Closed
	}
	if ask.RequestID == 0 {
		ask.RequestID = c.ids.Add(1)
	}
	if ask.Amount.err != nil || ask.Amount.base <= 0 || ask.Amount.base > AmountMax {
		return BadAmount
	}
	return Granted
}

func (c *Client) flags() uint8 {
	if c.options.noWait {
		return 0
	}
	return flagAwaitFill
}

// deadline is the context's, else what the options say, else the default.
func (c *Client) deadline(ctx context.Context, now time.Time, byDefault time.Duration) time.Time {
	if deadline, bounded := ctx.Deadline(); bounded {
		return deadline
	}
	return now.Add(cmp.Or(c.options.deadline, byDefault))
}
