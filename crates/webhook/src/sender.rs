//! The threads that send.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ureq::Agent;

use crate::endpoint::{Endpoint, EndpointError, Reach};
use crate::post::{Trust, agent, post};
use crate::queue::{Message, Queue, Report, SendError};

/// How a sender works.
#[derive(Clone, Debug)]
pub struct Options {
    /// Messages that may wait or be under way at once. Default: 1,024.
    pub messages_max: usize,
    /// Threads: so many endpoints may hang before others wait for them. Default: 4.
    pub threads: usize,
    /// How long one attempt may take, from the name to the answer's head. Default: 20 s.
    pub wait: Duration,
    /// The pauses after failed attempts, before jitter; after the last one a message is given up. Default: 5 s, 5 and 30
    /// minutes, 2, 5, 10, 14, 20 and 24 hours: three days in all.
    pub retries: Vec<Duration>,
    /// Where messages may go. Default: [`Reach::Public`].
    pub reach: Reach,
    /// Whose certificates are trusted. Default: [`Trust::System`].
    pub trust: Trust,
}

impl Default for Options {
    fn default() -> Options {
        let seconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
        Options {
            messages_max: 1_024,
            threads: 4,
            wait: Duration::from_secs(20),
            retries: seconds.map(Duration::from_secs).to_vec(),
            reach: Reach::Public,
            trust: Trust::System,
        }
    }
}

/// Sends messages until it is stopped or dropped.
#[derive(Debug)]
pub struct Sender {
    shared: Arc<Shared>,
    reach: Reach,
    threads: Vec<JoinHandle<()>>,
}

/// Is told what became of each message, on a thread of the sender or of whoever stops it; it must not panic.
type OnReport = Box<dyn Fn(Report) + Send + Sync>;

struct Shared {
    queue: Mutex<Queue>,
    /// Something may be due earlier than before, or a stop.
    changed: Condvar,
    on_report: OnReport,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.queue.fmt(f)
    }
}

impl Sender {
    /// Starts the threads. `on_report` hears once of each message that [`Sender::send`] took.
    ///
    /// # Errors
    /// The system has no threads, or no certificates of authorities.
    pub fn start(
        options: &Options,
        on_report: impl Fn(Report) + Send + Sync + 'static,
    ) -> std::io::Result<Sender> {
        let queue = Mutex::new(Queue::new(options.messages_max, options.retries.clone()));
        let on_report = Box::new(on_report);
        let shared = Arc::new(Shared { queue, changed: Condvar::new(), on_report });
        let agent = agent(options.reach, &options.trust, options.wait)?;
        let mut sender = Sender { shared, reach: options.reach, threads: Vec::new() };
        for _ in 0..options.threads.max(1) {
            let (shared, agent) = (Arc::clone(&sender.shared), agent.clone());
            let named = std::thread::Builder::new().name("webhook".into());
            sender.threads.push(named.spawn(move || shared.run(&agent))?);
        }
        Ok(sender)
    }

    /// Adds an endpoint, or replaces the one of its name: its address, its secrets, and that it was gone.
    ///
    /// # Errors
    /// [`EndpointError::Plain`]: HTTP where only HTTPS may be.
    pub fn put(&self, endpoint: Endpoint) -> Result<(), EndpointError> {
        endpoint.check(self.reach)?;
        self.shared.lock().put(endpoint, Instant::now());
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Forgets an endpoint; what waits for it is reported as removed.
    pub fn remove(&self, endpoint: &str) {
        let reports = self.shared.lock().remove(endpoint);
        self.shared.tell(reports);
    }

    /// Takes a message for an endpoint and returns at once.
    ///
    /// # Errors
    /// [`SendError`]: it is not taken, and nothing will be reported of it.
    pub fn send(&self, endpoint: &str, message: Message) -> Result<(), SendError> {
        self.shared.lock().send(endpoint, message, Instant::now())?;
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Takes nothing more, reports what waits as stopped, and returns when attempts under way have ended, each within the
    /// wait of the options.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let reports = self.shared.lock().stop();
        self.shared.changed.notify_all();
        self.shared.tell(reports);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Outside of the lock: whoever hears it may send again.
    fn tell(&self, reports: Vec<Report>) {
        reports.into_iter().for_each(|report| (self.on_report)(report));
    }

    fn run(&self, agent: &Agent) {
        let mut queue = self.lock();
        while !queue.is_stopped {
            let now = Instant::now();
            queue = match queue.next(now) {
                Ok(attempt) => {
                    drop(queue);
                    let answer = post(agent, &attempt.endpoint, &attempt.message);
                    let reports = self.lock().ended(attempt, answer, Instant::now(), jitter());
                    self.changed.notify_all();
                    self.tell(reports);
                    self.lock()
                }
                Err(Some(due)) => {
                    let wait = due.saturating_duration_since(now);
                    self.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                Err(None) => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Without randomness there is no jitter, and everything else goes on.
fn jitter() -> u8 {
    let mut byte = [0];
    getrandom::fill(&mut byte).map_or(0, |()| byte[0])
}
