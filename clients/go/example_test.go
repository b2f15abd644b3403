package weir_test

import (
	"context"
	"fmt"
	"log"
	"time"

	weir "weir.dev/client"
)

// A node is not far away in these examples, but the machine may be busy.
var patient = weir.Deadline(20 * time.Second)

// Reserve what the work may cost, work, settle what it did cost.
func Example() {
	ctx := context.Background()
	client, err := weir.Dial(ctx, weir.ExampleNode(), patient)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	hold, why := client.Reserve(ctx, weir.Ask{Handle: "team-42/gpt-5", Amount: weir.USD("0.15")})
	if why != weir.Granted {
		fmt.Println("not now:", why)
		return
	}
	defer hold.Release() // nothing happens if it was settled

	outcome, err := hold.Settle(ctx, weir.USD("0.042"))
	fmt.Println(outcome.Verdict, err)
	// Output: settled <nil>
}

// A refusal is a value, and tells why.
func ExampleClient_Reserve() {
	ctx := context.Background()
	client, err := weir.Dial(ctx, weir.ExampleNode(), patient)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	for _, ask := range []weir.Ask{
		{Budget: 1, Amount: weir.USD("1000.00")},
		{Budget: 7, Amount: weir.USD("0.15")},
		{Budget: 1, Amount: weir.USD("0.00000015")},
	} {
		_, why := client.Reserve(ctx, ask)
		fmt.Println(why)
	}
	// Output:
	// exhausted
	// unknown_budget
	// bad_amount
}

// Many asks share a frame, and members of a pod are granted all or none.
func ExampleClient_ReserveAll() {
	ctx := context.Background()
	client, err := weir.Dial(ctx, weir.ExampleNode(), patient)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	asks := []weir.Ask{
		{Budget: 1, Amount: weir.USD("0.01"), Pod: 1},
		{Budget: 1, Amount: weir.USD("0.02"), Pod: 1},
	}
	for _, decision := range client.ReserveAll(ctx, asks) {
		fmt.Println(decision.Verdict)
		if decision.Verdict == weir.Granted {
			decision.Hold.Release()
		}
	}
	// Output:
	// granted
	// granted
}

// Work of unknown length: a confirmed hold lives for an hour, not for seconds.
func ExampleClient_ReserveConfirmed() {
	ctx := context.Background()
	client, err := weir.Dial(ctx, weir.ExampleNode(), patient)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	hold, why := client.ReserveConfirmed(ctx, weir.Ask{Budget: 1, Amount: weir.USD("0.15")})
	if why != weir.Granted {
		return
	}
	defer hold.Release()
	outcome, _ := hold.Settle(ctx, weir.USD("0.15"))
	fmt.Println(outcome.Verdict)
	// Output:
	// settled
}

// Amounts are exact.
func ExampleParseAmount() {
	usd, _ := weir.ParseUnit("USD")
	amount, err := weir.ParseAmount("0.042", usd)
	fmt.Println(amount, amount.Base(), err)
	_, err = weir.ParseAmount("0.0000001", usd)
	fmt.Println(err)
	fmt.Println(weir.USDn("0.0000054").Base())
	// Output:
	// 0.042 USD 42000 <nil>
	// weir: amount "0.0000001": found 7 decimals, expected at most 6 for USD
	// 5400
}
