//! What pacing learned, kept over restarts: `pacing.bin` in the data folder. Losing it costs a cold start, never money.
//!
//! ```text
//! "weirpac1" | rows | checksum (CRC-32C of all before it, 4 bytes)
//! row: id, hours, recent multipliers, landscape, the last change of the plan: numbers of seven bits per byte
//! ```

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant as Clock};

use gate_pacing::{Bin, History, Hour, LandscapeLearner, Rebase};
use ledger::Amount;
use money::Instant;
use weir_config::private;
use weir_pacer::{Known, Learned, Pacer};

use crate::error::{StartError, system};

const MAGIC: &[u8; 8] = b"weirpac1";
const NAME: &str = "pacing.bin";
/// Between the ends of two savings.
const PAUSE_MS: u64 = 60_000;
/// Budgets written in one turn, each some ten thousand instructions where it has learned.
const SLOTS_A_TURN: usize = 32;
/// How long the last saving waits for the disk.
const FINISH_WITHIN: Duration = Duration::from_secs(60);
/// Between two attempts to hand over the last saving.
const RETRY: Duration = Duration::from_millis(5);

/// What an earlier run learned, by budget.
pub(crate) type Memory = HashMap<u64, Known>;

/// Reads what an earlier run left. A damaged file is said and set aside.
pub(crate) fn load(data: &Path) -> Memory {
    let path = data.join(NAME);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Memory::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what pacing learned cannot be read: it learns anew");
            return Memory::new();
        }
    };
    decode(&bytes).unwrap_or_else(|| {
        let aside = path.with_extension("bin.bad");
        let kept = std::fs::rename(&path, &aside).is_ok();
        tracing::warn!(path = %path.display(), kept, "what pacing learned is damaged: it learns anew; the file is *.bad now");
        Memory::new()
    })
}

/// Saves what a pacer learned, a part in each turn that paces, so that the bank never waits for it.
#[derive(Debug)]
pub(crate) struct PacingSaver {
    bytes: Vec<u8>,
    next_slot: usize,
    due_ms: u64,
    to_disk: SyncSender<Vec<u8>>,
    /// Disconnected once the thread that writes has ended.
    ended: Receiver<()>,
}

impl PacingSaver {
    /// Starts the thread that writes.
    pub(crate) fn start(data: &Path) -> Result<PacingSaver, StartError> {
        let path = data.join(NAME);
        let (to_disk, savings) = sync_channel::<Vec<u8>>(1);
        let (runs, ended) = sync_channel(0);
        let write_all = move || {
            let _runs: SyncSender<()> = runs;
            for bytes in savings {
                if let Err(error) = write(&path, &bytes) {
                    tracing::warn!(path = %path.display(), %error, "what pacing learned is not saved");
                }
            }
        };
        let keeper = Builder::new().name("pacing-keeper".to_owned()).spawn(write_all);
        keeper.map_err(|e| system("a thread", &e))?;
        Ok(PacingSaver { bytes: MAGIC.to_vec(), next_slot: 0, due_ms: 0, to_disk, ended })
    }

    /// Takes the next part; hands the whole to the disk at the end. `ids` are the budgets by slot.
    pub(crate) fn turn(
        &mut self,
        pacer: &Pacer,
        ids: impl Fn(u32) -> u64,
        slots: usize,
        now_ms: u64,
    ) {
        if now_ms < self.due_ms {
            return;
        }
        let end = slots.min(self.next_slot + SLOTS_A_TURN);
        self.encode(pacer, &ids, self.next_slot..end);
        self.next_slot = end;
        if end < slots {
            return;
        }
        let whole = std::mem::replace(&mut self.bytes, MAGIC.to_vec());
        (self.next_slot, self.due_ms) = (0, now_ms + PAUSE_MS);
        // No room: the disk is more than a saving behind. The next one holds more.
        let _ = self.to_disk.try_send(whole);
    }

    /// Plans have changed: they are saved from the next tick on.
    pub(crate) fn hurry(&mut self) {
        self.due_ms = 0;
    }

    /// Saves all of it, now.
    pub(crate) fn finish(mut self, pacer: &Pacer, ids: impl Fn(u32) -> u64, slots: usize) {
        self.bytes = MAGIC.to_vec();
        self.encode(pacer, &ids, 0..slots);
        let PacingSaver { bytes, to_disk, ended, .. } = self;
        let until = Clock::now() + FINISH_WITHIN;
        let queued = send_until(&to_disk, bytes, until);
        drop(to_disk);
        let rest = until.saturating_duration_since(Clock::now());
        if !(queued && ended.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected)) {
            tracing::warn!("the disk took too long: the latest figures of pacing are not saved");
        }
    }

    fn encode(&mut self, pacer: &Pacer, ids: &impl Fn(u32) -> u64, slots: std::ops::Range<usize>) {
        for slot in slots.filter_map(|slot| u32::try_from(slot).ok()) {
            let (learned, rebase) = (pacer.learned(slot), pacer.rebased(slot));
            if learned.is_some() || rebase.is_some() {
                put_row(&mut self.bytes, ids(slot), learned, rebase);
            }
        }
    }
}

/// Waits for room at most until this time; returns whether the saving is queued.
fn send_until(to_disk: &SyncSender<Vec<u8>>, mut saving: Vec<u8>, until: Clock) -> bool {
    loop {
        match to_disk.try_send(saving) {
            Ok(()) => return true,
            Err(TrySendError::Full(back)) if Clock::now() < until => saving = back,
            Err(_) => return false,
        }
        std::thread::sleep(RETRY);
    }
}

/// Writes the file whole, or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("bin.new");
    let mut file = private::create(&new)?;
    file.write_all(bytes)?;
    file.write_all(&crc32c::crc32c(bytes).to_le_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

fn put_row(out: &mut Vec<u8>, id: u64, learned: Option<&Learned>, rebase: Option<Rebase>) {
    put(out, id);
    put(out, u64::from(learned.is_some()) | u64::from(rebase.is_some()) << 1);
    if let Some(Learned { history, landscape }) = learned {
        for Hour { weeks, requests, spent, multiplier_q32 } in history.hours() {
            for number in [u64::from(*weeks), *requests, *spent, *multiplier_q32] {
                put(out, number);
            }
        }
        history.recent().iter().for_each(|number| put(out, *number));
        for Bin { seen, critical, full } in landscape.bins() {
            for number in [*seen, *critical, *full] {
                put(out, number);
            }
        }
    }
    if let Some(Rebase { at, planned }) = rebase {
        put(out, at.ms());
        put(out, planned.get().max(0).unsigned_abs());
    }
}

/// A number, seven bits per byte, low bits first.
fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7F).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

fn decode(bytes: &[u8]) -> Option<Memory> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let mut memory = Memory::new();
    while !rest.is_empty() {
        let (id, known) = take_row(&mut rest)?;
        memory.insert(id, known);
    }
    Some(memory)
}

fn take_row(rest: &mut &[u8]) -> Option<(u64, Known)> {
    let (id, parts) = (take(rest)?, take(rest)?);
    let mut known = Known::default();
    if parts & 1 != 0 {
        let mut hours = *History::default().hours();
        for hour in &mut hours {
            let weeks = u32::try_from(take(rest)?).ok()?;
            let (requests, spent, multiplier_q32) = (take(rest)?, take(rest)?, take(rest)?);
            *hour = Hour { weeks, requests, spent, multiplier_q32 };
        }
        let mut recent = *History::default().recent();
        for multiplier in &mut recent {
            *multiplier = take(rest)?;
        }
        let mut bins = *LandscapeLearner::default().bins();
        for bin in &mut bins {
            *bin = Bin { seen: take(rest)?, critical: take(rest)?, full: take(rest)? };
        }
        let (history, landscape) =
            (History::from_parts(hours, recent), LandscapeLearner::from_bins(bins));
        known.learned = Some(Box::new(Learned { history, landscape }));
    }
    if parts & 2 != 0 {
        let at = Instant::checked_from_ms(take(rest)?)?;
        known.rebase = Some(Rebase { at, planned: Amount::new(i64::try_from(take(rest)?).ok()?) });
    }
    Some((id, known))
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, more) = rest.split_first()?;
        *rest = more;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_pacer::PacerOptions;

    fn learned(seed: u64) -> Learned {
        let mut hours = *History::default().hours();
        for (at, hour) in (1..).zip(&mut hours) {
            let weeks = u32::try_from(at % 3).unwrap();
            *hour = Hour { weeks, requests: seed ^ at, spent: seed / at, multiplier_q32: at << 20 };
        }
        let mut bins = *LandscapeLearner::default().bins();
        bins[3] = Bin { seen: seed, critical: 7, full: u64::MAX };
        Learned {
            history: History::from_parts(hours, [seed; 24]),
            landscape: LandscapeLearner::from_bins(bins),
        }
    }

    fn sealed(mut body: Vec<u8>) -> Vec<u8> {
        let sum = crc32c::crc32c(&body);
        body.extend(sum.to_le_bytes());
        body
    }

    proptest! {
        #[test]
        fn rows_come_back(seed: u64, id: u64, at in 0_u64..1 << 45, spent in 0_i64.., has: bool) {
            let rebase = has.then_some(Rebase { at: Instant::from_ms(at), planned: Amount::new(spent) });
            let (one, mut body) = (learned(seed), MAGIC.to_vec());
            put_row(&mut body, id, Some(&one), rebase);
            put_row(&mut body, id ^ 1, None, Some(Rebase { at: Instant::from_ms(5), planned: Amount::ZERO }));
            let memory = decode(&sealed(body)).unwrap();
            let Known { learned: back, rebase: again } = &memory[&id];
            let back = back.as_ref().unwrap();
            prop_assert_eq!(back.history.hours(), one.history.hours());
            prop_assert_eq!(back.history.recent(), one.history.recent());
            prop_assert_eq!(back.landscape.bins(), one.landscape.bins());
            prop_assert_eq!(*again, rebase);
            prop_assert_eq!(memory.len(), 2);
            prop_assert!(memory[&(id ^ 1)].learned.is_none());
        }

        #[test]
        fn strange_bytes_are_refused(bytes: Vec<u8>, cut in 0_usize..200) {
            prop_assert!(decode(&bytes).is_none());
            // A row that is cut off, under a sum that is right.
            let mut body = MAGIC.to_vec();
            put_row(&mut body, 1, Some(&learned(99)), None);
            let end = body.len() - 1 - cut;
            prop_assert!(decode(&sealed(body[..end].to_vec())).is_none());
        }
    }

    #[test]
    fn the_last_saving_is_written_before_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let saver = PacingSaver::start(folder.path()).unwrap();
        // The disk is a saving behind.
        saver.to_disk.send(MAGIC.to_vec()).unwrap();
        saver.to_disk.send(MAGIC.to_vec()).unwrap();
        saver.finish(&Pacer::new(PacerOptions::default()), u64::from, 0);
        let bytes = std::fs::read(folder.path().join(NAME)).unwrap();
        assert!(decode(&bytes).is_some());
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        assert!(load(folder.path()).is_empty());
        let mut body = MAGIC.to_vec();
        put_row(&mut body, 9, Some(&learned(1)), None);
        write(&folder.path().join(NAME), &body).unwrap();
        assert!(load(folder.path()).contains_key(&9));
        std::fs::write(folder.path().join(NAME), b"weirpac1 but not really").unwrap();
        assert!(load(folder.path()).is_empty());
        assert!(folder.path().join("pacing.bin.bad").exists());
    }
}
