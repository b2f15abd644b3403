//! Everything in order: runs and segments merged.

use std::sync::Arc;

use crate::merge::{Merger, Rule, Source};
use crate::run::{Run, RunReader};
use crate::segment::Segment;
use crate::{Record, StoreError};

/// The number of records that are read between two words about the progress.
const PROGRESS_RECORDS: u64 = 65_536;

/// All records of a store as it was when this was made, folded into one for each key, sub and window, in this
/// order. It does not borrow the store: runs that are merged or dropped meanwhile stay readable.
#[derive(Debug)]
pub struct Scan<R> {
    merger: Merger<R>,
    group: Vec<R>,
    next: usize,
    failed: bool,
}

impl<R: Record> Scan<R> {
    pub(super) fn new(
        runs: &[Arc<Run>],
        segments: &[Segment],
        rule: Rule,
    ) -> Result<Scan<R>, StoreError> {
        let mut sources = Vec::with_capacity(runs.len() + segments.len());
        for run in runs {
            sources.push((run.meta.window_ms, Source::Run(RunReader::new(Arc::clone(run)))));
        }
        for segment in segments {
            sources.push((segment.meta.window_ms, Source::unsorted(segment.read()?)));
        }
        let merger = Merger::new(sources, rule)?;
        Ok(Scan { merger, group: vec![], next: 0, failed: false })
    }

    pub(super) fn fold_all(
        mut self,
        records: u64,
        mut each: impl FnMut(&R),
        mut progress: impl FnMut(u64, u64),
    ) -> Result<u64, StoreError> {
        let (mut given, mut said) = (0, 0);
        while let Some(group) = self.merger.next_group()? {
            group.iter().for_each(&mut each);
            given += group.len() as u64;
            let read = self.merger.read();
            if read - said >= PROGRESS_RECORDS {
                said = read;
                progress(read, records);
            }
        }
        progress(self.merger.read(), records);
        Ok(given)
    }

    /// Fetches groups until one has records. Says whether there is one.
    fn fetch(&mut self) -> Result<bool, StoreError> {
        self.next = 0;
        self.group.clear();
        while self.group.is_empty() {
            let Some(group) = self.merger.next_group()? else { return Ok(false) };
            self.group.extend_from_slice(group);
        }
        Ok(true)
    }
}

impl<R: Record> Iterator for Scan<R> {
    type Item = Result<R, StoreError>;

    fn next(&mut self) -> Option<Result<R, StoreError>> {
        if self.failed {
            return None;
        }
        if self.next == self.group.len() {
            match self.fetch() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        self.next += 1;
        self.group.get(self.next - 1).copied().map(Ok)
    }
}
