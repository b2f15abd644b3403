//! One line for every commit: what it counted and what the clock said of it, against its parent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use probe::Machine;
use serde::{Deserialize, Serialize};

use crate::ab::{self, Interval};
use crate::baseline::{Figures, Misses};
use crate::check::{CheckError, figures};
use crate::step::same_bytes;
use crate::toolchain::Toolchain;
use crate::workload::Name;

/// What is known of one commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommitLine {
    /// Its full hash.
    pub commit: String,
    /// When it was committed, year-month-day.
    pub date: String,
    /// The first line of its message.
    pub subject: String,
    /// The hash of the tools that it was counted with: [`Toolchain::hash`].
    pub tools: String,
    /// The machine that timed it.
    pub machine: String,
    /// Instructions per operation, by workload.
    pub counts: BTreeMap<String, f64>,
    /// Misses of simulated caches an operation, of the workloads that count them.
    pub misses: BTreeMap<String, Misses>,
    /// Its time over its parent's, by workload. Empty where its program is the parent's byte for byte (then `same` is true)
    /// or where the parent has none.
    pub clock: BTreeMap<String, Interval>,
    /// The program is byte for byte that of its parent.
    pub same: bool,
    /// Ns per request of each row of the cost sheet, by door; only where somebody asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sheet: Option<BTreeMap<String, BTreeMap<String, f64>>>,
}

/// What a line is made from.
#[derive(Clone, Debug, clap::Args)]
pub struct CommitOptions {
    /// The commit
    #[arg(long)]
    commit: String,
    /// When it was committed, year-month-day
    #[arg(long)]
    date: String,
    /// The first line of its message
    #[arg(long)]
    subject: String,
    /// This program, built from it
    #[arg(long, value_name = "PATH")]
    program: PathBuf,
    /// This program, built from its parent
    #[arg(long, value_name = "PATH")]
    parent: Option<PathBuf>,
    /// Rounds by the clock
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// What `weir costs --bench --json` of it printed
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
}

/// Why there is no line, or no page.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It could not be counted or timed.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A file.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file that is not as it is written here.
    #[error("{path}, line {line}: {source}; restore the committed file")]
    Json {
        /// Which.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
}

impl CommitLine {
    /// Counts a commit, and times it against its parent unless both are the same program.
    ///
    /// # Errors
    /// [`LogError`]: it could not.
    pub fn of(options: &CommitOptions) -> Result<CommitLine, LogError> {
        let CommitOptions { commit, date, subject, program, parent, rounds, sheet } = options;
        let now = figures(program, Name::ALL)?;
        let same = match parent {
            Some(parent) => same_bytes(parent, program).map_err(CheckError::Program)?,
            None => false,
        };
        let clock = match parent {
            Some(parent) if !same => clock(parent, program, &now, *rounds)?,
            _ => BTreeMap::new(),
        };
        let counts = now.iter().map(|(name, figures)| (name.clone(), figures.instructions));
        let misses = now.iter().filter_map(|(name, figures)| Some((name.clone(), figures.misses?)));
        Ok(CommitLine {
            commit: commit.clone(),
            date: date.clone(),
            subject: subject.clone(),
            tools: Toolchain::here().map_err(CheckError::from)?.hash(),
            machine: Machine::detect().to_string(),
            counts: counts.collect(),
            misses: misses.collect(),
            clock,
            same,
            sheet: sheet.as_deref().map(read_sheet).transpose()?,
        })
    }
}

fn clock(
    parent: &Path,
    program: &Path,
    now: &BTreeMap<String, Figures>,
    rounds: u16,
) -> Result<BTreeMap<String, Interval>, CheckError> {
    let mut all = BTreeMap::new();
    for name in Name::ALL.iter().copied().filter(|name| now.contains_key(name.as_str())) {
        let (base, head) = (parent.to_owned(), program.to_owned());
        let options = ab::AbOptions { base, head, rounds, workloads: vec![name] };
        match ab::compare(&options) {
            Ok(report) => {
                all.extend(report.ratios().map(|(name, ratio)| (name.as_str().into(), ratio)));
            }
            // The parent has no such workload.
            Err(ab::AbError::Failed { status, .. }) if status.code() == Some(2) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(all)
}

/// The rows of a sheet that are added up, ns per request.
fn read_sheet(path: &Path) -> Result<BTreeMap<String, BTreeMap<String, f64>>, LogError> {
    let text = read(path)?;
    let doors: BTreeMap<String, Sheet> = serde_json::from_str(&text)
        .map_err(|source| LogError::Json { path: path.into(), line: source.line(), source })?;
    let rows = |sheet: &Sheet| {
        let groups = sheet.groups.iter();
        let rows = groups.flat_map(|group| group.rows.iter().map(move |row| (&group.name, row)));
        let added = rows.filter(|(_, row)| row.depth == 0);
        let named = added.map(|(group, row)| (format!("{group}: {}", row.name), row.ns()));
        named.filter_map(|(name, ns)| Some((name, ns?))).collect()
    };
    Ok(doors.iter().map(|(door, sheet)| (door.clone(), rows(sheet))).collect())
}

#[derive(Deserialize)]
struct Sheet {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    rows: Vec<SheetRow>,
}

#[derive(Deserialize)]
struct SheetRow {
    name: String,
    depth: u32,
    per_request: Option<Ns>,
}

#[derive(Deserialize)]
struct Ns {
    ns: Option<f64>,
}

impl SheetRow {
    fn ns(&self) -> Option<f64> {
        self.per_request.as_ref()?.ns
    }
}

/// All lines, in the order in which they were written.
///
/// # Errors
/// [`LogError`]: not readable. A file that is not there has no lines.
pub fn lines(path: &Path) -> Result<Vec<CommitLine>, LogError> {
    let text = if path.exists() { read(path)? } else { String::new() };
    let wrong = |line| move |source| LogError::Json { path: path.into(), line, source };
    (1..)
        .zip(text.lines())
        .map(|(at, text)| serde_json::from_str(text).map_err(wrong(at)))
        .collect()
}

/// Appends a line. One that is there for the same commit is replaced, so that whoever runs it twice changes nothing.
///
/// # Errors
/// [`LogError`]: not writable.
pub fn append(path: &Path, line: &CommitLine) -> Result<(), LogError> {
    let mut all = lines(path)?;
    match all.iter_mut().find(|known| known.commit == line.commit) {
        Some(known) => known.clone_from(line),
        None => all.push(line.clone()),
    }
    let mut text = String::new();
    for line in &all {
        let json = serde_json::to_string(line).map_err(|source| LogError::Json {
            path: path.into(),
            line: 0,
            source,
        })?;
        text.push_str(&json);
        text.push('\n');
    }
    // A cut file would be refused by the next reading; a rename leaves the old one or the new one.
    let new = path.with_extension("jsonl.new");
    let io = |source| LogError::Io { path: path.into(), source };
    std::fs::write(&new, text).map_err(io)?;
    std::fs::rename(&new, path).map_err(io)
}

fn read(path: &Path) -> Result<String, LogError> {
    std::fs::read_to_string(path).map_err(|source| LogError::Io { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn line(commit: &str, decide: f64) -> CommitLine {
        CommitLine {
            commit: commit.into(),
            date: "2026-11-22".into(),
            subject: "What is true now".into(),
            tools: "0123456789abcdef".into(),
            machine: "2 cores".into(),
            counts: [("decide".to_string(), decide)].into(),
            misses: BTreeMap::new(),
            clock: BTreeMap::new(),
            same: false,
            sheet: None,
        }
    }

    #[test]
    fn a_commit_has_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("commits.jsonl");
        assert!(lines(&path).unwrap().is_empty());
        for (commit, decide) in [("a", 1.0), ("b", 2.0), ("a", 3.0)] {
            append(&path, &line(commit, decide)).unwrap();
        }
        assert_eq!(lines(&path).unwrap(), [line("a", 3.0), line("b", 2.0)]);
        std::fs::write(&path, "{\"commit\":").unwrap();
        assert!(matches!(append(&path, &line("c", 1.0)), Err(LogError::Json { line: 1, .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"commit\":", "left alone");
    }

    #[test]
    fn a_sheet_is_cut_to_the_rows_that_are_added_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sheet.json");
        let row = |name: &str, depth, ns: &str| {
            format!(r#"{{"name":"{name}","depth":{depth},"per_request":{ns},"more":1}}"#)
        };
        let rows = [row("table", 0, r#"{"ns":24.2}"#), row("plan", 1, r#"{"ns":3}"#)];
        let below = row("wire", 0, r#"{"below_ns":0.8}"#);
        let text = format!(
            r#"{{"batch":{{"groups":[{{"name":"worker","rows":[{},{below}]}}]}}}}"#,
            rows.join(",")
        );
        std::fs::write(&path, text).unwrap();
        let sheet = read_sheet(&path).unwrap();
        assert_eq!(sheet["batch"], [("worker: table".to_string(), 24.2)].into());
    }
}
