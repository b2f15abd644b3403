//! Orders that are stopped, and cancelled by the gate.

use door_fix::{Happening, KillScope};
use fix_session::{MessageStore, MessageStores};

use crate::limits::{Gate, VENUE, order};

/// The ids of the gate's cancels, in place of which is `KILL`.
fn plain(text: &str) -> String {
    let field = |field: &str| match field.find("KILL-") {
        Some(at) => format!("{}KILL|", &field[..at]),
        None => format!("{field}|"),
    };
    text.split_terminator('|').map(field).collect()
}

impl Gate {
    /// What the venue got.
    fn at_venue(&mut self) -> String {
        let got = self.took(VENUE);
        plain(&got)
    }

    /// Searches for orders to cancel until there are no more.
    fn cancels(&mut self) -> String {
        while self.desk.door.cancel_stopped(self.desk.clock) {}
        self.turn();
        self.at_venue()
    }

    /// Lets seconds pass, in each of which the door looks for clients that are away; returns what the venue gets.
    fn seconds(&mut self, seconds: u64) -> String {
        let second = |_| {
            self.desk.advance(1_000);
            self.desk.door.look_for_absent(self.desk.clock);
            self.cancels()
        };
        (0..seconds).map(second).collect()
    }

    fn kill(&mut self, scope: KillScope, name: &str) -> String {
        self.desk.door.kill(scope, name);
        self.cancels()
    }
}

/// The gate's cancel of an order of [`order`].
fn cancel(account: &str, id: &str, quantity: u32, order_id: &str) -> String {
    let order_id = if order_id.is_empty() { String::new() } else { format!("37={order_id}|") };
    format!(
        "35=F|1={account}|11=KILL|{order_id}38={quantity}|41={id}|54=1|55=X|58=cancelled by the gate|"
    )
}

#[test]
fn a_kill_stops_orders_of_its_scope_and_cancels_the_open_ones() {
    for (scope, name, stops) in [
        (KillScope::Session, "A", [true, true, false]),
        (KillScope::Account, "A1", [true, false, false]),
        (KillScope::Firm, "ACME", [true, true, true]),
        (KillScope::Session, "NOBODY", [false; 3]),
        (KillScope::Account, "a1", [false; 3]),
        (KillScope::Firm, "A", [false; 3]),
    ] {
        let mut gate = Gate::new("FIX.4.4");
        let all = [(0, "A1", "a"), (0, "A2", "b"), (1, "B1", "c")];
        for (at, account, id) in all {
            gate.says(at, &order(account, id, 5, "10"));
        }
        gate.says(VENUE, "35=8|11=a|37=V1|150=0|39=0|14=0|");
        gate.got = Default::default();
        let held = gate.books(2);
        let cancels = gate.kill(scope, name);
        let expected: Vec<String> = [("A1", "a", "V1"), ("A2", "b", ""), ("B1", "c", "")]
            .into_iter()
            .zip(stops)
            .filter(|one| one.1)
            .map(|((account, id, order_id), _)| cancel(account, id, 5, order_id))
            .collect();
        assert_eq!(cancels, expected.concat(), "{scope:?} {name}");
        assert_eq!(gate.books(2), held, "the money stays until the venue answers");
        for ((at, account, id), stops) in all.into_iter().zip(stops) {
            let new = order(account, &format!("n{id}"), 1, "10");
            gate.says(at, &new);
            let (got, venue) = (gate.took(at), gate.at_venue());
            let why = format!("|58=orders of this {} are stopped|103=99|", scope.name());
            assert_eq!((got.contains(&why), venue.is_empty()), (stops, stops), "{id}: {got}");
            let replace = format!("35=G|11=g{id}|41={id}|1={account}|38=6|40=2|44=10|54=1|55=X|");
            gate.says(at, &replace);
            let (got, venue) = (gate.took(at), gate.at_venue());
            let why = format!("|58=orders of this {} are stopped|102=99|434=2|", scope.name());
            assert_eq!((got.contains(&why), venue.is_empty()), (stops, stops), "{id}: {got}");
            // A cancel and what is only asked pass.
            for pass in
                [format!("35=F|11=f{id}|41={id}|54=1|55=X|"), format!("35=H|11={id}|54=1|55=X|")]
            {
                gate.says(at, &pass);
                assert_eq!((gate.took(at), gate.at_venue()), (String::new(), pass));
            }
        }
        // A list that may pass where nothing is stopped.
        let is_session = scope != KillScope::Account;
        gate.says(0, "35=AB|11=m|555=0|");
        assert_eq!(gate.at_venue().is_empty(), stops[0] && is_session);
        gate.says(0, "35=AB|11=m2|78=1|79=A1|555=0|");
        assert_eq!(gate.at_venue().is_empty(), stops[0]);
        gate.took(0);
        gate.desk.door.enable(scope, name);
        gate.says(0, &order("A1", "again", 1, "10"));
        assert_eq!(gate.at_venue(), order("A1", "again", 1, "10"));
        assert_eq!(gate.cancels(), "");
    }
}

/// What waits for its budgets at the kill is refused, and what they grant later comes back.
#[test]
fn orders_and_replaces_that_wait_at_a_kill_do_not_leave() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "o", 5, "10"));
    gate.got = Default::default();
    let before = gate.books(1);
    gate.is_slow = true;
    gate.says(0, "35=G|11=g|41=o|1=A1|38=50|40=2|44=10|54=1|55=X|");
    gate.says(0, &order("A1", "w", 7, "10"));
    gate.says(0, "35=F|11=f|41=o|54=1|55=X|");
    assert_eq!(gate.kill(KillScope::Account, "A1"), cancel("A1", "o", 5, ""));
    gate.is_slow = false;
    gate.turn();
    gate.turn();
    assert_eq!(gate.at_venue(), "35=F|11=f|41=o|54=1|55=X|");
    let got = gate.took(0);
    assert!(got.contains("35=9|11=g|37=NONE|39=A|41=o|58=orders of this account are stopped|"));
    assert!(
        got.contains("|11=w|14=0|37=NONE|38=7|39=8|44=10|54=1|55=X|58=orders of this"),
        "{got}"
    );
    assert_eq!((gate.books(1), gate.desk.door.has_sayings()), (before, false));
}

/// An order that is open and sent again is not said to be refused: it may be executed still.
#[test]
fn an_order_that_is_sent_again_hears_how_it_stands() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 5, "10"));
    gate.got = Default::default();
    gate.kill(KillScope::Session, "A");
    gate.says(0, &(order("A1", "a", 5, "10") + "97=Y|"));
    assert!(gate.took(0).contains("|11=a|14=0|37=NONE|38=5|39=A|"));
    gate.says(0, &order("A1", "a", 6, "10"));
    assert!(gate.took(0).contains("|58=Duplicate ClOrdID|103=6|"));
    assert_eq!(gate.at_venue(), "");
}

/// The client hears of its order, and not of the gate's own message.
#[test]
fn what_a_venue_answers_to_a_cancel_of_the_gate() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 5, "10"));
    gate.says(0, &order("A1", "b", 6, "10"));
    gate.got = Default::default();
    gate.desk.door.kill(KillScope::Session, "A");
    while gate.desk.door.cancel_stopped(gate.desk.clock) {}
    gate.turn();
    let sent = gate.took(VENUE);
    let ids: Vec<String> = sent
        .split('|')
        .filter(|field| field.starts_with("11="))
        .map(|field| field[3..].to_owned())
        .collect();
    let [first, second] = &ids[..] else { panic!("{sent}") };
    assert_ne!(first, second);
    let pending = format!("35=8|11={first}|41=a|37=V|150=6|39=6|14=0|151=5|");
    gate.says(VENUE, &pending);
    assert_eq!(gate.took(0), pending);
    let done = format!("35=8|11={first}|41=a|37=V|150=4|39=4|14=0|151=0|");
    gate.says(VENUE, &done);
    assert_eq!((gate.took(0), gate.books(1)), (done, "free 940.00, held 60.00".into()));
    let refused = |kind: &str| format!("{kind}11={second}|41=b|37=W|39=0|58=too late|434=1|102=0|");
    for text in [refused("35=9|"), refused("35=8|").replace("39=0", "39=8|150=8")] {
        gate.desk.happenings.clear();
        gate.says(VENUE, &text);
        assert_eq!((gate.took(0).as_str(), gate.at_venue().as_str()), ("", ""), "no F for ever");
        let told = "OrderID (37) \"W\", OrigClOrdID (41) \"b\": \"too late\"";
        assert!(gate.desk.happenings.contains(&Happening::CancelRefused(VENUE, told.into())));
        assert_eq!(gate.books(1), "free 940.00, held 60.00");
    }
    // The venue cannot read it: by its number.
    let seq = gate.desk.door.stores().store(VENUE).next_out() - 1;
    gate.desk.happenings.clear();
    gate.says(VENUE, &format!("35=3|45={seq}|58=no|373=99|"));
    assert_eq!(gate.took(0), "");
    let refused = |one: &Happening| matches!(one, Happening::CancelRefused(VENUE, _));
    assert!(gate.desk.happenings.iter().any(refused), "{:?}", gate.desk.happenings);
    // Killed again, it is cancelled again; a kill of others does not mean it.
    assert_eq!(gate.kill(KillScope::Session, "A"), cancel("A1", "b", 6, ""));
    assert_eq!(gate.kill(KillScope::Account, "A2"), "");
    assert_eq!(gate.kill(KillScope::Account, "A1"), cancel("A1", "b", 6, ""));
}

/// A version that the venue accepts after the cancel, and an order that it opens again.
#[test]
fn an_order_that_has_another_version_after_the_cancel_is_cancelled_again() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 5, "10"));
    gate.says(0, "35=G|11=g|41=a|1=A1|38=6|40=2|44=10|54=1|55=X|");
    gate.got = Default::default();
    assert_eq!(gate.kill(KillScope::Session, "A"), cancel("A1", "a", 5, ""));
    gate.says(VENUE, "35=8|11=a|37=V|150=F|17=e|31=10|32=1|39=1|14=1|6=10|151=4|");
    assert_eq!(gate.at_venue(), "", "this version is cancelled");
    gate.says(VENUE, "35=8|11=g|41=a|37=V|150=5|39=0|38=6|44=10|14=1|151=5|");
    assert_eq!(gate.at_venue(), cancel("A1", "g", 6, "V"));
}

/// A venue that is down gets the cancels at its logon, and one that was lost with them gets them again.
#[test]
fn a_venue_gets_the_cancels_at_its_logon_also_after_a_start() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 5, "10"));
    gate.leaves(VENUE);
    gate.got = Default::default();
    assert_eq!(gate.kill(KillScope::Session, "A"), "");
    gate.log_on(VENUE);
    let of_gate = cancel("A1", "a", 5, "");
    assert!(gate.cancels().ends_with(&of_gate));
    assert_eq!(gate.cancels(), "");
    gate.leaves(VENUE);
    gate.log_on(VENUE);
    let again = gate.cancels();
    assert!(again.ends_with(&of_gate), "{again}");
    // What the journal has is in force before anybody is let in.
    gate = gate.after_a_kill_with("FIX.4.4", |door| door.kill(KillScope::Session, "A"));
    gate.says(0, &order("A1", "b", 5, "10"));
    assert!(gate.took(0).contains("|58=orders of this session are stopped|"));
    assert!(gate.cancels().ends_with(&of_gate));
}

#[test]
fn a_search_goes_on_over_all_orders_and_ids_are_unique() {
    let mut gate = Gate::new("FIX.4.4");
    for id in 0..300 {
        gate.says(0, &order("A1", &format!("o{id}"), 1, "1"));
    }
    gate.got = Default::default();
    gate.desk.door.kill(KillScope::Account, "A1");
    let mut parts = 0;
    while gate.desk.door.cancel_stopped(gate.desk.clock) {
        parts += 1;
    }
    gate.turn();
    let sent = gate.took(VENUE);
    let ids: std::collections::BTreeSet<&str> =
        sent.split('|').filter(|field| field.starts_with("11=KILL-")).collect();
    assert_eq!((ids.len(), parts), (300, 2), "128 at once");
}

/// Client A may be away for 10 s, client B for ever.
#[test]
fn orders_of_a_client_that_stays_away_are_cancelled_however_it_went() {
    for (end, away_s, is_late) in [
        ("lost", 9, false),
        ("lost", 11, true),
        ("logout", 9, false),
        ("logout", 11, true),
        ("silent", 9, false),
        ("silent", 11, true),
    ] {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, &order("A1", "a", 5, "10"));
        gate.says(1, &order("B1", "b", 5, "10"));
        gate.got = Default::default();
        assert_eq!(gate.seconds(60), "", "they are here");
        gate.leaves(1);
        match end {
            "lost" => gate.leaves(0),
            "logout" => gate.says(0, "35=5|"),
            _ => drop(gate.desk.waits(gate.lines[0], 100_000)),
        }
        gate.turn();
        assert!(!gate.desk.is_open(gate.lines[0]) || end == "logout");
        gate.leaves(0);
        gate.got = Default::default();
        let (of_gate, held) = (cancel("A1", "a", 5, ""), gate.books(1));
        let expected = if is_late { of_gate.clone() } else { String::new() };
        assert_eq!(gate.seconds(away_s), expected, "{end} {away_s}");
        let aways = gate.desk.happenings.iter().filter(|one| **one == Happening::Away(0));
        assert_eq!(aways.count(), usize::from(is_late));
        assert_eq!(gate.books(1), held, "until the venue answers");
        // It is back: its orders pass, and its time begins anew when it goes again.
        gate.log_on(0);
        gate.says(0, &order("A1", "n", 1, "10"));
        assert_eq!(gate.at_venue(), order("A1", "n", 1, "10"));
        assert_eq!(gate.seconds(60), "");
        gate.leaves(0);
        assert_eq!(gate.seconds(10), "");
        assert_eq!(gate.seconds(1), of_gate + &cancel("A1", "n", 1, ""), "also those before");
        assert_eq!(gate.seconds(60), "", "once");
    }
}

#[test]
fn a_venue_that_was_away_gets_the_cancels_of_who_is_still_away() {
    for is_back in [false, true] {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, &order("A1", "a", 5, "10"));
        gate.says(0, "35=G|11=g|41=a|1=A1|38=6|40=2|44=10|54=1|55=X|");
        gate.leaves(0);
        gate.leaves(VENUE);
        gate.got = Default::default();
        assert_eq!(gate.seconds(20), "");
        if is_back {
            gate.log_on(0);
        }
        gate.log_on(VENUE);
        let sent = gate.cancels();
        assert_eq!(sent.contains(&cancel("A1", "a", 5, "")), !is_back, "{sent}");
        gate.says(VENUE, "35=8|11=g|41=a|37=V|150=5|39=0|38=6|44=10|14=0|151=6|");
        let expected = if is_back { String::new() } else { cancel("A1", "g", 6, "V") };
        assert_eq!(gate.at_venue(), expected, "the version that it accepted meanwhile");
    }
}

/// The time of a client begins with the process, whoever was there before, and it may come back in time.
#[test]
fn after_a_start_the_time_of_all_begins() {
    for (away_ms, is_late) in [(9_999, false), (10_000, true)] {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, &order("A1", "a", 5, "10"));
        let mut clock = gate.desk.clock;
        gate = gate.after_a_kill_with("FIX.4.4", |door| {
            door.look_for_absent(clock);
            clock.ms += away_ms;
            door.look_for_absent(clock);
            let aways = door.take_happenings().into_iter().filter(|one| *one == Happening::Away(0));
            assert_eq!(aways.count(), usize::from(is_late), "{away_ms}");
        });
        assert!(!gate.cancels().contains("35=F|"), "it is back before the venue");
    }
}
