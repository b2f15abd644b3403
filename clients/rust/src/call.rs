//! A caller's asks, while it waits for their answers.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::{Answer, Error, Token, Verdict};

/// The asks of one call, shared by the caller and the threads that read. A call that is over is used again: its round tells its old
/// answers from its new ones.
#[derive(Debug, Default)]
pub(crate) struct Call {
    state: Mutex<Round>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Round {
    round: u64,
    answers: Vec<Answer>,
    missing: usize,
    /// More than one frame may answer the same ask.
    retried: bool,
    /// Retried calls alone: the caller waits no more.
    given_up: bool,
    error: Option<Error>,
}

/// Some neighbouring asks of a call in one round, which travel in one frame.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) call: Arc<Call>,
    pub(crate) round: u64,
    pub(crate) first: usize,
    pub(crate) count: usize,
}

const NO_ANSWER: Answer = Answer::refused(Verdict::TIMEOUT);

impl Call {
    fn lock(&self) -> MutexGuard<'_, Round> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a round for so many asks, with room that the caller lends; its number.
    pub(crate) fn begin(&self, answers: &mut Vec<Answer>, asks: usize, retried: bool) -> u64 {
        let mut state = self.lock();
        std::mem::swap(&mut state.answers, answers);
        state.answers.clear();
        state.answers.resize(asks, NO_ANSWER);
        (state.missing, state.retried) = (asks, retried);
        state.error = None;
        state.round
    }

    /// Waits until all asks are answered; true if they are.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let mut state = self.lock();
        while state.missing > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Ends the round: gives the answers back, and the error if there was one. What comes later is released.
    pub(crate) fn end(&self, answers: &mut Vec<Answer>) -> Result<(), Error> {
        let mut state = self.lock();
        match state.retried {
            // Further answers are compared with the first.
            true => {
                answers.clone_from(&state.answers);
                state.given_up = state.missing > 0;
            }
            false => {
                std::mem::swap(&mut state.answers, answers);
                state.round += 1;
            }
        }
        state.missing = 0;
        state.error.take().map_or(Ok(()), Err)
    }
}

impl Part {
    /// Takes answers of the node. Grants that nobody waits for any more are put into `late`.
    pub(crate) fn answer<'a>(
        &self,
        found: impl Iterator<Item = &'a wire::decided::Answer>,
        late: &mut Vec<Token>,
    ) {
        let mut guard = self.call.lock();
        let state = &mut *guard;
        if state.round != self.round {
            let granted = found.filter(|answer| answer.verdict_raw() == 0);
            late.extend(granted.map(|answer| Token(*answer.token())));
            return;
        }
        if state.retried {
            self.answer_again(state, found, late);
        } else {
            let places = state.answers[self.first..].iter_mut();
            for (place, answer) in places.zip(found) {
                place.verdict = Verdict::of_code(answer.verdict_raw());
                place.token = Token(*answer.token());
            }
            state.missing = state.missing.saturating_sub(self.count);
        }
        let over = state.missing == 0;
        drop(guard);
        if over {
            self.call.changed.notify_all();
        }
    }

    /// The first answer counts. Others are the same grant again, which lives on, or one that nobody has.
    fn answer_again<'a>(
        &self,
        state: &mut Round,
        found: impl Iterator<Item = &'a wire::decided::Answer>,
        late: &mut Vec<Token>,
    ) {
        for (place, answer) in state.answers[self.first..].iter_mut().zip(found) {
            let token = Token(*answer.token());
            if !state.given_up && place.verdict == Verdict::TIMEOUT {
                *place = Answer {
                    verdict: Verdict::of_code(answer.verdict_raw()),
                    token,
                    request_id: 0,
                };
                state.missing = state.missing.saturating_sub(1);
            } else if answer.verdict_raw() == 0 && (state.given_up || place.token != token) {
                // Twice, where both came late: a release is booked once.
                late.push(token);
            }
        }
    }

    /// The frame will not be answered: its asks get this verdict.
    pub(crate) fn refuse(&self, verdict: Verdict, error: Option<Error>) {
        let mut guard = self.call.lock();
        let state = &mut *guard;
        // A retried ask is asked again soon.
        let again = state.retried && verdict == Verdict::BUSY;
        if state.round != self.round || state.given_up || again {
            return;
        }
        for place in state.answers[self.first..].iter_mut().take(self.count) {
            if place.verdict == Verdict::TIMEOUT {
                place.verdict = verdict;
            }
        }
        if error.is_some() {
            state.error = error;
        }
        state.missing = state.missing.saturating_sub(self.count);
        drop(guard);
        self.call.changed.notify_all();
    }
}
