//! When to merge and when to drop: pure functions from the list of runs to a choice.

mod leveled;
mod size_tiered;
mod time_window;

pub use leveled::{LEVELS_MAX, Leveled};
pub use size_tiered::SizeTiered;
pub use time_window::TimeWindow;

/// Number of a run, unique in its store for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// What is known of a run without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMeta {
    /// Its number.
    pub id: RunId,
    /// How often it was merged, or its level; as the policy said. A sealed segment is at level 0.
    pub level: u8,
    /// Start of its window, milliseconds since the Unix epoch; 0 without windows.
    pub window_ms: u64,
    /// Number of the newest record that went into it, counted over all appends.
    pub seq_max: u64,
    /// Records in it.
    pub records: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// Its least key.
    pub key_min: u64,
    /// Its greatest key.
    pub key_max: u64,
    /// Time of its oldest record.
    pub time_min_ms: u64,
    /// Time of its newest record.
    pub time_max_ms: u64,
}

impl RunMeta {
    /// Do the key ranges of two runs meet?
    #[must_use]
    pub fn overlaps(&self, other: &RunMeta) -> bool {
        self.key_min <= other.key_max && other.key_min <= self.key_max
    }

    /// The order of runs by age, oldest first: a deeper level holds older records of a key.
    #[must_use]
    pub fn age(&self) -> (u64, std::cmp::Reverse<u8>, u64) {
        (self.window_ms, std::cmp::Reverse(self.level), self.seq_max)
    }
}

/// The window that a time falls into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Where it begins, milliseconds since the Unix epoch; its name.
    pub start_ms: u64,
    /// From here on no record is taken into it any more.
    pub closes_ms: u64,
    /// From here on nobody needs its records.
    pub dead_ms: u64,
}

impl Window {
    /// The only window where there are no windows.
    pub const ALWAYS: Window = Window { start_ms: 0, closes_ms: u64::MAX, dead_ms: u64::MAX };
}

/// What a policy wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All is as it should be, until there are more runs or it is later.
    Nothing,
    /// Make one sorted sequence of these runs, which are all of one window.
    Merge {
        /// Which. One alone is rewritten, without what is dead in it.
        runs: Vec<RunId>,
        /// Level of what comes out.
        level: u8,
        /// The result is cut into runs of about this many bytes, never within a key.
        run_bytes_max: u64,
    },
    /// Unlink these runs: nobody needs anything in them.
    Drop(Vec<RunId>),
}

/// When to merge, and when to drop. Implementations are pure: the same list and time give the same choice.
pub trait Policy {
    /// A number for the kind of policy. A store written under another kind is refused: runs mean something
    /// different there.
    fn tag(&self) -> u32;

    /// The window of a time. A record is written to its window's own files, and stays there.
    fn window(&self, time_ms: u64) -> Window {
        let _ = time_ms;
        Window::ALWAYS
    }

    /// Records older than this are left out when their run is rewritten.
    fn dead_before_ms(&self, now_ms: u64) -> u64 {
        let _ = now_ms;
        0
    }

    /// What to do about these runs now. Following the choices must come to [`Choice::Nothing`].
    fn choose(&self, runs: &[RunMeta], now_ms: u64) -> Choice;
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn tag(&self) -> u32 {
        (**self).tag()
    }

    fn window(&self, time_ms: u64) -> Window {
        (**self).window(time_ms)
    }

    fn dead_before_ms(&self, now_ms: u64) -> u64 {
        (**self).dead_before_ms(now_ms)
    }

    fn choose(&self, runs: &[RunMeta], now_ms: u64) -> Choice {
        (**self).choose(runs, now_ms)
    }
}

/// What policies without windows do about age: a run that is dead as a whole goes; one that holds records
/// dead for `keep_ms` already is rewritten without them. So nothing stays longer than twice `keep_ms`.
fn expire(runs: &[RunMeta], keep_ms: Option<u64>, now_ms: u64) -> Choice {
    let Some(keep_ms) = keep_ms else { return Choice::Nothing };
    let dead_before_ms = now_ms.saturating_sub(keep_ms);
    let dead: Vec<RunId> =
        runs.iter().filter(|run| run.time_max_ms < dead_before_ms).map(|run| run.id).collect();
    if !dead.is_empty() {
        return Choice::Drop(dead);
    }
    let overdue_before_ms = dead_before_ms.saturating_sub(keep_ms);
    let overdue = runs.iter().find(|run| run.time_min_ms < overdue_before_ms);
    overdue.map_or(Choice::Nothing, |run| Choice::Merge {
        runs: vec![run.id],
        level: run.level,
        run_bytes_max: u64::MAX,
    })
}

/// The records before which all is dead, for [`expire`].
fn dead_before_ms(keep_ms: Option<u64>, now_ms: u64) -> u64 {
    keep_ms.map_or(0, |keep_ms| now_ms.saturating_sub(keep_ms))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run at level 0 with these many bytes.
    pub(crate) fn run(id: u64, bytes: u64) -> RunMeta {
        RunMeta {
            id: RunId(id),
            level: 0,
            window_ms: 0,
            seq_max: id,
            records: bytes,
            bytes,
            key_min: 0,
            key_max: u64::MAX,
            time_min_ms: 1_000,
            time_max_ms: 2_000,
        }
    }

    #[test]
    fn a_run_goes_once_its_newest_record_is_dead() {
        let runs = [run(1, 10), RunMeta { time_max_ms: 5_000, ..run(2, 10) }];
        assert_eq!(expire(&runs, None, u64::MAX), Choice::Nothing);
        assert_eq!(expire(&runs, Some(1_000), 3_000), Choice::Nothing);
        assert_eq!(expire(&runs, Some(1_000), 3_001), Choice::Drop(vec![RunId(1)]));
    }

    #[test]
    fn a_run_is_rewritten_once_its_oldest_record_is_overdue() {
        let runs = [RunMeta { time_max_ms: 50_000, ..run(1, 10) }];
        assert_eq!(expire(&runs, Some(1_000), 3_000), Choice::Nothing);
        let rewrite = Choice::Merge { runs: vec![RunId(1)], level: 0, run_bytes_max: u64::MAX };
        assert_eq!(expire(&runs, Some(1_000), 3_001), rewrite);
    }

    #[test]
    fn deeper_levels_are_older() {
        let newer = run(3, 1);
        let older = RunMeta { level: 1, seq_max: 9, ..run(2, 1) };
        assert!(older.age() < newer.age());
        assert!(run(2, 1).age() < newer.age());
    }
}
