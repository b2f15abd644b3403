//! Strangers, and peers that mean harm.

use door_fix::{Admission, Caller, Guard, Happening, Peer, Refused};
use fix::Message;
use fix_session::MemoryStore;
use proptest::prelude::*;

use crate::desk::{Desk, START_UNIX_MS, spec};

const LOGON: &str = "35=A|34=1|98=0|108=30|";

fn refusals(desk: &mut Desk<Vec<MemoryStore>>) -> Vec<Refused> {
    let happenings = std::mem::take(&mut desk.happenings);
    let refused = happenings.into_iter().filter_map(|happening| match happening {
        Happening::Refused(_, why, _) => Some(why),
        _ => None,
    });
    refused.collect()
}

#[test]
fn a_second_connection_is_closed_and_the_first_does_not_notice() {
    let mut desk = Desk::new("FIX.4.4");
    let first = desk.connect();
    assert_eq!(desk.gets(first, LOGON), LOGON);
    let second = desk.connect();
    assert_eq!(desk.gets(second, "35=A|34=2|98=0|108=30|"), "");
    assert!(!desk.is_open(second) && desk.is_open(first));
    assert_eq!(refusals(&mut desk), [Refused::Taken]);
    assert_eq!(desk.gets(first, "35=1|34=2|112=x|"), "35=0|34=2|112=x|");
    // Its seat is free when it is gone.
    desk.drop_line(first);
    let third = desk.connect();
    assert_eq!(desk.gets(third, "35=A|34=3|98=0|108=30|"), "35=A|34=3|98=0|108=30|");
}

/// The peer is told nothing, so the operator has to be told who it was, whatever it calls itself.
#[test]
fn who_is_refused_is_told_with_its_ids_and_address() {
    let mut desk = Desk::new("FIX.4.4");
    let address = [192, 0, 2, 7].into();
    let long = "x".repeat(1_000);
    for (message, ids) in [
        (format!("{LOGON}49=OTHER|"), Some(["OTHER", "GATE"])),
        (format!("{LOGON}49=CLIENT|56=OTHER|"), Some(["CLIENT", "OTHER"])),
        (format!("{LOGON}49={long}|"), Some([&long[..64], "GATE"])),
        ("35=D|34=1|".to_owned(), Some(["CLIENT", "GATE"])),
        (String::new(), None),
    ] {
        let line = desk.connect_from(Peer { address: Some(address), ..Peer::default() });
        let told = match message.as_str() {
            "" => desk.gets_bytes(line, b"GET / HTTP/1.1\r\n\r\n"),
            message => desk.gets(line, message),
        };
        assert!(told.is_empty() && !desk.is_open(line), "{message}");
        let [Happening::Refused(None, _, caller)] = &std::mem::take(&mut desk.happenings)[..]
        else {
            panic!("{message}")
        };
        let comp_ids = ids.map(|ids| ids.map(str::to_owned));
        assert_eq!(*caller, Caller { address: Some(address), comp_ids }, "{message}");
    }
}

#[test]
fn connections_without_a_logon_are_few_and_leave_after_10_s() {
    let mut desk = Desk::new("FIX.4.4");
    let from = |host: u8| Peer { address: Some([192, 0, 2, host].into()), ..Peer::default() };
    // Somebody who waits before a crowd of another address keeps his place.
    let early = desk.connect_from(from(1));
    let lines: Vec<usize> = (0..10_000).map(|_| desk.connect_from(from(2))).collect();
    // What is closed and not known to be yet does nothing more.
    let mut out = Vec::new();
    let gone = desk.lines[lines[0]].as_mut().unwrap();
    let logon = b"8=FIX.4.4\x019=5\x0135=A\x01";
    assert!(desk.door.received(gone, logon, desk.clock, &mut out).close && out.is_empty());
    for (line, bytes) in desk.ready() {
        assert!(bytes.is_empty() && line != early);
    }
    let open: Vec<usize> = lines.into_iter().filter(|at| desk.is_open(*at)).collect();
    assert_eq!((open.len(), open.last()), (128, Some(&10_000)), "the newest");
    assert!(desk.is_open(early));
    // The crowd cannot keep others out.
    let late = desk.connect_from(from(3));
    desk.ready();
    assert!(desk.is_open(late));
    assert_eq!(desk.gets(late, LOGON), LOGON);
    for at in open {
        assert_eq!(desk.waits(at, 10_000), "");
        assert!(!desk.is_open(at));
    }
    assert!(refusals(&mut desk).contains(&Refused::TooMany));
}

/// A Logon that comes byte by byte is one; an endless one is none.
#[test]
fn a_logon_in_pieces_is_one_and_an_endless_one_is_not() {
    let mut desk = Desk::new("FIX.4.4");
    let at = desk.connect();
    let logon = desk.message(LOGON);
    let (last, pieces) = logon.split_last().unwrap();
    for byte in pieces {
        assert_eq!(desk.gets_bytes(at, &[*byte]), "");
    }
    assert_eq!(desk.gets_bytes(at, &[*last]), LOGON);
    for endless in [
        &b"8=FIX.4.4\x019=999999\x0135=A\x01"[..],
        &[b'8'; 100],
        b"8=FIX.4.4\x019=1000000000000000000000",
    ] {
        let at = desk.connect();
        desk.gets_bytes(at, endless);
        assert!(!desk.is_open(at), "{endless:?}");
    }
    // A head that never ends: the door has never more than a few bytes of it.
    let at = desk.connect();
    for _ in 0..200 {
        if desk.is_open(at) {
            desk.gets_bytes(at, b"8=FIX.4.4444444444");
        }
    }
    assert!(!desk.is_open(at));
}

#[test]
fn sessions_are_found_by_their_ids_and_origins() {
    let mut inside = spec("FIX.4.4");
    inside.source_addresses = vec!["192.0.2.0/24".parse().unwrap()];
    let mut certified = spec("FIX.4.4");
    (certified.keys.name, certified.keys.target_comp_id) = ("DESK".into(), "DESK".into());
    certified.certificate_name = Some("desk.example".to_owned());
    let mut desk = Desk::with("FIX.4.4", vec![inside, certified]);
    let peer = |address: &str, name: &str| Peer {
        address: address.parse().ok(),
        certificate_names: vec![name.to_owned()],
    };
    let cases = [
        ("CLIENT", peer("192.0.3.1", ""), Some(Refused::Origin)),
        ("CLIENT", Peer::default(), Some(Refused::Origin)),
        ("DESK", peer("192.0.2.1", "other.example"), Some(Refused::Origin)),
        ("NOBODY", peer("192.0.2.1", "desk.example"), Some(Refused::NoSession)),
        ("CLIENT", peer("192.0.2.1", ""), None),
        ("DESK", peer("203.0.113.1", "desk.example"), None),
    ];
    for (client, peer, refused) in cases {
        let at = desk.connect_from(peer);
        let answer = desk.gets(at, &format!("{LOGON}49={client}|"));
        assert_eq!(desk.is_open(at), refused.is_none(), "{client}");
        assert_eq!(answer.is_empty(), refused.is_some(), "{client}");
        assert_eq!(refusals(&mut desk), Vec::from_iter(refused));
    }
}

/// Admits one password.
struct OnePassword;

impl Guard for OnePassword {
    fn admits(&mut self, session: usize, _line: u64, logon: &Message<'_>) -> Admission {
        match session == 0 && logon.value(554) == Some(b"right") {
            true => Admission::Yes,
            false => Admission::No,
        }
    }
}

/// Takes its time.
#[derive(Default)]
struct Slow(Vec<u64>);

impl Guard for Slow {
    fn admits(&mut self, _session: usize, line: u64, _logon: &Message<'_>) -> Admission {
        self.0.push(line);
        Admission::Later
    }
}

/// What a connection gets once the guard has made up its mind.
fn judged(desk: &mut Desk<Vec<MemoryStore>, Slow>, at: usize, admitted: bool) -> String {
    desk.lines[at].as_mut().unwrap().judged(admitted);
    desk.gets_bytes(at, b"")
}

#[test]
fn a_guard_that_takes_its_time_is_asked_once_and_nothing_is_read_meanwhile() {
    let stores = vec![MemoryStore::new(START_UNIX_MS)];
    let mut desk = Desk::over("FIX.4.4", vec![spec("FIX.4.4")], stores, Slow::default());
    let [first, second, third] = [desk.connect(), desk.connect(), desk.connect()];
    for at in [first, second, third] {
        assert_eq!(desk.gets(at, LOGON), "");
        assert!(desk.lines[at].as_ref().unwrap().is_judged_later());
        assert_eq!(desk.gets(at, "35=1|34=2|112=x|"), "");
    }
    assert_eq!(desk.door.guard().0, [0, 1, 2]);
    // Whoever is judged first has the session, and what came behind the Logon is taken then.
    assert_eq!(judged(&mut desk, second, true), format!("{LOGON}35=0|34=2|112=x|"));
    assert_eq!(judged(&mut desk, first, true), "");
    assert!(!desk.is_open(first), "the session is taken");
    assert_eq!(judged(&mut desk, third, false), "");
    assert!(!desk.is_open(third));
    assert_eq!(desk.gets(second, "35=1|34=3|112=y|"), "35=0|34=3|112=y|");
    // Nobody waits for ever.
    let late = desk.connect();
    desk.gets(late, "35=A|34=4|98=0|108=30|");
    assert!(!desk.is_open(late), "the session is taken: the guard is not even asked");
    desk.drop_line(second);
    let late = desk.connect();
    desk.gets(late, "35=A|34=4|98=0|108=30|");
    desk.waits(late, 10_000);
    assert!(!desk.is_open(late));
}

#[test]
fn a_guard_judges_logons_before_a_session_sees_them() {
    let stores = vec![MemoryStore::new(START_UNIX_MS)];
    let mut desk = Desk::over("FIX.4.4", vec![spec("FIX.4.4")], stores, OnePassword);
    for (password, admitted) in [("wrong", false), ("", false), ("right", true)] {
        let at = desk.connect();
        let logon =
            if password.is_empty() { LOGON.to_owned() } else { format!("{LOGON}554={password}|") };
        assert_eq!(desk.gets(at, &logon).is_empty(), !admitted, "{password}");
        assert_eq!(desk.is_open(at), admitted, "{password}");
    }
}

/// The dictionary of FIX 4.2 knows neither Username (553) nor Password (554): they are fields of its Logon where it is asked for them, of nothing
/// else, and of no other session's.
#[test]
fn a_logon_of_fix_42_has_user_and_password_where_it_is_asked_for_them() {
    let mut asked = spec("FIX.4.2");
    asked.has_passwords = true;
    let mut open = spec("FIX.4.2");
    (open.keys.name, open.keys.target_comp_id) = ("OPEN".to_owned(), "OPEN".to_owned());
    let mut desk = Desk::with("FIX.4.2", vec![asked, open]);
    let logon = format!("{LOGON}553=ann|554=right|");
    let [first, second] = [desk.connect(), desk.connect()];
    assert_eq!(desk.gets(first, &logon), LOGON);
    let stranger = desk.gets(first, "35=1|34=2|112=x|553=ann|");
    assert!(stranger.contains("35=3|") && stranger.contains("371=553|"), "{stranger}");
    let refused = desk.gets(second, &format!("{logon}49=OPEN|"));
    assert!(refused.contains("58=Invalid tag number (553)"), "{refused}");
}

/// The length leads into what follows the Logon, and the message that ends it may never come.
#[test]
fn a_logon_that_is_misled_ends_before_its_time() {
    let mut desk = Desk::new("FIX.4.4");
    let at = desk.connect();
    let line = desk.lines[at].as_mut().unwrap();
    let logon = b"8=FIX.4.4\x019=20\x0135=A\x0134=1\x0110=000\x018=FIX.4.4\x019=5";
    let mut out = Vec::new();
    let step = desk.door.received(line, logon, desk.clock, &mut out);
    assert!(step.close && out.is_empty());
}

/// What waits for a peer that does not read is bounded by who composes the door; resends stop by themselves.
#[test]
fn a_resend_of_much_comes_in_parts() {
    let mut desk = Desk::new("FIX.4.4");
    let at = desk.connect();
    desk.gets(at, LOGON);
    let order = format!("21=1|38=1|40=1|54=1|55=IBM|58={}|60={}|", "x".repeat(900), desk.time(0));
    for seq in 2..502 {
        assert!(desk.gets(at, &format!("35=D|34={seq}|11={seq}|{order}")).starts_with("35=D|"));
    }
    let mut parts = vec![desk.gets(at, "35=2|34=502|7=1|16=0|")];
    while desk.door.is_resending(desk.lines[at].as_ref().unwrap()) {
        let mut out = Vec::new();
        let step = desk.door.resume(desk.lines[at].as_mut().unwrap(), desk.clock, &mut out);
        parts.push(desk.done(at, step, &out));
    }
    assert!(parts.len() > 5 && parts.iter().all(|part| part.len() < 80_000), "{}", parts.len());
    assert_eq!(parts.concat().matches("35=D|").count(), 500);
    let line = desk.lines[at].as_ref().unwrap();
    assert_eq!(desk.door.unsent_bytes_max(line), 1 << 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes in whatever pieces: no panic, and whole messages out.
    #[test]
    fn any_bytes_are_survived(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20),
        messages in proptest::collection::vec((0..12_usize, 0..9_u64, "[ -~|]{0,40}"), 0..20),
        logged_on in any::<bool>(),
    ) {
        let mut desk = Desk::new("FIX.4.4");
        let mut at = desk.connect();
        if logged_on {
            desk.gets(at, LOGON);
        }
        for (place, (kind, seq, text)) in messages.into_iter().enumerate() {
            if !desk.is_open(at) {
                at = desk.connect();
            }
            let kind = ["0", "1", "2", "3", "4", "5", "A", "D", "d", "8", "j", "BE"][kind];
            let text = text.replace('@', "a");
            desk.gets(at, &format!("35={kind}|34={seq}|{text}|"));
            if let (true, Some(piece)) = (desk.is_open(at), pieces.get(place)) {
                desk.gets_bytes(at, piece);
            }
        }
    }
}
