//! The impressions of a request, with their media and deals.

use simd_json::Node;

use crate::json::Json;
use crate::lists::{Ints, Numbers, Texts, TimedFloors};
use crate::price::{Decimal, UNREACHABLE_MICROS};
use crate::read::{BadRequest, Read, Walk, currency_of, flag};
use crate::request::{Banner, Deal, Floor, Format, Imp, Native, Part, Stream};

impl<'t> Walk<'_, 't> {
    /// Reads the impressions; gives how many were left out.
    pub(super) fn imps(&mut self, json: Json<'t>) -> Read<u32> {
        if json.items_len() == 0 {
            return Err(BadRequest::Imps.into());
        }
        for imp in json.items().take(self.limits.imps_max) {
            if !imp.is_object() {
                return Err(BadRequest::Imps.into());
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
                "id" => imp.id = self.text(value)?.unwrap_or(""),
                "banner" => imp.banner = self.banner(value)?,
                "video" => imp.video = self.stream("video.battr", value)?,
                "audio" => imp.audio = self.stream("audio.battr", value)?,
                "native" => imp.native = self.native(value)?,
                "bidfloor" => floor = value,
                "bidfloorcur" => currency = value,
                "secure" => imp.secure = flag("imp.secure", value)?,
                "instl" => imp.interstitial = value.flag().unwrap_or(false),
                "tagid" => imp.tag_id = self.text(value)?,
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
            return Err(BadRequest::ImpId.into());
        }
        let streams = [&mut imp.video, &mut imp.audio].into_iter().flatten();
        let timed = streams.map(|stream| &mut stream.timed_floors);
        imp.floor = self.floor(floor, currency, timed);
        Ok(imp)
    }

    /// A floor without a currency is in USD. A currency that is none makes any floor above zero unreachable, also one by
    /// duration.
    fn floor<'f>(
        &self,
        price: Json<'_>,
        currency: Json<'_>,
        timed: impl IntoIterator<Item = &'f mut TimedFloors<'t>>,
    ) -> Floor
    where
        't: 'f,
    {
        let micros = price.price().map_or(0, Decimal::as_floor);
        let known = match currency.text() {
            None => Some(self.usd),
            Some("USD") => Some(self.usd),
            Some(code) => currency_of(code),
        };
        if let Some(currency) = known {
            return Floor { micros, currency };
        }
        let mut is_asked = micros > 0;
        for floors in timed.into_iter().filter(|floors| floors.is_stated()) {
            floors.per_second_micros = Some(UNREACHABLE_MICROS);
            is_asked = true;
        }
        Floor { micros: if is_asked { UNREACHABLE_MICROS } else { 0 }, currency: self.usd }
    }

    fn banner(&mut self, json: Json<'t>) -> Read<Option<Banner<'t>>> {
        let mut banner = Banner::default();
        for (key, value) in json.fields() {
            match key {
                "w" => banner.width = pixels(value),
                "h" => banner.height = pixels(value),
                "wmin" => banner.width_range[0] = value.count(),
                "wmax" => banner.width_range[1] = value.count(),
                "hmin" => banner.height_range[0] = value.count(),
                "hmax" => banner.height_range[1] = value.count(),
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
        let mut stream = Stream { whole: json, ..Stream::default() };
        for (key, value) in json.fields() {
            match key {
                "w" => stream.width = value.count(),
                "h" => stream.height = value.count(),
                "mimes" => stream.mimes = Texts(value),
                "minduration" => stream.duration_min_s = value.count(),
                "maxduration" => stream.duration_max_s = value.count().filter(|s| *s > 0),
                "rqddurs" => stream.durations_s = Ints(value),
                "battr" => stream.attributes_blocked = self.blocked(battr, value)?,
                "protocols" => stream.protocols = Numbers::of(Ints(value)),
                "protocol" if stream.protocols.is_empty() => {
                    stream.protocols = Numbers::of(Ints(value))
                }
                "api" => stream.apis = Ints(value),
                "podid" => stream.pod_id = self.text(value)?,
                "podseq" => stream.pod_sequence = value.int(),
                "slotinpod" => stream.slot_in_pod = value.int(),
                "poddur" => stream.pod_duration_s = value.count().filter(|s| *s > 0),
                "maxseq" => stream.pod_ads_max = value.count().filter(|ads| *ads > 0),
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
                "id" => deal.id = self.text(value)?.unwrap_or(""),
                "bidfloor" => floor = value,
                "bidfloorcur" => currency = value,
                "at" => deal.auction_type = value.count(),
                "wseat" => deal.seats_allowed = self.restriction("deal.wseat", value)?,
                "wadomain" => {
                    deal.advertisers_allowed = self.domains("deal.wadomain", value)?;
                }
                "guar" => deal.guaranteed = value.flag().unwrap_or(false),
                _ => timed_floor(&mut deal.timed_floors, key, value),
            }
        }
        deal.floor = self.floor(floor, currency, [&mut deal.timed_floors]);
        Ok((!deal.id.is_empty() && deal.id.len() <= self.limits.id_bytes_max).then_some(deal))
    }
}

fn timed_floor<'t>(floors: &mut TimedFloors<'t>, key: &str, value: Json<'t>) {
    match key {
        "mincpmpersec" => {
            let floor = value.price().map(Decimal::as_floor);
            floors.per_second_micros = floor.filter(|micros| *micros > 0);
        }
        "durfloors" => floors.ranges = value,
        _ => {}
    }
}

fn format(json: Json<'_>) -> Format {
    let mut format = Format::default();
    for (key, value) in json.fields() {
        match key {
            "w" => format.width = pixels(value),
            "h" => format.height = pixels(value),
            "wratio" => format.width_ratio = value.count(),
            "hratio" => format.height_ratio = value.count(),
            "wmin" => format.width_min = value.count(),
            _ => {}
        }
    }
    format
}

/// A width or height. What is there and is no size must not become "any size": it is 0, which fits nothing.
fn pixels(json: Json<'_>) -> Option<u32> {
    match json.count() {
        None if json.is_null() || matches!(json.0, [Node::String("")]) => None,
        size => Some(size.unwrap_or(0)),
    }
}

/// In millionths, rounded up; 0 where it cannot be used.
fn multiplier(json: Json<'_>) -> i64 {
    match json.price() {
        None => 1_000_000,
        Some(Decimal::Micros(micros)) => micros,
        Some(Decimal::Negative | Decimal::Absurd) => 0,
    }
}
