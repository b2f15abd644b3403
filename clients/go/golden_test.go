package weir

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// golden is one vector of schema/golden.
type golden struct {
	frame  []byte
	fields map[string]json.RawMessage
}

func readGolden(t testing.TB, name string) golden {
	t.Helper()
	folder := filepath.Join("..", "..", "schema", "golden")
	text, err := os.ReadFile(filepath.Join(folder, name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			bytes, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
			if err != nil {
				t.Fatal(err)
			}
			g.frame = append(g.frame, bytes...)
		}
	}
	text, err = os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var whole struct{ Fields map[string]json.RawMessage }
	if err := json.Unmarshal(text, &whole); err != nil {
		t.Fatal(err)
	}
	g.fields = whole.Fields
	return g
}

func (g golden) get(t testing.TB, name string, to any) {
	t.Helper()
	if err := json.Unmarshal(g.fields[name], to); err != nil {
		t.Fatalf("field %s: %v", name, err)
	}
}

// version is the version that the vector was written with.
func (g golden) version() uint16 { return little.Uint16(g.frame[12:]) }

func unhex(t testing.TB, text string) (bytes []byte) {
	t.Helper()
	bytes, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func same(t testing.TB, found, expected []byte) {
	t.Helper()
	if !bytes.Equal(found, expected) {
		t.Fatalf("found\n%x, expected\n%x", found, expected)
	}
}

func TestGoldenHello(t *testing.T) {
	g := readGolden(t, "hello")
	var h hello
	var auth string
	g.get(t, "versionMin", &h.min)
	g.get(t, "versionMax", &h.max)
	g.get(t, "clientId", &h.clientID)
	g.get(t, "name", &h.name)
	g.get(t, "auth", &auth)
	h.auth = string(unhex(t, auth))
	same(t, h.append(nil, g.version()), g.frame)
}

func TestGoldenDecide(t *testing.T) {
	g := readGolden(t, "decide")
	var frame uint64
	var flags uint8
	var asks []struct {
		Amount                      int64
		BudgetID, RequestID, UserID uint64
		Pod                         uint16
		Unit                        string
	}
	g.get(t, "frame", &frame)
	g.get(t, "flags", &flags)
	g.get(t, "asks", &asks)
	bytes := beginDecide(nil, flags, g.version())
	for _, a := range asks {
		bytes = appendAsk(bytes, a.RequestID, a.BudgetID, a.Amount, a.UserID, Unit{[4]byte(unhex(t, a.Unit))}, a.Pod)
	}
	finish(bytes, frame, asksAt, len(asks))
	same(t, bytes, g.frame)
}

func TestGoldenResolve(t *testing.T) {
	g := readGolden(t, "resolve")
	var frame uint64
	var resolves []struct {
		Action, Token string
		Amount        int64
		RequestID     uint64
	}
	g.get(t, "frame", &frame)
	g.get(t, "resolves", &resolves)
	bytes := beginResolve(nil, g.version())
	for _, r := range resolves {
		action := map[string]uint8{"confirm": actionConfirm, "settle": actionSettle, "release": actionRelease}[r.Action]
		token := [tokenLen]byte(unhex(t, r.Token))
		bytes = appendResolve(bytes, &token, r.Amount, action, r.RequestID)
	}
	finish(bytes, frame, resolvesAt, len(resolves))
	same(t, bytes, g.frame)
}

func TestGoldenPing(t *testing.T) {
	g := readGolden(t, "ping")
	var frame uint64
	g.get(t, "frame", &frame)
	same(t, appendPing(nil, frame, g.version()), g.frame)
}

func parsed(t testing.TB, g golden) message {
	t.Helper()
	length, err := frameLen(g.frame, 1<<16)
	if err != nil || length != len(g.frame) {
		t.Fatalf("length %d, %v, expected %d", length, err, len(g.frame))
	}
	m, err := parseMessage(g.frame)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGoldenWelcome(t *testing.T) {
	g := readGolden(t, "welcome")
	m := parsed(t, g)
	var e welcome
	g.get(t, "version", &e.version)
	g.get(t, "node", &e.node)
	g.get(t, "run", &e.run)
	g.get(t, "batchMax", &e.batchMax)
	g.get(t, "worker", &e.worker)
	g.get(t, "frameMax", &e.frameMax)
	g.get(t, "holdMs", &e.holdMs)
	g.get(t, "billingMs", &e.billingMs)
	g.get(t, "nowMs", &e.nowMs)
	if found := m.welcome(); m.template != idWelcome || found != e {
		t.Fatalf("found %+v, expected %+v", found, e)
	}
}

func TestGoldenDecided(t *testing.T) {
	g := readGolden(t, "decided")
	m := parsed(t, g)
	var frame uint64
	var answers []struct{ Token, Verdict string }
	g.get(t, "frame", &frame)
	g.get(t, "answers", &answers)
	found, err := m.group(decisionLen)
	if err != nil || m.number() != frame || found.count != len(answers) {
		t.Fatalf("frame %d, %d answers, %v", m.number(), found.count, err)
	}
	for i, a := range answers {
		same(t, found.at(i)[:tokenLen], unhex(t, a.Token))
		if v := Verdict(found.at(i)[tokenLen]); v.String() != a.Verdict {
			t.Errorf("found %s, expected %s", v, a.Verdict)
		}
	}
}

func TestGoldenResolved(t *testing.T) {
	g := readGolden(t, "resolved")
	m := parsed(t, g)
	var answers []struct {
		Flags   uint8
		Verdict string
	}
	g.get(t, "answers", &answers)
	found, err := m.group(resolvedLen)
	if err != nil || found.count != len(answers) {
		t.Fatalf("%d answers, %v", found.count, err)
	}
	for i, a := range answers {
		if e := found.at(i); Verdict(e[0]).String() != a.Verdict || e[1] != a.Flags {
			t.Errorf("found %v, expected %v", e, a)
		}
	}
}

func TestGoldenRefused(t *testing.T) {
	g := readGolden(t, "refused")
	m := parsed(t, g)
	var frame uint64
	var detail, why string
	g.get(t, "frame", &frame)
	g.get(t, "detail", &detail)
	g.get(t, "reason", &why)
	r, err := m.refusal()
	if err != nil || r.frame != frame || r.detail != detail || r.reason.String() != why {
		t.Fatalf("found %+v, %v", r, err)
	}
}

func TestGoldenPong(t *testing.T) {
	g := readGolden(t, "pong")
	m := parsed(t, g)
	var frame uint64
	if g.get(t, "frame", &frame); m.number() != frame || m.template != idPong {
		t.Fatalf("found %d", m.number())
	}
}

func TestGoldenFind(t *testing.T) {
	g := readGolden(t, "find")
	var frame uint64
	var handle string
	g.get(t, "frame", &frame)
	g.get(t, "handle", &handle)
	bytes := appendFind(nil, handle, g.version())
	little.PutUint64(bytes[headerLen:], frame)
	same(t, bytes, g.frame)
}

func TestGoldenFound(t *testing.T) {
	g := readGolden(t, "found")
	m := parsed(t, g)
	var frame, budget uint64
	var unit, verdict string
	g.get(t, "frame", &frame)
	g.get(t, "budgetId", &budget)
	g.get(t, "unit", &unit)
	g.get(t, "verdict", &verdict)
	l := &lookup{done: make(chan struct{})}
	l.answer(&m)
	if m.number() != frame || l.verdict.String() != verdict || l.budget.ID != budget {
		t.Fatalf("found %+v", l)
	}
	same(t, l.budget.Unit.code[:], unhex(t, unit))
}

func TestGoldenExtend(t *testing.T) {
	g := readGolden(t, "extend")
	var frame uint64
	var holds []struct {
		Token     string
		ConfirmMs uint32
	}
	g.get(t, "frame", &frame)
	g.get(t, "holds", &holds)
	var bytes []byte
	for i, hold := range holds {
		one := appendExtend(nil, (*[tokenLen]byte)(unhex(t, hold.Token)), hold.ConfirmMs, g.version())
		if i > 0 {
			one = one[resolvesAt:]
		}
		bytes = append(bytes, one...)
	}
	finish(bytes, frame, resolvesAt, len(holds))
	same(t, bytes, g.frame)
}

func TestGoldenExtended(t *testing.T) {
	g := readGolden(t, "extended")
	m := parsed(t, g)
	var answers []struct {
		Verdict    string
		Flags      uint8
		DeadlineMs uint64
	}
	g.get(t, "answers", &answers)
	found, err := m.group(extendedLen)
	if err != nil || found.count != len(answers) {
		t.Fatalf("%d answers, %v", found.count, err)
	}
	for i, a := range answers {
		e := found.at(i)
		if Verdict(e[0]).String() != a.Verdict || e[1] != a.Flags || little.Uint64(e[resolvedLen:]) != a.DeadlineMs {
			t.Errorf("found %v, expected %v", e, a)
		}
	}
}

// FuzzDecode: whatever comes from a node is read or refused, and never more than what came is looked at.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"welcome", "decided", "resolved", "extended", "refused", "pong", "found", "hello", "decide", "books"} {
		frame := readGolden(f, name).frame
		f.Add(frame)
		for _, at := range []int{0, 4, 6, 8, 10, len(frame) - 1, len(frame) / 2} {
			broken := bytes.Clone(frame)
			broken[at] ^= 0xff
			f.Add(broken)
			f.Add(frame[:at])
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if length, err := frameLen(frame, 1<<20); err == nil && length != 0 && length < headerLen {
			t.Fatalf("a frame of %d bytes", length)
		}
		m, err := parseMessage(frame)
		if _, known := rootLens[m.template]; err != nil || !known {
			return
		}
		switch m.template {
		case idWelcome:
			_ = m.welcome()
			return
		case idRefused:
			_, _ = m.refusal()
		case idFound:
			(&lookup{done: make(chan struct{})}).answer(&m)
		}
		_ = m.number()
		for _, least := range []int{decisionLen, resolvedLen, extendedLen} {
			if g, err := m.group(least); err == nil {
				for i := range g.count {
					_ = g.at(i)[least-1]
				}
			}
		}
	})
}

// FuzzAmount: what is read is printed and read again as the same, and nothing is rounded.
func FuzzAmount(f *testing.F) {
	for _, text := range []string{"0", "0.15", "-1.5", "9223372036854.775807", "-9223372036854.775808", "9223372036854.775808", "1e3", "",
		".", "1.", ".5", "+1", "0.0000001", "00", "1_0", "١", "1,5", strings.Repeat("9", 40)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, unit := range []string{"USD", "USDn", "count"} {
			a := Money(text, unit)
			if a.Err() != nil {
				continue
			}
			again := Money(a.Text(), unit)
			if again.Err() != nil || again.Base() != a.Base() {
				t.Fatalf("%q is %d, printed %q, read again %d (%v)", text, a.Base(), a.Text(), again.Base(), again.Err())
			}
		}
	})
}

func TestAmountsAreExact(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		base       int64
		printed    string
	}{
		{"0.15", "USD", 150_000, "0.15"}, {"1000.00", "EUR", 1_000_000_000, "1000.00"}, {"0.000005400", "USDn", 5_400, "0.0000054"},
		{"12", "count", 12, "12"}, {"-9223372036854.775808", "USD", math.MinInt64, "-9223372036854.775808"},
		{"9223372036.854775807", "USDn", math.MaxInt64, "9223372036.854775807"}, {"7", "USDn", 7_000_000_000, "7.00"},
	} {
		a := Money(c.text, c.unit)
		if a.Err() != nil || a.Base() != c.base || a.Text() != c.printed {
			t.Errorf("%s %s is %d, %q (%v)", c.text, c.unit, a.Base(), a.Text(), a.Err())
		}
	}
	for _, c := range [][2]string{{"0.0000001", "USD"}, {"0.0000000001", "USDn"}, {"1.0", "count"}, {"1e3", "USD"}, {"", "USD"},
		{"9223372036854.775808", "USD"}, {"9223372037", "USDn"}, {"1", "usd"}, {"1", "USDx"}, {"1", "US"}} {
		if a := Money(c[0], c[1]); a.Err() == nil {
			t.Errorf("%s %s is %d, expected an error", c[0], c[1], a.Base())
		}
	}
}
