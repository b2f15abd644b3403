//! Executions of an order by their ids, with the corrections and busts that name them.
//!
//! An execution and all that amends it, directly or through an earlier correction, is a *chain*. Its value is that of its last amendment,
//! else the execution's own, so it does not depend on which of them came first.

use hashbrown::HashTable;
use table::spread;

use crate::event::ExecId;
use crate::exact::Exact;

/// With more executions than these an order has an index of them; fewer are looked through.
const LOOKED_THROUGH_MAX: usize = 16;

/// An execution as it was reported.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    pub(crate) id: ExecId,
    pub(crate) amount: Exact,
    /// It came after the order was closed, and nothing amends it.
    pub(crate) is_late: bool,
}

/// A correction, or a bust: then the amount is zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Amended {
    pub(crate) id: ExecId,
    pub(crate) names: ExecId,
    /// The id of the execution at the start of its chain, as far as the chain is known.
    pub(crate) chain: ExecId,
    pub(crate) at: u64,
    pub(crate) is_bust: bool,
    pub(crate) amount: Exact,
    /// Another amendment names it.
    pub(crate) is_named: bool,
}

impl Amended {
    pub(crate) fn key(&self) -> (bool, ExecId) {
        (self.is_bust, self.id)
    }

    /// The last of a chain has the highest rank: nothing names it, then the latest.
    fn rank(&self, newest: Option<&Amended>) -> (bool, u64, bool, ExecId) {
        let names_it = |newest: &Amended| newest.names == self.id && newest.key() != self.key();
        let is_named = self.is_named || newest.is_some_and(names_it);
        (!is_named, self.at, self.is_bust, self.id)
    }
}

/// What of a chain is not late: its value when the order was closed.
#[derive(Clone, Debug)]
pub(crate) struct Cap {
    pub(crate) chain: ExecId,
    pub(crate) amount: Exact,
}

/// What an amendment makes of its chain.
pub(crate) struct Chained {
    /// The amendment, with its place in the chain.
    pub(crate) amended: Amended,
    /// Was nothing of the chain known?
    pub(crate) is_unknown: bool,
    /// The chain's value before and after.
    pub(crate) before: Exact,
    pub(crate) after: Exact,
    /// What of it was late before.
    pub(crate) late: Exact,
    /// What of it is not late, where that is known.
    pub(crate) cap: Option<Exact>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Executions {
    pub(crate) fills: Vec<Fill>,
    /// Places in `fills` by id.
    index: HashTable<u32>,
    pub(crate) amended: Vec<Amended>,
    caps: Vec<Cap>,
}

impl Executions {
    pub(crate) fn is_empty(&self) -> bool {
        self.fills.is_empty() && self.amended.is_empty()
    }

    pub(crate) fn fill(&self, id: ExecId) -> Option<&Fill> {
        if self.fills.len() <= LOOKED_THROUGH_MAX {
            return self.fills.iter().find(|fill| fill.id == id);
        }
        let is_it = |place: &u32| self.fills[*place as usize].id == id;
        self.index.find(hash(id), is_it).map(|place| &self.fills[*place as usize])
    }

    /// Adds an execution that is not known. Its late part is either all of it, or what is above the cap.
    pub(crate) fn add_fill(&mut self, id: ExecId, amount: Exact, late: Exact) {
        let is_late = late == amount && late != Exact::ZERO;
        if !is_late && late != Exact::ZERO {
            let amount = amount.checked_sub(late).unwrap_or_default();
            self.caps.push(Cap { chain: id, amount });
        }
        self.fills.push(Fill { id, amount, is_late });
        if self.fills.len() > LOOKED_THROUGH_MAX {
            // One more than fit is the moment at which all of them enter.
            let first = if self.index.is_empty() { 0 } else { self.fills.len() - 1 };
            for place in first..self.fills.len() {
                let fills = &self.fills;
                let hash_of = |place: &u32| hash(fills[*place as usize].id);
                let (hash, place) = (hash(fills[place].id), u32::try_from(place));
                // 2^32 executions would be 256 GiB.
                let Ok(place) = place else { continue };
                self.index.insert_unique(hash, place, hash_of);
            }
        }
    }

    pub(crate) fn is_amended(&self, chain: ExecId) -> bool {
        self.amended.iter().any(|amended| amended.chain == chain)
    }

    pub(crate) fn amendment(&self, id: ExecId, is_bust: bool) -> Option<&Amended> {
        self.amended.iter().find(|amended| amended.key() == (is_bust, id))
    }

    fn value(&self, chain: ExecId) -> Exact {
        let group = self.amended.iter().filter(|amended| amended.chain == chain);
        let last = group.max_by_key(|amended| amended.rank(None)).map(|amended| amended.amount);
        last.or_else(|| self.fill(chain).map(|fill| fill.amount)).unwrap_or_default()
    }

    /// Returns what of the chain is not late, where that is known.
    fn cap(&self, chain: ExecId) -> Option<Exact> {
        let noted = self.caps.iter().find(|cap| cap.chain == chain).map(|cap| cap.amount);
        let is_late = || self.fill(chain).is_some_and(|fill| fill.is_late);
        noted.or_else(|| is_late().then_some(Exact::ZERO))
    }

    /// Judges an amendment that is not known: `None` where a sum does not fit.
    pub(crate) fn chained(&self, mut amended: Amended) -> Option<Chained> {
        let named = self.amended.iter().find(|other| other.id == amended.names);
        let named = named.filter(|_| self.fill(amended.names).is_none());
        amended.chain = named.map_or(amended.names, |named| named.chain);
        amended.is_named = self.amended.iter().any(|other| other.names == amended.id);
        // Amendments of this one came before it: their chain was known only up to its id.
        let (own, chain) = (amended.id, amended.chain);
        let joins = own != chain && self.fill(own).is_none() && self.is_amended(own);
        let is_in = |id: ExecId| id == chain || joins && id == own;
        let group = self.amended.iter().filter(|other| is_in(other.chain)).chain([&amended]);
        let last = group.max_by_key(|other| other.rank(Some(&amended)));
        let after = last.map_or(amended.amount, |last| last.amount);
        let parts = [Some(chain), joins.then_some(own)];
        let (mut before, mut late, mut cap) = (Exact::ZERO, Exact::ZERO, None);
        for part in parts.into_iter().flatten() {
            let (value, own_cap) = (self.value(part), self.cap(part));
            if let Some(own_cap) = own_cap {
                late = late.checked_add(value.above(own_cap)?)?;
                cap = Some(cap.unwrap_or(before).checked_add(own_cap)?);
            } else if let Some(cap) = &mut cap {
                *cap = cap.checked_add(value)?;
            }
            before = before.checked_add(value)?;
        }
        let is_unknown = self.fill(chain).is_none() && !self.is_amended(chain) && !joins;
        Some(Chained { amended, is_unknown, before, after, late, cap })
    }

    /// Adds an amendment as it was judged, and what of its chain is not late.
    pub(crate) fn add_amended(&mut self, amended: Amended, cap: Option<Exact>) {
        let (own, chain) = (amended.id, amended.chain);
        let is_fill = self.fill(own).is_some();
        for other in &mut self.amended {
            other.is_named |= other.id == amended.names;
            if other.chain == own && !is_fill {
                other.chain = chain;
            }
        }
        if let Some(amount) = cap {
            self.caps.retain(|cap| cap.chain != chain && (is_fill || cap.chain != own));
            self.caps.push(Cap { chain, amount });
            if let Some(fill) = self.fills.iter_mut().find(|fill| fill.id == chain) {
                fill.is_late = false;
            }
        }
        self.amended.push(amended);
    }

    /// Forgets what was not late where nothing is, because the order lives again: what it executes from now on is not late.
    pub(crate) fn revive(&mut self) {
        let mut caps = std::mem::take(&mut self.caps);
        caps.retain(|cap| self.value(cap.chain).above(cap.amount) != Some(Exact::ZERO));
        self.caps = caps;
    }

    /// Returns all executions, amendments and caps, each in the order of its ids.
    pub(crate) fn sorted(&self) -> (Vec<Fill>, Vec<Amended>, Vec<Cap>) {
        let (mut fills, mut amended) = (self.fills.clone(), self.amended.clone());
        let mut caps = self.caps.clone();
        fills.sort_unstable_by_key(|fill| fill.id);
        amended.sort_unstable_by_key(Amended::key);
        caps.sort_unstable_by_key(|cap| cap.chain);
        (fills, amended, caps)
    }

    /// Makes executions of what [`Executions::sorted`] returned, with the sums of all and of what is late; `None` where it cannot have
    /// returned that.
    pub(crate) fn restored(
        (fills, mut amended, caps): (Vec<Fill>, Vec<Amended>, Vec<Cap>),
    ) -> Option<(Executions, Exact, Exact)> {
        let is_rising = fills.is_sorted_by(|a, b| a.id < b.id)
            && amended.is_sorted_by(|a, b| a.key() < b.key())
            && caps.is_sorted_by(|a, b| a.chain < b.chain);
        let mut names: Vec<(ExecId, ExecId, bool)> =
            amended.iter().map(|one| (one.names, one.id, one.is_bust)).collect();
        names.sort_unstable();
        for one in &mut amended {
            let from = names.partition_point(|name| name.0 < one.id);
            let mut naming = names[from..].iter().take_while(|name| name.0 == one.id);
            one.is_named = naming.any(|name| (name.2, name.1) != one.key());
        }
        // The last of each chain; where an execution is not amended, itself.
        let mut values: Vec<(ExecId, Exact)> = Vec::with_capacity(fills.len());
        let mut groups: Vec<&Amended> = amended.iter().collect();
        groups.sort_unstable_by_key(|one| (one.chain, one.rank(None)));
        let groups = groups.chunk_by(|a, b| a.chain == b.chain);
        values.extend(groups.filter_map(|group| group.last()).map(|one| (one.chain, one.amount)));
        let chains = values.len();
        for fill in &fills {
            let is_amended = values[..chains].binary_search_by_key(&fill.id, |value| value.0);
            match is_amended {
                Ok(_) if fill.is_late => return None,
                Ok(_) => {}
                Err(_) => values.push((fill.id, fill.amount)),
            }
        }
        let mut executions = Executions { amended, ..Executions::default() };
        for fill in fills {
            let late = if fill.is_late { fill.amount } else { Exact::ZERO };
            executions.add_fill(fill.id, fill.amount, late);
        }
        executions.caps = caps;
        let (mut total, mut late) = (Exact::ZERO, Exact::ZERO);
        for (chain, value) in values {
            total = total.checked_add(value)?;
            let cap = executions.cap(chain).map_or(Some(Exact::ZERO), |cap| value.above(cap))?;
            late = late.checked_add(cap)?;
        }
        is_rising.then_some((executions, total, late))
    }
}

fn hash(id: ExecId) -> u64 {
    let bytes = id.0.to_le_bytes();
    let half = |from: usize| {
        let mut half = [0; 8];
        half.copy_from_slice(&bytes[from..from + 8]);
        u64::from_le_bytes(half)
    };
    spread(half(0) ^ half(8).rotate_left(32))
}
