//! Named holds on their way: what a door says of many in one message, asked again while purses have what is missing, answered together.

use std::collections::VecDeque;

use ledger::{NamedAnswer, NamedRefusal, NamedSay};
use wire::Verdict;

use crate::{ApartMessage, FillWait, Reply, Till, Waits};

/// How long an ask waits at most for what lies in purses.
const NAMED_WAIT_MS: u64 = 50;

/// What a door says of named holds, from the till to the bank and back.
#[derive(Clone, Debug)]
pub struct NamedRequest {
    /// Who hears the answers. Whose holds these are follows from it.
    pub reply: Reply,
    says: Vec<NamedSay>,
    /// By place.
    answers: Vec<NamedAnswer>,
    /// Places whose answers are still to come.
    open: VecDeque<u32>,
    /// Something of it is known to nobody before it is sealed.
    needs_seal: bool,
    wait: FillWait,
}

impl NamedRequest {
    /// Of this door, still to be answered.
    #[must_use]
    pub fn new(reply: Reply, says: Vec<NamedSay>) -> NamedRequest {
        let len = u32::try_from(says.len()).expect("messages are far below 2^32");
        let (open, wait) = ((0..len).collect(), FillWait::lasting(NAMED_WAIT_MS));
        let answers = vec![Err(NamedRefusal::Journal); says.len()];
        NamedRequest { reply, says, answers, open, needs_seal: false, wait }
    }

    /// Answers the next one, and says whether that may be known before it is sealed. False: there is none.
    pub fn answer_next(
        &mut self,
        answer: impl FnOnce(&mut NamedSay) -> (NamedAnswer, bool),
    ) -> bool {
        let Some(place) = self.open.pop_front() else { return false };
        let place = place as usize;
        let (answer, is_free) = answer(&mut self.says[place]);
        self.answers[place] = answer;
        self.needs_seal |= answer.is_ok() && !is_free;
        true
    }

    /// What became of each, once the bank answered.
    pub fn answers(&self) -> &[NamedAnswer] {
        &self.answers
    }

    /// Did the bank do anything for it, or say that something is so, that is known to nobody before it is sealed?
    #[must_use]
    pub fn waits_for_seal(&self) -> bool {
        self.needs_seal
    }

    /// Opens those again that purses have the money for; how many these are.
    fn reopen(&mut self) -> usize {
        let is_empty = |answer: &NamedAnswer| {
            matches!(answer, Err(NamedRefusal::Leg { why: Verdict::PurseEmpty, .. }))
        };
        let places = (0..).zip(&self.answers).filter(|(_, answer)| is_empty(answer));
        self.open = places.map(|(place, _)| place).collect();
        self.needs_seal = false;
        self.open.len()
    }
}

impl Till {
    /// Asks for named holds, states facts, ends holds: as many as the door likes, in this order, of [`weir_door::Door::NAMED`]'s rows. The door
    /// hears all answers at once, with `Heard::Named`, when what was done is sealed. An ask that finds its money in purses is asked again
    /// behind the others, for 50 ms at most; until the answers come the door says nothing else of its hold. No answer is lost, and what is said
    /// again changes nothing.
    ///
    /// [`weir_door::Door::NAMED`]: ../weir_door/trait.Door.html
    ///
    /// # Errors
    /// `Journal`: it cannot seal, and nothing is said to the bank. Whoever has a fact states it again.
    pub fn named(&mut self, reply: Reply, says: Vec<NamedSay>) -> Result<(), Verdict> {
        self.sealing()?;
        let mut request = Box::new(NamedRequest::new(reply, says));
        request.wait.ask(self.clock.steady_ms(), || true);
        self.say_apart(None, ApartMessage::Named(request));
        Ok(())
    }

    /// The bank answered. `None`: some of it is asked again.
    pub fn named_answered(
        &mut self,
        mut request: Box<NamedRequest>,
    ) -> Option<(Reply, Vec<NamedAnswer>)> {
        if request.reopen() == 0 {
            return Some((request.reply, request.answers));
        }
        match request.wait.ask(self.clock.steady_ms(), || true) {
            Waits::ForBank(_) => self.say_apart(None, ApartMessage::Named(request)),
            Waits::ForTime(until_ms) => self.named_later.push((until_ms, request)),
            Waits::No => return Some((request.reply, request.answers)),
        }
        None
    }

    /// One that is to be asked again now, or whose time is up: for [`Till::named_answered`].
    #[inline]
    pub fn named_due(&mut self) -> Option<Box<NamedRequest>> {
        if self.named_later.is_empty() {
            return None;
        }
        let steady_ms = self.clock.steady_ms();
        let due = self.named_later.iter().position(|(until_ms, _)| *until_ms <= steady_ms)?;
        Some(self.named_later.swap_remove(due).1)
    }

    /// How long until then, ms.
    #[inline]
    pub fn named_wait_ms(&mut self) -> Option<u64> {
        let until_ms = self.named_later.iter().map(|(until_ms, _)| *until_ms).min()?;
        Some(until_ms.saturating_sub(self.clock.steady_ms()))
    }
}
