//! A bidder with one price: it takes the first size asked for, an open bid or the first deal, and no money.

use door_http::Refusal;
use door_transport::ConnId;
use money::CurrencyCode;
use openrtb::{
    Ad, AdSpec, Answer, Bid, BidId, BidRequest, Door, Event, Gate, Imp, Mtype, NoBidReason, Notice,
    NoticeIds, NoticeStatus, Noticed, Outcome, Settings, Violation,
};

pub(crate) const NOW_MS: u64 = 1_767_268_800_000;
pub(crate) const BANNER: AdSpec<'static> = AdSpec {
    crid: "crid-1",
    mtype: Mtype::Banner,
    adomain: &["shop.example"],
    cat: &["IAB18-1"],
    cattax: 1,
    attr: &[2],
    bundle: None,
    language: Some("en"),
    iurl: None,
    duration_s: None,
    secure: true,
    markup: "<a href=\"https://shop.example/?p=${AUCTION_PRICE}\">buy</a>",
};
pub(crate) const VIDEO: AdSpec<'static> = AdSpec {
    crid: "crid-2",
    mtype: Mtype::Video,
    duration_s: Some(15),
    markup: "<VAST version=\"4.0\"><Impression><![CDATA[${WEIR_BURL}]]></Impression></VAST>",
    ..BANNER
};

pub(crate) fn usd() -> CurrencyCode {
    CurrencyCode::new("USD").unwrap()
}

/// A bid that fits the plain banner impression of these tests.
pub(crate) fn bid(ad: &Ad) -> Bid<'_> {
    Bid {
        id: BidId::Text("b1"),
        imp: 0,
        deal: None,
        ad,
        price_micros: 1_500_000,
        currency: usd(),
        floor_micros: None,
        seat: "seat-1",
        group: None,
        cid: "camp-1",
        width: 300,
        height: 250,
        notice_ids: NoticeIds { start: b"", ends: [b"hold"; 3], click: None },
        expires_s: Some(300),
        slot_in_pod: None,
    }
}

pub(crate) fn door() -> Door {
    Door::new(Settings { notice_base_url: "https://rtb.example".into(), ..Settings::default() })
        .unwrap()
}

/// One price for everything.
pub(crate) struct Bidder {
    ads: [Ad; 4],
    pub(crate) events: Vec<Event>,
    pub(crate) refused: Vec<Refusal>,
    pub(crate) violations: Vec<Violation>,
    /// Each notice in words.
    pub(crate) notices: Vec<String>,
    /// Notices are answered in the next turn.
    pub(crate) is_late: bool,
    pub(crate) waiting: Vec<ConnId>,
}

impl Default for Bidder {
    fn default() -> Self {
        let audio = AdSpec { mtype: Mtype::Audio, ..VIDEO };
        let native = AdSpec { mtype: Mtype::Native, markup: "{\"native\":{}}", ..BANNER };
        Bidder {
            ads: [BANNER, VIDEO, audio, native].map(|spec| Ad::new(&spec)),
            events: Vec::new(),
            refused: Vec::new(),
            violations: Vec::new(),
            notices: Vec::new(),
            is_late: false,
            waiting: Vec::new(),
        }
    }
}

impl Bidder {
    fn ad(&self, imp: &Imp<'_>) -> Option<&Ad> {
        let takes =
            [imp.banner.is_some(), imp.video.is_some(), imp.audio.is_some(), imp.native.is_some()];
        takes.iter().position(|takes| *takes).map(|kind| &self.ads[kind])
    }

    /// Gives the violations.
    fn push_all(&self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (place, imp) in request.imps.iter().enumerate() {
            let Some(ad) = self.ad(imp) else { continue };
            let deals = request.deals(imp);
            let floor = request.floor(imp, deals.first(), ad.mtype(), ad.duration_s());
            if floor.micros > 5_000_000 {
                continue;
            }
            let (width, height) = size(request, imp);
            let bid = Bid {
                id: BidId::Number(place as u128 + 1),
                imp: place,
                deal: (!deals.is_empty()).then_some(0),
                price_micros: 5_000_000,
                floor_micros: Some(floor.micros),
                width,
                height,
                ..bid(ad)
            };
            violations.extend(answer.push(&bid).err());
        }
        violations
    }
}

fn size(request: &BidRequest<'_>, imp: &Imp<'_>) -> (u32, u32) {
    let Some(banner) = &imp.banner else { return (0, 0) };
    match request.formats(banner).first() {
        Some(format) => (format.width.unwrap_or(0), format.height.unwrap_or(0)),
        None => (banner.width.unwrap_or(300), banner.height.unwrap_or(250)),
    }
}

impl Gate for Bidder {
    fn now_ms(&self) -> u64 {
        NOW_MS
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        let violations = self.push_all(request, answer);
        self.violations.extend(&violations);
        match (answer.is_empty(), violations.is_empty()) {
            (false, _) => Outcome::Bids,
            (true, false) => Outcome::NoBid(NoBidReason::SelfCheck),
            (true, true) => Outcome::NoBid(NoBidReason::NoMatch),
        }
    }

    fn notice(&mut self, conn: ConnId, notice: &Notice<'_>) -> Noticed {
        self.notices.push(format!(
            "{} {:?} {:?}",
            notice.kind.name(),
            notice.price,
            notice.currency
        ));
        if notice.id != b"hold" {
            return Noticed::Now(NoticeStatus::Unknown);
        }
        if self.is_late {
            self.waiting.push(conn);
            return Noticed::Later;
        }
        Noticed::Now(NoticeStatus::Taken)
    }

    fn refused(&mut self, why: Refusal) {
        self.refused.push(why);
    }

    fn count(&mut self, event: Event) {
        self.events.push(event);
    }
}
