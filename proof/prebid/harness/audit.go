package main

import (
	"fmt"
	"sync"
)

// The audit keeps what the node has acknowledged, by budget, and compares its books with that at every step.
type audit struct {
	node *node

	mutex sync.Mutex
	acked map[uint64]int64 // billed and acknowledged
	asked map[uint64]int64 // billed, whether acknowledged or still under way
	late  map[uint64]int64 // of the acknowledged: perhaps after the hold was gone
	steps int              // comparisons
}

func newAudit(n *node) *audit {
	return &audit{node: n, acked: map[uint64]int64{}, asked: map[uint64]int64{}, late: map[uint64]int64{}}
}

// billing says that a billing notice of this cost is going out.
func (a *audit) billing(id uint64, cost int64) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.asked[id] += cost
}

// billed says that it was acknowledged; late, that its hold may have been gone by then.
func (a *audit) billed(id uint64, cost int64, late bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.acked[id] += cost
	if late {
		a.late[id] += cost
	}
}

// startOver takes the books as they are for right, so that one fault is told once.
func (a *audit) startOver() {
	all, err := a.node.books()
	if err != nil {
		return
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for id, b := range all {
		a.acked[id], a.asked[id], a.late[id] = b.spent(), b.spent(), b.Late
	}
}

func copied(from map[uint64]int64) map[uint64]int64 {
	to := make(map[uint64]int64, len(from))
	for id, amount := range from {
		to[id] = amount
	}
	return to
}

// compare reads the books and says everything that is wrong with them. It may run while notices are under way: at
// least what was acknowledged before is booked, at most what was asked for after.
func (a *audit) compare() []error {
	a.mutex.Lock()
	least := copied(a.acked)
	a.mutex.Unlock()
	all, err := a.node.books()
	if err != nil {
		return []error{err}
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.steps++
	var wrong []error
	say := func(format string, arguments ...any) { wrong = append(wrong, fmt.Errorf(format, arguments...)) }
	for _, c := range campaigns {
		b, there := all[c.ID]
		if !there {
			say("budget %d is not in the books", c.ID)
			continue
		}
		if limit := mustMicros(c.Limit); b.Limit != limit {
			say("budget %d: the limit is %d in the books, %d in the file", c.ID, b.Limit, limit)
		}
		if used := b.Settled + b.Held + b.Purses; used > b.Limit {
			say("budget %d: settled %d + held %d + in purses %d is above its limit %d", c.ID, b.Settled, b.Held, b.Purses, b.Limit)
		}
		if b.spent() < least[c.ID] {
			say("budget %d: %d booked, but %d was acknowledged", c.ID, b.spent(), least[c.ID])
		}
		if b.spent() > a.asked[c.ID] {
			say("budget %d: %d booked, but only %d was ever billed", c.ID, b.spent(), a.asked[c.ID])
		}
		if b.OverSettled != 0 {
			say("budget %d: %d settled above holds, though no bid costs more than its hold", c.ID, b.OverSettled)
		}
		// What was under way may have come late, too.
		if late := a.late[c.ID] + a.asked[c.ID] - a.acked[c.ID]; b.Late > late {
			say("budget %d: %d booked as late, at most %d came late", c.ID, b.Late, late)
		}
	}
	return wrong
}
