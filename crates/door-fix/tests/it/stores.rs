//! A door over a store that fails.

use std::path::Path;

use door_fix::{FixSessions, Happening, Route, SessionSpec, VenueSpec};
use fix_session::{Disconnect, Durability, MemoryStore, MessageStore, MessageStores, StoreError};
use fix_store::{FileStores, NumbersFile, Options};

use crate::desk::{Desk, START_UNIX_MS, spec};

/// Two stores, of which the first cannot be flushed for a while.
struct Flaky {
    now: Vec<MemoryStore>,
    flushed: Vec<MemoryStore>,
    full: bool,
    /// The sessions of each flush.
    flushes: Vec<Vec<usize>>,
}

impl Flaky {
    fn new() -> Flaky {
        let stores = || vec![MemoryStore::new(START_UNIX_MS), MemoryStore::new(START_UNIX_MS)];
        Flaky { now: stores(), flushed: stores(), full: false, flushes: Vec::new() }
    }
}

impl MessageStores for Flaky {
    type Store = MemoryStore;

    fn store(&mut self, session: usize) -> &mut MemoryStore {
        &mut self.now[session]
    }

    fn flush(&mut self, sessions: &[usize]) -> Result<(), StoreError> {
        self.flushes.push(sessions.to_vec());
        for at in sessions.iter().copied() {
            if self.full && sessions.contains(&0) {
                sessions.iter().for_each(|at| self.now[*at] = self.flushed[*at].clone());
                return Err(StoreError { reason: "the disk is full".to_owned() });
            }
            self.flushed[at] = self.now[at].clone();
        }
        Ok(())
    }
}

const ORDER: &str = "11=a|21=1|38=1|40=1|54=1|55=IBM|60=20261123-10:15:30|";

/// Two clients that are logged on, and whose messages come back to them.
fn two_clients() -> (Desk<Flaky>, [usize; 2]) {
    let mut other = spec("FIX.4.4");
    (other.keys.name, other.keys.target_comp_id) = ("DESK".to_owned(), "DESK".to_owned());
    let mut desk = Desk::over("FIX.4.4", vec![spec("FIX.4.4"), other], Flaky::new(), ());
    let [one, two] = [desk.connect(), desk.connect()];
    desk.gets(one, "35=A|34=1|98=0|108=30|");
    desk.gets(two, "35=A|34=1|49=DESK|98=0|108=30|");
    (desk, [one, two])
}

/// Nothing leaves before the one flush of a wake-up, and then everything in its order.
#[test]
fn the_steps_of_a_wake_up_are_one_flush() {
    let (mut desk, [one, two]) = two_clients();
    desk.door.stores().flushes.clear();
    assert_eq!(desk.gets_first(one, &format!("35=D|34=2|{ORDER}")), "");
    assert_eq!(desk.gets_first(two, "35=1|34=2|49=DESK|112=x|"), "");
    assert_eq!(desk.gets_first(one, "35=1|34=3|112=y|"), "");
    assert!(desk.ready().is_empty() && desk.door.stores().flushes.is_empty());
    for line in [one, two] {
        assert!(desk.door.owes(desk.lines[line].as_ref().unwrap()));
    }
    let first = format!("35=D|34=2|{ORDER}35=0|34=3|112=y|");
    assert_eq!(desk.flush(), [(one, first), (two, "35=0|34=2|112=x|".to_owned())]);
    assert!(!desk.door.owes(desk.lines[one].as_ref().unwrap()));
    assert_eq!(desk.door.stores().flushes, [[0, 1]]);
    // A wake-up in which nothing was done flushes nothing.
    assert_eq!(desk.flush(), []);
    assert_eq!(desk.door.stores().flushes.len(), 1);
}

#[test]
fn nothing_leaves_of_a_wake_up_that_cannot_be_kept() {
    let (mut desk, [one, two]) = two_clients();
    desk.door.stores().full = true;
    assert_eq!(desk.gets_first(two, "35=1|34=2|49=DESK|112=x|"), "");
    assert_eq!(desk.gets_first(one, &format!("35=D|34=2|{ORDER}")), "");
    let logout = "35=5|34=3|58=Message store not available|";
    assert_eq!(desk.flush(), [(two, logout.to_owned()), (one, logout.to_owned())]);
    assert!(!desk.is_open(one) && !desk.is_open(two));
    for at in [0, 1] {
        let store = &desk.door.stores().now[at];
        assert_eq!((store.next_out(), store.next_in()), (2, 2));
        assert!(
            desk.happenings
                .iter()
                .any(|one| matches!(one, Happening::StoreFailed(failed, _) if *failed == at))
        );
    }
}

/// The bytes for a connection that is gone go to no other one; they come by a gap.
#[test]
fn a_connection_that_ends_within_a_wake_up_loses_nothing() {
    let (mut desk, [one, two]) = two_clients();
    desk.gets_first(one, &format!("35=D|34=2|{ORDER}"));
    desk.drop_line(one);
    let again = desk.connect();
    assert_eq!(desk.gets_first(again, "35=A|34=3|98=0|108=30|"), "");
    assert_eq!(desk.flush(), [(again, "35=A|34=3|98=0|108=30|".to_owned())]);
    let missed = format!("35=D|34=2|43=Y|122={}|{ORDER}", desk.time(0));
    assert_eq!(desk.gets_first(again, "35=2|34=4|7=2|16=2|"), "");
    assert_eq!(desk.flush(), [(again, missed)]);
    // A Logout is answered at once, behind what was held, and others' bytes still wait for the flush that it was.
    assert_eq!(desk.gets_first(two, "35=1|34=2|49=DESK|112=x|"), "");
    assert_eq!(desk.gets_first(again, "35=1|34=5|112=y|"), "");
    assert_eq!(desk.gets_first(again, "35=5|34=6|"), "35=0|34=4|112=y|35=5|34=5|");
    assert!(!desk.is_open(again));
    assert_eq!(desk.flush(), [(two, "35=0|34=2|112=x|".to_owned())]);
}

#[test]
fn a_full_disk_logs_its_session_out_and_others_go_on() {
    let (mut desk, [one, two]) = two_clients();
    desk.door.stores().full = true;
    // The order was not taken and nothing of its answer leaves; the Logout has a number that is not used up.
    let said = desk.gets(one, &format!("35=D|34=2|{ORDER}"));
    assert_eq!(said, "35=5|34=3|58=Message store not available|");
    assert!(!desk.is_open(one));
    let error = StoreError { reason: "the disk is full".to_owned() };
    assert!(desk.happenings.contains(&Happening::StoreFailed(0, error.clone())));
    assert!(desk.happenings.contains(&Happening::Ends(0, Disconnect::Store(error))));
    assert_eq!(desk.gets(two, "35=1|34=2|49=DESK|112=x|"), "35=0|34=2|112=x|");
    desk.door.stores().full = false;
    // The client logs on with its next number, and the order comes again.
    let again = desk.connect();
    assert_eq!(
        desk.gets(again, "35=A|34=3|98=0|108=30|"),
        "35=A|34=2|98=0|108=30|35=2|34=3|7=2|16=0|"
    );
    let resent = format!("35=D|34=2|43=Y|122={}|{ORDER}", desk.time(0));
    assert_eq!(desk.gets(again, &resent), format!("35=D|34=4|{ORDER}"));
}

/// An order that was taken and its copy for the venue are one change: where it cannot be kept, neither happened.
#[test]
fn what_passes_is_taken_and_passed_on_or_neither() {
    let mut client = spec("FIX.4.4");
    client.route = Route::Venue("VENUE".into());
    let venues = vec![VenueSpec::new("FIX.4.4", "GATE", "VENUE")];
    let mut desk = Desk::passing("FIX.4.4", vec![client], venues, Flaky::new(), ());
    let client = desk.connect();
    desk.gets(client, "35=A|34=1|98=0|108=30|");
    let venue = desk.dial().0;
    desk.gets(venue, "35=A|34=1|49=VENUE|98=0|108=30|");
    let numbers = |desk: &mut Desk<Flaky>| {
        [0, 1]
            .map(|at| (desk.door.stores().now[at].next_out(), desk.door.stores().now[at].next_in()))
    };
    let before = numbers(&mut desk);
    desk.door.stores().full = true;
    let logout = "35=5|34=3|58=Message store not available|";
    assert_eq!(desk.gets(client, &format!("35=D|34=2|{ORDER}")), logout);
    let ready = desk.ready();
    assert_eq!(
        ready.iter().map(|one| (one.0, crate::desk::plain(&one.1))).collect::<Vec<_>>(),
        [(venue, logout.to_owned())]
    );
    assert!(!desk.is_open(client) && !desk.is_open(venue));
    assert_eq!(numbers(&mut desk), before);
    desk.door.stores().full = false;
    let client = desk.connect();
    desk.gets(client, "35=A|34=3|98=0|108=30|");
    assert_ne!(numbers(&mut desk), before);
}

/// Clients A and B of a venue, numbers 0, 1 and 3, and client C whose messages come back, over files of which each step begins another.
fn four_over_files(root: &Path) -> Desk<FileStores<NumbersFile>> {
    let venue = || Route::Venue("VENUE".into());
    over_files(root, &[("A", venue()), ("B", venue()), ("C", Route::Echo)])
}

/// These clients, and behind them a venue, over files of which each step begins another.
fn over_files(root: &Path, clients: &[(&str, Route)]) -> Desk<FileStores<NumbersFile>> {
    let client = |(name, route): &(&str, Route)| {
        let mut client = SessionSpec::new("FIX.4.4", "GATE", name);
        client.limits = Some(door_fix::Limits::None);
        (client.route, client.keys.validation) = (route.clone(), door_fix::Checks::Off);
        client
    };
    let clients: Vec<SessionSpec> = clients.iter().map(client).collect();
    let venues = vec![VenueSpec::new("FIX.4.4", "GATE", "VENUE")];
    let config = FixSessions::new(clients.clone(), venues.clone()).unwrap();
    let options = Options { segment_bytes: 100, ..Options::default() };
    let mut stores = FileStores::open(root, options).unwrap();
    for (name, durability) in config.stores() {
        stores.add(name, durability, START_UNIX_MS).unwrap();
    }
    Desk::passing("FIX.4.4", clients, venues, stores, ())
}

/// Logs one on, and returns its connection.
fn logs_on<S: MessageStores>(desk: &mut Desk<S>, name: &str, seq: u64) -> usize {
    let line = if name == "VENUE" { desk.dial_to(3).0 } else { desk.connect() };
    desk.gets(line, &format!("35=A|34={seq}|49={name}|98=0|108=30|"));
    desk.ready();
    line
}

/// One session of a wake-up cannot write: it logs out, and so do those that it exchanged something with. The others' messages leave.
#[test]
fn a_folder_that_cannot_be_written_ends_its_session_and_those_of_the_same_orders() {
    let logout = |seq| format!("35=5|34={seq}|58=Message store not available|");
    for (broken, venue_too) in [("s-A", true), ("s-C", false), ("b-VENUE", true)] {
        let root = tempfile::tempdir().unwrap();
        let mut desk = four_over_files(root.path());
        let [a, b, c] = ["A", "B", "C"].map(|name| logs_on(&mut desk, name, 1));
        let venue = logs_on(&mut desk, "VENUE", 1);
        let [home, away] = [broken, "away"].map(|name| root.path().join(name));
        std::fs::rename(&home, &away).unwrap();
        desk.gets_first(a, "35=D|34=2|49=A|11=a|55=X|");
        desk.gets_first(b, "35=1|34=2|49=B|112=b|");
        desk.gets_first(c, "35=1|34=2|49=C|112=c|");
        let mut told = desk.flush();
        told.sort();
        let order = "35=D|34=2|11=a|55=X|".to_owned();
        let answer = |id| format!("35=0|34=2|112={id}|");
        let mut wanted = match venue_too {
            true => vec![(a, logout(3)), (venue, logout(3)), (c, answer("c"))],
            false => vec![(venue, order.clone()), (c, logout(3))],
        };
        wanted.push((b, answer("b")));
        wanted.sort();
        assert_eq!(told, wanted, "{broken}");
        assert_eq!(
            [a, b, c, venue].map(|at| desk.is_open(at)),
            [!venue_too, true, venue_too, !venue_too]
        );
        let failed = |desk: &Desk<FileStores<NumbersFile>>| {
            desk.happenings.iter().filter(|one| matches!(one, Happening::StoreFailed(..))).count()
        };
        assert_eq!(failed(&desk), if venue_too { 2 } else { 1 });
        // Others go on meanwhile, in a wake-up of their own as well.
        assert_eq!(desk.gets(b, "35=1|34=3|49=B|112=d|"), "35=0|34=3|112=d|");
        std::fs::rename(&away, &home).unwrap();
        if venue_too {
            // The order was not taken, so it comes again, and is passed on once.
            let venue = logs_on(&mut desk, "VENUE", 2);
            let a = desk.connect();
            let logon = desk.gets(a, "35=A|34=3|49=A|98=0|108=30|");
            assert_eq!(logon, "35=A|34=2|98=0|108=30|35=2|34=3|7=2|16=0|", "{broken}");
            desk.clock.unix_us += 121_000_000;
            let again = format!("35=D|34=2|49=A|43=Y|122={}|11=a|55=X|", desk.time(0));
            assert_eq!(desk.gets(a, &again), "");
            let order = "35=D|34=3|11=a|55=X|".to_owned();
            assert_eq!(
                desk.ready()
                    .iter()
                    .map(|one| (one.0, crate::desk::plain(&one.1)))
                    .collect::<Vec<_>>(),
                [(venue, order)]
            );
        }
    }
}

/// What another client has since an earlier wake-up does not depend on whether the refusal of the second order with its id can be kept.
#[test]
fn who_is_refused_for_anothers_order_ends_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut desk = four_over_files(root.path());
    let [a, b] = ["A", "B"].map(|name| logs_on(&mut desk, name, 1));
    let venue = logs_on(&mut desk, "VENUE", 1);
    desk.gets(a, "35=D|34=2|49=A|11=a|55=X|");
    desk.ready();
    std::fs::rename(root.path().join("s-B"), root.path().join("away")).unwrap();
    let logout = "35=5|34=3|58=Message store not available|";
    assert_eq!(desk.gets(b, "35=D|34=2|49=B|11=a|55=X|"), logout);
    assert!(desk.ready().is_empty());
    assert_eq!([a, b, venue].map(|at| desk.is_open(at)), [true, false, true]);
}

/// A venue's store is behind, and its folder cannot be written when that is found: it is said with the first that can be, before the files
/// look as if they were whole.
#[test]
fn whose_orders_of_a_venue_that_was_behind_are_stays_unknown() {
    let root = tempfile::tempdir().unwrap();
    let route = || Route::Venue("VENUE".into());
    let unknown = "35=8|34=3|49=VENUE|11=unknown|150=F|32=1|";
    let mut desk = over_files(root.path(), &[("A", route())]);
    desk.dial_to(1);
    drop(desk);

    let both = [("A", route()), ("B", route())];
    let mut desk = over_files(root.path(), &both);
    let [home, away] = ["b-VENUE", "away"].map(|name| root.path().join(name));
    std::fs::rename(&home, &away).unwrap();
    desk.door.doubt(&[2]).unwrap_err();
    // Nor do numbers that an operator sets meanwhile, and cannot.
    desk.door.keep(2, desk.clock, |stores| stores.set_numbers(2, 7, 7)).unwrap_err();
    std::fs::rename(&away, &home).unwrap();
    let venue = desk.dial_to(2).0;
    desk.gets(venue, "35=A|34=1|49=VENUE|98=0|108=30|");
    drop(desk);

    let mut desk = over_files(root.path(), &both);
    let venue = desk.dial_to(2).0;
    desk.gets(venue, "35=A|34=2|49=VENUE|98=0|108=30|");
    desk.gets(venue, unknown);
    assert_eq!(desk.door.kept(2), 1, "it is nobody's");
}

/// What one wake-up tied to each other the next one does not.
#[test]
fn sessions_are_tied_for_one_wake_up() {
    let root = tempfile::tempdir().unwrap();
    let mut desk = four_over_files(root.path());
    let [a, b] = ["A", "B"].map(|name| logs_on(&mut desk, name, 1));
    let venue = logs_on(&mut desk, "VENUE", 1);
    desk.gets_first(a, "35=D|34=2|49=A|11=a|55=X|");
    desk.gets_first(b, "35=D|34=2|49=B|11=b|55=X|");
    assert_eq!(desk.flush().len(), 1);
    std::fs::rename(root.path().join("s-A"), root.path().join("away")).unwrap();
    desk.gets_first(a, "35=1|34=3|49=A|112=x|");
    desk.gets_first(b, "35=D|34=3|49=B|11=c|55=X|");
    let mut told = desk.flush();
    told.sort();
    let logout = "35=5|34=3|58=Message store not available|".to_owned();
    assert_eq!(told, [(a, logout), (venue, "35=D|34=4|11=c|55=X|".to_owned())]);
    // A report on A's order cannot be kept for A, so the venue has to send it again; B is not touched.
    assert_eq!(
        desk.gets(venue, "35=8|34=2|49=VENUE|11=a|150=F|32=1|"),
        "35=5|34=6|58=Message store not available|"
    );
    assert!(!desk.is_open(venue) && desk.is_open(b));
    assert_eq!(desk.gets(b, "35=1|34=4|49=B|112=y|"), "35=0|34=2|112=y|");
}

/// A Logon at a full disk, on either side: nothing leaves that used up a number, so the next try has the same one, and is taken when the disk is.
#[test]
fn a_logon_at_a_full_disk_uses_no_number_up() {
    let mut client = spec("FIX.4.4");
    client.route = Route::Venue("VENUE".into());
    let venues = vec![VenueSpec::new("FIX.4.4", "GATE", "VENUE")];
    let mut desk = Desk::passing("FIX.4.4", vec![client], venues, Flaky::new(), ());
    desk.door.stores().full = true;
    for seq in 1..4 {
        let line = desk.connect();
        // The Logout is one ahead of the Logon that was not kept, each time.
        let said = desk.gets(line, &format!("35=A|34={seq}|98=0|108=30|"));
        assert!(said.starts_with("35=5|34=2|58=Message store not available|"), "{said}");
        assert!(!desk.is_open(line));
    }
    let store = &desk.door.stores().now[0];
    assert_eq!((store.next_out(), store.next_in()), (1, 1));
    desk.door.stores().full = false;
    let line = desk.connect();
    // The peer's numbers went on, so its first Logons are asked for again; ours is the first that it gets.
    let said = desk.gets(line, "35=A|34=4|98=0|108=30|");
    assert_eq!(said, "35=A|34=1|98=0|108=30|35=2|34=2|7=1|16=0|");
    let fill = format!("35=4|34=1|43=Y|122={}|36=5|123=Y|", desk.time(0));
    assert_eq!(desk.gets(line, &fill), "");
    assert_eq!(desk.gets(line, "35=1|34=5|112=x|"), "35=0|34=3|112=x|");
}

/// A report for nobody, and no place for it: it does not count, and comes again.
#[test]
fn what_names_nobody_and_cannot_be_kept_is_not_taken() {
    let root = tempfile::tempdir().unwrap();
    let route = || Route::Venue("VENUE".into());
    let both = [("A", route()), ("B", route())];
    let book = root.path().join("b-VENUE");
    std::fs::write(&book, b"x").unwrap();
    let mut desk = over_files(root.path(), &both);
    // Looking for the book was in vain: the venue's session keeps nothing, so that no report is taken that has no place.
    let tries = |desk: &mut Desk<FileStores<NumbersFile>>| {
        let (venue, logon) = desk.dial_to(2);
        let is_open = desk.is_open(venue);
        if is_open {
            desk.gets(venue, "35=A|34=1|49=VENUE|98=0|108=30|");
        }
        (!logon.is_empty() && desk.is_open(venue)).then_some(venue)
    };
    assert_eq!([tries(&mut desk), tries(&mut desk), tries(&mut desk)], [None; 3]);
    std::fs::remove_file(&book).unwrap();
    let first = tries(&mut desk);
    let venue = first.or_else(|| tries(&mut desk)).expect("it logs on");
    desk.gets(venue, "35=8|34=2|49=VENUE|11=unknown|150=F|32=1|");
    assert_eq!(desk.door.kept(2), 1);
    drop(desk);
    // A book that is there and cannot be opened stops the start.
    std::fs::rename(&book, root.path().join("away")).unwrap();
    std::fs::write(&book, b"x").unwrap();
    let mut stores = FileStores::open(root.path(), Options::default()).unwrap();
    let refused = stores.add("VENUE", Durability::Sealed, START_UNIX_MS).unwrap_err().to_string();
    assert!(refused.contains("b-VENUE"), "{refused}");
}
