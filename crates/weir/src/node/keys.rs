//! The node's token keys: made from the operating system's randomness, rotated, and retired when no token they
//! made can be alive.
//!
//! Until there is a journal they live in memory: tokens of an earlier run are forged to a later one, which knows
//! nothing of their holds either.

use std::collections::VecDeque;
use std::sync::Arc;

use ledger::KeyRing;

use super::StartError;
use crate::config::Config;

/// Keys and when to change them.
#[derive(Debug)]
pub(crate) struct Keys {
    ring: Arc<KeyRing>,
    rotate_ms: u64,
    /// How long a token can be judged after it was made.
    life_ms: u64,
    /// When the present key began to mint; 0 until the first look at the clock.
    since_ms: u64,
    /// Keys that only verify, with the time they may be forgotten.
    old: VecDeque<(u8, u64)>,
}

/// 16 bytes that nobody can guess.
pub(crate) fn random() -> Result<[u8; 16], StartError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|e| StartError::System { what: "randomness", text: e.to_string() })?;
    Ok(bytes)
}

impl Keys {
    pub(crate) fn new(config: &Config) -> Result<Keys, StartError> {
        let l = &config.ledger;
        // A token lives for its two deadlines, each rounded up, and the time it is still judged after them.
        let life_ms = 2 * l.hold_ms + l.billing_ms + l.billing_ms / 32 + l.late_ms + 60_000;
        // A key's id comes again after 256 rotations: by then it must be retired.
        let rotate_ms = l.key_ms.max(life_ms / 200);
        let ring = Arc::new(KeyRing::new(config.node.id, 1, random()?));
        Ok(Keys { ring, rotate_ms, life_ms, since_ms: 0, old: VecDeque::new() })
    }

    pub(crate) fn ring(&self) -> Arc<KeyRing> {
        Arc::clone(&self.ring)
    }

    /// A new ring, if it is time for one.
    pub(crate) fn rotate_if_due(&mut self, now_ms: u64) -> Option<Arc<KeyRing>> {
        if self.since_ms == 0 {
            self.since_ms = now_ms;
        }
        if now_ms < self.since_ms + self.rotate_ms {
            return None;
        }
        // Without randomness the present key mints on; the next look tries again.
        let key =
            random().inspect_err(|error| tracing::error!(%error, "token key not rotated")).ok()?;
        self.since_ms = now_ms;
        let present = self.ring.current();
        self.old.push_back((present, now_ms + self.life_ms));
        let mut ring = KeyRing::clone(&self.ring);
        ring.rotate(present.wrapping_add(1), key);
        while let Some((id, _)) = self.old.pop_front_if(|(_, until_ms)| *until_ms <= now_ms) {
            ring.retire(id);
        }
        self.ring = Arc::new(ring);
        tracing::info!(key = present.wrapping_add(1), "token key rotated");
        Some(self.ring())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Amount, Hold, Token, TokenError};

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
        let mut keys = Keys::new(&config).unwrap();
        assert!(keys.rotate_if_due(5).is_none());
        let token = seal(&keys.ring());
        let mut now_ms = 5;
        let mut rotations = 0;
        while now_ms < 5 + keys.life_ms {
            now_ms += keys.rotate_ms;
            rotations += u64::from(keys.rotate_if_due(now_ms).is_some());
            assert!(keys.ring().open(&token).is_ok(), "after {now_ms} ms");
        }
        while keys.ring().open(&token).is_ok() {
            now_ms += keys.rotate_ms;
            keys.rotate_if_due(now_ms).unwrap();
            rotations += 1;
        }
        assert_eq!(keys.ring().open(&token), Err(TokenError::TooOld(1)));
        assert!(rotations < 256, "{rotations} rotations: the key's id must not come again before");
        assert!(keys.ring().open(&seal(&keys.ring())).is_ok());
    }
}
