//! A door over a store that fails.

use door_fix::Happening;
use fix_session::{Disconnect, MemoryStore, MessageStores, StoreError};

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
            if self.full && at == 0 {
                self.now[at] = self.flushed[at].clone();
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
    (other.name, other.target_comp_id) = ("DESK".to_owned(), "DESK".to_owned());
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
