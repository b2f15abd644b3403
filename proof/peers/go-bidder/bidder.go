package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// candidatesMax is how many campaigns are asked for money in one round trip, the dearest first.
const candidatesMax = 5

// margin is kept of tmax for the way back.
const margin = 5 * time.Millisecond

// bidder answers requests and notices.
type bidder struct {
	index     *index
	campaigns map[uint64]*campaign
	store     store
	public    string // URL in front of notices
}

func newBidder(campaigns []*campaign, store store, public string) *bidder {
	byID := make(map[uint64]*campaign, len(campaigns))
	for _, c := range campaigns {
		byID[c.ID] = c
	}
	return &bidder{newIndex(campaigns), byID, store, public}
}

func (b *bidder) routes() http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /openrtb2/bid", b.bid)
	routes.HandleFunc("GET /n/{kind}/{bid}", b.notice)
	routes.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	return routes
}

func (b *bidder) bid(w http.ResponseWriter, request *http.Request) {
	began := time.Now()
	r, err := read(request)
	if err != nil || r.ID == "" || len(r.Imp) == 0 {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	ctx := request.Context()
	if r.TMax > 0 {
		within, cancel := context.WithDeadline(ctx, began.Add(time.Duration(r.TMax)*time.Millisecond-margin))
		defer cancel()
		ctx = within
	}
	response, err := b.answer(ctx, r)
	if err != nil || response == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body, err := json.Marshal(response)
	if err != nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

func read(request *http.Request) (*bidRequest, error) {
	body := io.Reader(request.Body)
	if request.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		body = unpacked
	}
	r := new(bidRequest)
	return r, json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(r)
}

// answer bids on every imp that a campaign with money fits; nil: on none.
func (b *bidder) answer(ctx context.Context, r *bidRequest) (*bidResponse, error) {
	user, a := userOf(r), newAsked(r)
	var asks []ask
	var imps []*imp
	for i := range r.Imp {
		if candidates := b.candidates(a, &r.Imp[i]); len(candidates) > 0 {
			asks = append(asks, ask{strconv.FormatUint(rand.Uint64(), 36), user, candidates})
			imps = append(imps, &r.Imp[i])
		}
	}
	if len(asks) == 0 {
		return nil, nil
	}
	paid := make([]int, len(asks))
	if r.Test != 1 { // a test pays nothing
		var err error
		if paid, err = b.store.reserve(ctx, asks); err != nil {
			return nil, err
		}
	}
	response := &bidResponse{ID: r.ID, Cur: "USD"}
	for i, a := range asks {
		if paid[i] >= 0 {
			winner := a.candidates[paid[i]]
			response.add(winner.Seat, b.offer(a, imps[i], winner))
		}
	}
	if len(response.SeatBid) == 0 {
		return nil, nil
	}
	return response, nil
}

func (r *bidResponse) add(seat string, one bid) {
	for i := range r.SeatBid {
		if r.SeatBid[i].Seat == seat {
			r.SeatBid[i].Bid = append(r.SeatBid[i].Bid, one)
			return
		}
	}
	r.SeatBid = append(r.SeatBid, seatBid{seat, []bid{one}})
}

// types are OpenRTB's numbers of markup.
var types = map[string]int{"banner": 1, "video": 2, "audio": 3, "native": 4}

func (b *bidder) offer(a ask, imp *imp, o option) bid {
	query := fmt.Sprintf("/%s?c=%d&m=%d&u=%s&r=%s&p=${AUCTION_PRICE}",
		a.bid, o.campaign.ID, o.Bid.cost(), url.QueryEscape(a.user), url.QueryEscape(o.creative.ID))
	offered := bid{
		ID: a.bid, ImpID: imp.ID, Price: float64(o.Bid) / 1e6, AdM: o.Markup,
		NURL: b.public + "/n/win" + query, BURL: b.public + "/n/bill" + query, LURL: b.public + "/n/loss" + query,
		ADomain: o.ADomain, CID: strconv.FormatUint(o.campaign.ID, 10), CrID: o.creative.ID, Cat: o.Cat,
		W: o.size.w, H: o.size.h, MType: types[o.Format],
	}
	if deal := o.deal(imp); deal != nil {
		offered.DealID = deal.ID
	}
	return offered
}

// asked is what the rules look at, brought into shape once per request.
type asked struct {
	*bidRequest
	place           *place
	country, region string
	os, language    string
	segments        []string
	takesUSD        bool
}

func newAsked(r *bidRequest) *asked {
	a := &asked{
		bidRequest: r, place: r.Site,
		country: r.Device.Geo.Country, region: r.Device.Geo.Country + "-" + r.Device.Geo.Region,
		os: strings.ToLower(r.Device.OS), language: language(r.Device.Language),
		takesUSD: len(r.Cur) == 0 || slices.Contains(r.Cur, "USD"),
	}
	if a.place == nil {
		a.place = r.App
	}
	if a.place == nil {
		a.place = &place{}
	}
	for _, data := range r.User.Data {
		for _, segment := range data.Segment {
			a.segments = append(a.segments, segment.ID)
		}
	}
	return a
}

// candidates for an imp, the dearest first.
func (b *bidder) candidates(r *asked, imp *imp) []option {
	found := make([]option, 0, candidatesMax)
	for _, format := range formats(imp) {
		for _, size := range sizesOf(imp, format) {
			found = b.search(r, imp, b.index.find(r.country, format, size), found)
		}
	}
	return found
}

// search adds the options that fit, until enough dearer ones are found or the rest is below the floor.
func (b *bidder) search(r *asked, imp *imp, options, found []option) []option {
	for i := range options {
		o := &options[i]
		full := len(found) == candidatesMax
		if full && o.Bid <= found[len(found)-1].Bid || imp.PMP == nil && belowFloor(o, imp.BidFloor) {
			break
		}
		if !o.fits(r, imp) {
			continue
		}
		if full {
			found = found[:candidatesMax-1]
		}
		at, _ := slices.BinarySearchFunc(found, *o, func(a, b option) int { return cmp.Compare(b.Bid, a.Bid) })
		found = slices.Insert(found, at, *o)
	}
	return found
}

func belowFloor(o *option, floor number) bool { return float64(floor)*1e6 > float64(o.Bid) }

func formats(imp *imp) (all []string) {
	if imp.Banner != nil {
		all = append(all, "banner")
	}
	if imp.Video != nil {
		all = append(all, "video")
	}
	if imp.Audio != nil {
		all = append(all, "audio")
	}
	if imp.Native != nil {
		all = append(all, "native")
	}
	return all
}

// sizesOf are the sizes an imp takes; the last one is any, for creatives that fit all.
func sizesOf(imp *imp, format string) (all []size) {
	add := func(w, h number) {
		if one := (size{int(w), int(h)}); one != (size{}) && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	switch format {
	case "banner":
		for _, one := range imp.Banner.Format {
			add(one.W, one.H)
		}
		add(imp.Banner.W, imp.Banner.H)
	case "video":
		add(imp.Video.W, imp.Video.H)
	}
	return append(all, size{})
}

// fits are the rules that the index does not know.
func (o *option) fits(r *asked, imp *imp) bool {
	t := &o.Targeting
	floor, currency := imp.BidFloor, imp.BidFloorCur
	deal := o.deal(imp)
	if deal != nil {
		floor, currency = deal.BidFloor, deal.BidFloorCur
	}
	switch {
	case floor > 0 && (currency != "" && currency != "USD" || belowFloor(o, floor)):
	case o.Unit != "USD" || !r.takesUSD:
	case deal == nil && (t.DealsOnly || imp.PMP != nil && imp.PMP.PrivateAuction == 1):
	case !t.Devices.admit(int(r.Device.DeviceType)):
	case !t.Geo.admit(r.country, r.region):
	case !t.OS.admit(r.os):
	case !t.Languages.admit(r.language):
	case len(r.WSeat) > 0 && !slices.Contains(r.WSeat, o.Seat) || slices.Contains(r.BSeat, o.Seat):
	case !t.Supply.admit(r.place.ID):
	case !o.wants(r.place):
	case !t.Categories.admit(r.place.Cat...):
	case !o.segments(r.segments):
	case slices.ContainsFunc(o.ADomain, func(domain string) bool { return slices.Contains(r.BAdv, domain) }):
	case slices.ContainsFunc(o.Cat, func(cat string) bool { return slices.Contains(r.BCat, cat) }):
	case imp.Secure != nil && *imp.Secure == 1 && o.Secure != nil && !*o.Secure:
	case !o.shows(imp):
	default:
		return true
	}
	return false
}

// deal of the imp that the campaign may use.
func (o *option) deal(imp *imp) *deal {
	if imp.PMP == nil || len(o.Targeting.Deals) == 0 {
		return nil
	}
	for i := range imp.PMP.Deals {
		if o.Targeting.Deals.has(imp.PMP.Deals[i].ID) {
			return &imp.PMP.Deals[i]
		}
	}
	return nil
}

// wants: domains and bundles are one question, for a place is a site or an app.
func (o *option) wants(p *place) bool {
	domains, bundles := &o.Targeting.Domains, &o.Targeting.Bundles
	everywhere := len(domains.Any) == 0 && len(bundles.Any) == 0
	wanted := everywhere || domains.Any.has(p.Domain) || bundles.Any.has(p.Bundle)
	return wanted && !domains.None.has(p.Domain) && !bundles.None.has(p.Bundle)
}

func (o *option) segments(has []string) bool {
	rules := &o.Targeting.Segments
	missing := slices.ContainsFunc(rules.All, func(segment string) bool { return !slices.Contains(has, segment) })
	return !missing && rules.admit(has...)
}

// shows: attributes that are blocked, and how long it plays.
func (o *option) shows(imp *imp) bool {
	var blocked []float64
	switch {
	case o.Format == "banner":
		blocked = imp.Banner.BAttr
	case o.Format == "native":
		blocked = imp.Native.BAttr
	default:
		player := imp.Video
		if o.Format == "audio" {
			player = imp.Audio
		}
		seconds := float64(o.Duration)
		if seconds < player.MinDuration || player.MaxDuration > 0 && seconds > player.MaxDuration {
			return false
		}
		blocked = player.BAttr
	}
	return !slices.ContainsFunc(o.Attr, func(attr int) bool { return slices.Contains(blocked, float64(attr)) })
}

func language(tag string) string {
	primary, _, _ := strings.Cut(tag, "-")
	return strings.ToLower(primary)
}

func userOf(r *bidRequest) string {
	for _, id := range []string{r.User.BuyerUID, r.User.ID, r.Device.IFA} {
		if id != "" {
			return id
		}
	}
	return "nobody"
}

// notice books, or gives money back. A win says nothing new.
func (b *bidder) notice(w http.ResponseWriter, request *http.Request) {
	query := request.URL.Query()
	id, err := strconv.ParseUint(query.Get("c"), 10, 64)
	cost, err2 := strconv.ParseInt(query.Get("m"), 10, 64)
	c := b.campaigns[id]
	if err != nil || err2 != nil || c == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	h := hold{request.PathValue("bid"), id, cost, query.Get("u")}
	switch request.PathValue("kind") {
	case "bill":
		shown := creative{ID: query.Get("r")}
		err = b.store.settle(request.Context(), h, c.counters(&shown))
	case "loss":
		err = b.store.release(request.Context(), h)
	}
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
