//! The OpenRTB door: a whole node that plays against an exchange, what each stage of a request costs, the auction
//! alone, and the same campaigns and requests for a bidder as a team would build it in Go.
//!
//! Two files of the same made-up campaigns are used. *As sampled*: most plans spread their spend, so that shortly after
//! the start many campaigns are paced. *Unlimited*: every plan is `asap` and limits are beyond what a run can spend, so
//! that a request with candidates runs its auction to a bid; targeting, caps and creatives are the same.

mod auction;
mod bidder;
mod door;
mod go;
mod stages;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_budgets::budgets::Budget;

use crate::Size;
use crate::daemon::folder_on_disk;

/// Seed of campaigns and bodies.
const SEED: u64 = 1;
/// A limit in whole units that no run can spend; 50,000 of them still fit the books' sums.
const UNLIMITED: &str = "50000000";

/// Prints the tables.
pub fn run(size: Size) {
    if let Err(error) = measure(size) {
        println!("\nOpenRTB: NOT MEASURED: {error}");
    }
}

fn measure(size: Size) -> Result<(), String> {
    let files = Files::write(size.pick(50_000, 500))?;
    let bodies = Bodies::new(size.pick(20_000, 100));
    println!(
        "\n{} campaigns; {} distinct bodies, p50 {} bytes, largest {}",
        files.count,
        bodies.list.len(),
        bodies.quantile(0.5),
        bodies.quantile(1.0)
    );
    let figures = door::run(size, &files, bodies.list.len());
    let budgets = files.budgets()?;
    stages::run(size, &budgets, &bodies, figures.as_ref());
    auction::run(size, &budgets, &bodies);
    Ok(())
}

/// The campaign files of a run; removed with it.
struct Files {
    _folder: TempDir,
    count: u64,
    sampled: PathBuf,
    unlimited: PathBuf,
}

impl Files {
    fn write(count: u64) -> Result<Files, String> {
        let folder = folder_on_disk()?;
        let path = |name| folder.path().join(name);
        let (sampled, unlimited) = (path("sampled.jsonl"), path("unlimited.jsonl"));
        let mut text = Vec::new();
        weir_tools::sample_campaigns::write(count, SEED, &mut text).map_err(|e| e.to_string())?;
        std::fs::write(&sampled, &text).map_err(|e| e.to_string())?;
        lift_limits(&text, &unlimited)?;
        Ok(Files { _folder: folder, count, sampled, unlimited })
    }

    /// The unlimited campaigns, read as the node reads them.
    fn budgets(&self) -> Result<Vec<Budget>, String> {
        weir_budgets::budgets::read(&self.unlimited)
            .map_err(|errors| format!("{:?}", errors.first()))
    }
}

fn lift_limits(text: &[u8], to: &Path) -> Result<(), String> {
    let mut lifted = Vec::with_capacity(text.len());
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut campaign: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        for (field, value) in [("pacing", "asap"), ("limit", UNLIMITED), ("daily", UNLIMITED)] {
            campaign[field] = json!(value);
        }
        writeln!(lifted, "{campaign}").map_err(|e| e.to_string())?;
    }
    std::fs::write(to, lifted).map_err(|e| e.to_string())
}

/// Bid requests, as the hammer makes them up.
struct Bodies {
    list: Vec<Vec<u8>>,
    sizes: Vec<usize>,
}

impl Bodies {
    fn new(count: u64) -> Bodies {
        let list: Vec<Vec<u8>> =
            hammer::openrtb::generate(SEED, count).map(String::into_bytes).collect();
        let mut sizes: Vec<usize> = list.iter().map(Vec::len).collect();
        sizes.sort_unstable();
        Bodies { list, sizes }
    }

    fn quantile(&self, share: f64) -> usize {
        self.sizes[((self.sizes.len() - 1) as f64 * share) as usize]
    }
}

/// The middle one.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    probe::compare::median(values.collect())
}
