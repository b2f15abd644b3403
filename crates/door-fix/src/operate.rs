//! What an operator sees of sessions and does to them.

use fix_session::{Durability, MessageStore, MessageStores, SessionState, StoreError, Traffic};

use crate::config::Route;
use crate::door::{Clock, Door, Happening};
use crate::peer::Guard;
use crate::rows::OrderView;

/// Where a session stands, in the words of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is no connection.
    Waiting,
    /// There is a connection, and the peer's Logon has not come.
    LoggingOn,
    /// Both sides are logged on, and nothing is missing.
    LoggedOn,
    /// Both sides are logged on, and messages are being sent again by either of them.
    Resending,
    /// The gate has sent a Logout, and the answer has not come.
    LoggingOut,
    /// There is no connection, and none is wanted at this time.
    OutOfSchedule,
}

/// How a session stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its number.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// The gate connects to it.
    pub is_venue: bool,
    /// BeginString (8).
    pub begin_string: String,
    /// SenderCompID (49) of what the gate sends.
    pub sender_comp_id: String,
    /// TargetCompID (56) of what the gate sends.
    pub target_comp_id: String,
    /// Where it stands.
    pub standing: Standing,
    /// MsgSeqNum (34) of the next message to send.
    pub next_out: u64,
    /// MsgSeqNum (34) that is expected.
    pub next_in: u64,
    /// Of a client: what stands behind it.
    pub route: Option<Route>,
    /// When what the gate sends may leave.
    pub durability: Durability,
    /// What went over its connections since the door was made.
    pub traffic: Traffic,
    /// Its connection.
    pub line: Option<u64>,
}

/// What an operator does to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A Logout with this text (58). A client may log on again, and a venue is connected to again.
    LogOut {
        /// What the peer reads.
        text: String,
    },
    /// The peer is asked to send messages again.
    Resend {
        /// The first; at least 1, and one that came before.
        from: u64,
        /// The last; 0 for all there are.
        to: u64,
    },
    /// Both numbers begin again at 1.
    Reset,
}

/// Why nothing was done to a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// Numbers are changed between two connections only.
    #[error("the session has a connection; log it out first")]
    Connected,
    /// There is nobody to be asked or logged out.
    #[error("the session is not logged on")]
    NotLoggedOn,
    /// A range that the peer cannot have sent.
    #[error("from: found {from}, expected 1 to {last}: what has come so far")]
    From {
        /// What was asked for.
        from: u64,
        /// The last that came.
        last: u64,
    },
    /// A range that ends before it begins.
    #[error("to: found {to}, expected 0 (all there are), or {from} or more")]
    To {
        /// Where it begins.
        from: u64,
        /// Where it ends.
        to: u64,
    },
    /// It cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl<S: MessageStores, G: Guard> Door<S, G> {
    /// Returns the number of the session with a name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        self.order.iter().copied().find(|at| self.seats[*at].keys.name == name)
    }

    /// Returns how each session stands, in the order of the configuration.
    pub fn views(&mut self, clock: Clock) -> Vec<SessionView> {
        self.order.clone().into_iter().map(|at| self.view(at, clock)).collect()
    }

    /// Lists orders of all venues from a place on, so many at most and never more than a turn has time for, and where the next page begins.
    #[must_use]
    pub fn orders(&self, from: u64, max: usize) -> (Vec<OrderView>, Option<u64>) {
        let place = |venue: usize, row: u32| (venue as u64) << 32 | u64::from(row);
        let venue = usize::try_from(from >> 32).unwrap_or(usize::MAX);
        let row = u32::try_from(from & u64::from(u32::MAX)).unwrap_or(0);
        let books = |at: &usize| self.seats.get(*at).is_some_and(|seat| seat.book.is_some());
        let Some(at) = (venue..self.seats.len()).find(books) else { return (Vec::new(), None) };
        let Some(book) = &self.seats[at].book else { return (Vec::new(), None) };
        let is_in_doubt = |place| self.doubts.has(at, place);
        let row = if at == venue { row } else { 0 };
        let (mut orders, next) = book.orders(row, max, is_in_doubt);
        for order in &mut orders {
            let client = self.seats.iter().find(|seat| seat.keys.name == order.session);
            let prefix = client.map_or("", |seat| seat.prefix());
            if let Some(own) = order.cl_ord_id.strip_prefix(prefix) {
                order.cl_ord_id = own.to_owned();
            }
            order.venue.clone_from(&self.seats[at].keys.name);
        }
        let further = || (at + 1..self.seats.len()).find(books).map(|at| place(at, 0));
        (orders, next.map(|row| place(at, row)).or_else(further))
    }

    fn view(&mut self, at: usize, clock: Clock) -> SessionView {
        let store = self.stores.store(at);
        let (next_out, next_in) = (store.next_out(), store.next_in());
        let is_open = self.is_in_schedule(at, clock);
        let seat = &self.seats[at];
        let standing = match seat.session.state() {
            SessionState::Disconnected if is_open => Standing::Waiting,
            SessionState::Disconnected => Standing::OutOfSchedule,
            SessionState::LoggingOn => Standing::LoggingOn,
            SessionState::LoggingOut => Standing::LoggingOut,
            SessionState::LoggedOn => {
                match seat.session.is_ready() && !seat.session.is_resending() {
                    true => Standing::LoggedOn,
                    false => Standing::Resending,
                }
            }
        };
        SessionView {
            number: at,
            name: seat.keys.name.clone(),
            is_venue: seat.is_venue(),
            begin_string: seat.keys.begin_string.clone(),
            sender_comp_id: seat.keys.sender_comp_id.clone(),
            target_comp_id: seat.keys.target_comp_id.clone(),
            standing,
            next_out,
            next_in,
            route: seat.route().cloned(),
            durability: seat.keys.durability,
            traffic: seat.session.traffic(),
            line: seat.line,
        }
    }

    /// Reports whether the schedule of a session has it open at a time.
    #[must_use]
    pub fn is_in_schedule(&self, session: usize, clock: Clock) -> bool {
        let unix_ms = clock.unix_us.div_euclid(1_000);
        self.seats.get(session).is_some_and(|seat| seat.keys.schedule.period_at(unix_ms).is_some())
    }

    /// Says whether the numbers of a session may be changed.
    ///
    /// # Errors
    /// [`NotDone::Connected`].
    pub fn check_apart(&self, session: usize) -> Result<(), NotDone> {
        match self.session(session).map(fix_session::Session::state) {
            Some(SessionState::Disconnected) => Ok(()),
            _ => Err(NotDone::Connected),
        }
    }

    /// Does something to a session. What leaves for its connection is in [`Door::take_ready`].
    ///
    /// # Errors
    /// [`NotDone`]; nothing has changed then.
    ///
    /// # Panics
    /// If there is no session of that number.
    pub fn act(&mut self, session: usize, act: &Act, clock: Clock) -> Result<(), NotDone> {
        match act {
            Act::Reset => self.reset(session, clock),
            Act::LogOut { text } => {
                self.check_logged_on(session)?;
                self.step(session, clock, |seat, _, turn| seat.session.log_out(text, turn));
                self.leave(session, clock)
            }
            Act::Resend { from, to } => {
                let (from, to) = (*from, *to);
                self.check_logged_on(session)?;
                let last = self.stores.store(session).next_in() - 1;
                if from == 0 || from > last {
                    return Err(NotDone::From { from, last });
                }
                if to != 0 && to < from {
                    return Err(NotDone::To { from, to });
                }
                self.step(session, clock, |seat, _, turn| {
                    seat.session.request_resend(from, to, turn);
                });
                self.leave(session, clock)
            }
        }
    }

    fn check_logged_on(&self, at: usize) -> Result<(), NotDone> {
        match self.seats[at].session.state() {
            SessionState::LoggedOn => Ok(()),
            _ => Err(NotDone::NotLoggedOn),
        }
    }

    /// Keeps what a step sent, and lets it leave with all that earlier steps left.
    pub(crate) fn leave(&mut self, at: usize, clock: Clock) -> Result<(), NotDone> {
        let before = self.happening();
        self.touch(at);
        self.flush(clock);
        Ok(self.failed_since(before, at)?)
    }

    /// The place of what happens next.
    pub(crate) fn happening(&self) -> usize {
        self.happenings.len()
    }

    /// Says whether a session's store failed since.
    pub(crate) fn failed_since(&self, happening: usize, at: usize) -> Result<(), StoreError> {
        let failed = self.happenings[happening..].iter().find_map(|happening| match happening {
            Happening::StoreFailed(failed, error) if *failed == at => Some(error.clone()),
            _ => None,
        });
        failed.map_or(Ok(()), Err)
    }

    fn reset(&mut self, at: usize, clock: Clock) -> Result<(), NotDone> {
        self.check_apart(at)?;
        let reset = self.step(at, clock, |seat, _, turn| seat.session.reset_numbers(turn));
        reset?;
        self.leave(at, clock)
    }
}
