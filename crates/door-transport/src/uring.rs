//! The io_uring backend: multishot accept and receive, provided buffers, one kernel call per wake-up.
//!
//! # What keeps memory valid
//! The kernel holds pointers to three kinds of memory: the receive buffers, the bytes of a send in
//! flight (`Output`'s flying half, which nothing touches until its completion), and the waker's
//! word. A connection's slot is freed only when neither a receive nor a send of it is in flight, so
//! a completion never meets a stranger in its slot. When the loop ends, also by a panic of the
//! service, `Drop` cancels everything and waits; should the kernel not let go, the memory is leaked.
#![allow(unsafe_code)] // reason: operations carry raw pointers; the ring cannot check lifetimes

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};

use crate::buffer_ring::{BufferRing, GROUP};
use crate::choose::{Refusal, RunError};
use crate::conns::{Connection, NEVER, Phase, Slab};
use crate::counters::Counters;
use crate::engine::Engine;
use crate::epoll::{BACKOFF_MS, is_exhaustion};
use crate::listen::Listener;
use crate::options::{Options, TaskRun};
use crate::service::{Boundary, Service};
use crate::sys;
use crate::wake::Handle;

/// Operations handed in by one kernel call; more only cost another call.
const SUBMISSIONS: u32 = 2048;
/// Completions the ring holds; the kernel queues more on the side, at a price.
const COMPLETIONS_MIN: u32 = 4096;
const COMPLETIONS_MAX: u32 = 32_768;
/// Attempts to hand in operations while the kernel is short of memory.
const SUBMIT_ATTEMPTS_MAX: u32 = 100;
/// Calls for completions in one wake-up; each lets some twenty happen, where there are more.
const COLLECTS_MAX: u32 = 64;
/// Rounds of 20 ms in which operations may end after the loop.
const QUIESCE_ROUNDS_MAX: u32 = 100;

/// What a completion belongs to: the high half of its user data; the low half is a slot or a door.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Receive = 1,
    Send = 2,
    Accept = 3,
    Wake = 4,
    Cancel = 5,
    Connect = 6,
}

fn tag(kind: Kind, index: u32) -> u64 {
    u64::from(kind as u32) << 32 | u64::from(index)
}

fn untag(data: u64) -> (Option<Kind>, u32) {
    let kinds = [Kind::Receive, Kind::Send, Kind::Accept, Kind::Wake, Kind::Cancel, Kind::Connect];
    let kind = kinds.into_iter().find(|kind| *kind as u64 == data >> 32);
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    (kind, data as u32)
}

/// A ring with its receive buffers. The ring goes first: the kernel writes to the buffers.
pub(crate) struct Ring {
    ring: IoUring,
    buffers: BufferRing,
}

/// The io_uring that a worker with these options needs, if this process gets it.
pub(crate) fn open(options: &Options) -> Result<Ring, Refusal> {
    let ring = set_up(options)?;
    let mut buffers = BufferRing::new(options.receive_buffers, options.receive_buffer_bytes)
        .map_err(refused("memory for receive buffers"))?;
    let registered = buffers.register(&ring.submitter());
    let opened = Ring { ring, buffers };
    registered.map(|()| opened).map_err(refused("io_uring_register of the buffers"))
}

fn refused(call: &'static str) -> impl Fn(io::Error) -> Refusal {
    move |source| Refusal { call, source }
}

fn set_up(options: &Options) -> Result<IoUring, Refusal> {
    let wanted = u32::try_from(options.connections_max.saturating_mul(2)).unwrap_or(u32::MAX);
    let completions = wanted.clamp(COMPLETIONS_MIN, COMPLETIONS_MAX).next_power_of_two();
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    builder.setup_clamp().setup_cqsize(completions);
    if options.cooperative == TaskRun::Defer {
        builder.setup_defer_taskrun();
    }
    builder.build(SUBMISSIONS).map_err(refused("io_uring_setup"))
}

struct UringLoop<'a, S: Service> {
    ring: IoUring,
    buffers: BufferRing,
    engine: Engine<'a, S::Conn>,
    counters: &'a Counters,
    service: &'a mut S,
    listeners: Vec<Listener>,
    /// For each listener: a multishot accept is armed.
    accepting: Vec<bool>,
    /// When accepting goes on after a pause, else `NEVER`.
    accept_again_ms: u64,
    wake_fd: RawFd,
    /// Where the kernel puts the waker's count.
    wake_word: Box<[u8; 8]>,
    /// Operations that the kernel may still touch memory for.
    in_flight: usize,
    /// The kernel ran out of receive buffers in this wake-up.
    exhausted: bool,
    completions: Vec<cqueue::Entry>,
    /// How many of them are done with in this wake-up.
    done: usize,
    /// How many of them the last wake-up left to this one.
    left: usize,
}

/// Runs the loop on this ring until it is stopped.
pub(crate) fn run<S: Service>(
    Ring { ring, buffers }: Ring,
    listeners: Vec<Listener>,
    options: &Options,
    service: &mut S,
    handle: &Handle,
) -> Result<(), RunError> {
    let accepting = vec![false; listeners.len()];
    let counters = handle.counters();
    let mut all = UringLoop {
        ring,
        buffers,
        engine: Engine::new(options, counters, &listeners),
        counters,
        service,
        listeners,
        accepting,
        accept_again_ms: NEVER,
        wake_fd: handle.bell().raw_fd(),
        wake_word: Box::new([0; 8]),
        in_flight: 0,
        exhausted: false,
        completions: Vec::new(),
        done: 0,
        left: 0,
    };
    all.engine.begin(&*all.service);
    all.spin(handle).map_err(|source| RunError::Kernel { what: "io_uring_enter", source })
}

impl<S: Service> UringLoop<'_, S> {
    fn spin(&mut self, handle: &Handle) -> io::Result<()> {
        let bell = handle.bell();
        self.arm_wake();
        self.arm_accepts();
        let mut sleep_ms = 0;
        loop {
            self.engine.hands_in(self.ring.submission().len());
            self.enter(sleep_ms)?;
            while sleep_ms > 0 && self.has_only_sent() {
                self.enter(sleep_ms)?;
            }
            self.service.woke();
            if sleep_ms > 0 {
                bell.look();
            }
            // Those that the last wake-up left are the older ones.
            let all = if self.left == 0 { Some(self.collect()) } else { None };
            self.engine.woke(self.completions.len());
            if let Some(all) = all {
                self.engine.took(all);
            }
            self.complete_some();
            if std::mem::take(&mut self.exhausted) {
                self.buffers.grow();
            }
            self.buffers.publish();
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
            if done && self.left == 0 {
                return Ok(());
            }
            if self.accept_again_ms <= self.engine.now_ms() {
                self.accept_again_ms = NEVER;
                self.arm_accepts();
            }
            sleep_ms = self.engine.sleep_ms(&turn, bell);
            if self.accept_again_ms != NEVER {
                let again_ms = self.accept_again_ms.saturating_sub(self.engine.now_ms());
                sleep_ms = sleep_ms.min(again_ms.max(1));
            }
            self.service.passed(Boundary::Sent);
        }
    }

    /// The one kernel call of a wake-up: hands in, waits, lets completions happen.
    ///
    /// Sends usually complete within the call and end its wait at once, so a worker with little to
    /// do comes back twice per message ([`has_only_sent`](Self::has_only_sent)). Waiting for more completions than one would be wrong: a
    /// connection may wait for just that send to be read again, or for the rest of it to be sent.
    fn enter(&mut self, sleep_ms: u64) -> io::Result<()> {
        let result = match sleep_ms {
            // While completions wait, what would come stays in its sockets.
            0 if self.left > 0 => self.ring.submit(),
            0 => self.enter_now(),
            NEVER => self.ring.submit_and_wait(1),
            _ => {
                let span = std::time::Duration::from_millis(sleep_ms);
                let span = Timespec::from(span);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&span))
            }
        };
        match result.as_ref().map_err(io::Error::raw_os_error) {
            Ok(_) | Err(Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)) => Ok(()),
            Err(_) => result.map(drop),
        }
    }

    /// Whether the call came back at once for sends alone, after which nothing is to be done: then it is made again as it was, without a turn
    /// of the service. What else there is stays for that turn.
    fn has_only_sent(&mut self) -> bool {
        self.completions.extend(self.ring.completion());
        let is_sent = |entry: &cqueue::Entry| {
            untag(entry.user_data()).0 == Some(Kind::Send) && entry.result() >= 0
        };
        let is_quiet = !self.completions.is_empty()
            && self.completions.iter().all(is_sent)
            && self.engine.woke_just_now();
        if !is_quiet {
            return false;
        }
        while let Some(entry) = self.completions.pop() {
            self.complete(&entry);
        }
        self.engine.is_quiet()
    }

    /// Hands in and collects without waiting.
    fn enter_now(&mut self) -> io::Result<usize> {
        const GET_EVENTS: u32 = 1;
        let count = u32::try_from(self.ring.submission().len()).unwrap_or(u32::MAX);
        // SAFETY: no argument is passed; the queued operations hold valid pointers (see `push`).
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(count, 0, GET_EVENTS, None) }
    }

    /// Queues an operation for the next kernel call; false when the kernel takes none.
    ///
    /// The memory it points to must stay valid and untouched until its completion.
    fn push(&mut self, entry: &squeue::Entry) -> bool {
        for _ in 0..SUBMIT_ATTEMPTS_MAX {
            // SAFETY: callers point only to the wake word, or to the flying bytes of a connection
            // that stays in its slot until the completion.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return true;
            }
            // Full: hand in early. An error here shows as a queue that stays full.
            let _ = self.enter_now();
        }
        false
    }

    fn arm_wake(&mut self) {
        let target = self.wake_word.as_mut_ptr();
        let entry = opcode::Read::new(Fd(self.wake_fd), target, 8).build();
        if self.push(&entry.user_data(tag(Kind::Wake, 0))) {
            self.in_flight += 1;
        }
    }

    fn arm_accepts(&mut self) {
        for door in 0..self.listeners.len() {
            if self.accepting[door] || self.engine.stopping() {
                continue;
            }
            let fd = Fd(self.listeners[door].fd().as_raw_fd());
            let index = u32::try_from(door).unwrap_or(u32::MAX);
            let entry = opcode::AcceptMulti::new(fd).flags(libc::SOCK_CLOEXEC).build();
            if self.push(&entry.user_data(tag(Kind::Accept, index))) {
                self.accepting[door] = true;
                self.in_flight += 1;
            }
        }
    }

    /// Ends accepting. The kernel keeps the sockets until the cancelled accepts completed.
    fn close_listeners(&mut self) {
        for door in 0..self.listeners.len() {
            let index = u32::try_from(door).unwrap_or(u32::MAX);
            let entry = opcode::AsyncCancel::new(tag(Kind::Accept, index)).build();
            self.push(&entry.user_data(tag(Kind::Cancel, 0)));
        }
        self.listeners.clear();
        self.accept_again_ms = NEVER;
    }

    /// Does what completions ask for, as far as the time goes.
    fn complete_some(&mut self) {
        while self.done < self.completions.len() && !self.engine.is_slice_over(self.done) {
            let entry = self.completions[self.done].clone();
            self.done += 1;
            self.complete(&entry);
        }
        self.completions.drain(..std::mem::take(&mut self.done));
        self.left = self.completions.len();
        if self.left > 0 {
            self.engine.go_on();
        }
    }

    /// Takes all completions, whether they are all: a call of the kernel lets but some happen.
    fn collect(&mut self) -> bool {
        let mut left = COLLECTS_MAX;
        while self.ring.submission().taskrun() && left > 0 {
            // An error shows as work that stays.
            let _ = self.enter_now();
            left -= 1;
        }
        self.completions.extend(self.ring.completion());
        left > 0
    }

    fn complete(&mut self, entry: &cqueue::Entry) {
        let (kind, index) = untag(entry.user_data());
        match kind {
            Some(Kind::Receive) => self.received(entry, index),
            Some(Kind::Send) => self.sent(entry, index),
            Some(Kind::Accept) => self.accepted(entry, index),
            Some(Kind::Wake) => {
                self.in_flight -= 1;
                self.arm_wake();
            }
            Some(Kind::Connect) => self.connected(index),
            Some(Kind::Cancel) | None => {}
        }
    }

    /// The attempt to connect in `slot` is over.
    fn connected(&mut self, slot: u32) {
        self.in_flight -= 1;
        let Some(conn) = self.engine.conns.at(slot) else { return };
        conn.writing = false;
        // Operations on a socket that does not wait would end with nothing.
        let result = sys::set_blocking(conn.fd());
        self.engine.mark(slot);
        match result {
            Ok(()) => self.engine.connected(self.service, slot),
            Err(_) => self.engine.failed(slot),
        }
    }

    /// Has the ring tell when an attempt to connect is over.
    fn watch_attempt(&mut self, slot: u32) -> Option<()> {
        let conn = self.engine.conns.at(slot)?;
        if conn.writing {
            return None;
        }
        conn.writing = true;
        let writable = libc::POLLOUT.cast_unsigned().into();
        let entry = opcode::PollAdd::new(Fd(conn.fd.as_raw_fd()), writable).build();
        self.push_or_fail(&entry.user_data(tag(Kind::Connect, slot)), slot);
        Some(())
    }

    fn received(&mut self, entry: &cqueue::Entry, slot: u32) {
        let (result, flags) = (entry.result(), entry.flags());
        let buffer = cqueue::buffer_select(flags);
        match (usize::try_from(result), buffer) {
            (Ok(0), _) => self.engine.ended(&*self.service, slot),
            (Ok(count), Some(buffer)) => {
                if let Some(bytes) = self.buffers.bytes(buffer, count) {
                    let more = cqueue::sock_nonempty(flags);
                    self.engine.feed(self.service, slot, (bytes, more));
                }
            }
            (Ok(_), None) => self.engine.failed(slot),
            (Err(_), _) => self.receive_failed(-result, slot),
        }
        if let Some(buffer) = buffer {
            self.buffers.recycle(buffer);
        }
        if cqueue::more(flags) {
            return;
        }
        self.in_flight -= 1;
        if let Some(conn) = self.engine.conns.at(slot) {
            conn.reading = false;
            conn.cancelling = false;
        }
        self.engine.mark(slot);
    }

    fn receive_failed(&mut self, errno: i32, slot: u32) {
        match errno {
            libc::ENOBUFS => {
                self.counters.buffers_exhausted.add(1);
                self.exhausted = true;
                self.engine.has_more(slot);
            }
            libc::ECANCELED | libc::EAGAIN | libc::EINTR => {}
            _ => self.engine.failed(slot),
        }
    }

    fn sent(&mut self, entry: &cqueue::Entry, slot: u32) {
        self.in_flight -= 1;
        if let Some(conn) = self.engine.conns.at(slot) {
            conn.writing = false;
        }
        let result = entry.result();
        match usize::try_from(result) {
            Ok(count) => self.engine.sent(slot, count),
            Err(_) if matches!(-result, libc::EAGAIN | libc::EINTR) => {}
            Err(_) => self.engine.failed(slot),
        }
        let Some(conn) = self.engine.conns.at(slot) else { return };
        if conn.phase != Phase::Open || conn.has_unsent() {
            self.engine.mark(slot);
        }
    }

    fn accepted(&mut self, entry: &cqueue::Entry, door: u32) {
        let (result, door) = (entry.result(), door as usize);
        if result >= 0 {
            self.admit(result, door);
        } else if is_exhaustion(-result) {
            self.counters.accept_backoffs.add(1);
            self.accept_again_ms = self.engine.now_ms() + BACKOFF_MS;
        } else if -result != libc::ECANCELED {
            self.counters.accept_errors.add(1);
        }
        if cqueue::more(entry.flags()) {
            return;
        }
        self.in_flight -= 1;
        if let Some(armed) = self.accepting.get_mut(door) {
            *armed = false;
        }
        if self.accept_again_ms == NEVER && !self.engine.stopping() {
            self.arm_accepts();
        }
    }

    fn admit(&mut self, fd: RawFd, door: usize) {
        let fd = sys::own_accepted(fd);
        if self.engine.stopping() {
            return;
        }
        match sys::peer_of(std::os::fd::AsFd::as_fd(&fd)) {
            Ok(peer) => drop(self.engine.admit(self.service, fd, peer, door)),
            // The peer left before we took it.
            Err(_) => self.counters.accept_errors.add(1),
        }
    }

    fn visit_all(&mut self) {
        let list = self.engine.take_dirty();
        for &slot in &list {
            self.visit(slot);
        }
        self.engine.visited(list);
    }

    /// Brings the kernel in line with one connection: send, receive, close.
    fn visit(&mut self, slot: u32) -> Option<()> {
        self.engine.conns.at(slot)?.dirty = false;
        self.start_send(slot);
        self.engine.advance(&*self.service, slot);
        let stopping = self.engine.stopping();
        let conn = self.engine.conns.at(slot)?;
        match conn.phase {
            Phase::Dead(_) => return self.close(slot),
            Phase::Connecting => return self.watch_attempt(slot),
            _ => {}
        }
        let wanted = conn.wants_bytes(stopping);
        if wanted && !conn.reading {
            conn.reading = true;
            let entry = opcode::RecvMulti::new(Fd(conn.fd.as_raw_fd()), GROUP).build();
            self.push_or_fail(&entry.user_data(tag(Kind::Receive, slot)), slot);
            self.engine.reads_on(slot);
        } else if !wanted && conn.reading && !conn.cancelling {
            conn.cancelling = true;
            let entry = opcode::AsyncCancel::new(tag(Kind::Receive, slot)).build();
            self.push(&entry.user_data(tag(Kind::Cancel, 0)));
        }
        Some(())
    }

    /// Sends everything that waits, unless a send is in flight.
    fn start_send(&mut self, slot: u32) -> Option<()> {
        let conn = self.engine.conns.at(slot)?;
        if conn.writing {
            return None;
        }
        let conn = self.engine.sendable(slot)?;
        if conn.output.flying().is_empty() {
            return None;
        }
        conn.writing = true;
        let Connection { fd, output, .. } = conn;
        let bytes = output.flying();
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(Fd(fd.as_raw_fd()), bytes.as_ptr(), size)
            .flags(libc::MSG_NOSIGNAL)
            .build();
        self.push_or_fail(&entry.user_data(tag(Kind::Send, slot)), slot);
        Some(())
    }

    /// Queues an operation of a connection, which is lost when the kernel takes none.
    fn push_or_fail(&mut self, entry: &squeue::Entry, slot: u32) {
        if self.push(entry) {
            self.in_flight += 1;
            return;
        }
        let (kind, _) = untag(entry.get_user_data());
        if let Some(conn) = self.engine.conns.at(slot) {
            match kind {
                Some(Kind::Send | Kind::Connect) => conn.writing = false,
                _ => conn.reading = false,
            }
        }
        self.engine.failed(slot);
    }

    /// Ends a dead connection; its slot is free once nothing is in flight.
    fn close(&mut self, slot: u32) -> Option<()> {
        self.engine.bury(self.service, slot);
        let conn = self.engine.conns.at(slot)?;
        if conn.reading || conn.writing {
            sys::sever(conn.fd());
        } else {
            self.engine.remove(slot);
        }
        None
    }

    /// Waits for the end of every operation; whether all ended.
    fn quiesce(&mut self) -> bool {
        self.bury_completions();
        for _ in 0..QUIESCE_ROUNDS_MAX {
            if self.in_flight == 0 {
                return true;
            }
            let span = Timespec::from(std::time::Duration::from_millis(20));
            let submitter = self.ring.submitter();
            // Either call may find nothing to do; what counts are the completions.
            let _ = submitter.register_sync_cancel(Some(span), CancelBuilder::any());
            let _ = submitter.submit_with_args(1, &SubmitArgs::new().timespec(&span));
            self.completions.extend(self.ring.completion());
            self.bury_completions();
        }
        self.in_flight == 0
    }

    /// Counts the operations that ended.
    fn bury_completions(&mut self) {
        let done = std::mem::take(&mut self.done);
        for entry in self.completions.drain(..).skip(done) {
            let (kind, _) = untag(entry.user_data());
            if kind == Some(Kind::Accept) && entry.result() >= 0 {
                drop(sys::own_accepted(entry.result()));
            }
            if !matches!(kind, Some(Kind::Cancel) | None) && !cqueue::more(entry.flags()) {
                self.in_flight -= 1;
            }
        }
    }
}

impl<S: Service> Drop for UringLoop<'_, S> {
    fn drop(&mut self) {
        if self.quiesce() {
            return;
        }
        tracing::error!(operations = self.in_flight, "io_uring did not end: its memory is leaked");
        self.buffers.leak();
        std::mem::forget(std::mem::replace(&mut self.engine.conns, Slab::new()));
        std::mem::forget(std::mem::replace(&mut self.wake_word, Box::new([0; 8])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_the_kernel() {
        for kind in [Kind::Receive, Kind::Send, Kind::Accept, Kind::Wake, Kind::Cancel] {
            let (back, index) = untag(tag(kind, u32::MAX));
            assert!(back == Some(kind) && index == u32::MAX);
        }
        assert!(untag(0).0.is_none());
    }
}
