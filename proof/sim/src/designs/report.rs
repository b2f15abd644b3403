//! The designs on the command line: a table of all, or the story of one.

use std::fmt::Write as _;

use super::market::Market;
use super::{Kind, MarketOutcome, run};

const SEEDS: u64 = 40;
/// Lines of a story before the budget is overspent, and after.
const STORY_LINES: (usize, usize) = (8, 4);

/// What the words of the command line ask for.
struct Wish {
    seeds: u64,
    from: u64,
    story: Option<Kind>,
}

/// Answers `--designs [--seeds N] [--from SEED] [--story NAME]` with a text and an exit code: 0, 1 if ours broke a
/// promise, 2 for wrong usage. `None` if something else was asked for.
pub fn command(words: &[String]) -> Option<(String, u8)> {
    if !words.iter().any(|word| word == "--designs") {
        return None;
    }
    let wish = match parse(words) {
        Ok(wish) => wish,
        Err(error) => return Some((error, 2)),
    };
    let answer = match wish.story {
        Some(kind) => tell(kind, wish.from),
        None => table(wish.from, wish.seeds),
    };
    Some(answer.map_or_else(|error| (error, 1), |text| (text, 0)))
}

fn parse(words: &[String]) -> Result<Wish, String> {
    let mut wish = Wish { seeds: SEEDS, from: 1, story: None };
    let mut words = words.iter().filter(|word| *word != "--designs");
    while let Some(flag) = words.next() {
        let value = words.next().ok_or(format!("{flag}: a value is missing"))?;
        let number = value.parse::<u64>();
        let number = number.map_err(|_| format!("{flag}: found {value}, expected a whole number"));
        match flag.as_str() {
            "--seeds" => wish.seeds = number?.max(1),
            "--from" => wish.from = number?,
            "--story" => wish.story = Some(named(value)?),
            _ => return Err(format!("{flag}: not a flag of --designs")),
        }
    }
    Ok(wish)
}

fn named(name: &str) -> Result<Kind, String> {
    let found = Kind::all().find(|kind| kind.name() == name);
    found.ok_or_else(|| {
        let names: Vec<String> = Kind::all().map(Kind::name).collect();
        format!("--story: found \"{name}\", expected one of {}", names.join(", "))
    })
}

fn tell(kind: Kind, seed: u64) -> Result<String, String> {
    let (outcome, story) = Market::new(kind, seed, true).with_story().run()?;
    let Some((crossing, budget)) = story.crossing else {
        return Ok(format!("{}, seed {seed}: no budget was overspent", kind.name()));
    };
    let of_budget = |line: &&(u64, usize, String)| line.1 == budget;
    let before: Vec<_> = story.lines[..crossing].iter().filter(of_budget).collect();
    let after = story.lines[crossing..].iter().filter(of_budget).take(STORY_LINES.1);
    let mut text = format!("{}, seed {seed}, one budget, micros:\n", kind.name());
    for (_, _, line) in before.iter().skip(before.len().saturating_sub(STORY_LINES.0)) {
        text += &format!("{line}\n");
    }
    text += "         --- here bids have gone out whose wins cost more than was left ---\n";
    after.for_each(|(_, _, line)| text += &format!("{line}\n"));
    Ok(text + &format!("overspent in the end, all budgets: {}", outcome.overspent))
}

/// The outcomes of some seeds of one design.
struct Row(Vec<MarketOutcome>);

impl Row {
    fn run(kind: Kind, from: u64, seeds: u64, faults: bool) -> Result<Row, String> {
        let row = (from..from + seeds).map(|seed| {
            run(kind, seed, faults)
                .map_err(|error| format!("{}, seed {seed}: {error}", kind.name()))
        });
        row.collect::<Result<_, _>>().map(Row)
    }

    fn count(&self, is: impl Fn(&MarketOutcome) -> bool) -> usize {
        self.0.iter().filter(|outcome| is(outcome)).count()
    }

    /// Millionths of the limits, over all seeds: the worst, and the mean.
    fn ppm(&self, of: impl Fn(&MarketOutcome) -> i128) -> (i128, i128) {
        let each = self.0.iter().map(|outcome| of(outcome) * 1_000_000 / outcome.limit);
        let seeds = i128::try_from(self.0.len()).unwrap_or(i128::MAX).max(1);
        (each.clone().max().unwrap_or(0), each.sum::<i128>() / seeds)
    }
}

fn percent(ppm: i128) -> String {
    format!("{}.{:03}", ppm / 10_000, ppm % 10_000 / 10)
}

fn table(from: u64, seeds: u64) -> Result<String, String> {
    let mut text = format!(
        "{seeds} seeds from {from}. Seeds overspent, in brackets without what was booked as late debt; percent of the\n\
         limits; with faults unless it says calm.\n\n\
         | design | overspent seeds, calm | with faults | worst / mean overspend | late debt, mean | \
         unknown to its books, mean | promised twice, peak | delivered, mean | 99 % spent after | \
         set aside, peak calm / faults |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for kind in Kind::all() {
        let calm = Row::run(kind, from, seeds, false)?;
        let rough = Row::run(kind, from, seeds, true)?;
        let overspent = |row: &Row| {
            let all = row.count(|outcome| outcome.overspent > 0);
            format!("{all} ({})", row.count(|outcome| outcome.authorised_over > 0))
        };
        let over = rough.ppm(|outcome| outcome.overspent);
        let means = [
            rough.ppm(|outcome| outcome.late).1,
            rough.ppm(|outcome| outcome.missing).1,
            rough.ppm(|outcome| outcome.spent).1,
        ];
        let [late, missing, delivered] = means.map(percent);
        let spent_ms = rough.0.iter().map(|outcome| outcome.most_spent_ms).sum::<u64>() / seeds;
        let (twice, _) = rough.ppm(|outcome| outcome.twice_peak);
        let [calm_peak, peak] = [&calm, &rough].map(|row| row.ppm(|outcome| outcome.aside_peak).0);
        let line = format!(
            "| {} | {} | {} | {} / {} | {late} | {missing} | {} | {delivered} | {} s | {} / {} |",
            kind.name(),
            overspent(&calm),
            overspent(&rough),
            percent(over.0),
            percent(over.1),
            percent(twice),
            spent_ms / 1_000,
            percent(calm_peak),
            percent(peak),
        );
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}
