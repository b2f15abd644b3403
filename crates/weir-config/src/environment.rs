//! Names in the environment that look like keys and are none: nobody reads them, and who set them believes otherwise.

use serde_json::Value;

use crate::config::{Config, ConfigError};

/// What tools and tests of this repository read beside keys.
const READ_ELSEWHERE: [&str; 5] =
    ["WEIR_TOKEN", "WEIR_CORPUS_WRITE", "WEIR_FAKE_NODE", "WEIR_GOLDEN_WRITE", "WEIR_WEB_DIST"];

/// What Kubernetes and Docker set in containers beside a service of the name `weir`, and what our tests give themselves.
const SET_BY_OTHERS: [&str; 3] = ["WEIR_SERVICE_", "WEIR_PORT_", "WEIR_TEST_"];

/// Warnings about names `WEIR_...` that are no keys, each with the nearest key. One that has two underscores is not among them: it is
/// judged with the configuration.
pub fn warnings(environment: impl Iterator<Item = (String, String)>) -> Vec<ConfigError> {
    let keys = keys();
    let is_unread = |(name, value): &(String, String)| {
        let is_link = name == "WEIR_PORT" && value.contains("://");
        let is_known = READ_ELSEWHERE.contains(&name.as_str())
            || SET_BY_OTHERS.iter().any(|start| name.starts_with(start));
        name.starts_with("WEIR_") && !name.contains("__") && !is_known && !is_link
    };
    let mut names: Vec<String> = environment.filter(is_unread).map(|(name, _)| name).collect();
    names.sort();
    names.into_iter().map(|name| ConfigError { text: told(&name, &keys), place: name }).collect()
}

fn told(name: &str, keys: &[String]) -> String {
    let ignored = "this is no key, and it is ignored";
    match nearest(name, keys) {
        Some(key) => format!(
            "{ignored}; did you mean {key}? Two underscores stand between the section and the key"
        ),
        None => format!(
            "{ignored}; expected WEIR_SECTION__KEY, such as WEIR_NODE__DATA_DIR: `weir check --keys` has all keys"
        ),
    }
}

/// All keys as the environment writes them.
fn keys() -> Vec<String> {
    let config = Config::default().to_json();
    let sections = config.as_object().into_iter().flatten();
    let keys = sections.flat_map(|(section, keys)| {
        let names = keys.as_object().into_iter().flatten();
        let single =
            names.filter(|(_, value)| !matches!(value, Value::Array(_) | Value::Object(_)));
        single
            .map(move |(key, _)| format!("WEIR_{}__{}", section.to_uppercase(), key.to_uppercase()))
    });
    keys.collect()
}

/// The key that is most like a name, if one is.
fn nearest<'k>(name: &str, keys: &'k [String]) -> Option<&'k String> {
    let found = letters(name);
    let away = |key: &String| {
        let alone = key.split_once("__").map_or("", |(_, key)| key);
        let (whole, alone) = (letters(key), letters(alone));
        let begins = whole.starts_with(&found) || alone.starts_with(&found);
        let apart = distance(&found, &whole).min(distance(&found, &alone));
        if begins { apart.min(1) } else { apart }
    };
    let most = (found.len() / 4).max(1);
    keys.iter()
        .map(|key| (away(key), key))
        .filter(|(away, _)| *away <= most)
        .min_by_key(|(away, _)| *away)
        .map(|(_, key)| key)
}

/// A name without its `WEIR_` and without underscores.
fn letters(name: &str) -> String {
    name.strip_prefix("WEIR_").unwrap_or(name).replace('_', "").to_uppercase()
}

/// How many letters must be put in, taken out or changed to make one text of the other.
pub(crate) fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = line + 1;
        for (at, with) in other.iter().enumerate() {
            let change = before + usize::from(letter != *with);
            before = row[at + 1];
            row[at + 1] = change.min(before + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told_of(name: &str, value: &str) -> Vec<String> {
        let environment = [(name.to_owned(), value.to_owned())];
        warnings(environment.into_iter()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_that_is_no_key_is_told_with_the_nearest_key() {
        for (name, key) in [
            ("WEIR_LEDGER_HOLD_MS", "WEIR_LEDGER__HOLD_MS"),
            ("WEIR_LEDGER_HOLDMS", "WEIR_LEDGER__HOLD_MS"),
            ("WEIR_HOLD_MS", "WEIR_LEDGER__HOLD_MS"),
            ("WEIR_DATA", "WEIR_NODE__DATA_DIR"),
            ("WEIR_DATA_DIR", "WEIR_NODE__DATA_DIR"),
            ("WEIR_BATCH_LISTN", "WEIR_BATCH__LISTEN"),
            ("WEIR_BUDGETS", "WEIR_BUDGETS__"),
        ] {
            let told = told_of(name, "x");
            let expected = format!("{name}: this is no key, and it is ignored; did you mean {key}");
            assert!(told.len() == 1 && told[0].starts_with(&expected), "{expected}: {told:?}");
        }
        let told = told_of("WEIR_COLOUR_OF_THE_SKY", "x");
        assert!(told[0].contains("expected WEIR_SECTION__KEY"), "{told:?}");
    }

    #[test]
    fn keys_and_what_others_read_or_set_are_no_mistake() {
        for (name, value) in [
            ("WEIR_LEDGER__HOLD_MS", "2000"),
            ("WEIR_NOTHING__HERE", "judged with the configuration"),
            ("WEIR_TOKEN", "x"),
            ("WEIR_PORT", "tcp://10.0.0.1:7700"),
            ("WEIR_PORT_7700_TCP_ADDR", "10.0.0.1"),
            ("WEIR_SERVICE_HOST", "10.0.0.1"),
            ("WEIRD_NAME", "x"),
        ] {
            assert_eq!(told_of(name, value), Vec::<String>::new(), "{name}");
        }
    }
}
