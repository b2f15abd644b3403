//! Sessions that cannot be: every error at once, each with what to do.

use door_fix::{FixSessions, Limits, SessionSpec};

use crate::desk::spec;

#[test]
fn every_error_is_told() {
    let specs = vec![
        SessionSpec::new("FIX.4.4", "GATE", "A"),
        SessionSpec { begin_string: "FIX.4.3".to_owned(), ..spec("FIX.4.4") },
        SessionSpec { name: "x".to_owned(), target_comp_id: "B\x01".to_owned(), ..spec("FIX.4.4") },
        SessionSpec { name: "y".to_owned(), ..spec("FIX.4.4") },
        SessionSpec { name: "y".to_owned(), ..spec("FIX.4.4") },
        SessionSpec {
            name: "z".to_owned(),
            body_bytes_max: 0,
            sender_comp_id: "Q".to_owned(),
            ..spec("FIX.4.4")
        },
        SessionSpec { name: String::new(), sender_comp_id: "R".to_owned(), ..spec("FIX.4.4") },
    ];
    let errors = FixSessions::new(specs).unwrap_err();
    let text: String = errors.iter().map(|error| format!("{error}\n")).collect();
    let wanted = [
        "session \"A\": limits is \"\"; expected \"none\"",
        "begin_string is \"FIX.4.3\"; expected FIX.4.2, FIX.4.4 or FIXT.1.1",
        "session \"x\": target_comp_id",
        "two sessions are called \"y\"; give one of them another `name`",
        "the sessions \"y\" and \"y\" have the same begin_string, sender_comp_id and target_comp_id",
        "session \"z\": body_bytes_max is \"0\"",
        "session \"\": name is \"\"; expected 1 to 80 characters",
    ];
    for one in wanted {
        assert!(text.contains(one), "{one} is not in\n{text}");
    }
    assert_eq!(errors.len(), wanted.len(), "{text}");
}

#[test]
fn a_sound_configuration_says_what_stores_it_needs() {
    let mut other = SessionSpec::new("FIX.4.2", "GATE", "B");
    (other.limits, other.durability) = (Some(Limits::None), fix_session::Durability::Written);
    let sessions = FixSessions::new(vec![spec("FIX.4.4"), other]).unwrap();
    let stores: Vec<_> = sessions.stores().collect();
    let (sealed, written) = (fix_session::Durability::Sealed, fix_session::Durability::Written);
    assert_eq!(stores, [("CLIENT", sealed), ("B", written)]);
}
