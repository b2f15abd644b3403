//! Rows G: framing and header, and the rejections of a dictionary.

use std::sync::Arc;

use fix::Dictionary;
use fix_session::{Disconnect, MessageStore, SessionState, Strictness};

use crate::desk::Desk;

#[test]
fn g1_garbled_messages_are_ignored_and_leave_a_gap() {
    let mut desk = Desk::logged_on();
    let good = desk.message("35=D|34=2|11=a|");
    let at = good.len();
    let mut wrong_sum = good.clone();
    wrong_sum[at - 2] = if good[at - 2] == b'0' { b'1' } else { b'0' };
    let mut sum_256 = good.clone();
    sum_256[at - 4..at - 1].copy_from_slice(b"256");
    let short = String::from_utf8(good).unwrap().replace("\x019=", "\x019=1\x01X=").into_bytes();
    for garbled in [wrong_sum, sum_256, short] {
        assert_eq!(desk.gets_bytes(&garbled), "");
    }
    assert_eq!(desk.store.next_in(), 2);
    assert_eq!(desk.gets("35=D|34=3|11=b|"), "35=2|34=2|7=2|16=0|");
}

#[test]
fn g2_a_length_above_the_limit_closes_the_connection() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets_bytes(b"8=FIX.4.4\x019=65537\x0135=D\x01"), "");
    assert_eq!(desk.closed, Some(Disconnect::TooLong { body_bytes: 65_537 }));
}

#[test]
fn g3_ten_garbled_messages_in_a_row_close_the_connection() {
    let mut desk = Desk::logged_on();
    let mut garbled = desk.message("35=D|34=2|11=a|");
    garbled[30] ^= 1;
    for _ in 0..9 {
        desk.gets_bytes(&garbled);
    }
    desk.gets("35=D|34=2|11=a|");
    for _ in 0..9 {
        desk.gets_bytes(&garbled);
    }
    assert_eq!(desk.closed, None);
    desk.gets_bytes(&garbled);
    assert_eq!(desk.closed, Some(Disconnect::Garbled { messages: 10 }));
}

#[test]
fn a_message_that_is_garbled_whenever_it_comes_ends_the_session() {
    let mut desk = Desk::logged_on();
    let garbled = desk.message("35=D|34=2|x=a|");
    desk.gets_bytes(&garbled);
    assert_eq!(desk.gets("35=0|34=3|"), "35=2|34=2|7=2|16=0|");
    let mut requests = 1;
    while desk.session.state() == SessionState::LoggedOn {
        desk.gets_bytes(&garbled);
        requests += desk.waits(5_000).matches("35=2|").count();
    }
    assert_eq!(requests, 3);
}

#[test]
fn a_message_with_too_many_fields_closes_the_connection() {
    let mut desk = Desk::logged_on();
    let many = desk.message(&format!("35=D|34=2|{}", "58=x|".repeat(600)));
    assert_eq!(desk.gets_bytes(&many), "");
    assert_eq!(desk.closed, Some(Disconnect::TooManyFields));
}

#[test]
fn g4_another_begin_string_ends_the_session() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("FIX.4.2@35=0|34=2|"), "35=5|34=2|58=Incorrect BeginString|");
    assert_eq!(desk.session.state(), SessionState::LoggingOut);
    // A second one is not answered again.
    assert_eq!(desk.gets("FIX.4.2@35=0|34=3|"), "");
    assert_eq!(desk.waits(2_000), "");
    assert_eq!(desk.logout_reason(), "Incorrect BeginString");
}

#[test]
fn g5_other_comp_ids_end_the_session() {
    for id in ["49=OTHER", "56=OTHER"] {
        let mut desk = Desk::logged_on();
        let answer = "35=3|34=2|45=2|58=CompID problem|372=D|373=9|35=5|34=3|";
        assert_eq!(desk.gets(&format!("35=D|34=2|{id}|11=a|")), answer);
        assert!(desk.taken.messages.is_empty());
        assert_eq!(desk.gets("35=5|34=3|"), "");
        assert_eq!(desk.logout_reason(), "");
    }
}

#[test]
fn g6_another_time_ends_the_session() {
    for seconds in [-121, 121] {
        let mut desk = Desk::logged_on();
        let time = desk.time(seconds);
        let answer = "35=3|34=2|45=2|58=SendingTime accuracy problem|372=0|373=10|35=5|34=3|";
        assert_eq!(desk.gets(&format!("35=0|34=2|52={time}|")), answer);
        assert_eq!(desk.store.next_in(), 3);
    }
    let mut any = Desk::logged_on_with(|config| config.max_latency_s = 0);
    assert_eq!(any.gets("35=1|34=2|52=19990101-00:00:00|112=x|"), "35=0|34=2|112=x|");
}

#[test]
fn g7_a_message_without_number_ends_the_session() {
    for message in ["35=0|", "35=0|34=x|"] {
        let mut desk = Desk::logged_on();
        let text = "Received message without MsgSeqNum";
        assert_eq!(desk.gets(message), format!("35=5|34=2|58={text}|"));
        assert_eq!(desk.logout_reason(), text);
    }
}

#[test]
fn a_type_without_a_value_is_rejected_without_naming_it() {
    let mut desk = Desk::logged_on_with(|config| config.strictness = Strictness::Structure);
    let answer = "35=3|34=2|45=2|58=Tag specified without a value|371=35|373=4|";
    assert_eq!(desk.gets("35=|34=2|11=a|"), answer);
}

#[test]
fn g8_other_missing_header_fields_are_rejected() {
    for tag in ["49", "52", "56"] {
        let mut desk = Desk::logged_on();
        let answer = format!("35=3|34=2|45=2|58=Required tag missing|371={tag}|372=D|373=1|");
        assert_eq!(desk.gets(&format!("35=D|34=2|-{tag}|11=a|")), answer);
        assert_eq!(desk.store.next_in(), 3);
        assert!(desk.session.is_ready());
    }
    let mut desk = Desk::logged_on();
    let answer = "35=3|34=2|45=2|58=Incorrect data format for value|371=52|372=D|373=6|";
    assert_eq!(desk.gets("35=D|34=2|52=today|11=a|"), answer);
}

#[test]
fn g9_a_reject_goes_back_to_whom_the_message_came_from() {
    let mut desk = Desk::logged_on();
    let message = "35=1|34=2|115=DESK|116=ann|128=VENUE|129=bob|144=north|145=|";
    let routing = "115=VENUE|116=bob|128=DESK|129=ann|145=north|";
    let answer = format!("35=3|34=2|{routing}45=2|58=Required tag missing|371=112|372=1|373=1|");
    assert_eq!(desk.gets(message), answer);
}

#[test]
fn a_dictionary_rejects_and_the_session_goes_on() {
    let mut desk = Desk::logged_on_with(|config| {
        config.strictness = Strictness::Full(Arc::new(Dictionary::fix44()));
    });
    let rejected = [
        ("35=0|34=2|9999=x|", "45=2|58=Invalid tag number|371=9999|372=0|373=0|"),
        ("35=0|34=3|58=x|", "45=3|58=Tag not defined for this message type|371=58|372=0|373=2|"),
        ("35=0|34=4|112=|", "45=4|58=Tag specified without a value|371=112|372=0|373=4|"),
        ("35=zz|34=5|", "45=5|58=Invalid MsgType|372=zz|373=11|"),
        ("35=0|34=6|112=x|112=y|", "45=6|58=Tag appears more than once|371=112|372=0|373=13|"),
    ];
    for (at, (message, answer)) in rejected.into_iter().enumerate() {
        assert_eq!(desk.gets(message), format!("35=3|34={}|{answer}", at + 2));
    }
    assert_eq!(desk.store.next_in(), 7);
}

#[test]
fn fix_4_2_has_no_code_above_11() {
    let mut desk = Desk::logged_on_with(|config| {
        config.begin_string = "FIX.4.2".to_owned();
        config.strictness = Strictness::Full(Arc::new(Dictionary::fix42()));
    });
    let answer = "35=3|34=2|45=2|58=Tag appears more than once|371=112|372=0|";
    assert_eq!(desk.gets("35=0|34=2|112=x|112=y|"), answer);
}

#[test]
fn a_length_of_data_that_lies_is_rejected_and_counts() {
    let mut desk = Desk::logged_on();
    let text = "Value is incorrect (out of range) for this tag";
    let answer = format!("35=3|34=2|45=2|58={text}|371=95|372=B|373=5|");
    assert_eq!(desk.gets("35=B|34=2|95=99|96=x|"), answer);
    assert_eq!(desk.store.next_in(), 3);
    // Fields behind the lie are not known, MsgSeqNum neither.
    let text = "Received message without MsgSeqNum";
    assert_eq!(desk.gets("35=B|95=99|96=x|34=3|"), format!("35=5|34=3|58={text}|"));
    assert!(desk.taken.messages.is_empty());
}

#[test]
fn a3_a_reject_is_never_answered_with_a_reject() {
    let mut desk = Desk::logged_on_with(|config| {
        config.strictness = Strictness::Full(Arc::new(Dictionary::fix44()));
    });
    assert_eq!(desk.gets("35=3|34=2|45=1|58=no|") + &desk.gets("35=3|34=3|9999=x|"), "");
    assert_eq!(desk.store.next_in(), 4);
    assert!(desk.taken.messages.is_empty());
}
