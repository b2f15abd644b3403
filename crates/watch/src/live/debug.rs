//! Messages of the node as JSON, for people: `GET /v1/live?fmt=json`.

use serde_json::{Map, Value, json};
use wire::Visitor;
use wire::live::Message;

/// Integers up to here are exact in every JSON reader.
const SAFE_MAX: u128 = (1 << 53) - 1;

/// A message by the names of the schema. Integers that a reader would round are texts, nulls of the schema are null.
pub(super) fn to_json(bytes: &[u8]) -> String {
    let Ok(message) = Message::decode(bytes) else { return Value::Null.to_string() };
    let mut values = Values::default();
    message.visit(&mut values);
    json!({ "message": message.name(), "fields": values.root }).to_string()
}

/// Collects what is visited: fields of the root, and groups as lists of entries.
#[derive(Default)]
struct Values {
    root: Map<String, Value>,
    group: Option<(&'static str, Vec<Map<String, Value>>)>,
}

impl Values {
    fn put(&mut self, name: &'static str, value: Value) {
        let entry = self.group.as_mut().and_then(|(_, entries)| entries.last_mut());
        entry.unwrap_or(&mut self.root).insert(name.to_string(), value);
    }
}

impl Visitor for Values {
    fn number(&mut self, name: &'static str, value: i128) {
        let is_null = value == i128::from(i64::MIN) || value == i128::from(u64::MAX);
        let shown = match i64::try_from(value) {
            _ if is_null => Value::Null,
            Ok(number) if value.unsigned_abs() <= SAFE_MAX => json!(number),
            _ => Value::String(value.to_string()),
        };
        self.put(name, shown);
    }

    fn choice(&mut self, name: &'static str, raw: u8, label: Option<&'static str>) {
        self.put(name, label.map_or(json!(raw), |label| json!(label)));
    }

    fn bytes(&mut self, name: &'static str, value: &[u8]) {
        let text = value.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte));
        self.put(name, Value::String(text.collect()));
    }

    fn text(&mut self, name: &'static str, value: &[u8]) {
        self.put(name, String::from_utf8_lossy(value).lines().collect());
    }

    fn group(&mut self, name: &'static str, len: usize) {
        self.group = Some((name, Vec::with_capacity(len)));
    }

    fn entry(&mut self) {
        if let Some((_, entries)) = &mut self.group {
            entries.push(Map::new());
        }
    }

    fn group_end(&mut self) {
        if let Some((name, entries)) = self.group.take() {
            self.root.insert(name.to_string(), entries.into_iter().map(Value::Object).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode::{self, Head};
    use super::*;
    use crate::board::tests::{budgets, view};

    #[test]
    fn a_message_by_names() {
        let view = view(9, &budgets(&[17, u64::MAX - 1]), &[5, 1 << 60]);
        let bytes = encode::part(Head { sequence: 3, view: &view }, 0, 2).unwrap();
        let json: Value = serde_json::from_str(&to_json(&bytes)).unwrap();
        let fields = &json["fields"];
        assert_eq!(
            (&json["message"], &fields["sequence"], &fields["asOfMs"]),
            (&json!("Snapshot"), &json!(3), &json!(9))
        );
        assert_eq!(fields["names"], json!(["budget 17", "budget 18446744073709551614"]));
        let first = &fields["budgets"][0];
        assert_eq!(
            (&first["id"], &first["parent"], &first["unit"]),
            (&json!(17), &Value::Null, &json!("COUN"))
        );
        let second = &fields["states"][1];
        assert_eq!(
            (&second["spent"], &second["status"]),
            (&json!("1152921504606846976"), &json!("active"))
        );
    }
}
