//! Whose an order or a request at a venue is, for as long as it may live, and what came for nobody.
//!
//! It is a log of records in a store of its own: the newest record of an id counts. While it has more than twice as many records as there
//! are ids, the oldest that still counts is written once more at the end with each new one, so it never has to be written anew.

use std::collections::VecDeque;

use fix_session::{MessageStore, StoreError};
use gate_orders::Alarm;
use table::Secret;

use crate::head::take_number;
pub(crate) use crate::known::State;
use crate::known::{Entry, KnownIds, Of, Records, Slot, Whose};
use crate::rows::{EVENT, HoldChange, RowChange, Rows, WHOLE};

mod order_ids;
mod orders;

/// How long an id is known after its order is closed, or after it was asked by.
const KNOWN_MS: u64 = 24 * 3_600_000;
/// Records that need not count before the oldest are written again.
const SLACK: u64 = 1_024;
/// How many ids go, and how many records are written again, with each that is new.
const AT_ONCE: usize = 2;

/// An id, with the number of the client's message that it came with; of one without it, as before there was a number.
const SENT: u8 = b'S';
const ID: u8 = b'I';
/// A ClOrdID of an order that has a row.
const LINK: u8 = b'L';
const FORGET: u8 = b'F';
const KEEP: u8 = b'K';
const GIVEN: u8 = b'G';

/// Stands for all ids that the book does not know, of a venue that began with one client: they are that client's. It is there until an id of
/// another one is forgotten, because until then what is not known is from before the book, or was forgotten and that client's.
const BEFORE: &[u8] = b"";

/// The ids of a venue. An id is a field as it stands towards the venue: `11=A17`, `262=quotes`.
#[derive(Debug)]
pub(crate) struct Book {
    max: usize,
    /// Names of clients, also of such that are not configured any more.
    clients: Vec<String>,
    ids: KnownIds,
    /// Orders that ids name.
    rows: Rows,
    /// Records that count.
    records: Records,
    /// Ids that may go, the oldest first, and since when; `None` for since the start.
    spare: VecDeque<(Option<u64>, Slot)>,
    started_ms: Option<u64>,
    kept: usize,
    /// The alarm was given.
    is_filling: bool,
    scratch: Vec<u8>,
    /// What has changed since the last flush, the latest last.
    changes: Vec<Change>,
    /// Budgets bind orders of it.
    is_bound: bool,
    /// What the last flush makes of named holds.
    holds: Vec<HoldChange>,
    /// What a person should look at.
    alarms: Vec<Alarm>,
}

/// What takes one change back.
#[derive(Debug)]
enum Change {
    Added(Slot),
    Was(Slot, Entry),
    Removed(Slot),
    /// A record was added.
    Record(u64),
    /// A record does not count any more.
    Gone(u64, Of),
    /// An id may go.
    Spare,
    /// One may not any more, or went; and where it stood among those that may.
    NotSpare(usize, (Option<u64>, Slot)),
    Kept(usize),
    Row(RowChange),
}

impl Book {
    /// Makes an empty book of a venue, with room for so many ids. Who does not know the secret cannot choose ids that are slow to find.
    pub(crate) fn new(max: usize, secret: Secret) -> Book {
        Book {
            max,
            clients: Vec::new(),
            ids: KnownIds::new(secret),
            rows: Rows::default(),
            records: Records::default(),
            spare: VecDeque::new(),
            started_ms: None,
            kept: 0,
            is_filling: false,
            scratch: Vec::new(),
            changes: Vec::new(),
            is_bound: false,
            holds: Vec::new(),
            alarms: Vec::new(),
        }
    }

    /// Reads a book. Returns how many of its records are lost.
    pub(crate) fn load(&mut self, store: &mut dyn MessageStore) -> u64 {
        *self = Book::new(self.max, self.ids.secret());
        let (mut lost, mut bytes) = (0, Vec::new());
        self.begin_reading();
        for record in store.next_in()..store.next_out() {
            bytes.clear();
            if !store.get(record, &mut bytes) || self.apply(record, &bytes).is_none() {
                lost += 1;
            }
            self.settle();
        }
        lost += self.end_reading();
        self.is_bound = self.last_key().is_some();
        let spare = self.ids.slots().map(|slot| (self.ids.entry(slot), slot));
        let spare = spare.filter(|one| one.0.state.may_go());
        let mut spare: Vec<(u64, Slot)> = spare.map(|(entry, slot)| (entry.record, slot)).collect();
        spare.sort_unstable();
        self.spare = spare.into_iter().map(|one| (None, one.1)).collect();
        self.settle();
        lost
    }

    /// All that has changed is kept.
    pub(crate) fn settle(&mut self) {
        if !self.changes.is_empty() {
            for change in self.changes.drain(..) {
                if let Change::Row(change) = change {
                    if self.is_bound {
                        self.holds.extend(self.rows.hold_kept(&change));
                    }
                    self.rows.settle(change);
                }
            }
            self.ids.settle();
            self.records.settle();
        }
    }

    /// Nothing that has changed is kept: all is again as it was at the last flush.
    pub(crate) fn undo(&mut self) {
        while let Some(change) = self.changes.pop() {
            match change {
                Change::Added(slot) => {
                    self.rows.count(self.ids.entry(slot).whose, false);
                    self.ids.take_back(slot);
                }
                Change::Was(slot, entry) => {
                    self.rows.count(self.ids.entry(slot).whose, false);
                    self.rows.count(entry.whose, true);
                    self.ids.set(slot, entry);
                }
                Change::Removed(slot) => {
                    self.rows.count(self.ids.entry(slot).whose, true);
                    self.ids.bring_back(slot);
                }
                Change::Row(change) => {
                    if self.is_bound {
                        self.holds.extend(self.rows.hold_undone(&change));
                    }
                    self.index_undone(&change);
                    self.rows.undo(change);
                }
                Change::Record(record) => self.records.take_back(record),
                Change::Gone(record, of) => self.records.bring_back(record, of),
                Change::Spare => drop(self.spare.pop_back()),
                Change::NotSpare(at, one) => self.spare.insert(at, one),
                Change::Kept(kept) => self.kept = kept,
            }
        }
    }

    fn push_record(&mut self, record: u64, of: Of) {
        self.records.push(record, of);
        self.changes.push(Change::Record(record));
    }

    fn remove_record(&mut self, record: u64) -> Option<Of> {
        let of = self.records.remove(record)?;
        self.changes.push(Change::Gone(record, of));
        Some(of)
    }

    fn set_kept(&mut self, kept: usize) {
        self.changes.push(Change::Kept(std::mem::replace(&mut self.kept, kept)));
    }

    /// An id of those that may go does so no more, or went.
    fn take_spare(&mut self, at: usize) -> Option<Slot> {
        let one = self.spare.remove(at)?;
        self.changes.push(Change::NotSpare(at, one));
        Some(one.1)
    }

    fn take_spare_slot(&mut self, slot: Slot) {
        if let Some(at) = self.spare.iter().position(|one| one.1 == slot) {
            self.take_spare(at);
        }
    }

    fn apply(&mut self, record: u64, bytes: &[u8]) -> Option<()> {
        let (kind, rest) = bytes.split_first()?;
        match *kind {
            WHOLE => self.read_row(record, rest)?,
            EVENT => self.read_event(record, rest)?,
            LINK => {
                let (state, rest) = rest.split_first()?;
                let (seq, mut rest) = rest.split_first_chunk()?;
                let (seq, state) = (u32::from_le_bytes(*seq), State::of(*state)?);
                let whose = Whose::Order(self.numbered(take_number(&mut rest)?)?);
                self.set(rest, self.ids.find(rest), Entry { whose, state, seq, record });
            }
            ID | SENT => {
                let ([state, length], mut rest) = rest.split_first_chunk::<2>()?;
                let mut seq = 0;
                if *kind == SENT {
                    let (bytes, behind) = rest.split_first_chunk()?;
                    (seq, rest) = (u32::from_le_bytes(*bytes), behind);
                }
                let (name, id) = rest.split_at_checked(usize::from(*length))?;
                let whose = Whose::Client(self.client(std::str::from_utf8(name).ok()?));
                let entry = Entry { whose, state: State::of(*state)?, seq, record };
                self.set(id, self.ids.find(id), entry);
            }
            FORGET => self.remove(rest),
            KEEP => {
                self.push_record(record, Of::Message);
                self.set_kept(self.kept + 1);
            }
            GIVEN => {
                let given = u64::from_le_bytes(*rest.first_chunk()?);
                let is_kept = self.remove_record(given).is_some();
                self.set_kept(self.kept - usize::from(is_kept));
            }
            _ => return None,
        }
        Some(())
    }

    /// The number of a client in this book.
    fn client(&mut self, name: &str) -> u32 {
        let known = self.clients.iter().position(|one| one == name);
        let at = known.unwrap_or_else(|| {
            self.clients.push(name.to_owned());
            self.clients.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Sets what is known of an id, in its slot if it has one. Returns its slot.
    fn set(&mut self, id: &[u8], known: Option<Slot>, entry: Entry) -> Slot {
        self.rows.count(entry.whose, true);
        let slot = match known {
            Some(slot) => {
                let before = self.ids.entry(slot);
                self.remove_record(before.record);
                self.changes.push(Change::Was(slot, before));
                self.ids.set(slot, entry);
                self.rows.count(before.whose, false);
                self.drop_row(before.whose);
                slot
            }
            None => {
                let slot = self.ids.add(id, entry);
                self.changes.push(Change::Added(slot));
                slot
            }
        };
        self.push_record(entry.record, Of::Id(slot));
        slot
    }

    fn remove(&mut self, id: &[u8]) {
        if let Some(slot) = self.ids.find(id) {
            self.remove_known(slot);
        }
    }

    fn remove_known(&mut self, slot: Slot) {
        let entry = self.ids.entry(slot);
        self.remove_record(entry.record);
        self.ids.remove(slot);
        self.changes.push(Change::Removed(slot));
        self.rows.count(entry.whose, false);
        self.drop_row(entry.whose);
    }

    /// Takes what the last flush makes of named holds.
    pub(crate) fn take_holds(&mut self) -> Vec<HoldChange> {
        std::mem::take(&mut self.holds)
    }

    /// Takes what a person should look at.
    pub(crate) fn take_alarms(&mut self) -> Vec<Alarm> {
        std::mem::take(&mut self.alarms)
    }

    /// Has the memory fetched that tells whose an id is.
    pub(crate) fn prefetch(&self, id: &[u8]) {
        self.ids.prefetch(id);
    }

    /// Returns whose an id is, and its state.
    pub(crate) fn owner(&self, id: &[u8]) -> Option<(&str, State)> {
        self.ids.find(id).map(|slot| self.owner_of(slot))
    }

    fn owner_of(&self, slot: Slot) -> (&str, State) {
        let entry = self.ids.entry(slot);
        let client = match entry.whose {
            Whose::Client(client) => client,
            Whose::Order(place) => self.rows.get(place).map_or(0, |row| row.client),
        };
        (&self.clients[client as usize], entry.state)
    }

    /// Notes that what this book does not know is a client's. To be called once, while the book is empty.
    pub(crate) fn begin_with(
        &mut self,
        client: &str,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let whose = Whose::Client(self.client(client));
        let entry = Entry { whose, state: State::Live, seq: 0, record: 0 };
        self.write_id(BEFORE, self.ids.find(BEFORE), entry, store).map(drop)
    }

    /// Returns whose an order is that this book does not know; `None` if it may be anybody's.
    pub(crate) fn owner_before(&self) -> Option<&str> {
        self.owner(BEFORE).map(|owner| owner.0)
    }

    /// An id is forgotten: from now on nobody can say whose one is that is not known.
    pub(crate) fn forget_before(&mut self, store: &mut dyn MessageStore) -> Result<(), StoreError> {
        match self.ids.find(BEFORE) {
            Some(_) => self.doubt(store),
            None => Ok(()),
        }
    }

    /// From now on nobody can say whose an id is that is not known, whatever this book knows of that: its store may know something else.
    pub(crate) fn doubt(&mut self, store: &mut dyn MessageStore) -> Result<(), StoreError> {
        if let Some(slot) = self.ids.find(BEFORE) {
            self.remove_known(slot);
        }
        store.put(&[FORGET])
    }

    /// Reports whether there is room for so many more ids.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.ids.len() + more <= self.max + self.spare.len()
    }

    /// Reports once that the book is 7/8 full of ids that may not go.
    pub(crate) fn fills(&mut self) -> Option<usize> {
        let needed = self.ids.len().saturating_sub(self.spare.len());
        let fills = needed >= self.max - self.max / 8;
        let tells = fills && !self.is_filling;
        self.is_filling = fills || self.is_filling && needed >= self.max - self.max / 4;
        tells.then_some(needed)
    }

    /// Returns whose an id is, and the number of the message that it came with, where that is known.
    pub(crate) fn sender(&self, id: &[u8]) -> Option<(&str, Option<u64>)> {
        let slot = self.ids.find(id)?;
        let seq = self.ids.entry(slot).seq;
        Some((self.owner_of(slot).0, (seq > 0).then_some(seq.into())))
    }

    /// Notes whose an id is, and with which of his messages it came.
    pub(crate) fn note(
        &mut self,
        id: &[u8],
        (client, seq): (&str, Option<u64>),
        state: State,
        now_ms: u64,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let whose = Whose::Client(self.client(client));
        self.set_id(id, (whose, seq), state, now_ms, store)
    }

    /// Changes the state of an id that is known.
    pub(crate) fn mark(
        &mut self,
        id: &[u8],
        state: State,
        now_ms: u64,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        match self.ids.find(id).map(|slot| self.ids.entry(slot)) {
            Some(entry) if entry.state != state => {
                self.set_id(id, (entry.whose, None), state, now_ms, store)
            }
            _ => Ok(()),
        }
    }

    /// Sets what is known of an id. Others are forgotten after a day, or for its room.
    fn set_id(
        &mut self,
        id: &[u8],
        (whose, seq): (Whose, Option<u64>),
        state: State,
        now_ms: u64,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let started_ms = *self.started_ms.get_or_insert(now_ms);
        let slot = self.ids.find(id);
        let was_spare = slot.is_some_and(|slot| self.ids.entry(slot).state.may_go());
        let before = slot.map_or(0, |slot| self.ids.entry(slot).seq);
        let seq = seq.and_then(|seq| u32::try_from(seq).ok()).unwrap_or(before);
        let slot = self.write_id(id, slot, Entry { whose, state, seq, record: 0 }, store)?;
        if state.may_go() && !was_spare {
            self.spare.push_back((Some(now_ms), slot));
            self.changes.push(Change::Spare);
        } else if was_spare && !state.may_go() {
            self.take_spare_slot(slot);
        }
        for _ in 0..AT_ONCE {
            let Some((since, oldest)) = self.spare.front() else { break };
            let known_ms = now_ms.saturating_sub(since.unwrap_or(started_ms));
            if *oldest != slot && (known_ms >= KNOWN_MS || self.ids.len() > self.max) {
                self.forget_oldest(store)?;
            }
        }
        self.clean(store)
    }

    /// Forgets an id.
    pub(crate) fn forget(
        &mut self,
        id: &[u8],
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        if let Some(slot) = self.ids.find(id) {
            self.remove_known(slot);
            self.take_spare_slot(slot);
        }
        self.forget_before(store)?;
        store.put(&[&[FORGET], id].concat())
    }

    fn forget_oldest(&mut self, store: &mut dyn MessageStore) -> Result<(), StoreError> {
        let Some(slot) = self.take_spare(0) else { return Ok(()) };
        self.forget_known(slot, store)
    }

    /// Forgets an id, and if it is not of the client whose all others are, also that they are.
    fn forget_known(&mut self, slot: Slot, store: &mut dyn MessageStore) -> Result<(), StoreError> {
        if Some(self.owner_of(slot).0) != self.owner_before() {
            self.forget_before(store)?;
        }
        self.scratch.clear();
        self.scratch.push(FORGET);
        self.scratch.extend_from_slice(self.ids.id(slot));
        self.remove_known(slot);
        store.put(&self.scratch)
    }

    /// Writes down what is known of an id, in its slot if it has one. Returns its slot.
    fn write_id(
        &mut self,
        id: &[u8],
        known: Option<Slot>,
        entry: Entry,
        store: &mut dyn MessageStore,
    ) -> Result<Slot, StoreError> {
        self.scratch.clear();
        match entry.whose {
            Whose::Client(client) => {
                let name = self.clients[client as usize].as_bytes();
                let kind = if entry.seq > 0 { SENT } else { ID };
                // Names have at most 80 characters.
                let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
                self.scratch.extend_from_slice(&[kind, entry.state.byte(), length]);
                if entry.seq > 0 {
                    self.scratch.extend_from_slice(&entry.seq.to_le_bytes());
                }
                self.scratch.extend_from_slice(name);
            }
            Whose::Order(place) => {
                let number = self.rows.get(place).map_or(0, |row| row.number);
                self.scratch.extend_from_slice(&[LINK, entry.state.byte()]);
                self.scratch.extend_from_slice(&entry.seq.to_le_bytes());
                self.scratch.extend_from_slice(&number.to_le_bytes());
            }
        }
        self.scratch.extend_from_slice(id);
        let record = store.next_out();
        store.put(&self.scratch)?;
        Ok(self.set(id, known, Entry { record, ..entry }))
    }

    /// Keeps a message that came for nobody.
    pub(crate) fn keep(
        &mut self,
        message: &[u8],
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        self.push_record(store.next_out(), Of::Message);
        self.set_kept(self.kept + 1);
        store.put(&[&[KEEP], message].concat())?;
        self.clean(store)
    }

    /// How many messages are kept.
    pub(crate) fn kept(&self) -> usize {
        self.kept
    }

    /// Takes the oldest message that is kept.
    pub(crate) fn give(
        &mut self,
        store: &mut dyn MessageStore,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let oldest = self.records.iter().find(|one| one.1 == Of::Message).map(|one| one.0);
        let Some(record) = oldest.filter(|_| self.kept > 0) else { return Ok(None) };
        let mut bytes = Vec::new();
        store.get(record, &mut bytes);
        self.remove_record(record);
        self.set_kept(self.kept - 1);
        store.put(&[&[GIVEN][..], &record.to_le_bytes()].concat())?;
        Ok(Some(bytes.split_off(bytes.len().min(1))))
    }

    /// Writes the oldest records again that count, if there are many that do not.
    fn clean(&mut self, store: &mut dyn MessageStore) -> Result<(), StoreError> {
        for _ in 0..AT_ONCE {
            let records = store.next_out() - store.next_in();
            if records <= 2 * self.records.len() as u64 + SLACK {
                return Ok(());
            }
            let Some(record) = self.records.first() else { break };
            let Some(of) = self.remove_record(record) else { break };
            match of {
                Of::Id(slot) => {
                    let (id, entry) = (self.ids.id(slot).to_vec(), self.ids.entry(slot));
                    self.write_id(&id, Some(slot), entry, store)?;
                }
                Of::Order(place) | Of::Event(place) => self.write_again(place, store)?,
                Of::Message => {
                    let mut bytes = Vec::new();
                    store.get(record, &mut bytes);
                    self.push_record(store.next_out(), Of::Message);
                    store.put(&bytes)?;
                }
            }
            store.set_next_in(self.records.first().unwrap_or(store.next_out()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use fix_session::MemoryStore;
    use gate_orders::Order;
    use proptest::prelude::*;

    use super::*;
    use crate::rows::Unknown;

    fn empty(max: usize) -> Book {
        Book::new(max, Secret::new(11))
    }

    fn note(book: &mut Book, store: &mut MemoryStore, id: u64, state: State, ms: u64) {
        let from = ("A", id.is_multiple_of(2).then_some(id + 1));
        book.note(format!("11={id}").as_bytes(), from, state, ms, store).unwrap();
    }

    fn known(book: &Book) -> Vec<(Vec<u8>, State)> {
        let one = |slot| (book.ids.id(slot).to_vec(), book.ids.entry(slot).state);
        let mut known: Vec<_> = book.ids.slots().map(one).collect();
        known.sort_by(|one, other| one.0.cmp(&other.0));
        known
    }

    #[test]
    fn a_book_is_read_as_it_was_written_and_does_not_grow() {
        let (mut book, mut store) = (empty(100_000), MemoryStore::new(0));
        book.keep(b"8=kept", &mut store).unwrap();
        for id in 0..20_000 {
            note(&mut book, &mut store, id, State::Sent, 0);
            if id >= 50 {
                note(&mut book, &mut store, id - 50, State::Closed, 0);
            }
            if id % 3 == 0 {
                book.forget(format!("11={id}").as_bytes(), &mut store).unwrap();
            }
        }
        let records = store.next_out() - store.next_in();
        assert!(records <= 2 * book.records.len() as u64 + SLACK + 4, "{records}");
        let mut again = empty(100_000);
        assert_eq!(again.load(&mut store), 0);
        assert_eq!(known(&again), known(&book));
        assert_eq!(again.sender(b"11=19990"), Some(("A", Some(19_991))));
        assert_eq!((again.kept(), again.spare.len()), (1, book.spare.len()));
        assert_eq!(again.give(&mut store).unwrap(), Some(b"8=kept".to_vec()));
        assert_eq!(again.give(&mut store).unwrap(), None);
        let mut once_more = empty(100_000);
        once_more.load(&mut store);
        assert_eq!(once_more.kept(), 0);
    }

    /// Has a book note a message: of a client with its ClOrdID, else of the venue.
    fn pass(book: &mut Book, store: &mut MemoryStore, text: &str, ms: u64) {
        let body = format!("{text}|52=20261123-10:15:30|").replace('|', "\x01");
        let mut bytes = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
        bytes.extend_from_slice(format!("10={:03}\x01", fix::sum(&bytes)).as_bytes());
        let fix::Framing::Whole(frame) = fix::frame(&bytes, 65_536) else { panic!("{text}") };
        let mut index = fix::Index::new(64);
        let message = index.read(frame).unwrap();
        let text = |tag| message.value(tag).unwrap_or_default();
        let [id, original] = [11, 41].map(|tag| [b"11=", text(tag)].concat());
        let new = (("A", Some(9)), State::Live, ms);
        match message.msg_type() {
            b"D" => {
                let order = crate::report::opened(&message).unwrap();
                let head = crate::report::head(&message, text(11), None);
                book.open(&id, new, (&head, &order), store)
            }
            b"G" => {
                let said = crate::rows::Said::Replace(&message, text(11), None);
                book.join([&id, &original], new, said, store)
            }
            b"F" => book.join([&id, &original], new, crate::rows::Said::Cancel, store),
            _ => {
                let order = Order::unknown(&[], fix::Decimal::new(1, 0).unwrap()).unwrap();
                let unknown = Unknown { client: "A".to_owned(), key: ms.into(), order };
                let is_unknown = matches!((text(37), text(11)), ([_, ..], []));
                let unknown = is_unknown.then_some(unknown);
                book.report(&message, unknown, ms, store).map(drop)
            }
        }
        .unwrap();
    }

    /// Acts of a client and a venue on the order of an id; so many executions make it long.
    fn trade(book: &mut Book, store: &mut MemoryStore, (act, id): (u8, u64), ms: u64) {
        let (id, order) = (format!("o{id}"), format!("o{}", id % 3));
        let texts = match act {
            0 => vec![format!("35=D|11={id}|38=900|44=5|54=1|55=X")],
            1 => vec![format!("35=G|11={id}|41={order}|38=800|44=6")],
            2 => vec![format!("35=8|11={id}|41={order}|37=V{order}|150=5|39=1")],
            3 => vec![format!("35=8|11={order}|150=4|39=4")],
            4 => vec![format!("35=F|11={id}|41={order}"), format!("35=9|11={id}|41={order}|39=1")],
            5 => vec![format!("35=8|37=V{order}|150=F|39=1|17={ms}|32=2|31=5")],
            _ => (0..9)
                .map(|n| format!("35=8|11={order}|150=F|39=1|17={ms}-{n}|32=2|31=5"))
                .collect(),
        };
        texts.iter().for_each(|text| pass(book, store, text, ms));
    }

    fn orders(book: &Book) -> Vec<String> {
        let mut orders: Vec<_> =
            book.orders(0, 99, |_| false).0.iter().map(|one| format!("{one:?}")).collect();
        orders.sort();
        orders
    }

    /// How many orders each OrderID has.
    fn by_order_id(book: &Book) -> Vec<usize> {
        (0..3).map(|id| book.with_order_id(format!("Vo{id}").as_bytes()).len()).collect()
    }

    /// All of a book: ids, records with what each is of, orders, those that may go, and how many messages are kept.
    fn all(book: &Book) -> impl PartialEq + std::fmt::Debug + use<> {
        let id = |slot: &Slot| book.ids.id(*slot).to_vec();
        let mut ids: Vec<_> = book.ids.slots().map(|at| (id(&at), book.ids.entry(at))).collect();
        ids.sort_by(|one, other| one.0.cmp(&other.0));
        let of = |of| if let Of::Id(slot) = of { id(&slot) } else { format!("{of:?}").into() };
        let records: Vec<_> =
            book.records.iter().map(|(record, what)| (record, of(what))).collect();
        let spare: Vec<_> = book.spare.iter().map(|(since, slot)| (*since, id(slot))).collect();
        let rows: Vec<_> = book.rows.iter().collect();
        let order_ids = rows.iter().map(|(_, row)| row.held.order_id());
        let order_ids: Vec<_> = order_ids.map(|id| book.with_order_id(id)).collect();
        let rows = (format!("{rows:?}"), order_ids);
        ((ids, records, rows), spare, book.kept, book.ids.len(), book.records.len())
    }

    proptest! {
        /// Beside a copy of before, and what the store has.
        #[test]
        fn changes_that_are_not_kept_were_never_made(
            turns in prop::collection::vec(
                (prop::collection::vec((0..15_u8, 0..12_u64), 0..40), prop::bool::ANY), 1..12,
            ),
        ) {
            let (mut book, mut store, mut ms) = (empty(8), MemoryStore::new(0), 0);
            book.begin_with("A", &mut store).unwrap();
            book.settle();
            for (acts, is_kept) in turns {
                let (before, flushed) = (all(&book), store.clone());
                for (act, id) in acts {
                    ms += KNOWN_MS / 64;
                    match act {
                        0 => book.keep(b"8=kept", &mut store).unwrap(),
                        1 => drop(book.give(&mut store).unwrap()),
                        2 => book.forget(format!("11={id}").as_bytes(), &mut store).unwrap(),
                        6.. => trade(&mut book, &mut store, (act - 6, id), ms),
                        act => {
                            let state = [State::Sent, State::Live, State::Closed][usize::from(act) - 3];
                            note(&mut book, &mut store, id, state, ms);
                        }
                    }
                }
                if is_kept {
                    book.settle();
                } else {
                    store = flushed;
                    book.undo();
                    prop_assert_eq!(all(&book), before);
                }
                let mut again = empty(8);
                prop_assert_eq!(again.load(&mut store), 0);
                prop_assert_eq!(known(&again), known(&book));
                prop_assert_eq!((again.kept, again.records.len()), (book.kept, book.records.len()));
                prop_assert_eq!(orders(&again), orders(&book));
                prop_assert_eq!(by_order_id(&again), by_order_id(&book));
            }
        }
    }

    /// The records of a version in which orders had no rows.
    #[test]
    fn an_old_book_is_read_and_its_orders_get_rows_with_their_reports() {
        let (mut book, mut store) = (empty(8), MemoryStore::new(0));
        let records: [&[u8]; 6] = [
            b"Il\x01A",
            b"Ss\x01\x07\0\0\0A11=old",
            b"Il\x01B11=open",
            b"Ia\x01A131=q",
            b"Ic\x01A11=gone",
            b"F11=gone",
        ];
        records.iter().for_each(|record| store.put(record).unwrap());
        assert_eq!(book.load(&mut store), 0);
        assert_eq!(
            (book.owner_before(), book.orders(0, 99, |_| false)),
            (Some("A"), (Vec::new(), None))
        );
        assert_eq!(book.sender(b"11=old"), Some(("A", Some(7))));
        pass(&mut book, &mut store, "35=9|11=old|39=8", 0);
        pass(&mut book, &mut store, "35=8|11=open|150=F|39=1|17=1|32=2|31=5|37=V", 0);
        let mut again = empty(8);
        assert_eq!(again.load(&mut store), 0);
        let found = again.orders(0, 99, |_| false).0;
        assert_eq!(found, book.orders(0, 99, |_| false).0);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&*found[0].session, &*found[0].cl_ord_id, &*found[0].order_id),
            ("B", "open", "V")
        );
        assert_eq!(found[0].standing.executed.unwrap().to_string(), "2");
        assert_eq!(
            (again.owner(b"11=open"), again.owner_before()),
            (Some(("B", State::Live)), Some("A"))
        );
        // Without the records of its row nobody can say whose it is.
        for record in store.next_in()..store.next_out() {
            let mut bytes = Vec::new();
            if store.get(record, &mut bytes) && bytes[0] == b'O' {
                store.forget(record);
            }
        }
        assert_eq!(again.load(&mut store), 3, "two records, and the row");
        assert_eq!((again.owner(b"11=open"), again.orders(0, 99, |_| false).0.len()), (None, 0));
    }

    #[test]
    fn what_is_executed_or_amended_and_cannot_be_read_is_an_alarm() {
        for (says, alarms) in [
            ("150=F|17=1|32=2|31=5", &[][..]),
            ("150=F|17=1|32=2", &[Alarm::BadReport]),
            ("150=F|17=1|32=-2|31=3|14=0|6=0", &[Alarm::BadReport]),
            ("150=F|17=1|32=2|14=2|6=5", &[Alarm::Missed]),
            ("150=H|17=2|14=0|6=0", &[Alarm::BadReport]),
            ("150=G|17=2|19=1|32=2", &[Alarm::BadReport]),
        ] {
            let (mut book, mut store) = (empty(8), MemoryStore::new(0));
            pass(&mut book, &mut store, "35=D|11=a|38=900|44=5|54=1|55=X", 0);
            pass(&mut book, &mut store, &format!("35=8|11=a|39=1|{says}"), 0);
            assert_eq!(book.take_alarms(), alarms, "{says}");
        }
    }

    /// An order with many executions is written in its events, whole at times, and read as it is.
    #[test]
    fn a_long_order_costs_what_its_executions_do() {
        let (mut book, mut store) = (empty(8), MemoryStore::new(0));
        pass(&mut book, &mut store, "35=D|11=a|38=9000|44=5|54=1|55=X", 0);
        let mut written = 0;
        for at in 0..2_000 {
            let first = store.next_out();
            pass(&mut book, &mut store, &format!("35=8|11=a|150=F|39=1|17={at}|32=2|31=5"), 0);
            book.settle();
            for record in first..store.next_out() {
                let mut bytes = Vec::new();
                store.get(record, &mut bytes);
                written += bytes.len();
            }
        }
        assert!(written < 2_000 * 400, "{written}");
        let mut again = empty(8);
        assert_eq!(again.load(&mut store), 0);
        assert_eq!(
            (again.orders(0, 99, |_| false), again.records.len()),
            (book.orders(0, 99, |_| false), book.records.len())
        );
        assert_eq!(again.orders(0, 99, |_| false).0[0].standing.open.unwrap().to_string(), "5000");
    }

    #[test]
    fn live_ids_stay_and_closed_ones_go_when_there_is_no_room_or_after_a_day() {
        let (mut book, mut store) = (empty(8), MemoryStore::new(0));
        (0..4).for_each(|id| note(&mut book, &mut store, id, State::Closed, 5));
        (4..7).for_each(|id| note(&mut book, &mut store, id, State::Live, 6));
        assert_eq!(book.fills(), None);
        for id in 7..12 {
            assert!(book.has_room(1));
            note(&mut book, &mut store, id, State::Live, 7);
        }
        assert!(!book.has_room(1));
        assert_eq!((book.fills(), book.fills()), (Some(8), None));
        assert_eq!(known(&book).len(), 8);
        assert!(known(&book).iter().all(|one| one.1 == State::Live));
        (4..9).for_each(|id| note(&mut book, &mut store, id, State::Closed, 8));
        assert!(book.has_room(5) && !book.has_room(6));
        note(&mut book, &mut store, 11, State::Live, 8 + KNOWN_MS - 1);
        assert_eq!(known(&book).len(), 8);
        note(&mut book, &mut store, 11, State::Live, 8 + KNOWN_MS);
        assert_eq!(known(&book).len(), 6);
        // What was read when the process began is known for a day from then on.
        let mut again = empty(8);
        again.load(&mut store);
        note(&mut again, &mut store, 11, State::Live, 1_000_000_000_000);
        assert_eq!(known(&again).len(), 6);
        note(&mut again, &mut store, 11, State::Live, 1_000_000_000_000 + KNOWN_MS);
        assert_eq!(known(&again).len(), 4);
    }

    /// What closed orders leave is still known to be the one client's, until an id of another one is forgotten.
    #[test]
    fn open_orders_of_the_only_client_stay_and_closed_ones_go() {
        let (mut book, mut store) = (empty(4), MemoryStore::new(0));
        book.begin_with("A", &mut store).unwrap();
        (0..4).for_each(|id| note(&mut book, &mut store, id, State::Live, 0));
        assert!(!book.has_room(1));
        note(&mut book, &mut store, 0, State::Closed, 0);
        note(&mut book, &mut store, 4, State::Live, 0);
        let newest: Vec<_> = known(&book).into_iter().map(|one| one.0).collect();
        assert_eq!(newest, [&b""[..], b"11=1", b"11=2", b"11=3", b"11=4"]);
        assert_eq!((book.has_room(1), book.owner_before()), (false, Some("A")));
        let mut again = empty(4);
        assert_eq!(again.load(&mut store), 0);
        assert_eq!((known(&again), again.owner_before()), (known(&book), Some("A")));
        book.note(b"11=b", ("B", None), State::Closed, 0, &mut store).unwrap();
        book.note(b"11=5", ("A", None), State::Live, 0, &mut store).unwrap();
        assert_eq!((book.owner(b"11=b"), book.owner_before()), (None, None));
    }
}
