//! Campaigns: budgets that bid through OpenRTB, as their owners wrote them down.
//!
//! A campaign is a budget's line with more fields (`docs/campaigns.md`, `schema/campaigns.schema.json`). This module
//! reads and checks them; all texts come out in their normal form ([`normal`]), so that a request's texts, brought
//! into the same form, are compared byte by byte. What an auction needs of them is built elsewhere.
//!
//! Where to look: this file is the model, `read` turns a line into it, `json` and `fields` tell every error with its path,
//! [`normal`] has the forms of texts, [`hours`] the hours of the week, [`video`] what is wanted of players.

mod click;
mod countries;
pub mod fields;
pub mod hours;
pub mod json;
#[cfg(test)]
mod json_schema;
pub mod native;
pub mod normal;
mod read;
#[cfg(test)]
mod schema;
pub mod video;

use gate_profile::Window;
use money::CurrencyCode;

pub(crate) use click::click_doubts;
use hours::Hours;
pub(crate) use read::{CAMPAIGN_FIELDS, campaign, parse_decimal};
use video::VideoTargeting;

/// The highest bid and the highest price: a million of the currency for a thousand impressions, in micros.
pub const BID_MICROS_MAX: i64 = 1_000_000_000_000;
/// Shares and factors have four decimals: this is 1.
pub const FACTOR_ONE: u32 = 10_000;
/// The largest modifier: a hundredfold.
pub const FACTOR_MAX: u32 = 100 * FACTOR_ONE;
/// The largest safety factor of [`ReserveRule::Expected`]: a hundredfold.
pub const SAFETY_MAX: u32 = 100 * FACTOR_ONE;
/// Most modifiers of one campaign.
pub const MODIFIERS_MAX: usize = 64;
/// Most creatives of one campaign.
pub const CREATIVES_MAX: usize = 256;
/// Most caps of one campaign: what a profile reserves for one bid.
pub const CAPS_MAX: usize = gate_profile::CAPS_MAX;
/// Most entries of a list of the targeting.
pub const LIST_MAX: usize = 10_000;
/// Most sizes, domains, categories or attributes of one creative, each.
pub const CREATIVE_LIST_MAX: usize = 64;
/// Longest text, in bytes; markup has its own limit.
pub const TEXT_BYTES_MAX: usize = 256;
/// Longest markup of a creative, in bytes.
pub const MARKUP_BYTES_MAX: usize = 65_536;
/// Longest film or sound, in seconds.
pub const DURATION_S_MAX: u32 = 3_600;

// What a file may say must fit what takes it: otherwise a campaign is read and never bids.
const _: () = assert!(CREATIVES_MAX == gate_auction::CREATIVES_MAX);
const _: () = assert!(MODIFIERS_MAX == gate_auction::MODIFIERS_MAX);
const _: () =
    assert!(FACTOR_ONE == gate_auction::MODIFIER_ONE && FACTOR_MAX == gate_auction::MODIFIER_MAX);
const _: () = assert!(BID_MICROS_MAX == gate_auction::Price::MAX.micros());

/// A campaign: what it pays for an impression, where it wants to be shown, and what it shows. Its money is the budget
/// of the same id.
#[derive(Clone, Debug, PartialEq)]
pub struct Campaign {
    /// The budget's id, which is also the campaign's.
    pub id: u64,
    /// For people.
    pub name: String,
    /// Of the bid, which is the budget's.
    pub currency: CurrencyCode,
    /// What a thousand impressions are worth, in micros of the currency: 1 to [`BID_MICROS_MAX`].
    pub bid_micros: i64,
    /// Changes of the bid, in the order of the file; no segment twice.
    pub modifiers: Vec<Modifier>,
    /// The buyer's seat it bids for; `None` where the exchange knows no seats.
    pub seat: Option<String>,
    /// Domain of who advertises, in normal form.
    pub advertiser: String,
    /// How much of a bid's price is held while the exchange decides.
    pub hold: ReserveRule,
    /// How often one user may see it; no window twice for the same [`CapOf`].
    pub caps: Vec<Cap>,
    /// Where and to whom.
    pub targeting: Targeting,
    /// What to show: 1 to [`CREATIVES_MAX`], each with an id of its own.
    pub creatives: Vec<Creative>,
}

/// Changes the bid for users of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modifier {
    /// The segment.
    pub segment: String,
    /// 0 to [`FACTOR_MAX`]; [`FACTOR_ONE`] changes nothing.
    pub factor: u32,
}

/// How much of a bid's price is held while the exchange decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReserveRule {
    /// All of it: what was won is always paid for, so nothing is ever overspent.
    #[default]
    Full,
    /// The share of it that is won on average, with a margin. More bids fit the budget, and the limit may be overspent
    /// by what outstanding bids cost above their holds.
    Expected {
        /// Share of bids that win, of [`FACTOR_ONE`]: 1 to [`FACTOR_ONE`].
        win_rate: u32,
        /// Margin on it: [`FACTOR_ONE`] (none) to [`SAFETY_MAX`].
        safety: u32,
    },
}

impl ReserveRule {
    /// What to hold for a bid that costs `price_micros` if it wins: the price itself, or the smaller of the price and
    /// price x win rate x safety, rounded up. A price below 0 holds nothing.
    #[must_use]
    pub fn amount(self, price_micros: i64) -> i64 {
        let price = price_micros.max(0);
        let ReserveRule::Expected { win_rate, safety } = self else { return price };
        let one = u128::from(FACTOR_ONE);
        // 63, 32 and 32 bits: the product fits 127.
        let share = u128::from(win_rate) * u128::from(safety);
        let expected = (u128::from(price.unsigned_abs()) * share).div_ceil(one * one);
        i64::try_from(expected).map_or(price, |expected| expected.min(price))
    }
}

/// How often one user may see something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// In which time.
    pub per: Window,
    /// How often: 1 to [`Window::limit_max`].
    pub max: u16,
    /// What is counted.
    pub of: CapOf,
}

/// The words of the times in which impressions are counted: those of the calendar, the shortest first, then the rolling
/// ones.
pub(crate) const CAP_WINDOWS: [(&str, Window); 8] = [
    ("minute", Window::Minute),
    ("hour", Window::Hour),
    ("day", Window::Day),
    ("week", Window::Week),
    ("lifetime", Window::Lifetime),
    ("rolling-hour", Window::RollingHour),
    ("rolling-day", Window::RollingDay),
    ("rolling-week", Window::RollingWeek),
];

/// What a cap counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapOf {
    /// All impressions of the campaign together.
    #[default]
    Campaign,
    /// Those of each creative by itself.
    Creative,
}

impl CapOf {
    /// All of them with their words.
    pub(crate) const ALL: [(&str, CapOf); 2] =
        [("campaign", CapOf::Campaign), ("creative", CapOf::Creative)];
}

/// What a campaign wants of one property of a request. Sorted, nothing twice, nothing in both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists<T> {
    /// At least one of these; empty: no matter.
    pub any: Vec<T>,
    /// None of these.
    pub none: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Lists<T> {
        Lists { any: Vec::new(), none: Vec::new() }
    }
}

/// Where and to whom a campaign wants to be shown; every property has to agree. The default is everywhere, to
/// everyone. Texts are in normal form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targeting {
    /// Segments of the user.
    pub segments: Lists<String>,
    /// Segments that the user must be in, all of them. Sorted, nothing twice.
    pub segments_all: Vec<String>,
    /// Countries, `USA`, and regions, `USA-CA`.
    pub geo: Lists<String>,
    /// Device types, OpenRTB's numbers.
    pub devices: Lists<u8>,
    /// Operating systems.
    pub os: Lists<String>,
    /// Languages, primary tags.
    pub languages: Lists<String>,
    /// Sites and apps by the exchange's id.
    pub supply: Lists<String>,
    /// Domains of publishers and bundles of apps: one list, for a place is one or the other.
    pub domains: Lists<String>,
    /// Categories of the content.
    pub categories: Lists<String>,
    /// Hours of the week in the budget's time zone; `None`: no matter.
    pub hours: Option<Hours>,
    /// Deals that it may use. Sorted, nothing twice.
    pub deals: Vec<String>,
    /// Never without one of the deals, which are then there.
    pub deals_only: bool,
    /// Players of its videos.
    pub video: VideoTargeting,
}

/// Something to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Creative {
    /// Its id, one of a kind in the campaign; OpenRTB's `crid`.
    pub id: String,
    /// What it is.
    pub format: Format,
    /// Sizes it comes in, pixels; (0, 0) stands for any. At least one.
    pub sizes: Vec<(u16, u16)>,
    /// Domains of the advertiser, in normal form; at least one.
    pub adomain: Vec<String>,
    /// Its categories, in normal form.
    pub cat: Vec<String>,
    /// Its attributes, OpenRTB's `attr`.
    pub attr: Vec<u16>,
    /// What the browser or player gets: HTML or VAST, with OpenRTB's macros; or what a native ad is made of ([`native`]).
    /// Not empty.
    pub markup: String,
    /// Loads everything by HTTPS.
    pub secure: bool,
    /// How long it plays, in seconds: 1 to [`DURATION_S_MAX`] for video and audio, `None` for others.
    pub duration_s: Option<u32>,
    /// The app that is advertised, as its store names it.
    pub bundle: Option<String>,
    /// Its language, in normal form.
    pub language: Option<String>,
    /// Where clicks on it lead.
    pub click: Option<String>,
}

/// What a creative is, with the numbers of OpenRTB's `mtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Format {
    /// A picture or HTML.
    Banner = 1,
    /// A film.
    Video = 2,
    /// Sound.
    Audio = 3,
    /// Parts that the publisher puts together.
    Native = 4,
}

impl Format {
    /// All of them with their words.
    pub(crate) const ALL: [(&str, Format); 4] = [
        ("banner", Format::Banner),
        ("video", Format::Video),
        ("audio", Format::Audio),
        ("native", Format::Native),
    ];

    /// Does it play for some time?
    #[must_use]
    pub fn plays(self) -> bool {
        matches!(self, Format::Video | Format::Audio)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_held_by_table() {
        let expected = |win_rate, safety| ReserveRule::Expected { win_rate, safety };
        for (hold, price, amount) in [
            (ReserveRule::Full, 2_500, 2_500),
            (ReserveRule::Full, -1, 0),
            (expected(2_000, 15_000), 2_500, 750),
            (expected(2_000, 15_000), 1, 1),
            (expected(2_000, 15_000), 2_501, 751),
            (expected(8_000, 15_000), 2_500, 2_500),
            (expected(10_000, 10_000), i64::MAX, i64::MAX),
            (expected(1, 10_000), 0, 0),
        ] {
            assert_eq!(hold.amount(price), amount, "{hold:?} {price}");
        }
    }

    proptest! {
        #[test]
        fn a_hold_is_never_above_the_price_nor_below_its_share(
            price in 0..=i64::MAX, win_rate in 1..=FACTOR_ONE, safety in FACTOR_ONE..=SAFETY_MAX,
        ) {
            let held = i128::from(ReserveRule::Expected { win_rate, safety }.amount(price));
            let one = i128::from(FACTOR_ONE);
            let share = i128::from(win_rate) * i128::from(safety);
            prop_assert!(held <= i128::from(price));
            prop_assert!(held == i128::from(price) || held * one * one >= i128::from(price) * share);
            prop_assert!((held - 1) * one * one < i128::from(price) * share);
        }
    }
}
