//! Runs against a node that does everything right: the audit must be silent and the figures must be true.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use crate::fake::{Fake, Sin, args, hammer, run_until, start, start_with};

const RICH: i64 = 1_000_000_000_000;

#[test]
fn a_closed_loop_is_audited_and_ok() {
    let node = start(Sin::None, 10, RICH);
    let report = hammer(&node, "");
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert_eq!(report.exit_code(), 0);
    assert!(report.decisions > 0 && report.granted == report.decisions);
    assert!(report.settled_micros > 0 && report.unanswered_micros == 0);
    assert_eq!(report.notices.settles_sent, report.notices.settles_answered);
    assert!(report.notices.repeats_sent > 0, "{:?}", report.notices);
    assert_eq!(report.notices.repeats_sent, report.notices.repeats_ok);
    assert!(report.notices.confirmed > 0);
    assert!(report.audits >= 1 && report.budgets == 10);
    assert!(report.server_ns_per_request.is_some_and(|ns| (ns - 50.0).abs() < 1.0), "{report:#?}");
}

#[test]
fn a_budget_that_runs_out_is_refused_and_ok() {
    let node = start(Sin::None, 3, 200_000);
    let report = hammer(&node, "--amount 1000..2000");
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert!(report.refused["exhausted"] > 0);
    assert!(report.settled_micros <= 600_000);
}

#[test]
fn an_open_loop_keeps_its_schedule_in_number() {
    let node = start(Sin::None, 10, RICH);
    let report = hammer(&node, "--rate 5000");
    assert_eq!(report.audit, "ok", "{report:#?}");
    let schedule = report.schedule.as_ref().unwrap();
    assert_eq!(schedule.asked_per_s, 5_000);
    // 500 frames per second, and the frame at instant 0; what was due but not sent is counted.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number"
    )]
    let expected = (report.duration_s * 500.0) as u64 + 1;
    let due = report.frames + schedule.frames_skipped;
    assert!(due.abs_diff(expected) <= 1, "{due} frames: {report:#?}");
    assert_eq!(report.decisions, report.frames * 10);
    assert!(schedule.lag_us.max > 0.0 && schedule.waited_for_core_ms.is_some(), "{schedule:?}");
    let doubted = report.notes.iter().any(|note| note.starts_with("do not trust the latency"));
    assert_eq!(doubted, !schedule.doubts.is_empty(), "{report:#?}");
}

#[test]
fn debts_made_on_purpose_are_booked_and_explained() {
    let node = start_with(Sin::None, 4, RICH, 150);
    let report = hammer(&node, "--over 0.2 --late 0.2 --confirm 0 --settle-delay 1ms");
    // A slow machine may turn a settle in time into a late one; that is explained, too.
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert!(report.over_settled_micros > 0 && report.late_micros > 0, "{report:#?}");
    assert_eq!(report.over_micros, 0);
}

#[test]
fn loss_notices_release_holds() {
    let node = start(Sin::None, 4, RICH);
    let report = hammer(&node, "--loss-notice-lost 0.5 --win-notice-lost 0.2");
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert!(report.notices.released > 0);
}

#[test]
fn several_threads_share_one_set_of_books() {
    let node = start(Sin::None, 10, RICH);
    let report = hammer(&node, "--threads 2 --remember");
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert!(report.settled_micros > 0);
}

#[test]
fn settles_that_are_put_off_are_sent_again() {
    let node = start(Sin::PutOff, 10, RICH);
    let report = hammer(&node, "");
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert!(report.notices.put_off > 0 && report.frames_refused["busy"] > 0);
    assert_eq!(report.notices.settles_sent, report.notices.settles_answered);
    assert_eq!(report.unanswered_micros, 0);
}

#[test]
fn unknown_budgets_are_refused_and_no_fault() {
    let node = start(Sin::None, 2, RICH);
    let report = hammer(&node, "--budgets 4 --skew 0");
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert!(report.refused["unknown_budget"] > 0);
}

#[test]
fn a_stop_ends_the_run_with_a_report() {
    let node = start(Sin::None, 2, RICH);
    let report = hammer::run(&args(&node, "--duration 1h"), &AtomicBool::new(true)).unwrap();
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert!(report.duration_s < 60.0);
}

#[test]
fn a_request_file_is_asked() {
    let node = start(Sin::None, 5, RICH);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for line in hammer::openrtb::generate(3, 50) {
        writeln!(file, "{line}").unwrap();
    }
    writeln!(file, "this is no request").unwrap();
    let report = hammer(&node, &format!("--asks-from {}", file.path().display()));
    assert_eq!(report.audit, "ok", "{report:#?}");
    let mapped = report.openrtb.as_ref().unwrap();
    assert_eq!((mapped.lines, mapped.used, mapped.bad), (51, 50, 1));
    assert!(mapped.bad_lines[0].starts_with("line 51"), "{mapped:?}");
}

#[test]
fn everything_is_printed() {
    let node = start(Sin::None, 2, RICH);
    let json: serde_json::Value = serde_json::from_slice(&printed(&node, "--json")).unwrap();
    assert_eq!((json["audit"].as_str(), json["over_micros"].as_i64()), (Some("ok"), Some(0)));
    assert!(String::from_utf8(printed(&node, "")).unwrap().contains("audit"));
}

fn printed(node: &Fake, more: &str) -> Vec<u8> {
    let before = node.seen();
    let main = |stop: &AtomicBool| {
        let mut text = Vec::new();
        assert_eq!(hammer::main(&args(node, more), stop, &mut text).unwrap(), 0);
        text
    };
    run_until(|| node.has_seen_enough(before), main)
}
