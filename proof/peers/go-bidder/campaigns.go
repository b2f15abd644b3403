package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// campaign is a line of Weir's campaign file, as far as this bidder heeds it.
type campaign struct {
	ID         uint64     `json:"id"`
	Unit       string     `json:"unit"`
	Limit      amount     `json:"limit"`
	Bid        amount     `json:"bid"`
	Status     string     `json:"status"`
	Seat       string     `json:"seat"`
	Advertiser string     `json:"advertiser"`
	Caps       []freqCap  `json:"caps"`
	Targeting  targeting  `json:"targeting"`
	Creatives  []creative `json:"creatives"`
}

type freqCap struct {
	Per string `json:"per"`
	Max int    `json:"max"`
	Of  string `json:"of"`
}

// counter is a cap of a campaign or creative as the store counts it.
type counter struct {
	name    string // without the user
	max     int
	seconds int // 0: for ever
}

// seconds of the windows of frequency caps.
var seconds = map[string]int{"minute": 60, "hour": 3600, "day": 86400, "week": 604800, "lifetime": 0}

type targeting struct {
	Segments struct {
		lists
		All []string `json:"all"`
	} `json:"segments"`
	Geo        lists      `json:"geo"`
	Devices    deviceList `json:"devices"`
	OS         lists      `json:"os"`
	Supply     lists      `json:"supply"`
	Languages  lists      `json:"languages"`
	Domains    lists      `json:"domains"`
	Bundles    lists      `json:"bundles"`
	Categories lists      `json:"categories"`
	Deals      set        `json:"deals"`
	DealsOnly  bool       `json:"deals_only"`
}

type lists struct {
	Any  set `json:"any"`
	None set `json:"none"`
}

// set of texts; in the file a list.
type set map[string]struct{}

// UnmarshalJSON reads a list.
func (s *set) UnmarshalJSON(text []byte) error {
	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*s = make(set, len(list))
	for _, entry := range list {
		(*s)[entry] = struct{}{}
	}
	return nil
}

func (s set) has(value string) bool {
	_, there := s[value]
	return there
}

func (s set) hasAny(values []string) bool { return len(s) > 0 && slices.ContainsFunc(values, s.has) }

// admit is the rule of all lists: one of any, none of none.
func (l *lists) admit(values ...string) bool {
	return (len(l.Any) == 0 || l.Any.hasAny(values)) && !l.None.hasAny(values)
}

type deviceList struct {
	Any  []any `json:"any"`
	None []any `json:"none"`
	any  []int
	none []int
}

// deviceTypes are OpenRTB's numbers of the words.
var deviceTypes = map[string][]int{
	"mobile": {1, 4, 5}, "pc": {2}, "tv": {3}, "phone": {4}, "tablet": {5}, "connected": {6}, "settop": {7}, "ooh": {8},
}

func (d *deviceList) prepare() {
	numbers := func(list []any) (all []int) {
		for _, value := range list {
			switch value := value.(type) {
			case string:
				all = append(all, deviceTypes[value]...)
			case float64:
				all = append(all, int(value))
			}
		}
		return all
	}
	d.any, d.none = numbers(d.Any), numbers(d.None)
}

func (d *deviceList) admit(kind int) bool {
	return (len(d.any) == 0 || slices.Contains(d.any, kind)) && !slices.Contains(d.none, kind)
}

type creative struct {
	ID       string   `json:"id"`
	Format   string   `json:"format"`
	Sizes    sizes    `json:"sizes"`
	ADomain  []string `json:"adomain"`
	Cat      []string `json:"cat"`
	Attr     []int    `json:"attr"`
	Markup   string   `json:"markup"`
	Secure   *bool    `json:"secure"`
	Duration int      `json:"duration_s"`
}

// size of a place or an advertisement; 0 by 0 is any.
type size struct{ w, h int }

type sizes []size

// UnmarshalJSON reads ["300x250"] or "any".
func (s *sizes) UnmarshalJSON(text []byte) error {
	var list []string
	if string(text) == `"any"` {
		*s = sizes{{}}
		return nil
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, entry := range list {
		var one size
		if _, err := fmt.Sscanf(entry, "%dx%d", &one.w, &one.h); err != nil {
			return fmt.Errorf("size %q: %w", entry, err)
		}
		*s = append(*s, one)
	}
	return nil
}

// amount is money in micros; files write it as text or number.
type amount int64

// UnmarshalJSON reads "2.50" or 2.5.
func (a *amount) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*a = amount(math.Round(value * 1e6))
	return err
}

// cost of one impression at a price for a thousand, rounded up.
func (a amount) cost() int64 { return (int64(a) + 999) / 1000 }

// load reads the file; lines without a bid are plain budgets and are skipped.
func load(path string) ([]*campaign, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []*campaign
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for number := 1; lines.Scan(); number++ {
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		c := new(campaign)
		if err := json.Unmarshal(lines.Bytes(), c); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if c.Bid > 0 && c.Limit > 0 && (c.Status == "" || c.Status == "active") {
			if c.Unit == "" {
				c.Unit = "USD"
			}
			c.Targeting.Devices.prepare()
			for i := range c.Creatives {
				if len(c.Creatives[i].Sizes) == 0 {
					c.Creatives[i].Sizes = sizes{{}}
				}
			}
			all = append(all, c)
		}
	}
	return all, lines.Err()
}

// option is a creative of a campaign for a slot.
type option struct {
	*campaign
	*creative
	size     size
	counters []counter
}

// counters of a campaign's caps when it shows this creative.
func (c *campaign) counters(shown *creative) []counter {
	var all []counter
	for _, limit := range c.Caps {
		of := fmt.Sprint(c.ID)
		if limit.Of == "creative" {
			of += "/" + shown.ID
		}
		all = append(all, counter{"cap:" + limit.Per + ":" + of + ":", limit.Max, seconds[limit.Per]})
	}
	return all
}

// slot is what the index finds campaigns by.
type slot struct {
	country string
	format  string
	size    size
}

// elsewhere stands for countries that no campaign names.
const elsewhere = ""

// index has, for a country, format and size, all options, the highest bid first.
type index struct {
	bySlot    map[slot][]option
	countries map[string]bool
}

func newIndex(campaigns []*campaign) *index {
	x := &index{bySlot: map[slot][]option{}, countries: map[string]bool{elsewhere: true}}
	for _, c := range campaigns {
		for place := range c.Targeting.Geo.Any {
			x.countries[country(place)] = true
		}
	}
	for _, c := range campaigns {
		for _, where := range x.reach(c) {
			for i := range c.Creatives {
				shown := &c.Creatives[i]
				counters := c.counters(shown)
				for _, size := range shown.Sizes {
					key := slot{where, shown.Format, size}
					x.bySlot[key] = append(x.bySlot[key], option{c, shown, size, counters})
				}
			}
		}
	}
	for _, options := range x.bySlot {
		sort.SliceStable(options, func(i, j int) bool { return options[i].Bid > options[j].Bid })
	}
	return x
}

// reach lists the countries a campaign may bid in. Regions are looked at later.
func (x *index) reach(c *campaign) []string {
	seen := map[string]bool{}
	for place := range c.Targeting.Geo.Any {
		seen[country(place)] = true
	}
	if len(c.Targeting.Geo.Any) == 0 {
		seen = x.countries
	}
	var all []string
	for place := range seen {
		all = append(all, place)
	}
	return all
}

// country of USA or USA-CA.
func country(place string) string {
	name, _, _ := strings.Cut(place, "-")
	return name
}

// find returns the options of a slot.
func (x *index) find(where, format string, size size) []option {
	if !x.countries[where] {
		where = elsewhere
	}
	return x.bySlot[slot{where, format, size}]
}
