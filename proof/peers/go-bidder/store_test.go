package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// startRedis runs one for this test, on a socket in its folder.
func startRedis(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Fatal("redis-server is missing; on Debian: apt-get install redis-server (make go-bidder does)")
	}
	folder := t.TempDir()
	socket := filepath.Join(folder, "redis.sock")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	return socket
}

// connect waits until Redis serves.
func connect(t *testing.T, socket string, campaigns []*campaign) *redisStore {
	t.Helper()
	for range 3_600 {
		if s, err := newRedisStore(context.Background(), socket, campaigns); err == nil {
			t.Cleanup(func() { _ = s.client.Close() })
			return s
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal("redis-server does not answer")
	return nil
}

func TestScripts(t *testing.T) {
	ctx := context.Background()
	poor := &campaign{ID: 1, Limit: 5_000, Bid: 2_500_000, Caps: []freqCap{{Per: "day", Max: 1}}}
	rich := &campaign{ID: 2, Limit: 90_000, Bid: 2_000_000}
	s := connect(t, startRedis(t), []*campaign{poor, rich})
	shown := &creative{ID: "c"}
	options := []option{
		{poor, shown, size{}, poor.counters(shown)},
		{rich, shown, size{}, rich.counters(shown)},
	}
	reserve := func(bid, user string, expected int) {
		t.Helper()
		paid, err := s.reserve(ctx, []ask{{bid, user, options}})
		if err != nil || paid[0] != expected {
			t.Fatalf("%s of %s: candidate %v paid, expected %d (%v)", bid, user, paid, expected, err)
		}
	}
	left := func(key string, expected int64) {
		t.Helper()
		if found, err := s.client.Get(ctx, key).Int64(); err != nil || found != expected {
			t.Fatalf("%s is %d, expected %d (%v)", key, found, expected, err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	reserve("a", "ann", 0)
	reserve("b", "bob", 0)
	reserve("c", "cleo", 1) // the first one has no money left
	left("budget:1", 0)
	left("budget:2", 88_000)

	of := hold{Bid: "a", Campaign: 1, Cost: 2_500, User: "ann"}
	must(s.settle(ctx, of, options[0].counters))
	must(s.settle(ctx, of, options[0].counters)) // again: nothing happens
	left("budget:1", 0)
	left("cap:day:1:ann", 1)

	lost := hold{Bid: "b", Campaign: 1, Cost: 2_500, User: "bob"}
	must(s.release(ctx, lost))
	must(s.release(ctx, lost))
	left("budget:1", 2_500)
	reserve("d", "ann", 1) // capped
	reserve("e", "bob", 0)

	// What nobody speaks of goes back.
	if gone, err := sweepScript.Run(ctx, s.client, nil, time.Now().Add(2*holdTime).UnixMilli()).Int(); err != nil || gone != 3 {
		t.Fatalf("%d holds lapsed, expected 3 (%v)", gone, err)
	}
	left("budget:1", 2_500)
	left("budget:2", 90_000)

	// Late: the hold is gone, and the money is taken again.
	must(s.settle(ctx, hold{Bid: "e", Campaign: 1, Cost: 2_500, User: "bob"}, options[0].counters))
	left("budget:1", 0)
}
