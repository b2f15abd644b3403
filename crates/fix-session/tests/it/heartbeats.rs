//! Rows H: heartbeats and silence.

use fix_session::{Disconnect, SessionState};

use crate::desk::Desk;

#[test]
fn h1_a_heart_beat_after_silence_of_this_side() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.waits(29_999), "");
    assert_eq!(desk.waits(1), "35=0|34=2|");
    desk.gets("35=0|34=2|");
    desk.waits(20_000);
    desk.sends("a");
    assert_eq!(desk.waits(29_999).matches("35=0|").count(), 0);
}

#[test]
fn h2_silence_of_the_peer_is_questioned_once() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.waits(35_999), "35=0|34=2|");
    assert_eq!(desk.waits(1), "35=1|34=3|112=TEST|");
    assert_eq!(desk.waits(35_999), "35=0|34=4|");
    // Any message is an answer, also one that came too early.
    assert_eq!(desk.gets("35=D|34=9|11=x|"), "35=2|34=5|7=2|16=0|");
    assert_eq!(desk.waits(1), "");
    assert_eq!(desk.session.state(), SessionState::LoggedOn);
}

#[test]
fn h3_silence_for_2_4_intervals_ends_the_connection() {
    let mut desk = Desk::logged_on();
    desk.waits(71_999);
    assert_eq!(desk.closed, None);
    assert_eq!(desk.waits(1), "");
    assert_eq!(desk.closed, Some(Disconnect::Silent { ms: 72_000 }));
}

#[test]
fn h4_a_test_request_is_answered_at_once() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=1|34=2|112=any thing|"), "35=0|34=2|112=any thing|");
}

#[test]
fn h5_an_early_test_request_is_answered_in_its_turn() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=1|34=3|112=x|"), "35=2|34=2|7=2|16=0|");
    assert_eq!(desk.gets("35=D|34=2|11=a|"), "35=0|34=3|112=x|");
}

#[test]
fn h6_a_test_request_without_an_id_is_rejected() {
    let mut desk = Desk::logged_on();
    let answer = "35=3|34=2|45=2|58=Required tag missing|371=112|372=1|373=1|";
    assert_eq!(desk.gets("35=1|34=2|"), answer);
    assert_eq!(desk.gets("35=1|34=3|112=x|"), "35=0|34=3|112=x|");
}

#[test]
fn a_wall_clock_that_jumps_moves_no_timer() {
    let mut desk = Desk::logged_on();
    desk.now.unix_ms += 86_400_000;
    assert_eq!(desk.waits(29_999), "");
    desk.now.unix_ms -= 2 * 86_400_000;
    assert_eq!(desk.waits(1), "35=0|34=2|");
}

#[test]
fn a_heart_beat_does_not_hide_a_gap() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=0|34=3|"), "35=2|34=2|7=2|16=0|");
}
