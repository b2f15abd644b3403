package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// A row of the verdict table: a bidder's answer, and what the exchange made of it when this was written.
type row struct {
	answer  string
	verdict string
	reply   func(http.ResponseWriter, offer)
}

// offer is what the crooked bidder reads of a request.
type offer struct {
	ID  string `json:"id"`
	Imp []struct {
		ID    string `json:"id"`
		TagID string `json:"tagid"`
	} `json:"imp"`
}

// The time that the exchange gives the bidder that is to be late, and a time that is certainly longer.
const (
	lateAnswer = "after `tmax`"
	lateTMax   = 500
	tooLong    = 900 * time.Millisecond
)

const rowFloor = 1.0

var rows = []row{
	{"204", "no bid", func(w http.ResponseWriter, _ offer) { w.WriteHeader(http.StatusNoContent) }},
	{"`{}`", "no bid", text(200, `{}`)},
	{"empty `seatbid`", "no bid", func(w http.ResponseWriter, o offer) { send(w, object{"id": o.ID, "seatbid": []object{}}) }},
	{"`nbr` 15", "no bid", func(w http.ResponseWriter, o offer) { send(w, object{"id": o.ID, "nbr": 15}) }},
	{"a sound bid", "accepted", altered(nil)},
	{"`gzip`", "accepted", func(w http.ResponseWriter, o offer) {
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		_ = json.NewEncoder(packed).Encode(response(o, nil))
		_ = packed.Close()
	}},
	{"unknown fields", "accepted", altered(func(r, b object) { r["novelty"], b["novelty"] = 1, object{"a": 2} })},
	{"`Connection: close`", "accepted", func(w http.ResponseWriter, o offer) {
		w.Header().Set("Connection", "close")
		send(w, response(o, nil))
	}},
	{"400", "error 4, non-bid 100", text(400, "")},
	{"503", "error 4, non-bid 100", text(503, "")},
	{"302 to a 400", "error 4, non-bid 100", func(w http.ResponseWriter, _ offer) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusFound)
	}},
	{"200, empty", "error 14", text(200, "")},
	{"200, HTML", "error 14", text(200, "<html>error</html>")},
	{"200, cut JSON", "error 14", text(200, `{"id":"1","seatbid":[{"bid":[{"id":`)},
	{"price is text", "error 14", altered(func(_, b object) { b["price"] = "2.5" })},
	{"price is NaN", "error 14", text(200, `{"id":"1","seatbid":[{"bid":[{"id":"1","impid":"1","price":NaN}]}]}`)},
	{lateAnswer, "error 1, non-bid 101", func(w http.ResponseWriter, o offer) {
		time.Sleep(tooLong)
		send(w, response(o, nil))
	}},
	{"connection closed", "error 999, non-bid 100", func(w http.ResponseWriter, _ offer) {
		if connection, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = connection.Close()
		}
	}},
	{"price 0", "error 999", altered(func(_, b object) { b["price"] = 0 })},
	{"price 0 with a deal", "accepted", altered(func(_, b object) { b["price"], b["dealid"] = 0, "d" })},
	{"price below 0", "error 999", altered(func(_, b object) { b["price"] = -1 })},
	{"price below the floor", "accepted", altered(func(_, b object) { b["price"] = rowFloor / 2 })},
	{"unknown deal", "accepted", altered(func(_, b object) { b["dealid"] = "nobody's" })},
	{"wrong `impid`", "accepted", altered(func(_, b object) { b["impid"] = "77" })},
	{"wrong `id` of the response", "accepted", altered(func(r, _ object) { r["id"] = "another" })},
	{"one bid id twice", "accepted", altered(func(r, b object) {
		r["seatbid"] = []object{{"bid": []object{b, b}}}
	})},
	{"no `crid`", "error 999", altered(func(_, b object) { delete(b, "crid") })},
	{"no `mtype`", "error 999", altered(func(_, b object) { delete(b, "mtype") })},
	{"`mtype` video for a banner", "accepted", altered(func(_, b object) { b["mtype"] = 2 })},
	{"no `cur`", "accepted", altered(func(r, _ object) { delete(r, "cur") })},
	{"`cur` JPY", "error 999", altered(func(r, _ object) { r["cur"] = "JPY" })},
	{"`cur` QQQ", "error 999", altered(func(r, _ object) { r["cur"] = "QQQ" })},
}

// response is a sound one, but for the change.
func response(o offer, change func(response, bid object)) object {
	b := object{
		"id": "b-1", "impid": o.Imp[0].ID, "price": 2.5, "crid": "c-1", "mtype": 1, "w": 300, "h": 250,
		"adm": "<p>advertisement</p>", "adomain": []string{"brand.example"},
	}
	r := object{"id": o.ID, "cur": "USD", "seatbid": []object{{"seat": "crooked", "bid": []object{b}}}}
	if change != nil {
		change(r, b)
	}
	return r
}

func altered(change func(response, bid object)) func(http.ResponseWriter, offer) {
	return func(w http.ResponseWriter, o offer) { send(w, response(o, change)) }
}

func text(status int, body string) func(http.ResponseWriter, offer) {
	return func(w http.ResponseWriter, _ offer) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func send(w http.ResponseWriter, value object) {
	body, err := json.Marshal(value)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// startCrooked starts the bidder that answers the row named by the imp's tagid, and returns its URL.
func startCrooked() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	routes := http.NewServeMux()
	routes.HandleFunc("/bid", func(w http.ResponseWriter, request *http.Request) {
		var o offer
		if err := readOffer(request, &o); err != nil || len(o.Imp) == 0 {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		for _, row := range rows {
			if row.answer == o.Imp[0].TagID {
				row.reply(w, o)
				return
			}
		}
		w.WriteHeader(http.StatusTeapot)
	})
	routes.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
	go func() { _ = http.Serve(listener, routes) }()
	return "http://" + listener.Addr().String() + "/bid", nil
}

// verdicts plays every row and returns the table as it came out.
func verdicts(c *check) string {
	table := new(bytes.Buffer)
	fmt.Fprintf(table, "| a bidder's answer | Prebid Server's verdict |\n| --- | --- |\n")
	for _, row := range rows {
		imp := with(with(banner("crooked", size{300, 250}), "tagid", row.answer), "bidfloor", rowFloor)
		tmax := patientTMax
		if row.answer == lateAnswer {
			tmax = lateTMax
		}
		o, err := c.exchange.auction(with(page(imp), "tmax", tmax))
		if err != nil {
			c.fail("%s: %w", row.answer, err)
			continue
		}
		found := o.verdict("crooked")
		c.expect(found == row.verdict, "%s: %s, expected %s: %q", row.answer, found, row.verdict, o.faults["crooked"])
		fmt.Fprintf(table, "| %s | %s |\n", row.answer, found)
	}
	c.note("%d rows", len(rows))
	return table.String()
}

// verdict on a bidder in words.
func (o outcome) verdict(bidder string) string {
	var words []string
	if len(o.bids) > 0 {
		words = append(words, "accepted")
	}
	for _, fault := range o.faults[bidder] {
		words = append(words, fmt.Sprintf("error %d", fault.Code))
	}
	for _, code := range o.nonBids[bidder] {
		words = append(words, fmt.Sprintf("non-bid %d", code))
	}
	if len(words) == 0 {
		return "no bid"
	}
	return strings.Join(words, ", ")
}

func readOffer(request *http.Request, o any) error {
	body, err := unpacked(request)
	if err != nil {
		return err
	}
	return json.NewDecoder(body).Decode(o)
}

// unpacked is the body of a request, which may be compressed.
func unpacked(request *http.Request) (io.Reader, error) {
	if request.Header.Get("Content-Encoding") == "gzip" {
		return gzip.NewReader(request.Body)
	}
	return request.Body, nil
}
