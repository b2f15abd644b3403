//! What a budgets file says otherwise than the one before it, for the log: who lowered this limit, and when?

use std::collections::BTreeMap;
use std::fmt::Write;

use ledger::{Amount, Period, Status};
use money::Unit;
use weir_config::budgets::Line;

/// Budgets that are told one by one.
const TOLD: usize = 5;

/// What of a line is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    unit: Unit,
    limit: Amount,
    daily: Option<Amount>,
    status: Status,
}

/// The terms of all lines of a file, by budget.
#[derive(Debug, Default)]
pub(crate) struct FileTerms(BTreeMap<u64, Terms>);

impl FileTerms {
    pub(crate) fn of(lines: &[Line]) -> FileTerms {
        let terms = lines.iter().map(|line| {
            let spec = &line.budget.spec;
            let daily = spec.windows.get(Period::Day).map(|day| day.limit);
            (spec.id, Terms { unit: spec.unit, limit: spec.limit, daily, status: spec.status })
        });
        FileTerms(terms.collect())
    }

    /// How many lines came, changed and went since `before`, and the first of those that changed or went.
    pub(crate) fn since(&self, before: &FileTerms) -> String {
        let added = self.0.keys().filter(|id| !before.0.contains_key(id)).count();
        let left = before.0.iter().filter(|(id, _)| !self.0.contains_key(id));
        let left: Vec<String> = left.map(|(id, _)| format!("budget {id}: left out")).collect();
        let changed: Vec<String> = self
            .0
            .iter()
            .filter_map(|(id, now)| Some((id, before.0.get(id)?, now)))
            .filter(|(_, was, now)| was != now)
            .map(|(id, was, now)| format!("budget {id}: {}", now.against(was)))
            .collect();
        let mut text = format!("{added} added, {} changed, {} left out", changed.len(), left.len());
        for (at, one) in changed.iter().chain(&left).take(TOLD).enumerate() {
            // Writing to a string does not fail.
            let _ = write!(text, "{} {one}", if at == 0 { ":" } else { ";" });
        }
        let more = (changed.len() + left.len()).saturating_sub(TOLD);
        if more > 0 {
            let _ = write!(text, "; and {more} more");
        }
        text
    }
}

impl Terms {
    fn against(&self, was: &Terms) -> String {
        let amount = |of: &Terms, amount: Option<Amount>| {
            amount.map_or_else(|| "none".into(), |amount| of.unit.format(amount).to_string())
        };
        let status = |of: &Terms| format!("{:?}", of.status).to_lowercase();
        let pairs = [
            ("limit", amount(was, Some(was.limit)), amount(self, Some(self.limit))),
            ("daily", amount(was, was.daily), amount(self, self.daily)),
            ("status", status(was), status(self)),
        ];
        let pairs = pairs.into_iter().filter(|(_, was, now)| was != now);
        let told: Vec<String> =
            pairs.map(|(field, was, now)| format!("{field} {was} -> {now}")).collect();
        told.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(limit: i64, daily: Option<i64>, status: Status) -> Terms {
        let unit = Unit::parse("USD").unwrap();
        Terms { unit, limit: Amount::new(limit), daily: daily.map(Amount::new), status }
    }

    #[test]
    fn what_came_changed_and_went_is_told_with_both_amounts() {
        let same = terms(5_000_000, None, Status::Active);
        let before = FileTerms(BTreeMap::from([
            (1, same),
            (2, terms(500_000_000, Some(9_000_000), Status::Active)),
            (3, same),
        ]));
        let after = FileTerms(BTreeMap::from([
            (1, same),
            (2, terms(777_000_000, None, Status::Paused)),
            (4, same),
        ]));
        assert_eq!(
            after.since(&before),
            "1 added, 1 changed, 1 left out: budget 2: limit 500.00 -> 777.00, daily 9.00 -> none, status active -> paused; budget 3: left out"
        );
        assert_eq!(after.since(&after), "0 added, 0 changed, 0 left out");
    }

    #[test]
    fn a_change_of_all_budgets_is_one_short_line() {
        let all = |limit| {
            let one = |id| (id, terms(limit, None, Status::Active));
            FileTerms((1..=50_000).map(one).collect())
        };
        let told = all(2_000_000).since(&all(1_000_000));
        assert!(
            told.starts_with("0 added, 50000 changed, 0 left out: budget 1: limit 1.00 -> 2.00;")
        );
        assert!(told.ends_with("; and 49995 more") && told.len() < 400, "{told}");
    }
}
