//! Which campaign bids for an impression, with which creative, and at what price.
//!
//! Nothing here reads a clock, does I/O or starts a thread; no float and no random number takes part. The answer is a
//! function of (snapshot, request, context), whatever order the campaigns came in. After a few requests of the largest
//! kind nothing allocates.
//!
//! ```text
//!   when campaigns change                        every request, on a worker
//!   [Campaign] ── Index::build ──▶ Index ──────▶ Index::auction(request, scratch)
//!                                                  │ 1 keys become rows of bits
//!   strings ── Dictionary ──▶ keys ──▶ Request     │ 2 per impression, the highest bound first: who may use its deals,
//!                                                  │   then all others, who are found by joining rows
//!                                                  │ 3 each: targeting, seat, BidContext::price, floor, creative,
//!                                                  │   BidContext::may_show ... until nobody left can change the answer
//!                                                  │ 4 BidContext::able, of the best and the next
//!                                                  ▼ 5 the price: first, second or fixed
//!                                                Choice ── BidContext::hold ── refused: the search goes on
//! ```
//!
//! # Rules
//! - The highest price after pacing wins. Exact ties are broken by a hash of request and campaign, so each of equals
//!   wins equally often, and a request always has the same answer.
//! - Bids with a guaranteed deal go before all others; then those with a deal, if [`Rules::deals_first`].
//! - A second price is the next best plus a millionth (CPM), at least the floor and at most the bid. The next best
//!   counts only if it has a creative to show, is able to pay, and is not of a class that goes behind anyway.
//! - Floors: the deal's, else that of video or audio by its duration, else the impression's. A fixed price (`at` = 3) is
//!   the floor itself. A campaign with deals takes the first offered one whose seats and floor it meets and for which it
//!   has a creative, else bids without one where it may.
//! - [`Rules::bids_per_impression_max`] bids are made for an impression, each priced as if those before it were not
//!   there.
//! - A dynamic pod ([`Pod`]) is auctioned ad by ad among those for which time is left, each of another campaign and
//!   advertiser.
//! - No bid satisfies a floor in a currency without a rate.
//! - The text of a list that no campaign knows is [`UNKNOWN`]: a whitelist of strangers excludes all of ours. A blocked
//!   category blocks its children: [`Dictionary::family`].
//!
//! # When an auction stops
//! Slots are in the order of **bounds**: the bid times all modifiers that raise it. Nobody bids more than its bound, so
//! once the best offer is above the bound of the next slot, it is the best of all; the runner-up is found the same way.
//! So does a bound below the floor end the search. Those that may use a deal that is offered come first: among them the
//! search ends the same way, and a bid with a deal that goes first ends it for all others. [`Auction::refuse`] and
//! [`Auction::another`] go on from there.
//!
//! # Why not?
//! An auction that stops early cannot tell everybody's fate. [`Index::survey`] can: it asks all candidates, but only
//! peeks at the context. Run it for a sample of requests with [`Counters`], which know the size of the sample.
//! [`Index::explain`] tells of one impression every step of every campaign.
//!
//! # How it is fast
//! 1. The place of a campaign in the order of bounds is its slot; 512 slots are a **block**.
//! 2. Each key of each dimension has a **row** with one bit per campaign that wants the key or nothing of the dimension. A
//!    block of a row is one cache line. Rare keys have a sorted list of slots instead. Placements, seats, and the
//!    categories and languages of creatives are keys as well.
//! 3. A request is processed block by block, the highest bounds first: rows of a dimension are joined by or, dimensions by
//!    and. Only the `none` and `all` lists are checked per campaign. The lines of one block lie together.
//! 4. What a candidate needs lies in an entry of 64 bytes and one packed record: conditions, modifiers, deals, creatives.
//! 5. A **signature** of 64 bits beside each entry of a deal's list excludes most campaigns of the deal unread.
//!
//! An impression searches 1.9 of 98 blocks, looks at 3.3 campaigns and asks 2.1 for a price (50,000 made-up campaigns,
//! `cargo run --release -p gate-auction --example auction_bench`).
//!
//! `docs/auction.md` has the rules and the laws.
//!
//! # What is left to others
//! Turning JSON into keys, currency rates, frequency caps, players and purses (a [`BidContext`]), notices.

mod auction;
mod campaign;
mod conditions;
mod explain;
mod index;
mod judge;
mod key;
mod keyset;
mod price;
mod rank;
mod reason;
mod record;
mod request;
mod rows;
mod scratch;
mod signature;
mod survey;

pub use auction::{Auction, BidContext, Bidder, Choice};
pub use campaign::{
    CAMPAIGNS_MAX, CREATIVES_MAX, Campaign, CampaignError, Creative, Lists, MODIFIERS_MAX,
    Modifier, Targeting,
};
pub use explain::{Explanation, Outcome, Step};
pub use index::{Index, Note};
pub use key::{Dictionary, DictionaryFull, KEY_MAX, Space, UNKNOWN};
pub use price::{
    Conversion, Floor, MODIFIER_MAX, MODIFIER_ONE, Price, PriceRule, Pricing, Rank, price_to_send,
};
pub use reason::{Counters, Fates, Reason, Tally};
pub use request::{
    BlockedAttribute, Deal, Dimension, DurationFloor, Exclusive, Format, Impression, Placement,
    Pod, Request, Rules, Timing,
};
pub use scratch::Scratch;
