//! A kill or a loss of power at any operation while versions are rotated and messages are counted.

use std::collections::BTreeMap;

use disk::planted::Recording;

use super::*;

/// Messages that are taken at once: a block is reserved at about every third time.
const MESSAGES: u64 = 50_000;

/// What was acknowledged.
#[derive(Clone, Debug, Default)]
struct Told {
    latest: u32,
    least: u32,
    /// The messages of each version that were given.
    given: BTreeMap<u32, u64>,
}

impl Told {
    /// Does one thing to the key `a`: counts messages of its latest version, rotates it, or destroys all but the last few versions, so that
    /// the keys need little and the file is written anew.
    fn work(&mut self, store: &mut Store, step: u64) {
        let (of, latest) = (name("a"), store.keys().get("a").unwrap().versions().latest());
        let changes = match step % 8 {
            0 => {
                self.least = latest.saturating_sub(4).max(1);
                let least = Some(self.least);
                let config = KeyConfig {
                    min_decryption: least,
                    min_encryption: least,
                    ..KeyConfig::default()
                };
                let trim = Change::Trim { name: of.clone(), min_available: self.least };
                vec![Change::Configure { name: of, config }, trim]
            }
            1 | 5 => vec![Change::Rotate(of)],
            _ => vec![Change::Reserve { name: of, version: latest, messages: MESSAGES }],
        };
        let is_use = matches!(changes[0], Change::Reserve { .. });
        changes.iter().for_each(|change| assert!(store.change(change, 1_000).is_ok()));
        let versions = store.keys().get("a").unwrap().versions();
        self.latest = versions.latest();
        if is_use {
            let count = versions.get(latest).unwrap().count();
            count.take(MESSAGES).unwrap();
            self.given.insert(latest, count.used());
        }
    }

    fn judge(&self, store: &Store) {
        let key = store.keys().get("a").unwrap();
        let (versions, least) = (key.versions(), key.policy().min_available);
        assert!((self.latest..=self.latest + 1).contains(&versions.latest()), "{self:?}");
        assert!(least >= self.least, "{least} {self:?}");
        for (version, given) in &self.given {
            let used = versions.get(*version).map(|found| found.count().used());
            let is_sound = used.map_or(*version < least, |used| used >= *given);
            assert!(is_sound, "version {version}: {used:?} {self:?}");
        }
    }
}

#[test]
fn at_any_ending_versions_never_go_back_and_no_message_is_counted_twice() {
    let root = folder();
    Recording::begin(root.path());
    let mut store = unsealed(root.path(), SMALL);
    store.change(&change(0), 1_000).unwrap();
    let mut told = vec![(Recording::length(), Told { latest: 1, ..Told::default() })];
    for step in 1..100 {
        let mut next = told[told.len() - 1].1.clone();
        next.work(&mut store, step);
        told.push((Recording::length(), next));
    }
    let recording = Recording::end(root.path());
    assert!(recording.renames_of("keys.new") > 5, "the file was written anew in between");
    let is_begun = |at: usize| at >= told[0].0;
    recording.at_each_ending(2, is_begun, |ending, left| {
        let (_, told) = told.iter().rfind(|told| told.0 <= ending.at).unwrap();
        told.judge(&unsealed(left, SMALL));
    });
}
