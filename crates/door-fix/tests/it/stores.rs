//! A door over a store that fails.

use door_fix::{Happening, Route, VenueSpec};
use fix_session::{Disconnect, MemoryStore, MessageStore, MessageStores, StoreError};

use crate::desk::{Desk, START_UNIX_MS, spec};

/// Two stores, of which the first cannot be flushed for a while.
struct Flaky {
    now: Vec<MemoryStore>,
    flushed: Vec<MemoryStore>,
    full: bool,
}

impl MessageStores for Flaky {
    type Store = MemoryStore;

    fn store(&mut self, session: usize) -> &mut MemoryStore {
        &mut self.now[session]
    }

    fn flush(&mut self, sessions: &[usize]) -> Result<(), StoreError> {
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

#[test]
fn a_full_disk_logs_its_session_out_and_others_go_on() {
    let stores = || vec![MemoryStore::new(START_UNIX_MS), MemoryStore::new(START_UNIX_MS)];
    let stores = Flaky { now: stores(), flushed: stores(), full: false };
    let mut other = spec("FIX.4.4");
    (other.keys.name, other.keys.target_comp_id) = ("DESK".to_owned(), "DESK".to_owned());
    let mut desk = Desk::over("FIX.4.4", vec![spec("FIX.4.4"), other], stores, ());
    let [one, two] = [desk.connect(), desk.connect()];
    desk.gets(one, "35=A|34=1|98=0|108=30|");
    desk.gets(two, "35=A|34=1|49=DESK|98=0|108=30|");
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
    let stores = || vec![MemoryStore::new(START_UNIX_MS), MemoryStore::new(START_UNIX_MS)];
    let stores = Flaky { now: stores(), flushed: stores(), full: false };
    let mut client = spec("FIX.4.4");
    client.route = Route::Venue("VENUE".into());
    let venues = vec![VenueSpec::new("FIX.4.4", "GATE", "VENUE")];
    let mut desk = Desk::passing("FIX.4.4", vec![client], venues, stores, ());
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
