package weir

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// realNode is the batch address of a node of its own with the budget of the README, as WEIR names the program.
func realNode(t *testing.T) string {
	t.Helper()
	program := os.Getenv("WEIR")
	if program == "" {
		t.Skip("WEIR names no node; make clients-go runs this test")
	}
	folder := t.TempDir()
	budgets := filepath.Join(folder, "budgets.jsonl")
	lines := `{"id":1001,"unit":"USD","limit":"10.00"}
{"template":"llm/{team}/{user}","unit":"USD","limit":"1.00","idle":"24h"}
`
	if err := os.WriteFile(budgets, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	// The machine of the tests may be busy for longer than a node waits for its bank.
	config := filepath.Join(folder, "weir.toml")
	if err := os.WriteFile(config, []byte("[batch]\nwait_ms = 10000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--config", config, "--budgets", budgets, "--data", filepath.Join(folder, "data")}
	help, err := exec.Command(program, "run", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, door := range []string{"--batch", "--openrtb", "--admin", "--spend"} {
		if strings.Contains(string(help), door+" ") {
			args = append(args, door, "127.0.0.1:0")
		}
	}
	node := exec.Command(program, args...)
	output, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Process.Signal(os.Interrupt); _ = node.Wait() })
	batch := ""
	for lines := bufio.NewScanner(output); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 1 && fields[0] == "batch" {
			batch = fields[1]
		}
		if len(fields) > 0 && fields[0] == "ready" {
			return batch
		}
	}
	t.Fatal("the node ended before it was ready")
	return ""
}

func TestARealNode(t *testing.T) {
	client := dialed(t, realNode(t))
	hold, why := client.Reserve(context.Background(), Ask{Budget: 1001, Amount: USD("0.15")})
	if why != Granted {
		t.Fatal(why)
	}
	if outcome, err := hold.Confirm(context.Background()); err != nil || outcome.Verdict != Confirmed {
		t.Fatal(outcome, err)
	}
	if outcome, err := hold.Settle(context.Background(), USD("0.2")); err != nil || outcome.Verdict != SettledOver {
		t.Fatal(outcome, err)
	}
	asks := []Ask{{Budget: 1001, Amount: USD("9"), Pod: 1}, {Budget: 1001, Amount: USD("9"), Pod: 1}, {Budget: 1001, Amount: USDn("1")},
		{Budget: 5, Amount: USD("1")}, {Budget: 1001, Amount: USD("1")}}
	var found []string
	for _, decision := range client.ReserveAll(context.Background(), asks) {
		found = append(found, decision.Verdict.String())
		if decision.Hold != nil {
			if outcome, err := decision.Hold.ReleaseWait(context.Background()); err != nil || outcome.Verdict != Released {
				t.Error(outcome, err)
			}
		}
	}
	// Which member of the pod the node names is its own affair.
	if text := strings.Join(found[2:], " "); text != "unit_mismatch unknown_budget granted" || found[0] == "granted" || found[1] == "granted" {
		t.Error(found)
	}
}

func TestABudgetIsMadeOnItsFirstAsk(t *testing.T) {
	client := dialed(t, realNode(t))
	for _, cost := range []string{"0.1", "0.15"} {
		hold, why := client.Reserve(context.Background(), Ask{Handle: "llm/team-42/ann@example", Amount: USD("0.15")})
		if why != Granted {
			t.Fatal(why)
		}
		if outcome, err := hold.Settle(context.Background(), USD(cost)); err != nil || outcome.Verdict != Settled {
			t.Fatal(outcome, err)
		}
	}
	decisions := client.ReserveAll(context.Background(), []Ask{{Handle: "llm/team-42/bob", Amount: USD("0.01")},
		{Handle: "llm/nobody", Amount: USD("0.01")}})
	if decisions[0].Verdict != Granted || decisions[1].Verdict != UnknownBudget {
		t.Fatal(decisions)
	}
	decisions[0].Hold.Release()
}

// TestReadme runs the program of the README as it stands there.
func TestReadme(t *testing.T) {
	address := realNode(t)
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindSubmatch(text)
	if program == nil {
		t.Fatal("README.md has no program")
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	source := strings.Replace(string(program[1]), "127.0.0.1:7700", address, 1)
	// The machine of the tests may be busy for longer than an ask waits.
	source = strings.Replace(source, address+`"`, address+`", weir.Deadline(20e9)`, 1)
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"go mod init example", "go mod edit -require weir.dev/client@v0.0.0 -replace weir.dev/client=" + here,
		"go run ."} {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		words := strings.Fields(command)
		run := exec.CommandContext(ctx, words[0], words[1:]...)
		run.Dir = folder
		output, err := run.CombinedOutput()
		cancel()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
		if command == "go run ." && string(output) != "settled <nil>\n" {
			t.Fatalf("the program printed %q", output)
		}
	}
}
