//! A bid request as the gate sees it: OpenRTB 2.6, the common places of 2.5 included.
//!
//! Everything borrows from the body and the reader's buffers. An absent field, an empty text and, in fields that
//! only describe, a value of the wrong type are all `None`. Numbers are whole numbers of the specification's own
//! lists; an unknown one is as good as any. Prices are micros ([`crate::price`]).

use money::CurrencyCode;

use crate::ad::Mtype;
use crate::json::Json;
use crate::lists::{Eids, Ints, Nodes, Numbers, Segments, Texts, TimedFloors};
use crate::price::UNREACHABLE_MICROS;

/// One bid request.
#[derive(Clone, Copy, Debug)]
pub struct BidRequest<'t> {
    /// The exchange's id of the auction.
    pub id: &'t str,
    /// What is for sale, in the request's order; never empty.
    pub imps: &'t [Imp<'t>],
    /// Fields outside the impressions.
    pub top: Top<'t>,
    pub(crate) deals: &'t [Deal<'t>],
    pub(crate) formats: &'t [Format],
}

impl<'t> Place<'t> {
    /// The lists of its categories, the content's included, each with its taxonomy.
    #[must_use]
    pub fn category_lists(&self) -> [(Texts<'t>, Option<u32>); 4] {
        let own = self.category_taxonomy;
        [
            (self.categories, own),
            (self.section_categories, own),
            (self.page_categories, own),
            (self.content_categories, self.content_category_taxonomy),
        ]
    }
}

impl<'t> BidRequest<'t> {
    /// The deals of an impression of this request.
    #[must_use]
    pub fn deals(&self, imp: &Imp<'t>) -> &'t [Deal<'t>] {
        imp.deals.of(self.deals)
    }

    /// The sizes of a banner of this request, where it lists any.
    #[must_use]
    pub fn formats(&self, banner: &Banner<'t>) -> &'t [Format] {
        banner.formats.of(self.formats)
    }

    /// The floor of a bid: the deal's, which replaces the impression's; else the one that video or audio have
    /// by duration; else the impression's. Nobody can meet it where the multiplier cannot be used.
    #[must_use]
    pub fn floor(
        &self,
        imp: &Imp<'t>,
        deal: Option<&Deal<'t>>,
        mtype: Mtype,
        duration_s: Option<u32>,
    ) -> Floor {
        let has_duration = matches!(mtype, Mtype::Video | Mtype::Audio);
        let (plain, timed) = match (deal, mtype) {
            (Some(deal), _) => (deal.floor, Some(deal.timed_floors)),
            (None, Mtype::Video) => (imp.floor, imp.video.map(|video| video.timed_floors)),
            (None, Mtype::Audio) => (imp.floor, imp.audio.map(|audio| audio.timed_floors)),
            (None, _) => (imp.floor, None),
        };
        let timed = timed.filter(|_| has_duration).and_then(|timed| timed.floor_micros(duration_s));
        let is_countable = imp.multiplier_micros > 0;
        let micros = if is_countable { timed.unwrap_or(plain.micros) } else { UNREACHABLE_MICROS };
        Floor { micros, currency: plain.currency }
    }
}

/// The fields of a request outside its impressions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Top<'t> {
    /// `at`: 1 first price, 2 second price (the default), 500 and more the exchange's own.
    pub auction_type: Option<u32>,
    /// `tmax`: milliseconds that the exchange waits, its network included.
    pub tmax_ms: Option<u32>,
    /// `test`: not billable, must not touch money.
    pub test: bool,
    /// `allimps`: these are all impressions of the page.
    pub all_imps: bool,
    /// Impressions that were not read, because there were too many.
    pub imps_left_out: u32,
    /// `cur`: currencies that a bid may have; empty = the exchange's default.
    pub currencies: Texts<'t>,
    /// `wseat`: seats that may bid; empty = all.
    pub seats_allowed: Texts<'t>,
    /// `bseat`: seats that may not.
    pub seats_blocked: Texts<'t>,
    /// `acat`: the only categories allowed; empty = all.
    pub categories_allowed: Texts<'t>,
    /// `bcat`: blocked categories.
    pub categories_blocked: Texts<'t>,
    /// `cattax`: the taxonomy of the two lists above; 1 when not said.
    pub category_taxonomy: Option<u32>,
    /// `badv`: blocked advertiser domains.
    pub advertisers_blocked: Texts<'t>,
    /// `bapp`: blocked apps, by bundle.
    pub apps_blocked: Texts<'t>,
    /// `wlang`: languages of a creative that are allowed, ISO 639-1; empty = all.
    pub languages_allowed: Texts<'t>,
    /// `wlangb`: the same by BCP 47.
    pub languages_allowed_bcp47: Texts<'t>,
    /// `site`, `app` or `dooh`.
    pub place: Place<'t>,
    /// `device`.
    pub device: Device<'t>,
    /// `user`.
    pub user: User<'t>,
    /// `regs`.
    pub regs: Regs<'t>,
    /// `source`.
    pub source: Source<'t>,
}

/// What kind of place shows the ad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PlaceKind {
    /// The request does not say.
    #[default]
    Unknown,
    /// A website.
    Site,
    /// An app.
    App,
    /// A screen out of home.
    Dooh,
}

/// Where the ad is shown. If a request names several kinds, which it must not, `app` counts, then `dooh`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'t> {
    /// What it is.
    pub kind: PlaceKind,
    /// The exchange's id of it.
    pub id: Option<&'t str>,
    /// Its domain, without scheme, path or port; that of a site's `page` where `domain` is absent.
    pub domain: Option<&'t str>,
    /// An app's bundle or store id.
    pub bundle: Option<&'t str>,
    /// `cat`: categories of the whole.
    pub categories: Texts<'t>,
    /// `sectioncat`: categories of the section.
    pub section_categories: Texts<'t>,
    /// `pagecat`: categories of the page or view.
    pub page_categories: Texts<'t>,
    /// `cattax` of the three lists above; 1 when not said.
    pub category_taxonomy: Option<u32>,
    /// `publisher.id`.
    pub publisher_id: Option<&'t str>,
    /// `publisher.domain`.
    pub publisher_domain: Option<&'t str>,
    /// `content.language`, ISO 639-1.
    pub content_language: Option<&'t str>,
    /// `content.cat`.
    pub content_categories: Texts<'t>,
    /// `content.cattax`, of `content_categories`; 1 when not said.
    pub content_category_taxonomy: Option<u32>,
}

/// The user's device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Device<'t> {
    /// `devicetype`.
    pub device_type: Option<u32>,
    /// `os`.
    pub os: Option<&'t str>,
    /// `language`, ISO 639-1.
    pub language: Option<&'t str>,
    /// `ifa`: the advertising id.
    pub ifa: Option<&'t str>,
    /// `lmt`: the user limits tracking.
    pub limits_tracking: bool,
    /// `dnt`: the browser asks not to track.
    pub do_not_track: bool,
    /// `ip` or `ipv6` is there.
    pub has_ip: bool,
    /// `geo.country`, ISO 3166-1 alpha-3. Without it, country, region and type are those of `user.geo`.
    pub country: Option<&'t str>,
    /// `geo.region`.
    pub region: Option<&'t str>,
    /// `geo.type`: 1 GPS, 2 IP address, 3 said by the user.
    pub geo_type: Option<u32>,
}

/// The user.
#[derive(Clone, Copy, Debug, Default)]
pub struct User<'t> {
    /// The exchange's id.
    pub id: Option<&'t str>,
    /// The buyer's id, as matched by the exchange.
    pub buyer_uid: Option<&'t str>,
    /// Ids at identity providers; of 2.5 `ext.eids`.
    pub eids: Eids<'t>,
    /// `data[].segment[]`.
    pub segments: Segments<'t>,
    /// The TCF consent text; of 2.5 `ext.consent`.
    pub consent: Option<&'t str>,
}

/// Legal restrictions; of 2.5 in `ext`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regs<'t> {
    /// `coppa`: directed at children.
    pub coppa: bool,
    /// `gdpr`.
    pub gdpr: Option<bool>,
    /// `us_privacy`.
    pub us_privacy: Option<&'t str>,
    /// `gpp`.
    pub gpp: Option<&'t str>,
    /// `gpc`: the browser's Global Privacy Control.
    pub gpc: bool,
    /// `gpp_sid`: sections that apply.
    pub gpp_sections: Ints<'t>,
}

/// Where the request comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'t> {
    /// `tid`: the transaction's id across all exchanges.
    pub transaction_id: Option<&'t str>,
    /// `schain.complete`; `None` without a chain. Of 2.5 `ext.schain`.
    pub chain_complete: Option<bool>,
    /// `schain.nodes`.
    pub chain: Nodes<'t>,
}

/// A floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Of a thousand impressions, in micros; [`UNREACHABLE_MICROS`] when nobody can meet it.
    pub micros: i64,
    /// Its currency.
    pub currency: CurrencyCode,
}

/// One impression for sale.
#[derive(Clone, Copy, Debug)]
pub struct Imp<'t> {
    /// Its id within the request.
    pub id: &'t str,
    /// It takes a banner.
    pub banner: Option<Banner<'t>>,
    /// It takes a video.
    pub video: Option<Stream<'t>>,
    /// It takes audio.
    pub audio: Option<Stream<'t>>,
    /// It takes a native ad.
    pub native: Option<Native<'t>>,
    /// `bidfloor`, in `bidfloorcur`.
    pub floor: Floor,
    /// `secure`: all of the ad must come over HTTPS.
    pub secure: bool,
    /// `instl`: interstitial or full screen.
    pub interstitial: bool,
    /// `tagid`: the placement.
    pub tag_id: Option<&'t str>,
    /// `rwdd`: the user is rewarded.
    pub rewarded: bool,
    /// `ssai`: 1 all on the client, 2 assets stitched, 3 all on the server.
    pub stitched: Option<u32>,
    /// `exp`: seconds that may pass between auction and impression.
    pub expires_s: Option<u32>,
    /// `qty.multiplier` in millionths: people who see one play. The impression costs so many times its price.
    /// 0 where it cannot be used.
    pub multiplier_micros: i64,
    /// `dt`: when it will be shown, in milliseconds since the Unix epoch.
    pub shown_at_ms: Option<u64>,
    /// `pmp.private_auction`: only bids with a deal are taken.
    pub private_auction: bool,
    pub(crate) deals: Part,
}

/// A banner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Banner<'t> {
    /// Width, in device independent pixels; 0 where what is said is no size.
    pub width: Option<u32>,
    /// Height; 0 where what is said is no size.
    pub height: Option<u32>,
    /// `wmin` and `wmax` of 2.5.
    pub width_range: [Option<u32>; 2],
    /// `hmin` and `hmax` of 2.5.
    pub height_range: [Option<u32>; 2],
    /// `battr`: blocked attributes of creatives.
    pub attributes_blocked: Ints<'t>,
    /// `mimes`.
    pub mimes: Texts<'t>,
    /// `api`: frameworks supported.
    pub apis: Ints<'t>,
    pub(crate) formats: Part,
}

/// A size of a banner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Width, in device independent pixels; 0 where what is said is no size.
    pub width: Option<u32>,
    /// Height; 0 where what is said is no size.
    pub height: Option<u32>,
    /// Width as a part of the size's ratio.
    pub width_ratio: Option<u32>,
    /// Height as a part of it.
    pub height_ratio: Option<u32>,
    /// Least width of a size by ratio.
    pub width_min: Option<u32>,
}

/// Video or audio.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream<'t> {
    /// Width of the player.
    pub width: Option<u32>,
    /// Height of the player.
    pub height: Option<u32>,
    /// `mimes`.
    pub mimes: Texts<'t>,
    /// Shortest duration, in seconds.
    pub duration_min_s: Option<u32>,
    /// Longest duration, in seconds; never 0, which is how some say that there is none.
    pub duration_max_s: Option<u32>,
    /// `rqddurs`: the only durations, in seconds; in place of shortest and longest.
    pub durations_s: Ints<'t>,
    /// `mincpmpersec` and `durfloors`, in the impression's currency.
    pub timed_floors: TimedFloors<'t>,
    /// `battr`: blocked attributes of creatives.
    pub attributes_blocked: Ints<'t>,
    /// `protocols`; of 2.2 and before, `protocol`.
    pub protocols: Numbers<'t>,
    /// `api`: frameworks supported.
    pub apis: Ints<'t>,
    /// `podid`: the pod that it belongs to.
    pub pod_id: Option<&'t str>,
    /// `podseq`: the pod's place in the content: 1 first, -1 last, 0 any.
    pub pod_sequence: Option<i64>,
    /// `slotinpod`: the place in the pod: 1 first, -1 last, 2 first or last, 0 any.
    pub slot_in_pod: Option<i64>,
    /// `poddur`: seconds that all ads of a dynamic pod may play together; never 0. It makes the impression one.
    pub pod_duration_s: Option<u32>,
    /// `maxseq`: most ads in a dynamic pod; never 0.
    pub pod_ads_max: Option<u32>,
    /// All of it, for what few ask.
    pub(crate) whole: Json<'t>,
}

/// What is looked for when it is asked: few campaigns target it.
impl<'t> Stream<'t> {
    /// `linearity`: 1 linear, 2 not; `None` = both are taken.
    #[must_use]
    pub fn linearity(&self) -> Option<u32> {
        self.whole.field("linearity").count()
    }

    /// `placement`, of before April 2023: 1 in stream, 2 in banner, 3 in article, 4 in feed, 5 floating.
    #[must_use]
    pub fn placement(&self) -> Option<u32> {
        self.whole.field("placement").count()
    }

    /// `plcmt`: 1 in stream, 2 accompanying content, 3 interstitial, 4 without content.
    #[must_use]
    pub fn plcmt(&self) -> Option<u32> {
        self.whole.field("plcmt").count()
    }

    /// `skip`: the player lets people skip.
    #[must_use]
    pub fn skippable(&self) -> Option<bool> {
        self.whole.field("skip").flag()
    }

    /// `startdelay`: seconds into the content; 0 before it, -1 somewhere within, -2 after it.
    #[must_use]
    pub fn start_delay_s(&self) -> Option<i64> {
        self.whole.field("startdelay").int()
    }

    /// `playbackmethod`: how it starts, and whether with sound.
    #[must_use]
    pub fn playback_methods(&self) -> Ints<'t> {
        Ints(self.whole.field("playbackmethod"))
    }

    /// `delivery`: 1 streaming, 2 progressive, 3 download.
    #[must_use]
    pub fn deliveries(&self) -> Ints<'t> {
        Ints(self.whole.field("delivery"))
    }
}

/// A native ad.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native<'t> {
    /// The request by the native specification, as text.
    pub request: Option<&'t str>,
    /// `api`: frameworks supported.
    pub apis: Ints<'t>,
    /// `battr`: blocked attributes of creatives.
    pub attributes_blocked: Ints<'t>,
}

/// A deal made beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Deal<'t> {
    /// Its id.
    pub id: &'t str,
    /// Its floor; the currency is its own, USD when not said, never the impression's.
    pub floor: Floor,
    /// `at`: 1 first price, 2 second price, 3 the floor is the price; `None` = as the request.
    pub auction_type: Option<u32>,
    /// `wseat`: seats that may use it; empty = all.
    pub seats_allowed: Texts<'t>,
    /// `wadomain`: advertiser domains that may use it; empty = all.
    pub advertisers_allowed: Texts<'t>,
    /// `guar`: guaranteed; the buyer must bid.
    pub guaranteed: bool,
    /// `mincpmpersec` and `durfloors`, in the deal's currency.
    pub timed_floors: TimedFloors<'t>,
}

/// A part of one of the reader's lists.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Part {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Part {
    fn of<T>(self, all: &[T]) -> &[T] {
        all.get(self.from..self.to).unwrap_or(&[])
    }
}
