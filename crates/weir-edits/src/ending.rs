//! The number of budgets a file may end at once, just by not naming them: a file that is cut or empty for a moment ends none.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::{fmt, io};

use serde::{Deserialize, Serialize};
use weir_budgets::budgets::Line;

/// Ids that a refusal names.
const IDS_TOLD: usize = 5;
/// Of a few budgets one may always go, but never the last.
const ENDED_MIN: usize = 1;

/// For how long what a file ended counts towards what the next ones may end, ms: many small steps are no smaller than a large one.
const LATELY_MS: u64 = 600_000;

/// The file in the folder of edits that keeps it over a restart: a line for each step.
const FILE: &str = "ended-lately";
/// Bytes of that file at most: a step has the ids of a fifth of all budgets, and ten minutes have few steps.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What files ended lately.
#[derive(Debug, Default)]
pub(super) struct Lately(Vec<Step>);

#[derive(Debug, Serialize, Deserialize)]
struct Step {
    at_ms: u64,
    ids: Vec<u64>,
}

impl Lately {
    /// Reads what earlier runs of the node kept in a folder. A file that cannot be read is as none: the count begins anew.
    pub(super) fn read(folder: &Path) -> Lately {
        let text = match access::file::read_regular(&folder.join(FILE), FILE_BYTES_MAX) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Lately::default(),
            Err(error) => {
                tracing::warn!(%error, "what budgets files ended lately is not known: the count begins anew");
                return Lately::default();
            }
        };
        Lately(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect())
    }

    /// Keeps it in a folder for the next run of the node: whole, or as it was.
    pub(super) fn write(&self, folder: &Path) {
        let line = |step: &Step| serde_json::to_string(step).expect("numbers") + "\n";
        let (path, next) = (folder.join(FILE), folder.join("ended-lately.next"));
        let text: String = self.0.iter().map(line).collect();
        let write = || {
            let mut file = std::fs::File::create(&next)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&next, &path)?;
            std::fs::File::open(folder)?.sync_all()
        };
        if let Err(error) = write() {
            tracing::warn!(%error, "what budgets files ended lately is not kept: a restart begins the count anew");
        }
    }

    /// Forgets what is long ago.
    pub(super) fn forget(&mut self, now_ms: u64) {
        self.0.retain(|step| now_ms < step.at_ms.saturating_add(LATELY_MS));
    }

    /// Notes what a file ended; false: nothing.
    pub(super) fn note(&mut self, now_ms: u64, done: Ending) -> bool {
        let is_any = !done.ids.is_empty();
        if is_any {
            self.0.push(Step { at_ms: now_ms, ids: done.ids });
        }
        is_any
    }
}

/// What a set of budgets would end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Those that would end, the smallest first.
    ids: Vec<u64>,
    /// Of how many: those that are not ended, and whose flight is not over.
    of: usize,
    /// How many files ended lately that this one does not name either.
    earlier: usize,
    /// How many lived lately: those that live, and all that files ended.
    lived: usize,
    /// The file names no budget at all.
    is_empty: bool,
    /// The share that may end, in percent, where a larger one would be let through.
    allowed: Option<u8>,
}

impl Ending {
    /// What these lines would end of the budgets that live, beside what files ended lately; `is_empty`: the file has none.
    pub(super) fn of(live: &[u64], lines: &[Line], is_empty: bool, lately: &Lately) -> Ending {
        let named: HashSet<u64> = lines.iter().map(|line| line.budget.spec.id).collect();
        let mut ids: Vec<u64> = live.iter().copied().filter(|id| !named.contains(id)).collect();
        ids.sort_unstable();
        let lives: HashSet<u64> = live.iter().copied().collect();
        let lately: HashSet<u64> = lately.0.iter().flat_map(|step| &step.ids).copied().collect();
        let lived = lives.union(&lately).count();
        let earlier = lately.difference(&named).filter(|id| !lives.contains(id)).count();
        Ending { ids, of: live.len(), earlier, lived, is_empty, allowed: None }
    }

    /// Itself, if it is more than may end at once: above `percent` of all and more than one budget, or all of them. What files ended
    /// lately counts, too.
    pub(super) fn beyond(self, percent: u8) -> Option<Ending> {
        let count = self.ids.len();
        let all = count > 0 && (count == self.of || self.is_empty);
        let share = self.lived.saturating_mul(usize::from(percent)) / 100;
        let beyond = count > 0 && count + self.earlier > share.max(ENDED_MIN);
        let allowed = (!all).then_some(percent);
        (all || beyond).then_some(Ending { allowed, ..self })
    }

    /// For the log, once it is done; `None` if it ends nobody.
    pub(super) fn done(&self) -> Option<String> {
        let ids = self.first();
        match self.ids.len() {
            0 => None,
            1 => Some(format!("leaves out 1 that was live, which has ended: {ids}")),
            count => Some(format!("leaves out {count} that were live, which have ended: {ids}")),
        }
    }

    /// The first ids of those that end.
    fn first(&self) -> String {
        let ids = if self.ids.len() == 1 { "id" } else { "ids" };
        let told: Vec<String> = self.ids.iter().take(IDS_TOLD).map(ToString::to_string).collect();
        let more = if self.ids.len() > IDS_TOLD { ", ..." } else { "" };
        format!("{ids} {}{more}", told.join(", "))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, of) = (self.ids.len(), self.of);
        let budgets = if of == 1 { "budget" } else { "budgets" };
        write!(
            f,
            "it would end {count} of {of} {budgets} ({}), which it does not name",
            self.first()
        )?;
        if self.earlier > 0 {
            let (earlier, minutes) = (self.earlier, LATELY_MS / 60_000);
            write!(f, ", after {earlier} that files ended in the last {minutes} minutes")?;
        }
        write!(
            f,
            "; is it cut, empty or another file? To end budgets on purpose keep their lines and say \"status\":\"ended\" \
             (in CSV: ended in the column status); for another set of budgets use another data folder (--data, node.data_dir)"
        )?;
        match self.allowed {
            Some(percent) => write!(
                f,
                "; or allow more than {percent} percent in one file with budgets.end_share_max_percent, and restart"
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(count: usize, of: usize) -> Ending {
        let ids = (1..).take(count).collect();
        Ending { ids, of, earlier: 0, lived: of, is_empty: false, allowed: None }
    }

    #[test]
    fn a_share_may_end_one_always_may_and_all_never() {
        for (count, of, percent, refused) in [
            (0, 0, 20, false),
            (0, 3, 20, false),
            (1, 1, 20, true),
            (1, 2, 20, false),
            (1, 2, 0, false),
            (2, 3, 20, true),
            (2, 9, 20, true),
            (2, 10, 20, false),
            (3, 10, 20, true),
            (10_000, 50_000, 20, false),
            (10_001, 50_000, 20, true),
            (49_999, 50_000, 100, false),
            (50_000, 50_000, 100, true),
        ] {
            let found = ending(count, of).beyond(percent).is_some();
            assert_eq!(found, refused, "{count} of {of} at {percent} %");
        }
        let empty = |count| Ending { is_empty: true, ..ending(count, 10) };
        assert!(
            empty(1).beyond(100).is_some(),
            "those that the API made stay, all others would end"
        );
        assert!(empty(0).beyond(0).is_none());
    }

    #[test]
    fn the_error_names_another_data_folder_as_a_remedy() {
        for told in [ending(3, 5).to_string(), ending(5, 5).beyond(20).unwrap().to_string()] {
            assert!(told.contains("use another data folder (--data, node.data_dir)"), "{told}");
        }
    }

    /// A hundred budgets, of which each file leaves out a tenth of the rest: steps that are small each.
    #[test]
    fn small_steps_count_together_for_ten_minutes_unless_they_are_taken_back() {
        let mut lately = Lately::default();
        let live = |ids: std::ops::RangeInclusive<u64>| ids.collect::<Vec<u64>>();
        let of = |live: &[u64], named: &[u64], lately: &Lately| {
            let text: String =
                named.iter().map(|id| format!("{{\"id\":{id},\"limit\":\"1\"}}\n")).collect();
            let path = std::path::Path::new("b.jsonl");
            let file = weir_budgets::budgets::file_of(path, text.as_bytes()).unwrap();
            Ending::of(live, &file.lines, false, lately)
        };
        let first = of(&live(1..=100), &live(11..=100), &lately);
        assert_eq!(first.clone().beyond(20), None);
        lately.note(1_000, first);
        let second = of(&live(11..=100), &live(21..=100), &lately);
        assert_eq!(second.clone().beyond(20), None);
        lately.note(2_000, second);

        let third = of(&live(21..=100), &live(31..=100), &lately);
        let told = third.clone().beyond(20).unwrap().to_string();
        assert!(
            told.contains("10 of 80 budgets") && told.contains("after 20 that files ended"),
            "{told}"
        );
        assert_eq!(of(&live(21..=100), &live(21..=100), &lately).beyond(20), None, "ends nothing");
        // A file that names the first ones again, and one that comes later.
        let back: Vec<u64> = (1..=10).chain(31..=100).collect();
        assert_eq!(of(&live(21..=100), &back, &lately).beyond(20), None);
        lately.forget(1_000 + LATELY_MS);
        assert_eq!(third.beyond(20).map(|_| ()), Some(()));
        let later = of(&live(21..=100), &live(25..=100), &lately);
        assert_eq!(later.beyond(20), None, "10 of the last minutes, and 4");
    }
}
