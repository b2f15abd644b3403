package weir

import (
	"sync"
	"testing"
)

// ExampleNode is the address of a node for examples: budget 1 of 1.00 USD, which is also what every handle stands for.
var ExampleNode = sync.OnceValue(func() string { return newTinyNode(&testing.B{}, nil).address() })
