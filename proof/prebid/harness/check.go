package main

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The whole test: an exchange, a node, and what was found.
type run struct {
	exchange *exchange
	node     *node
	audit    *audit
	checks   int
	failed   int
	patience time.Duration
	retried  atomic.Int64 // requests asked again while a purse was filled
}

// A scenario is one thing that has to hold.
type scenario struct {
	name string
	play func(*check)
}

// A check is a scenario that is being played. All steps go through it, and after each one it reads the books.
type check struct {
	*run
	mutex sync.Mutex
	wrong []error
	notes []string
}

func (r *run) play(scenarios []scenario) {
	for _, s := range scenarios {
		c := &check{run: r}
		began := time.Now()
		s.play(c)
		r.checks++
		verdict := "ok  "
		if len(c.wrong) > 0 {
			verdict = "FAIL"
			r.failed++
			r.audit.startOver() // what is wrong now has been told
		}
		note := ""
		if len(c.notes) > 0 {
			note = " (" + strings.Join(c.notes, "; ") + ")"
		}
		fmt.Printf("%s %-70s %5d ms%s\n", verdict, s.name, time.Since(began).Milliseconds(), note)
		for i, err := range c.wrong {
			if i == 25 {
				fmt.Printf("     ... and %d more\n", len(c.wrong)-i)
				break
			}
			fmt.Printf("     %v\n", err)
		}
	}
}

func (c *check) fail(format string, arguments ...any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.wrong = append(c.wrong, fmt.Errorf(format, arguments...))
}

func (c *check) expect(holds bool, format string, arguments ...any) {
	if !holds {
		c.fail(format, arguments...)
	}
}

func (c *check) note(format string, arguments ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, arguments...))
}

// step compares the books with what the node acknowledged.
func (c *check) step(what string) {
	for _, err := range c.audit.compare() {
		c.fail("after %s: %w", what, err)
	}
}

// auction plays a request and checks what every answer of the node has to be: HTTP 200 or 204, no error of the
// exchange's, each bid complete and within what was asked and what its campaign pays.
func (c *check) auction(request object) outcome {
	defer c.step("an auction")
	asked := time.Now()
	o, err := c.exchange.auction(request)
	if err != nil {
		c.fail("auction: %w", err)
		return o
	}
	for _, bidder := range []string{"weir", "weirplain"} {
		for _, fault := range o.faults[bidder] {
			c.fail("the exchange finds fault with %s: %d %q", bidder, fault.Code, fault.Message)
		}
		for _, call := range o.calls[bidder] {
			c.expect(call.Status == 200 || call.Status == 204, "the node answered %d", call.Status)
			c.expect(call.Status != 204 || call.ResponseBody == "", "204 with a body")
		}
	}
	for i := range o.bids {
		o.bids[i].asked = asked
		c.sound(request, o.bids[i])
	}
	return o
}

// sound checks a bid against its campaign and its imp.
func (c *check) sound(request object, b bid) {
	var of *campaign
	for _, candidate := range campaigns {
		if candidate.cid() == b.CID {
			of = candidate
		}
	}
	if of == nil {
		c.fail("bid %s is of campaign %q, which does not exist", b.ID, b.CID)
		return
	}
	price, err := micros(b.Price.String())
	if err != nil {
		c.fail("price of bid %s: %w", b.ID, err)
		return
	}
	c.expect(price > 0 && price <= of.bidMicros(), "price %s, the campaign pays %s", b.Price, of.Bid)
	c.expect(b.CRID == of.Creatives[0].ID, "crid %q, expected %q", b.CRID, of.Creatives[0].ID)
	c.expect(len(b.ADomain) == 1 && b.ADomain[0] == of.Advertiser, "adomain %q, expected %q", b.ADomain, of.Advertiser)
	c.expect(b.currency == of.Unit, "currency %s, the campaign has %s", b.currency, of.Unit)
	c.expect(b.NURL != "" && b.BURL != "" && b.LURL != "", "a notice is missing: nurl %q, burl %q, lurl %q", b.NURL, b.BURL, b.LURL)
	for _, imp := range request["imp"].([]object) {
		if floor, ok := imp["bidfloor"].(float64); ok && imp["id"] == b.ImpID {
			c.expect(price >= int64(floor*1_000_000), "price %s is below the floor %v", b.Price, floor)
		}
	}
}

// How long a campaign may pass because its purse is being filled: by a node on a busy machine, by the stand-in, whose
// faults would all be waited for.
const (
	patience        = 60 * time.Second
	standInPatience = 3 * time.Second
)

// reconciled is how long kept holds may take to become free: they are summed by ten seconds.
const reconciled = 90 * time.Second

// tooSlow says whether a hold of this bid may be gone by now: what is to be tried in its time is tried again then.
func (b bid) tooSlow() bool { return time.Since(b.asked) > holdMS*time.Millisecond }

// inTime plays until it was fast enough, as a busy machine may take a while: play says whether it was.
func (c *check) inTime(play func() bool) {
	for range 20 {
		if play() {
			return
		}
		time.Sleep(holdGone)
	}
	c.fail("the machine is too slow: no hold lives long enough")
}

// patiently tries until it succeeds or patience ends: a node does not wait for a purse to be filled, it passes.
func (c *check) patiently(try func() bool) {
	for began := time.Now(); !try() && time.Since(began) < c.patience; {
		c.retried.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
}

// won plays a request that this campaign has to win.
func (c *check) won(request object, of *campaign) (bid, bool) {
	var last outcome
	c.patiently(func() bool {
		last = c.auction(renewed(request))
		// A cheaper one wins as long as the dearer one's purse is being filled.
		_, bids := last.of(of)
		return bids
	})
	if b, bids := last.of(of); bids {
		return b, true
	}
	c.fail("campaign %d did not bid; bids %+v, calls %+v", of.ID, last.bids, last.calls)
	return bid{}, false
}

// silent plays a request that the node has to answer with 204, which the exchange takes for a plain no-bid.
func (c *check) silent(request object) { c.isSilent(c.auction(request)) }

func (c *check) isSilent(o outcome) {
	c.expect(len(o.bids) == 0, "a bid where none was due: %+v", o.bids)
	for _, call := range o.calls["weir"] {
		c.expect(call.Status == 204, "no-bid by %d, expected 204", call.Status)
	}
	c.expect(len(o.calls["weir"]) == 1, "%d calls of the node, expected 1", len(o.calls["weir"]))
}

// notify fetches a notice that must be accepted.
func (c *check) notify(what, url string) {
	status, err := c.node.call(url)
	if err != nil {
		c.fail("%s: %w", what, err)
	} else if !accepted(status) {
		c.fail("%s: status %d, expected 200 or 204 (%s)", what, status, url)
	}
	c.step(what)
}

// bill fetches a bid's burl. price is what stands for AUCTION_PRICE, charged what has to be booked for it: 0 where
// this notice is a repeated one.
func (c *check) bill(request object, b bid, price string, charged int64) {
	var id uint64
	fmt.Sscan(b.CID, &id)
	c.audit.billing(id, charged)
	url := expand(b.BURL, request, b, price)
	status, err := c.node.call(url)
	switch {
	case err != nil:
		c.fail("burl: %w", err)
	case !accepted(status):
		c.fail("burl with price %q: status %d, expected 200 or 204 (%s)", price, status, url)
	default:
		// On a slow machine the hold may be gone by now.
		c.audit.billed(id, charged, b.tooSlow())
	}
	c.step(fmt.Sprintf("a burl with price %q", price))
}

// lateOf reads what is booked as late for a campaign.
func (c *check) lateOf(of *campaign) int64 {
	all, err := c.node.books()
	c.expect(err == nil, "books: %v", err)
	return all[of.ID].Late
}

// cost of an impression of the bid at its own price.
func (b bid) cost() int64 {
	price, err := micros(b.Price.String())
	if err != nil {
		return 0 // said by sound
	}
	return impression(price)
}
