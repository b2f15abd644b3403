//! Rows S: numbers that are too high or too low.

use fix_session::{Disconnect, MessageStore, Notice, SessionState};

use crate::desk::Desk;

#[test]
fn s1_early_messages_wait_and_one_request_goes_out() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=D|34=4|11=c|"), "35=2|34=2|7=2|16=0|");
    assert_eq!(desk.gets("35=D|34=5|11=d|") + &desk.gets("35=0|34=6|"), "");
    assert!(desk.taken.messages.is_empty());
    assert_eq!(desk.gets("35=D|34=2|43=Y|122=20261123-10:00:00|11=a|"), "");
    assert_eq!(desk.taken.messages, ["2 a"]);
    assert_eq!(desk.gets("35=D|34=3|43=Y|122=20261123-10:00:00|11=b|"), "");
    assert_eq!(desk.taken.messages, ["2 a", "3 b", "4 c", "5 d"]);
    assert_eq!(desk.store.next_in(), 7);
    let gap = [Notice::GapOpened { from: 2, to: 3 }, Notice::GapClosed];
    assert_eq!(desk.notices[1..], gap);
    // The peer sends the early ones again too: nobody gets them twice.
    assert_eq!(desk.gets("35=D|34=4|43=Y|122=20261123-10:00:00|11=c|"), "");
    assert_eq!(desk.taken.messages.len(), 4);
}

#[test]
fn s1_a_gap_behind_the_gap_is_asked_for_at_once() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=D|34=3|11=b|"), "35=2|34=2|7=2|16=0|");
    assert_eq!(desk.gets("35=D|34=6|11=e|"), "");
    assert_eq!(desk.gets("35=D|34=2|11=a|"), "35=2|34=3|7=4|16=0|");
    assert_eq!(desk.taken.messages, ["2 a", "3 b"]);
}

#[test]
fn s1_chunks_are_asked_for_one_after_the_other() {
    let mut desk = Desk::logged_on_with(|config| config.resend_chunk = 2);
    assert_eq!(desk.gets("35=D|34=7|11=f|"), "35=2|34=2|7=2|16=3|");
    assert_eq!(desk.gets("35=D|34=2|11=a|"), "");
    assert_eq!(desk.gets("35=D|34=3|11=b|"), "35=2|34=3|7=4|16=5|");
    // A gap fill may lead beyond the chunk.
    assert_eq!(desk.gets("35=4|34=4|43=Y|123=Y|36=6|"), "35=2|34=4|7=6|16=6|");
    assert_eq!(desk.gets("35=D|34=6|11=e|"), "");
    assert_eq!(desk.taken.messages, ["2 a", "3 b", "6 e", "7 f"]);
}

#[test]
fn s1_what_does_not_fit_is_asked_for_again() {
    let mut desk = Desk::logged_on_with(|config| config.queue_bytes_max = 150);
    desk.gets("35=D|34=3|11=b|");
    assert_eq!(desk.gets("35=D|34=4|11=c|"), "");
    assert_eq!(desk.gets("35=D|34=2|11=a|"), "");
    assert_eq!(desk.taken.messages, ["2 a", "3 b"]);
    assert_eq!(desk.gets("35=0|34=5|"), "35=2|34=3|7=4|16=0|");
}

#[test]
fn s1_an_unanswered_request_is_repeated_twice_and_then_given_up() {
    let mut desk = Desk::logged_on();
    desk.gets("35=D|34=9|11=x|");
    let mut sent = String::new();
    for seq in 10..16 {
        sent += &desk.waits(5_000);
        // Early messages keep no session alive.
        sent += &desk.gets(&format!("35=0|34={seq}|"));
    }
    let text = "ResendRequest was not answered";
    assert_eq!(sent, format!("35=2|34=3|7=2|16=0|35=2|34=4|7=2|16=0|35=5|34=5|58={text}|"));
    assert_eq!(desk.waits(2_000), "");
    assert_eq!(desk.logout_reason(), text);
}

#[test]
fn s1_progress_gives_the_peer_more_time() {
    let mut desk = Desk::logged_on();
    desk.gets("35=D|34=9|11=x|");
    for seq in 2..8 {
        assert_eq!(desk.waits(9_000).matches("35=2|").count(), 0);
        desk.gets(&format!("35=D|34={seq}|43=Y|122=20261123-10:00:00|11=a|"));
    }
    assert_eq!(desk.session.state(), SessionState::LoggedOn);
}

#[test]
fn s2_a_request_that_is_too_high_is_answered_first() {
    let mut desk = Desk::logged_on();
    desk.sends("a");
    let time = desk.time(0);
    assert_eq!(desk.gets("35=2|34=7|7=2|16=0|"), format!("35=8|34=2|43=Y|122={time}|11=a|"));
    assert_eq!(desk.store.next_in(), 2);
    assert_eq!(desk.gets("35=0|34=8|"), "35=2|34=3|7=2|16=0|");
}

#[test]
fn s3_a_logout_that_is_too_high_is_answered() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=5|34=9|58=bye|"), "35=5|34=2|");
    assert_eq!(desk.closed, Some(Disconnect::PeerLoggedOut { text: "bye".to_owned() }));
    // The gap is there at the next logon.
    desk.connect();
    assert_eq!(desk.gets("35=A|34=10|98=0|108=30|"), "35=A|34=3|98=0|108=30|35=2|34=4|7=2|16=0|");
}

#[test]
fn s4_too_low_without_poss_dup_ends_the_session() {
    for message in ["35=D|34=1|11=a|", "35=0|34=1|", "35=4|34=1|123=Y|36=5|"] {
        let mut desk = Desk::logged_on();
        let text = "MsgSeqNum too low, expecting 2 but received 1";
        assert_eq!(desk.gets(message), format!("35=5|34=2|58={text}|"));
        assert_eq!(desk.logout_reason(), text);
        assert!(desk.taken.messages.is_empty());
    }
}

#[test]
fn s5_too_low_with_poss_dup_is_ignored() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=D|34=1|43=Y|122=20261123-10:15:00|11=a|"), "");
    assert!(desk.taken.messages.is_empty());
    assert_eq!(desk.store.next_in(), 2);
}

#[test]
fn s6_a_poss_dup_from_the_future_is_rejected_and_ends_the_session() {
    let mut desk = Desk::logged_on();
    let answer = "35=3|34=2|45=1|58=SendingTime accuracy problem|372=D|373=10|35=5|34=3|";
    let later = desk.time(1);
    assert_eq!(desk.gets(&format!("35=D|34=1|43=Y|122={later}|11=a|")), answer);
    assert_eq!(desk.session.state(), SessionState::LoggingOut);
    assert_eq!(desk.waits(2_000), "");
    assert_eq!(desk.logout_reason(), "");
}

#[test]
fn s7_a_poss_dup_without_orig_sending_time_is_rejected() {
    let mut desk = Desk::logged_on();
    let answer = "35=3|34=2|45=1|58=Required tag missing|371=122|372=D|373=1|";
    assert_eq!(desk.gets("35=D|34=1|43=Y|11=a|"), answer);
    assert_eq!(desk.store.next_in(), 2);
    assert!(desk.session.is_ready());
}

#[test]
fn s7a_low_requests_and_logouts_are_answered() {
    let mut desk = Desk::logged_on();
    desk.gets("35=D|34=2|11=a|");
    desk.sends("b");
    let time = desk.time(0);
    assert_eq!(desk.gets("35=2|34=1|7=2|16=2|"), format!("35=8|34=2|43=Y|122={time}|11=b|"));
    assert_eq!(desk.store.next_in(), 3);
    assert_eq!(desk.gets("35=5|34=1|"), "35=5|34=3|");
    assert_eq!(desk.store.next_in(), 3);
}

#[test]
fn s8_s9_an_expected_poss_dup_or_poss_resend_is_new() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=D|34=2|43=Y|122=20261123-10:00:00|11=a|"), "");
    assert_eq!(desk.gets("35=D|34=3|97=Y|11=b|"), "");
    // Its OrigSendingTime does not matter: the message was never seen.
    assert_eq!(desk.gets("35=D|34=4|43=Y|11=c|"), "");
    assert_eq!(desk.taken.messages, ["2 a", "3 b", "4 c"]);
}
