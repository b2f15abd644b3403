//! What a client's message may cost at most, and which budgets that is held in.

use fix::{Decimal, Message, Tag};
use gate_orders::{Leg, Order, Version};
use money::Unit;
use weir_budgets::orders::{OrderIndex, OrderKeys, Side};

use crate::gate::limits::Denied;
use crate::head::Head;
use crate::prices::Quote;
use crate::report::{decimal, id, text};

/// What a client's message does to what its firm may owe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// Nothing: cancels, requests, and all else.
    None,
    /// A new order (D), which budgets can be asked for.
    Order,
    /// A replace (G).
    Replace,
    /// Something at no price that is known here.
    Unpriced,
}

impl Exposure {
    /// Returns that of a type of message. One that is not known here may be an order.
    pub(crate) fn of(msg_type: &[u8]) -> Exposure {
        match msg_type {
            b"D" => Exposure::Order,
            b"G" => Exposure::Replace,
            // Cancels, statuses, and what is not taken for an order's.
            b"F" | b"q" | b"K" | b"CA" | b"H" | b"AF" | b"M" | b"Q" | b"BN" => Exposure::None,
            // Market data, quotes, instruments, trading sessions.
            b"V" | b"R" | b"AG" | b"Z" | b"a" | b"AH" | b"c" | b"e" | b"g" => Exposure::None,
            b"v" | b"x" | b"z" | b"BI" | b"BT" => Exposure::None,
            // News, indications, users, networks, what was not understood.
            b"B" | b"C" | b"6" | b"7" | b"k" | b"m" | b"j" => Exposure::None,
            b"BC" | b"BE" | b"BW" => Exposure::None,
            // Trades, allocations, confirmations, positions, collateral: what is asked, and what is acknowledged.
            b"AD" | b"AR" | b"P" | b"AT" | b"AU" | b"BH" | b"AV" | b"AN" | b"BB" => Exposure::None,
            _ => Exposure::Unpriced,
        }
    }
}

/// Fields that say whose an order is and what it costs. One that appears twice could be read otherwise by the venue.
const JUDGED: [Tag; 13] = [1, 11, 15, 38, 40, 41, 44, 54, 55, 99, 152, 423, 854];

/// Longest ClOrdID (11).
const ID_BYTES_MAX: usize = 255;

/// Fields whose meaning for the price is not known here: discretion, pegs, legs, contracts.
const UNKNOWN: [(Tag, &str); 5] = [
    (211, "PegOffsetValue (211) is not supported with limits"),
    (231, "ContractMultiplier (231) is not supported with limits"),
    (388, "DiscretionInst (388) is not supported with limits"),
    (389, "DiscretionOffsetValue (389) is not supported with limits"),
    (555, "legs (555) are not supported with limits"),
];

/// Makes a new order (D) with its budgets, to be asked for.
///
/// # Errors
/// Why its client may not send it, whatever is left.
pub(crate) fn order(
    message: &Message<'_>,
    (session, firm): (&str, &str),
    quote: Quote<'_>,
    index: &OrderIndex,
    legs: &mut Vec<Leg>,
) -> Result<Order, Denied> {
    judge(message)?;
    let value = |tag| text(message, tag).unwrap_or_default();
    let side = Side::of_order(value(54));
    let side = side.ok_or(Denied::Unpriced("Side (54): expected 1, 2, 5 or 6 with limits"))?;
    let (session, firm) = (session.as_bytes(), firm.as_bytes());
    let keys = OrderKeys { account: value(1), session, firm, symbol: value(55), side };
    index.bind(&keys, legs).map_err(Denied::Unbound)?;
    judge_currency(message, legs)?;
    let size = quote.size(message, (side, value(55), legs))?;
    let one = Decimal::new(1, 0).ok_or(Denied::Unanswered)?;
    Order::open(legs, one, &Version { number: 0, size }).map_err(Denied::Order)
}

/// Judges a replace (G) of an order as its next version.
///
/// # Errors
/// Why its client may not send it, whatever is left.
pub(crate) fn replace(
    message: &Message<'_>,
    (head, order): (&Head<'_>, &Order),
    quote: Quote<'_>,
) -> Result<Version, Denied> {
    if head.key.is_none() {
        let why = "the order was sent without limits: cancel it, and send a new one";
        return Err(Denied::Unpriced(why));
    }
    judge(message)?;
    for (tag, of_order) in [(1, head.account), (54, head.side), (55, head.symbol)] {
        if text(message, tag).is_some_and(|value| value != of_order) {
            let why = "Account (1), Side (54) or Symbol (55) is not the order's: cancel it";
            return Err(Denied::Unpriced(why));
        }
    }
    let side = Side::of_order(head.side).unwrap_or(Side::Sell);
    judge_currency(message, order.legs())?;
    let size = quote.size(message, (side, head.symbol, order.legs()))?;
    Ok(Version { number: head.last + 1, size })
}

/// Judges whether the money that an order's budgets count is its own.
fn judge_currency(message: &Message<'_>, legs: &[Leg]) -> Result<(), Denied> {
    let currency = text(message, 15);
    let is_other = |leg: &&Leg| match leg.unit {
        Unit::Currency(code, _) => currency.is_some_and(|own| code.as_str().as_bytes() != own),
        _ => false,
    };
    legs.iter().find(is_other).map_or(Ok(()), |leg| Err(Denied::Currency(*leg)))
}

/// Reports whether a report (8) says that something was executed.
pub(crate) fn executes(message: &Message<'_>) -> bool {
    let is_some = |tag| decimal(message, tag).is_some_and(|number| number.mantissa() > 0);
    is_some(32) || is_some(14)
}

/// Makes an order that nobody sent from here, of what a report (8) says of it; `None` where no budget binds it.
pub(crate) fn unknown(
    message: &Message<'_>,
    (session, firm): (&str, &str),
    index: &OrderIndex,
    legs: &mut Vec<Leg>,
) -> Option<Order> {
    let value = |tag| text(message, tag).unwrap_or_default();
    let (session, firm) = (session.as_bytes(), firm.as_bytes());
    let side = Side::of_order(value(54))?;
    let keys = OrderKeys { account: value(1), session, firm, symbol: value(55), side };
    index.bind(&keys, legs).ok()?;
    Order::unknown(legs, Decimal::new(1, 0)?).ok()
}

/// Judges whether the fields of an order can be read and mean what is known here.
fn judge(message: &Message<'_>) -> Result<(), Denied> {
    if message.fault().is_some() || repeats(message) {
        return Err(Denied::Unpriced("a field of the order appears twice, or cannot be read"));
    }
    if id(message, 11).is_none_or(|id| id.len() > ID_BYTES_MAX) {
        let why = "ClOrdID (11): expected 1 to 255 characters, and not NONE, with limits";
        return Err(Denied::Unpriced(why));
    }
    if let Some((_, why)) = UNKNOWN.iter().find(|(tag, _)| message.value(*tag).is_some()) {
        return Err(Denied::Unpriced(why));
    }
    if text(message, 423).is_some_and(|price_type| price_type != b"2") {
        return Err(Denied::Unpriced("PriceType (423): expected 2, per unit, with limits"));
    }
    if text(message, 854).is_some_and(|quantity_type| quantity_type != b"0") {
        return Err(Denied::Unpriced("QtyType (854): expected 0, units, with limits"));
    }
    Ok(())
}

/// Reports whether a field that is judged appears twice.
fn repeats(message: &Message<'_>) -> bool {
    let mut seen = [false; JUDGED.len()];
    let tags = (message.body_at()..message.len()).filter_map(|at| message.tag_at(at));
    let mut places = tags.filter_map(|tag| JUDGED.iter().position(|one| *one == tag));
    places.any(|place| std::mem::replace(&mut seen[place], true))
}
