//! Answers to real and made-up requests before a judge that shares nothing with the node but the specification.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use table::SplitMix64;

use self::judge::Judge;
use crate::openrtb::{
    BID_PATH, Http, check_no_violation, creative, imp, patient, post, request, with,
};
use crate::support::{Node, wait_for};

#[path = "../../../../proof/answers/judge.rs"]
mod judge;

/// Requests in one piece.
const PIECE: usize = 20;
const MUTATIONS: usize = 2_000;

const NATIVE: &str = r#"{"link":{"url":"https://brand.example"},"assets":[{"title":{"text":"New"}},
    {"img":{"url":"https://i.example/a.png","w":1200,"h":627}},{"data":{"type":2,"value":"Buy"}}]}"#;

/// VAST of a version with one film in it.
fn vast(version: &str, mime: &str) -> String {
    format!(
        "<VAST version=\"{version}\"><Ad><InLine><Impression>${{WEIR_BURL}}</Impression><Creatives><Creative><Linear>\
         <MediaFiles><MediaFile type=\"{mime}\"/></MediaFiles></Linear></Creative></Creatives></InLine></Ad></VAST>"
    )
}

/// Campaigns that differ in all that a request may rule out.
fn campaigns() -> Vec<Value> {
    let shown = |id: &str, format: &str, fields: Value| {
        creative(id, with(json!({"format": format, "sizes": "any"}), fields))
    };
    let campaign = |id: u64, bid: &str, creatives: Value, fields: Value| {
        let own = json!({"id": id, "limit": "1000000", "bid": bid, "creatives": creatives, "seat": format!("s{}", id % 3)});
        with(own, fields)
    };
    let brand = json!({"cat": ["IAB7-39"], "attr": [3, 7], "language": "en", "adomain": ["shop.brand.example"]});
    let sizes = json!({"sizes": ["300x250", "728x90", "320x50"], "adomain": ["other.example"]});
    let app = json!({"bundle": "com.brand", "secure": false, "adomain": ["apps.example"], "cat": ["IAB3"]});
    let film = |version: &str, mime: &str, seconds: u32| json!({"duration_s": seconds, "attr": [3], "adomain": ["film.example"], "markup": vast(version, mime)});
    vec![
        campaign(1, "9.00", json!([shown("b", "banner", brand.clone())]), json!({})),
        campaign(2, "8.00", json!([shown("s", "banner", sizes)]), json!({"unit": "EUR"})),
        campaign(3, "7.00", json!([shown("a", "banner", app)]), json!({})),
        campaign(4, "9.00", json!([shown("f", "video", film("4.0", "video/mp4", 15))]), json!({})),
        campaign(
            5,
            "8.00",
            json!([shown("w", "video", film("2.0", "video/webm", 30))]),
            json!({"advertiser": "web.example"}),
        ),
        campaign(6, "9.00", json!([shown("r", "audio", json!({"duration_s": 30}))]), json!({})),
        campaign(7, "9.00", json!([shown("n", "native", json!({"markup": NATIVE}))]), json!({})),
        campaign(
            8,
            "20.00",
            json!([shown("d", "banner", json!({}))]),
            json!({"targeting": {"deals": ["d1", "d2"], "deals_only": true}}),
        ),
        campaign(
            9,
            "10.00",
            json!([shown("x", "banner", json!({}))]),
            json!({"targeting": {"domains": {"none": ["site.example", "bad.example"]}, "categories": {"none": ["IAB7-39"]}}}),
        ),
        campaign(
            10,
            "9.50",
            json!([shown(
                "k",
                "video",
                with(film("4.0", "video/mp4", 15), json!({"markup": skippable()}))
            )]),
            json!({"targeting": {"video": {"plcmt": {"any": ["instream"]}, "placement": {"none": [5]},
                "startdelay": {"none": ["post-roll"]}, "playbackmethod": {"none": [1]}, "skip": true}}}),
        ),
    ]
}

/// VAST of a film that people can skip.
fn skippable() -> String {
    vast("4.0", "video/mp4").replace("<Linear>", "<Linear skipoffset=\"00:00:05\">")
}

/// A change that a request of an exchange could have: a place and what stands there.
fn changes() -> Vec<(&'static [&'static str], Value)> {
    let top = |name: &'static [&'static str], values: &[Value]| {
        values.iter().map(|value| (name, value.clone())).collect::<Vec<_>>()
    };
    [
        top(&["cur"], &[json!(["EUR"]), json!(["GBP", "EUR"]), json!(["usd"]), json!(["JPY"]), json!("EUR")]),
        top(&["at"], &[json!(1), json!(2), json!(3), json!(501), json!("2")]),
        top(&["bcat"], &[json!(["IAB7"]), json!(["IAB7-39", "IAB1"]), json!(["IAB3"]), json!(["IAB70"]), json!([3]),
            json!(["307"]), json!(["286", "483"]), json!([52]), json!(["483"])]),
        top(&["acat"], &[json!(["IAB7"]), json!(["IAB3"]), json!(["IAB1"]), json!(["287"]), json!(["52", "307"])]),
        top(&["cattax"], &[json!(1), json!(2), json!(5), json!("6"), json!(7)]),
        top(&["badv"], &[json!(["brand.example"]), json!(["https://Other.example/x"]), json!(["*.film.example"]), json!(["example"]), json!([" apps.example "])]),
        top(&["bapp"], &[json!(["com.brand"]), json!("com.brand"), json!([1])]),
        top(&["wlang"], &[json!(["de"]), json!(["en", "fr"])]),
        top(&["wlangb"], &[json!(["en-GB"]), json!(["de-AT"])]),
        top(&["wseat"], &[json!(["s0"]), json!(["s1", "s2"]), json!(["other"])]),
        top(&["bseat"], &[json!(["s0", "s1"]), json!(["s2"])]),
        top(&["site"], &[json!({"domain": "m.bad.example"}), json!({"page": "https://bad.example:443/a"}), json!({"page": "https://good.example"}),
            json!({"domain": "good.example", "cat": ["307"], "cattax": 2}), json!({"domain": "good.example", "cat": ["483"], "cattax": 6}),
            json!({"domain": "good.example", "pagecat": ["IAB7-39"]}), json!({"domain": "good.example", "cat": ["307"], "cattax": 7})]),
        top(&["imp", "secure"], &[json!(1), json!("1"), json!(0)]),
        top(&["imp", "instl"], &[json!(1)]),
        top(&["imp", "exp"], &[json!(5), json!(100_000)]),
        top(&["imp", "bidfloor"], &[json!(7.5), json!("8"), json!(8.999_999_9), json!(100), json!(-1)]),
        top(&["imp", "bidfloorcur"], &[json!("EUR"), json!("GBP"), json!("JPY"), json!("USD")]),
        top(&["imp", "pmp"], &[
            json!({"private_auction": 1, "deals": [{"id": "d1", "bidfloor": 3, "bidfloorcur": "EUR"}]}),
            json!({"deals": [{"id": "d2", "bidfloor": 3, "at": 3}]}),
            json!({"private_auction": 1, "deals": [{"id": "none"}]}),
            json!({"deals": [{"id": "d1", "wseat": ["s2"], "wadomain": ["brand.example"]}, {"id": "d2", "wseat": ["s1"]}]}),
        ]),
        top(&["imp", "banner"], &[
            json!({"format": [{"w": 728, "h": 90}, {"w": 300, "h": 600}]}), json!({"w": 300, "h": 250, "battr": [7]}),
            json!({"format": [{"wratio": 6, "hratio": 5, "wmin": 200}]}), json!({}), json!({"w": 300, "h": -1}),
            json!({"w": 320, "h": 480, "battr": "3"}),
        ]),
        top(&["imp", "video"], &[
            json!({"mimes": ["video/mp4"], "maxduration": 20, "protocols": [7, 8]}), json!({"mimes": ["video/webm"]}),
            json!({"mimes": ["video/mp4", "VIDEO/WEBM"], "minduration": 16, "maxduration": 0, "protocols": [2]}),
            json!({"mimes": ["video/mp4"], "rqddurs": [15, 60], "slotinpod": 1}), json!({"linearity": 2}),
            json!({"mimes": ["video/mp4", "video/webm"], "poddur": 60, "maxseq": 4, "podid": "p"}),
            json!({"poddur": 45}), json!({"poddur": 44, "slotinpod": 1}), json!({"poddur": 90, "maxseq": 1}), json!({"poddur": 14}),
            json!({"poddur": 90, "maxseq": 9, "mincpmpersec": 0.29}), json!({"poddur": 0, "maxseq": 0}),
            json!({"plcmt": 1, "skip": 1}), json!({"plcmt": 1, "skip": true, "battr": [16]}), json!({"plcmt": 2, "skip": 1}),
            json!({"plcmt": "1", "skip": 1, "startdelay": -2}), json!({"plcmt": 1, "skip": 1, "placement": 5, "startdelay": 7}),
            json!({"plcmt": 1, "skip": 1, "playbackmethod": [6, 1]}), json!({"plcmt": 1, "skip": 0}),
            json!({"mincpmpersec": 0.5}), json!({"mincpmpersec": 0.7, "battr": [3]}),
            json!({"durfloors": [{"mindur": 1, "maxdur": 20, "bidfloor": 8.5}, {"mindur": 21, "bidfloor": 50}]}),
        ]),
        top(&["imp", "audio"], &[json!({"mimes": ["audio/mp4"], "maxduration": 30}), json!({"maxduration": 29}), json!({"poddur": 30}), json!({"poddur": 90})]),
        top(&["imp", "native"], &[
            json!({"request": r#"{"assets":[{"id":3,"required":1,"title":{"len":90}}]}"#}),
            json!({"request": r#"{"native":{"assets":[{"id":4,"required":1,"img":{"type":3,"wmin":300,"hmin":200}},{"id":5,"data":{"type":2}}]}}"#}),
            json!({"request": r#"{"assets":[{"id":6,"required":1,"video":{"mimes":["video/mp4"]}}]}"#}), json!({}),
        ]),
    ]
    .concat()
}

/// Our own samples, and the real bodies where there are any.
fn bodies() -> Vec<Value> {
    let own =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proof/hammer/samples/openrtb.jsonl");
    let mut files = vec![own];
    match std::env::var_os("CORPUS") {
        Some(folder) => files.push(PathBuf::from(folder).join("openrtb/bodies.jsonl")),
        None => println!("skipped: CORPUS is not set, so only our own samples are used"),
    }
    let read = |file: &PathBuf| std::fs::read_to_string(file).unwrap();
    let text: String = files.iter().map(read).collect();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// One to four changes; what concerns an impression, in one of them.
fn mutated(body: &Value, changes: &[(&[&str], Value)], numbers: &mut SplitMix64) -> Value {
    let mut body = body.clone();
    let mut below = |end: usize| usize::try_from(numbers.below(end as u64)).unwrap();
    for _ in 0..=below(4) {
        let (path, value) = &changes[below(changes.len())];
        if let [name] = path {
            body[name] = value.clone();
        } else if let Some(imps) = body["imp"].as_array_mut().filter(|imps| !imps.is_empty()) {
            let at = below(imps.len());
            if imps[at].is_object() {
                imps[at][path[1]] = value.clone();
            }
        }
    }
    body["tmax"] = json!(30_000);
    body
}

struct Played {
    bids: usize,
    answers: usize,
    faults: Vec<String>,
}

/// Sends requests and has all answers judged.
fn play(http: &mut Http, judge: &Judge<'_>, requests: &[Value]) -> Played {
    let mut played = Played { bids: 0, answers: 0, faults: Vec::new() };
    for piece in requests.chunks(PIECE) {
        let bytes = piece.iter().map(|body| post(BID_PATH, "", body.to_string().as_bytes()));
        http.send(&bytes.collect::<Vec<_>>().concat());
        for request in piece {
            let answer = http.receive();
            assert!(matches!(answer.status, 200 | 204 | 400), "{} to {request}", answer.status);
            if answer.status != 200 {
                continue;
            }
            played.answers += 1;
            played.bids += answer.bids().len();
            let faults = judge.faults(request, &answer.json());
            if !faults.is_empty() {
                played.faults.push(format!("{faults:?}: {} to {request}", answer.json()));
            }
        }
    }
    played
}

fn start(campaigns: &[Value], public_url: &str) -> Node {
    let node = patient(campaigns)
        .with("openrtb.rates", "EUR=1.1,GBP=1.25")
        .with("openrtb.public_url", public_url)
        .start();
    let mut http = Http::to(&node);
    // Each of them has money where it alone may bid.
    let video = json!({"banner": null, "video": {"mimes": ["video/mp4"]}});
    wait_for("money", || {
        let video = http.bids(&request("money", json!({"imp": [imp("1", video.clone())]})));
        let banner = http.bids(&request("money", json!({"wseat": ["s2"]})));
        !video.is_empty() && !banner.is_empty()
    });
    node
}

const RATES: &[(&str, f64)] = &[("EUR", 1.1), ("GBP", 1.25)];

#[test]
fn no_answer_to_a_real_or_changed_request_breaks_a_rule() {
    let (campaigns, bodies, changes) = (campaigns(), bodies(), changes());
    let judge = Judge { campaigns: &campaigns, currency: "USD", rates: RATES };
    let mut numbers = SplitMix64::new(11);
    // Half of the changes go to requests that are simple, so that most of them have answers.
    let simple =
        request("simple", json!({"imp": [imp("1", json!({})), imp("2", json!({"secure": 1}))]}));
    for public_url in ["http://win.example", "https://win.example"] {
        let node = start(&campaigns, public_url);
        let mut http = Http::to(&node);
        let real = play(&mut http, &judge, &bodies);
        let made: Vec<Value> = (0..MUTATIONS)
            .map(|n| {
                let of = usize::try_from(numbers.below(bodies.len() as u64)).unwrap();
                mutated(if n % 2 == 0 { &simple } else { &bodies[of] }, &changes, &mut numbers)
            })
            .collect();
        let made = play(&mut http, &judge, &made);
        for (what, played) in [("bodies", &real), ("changed", &made)] {
            println!("{public_url}, {what}: {} answers with {} bids", played.answers, played.bids);
            let faults: Vec<&String> = played.faults.iter().take(10).collect();
            assert!(faults.is_empty(), "{} of {what}: {faults:#?}", played.faults.len());
        }
        assert!(real.bids > 0 && made.answers > MUTATIONS / 10, "too few for a proof");
        // And the check before sending had nothing to do: the auction follows the same rules.
        check_no_violation(&node);
    }
}

/// One impression with these fields.
fn medium(fields: Value) -> Value {
    request("j", json!({"imp": [imp("1", fields)]}))
}

/// The request with other fields of its impression.
fn in_imp(request: &Value, fields: Value) -> Value {
    let mut request = request.clone();
    request["imp"][0] = with(request["imp"][0].clone(), fields);
    request
}

/// Requests for which an answer with a bid of `seat` to the banner is wrong, and what is wrong.
fn wrong_for_a_banner(banner: &Value, seat: &Value) -> Vec<(Value, &'static str)> {
    let of = |fields: Value| with(banner.clone(), fields);
    let imp = |fields: Value| in_imp(banner, fields);
    let no_place = "the impression has no place of this format";
    vec![
        (of(json!({"id": "k"})), "id"),
        (of(json!({"cur": ["EUR"]})), "cur"),
        (of(json!({"wseat": ["x"]})), "seat"),
        (of(json!({"bseat": [seat]})), "seat"),
        (of(json!({"bcat": ["IAB7"]})), "bcat"),
        (of(json!({"acat": ["IAB8"]})), "acat"),
        (of(json!({"bcat": ["IAB8"], "cattax": 7})), "categories of another taxonomy"),
        (of(json!({"bcat": ["287"], "cattax": 2})), "bcat"),
        (of(json!({"acat": ["483"], "cattax": 6})), "acat"),
        (of(json!({"badv": ["https://BRAND.example/"]})), "badv"),
        (of(json!({"wlang": ["de"]})), "wlang"),
        (imp(json!({"id": "2"})), "no such impression"),
        (imp(json!({"bidfloor": 9.1})), "floor"),
        (imp(json!({"bidfloor": 8.2, "bidfloorcur": "EUR"})), "floor"),
        (imp(json!({"bidfloor": 0.1, "bidfloorcur": "JPY"})), "floor"),
        (imp(json!({"pmp": {"private_auction": 1}})), "private auction"),
        (imp(json!({"exp": 4})), "exp"),
        (imp(json!({"banner": {"w": 320, "h": 50}})), "size"),
        (imp(json!({"banner": {"w": 300, "h": 250, "battr": [7]}})), "battr"),
        (imp(json!({"banner": null})), no_place),
    ]
}

/// The same of a video of 15 seconds.
fn wrong_for_a_video(video: &Value) -> Vec<(Value, &'static str)> {
    let player = |fields: Value| in_imp(video, json!({"video": fields}));
    let ranges = json!([{"mindur": 1, "maxdur": 20, "bidfloor": 10}]);
    vec![
        (in_imp(video, json!({"secure": 1})), "secure"),
        (player(json!({"maxduration": 14})), "duration"),
        (player(json!({"rqddurs": [30]})), "duration"),
        (player(json!({"protocols": [2]})), "protocol"),
        (player(json!({"mimes": ["video/webm"]})), "mimes"),
        (player(json!({"linearity": 2})), "linearity"),
        (player(json!({"mincpmpersec": 0.7})), "floor"),
        (player(json!({"durfloors": ranges})), "floor"),
    ]
}

/// The same of a video that people can skip, of a campaign that wants some players only.
fn wrong_for_a_wanted_player(video: &Value) -> Vec<(Value, &'static str)> {
    let player = |fields: Value| {
        let own = json!({"mimes": ["video/mp4"], "plcmt": 1, "skip": 1});
        in_imp(video, json!({"video": with(own, fields)}))
    };
    let unwanted = "a player that the campaign does not want";
    vec![
        (player(json!({"plcmt": 2})), unwanted),
        (player(json!({"plcmt": null})), unwanted),
        (player(json!({"placement": 5})), unwanted),
        (player(json!({"startdelay": -2})), unwanted),
        (player(json!({"playbackmethod": [2, 1]})), unwanted),
        (player(json!({"skip": 0})), unwanted),
        (player(json!({"battr": [16]})), "battr"),
    ]
}

/// An answer with a bid of a campaign, once it has one.
fn answer_of(http: &mut Http, campaign: u64, request: &Value) -> Value {
    let mut found = json!(null);
    wait_for("a bid", || {
        let answer = http.post(BID_PATH, request.to_string().as_bytes());
        let is_there = answer.bids().iter().any(|bid| bid.campaign == campaign);
        if is_there {
            found = answer.json();
        }
        is_there
    });
    found
}

/// A judge that never finds anything proves nothing: an answer that was right is wrong to another request.
#[test]
fn the_judge_finds_what_is_wrong() {
    let campaigns = campaigns();
    let judge = Judge { campaigns: &campaigns, currency: "USD", rates: RATES };
    let node = start(&campaigns, "http://win.example");
    let mut http = Http::to(&node);
    let banner = medium(json!({"exp": 50}));
    let video = medium(json!({"banner": null, "video": {"mimes": ["video/mp4"]}}));
    let instream =
        medium(json!({"banner": null, "video": {"mimes": ["video/mp4"], "plcmt": 1, "skip": 1}}));
    let asks = |assets: &str| json!({"banner": null, "native": {"request": format!("{{\"assets\":[{assets}]}}")}});
    let title = medium(asks(r#"{"id":3,"required":1,"title":{"len":90}}"#));
    let image = medium(asks(r#"{"id":4,"required":1,"img":{}}"#));
    let of_banner = answer_of(&mut http, 1, &banner);
    let cases = [
        (&of_banner, &banner, wrong_for_a_banner(&banner, &of_banner["seatbid"][0]["seat"])),
        (&answer_of(&mut http, 4, &video), &video, wrong_for_a_video(&video)),
        (&answer_of(&mut http, 10, &instream), &instream, wrong_for_a_wanted_player(&instream)),
        (&answer_of(&mut http, 7, &title), &title, vec![(image, "native")]),
    ];
    for (answer, right, wrong) in cases {
        assert_eq!(judge.faults(right, answer), [""; 0]);
        for (request, fault) in wrong {
            let faults = judge.faults(&request, answer);
            assert!(faults.iter().any(|found| found == fault), "{fault} in {faults:?}: {request}");
        }
    }
    let mut doubled = of_banner.clone();
    let bid = doubled["seatbid"][0]["bid"][0].clone();
    doubled["seatbid"][0]["bid"].as_array_mut().unwrap().push(bid);
    let faults = judge.faults(&banner, &doubled);
    assert_eq!(faults, ["two bids of one id", "two bids for one impression"]);
}

#[test]
fn the_judge_knows_what_a_pod_takes() {
    let campaigns = campaigns();
    let judge = Judge { campaigns: &campaigns, currency: "USD", rates: RATES };
    let node = start(&campaigns, "http://win.example");
    let mut http = Http::to(&node);
    let pod = |video: Value| medium(json!({"banner": null, "video": video}));
    let whole = pod(json!({"poddur": 45, "maxseq": 2}));
    let mut answer = json!(null);
    wait_for("two ads", || {
        answer = http.post(BID_PATH, whole.to_string().as_bytes()).json();
        let seats = answer["seatbid"].as_array().unwrap();
        seats.iter().flat_map(|seat| seat["bid"].as_array().unwrap()).count() == 2
    });
    assert_eq!(judge.faults(&whole, &answer), [""; 0]);
    for (video, fault) in [
        (json!({"poddur": 44}), "poddur"),
        (json!({"poddur": 45, "maxseq": 1}), "maxseq"),
        (json!({}), "two bids for one impression"),
    ] {
        let faults = judge.faults(&pod(video), &answer);
        assert!(faults.iter().any(|found| found == fault), "{fault} in {faults:?}");
    }
    // Another bid of a campaign that is there.
    let mut twice = answer.clone();
    let mut bid = twice["seatbid"][0]["bid"][0].clone();
    bid["id"] = json!("another");
    twice["seatbid"][0]["bid"].as_array_mut().unwrap().push(bid);
    let faults = judge.faults(&pod(json!({"poddur": 90})), &twice);
    assert_eq!(faults, ["one buyer twice in a pod"]);
}
