//! `weir profiles`: users' segments from a file into the profiles of a stopped node.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use gate_profile::{Mode, Progress, Summary, load_segments};
use weir_config::config::Config;
use weir_node::start::{lock_data, open_profiles};

/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Loads the file and says on `err` how far it is.
///
/// # Errors
/// What failed and what to do. Lines that were refused are no error: they are in the summary.
pub fn load(
    config: &Config,
    file: &Path,
    add: bool,
    err: &mut dyn Write,
) -> Result<Summary, String> {
    let data = &config.node.data_dir;
    if !data.join("journal").is_dir() {
        return Err(format!(
            "{} is not the data folder of a node; start a node on it once, or correct --data",
            data.display()
        ));
    }
    let _lock = lock_data(&config.node.data_dir).map_err(|error| error.to_string())?;
    let profiles = open_profiles(config).map_err(|error| error.to_string())?;
    let mode = if add { Mode::Add } else { Mode::Replace };
    let (began, mut said) = (Instant::now(), Instant::now());
    let summary = load_segments(file, &profiles, mode, |progress| {
        if said.elapsed() >= PROGRESS_EVERY {
            said = Instant::now();
            // Nobody may be looking.
            let _ = print_progress(progress, began.elapsed(), err);
        }
    });
    let closed = profiles.close();
    let summary = summary.map_err(|error| error.to_string())?;
    closed.map_err(|error| error.to_string())?;
    Ok(summary)
}

fn print_progress(at: Progress, passed: Duration, err: &mut dyn Write) -> io::Result<()> {
    let percent = u128::from(at.bytes) * 100 / u128::from(at.bytes_total.max(1));
    let a_second = u128::from(at.lines) * 1_000 / passed.as_millis().max(1);
    writeln!(err, "{percent:>3} %  {} lines, {a_second} a second", at.lines)
}

/// What came of it, for people.
///
/// # Errors
/// `out` cannot be written.
pub fn print(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let Summary { lines, accepted, blank, users, rejected } = summary;
    writeln!(out, "{lines} lines: {accepted} loaded, {blank} empty; {users} changes of users")?;
    for (why, lines) in rejected {
        let first: Vec<String> = lines.first.iter().map(u64::to_string).collect();
        let more = if lines.lines > lines.first.len() as u64 { ", ..." } else { "" };
        writeln!(out, "{} refused: {why}, lines {}{more}", lines.lines, first.join(", "))?;
    }
    Ok(())
}

/// What is wrong with a load that refused lines, or that loaded nothing.
///
/// # Errors
/// One sentence that names the first line that was refused.
pub fn judge(summary: &Summary, file: &Path) -> Result<(), String> {
    let firsts = summary.rejected.iter();
    let first = firsts.filter_map(|(why, lines)| Some((*lines.first.first()?, why))).min();
    let expected = "expected user,segment[,segment...]";
    match first {
        Some((line, why)) => Err(format!("{}:{line}: found {why}, {expected}", file.display())),
        None if summary.accepted == 0 => {
            Err(format!("{}: nothing was loaded: found no line, {expected}", file.display()))
        }
        None => Ok(()),
    }
}
