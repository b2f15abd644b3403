//! The command line of `weir pace`: one definition gives parser, help and checks.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use gate_pacing::Strategy;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::day::{Auction, Notices};
use super::make::{Size, SizeError};
use super::report::{self, Cell};
use super::run_cells::{self, Case, Entrants, Source};
use super::run_engine::{RunError, Settings};
use super::scenario::Scenario;
use super::trace::{Trace, TraceError};
use crate::stdio::{self, StdioError, StdioOptions};

/// Most days of a scenario in one run.
const SEEDS_MAX: i64 = 1000;
/// Days that are in memory at once; one of 1.2 million requests takes some 300 MB with what is known in hindsight.
const THREADS_MAX: usize = 2;
/// A billing file is complete up to this long before it comes.
const RECONCILE_AFTER_S: u32 = 600;

const EXAMPLES: &str = "\
Examples:
  weir pace                                       every strategy on one day, second price
  weir pace --auction both --seeds 3 --scenario all --json > pacing.json
  weir pace --strategy curve,steer --scenario outage --course outage.csv
  weir pace --strategy curve --notices wins --reconcile 15m
  weir pace --trace yesterday.jsonl --strategy curve    what would this plan have done?
  weir pace --stdio --strategy curve < simulator.txt

Figures of a strategy:
  overspend    above any budget, micros; the worst campaign and day
  utilisation  spent of the budget
  MAD          mean absolute deviation from the plan, as a share of the budget
  max dev      largest deviation of the day, of the median campaign
  of bound     value won, of the most that anybody could have won who knew the whole day
  of fixed     value won, of what the best fixed bid multipliers in hindsight win
  ROI          value won for each unit spent
  recovery     minutes from the end of an outage or spike until the plan is kept within 1 % for an hour
Utilisation, MAD and max dev are of the campaigns that must be paced: others cannot spend their budgets.

Exit codes: 0 every budget was kept, 1 one was not or something failed, 2 wrong usage or input. Ctrl-C ends it.";

/// Simulate pacing: the real strategies and the real ledger on a day of traffic.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PaceArgs {
    /// Strategies, separated by commas; `fixed` are the best fixed bid multipliers in hindsight.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES", default_value = "all")]
    strategy: Vec<Entrant>,
    /// Unusual events of the day, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES", default_value = "base",
          value_parser = PossibleValuesParser::new(scenario_names()))]
    scenario: Vec<String>,
    /// What the winner pays: the highest outside bid, or its own.
    #[arg(long, value_enum, default_value = "second")]
    auction: AuctionArg,
    /// How many days of each scenario; the same seed gives the same day.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX.unsigned_abs()))]
    seeds: u64,
    /// Seed of the first day.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Requests of a day.
    #[arg(long, value_name = "N", default_value_t = Size::default().requests)]
    requests: u32,
    /// Campaigns of a day.
    #[arg(long, value_name = "N", default_value_t = Size::default().campaigns)]
    campaigns: u16,
    /// How often a billing file comes.
    #[arg(long, value_enum, default_value = "1h")]
    reconcile: Reconcile,
    /// What the exchange tells of bids.
    #[arg(long, value_enum, default_value = "both")]
    notices: NoticesArg,
    /// Whose offer goes first where several campaigns want a request: as `openrtb.rank`.
    #[arg(long, value_enum, default_value = "bid")]
    rank: RankArg,
    /// How hard a campaign is pulled to its plan: a deviation of 1/K of the budget changes the bid by a factor of e.
    #[arg(long, value_name = "K", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=512))]
    gain: u32,
    /// Workers of the node; answers should not depend on it.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=16))]
    workers: u16,
    /// The amount that may be spent in spite of bids that nobody spoke of, millionths of the budget.
    #[arg(long, value_name = "PPM", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    tolerance_ppm: u32,
    /// What becomes of bids that nobody spoke of in time.
    #[arg(long, value_enum, default_value = "hold")]
    on_expiry: OnExpiryArg,
    /// One JSON object: settings, every run, means over seeds.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// CSV, one line per run.
    #[arg(long)]
    csv: bool,
    /// Also write the course of the day into this CSV file, one row per strategy and minute: spent and planned, as shares of the
    /// budget, and the mean deviation from the plan; means over seeds and campaigns.
    #[arg(long, value_name = "FILE.csv")]
    course: Option<PathBuf>,
    /// Your own traffic and campaigns, one JSON object per line, instead of made-up days.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scenario", "seeds", "seed", "requests", "campaigns"])]
    trace: Option<PathBuf>,
    /// Be driven by an outside simulator: text lines on standard input and output. Needs one strategy, `auto` by default.
    #[arg(long, conflicts_with_all = ["trace", "scenario", "auction", "seeds", "seed", "requests", "campaigns",
          "reconcile", "notices", "on_expiry", "json", "csv", "course"])]
    stdio: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Entrant {
    All,
    Fixed,
    Asap,
    Schedule,
    Coin,
    Curve,
    Steer,
    Auto,
}

impl Entrant {
    /// The strategy, if it is one.
    fn strategy(self) -> Option<Strategy> {
        match self {
            Entrant::All | Entrant::Fixed => None,
            Entrant::Asap => Some(Strategy::Asap),
            Entrant::Schedule => Some(Strategy::Schedule),
            Entrant::Coin => Some(Strategy::Coin),
            Entrant::Curve => Some(Strategy::Curve),
            Entrant::Steer => Some(Strategy::Steer),
            Entrant::Auto => Some(Strategy::Auto),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RankArg {
    /// The highest bid
    Bid,
    /// The highest value times the third power of the bid
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnExpiryArg {
    /// They are kept until they are reconciled: no budget is overspent
    Hold,
    /// They are free again at once, and a bill that comes later is a debt
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AuctionArg {
    /// The highest outside bid.
    Second,
    /// Its own bid.
    First,
    /// Days of both.
    Both,
}

impl AuctionArg {
    fn auctions(self) -> &'static [Auction] {
        match self {
            AuctionArg::Second => &[Auction::Second],
            AuctionArg::First => &[Auction::First],
            AuctionArg::Both => &Auction::ALL,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reconcile {
    #[value(name = "15m")]
    Quarter,
    #[value(name = "1h")]
    Hour,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NoticesArg {
    /// Wins and losses.
    Both,
    /// Wins only: a silent exchange.
    Wins,
    /// Nothing: only the billing file tells.
    None,
}

impl NoticesArg {
    /// With what is usual for the rest: up to a minute late, 5 % lost.
    fn notices(self, reconcile: Reconcile) -> Notices {
        let usual = Notices::default();
        Notices {
            losses: self == NoticesArg::Both,
            lost_ppm: if self == NoticesArg::None { 1_000_000 } else { usual.lost_ppm },
            reconcile_every_s: match reconcile {
                Reconcile::Quarter => 900,
                Reconcile::Hour => 3600,
                Reconcile::Never => 0,
            },
            reconcile_after_s: RECONCILE_AFTER_S,
            ..usual
        }
    }
}

/// Why `weir pace` did not do what it was asked. Every text says what, where, and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum PaceError {
    /// Arguments that do not fit each other.
    #[error("{0}")]
    Usage(String),
    /// A size that no day has.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// A trace that cannot be used: all that is wrong with it.
    #[error("the trace has {} error(s)\n{}", .0.len(), lines(.0))]
    Trace(Vec<TraceError>),
    /// A day that cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What an outside simulator said cannot be used.
    #[error(transparent)]
    Stdio(#[from] StdioError),
    /// A file cannot be written.
    #[error("{path}: {source}; is there room, and may you write there?")]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A promise was broken in a run: figures are printed before.
    #[error("{0}")]
    Broken(String),
}

fn lines(errors: &[TraceError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl PaceError {
    /// 2 for what was asked wrongly, 1 for what went wrong.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            PaceError::Usage(_) | PaceError::Size(_) | PaceError::Trace(_) => ExitCode::from(2),
            PaceError::Stdio(error) => error.exit_code(),
            PaceError::Run(_) | PaceError::Write { .. } | PaceError::Broken(_) => ExitCode::FAILURE,
        }
    }
}

/// Does what the arguments say, on standard output.
///
/// # Errors
/// [`PaceError`]; [`PaceError::exit_code`] is what to exit with.
pub fn run(args: &PaceArgs) -> Result<ExitCode, PaceError> {
    if args.stdio {
        return converse(args);
    }
    simulate(args, &mut io::stdout().lock())
}

fn converse(args: &PaceArgs) -> Result<ExitCode, PaceError> {
    let strategy = match args.strategy.as_slice() {
        [Entrant::All] => Strategy::Auto,
        [one] if one.strategy().is_some() => one.strategy().unwrap_or_default(),
        _ => {
            let text = "--stdio runs one strategy, expected --strategy asap, schedule, coin, curve, steer or auto";
            return Err(PaceError::Usage(text.into()));
        }
    };
    let options = StdioOptions {
        strategy,
        workers: args.workers,
        gain: args.gain,
        tolerance_ppm: args.tolerance_ppm,
        rank: args.engine().rank(),
    };
    let said = stdio::run(io::stdin().lock(), BufWriter::new(io::stdout().lock()), &options)?;
    if let Some(silence) = said.silence {
        // Who closed standard error does not want to know.
        let _ = writeln!(io::stderr(), "weir: not one request could be bid on: {silence}");
    }
    Ok(ExitCode::SUCCESS)
}

fn simulate(args: &PaceArgs, out: &mut dyn Write) -> Result<ExitCode, PaceError> {
    let entrants = args.entrants();
    let trace = args.trace.as_deref().map(read_trace).transpose()?;
    let cases = args.cases(trace.as_ref())?;
    let progress = progress(cases.len() * run_cells::runs(&entrants));
    let cells = run_cells::run_all(&cases, &entrants, THREADS_MAX, &|| progress.inc(1))?;
    progress.finish_and_clear();
    if let Some(path) = &args.course {
        let written = fs::File::create(path).and_then(|mut file| report::course(&cells, &mut file));
        written.map_err(|source| PaceError::Write { path: path.clone(), source })?;
    }
    // A reader that went away (`| head`) is no failure.
    let _ = match (args.json, args.csv) {
        (true, _) => report::json(&args.settings(), &cells, out),
        (_, true) => report::csv(&cells, out),
        _ => write!(out, "{}", report::table(&cells)),
    };
    kept_promises(&cells, &entrants)
}

fn read_trace(path: &Path) -> Result<Trace, PaceError> {
    let trace = Trace::read(path).map_err(PaceError::Trace)?;
    for warning in trace.warnings() {
        let _ = writeln!(io::stderr(), "note: {warning}");
    }
    Ok(trace)
}

/// What must hold of every run, whatever happens: no budget overspent, nothing unbooked once everything was billed. Who
/// gives expired bids back was promised nothing about overspend.
fn kept_promises(cells: &[Cell], entrants: &Entrants) -> Result<ExitCode, PaceError> {
    let Settings { tolerance_ppm, release, .. } = entrants.settings;
    let tolerated = if release { u64::MAX } else { u64::from(tolerance_ppm) };
    let billed = entrants.notices.reconcile_every_s > 0;
    let broken = cells.iter().filter(|cell| {
        let measures = &cell.measures;
        measures.overspend.ppm > tolerated || billed && measures.unbooked_micros != 0
    });
    let broken: Vec<String> = broken
        .map(|cell| {
            format!(
                "{} price, {}, seed {}, {}: {} micros above a budget, {} micros not in the books",
                cell.auction.name(),
                cell.scenario,
                cell.seed.map_or("-".into(), |seed| seed.to_string()),
                cell.strategy,
                cell.measures.overspend.micros,
                cell.measures.unbooked_micros
            )
        })
        .collect();
    match broken.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(PaceError::Broken(broken.join("\n"))),
    }
}

/// On standard error, if that is a terminal.
fn progress(runs: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(runs as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A panel a scenario and auction, means over seeds.
fn scenario_names() -> Vec<&'static str> {
    Scenario::ALL.iter().map(|scenario| scenario.name).chain(["all"]).collect()
}

/// What JSON says of how figures came about.
#[derive(Serialize)]
struct Described<'a> {
    version: &'static str,
    trace: Option<&'a Path>,
    notices_losses: bool,
    notices_late_s_max: u32,
    notices_lost_ppm: u32,
    reconcile_every_s: u32,
    reconcile_after_s: u32,
    #[serde(flatten)]
    engine: Settings,
}

impl PaceArgs {
    fn settings(&self) -> Described<'_> {
        let notices = self.notices.notices(self.reconcile);
        Described {
            version: env!("CARGO_PKG_VERSION"),
            trace: self.trace.as_deref(),
            notices_losses: notices.losses,
            notices_late_s_max: notices.late_s_max,
            notices_lost_ppm: notices.lost_ppm,
            reconcile_every_s: notices.reconcile_every_s,
            reconcile_after_s: notices.reconcile_after_s,
            engine: self.engine(),
        }
    }

    fn engine(&self) -> Settings {
        Settings {
            gain: self.gain,
            workers: self.workers,
            tolerance_ppm: self.tolerance_ppm,
            release: self.on_expiry == OnExpiryArg::Release,
            by_value: self.rank == RankArg::Value,
        }
    }

    fn entrants(&self) -> Entrants {
        let all = self.strategy.contains(&Entrant::All);
        let named = |strategy: &Strategy| {
            all || self.strategy.iter().any(|entrant| entrant.strategy() == Some(*strategy))
        };
        Entrants {
            strategies: Strategy::ALL.into_iter().filter(named).collect(),
            fixed: all || self.strategy.contains(&Entrant::Fixed),
            settings: self.engine(),
            notices: self.notices.notices(self.reconcile),
        }
    }

    /// In the order of reports: scenarios, then auctions, then seeds.
    fn cases<'a>(&self, trace: Option<&'a Trace>) -> Result<Vec<Case<'a>>, PaceError> {
        let auctions = self.auction.auctions();
        if let Some(trace) = trace {
            let source = Source::Trace(trace);
            return Ok(auctions.iter().map(|&auction| Case { source, auction }).collect());
        }
        let size = Size { requests: self.requests, campaigns: self.campaigns }.checked()?;
        let all = self.scenario.iter().any(|name| name == "all");
        let named =
            |scenario: &&Scenario| all || self.scenario.iter().any(|name| name == scenario.name);
        let mut cases = Vec::new();
        for scenario in Scenario::ALL.iter().filter(named) {
            for &auction in auctions {
                let seeds = (0..self.seeds).map(|more| self.seed.wrapping_add(more));
                let source = |seed| Source::Made { scenario, seed, size };
                cases.extend(seeds.map(|seed| Case { source: source(seed), auction }));
            }
        }
        Ok(cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: PaceArgs,
    }

    fn args(text: &str) -> Result<PaceArgs, String> {
        let words = std::iter::once("pace").chain(text.split_whitespace());
        Cli::try_parse_from(words).map(|cli| cli.args).map_err(|error| error.to_string())
    }

    fn refused(text: &str) -> String {
        args(text).expect_err(text)
    }

    #[test]
    fn by_default_every_strategy_runs_on_one_usual_day() {
        let args = args("").unwrap();
        let entrants = args.entrants();
        assert!(entrants.fixed);
        assert_eq!(entrants.strategies, Strategy::ALL);
        assert_eq!(entrants.notices, Notices::default());
        assert_eq!(args.cases(None).unwrap().len(), 1);
    }

    #[test]
    fn cases_are_scenarios_then_auctions_then_seeds() {
        let args = args("--scenario tiny,base --auction both --seeds 2 --seed 7").unwrap();
        let cases = args.cases(None).unwrap();
        let found: Vec<_> = cases
            .iter()
            .map(|case| match case.source {
                Source::Made { scenario, seed, .. } => (scenario.name, case.auction.name(), seed),
                Source::Trace(_) => unreachable!("no trace was given"),
            })
            .collect();
        let expected = [
            ("base", "second", 7),
            ("base", "second", 8),
            ("base", "first", 7),
            ("base", "first", 8),
        ];
        assert_eq!(found[..4], expected);
        assert_eq!((found.len(), found[4].0), (8, "tiny"));
    }

    #[test]
    fn notices_and_billing_files_are_as_asked() {
        let notices = |text| args(text).unwrap().entrants().notices;
        assert_eq!(notices("--reconcile 15m").reconcile_every_s, 900);
        assert_eq!(notices("--reconcile never").reconcile_every_s, 0);
        assert!(!notices("--notices wins").losses);
        assert_eq!(notices("--notices none").lost_ppm, 1_000_000);
    }

    #[test]
    fn errors_say_what_was_expected() {
        assert!(refused("--strategy best").contains("asap, schedule, coin, curve, steer, auto"));
        assert!(refused("--scenario sunny").contains("forecast+40"));
        assert!(refused("--reconcile 5m").contains("15m, 1h, never"));
        assert!(refused("--gain 4").contains("8..=512"));
        assert!(refused("--workers 17").contains("1..=16"));
        assert!(refused("--json --csv").contains("cannot be used with"));
        assert!(refused("--trace day.jsonl --scenario tiny").contains("cannot be used with"));
        assert!(refused("--stdio --json").contains("cannot be used with"));
        let error = args("--requests 0").unwrap().cases(None).unwrap_err();
        assert!(matches!(error, PaceError::Size(_)), "{error}");
        let error = converse(&args("--stdio --strategy curve,steer").unwrap()).unwrap_err();
        assert!(
            matches!(&error, PaceError::Usage(text) if text.contains("one strategy")),
            "{error}"
        );
    }

    #[test]
    fn a_trace_that_is_not_there_is_wrong_input() {
        let args = args("--trace no-such-folder/day.jsonl").unwrap();
        let error = simulate(&args, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("no-such-folder/day.jsonl"), "{error}");
        assert_eq!(format!("{:?}", error.exit_code()), format!("{:?}", ExitCode::from(2)));
    }

    #[test]
    fn a_broken_promise_fails_the_command() {
        let args = args("--strategy curve --requests 2000 --campaigns 2").unwrap();
        let mut cells =
            run_cells::run_all(&args.cases(None).unwrap(), &args.entrants(), 1, &|| {}).unwrap();
        assert!(kept_promises(&cells, &args.entrants()).is_ok());
        cells[0].measures.unbooked_micros = 5;
        let error = kept_promises(&cells, &args.entrants()).unwrap_err().to_string();
        assert!(
            error.contains("base, seed 1, curve") && error.contains("5 micros not in"),
            "{error}"
        );
        cells[0].measures.unbooked_micros = 0;
        cells[0].measures.overspend.ppm = 1;
        assert!(kept_promises(&cells, &args.entrants()).is_err());
    }
}
