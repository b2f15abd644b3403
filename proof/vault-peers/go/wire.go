package main

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// The exchanges over plain HTTP, for what clients hide: headers, bodies of a 400, null beside absent, methods.
//
//go:embed exchanges.txt
var exchangesText string

// exchange is one request, and what is known to differ of its answer.
type exchange struct {
	line         int
	method, path string
	// body is sent as it stands here, with words in braces filled in.
	body    string
	headers [][2]string
	// keep names texts of the answer for later exchanges: name -> place.
	keep map[string]string
	// differs has the places that differ on purpose, each with the name of its reason.
	differs map[string]string
	// says is the first text of our own refusal, in full, where the other server may say another.
	says string
}

// wire is an answer as it came.
type wire struct {
	status  int
	headers http.Header
	// facts has each leaf of the body by its place, with what is random or a server's own taken out.
	facts map[string]string
	body  any
	raw   string
}

// readExchanges reads the table. A request begins a line; indented lines belong to it; `reason NAME: TEXT` says why answers differ.
func readExchanges(text string) (list []exchange, reasons map[string]string, err error) {
	reasons = map[string]string{}
	for at, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, value, _ := strings.Cut(rest, ": ")
		indented := strings.HasPrefix(line, " ")
		if indented && len(list) == 0 {
			return nil, nil, fmt.Errorf("line %d: there is no request above", at+1)
		}
		switch {
		case word == "" || strings.HasPrefix(word, "#"):
		case word == "reason":
			reasons[name] = value
		case !indented:
			path, body, _ := strings.Cut(rest, " ")
			list = append(list, exchange{line: at + 1, method: word, path: path, body: body, keep: map[string]string{}, differs: map[string]string{}})
		case word == "header":
			last := &list[len(list)-1]
			last.headers = append(last.headers, [2]string{name, value})
		case word == "keep":
			kept, place, _ := strings.Cut(rest, " ")
			list[len(list)-1].keep[kept] = place
		case word == "says":
			if err := json.Unmarshal([]byte(rest), &list[len(list)-1].says); err != nil {
				return nil, nil, fmt.Errorf("line %d: %q is no text in quotes: %w", at+1, rest, err)
			}
		case word == "differs":
			if reasons[value] == "" {
				return nil, nil, fmt.Errorf("line %d: there is no reason %q", at+1, value)
			}
			for _, place := range strings.Split(name, ", ") {
				list[len(list)-1].differs[place] = value
			}
		default:
			return nil, nil, fmt.Errorf("line %d: %q is not understood", at+1, line)
		}
	}
	return list, reasons, nil
}

// playExchanges sends all requests, one after the other.
func playExchanges(at place, list []exchange, key string) ([]wire, error) {
	kept := map[string]string{"key": key}
	answers := make([]wire, len(list))
	for i, one := range list {
		answer, err := one.send(at, kept)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s %s at %s: %w", one.line, one.method, one.path, at.url, err)
		}
		answers[i] = answer
		for name, member := range one.keep {
			text, ok := find(answer.body, member).(string)
			if !ok {
				return nil, fmt.Errorf("line %d: %s %s at %s: there is no text %s in %v", one.line, one.method, one.path, at.url, member, answer.body)
			}
			kept[name] = text
		}
	}
	return answers, nil
}

func (one exchange) send(at place, kept map[string]string) (wire, error) {
	body, _ := filled(one.body, kept).(string)
	path, _ := filled(one.path, kept).(string)
	request, err := http.NewRequest(one.method, at.url+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		return wire{}, err
	}
	request.Header.Set("X-Vault-Token", at.token)
	for _, header := range one.headers {
		value := strings.ReplaceAll(header[1], "{token}", at.token)
		if value == "none" {
			request.Header.Del(header[0])
		} else {
			request.Header.Set(header[0], value)
		}
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return wire{}, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return wire{}, err
	}
	answer := wire{status: response.StatusCode, headers: response.Header, facts: map[string]string{}, raw: strings.TrimSpace(string(raw))}
	if err := answer.read(raw); err != nil {
		answer.facts["body"] = string(raw)
	}
	return answer, nil
}

// read takes a body apart.
func (answer *wire) read(raw []byte) error {
	if len(raw) == 0 {
		answer.facts["body"] = "none"
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&answer.body); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	answer.take("", "", answer.body)
	return nil
}

// take writes down the leaves of a value; numbers, texts, null and empty lists are told apart.
func (answer *wire) take(place, name string, value any) {
	below := func(name string) string { return strings.TrimPrefix(place+"."+name, ".") }
	switch value := value.(type) {
	case values:
		if len(value) == 0 {
			answer.facts[place] = "{}"
		}
		for member, inner := range value {
			answer.take(below(member), member, inner)
		}
	case []any:
		if len(value) == 0 {
			answer.facts[place] = "[]"
		}
		for at, inner := range value {
			answer.take(below(fmt.Sprint(at)), name, inner)
		}
	case string:
		answer.facts[place] = fmt.Sprintf("text %q", common(place, name, value))
	case json.Number:
		answer.facts[place] = "number " + value.String()
		if strings.HasPrefix(place, "data.keys.") || strings.HasSuffix(name, "_time") || name == "server_time_utc" {
			answer.facts[place] = "number of a time"
		}
	default:
		answer.facts[place] = fmt.Sprint(value)
	}
}

var (
	uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// What a server says of itself.
	ownTexts = map[string]bool{"version": true, "cluster_name": true, "storage_type": true, "accessor": true, "id": true, "display_name": true,
		"commit_date": true, "running_plugin_version": true}
	// Where random bytes stand: keys that were exported, data keys, what random gives.
	ownBytes = regexp.MustCompile(`^data\.(keys\.\d+|random_bytes|plaintext)$`)
)

// common takes out of a text what two servers cannot have in common, and leaves its length and form.
func common(place, name, text string) string {
	switch {
	case ownTexts[name]:
		return "its own"
	case name == "backup":
		return "a backup"
	case ownBytes.MatchString(place):
		// Plaintexts of the table are short.
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil && (len(raw) >= 16 || name != "plaintext") {
			return fmt.Sprintf("%d bytes", len(raw))
		}
	}
	text = uuid.ReplaceAllString(text, "UUID")
	return sealed.ReplaceAllStringFunc(text, func(found string) string {
		head := strings.LastIndex(found, ":")
		return fmt.Sprintf("%s:%d symbols", found[:head], len(found)-head-1)
	})
}

// differences lists the places in which two answers differ, each with what is here and there.
func differences(here, there wire) map[string]string {
	found := map[string]string{}
	note := func(place string, one, other any) {
		if one != other {
			found[place] = fmt.Sprintf("%v here, %v there", one, other)
		}
	}
	note("status", here.status, there.status)
	for _, name := range []string{"Content-Type", "Cache-Control", "Retry-After", "Allow", "Www-Authenticate", "Location"} {
		note("header "+name, here.headers.Get(name), there.headers.Get(name))
	}
	if here.isRefusal() != there.isRefusal() || here.facts["body"] != there.facts["body"] {
		note("body", here.raw, there.raw)
		return found
	}
	for _, facts := range []map[string]string{here.facts, there.facts} {
		for place := range facts {
			one, other := here.facts[place], there.facts[place]
			if strings.HasPrefix(place, "errors.") && one != other && unframed(one) == unframed(other) {
				place = "frame"
			}
			note(place, one, other)
		}
	}
	return found
}

func (answer wire) isRefusal() bool {
	body, _ := answer.body.(values)
	_, is := body["errors"]
	return is
}

// unframed takes off what stands around a text of Transit's machinery.
func unframed(fact string) string {
	inner, framed := strings.CutPrefix(fact, `text "1 error occurred:\n\t* `)
	if !framed {
		return fact
	}
	return `text "` + strings.TrimSuffix(inner, `\n\n"`) + `"`
}

// checkTexts tells where a refusal of ours has another text than it should, or its text may be another than the other server's and is not
// named.
func checkTexts(list []exchange, here []wire, run string, tell func(string, ...any)) {
	for i, one := range list {
		said, _ := find(here[i].body, "errors.0").(string)
		wanted, _ := filled(one.says, map[string]string{"key": run}).(string)
		_, body := one.differs["body"]
		_, errors := one.differs["errors"]
		if wanted == "" && (!body && !errors || said == "") {
			continue
		}
		if said != wanted {
			tell("exchanges.txt:%d: %s %s %s: says %q, expected %q", one.line, one.method, one.path, one.body, said, wanted)
		}
	}
}

// compareWires tells of each difference that is not known, and of each known one that is gone.
func compareWires(list []exchange, here, there []wire, known bool, tell func(string, ...any)) {
	for i, one := range list {
		found := differences(here[i], there[i])
		said := func(place string) bool {
			for wanted := range one.differs {
				if known && (wanted == place || strings.HasPrefix(place, wanted+".")) {
					return true
				}
			}
			return false
		}
		places := make([]string, 0, len(found))
		for place := range found {
			places = append(places, place)
		}
		slices.Sort(places)
		for _, place := range places {
			if !said(place) {
				tell("exchanges.txt:%d: %s %s %s: %s: %s", one.line, one.method, one.path, one.body, place, found[place])
			}
		}
		for wanted := range one.differs {
			is := func(place string) bool { return wanted == place || strings.HasPrefix(place, wanted+".") }
			if known && !slices.ContainsFunc(places, is) {
				tell("exchanges.txt:%d: %s %s: %s is said to differ (%s) and does not", one.line, one.method, one.path, wanted, one.differs[wanted])
			}
		}
	}
}
