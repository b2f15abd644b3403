package weir

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func dialed(t testing.TB, address string, opts ...Option) *Client {
	t.Helper()
	client, err := Dial(context.Background(), address, append([]Option{Deadline(20 * time.Second)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return client
}

// until waits for something that another goroutine does.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 40 s", what)
		}
	}
}

func TestCertificatesAreChecked(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plan := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, plan, plan, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	node := newTinyNode(t, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	client := dialed(t, node.address(), TLS(&tls.Config{RootCAs: roots}))
	hold, verdict := client.Reserve(context.Background(), Ask{Budget: 1, Amount: USD("0.15")})
	if verdict != Granted {
		t.Fatal(verdict)
	}
	if outcome, err := hold.Settle(context.Background(), USD("0.1")); err != nil || outcome.Verdict != Settled {
		t.Fatal(outcome, err)
	}
	stranger := dialed(t, node.address(), TLS(&tls.Config{}), Log(slog.New(slog.DiscardHandler)))
	if _, verdict := stranger.Reserve(context.Background(), Ask{Budget: 1, Amount: USD("0.15")}); verdict != Unreachable {
		t.Fatalf("a node without a trusted certificate: %s", verdict)
	}
}

// lines counts what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func TestHoldsThatTheCollectorFindsAreReleased(t *testing.T) {
	node := newTinyNode(t, nil)
	var logged lines
	client := dialed(t, node.address(), Log(slog.New(slog.NewTextHandler(&logged, nil))))
	ask := Ask{Budget: 1, Amount: USD("0.001")}
	func() {
		if _, verdict := client.Reserve(context.Background(), ask); verdict != Granted {
			t.Fatal(verdict)
		}
		decisions := client.ReserveAll(context.Background(), []Ask{ask, ask, ask})
		if decisions[2].Verdict != Granted {
			t.Fatal(decisions)
		}
		decisions[1].Hold.Detach()
	}()
	until(t, "three releases", func() bool {
		runtime.GC()
		actions, _, left := node.seen()
		return len(actions) == 3 && left == 1_000_000-1000
	})
	logged.mu.Lock()
	defer logged.mu.Unlock()
	if found := strings.Count(logged.text.String(), "\n"); found != 3 {
		t.Fatalf("%d lines: %s", found, logged.text.String())
	}
}

func TestHandlesAreFoundOnce(t *testing.T) {
	node := newTinyNode(t, nil)
	client := dialed(t, node.address())
	for range 3 {
		hold, verdict := client.Reserve(context.Background(), Ask{Handle: "team-42/gpt-5", Amount: USD("0.001")})
		if verdict != Granted {
			t.Fatal(verdict)
		}
		hold.Release()
	}
	decisions := client.ReserveAll(context.Background(), []Ask{{Handle: "team-42/gpt-5", Amount: USD("0.001")},
		{Handle: strings.Repeat("a", 10_000), Amount: USD("0.001")}, {Handle: "b", Amount: Amount{}}})
	if decisions[0].Verdict != Granted || decisions[1].Verdict != UnknownBudget || decisions[1].Hold != nil {
		t.Fatal(decisions)
	}
	decisions[0].Hold.Release()
	if decisions[2].Hold != nil {
		decisions[2].Hold.Release()
	}
	if budget, verdict := client.Find(context.Background(), "team-42/gpt-5"); verdict != Granted || budget.ID != 1 ||
		budget.Unit.String() != "USD" {
		t.Fatal(budget, verdict)
	}
}

func TestWhatIsNoAmountIsNotSent(t *testing.T) {
	node := newTinyNode(t, nil)
	client := dialed(t, node.address())
	for _, amount := range []Amount{USD("1e3"), USD("-1"), USD("0"), {}, Items(AmountMax + 1)} {
		if hold, verdict := client.Reserve(context.Background(), Ask{Budget: 1, Amount: amount}); verdict != BadAmount || hold != nil {
			t.Errorf("%s: %s", amount, verdict)
		}
	}
	hold, _ := client.Reserve(context.Background(), Ask{Budget: 1, Amount: USD("0.15")})
	defer hold.Release()
	for _, amount := range []Amount{USD("?"), USD("-0.1"), Money("0.1", "EUR"), USDn("0.1")} {
		if outcome, err := hold.Settle(context.Background(), amount); err == nil || outcome.Verdict.Booked() {
			t.Errorf("%s: %v", amount, outcome)
		}
	}
	if actions, asked, _ := node.seen(); asked != 1 || len(actions) != 0 {
		t.Fatalf("%d asks and %v were sent", asked, actions)
	}
}

func TestAHoldTravelsAsText(t *testing.T) {
	node := newTinyNode(t, nil)
	one, other := dialed(t, node.address()), dialed(t, node.address())
	hold, _ := one.Reserve(context.Background(), Ask{Budget: 1, Amount: USD("0.15")})
	hold.Detach()
	there, err := other.HoldOf(hold.Token(), hold.Amount(), hold.RequestID())
	if err != nil {
		t.Fatal(err)
	}
	if outcome, err := there.Settle(context.Background(), USD("0.05")); err != nil || outcome.Verdict != Settled {
		t.Fatal(outcome, err)
	}
	if outcome, _ := there.Settle(context.Background(), USD("0.06")); outcome.Verdict != AlreadySettled {
		t.Fatal(outcome)
	}
	for _, text := range []string{"", "x", strings.Repeat("=", 43), strings.Repeat("A", 44), strings.Repeat("é", 43)} {
		if _, err := other.HoldOf(text, Amount{}, 0); err == nil {
			t.Errorf("%q is no token", text)
		}
	}
}

func TestOneClientHasTheSpoolOpen(t *testing.T) {
	node := newTinyNode(t, nil)
	path := filepath.Join(t.TempDir(), "spool")
	client := dialed(t, node.address(), Spool(path))
	if _, err := Dial(context.Background(), node.address(), Spool(path)); err == nil {
		t.Fatal("two clients have the spool open")
	}
	hold, _ := client.Reserve(context.Background(), Ask{Budget: 1, Amount: USD("0.15")})
	if outcome, err := hold.Settle(context.Background(), USD("0.05")); err != nil || outcome.Verdict != Settled {
		t.Fatal(outcome, err)
	}
}

func TestManyCallersShareAClient(t *testing.T) {
	node := newTinyNode(t, nil)
	client := dialed(t, node.address(), Connections(3))
	var wait sync.WaitGroup
	for caller := range 40 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for round := range 25 {
				ask := Ask{Budget: 1 + uint64(round%2), Amount: BaseUnits(int64(caller+1), Unit{})}
				if hold, _ := client.Reserve(context.Background(), ask); hold != nil {
					hold.Release()
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(round)*20*time.Microsecond)
				for _, decision := range client.ReserveAll(ctx, []Ask{ask, ask, ask}) {
					if decision.Hold != nil {
						decision.Hold.Release()
					}
				}
				cancel()
			}
		}()
	}
	wait.Wait()
	until(t, "everything is given back", func() bool {
		_, _, left := node.seen()
		return left == 1_000_000
	})
}

func TestAnExplicitDeadlineWins(t *testing.T) {
	now := time.Now()
	explicit, cancel := context.WithDeadline(context.Background(), now.Add(5*time.Second))
	defer cancel()
	for _, row := range []struct {
		ctx       context.Context
		option    time.Duration
		byDefault time.Duration
		expected  time.Duration
	}{
		{context.Background(), 0, askTime, 20 * time.Millisecond},
		{context.Background(), 0, confirmTime, time.Second},
		{context.Background(), 3 * time.Second, confirmTime, 3 * time.Second},
		{explicit, 3 * time.Second, confirmTime, 5 * time.Second},
	} {
		c := &Client{options: options{deadline: row.option}}
		if found := c.deadline(row.ctx, now, row.byDefault).Sub(now); found != row.expected {
			t.Errorf("%+v: the deadline is in %s, expected %s", row, found, row.expected)
		}
	}
}

func TestFramesThatNobodyAwaitsDoNotPileUp(t *testing.T) {
	l, settlement := lane{sweepAt: queueMax}, &flight{jobs: []*job{nil}}
	l.wait(settlement)
	swept := 0
	for range 10_000 {
		swept += int(l.wait(new(flight)))
		if len(l.queue) > queueMax+1 || l.queue[0] != settlement {
			t.Fatalf("%d frames wait, expected at most %d, a settlement first", len(l.queue), queueMax+1)
		}
	}
	if swept+len(l.queue) != 10_001 {
		t.Fatalf("%d frames were swept out and %d wait, of 10001", swept, len(l.queue))
	}
}

func TestAClosedClientSaysSo(t *testing.T) {
	node := newTinyNode(t, nil)
	client, err := Dial(context.Background(), node.address(), Deadline(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	hold, _ := client.Reserve(context.Background(), Ask{Budget: 1, Amount: USD("0.15")})
	if err := client.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	hold.Release()
	if _, verdict := client.Reserve(context.Background(), Ask{Budget: 1, Amount: USD("0.15")}); verdict != Closed {
		t.Fatal(verdict)
	}
	if decisions := client.ReserveAll(context.Background(), []Ask{{}}); decisions[0].Verdict != Closed {
		t.Fatal(decisions)
	}
	if _, err := hold.Confirm(context.Background()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, addresses := range []string{"", " , ", strings.Repeat("h:1,", 65)} {
		if _, err := Dial(context.Background(), addresses); err == nil {
			t.Errorf("%.20q is accepted", addresses)
		}
	}
}

func TestPodsAreNotTakenApart(t *testing.T) {
	pods := func(members ...uint16) (asks []Ask) {
		for _, pod := range members {
			asks = append(asks, Ask{Pod: pod})
		}
		return asks
	}
	for _, c := range []struct {
		asks    []Ask
		most    int
		count   int
		verdict Verdict
	}{
		{pods(0, 0, 0), 2, 2, Granted}, {pods(1, 1), 2, 2, Granted}, {pods(0, 1, 1), 2, 1, Granted}, {pods(1, 1, 1, 2), 2, 3, TooLarge},
		{pods(1, 1, 2, 2), 3, 2, Granted}, {pods(1, 1, 0, 0), 3, 3, Granted},
	} {
		if count, verdict := frameOf(c.asks, c.most); count != c.count || verdict != c.verdict {
			t.Errorf("%v: %d %s", c, count, verdict)
		}
	}
}
