//! Budgets that are made on their first ask, as one worker knows them.
//!
//! They are no part of the [`crate::Snapshot`], which is built anew for each configuration: a worker asks the bank for a
//! budget by its handle when it meets the handle first, and keeps what it hears until the bank says that the budget ended. Doors
//! look here only where the snapshot knows nothing, so configured budgets pay nothing for it.

use std::borrow::Borrow;
use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use weir_budgets::templates::Templates;
use wire::Verdict;

use crate::reply::Reply;

/// Replies of a worker that wait for budgets to be made. Beyond them the verdict is `busy`.
pub const OPENINGS_MAX: usize = 1_024;

/// A budget that was made on its first ask; also what [`crate::Till::find`] tells of any budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// From [`ledger::MADE_SLOT`] on where it was made, below where it is configured.
    pub slot: u32,
    /// Its id.
    pub id: u64,
    /// Unit code, as on the wire.
    pub unit: [u8; 4],
}

/// The budgets of templates that a worker met, and those that it waits for.
#[derive(Debug, Default)]
pub struct Opened {
    templates: Arc<Templates>,
    /// The templates of a configuration came.
    is_configured: bool,
    by_handle: Shards<Arc<str>, Made>,
    by_id: Shards<u64, (Made, Arc<str>)>,
    /// Ids by slot, counted from [`ledger::MADE_SLOT`]; 0 for one that this worker did not meet.
    ids: Vec<u64>,
    /// Who waits, by handle.
    waiting: HashMap<Box<str>, Vec<Reply>>,
    /// How many wait, over all handles.
    replies: usize,
    /// Handles that the bank is still to be asked for: the queue to it was full.
    unsent: VecDeque<Box<str>>,
}

impl Opened {
    /// The budget with this handle, if this worker met it.
    pub fn by_handle(&self, handle: &str) -> Option<Made> {
        self.by_handle.get(handle).copied()
    }

    /// The budget with this id, if this worker met it.
    pub fn by_id(&self, id: u64) -> Option<Made> {
        if id < ledger::spec::MADE_ID_MIN {
            return None;
        }
        self.by_id.get(&id).map(|(made, _)| *made)
    }

    /// The handle of the budget with this id, if this worker met it.
    pub fn handle(&self, id: u64) -> Option<&str> {
        self.by_id.get(&id).map(|(_, handle)| &**handle)
    }

    /// The budget in this slot, if this worker met it.
    pub fn by_slot(&self, slot: u32) -> Option<Made> {
        let place = usize::try_from(slot.checked_sub(ledger::MADE_SLOT)?).ok()?;
        self.by_id.get(self.ids.get(place)?).map(|(made, _)| *made)
    }

    /// Asks for the budget with this handle; who asks for one that is on its way waits with the others.
    ///
    /// # Errors
    /// `UnknownBudget`: no template matches. `Busy`: too many wait.
    pub fn ask(&mut self, handle: &str, reply: Reply) -> Result<(), Verdict> {
        if handle.len() > wire::HANDLE_BYTES_MAX || self.templates.of(handle).is_none() {
            return Err(Verdict::UnknownBudget);
        }
        if self.replies >= OPENINGS_MAX {
            return Err(Verdict::Busy);
        }
        self.replies += 1;
        match self.waiting.entry(handle.into()) {
            Entry::Occupied(mut there) => there.get_mut().push(reply),
            Entry::Vacant(place) => {
                self.unsent.push_back(place.key().clone());
                place.insert(vec![reply]);
            }
        }
        Ok(())
    }

    /// The next handle to ask the bank for.
    pub fn next_unsent(&mut self) -> Option<Box<str>> {
        self.unsent.pop_front()
    }

    /// Puts back one that could not be sent.
    pub fn unsend(&mut self, handle: Box<str>) {
        self.unsent.push_front(handle);
    }

    /// The bank answered: who waits for this handle, in the order in which they asked.
    pub fn answered(&mut self, handle: &Arc<str>, made: Option<Made>) -> Vec<Reply> {
        if let Some(made) = made {
            self.by_handle.insert(Arc::clone(handle), made);
            self.by_id.insert(made.id, (made, Arc::clone(handle)));
            let place = made.slot.saturating_sub(ledger::MADE_SLOT) as usize;
            if place >= self.ids.len() {
                self.ids.resize(place + 1, 0);
            }
            self.ids[place] = made.id;
        }
        let replies = self.waiting.remove(&**handle).unwrap_or_default();
        self.replies -= replies.len();
        replies
    }

    /// A budget ended.
    pub fn ended(&mut self, handle: &str) {
        if let Some(made) = self.by_handle.remove(handle) {
            self.by_id.remove(&made.id);
        }
    }

    /// Other templates are in force.
    pub fn configure(&mut self, templates: Arc<Templates>) {
        (self.templates, self.is_configured) = (templates, true);
    }

    /// Did the templates of a configuration come, if perhaps none at all? They come behind its budgets.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        self.is_configured
    }
}

/// Tables that a map is divided into.
const SHARDS: usize = 256;

/// A map of many small tables: with a million entries each of them has some thousand, so that no ask waits for a large table that
/// grows.
#[derive(Debug)]
struct Shards<K, V> {
    hasher: RandomState,
    tables: Vec<HashMap<K, V>>,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Shards<K, V> {
        Shards { hasher: RandomState::new(), tables: Vec::new() }
    }
}

impl<K: Eq + Hash, V> Shards<K, V> {
    /// Of the key's own hash, by other bits than its table looks at.
    fn place<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        usize::try_from(self.hasher.hash_one(key) >> 40).unwrap_or(0) % SHARDS
    }

    fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.tables.get(self.place(key))?.get(key)
    }

    fn insert(&mut self, key: K, value: V) {
        if self.tables.is_empty() {
            self.tables.resize_with(SHARDS, HashMap::new);
        }
        let place = self.place(&key);
        self.tables[place].insert(key, value);
    }

    fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key);
        self.tables.get_mut(place)?.remove(key)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn opened() -> Opened {
        let file = br#"{"template":"llm/{team}","limit":"1"}"#;
        let file = weir_budgets::budgets::file_of(Path::new("f.jsonl"), file).unwrap();
        let mut opened = Opened::default();
        opened.configure(Arc::new(file.templates));
        opened
    }

    fn reply(index: u32) -> Reply {
        Reply { door: 0, index, entry: 0 }
    }

    #[test]
    fn who_asks_for_one_budget_at_once_waits_for_one_answer() {
        let mut opened = opened();
        assert_eq!(opened.ask("other/a", reply(0)), Err(Verdict::UnknownBudget));
        assert_eq!(opened.ask(&"llm/".repeat(64), reply(0)), Err(Verdict::UnknownBudget));
        for index in 1..=3 {
            assert_eq!(opened.ask("llm/a", reply(index)), Ok(()));
        }
        assert_eq!(opened.next_unsent().as_deref(), Some("llm/a"));
        assert_eq!(opened.next_unsent(), None, "the bank is asked once");
        let made = Made { slot: ledger::MADE_SLOT, id: ledger::spec::MADE_ID_MIN, unit: *b"USD\0" };
        let told = opened.answered(&"llm/a".into(), Some(made));
        assert_eq!(told, [1, 2, 3].map(reply));
        assert_eq!((opened.by_handle("llm/a"), opened.by_id(made.id)), (Some(made), Some(made)));
        assert_eq!((opened.replies, opened.by_id(1)), (0, None));
        opened.ended("llm/a");
        opened.ended("llm/never");
        assert_eq!((opened.by_handle("llm/a"), opened.by_id(made.id)), (None, None));
    }

    #[test]
    fn a_flood_of_made_up_names_is_bounded() {
        let mut opened = opened();
        for index in 0..u32::try_from(OPENINGS_MAX).unwrap() {
            assert_eq!(opened.ask(&format!("llm/{index}"), reply(index)), Ok(()));
        }
        assert_eq!(opened.ask("llm/more", reply(0)), Err(Verdict::Busy));
        assert_eq!(opened.ask("llm/1", reply(0)), Err(Verdict::Busy), "also for one on its way");
        let handle = opened.next_unsent().unwrap();
        opened.unsend(handle.clone());
        assert_eq!(
            opened.next_unsent(),
            Some(handle.clone()),
            "what could not be sent stays first"
        );
        assert_eq!(opened.answered(&Arc::from(handle), None), [reply(0)]);
        assert_eq!(opened.ask("llm/more", reply(0)), Ok(()), "a place came back");
    }
}
