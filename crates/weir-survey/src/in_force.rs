//! The budgets file where the log is on other machines: the bank says there which one is in force, and every node compares its own with that.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender as Commands, TryRecvError, channel};

use ledger::Room;
use weir_budgets::budgets;
use weir_config::config::Config;
use weir_node::bank::Command;
use weir_node::in_force::{Digest, FileInForce, message};

use crate::looks::{Looks, digest, stamp};

const DIFFERS: &str = "this node's budgets file is not the one that is in force";

/// A bank's file in force, and what its log has of it.
pub(crate) struct Telling {
    file: FileInForce,
    /// What this run began with.
    first: Option<Digest>,
    now: Option<Digest>,
    /// What was sent and is not known to be in the log.
    sent: Option<(Digest, Receiver<Result<u64, String>>)>,
    /// Its last message was refused, and that was said.
    failed: bool,
}

impl Telling {
    /// Of a run that begins with this file. Does the log say that another one was in force before?
    pub(crate) fn new(config: &Config, first: Option<Digest>) -> (Telling, bool) {
        let file = FileInForce::open(&config.node.data_dir);
        let differs = file.digest().is_some_and(|before| Some(before) != first);
        if differs {
            tracing::warn!(file = %config.budgets.file.display(), "{DIFFERS}: from now on this one counts");
        }
        (Telling { file, first, now: None, sent: None, failed: false }, differs)
    }

    /// A file is in force. Is it another one than this run began with?
    pub(crate) fn in_force(&mut self, digest: Digest) -> bool {
        self.now = Some(digest);
        self.first != self.now
    }

    /// Has the log say what is in force, and waits for nothing.
    pub(crate) fn look(&mut self, commands: &Commands<Command>) {
        let answer = self.sent.as_ref().map(|(digest, answer)| (*digest, answer.try_recv()));
        match answer {
            None => self.send(commands),
            Some((_, Err(TryRecvError::Empty))) => {}
            Some((digest, Ok(Ok(number)))) => {
                (self.sent, self.failed) = (None, false);
                if let Err(error) = self.file.set(number, digest) {
                    tracing::warn!(%error, "which budgets file is in force was not noted; a start reads it from the journal");
                }
            }
            Some((_, refused)) => {
                self.sent = None;
                if !std::mem::replace(&mut self.failed, true) {
                    tracing::warn!(
                        ?refused,
                        "the log does not say yet which budgets file is in force; it is tried again"
                    );
                }
            }
        }
    }

    fn send(&mut self, commands: &Commands<Command>) {
        let Some(digest) = self.now.filter(|now| self.file.digest() != Some(*now)) else { return };
        let (reply, answer) = channel();
        let carry = Command::Carry { room: Room::Budgets, message: message(&digest), reply };
        // A bank that is gone answers nothing.
        let _ = commands.send(carry);
        self.sent = Some((digest, answer));
    }
}

/// A standby's own file.
pub(crate) struct OwnFile {
    path: PathBuf,
    looks: Looks,
    digest: Option<Digest>,
    differs: bool,
}

impl OwnFile {
    pub(crate) fn of(config: &Config) -> OwnFile {
        let (path, looks) = (config.budgets.file.clone(), Looks::default());
        OwnFile { path, looks, digest: None, differs: false }
    }

    /// Looks at the file. Is it another one than what is in force?
    pub(crate) fn differs(&mut self, in_force: Option<Digest>) -> bool {
        let now = stamp(&self.path);
        if self.looks.is_still(now)
            && let Some(stamp) = now
            && let Ok(bytes) = budgets::bytes(&self.path)
        {
            self.looks.judged(stamp);
            self.digest = Some(digest(&bytes));
        }
        // One that changes just now is looked at again.
        let differs = match self.looks.is_at_rest() {
            true => in_force.is_some_and(|in_force| self.digest != Some(in_force)),
            false => self.differs,
        };
        if differs != std::mem::replace(&mut self.differs, differs) {
            let file = self.path.display();
            match differs {
                true => tracing::warn!(%file, "{DIFFERS}; a takeover puts this one in force"),
                false => {
                    tracing::info!(%file, "this node's budgets file is the one that is in force")
                }
            }
        }
        differs
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Sender;

    use super::*;

    #[test]
    fn a_standby_compares_its_file_with_the_one_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.budgets.file = folder.path().join("budgets.jsonl");
        let (ours, others) = (Some(digest(b"ours")), Some(digest(b"others")));
        // What the file is now, what is in force, and whether they differ.
        let rows = [
            (None, None, false),
            (None, ours, true),
            (Some("ours"), ours, false),
            (Some("ours"), None, false),
            (Some("ours"), others, true),
            (Some("others"), others, false),
        ];
        let mut own = OwnFile::of(&config);
        for (text, in_force, expected) in rows {
            if let Some(text) = text {
                std::fs::write(&config.budgets.file, text).unwrap();
            }
            own.differs(in_force);
            assert_eq!(own.differs(in_force), expected, "{text:?}");
        }
    }

    #[test]
    fn a_bank_has_the_log_say_once_which_file_is_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.node.data_dir = folder.path().to_path_buf();
        let (one, other) = (digest(b"one"), digest(b"other"));
        let (commands, bank) = channel();
        // What of a message the bank is sent, and where the answer goes.
        let carried = || match bank.try_recv() {
            Ok(Command::Carry { room: Room::Budgets, message, reply }) => Some((message, reply)),
            _ => None,
        };
        let (mut telling, differs) = Telling::new(&config, Some(one));
        telling.look(&commands);
        assert!(!differs && carried().is_none(), "nothing is in force");
        // Refused, without an answer, and taken.
        type Answer = fn(Sender<Result<u64, String>>);
        let answers: [Answer; 3] = [
            |reply| reply.send(Err("full".into())).unwrap(),
            drop,
            |reply| reply.send(Ok(1)).unwrap(),
        ];
        assert!(!telling.in_force(one));
        for answer in answers {
            telling.look(&commands);
            let (sent, reply) = carried().unwrap();
            assert_eq!(sent, message(&one));
            telling.look(&commands);
            assert!(carried().is_none(), "one waits");
            answer(reply);
            telling.look(&commands);
        }
        telling.look(&commands);
        assert!(carried().is_none(), "the log has it");
        assert!(telling.in_force(other));
        telling.look(&commands);
        assert_eq!(carried().unwrap().0, message(&other));
        // The next run of this folder.
        for (own, expected) in [(Some(one), false), (Some(other), true), (None, true)] {
            assert_eq!(Telling::new(&config, own).1, expected);
        }
    }
}
