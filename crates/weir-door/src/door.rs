//! What a door is, and a set of them.
//!
//! A `Door` knows how its protocol's messages become reservations and how their answers become bytes again. What it needs of the
//! worker is the `Till`. `doors!` makes a worker's set of doors out of a list: what is kept per connection, which of them a listener
//! belongs to, who hears an answer of the bank. All of it is static dispatch.

use std::sync::Arc;

use door_http::After;
use door_transport::tls::Secured;
use door_transport::{CloseReason, ConnId, DialId, Out, Outbox, Peer, Step, Then};
use gate_auction::Fates;
use ledger::{MemoJudge, Resolution};
use weir_till::stages::WorkerStage;
use weir_till::{Reply, Till};

use crate::counters::WorkerCounters;
use crate::heard::Heard;
use crate::named::NamedDoor;

/// What those who measure and show a door know of it.
#[derive(Clone, Copy, Debug)]
pub struct DoorFacts {
    /// `Door::NAME`, as in `weir_config::doors`.
    pub name: &'static str,
    /// The stages of a worker that serve this door alone.
    pub stages: &'static [WorkerStage],
    /// The stage with which an answer is whole.
    pub answered: WorkerStage,
    /// Its kinds of requests.
    pub requests: &'static [RequestKind],
    /// What became of the requests that decide, over these workers.
    pub outcomes: fn(&[Arc<WorkerCounters>]) -> Outcomes,
    /// Whose memos it keeps, and what judges them in the bank's turn.
    pub judge: Option<(ledger::Door, MemoJudge)>,
    /// Whose named holds it keeps, and its table of them.
    pub named: Option<NamedDoor>,
    /// What judges the scopes of its tokens.
    pub scopes: Option<CheckScopes>,
}

/// Judges the scopes of a token that are no budgets: which of them is wrong, from 1, and why.
pub type CheckScopes = fn(&str) -> Result<(), (usize, String)>;

/// What became of requests, and how often.
pub type Outcomes = Vec<(&'static str, u64)>;

impl DoorFacts {
    /// Those of a door.
    #[must_use]
    pub const fn of<D: Door>() -> DoorFacts {
        DoorFacts {
            name: D::NAME,
            stages: D::STAGES,
            answered: D::ANSWERED,
            requests: D::REQUESTS,
            outcomes: D::outcomes,
            judge: D::JUDGE,
            named: D::NAMED,
            scopes: D::SCOPES,
        }
    }

    /// Whether each named hold is of one door at most.
    #[must_use]
    pub const fn are_apart(all: &[DoorFacts]) -> bool {
        let (mut seen, mut at) = (0_u64, 0);
        while at < all.len() {
            let bit = if let Some(named) = all[at].named { 1 << named.door as u8 } else { 0 };
            if seen & bit != 0 {
                return false;
            }
            (seen, at) = (seen | bit, at + 1);
        }
        true
    }

    /// Requests that a worker decided about, over all kinds.
    #[must_use]
    pub fn decisions(&self, counters: &WorkerCounters) -> u64 {
        let kinds = self.requests.iter().filter(|kind| kind.decides);
        kinds.map(|kind| (kind.count)(counters)).fold(0, u64::saturating_add)
    }
}

/// A kind of requests at a door.
#[derive(Debug)]
pub struct RequestKind {
    /// Its name in metrics.
    pub name: &'static str,
    /// It asks for money; one that does not says what becomes of money that was granted.
    pub decides: bool,
    /// The stage whose items are such requests.
    pub stage: WorkerStage,
    /// How many there were on a worker.
    pub count: fn(&WorkerCounters) -> u64,
}

/// One protocol of a worker.
pub trait Door {
    /// Its name: in the configuration, in `addresses.json`, in metrics.
    const NAME: &'static str;
    /// The stages of a worker that serve this door alone.
    const STAGES: &'static [WorkerStage] = &[];
    /// The stage with which an answer is whole.
    const ANSWERED: WorkerStage = WorkerStage::Send;
    /// Its kinds of requests.
    const REQUESTS: &'static [RequestKind] = &[];
    /// Whose memos it keeps, and what judges them in the bank's turn; `None`: it keeps none.
    const JUDGE: Option<(ledger::Door, MemoJudge)> = None;
    /// Whose named holds it keeps, and its table of them; `None`: it keeps none.
    const NAMED: Option<NamedDoor> = None;
    /// What judges the scopes of its tokens; `None`: they are budgets.
    const SCOPES: Option<CheckScopes> = None;
    /// What it keeps per connection.
    type Conn;
    /// What it counts on a worker.
    type Counts: Default + Send + Sync + 'static;

    /// What became of the requests that decide, over these workers.
    fn outcomes(_counters: &[Arc<WorkerCounters>]) -> Outcomes {
        Outcomes::new()
    }

    /// A wake-up begins.
    fn woke(&mut self) {}

    /// A connection was accepted.
    fn opened(&mut self, till: &mut Till, id: ConnId, peer: Peer) -> Self::Conn;

    /// The connection's TLS handshake is over, where its listener or its dial has TLS: before any bytes.
    fn secured(&mut self, _id: ConnId, _conn: &mut Self::Conn, _secured: &Secured<'_>) {}

    /// A dial that the door opened with [`Outbox::dial`] is connected. `None`: it is not this door's.
    fn dialled(
        &mut self,
        _till: &mut Till,
        _id: ConnId,
        _dial: DialId,
        _peer: Peer,
    ) -> Option<Self::Conn> {
        None
    }

    /// How often this connection ticks, ms; 0 = never. Asked once it is open, and after each tick.
    fn tick_ms(&self, _conn: &Self::Conn) -> u64 {
        0
    }

    /// The connection's time has come; `now_ms` counts from the loop's start.
    fn tick(
        &mut self,
        _till: &mut Till,
        _id: ConnId,
        _conn: &mut Self::Conn,
        _now_ms: u64,
        _out: &mut Out<'_>,
    ) -> Then {
        Then::Stay
    }

    /// How often the door itself hears [`Heard::Tick`], ms; 0 = never. Asked when the worker starts, and after each tick.
    fn door_tick_ms(&self) -> u64 {
        0
    }

    /// The peer took so much that there is room for more, where the door had [asked](Out::ask_for_more).
    fn drained(
        &mut self,
        _till: &mut Till,
        _id: ConnId,
        _conn: &mut Self::Conn,
        _out: &mut Out<'_>,
    ) -> Then {
        Then::Stay
    }

    /// Bytes arrived; see [`door_transport::Service::received`].
    fn received(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut Self::Conn,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step;

    /// Whether answers of earlier messages are still to come. Asked of a connection whose client has finished sending, which stays
    /// open until then.
    fn owes(&self, _till: &Till, _id: ConnId, _conn: &Self::Conn) -> bool {
        false
    }

    /// A connection is gone.
    fn closed(&mut self, _till: &mut Till, _id: ConnId, _conn: Self::Conn, _why: CloseReason) {}

    /// The bank has sealed what was asked with [`Till::resolve`], or refused it. Apart from what else is heard, for its speed: there are
    /// as many as holds.
    fn resolved<S>(
        &mut self,
        _till: &mut Till,
        _reply: Reply,
        _resolution: Resolution,
        _outbox: &mut DoorOutbox<'_, '_, S, Self::Conn>,
    ) {
    }

    /// Whatever else the door hears.
    fn heard<S>(
        &mut self,
        _till: &mut Till,
        _heard: Heard<'_>,
        _outbox: &mut DoorOutbox<'_, '_, S, Self::Conn>,
    ) {
    }

    /// Once per wake-up, when what the bank said has been taken.
    fn turn<S>(&mut self, _till: &mut Till, _outbox: &mut DoorOutbox<'_, '_, S, Self::Conn>) {}

    /// Once per wake-up, at its end.
    fn write<S>(&mut self, _outbox: &mut DoorOutbox<'_, '_, S, Self::Conn>) {}

    /// How long the door can sleep, ms; `None`: for as long as nothing happens.
    fn wait_ms(&self, _till: &mut Till) -> Option<u64> {
        None
    }

    /// Requests whose answers are still to come from the bank.
    fn waiting(&self) -> usize {
        0
    }

    /// Nothing is in flight.
    fn is_drained(&self) -> bool {
        self.waiting() == 0
    }

    /// Writes the door's counts where other threads read them.
    fn publish(&mut self) {}

    /// What became of a campaign in this worker's auctions; `None` where the door holds none.
    fn fates(&self, _till: &Till, _campaign: u64) -> Option<Fates> {
        None
    }
}

/// One door's view of all connections of its worker: it reaches its own.
pub struct DoorOutbox<'a, 'b, S, C> {
    all: &'a mut Outbox<'b, S>,
    own: fn(&mut S) -> Option<&mut C>,
}

impl<'b, S, C> DoorOutbox<'_, 'b, S, C> {
    /// Whose connections are `own` of all.
    pub fn new<'a>(
        all: &'a mut Outbox<'b, S>,
        own: fn(&mut S) -> Option<&mut C>,
    ) -> DoorOutbox<'a, 'b, S, C> {
        DoorOutbox { all, own }
    }

    /// Runs `write` on a connection of the door, if it is still open.
    pub fn with<R>(
        &mut self,
        id: ConnId,
        write: impl FnOnce(&mut C, &mut Out<'_>) -> R,
    ) -> Option<R> {
        let own = self.own;
        self.all.with(id, |session, out| own(session).map(|conn| write(conn, out))).flatten()
    }

    /// Has a connection of HTTP write the answer that it owes, and go on: it read nothing meanwhile. False: its client is gone.
    pub fn answer(
        &mut self,
        id: ConnId,
        write: impl FnOnce(&mut C, &mut Out<'_>) -> Option<After>,
    ) -> bool {
        let after = self.with(id, write).flatten();
        if let Some(after) = after {
            after.settle(self.all, id);
        }
        after.is_some()
    }

    /// The transport's outbox: to dial, to offer bytes to a connection, to resume or close one.
    pub fn all(&mut self) -> &mut Outbox<'b, S> {
        self.all
    }
}

/// The doors of one worker, whichever they are; `doors!` implements it.
pub trait DoorSet {
    /// What is kept per connection.
    type Session;
    /// The doors by place, which is the order of the listeners.
    const FACTS: &'static [DoorFacts];

    /// Counters of a worker with these doors.
    fn counters() -> WorkerCounters;
    /// See [`Door::woke`].
    fn woke(&mut self);
    /// A connection was accepted on the listener with this index.
    fn opened(&mut self, till: &mut Till, id: ConnId, peer: Peer, listener: usize)
    -> Self::Session;
    /// See [`Door::secured`].
    fn secured(&mut self, id: ConnId, session: &mut Self::Session, secured: &Secured<'_>);
    /// See [`Door::dialled`]: the first door that knows the dial has the connection.
    fn dialled(
        &mut self,
        till: &mut Till,
        id: ConnId,
        dial: DialId,
        peer: Peer,
    ) -> Option<Self::Session>;
    /// See [`Door::tick_ms`].
    fn tick_ms(&self, session: &Self::Session) -> u64;
    /// See [`Door::tick`].
    fn tick(
        &mut self,
        till: &mut Till,
        id: ConnId,
        session: &mut Self::Session,
        now_ms: u64,
        out: &mut Out<'_>,
    ) -> Then;
    /// [`Door::door_tick_ms`] of the door at this place.
    fn door_tick_ms(&self, door: usize) -> u64;
    /// See [`Door::drained`].
    fn drained(
        &mut self,
        till: &mut Till,
        id: ConnId,
        session: &mut Self::Session,
        out: &mut Out<'_>,
    ) -> Then;
    /// See [`Door::received`].
    fn received(
        &mut self,
        till: &mut Till,
        id: ConnId,
        session: &mut Self::Session,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step;
    /// See [`Door::owes`].
    fn owes(&self, till: &Till, id: ConnId, session: &Self::Session) -> bool;
    /// See [`Door::closed`].
    fn closed(&mut self, till: &mut Till, id: ConnId, session: Self::Session, why: CloseReason);
    /// See [`Door::resolved`].
    fn resolved(
        &mut self,
        till: &mut Till,
        reply: Reply,
        resolution: Resolution,
        outbox: &mut Outbox<'_, Self::Session>,
    );
    /// The place of the door that has the connection.
    fn place(session: &Self::Session) -> usize;
    /// [`Door::heard`] of the door at this place.
    fn heard(
        &mut self,
        door: usize,
        till: &mut Till,
        heard: Heard<'_>,
        outbox: &mut Outbox<'_, Self::Session>,
    );
    /// See [`Door::turn`].
    fn turn(&mut self, till: &mut Till, outbox: &mut Outbox<'_, Self::Session>);
    /// See [`Door::write`].
    fn write(&mut self, outbox: &mut Outbox<'_, Self::Session>);
    /// The shortest [`Door::wait_ms`].
    fn wait_ms(&self, till: &mut Till) -> Option<u64>;
    /// All of [`Door::waiting`].
    fn waiting(&self) -> usize;
    /// See [`Door::is_drained`].
    fn is_drained(&self) -> bool;
    /// See [`Door::publish`].
    fn publish(&mut self);
    /// The first of [`Door::fates`].
    fn fates(&self, till: &Till, campaign: u64) -> Option<Fates>;
}

/// Makes a set of doors, what is kept per connection of them, and their numbers:
/// `doors! { /// About. Doors, Session, DoorId { Batch = batch: BatchDoor, } }`.
#[macro_export]
macro_rules! doors {
    ($(#[$about:meta])* $set:ident, $session:ident, $id:ident { $($name:ident = $field:ident: $door:ty,)+ }) => {
        $(#[$about])*
        pub(crate) struct $set {
            on: $crate::OnDoors,
            $(pub(crate) $field: $door,)+
        }

        /// What a worker keeps per connection, by its door.
        pub(crate) enum $session {
            $($name(<$door as $crate::Door>::Conn),)+
        }

        /// The number of a door in replies, and the place of its listener.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum $id {
            $(
                #[doc = concat!("Of the door `", stringify!($field), "`.")]
                $name,
            )+
        }

        const _: () = assert!(
            $crate::DoorFacts::are_apart(<$set as $crate::DoorSet>::FACTS),
            "two doors of a set keep the same named holds",
        );

        impl $crate::DoorSet for $set {
            type Session = $session;
            const FACTS: &'static [$crate::DoorFacts] =
                &[$($crate::DoorFacts::of::<$door>()),+];

            fn counters() -> $crate::WorkerCounters {
                $crate::WorkerCounters::with(vec![
                    $(std::sync::Arc::new(<$door as $crate::Door>::Counts::default())),+
                ])
            }

            #[inline]
            fn woke(&mut self) {
                $(if self.on.has($id::$name as usize) { $crate::Door::woke(&mut self.$field); })+
            }

            fn opened(
                &mut self,
                till: &mut weir_till::Till,
                id: door_transport::ConnId,
                peer: door_transport::Peer,
                listener: usize,
            ) -> $session {
                $(
                    if listener == $id::$name as usize {
                        return $session::$name($crate::Door::opened(&mut self.$field, till, id, peer));
                    }
                )+
                unreachable!("one listener per door")
            }

            fn secured(
                &mut self,
                id: door_transport::ConnId,
                session: &mut $session,
                secured: &door_transport::tls::Secured<'_>,
            ) {
                match session {
                    $($session::$name(conn) => {
                        $crate::Door::secured(&mut self.$field, id, conn, secured);
                    })+
                }
            }

            fn dialled(
                &mut self,
                till: &mut weir_till::Till,
                id: door_transport::ConnId,
                dial: door_transport::DialId,
                peer: door_transport::Peer,
            ) -> Option<$session> {
                $(
                    let conn = $crate::Door::dialled(&mut self.$field, till, id, dial, peer);
                    if let Some(conn) = conn {
                        return Some($session::$name(conn));
                    }
                )+
                None
            }

            fn tick_ms(&self, session: &$session) -> u64 {
                match session {
                    $($session::$name(conn) => $crate::Door::tick_ms(&self.$field, conn),)+
                }
            }

            fn tick(
                &mut self,
                till: &mut weir_till::Till,
                id: door_transport::ConnId,
                session: &mut $session,
                now_ms: u64,
                out: &mut door_transport::Out<'_>,
            ) -> door_transport::Then {
                match session {
                    $($session::$name(conn) => {
                        $crate::Door::tick(&mut self.$field, till, id, conn, now_ms, out)
                    })+
                }
            }

            fn door_tick_ms(&self, door: usize) -> u64 {
                if !self.on.has(door) {
                    return 0;
                }
                [$($crate::Door::door_tick_ms(&self.$field)),+][door]
            }

            fn drained(
                &mut self,
                till: &mut weir_till::Till,
                id: door_transport::ConnId,
                session: &mut $session,
                out: &mut door_transport::Out<'_>,
            ) -> door_transport::Then {
                match session {
                    $($session::$name(conn) => {
                        $crate::Door::drained(&mut self.$field, till, id, conn, out)
                    })+
                }
            }

            #[inline(always)]
            fn received(
                &mut self,
                till: &mut weir_till::Till,
                id: door_transport::ConnId,
                session: &mut $session,
                input: &[u8],
                out: &mut door_transport::Out<'_>,
            ) -> door_transport::Step {
                match session {
                    $($session::$name(conn) => {
                        $crate::Door::received(&mut self.$field, till, id, conn, input, out)
                    })+
                }
            }

            fn owes(
                &self,
                till: &weir_till::Till,
                id: door_transport::ConnId,
                session: &$session,
            ) -> bool {
                match session {
                    $($session::$name(conn) => {
                        $crate::Door::owes(&self.$field, till, id, conn)
                    })+
                }
            }

            fn closed(
                &mut self,
                till: &mut weir_till::Till,
                id: door_transport::ConnId,
                session: $session,
                why: door_transport::CloseReason,
            ) {
                match session {
                    $($session::$name(conn) => {
                        $crate::Door::closed(&mut self.$field, till, id, conn, why);
                    })+
                }
            }

            #[inline]
            fn resolved(
                &mut self,
                till: &mut weir_till::Till,
                reply: weir_till::Reply,
                resolution: ledger::Resolution,
                outbox: &mut door_transport::Outbox<'_, $session>,
            ) {
                $(
                    if reply.door == $id::$name as u8 {
                        let mut own = $crate::DoorOutbox::new(outbox, $session::$field);
                        return $crate::Door::resolved(
                            &mut self.$field, till, reply, resolution, &mut own,
                        );
                    }
                )+
            }

            fn place(session: &$session) -> usize {
                match session {
                    $($session::$name(_) => $id::$name as usize,)+
                }
            }

            fn heard(
                &mut self,
                door: usize,
                till: &mut weir_till::Till,
                heard: $crate::Heard<'_>,
                outbox: &mut door_transport::Outbox<'_, $session>,
            ) {
                $(
                    if door == $id::$name as usize {
                        let mut own = $crate::DoorOutbox::new(outbox, $session::$field);
                        return $crate::Door::heard(&mut self.$field, till, heard, &mut own);
                    }
                )+
            }

            #[inline]
            fn turn(
                &mut self,
                till: &mut weir_till::Till,
                outbox: &mut door_transport::Outbox<'_, $session>,
            ) {
                $(
                    if self.on.has($id::$name as usize) {
                        let mut own = $crate::DoorOutbox::new(outbox, $session::$field);
                        $crate::Door::turn(&mut self.$field, till, &mut own);
                    }
                )+
            }

            #[inline]
            fn write(&mut self, outbox: &mut door_transport::Outbox<'_, $session>) {
                $(
                    if self.on.has($id::$name as usize) {
                        let mut own = $crate::DoorOutbox::new(outbox, $session::$field);
                        $crate::Door::write(&mut self.$field, &mut own);
                    }
                )+
            }

            fn wait_ms(&self, till: &mut weir_till::Till) -> Option<u64> {
                let on = self.on;
                [$(on.has($id::$name as usize).then(|| $crate::Door::wait_ms(&self.$field, till)).flatten()),+]
                    .into_iter().flatten().min()
            }

            fn waiting(&self) -> usize {
                [$($crate::Door::waiting(&self.$field)),+].into_iter().sum()
            }

            fn is_drained(&self) -> bool {
                $($crate::Door::is_drained(&self.$field))&&+
            }

            fn publish(&mut self) {
                $(if self.on.has($id::$name as usize) { $crate::Door::publish(&mut self.$field); })+
            }

            fn fates(&self, till: &weir_till::Till, campaign: u64) -> Option<gate_auction::Fates> {
                None$(.or_else(|| $crate::Door::fates(&self.$field, till, campaign)))+
            }
        }

        impl $session {
            $(
                #[doc = concat!("The connection, if it is one of the door `", stringify!($field), "`.")]
                #[allow(irrefutable_let_patterns, reason = "a set may have one door")]
                fn $field(&mut self) -> Option<&mut <$door as $crate::Door>::Conn> {
                    if let $session::$name(conn) = self { Some(conn) } else { None }
                }
            )+
        }
    };
}

/// Which doors of a set are on, a bit each by place: one that is off costs a wake-up nothing but the look at its bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OnDoors(u16);

impl OnDoors {
    /// All of them.
    pub const ALL: OnDoors = OnDoors(u16::MAX);

    /// Turns the door at this place on.
    pub fn add(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    /// Tells whether the door at this place is on.
    #[inline(always)]
    pub fn has(self, place: usize) -> bool {
        self.0 >> place & 1 == 1
    }
}
