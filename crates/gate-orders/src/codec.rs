//! Bytes of events, which are the records of what changed, and of an order's state. Numbers have a fixed width, the least byte first.

use fix::Decimal;
use money::Unit;

use crate::event::{Amendment, Check, Event, ExecId, Execution, Size, Version};
use crate::exact::Exact;
use crate::executions::{Amended, Cap, Executions, Fill};
use crate::order::{Leg, Order, PENDING_MAX, judge_legs};
use crate::sums::{High, Sums};
use crate::versions::{Cost, Pending, Phase, Versions};

/// The first byte of a state.
const FORMAT: u8 = 1;

/// Bytes that are no record of an event, or no state of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a record or state of an order: stopped at byte {at} of {length}; it is damaged, or of a newer version"
)]
pub struct BytesError {
    /// Where reading stopped.
    pub at: usize,
    /// How many bytes there are.
    pub length: usize,
}

impl Event {
    /// Appends the event's record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads a record: all of the bytes, no more and no fewer.
    ///
    /// # Errors
    /// [`BytesError`] where they are no record.
    pub fn decode(bytes: &[u8]) -> Result<Event, BytesError> {
        whole(bytes, Event::get)
    }
}

impl Order {
    /// Appends the state: what cannot be computed from the rest, executions by their ids. So equal orders are equal bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        FORMAT.put(out);
        self.is_known.put(out);
        put_all(&self.legs, out);
        self.multiplier.put(out);
        self.versions.put(out);
        self.sums.high.put(out);
        let (fills, amended, caps) = self.executions.sorted();
        put_all(&fills, out);
        put_all(&amended, out);
        put_all(&caps, out);
    }

    /// Reads a state: all of the bytes, no more and no fewer.
    ///
    /// # Errors
    /// [`BytesError`] where they are no state that an order can have.
    pub fn decode(bytes: &[u8]) -> Result<Order, BytesError> {
        whole(bytes, read_order)
    }
}

fn read_order(bytes: &mut &[u8]) -> Option<Order> {
    u8::get(bytes).filter(|format| *format == FORMAT)?;
    let is_known = bool::get(bytes)?;
    let legs = Vec::<Leg>::get(bytes).filter(|legs| judge_legs(legs).is_ok())?;
    let multiplier = Decimal::get(bytes).filter(|multiplier| multiplier.mantissa() > 0)?;
    let versions = Versions::get(bytes).filter(is_possible)?;
    let high = Option::get(bytes)?;
    let parts = (Vec::get(bytes)?, Vec::get(bytes)?, Vec::get(bytes)?);
    let (executions, total, late) = Executions::restored(parts)?;
    let is_above = high.is_none_or(|high: High| high.quantity > total.quantity);
    let sums = Sums { total, late, high, ..Sums::default() };
    let mut order = Order { legs: legs.into(), multiplier, is_known, versions, sums, executions };
    order.complete().filter(|()| is_above)?;
    Some(order)
}

fn is_possible(versions: &Versions) -> bool {
    let pending = &versions.pending;
    let is_right = match versions.phase {
        Phase::Open => true,
        Phase::Filled => !pending.is_empty(),
        Phase::Closed => pending.is_empty(),
    };
    // The venue may have accepted a later one before one that waits.
    let is_rising = pending.is_sorted_by(|a, b| a.number < b.number)
        && pending.iter().all(|pending| pending.number != versions.number);
    is_right && is_rising && pending.len() <= PENDING_MAX
}

/// Returns what was read, if it was read and nothing is left.
fn whole<T>(bytes: &[u8], read: impl FnOnce(&mut &[u8]) -> Option<T>) -> Result<T, BytesError> {
    let mut rest = bytes;
    let value = read(&mut rest).filter(|_| rest.is_empty());
    value.ok_or(BytesError { at: bytes.len() - rest.len(), length: bytes.len() })
}

/// A value that is written and read; what is read takes its bytes from the front.
trait Coded: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(bytes: &mut &[u8]) -> Option<Self>;
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

macro_rules! coded_numbers {
    ($($number:ty)+) => { $(impl Coded for $number {
        fn put(&self, out: &mut Vec<u8>) {
            out.extend(self.to_le_bytes());
        }
        fn get(bytes: &mut &[u8]) -> Option<$number> {
            take(bytes).map(<$number>::from_le_bytes)
        }
    })+ };
}
coded_numbers! { u8 u32 u64 u128 i64 }

/// The bytes of a type are those of what it is made of: `Type = value => parts: types => value that is read`.
macro_rules! coded_as {
    ($($name:ty = $value:ident => $parts:expr, $part:ident: $of:ty => $read:expr;)+) => { $(impl Coded for $name {
        fn put(&self, out: &mut Vec<u8>) {
            let $value = *self;
            $parts.put(out);
        }
        fn get(bytes: &mut &[u8]) -> Option<$name> {
            let $part = <$of>::get(bytes)?;
            $read
        }
    })+ };
}
coded_as! {
    bool = value => u8::from(value), byte: u8 => (byte < 2).then_some(byte == 1);
    // All of ours are sizes.
    i128 = value => value.unsigned_abs(), size: u128 => i128::try_from(size).ok();
    ExecId = id => id.0, id: u128 => Some(ExecId(id));
    Decimal = decimal => (decimal.mantissa(), decimal.places()), parts: (i64, u8) => Decimal::new(parts.0, parts.1);
    Unit = unit => u32::from_le_bytes(unit.to_code()), code: u32 => Unit::from_code(code.to_le_bytes()).ok().flatten();
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn get(bytes: &mut &[u8]) -> Option<(A, B)> {
        Some((A::get(bytes)?, B::get(bytes)?))
    }
}

impl<T: Coded> Coded for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }
    fn get(bytes: &mut &[u8]) -> Option<Option<T>> {
        if bool::get(bytes)? { T::get(bytes).map(Some) } else { Some(None) }
    }
}

fn put_all<T: Coded>(values: &[T], out: &mut Vec<u8>) {
    // 2^32 executions would be 256 GiB of memory.
    u32::try_from(values.len()).unwrap_or(u32::MAX).put(out);
    values.iter().for_each(|value| value.put(out));
}

impl<T: Coded> Coded for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        put_all(self, out);
    }
    /// A count that lies ends with the bytes: no memory is set aside for it.
    fn get(bytes: &mut &[u8]) -> Option<Vec<T>> {
        (0..u32::get(bytes)?).map(|_| T::get(bytes)).collect()
    }
}

/// Fields in their order.
macro_rules! coded_structs {
    ($($name:ident { $($field:ident),+ })+) => { $(impl Coded for $name {
        fn put(&self, out: &mut Vec<u8>) {
            $(self.$field.put(out);)+
        }
        fn get(bytes: &mut &[u8]) -> Option<$name> {
            Some($name { $($field: Coded::get(bytes)?),+ })
        }
    })+ };
}
coded_structs! {
    Version { number, size }
    Check { quantity, price }
    Execution { id, quantity, price, check }
    Amendment { id, names, at, new, leaves, check }
    Leg { budget, unit }
    Exact { money, quantity }
    High { quantity, money }
    Pending { number, cost, covered }
    Versions { phase, number, cost, covered, pending }
    Fill { id, amount, is_late }
    Amended { id, names, chain, at, is_bust, amount, is_named }
    Cap { chain, amount }
}

/// A byte that tells the variant, then its fields.
macro_rules! coded_enums {
    ($($name:ident { $($tag:literal $variant:ident { $($field:tt: $value:ident),* })+ })+) => { $(impl Coded for $name {
        fn put(&self, out: &mut Vec<u8>) {
            match self {
                $($name::$variant { $($field: $value),* } => {
                    out.push($tag);
                    $($value.put(out);)*
                })+
            }
        }
        fn get(bytes: &mut &[u8]) -> Option<$name> {
            Some(match u8::get(bytes)? {
                $($tag => $name::$variant { $($field: Coded::get(bytes)?),* },)+
                _ => return None,
            })
        }
    })+ };
}
coded_enums! {
    Event {
        1 Sent { 0: version }
        2 Accepted { number: number, size: size }
        3 Refused { number: number }
        4 Restated { 0: size }
        5 Executed { 0: execution }
        6 Amended { 0: amendment }
        7 Checked { 0: check }
        8 Filled {}
        9 Closed {}
    }
    Size {
        1 Quantity { quantity: quantity, price: price }
        2 Cash { 0: money }
    }
    Cost {
        1 Quantity { quantity: quantity, price: price }
        2 Cash { 0: money }
    }
    Phase {
        1 Open {}
        2 Filled {}
        3 Closed {}
    }
}
