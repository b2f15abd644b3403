//! Asks and their answers.

use std::fmt;
use std::time::Duration;

use money::{Amount, Unit};

use crate::{Error, Verdict};

/// May I spend this, now?
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The budget's id.
    pub budget: u64,
    /// The most that is to be reserved, in the unit's base: micros of a currency, whole items of a count.
    pub amount: Amount,
    /// Which unit the amount is in: the budget must have the same. `None`: the budget's own, whatever it is.
    pub unit: Option<Unit>,
    /// For whom, where frequency matters; 0 for nobody.
    pub user: u64,
    /// What the request is known by; 0 lets the client choose one. It also names the settlement in the books.
    pub request_id: u64,
    /// Neighbours with the same pod, other than 0, are granted all or none.
    pub pod: u16,
    /// Repeats the ask on its connection if its answer is slow; the node remembers what it answered.
    pub retry: bool,
    /// Confirms the hold at once, for work of unknown length: it lives for an hour and not for seconds. The deadline covers the
    /// confirm, too; a hold that is not confirmed by then is released. Of single asks: `reserve_all` gives no holds.
    pub confirm: bool,
    /// How long to wait for the answer; `None`: as the options say.
    pub deadline: Option<Duration>,
}

impl Ask {
    /// An ask for an amount of a unit.
    #[must_use]
    pub const fn new(budget: u64, amount: Amount, unit: Unit) -> Ask {
        Ask {
            budget,
            amount,
            unit: Some(unit),
            user: 0,
            request_id: 0,
            pod: 0,
            retry: false,
            confirm: false,
            deadline: None,
        }
    }

    /// An ask for an amount in exact decimal text, such as `"0.15"` of `"USD"`.
    ///
    /// # Errors
    /// The text is no amount of the unit, or there is no such unit. Nothing is rounded: too many decimals are an error.
    pub fn text(budget: u64, amount: &str, unit: &str) -> Result<Ask, Error> {
        let unit = Unit::parse(unit)?;
        Ok(Ask::new(budget, unit.parse_amount(amount)?, unit))
    }

    pub(crate) fn to_wire(self, request_id: u64) -> wire::decide::Ask {
        let unit = self.unit.map_or([0; 4], Unit::to_code);
        let (budget, amount) = (self.budget, self.amount.get());
        wire::decide::Ask::new(request_id, budget, amount, self.user, unit, self.pod, 0)
    }
}

/// What stands for a hold: opaque, and as good as the money that it holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever has the whole token can spend the hold: a log shows its beginning.
        for byte in &self.0[..4] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("...")
    }
}

/// The answer to an ask of [`Client::reserve_all`](crate::Client::reserve_all).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Granted, or why not.
    pub verdict: Verdict,
    /// The hold's token; zeros unless granted.
    pub token: Token,
    /// The name of the request: the ask's, or the one that the client chose.
    pub request_id: u64,
}

impl Answer {
    pub(crate) const fn refused(verdict: Verdict) -> Answer {
        Answer { verdict, token: Token([0; 32]), request_id: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_printed_whole() {
        assert_eq!(format!("{:?}", Token([0xab; 32])), "abababab...");
    }
}
