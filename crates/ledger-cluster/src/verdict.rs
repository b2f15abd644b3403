//! What an answer of JetStream means for an append. No I/O and no state: the tests are tables of answers.
//!
//! Three outcomes are certain: the entry is there, another one is in its place, the stream lost what it had. Everything else is doubt, and the
//! answer to doubt is the same group again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::{LogFault, OpenError, Reply, attest};

/// JetStream's code for an append behind another entry than the last.
const WRONG_LAST_SEQUENCE: u64 = 10071;
/// No entry has the number.
const NO_MESSAGE: u64 = 10037;
const STREAM_NOT_FOUND: u64 = 10059;
/// What stands before the number of the last entry in the text of [`WRONG_LAST_SEQUENCE`].
const LAST: &str = "wrong last sequence: ";

/// What follows from the answer to an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// The entry is in the stream.
    Yes,
    /// There is an entry with its number: this one, appended by an earlier request, or another one.
    Taken,
    /// The stream ends with this entry, before one that was acknowledged.
    Short(u64),
    /// The engine took it and gave it another number: it did not compare.
    Misplaced(u64),
    /// Nobody knows.
    Doubt(String),
}

/// What an engine refuses a request with.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) err_code: u64,
    #[serde(default)]
    pub(crate) description: String,
}

impl Refusal {
    /// Reports whether the stream does not exist.
    pub(crate) fn is_no_stream(&self) -> bool {
        self.err_code == STREAM_NOT_FOUND
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the engine refuses: {} ({})", self.description, self.err_code)
    }
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoResult {
    Refused(Refusal),
    Doubt(String),
}

impl std::fmt::Display for NoResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoResult::Refused(refusal) => refusal.fmt(f),
            NoResult::Doubt(text) => f.write_str(text),
        }
    }
}

/// Reads an answer as JSON, or as the refusal that it is.
pub(crate) fn result(reply: &Reply) -> Result<Value, NoResult> {
    let bytes = match reply {
        Reply::Answer(bytes) => bytes,
        Reply::Silence(why) => return Err(NoResult::Doubt(why.clone())),
    };
    let unreadable = || {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
        NoResult::Doubt(format!("the engine's answer is none of JetStream's: {shown:?}"))
    };
    let value: Value = serde_json::from_slice(bytes).map_err(|_| unreadable())?;
    match value.get("error") {
        None | Some(Value::Null) if value.is_object() => Ok(value),
        None | Some(Value::Null) => Err(unreadable()),
        Some(error) => {
            let refusal = Refusal::deserialize(error).map_err(|_| unreadable())?;
            Err(NoResult::Refused(refusal))
        }
    }
}

/// Judges the answer to an append of entry `entry` to `stream`.
pub(crate) fn appended(reply: &Reply, stream: &str, entry: u64) -> Appended {
    let value = match result(reply) {
        Ok(value) => value,
        Err(NoResult::Refused(refusal)) => return refused(&refusal, entry),
        Err(NoResult::Doubt(why)) => return Appended::Doubt(why),
    };
    let number = value.get("seq").and_then(Value::as_u64);
    let is_ours = value.get("stream").and_then(Value::as_str) == Some(stream);
    let is_duplicate = value.get("duplicate").and_then(Value::as_bool).unwrap_or(false);
    match number {
        Some(number) if is_ours && !is_duplicate && number == entry => Appended::Yes,
        Some(number) if is_ours && !is_duplicate => Appended::Misplaced(number),
        _ => Appended::Doubt(format!("the engine acknowledges something else: {value}")),
    }
}

fn refused(refusal: &Refusal, entry: u64) -> Appended {
    let last = match refusal.err_code {
        WRONG_LAST_SEQUENCE => refusal.description.strip_prefix(LAST),
        _ => None,
    };
    match last.and_then(|last| last.parse::<u64>().ok()) {
        Some(last) if last >= entry => Appended::Taken,
        Some(last) if last + 1 < entry => Appended::Short(last),
        // The last entry is the right one by now: a request that was under way made way.
        _ => Appended::Doubt(refusal.to_string()),
    }
}

/// An entry as the engine returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Entry(Vec<u8>),
    /// The engine has none with the number.
    None,
    Doubt(String),
}

/// Judges the answer to a request for an entry.
pub(crate) fn found(reply: &Reply, entry: u64) -> Found {
    match message(reply) {
        Ok(None) => Found::None,
        Ok(Some((number, bytes))) if number == entry => Found::Entry(bytes),
        Ok(Some(_)) => {
            Found::Doubt(format!("the engine was asked for entry {entry} and answers another"))
        }
        Err(other) => Found::Doubt(other.to_string()),
    }
}

/// Reads the number and the bytes of a message; `None`: there is none.
pub(crate) fn message(reply: &Reply) -> Result<Option<(u64, Vec<u8>)>, NoResult> {
    let value = match result(reply) {
        Ok(value) => value,
        Err(NoResult::Refused(refusal)) if refusal.err_code == NO_MESSAGE => return Ok(None),
        Err(other) => return Err(other),
    };
    let message = &value["message"];
    let data = message.get("data").and_then(Value::as_str).unwrap_or_default();
    let found = message["seq"].as_u64().zip(STANDARD.decode(data).ok());
    found.map(Some).ok_or_else(|| NoResult::Doubt("the engine answers with no message".into()))
}

/// What follows for an append from the entry that stands in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// It is the same group.
    Ours,
    /// It is another one: another process is the bank.
    Other,
    /// There is none, although the stream is longer.
    Missing,
    /// Nobody can tell.
    Doubt(LogFault),
}

/// Compares the entry in a place with the group that was to be appended there. A damaged one may be either.
pub(crate) fn rival(there: Result<Vec<u8>, LogFault>, group: &[u8]) -> Rival {
    match there {
        Ok(there) if there == group => Rival::Ours,
        Ok(_) => Rival::Other,
        Err(LogFault::Entry { why: OpenError::Secret | OpenError::Format(_), .. }) => Rival::Other,
        Err(LogFault::Hole(_)) => Rival::Missing,
        Err(fault) => Rival::Doubt(fault),
    }
}

/// First and last entry of a stream. An empty one ends before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The last record of what is put there before any run.
    pub(crate) records: u64,
}

/// Reads the extent out of what the engine says of a stream.
pub(crate) fn extent(info: &Value) -> Option<Extent> {
    let state = info.get("state")?;
    let [first, last] = ["first_seq", "last_seq"].map(|name| state.get(name)?.as_u64());
    // A stream that never held anything begins with 0.
    Some(Extent { first: first?.max(1), last: last?, records: attest::records(info) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Reply {
        Reply::Answer(text.as_bytes().to_vec())
    }

    fn error(code: u64, text: &str) -> Reply {
        answer(&format!(
            r#"{{"error":{{"code":400,"err_code":{code},"description":"{text}"}},"stream":"WEIR_a","seq":0}}"#
        ))
    }

    /// The answers of nats-server 2.15.2, and some that it should not give.
    #[test]
    fn an_answer_to_an_append_is_yes_taken_short_or_doubt() {
        use Appended::{Doubt, Misplaced, Short, Taken, Yes};
        let doubt = || Doubt(String::new());
        let wrong = |last: &str| error(10071, &format!("wrong last sequence: {last}"));
        let silence = |why: &str| Reply::Silence(why.into());
        for (reply, expected) in [
            (answer(r#"{"stream":"WEIR_a","seq":8}"#), Yes),
            (answer(r#"{"stream":"WEIR_a","domain":"hub","seq":8}"#), Yes),
            (answer(r#"{"stream":"WEIR_a","seq":9}"#), Misplaced(9)),
            (answer(r#"{"stream":"WEIR_a","seq":7}"#), Misplaced(7)),
            (answer(r#"{"stream":"WEIR_b","seq":8}"#), doubt()),
            (answer(r#"{"stream":"WEIR_a","seq":8,"duplicate":true}"#), doubt()),
            (answer(r#"{"stream":"WEIR_a"}"#), doubt()),
            (wrong("8"), Taken),
            (wrong("12"), Taken),
            (wrong("7"), doubt()),
            (wrong("6"), Short(6)),
            (wrong("0"), Short(0)),
            (wrong("many"), doubt()),
            (error(10071, "another text"), doubt()),
            (error(10077, "maximum bytes exceeded"), doubt()),
            (error(10077, "wrong last sequence: 3"), doubt()),
            (error(10008, "JetStream system temporarily unavailable"), doubt()),
            (error(10023, "insufficient resources"), doubt()),
            (answer(r#"{"error":{"code":503}}"#), doubt()),
            (answer("[]"), doubt()),
            (answer("-ERR"), doubt()),
            (answer(""), doubt()),
            (silence("no answer within 400 ms"), doubt()),
            (silence("no server answers: the stream has no leader"), doubt()),
        ] {
            let found = match appended(&reply, "WEIR_a", 8) {
                Doubt(text) => {
                    assert!(text.len() > 15, "{text}");
                    doubt()
                }
                other => other,
            };
            assert_eq!(found, expected, "{reply:?}");
        }
        // What the operator has to see.
        let full = appended(&error(10077, "maximum bytes exceeded"), "WEIR_a", 8);
        assert_eq!(full, Doubt("the engine refuses: maximum bytes exceeded (10077)".into()));
    }

    #[test]
    fn an_answer_to_a_request_for_an_entry_is_that_entry_or_none() {
        let message = |seq: u64, data: &str| {
            answer(&format!(r#"{{"message":{{"subject":"s","seq":{seq},"data":"{data}"}}}}"#))
        };
        for (reply, expected) in [
            (message(8, "Yg=="), Some(Found::Entry(b"b".to_vec()))),
            (error(10037, "no message found"), Some(Found::None)),
            (message(9, "Yg=="), None),
            (message(8, "*"), None),
            (error(10059, "stream not found"), None),
            (Reply::Silence("no answer within 400 ms".into()), None),
        ] {
            let found = found(&reply, 8);
            let is_doubt = matches!(found, Found::Doubt(_));
            assert!(expected.map_or(is_doubt, |expected| found == expected), "{reply:?}");
        }
    }

    #[test]
    fn only_the_same_bytes_are_ours_and_damage_is_doubt() {
        let entry = |why| LogFault::Entry { entry: 4, why };
        let away = LogFault::Away("no answer within 400 ms".into());
        for (there, expected) in [
            (Ok(b"group".to_vec()), Rival::Ours),
            (Ok(b"grouq".to_vec()), Rival::Other),
            (Err(entry(OpenError::Secret)), Rival::Other),
            (Err(entry(OpenError::Format(2))), Rival::Other),
            (Err(entry(OpenError::Damaged)), Rival::Doubt(entry(OpenError::Damaged))),
            (Err(LogFault::Hole(4)), Rival::Missing),
            (Err(away.clone()), Rival::Doubt(away)),
        ] {
            assert_eq!(rival(there, b"group"), expected);
        }
    }

    #[test]
    fn a_stream_says_where_it_begins_and_ends() {
        for (state, expected) in [
            (r#"{"first_seq":0,"last_seq":0}"#, Some((1, 0))),
            (r#"{"first_seq":5,"last_seq":9}"#, Some((5, 9))),
            (r#"{"first_seq":10,"last_seq":9}"#, Some((10, 9))),
            (r#"{"first_seq":5}"#, None),
            ("{}", None),
        ] {
            let info = serde_json::from_str(&format!(r#"{{"state":{state}}}"#)).unwrap();
            let expected = expected.map(|(first, last)| Extent { first, last, records: 0 });
            assert_eq!(extent(&info), expected);
        }
    }
}
