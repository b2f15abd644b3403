//! Filtering, sorting and paging of all budgets.

mod column;
mod cursor;
mod filter;
mod sort;

pub(crate) use column::{index_ppm, verdict_word};
pub(crate) use cursor::Cursor;
pub(crate) use filter::{Filter, Search, TEXT_MAX};
pub(crate) use sort::Sort;

use crate::board::View;
use crate::{Budget, State};

/// One budget of a view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) budget: &'a Budget,
    pub(crate) state: &'a State,
    /// The pattern of the template that it was made from.
    pub(crate) template: Option<&'a str>,
}

impl View {
    /// The budgets, in the order of ids.
    pub(crate) fn each(&self) -> impl ExactSizeIterator<Item = Row<'_>> {
        self.budgets.iter().zip(self.states.iter()).enumerate().map(|(row, (budget, state))| Row {
            budget,
            state,
            template: self.template(row),
        })
    }

    /// The budget with this id.
    pub(crate) fn row(&self, id: u64) -> Option<Row<'_>> {
        let index = self.budgets.binary_search_by_key(&id, |budget| budget.id).ok()?;
        let (budget, state) = (&self.budgets[index], self.states.get(index)?);
        Some(Row { budget, state, template: self.template(index) })
    }
}

/// Which budgets, in which order.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) search: Search,
    pub(crate) filter: Filter,
    pub(crate) sort: Sort,
}

/// Some rows of those that match.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    /// The number of match, on all pages.
    pub(crate) matched: usize,
    /// The rows of this page, in order.
    pub(crate) rows: Vec<Row<'a>>,
    /// Where the next page goes on, if there is one.
    pub(crate) next: Option<Cursor>,
}

impl Query {
    pub(crate) fn matches(&self, row: Row<'_>) -> bool {
        self.filter.matches(row) && self.search.matches(row)
    }

    /// At most `max` rows after the cursor.
    pub(crate) fn page<'a>(&self, view: &'a View, after: Option<&Cursor>, max: usize) -> Page<'a> {
        let mut rows: Vec<Row<'a>> = view.each().filter(|row| self.matches(*row)).collect();
        let matched = rows.len();
        if let Some(cursor) = after {
            rows.retain(|row| cursor.is_before(&self.sort, *row));
        }
        let more = rows.len() > max;
        if more && max > 0 {
            // Only what is shown is put in order.
            rows.select_nth_unstable_by(max - 1, |a, b| self.sort.compare(*a, *b));
        }
        rows.truncate(max);
        rows.sort_unstable_by(|a, b| self.sort.compare(*a, *b));
        let next = rows.last().filter(|_| more).map(|last| Cursor::after(&self.sort, *last));
        Page { matched, rows, next }
    }

    /// All rows that match, in order.
    pub(crate) fn all<'a>(&self, view: &'a View) -> Vec<Row<'a>> {
        self.page(view, None, usize::MAX).rows
    }
}
