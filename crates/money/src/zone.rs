//! IANA time zones, from the database that is compiled in.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::Instant;

/// Offsets are tabled up to here, 2200-01-01T00:00:00Z; later instants have the last offset of the table.
pub(crate) const TABLE_END: Instant = Instant::from_ms(7_258_118_400_000);
/// Most offset changes a table may have. The richest zone has about 500 from 1970 to 2200.
const TABLE_MAX: usize = 10_000;

/// An IANA time zone such as `Europe/Paris`. The database is compiled in, so that days do not depend on the
/// machine. A clone is cheap and shares everything.
#[derive(Clone)]
pub struct Zone(Arc<Inner>);

struct Inner {
    name: String,
    zone: TimeZone,
    /// Made when first asked for; a pure function of the zone, so nobody can tell when that was.
    offsets: OnceLock<Box<[OffsetSpan]>>,
}

/// A stretch of time in which a zone keeps one offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetSpan {
    /// First instant with this offset, or the epoch.
    pub start: Instant,
    /// First instant with the next offset, or [`Instant::MAX`].
    pub end: Instant,
    /// Local time minus UTC, milliseconds; within a day and a bit of zero.
    pub offset_ms: i64,
}

/// A text that names no time zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "time zone {found:?}: not in the IANA database; expected a name such as \"Europe/Paris\" or \"UTC\"{hint}"
)]
pub struct ZoneError {
    /// The text that was found, at most its first 64 characters.
    pub found: String,
    /// Names that may have been meant, as a text to append; empty if none is near.
    pub hint: String,
}

impl Zone {
    /// Coordinated universal time.
    #[must_use]
    pub fn utc() -> Zone {
        Zone::new("UTC".to_owned(), TimeZone::UTC)
    }

    /// Reads an IANA name. Names are told apart as the database does, without regard to case.
    ///
    /// # Errors
    /// [`ZoneError`], with names that may have been meant.
    pub fn parse(name: &str) -> Result<Zone, ZoneError> {
        // Ask the compiled-in database by name: the library's default one may look at the machine's files.
        match TimeZoneDatabase::bundled().get(name) {
            Ok(zone) => Ok(Zone::new(zone.iana_name().unwrap_or(name).to_owned(), zone)),
            Err(_) => {
                Err(ZoneError { found: name.chars().take(64).collect(), hint: hint_for(name) })
            }
        }
    }

    /// The name, spelled as in the database.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The offset from UTC at an instant, and from when to when it is kept. After the year 2200 the last offset
    /// before it.
    #[must_use]
    pub fn offset_at(&self, at: Instant) -> OffsetSpan {
        self.offsets_from(at)[0]
    }

    /// The offset from UTC at an instant and all that follow, until [`Instant::MAX`]; never empty. After the year
    /// 2200 clocks do not change.
    #[must_use]
    pub fn offsets_from(&self, at: Instant) -> &[OffsetSpan] {
        let spans = self.0.offsets.get_or_init(|| table(&self.0.zone));
        // The first span starts at the epoch, so at least one starts at or before `at`.
        &spans[spans.partition_point(|span| span.start <= at).saturating_sub(1)..]
    }

    pub(crate) fn tz(&self) -> &TimeZone {
        &self.0.zone
    }

    fn new(name: String, zone: TimeZone) -> Zone {
        Zone(Arc::new(Inner { name, zone, offsets: OnceLock::new() }))
    }
}

/// The spans of constant offset from the epoch to [`Instant::MAX`].
fn table(zone: &TimeZone) -> Box<[OffsetSpan]> {
    let offset_ms = |at: Timestamp| i64::from(zone.to_offset(at).seconds()) * 1_000;
    let mut spans = Vec::new();
    let mut span = OffsetSpan {
        start: Instant::EPOCH,
        end: Instant::MAX,
        offset_ms: offset_ms(Timestamp::UNIX_EPOCH),
    };
    for transition in zone.following(Timestamp::UNIX_EPOCH).take(TABLE_MAX) {
        let at = Instant::from_timestamp(transition.timestamp());
        let after_ms = offset_ms(transition.timestamp());
        if at >= TABLE_END {
            break;
        }
        // Names and daylight flags change without the offset, too.
        if after_ms != span.offset_ms {
            spans.push(OffsetSpan { end: at, ..span });
            span = OffsetSpan { start: at, end: Instant::MAX, offset_ms: after_ms };
        }
    }
    spans.push(span);
    spans.into_boxed_slice()
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Zone {}

impl Default for Zone {
    fn default() -> Zone {
        Zone::utc()
    }
}

impl std::fmt::Debug for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Zone({})", self.0.name)
    }
}

impl std::fmt::Display for Zone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0.name)
    }
}

impl std::str::FromStr for Zone {
    type Err = ZoneError;
    fn from_str(name: &str) -> Result<Zone, ZoneError> {
        Zone::parse(name)
    }
}

/// Zones by name, so that 50,000 budgets in one time zone share one copy of it. Owned by whoever reads
/// configuration; there is no global one.
#[derive(Clone, Debug, Default)]
pub struct ZoneCache(BTreeMap<String, Zone>);

impl ZoneCache {
    /// As [`Zone::parse`], but a name asked for before costs a lookup only.
    ///
    /// # Errors
    /// As [`Zone::parse`].
    pub fn get(&mut self, name: &str) -> Result<Zone, ZoneError> {
        if let Some(zone) = self.0.get(name) {
            return Ok(zone.clone());
        }
        let zone = Zone::parse(name)?;
        self.0.insert(name.to_owned(), zone.clone());
        Ok(zone)
    }
}

/// Names that differ little from what was typed, or end in it.
fn hint_for(found: &str) -> String {
    let typed = found.to_ascii_lowercase().replace(' ', "_");
    if typed.len() < 3 || typed.len() > 64 {
        return String::new();
    }
    let database = TimeZoneDatabase::bundled();
    let mut near: Vec<(usize, String)> = database
        .available()
        .map(|name| (distance(&typed, &name.as_str().to_ascii_lowercase()), name.to_string()))
        .filter(|(distance, _)| *distance <= 2)
        .collect();
    near.sort();
    match near.as_slice() {
        [] => String::new(),
        [(_, only)] => format!("; did you mean {only:?}?"),
        [(_, first), (_, second), ..] => format!("; did you mean {first:?} or {second:?}?"),
    }
}

/// How far a typed name is from a real one: 0 where it is its last part ("paris"), else the number of letters to
/// insert, delete or replace (Levenshtein).
fn distance(typed: &str, name: &str) -> usize {
    if name.rsplit('/').next() == Some(typed) {
        return 0;
    }
    let (typed, name) = (typed.as_bytes(), name.as_bytes());
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, typed) in typed.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, name) in name.iter().enumerate() {
            let replaced = diagonal + usize::from(typed != name);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        assert_eq!(Zone::parse("Europe/Paris").unwrap().name(), "Europe/Paris");
        assert_eq!(Zone::parse("europe/paris").unwrap(), Zone::parse("Europe/Paris").unwrap());
        assert_eq!(Zone::parse("UTC").unwrap(), Zone::utc());
        assert_eq!(format!("{:?}", Zone::default()), "Zone(UTC)");
    }

    #[test]
    fn wrong_names_get_a_hint() {
        let error = |name| Zone::parse(name).unwrap_err().to_string();
        assert!(
            error("Europe/Pariss").ends_with("did you mean \"Europe/Paris\"?"),
            "{}",
            error("Europe/Pariss")
        );
        assert!(
            error("new york").ends_with("did you mean \"America/New_York\"?"),
            "{}",
            error("new york")
        );
        assert!(error("Mars/Olympus").ends_with("or \"UTC\""), "{}", error("Mars/Olympus"));
        assert!(error("").contains("not in the IANA database"));
        assert!(error("+02:00").contains("not in the IANA database"));
        assert!(error(&"x".repeat(100_000)).len() < 300);
    }

    #[test]
    fn a_cache_shares() {
        let mut cache = ZoneCache::default();
        let (first, second) = (cache.get("Asia/Tokyo").unwrap(), cache.get("Asia/Tokyo").unwrap());
        assert!(Arc::ptr_eq(&first.0, &second.0));
        assert!(cache.get("Asia/Tokio").is_err());
    }

    #[test]
    fn every_zone_has_a_table_that_agrees_with_the_library() {
        for name in TimeZoneDatabase::bundled().available() {
            let zone = Zone::parse(name.as_str()).unwrap();
            let spans = zone.0.offsets.get_or_init(|| table(&zone.0.zone));
            assert!(spans.len() < 600, "{name}: {} spans", spans.len());
            assert_eq!(
                (spans[0].start, spans[spans.len() - 1].end),
                (Instant::EPOCH, Instant::MAX)
            );
            assert!(spans.windows(2).all(|pair| pair[0].end == pair[1].start), "{name}");
            for span in spans.iter().filter(|span| span.end < TABLE_END) {
                let at = |ms: u64| Instant::from_ms(ms).to_timestamp();
                let ends = [span.start.ms(), span.end.ms() - 1];
                for ms in ends {
                    let seconds = i64::from(zone.tz().to_offset(at(ms)).seconds());
                    assert_eq!(span.offset_ms, seconds * 1_000, "{name} at {ms}");
                    assert_eq!(zone.offset_at(Instant::from_ms(ms)), *span);
                }
            }
        }
    }
}
