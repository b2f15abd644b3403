//! What doors say of named holds: taken piece by piece, answered once it is sealed; and what they say at a start.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ledger::{
    Bank, Door, NamedKind, NamedRefusal, Out, TimedAnswer, TimedRefusal, UnsealedCredits,
};
use weir_config::config::Config;
use weir_door::{DoorFacts, NamedDoor, NamedRows};
use weir_till::NamedRequest;

use super::{AwaitingSeal, BankThread};
use crate::error::StartError;
use crate::messages::Down;

/// How many of them a turn takes at most, however many a message has. The rest waits for the next turn.
pub(super) const SAYS_MAX: usize = 256;
/// Nor does a turn go on with them for longer.
const SAYS_TIME: Duration = Duration::from_micros(500);

/// What waits for a turn, or for being handed to the journal.
#[derive(Debug, Default)]
pub(crate) struct NamedSays {
    /// Whose named holds each door keeps, by its place.
    doors: Vec<Option<Door>>,
    /// What is free and not sealed, where any door asks.
    credits: Option<UnsealedCredits>,
    /// How much was said of them at the start, in the first records of the run.
    pub(crate) said: usize,
    /// As many as doors let wait, each with its link.
    waiting: VecDeque<(usize, Box<NamedRequest>)>,
    /// What became of holds that end by time: worker, who asked, answer.
    pub(super) timed: Vec<(u16, u64, TimedAnswer)>,
    /// Those that are through.
    through: Vec<(usize, Box<NamedRequest>)>,
}

impl NamedSays {
    #[cfg(test)]
    pub(super) fn through(&self, place: usize) -> &NamedRequest {
        &self.through[place].1
    }

    pub(super) fn push(&mut self, link: u16, request: Box<NamedRequest>) {
        self.waiting.push_back((link.into(), request));
    }
}

impl BankThread {
    /// Takes as much as a turn has time for; how many that were. A door reaches its own rows only: whose they are follows from its place.
    pub(super) fn take_named(&mut self, refuse: bool) -> usize {
        if self.named.waiting.is_empty() {
            return 0;
        }
        let (began, mut done) = (Instant::now(), 0);
        let BankThread { named, bank, out, journal, .. } = self;
        let (first, sealed) = (journal.next_sequence(), journal.sealed());
        while done < SAYS_MAX
            && began.elapsed() < SAYS_TIME
            && let Some((_, request)) = named.waiting.front_mut()
        {
            let door = named.doors.get(usize::from(request.reply.door)).copied().flatten();
            done += 1;
            let more = request.answer_next(|say| {
                let answer = match door {
                    _ if refuse => Err(NamedRefusal::Journal),
                    None => Err(NamedRefusal::NoDoor),
                    Some(door) => bank.take_named(door, say, out),
                };
                // A door keeps an order before it leaves, and says so after a crash: this is no more than what is left then.
                let is_free = |credits: &mut UnsealedCredits| {
                    credits.note(bank, out, first);
                    !credits.lean(bank, &say.legs, sealed)
                };
                let is_ask = say.kind == NamedKind::Ask && answer.is_ok();
                (answer, is_ask && named.credits.as_mut().is_some_and(is_free))
            });
            if !more {
                named.through.extend(named.waiting.pop_front());
            }
        }
        done
    }

    /// Before the records are handed to the journal.
    pub(super) fn note_credits(&mut self) {
        let BankThread { named, bank, out, journal, .. } = self;
        if let Some(credits) = &mut named.credits {
            credits.note(bank, out, journal.next_sequence());
            credits.sealed(journal.sealed());
        }
    }

    /// Once the records are with the journal: what was done waits for it, and so does all that is answered with it.
    pub(super) fn hold_named(&mut self, needed: u64) {
        for (worker, reply, answer) in self.named.timed.drain(..) {
            let link = usize::from(worker);
            // What is left is told of an ask that is repeated in a moment. Anything else may be so by a record that is not sealed yet.
            let waits = !matches!(answer, Err(TimedRefusal::Leg { .. } | TimedRefusal::Wrong(_)));
            let down = Down::Timed { reply, answer: Box::new(answer) };
            match waits {
                true => self.held.push_back((needed, AwaitingSeal::Down(link, down))),
                false => self.links[link].backlog.push_back(down),
            }
        }
        for (link, request) in self.named.through.drain(..) {
            let waits = request.waits_for_seal();
            let down = Down::Named(request);
            match waits {
                true => self.held.push_back((needed, AwaitingSeal::Down(link, down))),
                false => self.links[link].backlog.push_back(down),
            }
        }
    }
}

/// Has each door compare its own table with the recovered rows, and books what it says. What is refused is logged: its door does not hear of
/// it, and states it again.
pub(super) fn compare(
    doors: &[DoorFacts],
    config: &Config,
    bank: &mut Bank,
    out: &mut Out,
) -> Result<NamedSays, StartError> {
    let mut said = 0;
    for facts in doors {
        let Some(NamedDoor { door, compare }) = facts.named else { continue };
        let says = compare(config, &NamedRows::of(bank, door));
        let says = says.map_err(|why| StartError::Named { door: facts.name, why })?;
        said += says.len();
        for mut say in says {
            if let Err(refusal) = bank.take_named(door, &mut say, out) {
                let (door, key) = (facts.name, format!("{:032x}", say.key));
                tracing::error!(
                    door,
                    key,
                    ?refusal,
                    "what a door says of a named hold at the start cannot be booked"
                );
            }
        }
    }
    if said > 0 {
        tracing::info!(said, "named holds that differed from their doors' tables");
    }
    let doors: Vec<_> = doors.iter().map(|facts| Some(facts.named?.door)).collect();
    let credits = doors.iter().any(Option::is_some).then(UnsealedCredits::default);
    Ok(NamedSays { doors, credits, said, ..NamedSays::default() })
}
