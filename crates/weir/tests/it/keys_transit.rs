//! Nodes whose key that wraps all keys another node keeps.

use std::path::PathBuf;

use crate::keys::{Client, HELLO, door, kek_file, own_token, sealed, unsealed, write_secret};
use crate::support::{Node, Setup, text, wait_for};

/// A node that has its key from another one, with a token of that one's making.
fn with_keeper(keeper: &Node) -> Setup {
    let setup = sealed();
    write_secret(&token_file(&setup), &own_token(&keeper.data()));
    let token = token_file(&setup);
    setup
        .with("vault.transit_address", &format!("http://{}", door(keeper)))
        .with("vault.transit_token_file", text(&token))
        .with("vault.transit_key_name", "kek")
}

fn token_file(setup: &Setup) -> PathBuf {
    setup.folder().join("token-of-keeper")
}

fn wrapped_file(setup: &Setup) -> PathBuf {
    setup.data().join("vault/kek-of-transit")
}

fn is_unsealed(node: &Node) -> bool {
    Client::to(node).ask("GET", "sys/health", "").status == 200
}

/// A node that starts sealed, and what it says why.
fn sealed_with(setup: &Setup, expected: &str) {
    let node = setup.clone().start();
    assert!(!is_unsealed(&node));
    let log = node.log();
    assert!(log.contains(expected) && log.contains("the keys stay sealed"), "{log}");
    let token = std::fs::read_to_string(token_file(setup)).unwrap();
    assert!(!log.contains(token.trim()), "{log}");
}

#[test]
fn another_node_keeps_the_key_and_is_asked_again_where_it_was_away() {
    let setup_of_keeper = unsealed();
    let keeper = setup_of_keeper.clone().start();
    let address: &str = door(&keeper).to_string().leak();
    let token = own_token(&keeper.data());
    let setup = with_keeper(&keeper);
    let node = setup.clone().start();
    let message = Client::to(&node).encrypt("orders", HELLO);
    let wrapped = std::fs::read_to_string(wrapped_file(&setup)).unwrap();
    assert!(wrapped.starts_with("vault:v1:"), "{wrapped}");
    let node = node.restart();
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
    assert_eq!(std::fs::read_to_string(wrapped_file(&setup)).unwrap(), wrapped);
    assert!(!node.log().contains(&token), "{}", node.log());
    drop(keeper);
    let node = node.restart();
    assert!(!is_unsealed(&node));
    assert!(node.log().contains("no connection"), "{}", node.log());
    let keeper = setup_of_keeper.with_door("keys", address).start();
    wait_for("the key of the other node", || is_unsealed(&node));
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
    // Whoever seals means it.
    assert_eq!(Client::to(&node).ask("PUT", "sys/seal", "").status, 204);
    assert!(!is_unsealed(&node));
    drop(keeper);
}

#[test]
fn what_another_node_refuses_seals_the_keys_and_is_told() {
    let keeper = unsealed().start();
    let setup = with_keeper(&keeper);
    // Its first key is not made without the other, and is not another one later.
    write_secret(&token_file(&setup), "weir_nobody0123456789");
    sealed_with(&setup, "may not call /v1/transit/encrypt/kek");
    assert!(!wrapped_file(&setup).exists(), "nothing was written");
    write_secret(&token_file(&setup), &own_token(&keeper.data()));
    let message = Client::to(&setup.clone().start()).encrypt("orders", HELLO);
    let wrapped = std::fs::read_to_string(wrapped_file(&setup)).unwrap();
    sealed_with(&setup.clone().with("vault.transit_key_name", "other"), "with 400");
    sealed_with(&setup.clone().with("vault.transit_mount_path", "elsewhere"), "transit_mount_path");
    let mut client = Client::to(&keeper);
    client.encrypt("other", HELLO);
    sealed_with(&setup.clone().with("vault.transit_key_name", "other"), "made by another key");
    // Of the right key, and no key; of the right key, and another one.
    let replace = |text: &str| std::fs::write(wrapped_file(&setup), text).unwrap();
    replace(&client.encrypt("kek", HELLO));
    sealed_with(&setup, "expected data.plaintext as base64 of 32 bytes");
    replace(&client.encrypt("kek", "WlpaWlpa"));
    sealed_with(&setup, "expected data.plaintext as base64 of 32 bytes");
    let refused = || setup.clone().try_start().map(|_| ()).unwrap_err();
    replace(&client.encrypt("kek", "WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo="));
    assert!(refused().contains("not the key encryption key"), "{}", refused());
    replace("garbage");
    assert!(refused().contains("expected one line, vault:v1:"), "{}", refused());
    std::fs::remove_file(wrapped_file(&setup)).unwrap();
    assert!(refused().contains("restore that file from a copy"), "{}", refused());
    replace(&wrapped);
    // The other one is there and sealed itself.
    assert_eq!(client.ask("PUT", "sys/seal", "").status, 204);
    sealed_with(&setup, "Vault is sealed; unseal it");
    let key = format!("{{\"key\":\"{}\"}}", crate::keys::KEK);
    assert_eq!(client.ask("PUT", "sys/unseal", &key).status, 200);
    let node = setup.start();
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
}

#[test]
fn a_key_of_before_is_given_to_another_node() {
    let keeper = unsealed().start();
    let setup = with_keeper(&keeper);
    let file = kek_file(&setup);
    write_secret(&file, crate::keys::KEK);
    let by_file =
        setup.clone().with("vault.transit_address", "").with("vault.key_file", text(&file));
    let by_file = by_file.with("vault.transit_token_file", "").with("vault.transit_key_name", "");
    let message = Client::to(&by_file.start()).encrypt("orders", HELLO);
    let refused = setup.clone().try_start().map(|_| ()).unwrap_err();
    assert!(refused.contains("docs/vault.md"), "{refused}");
    let sealed = Client::to(&keeper).encrypt("kek", "WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo=");
    std::fs::write(wrapped_file(&setup), sealed).unwrap();
    let node = setup.start();
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
}

#[test]
fn the_certificate_of_another_node_is_judged() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let setup = unsealed();
    let (cert, key) = (setup.folder().join("cert"), setup.folder().join("key"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    write_secret(&key, &made.signing_key.serialize_pem());
    let keeper = setup.with("keys.tls_cert", text(&cert)).with("keys.tls_key", text(&key)).start();
    let port = door(&keeper).port();
    let setup =
        with_keeper(&keeper).with("vault.transit_address", &format!("https://localhost:{port}"));
    sealed_with(&setup, "set vault.transit_tls_ca_cert");
    let none = setup.clone().with("vault.transit_tls_ca_cert", text(&key));
    let refused = none.try_start().map(|_| ()).unwrap_err();
    assert!(refused.contains("expected certificates in PEM"), "{refused}");
    let node = setup.with("vault.transit_tls_ca_cert", text(&cert)).start();
    assert!(is_unsealed(&node));
}
