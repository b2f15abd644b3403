//! What stands before `GO`: the campaigns, their plans, forecasts and landscapes, in any order.

use std::collections::BTreeMap;
use std::io::BufRead;

use gate_pacing::{Forecast, Landscape, PlanSpec, Shape};
use ledger::{Amount, OnExpiry};
use money::{Instant, Window, Zone};

use super::StdioOptions;
use super::error::{Fault, StdioError};
use super::lines::{InputLines, Words, decimal};
use crate::engine::EngineCampaign;

/// Values of a table by minute: one at each end of a minute of the day.
const POINTS: usize = 1441;
/// Length of a flight, ms.
pub(super) const DAY_MS: u64 = 86_400_000;
/// Day 0 begins here: 2001-01-01, a Monday. Any instant that is not the epoch, which means "no start", would do.
pub(super) const BASE_MS: u64 = 978_307_200_000;
/// The last day there can be, some 2,700 years after the first.
const DAY_MAX: u64 = 1_000_000;
/// Values of tables are kept in this many parts of their last one: more than a float tells apart in a day's spend.
const PARTS: f64 = (1_u64 << 40) as f64;

/// The campaigns, and the earliest day of them.
#[derive(Default)]
pub(super) struct Setup {
    pub(super) campaigns: Vec<EngineCampaign>,
    pub(super) first_day: u64,
}

/// What lines said of one campaign so far, with the number of the first of them.
#[derive(Default)]
struct Declared {
    line: u64,
    campaign: Option<(Amount, u64)>,
    plan: Option<Shape>,
    arrivals: Option<(u64, Option<Shape>)>,
    landscape: Option<Landscape>,
}

/// Reads up to `GO`; `None` if `END` comes first.
pub(super) fn read<R: BufRead>(
    lines: &mut InputLines<R>,
    options: &StdioOptions,
) -> Result<Option<Setup>, StdioError> {
    const EXPECTED: &str = "C, P, F, L, GO or END";
    let mut declared = BTreeMap::new();
    loop {
        let mut words = lines.next(EXPECTED)?;
        match words.word(EXPECTED)? {
            b"C" => campaign(&mut words, &mut declared)?,
            b"P" => plan(&mut words, &mut declared)?,
            b"F" => forecast(&mut words, &mut declared)?,
            b"L" => landscape(&mut words, &mut declared)?,
            b"GO" => {
                words.end()?;
                return finish(declared, options).map(Some);
            }
            b"END" => {
                words.end()?;
                return Ok(None);
            }
            word => return Err(words.wrong(word, EXPECTED)),
        }
    }
}

type All = BTreeMap<u64, Declared>;

/// `C id budget first_day`
fn campaign(words: &mut Words<'_>, all: &mut All) -> Result<(), StdioError> {
    let budget_max = money::LIMIT_MAX.get().unsigned_abs();
    let (id, declared) = declared(words, all)?;
    let budget = words.number(budget_max, "a budget in micros, 0 to 10^18")?;
    let first_day = words.number(DAY_MAX, "the number of its first day, 0 to 1,000,000")?;
    words.end()?;
    let budget = Amount::new(i64::try_from(budget).unwrap_or(i64::MAX));
    put(words, ('C', id), &mut declared.campaign, (budget, first_day))
}

/// `P id p0 .. p1440`
fn plan(words: &mut Words<'_>, all: &mut All) -> Result<(), StdioError> {
    let (id, declared) = declared(words, all)?;
    let table = table(words)?;
    let shape = rising(&table).ok_or_else(|| {
        let at = format!("{}", table.first().copied().unwrap_or_default());
        words.input(Fault::Flat { at })
    })?;
    put(words, ('P', id), &mut declared.plan, shape)
}

/// `F id n0 .. n1440`
fn forecast(words: &mut Words<'_>, all: &mut All) -> Result<(), StdioError> {
    let (id, declared) = declared(words, all)?;
    let table = table(words)?;
    let (first, last) = ends(&table);
    // Nobody forecasts as many requests as 64 bits can count; such a number is cut there.
    let requests = whole((last - first).round());
    put(words, ('F', id), &mut declared.arrivals, (requests, rising(&table)))
}

/// `L id a:g ..`
fn landscape(words: &mut Words<'_>, all: &mut All) -> Result<(), StdioError> {
    const EXPECTED: &str =
        "multiplier:spend, as in 0.25:310.5, the multiplier above 0 and at most 1";
    let (id, declared) = declared(words, all)?;
    let mut points = Vec::new();
    while let Some(word) = words.next() {
        let point = point(word).ok_or_else(|| words.wrong(word, EXPECTED))?;
        points.push(point);
    }
    let landscape = Landscape::from_points(&points)
        .map_err(|error| words.input(Fault::Landscape(error.to_string())))?;
    put(words, ('L', id), &mut declared.landscape, landscape)
}

/// A multiplier in 1 / 2^32, and the micros spent at it a request in 1 / 2^16.
fn point(word: &[u8]) -> Option<(u64, u64)> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    let multiplier = decimal(&word[..colon]).filter(|a| (0.0..=1.0).contains(a))?;
    let spend = decimal(&word[colon + 1..])?;
    let multiplier = whole((multiplier * 4_294_967_296.0).round());
    (multiplier > 0).then(|| (multiplier, whole((spend * 65_536.0).round())))
}

/// The campaign whose id is the next word.
fn declared<'a>(
    words: &mut Words<'_>,
    all: &'a mut All,
) -> Result<(u64, &'a mut Declared), StdioError> {
    let id = words.number(u64::MAX, "the id of a campaign")?;
    let line = words.line;
    Ok((id, all.entry(id).or_insert_with(|| Declared { line, ..Declared::default() })))
}

fn put<T>(
    words: &Words<'_>,
    (what, id): (char, u64),
    place: &mut Option<T>,
    value: T,
) -> Result<(), StdioError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(words.input(Fault::Twice { what, id })),
    }
}

/// The rest of the line: a value at each end of a minute, never falling.
fn table(words: &mut Words<'_>) -> Result<Vec<f64>, StdioError> {
    const EXPECTED: &str = "1,441 cumulative values, one at each end of a minute";
    let mut table: Vec<f64> = Vec::with_capacity(POINTS);
    while table.len() < POINTS {
        let word = words.word(EXPECTED)?;
        let value = decimal(word).ok_or_else(|| words.wrong(word, EXPECTED))?;
        if table.last().is_some_and(|last| value < *last) {
            return Err(words.input(Fault::Falls { index: table.len() }));
        }
        table.push(value);
    }
    words.end()?;
    Ok(table)
}

fn ends(table: &[f64]) -> (f64, f64) {
    (table.first().copied().unwrap_or(0.0), table.last().copied().unwrap_or(0.0))
}

/// A table as a shape; `None` if it does not rise.
fn rising(table: &[f64]) -> Option<Shape> {
    let (first, last) = ends(table);
    let scaled: Vec<u64> =
        table.iter().map(|value| whole((value - first) / (last - first) * PARTS)).collect();
    (last > first).then(|| Shape::table(&scaled))?.ok()
}

/// The whole number of a float; what is none is 0, what is too large is the largest.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast from float stays within the range and makes 0 of what is no number"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

fn finish(all: All, options: &StdioOptions) -> Result<Setup, StdioError> {
    let first_day = all.values().filter_map(|declared| Some(declared.campaign?.1)).min();
    let campaigns = all.into_iter().map(|(id, declared)| declared.finish(id, options));
    Ok(Setup { campaigns: campaigns.collect::<Result<_, _>>()?, first_day: first_day.unwrap_or(0) })
}

impl Declared {
    fn finish(self, id: u64, options: &StdioOptions) -> Result<EngineCampaign, StdioError> {
        let unknown = StdioError::Input { line: self.line, fault: Fault::Unknown { id } };
        let (limit, first_day) = self.campaign.ok_or(unknown)?;
        let start_ms = BASE_MS + first_day * DAY_MS;
        let at = Instant::from_ms;
        let flight = Window { start: at(start_ms), end: at(start_ms + DAY_MS) };
        let mut plan = PlanSpec::new(id, options.strategy, flight, Zone::utc());
        plan.gain = options.gain;
        // Who spends as soon as possible follows no plan.
        if let Some(shape) = self.plan.filter(|_| options.strategy.follows_time()) {
            plan.shape = shape;
        }
        let (requests, arrivals) = self.arrivals.unwrap_or_default();
        let landscape = self.landscape.map(std::sync::Arc::new);
        let forecast = Forecast { requests, arrivals, landscape, ..Forecast::default() };
        Ok(EngineCampaign {
            id,
            limit,
            day: flight,
            plan,
            forecast,
            on_expiry: OnExpiry::Hold,
            tolerance_ppm: options.tolerance_ppm,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate_pacing::Strategy;

    /// Values at the ends of minutes: one until noon, then the other.
    fn noon(before: &str, after: &str) -> String {
        let value = |minute| if minute < POINTS / 2 { before } else { after };
        (0..POINTS).map(value).collect::<Vec<_>>().join(" ")
    }

    fn setup(strategy: Strategy) -> Setup {
        let (shares, counts) = (noon("0", "1.0"), noon("0", "1234.6"));
        let text = format!("L 7 0.5:2.5 1:4\nP 7 {shares}\nC 7 99 3\nF 7 {counts}\nC 5 1 2\nGO\n");
        let options = StdioOptions { strategy, gain: 128, ..StdioOptions::default() };
        read(&mut InputLines::new(text.as_bytes()), &options).unwrap().unwrap()
    }

    #[test]
    fn numbers_become_what_the_plan_counts_in() {
        let Setup { campaigns, first_day } = setup(Strategy::Curve);
        let [plain, known] = &campaigns[..] else { panic!("two campaigns, by their ids") };
        assert_eq!((plain.id, known.id, known.limit, first_day), (5, 7, Amount::new(99), 2));
        assert_eq!(known.day.start.ms(), BASE_MS + 3 * DAY_MS);
        assert_eq!(known.day.len_ms(), DAY_MS);
        let forecast = &known.forecast;
        assert_eq!(forecast.requests, 1_235);
        let points = [(1 << 31, 5 << 15), (1 << 32, 4 << 16)];
        assert_eq!(forecast.landscape.as_ref().map(|known| known.points()), Some(&points[..]));
        let half: Vec<u64> = (0..POINTS).map(|at| u64::from(at >= POINTS / 2) << 40).collect();
        assert_eq!(known.plan.shape, Shape::table(&half).unwrap());
        assert_eq!(forecast.arrivals, Some(Shape::table(&half).unwrap()));
        assert_eq!((known.plan.gain, known.plan.strategy), (128, Strategy::Curve));
        assert_eq!((&plain.plan.shape, &plain.forecast), (&Shape::linear(), &Forecast::default()));
    }

    #[test]
    fn who_spends_at_once_follows_no_plan() {
        assert_eq!(setup(Strategy::Asap).campaigns[1].plan.shape, Shape::linear());
    }
}
