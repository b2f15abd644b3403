// What must hold for any body and any notice path of the OpenRTB door. The fuzz targets call these functions, and so
// does the test that replays their corpora in plain `cargo test`.

use door_http::Refusal;
use door_transport::ConnId;
use money::CurrencyCode;
use openrtb::{
    Ad, AdSpec, Answer, BadNotice, Bid, BidId, BidRequest, Door, Event, Gate, Mtype, NoBidReason,
    Notice, NoticeIds, NoticeStatus, Noticed, Outcome, PRICE_MICROS_END, PriceText, Settings,
};
use serde_json::Value;

const NOW_MS: u64 = 1_767_268_800_000;
const PRICE_MICROS: i64 = 2_500_000;

/// Bids the same for everything, right or wrong, and leaves it to the door to refuse.
struct Careless {
    ad: Ad,
    id: String,
    pushed: usize,
    events: usize,
}

impl Gate for Careless {
    fn now_ms(&self) -> u64 {
        NOW_MS
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        assert!(!request.imps.is_empty() && !request.id.is_empty());
        // Every lazily read list is walked once.
        std::hint::black_box(format!("{request:?}"));
        self.id = request.id.to_string();
        for place in 0..request.imps.len() {
            let deals = request.deals(&request.imps[place]).len();
            for deal in (0..deals).map(Some).chain([None]) {
                let bid = self.bid_for(place, deal, answer.len());
                let mark = answer.mark();
                if answer.push(&bid).is_ok() && answer.len().is_multiple_of(3) {
                    answer.undo_to(mark);
                    answer.push(&bid).expect("what was right before is right again");
                }
            }
        }
        self.pushed = answer.len();
        Outcome::Bids
    }

    fn notice(&mut self, _: ConnId, _: &Notice<'_>) -> Noticed {
        Noticed::Now(NoticeStatus::Taken)
    }

    fn refused(&mut self, _: Refusal) {}

    fn count(&mut self, event: Event) {
        assert!(!matches!(event, Event::NoBid(NoBidReason::Technical)));
        self.events += 1;
    }
}

impl Careless {
    fn new() -> Careless {
        let spec = AdSpec {
            crid: "c",
            mtype: Mtype::Banner,
            adomain: &["shop.example"],
            cat: &["IAB1"],
            cattax: 1,
            attr: &[1],
            bundle: Some("com.shop"),
            language: None,
            iurl: None,
            duration_s: None,
            secure: true,
            markup: "<a>${WEIR_BURL}\"\\\n</a>",
        };
        Careless { ad: Ad::new(&spec), id: String::new(), pushed: 0, events: 0 }
    }

    fn bid_for(&self, imp: usize, deal: Option<usize>, number: usize) -> Bid<'_> {
        Bid {
            id: BidId::Number(number as u128),
            imp,
            deal,
            ad: &self.ad,
            price_micros: PRICE_MICROS,
            currency: CurrencyCode::new("USD").expect("an active currency"),
            floor_micros: None,
            seat: if number.is_multiple_of(2) { "even" } else { "odd" },
            group: (number % 4 == 1).then_some(1),
            cid: "camp",
            width: 300,
            height: 250,
            notice_ids: NoticeIds { start: b"", ends: [b"hold"; 3], click: None },
            expires_s: None,
            slot_in_pod: None,
        }
    }
}

/// One body: a bidder that cares for nothing must never get a wrong bid out.
pub(crate) fn openrtb_body(data: &[u8]) {
    let (mut door, mut gate) =
        (Door::new(Settings::default()).expect("the defaults hold"), Careless::new());
    let answer = door.bid(&mut data.to_vec(), &mut gate);
    assert!(!answer.headers.is_empty());
    match answer.status {
        200 => check_answer(answer.body, &gate, data),
        204 => assert!(answer.body.is_empty() && answer.content_type.is_none()),
        400 => assert!(answer.body.ends_with(b"\n") && answer.content_type == Some("text/plain")),
        status => panic!("status {status}"),
    }
    assert!(gate.events >= 1);
}

/// The answer is JSON, says the request's id, and every bid of it is for an impression of the request.
fn check_answer(body: &[u8], gate: &Careless, request: &[u8]) {
    let answer: Value = serde_json::from_slice(body).expect("our own answer is JSON");
    assert_eq!(answer["id"], gate.id.as_str());
    assert_eq!(answer["cur"], "USD");
    let seats = answer["seatbid"].as_array().expect("a list of seats");
    let bids = seats.iter().flat_map(|seat| seat["bid"].as_array().expect("a list of bids"));
    let bids: Vec<&Value> = bids.collect();
    assert!(gate.pushed > 0 && bids.len() == gate.pushed);
    // Another reader's view of the request, unless it reads less than ours (its depth is limited).
    let Ok(request) = serde_json::from_slice::<Value>(request) else { return };
    // One impression may stand without its list.
    let imps =
        request["imp"].as_array().map_or(std::slice::from_ref(&request["imp"]), Vec::as_slice);
    for bid in bids {
        let asked =
            |imp: &&Value| text_of(&imp["id"]).is_some_and(|id| bid["impid"] == id.as_str());
        let imp = imps.iter().find(asked).expect("one of the request's");
        assert_eq!(bid["price"], 2.5);
        let floor = &imp["bidfloor"];
        let has_deal = bid.get("dealid").is_some();
        assert!(has_deal || floor.as_f64().is_none_or(|floor| floor <= 2.5), "{floor}");
        assert!(has_deal || imp["pmp"]["private_auction"] != 1);
    }
}

/// An id as text; a whole number is its digits.
fn text_of(id: &Value) -> Option<String> {
    match id {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        // Minus zero, which this reader takes for a float.
        Value::Number(_) => Some("0".into()),
        _ => None,
    }
}

/// One path of a notice: the id comes back as it was, a price is a price.
pub(crate) fn openrtb_notice(data: &[u8]) {
    let Ok(path) = std::str::from_utf8(data) else { return };
    let mut room = [0; openrtb::NOTICE_ID_BYTES_MAX];
    match Notice::parse(path, &mut room) {
        Ok(notice) => {
            assert!(!notice.id.is_empty());
            assert!(path.starts_with("/n/") && path.contains(notice.kind.name()));
            match notice.price {
                PriceText::Micros(micros) => assert!((0..PRICE_MICROS_END).contains(&micros)),
                PriceText::Encoded(text) => assert!(!text.is_empty() && path.contains(text)),
                _ => {}
            }
        }
        Err(BadNotice::Path | BadNotice::Id) => {}
    }
}
