//! Opening: what the manifest names is read and checked, torn tails are cut, everything else of ours is removed.

use std::path::Path;
use std::sync::Arc;

use super::{Options, Stats, Store};
use crate::format::same;
use crate::manifest::{self, Manifest};
use crate::run::Run;
use crate::segment::Segment;
use crate::{Policy, Record, RunMeta, StoreError};

const LOCK: &str = "LOCK";

/// What opening a store found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Records that are there, sealed or not, before folding.
    pub records: u64,
    /// Segments that end in a torn write: an append that never returned, or one that a power cut took.
    pub cut_segments: u64,
    /// Bytes cut off them.
    pub cut_bytes: u64,
    /// Files of merges, seals and removals that were not finished.
    pub removed_files: u64,
}

impl<R: Record, P: Policy> Store<R, P> {
    /// Opens the store in `folder`, or makes one. Segments of an earlier process are closed; they are sealed by
    /// the next [`Store::maintain`].
    ///
    /// # Errors
    /// The folder is in use, was written for other records or another policy, is damaged, or the disk refuses.
    pub fn open(
        folder: &Path,
        policy: P,
        options: Options,
    ) -> Result<(Store<R, P>, Recovered), StoreError> {
        disk::make_folder(folder)?;
        let lock = disk::lock(&folder.join(LOCK))?;
        let manifest = read_manifest::<R>(folder, policy.tag())?;
        let mut recovered = Recovered::default();
        let mut store = Store {
            runs: open_runs::<R>(folder, &manifest.runs)?,
            metas: vec![],
            segments: recover_segments::<R>(folder, &manifest, &mut recovered)?,
            job: None,
            next_number: next_number(folder, &manifest)?,
            seq: manifest.seq,
            stats: Stats::default(),
            broken: false,
            shares: vec![],
            blocks: vec![],
            folder: folder.to_owned(),
            policy,
            options,
            _lock: lock,
        };
        store.metas = store.runs.iter().map(|run| run.meta).collect();
        let newest = store.segments.iter().map(|segment| segment.seq_max).max();
        store.seq = store.seq.max(newest.unwrap_or(0));
        store.write_manifest(&store.manifest())?;
        recovered.removed_files = store.remove_left_overs()?;
        recovered.records = store.records();
        Ok((store, recovered))
    }

    /// Removes the store's files that the manifest does not name. Other files are none of ours.
    fn remove_left_overs(&self) -> Result<u64, StoreError> {
        let runs = self.runs.iter().map(|run| run.path());
        let ours: Vec<&Path> = runs.chain(self.segments.iter().map(Segment::path)).collect();
        let names = disk::names(&self.folder)?;
        let strays =
            names.iter().filter(|name| number(name).is_some() || *name == manifest::TEMPORARY);
        let strays = strays.map(|name| self.folder.join(name));
        let removed = strays.filter(|path| !ours.contains(&path.as_path()) && disk::remove(path));
        Ok(removed.count() as u64)
    }
}

fn read_manifest<R: Record>(folder: &Path, tag: u32) -> Result<Manifest, StoreError> {
    if let Some(manifest) = Manifest::read::<R>(folder)? {
        same(&folder.join(manifest::NAME), "policy tag", manifest.tag, tag)?;
        return Ok(manifest);
    }
    let files = disk::names(folder)?.iter().filter(|name| number(name).is_some()).count();
    if files > 0 {
        return Err(StoreError::NoManifest { folder: folder.to_owned(), files });
    }
    Ok(Manifest { tag, next_number: 1, ..Manifest::default() })
}

fn open_runs<R: Record>(folder: &Path, metas: &[RunMeta]) -> Result<Vec<Arc<Run>>, StoreError> {
    metas.iter().map(|meta| Run::open::<R>(folder, *meta).map(Arc::new)).collect()
}

fn recover_segments<R: Record>(
    folder: &Path,
    manifest: &Manifest,
    recovered: &mut Recovered,
) -> Result<Vec<Segment>, StoreError> {
    let mut segments = Vec::with_capacity(manifest.segments.len());
    for meta in &manifest.segments {
        let (segment, cut_bytes) = Segment::recover::<R>(folder, *meta)?;
        if cut_bytes > 0 {
            recovered.cut_segments += 1;
            recovered.cut_bytes += cut_bytes;
            tracing::warn!(path = %segment.path().display(), cut_bytes, "cut the torn end of a segment");
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// No number is used twice, not even one of a left-over.
fn next_number(folder: &Path, manifest: &Manifest) -> Result<u64, StoreError> {
    let names = disk::names(folder)?;
    let seen = names.iter().filter_map(|name| number(name)).max();
    Ok(manifest.next_number.max(seen.map_or(0, |number| number.saturating_add(1))))
}

/// The number in the name of a segment or run.
fn number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".seg").or_else(|| name.strip_suffix(".run"))?;
    if number.len() < 12 { None } else { number.parse().ok() }
}
