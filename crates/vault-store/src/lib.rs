//! Where the vault's named keys are durable: their records in one file. And where the key comes from that wraps them all (the KEK): a
//! [`KekSource`], or a passphrase ([`kek_of_passphrase`]).
//!
//! ```text
//!   KeyStore::change ── Keys::decide ──▶ record ──▶ KeyFile::append: written and synced, or cut off again
//!                                                        │
//!                       Keys::apply ◀────────────────────┘
//!                            └──▶ KeyFile::applied: a file that has grown is written anew with Keys::snapshot
//! ```
//!
//! # Files
//! ```text
//!   lock      held by the process that writes
//!   keys      the records, the newest last
//!   passphrase  how a passphrase becomes the KEK: parameters and salt, no secret; only where there is one
//!   kek-of-transit  the KEK as another Transit encrypted it; the node's, only where one keeps it
//!   keys.new  the next `keys` while it is written; removed when the folder is opened
//! ```
//! All integers are little-endian.
//! ```text
//!   head    0 "WEIRKEYS"  8 version u32  12 CRC-32C of 0..12 u32  16        the same in every version
//!   record  0 its bytes u32  4 CRC-32C of those four bytes and of the record u32  8 the record
//! ```
//! Records hold wrapped keys only; the folder and its files are for the user of the process alone all the same.
//!
//! # What counts
//! - An appended record is synced before the call returns. Kill -9 and power cuts leave every acknowledged record, and at most the one
//!   behind it.
//! - A record that is unfinished or has another sum, with no whole record anywhere behind it, is what a crash left: it is cut off, and the log
//!   says so. With one behind it the file is damaged: it is refused with the offset, and nothing is changed.
//! - A failed write or sync is cut off, and work goes on. If that fails too, or if nobody knows which of two files a crash would leave,
//!   every further change is refused until the folder is opened again.
//! - Everything that is found is synced before it is believed.

mod disk;
mod error;
mod kek;
mod key_file;
mod layout;
mod passphrase;

#[cfg(test)]
mod tests;

pub use error::OpenError;
pub use kek::{KekError, KekSource, check_owner_only};
pub use key_file::{KeyFile, Options};
pub use passphrase::{
    PASSPHRASE_BYTES_MAX, PASSPHRASE_BYTES_MIN, PassphraseError, kek_of_passphrase, passphrase_hint,
};
