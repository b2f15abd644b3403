//! A journal that cannot be written to: no bids, notices to be sent again, and nothing lost.

use std::process::Command;

use serde_json::json;

use crate::openrtb::{Http, campaign, get, patient, request, wait_count, wait_warm};
use crate::support::{Node, wait_for};

/// A limit on the length of files stops the journal's writes, as a failing disk does; it needs no root.
pub(crate) fn limit_files(node: &Node, bytes: &str) {
    let (pid, limit) = (node.child.id().to_string(), format!("--fsize={bytes}:"));
    assert!(Command::new("prlimit").args(["--pid", &pid, &limit]).status().unwrap().success());
}

pub(crate) fn wait_journal(node: &Node, state: &str) {
    node.wait_stat(&format!("a journal that is {state}"), |stat| stat["journal"]["state"] == state);
}

#[test]
fn while_the_journal_fails_nothing_is_bid_or_booked_and_then_all_goes_on() {
    let capped = json!({"caps": [{"per": "day", "max": 1000}]});
    let node = patient(&[campaign(1, capped)]).start();
    let mut http = Http::to(&node);
    wait_warm(&node);
    let won: Vec<_> = (0..6).map(|n| http.bid_soon(&request(n, json!({})))).collect();
    assert_eq!(http.bill(&won[0]), 204);
    limit_files(&node, "4096");
    // Under way when it fails: answered when it is over, not before.
    let mut waiting = Http::to(&node);
    waiting.send(&get(&won[1].bill_path()));
    wait_journal(&node, "failing");
    wait_for("no bids", || http.bid(&request("no", json!({}))).is_none());
    assert!(http.bid(&request("no", json!({}))).is_none());
    for (kind, bid) in [("burl", &won[2]), ("nurl", &won[3]), ("lurl", &won[4])] {
        assert_eq!(http.notice(&bid.path(kind, Some("2"), Some("USD"))), 429, "{kind}");
    }
    wait_count(&node, "busy_notices", 3);
    assert_eq!(http.get("/health").status, 200);
    limit_files(&node, "unlimited");
    assert_eq!(waiting.receive().status, 204);
    wait_journal(&node, "sealing");
    http.bid_soon(&request("yes", json!({})));
    // The exchange sends them again.
    for (kind, bid) in [("burl", &won[2]), ("nurl", &won[3]), ("lurl", &won[4])] {
        assert_eq!(http.notice(&bid.path(kind, Some("2"), Some("USD"))), 204, "{kind}");
    }
    assert_eq!([http.bill(&won[2]), http.bill(&won[5])], [204; 2]);
    assert_eq!(node.budget(1).settled, 4 * 2_000);
    let node = node.restart();
    let mut http = Http::to(&node);
    for bid in [&won[0], &won[1], &won[2], &won[5]] {
        assert_eq!(http.bill(bid), 204);
    }
    assert_eq!(node.budget(1).settled, 4 * 2_000);
    wait_count(&node, "repeated_notices", 4);
}
