//! Which campaign bids for an impression, with which creative, and at what price.
//!
//! Nothing here reads a clock, does I/O or starts a thread; no float and no random number takes part. The answer is a
//! function of (snapshot, request, desk), whatever order the campaigns came in. After a few requests of the largest
//! kind nothing allocates.
//!
//! ```text
//!   when campaigns change                        every request, on a worker
//!   [Campaign] ── Index::build ──▶ Index ──────▶ Index::auction(request, scratch)
//!                                                  │ 1 bitmaps of nine dimensions are joined     all campaigns, a bit each
//!   strings ── Dictionary ──▶ keys ──▶ Request     │ 2 per impression: sizes and deals joined
//!                                                  │ 3 seat, all-of segments, modifiers, pace    candidates, a line each
//!                                                  │   (Desk::price), deal, floor; ranked
//!                                                  │ 4 creative, blocklists, Desk::able          the best few
//!                                                  ▼ 5 the price: first, second or fixed
//!                                                Choice ── Desk::hold ── refused: the next best, priced anew
//! ```
//!
//! # Rules
//! - The highest price after pacing wins. Exact ties are broken by a hash of request and campaign, so each of equals
//!   wins equally often, and a request always has the same answer.
//! - A second price is the next best plus a millionth (CPM), at least the floor and at most the bid. The next best
//!   counts only if it has a creative to show and is able to pay.
//! - A deal's floor replaces the impression's. A fixed price (`at` = 3) is the floor itself. A campaign with deals
//!   takes the first offered one whose seats and floor it meets, else bids without one where it may.
//! - A floor whose currency has no rate is met by nobody.
//! - The text of a list that no campaign knows is [`UNKNOWN`]: a whitelist of strangers excludes all of ours.
//!
//! # Why-not
//! A [`Tally`] is told the fate of each campaign that gets past the bitmaps; [`Counters`] is one. The fate of the
//! others is always [`Reason::Targeting`] and is what is left over, so it costs nothing. [`Index::explain`] asks every
//! campaign every question, with the auction's own bitmaps and functions.
//!
//! # Which bitmaps
//! Plain words, 512 campaigns a block, sparse lists where few campaigns name a key. Campaigns lie sorted by country and
//! format, and of every further bitmap only the blocks are read that still hold somebody. `cargo run --release -p
//! gate-auction --example auction_bench` sets compressed `roaring` bitmaps beside it: on 50,000 campaigns in the same
//! order, joining the nine dimensions took 8.4 us a request on plain words and 85 us on roaring (two shared cores,
//! 2026-11-21). The comparison is not even: the plain index also leaves out, early, who has nothing for the sizes
//! asked, and the roaring side is the plain way to write it: it builds and allocates a union for each dimension.
//!
//! # How fast
//! Same run: 28,800 requests a second on a core (34.7 us each, 1.3 impressions a request), 25,500 with [`Counters`].
//! An impression had 804 candidates, of which 623 met the floor. Both cores were busy with other work. The wanted
//! 400,000 a second are far away: a quarter of the time goes into joining, nearly all of the rest into asking every
//! candidate, about 25 ns each. Not tried yet: asking in the order of bids and stopping when no one left can win. It
//! would make the counters of floor and pacing less exact.
//!
//! # What is left to others
//! Turning JSON into keys, currency rates, frequency caps and purses (a [`Desk`]), notices. One bid an impression is
//! chosen, not several; `guar` deals are not preferred; a blocked category does not block its children unless the
//! door lists them.

mod auction;
mod bits;
mod campaign;
mod explain;
mod index;
mod key;
mod price;
mod rank;
mod reason;
mod request;
mod scratch;

pub use auction::{Auction, Bidder, Choice, Desk};
pub use campaign::{
    CAMPAIGNS_MAX, CREATIVES_MAX, Campaign, CampaignError, Creative, Lists, MODIFIERS_MAX,
    Modifier, Targeting,
};
pub use explain::{Explanation, Outcome, Step};
pub use index::Index;
pub use key::{Dictionary, DictionaryFull, KEY_MAX, Space, UNKNOWN};
pub use price::{At, Conversion, Floor, MODIFIER_MAX, MODIFIER_ONE, Price, Pricing, price_to_send};
pub use reason::{Counters, Fates, Reason, Tally};
pub use request::{Deal, Dimension, Exclusive, Format, Impression, Placement, Request, Rules};
pub use scratch::Scratch;
