//! What can be filtered and sorted by.

use std::borrow::Cow;
use std::cmp::Ordering;

use money::{Amount, Scale, Unit};

use super::Row;
use crate::model::{Period, WindowUse};
use crate::{Flags, Reason};

/// Numbers are compared in billionths of what the filter is written in: of a currency unit, an item, an ask a second...
pub(super) const NANO: i128 = 1_000_000_000;
const PPM: i128 = 1_000_000;

/// The kind of values that a column holds, and so which forms of a filter fit it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text: contains, or is one of.
    Text,
    /// A word: is one of.
    Set,
    /// A number: lies between.
    Number,
}

macro_rules! columns {
    ($($column:ident = $name:literal, $kind:ident;)*) => {
        /// A column.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Column { $($column,)* }

        impl Column {
            pub(super) const ALL: &'static [Column] = &[$(Column::$column,)*];

            pub(super) fn name(self) -> &'static str {
                match self { $(Column::$column => $name,)* }
            }

            pub(super) fn kind(self) -> Kind {
                match self { $(Column::$column => Kind::$kind,)* }
            }
        }
    };
}

columns! {
    Id = "id", Text;
    Name = "name", Text;
    Handle = "handle", Text;
    Template = "template", Set;
    Parent = "parent", Text;
    Unit = "unit", Set;
    Zone = "zone", Set;
    Campaign = "campaign", Set;
    Status = "status", Set;
    Reason = "reason", Set;
    Pacing = "pacing", Set;
    Flags = "flags", Set;
    TopRefusal = "top_refusal", Set;
    Since = "since", Number;
    Start = "start", Number;
    End = "end", Number;
    Limit = "limit", Number;
    Spent = "spent", Number;
    Debt = "debt", Number;
    Held = "held", Number;
    Available = "available", Number;
    WindowBudget = "window_budget", Number;
    Planned = "planned", Number;
    WindowSpent = "window_spent", Number;
    Pace = "pace", Number;
    Daily = "daily", Number;
    DaySpent = "day_spent", Number;
    Spend = "spend", Number;
    Tightest = "tightest", Number;
    Minute = "minute", Number;
    Hour = "hour", Number;
    Day = "day", Number;
    Week = "week", Number;
    Month = "month", Number;
    Asks = "asks", Number;
    Grants = "grants", Number;
    Refusals = "refusals", Number;
    Impressions = "impressions", Number;
    Clicks = "clicks", Number;
    Ctr = "ctr", Number;
    Cpm = "cpm", Number;
    Cpc = "cpc", Number;
}

/// What a row is sorted by in one column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key<'a> {
    /// Numbers, and words in the order of their codes.
    Number(i128),
    /// Text, by code points.
    Text(Cow<'a, str>),
}

impl Column {
    pub(super) fn parse(name: &str) -> Option<Column> {
        Column::ALL.iter().copied().find(|column| column.name() == name)
    }

    /// All names, for an error.
    pub(super) fn names() -> String {
        let names: Vec<&str> = Column::ALL.iter().map(|column| column.name()).collect();
        names.join(", ")
    }

    /// The number in billionths; `None` where there is none, and in columns that hold no numbers.
    pub(super) fn nanos(self, row: Row<'_>) -> Option<i128> {
        let (budget, state) = (row.budget, row.state);
        let amount = |amount: Amount| i128::from(amount.get()) * base(budget.unit);
        let time = |ms: u64| i128::from(ms) * NANO;
        let rate = |hundredths: u32| i128::from(hundredths) * (NANO / 100);
        match self {
            Column::Since => Some(time(state.since_ms)),
            Column::Start => budget.start_ms.map(time),
            Column::End => budget.end_ms.map(time),
            Column::Limit => Some(amount(state.limit)),
            Column::Spent => Some(amount(state.spent)),
            Column::Debt => Some(amount(state.debt)),
            Column::Held => Some(amount(state.held)),
            Column::Available => Some(amount(state.available)),
            Column::WindowBudget => state.window_budget.map(amount),
            Column::Planned => state.window_planned.map(amount),
            Column::WindowSpent => state.window_spent.map(amount),
            Column::Pace => index_ppm(row).map(|ppm| i128::from(ppm) * (NANO / PPM)),
            Column::Daily => state.daily.map(amount),
            Column::DaySpent => Some(amount(state.day_spent)),
            Column::Spend => Some(amount(state.spend_minute)),
            Column::Tightest => state.windows.iter().flatten().filter_map(used_part).max(),
            Column::Minute => used_in(row, Period::Minute),
            Column::Hour => used_in(row, Period::Hour),
            Column::Day => used_in(row, Period::Day),
            Column::Week => used_in(row, Period::Week),
            Column::Month => used_in(row, Period::Month),
            Column::Asks => Some(rate(state.asks)),
            Column::Grants => Some(rate(state.grants)),
            Column::Refusals => Some(rate(state.refusals)),
            Column::Impressions => Some(i128::from(state.counted?.impressions) * NANO),
            Column::Clicks => Some(i128::from(state.counted?.clicks?) * NANO),
            Column::Ctr => state.counted?.ctr_ppm().map(|ppm| i128::from(ppm) * (NANO / PPM)),
            Column::Cpm => state.counted?.cpm().map(|cpm| cpm * base(budget.unit)),
            Column::Cpc => state.counted?.cpc().map(|cpc| cpc * base(budget.unit)),
            _ => None,
        }
    }

    /// What it is sorted by; `None` where there is nothing.
    pub(super) fn key(self, row: Row<'_>) -> Option<Key<'_>> {
        let (budget, state) = (row.budget, row.state);
        let code = |code: u8| Some(Key::Number(code.into()));
        match self {
            Column::Id => Some(Key::Number(budget.id.into())),
            Column::Parent => budget.parent.map(|parent| Key::Number(parent.into())),
            Column::Name => Some(Key::Text(Cow::Borrowed(&budget.name))),
            Column::Handle => budget.handle.as_deref().map(|of| Key::Text(Cow::Borrowed(of))),
            Column::Template => row.template.map(|pattern| Key::Text(Cow::Borrowed(pattern))),
            Column::Zone => Some(Key::Text(Cow::Borrowed(&budget.zone))),
            Column::Unit => Some(Key::Text(Cow::Borrowed(budget.unit.as_str()))),
            Column::Campaign => code(budget.campaign.into()),
            Column::Status => code(state.status.code()),
            Column::Reason if state.reason == Reason::None => None,
            Column::Reason => code(state.reason.code()),
            Column::Pacing => code(budget.pacing.code()),
            Column::Flags => code(state.flags.0),
            Column::TopRefusal if state.top_refusal == 0 => None,
            Column::TopRefusal => code(state.top_refusal),
            _ => self.nanos(row).map(Key::Number),
        }
    }

    /// The order of two rows by this column alone; what has nothing here is last, whichever way.
    pub(super) fn compare(self, a: Row<'_>, b: Row<'_>, descending: bool) -> Ordering {
        match self {
            // The commonest: no key has to be made.
            Column::Id if !descending => a.budget.id.cmp(&b.budget.id),
            _ => compare(self.key(a).as_ref(), self.key(b).as_ref(), descending),
        }
    }

    /// Is the word one that the column can hold? Units and zones: any.
    pub(super) fn knows(self, word: &str) -> bool {
        match self {
            Column::Unit => Unit::parse(word).is_ok(),
            _ => self.words().is_none_or(|words| words.contains(&word)),
        }
    }

    /// All words that the column can hold; `None`: any.
    pub(super) fn words(self) -> Option<Vec<&'static str>> {
        Some(match self {
            Column::Campaign => vec!["yes", "no"],
            Column::Status => crate::Status::ALL.iter().map(|one| one.word()).collect(),
            Column::Reason => Reason::ALL.iter().map(|one| one.word()).collect(),
            Column::Pacing => crate::Pacing::ALL.iter().map(|one| one.word()).collect(),
            Column::Flags => Flags::ALL.iter().map(|(_, name)| *name).collect(),
            Column::TopRefusal => {
                let verdicts = wire::Verdict::ALL.iter().map(|verdict| verdict.name());
                std::iter::once("none").chain(verdicts).collect()
            }
            _ => return None,
        })
    }

    /// Does the row hold this word, or this text?
    pub(super) fn holds(self, row: Row<'_>, word: &str) -> bool {
        let (budget, state) = (row.budget, row.state);
        match self {
            Column::Id => word.parse() == Ok(budget.id),
            Column::Parent => budget.parent.is_some_and(|parent| word.parse() == Ok(parent)),
            Column::Name => &*budget.name == word,
            Column::Handle => budget.handle.as_deref() == Some(word),
            Column::Template => row.template.unwrap_or("none") == word,
            Column::Zone => &*budget.zone == word,
            Column::Unit => budget.unit.as_str() == word,
            Column::Campaign => (word == "yes") == budget.campaign,
            Column::Status => state.status.word() == word,
            Column::Reason => state.reason.word() == word,
            Column::Pacing => budget.pacing.word() == word,
            Column::Flags => {
                Flags::ALL.iter().any(|(bit, name)| *name == word && state.flags.has(*bit))
            }
            Column::TopRefusal => verdict_word(state.top_refusal).unwrap_or("none") == word,
            _ => false,
        }
    }

    /// The text that is searched; only of columns of the kind text.
    pub(super) fn text(self, row: Row<'_>) -> Cow<'_, str> {
        match self {
            Column::Id => Cow::Owned(row.budget.id.to_string()),
            Column::Parent => {
                row.budget.parent.map_or(Cow::Borrowed(""), |id| id.to_string().into())
            }
            Column::Handle => Cow::Borrowed(row.budget.handle.as_deref().unwrap_or("")),
            _ => Cow::Borrowed(&row.budget.name),
        }
    }
}

/// The order of two keys; nothing is last, whichever way.
pub(super) fn compare(a: Option<&Key<'_>>, b: Option<&Key<'_>>, descending: bool) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if descending => b.cmp(a),
        (Some(a), Some(b)) => a.cmp(b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// How much of its window of that length is used.
fn used_in(row: Row<'_>, period: Period) -> Option<i128> {
    row.state.windows.get(usize::from(period.code()))?.as_ref().and_then(used_part)
}

/// The part of a window that is used, in billionths; `None` of one that lets nothing through.
fn used_part(window: &WindowUse) -> Option<i128> {
    let limit = i128::from(window.limit.get());
    (i128::from(window.used.get()) * NANO).checked_div_euclid(limit)
}

/// Billionths that a base unit is.
fn base(unit: Unit) -> i128 {
    match unit {
        Unit::Currency(_, Scale::Nanos) => 1,
        Unit::Currency(_, Scale::Micros) => NANO / PPM,
        Unit::Count => NANO,
    }
}

/// The name of a verdict; `None` for 0, which stands for none here.
pub(crate) fn verdict_word(code: u8) -> Option<&'static str> {
    wire::Verdict::from_raw(code).filter(|_| code != 0).map(wire::Verdict::name)
}

/// What was spent of what was planned by now, in millionths, rounded down; `None` while nothing is planned.
pub(crate) fn index_ppm(row: Row<'_>) -> Option<i64> {
    let (spent, planned) = (row.state.window_spent?, row.state.window_planned?);
    let exact = i128::from(spent.get()) * PPM;
    let index = (planned.get() > 0).then(|| exact.div_euclid(planned.get().into()))?;
    Some(i64::try_from(index).unwrap_or(i64::MAX))
}
