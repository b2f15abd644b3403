//! What is asked of the node: an order, a filter, perhaps one budget.

use admin_client::encode;

/// What the table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Sort {
    /// Spent in the last minute, most first.
    #[default]
    Spend,
    /// Spent against planned, those behind their plan first.
    Pace,
    /// Asks per second, most first.
    Asks,
    /// Refusals per second, most first.
    Refusals,
    /// What is left, least first.
    Remaining,
}

impl Sort {
    /// All orders, in the order of their keys.
    pub const ALL: [Sort; 5] =
        [Sort::Spend, Sort::Pace, Sort::Asks, Sort::Refusals, Sort::Remaining];

    /// The word of the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Sort::Spend => "spend",
            Sort::Pace => "pace",
            Sort::Asks => "asks",
            Sort::Refusals => "refusals",
            Sort::Remaining => "remaining",
        }
    }

    /// The column of the API, and whether the largest come first.
    fn column(self) -> (&'static str, bool) {
        match self {
            Sort::Spend => ("spend", true),
            Sort::Pace => ("pace", false),
            Sort::Asks => ("asks", true),
            Sort::Refusals => ("refusals", true),
            Sort::Remaining => ("available", false),
        }
    }

    /// The order `steps` further, around the end.
    #[must_use]
    pub fn step(self, steps: usize) -> Sort {
        let at = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Sort::ALL[(at + steps) % Sort::ALL.len()]
    }
}

impl std::fmt::Display for Sort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// A word that names no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("order {found:?}: expected spend, pace, asks, refusals or remaining")]
pub struct SortError {
    /// The value that was found.
    pub found: String,
}

impl std::str::FromStr for Sort {
    type Err = SortError;
    fn from_str(word: &str) -> Result<Sort, SortError> {
        let found = Sort::ALL.into_iter().find(|sort| sort.word() == word);
        found.ok_or_else(|| SortError { found: word.chars().take(32).collect() })
    }
}

/// Which budgets, in which order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Query {
    /// Sorted by.
    pub sort: Sort,
    /// The other way round.
    pub reverse: bool,
    /// Words to be found in id or name, and terms of the API's filter (`status:limited`).
    pub filter: String,
}

impl Query {
    /// Do the largest come first?
    #[must_use]
    pub fn descends(&self) -> bool {
        self.sort.column().1 != self.reverse
    }

    /// The path that asks for the first `max` of them.
    #[must_use]
    pub fn path(&self, max: usize) -> String {
        let sign = if self.descends() { "-" } else { "" };
        let mut path = format!("/v1/budgets?sort={sign}{}&max={max}", self.sort.column().0);
        let (terms, words): (Vec<&str>, Vec<&str>) =
            self.filter.split_whitespace().partition(|word| is_term(word));
        if !words.is_empty() {
            path.push_str(&format!("&q={}", encode(&words.join(" "))));
        }
        if !terms.is_empty() {
            path.push_str(&format!("&filter={}", encode(&terms.join(";"))));
        }
        path
    }
}

/// Is it `column:something`?
fn is_term(word: &str) -> bool {
    let column = word.split_once(':').map_or("", |(column, _)| column);
    !column.is_empty() && column.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// All that the node shall be asked for, again and again.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Wants {
    /// The table.
    pub query: Query,
    /// The budget whose detail is shown: its id.
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_orders_match() {
        for sort in Sort::ALL {
            assert_eq!(sort.word().parse(), Ok(sort));
        }
        assert!("name".parse::<Sort>().unwrap_err().to_string().contains("remaining"));
        assert_eq!(Sort::Remaining.step(1), Sort::Spend);
        assert_eq!(Sort::Spend.step(4), Sort::Remaining);
    }

    #[test]
    fn paths_are_the_apis() {
        let path = |sort, reverse, filter: &str| {
            Query { sort, reverse, filter: filter.to_owned() }.path(200)
        };
        assert_eq!(path(Sort::Spend, false, ""), "/v1/budgets?sort=-spend&max=200");
        assert_eq!(path(Sort::Pace, true, "  "), "/v1/budgets?sort=-pace&max=200");
        assert_eq!(
            path(Sort::Remaining, false, "sale status:limited,error x&y pace:..0.95 12:30"),
            "/v1/budgets?sort=available&max=200&q=sale%20x%26y%2012%3A30\
             &filter=status%3Alimited%2Cerror%3Bpace%3A..0.95"
        );
    }
}
