//! Two builds against each other by the clock, on a machine that is shared.
//!
//! Both binaries are this program, built from two revisions. Each round runs both once for each workload, in an order drawn
//! anew, each run in a fresh process with an environment of another size: where stack and heap begin, which alone can be
//! worth some percent, is drawn again and again instead of once. What is compared is the ratio within a round; see
//! [`probe::compare`]. Code does not move within a binary: a difference of 1 or 2 % between two builds may be nothing but
//! its layout.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use probe::Watch;
use probe::compare::{MIN_EFFECT, Outcome, Random, Verdict};

use crate::workload::Name;

/// Seed of orders and paddings: two runs differ by the machine only.
const SEED: u64 = 0xab;
/// The environment grows by less than this, bytes: one page, so that the stack begins anywhere in it.
const PADDING_MAX: usize = 4_096;
/// The variable that makes the environment larger.
const PADDING: &str = "INSTRUCTIONS_AB_PADDING";

/// What `ab` is asked.
#[derive(Clone, Debug, clap::Args)]
pub struct AbOptions {
    /// This program, built from the revision to compare with
    #[arg(long, value_name = "PATH")]
    pub base: PathBuf,
    /// This program, built from the revision that is judged
    #[arg(long, value_name = "PATH")]
    pub head: PathBuf,
    /// Rounds; each runs both programs once for each workload
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// Only this workload; may be repeated [default: all]
    #[arg(long = "workload", value_name = "NAME")]
    pub workloads: Vec<Name>,
}

/// What `ab-rates` is asked.
#[derive(Clone, Debug, clap::Args)]
pub struct RatesOptions {
    /// Comparisons of each kind
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    pub comparisons: u16,
    /// Rounds of a comparison
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// The workload
    #[arg(long, value_name = "NAME", default_value = "codec")]
    pub workload: Name,
    /// Slowdowns to plant, percent more instructions; may be repeated [default: 1, 3]
    #[arg(long = "plant", value_name = "PERCENT")]
    pub plants: Vec<f64>,
}

/// Why two builds could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum AbError {
    /// A program could not be started.
    #[error("{path} cannot be started: {source}; give the path of a built `instructions`")]
    Start {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A run ended badly.
    #[error("`{path} {arguments}` ended with {status}: {said}")]
    Failed {
        /// Which program.
        path: PathBuf,
        /// How it was called.
        arguments: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it wrote on its way out.
        said: String,
    },
    /// A run printed something else than a time.
    #[error(
        "`{path} {arguments}` printed {printed:?}, not the ns of an operation; both programs must be `instructions`"
    )]
    NoTime {
        /// Which program.
        path: PathBuf,
        /// How it was called.
        arguments: String,
        /// What it printed.
        printed: String,
    },
}

/// One way to run a workload.
#[derive(Clone, Copy, Debug)]
struct TimedRun<'a> {
    program: &'a Path,
    workload: Name,
    plant_percent: f64,
}

/// The times of some runs, by run and round, and the rounds in which time was stolen.
struct Samples {
    ns: Vec<Vec<f64>>,
    stolen: Vec<usize>,
}

/// How the head stands to the base.
#[derive(Clone, Debug)]
pub struct Report {
    lines: Vec<ComparedLine>,
    rounds: usize,
    stolen: Vec<usize>,
}

/// The median of the ratios of all rounds, and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// Of head to base: above 1 the head is slower.
    pub ratio: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

#[derive(Clone, Debug)]
struct ComparedLine {
    workload: Name,
    base: Outcome,
    head: Outcome,
}

/// How often the comparison was right about what was planted. Displays as a Markdown table.
#[derive(Clone, Debug)]
pub struct ClockRates {
    workload: Name,
    comparisons: usize,
    rounds: usize,
    stolen: usize,
    lines: Vec<Rate>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rate {
    plant_percent: f64,
    /// Over all rounds of all comparisons.
    ratio: Outcome,
    slower: usize,
    faster: usize,
}

/// Compares two builds.
///
/// # Errors
/// One of them cannot be run, or is not this program.
pub fn compare(options: &AbOptions) -> Result<Report, AbError> {
    let workloads = if options.workloads.is_empty() { Name::ALL } else { &options.workloads[..] };
    let runs: Vec<TimedRun<'_>> = workloads
        .iter()
        .flat_map(|workload| [&options.base, &options.head].map(|program| (program, *workload)))
        .map(|(program, workload)| TimedRun { program, workload, plant_percent: 0.0 })
        .collect();
    let rounds = usize::from(options.rounds);
    let samples = sample(&runs, rounds, time_ns)?;
    let lines = workloads.iter().zip(samples.ns.chunks(2)).map(|(workload, ns)| ComparedLine {
        workload: *workload,
        base: Outcome::of("base", &ns[0], &ns[0]),
        head: Outcome::of("head", &ns[1], &ns[0]),
    });
    Ok(Report { lines: lines.collect(), rounds, stolen: samples.stolen })
}

/// Compares a program with itself, and with itself made slower, many times.
///
/// # Errors
/// The program cannot be run.
pub fn rates(program: &Path, options: &RatesOptions) -> Result<ClockRates, AbError> {
    let plants = if options.plants.is_empty() { vec![1.0, 3.0] } else { options.plants.clone() };
    let plants: Vec<f64> = [0.0].into_iter().chain(plants).collect();
    // The first run is what all others are compared with; the second is the same once more.
    let variants = [0.0].iter().chain(&plants);
    let runs: Vec<TimedRun<'_>> = variants
        .map(|percent| TimedRun { program, workload: options.workload, plant_percent: *percent })
        .collect();
    let (comparisons, rounds) = (usize::from(options.comparisons), usize::from(options.rounds));
    let samples = sample(&runs, comparisons * rounds, time_ns)?;
    let lines = plants.iter().zip(&samples.ns[1..]);
    Ok(ClockRates {
        workload: options.workload,
        comparisons,
        rounds,
        stolen: samples.stolen.len(),
        lines: lines.map(|(plant, ns)| Rate::of(*plant, ns, &samples.ns[0], rounds)).collect(),
    })
}

impl Rate {
    /// Takes so many rounds after the other as a comparison of their own.
    fn of(plant_percent: f64, own_ns: &[f64], first_ns: &[f64], rounds: usize) -> Rate {
        let comparisons = own_ns.chunks(rounds).zip(first_ns.chunks(rounds));
        let verdicts: Vec<Verdict> = comparisons
            .map(|(own, first)| Outcome::of("planted", own, first).verdict(MIN_EFFECT))
            .collect();
        let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        Rate {
            plant_percent,
            ratio: Outcome::of("planted", own_ns, first_ns),
            slower: count(Verdict::Slower),
            faster: count(Verdict::Faster),
        }
    }
}

/// Runs every run once per round, in an order and with an environment drawn anew.
fn sample(
    runs: &[TimedRun<'_>],
    rounds: usize,
    mut time_ns: impl FnMut(&TimedRun<'_>, usize) -> Result<f64, AbError>,
) -> Result<Samples, AbError> {
    let mut random = Random::new(SEED);
    let mut samples = Samples { ns: vec![Vec::with_capacity(rounds); runs.len()], stolen: vec![] };
    for round in 1..=rounds {
        let watch = Watch::start();
        for at in random.order(runs.len()) {
            let padding = random.below(PADDING_MAX);
            samples.ns[at].push(time_ns(&runs[at], padding)?);
        }
        // What this process lost its core for is no matter: the others are measured.
        if watch.marks().stolen_ms > 0 {
            samples.stolen.push(round);
        }
    }
    Ok(samples)
}

/// One run in a process of its own: ns per operation.
fn time_ns(run: &TimedRun<'_>, padding: usize) -> Result<f64, AbError> {
    let path = run.program;
    let arguments = run.arguments();
    let output = Command::new(path)
        .args(&arguments)
        .env(PADDING, "x".repeat(padding))
        .output()
        .map_err(|source| AbError::Start { path: path.to_owned(), source })?;
    read_ns(path, &arguments.join(" "), &output)
}

impl TimedRun<'_> {
    /// A build that knows of no plants runs without one.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["time".to_owned(), self.workload.as_str().to_owned()];
        if self.plant_percent > 0.0 {
            arguments.extend(["--plant".to_owned(), self.plant_percent.to_string()]);
        }
        arguments
    }
}

fn read_ns(path: &Path, arguments: &str, output: &Output) -> Result<f64, AbError> {
    let (path, arguments) = (path.to_owned(), arguments.to_owned());
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(AbError::Failed { path, arguments, status: output.status, said });
    }
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match printed.parse::<f64>() {
        Ok(ns) if ns.is_finite() && ns > 0.0 => Ok(ns),
        _ => Err(AbError::NoTime { path, arguments, printed }),
    }
}

impl Report {
    /// Every workload with the ratio of head to base and its interval.
    pub fn ratios(&self) -> impl Iterator<Item = (Name, Interval)> {
        self.lines.iter().map(|line| {
            let Outcome { ratio, ratio_low: low, ratio_high: high, .. } = line.head;
            (line.workload, Interval { ratio, low, high })
        })
    }

    /// Workloads of which the head is slower, as far as can be told.
    pub fn slower(&self) -> impl Iterator<Item = Name> {
        let slower = |line: &&ComparedLine| line.head.verdict(MIN_EFFECT) == Verdict::Slower;
        self.lines.iter().filter(slower).map(|line| line.workload)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| workload | base, ns | head, ns | head / base [95 %] | |")?;
        writeln!(f, "| :--- | ---: | ---: | ---: | :--- |")?;
        for ComparedLine { workload, base, head } in &self.lines {
            let (name, unit) = (workload.as_str(), workload.unit());
            let (base_ns, head_ns) = (base.median_ns, head.median_ns);
            let told = match head.verdict(MIN_EFFECT) {
                Verdict::Faster => "faster",
                Verdict::Slower => "SLOWER",
                Verdict::CannotTell => "cannot be told from noise",
            };
            let ratio = Ratio(head);
            writeln!(f, "| {name}, per {unit} | {base_ns:.2} | {head_ns:.2} | {ratio} | {told} |")?;
        }
        writeln!(f, "\nOf equal builds, up to one line in 20 is called faster or slower.")?;
        let (stolen, rounds) = (self.stolen.len(), self.rounds);
        writeln!(f, "{rounds} rounds; time was stolen from the machine in {stolen} of them.")?;
        if stolen > 0 {
            writeln!(f, "Stolen from: {:?}.", self.stolen)?;
        }
        Ok(())
    }
}

impl fmt::Display for ClockRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (comparisons, rounds, name) = (self.comparisons, self.rounds, self.workload.as_str());
        let (stolen, all) = (self.stolen, comparisons * rounds);
        writeln!(f, "{comparisons} comparisons of {rounds} rounds, workload {name};")?;
        writeln!(f, "time was stolen from the machine in {stolen} of {all} rounds.\n")?;
        writeln!(
            f,
            "| planted instructions | time, all rounds [95 %] | called slower | called faster |"
        )?;
        writeln!(f, "| ---: | ---: | ---: | ---: |")?;
        for Rate { plant_percent, ratio, slower, faster } in &self.lines {
            let ratio = Ratio(ratio);
            writeln!(
                f,
                "| +{plant_percent} % | {ratio} | {slower} of {comparisons} | {faster} of {comparisons} |"
            )?;
        }
        Ok(())
    }
}

struct Ratio<'a>(&'a Outcome);

impl fmt::Display for Ratio<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { ratio, ratio_low, ratio_high, .. } = self.0;
        write!(f, "{ratio:.3} [{ratio_low:.3}..{ratio_high:.3}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: Name = Name::Table;

    fn run(program: &str, plant_percent: f64) -> TimedRun<'_> {
        TimedRun { program: Path::new(program), workload: WORKLOAD, plant_percent }
    }

    #[test]
    fn every_run_comes_once_a_round_in_changing_order_and_room() {
        let runs = [run("base", 0.0), run("head", 0.0)];
        let (mut order, mut paddings) = (Vec::new(), Vec::new());
        let samples = sample(&runs, 12, |run, padding| {
            order.push(run.program.to_owned());
            paddings.push(padding);
            Ok(if run.program == Path::new("base") { 100.0 } else { 103.0 })
        });
        assert_eq!(samples.unwrap().ns, [vec![100.0; 12], vec![103.0; 12]]);
        let first: Vec<&Path> = order.chunks(2).map(|round| round[0].as_path()).collect();
        assert!(first.contains(&Path::new("base")) && first.contains(&Path::new("head")));
        paddings.sort_unstable();
        paddings.dedup();
        assert!(paddings.len() > 12 && paddings.iter().all(|padding| *padding < PADDING_MAX));
    }

    #[test]
    fn a_plant_is_handed_on_and_none_is_not() {
        assert_eq!(run("x", 0.0).arguments(), ["time", "table"]);
        assert_eq!(run("x", 1.5).arguments(), ["time", "table", "--plant", "1.5"]);
    }

    #[test]
    fn rates_count_comparisons() {
        let first = [100.0; 15];
        let own: Vec<f64> = [[100.0; 5], [103.0; 5], [97.0; 5]].concat();
        let rate = Rate::of(3.0, &own, &first, 5);
        assert_eq!((rate.slower, rate.faster, rate.ratio.rounds), (1, 1, 15));
    }

    #[test]
    fn a_report_says_what_can_be_told() {
        let line = |head_ns: f64| ComparedLine {
            workload: WORKLOAD,
            base: Outcome::of("base", &[100.0; 5], &[100.0; 5]),
            head: Outcome::of("head", &[head_ns; 5], &[100.0; 5]),
        };
        let report = Report { lines: vec![line(103.0), line(100.5)], rounds: 5, stolen: vec![2] };
        let text = report.to_string();
        assert!(
            text.contains("| table, per key | 100.00 | 103.00 | 1.030 [1.030..1.030] | SLOWER |")
        );
        assert!(text.contains("| 1.005 [1.005..1.005] | cannot be told from noise |"));
        assert!(text.ends_with("stolen from the machine in 1 of them.\nStolen from: [2].\n"));
        assert_eq!(report.slower().count(), 1);
    }

    #[test]
    fn programs_that_are_not_ours_are_named() {
        let error = |program| time_ns(&run(program, 0.0), 7).unwrap_err();
        assert!(matches!(error("/no/such/program"), AbError::Start { .. }));
        assert!(matches!(error("false"), AbError::Failed { .. }));
        let echoed = error("echo");
        assert!(echoed.to_string().contains("printed \"time table\""), "{echoed}");
    }
}
