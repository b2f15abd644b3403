//! The sheet as a table for a terminal.

use std::fmt::Write as _;

use super::{Flag, Row, Sheet, Totals, figure, maybe, one_line, reading};

/// How wide a terminal may be taken to be.
const WIDTH: usize = 120;
/// No name is cut shorter than this.
const NAME_MIN: usize = 12;
/// What stands above the figures of a row, in two lines; see [`figures`].
const HEADS: [(&str, &str); 11] = [
    ("mean", "ns"),
    ("p50", "ns"),
    ("p99", "ns"),
    ("", "per"),
    ("count", "per it"),
    ("ns", "per it"),
    ("", "cores"),
    ("instruc-", "tions"),
    ("other", "way, ns"),
    ("saves ns", "per it"),
    ("", "flags"),
];
/// What stands above the totals: `recorded + unaccounted = processor`; the share is that of the unaccounted.
pub(super) const SUMS: [&str; 5] = ["recorded", "unaccounted", "share, %", "processor", "cores"];
/// The columns of text, which are cut where they are longer than this; all others are numbers, to the right.
const TEXTS: [usize; 2] = [3, 10];
const TEXT_MAX: usize = 16;

impl Sheet {
    /// The sheet as lines of at most 120 columns (more only where figures need them: names are cut first). `wide` adds a
    /// block with file, alternative and justification of every row.
    #[must_use]
    pub fn table(&self, wide: bool) -> String {
        let mut text = self.head();
        text += &self.lines();
        text += &self.sums_table();
        text += &self.legend();
        if wide {
            text += &self.reasons();
        }
        for note in &self.notes {
            text += &wrapped(note, "");
        }
        text
    }

    /// Machine, date, length of the period, requests.
    pub(super) fn facts(&self) -> String {
        let (machine, date, seconds) =
            (one_line(&self.machine), one_line(&self.date), self.seconds);
        let (unit, count) = (one_line(&self.requests.unit), self.requests.count);
        let rate = rate(count, seconds);
        format!("{machine}; {date}; {} s; {unit}s: {count}, {rate} per second", figure(seconds))
    }

    fn head(&self) -> String {
        wrapped(&self.title, "") + &wrapped(&self.facts(), "") + "\n"
    }

    fn lines(&self) -> String {
        let rows: Vec<[String; 11]> = self.rows().map(|(_, row)| figures(self, row)).collect();
        let widths = widths(&rows);
        let figures_width: usize = widths.iter().map(|width| width + 1).sum();
        let names = self.rows().map(|(_, row)| name(row).chars().count());
        let longest = names.max().unwrap_or(0).max(NAME_MIN);
        let name_width = longest.min(WIDTH.saturating_sub(figures_width).max(NAME_MIN));
        let mut text = line("", name_width, &HEADS.map(|head| head.0.to_owned()), &widths);
        text += &line("abstraction", name_width, &HEADS.map(|head| head.1.to_owned()), &widths);
        let mut rows = rows.iter();
        for group in &self.groups {
            let _ = writeln!(text, "{}", cut(&one_line(&group.name), WIDTH));
            for (row, figures) in group.rows.iter().zip(rows.by_ref()) {
                text += &line(&name(row), name_width, figures, &widths);
            }
        }
        text + "\n"
    }

    fn sums_table(&self) -> String {
        let mut sums = vec![(String::new(), SUMS.map(str::to_owned))];
        sums.extend(self.sums());
        let names = sums.iter().map(|(name, _)| name.chars().count());
        let name_width = names.max().unwrap_or(0).min(WIDTH / 3);
        let unit = one_line(&self.requests.unit);
        let mut text = format!("totals, ns per {}\n", cut(&unit, WIDTH / 2));
        for (name, figures) in sums {
            let _ = write!(text, "{:name_width$}", cut(&name, name_width));
            figures.iter().for_each(|figure| _ = write!(text, " {figure:>11}"));
            text += "\n";
        }
        text + "\n"
    }

    /// The totals of every group and of all, as in [`SUMS`].
    pub(super) fn sums(&self) -> Vec<(String, [String; 5])> {
        let groups = self.groups.iter().map(|group| (one_line(&group.name), group.totals()));
        let all = std::iter::once(("all".to_owned(), self.totals()));
        groups.chain(all).map(|(name, totals)| (name, self.sum(totals))).collect()
    }

    fn sum(&self, totals: Totals) -> [String; 5] {
        let a_request = |ns| self.requests.divide(ns);
        [
            maybe(a_request(totals.recorded.middle_ns())),
            maybe(totals.unaccounted_ns().and_then(a_request)),
            maybe(totals.unaccounted_share().map(|share| share * 100.0)),
            maybe(totals.cpu_ns.and_then(a_request)),
            maybe(totals.cpu_ns.and_then(|ns| self.cores(ns))),
        ]
    }

    /// The marks that occur, and how often.
    fn legend(&self) -> String {
        let marks = Flag::ALL.into_iter().filter_map(|flag| match self.flagged(flag) {
            0 => None,
            rows => Some(format!("{} {flag} ({rows})", flag.mark())),
        });
        let marks: Vec<String> = marks.collect();
        if marks.is_empty() {
            return String::new();
        }
        wrapped(&format!("flags: {}", marks.join("; ")), "") + "\n"
    }

    fn reasons(&self) -> String {
        let mut text = String::new();
        for (group, row) in self.rows() {
            let (name, group, place) =
                (one_line(&row.name), one_line(&group.name), one_line(&row.place));
            text += &wrapped(&format!("{name} ({group}; {place})"), "");
            if let Some(other) = &row.alternative {
                text += &wrapped(&format!("against {}.", one_line(&other.sentence())), "    ");
            }
            let why = row.justification.as_deref().filter(|why| !why.trim().is_empty());
            text += &wrapped(why.unwrap_or("? no justification"), "    ");
        }
        text + "\n"
    }
}

/// The figures of a row, as in [`HEADS`].
pub(super) fn figures(sheet: &Sheet, row: &Row) -> [String; 11] {
    [
        row.mean.to_string(),
        reading(row.p50),
        reading(row.p99),
        one_line(&row.per.unit),
        maybe(row.per_request()),
        reading(row.ns_per_request()),
        maybe(sheet.cores(row.total().middle_ns())),
        maybe(row.instructions),
        maybe(row.alternative.as_ref().map(|other| other.ns)),
        maybe(row.saving_ns_per_request()),
        Flag::marks(row),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "a figure for people")]
fn rate(count: u64, seconds: f64) -> String {
    maybe((seconds > 0.0).then(|| count as f64 / seconds))
}

/// The name of a row, further in for each depth.
fn name(row: &Row) -> String {
    let inwards = "  ".repeat(usize::from(row.depth) + 1);
    inwards + &one_line(&row.name)
}

fn widths(rows: &[[String; 11]]) -> [usize; 11] {
    std::array::from_fn(|at| {
        let cells = rows.iter().map(|row| row[at].chars().count());
        let head = HEADS[at].0.len().max(HEADS[at].1.len());
        let width = cells.max().unwrap_or(0).max(head);
        if TEXTS.contains(&at) { width.min(TEXT_MAX) } else { width }
    })
}

fn line(name: &str, name_width: usize, figures: &[String; 11], widths: &[usize; 11]) -> String {
    let mut line = format!("{:name_width$}", cut(name, name_width));
    for (at, (figure, width)) in figures.iter().zip(widths).enumerate() {
        let _ = match TEXTS.contains(&at) {
            true => write!(line, " {:width$}", cut(figure, *width)),
            false => write!(line, " {figure:>width$}"),
        };
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// A text in lines that fit, each behind `inwards`.
fn wrapped(text: &str, inwards: &str) -> String {
    let mut lines = String::new();
    let mut line = inwards.to_owned();
    for word in text.split_whitespace() {
        let is_first = line.len() == inwards.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines += &line;
            lines += "\n";
            line = inwards.to_owned();
        } else if !is_first {
            line += " ";
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    lines + &line + "\n"
}
