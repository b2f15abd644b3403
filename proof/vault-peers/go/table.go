package main

// step is one call, and what has to come of it. Words in braces stand for what an earlier step kept; {key} is a name of the run's own.
type step struct {
	verb, path string
	body       values
	// status and text (part of an error, or of a warning), and members of the data that must be there and equal.
	status int
	text   string
	want   values
	// keep names members of the data for later steps: name in a step -> member, with dots into objects and lists.
	keep map[string]string
	// differs says why a server of OpenBao answers otherwise, on purpose; then the answers are not compared.
	differs string
}

const (
	hello   = "aGVsbG8="
	world   = "d29ybGQ="
	context = "Y3VzdG9tZXIgNw=="
	ours    = "what cannot be right is 400 here and 500 there, so that clients do not ask again"
	noCap   = "a type of our own"
)

func batch(items ...values) []any {
	list := make([]any, len(items))
	for at, item := range items {
		list[at] = item
	}
	return list
}

// The table of keys.md, 1.3 and 1.4, in the order in which a key lives.
var table = []step{
	// Keys.
	{verb: "read", path: "transit/keys/{key}", status: 404},
	{verb: "write", path: "transit/keys/{key}", status: 200, want: values{"latest_version": 1.0, "type": "aes256-gcm96", "derived": false, "exportable": false}},
	{verb: "write", path: "transit/keys/{key}", status: 200, text: "already existed", differs: "OpenBao makes nothing either, and does not say so"},
	{verb: "read", path: "transit/keys/{key}", status: 200, want: values{"min_decryption_version": 1.0, "min_available_version": 0.0, "supports_encryption": true}},
	{verb: "list", path: "transit/keys", status: 200},
	{verb: "write", path: "transit/keys/{key}-x", body: values{"type": "ed448"}, status: 400, text: "unknown key type", differs: "the text lists what is offered"},
	{verb: "write", path: "transit/keys/{key}-own", body: values{"type": "aes256-gcm-siv"}, status: 200, want: values{"type": "aes256-gcm-siv"}, differs: noCap},
	{verb: "write", path: "transit/keys/{key}-bulk", body: values{"type": "aes256-cbc-cmac"}, status: 200, differs: noCap},
	// One message.
	{verb: "write", path: "transit/encrypt/{key}", body: values{"plaintext": hello}, status: 200, want: values{"key_version": 1.0}, keep: map[string]string{"old": "ciphertext"}},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "{old}"}, status: 200, want: values{"plaintext": hello}},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"plaintext": ""}, status: 200, keep: map[string]string{"empty": "ciphertext"}},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "{empty}"}, status: 200, want: values{"plaintext": ""}},
	{verb: "write", path: "transit/encrypt/{key}", body: values{}, status: 400, text: "missing plaintext to encrypt"},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"plaintext": "a"}, status: 400, text: "illegal base64 data at input byte"},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"plaintext": hello, "key_version": "1"}, status: 200, want: values{"key_version": 1.0}},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"plaintext": hello, "key_version": 7}, status: 400, text: "higher than the latest key version"},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "vault:v9:AAAA"}, status: 400, text: "version is too new"},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "nothing"}, status: 400, text: "no prefix"},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "vault:v1:AAAA"}, status: 400, text: "invalid ciphertext length"},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "vault:v1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, status: 400, text: "message authentication failed"},
	{verb: "write", path: "transit/decrypt/{key}-none", body: values{"ciphertext": "{old}"}, status: 400, text: "encryption key not found"},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"plaintext": hello, "associated_data": world}, status: 200, keep: map[string]string{"bound": "ciphertext"}},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "{bound}", "associated_data": world}, status: 200, want: values{"plaintext": hello}},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "{bound}", "associated_data": hello}, status: 400, text: "message authentication failed"},
	// Batches.
	{verb: "write", path: "transit/encrypt/{key}", body: values{"batch_input": batch(values{"plaintext": hello, "reference": "<one>"}, values{"plaintext": world})}, status: 200, keep: map[string]string{"first": "batch_results.0.ciphertext", "second": "batch_results.1.ciphertext"}},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"batch_input": batch(values{"ciphertext": "{second}", "reference": "2"}, values{"ciphertext": "{first}"})}, status: 200,
		want: values{"batch_results": batch(values{"plaintext": world, "reference": "2"}, values{"plaintext": hello, "reference": ""})}},
	// Both modules make an error of the 400 of a mixed batch and drop its results: who wants them asks for another status.
	{verb: "write", path: "transit/decrypt/{key}", body: values{"batch_input": batch(values{"ciphertext": "{first}"}, values{"ciphertext": ""})}, status: 400},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"partial_failure_response_code": 200, "batch_input": batch(values{"ciphertext": "{first}"}, values{"ciphertext": ""})}, status: 200,
		want: values{"batch_results": batch(values{"plaintext": hello, "reference": ""}, values{"plaintext": "", "error": "missing ciphertext to decrypt", "reference": ""})}},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"batch_input": batch()}, status: 400, text: "missing batch input to process"},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"batch_input": "text"}, status: 400, text: "source data must be an array or slice, got string", differs: ours},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"batch_input": batch(values{})}, status: 400, text: "'[0].plaintext' missing plaintext to encrypt", differs: ours},
	{verb: "write", path: "transit/encrypt/{key}", body: values{"batch_input": batch(values{"plaintext": hello, "context": context}, values{"plaintext": hello})}, status: 400, text: "context should be set either in all"},
	// Versions.
	{verb: "write", path: "transit/keys/{key}/rotate", status: 200, want: values{"latest_version": 2.0}},
	{verb: "write", path: "transit/rewrap/{key}", body: values{"ciphertext": "{old}"}, status: 200, want: values{"key_version": 2.0}, keep: map[string]string{"new": "ciphertext"}},
	{verb: "write", path: "transit/rewrap/{key}", body: values{"batch_input": batch(values{"ciphertext": "{old}"}, values{"ciphertext": "{first}", "reference": "r"})}, status: 200, keep: map[string]string{"again": "batch_results.1.ciphertext"}},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "{again}"}, status: 200, want: values{"plaintext": hello}},
	{verb: "write", path: "transit/keys/{key}/config", body: values{"min_decryption_version": 7}, status: 400, text: "latest key version is 2"},
	{verb: "write", path: "transit/keys/{key}/config", body: values{"min_decryption_version": 2, "min_encryption_version": 2}, status: 200, want: values{"min_decryption_version": 2.0}},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "{old}"}, status: 400, text: "disallowed by policy (too old)"},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "{new}"}, status: 200, want: values{"plaintext": hello}},
	{verb: "write", path: "transit/keys/{key}/trim", body: values{"min_available_version": 2}, status: 200, want: values{"min_available_version": 2.0}},
	// Contexts.
	{verb: "write", path: "transit/keys/{key}-derived", body: values{"derived": true, "convergent_encryption": true}, status: 200, want: values{"kdf": "hkdf_sha256", "convergent_encryption": true}},
	{verb: "write", path: "transit/encrypt/{key}-derived", body: values{"plaintext": hello, "context": context}, status: 200, keep: map[string]string{"same": "ciphertext"}},
	{verb: "write", path: "transit/encrypt/{key}-derived", body: values{"plaintext": hello, "context": context}, status: 200, want: values{"ciphertext": "{same}"}},
	{verb: "write", path: "transit/decrypt/{key}-derived", body: values{"ciphertext": "{same}", "context": world}, status: 400, text: "message authentication failed"},
	// Data keys, tags, hashes, random bytes.
	{verb: "write", path: "transit/datakey/plaintext/{key}", body: values{"bits": 128}, status: 200, keep: map[string]string{"data": "plaintext", "wrapped": "ciphertext"}},
	{verb: "write", path: "transit/decrypt/{key}", body: values{"ciphertext": "{wrapped}"}, status: 200, want: values{"plaintext": "{data}"}},
	{verb: "write", path: "transit/datakey/wrapped/{key}", status: 200},
	{verb: "write", path: "transit/hmac/{key}", body: values{"input": hello}, status: 200, keep: map[string]string{"tag": "hmac"}},
	{verb: "write", path: "transit/verify/{key}", body: values{"input": hello, "hmac": "{tag}"}, status: 200, want: values{"valid": true}},
	{verb: "write", path: "transit/verify/{key}", body: values{"input": world, "hmac": "{tag}"}, status: 200, want: values{"valid": false}},
	{verb: "write", path: "transit/hmac/{key}/sha2-512", body: values{"input": hello}, status: 200},
	{verb: "write", path: "transit/hash/sha2-256", body: values{"input": hello}, status: 200, want: values{"sum": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}},
	{verb: "write", path: "transit/random/16", status: 200},
	// Out of the node, and in again.
	{verb: "read", path: "transit/export/encryption-key/{key}", status: 400, text: "not exportable"},
	{verb: "write", path: "transit/keys/{key}/config", body: values{"exportable": true, "allow_plaintext_backup": true, "deletion_allowed": true}, status: 200},
	{verb: "read", path: "transit/export/encryption-key/{key}/latest", status: 200, want: values{"name": "{key}"}},
	{verb: "read", path: "transit/backup/{key}", status: 200, keep: map[string]string{"backup": "backup"}},
	{verb: "write", path: "transit/restore/{key}-back", body: values{"backup": "{backup}"}, status: 204},
	{verb: "write", path: "transit/decrypt/{key}-back", body: values{"ciphertext": "{new}"}, status: 200, want: values{"plaintext": hello}},
	{verb: "delete", path: "transit/keys/{key}-derived", status: 400, text: "deletion is not allowed for this key"},
	{verb: "delete", path: "transit/keys/{key}", status: 204},
	{verb: "delete", path: "transit/keys/{key}", status: 400, text: "could not delete key; not found"},
	{verb: "read", path: "transit/keys/{key}", status: 404},
	// What there is none of.
	{verb: "read", path: "nope/keys/a", status: 404},
	{verb: "write", path: "nope/encrypt/a", body: values{}, status: 404, text: "no handler for route"},
	{verb: "write", path: "transit/nothing/here", body: values{}, status: 404, text: "unsupported path"},
	{verb: "delete", path: "transit/encrypt/a", status: 405, text: "unsupported operation"},
	{verb: "write", path: "transit/keys", body: values{}, status: 405, text: "unsupported operation"},
}
