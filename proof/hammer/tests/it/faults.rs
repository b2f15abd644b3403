//! Nodes and targets that do not work: clear errors, the right exit code, no hanging.

use std::sync::atomic::AtomicBool;

use hammer::{AuditOutcome, HammerError};

use crate::fake::{Sin, args, hammer, hammer_until_closed, start, start_with};

const RICH: i64 = 1_000_000_000_000;

fn error(node: &crate::fake::Fake, more: &str) -> HammerError {
    hammer::run(&args(node, more), &AtomicBool::new(false)).unwrap_err()
}

#[test]
fn a_closed_connection_is_an_error_of_the_run() {
    let report = hammer(&start(Sin::Close, 2, RICH), "");
    assert!(report.errors[0].contains("the node closed it"), "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn every_connection_of_a_node_that_vanishes_is_noticed() {
    let report = hammer(&start(Sin::Vanish, 2, RICH), "--duration 1h --audit-patience 100ms");
    assert_eq!(report.errors.len(), 4, "one for each connection: {report:#?}");
    assert!(report.duration_s < 60.0, "nobody is left to ask");
    assert!(report.audit.contains("the books could not be read"), "{}", report.audit);
    assert_eq!((report.lost_acks, report.exit_code()), (0, 1), "unknown is not lost");
    assert_eq!(report.audit_outcome, AuditOutcome::CouldNotLook);
}

#[test]
fn an_answer_of_another_length_is_an_error_of_the_run() {
    let report = hammer(&start(Sin::ShortAnswer, 2, RICH), "");
    assert!(report.errors[0].contains("9 answers to a frame of 10 asks"), "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn an_unreachable_target_is_named() {
    let node = start(Sin::None, 2, RICH);
    let mut wrong = args(&node, "");
    // The near end of a connection: nobody listens there, and nobody else is given the port.
    let taken = std::net::TcpStream::connect(node.address).unwrap();
    let free = taken.local_addr().unwrap();
    wrong.target = Some(free.to_string());
    let e = hammer::run(&wrong, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(e, HammerError::Unreachable { .. }), "{e}");
    assert!(e.to_string().contains(&free.to_string()) && e.exit_code() == 1);
    wrong.target = Some("no-port-here".into());
    assert!(hammer::run(&wrong, &AtomicBool::new(false)).is_err());
}

#[test]
fn a_refused_handshake_says_what_to_do() {
    let e = error(&start(Sin::RefuseHello, 2, RICH), "");
    assert!(matches!(e, HammerError::HandshakeRefused { .. }), "{e}");
    assert!(e.to_string().contains("--auth"), "{e}");
}

#[test]
fn another_protocol_is_told() {
    let e = error(&start(Sin::SpeakHttp, 2, RICH), "");
    assert!(matches!(e, HammerError::NotOurProtocol { .. }), "{e}");
}

#[test]
fn nothing_to_ask_is_told() {
    assert!(matches!(error(&start(Sin::None, 0, 0), ""), HammerError::NoBudgets));
}

#[test]
fn limits_of_the_node_are_usage_errors() {
    let node = start_with(Sin::None, 2, RICH, 100);
    for (flags, flag) in [("--batch 65", "batch"), ("--settle-delay 100ms", "settle-delay")] {
        let e = error(&node, flags);
        assert!(e.to_string().contains(flag) && e.exit_code() == 2, "{e}");
    }
}

#[test]
fn a_file_of_nonsense_is_an_error() {
    let node = start(Sin::None, 2, RICH);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "nonsense\nmore nonsense\n").unwrap();
    let e = error(&node, &format!("--asks-from {}", file.path().display()));
    assert!(
        e.to_string().contains("none of its 2 lines") && e.to_string().contains("line 1"),
        "{e}"
    );
    assert!(matches!(error(&node, "--asks-from /nonexistent/x"), HammerError::File { .. }));
}

#[test]
fn a_connection_that_idles_out_is_opened_again() {
    // The connection for the books asks nothing from before the load until after it.
    let node = start(Sin::CloseIdle, 2, RICH);
    let report = hammer_until_closed(&node, "--audit-every 0s");
    assert_eq!((report.audit.as_str(), report.exit_code()), ("ok", 0), "{report:#?}");
    assert!(report.looks_failed > 0, "it was never closed: {report:#?}");
    assert_eq!(report.audit_outcome, AuditOutcome::Held);
}

#[test]
fn a_busy_node_is_asked_again_and_it_is_told_how_often() {
    let report = hammer(&start(Sin::BusyBooks, 2, RICH), "");
    assert_eq!((report.audit.as_str(), report.exit_code()), ("ok", 0), "{report:#?}");
    assert!(report.looks_failed > 0, "{report:#?}");
}

#[test]
fn an_audit_that_could_not_look_does_not_say_that_money_is_wrong() {
    let report = hammer(&start(Sin::BusyForEver, 2, RICH), "--audit-patience 100ms");
    assert_eq!(
        (report.audit_outcome, report.exit_code()),
        (AuditOutcome::CouldNotLook, 1),
        "{report:#?}"
    );
    assert!(
        report.audit.starts_with("could not look: the books could not be read for"),
        "{}",
        report.audit
    );
    assert!(
        report.audit.contains("busy") && report.audit.contains("does not say that money is wrong")
    );
    assert_eq!((report.over_micros, report.duplicates_booked, report.lost_acks), (0, 0, 0));
}
