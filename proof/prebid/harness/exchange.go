package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"text/template"
	"time"
)

// The real Prebid Server, with our bidders only.
type exchange struct {
	process *process
	url     string
	client  *http.Client
}

// endpoints are what the files of config/ leave open.
type endpoints struct {
	Auction, Admin int
	Weir, Crooked  string
}

// startExchange writes the folder that Prebid Server runs in, and starts it there. static is the folder of that name
// in its source, config ours.
func startExchange(work, program, static, config, weirURL, crookedURL string) (*exchange, error) {
	open := endpoints{Weir: weirURL, Crooked: crookedURL}
	var err error
	if open.Auction, err = freePort(); err != nil {
		return nil, err
	}
	if open.Admin, err = freePort(); err != nil {
		return nil, err
	}
	directory := filepath.Join(work, "exchange")
	if err := layOut(directory, static, config, open); err != nil {
		return nil, fmt.Errorf("the exchange's folder: %w", err)
	}
	process, err := start("exchange", work, directory, nil, program, "-alsologtostderr")
	if err != nil {
		return nil, err
	}
	x := &exchange{
		process: process,
		url:     fmt.Sprintf("http://127.0.0.1:%d", open.Auction),
		client:  &http.Client{Timeout: 2 * patientTMax * time.Millisecond, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	return x, x.awaitReady()
}

// layOut makes the folder: Prebid Server loads every bidder whose file it finds, so only ours are there.
func layOut(directory, static, config string, open endpoints) error {
	if err := os.RemoveAll(directory); err != nil {
		return err
	}
	for _, name := range []string{"bidder-params", "category-mapping"} {
		if err := os.CopyFS(filepath.Join(directory, "static", name), os.DirFS(filepath.Join(static, name))); err != nil {
			return err
		}
	}
	for _, folder := range []string{"stored", "static/bidder-info"} {
		if err := os.MkdirAll(filepath.Join(directory, folder), 0o755); err != nil {
			return err
		}
	}
	if err := fillIn(filepath.Join(config, "pbs.yaml"), filepath.Join(directory, "pbs.yaml"), open); err != nil {
		return err
	}
	bidders, err := filepath.Glob(filepath.Join(config, "bidder-info", "*.yaml"))
	if err != nil {
		return err
	}
	for _, bidder := range bidders {
		to := filepath.Join(directory, "static/bidder-info", filepath.Base(bidder))
		if err := fillIn(bidder, to, open); err != nil {
			return err
		}
	}
	return nil
}

func fillIn(from, to string, open endpoints) error {
	text, err := template.ParseFiles(from)
	if err != nil {
		return err
	}
	file, err := os.Create(to)
	if err != nil {
		return err
	}
	if err := text.Execute(file, open); err != nil {
		return err
	}
	return file.Close()
}

func (x *exchange) awaitReady() error {
	deadline := time.Now().Add(startMax)
	for time.Now().Before(deadline) {
		if answer, err := x.client.Get(x.url + "/status"); err == nil {
			answer.Body.Close()
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("Prebid Server does not answer /status after %v; see exchange.log in the run's folder", startMax)
}

// A bid as the exchange passes it on to the page.
type bid struct {
	ID      string      `json:"id"`
	ImpID   string      `json:"impid"`
	Price   json.Number `json:"price"`
	CID     string      `json:"cid"`
	CRID    string      `json:"crid"`
	DealID  string      `json:"dealid"`
	ADomain []string    `json:"adomain"`
	MType   int         `json:"mtype"`
	ADM     string      `json:"adm"`
	NURL    string      `json:"nurl"`
	BURL    string      `json:"burl"`
	LURL    string      `json:"lurl"`

	seat     string // the bidder
	currency string
	asked    time.Time // when the auction began
}

// fault is what the exchange has to say about a bidder.
type fault struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// outcome is the answer to one auction.
type outcome struct {
	bids    []bid
	faults  map[string][]fault // by bidder
	nonBids map[string][]int   // by bidder: why an imp got no bid
	calls   map[string][]call  // by bidder: what went over the wire
	took    map[string]int     // by bidder, ms
}

// of is the bid of a campaign.
func (o outcome) of(c *campaign) (bid, bool) {
	for _, b := range o.bids {
		if b.CID == c.cid() {
			return b, true
		}
	}
	return bid{}, false
}

type call struct {
	Status       int    `json:"status"`
	ResponseBody string `json:"responsebody"`
}

// auction plays one request through the exchange.
func (x *exchange) auction(request object) (outcome, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return outcome{}, err
	}
	answer, err := x.client.Post(x.url+"/openrtb2/auction", "application/json", bytes.NewReader(body))
	if err != nil {
		return outcome{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return outcome{}, err
	}
	if answer.StatusCode != http.StatusOK {
		return outcome{}, fmt.Errorf("the exchange answered %d: %.300s", answer.StatusCode, text)
	}
	return parseOutcome(text)
}

func parseOutcome(text []byte) (outcome, error) {
	var response struct {
		Cur     string `json:"cur"`
		SeatBid []struct {
			Seat string `json:"seat"`
			Bid  []bid  `json:"bid"`
		} `json:"seatbid"`
		Ext struct {
			Errors             map[string][]fault `json:"errors"`
			ResponseTimeMillis map[string]int     `json:"responsetimemillis"`
			Debug              struct {
				HTTPCalls map[string][]call `json:"httpcalls"`
			} `json:"debug"`
			Prebid struct {
				SeatNonBid []struct {
					Seat   string `json:"seat"`
					NonBid []struct {
						StatusCode int `json:"statuscode"`
					} `json:"nonbid"`
				} `json:"seatnonbid"`
			} `json:"prebid"`
		} `json:"ext"`
	}
	if err := json.Unmarshal(text, &response); err != nil {
		return outcome{}, fmt.Errorf("the exchange's answer: %w: %.300s", err, text)
	}
	o := outcome{
		faults:  response.Ext.Errors,
		calls:   response.Ext.Debug.HTTPCalls,
		took:    response.Ext.ResponseTimeMillis,
		nonBids: map[string][]int{},
	}
	for _, seat := range response.SeatBid {
		for _, b := range seat.Bid {
			b.seat, b.currency = seat.Seat, response.Cur
			o.bids = append(o.bids, b)
		}
	}
	for _, seat := range response.Ext.Prebid.SeatNonBid {
		for _, non := range seat.NonBid {
			o.nonBids[seat.Seat] = append(o.nonBids[seat.Seat], non.StatusCode)
		}
	}
	return o, nil
}
