//! What waits to be sent, and when: without threads or sockets.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::endpoint::Endpoint;
use crate::post::{Answer, Pause};

/// Characters of a message's id at most.
const ID_MAX: usize = 64;
/// Bytes of a payload at most; receivers are best served with less than 20 KiB.
const PAYLOAD_BYTES_MAX: usize = 256 << 10;

/// One message.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    id: String,
    payload: Vec<u8>,
}

/// Without the payload, which is the receiver's business.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("id", &self.id).field("bytes", &self.payload.len()).finish()
    }
}

/// A message that cannot be sent.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MessageError {
    /// The id: it is signed between full stops.
    #[error("the id of the message: expected 1 to {ID_MAX} of A-Za-z0-9_-")]
    Id,
    /// The payload.
    #[error("the payload of the message: expected at most {PAYLOAD_BYTES_MAX} bytes")]
    Payload,
}

impl Message {
    /// A message: an id, by which receivers tell repeats, and JSON.
    ///
    /// # Errors
    /// [`MessageError`]: what of it cannot be used.
    pub fn new(id: &str, payload: Vec<u8>) -> Result<Message, MessageError> {
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        if !(1..=ID_MAX).contains(&id.len()) || !id.bytes().all(is_id) {
            return Err(MessageError::Id);
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(MessageError::Payload);
        }
        Ok(Message { id: id.to_owned(), payload })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }
}

/// Why a message is not taken; nothing is reported of it.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SendError {
    /// No endpoint of this name was put.
    #[error("no endpoint has this name")]
    Unknown,
    /// The endpoint answered 410 and is disabled until it is put again.
    #[error("the endpoint accepts no more messages")]
    Gone,
    /// As many messages wait as may.
    #[error("too many messages wait; send this one again later")]
    Full,
    /// The sender was stopped.
    #[error("the sender is stopped")]
    Stopped,
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver took it.
    Delivered,
    /// All attempts failed; the last one for this reason.
    GaveUp(String),
    /// The endpoint answered 410, to this message or to one before it.
    Gone,
    /// The endpoint was removed.
    Removed,
    /// The sender was stopped before.
    Stopped,
}

/// What became of a message, told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Name of the endpoint.
    pub endpoint: String,
    /// Id of the message.
    pub id: String,
    /// Attempts that were made.
    pub attempts: usize,
    /// What became of it.
    pub outcome: Outcome,
}

/// A message that waits for its next attempt.
#[derive(Debug)]
struct Delivery {
    message: Message,
    /// Attempts that failed.
    failed: usize,
    due: Instant,
}

/// What a thread is to post.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) message: Message,
    failed: usize,
    /// Number of its place: one that was removed and put again has another.
    place: u64,
}

#[derive(Debug)]
struct Place {
    number: u64,
    /// `None`: it answered 410.
    endpoint: Option<Arc<Endpoint>>,
    waiting: Vec<Delivery>,
    /// A message is under way: an endpoint that hangs holds one thread.
    is_busy: bool,
    not_before: Instant,
}

/// All endpoints and what waits for them.
#[derive(Debug)]
pub(crate) struct Queue {
    places: BTreeMap<String, Place>,
    /// Messages that were taken and are not reported, those under way included.
    open: usize,
    open_max: usize,
    retries: Vec<Duration>,
    /// Places that were made.
    made: u64,
    pub(crate) is_stopped: bool,
}

impl Queue {
    pub(crate) fn new(open_max: usize, retries: Vec<Duration>) -> Queue {
        Queue { places: BTreeMap::new(), open: 0, open_max, retries, made: 0, is_stopped: false }
    }

    /// Adds an endpoint, or replaces the one of its name, whose messages then go to the new address with its secrets.
    pub(crate) fn put(&mut self, endpoint: Endpoint, now: Instant) {
        let made = &mut self.made;
        let place = self.places.entry(endpoint.name.clone()).or_insert_with(|| {
            *made += 1;
            let (waiting, number) = (Vec::new(), *made);
            Place { number, endpoint: None, waiting, is_busy: false, not_before: now }
        });
        place.endpoint = Some(Arc::new(endpoint));
        // The pause was asked for by the address before.
        place.not_before = now;
    }

    pub(crate) fn send(
        &mut self,
        endpoint: &str,
        message: Message,
        now: Instant,
    ) -> Result<(), SendError> {
        if self.is_stopped {
            return Err(SendError::Stopped);
        }
        let place = self.places.get_mut(endpoint).ok_or(SendError::Unknown)?;
        if place.endpoint.is_none() {
            return Err(SendError::Gone);
        }
        if self.open >= self.open_max {
            return Err(SendError::Full);
        }
        self.open += 1;
        place.waiting.push(Delivery { message, failed: 0, due: now });
        Ok(())
    }

    /// Forgets an endpoint: reports of what waited for it. A message under way is reported when its attempt has ended.
    pub(crate) fn remove(&mut self, endpoint: &str) -> Vec<Report> {
        let Some(place) = self.places.remove(endpoint) else { return Vec::new() };
        self.drop_all(endpoint, place.waiting, &Outcome::Removed)
    }

    /// Takes nothing more: reports of all that waited.
    pub(crate) fn stop(&mut self) -> Vec<Report> {
        self.is_stopped = true;
        let all: Vec<(String, Vec<Delivery>)> = self
            .places
            .iter_mut()
            .map(|(name, place)| (name.clone(), std::mem::take(&mut place.waiting)))
            .collect();
        all.into_iter()
            .flat_map(|(name, waiting)| self.drop_all(&name, waiting, &Outcome::Stopped))
            .collect()
    }

    fn drop_all(
        &mut self,
        endpoint: &str,
        waiting: Vec<Delivery>,
        outcome: &Outcome,
    ) -> Vec<Report> {
        self.open -= waiting.len();
        let report = |delivery: Delivery| Report {
            endpoint: endpoint.to_owned(),
            id: delivery.message.id,
            attempts: delivery.failed,
            outcome: outcome.clone(),
        };
        waiting.into_iter().map(report).collect()
    }

    /// What is due, the oldest first; otherwise when the next message will be.
    pub(crate) fn next(&mut self, now: Instant) -> Result<Attempt, Option<Instant>> {
        let ready = |place: &Place| (!place.is_busy).then_some(place.endpoint.as_ref()?.clone());
        let mut first: Option<(Instant, &mut Place, usize, Arc<Endpoint>)> = None;
        for place in self.places.values_mut() {
            let Some(endpoint) = ready(place) else { continue };
            let earliest = place.waiting.iter().enumerate().min_by_key(|(_, of)| of.due);
            let Some((index, delivery)) = earliest else { continue };
            let due = delivery.due.max(place.not_before);
            if first.as_ref().is_none_or(|(other, ..)| due < *other) {
                first = Some((due, place, index, endpoint));
            }
        }
        let Some((due, place, index, endpoint)) = first else { return Err(None) };
        if due > now {
            return Err(Some(due));
        }
        let delivery = place.waiting.remove(index);
        place.is_busy = true;
        let place = place.number;
        Ok(Attempt { endpoint, message: delivery.message, failed: delivery.failed, place })
    }

    /// What follows from an attempt: reports, or another attempt later. `jitter` is 0 to 255: pauses grow by up to a fifth, so
    /// that receivers that failed together are not asked again together.
    pub(crate) fn ended(
        &mut self,
        attempt: Attempt,
        answer: Answer,
        now: Instant,
        jitter: u8,
    ) -> Vec<Report> {
        let Attempt { endpoint, message, failed, place } = attempt;
        let name = endpoint.name.clone();
        let made = failed + 1;
        let report =
            |id, outcome| vec![Report { endpoint: name.clone(), id, attempts: made, outcome }];
        let place = self.places.get_mut(&name).filter(|there| there.number == place);
        // The address of a replaced endpoint speaks for itself alone.
        let is_present = |place: &Place| {
            place.endpoint.as_ref().is_some_and(|present| Arc::ptr_eq(present, &endpoint))
        };
        let answer = match (answer, &place) {
            (Answer::Gone, Some(place)) if !is_present(place) => {
                Answer::Failed { why: "the address before answered 410".into(), pause: Pause::None }
            }
            (Answer::Failed { why, .. }, Some(place)) if !is_present(place) => {
                Answer::Failed { why, pause: Pause::None }
            }
            (answer, _) => answer,
        };
        let is_stopped = self.is_stopped;
        let (place, retry) = match (answer, place) {
            (answer, None) => {
                self.open -= 1;
                let outcome =
                    if answer == Answer::Taken { Outcome::Delivered } else { Outcome::Removed };
                return report(message.id, outcome);
            }
            (Answer::Taken, Some(place)) => {
                place.is_busy = false;
                self.open -= 1;
                return report(message.id, Outcome::Delivered);
            }
            (Answer::Gone, Some(place)) => {
                (place.is_busy, place.endpoint) = (false, None);
                let waiting = std::mem::take(&mut place.waiting);
                self.open -= 1;
                let mut reports = report(message.id, Outcome::Gone);
                reports.extend(self.drop_all(&name, waiting, &Outcome::Gone));
                return reports;
            }
            (Answer::Failed { why, pause }, Some(place)) => {
                place.is_busy = false;
                (place, (why, pause))
            }
        };
        let (why, pause) = retry;
        let Some(delay) = self.retries.get(failed).filter(|_| !is_stopped) else {
            self.open -= 1;
            let outcome = if is_stopped { Outcome::Stopped } else { Outcome::GaveUp(why) };
            return report(message.id, outcome);
        };
        let due = now + *delay + delay.mul_f64(f64::from(jitter) / 255.0 / 5.0);
        place.not_before = match pause {
            Pause::None => place.not_before,
            Pause::Retry => due,
            Pause::For(pause) => now + pause,
        };
        place.waiting.push(Delivery { message, failed: made, due });
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    const PAUSE: Duration = Duration::from_secs(10);

    fn endpoint(name: &str) -> Endpoint {
        Endpoint::new(name, "https://a.example", vec![Secret::random().unwrap()]).unwrap()
    }

    fn message(id: &str) -> Message {
        Message::new(id, b"{}".to_vec()).unwrap()
    }

    fn queue(open_max: usize, endpoints: &[&str]) -> (Queue, Instant) {
        let (mut queue, now) = (Queue::new(open_max, vec![PAUSE, 2 * PAUSE]), Instant::now());
        endpoints.iter().for_each(|name| queue.put(endpoint(name), now));
        (queue, now)
    }

    fn failed(pause: Pause) -> Answer {
        Answer::Failed { why: "status 500".into(), pause }
    }

    #[test]
    fn an_id_cannot_shift_what_is_signed() {
        for wrong in ["", "a.b", "a b", "\u{e9}", &"a".repeat(65), "a\r\nx: y"] {
            assert_eq!(Message::new(wrong, Vec::new()), Err(MessageError::Id), "{wrong:?}");
        }
        let large = |bytes| Message::new("a", vec![0; bytes]).map(|_| ());
        assert_eq!(
            (large(256 << 10), large((256 << 10) + 1)),
            (Ok(()), Err(MessageError::Payload))
        );
    }

    #[test]
    fn pauses_grow_until_it_gives_up() {
        let (mut queue, start) = queue(9, &["a"]);
        queue.send("a", message("m"), start).unwrap();
        let mut now = start;
        for pause in [PAUSE, 2 * PAUSE] {
            let attempt = queue.next(now).unwrap();
            assert!(queue.ended(attempt, failed(Pause::None), now, 0).is_empty());
            assert_eq!(queue.next(now).unwrap_err(), Some(now + pause));
            now += pause;
        }
        let attempt = queue.next(now).unwrap();
        let reports = queue.ended(attempt, failed(Pause::None), now, 0);
        let outcome = Outcome::GaveUp("status 500".into());
        assert_eq!(
            reports,
            [Report { endpoint: "a".into(), id: "m".into(), attempts: 3, outcome }]
        );
        assert_eq!((queue.next(now).unwrap_err(), queue.open), (None, 0));
    }

    #[test]
    fn jitter_is_at_most_a_fifth() {
        for (jitter, expected) in [(0, PAUSE), (255, PAUSE + PAUSE / 5)] {
            let (mut queue, now) = queue(9, &["a"]);
            queue.send("a", message("m"), now).unwrap();
            let attempt = queue.next(now).unwrap();
            queue.ended(attempt, failed(Pause::None), now, jitter);
            assert_eq!(queue.next(now).unwrap_err(), Some(now + expected));
        }
    }

    /// A receiver that has too much to do is left alone with everything; another one is not held up by it.
    #[test]
    fn a_busy_receiver_is_left_alone_with_all_messages() {
        for (pause, until) in [(Pause::Retry, PAUSE), (Pause::For(3 * PAUSE), 3 * PAUSE)] {
            let (mut queue, now) = queue(9, &["a", "b"]);
            for (endpoint, id) in [("a", "1"), ("a", "2")] {
                queue.send(endpoint, message(id), now).unwrap();
            }
            let attempt = queue.next(now).unwrap();
            assert_eq!(queue.next(now).unwrap_err(), None, "one message at a time");
            queue.ended(attempt, failed(pause), now, 0);
            assert_eq!(queue.next(now).unwrap_err(), Some(now + until));
            queue.send("b", message("3"), now).unwrap();
            assert_eq!(queue.next(now).unwrap().message.id(), "3");
        }
    }

    #[test]
    fn gone_disables_until_it_is_put_again() {
        let (mut queue, now) = queue(9, &["a"]);
        for id in ["1", "2"] {
            queue.send("a", message(id), now).unwrap();
        }
        let attempt = queue.next(now).unwrap();
        let reports = queue.ended(attempt, Answer::Gone, now, 0);
        let told: Vec<_> = reports.iter().map(|r| (&*r.id, r.attempts, &r.outcome)).collect();
        assert_eq!(told, [("1", 1, &Outcome::Gone), ("2", 0, &Outcome::Gone)]);
        assert_eq!(queue.send("a", message("3"), now), Err(SendError::Gone));
        queue.put(endpoint("a"), now);
        assert_eq!((queue.send("a", message("3"), now), queue.open), (Ok(()), 1));
    }

    #[test]
    fn what_waits_is_bounded_and_counts_until_it_is_reported() {
        let (mut queue, now) = queue(2, &["a"]);
        queue.send("a", message("1"), now).unwrap();
        let attempt = queue.next(now).unwrap();
        queue.send("a", message("2"), now).unwrap();
        assert_eq!(queue.send("a", message("3"), now), Err(SendError::Full));
        assert_eq!(queue.send("b", message("3"), now), Err(SendError::Unknown));
        assert_eq!(queue.ended(attempt, Answer::Taken, now, 0)[0].outcome, Outcome::Delivered);
        assert_eq!(queue.send("a", message("3"), now), Ok(()));
    }

    /// Under way when its endpoint is removed, or the sender stopped: reported once, by what came of it.
    #[test]
    fn a_message_under_way_is_reported_once_whatever_happens_meanwhile() {
        for (answer, stopped, removed) in [
            (Answer::Taken, Outcome::Delivered, Outcome::Delivered),
            (failed(Pause::None), Outcome::Stopped, Outcome::Removed),
        ] {
            for stop in [true, false] {
                let (mut queue, now) = queue(9, &["a"]);
                for id in ["1", "2"] {
                    queue.send("a", message(id), now).unwrap();
                }
                let attempt = queue.next(now).unwrap();
                let early = if stop { queue.stop() } else { queue.remove("a") };
                assert_eq!(early.iter().map(|r| &*r.id).collect::<Vec<_>>(), ["2"]);
                let late = queue.ended(attempt, answer.clone(), now, 0);
                let expected = if stop { &stopped } else { &removed };
                assert_eq!((&*late[0].id, &late[0].outcome, late.len()), ("1", expected, 1));
                assert_eq!(queue.open, 0);
            }
        }
    }

    #[test]
    fn a_new_secret_counts_for_what_waits() {
        let (mut queue, now) = queue(9, &["a"]);
        queue.send("a", message("1"), now).unwrap();
        let attempt = queue.next(now).unwrap();
        queue.ended(attempt, failed(Pause::None), now, 0);
        let next = endpoint("a");
        let secret = next.secrets[0].clone();
        queue.put(next, now);
        assert_eq!(queue.next(now + PAUSE).unwrap().endpoint.secrets, [secret]);
    }

    /// An address that was replaced while a message was on its way to it speaks for itself alone.
    #[test]
    fn the_address_before_cannot_silence_the_new_one() {
        for answer in [Answer::Gone, failed(Pause::For(100 * PAUSE))] {
            let (mut queue, now) = queue(9, &["a"]);
            queue.send("a", message("1"), now).unwrap();
            let attempt = queue.next(now).unwrap();
            queue.put(endpoint("a"), now);
            assert!(queue.ended(attempt, answer, now, 0).is_empty());
            assert_eq!(queue.send("a", message("2"), now), Ok(()));
            assert_eq!(queue.next(now).unwrap().message.id(), "2");
        }
        let (mut queue, now) = queue(9, &["a"]);
        queue.send("a", message("1"), now).unwrap();
        let attempt = queue.next(now).unwrap();
        queue.ended(attempt, failed(Pause::For(100 * PAUSE)), now, 0);
        queue.put(endpoint("a"), now);
        assert!(queue.next(now + PAUSE).is_ok(), "the pause was the old address's");
    }

    #[test]
    fn an_endpoint_that_was_removed_and_put_again_is_another_one() {
        let (mut queue, now) = queue(9, &["a"]);
        queue.send("a", message("1"), now).unwrap();
        let old = queue.next(now).unwrap();
        queue.remove("a");
        queue.put(endpoint("a"), now);
        for id in ["2", "3"] {
            queue.send("a", message(id), now).unwrap();
        }
        let under_way = queue.next(now).unwrap();
        assert_eq!(queue.ended(old, failed(Pause::None), now, 0)[0].outcome, Outcome::Removed);
        assert_eq!(queue.next(now).unwrap_err(), None, "one message at a time");
        queue.ended(under_way, Answer::Taken, now, 0);
        assert_eq!(queue.next(now).unwrap().message.id(), "3");
    }

    #[test]
    fn neither_address_nor_payload_is_printed() {
        let (mut queue, now) = queue(9, &[]);
        let secrets = vec![Secret::random().unwrap()];
        queue.put(Endpoint::new("a", "https://a.example/key-of-mine", secrets).unwrap(), now);
        queue.send("a", Message::new("1", b"payload-of-mine".to_vec()).unwrap(), now).unwrap();
        let printed = format!("{queue:?}");
        assert!(printed.contains("a.example") && !printed.contains("of-mine"), "{printed}");
    }
}
