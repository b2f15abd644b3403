//! The log of edits as the log on other machines says it: what a node does with changes that another one made, and with its own that a crash kept
//! from the file.

use std::path::Path;

use ledger::room::RoomChange;

use super::entry::Entry;
use super::log::{Log, LogError, NotWritten, entry_of, head, read};

/// The log of edits of a folder, for messages of a log on other machines.
#[derive(Debug)]
pub struct Carried {
    log: Log,
    /// Its last line, without checksum.
    last: Option<Box<str>>,
    /// Does it say anything of budgets?
    says: bool,
}

/// Why a message is not in the log of edits.
#[derive(Debug, thiserror::Error)]
pub enum NotCarried {
    /// The disk. It can be tried again.
    #[error("edits: {0}")]
    Disk(String),
    /// It cannot be.
    #[error("edits: {0}")]
    Refused(String),
}

impl Carried {
    /// Opens the log in a folder, makes it where it is not there, and cuts off what a crash left half written.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn open(folder: &Path) -> Result<Carried, LogError> {
        let (log, entries) = Log::open(folder)?;
        let says = entries.iter().any(|(entry, _)| says(entry));
        Ok(Carried { log, last: entries.into_iter().last().map(|(_, line)| line), says })
    }

    /// How many messages it has. It may have one more, where a crash came between.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.log.carried()
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// [`NotCarried`]; the log is as it was.
    pub fn take(&mut self, message: &[u8]) -> Result<(), NotCarried> {
        let refused = |text: &str| Err(NotCarried::Refused(text.into()));
        match RoomChange::of(message) {
            Some(RoomChange::Append(line)) => {
                let line = std::str::from_utf8(line).ok().filter(|line| entry_of(line).is_ok());
                let Some(line) = line else {
                    return refused(
                        "a line that this version does not know: is it older than the one that wrote it?",
                    );
                };
                if self.count() == 0 && self.says && self.last.as_deref() != Some(line) {
                    return refused(OTHERS);
                }
                self.append(line)?;
            }
            Some(RoomChange::Whole(bytes)) => {
                let whole =
                    read(self.log.path(), bytes).ok().filter(|(_, sound)| *sound == bytes.len());
                let Some((entries, _)) = whole else {
                    return refused(
                        "a log of edits that this version cannot read: is it older than the one that wrote it?",
                    );
                };
                let has = std::fs::read(self.log.path())
                    .map_err(|error| NotCarried::Disk(error.to_string()))?;
                if self.says && has != bytes {
                    return refused(OTHERS);
                }
                let lines: Vec<&str> = entries.iter().map(|(_, line)| &**line).collect();
                self.log.rewrite(&lines).map_err(|error| NotCarried::Disk(error.to_string()))?;
                self.says = entries.iter().any(|(entry, _)| says(entry));
                self.last = lines.last().map(|line| (*line).into());
            }
            None => {
                return refused(
                    "a message that this version does not know: is it older than the one that wrote it?",
                );
            }
        }
        self.log.note_carried().map_err(|error| NotCarried::Disk(error.to_string()))
    }

    /// A crash may have left the line here, and not its number.
    fn append(&mut self, line: &str) -> Result<(), NotCarried> {
        if self.last.as_deref() == Some(line) {
            return Ok(());
        }
        let head = head(1);
        let lines = if self.last.is_none() { vec![&*head, line] } else { vec![line] };
        self.log.append(&lines).map_err(|error| match error {
            NotWritten::Nothing(text) | NotWritten::Unsure(text) => NotCarried::Disk(text),
        })?;
        (self.last, self.says) = (Some(line.into()), true);
        Ok(())
    }
}

const OTHERS: &str = "the log of edits in this data folder is not the one of the log on other machines: move the folder edits aside, and start again";

/// Does an entry say anything of budgets?
pub(super) fn says(entry: &Entry) -> bool {
    match entry {
        Entry::Head { .. } => false,
        Entry::Overlays(all) => !all.is_empty(),
        _ => true,
    }
}
