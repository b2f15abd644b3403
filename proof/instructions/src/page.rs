//! The page that draws the log: a curve for each workload, instructions beside time, relative to its first commit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::log::CommitLine;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 22.0;
/// The axis shows at least so much above and below, as a factor.
const LEAST: f64 = 0.02;

/// Where one curve is drawn.
struct Frame {
    top: f64,
    low: f64,
    high: f64,
    step: f64,
}

impl Frame {
    fn point(&self, at: usize, value: f64) -> (f64, f64) {
        #[allow(clippy::cast_precision_loss, reason = "commits, far below 2^52")]
        let x = LEFT + self.step * at as f64;
        (x, self.top + HEIGHT - (value - self.low) / (self.high - self.low) * HEIGHT)
    }
}

/// All workloads, one drawing below the other.
#[must_use]
pub fn svg(lines: &[CommitLine]) -> String {
    let names: BTreeSet<&String> = lines.iter().flat_map(|line| line.counts.keys()).collect();
    #[allow(clippy::cast_precision_loss, reason = "a handful of workloads")]
    let height = (HEIGHT + 2.0 * TOP) * names.len() as f64 + TOP;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0} {height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        WIDTH + LEFT + 12.0
    );
    let mut top = TOP;
    for name in names {
        curve(&mut out, lines, name, top);
        top += HEIGHT + 2.0 * TOP;
    }
    out.push_str("</svg>\n");
    out
}

/// One workload. Counts of other tools begin a curve of their own, since the two cannot be compared.
fn curve(out: &mut String, lines: &[CommitLine], name: &str, top: f64) {
    let counts = relative(lines, name);
    let clock = by_clock(lines, name);
    let all = counts.iter().chain(&clock).flatten();
    let (low, high) = all.fold((1.0 - LEAST, 1.0 + LEAST), |(l, h), v| (v.min(l), v.max(h)));
    #[allow(clippy::cast_precision_loss, reason = "commits, far below 2^52")]
    let step = WIDTH / (lines.len().max(2) - 1) as f64;
    let frame = Frame { top, low, high, step };
    let last = lines.iter().rev().find_map(|line| line.counts.get(name)).copied().unwrap_or(0.0);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"bold\">{name}: {last:.2} instructions</text>",
        top - 6.0
    );
    for value in [low, 1.0, high] {
        let (x, y) = frame.point(0, value);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ccc\"/>\
             <text x=\"2\" y=\"{:.1}\">{:+.1} %</text>",
            x + WIDTH,
            y + 4.0,
            (value - 1.0) * 100.0
        );
    }
    for (values, colour) in [(&clock, "#d95f02"), (&counts, "#1b6ca8")] {
        for piece in pieces(values) {
            let points = piece.iter().map(|(at, value)| frame.point(*at, *value));
            let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>",
                points.join(" ")
            );
        }
    }
    for (at, (line, value)) in lines.iter().zip(&counts).enumerate() {
        let Some(value) = value else { continue };
        let (x, y) = frame.point(at, *value);
        let commit: String = line.commit.chars().take(8).collect();
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" fill=\"#1b6ca8\"><title>{commit} {}: {}</title></circle>",
            line.date,
            escaped(&line.subject)
        );
    }
}

/// Instructions of each commit over those of the first one with the same tools.
fn relative(lines: &[CommitLine], name: &str) -> Vec<Option<f64>> {
    let mut firsts: BTreeMap<&str, f64> = BTreeMap::new();
    let relative = |line: &CommitLine, first: f64| line.counts.get(name).map(|count| count / first);
    let mut all = Vec::with_capacity(lines.len());
    for line in lines {
        if let Some(count) = line.counts.get(name) {
            firsts.entry(&line.tools).or_insert(*count);
        }
        all.push(firsts.get(line.tools.as_str()).and_then(|first| relative(line, *first)));
    }
    all
}

/// The products of the ratios of all commits so far: what the clock says that they come to.
fn by_clock(lines: &[CommitLine], name: &str) -> Vec<Option<f64>> {
    let mut product = 1.0;
    let product = lines.iter().map(|line| {
        product *= line.clock.get(name).map_or(1.0, |clock| clock.ratio);
        line.counts.contains_key(name).then_some(product)
    });
    product.collect()
}

/// Neighbours that are there.
fn pieces(values: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut all = vec![Vec::new()];
    for (at, value) in values.iter().enumerate() {
        match (value, all.last_mut()) {
            (Some(value), Some(piece)) => piece.push((at, *value)),
            (None, Some(piece)) if !piece.is_empty() => all.push(Vec::new()),
            _ => {}
        }
    }
    all.retain(|piece| !piece.is_empty());
    all
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The page around the drawing: what it shows, and the noise of the clock.
#[must_use]
pub fn markdown(lines: &[CommitLine]) -> String {
    let mut out = String::from(
        "# What each commit cost\n\nWritten by `make costs-log` from `proof/costs/commits.jsonl`; not by hand. Blue: instructions \
         of a workload, relative to the\nfirst commit of the log. Orange: the product of the ratios by the clock, each commit \
         against its parent; each ratio has an error, and\nthe product has all of them. Point at a dot for its commit. \
         [measuring.md](measuring.md) says how it is measured.\n\n![instructions and time of each commit](costs-log.svg)\n",
    );
    let _ = writeln!(
        out,
        "\n| workload | commits | programs | first | last | largest step | ratios by the clock that count as noise |\n\
         | :--- | ---: | ---: | ---: | ---: | :--- | :--- |"
    );
    let names: BTreeSet<&String> = lines.iter().flat_map(|line| line.counts.keys()).collect();
    for name in names {
        let own: Vec<&CommitLine> =
            lines.iter().filter(|line| line.counts.contains_key(name)).collect();
        let programs = own.iter().filter(|line| !line.same).count();
        let (Some(first), Some(last)) = (own.first(), own.last()) else { continue };
        let noise = noise(lines, name)
            .map_or("too few".into(), |(low, high)| format!("{low:.3} to {high:.3}"));
        let _ = writeln!(
            out,
            "| {name} | {} | {programs} | {:.2} | {:.2} | {} | {noise} |",
            own.len(),
            first.counts[name],
            last.counts[name],
            largest_step(&own, name)
        );
    }
    out
}

fn largest_step(lines: &[&CommitLine], name: &str) -> String {
    let pairs = lines.windows(2).filter(|pair| pair[0].tools == pair[1].tools);
    let step = |pair: &[&CommitLine]| (pair[1].counts[name] / pair[0].counts[name] - 1.0) * 100.0;
    let steps = pairs.map(|pair| (step(pair), pair[1].commit.chars().take(8).collect::<String>()));
    let largest = steps.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    match largest {
        Some((percent, commit)) if percent != 0.0 => format!("{percent:+.2} % at {commit}"),
        _ => "none".into(),
    }
}

/// Commits that change the instructions of a workload by less tell nothing of its time but noise.
const SILENT: f64 = 0.001;
/// Ratios that are needed to tell noise.
const RATIOS_MIN: usize = 8;
/// The fences stand so many interquartile ranges beyond the quartiles, as usual for outliers.
const FENCE: f64 = 1.5;

/// Between which ratios the clock says nothing: the fences around those of commits whose counts stood still.
#[must_use]
pub fn noise(lines: &[CommitLine], name: &str) -> Option<(f64, f64)> {
    let still = lines.windows(2).filter_map(|pair| {
        let (before, now) = (pair[0].counts.get(name)?, pair[1].counts.get(name)?);
        let is_still = (now / before - 1.0).abs() < SILENT && pair[0].tools == pair[1].tools;
        is_still.then(|| pair[1].clock.get(name)).flatten()
    });
    let mut ratios: Vec<f64> = still.map(|clock| clock.ratio).collect();
    if ratios.len() < RATIOS_MIN {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let (low, high) = (ratios[ratios.len() / 4], ratios[ratios.len() * 3 / 4]);
    let beyond = FENCE * (high - low);
    Some((low - beyond, high + beyond))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::Interval;

    fn line(commit: &str, decide: f64, ratio: f64) -> CommitLine {
        let clock = Interval { ratio, low: ratio - 0.01, high: ratio + 0.01 };
        CommitLine {
            commit: commit.into(),
            date: "2026-11-22".into(),
            subject: "Less & <more>".into(),
            tools: "a".into(),
            machine: "2 cores".into(),
            counts: [("decide".to_string(), decide)].into(),
            misses: BTreeMap::new(),
            clock: [("decide".to_string(), clock)].into(),
            same: false,
            sheet: None,
        }
    }

    #[test]
    fn the_page_draws_every_commit_and_names_the_largest_step() {
        let lines = [line("aaaaaaaaa", 100.0, 1.0), line("bbbbbbbbb", 110.0, 1.05)];
        let drawn = svg(&lines);
        assert_eq!(drawn.matches("<circle").count(), 2);
        assert!(drawn.contains("Less &amp; &lt;more&gt;") && drawn.contains("110.00 instructions"));
        let page = markdown(&lines);
        assert!(
            page.contains("| decide | 2 | 2 | 100.00 | 110.00 | +10.00 % at bbbbbbbb | too few |")
        );
        assert!(svg(&[]).ends_with("</svg>\n"), "an empty log");
        assert!(svg(&lines[..1]).contains("<circle"), "one line");
    }

    #[test]
    fn counts_of_other_tools_begin_anew() {
        let mut lines = vec![line("a", 100.0, 1.0), line("b", 200.0, 1.0), line("c", 202.0, 1.0)];
        lines[1].tools = "b".into();
        lines[2].tools = "b".into();
        assert_eq!(relative(&lines, "decide"), [Some(1.0), Some(1.0), Some(1.01)]);
        assert_eq!(largest_step(&lines.iter().collect::<Vec<_>>(), "decide"), "+1.00 % at c");
    }

    #[test]
    fn noise_comes_from_commits_that_changed_nothing() {
        let ratios = [0.99, 1.0, 1.0, 1.0, 1.01, 1.0, 1.0, 0.99, 1.01, 1.0];
        let mut lines: Vec<CommitLine> =
            ratios.iter().map(|ratio| line("a", 100.0, *ratio)).collect();
        let quiet = noise(&lines, "decide").unwrap();
        assert!(quiet.0 <= 1.0 && quiet.1 >= 1.0 && quiet.1 < 1.03);
        lines.push(line("b", 150.0, 1.5));
        assert_eq!(noise(&lines, "decide"), Some(quiet), "a commit that did something");
        assert_eq!(noise(&lines[..5], "decide"), None);
    }
}
