//! Cells whose hours are over, as bytes: sorted, differences and numbers of as few bytes as they need.
//!
//! ```text
//!  "WEIRCEL1"
//!  hours:    minutes since the hour before, its number of budgets
//!  budgets:  kind, id (of the same kind: what it is more than that before), its number of cells
//!  cells:    key (8 bytes where it means something, one for the others), impressions, clicks, spend
//! ```

use ledger::Amount;

use crate::cells::{CellId, KEY_NONE, KEY_OTHER, KEY_UNKNOWN};
use crate::fold::Total;

const MAGIC: [u8; 8] = *b"WEIRCEL1";
/// The keys that are written as their place here: the first byte of others is larger, as they have the bit of [`KEY_OTHER`].
const SHORT: [u64; 3] = [KEY_NONE, KEY_UNKNOWN, KEY_OTHER];

/// Bytes that are no closed cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these are no cells of reports, or damaged ones")]
pub struct NoCells;

/// Cells as bytes. They come in order.
pub fn write_cells(cells: &[(CellId, Total)]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    let mut hour_before = 0;
    for hour in cells.chunk_by(|((one, ..), _), ((next, ..), _)| one == next) {
        let ((minute, ..), _) = hour[0];
        number(&mut bytes, u64::from(minute - hour_before));
        hour_before = minute;
        let of_one = |((_, kind, id, _), _): &(CellId, Total)| (*kind, *id);
        let budgets = || hour.chunk_by(|one, next| of_one(one) == of_one(next));
        number(&mut bytes, budgets().count() as u64);
        let mut before = (0, 0);
        for budget in budgets() {
            let (kind, id) = of_one(&budget[0]);
            number(&mut bytes, u64::from(kind));
            number(&mut bytes, if kind == before.0 { id - before.1 } else { id });
            before = (kind, id);
            number(&mut bytes, budget.len() as u64);
            for ((.., key), total) in budget {
                match (0..).zip(SHORT).find(|(_, short)| short == key) {
                    Some((place, _)) => bytes.push(place),
                    None => bytes.extend(key.to_be_bytes()),
                }
                number(&mut bytes, total.impressions);
                number(&mut bytes, total.clicks);
                number(&mut bytes, total.spend.get().unsigned_abs());
            }
        }
    }
    bytes
}

/// Hands on the cells of these bytes.
///
/// # Errors
/// [`NoCells`]; some may have been handed on.
pub fn read_cells(bytes: &[u8], each: &mut dyn FnMut(CellId, Total)) -> Result<(), NoCells> {
    let mut rest = bytes.strip_prefix(&MAGIC).ok_or(NoCells)?;
    let mut minute = 0_u32;
    while !rest.is_empty() {
        let more = u32::try_from(take(&mut rest)?).map_err(|_| NoCells)?;
        minute = minute.checked_add(more).ok_or(NoCells)?;
        let mut before = (0, 0);
        for _ in 0..take(&mut rest)? {
            let kind = u32::try_from(take(&mut rest)?).map_err(|_| NoCells)?;
            let id = take(&mut rest)?;
            let id = if kind == before.0 { id.checked_add(before.1).ok_or(NoCells)? } else { id };
            before = (kind, id);
            for _ in 0..take(&mut rest)? {
                let key = take_key(&mut rest)?;
                let (impressions, clicks) = (take(&mut rest)?, take(&mut rest)?);
                let spend = i64::try_from(take(&mut rest)?).map_err(|_| NoCells)?;
                let spend = Amount::new(spend);
                each((minute, kind, id, key), Total { impressions, clicks, spend });
            }
        }
    }
    Ok(())
}

/// Seven bits per byte, the lowest first.
fn number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take(rest: &mut &[u8]) -> Result<u64, NoCells> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, behind) = rest.split_first().ok_or(NoCells)?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    Err(NoCells)
}

fn take_key(rest: &mut &[u8]) -> Result<u64, NoCells> {
    let (first, behind) = rest.split_first().ok_or(NoCells)?;
    if let Some(short) = SHORT.get(usize::from(*first)) {
        *rest = behind;
        return Ok(*short);
    }
    let (key, behind) = rest.split_first_chunk().ok_or(NoCells)?;
    *rest = behind;
    Some(u64::from_be_bytes(*key)).filter(|key| *key > KEY_OTHER).ok_or(NoCells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn read(bytes: &[u8]) -> Result<Vec<(CellId, Total)>, NoCells> {
        let mut cells = Vec::new();
        read_cells(bytes, &mut |id, total| cells.push((id, total))).map(|()| cells)
    }

    fn key() -> impl Strategy<Value = u64> {
        prop_oneof![prop::sample::select(SHORT.to_vec()), (KEY_OTHER + 1..)]
    }

    proptest! {
        #[test]
        fn cells_come_back_and_damage_is_no_panic(
            cells in prop::collection::btree_map(
                (0..3_u32, 0..3_u32, prop_oneof![0..9_u64, any::<u64>()], key()), (any::<u64>(), any::<u64>(), 0..=i64::MAX), 0..60,
            ),
            at: prop::sample::Index, bit in 0..8,
        ) {
            let of = |(impressions, clicks, spend)| Total { impressions, clicks, spend: Amount::new(spend) };
            let cells: BTreeMap<CellId, Total> = cells.into_iter().map(|(id, total)| (id, of(total))).collect();
            let cells: Vec<_> = cells.into_iter().collect();
            let mut bytes = write_cells(&cells);
            prop_assert_eq!(read(&bytes), Ok(cells));
            let at = at.index(bytes.len());
            _ = read(&bytes[..at]);
            bytes[at] ^= 1_u8 << bit;
            _ = read(&bytes);
        }
    }

    /// 50,000 campaigns with one key each, or few with many: ids, keys and sums as they are in a busy hour.
    #[test]
    fn a_cell_takes_25_bytes_at_most() {
        let total = Total { impressions: 9_000, clicks: 120, spend: Amount::new(18_000_000_000) };
        for keys in [1, 4, 100] {
            let id = |n: u64| {
                (29_000_000, 0, 1_000_000 + n / keys * 977, KEY_OTHER + 1 + n % keys * (1 << 50))
            };
            let cells: Vec<_> = (0..50_000).map(|n| (id(n), total)).collect();
            let bytes = write_cells(&cells).len();
            assert!(bytes <= cells.len() * 25, "{keys} keys a campaign: {bytes} bytes");
        }
    }
}
