//! Bodies in pieces, bytes for other connections.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use door_transport::{
    CloseReason, ConnId, Options, Out, Outbox, Peer, Service, Step, Then, Turn, Unreachable,
};

use crate::support::{listener, start, wait_for};
use crate::tls::Secure;

/// Takes bodies of any size, 64 KiB at a time, while there is leave; then pauses.
#[derive(Clone, Default)]
struct Taker {
    taken: Arc<AtomicU64>,
    leave: Arc<AtomicBool>,
    waiting: Vec<ConnId>,
}

impl Service for Taker {
    type Conn = u64;

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) -> u64 {
        0
    }

    fn received(&mut self, id: ConnId, seen: &mut u64, input: &[u8], _: &mut Out<'_>) -> Step {
        let piece = &input[..input.len().min(65_536)];
        for (at, byte) in piece.iter().enumerate() {
            assert_eq!(*byte, ((*seen + at as u64) % 251) as u8, "pieces come whole and in order");
        }
        *seen += piece.len() as u64;
        self.taken.fetch_add(piece.len() as u64, Relaxed);
        if self.leave.load(Relaxed) {
            return Step::Read { consumed: piece.len(), need: 0 };
        }
        self.waiting.push(id);
        Step::Pause { consumed: piece.len() }
    }

    fn closed(&mut self, _: ConnId, _: u64, _: CloseReason) {}

    fn turn(&mut self, outbox: &mut Outbox<'_, u64>) -> Turn {
        if self.leave.load(Relaxed) {
            for id in self.waiting.drain(..) {
                outbox.resume(id);
            }
        }
        Turn::IDLE
    }
}

pub fn a_large_body_is_taken_in_pieces_as_fast_as_it_is_used(options: Options) {
    const BODY: u64 = 24 << 20;
    let service = Taker::default();
    let options = Options { input_bytes_max: 1000, receive_buffer_bytes: 4096, ..options };
    let running = start(listener(), options, service.clone());
    let client = running.client();
    let counters = running.handle.counters();
    thread::scope(|scope| {
        let mut writer = client.0.try_clone().unwrap();
        scope.spawn(move || {
            let bytes: Vec<u8> = (0..BODY).map(|at| (at % 251) as u8).collect();
            writer.write_all(&bytes).unwrap();
        });
        wait_for(|| service.taken.load(Relaxed) > 0, "the first piece");
        // The taker is full: what arrives waits in the sockets, not here.
        thread::sleep(Duration::from_millis(100));
        assert!(service.taken.load(Relaxed) <= 65_536);
        // What had arrived when reading stopped is held: as much as the kernel had receive buffers for, twice at most.
        assert!(counters.memory_bytes.get() <= 2 * 256 * 4096, "{counters:?}");
        service.leave.store(true, Relaxed);
        running.handle.waker().wake();
        wait_for(|| service.taken.load(Relaxed) == BODY, "the whole body");
    });
    drop(client);
    running.stop();
}

const STREAM: u64 = 24 << 20;

/// Answers every byte with 24 MiB, which it makes as there is room; pauses meanwhile.
#[derive(Clone, Default)]
struct Streamer {
    most: Arc<AtomicU64>,
}

impl Streamer {
    fn write(&self, sent: &mut u64, out: &mut Out<'_>) -> Then {
        let room = (out.room() as u64).min(STREAM - *sent);
        let bytes: Vec<u8> = (*sent..*sent + room).map(|at| (at % 251) as u8).collect();
        out.write(&bytes);
        *sent += room;
        self.most.fetch_max(out.len() as u64, Relaxed);
        if *sent < STREAM {
            out.ask_for_more();
            return Then::Stay;
        }
        *sent = 0;
        Then::Resume
    }
}

impl Service for Streamer {
    type Conn = u64;

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) -> u64 {
        0
    }

    fn received(&mut self, _: ConnId, sent: &mut u64, input: &[u8], out: &mut Out<'_>) -> Step {
        assert_eq!((input[0], *sent), (b'g', 0), "one body after the other");
        self.write(sent, out);
        Step::Pause { consumed: 1 }
    }

    fn drained(&mut self, _: ConnId, sent: &mut u64, out: &mut Out<'_>) -> Then {
        self.write(sent, out)
    }

    fn closed(&mut self, _: ConnId, _: u64, _: CloseReason) {}

    fn turn(&mut self, _: &mut Outbox<'_, u64>) -> Turn {
        Turn::IDLE
    }
}

fn read_stream(mut from: impl Read) {
    let mut seen = 0u64;
    let mut buffer = vec![0; 300_000];
    while seen < STREAM {
        let room = buffer.len().min(usize::try_from(STREAM - seen).unwrap());
        let count = from.read(&mut buffer[..room]).unwrap();
        assert!(count > 0, "the body ends at {seen}");
        for (at, byte) in buffer[..count].iter().enumerate() {
            assert_eq!(*byte, ((seen + at as u64) % 251) as u8);
        }
        seen += count as u64;
    }
}

pub fn a_large_answer_is_made_as_fast_as_it_is_taken(options: Options) {
    let service = Streamer::default();
    let options = Options { output_bytes_max: 100_000, ..options };
    let running = start(listener(), options, service.clone());
    let mut client = running.client();
    // Two requests, and the end of ours: it comes while the first body is on its way.
    client.send(b"gg");
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert!(service.most.load(Relaxed) <= 100_000);
    read_stream(&client.0);
    read_stream(&client.0);
    assert!(client.read_to_end().is_empty());
    assert!(service.most.load(Relaxed) <= 100_000);
    running.stop();
}

pub fn a_large_answer_over_tls(options: Options) {
    // Only for its certificates.
    let secure = Secure::start(options.clone());
    let service = Streamer::default();
    let options = Options { output_bytes_max: 100_000, ..options };
    let with_tls = listener().into_iter().map(|one| one.with_tls(secure.tls.clone())).collect();
    let running = start(with_tls, options, service.clone());
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let session = rustls::ClientConnection::new(Arc::clone(&secure.config), name).unwrap();
    let mut client = rustls::StreamOwned::new(session, running.client().0);
    client.write_all(b"g").unwrap();
    read_stream(&mut client);
    drop(client);
    assert!(service.most.load(Relaxed) <= 102_000);
    running.stop();
    secure.stop();
}

/// Passes what one connection sends to the one that was opened before it.
#[derive(Clone, Default)]
struct Exchange {
    open: Arc<Mutex<Vec<ConnId>>>,
    queue: VecDeque<(ConnId, Vec<u8>)>,
    taken: Arc<AtomicU64>,
    full: Arc<AtomicU64>,
    gone: Arc<AtomicU64>,
}

impl Service for Exchange {
    type Conn = Option<ConnId>;

    fn opened(&mut self, id: ConnId, _: Peer, _: usize) -> Option<ConnId> {
        let mut open = self.open.lock().unwrap();
        let partner = open.last().copied();
        open.push(id);
        partner
    }

    fn received(
        &mut self,
        _: ConnId,
        partner: &mut Option<ConnId>,
        input: &[u8],
        _: &mut Out<'_>,
    ) -> Step {
        if let Some(partner) = partner {
            self.queue.push_back((*partner, input.to_vec()));
        }
        Step::Read { consumed: input.len(), need: 0 }
    }

    fn closed(&mut self, _: ConnId, _: Option<ConnId>, _: CloseReason) {}

    fn turn(&mut self, outbox: &mut Outbox<'_, Option<ConnId>>) -> Turn {
        for (to, bytes) in self.queue.drain(..) {
            let count = match outbox.offer(to, &bytes) {
                Ok(()) => &self.taken,
                Err(Unreachable::Full) => &self.full,
                Err(Unreachable::Gone) => &self.gone,
            };
            count.fetch_add(bytes.len() as u64, Relaxed);
        }
        Turn::IDLE
    }
}

pub fn bytes_reach_another_connection_and_never_its_successor(options: Options) {
    let service = Exchange::default();
    let running = start(listener(), options, service.clone());
    let opened = |count| wait_for(|| service.open.lock().unwrap().len() == count, "a connection");
    let mut first = running.client();
    opened(1);
    let mut second = running.client();
    opened(2);
    second.send(b"for the first");
    first.expect(b"for the first");
    drop(first);
    wait_for(|| running.handle.counters().connections.get() == 1, "its end");
    let mut third = running.client();
    opened(3);
    let ids = service.open.lock().unwrap().clone();
    assert!(ids[0].slot() == ids[2].slot() && ids[0] != ids[2], "the slot is used again");
    second.send(b"for the first");
    wait_for(|| service.gone.load(Relaxed) == 13, "bytes that reach nobody");
    third.send(b"for the second");
    second.expect(b"for the second");
    third.0.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert!(third.0.read(&mut [0]).is_err(), "nothing of the first one's");
    drop((second, third));
    running.stop();
}

pub fn bytes_for_a_slow_connection_are_bounded(options: Options) {
    let max = 100_000;
    let service = Exchange::default();
    let running = start(listener(), Options { output_bytes_max: max, ..options }, service.clone());
    let slow = running.client();
    wait_for(|| service.open.lock().unwrap().len() == 1, "the slow one");
    let mut fast = running.client();
    wait_for(|| service.open.lock().unwrap().len() == 2, "the fast one");
    let counters = running.handle.counters();
    while service.full.load(Relaxed) == 0 {
        fast.send(&[7; 10_000]);
        assert!(counters.output_bytes.get() <= max as u64, "{counters:?}");
    }
    drop((slow, fast));
    running.stop();
}
