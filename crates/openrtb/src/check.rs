//! The check that a bid passes before it is sent. What fails here is a bug of ours, never the exchange's.

use money::CurrencyCode;

use crate::ad::{Ad, Mtype};
use crate::answer::Bid;
use crate::lists::{Ints, Texts};
use crate::price::{PRICE_MICROS_END, UNREACHABLE_MICROS};
use crate::request::{BidRequest, Deal, Imp};
use crate::taxonomy::{CategoryList, TAXONOMY_FIRST, is_mapped};

/// What is wrong with a bid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Violation {
    /// The request has no such impression.
    Imp,
    /// Two impressions of the request share the id, so a bid could mean either.
    ImpAmbiguous,
    /// The price is not above zero, or absurd.
    Price,
    /// The price is below the floor.
    Floor,
    /// The floor has another currency than the bid, and no converted floor was given.
    FloorCurrency,
    /// The request does not accept the bid's currency.
    Currency,
    /// The answer has bids in another currency already.
    CurrencyMixed,
    /// The seat may not bid, or is empty though only some may.
    Seat,
    /// The impression has no such deal.
    Deal,
    /// The seat may not use the deal.
    DealSeat,
    /// The advertiser may not use the deal.
    DealAdvertiser,
    /// A private auction, and no deal.
    PrivateAuction,
    /// The creative has no id.
    Crid,
    /// The impression does not take this kind of creative.
    Mtype,
    /// The creative has no markup.
    Markup,
    /// The advertiser is blocked, or not said though some are blocked.
    Advertiser,
    /// A category is blocked or not among those allowed.
    Category,
    /// Categories cannot be compared: another taxonomy.
    CategoryUnknown,
    /// An attribute is blocked.
    Attribute,
    /// The advertised app is blocked.
    App,
    /// The creative's language is not allowed.
    Language,
    /// The size does not fit.
    Size,
    /// The duration does not fit.
    Duration,
    /// Something would not come over HTTPS.
    Secure,
    /// The bid has no id, or one that another bid of the answer has.
    BidId,
    /// The notice id is empty or too long.
    NoticeId,
    /// More bids than an answer may have.
    TooManyBids,
    /// The player does not speak the creative's protocol.
    Protocol,
    /// The player plays none of the creative's files.
    Mime,
    /// The player has none of the frameworks that the creative needs.
    Api,
    /// The creative is linear and must not be, or the other way round.
    Linearity,
    /// A dynamic pod has no room for another ad, or none for one so long.
    Pod,
}

impl Violation {
    /// Every violation, in the order of their numbers.
    pub const ALL: [Self; 32] = [
        Self::Imp,
        Self::ImpAmbiguous,
        Self::Price,
        Self::Floor,
        Self::FloorCurrency,
        Self::Currency,
        Self::CurrencyMixed,
        Self::Seat,
        Self::Deal,
        Self::DealSeat,
        Self::DealAdvertiser,
        Self::PrivateAuction,
        Self::Crid,
        Self::Mtype,
        Self::Markup,
        Self::Advertiser,
        Self::Category,
        Self::CategoryUnknown,
        Self::Attribute,
        Self::App,
        Self::Language,
        Self::Size,
        Self::Duration,
        Self::Secure,
        Self::BidId,
        Self::NoticeId,
        Self::TooManyBids,
        Self::Protocol,
        Self::Mime,
        Self::Api,
        Self::Linearity,
        Self::Pod,
    ];

    /// The violation's name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Imp => "imp",
            Self::ImpAmbiguous => "imp_ambiguous",
            Self::Price => "price",
            Self::Floor => "floor",
            Self::FloorCurrency => "floor_currency",
            Self::Currency => "currency",
            Self::CurrencyMixed => "currency_mixed",
            Self::Seat => "seat",
            Self::Deal => "deal",
            Self::DealSeat => "deal_seat",
            Self::DealAdvertiser => "deal_advertiser",
            Self::PrivateAuction => "private_auction",
            Self::Crid => "crid",
            Self::Mtype => "mtype",
            Self::Markup => "markup",
            Self::Advertiser => "advertiser",
            Self::Category => "category",
            Self::CategoryUnknown => "category_unknown",
            Self::Attribute => "attribute",
            Self::App => "app",
            Self::Language => "language",
            Self::Size => "size",
            Self::Duration => "duration",
            Self::Secure => "secure",
            Self::BidId => "bid_id",
            Self::NoticeId => "notice_id",
            Self::TooManyBids => "too_many_bids",
            Self::Protocol => "protocol",
            Self::Mime => "mime",
            Self::Api => "api",
            Self::Linearity => "linearity",
            Self::Pod => "pod",
        }
    }
}

/// What the check must know of the door.
pub(crate) struct Rules<'a> {
    /// The bid's currency, in letters.
    pub(crate) code: &'a str,
    /// The currency that a request without `cur` accepts.
    pub(crate) default_currency: CurrencyCode,
    /// The notices' addresses are HTTPS.
    pub(crate) notices_secure: bool,
    /// There is markup.
    pub(crate) has_markup: bool,
    /// The markup tells a win or a bill, from the viewer's browser.
    pub(crate) browser_notices: bool,
}

type Checked = Result<(), Violation>;

fn ensure(holds: bool, violation: Violation) -> Checked {
    if holds { Ok(()) } else { Err(violation) }
}

/// Checks a bid against its request; gives the impression and the deal that it is for.
pub(crate) fn check<'t>(
    request: &BidRequest<'t>,
    bid: &Bid<'_>,
    rules: &Rules<'_>,
) -> Result<(&'t Imp<'t>, Option<&'t Deal<'t>>), Violation> {
    let imp = request.imps.get(bid.imp).ok_or(Violation::Imp)?;
    let same_id = request.imps.iter().filter(|other| other.id == imp.id);
    ensure(same_id.count() == 1, Violation::ImpAmbiguous)?;
    let deal = match bid.deal {
        Some(deal) => Some(request.deals(imp).get(deal).ok_or(Violation::Deal)?),
        None => None,
    };
    ensure(deal.is_some() || !imp.private_auction, Violation::PrivateAuction)?;
    price(request, imp, deal, bid, rules)?;
    seat(request, deal, bid)?;
    placement(request, imp, bid, rules)?;
    advertiser(request, deal, bid.ad)?;
    categories(request, bid.ad)?;
    let is_secure = bid.ad.secure && (rules.notices_secure || !rules.browser_notices);
    ensure(is_secure || !imp.secure, Violation::Secure)?;
    Ok((imp, deal))
}

/// Has the dynamic pod that an impression may be room for an ad behind those of the answer, which are `ads` and play
/// `seconds`? Of an ad that does not say how long it plays nobody knows.
pub(crate) fn pod(imp: &Imp<'_>, ad: &Ad, (ads, seconds): (u32, u32)) -> Checked {
    let stream = match ad.mtype {
        Mtype::Video => imp.video,
        Mtype::Audio => imp.audio,
        Mtype::Banner | Mtype::Native => None,
    };
    let Some((stream, most)) = stream.and_then(|stream| Some((stream, stream.pod_duration_s?)))
    else {
        return Ok(());
    };
    let all = ad.duration_s.map(|own| seconds.saturating_add(own));
    let is_free = stream.pod_ads_max.is_none_or(|most| ads < most);
    ensure(is_free && all.is_some_and(|all| all <= most), Violation::Pod)
}

fn price(
    request: &BidRequest<'_>,
    imp: &Imp<'_>,
    deal: Option<&Deal<'_>>,
    bid: &Bid<'_>,
    rules: &Rules<'_>,
) -> Checked {
    ensure((1..PRICE_MICROS_END).contains(&bid.price_micros), Violation::Price)?;
    let mut accepted = request.top.currencies.iter().peekable();
    let is_accepted = match accepted.peek() {
        None => bid.currency == rules.default_currency,
        Some(_) => accepted.any(|other| other.eq_ignore_ascii_case(rules.code)),
    };
    ensure(is_accepted, Violation::Currency)?;
    let floor = request.floor(imp, deal, bid.ad.mtype, bid.ad.duration_s);
    let floor_micros = if floor.micros == 0 || floor.currency == bid.currency {
        floor.micros
    } else {
        ensure(floor.micros != UNREACHABLE_MICROS, Violation::Floor)?;
        bid.floor_micros.ok_or(Violation::FloorCurrency)?
    };
    ensure(bid.price_micros >= floor_micros, Violation::Floor)
}

fn seat(request: &BidRequest<'_>, deal: Option<&Deal<'_>>, bid: &Bid<'_>) -> Checked {
    let may = |allowed: Texts<'_>| allowed.is_empty() || allowed.contains(bid.seat);
    ensure(may(request.top.seats_allowed), Violation::Seat)?;
    ensure(!request.top.seats_blocked.contains(bid.seat), Violation::Seat)?;
    ensure(deal.is_none_or(|deal| may(deal.seats_allowed)), Violation::DealSeat)
}

/// Kind, size, duration and attributes.
fn placement(request: &BidRequest<'_>, imp: &Imp<'_>, bid: &Bid<'_>, rules: &Rules<'_>) -> Checked {
    let ad = bid.ad;
    ensure(ad.has_crid, Violation::Crid)?;
    ensure(rules.has_markup, Violation::Markup)?;
    let attributes_blocked = match (ad.mtype, imp.banner, imp.native) {
        (Mtype::Banner, Some(banner), _) => {
            let fits = request.takes_size(imp, &banner, bid.width, bid.height);
            ensure(fits, Violation::Size)?;
            banner.attributes_blocked
        }
        (Mtype::Native, _, Some(native)) => native.attributes_blocked,
        (Mtype::Video | Mtype::Audio, ..) => {
            let stream = if ad.mtype == Mtype::Video { imp.video } else { imp.audio };
            let stream = stream.ok_or(Violation::Mtype)?;
            let durations = (stream.durations_s, stream.duration_min_s, stream.duration_max_s);
            ensure(duration_fits(durations, ad.duration_s), Violation::Duration)?;
            ad.fits_player(&stream)?;
            stream.attributes_blocked
        }
        _ => return Err(Violation::Mtype),
    };
    let is_blocked = !ad.attr.is_empty()
        && attributes_blocked.iter().any(|no| ad.attr.iter().any(|has| i64::from(*has) == no));
    ensure(!is_blocked, Violation::Attribute)
}

/// An unknown duration fits where none is asked for.
fn duration_fits(asked: (Ints<'_>, Option<u32>, Option<u32>), duration_s: Option<u32>) -> bool {
    let (only, min, max) = asked;
    let Some(seconds) = duration_s else {
        return only.is_empty();
    };
    if !only.is_empty() {
        return only.contains(seconds);
    }
    seconds >= min.unwrap_or(0) && max.is_none_or(|max| seconds <= max)
}

fn advertiser(request: &BidRequest<'_>, deal: Option<&Deal<'_>>, ad: &Ad) -> Checked {
    let top = &request.top;
    for no in top.advertisers_blocked.iter() {
        let is_free = !ad.adomain.is_empty() && !ad.adomain.iter().any(|one| is_within(one, no));
        ensure(is_free, Violation::Advertiser)?;
    }
    if let Some(allowed) = deal.map(|deal| deal.advertisers_allowed).filter(|list| !list.is_empty())
    {
        let may = |one: &str| allowed.iter().any(|yes| is_within(one, yes));
        let all = !ad.adomain.is_empty() && ad.adomain.iter().all(|one| may(one));
        ensure(all, Violation::DealAdvertiser)?;
    }
    if let Some(bundle) = &ad.bundle {
        ensure(!top.apps_blocked.contains(bundle), Violation::App)?;
    }
    let Some(language) = &ad.language else { return Ok(()) };
    let speaks = |list: Texts<'_>| {
        list.is_empty()
            || list.iter().any(|yes| primary(yes).eq_ignore_ascii_case(primary(language)))
    };
    let may = speaks(top.languages_allowed) && speaks(top.languages_allowed_bcp47);
    ensure(may, Violation::Language)
}

/// The language of a tag like `en-GB`.
fn primary(tag: &str) -> &str {
    tag.split_once(['-', '_']).map_or(tag, |(language, _)| language)
}

/// Is `domain` the domain `of`, or one below it?
fn is_within(domain: &str, of: &str) -> bool {
    let (domain, of) = (domain.as_bytes(), of.as_bytes());
    let Some(above) = domain.len().checked_sub(of.len()) else { return false };
    domain[above..].eq_ignore_ascii_case(of) && (above == 0 || domain[above - 1] == b'.')
}

fn categories(request: &BidRequest<'_>, ad: &Ad) -> Checked {
    let top = &request.top;
    let (allowed, blocked) = (top.categories_allowed, top.categories_blocked);
    if allowed.is_empty() && blocked.is_empty() {
        return Ok(());
    }
    if ad.cat.is_empty() {
        return ensure(allowed.is_empty(), Violation::Category);
    }
    if ad.cattax == TAXONOMY_FIRST && is_mapped(top.category_taxonomy) {
        let (no, only) = (CategoryList::read(blocked), CategoryList::read(allowed));
        let may = |cat: &str| !no.may_have(cat) && (allowed.is_empty() || only.has_surely(cat));
        return ensure(ad.cat.iter().all(|cat| may(cat)), Violation::Category);
    }
    let is_comparable = top.category_taxonomy.unwrap_or(TAXONOMY_FIRST) == ad.cattax;
    ensure(is_comparable, Violation::CategoryUnknown)?;
    let covers = |list: Texts<'_>, cat: &str| list.iter().any(|one| is_category_in(cat, one));
    let may = |cat: &str| !covers(blocked, cat) && (allowed.is_empty() || covers(allowed, cat));
    ensure(ad.cat.iter().all(|cat| may(cat)), Violation::Category)
}

/// Is `category` the category `of` or, in the first taxonomy, a part of it (`IAB7-39` of `IAB7`)?
fn is_category_in(category: &str, of: &str) -> bool {
    category.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_violation_has_a_place_and_a_name_of_its_own() {
        for (place, why) in Violation::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
            let twins = Violation::ALL.into_iter().filter(|other| other.name() == why.name());
            assert_eq!(twins.count(), 1, "{why:?}");
        }
    }

    #[test]
    fn domains_cover_what_is_below_them() {
        assert!(is_within("example.com", "example.com"));
        assert!(is_within("Shop.Example.com", "example.COM"));
        assert!(!is_within("badexample.com", "example.com"));
        assert!(!is_within("com", "example.com"));
        assert!(!is_within("example.com.evil.test", "example.com"));
    }

    #[test]
    fn categories_cover_their_parts() {
        assert!(is_category_in("IAB7-39", "IAB7") && is_category_in("IAB7", "IAB7"));
        assert!(!is_category_in("IAB71", "IAB7") && !is_category_in("IAB7", "IAB7-39"));
    }
}
