//! What may not have reached the peer comes as new messages once the numbers began again.

use fix_session::{MessageStore, Notice, Schedule};

use crate::desk::Desk;

const RESET: &str = "35=A|34=1|98=0|108=30|141=Y|";
const RESET_BACK: &str = "35=A|34=1|98=0|108=30|141=Y|";

fn desk() -> Desk {
    Desk::logged_on_with(|config| config.repeat_after_reset = true)
}

/// Connects and logs on; returns the Logon and everything behind it.
fn again(desk: &mut Desk, logon: &str) -> String {
    desk.connect();
    let mut said = desk.gets(logon);
    while desk.session.is_resending() {
        said += &desk.resumes();
    }
    said
}

fn ids(said: &str) -> Vec<&str> {
    said.split('|').filter_map(|field| field.strip_prefix("11=")).collect()
}

#[test]
fn after_a_reset_what_was_stored_for_an_absent_peer_comes_as_new() {
    let mut desk = desk();
    desk.sends("a");
    desk.waits(30_000);
    desk.gets("35=0|34=2|");
    desk.waits(50_000);
    desk.gets("35=0|34=3|");
    desk.session.disconnected();
    desk.sends("b");
    desk.sends("c");
    let wanted = format!("{RESET_BACK}35=8|34=2|97=Y|11=b|35=8|34=3|97=Y|11=c|");
    assert_eq!(again(&mut desk, RESET), wanted);
    // They are messages as any other: sent again when the peer asks.
    let resent = desk.gets("35=2|34=2|7=2|16=2|");
    assert!(
        resent.starts_with("35=8|34=2|43=Y|122=") && resent.ends_with("|97=Y|11=b|"),
        "{resent}"
    );
}

#[test]
fn what_was_sent_later_than_2_4_intervals_before_the_last_bytes_comes_again() {
    for (silent_ms, arrived) in [(71_999, false), (72_000, true)] {
        let mut desk = desk();
        desk.sends("a");
        desk.now.ms += silent_ms;
        desk.now.unix_ms += i64::try_from(silent_ms).unwrap();
        desk.gets("35=0|34=2|");
        desk.sends("b");
        desk.session.disconnected();
        let said = again(&mut desk, RESET);
        assert_eq!(ids(&said), if arrived { &["b"][..] } else { &["a", "b"] });
    }
}

#[test]
fn a_peer_that_asked_for_messages_has_not_got_them_yet() {
    let mut desk = desk();
    for id in ["a", "b", "c"] {
        desk.sends(id);
    }
    desk.waits(72_000 - 1);
    desk.gets("35=0|34=2|");
    desk.now.ms += 10_000_000;
    desk.gets("35=0|34=3|");
    assert_eq!(desk.store.unsure_from(), Some(5));
    desk.gets("35=2|34=4|7=3|16=0|");
    desk.session.disconnected();
    assert_eq!(ids(&again(&mut desk, RESET)), ["b", "c"]);
}

/// A peer that saw no gap when it logged on has everything from before.
#[test]
fn a_logon_without_a_gap_makes_the_past_sure_after_a_while() {
    let mut desk = desk();
    desk.sends("a");
    desk.session.disconnected();
    again(&mut desk, "35=A|34=2|98=0|108=30|");
    desk.waits(72_000 - 1);
    assert_eq!(desk.store.unsure_from(), Some(1));
    desk.gets("35=0|34=3|");
    assert_eq!(desk.store.unsure_from(), Some(1));
    desk.waits(1);
    desk.gets("35=0|34=4|");
    assert_eq!(desk.store.unsure_from(), Some(4), "what was sent up to the Logon");
}

#[test]
fn a_logon_that_says_which_number_it_expects_has_all_before() {
    let mut desk = Desk::with(|config| {
        (config.repeat_after_reset, config.next_expected) = (true, true);
    });
    desk.connect();
    desk.gets("35=A|34=1|98=0|108=30|789=1|");
    for id in ["a", "b", "c"] {
        desk.sends(id);
    }
    desk.session.disconnected();
    // The third message, under number 4, has not reached it, and is sent again under its number.
    again(&mut desk, "35=A|34=2|98=0|108=30|789=4|");
    assert_eq!(desk.store.unsure_from(), Some(4));
    desk.session.disconnected();
    assert_eq!(ids(&again(&mut desk, "35=A|34=1|98=0|108=30|141=Y|789=1|")), ["c"]);
}

#[test]
fn a_reset_inside_a_session_and_one_after_the_other_lose_nothing() {
    let mut desk = desk();
    desk.sends("a");
    desk.sends("b");
    let mut said = desk.gets(RESET);
    assert!(said.starts_with(RESET_BACK), "{said}");
    said += &desk.resumes();
    assert_eq!(ids(&said), ["a", "b"]);
    // None of these lives is long enough to be sure.
    for _ in 0..5 {
        desk.session.disconnected();
        assert_eq!(ids(&again(&mut desk, RESET)), ["a", "b"]);
    }
    // One that ends before they are sent.
    desk.session.disconnected();
    desk.connect();
    desk.gets(RESET);
    desk.session.disconnected();
    assert_eq!(ids(&again(&mut desk, RESET)), ["a", "b"]);
}

#[test]
fn much_comes_in_parts_and_each_message_once() {
    let mut desk = desk();
    desk.session.disconnected();
    let wanted: Vec<String> = (0..5_000).map(|id| id.to_string()).collect();
    wanted.iter().for_each(|id| drop(desk.sends(id)));
    desk.connect();
    let mut said = desk.gets(RESET);
    let mut parts = 0;
    while desk.session.is_resending() {
        let part = desk.resumes();
        assert!(part.len() <= 80_000);
        said += &part;
        parts += 1;
    }
    assert!(parts > 4);
    assert_eq!(ids(&said), wanted);
}

#[test]
fn own_reset_on_logon_and_a_new_period_repeat_as_well() {
    let mut desk = Desk::logged_on_with(|config| {
        (config.repeat_after_reset, config.reset_on_logon) = (true, true);
    });
    desk.sends("a");
    desk.session.disconnected();
    assert_eq!(
        again(&mut desk, "35=A|34=1|98=0|108=30|"),
        "35=A|34=1|98=0|108=30|35=8|34=2|97=Y|11=a|"
    );
    let mut desk = Desk::logged_on_with(|config| {
        config.repeat_after_reset = true;
        config.schedule = Schedule::parse("daily 12:00 UTC").unwrap();
    });
    desk.sends("a");
    desk.session.disconnected();
    desk.waits(3 * 3_600_000);
    // The first use in the new period is a message for the absent peer.
    desk.sends("b");
    assert!(desk.notices.contains(&Notice::Reset));
    let said = again(&mut desk, "35=A|34=1|98=0|108=30|");
    assert_eq!(said, "35=A|34=2|98=0|108=30|35=8|34=3|97=Y|11=a|");
    assert_eq!(desk.gets("35=2|34=2|7=1|16=1|").matches("|11=b|").count(), 1);
}

/// A number of the peer that names another message now would refuse the wrong one.
#[test]
fn a_refusal_of_an_earlier_life_names_no_number() {
    let mut desk = desk();
    desk.step(|session, _, turn, _| {
        session.send(b"j", b"45=7\x0158=no\x01372=D\x01379=a\x01380=4\x01", turn).unwrap();
        session.send(b"8", b"11=a\x01", turn).unwrap();
    });
    desk.session.disconnected();
    let wanted =
        format!("{RESET_BACK}35=j|34=2|97=Y|45=0|58=no|372=D|379=a|380=4|35=8|34=3|97=Y|11=a|");
    assert_eq!(again(&mut desk, RESET), wanted);
}

#[test]
fn where_nobody_wants_it_nothing_waits() {
    let mut desk = Desk::logged_on();
    desk.sends("a");
    desk.session.disconnected();
    assert_eq!(again(&mut desk, RESET), RESET_BACK);
    assert_eq!(desk.store.unsure_from(), None);
}
