//! What a budgets file says otherwise than the one before it, for the log: who lowered this limit, and when?

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use ledger::{Amount, Period, Status};
use money::Unit;
use weir_budgets::budgets::{BudgetsFile, Line};
use weir_budgets::templates::Template;

/// Budgets that are told one by one.
const TOLD: usize = 5;

/// Fields that are told with both values.
const WITH_VALUES: [&str; 3] = ["limit", "daily", "status"];

/// What of a line is compared.
#[derive(Clone, Debug, PartialEq)]
struct Terms {
    unit: Unit,
    limit: Amount,
    daily: Option<Amount>,
    status: Status,
    /// Every other field that the line names, as a place in [`FileTerms::fields`], with a hash of what it says there.
    said: Box<[(usize, u64)]>,
    /// Does it bid, and with what? A hash.
    campaign: u64,
}

/// The terms of all lines of a file, by budget, and its templates.
#[derive(Debug, Default)]
pub(crate) struct FileTerms {
    budgets: BTreeMap<u64, Terms>,
    fields: Vec<String>,
    /// As if all stood on one line.
    templates: Vec<Template>,
}

impl FileTerms {
    pub(crate) fn of(file: &BudgetsFile) -> FileTerms {
        let mut all = FileTerms::default();
        for line in &file.lines {
            let terms = all.terms(line);
            all.budgets.insert(line.budget.spec.id, terms);
        }
        all.templates = file.templates.iter().cloned().collect();
        all.templates.iter_mut().for_each(|template| template.line = 0);
        all
    }

    fn terms(&mut self, line: &Line) -> Terms {
        let spec = &line.budget.spec;
        let others = line.said.iter().filter(|(field, _)| !WITH_VALUES.contains(&field.as_str()));
        let said = others.map(|(field, value)| (self.place(field), print(&value.to_string())));
        Terms {
            unit: spec.unit,
            limit: spec.limit,
            daily: spec.windows.get(Period::Day).map(|day| day.limit),
            status: spec.status,
            said: said.collect(),
            campaign: line.budget.campaign.as_ref().map_or(0, |ad| print(&format!("{ad:?}"))),
        }
    }

    fn place(&mut self, field: &str) -> usize {
        self.fields.iter().position(|known| known == field).unwrap_or_else(|| {
            self.fields.push(field.to_owned());
            self.fields.len() - 1
        })
    }

    /// Fields that two lines of a budget say differently, but for those that are told with both values.
    fn others(&self, terms: &Terms, before: &FileTerms, was: &Terms) -> Vec<String> {
        let named = |all: &FileTerms, of: &Terms| -> BTreeMap<String, u64> {
            of.said.iter().map(|(place, print)| (all.fields[*place].clone(), *print)).collect()
        };
        let (now, then) = (named(self, terms), named(before, was));
        let all = now.keys().chain(then.keys().filter(|field| !now.contains_key(*field)));
        let differ = all.filter(|field| now.get(*field) != then.get(*field));
        let campaign = (terms.campaign != was.campaign).then(|| "campaign".to_owned());
        differ.cloned().chain(campaign).collect()
    }

    /// How many lines came, changed and went since `before`, and the first of those that changed or went.
    pub(crate) fn since(&self, before: &FileTerms) -> String {
        let added = self.budgets.keys().filter(|id| !before.budgets.contains_key(id)).count();
        let left = before.budgets.iter().filter(|(id, _)| !self.budgets.contains_key(id));
        let left: Vec<String> = left.map(|(id, _)| format!("budget {id}: left out")).collect();
        let changed: Vec<String> = self
            .budgets
            .iter()
            .filter_map(|(id, now)| Some((id, now, before.budgets.get(id)?)))
            .filter_map(|(id, now, was)| {
                let told = [now.against(was), self.others(now, before, was)].concat();
                (!told.is_empty()).then(|| format!("budget {id}: {}", told.join(", ")))
            })
            .collect();
        let templates = self.templates.iter().filter(|one| !before.templates.contains(one)).count()
            + before.templates.iter().filter(|one| !self.templates.contains(one)).count();
        let mut text = format!("{added} added, {} changed, {} left out", changed.len(), left.len());
        for (at, one) in changed.iter().chain(&left).take(TOLD).enumerate() {
            // Writing to a string does not fail.
            let _ = write!(text, "{} {one}", if at == 0 { ":" } else { ";" });
        }
        let more = (changed.len() + left.len()).saturating_sub(TOLD);
        if more > 0 {
            let _ = write!(text, "; and {more} more");
        }
        if templates > 0 {
            text += "; templates changed";
        }
        text
    }
}

impl Terms {
    fn against(&self, was: &Terms) -> Vec<String> {
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
        pairs.map(|(field, was, now)| format!("{field} {was} -> {now}")).collect()
    }
}

fn print(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(limit: i64, daily: Option<i64>, status: Status) -> Terms {
        let unit = Unit::parse("USD").unwrap();
        let (limit, daily) = (Amount::new(limit), daily.map(Amount::new));
        Terms { unit, limit, daily, status, said: Box::default(), campaign: 0 }
    }

    fn budgets(budgets: impl IntoIterator<Item = (u64, Terms)>) -> FileTerms {
        FileTerms { budgets: budgets.into_iter().collect(), ..FileTerms::default() }
    }

    /// The file of a text.
    fn read(text: &str) -> FileTerms {
        let path = std::path::Path::new("budgets.jsonl");
        FileTerms::of(&weir_budgets::budgets::file_of(path, text.as_bytes()).unwrap())
    }

    #[test]
    fn a_change_of_any_field_and_of_templates_is_told_by_its_name() {
        let line = |more: &str| {
            format!("{{\"id\":1,\"name\":\"a\",\"unit\":\"USD\",\"limit\":\"5\"{more}}}\n")
        };
        let before = read(&line(r#","windows":{"hour":"1"}"#));
        for (more, told) in [
            (r#","windows":{"hour":"2"}"#, "windows"),
            (r#","windows":{"hour":"1"},"handle":"team/a""#, "handle"),
            ("", "windows"),
            (r#","windows":{"hour":"1"},"on_expiry":"release""#, "on_expiry"),
        ] {
            let told = format!("0 added, 1 changed, 0 left out: budget 1: {told}");
            assert_eq!(read(&line(more)).since(&before), told);
        }
        let same = read(&format!("\n{}", line(r#","windows":{"hour":"1"}"#)));
        assert_eq!(same.since(&before), "0 added, 0 changed, 0 left out", "on another line");
        let template = |limit: u32| {
            format!(
                "{}{{\"template\":\"user/{{u}}\",\"unit\":\"USD\",\"limit\":\"{limit}\"}}\n",
                line("")
            )
        };
        let told = read(&template(6)).since(&read(&template(5)));
        assert_eq!(told, "0 added, 0 changed, 0 left out; templates changed");
    }

    #[test]
    fn what_came_changed_and_went_is_told_with_both_amounts() {
        let same = terms(5_000_000, None, Status::Active);
        let before = budgets([
            (1, same.clone()),
            (2, terms(500_000_000, Some(9_000_000), Status::Active)),
            (3, same.clone()),
        ]);
        let after =
            budgets([(1, same.clone()), (2, terms(777_000_000, None, Status::Paused)), (4, same)]);
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
            budgets((1..=50_000).map(one))
        };
        let told = all(2_000_000).since(&all(1_000_000));
        assert!(
            told.starts_with("0 added, 50000 changed, 0 left out: budget 1: limit 1.00 -> 2.00;")
        );
        assert!(told.ends_with("; and 49995 more") && told.len() < 400, "{told}");
    }
}
