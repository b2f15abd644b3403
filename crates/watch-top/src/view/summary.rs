//! The upper part: how the node stands.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{Canvas, LABEL_WIDTH, fitting, left, right};
use crate::answers::{Door, Latency, Queue, Worker};
use crate::app::{Freshness, Link, decisions_per_s};
use crate::format::{
    bars, bytes, clock, count_or_none, grouped, harmless, micros, percent, rate, rate_or_none,
    span_ms, width,
};

/// Least lines of the table: its title, its heads, some rows, the keys.
const TABLE_MIN: usize = 7;
/// From here on there is room for air.
const TALL: usize = 34;
/// Columns of one core.
const CORE_WIDTH: usize = 22;
/// Cells of a core's bar.
const CORE_BAR: u64 = 10;
/// A queue this full (percent) is shown as near its limit.
const QUEUE_NEAR: u64 = 50;
/// A queue this full (percent) is about to refuse.
const QUEUE_FULL: u64 = 80;

/// Some lines, and how early they give way to the table: the highest first.
struct Section {
    lines: Vec<Line<'static>>,
    rank: u8,
}

impl Canvas<'_> {
    /// The header, then as much of the summary as leaves room for the table.
    pub(super) fn summary(&self, height: usize) -> Vec<Line<'static>> {
        let tall = height >= TALL;
        let mut sections = vec![
            Section { lines: vec![self.header()], rank: 0 },
            Section { lines: self.trouble(), rank: 0 },
            Section { lines: self.decisions(if tall { 3 } else { 1 }), rank: 1 },
            Section { lines: self.doors(), rank: 5 },
            Section { lines: self.verdicts(), rank: 6 },
            Section { lines: self.cores(if tall { 4 } else { 1 }), rank: 7 },
            Section { lines: vec![self.journal()], rank: 3 },
            Section { lines: vec![self.proof()], rank: 2 },
            Section { lines: self.queues(), rank: 4 },
            Section { lines: vec![self.errors()], rank: 3 },
        ];
        let total = |sections: &[Section]| {
            sections.iter().map(|section| section.lines.len()).sum::<usize>()
        };
        while total(&sections) + TABLE_MIN > height && sections.len() > 1 {
            let worst = sections.iter().map(|section| section.rank).max();
            sections.retain(|section| Some(section.rank) != worst || section.rank == 0);
            if worst == Some(0) {
                break;
            }
        }
        let mut lines: Vec<Line<'static>> =
            sections.into_iter().flat_map(|section| section.lines).collect();
        if tall {
            lines.insert(1, Line::default());
            lines.push(Line::default());
        }
        lines
    }

    /// Who the node is, and how fresh all this is.
    pub(super) fn header(&self) -> Line<'static> {
        let node = &self.app.node;
        let mut left = vec![Span::raw(" weir top ")];
        let mut say = |text: String| left.push(Span::raw(format!(" {text} ")));
        if let Some(number) = node.node {
            say(format!("node {number}"));
        }
        if let Some(run) = node.run {
            say(format!("run {run}"));
        }
        if !node.version.is_empty() {
            say(harmless(&node.version));
        }
        if let Some(uptime) = node.uptime_ms {
            say(format!("up {}", span_ms(uptime)));
        }
        say(self.app.address.clone());
        let right = self.freshness();
        let bar = self.palette.bar;
        self.spread(left, vec![Span::raw(format!(" {right} "))]).style(bar)
    }

    fn freshness(&self) -> String {
        let app = self.app;
        let state = match (&app.link, app.freshness(self.now)) {
            (Link::Connecting, _) => return "○ connecting".to_owned(),
            (Link::Lost { retry_at, .. }, _) => {
                let wait = retry_at.saturating_sub(self.now).as_secs_f32().ceil();
                format!("× disconnected, again in {wait:.0} s")
            }
            _ if app.frozen => "‖ frozen".to_owned(),
            (_, Freshness::Fresh) => "● live".to_owned(),
            (_, Freshness::Late) => "▲ late".to_owned(),
            (_, Freshness::Old) => "■ old figures".to_owned(),
        };
        let age = app.age(self.now).unwrap_or(Duration::ZERO);
        let age = span_ms(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        match app.node.as_of_ms {
            Some(_) if self.width < 70 => format!("{state}, {age} ago"),
            Some(at) if self.width < 110 => {
                format!("{state}   {} UTC, {age} ago", cut_ms(&clock(at)))
            }
            Some(at) => format!("{state}   as of {} UTC, {age} ago", clock(at)),
            None => state,
        }
    }

    /// What stands in the way, in words.
    fn trouble(&self) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let mut say = |text: &str, style: Style| {
            let line = vec![Span::styled(format!(" {}", harmless(text)), style)];
            lines.push(Line::from(fitting(line, self.width)));
        };
        if let Link::Lost { why, .. } = &self.app.link {
            say(why, self.palette.bad);
        }
        let (theirs, ours) = (&self.app.node.version, env!("CARGO_PKG_VERSION"));
        if !theirs.is_empty() && theirs != ours {
            let text =
                format!("the node is {theirs}, this weir top {ours}: figures may be missing");
            say(&text, self.palette.warn);
        }
        lines
    }

    fn decisions(&self, rows: usize) -> Vec<Line<'static>> {
        let now = rate(decisions_per_s(&self.app.node));
        let figure = format!("{now} /s  ");
        let note = self.peak();
        let room = self.width.saturating_sub(LABEL_WIDTH + width(&figure) + width(&note) + 3);
        let samples = &self.app.samples;
        let shown = samples.len().min(room);
        let figures: Vec<Option<u64>> = samples
            .iter()
            .skip(samples.len() - shown)
            .map(|(_, per_s)| Some(whole(*per_s)))
            .collect();
        let bars = bars(&figures, rows);
        let last = bars.len().saturating_sub(1);
        let line = |(row, bar): (usize, String)| {
            let bar = Span::styled(bar, self.palette.good);
            if row < last {
                let blank = " ".repeat(width(&figure));
                return self.labelled("", vec![Span::raw(blank), bar]);
            }
            let figure = Span::styled(figure.clone(), self.palette.strong);
            let note = Span::styled(format!("  {note}"), self.palette.dim);
            self.labelled("DECISIONS", vec![figure, bar, note])
        };
        bars.into_iter().enumerate().map(line).collect()
    }

    /// Over how long the samples reach, and the highest of them.
    fn peak(&self) -> String {
        let samples = &self.app.samples;
        let (Some(first), Some(last)) = (samples.front(), samples.back()) else {
            return String::new();
        };
        if samples.len() < 2 {
            return String::new();
        }
        let peak = samples.iter().map(|(_, per_s)| *per_s).fold(0.0, f64::max);
        let span = last.0.saturating_sub(first.0);
        let span = span_ms(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        format!("peak {} in {span}", rate(peak))
    }

    fn doors(&self) -> Vec<Line<'static>> {
        let head =
            door_line(["door", "verdicts/s", "p50", "p99", "p99.9", "max"].map(str::to_owned));
        let mut lines = vec![self.labelled("DOORS", vec![Span::styled(head, self.palette.dim)])];
        for door in &self.app.node.doors {
            lines.push(self.labelled("", vec![Span::raw(door_line(door_cells(door)))]));
        }
        if self.app.node.doors.is_empty() {
            lines = vec![self.labelled("DOORS", vec![Span::styled("none open", self.palette.dim)])];
        }
        lines
    }

    fn verdicts(&self) -> Vec<Line<'static>> {
        let open = self.app.node.doors.iter().filter(|door| door.listen.is_some());
        let doors = open.enumerate();
        doors
            .map(|(row, door)| self.verdicts_of(if row == 0 { "VERDICTS/s" } else { "" }, door))
            .collect()
    }

    /// The verdicts of a door, most first; those that do not fit are counted.
    fn verdicts_of(&self, label: &str, door: &Door) -> Line<'static> {
        let mut verdicts: Vec<(&str, f64)> = door
            .verdicts
            .iter()
            .map(|verdict| (verdict.verdict.as_str(), verdict.per_s.unwrap_or(0.0)))
            .filter(|(_, per_s)| *per_s > 0.0)
            .collect();
        verdicts.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut spans = vec![Span::raw(left(&harmless(&door.door), 9))];
        if verdicts.is_empty() {
            spans.push(Span::styled("none", self.palette.dim));
        }
        let mut room = self.width.saturating_sub(LABEL_WIDTH + 9 + width("+99 more"));
        for (shown, (verdict, per_s)) in verdicts.iter().enumerate() {
            let word = format!("{} ", super::words(verdict));
            let figure = format!("{}  ", rate(*per_s));
            let wide = width(&word) + width(&figure);
            if wide > room {
                let more = format!("+{} more", verdicts.len() - shown);
                spans.push(Span::styled(more, self.palette.dim));
                break;
            }
            room -= wide;
            spans.push(Span::styled(word, self.verdict_style(verdict)));
            spans.push(Span::raw(figure));
        }
        self.labelled(label, spans)
    }

    fn verdict_style(&self, verdict: &str) -> Style {
        match verdict {
            "granted" | "bid" | "confirmed" | "settled" => self.palette.good,
            "busy" | "journal" | "forged" | "foreign" | "settled_over" | "settled_late" => {
                self.palette.bad
            }
            _ => self.palette.dim,
        }
    }

    /// The cores, several a line; those that find no room are summed up.
    fn cores(&self, lines_max: usize) -> Vec<Line<'static>> {
        let workers = &self.app.node.workers;
        if workers.is_empty() {
            return Vec::new();
        }
        let a_line = (self.width.saturating_sub(LABEL_WIDTH) / CORE_WIDTH).max(1);
        let room = a_line * lines_max;
        let shown = if workers.len() > room { room - 1 } else { workers.len() };
        let mut cells: Vec<Vec<Span<'static>>> =
            workers[..shown].iter().map(|one| self.core(one)).collect();
        if shown < workers.len() {
            let rest = &workers[shown..];
            let sum = rest.iter().map(|one| one.busy_ppm.unwrap_or(0)).fold(0, u64::saturating_add);
            let mean = sum / (rest.len() as u64).max(1);
            let text = format!("+{} more, {}", rest.len(), percent(mean));
            cells.push(vec![Span::styled(text, self.palette.dim)]);
        }
        let line = |(row, cells): (usize, &[Vec<Span<'static>>])| {
            self.labelled(if row == 0 { "CORES" } else { "" }, cells.concat())
        };
        cells.chunks(a_line).enumerate().map(line).collect()
    }

    /// Number, busy and waiting parts as a bar, the busy part in words.
    fn core(&self, worker: &Worker) -> Vec<Span<'static>> {
        let cells = |ppm: Option<u64>| ppm.unwrap_or(0).min(1_000_000) * CORE_BAR / 1_000_000;
        let busy = cells(worker.busy_ppm);
        let wait = cells(worker.wait_ppm).min(CORE_BAR - busy);
        let draw = |cells: u64, sign: &str| sign.repeat(usize::try_from(cells).unwrap_or(0));
        let style = match worker.busy_ppm {
            Some(900_000..) => self.palette.bad,
            Some(700_000..) => self.palette.warn,
            _ => self.palette.good,
        };
        let number = worker.core.map_or_else(|| "?".to_owned(), |core| core.to_string());
        let share =
            worker.busy_ppm.map_or_else(|| "–".to_owned(), |ppm| percent(ppm.min(1_000_000)));
        vec![
            Span::raw(format!("{} ", right(&number, 2))),
            Span::styled(draw(busy, "█"), style),
            Span::styled(draw(wait, "▒"), self.palette.dim),
            Span::styled(draw(CORE_BAR - busy - wait, "·"), self.palette.dim),
            Span::raw(format!("{}   ", right(&share, 6))),
        ]
    }

    fn journal(&self) -> Line<'static> {
        let journal = &self.app.node.journal;
        let (sign, style) = match journal.state.as_str() {
            "" => ("?", self.palette.dim),
            _ if journal.failure.is_some() => ("×", self.palette.bad),
            "sealing" | "ok" | "idle" => ("●", self.palette.good),
            _ => ("▲", self.palette.warn),
        };
        let state = if journal.state.is_empty() { "unknown" } else { journal.state.as_str() };
        let mut spans = vec![Span::styled(format!("{sign} {}", super::words(state)), style)];
        if let Some(failure) = &journal.failure {
            spans.push(Span::styled(format!(": {}", harmless(failure)), self.palette.bad));
        }
        let seal = journal.seal_us;
        spans.push(Span::raw(format!(
            "   seal p99 {}, max {}",
            micros(seal.p99),
            micros(seal.max)
        )));
        if let Some(lag) = journal.lag_ms {
            spans.push(Span::raw(format!("   lag {} ms", grouped(lag))));
        }
        let room =
            self.width.saturating_sub(LABEL_WIDTH + spans.iter().map(Span::width).sum::<usize>());
        let unsealed = journal.unsealed_bytes.map(|len| format!("   unsealed {}", bytes(len)));
        if let Some(unsealed) = unsealed.filter(|text| width(text) <= room) {
            spans.push(Span::styled(unsealed, self.palette.dim));
        }
        self.labelled("JOURNAL", spans)
    }

    fn proof(&self) -> Line<'static> {
        let proof = &self.app.node.proof;
        let wrong = proof.violations.unwrap_or(0) > 0 || proof.held_and_spent_ok == Some(false);
        let (verdict, style) = match proof.violations {
            _ if wrong => ("× BROKEN", self.palette.bad),
            Some(_) => ("● holds", self.palette.good),
            None => ("? not checked yet", self.palette.dim),
        };
        let mut spans = vec![Span::styled(verdict, style)];
        if let Some(violations) = proof.violations {
            let budgets = count_or_none(proof.budgets);
            let figures = format!("   {budgets} budgets, {} overspent", grouped(violations));
            spans.push(Span::styled(figures, if wrong { style } else { Style::new() }));
        }
        if let (Some(checked), Some(now)) = (proof.checked_ms, self.app.node.as_of_ms) {
            let ago = span_ms(now.saturating_sub(checked));
            spans.push(Span::styled(format!("   checked {ago} ago"), self.palette.dim));
        }
        self.labelled("PROOF", spans)
    }

    /// Queues near their limits, the fullest first; none of them: no line.
    fn queues(&self) -> Vec<Line<'static>> {
        let mut near: Vec<(u64, &Queue)> = self
            .app
            .node
            .queues
            .iter()
            .filter_map(|queue| Some((percent_full(queue)?, queue)))
            .filter(|(full, _)| *full >= QUEUE_NEAR)
            .collect();
        near.sort_by_key(|(full, _)| std::cmp::Reverse(*full));
        if near.is_empty() {
            return Vec::new();
        }
        let span = |(full, queue): (u64, &Queue)| {
            let (depth, max) = (count_or_none(queue.depth), count_or_none(queue.max));
            let name = super::words(&queue.queue);
            let style = if full >= QUEUE_FULL { self.palette.bad } else { self.palette.warn };
            Span::styled(format!("▲ {name} {depth} of {max} ({full} %)   "), style)
        };
        vec![self.labelled("QUEUES", near.into_iter().map(span).collect())]
    }

    fn errors(&self) -> Line<'static> {
        let mut faults: Vec<(&str, u64)> = self
            .app
            .node
            .errors
            .iter()
            .map(|fault| (fault.code.as_str(), fault.count.unwrap_or(0)))
            .filter(|(_, count)| *count > 0)
            .collect();
        faults.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        if self.app.node.as_of_ms.is_none() {
            return self.labelled("ERRORS", vec![Span::styled("? unknown", self.palette.dim)]);
        }
        if faults.is_empty() {
            return self
                .labelled("ERRORS", vec![Span::styled("● none in this run", self.palette.good)]);
        }
        let span = |(code, count): (&str, u64)| {
            Span::styled(
                format!("× {} {}   ", super::words(code), grouped(count)),
                self.palette.bad,
            )
        };
        self.labelled("ERRORS", faults.into_iter().map(span).collect())
    }
}

fn door_cells(door: &Door) -> [String; 6] {
    if door.listen.is_none() {
        return [&harmless(&door.door), "off", "", "", "", ""].map(str::to_owned);
    }
    let per_s = door.verdicts.iter().filter_map(|verdict| verdict.per_s).sum();
    let Latency { p50_us, p99_us, p999_us, max_us } = door.latency;
    [
        harmless(&door.door),
        rate_or_none(Some(per_s)),
        micros(p50_us),
        micros(p99_us),
        micros(p999_us),
        micros(max_us),
    ]
}

fn door_line([door, verdicts, p50, p99, p999, max]: [String; 6]) -> String {
    let times = [p50, p99, p999, max].map(|time| right(&time, 10)).concat();
    format!("{}{}{times}", left(&door, 9), right(&verdicts, 12))
}

/// How full a queue is; `None` where nobody knows.
fn percent_full(queue: &Queue) -> Option<u64> {
    let (depth, max) = (queue.depth?, queue.max.filter(|max| *max > 0)?);
    u64::try_from(u128::from(depth) * 100 / u128::from(max)).ok()
}

/// A time of day without its milliseconds.
fn cut_ms(clock: &str) -> &str {
    clock.split('.').next().unwrap_or(clock)
}

/// A rate as a whole number, for a bar.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from a float saturates, and a rate is not money"
)]
fn whole(per_s: f64) -> u64 {
    per_s as u64
}
