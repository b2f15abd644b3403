//! Why a request gets no bid, with the codes of the specification and our own.

/// Why there is no bid. [`code`](Self::code) is what `nbr` says; codes from 500 on are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoBidReason {
    /// Nothing more is known.
    Unknown,
    /// A technical error here.
    Technical,
    /// The request is invalid.
    Invalid,
    /// A known crawler.
    Crawler,
    /// Suspected traffic that is not human.
    NonHuman,
    /// The address of a data centre or a proxy.
    Proxy,
    /// The device is not supported.
    Device,
    /// The publisher or site is blocked.
    BlockedSite,
    /// The user is not known.
    UnknownUser,
    /// The user's cap of the day is met.
    UserCap,
    /// The domain's cap of the day is met.
    DomainCap,
    /// The deadline is too near, or past.
    InsufficientTime,
    /// The supply chain is not complete.
    ChainIncomplete,
    /// A station of the supply chain is blocked.
    ChainBlocked,
    /// No campaign matches.
    NoMatch,
    /// The budgets of those that match are spent.
    BudgetSpent,
    /// The plans of those that match say not now.
    Paced,
    /// Money of those that match is on its way to this worker.
    PurseEmpty,
    /// All prices are below the floor.
    BelowFloor,
    /// No creative passes size, format and blocklists.
    NoCreative,
    /// A private auction without a deal of ours.
    NoDeal,
    /// No floor or bid in a currency that we can use.
    Currency,
    /// Privacy rules forbid it.
    Privacy,
    /// A bid of ours failed its own check before it was sent.
    SelfCheck,
    /// The node is stopping or overloaded.
    Busy,
}

impl NoBidReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 25] = [
        Self::Unknown,
        Self::Technical,
        Self::Invalid,
        Self::Crawler,
        Self::NonHuman,
        Self::Proxy,
        Self::Device,
        Self::BlockedSite,
        Self::UnknownUser,
        Self::UserCap,
        Self::DomainCap,
        Self::InsufficientTime,
        Self::ChainIncomplete,
        Self::ChainBlocked,
        Self::NoMatch,
        Self::BudgetSpent,
        Self::Paced,
        Self::PurseEmpty,
        Self::BelowFloor,
        Self::NoCreative,
        Self::NoDeal,
        Self::Currency,
        Self::Privacy,
        Self::SelfCheck,
        Self::Busy,
    ];

    /// The number in `nbr`.
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Unknown => 0,
            Self::Technical => 1,
            Self::Invalid => 2,
            Self::Crawler => 3,
            Self::NonHuman => 4,
            Self::Proxy => 5,
            Self::Device => 6,
            Self::BlockedSite => 7,
            Self::UnknownUser => 8,
            Self::UserCap => 9,
            Self::DomainCap => 10,
            Self::InsufficientTime => 15,
            Self::ChainIncomplete => 16,
            Self::ChainBlocked => 17,
            Self::NoMatch => 500,
            Self::BudgetSpent => 501,
            Self::Paced => 502,
            Self::PurseEmpty => 503,
            Self::BelowFloor => 504,
            Self::NoCreative => 505,
            Self::NoDeal => 506,
            Self::Currency => 507,
            Self::Privacy => 508,
            Self::SelfCheck => 509,
            Self::Busy => 510,
        }
    }

    /// The reason's name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Technical => "technical",
            Self::Invalid => "invalid",
            Self::Crawler => "crawler",
            Self::NonHuman => "non_human",
            Self::Proxy => "proxy",
            Self::Device => "device",
            Self::BlockedSite => "blocked_site",
            Self::UnknownUser => "unknown_user",
            Self::UserCap => "user_cap",
            Self::DomainCap => "domain_cap",
            Self::InsufficientTime => "insufficient_time",
            Self::ChainIncomplete => "chain_incomplete",
            Self::ChainBlocked => "chain_blocked",
            Self::NoMatch => "no_match",
            Self::BudgetSpent => "budget_spent",
            Self::Paced => "paced",
            Self::PurseEmpty => "purse_empty",
            Self::BelowFloor => "below_floor",
            Self::NoCreative => "no_creative",
            Self::NoDeal => "no_deal",
            Self::Currency => "currency",
            Self::Privacy => "privacy",
            Self::SelfCheck => "self_check",
            Self::Busy => "busy",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_place_a_code_and_a_name_of_its_own() {
        for (place, why) in NoBidReason::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
            let twins = NoBidReason::ALL
                .into_iter()
                .filter(|other| other.code() == why.code() || other.name() == why.name());
            assert_eq!(twins.count(), 1, "{why:?}");
        }
    }
}
