//! What an answer looks like, byte for byte where bytes matter.

use door_transport::ConnId;
use openrtb::{
    Ad, AdSpec, Answer, Bid, BidId, BidRequest, Door, Event, Gate, NoBidForm, NoBidReason, Notice,
    NoticeStatus, Noticed, Outcome, Settings, StreamSpec, Violation,
};
use serde_json::{Value, json};

use crate::bidder::{BANNER, NOW_MS, VIDEO, bid, door};

/// A gate that is a closure.
pub(crate) struct Scripted<F> {
    script: F,
    /// How long the request has waited.
    waited_ms: u64,
    pub(crate) events: Vec<Event>,
}

impl<F: FnMut(&BidRequest<'_>, &mut Answer<'_>) -> Outcome> Gate for Scripted<F> {
    fn now_ms(&self) -> u64 {
        NOW_MS
    }

    fn arrived_ms(&self) -> u64 {
        NOW_MS - self.waited_ms
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        (self.script)(request, answer)
    }

    fn notice(&mut self, _: ConnId, _: &Notice<'_>) -> Noticed {
        Noticed::Now(NoticeStatus::Taken)
    }

    fn refused(&mut self, _: door_http::Refusal) {}

    fn count(&mut self, event: Event) {
        self.events.push(event);
    }
}

/// Status, body and counted events of one request.
pub(crate) fn ask(
    door: &mut Door,
    request: &str,
    script: impl FnMut(&BidRequest<'_>, &mut Answer<'_>) -> Outcome,
) -> (u16, String, Vec<Event>) {
    ask_late(door, (request, 0), script)
}

/// The same of a request that has waited so many ms.
fn ask_late(
    door: &mut Door,
    (request, waited_ms): (&str, u64),
    script: impl FnMut(&BidRequest<'_>, &mut Answer<'_>) -> Outcome,
) -> (u16, String, Vec<Event>) {
    let mut gate = Scripted { script, waited_ms, events: Vec::new() };
    let answer = door.bid(&mut request.as_bytes().to_vec(), &mut gate);
    assert_eq!(answer.headers, b"x-openrtb-version: 2.6\r\n");
    let has_type = answer.content_type == Some("application/json;charset=utf-8");
    assert_eq!(has_type, answer.status == 200);
    (answer.status, String::from_utf8(answer.body.to_vec()).unwrap(), gate.events)
}

const TWO: &str = r#"{"id":"r\"1","tmax":100,"imp":[
    {"id":"1","banner":{"w":300,"h":250},"pmp":{"deals":[{"id":"d-1"}]}},{"id":"2","video":{"mimes":["video/mp4"]}}]}"#;

#[test]
fn one_bid_in_full() {
    let ad = Ad::new(&BANNER);
    let (status, body, events) = ask(&mut door(), TWO, |_, answer| {
        assert_eq!(answer.deadline_ms(), NOW_MS + 70);
        answer.push(&Bid { deal: Some(0), slot_in_pod: Some(-1), ..bid(&ad) }).unwrap();
        answer.set_response_id(0x1F);
        Outcome::Bids
    });
    assert_eq!((status, events.as_slice()), (200, &[Event::Bids(1)][..]));
    let macros = "p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}";
    let expected = json!({
        "id": "r\"1", "bidid": "1f", "cur": "USD",
        "seatbid": [{"seat": "seat-1", "bid": [{
            "id": "b1", "impid": "1", "price": 1.5,
            "adm": "<a href=\"https://shop.example/?p=${AUCTION_PRICE}\">buy</a>",
            "nurl": format!("https://rtb.example/n/win/aG9sZA/{macros}"),
            "burl": format!("https://rtb.example/n/bill/aG9sZA/{macros}"),
            "lurl": format!("https://rtb.example/n/loss/aG9sZA/{macros}/l-${{AUCTION_LOSS}}"),
            "mtype": 1, "crid": "crid-1", "adomain": ["shop.example"], "cat": ["IAB18-1"], "attr": [2],
            "language": "en", "cid": "camp-1", "dealid": "d-1", "w": 300, "h": 250, "exp": 300, "slotinpod": -1,
        }]}],
    });
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
}

#[test]
fn a_vast_ad_carries_its_billing_notice_in_the_markup() {
    let ad = Ad::new(&AdSpec { iurl: Some("https://i.example/1.png"), ..VIDEO });
    let (status, body, _) = ask(&mut door(), TWO, |_, answer| {
        let bid = Bid { imp: 1, width: 0, height: 0, expires_s: None, cid: "", ..bid(&ad) };
        answer.push(&bid).unwrap();
        Outcome::Bids
    });
    let body: Value = serde_json::from_str(&body).unwrap();
    let bid = &body["seatbid"][0]["bid"][0];
    assert_eq!((status, &bid["mtype"], &bid["dur"]), (200, &json!(2), &json!(15)));
    let address = "https://rtb.example/n/bill/aG9sZA/p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}";
    let markup =
        format!("<VAST version=\"4.0\"><Impression><![CDATA[{address}]]></Impression></VAST>");
    assert_eq!(bid["adm"], markup.as_str());
    for absent in ["burl", "w", "h", "exp", "cid", "dealid"] {
        assert!(bid.get(absent).is_none(), "{absent}");
    }
    assert!(bid.get("nurl").is_some() && bid["iurl"] == "https://i.example/1.png");
}

#[test]
fn markup_made_for_a_request_takes_the_place_of_the_creatives() {
    let spec = AdSpec { mtype: openrtb::Mtype::Native, markup: "", ..BANNER };
    let ad = Ad::new(&spec);
    let request = r#"{"id":"r","imp":[{"id":"1","native":{"request":"{}"}}]}"#;
    let made = r#"{"imptrackers":["${WEIR_BURL}"],"link":{"url":"a\"b"}}"#;
    let (_, body, _) = ask(&mut door(), request, |_, answer| {
        assert_eq!(answer.push(&bid(&ad)), Err(Violation::Markup));
        assert_eq!(answer.push_made(&bid(&ad), ""), Err(Violation::Markup));
        answer.push_made(&bid(&ad), made).unwrap();
        Outcome::Bids
    });
    let body: Value = serde_json::from_str(&body).unwrap();
    let bid_sent = &body["seatbid"][0]["bid"][0];
    let address = "https://rtb.example/n/bill/aG9sZA/p-${AUCTION_PRICE}/c-${AUCTION_CURRENCY}";
    assert_eq!(bid_sent["adm"], made.replace("${WEIR_BURL}", address));
    assert!(bid_sent.get("burl").is_none() && bid_sent.get("nurl").is_some());
    // Its notices come from the browser: over HTTP only they break `secure`.
    let mut plain = Door::new(Settings::default()).unwrap();
    let secure = request.replace(r#""id":"1","#, r#""id":"1","secure":1,"#);
    ask(&mut plain, &secure, |_, answer| {
        assert_eq!(answer.push_made(&bid(&ad), made), Err(Violation::Secure));
        answer.push_made(&bid(&ad), "{}").unwrap();
        Outcome::Bids
    });
}

#[test]
fn a_bid_says_what_its_video_needs() {
    let markup = r#"<VAST version="4.1"><Linear><Duration>00:00:20</Duration><MediaFile type="application/javascript"
        apiFramework="SIMID"/></Linear></VAST>"#;
    let spec = AdSpec { markup, duration_s: None, ..VIDEO };
    let one = StreamSpec { apis: vec![8], ..StreamSpec::of_vast(markup) };
    for (needs, expected) in [
        (StreamSpec::of_vast(markup), json!([11, null, [8, 9], 20])),
        (one, json!([11, 8, [8], 20])),
        (StreamSpec::default(), json!([null, null, null, null])),
    ] {
        let ad = Ad::new(&spec).with_stream(&needs);
        let request = r#"{"id":"r","imp":[{"id":"1","video":{"api":[8]}}]}"#;
        let (_, body, _) = ask(&mut door(), request, |_, answer| {
            answer.push(&bid(&ad)).unwrap();
            Outcome::Bids
        });
        let body: Value = serde_json::from_str(&body).unwrap();
        let bid = &body["seatbid"][0]["bid"][0];
        assert_eq!(json!([bid["protocol"], bid["api"], bid["apis"], bid["dur"]]), expected);
        assert_eq!(ad.duration_s().map(u64::from), bid["dur"].as_u64());
    }
}

#[test]
fn bids_lie_with_their_seat_and_group() {
    let ad = Ad::new(&BANNER);
    let many = [
        ("a", None),
        ("b", None),
        ("a", Some(1)),
        ("a", None),
        ("a", Some(2)),
        ("a", Some(1)),
        ("", None),
    ];
    let (_, body, _) = ask(&mut door(), TWO, |_, answer| {
        for (number, (seat, group)) in many.into_iter().enumerate() {
            let id = BidId::Number(number as u128);
            answer.push(&Bid { id, seat, group, ..bid(&ad) }).unwrap();
        }
        Outcome::Bids
    });
    let body: Value = serde_json::from_str(&body).unwrap();
    let seats: Vec<String> = body["seatbid"]
        .as_array()
        .unwrap()
        .iter()
        .map(|seat| {
            let ids: Vec<&str> = seat["bid"]
                .as_array()
                .unwrap()
                .iter()
                .map(|bid| bid["id"].as_str().unwrap())
                .collect();
            format!("{} {} {}", seat["seat"], seat["group"], ids.join(","))
        })
        .collect();
    let expected = ["\"a\" null 0,3", "\"b\" null 1", "\"a\" 1 2,5", "\"a\" 1 4", "null null 6"];
    assert_eq!(seats, expected);
}

#[test]
fn prices_are_exact_decimals() {
    let ad = Ad::new(&BANNER);
    for (micros, text) in [
        (1, "0.000001"),
        (100_000, "0.1"),
        (1_000_000, "1"),
        (1_100_000, "1.1"),
        (12_345_678, "12.345678"),
        (999_999_999_999, "999999.999999"),
    ] {
        let (_, body, _) = ask(&mut door(), TWO, |_, answer| {
            answer.push(&Bid { price_micros: micros, ..bid(&ad) }).unwrap();
            Outcome::Bids
        });
        assert!(body.contains(&format!("\"price\":{text},")), "{body}");
    }
}

#[test]
fn what_is_taken_back_does_not_leave() {
    let ad = Ad::new(&BANNER);
    let pushed = |number: u128| Bid { id: BidId::Number(number), ..bid(&ad) };
    let (status, body, events) = ask(&mut door(), TWO, |_, answer| {
        answer.push(&pushed(1)).unwrap();
        let mark = answer.mark();
        answer.push(&pushed(2)).unwrap();
        answer.push(&pushed(3)).unwrap();
        answer.undo_to(mark);
        assert_eq!(answer.len(), 1);
        answer.undo_to(answer.mark());
        answer.push(&pushed(3)).unwrap();
        Outcome::Bids
    });
    assert_eq!((status, events.as_slice()), (200, &[Event::Bids(2)][..]));
    let body: Value = serde_json::from_str(&body).unwrap();
    let ids: Vec<&Value> =
        body["seatbid"][0]["bid"].as_array().unwrap().iter().map(|bid| &bid["id"]).collect();
    assert_eq!(ids, ["1", "3"]);

    // All taken back: the currency is open again, and there is no bid.
    let (status, body, events) = ask(&mut door(), TWO, |_, answer| {
        let mark = answer.mark();
        answer.push(&pushed(1)).unwrap();
        answer.undo_to(mark);
        assert!(answer.is_empty());
        Outcome::Bids
    });
    assert_eq!(
        (status, body.as_str(), events.as_slice()),
        (204, "", &[Event::NoBid(NoBidReason::Unknown)][..])
    );
}

#[test]
fn a_no_bid_takes_what_was_pushed_along() {
    let ad = Ad::new(&BANNER);
    let (status, body, events) = ask(&mut door(), TWO, |_, answer| {
        answer.push(&bid(&ad)).unwrap();
        Outcome::NoBid(NoBidReason::InsufficientTime)
    });
    let late = [Event::NoBid(NoBidReason::InsufficientTime)];
    assert_eq!((status, body.as_str(), events.as_slice()), (204, "", &late[..]));
}

#[test]
fn a_no_bid_may_say_why() {
    let settings = Settings { no_bid: NoBidForm::Reason, ..Settings::default() };
    let mut door = Door::new(settings).unwrap();
    let (status, body, _) = ask(&mut door, TWO, |_, _| Outcome::NoBid(NoBidReason::Paced));
    assert_eq!((status, body.as_str()), (200, r#"{"id":"r\"1","nbr":502}"#));
    let (status, body, _) =
        ask(&mut door, TWO, |_, _| Outcome::NoBid(NoBidReason::InsufficientTime));
    assert_eq!((status, body.as_str()), (204, ""));
}

#[test]
fn without_time_the_gate_is_not_asked() {
    for tmax in ["0", "-1", "30"] {
        let request = format!(r#"{{"id":"r","tmax":{tmax},"imp":[{{"id":"1"}}]}}"#);
        let (status, _, events) = ask(&mut door(), &request, |_, _| panic!("asked"));
        assert_eq!((status, events), (204, vec![Event::NoBid(NoBidReason::InsufficientTime)]));
    }
    let deadline = |tmax: &str| {
        let request = format!(r#"{{"id":"r",{tmax}"imp":[{{"id":"1"}}]}}"#);
        let mut deadline_ms = 0;
        ask(&mut door(), &request, |_, answer| {
            deadline_ms = answer.deadline_ms();
            Outcome::Bids
        });
        deadline_ms - NOW_MS
    };
    assert_eq!(
        (deadline(r#""tmax":31,"#), deadline(""), deadline(r#""tmax":null,"#)),
        (1, 120, 120)
    );
}

#[test]
fn an_answer_has_one_currency_and_bids_of_their_own_id() {
    let ad = Ad::new(&BANNER);
    let request = TWO.replace("\"tmax\"", "\"cur\":[\"USD\",\"eur\"],\"tmax\"");
    let (_, body, _) = ask(&mut door(), &request, |_, answer| {
        let euro = currency("EUR");
        answer.push(&Bid { currency: euro, ..bid(&ad) }).unwrap();
        assert_eq!(answer.push(&bid(&ad)), Err(Violation::CurrencyMixed));
        assert_eq!(answer.push(&Bid { currency: euro, ..bid(&ad) }), Err(Violation::BidId));
        assert_eq!(
            answer.push(&Bid { currency: euro, id: BidId::Text(""), ..bid(&ad) }),
            Err(Violation::BidId)
        );
        Outcome::Bids
    });
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["cur"], "EUR");
}

fn currency(code: &str) -> money::CurrencyCode {
    money::CurrencyCode::new(code).unwrap()
}

#[test]
fn an_answer_has_so_many_bids_and_no_more() {
    let ad = Ad::new(&BANNER);
    let mut door = Door::new(Settings { bids_max: 1, ..Settings::default() }).unwrap();
    ask(&mut door, TWO, |_, answer| {
        answer.push(&bid(&ad)).unwrap();
        let another = Bid { id: BidId::Number(7), ..bid(&ad) };
        assert_eq!(answer.push(&another), Err(Violation::TooManyBids));
        Outcome::Bids
    });
}

#[test]
fn who_waited_too_long_is_shed() {
    // With the margin of 30 ms and 150 ms for those who say nothing.
    let texts = [
        (r#""tmax":100,"#, 70),
        (r#""tmax" : "100","#, 70),
        (r#""tmax":100.0,"#, 70),
        (r#""x":"tmax","#, 120),
        (r#""tmax":null,"#, 120),
    ];
    for (text, over_ms) in texts {
        let request = format!(r#"{{"id":"r",{text}"imp":[{{"id":"1"}}]}}"#);
        for waited_ms in [0, 1, over_ms - 1, over_ms, 10_000] {
            let mut asked = None;
            let (status, _, events) = ask_late(&mut door(), (&request, waited_ms), |_, answer| {
                asked = Some(answer.deadline_ms());
                Outcome::NoBid(NoBidReason::NoMatch)
            });
            // The time of an answer runs from when its request came.
            let in_time = waited_ms < over_ms;
            assert_eq!(
                asked,
                in_time.then_some(NOW_MS - waited_ms + over_ms),
                "{text} {waited_ms}"
            );
            let event = if in_time { Event::NoBid(NoBidReason::NoMatch) } else { Event::Shed };
            assert_eq!((status, events), (204, vec![event]), "{text} {waited_ms}");
        }
    }
    // Nothing is parsed of what is shed, and a gate without time says so itself.
    assert_eq!(ask_late(&mut door(), ("{", 200), |_, _| Outcome::Bids).2, [Event::Shed]);
    assert_eq!(
        ask(&mut door(), TWO, |_, _| Outcome::Shed),
        (204, String::new(), vec![Event::Shed])
    );
}
