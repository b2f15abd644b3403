//! A door over a store that fails.

use door_fix::{Happening, Route, VenueSpec};
use fix_session::{Disconnect, MemoryStore, MessageStore, MessageStores, StoreError};

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
