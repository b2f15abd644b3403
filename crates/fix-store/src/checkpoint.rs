//! How far a session had come, as somebody keeps it beside the files: a journal, as a memo. A folder that is older than that, restored or cut
//! by a loss of power, is found by it: its numbers were used for messages that it does not have.

use std::fmt;

use crate::memo::{Memo, Place};

const VERSION: u8 = 1;
/// How many messages a session may have sent behind its checkpoint: their numbers are passed over.
pub(crate) const UNTOLD_MAX: u64 = 100_000;
/// The greatest MsgSeqNum of a message, of nine digits.
const SEQ_MAX: u64 = 999_999_999;
/// The version, and whether the numbers were set.
const HEAD_BYTES: usize = 2;

/// The numbers of a session at some flush, and how far its files counted then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The session's name.
    pub name: String,
    /// What was known of it.
    pub memo: Memo,
    /// The numbers were set, or began again: they may be lower than those of an earlier checkpoint.
    pub is_set: bool,
}

impl Checkpoint {
    /// Returns what a session's checkpoints are kept under: FNV-1a of its name, 128 bits.
    #[must_use]
    pub fn key(name: &str) -> u128 {
        const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        name.bytes().fold(OFFSET, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME))
    }

    /// Returns it as bytes, at most 180.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.is_set.into()];
        self.memo.append(&self.name, &mut bytes);
        bytes
    }

    /// Reads one; `None` if it is none, or of a version that this one does not know.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Checkpoint> {
        let (head, mut rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let (name, memo) = Memo::take(&mut rest)?;
        let is_known = head[0] == VERSION && head[1] <= 1 && rest.is_empty();
        is_known.then(|| Checkpoint { name, memo, is_set: head[1] == 1 })
    }

    /// Reports whether it says less than an earlier one of the same session, and nobody set the numbers.
    #[must_use]
    pub fn is_behind(&self, earlier: &Memo) -> bool {
        !self.is_set && is_behind(&self.memo, earlier)
    }
}

/// Reports whether one is from an earlier life of a session than the other, or lacks something of the same.
fn is_behind(memo: &Memo, other: &Memo) -> bool {
    let (life, other_life) = (memo.created_unix_ms, other.created_unix_ms);
    let lacks = memo.next_out < other.next_out || memo.next_in < other.next_in;
    life < other_life || life == other_life && lacks
}

/// Returns how a session goes on whose files say this, `None` for nothing, where that is behind what was known `then`; and how many messages are
/// missing that were sent in that life. The files are the beginning of those of then: what counted is told by that, as far as they have it.
pub(crate) fn caught_up(files: Option<Memo>, then: Memo) -> Option<(Memo, u64)> {
    let files = match files {
        Some(files) if !is_behind(&files, &then) => return None,
        Some(files) => files,
        None => Memo { next_out: 1, end: Place::default(), ..then },
    };
    let is_same_life = files.created_unix_ms == then.created_unix_ms;
    if is_same_life && files.next_out >= then.next_out {
        return Some((Memo { next_in: then.next_in, ..files }, 0));
    }
    let sent = if is_same_life { files.next_out } else { 1 };
    let next_in = if is_same_life { then.next_in.max(files.next_in) } else { then.next_in };
    let end = files.end.min(then.end);
    let [life, waiting_from, waiting_to] =
        [then.life, then.waiting_from, then.waiting_to].map(|place| place.min(end));
    // What was sent behind the checkpoint had numbers, too.
    let next_out = then.next_out.saturating_add(UNTOLD_MAX).min(SEQ_MAX.max(then.next_out));
    let memo = Memo { next_out, next_in, end, life, waiting_from, waiting_to, ..then };
    Some((memo, then.next_out.saturating_sub(sent)))
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Memo { next_out, next_in, end, .. } = self.memo;
        let (name, set) = (&self.name, if self.is_set { ", set" } else { "" });
        let (segment, offset) = (end.segment, end.offset);
        write!(
            f,
            "{name}: next out {next_out}, next in {next_in}, file {segment} up to {offset}{set}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(created_unix_ms: i64, next_out: u64) -> Checkpoint {
        let end = Place { segment: 3, offset: 4_096 };
        let memo = Memo { next_out, next_in: 9, end, ..Memo::new(created_unix_ms) };
        Checkpoint { name: "CLIENT1".to_owned(), memo, is_set: false }
    }

    #[test]
    fn it_comes_back_as_it_was_and_whatever_else_is_none() {
        let whole = Checkpoint { is_set: true, ..checkpoint(5, 12) };
        let bytes = whole.to_bytes();
        assert_eq!(Checkpoint::from_bytes(&bytes), Some(whole.clone()));
        assert!((0..bytes.len()).all(|end| Checkpoint::from_bytes(&bytes[..end]).is_none()));
        for wrong in [
            [&[2], &bytes[1..]].concat(),
            [&[1, 2], &bytes[2..]].concat(),
            [&bytes[..], &[0]].concat(),
        ] {
            assert_eq!(Checkpoint::from_bytes(&wrong), None);
        }
        let longest = Checkpoint { name: "x".repeat(80), ..whole.clone() };
        assert_eq!(longest.to_bytes().len(), 180);
        assert_eq!(whole.to_string(), "CLIENT1: next out 12, next in 9, file 3 up to 4096, set");
        assert_ne!(Checkpoint::key("CLIENT1"), Checkpoint::key("CLIENT2"));
    }

    #[test]
    fn less_of_the_same_life_or_an_earlier_life_is_behind_unless_somebody_set_it() {
        let earlier = checkpoint(5, 12).memo;
        for (created, next_out, is_behind) in
            [(5, 11, true), (5, 12, false), (5, 13, false), (4, 99, true), (6, 1, false)]
        {
            let one = checkpoint(created, next_out);
            assert_eq!(one.is_behind(&earlier), is_behind, "{created} {next_out}");
            assert!(!Checkpoint { is_set: true, ..one }.is_behind(&earlier));
        }
        let less_came = Memo { next_in: 8, ..earlier };
        assert!(Checkpoint { memo: less_came, ..checkpoint(5, 12) }.is_behind(&earlier));
    }
}
