//! Times that a connection or a service asked for.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use door_transport::{CloseReason, ConnId, Options, Out, Outbox, Peer, Service, Step, Then, Turn};

use crate::support::{listener, start, wait_for};

/// Door 0 beats every 20 ms; door 1 is never asked; door 2 says goodbye with its third beat.
#[derive(Clone, Default)]
struct Beats {
    beats: Arc<[AtomicU64; 3]>,
    service: Arc<AtomicU64>,
    closed: Arc<AtomicU64>,
}

struct Conn {
    door: usize,
    last_ms: u64,
}

impl Service for Beats {
    type Conn = Conn;

    fn opened(&mut self, _: ConnId, _: Peer, door: usize) -> Conn {
        Conn { door, last_ms: 0 }
    }

    fn received(&mut self, _: ConnId, _: &mut Conn, input: &[u8], out: &mut Out<'_>) -> Step {
        out.write(input);
        Step::Read { consumed: input.len(), need: 0 }
    }

    fn tick_ms(&self, conn: &Conn) -> u64 {
        if conn.door == 1 { 0 } else { 20 }
    }

    fn tick(&mut self, _: ConnId, conn: &mut Conn, now_ms: u64, out: &mut Out<'_>) -> Then {
        // A tick may be late, and the next one is in time again: they are apart, by less than a period then.
        assert!(now_ms > conn.last_ms, "never twice for one time");
        conn.last_ms = now_ms;
        out.write(b"beat");
        let beats = self.beats[conn.door].fetch_add(1, Relaxed);
        let last = conn.door == 2 && beats == 2;
        if last { Then::Close { after_output: true } } else { Then::Stay }
    }

    fn service_tick_ms(&self) -> u64 {
        15
    }

    fn service_tick(&mut self, _: u64, outbox: &mut Outbox<'_, Conn>) {
        assert!(outbox.now_ms() >= 15);
        self.service.fetch_add(1, Relaxed);
    }

    fn closed(&mut self, _: ConnId, _: Conn, why: CloseReason) {
        self.closed.fetch_add(u64::from(why == CloseReason::ServiceClosed), Relaxed);
    }

    fn turn(&mut self, _: &mut Outbox<'_, Conn>) -> Turn {
        Turn::IDLE
    }
}

pub fn those_who_asked_tick_and_others_do_not(options: Options) {
    let service = Beats::default();
    let listeners: Vec<_> = (0..3).flat_map(|_| listener()).collect();
    let addresses: Vec<_> = listeners.iter().map(|one| one.local_addr().unwrap()).collect();
    let running = start(listeners, options, service.clone());
    wait_for(|| service.service.load(Relaxed) > 3, "ticks of the service, with no connection");
    let connect = |door: usize| {
        crate::support::Client::over(std::net::TcpStream::connect(addresses[door]).unwrap())
    };
    let (mut first, mut silent, mut last) = (connect(0), connect(1), connect(2));
    first.expect(&b"beat".repeat(5));
    assert_eq!(last.read_to_end(), b"beat".repeat(3));
    silent.send(b"x");
    silent.expect(b"x");
    silent.0.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(silent.0.read(&mut [0]).is_err(), "nobody speaks there");
    assert_eq!(service.beats[1].load(Relaxed), 0);
    drop((first, silent, last));
    wait_for(|| running.handle.counters().connections.get() == 0, "the end of all");
    assert_eq!(service.closed.load(Relaxed), 1);
    running.stop();
}

/// A heap that kept those who are gone would grow with them; and a tick of the past reaches nobody.
pub fn ticks_of_those_who_are_gone_reach_nobody(options: Options) {
    let service = Beats::default();
    let running = start(listener(), options, service.clone());
    for _ in 0..50 {
        let mut client = running.client();
        client.send(b"x");
        client.expect(b"x");
    }
    let mut client = running.client();
    client.expect(&b"beat".repeat(3));
    drop(client);
    wait_for(|| running.handle.counters().connections.get() == 0, "the end of all");
    let beats = service.beats[0].load(Relaxed);
    let ticks = service.service.load(Relaxed);
    wait_for(|| service.service.load(Relaxed) > ticks + 3, "time that goes by");
    assert_eq!(service.beats[0].load(Relaxed), beats);
    running.stop();
}
