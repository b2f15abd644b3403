//! FIX messages in their tag=value form: from received bytes to fields, and from one peer's message to the next peer's.
//!
//! ```text
//!   bytes ── frame() ──▶ Frame ── Index::read ──▶ Message ── Validation::check ──▶ Ok, or a Rejection (35=3)
//!                 │                                  │
//!                 └─▶ more bytes, ignore some,       ├─▶ find, value, Decimal, Timestamp
//!                     or close the connection        └─▶ Envelope::write ──▶ bytes for the next peer
//! ```
//!
//! ```
//! use fix::{Decimal, Dictionary, Framing, Index, Validation, frame};
//!
//! let bytes = b"8=FIX.4.4\x019=89\x0135=D\x0134=2\x0149=A\x0152=20261123-10:15:30\x0156=B\x0111=id\x0121=1\x0138=5.50\x0140=1\x01\
//!               54=1\x0155=X\x0160=20261123-10:15:30\x0110=000\x01";
//! # let bytes = { let body = &bytes[15..bytes.len() - 7]; let mut m = format!("8=FIX.4.4\x019={}\x01", body.len()).into_bytes();
//! # m.extend_from_slice(body); let sum = fix::sum(&m); m.extend_from_slice(format!("10={sum:03}\x01").as_bytes()); m };
//! let mut index = Index::new(512);
//! let Framing::Whole(order) = frame(&bytes, 65_536) else { panic!("no whole message") };
//! let order = index.read(order)?;
//! assert_eq!(order.value(11), Some(&b"id"[..]));
//! assert_eq!(Decimal::parse(order.value(38).unwrap_or_default())?.to_string(), "5.50");
//! assert_eq!(Validation::Full(&Dictionary::fix44()).check(&order), Ok(()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Rules
//! - A message ends where BodyLength (9) says. Nothing searches for `10=`: raw data may contain it.
//! - What is garbled is ignored as a whole and moves no sequence number: [`Framing::Ignored`] says how much, [`Garbled`] why.
//! - A tag is a number without leading zeros. `0`, negative tags and those that no dictionary knows are fields like others: only full
//!   validation rejects them, so a report from a venue never gets lost because of one.
//! - Only the first `=` of a field divides it. A data field has as many bytes as the field before it says, SOH and `=` too.
//! - A length that leads nowhere is no garbling but a [`Fault`]: the message is rejected and counts as received. Otherwise the peer
//!   would be asked for the same message for ever.
//! - Numbers are exact: [`Decimal`] has no float.
//! - [`Message::find`] knows no groups. What a message says of itself is read through [`Dictionary::grouped`]: a leg or a side of it may
//!   have a field of the same tag.
//! - [`Envelope`] keeps every byte behind the header, in its order.
//!
//! # How it is fast
//! [`Simd`] picks instructions when an index is made. With AVX-512 VBMI2 one compare gives the SOHs of 64 bytes as a mask, and one
//! compression of 0 to 63 by that mask gives all their places, without a branch; these places pick the first bytes of up to 16 fields at
//! once, whose tags are multiplied out. Tags of more than four digits are gathered in a second pass. A lookup compares 32 tags at once.
//! AVX2 and a portable way follow, which property tests hold together.
//! Nothing allocates per message. `peers fix` measures reading and passing on beside other engines.
//!
//! The crate is pure: no I/O, no clock, no threads. All `unsafe` code lies in one private module, `vector`.

mod decimal;
mod dictionary;
mod frame;
mod garbled;
mod group;
mod index;
mod kept;
mod reject;
mod rewrite;
mod simd;
pub mod tag;
mod time;
mod validate;
#[cfg(target_arch = "x86_64")]
mod vector;

pub use decimal::{Decimal, DecimalError};
pub use dictionary::{Dictionary, DictionaryError, FieldType};
pub use frame::{Frame, Framing, SOH, frame, is_misled, sum};
pub use garbled::Garbled;
pub use group::{Entries, Grouped};
pub use index::{Fault, Field, Index, Message};
pub use kept::KeptMessages;
pub use reject::{RejectReason, Rejection};
pub use rewrite::{Envelope, RewriteError, Sending, Signed, ValueError};
pub use simd::Simd;
pub use tag::{DataFields, Tag};
pub use time::{Timestamp, TimestampReader, TimestampText};
pub use validate::Validation;
