//! OpenRTB 2.6 over HTTP: bid requests read in place, bids written and checked, notices.
//!
//! The door knows the specification and no money rule. What it is asked it hands to a [`Gate`]; the gate's bids are
//! checked against the request before they leave ([`Answer::push`]), so nothing wrong ever does.
//!
//! ```text
//!  body ── simd-json ──▶ tape ── one walk ──▶ BidRequest ──▶ Gate::bid ── push ──▶ check ──▶ JSON
//!  path ── Notice::parse ──────────────────────────────────▶ Gate::notice ── now, or later
//! ```
//!
//! What is read, what is answered and what is counted stands in `docs/openrtb.md`.

mod ad;
mod answer;
mod check;
mod click;
mod domain;
mod door;
mod json;
mod lists;
mod mend;
mod native;
mod no_bid;
mod notice;
mod price;
mod privacy;
mod read;
mod request;
mod settings;
mod sizes;
mod taxonomy;
mod text;
mod vast;

pub use ad::{
    Ad, AdSpec, MACRO_BILL, MACRO_CLICK, MACRO_CLICK_ESCAPED, MACRO_CLICK_PIXEL, MACRO_WIN, Mtype,
    asks_click, leads, macros, unknown_macro,
};
pub use answer::{Answer, Bid, BidId, Mark};
pub use check::Violation;
pub use click::{
    CLICK_BYTES_MAX, Click, ClickKind, ClickStatus, Clicked, Redirect, Visitor, clicked,
};
pub use domain::domains_above;
pub use door::{Door, Front, HEALTH_PATH, VERSION_HEADER, noticed};
pub use lists::{
    DurationFloor, Eid, Eids, Ints, Node, Nodes, Numbers, Segment, Segments, Texts, TimedFloors,
};
pub use native::{
    BadNative, NativeAsset, NativeImage, NativeKind, NativeMiss, NativeReader, NativeRequest,
    NativeSet, NativeSpec, NativeTracker,
};
pub use no_bid::NoBidReason;
pub use notice::{
    BadNotice, NOTICE_ID_BYTES_MAX, NOTICE_PATH, Notice, NoticeId, NoticeIds, NoticeKind, PriceText,
};
pub use price::{PRICE_MICROS_END, UNREACHABLE_MICROS};
pub use privacy::{
    BadConsent, Consent, PersonalData, Privacy, PrivacyCause, PrivacyTerms, Purposes,
};
pub use read::{BadRequest, ReadLimits, Reader};
pub use request::{
    Banner, BidRequest, Deal, Device, Floor, Format, Imp, Native, Place, PlaceKind, Regs, Source,
    Stream, Top, User,
};
pub use settings::{
    BIDS_MAX, ExchangeSettings, NoBidForm, Settings, SettingsError, check_bid_path,
};
pub use taxonomy::{
    CategoryList, FirstCategory, TAXONOMY_FIRST, first_categories, is_mapped, unsaid,
};
pub use vast::{ATTRIBUTE_SKIPPABLE, StreamSpec};

use door_transport::ConnId;

/// What stands behind the door.
pub trait Gate {
    /// Milliseconds since the Unix epoch, as of this wake-up.
    fn now_ms(&self) -> u64;

    /// When the bytes of the request came that is read now, at the earliest, in milliseconds since the Unix epoch: its `tmax` runs from then.
    #[inline(always)]
    fn arrived_ms(&self) -> u64 {
        self.now_ms()
    }

    /// Milliseconds since the Unix epoch, read now.
    #[inline(always)]
    fn clock_ms(&mut self) -> u64 {
        self.now_ms()
    }

    /// Hears of which exchange the next body is: 0 is the first, others are in the order of [`Door::set_exchanges`]. Refused, it is not read,
    /// and answered without a bid.
    #[inline(always)]
    fn of_exchange(&mut self, _: usize) -> bool {
        true
    }

    /// Answers one request: pushes bids. What it holds for a bid that [`Answer::push`] refuses it gives back.
    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome;

    /// Takes a notice.
    fn notice(&mut self, conn: ConnId, notice: &Notice<'_>) -> Noticed;

    /// Takes a click.
    fn click(&mut self, _: ConnId, _: &Click<'_>) -> Clicked {
        Clicked::Now(ClickStatus::Unknown)
    }

    /// Are the node's budgets still to come into force? Balancers are told so; bid requests get no bid.
    fn is_starting(&self) -> bool {
        false
    }

    /// HTTP refused a request; for the counters.
    fn refused(&mut self, why: door_http::Refusal);

    /// Something happened; for the counters.
    fn count(&mut self, event: Event);

    /// A request has come so far; for a gate that measures where time goes.
    #[inline(always)]
    fn passed(&mut self, _: Passed) {}
}

/// How far a request has come. Each is told once per request, in this order; the middle two of bid requests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It is whole: its head is read, its body at hand.
    Arrived,
    /// The body is read, or refused.
    Read,
    /// The answer's body is written, if it has one.
    Written,
    /// The answer is in the connection's output, if it is not left for later.
    Answered,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Bids were pushed. If there are none, it is a no-bid for an unknown reason.
    Bids,
    /// There is no bid; what was pushed does not leave.
    NoBid(NoBidReason),
    /// It waited too long for an answer in time.
    Shed,
}

/// What came of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// It is answered now.
    Now(NoticeStatus),
    /// It is answered once it is sealed: by the session's `answer` with [`noticed`].
    Later,
}

/// How a notice is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeStatus {
    /// 204: booked, or booked before, or nothing to book.
    Taken,
    /// 404: no token of ours.
    Unknown,
    /// 429: not now; the sender may try again.
    Busy,
}

/// What the door counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An answer with so many bids.
    Bids(u32),
    /// An answer without.
    NoBid(NoBidReason),
    /// An answer without, because the request waited too long.
    Shed,
    /// A body that is no bid request.
    BadRequest(BadRequest),
    /// Impressions of a request that were not read.
    ImpsLeftOut(u32),
    /// A body in a format that is not read.
    UnknownFormat,
    /// A request that calls the door by a name that is none of its own.
    WrongHost,
    /// A bid request that a browser sent for a page.
    FromPage,
    /// A path that is none of the door's.
    UnknownPath,
    /// A path of the door's with a method that it does not take.
    WrongMethod,
    /// A notice that is none of ours.
    BadNotice(BadNotice),
}
