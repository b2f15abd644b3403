// The engine of the tests: an unmodified nats-server, pinned by go.sum.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	flags := flag.NewFlagSet("nats-server", flag.ExitOnError)
	options, err := server.ConfigureOptions(flags, os.Args[1:], server.PrintServerAndExit, flags.Usage, server.PrintTLSHelpAndDie)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats-server:", err)
		os.Exit(2)
	}
	nats, err := server.NewServer(options)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nats-server:", err)
		os.Exit(2)
	}
	nats.ConfigureLogger()
	if err := server.Run(nats); err != nil {
		fmt.Fprintln(os.Stderr, "nats-server:", err)
		os.Exit(2)
	}
	nats.WaitForShutdown()
}
