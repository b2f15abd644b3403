//! Sessions that cannot be: every error at once, each with what to do.

use door_fix::{FixSessions, Limits, Route, SessionSpec, Unaddressed, VenueSpec};

use fix_session::MemoryStore;

use crate::desk::{Desk, START_UNIX_MS, spec};

#[test]
fn every_error_is_told() {
    let with = |change: fn(&mut SessionSpec)| {
        let mut spec = spec("FIX.4.4");
        change(&mut spec);
        spec
    };
    let specs = vec![
        SessionSpec::new("FIX.4.4", "GATE", "A"),
        with(|spec| spec.keys.begin_string = "FIX.4.3".to_owned()),
        with(|spec| {
            spec.keys.name = "x".to_owned();
            spec.keys.target_comp_id = "B\x01".to_owned();
        }),
        with(|spec| spec.keys.name = "y".to_owned()),
        with(|spec| spec.keys.name = "y".to_owned()),
        with(|spec| {
            spec.keys.name = "z".to_owned();
            spec.keys.body_bytes_max = 0;
            spec.keys.sender_comp_id = "Q".to_owned();
        }),
        with(|spec| {
            spec.keys.name = String::new();
            spec.keys.sender_comp_id = "R".to_owned();
        }),
    ];
    let errors = FixSessions::new(specs, Vec::new()).unwrap_err();
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
    (other.limits, other.keys.durability) = (Some(Limits::None), fix_session::Durability::Written);
    let sessions = FixSessions::new(vec![spec("FIX.4.4"), other], Vec::new()).unwrap();
    let stores: Vec<_> = sessions.stores().collect();
    let (sealed, written) = (fix_session::Durability::Sealed, fix_session::Durability::Written);
    assert_eq!(stores, [("CLIENT", sealed), ("B", written)]);
}

#[test]
fn routes_lead_to_a_venue_of_their_own_that_speaks_the_same() {
    let routed = |name: &str, begin_string: &str, venue: &str| {
        let mut spec = SessionSpec::new(begin_string, "GATE", name);
        (spec.limits, spec.route) = (Some(Limits::None), Route::Venue(venue.to_owned()));
        spec
    };
    let clients = vec![
        routed("A", "FIX.4.4", "nowhere"),
        routed("B", "FIX.4.2", "VENUE"),
        routed("C", "FIX.4.4", "VENUE"),
    ];
    let mut venue = VenueSpec::new("FIX.4.4", "GATE", "VENUE");
    venue.unaddressed = Unaddressed::Session("A".to_owned());
    let errors = FixSessions::new(clients, vec![venue]).unwrap_err();
    let text: String = errors.iter().map(|error| format!("{error}\n")).collect();
    for one in [
        "session \"A\": there is no venue \"nowhere\"",
        "session \"B\" speaks FIX.4.2 and venue \"VENUE\" FIX.4.4",
        "venue \"VENUE\": unaddressed is \"A\", which is no session whose route is this venue",
    ] {
        assert!(text.contains(one), "{one} is not in\n{text}");
    }
    assert_eq!(errors.len(), 3, "{text}");
}

/// A venue of FIX 5.0 SP2 is told the value of the wire, by whichever name the version is configured.
#[test]
fn a_version_of_the_application_has_one_value_on_the_wire() {
    for name in ["9", "FIX.5.0SP2"] {
        let mut client = spec("FIXT.1.1");
        let mut venue = VenueSpec::new("FIXT.1.1", "GATE", "VENUE");
        client.route = Route::Venue("VENUE".to_owned());
        client.keys.default_appl_ver_id = name.to_owned();
        venue.keys.default_appl_ver_id = name.to_owned();
        let stores: Vec<_> = (0..2).map(|_| MemoryStore::new(START_UNIX_MS)).collect();
        let mut desk = Desk::passing("FIXT.1.1", vec![client], vec![venue], stores, ());
        let (_, logon) = desk.dial();
        assert!(logon.contains("|1137=9|"), "{logon}");
        let at = desk.connect();
        let logon = "35=A|34=1|98=0|108=30|1137=9|";
        assert_eq!(desk.gets(at, logon), logon);
    }
}
