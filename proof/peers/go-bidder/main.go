// A bidder as a team would build it from what is at hand: net/http, encoding/json, an index in memory, and Redis for
// budgets and frequency caps. Weir is measured beside it; README.md says what it does not do.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve")
	file := flag.String("campaigns", "campaigns.jsonl", "the campaign file, the same as Weir's")
	redis := flag.String("redis", "127.0.0.1:6379", "address of Redis")
	flag.Parse()
	if err := run(*listen, *file, *redis); err != nil {
		fmt.Fprintln(os.Stderr, "go-bidder:", err)
		os.Exit(1)
	}
}

func run(listen, file, redis string) error {
	campaigns, err := load(file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := newRedisStore(ctx, redis, campaigns)
	if err != nil {
		return fmt.Errorf("redis at %s: %w", redis, err)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- store.sweep(ctx) }()
	public := "http://" + listener.Addr().String()
	server := &http.Server{Handler: newBidder(campaigns, store, public).routes(), ReadHeaderTimeout: 10 * time.Second}
	go func() { failed <- server.Serve(listener) }()
	fmt.Printf("campaigns %d\nopenrtb %s\nready\n", len(campaigns), listener.Addr())
	return <-failed
}
