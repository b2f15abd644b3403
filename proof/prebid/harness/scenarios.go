package main

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func place(c *campaign) object { return banner("weir", c.size()) }

// What the exchange makes of the node's answers.
var answers = []scenario{
	{"a campaign that fits bids, complete and accepted", func(c *check) {
		b, ok := c.won(page(place(ordinary)), ordinary)
		c.expect(!ok || strings.Contains(b.ADM, "cdn.brand1.example"), "markup %q", b.ADM)
		c.expect(!ok || b.MType == 1, "mtype %d, expected 1", b.MType)
	}},
	{"the same without compression", func(c *check) {
		c.won(page(banner("weirplain", ordinary.size())), ordinary)
	}},
	{"a video bid is typed as video", func(c *check) {
		b, ok := c.won(page(video("weir", film.size())), film)
		c.expect(!ok || b.MType == 2, "mtype %d, expected 2", b.MType)
	}},
	{"a wrapper is not sent to a player that plays none", func(c *check) {
		imp := video("weir", film.size())
		imp["video"].(object)["protocols"] = []int{2, 3, 7}
		c.silent(page(imp))
	}},
	{"the dearer of two campaigns wins", func(c *check) { c.won(page(place(cheap)), dear) }},
	{"two imps, two bids", func(c *check) {
		var bids []bid
		c.patiently(func() bool {
			bids = c.auction(page(place(ordinary), place(dear))).bids
			return len(bids) == 2
		})
		c.expect(len(bids) == 2, "%d bids, expected 2", len(bids))
	}},
	{"nothing fits: 204, a silent no-bid", func(c *check) { c.silent(page(banner("weir", size{11, 11}))) }},
	{"a floor that can be met is met", func(c *check) {
		c.won(page(with(place(ordinary), "bidfloor", 2.4)), ordinary)
	}},
	{"a floor above the bid: no bid below it is sent", func(c *check) {
		c.silent(page(with(place(ordinary), "bidfloor", 2.6)))
	}},
	{"a floor in a currency without a rate: no bid", func(c *check) {
		c.silent(page(with(with(place(ordinary), "bidfloor", 100.0), "bidfloorcur", "JPY")))
	}},
	{"the request takes EUR only: no bid in USD", func(c *check) {
		c.silent(with(page(place(ordinary)), "cur", []string{"EUR"}))
	}},
	{"a country that is not wanted: no bid; the wanted one: a bid", func(c *check) {
		c.silent(page(place(french)))
		c.won(fromFrance(page(place(french))), french)
	}},
	{"a blocked category: no bid", func(c *check) { c.silent(with(page(place(ordinary)), "bcat", categories)) }},
	{"a blocked advertiser: no bid", func(c *check) {
		c.silent(with(page(place(ordinary)), "badv", []string{ordinary.Advertiser}))
	}},
	{"another seat is asked: no bid", func(c *check) {
		c.silent(with(page(place(ordinary)), "wseat", []string{"another-seat"}))
	}},
	{"a deal: the bid names it", func(c *check) {
		b, ok := c.won(page(with(place(dealt), "pmp", dealOffer(deal, 3.5))), dealt)
		c.expect(!ok || b.DealID == deal, "dealid %q, expected %q", b.DealID, deal)
	}},
	{"a deal with a floor above the bid, a deal of others: no bid", func(c *check) {
		c.silent(page(with(place(dealt), "pmp", dealOffer(deal, 4.5))))
		c.silent(page(with(place(dealt), "pmp", dealOffer("deal-of-others", 1))))
		c.silent(page(with(place(ordinary), "pmp", dealOffer("deal-of-others", 1))))
	}},
	{"a deadline that cannot be met: 204 at once, nothing held", func(c *check) {
		request := with(fromFrance(page(place(french))), "tmax", 1)
		delete(request, "ext")
		status, err := c.node.post(request)
		c.expect(err == nil && status == http.StatusNoContent, "status %d (%v), expected 204", status, err)
		c.step("a deadline")
	}},
}

func fromFrance(request object) object {
	request["device"].(object)["geo"] = object{"country": "FRA"}
	return request
}

func dealOffer(id string, floor float64) object {
	return object{"private_auction": 1, "deals": []object{{"id": id, "bidfloor": floor, "bidfloorcur": "USD", "at": 1}}}
}

// What happens to the money.
var money = []scenario{
	{"a win notice spends nothing", func(c *check) {
		request := page(place(ordinary))
		if b, ok := c.won(request, ordinary); ok {
			c.notify("nurl", expand(b.NURL, request, b, b.Price.String()))
		}
	}},
	{"a billing notice books the price, once", func(c *check) {
		request := page(place(ordinary))
		if b, ok := c.won(request, ordinary); ok {
			c.notify("nurl", expand(b.NURL, request, b, b.Price.String()))
			c.bill(request, b, b.Price.String(), b.cost())
		}
	}},
	{"without a win notice before it, too", func(c *check) {
		request := page(place(ordinary))
		if b, ok := c.won(request, ordinary); ok {
			c.bill(request, b, b.Price.String(), b.cost())
		}
	}},
	{"a repeated billing notice is accepted and books nothing", func(c *check) {
		request := page(place(ordinary))
		if b, ok := c.won(request, ordinary); ok {
			c.bill(request, b, b.Price.String(), b.cost())
			for range 3 {
				c.bill(request, b, b.Price.String(), 0)
			}
		}
	}},
	{"sixteen equal billing notices at once book one", func(c *check) {
		request := page(place(ordinary))
		b, ok := c.won(request, ordinary)
		if !ok {
			return
		}
		c.audit.billing(ordinary.ID, b.cost())
		at(16, 16, func(int) {
			status, err := c.node.call(expand(b.BURL, request, b, b.Price.String()))
			c.expect(err == nil && accepted(status), "status %d (%v)", status, err)
		})
		c.audit.billed(ordinary.ID, b.cost(), false)
		c.step("sixteen notices")
	}},
	{"in a second-price auction a price below the bid is what is booked", func(c *check) {
		request := page(place(ordinary))
		request["at"] = 2
		if b, ok := c.won(request, ordinary); ok {
			c.bill(request, b, "1.234567", impression(1_234_567))
		}
	}},
	{"a price that is missing, literal, encoded or absurd books the held price", func(c *check) {
		prices := []string{
			"", "${AUCTION_PRICE}", "%24%7BAUCTION_PRICE%7D", "Mi41MA==", "NaN", "abc", "-1", "1e400", "999999999",
		}
		for _, price := range prices {
			request := page(place(ordinary))
			if b, ok := c.won(request, ordinary); ok {
				c.bill(request, b, price, b.cost())
			}
		}
		c.note("%d kinds", len(prices))
	}},
	{"AUDIT in place of the price: somebody looks at the markup, nobody pays", func(c *check) {
		request := page(place(ordinary))
		if b, ok := c.won(request, ordinary); ok {
			c.bill(request, b, "AUDIT", 0)
			c.bill(request, b, b.Price.String(), b.cost())
		}
	}},
	{"a billing notice after the hold lapsed is booked as late, once", func(c *check) {
		request := page(place(ordinary))
		if b, ok := c.won(request, ordinary); ok {
			time.Sleep(holdGone)
			before := c.lateOf(ordinary)
			c.bill(request, b, b.Price.String(), b.cost())
			c.bill(request, b, b.Price.String(), 0)
			late := c.lateOf(ordinary) - before
			c.expect(late == b.cost(), "%d booked as late, expected %d", late, b.cost())
		}
	}},
	{"a win notice keeps the hold: the same wait, and it is not late", func(c *check) {
		c.inTime(func() bool {
			request := page(place(ordinary))
			b, ok := c.won(request, ordinary)
			if !ok {
				return true
			}
			c.notify("nurl", expand(b.NURL, request, b, b.Price.String()))
			if b.tooSlow() {
				return false
			}
			before := c.lateOf(ordinary)
			time.Sleep(holdGone)
			c.bill(request, b, b.Price.String(), b.cost())
			late := c.lateOf(ordinary) - before
			// Billing, too, has an end.
			if time.Since(b.asked) > billingMS*time.Millisecond {
				return false
			}
			c.expect(late == 0, "%d booked as late, expected 0", late)
			return true
		})
	}},
	{"a loss notice gives the money back at once", func(c *check) {
		// Two impressions are all there is: without the notice the loop would run dry.
		for range 6 {
			request := page(place(forgotten))
			if b, ok := c.won(request, forgotten); ok {
				c.notify("lurl", expand(b.LURL, request, b, ""))
			}
		}
	}},
	{"bids that nobody speaks of hold their money, then give it back", func(c *check) {
		c.inTime(func() bool {
			first, ok := c.won(page(place(forgotten)), forgotten)
			if !ok {
				return true
			}
			c.won(page(place(forgotten)), forgotten)
			third := c.auction(page(place(forgotten)))
			if first.tooSlow() {
				return false
			}
			c.isSilent(third)
			return true
		})
		time.Sleep(holdGone)
		c.won(page(place(forgotten)), forgotten)
		time.Sleep(holdGone)
	}},
	{"a forged notice is refused with 404 and books nothing", func(c *check) {
		request := page(place(ordinary))
		if b, ok := c.won(request, ordinary); ok {
			status, err := c.node.call(forge(expand(b.BURL, request, b, b.Price.String())))
			c.expect(err == nil && status == http.StatusNotFound, "status %d (%v), expected 404", status, err)
			c.step("a forged burl")
		}
	}},
	{"test=1 holds nothing and books nothing", func(c *check) {
		request := with(fromFrance(page(place(french))), "test", 1)
		before, err := c.node.books()
		c.expect(err == nil, "books: %v", err)
		for _, b := range c.auction(request).bids {
			if b.BURL != "" {
				_, _ = c.node.call(expand(b.BURL, request, b, b.Price.String()))
			}
			c.step("the burl of a test")
		}
		time.Sleep(300 * time.Millisecond) // the books tell of holds that much later
		after, err := c.node.books()
		c.expect(err == nil, "books: %v", err)
		held, heldBefore := after[french.ID].Held, before[french.ID].Held
		c.expect(held <= heldBefore, "held %d, before the test %d", held, heldBefore)
	}},
	{"a frequency cap: two for each user, another user is asked again", func(c *check) {
		for range 2 {
			request := of(page(place(capped)), "reader-1")
			if b, ok := c.won(request, capped); ok {
				c.bill(request, b, b.Price.String(), b.cost())
			}
		}
		c.silent(of(page(place(capped)), "reader-1"))
		c.won(of(page(place(capped)), "reader-2"), capped)
	}},
	{"forty auctions at once on a budget of four impressions: four are sold", func(c *check) {
		var sold, late atomic.Int64
		sell := func(int) {
			request := page(place(small))
			for _, b := range c.auction(request).bids {
				sold.Add(1)
				c.bill(request, b, b.Price.String(), b.cost())
				if b.tooSlow() {
					late.Add(1)
				}
			}
		}
		at(40, 8, sell)
		c.patiently(func() bool {
			if sold.Load() < 4 {
				sell(0)
			}
			return sold.Load() >= 4
		})
		// The money of a bid whose billing came late was free again, and sold a second time.
		c.expect(sold.Load() >= 4 && sold.Load() <= 4+late.Load(), "%d sold, expected 4", sold.Load())
		c.silent(page(place(small)))
	}},
	{"400 auctions, 16 at once, billed in every way", crowd},
	{"a win that nobody billed is kept; once all is reconciled, spent + left is the limit", func(c *check) {
		time.Sleep(billingMS*time.Millisecond + holdGone)
		all, err := c.node.books()
		c.expect(err == nil, "books: %v", err)
		kept := int64(0)
		for _, b := range all {
			kept += b.Held
		}
		c.expect(kept > 0, "nothing is kept of the wins that were not billed")
		// Sums of kept holds become free in steps of ten seconds.
		for began := time.Now(); kept > 0 && time.Since(began) < reconciled; time.Sleep(200 * time.Millisecond) {
			c.expect(c.node.reconcile() == nil, "no reconciliation")
			all, err = c.node.books()
			kept = 0
			for _, b := range all {
				kept += b.Held
			}
		}
		c.expect(err == nil, "books: %v", err)
		for _, campaign := range campaigns {
			b := all[campaign.ID]
			acked, left := c.audit.acked[b.ID], b.Free+b.Purses
			c.expect(b.Held == 0, "budget %d still holds %d", b.ID, b.Held)
			c.expect(b.spent() == acked, "budget %d: booked %d, acknowledged %d", b.ID, b.spent(), acked)
			c.expect(left+b.spent() == b.Limit, "budget %d: left %d + spent %d is not %d", b.ID, left, b.spent(), b.Limit)
		}
		c.step("the end")
	}},
}

// What is still true after the node was killed. Prebid Server stays.
var crash = []scenario{
	{"kill -9: what was acknowledged is booked, once, and open bids can be billed", func(c *check) {
		billed, open := page(place(ordinary)), page(place(ordinary))
		first, ok := c.won(billed, ordinary)
		second, ok2 := c.won(open, ordinary)
		if !ok || !ok2 {
			return
		}
		c.bill(billed, first, first.Price.String(), first.cost())
		if err := c.node.kill(); err != nil {
			c.fail("%w", err)
			return
		}
		c.step("kill -9")
		c.bill(billed, first, first.Price.String(), 0)
		c.bill(open, second, second.Price.String(), second.cost())
		c.bill(open, second, second.Price.String(), 0)
		c.won(page(place(ordinary)), ordinary)
	}},
}

// crowd plays many auctions at once, and the browser's part in every way, and compares the books at every step.
func crowd(c *check) {
	const auctions, atOnce, seed = 400, 16, 4
	var bids, billed atomic.Int64
	at(auctions, atOnce, func(i int) {
		chance := rand.New(rand.NewPCG(seed, uint64(i)))
		request := page(place(crowded))
		for _, b := range c.auction(request).bids {
			bids.Add(1)
			nurl := func() { c.notify("nurl", expand(b.NURL, request, b, b.Price.String())) }
			bill := func(price string, charged int64) {
				c.bill(request, b, price, charged)
				if charged > 0 {
					billed.Add(1)
				}
			}
			switch way := chance.IntN(100); {
			case way < 35:
				bill(b.Price.String(), b.cost())
			case way < 55:
				nurl()
				bill(b.Price.String(), b.cost())
			case way < 70:
				bill(b.Price.String(), b.cost())
				bill(b.Price.String(), 0)
			case way < 80:
				bill("${AUCTION_PRICE}", b.cost())
			case way < 90:
				c.notify("lurl", expand(b.LURL, request, b, ""))
			default: // nobody speaks of it again
			}
		}
	})
	all, err := c.node.books()
	c.expect(err == nil, "books: %v", err)
	c.expect(billed.Load() > 100, "only %d of %d auctions were billed", billed.Load(), auctions)
	spent := decimal(all[crowded.ID].spent())
	c.note("%d bids, %d billed, spent %s of %s", bids.Load(), billed.Load(), spent, crowded.Limit)
}

// at calls play for 0 to count, so many at once.
func at(count, atOnce int, play func(int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range atOnce {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range next {
				play(i)
			}
		}()
	}
	for i := range count {
		next <- i
	}
	close(next)
	group.Wait()
}

// of makes it a request of one user.
func of(request object, user string) object {
	return with(request, "user", object{"id": user})
}

// forge changes one character in the middle of the longest part of the path: the token.
func forge(url string) string {
	parts := strings.Split(url, "/")
	longest := 0
	for i, part := range parts {
		if len(part) > len(parts[longest]) {
			longest = i
		}
	}
	token := []byte(parts[longest])
	if at := len(token) / 2; token[at] == 'A' {
		token[at] = 'B'
	} else {
		token[at] = 'A'
	}
	parts[longest] = string(token)
	return strings.Join(parts, "/")
}
