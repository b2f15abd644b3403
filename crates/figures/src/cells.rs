//! Cells: what was counted of a budget in an hour of its zone, by the key of exchange, place, creative and country.
//!
//! ```text
//!  open    the latest hours: counted on, saved with the figures
//!  kept    files of the hours before, each written once: Kept says which there are
//! ```
//! An hour that is written counts on with an open cell of its own: what is known of it is the sum of all its cells.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Door, Origin};
use money::{Instant, Unit, Window, Zone};

use crate::fold::Total;

/// The key of what has no exchange, place, creative and country: it did not come through an exchange.
pub const KEY_NONE: u64 = 0;
/// The key of what is not known any more.
pub const KEY_UNKNOWN: u64 = 1;
/// The key of all that is beyond a cap. This bit is set in all keys of meanings.
pub const KEY_OTHER: u64 = 1 << 63;
/// Cells of an hour, where nothing else is said.
pub const CELLS_PER_HOUR_MAX: u64 = 200_000;

/// What a cell is of: when its hour began, in minutes since the Unix epoch, the place of its budget's unit and zone, its budget, its key.
pub type CellId = (u32, u32, u64, u64);

/// A file of cells whose hours are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The sequence that the figures stood at: the name of the file.
    pub sequence: u64,
    /// When the first of its hours began, minutes since the Unix epoch.
    pub first: u32,
    /// When the last of its hours began.
    pub last: u32,
    /// Its bytes.
    pub bytes: u64,
    /// The CRC-32C of these.
    pub sum: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) total: Total,
    is_noted: bool,
}

/// The open cells, and which files there are.
#[derive(Clone, Debug)]
pub struct Cells {
    pub(crate) kinds: Vec<(Unit, Zone)>,
    places: BTreeMap<(Unit, String), u32>,
    pub(crate) open: BTreeMap<CellId, Cell>,
    /// Cells with keys of meanings, by hour.
    per_hour: BTreeMap<u32, u64>,
    per_hour_max: u64,
    pub(crate) kept: Vec<Kept>,
    /// When the first hour began that cells are complete from; 0: as far as the figures.
    pub(crate) from: u32,
    pub(crate) changed: ChangedCells,
}

/// What changed since it was saved last.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedCells {
    pub(crate) cells: Vec<CellId>,
    /// How many kinds were there.
    pub(crate) kinds: usize,
    /// Hours that began before were closed.
    pub(crate) closed: u32,
    pub(crate) kept: bool,
}

impl Default for Cells {
    fn default() -> Cells {
        Cells {
            kinds: Vec::new(),
            places: BTreeMap::new(),
            open: BTreeMap::new(),
            per_hour: BTreeMap::new(),
            per_hour_max: CELLS_PER_HOUR_MAX,
            kept: Vec::new(),
            from: 0,
            changed: ChangedCells::default(),
        }
    }
}

/// The key that a record counts under, also of a bid that was reconciled. A bid of an earlier version says its campaign, whose id has no such bit.
pub(crate) fn key_of(origin: Origin) -> u64 {
    match origin.door {
        Door::Openrtb | Door::Admin if origin.request_id & KEY_OTHER != 0 => origin.request_id,
        Door::Openrtb | Door::Admin => KEY_UNKNOWN,
        Door::Batch | Door::Fix | Door::Keys | Door::Spend => KEY_NONE,
    }
}

/// When the hour of a zone began that an instant is in, in minutes since the Unix epoch. `latest` is the one that was asked for last.
pub(crate) fn hour_of(at_ms: u64, zone: Option<&Zone>, latest: &mut Window) -> u32 {
    let at = Instant::checked_from_ms(at_ms).unwrap_or(Instant::EPOCH);
    if !latest.contains(at) {
        *latest = zone.map_or(*latest, |zone| money::hour_at(at, zone));
    }
    u32::try_from(latest.start.ms() / 60_000).unwrap_or(u32::MAX)
}

impl Cells {
    pub(crate) fn zone(&self, kind: u32) -> Option<&Zone> {
        self.kinds.get(kind as usize).map(|(_, zone)| zone)
    }

    /// The place of a unit and a zone.
    pub(crate) fn kind(&mut self, unit: Unit, zone: &Zone) -> u32 {
        let next = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        let of = (unit, zone.name().to_owned());
        let place = *self.places.entry(of).or_insert(next);
        if place == next {
            self.kinds.push((unit, zone.clone()));
        }
        place
    }

    /// Sets how many cells of keys an hour may have.
    pub fn set_max(&mut self, per_hour_max: u64) {
        self.per_hour_max = per_hour_max;
    }

    /// `None` if a sum would become too large: nothing is counted.
    pub(crate) fn add(
        &mut self,
        (hour, kind, budget): (u32, u32, u64),
        key: u64,
        more: Total,
    ) -> Option<()> {
        let mut id = (hour, kind, budget, key);
        if key > KEY_OTHER && !self.open.contains_key(&id) {
            let cells = self.per_hour.entry(hour).or_default();
            if *cells < self.per_hour_max {
                *cells += 1;
            } else {
                id.3 = KEY_OTHER;
            }
        }
        let cell = self.open.entry(id).or_insert(Cell { total: Total::default(), is_noted: false });
        cell.total = cell.total.plus(more)?;
        if !std::mem::replace(&mut cell.is_noted, true) {
            self.changed.cells.push(id);
        }
        Some(())
    }

    /// Puts a cell there as it was saved.
    pub(crate) fn put(&mut self, id: CellId, total: Total) {
        let before = self.open.insert(id, Cell { total, is_noted: false });
        if before.is_none() && id.3 > KEY_OTHER {
            *self.per_hour.entry(id.0).or_default() += 1;
        }
    }

    /// Forgets the open cells of hours that began before.
    pub(crate) fn drop_before(&mut self, hour: u32) {
        self.open = self.open.split_off(&(hour, 0, 0, 0));
        self.per_hour = self.per_hour.split_off(&hour);
    }

    pub(crate) fn note_saved(&mut self) {
        for id in std::mem::take(&mut self.changed).cells {
            if let Some(cell) = self.open.get_mut(&id) {
                cell.is_noted = false;
            }
        }
        self.changed.kinds = self.kinds.len();
    }

    /// The open cells of hours that began from `first` on, and before `end`.
    pub fn open(&self, first: u32, end: u32) -> impl Iterator<Item = (CellId, Total)> {
        let range = (first, 0, 0, 0)..(end.max(first), 0, 0, 0);
        self.open.range(range).map(|(id, cell)| (*id, cell.total))
    }

    /// The files that there are.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// Units and zones, by place.
    pub fn kinds(&self) -> &[(Unit, Zone)] {
        &self.kinds
    }

    /// When the first hour began that cells are complete from; 0: as far as the figures.
    pub fn from(&self) -> u32 {
        self.from
    }

    /// Replaces the open cells of hours that began before by a file with them.
    pub fn close(&mut self, before: u32, file: Kept) {
        self.drop_before(before);
        self.changed.closed = self.changed.closed.max(before);
        self.kept.push(file);
        self.changed.kept = true;
    }

    /// Forgets files whose hours all began before, and the oldest where all have more bytes than this.
    pub fn retire(&mut self, before: u32, bytes_max: u64) {
        let mut bytes: u64 = self.kept.iter().map(|kept| kept.bytes).sum();
        let mut oldest: Vec<Kept> = self.kept.clone();
        oldest.sort_by_key(|kept| kept.last);
        let mut gone = BTreeSet::new();
        for kept in oldest {
            if kept.last >= before && bytes <= bytes_max {
                break;
            }
            bytes -= kept.bytes;
            self.from = self.from.max(kept.last.saturating_add(1));
            gone.insert(kept.sequence);
        }
        self.changed.kept |= !gone.is_empty();
        self.kept.retain(|kept| !gone.contains(&kept.sequence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(impressions: u64) -> Total {
        Total { impressions, ..Total::default() }
    }

    /// Hours begin where the clocks of a zone show a full hour, also where these change; none overlaps another.
    #[test]
    fn hours_are_those_of_the_zone() {
        for (zone, at, hour) in [
            ("UTC", "2026-11-28T18:59:59Z", "2026-11-28T18:00:00Z"),
            ("Asia/Kolkata", "2026-11-28T18:59:59Z", "2026-11-28T18:30:00Z"),
            ("Asia/Kathmandu", "2026-11-28T18:14:59Z", "2026-11-28T17:15:00Z"),
            ("America/New_York", "2026-11-01T05:59:59Z", "2026-11-01T05:00:00Z"),
            ("America/New_York", "2026-11-01T06:00:00Z", "2026-11-01T06:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T14:59:59Z", "2026-04-04T14:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T15:00:00Z", "2026-04-04T15:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T15:30:00Z", "2026-04-04T15:30:00Z"),
        ] {
            let ms = |text: &str| Instant::parse(text).unwrap().ms();
            let zone = Zone::parse(zone).unwrap();
            let mut latest = crate::fold::NO_HOUR;
            let found = hour_of(ms(at), Some(&zone), &mut latest);
            assert_eq!(u64::from(found) * 60_000, ms(hour), "{at} in {}", zone.name());
            assert_eq!(hour_of(ms(hour), None, &mut latest), found, "it is remembered");
        }
    }

    #[test]
    fn beyond_the_cap_keys_of_an_hour_count_together() {
        let mut cells = Cells::default();
        cells.set_max(2);
        let key = |n: u64| KEY_OTHER + n;
        for (hour, budget, n) in [(0, 7, 1), (0, 7, 2), (0, 7, 3), (0, 7, 1), (0, 8, 1), (60, 7, 3)]
        {
            cells.add((hour, 0, budget), key(n), one(1)).unwrap();
        }
        cells.add((0, 0, 7), KEY_NONE, one(1)).unwrap();
        let found: Vec<_> = cells.open(0, 61).map(|(id, total)| (id, total.impressions)).collect();
        let expected = [
            ((0, 0, 7, KEY_NONE), 1),
            ((0, 0, 7, KEY_OTHER), 1),
            ((0, 0, 7, key(1)), 2),
            ((0, 0, 7, key(2)), 1),
            ((0, 0, 8, KEY_OTHER), 1),
            ((60, 0, 7, key(3)), 1),
        ];
        assert_eq!(found, expected);
        assert_eq!(cells.add((0, 0, 7), key(1), one(u64::MAX)), None);
    }
}
