package weir

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"sync"
	"time"
)

// Hold is money that was reserved. It is settled once, or released; a hold that is dropped without either is released when the
// garbage collector finds it, and the log says so once. It is safe for use by many goroutines.
type Hold struct {
	client    *Client
	node      *node
	requestID uint64
	token     [tokenLen]byte
	base      int64
	unit      Unit

	mu sync.Mutex
	// The settle or release that ended it.
	end *job
	// It is left to somebody else.
	detached bool
}

// singleHold and holdBlock are how holds lie in memory: one finalizer for each, as finalizers are dear.
type singleHold struct{ hold Hold }

type holdBlock struct{ holds [16]Hold }

func (s *singleHold) dropped() { s.hold.dropped() }

func (b *holdBlock) dropped() {
	for i := range b.holds {
		b.holds[i].dropped()
	}
}

func (h *Hold) grant(c *Client, n *node, entry []byte, amount Amount, requestID uint64) {
	h.client, h.node, h.requestID, h.base, h.unit = c, n, requestID, amount.base, amount.unit
	copy(h.token[:], entry)
}

// dropped releases a hold that nobody can reach any more.
func (h *Hold) dropped() {
	if h.client == nil || h.end != nil || h.detached || h.client.isShut() {
		return
	}
	h.client.log.Warn("weir: a hold was dropped without being settled or released; it is released now", "request_id", h.requestID,
		"amount", h.Amount().String())
	h.Release()
}

// Amount is what was reserved.
func (h *Hold) Amount() Amount { return BaseUnits(h.base, h.unit) }

// RequestID is the name of the request in the books.
func (h *Hold) RequestID() uint64 { return h.requestID }

// Token is the hold as a text of 43 characters, with which another program can settle it: see [Client.HoldOf].
func (h *Hold) Token() string { return base64.RawURLEncoding.EncodeToString(h.token[:]) }

// HoldOf is the hold of a token from elsewhere, such as from another program or the spend door. The amount is what was reserved, or
// the zero Amount where that is not known. Such a hold is not released when it is dropped.
func (c *Client) HoldOf(token string, amount Amount, requestID uint64) (*Hold, error) {
	bytes, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(bytes) != tokenLen {
		return nil, fmt.Errorf("weir: token of %d characters: expected 43 of A-Z, a-z, 0-9, - and _", len(token))
	}
	h := &Hold{client: c, requestID: requestID, base: amount.base, unit: amount.unit, detached: true}
	copy(h.token[:], bytes)
	return h, nil
}

// Outcome is the answer to a confirm, a settle or a release.
type Outcome struct {
	Verdict Verdict
	// Repeat: this is the first answer again, nothing was booked now. The library repeats what was not answered, so this is no
	// fault.
	Repeat bool
	// Deadline is when the hold ends, of [Hold.Extend]; zero unless the verdict is [Extended].
	Deadline time.Time
}

// Confirm says that the money will be spent: the hold lives until the node's billing deadline (an hour by default) instead of the
// short one. It is for work of unknown length. It is repeated until it is answered. If the context ends before, the verdict is
// [Pending] with the context's error, and the library goes on.
func (h *Hold) Confirm(ctx context.Context) (Outcome, error) {
	j, err := h.client.begin(h, actionConfirm, 0)
	if err != nil {
		return Outcome{Verdict: Busy}, err
	}
	return j.wait(ctx)
}

// Extend moves the end of the hold to so long from now, in milliseconds from a second to the node's billing time, unless its end is
// later already; one that is not confirmed is confirmed by it. So a program that dies has its money back soon, and one that works
// on renews its hold. It is repeated until it is answered or the context ends: then the verdict is [Timeout] with the context's
// error. Of a node that is too old for it: [Unsupported].
func (h *Hold) Extend(ctx context.Context, to time.Duration) (Outcome, error) {
	if ms := to.Milliseconds(); ms < 1 || ms > math.MaxUint32 {
		return Outcome{Verdict: BadAmount}, fmt.Errorf("weir: a hold extended to %s from now: expected a second to the node's billing time", to)
	}
	j, err := h.client.begin(h, actionExtend, to.Milliseconds())
	if err != nil {
		return Outcome{Verdict: Busy}, err
	}
	return j.wait(ctx)
}

// Settle books what was spent, which may be less or more than was reserved, and ends the hold. It is booked once: it is repeated,
// on any node that knows the hold, until it is answered. If the context ends before, the verdict is [Pending] with the context's
// error, and the library goes on; Settle with the same amount then waits for the same answer again. A hold that was settled
// with another amount answers [AlreadySettled].
func (h *Hold) Settle(ctx context.Context, amount Amount) (Outcome, error) {
	if amount.err != nil {
		return Outcome{Verdict: BadAmount}, amount.err
	}
	if amount.base < 0 || amount.base > AmountMax {
		return Outcome{Verdict: BadAmount}, fmt.Errorf("weir: settled amount %s: expected 0 to %d base units", amount, int64(AmountMax))
	}
	if amount.unit != (Unit{}) && h.unit != (Unit{}) && amount.unit != h.unit {
		return Outcome{Verdict: UnitMismatch}, fmt.Errorf("weir: settled amount %s of a hold in %s", amount, h.unit)
	}
	j, err := h.finish(actionSettle, amount.base)
	if err != nil {
		return Outcome{Verdict: Busy}, err
	}
	if j.action == actionRelease {
		return Outcome{Verdict: AlreadyReleased}, nil
	}
	if j.amount != amount.base {
		return Outcome{Verdict: AlreadySettled}, nil
	}
	return j.wait(ctx)
}

// Release gives the money back. Nothing happens if the hold was settled or released before, so it can be deferred right after
// Reserve. It does not wait: the library repeats it until it is answered.
func (h *Hold) Release() {
	if _, err := h.finish(actionRelease, 0); err != nil && !h.client.isClosing() {
		h.client.log.Warn("weir: a hold was not released; it ends at its deadline", "request_id", h.requestID, "error", err)
	}
}

// ReleaseWait is Release that waits for the answer, as Settle does.
func (h *Hold) ReleaseWait(ctx context.Context) (Outcome, error) {
	j, err := h.finish(actionRelease, 0)
	if err != nil {
		return Outcome{Verdict: Busy}, err
	}
	if j.action == actionSettle {
		return Outcome{Verdict: AlreadySettled}, nil
	}
	return j.wait(ctx)
}

// finish begins the settle or the release that ends the hold, or is the one that did.
func (h *Hold) finish(action uint8, amount int64) (*job, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end != nil {
		return h.end, nil
	}
	j, err := h.client.begin(h, action, amount)
	if err == nil {
		h.end = j
	}
	return j, err
}

// Detach leaves the hold to whoever has its [Hold.Token]: this client does nothing about it by itself any more.
func (h *Hold) Detach() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.detached = true
}
