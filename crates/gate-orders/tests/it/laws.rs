//! The laws, for orders and venues that nobody thought of.

use proptest::collection::vec;
use proptest::prelude::*;

use super::model::{Happened, amounts};
use super::*;

const FIRST: (i128, i128) = (50_000, 101_003);

fn small(mantissa: i128, places: u8) -> Decimal {
    Decimal::new(i64::try_from(mantissa).unwrap(), places).unwrap()
}

fn size(quantity: i128, price: i128) -> Size {
    Size::Quantity { quantity: small(quantity, 3), price: small(price, 4) }
}

fn event(happened: Happened) -> Event {
    match happened {
        Happened::Sent { number, quantity, price } => {
            Event::Sent(Version { number, size: size(quantity, price) })
        }
        Happened::Accepted { number } => Event::Accepted { number, size: None },
        Happened::Refused { number } => Event::Refused { number },
        Happened::Restated { quantity, price } => Event::Restated(size(quantity, price)),
        Happened::Fill { id, quantity, price } => {
            let (quantity, price) = (small(quantity, 3), small(price, 4));
            Event::Executed(Execution { id: ExecId(id), quantity, price, check: None })
        }
        Happened::Amended { id, names, at, quantity, price } => {
            let new = (quantity != 0).then(|| (small(quantity, 3), small(price, 4)));
            Event::Amended(Amendment { at, new, ..bust(id, names) })
        }
        Happened::Filled => Event::Filled,
        Happened::Closed => Event::Closed,
    }
}

fn start() -> Order {
    let first = Version { number: 1, size: size(FIRST.0, FIRST.1) };
    Order::open(&[leg(1, "USD"), leg(2, "count")], decimal("1"), &first).unwrap()
}

fn play(order: &mut Order, events: &[Happened]) {
    for happened in events {
        // A replace after the close and an answer to nothing are refused: that is no change.
        let _ = order.apply(&event(*happened));
    }
}

/// What an order has: hold and all lines, of both legs.
fn found(order: &Order) -> Vec<[i64; 6]> {
    order.amounts().map(|(_, amounts)| lines(&amounts)).collect()
}

/// Executions, corrections and busts; what an amendment names is an execution or amendment with a smaller id, which may never come.
fn facts(many: usize) -> impl Strategy<Value = Vec<Happened>> {
    let one =
        (0_u8..3, 1_i128..20_000, 90_000_i128..110_000, any::<prop::sample::Index>(), 0_u64..4);
    vec(one, 1..many).prop_map(|all| {
        let fact = |(id, (kind, quantity, price, names, at)): (
            usize,
            (u8, _, _, prop::sample::Index, _),
        )| {
            let (names, id) = (names.index(id.max(1)) as u128, id as u128);
            match kind {
                0 if id > 0 => Happened::Amended { id, names, at, quantity: 0, price: 0 },
                1 if id > 0 => Happened::Amended { id, names, at, quantity, price },
                _ => Happened::Fill { id, quantity, price },
            }
        };
        all.into_iter().enumerate().map(fact).collect()
    })
}

/// Replaces, their answers, restatements and at most one end.
fn controls() -> impl Strategy<Value = Vec<Happened>> {
    let one = (0_u8..4, 2_u64..6, 1_i128..100_000, 90_000_i128..110_000);
    let end = prop_oneof![Just(None), Just(Some(Happened::Filled)), Just(Some(Happened::Closed))];
    (vec(one, 0..12), end, 0_usize..12).prop_map(|(all, end, end_at)| {
        let (mut sent, mut controls) = (1, Vec::new());
        for (at, (kind, number, quantity, price)) in all.into_iter().enumerate() {
            controls.extend(end.filter(|_| at == end_at));
            // After the end there are only answers.
            let may_change = end.is_none() || at < end_at;
            controls.push(match kind {
                0 | 1 if may_change => {
                    sent += 1;
                    Happened::Sent { number: sent, quantity, price }
                }
                2 if number > sent && may_change => Happened::Restated { quantity, price },
                2 => Happened::Accepted { number },
                _ => Happened::Refused { number },
            });
        }
        controls
    })
}

/// Both in one list, each in its order.
fn merged(facts: &[Happened], controls: &[Happened], picks: &[bool]) -> Vec<Happened> {
    let (mut facts, mut controls) = (facts.iter(), controls.iter());
    let mut merged = Vec::new();
    for pick in picks.iter().cycle().take(facts.len() + controls.len()) {
        let next = if *pick {
            facts.next().or_else(|| controls.next())
        } else {
            controls.next().or_else(|| facts.next())
        };
        merged.extend(next);
    }
    merged
}

fn picks() -> impl Strategy<Value = Vec<bool>> {
    vec(any::<bool>(), 7..23)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// After each event; with each event twice, through its record, and from the state's bytes.
    #[test]
    fn an_order_is_what_the_list_of_its_events_makes(facts in facts(24), controls in controls(), picks in picks()) {
        let events = merged(&facts, &controls, &picks);
        let (mut order, mut replayed) = (start(), start());
        for (at, happened) in events.iter().enumerate() {
            let event = event(*happened);
            let effect = order.apply(&event);
            if effect.is_ok_and(|effect| effect.changed) {
                let mut record = Vec::new();
                event.encode(&mut record);
                replayed.apply(&Event::decode(&record).unwrap()).unwrap();
            }
            let is_fact = matches!(event, Event::Executed(_) | Event::Amended(_));
            prop_assert!(effect.is_ok() || !is_fact, "{event:?}: {effect:?}");
            let expected = amounts(FIRST, &events[..=at]);
            for (found, expected) in found(&order).iter().zip(expected) {
                let found = found.map(i128::from);
                prop_assert_eq!(&found[..4], &expected, "{:?}", &events[..=at]);
                prop_assert_eq!(&found[4..], &[0, 0]);
            }
            let state = bytes(&order);
            prop_assert_eq!(&state, &bytes(&replayed));
            if is_fact {
                play(&mut order, &[*happened, facts[0]]);
                prop_assert_eq!(&state, &bytes(&order));
            }
            order = Order::decode(&state).unwrap();
            prop_assert_eq!(&state, &bytes(&order));
        }
    }

    #[test]
    fn executions_end_alike_in_any_order(
        (facts, shuffled) in facts(24).prop_flat_map(|facts| (Just(facts.clone()), Just(facts).prop_shuffle())),
        controls in controls(),
        picks in (picks(), picks()),
        closed: bool,
    ) {
        // All before or all after the same controls: the same bytes.
        let (mut one, mut other) = (start(), start());
        if closed {
            play(&mut one, &controls);
            play(&mut other, &controls);
        }
        play(&mut one, &facts);
        play(&mut other, &shuffled);
        prop_assert_eq!(bytes(&one), bytes(&other));
        // Between them wherever they come: as much is booked.
        let (mut one, mut other) = (start(), start());
        play(&mut one, &merged(&facts, &controls, &picks.0));
        play(&mut other, &merged(&shuffled, &controls, &picks.1));
        for (one, other) in one.amounts().zip(other.amounts()) {
            prop_assert_eq!(one.1.booked(), other.1.booked());
        }
    }

    /// Some of the facts are heard of another order, which was this one.
    #[test]
    fn what_is_merged_counts_as_if_the_order_had_heard_it(facts in facts(24), picks in picks()) {
        let (mut order, mut all) = (start(), start());
        let mut other = Order::unknown(order.legs(), decimal("1")).unwrap();
        for (fact, own) in facts.iter().zip(picks.iter().cycle()) {
            play(if *own { &mut order } else { &mut other }, &[*fact]);
            play(&mut all, &[*fact]);
        }
        order.merge(&mut other).unwrap();
        prop_assert_eq!(bytes(&order), bytes(&all));
    }

    #[test]
    fn a_refused_replace_leaves_no_trace(
        facts in facts(12), controls in controls(), picks in picks(),
        quantity in 1_i128..1_000_000, price in 1_i128..1_000_000,
        from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(),
    ) {
        // A replace that waits keeps a filled order open, as it should.
        let controls: Vec<_> = controls.into_iter().filter(|one| *one != Happened::Filled).collect();
        let events = merged(&facts, &controls, &picks);
        let (from, to) = (from.index(events.len() + 1), to.index(events.len() + 1));
        let (from, to) = (from.min(to), from.max(to));
        // Above all others: an answer to a later replace would answer it, too.
        let sent = Happened::Sent { number: 99, quantity, price };
        let (mut with, mut without) = (start(), start());
        play(&mut without, &events);
        play(&mut with, &events[..from]);
        play(&mut with, &[sent]);
        play(&mut with, &events[from..to]);
        play(&mut with, &[Happened::Refused { number: 99 }]);
        play(&mut with, &events[to..]);
        prop_assert_eq!(bytes(&with), bytes(&without));
    }

    /// Fills at the limit: never a micro above the first hold, and all of it in the end.
    #[test]
    fn a_thousand_fills_cost_what_one_costs(parts in vec(1_i64..1_000_000, 1_000), price in 1_i64..1_000_000_000, places in 0_u8..=9) {
        let (price, quantity) = (Decimal::new(price, places).unwrap(), |mantissa| Decimal::new(mantissa, 9).unwrap());
        let first = Version { number: 1, size: Size::Quantity { quantity: quantity(parts.iter().sum()), price } };
        let mut order = Order::open(&[leg(1, "USD")], decimal("1"), &first).unwrap();
        let hold = first_leg(&order).hold.get();
        let fill = |(id, part)| Event::Executed(Execution { id: ExecId(id), quantity: quantity(part), price, check: None });
        let fills: Vec<Event> = (0..).zip(parts).map(fill).collect();
        for fill in &fills {
            prop_assert!(order.apply(fill).unwrap().changed);
            let [left, settled, rest @ ..] = lines(&first_leg(&order));
            prop_assert_eq!((left + settled, rest), (hold, [0; 4]));
        }
        for fill in &fills {
            prop_assert!(!order.apply(fill).unwrap().changed);
        }
        prop_assert_eq!(first_leg(&order).hold.get(), 0);
    }

    /// A venue whose reports have sums, of which some are lost, come late, or after the close: nothing is missed, and once they have come
    /// nothing is inferred.
    #[test]
    fn sums_find_what_was_missed(fills in vec((1_i64..1_000, 1_i64..1_000, any::<bool>()), 1..20), picks in picks(), closed: bool) {
        let (mut cum, mut cost) = (0, 0);
        let mut reports = Vec::new();
        for (id, (quantity, price, is_lost)) in (0..).zip(fills) {
            (cum, cost) = (cum + quantity, cost + quantity * price);
            // Nine places, rounded up.
            let average = Decimal::new((cost * 1_000_000_000 + cum - 1) / cum, 9);
            let check = Check { quantity: Decimal::new(cum, 0).unwrap(), price: average };
            let (quantity, price) = (Decimal::new(quantity, 0).unwrap(), Decimal::new(price, 0).unwrap());
            reports.push((is_lost, Execution { id: ExecId(id), quantity, price, check: Some(check) }));
        }
        let (lost, mut come): (Vec<_>, Vec<_>) = reports.into_iter().partition(|report| report.0);
        let size = Size::Quantity { quantity: decimal("20000"), price: decimal("1000") };
        let mut order = Order::open(&[leg(1, "USD"), leg(2, "count")], decimal("1"), &Version { number: 1, size }).unwrap();
        let last = come.last().map(|last| last.1.check.unwrap());
        if picks[0] { come.reverse(); }
        for report in come { order.apply(&Event::Executed(report.1)).unwrap(); }
        if closed { order.apply(&Event::Closed).unwrap(); }
        let known: i64 = last.map_or(0, |last| last.quantity.mantissa());
        let count = order.amounts().nth(1).unwrap().1;
        prop_assert_eq!(count.booked().unwrap().get(), known);
        for report in lost { order.apply(&Event::Executed(report.1)).unwrap(); }
        let [hold, settled, over, late, inferred, _] = lines(&first_leg(&order));
        prop_assert_eq!((settled + late, over, inferred), (cost * 1_000_000, 0, 0));
        prop_assert_eq!(hold == 0, closed);
        if closed {
            // What the sums had told of is not late: at most the rounding of AvgPx is.
            let [_, settled, ..] = lines(&order.amounts().nth(1).unwrap().1);
            prop_assert_eq!(settled, known);
        }
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(facts in facts(40), controls in controls(), picks in picks(), cut: prop::sample::Index, flip: u8, random in vec(any::<u8>(), 0..200)) {
        let mut order = start();
        play(&mut order, &merged(&facts, &controls, &picks));
        let state = bytes(&order);
        let at = cut.index(state.len());
        prop_assert!(Order::decode(&state[..at]).is_err());
        let mut damaged = state.clone();
        damaged[at] ^= flip;
        for bytes in [&damaged, &random] {
            let _ = Event::decode(bytes);
            if let Ok(mut order) = Order::decode(bytes) {
                prop_assert!(found(&order).iter().flatten().all(|amount| *amount >= 0));
                play(&mut order, &facts);
                prop_assert!(found(&order).iter().flatten().all(|amount| *amount >= 0));
            }
        }
    }
}
