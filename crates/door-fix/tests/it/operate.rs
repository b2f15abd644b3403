//! What an operator sees and does.

use door_fix::{Act, NotDone, Route, SessionView, Standing};
use fix_session::{MemoryStore, MessageStore, MessageStores, Schedule, StoreError};

use crate::desk::{Desk, START_UNIX_MS, plain, spec};

const LOGON: &str = "35=A|34=1|98=0|108=30|";

fn view<S: MessageStores>(desk: &mut Desk<S>) -> SessionView {
    let clock = desk.clock;
    desk.door.views(clock).swap_remove(0)
}

fn standing<S: MessageStores>(desk: &mut Desk<S>) -> Standing {
    view(desk).standing
}

fn act<S: MessageStores>(desk: &mut Desk<S>, act: &Act) -> Result<(), NotDone> {
    let clock = desk.clock;
    desk.door.act(0, act, clock)
}

/// What an operator's act sent over the first connection.
fn ready<S: MessageStores>(desk: &mut Desk<S>) -> String {
    desk.ready().into_iter().map(|(_, bytes)| plain(&bytes)).collect()
}

fn log_out() -> Act {
    Act::LogOut { text: "enough".to_owned() }
}

#[test]
fn a_session_shows_where_it_stands_and_what_went_over_it() {
    let mut desk = Desk::new("FIX.4.4");
    let before = view(&mut desk);
    assert_eq!((before.name.as_str(), before.is_venue), ("CLIENT", false));
    assert_eq!((before.standing, before.route), (Standing::Waiting, Some(Route::Echo)));
    assert_eq!((before.next_out, before.next_in, before.line), (1, 1, None));
    assert_eq!((before.traffic.messages_in, before.traffic.last_in_unix_ms), (0, None));
    let at = desk.connect();
    desk.gets(at, LOGON);
    let logged_on = view(&mut desk);
    assert_eq!((logged_on.standing, logged_on.line), (Standing::LoggedOn, Some(0)));
    assert_eq!((logged_on.traffic.messages_in, logged_on.traffic.messages_out), (1, 1));
    // 2 is missing.
    desk.clock.unix_us += 7_000_000;
    desk.gets(at, "35=0|34=3|");
    let gap = view(&mut desk);
    assert_eq!((gap.standing, gap.traffic.gaps), (Standing::Resending, 1));
    assert_eq!((gap.traffic.messages_in, gap.traffic.messages_out), (2, 2));
    assert_eq!(gap.traffic.last_in_unix_ms, Some(START_UNIX_MS + 7_000));
    assert_eq!(gap.traffic.last_out_unix_ms, Some(START_UNIX_MS + 7_000));
    desk.gets(at, "35=4|34=2|43=Y|123=Y|36=4|");
    let closed = view(&mut desk);
    assert_eq!((closed.standing, closed.next_out, closed.next_in), (Standing::LoggedOn, 3, 4));
}

#[test]
fn a_session_outside_its_hours_says_so() {
    let mut spec = spec("FIX.4.4");
    spec.keys.schedule = Schedule::parse("mon-fri 08:00-09:00 Europe/London").unwrap();
    let mut desk = Desk::with("FIX.4.4", vec![spec]);
    assert_eq!(standing(&mut desk), Standing::OutOfSchedule);
}

#[test]
fn an_operator_asks_for_what_has_come_and_for_nothing_else() {
    let mut desk = Desk::new("FIX.4.4");
    let resend = |from, to| Act::Resend { from, to };
    assert_eq!(act(&mut desk, &resend(1, 0)), Err(NotDone::NotLoggedOn));
    let at = desk.connect();
    desk.gets(at, LOGON);
    for (from, to, expected) in [
        (0, 0, NotDone::From { from: 0, last: 1 }),
        (2, 0, NotDone::From { from: 2, last: 1 }),
        (u64::MAX, 0, NotDone::From { from: u64::MAX, last: 1 }),
    ] {
        assert_eq!(act(&mut desk, &resend(from, to)), Err(expected));
    }
    desk.gets(at, "35=0|34=2|");
    assert_eq!(act(&mut desk, &resend(2, 1)), Err(NotDone::To { from: 2, to: 1 }));
    assert_eq!(ready(&mut desk), "");
    assert_eq!(act(&mut desk, &resend(1, 2)), Ok(()));
    assert_eq!(ready(&mut desk), "35=2|34=2|7=1|16=2|");
    assert_eq!(act(&mut desk, &resend(2, 0)), Ok(()));
    assert_eq!(ready(&mut desk), "35=2|34=3|7=2|16=0|");
}

#[test]
fn a_session_is_logged_out_and_reset_between_two_connections_only() {
    let mut desk = Desk::new("FIX.4.4");
    assert_eq!(act(&mut desk, &log_out()), Err(NotDone::NotLoggedOn));
    let at = desk.connect();
    desk.gets(at, LOGON);
    assert_eq!(act(&mut desk, &Act::Reset), Err(NotDone::Connected));
    assert_eq!(desk.door.check_apart(0), Err(NotDone::Connected));
    assert_eq!(act(&mut desk, &log_out()), Ok(()));
    assert_eq!(ready(&mut desk), "35=5|34=2|58=enough|");
    assert_eq!(standing(&mut desk), Standing::LoggingOut);
    assert_eq!(act(&mut desk, &log_out()), Err(NotDone::NotLoggedOn), "once is enough");
    assert_eq!(act(&mut desk, &Act::Reset), Err(NotDone::Connected));
    desk.gets(at, "35=5|34=2|");
    assert!(!desk.is_open(at));
    let apart = view(&mut desk);
    assert_eq!((apart.standing, apart.next_out, apart.next_in), (Standing::Waiting, 3, 3));
    assert_eq!(act(&mut desk, &Act::Reset), Ok(()));
    let reset = view(&mut desk);
    assert_eq!((reset.next_out, reset.next_in), (1, 1));
    let again = desk.connect();
    assert_eq!(desk.gets(again, LOGON), LOGON);
}

/// A store that takes everything and keeps nothing while its disk is full.
struct Full(MemoryStore, MemoryStore, bool);

impl MessageStores for Full {
    type Store = MemoryStore;

    fn store(&mut self, _: usize) -> &mut MemoryStore {
        &mut self.0
    }

    fn flush(&mut self, _: &[usize]) -> Result<(), StoreError> {
        if self.2 {
            self.0 = self.1.clone();
            return Err(StoreError { reason: "the disk is full".to_owned() });
        }
        self.1 = self.0.clone();
        Ok(())
    }
}

#[test]
fn what_cannot_be_kept_is_not_done() {
    let store = MemoryStore::new(START_UNIX_MS);
    let stores = Full(store.clone(), store, false);
    let mut desk = Desk::over("FIX.4.4", vec![spec("FIX.4.4")], stores, ());
    let at = desk.connect();
    desk.gets(at, LOGON);
    desk.drop_line(at);
    desk.door.stores().2 = true;
    let full = StoreError { reason: "the disk is full".to_owned() };
    assert_eq!(act(&mut desk, &Act::Reset), Err(NotDone::Store(full.clone())));
    assert_eq!(desk.door.stores().0.next_out(), 2);
    desk.door.stores().2 = false;
    let at = desk.connect();
    desk.gets(at, "35=A|34=2|98=0|108=30|");
    desk.door.stores().2 = true;
    assert_eq!(act(&mut desk, &log_out()), Err(NotDone::Store(full)));
    // It is told, with a number that is not used up, and its connection ends.
    assert_eq!(ready(&mut desk), "35=5|34=4|58=Message store not available|");
    assert!(!desk.is_open(at));
}
