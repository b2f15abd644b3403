//! Keys and values on disk.
//!
//! A key is a budget (u64) and a minute of the day (u16), big-endian, so that they sort. A value is seven numbers in
//! LEB128: spent in zigzag, planned in zigzag and one higher with 0 for none, asks, grants, wins, refusals, latency. Most
//! are small: a minute takes some ten bytes instead of forty.

use super::Minute;

pub(super) const MINUTES_OF_DAY: u64 = 1_440;
const LAST_MINUTE_OF_DAY: u16 = 1_439;
const RECORDED_BYTES: usize = (MINUTES_OF_DAY / 8) as usize;
/// A number of 65 bits takes at most so many groups of seven.
const GROUPS_MAX: u32 = 10;

pub(super) fn key(budget: u64, of_day: u16) -> [u8; 10] {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&budget.to_be_bytes());
    key[8..].copy_from_slice(&of_day.to_be_bytes());
    key
}

pub(super) fn minute_of_key(key: &[u8]) -> Option<u16> {
    key.last_chunk().map(|minute| u16::from_be_bytes(*minute))
}

pub(super) fn value(row: &Minute) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24);
    put(&mut bytes, zigzag(row.spent).into());
    put(&mut bytes, row.planned.map_or(0, |planned| u128::from(zigzag(planned)) + 1));
    for count in [row.asks, row.grants, row.wins, row.refusals, row.latency_p99_us] {
        put(&mut bytes, count.into());
    }
    bytes
}

/// `None` where the bytes are no value.
pub(super) fn read(mut bytes: &[u8]) -> Option<Minute> {
    let row = Minute {
        spent: unzigzag(u64::try_from(take(&mut bytes)?).ok()?),
        planned: match take(&mut bytes)? {
            0 => None,
            planned => Some(unzigzag(u64::try_from(planned - 1).ok()?)),
        },
        asks: u32::try_from(take(&mut bytes)?).ok()?,
        grants: u32::try_from(take(&mut bytes)?).ok()?,
        wins: u32::try_from(take(&mut bytes)?).ok()?,
        refusals: u32::try_from(take(&mut bytes)?).ok()?,
        latency_p99_us: u32::try_from(take(&mut bytes)?).ok()?,
    };
    bytes.is_empty().then_some(row)
}

/// Small numbers of either sign become small ones.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

fn put(bytes: &mut Vec<u8>, mut number: u128) {
    loop {
        let group = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(group);
            return;
        }
        bytes.push(group | 0x80);
    }
}

fn take(bytes: &mut &[u8]) -> Option<u128> {
    let mut number = 0;
    for at in 0..GROUPS_MAX {
        let (&group, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u128::from(group & 0x7f) << (7 * at);
        if group & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Which minutes of a day were recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recorded([u8; RECORDED_BYTES]);

impl Default for Recorded {
    fn default() -> Recorded {
        Recorded([0; RECORDED_BYTES])
    }
}

impl Recorded {
    pub(super) fn read(bytes: &[u8]) -> Recorded {
        bytes.try_into().map(Recorded).unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn insert(&mut self, of_day: u16) {
        if let Some(byte) = self.0.get_mut(usize::from(of_day / 8)) {
            *byte |= 1 << (of_day % 8);
        }
    }

    /// In their order.
    pub(super) fn minutes(&self) -> impl Iterator<Item = u16> + '_ {
        let is_set = |minute: &u16| {
            self.0.get(usize::from(minute / 8)).is_some_and(|byte| byte >> (minute % 8) & 1 == 1)
        };
        (0..=LAST_MINUTE_OF_DAY).filter(is_set)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows() -> impl Strategy<Value = Minute> {
        let counts = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
        (any::<i64>(), any::<Option<i64>>(), counts).prop_map(|(spent, planned, counts)| {
            let (asks, grants, wins, refusals, latency_p99_us) = counts;
            Minute { spent, planned, asks, grants, wins, refusals, latency_p99_us }
        })
    }

    proptest! {
        #[test]
        fn a_value_is_read_as_it_was_written(row in rows(), short in any::<prop::sample::Index>()) {
            let bytes = value(&row);
            prop_assert_eq!(read(&bytes), Some(row));
            prop_assert_eq!(read(&bytes[..short.index(bytes.len())]), None);
            prop_assert_eq!(read(&[bytes, vec![0]].concat()), None);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read(&bytes);
        }

        #[test]
        fn keys_sort_by_budget_and_minute(a in any::<(u64, u16)>(), b in any::<(u64, u16)>()) {
            prop_assert_eq!(key(a.0, a.1).cmp(&key(b.0, b.1)), a.cmp(&b));
            prop_assert_eq!(minute_of_key(&key(a.0, a.1)), Some(a.1));
        }
    }

    #[test]
    fn the_ends_of_the_ranges() {
        for number in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
            let row = Minute { spent: number, planned: Some(number), ..Minute::default() };
            assert_eq!(read(&value(&row)), Some(row));
        }
        assert_eq!(value(&Minute::default()).len(), 7);
    }

    #[test]
    fn recorded_minutes() {
        let mut recorded = Recorded::default();
        for minute in [0, 9, 1_439, 1_440, u16::MAX] {
            recorded.insert(minute);
        }
        assert_eq!(Recorded::read(recorded.bytes()).minutes().collect::<Vec<_>>(), [0, 9, 1_439]);
        assert_eq!(Recorded::read(b"short"), Recorded::default());
    }
}
