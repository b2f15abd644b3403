//! Each rule of the check: what breaks it, and what just does not.

use money::CurrencyCode;
use openrtb::{Ad, AdSpec, Bid, BidId, Mtype, NoticeIds, Outcome, StreamSpec, Violation};

use crate::answers::ask;
use crate::bidder::{BANNER, VIDEO, bid, door};

/// What the check says of one bid for a request with these fields at the top and in its one impression.
fn checked(
    top: &str,
    imp: &str,
    spec: &AdSpec<'_>,
    change: impl Fn(&mut Bid<'_>),
) -> Result<(), Violation> {
    let request = format!(r#"{{"id":"r",{top}"imp":[{{"id":"1",{imp}"ext":{{}}}}]}}"#);
    let ad = Ad::new(spec);
    let mut bid = bid(&ad);
    change(&mut bid);
    let mut result = Ok(());
    let (status, ..) = ask(&mut door(), &request, |_, answer| {
        result = answer.push(&bid);
        Outcome::Bids
    });
    assert_eq!(status, if result.is_ok() { 200 } else { 204 }, "{request}");
    result
}

const PLAIN: &str = r#""banner":{},"#;

fn plain(bid: &mut Bid<'_>) {
    let _ = bid;
}

/// Bids of the usual banner.
fn banner(top: &str, imp: &str, change: impl Fn(&mut Bid<'_>)) -> Result<(), Violation> {
    checked(top, imp, &BANNER, change)
}

#[test]
fn impressions_and_deals_exist() {
    assert_eq!(banner("", PLAIN, |bid| bid.imp = 1), Err(Violation::Imp));
    assert_eq!(banner("", PLAIN, |bid| bid.deal = Some(0)), Err(Violation::Deal));
    let private = r#""banner":{},"pmp":{"private_auction":1,"deals":[{"id":"d","wseat":["x"]},{"id":"e","wadomain":["other.example"]},{"id":"f"}]},"#;
    assert_eq!(banner("", private, plain), Err(Violation::PrivateAuction));
    assert_eq!(banner("", private, |bid| bid.deal = Some(0)), Err(Violation::DealSeat));
    assert_eq!(banner("", private, |bid| bid.deal = Some(1)), Err(Violation::DealAdvertiser));
    assert_eq!(banner("", private, |bid| bid.deal = Some(2)), Ok(()));
    let seat = |bid: &mut Bid<'_>| (bid.deal, bid.seat) = (Some(0), "x");
    assert_eq!(banner("", private, seat), Ok(()));
    let twins = r#""banner":{}},{"id":"1","banner":{},"#;
    assert_eq!(banner("", twins, plain), Err(Violation::ImpAmbiguous));
}

#[test]
fn prices_meet_floors_in_their_currency() {
    let floor = |text: &str| format!(r#""banner":{{}},"bidfloor":{text},"#);
    assert_eq!(banner("", &floor("1.5"), plain), Ok(()));
    assert_eq!(banner("", &floor("1.500001"), plain), Err(Violation::Floor));
    assert_eq!(banner("", &floor("\"much\""), plain), Err(Violation::Floor));
    for price in [0, -1, i64::MIN, 1_000_000_000_000] {
        assert_eq!(banner("", PLAIN, |bid| bid.price_micros = price), Err(Violation::Price));
    }
    let euro = floor(r#"1.4,"bidfloorcur":"EUR""#);
    assert_eq!(banner("", &euro, plain), Err(Violation::FloorCurrency));
    assert_eq!(banner("", &euro, |bid| bid.floor_micros = Some(1_500_000)), Ok(()));
    assert_eq!(banner("", &euro, |bid| bid.floor_micros = Some(1_500_001)), Err(Violation::Floor));
    let deal = |floor: &str| {
        format!(
            r#""banner":{{}},"bidfloor":9,"pmp":{{"deals":[{{"id":"d","bidfloor":{floor}}}]}},"#
        )
    };
    assert_eq!(banner("", &deal("1.5"), |bid| bid.deal = Some(0)), Ok(()));
    assert_eq!(banner("", &deal("1.6"), |bid| bid.deal = Some(0)), Err(Violation::Floor));
    assert_eq!(banner("", &deal("1.5"), plain), Err(Violation::Floor));
    // A converted floor is no way round a floor that cannot be met.
    let unknown = floor(r#"1,"bidfloorcur":"QQQ""#);
    assert_eq!(banner("", &unknown, |bid| bid.floor_micros = Some(1)), Err(Violation::Floor));
}

#[test]
fn currencies_are_accepted() {
    let in_euro = |bid: &mut Bid<'_>| bid.currency = CurrencyCode::new("EUR").unwrap();
    assert_eq!(banner("", PLAIN, in_euro), Err(Violation::Currency));
    assert_eq!(banner(r#""cur":["GBP","eur"],"#, PLAIN, in_euro), Ok(()));
    assert_eq!(banner(r#""cur":["GBP","EUR"],"#, PLAIN, plain), Err(Violation::Currency));
    assert_eq!(banner(r#""cur":[],"#, PLAIN, plain), Ok(()));
}

#[test]
fn seats_may_bid() {
    assert_eq!(banner(r#""wseat":["seat-1"],"#, PLAIN, plain), Ok(()));
    assert_eq!(banner(r#""wseat":["seat-2"],"#, PLAIN, plain), Err(Violation::Seat));
    assert_eq!(banner(r#""wseat":["seat-2"],"#, PLAIN, |bid| bid.seat = ""), Err(Violation::Seat));
    assert_eq!(banner(r#""bseat":["seat-1"],"#, PLAIN, plain), Err(Violation::Seat));
    assert_eq!(banner(r#""bseat":["seat-2"],"#, PLAIN, plain), Ok(()));
}

#[test]
fn creatives_are_what_is_asked_for() {
    let of = |imp: &str, spec: AdSpec<'_>| checked("", imp, &spec, plain);
    assert_eq!(of(PLAIN, AdSpec { crid: "", ..BANNER }), Err(Violation::Crid));
    assert_eq!(of(PLAIN, AdSpec { markup: "", ..BANNER }), Err(Violation::Markup));
    for mtype in [Mtype::Video, Mtype::Audio, Mtype::Native] {
        assert_eq!(of(PLAIN, AdSpec { mtype, ..BANNER }), Err(Violation::Mtype));
    }
    assert_eq!(of(r#""native":{},"#, BANNER), Err(Violation::Mtype));
    assert_eq!(of(r#""native":{},"#, AdSpec { mtype: Mtype::Native, ..BANNER }), Ok(()));
    for (kind, mtype) in [("banner", 1), ("video", 2), ("audio", 3), ("native", 4)] {
        let mtype = [Mtype::Banner, Mtype::Video, Mtype::Audio, Mtype::Native][mtype - 1];
        let blocked = format!(r#""{kind}":{{"battr":[1,"2"]}},"#);
        assert_eq!(of(&blocked, AdSpec { mtype, ..BANNER }), Err(Violation::Attribute));
        assert_eq!(of(&blocked, AdSpec { mtype, attr: &[3], ..BANNER }), Ok(()));
    }
    assert_eq!(
        of(r#""banner":{},"secure":1,"#, AdSpec { secure: false, ..BANNER }),
        Err(Violation::Secure)
    );
    assert_eq!(of(r#""banner":{},"secure":1,"#, BANNER), Ok(()));
    assert_eq!(of(PLAIN, AdSpec { secure: false, ..BANNER }), Ok(()));
}

#[test]
fn sizes_fit() {
    let sized = |imp: &str, width: u32, height: u32| {
        let imp = format!("{imp},");
        banner("", &imp, |bid| (bid.width, bid.height) = (width, height))
    };
    let format = r#""banner":{"format":[{"w":300,"h":250},{"w":728,"h":90}]}"#;
    assert_eq!(sized(format, 728, 90), Ok(()));
    assert_eq!(sized(format, 728, 250), Err(Violation::Size));
    assert_eq!(sized(format, 0, 0), Err(Violation::Size));
    assert_eq!(sized(r#""banner":{"w":320,"h":50}"#, 320, 50), Ok(()));
    assert_eq!(sized(r#""banner":{"w":320,"h":50}"#, 50, 320), Err(Violation::Size));
    assert_eq!(sized(r#""banner":{}"#, 1, 1), Ok(()));
    let full = r#""instl":1,"banner":{"w":320,"h":480}"#;
    assert_eq!(sized(full, 300, 250), Ok(()));
    assert_eq!(sized(full, 321, 480), Err(Violation::Size));
    assert_eq!(sized(full, 0, 480), Err(Violation::Size));
    // What is said and is no size is not "any size".
    for none in [r#""w":300,"h":-1"#, r#""w":"wide","h":250"#, r#""w":0,"h":0"#, r#""w":1.5,"h":1"#]
    {
        let imp = format!(r#""banner":{{{none}}}"#);
        assert_eq!(sized(&imp, 300, 250), Err(Violation::Size), "{none}");
        assert_eq!(sized(&imp, 0, 0), Err(Violation::Size), "{none}");
    }
    let beside = r#""banner":{"w":320,"h":50,"format":[{"w":300,"h":50}]}"#;
    assert_eq!((sized(beside, 320, 50), sized(beside, 300, 50)), (Ok(()), Ok(())));
    // The ranges of 2.5.
    let range = r#""banner":{"wmin":300,"wmax":320,"hmax":50}"#;
    assert_eq!((sized(range, 300, 1), sized(range, 320, 50)), (Ok(()), Ok(())));
    for (width, height) in [(299, 50), (321, 50), (300, 51), (300, 0)] {
        assert_eq!(sized(range, width, height), Err(Violation::Size), "{width} x {height}");
    }
    let around = r#""banner":{"w":320,"h":50,"wmin":300}"#;
    assert_eq!((sized(around, 310, 50), sized(around, 320, 50)), (Ok(()), Ok(())));
    assert_eq!(sized(around, 310, 49), Err(Violation::Size));
    let full = r#""instl":1,"banner":{"format":[{"w":320,"h":480},{"w":480,"h":320}]}"#;
    assert_eq!((sized(full, 480, 300), sized(full, 300, 480)), (Ok(()), Ok(())));
    assert_eq!(sized(full, 481, 480), Err(Violation::Size));
    let ratio = r#""banner":{"format":[{"wratio":16,"hratio":9,"wmin":320}]}"#;
    assert_eq!(sized(ratio, 640, 360), Ok(()));
    assert_eq!(sized(ratio, 160, 90), Err(Violation::Size));
    assert_eq!(sized(ratio, 640, 361), Err(Violation::Size));
}

#[test]
fn durations_fit() {
    let of = |fields: &str, duration_s| {
        let imp = format!(r#""video":{{{fields}}},"#);
        checked("", &imp, &AdSpec { duration_s, ..VIDEO }, plain)
    };
    let range = r#""minduration":10,"maxduration":15"#;
    assert_eq!(
        (of(range, Some(10)), of(range, Some(15)), of(range, None)),
        (Ok(()), Ok(()), Ok(()))
    );
    assert_eq!(of(range, Some(9)), Err(Violation::Duration));
    assert_eq!(of(range, Some(16)), Err(Violation::Duration));
    assert_eq!(of(r#""rqddurs":[15,30]"#, Some(30)), Ok(()));
    assert_eq!(of(r#""rqddurs":[15,30]"#, Some(20)), Err(Violation::Duration));
    assert_eq!(of(r#""rqddurs":[15,30]"#, None), Err(Violation::Duration));
    for no_end in ["0", "-1", "null"] {
        let fields = format!(r#""maxduration":{no_end}"#);
        assert_eq!(of(&fields, Some(30)), Ok(()), "{fields}");
    }
    assert_eq!(of(r#""mincpmpersec":0.1"#, Some(15)), Ok(()));
    assert_eq!(of(r#""mincpmpersec":0.1"#, Some(16)), Err(Violation::Floor));
    assert_eq!(of(r#""mincpmpersec":0.1"#, None), Err(Violation::Floor));
}

/// Finding: video went to players that cannot play it.
#[test]
fn players_can_play_it() {
    let spec = StreamSpec {
        protocol: Some(7),
        mimes: vec!["video/webm", "video/mp4"],
        apis: vec![2],
        linearity: Some(1),
        duration_s: None,
        ..StreamSpec::default()
    };
    let of = |fields: &str, spec: &StreamSpec<'_>| {
        let request = format!(r#"{{"id":"r","imp":[{{"id":"1","video":{{{fields}}}}}]}}"#);
        let ad = Ad::new(&VIDEO).with_stream(spec);
        let mut result = Ok(());
        ask(&mut door(), &request, |_, answer| {
            result = answer.push(&bid(&ad));
            Outcome::Bids
        });
        result
    };
    let asked = r#""api":[1,2],"mimes":["VIDEO/mp4"],"linearity":1,"protocols":[2,7]"#;
    assert_eq!((of(asked, &spec), of(r#""api":2"#, &spec)), (Ok(()), Ok(())));
    for (fields, lacks) in [
        (r#""api":[2],"protocols":[2,3,5,6]"#, Violation::Protocol),
        (r#""api":[2],"protocol":2"#, Violation::Protocol),
        (r#""api":[2],"mimes":["application/javascript"]"#, Violation::Mime),
        (r#""api":[1]"#, Violation::Api),
        (r#""protocols":[7]"#, Violation::Api),
        (r#""api":[2],"linearity":2"#, Violation::Linearity),
    ] {
        assert_eq!(of(fields, &spec), Err(lacks), "{fields}");
        checked("", &format!(r#""video":{{{fields}}},"#), &VIDEO, plain).unwrap();
    }
    let unknown = StreamSpec::default();
    assert_eq!(
        (of(r#""mimes":["a/b"],"linearity":2"#, &unknown), of("", &unknown)),
        (Ok(()), Ok(()))
    );
    assert_eq!(of(r#""protocols":[2]"#, &unknown), Err(Violation::Protocol));
}

/// How many bids of a video of 15 seconds an answer takes for one impression.
fn taken(video: &str, most: usize) -> (usize, Option<Violation>) {
    let request = format!(r#"{{"id":"r","imp":[{{"id":"1","video":{{{video}}}}}]}}"#);
    let ad = Ad::new(&AdSpec { duration_s: Some(15), ..VIDEO });
    let mut taken = (0, None);
    ask(&mut door(), &request, |_, answer| {
        for number in 0..most {
            let id = BidId::Number(number as u128);
            match answer.push(&Bid { id, ..bid(&ad) }) {
                Ok(()) => taken.0 += 1,
                Err(why) => taken.1 = Some(why),
            }
        }
        Outcome::Bids
    });
    taken
}

#[test]
fn a_dynamic_pod_is_not_filled_beyond_its_time_and_its_ads() {
    for (video, expected) in [
        ("", (9, None)),
        (r#""maxseq":2"#, (9, None)),
        (r#""poddur":0,"maxseq":0"#, (9, None)),
        (r#""poddur":45"#, (3, Some(Violation::Pod))),
        (r#""poddur":44"#, (2, Some(Violation::Pod))),
        (r#""poddur":14"#, (0, Some(Violation::Pod))),
        (r#""poddur":90,"maxseq":2"#, (2, Some(Violation::Pod))),
        (r#""poddur":900,"maxseq":9"#, (9, None)),
    ] {
        assert_eq!(taken(video, 9), expected, "{video}");
    }
    let unknown = AdSpec { duration_s: None, ..VIDEO };
    let of = |video: &str| checked("", &format!(r#""video":{{{video}}},"#), &unknown, plain);
    assert_eq!((of(r#""poddur":90"#), of("")), (Err(Violation::Pod), Ok(())));
}

#[test]
fn nothing_blocked_is_shown() {
    let of = |top: &str, spec: AdSpec<'_>| checked(top, PLAIN, &spec, plain);
    assert_eq!(of(r#""badv":["other.example"],"#, BANNER), Ok(()));
    assert_eq!(of(r#""badv":["SHOP.example"],"#, BANNER), Err(Violation::Advertiser));
    assert_eq!(of(r#""badv":["x.shop.example"],"#, BANNER), Ok(()));
    for dressed in ["https://shop.example/", "*.shop.example", ".shop.example", " shop.example/ "] {
        let blocked = format!(r#""badv":["{dressed}"],"#);
        assert_eq!(of(&blocked, BANNER), Err(Violation::Advertiser), "{dressed}");
    }
    let below = AdSpec { adomain: &["fine.example", "a.shop.example"], ..BANNER };
    assert_eq!(of(r#""badv":["shop.example"],"#, below), Err(Violation::Advertiser));
    assert_eq!(
        of(r#""badv":["shop.example"],"#, AdSpec { adomain: &[], ..BANNER }),
        Err(Violation::Advertiser)
    );
    assert_eq!(of(r#""bcat":["IAB18"],"#, BANNER), Err(Violation::Category));
    assert_eq!(of(r#""bcat":["IAB18-1"],"#, BANNER), Err(Violation::Category));
    assert_eq!(of(r#""bcat":["IAB18-10","IAB1"],"#, BANNER), Ok(()));
    assert_eq!(of(r#""bcat":["IAB18"],"#, AdSpec { cat: &[], ..BANNER }), Ok(()));
    assert_eq!(of(r#""acat":["IAB18"],"#, BANNER), Ok(()));
    assert_eq!(of(r#""acat":["IAB1"],"#, BANNER), Err(Violation::Category));
    assert_eq!(of(r#""acat":["IAB1"],"#, AdSpec { cat: &[], ..BANNER }), Err(Violation::Category));
    assert_eq!(of(r#""bcat":["1"],"cattax":7,"#, BANNER), Err(Violation::CategoryUnknown));
    assert_eq!(of(r#""bcat":["1"],"cattax":7,"#, AdSpec { cattax: 7, ..BANNER }), Ok(()));
    // 553 is Beauty in the content taxonomies 2.x, as IAB18-1 in the first; 552 is above it.
    let beauty = AdSpec { cat: &["IAB18-1"], ..BANNER };
    for (list, expected) in [
        (r#""bcat":["553"],"cattax":2,"#, Err(Violation::Category)),
        (r#""bcat":["552"],"cattax":5,"#, Err(Violation::Category)),
        (r#""bcat":["483","574"],"cattax":6,"#, Ok(())),
        (r#""bcat":["483","90210"],"cattax":6,"#, Err(Violation::Category)),
        (r#""acat":["552"],"cattax":2,"#, Ok(())),
        (r#""acat":["483","90210"],"cattax":2,"#, Err(Violation::Category)),
        (r#""bcat":["483"],"cattax":7,"#, Err(Violation::CategoryUnknown)),
    ] {
        assert_eq!(of(list, beauty), expected, "{list}");
    }
    let app = AdSpec { bundle: Some("com.shop"), ..BANNER };
    assert_eq!(of(r#""bapp":["com.shop"],"#, app), Err(Violation::App));
    assert_eq!(of(r#""bapp":["com.other"],"#, app), Ok(()));
    assert_eq!(of(r#""wlang":["de","EN"],"#, BANNER), Ok(()));
    assert_eq!(of(r#""wlang":["de"],"#, BANNER), Err(Violation::Language));
    assert_eq!(of(r#""wlangb":["en-GB"],"#, BANNER), Ok(()));
    assert_eq!(of(r#""wlangb":["de-CH"],"#, BANNER), Err(Violation::Language));
}

#[test]
fn notice_ids_fit_their_place() {
    let one = |start: &'static [u8], end: &'static [u8]| {
        banner("", PLAIN, |bid| {
            bid.notice_ids = NoticeIds { start, ends: [b"win", b"bill", end], click: None }
        })
    };
    assert_eq!(one(b"", b""), Err(Violation::NoticeId));
    assert_eq!(one(b"four", b"loss"), Err(Violation::NoticeId), "base64 of it has no end");
    assert_eq!(one(&[7; 126], &[7; 3]), Err(Violation::NoticeId));
    assert_eq!(one(&[7; 120], &[7; 8]), Ok(()));
    assert_eq!(one(b"", &[7; 128]), Ok(()));
}
