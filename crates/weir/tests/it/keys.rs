//! The keys door of a real node, as clients of Transit drive it: keys, batches, rotation, restarts, kills.

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::keys_unseal::done;
use crate::openrtb::{Answer, Http};
use crate::support::{Node, Setup, line, over_transports, text, wait_for};

/// Its bytes are `Z`.
pub(crate) const KEK: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";
/// `hello` in base64.
pub(crate) const HELLO: &str = "aGVsbG8=";

/// A node whose keys are sealed.
pub(crate) fn sealed() -> Setup {
    Setup::new(&line(1, "10", ""))
}

pub(crate) fn kek_file(setup: &Setup) -> PathBuf {
    setup.folder().join("kek")
}

/// A node whose keys are unsealed.
pub(crate) fn unsealed() -> Setup {
    let setup = sealed();
    let file = kek_file(&setup);
    write_secret(&file, KEK);
    setup.with("vault.key_file", text(&file))
}

pub(crate) fn write_secret(path: &Path, secret: &str) {
    std::fs::write(path, secret).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Where the door of a node listens.
pub(crate) fn door(node: &Node) -> SocketAddr {
    node.said.iter().find_map(|line| line.strip_prefix("keys ")).unwrap().parse().unwrap()
}

/// The token of the node's own making.
pub(crate) fn own_token(data: &Path) -> String {
    std::fs::read_to_string(data.join("vault-token")).unwrap().trim().to_owned()
}

/// A client of the door.
pub(crate) struct Client {
    pub(crate) http: Http,
    /// Header lines of every call.
    pub(crate) headers: String,
}

impl Client {
    /// With the token of the node's own making.
    pub(crate) fn to(node: &Node) -> Client {
        Client::with(node, &format!("X-Vault-Token: {}", own_token(&node.data())))
    }

    /// With this header line.
    pub(crate) fn with(node: &Node, header: &str) -> Client {
        Client { http: Http::connect(door(node)), headers: format!("{header}\r\n") }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) {
        let head = format!(
            "{method} /v1/{path} HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n",
            self.headers,
            body.len()
        );
        self.http.send(&[head.as_bytes(), body.as_bytes()].concat());
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> Answer {
        self.send(method, path, body);
        self.http.receive()
    }

    /// A call that is done: its data.
    pub(crate) fn data(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, &body.to_string());
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()["data"].clone()
    }

    /// A call that is refused: its status and its errors.
    pub(crate) fn refused(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let answer = self.ask(method, path, body);
        (answer.status, answer.json()["errors"].to_string())
    }

    pub(crate) fn encrypt(&mut self, key: &str, plaintext: &str) -> String {
        let data =
            self.data("PUT", &format!("transit/encrypt/{key}"), &json!({"plaintext": plaintext}));
        data["ciphertext"].as_str().unwrap().to_owned()
    }

    pub(crate) fn decrypt(&mut self, key: &str, ciphertext: &str) -> String {
        let body = json!({"ciphertext": ciphertext});
        let data = self.data("POST", &format!("transit/decrypt/{key}"), &body);
        data["plaintext"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn audit(data: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(data.join("vault-audit.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_key_is_made_used_rotated_and_its_messages_are_rewrapped() {
    over_transports(unsealed, |node| {
        let mut client = Client::to(node);
        let made = client.data("POST", "transit/keys/orders", &json!({"type": "aes256-gcm-siv"}));
        assert_eq!((&made["latest_version"], &made["type"]), (&json!(1), &json!("aes256-gcm-siv")));
        assert_eq!(client.data("LIST", "transit/keys", &json!({}))["keys"], json!(["orders"]));
        let old = client.encrypt("orders", HELLO);
        assert!(old.starts_with("vault:v1:"), "{old}");
        assert_eq!(client.decrypt("orders", &old), HELLO);
        let rotated = client.data("POST", "transit/keys/orders/rotate", &json!({}));
        assert_eq!(rotated["latest_version"], 2);
        let rewrap = json!({"batch_input": [{"ciphertext": old}, {"ciphertext": old}]});
        let rewrapped = client.data("POST", "transit/rewrap/orders", &rewrap);
        for item in rewrapped["batch_results"].as_array().unwrap() {
            let new = item["ciphertext"].as_str().unwrap();
            assert!(new.starts_with("vault:v2:"), "{new}");
            assert_eq!(client.decrypt("orders", new), HELLO);
        }
        let items: Vec<Value> = (0..300).map(|_| json!({"plaintext": HELLO})).collect();
        let batch = client.data("POST", "transit/encrypt/orders", &json!({"batch_input": items}));
        assert_eq!(batch["batch_results"].as_array().unwrap().len(), 300);
        let lines = audit(&node.data());
        let verbs: Vec<&str> = lines.iter().map(|line| line["verb"].as_str().unwrap()).collect();
        let expected = [
            "admin", "read", "encrypt", "decrypt", "admin", "rewrap", "decrypt", "decrypt",
            "encrypt",
        ];
        assert_eq!(verbs, expected);
        let acts: Vec<&str> = lines.iter().filter_map(|line| line["act"].as_str()).collect();
        assert_eq!(acts, ["create", "list", "rotate"]);
        let last = lines.last().unwrap();
        let told = [&last["who"], &last["key"], &last["version"], &last["items"]];
        assert_eq!(told, [&json!("vault-token"), &json!("orders"), &json!(2), &json!(300)]);
        node.wait_stat("the door's counters", |stat| {
            let keys = &stat["doors"]["keys"];
            keys["calls"] == 9 && keys["items"] == 309 && keys["items_failed"] == 0
        });
    });
}

#[test]
fn without_a_key_file_the_door_is_sealed_and_says_so() {
    let node = sealed().start();
    let mut client = Client::to(&node);
    let health = client.ask("GET", "sys/health", "");
    assert_eq!((health.status, &health.json()["sealed"]), (503, &json!(true)));
    let status = client.ask("GET", "sys/seal-status", "");
    assert_eq!((status.status, &status.json()["sealed"]), (200, &json!(true)));
    for (method, path) in [("POST", "transit/keys/a"), ("PUT", "transit/encrypt/a")] {
        let (status, errors) = client.refused(method, path, "{\"plaintext\":\"\"}");
        assert_eq!((status, errors.as_str()), (503, "[\"Vault is sealed\"]"), "{path}");
    }
    assert!(!node.data().join("vault/keys").exists(), "no key is made by itself");
    let token = node.data().join("vault-token").metadata().unwrap();
    assert_eq!(token.mode() & 0o777, 0o600);
}

/// A file that is not there (a disk that was not mounted, a secret that comes later) does not stop the node; its keys wait.
#[test]
fn a_key_file_that_is_not_there_seals_and_comes_back_with_it() {
    let setup = unsealed();
    let node = setup.clone().start();
    let mut client = Client::to(&node);
    let id = client.ask("GET", "sys/health", "").json()["cluster_id"].clone();
    let kept = client.encrypt("a", HELLO);
    drop(node);
    std::fs::remove_file(kek_file(&setup)).unwrap();
    let node = setup.clone().start();
    assert!(node.log().contains("vault.key_file"), "{}", node.log());
    let health = Client::to(&node).ask("GET", "sys/health", "");
    assert_eq!((health.status, &health.json()["cluster_id"]), (503, &id));
    drop(node);
    write_secret(&kek_file(&setup), &format!("{KEK}\n"));
    assert_eq!(Client::to(&setup.start()).decrypt("a", &kept), HELLO);
}

/// What was answered is there after a kill: keys, versions, the counts that a version has. Versions never go back.
#[test]
fn keys_and_versions_outlive_kill_9_under_rotation() {
    let mut node = unsealed().start();
    let (mut kept, mut latest) = (Vec::new(), 0);
    for round in 0..5 {
        let mut client = Client::to(&node);
        kept.push(client.encrypt("a", HELLO));
        for _ in 0..10 {
            let rotated = client.data("POST", "transit/keys/a/rotate", &json!({}));
            let version = rotated["latest_version"].as_u64().unwrap();
            assert!(version > latest, "{version} after {latest}");
            latest = version;
        }
        kept.push(client.encrypt("a", HELLO));
        // One that is under way when the node dies.
        client.send("POST", "transit/keys/a/rotate", "{}");
        node = node.restart();
        let mut client = Client::to(&node);
        let found = client.data("GET", "transit/keys/a", &json!({}))["latest_version"].as_u64();
        assert!(found.unwrap() >= latest, "round {round}: {found:?} after {latest}");
        latest = found.unwrap();
        for message in &kept {
            assert_eq!(client.decrypt("a", message), HELLO);
        }
    }
    // Every call that was answered has its line.
    let lines = audit(&node.data());
    let of = |verb: &str| lines.iter().filter(|line| line["verb"] == verb).count();
    assert_eq!((of("encrypt"), of("decrypt")), (10, 30));
}

/// A batch to encrypt, and its plaintexts.
fn batch(items: usize) -> (String, Vec<String>) {
    let texts: Vec<String> =
        (0..items).map(|number| base64(format!("serial {number:08}").as_bytes())).collect();
    let items: Vec<Value> = texts.iter().map(|text| json!({"plaintext": text})).collect();
    (json!({"batch_input": items}).to_string(), texts)
}

fn by_pool(node: &Node) -> u64 {
    node.stat()["doors"]["keys"]["by_pool"].as_u64().unwrap()
}

/// Large bodies are the pool's: a worker serves others meanwhile, small ones of every size have a way beside them, changes of keys too, and
/// the results come in order.
#[test]
fn a_large_batch_is_answered_in_order_beside_small_calls() {
    let node = unsealed().start();
    let mut small = Client::to(&node);
    let message = small.encrypt("a", HELLO);
    let mut large = Client::to(&node);
    let (body, texts) = batch(100_000);
    large.send("POST", "transit/encrypt/a", &body);
    wait_for("the large batch", || by_pool(&node) == 1);
    for _ in 0..20 {
        assert_eq!(small.decrypt("a", &message), HELLO);
    }
    // More than a worker does by itself, and less than a large one.
    let (middle, _) = batch(5_000);
    let done = small.ask("POST", "transit/encrypt/a", &middle).json();
    assert_eq!(done["data"]["batch_results"].as_array().unwrap().len(), 5_000);
    small.data("POST", "transit/keys/a/rotate", &json!({}));
    let sealed = large.http.receive().json()["data"]["batch_results"].clone();
    let opened = large.data("POST", "transit/decrypt/a", &json!({"batch_input": sealed}));
    let results = opened["batch_results"].as_array().unwrap().iter();
    let back: Vec<&str> = results.map(|item| item["plaintext"].as_str().unwrap()).collect();
    assert_eq!(back, texts);
    assert_eq!(by_pool(&node), 3);
    // The line of a call is written before its answer leaves: the large one began first and was answered last.
    let lines = audit(&node.data());
    let at = |is: &dyn Fn(&Value) -> bool| lines.iter().position(is).unwrap();
    let of = |verb: &str, items: u64| at(&|line| line["verb"] == verb && line["items"] == items);
    let rotated = lines.iter().rposition(|line| line["verb"] == "admin").unwrap();
    assert!(of("encrypt", 5_000) < of("encrypt", 100_000), "{lines:?}");
    assert!(rotated < of("encrypt", 100_000), "{lines:?}");
}

/// Calls of one connection are answered in the order in which they came, whoever does them.
#[test]
fn answers_on_one_connection_keep_their_order() {
    over_transports(unsealed, |node| {
        let mut client = Client::to(node);
        client.encrypt("a", HELLO);
        let counts = [2_000, 1, 3, 5_000, 1, 0, 2, 3_000];
        for items in counts {
            match items {
                0 => client.send("POST", "transit/keys/a/rotate", ""),
                items => client.send("POST", "transit/encrypt/a", &batch(items).0),
            }
        }
        for items in counts {
            let answer = client.http.receive();
            assert_eq!(answer.status, 200);
            let results = answer.json()["data"]["batch_results"].as_array().map_or(0, Vec::len);
            assert_eq!(results, items);
        }
    });
}

/// As many bytes wait as may: what is too much is refused at once, to be asked again, and the others are done.
#[test]
fn a_full_pool_refuses_and_says_when_to_come_again() {
    let node = unsealed().with("keys.body_bytes_max", "1048576").start();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::to(&node)).collect();
    clients[0].encrypt("a", HELLO);
    let body = batch(20_000).0;
    let mut refused = 0;
    for _ in 0..20 {
        clients.iter_mut().for_each(|client| client.send("POST", "transit/encrypt/a", &body));
        for client in &mut clients {
            let answer = client.http.receive();
            match answer.status {
                200 => assert_eq!(
                    answer.json()["data"]["batch_results"].as_array().unwrap().len(),
                    20_000
                ),
                503 => {
                    assert!(answer.header("retry-after") == Some("1"), "{}", answer.head);
                    refused += 1;
                }
                other => panic!("{other}"),
            }
        }
        if refused > 0 {
            break;
        }
    }
    assert!(refused > 0);
    clients[0].encrypt("a", HELLO);
}

/// A kill while the pool works: no message was sealed that is not counted, and what was answered opens.
#[test]
fn a_kill_while_the_pool_works_loses_nothing_that_was_answered() {
    let node = unsealed().start();
    let mut client = Client::to(&node);
    let body = batch(20_000).0;
    let first = client.ask("POST", "transit/encrypt/a", &body).json();
    client.send("POST", "transit/encrypt/a", &body);
    wait_for("the second call", || by_pool(&node) == 2);
    let node = node.restart();
    let sealed = first["data"]["batch_results"][19_999]["ciphertext"].as_str().unwrap();
    assert_eq!(Client::to(&node).decrypt("a", sealed), base64(b"serial 00019999"));
}

/// A stop answers what is under way, and the next run finds it.
#[test]
fn a_stop_answers_what_is_under_way() {
    let setup = unsealed();
    let mut node = setup.clone().start();
    let mut client = Client::to(&node);
    client.encrypt("a", HELLO);
    let items: Vec<Value> = (0..4_000).map(|_| json!({"plaintext": HELLO})).collect();
    client.send("POST", "transit/encrypt/a", &json!({"batch_input": items}).to_string());
    wait_for("the call", || by_pool(&node) == 1);
    node.interrupt();
    let answer = client.http.receive();
    assert_eq!(answer.status, 200);
    let first = answer.json()["data"]["batch_results"][0]["ciphertext"].clone();
    assert!(node.wait_end().success());
    drop(node);
    let node = setup.start();
    assert_eq!(Client::to(&node).decrypt("a", first.as_str().unwrap()), HELLO);
    let lines = audit(&node.data());
    assert_eq!(lines[1]["items"], 4_000, "{lines:?}");
}

/// A bulk stream: without JSON, both ways; in the audit with its items; refused as a whole where its lengths are not true.
#[test]
fn a_bulk_stream_needs_no_json_and_no_base64() {
    let node = unsealed().start();
    let mut client = Client::to(&node);
    client.data("POST", "transit/keys/a", &json!({"type": "aes256-cbc-cmac"}));
    let mut post = |verb: &str, body: &[u8]| {
        let head = format!(
            "POST /v1/transit/bulk/{verb}/a?aad=row HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: {}\r\n\r\n",
            client.headers,
            body.len()
        );
        client.http.send(&[head.as_bytes(), body].concat());
        client.http.receive()
    };
    let item = |number: u32| {
        let text = format!("serial {number:025}");
        [&u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat()
    };
    let plain: Vec<u8> = (0..20_000).flat_map(item).collect();
    let trailer =
        |failed: u64| [&[0; 4][..], &20_000_u64.to_le_bytes(), &failed.to_le_bytes()].concat();
    let sealed = post("encrypt", &plain);
    assert_eq!(
        (sealed.status, sealed.header("content-type")),
        (200, Some("application/octet-stream"))
    );
    let mut sealed = sealed.body.strip_suffix(&trailer(0)[..]).unwrap().to_vec();
    let opened = post("decrypt", &sealed);
    assert!(opened.body == [&plain[..], &trailer(0)].concat());
    // One bit of the last item: it fails alone.
    *sealed.last_mut().unwrap() ^= 1;
    let opened = post("decrypt", &sealed).body;
    assert!(opened.ends_with(&[&[0xff; 4][..], &trailer(1)].concat()));
    // Cut within it: all is refused.
    let cut = post("decrypt", &sealed[..sealed.len() - 1]);
    assert_eq!((cut.status, cut.header("content-type")), (400, Some("application/json")));
    assert!(cut.json()["errors"][0].as_str().unwrap().contains("ends within item 19999"));
    let lines = audit(&node.data());
    let told: Vec<(u64, u64, u64)> = lines[1..]
        .iter()
        .map(|line| ["items", "failed", "status"].map(|name| line[name].as_u64().unwrap()).into())
        .collect();
    assert_eq!(told, [(20_000, 0, 200), (20_000, 0, 200), (20_000, 1, 200), (1, 1, 400)]);
}

/// What the admin API shows of the vault: nothing while it is sealed or off, then keys in pages, with versions and use.
#[test]
fn the_admin_api_shows_the_keys_and_their_use() {
    let vault = |node: &Node, query: &str| -> Value {
        let (status, body) = node.get(&format!("/v1/vault{query}"));
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    };
    let off = sealed().with_door("keys", "").start();
    assert_eq!(vault(&off, "")["listen"], Value::Null);
    drop(off);
    let closed = sealed().start();
    let found = vault(&closed, "");
    assert_eq!((&found["sealed"], &found["count"]), (&json!(true), &json!(0)));
    assert_eq!(found["listen"], door(&closed).to_string());
    drop(closed);
    let setup = unsealed();
    let node = setup.clone().start();
    let mut client = Client::to(&node);
    client.data("POST", "transit/keys/tags", &json!({"type": "hmac", "key_size": 32}));
    client.data("POST", "transit/keys/orders", &json!({"auto_rotate_period": "1h"}));
    client.data("POST", "transit/keys/orders/rotate", &json!({}));
    client.data("POST", "transit/encrypt/orders", &serde_json::from_str(&batch(7).0).unwrap());
    node.wait_stat("the calls", |stat| stat["doors"]["keys"]["calls"].as_u64() == Some(4));
    let first = vault(&node, "?max=1");
    assert_eq!(
        (&first["count"], &first["next"], &first["sealed"]),
        (&json!(2), &json!("orders"), &json!(false))
    );
    let orders = &first["keys"][0];
    assert_eq!((&orders["latest_version"], &orders["versions"]), (&json!(2), &json!(2)));
    assert_eq!((&orders["messages"], &orders["rotates_every_s"]), (&json!(7), &json!(3_600)));
    assert_eq!((&first["calls"], &first["items"]), (&json!(4), &json!(10)));
    let second = vault(&node, "?max=1&after=orders");
    assert_eq!((&second["keys"][0]["name"], &second["next"]), (&json!("tags"), &Value::Null));
    assert_eq!(second["keys"][0]["messages"], Value::Null);
    // A key that is out of use says so, and says nothing of it when it is back.
    let shown = |node: &Node| {
        let told = done(&setup, "status orders", "");
        let is_told = told.contains("soft-deleted: calls with it are refused");
        (vault(node, "?max=1")["keys"][0]["soft_deleted"] == true, is_told)
    };
    assert_eq!(shown(&node), (false, false));
    client.data("DELETE", "transit/keys/orders/soft-delete", &json!({}));
    assert_eq!(shown(&node), (true, true));
    client.data("POST", "transit/keys/orders/soft-delete-restore", &json!({}));
    assert_eq!(shown(&node), (false, false));
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
