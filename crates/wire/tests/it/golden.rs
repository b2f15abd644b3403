//! Golden vectors, shared with other languages: `schema/golden/<message>.hex` and the same values as `.json`;
//! those of the journal in `schema/golden/journal/`.
//!
//! `WEIR_GOLDEN_WRITE=1 cargo test -p wire golden` writes them anew; review the difference like code.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use wire::{Message, Visitor};

use crate::samples::{self, Sample};

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

fn hex_text(name: &str, first: &str, bytes: &[u8]) -> String {
    let mut text =
        format!("# {name}: {} bytes, {first} first; values in {name}.json\n", bytes.len());
    for line in bytes.chunks(16) {
        let digits: Vec<String> = line.iter().map(|b| format!("{b:02x}")).collect();
        writeln!(text, "{}", digits.join(" ")).expect("a string takes all");
    }
    text
}

/// The values of a frame by name.
pub(crate) fn to_json(frame: &[u8]) -> Value {
    let message = Message::decode(frame).expect("a sound frame");
    named_values(message.name(), message.template_id(), |visitor| message.visit(visitor))
}

/// What a message shows to a visitor.
pub(crate) fn named_values(
    name: &str,
    template_id: u16,
    visit: impl FnOnce(&mut dyn Visitor),
) -> Value {
    let mut values = Values { open: vec![Map::new()], groups: Vec::new() };
    visit(&mut values);
    let fields = values.open.pop().expect("the root is never closed");
    json!({ "message": name, "templateId": template_id, "fields": fields })
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
    check("", "framing header", samples::all(), to_json);
}

/// Compares the vectors of a folder with what is encoded and decoded; writes them first if that is asked for.
pub(crate) fn check(folder: &str, first: &str, samples: Vec<Sample>, to_json: fn(&[u8]) -> Value) {
    if std::env::var_os("WEIR_GOLDEN_WRITE").is_some() {
        write_all(folder, first, &samples, to_json);
    }
    for (name, bytes) in samples {
        let at = format!("{folder}{name}");
        let golden = read_hex(&at);
        assert_eq!(bytes, golden, "{at}: encoded bytes (left) against {name}.hex (right)");
        let json = fs::read_to_string(path(&at, "json")).expect("a .json beside each .hex");
        let values: Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(
            to_json(&golden),
            values,
            "{at}: decoded values (left) against {name}.json (right)"
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

fn write_all(folder: &str, first: &str, samples: &[Sample], to_json: fn(&[u8]) -> Value) {
    for (name, bytes) in samples {
        let write = |extension: &str, text: String| {
            let path = path(&format!("{folder}{name}"), extension);
            fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
            fs::write(path, text).expect("the folder can be written");
        };
        write("hex", hex_text(name, first, bytes));
        write("json", serde_json::to_string_pretty(&to_json(bytes)).expect("plain values") + "\n");
    }
}
