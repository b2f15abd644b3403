//! One session of the door, with what stands behind it.

use std::sync::Arc;

use fix::{Dictionary, Index, Message, ValueError};
use fix_session::{
    Application, MemoryStore, MessageStore, Outbox, SendError, Session, SessionState, Turn,
};
use gate_orders::Size;
use table::Secret;

use crate::book::Book;
use crate::config::{Checked, Kind, Limits, Route, SessionKeys, SessionSpec};
use crate::door::Refused;
use crate::gate::caps::Caps;
use crate::gate::limits::Denied;
use crate::line_up::LineUp;
use crate::passing::{Passed, Passing};
use crate::peer::{Admission, Peer};
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
    /// Steps since the last flush may have changed it, or have bytes for its connection.
    pub(crate) is_touched: bool,
    /// What it has since the last flush is kept together with what this one has, or neither is.
    pub(crate) tied_to: Option<usize>,
    /// Its stores were older at the start than what it had sent and got: what its peer sends again may have been passed on.
    pub(crate) is_behind: bool,
    /// An operator has set the number back that is expected, since this process began; later ones know when, of their stores.
    pub(crate) is_set_back: bool,
    /// That is still to be written into the book, if it is a venue's.
    pub(crate) owes_doubt: bool,
    /// It is not configured any more: nobody may log on, and what comes for it is numbered and kept.
    pub(crate) is_removed: bool,
    /// Of a venue: the client who gets what is for nobody.
    pub(crate) named: Option<usize>,
    /// Of a venue: whose its orders are.
    pub(crate) book: Option<Box<Book>>,
    /// What the stores have of it was read.
    pub(crate) is_book_read: bool,
    /// Where the book is written if the stores have none.
    pub(crate) book_memory: MemoryStore,
    /// Of a client: what waits for the ledger.
    pub(crate) line_up: LineUp,
    /// Of a client that may not be away for long: since when it is, and whether that is too long.
    absent: Option<(u64, bool)>,
}

/// What gets the messages of a session.
#[derive(Debug)]
pub(crate) enum Behind {
    Echo(Box<Echo>),
    /// Other sessions: of a client its venue, of a venue its clients.
    Sessions(Vec<usize>, Passing),
}

/// What a session's kind makes of it.
struct Back {
    spec: Option<Box<SessionSpec>>,
    behind: Behind,
    named: Option<usize>,
}

impl Back {
    fn new(kind: Kind, dictionary: Arc<Dictionary>) -> Back {
        let (spec, behind) = match kind {
            Kind::Client(spec, None) => (spec, echo(dictionary)),
            Kind::Client(spec, Some(venue)) => {
                (spec, Behind::Sessions(vec![venue], Passing::default()))
            }
            Kind::Venue(venue) => {
                let mut passing = Passing::default();
                (passing.is_venue, passing.max_order_age_ms) = (true, venue.max_order_age_ms);
                let behind = Behind::Sessions(venue.clients, passing);
                return Back { spec: None, behind, named: venue.unaddressed };
            }
        };
        Back { spec: Some(spec), behind, named: None }
    }
}

impl Seat {
    pub(crate) fn new(
        checked: Checked,
        ids_max: usize,
        secret: Secret,
    ) -> Result<Seat, ValueError> {
        let Checked { keys, kind, config, dictionary } = checked;
        let Back { spec, behind, named } = Back::new(kind, dictionary);
        // Also with one client: who comes later must not take its orders over.
        let book = spec.is_none().then(|| Box::new(Book::new(ids_max, secret)));
        Ok(Seat {
            keys,
            spec,
            session: Session::new(config)?,
            out: Outbox::default(),
            behind,
            passed: Passed::default(),
            line: None,
            is_open: false,
            is_touched: false,
            tied_to: None,
            is_removed: false,
            is_behind: false,
            is_set_back: false,
            owes_doubt: false,
            named,
            book,
            is_book_read: false,
            book_memory: MemoryStore::new(0),
            line_up: LineUp::default(),
            absent: None,
        })
    }

    /// Takes another configuration of the same session. Reports whether its peer has to log on anew.
    pub(crate) fn adopt(&mut self, checked: Checked) -> bool {
        let Checked { keys, kind, config, dictionary } = checked;
        let Back { spec, behind, named } = Back::new(kind, dictionary);
        let of_logon = |keys: &SessionKeys| (keys.schedule.clone(), keys.heart_bt_int_s);
        let asks_anew = match (&self.spec, &spec) {
            (Some(before), Some(spec)) => {
                self.keys.schedule != keys.schedule
                    || before.source_addresses != spec.source_addresses
                    || before.certificate_name != spec.certificate_name
            }
            _ => of_logon(&self.keys) != of_logon(&keys),
        };
        // The echo knows which orders it has seen.
        match (&mut self.behind, behind) {
            (Behind::Echo(_), Behind::Echo(_)) => {}
            (Behind::Sessions(others, passing), Behind::Sessions(new_others, new)) => {
                *others = new_others;
                (passing.is_venue, passing.max_order_age_ms) = (new.is_venue, new.max_order_age_ms);
            }
            (before, behind) => *before = behind,
        }
        self.session.set_config(config);
        if self.is_removed {
            self.absent = None;
        }
        (self.keys, self.spec, self.named, self.is_removed) = (keys, spec, named, false);
        asks_anew
    }

    pub(crate) fn is_venue(&self) -> bool {
        self.spec.is_none()
    }

    /// What stands behind a client.
    pub(crate) fn route(&self) -> Option<&Route> {
        self.spec.as_ref().map(|spec| &spec.route)
    }

    /// Reports whether its orders are held against budgets.
    pub(crate) fn is_limited(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.limits == Some(Limits::Budgets))
    }

    /// Whose orders come over it.
    pub(crate) fn firm(&self) -> &str {
        self.spec.as_ref().map_or("", |spec| &spec.firm)
    }

    /// Reports whether messages of a type pass although nobody knows what they cost.
    pub(crate) fn passes_unpriced(&self, msg_type: &[u8]) -> bool {
        let passing = self.spec.iter().flat_map(|spec| &spec.unpriced);
        passing.into_iter().any(|one| one.as_bytes() == msg_type)
    }

    /// Judges what a client's order (D) or replace (G) may cost by the caps of its session; `known` is the symbol of the order.
    pub(crate) fn judge_caps(
        &self,
        message: &Message<'_>,
        known: &[u8],
        size: Option<Size>,
    ) -> Result<(), Denied> {
        self.spec.as_ref().map_or(Ok(()), |spec| spec.caps.judge(message, known, size))
    }

    /// Returns what one order of a client may be.
    pub(crate) fn caps(&self) -> Option<&Caps> {
        self.spec.as_ref().map(|spec| &spec.caps)
    }

    /// Reports whether sales are refused that have no reference price.
    pub(crate) fn refuses_sales(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.refuses_sales)
    }

    /// The sessions that may get its messages.
    pub(crate) fn others(&self) -> &[usize] {
        match &self.behind {
            Behind::Echo(_) => &[],
            Behind::Sessions(others, _) => others,
        }
    }

    /// Of a venue: how old an order may be that it asks for again; 0 for any age.
    pub(crate) fn max_order_age_ms(&self) -> u64 {
        match &self.behind {
            Behind::Echo(_) => 0,
            Behind::Sessions(_, passing) => passing.max_order_age_ms,
        }
    }

    /// The one session that gets its messages; the first of several.
    pub(crate) fn next(&self) -> Option<usize> {
        self.others().first().copied()
    }

    /// What stands before the ClOrdIDs of a client towards its venue.
    pub(crate) fn prefix(&self) -> &str {
        self.spec.as_ref().map_or("", |spec| &spec.cl_ord_id_prefix)
    }

    /// Reports whether its connection is still there, but over.
    pub(crate) fn has_ended(&self) -> bool {
        self.line.is_some() && self.session.state() == SessionState::Disconnected
    }

    /// Notes how the session stands after a step.
    pub(crate) fn look(&mut self) {
        self.is_open = match self.session.state() {
            SessionState::LoggedOn => self.is_open || self.session.is_ready(),
            _ => false,
        };
        if self.session.state() == SessionState::LoggedOn {
            self.absent = None;
        }
    }

    /// Notes since when a client is away. Reports whether it is that for too long from now on.
    pub(crate) fn is_newly_away(&mut self, now_ms: u64) -> bool {
        let max_s = self.spec.as_ref().map_or(0, |spec| spec.cancel_on_disconnect_s);
        if max_s == 0 || self.session.state() == SessionState::LoggedOn {
            self.absent = None;
            return false;
        }
        let (since_ms, was_away) = self.absent.unwrap_or((now_ms, false));
        let is_away = now_ms.saturating_sub(since_ms) >= u64::from(max_s) * 1_000;
        self.absent = Some((since_ms, is_away));
        is_away && !was_away
    }

    /// Reports whether its orders are to be cancelled because it is away.
    pub(crate) fn is_away(&self) -> bool {
        !self.is_removed && self.absent.is_some_and(|absent| absent.1)
    }

    pub(crate) fn feed<S: MessageStore>(
        &mut self,
        input: &[u8],
        index: &mut Index,
        turn: &mut Turn<'_, S>,
    ) -> usize {
        match &mut self.behind {
            Behind::Echo(echo) => self.session.feed(input, index, turn, echo.as_mut()),
            Behind::Sessions(_, passing) => self.session.feed(input, index, turn, passing),
        }
    }

    /// Sends a message of another session on, one that may be its second time with 97=Y.
    pub(crate) fn pass<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        is_again: bool,
        turn: &mut Turn<'_, S>,
    ) -> Result<u64, SendError> {
        match is_again {
            true => self.session.forward_again(message, turn),
            false => self.session.forward(message, turn),
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
            Behind::Sessions(_, passing) => go(&mut self.session, index, turn, passing),
        }
    }

    /// Reports whether a Logon may take the session that it names.
    pub(crate) fn admits(
        &self,
        at: usize,
        peer: &Peer,
        judge: impl FnOnce(usize) -> Admission,
    ) -> Result<Admission, Refused> {
        if self.session.state() != SessionState::Disconnected {
            return Err(Refused::Taken);
        }
        if !self.spec.as_ref().is_some_and(|spec| spec.may_come_from(peer)) {
            return Err(Refused::Origin);
        }
        match judge(at) {
            Admission::No => Err(Refused::Guard),
            admission => Ok(admission),
        }
    }
}

fn echo(dictionary: Arc<Dictionary>) -> Behind {
    Behind::Echo(Box::new(Echo::new(dictionary)))
}
