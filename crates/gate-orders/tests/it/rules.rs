//! The rules, a table each: every step with the amounts after it.

use super::*;
use gate_orders::Event::{
    Accepted, Amended, Checked, Closed, Executed, Filled, Refused, Restated, Sent,
};
use gate_orders::{Alarm, PENDING_MAX, Phase, Refusal, Standing};

/// A step, its amounts in cents (hold, settled, over_settled, late, inferred, unknown_order), and its alarm.
type Step = (Event, [i64; 6], Option<Alarm>);

fn play(name: &str, mut order: Order, steps: &[Step]) -> Order {
    for (at, (event, cents, alarm)) in steps.iter().enumerate() {
        let effect = order.apply(event).unwrap();
        let found = lines(&first_leg(&order));
        assert_eq!(found, cents.map(|cents| cents * 10_000), "{name}, step {at}: {event:?}");
        assert_eq!(effect.alarm, *alarm, "{name}, step {at}");
        // What is repeated changes nothing, and what was kept comes back.
        let before = bytes(&order);
        assert!(!order.apply(event).is_ok_and(|effect| effect.changed), "{name}, step {at} twice");
        assert_eq!(bytes(&order), before, "{name}, step {at} twice");
        let back = Order::decode(&before).unwrap();
        assert_eq!(bytes(&back), before, "{name}, step {at}");
        assert!(back.amounts().eq(order.amounts()), "{name}, step {at}: read back");
        let mut record = Vec::new();
        event.encode(&mut record);
        assert_eq!(Event::decode(&record).as_ref(), Ok(event), "{name}, step {at}");
    }
    order
}

fn with(execution: Execution, check: Option<Check>) -> Event {
    Executed(Execution { check, ..execution })
}

fn leaving(amendment: Amendment, leaves: &str) -> Event {
    Amended(Amendment { leaves: Some(decimal(leaves)), ..amendment })
}

#[test]
#[rustfmt::skip]
fn executions() {
    play("cheaper, dearer, late", opened("100", "10"), &[
        (fill(1, "40", "9"), [60000, 36000, 0, 0, 0, 0], None),
        (fill(2, "50", "12"), [10000, 96000, 0, 0, 0, 0], None),
        (fill(3, "10", "12"), [0, 100_000, 8000, 0, 0, 0], None),
        (Filled, [0, 100_000, 8000, 0, 0, 0], None),
        (fill(4, "1", "10"), [0, 100_000, 8000, 1000, 0, 0], None),
        (Amended(bust(5, 4)), [0, 100_000, 8000, 0, 0, 0], None),
        (Amended(bust(6, 2)), [0, 48000, 0, 0, 0, 0], None),
    ]);
    play("an order nobody opened", Order::unknown(&[leg(7, "USD")], decimal("1")).unwrap(), &[
        (fill(1, "10", "10"), [0, 0, 0, 0, 0, 10000], None),
        (leaving(bust(2, 1), "10"), [0; 6], None),
        (Restated(at("20", "10")), [20000, 0, 0, 0, 0, 0], None),
        (fill(3, "10", "10"), [10000, 0, 0, 0, 0, 10000], None),
        (Closed, [0, 0, 0, 0, 0, 10000], None),
        (fill(4, "1", "10"), [0, 0, 0, 0, 0, 11000], None),
    ]);
    play("known id, other content: the difference by CumQty", opened("100", "10"), &[
        (fill(1, "40", "10"), [60000, 40000, 0, 0, 0, 0], None),
        (with(execution(1, "50", "10"), sums("50", "10")), [50000, 40000, 0, 0, 10000, 0], Some(Alarm::OtherContent)),
        (Amended(bust(2, 1)), [90000, 0, 0, 0, 10000, 0], None),
        (Amended(Amendment { check: sums("30", "10"), ..bust(2, 3) }), [70000, 0, 0, 0, 30000, 0], Some(Alarm::OtherContent)),
    ]);
}

#[test]
#[rustfmt::skip]
fn replaces() {
    play("the worst of all versions, then the one that is answered", opened("100", "10"), &[
        (fill(1, "50", "10"), [50000, 50000, 0, 0, 0, 0], None),
        (Sent(version(2, "80", "12")), [50000, 50000, 0, 0, 0, 0], None),
        (Sent(version(3, "120", "11")), [77000, 50000, 0, 0, 0, 0], None),
        (Sent(version(4, "50", "99")), [77000, 50000, 0, 0, 0, 0], None),
        (Accepted { number: 3, size: None }, [77000, 50000, 0, 0, 0, 0], None),
        (Accepted { number: 3, size: None }, [77000, 50000, 0, 0, 0, 0], None),
        (Accepted { number: 2, size: None }, [36000, 50000, 0, 0, 0, 0], None),
        (Accepted { number: 2, size: None }, [36000, 50000, 0, 0, 0, 0], None),
        (Refused { number: 4 }, [36000, 50000, 0, 0, 0, 0], None),
        (Accepted { number: 5, size: Some(at("60", "9")) }, [9000, 50000, 0, 0, 0, 0], None),
        (fill(2, "10", "10"), [0, 59000, 1000, 0, 0, 0], None),
        (Restated(at("70", "9")), [9000, 60000, 0, 0, 0, 0], None),
        (Closed, [0, 60000, 0, 0, 0, 0], None),
        (Accepted { number: 9, size: Some(at("500", "9")) }, [0, 60000, 0, 0, 0, 0], None),
    ]);
    play("a later replace is accepted first: the earlier one stays until it is answered", opened("10", "10"), &[
        (Sent(version(2, "100", "10")), [100_000, 0, 0, 0, 0, 0], None),
        (Sent(version(3, "20", "10")), [100_000, 0, 0, 0, 0, 0], None),
        (Accepted { number: 3, size: None }, [100_000, 0, 0, 0, 0, 0], None),
        (Accepted { number: 2, size: None }, [100_000, 0, 0, 0, 0, 0], None),
    ]);
    play("filled while a replace is pending: its rest stays", opened("100", "10"), &[
        (Sent(version(2, "150", "10")), [150_000, 0, 0, 0, 0, 0], None),
        (fill(1, "100", "10"), [50000, 100_000, 0, 0, 0, 0], None),
        (Filled, [50000, 100_000, 0, 0, 0, 0], None),
        (Refused { number: 2 }, [0, 100_000, 0, 0, 0, 0], None),
        (fill(2, "1", "10"), [0, 100_000, 0, 1000, 0, 0], None),
    ]);
    play("filled, then replaced: it lives", opened("100", "10"), &[
        (Sent(version(2, "150", "10")), [150_000, 0, 0, 0, 0, 0], None),
        (fill(1, "100", "10"), [50000, 100_000, 0, 0, 0, 0], None),
        (Filled, [50000, 100_000, 0, 0, 0, 0], None),
        (Accepted { number: 2, size: None }, [50000, 100_000, 0, 0, 0, 0], None),
        (fill(2, "50", "10"), [0, 150_000, 0, 0, 0, 0], None),
        (Closed, [0, 150_000, 0, 0, 0, 0], None),
    ]);
    play("missed without a price, then replaced at more: what is missed may have cost that", opened("100", "10"), &[
        (Checked(Check { quantity: decimal("10"), price: None }), [90000, 0, 0, 0, 10000, 0], Some(Alarm::Missed)),
        (Sent(version(2, "100", "12")), [108_000, 0, 0, 0, 12000, 0], None),
        (Refused { number: 2 }, [90000, 0, 0, 0, 10000, 0], None),
    ]);
    play("replaced to less than what is executed", opened("100", "10"), &[
        (Sent(version(2, "30", "10")), [100_000, 0, 0, 0, 0, 0], None),
        (fill(1, "40", "10"), [60000, 40000, 0, 0, 0, 0], None),
        (Accepted { number: 2, size: Some(at("0", "10")) }, [0, 40000, 0, 0, 0, 0], Some(Alarm::BadReport)),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_credit_counts_whatever_is_said_to_be_left() {
    play("what is left cannot be counted", opened("100", "10"), &[
        (fill(1, "100", "10"), [0, 100_000, 0, 0, 0, 0], None),
        (Filled, [0, 100_000, 0, 0, 0, 0], None),
        (leaving(bust(2, 1), "999999999999999999"), [0; 6], Some(Alarm::BadReport)),
    ]);
}

#[test]
#[rustfmt::skip]
fn busts_and_corrections() {
    play("a bust frees, and the order is open for it again", opened("100", "10"), &[
        (fill(1, "60", "9"), [40000, 54000, 0, 0, 0, 0], None),
        (Amended(bust(2, 1)), [100_000, 0, 0, 0, 0, 0], None),
        (fill(1, "60", "9"), [100_000, 0, 0, 0, 0, 0], None),
    ]);
    play("a correction of a correction, in any order", opened("100", "10"), &[
        (Amended(correction(3, 2, "10", "8")), [90000, 8000, 0, 0, 0, 0], Some(Alarm::UnknownReference)),
        (Amended(correction(2, 1, "20", "9")), [90000, 8000, 0, 0, 0, 0], None),
        (with(execution(1, "30", "9"), sums("30", "9")), [90000, 8000, 0, 0, 0, 0], None),
        (Amended(Amendment { at: 1, ..correction(4, 1, "20", "10") }), [80000, 20000, 0, 0, 0, 0], None),
        (Amended(bust(5, 4)), [100_000, 0, 0, 0, 0, 0], None),
    ]);
    play("a closed order stays closed, unless something is left", opened("100", "10"), &[
        (fill(1, "50", "10"), [50000, 50000, 0, 0, 0, 0], None),
        (fill(2, "50", "10"), [0, 100_000, 0, 0, 0, 0], None),
        (Filled, [0, 100_000, 0, 0, 0, 0], None),
        (Amended(bust(3, 1)), [0, 50000, 0, 0, 0, 0], None),
        (leaving(bust(4, 2), "0"), [0; 6], None),
        (fill(5, "10", "10"), [0, 0, 0, 10000, 0, 0], None),
        (leaving(bust(6, 5), "20"), [20000, 0, 0, 0, 0, 0], None),
        (fill(7, "20", "10"), [0, 20000, 0, 0, 0, 0], None),
    ]);
    play("corrected after the close: more is late, less was settled", opened("100", "10"), &[
        (fill(1, "50", "10"), [50000, 50000, 0, 0, 0, 0], None),
        (Closed, [0, 50000, 0, 0, 0, 0], None),
        (Amended(correction(2, 1, "50", "11")), [0, 50000, 0, 5000, 0, 0], None),
        (Amended(correction(3, 2, "40", "9")), [0, 36000, 0, 0, 0, 0], None),
        (Amended(correction(4, 3, "60", "10")), [0, 50000, 0, 10000, 0, 0], None),
        (Restated(at("100", "10")), [40000, 50000, 0, 10000, 0, 0], None),
        (Amended(bust(5, 4)), [100_000, 0, 0, 0, 0, 0], None),
    ]);
    play("lives again: what is corrected then is not late, and what was late covers nothing", opened("100", "10"), &[
        (fill(1, "50", "10"), [50000, 50000, 0, 0, 0, 0], None),
        (Closed, [0, 50000, 0, 0, 0, 0], None),
        (Amended(correction(2, 1, "50", "9")), [0, 45000, 0, 0, 0, 0], None),
        (fill(3, "10", "10"), [0, 45000, 0, 10000, 0, 0], None),
        (Restated(at("70", "10")), [10000, 45000, 0, 10000, 0, 0], None),
        (Amended(correction(4, 2, "50", "12")), [10000, 55000, 5000, 10000, 0, 0], None),
    ]);
    play("a chain of which the first and the last were known apart", opened("100", "10"), &[
        (Amended(correction(3, 2, "10", "9")), [90000, 9000, 0, 0, 0, 0], Some(Alarm::UnknownReference)),
        (Closed, [0, 9000, 0, 0, 0, 0], None),
        (fill(1, "10", "10"), [0, 9000, 0, 10000, 0, 0], None),
        (Amended(correction(2, 1, "10", "8")), [0, 9000, 0, 0, 0, 0], None),
    ]);
    play("an execution and a correction of the same id: the execution is meant", opened("100", "10"), &[
        (fill(1, "10", "10"), [90000, 10000, 0, 0, 0, 0], None),
        (fill(2, "20", "10"), [70000, 30000, 0, 0, 0, 0], None),
        (Amended(correction(2, 1, "5", "10")), [75000, 25000, 0, 0, 0, 0], None),
        (Amended(bust(3, 2)), [95000, 5000, 0, 0, 0, 0], None),
    ]);
    let mut order = opened("100", "10");
    for (event, changed, alarm) in [
        (Amended(bust(2, 1)), true, Some(Alarm::UnknownReference)),
        (Amended(bust(2, 3)), false, Some(Alarm::OtherContent)),
        (Amended(bust(2, 1)), false, None),
    ] {
        assert_eq!(order.apply(&event), Ok(gate_orders::Effect { changed, alarm }), "{event:?}");
    }
    let circle = [correction(1, 2, "1", "10"), correction(2, 1, "2", "10")];
    play("corrections that name each other, and themselves", opened("100", "10"), &[
        (Amended(circle[0]), [99000, 1000, 0, 0, 0, 0], Some(Alarm::UnknownReference)),
        (Amended(circle[1]), [98000, 2000, 0, 0, 0, 0], None),
        (Amended(correction(3, 3, "1", "10")), [97000, 3000, 0, 0, 0, 0], Some(Alarm::UnknownReference)),
        (Amended(bust(3, 3)), [98000, 2000, 0, 0, 0, 0], None),
    ]);
}

#[test]
#[rustfmt::skip]
fn sums_of_the_venue() {
    play("a missed fill is inferred, and becomes settled", opened("100", "10"), &[
        (with(execution(2, "10", "10"), sums("40", "9.5")), [60000, 10000, 0, 0, 28000, 0], Some(Alarm::Missed)),
        (Checked(sums("30", "9").unwrap()), [60000, 10000, 0, 0, 28000, 0], None),
        (with(execution(3, "10", "10"), sums("50", "9.6")), [50000, 20000, 0, 0, 28000, 0], None),
        (Closed, [0, 20000, 0, 0, 28000, 0], None),
        (fill(1, "30", "9.5"), [0, 48000, 0, 500, 0, 0], None),
    ]);
    play("no AvgPx: at the worst price", opened("100", "10"), &[
        (Sent(version(2, "100", "12")), [120_000, 0, 0, 0, 0, 0], None),
        (Checked(Check { quantity: decimal("10"), price: Some(decimal("0")) }), [108_000, 0, 0, 0, 12000, 0], Some(Alarm::Missed)),
        (fill(1, "10", "11"), [108_000, 11000, 0, 0, 0, 0], None),
    ]);
    play("a bust lowers what was reported before it", opened("100", "10"), &[
        (with(execution(1, "50", "10"), sums("50", "10")), [50000, 50000, 0, 0, 0, 0], None),
        (Amended(Amendment { check: sums("0", "0"), ..bust(2, 1) }), [100_000, 0, 0, 0, 0, 0], None),
        (with(execution(3, "50", "10"), sums("50", "10")), [50000, 50000, 0, 0, 0, 0], None),
    ]);
    play("a bust of an execution that was missed", opened("100", "10"), &[
        (Checked(sums("50", "10").unwrap()), [50000, 0, 0, 0, 50000, 0], Some(Alarm::Missed)),
        (Amended(Amendment { check: sums("20", "10"), ..bust(2, 1) }), [80000, 0, 0, 0, 20000, 0], Some(Alarm::UnknownReference)),
        (with(execution(1, "30", "10"), sums("50", "10")), [80000, 0, 0, 0, 20000, 0], None),
    ]);
    play("sums that cannot be used stop no execution", opened("100", "10"), &[
        (with(execution(1, "50", "10"), sums("-1", "10")), [50000, 50000, 0, 0, 0, 0], Some(Alarm::BadReport)),
        (with(execution(2, "50", "10"), sums("999999999999999999", "9999999")), [0, 100_000, 0, 0, 0, 0], Some(Alarm::BadReport)),
    ]);
}

#[test]
fn legs_count_money_at_their_scale_or_quantity() {
    let legs = [leg(1, "USD"), leg(2, "USDn"), leg(3, "count")];
    let mut order = Order::open(&legs, decimal("0.5"), &version(1, "3.5", "0.0000001")).unwrap();
    let found =
        |order: &Order| order.amounts().map(|(_, amounts)| lines(&amounts)).collect::<Vec<_>>();
    assert_eq!(found(&order), [[1, 0, 0, 0, 0, 0], [175, 0, 0, 0, 0, 0], [4, 0, 0, 0, 0, 0]]);
    order.apply(&fill(1, "2", "-0.0000003")).unwrap();
    let settled_175_of_300 = [75, 175, 125, 0, 0, 0];
    assert_eq!(found(&order), [[0, 1, 0, 0, 0, 0], settled_175_of_300, [2, 2, 0, 0, 0, 0]]);
    let size = Size::Cash(decimal("20"));
    let cash = Order::open(&legs[..1], decimal("1"), &Version { number: 1, size }).unwrap();
    play(
        "a cash amount",
        cash,
        &[
            (fill(1, "3", "5"), [500, 1500, 0, 0, 0, 0], None),
            (
                Checked(Check { quantity: decimal("4"), price: None }),
                [0, 1500, 0, 0, 500, 0],
                Some(Alarm::Missed),
            ),
            (fill(2, "1", "4"), [100, 1900, 0, 0, 0, 0], None),
            (Closed, [0, 1900, 0, 0, 0, 0], None),
        ],
    );
}

/// What a list of orders shows, also of those that ask for no money.
#[test]
fn an_order_tells_what_its_venue_has_and_how_far_it_came() {
    let mut order = Order::open(&[], decimal("1"), &version(1, "10.50", "0")).unwrap();
    let mut told = |event: Option<Event>, expected: [&str; 4]| {
        assert!(event.is_none_or(|event| order.apply(&event).unwrap().changed), "{event:?}");
        let mut bytes = Vec::new();
        order.encode(&mut bytes);
        let Standing { size, executed, open } = Order::decode(&bytes).unwrap().standing();
        let Some(Size::Quantity { quantity, price }) = size else { panic!("{size:?}") };
        let found = [Some(quantity), Some(price), executed, open];
        let found = found.map(|one| one.map_or("none".to_owned(), |one| one.to_string()));
        assert_eq!(found, expected, "{event:?}");
    };
    told(None, ["10.5", "0", "0", "10.5"]);
    told(Some(Executed(execution(1, "0.25", "7"))), ["10.5", "0", "0.25", "10.25"]);
    let check = Check { quantity: decimal("4"), price: None };
    told(Some(Checked(check)), ["10.5", "0", "4", "6.5"]);
    told(Some(Sent(version(2, "20", "3"))), ["10.5", "0", "4", "6.5"]);
    told(Some(Accepted { number: 2, size: None }), ["20", "3", "4", "16"]);
    told(Some(Closed), ["20", "3", "4", "0"]);
    let cash = Version { number: 1, size: Size::Cash(decimal("5")) };
    let standing = Order::open(&[], decimal("1"), &cash).unwrap().standing();
    assert_eq!((standing.size, standing.open), (Some(cash.size), None));
    assert_eq!(Order::unknown(&[], decimal("1")).unwrap().standing().size, None);
}

#[test]
#[rustfmt::skip]
fn what_cannot_be_counted_is_refused_with_its_reason() {
    let (usd, count) = (leg(1, "USD"), leg(2, "count"));
    let nine: Vec<Leg> = (0..9).map(|budget| Leg { budget, ..usd }).collect();
    let (cash, huge) = (Size::Cash(decimal("5")), at("999999999999999999", "999999999"));
    for (legs, multiplier, size, expected) in [
        (&nine[..], "1", at("1", "1"), Refusal::Legs(9)),
        (&[usd, count, usd], "1", at("1", "1"), Refusal::BudgetTwice(1)),
        (&[usd, leg(3, "EURn")], "1", at("1", "1"), Refusal::Currencies(usd.unit, leg(3, "EURn").unit)),
        (&[usd], "0", at("1", "1"), Refusal::Multiplier(decimal("0"))),
        (&[usd], "-1", at("1", "1"), Refusal::Multiplier(decimal("-1"))),
        (&[usd], "1", at("0", "1"), Refusal::Quantity(decimal("0"))),
        (&[usd], "1", Size::Cash(decimal("-1")), Refusal::Quantity(decimal("-1"))),
        (&[count, usd], "1", at("1", "0"), Refusal::Price(decimal("0"))),
        (&[count], "1", at("1", "-0.1"), Refusal::Price(decimal("-0.1"))),
        (&[usd, count], "1", cash, Refusal::CashQuantity(2)),
        (&[usd], "1", huge, Refusal::Range),
        (&[usd], "1", at("4294967296", "2147.483648"), Refusal::Range),
    ] {
        let found = Order::open(legs, decimal(multiplier), &Version { number: 1, size });
        assert_eq!(found.map(|order| order.legs().len()), Err(expected), "{size:?}");
    }
    assert!(Order::open(&[usd], decimal("1"), &version(1, "60247241209", "153.092023")).is_ok());
    assert!(Order::open(&[count], decimal("1"), &version(1, "1", "0")).is_ok());

    let mut order = opened("100", "10");
    let before = bytes(&order);
    let long =
        Execution { quantity: decimal("999999999999999999"), ..execution(1, "1", "999999999") };
    for (event, expected) in [
        (fill(1, "-1", "10"), Refusal::Quantity(decimal("-1"))),
        (Executed(long), Refusal::Range),
        (Amended(correction(2, 1, "-1", "10")), Refusal::Quantity(decimal("-1"))),
        (Amended(correction(2, 1, "9223372036854", "10")), Refusal::Range),
        (Sent(version(2, "100", "0")), Refusal::Price(decimal("0"))),
        (Sent(version(2, "9223372036854", "10")), Refusal::Range),
        (Accepted { number: 2, size: None }, Refusal::UnknownVersion(2)),
        (Accepted { number: 2, size: Some(at("1", "0")) }, Refusal::Price(decimal("0"))),
        (Restated(at("0", "1")), Refusal::Quantity(decimal("0"))),
    ] {
        assert_eq!(order.apply(&event), Err(expected), "{event:?}");
        assert_eq!(bytes(&order), before, "{event:?}");
    }
    for number in 2..2 + PENDING_MAX as u64 {
        assert!(order.apply(&Sent(version(number, "100", "10"))).unwrap().changed);
    }
    let other = order.apply(&Sent(version(2, "100", "11")));
    assert_eq!(other, Err(Refusal::OtherVersion(2)));
    assert_eq!(order.apply(&Sent(version(99, "100", "10"))), Err(Refusal::Pending));
    order.apply(&Closed).unwrap();
    assert_eq!(
        (order.phase(), order.ask(&version(99, "1", "1")).err()),
        (Phase::Closed, Some(Refusal::Closed))
    );
}

/// What is heard of an order and of another one, which is then found to be the same; its amounts then, and where it is in its life.
#[test]
#[rustfmt::skip]
fn what_is_of_an_order_leaves_another_one() {
    let checked = |quantity, price| Checked(sums(quantity, price).unwrap());
    for (name, own, others, cents, alarm, phase) in [
        ("fills of each, and one of both", vec![fill(1, "10", "9")], vec![fill(1, "10", "9"), fill(2, "20", "9")], [70000, 27000, 0, 0, 0, 0], None, Phase::Open),
        ("one of both, with other content", vec![fill(1, "10", "9")], vec![fill(1, "11", "9")], [90000, 9000, 0, 0, 0, 0], Some(Alarm::OtherContent), Phase::Open),
        ("what the one amends the other one has", vec![fill(1, "10", "9")], vec![Amended(correction(2, 1, "20", "8")), fill(3, "10", "9")], [70000, 25000, 0, 0, 0, 0], None, Phase::Open),
        ("a chain", vec![Amended(bust(3, 2))], vec![fill(1, "10", "9"), Amended(correction(2, 1, "20", "8"))], [100_000, 0, 0, 0, 0, 0], None, Phase::Open),
        ("missed by both", vec![checked("30", "9")], vec![fill(1, "10", "9"), checked("40", "9")], [60000, 9000, 0, 0, 27000, 0], None, Phase::Open),
        ("what was missed is found", vec![checked("10", "9")], vec![fill(1, "10", "9")], [90000, 9000, 0, 0, 0, 0], None, Phase::Open),
        ("closed", vec![fill(1, "10", "9"), Closed], vec![fill(2, "10", "9")], [0, 9000, 0, 9000, 0, 0], None, Phase::Closed),
        ("closed, and it was missed", vec![checked("10", "9"), Closed], vec![fill(2, "10", "9")], [0, 9000, 0, 0, 0, 0], None, Phase::Closed),
        ("the other one is filled", vec![], vec![fill(1, "100", "9"), Filled], [0, 90000, 0, 0, 0, 0], None, Phase::Closed),
        ("the other one is filled, and a replace waits", vec![Sent(version(2, "120", "10"))], vec![fill(1, "100", "9"), Filled], [20000, 90000, 0, 0, 0, 0], None, Phase::Filled),
        ("above what it was held for", vec![], vec![fill(1, "100", "12")], [0, 100_000, 20000, 0, 0, 0], None, Phase::Open),
    ] {
        let (mut order, mut other) = (opened("100", "10"), Order::unknown(&[leg(7, "USD")], decimal("1")).unwrap());
        own.iter().for_each(|event| assert!(order.apply(event).is_ok()));
        others.iter().for_each(|event| assert!(other.apply(event).is_ok()));
        assert!(!order.is_void() && !other.is_void());
        assert_eq!(order.merge(&mut other).unwrap().alarm, alarm, "{name}");
        assert_eq!(lines(&first_leg(&order)), cents.map(|cents| cents * 10_000), "{name}");
        assert_eq!((lines(&first_leg(&other)), other.is_void(), order.phase()), ([0; 6], true, phase), "{name}");
        for one in [&order, &other] {
            assert_eq!(bytes(&Order::decode(&bytes(one)).unwrap()), bytes(one), "{name}");
        }
        // Sent again, none of it counts.
        let before = bytes(&order);
        others.iter().filter(|event| !matches!(event, Filled)).for_each(|event| _ = order.apply(event));
        assert_eq!(bytes(&order), before, "{name}");
    }
    let (mut order, mut other) = (opened("100", "10"), Order::unknown(&[leg(7, "USD")], decimal("1")).unwrap());
    for (order, id) in [(&mut order, 1), (&mut other, 2)] {
        order.apply(&fill(id, "1", "9000000000000")).unwrap();
    }
    let before = [bytes(&order), bytes(&other)];
    assert_eq!(order.merge(&mut other), Err(Refusal::Range));
    assert_eq!([bytes(&order), bytes(&other)], before);
}

#[test]
fn an_ask_says_what_a_replace_would_hold_and_changes_nothing() {
    let mut order = opened("100", "10");
    order.apply(&fill(1, "50", "10")).unwrap();
    let before = bytes(&order);
    for (quantity, price, hold) in [("200", "10", 1500), ("60", "10", 500), ("60", "60", 600)] {
        let replace = version(2, quantity, price);
        let asked: Vec<_> = order.ask(&replace).unwrap().collect();
        assert_eq!(lines(&asked[0].1), [hold, 500, 0, 0, 0, 0].map(|units| units * 1_000_000));
        assert_eq!(bytes(&order), before);
        let mut granted = order.clone();
        granted.apply(&Sent(replace)).unwrap();
        assert_eq!(granted.amounts().collect::<Vec<_>>(), asked, "{quantity} at {price}");
    }
}

#[test]
fn a_state_that_no_order_can_have_is_refused() {
    let plain = opened("100", "10");
    let mut waiting = plain.clone();
    waiting.apply(&Sent(version(2, "150", "10"))).unwrap();
    waiting.apply(&Filled).unwrap();
    // Of a state with one leg: the format, the leg's unit, the phase, the version's number.
    let (unit, phase, number) = (14, 27, 28);
    for (name, order, at, byte) in [
        ("another format", &plain, 0, 2),
        ("no unit", &plain, unit, 0),
        ("filled, and nothing waits", &plain, phase, 2),
        ("closed, and a replace waits", &waiting, phase, 3),
        ("no phase", &plain, phase, 4),
        ("a replace with the number of what it replaces", &waiting, number, 2),
    ] {
        let mut state = bytes(order);
        assert!(Order::decode(&state).is_ok());
        state[at] = byte;
        assert!(Order::decode(&state).is_err(), "{name}");
        state.truncate(at);
        let error = Order::decode(&state).unwrap_err();
        assert!(error.at <= at && error.length == at, "{name}: {error}");
    }
}
