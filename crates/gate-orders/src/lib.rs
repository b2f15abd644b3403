//! Orders as money: executions, busts, corrections and replaces to the absolute amounts of a named hold.
//!
//! An order binds budgets ([`Leg`]). For each of them the ledger keeps a named hold: an amount that is held and amounts that are booked,
//! absolute, so that stating them twice changes nothing. This crate computes them from what the client and the venue say:
//!
//! ```text
//!   D    Order::open ── amounts ──▶ ask ── granted ──▶ kept, sent           refused: dropped
//!   G    Order::ask  ── amounts ──▶ ask ── granted ──▶ Event::Sent, sent    refused: nothing has changed
//!   8, 9 Event ── Order::apply ── changed? ──▶ kept ──▶ amounts, stated as a fact
//! ```
//!
//! With exact sums at 10^-18 of a unit, `booked = ceil(spent)` and `hold = ceil(spent + worst) - booked`, where `worst` is what the
//! worst of all versions may still cost: the one that the venue has, and those that it has not answered. Up to what was covered when a
//! version was granted, answered or restated, executions are `settled`, above it `over_settled`; on a closed order they are `late`,
//! unless CumQty had told of them before, then they were `inferred`.
//!
//! | law | how |
//! | --- | --- |
//! | an id is booked once, and a repeated event changes nothing | ids of executions and amendments, numbers of versions |
//! | executions, corrections and busts end alike in any order of arrival | the last of a chain counts, not the latest to arrive |
//! | a thousand fills cost what one costs | one rounding per order and leg, up |
//! | a refused replace leaves no trace | what it covered is kept beside it |
//! | no execution is refused for want of money; no event that closes or cancels is refused at all | budgets are the ledger's |
//!
//! Places of `price x quantity x multiplier` beyond 18 are rounded up, each execution for itself. Sums that 64 bits of base units do not
//! hold are refused ([`Refusal::Range`]), never cut off. CumQty is compared as of its arrival: the venue's reports are to be applied in
//! the order of their numbers wherever that is known.
//!
//! The crate is pure: no I/O, no clock, no randomness. It allocates for what an order keeps: its legs, versions and executions.

mod codec;
mod event;
mod exact;
mod executions;
mod order;
mod price;
mod sums;
mod versions;

pub use codec::BytesError;
pub use event::{Amendment, Check, Event, ExecId, Execution, Size, Version};
pub use order::{Alarm, Effect, LEGS_MAX, Leg, Order, PENDING_MAX, Refusal, Standing};
pub use price::{NoPrice, Pricing};
pub use sums::LegAmounts;
pub use versions::Phase;
