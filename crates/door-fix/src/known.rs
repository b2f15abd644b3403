//! Ids by their text, and the records of a book in their order: what an order costs to write down does not grow with what is known.
//!
//! ```text
//! cells:  [ hash | slot ]  ──▶  slots:  [ text of up to 39 bytes, or where it is | record | client or row | seq | hash | length | state ]
//! ```
//!
//! A cell has eight bytes and a slot 64, one line of the cache, so a lookup waits for memory twice at most and a new id that is not long
//! allocates nothing. Two trees with the text on the heap, as it was before, compared texts all the
//! way down, three times for each order.

use std::collections::VecDeque;
use std::ops::Range;

use table::Secret;

use crate::cells::Cells;
pub(crate) use crate::cells::Slot;

/// What stands in a slot without a pointer: a field of ClOrdID with a UUID.
const SHORT_BYTES: usize = 39;

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// An order that nothing has come of.
    Sent,
    /// An order of which a report has come.
    Live,
    /// An order that is closed.
    Closed,
    /// A request.
    Asked,
}

impl State {
    const ALL: [(State, u8); 4] =
        [(State::Sent, b's'), (State::Live, b'l'), (State::Closed, b'c'), (State::Asked, b'a')];

    pub(crate) fn byte(self) -> u8 {
        State::ALL.iter().find(|one| one.0 == self).map_or(b'l', |one| one.1)
    }

    pub(crate) fn of(byte: u8) -> Option<State> {
        State::ALL.iter().find(|one| one.1 == byte).map(|one| one.0)
    }

    pub(crate) fn may_go(self) -> bool {
        matches!(self, State::Closed | State::Asked)
    }
}

/// Whose an id is, by numbers of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// A client's.
    Client(u32),
    /// It names an order that has a row, which knows its client.
    Order(u32),
}

impl Whose {
    /// Marks a row.
    const ORDER: u32 = 1 << 31;

    fn bits(self) -> u32 {
        match self {
            Whose::Client(client) => client,
            Whose::Order(row) => row | Whose::ORDER,
        }
    }

    fn of(bits: u32) -> Whose {
        if bits & Whose::ORDER == 0 {
            Whose::Client(bits)
        } else {
            Whose::Order(bits & !Whose::ORDER)
        }
    }
}

/// What is known of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) whose: Whose,
    pub(crate) state: State,
    /// MsgSeqNum (34) of the client's message that it came with; 0 where that is not known.
    pub(crate) seq: u32,
    /// The record that says so.
    pub(crate) record: u64,
}

#[derive(Debug)]
enum Text {
    Short([u8; SHORT_BYTES]),
    Long(Box<[u8]>),
    /// The slot is free.
    None,
}

#[derive(Debug)]
struct IdSlot {
    text: Text,
    record: u64,
    /// The bits of [`Whose`].
    whose: u32,
    seq: u32,
    hash: u32,
    /// Of a short text.
    length: u8,
    state: State,
}

impl IdSlot {
    fn new(id: &[u8], hash: u32, entry: Entry) -> IdSlot {
        let mut short = [0; SHORT_BYTES];
        let text = match short.get_mut(..id.len()) {
            Some(start) => {
                start.copy_from_slice(id);
                Text::Short(short)
            }
            None => Text::Long(id.into()),
        };
        let length = u8::try_from(id.len()).unwrap_or(0);
        let Entry { whose, state, seq, record } = entry;
        IdSlot { text, record, whose: whose.bits(), seq, hash, length, state }
    }

    fn id(&self) -> &[u8] {
        match &self.text {
            Text::Short(text) => text.get(..usize::from(self.length)).unwrap_or_default(),
            Text::Long(text) => text,
            Text::None => &[],
        }
    }

    fn entry(&self) -> Entry {
        let (whose, state) = (Whose::of(self.whose), self.state);
        Entry { whose, state, seq: self.seq, record: self.record }
    }
}

/// Ids and what is known of each. Who does not know the secret of the door cannot choose ids that fall on one another.
#[derive(Debug)]
pub(crate) struct KnownIds {
    cells: Cells,
    places: Vec<IdSlot>,
    free: Vec<Slot>,
    /// Slots of ids that were forgotten since the last flush: they are as they were, should that be taken back.
    leaving: Vec<Slot>,
    secret: Secret,
}

impl KnownIds {
    pub(crate) fn new(secret: Secret) -> KnownIds {
        let cells = Cells::default();
        KnownIds { cells, places: Vec::new(), free: Vec::new(), leaving: Vec::new(), secret }
    }

    pub(crate) fn secret(&self) -> Secret {
        self.secret
    }

    /// How many ids are known.
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len() - self.leaving.len()
    }

    #[inline]
    pub(crate) fn hash(&self, id: &[u8]) -> u32 {
        // The upper half is as good as the whole: a cell only has room for so much.
        (self.secret.hash(id) >> 32) as u32
    }

    pub(crate) fn find(&self, id: &[u8]) -> Option<Slot> {
        self.cells.find(self.hash(id), |slot| self.places[slot as usize].id() == id)
    }

    /// Has the cell fetched where an id stands, or would.
    pub(crate) fn prefetch(&self, id: &[u8]) {
        self.cells.prefetch(self.hash(id));
    }

    pub(crate) fn id(&self, slot: Slot) -> &[u8] {
        self.places[slot as usize].id()
    }

    pub(crate) fn entry(&self, slot: Slot) -> Entry {
        self.places[slot as usize].entry()
    }

    pub(crate) fn set(&mut self, slot: Slot, entry: Entry) {
        let place = &mut self.places[slot as usize];
        (place.whose, place.state) = (entry.whose.bits(), entry.state);
        (place.seq, place.record) = (entry.seq, entry.record);
    }

    /// Adds an id that is not known.
    pub(crate) fn add(&mut self, id: &[u8], entry: Entry) -> Slot {
        let place = IdSlot::new(id, self.hash(id), entry);
        let hash = place.hash;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.places[slot as usize] = place;
                slot
            }
            None => {
                self.places.push(place);
                Slot::try_from(self.places.len() - 1).unwrap_or(Slot::MAX)
            }
        };
        self.cells.enter(hash, slot);
        slot
    }

    /// Forgets an id; [`KnownIds::bring_back`] may take that back until [`KnownIds::settle`].
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.take_out(slot);
        self.leaving.push(slot);
    }

    /// Takes the last [`KnownIds::remove`] back.
    pub(crate) fn bring_back(&mut self, slot: Slot) {
        self.leaving.pop();
        self.cells.enter(self.places[slot as usize].hash, slot);
    }

    /// Takes an id back that was added.
    pub(crate) fn take_back(&mut self, slot: Slot) {
        self.take_out(slot);
        self.set_free(slot);
    }

    /// Makes the room of forgotten ids free.
    pub(crate) fn settle(&mut self) {
        while let Some(slot) = self.leaving.pop() {
            self.set_free(slot);
        }
    }

    fn set_free(&mut self, slot: Slot) {
        self.places[slot as usize].text = Text::None;
        self.free.push(slot);
    }

    fn take_out(&mut self, slot: Slot) {
        self.cells.take_out(self.places[slot as usize].hash, slot);
    }

    /// All slots that are taken.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots_in(0..self.places.len())
    }

    /// How many slots there are, taken or not.
    pub(crate) fn slots_max(&self) -> usize {
        self.places.len()
    }

    /// Those of a part.
    pub(crate) fn slots_in(&self, part: Range<usize>) -> impl Iterator<Item = Slot> {
        let taken = |(at, place): (usize, &IdSlot)| {
            (!matches!(place.text, Text::None)).then(|| Slot::try_from(at).ok()).flatten()
        };
        let (skip, count) = (part.start, part.len());
        let taken = self.places.iter().enumerate().skip(skip).take(count).filter_map(taken);
        taken.filter(|slot| !self.leaving.contains(slot))
    }
}

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Id(Slot),
    /// An order as a whole, by its row.
    Order(u32),
    /// What has happened to an order since.
    Event(u32),
    Message,
}

/// The records of a book that count, which come in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The number of the first cell.
    base: u64,
    /// What each is of that counts.
    cells: VecDeque<Option<Of>>,
    /// So many of the first do not count.
    gone: usize,
    live: usize,
}

impl Records {
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Adds a record behind all others.
    pub(crate) fn push(&mut self, record: u64, of: Of) {
        if self.cells.is_empty() {
            (self.base, self.gone) = (record, 0);
        }
        // Those that were taken back left room.
        self.take_back(record);
        while self.base + (self.cells.len() as u64) < record {
            self.cells.push_back(None);
        }
        self.cells.push_back(Some(of));
        self.live += 1;
    }

    /// A record does not count any more. Returns what it was of.
    pub(crate) fn remove(&mut self, record: u64) -> Option<Of> {
        let at = usize::try_from(record.checked_sub(self.base)?).ok()?;
        let cell = self.cells.get_mut(at)?;
        let of = cell.take()?;
        self.live -= 1;
        while self.cells.get(self.gone).is_some_and(Option::is_none) {
            self.gone += 1;
        }
        Some(of)
    }

    /// Takes [`Records::remove`] back.
    pub(crate) fn bring_back(&mut self, record: u64, of: Of) {
        let at = record.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        if let Some(at) = at.filter(|at| *at < self.cells.len()) {
            self.cells[at] = Some(of);
            self.gone = self.gone.min(at);
            self.live += 1;
        }
    }

    /// Takes [`Records::push`] of this record and of all behind it back.
    pub(crate) fn take_back(&mut self, record: u64) {
        while self.base + (self.cells.len() as u64) > record {
            self.live -= usize::from(self.cells.pop_back().flatten().is_some());
        }
        self.gone = self.gone.min(self.cells.len());
    }

    /// Drops the room of those that do not count any more.
    pub(crate) fn settle(&mut self) {
        self.cells.drain(..self.gone);
        self.base += std::mem::take(&mut self.gone) as u64;
    }

    /// Those that count, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Of)> {
        let cells = (self.base..).zip(&self.cells).skip(self.gone);
        cells.filter_map(|(record, of)| Some((record, (*of)?)))
    }

    pub(crate) fn first(&self) -> Option<u64> {
        self.iter().next().map(|first| first.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(record: u64) -> Entry {
        Entry { whose: Whose::Client(7), state: State::Live, seq: 9, record }
    }

    #[test]
    fn a_slot_is_one_line_of_the_cache() {
        assert_eq!(size_of::<IdSlot>(), 64);
    }

    proptest! {
        /// Beside the standard tree, with ids that come, change and go, short and long ones.
        #[test]
        fn ids_are_known_as_a_tree_knows_them(
            acts in prop::collection::vec(("[a-c]{0,3}|[a-z]{38,41}|[a-d]{6}", 0..4_u8), 0..600),
        ) {
            let (mut known, mut tree) = (KnownIds::new(Secret::new(11)), BTreeMap::<Vec<u8>, u64>::new());
            for (record, (id, act)) in (0..).zip(acts) {
                let id = id.into_bytes();
                let found = known.find(&id);
                prop_assert_eq!(found.map(|slot| known.entry(slot).record), tree.get(&id).copied());
                match (found, act) {
                    (Some(slot), 0) => {
                        known.remove(slot);
                        tree.remove(&id);
                        if record % 2 == 0 {
                            known.settle();
                        }
                    }
                    (Some(slot), _) => {
                        known.set(slot, entry(record));
                        tree.insert(id, record);
                    }
                    (None, _) => {
                        let slot = known.add(&id, entry(record));
                        prop_assert_eq!((known.id(slot), known.entry(slot)), (&id[..], entry(record)));
                        tree.insert(id, record);
                    }
                }
                prop_assert_eq!(known.len(), tree.len());
            }
            let all: BTreeMap<Vec<u8>, u64> =
                known.slots().map(|slot| (known.id(slot).to_vec(), known.entry(slot).record)).collect();
            prop_assert_eq!(all, tree);
        }

        #[test]
        fn records_count_as_in_a_tree(acts in prop::collection::vec((1..4_u64, 0..30_u64), 0..300)) {
            let (mut records, mut tree) = (Records::default(), BTreeMap::new());
            let mut last = 5;
            for (step, gone) in acts {
                last += step;
                let of = if step == 3 { Of::Message } else { Of::Id(u32::try_from(last).unwrap()) };
                records.push(last, of);
                tree.insert(last, of);
                let gone = last.saturating_sub(gone);
                prop_assert_eq!(records.remove(gone), tree.remove(&gone));
                if gone % 7 == 0 {
                    records.settle();
                }
                prop_assert_eq!(records.first(), tree.keys().next().copied());
                prop_assert_eq!(records.len(), tree.len());
            }
            prop_assert!(records.iter().eq(tree));
        }
    }

    /// Many: none is lost while the cells grow, and they go as they came.
    #[test]
    fn many_ids_are_found_and_forgotten() {
        let (mut known, id) =
            (KnownIds::new(Secret::new(11)), |at: u64| format!("11=ORD-{at}").into_bytes());
        let slots: Vec<Slot> = (0..30_000).map(|at| known.add(&id(at), entry(at))).collect();
        for (at, slot) in (0..).zip(&slots) {
            assert_eq!(known.find(&id(at)), Some(*slot));
            if at % 3 != 0 {
                known.remove(*slot);
            }
        }
        for (at, slot) in (0..).zip(slots) {
            assert_eq!(known.find(&id(at)), (at % 3 == 0).then_some(slot), "{at}");
        }
        assert_eq!(known.len(), 10_000);
    }
}
