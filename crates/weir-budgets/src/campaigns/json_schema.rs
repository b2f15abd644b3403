//! For tests: the published schema of campaigns, and whether a line keeps to it. The tests of the made-up campaigns in `weir-tools`
//! include this file too.

use serde_json::Value;

/// The published schema.
pub(crate) fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../schema/campaigns.schema.json")).unwrap()
}

/// What is wrong with a value, by the part of JSON Schema 2020-12 that the schema uses. Patterns are not looked at.
fn faults(root: &Value, schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (keyword, rule) in schema.as_object().unwrap() {
        let sound = match keyword.as_str() {
            "$schema" | "title" | "description" | "$defs" | "pattern" | "format" => true,
            "$ref" => {
                let pointer = rule.as_str().unwrap().strip_prefix('#').unwrap();
                found.extend(faults(root, root.pointer(pointer).unwrap(), value, path));
                true
            }
            "anyOf" => {
                rule.as_array().unwrap().iter().any(|one| faults(root, one, value, path).is_empty())
            }
            "enum" => rule.as_array().unwrap().contains(value),
            "type" => is_type(rule, value),
            "minimum" => value.as_u64().is_none_or(|number| number >= rule.as_u64().unwrap()),
            "maximum" => value.as_u64().is_none_or(|number| number <= rule.as_u64().unwrap()),
            "minLength" => value.as_str().is_none_or(|text| text.len() >= limit(rule)),
            "maxLength" => value.as_str().is_none_or(|text| text.len() <= limit(rule)),
            "minItems" => value.as_array().is_none_or(|list| list.len() >= limit(rule)),
            "maxItems" => value.as_array().is_none_or(|list| list.len() <= limit(rule)),
            "items" => {
                for (i, entry) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(root, rule, entry, &format!("{path}[{i}]")));
                }
                true
            }
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    if let Some(rule) = rule.get(name) {
                        found.extend(faults(root, rule, field, &format!("{path}.{name}")));
                    }
                }
                true
            }
            "required" => has_all(value, rule),
            "dependentRequired" => rule
                .as_object()
                .unwrap()
                .iter()
                .all(|(name, others)| value.get(name).is_none() || has_all(value, others)),
            "additionalProperties" => {
                assert_eq!(rule, false);
                let known = schema["properties"].as_object().unwrap();
                value
                    .as_object()
                    .is_none_or(|fields| fields.keys().all(|name| known.contains_key(name)))
            }
            other => panic!("{path}: the keyword {other} is not looked at here"),
        };
        if !sound {
            found.push(format!("{path}: {keyword} {rule}"));
        }
    }
    found
}

fn limit(rule: &Value) -> usize {
    usize::try_from(rule.as_u64().unwrap()).unwrap()
}

fn has_all(value: &Value, names: &Value) -> bool {
    let names = names.as_array().unwrap();
    value.is_object() && names.iter().all(|name| value.get(name.as_str().unwrap()).is_some())
}

fn is_type(rule: &Value, value: &Value) -> bool {
    match rule {
        Value::Array(rules) => rules.iter().any(|rule| is_type(rule, value)),
        rule => match rule.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "integer" => value.is_u64() || value.is_i64(),
            other => panic!("type {other} is not looked at here"),
        },
    }
}

/// Does a line of the budgets file keep to the schema?
pub(crate) fn is_valid(line: &Value) -> bool {
    let schema = schema();
    faults(&schema, &schema, line, "").is_empty()
}
