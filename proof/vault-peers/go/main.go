// Plays the Go modules of OpenBao and of Vault, unmodified, against running nodes: one table of calls for both, what tools ask at their
// start, and retries. Where BAO_ADDR and BAO_TOKEN name a running OpenBao, the same calls go there, and the answers are compared.
//
// proof/vault-peers/run starts the nodes and says where they are.
package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

var failures int

func tell(format string, values ...any) {
	failures++
	fmt.Printf("FAIL "+format+"\n", values...)
}

// node returns where a node of the run is.
func node(name string) place {
	at := place{url: os.Getenv(name + "_URL"), token: os.Getenv(name + "_TOKEN"), retries: 0, wait: time.Millisecond}
	if at.url == "" || at.token == "" {
		fmt.Printf("%s_URL and %s_TOKEN are not set: start this with proof/vault-peers/run\n", name, name)
		os.Exit(2)
	}
	return at
}

// makers are the two modules.
var makers = map[string]func(place) (client, error){"openbao": place.openBao, "vault": place.vault}

func made(name string, at place) client {
	c, err := makers[name](at)
	if err != nil {
		fmt.Printf("%s: %v\n", name, err)
		os.Exit(2)
	}
	return c
}

func main() {
	run := fmt.Sprintf("go-%d", time.Now().UnixNano())
	for _, name := range []string{"openbao", "vault"} {
		play(made(name, node("OPEN")), run+"-"+name, true, tell)
		checkSystem(made(name, node("OPEN")), node("OPEN").token)
		checkSealed(made(name, node("SEALED")))
		checkUnsealed(made(name, node("LATER")))
		checkDenied(name)
		checkRetries(name)
		checkLimited(name)
		fmt.Printf("%s: %d calls of the table, the start of tools, seals, tokens, retries\n", name, len(table))
	}
	besideOpenBao(run)
	if failures > 0 {
		fmt.Printf("%d failures\n", failures)
		os.Exit(1)
	}
}

func checkSystem(c client, token string) {
	found, err := c.system()
	want := system{Initialized: true, Version: found.Version, Mount: "transit", Token: token, Capabilities: []string{"root"}}
	if err != nil || !reflect.DeepEqual(found, want) {
		tell("%s: expected of the system %+v, got %+v, %v", c.name, want, found, err)
	}
}

func checkSealed(c client) {
	got, err := c.logical("write", "transit/encrypt/a", values{"plaintext": hello})
	if err != nil || got.status != 503 || !reflect.DeepEqual(got.errors, []string{"Vault is sealed"}) {
		tell("%s: expected 503 Vault is sealed, got %+v, %v", c.name, got, err)
	}
	if sealed, err := c.unseal(strings.Repeat("a", 64)); !sealed || err == nil || !strings.Contains(err.Error(), "no key that wraps its keys yet") {
		tell("%s: expected that the first key has to be meant as such, got sealed: %v, %v", c.name, sealed, err)
	}
}

func checkUnsealed(c client) {
	if sealed, err := c.unseal(os.Getenv("LATER_KEY")); sealed || err != nil {
		tell("%s: expected that the node's own key unseals, got %v", c.name, err)
	}
}

func checkDenied(name string) {
	at := node("OPEN")
	at.token = "wrong"
	c := made(name, at)
	for _, verb := range []string{"read", "write", "list", "delete"} {
		got, err := c.logical(verb, "transit/keys/a", values{})
		if err != nil || got.status != 403 || !reflect.DeepEqual(got.errors, []string{"permission denied"}) {
			tell("%s: %s with a wrong token: expected 403 permission denied, got %+v, %v", c.name, verb, got, err)
		}
	}
}

// checkRetries puts a server that fails at first between client and node, and counts the calls that arrive at it.
func checkRetries(name string) {
	at := node("OPEN")
	address, err := url.Parse(at.url)
	if err != nil {
		tell("%s: %v", at.url, err)
		return
	}
	to := httputil.NewSingleHostReverseProxy(address)
	for _, plan := range []struct{ answer, times, calls, status int }{{503, 2, 3, 200}, {503, 9, 3, 503}, {429, 1, 2, 200}, {400, 1, 1, 400}} {
		var calls atomic.Int64
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) > int64(plan.times) {
				r.Host = address.Host
				to.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(plan.answer)
			fmt.Fprintln(w, `{"errors":["not now"]}`)
		}))
		c := made(name, place{url: front.URL, token: at.token, retries: 2, wait: time.Millisecond})
		got, err := c.logical("write", "transit/random/16", values{})
		if err != nil || got.status != plan.status || calls.Load() != int64(plan.calls) {
			tell("%s: %d answered %d times: expected %d after %d calls, got %+v after %d, %v", name, plan.answer, plan.times, plan.status, plan.calls, got, calls.Load(), err)
		}
		front.Close()
	}
}

// checkLimited makes more calls than a token may in a second, as a client does by default: it waits, and all succeed.
func checkLimited(name string) {
	at := node("LIMITED")
	impatient, patient := made(name, at), made(name, place{at.url, at.token, 2, time.Second})
	limited := 0
	for range 200 {
		got, err := impatient.logical("write", "transit/random/16", values{})
		if err == nil && got.status == 429 && strings.Contains(strings.Join(got.errors, ""), "rate limit quota exceeded") {
			limited++
		}
	}
	if limited == 0 {
		tell("%s: none of 200 calls was limited", name)
	}
	for range 4 {
		got, err := patient.logical("write", "transit/random/16", values{})
		if err != nil || got.status != 200 {
			tell("%s: expected that a limited call is asked again, got %+v, %v", name, got, err)
		}
	}
}

// besideOpenBao plays the table against a server of OpenBao too, where one is named. Before, against another node of our own: there the
// comparison must find nothing, and what is planted.
func besideOpenBao(run string) {
	here := made("openbao", node("OPEN"))
	beside("another node", here, made("openbao", node("LATER")), run+"-own")
	besideWire("another node", node("OPEN"), node("LATER"), run+"-own-wire", false)
	bao := place{url: os.Getenv("BAO_ADDR"), token: os.Getenv("BAO_TOKEN"), retries: 0, wait: time.Millisecond}
	for _, name := range []string{"BAO_ADDR", "BAO_TOKEN"} {
		if os.Getenv(name) == "" {
			fmt.Printf("beside OpenBao: skipped: %s is not set\n", name)
			return
		}
	}
	there := made("openbao", bao)
	if _, err := there.logical("write", "sys/mounts/transit", values{"type": "transit"}); err != nil {
		tell("OpenBao at %s: %v", bao.url, err)
		return
	}
	beside("OpenBao", here, there, run+"-bao")
	besideWire("OpenBao", node("OPEN"), bao, run+"-wire", true)
}

// besideWire sends the requests of exchanges.txt to both, and tells where the answers differ; known: what differs on purpose, does.
func besideWire(name string, here, there place, run string, known bool) {
	list, _, err := readExchanges(exchangesText)
	if err != nil {
		tell("exchanges.txt: %v", err)
		return
	}
	ours, err1 := playExchanges(here, list, run)
	theirs, err2 := playExchanges(there, list, run)
	if err := errors.Join(err1, err2); err != nil {
		tell("%v", err)
		return
	}
	checkTexts(list, ours, run, tell)
	compareWires(list, ours, theirs, known, tell)
	// The comparison itself: another status, a header field, a number where a text was, a member that is gone.
	found, other := 0, slices.Clone(ours)
	other[0].status++
	other[1].headers = http.Header{}
	other[2].facts = maps.Clone(ours[2].facts)
	other[2].facts["data.name"] = "number 5"
	delete(other[2].facts, "data.type")
	compareWires(list[:3], ours, other, false, func(string, ...any) { found++ })
	// A text of our own that is another.
	changed := list[0]
	changed.says = "something else"
	checkTexts([]exchange{changed}, ours, run, func(string, ...any) { found++ })
	if found != 6 {
		tell("the comparison over HTTP found %d differences where six were planted", found)
	}
	fmt.Printf("beside %s: %d exchanges over HTTP compared\n", name, len(list))
}

func beside(name string, here, there client, run string) {
	ours, theirs := play(here, run, true, tell), play(there, run, false, tell)
	compared := compare(ours, theirs, tell)
	move(here, there, run+"-out")
	move(there, here, run+"-in")
	// The comparison itself: another status, another member, a member that is not there.
	found := 0
	other := append([]answer{}, theirs...)
	other[0].status++
	other[1].data = values{"latest_version": 2.0}
	compare(theirs, other, func(string, ...any) { found++ })
	if found < 3 {
		tell("the comparison found %d of the differences that were planted", found)
	}
	fmt.Printf("beside %s: %d answers compared member by member, keys moved both ways\n", name, compared)
}

// move makes keys of both types at one server, seals with them, brings them to the other one, and opens there; then the other way.
func move(from, to client, key string) {
	for _, kind := range []string{"aes256-gcm96", "aes128-gcm96"} {
		moveOne(from, to, key+"-"+kind, values{"type": kind}, values{"plaintext": hello, "associated_data": world})
		moveOne(from, to, key+"-"+kind+"-derived", values{"type": kind, "derived": true},
			values{"plaintext": hello, "context": context, "associated_data": world})
		moveOne(from, to, key+"-"+kind+"-convergent", values{"type": kind, "derived": true, "convergent_encryption": true},
			values{"plaintext": hello, "context": context})
	}
}

func moveOne(from, to client, name string, policy, message values) {
	var last answer
	ask := func(c client, verb, path string, body values) values {
		got, err := c.logical(verb, path, body)
		if err != nil || got.status >= 400 {
			tell("moving %s: %s %s: %+v, %v", name, verb, path, got, err)
		}
		last = got
		return got.data
	}
	opens := func(c client, sealed any) {
		opening := maps.Clone(message)
		delete(opening, "plaintext")
		opening["ciphertext"] = sealed
		if ask(c, "write", "transit/decrypt/"+name, opening)["plaintext"] != hello {
			tell("moving %s from %s to the other: expected %s, got %+v", name, from.name, hello, last)
		}
	}
	seals := func(c client) any { return ask(c, "write", "transit/encrypt/"+name, message)["ciphertext"] }
	policy["exportable"], policy["allow_plaintext_backup"] = true, true
	ask(from, "write", "transit/keys/"+name, policy)
	first := seals(from)
	ask(from, "write", "transit/keys/"+name+"/rotate", nil)
	second := seals(from)
	backup := ask(from, "read", "transit/backup/"+name, nil)["backup"]
	ask(to, "write", "transit/restore/"+name, values{"backup": backup})
	opens(to, first)
	opens(to, second)
	back := seals(to)
	opens(from, back)
	if policy["convergent_encryption"] == true && back != second {
		tell("moving %s: one plaintext of one context is %v at one server, and %v at the other", name, second, back)
	}
	for _, path := range []string{"transit/export/encryption-key/" + name, "transit/export/hmac-key/" + name} {
		one, other := ask(from, "read", path, nil), ask(to, "read", path, nil)
		if !reflect.DeepEqual(one, other) {
			tell("moving %s: %s differs", name, path)
		}
	}
}
