//! Rows L15 to L18: NextExpectedMsgSeqNum (789).

use fix_session::{MessageStore, Notice, Role, SessionConfig};

use crate::desk::Desk;

fn desk_with(change: impl FnOnce(&mut SessionConfig)) -> Desk {
    Desk::with(|config| {
        config.next_expected = true;
        change(config);
    })
}

#[test]
fn l15_the_answer_has_what_comes_after_the_logon() {
    let mut desk = desk_with(|_| {});
    desk.connect();
    let answer = "35=A|34=1|98=0|108=30|789=2|";
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|789=1|"), answer);
}

#[test]
fn l15_an_initiator_says_what_it_expects() {
    let mut desk = desk_with(|config| config.role = Role::Initiator);
    desk.store.set_next_in(4).unwrap();
    assert_eq!(desk.connect(), "35=A|34=1|98=0|108=30|789=4|");
    assert_eq!(desk.gets("35=A|34=4|98=0|108=30|789=2|"), "");
    assert!(desk.session.is_ready());
}

#[test]
fn l16_what_the_peer_lacks_is_sent_without_being_asked_for() {
    let mut desk = desk_with(|_| {});
    for id in ["a", "b", "c"] {
        desk.sends(id);
    }
    desk.connect();
    let now = desk.time(0);
    let answer = format!(
        "35=A|34=4|98=0|108=30|789=2|35=8|34=2|43=Y|122={now}|11=b|35=8|34=3|43=Y|122={now}|11=c|\
         35=4|34=4|43=Y|122={now}|36=5|123=Y|"
    );
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|789=2|"), answer);
}

#[test]
fn l17_a_peer_that_is_ahead_is_refused_and_told() {
    let text = "NextExpectedMsgSeqNum too high, expecting 1 but received 9";
    let mut desk = desk_with(|_| {});
    desk.connect();
    let answer = format!("35=5|34=1|58={text}|");
    assert_eq!(desk.gets("35=A|34=1|98=0|108=30|789=9|"), answer);
    assert_eq!(desk.logout_reason(), text);
    assert!(desk.notices.contains(&Notice::PeerIsAhead { next_out: 1, expected: 9 }));
    assert_eq!(desk.store.next_in(), 1);
}

/// A number that is too large for 64 bits is not one that is missing.
#[test]
fn l17_a_number_of_any_length_is_too_high() {
    let nines = "9".repeat(300);
    for number in ["18446744073709551615", "18446744073709551616", &nines] {
        let mut desk = desk_with(|_| {});
        desk.connect();
        let text = "NextExpectedMsgSeqNum too high, expecting 1 but received 18446744073709551615";
        let logon = format!("35=A|34=1|98=0|108=30|789={number}|");
        assert_eq!(desk.gets(&logon), format!("35=5|34=1|58={text}|"));
        assert!(desk.notices.contains(&Notice::PeerIsAhead { next_out: 1, expected: u64::MAX }));
        assert_eq!((desk.logout_reason(), desk.store.next_in()), (text, 1));
    }
}

#[test]
fn l18_the_peer_fills_the_gap_by_itself() {
    let mut desk = desk_with(|_| {});
    desk.connect();
    let answer = "35=A|34=1|98=0|108=30|789=1|";
    assert_eq!(desk.gets("35=A|34=3|98=0|108=30|789=1|"), answer);
    desk.gets("35=D|34=1|43=Y|122=20261123-10:00:00|11=a|");
    assert_eq!(desk.gets("35=4|34=2|43=Y|123=Y|36=4|"), "");
    assert!(desk.session.is_ready());
    assert_eq!(desk.taken.messages, ["1 a"]);
}

#[test]
fn l18_a_peer_that_does_not_is_asked_after_10_s() {
    let mut desk = desk_with(|_| {});
    desk.connect();
    desk.gets("35=A|34=3|98=0|108=30|789=1|");
    assert_eq!(desk.waits(10_000), "35=2|34=2|7=1|16=0|");
}

#[test]
fn without_the_setting_or_the_field_nothing_changes() {
    let mut off = Desk::connected();
    assert_eq!(off.gets("35=A|34=1|98=0|108=30|789=9|"), "35=A|34=1|98=0|108=30|");
    let mut plain_peer = desk_with(|_| {});
    plain_peer.connect();
    let answer = "35=A|34=1|98=0|108=30|789=1|35=2|34=2|7=1|16=0|";
    assert_eq!(plain_peer.gets("35=A|34=2|98=0|108=30|"), answer);
}
