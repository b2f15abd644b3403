//! The budgets file where the log is on other machines: the bank puts it beside the log and says there which one is in force, and every node compares
//! its own with that.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender as Commands, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ledger::Room;
use weir_budgets::budgets;
use weir_config::config::Config;
use weir_node::bank::Command;
use weir_node::in_force::{Digest, FileInForce, message, put};

use crate::looks::{Looks, digest, stamp};

pub(crate) const DIFFERS: &str = "this node's budgets file is not the one that is in force";

/// A file that could not be put beside the log is put there again after this time.
const AGAIN: Duration = Duration::from_secs(30);

/// Puts a file beside the log.
type Put = Arc<dyn Fn(&Digest, &[u8]) -> Result<(), String> + Send + Sync>;

/// A bank's file in force, and what its log has of it.
pub(crate) struct Telling {
    file: FileInForce,
    /// The own file that this run began with.
    first: Option<Digest>,
    now: Option<(Digest, PathBuf)>,
    put: Put,
    /// The file that is being put beside the log...
    putting: Option<(Digest, JoinHandle<Result<(), String>>)>,
    /// ...the last one that was tried, and when it is to be tried again.
    tried: Option<(Digest, Option<Instant>)>,
    /// What was sent and is not known to be in the log.
    sent: Option<(Digest, Receiver<Result<u64, String>>)>,
    /// Its last message was refused, and that was said.
    failed: bool,
}

impl Telling {
    /// Of a run that begins with this file of its own, or with the copy of the one in force. Does the log say that another one was in force before?
    pub(crate) fn new(config: &Config, own: Option<Digest>, is_kept: bool) -> (Telling, bool) {
        let file = FileInForce::open(&config.node.data_dir);
        let differs = file.digest().is_some_and(|before| Some(before) != own);
        let of = config.clone();
        let put: Put = Arc::new(move |digest, bytes| put(&of, digest, bytes));
        let first = own.filter(|_| !is_kept);
        let telling = Telling {
            file,
            first,
            now: None,
            put,
            putting: None,
            tried: None,
            sent: None,
            failed: false,
        };
        (telling, differs)
    }

    /// This file is in force. Is it another one than the own file that this run began with?
    pub(crate) fn in_force(&mut self, digest: Digest, path: PathBuf) -> bool {
        self.now = Some((digest, path));
        self.first != Some(digest)
    }

    /// Has the log say what is in force, and waits for nothing.
    pub(crate) fn look(&mut self, commands: &Commands<Command>) {
        let answer = self.sent.as_ref().map(|(digest, answer)| (*digest, answer.try_recv()));
        match answer {
            None if self.is_put() => self.send(commands),
            None => {}
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

    /// Is the file beside the log, or cannot be now? Once that is known, the log says that it is in force.
    fn is_put(&mut self) -> bool {
        let Some((now, path)) = self.now.clone() else { return false };
        if let Some((digest, thread)) = self.putting.take_if(|(_, thread)| thread.is_finished()) {
            let put = thread.join().unwrap_or_else(|_| Err("its thread ended by a panic".into()));
            self.tried = Some((digest, put.is_err().then(|| Instant::now() + AGAIN)));
            if let Err(why) = put {
                tracing::warn!(
                    why,
                    "the budgets file in force is not beside the log; it is tried again, and until then a node with another one puts its own in force"
                );
            }
        }
        let is_tried = self.tried.is_some_and(|(digest, _)| digest == now);
        let is_due =
            self.tried.is_none_or(|(_, again)| again.is_some_and(|at| Instant::now() >= at));
        if self.putting.is_none() && (!is_tried || is_due) {
            let put = Arc::clone(&self.put);
            let work = move || {
                let bytes = budgets::bytes(&path).map_err(|_| "it cannot be read".to_string())?;
                match digest(&bytes) == now {
                    true => put(&now, &bytes),
                    false => Err("it has changed since".into()),
                }
            };
            let thread = std::thread::Builder::new().name("watcher".into()).spawn(work);
            self.putting = thread.ok().map(|thread| (now, thread));
        }
        is_tried
    }

    fn send(&mut self, commands: &Commands<Command>) {
        let now = self.now.as_ref().map(|(digest, _)| *digest);
        let Some(digest) = now.filter(|now| self.file.digest() != Some(*now)) else { return };
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
                true => {
                    tracing::warn!(%file, "{DIFFERS}; a takeover goes on with that one, of which a copy is in the data folder")
                }
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
    use std::sync::Mutex;
    use std::sync::mpsc::Sender;

    use super::*;
    use crate::watcher::first_read;
    use weir_node::in_force::copy_of;

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
    fn a_run_goes_on_with_the_file_in_force_where_there_is_a_copy_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.node.data_dir = folder.path().to_path_buf();
        config.budgets.file = folder.path().join("budgets.jsonl");
        let line =
            |id| format!("{{\"id\":{id},\"name\":\"b\",\"unit\":\"USD\",\"limit\":\"1\"}}\n");
        let (own, other) = (line(1), line(2));
        let [own_is, other_is, bad_is] =
            [&own[..], &other, "bad"].map(|text| Some(digest(text.as_bytes())));
        // The own file, the copy, what is in force; is it the copy that counts, and which budget is there?
        let rows = [
            (Some(&own[..]), None, None, false, Some(1)),
            (Some(&own), Some(&other[..]), own_is, false, Some(1)),
            (Some(&own), Some(&other), other_is, true, Some(2)),
            (None, Some(&other), other_is, true, Some(2)),
            // Its copy is missing, old, or cannot be read.
            (Some(&own), None, other_is, false, Some(1)),
            (Some(&own), Some(&own), other_is, false, Some(1)),
            (Some(&own), Some("bad"), bad_is, false, Some(1)),
            (None, None, other_is, false, None),
        ];
        for (own, copy, said, expected, budget) in rows {
            for (path, text) in [(&config.budgets.file, own), (&copy_of(folder.path()), copy)] {
                let _ = std::fs::remove_file(path);
                text.into_iter().for_each(|text| std::fs::write(path, text).unwrap());
            }
            let read = first_read(&config).unwrap().in_force(&config, said);
            assert_eq!(read.begins(), (expected, budget), "{own:?} {copy:?}");
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
        let path = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            path
        };
        let (mut telling, differs) = Telling::new(&config, Some(one), false);
        // The first one is put there, the second cannot be.
        let (puts, refuses) = (Arc::new(Mutex::new(Vec::new())), other);
        let of = Arc::clone(&puts);
        telling.put = Arc::new(move |digest, bytes| {
            of.lock().unwrap().push((*digest, bytes.to_vec()));
            if *digest == refuses { Err("away".into()) } else { Ok(()) }
        });
        let settled = |telling: &mut Telling| {
            while telling.putting.is_some() || telling.tried.is_none() {
                telling.is_put();
                std::thread::yield_now();
            }
        };
        telling.look(&commands);
        assert!(!differs && carried().is_none(), "nothing is in force");
        // Refused, without an answer, and taken.
        type Answer = fn(Sender<Result<u64, String>>);
        let answers: [Answer; 3] = [
            |reply| reply.send(Err("full".into())).unwrap(),
            drop,
            |reply| reply.send(Ok(1)).unwrap(),
        ];
        assert!(!telling.in_force(one, path("one")));
        telling.look(&commands);
        assert!(carried().is_none(), "the file comes first");
        settled(&mut telling);
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
        assert!(telling.in_force(other, path("other")));
        telling.tried = None;
        settled(&mut telling);
        telling.look(&commands);
        assert_eq!(carried().unwrap().0, message(&other));
        assert!(telling.tried.unwrap().1.is_some(), "it is tried again");
        assert_eq!(*puts.lock().unwrap(), [(one, b"one".to_vec()), (other, b"other".to_vec())]);
        // The next run of this folder.
        for (own, expected) in [(Some(one), false), (Some(other), true), (None, true)] {
            assert_eq!(Telling::new(&config, own, false).1, expected);
        }
    }
}
