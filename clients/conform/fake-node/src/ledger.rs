//! The books of one play: grants and what became of them, shared by its nodes.

use std::collections::HashMap;

use wire::Verdict;

use crate::frames::EXTEND;

/// What became of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    Held,
    Confirmed,
    /// With the verdict that it was settled with.
    Settled(Verdict),
    Released,
}

/// The grants of one play.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// In the order of their numbers, from 1: node and state.
    holds: Vec<(usize, i64, Hold)>,
    /// Answers to asks that wanted to be remembered, by request id.
    remembered: HashMap<u64, (u8, [u8; 32])>,
}

const MARK: &[u8; 16] = b"fake-node grant ";

/// The token of a grant.
fn token(number: u64) -> [u8; 32] {
    let mut token = [0; 32];
    token[..16].copy_from_slice(MARK);
    token[16..24].copy_from_slice(&number.to_le_bytes());
    token[24..].copy_from_slice(&(!number).to_le_bytes());
    token
}

/// The number of the grant that a token stands for.
pub(crate) fn number_of(found: &[u8; 32]) -> Option<u64> {
    let number = u64::from_le_bytes(found[16..24].try_into().ok()?);
    (*found == token(number)).then_some(number)
}

impl Ledger {
    /// Makes a grant.
    pub(crate) fn grant(&mut self, node: usize, amount: i64) -> [u8; 32] {
        self.holds.push((node, amount, Hold::Held));
        token(self.holds.len() as u64)
    }

    /// The first answer to this request id, if it is remembered.
    pub(crate) fn remembered(&self, request_id: u64) -> Option<(u8, [u8; 32])> {
        self.remembered.get(&request_id).copied()
    }

    /// Remembers an answer.
    pub(crate) fn remember(&mut self, request_id: u64, verdict: u8, token: [u8; 32]) {
        self.remembered.insert(request_id, (verdict, token));
    }

    /// Books a confirm (1), settle (2), release (3) or later end as a node would; the verdict, and whether it is a repeat.
    pub(crate) fn resolve(
        &mut self,
        token: &[u8; 32],
        action: u8,
        amount: i64,
        own: Option<usize>,
    ) -> (Verdict, bool) {
        let Some(number) = number_of(token) else { return (Verdict::Forged, false) };
        let Some((node, held, hold)) =
            usize::try_from(number - 1).ok().and_then(|at| self.holds.get_mut(at))
        else {
            return (Verdict::Forged, false);
        };
        if own.is_some_and(|own| own != *node) {
            return (Verdict::Foreign, false);
        }
        let (next, verdict, repeat) = match (action, *hold) {
            (1, Hold::Held) => (Hold::Confirmed, Verdict::Confirmed, false),
            (1, Hold::Confirmed) => (Hold::Confirmed, Verdict::Confirmed, true),
            (2, Hold::Held | Hold::Confirmed) => {
                let verdict = if amount > *held { Verdict::SettledOver } else { Verdict::Settled };
                (Hold::Settled(verdict), verdict, false)
            }
            (2, Hold::Settled(first)) => (*hold, first, true),
            (2, Hold::Released) => {
                (Hold::Settled(Verdict::SettledLate), Verdict::SettledLate, false)
            }
            (3, Hold::Held | Hold::Confirmed) => (Hold::Released, Verdict::Released, false),
            (3, Hold::Released) => (Hold::Released, Verdict::Released, true),
            (EXTEND, Hold::Held | Hold::Confirmed) => (Hold::Confirmed, Verdict::Extended, false),
            (_, Hold::Settled(_)) => (*hold, Verdict::AlreadySettled, false),
            (1 | EXTEND, Hold::Released) => (*hold, Verdict::AlreadyReleased, false),
            _ => (*hold, Verdict::BadAction, false),
        };
        *hold = next;
        (verdict, repeat)
    }

    /// The grants that are neither settled nor released.
    pub(crate) fn open(&self) -> Vec<usize> {
        let is_open = |hold: &Hold| matches!(hold, Hold::Held | Hold::Confirmed);
        let open = self.holds.iter().enumerate().filter(|(_, (_, _, hold))| is_open(hold));
        open.map(|(at, _)| at + 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_booked_once() {
        let mut ledger = Ledger::default();
        let token = ledger.grant(0, 100);
        assert_eq!(number_of(&token), Some(1));
        assert_eq!(ledger.open(), [1]);
        assert_eq!(ledger.resolve(&token, 2, 100, Some(1)), (Verdict::Foreign, false));
        assert_eq!(ledger.resolve(&token, 1, 0, None), (Verdict::Confirmed, false));
        assert_eq!(ledger.resolve(&token, 2, 101, None), (Verdict::SettledOver, false));
        assert_eq!(ledger.resolve(&token, 2, 101, None), (Verdict::SettledOver, true));
        assert_eq!(ledger.resolve(&token, 3, 0, None), (Verdict::AlreadySettled, false));
        assert_eq!(ledger.resolve(&[7; 32], 3, 0, None), (Verdict::Forged, false));
        assert!(ledger.open().is_empty());
    }
}
