package main

import (
	"fmt"
	"math/big"
)

// micros reads a decimal amount or price exactly; what is finer than a millionth is an error.
func micros(text string) (int64, error) {
	value, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	value.Mul(value, big.NewRat(1_000_000, 1))
	if !value.IsInt() || !value.Num().IsInt64() {
		return 0, fmt.Errorf("%q is not a whole number of millionths", text)
	}
	return value.Num().Int64(), nil
}

func mustMicros(text string) int64 {
	value, err := micros(text)
	if err != nil {
		panic(err)
	}
	return value
}

// decimal writes micros as a decimal number.
func decimal(micros int64) string {
	return big.NewRat(micros, 1_000_000).FloatString(6)
}

// impression is the cost of one at a price per thousand, rounded up.
func impression(priceMicros int64) int64 { return (priceMicros + 999) / 1000 }
