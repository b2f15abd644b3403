//! Connections to nodes, which of them is to be used, and the thread that makes them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;
use crate::conn::{Conn, NoConn};

/// How long a node that failed stands at the end of the list.
const EXILE: Duration = Duration::from_secs(1);
/// The least time between two attempts at a node while there is no other.
const AGAIN: Duration = Duration::from_millis(50);

/// All connections of a client.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Mutex<Roster>,
    changed: Condvar,
    /// Connections to the node in use.
    wanted: usize,
}

#[derive(Debug)]
struct Roster {
    nodes: Vec<Node>,
    /// Attempts that failed.
    failures: u64,
    /// What the last node said that would not have this client.
    refused: Option<Error>,
    /// Somebody wants any connection.
    any_wanted: bool,
    closed: bool,
}

#[derive(Debug, Default)]
struct Node {
    conns: Vec<Arc<Conn>>,
    exiled_until: Option<Instant>,
    tried: Option<Instant>,
    /// Somebody wants a connection to this one.
    wanted: bool,
}

impl Node {
    fn is_exiled(&self, now: Instant) -> bool {
        self.exiled_until.is_some_and(|until| now < until)
    }
}

/// What there is for a resolve.
#[derive(Debug)]
pub(crate) enum Way {
    /// This connection.
    Conn(Arc<Conn>),
    /// None now; one is being made.
    None,
}

impl Pool {
    pub(crate) fn new(nodes: usize, wanted: usize) -> Pool {
        let nodes = (0..nodes).map(|_| Node::default()).collect();
        let state = Roster { nodes, failures: 0, refused: None, any_wanted: true, closed: false };
        Pool { state: Mutex::new(state), changed: Condvar::new(), wanted }
    }

    fn lock(&self) -> MutexGuard<'_, Roster> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection for asks: of the first node in the list that is not in exile, or, where all are, of the first that has one.
    /// `None` where no node can be reached; the error where none lets this client in.
    pub(crate) fn pick(&self, hint: usize, until: Instant) -> Result<Option<Arc<Conn>>, Error> {
        let mut state = self.lock();
        let enough = state.failures + state.nodes.len() as u64;
        loop {
            if state.closed {
                return Err(Error::Closed);
            }
            let now = Instant::now();
            let first = state.nodes.iter().position(|node| !node.is_exiled(now));
            let chosen = match first {
                Some(first) => Some(first).filter(|at| !state.nodes[*at].conns.is_empty()),
                None => state.nodes.iter().position(|node| !node.conns.is_empty()),
            };
            if let Some(chosen) = chosen {
                let conns = &state.nodes[chosen].conns;
                return Ok(Some(Arc::clone(&conns[hint % conns.len()])));
            }
            if now >= until || state.failures >= enough {
                let live = state.nodes.iter().flat_map(|node| &node.conns).next().cloned();
                return match (live, &state.refused) {
                    (Some(conn), _) => Ok(Some(conn)),
                    (None, Some(error)) => Err(error.clone()),
                    (None, None) => Ok(None),
                };
            }
            state.any_wanted = true;
            self.changed.notify_all();
            let waited = self.changed.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A connection for a resolve whose hold was granted by `issuer`, and which the nodes of the bits `foreign` do not know.
    pub(crate) fn way(&self, issuer: Option<usize>, foreign: u64) -> Way {
        let mut state = self.lock();
        let now = Instant::now();
        let others = (0..state.nodes.len()).filter(|at| Some(*at) != issuer);
        let order: Vec<usize> =
            issuer.into_iter().chain(others).filter(|at| foreign & (1 << at) == 0).collect();
        for at in &order {
            let Some(node) = state.nodes.get_mut(*at) else { continue };
            if node.is_exiled(now) {
                continue;
            }
            if let Some(conn) = node.conns.first() {
                return Way::Conn(Arc::clone(conn));
            }
            node.wanted = true;
            self.changed.notify_all();
            return Way::None;
        }
        let live = order.iter().find_map(|at| state.nodes.get(*at)?.conns.first());
        if let Some(conn) = live {
            return Way::Conn(Arc::clone(conn));
        }
        for at in order {
            state.nodes[at].wanted = true;
        }
        self.changed.notify_all();
        Way::None
    }

    /// A node is to be left alone for a while.
    pub(crate) fn exile(&self, node: usize) {
        let mut state = self.lock();
        state.nodes[node].exiled_until = Some(Instant::now() + EXILE);
        self.changed.notify_all();
    }

    /// A connection is no more.
    pub(crate) fn remove(&self, conn: &Arc<Conn>, faulty: bool) {
        let mut state = self.lock();
        let node = &mut state.nodes[conn.node];
        node.conns.retain(|other| !Arc::ptr_eq(other, conn));
        if faulty {
            node.exiled_until = Some(Instant::now() + EXILE);
        }
        self.changed.notify_all();
    }

    /// Waits until each node was tried or one is connected; the error where none lets this client in.
    pub(crate) fn opened(&self, until: Instant) -> Result<(), Error> {
        self.pick(0, until).map(|_| ())
    }

    /// Ends all connections, and the thread that makes them.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.nodes.iter().flat_map(|node| &node.conns).for_each(|conn| conn.end());
        self.changed.notify_all();
    }

    /// Makes connections until the pool is closed. `tried` is called after each attempt.
    pub(crate) fn keep(&self, dial: impl Fn(usize) -> Result<Arc<Conn>, NoConn>, tried: impl Fn()) {
        let mut state = self.lock();
        while !state.closed {
            let now = Instant::now();
            let node = match state.next(self.wanted, now) {
                Next::Dial(node) => node,
                Next::Wait(time) => {
                    let waited = self.changed.wait_timeout(state, time);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                    continue;
                }
            };
            state.nodes[node].tried = Some(now);
            drop(state);
            let dialled = dial(node);
            state = self.lock();
            match dialled {
                Ok(conn) if state.closed => conn.end(),
                Ok(conn) => {
                    state.any_wanted = false;
                    state.refused = None;
                    state.nodes[node].wanted = false;
                    state.nodes[node].conns.push(conn);
                }
                Err(why) => {
                    state.failures += 1;
                    state.nodes[node].exiled_until = Some(Instant::now() + EXILE);
                    if let NoConn::Refused(error) = why {
                        state.refused = Some(error);
                    }
                }
            }
            self.changed.notify_all();
            drop(state);
            // What waits for a way may have one, or have to look for another. Without the lock: see `Outbox::send`.
            tried();
            state = self.lock();
        }
    }
}

enum Next {
    Dial(usize),
    Wait(Duration),
}

impl Roster {
    /// Which node a connection is to be made to.
    fn next(&self, wanted: usize, now: Instant) -> Next {
        let first = self.nodes.iter().position(|node| !node.is_exiled(now));
        if let Some(first) = first.filter(|at| self.nodes[*at].conns.len() < wanted) {
            return Next::Dial(first);
        }
        let asked_for = |node: &Node| node.wanted && node.conns.is_empty() && !node.is_exiled(now);
        if let Some(node) = self.nodes.iter().position(asked_for) {
            return Next::Dial(node);
        }
        let lonely = self.nodes.iter().all(|node| node.conns.is_empty());
        let is_wanted = self.any_wanted || self.nodes.iter().any(|node| node.wanted);
        if lonely && is_wanted && first.is_none() {
            // All failed a moment ago. They are tried again all the same, the one that has waited longest first.
            let longest = (0..self.nodes.len()).min_by_key(|at| self.nodes[*at].tried);
            let Some(longest) = longest else { return Next::Wait(EXILE) };
            let ready = self.nodes[longest].tried.map_or(now, |tried| tried + AGAIN);
            return match ready.saturating_duration_since(now) {
                Duration::ZERO => Next::Dial(longest),
                left => Next::Wait(left),
            };
        }
        let ends = self.nodes.iter().filter_map(|node| node.exiled_until);
        let left =
            ends.map(|end| end.saturating_duration_since(now)).filter(|left| !left.is_zero());
        Next::Wait(left.min().unwrap_or(EXILE))
    }
}
