//! JSON objects read field by field: every error is kept, with the path of the field.

use std::fmt::Write;
use std::ops::RangeInclusive;

use money::{Amount, Unit};
use serde_json::{Map, Value};

/// How much of a wrong value an error shows, in characters.
const SHOWN_MAX: usize = 60;

/// The fault in a line.
#[derive(Debug, Default)]
pub struct Faults {
    path: String,
    texts: Vec<String>,
}

impl Faults {
    /// All of them, in the order in which they were found.
    pub fn into_texts(self) -> Vec<String> {
        self.texts
    }

    /// Is nothing wrong?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// A fault at the field that is being read, or of the whole line.
    pub fn push(&mut self, text: impl AsRef<str>) {
        let (path, text) = (&self.path, text.as_ref());
        let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
        self.texts.push(place + text);
    }

    /// The value, or its fault.
    fn note<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|text| self.push(text)).ok()
    }

    /// Reads inside the field `name`.
    fn inside<T>(&mut self, name: &str, read: impl FnOnce(&mut Faults) -> T) -> T {
        let dot = if self.path.is_empty() { "" } else { "." };
        self.below(format_args!("{dot}{name}"), read)
    }

    /// Reads inside entry `index` of a list.
    fn inside_entry<T>(&mut self, index: usize, read: impl FnOnce(&mut Faults) -> T) -> T {
        self.below(format_args!("[{index}]"), read)
    }

    fn below<T>(
        &mut self,
        step: std::fmt::Arguments<'_>,
        read: impl FnOnce(&mut Faults) -> T,
    ) -> T {
        let before = self.path.len();
        // Writing to a String does not fail.
        let _ = self.path.write_fmt(step);
        let value = read(self);
        self.path.truncate(before);
        value
    }
}

/// An object of a line. `null` counts as missing.
pub struct Object<'v, 'f> {
    fields: &'v Map<String, Value>,
    faults: &'f mut Faults,
}

impl<'v, 'f> Object<'v, 'f> {
    /// An object whose fields may be `known` and no others.
    pub fn new(
        fields: &'v Map<String, Value>,
        known: &[&[&str]],
        faults: &'f mut Faults,
    ) -> Object<'v, 'f> {
        let is_known = |name: &str| known.iter().any(|names| names.contains(&name));
        for name in fields.keys().filter(|name| !is_known(name)) {
            let shown = shortened(name);
            let all = known.concat().join(", ");
            faults.inside(&shown, |faults| {
                faults.push(format!("there is no such field; known are {all}"));
            });
        }
        Object { fields, faults }
    }

    /// The value of a field, if it is there.
    pub fn value(&self, name: &str) -> Option<&'v Value> {
        self.fields.get(name).filter(|value| !value.is_null())
    }

    /// A fault of a field.
    pub fn fault(&mut self, name: &str, text: impl AsRef<str>) {
        self.faults.inside(name, |faults| faults.push(text));
    }

    /// A fault of the object itself.
    pub fn fault_here(&mut self, text: impl AsRef<str>) {
        self.faults.push(text);
    }

    /// Is all well so far, here and elsewhere in the line?
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    /// A field that may be missing.
    pub fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'v Value) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.value(name)?;
        self.faults.inside(name, |faults| faults.note(read(value)))
    }

    /// A field that has to be there.
    pub fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'v Value) -> Result<T, String>,
    ) -> Option<T> {
        self.demand(name);
        self.optional(name, read)
    }

    /// A fault if the field is missing.
    pub fn demand(&mut self, name: &str) {
        if self.value(name).is_none() {
            self.fault(name, "missing; it is required");
        }
    }

    /// A field that is an object; `None` if it is missing or something else.
    pub fn object<T>(
        &mut self,
        name: &str,
        known: &[&str],
        read: impl FnOnce(&mut Object<'v, '_>) -> T,
    ) -> Option<T> {
        let value = self.value(name)?;
        self.faults.inside(name, |faults| object(value, known, faults, read))
    }

    /// A field that is a list; empty if it is missing. Entries with a fault are left out.
    pub fn list<T>(
        &mut self,
        name: &str,
        count: RangeInclusive<usize>,
        mut read: impl FnMut(&'v Value) -> Result<T, String>,
    ) -> Vec<T> {
        self.entries(name, count, |entry, faults| faults.note(read(entry)))
    }

    /// A field that is a list of objects; empty if it is missing. Entries without a value are left out.
    pub fn objects<T>(
        &mut self,
        name: &str,
        count: RangeInclusive<usize>,
        known: &[&str],
        mut read: impl FnMut(&mut Object<'v, '_>) -> Option<T>,
    ) -> Vec<T> {
        self.entries(name, count, |entry, faults| object(entry, known, faults, &mut read).flatten())
    }

    fn entries<T>(
        &mut self,
        name: &str,
        count: RangeInclusive<usize>,
        mut read: impl FnMut(&'v Value, &mut Faults) -> Option<T>,
    ) -> Vec<T> {
        let Some(value) = self.value(name) else { return Vec::new() };
        self.faults.inside(name, |faults| {
            let Some(entries) = faults.note(array(value, count)) else { return Vec::new() };
            let read = |(index, entry)| faults.inside_entry(index, |faults| read(entry, faults));
            entries.iter().enumerate().filter_map(read).collect()
        })
    }
}

fn object<'v, T>(
    value: &'v Value,
    known: &[&str],
    faults: &mut Faults,
    read: impl FnOnce(&mut Object<'v, '_>) -> T,
) -> Option<T> {
    let fields = value.as_object().ok_or_else(|| {
        format!("found {}, expected an object with {}", shown(value), known.join(", "))
    });
    let fields = faults.note(fields)?;
    Some(read(&mut Object::new(fields, &[known], faults)))
}

fn array(value: &Value, count: RangeInclusive<usize>) -> Result<&[Value], String> {
    let (least, most) = count.clone().into_inner();
    let entries = value
        .as_array()
        .ok_or_else(|| format!("found {}, expected a list of {least} to {most}", shown(value)))?;
    if count.contains(&entries.len()) {
        Ok(entries)
    } else {
        Err(format!("found {} entries, expected {least} to {most}", entries.len()))
    }
}

/// A wrong value, shortened.
pub fn shown(value: &Value) -> String {
    shortened(&value.to_string())
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

/// Text that `read` takes.
pub fn text<T>(
    value: &Value,
    expected: &str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, String> {
    let read = value.as_str().and_then(read);
    read.ok_or_else(|| format!("found {}, expected {expected}", shown(value)))
}

/// One of a few words.
pub fn word<T: Copy>(value: &Value, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| value.as_str() == Some(*word));
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        format!("found {}, expected {}", shown(value), alternatives(&words))
    })
}

/// `a, b or c`.
fn alternatives(words: &[String]) -> String {
    match words {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => words.concat(),
    }
}

/// A number, or text of one as CSV has it.
pub fn whole_number(value: &Value) -> Result<u64, String> {
    whole_number_in(value, 0..=u64::MAX)
}

/// As [`whole_number`], within a range.
pub fn whole_number_in(value: &Value, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = range.into_inner();
        format!("found {}, expected a whole number from {least} to {most}", shown(value))
    })
}

/// An amount as decimal text, or as a whole number.
pub fn amount(value: &Value, unit: Unit) -> Result<Amount, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_i64() || number.is_u64() => number.to_string(),
        other => {
            let found = shown(other);
            return Err(format!("found {found}, expected an amount as text, such as \"1000.00\""));
        }
    };
    unit.parse_amount(&text).map_err(|error| format!("found {}: {error}", shown(value)))
}

/// `true` or `false`.
pub fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("found {}, expected true or false", shown(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_have_paths() {
        let line = json!({"a": {"b": [{"c": 1}, {"c": "x"}, 5]}, "n": null, "z": 0});
        let mut faults = Faults::default();
        let mut object =
            Object::new(line.as_object().unwrap(), &[&["a", "n"], &["m"]], &mut faults);
        let read: Option<Vec<u64>> = object.object("a", &["b"], |object| {
            object.objects("b", 0..=3, &["c"], |object| object.required("c", whole_number))
        });
        object.required("n", whole_number);
        assert_eq!(read, Some(vec![1]));
        assert!(!object.is_sound());
        assert_eq!(
            faults.into_texts(),
            [
                "z: there is no such field; known are a, n, m".to_string(),
                format!("a.b[1].c: found \"x\", expected a whole number from 0 to {}", u64::MAX),
                "a.b[2]: found 5, expected an object with c".into(),
                "n: missing; it is required".into(),
            ]
        );
    }

    #[test]
    fn long_values_are_shortened_between_characters() {
        let long = "\u{e9}".repeat(100);
        assert_eq!(shown(&json!(long)).chars().count(), SHOWN_MAX + 3);
        assert_eq!(shown(&json!("short")), "\"short\"");
    }

    #[test]
    fn words_are_offered() {
        let words = [("one", 1), ("two", 2), ("three", 3)];
        assert_eq!(word(&json!("two"), &words), Ok(2));
        let text = word(&json!("four"), &words).unwrap_err();
        assert_eq!(text, "found \"four\", expected \"one\", \"two\" or \"three\"");
    }
}
