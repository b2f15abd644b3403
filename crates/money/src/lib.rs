//! Amounts, units, rounding and time windows: the types that keep money from being mixed up.
//!
//! Nothing here reads a clock, does I/O or starts a thread. No float touches an amount, and nothing wraps or
//! saturates: arithmetic that can leave its range returns an `Option`.
//!
//! There are two sides, and every step between them is written out:
//!
//! - **At run time** a budget has a [`Unit`], and everything of that budget is an [`Amount`] in the unit's base
//!   (micros or nanos of a currency, whole items of a count). Books, purses and wire messages carry amounts.
//! - **At compile time** [`Money<C>`](Money), [`Cpm<C>`](Cpm) and [`Count`] say in their type what they are, so
//!   that code that works out prices cannot mix them up. [`Money::from_amount`] checks the unit.
//!
//! Time is an [`Instant`] (UTC, milliseconds), and a [`Window`] of it; [`day_at`] tells the civil day of an
//! instant in a [`Zone`].

mod amount;
mod instant;
mod tagged;
mod unit;
mod window;
mod zone;

pub use amount::{ASK_MAX, Amount, LIMIT_MAX, Rounding};
pub use instant::{Instant, ParseInstantError};
pub use tagged::{Count, Cpm, Currency, Money, ParseRateError, Rate, currency};
pub use unit::{CurrencyCode, ParseAmountError, Scale, Unit, UnitError};
pub use window::{
    HOURS_OF_WEEK, Window, day_at, hour_at, hour_of_week, minute_at, month_at, week_at,
};
pub use zone::{OffsetSpan, Zone, ZoneCache, ZoneError};
