//! The duties of an initiator.

use fix_session::{Disconnect, MessageStore, Notice, Role, SessionConfig, SessionState};

use crate::desk::Desk;

fn initiator_with(change: impl FnOnce(&mut SessionConfig)) -> Desk {
    Desk::with(|config| {
        config.role = Role::Initiator;
        change(config);
    })
}

#[test]
fn the_logon_goes_out_first_and_nothing_before_the_answer() {
    let mut desk = initiator_with(|_| {});
    assert_eq!(desk.connect(), "35=A|34=1|98=0|108=30|");
    assert_eq!(desk.session.state(), SessionState::LoggingOn);
    assert_eq!(desk.sends("a"), "");
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), "");
    assert!(desk.session.is_ready());
    assert_eq!(desk.sends("b"), "35=8|34=3|11=b|");
}

#[test]
fn fixt_says_its_version() {
    let mut desk = initiator_with(|config| config.begin_string = "FIXT.1.1".to_owned());
    assert_eq!(desk.connect(), "35=A|34=1|98=0|108=30|1137=9|");
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|1137=9|"), "");
    assert!(desk.session.is_ready());
}

#[test]
fn another_heart_beat_is_told_and_not_used() {
    let mut desk = initiator_with(|_| {});
    desk.connect();
    desk.gets("35=A|34=1|98=0|108=5|");
    assert!(desk.notices.contains(&Notice::OtherHeartBtInt { seconds: 5 }));
    assert_eq!(desk.waits(29_999), "");
    assert_eq!(desk.waits(1), "35=0|34=2|");
}

#[test]
fn an_answer_that_is_too_high_opens_a_gap_and_orders_wait() {
    let mut desk = initiator_with(|_| {});
    desk.connect();
    assert_eq!(desk.gets("35=A|34=3|98=0|108=30|"), "35=2|34=2|7=1|16=0|");
    assert!(!desk.session.is_ready());
    desk.gets("35=8|34=1|43=Y|122=20261123-10:00:00|11=a|");
    assert_eq!(desk.gets("35=8|34=2|43=Y|122=20261123-10:00:00|11=b|"), "");
    assert!(desk.session.is_ready());
    assert_eq!(desk.taken.messages, ["1 a", "2 b"]);
}

#[test]
fn an_answer_that_is_too_low_ends_the_connection() {
    let mut desk = initiator_with(|_| {});
    desk.store.set_next_in(5).unwrap();
    desk.connect();
    let text = "MsgSeqNum too low, expecting 5 but received 4";
    assert_eq!(desk.gets("35=A|34=4|98=0|108=30|"), format!("35=5|34=2|58={text}|"));
    assert_eq!(desk.logout_reason(), text);
}

#[test]
fn a_logout_in_place_of_the_answer_is_heard() {
    let mut desk = initiator_with(|_| {});
    desk.connect();
    assert_eq!(desk.gets("35=5|34=1|58=not today|"), "");
    assert_eq!(desk.closed, Some(Disconnect::PeerLoggedOut { text: "not today".to_owned() }));
    assert_eq!(desk.store.next_in(), 2);
    assert_eq!(desk.connect(), "35=A|34=2|98=0|108=30|");
}

#[test]
fn anything_else_than_an_answer_ends_the_connection() {
    for message in ["35=0|34=1|", "35=A|34=1|49=OTHER|98=0|108=30|", "35=3|34=1|45=1|"] {
        let mut desk = initiator_with(|_| {});
        desk.connect();
        assert_eq!(desk.gets(message), "");
        assert!(desk.closed.is_some(), "{message}");
        assert_eq!(desk.store.next_in(), 1);
    }
    let mut silent = initiator_with(|_| {});
    silent.connect();
    assert_eq!(silent.waits(10_000), "");
    assert_eq!(silent.closed, Some(Disconnect::LogonTimeout { seconds: 10 }));
}

#[test]
fn reset_on_logon_asks_for_a_reset_each_time() {
    let mut desk = initiator_with(|config| config.reset_on_logon = true);
    for _ in 0..2 {
        assert_eq!(desk.connect(), "35=A|34=1|98=0|108=30|141=Y|");
        assert_eq!(desk.gets("35=A|34=1|98=0|108=30|141=Y|"), "");
        assert_eq!(desk.sends("a"), "35=8|34=2|11=a|");
        desk.session.disconnected();
    }
}

#[test]
fn a_reset_that_was_not_asked_for_is_joined() {
    let mut desk = initiator_with(|_| {});
    desk.store.set_next_out(9);
    desk.store.set_next_in(7).unwrap();
    assert_eq!(desk.connect(), "35=A|34=9|98=0|108=30|");
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|141=Y|"), "35=A|34=1|98=0|108=30|141=Y|");
    assert_eq!((desk.store.next_in(), desk.store.next_out()), (2, 2));
    // A peer that answers the answer gets no further one.
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|141=Y|"), "");
    assert_eq!(desk.gets("35=1|34=2|112=x|"), "35=0|34=2|112=x|");
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|141=Y|"), "35=A|34=1|98=0|108=30|141=Y|");
}
