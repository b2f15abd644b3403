package main

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The stand-in takes the node's place to test the test: without a fault every scenario holds, with any of these at
// least one must fail. It is a bidder with a map of holds, and no more than the scenarios need.
const (
	sound      = "none"
	doubles    = "doubles"
	forgets    = "forgets"
	oversells  = "oversells"
	floorless  = "floorless"
	blind      = "blind"
	charges    = "charges"
	believes   = "believes"
	keeps      = "keeps"
	tireless   = "tireless"
	trusts     = "trusts"
	complains  = "complains"
	speechless = "speechless"
)

var faults = map[string]string{
	sound:      "no fault",
	doubles:    "a repeated billing notice is booked again",
	forgets:    "every tenth acknowledged billing notice is not booked",
	oversells:  "bids without holding money",
	floorless:  "bids below floors",
	blind:      "ignores blocked categories and advertisers",
	charges:    "test=1 holds and books",
	believes:   "books whatever price stands in the notice",
	keeps:      "holds never lapse",
	tireless:   "ignores frequency caps",
	trusts:     "accepts forged notices",
	complains:  "answers 500 where it does not bid",
	speechless: "bids without crid",
}

func faultNames() string {
	var names []string
	for name := range faults {
		names = append(names, name)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}

type holdState int

const (
	open holdState = iota
	won
	lapsed
	released
	billed
)

type hold struct {
	of    *campaign
	user  string
	cost  int64 // what is held
	gone  time.Time
	state holdState
	test  bool
}

type standIn struct {
	fault   string
	address string

	mutex sync.Mutex
	holds []*hold
	books map[uint64]*books
	seen  map[string]int // impressions and bids by user and campaign
	bills int
}

func serveStandIn(fault string) error {
	if _, known := faults[fault]; !known {
		return fmt.Errorf("there is no fault %q; known are %s", fault, faultNames())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &standIn{fault: fault, address: listener.Addr().String(), books: map[uint64]*books{}, seen: map[string]int{}}
	for _, c := range campaigns {
		limit := mustMicros(c.Limit)
		s.books[c.ID] = &books{ID: c.ID, Limit: limit, Free: limit}
	}
	routes := http.NewServeMux()
	routes.HandleFunc("POST /openrtb2/bid", s.bid)
	routes.HandleFunc("GET /n/{kind}/{hold}/{price...}", s.notice)
	routes.HandleFunc("GET /books", s.tell)
	fmt.Printf("openrtb %s\nadmin http://%s/\nready\n", s.address, s.address)
	return http.Serve(listener, routes)
}

// asked is what it reads of a request.
type asked struct {
	ID     string              `json:"id"`
	Test   int                 `json:"test"`
	TMax   int                 `json:"tmax"`
	Cur    []string            `json:"cur"`
	BCat   []string            `json:"bcat"`
	BAdv   []string            `json:"badv"`
	Seat   []string            `json:"wseat"`
	User   struct{ ID string } `json:"user"`
	Device struct {
		Geo struct{ Country string } `json:"geo"`
	} `json:"device"`
	Imp []askedImp `json:"imp"`
}

type askedImp struct {
	ID       string  `json:"id"`
	BidFloor float64 `json:"bidfloor"`
	FloorCur string  `json:"bidfloorcur"`
	Banner   *pixels `json:"banner"`
	Video    *pixels `json:"video"`
	PMP      struct {
		Private int `json:"private_auction"`
		Deals   []struct {
			ID       string  `json:"id"`
			BidFloor float64 `json:"bidfloor"`
		} `json:"deals"`
	} `json:"pmp"`
}

type pixels struct{ W, H int }

func (s *standIn) bid(w http.ResponseWriter, request *http.Request) {
	var r asked
	if err := readOffer(request, &r); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lapse()
	var bids []object
	currency := "USD"
	for _, imp := range r.Imp {
		if best, deal := s.best(r, imp); best != nil && r.TMax > 5 {
			bids = append(bids, s.offer(r, imp, best, deal))
			currency = best.Unit
		}
	}
	switch {
	case len(bids) > 0:
		send(w, object{"id": r.ID, "cur": currency, "seatbid": []object{{"seat": "seat-1", "bid": bids}}})
	case s.fault == complains:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// best campaign for an imp, and the deal it uses.
func (s *standIn) best(r asked, imp askedImp) (best *campaign, deal string) {
	for _, c := range campaigns {
		with, fits := s.fits(r, imp, c)
		if fits && (best == nil || c.bidMicros() > best.bidMicros()) {
			best, deal = c, with
		}
	}
	return best, deal
}

func (s *standIn) fits(r asked, imp askedImp, c *campaign) (deal string, fits bool) {
	shown := imp.Banner
	if c.Creatives[0].Format == "video" {
		shown = imp.Video
	}
	t := c.Targeting
	if t == nil {
		t = &targeting{}
	}
	floor := imp.BidFloor
	for _, offered := range imp.PMP.Deals {
		if slices.Contains(t.Deals, offered.ID) {
			deal, floor = offered.ID, offered.BidFloor
		}
	}
	foreign := imp.FloorCur != "" && imp.FloorCur != c.Unit
	blocked := slices.Contains(r.BAdv, c.Advertiser) || slices.Contains(r.BCat, c.Creatives[0].Cat[0])
	switch {
	case shown == nil || *shown != pixels{c.size().w, c.size().h}:
	case !slices.Contains(r.Cur, c.Unit):
	case t.Geo != nil && !slices.Contains(t.Geo.Any, r.Device.Geo.Country):
	case deal == "" && (t.DealsOnly || imp.PMP.Private == 1):
	case blocked && s.fault != blind:
	case len(r.Seat) > 0 && !slices.Contains(r.Seat, c.Seat):
	case s.fault != floorless && floor > 0 && (foreign || floor*1e6 > float64(c.bidMicros())):
	case len(c.Caps) > 0 && s.seen[key(r.User.ID, c)] >= c.Caps[0].Max && s.fault != tireless:
	case s.books[c.ID].Free < impression(c.bidMicros()) && s.fault != oversells:
	default:
		return deal, true
	}
	return "", false
}

func key(user string, c *campaign) string { return user + " " + c.cid() }

func (s *standIn) offer(r asked, imp askedImp, c *campaign, deal string) object {
	h := &hold{of: c, user: r.User.ID, cost: impression(c.bidMicros()), gone: time.Now().Add(holdMS * time.Millisecond)}
	h.test = r.Test == 1 && s.fault != charges
	if !h.test && s.fault != oversells {
		s.move(h, -h.cost, h.cost)
	}
	if !h.test {
		s.seen[key(h.user, c)]++
	}
	s.holds = append(s.holds, h)
	at := func(kind string) string {
		return fmt.Sprintf("http://%s/n/%s/prebid-stand-in-%d-%d/${AUCTION_PRICE}", s.address, kind, len(s.holds)-1, check97(len(s.holds)-1))
	}
	b := object{
		"id": fmt.Sprint(len(s.holds)), "impid": imp.ID, "price": float64(c.bidMicros()) / 1e6, "cid": c.cid(),
		"crid": c.Creatives[0].ID, "adomain": c.Creatives[0].ADomain, "adm": c.Creatives[0].Markup, "mtype": 1,
		"nurl": at("win"), "burl": at("bill"), "lurl": at("loss"), "w": c.size().w, "h": c.size().h,
	}
	if imp.Video != nil {
		b["mtype"] = 2
	}
	if deal != "" {
		b["dealid"] = deal
	}
	if s.fault == speechless {
		delete(b, "crid")
	}
	return b
}

// check97 stands for the seal of a real token.
func check97(n int) int { return 1000 + (n+1)*31%97 }

func (s *standIn) move(h *hold, free, held int64) {
	s.books[h.of.ID].Free += free
	s.books[h.of.ID].Held += held
}

// giveBack ends a hold.
func (s *standIn) giveBack(h *hold, as holdState) {
	if !h.test && s.fault != oversells {
		s.move(h, h.cost, -h.cost)
	}
	h.state = as
	s.seen[key(h.user, h.of)]--
}

func (s *standIn) lapse() {
	for _, h := range s.holds {
		if (h.state == open || h.state == won) && time.Now().After(h.gone) && s.fault != keeps {
			s.giveBack(h, lapsed)
		}
	}
}

func (s *standIn) notice(w http.ResponseWriter, request *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lapse()
	h := s.find(request.PathValue("hold"))
	if h == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	switch request.PathValue("kind") {
	case "win":
		if h.state == open {
			h.state, h.gone = won, time.Now().Add(billingMS*time.Millisecond)
		}
	case "loss":
		if h.state == open {
			s.giveBack(h, released)
		}
	case "bill":
		s.bill(h, request.PathValue("price"))
	}
}

func (s *standIn) find(token string) *hold {
	token = strings.TrimPrefix(token, "prebid-stand-in-")
	number, seal, _ := strings.Cut(token, "-")
	n, err := strconv.Atoi(number)
	genuine := err == nil && n >= 0 && n < len(s.holds) && seal == fmt.Sprint(check97(n))
	switch {
	case genuine:
		return s.holds[n]
	case s.fault == trusts && len(s.holds) > 0:
		return s.holds[len(s.holds)-1]
	default:
		return nil
	}
}

func (s *standIn) bill(h *hold, price string) {
	b := s.books[h.of.ID]
	s.bills++
	cost := h.cost
	if value, err := micros(price); err == nil && value > 0 && (impression(value) <= h.cost || s.fault == believes) {
		cost = impression(value)
	}
	switch {
	case h.test || price == "AUDIT" || h.state == billed && s.fault != doubles || s.fault == forgets && s.bills%10 == 0:
	case h.state == open || h.state == won:
		s.giveBack(h, billed)
		s.seen[key(h.user, h.of)]++
		b.Settled += cost
		b.Free -= cost
	default:
		b.Late += cost
		b.Free -= cost
		h.state = billed
	}
}

func (s *standIn) tell(w http.ResponseWriter, _ *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lapse()
	all := make([]books, 0, len(campaigns))
	for _, c := range campaigns {
		all = append(all, *s.books[c.ID])
	}
	send(w, object{"budgets": all})
}
