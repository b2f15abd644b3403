// Package weir is the Go client of Weir, a spend gate: it reserves money of a budget before it is spent, and books what was spent.
//
//	c, err := weir.Dial(ctx, "127.0.0.1:7700")
//	...
//	hold, why := c.Reserve(ctx, weir.Ask{Budget: 1001, Amount: weir.USD("0.15")})
//	if why != weir.Granted {
//		return why // Exhausted, Paused, Timeout ...: a value, not an error
//	}
//	defer hold.Release() // nothing happens if it was settled
//	cost := work()
//	outcome, err := hold.Settle(ctx, cost) // repeated until it is answered, booked once
//
// An ask has a deadline, 20 ms (1 s with a confirm) unless its context has one; what is granted too late is given back by the library, and nothing is
// asked twice. Confirms, settles and releases are the opposite: they are repeated, on any node, until a node has answered.
// Amounts are exact: decimal text or base units, never a float.
package weir
