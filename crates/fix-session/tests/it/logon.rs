//! Rows L: the logon, as acceptor.

use std::sync::Arc;

use fix::Dictionary;
use fix_session::{
    AlreadyConnected, Disconnect, MessageStore, Notice, SessionState, Strictness, Turn,
};

use crate::desk::Desk;

#[test]
fn l1_a_logon_is_answered_with_its_own_heart_beat() {
    let mut desk = Desk::connected();
    assert_eq!(desk.gets("35=A|34=1|98=0|108=17|"), "35=A|34=1|98=0|108=17|");
    assert!(desk.session.is_ready());
    let mut fixt = Desk::with(|config| config.begin_string = "FIXT.1.1".to_owned());
    fixt.connect();
    let logon = "35=A|34=1|98=0|108=30|1137=9|";
    assert_eq!(fixt.gets(logon), logon);
}

#[test]
fn l2_a_logon_that_is_too_high_is_answered_and_then_the_gap() {
    let mut desk = Desk::connected();
    let answer = "35=A|34=1|98=0|108=30|35=2|34=2|7=1|16=0|";
    assert_eq!(desk.gets("35=A|34=4|98=0|108=30|"), answer);
    assert!(!desk.session.is_ready());
    assert_eq!(desk.gets("35=D|34=1|43=Y|122=20261123-10:00:00|11=a|"), "");
    assert_eq!(desk.gets("35=4|34=2|43=Y|123=Y|36=4|"), "");
    // The Logon itself counts once what was before it is there.
    assert!(desk.session.is_ready());
    assert_eq!(desk.gets("35=D|34=5|11=b|"), "");
    assert_eq!(desk.taken.messages, ["1 a", "5 b"]);
}

#[test]
fn l3_a_logon_that_is_too_low_is_refused() {
    let mut desk = Desk::logged_on();
    desk.session.disconnected();
    desk.connect();
    let text = "MsgSeqNum too low, expecting 2 but received 1";
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), format!("35=5|34=2|58={text}|"));
    assert_eq!(desk.logout_reason(), text);
    // The numbers are as they were.
    desk.connect();
    assert_eq!(desk.gets("35=A|34=2|98=0|108=30|"), "35=A|34=3|98=0|108=30|");
}

#[test]
fn l4_the_first_message_must_be_a_logon() {
    let mut desk = Desk::connected();
    assert_eq!(desk.gets("35=D|34=1|11=a|"), "");
    assert_eq!(desk.closed, Some(Disconnect::NoLogon));
    assert!(desk.taken.messages.is_empty());
}

#[test]
fn l5_nothing_is_learnt_by_probing() {
    for probe in [
        "FIX.4.2@35=A|34=1|98=0|108=30|",
        "35=A|34=1|49=OTHER|98=0|108=30|",
        "35=A|34=1|56=OTHER|98=0|108=30|",
    ] {
        let mut desk = Desk::connected();
        assert_eq!(desk.gets(probe), "");
        assert_eq!(desk.closed, Some(Disconnect::OtherSession), "{probe}");
    }
}

#[test]
fn l6_a_logon_of_another_time_is_not_answered() {
    for (seconds, good) in [(-121, false), (121, false), (-119, true), (119, true)] {
        let mut desk = Desk::connected();
        let time = desk.time(seconds);
        let answer = desk.gets(&format!("35=A|34=1|52={time}|98=0|108=30|"));
        assert_eq!(!answer.is_empty(), good, "{seconds}");
        assert_eq!(desk.closed.is_none(), good);
    }
}

#[test]
fn l7_a_garbled_logon_ends_the_connection() {
    let mut desk = Desk::connected();
    let mut bytes = desk.message("35=A|34=1|98=0|108=30|");
    bytes[20] ^= 1;
    assert_eq!(desk.gets_bytes(&bytes), "");
    assert_eq!(desk.closed, Some(Disconnect::UnfitLogon));
}

#[test]
fn l8_fixt_needs_a_version_of_the_application() {
    let mut desk = Desk::with(|config| config.begin_string = "FIXT.1.1".to_owned());
    desk.connect();
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), "");
    assert_eq!(desk.closed, Some(Disconnect::UnfitLogon));
}

#[test]
fn l8_fixt_of_another_version_of_the_application_is_refused() {
    for version in ["8", "99", "FIX.5.0SP2"] {
        let mut desk = Desk::with(|config| config.begin_string = "FIXT.1.1".to_owned());
        desk.connect();
        let answer = desk.gets(&format!("35=A|34=1|98=0|108=30|1137={version}|"));
        assert_eq!(answer, "35=5|34=1|58=Invalid/unsupported application version (1137)|");
    }
}

#[test]
fn l9_a_second_connection_leaves_the_first_alone() {
    let mut desk = Desk::logged_on();
    let (store, out) = (&mut desk.store, &mut desk.out);
    let second = desk.session.connected(&mut Turn { now: desk.now, store, out });
    assert_eq!(second, Err(AlreadyConnected));
    assert_eq!(desk.gets("35=1|34=2|112=x|"), "35=0|34=2|112=x|");
}

#[test]
fn l10_a_reset_begins_again_with_1() {
    let mut desk = Desk::logged_on();
    desk.sends("a");
    desk.session.disconnected();
    desk.connect();
    let logon = "35=A|34=1|98=0|108=30|141=Y|";
    assert_eq!(desk.gets(logon), logon);
    assert_eq!(desk.gets("35=1|34=2|112=x|"), "35=0|34=2|112=x|");
    assert!(desk.notices.contains(&Notice::Reset));
}

#[test]
fn l10_a_reset_inside_a_session_keeps_it_alive() {
    let mut desk = Desk::logged_on();
    desk.sends("a");
    desk.gets("35=D|34=2|11=b|");
    assert_eq!(desk.gets("35=A|34=1|98=0|108=20|141=Y|"), "35=A|34=1|98=0|108=20|141=Y|");
    assert_eq!(desk.waits(20_000), "35=0|34=2|");
    assert_eq!(desk.gets("35=D|34=2|11=c|"), "");
    assert_eq!(desk.taken.messages, ["2 b", "2 c"]);
    // What was sent before the reset is never sent again.
    assert_eq!(
        desk.gets("35=2|34=3|7=1|16=0|"),
        "35=4|34=1|43=Y|122=20261123-10:15:50.000|36=3|123=Y|"
    );
}

#[test]
fn l11_a_reset_to_another_number_is_refused() {
    let text = "MsgSeqNum of a Logon with ResetSeqNumFlag must be 1";
    let mut desk = Desk::connected();
    assert_eq!(desk.gets("35=A|34=5|98=0|108=30|141=Y|"), format!("35=5|34=1|58={text}|"));
    assert_eq!(desk.logout_reason(), text);
    let mut live = Desk::logged_on();
    assert_eq!(live.gets("35=A|34=2|98=0|108=30|141=Y|"), format!("35=5|34=2|58={text}|"));
    assert_eq!(live.logout_reason(), text);
}

#[test]
fn l12_l13_a_refused_logon_moves_nothing() {
    let heart_bt = "HeartBtInt is missing or invalid";
    let refused = [
        ("98=0|", heart_bt),
        ("98=0|108=-1|", heart_bt),
        ("98=0|108=x|", heart_bt),
        ("98=0|108=99999999999|", heart_bt),
        ("98=1|108=30|", "Unsupported EncryptMethod"),
    ];
    for (fields, text) in refused {
        let mut desk = Desk::connected();
        assert_eq!(desk.gets(&format!("35=A|34=1|{fields}")), format!("35=5|34=1|58={text}|"));
        assert_eq!(desk.logout_reason(), text);
        desk.connect();
        assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), "35=A|34=2|98=0|108=30|");
    }
}

#[test]
fn l12_no_heart_beats_with_0() {
    let mut desk = Desk::connected();
    assert_eq!(desk.gets("35=A|34=1|98=0|108=0|"), "35=A|34=1|98=0|108=0|");
    assert_eq!(desk.waits(86_400_000), "");
    assert_eq!(desk.session.state(), SessionState::LoggedOn);
}

#[test]
fn l19_no_logon_for_10_s_ends_the_connection() {
    let mut desk = Desk::connected();
    assert_eq!(desk.waits(9_999), "");
    assert_eq!(desk.closed, None);
    assert_eq!(desk.waits(1), "");
    assert_eq!(desk.closed, Some(Disconnect::LogonTimeout { seconds: 10 }));
}

#[test]
fn a_second_logon_without_reset_counts_and_is_not_answered() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=A|34=2|98=0|108=30|"), "");
    assert_eq!(desk.gets("35=1|34=3|112=x|"), "35=0|34=2|112=x|");
}

#[test]
fn a_logon_that_the_dictionary_refuses_is_told_why() {
    let mut desk = Desk::with(|config| {
        config.strictness = Strictness::Full(Arc::new(Dictionary::fix44()));
    });
    desk.connect();
    let text = "Invalid tag number (9999)";
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|9999=x|"), format!("35=5|34=1|58={text}|"));
    assert_eq!(desk.store.next_in(), 1);
}

#[test]
fn l3_a_low_logon_with_poss_dup_is_ignored() {
    let mut desk = Desk::logged_on();
    desk.session.disconnected();
    desk.connect();
    assert_eq!(desk.gets("35=A|34=1|43=Y|122=20261123-10:00:00|98=0|108=30|"), "");
    assert_eq!(desk.session.state(), SessionState::LoggingOn);
}

#[test]
fn reset_on_logon_begins_each_logon_with_1() {
    let mut desk = Desk::logged_on_with(|config| config.reset_on_logon = true);
    desk.gets("35=D|34=2|11=a|");
    desk.session.disconnected();
    desk.connect();
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), "35=A|34=1|98=0|108=30|");
}

#[test]
fn messages_without_a_connection_are_numbered_and_come_by_a_gap() {
    let mut desk = Desk::with(|_| {});
    assert_eq!(desk.sends("a") + &desk.sends("b"), "");
    desk.connect();
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), "35=A|34=3|98=0|108=30|");
    let time = desk.time(0);
    let again = format!(
        "35=8|34=1|43=Y|122={time}|11=a|35=8|34=2|43=Y|122={time}|11=b|35=4|34=3|43=Y|122={time}|36=4|123=Y|"
    );
    assert_eq!(desk.gets("35=2|34=2|7=1|16=0|"), again);
}
