//! The published schema and page against the reader: neither may know what the other does not.

use serde_json::{Value, json};

use super::json_schema::{is_valid, schema};
use super::read::{
    CAP_FIELDS, CREATIVE_FIELDS, DEVICES, EXPECTED_FIELDS, HOLD_FIELDS, LISTS_FIELDS,
    MODIFIER_FIELDS, SEGMENTS_FIELDS, TARGETING_FIELDS,
};
use super::video::{PLACEMENTS, PLCMTS, STARTS, VIDEO_FIELDS};
use super::{
    CAMPAIGN_FIELDS, CAP_WINDOWS, CAPS_MAX, CREATIVE_LIST_MAX, CREATIVES_MAX, CapOf,
    DURATION_S_MAX, Format, LIST_MAX, MARKUP_BYTES_MAX, MODIFIERS_MAX, TEXT_BYTES_MAX,
};
use crate::budgets::{self, FIELDS};
use crate::orders;

const PAGE: &str = include_str!("../../../../docs/campaigns.md");

fn is_read(line: &Value) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.jsonl");
    std::fs::write(&file, line.to_string()).unwrap();
    budgets::read(&file).is_ok()
}

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<&'static str> {
    let start = format!("```{language}\n");
    PAGE.split(&start).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// The page's full example, on one line in the page's file.
fn example() -> Value {
    serde_json::from_str(blocks("json").first().unwrap()).unwrap()
}

/// All objects of the schema and what the reader knows in them.
fn objects() -> Vec<(&'static str, Vec<&'static str>)> {
    let line = [&FIELDS[..], &CAMPAIGN_FIELDS].concat();
    let mut objects = vec![
        ("", line),
        ("/$defs/modifier", MODIFIER_FIELDS.to_vec()),
        ("/$defs/hold", HOLD_FIELDS.to_vec()),
        ("/$defs/expected", EXPECTED_FIELDS.to_vec()),
        ("/$defs/cap", CAP_FIELDS.to_vec()),
        ("/$defs/targeting", TARGETING_FIELDS.to_vec()),
        ("/$defs/segments", SEGMENTS_FIELDS.to_vec()),
        ("/$defs/video", VIDEO_FIELDS.to_vec()),
        ("/$defs/creative", CREATIVE_FIELDS.to_vec()),
        ("/$defs/orders", orders::KEYS.to_vec()),
    ];
    let lists = [
        "/$defs/texts",
        "/$defs/domains",
        "/$defs/places",
        "/$defs/languages",
        "/$defs/devices",
        "/$defs/plcmts",
        "/$defs/placements",
        "/$defs/starts",
        "/$defs/playback_methods",
    ];
    objects.extend(lists.map(|pointer| (pointer, LISTS_FIELDS.to_vec())));
    objects
}

#[test]
fn schema_and_reader_know_the_same_fields() {
    let schema = schema();
    let objects = objects();
    for (pointer, fields) in &objects {
        let properties = schema.pointer(pointer).unwrap()["properties"].as_object().unwrap();
        let mut fields = fields.clone();
        fields.sort_unstable();
        assert_eq!(properties.keys().collect::<Vec<_>>(), fields, "{pointer}");
        for (name, property) in properties {
            assert!(property["description"].is_string(), "{pointer}: {name} is not described");
        }
    }
    let defined = schema["$defs"].as_object().unwrap().values();
    let with_fields = defined.filter(|defined| defined.get("properties").is_some()).count();
    assert_eq!(with_fields + 1, objects.len(), "an object of the schema is not compared");
}

#[test]
fn schema_and_reader_know_the_same_words_and_limits() {
    let schema = schema();
    let at = |pointer: &str| schema.pointer(pointer).unwrap().clone();
    let words = |words: &[&str]| json!(words);
    let cap = "/$defs/cap/properties";
    assert_eq!(at(&format!("{cap}/per/enum")), words(&CAP_WINDOWS.map(|word| word.0)));
    let of: Vec<_> = CapOf::ALL.iter().map(|word| json!(word.0)).chain([Value::Null]).collect();
    assert_eq!(at(&format!("{cap}/of/enum")), json!(of));
    let creative = "/$defs/creative/properties";
    assert_eq!(at(&format!("{creative}/format/enum")), words(&Format::ALL.map(|word| word.0)));
    assert_eq!(at("/$defs/device/anyOf/0/enum"), words(&DEVICES.map(|word| word.0)));
    assert_eq!(at("/$defs/plcmt/anyOf/0/enum"), words(&PLCMTS.map(|word| word.0)));
    assert_eq!(at("/$defs/placement/anyOf/0/enum"), words(&PLACEMENTS.map(|word| word.0)));
    assert_eq!(at("/$defs/start/enum"), words(&STARTS.map(|word| word.0)));
    for (pointer, limit) in [
        ("/properties/modifiers/maxItems", MODIFIERS_MAX),
        ("/properties/caps/maxItems", CAPS_MAX),
        ("/properties/creatives/maxItems", CREATIVES_MAX),
        ("/$defs/text/maxLength", TEXT_BYTES_MAX),
        ("/$defs/texts/properties/any/maxItems", LIST_MAX),
        ("/$defs/targeting/properties/deals/maxItems", LIST_MAX),
        ("/$defs/creative/properties/cat/maxItems", CREATIVE_LIST_MAX),
        ("/$defs/creative/properties/markup/maxLength", MARKUP_BYTES_MAX),
    ] {
        assert_eq!(at(pointer), limit, "{pointer}");
    }
    assert_eq!(at(&format!("{cap}/max/anyOf/0/maximum")), u16::MAX);
    assert_eq!(at(&format!("{creative}/duration_s/anyOf/0/maximum")), DURATION_S_MAX);
}

#[test]
fn schema_and_reader_refuse_the_same() {
    let good = example();
    assert!(is_valid(&good) && is_read(&good));
    for (pointer, value) in [
        ("/id", json!(null)),
        ("/limit", json!(1.5)),
        ("/pacing", json!("fast")),
        ("/bid", json!(true)),
        ("/modifiers/0", json!({"segment": "s"})),
        ("/modifiers/0/factor", json!(101)),
        ("/modifiers", json!(vec![json!({"segment": "s", "factor": 1}); 65])),
        ("/seat", json!("")),
        ("/advertiser", json!(7)),
        ("/hold", json!("half")),
        ("/hold", json!({})),
        ("/hold", json!({"expected": {"win_rate": "0.5"}})),
        ("/caps/0/per", json!("year")),
        ("/caps/0/max", json!(0)),
        ("/caps/0/max", json!(65_536)),
        ("/caps/1/of", json!("user")),
        ("/caps/0", json!("day")),
        ("/targeting", json!([])),
        ("/targeting/geo", json!(["USA"])),
        ("/targeting/geo", json!({"all": ["USA"]})),
        ("/targeting/devices/any/0", json!("fridge")),
        ("/targeting/devices/any/0", json!(9)),
        ("/targeting/hours", json!([])),
        ("/targeting/hours/0", json!(168)),
        ("/targeting/deals/0", json!("d".repeat(257))),
        ("/targeting/deals_only", json!("yes")),
        ("/targeting/video/plcmt/any/0", json!("outstream")),
        ("/targeting/video/plcmt/any/0", json!(5)),
        ("/targeting/video/placement", json!([1])),
        ("/targeting/video/startdelay/none/0", json!(0)),
        ("/targeting/video/playbackmethod/any", json!([8])),
        ("/targeting/video/skip", json!(1)),
        ("/creatives", json!([])),
        ("/creatives", json!(null)),
        ("/creatives/0/format", json!("popup")),
        ("/creatives/0/sizes", json!("all")),
        ("/creatives/0/sizes", json!([])),
        ("/creatives/0/adomain", json!([])),
        ("/creatives/0/cat/0", json!("")),
        ("/creatives/0/attr/0", json!(0)),
        ("/creatives/0/markup", json!("")),
        ("/creatives/0/secure", json!(1)),
        ("/creatives/1/duration_s", json!(3_601)),
    ] {
        let mut line = good.clone();
        *line.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
        assert!(!is_read(&line), "{pointer} {value} is read");
        // null counts as missing, which only the reader knows of what is required.
        assert!(value.is_null() || !is_valid(&line), "{pointer} {value} is valid");
    }
}

#[test]
fn the_page_names_every_field_and_its_lines_are_sound() {
    for (_, fields) in objects() {
        for field in fields {
            assert!(PAGE.contains(&format!("`{field}`")), "docs/campaigns.md: no {field}");
        }
    }
    let lines = blocks("jsonl");
    assert!(!lines.is_empty());
    for line in lines.iter().flat_map(|block| block.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(is_read(&line) && is_valid(&line), "{line}");
    }
}
