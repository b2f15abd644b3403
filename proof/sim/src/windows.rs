//! The oracle of windows: from the records alone, in 128-bit integers and by the calendar itself, what was handed out in each
//! window and what of that came back. It knows nothing of how the bank counts.

use std::collections::BTreeMap;

use ledger::{BudgetSpec, Period, Record, Verdict, WindowKind, WindowLimit};
use money::Instant;

/// A budget's window.
type Name = (u64, Period);

/// What is used of a window.
#[derive(Debug)]
enum Used {
    /// By the end of each instance.
    Fixed(BTreeMap<u64, i128>),
    /// In parts of a unit by the milliseconds in which it refills, at an instant.
    Bucket { parts: i128, at_ms: u64 },
}

#[derive(Debug)]
struct Watched {
    limit: WindowLimit,
    /// Grants before this are of the time before it.
    since: u64,
    used: Used,
}

/// What grants say of windows.
#[derive(Debug, Default)]
pub(crate) struct WindowTrail {
    specs: BTreeMap<u64, BudgetSpec>,
    watched: BTreeMap<Name, Watched>,
    /// Per grant: budget, and by window the end of the instance that it is of.
    grants: BTreeMap<u64, (u64, BTreeMap<Name, u64>)>,
    fault: Option<String>,
}

impl WindowTrail {
    /// The promise that was broken first.
    pub(crate) fn fault(&self) -> Option<&String> {
        self.fault.as_ref()
    }

    /// A worker made a hold from a grant: by its clock, before the windows end that the money is of, but for those that were
    /// taken away since.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn made(&self, grant: u64, made_ms: u64) -> Result<(), String> {
        let Some((_, ends)) = self.grants.get(&grant) else { return Ok(()) };
        let is_there = |name| self.watched.get(name).is_some_and(|window| grant >= window.since);
        match ends.iter().find(|(name, end_ms)| made_ms >= **end_ms && is_there(name)) {
            None => Ok(()),
            Some((name, end_ms)) => Err(format!(
                "a hold of grant {grant} was made at {made_ms}, the window {name:?} of its money ended at {end_ms}"
            )),
        }
    }

    pub(crate) fn take(&mut self, record: &Record) {
        match record {
            Record::Budget { spec } => self.budget(spec),
            Record::WindowRolled { id, period, end_ms, .. } => {
                if let Some(watched) = self.watched.get_mut(&(*id, *period)) {
                    watched.refill(*end_ms);
                }
            }
            Record::Granted { grant, budget, amount, at_ms, .. } => {
                self.granted(*grant, *budget, amount.get().into(), *at_ms);
            }
            Record::Returned { grant, amount }
            | Record::Resumed { grant, amount }
            | Record::BillingLapsed { grant, amount, .. }
            | Record::Reconciled { grant, amount, .. } => self.back(*grant, amount.get().into()),
            Record::Resolved { hold, verdict, amount, keeps_rest, .. } => {
                let back = match verdict {
                    Verdict::Released => hold.amount.get(),
                    Verdict::Settled if !keeps_rest => hold.amount.get() - amount.get(),
                    _ => 0,
                };
                self.back(hold.grant, back.into());
            }
            _ => {}
        }
    }

    fn budget(&mut self, spec: &BudgetSpec) {
        let since = self.grants.last_key_value().map_or(1, |(grant, _)| grant + 1);
        for period in Period::ALL {
            let name = (spec.id, period);
            let Some(limit) = spec.windows.get(period) else {
                self.watched.remove(&name);
                continue;
            };
            let known = self.watched.get_mut(&name).filter(|known| known.limit.kind == limit.kind);
            match (known, limit.kind) {
                (Some(known), _) => known.limit = limit,
                (None, WindowKind::Fixed) => {
                    let used = Used::Fixed(BTreeMap::new());
                    self.watched.insert(name, Watched { limit, since, used });
                }
                (None, WindowKind::Bucket) => {
                    let used = Used::Bucket { parts: 0, at_ms: 0 };
                    self.watched.insert(name, Watched { limit, since, used });
                }
            }
        }
        self.specs.insert(spec.id, spec.clone());
    }

    fn chain(&self, id: u64) -> Vec<u64> {
        let mut chain = vec![id];
        while let Some(above) = self.specs.get(chain.last().unwrap_or(&id)).and_then(|s| s.parent) {
            chain.push(above);
        }
        chain
    }

    fn granted(&mut self, grant: u64, budget: u64, amount: i128, at_ms: u64) {
        let mut ends = BTreeMap::new();
        for id in self.chain(budget) {
            let Some(spec) = self.specs.get(&id) else { continue };
            for window in spec.windows.all() {
                let Some(watched) = self.watched.get_mut(&(id, window.period)) else { continue };
                let end_ms = window.period.at(Instant::from_ms(at_ms), &spec.zone).end.ms();
                if window.kind == WindowKind::Fixed {
                    ends.insert((id, window.period), end_ms);
                }
                let tolerates = window.period == Period::Day && spec.tolerance_ppm > 0;
                let within = watched.take(amount, end_ms, at_ms);
                let is_new = window.kind == WindowKind::Bucket || window.period < Period::Day;
                let wrong = match () {
                    () if is_new && grant < watched.since => "money from before it began",
                    () if !within && amount > 0 && !tolerates => "more than its limit",
                    () => continue,
                };
                let told = format!("grant {grant} took {amount} of {id}: {wrong} {watched:?}");
                self.fault.get_or_insert(told);
            }
        }
        let (_, known) = self.grants.entry(grant).or_insert_with(|| (budget, BTreeMap::new()));
        for (name, end_ms) in ends {
            if *known.entry(name).or_insert(end_ms) != end_ms {
                let told = format!(
                    "grant {grant} was filled in two windows {name:?}, the last to {end_ms}"
                );
                self.fault.get_or_insert(told);
            }
        }
    }

    /// Money of a grant came back: to the windows that handed it out.
    fn back(&mut self, grant: u64, amount: i128) {
        let Some((budget, ends)) = self.grants.get(&grant).cloned() else { return };
        for id in self.chain(budget) {
            for period in Period::ALL {
                let name = (id, period);
                let Some(watched) = self.watched.get_mut(&name) else { continue };
                // A grant of before that was filled again in a window of days is of both times: what comes back of it
                // counts for less than the bank knows, never for more.
                let is_bucket = watched.limit.kind == WindowKind::Bucket;
                if grant >= watched.since || !is_bucket && period >= Period::Day {
                    watched.give_back(amount, ends.get(&name).copied());
                }
            }
        }
    }
}

impl Watched {
    fn refill(&mut self, now_ms: u64) {
        if let Used::Bucket { parts, at_ms } = &mut self.used {
            let past_ms = i128::from(now_ms.saturating_sub(*at_ms));
            *parts = (*parts - past_ms * i128::from(self.limit.limit.get())).max(0);
            *at_ms = now_ms.max(*at_ms);
        }
    }

    /// Is it within its limit?
    fn take(&mut self, amount: i128, end_ms: u64, now_ms: u64) -> bool {
        self.refill(now_ms);
        let limit = i128::from(self.limit.limit.get());
        match &mut self.used {
            Used::Fixed(instances) => {
                let used = instances.entry(end_ms).or_default();
                *used += amount;
                *used <= limit
            }
            Used::Bucket { parts, .. } => {
                let length_ms = i128::from(self.limit.period.refill_ms());
                *parts += amount * length_ms;
                *parts <= limit * length_ms
            }
        }
    }

    fn give_back(&mut self, amount: i128, end_ms: Option<u64>) {
        match (&mut self.used, end_ms) {
            (Used::Fixed(instances), Some(end_ms)) => {
                *instances.entry(end_ms).or_default() -= amount;
            }
            (Used::Fixed(_), None) => {}
            (Used::Bucket { parts, .. }, _) => {
                let length_ms = i128::from(self.limit.period.refill_ms());
                *parts = (*parts - amount * length_ms).max(0);
            }
        }
    }
}
