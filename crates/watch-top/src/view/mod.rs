//! The screen, drawn from an [`App`]; a pure function.

mod detail;
mod help;
mod summary;
mod table;

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::app::{App, Freshness, Link, Screen};
use crate::format::{cut, width};
use crate::palette::Palette;

/// Columns of the labels at the left.
const LABEL_WIDTH: usize = 12;

/// Draws it all; returns how many rows of the table there is room for.
pub fn draw(app: &App, now: Duration, palette: &Palette, area: Rect, buffer: &mut Buffer) -> usize {
    let canvas = Canvas { app, now, palette, width: usize::from(area.width) };
    let height = usize::from(area.height);
    let (lines, rows) = match app.screen {
        Screen::Table => canvas.table_screen(height),
        Screen::Detail => (canvas.detail_screen(height), app.rows),
        Screen::Help => (canvas.help_screen(height), app.rows),
    };
    for (y, line) in (area.top()..area.bottom()).zip(&lines) {
        buffer.set_line(area.left(), y, line, area.width);
    }
    let body = Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area };
    if canvas.is_old() {
        buffer.set_style(body.intersection(area), palette.dim);
    }
    rows
}

/// What every part of the screen is drawn from.
#[derive(Clone, Copy)]
struct Canvas<'a> {
    app: &'a App,
    now: Duration,
    palette: &'a Palette,
    width: usize,
}

impl Canvas<'_> {
    /// Are the figures no longer true?
    fn is_old(&self) -> bool {
        let lost = matches!(self.app.link, Link::Lost { .. });
        !self.app.frozen && (lost || self.app.freshness(self.now) == Freshness::Old)
    }

    /// A line of the summary: its label, then what there is to say.
    fn labelled(&self, label: &str, spans: Vec<Span<'static>>) -> Line<'static> {
        let mut line =
            vec![Span::styled(format!(" {}", left(label, LABEL_WIDTH - 1)), self.palette.head)];
        line.extend(spans);
        Line::from(line)
    }

    /// A line over the whole width: something at the left that may be cut, something at the right that stays.
    fn spread(&self, left: Vec<Span<'static>>, right: Vec<Span<'static>>) -> Line<'static> {
        let right_width: usize = right.iter().map(Span::width).sum();
        let room = self.width.saturating_sub(right_width);
        let mut line = fitting(left, room);
        let gap = room.saturating_sub(line.iter().map(Span::width).sum());
        line.push(Span::raw(" ".repeat(gap)));
        line.extend(right);
        Line::from(line)
    }

    /// Fills up with empty lines, or cuts, and ends with the keys.
    fn page(
        &self,
        mut lines: Vec<Line<'static>>,
        height: usize,
        keys: &[(&str, &str)],
    ) -> Vec<Line<'static>> {
        lines.resize(height.saturating_sub(1), Line::default());
        lines.push(self.keys(keys));
        lines
    }

    fn keys(&self, keys: &[(&str, &str)]) -> Line<'static> {
        let mut spans = vec![Span::raw(" ")];
        for (key, meaning) in keys {
            spans.push(Span::styled((*key).to_owned(), self.palette.strong));
            spans.push(Span::styled(format!(" {meaning}   "), self.palette.dim));
        }
        Line::from(fitting(spans, self.width))
    }
}

/// As many of them as fit; the last one is cut.
fn fitting(spans: Vec<Span<'static>>, mut room: usize) -> Vec<Span<'static>> {
    let mut kept = Vec::with_capacity(spans.len());
    for span in spans {
        let text = cut(&span.content, room);
        room -= width(&text).min(room);
        kept.push(Span::styled(text, span.style));
        if room == 0 {
            break;
        }
    }
    kept
}

/// A text at the left of so many columns; cut if it is wider.
fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let gap = columns.saturating_sub(width(&text));
    format!("{text}{}", " ".repeat(gap))
}

/// A text at the right of so many columns; a figure is never cut: a wider one moves its neighbours.
fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A word of the API for people.
fn words(word: &str) -> String {
    crate::format::harmless(word).replace('_', " ")
}

/// The bullet bar of a pace index: full at twice the plan, a tick where the plan is.
fn pace_bar(index_ppm: i64, columns: usize) -> String {
    let half = i64::try_from(columns / 2).unwrap_or(0);
    let filled = index_ppm.max(0).saturating_mul(half).saturating_add(500_000) / 1_000_000;
    let filled = usize::try_from(filled).unwrap_or(columns).min(columns);
    let cell = |at: usize| match (at < filled, at == columns / 2) {
        (true, _) => '█',
        (false, true) => '│',
        (false, false) => '·',
    };
    (0..columns).map(cell).collect()
}

/// A sign and a style for how a pace index stands: behind below 0.95, ahead above 1.05.
fn pace_sign(index_ppm: i64, palette: &Palette) -> (&'static str, &'static str, Style) {
    match index_ppm {
        ..950_000 => ("▼", "behind", palette.warn),
        950_000..=1_050_000 => ("=", "on plan", palette.good),
        _ => ("▲", "ahead", palette.accent),
    }
}

/// A sign and a style for a status.
fn status_sign(status: &str, palette: &Palette) -> (&'static str, Style) {
    match status {
        "active" => ("●", palette.good),
        "limited" => ("▲", palette.warn),
        "exhausted" => ("■", palette.warn),
        "paused" => ("‖", palette.dim),
        "ended" => ("□", palette.dim),
        "waiting" => ("○", palette.dim),
        "error" | "no_purse" => ("×", palette.bad),
        _ => ("?", palette.dim),
    }
}

/// The lines of a drawn screen as plain text, without blanks at their ends.
#[must_use]
pub fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width).max(1);
    buffer.content.chunks(width).map(line_of).collect()
}

fn line_of(cells: &[ratatui::buffer::Cell]) -> String {
    let mut text = String::with_capacity(cells.len());
    // A wide character covers the cell after it.
    let mut covered = 0;
    for cell in cells {
        if covered > 0 {
            covered -= 1;
            continue;
        }
        text.push_str(cell.symbol());
        covered = width(cell.symbol()).saturating_sub(1);
    }
    text.truncate(text.trim_end().len());
    text
}
