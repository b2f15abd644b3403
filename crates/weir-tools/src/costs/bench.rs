//! `weir costs --bench`: a node of its own for each door, loaded by the library of `weir hammer` while it is measured.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use admin_client::{Client, FetchError};
use clap::Parser;
use hammer::HammerError;
use serde_json::Value;
use weir_config::config::Config;
use weir_config::doors::all_doors;
use weir_survey::costs::Format;
use weir_survey::{Node, StartError};

use super::cli;
use crate::{sample, sample_campaigns, stat};

/// Budgets of the batch door's node.
const BUDGETS: u64 = 1_000;
/// Campaigns of the OpenRTB door's node.
const CAMPAIGNS: u64 = 5_000;
/// The same seed makes the same budgets and campaigns.
const SEED: u64 = 1;
/// From the first request until it is measured: purses are filled, caches and tables are warm.
const WARM_UP: Duration = Duration::from_secs(1);
/// How long the load may take to begin.
const BEGIN_MAX: Duration = Duration::from_secs(60);
/// How often a wait looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// Why a benchmark did not run. Nothing of it is left, but for a node that shut down with errors.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The temporary folder.
    #[error("temporary folder: {0}; set TMPDIR to a folder with some room")]
    Folder(#[from] io::Error),
    /// The node.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The load.
    #[error("load of the {door} door: {source}")]
    Load {
        /// The door.
        door: &'static str,
        /// Why it did not run.
        source: HammerError,
    },
    /// The load ran, and found something wrong.
    #[error("load of the {door} door: {text}; its figures would not be honest")]
    Unsound {
        /// The door.
        door: &'static str,
        /// What it found.
        text: String,
    },
    /// The node does not tell.
    #[error(transparent)]
    Sheet(#[from] FetchError),
    /// The node failed while it stopped.
    #[error("the node of the {door} door shut down with errors; see the log above")]
    Ended {
        /// The door.
        door: &'static str,
    },
}

/// What is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Batch,
    OpenRtb,
}

/// Measures both doors, one after the other, and writes their sheets as one document; `None` when `stop` was set before
/// they were done.
pub(crate) fn run(
    config: Config,
    seconds: f64,
    format: Format,
    stop: &AtomicBool,
) -> Result<Option<String>, BenchError> {
    let mut sheets = Vec::new();
    for door in [Door::Batch, Door::OpenRtb] {
        let folder = tempfile::Builder::new().prefix("weir-costs-").tempdir()?;
        let node = door.start(config.clone(), folder.path())?;
        let sheet = door.measure(&node, seconds, format, stop);
        if !node.stop() {
            return Err(BenchError::Ended { door: door.name() });
        }
        match sheet? {
            Some(sheet) => sheets.push((door, sheet)),
            None => return Ok(None),
        }
    }
    Ok(Some(document(&sheets, format)))
}

impl Door {
    fn name(self) -> &'static str {
        match self {
            Door::Batch => "batch",
            Door::OpenRtb => "OpenRTB",
        }
    }

    /// What loads it, for the heading.
    fn load_in_words(self) -> String {
        match self {
            Door::Batch => format!(
                "{BUDGETS} sample budgets; 8 connections, 8 frames of 10 asks in flight on each; 5 % of the granted settled"
            ),
            Door::OpenRtb => format!(
                "{CAMPAIGNS} sample campaigns; 8 connections, 8 requests in flight on each; 5 % of the bids win and are billed"
            ),
        }
    }

    fn start(self, mut config: Config, folder: &Path) -> Result<Node, BenchError> {
        let budgets = folder.join("budgets.jsonl");
        let mut file = io::BufWriter::new(std::fs::File::create(&budgets)?);
        match self {
            Door::Batch => sample::write(BUDGETS, SEED, &mut file)?,
            Door::OpenRtb => sample_campaigns::write(CAMPAIGNS, SEED, &mut file)?,
        }
        file.flush()?;
        let any_port = SocketAddr::from(([127, 0, 0, 1], 0));
        config.node.data_dir = folder.join("data");
        config.cluster = Config::default().cluster;
        config.budgets.file = budgets;
        for door in all_doors() {
            (door.set_listen)(&mut config, any_port.into());
        }
        // On the loopback and for some seconds: no token is wanted, and no certificate would name it.
        for tls in [&mut config.batch.tls_cert, &mut config.openrtb.tls_cert] {
            tls.clear();
        }
        config.admin.tokens_file.clear();
        config.admin.tls_cert.clear();
        config.admin.tls_key.clear();
        Ok(Node::start(&config)?)
    }

    fn measure(
        self,
        node: &Node,
        seconds: f64,
        format: Format,
        stop: &AtomicBool,
    ) -> Result<Option<String>, BenchError> {
        let enough = AtomicBool::new(false);
        std::thread::scope(|scope| {
            say(&format!("{} door: {}", self.name(), self.load_in_words()));
            let load = scope.spawn(|| {
                let result = self.load(node, &enough);
                // Whoever waits for requests need not wait any longer.
                enough.store(true, Release);
                result
            });
            let wanted = || !stop.load(Acquire) && !enough.load(Acquire);
            let sheet = match self.begun(node, wanted) && pause(WARM_UP, wanted) {
                true => {
                    say(&format!("{} door: measuring for {seconds} s", self.name()));
                    fetched(node, seconds, format, wanted)
                }
                false => Ok(None),
            };
            enough.store(true, Release);
            let loaded = load.join().unwrap_or_else(|_| Err(self.unsound("it ended by a panic")));
            loaded.and(sheet)
        })
    }

    /// Waits until requests are answered.
    fn begun(self, node: &Node, wanted: impl Fn() -> bool + Copy) -> bool {
        let counter = match self {
            Door::Batch => "/doors/batch/decisions",
            Door::OpenRtb => "/doors/openrtb/requests",
        };
        let (began, client) = (Instant::now(), client_of(node));
        while began.elapsed() < BEGIN_MAX && pause(LOOK, wanted) {
            let figures = stat::fetch(&client, None).unwrap_or_default();
            if figures.pointer(counter).and_then(Value::as_u64) > Some(0) {
                return true;
            }
        }
        false
    }

    /// Loads the door until it is enough, and says whether all was well.
    fn load(self, node: &Node, enough: &AtomicBool) -> Result<(), BenchError> {
        #[derive(clap::Parser)]
        struct CommandLine {
            #[command(flatten)]
            args: hammer::Args,
        }
        let (batch, openrtb) =
            (node.address("batch").to_string(), node.address("openrtb").to_string());
        let mut words = vec!["hammer", "--duration", "24h", "--quiet", "--target"];
        match self {
            Door::Batch => words.push(&batch),
            Door::OpenRtb => {
                words.extend([&openrtb, "--openrtb", "--books", &batch, "--bodies", "5000"]);
            }
        }
        let core = spare_core().map(|core| core.to_string());
        words.extend(core.iter().flat_map(|core| ["--core", core]));
        let args = CommandLine::parse_from(words).args;
        let failed = |source| BenchError::Load { door: self.name(), source };
        let (code, audit, errors) = match self {
            Door::Batch => {
                let report = hammer::run(&args, enough).map_err(failed)?;
                (report.exit_code(), report.audit, report.errors)
            }
            Door::OpenRtb => {
                let report = hammer::run_exchange(&args, enough).map_err(failed)?;
                (report.exit_code(), report.audit, report.errors)
            }
        };
        if code == 0 {
            return Ok(());
        }
        Err(self.unsound(&format!("audit {audit}; {}", errors.join("; "))))
    }

    fn unsound(self, text: &str) -> BenchError {
        BenchError::Unsound { door: self.name(), text: text.to_string() }
    }
}

/// The sheet, asked for by a thread of its own: nobody waits for it who does not want it any more.
fn fetched(
    node: &Node,
    seconds: f64,
    format: Format,
    wanted: impl Fn() -> bool,
) -> Result<Option<String>, BenchError> {
    let (send, answer) = channel();
    let client = client_of(node);
    // It ends with the node's admin door at the latest.
    std::thread::spawn(move || send.send(cli::fetch(client, seconds, format)));
    while wanted() {
        match answer.recv_timeout(LOOK) {
            Ok(sheet) => return Ok(Some(sheet?)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(None)
}

fn client_of(node: &Node) -> Client {
    Client::new(node.address("admin").into(), None, None)
}

/// Sleeps; false as soon as nobody wants it any more.
fn pause(length: Duration, wanted: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while wanted() {
        let left = length.saturating_sub(began.elapsed());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(LOOK));
    }
    false
}

/// A core for the load, where there are two: the first one is a worker's.
fn spare_core() -> Option<usize> {
    let cores = door_transport::cores::allowed().unwrap_or_default();
    cores.last().copied().filter(|_| cores.len() > 1)
}

/// The sheets as one document. The first line of a sheet is its title, which here says what was loaded.
fn document(sheets: &[(Door, String)], format: Format) -> String {
    let all = sheets.iter().map(|(door, sheet)| {
        let (title, rest) = sheet.split_once('\n').unwrap_or((sheet, ""));
        let heading = format!("the {} door: {}", door.name(), door.load_in_words());
        match format {
            Format::Json => format!("\"{}\": {sheet}", door.name().to_lowercase()),
            Format::Markdown => format!("\n#{title}, {heading}\n{rest}"),
            Format::Text | Format::Wide | Format::Openmetrics => {
                format!("{title}, {heading}\n{rest}\n")
            }
        }
    });
    let all: Vec<String> = all.collect();
    match format {
        Format::Json => format!("{{{}}}\n", all.join(",\n")),
        Format::Markdown => format!("{PREAMBLE}{}", all.concat()),
        Format::Text | Format::Wide | Format::Openmetrics => all.concat(),
    }
}

/// What stands above the sheets of a document.
const PREAMBLE: &str = "# What Weir costs

Written by `weir costs --bench --markdown --save docs/costs.md`; not by hand. A node is started for each door, loaded, and measured
while it serves. [measuring.md](measuring.md) says how, and what the columns mean; [performance.md](performance.md) has the
other ways.
";

fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
