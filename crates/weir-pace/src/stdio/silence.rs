//! Why there was not one bid in a conversation, where no strategy could have made one.

use std::fmt;

/// Nothing that was asked could be bid on. Seconds are those of the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// There are no campaigns.
    NoCampaigns,
    /// Every budget is 0.
    NoMoney,
    /// No request names a campaign with a value above 0.
    NoOffers,
    /// All flights begin after the last batch.
    Ahead {
        /// When the first flight begins.
        begins: i128,
        /// The second of the last batch.
        last: u64,
    },
    /// All flights are over before the first batch.
    Over {
        /// When the last flight ends.
        ends: i128,
        /// The second of the first batch.
        first: u64,
    },
    /// No request names a campaign during its flight.
    Missed,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = |second: &i128| second.div_euclid(86_400);
        match self {
            Silence::NoCampaigns => f.write_str("no campaign stands before GO, expected lines C"),
            Silence::NoMoney => f.write_str("the budget of every campaign is 0"),
            Silence::NoOffers => f.write_str(
                "no request says who may bid, expected R rid cid:value with values above 0",
            ),
            Silence::Ahead { begins, last } => write!(
                f,
                "every flight begins after the last batch: the first at second {begins} (day {}), the last batch is of second \
                 {last} (day {}); is first_day of the lines C right?",
                day(begins),
                day(&i128::from(*last))
            ),
            Silence::Over { ends, first } => write!(
                f,
                "every flight is over before the first batch: the last ends at second {ends} (day {}), the first batch is of \
                 second {first} (day {}); is first_day of the lines C right?",
                day(ends),
                day(&i128::from(*first))
            ),
            Silence::Missed => {
                f.write_str("no request names a campaign during the day of its flight")
            }
        }
    }
}
