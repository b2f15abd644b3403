//! What FIX sessions remember: every message in append-only files, and the sequence numbers that change together with them.
//!
//! ```text
//!   Session ── put, set_next_in, reset ──▶ FileStore: staged, and seen at once by who asks
//!                                             │
//!   the end of a step ── FileStores::flush ───┤ one group for all sessions: their messages and their memos, one write to `numbers`, and one
//!                                             │ wait for the disk if one of them is sealed
//!                                             ▼
//!                                      bytes may leave for the peers
//!
//!   64 KiB of a session, or `numbers` is long ▶ its messages, one write to its segment
//! ```
//!
//! # Files
//! ```text
//!   lock                       held by the process that writes
//!   reserve                    zeros; removed when the disk is full, so that little can still be kept
//!   numbers                    groups of changes, the newest last
//!   numbers.next               goes on behind `numbers` when that has grown by 8 MiB, and takes its name; with nothing but zeros behind its head it is not in use yet
//!   s-CLIENT1/00000001.fix     segments of the session CLIENT1: messages of both directions
//!   s-CLIENT1/00000002.fix
//!   b-VENUE1/00000001.fix      the book of the session VENUE1, if it has one: records of what stands behind it, as messages that were sent
//! ```
//! All integers are little-endian.
//! ```text
//!   segment  head      0 "WEIRFIXM"  8 number u64  16 next_out u64  24 at_us i64  32 CRC-32C of 0..32 u32  36 zeros  64
//!            record    0 CRC-32C of 4..32 u32  4 CRC-32C of the message u32  8 its bytes u32  12 kind u8 (1 sent, 2 received)  13 zeros
//!                      16 MsgSeqNum u64 (0 if received)  24 at_us i64  32 the message
//!   numbers  head      0 "WEIRFIXN"  8 version u32 (3)  12 zeros  16 salt u64  24 CRC-32C of 0..24 u32  28 zeros  64
//!            group     0 "GRP2"  4 CRC-32C of the salt and 8..end u32  8 bytes of the changes u32  12 changes  ...zeros to a multiple of 64
//!            change    a memo, then bytes of its records u32, segment and offset where they belong u64, the records as in the segment
//!            memo      0 bytes of the name u16  2 name  then u64 or i64: next_out, next_in, created_unix_ms,
//!                      life segment and offset, end segment and offset,
//!                      unsure_from, waiting_from segment and offset, waiting_to segment and offset
//! ```
//!
//! # What counts
//! - A message counts if its session's newest memo says so: it lies before the memo's `end`. What a crash left behind it is cut off.
//! - A group of changes is whole or nothing. So the messages of a step, the numbers, and what another session was given in that step are there
//!   together or not at all: kill -9 at any instant leaves the state after some flush.
//! - Messages of a group may not be in their segments yet. Whoever opens the folder writes them there first, as often as it takes; who only
//!   reads takes them from the group. Before a file of groups goes all its messages are in their segments, those of sealed steps on the disk.
//! - `numbers.next` is read behind `numbers`, and begins with the newest memo of every session. Its head and its name are on the disk before it is
//!   used, so that a sealed step waits for its own write alone. It takes the name of `numbers` when the messages of that one and its own first group
//!   are on the disk: a thread (`fix-numbers`) sees to it, and makes the next one. Until then both count; what fails is tried again, and at 128 MiB
//!   a file is written at once, in the place of the newest.
//! - What a failed sync was to bring to the disk is written again, to another file or from the groups: a second sync that goes well says nothing.
//! - Sums of groups begin with a number that is drawn for each file: nothing in a message can be taken for a group.
//! - The version before (2) has memos alone in its groups (`GRP1`), and is read as well.
//! - A message is checked when it is read. A damaged one is not there: the session fills the gap and raises an alarm.
//! - When the numbers begin again, messages that may not have reached the peer wait: they are a stretch of the segments, and its start moves
//!   with what is sent of it, in the same group.
//! - A failed write changes nothing: the staged changes are dropped, and the newest file of groups is written anew before the next ones.
//! - Records whose segment is missing, because the folder is away or the session is not added, begin each new file of groups behind the memos, until
//!   the segment is back: at an opening, or when the session is added. They are forgotten where the session has a later segment, as after retention.
//! - Where the folder of a session cannot be written, nothing of its group is kept in that step ([`fix_session::MessageStores::flush_apart`]), and
//!   all of the other groups is. `numbers` does not become shorter meanwhile.
//! - Values of passwords (554, 925, 1400 to 1404) and of RawData (96) in a Logon or a UserRequest are kept as `***`.
//!
//! [`Checkpoint`] is what somebody else keeps of a session now and then, so that a folder that is older is found: [`FileStores::add_behind`].
//! [`Numbers`] is where changes are kept, so that a journal can keep them in place of the file.

mod checkpoint;
mod error;
mod handover;
mod history;
mod mask;
mod memo;
mod numbers;
mod reader;
mod record;
mod reserve;
mod segment;
mod store;
mod stores;

#[cfg(test)]
mod tests;

pub use checkpoint::Checkpoint;
pub use error::OpenError;
pub use fix_session::Durability;
pub use history::{
    Direction, Kept, last_times, read_history, read_history_from, read_memos, session_names,
};
pub use memo::{Change, Memo, Numbers, Place};
pub use numbers::NumbersFile;
pub use store::FileStore;
pub use stores::{FileStores, Options};
