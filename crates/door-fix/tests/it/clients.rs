//! Several clients with one venue: each gets what is his, and nobody what is another's.

use std::path::Path;

use door_fix::{Checks, Door, FixSessions, Happening, Route, SessionSpec, Unaddressed, VenueSpec};
use fix_session::{MemoryStore, MessageStores};
use fix_store::{FileStores, NumbersFile, Options};

use crate::desk::{Desk, START_UNIX_MS, plain};

const VENUE: usize = 2;

fn client(name: &str, prefix: &str) -> SessionSpec {
    let mut client = SessionSpec::new("FIX.4.4", "GATE", name);
    client.limits = Some(door_fix::Limits::None);
    (client.route, client.keys.validation) = (Route::Venue("VENUE".into()), Checks::Off);
    client.cl_ord_id_prefix = prefix.to_owned();
    client
}

/// Two clients A and B with a venue.
struct Floor<S: MessageStores> {
    desk: Desk<S>,
    lines: [usize; 2],
    venue: usize,
    /// Next numbers of A, B and the venue.
    seqs: [u64; 3],
}

fn specs(
    prefixes: [&str; 2],
    change: impl FnOnce(&mut VenueSpec),
) -> (Vec<SessionSpec>, Vec<VenueSpec>) {
    let mut venue = VenueSpec::new("FIX.4.4", "GATE", "VENUE");
    change(&mut venue);
    (vec![client("A", prefixes[0]), client("B", prefixes[1])], vec![venue])
}

fn floor(prefixes: [&str; 2], change: impl FnOnce(&mut VenueSpec)) -> Floor<Vec<MemoryStore>> {
    let (clients, venues) = specs(prefixes, change);
    let stores = (0..3).map(|_| MemoryStore::new(START_UNIX_MS)).collect();
    Floor::open(Desk::passing("FIX.4.4", clients, venues, stores, ()), [1; 3])
}

fn over_files(
    root: &Path,
    seqs: [u64; 3],
    change: impl FnOnce(&mut VenueSpec),
) -> Floor<FileStores<NumbersFile>> {
    let (clients, venues) = specs(["", ""], change);
    let config = FixSessions::new(clients.clone(), venues.clone()).unwrap();
    let mut stores = FileStores::open(root, Options::default()).unwrap();
    for (name, durability) in config.stores() {
        stores.add(name, durability, START_UNIX_MS).unwrap();
    }
    Floor::open(Desk::passing("FIX.4.4", clients, venues, stores, ()), seqs)
}

impl<S: MessageStores> Floor<S> {
    /// Logs all of them on.
    fn open(mut desk: Desk<S>, mut seqs: [u64; 3]) -> Floor<S> {
        let lines = [0, 1].map(|at| {
            let line = desk.connect();
            let name = ["A", "B"][at];
            desk.gets(line, &format!("35=A|34={}|49={name}|98=0|108=30|", seqs[at]));
            line
        });
        let venue = desk.dial_to(VENUE).0;
        desk.gets(venue, &format!("35=A|34={}|49=VENUE|98=0|108=30|", seqs[2]));
        desk.ready();
        seqs.iter_mut().for_each(|seq| *seq += 1);
        Floor { desk, lines, venue, seqs }
    }

    /// A client (0, 1) or the venue (2) says something: what it and all three get then, without their numbers.
    fn says(&mut self, who: usize, text: &str) -> String {
        let line = [self.lines[0], self.lines[1], self.venue][who];
        let name = ["A", "B", "VENUE"][who];
        let (kind, rest) = text.split_once('|').unwrap();
        let seq = self.seqs[who];
        self.seqs[who] += 1;
        let said = self.desk.gets(line, &format!("{kind}|34={seq}|49={name}|{rest}"));
        let mut all = vec![(line, said)];
        all.extend(self.desk.ready().into_iter().map(|one| (one.0, plain(&one.1))));
        let mut told = String::new();
        for (to, said) in all {
            let to = [self.lines[0], self.lines[1], self.venue].iter().position(|one| *one == to);
            let fields = said
                .split_terminator('|')
                .filter(|field| !["34=", "17=", "60="].iter().any(|tag| field.starts_with(tag)));
            let fields: String = fields.map(|field| format!("{field}|")).collect();
            if !fields.is_empty() {
                told += &format!("{}: {fields} ", ["A", "B", "V"][to.unwrap()]);
            }
        }
        told.trim_end().to_owned()
    }

    fn unaddressed(&self) -> usize {
        let is = |one: &&Happening| **one == Happening::Unaddressed(VENUE);
        self.desk.happenings.iter().filter(is).count()
    }
}

#[test]
fn reports_and_answers_go_to_who_sent_the_order_or_asked() {
    let mut floor = floor(["", ""], |_| {});
    assert_eq!(floor.says(0, "35=D|11=a|55=X|"), "V: 35=D|11=a|55=X|");
    assert_eq!(floor.says(1, "35=D|11=b|55=X|"), "V: 35=D|11=b|55=X|");
    assert_eq!(floor.says(2, "35=8|11=b|39=1|150=F|"), "B: 35=8|11=b|39=1|150=F|");
    assert_eq!(floor.says(2, "35=8|11=a|39=0|150=0|"), "A: 35=8|11=a|39=0|150=0|");
    // A venue may give an order another id; the old one says whose it is.
    assert_eq!(floor.says(2, "35=8|11=z|41=b|39=1|150=F|"), "B: 35=8|11=z|41=b|39=1|150=F|");
    assert_eq!(floor.says(0, "35=F|11=c|41=a|"), "V: 35=F|11=c|41=a|");
    assert_eq!(floor.says(2, "35=9|11=c|41=a|39=0|"), "A: 35=9|11=c|41=a|39=0|");
    // Requests, whatever they are of.
    for (who, ask, answer) in [
        (0, "35=R|131=q|", "35=S|131=q|117=x|"),
        (1, "35=V|262=m|", "35=W|262=m|"),
        (0, "35=c|320=s|", "35=d|320=s|"),
        (1, "35=g|335=t|", "35=h|335=t|"),
        (0, "35=AD|568=r|", "35=AE|568=r|"),
        (1, "35=AN|710=p|", "35=AP|710=p|"),
        (0, "35=AF|584=o|", "35=8|584=o|150=I|"),
    ] {
        assert_eq!(floor.says(who, ask), format!("V: {ask}"));
        assert_eq!(floor.says(2, answer), format!("{}: {answer}", ["A", "B"][who]));
    }
    // A status of all orders tells of others' orders too: these go to theirs.
    assert_eq!(floor.says(2, "35=8|11=b|584=o|150=I|"), "B: 35=8|11=b|584=o|150=I|");
    assert_eq!(floor.unaddressed(), 0);
}

/// FIX 4.2 has no 6 of CxlRejReason (102): an engine that checks would reject the answer.
#[test]
fn a_client_of_fix_42_is_refused_with_what_its_version_has() {
    let (mut clients, mut venues) = specs(["", ""], |_| {});
    clients.iter_mut().for_each(|one| one.keys.begin_string = "FIX.4.2".to_owned());
    venues[0].keys.begin_string = "FIX.4.2".to_owned();
    let stores: Vec<_> = (0..3).map(|_| MemoryStore::new(START_UNIX_MS)).collect();
    let mut floor = Floor::open(Desk::passing("FIX.4.2", clients, venues, stores, ()), [1; 3]);
    floor.says(0, "35=D|11=a|38=5|44=1|54=1|55=X|");
    let told = floor.says(1, "35=F|11=x|41=a|");
    assert!(told.contains("|58=Duplicate ClOrdID|102=2|434=1|"), "{told}");
}

#[test]
fn an_id_of_another_client_is_refused() {
    let mut floor = floor(["", ""], |_| {});
    floor.says(0, "35=D|11=a|38=5|44=1|54=1|55=X|");
    let order =
        "11=a|14=0|37=NONE|38=7|39=8|44=2|54=1|55=X|58=Duplicate ClOrdID|103=6|150=8|151=0|";
    assert_eq!(floor.says(1, "35=D|11=a|38=7|44=2|54=1|55=X|"), format!("B: 35=8|6=0|{order}"));
    let text = "58=Duplicate ClOrdID|102=6|434";
    assert_eq!(
        floor.says(1, "35=F|11=x|41=a|"),
        format!("B: 35=9|11=x|37=NONE|39=8|41=a|{text}=1|")
    );
    assert_eq!(
        floor.says(1, "35=G|11=a|41=y|"),
        format!("B: 35=9|11=a|37=NONE|39=8|41=y|{text}=2|")
    );
    let in_use = |kind: &str, tag, id: &str| {
        format!("58=The value of tag {tag} is in use|372={kind}|{id}380=0|")
    };
    let answer = floor.says(1, "35=H|11=a|54=1|");
    assert!(
        answer.starts_with("B: 35=j|45=") && answer.ends_with(&in_use("H", 11, "379=a|")),
        "{answer}"
    );
    floor.says(0, "35=V|262=m|");
    assert!(floor.says(1, "35=V|262=m|").ends_with(&in_use("V", 262, "")));
    // His own id again is the venue's to judge.
    assert_eq!(floor.says(0, "35=D|11=a|55=X|"), "V: 35=D|11=a|55=X|");
    assert_eq!(floor.says(2, "35=8|11=a|150=F|"), "A: 35=8|11=a|150=F|");
    // A second name of an order that both use is nobody's; the order's own name counts.
    assert_eq!(floor.says(0, "35=D|11=c|526=s|"), "V: 35=D|11=c|526=s|");
    assert_eq!(floor.says(1, "35=D|11=d|526=s|"), "V: 35=D|11=d|526=s|");
    assert_eq!(floor.says(2, "35=8|11=d|526=s|150=F|"), "B: 35=8|11=d|526=s|150=F|");
    assert_eq!(floor.says(2, "35=8|526=s|150=I|"), "");
}

#[test]
fn with_no_room_orders_are_refused_and_cancels_and_reports_pass() {
    let (clients, venues) = specs(["", ""], |_| {});
    let stores = || (0..3).map(|_| MemoryStore::new(START_UNIX_MS)).collect::<Vec<_>>();
    let sessions = FixSessions::new(clients.clone(), venues.clone()).unwrap().with_orders_max(2);
    let mut desk = Desk::passing("FIX.4.4", clients, venues, stores(), ());
    desk.door = Door::new(sessions, stores(), (), table::Secret::new(11)).unwrap();
    let mut floor = Floor::open(desk, [1; 3]);
    for id in ["a", "b"] {
        floor.says(0, &format!("35=D|11={id}|55=X|"));
    }
    let refused = floor.says(0, "35=D|11=c|55=X|");
    assert!(refused.contains("|39=8|") && refused.contains("|58=too many open orders|103=99|"));
    let refused = floor.says(0, "35=G|11=d|41=a|");
    assert!(refused.starts_with("A: 35=9|11=d|") && refused.contains("|102=99|"), "{refused}");
    let is_full = |one: &&Happening| **one == Happening::IdsFull(VENUE);
    assert_eq!(floor.desk.happenings.iter().filter(is_full).count(), 2);
    assert_eq!(floor.says(0, "35=F|11=x|41=a|"), "V: 35=F|11=x|41=a|");
    let cancelled = "35=8|11=x|41=a|39=4|150=4|";
    assert_eq!(floor.says(2, cancelled), format!("A: {cancelled}"));
    assert_eq!(floor.says(0, "35=D|11=c|55=X|"), "V: 35=D|11=c|55=X|");
    assert!(floor.says(0, "35=D|11=e|55=X|").contains("too many open orders"));
    let filled = "35=8|11=b|39=2|150=F|";
    assert_eq!(floor.says(2, filled), format!("A: {filled}"), "the oldest is known");
}

#[test]
fn prefixes_keep_ids_apart_and_are_not_seen_by_clients() {
    let mut floor = floor(["A-", "B-"], |_| {});
    assert_eq!(floor.says(0, "35=D|11=1|5001=|55=X|"), "V: 35=D|11=A-1|5001=|55=X|");
    assert_eq!(floor.says(1, "35=D|11=1|55=X|"), "V: 35=D|11=B-1|55=X|");
    assert_eq!(floor.says(1, "35=G|11=2|41=1|"), "V: 35=G|11=B-2|41=B-1|");
    assert_eq!(
        floor.says(2, "35=8|11=B-2|41=B-1|150=5|58=B-1|"),
        "B: 35=8|11=2|41=1|150=5|58=B-1|"
    );
    assert_eq!(floor.says(2, "35=8|11=A-1|150=F|"), "A: 35=8|11=1|150=F|");
    let answer = floor.says(2, "35=3|45=2|58=no|372=D|");
    assert_eq!(answer, "A: 35=j|45=2|58=no|372=D|379=1|380=0|");
}

#[test]
fn what_names_nobody_is_kept_until_somebody_is_named_and_goes_to_no_competitor() {
    let mut floor = floor(["", ""], |_| {});
    let fill = "35=8|11=unknown|32=5|39=2|150=F|";
    assert_eq!(floor.says(2, fill), "");
    // A fill of an unknown order is nobody's, whatever else it names.
    floor.says(0, "35=V|262=m|");
    assert_eq!(floor.says(2, "35=8|11=other|262=m|32=5|150=F|"), "");
    floor.says(0, "35=D|11=a|");
    floor.says(1, "35=D|11=b|");
    assert_eq!(floor.says(2, "35=N|11=a|11=b|"), "", "orders of both");
    assert_eq!((floor.unaddressed(), floor.desk.door.kept(VENUE)), (3, 3));
    // News and session status are for all.
    assert_eq!(floor.says(2, "35=B|148=news|"), "A: 35=B|148=news| B: 35=B|148=news|");
    assert_eq!(floor.says(2, "35=h|340=2|"), "A: 35=h|340=2| B: 35=h|340=2|");
    let clock = floor.desk.clock;
    assert_eq!(floor.desk.door.give_kept(VENUE, 7, clock), 3, "no client");
    assert_eq!(floor.desk.door.give_kept(VENUE, 1, clock), 0);
    let ready = floor.desk.ready();
    assert_eq!(ready.len(), 1);
    assert_eq!(ready[0].0, floor.lines[1]);
    let given = plain(&ready[0].1);
    assert_eq!(given.matches("35=").count(), 3);
    assert!(given.contains("|11=unknown|32=5|39=2|150=F|"), "{given}");
}

#[test]
fn a_named_session_gets_what_names_nobody() {
    let mut floor = floor(["", ""], |venue| venue.unaddressed = Unaddressed::Session("B".into()));
    for message in ["35=8|11=unknown|150=F|", "35=B|148=news|", "35=h|340=2|", "35=R|131=new|"] {
        assert_eq!(floor.says(2, message), format!("B: {message}"));
    }
    assert_eq!(floor.unaddressed(), 0);
}

#[test]
fn whose_an_order_is_outlives_the_process_and_so_does_what_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let mut floor = over_files(root.path(), [1; 3], |_| {});
    floor.says(0, "35=D|11=a|");
    floor.says(1, "35=D|11=b|");
    floor.says(1, "35=V|262=m|");
    floor.says(2, "35=8|11=unknown|32=5|150=F|");
    let seqs = floor.seqs;
    drop(floor);
    let mut floor = over_files(root.path(), seqs, |_| {});
    assert_eq!(floor.says(2, "35=8|11=b|150=F|"), "B: 35=8|11=b|150=F|");
    assert_eq!(floor.says(2, "35=W|262=m|"), "B: 35=W|262=m|");
    assert_eq!(floor.says(2, "35=8|11=a|150=F|"), "A: 35=8|11=a|150=F|");
    assert!(floor.says(1, "35=D|11=a|").starts_with("B: 35=8|6=0|11=a|"));
    assert_eq!(floor.desk.door.kept(VENUE), 1);
    // An order that the venue was sent before the restart is found by its number, and with it the client's.
    let told = "B: 35=j|45=2|58=no|372=D|379=b|380=0|";
    assert_eq!(floor.says(2, "35=3|45=3|58=no|372=D|"), told);
    assert_eq!(floor.says(1, "35=D|11=b|"), "V: 35=D|11=b|", "it is closed, and may be used again");
    assert_eq!(floor.says(2, "35=j|45=4|58=no|372=V|380=3|"), "", "a request's is not kept");
    let seqs = floor.seqs;
    drop(floor);
    // The configuration names somebody: he gets it as soon as the venue is there.
    let named = |venue: &mut VenueSpec| venue.unaddressed = Unaddressed::Session("A".into());
    let mut floor = over_files(root.path(), seqs, named);
    assert_eq!(floor.desk.door.kept(VENUE), 0);
    let seq = floor.seqs[0];
    let gap = floor.desk.gets(floor.lines[0], &format!("35=2|34={seq}|49=A|7=1|16=0|"));
    assert!(gap.contains("|11=unknown|32=5|150=F|"), "{gap}");
    drop(floor);
    assert!(fix_store::session_names(root.path()).unwrap().iter().all(|name| name.len() < 6));
}

/// The venue asks for orders again, and one of them is too old.
fn asks_again<S: MessageStores>(floor: &mut Floor<S>) -> String {
    floor.says(2, "35=2|7=2|16=0|")
}

fn aged(venue: &mut VenueSpec) {
    venue.max_order_age_ms = 2_000;
}

#[test]
fn an_order_that_the_venue_asks_for_too_late_is_not_sent_and_its_client_is_told() {
    let root = tempfile::tempdir().unwrap();
    let mut floor = over_files(root.path(), [1; 3], aged);
    floor.says(0, "35=D|11=old|38=5|54=1|55=X|");
    floor.says(1, "35=D|11=seen|");
    floor.says(1, "35=G|11=new|41=seen|");
    floor.says(1, "35=F|11=cancel|41=seen|");
    floor.says(2, "35=8|11=seen|37=O|39=0|150=0|");
    let (seqs, clock) = (floor.seqs, floor.desk.clock);
    drop(floor);
    // Killed in between: that a report came is known.
    let mut floor = over_files(root.path(), seqs, aged);
    floor.desk.clock.unix_us = clock.unix_us + 1_999_000;
    floor.says(0, "35=D|11=young|");
    floor.desk.clock.unix_us += 2_000;
    let answer = asks_again(&mut floor);
    let text = "58=not sent: venue asked again too late";
    let wanted = [
        format!("A: 35=8|6=0|11=old|14=0|37=NONE|38=5|39=8|54=1|55=X|{text}|103=4|150=8|151=0|"),
        format!("B: 35=9|11=new|37=O|39=0|41=seen|{text}|102=0|434=2|"),
    ];
    for one in &wanted {
        assert!(answer.contains(one), "{one} is not in\n{answer}");
    }
    // What the venue reported on is not sent, and nobody is told that it is not; cancels and young orders are.
    assert!(!answer.contains("35=D|43=Y|122=20261123-10:15:30.000|11=seen"), "{answer}");
    assert_eq!(answer.matches("|11=seen|").count(), 0, "{answer}");
    assert!(answer.contains("|11=cancel|41=seen|") && answer.contains("|11=young|"), "{answer}");
    assert!(floor.desk.happenings.contains(&Happening::NotSentAgain(VENUE)));
    // Once more: it was told.
    let again = asks_again(&mut floor);
    assert!(!again.contains("A:") && !again.contains("B:"), "{again}");
}

#[test]
fn without_an_age_every_order_is_sent_again() {
    let mut floor = floor(["", ""], |_| {});
    floor.says(0, "35=D|11=old|");
    floor.desk.clock.unix_us += 86_400_000_000;
    floor.desk.clock.ms += 10;
    assert!(asks_again(&mut floor).contains("|11=old|"));
}

/// The stores of a client are older than what it sent: an order that it sends again may be with the venue already.
#[test]
fn what_a_client_sends_again_whose_stores_are_behind_may_be_a_second_time() {
    let mut floor = floor(["", ""], |_| {});
    floor.desk.door.doubt(&[0]).unwrap();
    let again = |id: &str, desk: &Desk<Vec<MemoryStore>>| {
        format!("35=D|43=Y|122={}|11={id}|55=X|", desk.time(0))
    };
    let order = again("a", &floor.desk);
    assert_eq!(floor.says(0, &order), "V: 35=D|97=Y|11=a|55=X|");
    assert_eq!(floor.says(0, "35=D|11=b|55=X|"), "V: 35=D|11=b|55=X|", "a new one");
    floor.desk.clock.unix_us += 121_000_000;
    let order = again("c", &floor.desk);
    assert_eq!(floor.says(1, &order), "V: 35=D|11=c|55=X|", "nothing is known to be missing");
}
