//! The book of a door that keeps orders: a row for each, in groups at the end of one file of the simulated disk. A group counts once
//! it is sealed; one that was torn is none.

use std::collections::BTreeMap;
use std::io;

use ledger::{Amount, LegAmounts};
use ledger_journal::files::{Access, BLOCK_BYTES, File, Folder};

use crate::files::{SimFile, SimFolder};
use crate::planted::Block;

const NAME: &str = "book";
/// Sum, bytes, number.
const HEAD_BYTES: usize = 16;
const LEG_WORDS: usize = 7;

/// What is to stand in the books of each budget.
pub(crate) type Legs = BTreeMap<u64, LegAmounts>;

/// What a door knows of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It left, or is about to.
    Open = 1,
    /// All of it is booked: the ledger is told to forget it.
    Ending,
    /// The ledger has it, and nobody knows whether it left.
    Doubt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) legs: Legs,
    pub(crate) stage: Stage,
}

#[derive(Debug)]
pub(crate) struct Book {
    file: SimFile,
    end: u64,
    pub(crate) rows: BTreeMap<u128, Row>,
    /// That of the last group: they rise.
    pub(crate) number: u64,
    /// Drawn anew where records were lost: numbers of before say nothing of the time after.
    pub(crate) life: u64,
    /// Where each group begins, by number.
    groups: Vec<(u64, u64)>,
    /// Something stood behind the last group, and was cut off.
    pub(crate) torn: bool,
    /// The last attempt failed.
    failed: bool,
}

impl Book {
    /// Reads what is there, and seals it.
    pub(crate) fn open(disk: &SimFolder) -> io::Result<Book> {
        let is_there = disk.list()?.iter().any(|name| name == NAME);
        let file = match is_there {
            true => disk.open(NAME, Access::Write)?,
            false => disk.create(NAME)?,
        };
        if let Err(error) = disk.sync() {
            // A name that a failed sync dropped comes to the disk only if the file is made anew.
            if !is_there {
                disk.remove(NAME)?;
            }
            return Err(error);
        }
        let mut bytes = vec![0; at(file.len()?)];
        file.read_at(0, &mut bytes)?;
        // What fills a group's last block may be lost.
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        let (rows, groups) = (BTreeMap::new(), Vec::new());
        let mut book =
            Book { file, end: 0, rows, number: 0, life: 0, groups, torn: false, failed: false };
        while let Some((number, words)) = read_group(&bytes[at(book.end)..], book.number) {
            book.take(number, &words);
        }
        book.torn = bytes.len() > at(book.end);
        // A sync may have failed on the last one: then what reads well is not on the disk, and no sync brings it there.
        if let Some((_, begin)) = book.groups.last() {
            write(&book.file, *begin, &bytes[at(*begin)..at(book.end)])?;
        }
        book.file.set_len(book.end)?;
        book.file.sync()?;
        Ok(book)
    }

    /// Writes what became of rows as one group, and seals it. After an error some of it may be there, or all.
    pub(crate) fn append(&mut self, changes: &[(u128, Option<Row>)]) -> io::Result<()> {
        let mut words = Vec::new();
        changes.iter().for_each(|(key, row)| write_row(&mut words, *key, row.as_ref()));
        let number = self.number + 1;
        words.insert(0, self.life);
        let all = [number].into_iter().chain(words.iter().copied());
        let mut bytes: Vec<u8> = vec![0; HEAD_BYTES / 2];
        bytes.extend(all.flat_map(u64::to_le_bytes));
        let len = u32::try_from(bytes.len()).expect("small");
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        // What a failed sync dropped nobody writes again, the length neither: the attempt after it begins where the last sealed group ends.
        if std::mem::replace(&mut self.failed, true) {
            self.file.set_len(self.end)?;
        }
        write(&self.file, self.end, &bytes)?;
        self.file.sync()?;
        self.failed = false;
        self.take(number, &words);
        Ok(())
    }

    /// Somebody puts a copy of before this number in its place. False: there is none.
    pub(crate) fn put_back(&mut self, number: u64) -> io::Result<bool> {
        let Some((_, offset)) = self.groups.iter().find(|(group, _)| *group >= number) else {
            return Ok(false);
        };
        self.file.set_len(*offset)?;
        self.file.sync()?;
        Ok(true)
    }

    fn take(&mut self, number: u64, words: &[u64]) {
        let Some((life, mut rest)) = words.split_first() else { return };
        while let [low, high, stage, legs, more @ ..] = rest {
            let key = u128::from(*high) << 64 | u128::from(*low);
            let (legs, after) = more.split_at(at(*legs) * LEG_WORDS);
            let stage = match stage {
                0 => None,
                1 => Some(Stage::Open),
                2 => Some(Stage::Ending),
                _ => Some(Stage::Doubt),
            };
            self.rows.remove(&key);
            if let Some(stage) = stage {
                let legs = legs.as_chunks::<LEG_WORDS>().0.iter().map(read_leg).collect();
                self.rows.insert(key, Row { legs, stage });
            }
            rest = after;
        }
        self.life = *life;
        self.groups.push((number, self.end));
        self.number = number;
        let bytes = HEAD_BYTES + size_of_val(words);
        self.end += bytes.next_multiple_of(BLOCK_BYTES) as u64;
    }
}

fn write(file: &SimFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    for (offset, bytes) in (offset..).step_by(BLOCK_BYTES).zip(bytes.chunks_exact(BLOCK_BYTES)) {
        file.write_at(offset, &Block(bytes.try_into().expect("a whole block")).0)?;
    }
    Ok(())
}

fn at(number: u64) -> usize {
    usize::try_from(number).expect("small")
}

fn write_row(words: &mut Vec<u64>, key: u128, row: Option<&Row>) {
    let (low, high) = (key & u128::from(u64::MAX), key >> 64);
    words.extend([low, high].map(|half| u64::try_from(half).expect("a half")));
    words.push(row.map_or(0, |row| row.stage as u64));
    words.push(row.map_or(0, |row| row.legs.len() as u64));
    for (budget, LegAmounts { hold, spent }) in row.iter().flat_map(|row| &row.legs) {
        words.push(*budget);
        let amounts = [*hold].into_iter().chain(*spent);
        words.extend(amounts.map(|amount| u64::try_from(amount.get()).expect("not below zero")));
    }
}

fn read_leg(words: &[u64; LEG_WORDS]) -> (u64, LegAmounts) {
    let [budget, amounts @ ..] = *words;
    let [hold, spent @ ..] =
        amounts.map(|amount| Amount::new(i64::try_from(amount).expect("written above")));
    (budget, LegAmounts { hold, spent })
}

/// The group that begins here, if it is whole and comes after this one.
fn read_group(bytes: &[u8], after: u64) -> Option<(u64, Vec<u64>)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let len = usize::try_from(word(4)?).ok()?;
    let whole = bytes.get(4..len).filter(|_| len >= HEAD_BYTES)?;
    if crc32c::crc32c(whole) != word(0)? {
        return None;
    }
    let mut words = whole[4..].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    let number = words.next().filter(|number| *number > after)?;
    Some((number, words.collect()))
}
