package main

import (
	"fmt"
	"sync/atomic"
)

// object is JSON.
type object = map[string]any

var requests atomic.Uint64

// patientTMax is for all auctions but those about time, in ms: a busy machine keeps a program off its core for seconds.
const patientTMax = 30_000

// page is an ordinary request of a web page for these imps; the bidders are in the imps.
func page(imps ...object) object {
	n := requests.Add(1)
	for i, imp := range imps {
		imp["id"] = fmt.Sprint(i + 1)
	}
	return object{
		"id":   requestID(n),
		"imp":  imps,
		"tmax": patientTMax,
		"at":   1,
		"cur":  []string{"USD"},
		"site": object{
			"id": "s1", "domain": "news.example", "page": "https://news.example/a/story.html", "cat": []string{"IAB12"},
			"publisher": object{"id": "pub-1", "name": "News", "domain": "news.example"},
		},
		"device": object{
			"ua": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "ip": "198.51.100.7",
			"devicetype": 2, "os": "Linux", "language": "en", "geo": object{"country": "USA", "region": "CA"},
		},
		"user":   object{"id": fmt.Sprintf("u-%d", n)},
		"source": object{"tid": fmt.Sprintf("t-%d", n)},
		"ext":    object{"prebid": object{"debug": true, "returnallbidstatus": true}},
	}
}

// renewed gives a request an id that no other one had.
func renewed(request object) object {
	return with(request, "id", requestID(requests.Add(1)))
}

func requestID(n uint64) string { return fmt.Sprintf("prebid-test-%d", n) }

// banner is an imp of one size, offered to a bidder.
func banner(bidder string, size size) object {
	return offered(bidder, object{"banner": object{"w": size.w, "h": size.h, "format": []object{{"w": size.w, "h": size.h}}}})
}

// video is an imp for a player of a size, which plays VAST 2, 3 and 4, and wrappers of 4.
func video(bidder string, size size) object {
	return offered(bidder, object{"video": object{
		"mimes": []string{"video/mp4"}, "w": size.w, "h": size.h, "minduration": 5, "maxduration": 30,
		"protocols": []int{2, 3, 7, 8}, "linearity": 1,
	}})
}

func offered(bidder string, imp object) object {
	imp["secure"] = 1
	imp["tagid"] = "top"
	imp["ext"] = object{"prebid": object{"bidder": object{bidder: object{"placementId": "p1"}}}}
	return imp
}

// with sets a field of a request or an imp, and returns it.
func with(o object, field string, value any) object {
	o[field] = value
	return o
}
