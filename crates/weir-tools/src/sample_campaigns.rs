//! Made-up campaigns, to try a node with. They fit the requests that `weir hammer --generate-openrtb` makes up: its
//! countries, places, sizes, categories, segments and languages are among theirs.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use table::{SplitMix64, spread};

/// Country, time zone, language, and how many campaigns of a thousand want it first.
const COUNTRIES: [(&str, &str, &str, u64); 30] = [
    ("USA", "America/New_York", "en", 230),
    ("GBR", "Europe/London", "en", 95),
    ("DEU", "Europe/Berlin", "de", 90),
    ("FRA", "Europe/Paris", "fr", 80),
    ("JPN", "Asia/Tokyo", "ja", 70),
    ("BRA", "America/Sao_Paulo", "pt", 70),
    ("IND", "Asia/Kolkata", "hi", 70),
    ("POL", "Europe/Warsaw", "pl", 50),
    ("CAN", "America/Toronto", "en", 30),
    ("ESP", "Europe/Madrid", "es", 25),
    ("ITA", "Europe/Rome", "it", 25),
    ("MEX", "America/Mexico_City", "es", 20),
    ("NLD", "Europe/Amsterdam", "nl", 20),
    ("AUS", "Australia/Sydney", "en", 20),
    ("KOR", "Asia/Seoul", "ko", 15),
    ("IDN", "Asia/Jakarta", "id", 15),
    ("SWE", "Europe/Stockholm", "sv", 10),
    ("TUR", "Europe/Istanbul", "tr", 10),
    ("ARG", "America/Argentina/Buenos_Aires", "es", 8),
    ("ZAF", "Africa/Johannesburg", "en", 7),
    ("BEL", "Europe/Brussels", "fr", 5),
    ("AUT", "Europe/Vienna", "de", 5),
    ("CHE", "Europe/Zurich", "de", 5),
    ("DNK", "Europe/Copenhagen", "da", 4),
    ("NOR", "Europe/Oslo", "no", 4),
    ("FIN", "Europe/Helsinki", "fi", 4),
    ("PRT", "Europe/Lisbon", "pt", 4),
    ("CZE", "Europe/Prague", "cs", 3),
    ("IRL", "Europe/Dublin", "en", 3),
    ("NZL", "Pacific/Auckland", "en", 3),
];
const REGIONS: [&str; 6] = ["USA-CA", "USA-NY", "USA-TX", "DEU-BE", "FRA-IDF", "GBR-LND"];
/// Names of places that requests come from, as sites (`news.example`) and apps (`example.news.app`).
const PLACES: [&str; 12] = [
    "news",
    "weather",
    "recipes",
    "football",
    "cars",
    "travel",
    "finance",
    "music",
    "chess",
    "gardening",
    "homes",
    "science",
];
const BANNERS: [(&str, u64); 12] = [
    ("300x250", 300),
    ("728x90", 170),
    ("320x50", 170),
    ("160x600", 100),
    ("300x600", 70),
    ("970x250", 70),
    ("336x280", 40),
    ("320x100", 30),
    ("468x60", 20),
    ("970x90", 15),
    ("250x250", 10),
    ("120x600", 5),
];
const FORMATS: [(&str, u64); 4] = [("banner", 62), ("video", 26), ("native", 9), ("audio", 3)];
const BRANDS: [&str; 12] = [
    "northlight",
    "harbour",
    "juniper",
    "atlas",
    "meridian",
    "saffron",
    "kestrel",
    "lumen",
    "orchard",
    "tundra",
    "cobalt",
    "willow",
];
const GOALS: [&str; 5] = ["awareness", "spring sale", "retargeting", "app installs", "loyalty"];
const PACINGS: [(&str, u64); 5] =
    [("asap", 1), ("schedule", 2), ("coin", 1), ("curve", 5), ("steer", 1)];
const HOURS: [&str; 6] =
    ["mon-fri 08-20", "06-24", "mon-fri 07-10", "sat,sun", "17-23", "fri-sun 10-02"];
const SYSTEMS: [&str; 4] = ["android", "windows", "ios", "macos"];
const DEVICES: [(&str, u64); 5] =
    [("pc", 40), ("mobile", 35), ("phone", 15), ("tablet", 5), ("tv", 5)];
/// Different segments that campaigns ask for; requests name three in a hundred of the segments there are.
const SEGMENTS: u64 = 3_000;
/// Numbers of two neighbouring segments differ by this.
const SEGMENT_STEP: u64 = 30;

/// Writes `count` campaigns, one JSON object per line. The same seed gives the same campaigns.
///
/// # Errors
/// `out` cannot be written.
pub fn write(count: u64, seed: u64, out: &mut dyn Write) -> io::Result<()> {
    (1..=count).try_for_each(|id| writeln!(out, "{}", campaign(id, &mut Dice::new(seed, id))))
}

fn campaign(id: u64, dice: &mut Dice) -> Value {
    let (country, zone, language, _) = COUNTRIES[dice.weighted(COUNTRIES.map(|entry| entry.3))];
    let brand = dice.pick(&BRANDS);
    // Some advertisers are unwelcome on some sites.
    let advertiser = match dice.below(100) {
        0 => "rival.example".to_string(),
        1 => "spirits.example".to_string(),
        _ => format!("{brand}-{}.example", dice.below(100)),
    };
    let limit = dice.skewed(200, 13, 12, 80);
    let mut line = Map::new();
    let mut put = |field: &str, value: Value| line.insert(field.to_string(), value);
    put("id", json!(id));
    put("name", json!(format!("{brand} {} {country}", dice.pick(&GOALS))));
    put("unit", json!("USD"));
    put("limit", json!(format!("{limit}.00")));
    put("daily", json!(format!("{}.00", (limit / 20).max(10))));
    put("tz", json!(zone));
    put("pacing", json!(PACINGS[dice.weighted(PACINGS.map(|pacing| pacing.1))].0));
    put("status", json!(if dice.percent(2) { "paused" } else { "active" }));
    put("bid", json!(cents(dice.skewed(30, 24, 23, 76))));
    put("seat", json!(format!("seat-{}", 1 + dice.below(12))));
    put("advertiser", json!(advertiser));
    if dice.percent(25) {
        put("modifiers", modifiers(dice));
    }
    if dice.percent(10) {
        put("hold", json!({"expected": {"win_rate": "0.2", "safety": "1.5"}}));
    }
    if dice.percent(80) {
        put("caps", caps(dice));
    }
    put("targeting", targeting(country, language, dice));
    put("creatives", creatives(id, &advertiser, dice));
    Value::Object(line)
}

fn modifiers(dice: &mut Dice) -> Value {
    let first = dice.below(SEGMENTS);
    let count = 1 + dice.below(4);
    let modifier = |place: u64| {
        let percent = 50 + 10 * dice.below(16);
        json!({"segment": segment((first + 7 * place) % SEGMENTS), "factor": cents(percent)})
    };
    (0..count).map(modifier).collect()
}

fn caps(dice: &mut Dice) -> Value {
    let mut caps = vec![json!({"per": "day", "max": 1 + dice.below(8)})];
    if dice.percent(40) {
        caps.push(json!({"per": "hour", "max": 1 + dice.below(3), "of": "creative"}));
    }
    if dice.percent(20) {
        caps.push(json!({"per": "lifetime", "max": 10 + dice.below(40)}));
    }
    Value::Array(caps)
}

fn targeting(country: &str, language: &str, dice: &mut Dice) -> Value {
    let mut targeting = Map::new();
    let mut put = |field: &str, value: Value| targeting.insert(field.to_string(), value);
    if dice.percent(88) {
        put("geo", json!({"any": places(country, dice)}));
    }
    if dice.percent(45) {
        let device = DEVICES[dice.weighted(DEVICES.map(|device| device.1))].0;
        put("devices", json!({"any": [device]}));
    }
    if dice.percent(20) {
        let (first, second) = (dice.pick(&SYSTEMS), dice.pick(&SYSTEMS));
        put("os", json!({"any": [first, second]}));
    }
    if dice.percent(20) {
        let wanted = if dice.percent(70) { "en" } else { language };
        put("languages", json!({"any": [wanted]}));
    }
    if dice.percent(4) {
        put("supply", json!({"any": [(1_000 + dice.below(60)).to_string()]}));
    }
    match dice.below(100) {
        0..18 => {
            let known = 40;
            put("domains", json!({"any": list(dice, 5, 25, |dice| site(known, dice))}));
            put("bundles", json!({"any": list(dice, 5, 25, |dice| app(known, dice))}));
        }
        18..40 => {
            put("domains", json!({"none": list(dice, 5, 25, |dice| site(5, dice))}));
        }
        _ => {}
    }
    match dice.below(100) {
        0..10 => {
            put("categories", json!({"any": list(dice, 2, 6, category)}));
        }
        10..22 => {
            put("categories", json!({"none": list(dice, 1, 3, category)}));
        }
        _ => {}
    }
    let any_segment = |dice: &mut Dice| segment(dice.below(SEGMENTS));
    match dice.below(100) {
        0..18 => {
            put("segments", json!({"any": list(dice, 3, 30, any_segment)}));
        }
        18..21 => {
            put("segments", json!({"all": list(dice, 2, 1, any_segment)}));
        }
        21..45 => {
            put("segments", json!({"none": list(dice, 1, 9, any_segment)}));
        }
        _ => {}
    }
    if dice.percent(30) {
        put("hours", json!([dice.pick(&HOURS)]));
    }
    if dice.percent(8) {
        let deal = |dice: &mut Dice| format!("deal-{}-{}", dice.below(10_000), dice.below(3));
        put("deals", json!(list(dice, 1, 20, deal)));
        put("deals_only", json!(dice.percent(50)));
    }
    Value::Object(targeting)
}

/// The country, perhaps with others; sometimes regions only.
fn places(country: &str, dice: &mut Dice) -> Vec<String> {
    if dice.percent(4) {
        return vec![dice.pick(&REGIONS).to_string()];
    }
    let more = if dice.percent(40) { 1 + dice.below(3) } else { 0 };
    let mut other = |_| COUNTRIES[dice.weighted(COUNTRIES.map(|entry| entry.3))].0.to_string();
    let others: Vec<String> = (0..more).map(&mut other).collect();
    [vec![country.to_string()], others].concat()
}

fn list(
    dice: &mut Dice,
    least: u64,
    more: u64,
    mut make: impl FnMut(&mut Dice) -> String,
) -> Vec<String> {
    (0..least + dice.below(more)).map(|_| make(dice)).collect()
}

/// A site: `known` of a hundred are those that requests come from.
fn site(known: u64, dice: &mut Dice) -> String {
    if dice.percent(known) {
        format!("{}.example", dice.pick(&PLACES))
    } else {
        format!("site-{}.example", dice.below(2_000))
    }
}

fn app(known: u64, dice: &mut Dice) -> String {
    if dice.percent(known) {
        format!("example.{}.app", dice.pick(&PLACES))
    } else {
        format!("com.studio{}.game{}", dice.below(200), dice.below(10))
    }
}

fn category(dice: &mut Dice) -> String {
    match dice.below(100) {
        0..12 => "IAB12".to_string(),
        12..16 => "IAB19-6".to_string(),
        _ => format!("IAB{}", 1 + dice.below(24)),
    }
}

fn segment(number: u64) -> String {
    (number * SEGMENT_STEP).to_string()
}

fn creatives(campaign: u64, advertiser: &str, dice: &mut Dice) -> Value {
    let format = FORMATS[dice.weighted(FORMATS.map(|format| format.1))].0;
    let count = 1 + dice.below(4);
    (1..=count).map(|place| creative(campaign, place, format, advertiser, dice)).collect()
}

fn creative(campaign: u64, place: u64, format: &str, advertiser: &str, dice: &mut Dice) -> Value {
    let id = format!("cr-{campaign}-{place}");
    let size = BANNERS[dice.weighted(BANNERS.map(|size| size.1))].0;
    let mut creative = Map::new();
    let mut put = |field: &str, value: Value| creative.insert(field.to_string(), value);
    put("format", json!(format));
    put("adomain", json!([advertiser]));
    put("cat", json!([creative_category(dice)]));
    if dice.percent(30) {
        put("attr", json!([dice.pick(&[2, 4, 6, 7, 16, 1, 3])]));
    }
    if dice.percent(3) {
        put("secure", json!(false));
    }
    if matches!(format, "video" | "audio") {
        put("duration_s", json!(dice.pick(&[6, 10, 15, 15, 20, 30])));
    }
    match format {
        "banner" => put("sizes", json!([size])),
        "video" if dice.percent(40) => put("sizes", json!(["640x360", "1280x720"])),
        _ => put("sizes", json!("any")),
    };
    put("markup", json!(markup(&id, format, size, advertiser)));
    put("id", json!(id));
    Value::Object(creative)
}

/// Some are of categories that exchanges block.
fn creative_category(dice: &mut Dice) -> String {
    match dice.below(100) {
        0..2 => "IAB25".to_string(),
        2..4 => "IAB7-39".to_string(),
        _ => format!("IAB{}", 1 + dice.below(23)),
    }
}

fn markup(id: &str, format: &str, size: &str, advertiser: &str) -> String {
    let (width, height) = size.split_once('x').unwrap_or(("1", "1"));
    match format {
        "banner" => format!(
            "<a href=\"https://{advertiser}/?c={id}\"><img src=\"https://cdn.{advertiser}/{id}.png\" \
             width=\"{width}\" height=\"{height}\" alt=\"\"></a><img src=\"https://t.{advertiser}/i?a=${{AUCTION_ID}}\">"
        ),
        "native" => format!(
            "{{\"native\":{{\"ver\":\"1.2\",\"assets\":[{{\"id\":1,\"title\":{{\"text\":\"All new\"}}}},{{\"id\":2,\
             \"img\":{{\"url\":\"https://cdn.{advertiser}/{id}.png\",\"w\":1200,\"h\":627}}}}],\
             \"link\":{{\"url\":\"https://{advertiser}/?c={id}\"}}}}}}"
        ),
        _ => format!(
            "<VAST version=\"4.0\"><Ad id=\"{id}\"><Wrapper><AdSystem>Example</AdSystem><VASTAdTagURI>\
             <![CDATA[https://vast.{advertiser}/{id}.xml]]></VASTAdTagURI><Impression>\
             <![CDATA[https://t.{advertiser}/i?a=${{AUCTION_ID}}]]></Impression></Wrapper></Ad></VAST>"
        ),
    }
}

/// Hundredths as text.
fn cents(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Chances of one campaign, drawn one after the other.
struct Dice(SplitMix64);

impl Dice {
    fn new(seed: u64, id: u64) -> Dice {
        Dice(SplitMix64::new(spread(seed ^ spread(id))))
    }

    /// 0 to `end` - 1.
    fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.index(list.len())]
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// An index, each as often as its weight says.
    fn weighted<const N: usize>(&mut self, weights: [u64; N]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        let reached = |weight: &u64| match rest.checked_sub(*weight) {
            Some(left) => {
                rest = left;
                false
            }
            None => true,
        };
        weights.iter().position(reached).unwrap_or(0)
    }

    /// From `least` on, times `up` / `down` for each of at most `steps` steps. Their number is the sum of four throws,
    /// so that most results are in the middle: about log-normal.
    fn skewed(&mut self, least: u64, up: u64, down: u64, steps: u64) -> u64 {
        let throws = (0..4).map(|_| self.below(steps / 4 + 1)).sum();
        // Thousandths, so that small numbers grow too.
        (0..throws).fold(least * 1_000, |value, _: u64| value * up / down) / 1_000
    }
}

#[cfg(test)]
#[path = "../../weir-budgets/src/campaigns/json_schema.rs"]
mod json_schema;

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use weir_budgets::campaigns::{Campaign, Creative, Format, Lists, Targeting, normal};

    fn text(count: u64, seed: u64) -> String {
        let mut text = Vec::new();
        write(count, seed, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn campaigns(count: u64) -> Vec<Campaign> {
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        std::fs::write(file.path(), text(count, 1)).unwrap();
        let budgets = weir_budgets::budgets::read(file.path()).unwrap();
        budgets.into_iter().map(|budget| budget.campaign.unwrap()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_campaigns() {
        assert_eq!(text(20, 1), text(20, 1));
        assert_ne!(text(20, 1), text(20, 2));
        assert!(text(20, 1).starts_with(&text(10, 1)));
    }

    #[test]
    fn made_up_campaigns_keep_to_the_schema() {
        for line in text(300, 1).lines() {
            assert!(json_schema::is_valid(&serde_json::from_str(line).unwrap()), "{line}");
        }
    }

    #[test]
    fn the_mix_is_plausible() {
        let all = campaigns(2_000);
        let share =
            |is: &dyn Fn(&Campaign) -> bool| all.iter().filter(|c| is(c)).count() * 100 / 2_000;
        assert!((55..70).contains(&share(&|c| c.creatives[0].format == Format::Banner)));
        assert!((75..85).contains(&share(&|c| !c.caps.is_empty())));
        assert!((3..15).contains(&share(&|c| !c.targeting.deals.is_empty())));
        let mut bids: Vec<i64> = all.iter().map(|c| c.bid_micros).collect();
        bids.sort_unstable();
        assert!(bids[0] >= 300_000 && bids[1_999] <= 8_000_000, "{} {}", bids[0], bids[1_999]);
        assert!((1_000_000..2_500_000).contains(&bids[1_000]), "median {}", bids[1_000]);
    }

    /// What a request says, in normal form.
    #[derive(Default)]
    struct Said {
        segments: Vec<String>,
        geo: Vec<String>,
        devices: Vec<u8>,
        os: Vec<String>,
        languages: Vec<String>,
        supply: Vec<String>,
        domains: Vec<String>,
        categories: Vec<String>,
    }

    fn texts<'a>(found: impl IntoIterator<Item = &'a Value>) -> Vec<&'a str> {
        found.into_iter().filter_map(Value::as_str).collect()
    }

    fn said(request: &Value) -> Said {
        let at = |pointer: &str| request.pointer(pointer);
        let place = if request.get("app").is_some() { "/app" } else { "/site" };
        let list = |pointer: String| at(&pointer).and_then(Value::as_array).into_iter().flatten();
        let of_place = |field: &str| texts(at(&format!("{place}/{field}")));
        let bundles = of_place("bundle").into_iter().map(str::to_string);
        let domains = of_place("domain").into_iter().map(|text| normal::domain(text).into_owned());
        let segments = list("/user/data/0/segment".into()).filter_map(|segment| segment.get("id"));
        let form = |form: fn(&str) -> std::borrow::Cow<'_, str>, texts: Vec<&str>| {
            texts.into_iter().map(|text| form(text).into_owned()).collect()
        };
        Said {
            segments: texts(segments).into_iter().map(str::to_string).collect(),
            geo: form(normal::country, texts(at("/device/geo/country"))),
            devices: at("/device/devicetype")
                .and_then(Value::as_u64)
                .and_then(|number| u8::try_from(number).ok())
                .into_iter()
                .collect(),
            os: form(normal::os, texts(at("/device/os"))),
            languages: form(normal::language, texts(at("/device/language"))),
            supply: of_place("id").into_iter().map(str::to_string).collect(),
            domains: bundles.chain(domains).collect(),
            categories: form(normal::category, texts(list(format!("{place}/cat")))),
        }
    }

    fn agrees<T: PartialEq>(lists: &Lists<T>, said: &[T]) -> bool {
        let wanted = lists.any.is_empty() || said.iter().any(|value| lists.any.contains(value));
        wanted && !said.iter().any(|value| lists.none.contains(value))
    }

    /// At noon of a Wednesday, without deals.
    fn wants(targeting: &Targeting, said: &Said) -> bool {
        agrees(&targeting.geo, &said.geo)
            && agrees(&targeting.supply, &said.supply)
            && agrees(&targeting.segments, &said.segments)
            && targeting.segments_all.iter().all(|segment| said.segments.contains(segment))
            && agrees(&targeting.devices, &said.devices)
            && agrees(&targeting.os, &said.os)
            && agrees(&targeting.domains, &said.domains)
            && agrees(&targeting.categories, &said.categories)
            && agrees(&targeting.languages, &said.languages)
            && targeting.hours.is_none_or(|hours| hours.contains(2 * 24 + 12))
            && !targeting.deals_only
    }

    fn fits(creative: &Creative, imp: &Value) -> bool {
        let takes = |size: &Value| {
            let size = (&size["w"], &size["h"]);
            creative.sizes.iter().any(|&(w, h)| (w, h) == (0, 0) || (&w.into(), &h.into()) == size)
        };
        match creative.format {
            Format::Banner => {
                imp["banner"]["format"].as_array().is_some_and(|all| all.iter().any(takes))
            }
            Format::Video => imp.get("video").is_some_and(takes),
            Format::Audio => imp.get("audio").is_some(),
            Format::Native => imp.get("native").is_some(),
        }
    }

    #[test]
    fn about_two_in_a_hundred_want_an_impression() {
        let all = campaigns(2_000);
        let (mut impressions, mut eligible, mut empty) = (0, 0, 0);
        for request in hammer::openrtb::generate(3, 200) {
            let request: Value = serde_json::from_str(&request).unwrap();
            let said = said(&request);
            let wanting: Vec<_> = all.iter().filter(|c| wants(&c.targeting, &said)).collect();
            for imp in request["imp"].as_array().unwrap() {
                let fitting =
                    |c: &&&Campaign| c.creatives.iter().any(|creative| fits(creative, imp));
                let found = wanting.iter().filter(fitting).count();
                impressions += 1;
                eligible += found;
                empty += usize::from(found == 0);
            }
        }
        let per_mille = eligible * 1_000 / (impressions * all.len());
        println!("{per_mille} per mille, {empty} of {impressions} without any");
        assert!((10..=30).contains(&per_mille), "{per_mille} per mille");
        assert!(empty * 4 < impressions, "{empty} of {impressions} without any campaign");
    }
}
