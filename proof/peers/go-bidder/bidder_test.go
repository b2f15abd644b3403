package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// memory is a store without Redis: budgets only.
type memory struct {
	left   map[uint64]int64
	held   map[string]hold
	billed map[string]bool
}

func (m *memory) reserve(_ context.Context, asks []ask) ([]int, error) {
	paid := make([]int, len(asks))
	for i, a := range asks {
		paid[i] = -1
		for j, c := range a.candidates {
			if m.left[c.campaign.ID] >= c.Bid.cost() {
				m.left[c.campaign.ID] -= c.Bid.cost()
				m.held[a.bid] = hold{a.bid, c.campaign.ID, c.Bid.cost(), a.user}
				paid[i] = j
				break
			}
		}
	}
	return paid, nil
}

func (m *memory) settle(_ context.Context, h hold, _ []counter) error {
	if !m.billed[h.Bid] {
		m.billed[h.Bid] = true
		if _, held := m.held[h.Bid]; !held {
			m.left[h.Campaign] -= h.Cost
		}
		delete(m.held, h.Bid)
	}
	return nil
}

func (m *memory) release(_ context.Context, h hold) error {
	if _, held := m.held[h.Bid]; held {
		m.left[h.Campaign] += h.Cost
		delete(m.held, h.Bid)
	}
	return nil
}

const file = `
{"id":1,"limit":"0.005","bid":"2.50","advertiser":"a.example","targeting":{"geo":{"any":["USA-CA"]}},
 "creatives":[{"id":"one","format":"banner","sizes":["300x250"],"adomain":["a.example"],"cat":["IAB9"],"markup":"<p>"}]}
{"id":2,"limit":"5","bid":2.0,"targeting":{"segments":{"none":["bored"]},"devices":{"any":["pc"]}},
 "creatives":[{"id":"two","format":"banner","sizes":"any","adomain":["b.example"],"markup":"<p>"}]}
{"id":3,"limit":"5","bid":"9","targeting":{"deals":["d"],"deals_only":true},
 "creatives":[{"id":"three","format":"video","adomain":["c.example"],"markup":"<VAST/>","duration_s":15}]}
{"id":4,"limit":"5","daily":"1"}
`

func newTest(t *testing.T) (*bidder, *memory) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "campaigns.jsonl")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(file, ",\n ", ",")), 0o600); err != nil {
		t.Fatal(err)
	}
	campaigns, err := load(path)
	if err != nil || len(campaigns) != 3 {
		t.Fatalf("%d campaigns, expected 3: %v", len(campaigns), err)
	}
	m := &memory{left: map[uint64]int64{}, held: map[string]hold{}, billed: map[string]bool{}}
	for _, c := range campaigns {
		m.left[c.ID] = int64(c.Limit)
	}
	return newBidder(campaigns, m, ""), m
}

// bidsFor sends a request and returns what was bid.
func bidsFor(t *testing.T, b *bidder, body string) (bids []bid) {
	t.Helper()
	answer := httptest.NewRecorder()
	b.routes().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/openrtb2/bid", strings.NewReader(body)))
	if answer.Code == http.StatusNoContent {
		return nil
	}
	var response bidResponse
	if err := json.Unmarshal(answer.Body.Bytes(), &response); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%d %q: %v", answer.Code, answer.Body, err)
	}
	for _, seat := range response.SeatBid {
		bids = append(bids, seat.Bid...)
	}
	return bids
}

const california = `"device":{"devicetype":2.0,"geo":{"country":"USA","region":"CA"}}`

func TestTargeting(t *testing.T) {
	const square = `[{"id":"1","banner":{"w":300,"h":250}}]`
	const leader = `[{"id":"1","banner":{"w":728,"h":90}}]`
	in := func(place string) string { return `"device":{"devicetype":2,"geo":{` + place + `}}` }
	film := func(fields, deal string) string {
		return `[{"id":"1","video":{` + fields + `},"pmp":{"private_auction":1,"deals":[` + deal + `]}}]`
	}
	for name, c := range map[string]struct{ imp, rest, crid string }{
		"the dearest that fits":   {square, california, "one"},
		"another region":          {square, in(`"country":"USA","region":"NY"`), "two"},
		"another country":         {square, in(`"country":"FRA"`), "two"},
		"another size":            {leader, california, "two"},
		"a blocked category":      {square, `"bcat":["IAB9"],` + california, "two"},
		"a blocked domain":        {square, `"badv":["a.example"],` + california, "two"},
		"an unwanted segment":     {leader, `"user":{"data":[{"segment":[{"id":"bored"}]}]},` + california, ""},
		"an unwanted device":      {square, `"device":{"devicetype":4}`, ""},
		"a floor between the two": {`[{"id":"1","bidfloor":"2.1","banner":{"w":300,"h":250}}]`, california, "one"},
		"a floor above both":      {`[{"id":"1","bidfloor":2.6,"banner":{"w":300,"h":250}}]`, california, ""},
		"a deal":                  {film(`"w":640,"h":480`, `{"id":"d","bidfloor":8}`), california, "three"},
		"another deal":            {film(`"w":640,"h":480`, `{"id":"e"}`), california, ""},
		"a shorter film":          {film(`"maxduration":10`, `{"id":"d"}`), california, ""},
	} {
		b, _ := newTest(t)
		crid := ""
		for _, one := range bidsFor(t, b, `{"id":"1","imp":`+c.imp+`,`+c.rest+`}`) {
			crid = one.CrID
		}
		if crid != c.crid {
			t.Errorf("%s: %q bid, expected %q", name, crid, c.crid)
		}
	}
}

func TestMoney(t *testing.T) {
	const request = `{"id":"1","imp":[{"id":"1","banner":{"w":300,"h":250}}],` + california + `}`
	b, m := newTest(t)
	notice := func(path string) int {
		answer := httptest.NewRecorder()
		b.routes().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, strings.ReplaceAll(path, "${AUCTION_PRICE}", "2.5"), nil))
		return answer.Code
	}
	first, second := bidsFor(t, b, request)[0], bidsFor(t, b, request)[0]
	if third := bidsFor(t, b, request)[0]; third.CrID != "two" {
		t.Errorf("a third impression of a budget of two: %+v", third)
	}
	for _, path := range []string{first.NURL, first.BURL, first.BURL, second.LURL, second.LURL} {
		if status := notice(path); status != http.StatusNoContent {
			t.Errorf("%s: %d", path, status)
		}
	}
	if m.left[1] != 2500 {
		t.Errorf("left %d, expected 2500", m.left[1])
	}
	if status := notice("/n/bill/x?c=99&m=1"); status != http.StatusNotFound {
		t.Errorf("a campaign that does not exist: %d", status)
	}
	before := m.left[2]
	if len(bidsFor(t, b, strings.Replace(request, `{`, `{"test":1,`, 1))) != 1 || m.left[1] != 2500 || m.left[2] != before {
		t.Error("a test took money")
	}
}

func TestGarbage(t *testing.T) {
	b, _ := newTest(t)
	for _, body := range []string{"", "{", "[]", `{"id":"1"}`, `{"id":1,"imp":[{}]}`} {
		answer := httptest.NewRecorder()
		b.routes().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/openrtb2/bid", strings.NewReader(body)))
		if answer.Code != http.StatusBadRequest || answer.Body.Len() != 0 {
			t.Errorf("%q: %d %q", body, answer.Code, answer.Body)
		}
	}
}
