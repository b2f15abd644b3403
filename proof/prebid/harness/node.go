package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// books of one budget, in micros, as the node's admin door tells them.
type books struct {
	ID          uint64 `json:"id"`
	Limit       int64  `json:"limit"`
	Free        int64  `json:"free"`
	Purses      int64  `json:"purses"`
	Held        int64  `json:"held"`
	Settled     int64  `json:"settled"`
	OverSettled int64  `json:"over_settled"`
	Late        int64  `json:"late"`
}

func (b books) spent() int64 { return b.Settled + b.OverSettled + b.Late }

// A node that bids, and whose books are read.
type node struct {
	process *process
	launch  func() (*process, error)
	door    string // host and port of its OpenRTB door
	bids    string // URL there that takes bid requests
	admin   string // URL of the admin door
	client  *http.Client
}

// Times of the node under test: short, so that the test sees holds run out.
const (
	holdMS    = 1_500
	billingMS = 6_000
	// A hold is certainly gone after its time, an eighth, and a second for the sweep and the books.
	holdGone = holdMS*time.Millisecond*9/8 + time.Second
)

// workers names the cores of the node's workers.
const workers = "WEIR_WORKERS__CORES"

// startNode writes the campaigns and starts a node on them; with a fault, the stand-in that has it instead of Weir.
func startNode(s settings, self string) (*node, error) {
	file := filepath.Join(s.work, "campaigns.jsonl")
	if err := writeCampaigns(file); err != nil {
		return nil, err
	}
	n := &node{client: &http.Client{
		Timeout:       2 * patientTMax * time.Millisecond,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if s.fault != weirItself {
		n.launch = func() (*process, error) {
			return start("stand-in", s.work, s.work, nil, self, "-be-stand-in", "-fault", s.fault)
		}
		return n, n.start()
	}
	doors := []string{"run", "--budgets", file, "--data", filepath.Join(s.work, "data")}
	for _, door := range []string{"--batch", "--openrtb", "--spend", "--admin"} {
		// The same ports at every start, so that notices of old bids still find the node.
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		doors = append(doors, door, fmt.Sprintf("127.0.0.1:%d", port))
	}
	environment := []string{
		fmt.Sprintf("WEIR_LEDGER__HOLD_MS=%d", holdMS),
		fmt.Sprintf("WEIR_LEDGER__BILLING_MS=%d", billingMS),
	}
	if os.Getenv(workers) == "" {
		// One worker: the last cents of a budget are never in the purse of another one.
		environment = append(environment, workers+"=0", "WEIR_WORKERS__PIN=false")
	}
	n.launch = func() (*process, error) { return start("weir", s.work, s.work, environment, s.weir, doors...) }
	return n, n.start()
}

// start launches the program and waits until it serves.
func (n *node) start() error {
	var err error
	if n.process, err = n.launch(); err != nil {
		return err
	}
	said, err := n.process.until("ready")
	if err != nil {
		return err
	}
	if n.door = said["openrtb"]; n.door == "" {
		return fmt.Errorf("%s said no address of its OpenRTB door", n.process.name)
	}
	n.bids = "http://" + n.door + "/openrtb2/bid"
	n.admin = strings.TrimSuffix(said["admin"], "/")
	return nil
}

// kill ends the node with kill -9 and starts it again on what it left.
func (n *node) kill() error {
	if err := n.process.cmd.Process.Kill(); err != nil {
		return err
	}
	_ = n.process.cmd.Wait()
	n.client.CloseIdleConnections()
	return n.start()
}

// books of all budgets.
func (n *node) books() (map[uint64]books, error) {
	answer, err := n.client.Get(n.admin + "/books")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var all struct {
		Budgets []books `json:"budgets"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("the node's books: %w", err)
	}
	byID := map[uint64]books{}
	for _, b := range all.Budgets {
		byID[b.ID] = b
	}
	return byID, nil
}

// reconcile says that everything that was ever decided is billed by now: what is still kept is free.
func (n *node) reconcile() error {
	answer, err := n.client.Post(n.admin+"/v1/reconcile?until=2099-01-01T00:00:00Z", "text/csv", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("reconciliation: %s", answer.Status)
	}
	return nil
}

// post sends a bid request straight to the node, without the exchange.
func (n *node) post(request object) (int, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return 0, err
	}
	answer, err := n.client.Post(n.bids, "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	answer.Body.Close()
	return answer.StatusCode, nil
}
