//! JSON in which no object has a field twice: of two bids, nobody knows which one was meant.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads one value.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text).map(|Once(value)| value)
}

struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Once, D::Error> {
        deserializer.deserialize_any(OnceVisitor).map(Once)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    /// Kept only to be shown in an error: no field is a number with decimals.
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Once(value)) = access.next_element()? {
            list.push(value);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if fields.contains_key(&name) {
                return Err(A::Error::custom(format!("field {name:?} appears twice")));
            }
            let Once(value) = access.next_value()?;
            fields.insert(name, value);
        }
        Ok(fields.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_serde_json_reads() {
        let text = r#"{"a":[1,-2,2.5,"x\n",null,true,{"a":{}}],"b":18446744073709551615,"":[]}"#;
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        for text in ["", "{", "[1,]", "nonsense", "{} {}", &"[".repeat(1_000)] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_field_twice_is_refused_at_every_depth() {
        for text in [r#"{"a":1,"a":1}"#, r#"{"b":[{"a":1,"c":2,"\u0061":3}]}"#] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with("field \"a\" appears twice at line 1 column"), "{error}");
        }
        assert!(parse(r#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }
}
