//! The keys door under attack: strangers, tokens that want more than they may, a wrong key, full disks, and secrets where none may be.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::ask;
use crate::full_disk::{SmallDisk, with_own_mounts};
use crate::keys::{
    Client, HELLO, KEK, audit, base64, kek_file, own_token, sealed, unsealed, write_secret,
};
use crate::support::{Node, Setup, output, over_transports, stderr, text, wait_value, weir};

pub(crate) const TOKENS: &str = "crm keys crm-0123456789ab transit/encrypt/crm-*,transit/read/crm-*\n\
    vet keys vet-0123456789ab transit/decrypt/crm-a\nall keys all-0123456789ab\n\
    shop spend shop-0123456789a\nann operate ann-0123456789ab\n";

pub(crate) fn with_tokens(folder: &Path) -> Setup {
    let file = folder.join("tokens");
    write_secret(&file, TOKENS);
    unsealed().with("keys.tokens_file", text(&file))
}

pub(crate) fn of(node: &Node, token: &str) -> Client {
    Client::with(node, &format!("Authorization: Bearer {token}"))
}

#[test]
fn a_token_does_what_its_scopes_say_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    over_transports(
        || with_tokens(folder.path()),
        |node| {
            let denied = (403, "[\"permission denied\"]".to_owned());
            let wrong = ["", "all-0123456789ac", "shop-0123456789a", "ann-0123456789ab"];
            for token in wrong {
                let mut client = of(node, token);
                for (method, path) in [
                    ("PUT", "transit/encrypt/crm-a"),
                    ("GET", "transit/keys/crm-a"),
                    ("GET", "auth/token/lookup-self"),
                    ("GET", "sys/mounts"),
                ] {
                    let body = json!({"plaintext": HELLO}).to_string();
                    assert_eq!(client.refused(method, path, &body), denied, "{token} {path}");
                }
            }
            assert!(!node.data().join("vault-token").exists(), "the file names who may enter");
            let (mut crm, mut vet, mut all) = (
                of(node, "crm-0123456789ab"),
                of(node, "vet-0123456789ab"),
                of(node, "all-0123456789ab"),
            );
            let body = json!({"plaintext": HELLO}).to_string();
            // Who may encrypt makes no key by the way.
            assert_eq!(crm.refused("PUT", "transit/encrypt/crm-a", &body), denied);
            all.data("POST", "transit/keys/crm-a", &json!({}));
            all.data("POST", "transit/keys/other", &json!({}));
            let message = crm.encrypt("crm-a", HELLO);
            let sealed = json!({"ciphertext": message}).to_string();
            for (method, path, body) in [
                ("PUT", "transit/encrypt/other", body.as_str()),
                ("PUT", "transit/decrypt/crm-a", &sealed),
                ("PUT", "transit/rewrap/crm-a", &sealed),
                ("POST", "transit/keys/crm-a/rotate", "{}"),
                ("DELETE", "transit/keys/crm-a", ""),
                ("GET", "transit/export/encryption-key/crm-a", ""),
                ("GET", "transit/backup/crm-a", ""),
            ] {
                assert_eq!(crm.refused(method, path, body), denied, "{path}");
            }
            assert_eq!(vet.decrypt("crm-a", &message), HELLO);
            assert_eq!(vet.refused("PUT", "transit/encrypt/crm-a", &body), denied);
            let lines = audit(&node.data());
            let refused = lines.iter().filter(|line| line["status"] == 403);
            let who: Vec<&str> = refused.map(|line| line["who"].as_str().unwrap()).collect();
            assert_eq!(who, [["crm"; 8].as_slice(), &["vet"]].concat());
        },
    );
}

/// A token that is taken away lets nobody in any more, also on a connection that it opened.
#[test]
fn a_token_that_is_taken_away_is_denied_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_tokens(folder.path()).start();
    let mut all = of(&node, "all-0123456789ab");
    all.data("POST", "transit/keys/a", &json!({}));
    write_secret(&folder.path().join("tokens"), &TOKENS.replace("all keys all", "all keys new"));
    node.signal("HUP");
    wait_value("the new file", || {
        (all.ask("GET", "transit/keys/a", "").status == 403).then_some(())
    });
    assert_eq!(of(&node, "new-0123456789ab").ask("GET", "transit/keys/a", "").status, 200);
}

#[test]
fn scopes_that_the_door_does_not_know_stop_the_start_and_no_token_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let setup = with_tokens(folder.path());
    let file = folder.path().join("tokens");
    let line = "crm keys crm-0123456789ab transit/sign/orders\n";
    write_secret(&file, &format!("all keys all-0123456789ab\n{line}"));
    let log = setup.clone().try_start().map(|_| ()).unwrap_err();
    let expected = "tokens:2: the scopes of crm: scope 1: expected transit/VERB/NAME";
    assert!(log.contains(expected) && log.contains("found \"transit/sign/orders\""), "{log}");
    assert!(!log.contains("-0123456789ab"), "{log}");
    // In the wrong column.
    write_secret(&file, "crm keys transit/encrypt/a crm-0123456789ab\n");
    let log = setup.clone().try_start().map(|_| ()).unwrap_err();
    assert!(log.contains("tokens:1: ") && !log.contains("-0123456789ab"), "{log}");
    let missing = setup.with("keys.tokens_file", "no-tokens").try_start().map(|_| ()).unwrap_err();
    assert!(missing.contains("keys.tokens_file no-tokens: No such file"), "{missing}");
    assert!(missing.contains("it was looked for in /"), "{missing}");
}

#[test]
fn pages_other_names_and_doubled_tokens_are_refused() {
    let node = unsealed().start();
    let token = own_token(&node.data());
    let status = |header: &str| {
        let mut client = Client::with(&node, &format!("X-Vault-Token: {token}\r\n{header}"));
        client.ask("POST", "transit/keys/a", "{}").status
    };
    assert_eq!(status("Origin: https://evil.example"), 403);
    assert_eq!(status("Sec-Fetch-Site: cross-site"), 403);
    assert_eq!(status("X-Vault-Token: other"), 400);
    assert_eq!(status("Authorization: Bearer other"), 403);
    assert_eq!(status("X-Vault-Namespace: team"), 404);
    assert_eq!(status("X-Vault-Wrap-TTL: 60s"), 400);
    let mut client = Client::to(&node);
    let head =
        format!("GET /v1/sys/health HTTP/1.1\r\nHost: evil.example\r\n{}\r\n", client.headers);
    client.http.send(head.as_bytes());
    assert_eq!(client.http.receive().status, 421);
    assert_eq!(client.ask("LIST", "transit/keys", "").status, 404, "nothing was made");
    assert_eq!(status("X-Other: x"), 200);
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let node = unsealed().with("keys.body_bytes_max", "100000").start();
    let mut client = Client::to(&node);
    client.http.send(
        format!(
            "POST /v1/transit/encrypt/a HTTP/1.1\r\nHost: localhost\r\n{}Content-Length: 100001\r\n\r\n",
            client.headers
        )
        .as_bytes(),
    );
    let answer = client.http.receive();
    assert_eq!(answer.status, 413);
    assert!(answer.json()["errors"][0].as_str().unwrap().contains("request body too large"));
    assert_eq!(Client::to(&node).ask("LIST", "transit/keys", "").status, 404);
}

#[test]
fn a_token_has_its_calls_of_a_second_and_no_more() {
    let node = unsealed().with("keys.rate_per_s", "5").start();
    let mut client = Client::to(&node);
    // However slow the machine is, thirty calls that are sent at once do not take six seconds to read.
    let head = format!("GET /v1/sys/mounts HTTP/1.1\r\nHost: localhost\r\n{}\r\n", client.headers);
    client.http.send(head.repeat(30).as_bytes());
    let answers: Vec<_> = (0..30).map(|_| client.http.receive()).collect();
    let limited = answers.iter().filter(|answer| answer.status == 429).count();
    assert!((1..=25).contains(&limited), "{limited}");
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(refused.header("retry-after"), Some("1"));
    node.wait_stat("the counter", |stat| stat["doors"]["keys"]["limited"] == limited);
}

#[test]
fn beyond_this_machine_the_door_needs_tokens_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    let check = |keys: &str| {
        std::fs::write(&file, format!("[keys]\nlisten = \"0.0.0.0:7703\"\n{keys}")).unwrap();
        stderr(&output(weir().args(["check", "--config", text(&file)]).current_dir(folder.path())))
    };
    let needs = "keys.listen is 0.0.0.0:7703, beyond loopback: set keys.tls_cert and keys.tls_key, and keys.tokens_file";
    let (tokens, tls) = ("tokens_file = \"t\"\n", "tls_cert = \"c\"\ntls_key = \"k\"\n");
    for keys in ["", tokens, tls, "tls_clients = \"c\"\n"] {
        assert!(check(keys).contains(needs), "{keys}: {}", check(keys));
    }
    assert!(!check(&format!("{tokens}{tls}")).contains("beyond loopback"));
}

#[test]
fn another_key_stops_the_start_before_anything_is_written() {
    let setup = unsealed();
    let node = setup.clone().start();
    let kept = Client::to(&node).encrypt("a", HELLO);
    drop(node);
    let bytes = || {
        let files = ["vault/keys", "vault/id", "vault-token", "vault-audit.jsonl"];
        files.map(|name| std::fs::read(setup.data().join(name)).unwrap())
    };
    let journal = || std::fs::read(setup.data().join("watermark.weir")).unwrap();
    let before = (bytes(), journal());
    let other = KEK.replace('5', "6");
    write_secret(&kek_file(&setup), &other);
    let log = setup.clone().try_start().map(|_| ()).unwrap_err();
    assert!(log.contains("vault.key_file") && log.contains("nothing was written"), "{log}");
    assert!(!log.contains(&other), "{log}");
    assert_eq!((bytes(), journal()), before);
    for (text, expected) in [(&KEK[1..], "expected 64 hexadecimal digits"), ("", "expected 64")] {
        write_secret(&kek_file(&setup), text);
        let log = setup.clone().try_start().map(|_| ()).unwrap_err();
        assert!(log.contains(expected), "{log}");
    }
    write_secret(&kek_file(&setup), KEK);
    assert_eq!(Client::to(&setup.start()).decrypt("a", &kept), HELLO);
}

/// An empty folder in the place of the keys would get others of the same names.
#[test]
fn keys_that_vanished_stop_the_start() {
    let setup = unsealed();
    let node = setup.clone().start();
    let kept = Client::to(&node).encrypt("a", HELLO);
    drop(node);
    let (vault, aside) = (setup.data().join("vault"), setup.folder().join("aside"));
    std::fs::rename(&vault, &aside).unwrap();
    let log = setup.clone().try_start().map(|_| ()).unwrap_err();
    assert!(log.contains("are gone") && log.contains("vault-begun"), "{log}");
    let _ = std::fs::remove_dir_all(&vault);
    std::fs::rename(&aside, &vault).unwrap();
    assert_eq!(Client::to(&setup.start()).decrypt("a", &kept), HELLO);
}

/// Everything below a folder whose bytes hold one of these.
fn holding(folder: &Path, secrets: &[&[u8]], found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            holding(&path, secrets, found);
        } else if path.file_name().is_some_and(|name| name != "vault-token") {
            let bytes = std::fs::read(&path).unwrap();
            let has = |secret: &&&[u8]| bytes.windows(secret.len()).any(|at| at == **secret);
            found.extend(secrets.iter().filter(has).map(|_| path.display().to_string()));
        }
    }
}

#[test]
fn secrets_are_in_no_log_no_file_and_no_answer_that_is_not_theirs() {
    let setup = unsealed().with("log.level", "trace");
    let node = setup.clone().start();
    let (token, mut client) = (own_token(&node.data()), Client::to(&node));
    let plain = "PLANTED-plaintext-4711";
    let (coded, aad) = (base64(plain.as_bytes()), base64(b"PLANTED-aad-4711"));
    let exportable = json!({"exportable": true, "allow_plaintext_backup": true});
    client.data("POST", "transit/keys/a", &exportable);
    let body = json!({"plaintext": coded, "associated_data": aad});
    let message = client.data("POST", "transit/encrypt/a", &body)["ciphertext"].clone();
    let open = |data: &Value| json!({"ciphertext": message, "associated_data": data});
    assert_eq!(client.data("POST", "transit/decrypt/a", &open(&json!(aad)))["plaintext"], coded);
    let exported = client.data("GET", "transit/export/encryption-key/a", &json!({}));
    let exported = exported["keys"]["1"].as_str().unwrap().to_owned();
    // Calls that fail, in each way that could quote what they were given.
    for body in [
        open(&json!(coded)).to_string(),
        json!({"ciphertext": coded}).to_string(),
        json!({"plaintext": plain}).to_string(),
        format!("{{\"plaintext\":\"{plain}"),
        json!({"batch_input": [{"plaintext": plain}]}).to_string(),
        json!({"batch_input": plain}).to_string(),
    ] {
        for path in ["transit/encrypt/a", "transit/decrypt/a", "transit/hmac/a"] {
            let answer = client.ask("POST", path, &body);
            let told = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(!told.contains(plain) && !told.contains(&token), "{path}: {told}");
        }
    }
    let wrong = Client::with(&node, "X-Vault-Token: PLANTED-plaintext-4711-token");
    assert_eq!({ wrong }.ask("GET", "transit/keys/a", "").status, 403);
    let kek = [b'Z'; 32];
    let secrets: Vec<&[u8]> = [plain, &coded, &aad, &token, KEK, &exported]
        .iter()
        .map(|text| text.as_bytes())
        .chain([&kek[..]])
        .collect();
    let shown = ["/stat", "/metrics", "/v1/node", "/v1/vault", "/books?max=5"];
    let pages = shown.map(|path| node.get(path).1);
    assert!(pages[3].contains("\"name\":\"a\""), "{}", pages[3]);
    for told in pages.iter().chain([&node.log()]) {
        for secret in &secrets {
            let has = told.as_bytes().windows(secret.len()).any(|at| at == *secret);
            assert!(!has, "{} in {told}", String::from_utf8_lossy(secret));
        }
    }
    drop(node);
    let data = setup.data();
    let mut found = Vec::new();
    holding(&data, &secrets, &mut found);
    assert!(found.is_empty(), "{found:?}");
    assert!(!audit(&data).is_empty(), "where they were looked for there is something");
}

/// The process that holds keys leaves no core file, and no other process of its user reads its memory.
#[test]
fn a_node_with_keys_is_not_dumped() {
    let limits =
        |node: &Node| std::fs::read_to_string(format!("/proc/{}/limits", node.child.id())).unwrap();
    let core = |node: &Node| {
        let limits = limits(node);
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        line.split_whitespace().skip(4).take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(core(&unsealed().start()), ["0", "0"]);
    assert_ne!(core(&sealed().after("ulimit -c unlimited").start())[1], "0");
}

#[test]
fn a_full_disk_refuses_changes_and_goes_on_reading() {
    with_own_mounts("keys_attacks::a_full_disk_refuses_changes_and_goes_on_reading", || {
        let setup = unsealed();
        let disk = SmallDisk::at(setup.data().join("vault"), 256 << 10);
        let node = setup.start();
        let mut client = Client::to(&node);
        let message = client.encrypt("a", HELLO);
        disk.fill();
        let refused = wait_value("a change that finds no room", || {
            let (status, errors) = client.refused("POST", "transit/keys/a/rotate", "{}");
            (status == 503).then_some(errors)
        });
        assert!(refused.contains("could not be made durable"), "{refused}");
        assert_eq!(client.decrypt("a", &message), HELLO);
        assert!(client.encrypt("a", HELLO).starts_with("vault:v"), "its block is reserved");
        let before = client.data("GET", "transit/keys/a", &json!({}))["latest_version"].clone();
        node.wait_stat("the alarm", |stat| {
            stat["doors"]["keys"]["changes_failed"].as_u64() >= Some(1)
        });
        disk.free();
        let after = client.data("POST", "transit/keys/a/rotate", &json!({}));
        assert_eq!(after["latest_version"], before.as_u64().unwrap() + 1);
        let node = node.restart();
        assert_eq!(Client::to(&node).decrypt("a", &message), HELLO);
    });
}

/// The audit leaves the journal the disk's last GiB: on a smaller disk nothing about keys is done, and money goes on.
#[test]
fn without_room_for_the_audit_calls_about_keys_are_refused() {
    with_own_mounts(
        "keys_attacks::without_room_for_the_audit_calls_about_keys_are_refused",
        || {
            let setup = unsealed();
            let _disk = SmallDisk::at(setup.data(), 512 << 20);
            let node = setup.start();
            let mut client = Client::to(&node);
            let (status, errors) = client.refused("POST", "transit/keys/a", "{}");
            assert_eq!(status, 503);
            assert!(errors.contains("the audit cannot be written"), "{errors}");
            assert_eq!(client.ask("GET", "sys/health", "").status, 200);
            assert!(node.log().contains("the last 1073741824 are the journal's"), "{}", node.log());
            assert_eq!(node.client().decide(&[ask(1, 1, 1)]).len(), 1, "money goes on");
            node.wait_stat("the alarm", |stat| stat["doors"]["keys"]["audit_failures"] == 1);
            let made = Client::to(&node).ask("LIST", "transit/keys", "").status;
            assert_eq!(made, 503, "nothing is told either");
        },
    );
}

#[test]
fn an_audit_that_is_off_must_be_said_and_leaves_no_file() {
    let node = unsealed().with("keys.audit", "off").start();
    let mut client = Client::to(&node);
    let message = client.encrypt("a", HELLO);
    assert_eq!(client.decrypt("a", &message), HELLO);
    assert!(!node.data().join("vault-audit.jsonl").exists());
    drop(node);
    let log = unsealed().with("keys.audit", "no").try_start().map(|_| ()).unwrap_err();
    assert!(log.contains("keys.audit: found \"no\", expected \"on\" or \"off\""), "{log}");
}
