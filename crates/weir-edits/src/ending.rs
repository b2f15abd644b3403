//! The number of budgets a file may end at once, just by not naming them: a file that is cut or empty for a moment ends none.

use std::collections::HashSet;
use std::fmt;

use weir_config::budgets::Line;

/// Ids that a refusal names.
const IDS_TOLD: usize = 5;
/// Of a few budgets one may always go, but never the last.
const ENDED_MIN: usize = 1;

/// What a set of budgets would end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The smallest ids of those that would end, at most five.
    first: Vec<u64>,
    /// How many would end.
    count: usize,
    /// Of how many: those that are not ended, and whose flight is not over.
    of: usize,
    /// The file names no budget at all.
    is_empty: bool,
    /// The share that may end, in percent, where a larger one would be let through.
    allowed: Option<u8>,
}

impl Ending {
    /// What these lines would end of the budgets that live; `is_empty`: the file has none.
    pub(super) fn of(live: &[u64], lines: &[Line], is_empty: bool) -> Ending {
        let named: HashSet<u64> = lines.iter().map(|line| line.budget.spec.id).collect();
        let mut ends: Vec<u64> = live.iter().copied().filter(|id| !named.contains(id)).collect();
        ends.sort_unstable();
        let count = ends.len();
        ends.truncate(IDS_TOLD);
        Ending { first: ends, count, of: live.len(), is_empty, allowed: None }
    }

    /// Itself, if it is more than may end at once: above `percent` of all and more than one budget, or all of them.
    pub(super) fn beyond(self, percent: u8) -> Option<Ending> {
        let all = self.count > 0 && (self.count == self.of || self.is_empty);
        let share = self.of.saturating_mul(usize::from(percent)) / 100;
        let beyond = self.count > share.max(ENDED_MIN);
        let allowed = (!all).then_some(percent);
        (all || beyond).then_some(Ending { allowed, ..self })
    }

    /// For the log, once it is done; `None` if it ends nobody.
    pub(super) fn done(&self) -> Option<String> {
        let ids = self.ids();
        match self.count {
            0 => None,
            1 => Some(format!("leaves out 1 that was live, which has ended: {ids}")),
            count => Some(format!("leaves out {count} that were live, which have ended: {ids}")),
        }
    }

    /// The first ids of those that end.
    fn ids(&self) -> String {
        let ids = if self.count == 1 { "id" } else { "ids" };
        let told: Vec<String> = self.first.iter().map(ToString::to_string).collect();
        let more = if self.count > self.first.len() { ", ..." } else { "" };
        format!("{ids} {}{more}", told.join(", "))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ending { count, of, .. } = self;
        let budgets = if *of == 1 { "budget" } else { "budgets" };
        write!(
            f,
            "it would end {count} of {of} {budgets} ({}), which it does not name; is it cut, empty or another file? To \
             end budgets on purpose keep their lines and say \"status\":\"ended\" (in CSV: ended in the column status)",
            self.ids()
        )?;
        match self.allowed {
            Some(percent) => write!(
                f,
                "; or allow more than {percent} percent in one file with budgets.end_share_max_percent, and restart"
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(count: usize, of: usize) -> Ending {
        Ending { first: vec![1], count, of, is_empty: false, allowed: None }
    }

    #[test]
    fn a_share_may_end_one_always_may_and_all_never() {
        for (count, of, percent, refused) in [
            (0, 0, 20, false),
            (0, 3, 20, false),
            (1, 1, 20, true),
            (1, 2, 20, false),
            (1, 2, 0, false),
            (2, 3, 20, true),
            (2, 9, 20, true),
            (2, 10, 20, false),
            (3, 10, 20, true),
            (10_000, 50_000, 20, false),
            (10_001, 50_000, 20, true),
            (49_999, 50_000, 100, false),
            (50_000, 50_000, 100, true),
        ] {
            let found = ending(count, of).beyond(percent).is_some();
            assert_eq!(found, refused, "{count} of {of} at {percent} %");
        }
        let empty = |count| Ending { is_empty: true, ..ending(count, 10) };
        assert!(
            empty(1).beyond(100).is_some(),
            "those that the API made stay, all others would end"
        );
        assert!(empty(0).beyond(0).is_none());
    }
}
