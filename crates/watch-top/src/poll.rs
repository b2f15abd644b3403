//! A thread that asks the node again and again, and hands over what it answers.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use admin_client::{Client, FetchError, encode};

use crate::answers::{Audit, Detail, Node, Page, Refusals};
use crate::query::Wants;

/// Rows of the table that are asked for.
pub const ROWS_MAX: usize = 200;
/// Changes of a budget that are asked for.
const CHANGES_MAX: usize = 5;
/// The wait after the first failure; it doubles with each further one...
const RETRY_FIRST: Duration = Duration::from_millis(500);
/// ...up to this.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// What became of a round of questions.
#[derive(Debug)]
pub enum Update {
    /// The node answered.
    Round(Box<Round>),
    /// It did not; the figures before are the last ones.
    Lost {
        /// Why, for people.
        why: String,
        /// When it is asked again.
        retry_in: Duration,
    },
}

/// The answers of one round.
#[derive(Clone, Debug)]
pub struct Round {
    /// What was asked for.
    pub wants: Wants,
    /// How the node stands.
    pub node: Node,
    /// The table; or why the node refuses it (a filter that it cannot read).
    pub page: Result<Page, Refused>,
    /// One budget, where one is wanted; or why there is none.
    pub detail: Option<Result<Closer, Refused>>,
}

/// What the node says instead of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refused(pub String);

/// One budget, looked at closely.
#[derive(Clone, Debug, Default)]
pub struct Closer {
    /// The budget.
    pub detail: Detail,
    /// What became of its asks.
    pub refusals: Refusals,
    /// What people changed of it, newest first.
    pub audit: Audit,
}

/// Asks everything once.
///
/// # Errors
/// The node cannot be asked, or does not let us in. What it refuses of a single answer is in the [`Round`].
pub fn round(client: &Client, wants: &Wants) -> Result<Round, FetchError> {
    let node = client.get("/v1/node")?;
    let page = if_refused(client.get(&wants.query.path(ROWS_MAX)))?;
    let detail = match &wants.detail {
        Some(id) => Some(if_refused(closer(client, id))?),
        None => None,
    };
    Ok(Round { wants: wants.clone(), node, page, detail })
}

fn closer(client: &Client, id: &str) -> Result<Closer, FetchError> {
    let id = encode(id);
    let detail = client.get(&format!("/v1/budgets/{id}"))?;
    let refusals = client.get(&format!("/v1/budgets/{id}/refusals"))?;
    let audit = client.get(&format!("/v1/audit?budget={id}&max={CHANGES_MAX}"))?;
    Ok(Closer { detail, refusals, audit })
}

/// Only what the node says about this one question is taken out of the errors.
fn if_refused<T>(answer: Result<T, FetchError>) -> Result<Result<T, Refused>, FetchError> {
    match answer {
        Ok(answer) => Ok(Ok(answer)),
        Err(
            FetchError::Refused { status: 400 | 422, text, .. } | FetchError::Unknown { text, .. },
        ) => Ok(Err(Refused(text))),
        Err(error) => Err(error),
    }
}

/// The thread, while it is held.
#[derive(Debug)]
pub struct Poller {
    wants: Option<Sender<Wants>>,
    updates: Receiver<Update>,
    thread: Option<JoinHandle<()>>,
}

impl Poller {
    /// Starts to ask, every so often and whenever something else is wanted.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(client: Client, every: Duration, first: Wants) -> std::io::Result<Poller> {
        let (wants, asked) = channel();
        let (answers, updates) = channel();
        let polling = Polling { client, every, wants: first, asked, answers };
        let thread = std::thread::Builder::new().name("top-poll".to_owned());
        let thread = thread.spawn(move || polling.run())?;
        Ok(Poller { wants: Some(wants), updates, thread: Some(thread) })
    }

    /// From now on this is asked for, at once for the first time.
    pub fn want(&self, wants: Wants) {
        if let Some(sender) = &self.wants {
            // Its thread is gone only after a panic, which `next` reports.
            let _ = sender.send(wants);
        }
    }

    /// What came in, if something did.
    ///
    /// # Errors
    /// The thread has ended.
    pub fn next(&self) -> Result<Option<Update>, Ended> {
        match self.updates.try_recv() {
            Ok(update) => Ok(Some(update)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Ended),
        }
    }
}

/// The polling thread has ended by a bug of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the thread that asks the node has ended; this is a bug, please report it")]
pub struct Ended;

impl Drop for Poller {
    fn drop(&mut self) {
        // Without a sender the thread ends after the round it is in, at most some waits of the client later. The process
        // ends sooner than that: it is not waited for.
        self.wants = None;
        drop(self.thread.take());
    }
}

struct Polling {
    client: Client,
    every: Duration,
    wants: Wants,
    asked: Receiver<Wants>,
    answers: Sender<Update>,
}

impl Polling {
    fn run(mut self) {
        let mut failures = 0;
        while let Ok(wait) = self.ask(&mut failures) {
            match self.asked.recv_timeout(wait) {
                Ok(wants) => self.wants = wants,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Keys that were pressed meanwhile: only the last one counts.
            while let Ok(wants) = self.asked.try_recv() {
                self.wants = wants;
            }
        }
    }

    /// One round; how long to wait for the next one.
    fn ask(&self, failures: &mut u32) -> Result<Duration, SendError<Update>> {
        let (update, wait) = match round(&self.client, &self.wants) {
            Ok(round) => {
                *failures = 0;
                (Update::Round(Box::new(round)), self.every)
            }
            Err(error) => {
                let retry_in = backoff(*failures);
                *failures = failures.saturating_add(1);
                (Update::Lost { why: error.to_string(), retry_in }, retry_in)
            }
        };
        self.answers.send(update).map(|()| wait)
    }
}

/// How long to wait after so many failures and one more.
#[must_use]
pub fn backoff(failures: u32) -> Duration {
    RETRY_FIRST.saturating_mul(1 << failures.min(10)).min(RETRY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let waits: Vec<u128> = (0..7).map(|failures| backoff(failures).as_millis()).collect();
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
        assert_eq!(backoff(u32::MAX), RETRY_MAX);
    }
}
