//! Keys made, changed, deleted, exported, moved.

use serde_json::{Value, json};
use vault::KeyType;

use crate::support::{Node, b64, unb64};

#[test]
fn a_new_key_is_shown_as_transit_shows_it() {
    let mut node = Node::new();
    let data = node.post("transit/keys/a", "").data();
    let expected = json!({
        "name":"a","type":"aes256-gcm96","derived":false,"deletion_allowed":false,"min_available_version":0,
        "min_decryption_version":1,"min_encryption_version":0,"latest_version":1,"exportable":false,
        "allow_plaintext_backup":false,"supports_encryption":true,"supports_decryption":true,"supports_signing":false,
        "supports_derivation":true,"auto_rotate_period":0,"imported_key":false,"soft_deleted":false,
        "keys":{"1":1_763_816_555_u64}
    });
    assert_eq!(data, expected);
    assert_eq!(node.get("transit/keys/a").data(), expected);
    let again = node.post("transit/keys/a", r#"{"type":"hmac"}"#);
    assert_eq!(again.data(), expected, "nothing changed");
    assert_eq!(again.json()["warnings"], json!(["key a already existed"]));
    let derived =
        node.post("transit/keys/d", r#"{"derived":true,"convergent_encryption":"true"}"#).data();
    assert_eq!(
        (derived["kdf"].clone(), derived["convergent_encryption"].clone()),
        (json!("hkdf_sha256"), json!(true))
    );
    assert_eq!(derived["convergent_encryption_version"], json!(-1));
    let hmac = node.post("transit/keys/h", r#"{"type":"hmac","key_size":"64"}"#).data();
    assert_eq!(
        (hmac["supports_encryption"].clone(), hmac["key_size"].clone()),
        (json!(false), json!(64))
    );
    assert_eq!(node.call("LIST", "transit/keys", "").data()["keys"], json!(["a", "d", "h"]));
    assert_eq!(node.get("transit/keys/?list=true&after=a&limit=1").data()["keys"], json!(["d"]));
}

#[test]
fn keys_that_cannot_be_are_refused() {
    let mut node = Node::new();
    let known = [
        (r#"{"type":"rsa-2048"}"#, "unknown key type rsa-2048"),
        (r#"{"type":"chacha20-poly1305"}"#, "unknown key type chacha20-poly1305"),
        (r#"{"type":"aes256-cbc"}"#, "unknown key type aes256-cbc"),
        (
            r#"{"convergent_encryption":true}"#,
            "convergent encryption requires derivation to be enabled",
        ),
        (r#"{"key_size":32}"#, "key_size is not valid for algorithm aes256-gcm96"),
        (
            r#"{"type":"aes128-gcm96","key_size":16}"#,
            "key_size is not valid for algorithm aes128-gcm96",
        ),
        (r#"{"type":"hmac","key_size":31}"#, "invalid key_size"),
        (r#"{"type":"hmac","key_size":-1}"#, "invalid key_size"),
        (r#"{"type":"hmac","derived":true}"#, "not supported for keys of type hmac"),
        (r#"{"auto_rotate_period":"59m"}"#, "at least an hour"),
        (r#"{"auto_rotate_period":"soon"}"#, "auto_rotate_period"),
        (r#"{"derived":"perhaps"}"#, "error converting input for field \"derived\""),
        (r#"{"type":["hmac"]}"#, "error converting input for field \"type\""),
    ];
    for (body, text) in known {
        let (status, error) = node.post("transit/keys/a", body).error();
        assert!(status == 400 && error.contains(text), "{body}: {status} {error}");
    }
    assert!(node.store.keys().is_empty());
    assert_eq!(
        node.post("transit/keys/a", r#"{"auto_rotate_period":"24h"}"#).data()["auto_rotate_period"],
        json!(86_400)
    );
}

#[test]
fn a_rotation_keeps_old_messages_until_they_are_ruled_out() {
    let mut node = Node::with_key("{}");
    let first = node.encrypt("one");
    assert!(first.starts_with("vault:v1:"));
    let rotated = node.post("transit/keys/a/rotate", "").data();
    assert_eq!(
        (rotated["latest_version"].clone(), rotated["keys"].as_object().unwrap().len()),
        (json!(2), 2)
    );
    let second = node.encrypt("two");
    assert!(second.starts_with("vault:v2:"));
    assert_eq!((node.decrypt(&first), node.decrypt(&second)), (Ok("one".into()), Ok("two".into())));
    let rewrapped = node.post("transit/rewrap/a", format!(r#"{{"ciphertext":"{first}"}}"#)).data();
    assert!(rewrapped["ciphertext"].as_str().unwrap().starts_with("vault:v2:"));
    assert_eq!(rewrapped["key_version"], json!(2));
    let set = |node: &mut Node, body: &str| node.post("transit/keys/a/config", body);
    let least = set(&mut node, r#"{"min_decryption_version":"2"}"#).data();
    assert_eq!(
        least["keys"].as_object().unwrap().len(),
        1,
        "a version that is ruled out is not shown"
    );
    let old = "ciphertext or signature version is disallowed by policy (too old)";
    assert_eq!(node.decrypt(&first), Err((400, old.into())));
    assert_eq!(
        node.decrypt(&second.replace("v2", "v3")),
        Err((400, "invalid ciphertext: version is too new".into()))
    );
    let body = |version: &str| format!(r#"{{"plaintext":"eA==","key_version":{version}}}"#);
    let encrypt = |node: &mut Node, version: &str| node.post("transit/encrypt/a", body(version));
    assert_eq!(encrypt(&mut node, "1").data()["key_version"], json!(1), "sealing is not ruled out");
    set(&mut node, r#"{"min_encryption_version":2}"#);
    assert!(
        encrypt(&mut node, "1").error().1.ends_with("less than the minimum encryption key version")
    );
    assert!(encrypt(&mut node, "\"3\"").error().1.ends_with("higher than the latest key version"));
    assert_eq!(encrypt(&mut node, "\"2\"").data()["key_version"], json!(2));
    assert_eq!(encrypt(&mut node, "-1").error().1, "requested version for encryption is negative");
}

#[test]
fn a_configuration_is_checked_as_transit_does() {
    let mut node = Node::with_key("{}");
    let mut set = |body: &str| node.post("transit/keys/a/config", body);
    assert_eq!(
        set(r#"{"min_decryption_version":7}"#).error(),
        (400, "cannot set min decryption version of 7, latest key version is 1".into())
    );
    assert_eq!(
        set(r#"{"min_encryption_version":7}"#).error(),
        (400, "cannot set min encryption version of 7, latest key version is 1".into())
    );
    assert_eq!(
        set(r#"{"min_decryption_version":-1}"#).error(),
        (400, "min decryption version cannot be negative".into())
    );
    let zero = set(r#"{"min_decryption_version":0}"#);
    assert_eq!(
        (
            zero.data()["min_decryption_version"].clone(),
            zero.json()["warnings"].as_array().unwrap().len()
        ),
        (json!(1), 1)
    );
    assert_eq!(
        set(r#"{"exportable":true,"allow_plaintext_backup":true}"#).data()["exportable"],
        json!(true)
    );
    let off = set(r#"{"exportable":false,"allow_plaintext_backup":false}"#).data();
    assert_eq!(
        (off["exportable"].clone(), off["allow_plaintext_backup"].clone()),
        (json!(true), json!(true)),
        "never off again"
    );
    assert_eq!(set(r#"{"auto_rotate_period":3600}"#).data()["auto_rotate_period"], json!(3600));
    assert_eq!(set(r#"{"auto_rotate_period":"0"}"#).data()["auto_rotate_period"], json!(0));
    let none = node.post("transit/keys/none/config", "{}");
    assert_eq!(none.error(), (400, "no existing key named none could be found".into()));
    assert_eq!(node.post("transit/keys/none/rotate", "{}").error(), (400, "key not found".into()));
}

#[test]
fn deleting_has_to_be_allowed() {
    let mut node = Node::with_key("{}");
    let delete = |node: &mut Node| node.call("DELETE", "transit/keys/a", "");
    assert_eq!(
        delete(&mut node).error(),
        (400, "error deleting policy a: deletion is not allowed for this key".into())
    );
    node.post("transit/keys/a/config", r#"{"deletion_allowed":true}"#);
    assert_eq!(delete(&mut node).status, 204);
    assert_eq!(
        delete(&mut node).error(),
        (400, "error deleting policy a: could not delete key; not found".into())
    );
    assert_eq!(node.get("transit/keys/a").status, 404);
}

#[test]
fn trimming_destroys_and_needs_both_least_versions() {
    let mut node = Node::with_key("{}");
    let first = node.encrypt("one");
    node.post("transit/keys/a/rotate", "");
    let trim = |node: &mut Node, version: &str| {
        node.post("transit/keys/a/trim", format!(r#"{{"min_available_version":{version}}}"#))
    };
    assert!(trim(&mut node, "2").error().1.contains("minimum encryption version is not set"));
    assert_eq!(
        node.post("transit/keys/a/trim", "{}").error(),
        (400, "missing min_available_version".into())
    );
    node.post(
        "transit/keys/a/config",
        r#"{"min_decryption_version":2,"min_encryption_version":2}"#,
    );
    assert!(trim(&mut node, "3").error().1.contains("cannot be higher"));
    assert_eq!(trim(&mut node, "2").data()["min_available_version"], json!(2));
    assert!(trim(&mut node, "1").error().1.contains("cannot be decremented"));
    assert!(node.decrypt(&first).is_err());
    let back = node.post("transit/keys/a/config", r#"{"min_decryption_version":1}"#);
    assert_eq!(
        back.error(),
        (400, "min decryption version should not be less than min available version".into())
    );
}

/// The key of a version opens what it sealed: with another implementation of AES-GCM.
#[test]
fn what_is_exported_is_the_key() {
    let ciphers =
        [("aes256-gcm96", &ring::aead::AES_256_GCM), ("aes128-gcm96", &ring::aead::AES_128_GCM)];
    for (kind, cipher) in ciphers {
        let mut node = Node::with_key(&json!({"type": kind, "exportable": true}).to_string());
        node.post("transit/keys/a/rotate", "");
        let sealed = unb64(node.encrypt("hello").strip_prefix("vault:v2:").unwrap());
        let exported = node.get("transit/export/encryption-key/a").data();
        let keys = &exported["keys"];
        assert_eq!((&exported["type"], keys.as_object().unwrap().len()), (&json!(kind), 2));
        let latest = node.get("transit/export/encryption-key/a/latest").data();
        assert_eq!(latest["keys"], json!({"2": keys["2"]}));
        let key = unb64(keys["2"].as_str().unwrap());
        let key = ring::aead::UnboundKey::new(cipher, &key).unwrap();
        let nonce = ring::aead::Nonce::try_assume_unique_for_key(&sealed[..12]).unwrap();
        let mut text = sealed[12..].to_vec();
        let opened = ring::aead::LessSafeKey::new(key).open_in_place(
            nonce,
            ring::aead::Aad::empty(),
            &mut text,
        );
        assert_eq!(opened.unwrap(), b"hello");
        // And the key of tags makes the tags.
        let tag = node.post("transit/hmac/a", format!(r#"{{"input":"{}"}}"#, b64("x"))).data();
        let keys = node.get("transit/export/hmac-key/a/2").data();
        let key = unb64(keys["keys"]["2"].as_str().unwrap());
        assert_eq!(key.len(), 32);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
        let expected = format!("vault:v2:{}", b64(ring::hmac::sign(&key, b"x")));
        assert_eq!(tag["hmac"], json!(expected));
    }
}

#[test]
fn what_is_not_there_is_not_exported() {
    let mut node = Node::with_key(r#"{"exportable":true}"#);
    node.post("transit/keys/a/rotate", "");
    for (path, text) in [
        ("transit/export/encryption-key/a/3", "version does not exist or cannot be found"),
        ("transit/export/encryption-key/a/x", "invalid key version"),
        (
            "transit/export/signing-key/a",
            "signing-key is not supported: there are no asymmetric keys",
        ),
    ] {
        assert_eq!(node.get(path).error(), (400, text.into()));
    }
    let mut node = Node::with_key("{}");
    assert_eq!(
        node.get("transit/export/encryption-key/a").error(),
        (400, "private key material is not exportable".into())
    );
}

#[test]
fn a_backup_moves_a_key_with_all_its_versions() {
    for kind in KeyType::ALL {
        let options =
            format!(r#"{{"type":"{kind}","exportable":true,"allow_plaintext_backup":true}}"#);
        let mut node = Node::with_key(&options);
        let mut messages = vec![node.encrypt("one")];
        for text in ["two", "three"] {
            node.post("transit/keys/a/rotate", "");
            messages.push(node.encrypt(text));
        }
        node.post(
            "transit/keys/a/config",
            r#"{"min_decryption_version":2,"min_encryption_version":3}"#,
        );
        node.post("transit/keys/a/trim", r#"{"min_available_version":2}"#);
        let backup = node.get("transit/backup/a").data()["backup"].clone();
        let mut other = Node::new();
        let body = json!({"backup": backup}).to_string();
        assert_eq!(other.post("transit/restore", &body).status, 204, "{kind}");
        assert_eq!(other.decrypt(&messages[1]), Ok("two".into()), "{kind}");
        assert_eq!(other.decrypt(&messages[2]), Ok("three".into()));
        assert!(other.decrypt(&messages[0]).is_err());
        assert!(other.post("transit/restore", &body).error().1.contains("already exists"));
        assert_eq!(other.post("transit/restore/b", &body).status, 204);
        let forced = json!({"backup": backup, "force": true}).to_string();
        assert_eq!(other.post("transit/restore", forced).status, 204);
        let (mut own, mut there) =
            (node.get("transit/keys/a").data(), other.get("transit/keys/a").data());
        assert_eq!(there["imported_key"], json!(true));
        for key in [&mut own, &mut there] {
            key["imported_key"] = Value::Null;
        }
        assert_eq!(own, there);
        let count = |node: &Node| {
            node.store.keys().get("a").unwrap().versions().get(3).unwrap().count().reserved()
        };
        assert_eq!(count(&other), count(&node), "the count comes along");
    }
    let mut node = Node::with_key(r#"{"exportable":true}"#);
    assert_eq!(node.get("transit/backup/a").error().0, 500);
    assert!(node.post("transit/restore", r#"{"backup":"e30="}"#).error().1.contains("policy"));
    assert_eq!(
        node.post("transit/restore", "{}").error(),
        (400, "'backup' must be supplied".into())
    );
}

/// A backup in OpenBao's form, with versions in its archive alone.
#[test]
fn a_backup_of_openbao_is_restored() {
    let entry = |byte: u8| {
        json!({"key": b64([byte; 32]), "hmac_key": b64([byte + 1; 32]), "time": "2025-11-22T13:02:35Z", "ec_x": null,
               "rsa_key": null, "public_key": "", "convergent_version": 0, "creation_time": 1_763_816_555})
    };
    let policy = json!({"name":"bao","keys":{"2": entry(20)},"derived":false,"kdf":0,"convergent_encryption":false,
        "exportable":true,"min_decryption_version":2,"min_encryption_version":0,"latest_version":2,"archive_version":2,
        "archive_min_version":0,"min_available_version":0,"deletion_allowed":false,"convergent_version":0,"type":0,
        "backup_info":{"time":"2025-11-22T13:02:35Z","version":2},"restore_info":null,"allow_plaintext_backup":true,
        "version_template":"","storage_prefix":"","auto_rotate_period":7_200_000_000_000_u64,"Imported":false,
        "AllowImportedKeyRotation":false,"soft_deleted":false});
    let whole = json!({"policy": policy, "archived_keys": {"keys": [{}, entry(10), entry(20)]}})
        .to_string();
    let mut node = Node::new();
    let body = json!({"backup": b64(whole)}).to_string();
    assert_eq!(node.post("transit/restore/a", body).status, 204);
    let key = node.get("transit/keys/a").data();
    assert_eq!(
        (key["latest_version"].clone(), key["auto_rotate_period"].clone()),
        (json!(2), json!(7200))
    );
    node.post("transit/keys/a/config", r#"{"min_decryption_version":1}"#);
    let keys = node.get("transit/export/encryption-key/a").data()["keys"].clone();
    assert_eq!(keys, json!({"1": b64([10; 32]), "2": b64([20; 32])}));
    // OpenBao's own message under version 1: AES-256-GCM with this key and nonce.
    let key = ring::aead::UnboundKey::new(&ring::aead::AES_256_GCM, &[10; 32]).unwrap();
    let nonce = ring::aead::Nonce::assume_unique_for_key([3; 12]);
    let mut text = b"hello".to_vec();
    ring::aead::LessSafeKey::new(key)
        .seal_in_place_append_tag(nonce, ring::aead::Aad::empty(), &mut text)
        .unwrap();
    let message = format!("vault:v1:{}", b64([&[3; 12][..], &text].concat()));
    assert_eq!(node.decrypt(&message), Ok("hello".into()));
}

/// A backup that OpenBao 2.7.2 made of a key with AES-128, and what it sealed with it.
#[test]
fn a_backup_of_openbao_with_aes_128_is_restored() {
    let entry = json!({"key": "AAECAwQFBgcICQoLDA0ODw==", "hmac_key": "Oc2+YjumbV1JU0xtz4bPdNPzFqUJ8so16mrekHSU4EE=",
        "time": "2026-11-27T07:21:04.162705008Z", "ec_x": null, "public_key": "", "convergent_version": 3,
        "creation_time": 1_795_764_064, "certificate_chain": null, "external_key_ref": ""});
    let none = json!({"key": null, "hmac_key": null, "time": "0001-01-01T00:00:00Z", "convergent_version": 0, "creation_time": 0});
    let policy = json!({"name": "c", "keys": {"1": entry}, "derived": true, "kdf": 1, "convergent_encryption": true,
        "exportable": true, "min_decryption_version": 1, "min_encryption_version": 0, "latest_version": 1,
        "archive_version": 1, "archive_min_version": 0, "min_available_version": 0, "deletion_allowed": false,
        "convergent_version": -1, "type": 8, "backup_info": {"time": "2026-11-27T07:21:04.610785865Z", "version": 1},
        "restore_info": null, "allow_plaintext_backup": true, "version_template": "", "storage_prefix": "",
        "auto_rotate_period": 0, "Imported": false, "AllowImportedKeyRotation": false, "soft_deleted": false});
    let whole = json!({"policy": policy, "archived_keys": {"keys": [none, entry]}}).to_string();
    let mut node = Node::new();
    let body = json!({"backup": b64(&whole)}).to_string();
    assert_eq!(node.post("transit/restore/a", body).status, 204);
    assert_eq!(node.get("transit/keys/a").data()["type"], json!("aes128-gcm96"));
    let message = "vault:v1:PVkl9iRDR4ncCXmPVAQSiZmNZKFJdi8HBFCnt6DdxMu1";
    let context = b64("customer 42");
    let body = json!({"plaintext": b64("hello"), "context": context}).to_string();
    assert_eq!(node.post("transit/encrypt/a", body).data()["ciphertext"], json!(message));
    let body = json!({"ciphertext": message, "context": context}).to_string();
    assert_eq!(node.post("transit/decrypt/a", body).data()["plaintext"], json!(b64("hello")));
    let back = node.get("transit/backup/a").data()["backup"].clone();
    let back: Value = serde_json::from_slice(&unb64(back.as_str().unwrap())).unwrap();
    assert_eq!(
        (&back["policy"]["type"], &back["policy"]["keys"]["1"]["key"]),
        (&json!(8), &entry["key"])
    );
    // Numbers of the key's own record are none of a backup's.
    for (kind, length) in [("8", 32), ("0", 16), ("1005", 16), ("1006", 16)] {
        let key = json!(b64(vec![7; length]));
        let changed = whole.replace(&entry["key"].to_string(), &key.to_string());
        let changed = changed.replace("\"type\":8", &format!("\"type\":{kind}"));
        let body = json!({"backup": b64(changed), "force": true}).to_string();
        assert_eq!(node.post("transit/restore/a", body).status, 400, "{kind}, {length} bytes");
    }
}

#[test]
fn upserts_can_be_forbidden() {
    let mut node = Node::new();
    let one = r#"{"plaintext":"eA==","type":"aes256-gcm-siv","context":"Y3R4"}"#;
    assert_eq!(node.post("transit/encrypt/new", one).status, 200);
    let made = node.get("transit/keys/new").data();
    assert_eq!(
        (made["type"].clone(), made["derived"].clone()),
        (json!("aes256-gcm-siv"), json!(true))
    );
    assert_eq!(
        node.post("transit/config/keys", r#"{"disable_upsert":true}"#).data()["disable_upsert"],
        json!(true)
    );
    assert_eq!(
        node.post("transit/encrypt/other", one).error(),
        (400, "encryption key not found".into())
    );
    assert_eq!(node.get("transit/config/keys").data()["disable_upsert"], json!(true));
    assert_eq!(
        node.post("transit/decrypt/other", r#"{"ciphertext":"vault:v1:x"}"#).error(),
        (400, "encryption key not found".into())
    );
}

/// As in OpenBao: the key is made before the items are looked at, and by nothing that is refused as a whole.
#[test]
fn encrypting_makes_the_key_also_where_every_item_fails() {
    let mut node = Node::new();
    for (name, body) in [
        ("one", r#"{"plaintext":"!"}"#),
        ("batch", r#"{"batch_input":[{"plaintext":"!"},{"plaintext":"%"}]}"#),
        ("version", r#"{"plaintext":"eA==","key_version":7}"#),
    ] {
        assert_eq!(node.post(&format!("transit/encrypt/{name}"), body).status, 400, "{body}");
        assert_eq!(node.get(&format!("transit/keys/{name}")).status, 200, "{body}");
    }
    for body in [
        "{",
        "{}",
        r#"{"batch_input":[]}"#,
        r#"{"batch_input":{}}"#,
        r#"{"batch_input":[{"plaintext":"eA=="},{}]}"#,
        r#"{"batch_input":[{"plaintext":"eA=="},{"plaintext":"eA==","context":"eA=="}]}"#,
        r#"{"plaintext":"eA==","type":"rot13"}"#,
        r#"{"plaintext":"eA==","convergent_encryption":true}"#,
    ] {
        assert_eq!(node.post("transit/encrypt/none", body).status, 400, "{body}");
        assert_eq!(node.get("transit/keys/none").status, 404, "{body}");
    }
}

/// A key that is taken out of use does nothing until it is taken back; what it sealed opens then.
#[test]
fn a_soft_deleted_key_waits() {
    let mut node = Node::with_key(r#"{"exportable":true,"allow_plaintext_backup":true}"#);
    let sealed = node.encrypt("x");
    let soft = |node: &mut Node| node.call("DELETE", "transit/keys/a/soft-delete", "");
    assert_eq!(soft(&mut node).data()["soft_deleted"], json!(true));
    assert_eq!(
        soft(&mut node).json()["warnings"],
        json!(["key was already marked as soft deleted"])
    );
    let body =
        json!({"plaintext": "", "ciphertext": sealed, "input": "", "hmac": sealed}).to_string();
    for path in [
        "encrypt/a",
        "decrypt/a",
        "rewrap/a",
        "hmac/a",
        "verify/a",
        "datakey/wrapped/a",
        "keys/a/rotate",
    ] {
        let refused = (400, "refusing to use soft-deleted key".to_string());
        assert_eq!(node.post(&format!("transit/{path}"), &body).error(), refused, "{path}");
    }
    for path in ["export/encryption-key/a", "backup/a"] {
        assert_eq!(node.get(&format!("transit/{path}")).status, 400, "{path}");
    }
    let bulk = node.post("transit/bulk/encrypt/a", [1, 0, 0, 0, 7]);
    assert_eq!(bulk.status, 400);
    assert_eq!(node.call("LIST", "transit/keys", "").data(), json!({"keys": ["a"]}));
    assert_eq!(node.get("transit/keys/a").data()["soft_deleted"], json!(true));
    let restore = |node: &mut Node| node.post("transit/keys/a/soft-delete-restore", "");
    assert_eq!(restore(&mut node).data()["soft_deleted"], json!(false));
    assert_eq!(restore(&mut node).json()["warnings"], json!(["key was already restored"]));
    assert_eq!(node.decrypt(&sealed).unwrap(), "x");
    assert_eq!(node.post("transit/keys/none/soft-delete-restore", "").status, 204);
    let mut limited = node.limited("transit/encrypt/a");
    assert_eq!(soft(&mut limited).status, 403);
}
