//! Orders in rows, which are bytes while they are short.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fix::Message;
use gate_orders::{Alarm, Event, Leg, LegAmounts, Order, Phase, Size, Standing};

use crate::cells::Cells;
use crate::head::{Head, key_of, order_id};
use crate::known::Whose;
use crate::report;

/// Records of orders.
pub(crate) const WHOLE: u8 = b'O';
pub(crate) const EVENT: u8 = b'E';
/// A row with more bytes is long.
const SHORT_MAX: usize = 1_024;

/// A venue that gives one OrderID (37) to all of its orders makes no lookup slow: the newest of them is found.
const SAME_MAX: usize = 8;

/// The place of a row, for as long as one of its ids is known.
pub(crate) type RowPlace = u32;

/// An order of a book.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) client: u32,
    /// How many ids name it.
    pub(crate) ids: u32,
    pub(crate) number: u64,
    /// The record that has it whole; 0 of one that is not read yet.
    pub(crate) record: u64,
    pub(crate) held: Held,
}

#[derive(Debug)]
pub(crate) enum Held {
    Short(Box<[u8]>),
    Long(Box<Long>),
}

#[derive(Debug)]
pub(crate) struct Long {
    pub(crate) head: Vec<u8>,
    pub(crate) now: Order,
    /// As it was at the last flush.
    pub(crate) kept: Order,
    /// Records of what happened since it was written whole.
    pub(crate) events: Vec<u64>,
    /// Bytes of these, and of the whole.
    pub(crate) bytes: [usize; 2],
}

impl Held {
    /// Makes a row; its bytes are put together in the room that is lent.
    pub(crate) fn new(head: &Head<'_>, order: &Order, room: &mut Vec<u8>) -> Held {
        room.clear();
        head.put(room);
        let head = room.len();
        order.encode(room);
        if room.len() <= SHORT_MAX {
            return Held::Short(room[..].into());
        }
        Held::ready(&room[..head], order.clone(), room.len())
    }

    pub(crate) fn ready(head: &[u8], now: Order, bytes: usize) -> Held {
        let (kept, bytes, head) = (now.clone(), [0, bytes], head.to_vec());
        Held::Long(Box::new(Long { head, now, kept, events: Vec::new(), bytes }))
    }

    /// An order of which nothing is known but an id, and what its report says of it.
    pub(crate) fn unknown(
        (id, message): (&[u8], &Message<'_>),
        bound: Option<(u128, Order)>,
        room: &mut Vec<u8>,
    ) -> Option<Held> {
        let (key, order) = match bound {
            Some((key, order)) => (Some(key), order),
            None => (None, Order::unknown(&[], fix::Decimal::new(1, 0)?).ok()?),
        };
        let [symbol, side] = [55, 54].map(|tag| report::text(message, tag).unwrap_or_default());
        let id = id.strip_prefix(b"11=").unwrap_or_default();
        let head = Head { id, symbol, side, key, ..Head::default() };
        Some(Held::new(&head, &order, room))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Held::Short(bytes) => out.extend_from_slice(bytes),
            Held::Long(long) => {
                out.extend_from_slice(&long.head);
                long.now.encode(out);
            }
        }
    }

    pub(crate) fn head(&self) -> Option<Head<'_>> {
        match self {
            Held::Short(bytes) => Head::take(&mut &bytes[..]),
            Held::Long(long) => Head::take(&mut &long.head[..]),
        }
    }

    /// Its OrderID (37).
    pub(crate) fn order_id(&self) -> &[u8] {
        match self {
            Held::Short(bytes) => order_id(bytes),
            Held::Long(long) => order_id(&long.head),
        }
    }

    /// The key of its named hold.
    pub(crate) fn key(&self) -> Option<u128> {
        self.head()?.key
    }

    /// What is beside the order, and the order.
    pub(crate) fn read(&self) -> Option<(Head<'_>, Cow<'_, Order>)> {
        match self {
            Held::Short(bytes) => {
                let mut rest = &bytes[..];
                let head = Head::take(&mut rest)?;
                Some((head, Cow::Owned(Order::decode(rest).ok()?)))
            }
            Held::Long(long) => Some((self.head()?, Cow::Borrowed(&long.now))),
        }
    }

    /// The order, and the key of its named hold; `None` of one that no budget binds.
    pub(crate) fn bound(&self) -> Option<(u128, Cow<'_, Order>)> {
        Some((self.key()?, self.read()?.1))
    }

    /// Reports whether it says the same as another one, as far as that is seen at a glance.
    fn is_as(&self, other: &Held) -> bool {
        matches!((self, other), (Held::Short(one), Held::Short(other)) if one == other)
    }

    pub(crate) fn events(&self) -> &[u64] {
        if let Held::Long(long) = self { &long.events } else { &[] }
    }

    pub(crate) fn long(&mut self) -> Option<&mut Long> {
        if let Held::Long(long) = self { Some(long) } else { None }
    }

    /// Takes what was said of the order; a short row stays as it is until it is written.
    pub(crate) fn hear(&mut self, said: &Said<'_>, room: &mut Vec<u8>) -> Option<Heard> {
        match self {
            Held::Short(bytes) => {
                let mut rest = &bytes[..];
                let (before, mut order) = (Head::take(&mut rest)?, Order::decode(rest).ok()?);
                let (next, heard) = said.to(&before, &mut order);
                let changes = next != before || !heard.events.is_empty();
                Some(Heard { whole: changes.then(|| Held::new(&next, &order, room)), ..heard })
            }
            Held::Long(long) => {
                let before = Head::take(&mut &long.head[..])?;
                let (next, heard) = said.to(&before, &mut long.now);
                let whole = (next != before).then(|| Held::new(&next, &long.now, room));
                Some(Heard { whole, ..heard })
            }
        }
    }
}

/// What a message says of an order.
#[derive(Clone, Copy)]
pub(crate) enum Said<'m> {
    /// A report (8, 9), whose ClOrdID is one of the order's or not.
    Report(&'m Message<'m>, bool),
    /// A replace (G) is sent, with its ClOrdID as the venue has it, and what its budgets granted.
    Replace(&'m Message<'m>, &'m [u8], Option<Size>),
    /// A cancel is sent.
    Cancel,
    /// The message with this ClOrdID was rejected.
    Rejected(&'m [u8]),
}

impl<'m> Said<'m> {
    /// Says it to an order. Returns what is beside it then, and what that did.
    pub(crate) fn to<'h>(&self, before: &Head<'h>, order: &mut Order) -> (Head<'h>, Heard)
    where
        'm: 'h,
    {
        let (mut next, mut alarms) = (before.clone(), Vec::new());
        let mut events: Vec<Event> = match *self {
            Said::Report(message, knows) => {
                report::events((message, knows), &mut next, order, &mut alarms)
            }
            Said::Replace(message, id, size) => {
                report::replace((message, size), id, &mut next).into_iter().collect()
            }
            Said::Cancel => Vec::new(),
            Said::Rejected(id) => report::rejected(id, &mut next).into_iter().collect(),
        };
        events.retain(|event| match (order.apply(event), event) {
            (Ok(effect), _) => {
                alarms.extend(effect.alarm);
                effect.changed
            }
            (Err(_), Event::Sent(sent)) => {
                next.waits.retain(|wait| wait.0 != sent.number);
                false
            }
            // It cannot be counted.
            (Err(_), _) => {
                alarms.push(Alarm::BadReport);
                false
            }
        });
        let phase = order.phase();
        if phase == Phase::Closed {
            next.waits.clear();
        }
        let is_open = |id: &[u8]| {
            let mut open = next.waits.iter().map(|wait| wait.1).chain([next.id]);
            phase != Phase::Closed && open.any(|one| one == id)
        };
        let ids = before.waits.iter().map(|wait| wait.1).chain([before.id, next.id]);
        let ended = ids.filter(|id| !is_open(id)).map(|id| key_of(id, next.order_id)).collect();
        (next, Heard { phase, ended, events, whole: None, alarms })
    }
}

/// What that did.
pub(crate) struct Heard {
    pub(crate) phase: Phase,
    /// ClOrdIDs that name nothing open any more.
    pub(crate) ended: Vec<Vec<u8>>,
    /// What changed the order.
    pub(crate) events: Vec<Event>,
    /// The row, where it is written whole.
    pub(crate) whole: Option<Held>,
    /// What a person should look at.
    pub(crate) alarms: Vec<Alarm>,
}

/// An order that was not opened here, and that budgets bind.
#[derive(Debug)]
pub(crate) struct Unknown {
    pub(crate) client: String,
    pub(crate) key: u128,
    pub(crate) order: Order,
}

/// What a change of a row makes of its named hold.
#[derive(Debug)]
pub(crate) enum HoldChange {
    /// It stands otherwise: the row at this place says how.
    Stands(RowPlace, u128),
    /// The order is forgotten, or was never there.
    Ends(u128, Box<Order>),
    /// What was booked of the first order is that of the second from now on.
    Merged(u128, u128),
}

/// The rows of a book.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Option<Row>>,
    pub(crate) free: Vec<RowPlace>,
    /// Places by OrderID (37), of each at most [`SAME_MAX`].
    pub(crate) by_order_id: Cells,
    /// Places by number, while a book is read.
    pub(crate) reading: Option<BTreeMap<u64, RowPlace>>,
}

impl Rows {
    pub(crate) fn get(&self, place: RowPlace) -> Option<&Row> {
        self.rows.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: RowPlace) -> Option<&mut Row> {
        self.rows.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn add(&mut self, row: Row) -> RowPlace {
        let place = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            RowPlace::try_from(self.rows.len() - 1).unwrap_or(RowPlace::MAX)
        });
        self.rows[place as usize] = Some(row);
        place
    }

    /// Orders with their places.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.rows.iter().enumerate().filter_map(|(place, row)| Some((place, row.as_ref()?)))
    }

    /// One id more names an order, or one fewer.
    pub(crate) fn count(&mut self, whose: Whose, more: bool) {
        if let Whose::Order(place) = whose
            && let Some(row) = self.get_mut(place)
        {
            row.ids = if more { row.ids + 1 } else { row.ids - 1 };
        }
    }

    /// A row has another OrderID: the hashes of that before and of the new one.
    pub(crate) fn index(&mut self, place: RowPlace, [before, now]: [Option<u32>; 2]) {
        if let Some(hash) = before {
            self.by_order_id.take_out(hash, place);
        }
        if let Some(hash) = now {
            self.by_order_id.enter_among(hash, place, SAME_MAX);
        }
    }

    /// Returns what a change that is kept makes of a named hold. What is new stands as it was asked for.
    pub(crate) fn hold_kept(&self, change: &RowChange) -> Option<HoldChange> {
        let place = match change {
            RowChange::Added(_) => return None,
            RowChange::Removed(_, row) => {
                let (key, order) = row.held.bound()?;
                return Some(HoldChange::Ends(key, Box::new(order.into_owned())));
            }
            RowChange::Was(place, before) => {
                let row = self.get(*place)?;
                if before.record == 0 || row.held.is_as(&before.held) {
                    return None;
                }
                *place
            }
            RowChange::Heard(place, ..) => *place,
        };
        Some(HoldChange::Stands(place, self.get(place)?.held.bound()?.0))
    }

    /// Returns what is to become of a named hold whose order a change concerned that is taken back.
    pub(crate) fn hold_undone(&self, change: &RowChange) -> Option<HoldChange> {
        let (place, was_opened) = match change {
            RowChange::Was(place, before) => (*place, before.record == 0),
            RowChange::Heard(place, ..) => (*place, false),
            RowChange::Added(_) | RowChange::Removed(..) => return None,
        };
        let (key, order) = self.get(place)?.held.bound()?;
        Some(match was_opened {
            true => HoldChange::Ends(key, Box::new(order.into_owned())),
            false => HoldChange::Stands(place, key),
        })
    }

    /// A change is kept.
    pub(crate) fn settle(&mut self, change: RowChange) {
        match change {
            RowChange::Removed(place, _) => self.free.push(place),
            RowChange::Heard(place, record, events, _) => {
                // A whole that was written since has them.
                let row = self.get_mut(place).filter(|row| row.record == record);
                if let Some(long) = row.and_then(|row| row.held.long()) {
                    // They have changed the order before.
                    events.iter().for_each(|event| _ = long.kept.apply(event));
                }
            }
            RowChange::Added(_) | RowChange::Was(..) => {}
        }
    }

    /// A change was never made.
    pub(crate) fn undo(&mut self, change: RowChange) {
        match change {
            RowChange::Added(place) => {
                self.rows[place as usize] = None;
                self.free.push(place);
            }
            RowChange::Was(place, row) | RowChange::Removed(place, row) => {
                self.rows[place as usize] = Some(row);
            }
            RowChange::Heard(place, _, _, (events, bytes)) => {
                if let Some(long) = self.get_mut(place).and_then(|row| row.held.long()) {
                    long.now.clone_from(&long.kept);
                    long.events.truncate(events);
                    long.bytes[0] = bytes;
                }
            }
        }
    }
}

/// What takes a change of a row back.
#[derive(Debug)]
pub(crate) enum RowChange {
    Added(RowPlace),
    Was(RowPlace, Row),
    Removed(RowPlace, Row),
    /// What a long row heard behind the record of its whole; before, it had so many records of events and bytes of these.
    Heard(RowPlace, u64, Vec<Event>, (usize, usize)),
}

/// An order as an operator sees it. What nothing said is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderView {
    /// Its venue was asked for it, and has not answered.
    pub is_in_doubt: bool,
    /// The client's session.
    pub session: String,
    /// The venue's.
    pub venue: String,
    /// ClOrdID (11) of the version that the venue has, as the client sent it.
    pub cl_ord_id: String,
    /// OrderID (37).
    pub order_id: String,
    /// Account (1).
    pub account: String,
    /// Symbol (55).
    pub symbol: String,
    /// Side (54).
    pub side: String,
    /// Where it is in its life.
    pub phase: Phase,
    /// A replace waits for the venue's answer.
    pub is_replacing: bool,
    /// What the venue has, and how far it came.
    pub standing: Standing,
    /// The budgets that bind it, with what they hold for it and have booked of it.
    pub legs: Vec<(Leg, LegAmounts)>,
}
