//! Answers to orders that do not go to the venue.

use fix::{Message, TimestampText};

use crate::ids::put_field;

/// Why an order does not go to the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its ClOrdID is another session's.
    Duplicate,
    /// There is no room for one more ClOrdID.
    NoRoom,
    /// The venue asked for it again when it was too old.
    TooLate,
}

impl Cause {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Cause::Duplicate => "Duplicate ClOrdID",
            Cause::NoRoom => "too many open orders",
            Cause::TooLate => "not sent: venue asked again too late",
        }
    }

    /// OrdRejReason (103).
    fn reason(self, is_42: bool) -> &'static [u8] {
        match self {
            Cause::Duplicate => b"6",
            Cause::TooLate => b"4",
            Cause::NoRoom if is_42 => b"0",
            Cause::NoRoom => b"99",
        }
    }

    /// CxlRejReason (102). FIX 4.2 knows only 0 to 3, where 2 is what a broker decides.
    fn cancel_reason(self, is_42: bool) -> &'static [u8] {
        match self {
            Cause::Duplicate if is_42 => b"2",
            Cause::Duplicate => b"6",
            Cause::TooLate => b"0",
            Cause::NoRoom if is_42 => b"2",
            Cause::NoRoom => b"99",
        }
    }
}

/// The type and body of the answer to a NewOrderSingle (D): ExecutionReport with 150=8; to a request to cancel (F) or replace (G):
/// OrderCancelReject. `None` for other messages. `id` is the value of ExecID, ClOrdIDs lose `prefix`.
pub(crate) fn refusal(
    message: &Message<'_>,
    cause: Cause,
    prefix: &str,
    id: &str,
    unix_ms: i64,
) -> Option<(&'static [u8], Vec<u8>)> {
    let is_42 = message.begin_string() == b"FIX.4.2";
    let mut clock = TimestampText::default();
    let time = clock.of_unix_ms(unix_ms);
    let copy = |tag| message.value(tag).filter(|value| !value.is_empty());
    let own = |tag| copy(tag).map(|value| value.strip_prefix(prefix.as_bytes()).unwrap_or(value));
    let mut body = Body::default();
    match message.msg_type() {
        b"D" => {
            body.put(6, b"0").copy(11, own(11)).put(14, b"0").put(17, id.as_bytes());
            body.copy(20, is_42.then_some(&b"0"[..]))
                .put(37, b"NONE")
                .copy(38, copy(38))
                .put(39, b"8");
            body.copy(44, copy(44)).copy(54, copy(54)).copy(55, copy(55));
            body.put(58, cause.text().as_bytes()).put(60, time).put(103, cause.reason(is_42));
            body.put(150, b"8").put(151, b"0").copy(152, copy(152));
            Some((b"8", body.0))
        }
        kind @ (b"F" | b"G") => {
            // What was not sent again leaves the order as it is; of another's nothing is told.
            let status: &[u8] = if cause == Cause::TooLate { b"0" } else { b"8" };
            let response: &[u8] = if kind == b"F" { b"1" } else { b"2" };
            body.copy(11, own(11)).put(37, b"NONE").put(39, status).copy(41, own(41));
            body.put(58, cause.text().as_bytes()).put(60, time);
            body.put(102, cause.cancel_reason(is_42)).put(434, response);
            Some((b"9", body.0))
        }
        _ => None,
    }
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
