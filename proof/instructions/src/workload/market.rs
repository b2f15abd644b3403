//! A market to hold auctions in, and requests that ask it: all made up, from seeds.

use gate_auction::{
    Campaign, Creative, Dictionary, Dimension, Format, Index, Price, Space, Targeting,
};
use money::CurrencyCode;
use openrtb::{Ad, AdSpec, Mtype};

use super::random::Random;

/// Campaigns of the market.
pub(super) const CAMPAIGNS: u32 = 4_000;

const COUNTRIES: [&str; 8] = ["USA", "DEU", "FRA", "GBR", "JPN", "BRA", "IND", "CAN"];
const LANGUAGES: [&str; 4] = ["en", "de", "fr", "ja"];
const SYSTEMS: [&str; 4] = ["windows", "android", "ios", "macos"];
const DEVICES: [u32; 4] = [2, 4, 5, 1];
const SIZES: [(u16, u16); 6] =
    [(300, 250), (728, 90), (320, 50), (160, 600), (300, 600), (970, 250)];
const VIDEO: (u16, u16) = (640, 360);
const SEGMENTS: u32 = 400;
const SITES: u32 = 200;
const BRANDS: u32 = 300;
const CATEGORIES: u32 = 24;
const DEALS: u32 = 40;
const SEATS: u32 = 10;

/// The campaigns, as a snapshot of the node has them.
pub(super) struct Market {
    pub(super) words: Dictionary,
    pub(super) index: Index,
    /// What is shown, by slot and creative.
    pub(super) offers: Vec<Offer>,
}

/// What a campaign shows, and in whose name.
pub(super) struct Offer {
    pub(super) seat: String,
    pub(super) cid: String,
    pub(super) ads: Vec<Ad>,
}

/// The currency of everything.
pub(super) fn usd() -> CurrencyCode {
    CurrencyCode::new("USD").expect("a currency")
}

impl Market {
    pub(super) fn new(random: &mut Random) -> Market {
        let mut words = Words(Dictionary::default());
        let both: Vec<(Campaign, Offer)> =
            (1..=u64::from(CAMPAIGNS)).map(|id| campaign(id, &mut words, random)).collect();
        let (campaigns, offers): (Vec<Campaign>, Vec<Offer>) = both.into_iter().unzip();
        let index = Index::build(usd(), &campaigns, 11).expect("sound campaigns");
        // The index has its own order.
        let mut by_id: Vec<Option<Offer>> = offers.into_iter().map(Some).collect();
        let offers = index.ids().iter().map(|id| {
            let place = usize::try_from(*id - 1).expect("ids are small");
            by_id[place].take().expect("every id comes once")
        });
        Market { offers: offers.collect(), index, words: words.0 }
    }
}

/// The dictionary while it is filled.
struct Words(Dictionary);

impl Words {
    fn key(&mut self, space: Space, text: &str) -> u32 {
        self.0.intern(space, text).expect("few texts")
    }

    /// At most two keys, so many times in a hundred.
    fn some(
        &mut self,
        percent: u32,
        space: Space,
        random: &mut Random,
        text: impl Fn(&mut Random) -> String,
    ) -> Vec<u32> {
        if !random.percent(percent) {
            return Vec::new();
        }
        (0..=random.below(2)).map(|_| self.key(space, &text(random))).collect()
    }
}

fn campaign(id: u64, words: &mut Words, random: &mut Random) -> (Campaign, Offer) {
    let brand = brand(random);
    let seat = format!("seat-{}", random.below(SEATS));
    let (creatives, ads) = (0..=random.below(2))
        .map(|number| creative(id * 4 + u64::from(number), &brand, words, random))
        .unzip();
    let campaign = Campaign {
        id,
        bid: Price::from_micros(200_000 + i64::from(random.below(6_000_000))).expect("in range"),
        advertiser: words.key(Space::Domain, &brand),
        seat: words.key(Space::Seat, &seat),
        modifiers: Vec::new(),
        targeting: targeting(words, random),
        creatives,
    };
    (campaign, Offer { seat, cid: format!("campaign-{id}"), ads })
}

fn targeting(words: &mut Words, random: &mut Random) -> Targeting {
    let mut all = Targeting::default();
    let one = |list: &'static [&'static str]| move |r: &mut Random| (*r.one(list)).to_string();
    all.lists_mut(Dimension::Geo).any = words.some(90, Space::Geo, random, one(&COUNTRIES));
    all.lists_mut(Dimension::Segments).any = words.some(45, Space::Segment, random, segment);
    all.lists_mut(Dimension::Segments).none = words.some(10, Space::Segment, random, segment);
    all.lists_mut(Dimension::Supply).any = words.some(8, Space::Supply, random, site);
    all.lists_mut(Dimension::Categories).any = words.some(10, Space::Category, random, category);
    all.lists_mut(Dimension::Oses).any = words.some(25, Space::Os, random, one(&SYSTEMS));
    all.lists_mut(Dimension::Languages).any =
        words.some(10, Space::Language, random, one(&LANGUAGES));
    if random.percent(40) {
        all.lists_mut(Dimension::Devices).any = vec![*random.one(&DEVICES)];
    }
    all.deals = words.some(5, Space::Deal, random, deal);
    all
}

fn creative(id: u64, brand: &str, words: &mut Words, random: &mut Random) -> (Creative, Ad) {
    let is_video = random.percent(15);
    let category = category(random);
    let language = *random.one(&LANGUAGES);
    let creative = Creative {
        id,
        format: if is_video { Format::Video } else { Format::Banner },
        sizes: vec![if is_video { VIDEO } else { *random.one(&SIZES) }],
        domains: vec![words.key(Space::Domain, brand)],
        categories: vec![words.key(Space::Category, &category)],
        attributes: vec![2],
        secure: true,
        duration_s: if is_video { 15 } else { 0 },
        bundle: None,
        language: Some(words.key(Space::Language, language)),
    };
    let ad = Ad::new(&AdSpec {
        crid: &format!("crid-{id}"),
        mtype: if is_video { Mtype::Video } else { Mtype::Banner },
        adomain: &[brand],
        cat: &[&category],
        cattax: 1,
        attr: &[2],
        bundle: None,
        language: Some(language),
        iurl: None,
        duration_s: is_video.then_some(15),
        secure: true,
        markup: if is_video { FILM } else { PICTURE },
    });
    (creative, ad)
}

const PICTURE: &str = "<a href=\"https://shop.example/?p=${AUCTION_PRICE}\"><img src=\"https://cdn.example/a.webp\"></a>";
const FILM: &str = "<VAST version=\"4.0\"><Ad><InLine><Impression><![CDATA[${WEIR_BURL}]]></Impression></InLine></Ad></VAST>";

fn segment(random: &mut Random) -> String {
    format!("{}", 1_000 + random.below(SEGMENTS))
}

fn site(random: &mut Random) -> String {
    format!("site-{}", random.below(SITES))
}

fn brand(random: &mut Random) -> String {
    format!("brand-{}.example", random.below(BRANDS))
}

fn category(random: &mut Random) -> String {
    let (main, sub) = (1 + random.below(CATEGORIES), random.below(6));
    if sub == 0 { format!("IAB{main}") } else { format!("IAB{main}-{sub}") }
}

fn deal(random: &mut Random) -> String {
    format!("deal-{}", random.below(DEALS))
}

fn quoted(count: u32, random: &mut Random, text: impl Fn(&mut Random) -> String) -> String {
    let texts: Vec<String> = (0..count).map(|_| format!("\"{}\"", text(random))).collect();
    texts.join(",")
}

/// A website's bid request with what is usual in one: about 1.5 kB.
pub(super) fn body(random: &mut Random) -> Vec<u8> {
    let imps = if random.percent(85) { 1 } else { 2 + random.below(2) };
    let imps: Vec<String> = (1..=imps).map(|id| impression(id, random)).collect();
    let (user, request) = (random.next(), random.next());
    let segments: Vec<String> =
        (0..random.below(12)).map(|_| format!(r#"{{"id":"{}"}}"#, segment(random))).collect();
    let page = random.next();
    format!(
        r#"{{"id":"{request:016x}-{page:016x}","at":{at},"tmax":200,"cur":["USD"],"imp":[{imps}],"site":{{"id":"{site}","domain":"news-{domain}.example","page":"https://news.example/world/2026/{page:x}/a-long-article-title","cat":[{cat}],"publisher":{{"id":"p-4711","name":"News","domain":"example"}},"content":{{"language":"{language}","keywords":"world,news"}}}},"device":{{"ua":"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36","ip":"198.51.100.23","devicetype":{device},"os":"{os}","osv":"10","js":1,"language":"{language}","w":1920,"h":1080,"dnt":0,"lmt":0,"geo":{{"country":"{country}","region":"CA","type":2}}}},"user":{{"id":"u-{user:x}","buyeruid":"b-{user:032x}","data":[{{"id":"dp-1","name":"provider","segment":[{segments}]}}]}},"regs":{{"ext":{{"gdpr":0,"us_privacy":"1YNN"}}}},"source":{{"tid":"{request:032x}","ext":{{"schain":{{"ver":"1.0","complete":1,"nodes":[{{"asi":"exchange.example","sid":"4711","hp":1}}]}}}}}},"bcat":[{bcat}],"badv":[{badv}]}}"#,
        at = 1 + random.below(2),
        imps = imps.join(","),
        site = site(random),
        domain = random.below(SITES),
        cat = quoted(2, random, category),
        language = random.one(&LANGUAGES),
        device = random.one(&DEVICES),
        os = random.one(&SYSTEMS),
        country = random.one(&COUNTRIES),
        segments = segments.join(","),
        bcat = quoted(3, random, category),
        badv = quoted(2, random, brand),
    )
    .into_bytes()
}

fn impression(id: u32, random: &mut Random) -> String {
    let shown = if random.percent(20) {
        let (width, height) = VIDEO;
        format!(
            r#""video":{{"mimes":["video/mp4","video/webm"],"minduration":5,"maxduration":30,"protocols":[2,3,5,6],"w":{width},"h":{height},"playbackmethod":[1,2],"api":[1,2],"battr":[13,14]}}"#
        )
    } else {
        let sizes: Vec<String> = (0..=random.below(3))
            .map(|_| *random.one(&SIZES))
            .map(|(width, height)| format!(r#"{{"w":{width},"h":{height}}}"#))
            .collect();
        format!(
            r#""banner":{{"format":[{}],"pos":1,"battr":[1,3,8],"api":[5,7]}}"#,
            sizes.join(",")
        )
    };
    let deals = if random.percent(20) {
        let deal = deal(random);
        format!(
            r#","pmp":{{"private_auction":0,"deals":[{{"id":"{deal}","bidfloor":2.5,"bidfloorcur":"USD","at":1}}]}}"#
        )
    } else {
        String::new()
    };
    let floor = random.below(200);
    format!(
        r#"{{"id":"{id}","tagid":"/1234/news/top","secure":1,"bidfloor":{}.{:02},"bidfloorcur":"USD",{shown}{deals},"exp":300,"ext":{{"gpid":"/1234/news/top#{id}"}}}}"#,
        floor / 100,
        floor % 100
    )
}
