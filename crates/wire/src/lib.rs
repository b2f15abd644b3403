//! The batch protocol (frames and zero-copy views), the records of the [`journal`] and the messages of the [`live`] stream,
//! generated from `schema/weir.xml`, `schema/journal.xml` and `schema/live.xml` when the crate is compiled.
//!
//! A frame is a framing header (FIX Simple Open Framing Header), an SBE message header, a root block of fixed fields,
//! repeating groups of fixed entries, and variable-length data; `docs/formats.md` draws the bytes.
//!
//! - **Reading**: [`frame::split`] cuts a stream of bytes into frames. [`Message::decode`] checks a whole frame once,
//!   every length and count of it, and hands out a view; from then on reads are plain loads from the buffer.
//! - **Writing**: each message has a module with `encode`, which writes into a buffer of the caller, in order, and
//!   `encoded_len`, which says how much room that takes. Nothing is allocated.
//!
//! For each message `Xyz` of the schema there is a view [`Xyz<'_>`](Decide), also reachable through [`Message`], and a
//! module [`xyz`](decide) with `Block` (the fixed fields), one type for the entries of each group (`asks` -> `Ask`;
//! `Item` where that name is taken), `encode` and `encoded_len`. Enums and sets of the schema are plain types
//! ([`Verdict`], [`DecideFlags`]).
//!
//! ```
//! use wire::{Message, decide};
//!
//! let mut buf = [0; 256];
//! let block = decide::Block::new(7, wire::DecideFlags::REMEMBER);
//! let ask = decide::Ask::new(1, 42, 1_500_000, 0, *b"USD\0", 0, 0);
//! let len = decide::encode(&mut buf, &block)?.asks(&[ask])?.finish();
//!
//! let Message::Decide(batch) = Message::decode(&buf[..len])? else { panic!("another message") };
//! assert_eq!(batch.frame(), 7);
//! for ask in batch.asks() {
//!     assert_eq!((ask.budget_id(), ask.amount()), (42, 1_500_000));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A stranger's bytes can make decoding fail with a [`FrameError`]; they never make it panic, and nothing here is
//! `unsafe`.

#![forbid(unsafe_code)]

// Generated code says `::wire::...`, so that it also compiles outside of this crate (the tests do that).
extern crate self as wire;

mod error;
pub mod frame;
mod group;
mod handle;
pub mod rt;
mod visit;

pub use error::{EncodeError, FrameError};
pub use frame::{ENCODING_TYPE, FRAME_HEADER_LEN, FRAME_LEN_MIN, MESSAGE_HEADER_LEN, Split};
pub use group::{Entries, Entry, Group};
pub use handle::{BudgetName, HANDLE_BYTES_MAX, Handle, HandleError};
pub use visit::Visitor;

mod generated {
    include!(concat!(env!("OUT_DIR"), "/weir.rs"));
}
pub use generated::*;

pub mod journal {
    //! The records of the journal and the parts of its snapshots: the same kinds of views and encoders as those of the
    //! batch protocol, for messages *without* framing header.
    //!
    //! A record is an SBE message header of [`MESSAGE_HEADER_LEN`](crate::MESSAGE_HEADER_LEN) bytes, a root block, groups
    //! and data. Where it ends is known from outside: the journal's own record head says so. [`Message::decode`] takes
    //! exactly the bytes of one record and refuses what does not fill them; `encode` writes at the beginning of the
    //! buffer, and `finish` says how many bytes it took.
    //!
    //! ```
    //! use wire::journal::{self, Message};
    //!
    //! let mut buf = [0; 64];
    //! let block = journal::returned::Block::new(7, 1_500_000);
    //! let len = journal::returned::encode(&mut buf, &block)?.finish();
    //!
    //! let Message::Returned(returned) = Message::decode(&buf[..len])? else { panic!("another record") };
    //! assert_eq!((returned.grant(), returned.amount()), (7, 1_500_000));
    //! assert_eq!(len, journal::returned::encoded_len());
    //! # Ok::<(), Box<dyn std::error::Error>>(())
    //! ```

    include!(concat!(env!("OUT_DIR"), "/journal.rs"));
}

pub mod live {
    //! The messages of the dashboard's live stream: the same kinds of views and encoders as those of the `journal`,
    //! without framing header. Each is one binary message of a WebSocket; `docs/api.md` draws the bytes.

    include!(concat!(env!("OUT_DIR"), "/live.rs"));
}
