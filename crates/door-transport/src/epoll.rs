//! The epoll backend: level-triggered, one receive a connection and wake-up.
//!
//! Level-triggered events need no second receive to find the end, and give fairness for free: what
//! is left in a socket is reported again after everybody else had a turn.

use std::io;

use crate::choose::RunError;
use crate::conns::{NEVER, Phase};
use crate::counters::Counters;
use crate::engine::Engine;
use crate::listen::Listener;
use crate::options::Options;
use crate::service::{Boundary, ConnId, Service};
use crate::sys::{self, Epoll, Interest};
use crate::wake::Handle;

const EVENTS_MAX: usize = 4_096;
/// Connections taken from one listener in one wake-up.
const ACCEPTS_MAX: usize = 64;
/// Pause of accepting when the process is out of descriptors.
pub(crate) const BACKOFF_MS: u64 = 100;

/// Token slots above every connection's.
const WAKE: u32 = u32::MAX;
const FIRST_DOOR: u32 = u32::MAX - 1;

const READ: Interest = Interest { read: true, write: false };
const WRITE: Interest = Interest { read: false, write: true };
const NOTHING: Interest = Interest { read: false, write: false };

/// Whether a failed accept means that descriptors or kernel memory ran out.
pub(crate) fn is_exhaustion(errno: i32) -> bool {
    [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM].contains(&errno)
}

/// The token slot of a listener.
fn door_slot(door: usize) -> u32 {
    FIRST_DOOR - u32::try_from(door).unwrap_or(0)
}

struct EpollLoop<'a, S: Service> {
    epoll: Epoll,
    engine: Engine<'a, S::Conn>,
    counters: &'a Counters,
    service: &'a mut S,
    listeners: Vec<Listener>,
    /// When accepting goes on after a pause, else `NEVER`.
    accept_again_ms: u64,
    scratch: Vec<u8>,
    /// Events that the kernel told, and how many of them are done with.
    found: usize,
    handled: usize,
}

/// Runs the loop until it is stopped.
pub(crate) fn run<S: Service>(
    listeners: Vec<Listener>,
    options: &Options,
    service: &mut S,
    handle: &Handle,
) -> Result<(), RunError> {
    let kernel = |what| move |source| RunError::Kernel { what, source };
    let epoll = Epoll::new(EVENTS_MAX).map_err(kernel("epoll_create1"))?;
    epoll
        .add(handle.bell().fd(), token(ConnId { slot: WAKE, generation: 0 }), READ)
        .map_err(kernel("epoll_ctl for the waker"))?;
    for (door, listener) in listeners.iter().enumerate() {
        sys::set_nonblocking(listener.fd()).map_err(kernel("fcntl of a listener"))?;
        epoll
            .add(listener.fd(), token(ConnId { slot: door_slot(door), generation: 0 }), READ)
            .map_err(kernel("epoll_ctl for a listener"))?;
    }
    let counters = handle.counters();
    let scratch = vec![0; options.receive_buffer_bytes as usize];
    let engine = Engine::new(options, counters, &listeners);
    let accept_again_ms = NEVER;
    let mut all = EpollLoop {
        epoll,
        engine,
        counters,
        service,
        listeners,
        accept_again_ms,
        scratch,
        found: 0,
        handled: 0,
    };
    all.engine.begin(&*all.service);
    all.spin(handle).map_err(kernel("epoll_wait"))
}

fn token(id: ConnId) -> u64 {
    id.to_bits()
}

impl<S: Service> EpollLoop<'_, S> {
    fn spin(&mut self, handle: &Handle) -> io::Result<()> {
        let bell = handle.bell();
        let mut sleep_ms = 0;
        loop {
            // What the last wake-up left comes before what is new: else those who are told first would keep all others waiting.
            let is_new = self.handled == self.found;
            if is_new {
                (self.found, self.handled) = (self.epoll.wait(timeout(sleep_ms))?, 0);
            }
            self.service.woke();
            if sleep_ms > 0 {
                bell.look();
            }
            self.engine.woke(self.found - self.handled);
            if is_new {
                self.engine.took(self.found < EVENTS_MAX);
            }
            self.handle_some(handle);
            self.engine.resume(self.service);
            bell.look();
            let turn = self.engine.turn(self.service);
            self.engine.run_timers(self.service);
            let was_stopping = self.engine.stopping();
            let done = self.engine.stop_step(self.service, handle.stopping(), &turn);
            if self.engine.stopping() && !was_stopping {
                self.close_listeners();
            }
            self.visit_all();
            if done {
                return Ok(());
            }
            self.accept_again();
            sleep_ms = self.engine.sleep_ms(&turn, bell);
            if self.accept_again_ms != NEVER {
                let again_ms = self.accept_again_ms.saturating_sub(self.engine.now_ms());
                sleep_ms = sleep_ms.min(again_ms.max(1));
            }
            self.service.passed(Boundary::Sent);
        }
    }

    /// Does what events ask for, as far as the time goes.
    fn handle_some(&mut self, handle: &Handle) {
        let before = self.handled;
        while self.handled < self.found && !self.engine.is_slice_over(self.handled - before) {
            self.handle(self.handled, handle);
            self.handled += 1;
        }
        if self.handled < self.found {
            self.engine.go_on();
        }
    }

    fn handle(&mut self, index: usize, handle: &Handle) {
        let ready = self.epoll.ready(index);
        let id = ConnId::from_bits(ready.token);
        if id.slot == WAKE {
            handle.bell().clear();
            return;
        }
        if id.slot > FIRST_DOOR - 1024 {
            self.accept((FIRST_DOOR - id.slot) as usize);
            return;
        }
        let Some(conn) = self.engine.conns.get(id) else { return };
        if conn.reading && (ready.read || ready.broken) {
            self.service.passed(Boundary::ReceiveCall);
            let received = sys::receive(conn.fd(), &mut self.scratch);
            self.service.passed(Boundary::CallReturned);
            match received {
                Ok(0) => self.engine.ended(&*self.service, id.slot),
                Ok(count) => {
                    let bytes = &self.scratch[..count];
                    let more = count == self.scratch.len();
                    self.engine.feed(self.service, id.slot, (bytes, more));
                }
                Err(error) if is_transient(&error) => {}
                Err(_) => self.engine.failed(id.slot),
            }
        } else if conn.phase == Phase::Connecting {
            self.engine.connected(self.service, id.slot);
        } else if ready.broken {
            self.engine.failed(id.slot);
        }
        if ready.write {
            self.engine.mark(id.slot);
        }
    }

    fn accept(&mut self, door: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(door) else { return };
            match sys::accept(listener.fd()) {
                Ok((fd, peer)) => self.admit(fd, peer, door),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_exhaustion(error.raw_os_error().unwrap_or(0)) => {
                    self.counters.accept_backoffs.add(1);
                    self.accept_again_ms = self.engine.now_ms() + BACKOFF_MS;
                    self.watch_listeners(NOTHING);
                    return;
                }
                // The peer left before we took it, and the like.
                Err(_) => self.counters.accept_errors.add(1),
            }
        }
    }

    fn admit(&mut self, fd: std::os::fd::OwnedFd, peer: crate::Peer, door: usize) {
        let Some(id) = self.engine.admit(self.service, fd, peer, door) else { return };
        let Some(conn) = self.engine.conns.get(id) else { return };
        conn.reading = true;
        if self.epoll.add(conn.fd(), token(id), READ).is_err() {
            self.engine.failed(id.slot);
        }
    }

    /// Goes on accepting after a pause.
    fn accept_again(&mut self) {
        if self.accept_again_ms <= self.engine.now_ms() {
            self.accept_again_ms = NEVER;
            self.watch_listeners(READ);
        }
    }

    fn watch_listeners(&mut self, interest: Interest) {
        for (door, listener) in self.listeners.iter().enumerate() {
            let id = ConnId { slot: door_slot(door), generation: 0 };
            // It was added at the start, so this cannot fail short of a bug.
            let _ = self.epoll.modify(listener.fd(), token(id), interest);
        }
    }

    fn close_listeners(&mut self) {
        for listener in self.listeners.drain(..) {
            // A shared Unix listener stays open elsewhere, so closing alone would not remove it.
            self.epoll.remove(listener.fd());
        }
        self.accept_again_ms = NEVER;
    }

    fn visit_all(&mut self) {
        let list = self.engine.take_dirty();
        for &slot in &list {
            self.visit(slot);
        }
        self.engine.visited(list);
    }

    /// Brings the kernel in line with one connection: send, watch, close.
    fn visit(&mut self, slot: u32) -> Option<()> {
        self.engine.conns.at(slot)?.dirty = false;
        let blocked = self.flush(slot)?;
        self.engine.advance(&*self.service, slot);
        let (id, stopping) = (self.engine.conns.id_at(slot), self.engine.stopping());
        let conn = self.engine.conns.at(slot)?;
        match conn.phase {
            Phase::Dead(_) => {
                self.engine.bury(self.service, slot);
                self.engine.remove(slot);
                return None;
            }
            Phase::Connecting => return self.watch_attempt(id),
            _ => {}
        }
        let wanted = Interest { read: conn.wants_bytes(stopping), write: blocked };
        if wanted == (Interest { read: conn.reading, write: conn.writing }) {
            return Some(());
        }
        let begins = wanted.read && !conn.reading;
        (conn.reading, conn.writing) = (wanted.read, wanted.write);
        if self.epoll.modify(conn.fd(), token(id), wanted).is_err() {
            self.engine.failed(slot);
        }
        if begins {
            self.engine.reads_on(slot);
        }
        Some(())
    }

    /// Has epoll tell when an attempt to connect is over.
    fn watch_attempt(&mut self, id: ConnId) -> Option<()> {
        let conn = self.engine.conns.get(id)?;
        if conn.writing {
            return None;
        }
        conn.writing = true;
        if self.epoll.add(conn.fd(), token(id), WRITE).is_err() {
            self.engine.failed(id.slot);
        }
        Some(())
    }

    /// Sends what waits; true when the socket has no room for the rest.
    fn flush(&mut self, slot: u32) -> Option<bool> {
        loop {
            let Some(conn) = self.engine.sendable(slot) else { return Some(false) };
            let bytes = conn.output.flying();
            let size = bytes.len();
            if size == 0 {
                return Some(false);
            }
            self.service.passed(Boundary::SendCall);
            let sent = sys::send(conn.fd(), bytes);
            self.service.passed(Boundary::CallReturned);
            match sent {
                Ok(count) => {
                    self.engine.sent(slot, count);
                    if count < size {
                        return Some(true);
                    }
                }
                Err(error) if is_transient(&error) => return Some(true),
                Err(_) => {
                    self.engine.failed(slot);
                    return Some(false);
                }
            }
        }
    }
}

/// Errors after which a socket is still good.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn timeout(sleep_ms: u64) -> i32 {
    if sleep_ms == NEVER { -1 } else { i32::try_from(sleep_ms).unwrap_or(i32::MAX) }
}
