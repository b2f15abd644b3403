//! Rows R: SequenceReset.

use fix_session::{MessageStore, Notice};

use crate::desk::Desk;

const OUT_OF_RANGE: &str = "Value is incorrect (out of range) for this tag";

#[test]
fn r1_a_gap_fill_moves_on_and_plays_what_waits() {
    let mut desk = Desk::logged_on();
    desk.gets("35=D|34=5|11=d|");
    assert_eq!(desk.gets("35=4|34=2|43=Y|123=Y|36=5|"), "");
    assert_eq!(desk.taken.messages, ["5 d"]);
    assert_eq!(desk.store.next_in(), 6);
}

#[test]
fn r2_an_early_gap_fill_waits_for_its_turn() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=4|34=4|43=Y|123=Y|36=8|"), "35=2|34=2|7=2|16=0|");
    assert_eq!(desk.store.next_in(), 2);
    desk.gets("35=D|34=2|11=a|");
    assert_eq!(desk.store.next_in(), 3);
    desk.gets("35=D|34=3|11=b|");
    assert_eq!(desk.store.next_in(), 8);
}

#[test]
fn r3_a_late_gap_fill_is_ignored() {
    let mut desk = Desk::logged_on();
    assert_eq!(desk.gets("35=4|34=1|43=Y|123=Y|36=9|"), "");
    assert_eq!(desk.store.next_in(), 2);
}

#[test]
fn r5_a_gap_fill_that_leads_back_is_rejected() {
    for new_seq in [0, 1, 2] {
        let mut desk = Desk::logged_on();
        let answer = format!("35=3|34=2|45=2|58={OUT_OF_RANGE}|371=36|372=4|373=5|");
        assert_eq!(desk.gets(&format!("35=4|34=2|123=Y|36={new_seq}|")), answer);
        // It was the expected message, and it was answered: it is not asked for again.
        assert_eq!(desk.store.next_in(), 3);
    }
}

#[test]
fn r6_a_reset_moves_on_whatever_its_number_and_is_told() {
    for (seq, flag) in [(0, ""), (1, "123=N|"), (2, ""), (77, "123=N|")] {
        let mut desk = Desk::logged_on();
        desk.gets("35=D|34=4|11=c|");
        desk.gets("35=D|34=6|11=e|");
        assert_eq!(desk.gets(&format!("35=4|34={seq}|{flag}36=6|")), "");
        assert_eq!(desk.taken.messages, ["6 e"]);
        assert_eq!(desk.store.next_in(), 7);
        assert!(desk.notices.contains(&Notice::PeerSkipped { from: 2, to: 5 }));
        assert!(desk.session.is_ready());
    }
    let mut nothing = Desk::logged_on();
    assert_eq!(nothing.gets("35=4|34=9|36=2|"), "");
    assert_eq!((nothing.store.next_in(), nothing.notices.len()), (2, 1));
}

#[test]
fn r7_a_reset_that_leads_back_is_rejected() {
    let mut desk = Desk::logged_on();
    let answer = format!("35=3|34=2|45=9|58={OUT_OF_RANGE}|372=4|373=5|");
    assert_eq!(desk.gets("35=4|34=9|36=1|"), answer);
    assert_eq!(desk.store.next_in(), 2);
}

#[test]
fn a_new_number_must_be_one() {
    for flag in ["", "123=Y|"] {
        let wrong = [
            ("", "58=Required tag missing|371=36|372=4|373=1|".to_owned()),
            ("36=x|", "58=Incorrect data format for value|371=36|372=4|373=6|".to_owned()),
            ("36=18446744073709551615|", format!("58={OUT_OF_RANGE}|371=36|372=4|373=5|")),
            ("36=18446744073709551616|", format!("58={OUT_OF_RANGE}|371=36|372=4|373=5|")),
        ];
        for (field, answer) in wrong {
            let mut desk = Desk::logged_on();
            let message = format!("35=4|34=2|{flag}{field}");
            assert_eq!(desk.gets(&message), format!("35=3|34=2|45=2|{answer}"));
            assert_eq!(desk.store.next_in(), 3);
        }
    }
}
