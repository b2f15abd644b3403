package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// expand replaces the macros of a notice as an exchange or a browser does. price stands for AUCTION_PRICE as it is,
// so that a caller can also put something absurd there.
func expand(notice string, request object, b bid, price string) string {
	return strings.NewReplacer(
		"${AUCTION_PRICE}", price,
		"${AUCTION_ID}", fmt.Sprint(request["id"]),
		"${AUCTION_BID_ID}", b.ID,
		"${AUCTION_IMP_ID}", b.ImpID,
		"${AUCTION_SEAT_ID}", b.seat,
		"${AUCTION_CURRENCY}", b.currency,
		"${AUCTION_LOSS}", "102",
		"${AUCTION_MIN_TO_WIN}", "",
		"${AUCTION_MBR}", "",
		"${AUCTION_MULTIPLIER}", "1",
	).Replace(notice)
}

// call fetches a notice as a browser does, and returns the status. Under whatever name the world knows the node, here
// it is reached at its door.
func (n *node) call(notice string) (int, error) {
	if notice == "" {
		return 0, fmt.Errorf("the bid has no such notice")
	}
	address, err := url.Parse(notice)
	if err != nil {
		return 0, err
	}
	address.Scheme, address.Host = "http", n.door
	answer, err := n.client.Get(address.String())
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

func accepted(status int) bool { return status == http.StatusOK || status == http.StatusNoContent }
