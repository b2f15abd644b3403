//! Field by field: what is read, of 2.6 and of 2.5, and what cannot be misread.

use openrtb::{
    BadRequest, BidRequest, Eid, Mtype, PlaceKind, ReadLimits, Reader, Segment, UNREACHABLE_MICROS,
};

fn with<R>(
    body: &str,
    limits: &ReadLimits,
    check: impl FnOnce(&BidRequest<'_>) -> R,
) -> Result<R, BadRequest> {
    Reader::default().read(&mut body.as_bytes().to_vec(), limits, check)
}

fn read<R>(body: &str, check: impl FnOnce(&BidRequest<'_>) -> R) -> R {
    with(body, &ReadLimits::default(), check).unwrap()
}

fn refused(body: &str) -> BadRequest {
    with(body, &ReadLimits::default(), |_| ()).unwrap_err()
}

/// A request with one impression that has these fields.
fn imp(fields: &str) -> String {
    format!(r#"{{"id":"r","imp":[{{"id":"1",{fields}}}]}}"#)
}

/// A request with these fields beside one impression.
fn top(fields: &str) -> String {
    format!(r#"{{{fields},"id":"r","imp":[{{"id":"1"}}]}}"#)
}

#[test]
fn everything_of_the_request_itself() {
    read(include_str!("everything.json"), |request| {
        let top = &request.top;
        assert_eq!((request.id, top.auction_type, top.tmax_ms), ("r-1", Some(2), Some(120)));
        assert!(top.test && top.all_imps);
        assert!(top.currencies.iter().eq(["USD", "EUR"]));
        assert!(top.seats_allowed.iter().eq(["s1"]) && top.seats_blocked.iter().eq(["s2"]));
        assert!(top.categories_blocked.contains("IAB26") && top.categories_allowed.is_empty());
        assert_eq!(top.category_taxonomy, Some(1));
        assert!(top.advertisers_blocked.contains("bad.example"));
        assert!(top.apps_blocked.contains("com.bad") && top.languages_allowed.contains("en"));

        assert!(format!("{request:?}").contains("bad.example"));
    });
}

#[test]
fn everything_of_place_and_device() {
    read(include_str!("everything.json"), |request| {
        let place = &request.top.place;
        assert_eq!(
            (place.kind, place.id, place.domain),
            (PlaceKind::Site, Some("s"), Some("a.example"))
        );
        assert!(place.categories.contains("IAB1") && place.section_categories.contains("IAB2"));
        assert!(
            place.page_categories.contains("IAB3") && place.content_categories.contains("IAB4")
        );
        assert_eq!((place.publisher_id, place.publisher_domain), (Some("p"), Some("pub.example")));
        assert_eq!(place.content_language, Some("de"));

        let device = &request.top.device;
        assert_eq!(
            (device.device_type, device.os, device.language),
            (Some(4), Some("iOS"), Some("en"))
        );
        assert_eq!(
            (device.country, device.region, device.geo_type),
            (Some("USA"), Some("CA"), Some(2))
        );
        assert_eq!(device.ifa, Some("AAAA"));
        assert!(device.has_ip && device.limits_tracking && !device.do_not_track);
    });
}

#[test]
fn everything_of_user_and_source() {
    read(include_str!("everything.json"), |request| {
        let top = &request.top;
        let user = &top.user;
        assert_eq!((user.id, user.buyer_uid, user.consent), (Some("u"), Some("bu"), Some("tcf")));
        let eids = [Eid { source: "id.example", id: "e1" }, Eid { source: "id.example", id: "e2" }];
        assert!(user.eids.iter().eq(eids));
        let segments = [("d1", "a"), ("d1", "b"), ("named", "c")];
        let segments = segments.map(|(data, id)| Segment { data: Some(data), id });
        assert!(user.segments.iter().eq(segments));

        let regs = &top.regs;
        assert_eq!((regs.coppa, regs.gdpr, regs.us_privacy), (false, Some(true), Some("1YNN")));
        assert_eq!(regs.gpp, Some("DBAA"));
        assert!(regs.gpp_sections.contains(7) && !regs.gpp_sections.contains(6));
        assert_eq!(top.source.transaction_id, Some("t"));
        assert_eq!(top.source.chain_complete, Some(true));
        let node = top.source.chain.iter().next().unwrap();
        assert_eq!((node.asi, node.sid, node.pays), (Some("x.example"), Some("7"), true));
    });
}

#[test]
fn everything_of_impressions() {
    read(include_str!("everything.json"), |request| {
        let [first, second] = request.imps else { panic!("two impressions") };
        let banner = first.banner.unwrap();
        assert_eq!((banner.width, banner.height), (Some(300), Some(250)));
        let formats = request.formats(&banner);
        assert_eq!(formats.iter().map(|f| f.width).collect::<Vec<_>>(), [Some(300), Some(728)]);
        assert!(banner.attributes_blocked.contains(9) && banner.apis.contains(5));
        assert!(banner.mimes.contains("text/html"));
        assert_eq!((first.floor.micros, first.floor.currency.as_str()), (1_100_000, "EUR"));
        assert!(first.secure && first.interstitial && first.rewarded && first.private_auction);
        assert_eq!(
            (first.tag_id, first.stitched, first.expires_s),
            (Some("tag"), Some(1), Some(300))
        );
        assert_eq!(
            (first.multiplier_micros, first.shown_at_ms),
            (14_200_000, Some(1_767_268_800_000))
        );
        assert_eq!(first.native.unwrap().request, Some("{}"));
        let [deal] = request.deals(first) else { panic!("one deal") };
        assert_eq!((deal.id, deal.auction_type, deal.guaranteed), ("d-1", Some(3), true));
        assert_eq!((deal.floor.micros, deal.floor.currency.as_str()), (2_000_000, "USD"));
        assert!(
            deal.seats_allowed.contains("s1") && deal.advertisers_allowed.contains("shop.example")
        );

        let video = second.video.unwrap();
        assert_eq!((video.duration_min_s, video.duration_max_s), (Some(5), Some(30)));
        assert!(video.durations_s.iter().eq([15, 30]) && video.protocols.contains(7));
        assert_eq!(
            (video.pod_id, video.pod_sequence, video.slot_in_pod),
            (Some("pod"), Some(1), Some(-1))
        );
        assert_eq!((video.pod_duration_s, video.pod_ads_max), (Some(60), Some(4)));
        assert_eq!((video.width, video.height), (Some(640), Some(480)));
        assert!(second.audio.unwrap().mimes.contains("audio/mp4"));
        assert!(request.deals(second).is_empty());
    });
}

#[test]
fn places_of_2_5_are_read_and_those_of_2_6_come_first() {
    let body = top(r#""regs":{"ext":{"gdpr":1,"us_privacy":"1---","gpp":"G","gpp_sid":[2]}},
           "user":{"ext":{"consent":"old","eids":[{"source":"s","uids":[{"id":"i"}]}]}},
           "source":{"ext":{"schain":{"complete":1,"nodes":[{"asi":"a"}]}}}"#);
    read(&body, |request| {
        let top = &request.top;
        assert_eq!(
            (top.regs.gdpr, top.regs.us_privacy, top.regs.gpp),
            (Some(true), Some("1---"), Some("G"))
        );
        assert!(top.regs.gpp_sections.contains(2));
        assert_eq!(top.user.consent, Some("old"));
        assert_eq!(top.user.eids.iter().count(), 1);
        assert_eq!(top.source.chain_complete, Some(true));
    });
    let body = top(
        r#""regs":{"gdpr":0,"ext":{"gdpr":1}},"user":{"ext":{"consent":"old"},"consent":"new"},
           "source":{"schain":{"complete":0},"ext":{"schain":{"complete":1}}}"#,
    );
    read(&body, |request| {
        assert_eq!(request.top.regs.gdpr, Some(false));
        assert_eq!(request.top.user.consent, Some("new"));
        assert_eq!(request.top.source.chain_complete, Some(false));
    });
}

#[test]
fn what_is_absent_has_the_specifications_default() {
    read(r#"{"id":"r","imp":[{"id":"1"}]}"#, |request| {
        let (top, imp) = (&request.top, &request.imps[0]);
        assert_eq!((top.auction_type, top.tmax_ms, top.test), (None, None, false));
        assert!(top.currencies.is_empty() && top.seats_allowed.is_empty());
        assert_eq!(top.place.kind, PlaceKind::Unknown);
        assert_eq!((top.regs.gdpr, top.source.chain_complete), (None, None));
        assert_eq!((imp.floor.micros, imp.floor.currency.as_str()), (0, "USD"));
        assert_eq!(imp.multiplier_micros, 1_000_000);
        assert!(!imp.secure && !imp.private_auction && imp.banner.is_none());
    });
}

#[test]
fn numbers_come_in_many_dresses() {
    let body = top(r#""at":2.0,"tmax":"100","test":"0""#);
    assert!(read(&top(r#""test":3"#), |request| request.top.test), "as a real body has it");
    read(&body, |request| {
        assert_eq!((request.top.auction_type, request.top.tmax_ms), (Some(2), Some(100)));
        assert!(!request.top.test);
    });
    read(&imp(r#""banner":{"w":"300","h":250.0},"secure":true,"instl":"1""#), |request| {
        let imp = &request.imps[0];
        assert_eq!(imp.banner.unwrap().width, Some(300));
        assert_eq!(imp.banner.unwrap().height, Some(250));
        assert!(imp.secure && imp.interstitial);
    });
    assert_eq!(read(&top(r#""tmax":-5"#), |request| request.top.tmax_ms), Some(0));
    assert_eq!(read(&top(r#""tmax":99999999999"#), |request| request.top.tmax_ms), Some(u32::MAX));
    assert_eq!(read(&top(r#""tmax":"soon""#), |request| request.top.tmax_ms), None);
    assert!(read(&top(r#""cur":"EUR""#), |request| request.top.currencies.contains("EUR")));
}

#[test]
fn floors_round_up_and_never_vanish() {
    let micros = |fields: &str| read(&imp(fields), |request| request.imps[0].floor.micros);
    for (fields, expected) in [
        (r#""bidfloor":0.5"#, 500_000),
        (r#""bidfloor":1.1"#, 1_100_000),
        (r#""bidfloor":"1.1""#, 1_100_000),
        (r#""bidfloor":1"#, 1_000_000),
        (r#""bidfloor":0.00000001"#, 1),
        (r#""bidfloor":-1"#, 0),
        (r#""bidfloor":null"#, 0),
        (r#""bidfloor":"""#, 0),
        (r#""bidfloor":1000000"#, UNREACHABLE_MICROS),
        (r#""bidfloor":1e300"#, UNREACHABLE_MICROS),
        (r#""bidfloor":"high""#, UNREACHABLE_MICROS),
        (r#""bidfloor":[1]"#, UNREACHABLE_MICROS),
        (r#""bidfloor":1,"bidfloorcur":"QQQ""#, UNREACHABLE_MICROS),
        (r#""bidfloor":0,"bidfloorcur":"QQQ""#, 0),
        (r#""bidfloor":1,"bidfloorcur":"eur""#, 1_000_000),
    ] {
        assert_eq!(micros(fields), expected, "{fields}");
    }
}

#[test]
fn without_a_usable_multiplier_no_price_is_enough() {
    for multiplier in ["-1", "0", "\"many\"", "1e300"] {
        let fields = format!(
            r#""qty":{{"multiplier":{multiplier}}},"pmp":{{"deals":[{{"id":"d","bidfloor":1}}]}}"#
        );
        read(&imp(&fields), |request| {
            let imp = &request.imps[0];
            for deal in [None, request.deals(imp).first()] {
                let floor = request.floor(imp, deal, Mtype::Banner, None);
                assert_eq!(floor.micros, UNREACHABLE_MICROS, "{fields}");
            }
        });
    }
}

#[test]
fn the_floor_is_the_deals_then_the_durations_then_the_impressions() {
    let body = imp(r#""bidfloor":1,"bidfloorcur":"EUR","banner":{},
           "video":{"durfloors":[{"mindur":1,"maxdur":15,"bidfloor":2},{"mindur":16,"bidfloor":4}]},
           "audio":{"mincpmpersec":0.1},
           "pmp":{"deals":[{"id":"a","bidfloor":9},{"id":"b","mincpmpersec":0.5},{"bidfloor":1}]}"#);
    read(&body, |request| {
        let imp = &request.imps[0];
        let deals = request.deals(imp);
        assert_eq!(deals.len(), 2, "a deal without an id is left out");
        let floor = |deal, mtype, duration| {
            let floor = request.floor(imp, deal, mtype, duration);
            (floor.micros, floor.currency.as_str())
        };
        assert_eq!(floor(None, Mtype::Banner, None), (1_000_000, "EUR"));
        assert_eq!(floor(None, Mtype::Native, Some(15)), (1_000_000, "EUR"));
        assert_eq!(floor(None, Mtype::Video, Some(15)), (2_000_000, "EUR"));
        assert_eq!(floor(None, Mtype::Video, Some(60)), (4_000_000, "EUR"));
        assert_eq!(floor(None, Mtype::Video, Some(0)), (1_000_000, "EUR"));
        assert_eq!(floor(None, Mtype::Video, None), (4_000_000, "EUR"));
        assert_eq!(floor(None, Mtype::Audio, Some(30)), (3_000_000, "EUR"));
        assert_eq!(floor(None, Mtype::Audio, None), (UNREACHABLE_MICROS, "EUR"));
        assert_eq!(floor(deals.first(), Mtype::Video, Some(15)), (9_000_000, "USD"));
        assert_eq!(floor(deals.get(1), Mtype::Video, Some(15)), (7_500_000, "USD"));
        assert_eq!(floor(deals.get(1), Mtype::Banner, None), (0, "USD"));
    });
}

/// It must not count as one in dollars, which may be far below it.
#[test]
fn a_floor_by_duration_in_no_currency_is_out_of_reach() {
    let none = r#""bidfloorcur":"QQQ""#;
    for (timed, is_met) in [
        (r#""durfloors":[{"mindur":1,"maxdur":60,"bidfloor":2}]"#, false),
        (r#""mincpmpersec":0.1"#, false),
        (r#""mincpmpersec":0,"durfloors":[{"bidfloor":0}]"#, true),
    ] {
        let fields = format!(
            r#"{none},"video":{{{timed}}},"banner":{{}},"pmp":{{"deals":[{{"id":"d",{none},{timed}}}]}}"#
        );
        let expected = if is_met { 0 } else { UNREACHABLE_MICROS };
        read(&imp(&fields), |request| {
            let imp = &request.imps[0];
            for deal in [None, request.deals(imp).first()] {
                for (mtype, duration) in
                    [(Mtype::Banner, None), (Mtype::Video, Some(15)), (Mtype::Video, None)]
                {
                    let floor = request.floor(imp, deal, mtype, duration);
                    assert_eq!(floor.micros, expected, "{fields} {mtype:?} {duration:?}");
                }
            }
        });
    }
}

/// Whoever sends 0 as "none" is not offered everything below its floor.
#[test]
fn a_floor_by_duration_of_nothing_leaves_the_impressions() {
    for timed in [
        r#""mincpmpersec":0"#,
        r#""mincpmpersec":-1"#,
        r#""mincpmpersec":"0""#,
        r#""durfloors":[{"mindur":1,"maxdur":60,"bidfloor":0}]"#,
        r#""durfloors":[{"mindur":1,"maxdur":60,"bidfloor":-3},{"mindur":1,"maxdur":60}]"#,
    ] {
        let body = imp(&format!(
            r#""bidfloor":50,"video":{{{timed}}},"pmp":{{"deals":[{{"id":"a","bidfloor":9,{timed}}}]}}"#
        ));
        read(&body, |request| {
            let imp = &request.imps[0];
            let deals = request.deals(imp);
            for duration in [Some(15), None] {
                let floor = |deal| request.floor(imp, deal, Mtype::Video, duration).micros;
                assert_eq!((floor(None), floor(deals.first())), (50_000_000, 9_000_000), "{timed}");
            }
        });
    }
}

#[test]
fn what_is_no_bid_request() {
    for (body, expected) in [
        ("", BadRequest::Json),
        ("{", BadRequest::Json),
        ("{}x", BadRequest::Json),
        (r#"{"id":"r","imp":[{"id":"1","bidfloor":NaN}]}"#, BadRequest::Json),
        (r#"{"id":"r","imp":[{"id":"1","bidfloor":1e999}]}"#, BadRequest::Json),
        ("[]", BadRequest::NotAnObject),
        ("null", BadRequest::NotAnObject),
        ("{}", BadRequest::Id),
        (r#"{"id":1.5,"imp":[{"id":"1"}]}"#, BadRequest::Id),
        (r#"{"id":true,"imp":[{"id":"1"}]}"#, BadRequest::Id),
        (r#"{"id":"","imp":[{"id":"1"}]}"#, BadRequest::Id),
        (r#"{"id":"r"}"#, BadRequest::Imps),
        (r#"{"id":"r","imp":[]}"#, BadRequest::Imps),
        (r#"{"id":"r","imp":{}}"#, BadRequest::ImpId),
        (r#"{"id":"r","imp":7}"#, BadRequest::Imps),
        (r#"{"id":"r","imp":[1]}"#, BadRequest::Imps),
        (r#"{"id":"r","imp":[{}]}"#, BadRequest::ImpId),
        (r#"{"id":"r","imp":[{"id":[1]}]}"#, BadRequest::ImpId),
        ("\u{feff}", BadRequest::Json),
        ("\u{feff}\u{feff}{}", BadRequest::Json),
    ] {
        assert_eq!(refused(body), expected, "{body}");
    }
}

/// Finding: half of one exchange's requests say categories as numbers, and were answered 400.
#[test]
fn numbers_in_the_place_of_texts_are_their_digits() {
    let body = r#"{"id":17,"bcat":[24,"IAB25",-1,null],"wseat":7,"bapp":[18446744073709551615],"cur":[840],
        "imp":[{"id":1,"tagid":5,"banner":{"w":300,"h":250,"battr":[1]},
            "pmp":{"deals":[{"id":99,"wseat":[7]},{"id":"d"}]}},
            {"id":2,"video":{"podid":3}}],
        "site":{"id":8,"publisher":{"id":9}},"user":{"id":10,"buyeruid":11},"source":{"tid":12}}"#;
    read(body, |request| {
        let top = &request.top;
        assert_eq!((request.id, request.imps[0].id, request.imps[1].id), ("17", "1", "2"));
        assert!(top.categories_blocked.iter().eq(["24", "IAB25", "-1"]));
        assert!(top.seats_allowed.iter().eq(["7"]) && top.currencies.iter().eq(["840"]));
        assert!(top.apps_blocked.iter().eq(["18446744073709551615"]));
        let deals = request.deals(&request.imps[0]);
        assert_eq!((deals.len(), deals[0].id, deals[1].id), (2, "99", "d"));
        assert!(deals[0].seats_allowed.iter().eq(["7"]));
        assert_eq!(request.imps[0].banner.unwrap().width, Some(300), "a number stays a number");
        assert_eq!(request.imps[0].tag_id, Some("5"));
        assert_eq!(request.imps[1].video.unwrap().pod_id, Some("3"));
        assert_eq!((top.place.id, top.place.publisher_id), (Some("8"), Some("9")));
        assert_eq!((top.user.id, top.user.buyer_uid), (Some("10"), Some("11")));
        assert_eq!(top.source.transaction_id, Some("12"));
    });
    let app = top(r#""app":{"bundle":544007664}"#);
    assert_eq!(
        read(&app, |request| request.top.place.bundle.map(String::from)).unwrap(),
        "544007664"
    );
}

#[test]
fn a_mended_request_leaves_nothing_to_the_next() {
    let (mut reader, limits) = (Reader::default(), ReadLimits::default());
    for (body, blocked) in [
        (r#"{"id":1,"bcat":[1,22,333],"imp":[{"id":1},{"id":2}]}"#, 3),
        (r#"{"id":"r","imp":[{"id":"1"}]}"#, 0),
        (r#"{"id":12,"imp":[{"id":3}]}"#, 0),
    ] {
        let read = |request: &BidRequest<'_>| {
            (request.imps.len(), request.top.categories_blocked.iter().count())
        };
        let (imps, found) = reader.read(&mut body.as_bytes().to_vec(), &limits, read).unwrap();
        assert_eq!((imps, found), (if blocked > 0 { 2 } else { 1 }, blocked), "{body}");
    }
}

#[test]
fn a_byte_order_mark_and_an_impression_without_a_list_are_understood() {
    let body = "\u{feff}{\"id\":\"r\",\"imp\":{\"id\":\"1\"}}";
    assert_eq!(read(body, |request| (request.imps.len(), request.imps[0].id == "1")), (1, true));
}

/// Finding: what stands in `badv` as an address, or with a wildcard, blocked nothing.
#[test]
fn advertisers_are_domains_however_they_are_written() {
    let body = r#"{"id":"r","badv":["http://brand.example/","*.other.example",".third.example","fourth.example/",
        " fifth.example ","sixth.example.",7,"plain.example"],
        "imp":[{"id":"1","pmp":{"deals":[{"id":"d","wadomain":["https://www.brand.example:443/a?b"]}]}}]}"#;
    read(body, |request| {
        let names = ["brand", "other", "third", "fourth", "fifth", "sixth"];
        let expected = names.map(|name| format!("{name}.example"));
        let expected = expected.iter().map(String::as_str).chain(["7", "plain.example"]);
        assert!(request.top.advertisers_blocked.iter().eq(expected), "{request:?}");
        let deal = request.deals(&request.imps[0])[0];
        assert!(deal.advertisers_allowed.iter().eq(["www.brand.example"]));
    });
}

/// Finding: most requests for sites say the page only, and lists of sites did not hold there.
#[test]
fn a_site_without_a_domain_has_that_of_its_page() {
    let domain = |fields: &str| read(&top(fields), |r| r.top.place.domain.map(String::from));
    for (fields, expected) in [
        (r#""site":{"page":"https://m.News.example:443/world?x=1"}"#, Some("m.News.example")),
        (r#""site":{"domain":"","page":"http://news.example"}"#, Some("news.example")),
        (r#""site":{"domain":"a.example","page":"http://b.example/"}"#, Some("a.example")),
        (r#""site":{"domain":"https://a.example/","page":"http://b.example/"}"#, Some("a.example")),
        (r#""site":{"page":"about:blank"}"#, None),
        (r#""site":{"ref":"https://search.example/"}"#, None),
        (r#""site":{"page":["https://a.example/"]}"#, None),
        (r#""app":{"page":"https://a.example/"}"#, None),
    ] {
        assert_eq!(domain(fields).as_deref(), expected, "{fields}");
    }
}

/// Finding: categories of another taxonomy were taken for our own.
#[test]
fn categories_of_a_place_have_a_taxonomy() {
    for (fields, expected) in [
        (r#""site":{"cat":["IAB1"]}"#, vec![("IAB1", None)]),
        (r#""site":{"cat":["483"],"cattax":2}"#, vec![("483", Some(2))]),
        (r#""site":{"cattax":2}"#, vec![]),
        (
            r#""site":{"cat":["IAB1"],"content":{"cat":["483"],"cattax":2}}"#,
            vec![("IAB1", None), ("483", Some(2))],
        ),
        (r#""app":{"cattax":2,"content":{"cat":["IAB1"]}}"#, vec![("IAB1", None)]),
        (
            r#""site":{"pagecat":["1"],"sectioncat":["2"],"cattax":7}"#,
            vec![("2", Some(7)), ("1", Some(7))],
        ),
    ] {
        read(&top(fields), |request| {
            let lists = request.top.place.category_lists().into_iter();
            let found: Vec<_> =
                lists.flat_map(|(list, of)| list.iter().map(move |text| (text, of))).collect();
            assert_eq!(found, expected, "{fields}");
        });
    }
}

/// Finding: `user.geo` was not read.
#[test]
fn a_user_is_at_home_where_the_device_says_nothing() {
    let place = |fields: &str| {
        read(&top(fields), |request| {
            let device = &request.top.device;
            let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
            (text(device.country), text(device.region), device.geo_type)
        })
    };
    let (home, there) = (r#""user":{"geo":{"country":"FRA","region":"IDF","type":3}}"#, "FRA");
    assert_eq!(place(home), (there.into(), "IDF".into(), Some(3)));
    let both = format!(r#"{home},"device":{{"geo":{{"country":"USA"}}}}"#);
    assert_eq!(place(&both), ("USA".into(), "-".into(), None));
    let unknown = format!(r#""device":{{"geo":{{"lat":1.5,"lon":2}}}},{home}"#);
    assert_eq!(place(&unknown).0, there);
    assert_eq!(place(r#""user":{"geo":"FRA"},"device":{"geo":{"region":"CA"}}"#).1, "CA");
}

/// Finding: 0 meant "no end" to one part of Weir and "nothing fits" to another.
#[test]
fn no_longest_duration_has_one_form() {
    for (said, expected) in [("0", None), ("-1", None), ("null", None), ("30", Some(30))] {
        let body = imp(&format!(r#""video":{{"maxduration":{said}}}"#));
        let found = read(&body, |request| request.imps[0].video.unwrap().duration_max_s);
        assert_eq!(found, expected, "{said}");
    }
}

#[test]
fn what_few_ask_of_video_is_found_when_asked() {
    let body = imp(r#""video":{"linearity":1,"placement":"3","plcmt":2.0,"skip":1,"startdelay":-1,
        "playbackmethod":[1,6],"delivery":2,"protocol":3},"audio":{"protocol":9,"protocols":[10]}"#);
    read(&body, |request| {
        let video = request.imps[0].video.unwrap();
        assert_eq!(
            (video.linearity(), video.placement(), video.plcmt()),
            (Some(1), Some(3), Some(2))
        );
        assert_eq!((video.skippable(), video.start_delay_s()), (Some(true), Some(-1)));
        assert!(video.playback_methods().iter().eq([1, 6]) && video.deliveries().iter().eq([2]));
        let audio = request.imps[0].audio.unwrap();
        assert!(video.protocols.iter().eq([3]) && audio.protocols.iter().eq([10]));
        assert_eq!((audio.linearity(), audio.skippable()), (None, None));
    });
}

#[test]
fn what_restricts_us_is_understood_or_refused() {
    for (field, value) in [
        ("bcat", "[1.5]"),
        ("bcat", "[1,true]"),
        ("badv", "[{}]"),
        ("wseat", "{}"),
        ("bseat", "[[]]"),
        ("cur", "[[\"USD\"]]"),
        ("test", "\"maybe\""),
        ("test", "0.5"),
    ] {
        let body = top(&format!(r#""{field}":{value}"#));
        assert_eq!(refused(&body), BadRequest::Field { field }, "{body}");
    }
    for (fields, field) in [
        (r#""banner":{"battr":["x"]}"#, "banner.battr"),
        (r#""video":{"battr":[{}]}"#, "video.battr"),
        (r#""secure":"yes""#, "imp.secure"),
        (r#""pmp":{"private_auction":"x"}"#, "pmp.private_auction"),
        (r#""pmp":{"deals":[{"id":"d","wseat":[1.5]}]}"#, "deal.wseat"),
        (r#""pmp":{"deals":[{"id":"d","wadomain":[{}]}]}"#, "deal.wadomain"),
    ] {
        assert_eq!(refused(&imp(fields)), BadRequest::Field { field }, "{fields}");
    }
    assert_eq!(refused(&top(r#""regs":{"gdpr":[]}"#)), BadRequest::Field { field: "regs.gdpr" });
    let many = format!(r#""badv":[{}"a"]"#, r#""a","#.repeat(10_000));
    assert_eq!(refused(&top(&many)), BadRequest::ListTooLong { field: "badv" });
    // What only describes is absent instead.
    let body = top(
        r#""site":{"id":[7],"cat":{"a":1},"publisher":[]},"device":"phone","user":[],"allimps":{}"#,
    );
    read(&body, |request| {
        assert_eq!((request.top.place.kind, request.top.place.id), (PlaceKind::Site, None));
        assert!(request.top.place.categories.is_empty() && request.top.device.os.is_none());
    });
}

#[test]
fn of_equal_keys_the_last_counts() {
    let body = r#"{"id":"a","imp":[{"id":"1"},{"id":"2"}],"bcat":["x"],"id":"b","bcat":["y"],
        "imp":[{"id":"3","bidfloor":9,"bidfloor":1,"pmp":{"deals":[{"id":"d"}]},"pmp":{}}]}"#;
    read(body, |request| {
        assert_eq!((request.id, request.imps.len(), request.imps[0].id), ("b", 1, "3"));
        assert_eq!(request.imps[0].floor.micros, 1_000_000);
        assert!(request.deals(&request.imps[0]).is_empty());
        assert!(request.top.categories_blocked.iter().eq(["y"]));
    });
}

#[test]
fn too_many_are_left_out_and_too_long_ids_are_not_taken() {
    let limits =
        ReadLimits { imps_max: 2, deals_max: 1, formats_max: 1, id_bytes_max: 3, list_max: 2 };
    let body = r#"{"id":"r","imp":[
        {"id":"1","banner":{"format":[{"w":1,"h":1},{"w":2,"h":2}]},"pmp":{"deals":[{"id":"a"},{"id":"b"}]}},
        {"id":"2","pmp":{"deals":[{"id":"long"}]}},{"id":"3"},{"id":"4"}]}"#;
    with(body, &limits, |request| {
        assert_eq!((request.imps.len(), request.top.imps_left_out), (2, 2));
        assert_eq!(request.formats(&request.imps[0].banner.unwrap()).len(), 1);
        assert_eq!(request.deals(&request.imps[0]).len(), 1);
        assert_eq!(request.deals(&request.imps[1]).len(), 0);
    })
    .unwrap();
    let refused = |body| with(body, &limits, |_| ()).unwrap_err();
    assert_eq!(refused(r#"{"id":"long","imp":[{"id":"1"}]}"#), BadRequest::Id);
    assert_eq!(refused(r#"{"id":"r","imp":[{"id":"long"}]}"#), BadRequest::ImpId);
    let long = BadRequest::ListTooLong { field: "bcat" };
    assert_eq!(refused(r#"{"id":"r","imp":[{"id":"1"}],"bcat":["a","b","c"]}"#), long);
}

#[test]
fn escapes_are_taken_away_in_place() {
    let body = r#"{"id":"a\"b\u00e9","imp":[{"id":"\ud83d\ude00"}]}"#;
    read(body, |request| {
        assert_eq!((request.id, request.imps[0].id), ("a\"b\u{e9}", "\u{1F600}"));
    });
}
