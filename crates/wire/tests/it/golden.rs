//! Golden vectors, shared with other languages: `schema/golden/<message>.hex` and the same values as `.json`.
//!
//! `WEIR_GOLDEN_WRITE=1 cargo test -p wire golden` writes them anew; review the difference like code.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use wire::{Message, Visitor};

use crate::samples;

fn path(name: &str, extension: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../schema/golden/{name}.{extension}"))
}

/// The committed bytes of a vector.
pub(crate) fn read_hex(name: &str) -> Vec<u8> {
    let path = path(name, "hex");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let digits: Vec<&str> =
        text.lines().filter(|l| !l.starts_with('#')).flat_map(str::split_whitespace).collect();
    digits.iter().map(|d| u8::from_str_radix(d, 16).expect("two hex digits")).collect()
}

fn hex_text(name: &str, frame: &[u8]) -> String {
    let mut text =
        format!("# {name}: {} bytes, framing header first; values in {name}.json\n", frame.len());
    for line in frame.chunks(16) {
        let digits: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(text, "{}", digits.join(" ")).expect("a string takes all");
    }
    text
}

/// The values of a frame by name.
pub(crate) fn to_json(frame: &[u8]) -> Value {
    let message = Message::decode(frame).expect("a sound frame");
    let mut values = Values { open: vec![Map::new()], groups: Vec::new() };
    message.visit(&mut values);
    let fields = values.open.pop().expect("the root is never closed");
    json!({ "message": message.name(), "templateId": message.template_id(), "fields": fields })
}

/// Collects what is visited: byte arrays as hex, enums by name, text cut at the first NUL of fixed arrays.
struct Values {
    /// The object being filled; the root first, then an entry.
    open: Vec<Map<String, Value>>,
    groups: Vec<(&'static str, Vec<Value>)>,
}

impl Values {
    fn put(&mut self, name: &'static str, value: Value) {
        self.open.last_mut().expect("the root is never closed").insert(name.to_owned(), value);
    }

    fn close_entry(&mut self) {
        if self.open.len() > self.groups.len() {
            let entry = self.open.pop().expect("an entry is open");
            self.groups.last_mut().expect("a group is open").1.push(Value::Object(entry));
        }
    }
}

impl Visitor for Values {
    fn number(&mut self, name: &'static str, value: i128) {
        let number = match (u64::try_from(value), i64::try_from(value)) {
            (Ok(n), _) => json!(n),
            (_, Ok(n)) => json!(n),
            _ => unreachable!("the schema has no wider integers"),
        };
        self.put(name, number);
    }

    fn choice(&mut self, name: &'static str, raw: u8, label: Option<&'static str>) {
        self.put(name, label.map_or(json!(raw), |l| json!(l)));
    }

    fn bytes(&mut self, name: &'static str, value: &[u8]) {
        let digits: String = value.iter().map(|b| format!("{b:02x}")).collect();
        self.put(name, json!(digits));
    }

    fn text(&mut self, name: &'static str, value: &[u8]) {
        self.put(name, json!(std::str::from_utf8(value).expect("samples are UTF-8")));
    }

    fn group(&mut self, name: &'static str, _len: usize) {
        self.groups.push((name, Vec::new()));
    }

    fn entry(&mut self) {
        self.close_entry();
        self.open.push(Map::new());
    }

    fn group_end(&mut self) {
        self.close_entry();
        let (name, entries) = self.groups.pop().expect("a group is open");
        self.put(name, Value::Array(entries));
    }
}

#[test]
fn vectors_are_what_is_encoded_and_decoded() {
    if std::env::var_os("WEIR_GOLDEN_WRITE").is_some() {
        write_all();
    }
    for (name, frame) in samples::all() {
        let golden = read_hex(name);
        assert_eq!(frame, golden, "{name}: encoded bytes (left) against {name}.hex (right)");
        let json = fs::read_to_string(path(name, "json")).expect("a .json beside each .hex");
        let values: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            to_json(&golden),
            values,
            "{name}: decoded values (left) against {name}.json (right)"
        );
    }
}

#[test]
fn every_message_has_a_vector() {
    let ids: Vec<u16> =
        samples::all().iter().filter_map(|(_, f)| wire::frame::template_id(f)).collect();
    for id in 0..=u16::MAX {
        let mut frame = samples::named("ping");
        frame[8..10].copy_from_slice(&id.to_le_bytes());
        let is_known =
            !matches!(Message::decode(&frame), Err(wire::FrameError::UnknownTemplate { .. }));
        assert_eq!(is_known, ids.contains(&id), "template id {id}");
    }
}

fn write_all() {
    for (name, frame) in samples::all() {
        fs::write(path(name, "hex"), hex_text(name, &frame)).expect("the folder can be written");
        let json = serde_json::to_string_pretty(&to_json(&frame)).expect("plain values") + "\n";
        fs::write(path(name, "json"), json).expect("the folder can be written");
    }
}
