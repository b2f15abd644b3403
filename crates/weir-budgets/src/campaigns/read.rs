//! A line's fields as a campaign, every fault told.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use gate_profile::Window;
use money::{Scale, Unit};
use serde_json::Value;

use super::fields::{Object, amount, boolean, shown, text, whole_number_in, word};
use super::hours::{self, Hours};
use super::native::native_set;
use super::video::{VIDEO_FIELDS, add_skippable, video};
use super::{
    BID_MICROS_MAX, CAP_WINDOWS, CAPS_MAX, CREATIVE_LIST_MAX, CREATIVES_MAX, Campaign, Cap, CapOf,
    Creative, DURATION_S_MAX, FACTOR_MAX, FACTOR_ONE, Format, LIST_MAX, Lists, MARKUP_BYTES_MAX,
    MODIFIERS_MAX, Modifier, ReserveRule, SAFETY_MAX, TEXT_BYTES_MAX, Targeting, normal,
};

/// What a line has beside the budget's fields if it is a campaign. One of them makes it one.
pub(crate) const CAMPAIGN_FIELDS: [&str; 8] =
    ["bid", "modifiers", "seat", "advertiser", "hold", "caps", "targeting", "creatives"];
pub(super) const MODIFIER_FIELDS: [&str; 2] = ["segment", "factor"];
pub(super) const HOLD_FIELDS: [&str; 1] = ["expected"];
pub(super) const EXPECTED_FIELDS: [&str; 2] = ["win_rate", "safety"];
pub(super) const CAP_FIELDS: [&str; 3] = ["per", "max", "of"];
pub(super) const TARGETING_FIELDS: [&str; 13] = [
    "segments",
    "geo",
    "devices",
    "os",
    "languages",
    "supply",
    "domains",
    "bundles",
    "categories",
    "hours",
    "deals",
    "deals_only",
    "video",
];
pub(super) const SEGMENTS_FIELDS: [&str; 3] = ["any", "all", "none"];
pub(super) const LISTS_FIELDS: [&str; 2] = ["any", "none"];
pub(super) const CREATIVE_FIELDS: [&str; 12] = [
    "id",
    "format",
    "sizes",
    "adomain",
    "cat",
    "attr",
    "markup",
    "secure",
    "duration_s",
    "bundle",
    "language",
    "click",
];

/// Device types: the words and OpenRTB's numbers that they stand for.
pub(super) const DEVICES: [(&str, &[u8]); 8] = [
    // Exchanges say 4 or 5 where they can tell, 1 where they cannot.
    ("mobile", &[1, 4, 5]),
    ("pc", &[2]),
    ("tv", &[3]),
    ("phone", &[4]),
    ("tablet", &[5]),
    ("connected", &[6]),
    ("settop", &[7]),
    ("ooh", &[8]),
];

/// The campaign of a line, `None` if it has none or has faults.
pub(crate) fn campaign(
    line: &mut Object<'_, '_>,
    id: u64,
    name: &str,
    unit: Unit,
) -> Option<Campaign> {
    if CAMPAIGN_FIELDS.iter().all(|field| line.value(field).is_none()) {
        return None;
    }
    let currency = match unit {
        Unit::Currency(currency, Scale::Micros) => Some(currency),
        // A price for 1000 impressions is in micros, and a purse of nanos could not say which it is.
        Unit::Currency(currency, Scale::Nanos) => {
            let why = format!(
                "found \"{unit}\", expected {:?}: a campaign bids micros, not nanos",
                currency.as_str()
            );
            line.fault("unit", why);
            None
        }
        Unit::Count => {
            line.fault("unit", "found \"count\", expected a currency: a campaign bids money");
            None
        }
    };
    let bid_micros = line.required("bid", |value| bid(value, unit));
    let modifiers = modifiers(line);
    let seat = line.optional("seat", id_text);
    let advertiser = line.optional("advertiser", domain);
    let hold = hold(line);
    let caps = caps(line);
    let targeting = line.object("targeting", &TARGETING_FIELDS, targeting).unwrap_or_default();
    let creatives = creatives(line);
    let of_first = || creatives.first()?.adomain.first().cloned();
    Some(Campaign {
        id,
        name: name.to_string(),
        currency: currency?,
        bid_micros: bid_micros?,
        modifiers,
        seat,
        advertiser: advertiser.or_else(of_first)?,
        hold,
        caps,
        targeting,
        creatives,
    })
}

fn bid(value: &Value, unit: Unit) -> Result<i64, String> {
    let micros = amount(value, unit)?.get();
    // Of a unit that no campaign can have, the unit's fault says enough.
    let sound =
        !matches!(unit, Unit::Currency(_, Scale::Micros)) || (1..=BID_MICROS_MAX).contains(&micros);
    sound.then_some(micros).ok_or_else(|| {
        format!("found {}, expected 0.000001 to 1000000 for 1000 impressions", shown(value))
    })
}

fn modifiers(line: &mut Object<'_, '_>) -> Vec<Modifier> {
    let mut seen = HashSet::new();
    line.objects("modifiers", 0..=MODIFIERS_MAX, &MODIFIER_FIELDS, |object| {
        let segment = object.required("segment", id_text);
        let factor = object.required("factor", |value| decimal(value, 0..=FACTOR_MAX));
        if segment.as_ref().is_some_and(|segment| !seen.insert(segment.clone())) {
            object.fault("segment", "appears twice; one factor for each segment");
        }
        Some(Modifier { segment: segment?, factor: factor? })
    })
}

fn hold(line: &mut Object<'_, '_>) -> ReserveRule {
    if !line.value("hold").is_some_and(Value::is_object) {
        let full = |value: &Value| {
            let expected = "\"full\" or {\"expected\":{\"win_rate\":\"0.2\",\"safety\":\"1.5\"}}";
            text(value, expected, |word| (word == "full").then_some(ReserveRule::Full))
        };
        return line.optional("hold", full).unwrap_or_default();
    }
    let expected = line.object("hold", &HOLD_FIELDS, |hold| {
        hold.demand("expected");
        hold.object("expected", &EXPECTED_FIELDS, |expected| {
            let win_rate = expected.required("win_rate", |value| decimal(value, 1..=FACTOR_ONE));
            let safety =
                expected.required("safety", |value| decimal(value, FACTOR_ONE..=SAFETY_MAX));
            Some(ReserveRule::Expected { win_rate: win_rate?, safety: safety? })
        })
    });
    expected.flatten().flatten().unwrap_or_default()
}

fn caps(line: &mut Object<'_, '_>) -> Vec<Cap> {
    let mut seen: Vec<Cap> = Vec::new();
    line.objects("caps", 0..=CAPS_MAX, &CAP_FIELDS, |object| {
        let per = object.required("per", |value| word(value, &CAP_WINDOWS));
        let most = per.map_or(u16::MAX, Window::limit_max);
        let max = object.required("max", |value| number(value, 1..=most));
        let of = object.optional("of", |value| word(value, &CapOf::ALL)).unwrap_or_default();
        let cap = Cap { per: per?, max: max?, of };
        if seen.iter().any(|other| (other.per, other.of) == (cap.per, cap.of)) {
            object.fault("per", "appears twice; one cap for each window and what it counts");
        }
        seen.push(cap);
        Some(cap)
    })
}

fn targeting(object: &mut Object<'_, '_>) -> Targeting {
    let (segments, segments_all) =
        object.object("segments", &SEGMENTS_FIELDS, segments).unwrap_or_default();
    let mut domains = lists(object, "domains", one(domain));
    domains.add(lists(object, "bundles", one(id_text)));
    let targeting = Targeting {
        segments,
        segments_all,
        geo: lists(object, "geo", one(place)),
        devices: lists(object, "devices", devices),
        os: lists(object, "os", one(form(normal::os))),
        languages: lists(object, "languages", one(language)),
        supply: lists(object, "supply", one(id_text)),
        domains,
        categories: lists(object, "categories", one(form(normal::category))),
        hours: week_hours(object),
        deals: set(object, "deals", &one(id_text)),
        deals_only: object.optional("deals_only", boolean).unwrap_or(false),
        video: object.object("video", &VIDEO_FIELDS, video).unwrap_or_default(),
    };
    if targeting.deals_only && object.value("deals").is_none_or(is_empty_list) {
        object.fault("deals_only", "is true, but there are no deals; name its deals");
    }
    targeting
}

fn is_empty_list(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// `any` and `none`, and `all` by itself.
fn segments(object: &mut Object<'_, '_>) -> (Lists<String>, Vec<String>) {
    let lists = any_and_none(object, &one(id_text));
    let all = set(object, "all", &one(id_text));
    refuse_shared(object, ("all", &all), ("none", &lists.none));
    (lists, all)
}

pub(super) fn lists<T: Ord, E: IntoIterator<Item = T>>(
    object: &mut Object<'_, '_>,
    name: &str,
    read: impl Fn(&Value) -> Result<E, String>,
) -> Lists<T> {
    object.object(name, &LISTS_FIELDS, |object| any_and_none(object, &read)).unwrap_or_default()
}

fn any_and_none<T: Ord, E: IntoIterator<Item = T>>(
    object: &mut Object<'_, '_>,
    read: &impl Fn(&Value) -> Result<E, String>,
) -> Lists<T> {
    let lists = Lists { any: set(object, "any", read), none: set(object, "none", read) };
    refuse_shared(object, ("any", &lists.any), ("none", &lists.none));
    lists
}

/// A list as a set: sorted, nothing twice. An entry may stand for several values.
fn set<T: Ord, E: IntoIterator<Item = T>>(
    object: &mut Object<'_, '_>,
    name: &str,
    read: &impl Fn(&Value) -> Result<E, String>,
) -> Vec<T> {
    let entries = object.list(name, 0..=LIST_MAX, read);
    let mut values: Vec<T> = entries.into_iter().flatten().collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// What is wanted and unwanted at once is never met: a mistake. Both lists are sorted.
fn refuse_shared<T: Ord>(
    object: &mut Object<'_, '_>,
    (wanted_name, wanted): (&str, &[T]),
    (unwanted_name, unwanted): (&str, &[T]),
) {
    if wanted.iter().any(|value| unwanted.binary_search(value).is_ok()) {
        let text = format!("has an entry of {wanted_name}; it can be in one of the two only");
        object.fault(unwanted_name, text);
    }
}

impl<T: Ord> Lists<T> {
    fn add(&mut self, other: Lists<T>) {
        for (list, more) in [(&mut self.any, other.any), (&mut self.none, other.none)] {
            list.extend(more);
            list.sort_unstable();
            list.dedup();
        }
    }
}

fn week_hours(object: &mut Object<'_, '_>) -> Option<Hours> {
    object.value("hours")?;
    let entries = object.list("hours", 1..=usize::from(hours::WEEK), |value| {
        let hours = match value {
            Value::String(text) => Hours::parse(text),
            other => other.as_u64().and_then(|hour| Hours::one(u8::try_from(hour).ok()?)),
        };
        hours.ok_or_else(|| {
            let last = hours::WEEK - 1;
            let found = shown(value);
            format!("found {found}, expected 0 to {last}, or text such as \"mon-fri 08-20\"")
        })
    });
    Some(entries.into_iter().fold(Hours::default(), Hours::with))
}

fn creatives(line: &mut Object<'_, '_>) -> Vec<Creative> {
    line.demand("creatives");
    let mut seen = HashSet::new();
    line.objects("creatives", 1..=CREATIVES_MAX, &CREATIVE_FIELDS, |object| {
        let creative = creative(object)?;
        if !seen.insert(creative.id.clone()) {
            object.fault("id", "appears twice; every creative of a campaign has its own");
        }
        Some(creative)
    })
}

fn creative(object: &mut Object<'_, '_>) -> Option<Creative> {
    let id = object.required("id", id_text);
    let format = object.required("format", |value| word(value, &Format::ALL));
    let sizes = sizes(object, format);
    object.demand("adomain");
    let adomain = object.list("adomain", 1..=CREATIVE_LIST_MAX, domain);
    let cat = object.list("cat", 0..=CREATIVE_LIST_MAX, form(normal::category));
    let mut attr = object.list("attr", 0..=CREATIVE_LIST_MAX, |value| number(value, 1..=u16::MAX));
    let markup = object.required("markup", markup);
    let native = markup.as_deref().filter(|_| format == Some(Format::Native));
    if let Some(Err(why)) = native.map(native_set) {
        object.fault("markup", why);
    }
    let video = markup.as_deref().filter(|_| format == Some(Format::Video));
    video.into_iter().for_each(|markup| add_skippable(markup, &mut attr));
    let secure = object.optional("secure", boolean).unwrap_or(true);
    let duration_s = duration_s(object, format);
    let bundle = object.optional("bundle", id_text);
    let language = object.optional("language", language);
    let click = super::click::read(object, markup.as_deref());
    Some(Creative {
        id: id?,
        format: format?,
        sizes,
        adomain,
        cat,
        attr,
        markup: markup?,
        secure,
        duration_s,
        bundle,
        language,
        click,
    })
}

/// A banner has sizes; what else has none fits all.
fn sizes(object: &mut Object<'_, '_>, format: Option<Format>) -> Vec<(u16, u16)> {
    const ANY: (u16, u16) = (0, 0);
    match object.value("sizes") {
        None if format == Some(Format::Banner) => {
            object.fault("sizes", "missing; a banner has sizes such as [\"300x250\"], or \"any\"");
            Vec::new()
        }
        None => vec![ANY],
        Some(value @ Value::String(_)) => {
            let expected = "\"any\" or a list such as [\"300x250\"]";
            let any = text(value, expected, |text| (text == "any").then_some(vec![ANY]));
            object.optional("sizes", |_| any).unwrap_or_default()
        }
        Some(_) => object.list("sizes", 1..=CREATIVE_LIST_MAX, |value| {
            text(value, "width x height in pixels such as \"300x250\"", size)
        }),
    }
}

fn size(text: &str) -> Option<(u16, u16)> {
    let pixels = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|pixels| digits && *pixels > 0)
    };
    let (width, height) = text.split_once('x')?;
    Some((pixels(width)?, pixels(height)?))
}

fn duration_s(object: &mut Object<'_, '_>, format: Option<Format>) -> Option<u32> {
    if format.is_some_and(Format::plays) {
        object.demand("duration_s");
    } else if format.is_some() && object.value("duration_s").is_some() {
        object.fault("duration_s", "only video and audio have one");
    }
    object.optional("duration_s", |value| number(value, 1..=DURATION_S_MAX))
}

fn markup(value: &Value) -> Result<String, String> {
    let expected = format!("text of 1 to {MARKUP_BYTES_MAX} bytes that is not blank");
    let sound = |text: &&str| text.len() <= MARKUP_BYTES_MAX && !text.trim().is_empty();
    text(value, &expected, |text| Some(text).filter(sound).map(str::to_string))
}

/// Text that names something: not empty, not long, no white space around it, no control characters.
fn id_text(value: &Value) -> Result<String, String> {
    form(|text| text.into())(value)
}

/// As [`id_text`], in its normal form.
fn form(
    form: impl Fn(&str) -> std::borrow::Cow<'_, str>,
) -> impl Fn(&Value) -> Result<String, String> {
    move |value| {
        let sound = |text: &&str| {
            let length = (1..=TEXT_BYTES_MAX).contains(&text.len());
            length && text.trim() == *text && !text.chars().any(char::is_control)
        };
        value.as_str().filter(sound).map(|text| form(text).into_owned()).ok_or_else(|| {
            format!(
                "found {}, expected text of 1 to {TEXT_BYTES_MAX} bytes without white space around it",
                shown(value)
            )
        })
    }
}

fn domain(value: &Value) -> Result<String, String> {
    let label = |label: &str| {
        let sound = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(sound)
    };
    let sound = |text: &str| {
        text.len() <= TEXT_BYTES_MAX && text.contains('.') && text.split('.').all(label)
    };
    text(value, "a domain such as \"brand.example\" (other letters as \"xn--...\")", |text| {
        let domain = normal::domain(text);
        sound(&domain).then(|| domain.into_owned())
    })
}

fn place(value: &Value) -> Result<String, String> {
    let sound = |region: &str| {
        (1..=3).contains(&region.len()) && region.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let expected = "a country of ISO 3166 such as \"DEU\", or a region such as \"USA-CA\"";
    text(value, expected, |text| match text.split_once('-') {
        None => normal::find_country(text).map(str::to_string),
        Some((country, region)) => {
            let country = normal::find_country(country).filter(|_| sound(region))?;
            let mut room = String::new();
            normal::region(country, region, &mut room);
            Some(room)
        }
    })
}

fn language(value: &Value) -> Result<String, String> {
    text(value, "a language such as \"en\"", |text| {
        let tag = normal::language(text);
        let sound = (2..=8).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_lowercase());
        sound.then(|| tag.into_owned())
    })
}

fn devices(value: &Value) -> Result<Vec<u8>, String> {
    let number = value.as_u64().and_then(|number| u8::try_from(number).ok());
    match number {
        Some(number @ 1..=8) => Ok(vec![number]),
        _ => word(value, &DEVICES)
            .map(<[u8]>::to_vec)
            .map_err(|text| format!("{text}, or a number from 1 to 8")),
    }
}

pub(super) fn number<T: TryFrom<u64>>(value: &Value, range: RangeInclusive<T>) -> Result<T, String>
where
    u64: From<T>,
{
    let (least, most) = range.into_inner();
    let number = whole_number_in(value, least.into()..=most.into())?;
    T::try_from(number).map_err(|_| format!("found {}, which is too large", shown(value)))
}

/// A decimal text with at most four decimals, or a whole number; in parts of [`FACTOR_ONE`].
fn decimal(value: &Value, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = match value {
        Value::String(text) => parse_decimal(text),
        Value::Number(number) => {
            number.as_u64().and_then(|whole| parse_decimal(&whole.to_string()))
        }
        _ => None,
    };
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = range.into_inner();
        let (least, most) = (decimal_text(least), decimal_text(most));
        let found = shown(value);
        format!("found {found}, expected text from \"{least}\" to \"{most}\", at most 4 decimals")
    })
}

/// Reads digits with at most four decimals, in ten-thousandths.
pub(crate) fn parse_decimal(text: &str) -> Option<u32> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str, most: usize| {
        let sound = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        sound.then(|| text.parse::<u32>().ok()).flatten()
    };
    let (whole, parts) = (digits(whole, 4)?, digits(&format!("{decimals:0<4}"), 4)?);
    let sound = !decimals.is_empty();
    sound.then_some(whole * FACTOR_ONE + parts)
}

fn decimal_text(number: u32) -> String {
    let text = format!("{}.{:04}", number / FACTOR_ONE, number % FACTOR_ONE);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A reader of one value as a reader of a list of one.
pub(super) fn one<T>(
    read: impl Fn(&Value) -> Result<T, String>,
) -> impl Fn(&Value) -> Result<[T; 1], String> {
    move |value| read(value).map(|value| [value])
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::super::fields::Faults;
    use super::*;

    fn read(more: &Value) -> Result<Campaign, Vec<String>> {
        let mut line = json!({"bid": "2.50", "creatives": [{"id": "a", "format": "banner", "sizes": "any",
            "adomain": ["WWW.Brand.Example"], "markup": "<b>"}]});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read_line(line.as_object().unwrap())
    }

    fn read_line(line: &Map<String, Value>) -> Result<Campaign, Vec<String>> {
        let mut faults = Faults::default();
        let mut object = Object::new(line, &[&CAMPAIGN_FIELDS], &mut faults);
        let usd = Unit::parse("USD").unwrap();
        let campaign = campaign(&mut object, 7, "seven", usd);
        campaign.filter(|_| faults.is_empty()).ok_or_else(|| faults.into_texts())
    }

    fn targeting_of(targeting: &Value) -> Targeting {
        read(&json!({"targeting": targeting})).unwrap().targeting
    }

    #[test]
    fn defaults() {
        let campaign = read(&json!({"targeting": null})).unwrap();
        assert_eq!((campaign.id, campaign.name.as_str()), (7, "seven"));
        assert_eq!((campaign.bid_micros, campaign.currency.as_str()), (2_500_000, "USD"));
        assert_eq!((campaign.hold, campaign.seat), (ReserveRule::Full, None));
        assert_eq!(campaign.advertiser, "brand.example");
        assert_eq!(campaign.targeting, Targeting::default());
        let creative = &campaign.creatives[0];
        assert_eq!((creative.sizes.as_slice(), creative.secure), (&[(0, 0)][..], true));
        let video = json!({"id": "v", "format": "video", "duration_s": 15, "adomain": ["b.example"], "markup": "<VAST/>"});
        let campaign = read(&json!({"creatives": [video], "advertiser": "Other.example"})).unwrap();
        assert_eq!(
            (campaign.creatives[0].sizes[0], campaign.creatives[0].duration_s),
            ((0, 0), Some(15))
        );
        assert_eq!(campaign.advertiser, "other.example");
    }

    #[test]
    fn a_video_that_people_can_skip_says_so() {
        let attr = |markup: &str, attr: Value| {
            let video = json!({"id": "v", "format": "video", "duration_s": 15, "adomain": ["b.example"], "markup": markup,
                "attr": attr});
            read(&json!({"creatives": [video]})).unwrap().creatives[0].attr.clone()
        };
        let skippable = "<VAST><Linear skipoffset=\"00:00:05\"></Linear></VAST>";
        assert_eq!(attr(skippable, json!([3])), [3, 16]);
        assert_eq!(attr(skippable, json!([16])), [16]);
        assert_eq!(attr("<VAST><Linear></Linear></VAST>", json!([3])), [3]);
        let many: Vec<u16> = (100..100 + u16::try_from(CREATIVE_LIST_MAX).unwrap()).collect();
        assert_eq!(attr(skippable, json!(many)).last(), Some(&16), "it is never left out");
    }

    #[test]
    fn texts_come_out_sorted_once_and_in_normal_form() {
        let targeting = targeting_of(&json!({
            "geo": {"any": ["us", "USA", "US-ca", "DEU"]},
            "devices": {"any": ["phone", 2, "mobile"], "none": ["tv"]},
            "os": {"none": ["Mac OS X", "macOS"]},
            "languages": {"any": ["en-US"]},
            "domains": {"any": ["WWW.News.Example"]}, "bundles": {"any": ["com.App", "1234"]},
            "categories": {"none": ["iab25"]},
            "segments": {"any": ["S", "s"], "all": ["t"]},
            "hours": [167, "mon 0-2"],
        }));
        assert_eq!(targeting.geo.any, ["DEU", "USA", "USA-CA"]);
        assert_eq!((targeting.devices.any, targeting.devices.none), (vec![1, 2, 4, 5], vec![3]));
        assert_eq!(targeting.os.none, ["macos"]);
        assert_eq!(targeting.languages.any, ["en"]);
        assert_eq!(targeting.domains.any, ["1234", "com.App", "news.example"]);
        assert_eq!(targeting.categories.none, ["IAB25"]);
        assert_eq!(
            (targeting.segments.any, targeting.segments_all),
            (vec!["S".into(), "s".into()], vec!["t".into()])
        );
        assert_eq!(targeting.hours.unwrap().iter().collect::<Vec<_>>(), [0, 1, 167]);
    }

    /// How the faults of the campaign below begin.
    const FAULTS: [&str; 45] = [
        "colour: there is no such field",
        "bid: found \"0\", expected 0.000001 to 1000000",
        "modifiers[0].factor: found \"100.0001\", expected text from \"0\" to \"100\"",
        "modifiers[1].factor: found \"1.00001\"",
        "modifiers[1].segment: appears twice",
        "modifiers[2].segment: missing",
        "seat: found \" s\"",
        "advertiser: found \"nowhere\", expected a domain",
        "hold.expected.win_rate: found \"0\", expected text from \"0.0001\" to \"1\"",
        "hold.expected.safety: found \"0.9\", expected text from \"1\" to \"100\"",
        "caps[1].per: appears twice",
        "caps[2].per: found \"year\", expected \"minute\"",
        "caps[2].max: found 70000, expected a whole number from 1 to 65535",
        "caps[3].max: found 256, expected a whole number from 1 to 255",
        "targeting.segments.none: has an entry of any",
        "targeting.segments.none: has an entry of all",
        "targeting.geo.all: there is no such field",
        "targeting.geo.any[1]: found \"GER\", expected a country",
        "targeting.geo.any[2]: found \"USA-\"",
        "targeting.devices.any[0]: found \"fridge\", expected \"mobile\"",
        "targeting.devices.any[1]: found 9",
        "targeting.languages.any[0]: found \"e\"",
        "targeting.domains.any[0]: found \"b\u{fc}cher.example\"",
        "targeting.domains.any[1]: found \"a..b\"",
        "targeting.hours[0]: found \"noon\", expected 0 to 167",
        "targeting.hours[1]: found 168",
        "targeting.deals_only: is true, but there are no deals",
        "creatives[1].sizes[0]: found \"300\"",
        "creatives[1].sizes[1]: found \"0x5\"",
        "creatives[1].sizes[2]: found \"1x+1\"",
        "creatives[1].sizes[3]: found \"70000x1\"",
        "creatives[1].id: appears twice",
        "creatives[2].sizes: missing; a banner has sizes",
        "creatives[2].markup: found \"  \"",
        "creatives[2].duration_s: only video and audio",
        "creatives[2].attr[0]: found 0",
        "creatives[2].attr[1]: found 1.5",
        "creatives[3].adomain: missing",
        "creatives[3].sizes: found \"all\", expected \"any\"",
        "creatives[3].duration_s: missing",
        "creatives[4].format: found \"popup\"",
        "creatives[4].language: found \"1\"",
        "creatives[4].secure: found 1",
        "creatives[1].click: missing; ${WEIR_CLICK}",
        "creatives[4].click: found \"javascript:alert(1)\", expected http:// or https://",
    ];

    #[test]
    fn every_fault_is_told_with_its_path() {
        let creative = |id: &str, more: Value| {
            let mut all = json!({"id": id, "format": "banner", "sizes": ["300x250"], "adomain": ["b.example"], "markup": "m"});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let errors = read(&json!({
            "bid": "0", "seat": " s", "advertiser": "nowhere", "colour": 1,
            "modifiers": [{"segment": "a", "factor": "100.0001"}, {"segment": "a", "factor": "1.00001"}, {"factor": 1}],
            "hold": {"expected": {"win_rate": "0", "safety": "0.9"}},
            "caps": [{"per": "day", "max": 1}, {"per": "day", "max": 2}, {"per": "year", "max": 70_000},
                {"per": "rolling-day", "max": 256}],
            "targeting": {
                "segments": {"any": ["a"], "all": ["b"], "none": ["a", "b"]},
                "geo": {"any": ["USA", "GER", "USA-"], "all": []},
                "devices": {"any": ["fridge", 9]},
                "languages": {"any": ["e"]},
                "domains": {"any": ["b\u{fc}cher.example", "a..b"]},
                "hours": ["noon", 168], "deals_only": true,
            },
            "creatives": [
                creative("a", json!({})), creative("a", json!({"sizes": ["300", "0x5", "1x+1", "70000x1"], "markup": "${WEIR_CLICK_ESC}"})),
                creative("c", json!({"sizes": null, "markup": "  ", "duration_s": 3, "attr": [0, 1.5]})),
                creative("d", json!({"format": "video", "adomain": null, "sizes": "all"})),
                creative("e", json!({"format": "popup", "language": "1", "secure": 1, "click": "javascript:alert(1)"})),
            ],
        }))
        .unwrap_err();
        for expected in FAULTS {
            let told = errors.iter().filter(|error| error.starts_with(expected)).count();
            assert_eq!(told, 1, "{expected} in {errors:#?}");
        }
        assert_eq!(errors.len(), FAULTS.len(), "{errors:#?}");
    }

    #[test]
    fn a_campaign_is_whole() {
        let line = json!({"seat": "s"});
        let errors = read_line(line.as_object().unwrap()).unwrap_err();
        assert_eq!(errors, ["bid: missing; it is required", "creatives: missing; it is required"]);
        let mut faults = Faults::default();
        let plain = Map::new();
        let mut object = Object::new(&plain, &[&CAMPAIGN_FIELDS], &mut faults);
        assert_eq!(campaign(&mut object, 1, "plain", Unit::Count), None);
        assert!(faults.is_empty());
    }

    #[test]
    fn a_campaign_of_a_budget_in_nanos_is_refused() {
        let line = serde_json::json!({"bid": "1.5"});
        let mut faults = Faults::default();
        let mut object = Object::new(line.as_object().unwrap(), &[&CAMPAIGN_FIELDS], &mut faults);
        let nanos = Unit::parse("USDn").unwrap();
        assert_eq!(campaign(&mut object, 1, "nanos", nanos), None);
        let told = faults.into_texts();
        let expected = "unit: found \"USDn\", expected \"USD\": a campaign bids micros, not nanos";
        assert!(told.iter().any(|error| error == expected), "{told:#?}");
    }

    #[test]
    fn limits_are_kept() {
        let many =
            |count: usize| -> Vec<Value> { (0..count).map(|i| json!(i.to_string())).collect() };
        let deals = |count: usize| read(&json!({"targeting": {"deals": many(count)}})).is_ok();
        assert!(deals(LIST_MAX) && !deals(LIST_MAX + 1));
        let seat = |len: usize| read(&json!({"seat": "s".repeat(len)})).is_ok();
        assert!(seat(TEXT_BYTES_MAX) && !seat(TEXT_BYTES_MAX + 1));
        let creatives = |count: usize, markup: usize| {
            let creative = |i: usize| {
                json!({"id": i.to_string(), "format": "banner", "sizes": "any", "adomain": ["b.example"],
                "markup": "m".repeat(markup)})
            };
            let creatives: Vec<Value> = (0..count).map(creative).collect();
            read(&json!({"creatives": creatives})).is_ok()
        };
        assert!(
            creatives(CREATIVES_MAX, 1) && !creatives(CREATIVES_MAX + 1, 1) && !creatives(0, 1)
        );
        assert!(creatives(1, MARKUP_BYTES_MAX) && !creatives(1, MARKUP_BYTES_MAX + 1));
        let bid = |text: &str| read(&json!({"bid": text})).is_ok();
        assert!(bid("0.000001") && bid("1000000") && !bid("1000000.000001") && !bid("-1"));
    }

    #[test]
    fn decimals_by_table() {
        for (text, expected) in [
            ("1.25", Some(12_500)),
            ("0", Some(0)),
            ("100", Some(1_000_000)),
            ("0.0001", Some(1)),
            ("9999.9999", Some(99_999_999)),
            ("1.", None),
            (".5", None),
            ("", None),
            ("1.00000", None),
            ("+1", None),
            ("1.+5", None),
            ("1e3", None),
            ("10000", None),
        ] {
            assert_eq!(parse_decimal(text), expected, "{text}");
        }
        assert_eq!([1, 10_000, 12_500].map(decimal_text), ["0.0001", "1", "1.25"]);
    }
}
