package weir

import (
	"fmt"
	"math"
	"strings"
)

// AmountMax is the largest amount that may be asked for, in base units: a node answers [BadAmount] above it.
const AmountMax = 1_000_000_000_000_000

// Unit is what an amount counts: a currency at a scale, or whole items. The zero Unit is "whatever the budget counts in".
//
// The text of a unit is three capital letters of ISO 4217 for millionths of that currency ("USD"), the same with an "n" for
// billionths ("USDn"), or "count".
type Unit struct {
	code [4]byte
}

// ItemUnit is the unit of whole items: keys in stock, tokens, impressions.
var ItemUnit = Unit{[4]byte{'C', 'O', 'U', 'N'}}

// ParseUnit reads "USD", "USDn" or "count". Whether a currency exists is left to the node.
func ParseUnit(text string) (Unit, error) {
	if text == "count" {
		return ItemUnit, nil
	}
	scaled := len(text) == 4 && text[3] == 'n'
	if len(text) != 3 && !scaled {
		return Unit{}, unitError(text)
	}
	var unit Unit
	copy(unit.code[:], text)
	for _, letter := range unit.code[:3] {
		if letter < 'A' || letter > 'Z' {
			return Unit{}, unitError(text)
		}
	}
	return unit, nil
}

func unitError(text string) error {
	return fmt.Errorf("weir: unit %q: expected a currency such as \"USD\", the same in billionths such as \"USDn\", or \"count\"",
		shorten(text))
}

// Decimals is how many decimals an amount of the unit can have: 6, 9 or none.
func (u Unit) Decimals() int {
	switch {
	case u == Unit{} || u == ItemUnit:
		return 0
	case u.code[3] == 'n':
		return 9
	default:
		return 6
	}
}

// String is the text that [ParseUnit] reads.
func (u Unit) String() string {
	switch u {
	case Unit{}:
		return "budget's unit"
	case ItemUnit:
		return "count"
	}
	return strings.TrimRight(string(u.code[:]), "\x00")
}

// Amount is an exact sum of a unit. Amounts are made from decimal text or from base units, never from a float.
//
// An amount that was made from a text that is none is invalid: an ask or a settlement with it gets [BadAmount] without being
// sent, and [Amount.Err] says what is wrong with it.
type Amount struct {
	base int64
	unit Unit
	// What is wrong; nil in an amount that can be used.
	err error
}

// USD is an amount of dollars from decimal text, kept in millionths: USD("0.15").
func USD(text string) Amount { return Money(text, "USD") }

// USDn is an amount of dollars from decimal text, kept in billionths, for budgets whose unit is "USDn": USDn("0.000005400").
func USDn(text string) Amount { return Money(text, "USDn") }

// Items is a number of whole things, for budgets that count.
func Items(n int64) Amount { return Amount{base: n, unit: ItemUnit} }

// Money is an amount of any unit from decimal text: Money("12.50", "EUR").
func Money(text, unit string) Amount {
	u, err := ParseUnit(unit)
	if err != nil {
		return Amount{err: err}
	}
	amount, err := ParseAmount(text, u)
	if err != nil {
		return Amount{err: err}
	}
	return amount
}

// BaseUnits is an amount of base units: millionths or billionths of a currency, or whole items. With the zero [Unit] it counts
// in whatever the budget counts in.
func BaseUnits(n int64, unit Unit) Amount { return Amount{base: n, unit: unit} }

// ParseAmount reads exact decimal text: an optional "-", digits, and as many decimals as the unit has at most. There is no
// exponent, no separator, no space and no rounding: "0.0000001" is no amount of USD.
func ParseAmount(text string, unit Unit) (Amount, error) {
	rest, negative := strings.CutPrefix(text, "-")
	whole, decimals, pointed := strings.Cut(rest, ".")
	most := unit.Decimals()
	if whole == "" || !isDigits(whole) || (pointed && (decimals == "" || !isDigits(decimals))) {
		return Amount{}, fmt.Errorf("weir: amount %q: expected digits with at most %d decimals, such as \"0.15\"", shorten(text), most)
	}
	if len(decimals) > most {
		return Amount{}, fmt.Errorf("weir: amount %q: found %d decimals, expected at most %d for %s", shorten(text), len(decimals), most, unit)
	}
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	magnitude, fits := digitsOf(whole+decimals, most-len(decimals), limit)
	if !fits {
		return Amount{}, fmt.Errorf("weir: amount %q: too large, expected at most %s", shorten(text), BaseUnits(math.MaxInt64, unit).Text())
	}
	base := int64(magnitude)
	if negative {
		base = -base
	}
	return Amount{base: base, unit: unit}, nil
}

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}

// digitsOf is the number that the digits and so many zeros after them are, if it is at most the limit.
func digitsOf(digits string, zeros int, limit uint64) (uint64, bool) {
	var n uint64
	for i := range len(digits) + zeros {
		digit := uint64(0)
		if i < len(digits) {
			digit = uint64(digits[i] - '0')
		}
		if n > (limit-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// Err says why the amount cannot be used; nil where it can.
func (a Amount) Err() error { return a.err }

// Base is the amount in base units: millionths or billionths of a currency, or whole items.
func (a Amount) Base() int64 { return a.base }

// Unit is what the amount counts.
func (a Amount) Unit() Unit { return a.unit }

// Text is the shortest decimal text that reads back as the same amount; a currency has at least two decimals.
func (a Amount) Text() string {
	sign, magnitude := "", uint64(a.base)
	if a.base < 0 {
		sign, magnitude = "-", -magnitude
	}
	decimals := a.unit.Decimals()
	if decimals == 0 {
		return fmt.Sprintf("%s%d", sign, magnitude)
	}
	scale := uint64(math.Pow10(decimals))
	text := fmt.Sprintf("%s%d.%0*d", sign, magnitude/scale, decimals, magnitude%scale)
	for len(text) > 0 && text[len(text)-1] == '0' && text[len(text)-3] != '.' {
		text = text[:len(text)-1]
	}
	return text
}

// String is the text with the unit behind it, for people.
func (a Amount) String() string {
	if a.err != nil {
		return "no amount"
	}
	return a.Text() + " " + a.unit.String()
}

// shorten keeps a stranger's text small in an error.
func shorten(text string) string {
	if len(text) <= 32 {
		return text
	}
	return text[:32] + "..."
}
