//! A budget as the dashboard and the API show it.

use money::{Amount, Unit};
use serde::Serialize;

macro_rules! codes {
    ($(#[$about:meta])* $kind:ident {
        $($(#[$attribute:meta])* $name:ident = $code:literal, $word:literal, $doc:literal;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        #[repr(u8)]
        pub enum $kind { $($(#[$attribute])* #[doc = $doc] $name = $code,)* }

        impl $kind {
            /// All of them, in the order of their codes.
            pub const ALL: &'static [$kind] = &[$($kind::$name),*];

            /// The code in the frames of the live stream.
            #[must_use]
            pub fn code(self) -> u8 {
                self as u8
            }

            /// The word in JSON and in filters.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $($kind::$name => $word,)* }
            }

            /// The one that is called so.
            #[must_use]
            pub fn parse(word: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|one| one.word() == word)
            }
        }

        impl Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.word())
            }
        }
    };
}

codes! {
    /// How a budget stands.
    Status {
        #[default]
        Active = 0, "active", "It spends as planned.";
        Limited = 1, "limited", "It is behind its plan, or waits for a limit.";
        Paused = 2, "paused", "Its owner paused it.";
        Exhausted = 3, "exhausted", "Its limit is spent: nothing is left, and no hold can give any back.";
        Ended = 4, "ended", "Its flight is over, or it was removed.";
        NoPurse = 5, "no_purse", "Funds remain, but no worker of this node currently holds a share.";
        Error = 6, "error", "The node cannot spend for it.";
        Waiting = 7, "waiting", "Its flight has not begun.";
    }
}

codes! {
    /// Why a budget stands as it does.
    Reason {
        #[default]
        None = 0, "none", "There is nothing to say.";
        NoTraffic = 1, "no_traffic", "Fewer eligible requests than expected.";
        Outbid = 2, "outbid", "Another campaign of this node goes before it.";
        Floor = 3, "floor", "Its bids are below the floors.";
        Cap = 4, "cap", "Users have seen it often enough.";
        Purse = 5, "purse", "The workers' shares run dry.";
        Blocked = 6, "blocked", "No creative is free of what is blocked.";
        Held = 7, "held", "Too much of it waits in holds.";
        CatchingUp = 8, "catching_up", "It is behind its plan and has room to catch up.";
        Paced = 9, "paced", "The plan lets less through than is asked for.";
        Limit = 10, "limit", "Nothing is left of its limit, or less than was asked.";
        DayLimit = 11, "day_limit", "Nothing is left of a window's limit: of the day, or of a minute, hour, week or month.";
        Parent = 12, "parent", "Nothing is left of a parent's limit, or less than was asked; or the parent is paused or outside its flight.";
        FlightAhead = 13, "flight_ahead", "Its flight has not begun.";
        FlightOver = 14, "flight_over", "Its flight is over.";
        DayParts = 15, "day_parts", "It does not run at this hour.";
        Owner = 16, "owner", "Its owner paused it.";
        Removed = 17, "removed", "It was removed from the configuration.";
        PurseDenied = 18, "purse_denied", "Funds remain, but the bank gave this node's workers no share of them.";
        Journal = 19, "journal", "The journal cannot seal.";
        Busy = 20, "busy", "A bounded queue is full.";
        Lost = 21, "lost", "It bids all it may, and too few of its bids win.";
        NotInForce = 22, "not_in_force", "No set of budgets is in force: the budgets file was refused, or is not there.";
    }
}

codes! {
    /// How a budget's spend is spread.
    Pacing {
        #[default]
        Asap = 0, "asap", "As fast as asks come.";
        Schedule = 1, "schedule", "No faster than the plan.";
        Coin = 2, "coin", "A part of the asks takes part.";
        Curve = 3, "curve", "Bids follow the plan's curve.";
        Steer = 4, "steer", "Bids are steered by what is won.";
        Auto = 5, "auto", "As steer where it is known what impressions cost, else as curve.";
    }
}

codes! {
    /// How long a window is, in the budget's zone.
    Period {
        #[default]
        Minute = 0, "minute", "A minute of the zone's clocks.";
        Hour = 1, "hour", "An hour of the zone's clocks.";
        Day = 2, "day", "A civil day.";
        Week = 3, "week", "Sunday to Saturday.";
        Month = 4, "month", "A civil month.";
    }
}

/// A limit of a stretch of time, and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WindowUse {
    /// It refills all the time; else it is whole again at its end.
    pub bucket: bool,
    /// What may be spent in it.
    pub limit: Amount,
    /// Handed out in it, and not come back.
    pub used: Amount,
}

/// The windows of a budget, each at the place of its [`Period`]'s code.
pub type WindowUses = [Option<WindowUse>; Period::ALL.len()];

/// What is true of a budget beside its status: bits in the frames, words in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// Something was spent above holds or after they were gone.
    pub const DEBT: Flags = Flags(1);
    /// Its pacing window is open.
    pub const OPEN: Flags = Flags(2);
    /// Its limit is below what is out.
    pub const LOWERED: Flags = Flags(4);
    /// It is changed by the API, on top of the budgets file.
    pub const EDITED: Flags = Flags(8);
    /// Bit by bit, with their words.
    pub const ALL: [(Flags, &'static str); 4] = [
        (Flags::DEBT, "debt"),
        (Flags::OPEN, "open"),
        (Flags::LOWERED, "lowered"),
        (Flags::EDITED, "edited"),
    ];

    /// Are all bits of `flag` set?
    #[must_use]
    pub fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 == flag.0
    }

    /// With these bits too, if `on`.
    #[must_use]
    pub fn with(self, flag: Flags, on: bool) -> Flags {
        if on { Flags(self.0 | flag.0) } else { self }
    }
}

/// What of a budget changes only when somebody changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Chosen by its owner.
    pub id: u64,
    /// For people; no control characters.
    pub name: Box<str>,
    /// Its unique text name.
    pub handle: Option<Box<str>>,
    /// Unit of its amounts.
    pub unit: Unit,
    /// The budget that binds it too.
    pub parent: Option<u64>,
    /// Does it bid?
    pub campaign: bool,
    /// The flight begins, ms since 1970 UTC; `None`: open.
    pub start_ms: Option<u64>,
    /// The flight ends.
    pub end_ms: Option<u64>,
    /// IANA name of its zone.
    pub zone: Box<str>,
    /// How its spend is spread.
    pub pacing: Pacing,
    /// Rises with each change of its configuration: the ETag.
    pub revision: u64,
}

/// What of a budget changes by itself. Amounts are base units of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct State {
    /// How it stands...
    pub status: Status,
    /// ...why...
    pub reason: Reason,
    /// ...and since when both are so, ms since 1970 UTC.
    pub since_ms: u64,
    /// The verdict that most refusals of the last 10 s met, as in `schema/weir.xml`; 0: none.
    pub top_refusal: u8,
    /// Flags.
    pub flags: Flags,
    /// The amount that may be spent in its life.
    pub limit: Amount,
    /// Settled, over-settled and late.
    pub spent: Amount,
    /// Of these over-settled and late.
    pub debt: Amount,
    /// In holds of any kind.
    pub held: Amount,
    /// Free and in purses; limit = spent + held + available. May be negative.
    pub available: Amount,
    /// The pacing window begins, ms since 1970 UTC.
    pub window_start_ms: u64,
    /// It ends.
    pub window_end_ms: u64,
    /// What the plan spends in the window; `None` without a plan.
    pub window_budget: Option<Amount>,
    /// Of this by now.
    pub window_planned: Option<Amount>,
    /// Spent in the window, as the plan counts it.
    pub window_spent: Option<Amount>,
    /// The daily limit.
    pub daily: Option<Amount>,
    /// Spent in the civil day of its zone.
    pub day_spent: Amount,
    /// When the next day begins, where there is a daily limit.
    pub day_ends_ms: Option<u64>,
    /// Its windows, with that of a daily limit.
    pub windows: WindowUses,
    /// Spent in the last 60 s.
    pub spend_minute: Amount,
    /// Asks in 100 s, from the mean of the last 10 s.
    pub asks: u32,
    /// Of these granted; for a campaign: bids.
    pub grants: u32,
    /// Of these refused; for a campaign: impressions it did not bid for.
    pub refusals: u32,
    /// Of these with the verdict `top_refusal`.
    pub top_refusals: u32,
    /// What its campaigns did, with those of budgets under it; `None` where nothing bids.
    pub counted: Option<Counted>,
}

/// Impressions, and what was booked for them, since the figures of campaigns began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counted {
    /// Holds that were settled, once each.
    pub impressions: u64,
    /// Of these clicked; `None` while clicks are not counted.
    pub clicks: Option<u64>,
    /// Base units of the budget's unit.
    pub spend: Amount,
}

impl Counted {
    /// The price of a thousand impressions, rounded up to a base unit; `None` without any.
    #[must_use]
    pub fn cpm(&self) -> Option<i128> {
        self.price(1_000, self.impressions)
    }

    /// The price of a click, rounded up to a base unit; `None` without any.
    #[must_use]
    pub fn cpc(&self) -> Option<i128> {
        self.price(1, self.clicks?)
    }

    /// Clicks in a million impressions, rounded down; `None` where none are counted.
    #[must_use]
    pub fn ctr_ppm(&self) -> Option<u64> {
        self.clicks?.checked_mul(1_000_000)?.checked_div(self.impressions)
    }

    fn price(&self, of: i128, count: u64) -> Option<i128> {
        let count = i128::from(count);
        let spend = i128::from(self.spend.get()).checked_mul(of)?;
        (count > 0).then(|| (spend + count - 1) / count)
    }
}
