//! Reads orders, replaces and execution reports as events of `gate-orders`.

use fix::{Decimal, Message, Tag, Timestamp};
use gate_orders::{Alarm, Amendment, Check, Event, ExecId, Execution, Order, Size, Version};
use xxhash_rust::xxh3::xxh3_128;

use crate::head::Head;

/// An ExecRefID (19) is looked for among the executions of so many days before its message.
const REFERENCE_DAYS: i64 = 7;
const DAY_MS: i64 = 86_400_000;
/// Low bits of a moment: numbers of messages within a millisecond.
const MOMENT_BITS: u32 = 20;

pub(crate) fn text<'m>(message: &Message<'m>, tag: Tag) -> Option<&'m [u8]> {
    message.value(tag).filter(|value| !value.is_empty())
}

/// Returns the value of an id (11, 37, 41); `NONE` stands for no id.
pub(crate) fn id<'m>(message: &Message<'m>, tag: Tag) -> Option<&'m [u8]> {
    text(message, tag).filter(|id| !id.eq_ignore_ascii_case(b"NONE"))
}

pub(crate) fn decimal(message: &Message<'_>, tag: Tag) -> Option<Decimal> {
    Decimal::parse(text(message, tag)?).ok()
}

/// Reads how much of an order may be executed. What has no price, or a negative one, has the price 0: it is no amount yet.
fn size(message: &Message<'_>) -> Option<Size> {
    let price = decimal(message, 44).filter(|price| price.mantissa() >= 0);
    let price = price.or_else(|| Decimal::new(0, 0))?;
    let quantity = decimal(message, 38).map(|quantity| Size::Quantity { quantity, price });
    quantity.or_else(|| decimal(message, 152).map(Size::Cash))
}

/// Reads what a new order (D) costs that no budget binds; one without a quantity is like one that was not opened here.
pub(crate) fn opened(message: &Message<'_>) -> Option<Order> {
    let one = Decimal::new(1, 0)?;
    match size(message).map(|size| Order::open(&[], one, &Version { number: 0, size })) {
        Some(Ok(order)) => Some(order),
        _ => Order::unknown(&[], one).ok(),
    }
}

/// Reads what a new order (D) says beside its amounts.
pub(crate) fn head<'m>(message: &Message<'m>, id: &'m [u8], key: Option<u128>) -> Head<'m> {
    let field = |tag| text(message, tag).unwrap_or_default();
    let (account, symbol) = (field(1), field(55));
    Head { id, account, symbol, side: field(54), tif: field(59), key, ..Head::default() }
}

/// Reads a replace (G) as the next version of an order.
pub(crate) fn replace<'m>(
    (message, granted): (&Message<'m>, Option<Size>),
    id: &'m [u8],
    head: &mut Head<'m>,
) -> Option<Event> {
    let size = granted.or_else(|| size(message))?;
    // What may live on at the end of the day is taken for that until the venue says otherwise.
    if let Some(tif) = text(message, 59).filter(|tif| lives_on(tif)) {
        head.tif = tif;
    }
    head.last += 1;
    head.waits.push((head.last, id));
    Some(Event::Sent(Version { number: head.last, size }))
}

/// Reports whether an order of this TimeInForce (59) is good beyond its day.
fn lives_on(tif: &[u8]) -> bool {
    matches!(tif, b"1" | b"6")
}

/// Reads that a message with a ClOrdID was rejected: a replace, or the order itself.
pub(crate) fn rejected(id: &[u8], head: &mut Head<'_>) -> Option<Event> {
    match head.take_wait(id) {
        Some(number) => Some(Event::Refused { number }),
        None => (id == head.id).then_some(Event::Closed),
    }
}

/// Reads what a report (8, 9) says of an order: its events, in their order. `knows` tells whether its ClOrdID is one of the order's. What is
/// executed or amended, and cannot be read, is an alarm; its sums are read all the same.
pub(crate) fn events<'m>(
    (message, knows): (&Message<'m>, bool),
    head: &mut Head<'m>,
    order: &Order,
    alarms: &mut Vec<Alarm>,
) -> Vec<Event> {
    let value = |tag| text(message, tag).unwrap_or_default();
    let (own, mut events) = (id(message, 11).unwrap_or_default(), Vec::new());
    let is_of_other = own != head.id && !own.is_empty();
    if message.msg_type() == b"9" || value(39) == b"8" && is_of_other {
        events.extend(head.take_wait(own).map(|number| Event::Refused { number }));
        return events;
    }
    // A duplicate of what the venue has says nothing of that.
    if value(39) == b"8" && value(103) == b"6" && !head.order_id.is_empty() {
        return events;
    }
    if let Some(order_id) = id(message, 37) {
        head.order_id = order_id;
    }
    let check = check(message);
    let checked = check.map(Event::Checked);
    let kind = kind(message);
    match kind {
        b"F" | b"G" | b"H" => {
            let read = match kind {
                b"F" => execution(message, order, check).map(Event::Executed),
                _ => amendment(message, order, kind == b"H", check).map(Event::Amended),
            };
            // Sums tell what an execution was, and not what is amended.
            let is_told =
                read.is_some() || kind == b"F" && checked.is_some() && !is_negative(message);
            alarms.extend((!is_told).then_some(Alarm::BadReport));
            events.extend(read.or(checked));
        }
        b"5" if knows => {
            let accepted = accepted(message, own, head, order);
            events.extend(accepted.or_else(|| unasked(message, own, head, order)));
        }
        // The venue has it, though its own report of that was lost.
        b"I" if knows && matches!(value(39), b"0" | b"1" | b"2") => {
            events.extend(accepted(message, own, head, order));
        }
        b"5" | b"D" | b"L" => events.extend(restated(message, head, order)),
        _ => {}
    }
    if !matches!(kind, b"F" | b"G" | b"H") {
        events.extend(checked);
    }
    let lives_on = lives_on(text(message, 59).unwrap_or(head.tif));
    match (kind, value(39)) {
        (b"4" | b"C", _) | (_, b"4" | b"C" | b"8") => events.push(Event::Closed),
        (b"3", _) | (_, b"3") if !lives_on => events.push(Event::Closed),
        (_, b"2") => events.push(Event::Filled),
        _ => {}
    }
    events
}

/// ExecType (150) as FIX 4.4 has it. FIX 4.2 says with ExecTransType (20) what a report is.
pub(crate) fn kind<'m>(message: &Message<'m>) -> &'m [u8] {
    match (text(message, 20), text(message, 150).unwrap_or_default()) {
        (Some(b"1"), _) => b"H",
        (Some(b"2"), _) => b"G",
        (Some(b"3"), _) => b"I",
        (_, b"1" | b"2") => b"F",
        (_, kind) => kind,
    }
}

fn check(message: &Message<'_>) -> Option<Check> {
    Some(Check { quantity: decimal(message, 14)?, price: decimal(message, 6) })
}

/// Reports whether LastQty (32) is below 0: such a report cannot be read.
fn is_negative(message: &Message<'_>) -> bool {
    decimal(message, 32).is_some_and(|quantity| quantity.mantissa() < 0)
}

/// Reads LastQty (32) and LastPx (31).
fn executed(message: &Message<'_>) -> Option<(Decimal, Decimal)> {
    decimal(message, 32).zip(decimal(message, 31)).filter(|_| !is_negative(message))
}

/// Returns the id of a report (8) that names no known order, under which its executions are booked; `None` where there is nothing to book.
pub(crate) fn nobodys_id(message: &Message<'_>) -> Option<Vec<u8>> {
    let execution = text(message, 17).and_then(|id| executed(message).map(|_| id));
    let is_told = decimal(message, 14).zip(decimal(message, 6)).is_some();
    let named = [11, 37].into_iter().find_map(|tag| Some((tag, id(message, tag)?)));
    let named = named.filter(|_| execution.is_some() || is_told);
    let (tag, id) = named.or_else(|| Some((17, execution?)))?;
    Some([tag.to_string().as_bytes(), b"=", id].concat())
}

fn execution(message: &Message<'_>, order: &Order, check: Option<Check>) -> Option<Execution> {
    let id = known_id(message, order, (text(message, 17)?, is_undated(message)));
    let (quantity, price) = executed(message)?;
    Some(Execution { id, quantity, price, check })
}

fn amendment(
    message: &Message<'_>,
    order: &Order,
    is_bust: bool,
    check: Option<Check>,
) -> Option<Amendment> {
    let (own, named) = (text(message, 17)?, text(message, 19)?);
    let new = executed(message);
    Some(Amendment {
        id: known_id(message, order, (own, is_undated(message))),
        names: known_id(message, order, (named, true)),
        at: moment(message),
        new: if is_bust { None } else { Some(new?) },
        leaves: decimal(message, 151),
        check,
    })
}

/// Reads that a version is the venue's from now on. One that was before says nothing new.
fn accepted<'m>(
    message: &Message<'m>,
    id: &'m [u8],
    head: &mut Head<'m>,
    order: &Order,
) -> Option<Event> {
    let number = head.waits.iter().find(|wait| wait.1 == id)?.0;
    (head.id, head.tif) = (id, text(message, 59).unwrap_or(head.tif));
    head.waits.retain(|wait| wait.0 != number);
    if let Some(sent) = order.pending(number).filter(|_| head.key.is_some()) {
        return Some(Event::Accepted { number, size: reported(message, head, sent) });
    }
    let is_whole = text(message, 44).is_some() || text(message, 38).is_none();
    Some(Event::Accepted { number, size: size(message).filter(|_| is_whole) })
}

/// Reads that the venue replaced an order by itself, or one whose replace it had refused: what it says last counts. A report that is sent again
/// says nothing new.
fn unasked<'m>(
    message: &Message<'m>,
    id: &'m [u8],
    head: &mut Head<'m>,
    order: &Order,
) -> Option<Event> {
    if [43, 97].iter().any(|tag| message.value(*tag) == Some(b"Y")) {
        return None;
    }
    head.id = id;
    restated(message, head, order)
}

/// Reads what an order is from now on that is held as `before`, by a report that may say less of it; `None` of one
/// that says no amount. What may be executed at the market stays held at the price that was found for that.
fn reported(message: &Message<'_>, head: &Head<'_>, before: Size) -> Option<Size> {
    let Size::Quantity { price: held, .. } = before else {
        return decimal(message, 152).map(Size::Cash);
    };
    let has_limit = !matches!(text(message, 40), Some(b"1" | b"3" | b"5"));
    let limit = decimal(message, 44).filter(|price| has_limit && price.mantissa() > 0);
    let price = match limit {
        Some(limit) if head.side == b"1" => limit,
        limit => limit.map_or(held, |limit| limit.max(held)),
    };
    Some(Size::Quantity { quantity: decimal(message, 38)?, price })
}

fn restated(message: &Message<'_>, head: &Head<'_>, order: &Order) -> Option<Event> {
    if let Some(before) = order.standing().size.filter(|_| head.key.is_some()) {
        return reported(message, head, before).map(Event::Restated);
    }
    let mut size = size(message)?;
    if let (Size::Quantity { price, .. }, None) = (&mut size, text(message, 44))
        && let Some(Size::Quantity { price: before, .. }) = order.standing().size
    {
        *price = before;
    }
    Some(Event::Restated(size))
}

pub(crate) fn unix_ms(message: &Message<'_>) -> i64 {
    let time = |tag| text(message, tag).and_then(Timestamp::parse).map(Timestamp::unix_ms);
    time(60).or_else(|| time(122)).or_else(|| time(52)).unwrap_or(0)
}

/// Orders amendments: by the venue's time in ms, and within one by the number of the message.
fn moment(message: &Message<'_>) -> u64 {
    let number =
        text(message, 34).and_then(|digits| str::from_utf8(digits).ok()?.parse::<u64>().ok());
    let ms = u64::try_from(unix_ms(message)).unwrap_or(0);
    ms << MOMENT_BITS | number.unwrap_or(0) & ((1 << MOMENT_BITS) - 1)
}

/// Reports whether a report was sent again and does not say when it was sent first.
fn is_undated(message: &Message<'_>) -> bool {
    let is_again = [43, 97].iter().any(|tag| message.value(*tag) == Some(b"Y"));
    is_again && [60, 122].iter().all(|tag| text(message, *tag).is_none())
}

/// Makes the id of an execution on the trading day of its report, or, where that may be another one, of the day on which the order knows it. The
/// day is that of TransactTime (60), else of OrigSendingTime (122), which are the same where the report is sent again.
fn known_id(message: &Message<'_>, order: &Order, (id, looks_back): (&[u8], bool)) -> ExecId {
    let day = unix_ms(message).div_euclid(DAY_MS);
    let mut days = (0..=REFERENCE_DAYS).map(|before| exec_id(day - before, id));
    let known = days.find(|id| looks_back && order.knows(*id));
    known.unwrap_or_else(|| exec_id(day, id))
}

/// Reports whether the execution of a report, or what it amends, is one of an order's.
pub(crate) fn is_of(message: &Message<'_>, order: &Order) -> bool {
    let is_known = |tag, looks_back| {
        let known = text(message, tag).map(|id| known_id(message, order, (id, looks_back)));
        known.is_some_and(|id| order.knows(id))
    };
    is_known(17, is_undated(message)) || is_known(19, true)
}

/// Makes the id of an execution on a day counted from 1970 on, which is the same in each run. Only executions of one order are compared.
fn exec_id(day: i64, id: &[u8]) -> ExecId {
    ExecId(xxh3_128(&[&day.to_le_bytes()[..], id].concat()))
}
