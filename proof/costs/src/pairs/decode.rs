//! A bid request: one tape that is read in place, or structs filled by serde.
//!
//! The structs hold the fields that are read here; the view of the door knows some more (law, supply chain, ids at identity
//! providers), so it does a little more work than its rivals.

use std::borrow::Cow;

use openrtb::{BidRequest, Imp as ImpView, ReadLimits, Reader};
use serde::Deserialize;

use super::{Meaning, Pair};
use crate::race::{Way, each, race};
use crate::{Error, Size};

const ROUNDS: usize = 15;
const SEED: u64 = 1;
const BODIES: u64 = 1_000;

/// Makes `decode/openrtb`.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let bodies = bodies(size.pick(BODIES, 50));
    let mut reader = Reader::default();
    let mut room = Vec::new();
    let mut structs_room = Vec::new();
    let mut buffers = simd_json::Buffers::default();
    let ways: Vec<Way<'_>> = vec![
        (
            "tape, read in place",
            Box::new(|| each(&bodies, 1, |body| view(&mut reader, copy(body, &mut room)))),
        ),
        (
            "sonic-rs, structs that borrow",
            Box::new(|| {
                each(&bodies, 1, |body| sum(sonic_rs::from_slice::<Request<Lent<'_>>>(body).ok()))
            }),
        ),
        (
            "sonic-rs, structs that own",
            Box::new(|| {
                each(&bodies, 1, |body| sum(sonic_rs::from_slice::<Request<String>>(body).ok()))
            }),
        ),
        (
            "simd-json, structs that own",
            Box::new(|| {
                each(&bodies, 1, |body| {
                    let room = copy(body, &mut structs_room);
                    let read = simd_json::serde::from_slice_with_buffers(room, &mut buffers);
                    sum::<String>(read.ok())
                })
            }),
        ),
        (
            "serde_json, structs that own",
            Box::new(|| {
                each(&bodies, 1, |body| sum(serde_json::from_slice::<Request<String>>(body).ok()))
            }),
        ),
    ];
    let meaning = Meaning {
        rival: None,
        faster: "bid requests are read from the tape, without a struct",
        slower: "structs would be read faster; the tape is kept because it forgives what real exchanges send, and allocates nothing",
        level: "the tape is kept because it forgives what real exchanges send, and allocates nothing",
    };
    let bytes = bodies.iter().map(Vec::len).sum::<usize>() / bodies.len();
    let what = format!(
        "A bid request of {bytes} bytes on average, {} different ones: parsed, and the fields read that the gate looks at. \
         simd-json, which the tape is made with too, unescapes in place, so both work on a copy, which is counted.",
        bodies.len()
    );
    let outcomes = race(size.pick(ROUNDS, 1), ways)?;
    Ok(vec![Pair::new("decode/openrtb", what, "request", outcomes, &meaning)])
}

/// Bodies without quoted numbers, which these structs do not take and the view does.
fn bodies(count: u64) -> Vec<Vec<u8>> {
    let all = hammer::openrtb::generate(SEED, count).map(String::into_bytes);
    all.filter(|body| serde_json::from_slice::<Request<String>>(body).is_ok()).collect()
}

fn copy<'a>(body: &[u8], room: &'a mut Vec<u8>) -> &'a mut [u8] {
    room.clear();
    room.extend_from_slice(body);
    room
}

/// A text that is lent where it has no escapes.
#[derive(Deserialize)]
struct Lent<'a>(#[serde(borrow)] Cow<'a, str>);

impl AsRef<str> for Lent<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[derive(Deserialize)]
struct Request<T> {
    id: T,
    at: Option<u32>,
    tmax: Option<u32>,
    #[serde(default = "Vec::new")]
    cur: Vec<T>,
    #[serde(default = "Vec::new")]
    bcat: Vec<T>,
    #[serde(default = "Vec::new")]
    badv: Vec<T>,
    imp: Vec<Imp<T>>,
    site: Option<Place<T>>,
    app: Option<Place<T>>,
    device: Option<Device<T>>,
    user: Option<User<T>>,
}

#[derive(Deserialize)]
struct Imp<T> {
    id: T,
    tagid: Option<T>,
    secure: Option<u8>,
    bidfloor: Option<f64>,
    bidfloorcur: Option<T>,
    banner: Option<Banner>,
    video: Option<Video<T>>,
    pmp: Option<Pmp<T>>,
}

#[derive(Deserialize)]
struct Banner {
    #[serde(default)]
    format: Vec<Format>,
    #[serde(default)]
    battr: Vec<u32>,
}

#[derive(Deserialize)]
struct Format {
    w: Option<u32>,
    h: Option<u32>,
}

#[derive(Deserialize)]
struct Video<T> {
    #[serde(default = "Vec::new")]
    mimes: Vec<T>,
    minduration: Option<u32>,
    maxduration: Option<u32>,
    w: Option<u32>,
    h: Option<u32>,
    #[serde(default)]
    protocols: Vec<u32>,
}

#[derive(Deserialize)]
struct Pmp<T> {
    private_auction: Option<u8>,
    #[serde(default = "Vec::new")]
    deals: Vec<Deal<T>>,
}

#[derive(Deserialize)]
struct Deal<T> {
    id: T,
    bidfloor: Option<f64>,
    #[serde(default = "Vec::new")]
    wseat: Vec<T>,
}

#[derive(Deserialize)]
struct Place<T> {
    id: Option<T>,
    domain: Option<T>,
    bundle: Option<T>,
    #[serde(default = "Vec::new")]
    cat: Vec<T>,
    publisher: Option<Publisher<T>>,
}

#[derive(Deserialize)]
struct Publisher<T> {
    id: Option<T>,
    domain: Option<T>,
}

#[derive(Deserialize)]
struct Device<T> {
    devicetype: Option<u32>,
    os: Option<T>,
    language: Option<T>,
    ifa: Option<T>,
    lmt: Option<u8>,
    geo: Option<Geo<T>>,
}

#[derive(Deserialize)]
struct Geo<T> {
    country: Option<T>,
    r#type: Option<u32>,
}

#[derive(Deserialize)]
struct User<T> {
    id: Option<T>,
    buyeruid: Option<T>,
    #[serde(default = "Vec::new")]
    data: Vec<Data<T>>,
}

#[derive(Deserialize)]
struct Data<T> {
    #[serde(default = "Vec::new")]
    segment: Vec<Segment<T>>,
}

#[derive(Deserialize)]
struct Segment<T> {
    id: T,
}

/// Adds up what was read, so that no reading can be left out.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn number(&mut self, number: impl Into<u64>) {
        self.0 = self.0.wrapping_mul(31).wrapping_add(number.into());
    }

    fn maybe(&mut self, number: Option<impl Into<u64>>) {
        self.number(number.map_or(0, Into::into));
    }

    fn text(&mut self, text: impl AsRef<str>) {
        let bytes = text.as_ref().as_bytes();
        self.number(bytes.len() as u64 * 257 + u64::from(*bytes.last().unwrap_or(&0)));
    }

    fn maybe_text(&mut self, text: Option<impl AsRef<str>>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn texts(&mut self, texts: impl IntoIterator<Item = impl AsRef<str>>) {
        texts.into_iter().for_each(|text| self.text(text));
    }

    /// Millionths, as the view has them.
    fn price(&mut self, micros: i64) {
        self.number(micros.cast_unsigned());
    }
}

/// 0 where the body could not be read.
fn sum<T: AsRef<str>>(request: Option<Request<T>>) -> u64 {
    let Some(request) = request else { return 0 };
    let mut sum = Sum::default();
    sum.text(&request.id);
    sum.maybe(request.at);
    sum.maybe(request.tmax);
    sum.texts(&request.cur);
    sum.texts(&request.bcat);
    sum.texts(&request.badv);
    request.imp.iter().for_each(|imp| sum_imp(&mut sum, imp));
    if let Some(place) = request.app.or(request.site) {
        sum.maybe_text(place.id);
        sum.maybe_text(place.domain);
        sum.maybe_text(place.bundle);
        sum.texts(&place.cat);
        if let Some(publisher) = place.publisher {
            sum.maybe_text(publisher.id);
            sum.maybe_text(publisher.domain);
        }
    }
    if let Some(device) = request.device {
        sum.maybe(device.devicetype);
        sum.maybe_text(device.os);
        sum.maybe_text(device.language);
        sum.maybe_text(device.ifa);
        sum.maybe(device.lmt);
        let (country, kind) = device.geo.map_or((None, None), |geo| (geo.country, geo.r#type));
        sum.maybe_text(country);
        sum.maybe(kind);
    }
    if let Some(user) = request.user {
        sum.maybe_text(user.id);
        sum.maybe_text(user.buyeruid);
        let segments = user.data.iter().flat_map(|data| &data.segment);
        sum.texts(segments.map(|segment| &segment.id));
    }
    sum.0
}

fn sum_imp<T: AsRef<str>>(sum: &mut Sum, imp: &Imp<T>) {
    sum.text(&imp.id);
    sum.maybe_text(imp.tagid.as_ref());
    sum.maybe(imp.secure);
    sum.price(micros(imp.bidfloor));
    sum.text(imp.bidfloorcur.as_ref().map_or("USD", AsRef::as_ref));
    if let Some(banner) = &imp.banner {
        for format in &banner.format {
            sum.maybe(format.w);
            sum.maybe(format.h);
        }
        banner.battr.iter().for_each(|one| sum.number(*one));
    }
    if let Some(video) = &imp.video {
        sum.texts(&video.mimes);
        sum.maybe(video.minduration);
        sum.maybe(video.maxduration);
        sum.maybe(video.w);
        sum.maybe(video.h);
        video.protocols.iter().for_each(|one| sum.number(*one));
    }
    let deals = imp.pmp.as_ref().map_or(&[][..], |pmp| &pmp.deals);
    sum.maybe(imp.pmp.as_ref().and_then(|pmp| pmp.private_auction));
    for deal in deals {
        sum.text(&deal.id);
        sum.price(micros(deal.bidfloor));
        sum.texts(&deal.wseat);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a price of a few units")]
fn micros(price: Option<f64>) -> i64 {
    (price.unwrap_or(0.0) * 1e6).round() as i64
}

fn view(reader: &mut Reader, body: &mut [u8]) -> u64 {
    reader.read(body, &ReadLimits::default(), sum_view).unwrap_or(0)
}

fn sum_view(request: &BidRequest<'_>) -> u64 {
    let (mut sum, top) = (Sum::default(), &request.top);
    sum.text(request.id);
    sum.maybe(top.auction_type);
    sum.maybe(top.tmax_ms);
    sum.texts(top.currencies.iter());
    sum.texts(top.categories_blocked.iter());
    sum.texts(top.advertisers_blocked.iter());
    request.imps.iter().for_each(|imp| sum_imp_view(&mut sum, request, imp));
    sum.maybe_text(top.place.id);
    sum.maybe_text(top.place.domain);
    sum.maybe_text(top.place.bundle);
    sum.texts(top.place.categories.iter());
    sum.maybe_text(top.place.publisher_id);
    sum.maybe_text(top.place.publisher_domain);
    sum.maybe(top.device.device_type);
    sum.maybe_text(top.device.os);
    sum.maybe_text(top.device.language);
    sum.maybe_text(top.device.ifa);
    sum.number(top.device.limits_tracking);
    sum.maybe_text(top.device.country);
    sum.maybe(top.device.geo_type);
    sum.maybe_text(top.user.id);
    sum.maybe_text(top.user.buyer_uid);
    sum.texts(top.user.segments.iter().map(|segment| segment.id));
    sum.0
}

fn sum_imp_view(sum: &mut Sum, request: &BidRequest<'_>, imp: &ImpView<'_>) {
    let ints = |sum: &mut Sum, ints: openrtb::Ints<'_>| {
        ints.iter().for_each(|one| sum.number(one.cast_unsigned()));
    };
    sum.text(imp.id);
    sum.maybe_text(imp.tag_id);
    sum.number(imp.secure);
    sum.price(imp.floor.micros);
    sum.text(imp.floor.currency.as_str());
    if let Some(banner) = &imp.banner {
        for format in request.formats(banner) {
            sum.maybe(format.width);
            sum.maybe(format.height);
        }
        ints(sum, banner.attributes_blocked);
    }
    if let Some(video) = &imp.video {
        sum.texts(video.mimes.iter());
        sum.maybe(video.duration_min_s);
        sum.maybe(video.duration_max_s);
        sum.maybe(video.width);
        sum.maybe(video.height);
        ints(sum, video.protocols);
    }
    sum.number(imp.private_auction);
    for deal in request.deals(imp) {
        sum.text(deal.id);
        sum.price(deal.floor.micros);
        sum.texts(deal.seats_allowed.iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Body by body, which a sum over all would hide.
    #[test]
    fn the_view_and_the_structs_read_the_same() {
        let bodies = bodies(300);
        assert!(bodies.len() > 200, "only {} of 300 have plain numbers", bodies.len());
        let mut reader = Reader::default();
        for body in &bodies {
            let owned = sum(serde_json::from_slice::<Request<String>>(body).ok());
            let lent = sum(sonic_rs::from_slice::<Request<Lent<'_>>>(body).ok());
            let viewed = view(&mut reader, copy(body, &mut Vec::new()));
            assert_eq!([lent, viewed], [owned; 2], "{}", String::from_utf8_lossy(body));
            assert_ne!(owned, 0);
        }
    }
}
