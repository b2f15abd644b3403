//! The load tool against the real node: its audit finds nothing.

use std::net::{SocketAddr, TcpListener};
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

/// A node whose doors stay where they are over a restart, and the flags of a hammer that plays its clients and its venue.
fn fix_node(budgets: &str, sessions: &str) -> (Setup, Vec<String>) {
    // An address of these tests alone: nobody else listens there meanwhile.
    let free = [(); 3].map(|()| TcpListener::bind("127.0.18.1:0").unwrap());
    let [door, venue, admin]: [SocketAddr; 3] = free.map(|one| one.local_addr().unwrap());
    let setup = Setup::new(budgets).with_default_door("fix").with_default_door("admin");
    let version = if sessions.contains("FIX.4.2") { "begin_string = \"FIX.4.2\"\n" } else { "" };
    let config = format!(
        "[admin]\nlisten = \"{admin}\"\n[fix]\nlisten = \"{door}\"\n{sessions}\
         [[fix.venue]]\nname = \"venue1\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"VENUE\"\n\
         connect = [\"{venue}\"]\n{version}max_order_age_ms = 600000\n"
    );
    std::fs::write(setup.folder().join("weir.toml"), config).unwrap();
    let flags =
        format!("hammer --fix --json --quiet --target {door} --venue {venue} --admin {admin}");
    (setup, flags.split(' ').map(String::from).collect())
}

fn session(name: &str, route: &str) -> String {
    format!(
        "[[fix.session]]\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"{name}\"\nlimits = \"budgets\"\nroute = \"{route}\"\n"
    )
}

#[test]
fn the_books_of_a_venue_are_those_of_the_node_over_a_kill() {
    let orders = |of: &str| format!(",\"orders\":{{{of}}}");
    let budgets = [
        line(1, "900000000", &orders("\"account\":\"A1\"")),
        line(2, "300000", &orders("\"account\":\"A2\"")),
        line(3, "300000000", &orders("\"session\":\"DESK2\",\"side\":\"buy\"")),
        line(4, "9000000", &format!(",\"unit\":\"count\"{}", orders("\"symbol\":\"ACME\""))),
    ];
    let sessions = session("DESK1", "venue1") + &session("DESK2", "venue1");
    // Kills the node while the hammer plays, and says what that found; where `loses` it, the node has no files of FIX then.
    let play = |loses: bool, drain: &'static str| {
        let (setup, flags) = fix_node(&budgets.concat(), &sessions);
        let node = setup.start();
        let more = ["--duration", "4s", "--drain", drain, "--rate", "400"];
        let hammer = std::thread::spawn(move || output(weir().args(&flags).args(more)));
        let is_busy = |stat: &Value| stat["doors"]["fix"]["refused_limit"].as_u64() > Some(100);
        node.wait_stat("orders", is_busy);
        let folder = node.data().join("fix");
        let node = node.restart_as(|setup| {
            if loses {
                std::fs::rename(&folder, folder.with_extension("away")).unwrap();
            }
            setup
        });
        let output = hammer.join().unwrap();
        (output.status.code(), stdout(&output), stderr(&output) + &node.log())
    };
    let (code, told, log) = play(true, "2s");
    assert_eq!((code, told.contains("FAILED: ")), (Some(1), true), "{told}{log}");
    let (code, told, log) = play(false, "40s");
    assert_eq!(code, Some(0), "{told}{log}");
    let report: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(report["audit"], "ok");
    for count in [
        "orders",
        "fills",
        "replaced",
        "cancelled",
        "rejected",
        "busts",
        "corrections",
        "reports_twice",
    ] {
        assert!(report["venue"][count].as_u64() > Some(0), "{count} in {report:#}");
    }
    assert!(report["sent"]["connections_lost"].as_u64() > Some(0), "{report:#}");
    let refused = report["refused"].as_object().unwrap();
    assert!(refused.keys().any(|text| text.contains("limit")), "{report:#}");
}

#[test]
fn a_node_whose_orders_cannot_be_played_is_told_from_one_that_loses_them() {
    let binding = |of: &str| line(1, "10", &format!(",\"orders\":{{{of}}}"));
    let (account, desk) = (binding("\"account\":\"A1\""), session("DESK1", "venue1"));
    let old = desk.clone() + "begin_string = \"FIX.4.2\"\n";
    let echo = session("DESK1", "echo").replace("budgets", "none");
    let firm = desk.clone() + "firm = \"ACME\"\n";
    for (budgets, sessions, expected) in [
        (&line(1, "10", ""), &desk, "no budget of the node binds orders"),
        (&binding("\"firm\":\"ACME\""), &firm, "bind sessions instead"),
        (&account, &echo, "no [[fix.session]] has route = \"venue1\""),
        (&account, &old, "is of FIX.4.2; expected FIX.4.4 or FIXT.1.1"),
    ] {
        let (setup, flags) = fix_node(budgets, sessions);
        let _node = setup.start();
        let output = output(weir().args(&flags));
        let told = stderr(&output);
        assert_eq!((output.status.code(), told.contains(expected)), (Some(1), true), "{told}");
    }
}
