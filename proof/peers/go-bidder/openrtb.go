package main

import (
	"strconv"
	"strings"
)

// The parts of OpenRTB 2.6 that this bidder reads and writes. Numbers of requests are floats, because exchanges send
// some whole numbers as 2.0.

// number is one that exchanges also send in quotes.
type number float64

// UnmarshalJSON reads 2.5 or "2.5".
func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	value, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*n = number(value)
	return err
}

type bidRequest struct {
	ID     string   `json:"id"`
	Imp    []imp    `json:"imp"`
	Site   *place   `json:"site"`
	App    *place   `json:"app"`
	Device device   `json:"device"`
	User   user     `json:"user"`
	Test   float64  `json:"test"`
	TMax   float64  `json:"tmax"`
	Cur    []string `json:"cur"`
	WSeat  []string `json:"wseat"`
	BSeat  []string `json:"bseat"`
	BCat   []string `json:"bcat"`
	BAdv   []string `json:"badv"`
}

type imp struct {
	ID          string   `json:"id"`
	Banner      *banner  `json:"banner"`
	Video       *video   `json:"video"`
	Audio       *video   `json:"audio"`
	Native      *native  `json:"native"`
	BidFloor    number   `json:"bidfloor"`
	BidFloorCur string   `json:"bidfloorcur"`
	Secure      *float64 `json:"secure"`
	PMP         *pmp     `json:"pmp"`
}

type banner struct {
	W      number    `json:"w"`
	H      number    `json:"h"`
	Format []format  `json:"format"`
	BAttr  []float64 `json:"battr"`
}

type format struct {
	W number `json:"w"`
	H number `json:"h"`
}

type video struct {
	W           number    `json:"w"`
	H           number    `json:"h"`
	MinDuration float64   `json:"minduration"`
	MaxDuration float64   `json:"maxduration"`
	BAttr       []float64 `json:"battr"`
}

type native struct {
	BAttr []float64 `json:"battr"`
}

type pmp struct {
	PrivateAuction float64 `json:"private_auction"`
	Deals          []deal  `json:"deals"`
}

type deal struct {
	ID          string   `json:"id"`
	BidFloor    number   `json:"bidfloor"`
	BidFloorCur string   `json:"bidfloorcur"`
	WSeat       []string `json:"wseat"`
}

type place struct {
	ID        string   `json:"id"`
	Domain    string   `json:"domain"`
	Bundle    string   `json:"bundle"`
	Cat       []string `json:"cat"`
	Publisher struct {
		Domain string `json:"domain"`
	} `json:"publisher"`
}

type device struct {
	OS         string  `json:"os"`
	Language   string  `json:"language"`
	DeviceType float64 `json:"devicetype"`
	IFA        string  `json:"ifa"`
	Geo        geo     `json:"geo"`
}

type geo struct {
	Country string `json:"country"`
	Region  string `json:"region"`
}

type user struct {
	ID       string `json:"id"`
	BuyerUID string `json:"buyeruid"`
	Data     []struct {
		Segment []struct {
			ID string `json:"id"`
		} `json:"segment"`
	} `json:"data"`
}

type bidResponse struct {
	ID      string    `json:"id"`
	Cur     string    `json:"cur"`
	SeatBid []seatBid `json:"seatbid"`
}

type seatBid struct {
	Seat string `json:"seat,omitempty"`
	Bid  []bid  `json:"bid"`
}

type bid struct {
	ID      string   `json:"id"`
	ImpID   string   `json:"impid"`
	Price   float64  `json:"price"`
	AdM     string   `json:"adm"`
	NURL    string   `json:"nurl"`
	BURL    string   `json:"burl"`
	LURL    string   `json:"lurl"`
	ADomain []string `json:"adomain"`
	CID     string   `json:"cid"`
	CrID    string   `json:"crid"`
	Cat     []string `json:"cat,omitempty"`
	DealID  string   `json:"dealid,omitempty"`
	W       int      `json:"w,omitempty"`
	H       int      `json:"h,omitempty"`
	MType   int      `json:"mtype"`
}
