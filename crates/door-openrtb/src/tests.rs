//! From a body of JSON to who would bid: what the door asks of an auction, without money.

use gate_auction::{Choice, Scratch};
use gate_profile::Profile;
use ledger::{Hold, KeyRing};
use money::{Amount, Instant};
use openrtb::{Purposes, ReadLimits, Reader};
use weir_budgets::campaign_index::{self, CampaignIndex, ExchangeTerms};
use weir_config::config::Config;

use super::translate::{Lists, Terms, User};
use super::{NOTE_LEN, Note};

/// A file of campaigns: 1, 2, and so on, each with these fields.
struct Shop {
    config: Config,
    campaigns: CampaignIndex,
}

/// A banner of any size.
const BANNER: &str = r#""creatives":[{"id":"a","format":"banner","sizes":"any","adomain":["brand.example"],"markup":"<b>"}]"#;

impl Shop {
    fn new(config: Config, campaigns: &[String]) -> Shop {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("budgets.jsonl");
        let line = |(id, fields): (usize, &String)| {
            format!("{{\"id\":{id},\"limit\":\"9\",\"bid\":\"2.00\",{fields}}}\n")
        };
        std::fs::write(&path, (1..).zip(campaigns).map(line).collect::<String>()).unwrap();
        let (_, campaigns) =
            campaign_index::read(&path, &ExchangeTerms::of(&config), Instant::from_ms(0)).unwrap();
        Shop { config, campaigns }
    }

    /// Campaigns of one banner that fits all.
    fn of_banners(fields: &[&str]) -> Shop {
        let campaigns: Vec<String> =
            fields.iter().map(|fields| format!("{fields}{BANNER}")).collect();
        Shop::new(Config::default(), &campaigns)
    }

    /// Who would bid for a request with these fields.
    fn choices(&self, fields: &str) -> Vec<Choice> {
        let mut body = format!("{{\"id\":\"r\",\"at\":1,{fields}}}").into_bytes();
        let (terms, profile) = (Terms::new(&self.config), Profile::default());
        let (mut lists, mut scratch, mut choices) =
            (Lists::default(), Scratch::default(), Vec::new());
        let read = Reader::default().read(&mut body, &ReadLimits::default(), |request| {
            let user = User { profile: &profile, privacy: terms.privacy(&request.top) };
            lists.with(request, &self.campaigns, &terms, &user, Instant::from_ms(0), |keys| {
                self.campaigns.index().auction(keys, &mut scratch).fill(&mut (), &mut choices);
            });
        });
        read.unwrap();
        choices
    }

    /// The campaign that would bid for a banner, 0 for none.
    fn bidder(&self, fields: &str) -> u64 {
        let choices = self.choices(&format!(r#""imp":[{{"id":"1","banner":{{}}}}],{fields}"#));
        choices.first().map_or(0, |choice| choice.campaign)
    }
}

#[test]
fn segments_of_a_request_are_used_where_privacy_lets_us() {
    let mut shop = Shop::of_banners(&[r#""targeting":{"segments":{"any":["s"]}},"#]);
    shop.config.openrtb.tcf_vendor = 25;
    let bidder = |shop: &Shop, more: &str| {
        let told = r#""data":[{"segment":[{"id":"s"}]}]"#;
        shop.bidder(&format!(r#""user":{{{told}{more}}}"#))
    };
    // Consent to vendor 25 and all purposes; then without the fourth.
    let all = "CAAAAAAAAAAAAABABAENABEoAP___wAAAAYYAMgAAAIAAAAA";
    let three = "CAAAAAAAAAAAAABABAENABEgAOAAAAAAAAYYAMgAAAIAAAAA";
    let gdpr = r#"},"regs":{"gdpr":1"#;
    assert_eq!(bidder(&shop, ""), 1);
    assert_eq!(bidder(&shop, &format!(r#","consent":"{all}"{gdpr}"#)), 1);
    for forbidden in [
        r#"},"regs":{"coppa":1"#.to_string(),
        r#"},"regs":{"gpc":1"#.to_string(),
        r#"},"regs":{"us_privacy":"1YYN""#.to_string(),
        r#"},"device":{"lmt":1"#.to_string(),
        gdpr.to_string(),
        format!(r#","consent":"x"{gdpr}"#),
        format!(r#","consent":"{three}"{gdpr}"#),
    ] {
        assert_eq!(bidder(&shop, &forbidden), 0, "{forbidden}");
    }
    // Where we say that we need the first three only, these are enough; the fourth alone is not.
    shop.config.openrtb.tcf_purposes_segments = Purposes::of([1, 2, 3]).unwrap();
    assert_eq!(bidder(&shop, &format!(r#","consent":"{three}"{gdpr}"#)), 1);
    shop.config.openrtb.tcf_purposes_segments = Purposes::of([3, 4]).unwrap();
    assert_eq!(bidder(&shop, &format!(r#","consent":"{three}"{gdpr}"#)), 0);
    assert_eq!(bidder(&shop, &format!(r#","consent":"{all}"{gdpr}"#)), 1);
}

#[test]
fn a_list_of_sites_names_what_is_below_them() {
    let blocks = r#""targeting":{"domains":{"none":["bad.example"]}},"#;
    let wants = r#""targeting":{"domains":{"any":["bad.example"]}},"#;
    let shop = Shop::of_banners(&[blocks, wants]);
    let site = |fields: &str| shop.bidder(&format!(r#""site":{{{fields}}}"#));
    assert_eq!(site(r#""domain":"good.example""#), 1);
    assert_eq!(site(r#""page":"https://good.example/""#), 1);
    for bad in [
        r#""domain":"bad.example""#,
        r#""domain":"WWW.Bad.example.""#,
        r#""domain":"m.bad.example""#,
        r#""page":"https://bad.example/a?b""#,
        r#""page":"https://a.m.bad.example:443""#,
        r#""publisher":{"domain":"bad.example"}"#,
    ] {
        assert_eq!(site(bad), 2, "{bad}");
    }
    assert_eq!(site(r#""domain":"notbad.example""#), 1);
    // Who does not say which place it is may be any; a screen is no site.
    for unknown in [r#""id":"s""#, r#""page":"about:blank""#] {
        assert_eq!(site(unknown), 0, "{unknown}");
    }
    assert_eq!(shop.bidder(r#""app":{"id":"a"}"#), 0);
    assert_eq!(shop.bidder(r#""app":{"bundle":"com.app"}"#), 1);
    assert_eq!(shop.bidder(r#""dooh":{"id":"d"}"#), 1);
}

#[test]
fn categories_of_another_taxonomy_are_unknown() {
    let blocks = r#""targeting":{"categories":{"none":["IAB25"]}},"#;
    let wants = r#""targeting":{"categories":{"any":["IAB1"]}},"#;
    let shop = Shop::of_banners(&[blocks, wants]);
    let site = |fields: &str| shop.bidder(&format!(r#""site":{{{fields}}}"#));
    assert_eq!(site(r#""id":"s""#), 1, "a page without categories has none of the list");
    assert_eq!(site(r#""cat":["IAB2"]"#), 1);
    assert_eq!(site(r#""cat":["IAB25"]"#), 0);
    assert_eq!(site(r#""cat":["IAB1","IAB25-3"]"#), 2);
    for unknown in [
        r#""cattax":6,"cat":["IAB2"]"#,
        r#""cattax":2,"pagecat":["223"]"#,
        r#""cattax":7,"sectioncat":["IAB1"]"#,
        r#""content":{"cattax":7,"cat":["IAB1"]}"#,
    ] {
        assert_eq!(site(unknown), 0, "{unknown}");
    }
    // What is said in ours still counts.
    assert_eq!(site(r#""cat":["IAB1"],"content":{"cattax":7,"cat":["150"]}"#), 2);
    assert_eq!(site(r#""cattax":7,"content":{"cat":["IAB2"]}"#), 1, "nothing is said in 7");
}

#[test]
fn categories_of_content_2_are_compared() {
    // 307 is sexual health, 287 diseases; 483 sports, 518 auto racing; 214 cuisines of all kinds; Rm3SiT obscenity.
    let page = |wanted: &str, fields: &str| {
        let targeting = format!(r#""targeting":{{"categories":{wanted}}},"#);
        Shop::of_banners(&[&targeting]).bidder(&format!(r#""site":{{{fields}}}"#))
    };
    for (wanted, fields, expected) in [
        (r#"{"any":["IAB17-1"]}"#, r#""cattax":2,"cat":["518"]"#, 0),
        (r#"{"any":["IAB17"]}"#, r#""cattax":2,"cat":["518"]"#, 1),
        (r#"{"any":["IAB7-39"]}"#, r#""cattax":6,"pagecat":["307"]"#, 1),
        (r#"{"any":["IAB7"]}"#, r#""cattax":5,"content":{"cattax":5,"cat":["307"]}"#, 1),
        (r#"{"any":["IAB8-4"]}"#, r#""cattax":2,"cat":["214"]"#, 0),
        (r#"{"any":["IAB8"]}"#, r#""cattax":2,"cat":["214"]"#, 1),
        (r#"{"any":["IAB14"]}"#, r#""cattax":2,"cat":["186"]"#, 1),
        (r#"{"any":["IAB17"]}"#, r#""cattax":7,"cat":["518"]"#, 0),
        (r#"{"none":["IAB7-39"]}"#, r#""cattax":2,"cat":["307"]"#, 0),
        (r#"{"none":["IAB7"]}"#, r#""cattax":6,"cat":["307"]"#, 0),
        (r#"{"none":["IAB7-39"]}"#, r#""cattax":2,"cat":["483"]"#, 1),
        // What it may be is not shown, though nobody would find it by that.
        (r#"{"none":["IAB8-4"]}"#, r#""cattax":2,"cat":["214"]"#, 0),
        (r#"{"none":["IAB8-18"]}"#, r#""cattax":2,"cat":["214"]"#, 1),
        // One in no table, and a page of a taxonomy in none.
        (r#"{"none":["IAB7-39"]}"#, r#""cattax":2,"cat":["483","90210"]"#, 0),
        (r#"{"none":["IAB7-39"]}"#, r#""cattax":7,"cat":["483"]"#, 0),
        // 2.0 and 2.1 cannot say what is not for all; 2.2 can.
        (r#"{"none":["IAB25-3"]}"#, r#""cattax":2,"cat":["483"]"#, 0),
        (r#"{"none":["IAB26"]}"#, r#""cattax":5,"cat":["483"]"#, 0),
        (r#"{"none":["IAB25-3"]}"#, r#""cattax":6,"cat":["483"]"#, 1),
        (r#"{"none":["IAB25"]}"#, r#""cattax":6,"cat":["483"]"#, 1),
        (r#"{"none":["IAB25-3"]}"#, r#""cattax":6,"cat":["483","Rm3SiT"]"#, 0),
        (r#"{"none":["IAB25"]}"#, r#""cattax":6,"cat":["Rm3SiT"]"#, 0),
        (r#"{"none":["IAB25-1"]}"#, r#""cattax":6,"cat":["483"]"#, 0),
    ] {
        assert_eq!(page(wanted, fields), expected, "{wanted} {fields}");
    }
}

#[test]
fn lists_of_content_2_allow_and_block() {
    let of = |cat: &str| {
        let creative = format!(
            r#""creatives":[{{"id":"a","format":"banner","sizes":"any","adomain":["b.example"],"markup":"<b>","cat":{cat}}}]"#
        );
        Shop::new(Config::default(), &[creative])
    };
    for (cat, lists, expected) in [
        (r#"["IAB7-39"]"#, r#""cattax":2,"bcat":["307"]"#, 0),
        (r#"["IAB7-39"]"#, r#""cattax":2,"bcat":["286"]"#, 0),
        (r#"["IAB7-39"]"#, r#""cattax":2,"bcat":["223"]"#, 0),
        (r#"["IAB7-39"]"#, r#""cattax":2,"bcat":["483","52"]"#, 1),
        (r#"["IAB7-39"]"#, r#""cattax":2,"bcat":["90210"]"#, 0),
        (r#"["IAB7-39"]"#, r#""cattax":7,"bcat":["483"]"#, 0),
        (r#"["IAB1"]"#, r#""cattax":6,"bcat":["324"]"#, 0),
        (r#"["IAB1-6"]"#, r#""cattax":6,"bcat":["324"]"#, 1),
        (r#"["IAB25-3"]"#, r#""cattax":6,"bcat":["Rm3SiT"]"#, 0),
        (r#"["IAB24"]"#, r#""cattax":2,"bcat":["483"]"#, 0),
        (r#"["OWN"]"#, r#""cattax":2,"bcat":["483"]"#, 0),
        ("[]", r#""cattax":2,"bcat":["483","90210"]"#, 1),
        (r#"["IAB7-39"]"#, r#""cattax":2,"acat":["287"]"#, 1),
        (r#"["IAB7-39"]"#, r#""cattax":2,"acat":["223"]"#, 0),
        (r#"["IAB7-39","IAB3"]"#, r#""cattax":2,"acat":["287"]"#, 0),
        (r#"["IAB7-39","IAB3"]"#, r#""cattax":2,"acat":["287","52"]"#, 1),
        (r#"["IAB7-39"]"#, r#""cattax":2,"acat":["90210"]"#, 0),
        (r#"["IAB7-39"]"#, r#""cattax":2,"acat":["286"],"bcat":["307"]"#, 0),
        ("[]", r#""cattax":2,"acat":["287"]"#, 0),
    ] {
        assert_eq!(of(cat).bidder(lists), expected, "{cat} {lists}");
    }
}

/// One campaign with a banner of these sizes.
fn banner_of(sizes: &str) -> Shop {
    let creative = format!(
        r#""creatives":[{{"id":"a","format":"banner","sizes":{sizes},"adomain":["brand.example"],"markup":"<b>"}}]"#
    );
    Shop::new(Config::default(), &[creative])
}

#[test]
fn a_banner_takes_the_sizes_that_the_check_takes() {
    let shops = [r#"["300x250"]"#, r#"["320x480"]"#, r#"["640x100"]"#, r#""any""#].map(banner_of);
    let bidders = |imp: &str| -> Vec<(u64, u16, u16)> {
        let choice = |shop: &Shop| shop.choices(&format!(r#""imp":[{{"id":"1",{imp}}}]"#)).pop();
        let placed = (1..).zip(&shops).filter_map(|(number, shop)| Some((number, choice(shop)?)));
        placed
            .map(|(number, choice)| (number, choice.placement.width, choice.placement.height))
            .collect()
    };
    let any = |width, height| (4, width, height);
    let small = (1, 300, 250);
    for (imp, expected) in [
        (r#""banner":{"w":300,"h":250}"#, vec![small, any(300, 250)]),
        (r#""banner":{"w":320,"h":480}"#, vec![(2, 320, 480), any(320, 480)]),
        // Full screen: what is smaller fits as well.
        (r#""instl":1,"banner":{"w":320,"h":480}"#, vec![small, (2, 320, 480), any(320, 480)]),
        (r#""instl":1,"banner":{"format":[{"w":300,"h":300}]}"#, vec![small, any(300, 300)]),
        // A size beside the formats, and sizes that are none.
        (r#""banner":{"w":300,"h":250,"format":[{"w":728,"h":90}]}"#, vec![small, any(728, 90)]),
        (r#""banner":{"format":[{"w":0,"h":0}]}"#, vec![]),
        (r#""banner":{"w":300,"h":-1}"#, vec![]),
        (r#""banner":{"w":70000,"h":250}"#, vec![]),
        // Ratios and the ranges of 2.5.
        (r#""banner":{"format":[{"wratio":6,"hratio":5,"wmin":300}]}"#, vec![small, any(300, 250)]),
        (r#""banner":{"format":[{"wratio":6,"hratio":5,"wmin":301}]}"#, vec![any(306, 255)]),
        (r#""banner":{"wmin":300,"wmax":400,"hmin":200,"hmax":300}"#, vec![small, any(400, 300)]),
    ] {
        assert_eq!(bidders(imp), expected, "{imp}");
    }
}

#[test]
fn an_advertiser_is_below_its_last_label_too() {
    let shop = Shop::of_banners(&[""]);
    let blocked = |list: &str| shop.bidder(&format!(r#""badv":[{list}]"#)) == 0;
    assert!(!blocked(r#""other.example""#) && !blocked(r#""ample""#) && !blocked(r#""com""#));
    for list in [r#""brand.example""#, r#""example""#, r#""https://EXAMPLE/""#, r#""a","example""#]
    {
        assert!(blocked(list), "{list}");
    }
    // Many advertisers below one label, and that label again and again: each is looked up once.
    let many: Vec<String> = (0..100).map(|n| BANNER.replace("brand", &format!("b{n}"))).collect();
    let shop = Shop::new(Config::default(), &many);
    let labels = vec![r#""example""#; 9_000].join(",");
    assert_eq!(shop.bidder(&format!(r#""badv":[{labels}]"#)), 0);
}

#[test]
fn a_creative_that_says_no_language_is_of_all() {
    let english = BANNER.replace("}]", r#","language":"en"}]"#);
    let shop = |creatives: &str| Shop::new(Config::default(), &[creatives.to_string()]);
    for (list, of_english, of_none) in
        [(r#""wlang":["en","de"]"#, 1, 1), (r#""wlangb":["fr-CA"]"#, 0, 1)]
    {
        assert_eq!(shop(&english).bidder(list), of_english, "{list}");
        assert_eq!(shop(BANNER).bidder(list), of_none, "{list}");
    }
}

/// A banner and a video of 15 seconds, a campaign each.
fn banner_and_video() -> Shop {
    let video = BANNER
        .replace("banner", "video")
        .replace("\"sizes\":\"any\"", r#""duration_s":15,"attr":[3]"#);
    let banner = BANNER.replace("}]", r#","attr":[3]}]"#);
    Shop::new(Config::default(), &[banner, video])
}

#[test]
fn floors_and_attributes_are_those_of_their_format() {
    let shop = banner_and_video();
    let bidders = |banner: &str, video: &str, more: &str| {
        let of = |imp: String| {
            let choices = shop.choices(&format!(r#""imp":[{{"id":"1"{more},{imp}}}]"#));
            choices.first().map_or(0, |choice| choice.campaign)
        };
        let both =
            format!(r#""banner":{{"w":300,"h":250{banner}}},"video":{{"maxduration":60{video}}}"#);
        let alone = format!(r#""video":{{"maxduration":60{video}}}"#);
        (of(both) > 0, of(alone) == 2)
    };
    let ranges = |short: &str, long: &str| {
        format!(
            r#","durfloors":[{{"mindur":1,"maxdur":20,"bidfloor":{short}}},{{"mindur":21,"maxdur":60,"bidfloor":{long}}}]"#
        )
    };
    assert_eq!(bidders("", "", ""), (true, true));
    // The range of 15 seconds counts, not the dearest; and none for the banner.
    assert_eq!(bidders("", &ranges("1.00", "100"), ""), (true, true));
    assert_eq!(bidders("", &ranges("100", "1.00"), ""), (true, false));
    assert_eq!(bidders("", &ranges("1.00", "1.00"), r#","bidfloor":50"#), (true, true));
    // One in a currency that does not exist, or that has no rate, is no floor in dollars.
    for currency in ["QQQ", "JPY"] {
        let of = format!(r#","bidfloorcur":"{currency}""#);
        for timed in [ranges("1.00", "1.00"), r#","mincpmpersec":0.01"#.to_string()] {
            assert_eq!(bidders("", &timed, &of), (false, false), "{timed} in {currency}");
        }
        assert_eq!(bidders("", "", &of), (true, true), "none in {currency}");
    }
    let deal =
        |timed: &str| format!(r#","pmp":{{"private_auction":1,"deals":[{{"id":"d"{timed}}}]}}"#);
    assert_eq!(bidders("", "", &deal("")), (false, false), "no campaign has the deal");
    // What is blocked for one format is not blocked for the other.
    assert_eq!(bidders(r#","battr":[3]"#, "", ""), (true, true));
    assert_eq!(bidders("", r#","battr":[3]"#, ""), (true, false));
    assert_eq!(bidders(r#","battr":[3]"#, r#","battr":[3]"#, ""), (false, false));
}

/// A notice in markup comes over the door's own address: what asks for HTTPS takes it only where that is HTTPS. It is known
/// before the auction, so that the next one bids in its place.
#[test]
fn markup_that_tells_a_notice_is_as_secure_as_the_address_of_notices() {
    let telling = |markup: &str| BANNER.replace("<b>", markup);
    let imp = |secure: u8| format!(r#""imp":[{{"id":"1","secure":{secure},"banner":{{}}}}]"#);
    for (public_url, tls_cert, https) in [
        ("", "", false),
        ("", "cert.pem", true),
        ("http://win.example", "cert.pem", false),
        ("https://win.example", "", true),
    ] {
        let mut config = Config::default();
        config.openrtb.public_url = public_url.to_string();
        config.openrtb.tls_cert = tls_cert.to_string();
        for (markup, tells) in [("<b>", false), ("${WEIR_BURL}", true), ("a${WEIR_NURL}", true)] {
            let shop = Shop::new(config.clone(), &[telling(markup)]);
            let bids = |secure| shop.choices(&imp(secure)).len();
            assert_eq!(bids(0), 1, "{public_url} {markup}");
            assert_eq!(bids(1), usize::from(https || !tells), "{public_url} {tls_cert} {markup}");
        }
    }
}

/// Figures for `docs/performance.md`: `cargo test --release -p door-openrtb -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn what_the_address_of_a_click_costs() {
    const TIMES: u64 = 1_000_000;
    let keys = KeyRing::new(7, 1, [9; 16]);
    let hold = Hold { grant: 5, seq: 6, node: 7, deadline_ms: 1 << 40, amount: Amount::new(9) };
    let (start, ends) = Note::from_bytes(&[1; NOTE_LEN]).for_each_kind();
    for _ in 0..5 {
        let ns = [false, true].map(|asks_click| {
            let began = probe::thread_cpu_ns();
            for _ in 0..TIMES {
                let hold = std::hint::black_box(&hold);
                std::hint::black_box(super::seal(&keys, hold, (&start, &ends), asks_click));
            }
            (probe::thread_cpu_ns() - began) as f64 / TIMES as f64
        });
        eprintln!("sealed notes: {:.0} ns, with that of a click {:.0} ns", ns[0], ns[1]);
    }
}
