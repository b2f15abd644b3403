// The harness puts a real Prebid Server in front of a Weir node, plays the browser (win, billing and loss notices,
// in every way in which they go wrong), and compares the node's books with what it acknowledged at every step.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// weirItself: no stand-in.
const weirItself = ""

type settings struct {
	prebid, static, config string
	weir, work, fault      string
}

func main() {
	var s settings
	flag.StringVar(&s.prebid, "prebid", "", "the Prebid Server binary")
	flag.StringVar(&s.static, "static", "", "the folder static of Prebid Server's source")
	flag.StringVar(&s.config, "config", "", "the folder with pbs.yaml and bidder-info")
	flag.StringVar(&s.weir, "weir", "", "the weir binary")
	flag.StringVar(&s.work, "work", "", "an empty folder for the run")
	flag.StringVar(&s.fault, "fault", weirItself, "test a stand-in with this fault instead of Weir: "+faultNames())
	list := flag.Bool("list-faults", false, "print the stand-in's faults")
	standIn := flag.Bool("be-stand-in", false, "be the stand-in (used by the harness itself)")
	flag.Parse()
	if *standIn {
		exitOn(serveStandIn(s.fault))
		return
	}
	if *list {
		fmt.Println(strings.ReplaceAll(faultNames(), ", ", "\n"))
		return
	}
	failed, err := play(s)
	exitOn(err)
	if failed > 0 {
		os.Exit(1)
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "prebid:", err)
		os.Exit(2)
	}
}

// play is the whole test; it returns how many scenarios failed.
func play(s settings) (int, error) {
	began := time.Now()
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	for _, path := range []*string{&s.prebid, &s.static, &s.config, &s.weir, &s.work} {
		if *path, err = filepath.Abs(*path); err != nil {
			return 0, err
		}
	}
	n, err := startNode(s, self)
	if err != nil {
		return 0, err
	}
	defer func() { n.process.stop() }() // the one that runs then
	crooked, err := startCrooked()
	if err != nil {
		return 0, err
	}
	x, err := startExchange(s.work, s.prebid, s.static, s.config, n.bids, crooked)
	if err != nil {
		return 0, err
	}
	defer x.process.stop()
	fmt.Printf("prebid: Prebid Server at %s, the node's door at %s, its books at %s\n", x.url, n.bids, n.admin)

	r := &run{exchange: x, node: n, audit: newAudit(n), patience: standInPatience}
	if s.fault == weirItself {
		r.patience = patience
	}
	var table string
	r.play(answers)
	r.play(money)
	if s.fault == weirItself {
		r.play(crash)
	}
	r.play([]scenario{{"the verdicts on wrong answers are those of proof/prebid/README.md", func(c *check) { table = verdicts(c) }}})
	if err := os.WriteFile(filepath.Join(s.work, "verdicts.md"), []byte(table), 0o644); err != nil {
		return 0, err
	}
	fmt.Printf("prebid: %d of %d scenarios held; the books were compared %d times; %d requests were asked again; %.0f s\n",
		r.checks-r.failed, r.checks, r.audit.steps, r.retried.Load(), time.Since(began).Seconds())
	return r.failed, nil
}
