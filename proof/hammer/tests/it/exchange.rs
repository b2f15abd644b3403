//! The exchange against a bidder that keeps its books right, or wrong on purpose.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use hammer::{ExchangeReport, HammerError};

use crate::bidder::{Bidder, Sin, args, exchange, exchange_long, play, start};
use crate::fake::run_until;

const RICH: i64 = 1_000_000_000_000;
/// No hold ends before it is billed, however busy the machine is.
const HOLD_MS: u64 = 600_000;

fn honest(sin: Sin, more: &str) -> ExchangeReport {
    let bidder = start(sin, 10, RICH, HOLD_MS);
    let report = exchange(&bidder, more);
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert_eq!(report.exit_code(), 0);
    report
}

fn caught(sin: Sin, more: &str) -> ExchangeReport {
    let limit = if sin == Sin::Overspend { 50_000 } else { RICH };
    let bidder = start(sin, 3, limit, HOLD_MS);
    let report = exchange(&bidder, more);
    assert_ne!(report.audit, "ok", "{sin:?} went unseen: {report:#?}");
    assert_eq!(report.exit_code(), 1);
    report
}

#[test]
fn a_closed_loop_bids_wins_bills_and_is_audited() {
    let bidder = start(Sin::None, 10, RICH, HOLD_MS);
    let report = exchange_long(&bidder, 3_000);
    assert_eq!((report.audit.as_str(), report.exit_code()), ("ok", 0), "{report:#?}");
    assert!(report.requests > 0 && report.lost_answers == 0);
    assert_eq!(report.statuses.keys().copied().collect::<Vec<_>>(), [200, 204]);
    assert_eq!(report.statuses[&204], report.no_bids);
    assert!(report.bids > 0 && report.bids_dropped.is_empty());
    assert!((0.1..0.5).contains(&report.win_rate), "{}", report.win_rate);
    assert!(report.billed > 0 && report.spend_micros > 0 && report.unanswered_micros == 0);
    assert!(report.cpm_paid_micros < report.cpm_bid_micros, "some auctions are second-price");
    let bill = &report.notices["bill"];
    assert_eq!((bill.sent, bill.acknowledged, bill.retried), (report.billed, report.billed, 0));
    let again = &report.notices["bill again"];
    assert!(again.sent > 0 && again.sent == again.acknowledged);
    assert!(report.notices["win"].sent >= report.billed && !report.notices.contains_key("loss"));
    assert!(report.audits >= 1 && report.budgets == 10);
    assert!(report.server_ns_per_request.is_some_and(|ns| ns > 0.0));
}

#[test]
fn an_open_loop_keeps_its_timetable_in_number() {
    let report = honest(Sin::None, "--rate 2000");
    let schedule = report.schedule.as_ref().unwrap();
    assert_eq!((report.mode, schedule.asked_per_s), ("open", 2_000));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a small positive number"
    )]
    let expected = (report.duration_s * 2_000.0) as u64 + 1;
    let due = report.requests + schedule.frames_skipped;
    assert!(due.abs_diff(expected) <= 1, "{due} requests: {report:#?}");
}

#[test]
fn bodies_may_be_compressed_and_ids_stay_unique() {
    let bidder = start(Sin::None, 4, RICH, HOLD_MS);
    let report = exchange(&bidder, "--gzip 0.5 --bodies 50");
    assert_eq!(report.audit, "ok", "{report:#?}");
    let (requests, gzipped, repeated) = bidder.requests();
    assert_eq!(requests, report.requests);
    assert!(gzipped > 0 && gzipped < requests && !repeated);
    assert!(report.bodies.compressed > 0 && report.requests > 50);
}

#[test]
fn answers_in_chunks_are_read() {
    assert!(honest(Sin::Chunked, "").billed > 0);
}

#[test]
fn broken_prices_settle_at_the_bid_and_losses_are_told() {
    let report = honest(
        Sin::None,
        "--bad-macro 0.3 --absurd 0.3 --loss-notice-lost 0.5 --win-notice-lost 0.2",
    );
    assert!(report.bad_macros > 0 && report.absurd > 0 && report.unbilled > 0, "{report:#?}");
    assert!(report.notices["loss"].acknowledged > 0);
}

#[test]
fn late_billings_are_booked_on_their_own_line() {
    let bidder = start(Sin::None, 4, RICH, 150);
    let report = exchange(&bidder, "--late 0.3");
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert!(report.late > 0);
}

#[test]
fn refused_and_broken_notices_are_called_again() {
    let report = honest(Sin::PutOff, "--win 0.05");
    let bill = &report.notices["bill"];
    assert!(bill.retried > 0 && bill.answers[&503] > 0 && bill.lost == 0, "{report:#?}");
    let report = honest(Sin::HangUp, "--win 0.05");
    assert!(report.notices["bill"].retried > 0, "{report:#?}");
    assert!(report.notes.iter().any(|note| note.contains("lost their connection")), "{report:#?}");
}

#[test]
fn every_sin_is_caught() {
    assert!(caught(Sin::BookTwice, "").duplicates_booked > 0);
    assert!(caught(Sin::Forget, "").lost_acks > 0);
    caught(Sin::IgnorePrice, "");
    assert!(caught(Sin::Overspend, "").over_micros > 0);
    assert_eq!(caught(Sin::Fail, "").statuses[&500], 1);
    assert!(caught(Sin::BelowFloor, "").bids_dropped["below the floor"] > 0);
    assert!(caught(Sin::WrongId, "").errors[0].contains("not its own"));
}

#[test]
fn a_door_that_never_answers_is_caught() {
    let report = caught(Sin::Silent, "--drain 200ms");
    assert!(report.lost_answers > 0 || !report.errors.is_empty(), "{report:#?}");
}

#[test]
fn notices_that_are_never_taken_are_lost_acks() {
    let report = caught(Sin::Forgetful, "--win 0.01");
    assert!(report.lost_acks > 0 && report.billed == 0, "{report:#?}");
    assert!(report.errors.iter().any(|error| error.contains("404")), "{:?}", report.errors);
}

#[test]
fn without_the_books_nothing_is_audited_and_it_says_so() {
    let bidder = start(Sin::None, 4, RICH, HOLD_MS);
    let mut args = args(&bidder, "");
    args.books = None;
    let report = play(&bidder, &args);
    assert_eq!((report.audit.as_str(), report.exit_code(), report.audits), ("not audited", 0, 0));
    assert!(report.billed > 0 && report.notes[0].contains("--books"), "{report:#?}");
}

#[test]
fn a_file_of_bodies_is_sent_and_tests_touch_no_money() {
    let bidder = start(Sin::None, 4, RICH, HOLD_MS);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, r#"{{"id":"a","test":1,"imp":[{{"id":"1","bidfloor":1}}]}}"#).unwrap();
    writeln!(file, "this is no request").unwrap();
    let report = exchange(&bidder, &format!("--requests {}", file.path().display()));
    assert_eq!(report.audit, "ok", "{report:#?}");
    assert_eq!((report.bodies.used, report.bodies.bad), (1, 1));
    assert!(report.bids_test > 0 && report.wins == 0 && report.notices.is_empty(), "{report:#?}");
    let missing = args(&bidder, "--requests /nonexistent/x");
    let e = hammer::run_exchange(&missing, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(e, HammerError::File { .. }), "{e}");
}

#[test]
fn everything_is_printed() {
    let bidder = start(Sin::None, 4, RICH, HOLD_MS);
    let json: serde_json::Value = serde_json::from_slice(&printed(&bidder, "--json")).unwrap();
    assert_eq!((json["audit"].as_str(), json["over_micros"].as_i64()), (Some("ok"), Some(0)));
    assert!(json["notices"]["bill"]["acknowledged"].as_u64() > Some(0), "{json:#}");
    let table = String::from_utf8(printed(&bidder, "--rate 1000")).unwrap();
    for row in ["requests/s", "bids", "wins", "spend", "notices bill", "audit"] {
        assert!(table.contains(row), "no {row} in\n{table}");
    }
}

fn printed(bidder: &Bidder, more: &str) -> Vec<u8> {
    let before = bidder.seen();
    let main = |stop: &AtomicBool| {
        let mut text = Vec::new();
        assert_eq!(hammer::main(&args(bidder, more), stop, &mut text).unwrap(), 0);
        text
    };
    run_until(|| bidder.has_seen_enough(before, true), main)
}
