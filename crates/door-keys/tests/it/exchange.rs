//! The frame, statuses, the server's own calls, scopes.

use serde_json::json;

use door_keys::{
    Act, Caller, Door, Gate, NotChanged, NotUnsealed, Request, Settings, Unsealing, Verb,
};
use vault::{Change, Keys};

use crate::support::{Node, TOKEN, b64};

#[test]
fn an_answer_has_the_whole_frame() {
    let mut node = Node::new();
    let got = node.post("transit/random/8", "");
    let json = got.json();
    let members: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(members.len(), 8, "{members:?}");
    assert_eq!(json["request_id"].as_str().unwrap().len(), 36);
    assert_eq!((json["lease_id"].clone(), json["lease_duration"].clone()), (json!(""), json!(0)));
    for name in ["wrap_info", "warnings", "auth"] {
        assert!(json.as_object().unwrap().contains_key(name) && json[name].is_null(), "{name}");
    }
    assert!(got.text.ends_with("}\n"));
}

#[test]
fn statuses_and_texts_are_those_of_transit() {
    let mut node = Node::new();
    let framed = |text: &str| format!("1 error occurred:\n\t* {text}\n\n");
    let path = framed("unsupported path");
    let operation = framed("unsupported operation");
    let nope = r#"no handler for route "nope/encrypt/a". route entry not found."#.to_string();
    let known = [
        ("POST", "nope/encrypt/a", 404, &nope),
        ("POST", "transit/nope/a", 404, &path),
        ("POST", "transit/encrypt", 404, &path),
        ("POST", "transit/encrypt/a/b", 404, &path),
        ("POST", "transit/encrypt/-a", 404, &path),
        ("POST", "transit/encrypt/a%2Fb", 404, &path),
        ("POST", "transit/keys/stock/game", 404, &path),
        ("GET", "sys/nope", 404, &path),
        ("GET", "transit/encrypt/a", 405, &operation),
        ("DELETE", "transit/encrypt/a", 405, &operation),
        ("LIST", "transit/encrypt/a", 404, &path),
        ("LIST", "transit/keys/a", 404, &path),
        ("GET", "transit/keys/a/", 404, &path),
        ("GET", "transit/sign/a", 405, &operation),
        ("POST", "transit/keys", 405, &operation),
        ("POST", "transit/export/encryption-key/a", 405, &operation),
    ];
    for (method, at, status, text) in known {
        let got = node.call(method, at, "{}");
        assert_eq!(got.error(), (status, text.clone()), "{method} {at}");
    }
    for at in ["transit/keys/none", "transit/keys?list=true", "transit/export/hmac-key/none"] {
        let got = node.get(at);
        assert_eq!((got.status, got.text.as_str()), (404, "{\"errors\":[]}\n"), "{at}");
    }
    assert_eq!(node.call("PATCH", "transit/keys/a", "{}").status, 415);
    assert_eq!(node.get("").status, 404);
}

#[test]
fn what_cannot_be_asked_so_is_refused_in_transits_words() {
    let mut node = Node::new();
    assert_eq!(node.post("sys/health", "").text, "{\"errors\":[]}\n");
    let preflight = "preflight capability check returned 403, please ensure client's policies grant access to path \"nope/\"";
    let bad = [
        ("GET", "transit/export/nothing/a", "{}", 400, "invalid export type: nothing"),
        (
            "GET",
            "transit/keys?list=true&limit=x",
            "{}",
            400,
            "Field validation failed: error converting input for field \"limit\": expected a whole number",
        ),
        (
            "POST",
            "transit/cache-config",
            r#"{"size":5}"#,
            400,
            "size must be 0 or a value greater or equal to 10",
        ),
        ("POST", "transit/keys/a", r#"{"type":""}"#, 400, "unknown key type "),
        (
            "POST",
            "transit/keys/none/trim",
            r#"{"min_available_version":1}"#,
            400,
            "invalid key name",
        ),
        ("POST", "sys/capabilities-self", "{}", 400, "paths must be supplied"),
        ("GET", "sys/internal/ui/mounts/nope/a", "{}", 403, preflight),
    ];
    for (method, at, body, status, text) in bad {
        let (found, said) = node.call(method, at, body).error();
        assert_eq!((found, said.starts_with(text)), (status, true), "{method} {at}: {said}");
    }
    let sized = node.post("transit/cache-config", r#"{"size":10}"#).data();
    assert_eq!(sized, json!({"size": 10}));
    let mount = node.get("sys/internal/ui/mounts/transit/keys").json();
    assert_eq!((mount["data"]["path"].clone(), mount.get("type")), (json!("transit/"), None));
}

#[test]
fn nobody_without_a_token_gets_anything_but_the_state() {
    let mut node = Node::new();
    for path in ["/v1/transit/keys/a", "/v1/auth/token/lookup-self", "/v1/sys/mounts", "/v1/nope/x"]
    {
        let request = node.request("GET", path, b"");
        assert_eq!(node.send(&request, false).error(), (403, "permission denied".into()), "{path}");
    }
    for path in ["/v1/sys/health", "/v1/sys/seal-status", "/v1/sys/leader", "/v1/sys/init"] {
        let request = node.request("GET", path, b"");
        let got = node.send(&request, false);
        assert_eq!(got.status, 200, "{path}");
        got.json();
    }
}

#[test]
fn a_sealed_node_says_so() {
    let mut node = Node::sealed();
    let health = node.get("sys/health");
    assert_eq!((health.status, health.json()["sealed"].clone()), (503, json!(true)));
    assert_eq!(health.json()["server_time_utc"], node.now_s);
    assert_eq!(node.get("sys/health?sealedcode=200").status, 200);
    assert_eq!(node.get("sys/health?standbyok=true&sealedcode=204&uninitcode=204").status, 204);
    for wrong in ["sealedcode=101", "sealedcode=x", "activecode=x", "uninitcode=1000"] {
        let (status, text) = node.get(&format!("sys/health?{wrong}")).error();
        assert!(status == 400 && text.contains("expected a status"), "{wrong}: {status} {text}");
    }
    let seal = node.get("sys/seal-status");
    assert_eq!((seal.status, seal.json()["sealed"].clone()), (200, json!(true)));
    for path in ["transit/keys/a", "auth/token/lookup-self"] {
        assert_eq!(node.get(path).error(), (503, "Vault is sealed".into()));
    }
    node.store.unseal(crate::support::kek()).unwrap();
    assert_eq!(node.get("sys/health").json()["sealed"], json!(false));
    for (code, status) in [("299", 299), ("204", 204), ("600", 600), ("", 200)] {
        assert_eq!(node.get(&format!("sys/health?activecode={code}")).status, status);
    }
}

#[test]
fn headers_that_would_change_the_answer_are_heeded() {
    let mut node = Node::new();
    let at = |namespace: Option<&'static str>, wrap_ttl: Option<&'static str>| {
        let (namespace, wrap_ttl) = (namespace.map(str::as_bytes), wrap_ttl.map(str::as_bytes));
        let request = Request {
            namespace,
            wrap_ttl,
            ..Node::new().request("POST", "/v1/transit/random", b"")
        };
        let got = node.send(&request, true);
        (got.status, got.json()["errors"][0].as_str().unwrap_or_default().to_owned())
    };
    let mut at = at;
    assert_eq!(at(Some("root"), None).0, 200);
    assert_eq!(at(Some(""), Some("")).0, 200);
    assert_eq!(at(Some("foo"), None), (404, "namespace not found".into()));
    assert_eq!(at(None, Some("60s")), (400, "response wrapping is not supported".into()));
}

#[test]
fn clients_find_what_they_ask_for_at_start() {
    let mut node = Node::new();
    let me = node.get("auth/token/lookup-self").data();
    assert_eq!((me["id"].clone(), me["display_name"].clone()), (json!(TOKEN), json!("tester")));
    assert_eq!((me["policies"].clone(), me["ttl"].clone()), (json!(["root"]), json!(0)));
    let mounts = node.get("sys/mounts");
    assert_eq!(mounts.data()["transit/"]["type"], "transit");
    assert_eq!(mounts.json()["transit/"]["type"], "transit");
    assert_eq!(node.get("sys/mounts/transit").data()["type"], "transit");
    assert_eq!(node.get("sys/internal/ui/mounts/transit").data()["path"], "transit/");
    assert_eq!(node.get("sys/leader").json()["ha_enabled"], json!(false));
    assert_eq!(node.get("sys/init").json(), json!({"initialized": true}));
    assert_eq!(node.post("sys/init", "{}").error().0, 405);
    let again = node.post("sys/mounts/transit", r#"{"type":"transit"}"#);
    assert_eq!(again.error(), (400, "path is already in use at transit/".into()));
    assert_eq!(node.post("auth/token/renew-self", "").error().0, 400);
    let all = node.post("sys/capabilities-self", r#"{"paths":["transit/encrypt/a","x"]}"#);
    assert_eq!(all.data()["transit/encrypt/a"], json!(["root"]));
}

#[test]
fn scopes_say_who_may_do_what() {
    let all = "transit/encrypt/shop-*,transit/decrypt/one,transit/random/*";
    let mut node = Node::with_key("").limited(all);
    let denied = (403, "permission denied".to_string());
    let one = format!(r#"{{"plaintext":"{}"}}"#, b64("x"));
    assert_eq!(node.post("transit/encrypt/a", &one).error(), denied);
    assert_eq!(node.post("transit/decrypt/shop-1", r#"{"ciphertext":"x"}"#).error(), denied);
    // An encrypt-only token makes no key.
    assert_eq!(node.post("transit/encrypt/shop-1", &one).error(), denied);
    for path in ["transit/keys/shop-1", "transit/keys/shop-1/rotate", "transit/config/keys"] {
        assert_eq!(node.post(path, "{}").error(), denied, "{path}");
    }
    assert_eq!(node.get("transit/keys/shop-1").error(), denied);
    assert_eq!(node.call("LIST", "transit/keys", "").error(), denied);
    assert_eq!(node.post("transit/hash", r#"{"input":""}"#).error(), denied);
    assert_eq!(node.post("transit/random/4", "").status, 200);
    let capabilities = node.post(
        "sys/capabilities-self",
        r#"{"paths":["transit/encrypt/shop-9","transit/keys/a","transit/random"]}"#,
    );
    let data = capabilities.data();
    assert_eq!(data["transit/encrypt/shop-9"], json!(["update"]));
    assert_eq!(data["transit/keys/a"], json!(["deny"]));
    assert_eq!(data["transit/random"], json!(["update"]));
    assert_eq!(node.get("auth/token/lookup-self").data()["policies"].as_array().unwrap().len(), 3);
    // A list shows what may be read.
    let mut node = node.limited("transit/*/*");
    node.post("transit/keys/b", "{}");
    let mut node = node.limited("transit/read/b*");
    assert_eq!(node.get("transit/keys?list=true").data()["keys"], json!(["b"]));
}

#[test]
fn the_audit_knows_what_was_done_and_no_data() {
    let mut node = Node::with_key("");
    let body = r#"{"batch_input":[{"plaintext":"aGk="},{"plaintext":"!"}],"partial_failure_response_code":200}"#;
    let request = node.request("POST", "/v1/transit/encrypt/a", body.as_bytes());
    let scopes = node.scopes.clone();
    let caller = Caller { name: "tester", scopes: &scopes };
    let audit = node.door.answer(&request, Some(&caller), &mut node.store).unwrap().audit;
    assert_eq!((audit.verb, audit.key, audit.version), (Some(Verb::Encrypt), "a", 1));
    assert_eq!((audit.items, audit.failed), (2, 1));
    let request =
        node.request("POST", "/v1/transit/decrypt/a", br#"{"ciphertext":"vault:v1:AAAA"}"#);
    let audit = node.door.answer(&request, Some(&caller), &mut node.store).unwrap().audit;
    assert_eq!(
        (audit.verb, audit.key, audit.items, audit.failed),
        (Some(Verb::Decrypt), "a", 1, 1)
    );
}

/// The version that did the work, alone and in a batch alike; 0 where several did, or none.
#[test]
fn the_audit_has_the_version_that_did_the_work() {
    let mut node = Node::with_key("");
    let old = node.encrypt("hi");
    assert_eq!(node.post("transit/keys/a/rotate", "").status, 200);
    let new = node.encrypt("hi");
    let tag = node.post("transit/hmac/a", r#"{"input":"aGk="}"#).data()["hmac"].clone();
    let old_tag = node.post("transit/hmac/a", r#"{"input":"aGk=","key_version":1}"#).data();
    let old_tag = old_tag["hmac"].clone();
    let plain = |version: u32| json!({"plaintext": "aGk=", "key_version": version});
    let cipher = |text: &str| json!({"ciphertext": text});
    let input = |version: u32| json!({"input": "aGk=", "key_version": version});
    let judged = |tag: &serde_json::Value| json!({"input": "aGk=", "hmac": tag});
    let (bad_plain, bad_cipher) = (json!({"plaintext": "!"}), cipher("vault:v1:AAAA"));
    let bad_tag = json!({"input": "aGk=", "hmac": "vault:v2:AAAA"});
    for (verb, one, two, bad) in [
        ("encrypt", plain(1), plain(2), bad_plain),
        ("decrypt", cipher(&old), cipher(&new), bad_cipher.clone()),
        ("hmac", input(1), input(2), json!({"input": "!"})),
        ("verify", judged(&old_tag), judged(&tag), json!({"input": "!", "hmac": tag})),
    ] {
        let mut version = |body: serde_json::Value| version_of(&mut node, verb, &body);
        assert_eq!([version(one.clone()), version(two.clone())], [1, 2], "{verb}");
        let mut batch = |items: &[&serde_json::Value]| version(json!({"batch_input": items}));
        assert_eq!([batch(&[&one, &one]), batch(&[&two])], [1, 2], "{verb}");
        assert_eq!([batch(&[&one, &two]), batch(&[&one, &two, &one])], [0, 0], "{verb}: several");
        assert_eq!([batch(&[&bad, &two]), batch(&[&two, &bad])], [2, 2], "{verb}: what failed");
        assert_eq!([batch(&[&bad]), version(bad)], [0, 0], "{verb}: none");
    }
    assert_eq!(version_of(&mut node, "verify", &bad_tag), 2, "it says that it is another's");
    assert_eq!(version_of(&mut node, "rewrap", &cipher(&old)), 2, "what sealed");
    let rewrap = json!({"batch_input": [cipher(&old), bad_cipher, cipher(&new)]});
    assert_eq!(version_of(&mut node, "rewrap", &rewrap), 2);
    assert_eq!(version_of(&mut node, "datakey/plaintext", &json!({"key_version": 1})), 1);
}

fn version_of(node: &mut Node, verb: &str, body: &serde_json::Value) -> u32 {
    let (path, body) = (format!("/v1/transit/{verb}/a"), body.to_string());
    let request = node.request("POST", &path, body.as_bytes());
    let scopes = node.scopes.clone();
    let caller = Caller { name: "tester", scopes: &scopes };
    node.door.answer(&request, Some(&caller), &mut node.store).unwrap().audit.version
}

/// Each act of a verb by its own name, also where it was refused; of encrypting, that it made the key.
#[test]
fn the_audit_tells_acts_of_one_verb_apart() {
    let mut node = Node::new();
    let settings = r#"{"exportable":true,"allow_plaintext_backup":true}"#;
    let (one, none) = (r#"{"plaintext":"aGk="}"#, "");
    let calls = [
        ("POST", "transit/keys/a", settings, Verb::Admin, Some(Act::Create)),
        ("GET", "transit/keys/a", none, Verb::Read, Some(Act::Read)),
        ("LIST", "transit/keys", none, Verb::Read, Some(Act::List)),
        ("POST", "transit/keys/a/rotate", none, Verb::Admin, Some(Act::Rotate)),
        ("POST", "transit/keys/a/config", none, Verb::Admin, Some(Act::Config)),
        ("POST", "transit/keys/a/trim", none, Verb::Admin, Some(Act::Trim)),
        ("GET", "transit/export/encryption-key/a", none, Verb::Export, Some(Act::Export)),
        ("GET", "transit/backup/a", none, Verb::Export, Some(Act::Backup)),
        ("DELETE", "transit/keys/a/soft-delete", none, Verb::Admin, Some(Act::SoftDelete)),
        (
            "POST",
            "transit/keys/a/soft-delete-restore",
            none,
            Verb::Admin,
            Some(Act::SoftDeleteRestore),
        ),
        ("DELETE", "transit/keys/a", none, Verb::Admin, Some(Act::Delete)),
        ("POST", "transit/encrypt/a", one, Verb::Encrypt, None),
        ("POST", "transit/encrypt/b", one, Verb::Encrypt, Some(Act::Create)),
        ("GET", "transit/config/keys", none, Verb::Admin, Some(Act::ConfigKeys)),
        ("POST", "transit/cache-config", none, Verb::Admin, Some(Act::CacheConfig)),
        ("POST", "sys/unseal", none, Verb::Admin, Some(Act::Unseal)),
        ("POST", "sys/seal", none, Verb::Admin, Some(Act::Seal)),
    ];
    for (method, path, body, verb, act) in calls {
        assert_eq!(audited(&mut node, method, path, body), (Some(verb), act), "{method} {path}");
    }
    let mut node = Node::with_key(settings).limited("transit/export/a");
    let backup = node.get("transit/backup/a").data()["backup"].clone();
    let body = json!({"backup": backup}).to_string();
    let restored = audited(&mut node, "POST", "transit/restore/a", &body);
    assert_eq!(restored, (Some(Verb::Admin), Some(Act::Restore)), "it is denied");
    for act in Act::ALL {
        let others = Act::ALL.into_iter().filter(|other| other.name() == act.name());
        assert_eq!(others.count(), 1, "{act:?}");
    }
}

fn audited(node: &mut Node, method: &str, path: &str, body: &str) -> (Option<Verb>, Option<Act>) {
    let path = format!("/v1/{path}");
    let request = node.request(method, &path, body.as_bytes());
    let scopes = node.scopes.clone();
    let caller = Caller { name: "tester", scopes: &scopes };
    let audit = node.door.answer(&request, Some(&caller), &mut node.store).unwrap().audit;
    (audit.verb, audit.act)
}

/// A gate on a thread that may not wait, or whose disk is full.
struct Stuck<'k>(&'k Keys, NotChanged);

impl Gate for Stuck<'_> {
    fn keys(&self) -> &Keys {
        self.0
    }

    fn change(&mut self, _: Change, _: u64) -> Result<bool, NotChanged> {
        Err(self.1.clone())
    }

    fn unseal(&mut self, _: Unsealing) -> Result<(), NotUnsealed> {
        Err(match self.1 {
            NotChanged::Elsewhere => NotUnsealed::Elsewhere,
            _ => NotUnsealed::Unavailable,
        })
    }
}

/// Only who may administer all keys, with the right key, and the first one only where that is said.
#[test]
fn keys_are_unsealed_by_who_may_and_with_their_own_key() {
    let key = "07".repeat(32);
    let with =
        |key: &str, more: &str| format!(r#"{{"key":"{key}","reset":false,"migrate":false{more}}}"#);
    let mut node = Node::sealed();
    let path = "/v1/sys/unseal";
    let body = with(&key, r#","first":true"#);
    let request = node.request("PUT", path, body.as_bytes());
    assert_eq!(node.send(&request, false).error(), (403, "permission denied".into()));
    node = node.limited("transit/admin/a,transit/encrypt/*");
    assert_eq!(node.post("sys/unseal", &body).error(), (403, "permission denied".into()));
    node = node.limited("transit/admin/*");
    for (body, text) in [
        ("{}", "expected one of 'key' and 'passphrase'"),
        (r#"{"key":"07","passphrase":"x"}"#, "expected one of"),
        (r#"{"key":"07"}"#, "'key': expected 64 hexadecimal digits"),
        (r#"{"passphrase":"some words"}"#, "these keys have no passphrase"),
        (&with(&key, ""), "no key that wraps them yet"),
    ] {
        let (status, error) = node.post("sys/unseal", body).error();
        assert!(status == 400 && error.contains(text), "{body}: {status} {error}");
        assert_eq!(node.get("sys/seal-status").json()["sealed"], json!(true));
    }
    assert_eq!(node.post("sys/unseal", &body).json()["sealed"], json!(false));
    assert_eq!(node.post("transit/keys/a", "").status, 200);
    node.store.seal();
    let (status, error) =
        node.post("sys/unseal", with(&"08".repeat(32), r#","first":true"#)).error();
    assert!(status == 400 && error.contains("not the key encryption key"), "{status} {error}");
    assert_eq!(node.post("sys/unseal", with(&key, "")).json()["sealed"], json!(false));
    let again = node.post("sys/unseal", with(&"08".repeat(32), ""));
    assert_eq!(again.json()["sealed"], json!(false), "what is unsealed stays so");
    assert_eq!(node.get("sys/unseal").error().0, 405);
}

/// Only who may administer all keys seals them, and sealing twice is sealing once; what needs the keys is 503 from then on.
#[test]
fn keys_are_sealed_by_who_may() {
    let mut node = Node::with_key("");
    let request = node.request("PUT", "/v1/sys/seal", b"");
    assert_eq!(node.send(&request, false).error(), (403, "permission denied".into()));
    node = node.limited("transit/admin/a,transit/encrypt/*");
    assert_eq!(node.call("PUT", "sys/seal", "").error(), (403, "permission denied".into()));
    assert_eq!(node.get("sys/seal-status").json()["sealed"], json!(false));
    assert_eq!(node.get("sys/seal").error().0, 405);
    node = node.limited("transit/admin/*");
    for _ in 0..2 {
        assert_eq!(node.call("PUT", "sys/seal", "").status, 204);
        assert_eq!(node.get("sys/seal-status").json()["sealed"], json!(true));
        let encrypt = node.post("transit/encrypt/a", r#"{"plaintext":"aGk="}"#);
        assert_eq!(encrypt.error(), (503, "Vault is sealed".into()));
    }
    assert_eq!(node.send(&request, false).error(), (403, "permission denied".into()));
    let mut door = Door::new(Settings::default()).unwrap();
    let caller = Caller { name: "tester", scopes: &node.scopes };
    let open = Node::new();
    let mut gate = Stuck(open.store.keys(), NotChanged::Elsewhere);
    assert!(door.answer(&request, Some(&caller), &mut gate).is_none(), "a worker hands it on");
}

#[test]
fn unsealing_is_handed_on_where_it_would_wait() {
    let node = Node::sealed();
    let mut door = Door::new(Settings::default()).unwrap();
    let caller = Caller { name: "tester", scopes: &node.scopes };
    let body = format!(r#"{{"key":"{}"}}"#, "07".repeat(32));
    let request = node.request("PUT", "/v1/sys/unseal", body.as_bytes());
    let mut gate = Stuck(node.store.keys(), NotChanged::Elsewhere);
    assert!(door.answer(&request, Some(&caller), &mut gate).is_none());
    let mut gate = Stuck(node.store.keys(), NotChanged::Unavailable);
    let answer = door.answer(&request, Some(&caller), &mut gate).unwrap();
    assert_eq!((answer.status, answer.audit.verb), (503, Some(Verb::Admin)));
}

#[test]
fn what_has_to_wait_is_handed_on_and_what_fails_is_asked_again() {
    let node = Node::with_key("");
    let mut door = Door::new(Settings::default()).unwrap();
    let caller = Caller { name: "tester", scopes: &node.scopes };
    let body = br#"{"plaintext":"aGk="}"#;
    let request = node.request("POST", "/v1/transit/encrypt/a", body);
    let mut gate = Stuck(node.store.keys(), NotChanged::Elsewhere);
    assert!(door.answer(&request, Some(&caller), &mut gate).is_none());
    let mut gate = Stuck(node.store.keys(), NotChanged::Unavailable);
    let answer = door.answer(&request, Some(&caller), &mut gate).unwrap();
    assert_eq!(answer.status, 503);
    assert!(answer.headers.ends_with(b"Retry-After: 1\r\n"));
    // What needs no change is answered all the same.
    let request = node.request("GET", "/v1/transit/keys/a", b"");
    assert_eq!(door.answer(&request, Some(&caller), &mut gate).unwrap().status, 200);
}
