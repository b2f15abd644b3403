//! Kills as memos of the journal: a kill stops orders at once and is answered once it is sealed, an end of it counts once it is sealed.
//!
//! What the journal cannot seal now is told again each second: until then the kill is in force, and does not outlive the process.

use std::fmt;
use std::sync::mpsc::Sender;

use fix_session::MessageStores;
use ledger::{DoorMemos, Memo, MemoAnswer, MemoMoney, MemoRefusal};
use weir_till::{Reply, Till};
use xxhash_rust::xxh3::xxh3_128;

use super::checkpoints::OF;
use super::desk::{Asks, FixError};
use super::{FixDoor, Sessions};
pub use crate::KillScope;

/// Longest name of a session, an account or a firm, bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Kills at once.
pub const KILLS_MAX: usize = 1_024;
/// First byte of a memo; a checkpoint has another one.
const FORM: u8 = b'K';
const SCOPES: [KillScope; 3] = [KillScope::Session, KillScope::Account, KillScope::Firm];
/// In the place of an entry: the reply is to a memo of a kill, not of a checkpoint.
const ENTRY: u32 = 1;

/// Who stopped whose orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// What the name names.
    pub scope: KillScope,
    /// Whose orders are stopped; there may be nobody of that name yet.
    pub name: String,
    /// Why; after a restart the beginning of it, the audit has it whole.
    pub reason: String,
    /// The name of the token; nothing where the door had none.
    pub who: String,
    /// When, ms since 1970 UTC; the worker says it.
    pub at_ms: u64,
}

impl Kill {
    fn key(scope: KillScope, name: &str) -> u128 {
        xxh3_128(&[scope.name().as_bytes(), b" ", name.as_bytes()].concat())
    }

    /// Returns it as bytes of a memo: form, scope, time, and three texts.
    fn to_bytes(&self) -> Box<[u8]> {
        let scope = SCOPES.iter().position(|one| *one == self.scope).unwrap_or(0);
        let mut bytes = vec![FORM, u8::try_from(scope).unwrap_or(0)];
        bytes.extend(self.at_ms.to_le_bytes());
        for text in [&self.who, &self.name] {
            bytes.push(u8::try_from(text.len()).unwrap_or(0));
            bytes.extend(text.as_bytes());
        }
        let room = ledger::MEMO_BYTES_MAX.saturating_sub(bytes.len());
        bytes.extend(&self.reason.as_bytes()[..self.reason.floor_char_boundary(room)]);
        bytes.into()
    }

    /// Reads one; `None` if it is none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Kill> {
        let ([FORM, scope], rest) = bytes.split_first_chunk()? else { return None };
        let (at_ms, mut rest) = rest.split_first_chunk()?;
        let mut text = || {
            let (length, behind) = rest.split_first()?;
            let (text, behind) = behind.split_at_checked(usize::from(*length))?;
            rest = behind;
            Some(std::str::from_utf8(text).ok()?.to_owned())
        };
        let (who, name) = (text()?, text()?);
        let reason = std::str::from_utf8(rest).ok()?.to_owned();
        let scope = *SCOPES.get(usize::from(*scope))?;
        Some(Kill { scope, name, reason, who, at_ms: u64::from_le_bytes(*at_ms) })
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kill { scope, name, reason, who, .. } = self;
        let who = if who.is_empty() { "somebody without a token" } else { who };
        write!(f, "orders of the {} {name} are stopped by {who}: {reason}", scope.name())
    }
}

/// What the bank has, at a start.
pub(super) fn known(memos: DoorMemos<'_>) -> Vec<Kill> {
    memos.iter().filter_map(|(_, bytes, _)| Kill::from_bytes(bytes)).collect()
}

/// Reports whether a memo is of a kill: one that begins, or the end of one.
pub(super) fn is_of_kill(memos: &DoorMemos<'_>, memo: &Memo) -> bool {
    let before = memos.get(memo.key);
    let was_kill = before.is_none_or(|before| Kill::from_bytes(before).is_some());
    was_kill && (memo.bytes.is_empty() || Kill::from_bytes(&memo.bytes).is_some())
}

/// A kill, and whether its orders are stopped for good or to pass again.
#[derive(Clone, Debug)]
pub(super) enum KillAsk {
    Kill(Kill),
    /// Scope, name, and who asks.
    Enable(KillScope, String, String),
}

/// A kill as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillView {
    /// The kill.
    pub kill: Kill,
    /// The journal has it.
    pub is_sealed: bool,
    /// The configured sessions that it stops as a whole.
    pub sessions: Vec<String>,
}

/// Who asked, and hears of it once it is sealed.
type Answer = Sender<Result<(), FixError>>;

/// The kills of a worker's sessions.
#[derive(Debug, Default)]
pub(super) struct KillList {
    /// With each whether the journal has it, and the number of the last memo before it.
    kills: Vec<(Kill, bool, u64)>,
    /// Memos on their way: the number of each, what it says, and who waits.
    under_way: Vec<(u64, KillAsk, Option<Answer>)>,
    last: u64,
}

impl KillList {
    /// Puts those in force that the journal has.
    pub(super) fn new(known: Vec<Kill>, sessions: Option<&mut Sessions>) -> KillList {
        if let Some(sessions) = sessions {
            known.iter().for_each(|kill| sessions.kill(kill.scope, &kill.name));
        }
        let kills = known.into_iter().map(|kill| (kill, true, 0)).collect();
        KillList { kills, ..KillList::default() }
    }

    pub(super) fn views(&self, sessions: &Sessions) -> Vec<KillView> {
        let view = |(kill, is_sealed, _): &(Kill, bool, u64)| KillView {
            kill: kill.clone(),
            is_sealed: *is_sealed,
            sessions: sessions.sessions_of(kill.scope, &kill.name),
        };
        self.kills.iter().map(view).collect()
    }

    /// Reports whether the bank has still to answer.
    pub(super) fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    fn position(&self, scope: KillScope, name: &str) -> Option<usize> {
        self.kills.iter().position(|(kill, ..)| kill.scope == scope && kill.name == name)
    }

    /// Judges what is asked for.
    fn judge(&self, ask: &KillAsk) -> Result<(), FixError> {
        match ask {
            KillAsk::Kill(kill) if self.position(kill.scope, &kill.name).is_none() => {
                let is_full = self.kills.len() >= KILLS_MAX;
                if is_full { Err(FixError::TooManyKills) } else { Ok(()) }
            }
            KillAsk::Kill(_) => Ok(()),
            KillAsk::Enable(scope, name, who) => {
                let found = self.position(*scope, name);
                let at = found.ok_or_else(|| FixError::NotKilled(scope.name(), name.clone()))?;
                let is_own = !who.is_empty() && self.kills[at].0.who == *who;
                if is_own { Err(FixError::OwnKill(who.clone())) } else { Ok(()) }
            }
        }
    }

    /// Has the journal record something; a kill is in force from now on.
    fn take(
        &mut self,
        ask: KillAsk,
        reply: Answer,
        (till, sessions, door): (&mut Till, &mut Sessions, u8),
    ) {
        if let Err(error) = self.judge(&ask) {
            drop(reply.send(Err(error)));
            return;
        }
        if let KillAsk::Kill(kill) = &ask {
            sessions.kill(kill.scope, &kill.name);
            let new = (kill.clone(), false, self.last);
            match self.position(kill.scope, &kill.name) {
                Some(at) => self.kills[at] = new,
                None => self.kills.push(new),
            }
        }
        self.tell(ask, Some(reply), till, door);
    }

    fn tell(&mut self, ask: KillAsk, reply: Option<Answer>, till: &mut Till, door: u8) {
        let (key, bytes) = match &ask {
            KillAsk::Kill(kill) => (Kill::key(kill.scope, &kill.name), kill.to_bytes()),
            KillAsk::Enable(scope, name, _) => (Kill::key(*scope, name), Box::default()),
        };
        self.last += 1;
        let to = Reply { door, index: index(self.last), entry: ENTRY };
        let told = till.memo(to, Memo { door: OF, key, bytes }, MemoMoney::Without);
        match told {
            Ok(()) => self.under_way.push((self.last, ask, reply)),
            Err(_) => answer(reply, Err(not_sealed(&ask))),
        }
    }

    /// Tells the journal again of what it could not seal; to be called each second.
    fn tell_again(&mut self, till: &mut Till, door: u8) {
        let told = |kill: &Kill| {
            let is_it = |ask: &KillAsk| matches!(ask, KillAsk::Kill(other) if other == kill);
            self.under_way.iter().any(|one| is_it(&one.1))
        };
        let open = self.kills.iter().filter(|one| !one.1 && !told(&one.0));
        let open: Vec<Kill> = open.map(|one| one.0.clone()).collect();
        open.into_iter().for_each(|kill| self.tell(KillAsk::Kill(kill), None, till, door));
    }

    /// Takes the bank's answer to a memo.
    fn recorded(&mut self, of: u32, answered: &MemoAnswer, sessions: &mut Sessions) {
        let Some(at) = self.under_way.iter().position(|one| index(one.0) == of) else { return };
        let (number, ask, reply) = self.under_way.swap_remove(at);
        if let MemoAnswer::Refused(why) = answered {
            // Else nothing can be sealed at the moment, which is told elsewhere.
            if let MemoRefusal::TooLong { .. }
            | MemoRefusal::NoJudge(_)
            | MemoRefusal::Full(_)
            | MemoRefusal::Judged(_) = why
            {
                tracing::error!(%why, "FIX: a kill was not recorded");
            }
            return answer(reply, Err(not_sealed(&ask)));
        }
        match &ask {
            KillAsk::Kill(kill) => {
                let same = self.kills.iter_mut().filter(|one| one.0 == *kill);
                same.for_each(|one| one.1 = true);
            }
            KillAsk::Enable(scope, name, _) => {
                if let Some(at) = self.ended(number, *scope, name) {
                    sessions.enable(*scope, name);
                    self.kills.remove(at);
                }
            }
        }
        answer(reply, Ok(()));
    }

    /// Finds the kill that the memo of this number ends: one that came behind it stays, also where the journal could not take that.
    fn ended(&self, number: u64, scope: KillScope, name: &str) -> Option<usize> {
        let is_again = |one: &KillAsk| matches!(one, KillAsk::Kill(kill) if kill.scope == scope && kill.name == name);
        let at = self.position(scope, name).filter(|at| self.kills[*at].2 < number);
        at.filter(|_| !self.under_way.iter().any(|one| is_again(&one.1)))
    }
}

/// The number of a memo as its reply has it.
fn index(number: u64) -> u32 {
    u32::try_from(number % (1 << 27)).unwrap_or(0)
}

fn not_sealed(ask: &KillAsk) -> FixError {
    match ask {
        KillAsk::Kill(_) => FixError::KillNotSealed,
        KillAsk::Enable(..) => FixError::StillKilled,
    }
}

/// Answers who asked, who may have gone.
fn answer(reply: Option<Answer>, result: Result<(), FixError>) {
    reply.into_iter().for_each(|reply| drop(reply.send(result.clone())));
}

impl FixDoor {
    /// Takes a kill, or the end of one.
    pub(super) fn take_kill(&mut self, mut ask: KillAsk, reply: Answer, till: &mut Till) {
        if let KillAsk::Kill(kill) = &mut ask {
            kill.at_ms = u64::try_from(super::clock(till).unix_us / 1_000).unwrap_or(0);
        }
        if let Some(sessions) = &mut self.sessions {
            self.kills.take(ask, reply, (till, sessions, self.place));
        }
        // The next turn looks for open orders.
        self.asks.iter().for_each(Asks::wake);
    }

    /// Tells the journal again of kills.
    pub(super) fn tell_kills_again(&mut self, till: &mut Till) {
        self.kills.tell_again(till, self.place);
    }

    /// Takes the bank's answer to a memo, if it is of a kill.
    pub(super) fn takes_recorded(&mut self, reply: Reply, answered: &MemoAnswer) -> bool {
        if let Some(sessions) = self.sessions.as_mut().filter(|_| reply.entry == ENTRY) {
            self.kills.recorded(reply.index, answered, sessions);
        }
        reply.entry == ENTRY
    }

    /// Cancels a part of the stopped orders that are open, and asks venues for a part of those that they may not have.
    pub(super) fn cancel_stopped(&mut self, till: &Till) {
        let clock = super::clock(till);
        let Some(sessions) = &mut self.sessions else { return };
        sessions.stores().set_time(clock.unix_us);
        let is_more = sessions.ask_venues(clock) | sessions.cancel_stopped(clock);
        if let Some(asks) = self.asks.as_ref().filter(|_| is_more) {
            asks.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_read_as_it_was_written_and_its_reason_as_far_as_there_is_room() {
        for (scope, name, who, reason) in [
            (KillScope::Session, "CLIENT1", "", "why"),
            (KillScope::Account, "\u{e9}\u{1f512} a|b\"'", "ada", "\u{e9}"),
            (KillScope::Firm, &"f".repeat(NAME_BYTES_MAX), &"w".repeat(64), &"\u{e9}".repeat(500)),
        ] {
            let text = |text: &str| text.to_owned();
            let kill =
                Kill { scope, name: text(name), reason: text(reason), who: text(who), at_ms: 7 };
            let bytes = kill.to_bytes();
            assert!(bytes.len() <= ledger::MEMO_BYTES_MAX, "{}", bytes.len());
            let read = Kill::from_bytes(&bytes).unwrap();
            assert!(reason.starts_with(&read.reason) && !read.reason.is_empty());
            assert_eq!(Kill { reason: kill.reason.clone(), ..read }, kill);
            assert!(fix_store::Checkpoint::from_bytes(&bytes).is_none());
            assert!((0..11).all(|end| Kill::from_bytes(&bytes[..end]).is_none()));
        }
    }

    /// The end of a kill that waits for its seal does not end one that came behind it, whether or not the journal took that.
    #[test]
    fn the_end_of_a_kill_ends_what_came_before_it() {
        let (scope, name) = (KillScope::Firm, "ACME");
        let text = str::to_owned;
        let kill =
            Kill { scope, name: text(name), reason: text("why"), who: text("eve"), at_ms: 7 };
        for (since, told, ends, what) in [
            (1, None, true, "before the end"),
            (2, None, false, "behind the end, and not told"),
            (2, Some(3), false, "behind the end"),
            (1, Some(3), false, "told again behind the end"),
        ] {
            let told = told.map(|number| (number, KillAsk::Kill(kill.clone()), None));
            let list = KillList {
                kills: vec![(kill.clone(), false, since)],
                under_way: told.into_iter().collect(),
                last: 3,
            };
            assert_eq!(list.ended(2, scope, name).is_some(), ends, "{what}");
            assert_eq!(list.ended(2, scope, "OTHER"), None, "{what}");
        }
    }
}
