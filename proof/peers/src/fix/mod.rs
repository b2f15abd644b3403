//! The FIX engine beside what others use: where fields end, the index of a message, the whole parse, an order that passes through the
//! gate on one thread, and the same over loopback beside a proxy of bytes.

mod engines;
mod loopback;
mod messages;
mod parse;
mod passing;

use crate::Size;

/// Prints the tables.
pub fn run(size: Size) {
    parse::run(size);
    passing::run(size);
    loopback::run(size);
}
