//! Reading a body: one pass of the JSON reader into a tape, one walk over the tape.
//!
//! What is unknown is skipped. What only describes and has the wrong type is absent. What restricts us (lists of
//! blocked and allowed things, flags of money and law) and cannot be read refuses the request: the alternative
//! would be to break a rule that we were told. Of equal keys in an object the last one counts, as a whole.

use money::CurrencyCode;
use simd_json::{Buffers, Node, Tape};
use thiserror::Error;

use crate::json::Json;
use crate::lists::{Eids, Ints, Nodes, Segments, Texts, TimedFloors};
use crate::price::{Decimal, UNREACHABLE_MICROS};
use crate::request::{
    Banner, BidRequest, Deal, Device, Floor, Format, Imp, Native, Part, Place, PlaceKind, Regs,
    Source, Stream, Top, User,
};

/// Buffers that a larger body made grow are given back; the reader needs about 54 bytes per byte of JSON at worst.
const BODY_BYTES_KEPT: usize = 64 * 1024;

/// How much of a request is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Impressions; further ones are left out, as if nobody bid for them. Default: 64.
    pub imps_max: usize,
    /// Deals of an impression; further ones are left out. Default: 128.
    pub deals_max: usize,
    /// Sizes of a banner; further ones are left out. Default: 64.
    pub formats_max: usize,
    /// Elements of a list that restricts us; a longer one refuses the request. Default: 10,000.
    pub list_max: usize,
    /// Bytes of the ids of request, impression and deal: a longer one refuses the request, or leaves out the
    /// deal. Default: 512.
    pub id_bytes_max: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self { imps_max: 64, deals_max: 128, formats_max: 64, list_max: 10_000, id_bytes_max: 512 }
    }
}

/// Why a body is not taken: the sender's fault, answered 400.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
pub enum BadRequest {
    /// No JSON.
    #[error("the body is not JSON")]
    Json,
    /// JSON, but no object.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// No proper `id`.
    #[error("id: expected a text that is neither empty nor too long")]
    Id,
    /// No proper `imp`.
    #[error("imp: expected an array of at least one object")]
    Imps,
    /// An impression without a proper `id`.
    #[error("imp.id: expected a text that is neither empty nor too long")]
    ImpId,
    /// Something that restricts us cannot be read.
    #[error("{field}: a value of this type cannot be understood, and must not be ignored")]
    Field {
        /// Which.
        field: &'static str,
    },
    /// A list that restricts us is too long.
    #[error("{field}: the list is too long, and must not be cut")]
    ListTooLong {
        /// Which.
        field: &'static str,
    },
}

impl BadRequest {
    /// The reason's name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::NotAnObject => "not_an_object",
            Self::Id => "id",
            Self::Imps => "imps",
            Self::ImpId => "imp_id",
            Self::Field { .. } => "field",
            Self::ListTooLong { .. } => "list_too_long",
        }
    }
}

/// Reads bodies; one per worker. After a few requests of the usual size it allocates nothing.
pub struct Reader {
    buffers: Buffers,
    tape: Tape<'static>,
    lists: Lists<'static>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { buffers: Buffers::default(), tape: Tape(Vec::new()), lists: Lists::default() }
    }
}

impl Reader {
    /// Reads a body, in place, and hands the request to `then`.
    ///
    /// # Errors
    /// Why the body is not a bid request.
    pub fn read<R>(
        &mut self,
        body: &mut [u8],
        limits: &ReadLimits,
        then: impl FnOnce(&BidRequest<'_>) -> R,
    ) -> Result<R, BadRequest> {
        let is_large = body.len() > BODY_BYTES_KEPT;
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let mut lists = std::mem::take(&mut self.lists).reset();
        let result = match simd_json::fill_tape(body, &mut self.buffers, &mut tape) {
            Ok(()) => {
                request(&tape.0, limits, &mut lists).map(|(id, top)| then(&lists.request(id, top)))
            }
            Err(_) => Err(BadRequest::Json),
        };
        self.lists = lists.reset();
        self.tape = tape.reset();
        if is_large {
            *self = Self::default();
        }
        result
    }
}

/// What a request has several of.
#[derive(Default)]
struct Lists<'t> {
    imps: Vec<Imp<'t>>,
    deals: Vec<Deal<'t>>,
    formats: Vec<Format>,
}

impl<'t> Lists<'t> {
    fn request<'s>(&'s self, id: &'s str, top: Top<'s>) -> BidRequest<'s> {
        BidRequest { id, imps: &self.imps, top, deals: &self.deals, formats: &self.formats }
    }

    fn clear(&mut self) {
        self.imps.clear();
        self.deals.clear();
        self.formats.clear();
    }

    /// The same memory, empty, for another request.
    fn reset<'new>(mut self) -> Lists<'new> {
        self.clear();
        Lists { imps: reset(self.imps), deals: reset(self.deals), formats: self.formats }
    }
}

/// An empty list keeps its memory: collecting what a list gave up reuses its place (a test counts allocations).
fn reset<Old, New>(mut list: Vec<Old>) -> Vec<New> {
    list.clear();
    list.into_iter().map(|_| unreachable!("the list was cleared")).collect()
}

type Read<T> = Result<T, BadRequest>;

fn request<'t>(
    nodes: &'t [Node<'t>],
    limits: &ReadLimits,
    lists: &mut Lists<'t>,
) -> Read<(&'t str, Top<'t>)> {
    let json = Json(nodes);
    if !json.is_object() {
        return Err(BadRequest::NotAnObject);
    }
    let mut walk = Walk { limits, usd: usd(), lists };
    let (mut id, mut imps, mut top) = (Json::default(), Json::default(), Top::default());
    let mut places = [None; 3];
    for (key, value) in json.fields() {
        match key {
            "id" => id = value,
            "imp" => imps = value,
            "at" => top.auction_type = value.count(),
            "tmax" => top.tmax_ms = value.int().map(clamp),
            "test" => top.test = flag("test", value)?,
            "allimps" => top.all_imps = value.flag().unwrap_or(false),
            "cur" => top.currencies = walk.restriction("cur", value)?,
            "wseat" => top.seats_allowed = walk.restriction("wseat", value)?,
            "bseat" => top.seats_blocked = walk.restriction("bseat", value)?,
            "acat" => top.categories_allowed = walk.restriction("acat", value)?,
            "bcat" => top.categories_blocked = walk.restriction("bcat", value)?,
            "cattax" => top.category_taxonomy = value.count(),
            "badv" => top.advertisers_blocked = walk.restriction("badv", value)?,
            "bapp" => top.apps_blocked = walk.restriction("bapp", value)?,
            "wlang" => top.languages_allowed = walk.restriction("wlang", value)?,
            "wlangb" => top.languages_allowed_bcp47 = walk.restriction("wlangb", value)?,
            "app" => places[0] = place(PlaceKind::App, value),
            "dooh" => places[1] = place(PlaceKind::Dooh, value),
            "site" => places[2] = place(PlaceKind::Site, value),
            "device" => top.device = device(value),
            "user" => top.user = user(value),
            "regs" => top.regs = regs(value)?,
            "source" => top.source = source(value),
            _ => {}
        }
    }
    top.place = places.into_iter().flatten().next().unwrap_or_default();
    let id = id.text().filter(|id| id.len() <= limits.id_bytes_max).ok_or(BadRequest::Id)?;
    top.imps_left_out = walk.imps(imps)?;
    Ok((id, top))
}

/// The currency of floors that do not say theirs.
fn usd() -> CurrencyCode {
    CurrencyCode::new("USD").expect("an active currency")
}

/// A number of milliseconds or the like that is never negative.
fn clamp(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

/// A flag that must not be taken for 0 when it cannot be read. Any number but 0 sets it.
fn flag(field: &'static str, value: Json<'_>) -> Read<bool> {
    if value.is_null() || matches!(value.0, [Node::String("")]) {
        return Ok(false);
    }
    let is_set = value.flag().or_else(|| value.int().map(|number| number != 0));
    is_set.ok_or(BadRequest::Field { field })
}

fn place<'t>(kind: PlaceKind, json: Json<'t>) -> Option<Place<'t>> {
    if !json.is_object() {
        return None;
    }
    let mut place = Place { kind, ..Place::default() };
    for (key, value) in json.fields() {
        match key {
            "id" => place.id = value.text(),
            "domain" => place.domain = value.text(),
            "bundle" => place.bundle = value.text(),
            "cat" => place.categories = Texts(value),
            "sectioncat" => place.section_categories = Texts(value),
            "pagecat" => place.page_categories = Texts(value),
            "cattax" => place.category_taxonomy = value.count(),
            "publisher" => {
                place.publisher_id = value.field("id").text();
                place.publisher_domain = value.field("domain").text();
            }
            "content" => {
                place.content_language = value.field("language").text();
                place.content_categories = Texts(value.field("cat"));
            }
            _ => {}
        }
    }
    Some(place)
}

fn device(json: Json<'_>) -> Device<'_> {
    let mut device = Device::default();
    for (key, value) in json.fields() {
        match key {
            "devicetype" => device.device_type = value.count(),
            "os" => device.os = value.text(),
            "language" => device.language = value.text(),
            "ifa" => device.ifa = value.text(),
            "lmt" => device.limits_tracking = value.flag().unwrap_or(true) && !value.is_null(),
            "dnt" => device.do_not_track = value.flag().unwrap_or(true) && !value.is_null(),
            "ip" | "ipv6" => device.has_ip |= value.text().is_some(),
            "geo" => {
                device.country = value.field("country").text();
                device.region = value.field("region").text();
                device.geo_type = value.field("type").count();
            }
            _ => {}
        }
    }
    device
}

fn user(json: Json<'_>) -> User<'_> {
    let (mut user, mut ext) = (User::default(), Json::default());
    let mut eids = Json::default();
    for (key, value) in json.fields() {
        match key {
            "id" => user.id = value.text(),
            "buyeruid" => user.buyer_uid = value.text(),
            "eids" => eids = value,
            "data" => user.segments = Segments(value),
            "consent" => user.consent = value.text(),
            "ext" => ext = value,
            _ => {}
        }
    }
    user.consent = user.consent.or_else(|| ext.field("consent").text());
    user.eids = Eids(if eids.is_null() { ext.field("eids") } else { eids });
    user
}

fn regs(json: Json<'_>) -> Read<Regs<'_>> {
    let mut regs = regs_fields(json)?;
    let old = regs_fields(json.field("ext"))?;
    regs.coppa |= old.coppa;
    regs.gdpr = regs.gdpr.or(old.gdpr);
    regs.us_privacy = regs.us_privacy.or(old.us_privacy);
    regs.gpp = regs.gpp.or(old.gpp);
    if regs.gpp_sections.is_empty() {
        regs.gpp_sections = old.gpp_sections;
    }
    Ok(regs)
}

fn regs_fields(json: Json<'_>) -> Read<Regs<'_>> {
    let mut regs = Regs::default();
    for (key, value) in json.fields() {
        match key {
            "coppa" => regs.coppa = flag("regs.coppa", value)?,
            "gdpr" if !value.is_null() => regs.gdpr = Some(flag("regs.gdpr", value)?),
            "us_privacy" => regs.us_privacy = value.text(),
            "gpp" => regs.gpp = value.text(),
            "gpp_sid" => regs.gpp_sections = Ints(value),
            _ => {}
        }
    }
    Ok(regs)
}

fn source(json: Json<'_>) -> Source<'_> {
    let chain = match json.field("schain") {
        chain if chain.is_object() => chain,
        _ => json.field("ext").field("schain"),
    };
    Source {
        transaction_id: json.field("tid").text(),
        chain_complete: chain.is_object().then(|| chain.field("complete").flag().unwrap_or(false)),
        chain: Nodes(chain.field("nodes")),
    }
}

/// The part of the walk that needs limits and fills lists.
struct Walk<'w, 't> {
    limits: &'w ReadLimits,
    usd: CurrencyCode,
    lists: &'w mut Lists<'t>,
}

impl<'t> Walk<'_, 't> {
    /// A list of texts that must be understood whole.
    fn restriction(&self, field: &'static str, value: Json<'t>) -> Read<Texts<'t>> {
        let is_text = |one: Json<'_>| one.is_null() || matches!(one.0, [Node::String(_)]);
        self.whole_list(field, value, is_text)?;
        Ok(Texts(value))
    }

    /// A list of numbers that must be understood whole.
    fn blocked(&self, field: &'static str, value: Json<'t>) -> Read<Ints<'t>> {
        self.whole_list(field, value, |one| one.is_null() || one.int().is_some())?;
        Ok(Ints(value))
    }

    fn whole_list(
        &self,
        field: &'static str,
        value: Json<'t>,
        is_sound: impl Fn(Json<'t>) -> bool,
    ) -> Read<()> {
        if value.items_len() > self.limits.list_max {
            return Err(BadRequest::ListTooLong { field });
        }
        if value.items().all(is_sound) { Ok(()) } else { Err(BadRequest::Field { field }) }
    }

    /// Reads the impressions; gives how many were left out.
    fn imps(&mut self, json: Json<'t>) -> Read<u32> {
        if !json.is_array() || json.items_len() == 0 {
            return Err(BadRequest::Imps);
        }
        for imp in json.items().take(self.limits.imps_max) {
            if !imp.is_object() {
                return Err(BadRequest::Imps);
            }
            let imp = self.imp(imp)?;
            self.lists.imps.push(imp);
        }
        let left_out = json.items_len() - self.lists.imps.len();
        Ok(u32::try_from(left_out).unwrap_or(u32::MAX))
    }

    fn imp(&mut self, json: Json<'t>) -> Read<Imp<'t>> {
        let floor = Floor { micros: 0, currency: self.usd };
        let mut imp = Imp {
            id: "",
            banner: None,
            video: None,
            audio: None,
            native: None,
            floor,
            secure: false,
            interstitial: false,
            tag_id: None,
            rewarded: false,
            stitched: None,
            expires_s: None,
            multiplier_micros: 1_000_000,
            shown_at_ms: None,
            private_auction: false,
            deals: Part::default(),
        };
        let (mut floor, mut currency) = (Json::default(), Json::default());
        for (key, value) in json.fields() {
            match key {
                "id" => imp.id = value.text().unwrap_or(""),
                "banner" => imp.banner = self.banner(value)?,
                "video" => imp.video = self.stream("video.battr", value)?,
                "audio" => imp.audio = self.stream("audio.battr", value)?,
                "native" => imp.native = self.native(value)?,
                "bidfloor" => floor = value,
                "bidfloorcur" => currency = value,
                "secure" => imp.secure = flag("imp.secure", value)?,
                "instl" => imp.interstitial = value.flag().unwrap_or(false),
                "tagid" => imp.tag_id = value.text(),
                "rwdd" => imp.rewarded = value.flag().unwrap_or(false),
                "ssai" => imp.stitched = value.count(),
                "exp" => imp.expires_s = value.count(),
                "qty" => imp.multiplier_micros = multiplier(value.field("multiplier")),
                "dt" => imp.shown_at_ms = value.int().and_then(|ms| u64::try_from(ms).ok()),
                "pmp" => (imp.private_auction, imp.deals) = self.pmp(value)?,
                _ => {}
            }
        }
        if imp.id.is_empty() || imp.id.len() > self.limits.id_bytes_max {
            return Err(BadRequest::ImpId);
        }
        imp.floor = self.floor(floor, currency);
        Ok(imp)
    }

    /// A floor without a currency is in USD. A currency that is none makes any floor above zero unreachable.
    fn floor(&self, price: Json<'_>, currency: Json<'_>) -> Floor {
        let micros = price.price().map_or(0, Decimal::as_floor);
        let known = match currency.text() {
            None => Some(self.usd),
            Some("USD") => Some(self.usd),
            Some(code) => currency_of(code),
        };
        match known {
            Some(currency) => Floor { micros, currency },
            None if micros == 0 => Floor { micros, currency: self.usd },
            None => Floor { micros: UNREACHABLE_MICROS, currency: self.usd },
        }
    }

    fn banner(&mut self, json: Json<'t>) -> Read<Option<Banner<'t>>> {
        let mut banner = Banner::default();
        for (key, value) in json.fields() {
            match key {
                "w" => banner.width = value.count(),
                "h" => banner.height = value.count(),
                "format" => banner.formats = self.formats(value),
                "battr" => banner.attributes_blocked = self.blocked("banner.battr", value)?,
                "mimes" => banner.mimes = Texts(value),
                "api" => banner.apis = Ints(value),
                _ => {}
            }
        }
        Ok(json.is_object().then_some(banner))
    }

    fn formats(&mut self, json: Json<'t>) -> Part {
        let from = self.lists.formats.len();
        let objects = json.items().filter(|format| format.is_object());
        self.lists.formats.extend(objects.take(self.limits.formats_max).map(format));
        Part { from, to: self.lists.formats.len() }
    }

    fn stream(&self, battr: &'static str, json: Json<'t>) -> Read<Option<Stream<'t>>> {
        let mut stream = Stream::default();
        for (key, value) in json.fields() {
            match key {
                "w" => stream.width = value.count(),
                "h" => stream.height = value.count(),
                "mimes" => stream.mimes = Texts(value),
                "minduration" => stream.duration_min_s = value.count(),
                "maxduration" => stream.duration_max_s = value.count(),
                "rqddurs" => stream.durations_s = Ints(value),
                "battr" => stream.attributes_blocked = self.blocked(battr, value)?,
                "protocols" => stream.protocols = Ints(value),
                "api" => stream.apis = Ints(value),
                "podid" => stream.pod_id = value.text(),
                "podseq" => stream.pod_sequence = value.int(),
                "slotinpod" => stream.slot_in_pod = value.int(),
                "poddur" => stream.pod_duration_s = value.count(),
                "maxseq" => stream.pod_ads_max = value.count(),
                _ => timed_floor(&mut stream.timed_floors, key, value),
            }
        }
        Ok(json.is_object().then_some(stream))
    }

    fn native(&self, json: Json<'t>) -> Read<Option<Native<'t>>> {
        let mut native = Native::default();
        for (key, value) in json.fields() {
            match key {
                "request" => native.request = value.text(),
                "api" => native.apis = Ints(value),
                "battr" => native.attributes_blocked = self.blocked("native.battr", value)?,
                _ => {}
            }
        }
        Ok(json.is_object().then_some(native))
    }

    fn pmp(&mut self, json: Json<'t>) -> Read<(bool, Part)> {
        let (mut private, mut deals) = (false, Json::default());
        for (key, value) in json.fields() {
            match key {
                "private_auction" => private = flag("pmp.private_auction", value)?,
                "deals" => deals = value,
                _ => {}
            }
        }
        let from = self.lists.deals.len();
        for deal in deals.items().take(self.limits.deals_max) {
            if let Some(deal) = self.deal(deal)? {
                self.lists.deals.push(deal);
            }
        }
        Ok((private, Part { from, to: self.lists.deals.len() }))
    }

    /// A deal without a proper id cannot be bid for and is left out.
    fn deal(&self, json: Json<'t>) -> Read<Option<Deal<'t>>> {
        let mut deal = Deal {
            id: "",
            floor: Floor { micros: 0, currency: self.usd },
            auction_type: None,
            seats_allowed: Texts::default(),
            advertisers_allowed: Texts::default(),
            guaranteed: false,
            timed_floors: TimedFloors::default(),
        };
        let (mut floor, mut currency) = (Json::default(), Json::default());
        for (key, value) in json.fields() {
            match key {
                "id" => deal.id = value.text().unwrap_or(""),
                "bidfloor" => floor = value,
                "bidfloorcur" => currency = value,
                "at" => deal.auction_type = value.count(),
                "wseat" => deal.seats_allowed = self.restriction("deal.wseat", value)?,
                "wadomain" => {
                    deal.advertisers_allowed = self.restriction("deal.wadomain", value)?;
                }
                "guar" => deal.guaranteed = value.flag().unwrap_or(false),
                _ => timed_floor(&mut deal.timed_floors, key, value),
            }
        }
        deal.floor = self.floor(floor, currency);
        Ok((!deal.id.is_empty() && deal.id.len() <= self.limits.id_bytes_max).then_some(deal))
    }
}

fn timed_floor<'t>(floors: &mut TimedFloors<'t>, key: &str, value: Json<'t>) {
    match key {
        "mincpmpersec" => floors.per_second_micros = value.price().map(Decimal::as_floor),
        "durfloors" => floors.ranges = value,
        _ => {}
    }
}

fn format(json: Json<'_>) -> Format {
    let mut format = Format::default();
    for (key, value) in json.fields() {
        match key {
            "w" => format.width = value.count(),
            "h" => format.height = value.count(),
            "wratio" => format.width_ratio = value.count(),
            "hratio" => format.height_ratio = value.count(),
            "wmin" => format.width_min = value.count(),
            _ => {}
        }
    }
    format
}

/// In millionths, rounded up; 0 where it cannot be used.
fn multiplier(json: Json<'_>) -> i64 {
    match json.price() {
        None => 1_000_000,
        Some(Decimal::Micros(micros)) => micros,
        Some(Decimal::Negative | Decimal::Absurd) => 0,
    }
}

/// In any case of letters.
pub(crate) fn currency_of(code: &str) -> Option<CurrencyCode> {
    let mut letters: [u8; 3] = code.as_bytes().try_into().ok()?;
    letters.make_ascii_uppercase();
    CurrencyCode::new(std::str::from_utf8(&letters).ok()?)
}
