//! The node's token keys: made from the operating system's randomness, rotated, and retired when no token they
//! made can be alive. The bank keeps them, and the journal: tokens outlive the run that made them.

use std::sync::Arc;

use ledger::{Bank, KeyBytes, KeyRing, Out, TokenKey};
use weir_config::config::Config;
use weir_door::thread::SystemError;

use crate::error::StartError;

/// When keys change.
#[derive(Debug)]
pub(crate) struct Keys {
    node: u16,
    rotate_ms: u64,
    /// How long a token can be judged after it was made.
    life_ms: u64,
}

/// 16 bytes that nobody can guess.
pub(crate) fn random() -> Result<[u8; 16], StartError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|e| SystemError::new("randomness", &e))?;
    Ok(bytes)
}

impl Keys {
    pub(crate) fn new(config: &Config) -> Keys {
        let l = &config.ledger;
        // A token lives for its two deadlines, each rounded up, and the time it is still judged after them.
        let judged_ms = l.late_ms.max(l.reconcile_ms);
        let life_ms = 2 * l.hold_ms + l.billing_ms + l.billing_ms / 32 + judged_ms + 60_000;
        // A key's id comes again after 256 rotations: by then it must be retired.
        let rotate_ms = l.key_ms.max(life_ms / 200);
        Keys { node: config.node.id, rotate_ms, life_ms }
    }

    /// The keys that the bank knows, ready for use.
    ///
    /// # Panics
    /// If it knows none: [`Keys::ensure`] comes first.
    pub(crate) fn ring(&self, bank: &Bank) -> Arc<KeyRing> {
        let (first, later) = bank.keys().split_first().expect("the first key was ensured");
        let mut ring = KeyRing::new(self.node, first.id, first.key.0);
        for key in later {
            ring.rotate(key.id, key.key.0);
        }
        Arc::new(ring)
    }

    /// Makes the first key of a new node, and the secret of answers of one that has none.
    pub(crate) fn ensure(&self, bank: &mut Bank, out: &mut Out) -> Result<(), StartError> {
        if bank.keys().is_empty() {
            add(bank, 1, random()?, out);
        }
        if bank.answer_secret().is_none() {
            bank.add_answer_secret(KeyBytes(random()?), out);
        }
        Ok(())
    }

    /// A new ring, if it is time for one.
    pub(crate) fn rotate_if_due(
        &self,
        bank: &mut Bank,
        now_ms: u64,
        out: &mut Out,
    ) -> Option<Arc<KeyRing>> {
        let present = *bank.keys().last()?;
        if now_ms < present.since_ms + self.rotate_ms {
            return None;
        }
        // Without randomness the present key mints on; the next look tries again.
        let key =
            random().inspect_err(|error| tracing::error!(%error, "token key not rotated")).ok()?;
        for id in self.too_old(bank.keys(), now_ms) {
            if let Err(error) = bank.retire_key(id, out) {
                tracing::error!(%error, "token key not retired");
            }
        }
        add(bank, present.id.wrapping_add(1), key, out);
        tracing::info!(key = present.id.wrapping_add(1), "token key rotated");
        Some(self.ring(bank))
    }

    /// Keys that stopped minting longer ago than a token lives.
    fn too_old(&self, keys: &[TokenKey], now_ms: u64) -> Vec<u8> {
        let pairs = keys.windows(2).map(|pair| (pair[0].id, pair[1].since_ms));
        let old = pairs.filter(|(_, until_ms)| until_ms + self.life_ms <= now_ms);
        old.map(|(id, _)| id).collect()
    }
}

fn add(bank: &mut Bank, id: u8, key: [u8; 16], out: &mut Out) {
    if let Err(error) = bank.add_key(id, KeyBytes(key), out) {
        tracing::error!(%error, "token key not added");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Amount, Hold, Options, Token, TokenError};

    fn seal(ring: &KeyRing) -> Token {
        let hold = Hold { grant: 1, seq: 1, node: 1, deadline_ms: 1_000, amount: Amount::new(1) };
        let mut token = [[0; 32]];
        ring.write(&hold, &mut token[0]);
        ring.seal(&mut token, &[0], |token| token);
        token[0]
    }

    #[test]
    fn tokens_outlive_their_key_until_they_are_too_old() {
        let mut config = Config::default();
        (config.ledger.key_ms, config.ledger.billing_ms, config.ledger.late_ms) =
            (1_000, 1_000, 1_000);
        let keys = Keys::new(&config);
        let (mut bank, mut out) = (Bank::new(Options::default()), Out::default());
        let mut now_ms = 5;
        bank.start_run(now_ms, &mut out);
        keys.ensure(&mut bank, &mut out).unwrap();
        assert!(keys.rotate_if_due(&mut bank, now_ms, &mut out).is_none());
        let token = seal(&keys.ring(&bank));
        let mut rotations = 0;
        let mut rotate = |bank: &mut Bank, now_ms| {
            bank.tick(now_ms, &mut out);
            keys.rotate_if_due(bank, now_ms, &mut out).is_some()
        };
        while now_ms < 5 + keys.life_ms {
            now_ms += keys.rotate_ms;
            rotations += u64::from(rotate(&mut bank, now_ms));
            assert!(keys.ring(&bank).open(&token).is_ok(), "after {now_ms} ms");
        }
        while keys.ring(&bank).open(&token).is_ok() {
            now_ms += keys.rotate_ms;
            assert!(rotate(&mut bank, now_ms));
            rotations += 1;
        }
        assert_eq!(keys.ring(&bank).open(&token), Err(TokenError::TooOld(1)));
        assert!(rotations < 256, "{rotations} rotations: the key's id must not come again before");
        let ring = keys.ring(&bank);
        assert!(ring.open(&seal(&ring)).is_ok());
    }
}
