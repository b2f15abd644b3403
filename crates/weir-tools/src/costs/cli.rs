//! `weir costs`: the cost sheet of a running node, or of one that is started and loaded for it.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use admin_client::{Client, FetchError, OpenError, Options, harmless};
use clap::ValueEnum;
use weir_config::config::Config;
use weir_survey::costs::{Format, SECONDS_MAX, SECONDS_MIN};

use super::bench::{self, BenchError};

/// What is to be shown, of which node.
#[derive(Debug, clap::Args)]
pub struct CostsArgs {
    #[command(flatten)]
    node: Options,
    /// Start a node in a temporary folder, load its batch door and its OpenRTB door, and show the sheet of each.
    #[arg(long, conflicts_with_all = ["target", "data", "token_file", "ca"])]
    bench: bool,
    /// How long to measure, 0.1 to 60 seconds.
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Print JSON.
    #[arg(long, group = "format")]
    json: bool,
    /// Print a Markdown document.
    #[arg(long, group = "format")]
    markdown: bool,
    /// Print OpenMetrics text.
    #[arg(long, group = "format", conflicts_with = "bench")]
    openmetrics: bool,
    /// Print every column; the table is wider than most terminals.
    #[arg(long, conflicts_with_all = ["json", "markdown", "openmetrics"])]
    wide: bool,
    /// Also write the output to this file.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// Why there is no sheet.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// Nobody says where the node is, or who asks.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The node does not tell.
    #[error(transparent)]
    Node(#[from] FetchError),
    /// The benchmark did not run.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The file to save in.
    #[error("{path}: {source}; the sheet was not saved")]
    Save {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// Prints the sheet. `config` is what a node of `--bench` runs with, but for its folder, its ports and its budgets.
/// Setting `stop` ends a benchmark early, without a sheet.
///
/// # Errors
/// [`CostsError`].
pub fn main(
    args: &CostsArgs,
    config: Config,
    stop: &AtomicBool,
    out: &mut dyn Write,
) -> Result<(), CostsError> {
    let text = if args.bench {
        let Some(text) = bench::run(config, args.seconds, args.format(), stop)? else {
            return Ok(());
        };
        text
    } else {
        let text = fetch(args.node.open()?, args.seconds, args.format())?;
        text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
    };
    if let Some(path) = &args.save {
        let failed = |source| CostsError::Save { path: path.clone(), source };
        std::fs::write(path, &text).map_err(failed)?;
    }
    // A reader that went away (`| head`) is no failure.
    let _ = out.write_all(text.as_bytes());
    Ok(())
}

/// A sheet of a running node.
pub(crate) fn fetch(client: Client, seconds: f64, format: Format) -> Result<String, FetchError> {
    /// On top of the measurement.
    const PATIENCE: Duration = Duration::from_secs(15);
    let name = format.to_possible_value().expect("no format is hidden");
    let path = format!("/costs?seconds={seconds}&format={}", name.get_name());
    client.with_wait(Duration::from_secs_f64(seconds) + PATIENCE).get_text(&path)
}

impl CostsArgs {
    /// Whether a node is started, and loaded, for the sheet.
    #[must_use]
    pub fn is_bench(&self) -> bool {
        self.bench
    }

    fn format(&self) -> Format {
        match (self.json, self.markdown, self.openmetrics, self.wide) {
            (true, ..) => Format::Json,
            (_, true, ..) => Format::Markdown,
            (_, _, true, _) => Format::Openmetrics,
            (.., true) => Format::Wide,
            _ => Format::Text,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
        return Ok(seconds);
    }
    Err(format!("expected {SECONDS_MIN} to {SECONDS_MAX}"))
}
