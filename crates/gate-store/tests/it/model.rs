//! Any order of operations against a map that holds everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use disk::planted::folder;
use gate_store::{Leveled, Policy, Progress, SizeTiered, Store, TimeWindow};
use proptest::prelude::*;

use crate::sample::{Delta, LIFE_MS, counts, open, settle};

#[derive(Clone, Debug)]
enum Step {
    /// Append new deltas: key, sub, has an id, how long ago.
    Append(Vec<(u64, u64, bool, u64)>),
    /// Append some of the old ones once more, counted back from the newest.
    Repeat(Vec<usize>),
    Wait(u64),
    Maintain(u64),
    Settle,
    Seal,
    Reopen,
    /// The process dies within an append and a merge: a torn block, a run and a manifest half written.
    Crash(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let delta = (0..12_u64, 0..3_u64, any::<bool>(), 0..300_u64);
    prop_oneof![
        6 => prop::collection::vec(delta, 1..40).prop_map(Step::Append),
        2 => prop::collection::vec(0..60_usize, 1..20).prop_map(Step::Repeat),
        3 => (1..150_u64).prop_map(Step::Wait),
        3 => (1..60_u64).prop_map(Step::Maintain),
        1 => Just(Step::Settle),
        1 => Just(Step::Seal),
        1 => Just(Step::Reopen),
        1 => prop::collection::vec(any::<u8>(), 1..90).prop_map(Step::Crash),
    ]
}

struct Play<'a, P: Policy + Copy> {
    folder: &'a Path,
    policy: P,
    store: Option<Store<Delta, P>>,
    now_ms: u64,
    next_id: u64,
    appended: Vec<Delta>,
    /// What is due, and the ids that counted.
    model: BTreeMap<(u64, u64, u64), u64>,
    ids: BTreeSet<u64>,
}

impl<P: Policy + Copy> Play<'_, P> {
    fn store(&mut self) -> &mut Store<Delta, P> {
        self.store.as_mut().unwrap()
    }

    fn append(&mut self, deltas: &[Delta]) {
        let now_ms = self.now_ms;
        let taken = |delta: &&Delta| self.policy.window(delta.time_ms).closes_ms > now_ms;
        let late = deltas.iter().filter(|delta| !taken(delta)).count() as u64;
        for delta in deltas.iter().filter(taken) {
            if delta.id == 0 || self.ids.insert(delta.id) {
                let window_ms = self.policy.window(delta.time_ms).start_ms;
                *self.model.entry((delta.key, delta.sub, window_ms)).or_default() += delta.count;
            }
        }
        let before = self.store().seq();
        let appended = self.store().append(deltas, now_ms).unwrap();
        assert_eq!((appended.late, appended.early), (late, 0));
        assert_eq!(appended.seq, before + deltas.len() as u64 - late);
    }

    fn new_deltas(&mut self, from: &[(u64, u64, bool, u64)]) -> Vec<Delta> {
        let made = from.iter().map(|&(key, sub, has_id, ago_ms)| {
            self.next_id += 1;
            let id = if has_id { self.next_id } else { 0 };
            Delta { key, sub, id, time_ms: self.now_ms - ago_ms, count: self.next_id % 5 + 1 }
        });
        made.collect()
    }

    /// A repeat is recognised within the life of its id, or until its window closes.
    fn repeats(&self, back: &[usize]) -> Vec<Delta> {
        let repeatable = |delta: &Delta| {
            let windowed = self.policy.window(delta.time_ms).closes_ms != u64::MAX;
            delta.id != 0 && (windowed || delta.time_ms + LIFE_MS > self.now_ms)
        };
        let old = back.iter().filter_map(|back| self.appended.iter().nth_back(*back));
        old.copied().filter(repeatable).collect()
    }

    fn step(&mut self, step: Step) {
        let now_ms = self.now_ms;
        match step {
            Step::Append(deltas) => {
                let deltas = self.new_deltas(&deltas);
                self.append(&deltas);
                self.appended.extend(deltas);
            }
            Step::Repeat(back) => self.append(&self.repeats(&back)),
            Step::Wait(ms) => self.now_ms += ms,
            Step::Maintain(records) => drop(self.store().maintain(now_ms, records).unwrap()),
            Step::Settle => settle(self.store(), now_ms),
            Step::Seal => {
                self.store().seal(now_ms).unwrap();
                assert_eq!(self.store().unsealed(), 0);
                self.check_gets();
            }
            Step::Reopen => self.reopen(),
            Step::Crash(torn) => self.crash(&torn),
        }
        self.check();
    }

    fn reopen(&mut self) {
        let seq = self.store().seq();
        self.store = None;
        self.store = Some(open(self.folder, self.policy));
        assert_eq!(self.store().seq(), seq);
    }

    fn crash(&mut self, torn: &[u8]) {
        self.store = None;
        let names = std::fs::read_dir(self.folder).unwrap().map(|entry| entry.unwrap().path());
        let newest = names.filter(|path| path.extension().is_some_and(|e| e == "seg")).max();
        let is_open = |path: &std::path::PathBuf| is_open(self.folder, path);
        if let Some(newest) = newest.filter(is_open) {
            OpenOptions::new().append(true).open(newest).unwrap().write_all(torn).unwrap();
        }
        std::fs::write(self.folder.join("999999999999.run"), torn).unwrap();
        std::fs::write(self.folder.join("MANIFEST.tmp"), torn).unwrap();
        self.store = Some(open(self.folder, self.policy));
        assert!(!self.folder.join("999999999999.run").exists());
        assert!(!self.folder.join("MANIFEST.tmp").exists());
    }

    /// What the model says is there, but for windows that may be gone.
    fn alive(&self) -> BTreeMap<(u64, u64, u64), u64> {
        let mut alive = self.model.clone();
        alive.retain(|place, _| self.policy.window(place.2).dead_ms > self.now_ms);
        alive
    }

    fn check(&mut self) {
        let mut found = counts(self.store.as_ref().unwrap(), self.policy, self.now_ms);
        found.retain(|place, _| self.policy.window(place.2).dead_ms > self.now_ms);
        assert_eq!(found, self.alive());
    }

    fn check_gets(&mut self) {
        let mut found = BTreeMap::new();
        for key in 0..13 {
            let mut records = vec![];
            self.store.as_ref().unwrap().get(key, self.now_ms, &mut records).unwrap();
            for delta in records {
                let window = self.policy.window(delta.time_ms);
                if window.dead_ms > self.now_ms {
                    let before = found.insert((delta.key, delta.sub, window.start_ms), delta.count);
                    assert_eq!(before, None, "one record for each key, sub and window");
                }
            }
        }
        assert_eq!(found, self.alive());
    }

    /// At the end nothing is due, and nothing dead is left.
    fn finish(mut self) {
        let now_ms = self.now_ms;
        settle(self.store(), now_ms);
        assert_eq!(self.store().maintain(now_ms, 1).unwrap(), Progress::Idle);
        assert_eq!(counts(self.store.as_ref().unwrap(), self.policy, now_ms), self.alive());
        self.store().seal(now_ms).unwrap();
        self.check_gets();
    }
}

/// Is the file one that is still written to, as the manifest says? Only such a one can have a torn end.
fn is_open(folder: &Path, path: &Path) -> bool {
    let number: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let manifest = std::fs::read(folder.join("MANIFEST")).unwrap();
    let number_at = |at: usize| u64::from_le_bytes(manifest[at..][..8].try_into().unwrap());
    let segments_at = 64 + usize::try_from(number_at(40)).unwrap() * 80;
    let segments = (segments_at..manifest.len()).step_by(24);
    segments.into_iter().any(|at| number_at(at) == number && number_at(at + 16) == u64::MAX)
}

fn play<P: Policy + Copy>(policy: P, steps: Vec<Step>) {
    let folder = folder();
    let mut play = Play {
        folder: folder.path(),
        policy,
        store: Some(open(folder.path(), policy)),
        now_ms: 10_000,
        next_id: 0,
        appended: vec![],
        model: BTreeMap::new(),
        ids: BTreeSet::new(),
    };
    steps.into_iter().for_each(|step| play.step(step));
    play.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn size_tiered_is_the_model(steps in prop::collection::vec(step(), 1..60)) {
        play(SizeTiered { fan_in: 2, keep_ms: None }, steps);
    }

    #[test]
    fn leveled_is_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let policy = Leveled {
            level0_runs: 2,
            level1_bytes: 1_500,
            ratio: 2,
            run_bytes_max: 600,
            keep_ms: None,
        };
        play(policy, steps);
    }

    #[test]
    fn time_window_is_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let within = SizeTiered { fan_in: 2, keep_ms: None };
        play(TimeWindow { window_ms: 250, lateness_ms: 100, keep_ms: 400, within }, steps);
    }
}
