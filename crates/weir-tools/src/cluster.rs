//! `weir cluster`: the log on other machines.

use std::io::Write;
use std::path::{Path, PathBuf};

use admin_client::Options;
use clap::{Args, Subcommand};
use weir_config::config::{self, Config, ConfigError};
use weir_node::cluster::{Histories, History, Side};
use weir_node::doors::JUDGES;
use weir_node::known::Permits;
use weir_survey::{ConfigSource, Node, StartError, StoodBy};

/// `weir cluster`.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Subcommand, Debug)]
enum ClusterCommand {
    /// Make the log of a new cluster, once; judge its servers; put the journal of an existing data folder into it
    #[command(
        after_help = "Example: weir cluster init --config weir.toml --log nats://a:4222,b:4222,c:4222\n\nDone twice, it only judges. Stop the node of the data folder before."
    )]
    Init(InitArgs),
    /// Have a node that stands by take over now, without waiting for silence
    #[command(
        after_help = "Example: weir cluster take-over --target b:7780 --why \"the bank's machine is gone\"\n\nFor a bank that is gone, with cluster.takeover = \"manual\". One that is alive and has work stays the bank: stop it, and a\nstandby takes over at once. The caller needs the role operate."
    )]
    TakeOver(TakeOverArgs),
    /// Show where the log and the journal of a data folder part, and keep one of them
    #[command(
        after_help = "Example: weir cluster heal --config weir.toml --keep disk --why \"the stream was deleted\"\n\nFor `two histories`, and for a stream that is gone. Without --keep nothing is changed. Stop all nodes before. What is not kept is\nmoved aside within the data folder: compare it with the bills of your exchanges, as money that only it knows is not in the books."
    )]
    Heal(HealArgs),
    /// Show how a node stands: bank or standby, where the log ends, whether it answers
    Status(ClusterStatusArgs),
}

#[derive(Args, Debug)]
struct TakeOverArgs {
    #[command(flatten)]
    node: Options,
    /// The reason, for the node's log
    #[arg(long, value_name = "TEXT")]
    why: String,
}

#[derive(Args, Debug)]
struct ClusterStatusArgs {
    #[command(flatten)]
    node: Options,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct HealArgs {
    #[command(flatten)]
    of: InitArgs,
    /// Which one stays: the log, or the journal of the data folder
    #[arg(long, value_name = "SIDE", requires = "why", value_parser = ["log", "disk"])]
    keep: Option<String>,
    /// The reason, for the folder of what is moved aside
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

#[derive(Args, Debug)]
struct InitArgs {
    /// The configuration file, with the keys of [cluster]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data folder whose journal begins the log; an empty one, or none, begins an empty log
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Servers that keep the log; sets cluster.log
    #[arg(long, value_name = "URL")]
    log: Option<String>,
}

/// Judges `[cluster]` again, with what a flag says.
///
/// # Errors
/// What is wrong.
pub fn judged(config: &Config, file: Option<&Path>) -> Result<(), Vec<ConfigError>> {
    let place = file.map_or("--log".into(), |file| file.display().to_string());
    let wrong = weir_node::cluster::judge(config).into_iter();
    let wrong: Vec<_> = wrong.map(|error| ConfigError { place: place.clone(), ..error }).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Starts a node, where the log is on other machines once no other node is its bank; each time that it stands by, `say` hears. `None`: it was
/// told to stop before.
///
/// # Errors
/// [`StartError`].
pub fn begin(
    (config, permits, docs): (&Config, Permits, &'static [watch::Asset]),
    source: &dyn Fn() -> ConfigSource,
    is_stop: &dyn Fn() -> bool,
    say: &dyn Fn(&str),
) -> Result<Option<Node>, StartError> {
    loop {
        let standby = match weir_survey::stand_by(config, permits, is_stop, say)? {
            StoodBy::Stopped => return Ok(None),
            StoodBy::Over(standby) => standby,
        };
        match Node::start_permitted(config, permits, docs, source(), standby) {
            Err(StartError::Engine(error)) if error.stands_by() => {
                eprintln!("weir: {error}: standing by");
            }
            started => return started.map(Some),
        }
    }
}

/// Runs it.
///
/// # Errors
/// What is wrong, for people.
pub fn main(args: &ClusterArgs, out: &mut impl Write) -> Result<(), String> {
    match &args.command {
        ClusterCommand::Init(args) => init(args, out),
        ClusterCommand::Heal(args) => heal(args, out),
        ClusterCommand::Status(args) => status(args, out),
        ClusterCommand::TakeOver(args) => {
            let client = args.node.open().map_err(|error| error.to_string())?;
            let body = serde_json::json!({ "why": args.why });
            let told = client.post_json("/v1/cluster/take-over", &body);
            let _ = told.map_err(|error| error.to_string())?;
            let _ = writeln!(out, "it takes over: weir cluster status shows how it went");
            Ok(())
        }
    }
}

fn config_of(args: &InitArgs) -> Result<Config, String> {
    let lines = |errors: Vec<ConfigError>| {
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let mut config =
        config::load(args.config.as_deref(), config::environment(), JUDGES).map_err(lines)?;
    if let Some(data) = &args.data {
        config.node.data_dir.clone_from(data);
    }
    if let Some(log) = &args.log {
        config.cluster.log.clone_from(log);
        judged(&config, args.config.as_deref()).map_err(lines)?;
    }
    Ok(config)
}

fn heal(args: &HealArgs, out: &mut impl Write) -> Result<(), String> {
    let config = config_of(&args.of)?;
    let side = |keep: &String| if keep == "log" { Side::Log } else { Side::Disk };
    let keep = args.keep.as_ref().map(side);
    let keep = keep.zip(args.why.as_deref());
    let healed = weir_node::cluster::heal(&config, keep).map_err(|error| error.to_string())?;
    let Histories { common, trimmed, log, disk } = healed.found;
    // `out` knows of what fails.
    let _ = match trimmed {
        None => writeln!(out, "the same up to record {}; behind it:", common.sequence - 1),
        Some(first) => writeln!(
            out,
            "the log was trimmed and begins with record {first}: whether the disk had the same before is not known; from there on:"
        ),
    };
    for (name, history) in [("log ", log.as_ref()), ("disk", Some(&disk))] {
        let _ = match history {
            None => writeln!(out, "{name} there is no such stream"),
            Some(History { records, settled, runs, last_ms }) => {
                let runs: Vec<_> =
                    runs.iter().map(|(run, node)| format!("{run} of {node}")).collect();
                writeln!(
                    out,
                    "{name} {records} records, {settled} bookings, runs: {}; last at {last_ms} ms",
                    runs.join(", ")
                )
            }
        };
    }
    let _ = match healed.aside {
        None => writeln!(
            out,
            "nothing was changed: --keep log or --keep disk with --why says which one stays"
        ),
        Some(aside) => writeln!(
            out,
            "what was not kept is in {}. Its bookings are not in the books, and its grants were spent beside them: compare `weir journal export` of both with the bills of your exchanges, and lower limits by what is missing. Then start the nodes; each one that is refused with `two histories` needs heal --keep log",
            aside.display()
        ),
    };
    Ok(())
}

fn init(args: &InitArgs, out: &mut impl Write) -> Result<(), String> {
    let config = config_of(args)?;
    let made = weir_node::cluster::init(&config).map_err(|error| error.to_string())?;
    let name = &config.cluster.name;
    // `out` knows of it.
    let _ = writeln!(out, "WEIR_{name}: all servers that keep it sync before they acknowledge");
    let _ = match (made.entries, made.caught_up.appended) {
        (0, 0) => writeln!(out, "it is empty: the first node that runs begins it"),
        (_, 0) => writeln!(out, "it has {} entries", made.entries),
        (_, groups) => writeln!(
            out,
            "{groups} groups of the journal in {} were put into it",
            config.node.data_dir.display()
        ),
    };
    Ok(())
}

fn status(args: &ClusterStatusArgs, out: &mut impl Write) -> Result<(), String> {
    let client = args.node.open().map_err(|error| error.to_string())?;
    let found =
        client.get::<serde_json::Value>("/v1/cluster").map_err(|error| error.to_string())?;
    // `out` knows of what fails.
    if args.json {
        let _ = writeln!(out, "{found}");
        return Ok(());
    }
    let text = |at: &str| {
        found.pointer(at).map_or_else(
            || "-".to_string(),
            |value| value.as_str().map_or_else(|| value.to_string(), str::to_string),
        )
    };
    for (what, at) in [
        ("role", "/role"),
        ("cluster", "/name"),
        ("node", "/node"),
        ("bank", "/bank/node"),
        ("run", "/bank/run"),
        ("last record", "/position/record"),
        ("last entry", "/position/entry"),
        ("lag, ms", "/lag_ms"),
        ("lease, ms", "/lease_ms"),
        ("log", "/log/state"),
        ("since, ms", "/log/since_ms"),
        ("failure", "/failure"),
    ] {
        let _ = writeln!(out, "{what:12} {}", text(at));
    }
    Ok(())
}
