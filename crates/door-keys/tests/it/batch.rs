//! The rows of the table of batches: encrypting, decrypting, rewrapping, tags, data keys.

use serde_json::{Value, json};

use crate::support::{Got, Node, b64, unb64};

fn batch(node: &mut Node, path: &str, items: Value) -> Got {
    node.post(path, json!({ "batch_input": items }).to_string())
}

fn encrypt(node: &mut Node, items: Value) -> Got {
    batch(node, "transit/encrypt/a", items)
}

fn decrypt(node: &mut Node, items: Value) -> Got {
    batch(node, "transit/decrypt/a", items)
}

#[test]
fn items_that_work_come_back_in_order() {
    for kind in KINDS {
        let mut node = Node::with_key(&json!({ "type": kind }).to_string());
        node.post("transit/keys/a/rotate", "");
        let items: Vec<Value> = (0..1000)
            .map(|at| json!({"plaintext": b64(format!("serial {at}")), "reference": at.to_string(), "key_version": at / 300 % 3,
                             "associated_data": b64(at.to_string())}))
            .collect();
        let got = encrypt(&mut node, json!(items));
        assert_eq!(got.status, 200);
        let sealed = got.results();
        assert_eq!(sealed.len(), 1000);
        for (at, item) in sealed.iter().enumerate() {
            let version = if at / 300 % 3 == 1 { 1 } else { 2 };
            assert_eq!(item["key_version"], json!(version), "{at}");
            assert!(
                item["ciphertext"].as_str().unwrap().starts_with(&format!("vault:v{version}:"))
            );
            assert_eq!(item["reference"], json!(at.to_string()));
            assert_eq!(item.as_object().unwrap().len(), 3);
        }
        let items: Vec<Value> = sealed.iter().enumerate()
            .map(|(at, item)| json!({"ciphertext": item["ciphertext"], "associated_data": b64(at.to_string())})).collect();
        for (at, item) in decrypt(&mut node, json!(items)).results().iter().enumerate() {
            assert_eq!(
                item,
                &json!({"plaintext": b64(format!("serial {at}")), "reference": ""}),
                "{kind}"
            );
        }
        let rewrapped = batch(&mut node, "transit/rewrap/a", json!(items));
        assert_eq!(rewrapped.status, 200);
        for (at, item) in rewrapped.results().iter().enumerate() {
            assert_eq!(item["key_version"], json!(2), "{kind} {at}: {item}");
        }
    }
}

/// The types of Transit, and what they are elsewhere.
const GCM: [(&str, &ring::aead::Algorithm); 2] =
    [("aes256-gcm96", &ring::aead::AES_256_GCM), ("aes128-gcm96", &ring::aead::AES_128_GCM)];

const KINDS: [&str; 5] =
    ["aes256-gcm96", "aes128-gcm96", "aes256-gcm-siv", "aes256-cbc-cmac", "aes256-cbc-hmac-sha256"];

/// Returns the plaintexts of messages that are opened in one call.
fn opened(node: &mut Node, texts: &[String]) -> Vec<Value> {
    let items: Vec<Value> = texts.iter().map(|text| json!({ "ciphertext": text })).collect();
    decrypt(node, json!(items)).results().iter().map(|item| item["plaintext"].clone()).collect()
}

/// Short texts are read and written together, long ones and single ones alone: nobody can tell.
#[test]
fn every_length_comes_back_whichever_way_it_was_read() {
    for kind in KINDS {
        let mut node = Node::with_key(&json!({ "type": kind }).to_string());
        // All are short; one is so long that the part is not read together.
        for longest in [70, 200_000] {
            let lengths = (0..70_u32).chain([longest]);
            let plain: Vec<String> = lengths
                .map(|len| b64((0..len).map(|at| at.to_le_bytes()[0] ^ 0xb5).collect::<Vec<u8>>()))
                .collect();
            let items: Vec<Value> = plain.iter().map(|text| json!({ "plaintext": text })).collect();
            // As PHP writes a slash.
            let body = json!({ "batch_input": items }).to_string().replace('/', "\\/");
            let got = node.post("transit/encrypt/a", body);
            let text = |item: &Value| item["ciphertext"].as_str().unwrap().to_owned();
            let sealed: Vec<String> = got.results().iter().map(text).collect();
            assert_eq!(opened(&mut node, &sealed), plain, "{kind}");
            for (sealed, plain) in sealed.iter().zip(&plain) {
                let item = json!({ "ciphertext": sealed }).to_string();
                let got = node.post("transit/decrypt/a", item);
                assert_eq!(got.json()["data"]["plaintext"], json!(plain), "{kind}");
                // The strict reader: filled up as it should be, without a bit left over.
                let bytes = unb64(sealed.split(':').next_back().unwrap());
                assert!(bytes.len() >= 28, "{kind}");
            }
        }
    }
}

#[test]
fn one_odd_text_changes_nothing_for_those_beside_it() {
    let mut node = Node::with_key(r#"{"type":"aes256-cbc-cmac"}"#);
    let plain: Vec<String> = (0..40).map(|at| b64(format!("{at:032}"))).collect();
    let items: Vec<Value> = plain.iter().map(|text| json!({ "plaintext": text })).collect();
    let got = encrypt(&mut node, json!(items));
    let text = |item: &Value| item["ciphertext"].as_str().unwrap().to_owned();
    let sealed: Vec<String> = got.results().iter().map(text).collect();
    let with_line_ends = format!("{}\r\n{}", &sealed[7][..20], &sealed[7][20..]);
    let cut = sealed[7][..sealed[7].len() - 1].to_owned();
    let odd = [
        (with_line_ends, json!(plain[7])),
        (sealed[7].replace('=', "*"), json!("")),
        (sealed[7].replace("vault:v1:", "vault:v1:===="), json!("")),
        (sealed[7].replace("vault:v1:", "vault:v1:AA=="), json!("")),
        (cut, json!("")),
    ];
    for (odd, expected) in odd {
        let mut texts = sealed.clone();
        texts[7].clone_from(&odd);
        let got = opened(&mut node, &texts);
        for (at, got) in got.iter().enumerate() {
            let expected = if at == 7 { expected.clone() } else { json!(plain[at]) };
            assert_eq!(*got, expected, "{odd} {at}");
        }
    }
    for (odd, at) in [("aGVsbG8", 4), ("A===", 1), ("aGVsbG8=aGVs", 8), ("AB=C", 2)] {
        let got = encrypt(&mut node, json!([{"plaintext": "eA=="}, {"plaintext": odd}]));
        assert!(got.results()[0]["ciphertext"].is_string(), "{odd}");
        let error = format!("illegal base64 data at input byte {at}");
        assert_eq!(got.results()[1]["error"], json!(error), "{odd}");
    }
}

#[test]
fn items_that_fail_say_why_and_the_others_go_on() {
    let mut node = Node::with_key("{}");
    let got = encrypt(
        &mut node,
        json!([{"plaintext": "!"}, {"plaintext": b64("x"), "reference": "r"}, {"plaintext": "eA==", "key_version": 9}]),
    );
    assert_eq!(got.status, 400);
    let results = got.results();
    assert_eq!(
        results[0],
        json!({"error": "illegal base64 data at input byte 0", "reference": ""})
    );
    assert_eq!(
        (results[1]["reference"].clone(), results[1]["key_version"].clone()),
        (json!("r"), json!(1))
    );
    assert_eq!(
        results[2]["error"],
        "requested version for encryption is higher than the latest key version"
    );
    let good = results[1]["ciphertext"].clone();
    let known = [
        ("", "missing ciphertext to decrypt"),
        ("abc", "invalid ciphertext: no prefix"),
        ("vault:v1", "invalid ciphertext: wrong number of fields"),
        ("vault:vx:AAAA", "invalid ciphertext: version number could not be decoded"),
        ("vault:v9:AAAA", "invalid ciphertext: version is too new"),
        ("vault:v9:!", "invalid ciphertext: version is too new"),
        ("vault:v9:AAAAAAAAAAAAAAAAAAAAAAAA", "invalid ciphertext: version is too new"),
        ("vault:v1:!", "invalid ciphertext: could not decode base64"),
        ("vault:v1:AAAA", "invalid ciphertext length"),
        (
            "vault:v1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "cipher: message authentication failed",
        ),
    ];
    let mut items: Vec<Value> = known.iter().map(|(text, _)| json!({"ciphertext": text})).collect();
    items.insert(4, json!({"ciphertext": good, "reference": "<&>\"\\"}));
    let got = decrypt(&mut node, json!(items));
    assert_eq!(got.status, 400);
    let mut results = got.results();
    assert_eq!(results.remove(4), json!({"plaintext": b64("x"), "reference": "<&>\"\\"}));
    for (result, (text, error)) in results.iter().zip(known) {
        assert_eq!(result, &json!({"plaintext": "", "error": error, "reference": ""}), "{text}");
        // One alone: the same text.
        let single = node.post("transit/decrypt/a", json!({"ciphertext": text}).to_string());
        assert_eq!(single.error(), (400, error.into()));
    }
}

#[test]
fn the_status_of_a_batch_follows_its_worst_item() {
    let mut node = Node::with_key("{}");
    let fine = json!({"plaintext": "eA=="});
    let users = json!({"plaintext": "!"});
    let internal = json!({"plaintext": "eA==", "associated_data": "!"});
    let mut status = |items: Value, code: Value| {
        let body = json!({"batch_input": items, "partial_failure_response_code": code}).to_string();
        node.post("transit/encrypt/a", body)
    };
    assert_eq!(status(json!([fine]), json!(202)).status, 200, "nothing failed");
    assert_eq!(status(json!([fine, users]), json!(null)).status, 400);
    assert_eq!(status(json!([fine, internal]), json!(null)).status, 500);
    assert_eq!(status(json!([users, internal]), json!(null)).status, 400, "a user's fault wins");
    assert_eq!(status(json!([fine, users]), json!(200)).status, 200);
    assert_eq!(status(json!([fine, users]), json!("299")).status, 299);
    assert_eq!(status(json!([users]), json!(200)).status, 400, "none worked");
    let reverted =
        "invalid HTTP response code override from partial_failure_response_code, reverting to 400";
    for code in [json!(600), json!(-1), json!(0), json!(101), json!(204)] {
        let got = status(json!([fine, users]), code);
        assert_eq!((got.status, got.json()["warnings"].clone()), (400, json!([reverted])));
    }
    assert_eq!(status(json!([fine, internal]), json!(600)).status, 500);
    for path in ["transit/rewrap/a", "transit/hmac/a"] {
        let got = batch(&mut node, path, json!([{"ciphertext": "x", "input": "!"}, {}]));
        assert_eq!(got.status, 200, "{path}: errors stand inside");
        assert!(got.results().iter().all(|item| item["error"].is_string()));
    }
    let single = node.post("transit/encrypt/a", r#"{"plaintext":"eA==","associated_data":"!"}"#);
    assert_eq!(single.error(), (500, format!("1 error occurred:\n\t* {AAD_BASE64}\n\n")));
    let data_key = node.post("transit/datakey/wrapped/a", r#"{"associated_data":"!"}"#);
    assert_eq!(data_key.error(), (500, format!("1 error occurred:\n\t* {AAD_BASE64}\n\n")));
    let body = r#"{"batch_input":[{"plaintext":"eA==","associated_data":"!"}]}"#;
    let failed = node.post("transit/encrypt/a", body).results();
    assert_eq!(failed, [json!({"error": AAD_BASE64, "reference": ""})]);
}

const AAD_BASE64: &str = "unable to get associated_data/additional_data from factory[0]: illegal base64 data at input byte 0";

/// What OpenBao does of what is there and empty, or null.
#[test]
fn what_is_null_or_empty_is_not_there() {
    let mut node = Node::with_key("{}");
    let context = "context should be set either in all the request blocks or in none";
    let items = json!([{"plaintext": "", "context": "eA=="}, {"plaintext": "", "context": ""}]);
    assert_eq!(encrypt(&mut node, items).error(), (400, context.into()));
    let good = node.encrypt("x");
    let items = json!([{"ciphertext": good, "context": "eA=="}, {"ciphertext": good}]);
    assert_eq!(batch(&mut node, "transit/rewrap/a", items).error(), (400, context.into()));
    // A row of a database that holds nothing: the others are opened.
    let got = decrypt(&mut node, json!([{"ciphertext": null}, {"ciphertext": good}]));
    assert_eq!(got.status, 400);
    let missing =
        json!({"plaintext": "", "error": "missing ciphertext to decrypt", "reference": ""});
    assert_eq!(got.results(), [missing, json!({"plaintext": b64("x"), "reference": ""})]);
    // A key that an empty context makes has none.
    for (name, body) in [
        ("b", json!({"plaintext": "", "context": ""})),
        ("c", json!({"batch_input": [{"plaintext": "", "context": ""}]})),
    ] {
        assert_eq!(node.post(&format!("transit/encrypt/{name}"), body.to_string()).status, 200);
        assert_eq!(node.get(&format!("transit/keys/{name}")).data()["derived"], json!(false));
    }
    let convergent =
        node.post("transit/encrypt/d", r#"{"plaintext":"","convergent_encryption":true}"#);
    let text = "convergent encryption requires derivation to be enabled, so context is required";
    assert_eq!(convergent.error(), (400, text.into()));
}

#[test]
fn requests_that_cannot_be_right_are_refused_whole() {
    let mut node = Node::with_key("{}");
    let list = "failed to parse batch input: source data must be an array or slice, got ";
    let known = [
        (json!([]), "missing batch input to process".to_string()),
        (json!("x"), format!("{list}string")),
        (json!(5), format!("{list}json.Number")),
        (json!({}), format!("{list}map[string]interface {{}}")),
        (json!(["x"]), "failed to parse batch input: [0] expected a map, got 'string'".into()),
        (json!([{"plaintext": "eA=="}, {}]), "failed to parse batch input: '[1].plaintext' missing plaintext to encrypt".into()),
        (json!([{"plaintext": null}]), "failed to parse batch input: '[0].plaintext' expected type 'string', got unconvertible type '<nil>'".into()),
        (json!([{"plaintext": 5}]), "failed to parse batch input: '[0].plaintext' expected type 'string', got unconvertible type 'json.Number'".into()),
        (json!([{"plaintext": "", "key_version": "1"}]), "failed to parse batch input: '[0].key_version' expected type 'int', got unconvertible type 'string'".into()),
        (json!([{"plaintext": "", "key_version": 1.5}]), "failed to parse batch input: '[0].key_version' expected type 'int', got unconvertible type 'json.Number'".into()),
        (json!([{"plaintext": "", "reference": []}]), "failed to parse batch input: '[0].reference' expected type 'string', got unconvertible type '[]interface {}'".into()),
        (json!([{"plaintext": "", "context": "eA=="}, {"plaintext": ""}]), "context should be set either in all the request blocks or in none".into()),
    ];
    for (items, text) in known {
        assert_eq!(encrypt(&mut node, items.clone()).error(), (400, text), "{items}");
    }
    let two = encrypt(&mut node, json!([{}, 1])).error().1;
    assert!(two.contains("'[0].plaintext'") && two.contains("\n[1] expected a map"), "{two}");
    let many = encrypt(&mut node, json!(vec![json!({}); 1000])).error().1;
    assert!(many.ends_with("and 992 more"), "{many}");
    let missing = decrypt(&mut node, json!([{"plaintext": ""}])).error();
    assert_eq!(
        missing.1,
        "failed to parse batch input: '[0].ciphertext' missing ciphertext to decrypt"
    );
    let used = node.store.keys().get("a").unwrap().versions().get(1).unwrap().count().used();
    assert_eq!(used, 0, "nothing was sealed");
}

/// Bad associated data is 500, as others have it, and clients ask again for that: not where something else is wrong, too.
#[test]
fn what_else_is_wrong_with_an_item_is_told_before_its_associated_data() {
    let mut node = Node::with_key("{}");
    for fault in [
        json!({"plaintext": "!", "associated_data": "!"}),
        json!({"plaintext": "AAAA", "key_version": 9, "associated_data": "!"}),
        json!({"plaintext": "AAAA", "key_version": -1, "associated_data": "!"}),
    ] {
        assert_eq!(
            encrypt(&mut node, json!([fault])).status,
            400,
            "{fault}: it is not asked again"
        );
    }
    let both = json!([{"ciphertext": "nothing", "associated_data": "!"}]);
    assert_eq!(decrypt(&mut node, both).status, 400);
}

#[test]
fn top_level_members_are_read_weakly() {
    let mut node = Node::with_key("{}");
    let mut encrypt = |body: &str| node.post("transit/encrypt/a", body);
    assert_eq!(encrypt("{}").error(), (400, "missing plaintext to encrypt".into()));
    assert_eq!(
        encrypt("").error(),
        (400, "missing plaintext to encrypt".into()),
        "an empty body is an empty object"
    );
    assert_eq!(encrypt("null").error().0, 400);
    assert_eq!(
        encrypt(r#"{"plaintext":5}"#).error(),
        (400, "illegal base64 data at input byte 0".into()),
        "a number is a text"
    );
    assert_eq!(encrypt(r#"{"plaintext":1234}"#).data()["key_version"], json!(1));
    assert_eq!(encrypt(r#"{"plaintext":""}"#).status, 200, "an empty plaintext is legal");
    // hvac sends null beside a batch.
    assert_eq!(
        encrypt(r#"{"plaintext":null,"context":null,"batch_input":[{"plaintext":""}]}"#)
            .results()
            .len(),
        1
    );
    assert_eq!(encrypt(r#"{"batch_input":null,"plaintext":"eA=="}"#).status, 200);
    assert_eq!(
        encrypt(r#"{"plaintext":"!","plaintext":"eA=="}"#).status,
        200,
        "the last one counts"
    );
    assert_eq!(
        encrypt(r#"{"batch_input":[{}],"batch_input":[{"plaintext":"!","plaintext":"eA=="}]}"#)
            .results()
            .len(),
        1
    );
    assert_eq!(
        encrypt(r#"{"plaintext":"aGVs\r\nbG8="}"#).status,
        200,
        "line ends inside are skipped"
    );
    assert_eq!(
        encrypt(r#"{"plaintext":"aGVsbG8"}"#).error().1,
        "illegal base64 data at input byte 4"
    );
    assert_eq!(encrypt(r#"{"plaintext":"\u002b\/\/\u002b"}"#).status, 200, "escapes are read");
    assert!(encrypt(r#"{"plaintext":["eA=="]}"#).error().1.contains("field \"plaintext\""));
    assert!(
        encrypt(r#"{"plaintext":"eA==","key_version":"x"}"#)
            .error()
            .1
            .contains("field \"key_version\"")
    );
    assert_eq!(encrypt(r#"{"plaintext":"eA==","key_version":""}"#).status, 200);
    assert_eq!(
        encrypt("{\"plaintext\":").error(),
        (400, "failed to decode JSON input: unexpected EOF".into())
    );
    assert_eq!(
        encrypt("[]").error(),
        (400, "failed to decode JSON input: json: cannot unmarshal array into Go value of type map[string]interface {}".into())
    );
}

/// What Transit makes of `hello` and the context `tenant` with a convergent key, computed with other implementations of HKDF, HMAC and
/// AES-GCM: the first bytes of HKDF are the cipher's key, the 32 behind it the key of nonces.
fn convergent_of_transit(key: &[u8], cipher: &'static ring::aead::Algorithm) -> String {
    struct Length(usize);
    impl ring::hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let mut derived = vec![0; cipher.key_len() + 32];
    let salt = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(key);
    salt.expand(&[b"tenant"], Length(derived.len())).unwrap().fill(&mut derived).unwrap();
    let (sealing, of_nonces) = derived.split_at(cipher.key_len());
    let of_nonces = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, of_nonces);
    let nonce = ring::hmac::sign(&of_nonces, b"hello");
    let nonce = &nonce.as_ref()[..12];
    let mut text = b"hello".to_vec();
    let unique = ring::aead::Nonce::try_assume_unique_for_key(nonce).unwrap();
    ring::aead::LessSafeKey::new(ring::aead::UnboundKey::new(cipher, sealing).unwrap())
        .seal_in_place_append_tag(unique, ring::aead::Aad::empty(), &mut text)
        .unwrap();
    format!("vault:v1:{}", b64([nonce, &text].concat()))
}

#[test]
fn derived_and_convergent_keys_are_those_of_transit() {
    for (kind, cipher) in GCM {
        let options = json!({"type": kind, "derived": true, "convergent_encryption": true, "exportable": true});
        let mut node = Node::with_key(&options.to_string());
        let body = json!({"plaintext": b64("hello"), "context": b64("tenant")}).to_string();
        let one = node.post("transit/encrypt/a", &body).data()["ciphertext"].clone();
        assert_eq!(
            node.post("transit/encrypt/a", &body).data()["ciphertext"],
            one,
            "equal plaintexts, equal messages"
        );
        let exported = node.get("transit/export/encryption-key/a").data()["keys"]["1"].clone();
        let key = unb64(exported.as_str().unwrap());
        assert_eq!(
            (key.len(), one),
            (cipher.key_len(), json!(convergent_of_transit(&key, cipher)))
        );
        contexts_are_told_apart(&mut node);
    }
}

/// Of a node with a convergent key.
fn contexts_are_told_apart(node: &mut Node) {
    let body = json!({"plaintext": b64("hello"), "context": b64("tenant")}).to_string();
    let one = node.post("transit/encrypt/a", &body).data()["ciphertext"].clone();
    let no_context = "missing 'context' for key derivation";
    assert!(
        node.post("transit/encrypt/a", r#"{"plaintext":"eA=="}"#).error().1.starts_with(no_context)
    );
    let other = json!({"ciphertext": one, "context": b64("other")}).to_string();
    assert_eq!(
        node.post("transit/decrypt/a", other).error().1,
        "cipher: message authentication failed"
    );
    // Many contexts in one batch.
    let items: Vec<Value> = (0..300)
        .map(|at| json!({"plaintext": "eA==", "context": b64((at / 7).to_string())}))
        .collect();
    let sealed = encrypt(node, json!(items)).results();
    let items: Vec<Value> = sealed
        .iter()
        .zip(&items)
        .map(|(item, from)| json!({"ciphertext": item["ciphertext"], "context": from["context"]}))
        .collect();
    assert!(decrypt(node, json!(items)).results().iter().all(|item| item["plaintext"] == "eA=="));
    assert_eq!(sealed[0]["ciphertext"], sealed[1]["ciphertext"]);
    assert_ne!(sealed[0]["ciphertext"], sealed[7]["ciphertext"]);
    let bound =
        encrypt(node, json!([{"plaintext": "eA==", "context": "eA==", "associated_data": "eA=="}]));
    assert!(bound.results()[0]["error"].as_str().unwrap().contains("not possible with convergent"));
}

#[test]
fn tags_are_made_and_judged() {
    let mut node = Node::with_key("{}");
    let tag = |node: &mut Node, path: &str, body: Value| {
        node.post(path, body.to_string()).data()["hmac"].clone()
    };
    let one = tag(&mut node, "transit/hmac/a", json!({"input": b64("x")}));
    assert_eq!(tag(&mut node, "transit/hmac/a/sha2-256", json!({"input": b64("x")})), one);
    assert_eq!(
        tag(&mut node, "transit/hmac/a", json!({"input": b64("x"), "algorithm": "sha2-256"})),
        one
    );
    let long = tag(&mut node, "transit/hmac/a/sha2-512", json!({"input": b64("x")}));
    assert_eq!(unb64(long.as_str().unwrap().strip_prefix("vault:v1:").unwrap()).len(), 64);
    node.post("transit/keys/a/rotate", "");
    let two = tag(&mut node, "transit/hmac/a", json!({"input": b64("x")}));
    assert!(two.as_str().unwrap().starts_with("vault:v2:") && two != one);
    assert_eq!(tag(&mut node, "transit/hmac/a", json!({"input": b64("x"), "key_version": 1})), one);
    let mut valid = |path: &str, input: &str, tag: &Value| {
        node.post(path, json!({"input": b64(input), "hmac": tag}).to_string())
    };
    for (input, tag, expected) in
        [("x", &one, true), ("x", &two, true), ("y", &one, false), ("x", &long, false)]
    {
        assert_eq!(valid("transit/verify/a", input, tag).data(), json!({"valid": expected}));
    }
    assert_eq!(valid("transit/verify/a/sha2-512", "x", &long).data(), json!({"valid": true}));
    let relabelled = json!(one.as_str().unwrap().replace("v1", "v2"));
    assert_eq!(valid("transit/verify/a", "x", &relabelled).data(), json!({"valid": false}));
    assert_eq!(
        valid("transit/verify/a", "x", &json!("abc")).error(),
        (400, "invalid HMAC to verify: no prefix".into())
    );
    assert!(valid("transit/verify/a/md5", "x", &one).error().1.contains("unsupported algorithm"));
    let items = json!([{"input": b64("x"), "hmac": one, "reference": "r"}, {"input": b64("y"), "hmac": one}, {"hmac": one}]);
    let results = batch(&mut node, "transit/verify/a", items).results();
    assert_eq!(results[0], json!({"valid": true, "reference": "r"}));
    assert_eq!(results[1], json!({"valid": false, "reference": ""}));
    assert_eq!(results[2], json!({"error": "missing input", "reference": ""}));
    node.post("transit/keys/h", r#"{"type":"hmac"}"#);
    assert_eq!(node.post("transit/hmac/h", r#"{"input":""}"#).status, 200);
    assert!(
        node.post("transit/encrypt/h", r#"{"plaintext":""}"#)
            .error()
            .1
            .contains("not supported for key type hmac")
    );
}

#[test]
fn tags_that_cannot_be_judged_say_why() {
    let mut node = Node::with_key("{}");
    node.post("transit/keys/a/rotate", "");
    node.post(
        "transit/keys/a/config",
        r#"{"min_decryption_version":2,"min_encryption_version":2}"#,
    );
    let input = "unable to decode input as base64: illegal base64 data at input byte 0";
    let newer = "key version does not exist; latest key version is 2";
    let older = "cannot generate HMAC: version is too old (disallowed by policy)";
    for (body, error) in [
        (json!({"input": "!"}), input),
        (json!({"input": "", "key_version": 3}), newer),
        (json!({"input": "", "key_version": 1}), older),
        (json!({"input": "", "key_version": -1}), older),
        (json!({"batch_input": [{"input": ""}], "key_version": 3}), newer),
    ] {
        let got = node.post("transit/hmac/a", body.to_string());
        assert_eq!(got.error(), (400, error.into()), "{body}");
    }
    let tag = "unable to decode verification HMAC as base64: illegal base64 data at input byte 0";
    for (hmac, error) in [
        ("vault:v2", "invalid HMAC: wrong number of fields"),
        ("vault:vx:AAAA", "invalid HMAC: version number could not be decoded"),
        ("vault:v3:AAAA", "invalid HMAC: version is too new"),
        ("vault:v1:AAAA", "cannot verify HMAC: version is too old (disallowed by policy)"),
        ("vault:v2:!", tag),
    ] {
        let got = node.post("transit/verify/a", json!({"input": "", "hmac": hmac}).to_string());
        assert_eq!(got.error(), (400, error.into()), "{hmac}");
    }
    let made = node.post("transit/hmac/a", r#"{"input":""}"#).data()["hmac"].clone();
    for (body, error) in [
        (json!({"input": ""}), "neither a 'signature' nor an 'hmac' were given to verify"),
        (
            json!({"input": "", "hmac": made, "signature": "x"}),
            "key type aes256-gcm96 does not support verification",
        ),
        (
            json!({"batch_input": [{"input": ""}]}),
            "no batch_input elements have 'signature' or 'hmac'",
        ),
        (
            json!({"batch_input": [{"input": "", "hmac": made}, {"input": ""}]}),
            "some elements of batch_input are missing 'hmac'",
        ),
    ] {
        let got = node.post("transit/verify/a", body.to_string());
        assert_eq!(got.error(), (400, error.into()), "{body}");
    }
    // Of the two members that name an algorithm, tags that are made know one.
    let tag =
        |node: &mut Node, body: &str| node.post("transit/hmac/a", body).data()["hmac"].clone();
    assert_eq!(tag(&mut node, r#"{"input":"","hash_algorithm":"sha2-512"}"#), made);
    assert_ne!(tag(&mut node, r#"{"input":"","algorithm":"sha2-512"}"#), made);
}

#[test]
fn data_keys_random_bytes_and_hashes() {
    let mut node = Node::with_key("{}");
    let plain = node.post("transit/datakey/plaintext/a", r#"{"bits":512}"#).data();
    let key = unb64(plain["plaintext"].as_str().unwrap());
    assert_eq!((key.len(), plain["key_version"].clone()), (64, json!(1)));
    let opened = node
        .post("transit/decrypt/a", json!({"ciphertext": plain["ciphertext"]}).to_string())
        .data();
    assert_eq!(opened["plaintext"], plain["plaintext"]);
    let wrapped = node.post("transit/datakey/wrapped/a", "").data();
    assert!(wrapped.get("plaintext").is_none() && wrapped["ciphertext"] != plain["ciphertext"]);
    assert_eq!(
        node.post("transit/datakey/wrapped/a", r#"{"bits":100}"#).error(),
        (400, "invalid bit length".into())
    );
    assert_eq!(node.post("transit/datakey/wrapped/b", "").error().0, 400);
    let bound = node.post("transit/datakey/plaintext/a", r#"{"associated_data":"eA=="}"#).data();
    let refused =
        node.post("transit/decrypt/a", json!({"ciphertext": bound["ciphertext"]}).to_string());
    assert_eq!(refused.error().1, "cipher: message authentication failed");

    let random = |node: &mut Node, path: &str, body: &str| {
        node.post(path, body).data()["random_bytes"].as_str().unwrap().to_owned()
    };
    assert_eq!(unb64(&random(&mut node, "transit/random", "")).len(), 32);
    assert_eq!(random(&mut node, "transit/random/5", r#"{"format":"hex"}"#).len(), 10);
    assert_eq!(unb64(&random(&mut node, "transit/random/platform/7", "")).len(), 7);
    assert_ne!(
        random(&mut node, "transit/random", r#"{"bytes":16}"#),
        random(&mut node, "transit/random/16", "")
    );
    for (path, body) in [
        ("transit/random/0", ""),
        ("transit/random/999999999", ""),
        ("transit/random/x", ""),
        ("transit/random", r#"{"format":"oct"}"#),
    ] {
        assert_eq!(node.post(path, body).status, 400, "{path}");
    }
    let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(node.post("transit/hash", r#"{"input":"YWJj"}"#).data(), json!({"sum": abc}));
    let long = node.post("transit/hash/sha2-512", r#"{"input":"YWJj","format":"base64"}"#).data();
    assert_eq!(unb64(long["sum"].as_str().unwrap()).len(), 64);
    let sha3 = "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532";
    let sum = node.post("transit/hash/sha3-256", r#"{"input":"YWJj"}"#).data();
    assert_eq!(sum, json!({"sum": sha3}));
    let tag = node.post("transit/hmac/a/sha3-384", r#"{"input":"YWJj"}"#).data()["hmac"].clone();
    let body = json!({"input": "YWJj", "hmac": tag, "hash_algorithm": "sha3-384"}).to_string();
    assert_eq!(node.post("transit/verify/a", body).data(), json!({"valid": true}));
}

#[test]
fn hashes_random_bytes_and_data_keys_say_what_is_wrong() {
    let mut node = Node::with_key("{}");
    for (path, body, error) in [
        ("transit/hash", "{}", "input missing"),
        (
            "transit/hash",
            r#"{"input":"","format":"x"}"#,
            "unsupported encoding format x; must be \"hex\" or \"base64\"",
        ),
        (
            "transit/random",
            r#"{"format":"x"}"#,
            "unsupported encoding format \"x\"; must be \"hex\" or \"base64\"",
        ),
        ("transit/random/0", "", "'bytes' cannot be less than 1"),
        ("transit/random", r#"{"bytes":131073}"#, "'bytes' should be less than 131072"),
        (
            "transit/random/dice/5",
            "",
            "unsupported entropy source \"dice\"; must be \"platform\" or \"seal\", or \"all\"",
        ),
        ("transit/datakey/other/a", "", "Invalid path, must be 'plaintext' or 'wrapped'"),
        ("transit/datakey/wrapped/a", r#"{"context":"!"}"#, "failed to base64-decode context"),
        ("transit/sign/a", r#"{"input":""}"#, "no key of this node supports signing"),
        ("transit/sign/a/sha2-256", r#"{"input":""}"#, "no key of this node supports signing"),
    ] {
        assert_eq!(node.post(path, body).error(), (400, error.into()), "{path}");
    }
    let warned = node.post("transit/random/seal", "").json()["warnings"].clone();
    let text = "no seal/entropy augmentation available, using platform entropy source";
    assert_eq!(warned, json!([text]));
}

#[test]
fn every_message_is_counted_under_its_version() {
    let mut node = Node::with_key("{}");
    node.post("transit/keys/a/rotate", "");
    let items: Vec<Value> =
        (0..700).map(|at| json!({"plaintext": "eA==", "key_version": at % 3})).collect();
    let sealed = encrypt(&mut node, json!(items)).results();
    let used = |node: &Node, version| {
        node.store.keys().get("a").unwrap().versions().get(version).unwrap().count().used()
    };
    assert_eq!((used(&node, 1), used(&node, 2)), (233, 467));
    let items: Vec<Value> =
        sealed.iter().map(|item| json!({"ciphertext": item["ciphertext"]})).collect();
    batch(&mut node, "transit/rewrap/a", json!(items));
    node.post("transit/datakey/wrapped/a", "");
    decrypt(&mut node, json!(items));
    assert_eq!((used(&node, 1), used(&node, 2)), (233, 467 + 700 + 1), "opening counts nothing");
}

/// A key that has sealed all but two of the messages that its type allows.
#[test]
fn the_last_message_of_a_version_is_refused_with_what_to_do() {
    let mut node = Node::with_key(r#"{"exportable":true,"allow_plaintext_backup":true}"#);
    let backup = node.get("transit/backup/a").data()["backup"].clone();
    let text = String::from_utf8(unb64(backup.as_str().unwrap())).unwrap();
    let nearly = text.replace("\"weir_messages\":0", "\"weir_messages\":4294967294");
    assert_ne!(text, nearly);
    let body = json!({"backup": b64(nearly), "force": true}).to_string();
    assert_eq!(node.post("transit/restore", body).status, 204);
    let three = encrypt(&mut node, json!(vec![json!({"plaintext": "eA=="}); 3]));
    let text = "the key version has sealed as many messages as its type allows: rotate the key";
    assert_eq!(three.error(), (400, text.into()), "none is sealed where not all can be");
    assert_eq!(encrypt(&mut node, json!(vec![json!({"plaintext": "eA=="}); 2])).status, 200);
    assert_eq!(
        node.post("transit/encrypt/a", r#"{"plaintext":"eA=="}"#).error(),
        (400, text.into())
    );
    assert_eq!(node.post("transit/datakey/wrapped/a", "").error(), (400, text.into()));
    node.post("transit/keys/a/rotate", "");
    assert!(node.encrypt("x").starts_with("vault:v2:"));
}
