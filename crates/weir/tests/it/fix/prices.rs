//! Reference prices of a node: a file that changes while it runs.

use std::path::Path;

use super::venues::{accept, listeners, with_venue};
use super::{Client, field, now};
use crate::support::{line, wait_for, weir};

/// Puts a whole file in the place of another.
fn replace(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    std::fs::write(&beside, text).unwrap();
    std::fs::rename(beside, file).unwrap();
}

fn market(client: &mut Client, id: &str) {
    let body = format!("11={id}|1=A1|21=1|55=ACME|54=1|60={}|38=10|40=1|", now());
    client.send("D", &body);
}

#[test]
fn a_file_of_prices_is_in_force_once_it_changes_and_a_wrong_one_changes_nothing() {
    let ([listener], addresses) = listeners();
    let setup = with_venue(&addresses, "");
    let (config, prices) = (setup.folder().join("weir.toml"), setup.folder().join("prices.jsonl"));
    let sessions = std::fs::read_to_string(&config).unwrap().replace("\"none\"", "\"budgets\"");
    let text = format!("[fix]\nreference_prices = {prices:?}\ncollar_bp = 1000\n{sessions}");
    std::fs::write(&config, text).unwrap();
    let budget = line(1, "1000", r#","orders":{"account":"A1"}"#);
    std::fs::write(setup.budgets_file(), budget).unwrap();
    // A cut file does not keep a node from its start, as cancels have to pass; the check tells of it.
    std::fs::write(&prices, r#"{"symbol":"ACME","price":"1"#).unwrap();
    let checked = weir().args(["check", "--config"]).arg(&config).output().unwrap();
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(
        told.contains("fix.reference_prices: ") && told.contains("prices.jsonl:1: not JSON"),
        "{told}"
    );
    let node = setup.start();
    node.wait_stat("a failure", |stat| stat["doors"]["fix"]["price_failures"] == 1);
    let (mut client, mut venue) = (Client::log_on(&node, 1), accept(&listener, 1));
    venue.send("A", "98=0|108=30|");
    node.wait_stat("both", |stat| stat["doors"]["fix"]["logons"] == 2);
    market(&mut client, "a");
    let refused = client.receive_message();
    let found = ["35", "150", "39", "103", "58", "37"].map(|tag| field(&refused, tag));
    assert_eq!(found, ["8", "8", "8", "99", "no reference price", "NONE"]);
    node.wait_stat("it", |stat| stat["doors"]["fix"]["refused_no_reference"] == 1);
    replace(&prices, "{\"symbol\":\"ACME\",\"price\":\"10\"}\n");
    wait_for("prices", || node.log().contains("reference prices are in force"));
    market(&mut client, "b");
    assert_eq!(field(&venue.receive_message(), "11"), "b");
    node.wait_budget(1, "10 at 11", |books| books.held == 110_000_000);
    // Neither a wrong file nor none takes away what is in force.
    replace(&prices, "{\"symbol\":\"ACME\",\"price\":\"-20\"}\n");
    node.wait_stat("a failure", |stat| stat["doors"]["fix"]["price_failures"] == 2);
    std::fs::remove_file(&prices).unwrap();
    node.wait_stat("a failure", |stat| stat["doors"]["fix"]["price_failures"] == 3);
    market(&mut client, "c");
    assert_eq!(field(&venue.receive_message(), "11"), "c");
    node.wait_budget(1, "10 more at 11", |books| books.held == 220_000_000);
    let symbols = "{\"symbol\":\"ACME\",\"price\":\"20\"}\n{\"symbol\":\"X\",\"price\":\"1\"}\n";
    replace(&prices, symbols);
    wait_for("two prices", || node.log().contains("symbols=2"));
    market(&mut client, "d");
    assert_eq!(field(&venue.receive_message(), "11"), "d");
    node.wait_budget(1, "10 more at 22", |books| books.held == 440_000_000);
    // After a kill orders are held as before, and the file is in force before any order comes.
    let node = node.restart();
    node.wait_budget(1, "the same", |books| books.held == 440_000_000);
    let mut client = Client::log_on(&node, 6);
    let mut venue = accept(&listener, 5);
    venue.next_out = 2;
    venue.send("A", "98=0|108=30|");
    node.wait_stat("both", |stat| stat["doors"]["fix"]["logons"] == 2);
    market(&mut client, "e");
    assert_eq!(field(&venue.receive_message(), "11"), "e");
    node.wait_budget(1, "10 more at 22", |books| books.held == 660_000_000);
}
