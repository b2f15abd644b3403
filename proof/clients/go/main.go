// Measures what an ask costs the Go client in processor time, against a real node: frames of ten asks, then single asks of many
// goroutines; holds are left alone, released or settled, which costs a message more.
//
// usage: go run . ADDRESS [BUDGET] [SECONDS]
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	weir "weir.dev/client"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . ADDRESS [BUDGET] [SECONDS]")
		os.Exit(2)
	}
	budget, seconds := uint64(1), 3
	if len(os.Args) > 2 {
		budget = must(strconv.ParseUint(os.Args[2], 10, 64))
	}
	if len(os.Args) > 3 {
		seconds = must(strconv.Atoi(os.Args[3]))
	}
	client := must(weir.Dial(context.Background(), os.Args[1], weir.Deadline(time.Second)))
	asks := func(n int) []weir.Ask {
		asks := make([]weir.Ask, n)
		for i := range asks {
			asks[i] = weir.Ask{Budget: budget, Amount: weir.BaseUnits(1, weir.Unit{})}
		}
		return asks
	}
	for _, lot := range []struct {
		callers, entries int
		ends             string
	}{{32, 10, "refused"}, {32, 10, "granted"}, {1, 10, "granted"}, {32, 10, "released"}, {8, 10, "settled"}, {4, 100, "granted"}, {32, 1, "granted"}} {
		measure(client, lot.callers, asks(lot.entries), lot.ends, time.Duration(seconds)*time.Second)
	}
	_ = client.Close(context.Background())
}

// measure lets callers ask for a while, and prints what an ask cost. The holds end at their deadlines, or are settled.
func measure(client *weir.Client, callers int, asks []weir.Ask, ends string, lasts time.Duration) {
	if ends == "refused" {
		for i := range asks {
			asks[i].Budget = 1<<64 - 1
		}
	}
	var done, granted atomic.Int64
	var wait sync.WaitGroup
	ctx := context.Background()
	began, before := time.Now(), cpu()
	for range callers {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var decisions []weir.Decision
			var settled sync.WaitGroup
			for time.Since(began) < lasts {
				if len(asks) == 1 {
					hold, verdict := client.Reserve(ctx, asks[0])
					decisions = append(decisions[:0], weir.Decision{Verdict: verdict, Hold: hold})
				} else {
					decisions = client.ReserveInto(ctx, asks, decisions[:0])
				}
				done.Add(int64(len(asks)))
				for _, d := range decisions {
					if d.Verdict != weir.Granted {
						continue
					}
					granted.Add(1)
					switch ends {
					case "granted":
						d.Hold.Detach()
					case "released":
						d.Hold.Release()
					case "settled":
						settled.Add(1)
						go func() {
							defer settled.Done()
							_, _ = d.Hold.Settle(ctx, d.Hold.Amount())
						}()
					}
				}
				settled.Wait()
			}
		}()
	}
	wait.Wait()
	took, used := time.Since(began), cpu()-before
	n := done.Load()
	fmt.Printf("go: %2d callers, %3d asks a frame, %-8s: %.3f us of processor an ask, %8.0f asks/s, %3.0f %% granted\n", callers, len(asks), ends,
		float64(used.Nanoseconds())/float64(n)/1000, float64(n)/took.Seconds(), 100*float64(granted.Load())/float64(n))
}

// cpu is the processor time of this process, of all its threads.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}
