//! What is shown while a run goes on, on standard error.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;

use wire::Verdict;

use crate::args::Args;
use crate::latency::Quantiles;
use crate::openrtb::COUNT_UNIT;
use crate::report::{by_count, grouped, percent};
use crate::tally::Tally;

/// Sums over the threads at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moment {
    /// Seconds since the start.
    pub at_s: f64,
    /// Asks answered.
    pub decisions: u64,
    /// Asks granted.
    pub granted: u64,
    /// Refusals by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Settles acknowledged.
    pub settles: u64,
}

/// What the last audit saw, over all budgets, in base units.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AuditedSums {
    /// Settled, over and late since the start of the run.
    pub spent: i128,
    /// In holds now.
    pub held: i128,
    /// Above limits, so far.
    pub over: i64,
    /// The unit of all budgets; all NUL where they have several, or none was seen.
    pub unit: [u8; 4],
}

impl Moment {
    /// Reads the tallies.
    #[must_use]
    pub(crate) fn read(tallies: &[Tally], at_s: f64) -> Self {
        let mut moment = Self { at_s, ..Self::default() };
        for tally in tallies {
            moment.decisions += tally.decisions.load(Ordering::Acquire);
            moment.settles += tally.settles.load(Ordering::Acquire);
            for (code, counter) in (0_u8..).zip(&tally.verdicts) {
                let count = counter.load(Ordering::Acquire);
                match Verdict::from_raw(code) {
                    _ if count == 0 => {}
                    Some(Verdict::Granted) => moment.granted += count,
                    Some(verdict) => *moment.refused.entry(verdict.name()).or_default() += count,
                    None => *moment.refused.entry("unknown_verdict").or_default() += count,
                }
            }
        }
        moment
    }
}

/// The progress display of a batch run.
#[derive(Debug)]
pub(crate) struct Progress {
    screen: Screen,
    last: Moment,
}

impl Progress {
    /// As the flags say.
    #[must_use]
    pub(crate) fn new(args: &Args) -> Self {
        Self { screen: Screen::new(args), last: Moment::default() }
    }

    /// Shows a moment.
    pub(crate) fn show(&mut self, now: Moment, latency: &Quantiles, books: &AuditedSums) {
        let last = &self.last;
        self.screen.show(|| line(last, &now, latency, books), || block(last, &now, latency, books));
        self.last = now;
    }

    /// Ends the line, so that what follows begins on its own.
    pub(crate) fn end(&self) {
        self.screen.end();
    }
}

/// Where progress is drawn: standard error, as nothing, as a line or as a block that is drawn over.
#[derive(Debug)]
pub(crate) struct Screen {
    style: Style,
    terminal: bool,
    /// Lines of the last block, 0 before the first.
    drawn: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    None,
    Line,
    Block,
}

impl Screen {
    /// As the flags say.
    #[must_use]
    pub(crate) fn new(args: &Args) -> Self {
        let style = match (args.quiet, args.live) {
            (true, _) => Style::None,
            (_, true) => Style::Block,
            _ => Style::Line,
        };
        Self { style, terminal: std::io::stderr().is_terminal(), drawn: 0 }
    }

    /// Shows the line or the block. A broken standard error is no reason to stop a run.
    pub(crate) fn show(&mut self, line: impl FnOnce() -> String, block: impl FnOnce() -> String) {
        let text = match self.style {
            Style::None => return,
            Style::Line => line(),
            Style::Block => block(),
        };
        let mut err = std::io::stderr().lock();
        let _ = match (self.terminal, self.style) {
            (true, Style::Line) => write!(err, "\r{text}\x1b[K"),
            (true, _) => redraw(&mut err, self.drawn, &text),
            (_, Style::Block) => write!(err, "{text}"),
            _ => writeln!(err, "{text}"),
        };
        let _ = err.flush();
        self.drawn = text.lines().count();
    }

    /// Ends the line, so that what follows begins on its own.
    pub(crate) fn end(&self) {
        if self.terminal && self.drawn > 0 && self.style == Style::Line {
            let _ = writeln!(std::io::stderr().lock());
        }
    }
}

/// Goes up over the last block and writes the new one, clearing what was longer.
fn redraw(err: &mut dyn Write, up: usize, text: &str) -> std::io::Result<()> {
    if up > 0 {
        write!(err, "\x1b[{up}A")?;
    }
    write!(err, "{}", text.replace('\n', "\x1b[K\n"))
}

fn per_s(last: &Moment, now: &Moment) -> u64 {
    let seconds = (now.at_s - last.at_s).max(1e-3);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate for the eye"
    )]
    let rate = ((now.decisions - last.decisions) as f64 / seconds) as u64;
    rate
}

/// Refusals of the interval, the most frequent three.
fn refusals(last: &Moment, now: &Moment) -> String {
    let mut since = now.refused.clone();
    for (reason, count) in &mut since {
        *count -= last.refused.get(reason).copied().unwrap_or(0).min(*count);
    }
    let asked = now.decisions - last.decisions;
    let shown: Vec<String> = by_count(&since)
        .into_iter()
        .filter(|&(_, count)| count > 0)
        .take(3)
        .map(|(reason, count)| format!("{reason} {}", percent(count, asked)))
        .collect();
    if shown.is_empty() { "none".into() } else { shown.join(", ") }
}

fn line(last: &Moment, now: &Moment, latency: &Quantiles, books: &AuditedSums) -> String {
    format!(
        "{:6.1} s  {:>12}/s  p99 {:>8.1} us  granted {}  refused {}  settles {}  over {}",
        now.at_s,
        grouped(per_s(last, now)),
        latency.p99,
        percent(now.granted - last.granted, now.decisions - last.decisions),
        refusals(last, now),
        grouped(now.settles),
        books.over
    )
}

/// Micros as whole units with six decimals.
pub(crate) fn money(micros: i128) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

/// Base units as an amount of a unit, as the wire names it: in micros, in nanos where its last letter is an `n`, or items.
pub(crate) fn amount(base: i128, unit: [u8; 4]) -> String {
    let [.., last] = unit;
    let digits = match unit {
        [0, ..] => return format!("{base} base units"),
        COUNT_UNIT => return format!("{base} items"),
        _ if last == b'n' => 9,
        _ => 6,
    };
    let (sign, base) = (if base < 0 { "-" } else { "" }, base.unsigned_abs());
    let one = 10_u128.pow(digits);
    let name: String = unit.iter().filter(|letter| **letter != 0).map(|l| char::from(*l)).collect();
    let width = digits as usize;
    format!("{sign}{}.{:0width$} {name}", base / one, base % one)
}

fn block(last: &Moment, now: &Moment, latency: &Quantiles, books: &AuditedSums) -> String {
    let lines = [
        format!(
            "{:6.1} s   {} decisions/s   ({} so far)",
            now.at_s,
            grouped(per_s(last, now)),
            grouped(now.decisions)
        ),
        format!(
            "  latency   p50 {:.1} us   p99 {:.1} us   max {:.1} us",
            latency.p50, latency.p99, latency.max
        ),
        format!(
            "  spent     {}   in {} settles",
            amount(books.spent, books.unit),
            grouped(now.settles)
        ),
        format!(
            "  held      {}   over {}",
            amount(books.held, books.unit),
            amount(books.over.into(), books.unit)
        ),
        format!(
            "  granted   {}   refused: {}",
            percent(now.granted - last.granted, now.decisions - last.decisions),
            refusals(last, now)
        ),
    ];
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments() -> (Moment, Moment) {
        let refused = BTreeMap::from([("paced", 10), ("busy", 5)]);
        let last = Moment { at_s: 1.0, decisions: 100, granted: 85, refused, settles: 1 };
        let refused = BTreeMap::from([("paced", 30), ("busy", 5), ("exhausted", 40)]);
        let now = Moment { at_s: 2.0, decisions: 300, granted: 225, refused, settles: 12 };
        (last, now)
    }

    #[test]
    fn a_line_shows_the_interval_not_the_whole_run() {
        let (last, now) = moments();
        let text = line(&last, &now, &Quantiles::default(), &AuditedSums::default());
        assert!(text.contains("200/s"), "{text}");
        assert!(text.contains("granted 70.0 %"), "{text}");
        assert!(text.contains("exhausted 20.0 %, paced 10.0 %"), "{text}");
        assert!(!text.contains("busy"), "nothing was busy in this second: {text}");
    }

    #[test]
    fn the_block_shows_money_in_whole_units() {
        let (last, now) = moments();
        let books = AuditedSums { spent: 1_500_000, held: 2, over: 0, unit: *b"USD\0" };
        let text = block(&last, &now, &Quantiles::default(), &books);
        assert_eq!(text.lines().count(), 5);
        assert!(text.contains("1.500000") && text.contains("0.000002"), "{text}");
        assert_eq!(money(-1_500_000), "-1.500000");
        let nanos = AuditedSums { unit: *b"USDn", ..books };
        let text = block(&last, &now, &Quantiles::default(), &nanos);
        assert!(text.contains("spent     0.001500000 USDn"), "{text}");
        assert!(text.contains("held      0.000000002 USDn   over 0.000000000 USDn"), "{text}");
        assert_eq!(amount(-1_500_000, *b"JPY\0"), "-1.500000 JPY");
        assert_eq!(
            (amount(7, COUNT_UNIT), amount(7, [0; 4])),
            ("7 items".into(), "7 base units".into())
        );
    }
}
