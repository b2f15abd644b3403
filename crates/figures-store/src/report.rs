//! Reports: cells added up by what is asked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use figures::{CellId, Figures, KEY_NONE, KEY_OTHER, Kept, Total};
use money::{Instant, Unit, Zone};

use crate::desk::Desk;
use crate::kept::{self, Unread};

/// Rows of a report, at most.
pub const ROWS_MAX: usize = 1_000_000;
/// How often it is begun again where files went meanwhile.
const TRIES: usize = 3;
const DAY_MS: i64 = 86_400_000;

/// What of time stands in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ByTime {
    /// Nothing.
    #[default]
    All,
    /// The hour of the budget's zone.
    Hour,
    /// The day there.
    Day,
}

/// What stands in a row, beside what was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct By {
    /// The budget.
    pub campaign: bool,
    /// Exchange, place, creative, country.
    pub names: [bool; 4],
    /// When.
    pub time: ByTime,
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// What stands in a row.
    pub by: By,
    /// Hours that begin from then on; `None`: all that are kept.
    pub from_ms: Option<u64>,
    /// Hours that begin before.
    pub to_ms: u64,
    /// Of these and those under them; `None`: of all.
    pub budgets: Option<BTreeSet<u64>>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where it was asked for, the budget.
    pub campaign: Option<u64>,
    /// Where it was asked for, exchange, place, creative, country.
    pub names: [Option<Arc<str>>; 4],
    /// Where it was asked for, when its hour began, or midnight of its date as if that were one of UTC; ms since the Unix epoch.
    pub time_ms: Option<u64>,
    /// The unit of the spend.
    pub unit: Unit,
    /// What was counted.
    pub total: Total,
}

/// A report.
#[derive(Clone, Debug)]
pub struct Report {
    /// Hours from then on are complete; `None`: nothing was counted yet.
    pub kept_from_ms: Option<u64>,
    /// In order.
    pub rows: Vec<Row>,
    /// Of all rows, by unit.
    pub totals: Vec<(Unit, Total)>,
}

/// Why there is no report.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReportError {
    /// It would be too long.
    #[error(
        "it would have more than {ROWS_MAX} rows: ask for less time, for some budgets, or by less"
    )]
    TooLong,
    /// A sum is too large.
    #[error("a sum would be larger than can be counted")]
    TooMuch,
    /// The disk.
    #[error("{0}")]
    Unread(String),
}

type RowNames = [Option<Arc<str>>; 4];

/// What is added up so far.
struct Sums<'a> {
    ask: &'a Ask,
    desk: &'a Desk,
    kinds: Vec<(Unit, Zone)>,
    /// Those of the budgets that were asked for, and of none of them.
    budgets: HashMap<u64, bool>,
    /// Places of names in `names`.
    keys: HashMap<u64, u32>,
    places: HashMap<RowNames, u32>,
    names: Vec<RowNames>,
    rows: HashMap<(Option<u64>, u32, Option<u64>, Unit), Total>,
    failed: Option<ReportError>,
}

impl Desk {
    /// Adds up what was counted. It takes up to seconds, and stops nobody.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn report(&self, ask: &Ask) -> Result<Report, ReportError> {
        if !self.is_counting() {
            return Err(ReportError::Unread(
                "impressions are not counted in this run, the log says why: mend that and start the node again".into(),
            ));
        }
        for _ in 0..TRIES {
            if let Some(report) = self.try_report(ask)? {
                return Ok(report);
            }
        }
        Err(ReportError::Unread("files were removed while they were read: ask again".into()))
    }

    /// `None`: a file went meanwhile.
    fn try_report(&self, ask: &Ask) -> Result<Option<Report>, ReportError> {
        let minute = |ms: u64| u32::try_from(ms.div_ceil(60_000)).unwrap_or(u32::MAX);
        let (first, end) = (ask.from_ms.map_or(0, minute), minute(ask.to_ms));
        let (open, files, kept_from_ms, mut sums) = {
            let figures = self.lock();
            let cells = figures.cells();
            let open: Vec<(CellId, Total)> = cells.open(first, end).collect();
            let is_in = |kept: &&Kept| kept.last >= first && kept.first < end;
            let files: Vec<Kept> = cells.kept().iter().filter(is_in).copied().collect();
            let from = u64::from(cells.from()) * 60_000;
            let kept_from_ms = figures.since_ms().map(|since_ms| since_ms.max(from));
            (open, files, kept_from_ms, Sums::new(ask, self, &figures))
        };
        for (id, total) in open {
            sums.add(id, total);
        }
        for file in files {
            let mut each = |id: CellId, total| {
                if (first..end).contains(&id.0) {
                    sums.add(id, total);
                }
            };
            match kept::read(self.folder(), &file, &mut each) {
                Ok(()) => {}
                Err(Unread::Gone) => return Ok(None),
                Err(Unread::Because(why)) => return Err(ReportError::Unread(why)),
            }
        }
        sums.report(kept_from_ms).map(Some)
    }
}

impl<'a> Sums<'a> {
    fn new(ask: &'a Ask, desk: &'a Desk, figures: &Figures) -> Sums<'a> {
        let wanted = ask.budgets.as_ref();
        let is_in = |(id, _)| (id, wanted.is_none_or(|of| figures.is_under(id, of)));
        Sums {
            ask,
            desk,
            kinds: figures.cells().kinds().to_vec(),
            budgets: figures.totals().map(is_in).collect(),
            keys: HashMap::new(),
            places: HashMap::new(),
            names: Vec::new(),
            rows: HashMap::new(),
            failed: None,
        }
    }

    fn add(&mut self, (minute, kind, budget, key): CellId, total: Total) {
        let wanted = self.ask.budgets.as_ref();
        // One that is gone is under none.
        let gone = || wanted.is_none_or(|of| of.contains(&budget));
        if self.failed.is_some() || !self.budgets.get(&budget).copied().unwrap_or_else(gone) {
            return;
        }
        let Some((unit, zone)) = self.kinds.get(kind as usize) else { return };
        let hour_ms = u64::from(minute) * 60_000;
        let time_ms = match self.ask.by.time {
            ByTime::All => None,
            ByTime::Hour => Some(hour_ms),
            ByTime::Day => Some(day_ms(hour_ms, zone)),
        };
        let campaign = self.ask.by.campaign.then_some(budget);
        let unit = *unit;
        let place = self.place(key);
        let row = self.rows.entry((campaign, place, time_ms, unit)).or_default();
        match plus(*row, total) {
            Some(sum) => *row = sum,
            None => self.failed = Some(ReportError::TooMuch),
        }
        if self.rows.len() > ROWS_MAX {
            self.failed = Some(ReportError::TooLong);
        }
    }

    /// The place of what a key means, as far as it is asked for.
    fn place(&mut self, key: u64) -> u32 {
        let by = self.ask.by.names;
        if by == [false; 4] {
            return 0;
        }
        if let Some(place) = self.keys.get(&key) {
            return *place;
        }
        let same = |text: &str| [(); 4].map(|()| Arc::from(text));
        let texts = match key {
            KEY_NONE => same(""),
            KEY_OTHER => same("(other)"),
            key => self.desk.names().meaning(key).unwrap_or_else(|| same("(unknown)")),
        };
        let mut names: RowNames = texts.map(Some);
        names
            .iter_mut()
            .zip(by)
            .filter(|(_, is_asked)| !is_asked)
            .for_each(|(name, _)| *name = None);
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let place = *self.places.entry(names.clone()).or_insert(next);
        if place == next {
            self.names.push(names);
        }
        self.keys.insert(key, place);
        place
    }

    fn report(self, kept_from_ms: Option<u64>) -> Result<Report, ReportError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let mut totals = BTreeMap::<Unit, Total>::new();
        let mut rows = Vec::with_capacity(self.rows.len());
        for ((campaign, place, time_ms, unit), total) in self.rows {
            let of_unit = totals.entry(unit).or_default();
            *of_unit = plus(*of_unit, total).ok_or(ReportError::TooMuch)?;
            let names = self.names.get(place as usize).cloned().unwrap_or_default();
            rows.push(Row { campaign, names, time_ms, unit, total });
        }
        rows.sort_unstable_by(|one, other| {
            let of = |row: &Row| (row.time_ms, row.campaign, row.unit);
            of(one).cmp(&of(other)).then_with(|| one.names.cmp(&other.names))
        });
        Ok(Report { kept_from_ms, rows, totals: totals.into_iter().collect() })
    }
}

fn plus(one: Total, other: Total) -> Option<Total> {
    Some(Total {
        impressions: one.impressions.checked_add(other.impressions)?,
        clicks: one.clicks.checked_add(other.clicks)?,
        spend: one.spend.checked_add(other.spend)?,
    })
}

/// Midnight of the date of a zone, as if it were one of UTC.
fn day_ms(hour_ms: u64, zone: &Zone) -> u64 {
    let at = Instant::checked_from_ms(hour_ms).unwrap_or(Instant::MAX);
    let local_ms = i64::try_from(hour_ms).unwrap_or(i64::MAX) + zone.offset_at(at).offset_ms;
    u64::try_from(local_ms.div_euclid(DAY_MS) * DAY_MS).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ledger::{BudgetSpec, Door, Hold, Origin, Record, Verdict};
    use money::Amount;

    use super::*;
    use crate::names::NameFile;

    const DAY_BEGAN_MS: u64 = 1_790_035_200_000;
    /// Places that a campaign is shown at.
    const PLACES: u64 = 40;
    const HOURS: u64 = 24;

    /// Numbers by Knuth's multiplier: the same in each run.
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    fn bill(campaign: u64, key: u64, at_ms: u64) -> Record {
        let hold =
            Hold { grant: campaign, seq: 1, node: 1, deadline_ms: at_ms, amount: Amount::new(9) };
        Record::Resolved {
            hold,
            verdict: Verdict::Settled,
            amount: Amount::new(7),
            at_ms,
            origin: Origin { door: Door::Openrtb, request_id: key },
            keeps_rest: false,
            clicked: false,
            kept: None,
        }
    }

    /// A day of campaigns, each hour in a file: figures, their files, and ns of a record and bytes of a cell.
    fn day(folder: &Path, campaigns: u64, bills: u64) -> (Desk, f64, f64) {
        let file = NameFile::open(&folder.join("names"), 1_000_000, 90).expect("names");
        let names = file.desk().clone();
        let mut figures = Figures::begin(1);
        figures.cells_mut().set_max(u64::MAX);
        let unit = Unit::parse("USD").expect("a unit");
        let known = (1..=campaigns).flat_map(|id| {
            let spec = BudgetSpec::plain(id, unit, Amount::new(1 << 40));
            let granted = Record::Granted {
                grant: id,
                budget: id,
                worker: 0,
                amount: Amount::new(1 << 39),
                at_ms: DAY_BEGAN_MS,
            };
            [Record::Budget { spec: spec.into() }, granted]
        });
        let known: Vec<Record> = known.collect();
        figures.fold(1, DAY_BEGAN_MS, &known).expect("budgets and grants");
        let (mut state, mut ns, mut cells, mut bytes) = (1, 0, 0, 0);
        for hour in 0..HOURS {
            let at_ms = DAY_BEGAN_MS + hour * 3_600_000;
            let records: Vec<Record> = (0..bills / HOURS)
                .map(|_| {
                    let campaign = 1 + draw(&mut state, campaigns);
                    let place = (campaign * 31 + draw(&mut state, PLACES)) % 2_000;
                    let key = names.note(
                        KEY_OTHER | (place + 1),
                        ["x", &format!("{place}.example"), "c", "DEU"],
                    );
                    bill(campaign, key, at_ms)
                })
                .collect();
            let began = probe::thread_cpu_ns();
            figures.fold(figures.sequence(), at_ms, &records).expect("bills");
            ns += probe::thread_cpu_ns() - began;
            let open: Vec<(CellId, Total)> = figures.cells().open(0, u32::MAX).collect();
            let file: Kept = kept::write(folder, figures.sequence(), &open).expect("a file");
            (cells, bytes) = (cells + open.len(), bytes + file.bytes);
            figures.cells_mut().close(u32::MAX, file);
        }
        let desk = Desk::new(figures, names, folder);
        (desk, ns as f64 / bills as f64, bytes as f64 / cells as f64)
    }

    fn by_campaign_and_place() -> Ask {
        let by = By { campaign: true, names: [false, true, false, false], time: ByTime::Day };
        Ask { by, to_ms: u64::MAX, ..Ask::default() }
    }

    #[test]
    fn a_day_by_campaign_and_place_adds_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let (desk, ..) = day(folder.path(), 50, 24_000);
        let report = desk.report(&by_campaign_and_place()).expect("a report");
        assert_eq!(report.rows.len(), 2_000);
        let [(_, total)] = report.totals[..] else { panic!("one unit: {:?}", report.totals) };
        assert_eq!((total.impressions, total.spend), (24_000, Amount::new(7 * 24_000)));
    }

    #[test]
    fn where_nobody_counts_there_is_no_report() {
        let desk = Desk::later();
        assert!(matches!(desk.report(&Ask::default()), Err(ReportError::Unread(_))));
        // And the journal keeps all that is to be counted.
        assert_eq!(desk.unread().load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    /// Figures for `docs/performance.md`: `cargo test --release -p figures-store -- --ignored --nocapture`.
    #[test]
    #[ignore = "a measurement"]
    fn what_a_day_of_five_million_impressions_costs() {
        for _ in 0..5 {
            let folder = tempfile::tempdir().expect("a folder");
            let (desk, ns, bytes) = day(folder.path(), 5_000, 5_000_000);
            let began = probe::thread_cpu_ns();
            let report = desk.report(&by_campaign_and_place()).expect("a report");
            let report_ms = (probe::thread_cpu_ns() - began) / 1_000_000;
            eprintln!(
                "{ns:.0} ns per record, {bytes:.1} bytes a cell, {} rows in {report_ms} ms",
                report.rows.len()
            );
        }
    }
}
