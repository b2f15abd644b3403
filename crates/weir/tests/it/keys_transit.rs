//! Nodes whose key that wraps all keys another node keeps.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::keys::{Client, HELLO, KEK, door, kek_file, own_token, sealed, unsealed, write_secret};
use crate::keys_unseal::{done, keys_of, refused};
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

/// The same folder, whose key comes from elsewhere.
fn without_keeper(setup: &Setup) -> Setup {
    let setup = setup.clone().with("vault.transit_address", "");
    setup.with("vault.transit_token_file", "").with("vault.transit_key_name", "")
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

/// Waits for the key of the other node: a start waits for it only a moment.
fn wait_unsealed(node: &Node) {
    wait_for("the key of the other node", || is_unsealed(node));
}

/// The same of a new node.
fn start_unsealed(setup: &Setup) -> Node {
    let node = setup.clone().start();
    wait_unsealed(&node);
    node
}

/// A node that starts sealed, and what it says why.
fn sealed_with(setup: &Setup, expected: &str) {
    let node = setup.clone().start();
    assert!(!is_unsealed(&node));
    wait_for(expected, || node.log().contains(expected));
    let log = node.log();
    assert!(log.contains("the keys stay sealed"), "{log}");
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
    let node = start_unsealed(&setup);
    let message = Client::to(&node).encrypt("orders", HELLO);
    let wrapped = std::fs::read_to_string(wrapped_file(&setup)).unwrap();
    assert!(wrapped.starts_with("vault:v1:"), "{wrapped}");
    let node = node.restart();
    wait_unsealed(&node);
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
    assert_eq!(std::fs::read_to_string(wrapped_file(&setup)).unwrap(), wrapped);
    assert!(!node.log().contains(&token), "{}", node.log());
    drop(keeper);
    let node = node.restart();
    assert!(!is_unsealed(&node));
    assert!(node.log().contains("no connection"), "{}", node.log());
    let keeper = setup_of_keeper.with_door("keys", address).start();
    wait_unsealed(&node);
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
    // Whoever seals means it.
    assert_eq!(Client::to(&node).ask("PUT", "sys/seal", "").status, 204);
    assert!(!is_unsealed(&node));
    drop(keeper);
}

/// Hands one exchange on to another address.
fn relay(from: TcpStream, to: SocketAddr) {
    let to = TcpStream::connect(to).unwrap();
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    };
    let (asks, asked) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || pass(asks, asked));
    std::thread::spawn(move || pass(to, from));
}

/// A connection alone says nothing of when an answer comes: the node starts, and takes the key when it is there.
#[test]
fn another_node_that_takes_the_connection_and_is_silent_holds_no_start_up() {
    let keeper = unsealed().start();
    let keys = door(&keeper);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", silent.local_addr().unwrap());
    let setup = with_keeper(&keeper).with("vault.transit_address", &address);
    let start = Instant::now();
    let node = setup.clone().start();
    assert!(start.elapsed() < Duration::from_secs(7), "{:?}: {}", start.elapsed(), node.log());
    assert!(!is_unsealed(&node));
    assert!(node.log().contains("no whole answer within 2000 ms"), "{}", node.log());
    std::thread::spawn(move || silent.incoming().for_each(|from| relay(from.unwrap(), keys)));
    wait_unsealed(&node);
    let message = Client::to(&node).encrypt("orders", HELLO);
    let node = node.restart();
    wait_unsealed(&node);
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
}

/// A key by hand would begin keys that the other node cannot unseal, and end every later start; keys of before may be unsealed with their own.
#[test]
fn beside_another_node_a_hand_begins_no_keys() {
    let setup_of_keeper = unsealed();
    let keeper = setup_of_keeper.clone().start();
    let address: &str = door(&keeper).to_string().leak();
    let setup = with_keeper(&keeper);
    drop(keeper);
    let node = setup.clone().start();
    let words = "correct horse battery staple";
    for (command, input) in [
        ("unseal", KEK),
        ("unseal --first", KEK),
        ("unseal --passphrase", words),
        ("unseal --first --passphrase", words),
    ] {
        let error = refused(&setup, command, input);
        let expected = format!("vault.transit_address http://{address}");
        assert!(error.contains(&expected) && !error.contains("--first"), "{command}: {error}");
    }
    assert_eq!(keys_of(&setup.data()), None, "nothing was written");
    assert!(!setup.data().join("vault/passphrase").exists());
    let node = node.restart();
    let keeper = setup_of_keeper.clone().with_door("keys", address).start();
    wait_unsealed(&node);
    drop(node);
    // The other has the key of keys that were there before, and is away.
    let sealed = Client::to(&keeper).encrypt("kek", "WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo=");
    let moved = with_keeper(&keeper);
    let file = kek_file(&moved);
    write_secret(&file, KEK);
    let by_file = without_keeper(&moved).with("vault.key_file", text(&file));
    let message = Client::to(&by_file.start()).encrypt("orders", HELLO);
    std::fs::write(wrapped_file(&moved), sealed).unwrap();
    drop(keeper);
    let node = moved.clone().start();
    assert!(refused(&moved, "unseal", &KEK.replace('5', "6")).contains("nothing was written"));
    assert!(done(&moved, "unseal", KEK).contains(": unsealed"));
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
    let _keeper = setup_of_keeper.with_door("keys", address).start();
    let node = node.restart();
    wait_unsealed(&node);
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
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
    let message = Client::to(&start_unsealed(&setup)).encrypt("orders", HELLO);
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
    let key = format!("{{\"key\":\"{}\"}}", KEK);
    assert_eq!(client.ask("PUT", "sys/unseal", &key).status, 200);
    let node = start_unsealed(&setup);
    assert_eq!(Client::to(&node).decrypt("orders", &message), HELLO);
}

#[test]
fn a_key_of_before_is_given_to_another_node() {
    let keeper = unsealed().start();
    let setup = with_keeper(&keeper);
    let file = kek_file(&setup);
    write_secret(&file, KEK);
    let by_file = without_keeper(&setup).with("vault.key_file", text(&file));
    let message = Client::to(&by_file.start()).encrypt("orders", HELLO);
    let refused = setup.clone().try_start().map(|_| ()).unwrap_err();
    assert!(refused.contains("docs/vault.md"), "{refused}");
    let sealed = Client::to(&keeper).encrypt("kek", "WlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlpaWlo=");
    std::fs::write(wrapped_file(&setup), sealed).unwrap();
    let node = start_unsealed(&setup);
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
    start_unsealed(&setup.with("vault.transit_tls_ca_cert", text(&cert)));
}
