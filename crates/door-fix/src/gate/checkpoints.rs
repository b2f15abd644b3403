//! What the journal knows of FIX sessions, as memos: their numbers, and how far their files count.
//!
//! The files know more, and sooner; the journal is what they are held against when the node starts. A folder that is older than the journal,
//! restored or cut by a loss of power, would use numbers again under which other messages were sent: such a session goes on behind the
//! checkpoint, and its peer gets what is missing as a gap fill. A checkpoint is told once per second where something changed, and never for each
//! message, so the journal grows with time and not with traffic.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use fix_store::{Checkpoint, Memo};
use ledger::{DoorMemos, MemoAnswer, MemoJudgement, MemoMoney, MemoRefusal};
use weir_till::{Reply, Till};
use wire::Verdict;

use super::Sessions;
use super::desk::FixError;
use super::kill::{self, Kill};

/// As whose memos they are recorded.
pub(super) const OF: ledger::Door = ledger::Door::Fix;

/// What the journal knows of sessions.
#[derive(Debug, Default)]
pub struct Known {
    /// By the names of their sessions.
    pub(super) checkpoints: BTreeMap<String, Checkpoint>,
    /// Whose orders are stopped.
    pub(super) kills: Vec<Kill>,
}

impl Known {
    pub(super) fn get(&self, name: &str) -> Option<&Checkpoint> {
        self.checkpoints.get(name)
    }
}

/// What the bank has, at a start.
pub fn known(memos: DoorMemos<'_>) -> Known {
    let read = memos.iter().filter_map(|(_, bytes, _)| Checkpoint::from_bytes(bytes));
    let checkpoints = read.map(|checkpoint| (checkpoint.name.clone(), checkpoint)).collect();
    Known { checkpoints, kills: kill::known(memos) }
}

/// A checkpoint takes the place of the one before, unless it is behind it.
pub(super) fn judge(memos: &DoorMemos<'_>, memo: &ledger::Memo) -> MemoJudgement {
    if kill::is_of_kill(memos, memo) {
        return MemoJudgement::New;
    }
    let Some(new) = Checkpoint::from_bytes(&memo.bytes) else {
        return MemoJudgement::Refused(Verdict::BadAction);
    };
    let first = memos.get(memo.key);
    match first.and_then(Checkpoint::from_bytes) {
        Some(earlier) if new.is_behind(&earlier.memo) => {
            MemoJudgement::Known(first.unwrap_or_default().into())
        }
        _ => MemoJudgement::New,
    }
}

/// The checkpoints of a worker's sessions.
#[derive(Debug)]
pub(super) struct Checkpoints {
    /// The door's place among the worker's doors.
    door: u8,
    /// Of the start.
    pub(super) known: Known,
    /// By the numbers of the sessions.
    told: Vec<Told>,
    /// Operators who set numbers, and hear of it when the journal knows them.
    waiting: Vec<Setter>,
}

/// Who set the numbers of a session.
#[derive(Debug)]
struct Setter {
    session: usize,
    reply: Sender<Result<(), FixError>>,
    /// A checkpoint that has them is on its way.
    is_told: bool,
}

/// What was told of a session.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The last that is recorded, of this run or of one before.
    recorded: Option<Memo>,
    /// One that is on its way.
    under_way: Option<Memo>,
}

impl Checkpoints {
    pub(super) fn new(door: u8, known: Known) -> Checkpoints {
        Checkpoints { door, known, told: Vec::new(), waiting: Vec::new() }
    }

    /// Somebody has set the numbers of a session, on the disk, and hears of it once they are in the journal, too, or cannot be.
    pub(super) fn wait(&mut self, session: usize, reply: Sender<Result<(), FixError>>) {
        self.waiting.push(Setter { session, reply, is_told: false });
    }

    /// Tells the bank of the sessions that have changed, and whoever set numbers that nothing more is to be waited for.
    pub(super) fn tell(&mut self, till: &mut Till, sessions: &mut Sessions) {
        let before: Vec<bool> = self.told.iter().map(|told| told.under_way.is_some()).collect();
        self.tell_all(till, sessions);
        for setter in &mut self.waiting {
            let is_under_way = self.told[setter.session].under_way.is_some();
            let was_under_way = before.get(setter.session) == Some(&true);
            setter.is_told |= is_under_way && !was_under_way;
        }
        let (told, stores) = (&self.told, sessions.stores());
        answer(&mut self.waiting, |setter| {
            let told = &told[setter.session];
            let is_known = told.recorded == stores.kept(setter.session);
            let nothing_is_under_way = told.under_way.is_none();
            nothing_is_under_way.then_some(if is_known {
                Ok(())
            } else {
                Err(FixError::NotInJournal)
            })
        });
    }

    /// Reports whether the bank has still to answer.
    pub(super) fn are_under_way(&self) -> bool {
        self.told.iter().any(|told| told.under_way.is_some())
    }

    /// Tells the bank of the sessions that have changed since they were told of. What cannot be told now is told the next time.
    fn tell_all(&mut self, till: &mut Till, sessions: &mut Sessions) {
        for at in self.told.len()..sessions.sessions() {
            let known = sessions.name(at).and_then(|name| self.known.get(name));
            let recorded = known.map(|checkpoint| checkpoint.memo);
            self.told.push(Told { recorded, under_way: None });
        }
        for (at, told) in self.told.iter_mut().enumerate() {
            let memo = sessions.stores().kept(at).filter(|memo| told.recorded != Some(*memo));
            let Some((memo, name)) =
                memo.filter(|_| told.under_way.is_none()).zip(sessions.name(at))
            else {
                continue;
            };
            let mut checkpoint = Checkpoint { name: name.to_owned(), memo, is_set: false };
            // The files of a node that runs are the truth: where they say less than before, somebody set them back.
            checkpoint.is_set = told.recorded.is_some_and(|before| checkpoint.is_behind(&before));
            let (key, bytes) = (Checkpoint::key(name), checkpoint.to_bytes().into());
            let index = u32::try_from(at).unwrap_or(u32::MAX);
            let reply = Reply { door: self.door, index, entry: 0 };
            let memo_of = ledger::Memo { door: OF, key, bytes };
            match till.memo(reply, memo_of, MemoMoney::Without) {
                Ok(()) => told.under_way = Some(memo),
                Err(why) => {
                    tracing::debug!(%why, "FIX: the journal was not told how far sessions are");
                    return;
                }
            }
        }
    }

    /// The bank's answer to a checkpoint. Reports whether somebody waits for a later one.
    pub(super) fn recorded(&mut self, reply: Reply, answered: &MemoAnswer, name: &str) -> bool {
        let session = reply.index as usize;
        let Some(told) = self.told.get_mut(session) else { return false };
        let Some(memo) = told.under_way.take() else { return false };
        match answered {
            MemoAnswer::Refused(MemoRefusal::Unsealed(_)) => {}
            other => {
                if !matches!(other, MemoAnswer::New { .. }) {
                    tracing::error!(session = name, ?other, "FIX: a checkpoint was not recorded");
                }
                told.recorded = Some(memo);
            }
        }
        let is_known = told.recorded == Some(memo);
        let result = if is_known { Ok(()) } else { Err(FixError::NotInJournal) };
        answer(&mut self.waiting, |setter| {
            (setter.session == session && setter.is_told).then(|| result.clone())
        });
        self.waiting.iter().any(|setter| setter.session == session)
    }
}

/// Answers those who need not wait any longer.
fn answer(waiting: &mut Vec<Setter>, result: impl Fn(&Setter) -> Option<Result<(), FixError>>) {
    waiting.retain(|setter| {
        let result = result(setter);
        let waits = result.is_none();
        // Who asked may have gone.
        result.into_iter().for_each(|result| drop(setter.reply.send(result)));
        waits
    });
}

#[cfg(test)]
mod tests {
    use fix_session::{Durability, MessageStore, MessageStores};
    use fix_store::{FileStores, Options};

    use super::*;

    /// A start or a reload that fails behind the first session loses nothing of what has to be known of it.
    #[test]
    fn what_is_behind_is_still_behind_after_a_later_session_failed() {
        let root = tempfile::tempdir().unwrap();
        let open = |folder: &str| FileStores::open(&root.path().join(folder), Options::default());
        let mut stores = open("before").unwrap();
        let mut known = Known::default();
        for (at, name) in ["A", "B"].into_iter().enumerate() {
            stores.add(name, Durability::Sealed, 5).unwrap();
            stores.store(at).put(b"8=FIX.4.4").unwrap();
            stores.flush(&[at]).unwrap();
            let memo = stores.kept(at).unwrap();
            known
                .checkpoints
                .insert(name.into(), Checkpoint { name: name.into(), memo, is_set: false });
        }
        let add = |stores: &mut FileStores<_>, name| {
            super::super::add(stores, (name, Durability::Sealed), 5, &known)
        };
        // The folder of before is gone, and that of the second session cannot be made.
        let in_the_way = root.path().join("now/s-B");
        let mut stores = open("now").unwrap();
        std::fs::write(&in_the_way, b"").unwrap();
        assert_eq!(add(&mut stores, "A").unwrap(), (0, true));
        add(&mut stores, "B").unwrap_err();
        // As a reload goes on,
        stores.truncate(0);
        assert_eq!(add(&mut stores, "A").unwrap(), (0, true));
        drop(stores);
        // and as a start does.
        std::fs::remove_file(in_the_way).unwrap();
        let mut stores = open("now").unwrap();
        assert_eq!(add(&mut stores, "A").unwrap(), (0, true));
        assert_eq!(add(&mut stores, "B").unwrap(), (1, true));
    }
}
