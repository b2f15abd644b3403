//! What is printed: a table for people, JSON and CSV for programs.

use std::fmt::Write as _;
use std::io;

use serde::Serialize;

use super::day::Auction;
use super::measure::{Measures, Recovery};

/// One strategy on one day.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Name of the scenario.
    pub scenario: String,
    /// What happens in it.
    pub about: String,
    /// How impressions were sold.
    pub auction: Auction,
    /// Seed of the day; none if it was not made up, or in a mean of several.
    pub seed: Option<u64>,
    /// Name of the strategy.
    pub strategy: &'static str,
    /// Requests of the day.
    pub requests: u64,
    /// Campaigns of the day.
    pub campaigns: u64,
    /// Campaigns that had to be paced.
    pub binding: u64,
    /// Bids that met the outside market.
    pub bids: u64,
    /// Bids won.
    pub wins: u64,
    /// How far the bound can be above the truth, as a share of it.
    pub bound_gap: f64,
    /// The figures.
    pub measures: Measures,
}

/// A cell in figures: a line of CSV, an object of JSON. Shares are of one. In means over seeds there is no seed, and
/// overspend, what is unbooked and recovery are those of the worst day.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    scenario: String,
    auction: &'static str,
    seed: Option<u64>,
    strategy: &'static str,
    requests: u64,
    campaigns: u64,
    binding_campaigns: u64,
    bids: u64,
    wins: u64,
    overspend_micros: i64,
    overspend_ppm: u64,
    unbooked_micros: i64,
    utilisation: f64,
    deviation_mean: f64,
    deviation_max: f64,
    deviation_worst: f64,
    value_of_bound: f64,
    value_of_fixed: f64,
    bound_gap: f64,
    return_on_spend: f64,
    recovered: Option<bool>,
    recovery_minutes: Option<u32>,
}

impl Record {
    fn of(cell: &Cell) -> Record {
        let measures = &cell.measures;
        let (recovered, recovery_minutes) = match measures.recovery {
            Recovery::NoEvent => (None, None),
            Recovery::Minutes(minutes) => (Some(true), Some(minutes)),
            Recovery::Never => (Some(false), None),
        };
        Record {
            scenario: cell.scenario.clone(),
            auction: cell.auction.name(),
            seed: cell.seed,
            strategy: cell.strategy,
            requests: cell.requests,
            campaigns: cell.campaigns,
            binding_campaigns: cell.binding,
            bids: cell.bids,
            wins: cell.wins,
            overspend_micros: measures.overspend.micros,
            overspend_ppm: measures.overspend.ppm,
            unbooked_micros: measures.unbooked_micros,
            utilisation: measures.utilisation,
            deviation_mean: measures.deviation_mean,
            deviation_max: measures.deviation_max,
            deviation_worst: measures.deviation_worst,
            value_of_bound: measures.value_of_bound,
            value_of_fixed: measures.value_of_fixed,
            bound_gap: cell.bound_gap,
            return_on_spend: measures.return_on_spend,
            recovered,
            recovery_minutes,
        }
    }
}

/// Cells that differ in their seed only, as one: means of what can be averaged, the worst of the rest. In the order in
/// which each first appears.
pub fn means(cells: &[Cell]) -> Vec<Cell> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        let key = |cell: &Cell| (cell.scenario.clone(), cell.auction, cell.strategy);
        match groups.iter_mut().find(|group| key(group[0]) == key(cell)) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups.iter().map(|group| mean(group)).collect()
}

fn mean(group: &[&Cell]) -> Cell {
    let measures: Vec<&Measures> = group.iter().map(|cell| &cell.measures).collect();
    let days = group.len() as u64;
    let each = |of: fn(&Cell) -> u64| group.iter().map(|cell| of(cell)).sum::<u64>() / days;
    Cell {
        seed: None,
        requests: each(|cell| cell.requests),
        campaigns: each(|cell| cell.campaigns),
        binding: each(|cell| cell.binding),
        bids: each(|cell| cell.bids),
        wins: each(|cell| cell.wins),
        bound_gap: group.iter().map(|cell| cell.bound_gap).fold(0.0, f64::max),
        measures: Measures::mean(&measures),
        ..group[0].clone()
    }
}

/// Column heads: name, unit.
const COLUMNS: [(&str, &str); 9] = [
    ("strategy", ""),
    ("overspend", "micros"),
    ("utilisation", "%"),
    ("MAD", "%"),
    ("max dev", "%"),
    ("of bound", "% value"),
    ("of fixed", "% value"),
    ("ROI", ""),
    ("recovery", "min"),
];

/// Tables for a terminal, one a scenario and auction, means over seeds.
pub fn table(cells: &[Cell]) -> String {
    let mut text = String::new();
    let means = means(cells);
    for group in means.chunk_by(|a, b| (&a.scenario, a.auction) == (&b.scenario, b.auction)) {
        let head = &group[0];
        let same = |cell: &&Cell| {
            (&cell.scenario, cell.auction, cell.strategy)
                == (&head.scenario, head.auction, head.strategy)
        };
        let days = cells.iter().filter(same).count();
        let _ = writeln!(text, "{}, {} price. {}", head.scenario, head.auction.name(), head.about);
        let _ = writeln!(
            text,
            "{days} day{}, {} requests, {} campaigns of which {} must be paced; the bound is known to {:.2} %\n",
            if days == 1 { "" } else { "s" },
            grouped(head.requests),
            head.campaigns,
            head.binding,
            head.bound_gap * 100.0
        );
        lines(&mut text, group);
        text.push('\n');
    }
    text
}

fn lines(text: &mut String, group: &[Cell]) {
    let heads = COLUMNS.map(|(name, _)| name.to_string());
    let units = COLUMNS.map(|(_, unit)| unit.to_string());
    let rows: Vec<[String; 9]> =
        [heads, units].into_iter().chain(group.iter().map(columns)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    for row in &rows {
        let mut line = format!("{:<1$}", row[0], width(0));
        for (column, figure) in row.iter().enumerate().skip(1) {
            let _ = write!(line, "  {figure:>0$}", width(column));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

fn columns(cell: &Cell) -> [String; 9] {
    let measures = &cell.measures;
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    [
        cell.strategy.to_string(),
        grouped(measures.overspend.micros.unsigned_abs()),
        percent(measures.utilisation),
        percent(measures.deviation_mean),
        percent(measures.deviation_max),
        percent(measures.value_of_bound),
        percent(measures.value_of_fixed),
        format!("{:.2}", measures.return_on_spend),
        match measures.recovery {
            Recovery::NoEvent => "-".into(),
            Recovery::Minutes(minutes) => minutes.to_string(),
            Recovery::Never => "never".into(),
        },
    ]
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One JSON object: the settings, every cell, and the means over seeds.
pub fn json(settings: &impl Serialize, cells: &[Cell], out: &mut dyn io::Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Report<'a, S> {
        settings: &'a S,
        cells: Vec<Record>,
        means: Vec<Record>,
    }
    let report = Report {
        settings,
        cells: cells.iter().map(Record::of).collect(),
        means: means(cells).iter().map(Record::of).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

/// CSV with a line of names, a line a cell.
pub fn csv(cells: &[Cell], out: &mut dyn io::Write) -> io::Result<()> {
    let mut lines = csv::Writer::from_writer(out);
    for cell in cells {
        lines.serialize(Record::of(cell)).map_err(io::Error::other)?;
    }
    lines.flush()
}

/// One minute of one strategy's day.
#[derive(Serialize)]
struct CourseMinute<'a> {
    scenario: &'a str,
    auction: &'static str,
    strategy: &'static str,
    minute: usize,
    spent: f64,
    planned: f64,
    deviation: f64,
}

/// The courses as CSV with a line of names: one row per scenario, auction, strategy and end of a minute, means over seeds.
pub fn course(cells: &[Cell], out: &mut dyn io::Write) -> io::Result<()> {
    let mut rows = csv::Writer::from_writer(out);
    for Cell { scenario, auction, strategy, measures, .. } in &means(cells) {
        let course = &measures.course;
        let points = course.spent.iter().zip(&course.planned).zip(&course.deviation);
        for (minute, ((&spent, &planned), &deviation)) in points.enumerate() {
            let (auction, strategy) = (auction.name(), *strategy);
            let row =
                CourseMinute { scenario, auction, strategy, minute, spent, planned, deviation };
            rows.serialize(row).map_err(io::Error::other)?;
        }
    }
    rows.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::measure::Overspend;

    fn cell(scenario: &str, seed: u64, strategy: &'static str, utilisation: f64) -> Cell {
        let overspend = Overspend { ppm: 0, micros: i64::try_from(seed).unwrap() * 1000 };
        Cell {
            scenario: scenario.into(),
            about: "About.".into(),
            auction: Auction::Second,
            seed: Some(seed),
            strategy,
            requests: 1_200_000,
            campaigns: 24,
            binding: 20,
            bids: 300,
            wins: 60,
            bound_gap: 0.000_12,
            measures: Measures {
                overspend,
                utilisation,
                recovery: Recovery::Minutes(12),
                ..Measures::default()
            },
        }
    }

    fn cells() -> Vec<Cell> {
        vec![
            cell("base", 1, "asap", 1.0),
            cell("base", 1, "curve", 0.9),
            cell("base", 2, "asap", 0.5),
            cell("base", 2, "curve", 0.8),
            cell("price", 1, "curve", 0.7),
        ]
    }

    #[test]
    fn seeds_are_averaged_and_the_worst_overspend_is_shown() {
        let means = means(&cells());
        let rows: Vec<_> = means
            .iter()
            .map(|cell| (cell.scenario.as_str(), cell.strategy, cell.measures.overspend.micros))
            .collect();
        assert_eq!(
            rows,
            [("base", "asap", 2000), ("base", "curve", 2000), ("price", "curve", 1000)]
        );
        assert!((means[0].measures.utilisation - 0.75).abs() < 1e-9);
        assert_eq!(means[0].seed, None);
    }

    #[test]
    fn columns_of_a_table_are_aligned() {
        let text = table(&cells());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "base, second price. About.");
        assert!(
            lines[1].starts_with("2 days, 1,200,000 requests, 24 campaigns of which 20"),
            "{text}"
        );
        assert!(lines[3].starts_with("strategy  overspend") && lines[3].ends_with("recovery"));
        assert!(lines[5].starts_with("asap          2,000        75.00"), "{text}");
        let wide: Vec<_> = [3, 5, 6].map(|line: usize| lines[line].len()).into();
        assert!(wide.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        assert_eq!(text.matches("strategy").count(), 2, "a table a scenario");
    }

    #[test]
    fn json_has_every_run_and_the_means() {
        let mut out = Vec::new();
        json(&"settings", &cells(), &mut out).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(report["settings"], "settings");
        assert_eq!(report["cells"].as_array().unwrap().len(), 5);
        assert_eq!(report["cells"][2]["seed"], 2);
        assert_eq!(report["cells"][2]["overspend_micros"], 2000);
        assert_eq!(report["means"][0]["utilisation"], 0.75);
        assert_eq!(report["means"][0]["recovery_minutes"], 12);
        assert!(report["means"][0]["seed"].is_null());
    }

    #[test]
    fn csv_has_names_and_a_line_a_run() {
        let mut out = Vec::new();
        let mut cells = cells();
        cells[0].measures.recovery = Recovery::Never;
        csv(&cells, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6);
        assert!(
            lines[0].starts_with("scenario,auction,seed,strategy,")
                && lines[0].ends_with("recovered,recovery_minutes")
        );
        assert!(
            lines[1].starts_with("base,second,1,asap,1200000,24,20,300,60,1000,0,"),
            "{}",
            lines[1]
        );
        assert!(lines[1].ends_with(",false,") && lines[2].ends_with(",true,12"), "{text}");
    }
}
