//! Input that means harm: depth, size, bytes that are no text, messages that were changed.

use std::fmt::Write as _;

use door_keys::{Door, Settings};
use serde_json::{Value, json};
use vault::KeyType;

use crate::support::{Node, b64, unb64};

#[test]
fn depth_is_refused_without_a_stack() {
    let mut node = Node::with_key("{}");
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = open.repeat(1_000_000) + "1" + &close.repeat(1_000_000);
        for body in [
            format!("{{\"x\":{deep}}}"),
            format!("{{\"batch_input\":[{{\"x\":{deep}}}]}}"),
            deep.clone(),
        ] {
            let (status, text) = node.post("transit/encrypt/a", body).error();
            assert!(status == 400 && text.contains("more than 32 objects and arrays"), "{text}");
        }
    }
    let fine = "[".repeat(20) + &"]".repeat(20);
    let body = format!("{{\"x\":{fine},\"plaintext\":\"eA==\"}}");
    assert_eq!(
        node.post("transit/encrypt/a", body).status,
        200,
        "what nobody asks for is passed over"
    );
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let mut node = Node::with_key("{}");
    for bytes in [
        &b"{\"plaintext\":\"\xff\"}"[..],
        b"{\"plaintext\":\"\xc3\x28\"}",
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"{\"a\":\"\x01\"}",
    ] {
        let (status, text) = node.post("transit/encrypt/a", bytes).error();
        assert!(
            status == 400 && text.starts_with("failed to decode JSON input"),
            "{bytes:?}: {text}"
        );
    }
    for body in [
        "{\"plaintext\":\"eA==\"} x",
        "{\"plaintext\":\"eA==\",}",
        "{'plaintext':1}",
        "{\"a\":01}",
        "\u{0}",
        "{\"\\ud800\":NaN}",
    ] {
        assert_eq!(node.post("transit/encrypt/a", body).error().0, 400, "{body}");
    }
}

#[test]
fn a_body_is_refused_by_its_size() {
    let mut node = Node::with_key("{}");
    let body = format!("{{\"plaintext\":\"{}\"}}", "A".repeat(100 << 20));
    let (status, text) = node.post("transit/encrypt/a", &body).error();
    assert!(status == 413 && text.ends_with("http: request body too large"), "{text}");
    // Where it is allowed it is sealed and opened whole.
    let body = format!("{{\"plaintext\":\"{}\"}}", "A".repeat(4 << 20));
    node.door = Door::new(Settings { body_bytes_max: 4 << 20, ..Settings::default() }).unwrap();
    assert_eq!(node.post("transit/encrypt/a", &body).error().0, 413);
    node.door = Door::new(Settings { body_bytes_max: 6 << 20, ..Settings::default() }).unwrap();
    let sealed = node.post("transit/encrypt/a", &body).data()["ciphertext"].clone();
    let opened = node.post("transit/decrypt/a", format!("{{\"ciphertext\":{sealed}}}")).data();
    assert_eq!(opened["plaintext"].as_str().unwrap().len(), 4 << 20);
}

#[test]
fn a_million_members_are_passed_over() {
    let mut node = Node::with_key("{}");
    let mut body = String::from("{");
    for at in 0..1_000_000 {
        write!(body, "\"m{at}\":{at},").unwrap();
    }
    body += "\"plaintext\":\"eA==\"}";
    assert_eq!(node.post("transit/encrypt/a", &body).status, 200);
    let in_item = format!("{{\"batch_input\":[{body}]}}");
    assert_eq!(node.post("transit/encrypt/a", in_item).results().len(), 1);
    let twice = format!("{{{}\"plaintext\":\"eA==\"}}", "\"plaintext\":\"!\",".repeat(1_000_000));
    assert_eq!(node.post("transit/encrypt/a", twice).status, 200, "the last of a million counts");
}

/// Also: the million faults of a batch make one short text.
#[test]
fn a_hundred_thousand_items_are_one_batch() {
    let mut node = Node::with_key(r#"{"type":"aes256-cbc-cmac"}"#);
    let mut body = String::from("{\"batch_input\":[");
    for at in 0..100_000 {
        let plaintext = b64(format!("serial {at:025}"));
        write!(body, "{}{{\"plaintext\":\"{plaintext}\"}}", if at > 0 { "," } else { "" }).unwrap();
    }
    body += "]}";
    let sealed = node.post("transit/encrypt/a", body).results();
    assert_eq!(sealed.len(), 100_000);
    let items: Vec<Value> =
        sealed.iter().map(|item| json!({"ciphertext": item["ciphertext"]})).collect();
    let opened =
        node.post("transit/decrypt/a", json!({"batch_input": items}).to_string()).results();
    for (at, item) in opened.iter().enumerate() {
        assert_eq!(item["plaintext"], json!(b64(format!("serial {at:025}"))));
    }
    let count = node.store.keys().get("a").unwrap().versions().get(1).unwrap().count().used();
    assert_eq!(count, 100_000);
    let wrong = format!("{{\"batch_input\":[{}1]}}", "1,".repeat(999_999));
    assert!(node.post("transit/encrypt/a", wrong).error().1.len() < 1000);
}

/// Every bit of a message: one error, one text, one status.
#[test]
fn a_changed_message_is_refused_with_one_text() {
    for kind in KeyType::ALL {
        let mut node = Node::with_key(&json!({ "type": kind.name() }).to_string());
        let good = unb64(node.encrypt("hello").strip_prefix("vault:v1:").unwrap());
        let items: Vec<Value> = (0..good.len() * 8)
            .map(|bit| {
                let mut changed = good.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                json!({"ciphertext": format!("vault:v1:{}", b64(changed))})
            })
            .collect();
        let got = node.post("transit/decrypt/a", json!({"batch_input": items}).to_string());
        assert_eq!(got.status, 400);
        let refused = json!({"plaintext": "", "error": "cipher: message authentication failed", "reference": ""});
        assert!(got.results().iter().all(|item| *item == refused), "{kind}");
    }
}

/// Another key, another version, another type, another purpose.
#[test]
fn a_message_opens_in_its_place_only() {
    let mut node = Node::with_key("{}");
    let message = node.encrypt("hello");
    node.post("transit/keys/a/rotate", "");
    node.post("transit/keys/b", "{}");
    let refused = (400, "cipher: message authentication failed".to_string());
    assert_eq!(node.decrypt(&message.replace("v1", "v2")), Err(refused.clone()));
    let body = json!({"ciphertext": message}).to_string();
    assert_eq!(node.post("transit/decrypt/b", &body).error(), refused);
    let tag =
        node.post("transit/hmac/a", json!({"input": b64("hello")}).to_string()).data()["hmac"]
            .clone();
    assert_eq!(node.decrypt(tag.as_str().unwrap()), Err(refused));
    let verified =
        node.post("transit/verify/a", json!({"input": b64("hello"), "hmac": message}).to_string());
    assert_eq!(verified.data(), json!({"valid": false}));
}

/// Plaintexts and keys stand in answers that are asked for them, and nowhere else.
#[test]
fn a_refused_request_repeats_no_secret() {
    let mut node = Node::with_key("{}");
    let marked = b64("MARKEDSECRET");
    let bodies = [
        json!({"plaintext": marked, "key_version": 9}),
        json!({"plaintext": format!("{marked}!")}),
        json!({"batch_input": [{"plaintext": marked, "key_version": "1"}]}),
        json!({"batch_input": [{"plaintext": [marked]}]}),
        json!({"batch_input": [{"plaintext": format!("{marked}!")}]}),
        json!({"batch_input": marked}),
        json!({"ciphertext": marked, "plaintext": [marked]}),
        json!({"input": {"x": marked}, "hmac": marked, "backup": marked, "bits": marked, "type": [marked]}),
    ];
    let paths = [
        "transit/encrypt/a",
        "transit/decrypt/a",
        "transit/hmac/a",
        "transit/verify/a",
        "transit/restore",
        "transit/keys/c",
        "transit/datakey/wrapped/a",
    ];
    for body in &bodies {
        for path in paths {
            let got = node.post(path, body.to_string());
            assert!(
                !got.text.contains("MARKED") && !got.text.contains(&marked[..8]),
                "{path}: {}",
                got.text
            );
        }
    }
    for record in &node.store.records().0 {
        assert!(!String::from_utf8_lossy(record).contains("MARKED"));
    }
}
