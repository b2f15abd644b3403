//! What an order asks of its budgets, and how its client hears that it may not leave. Pure.

use std::fmt;

use fix::Decimal;
use gate_orders::{Leg, LegAmounts, Refusal};
use ledger::{Amount, NamedKind, NamedLeg, NamedRefusal, NamedSay};
use weir_budgets::orders::Unbound;
use wire::Verdict;

use crate::kills::KillScope;

/// Returns what the ledger is asked for: the amounts of all legs of an order, granted together or not at all.
#[must_use]
pub fn ask(key: u128, label: &str, amounts: impl Iterator<Item = (u64, LegAmounts)>) -> NamedSay {
    let leg = |(budget, of): (u64, LegAmounts)| {
        // In the order of `ledger::Line::SPENT`.
        let spent = [of.settled, of.over_settled, of.late, of.inferred, of.unknown_order];
        NamedLeg { budget, amounts: ledger::LegAmounts { hold: of.hold, spent } }
    };
    NamedSay { kind: NamedKind::Ask, key, label: label.into(), legs: amounts.map(leg).collect() }
}

/// Returns what a leg asks for that has these amounts now, and would have those: an ask raises the hold and books nothing, so what it would book
/// elsewhere is held until then.
#[must_use]
pub fn raised(now: LegAmounts, then: LegAmounts) -> LegAmounts {
    let all = |of: &LegAmounts| Some(of.hold.get().saturating_add(of.booked()?.get()));
    let more = all(&then).zip(all(&now)).map_or(i64::MAX, |(then, now)| then.saturating_sub(now));
    LegAmounts { hold: Amount::new(now.hold.get().saturating_add(more.max(0))), ..now }
}

/// Why an order does not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// No budget binds it, or too many.
    Unbound(Unbound),
    /// It cannot be counted.
    Order(Refusal),
    /// What it costs at most cannot be told, for this reason.
    Unpriced(&'static str),
    /// It may be executed at any price, and nobody knows what its symbol costs.
    NoReference,
    /// A budget counts money of another currency than its own (15).
    Currency(Leg),
    /// A budget has less left, or is closed.
    Leg {
        /// The budget.
        leg: Leg,
        /// Which of its limits, or how it is closed.
        why: Verdict,
        /// What it has left.
        left: Amount,
    },
    /// It costs more than the session's `order_value_max`.
    Value(Decimal),
    /// It is larger than the session's `order_quantity_max`.
    Quantity(Decimal),
    /// Its session may not trade it, for this reason.
    Restricted(&'static str),
    /// Orders of its session, account or firm are stopped.
    Killed(KillScope),
    /// A replace names no order of its session.
    NoOrder,
    /// It was sent again, and too late.
    TooOld,
    /// The ledger did not judge it: it is busy, or did not answer in time.
    Unanswered,
    /// Nothing can be sealed.
    Journal,
}

/// Why an order or a replace was refused, as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedFor {
    /// A budget has less left.
    Limit,
    /// A budget is paused, has not begun, or has ended.
    ClosedBudget,
    /// No budget binds it, or too many.
    NoBudget,
    /// What it costs at most cannot be told.
    Unpriced,
    /// It costs more than one order of its session may.
    Value,
    /// It is larger than one order of its session may be.
    Quantity,
    /// Its session may not trade its instrument.
    Restricted,
    /// It may be executed at any price, and nobody knows what its symbol costs.
    NoReference,
    /// Orders of its session, account or firm are stopped.
    Killed,
    /// Its ClOrdID is in use.
    Duplicate,
    /// What it replaces is closed or unknown.
    NoOrder,
    /// It came or was to be sent too late.
    TooLate,
    /// The ledger did not judge it in time.
    Unanswered,
    /// Nothing can be sealed.
    Journal,
    /// There is no room for its ClOrdID.
    NoRoom,
    /// The venue rejected its message.
    Venue,
}

impl Denied {
    /// Returns what the ledger's refusal of an ask with these legs means.
    #[must_use]
    pub fn of(refusal: NamedRefusal, legs: &[Leg]) -> Denied {
        match refusal {
            NamedRefusal::Leg { leg, why, left } => match legs.get(leg) {
                Some(leg) => Denied::Leg { leg: *leg, why, left },
                None => Denied::Unanswered,
            },
            NamedRefusal::Journal => Denied::Journal,
            NamedRefusal::Busy | NamedRefusal::NoDoor | NamedRefusal::Wrong(_) => {
                Denied::Unanswered
            }
        }
    }

    /// As what it is counted.
    #[must_use]
    pub fn counted(self) -> RefusedFor {
        use Verdict::{DayExhausted, Exhausted, PurseEmpty, WindowExhausted};
        match self {
            Denied::Leg {
                why: Exhausted | DayExhausted | WindowExhausted | PurseEmpty, ..
            } => RefusedFor::Limit,
            Denied::Leg { .. } => RefusedFor::ClosedBudget,
            Denied::Order(Refusal::Range) => RefusedFor::Limit,
            Denied::Order(Refusal::Closed) | Denied::NoOrder => RefusedFor::NoOrder,
            Denied::Unbound(_) => RefusedFor::NoBudget,
            Denied::Order(_) | Denied::Unpriced(_) | Denied::Currency(_) => RefusedFor::Unpriced,
            Denied::Value(_) => RefusedFor::Value,
            Denied::Quantity(_) => RefusedFor::Quantity,
            Denied::Restricted(_) => RefusedFor::Restricted,
            Denied::NoReference => RefusedFor::NoReference,
            Denied::Killed(_) => RefusedFor::Killed,
            Denied::TooOld => RefusedFor::TooLate,
            Denied::Unanswered => RefusedFor::Unanswered,
            Denied::Journal => RefusedFor::Journal,
        }
    }

    /// OrdRejReason (103) of the refused order. FIX 4.2 knows only 0 to 8.
    #[must_use]
    pub fn order_reason(self, is_42: bool) -> &'static str {
        match self {
            Denied::Value(_) | Denied::Quantity(_) => "3",
            _ if self.counted() == RefusedFor::Limit => "3",
            Denied::TooOld => "4",
            _ if is_42 => "0",
            Denied::Order(Refusal::Quantity(_)) => "13",
            _ => "99",
        }
    }

    /// CxlRejReason (102) of a refused replace: the order is closed or unknown, or it is a decision of the broker.
    #[must_use]
    pub fn replace_reason(self, is_42: bool) -> &'static str {
        match self {
            Denied::Order(Refusal::Closed) => "0",
            Denied::NoOrder => "1",
            _ if is_42 => "2",
            _ => "99",
        }
    }
}

/// Text (58): the budget, the check, and what is left.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Unbound(unbound) => unbound.fmt(f),
            Denied::Order(refusal) => refusal.fmt(f),
            Denied::Unpriced(why) => f.write_str(why),
            Denied::Currency(Leg { budget, unit }) => {
                write!(f, "budget {budget} counts {unit}: expected an order in that Currency (15)")
            }
            Denied::Value(max) => write!(f, "order_value_max: {max} of this session"),
            Denied::Quantity(max) => write!(f, "order_quantity_max: {max} of this session"),
            Denied::Restricted(why) => f.write_str(why),
            Denied::NoReference => f.write_str("no reference price"),
            Denied::Killed(scope) => write!(f, "orders of this {} are stopped", scope.name()),
            Denied::NoOrder => f.write_str("no order of this session has this OrigClOrdID (41)"),
            Denied::TooOld => f.write_str("sent again too late; send a new order"),
            Denied::Unanswered => f.write_str("the limits were not checked in time, or the order changed meanwhile; send it again"),
            Denied::Journal => f.write_str("the gate cannot record orders at present"),
            Denied::Leg { leg: Leg { budget, unit }, why, left } => {
                let limit = match why {
                    Verdict::Paused => return write!(f, "budget {budget} is paused"),
                    Verdict::NotStarted => return write!(f, "budget {budget} has not begun"),
                    Verdict::Ended => return write!(f, "budget {budget} has ended"),
                    Verdict::DayExhausted => "daily limit",
                    Verdict::WindowExhausted => "limit of a window",
                    Verdict::PurseEmpty => "money in use elsewhere",
                    _ => "limit",
                };
                write!(f, "budget {budget}: {limit}; {} {unit} left", unit.format(*left))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use gate_orders::{Order, Size, Version};
    use ledger::Line;
    use weir_budgets::budgets;
    use weir_budgets::orders::{Bindings, OrderKeys, Side};

    use super::*;

    const FILE: &str = r#"{"id":7,"limit":"5000","orders":{"account":"A1"}}
{"id":9,"unit":"count","limit":"100","orders":{"symbol":"X","side":"buy"}}
"#;

    fn legs() -> Vec<Leg> {
        let lines = budgets::file_of("b.jsonl".as_ref(), FILE.as_bytes()).unwrap().lines;
        let all: Vec<_> = lines.into_iter().map(|line| line.budget).collect();
        let (mut bindings, mut legs) = (Bindings::default(), Vec::new());
        bindings.replace(&all, |_| None);
        let order =
            OrderKeys { account: b"A1", session: b"s", firm: b"", symbol: b"X", side: Side::Buy };
        bindings.index().bind(&order, &mut legs).unwrap();
        legs
    }

    #[test]
    fn an_order_asks_each_of_its_budgets_for_what_it_counts() {
        let number = |text: &[u8]| fix::Decimal::parse(text).unwrap();
        let size = Size::Quantity { quantity: number(b"30"), price: number(b"10.0000001") };
        let order = Order::open(&legs(), number(b"1"), &Version { number: 1, size }).unwrap();
        let said = ask(5, "desk ORD1", order.amounts());
        let held: Vec<(u64, i64)> =
            said.legs.iter().map(|leg| (leg.budget, leg.amounts.hold.get())).collect();
        assert_eq!((said.kind, said.key, &*said.label), (NamedKind::Ask, 5, "desk ORD1"));
        assert_eq!(held, [(7, 300_000_003), (9, 30)], "micros of money, rounded up; pieces");
        let [settled, over_settled, late, inferred, unknown_order] =
            [1, 2, 3, 4, 5].map(Amount::new);
        let hold = Amount::ZERO;
        let all = LegAmounts { hold, settled, over_settled, late, inferred, unknown_order };
        let spent = ask(5, "", [(7, all)].into_iter()).legs[0].amounts.spent;
        let named = Line::SPENT.map(Line::name).into_iter().zip(spent.map(Amount::get));
        let lines = ["settled", "over_settled", "late", "inferred", "unknown_order"];
        assert!(named.eq(lines.into_iter().zip(1..)), "each on its own line");
    }

    /// 103 and 102 as of FIX 4.4, and as of 4.2; 58.
    #[test]
    fn each_refusal_has_its_reason_and_its_text() {
        let leg = |leg, why, left| {
            Denied::of(NamedRefusal::Leg { leg, why, left: Amount::new(left) }, &legs())
        };
        let zero = fix::Decimal::parse(b"0").unwrap();
        for (denied, reason, old, text) in [
            (leg(0, Verdict::Exhausted, 12_500_000), "3", "3", "budget 7: limit; 12.50 USD left"),
            (leg(1, Verdict::DayExhausted, 4), "3", "3", "budget 9: daily limit; 4 count left"),
            (leg(1, Verdict::WindowExhausted, 0), "3", "3", "budget 9: limit of a window; 0 count"),
            (leg(0, Verdict::PurseEmpty, 0), "3", "3", "budget 7: money in use elsewhere; 0"),
            (leg(0, Verdict::Paused, 0), "99", "0", "budget 7 is paused"),
            (leg(0, Verdict::NotStarted, 0), "99", "0", "budget 7 has not begun"),
            (leg(1, Verdict::Ended, 0), "99", "0", "budget 9 has ended"),
            (Denied::Unbound(Unbound::NoBudget), "99", "0", "no budget"),
            (
                Denied::Unbound(Unbound::TooMany(9)),
                "99",
                "0",
                "9 budgets bind the order, at most 8",
            ),
            (Denied::NoOrder, "99", "0", "no order of this session"),
            (Denied::NoReference, "99", "0", "no reference price"),
            (Denied::Order(Refusal::Closed), "99", "0", "the order is closed"),
            (Denied::TooOld, "4", "4", "sent again too late"),
            (Denied::Killed(KillScope::Firm), "99", "0", "orders of this firm are stopped"),
            (Denied::Value(zero), "3", "3", "order_value_max: 0 of this session"),
            (Denied::Quantity(zero), "3", "3", "order_quantity_max: 0 of this session"),
            (Denied::Restricted("the instrument is"), "99", "0", "the instrument is"),
            (Denied::Currency(legs()[0]), "99", "0", "budget 7 counts USD: expected an order in"),
            (Denied::Order(Refusal::Range), "3", "3", "out of range"),
            (Denied::Order(Refusal::Quantity(zero)), "13", "0", "quantity 0: expected more than 0"),
            (Denied::Order(Refusal::Price(zero)), "99", "0", "price 0: expected more than 0"),
            (Denied::of(NamedRefusal::Busy, &[]), "99", "0", "the limits were not checked in time"),
            (Denied::of(NamedRefusal::Journal, &[]), "99", "0", "the gate cannot record orders"),
        ] {
            let reasons = (denied.order_reason(false), denied.order_reason(true));
            assert_eq!(reasons, (reason, old), "{denied}");
            let of_replace = [denied.replace_reason(false), denied.replace_reason(true)];
            let expected = match denied {
                Denied::NoOrder => ["1", "1"],
                Denied::Order(Refusal::Closed) => ["0", "0"],
                _ => ["99", "2"],
            };
            assert_eq!(of_replace, expected, "{denied}");
            assert!(denied.to_string().starts_with(text), "{denied}: expected {text}");
        }
    }
}
