//! The orders of a book: a row each, in bytes while it is short.
//!
//! ```text
//! record O: number | client | head | order, as `gate-orders` writes it     the whole row; the newest counts
//! record E: number | event                                                since then, of a row that is long
//! record L: state | seq | number | id                                     a ClOrdID of the order
//! ```
//!
//! A number is the place of the first record of a row. A short row is written whole with each change. A long one would cost the square of its
//! executions: it is kept ready, its events are written, and it is written whole when these have become as long as it was.

use std::borrow::Cow;
use std::collections::BTreeMap;

use fix::Message;
use fix_session::{MessageStore, StoreError};
use gate_orders::{Event, Order, Phase};

use super::{Book, Change};
use crate::head::{Head, put_text, take_number, take_text};
use crate::known::{Entry, Of, Slot, State, Whose};
use crate::report::{id, is_of, nobodys_id, text};
use crate::rows::{
    EVENT, Heard, Held, HoldChange, OrderView, Row, RowChange, RowPlace, Said, Unknown, WHOLE,
};
use crate::sayings::key_number;

/// How many rows a page of orders has at most, and how many places are looked at for it.
const ROWS_AT_ONCE: usize = 256;
const PLACES_AT_ONCE: usize = 4_096;
/// How many places a part of a search for open orders looks at.
const PLACES_SEARCHED: RowPlace = 4_096;

/// How many ids a part of a search for messages without an answer looks at.
const SLOTS_SEARCHED: usize = 2_048;

/// A message that no report has answered: its order, its type and its id.
pub(crate) type Unanswered = (RowPlace, &'static [u8], Vec<u8>);

/// What is new of an id: the client and the number of its message, the state, and when.
pub(crate) type New<'a> = ((&'a str, Option<u64>), State, u64);

impl Book {
    /// Opens an order with its first ClOrdID.
    pub(crate) fn open(
        &mut self,
        id: &[u8],
        ((client, seq), state, now_ms): New<'_>,
        (head, order): (&Head<'_>, &Order),
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let client = self.client(client);
        self.is_bound |= head.key.is_some();
        let held = Held::new(head, order, &mut self.scratch);
        let place = self.add_row(client, held, store)?;
        self.set_id(id, (Whose::Order(place), seq), state, now_ms, store)
    }

    /// Has a client's further ClOrdID name the order that another one names, which hears of it; without such an order it is the client's.
    pub(crate) fn join(
        &mut self,
        [id, original]: [&[u8]; 2],
        (from, state, now_ms): New<'_>,
        said: Said<'_>,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let Some(place) = self.place(original) else {
            return self.note(id, from, state, now_ms, store);
        };
        self.hear(place, said, now_ms, store)?;
        // An order keeps its id, and with that its row, where a cancel of another one has it.
        let is_cancel = matches!(said, Said::Cancel);
        let own = self.place(id).filter(|_| is_cancel && self.version(id).is_some());
        self.set_id(id, (Whose::Order(own.unwrap_or(place)), from.1), state, now_ms, store)
    }

    /// Returns the phase of the order of which an id names a version: the venue's, or one that waits there.
    fn version(&self, id: &[u8]) -> Option<Phase> {
        let (head, order) = self.rows.get(self.place(id)?)?.held.read()?;
        let mut versions = head.waits.iter().map(|wait| wait.1).chain([head.id]);
        let is_it = versions.any(|own| id.strip_prefix(b"11=") == Some(own));
        is_it.then(|| order.phase())
    }

    /// Reports whether an id names a version of an order that is not closed.
    pub(crate) fn is_open(&self, id: &[u8]) -> bool {
        self.version(id).is_some_and(|phase| phase != Phase::Closed)
    }

    /// The orders that budgets bind: the key of the named hold of each, whose it is, and the order.
    pub(crate) fn bound(&self) -> impl Iterator<Item = (u128, String, Cow<'_, Order>)> {
        let rows = self.rows.rows.iter().flatten();
        rows.filter_map(|row| {
            let (key, order) = row.held.bound()?;
            Some((key, self.label(row), order))
        })
    }

    /// The highest number in the keys of named holds.
    pub(crate) fn last_key(&self) -> Option<u64> {
        let rows = self.rows.rows.iter().flatten();
        rows.filter_map(|row| row.held.key()).map(key_number).max()
    }

    /// The order that budgets bind at a place, if it is still that of the key.
    pub(crate) fn bound_at(&self, place: RowPlace, key: u128) -> Option<(String, Cow<'_, Order>)> {
        let row = self.rows.get(place)?;
        let (_, order) = row.held.bound().filter(|(own, _)| *own == key)?;
        Some((self.label(row), order))
    }

    fn label(&self, row: &Row) -> String {
        let id =
            row.held.head().map(|head| if head.id.is_empty() { head.order_id } else { head.id });
        let id = String::from_utf8_lossy(id.unwrap_or_default());
        format!("{} {id}", self.clients[row.client as usize])
    }

    /// The order that a report names: by its ClOrdIDs, or else as [`Book::unnamed`].
    pub(crate) fn place_of(&self, message: &Message<'_>) -> Option<RowPlace> {
        let mut ids = [11, 41].into_iter().filter_map(|tag| id(message, tag));
        let place = ids.find_map(|id| self.place(&[b"11=", id].concat()));
        place.or_else(|| self.unnamed(message))
    }

    /// The order of a report (8, 9) of which no ClOrdID is known: the one with its OrderID (37), which is still open where the report has a
    /// ClOrdID, or has its execution; of a report without both the one that was made of its execution.
    pub(crate) fn unnamed(&self, message: &Message<'_>) -> Option<RowPlace> {
        let own = [11, 41].map(|tag| id(message, tag).map(|id| [b"11=", id].concat()));
        let is_named = own.iter().flatten().any(|id| self.ids.find(id).is_some());
        if is_named || !matches!(message.msg_type(), b"8" | b"9") {
            return None;
        }
        let has_id = own.iter().any(Option::is_some);
        let Some(order_id) = id(message, 37) else {
            let execution = text(message, 17).filter(|_| !has_id)?;
            return self.place(&[b"17=", execution].concat());
        };
        let found = self.with_order_id(order_id).into_iter().find_map(|place| {
            let (head, order) = self.rows.get(place)?.held.read()?;
            (!order.is_void()).then_some((place, head, order))
        });
        let (place, head, order) = found?;
        let agrees = |tag, known: &[u8]| {
            known.is_empty() || text(message, tag).is_none_or(|found| found == known)
        };
        let is_it = !order.is_known() || agrees(54, head.side) && agrees(55, head.symbol);
        // Of one that is closed the venue may have given the OrderID to another.
        let is_it = is_it && (!has_id || order.phase() != Phase::Closed || is_of(message, &order));
        is_it.then_some(place)
    }

    /// How the order stands that an id names.
    pub(crate) fn known(&self, id: &[u8]) -> Option<OrderView> {
        self.view(self.rows.get(self.place(id)?)?)
    }

    /// The order at a place, what is beside it, and the label of its named hold.
    pub(crate) fn order_at(&self, place: RowPlace) -> Option<(Head<'_>, Cow<'_, Order>, String)> {
        let row = self.rows.get(place)?;
        let (head, order) = row.held.read()?;
        Some((head, order, self.label(row)))
    }

    /// The client of the order at a place.
    pub(crate) fn client_at(&self, place: RowPlace) -> &str {
        self.rows.get(place).map_or("", |row| &self.clients[row.client as usize])
    }

    /// Reports whether the order at a place may be executed, and is one of those that are meant, by client and account.
    pub(crate) fn is_open_order(
        &self,
        place: RowPlace,
        is_meant: impl Fn(&str, &[u8]) -> bool,
    ) -> bool {
        let Some((head, order)) = self.rows.get(place).and_then(|row| row.held.read()) else {
            return false;
        };
        let is_open = match order.phase() {
            Phase::Open => true,
            // A replace may open it again.
            Phase::Filled => !head.waits.is_empty(),
            Phase::Closed => false,
        };
        is_open && is_meant(self.client_at(place), head.account)
    }

    /// Finds open orders from a place on, so many at most, and where the search goes on. A part is bounded, whatever the book has.
    pub(crate) fn open_orders(
        &self,
        from: RowPlace,
        max: usize,
        is_meant: impl Fn(&str, &[u8]) -> bool,
    ) -> (Vec<RowPlace>, Option<RowPlace>) {
        let end = RowPlace::try_from(self.rows.rows.len()).unwrap_or(RowPlace::MAX);
        let (mut found, mut at) = (Vec::new(), from);
        while at < end && (at - from) < PLACES_SEARCHED && found.len() < max {
            found.extend(self.is_open_order(at, &is_meant).then_some(at));
            at += 1;
        }
        (found, (at < end).then_some(at))
    }

    /// Finds messages of open orders that budgets bind, opened before a time, which no report has answered: the order, the type and the id of
    /// each, from an id on, and where the search goes on. A part is bounded.
    pub(crate) fn unanswered(&self, from: Slot, before_us: u64) -> (Vec<Unanswered>, Option<Slot>) {
        let start = from as usize;
        let end = self.ids.slots_max().min(start + SLOTS_SEARCHED);
        let find = |slot: Slot| {
            let entry = self.ids.entry(slot);
            let Whose::Order(place) = entry.whose else { return None };
            let id = self.ids.id(slot);
            let text = id.strip_prefix(b"11=").filter(|_| !entry.state.may_go())?;
            let (head, order) = self.rows.get(place)?.held.read()?;
            let is_meant = key_number(head.key?) < before_us && order.phase() != Phase::Closed;
            let kind: &[u8] = match text {
                _ if text == head.id => b"D",
                _ if head.waits.iter().any(|wait| wait.1 == text) => b"G",
                _ => b"F",
            };
            let is_open = match kind {
                b"D" => !head.is_answered(&order),
                kind => kind == b"G" || entry.state == State::Sent,
            };
            (is_meant && is_open).then(|| (place, kind, id.to_vec()))
        };
        let next = (end < self.ids.slots_max()).then(|| Slot::try_from(end).ok()).flatten();
        (self.ids.slots_in(start..end).filter_map(find).collect(), next)
    }

    /// The row of the order that an id names.
    pub(crate) fn place(&self, id: &[u8]) -> Option<RowPlace> {
        match self.ids.entry(self.ids.find(id)?).whose {
            Whose::Order(place) => Some(place),
            Whose::Client(_) => None,
        }
    }

    /// Notes what a report (8, 9) says of the order that it names. Returns the phase of that order.
    pub(crate) fn report(
        &mut self,
        message: &Message<'_>,
        unknown: Option<Unknown>,
        now_ms: u64,
        store: &mut dyn MessageStore,
    ) -> Result<Option<Phase>, StoreError> {
        if !matches!(message.msg_type(), b"8" | b"9") {
            return Ok(None);
        }
        self.is_bound |= unknown.is_some();
        let ids = [11, 41].map(|tag| id(message, tag).map(|id| [b"11=", id].concat()));
        let known = ids.iter().flatten().filter_map(|id| Some((id, self.ids.find(id)?)));
        let known: Vec<_> = known.collect();
        let place = |slot: Slot| match self.ids.entry(slot).whose {
            Whose::Order(place) => Some(place),
            Whose::Client(_) => None,
        };
        // A cancel may have the id of another order than that which it names.
        let place = match (known.iter().rev().find_map(|one| place(one.1)), known.first()) {
            (Some(place), _) => place,
            // It was not opened here, or before orders had rows.
            (None, Some((id, slot))) if message.msg_type() == b"8" => {
                let Whose::Client(client) = self.ids.entry(*slot).whose else { return Ok(None) };
                let bound = unknown.map(|unknown| (unknown.key, unknown.order));
                let held = Held::unknown((id, message), bound, &mut self.scratch);
                let Some(held) = held else { return Ok(None) };
                self.add_row(client, held, store)?
            }
            (None, None) => return self.report_unnamed(message, unknown, now_ms, store),
            _ => return Ok(None),
        };
        let mut knows = false;
        for (id, slot) in known {
            let entry = self.ids.entry(slot);
            if matches!(entry.whose, Whose::Client(_)) {
                let entry = Entry { whose: Whose::Order(place), ..entry };
                self.write_id(id, Some(slot), entry, store)?;
            } else {
                knows |= ids[0].as_ref() == Some(id) && entry.whose == Whose::Order(place);
            }
        }
        self.merge_unknown(place, message, now_ms, store)?;
        self.hear(place, Said::Report(message, knows), now_ms, store)
    }

    /// The same of a report of which no ClOrdID is known: its order has the OrderID, or nobody sent it from here.
    fn report_unnamed(
        &mut self,
        message: &Message<'_>,
        unknown: Option<Unknown>,
        now_ms: u64,
        store: &mut dyn MessageStore,
    ) -> Result<Option<Phase>, StoreError> {
        let said = Said::Report(message, false);
        if let Some(place) = self.unnamed(message) {
            let key = self.rows.get(place).and_then(|row| row.held.head()).map(|head| head.key());
            if let Some(key) =
                key.filter(|key| self.owner(key).is_some_and(|one| one.1 == State::Sent))
            {
                self.mark(&key, State::Live, now_ms, store)?;
            }
            return self.hear(place, said, now_ms, store);
        }
        let Some((key, unknown)) = nobodys_id(message).zip(unknown) else { return Ok(None) };
        let client = self.client(&unknown.client);
        let bound = Some((unknown.key, unknown.order));
        let held = Held::unknown((&key, message), bound, &mut self.scratch);
        let Some(held) = held else { return Ok(None) };
        let place = self.add_row(client, held, store)?;
        self.set_id(&key, (Whose::Order(place), None), State::Live, now_ms, store)?;
        let phase = self.hear(place, said, now_ms, store)?;
        if !key.starts_with(b"17=") {
            return Ok(phase);
        }
        // No report can name it again, but this one.
        let phase = self.hear(place, Said::Rejected(b""), now_ms, store)?;
        self.mark(&key, State::Closed, now_ms, store)?;
        Ok(phase)
    }

    /// An order hears something, and what has changed is written down. Returns its phase.
    pub(crate) fn hear(
        &mut self,
        place: RowPlace,
        said: Said<'_>,
        now_ms: u64,
        store: &mut dyn MessageStore,
    ) -> Result<Option<Phase>, StoreError> {
        let Some(row) = self.rows.get_mut(place) else { return Ok(None) };
        let Some(heard) = row.held.hear(&said, &mut self.scratch) else { return Ok(None) };
        let Heard { phase, ended, events, whole, alarms } = heard;
        self.alarms.extend(alarms);
        let record = row.record;
        if let Some(long) = row.held.long().filter(|_| !events.is_empty()) {
            let (events, before) = (events.clone(), (long.events.len(), long.bytes[0]));
            self.changes.push(Change::Row(RowChange::Heard(place, record, events, before)));
        }
        match whole {
            Some(whole) => self.write_row(place, whole, store)?,
            None => self.write_events(place, &events, store)?,
        }
        for id in ended {
            self.mark(&id, State::Closed, now_ms, store)?;
        }
        self.clean(store)?;
        Ok(Some(phase))
    }

    /// Writes what a long row heard.
    fn write_events(
        &mut self,
        place: RowPlace,
        events: &[Event],
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        for event in events {
            let Some(row) = self.rows.get_mut(place) else { return Ok(()) };
            let Some(long) = row.held.long() else { return Ok(()) };
            let record = store.next_out();
            self.scratch.clear();
            self.scratch.push(EVENT);
            self.scratch.extend_from_slice(&row.number.to_le_bytes());
            event.encode(&mut self.scratch);
            store.put(&self.scratch)?;
            long.events.push(record);
            long.bytes[0] += self.scratch.len();
            let is_as_long = long.bytes[0] > long.bytes[1];
            self.push_record(record, Of::Event(place));
            if is_as_long {
                self.write_again(place, store)?;
            }
        }
        Ok(())
    }

    /// Writes a row whole that has not changed.
    pub(super) fn write_again(
        &mut self,
        place: RowPlace,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let Some(row) = self.rows.get(place) else { return Ok(()) };
        let held = match &row.held {
            Held::Short(bytes) => Held::Short(bytes.clone()),
            Held::Long(long) => {
                let Some(head) = Head::take(&mut &long.head[..]) else { return Ok(()) };
                Held::new(&head, &long.now, &mut self.scratch)
            }
        };
        self.write_row(place, held, store)
    }

    fn add_row(
        &mut self,
        client: u32,
        held: Held,
        store: &mut dyn MessageStore,
    ) -> Result<RowPlace, StoreError> {
        let empty = Held::Short(Box::default());
        let row = Row { client, ids: 0, number: store.next_out(), record: 0, held: empty };
        let place = self.rows.add(row);
        self.changes.push(Change::Row(RowChange::Added(place)));
        self.write_row(place, held, store)?;
        Ok(place)
    }

    pub(super) fn write_row(
        &mut self,
        place: RowPlace,
        held: Held,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let Some(row) = self.rows.get(place) else { return Ok(()) };
        let name = self.clients[row.client as usize].as_bytes();
        self.scratch.clear();
        self.scratch.push(WHOLE);
        self.scratch.extend_from_slice(&row.number.to_le_bytes());
        put_text(name, &mut self.scratch);
        held.put(&mut self.scratch);
        let (record, is_new) = (store.next_out(), row.record == 0);
        if let Err(error) = store.put(&self.scratch) {
            // A new order does not leave, and what it was granted comes back.
            let bound = held.bound().filter(|_| is_new);
            let ends = |(key, order): (u128, Cow<'_, Order>)| {
                HoldChange::Ends(key, Box::new(order.into_owned()))
            };
            self.holds.extend(bound.map(ends));
            return Err(error);
        }
        self.set_row(place, held, record);
        Ok(())
    }

    fn set_row(&mut self, place: RowPlace, held: Held, record: u64) {
        // A new order has no OrderID yet.
        let is_read = self.rows.reading.is_some();
        if is_read || self.rows.get(place).is_some_and(|row| row.record > 0) {
            self.index_row(place, Some(&held));
        }
        let Some(row) = self.rows.get_mut(place) else { return };
        let next = Row { held, record, ..*row };
        let before = std::mem::replace(row, next);
        self.remove_records(&before);
        self.changes.push(Change::Row(RowChange::Was(place, before)));
        self.push_record(record, Of::Order(place));
    }

    fn remove_records(&mut self, row: &Row) {
        for record in row.held.events().iter().chain([&row.record]) {
            self.remove_record(*record);
        }
    }

    /// Forgets an order that no id names any more.
    pub(super) fn drop_row(&mut self, whose: Whose) {
        let Whose::Order(place) = whose else { return };
        let is_reading = self.rows.reading.is_some();
        if is_reading || self.rows.get(place).is_none_or(|row| row.ids > 0) {
            return;
        }
        self.index_row(place, None);
        if let Some(row) = self.rows.rows[place as usize].take() {
            self.remove_records(&row);
            self.changes.push(Change::Row(RowChange::Removed(place, row)));
        }
    }

    pub(super) fn begin_reading(&mut self) {
        self.rows.reading = Some(BTreeMap::new());
    }

    /// The row of a number in a record that is read; its whole may be a later record.
    pub(super) fn numbered(&mut self, number: u64) -> Option<RowPlace> {
        let rows = &mut self.rows;
        if let Some(place) = rows.reading.as_ref()?.get(&number) {
            return Some(*place);
        }
        let held = Held::Short(Box::default());
        let place = rows.add(Row { client: 0, ids: 0, number, record: 0, held });
        rows.reading.as_mut()?.insert(number, place);
        Some(place)
    }

    /// Reads a row's record.
    pub(super) fn read_row(&mut self, record: u64, mut bytes: &[u8]) -> Option<()> {
        let number = take_number(&mut bytes)?;
        let client = self.client(std::str::from_utf8(take_text(&mut bytes)?).ok()?);
        let mut rest = bytes;
        let head = Head::take(&mut rest)?;
        let order = Order::decode(rest).ok()?;
        let held = Held::new(&head, &order, &mut self.scratch);
        let place = self.numbered(number)?;
        self.rows.get_mut(place)?.client = client;
        self.set_row(place, held, record);
        Some(())
    }

    /// Reads the record of an event. One from before the whole says nothing new.
    pub(super) fn read_event(&mut self, record: u64, mut bytes: &[u8]) -> Option<()> {
        let number = take_number(&mut bytes)?;
        let event = Event::decode(bytes).ok()?;
        let known = self.rows.reading.as_ref()?.get(&number).copied();
        let Some(place) = known else { return Some(()) };
        let held = &mut self.rows.get_mut(place)?.held;
        // Of another version, in which it was long.
        if let Held::Short(bytes) = held
            && !bytes.is_empty()
        {
            let mut rest = &bytes[..];
            Head::take(&mut rest)?;
            let (head, order) = (bytes.len() - rest.len(), Order::decode(rest).ok()?);
            *held = Held::ready(&bytes[..head], order, bytes.len());
        }
        if let Some(long) = held.long() {
            long.now.apply(&event).ok()?;
            long.kept.apply(&event).ok()?;
            long.events.push(record);
            long.bytes[0] += bytes.len();
            self.push_record(record, Of::Event(place));
        }
        Some(())
    }

    /// Forgets rows that no id names, and ids whose row was not there. Returns how many of these rows are lost.
    pub(super) fn end_reading(&mut self) -> u64 {
        let places = self.rows.reading.take().unwrap_or_default();
        let is_lost = |whose| match whose {
            Whose::Order(place) => self.rows.get(place).is_some_and(|row| row.record == 0),
            Whose::Client(_) => false,
        };
        let lost = places.values().filter(|place| is_lost(Whose::Order(**place))).count();
        let slots =
            self.ids.slots().filter(|slot| lost > 0 && is_lost(self.ids.entry(*slot).whose));
        for slot in slots.collect::<Vec<_>>() {
            self.remove_known(slot);
        }
        for place in places.into_values() {
            self.drop_row(Whose::Order(place));
        }
        lost as u64
    }

    /// Lists so many orders at most from a place on, and where the next page begins. A page is bounded, whatever the book has.
    pub(crate) fn orders(
        &self,
        from: RowPlace,
        max: usize,
        is_in_doubt: impl Fn(RowPlace) -> bool,
    ) -> (Vec<OrderView>, Option<RowPlace>) {
        let (mut found, rows) = (Vec::new(), &self.rows.rows);
        let (mut at, first) = (from as usize, from as usize);
        while at < rows.len() && at - first < PLACES_AT_ONCE && found.len() < max.min(ROWS_AT_ONCE)
        {
            let view = rows[at].as_ref().and_then(|row| self.view(row));
            let is_in_doubt = RowPlace::try_from(at).is_ok_and(&is_in_doubt);
            found.extend(view.map(|view| OrderView { is_in_doubt, ..view }));
            at += 1;
        }
        (found, RowPlace::try_from(at).ok().filter(|_| at < rows.len()))
    }

    fn view(&self, row: &Row) -> Option<OrderView> {
        let (head, order) = row.held.read()?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Some(OrderView {
            is_in_doubt: false,
            session: self.clients[row.client as usize].clone(),
            venue: String::new(),
            cl_ord_id: text(head.id),
            order_id: text(head.order_id),
            account: text(head.account),
            symbol: text(head.symbol),
            side: text(head.side),
            phase: order.phase(),
            is_replacing: !head.waits.is_empty(),
            standing: order.standing(),
            legs: order.legs().iter().copied().zip(order.amounts().map(|leg| leg.1)).collect(),
        })
    }
}
