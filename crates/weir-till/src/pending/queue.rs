//! What waits in order.

use std::collections::VecDeque;

use crate::Waits;

/// Things that wait until a number has come so far, in the order in which they came. The number rises: it is how far a log is written, or
/// the number of the last echo that came back from the bank, which takes what a worker says in order: [`crate::Till::echo`].
#[derive(Debug)]
pub struct DueQueue<T> {
    queue: VecDeque<Waiting<T>>,
    /// Of the last that came.
    number: u64,
    /// Of the last that an echo was asked for.
    asked: u64,
    /// All up to this one are due.
    reached: u64,
}

/// One of them.
#[derive(Debug)]
struct Waiting<T> {
    number: u64,
    /// By the steady clock: due from then on in any case.
    until_ms: u64,
    what: T,
}

impl<T> Default for DueQueue<T> {
    fn default() -> DueQueue<T> {
        DueQueue { queue: VecDeque::new(), number: 0, asked: 0, reached: 0 }
    }
}

impl<T> DueQueue<T> {
    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Puts one behind the others, with the next number, up to an instant of the steady clock.
    pub fn push(&mut self, what: T, until_ms: u64) {
        self.number += 1;
        self.queue.push_back(Waiting { number: self.number, until_ms, what });
    }

    /// Puts one behind the others that waits for this number, for as long as it takes. Numbers of a queue may not fall.
    pub fn push_numbered(&mut self, what: T, number: u64) {
        self.queue.push_back(Waiting { number, until_ms: u64::MAX, what });
    }

    /// Puts one behind the others that waits for nothing but an instant of the steady clock. No number lets it go.
    pub fn push_until(&mut self, what: T, until_ms: u64) {
        self.queue.push_back(Waiting { number: u64::MAX, until_ms, what });
    }

    /// Puts one behind the others that waits for money; one that does not is given back.
    pub fn push_waiting(&mut self, what: T, waits: Waits) -> Option<T> {
        match waits {
            Waits::ForBank(until_ms) => self.push(what, until_ms),
            Waits::ForTime(until_ms) => self.push_until(what, until_ms),
            Waits::No => return Some(what),
        }
        None
    }

    /// The number to ask an echo for, behind what was said for those that came since the last one.
    pub fn next_echo(&mut self) -> Option<u64> {
        let number = (self.number > self.asked).then_some(self.number);
        self.asked = self.number;
        number
    }

    /// The number has come so far. One that comes late changes nothing.
    pub fn reached(&mut self, number: u64) {
        self.reached = self.reached.max(number);
    }

    /// Takes the first one, if it is due.
    pub fn next_due(&mut self, steady_ms: u64) -> Option<T> {
        let reached = self.reached;
        let first = self.queue.pop_front_if(|one| one.is_due(reached, steady_ms))?;
        Some(first.what)
    }

    /// Takes the first that is due, wherever it stands.
    pub fn take_first_due(&mut self, steady_ms: u64) -> Option<T> {
        let at = self.queue.iter().position(|one| one.is_due(self.reached, steady_ms))?;
        self.queue.remove(at).map(|one| one.what)
    }

    /// Takes all that are due, wherever they stand, in order. `is_there` may let one go before its turn.
    pub fn take_due(
        &mut self,
        steady_ms: u64,
        is_there: impl Fn(&T) -> bool,
        mut take: impl FnMut(&T),
    ) {
        let reached = self.reached;
        self.queue.retain(|one| {
            let is_due = one.is_due(reached, steady_ms) || is_there(&one.what);
            if is_due {
                take(&one.what);
            }
            !is_due
        });
    }

    /// How long until the time of one is up, ms; `None` if there is none.
    pub fn wait_ms(&self, steady_ms: u64) -> Option<u64> {
        self.queue.iter().map(|one| one.until_ms.saturating_sub(steady_ms)).min()
    }

    /// All that wait.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.queue.iter().map(|one| &one.what)
    }
}

impl<T> Waiting<T> {
    fn is_due(&self, reached: u64, steady_ms: u64) -> bool {
        self.number <= reached || self.until_ms <= steady_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(queue: &mut DueQueue<u64>, steady_ms: u64) -> Vec<u64> {
        std::iter::from_fn(|| queue.next_due(steady_ms)).collect()
    }

    #[test]
    fn one_echo_is_for_all_before_it_and_none_behind_it() {
        let mut queue = DueQueue::default();
        assert_eq!(queue.next_echo(), None);
        queue.push(1, 10);
        queue.push(2, 10);
        assert_eq!((queue.next_echo(), queue.next_echo()), (Some(2), None));
        queue.push(3, 12);
        assert_eq!(queue.next_echo(), Some(3));
        assert_eq!((queue.wait_ms(4), queue.wait_ms(99)), (Some(6), Some(0)));
        assert_eq!(due(&mut queue, 9), [0_u64; 0]);
        queue.reached(2);
        queue.reached(1);
        assert_eq!(due(&mut queue, 9), [1, 2], "one echo for the two that came together");
        assert_eq!(due(&mut queue, 12), [3], "its time is up");
        queue.reached(3);
        assert_eq!((due(&mut queue, 99), queue.wait_ms(0)), (vec![], None), "an echo too late");
        assert!(queue.is_empty());
        // An echo that is too late for one is none for the next.
        queue.push(4, 200);
        assert_eq!((due(&mut queue, 100), queue.len()), (vec![], 1));
    }

    #[test]
    fn those_whose_time_is_up_or_whose_money_is_there_need_not_wait_for_the_others() {
        let mut queue = DueQueue::default();
        let take_due = |queue: &mut DueQueue<u64>, steady_ms| {
            let mut due = Vec::new();
            queue.take_due(steady_ms, |one| *one == 5, |one| due.push(*one));
            due
        };
        queue.push(1, 90);
        queue.push(2, 10);
        queue.push(3, 12);
        assert_eq!((take_due(&mut queue, 9), queue.wait_ms(9)), (vec![], Some(1)));
        assert_eq!(take_due(&mut queue, 12), [2, 3]);
        queue.push(4, 90);
        queue.push(5, 90);
        assert_eq!(take_due(&mut queue, 12), [5]);
        queue.reached(1);
        assert_eq!(take_due(&mut queue, 12), [1]);
        assert_eq!(queue.iter().copied().collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn those_that_wait_for_a_log_leave_when_it_is_written_so_far() {
        let mut queue = DueQueue::default();
        queue.push_numbered(1, 10);
        queue.push_numbered(2, 10);
        queue.push_numbered(3, 17);
        queue.reached(9);
        assert_eq!(due(&mut queue, 0), [0_u64; 0]);
        queue.reached(16);
        assert_eq!(due(&mut queue, 0), [1, 2]);
        queue.reached(17);
        assert_eq!(due(&mut queue, 0), [3]);
    }
}
