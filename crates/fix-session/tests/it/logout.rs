//! Rows O: the end of a session.

use fix_session::{Disconnect, MessageStore, SessionState};

use crate::desk::Desk;

#[test]
fn o1_a_logout_is_answered_and_counts() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=5|34=2|58=end of day|"), "35=5|34=2|");
    assert_eq!(desk.closed, Some(Disconnect::PeerLoggedOut { text: "end of day".to_owned() }));
    assert_eq!(desk.store.next_in(), 3);
    desk.connect();
    assert_eq!(desk.gets("35=A|34=3|98=0|108=30|"), "35=A|34=3|98=0|108=30|");
}

#[test]
fn o2_an_own_logout_waits_for_the_answer_and_still_serves() {
    let mut desk = Desk::logged_on();
    desk.sends("a");
    let first = desk.time(0);
    let logout = desk.step(|session, _, turn, _| session.log_out("closing", turn));
    assert_eq!(logout, "35=5|34=3|58=closing|");
    assert_eq!(desk.step(|session, _, turn, _| session.log_out("again", turn)), "");
    assert_eq!(desk.gets("35=D|34=2|11=b|"), "");
    assert_eq!(desk.gets("35=2|34=3|7=2|16=2|"), format!("35=8|34=2|43=Y|122={first}|11=a|"));
    assert_eq!(desk.taken.messages, ["2 b"]);
    // New messages are numbered for the next logon.
    assert_eq!(desk.sends("c"), "");
    assert_eq!(desk.gets("35=5|34=4|"), "");
    assert_eq!(desk.logout_reason(), "closing");
    assert_eq!((desk.store.next_in(), desk.store.next_out()), (5, 5));
}

#[test]
fn o2_the_answer_has_2_s() {
    let mut desk = Desk::logged_on();
    desk.step(|session, _, turn, _| session.log_out("closing", turn));
    assert_eq!(desk.waits(1_999), "");
    assert_eq!(desk.closed, None);
    desk.waits(1);
    assert_eq!(desk.logout_reason(), "closing");
    assert_eq!(desk.session.state(), SessionState::Disconnected);
}

#[test]
fn o2_early_messages_on_the_way_out_are_left_for_the_next_logon() {
    let mut desk = Desk::logged_on();
    desk.step(|session, _, turn, _| session.log_out("", turn));
    assert_eq!(desk.gets("35=D|34=5|11=x|"), "");
    assert_eq!(desk.gets("35=5|34=6|"), "");
    assert_eq!(desk.store.next_in(), 2);
}

#[test]
fn o3_a_connection_that_ends_keeps_the_numbers() {
    let mut desk = Desk::logged_on();
    desk.gets("35=D|34=2|11=a|");
    desk.gets("35=D|34=9|11=x|");
    desk.session.disconnected();
    assert_eq!(desk.session.deadline_ms(), None);
    assert_eq!(desk.gets("35=D|34=3|11=b|"), "");
    desk.connect();
    assert_eq!(desk.gets("35=A|34=3|98=0|108=30|"), "35=A|34=3|98=0|108=30|");
    assert_eq!(desk.taken.messages, ["2 a"]);
}
