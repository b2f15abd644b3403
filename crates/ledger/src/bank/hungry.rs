//! Wants that wait for money which is on its way: from other purses that were asked for theirs, or from a window that begins in a
//! moment. Only of asks that wait for the bank. No part of the state.

use std::collections::BTreeMap;

use super::fill::Patience;
use super::{Bank, Out};
use crate::books::plus;
use crate::{Need, ToWorker};

/// A want waits no longer than this.
pub(super) const HUNGRY_MS: u64 = 50;
/// Wants that may wait at once; others are answered with what there is.
const HUNGRY_MAX: usize = 1_024;

/// The wants that wait, at most one of each purse, and the echoes behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct Hungry {
    wants: BTreeMap<(u32, u16), Want>,
    /// In the order in which they came.
    echoes: Vec<Echo>,
    /// Wants so far.
    count: u64,
}

/// A sign that a worker asked for: it stands behind the wants that came before it, and not behind later ones, or a purse that is
/// always hungry would keep the asks of all others waiting.
#[derive(Clone, Copy, Debug)]
struct Echo {
    worker: u16,
    reply: u64,
    /// The number of the last want before it.
    behind: u64,
}

#[derive(Clone, Copy, Debug)]
struct Want {
    need: Need,
    patience: Patience,
}

impl Hungry {
    /// A want came from a purse that may have one waiting: both together, and how long they may wait, as the first of them.
    pub(super) fn take(
        &mut self,
        worker: u16,
        slot: u32,
        need: Need,
        steady_ms: u64,
    ) -> (Need, Patience) {
        self.count += 1;
        let Some(Want { need: before, patience }) = self.wants.remove(&(slot, worker)) else {
            let until_ms = steady_ms.saturating_add(HUNGRY_MS);
            return (need, Patience { until_ms, number: self.count, is_new: true });
        };
        let called = plus(need.called, before.called).min(money::LIMIT_MAX);
        (
            Need { called, short: need.short.max(before.short), ..need },
            Patience { is_new: true, ..patience },
        )
    }

    /// Keeps a want. False if there is no place for it.
    pub(super) fn keep(&mut self, worker: u16, slot: u32, need: Need, patience: Patience) -> bool {
        let has_room = self.wants.len() < HUNGRY_MAX;
        if has_room {
            self.wants.insert((slot, worker), Want { need, patience });
        }
        has_room
    }

    fn keeps(&self, echo: Echo) -> bool {
        let is_before = |want: &Want| want.patience.number <= echo.behind;
        self.wants.iter().any(|((_, of), want)| *of == echo.worker && is_before(want))
    }
}

impl Bank {
    /// A worker asks for a sign behind what it said: it gets it once none of its wants of before waits any more.
    pub(super) fn echo(&mut self, worker: u16, reply: u64, out: &mut Out) {
        let behind = self.hungry.count;
        self.send_echo(Echo { worker, reply, behind }, out);
    }

    fn send_echo(&mut self, echo: Echo, out: &mut Out) {
        if self.hungry.keeps(echo) {
            self.hungry.echoes.push(echo);
        } else {
            out.send(echo.worker, ToWorker::Echo { reply: echo.reply });
        }
    }

    /// Tries the wants that wait: all of them, or those that draw on the same money as a budget, some of which came back.
    pub(super) fn feed_hungry(&mut self, slot: Option<u32>, out: &mut Out) {
        if self.hungry.wants.is_empty() {
            return;
        }
        let top = |bank: &Bank, slot: u32| bank.chain(slot).next_back();
        let of = slot.map(|slot| top(self, slot));
        let wants: Vec<((u32, u16), Want)> =
            self.hungry.wants.iter().map(|(of, want)| (*of, *want)).collect();
        for ((slot, worker), Want { need, patience }) in wants {
            if of.is_some_and(|of| of != top(self, slot)) {
                continue;
            }
            self.hungry.wants.remove(&(slot, worker));
            self.feed(worker, slot, need, Patience { is_new: false, ..patience }, out);
        }
        self.send_echoes(out);
    }

    pub(super) fn send_echoes(&mut self, out: &mut Out) {
        let echoes = std::mem::take(&mut self.hungry.echoes);
        echoes.into_iter().for_each(|echo| self.send_echo(echo, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_stands_behind_the_wants_of_before_and_no_others() {
        let mut hungry = Hungry::default();
        let want = |hungry: &mut Hungry, slot| {
            let (need, patience) = hungry.take(0, slot, Need::default(), 100);
            assert!(hungry.keep(0, slot, need, patience));
            patience
        };
        let first = want(&mut hungry, 1);
        let echo = Echo { worker: 0, reply: 1, behind: hungry.count };
        want(&mut hungry, 2);
        assert!(hungry.keeps(echo) && !hungry.keeps(Echo { worker: 1, ..echo }));
        let again = want(&mut hungry, 1);
        assert_eq!((again.number, again.until_ms), (first.number, first.until_ms), "both together");
        assert!(hungry.keeps(echo));
        hungry.wants.remove(&(1, 0));
        assert!(!hungry.keeps(echo), "the second came later");
    }
}
