//! How many calls a second a token may make, over all workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

const SECOND_NS: u64 = 1_000_000_000;

/// The limit, with what each principal has used of it.
#[derive(Debug)]
pub(super) struct Rates {
    /// Nanoseconds of a call; 0: there is no limit.
    step_ns: u64,
    began: Instant,
    used: Mutex<BTreeMap<Arc<str>, Arc<Used>>>,
}

/// Until when a principal's calls are spread, in nanoseconds since the start: at most a second ahead, so a second's calls may come at once.
#[derive(Debug, Default)]
pub(super) struct Used(AtomicU64);

impl Rates {
    pub(super) fn new(per_s: u32) -> Rates {
        let step_ns = SECOND_NS.checked_div(per_s.into()).unwrap_or(0);
        Rates { step_ns, began: Instant::now(), used: Mutex::default() }
    }

    /// Returns what a principal uses, the same for all connections that have its token.
    pub(super) fn of(&self, name: &Arc<str>) -> Arc<Used> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(used.entry(Arc::clone(name)).or_default())
    }

    /// Tells whether one more call is within the limit, and counts it if it is.
    pub(super) fn allows(&self, used: &Used) -> bool {
        if self.step_ns == 0 {
            return true;
        }
        let now_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        used.take(now_ns, self.step_ns)
    }
}

impl Used {
    fn take(&self, now_ns: u64, step_ns: u64) -> bool {
        let later = |until_ns: u64| {
            let until_ns = until_ns.max(now_ns) + step_ns;
            (until_ns <= now_ns + SECOND_NS).then_some(until_ns)
        };
        self.0.fetch_update(Relaxed, Relaxed, later).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seconds_calls_may_come_at_once_and_then_one_a_step() {
        let (used, step_ns) = (Used::default(), SECOND_NS / 10);
        let at = |now_ns: u64| (0..20).filter(|_| used.take(now_ns, step_ns)).count();
        assert_eq!(at(0), 10);
        assert_eq!(at(step_ns / 2), 0);
        assert_eq!(at(step_ns), 1);
        assert_eq!(at(step_ns * 4), 3);
        assert_eq!(at(step_ns * 1_000), 10, "what was not used does not pile up");
    }

    #[test]
    fn principals_have_a_limit_each_and_none_where_it_is_0() {
        let rates = Rates::new(1);
        let [one, same, other] = ["a", "a", "b"].map(|name| rates.of(&name.into()));
        assert!(rates.allows(&one) && !rates.allows(&same) && rates.allows(&other));
        let free = Rates::new(0);
        let used = free.of(&"a".into());
        assert!((0..1_000).all(|_| free.allows(&used)));
    }
}
