//! From nothing to a running worker.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use table::ring;

use crate::figures::{Gauge, Pushes};
use crate::handle::After;
use crate::items::{Items, Ring};
use crate::producer::Producer;
use crate::shared::Shared;
use crate::worker::Worker;

/// A queue whose worker has not started: the time to make producers.
#[derive(Debug)]
pub struct Setup<T> {
    name: &'static str,
    capacity: usize,
    shared: Arc<Shared>,
    rings: Vec<Ring<T>>,
    pushes: Vec<Arc<Pushes>>,
}

/// The worker could not start.
#[derive(Debug, thiserror::Error)]
#[error("no thread {name}: {source}; is the number of threads of this user or container limited?")]
pub struct StartError {
    /// The thread's name.
    pub name: &'static str,
    /// The error of the operating system.
    pub source: io::Error,
}

impl<T: Send + 'static> Setup<T> {
    /// A queue for up to `capacity` items a producer (at least 1). `name` is the thread's, in figures of the system and
    /// in log lines; Linux shows its first 15 bytes.
    #[must_use]
    pub fn new(name: &'static str, capacity: usize) -> Setup<T> {
        Setup { name, capacity, shared: Arc::default(), rings: Vec::new(), pushes: Vec::new() }
    }

    /// One more producer, with a ring of its own. Allocates the ring. It may push before the worker has started.
    pub fn producer(&mut self) -> Producer<T> {
        let (sender, receiver) = ring::channel(self.capacity);
        let pushes = Arc::<Pushes>::default();
        self.pushes.push(Arc::clone(&pushes));
        self.rings.push(Ring::new(receiver));
        Producer::new(sender, pushes, Arc::clone(&self.shared))
    }

    /// Starts the worker. It calls `work` with each batch, on its thread, for as long as the [`After`] lives.
    ///
    /// What `work` leaves in a batch is given to it again, after a nap. If it panics it is called again with the next
    /// batch: what it keeps must stand that.
    ///
    /// # Errors
    /// The system starts no thread. The producers are then closed.
    pub fn start<W>(self, work: W) -> Result<After, StartError>
    where
        W: FnMut(&mut Items<'_, T>) + Send + 'static,
    {
        let Setup { name, shared, rings, pushes, .. } = self;
        let gauge = Gauge::new(Arc::clone(&shared), pushes);
        let worker = Worker::new(name, Arc::clone(&shared), rings, work);
        After::start(name, gauge, worker).map_err(|source| {
            shared.close(Duration::ZERO);
            StartError { name, source }
        })
    }
}
