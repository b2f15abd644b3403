//! A batch, as the work sees it.

use table::ring::Receiver;

/// The items of one batch, to be taken out in order: those of the first producer, of the second, and so on. What is
/// not taken stays in the queue.
#[derive(Debug)]
pub struct Items<'a, T> {
    rings: &'a mut [Ring<T>],
    left: usize,
    taken: u64,
}

/// One producer's ring, and how many of its items belong to the batch.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    receiver: Receiver<T>,
    left: usize,
}

impl<T> Ring<T> {
    pub(crate) fn new(receiver: Receiver<T>) -> Ring<T> {
        Ring { receiver, left: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.receiver.depth() == 0
    }
}

impl<'a, T> Items<'a, T> {
    /// All that is in the rings now, up to `max` items.
    pub(crate) fn look(rings: &'a mut [Ring<T>], max: usize) -> Items<'a, T> {
        let mut left = 0;
        for ring in &mut *rings {
            ring.left = ring.receiver.depth().min(max - left);
            left += ring.left;
        }
        Items { rings, left, taken: 0 }
    }

    /// Items that were taken out.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }
}

impl<T> Iterator for Items<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        loop {
            let (ring, _) = self.rings.split_first_mut()?;
            if ring.left > 0 {
                ring.left -= 1;
                self.left -= 1;
                self.taken += 1;
                return ring.receiver.recv();
            }
            let rings = std::mem::take(&mut self.rings);
            self.rings = rings.get_mut(1..)?;
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for Items<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use table::ring::channel;

    fn rings(filled: &[u32]) -> Vec<Ring<u32>> {
        let ring = |count: &u32| {
            let (mut sender, receiver) = channel(8);
            (0..*count).for_each(|item| sender.try_send(item).unwrap());
            Ring::new(receiver)
        };
        filled.iter().map(ring).collect()
    }

    #[test]
    fn a_batch_is_what_was_there_ring_after_ring() {
        let mut rings = rings(&[2, 0, 3]);
        let mut items = Items::look(&mut rings, usize::MAX);
        assert_eq!(items.len(), 5);
        assert!(items.by_ref().eq([0, 1, 0, 1, 2]));
        assert_eq!((items.taken(), items.next()), (5, None));
        assert!(rings.iter().all(Ring::is_empty));
    }

    #[test]
    fn what_is_not_taken_comes_again() {
        let mut rings = rings(&[3, 3]);
        let mut items = Items::look(&mut rings, usize::MAX);
        assert!(items.by_ref().take(4).eq([0, 1, 2, 0]));
        assert_eq!((items.len(), items.taken()), (2, 4));
        assert!(Items::look(&mut rings, usize::MAX).eq([1, 2]));
    }

    #[test]
    fn a_batch_keeps_its_bound() {
        let mut rings = rings(&[3, 3]);
        assert!(Items::look(&mut rings, 4).eq([0, 1, 2, 0]));
        assert!(Items::look(&mut rings, 4).eq([1, 2]));
        assert_eq!(Items::look(&mut [], 4).next(), None::<u32>);
    }
}
