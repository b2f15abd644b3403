//! Rows Q: what was sent is sent again.

use fix_session::{MessageStore, Notice};

use crate::desk::Desk;

/// Sent: Logon 1, a 2, Heartbeat 3, Heartbeat 4, b 5, Heartbeat 6.
fn history() -> (Desk, String) {
    let mut desk = Desk::logged_on();
    let time = desk.time(0);
    desk.sends("a");
    desk.gets("35=1|34=2|112=x|");
    desk.gets("35=1|34=3|112=x|");
    desk.sends("b");
    desk.gets("35=1|34=4|112=x|");
    desk.waits(1_000);
    (desk, time)
}

#[test]
fn q1_messages_come_as_they_were_and_the_session_s_own_become_gap_fills() {
    let (mut desk, first) = history();
    let now = desk.time(0);
    let again = format!(
        "35=4|34=1|43=Y|122={now}|36=2|123=Y|35=8|34=2|43=Y|122={first}|11=a|\
         35=4|34=3|43=Y|122={now}|36=5|123=Y|35=8|34=5|43=Y|122={first}|11=b|"
    );
    assert_eq!(desk.gets("35=2|34=5|7=1|16=5|"), again);
    assert_eq!(desk.store.next_out(), 7);
    // A range that ends within a run is filled to its end.
    assert_eq!(desk.gets("35=2|34=6|7=3|16=3|"), format!("35=4|34=3|43=Y|122={now}|36=4|123=Y|"));
}

#[test]
fn q2_q3_an_open_end_is_filled_to_the_next_number() {
    for to in [0, 6, 7, 999_999] {
        let (mut desk, first) = history();
        let now = desk.time(0);
        let tail = format!("35=8|34=5|43=Y|122={first}|11=b|35=4|34=6|43=Y|122={now}|36=7|123=Y|");
        assert_eq!(desk.gets(&format!("35=2|34=5|7=5|16={to}|")), tail);
    }
}

#[test]
fn q4_what_was_never_sent_is_not_filled() {
    let (mut desk, _) = history();
    assert_eq!(desk.gets("35=2|34=5|7=7|16=0|") + &desk.gets("35=2|34=6|7=9|16=12|"), "");
    assert_eq!(desk.store.next_in(), 7);
}

/// Some peers say so that they want all there is.
#[test]
fn q4_a_range_may_end_beyond_64_bits() {
    let far = "18446744073709551616";
    let [mut near, mut long, mut behind] = [history().0, history().0, history().0];
    let all = near.gets("35=2|34=5|7=1|16=18446744073709551615|");
    assert_eq!(long.gets(&format!("35=2|34=5|7=1|16={far}|")), all);
    assert!(all.contains("43=Y"), "{all}");
    assert_eq!(behind.gets(&format!("35=2|34=5|7={far}|16=0|")), "");
    assert_eq!(behind.store.next_in(), 6);
}

#[test]
fn q5_ranges_that_are_none_are_rejected() {
    let text = "Value is incorrect (out of range) for this tag";
    for range in ["7=0|16=0|", "7=3|16=2|"] {
        let (mut desk, _) = history();
        let answer = format!("35=3|34=7|45=5|58={text}|371=7|372=2|373=5|");
        assert_eq!(desk.gets(&format!("35=2|34=5|{range}")), answer);
        assert_eq!(desk.store.next_in(), 6);
    }
    let (mut desk, _) = history();
    let answer = "35=3|34=7|45=5|58=Required tag missing|371=16|372=2|373=1|";
    assert_eq!(desk.gets("35=2|34=5|7=1|"), answer);
}

#[test]
fn q6_a_lost_message_is_filled_and_told() {
    let (mut desk, first) = history();
    desk.store.forget(2);
    let now = desk.time(0);
    let again = format!("35=4|34=1|43=Y|122={now}|36=5|123=Y|35=8|34=5|43=Y|122={first}|11=b|");
    assert_eq!(desk.gets("35=2|34=5|7=1|16=5|"), again);
    assert!(desk.notices.contains(&Notice::NotInStore { from: 2, to: 2 }));
}

/// However many are missing, as after numbers were set, it is told once.
#[test]
fn q6_many_lost_messages_are_told_at_once() {
    let (mut desk, _) = history();
    (2..=4).for_each(|seq| desk.store.forget(seq));
    desk.gets("35=2|34=5|7=1|16=5|");
    let told: Vec<_> =
        desk.notices.iter().filter(|notice| matches!(notice, Notice::NotInStore { .. })).collect();
    assert_eq!(told, [&Notice::NotInStore { from: 2, to: 4 }]);
}

/// An operator set a number far ahead: what is between costs one gap fill and one turn.
#[test]
fn q6_numbers_that_were_never_used_are_filled_at_once_however_many_they_are() {
    let (mut desk, first) = history();
    desk.store.set_next_out(999_999_990);
    desk.sends("c");
    let now = desk.time(0);
    let again = format!(
        "35=8|34=5|43=Y|122={first}|11=b|35=4|34=6|43=Y|122={now}|36=999999990|123=Y|\
         35=8|34=999999990|43=Y|122={now}|11=c|"
    );
    assert_eq!(desk.gets("35=2|34=5|7=5|16=0|"), again);
    assert!(!desk.session.is_resending());
    // A range that ends before the next message is filled to its end.
    let fill = format!("35=4|34=7|43=Y|122={now}|36=900000001|123=Y|");
    assert_eq!(desk.gets("35=2|34=6|7=7|16=900000000|"), fill);
    let lost = [(7, 999_999_989), (7, 900_000_000)];
    let lost = lost.map(|(from, to)| Notice::NotInStore { from, to });
    assert!(lost.iter().all(|one| desk.notices.contains(one)), "{:?}", desk.notices);
}

#[test]
fn q7_a_reject_is_sent_again() {
    let mut desk = Desk::logged_on();
    let first = desk.time(0);
    desk.gets("35=1|34=2|");
    let again =
        format!("35=3|34=2|43=Y|122={first}|45=2|58=Required tag missing|371=112|372=1|373=1|");
    assert_eq!(desk.gets("35=2|34=3|7=2|16=0|"), again);
}

#[test]
fn q8_large_ranges_come_in_parts() {
    let mut desk = Desk::logged_on();
    for _ in 0..3_000 {
        desk.sends("an id that makes the message longer");
    }
    let mut parts = vec![desk.gets("35=2|34=2|7=1|16=0|")];
    while desk.session.is_resending() {
        assert!(parts.last().unwrap().len() < 70_000);
        parts.push(desk.resumes());
    }
    let messages: usize = parts.iter().map(|part| part.matches("43=Y|").count()).sum();
    assert_eq!(messages, 3_001);
    assert!(parts.len() > 4, "{}", parts.len());
    // The connection goes: so does the rest.
    desk.gets("35=2|34=3|7=1|16=0|");
    assert!(desk.session.is_resending());
    desk.session.disconnected();
    assert!(!desk.session.is_resending());
    assert_eq!(desk.resumes(), "");
}

#[test]
fn q8_a_second_request_joins_the_first() {
    let mut desk = Desk::logged_on();
    for _ in 0..3_000 {
        desk.sends("x");
    }
    let mut again = desk.gets("35=2|34=2|7=2|16=0|");
    again += &desk.gets("35=2|34=3|7=2|16=100|");
    while desk.session.is_resending() {
        again += &desk.resumes();
    }
    for seq in [2, 100, 101, 3_001] {
        assert!(again.contains(&format!("|34={seq}|43=Y|")), "{seq}");
    }
}

#[test]
fn an_operator_may_ask_and_nothing_is_taken_twice() {
    let mut desk = Desk::with(|_| {});
    assert_eq!(desk.step(|session, _, turn, _| session.request_resend(1, 0, turn)), "");
    let mut desk = Desk::logged_on();
    desk.gets("35=D|34=2|11=a|");
    let request = desk.step(|session, _, turn, _| session.request_resend(2, 2, turn));
    assert_eq!(request, "35=2|34=2|7=2|16=2|");
    assert_eq!(desk.gets("35=D|34=2|43=Y|122=20261123-10:15:30|11=a|"), "");
    assert_eq!(desk.taken.messages, ["2 a"]);
}

#[test]
fn stale_messages_are_filled_when_the_application_says_so() {
    let (mut desk, first) = history();
    let now = desk.time(0);
    desk.taken.stale.push("a".to_owned());
    let again = format!("35=4|34=1|43=Y|122={now}|36=5|123=Y|35=8|34=5|43=Y|122={first}|11=b|");
    assert_eq!(desk.gets("35=2|34=5|7=1|16=5|"), again);
}

#[test]
fn messages_sent_again_do_not_change_what_is_stored() {
    let (mut desk, first) = history();
    desk.gets("35=2|34=5|7=2|16=2|");
    let again = format!("35=8|34=2|43=Y|122={first}|11=a|");
    assert_eq!(desk.gets("35=2|34=6|7=2|16=2|"), again);
}

#[test]
fn a_user_request_is_not_sent_again() {
    let mut desk = Desk::logged_on();
    desk.step(|session, _, turn, _| {
        session.send(b"BE", b"554=secret\x01", turn).unwrap();
    });
    let now = desk.time(0);
    let filled = format!("35=4|34=1|43=Y|122={now}|36=3|123=Y|");
    assert_eq!(desk.gets("35=2|34=2|7=1|16=0|"), filled);
}
