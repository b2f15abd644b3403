//! How long bytes wait while the loop is busy with others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use door_transport::{CloseReason, ConnId, Options, Out, Outbox, Peer, Service, Step, Turn};

use crate::support::{Client, listener, start, wait_for};

/// Echoes each byte after as many ms as it says, and keeps how old it was.
#[derive(Clone, Default)]
struct Slow {
    ages: Arc<Mutex<Vec<(u8, u64)>>>,
    turns: Arc<AtomicU64>,
}

impl Slow {
    /// The ages of bytes that said this.
    fn ages(&self, of: u8) -> Vec<u64> {
        let ages = self.ages.lock().unwrap();
        ages.iter().filter(|(byte, _)| *byte == of).map(|(_, age)| *age).collect()
    }
}

impl Service for Slow {
    type Conn = ();

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) {}

    fn received(&mut self, _: ConnId, (): &mut (), input: &[u8], out: &mut Out<'_>) -> Step {
        self.ages.lock().unwrap().push((input[0], out.age_ms()));
        thread::sleep(Duration::from_millis(input[0].into()));
        out.write(&input[..1]);
        Step::Read { consumed: 1, need: 0 }
    }

    fn closed(&mut self, _: ConnId, (): (), _: CloseReason) {}

    fn turn(&mut self, _: &mut Outbox<'_, ()>) -> Turn {
        self.turns.fetch_add(1, Relaxed);
        Turn::IDLE
    }
}

/// What came while the loop was busy is as old as that, at most; what wakes a loop that sleeps is new, however long it slept.
pub fn bytes_age_while_the_loop_is_busy(options: Options) {
    let service = Slow::default();
    let running = start(listener(), options, service.clone());
    let (mut busy, mut other) = (running.client(), running.client());
    for client in [&mut busy, &mut other] {
        client.send(&[0]);
        client.expect(&[0]);
    }
    wait_for(|| service.turns.load(Relaxed) > 1, "a loop that has nothing to do");
    thread::sleep(Duration::from_millis(300));
    busy.send(&[150]);
    wait_for(|| !service.ages(150).is_empty(), "the byte that keeps the loop busy");
    other.send(&[1]);
    other.expect(&[1]);
    let (first, second) = (service.ages(150)[0], service.ages(1)[0]);
    assert!(first < 150, "the loop slept for 300 ms: {first}");
    assert!(second >= 140, "it came while the loop was busy: {second}");
    running.stop();
}

/// A wake-up that has much to do sends what is answered before it goes on.
pub fn answers_leave_before_the_wake_up_ends(options: Options) {
    let service = Slow::default();
    let running = start(listener(), options, service.clone());
    let mut clients: Vec<Client> = (0..64).map(|_| running.client()).collect();
    for client in &mut clients {
        client.send(&[0]);
        client.expect(&[0]);
    }
    clients[0].send(&[250]);
    wait_for(|| !service.ages(250).is_empty(), "the byte that keeps the loop busy");
    let before = service.turns.load(Relaxed);
    for client in &mut clients[1..] {
        client.send(&[2]);
    }
    for client in &mut clients[1..] {
        client.expect(&[2]);
    }
    // 63 bytes of 2 ms, looked at by sixteens.
    let turns = service.turns.load(Relaxed) - before;
    assert!(turns >= 4, "turns: {turns}");
    let ages = service.ages(2);
    // A call of the kernel tells of some forty at once.
    let waited = ages.iter().filter(|age| **age >= 50).count();
    assert!(waited >= 60, "they waited for the first: {ages:?}");
    running.stop();
}
