//! What was accepted: the figures that the gate compares with, and every time that somebody changed them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::callgrind::Count;
use crate::toolchain::Toolchain;
use crate::workload::Name;

/// A function or a file with a smaller part of a workload than this is not written down.
const PART_MIN: f64 = 0.000_5;

/// The figures of all workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// What they were counted with.
    #[serde(flatten)]
    pub toolchain: Toolchain,
    /// By name of the workload.
    pub workloads: BTreeMap<String, Figures>,
}

/// The figures of one workload, instructions per operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// All.
    pub instructions: f64,
    /// What an operation is.
    pub unit: String,
    /// Those of each function, without what it calls.
    pub functions: BTreeMap<String, f64>,
    /// Those of each source file, wherever its code was inlined.
    pub files: BTreeMap<String, f64>,
    /// Those of each crate: of the lines that stand in its files. Figures of before 2026-11-22 have none.
    #[serde(default)]
    pub crates: BTreeMap<String, f64>,
    /// Misses of the simulated caches an operation, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misses: Option<Misses>,
}

/// Reads and writes of data that the simulated caches missed, an operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Misses {
    /// Of the first level, 32 KiB.
    pub first: f64,
    /// Of the last level, 1 MiB.
    pub last: f64,
}

/// One change of the baseline: a line of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, year-month-day.
    pub date: String,
    /// The commit that it was made on top of.
    pub on_top_of: String,
    /// Why the figures may be as they are.
    pub reason: String,
    /// The version that was released with these figures: what comes after is added up from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// What was counted with.
    #[serde(flatten)]
    pub toolchain: Toolchain,
    /// By name of the workload.
    pub workloads: BTreeMap<String, FigureStep>,
}

/// What became of a workload's figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureStep {
    /// Instructions per operation, before; none for the first.
    pub before: Option<f64>,
    /// And now.
    pub after: f64,
    /// Cycles an operation on the machine where it was accepted, where that one shows them.
    pub cycles: Option<f64>,
}

/// Where the two files are, or what is wrong with them.
#[derive(Clone, Debug)]
pub struct Files {
    baseline: PathBuf,
    history: PathBuf,
}

/// What is wrong with the files.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The system does not let us.
    #[error("{path}: {source}; run this from the repository's root, or say --baseline")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Not as they are written here.
    #[error("{path}, line {line}: {source}; restore the committed file")]
    Json {
        /// Which file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The two files tell different stories.
    #[error(
        "{workload}: the baseline says {baseline:?} instructions, the last line of the history {history:?}; \
         nobody edits these files by hand: make costs-accept REASON=\"...\""
    )]
    Edited {
        /// Which figure.
        workload: String,
        /// In the baseline.
        baseline: Option<f64>,
        /// In the history.
        history: Option<f64>,
    },
    /// The two files name different tools.
    #[error(
        "the baseline says that it was counted with {baseline}, the last line of the history {history}; \
         nobody edits these files by hand: make costs-accept REASON=\"...\""
    )]
    EditedTools {
        /// In the baseline.
        baseline: Box<Toolchain>,
        /// In the history.
        history: Box<Toolchain>,
    },
    /// Nothing was accepted so far.
    #[error(
        "{0} has no figures of this workload; make costs-accept REASON=\"...\" takes the first ones"
    )]
    NoFigures(PathBuf),
}

impl Figures {
    /// What a count says, rounded to what a person can read.
    #[must_use]
    pub fn of(name: Name, count: &Count) -> Figures {
        let least = count.instructions() * PART_MIN;
        let mut crates: BTreeMap<String, u64> = BTreeMap::new();
        for (file, part) in &count.profile.files {
            *crates.entry(crate_of(file).to_string()).or_default() += part;
        }
        let crates = crates.iter().map(|(name, part)| (name.clone(), rounded(count.each(*part))));
        let misses = |of: crate::callgrind::MissCounts| Misses {
            first: rounded(count.each(of.first)),
            last: rounded(count.each(of.last)),
        };
        let parts = |all: &BTreeMap<String, u64>| {
            let each = all.iter().map(|(name, part)| (name.clone(), count.each(*part)));
            each.filter(|(_, part)| *part >= least)
                .map(|(name, part)| (name, rounded(part)))
                .collect()
        };
        Figures {
            instructions: rounded(count.instructions()),
            unit: name.unit().to_string(),
            functions: parts(&count.profile.functions),
            files: parts(&count.profile.files),
            crates: crates.collect(),
            misses: count.profile.misses.map(misses),
        }
    }
}

/// The crate that a source file belongs to: its folder in the repository or in the standard library, or its package. What
/// has none of these (files of the C library) stands for itself.
fn crate_of(file: &str) -> &str {
    let file = file.trim_start_matches("./");
    let ends = |slashes: usize| file.match_indices('/').nth(slashes - 1).map(|(at, _)| at);
    let own = ["crates/", "proof/", "library/"].iter().any(|root| file.starts_with(root));
    if let Some((package, _)) = file.split_once(", generated: ") {
        return package;
    }
    // What the standard library is built with: `/rust/deps/hashbrown-0.16.1/src/map.rs`.
    if let Some((folder, _)) = file.split_once("/src/").filter(|_| file.starts_with('/')) {
        return folder.rsplit('/').next().unwrap_or(folder);
    }
    ends(if own { 2 } else { 1 }).map_or(file, |end| &file[..end])
}

/// To thousandths.
fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

impl Entry {
    /// From one baseline, or none, to the next.
    #[must_use]
    pub fn of(
        before: Option<&Baseline>,
        after: &Baseline,
        reason: &str,
        on_top_of: String,
        cycles: impl Fn(&str) -> Option<f64>,
    ) -> Entry {
        let step = |(name, figures): (&String, &Figures)| {
            let former = before.and_then(|before| before.workloads.get(name));
            let before = former.map(|figures| figures.instructions);
            let cycles = cycles(name).map(rounded);
            (name.clone(), FigureStep { before, after: figures.instructions, cycles })
        };
        Entry {
            date: jiff::Zoned::now().strftime("%Y-%m-%d").to_string(),
            on_top_of,
            reason: reason.to_string(),
            release: None,
            toolchain: after.toolchain.clone(),
            workloads: after.workloads.iter().map(step).collect(),
        }
    }
}

/// What the accepted steps of a workload come to since the last release, or since the first line: the factor between the
/// figure of that line and the last one. A step to other tools is none of ours, and left out.
#[must_use]
pub fn since_release(history: &[Entry], workload: &str) -> f64 {
    let release = history.iter().rposition(|entry| entry.release.is_some()).unwrap_or(0);
    let mut factor = 1.0;
    for pair in history[release.min(history.len())..].windows(2) {
        let same_tools = pair[0].toolchain == pair[1].toolchain;
        if let Some(FigureStep { before: Some(before), after, .. }) =
            pair[1].workloads.get(workload)
            && same_tools
        {
            factor *= after / before;
        }
    }
    factor
}

impl Files {
    /// The history lies beside the baseline.
    #[must_use]
    pub fn new(baseline: &Path) -> Files {
        Files { baseline: baseline.to_owned(), history: baseline.with_file_name("history.jsonl") }
    }

    /// The baseline, once it is sure that the history tells of it; `None` where nothing was accepted so far.
    ///
    /// # Errors
    /// [`FilesError`]: not readable, or edited by hand.
    pub fn read(&self) -> Result<Option<Baseline>, FilesError> {
        let Some(text) = read(&self.baseline)? else { return Ok(None) };
        let baseline: Baseline = self.parse(&self.baseline, 1, &text)?;
        let history = self.history()?;
        if let Some(last) = history.last().filter(|last| last.toolchain != baseline.toolchain) {
            let (baseline, history) =
                (Box::new(baseline.toolchain), Box::new(last.toolchain.clone()));
            return Err(FilesError::EditedTools { baseline, history });
        }
        let said = |workload: &String| Some(history.last()?.workloads.get(workload)?.after);
        for (workload, figures) in &baseline.workloads {
            let (own, history) = (Some(figures.instructions), said(workload));
            if own != history {
                let workload = workload.clone();
                return Err(FilesError::Edited { workload, baseline: own, history });
            }
        }
        Ok(Some(baseline))
    }

    /// Where the history is.
    #[must_use]
    pub fn history_path(&self) -> &Path {
        &self.history
    }

    /// All changes, the oldest first.
    ///
    /// # Errors
    /// [`FilesError`]: not readable.
    pub fn history(&self) -> Result<Vec<Entry>, FilesError> {
        let text = read(&self.history)?.unwrap_or_default();
        let lines = (1..).zip(text.lines());
        lines.map(|(line, text)| self.parse(&self.history, line, text)).collect()
    }

    /// The figures of one workload.
    ///
    /// # Errors
    /// [`FilesError`]: not readable, or none there.
    pub fn figures(&self, name: Name) -> Result<Figures, FilesError> {
        let baseline = self.read()?;
        let figures = baseline.and_then(|mut baseline| baseline.workloads.remove(name.as_str()));
        figures.ok_or_else(|| FilesError::NoFigures(self.baseline.clone()))
    }

    /// Writes a new baseline and its line of the history. The line comes first: if only one of the two is written, the
    /// next reading refuses them.
    ///
    /// # Errors
    /// [`FilesError`]: not writable.
    pub fn write(&self, baseline: &Baseline, entry: &Entry) -> Result<(), FilesError> {
        let mut lines = read(&self.history)?.unwrap_or_default();
        let json = |source| FilesError::Json { path: self.history.clone(), line: 0, source };
        lines.push_str(&serde_json::to_string(entry).map_err(json)?);
        lines.push('\n');
        write(&self.history, &lines)?;
        let text = serde_json::to_string_pretty(baseline).map_err(json)?;
        write(&self.baseline, &format!("{text}\n"))
    }

    fn parse<'a, T: Deserialize<'a>>(
        &self,
        path: &Path,
        line: usize,
        text: &'a str,
    ) -> Result<T, FilesError> {
        let wrong = |source: serde_json::Error| {
            let line = line + source.line().saturating_sub(1);
            FilesError::Json { path: path.to_owned(), line, source }
        };
        serde_json::from_str(text).map_err(wrong)
    }
}

fn read(path: &Path) -> Result<Option<String>, FilesError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FilesError::Io { path: path.to_owned(), source }),
    }
}

fn write(path: &Path, text: &str) -> Result<(), FilesError> {
    let error = |source| FilesError::Io { path: path.to_owned(), source };
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(""))).map_err(error)?;
    std::fs::write(path, text).map_err(error)
}
