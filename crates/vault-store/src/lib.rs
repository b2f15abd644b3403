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
//!   carried   how many messages of a log on other machines `keys` has; only where there is one
//!   keys.new  the next `keys` while it is written; removed when the folder is opened
//! ```
//! Records hold wrapped keys only; the folder and its files are for the user of the process alone all the same.

mod carried;
mod error;
mod kek;
mod key_file;
mod passphrase;

#[cfg(test)]
mod tests;

pub use carried::{CarriedKeys, Carrier, NotSent, NotTaken, Travelling, TravellingFile, travels};
pub use error::OpenError;
pub use kek::{KekError, KekSource, check_owner_only};
pub use key_file::{KeyFile, Options};
pub use passphrase::{
    PASSPHRASE_BYTES_MAX, PASSPHRASE_BYTES_MIN, PassphraseError, kek_of_passphrase, passphrase_hint,
};
