//! Messages that a venue whose numbers began again may not have.

use door_fix::Happening;

use super::{Gate, VENUE, order};

impl Gate {
    /// The venue comes again, and its numbers with it or not; returns what it gets after its Logon.
    fn venue_is_back(&mut self, resets: bool) -> String {
        self.leaves(VENUE);
        self.lines[VENUE] = self.desk.dial_to(VENUE).0;
        self.seqs[VENUE] = if resets { 1 } else { self.seqs[VENUE] };
        self.says(VENUE, if resets { "35=A|98=0|108=30|141=Y|" } else { "35=A|98=0|108=30|" });
        self.asks()
    }

    /// The door goes on asking; returns what the venue gets.
    fn asks(&mut self) -> String {
        self.got[VENUE].clear();
        while self.desk.door.ask_venues(self.desk.clock) {}
        self.turn();
        self.took(VENUE)
    }

    fn is_in_doubt(&self) -> bool {
        self.desk.door.orders(0, 9).0.iter().any(|order| order.is_in_doubt)
    }

    fn alarms(&mut self) -> Vec<String> {
        self.turn();
        let told = |one: Happening| match one {
            Happening::InDoubt(VENUE, 1, told) => Some(told),
            _ => None,
        };
        std::mem::take(&mut self.desk.happenings).into_iter().filter_map(told).collect()
    }
}

const REPLACE: &str = "35=G|11=b|41=a|38=80|40=2|44=10|54=1|55=X|";
const CANCEL: &str = "35=F|11=c|41=a|54=1|55=X|";

/// What is sent beside the order of 60 at 10 and is lost, what the venue answers when it is asked for that, what the client gets, and the books.
#[test]
fn a_venue_whose_numbers_began_again_is_asked_for_what_it_has_not_answered() {
    let no = "58=not sent: the venue does not know it|";
    let [order_no, replace_no, cancel_no] = [
        format!("35=8|6=0|11=a|14=0|37=NONE|38=60|39=8|54=1|55=X|{no}103=99|150=8|151=0|"),
        format!("35=9|11=b|37=O|39=0|41=a|{no}102=99|434=2|"),
        format!("35=9|11=c|37=O|39=0|41=a|{no}102=99|434=1|"),
    ];
    let (all, held, more) =
        ("free 1000.00", "free 400.00, held 600.00", "free 200.00, held 800.00");
    let unknown = |id| format!("35=8|11={id}|37=NONE|150=I|39=8|14=0|151=0|");
    let has = |id, status| format!("35=8|11={id}|37=O|150=I|39={status}|14=0|151=60|");
    for (lost, answer, told, books, doubts) in [
        ("", unknown("a"), order_no.clone(), all, false),
        ("", "35=8|11=a|37=NONE|150=8|39=8|103=5|14=0|151=0|".into(), order_no.clone(), all, false),
        ("", "35=9|11=a|41=a|37=NONE|39=8|434=1|102=1|".into(), order_no.clone(), all, false),
        ("", "35=j|45=2|372=H|380=1|".into(), order_no.clone(), all, false),
        ("", "35=3|45=2|371=11|372=H|373=5|".into(), order_no, all, false),
        ("", "35=j|45=2|372=H|380=3|58=no|".into(), String::new(), held, true),
        ("", "35=3|45=2|371=35|372=H|373=11|".into(), String::new(), held, true),
        ("", "35=0|".into(), String::new(), held, true),
        ("", has("a", "0"), has("a", "0"), held, false),
        ("", has("a", "4"), has("a", "4"), all, false),
        (REPLACE, unknown("b"), replace_no, held, false),
        (REPLACE, has("b", "0"), has("b", "0"), more, false),
        (REPLACE, has("b", "E"), has("b", "E"), more, false),
        (CANCEL, unknown("c"), cancel_no, held, false),
        (CANCEL, has("c", "4"), has("c", "4"), all, false),
    ] {
        let mut gate = Gate::new("FIX.4.4");
        gate.says(0, &order("A1", "a", 60, "10"));
        if !lost.is_empty() {
            gate.says(VENUE, "35=8|11=a|37=O|150=0|39=0|14=0|");
            gate.says(0, lost);
        }
        gate.got = Default::default();
        assert_eq!(gate.venue_is_back(false), "", "its numbers say what is missing");
        let id = if lost.is_empty() { "a" } else { &lost[8..9] };
        let asked = format!("35=H|1=A1|11={id}|54=1|55=X|");
        assert_eq!(gate.venue_is_back(true), asked);
        assert!(gate.is_in_doubt());
        gate.says(VENUE, &answer);
        assert_eq!((gate.took(0), gate.books(1).as_str()), (told, books), "{answer}");
        gate.desk.advance(10_000);
        gate.desk.door.look_for_absent(gate.desk.clock);
        assert_eq!(
            (gate.is_in_doubt(), gate.alarms().len()),
            (doubts, usize::from(doubts)),
            "{answer}"
        );
        gate.desk.door.look_for_absent(gate.desk.clock);
        assert_eq!(gate.alarms(), [""; 0]);
        // Nothing that is answered is asked for again; what is not, or waits, is, also by a later process.
        let is_open = doubts || answer.contains("|39=E|");
        let asked = if is_open { &asked } else { "" };
        assert_eq!(gate.venue_is_back(false), asked, "{answer}");
        let mut gate = gate.after_a_kill("FIX.4.4");
        assert_eq!(gate.asks(), *asked, "{answer}");
        assert_eq!(gate.books(1), books);
    }
}

/// One that it has reported on may be open under another id.
#[test]
fn a_cancel_that_a_venue_does_not_know_asks_for_its_order() {
    let mut gate = Gate::new("FIX.4.4");
    gate.says(0, &order("A1", "a", 60, "10"));
    gate.says(VENUE, "35=8|11=a|37=O|150=0|39=0|14=0|");
    gate.says(0, CANCEL);
    gate.got = Default::default();
    let refused = "35=9|11=c|41=a|37=NONE|39=8|434=1|102=1|";
    gate.says(VENUE, refused);
    assert_eq!(
        (gate.took(0).as_str(), gate.took(VENUE).as_str()),
        (refused, "35=H|1=A1|11=a|54=1|55=X|")
    );
    assert_eq!((gate.books(1).as_str(), gate.is_in_doubt()), ("free 400.00, held 600.00", true));
    gate.says(VENUE, "35=8|11=a|37=O|150=I|39=8|14=0|151=0|");
    assert!(gate.took(0).contains("|58=not sent: the venue does not know it|103=99|150=8|"));
    assert_eq!((gate.books(1).as_str(), gate.is_in_doubt()), ("free 1000.00", false));
}
