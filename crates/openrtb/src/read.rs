//! Reading a body: one pass of the JSON reader into a tape, one walk over the tape.
//!
//! What is unknown is skipped. A whole number in the place of a text is its digits ([`crate::mend`]). What only describes and has the wrong type is absent. What restricts us (lists of
//! blocked and allowed things, flags of money and law) and cannot be read refuses the request: the alternative
//! would be to break a rule that we were told. Of equal keys in an object the last one counts, as a whole.

mod imps;

use money::CurrencyCode;
use simd_json::{Buffers, Node, Tape};
use thiserror::Error;

use crate::domain;
use crate::json::Json;
use crate::lists::{Eids, Ints, Nodes, Segments, Texts};
use crate::mend::mend;
use crate::request::{
    BidRequest, Deal, Device, Format, Imp, Place, PlaceKind, Regs, Source, Top, User,
};

/// Buffers that a larger body made grow are given back; the reader needs about 54 bytes per byte of JSON at worst.
const BODY_BYTES_KEPT: usize = 64 * 1024;
/// What some writers of UTF-8 put in front; it says nothing.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
    #[error("id: expected a text, or a whole number, that is neither empty nor too long")]
    Id,
    /// No proper `imp`.
    #[error("imp: expected at least one object, and nothing else")]
    Imps,
    /// An impression without a proper `id`.
    #[error("imp.id: expected a text, or a whole number, that is neither empty nor too long")]
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
    /// The texts of numbers that stand for texts.
    digits: Vec<u8>,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            buffers: Buffers::default(),
            tape: Tape(Vec::new()),
            lists: Lists::default(),
            digits: Vec::new(),
        }
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
        let start = if body.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        let body = body.get_mut(start..).unwrap_or_default();
        let bytes = body.len();
        let mut digits = std::mem::take(&mut self.digits);
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let mut lists = std::mem::take(&mut self.lists).reset();
        let result = if simd_json::fill_tape(body, &mut self.buffers, &mut tape).is_err() {
            Err(BadRequest::Json)
        } else {
            match request(&tape.0, limits, &mut lists, Dress::AsSent) {
                Ok((id, top)) => Ok(then(&lists.request(id, top))),
                Err(Stop::Refused(bad)) => Err(bad),
                Err(Stop::Mend) => {
                    // Digits are never longer than the JSON that they were.
                    digits.resize(digits.len().max(bytes), 0);
                    let mut again = lists.reset();
                    mend(&mut tape.0, &mut digits);
                    let result = match request(&tape.0, limits, &mut again, Dress::Mended) {
                        Ok((id, top)) => Ok(then(&again.request(id, top))),
                        Err(stop) => Err(stop.refusal()),
                    };
                    lists = again.reset();
                    result
                }
            }
        };
        self.lists = lists.reset();
        self.tape = tape.reset();
        self.digits = digits;
        if is_large {
            *self = Self::default();
        }
        result
    }
}

/// Whether the tape is as it was sent, or mended already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dress {
    AsSent,
    Mended,
}

/// Why a walk ends early.
enum Stop {
    /// The request is refused.
    Refused(BadRequest),
    /// There is something to mend first.
    Mend,
}

impl Stop {
    /// A tape is mended once. What it asks for then is no JSON that the reader knows.
    fn refusal(self) -> BadRequest {
        match self {
            Self::Refused(bad) => bad,
            Self::Mend => BadRequest::Json,
        }
    }
}

impl From<BadRequest> for Stop {
    fn from(bad: BadRequest) -> Stop {
        Stop::Refused(bad)
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

type Read<T> = Result<T, Stop>;

fn request<'t>(
    nodes: &'t [Node<'t>],
    limits: &ReadLimits,
    lists: &mut Lists<'t>,
    dress: Dress,
) -> Read<(&'t str, Top<'t>)> {
    let json = Json(nodes);
    if !json.is_object() {
        return Err(BadRequest::NotAnObject.into());
    }
    let mut walk = Walk { limits, usd: usd(), dress, lists };
    let (mut id, mut imps, mut top) = (Json::default(), Json::default(), Top::default());
    let (mut places, mut home) = ([None; 3], Json::default());
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
            "badv" => top.advertisers_blocked = walk.domains("badv", value)?,
            "bapp" => top.apps_blocked = walk.restriction("bapp", value)?,
            "wlang" => top.languages_allowed = walk.restriction("wlang", value)?,
            "wlangb" => top.languages_allowed_bcp47 = walk.restriction("wlangb", value)?,
            "app" => places[0] = walk.place(PlaceKind::App, value)?,
            "dooh" => places[1] = walk.place(PlaceKind::Dooh, value)?,
            "site" => places[2] = walk.place(PlaceKind::Site, value)?,
            "device" => top.device = device(value),
            "user" => (top.user, home) = walk.user(value)?,
            "regs" => top.regs = regs(value)?,
            "source" => top.source = walk.source(value)?,
            _ => {}
        }
    }
    top.place = places.into_iter().flatten().next().unwrap_or_default();
    if top.device.country.is_none() && home.is_object() {
        locate(&mut top.device, home);
    }
    let id = walk.text(id)?.filter(|id| id.len() <= limits.id_bytes_max).ok_or(BadRequest::Id)?;
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
    is_set.ok_or(BadRequest::Field { field }.into())
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
            "geo" => locate(&mut device, value),
            _ => {}
        }
    }
    device
}

/// Tells where a device is, by the words for its place; never by its coordinates.
fn locate<'t>(device: &mut Device<'t>, geo: Json<'t>) {
    device.country = geo.field("country").text();
    device.region = geo.field("region").text();
    device.geo_type = geo.field("type").count();
}

fn regs(json: Json<'_>) -> Read<Regs<'_>> {
    let mut regs = regs_fields(json)?;
    let old = regs_fields(json.field("ext"))?;
    regs.coppa |= old.coppa;
    regs.gpc |= old.gpc;
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
            "gpc" => regs.gpc = flag("regs.gpc", value)?,
            "gpp_sid" => regs.gpp_sections = Ints(value),
            _ => {}
        }
    }
    Ok(regs)
}

/// The part of the walk that needs limits and fills lists.
struct Walk<'w, 't> {
    limits: &'w ReadLimits,
    usd: CurrencyCode,
    dress: Dress,
    lists: &'w mut Lists<'t>,
}

impl<'t> Walk<'_, 't> {
    /// Text that is not empty; a number is mended into one.
    fn text(&self, value: Json<'t>) -> Read<Option<&'t str>> {
        match value.text() {
            Some(text) => Ok(Some(text)),
            None if value.is_number() && self.dress == Dress::AsSent => Err(Stop::Mend),
            None => Ok(None),
        }
    }

    /// A list of texts that must be understood whole; numbers are mended into texts.
    fn restriction(&self, field: &'static str, value: Json<'t>) -> Read<Texts<'t>> {
        let is_text = |one: Json<'_>| matches!(one.0, [Node::String(_)]);
        self.restricting_texts(field, value, is_text)
    }

    /// The same of domains; addresses are mended into domains.
    fn domains(&self, field: &'static str, value: Json<'t>) -> Read<Texts<'t>> {
        let is_mended = self.dress == Dress::Mended;
        let is_domain = |one: Json<'_>| match one.0 {
            [Node::String(text)] => is_mended || domain::is_bare(text),
            _ => false,
        };
        self.restricting_texts(field, value, is_domain)
    }

    fn restricting_texts(
        &self,
        field: &'static str,
        value: Json<'t>,
        is_sound: impl Fn(Json<'t>) -> bool,
    ) -> Read<Texts<'t>> {
        let whole = self.whole_list(field, value, |one| is_sound(one) || one.is_null());
        let can_mend = |one: Json<'_>| one.is_number() || matches!(one.0, [Node::String(_)]);
        let may_mend = || self.dress == Dress::AsSent && value.items().any(can_mend);
        match whole {
            Ok(()) => Ok(Texts(value)),
            Err(Stop::Refused(BadRequest::Field { .. })) if may_mend() => Err(Stop::Mend),
            Err(stop) => Err(stop),
        }
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
            return Err(BadRequest::ListTooLong { field }.into());
        }
        if value.items().all(is_sound) { Ok(()) } else { Err(BadRequest::Field { field }.into()) }
    }

    fn place(&self, kind: PlaceKind, json: Json<'t>) -> Read<Option<Place<'t>>> {
        if !json.is_object() {
            return Ok(None);
        }
        let mut place = Place { kind, ..Place::default() };
        let mut page = Json::default();
        for (key, value) in json.fields() {
            match key {
                "id" => place.id = self.text(value)?,
                "domain" => place.domain = value.text().map(domain::of),
                "page" => page = value,
                "bundle" => place.bundle = self.text(value)?,
                "cat" => place.categories = Texts(value),
                "sectioncat" => place.section_categories = Texts(value),
                "pagecat" => place.page_categories = Texts(value),
                "cattax" => place.category_taxonomy = value.count(),
                "publisher" => {
                    place.publisher_id = self.text(value.field("id"))?;
                    place.publisher_domain = value.field("domain").text();
                }
                "content" => {
                    place.content_language = value.field("language").text();
                    place.content_categories = Texts(value.field("cat"));
                    place.content_category_taxonomy = value.field("cattax").count();
                }
                _ => {}
            }
        }
        if place.domain.is_none() && kind == PlaceKind::Site {
            place.domain = page.text().and_then(domain::of_page);
        }
        Ok(Some(place))
    }

    /// The user, and where the user lives.
    fn user(&self, json: Json<'t>) -> Read<(User<'t>, Json<'t>)> {
        let (mut user, mut ext) = (User::default(), Json::default());
        let (mut eids, mut geo) = (Json::default(), Json::default());
        for (key, value) in json.fields() {
            match key {
                "id" => user.id = self.text(value)?,
                "buyeruid" => user.buyer_uid = self.text(value)?,
                "eids" => eids = value,
                "data" => user.segments = Segments(value),
                "consent" => user.consent = value.text(),
                "geo" => geo = value,
                "ext" => ext = value,
                _ => {}
            }
        }
        user.consent = user.consent.or_else(|| ext.field("consent").text());
        user.eids = Eids(if eids.is_null() { ext.field("eids") } else { eids });
        Ok((user, geo))
    }

    fn source(&self, json: Json<'t>) -> Read<Source<'t>> {
        let chain = match json.field("schain") {
            chain if chain.is_object() => chain,
            _ => json.field("ext").field("schain"),
        };
        Ok(Source {
            transaction_id: self.text(json.field("tid"))?,
            chain_complete: chain
                .is_object()
                .then(|| chain.field("complete").flag().unwrap_or(false)),
            chain: Nodes(chain.field("nodes")),
        })
    }
}

/// In any case of letters.
pub(crate) fn currency_of(code: &str) -> Option<CurrencyCode> {
    let mut letters: [u8; 3] = code.as_bytes().try_into().ok()?;
    letters.make_ascii_uppercase();
    CurrencyCode::new(std::str::from_utf8(&letters).ok()?)
}
