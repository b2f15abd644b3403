//! The pairs as tables, as JSON for the cost sheet, and as a document.

use std::fmt::Write as _;

use probe::compare::{MIN_EFFECT, Outcome, Verdict};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::pairs::Pair;

/// Columns of a line of text in a document.
const COLUMNS: usize = 140;

/// Where and when figures were taken.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The processor, and how many of it the program may use.
    pub machine: String,
    /// The day, in UTC, as `2026-11-21`.
    pub date: String,
    /// The compiler's version.
    pub rustc: String,
    /// Threads that wanted to run in the minute before; what is far from 0 was another's work.
    pub load: String,
}

impl Origin {
    /// This machine, now: before the figures are taken.
    #[must_use]
    pub fn here() -> Origin {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (processor, kernel) = (processor(), file("/proc/sys/kernel/osrelease"));
        Origin {
            machine: format!(
                "{cpus} CPUs of {processor}, Linux {}",
                kernel.trim().split('-').next().unwrap_or_default()
            ),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            rustc: env!("RUSTC_VERSION").to_owned(),
            load: file("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

fn processor() -> String {
    let text = file("/proc/cpuinfo");
    let field = |name| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(": ").map(|(_, value)| value.trim().to_owned())
    };
    field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn file(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The file of the cost sheet.
#[derive(Serialize, Deserialize)]
struct Sheet {
    machine: String,
    date: String,
    rustc: String,
    pairs: Vec<SheetPair>,
}

#[derive(Serialize, Deserialize)]
struct SheetPair {
    id: String,
    /// Where and when it was measured, if not in the run of the file.
    #[serde(flatten)]
    own: Option<SheetOrigin>,
    what: String,
    operation: String,
    verdict: String,
    cases: Vec<SheetCase>,
}

#[derive(Clone, Serialize, Deserialize)]
struct SheetOrigin {
    machine: String,
    date: String,
    rustc: String,
}

#[derive(Serialize, Deserialize)]
struct SheetCase {
    name: String,
    ns: f64,
    min_ns: f64,
    max_ns: f64,
    ratio: f64,
    ratio_low: f64,
    ratio_high: f64,
}

/// The figures for the cost sheet, as JSON: the first case of a pair is ours, and a ratio is the time of a case over ours.
#[must_use]
pub fn json(origin: &Origin, pairs: &[Pair]) -> String {
    let Origin { machine, date, rustc, .. } = origin.clone();
    written(&Sheet { machine, date, rustc, pairs: pairs.iter().map(sheet_pair).collect() })
}

/// The figures beside those that a file has of other groups: a group can be measured again without the others. Its pairs say where
/// and when that was, the others stay as they are.
///
/// # Errors
/// What is `known` is no such file.
pub fn json_beside(known: &str, origin: &Origin, pairs: &[Pair]) -> Result<String, Error> {
    let mut sheet: Sheet = serde_json::from_str(known).map_err(|error| {
        let action = "reading what is known of other groups".to_owned();
        Error::Io { action, source: error.into() }
    })?;
    let is_new = |id: &str| pairs.iter().any(|pair| group(pair.id) == group(id));
    sheet.pairs.retain(|pair| !is_new(&pair.id));
    let Origin { machine, date, rustc, .. } = origin.clone();
    let own = Some(SheetOrigin { machine, date, rustc });
    let fresh = pairs.iter().map(|pair| SheetPair { own: own.clone(), ..sheet_pair(pair) });
    sheet.pairs.extend(fresh);
    Ok(written(&sheet))
}

fn written(sheet: &Sheet) -> String {
    // Strings and numbers: nothing here can fail to be written.
    serde_json::to_string_pretty(sheet).unwrap_or_default() + "\n"
}

/// The group of an id, which is its part before the stroke.
fn group(id: &str) -> &str {
    id.split('/').next().unwrap_or_default()
}

fn sheet_pair(pair: &Pair) -> SheetPair {
    let Pair { id, what, operation, verdict, .. } = pair;
    let cases = pair.outcomes.iter().map(sheet_case).collect();
    let [id, what, operation, verdict] =
        [*id, what.as_str(), *operation, verdict.as_str()].map(str::to_owned);
    SheetPair { id, own: None, what, operation, verdict, cases }
}

fn sheet_case(outcome: &Outcome) -> SheetCase {
    SheetCase {
        name: outcome.name.clone(),
        ns: rounded(outcome.median_ns),
        min_ns: rounded(outcome.min_ns),
        max_ns: rounded(outcome.max_ns),
        ratio: rounded(outcome.ratio),
        ratio_low: rounded(outcome.ratio_low),
        ratio_high: rounded(outcome.ratio_high),
    }
}

/// Thousandths: more digits are noise, and make a change of the file unreadable.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The document.
#[must_use]
pub fn markdown(origin: &Origin, pairs: &[Pair]) -> String {
    let Origin { machine, date, rustc, load } = origin;
    let mut text = String::from("# Before and after\n\n");
    let intro = [
        "What Weir does beside what else could be done, on the same work. The first case of each table is ours. All cases of a \
         table ran interleaved in one process, in an order drawn anew each round, and each had to come to the same result. \
         Printed is the median over the rounds with the fastest and the slowest; the ratio is the median of a case's time over \
         ours within a round, with a 95 % interval. Where it cannot tell, it says so. Input is random where a branch \
         could be learnt, results go through a black box, and caches are warm unless a table says otherwise."
            .to_owned(),
        format!(
            "Taken on **{date}** on a machine with {machine}; load average {load} before; rustc {rustc}, release build. Do not edit: this page is written by"
        ),
    ];
    for paragraph in intro {
        let _ = writeln!(text, "{}\n", wrapped(&paragraph));
    }
    text += "```\ncargo run --release -p costs -- pairs --json proof/costs/alternatives.json --markdown target/pairs.md\n```\n";
    text += &summary(pairs);
    text += &tables(pairs);
    text
}

/// One line a pair: ours, and the fastest alternative.
fn summary(pairs: &[Pair]) -> String {
    let mut text = String::from(
        "\n| pair | ours | ns | the fastest alternative | ns | its time, ours = 1 |\n",
    );
    text += "| :--- | :--- | ---: | :--- | ---: | ---: |\n";
    for pair in pairs {
        let (Some(ours), Some(rival)) = (pair.outcomes.first(), pair.fastest_rival()) else {
            continue;
        };
        let (ours_ns, rival_ns) = (digits(ours.median_ns), digits(rival.median_ns));
        let _ = writeln!(
            text,
            "| [`{}`](#{}) | {} | {ours_ns} | {} | {rival_ns} | {} |",
            pair.id,
            anchor(pair.id),
            ours.name,
            rival.name,
            ratio(rival),
        );
    }
    text
}

/// The pairs, each with its heading, its table and its verdict.
#[must_use]
pub fn tables(pairs: &[Pair]) -> String {
    pairs.iter().fold(String::new(), |text, pair| text + &section(pair))
}

fn section(pair: &Pair) -> String {
    let Pair { id, what, operation, outcomes, verdict } = pair;
    let mut text = format!("\n### {id}\n\n{}\n\n", wrapped(what));
    let _ =
        writeln!(text, "| case | ns per {operation} | fastest..slowest | time, ours = 1 [95 %] |");
    text += "| :--- | ---: | ---: | ---: |\n";
    for (at, outcome) in outcomes.iter().enumerate() {
        let [ns, min, max] = [outcome.median_ns, outcome.min_ns, outcome.max_ns].map(digits);
        let ratio = if at == 0 { "1".to_owned() } else { ratio(outcome) };
        let _ = writeln!(text, "| {} | {ns} | {min}..{max} | {ratio} |", outcome.name);
    }
    let _ = writeln!(text, "\n{}", wrapped(verdict));
    text
}

fn ratio(outcome: &Outcome) -> String {
    let [middle, low, high] = [outcome.ratio, outcome.ratio_low, outcome.ratio_high].map(digits);
    let tail = match outcome.verdict(MIN_EFFECT) {
        Verdict::CannotTell => ", cannot tell",
        Verdict::Faster | Verdict::Slower => "",
    };
    format!("{middle} [{low}..{high}]{tail}")
}

/// A figure with as many digits as mean something.
fn digits(value: f64) -> String {
    match value {
        value if value >= 1_000.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// The part of an address that leads to a heading.
fn anchor(heading: &str) -> String {
    heading.chars().filter(|letter| *letter != '/').collect()
}

/// Words in lines of a document's length.
fn wrapped(text: &str) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > COLUMNS {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::Meaning;

    fn outcome(name: &str, ns: f64) -> Outcome {
        Outcome {
            name: name.to_owned(),
            rounds: 7,
            median_ns: ns,
            min_ns: ns,
            max_ns: ns,
            ratio: ns / 2.0,
            ratio_low: ns / 2.0,
            ratio_high: ns / 2.0,
        }
    }

    fn origin() -> Origin {
        Origin {
            machine: "a test".into(),
            date: "2026-01-02".into(),
            rustc: "1.2.3".into(),
            load: "0.1".into(),
        }
    }

    fn pair() -> Pair {
        let meaning = Meaning { rival: None, faster: "it stays", slower: "s", level: "l" };
        let outcomes = vec![outcome("ours", 2.0), outcome("same", 2.0), outcome("theirs", 5.0)];
        Pair::new("kind/one", "Work.", "step", outcomes, &meaning)
    }

    #[test]
    fn a_section_has_the_table_and_the_verdict() {
        let expected = "
### kind/one

Work.

| case | ns per step | fastest..slowest | time, ours = 1 [95 %] |
| :--- | ---: | ---: | ---: |
| ours | 2.00 | 2.00..2.00 | 1 |
| same | 2.00 | 2.00..2.00 | 1.00 [1.00..1.00], cannot tell |
| theirs | 5.00 | 5.00..5.00 | 2.50 [2.50..2.50] |

No difference that can be told beside same: l.
";
        assert_eq!(tables(&[pair()]), expected);
    }

    #[test]
    fn the_document_says_where_its_figures_are_from() {
        let text = markdown(&origin(), &[pair()]);
        for part in [
            "2026-01-02",
            "a test",
            "rustc 1.2.3",
            "| [`kind/one`](#kindone) | ours | 2.00 | same |",
        ] {
            assert!(text.contains(part), "{part} is missing:\n{text}");
        }
    }

    #[test]
    fn the_sheet_has_every_case() {
        let sheet: serde_json::Value = serde_json::from_str(&json(&origin(), &[pair()])).unwrap();
        assert_eq!(sheet["pairs"][0]["id"], "kind/one");
        assert_eq!(sheet["pairs"][0]["cases"][2]["ratio"], 2.5);
        assert_eq!(sheet["pairs"][0]["cases"].as_array().unwrap().len(), 3);
    }

    #[test]
    fn a_group_that_is_measured_again_leaves_the_others_as_they_are() {
        let old = Origin { machine: "old".into(), ..origin() };
        let other = Pair { id: "other/one", ..pair() };
        let known = json(&old, &[other, Pair { id: "kind/gone", ..pair() }]);
        let both = json_beside(&known, &origin(), &[pair()]).unwrap();
        let sheet: serde_json::Value = serde_json::from_str(&both).unwrap();
        let machine = |value: &serde_json::Value| value["machine"].as_str().map(str::to_owned);
        let said: Vec<_> = sheet["pairs"].as_array().unwrap().iter().map(machine).collect();
        assert_eq!(
            (machine(&sheet), said),
            (Some("old".into()), vec![None, Some("a test".into())])
        );
        assert_eq!(sheet["pairs"][1]["id"], "kind/one");
        assert_eq!(json_beside(&both, &origin(), &[pair()]).unwrap(), both, "again the same");
        assert!(json_beside("no sheet", &origin(), &[pair()]).is_err());
    }

    #[test]
    fn long_text_is_cut_between_words() {
        let text = "word ".repeat(60);
        let lines: Vec<String> = wrapped(&text).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= COLUMNS && !line.ends_with(' ')));
        assert_eq!(lines.join(" "), text.trim());
    }
}
