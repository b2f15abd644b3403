//! Answers to orders that do not go to the venue.

use std::borrow::Cow;

use fix::{Message, TimestampText};
use gate_orders::Phase;

use crate::gate::limits::{Denied, RefusedFor};
use crate::ids::put_field;
use crate::rows::OrderView;

/// Why an order does not go to the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause<'v> {
    /// Its ClOrdID is another session's.
    Duplicate,
    /// There is no room for one more ClOrdID.
    NoRoom,
    /// The venue asked for it again when it was too old.
    TooLate,
    /// Its session began anew while it waited.
    Reset,
    /// Its budgets, or what it costs.
    Denied(Denied),
    /// The venue does not know it: its numbers began again before it had come.
    Unknown,
    /// The venue rejected its message, with this text.
    Venue(&'v [u8]),
}

impl<'v> Cause<'v> {
    pub(crate) fn text(self) -> Cow<'v, [u8]> {
        let text: &'static str = match self {
            Cause::Denied(denied) => return denied.to_string().into_bytes().into(),
            Cause::Venue(text) => return text.into(),
            Cause::Duplicate => "Duplicate ClOrdID",
            Cause::NoRoom => "too many open orders",
            Cause::TooLate => "not sent: venue asked again too late",
            Cause::Reset => "not sent: the session began anew",
            Cause::Unknown => "not sent: the venue does not know it",
        };
        text.as_bytes().into()
    }

    /// As what it is counted.
    pub(crate) fn counted(self) -> RefusedFor {
        match self {
            Cause::Duplicate => RefusedFor::Duplicate,
            Cause::NoRoom => RefusedFor::NoRoom,
            Cause::TooLate | Cause::Reset => RefusedFor::TooLate,
            Cause::Denied(denied) => denied.counted(),
            Cause::Venue(_) | Cause::Unknown => RefusedFor::Venue,
        }
    }

    /// OrdRejReason (103).
    fn reason(self, is_42: bool) -> &'static [u8] {
        match self {
            Cause::Duplicate => b"6",
            Cause::TooLate => b"4",
            Cause::Denied(denied) => denied.order_reason(is_42).as_bytes(),
            _ if is_42 => b"0",
            Cause::NoRoom | Cause::Reset | Cause::Unknown | Cause::Venue(_) => b"99",
        }
    }

    /// CxlRejReason (102). FIX 4.2 knows only 0 to 3, where 2 is what a broker decides.
    fn cancel_reason(self, is_42: bool) -> &'static [u8] {
        match self {
            Cause::Duplicate if is_42 => b"2",
            Cause::Duplicate => b"6",
            Cause::TooLate => b"0",
            Cause::Denied(denied) => denied.replace_reason(is_42).as_bytes(),
            _ if is_42 => b"2",
            Cause::NoRoom | Cause::Reset | Cause::Unknown | Cause::Venue(_) => b"99",
        }
    }
}

/// The type and body of the answer to a NewOrderSingle (D): ExecutionReport with 150=8; to a request to cancel (F) or replace (G):
/// OrderCancelReject, of the order that this would change, if it is known. `None` for other messages. `id` is the value of ExecID, ClOrdIDs lose
/// `prefix`.
pub(crate) fn refusal(
    (message, known): (&Message<'_>, Option<&OrderView>),
    cause: Cause<'_>,
    prefix: &str,
    id: &str,
    unix_ms: i64,
) -> Option<(&'static [u8], Vec<u8>)> {
    let is_42 = message.begin_string() == b"FIX.4.2";
    let mut clock = TimestampText::default();
    let time = clock.of_unix_ms(unix_ms);
    let copy = |tag| message.value(tag).filter(|value| !value.is_empty());
    let own = |tag| copy(tag).map(|value| value.strip_prefix(prefix.as_bytes()).unwrap_or(value));
    let (mut body, text) = (Body::default(), cause.text());
    match message.msg_type() {
        b"D" => {
            body.put(6, b"0").copy(11, own(11)).put(14, b"0").put(17, id.as_bytes());
            body.copy(20, is_42.then_some(&b"0"[..]))
                .put(37, b"NONE")
                .copy(38, copy(38))
                .put(39, b"8");
            body.copy(44, copy(44)).copy(54, copy(54)).copy(55, copy(55));
            body.put(58, &text).put(60, time).put(103, cause.reason(is_42));
            body.put(150, b"8").put(151, b"0").copy(152, copy(152));
            Some((b"8", body.0))
        }
        kind @ (b"F" | b"G") => {
            // What was not sent again leaves the order as it is; of another's nothing is told.
            let unknown: &[u8] = if cause == Cause::TooLate { b"0" } else { b"8" };
            let status = known.map_or(unknown, ord_status);
            let response: &[u8] = if kind == b"F" { b"1" } else { b"2" };
            body.copy(11, own(11)).put(37, order_id(known)).put(39, status).copy(41, own(41));
            body.put(58, &text).put(60, time);
            body.put(102, cause.cancel_reason(is_42)).put(434, response);
            Some((b"9", body.0))
        }
        _ => None,
    }
}

/// The body of the ExecutionReport that tells how an order stands whose client sent it again (150=I; FIX 4.2: 20=3).
pub(crate) fn status(message: &Message<'_>, known: &OrderView, id: &str, unix_ms: i64) -> Vec<u8> {
    let is_42 = message.begin_string() == b"FIX.4.2";
    let mut clock = TimestampText::default();
    let time = clock.of_unix_ms(unix_ms);
    let text = |number: Option<fix::Decimal>| number.map_or("0".into(), |one| one.to_string());
    let [done, open] = [known.standing.executed, known.standing.open].map(text);
    let (status, order_id) = (ord_status(known), order_id(Some(known)));
    let copy = |tag| message.value(tag).filter(|value| !value.is_empty());
    let mut body = Body::default();
    body.put(6, b"0").copy(11, copy(11)).put(14, done.as_bytes()).put(17, id.as_bytes());
    body.copy(20, is_42.then_some(&b"3"[..])).put(37, order_id).copy(38, copy(38));
    body.put(39, status).copy(44, copy(44)).copy(54, copy(54)).copy(55, copy(55)).put(60, time);
    body.put(150, if is_42 { status } else { b"I" }).put(151, open.as_bytes());
    body.0
}

/// OrderID (37) of an order.
fn order_id(known: Option<&OrderView>) -> &[u8] {
    let id = known.map(|known| known.order_id.as_bytes());
    id.filter(|id| !id.is_empty()).unwrap_or(b"NONE")
}

/// OrdStatus (39) of an order.
fn ord_status(known: &OrderView) -> &'static [u8] {
    let is_none = known.standing.executed.is_none_or(|done| done.mantissa() == 0);
    match known.phase {
        Phase::Closed if is_whole(&known.standing) => b"2",
        Phase::Closed => b"4",
        Phase::Open | Phase::Filled if known.is_replacing => b"E",
        Phase::Filled => b"2",
        // No report has come.
        Phase::Open if is_none && known.order_id.is_empty() => b"A",
        Phase::Open if is_none => b"0",
        Phase::Open => b"1",
    }
}

fn is_whole(standing: &gate_orders::Standing) -> bool {
    matches!(standing.size, Some(gate_orders::Size::Quantity { quantity, .. }) if standing.executed == Some(quantity))
}

/// Fields in the order in which they are put.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn put(&mut self, tag: u32, value: &[u8]) -> &mut Body {
        put_field(&mut self.0, tag, value);
        self
    }

    fn copy(&mut self, tag: u32, value: Option<&[u8]>) -> &mut Body {
        if let Some(value) = value {
            self.put(tag, value);
        }
        self
    }
}
