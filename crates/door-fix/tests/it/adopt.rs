//! Another configuration while sessions are logged on, have orders at a venue, or are on their way in.

use std::collections::BTreeSet;
use std::path::Path;

use door_fix::{
    Admission, Checks, Door, FixSessions, Guard, Happening, Route, SessionSpec, Unaddressed,
    VenueSpec,
};
use fix::Message;
use fix_session::{MemoryStore, MessageStore, MessageStores, Schedule, StoreError};
use fix_store::{FileStores, NumbersFile, Options};

use crate::desk::{Desk, START_UNIX_MS, plain};

const REMOVED: &str = "58=session removed from the configuration|";
const CHANGED: &str = "58=session changed in the configuration|";
/// The venue's number: it is configured behind one client.
const VENUE: usize = 1;

fn client(name: &str) -> SessionSpec {
    let mut client = SessionSpec::new("FIX.4.4", "GATE", name);
    client.limits = Some(door_fix::Limits::None);
    (client.route, client.keys.validation) = (Route::Venue("VENUE".into()), Checks::Off);
    client
}

fn echo(name: &str) -> SessionSpec {
    SessionSpec { route: Route::Echo, ..client(name) }
}

fn venue(name: &str) -> VenueSpec {
    VenueSpec::new("FIX.4.4", "GATE", name)
}

/// Stores to which one can be added.
trait Grows: MessageStores {
    fn add(&mut self, name: &str);
}

impl Grows for Vec<MemoryStore> {
    fn add(&mut self, _: &str) {
        self.push(MemoryStore::new(START_UNIX_MS));
    }
}

impl Grows for FileStores<NumbersFile> {
    fn add(&mut self, name: &str) {
        FileStores::add(self, name, fix_session::Durability::Written, START_UNIX_MS).unwrap();
    }
}

fn try_adopt<S: Grows, G: Guard>(
    desk: &mut Desk<S, G>,
    (clients, venues): (Vec<SessionSpec>, Vec<VenueSpec>),
    anew: &[&str],
) -> Result<Vec<usize>, fix::ValueError> {
    let config = FixSessions::new(clients, venues).unwrap();
    desk.door.judge(&config).unwrap();
    let new: Vec<String> = desk.door.new_stores(&config).map(|one| one.0.to_owned()).collect();
    new.iter().for_each(|name| desk.door.stores().add(name));
    let anew: BTreeSet<String> = anew.iter().map(|name| (*name).to_owned()).collect();
    desk.door.adopt(config, &anew, desk.clock)
}

/// Takes another configuration: what its peers are sent, by their connections.
fn adopt<S: Grows, G: Guard>(
    desk: &mut Desk<S, G>,
    clients: Vec<SessionSpec>,
    venues: Vec<VenueSpec>,
) -> Vec<(usize, String)> {
    try_adopt(desk, (clients, venues), &[]).unwrap();
    sent(desk)
}

fn sent<S: MessageStores, G: Guard>(desk: &mut Desk<S, G>) -> Vec<(usize, String)> {
    let sent = desk.ready().into_iter().map(|(line, bytes)| (line, plain(&bytes))).collect();
    desk.happenings.extend(desk.door.take_happenings());
    sent
}

fn log_on<S: MessageStores, G: Guard>(desk: &mut Desk<S, G>, name: &str, seq: u64) -> usize {
    let line = desk.connect();
    let said = desk.gets(line, &format!("35=A|34={seq}|49={name}|98=0|108=30|"));
    assert!(said.starts_with("35=A|"), "{said}");
    line
}

fn dial<S: MessageStores, G: Guard>(desk: &mut Desk<S, G>, number: usize, seq: u64) -> usize {
    let (line, logon) = desk.dial_to(number);
    assert!(logon.starts_with("35=A|"), "{logon}");
    desk.gets(line, &format!("35=A|34={seq}|49=VENUE|98=0|108=30|"));
    line
}

/// A client A with a venue, both logged on: the door and both connections.
fn floor() -> (Desk<Vec<MemoryStore>>, usize, usize) {
    let stores = (0..2).map(|_| MemoryStore::new(START_UNIX_MS)).collect();
    let mut desk = Desk::passing("FIX.4.4", vec![client("A")], vec![venue("VENUE")], stores, ());
    let a = log_on(&mut desk, "A", 1);
    let line = dial(&mut desk, VENUE, 1);
    (desk, a, line)
}

fn over_files(
    root: &Path,
    clients: Vec<SessionSpec>,
    venues: Vec<VenueSpec>,
) -> Desk<FileStores<NumbersFile>> {
    let config = FixSessions::new(clients.clone(), venues.clone()).unwrap();
    let mut stores = FileStores::open(root, Options::default()).unwrap();
    for (name, durability) in config.stores() {
        stores.add(name, durability, START_UNIX_MS).unwrap();
    }
    Desk::passing("FIX.4.4", clients, venues, stores, ())
}

#[test]
fn a_fill_for_a_client_that_was_removed_is_kept_for_its_resend() {
    let (mut desk, a, line) = floor();
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    assert_eq!(sent(&mut desk), [(line, "35=D|34=2|11=a|55=X|".to_owned())]);
    let told = adopt(&mut desk, vec![], vec![venue("VENUE")]);
    assert_eq!(told, [(a, format!("35=5|34=2|{REMOVED}"))]);
    // An order that it sent before it knew is refused; its Logout is heard.
    let refused = desk.gets(a, "35=D|34=3|49=A|11=late|55=X|");
    assert!(
        refused.contains("|45=3|58=Application not available|372=D|379=late|380=4|"),
        "{refused}"
    );
    assert_eq!(sent(&mut desk), [], "and goes nowhere");
    desk.gets(line, "35=8|34=2|49=VENUE|11=a|150=F|32=5|");
    desk.gets(a, "35=5|34=4|49=A|");
    assert!(!desk.is_open(a));
    desk.gets(line, "35=8|34=3|49=VENUE|11=a|150=F|32=7|");
    assert_eq!(sent(&mut desk), []);
    let removed = desk.connect();
    assert_eq!(desk.gets(removed, "35=A|34=5|49=A|98=0|108=30|"), "");
    assert!(!desk.is_open(removed), "nobody may log on");
    assert_eq!(desk.door.views(desk.clock).len(), 1);
    // Back again: its numbers go on, and it asks for what it missed.
    adopt(&mut desk, vec![client("A")], vec![venue("VENUE")]);
    let a = log_on(&mut desk, "A", 5);
    let again = desk.gets(a, "35=2|34=6|49=A|7=2|16=0|");
    assert!(again.contains("|11=a|150=F|32=5|") && again.contains("|11=a|150=F|32=7|"), "{again}");
    desk.gets(a, "35=D|34=7|49=A|11=b|55=X|");
    assert_eq!(sent(&mut desk).len(), 1, "and it trades");
}

#[test]
fn orders_of_the_only_client_stay_its_own_when_another_takes_its_place() {
    let (mut desk, a, line) = floor();
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    adopt(&mut desk, vec![client("B")], vec![venue("VENUE")]);
    let b = log_on(&mut desk, "B", 1);
    desk.gets(b, "35=D|34=2|49=B|11=b|55=X|");
    sent(&mut desk);
    desk.gets(line, "35=8|34=2|49=VENUE|11=a|150=F|32=5|");
    desk.gets(line, "35=8|34=3|49=VENUE|11=by phone|150=F|32=5|");
    assert_eq!(sent(&mut desk), [], "A's, who is away, and never B's");
    desk.gets(line, "35=8|34=4|49=VENUE|11=b|150=F|32=5|");
    assert_eq!(sent(&mut desk), [(b, "35=8|34=2|11=b|150=F|32=5|".to_owned())]);
    desk.gets(line, "35=B|34=5|49=VENUE|148=news|");
    assert_eq!(sent(&mut desk), [(b, "35=B|34=3|148=news|".to_owned())]);
    adopt(&mut desk, vec![client("A"), client("B")], vec![venue("VENUE")]);
    let stored = desk.door.stores()[0].next_out();
    assert_eq!(stored, 5, "Logon, Logout, and both fills wait");
}

/// Says that a client may not use an id, and that nothing reached anybody else.
fn is_refused<S: MessageStores>(desk: &mut Desk<S>, line: usize, message: &str) {
    let answer = desk.gets(line, message);
    assert!(answer.contains("|58=Duplicate ClOrdID|"), "{message}: {answer}");
    assert_eq!(sent(desk), [], "{message}");
}

#[test]
fn a_client_that_joins_takes_over_no_order_of_the_only_one_and_cancels_none() {
    let (mut desk, a, line) = floor();
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    desk.gets(a, "35=D|34=3|49=A|11=b|55=X|");
    sent(&mut desk);
    adopt(&mut desk, vec![client("A"), client("B")], vec![venue("VENUE")]);
    let b = log_on(&mut desk, "B", 1);
    is_refused(&mut desk, b, "35=D|34=2|49=B|11=a|55=X|");
    is_refused(&mut desk, b, "35=F|34=3|49=B|11=x|41=a|55=X|");
    is_refused(&mut desk, b, "35=F|34=4|49=B|11=y|41=by phone|55=X|");
    desk.gets(line, "35=8|34=2|49=VENUE|11=a|150=F|32=5|");
    assert_eq!(sent(&mut desk), [(a, "35=8|34=2|11=a|150=F|32=5|".to_owned())]);
    desk.gets(a, "35=F|34=4|49=A|11=c|41=b|55=X|");
    assert_eq!(sent(&mut desk), [(line, "35=F|34=4|11=c|41=b|55=X|".to_owned())]);
    // And none when it is alone.
    adopt(&mut desk, vec![client("B")], vec![venue("VENUE")]);
    sent(&mut desk);
    is_refused(&mut desk, b, "35=D|34=5|49=B|11=a|55=X|");
    desk.gets(b, "35=D|34=6|49=B|11=d|55=X|");
    assert_eq!(sent(&mut desk), [(line, "35=D|34=5|11=d|55=X|".to_owned())]);
}

/// The same by another configuration at a start, behind a kill at any moment: all that is on the disk was there when the order left.
#[test]
fn nor_does_one_that_is_configured_at_the_next_start() {
    for with_first in [true, false] {
        let root = tempfile::tempdir().unwrap();
        let mut desk = over_files(root.path(), vec![client("A")], vec![venue("VENUE")]);
        let a = log_on(&mut desk, "A", 1);
        let _line = dial(&mut desk, VENUE, 1);
        desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
        drop(desk);
        let clients = if with_first { vec![client("B"), client("A")] } else { vec![client("B")] };
        let mut desk = over_files(root.path(), clients.clone(), vec![venue("VENUE")]);
        let number = clients.len();
        let b = log_on(&mut desk, "B", 1);
        let line = dial(&mut desk, number, 2);
        is_refused(&mut desk, b, "35=D|34=2|49=B|11=a|55=X|");
        if with_first {
            let a = log_on(&mut desk, "A", 3);
            desk.gets(line, "35=8|34=3|49=VENUE|11=a|150=F|32=5|");
            assert_eq!(sent(&mut desk), [(a, "35=8|34=3|11=a|150=F|32=5|".to_owned())]);
        } else {
            desk.gets(line, "35=8|34=3|49=VENUE|11=a|150=F|32=5|");
            assert_eq!((sent(&mut desk), desk.door.kept(number)), (vec![], 1), "never B's");
        }
    }
}

#[test]
fn what_names_nobody_is_the_first_clients_unless_somebody_is_named() {
    let (mut desk, a, line) = floor();
    let both = || vec![client("A"), client("B")];
    adopt(&mut desk, both(), vec![venue("VENUE")]);
    desk.gets(line, "35=8|34=2|49=VENUE|11=by phone|150=F|32=5|");
    assert_eq!(sent(&mut desk), [(a, "35=8|34=2|11=by phone|150=F|32=5|".to_owned())]);
    let mut named = venue("VENUE");
    named.unaddressed = Unaddressed::Session("B".into());
    adopt(&mut desk, both(), vec![named]);
    let b = log_on(&mut desk, "B", 1);
    desk.gets(line, "35=8|34=3|49=VENUE|11=by phone|150=F|32=5|");
    assert_eq!(sent(&mut desk), [(b, "35=8|34=2|11=by phone|150=F|32=5|".to_owned())]);
}

/// An order that the venue has reported on is not said to be unsent, also if ages count only since then.
#[test]
fn an_age_that_comes_by_a_reload_says_nothing_of_orders_from_before() {
    let (mut desk, a, line) = floor();
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    desk.gets(line, "35=8|34=2|49=VENUE|11=a|39=0|150=0|");
    sent(&mut desk);
    let mut aged = venue("VENUE");
    aged.max_order_age_ms = 1;
    adopt(&mut desk, vec![client("A")], vec![aged]);
    desk.clock.unix_us += 1_000_000;
    desk.gets(line, "35=2|34=3|49=VENUE|7=2|16=0|");
    assert_eq!(sent(&mut desk), [], "it is live");
    desk.happenings.extend(desk.door.take_happenings());
    assert!(desk.happenings.contains(&Happening::NotSentAgain(VENUE)));
}

/// Killed directly after the reload: the book says that what it does not know is A's, who is not there any more.
#[test]
fn after_a_kill_such_orders_are_still_nobody_elses() {
    let root = tempfile::tempdir().unwrap();
    let mut desk = over_files(root.path(), vec![client("A")], vec![venue("VENUE")]);
    let a = log_on(&mut desk, "A", 1);
    let _line = dial(&mut desk, VENUE, 1);
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    adopt(&mut desk, vec![client("B")], vec![venue("VENUE")]);
    drop(desk);
    let mut desk = over_files(root.path(), vec![client("B")], vec![venue("VENUE")]);
    let _b = log_on(&mut desk, "B", 1);
    let line = dial(&mut desk, VENUE, 2);
    desk.gets(line, "35=8|34=3|49=VENUE|11=a|150=F|32=5|");
    assert_eq!(sent(&mut desk), []);
    assert!(desk.happenings.contains(&Happening::Unaddressed(VENUE)));
    assert_eq!(desk.door.kept(VENUE), 1, "until somebody names who gets it");
    let mut named = venue("VENUE");
    named.unaddressed = Unaddressed::Session("B".into());
    adopt(&mut desk, vec![client("B")], vec![named]);
    desk.gets(line, "35=0|34=4|49=VENUE|");
    assert_eq!((sent(&mut desk).len(), desk.door.kept(VENUE)), (1, 0));
}

#[test]
fn a_second_client_joins_and_a_client_moves_to_another_venue() {
    let (mut desk, a, line) = floor();
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    sent(&mut desk);
    // Nobody who is logged on hears of it.
    let mut moved = client("A");
    moved.route = Route::Venue("OTHER".into());
    let told = adopt(&mut desk, vec![moved, client("B")], vec![venue("OTHER"), venue("VENUE")]);
    assert_eq!(told, []);
    assert_eq!(desk.door.venues().collect::<Vec<_>>(), [3, VENUE]);
    desk.gets(line, "35=8|34=2|49=VENUE|11=a|150=F|");
    assert_eq!(sent(&mut desk), [(a, "35=8|34=2|11=a|150=F|".to_owned())]);
    desk.gets(line, "35=3|34=3|49=VENUE|45=2|58=no|372=D|");
    let told = sent(&mut desk);
    assert_eq!(told, [(a, "35=j|34=3|45=2|58=no|372=D|379=a|380=0|".to_owned())]);
    // The other venue is not there yet.
    assert!(desk.gets(a, "35=D|34=3|49=A|11=c|55=X|").contains("|380=4|"));
    let other = dial_as(&mut desk, 3, "OTHER");
    desk.gets(a, "35=D|34=4|49=A|11=d|55=X|");
    assert_eq!(sent(&mut desk), [(other, "35=D|34=2|11=d|55=X|".to_owned())]);
}

fn dial_as(desk: &mut Desk<Vec<MemoryStore>>, number: usize, name: &str) -> usize {
    let line = desk.dial_to(number).0;
    desk.gets(line, &format!("35=A|34=1|49={name}|98=0|108=30|"));
    line
}

#[test]
fn what_counts_at_once_and_what_asks_for_a_new_logon() {
    let (mut desk, a, line) = floor();
    let same = adopt(&mut desk, vec![client("A")], vec![venue("VENUE")]);
    assert_eq!(same, [], "nothing changed, and nobody hears of it");
    let mut slower = client("A");
    slower.keys.throttle_per_s = 1;
    assert_eq!(adopt(&mut desk, vec![slower.clone()], vec![venue("VENUE")]), []);
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    let refused = desk.gets(a, "35=D|34=3|49=A|11=b|55=X|");
    assert!(refused.contains("58=Message rate exceeded|"), "{refused}");
    sent(&mut desk);
    // Who may log on, and when.
    slower.source_addresses = vec!["192.0.2.0/24".parse().unwrap()];
    let told = adopt(&mut desk, vec![slower.clone()], vec![venue("VENUE")]);
    assert_eq!(told, [(a, format!("35=5|34=3|{CHANGED}"))]);
    desk.gets(a, "35=5|34=4|49=A|");
    let from_elsewhere = desk.connect();
    desk.gets(from_elsewhere, "35=A|34=5|49=A|98=0|108=30|");
    assert!(!desk.is_open(from_elsewhere));
    slower.source_addresses.clear();
    slower.keys.schedule = Schedule::parse("daily 17:00 America/New_York").unwrap();
    adopt(&mut desk, vec![slower.clone()], vec![venue("VENUE")]);
    // What a venue's Logon says.
    let mut faster = venue("VENUE");
    faster.keys.heart_bt_int_s = 7;
    let told = adopt(&mut desk, vec![slower.clone()], vec![faster.clone()]);
    assert_eq!(told, [(line, format!("35=5|34=3|{CHANGED}"))]);
    desk.gets(line, "35=5|34=2|49=VENUE|");
    assert!(desk.dial().1.contains("|108=7|"));
    // How it is reached is known to who dials; its Logon was not answered, so there is nothing to be said.
    try_adopt(&mut desk, (vec![slower], vec![faster]), &["VENUE"]).unwrap();
    let before = desk.lines.len() - 1;
    assert_eq!(sent(&mut desk), [(before, String::new())]);
    assert!(!desk.is_open(before));
}

#[test]
fn another_session_under_the_same_name_is_refused_and_a_new_name_is_another_session() {
    let (mut desk, a, _) = floor();
    let judge = |desk: &Desk<Vec<MemoryStore>>, clients, venues| {
        let config = FixSessions::new(clients, venues).unwrap();
        let others = desk.door.judge(&config).err().unwrap_or_default();
        others.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let mut other = client("A");
    other.keys.target_comp_id = "A2".into();
    let told = judge(&desk, vec![other.clone()], vec![venue("VENUE")]);
    assert!(told.contains("session \"A\": target_comp_id is \"A2\", and \"A\""), "{told}");
    assert!(told.contains("give it another name"), "{told}");
    let told = judge(&desk, vec![], vec![venue("A"), venue("VENUE")]);
    assert!(told.contains("its kind is \"fix.venue\", and \"fix.session\""), "{told}");
    let mut newer = venue("VENUE");
    newer.keys.begin_string = "FIX.4.2".into();
    assert!(judge(&desk, vec![], vec![newer]).contains("begin_string is \"FIX.4.2\""));
    // Renamed: the old one is removed, and the new one begins at 1 with the same CompIDs.
    let mut renamed = client("A");
    renamed.keys.name = "desk".into();
    let told = adopt(&mut desk, vec![renamed], vec![venue("VENUE")]);
    assert_eq!(told, [(a, format!("35=5|34=2|{REMOVED}"))]);
    let again = log_on(&mut desk, "A", 1);
    desk.gets(a, "35=5|34=2|49=A|");
    assert!(!desk.is_open(a) && desk.is_open(again));
    // The name of one that was removed is still its own.
    other.keys.name = "A".into();
    assert!(judge(&desk, vec![other], vec![venue("VENUE")]).contains("target_comp_id"));
}

#[test]
fn a_venue_that_is_removed_tells_its_client_what_still_comes() {
    let (mut desk, a, line) = floor();
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    sent(&mut desk);
    let told = adopt(&mut desk, vec![echo("A")], vec![]);
    assert_eq!(told, [(line, format!("35=5|34=3|{REMOVED}"))]);
    assert!(desk.door.dialled(9, VENUE, desk.clock, &mut Vec::new()).is_none());
    desk.gets(line, "35=8|34=2|49=VENUE|11=a|150=F|");
    assert_eq!(sent(&mut desk), [(a, "35=8|34=2|11=a|150=F|".to_owned())]);
    desk.gets(line, "35=5|34=3|49=VENUE|");
    assert!(!desk.is_open(line));
    assert!(desk.door.dialled(9, VENUE, desk.clock, &mut Vec::new()).is_none());
    assert!(desk.gets(a, "35=D|34=3|49=A|11=e|55=X|").starts_with("35=D|"), "the echo");
    // Back again: numbers go on.
    adopt(&mut desk, vec![client("A")], vec![venue("VENUE")]);
    assert!(desk.dial().1.contains("|34=4|"));
}

/// Judges every Logon later, and notes whom it was asked about.
#[derive(Default)]
struct Slow(Vec<u64>);

impl Guard for Slow {
    fn admits(&mut self, _: usize, line: u64, _: &Message<'_>) -> Admission {
        self.0.push(line);
        Admission::Later
    }
}

#[test]
fn a_logon_that_is_being_judged_is_judged_anew_or_refused() {
    let stores = vec![MemoryStore::new(START_UNIX_MS)];
    let mut desk = Desk::over("FIX.4.4", vec![echo("A")], stores, Slow::default());
    let logon = "35=A|34=1|49=A|98=0|108=30|";
    let line = desk.connect();
    assert_eq!(desk.gets(line, logon), "");
    adopt(&mut desk, vec![echo("A")], vec![]);
    let judged = |desk: &mut Desk<Vec<MemoryStore>, Slow>, line: usize| {
        desk.lines[line].as_mut().unwrap().judged(true);
        desk.gets_bytes(line, b"")
    };
    // The password that was checked may be the one of before.
    assert_eq!(judged(&mut desk, line), "");
    assert!(desk.lines[line].as_ref().unwrap().is_judged_later());
    assert_eq!(desk.door.guard().0, [0, 0]);
    assert!(judged(&mut desk, line).starts_with("35=A|"));
    desk.drop_line(line);
    let line = desk.connect();
    assert_eq!(desk.gets(line, logon.replace("34=1", "34=2").as_str()), "");
    adopt(&mut desk, vec![], vec![]);
    assert_eq!(judged(&mut desk, line), "");
    assert!(!desk.is_open(line), "its session is gone");
}

#[test]
fn a_resend_goes_on_over_a_reload_and_ends_with_its_session() {
    let stores = vec![MemoryStore::new(START_UNIX_MS)];
    let mut desk = Desk::over("FIX.4.4", vec![echo("A")], stores, ());
    let line = log_on(&mut desk, "A", 1);
    let text = "x".repeat(1_000);
    for seq in 2..202 {
        desk.gets(line, &format!("35=D|34={seq}|49=A|11={seq}|58={text}|"));
    }
    let mut got = desk.gets(line, "35=2|34=202|49=A|7=2|16=0|").matches("|43=Y|").count();
    assert!(got < 200, "in pieces");
    let mut slower = echo("A");
    slower.keys.throttle_per_s = 1_000;
    adopt(&mut desk, vec![slower], vec![]);
    let resume = |desk: &mut Desk<Vec<MemoryStore>>| {
        let (mut out, clock) = (Vec::new(), desk.clock);
        let step = desk.door.resume(desk.lines[line].as_mut().unwrap(), clock, &mut out);
        desk.done(line, step, &out).matches("|43=Y|").count()
    };
    while desk.door.is_resending(desk.lines[line].as_ref().unwrap()) {
        got += resume(&mut desk);
    }
    assert_eq!(got, 200);
    assert!(desk.gets(line, "35=2|34=203|49=A|7=2|16=0|").contains("|43=Y|"));
    let told = adopt(&mut desk, vec![], vec![]);
    assert_eq!(told, [(line, format!("35=5|34=202|{REMOVED}"))]);
    desk.gets(line, "35=5|34=204|49=A|");
    assert!(!desk.is_open(line));
}

/// Stores that keep nothing while they are full.
struct Full(Vec<MemoryStore>, bool);

impl MessageStores for Full {
    type Store = MemoryStore;

    fn store(&mut self, session: usize) -> &mut MemoryStore {
        &mut self.0[session]
    }

    fn flush(&mut self, _: &[usize]) -> Result<(), StoreError> {
        match self.1 {
            true => Err(StoreError { reason: "the disk is full".into() }),
            false => Ok(()),
        }
    }
}

impl Grows for Full {
    fn add(&mut self, name: &str) {
        self.0.add(name);
    }
}

/// Whose an order is is kept before the order leaves, so there is nothing to be kept when another client comes.
#[test]
fn with_a_full_disk_no_client_takes_the_place_of_another() {
    let stores = Full((0..2).map(|_| MemoryStore::new(START_UNIX_MS)).collect(), false);
    let mut desk = Desk::passing("FIX.4.4", vec![client("A")], vec![venue("VENUE")], stores, ());
    let a = log_on(&mut desk, "A", 1);
    let line = dial(&mut desk, VENUE, 1);
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    assert_eq!(sent(&mut desk), [(line, "35=D|34=2|11=a|55=X|".to_owned())]);
    desk.door.stores().1 = true;
    adopt(&mut desk, vec![client("B")], vec![venue("VENUE")]);
    desk.door.stores().1 = false;
    let b = log_on(&mut desk, "B", 1);
    let refused = desk.gets(b, "35=D|34=2|49=B|11=a|55=X|");
    assert!(refused.contains("|58=Duplicate ClOrdID|"), "{refused}");
    desk.gets(line, "35=8|34=2|49=VENUE|11=a|150=F|32=5|");
    assert_eq!(sent(&mut desk), [], "A's, who is away, and never B's");
}

/// An order whose owner cannot be kept does not leave.
#[test]
fn with_a_full_disk_no_order_leaves_whose_owner_is_not_kept() {
    let stores = Full((0..2).map(|_| MemoryStore::new(START_UNIX_MS)).collect(), false);
    let mut desk = Desk::passing("FIX.4.4", vec![client("A")], vec![venue("VENUE")], stores, ());
    let a = log_on(&mut desk, "A", 1);
    let line = dial(&mut desk, VENUE, 1);
    desk.door.stores().1 = true;
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    let told = sent(&mut desk);
    assert!(!told.iter().any(|one| one.0 == line && one.1.contains("35=D|")), "{told:?}");
}

/// However often clients come and go, each has one number, and what there is does not grow.
#[test]
fn sessions_that_come_and_go_keep_their_numbers() {
    let mut desk: Desk<Vec<MemoryStore>> = Desk::with("FIX.4.4", vec![echo("A")]);
    for _ in 0..100 {
        adopt(&mut desk, vec![echo("B"), echo("A")], vec![]);
        assert_eq!(names(&mut desk), ["B", "A"], "in the order of the configuration");
        adopt(&mut desk, vec![], vec![]);
        assert!(names(&mut desk).is_empty() && desk.door.number("A").is_none());
    }
    assert_eq!((Door::sessions(&desk.door), desk.door.stores().len()), (2, 2));
}

fn names(desk: &mut Desk<Vec<MemoryStore>>) -> Vec<String> {
    desk.door.views(desk.clock).into_iter().map(|one| one.name).collect()
}
