package main

import (
	"encoding/json"
	"fmt"
	"os"
)

// size of a place, pixels.
type size struct{ w, h int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.w, s.h) }

// MarshalJSON writes it as the campaign file has it.
func (s size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// campaign is a line of the node's campaign file, with the fields that this test needs.
type campaign struct {
	ID         uint64     `json:"id"`
	Name       string     `json:"name"`
	Unit       string     `json:"unit"`
	Limit      string     `json:"limit"`
	Bid        string     `json:"bid"`
	Seat       string     `json:"seat"`
	Advertiser string     `json:"advertiser"`
	Caps       []limit    `json:"caps,omitempty"`
	Targeting  *targeting `json:"targeting,omitempty"`
	Creatives  []creative `json:"creatives"`
}

// limit is a frequency cap.
type limit struct {
	Per string `json:"per"`
	Max int    `json:"max"`
}

type targeting struct {
	Geo       *lists   `json:"geo,omitempty"`
	Deals     []string `json:"deals,omitempty"`
	DealsOnly bool     `json:"deals_only,omitempty"`
}

type lists struct {
	Any  []string `json:"any,omitempty"`
	None []string `json:"none,omitempty"`
}

type creative struct {
	ID       string   `json:"id"`
	Format   string   `json:"format"`
	Sizes    []size   `json:"sizes"`
	ADomain  []string `json:"adomain"`
	Cat      []string `json:"cat,omitempty"`
	Markup   string   `json:"markup"`
	Secure   bool     `json:"secure"`
	Duration int      `json:"duration_s,omitempty"`
}

// The campaigns of the test. Each has a size of its own, so that a request says which ones it means.
var (
	ordinary   = simple(1, size{300, 250}, "50.00", "2.50")
	small      = simple(2, size{728, 90}, "0.01", "2.50") // four impressions
	cheap      = simple(3, size{320, 50}, "10.00", "1.10")
	dear       = simple(4, size{320, 50}, "10.00", "3.00")
	french     = simple(6, size{970, 250}, "10.00", "2.00")
	dealt      = simple(7, size{300, 600}, "10.00", "4.00")
	crowded    = simple(8, size{120, 600}, "0.30", "1.234567") // 242 impressions of 0.001235
	film       = simple(9, size{640, 480}, "10.00", "8.00")
	capped     = simple(10, size{468, 60}, "10.00", "2.00")
	forgotten  = simple(11, size{250, 250}, "0.005", "2.50") // two impressions
	campaigns  = []*campaign{ordinary, small, cheap, dear, french, dealt, crowded, film, capped, forgotten}
	categories = []string{"IAB9"}
)

const deal = "prebid-deal-1"

func init() {
	french.Targeting = &targeting{Geo: &lists{Any: []string{"FRA"}}}
	dealt.Targeting = &targeting{Deals: []string{deal}, DealsOnly: true}
	film.Creatives[0].Format = "video"
	film.Creatives[0].Duration = 15
	film.Creatives[0].Markup = `<VAST version="4.0"><Ad id="1"><Wrapper><VASTAdTagURI>` +
		`https://ads.brand9.example/vast.xml</VASTAdTagURI></Wrapper></Ad></VAST>`
	capped.Caps = []limit{{Per: "day", Max: 2}}
}

func simple(id uint64, s size, limit, bid string) *campaign {
	return &campaign{
		ID: id, Name: fmt.Sprintf("campaign %d", id), Unit: "USD", Limit: limit, Bid: bid,
		Seat: "seat-1", Advertiser: fmt.Sprintf("brand%d.example", id),
		Creatives: []creative{{
			ID: fmt.Sprintf("creative-%d", id), Format: "banner", Sizes: []size{s},
			ADomain: []string{fmt.Sprintf("brand%d.example", id)}, Cat: []string{"IAB9"}, Secure: true,
			Markup: fmt.Sprintf(`<a href="https://brand%d.example/">`+
				`<img src="https://cdn.brand%d.example/${AUCTION_ID}.png"></a>`, id, id),
		}},
	}
}

// size of its place.
func (c *campaign) size() size { return c.Creatives[0].Sizes[0] }

func (c *campaign) cid() string { return fmt.Sprint(c.ID) }

func (c *campaign) bidMicros() int64 { return mustMicros(c.Bid) }

func writeCampaigns(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(file)
	lines.SetEscapeHTML(false)
	for _, c := range campaigns {
		if err := lines.Encode(c); err != nil {
			return err
		}
	}
	return file.Close()
}
