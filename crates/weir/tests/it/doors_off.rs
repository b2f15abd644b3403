//! Doors that are off, and addresses that are taken.

use std::net::{SocketAddr, TcpListener};

use serde_json::Value;

use crate::client::ask;
use crate::support::{Setup, http_get, line, output, stderr, text, weir};

fn doors(node: &crate::support::Node) -> Value {
    let (status, body) = http_get(node.admin, "/v1/node");
    assert_eq!(status, 200);
    serde_json::from_str::<Value>(&body).unwrap()["doors"].clone()
}

#[test]
fn a_door_that_is_off_binds_nothing_and_is_shown_as_off() {
    let setup = Setup::new(&line(1, "10", "")).with_door("openrtb", "").with_door("spend", "");
    let mut node = setup.start();
    assert_eq!(node.said[1..3], ["openrtb off", "spend off"]);
    assert_eq!(node.client().decide(&[ask(1, 1, 1)]).len(), 1, "the others serve");
    let doors = doors(&node);
    let listen = |place: usize| doors[place]["listen"].clone();
    assert_eq!(listen(0), node.batch.to_string());
    assert_eq!((listen(1), listen(2)), (Value::Null, Value::Null));
    let addresses = std::fs::read_to_string(node.data().join("addresses.json")).unwrap();
    assert!(!addresses.contains("spend") && addresses.contains("batch"), "{addresses}");
    node.interrupt();
    assert!(node.wait_end().success());
}

#[test]
fn every_door_of_the_workers_may_be_off_and_the_admin_door_may_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    let check = |config: &str| {
        std::fs::write(&file, config).unwrap();
        output(weir().args(["check", "--config", text(&file)]).current_dir(folder.path()))
    };
    let off = "[batch]\nlisten = \"\"\n[openrtb]\nlisten = \"\"\n[spend]\nlisten = \"\"\n";
    let told = check(off);
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    assert!(
        stderr(&told).contains("Doors that are off: batch, openrtb, spend."),
        "{}",
        stderr(&told)
    );
    let told = check("[admin]\nlisten = \"\"\n");
    assert_eq!(told.status.code(), Some(1));
    assert!(
        stderr(&told).contains("admin.listen is empty: this door cannot be off"),
        "{}",
        stderr(&told)
    );
}

/// The usual address of the spend door is taken by somebody on this machine: whoever asks nothing of that door still gets a node.
#[test]
fn a_default_address_that_is_taken_costs_the_door_and_a_written_one_stops_the_start() {
    let usual = SocketAddr::from(([127, 0, 0, 1], 7704));
    // Where another process has it already, that one does as well.
    let _taken = TcpListener::bind(usual);
    let setup = Setup::new(&line(1, "10", "")).with_default_door("spend");
    let node = setup.start();
    assert_eq!(node.said[2], "spend off");
    assert!(
        node.log().contains("the spend door is off: cannot listen on 127.0.0.1:7704"),
        "{}",
        node.log()
    );
    assert_eq!(doors(&node)[2]["listen"], Value::Null);
    drop(node);
    let setup = Setup::new(&line(1, "10", "")).with_door("spend", "127.0.0.1:7704");
    let log = setup.try_start().map(|_| ()).unwrap_err();
    assert!(
        log.contains("the spend door (spend.listen, --spend): cannot listen on 127.0.0.1:7704"),
        "{log}"
    );
}
