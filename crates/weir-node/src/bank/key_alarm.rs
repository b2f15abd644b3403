//! A warning before the table of answers for keys of idempotency is full: from then on new money is refused to who sends keys.

/// Of so many hundredths of the table on it warns, and again once it was below [`CALM_PERCENT`] in between.
const WARN_PERCENT: usize = 80;
const CALM_PERCENT: usize = 70;

/// Whether it was warned.
#[derive(Debug, Default)]
pub(super) struct KeyAlarm {
    warned: bool,
}

impl KeyAlarm {
    /// Looks at how many answers are kept of so many that there may be; true where it warns.
    pub(super) fn look(&mut self, kept: usize, max: usize) -> bool {
        let above = |percent: usize| kept >= (max / 100).saturating_mul(percent).max(1);
        let warns = above(WARN_PERCENT) && !self.warned;
        self.warned = above(if self.warned { CALM_PERCENT } else { WARN_PERCENT });
        if warns {
            tracing::warn!(
                kept,
                max,
                "answers for Idempotency-Keys take {WARN_PERCENT} % of spend.keys_max; when all are taken, reserves and spends with new keys are \
                 refused: raise it, or lower spend.keys_keep_s"
            );
        }
        warns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_warns_once_until_it_is_calm_again() {
        let mut alarm = KeyAlarm::default();
        let warned: Vec<bool> =
            [0, 799, 800, 900, 750, 800, 699, 800].map(|kept| alarm.look(kept, 1_000)).into();
        assert_eq!(warned, [false, false, true, false, false, false, false, true]);
    }
}
