//! Made-up OpenRTB 2.6 requests of 0.5 to 2.4 kB, half of them within 1.7 kB, with the field mix of real exchanges, repeated by their seed.

use serde_json::{Map, Value, json};

use crate::random::Random;

const DOMAINS: [&str; 12] = [
    "news.example",
    "weather.example",
    "recipes.example",
    "football.example",
    "cars.example",
    "travel.example",
    "finance.example",
    "music.example",
    "chess.example",
    "gardening.example",
    "homes.example",
    "science.example",
];
const SIZES: [(u16, u16); 6] =
    [(300, 250), (728, 90), (320, 50), (160, 600), (970, 250), (300, 600)];
const COUNTRIES: [(&str, &str); 8] = [
    ("USA", "America/New_York"),
    ("DEU", "Europe/Berlin"),
    ("FRA", "Europe/Paris"),
    ("GBR", "Europe/London"),
    ("JPN", "Asia/Tokyo"),
    ("BRA", "America/Sao_Paulo"),
    ("IND", "Asia/Kolkata"),
    ("POL", "Europe/Warsaw"),
];
const AGENTS: [&str; 4] = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 \
     Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile \
     Safari/537.36",
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
];

/// `count` requests, one JSON text each without line breaks. The same seed gives the same requests.
pub fn generate(seed: u64, count: u64) -> impl Iterator<Item = String> {
    (0..count).map(move |number| {
        let mut random = Random::new(seed, number.wrapping_add(1_000));
        request(number, &mut random).to_string()
    })
}

fn request(number: u64, random: &mut Random) -> Value {
    // Three kinds of exchange: terse, usual, and those that send all they know.
    let richness = match random.below(10) {
        0..2 => 0,
        2..6 => 1,
        // The long ones: what makes half of all requests longer than 1.7 kB.
        _ => 2,
    };
    let is_app = random.chance(0.35);
    let imps = match richness {
        2 if random.chance(0.92) => 1,
        2 => 2,
        _ if random.chance(0.8) => 1,
        _ => 2 + random.below(2),
    };
    let mut request = Map::new();
    put(&mut request, "id", json!(format!("{:016x}-{number}", random.bits())));
    let imps: Vec<Value> = (1..=imps).map(|place| imp(place, richness, random)).collect();
    put(&mut request, "imp", Value::Array(imps));
    let kind = if is_app { "app" } else { "site" };
    put(&mut request, kind, inventory(is_app, richness, random));
    put(&mut request, "device", device(is_app, richness, random));
    put(&mut request, "user", user(richness, random));
    put(&mut request, "at", json!(if random.chance(0.7) { 1 } else { 2 }));
    put(&mut request, "tmax", json!(100 + 50 * random.below(5)));
    if richness > 0 {
        put(&mut request, "cur", json!(["USD"]));
        put(&mut request, "bcat", json!(["IAB25", "IAB26", "IAB7-39"]));
        put(&mut request, "regs", regs(richness, random));
        put(&mut request, "source", source(richness, random));
        put(
            &mut request,
            "ext",
            json!({"ssp": "exchange.example", "wt": 1, "sdepth": random.below(9)}),
        );
    }
    if richness > 1 {
        put(&mut request, "badv", json!(["rival.example", "spirits.example", "dice.example"]));
    }
    Value::Object(request)
}

fn put(object: &mut Map<String, Value>, key: &str, value: Value) {
    object.insert(key.to_owned(), value);
}

fn imp(place: u64, richness: u8, random: &mut Random) -> Value {
    let mut imp = Map::new();
    put(&mut imp, "id", json!(place.to_string()));
    match random.below(10) {
        0..6 => put(&mut imp, "banner", banner(richness, random)),
        6..9 => put(&mut imp, "video", video(random)),
        _ => put(&mut imp, "native", native()),
    }
    if random.chance(0.85) {
        // Cents and tenths of cents; some exchanges quote their numbers.
        let mills = 50 + random.below(8_000);
        let floor = format!("{}.{:03}", mills / 1_000, mills % 1_000);
        let quoted = random.chance(0.05);
        let number = floor.parse::<f64>().ok().filter(|_| !quoted);
        put(&mut imp, "bidfloor", number.map_or(json!(floor), |n| json!(n)));
        if random.chance(0.7) {
            let currency = match random.below(20) {
                0 => "EUR",
                1 => "GBP",
                _ => "USD",
            };
            put(&mut imp, "bidfloorcur", json!(currency));
        }
    }
    put(&mut imp, "secure", json!(1));
    if richness > 0 {
        put(&mut imp, "tagid", json!(format!("slot-{}", random.below(500))));
        put(&mut imp, "instl", json!(u8::from(random.chance(0.1))));
        let (network, slot) = (10_000_000 + random.below(1_000_000), random.below(40));
        let gpid = format!("/{network}/section/article-{slot}");
        put(&mut imp, "ext", json!({"gpid": gpid}));
    }
    if random.chance(0.12) {
        put(&mut imp, "pmp", deals(random));
    }
    Value::Object(imp)
}

fn banner(richness: u8, random: &mut Random) -> Value {
    let size = |random: &mut Random| {
        let at = usize::try_from(random.below(SIZES.len() as u64)).unwrap_or(0);
        let (w, h) = SIZES[at];
        json!({"w": w, "h": h})
    };
    let formats: Vec<Value> = (0..=u64::from(richness)).map(|_| size(random)).collect();
    json!({"format": formats, "pos": random.below(8), "topframe": 1, "battr": [1, 3, 5]})
}

fn video(random: &mut Random) -> Value {
    json!({
        "mimes": ["video/mp4", "video/webm"], "minduration": 5, "maxduration": 15 + 15 * random.below(2),
        "protocols": [2, 3, 5, 6, 7, 8], "w": 640, "h": 360, "plcmt": 1 + random.below(4), "linearity": 1,
        "skip": random.below(2), "playbackmethod": [1, 2], "api": [1, 2, 7], "startdelay": 0
    })
}

fn native() -> Value {
    let assets = r#"{"ver":"1.2","assets":[{"id":1,"required":1,"title":{"len":90}},{"id":2,"required":1,"img":{"type":3,"wmin":1200,"hmin":627}},{"id":3,"data":{"type":2,"len":140}}]}"#;
    json!({"request": assets, "ver": "1.2"})
}

fn deals(random: &mut Random) -> Value {
    let deals: Vec<Value> = (0..1 + random.below(3))
        .map(|place| {
            let cents = 100 + random.below(1_500);
            json!({
                "id": format!("deal-{}-{place}", random.below(10_000)),
                "bidfloor": format!("{}.{:02}", cents / 100, cents % 100).parse::<f64>().unwrap_or(1.0),
                "bidfloorcur": "USD", "at": 1 + random.below(3), "wseat": ["seat-7"]
            })
        })
        .collect();
    json!({"private_auction": random.below(2), "deals": deals})
}

fn inventory(is_app: bool, richness: u8, random: &mut Random) -> Value {
    let at = usize::try_from(random.below(DOMAINS.len() as u64)).unwrap_or(0);
    let domain = DOMAINS[at];
    let publisher = json!({"id": format!("pub-{at}"), "domain": domain});
    let mut object = Map::new();
    put(&mut object, "id", json!((1_000 + at).to_string()));
    put(&mut object, "publisher", publisher);
    put(&mut object, "cat", json!(["IAB12", "IAB19-6"]));
    if is_app {
        let name = domain.trim_end_matches(".example");
        put(&mut object, "bundle", json!(format!("example.{name}.app")));
        put(&mut object, "name", json!(name));
        put(&mut object, "ver", json!("4.12.1"));
        put(&mut object, "storeurl", json!(format!("https://store.example/apps/{name}")));
    } else {
        let page = format!("https://www.{domain}/2026/story-{}.html", random.below(100_000));
        put(&mut object, "domain", json!(domain));
        put(&mut object, "page", json!(page));
        put(&mut object, "ref", json!("https://search.example/"));
    }
    if richness > 1 {
        let content = json!({
            "id": random.below(1_000_000).to_string(), "title": "A long story about nearly everything",
            "language": "en", "livestream": 0, "cat": ["IAB12"]
        });
        put(&mut object, "content", content);
    }
    Value::Object(object)
}

fn device(is_app: bool, richness: u8, random: &mut Random) -> Value {
    let pick = |random: &mut Random, n: usize| usize::try_from(random.below(n as u64)).unwrap_or(0);
    let agent = AGENTS[pick(random, AGENTS.len())];
    let (country, zone) = COUNTRIES[pick(random, COUNTRIES.len())];
    let ip = format!("198.51.100.{}", random.below(256));
    let mut device = Map::new();
    put(&mut device, "ua", json!(agent));
    put(&mut device, "ip", json!(ip));
    put(&mut device, "devicetype", json!(if is_app { 4 } else { 2 }));
    put(&mut device, "js", json!(1));
    put(&mut device, "lmt", json!(u8::from(random.chance(0.2))));
    if is_app || random.chance(0.3) {
        put(&mut device, "ifa", json!(uuid(random)));
    }
    if richness > 0 {
        let (lat, lon) = (random.below(90), random.below(180));
        put(
            &mut device,
            "geo",
            json!({"country": country, "lat": lat, "lon": lon, "type": 2, "ext": {"tz": zone}}),
        );
        put(&mut device, "language", json!("en"));
        put(&mut device, "os", json!(if is_app { "Android" } else { "Windows" }));
        put(&mut device, "connectiontype", json!(2));
    }
    if richness > 1 {
        put(&mut device, "sua", sua(is_app));
        put(&mut device, "dnt", json!(0));
        let (h, w) = if is_app { (2_400, 1_080) } else { (1_080, 1_920) };
        put(&mut device, "h", json!(h));
        put(&mut device, "w", json!(w));
    }
    Value::Object(device)
}

/// The structured user agent, as browsers tell it to servers.
fn sua(is_app: bool) -> Value {
    let brands = json!([
        {"brand": "Chromium", "version": ["126", "0", "6478", "127"]},
        {"brand": "Not/A)Brand", "version": ["8", "0", "0", "0"]}
    ]);
    let (brand, version) = if is_app { ("Android", "14") } else { ("Windows", "15") };
    let platform = json!({"brand": brand, "version": [version, "0", "0"]});
    json!({"browsers": brands, "platform": platform, "mobile": u8::from(is_app), "source": 2})
}

/// Privacy flags where exchanges of the 2.5 era put them, and where 2.6 does.
fn regs(richness: u8, random: &mut Random) -> Value {
    let gdpr = random.below(2);
    if richness > 1 && random.chance(0.2) {
        return json!({"coppa": 0, "gdpr": gdpr, "gpp": "DBABMA~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA", "gpp_sid": [2]});
    }
    json!({"coppa": 0, "ext": {"gdpr": gdpr}})
}

fn user(richness: u8, random: &mut Random) -> Value {
    let mut user = Map::new();
    if random.chance(0.8) {
        put(&mut user, "id", json!(uuid(random)));
    }
    if random.chance(0.5) {
        put(&mut user, "buyeruid", json!(format!("{:016x}", random.bits())));
    }
    if richness > 0 {
        let segments: Vec<Value> = (0..2 + random.below(5))
            .map(|_| json!({"id": random.below(90_000).to_string()}))
            .collect();
        put(
            &mut user,
            "data",
            json!([{"id": "seg", "name": "segments.example", "segment": segments}]),
        );
    }
    if richness > 1 {
        let consent: String = (0..12).map(|_| format!("{:x}", random.below(1 << 32))).collect();
        put(&mut user, "consent", json!(consent));
    }
    if richness > 0 {
        let sources = ["id.example", "sharedid.example", "login.example"];
        let count = 1 + usize::from(richness > 1 && random.chance(0.3));
        let ids: Vec<Value> = sources
            .iter()
            .take(count)
            .map(|source| json!({"source": source, "uids": [{"id": uuid(random), "atype": 1}]}))
            .collect();
        put(&mut user, "eids", Value::Array(ids));
    }
    Value::Object(user)
}

/// The supply chain, at `source.ext` as 2.5 had it or at `source` as 2.6 has it.
fn source(richness: u8, random: &mut Random) -> Value {
    let resellers = ["exchange.example", "reseller.example", "network.example"];
    let count = usize::from(richness) + usize::from(random.chance(0.3));
    let nodes: Vec<Value> = resellers
        .iter()
        .take(count)
        .map(|asi| json!({"asi": asi, "sid": random.below(10_000).to_string(), "hp": 1}))
        .collect();
    let chain = json!({"complete": 1, "ver": "1.0", "nodes": nodes});
    let (tid, is_old) = (uuid(random), random.chance(0.5));
    if is_old {
        json!({"tid": tid, "fd": 0, "ext": {"schain": chain}})
    } else {
        json!({"tid": tid, "fd": 0, "schain": chain})
    }
}

fn uuid(random: &mut Random) -> String {
    let (a, b) = (random.bits(), random.bits());
    format!(
        "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        (b >> 52) & 0xfff,
        b & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openrtb::map_lines;

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let all = |seed| generate(seed, 20).collect::<Vec<_>>();
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn sizes_are_as_promised() {
        let mut sizes: Vec<usize> = generate(1, 2_000).map(|line| line.len()).collect();
        sizes.sort_unstable();
        assert!(sizes[0] >= 300, "smallest {}", sizes[0]);
        // Three impressions with deals each are the rare exception.
        assert!(
            sizes[sizes.len() * 98 / 100] <= 2_500,
            "98 % within {}",
            sizes[sizes.len() * 98 / 100]
        );
        assert!(
            (1_600..1_800).contains(&sizes[sizes.len() / 2]),
            "median {}",
            sizes[sizes.len() / 2]
        );
    }

    #[test]
    fn every_request_can_be_mapped() {
        let text: String = generate(7, 500).map(|line| line + "\n").collect();
        let (asks, report) = map_lines(text.as_bytes(), &[*b"USD\0", *b"EUR\0"], 1_000);
        assert_eq!((report.lines, report.used, report.bad), (500, 500, 0));
        assert!(asks.len() > 500 && report.without_floor > 0 && report.other_currency > 0);
        assert!(asks.iter().all(|ask| ask.amount > 0));
    }
}
