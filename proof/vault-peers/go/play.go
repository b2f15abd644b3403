package main

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// play carries the table out and returns the answers. What is not as it should be goes to tell; strict also wants what differs on purpose.
func play(c client, key string, strict bool, tell func(string, ...any)) []answer {
	kept := map[string]string{"key": key}
	answers := make([]answer, len(table))
	for at, step := range table {
		path, body := filled(step.path, kept).(string), plain(step.body)
		filledBody, _ := filled(body, kept).(values)
		got, err := c.logical(step.verb, path, filledBody)
		if err != nil {
			tell("%s: %s %s: %v", c.name, step.verb, path, err)
			continue
		}
		got.data = plain(got.data)
		answers[at] = got
		if strict || step.differs == "" {
			for _, wrong := range judge(step, got, kept) {
				tell("%s: %s %s %v: %s", c.name, step.verb, path, filledBody, wrong)
			}
		}
		for name, member := range step.keep {
			if text, ok := find(got.data, member).(string); ok {
				kept[name] = text
			} else {
				tell("%s: %s %s: there is no text %s in %v", c.name, step.verb, path, member, got.data)
			}
		}
	}
	return answers
}

func judge(step step, got answer, kept map[string]string) []string {
	var wrong []string
	if got.status != step.status {
		wrong = append(wrong, fmt.Sprintf("expected status %d, got %d %v", step.status, got.status, got.errors))
	}
	said := strings.Join(append(append([]string{}, got.errors...), got.warnings...), "\n")
	if !strings.Contains(said, step.text) {
		wrong = append(wrong, fmt.Sprintf("expected the text %q, got %q", step.text, said))
	}
	for member, want := range plain(step.want) {
		if want := filled(want, kept); !reflect.DeepEqual(got.data[member], want) {
			wrong = append(wrong, fmt.Sprintf("expected %s to be %v, got %v", member, want, got.data[member]))
		}
	}
	return wrong
}

// filled puts what was kept into the places of its names.
func filled(value any, kept map[string]string) any {
	switch value := value.(type) {
	case string:
		for name, text := range kept {
			value = strings.ReplaceAll(value, "{"+name+"}", text)
		}
		return value
	case values:
		for name, member := range value {
			value[name] = filled(member, kept)
		}
		return value
	case []any:
		for at, item := range value {
			value[at] = filled(item, kept)
		}
		return value
	}
	return value
}

// find goes into objects and lists: "batch_results.0.ciphertext".
func find(value any, path string) any {
	for _, name := range strings.Split(path, ".") {
		switch at := value.(type) {
		case values:
			value = at[name]
		case []any:
			place, err := strconv.Atoi(name)
			if err != nil || place >= len(at) {
				return nil
			}
			value = at[place]
		default:
			return nil
		}
	}
	return value
}

var sealed = regexp.MustCompile(`vault:v(\d+):[A-Za-z0-9+/=]+`)

// Members whose values are another server's own: random, times, or what a peer may have besides.
var random = map[string]bool{"random_bytes": true, "backup": true}

// comparable takes out of an answer what two servers cannot have in common: what is random, and times.
func comparable(value any, name, path string) any {
	switch value := value.(type) {
	case string:
		if random[name] || strings.Contains(path, "transit/datakey/plaintext") && name == "plaintext" {
			return "random"
		}
		return sealed.ReplaceAllString(value, "vault:v$1:")
	case values:
		result := values{}
		for member, inner := range value {
			if name == "keys" {
				result[member] = "a time, or a key"
				continue
			}
			result[member] = comparable(inner, member, path)
		}
		return result
	case []any:
		if name == "keys" && strings.HasPrefix(path, "transit/keys") {
			return "names of keys"
		}
		result := make([]any, len(value))
		for at, inner := range value {
			result[at] = comparable(inner, name, path)
		}
		return result
	}
	return value
}

// compare tells where two servers answered the same call differently, member by member.
func compare(ours, theirs []answer, tell func(string, ...any)) int {
	compared := 0
	for at, step := range table {
		if step.differs != "" {
			continue
		}
		compared++
		one, other := ours[at], theirs[at]
		if one.status != other.status || !reflect.DeepEqual(one.errors, other.errors) {
			tell("%s %s: we answer %d %q, OpenBao %d %q", step.verb, step.path, one.status, one.errors, other.status, other.errors)
		}
		a, _ := comparable(one.data, "", step.path).(values)
		b, _ := comparable(other.data, "", step.path).(values)
		for member := range b {
			if text, ok := step.want[member].(string); ok && strings.Contains(text, "{") {
				// What an earlier step kept, and was judged by: each server has its own.
				continue
			}
			if !reflect.DeepEqual(a[member], b[member]) {
				tell("%s %s: %s is %v here, and %v there", step.verb, step.path, member, a[member], b[member])
			}
		}
		for member := range a {
			if _, there := b[member]; !there {
				tell("%s %s: %s is %v here, and is not there", step.verb, step.path, member, a[member])
			}
		}
	}
	return compared
}
