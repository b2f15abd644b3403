//! What a session writes keeps the rules that it holds others to.

use fix::{Dictionary, Framing, Index, Validation, frame};
use fix_session::Role;

use crate::desk::Desk;

fn dictionary(begin_string: &str) -> Dictionary {
    match begin_string {
        "FIX.4.2" => Dictionary::fix42(),
        "FIX.4.4" => Dictionary::fix44(),
        _ => Dictionary::fixt11_fix50sp2(),
    }
}

/// Everything that an acceptor and an initiator say of themselves: each type of message, with every field that they know.
fn all_that_is_said(begin_string: &str) -> Vec<u8> {
    let mut acceptor = Desk::with(|config| {
        config.begin_string = begin_string.to_owned();
        config.next_expected = true;
        config.throttle_per_s = 1;
    });
    let logon = "35=A|34=1|98=0|108=30|1137=9|141=Y|";
    acceptor.connect();
    acceptor.gets(logon);
    acceptor.gets("35=1|34=2|112=x|");
    acceptor.gets("35=1|34=3|115=DESK|128=VENUE|");
    acceptor.gets("35=D|34=4|11=a|");
    acceptor.gets("35=D|34=5|11=b|");
    acceptor.gets("35=2|34=6|7=1|16=0|");
    acceptor.waits(37_000);
    acceptor.gets("35=0|34=9|");
    acceptor.gets("FIX.1.0@35=0|34=7|");
    let mut initiator = Desk::with(|config| {
        config.begin_string = begin_string.to_owned();
        config.role = Role::Initiator;
        config.reset_on_logon = true;
    });
    initiator.connect();
    initiator.gets(logon);
    initiator.step(|session, _, turn, _| session.log_out("", turn));
    [acceptor.said, initiator.said].concat()
}

#[test]
fn what_a_session_writes_keeps_the_dictionary() {
    for begin_string in ["FIX.4.2", "FIX.4.4", "FIXT.1.1"] {
        let dictionary = dictionary(begin_string);
        let said = all_that_is_said(begin_string);
        let mut index = Index::new(64);
        let (mut rest, mut types) = (&said[..], String::new());
        while let Framing::Whole(whole) = frame(rest, 65_536) {
            rest = &rest[whole.bytes().len()..];
            let message = index.read(whole).unwrap();
            let text = String::from_utf8_lossy(whole.bytes()).replace('\x01', "|");
            types += &String::from_utf8_lossy(message.msg_type());
            assert_eq!(message.value(52).map(<[u8]>::len), Some(21), "{text}");
            assert_eq!(Validation::Full(&dictionary).check(&message), Ok(()), "{text}");
        }
        assert!(rest.is_empty());
        for msg_type in "012345Aj".chars() {
            assert!(types.contains(msg_type), "{begin_string}: {msg_type} is not in {types}");
        }
    }
}
