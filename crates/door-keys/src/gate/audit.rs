//! The audit of the keys door: one line per call about a key, on its way to the disk before the answer leaves.
//!
//! ```text
//! {"at_ms":1790000000000,"who":"crm","verb":"encrypt","key":"orders","version":3,"items":500,"failed":0,"status":200}
//! ```
//! A line is written before its call is answered, and synced within a second. Who has a line writes it where nobody else does at that moment, which
//! takes a microsecond; a thread of its own writes where others do, begins files, and syncs. After a write that took long only that thread
//! writes for a while, so that no worker waits for a slow disk a second time. A line holds no data and no secret. The file `vault-audit.jsonl` is
//! set aside each day and each GiB as `vault-audit-DATE-NUMBER.jsonl`; what is set aside is removed after some days, the oldest also where all
//! together have too many bytes.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_config::private;

use super::late::{Late, LateAnswer, Owed};

/// Batches of lines that may wait to be written.
const BATCHES_MAX: usize = 256;
/// Batches that are written at once.
const GATHER_MAX: usize = 64;
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// After a write that took so long the thread alone writes, until its own have been quicker for a while.
const SLOW: Duration = Duration::from_millis(5);
const SLOW_FOR: Duration = Duration::from_secs(10);
/// How often a writer looks whether another one is ready: about as long as a line takes to be written.
const LOOKS: usize = 32;
/// Bytes of a file, at most about.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// So many files there are room for at least.
const FILES_MIN: u64 = 4;
/// The disk's last bytes are the journal's.
const FREE_BYTES_MIN: u64 = 1 << 30;
const DAY_S: u64 = 86_400;
/// From this share of what all files may have together on, in hundredths, the log warns.
const WARN_PERCENT: u64 = 90;
const NAME: &str = "vault-audit.jsonl";
const ASIDE: &str = "vault-audit-";
/// How far before the end of a file the end of its last whole line is looked for.
const TAIL_BYTES: u64 = 64 << 10;

/// A line, and the answer that leaves once it is written.
pub(super) struct Told {
    pub(super) line: String,
    pub(super) answer: Option<(Owed, Late)>,
}

/// What a line says of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamPart {
    /// All there is to say: of a call that is no stream, too.
    Whole,
    /// Results leave from now on.
    Begun,
    /// All results are made.
    Done,
    /// It ended early; so many items were done.
    Cut,
}

/// Returns the line of a call; `None` of one that is about no key.
pub(super) fn line(who: &str, status: u16, audit: &crate::Audit<'_>) -> Option<String> {
    stream_line(who, status, audit, StreamPart::Whole)
}

/// Returns the line of a part of a stream.
pub(super) fn stream_line(
    who: &str,
    status: u16,
    audit: &crate::Audit<'_>,
    part: StreamPart,
) -> Option<String> {
    let part = match part {
        StreamPart::Whole => "",
        StreamPart::Begun => ",\"stream\":\"begun\"",
        StreamPart::Done => ",\"stream\":\"done\"",
        StreamPart::Cut => ",\"stream\":\"cut\"",
    };
    let verb = audit.verb?.name();
    let act = audit.act.map(|act| format!(",\"act\":\"{}\"", act.name())).unwrap_or_default();
    let (key, who) = (serde_json::Value::from(audit.key), serde_json::Value::from(who));
    let crate::Audit { version, items, failed, .. } = audit;
    let at_ms = now_ms();
    Some(format!(
        "{{\"at_ms\":{at_ms},\"who\":{who},\"verb\":\"{verb}\"{act},\"key\":{key},\"version\":{version},\"items\":{items},\"failed\":{failed},\
         \"status\":{status}{part}}}\n"
    ))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How the audit stands, for everybody.
#[derive(Debug, Default)]
pub(super) struct AuditState {
    /// Lines cannot be written: calls are refused.
    fails: AtomicBool,
    /// How often that began.
    pub(super) failures: AtomicU64,
    /// Files that were removed before their time.
    pub(super) dropped: AtomicU64,
}

impl AuditState {
    fn fail(&self, why: &str) {
        if !self.fails.swap(true, Relaxed) {
            self.failures.fetch_add(1, Relaxed);
            tracing::error!(
                why,
                "the audit of the keys door cannot be written: calls about keys are refused"
            );
        }
    }
}

/// What all desks and the thread share.
struct Shared {
    auditor: Mutex<Auditor>,
    state: Arc<AuditState>,
    /// Batches that are left to the thread, until they are written: what comes after them does not pass them.
    waiting: AtomicUsize,
    begun: Instant,
    /// Until when the thread alone writes, in ms since `begun`.
    slow_until_ms: AtomicU64,
}

impl Shared {
    fn auditor(&self) -> MutexGuard<'_, Auditor> {
        self.auditor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files, where nobody else has them for longer than a line takes.
    fn auditor_now(&self) -> Option<MutexGuard<'_, Auditor>> {
        for _ in 0..LOOKS {
            match self.auditor.try_lock() {
                Ok(auditor) => return Some(auditor),
                Err(TryLockError::Poisoned(auditor)) => return Some(auditor.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_slow(&self) -> bool {
        let until = self.slow_until_ms.load(Relaxed);
        until > 0 && self.elapsed_ms() < until
    }

    /// Notes how long a write took, also the thread's: workers write again when those have been quick for a while.
    fn took(&self, took: Duration) {
        if took < SLOW {
            return;
        }
        if !self.is_slow() {
            tracing::warn!(
                took_ms = took.as_millis(),
                "a line of the audit took long to be written: its thread alone writes until that has been quick for 10 s, so that no worker waits for the disk"
            );
        }
        let slow_for = u64::try_from(SLOW_FOR.as_millis()).unwrap_or(u64::MAX);
        self.slow_until_ms.store(self.elapsed_ms().saturating_add(slow_for), Relaxed);
    }

    /// Brings what was written to the disk; lines go on being written meanwhile.
    fn sync(&self) {
        let file = {
            let mut auditor = self.auditor();
            std::mem::take(&mut auditor.is_dirty).then(|| Arc::clone(&auditor.file))
        };
        if let Some(Err(error)) = file.map(|file| file.sync_data()) {
            self.state.fail(&error.to_string());
        }
    }

    /// What the thread does, until every desk is gone.
    fn run(&self, queue: &Receiver<Vec<Told>>) {
        let mut sync_at = Instant::now() + SYNC_EVERY;
        loop {
            match queue.recv_timeout(sync_at.saturating_duration_since(Instant::now())) {
                Ok(first) => {
                    let mut batches = vec![first];
                    batches.extend(queue.try_iter().take(GATHER_MAX));
                    self.write(batches);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.sync(),
            }
            if Instant::now() >= sync_at {
                // In this order, so that a sync that fails is not forgotten at once.
                self.auditor().look();
                self.sync();
                sync_at = Instant::now() + SYNC_EVERY;
            }
        }
    }

    /// Writes lines, and then lets their answers go; refusals, where they cannot be written.
    fn write(&self, batches: Vec<Vec<Told>>) {
        let lines: String = batches.iter().flatten().map(|told| told.line.as_str()).collect();
        let mut auditor = self.auditor();
        let begun = Instant::now();
        let written = auditor.keep(&lines);
        self.took(begun.elapsed());
        drop(auditor);
        self.waiting.fetch_sub(batches.len(), Release);
        for (owed, answer) in batches.into_iter().flatten().filter_map(|told| told.answer) {
            owed.give(if written { answer } else { refusal() });
        }
    }
}

/// What is answered where a line could not be written.
pub(super) fn refusal() -> Late {
    Late::Answer(LateAnswer::unavailable(super::NO_AUDIT))
}

/// What became of lines that were to be written at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Now {
    /// They are written.
    Written,
    /// They cannot be written.
    Failed,
    /// Nothing was done: they are the thread's.
    Later,
}

/// Where lines are written, or left.
#[derive(Clone)]
pub(super) struct AuditDesk {
    batches: SyncSender<Vec<Told>>,
    shared: Arc<Shared>,
}

impl AuditDesk {
    /// Writes lines at once, if nobody else does, the disk was quick lately, and the file has room.
    pub(super) fn write(&self, lines: &str) -> Now {
        let shared = &*self.shared;
        if self.fails() {
            return Now::Failed;
        }
        if shared.waiting.load(Acquire) > 0 || shared.is_slow() {
            return Now::Later;
        }
        let Some(mut auditor) = shared.auditor_now() else { return Now::Later };
        if auditor.is_full() {
            return Now::Later;
        }
        let begun = Instant::now();
        let is_kept = auditor.keep(lines);
        shared.took(begun.elapsed());
        drop(auditor);
        if is_kept { Now::Written } else { Now::Failed }
    }

    /// Leaves lines, or gives them back: too many wait.
    pub(super) fn tell(&self, batch: Vec<Told>) -> Result<(), Vec<Told>> {
        self.shared.waiting.fetch_add(1, Relaxed);
        self.batches.try_send(batch).map_err(|full| {
            self.shared.waiting.fetch_sub(1, Relaxed);
            match full {
                TrySendError::Full(batch) | TrySendError::Disconnected(batch) => batch,
            }
        })
    }

    /// Writes a line, or leaves it and waits until there is room for it.
    pub(super) fn wait(&self, told: Told) {
        let now = self.write(&told.line);
        if now == Now::Later {
            self.shared.waiting.fetch_add(1, Relaxed);
            // A desk whose thread is gone drops the line, and its client hears so.
            let _ = self.batches.send(vec![told]);
        } else if let Some((owed, answer)) = told.answer {
            owed.give(if now == Now::Written { answer } else { refusal() });
        }
    }

    /// Tells whether lines cannot be written at the moment.
    pub(super) fn fails(&self) -> bool {
        self.shared.state.fails.load(Relaxed)
    }
}

/// How long files are kept, and how much of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep {
    pub(super) days: u64,
    pub(super) bytes_max: u64,
}

/// The files of the audit.
pub(super) struct Auditor {
    folder: PathBuf,
    file: Arc<File>,
    /// Bytes of the file, all of them whole lines.
    end: u64,
    /// When it was begun, in days since 1970.
    day: u64,
    keep: Keep,
    file_bytes_max: u64,
    free_bytes_min: u64,
    state: Arc<AuditState>,
    is_dirty: bool,
}

impl Auditor {
    /// Opens the file in a folder, or makes it. What a power cut left of a line is cut off.
    pub(super) fn open(
        folder: &Path,
        keep: Keep,
        state: &Arc<AuditState>,
    ) -> Result<Auditor, String> {
        let path = folder.join(NAME);
        let told = |error: io::Error| format!("the audit {}: {error}", path.display());
        let file = private::options().open(&path).map_err(told)?;
        let (end, day) = last_line(&file).map_err(told)?;
        let mut auditor = Auditor {
            folder: folder.to_owned(),
            file: Arc::new(file),
            end,
            day,
            keep,
            file_bytes_max: FILE_BYTES_MAX.min(keep.bytes_max / FILES_MIN),
            free_bytes_min: FREE_BYTES_MIN,
            state: Arc::clone(state),
            is_dirty: false,
        };
        auditor.tidy();
        auditor.look();
        Ok(auditor)
    }

    /// Returns the desk of this audit, and what its thread runs: until every desk is gone.
    pub(super) fn ready(self) -> (AuditDesk, impl FnOnce() + Send) {
        let (batches, queue) = sync_channel(BATCHES_MAX);
        let state = Arc::clone(&self.state);
        let shared = Arc::new(Shared {
            auditor: Mutex::new(self),
            state,
            waiting: AtomicUsize::new(0),
            begun: Instant::now(),
            slow_until_ms: AtomicU64::new(0),
        });
        (AuditDesk { batches, shared: Arc::clone(&shared) }, move || shared.run(&queue))
    }

    /// Writes lines; false: they cannot be written.
    fn keep(&mut self, lines: &str) -> bool {
        let is_kept = !self.state.fails.load(Relaxed)
            && self.append(lines).map_err(|why| self.state.fail(&why)).is_ok();
        self.is_dirty |= is_kept;
        is_kept
    }

    /// Tells whether the next line begins another file.
    fn is_full(&self) -> bool {
        now_ms() / 1_000 / DAY_S != self.day || self.end >= self.file_bytes_max
    }

    fn append(&mut self, lines: &str) -> Result<(), String> {
        if self.is_full() {
            self.set_aside().map_err(|error| format!("{}: {error}", self.folder.display()))?;
        }
        if let Err(error) = self.file.write_all_at(lines.as_bytes(), self.end) {
            // What was written of them is no line. If this fails too, the next lines begin there all the same.
            let _ = self.file.set_len(self.end);
            return Err(error.to_string());
        }
        self.end += lines.len() as u64;
        Ok(())
    }

    /// Finds out whether lines can be written: again, or no longer.
    fn look(&mut self) {
        let free = rustix::fs::statvfs(&self.folder);
        let free = free.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
        match free {
            Ok(free) if free < self.free_bytes_min => self.state.fail(&format!(
                "the disk has {free} bytes free, and the last {} are the journal's",
                self.free_bytes_min
            )),
            Err(error) => self.state.fail(&error.to_string()),
            // An empty write tells nothing: whoever comes next tries.
            Ok(_) if self.state.fails.swap(false, Relaxed) => {
                tracing::info!("the audit of the keys door is written again");
            }
            Ok(_) => {}
        }
    }

    /// Begins another file.
    fn set_aside(&mut self) -> io::Result<()> {
        if self.end > 0 {
            self.file.sync_data()?;
            let date = money::Instant::from_ms(self.day * DAY_S * 1_000).to_string();
            let date = date.get(..10).unwrap_or_default().to_owned();
            let name = |number: &u32| self.folder.join(format!("{ASIDE}{date}-{number}.jsonl"));
            let free = (1..u32::MAX).map(|number| name(&number)).find(|path| !path.exists());
            match fs::rename(self.folder.join(NAME), free.unwrap_or_else(|| name(&0))) {
                // It was set aside, and its successor could not be opened.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                renamed => renamed?,
            }
            self.file = Arc::new(private::options().open(self.folder.join(NAME))?);
            self.end = 0;
        }
        self.day = now_ms() / 1_000 / DAY_S;
        self.tidy();
        Ok(())
    }

    /// Removes files that are too old, and the oldest where all together are too large.
    fn tidy(&self) {
        let mut files = aside(&self.folder);
        let now = SystemTime::now();
        let age = Duration::from_secs(self.keep.days.saturating_mul(DAY_S));
        let is_old = |time: SystemTime| now.duration_since(time).is_ok_and(|since| since > age);
        files.retain(|(time, _, path)| !(is_old(*time) && removed(path)));
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        // The file that is written may grow to its size.
        let most = self.keep.bytes_max.saturating_sub(self.file_bytes_max);
        for (_, bytes, path) in files {
            if total <= most {
                break;
            }
            if removed(&path) {
                total -= bytes;
                self.state.dropped.fetch_add(1, Relaxed);
                tracing::error!(
                    path = %path.display(),
                    "the oldest file of the audit was removed before its time: keys.audit_bytes_max has room for no more; copy files elsewhere, or raise it"
                );
            }
        }
        if total > most / 100 * WARN_PERCENT {
            tracing::warn!(
                bytes = total,
                "the files of the audit have nearly as many bytes as keys.audit_bytes_max lets them: the oldest will be removed"
            );
        }
    }
}

/// Files that were set aside: when each was written last, and its bytes.
fn aside(folder: &Path) -> Vec<(SystemTime, u64, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(ASIDE) && name.ends_with(".jsonl")
    });
    ours.filter_map(|entry| {
        let metadata = entry.metadata().ok()?;
        Some((metadata.modified().ok()?, metadata.len(), entry.path()))
    })
    .collect()
}

fn removed(path: &Path) -> bool {
    fs::remove_file(path)
        .inspect_err(
            |error| tracing::warn!(%error, path = %path.display(), "a file of the audit stays"),
        )
        .is_ok()
}

/// Cuts off what stands behind the last whole line; returns the length then, and the day on which the file was written last.
fn last_line(mut file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    let length = metadata.len();
    let from = length.saturating_sub(TAIL_BYTES);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(from))?;
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    let whole = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let end = from + whole as u64;
    if end < length {
        tracing::warn!(
            bytes = length - end,
            "the last line of the audit was unfinished, and was cut off"
        );
        file.set_len(end)?;
    }
    let written = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok((end, written.as_secs() / DAY_S))
}

#[cfg(test)]
mod tests {
    use door_transport::Handle;
    use vault::WipedBytes;

    use super::super::late::Arrivals;
    use super::*;

    const KEEP: Keep = Keep { days: 90, bytes_max: 1 << 31 };

    fn told(arrivals: &Arc<Arrivals>, text: &str) -> Told {
        let body = WipedBytes::copy_of(b"{}");
        let owed = Owed::new(1, arrivals);
        let answer = Some((
            owed,
            Late::Answer(LateAnswer {
                status: 200,
                headers: b"",
                content_type: "",
                body,
                items: None,
            }),
        ));
        Told { line: format!("{text}\n"), answer }
    }

    /// Writes lines as the thread does.
    fn write(auditor: &mut Auditor, told: Vec<Told>) {
        for told in told {
            let is_kept = auditor.keep(&told.line);
            let (owed, answer) = told.answer.unwrap();
            owed.give(if is_kept { answer } else { refusal() });
        }
    }

    fn statuses(arrivals: &Arrivals) -> Vec<u16> {
        let status = |late: Option<Late>| match late {
            Some(Late::Answer(answer)) => answer.status,
            Some(Late::Piece(_)) | None => panic!("an answer was expected"),
        };
        arrivals.take().into_iter().map(|(_, answer)| status(answer)).collect()
    }

    fn opened(folder: &Path, keep: Keep) -> (Auditor, Arc<Arrivals>, Arc<AuditState>) {
        let state = Arc::new(AuditState::default());
        let mut auditor = Auditor::open(folder, keep, &state).unwrap();
        auditor.free_bytes_min = 0;
        state.fails.store(false, Relaxed);
        (auditor, Arrivals::new(Handle::new().unwrap().waker()), state)
    }

    #[test]
    fn an_answer_leaves_once_its_line_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (auditor, arrivals, _) = opened(folder.path(), KEEP);
        let (desk, run) = auditor.ready();
        let thread = std::thread::spawn(run);
        desk.tell(vec![told(&arrivals, "one"), told(&arrivals, "two")]).ok().unwrap();
        desk.wait(told(&arrivals, "three"));
        drop(desk);
        thread.join().unwrap();
        assert_eq!(statuses(&arrivals), [200; 3]);
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(text, "one\ntwo\nthree\n");
    }

    /// Whoever has a line writes it, but behind those that wait, and not where that could take long.
    #[test]
    fn lines_are_written_at_once_unless_somebody_would_wait() {
        let folder = tempfile::tempdir().unwrap();
        let (auditor, arrivals, state) = opened(folder.path(), KEEP);
        let (desk, run) = auditor.ready();
        let shared = Arc::clone(&desk.shared);
        // However long a write takes on this machine.
        let quick = || shared.slow_until_ms.store(0, Relaxed);
        assert_eq!(desk.write("one\n"), Now::Written);
        quick();
        desk.wait(told(&arrivals, "two"));
        quick();
        assert_eq!(statuses(&arrivals), [200], "no thread was needed");

        let other = shared.auditor();
        assert_eq!(desk.write("lost\n"), Now::Later, "another one writes");
        drop(other);
        shared.took(SLOW);
        assert_eq!(desk.write("lost\n"), Now::Later, "the disk was slow");
        quick();
        let today = std::mem::take(&mut shared.auditor().day);
        assert_eq!(desk.write("lost\n"), Now::Later, "another day, another file");
        shared.auditor().day = today;
        desk.tell(vec![told(&arrivals, "three")]).ok().unwrap();
        assert_eq!(desk.write("lost\n"), Now::Later, "somebody waits");

        let thread = std::thread::spawn(run);
        while desk.write("four\n") == Now::Later {
            quick();
            std::thread::yield_now();
        }
        state.fail("a test");
        assert_eq!(desk.write("lost\n"), Now::Failed);
        drop(desk);
        thread.join().unwrap();
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!(text, "one\ntwo\nthree\nfour\n");
    }

    #[test]
    fn a_line_says_who_did_what_and_quotes_what_must_be() {
        let audit = crate::Audit {
            verb: Some(crate::Verb::Encrypt),
            act: None,
            key: "a\"b",
            version: 3,
            items: 500,
            failed: 1,
        };
        let line = line("crm", 400, &audit).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["who"], &value["key"]), (&"crm".into(), &"a\"b".into()));
        assert_eq!((&value["items"], &value["status"]), (&500.into(), &400.into()));
        assert!(super::line("crm", 200, &crate::Audit::default()).is_none());
        assert!(value.get("act").is_none());
        let act = Some(crate::Act::SoftDelete);
        let line = super::line("crm", 200, &crate::Audit { act, ..audit }).unwrap();
        assert!(line.contains(r#""verb":"encrypt","act":"soft-delete","key""#), "{line}");
    }

    #[test]
    fn an_unfinished_line_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(NAME), "whole\nunfini").unwrap();
        let (mut auditor, arrivals, _) = opened(folder.path(), KEEP);
        write(&mut auditor, vec![told(&arrivals, "next")]);
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert_eq!((text.as_str(), statuses(&arrivals)), ("whole\nnext\n", vec![200]));
    }

    /// The journal's last bytes are not the audit's, and what cannot be written is not done.
    #[test]
    fn a_disk_that_is_nearly_full_refuses_until_it_has_room_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut auditor, arrivals, state) = opened(folder.path(), KEEP);
        auditor.free_bytes_min = u64::MAX;
        auditor.look();
        write(&mut auditor, vec![told(&arrivals, "lost")]);
        assert_eq!((statuses(&arrivals), state.failures.load(Relaxed)), (vec![503], 1));
        auditor.look();
        assert_eq!(state.failures.load(Relaxed), 1, "one failure, however often it is found");
        auditor.free_bytes_min = 0;
        auditor.look();
        write(&mut auditor, vec![told(&arrivals, "kept")]);
        assert_eq!(statuses(&arrivals), [200]);
        assert_eq!(std::fs::read_to_string(folder.path().join(NAME)).unwrap(), "kept\n");
    }

    #[test]
    fn files_are_set_aside_and_the_oldest_goes_where_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let (mut auditor, arrivals, state) = opened(folder.path(), Keep { bytes_max: 400, ..KEEP });
        for turn in 0..60 {
            write(&mut auditor, vec![told(&arrivals, &format!("line number {turn:02} of sixty"))]);
        }
        assert_eq!(statuses(&arrivals), [200; 60]);
        let kept = aside(folder.path());
        let bytes: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
        assert!(!kept.is_empty() && bytes <= 300, "{kept:?}");
        assert!(state.dropped.load(Relaxed) > 0);
        let last = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert!(last.ends_with("line number 59 of sixty\n"));
    }

    #[test]
    fn old_files_go_and_others_of_the_folder_stay() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["vault-audit-2020-01-01-1.jsonl", "vault-audit.txt", "vault-token"] {
            std::fs::write(folder.path().join(name), "x\n").unwrap();
        }
        let old = File::open(folder.path().join("vault-audit-2020-01-01-1.jsonl")).unwrap();
        old.set_modified(SystemTime::now() - Duration::from_secs(91 * DAY_S)).unwrap();
        let (_, _, state) = opened(folder.path(), KEEP);
        assert!(aside(folder.path()).is_empty());
        assert!(folder.path().join("vault-audit.txt").exists());
        assert_eq!(state.dropped.load(Relaxed), 0, "it was its time");
    }
}
