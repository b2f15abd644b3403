//! The load tool against the real node: its audit finds nothing.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Node, Setup, line, output, over_transports, stderr, stdout, weir};

const MEMBERS: [&str; 9] = [
    "decisions_per_s",
    "granted",
    "refused",
    "settled_micros",
    "over_micros",
    "duplicates_booked",
    "lost_acks",
    "latency_us",
    "audit",
];

/// Budgets of every plan, with money and without.
fn budgets() -> Setup {
    let mut lines: String = (1..=20).map(|id| line(id, "1000", "")).collect();
    lines += &(21..=30).map(|id| line(id, "0.05", "")).collect::<String>();
    lines += &(31..=35)
        .map(|id| line(id, "50", r#","daily":"20","pacing":"schedule""#))
        .collect::<String>();
    Setup::new(&lines).with("ledger.hold_ms", "500")
}

fn hammer(node: &Node, flags: &[&str]) -> Value {
    let mut command = weir();
    command.args(["hammer", "--target", &node.batch.to_string(), "--json", "--quiet"]);
    let output = output(command.args(flags));
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    for member in MEMBERS {
        assert!(!report[member].is_null(), "{member} in {report:#}");
    }
    for quantile in ["p50", "p99", "p999", "max"] {
        assert!(report["latency_us"][quantile].is_number(), "{quantile} in {report:#}");
    }
    assert!(report["refused"].is_object(), "{report:#}");
    assert_eq!(report["audit"], "ok", "{report:#}");
    for member in ["over_micros", "duplicates_booked", "lost_acks"] {
        assert_eq!(report[member], 0, "{member} in {report:#}");
    }
    assert!(report["decisions_per_s"].as_f64() > Some(0.0), "{report:#}");
    report
}

#[test]
fn a_closed_loop_passes_the_audit() {
    over_transports(budgets, |node| {
        let flags = ["--duration", "1s", "--connections", "4", "--depth", "4", "--win", "0.2"];
        let report = hammer(node, &flags);
        println!("{} decisions/s", report["decisions_per_s"]);
        assert!(
            report["granted"].as_u64() > Some(0) && report["settled_micros"].as_i64() > Some(0)
        );
        // Poor budgets run dry: that is refused, with a reason.
        assert!(!report["refused"].as_object().unwrap().is_empty(), "{report:#}");
    });
}

#[test]
fn an_open_loop_passes_the_audit() {
    over_transports(budgets, |node| {
        let flags = ["--duration", "1s", "--rate", "5000", "--connections", "3", "--win", "0.5"];
        let report = hammer(node, &flags);
        assert_eq!(report["mode"], "open");
        assert!(report["granted"].as_u64() > Some(0), "{report:#}");
    });
}

#[test]
fn debts_repeats_and_losses_pass_the_audit() {
    over_transports(budgets, |node| {
        let flags = [
            "--duration",
            "1500ms",
            "--rate",
            "4000",
            "--connections",
            "2",
            "--win",
            "0.3",
            "--settle-delay",
            "100ms",
            "--repeat",
            "0.3",
            "--over",
            "0.1",
            "--late",
            "0.1",
            "--loss-notice-lost",
            "0.5",
            "--win-notice-lost",
            "0.1",
            "--remember",
        ];
        let report = hammer(node, &flags);
        assert!(report["over_settled_micros"].as_i64() > Some(0), "{report:#}");
        assert!(report["late_micros"].as_i64() > Some(0), "{report:#}");
    });
}

/// What children spend moves the books of their parent, too: the audit may not call that somebody else's doing.
#[test]
fn children_and_their_parent_pass_the_audit() {
    let setup = || {
        let mut lines = line(1, "1", "");
        lines += &(2..=10).map(|id| line(id, "50", r#","parent":1"#)).collect::<String>();
        Setup::new(&lines).with("ledger.hold_ms", "500")
    };
    over_transports(setup, |node| {
        let flags = ["--duration", "1s", "--win", "0.5", "--exclusive", "false", "--rate", "3000"];
        let report = hammer(node, &flags);
        assert!(report["settled_micros"].as_i64() > Some(0), "{report:#}");
    });
}

#[test]
fn real_requests_pass_the_audit() {
    let samples =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/hammer/samples/openrtb.jsonl");
    let mut files = vec![samples];
    match std::env::var_os("CORPUS") {
        Some(folder) => files.push(PathBuf::from(folder).join("openrtb/bodies.jsonl")),
        None => println!("skipped: CORPUS is not set, so only our own samples are used"),
    }
    let node = budgets().start();
    for file in files {
        let flags =
            ["--duration", "1s", "--connections", "2", "--asks-from", file.to_str().unwrap()];
        let report = hammer(&node, &flags);
        assert!(report["openrtb"]["asks"].as_u64() > Some(0), "{report:#}");
        assert!(report["granted"].as_u64() > Some(0), "{report:#}");
    }
}
