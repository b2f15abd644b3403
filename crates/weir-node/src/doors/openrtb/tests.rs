//! From a body of JSON to who would bid: what the door asks of an auction, without money.

use door_openrtb::{ReadLimits, Reader};
use gate_auction::{Choice, Scratch};
use gate_profile::Profile;
use money::Instant;
use weir_config::campaign_index::{self, CampaignIndex, Currencies};
use weir_config::config::Config;

use super::translate::{Lists, Terms, User};

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
            campaign_index::read(&path, &Currencies::of(&config), Instant::from_ms(0)).unwrap();
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
    let bidder = |more: &str| {
        let told = r#""data":[{"segment":[{"id":"s"}]}]"#;
        shop.bidder(&format!(r#""user":{{{told}{more}}}"#))
    };
    // Consent to vendor 25 and all purposes; then without the fourth.
    let all = "CAAAAAAAAAAAAABABAENABEoAP___wAAAAYYAMgAAAIAAAAA";
    let three = "CAAAAAAAAAAAAABABAENABEgAOAAAAAAAAYYAMgAAAIAAAAA";
    let gdpr = r#"},"regs":{"gdpr":1"#;
    assert_eq!(bidder(""), 1);
    assert_eq!(bidder(&format!(r#","consent":"{all}"{gdpr}"#)), 1);
    for forbidden in [
        r#"},"regs":{"coppa":1"#.to_string(),
        r#"},"regs":{"gpc":1"#.to_string(),
        r#"},"regs":{"us_privacy":"1YYN""#.to_string(),
        r#"},"device":{"lmt":1"#.to_string(),
        gdpr.to_string(),
        format!(r#","consent":"x"{gdpr}"#),
        format!(r#","consent":"{three}"{gdpr}"#),
    ] {
        assert_eq!(bidder(&forbidden), 0, "{forbidden}");
    }
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
}
