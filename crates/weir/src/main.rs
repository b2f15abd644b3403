//! The `weir` binary.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

use admin_client::Options;
use clap::{Args, CommandFactory, Parser, Subcommand};
use door_transport::Transport;
use tikv_jemalloc_ctl::{epoch, stats, thread};
use weir_budgets::orders::{self, OrderTerms};
use weir_budgets::{budgets, campaign_index};
use weir_config::config::{self, Config, ConfigError, Judge};
use weir_config::doors::{ADMIN, DOORS};
use weir_node::certificates::Certificates;
use weir_node::doors::{JUDGES, JUDGES_OF_FILES};
use weir_node::known::{Permits, Rollback};
use weir_node::memory::{Allocator, set_allocator};
use weir_survey::{Node, StartError};
use weir_tools::dev::{Dev, DevArgs};
use weir_tools::door_addresses::DoorAddresses;
use weir_tools::signals::Signals;
use weir_tools::{
    WhichBudget, cluster, costs, fix, journal, profiles, reload, report, sample, sample_campaigns,
    stat, token, vault, why,
};

/// Threads free what others allocated, and a reload frees hundreds of megabytes: the C library's allocator keeps such memory.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The allocator's own figures, which are of the last advance of its epoch.
const FIGURES: Allocator = Allocator {
    in_use: || {
        epoch::advance().ok()?;
        u64::try_from(stats::allocated::read().ok()?).ok()
    },
    of_thread: || {
        let (all, freed) = (thread::allocatedp::read().ok()?, thread::deallocatedp::read().ok()?);
        Some(all.get().wrapping_sub(freed.get()).cast_signed())
    },
};

/// Of the binary, and of the dashboard in it.
static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{}\nui: {}", env!("CARGO_PKG_VERSION"), watch::ui_version()));

/// A real-time spend gate: may I spend this, now?
#[derive(Parser)]
#[command(version = VERSION.as_str(), propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a node until it is stopped with Ctrl-C.
    #[command(
        after_help = "Example: weir run --budgets budgets.jsonl\n\nPrints one line per open door, then `ready`. Ctrl-C stops the node after it has answered what is in flight; a second Ctrl-C stops it at once."
    )]
    Run(RunArgs),
    /// Run a node without any file, to try it: prints the dashboard's address and a curl that can be pasted.
    #[command(
        after_help = "Example: weir dev --budget llm=10.00/USD\n\nThe data go when the node ends, unless --data keeps them. Ctrl-C stops the node."
    )]
    Dev(DevArgs),
    /// Make a running node read its configuration again: tokens and certificates, without a restart.
    #[command(
        after_help = "Example: weir reload --token-file token\n\nThe caller needs the role operate. The command prints what is in force now. If nothing was changed, it prints every reason, and the exit code is 1."
    )]
    Reload(reload::ReloadArgs),
    /// Check the configuration and the budgets without starting a node.
    #[command(
        after_help = "Example: weir check --config weir.toml --budgets budgets.jsonl\n\nPrints every error with its line. The exit code is 0 if there is none, and 1 otherwise."
    )]
    Check(CheckArgs),
    /// Load a node and audit what it promised.
    #[command(
        after_help = "Example: weir hammer --target 127.0.0.1:7700 --duration 10s --connections 8 --depth 8 --batch 10"
    )]
    Hammer(Box<hammer::Args>),
    /// Show the live counters of a running node.
    #[command(
        after_help = "Examples:\n  weir stat --json --budget 1\n  weir stat --budget team-42/gpt-5"
    )]
    Stat(StatArgs),
    /// Show what each abstraction in a running node costs in nanoseconds, beside its alternative.
    #[command(
        after_help = "Examples:\n  weir costs --seconds 10    the node on ./weir-data, over ten seconds\n  weir costs --bench         a node that is started and loaded for this\n\ndocs/measuring.md says what the columns mean."
    )]
    Costs(costs::CostsArgs),
    /// Watch a running node in the terminal: decisions, latency, the top budgets and why they do not spend
    #[command(
        after_help = "Example: weir top --sort pace\n\nA token comes from --token-file or WEIR_TOKEN. With --once, or when standard output is not a terminal, it prints one screen as text."
    )]
    Top(TopArgs),
    /// Show why a campaign does not bid, in counts of a running node or for one request.
    #[command(
        after_help = "Examples:\n  weir why 17                  counters of a running node\n  weir why --request r.json    who would bid on one request, and what stops the others\n  weir why 17 --request r.json every step of one campaign"
    )]
    Why(WhyArgs),
    /// Load users' segments into the profiles of a stopped node.
    #[command(
        after_help = "Example: weir profiles users.csv --data weir-data\n\nLines are user,segment[,segment...]; #HEX in place of a user is a profile's key. A running node takes single changes\nat POST /profiles of its admin door."
    )]
    Profiles(ProfilesArgs),
    /// Simulate pacing: the real strategies and the real ledger on a day of traffic.
    Pace(Box<weir_pace::sim::cli::PaceArgs>),
    /// Inspect, verify, export, audit or repair the journal of a node.
    #[command(after_help = "Example: weir journal verify --data weir-data")]
    Journal(journal::JournalArgs),
    /// Look at FIX sessions and their messages, reset them, log them out, ask for messages again.
    Fix(fix::FixArgs),
    /// Add up impressions, clicks and spend of campaigns, by hour or day, place, creative and country.
    #[command(
        after_help = "Example: weir report --by campaign,day\n\nSums are those of the books. `(unknown)`: bids of an earlier version, or whose names a crash cut off; `(other)`: beyond the caps of\n[reports]."
    )]
    Report(report::ReportArgs),
    /// Unseal the keys of a node, look at them, rotate one, wrap them anew, prove that a copy of them opens.
    Vault(vault::VaultArgs),
    /// Make the log of a cluster on NATS servers, from which another machine takes over.
    Cluster(cluster::ClusterArgs),
    /// Make access tokens for the doors of a node.
    Token(token::TokenArgs),
    /// Print generated budgets for trying out a node.
    #[command(after_help = "Example: weir sample-budgets --count 1000 > budgets.jsonl")]
    SampleBudgets(SampleArgs),
    /// Print generated campaigns for trying out a node.
    #[command(after_help = "Example: weir sample-campaigns --count 50000 --seed 1 > budgets.jsonl")]
    SampleCampaigns(SampleArgs),
    /// Print a generated bid request that fits the sample campaigns.
    #[command(
        after_help = "Example: weir sample-request > request.json\n\nREADME.md has the curl that sends it. Who would bid on it: weir why --request request.json --budgets campaigns.jsonl.\nMany requests, one on each line: --count 100"
    )]
    SampleRequest(SampleRequestArgs),
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    files: Files,
    /// Folder in which the node keeps its data.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    doors: DoorAddresses,
    /// auto, io_uring or epoll.
    #[arg(long)]
    transport: Option<Transport>,
    /// Servers that keep the log, as nats://a:4222,b:4222,c:4222: the node stands by until no other one is the bank of it. Sets cluster.log.
    #[arg(long, value_name = "URL")]
    log: Option<String>,
    /// Begin a new ledger with every limit whole, in a data folder whose journal is gone. Deletes nothing, and does nothing
    /// where a journal exists.
    #[arg(long)]
    new_ledger: bool,
    /// Continue from a journal that ends too early, such as a restored backup. LOST is what the refused start named: both ends of
    /// what is given up, and which loss it is.
    #[arg(long, value_name = "LOST")]
    accept_rollback: Option<Rollback>,
}

#[derive(Args)]
struct Files {
    /// The configuration file; without it every key has its default.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The budgets file: .jsonl or .csv, one budget per line.
    #[arg(long, value_name = "FILE")]
    budgets: Option<PathBuf>,
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    files: Files,
    /// Judge the budgets as the node on this folder would, by its journal and its edits. Only reads, so the node may run.
    /// Without this option the configured folder is used, if it exists.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print the configuration in force, with the meaning of every key.
    #[arg(long)]
    print: bool,
    /// Only print a Markdown table of every key with its default, meaning and range.
    #[arg(long, exclusive = true)]
    keys: bool,
}

#[derive(Args)]
struct TopArgs {
    #[command(flatten)]
    node: Options,
    /// Milliseconds between two updates, at least 200
    #[arg(long, value_name = "MS", default_value_t = 2000)]
    every_ms: u64,
    /// spend, pace, asks, refusals or remaining
    #[arg(long, default_value_t)]
    sort: watch_top::Sort,
    /// Print one screen as text and exit
    #[arg(long)]
    once: bool,
}

#[derive(Args)]
struct StatArgs {
    #[command(flatten)]
    node: Options,
    /// Also print the books of this budget: limit, free, purses, held, expired (of held), settled, over_settled, late,
    /// inferred, unknown_order.
    /// Also its windows: limit, what is used of it (handed out and not given back), what is left, when it ends.
    #[arg(long, value_name = "ID|HANDLE")]
    budget: Option<WhichBudget>,
    /// Print one JSON object; amounts are in base units: micros, nanos for a unit such as USDn, or items.
    #[arg(long)]
    json: bool,
    /// Print a Markdown table of every counter with its family in /metrics and its meaning, and ask no node.
    #[arg(long, exclusive = true)]
    counters: bool,
}

#[derive(Args)]
struct WhyArgs {
    /// Id or handle of the campaign.
    #[arg(value_name = "CAMPAIGN", required_unless_present = "request")]
    campaign: Option<WhichBudget>,
    /// Explain this bid request (JSON) against the campaigns of the file, without a node.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "data", "token_file", "ca"])]
    request: Option<PathBuf>,
    /// With --request: print one line for every campaign.
    #[arg(long, requires = "request")]
    all: bool,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    node: Options,
    /// Print one JSON object.
    #[arg(long, conflicts_with = "request")]
    json: bool,
}

#[derive(Args)]
struct ProfilesArgs {
    /// The file, with one line user,segment[,segment...] per user.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Add to the users' segments instead of replacing them.
    #[arg(long)]
    add: bool,
    /// The node's data folder.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The configuration file; without it every key has its default.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args)]
struct SampleArgs {
    /// Number of lines.
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// The same seed gives the same lines.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
struct SampleRequestArgs {
    /// Number of requests, one on each line.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// The same seed gives the same requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Standard output, which remembers what went wrong with it: what was cut must not look whole.
struct Out {
    failed: Option<io::Error>,
}

impl Out {
    fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done
            && error.kind() != io::ErrorKind::Interrupted
            && self.failed.is_none()
        {
            let system = error.raw_os_error().map(io::Error::from_raw_os_error);
            self.failed = Some(system.unwrap_or_else(|| io::Error::from(error.kind())));
        }
        done
    }

    /// Tells whether an error is that its reader went away (`| head`), which is no failure: a command tells it in whatever words.
    fn is_left(&self, error: &str) -> bool {
        let Some(failed) = &self.failed else { return false };
        failed.kind() == io::ErrorKind::BrokenPipe && error.contains(&failed.to_string())
    }

    /// What is still to be written is written. A reader that went away (`| head`) is no failure.
    fn end(&mut self) -> Result<(), String> {
        let _ = self.flush();
        match self.failed.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(format!("standard output: {error}"))
            }
            _ => Ok(()),
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = io::stdout().write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = io::stdout().flush();
        self.note(flushed)
    }
}

fn main() -> ExitCode {
    set_allocator(FIGURES);
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        weir_tools::usage::explained(error, &Cli::command(), words).exit()
    });
    let command = cli.command;
    let mut out = Out { failed: None };
    // It draws by itself, and a terminal that is gone is no failure: what is left for it may stay unwritten.
    let draws = matches!(command, Command::Top(_));
    // A token that nobody read is not added to its file.
    let must_be_read = matches!(command, Command::Token(_));
    let result = match done(command, &mut out) {
        Err(error) if !must_be_read && out.is_left(&error) => Ok(ExitCode::SUCCESS),
        result => result,
    };
    // A disk that is full says more than what a command makes of it.
    let ended = if draws { Ok(()) } else { out.end() };
    ended.and(result).unwrap_or_else(|error| {
        // A reader that went away (`| head`) is no failure of ours.
        let _ = writeln!(io::stderr(), "weir: {error}");
        ExitCode::FAILURE
    })
}

fn done(command: Command, out: &mut Out) -> Result<ExitCode, String> {
    match command {
        Command::Run(args) => run(args),
        Command::Dev(args) => dev(&args),
        Command::Reload(args) => {
            let reloaded = reload::main(&args, out).map(|()| ExitCode::SUCCESS);
            reloaded.map_err(|error| error.to_string())
        }
        Command::Check(args) => check(&args, out),
        Command::Hammer(args) => hammer(&args, out),
        Command::Stat(args) => show_stat(&args, out),
        Command::Costs(args) => show_costs(&args, out),
        Command::Top(args) => top(&args),
        Command::Why(args) => why(&args, out),
        Command::Profiles(args) => load_profiles(&args, out),
        Command::Pace(args) => Ok(pace(&args)),
        Command::Journal(args) => journal::main(&args, out).map_err(|error| error.to_string()),
        Command::Report(args) => {
            report::main(&args, out).map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
        }
        Command::Fix(args) => {
            let done = fix::main(&args, out, &mut io::stderr()).map(|()| ExitCode::SUCCESS);
            done.map_err(|error| error.to_string())
        }
        Command::Cluster(args) => cluster::main(&args, out).map(|()| ExitCode::SUCCESS),
        Command::Vault(args) => keep_keys(&args, out),
        Command::Token(args) => {
            token::main(&args, &mut io::stdin(), out, &mut io::stderr()).map(|()| ExitCode::SUCCESS)
        }
        Command::SampleBudgets(args) => unless_gone(sample::write(args.count, args.seed, out)),
        Command::SampleCampaigns(args) => {
            unless_gone(sample_campaigns::write(args.count, args.seed, out))
        }
        Command::SampleRequest(args) => {
            unless_gone(hammer::sample_requests(args.count, args.seed, out))
        }
    }
}

/// Sealed keys have an exit code of their own, as with others' tools.
fn keep_keys(args: &vault::VaultArgs, out: &mut Out) -> Result<ExitCode, String> {
    let is_terminal = io::stdin().is_terminal();
    match vault::main(args, (&mut io::stdin(), is_terminal), out) {
        Ok(vault::Found::Well) => Ok(ExitCode::SUCCESS),
        Ok(vault::Found::Sealed) => Ok(ExitCode::from(2)),
        Err(error) => Err(error.to_string()),
    }
}

/// Wrong input has an exit code of its own.
fn pace(args: &weir_pace::sim::cli::PaceArgs) -> ExitCode {
    weir_pace::sim::cli::run(args).unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "weir: {error}");
        error.exit_code()
    })
}

/// A reader that went away (`| head`) is no failure.
fn unless_gone(written: io::Result<()>) -> Result<ExitCode, String> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn load(files: &Files) -> Result<Config, String> {
    read_config(files).map_err(|errors| lines(&errors))
}

fn read_config(files: &Files) -> Result<Config, Vec<ConfigError>> {
    config::load(files.config.as_deref(), config::environment(), JUDGES)
        .map(|config| with_files(files, config))
}

fn with_files(files: &Files, mut config: Config) -> Config {
    if let Some(file) = &files.budgets {
        config.budgets.file.clone_from(file);
    }
    config
}

/// The configuration of a node: with what the command line says.
fn configured(args: &RunArgs) -> Result<Config, Vec<ConfigError>> {
    with_flags(args, read_config(&args.files)?)
}

/// The same again, while it runs: a file that is none any more is refused.
fn configured_again(args: &RunArgs) -> Result<Config, Vec<ConfigError>> {
    let config = config::load_again(args.files.config.as_deref(), config::environment(), JUDGES)?;
    with_flags(args, with_files(&args.files, config))
}

fn with_flags(args: &RunArgs, mut config: Config) -> Result<Config, Vec<ConfigError>> {
    if let Some(data) = &args.data {
        config.node.data_dir.clone_from(data);
    }
    args.doors.apply(&mut config);
    config.transport.kind = args.transport.unwrap_or(config.transport.kind);
    config.check_doors()?;
    if let Some(log) = &args.log {
        config.cluster.log.clone_from(log);
        weir_tools::cluster::judged(&config, args.files.config.as_deref())?;
    }
    Ok(config)
}

fn lines(errors: &[ConfigError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    format!("the configuration has {} error(s)\n{}", errors.len(), lines.join("\n"))
}

/// Puts before each line that begins with a key where the configuration sets it.
fn with_places(file: Option<&Path>, text: &str) -> String {
    let lines = text.lines().map(str::to_owned).collect();
    config::placed(file, config::environment(), lines).join("\n")
}

fn run(args: RunArgs) -> Result<ExitCode, String> {
    let signals = Signals::catch()?.and_hang_up()?;
    let config = configured(&args).map_err(|errors| lines(&errors))?;
    let file = args.files.config.as_deref();
    if let Some(error) = weir_config::warnings::missing_core(&config, file) {
        return Err(lines(&[error]));
    }
    if let Some(file) = &args.files.budgets
        && !file.exists()
    {
        return Err(format!("the budgets file {} does not exist", file.display()));
    }
    log_to_stderr(&config.log.level);
    let names = weir_config::environment::warnings(config::environment());
    let keys = weir_config::warnings::warnings(&config);
    let unread = weir_config::warnings::unread_file(args.files.config.as_deref());
    for warning in names.iter().map(ToString::to_string).chain(keys).chain(unread) {
        tracing::warn!("{warning}");
    }
    let permits = Permits { new_ledger: args.new_ledger, accept_rollback: args.accept_rollback };
    let texts = |errors: Vec<ConfigError>| errors.iter().map(ToString::to_string).collect();
    let (file, args) = (args.files.config.clone(), Arc::new(args));
    let source = || -> weir_survey::ConfigSource {
        let args = Arc::clone(&args);
        Box::new(move || configured_again(&args).map_err(texts))
    };
    let of_start = (&config, permits, weir_docs::PAGES);
    let node = cluster::begin(of_start, &source, &|| signals.is_stop(), &say);
    let told = |error: StartError| with_places(file.as_deref(), &error.to_string());
    let Some(node) = node.map_err(told)? else { return Ok(ExitCode::SUCCESS) };
    let unused = |name: &str| {
        DOORS.iter().any(|door| door.name == name && (door.listen)(&config).is_unused())
    };
    for (door, address) in node.addresses().filter(|(door, _)| *door != ADMIN.name && !unused(door))
    {
        let place = address.map_or_else(|| "off".into(), |address| address.to_string());
        say(&format!("{door} {place}"));
    }
    let admin = format!("{}://{}/", config.admin_scheme(), node.address(ADMIN.name));
    say(&format!("admin {admin}"));
    say(&format!("dashboard {admin}ui/"));
    say("ready");
    serve(node, &signals)
}

fn dev(args: &DevArgs) -> Result<ExitCode, String> {
    let signals = Signals::catch()?.and_hang_up()?;
    log_to_stderr("warn");
    let dev = Dev::new(args)?;
    let config = dev.config.clone();
    let source = Box::new(move || Ok(config.clone()));
    let node =
        Node::start_permitted(&dev.config, Permits::default(), weir_docs::PAGES, source, None);
    let node = node.map_err(|error| error.to_string())?;
    say(&dev.welcome(|door| node.addresses().find(|(name, _)| *name == door)?.1));
    serve(node, &signals)
}

/// The exit code of a node that another one has replaced.
const REPLACED: u8 = 75;

/// Until it is stopped.
fn serve(node: Node, signals: &Signals) -> Result<ExitCode, String> {
    let (mut is_asked, mut under_way) = (false, None::<JoinHandle<()>>);
    while !signals.is_stop() && !node.is_broken() {
        is_asked |= signals.take_reload();
        if is_asked && under_way.as_ref().is_none_or(JoinHandle::is_finished) {
            (is_asked, under_way) = (false, node.reload_aside());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let (broken, is_fenced) = (node.is_broken(), node.is_fenced());
    if !is_fenced {
        tracing::info!("stopping: no new connections, answering what is in flight");
    }
    let well = node.stop() && !broken;
    if well {
        tracing::info!("stopped: every record is sealed");
        Ok(ExitCode::SUCCESS)
    } else if is_fenced {
        let _ = writeln!(
            io::stderr(),
            "weir: another node is the bank of this log; started again, this one stands by"
        );
        Ok(ExitCode::from(REPLACED))
    } else {
        Err("the node shut down with errors; see the log above".into())
    }
}

/// A line on standard output, at once: others wait for it.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn log_to_stderr(level: &str) {
    // Each step of a store's opening is for whoever looks for faults in it.
    let stores = if level == "info" { ",fjall=warn,lsm_tree=warn,async_nats=warn" } else { "" };
    let filter = tracing_subscriber::EnvFilter::new(format!("{level}{stores}"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // A word that cannot be written would be told on standard error, where it could not be written either: a panic.
        .log_internal_errors(false)
        .with_target(false);
    // Fails only where a test has set a log up before.
    let _ = log.try_init();
}

fn check(args: &CheckArgs, out: &mut Out) -> Result<ExitCode, String> {
    if args.keys {
        return unless_gone(write!(out, "{}", Config::table()));
    }
    let (read, told) =
        config::load_all(args.files.config.as_deref(), config::environment(), JUDGES);
    let is_sound = told.is_empty();
    let mut errors: Vec<String> = told.iter().map(ToString::to_string).collect();
    errors.extend(files_of_doors(&read, &errors));
    let doors = Certificates::read(&read).err().unwrap_or_default();
    let mut config = if is_sound { read } else { Config::default() };
    if let Some(data) = &args.data {
        config.node.data_dir.clone_from(data);
    }
    let doors = [weir_survey::door_options(&config).err().unwrap_or_default(), doors].concat();
    errors.extend(config::placed(args.files.config.as_deref(), config::environment(), doors));
    if args.print {
        let _ = write!(out, "{}", config.print());
    }
    let file = args.files.budgets.as_ref().unwrap_or(&config.budgets.file);
    // The default file may be missing; one that was named may not.
    let is_there = file.exists() || args.files.budgets.is_some();
    let read = match is_there {
        true => Found::of(file, &config),
        false => Ok(Found::default()),
    };
    errors.extend(read.as_ref().err().into_iter().flatten().map(ToString::to_string));
    let unread = weir_config::warnings::unread_file(args.files.config.as_deref());
    let core = weir_config::warnings::missing_core(&config, args.files.config.as_deref());
    let core = core.map(|error| format!("{error}; a start here is refused"));
    let key = weir_tools::check::key_of_vault(&config).unwrap_or_else(|error| {
        errors.push(with_places(args.files.config.as_deref(), &error));
        weir_tools::check::KeyOfVault::default()
    });
    let worker = weir_config::warnings::missing_worker(&config, args.files.config.as_deref());
    let worker = worker.map(|error| format!("{error}; a start here is refused"));
    let others = unread.into_iter().chain(core).chain(worker).chain(key.warning);
    tell_warnings(&config, file, read.is_ok(), others);
    // With another configuration than the node's nothing can be said of its folder.
    let judged = (is_there && read.is_ok()).then_some(file.as_path());
    let told = match is_sound {
        true => weir_tools::check::against_journal(&config, judged),
        false => Ok(Some(Vec::new())),
    };
    let has_journal = matches!(told, Ok(Some(_)));
    if let (Some(data), Ok(None)) = (&args.data, &told) {
        errors.push(format!(
            "--data {}: there is no journal in it; expected a node's data folder",
            data.display()
        ));
    }
    match told {
        Ok(told) => errors.extend(told.into_iter().flatten()),
        Err(error) => errors.push(error),
    }
    match (errors.is_empty(), read) {
        (true, Ok(found)) => {
            let files = sound_files(args.files.config.as_deref(), file, is_there.then_some(found))
                + &weir_tools::check::doors_that_are_off(&config);
            let rate = weir_tools::check::rate_of_keys(&config);
            // On standard error, so that what --print says can become a file.
            let compared = compared(is_there, has_journal, &config.node.data_dir);
            eprintln!("{files} {compared}{rate}{}", key.found);
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(format!("{} error(s)\n{}", errors.len(), errors.join("\n"))),
    }
}

/// Returns what is wrong with the files that entries of doors name, also where something else is wrong with the configuration.
fn files_of_doors(config: &Config, told: &[String]) -> Vec<String> {
    let judges = JUDGES_OF_FILES.iter().copied().chain([weir_survey::judge_files as Judge]);
    let found = judges.flat_map(|judge| judge(config));
    let found = found.map(|error| error.to_string());
    // What the configuration's own check has told is not told again.
    found.filter(|text| !told.contains(text)).collect()
}

/// What is allowed and yet hardly meant: in the environment, and in a budgets file where it is sound or missing.
fn tell_warnings(
    config: &Config,
    file: &Path,
    is_sound: bool,
    others: impl Iterator<Item = String>,
) {
    let names = weir_config::environment::warnings(config::environment());
    let lines =
        if is_sound { weir_tools::check::warnings(config, file, now()) } else { Vec::new() };
    let keys = weir_config::warnings::warnings(config);
    let names = names.iter().map(ToString::to_string);
    for warning in names.chain(others).chain(keys).chain(lines) {
        eprintln!("warning: {warning}");
    }
}

/// How many of what a budgets file has.
#[derive(Clone, Copy, Default)]
struct Found {
    budgets: usize,
    /// Budgets that bid.
    campaigns: usize,
    templates: usize,
}

impl Found {
    fn of(file: &Path, config: &Config) -> Result<Found, Vec<budgets::LineError>> {
        let read = budgets::file_of(file, &budgets::bytes(file)?)?;
        let lines: Vec<_> = read.lines.iter().map(|line| &line.budget).collect();
        let terms = campaign_index::ExchangeTerms::of(config);
        let index = campaign_index::of_file(file, &terms, &lines, now());
        let campaigns = orders::checked(file, &OrderTerms::of(config), &lines, index)?.len();
        Ok(Found { budgets: lines.len(), campaigns, templates: read.templates.iter().count() })
    }
}

/// Which files are sound; `found`: what the file has, if it is there.
fn sound_files(config: Option<&Path>, file: &Path, found: Option<Found>) -> String {
    let config = config.map_or("the configuration".into(), |path| path.display().to_string());
    let file = file.display();
    let Some(Found { budgets, campaigns, templates }) = found else {
        return format!("{config} is sound; there is no budgets file {file}.");
    };
    let budget = if budgets == 1 { "budget" } else { "budgets" };
    let campaigns = match campaigns {
        0 if budgets == 0 => "no campaign".into(),
        0 => "none of them a campaign".into(),
        1 => "1 of them a campaign".into(),
        _ => format!("{campaigns} of them campaigns"),
    };
    let made = match templates {
        0 => String::new(),
        1 => ", and 1 template that budgets are made from".into(),
        _ => format!(", and {templates} templates that budgets are made from"),
    };
    format!("{config} and {file} are sound: {budgets} {budget}, {campaigns}{made}.")
}

/// What the files were compared with.
fn compared(is_there: bool, has_journal: bool, data: &Path) -> String {
    let (they, folder) = (if is_there { "They were" } else { "It was" }, data.display());
    let why = match (has_journal, data.is_dir()) {
        (true, _) if is_there => {
            return "Each budget was judged with the journal and the edits of its data folder."
                .into();
        }
        (true, _) => return format!("A start takes the journal of the data folder {folder}."),
        (false, true) => format!("the data folder {folder} has no journal"),
        (false, false) => format!("there is no data folder {folder}"),
    };
    format!("{they} not compared with a ledger, because {why}; give --data to do that.")
}

fn now() -> money::Instant {
    money::Instant::from_ms(probe::NodeClock::new().now_ms())
}

fn hammer(args: &hammer::Args, out: &mut Out) -> Result<ExitCode, String> {
    let signals = Signals::catch()?;
    let code = hammer::main(args, signals.stop(), out);
    code.map(ExitCode::from).map_err(|error| error.to_string())
}

fn show_stat(args: &StatArgs, out: &mut Out) -> Result<ExitCode, String> {
    if args.counters {
        return unless_gone(write!(out, "{}", weir_survey::Registry::table()));
    }
    let client = args.node.open().map_err(|error| error.to_string())?;
    let figures = stat::fetch(&client, args.budget.as_ref()).map_err(|error| error.to_string())?;
    let written = if args.json { writeln!(out, "{figures}") } else { stat::print(&figures, out) };
    // `Out` knows of it.
    let _ = written;
    Ok(ExitCode::SUCCESS)
}

fn top(args: &TopArgs) -> Result<ExitCode, String> {
    let client = args.node.open().map_err(|error| error.to_string())?;
    let every = Duration::from_millis(args.every_ms);
    let options = watch_top::Options { client, every, sort: args.sort, once: args.once };
    watch_top::run(&options).map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string())
}

fn show_costs(args: &costs::CostsArgs, out: &mut Out) -> Result<ExitCode, String> {
    // A node of --bench can be configured by the environment; only what it complains of is told.
    let config =
        config::load(None, config::environment(), JUDGES).map_err(|errors| lines(&errors))?;
    log_to_stderr("warn");
    // Only a benchmark has something to put away; a sheet that is waited for ends with the process.
    let signals = if args.is_bench() { Signals::catch()? } else { Signals::default() };
    costs::main(args, config, signals.stop(), out)
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| error.to_string())
}

fn why(args: &WhyArgs, out: &mut Out) -> Result<ExitCode, String> {
    if let Some(request) = &args.request {
        let config = load(&args.files)?;
        let question = why::Question {
            campaigns: &config.budgets.file,
            request,
            campaign: args.campaign.as_ref(),
            all: args.all,
        };
        return match why::explain(&question, &config, now(), out) {
            Err(why::WhyError::Write(error)) => unless_gone(Err(error)),
            explained => explained.map(|()| ExitCode::SUCCESS).map_err(|error| error.to_string()),
        };
    }
    let client = args.node.open().map_err(|error| error.to_string())?;
    let campaign = args.campaign.as_ref().expect("asked for where there is no request");
    let answer = why::fetch(&client, campaign).map_err(|error| error.to_string())?;
    // `Out` knows of it.
    let _ = match args.json {
        true => writeln!(out, "{answer}"),
        false => why::print_counts(&answer, out),
    };
    Ok(ExitCode::SUCCESS)
}

fn load_profiles(args: &ProfilesArgs, out: &mut Out) -> Result<ExitCode, String> {
    let files = Files { config: args.config.clone(), budgets: None };
    let mut config = load(&files)?;
    if let Some(data) = &args.data {
        config.node.data_dir.clone_from(data);
    }
    let summary = profiles::load(&config, &args.file, args.add, &mut io::stderr())?;
    let _ = profiles::print(&summary, out);
    profiles::judge(&summary, &args.file)?;
    Ok(ExitCode::SUCCESS)
}
