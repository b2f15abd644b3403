//! One session of the door, with what stands behind it.

use std::sync::Arc;

use fix::{Dictionary, Index, Message, ValueError};
use fix_session::{Application, MessageStore, Outbox, Session, SessionState, Turn};

use crate::config::{Checked, Kind, SessionKeys, SessionSpec};
use crate::door::Refused;
use crate::passing::{Passed, Passing};
use crate::peer::{Guard, Peer};
use crate::route_echo::Echo;

#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) keys: SessionKeys,
    /// What is asked of a client's connection; `None` for a venue, to which the gate connects.
    spec: Option<Box<SessionSpec>>,
    pub(crate) session: Session,
    pub(crate) out: Outbox,
    pub(crate) behind: Behind,
    /// From what its messages were made.
    pub(crate) passed: Passed,
    /// Its connection.
    pub(crate) line: Option<u64>,
    /// The connection is logged on, and the gap that it began with is closed.
    pub(crate) is_open: bool,
}

/// What gets the messages of a session.
#[derive(Debug)]
pub(crate) enum Behind {
    Echo(Box<Echo>),
    /// Another session, if there is one.
    Session(Option<usize>, Passing),
}

impl Seat {
    pub(crate) fn new(checked: Checked) -> Result<Seat, ValueError> {
        let Checked { keys, kind, config, dictionary } = checked;
        let (spec, behind) = match kind {
            Kind::Client(spec, None) => (Some(spec), echo(dictionary)),
            Kind::Client(spec, venue) => (Some(spec), Behind::Session(venue, Passing::default())),
            Kind::Venue(client) => (None, Behind::Session(client, Passing::default())),
        };
        Ok(Seat {
            keys,
            spec,
            session: Session::new(config)?,
            out: Outbox::default(),
            behind,
            passed: Passed::default(),
            line: None,
            is_open: false,
        })
    }

    pub(crate) fn is_venue(&self) -> bool {
        self.spec.is_none()
    }

    /// The session that gets its messages.
    pub(crate) fn next(&self) -> Option<usize> {
        match &self.behind {
            Behind::Echo(_) => None,
            Behind::Session(next, _) => *next,
        }
    }

    /// Notes how the session stands after a step.
    pub(crate) fn look(&mut self) {
        self.is_open = match self.session.state() {
            SessionState::LoggedOn => self.is_open || self.session.is_ready(),
            _ => false,
        };
    }

    pub(crate) fn feed<S: MessageStore>(
        &mut self,
        input: &[u8],
        index: &mut Index,
        turn: &mut Turn<'_, S>,
    ) -> usize {
        match &mut self.behind {
            Behind::Echo(echo) => self.session.feed(input, index, turn, echo.as_mut()),
            Behind::Session(_, passing) => self.session.feed(input, index, turn, passing),
        }
    }

    pub(crate) fn resume<S: MessageStore>(&mut self, index: &mut Index, turn: &mut Turn<'_, S>) {
        fn go<S: MessageStore>(
            session: &mut Session,
            index: &mut Index,
            turn: &mut Turn<'_, S>,
            application: &mut impl Application<S>,
        ) {
            session.resume(index, turn, application);
        }
        match &mut self.behind {
            Behind::Echo(echo) => go(&mut self.session, index, turn, echo.as_mut()),
            Behind::Session(_, passing) => go(&mut self.session, index, turn, passing),
        }
    }

    /// Reports whether a Logon may take the session that it names.
    pub(crate) fn admits(
        &self,
        at: usize,
        guard: &mut impl Guard,
        peer: &Peer,
        logon: &Message<'_>,
    ) -> Result<(), Refused> {
        if self.session.state() != SessionState::Disconnected {
            return Err(Refused::Taken);
        }
        if !self.spec.as_ref().is_some_and(|spec| spec.may_come_from(peer)) {
            return Err(Refused::Origin);
        }
        if !guard.admits(at, peer, logon) {
            return Err(Refused::Guard);
        }
        Ok(())
    }
}

fn echo(dictionary: Arc<Dictionary>) -> Behind {
    Behind::Echo(Box::new(Echo::new(dictionary)))
}
