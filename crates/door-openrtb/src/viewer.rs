//! Who looks at the impressions of a request, as far as that may be known; and what that tells an exchange.

use gate_auction::Reason;
use gate_profile::{Presence, Profile, Profiles};
use openrtb::{BidRequest, NoBidReason, PersonalData, Privacy};

use super::counts::{Counts, Happening};
use super::desk::Viewer;
use super::user::user_of;

/// Who looks, and what is known of them; counts who is not known, and why nothing may be.
pub(super) fn read_viewer(
    request: &BidRequest<'_>,
    privacy: Privacy,
    profiles: &Profiles,
    profile: &mut Profile,
    now_ms: u64,
    counts: &mut Counts,
) -> Viewer {
    privacy.causes().for_each(|cause| counts.withheld(cause));
    let Some(user) = user_of(&request.top, privacy) else {
        counts.add(Happening::NoUser, 1);
        profile.clear();
        return Viewer::Unknown;
    };
    match profiles.read(user, now_ms, profile) {
        Presence::Hot | Presence::New => Viewer::Known(user),
        Presence::Cold => {
            counts.add(Happening::ColdUser, 1);
            Viewer::Unknown
        }
    }
}

/// What an exchange is told of the one who came farthest and does not bid. Where the law took the user from us, it and
/// no cap is what stands in the way; where nothing matches, perhaps.
pub(super) fn no_bid_reason(refusal: Option<Reason>, privacy: Privacy) -> NoBidReason {
    let ids = privacy.permits(PersonalData::Ids);
    let segments = privacy.permits(PersonalData::Segments);
    match refusal {
        Some(Reason::Cap) if !ids => NoBidReason::Privacy,
        Some(Reason::Cap) => NoBidReason::UserCap,
        None | Some(Reason::Targeting) if !ids || !segments => NoBidReason::Privacy,
        None | Some(Reason::Targeting | Reason::Seat | Reason::Exclusive | Reason::Group) => {
            NoBidReason::NoMatch
        }
        Some(Reason::Currency) => NoBidReason::Currency,
        Some(Reason::Deal) => NoBidReason::NoDeal,
        Some(Reason::Paced) => NoBidReason::Paced,
        Some(Reason::Budget) => NoBidReason::BudgetSpent,
        Some(Reason::Purse) => NoBidReason::PurseEmpty,
        Some(Reason::Floor) => NoBidReason::BelowFloor,
        Some(Reason::Blocked | Reason::Insecure) => NoBidReason::NoCreative,
        Some(Reason::Deadline) => NoBidReason::InsufficientTime,
    }
}
