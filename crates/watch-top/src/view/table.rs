//! The lower part: the top budgets.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Canvas, left, pace_bar, pace_sign, right, status_sign, words};
use crate::answers::Budget;
use crate::format::{NONE, column, cut, grouped, harmless, index, rate_or_none, width};
use crate::query::Sort;
use money::{Amount, Unit};

/// Least columns of a name...
const NAME_MIN: usize = 10;
/// ...and where bars are long.
const NAME_MIN_WIDE: usize = 18;
/// Most columns of a name.
const NAME_MAX: usize = 40;
/// Columns between two columns.
const GAP: usize = 2;
/// From this width on bars are long.
const WIDE: usize = 100;

const KEYS: [(&str, &str); 8] = [
    ("↑↓", "choose"),
    ("Enter", "open"),
    ("s", "order"),
    ("o", "turn"),
    ("/", "filter"),
    ("Space", "freeze"),
    ("?", "help"),
    ("q", "quit"),
];

/// A column: its head, its cells, is the table sorted by it, and how early it gives way when there is no room.
struct Column {
    head: &'static str,
    sorted: bool,
    at_right: bool,
    rank: u8,
    cells: Vec<Vec<Span<'static>>>,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.iter().map(Span::width).sum());
        // Room for the sign of the order.
        let sign = if self.sorted { 2 } else { 0 };
        cells.max().unwrap_or(0).max(width(self.head) + sign)
    }
}

impl Canvas<'_> {
    /// All of the screen, and how many rows there is room for.
    pub(super) fn table_screen(&self, height: usize) -> (Vec<Line<'static>>, usize) {
        let mut lines = self.summary(height);
        lines.push(self.title());
        let rows = height.saturating_sub(lines.len() + 2);
        lines.extend(self.rows(rows));
        (self.page(lines, height, &KEYS), rows)
    }

    /// How many there are, in which order, and which.
    fn title(&self) -> Line<'static> {
        let (page, query) = (&self.app.page, &self.app.wants.query);
        let shown = page.budgets.len() as u64;
        let count = match page.matched {
            Some(matched) if matched > shown => {
                format!("top {} of {}", grouped(shown), grouped(matched))
            }
            _ => grouped(shown),
        };
        let order = match query.sort {
            Sort::Spend => "spend a minute",
            Sort::Pace => "pace",
            Sort::Asks => "asks",
            Sort::Refusals => "refusals",
            Sort::Remaining => "what remains",
        };
        let first = if query.descends() { "most first" } else { "least first" };
        let mut spans = vec![
            Span::styled(" BUDGETS    ", self.palette.head),
            Span::styled(count, self.palette.strong),
            Span::styled(format!("   by {order}, {first}"), self.palette.dim),
        ];
        if self.app.typing.is_some() || !query.filter.is_empty() {
            let cursor = if self.app.typing.is_some() { "█" } else { "" };
            spans.push(Span::styled(format!("   / {}{cursor}", query.filter), self.palette.accent));
        }
        if self.app.is_waiting() {
            spans.push(Span::styled("   asking…", self.palette.dim));
        }
        let rule = "─".repeat(self.width);
        let mut line = self.spread(spans, Vec::new());
        // A rule to the end of the line, in place of its blanks.
        if let Some(gap) = line.spans.last_mut() {
            let gap_width = gap.width();
            let rule: String = rule.chars().take(gap_width.saturating_sub(2)).collect();
            *gap = Span::styled(
                format!("{}{rule}", if gap_width > 2 { "  " } else { "" }),
                self.palette.dim,
            );
        }
        line
    }

    /// The heads and at most `rows` rows.
    fn rows(&self, rows: usize) -> Vec<Line<'static>> {
        let (app, first) = (self.app, self.app.first_row(rows));
        if let Some(refused) = &app.refused {
            let text = format!(" × the node refuses this filter: {}", harmless(&refused.0));
            return vec![Line::styled(cut(&text, self.width), self.palette.bad)];
        }
        let budgets = app.page.budgets.get(first..).unwrap_or_default();
        let budgets = &budgets[..budgets.len().min(rows)];
        if budgets.is_empty() {
            return self.no_rows();
        }
        let columns = self.fit(self.columns(budgets));
        let mut lines = vec![self.heads(&columns)];
        lines.extend((0..budgets.len()).map(|row| {
            let chosen = app.cursor() == Some(first + row);
            self.row(&columns, row, chosen)
        }));
        lines
    }

    fn no_rows(&self) -> Vec<Line<'static>> {
        let text = match self.app.wants.query.filter.is_empty() {
            false => "no budget matches the filter; Esc while typing takes it back",
            true if self.app.link == crate::app::Link::Connecting => "waiting for the node",
            true => "the node has no budgets yet; they come from its budgets file",
        };
        vec![Line::default(), Line::styled(format!(" {text}"), self.palette.dim)]
    }

    fn columns(&self, budgets: &[Budget]) -> Vec<Column> {
        let aligned =
            budgets.iter().any(|budget| matches!(budget.unit(), Some(Unit::Currency(..))));
        let text = |head, rank, cell: &dyn Fn(&Budget) -> (String, Style)| {
            self.column(budgets, (head, None, false, rank), |budget| {
                let (text, style) = cell(budget);
                vec![Span::styled(text, style)]
            })
        };
        let amount = |head, sort, rank, of: fn(&Budget) -> Option<Amount>| {
            self.column(budgets, (head, sort, true, rank), |budget| {
                self.amount(budget, of(budget), aligned)
            })
        };
        let per_s = |head, sort, rank, of: fn(&Budget) -> Option<f64>| {
            self.column(budgets, (head, sort, true, rank), |budget| {
                vec![Span::raw(rate_or_none(of(budget)))]
            })
        };
        let plain = Style::new();
        vec![
            self.column(budgets, ("ID", None, true, 9), |budget| {
                vec![Span::styled(cut(&harmless(&budget.id), 20), self.palette.dim)]
            }),
            text("NAME", 0, &|budget| (cut(&harmless(budget.called()), NAME_MAX), plain)),
            text("STATUS", 1, &|budget| {
                let (sign, style) = status_sign(&budget.status, self.palette);
                (format!("{sign} {}", words(&cut(&budget.status, 12))), style)
            }),
            text("REASON", 5, &|budget| {
                let reason = budget.reason.as_deref().unwrap_or("");
                (words(&cut(reason, 16)), self.palette.dim)
            }),
            self.column(budgets, ("PACE", Some(Sort::Pace), false, 0), |budget| self.pace(budget)),
            amount("SPEND/MIN", Some(Sort::Spend), 1, |budget| budget.spend_minute),
            amount("REMAINING", Some(Sort::Remaining), 1, |budget| budget.available),
            text("UNIT", 1, &|budget| (cut(&harmless(&budget.unit), 5), self.palette.dim)),
            per_s("ASKS/s", Some(Sort::Asks), 6, |budget| budget.asks_per_s),
            per_s("REFUSED/s", Some(Sort::Refusals), 7, |budget| budget.refusals_per_s),
            text("MOSTLY", 8, &|budget| {
                (words(&cut(budget.top_refusal.as_deref().unwrap_or(""), 15)), self.palette.dim)
            }),
            amount("SPENT", None, 10, |budget| budget.spent),
        ]
    }

    fn column(
        &self,
        budgets: &[Budget],
        (head, sort, at_right, rank): (&'static str, Option<Sort>, bool, u8),
        cell: impl Fn(&Budget) -> Vec<Span<'static>>,
    ) -> Column {
        let sorted = sort == Some(self.app.shown.sort);
        // What the order is by is shown wherever there is any room.
        let rank = if sorted { 0 } else { rank };
        Column { head, sorted, at_right, rank, cells: budgets.iter().map(cell).collect() }
    }

    fn amount(&self, budget: &Budget, amount: Option<Amount>, aligned: bool) -> Vec<Span<'static>> {
        let Some(amount) = amount else {
            return vec![Span::styled(NONE, self.palette.dim)];
        };
        let style = if amount < Amount::ZERO { self.palette.bad } else { Style::new() };
        vec![Span::styled(column(budget.unit(), amount, aligned), style)]
    }

    fn pace(&self, budget: &Budget) -> Vec<Span<'static>> {
        let columns = if self.width >= WIDE { 12 } else { 6 };
        let Some(ppm) = budget.index_ppm else {
            return vec![Span::styled(left(NONE, columns), self.palette.dim)];
        };
        let (sign, _, style) = pace_sign(ppm, self.palette);
        let bar = Span::styled(pace_bar(ppm, columns), style);
        vec![bar, Span::raw(" "), Span::styled(sign, style), Span::raw(right(&index(ppm), 5))]
    }

    /// Takes columns away until the rest fits, the name cut to what is left.
    fn fit(&self, mut columns: Vec<Column>) -> Vec<Column> {
        let name_min = if self.width >= WIDE { NAME_MIN_WIDE } else { NAME_MIN };
        let needed = |columns: &[Column]| {
            let wide = |column: &Column| {
                let whole = column.width();
                GAP + if column.head == "NAME" { whole.min(name_min) } else { whole }
            };
            columns.iter().map(wide).sum::<usize>()
        };
        while needed(&columns) > self.width && columns.len() > 1 {
            let worst = columns.iter().map(|column| column.rank).max().unwrap_or(0);
            let Some(at) = columns.iter().rposition(|column| column.rank == worst && worst > 0)
            else {
                break;
            };
            columns.remove(at);
        }
        let others: usize = columns
            .iter()
            .filter(|column| column.head != "NAME")
            .map(|column| column.width() + GAP)
            .sum();
        let room = self.width.saturating_sub(others + GAP);
        for name in columns.iter_mut().filter(|column| column.head == "NAME") {
            for span in name.cells.iter_mut().flatten() {
                span.content = cut(&span.content, room).into();
            }
        }
        columns
    }

    fn heads(&self, columns: &[Column]) -> Line<'static> {
        let query = &self.app.shown;
        let mut line = vec![Span::raw(" ")];
        for column in columns {
            let sign = if query.descends() { "▼" } else { "▲" };
            let head = if column.sorted {
                format!("{} {sign}", column.head)
            } else {
                column.head.to_owned()
            };
            let style = if column.sorted { self.palette.accent } else { self.palette.head };
            line.extend(placed(vec![Span::styled(head, style)], column.width(), column.at_right));
        }
        Line::from(line)
    }

    fn row(&self, columns: &[Column], row: usize, chosen: bool) -> Line<'static> {
        let mut line = vec![Span::raw(if chosen { "▸" } else { " " })];
        for column in columns {
            line.extend(placed(column.cells[row].clone(), column.width(), column.at_right));
        }
        let line = Line::from(line);
        if !chosen {
            return line;
        }
        // The whole row in one style: bars and words say what colours said.
        let text: String = line.spans.iter().map(|span| span.content.as_ref()).collect();
        Line::styled(left(&text, self.width), self.palette.row)
    }
}

/// A cell in its column, with the gap to the next one.
fn placed(mut cell: Vec<Span<'static>>, columns: usize, at_right: bool) -> Vec<Span<'static>> {
    let blank = " ".repeat(columns.saturating_sub(cell.iter().map(Span::width).sum()));
    let at = if at_right { 0 } else { cell.len() };
    cell.insert(at, Span::raw(blank));
    cell.push(Span::raw(" ".repeat(GAP)));
    cell
}
