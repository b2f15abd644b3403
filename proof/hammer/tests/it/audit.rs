//! One sin a test: the audit must see each.

use crate::fake::{Sin, hammer, start};

const RICH: i64 = 1_000_000_000_000;

#[test]
fn overspending_is_seen() {
    let report = hammer(&start(Sin::Overspend, 2, 100_000), "");
    assert!(report.over_micros > 0, "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn overspending_that_the_books_hide_is_seen() {
    let report = hammer(&start(Sin::OverspendHidden, 2, 100_000), "--win 0");
    assert!(report.promise_checks > 0 && report.over_micros > 0, "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn a_repeat_booked_again_is_seen() {
    let report = hammer(&start(Sin::BookTwice, 2, RICH), "");
    assert!(report.duplicates_booked > 0, "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn a_settle_booked_twice_in_silence_is_seen() {
    let report = hammer(&start(Sin::BookTwiceQuietly, 2, RICH), "--repeat 0");
    assert!(report.duplicates_booked > 0, "{report:#?}");
    assert_eq!(report.notices.duplicates, 0, "only the books can tell");
}

#[test]
fn an_acknowledged_settle_that_was_forgotten_is_seen() {
    let report = hammer(&start(Sin::ForgetSettle, 2, RICH), "");
    assert!(report.lost_acks > 0, "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn an_acknowledgement_that_never_comes_is_seen() {
    let report = hammer(&start(Sin::LoseAck, 2, RICH), "--drain 200ms");
    assert!(report.lost_acks > 0 && report.unanswered_micros > 0, "{report:#?}");
    assert!(report.audit.contains("lost acknowledgements"), "{}", report.audit);
}

#[test]
fn an_answer_that_never_comes_is_seen() {
    let report = hammer(&start(Sin::LoseAnswer, 2, RICH), "--drain 200ms");
    // On a busy machine others may come too late for the drain.
    assert!(report.lost_answers >= 1, "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn forged_totals_are_seen() {
    let report = hammer(&start(Sin::ForgeTotals, 2, RICH), "");
    assert!(report.audit.contains("totals moved by"), "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn books_that_do_not_add_up_are_seen() {
    let report = hammer(&start(Sin::BreakSum, 2, RICH), "");
    assert!(report.audit.contains("the limit is"), "{report:#?}");
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn a_settle_in_time_that_is_called_late_is_seen() {
    let report = hammer(&start(Sin::CallLate, 2, RICH), "");
    assert!(report.audit.contains("though the hold was alive"), "{report:#?}");
    assert!(report.notices.wrong > 0);
}
