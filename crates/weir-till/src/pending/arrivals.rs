//! Answers that other threads make, on their way back to the worker that waits for them.

use std::sync::{Arc, Mutex, PoisonError};

use door_transport::Waker;

/// Where one worker's answers of other threads arrive, each with the place of [`super::Pending`] that waits for it.
pub struct Arrivals<A> {
    answers: Mutex<Vec<(u32, Option<A>)>>,
    waker: Waker,
}

impl<A> Arrivals<A> {
    /// None so far. Each wakes the worker.
    pub fn new(waker: Waker) -> Arc<Arrivals<A>> {
        Arc::new(Arrivals { answers: Mutex::default(), waker })
    }

    /// Takes what has arrived: `None` in the place of an answer that nobody makes any more.
    pub fn take(&self) -> Vec<(u32, Option<A>)> {
        std::mem::take(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, place: u32, answer: Option<A>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push((place, answer));
        self.waker.wake();
    }
}

/// An answer that a worker waits for at a place. Dropped without one the worker hears so: whatever becomes of the thread that has it, nobody
/// waits for ever.
pub struct Owed<A> {
    place: u32,
    /// `None` once it is given.
    to: Option<Arc<Arrivals<A>>>,
}

impl<A> Owed<A> {
    /// The answer for this place.
    pub fn new(place: u32, to: &Arc<Arrivals<A>>) -> Owed<A> {
        Owed { place, to: Some(Arc::clone(to)) }
    }

    /// Gives the answer.
    pub fn give(mut self, answer: A) {
        if let Some(to) = self.to.take() {
            to.push(self.place, Some(answer));
        }
    }

    /// Gives the debt back to the worker that has the place, which answers by itself.
    pub fn take_back(mut self) -> u32 {
        self.to = None;
        self.place
    }

    /// Nobody waits at the place any more.
    pub fn forget(mut self) {
        self.to = None;
    }
}

impl<A> Drop for Owed<A> {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.push(self.place, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use door_transport::Handle;

    use super::*;

    #[test]
    fn whoever_waits_gets_one_answer_whatever_happens() {
        let arrivals = Arrivals::new(Handle::new().unwrap().waker());
        Owed::new(1, &arrivals).give("done");
        Owed::new(2, &arrivals).forget();
        assert_eq!(Owed::new(4, &arrivals).take_back(), 4);
        let lost = Owed::new(3, &arrivals);
        let dies = std::thread::spawn(move || {
            let _lost = lost;
            std::panic::resume_unwind(Box::new("a bug"));
        });
        dies.join().unwrap_err();
        assert_eq!(arrivals.take(), [(1, Some("done")), (3, None)]);
        assert!(arrivals.take().is_empty());
    }
}
