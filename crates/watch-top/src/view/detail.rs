//! One budget, looked at closely.

use money::{Amount, Unit};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Canvas, left, pace_bar, pace_sign, right, status_sign, words};
use crate::answers::{Budget, Counted, Record};
use crate::format::{
    NONE, bars, clock, count_or_none, cut, date, exact, grouped, harmless, index, rate_or_none,
    span_ms, width,
};
use crate::poll::Closer;

/// From this width on there are two columns.
const TWO_COLUMNS: usize = 100;
/// Columns of a label.
const LABEL: usize = 18;
/// Cells of the pace bar.
const PACE_BAR: usize = 20;
/// Refusals of a kind that are shown.
const REFUSALS_MAX: usize = 6;

const KEYS: [(&str, &str); 5] =
    [("Esc", "back"), ("↑↓", "scroll"), ("Space", "freeze"), ("?", "help"), ("q", "quit")];

/// Counts of holds in a line.
const HOLDS_A_LINE: usize = 3;

type DrawnLines = Vec<Line<'static>>;

impl Canvas<'_> {
    pub(super) fn detail_screen(&self, height: usize) -> DrawnLines {
        let mut lines = vec![self.header()];
        let body = match &self.app.closer {
            Some(Ok(closer)) => self.closer(closer),
            Some(Err(refused)) => {
                vec![Line::styled(format!(" × {}", harmless(&refused.0)), self.palette.bad)]
            }
            None => self.opening(),
        };
        let room = height.saturating_sub(2);
        let above = self.app.scroll.min(body.len().saturating_sub(room));
        lines.extend(body.into_iter().skip(above));
        self.page(lines, height, &KEYS)
    }

    /// Until the answer comes, what the table knew.
    fn opening(&self) -> DrawnLines {
        let title = self.app.opened().map(|budget| self.name(budget));
        let mut lines: DrawnLines = title.into_iter().collect();
        lines.push(Line::styled(" asking…", self.palette.dim));
        lines
    }

    fn closer(&self, closer: &Closer) -> DrawnLines {
        let budget = &closer.detail.budget;
        let mut lines = vec![self.name(budget), self.standing(budget), Line::default()];
        let money = self.money(closer);
        let course = self.course(closer);
        if self.width >= TWO_COLUMNS {
            lines.extend(beside(money, course, self.width / 2));
        } else {
            lines.extend(money);
            lines.extend(course);
        }
        lines.extend(self.changes(budget, &closer.audit.records));
        lines
    }

    fn name(&self, budget: &Budget) -> Line<'static> {
        let kind = if budget.campaign == Some(true) { "campaign" } else { "budget" };
        let mut title = format!(" {}  {}", harmless(&budget.id), harmless(&budget.name));
        if let Some(handle) = &budget.handle {
            title.push_str(&format!("  {}", harmless(handle)));
        }
        let note = format!("{kind}, {} ", harmless(&budget.unit));
        self.spread(
            vec![Span::styled(title, self.palette.strong)],
            vec![Span::styled(format!("  {note}"), self.palette.dim)],
        )
    }

    fn standing(&self, budget: &Budget) -> Line<'static> {
        let (sign, style) = status_sign(&budget.status, self.palette);
        let mut spans = vec![Span::styled(format!(" {sign} {}", words(&budget.status)), style)];
        if let Some(reason) = &budget.reason {
            spans.push(Span::styled(format!(": {}", words(reason)), style));
        }
        if let (Some(since), Some(now)) = (budget.since_ms, self.app.node.as_of_ms) {
            let span = span_ms(now.saturating_sub(since));
            spans.push(Span::styled(format!(", for {span}"), self.palette.dim));
        }
        for flag in &budget.flags {
            spans.push(Span::styled(format!("   [{}]", words(flag)), self.palette.accent));
        }
        Line::from(spans)
    }

    /// The left column: exact amounts.
    fn money(&self, closer: &Closer) -> DrawnLines {
        let (budget, books) = (&closer.detail.budget, &closer.detail.lines);
        let unit = budget.unit();
        let mut lines = vec![self.part("MONEY")];
        lines.extend(self.amounts(
            unit,
            &[
                ("limit", budget.limit),
                ("spent", budget.spent),
                ("  of this debt", budget.debt),
                ("held", budget.held),
                ("remaining", budget.available),
                ("spend a minute", budget.spend_minute),
                ("day limit", budget.daily),
                ("spent today", budget.day_spent),
            ],
        ));
        for window in &closer.detail.windows {
            let label = format!("left of the {}", harmless(&window.period));
            lines.extend(self.amounts(unit, &[(&label, window.left)]));
        }
        lines.push(self.part("BOOKS"));
        lines.extend(self.amounts(
            unit,
            &[
                ("free", books.free),
                ("purses", books.purses),
                ("held", books.held),
                ("suspended", books.suspended),
                ("expired, kept", books.expired),
                ("settled", books.settled),
                ("over-settled", books.over_settled),
                ("late", books.late),
                ("inferred", books.inferred),
                ("unknown order", books.unknown_order),
            ],
        ));
        lines.push(Line::default());
        lines
    }

    /// The right column: plan, rates, holds, caps, refusals.
    fn course(&self, closer: &Closer) -> DrawnLines {
        let budget = &closer.detail.budget;
        let mut lines = vec![self.part("PACE"), self.pace_line(budget)];
        lines.extend(self.amounts(
            budget.unit(),
            &[
                ("planned by now", budget.window_planned),
                ("spent in window", budget.window_spent),
                ("window's budget", budget.window_budget),
            ],
        ));
        if let (Some(start), Some(end)) = (budget.window_start_ms, budget.window_end_ms) {
            lines.push(self.fact("window from", &date(start)));
            lines.push(self.fact("to", &date(end)));
        }
        let pacing = format!("{}, {}", known(&budget.pacing), known(&budget.tz));
        lines.push(self.fact("pacing, zone", &pacing));
        if !budget.spark.is_empty() {
            lines.push(self.spark(&budget.spark));
        }
        lines.push(self.part("ASKS"));
        lines.push(self.fact("asks", &format!("{} /s", rate_or_none(budget.asks_per_s))));
        lines.push(self.fact("granted", &format!("{} /s", rate_or_none(budget.grants_per_s))));
        lines.push(self.fact("refused", &refused(budget)));
        lines.extend(self.counted("refused for", &closer.refusals.verdicts));
        lines.extend(self.counted("no bid for", &closer.refusals.why));
        lines.extend(self.holds(closer));
        lines.push(Line::default());
        lines
    }

    fn holds(&self, closer: &Closer) -> DrawnLines {
        let holds = closer.detail.holds;
        let counts = [
            ("made", holds.made),
            ("open", holds.open),
            ("settled", holds.settled),
            ("released", holds.released),
            ("expired", holds.expired),
            ("late", holds.late),
        ];
        let counts = counts
            .iter()
            .filter_map(|(word, count)| Some(format!("{word} {}", grouped((*count)?))));
        let counts: Vec<String> = counts.collect();
        let mut lines = vec![self.part("HOLDS AND CAPS")];
        if counts.is_empty() {
            lines.push(self.fact("holds of the run", NONE));
        }
        for (row, counts) in counts.chunks(HOLDS_A_LINE).enumerate() {
            let label = if row == 0 { "holds of the run" } else { "" };
            lines.push(self.fact(label, &counts.join(", ")));
        }
        for cap in &closer.detail.caps {
            let (max, per, of) = (count_or_none(cap.max), harmless(&cap.per), harmless(&cap.of));
            lines.push(self.fact("cap", &format!("{max} per user in {per}, {of}")));
        }
        lines
    }

    fn pace_line(&self, budget: &Budget) -> Line<'static> {
        let Some(ppm) = budget.index_ppm else {
            return self.fact("index", "no plan at the moment");
        };
        let (sign, word, style) = pace_sign(ppm, self.palette);
        let mut line = self.fact("index", "");
        line.push_span(Span::styled(pace_bar(ppm, PACE_BAR), style));
        line.push_span(Span::styled(format!(" {sign} {} {word}", index(ppm)), style));
        line
    }

    fn spark(&self, spark: &[Option<Amount>]) -> Line<'static> {
        let figure =
            |amount: &Option<Amount>| amount.map(|amount| u64::try_from(amount.get()).unwrap_or(0));
        let figures: Vec<Option<u64>> = spark.iter().map(figure).collect();
        let mut line = self.fact("spend", "");
        line.push_span(Span::styled(bars(&figures, 1).concat(), self.palette.good));
        let span = span_ms((spark.len() as u64).saturating_mul(30_000));
        line.push_span(Span::styled(format!(" last {span}"), self.palette.dim));
        line
    }

    fn counted(&self, label: &'static str, counted: &[Counted]) -> Option<Line<'static>> {
        let parts =
            counted.iter().map(Counted::parts).filter(|(_, count)| *count > 0).take(REFUSALS_MAX);
        let texts: Vec<String> =
            parts.map(|(word, count)| format!("{} {}", words(word), grouped(count))).collect();
        (!texts.is_empty()).then(|| self.fact(label, &texts.join(", ")))
    }

    /// What people changed, newest first.
    fn changes(&self, budget: &Budget, records: &[Record]) -> DrawnLines {
        let mut lines = vec![self.part("LAST CHANGES")];
        for record in records {
            let at = record
                .at_ms
                .map_or_else(|| NONE.to_owned(), |at| format!("{} {}", day(at), clock(at)));
            let what = format!("{at}  {}  {}", harmless(&record.who), words(&record.action));
            let why = format!("\"{}\"", harmless(&record.why));
            let what = Span::raw(format!("   {what}  {}", changed(budget, record)));
            let why = Span::styled(format!("  {why}"), self.palette.dim);
            if what.width() + why.width() <= self.width {
                lines.push(Line::from(vec![what, why]));
            } else {
                lines.extend([Line::from(what), Line::from(vec![Span::raw("   "), why])]);
            }
        }
        if records.is_empty() {
            lines.push(Line::styled("   none", self.palette.dim));
        }
        lines
    }

    fn part(&self, text: &'static str) -> Line<'static> {
        Line::styled(format!(" {text}"), self.palette.head)
    }

    fn fact(&self, label: &str, text: &str) -> Line<'static> {
        Line::from(vec![
            Span::styled(format!("   {}", left(label, LABEL)), self.palette.dim),
            Span::raw(text.to_owned()),
        ])
    }

    /// Amounts below each other, by their decimal points.
    fn amounts(&self, unit: Option<Unit>, amounts: &[(&str, Option<Amount>)]) -> DrawnLines {
        let texts: Vec<String> = amounts
            .iter()
            .map(|(_, amount)| amount.map_or_else(|| NONE.to_owned(), |amount| exact(unit, amount)))
            .collect();
        let decimals = |text: &str| text.find('.').map_or(0, |at| text.len() - at);
        let after = texts.iter().map(|text| decimals(text)).max().unwrap_or(0);
        let pad = |text: &String| format!("{text}{}", " ".repeat(after - decimals(text)));
        let texts: Vec<String> = texts.iter().map(pad).collect();
        let wide = texts.iter().map(|text| width(text)).max().unwrap_or(0).max(20);
        let line = |((label, amount), text): (&(&str, Option<Amount>), &String)| {
            let below = amount.is_some_and(|amount| amount < Amount::ZERO);
            let style = if below { self.palette.bad } else { Style::new() };
            let label = Span::styled(format!("   {}", left(label, LABEL)), self.palette.dim);
            Line::from(vec![label, Span::styled(right(text, wide), style)])
        };
        amounts.iter().zip(&texts).map(line).collect()
    }
}

fn known(text: &Option<String>) -> String {
    text.as_deref().map_or_else(|| NONE.to_owned(), harmless)
}

fn refused(budget: &Budget) -> String {
    let all = format!("{} /s", rate_or_none(budget.refusals_per_s));
    match &budget.top_refusal {
        Some(top) => {
            format!("{all}, mostly {} ({} /s)", words(top), rate_or_none(budget.top_refusals_per_s))
        }
        None => all,
    }
}

fn day(ms: u64) -> String {
    date(ms).chars().take("2026-01-01".len()).collect()
}

/// The changed fields of one budget in words.
fn changed(budget: &Budget, record: &Record) -> String {
    // Text in the contract; a number is read as well.
    let ours = |id: &serde_json::Value| match id.as_u64() {
        Some(number) => budget.id.parse() == Ok(number),
        None => id.as_str() == Some(&budget.id),
    };
    let Some(change) = record.changes.iter().find(|change| ours(&change.id)) else {
        return String::new();
    };
    let plain = |value: Option<&serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) => cut(&harmless(text), 30),
        Some(value) => cut(&harmless(&value.to_string()), 30),
        None => NONE.to_owned(),
    };
    let field = |(name, after)| {
        let name: &String = name;
        let (before, after) = (plain(change.before.get(name)), plain(Some(after)));
        format!("{} {before} → {after}", words(name))
    };
    change.after.iter().map(field).collect::<Vec<_>>().join(", ")
}

/// Two columns side by side.
fn beside(left: DrawnLines, right: DrawnLines, columns: usize) -> DrawnLines {
    let height = left.len().max(right.len());
    let mut right = right.into_iter();
    let mut left = left.into_iter();
    let mut lines = Vec::with_capacity(height);
    for _ in 0..height {
        let mut line = left.next().unwrap_or_default();
        line.spans.iter_mut().for_each(|span| span.style = line.style.patch(span.style));
        line.style = Style::new();
        let gap = columns.saturating_sub(line.width());
        line.push_span(Span::raw(" ".repeat(gap)));
        let mut second = right.next().unwrap_or_default();
        second.spans.iter_mut().for_each(|span| span.style = second.style.patch(span.style));
        line.spans.extend(second.spans);
        lines.push(line);
    }
    lines
}
