//! Whose budget a grant was made from, as far as this worker met it: a token names its grant, and what its amounts mean depends on
//! the budget.

use ledger::Owner;

/// Grants that are remembered. A power of two; a newer one takes the place of an older.
const GRANTS_MAX: usize = 4_096;

/// The grants of a worker's own purses, and those that the bank was asked about. What a grant was made from never changes.
#[derive(Debug)]
pub(crate) struct Grants(Vec<Option<(u64, Owner)>>);

impl Default for Grants {
    fn default() -> Grants {
        Grants(vec![None; GRANTS_MAX])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only the low bits are wanted")]
fn place(grant: u64) -> usize {
    grant as usize % GRANTS_MAX
}

impl Grants {
    /// What is known of a grant.
    pub(crate) fn get(&self, grant: u64) -> Option<Owner> {
        self.0[place(grant)].filter(|(known, _)| *known == grant).map(|(_, owner)| owner)
    }

    /// Remembers a grant.
    #[inline]
    pub(crate) fn put(&mut self, grant: u64, owner: Owner) {
        self.0[place(grant)] = Some((grant, owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_grant_takes_the_place_of_an_older() {
        let owner = |id| Owner { slot: 1, id, unit: money::Unit::Count, billing_ms: 1 };
        let mut grants = Grants::default();
        assert_eq!(grants.get(0), None);
        grants.put(7, owner(70));
        grants.put(8, owner(80));
        assert_eq!((grants.get(7), grants.get(8)), (Some(owner(70)), Some(owner(80))));
        grants.put(7 + GRANTS_MAX as u64, owner(71));
        assert_eq!((grants.get(7), grants.get(8)), (None, Some(owner(80))));
    }
}
