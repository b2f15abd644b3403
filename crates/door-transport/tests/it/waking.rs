//! Other threads, timers and ids.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use door_transport::{
    CloseReason, ConnId, Handle, Options, Out, Outbox, Peer, Service, Step, Turn, run,
};

use crate::support::{PATIENCE, Server, frame, wait_for};

pub fn answers_of_other_threads_wake_the_loop(options: Options) {
    let server = Server::start(options);
    let mut client = server.client();
    wait_for(|| server.shared().opened.len() == 1, "the connection");
    let id = server.shared().opened[0].0;
    for round in 0..200u8 {
        server.shared().outside.push_back((ConnId::from_bits(id.to_bits()), vec![round; 9]));
        server.handle.waker().wake();
        client.expect(&frame(b'L', &[round; 9]));
    }
    drop(client);
    server.stop();
}

/// What is written to it after a long silence has all the time that output has: the silence is none of it.
pub fn a_quiet_connection_that_is_written_to_does_not_stall(options: Options) {
    let server = Server::start(Options { stalled_ms_max: 20, ..options });
    let mut client = server.client();
    wait_for(|| server.shared().opened.len() == 1, "the connection");
    let id = server.shared().opened[0].0;
    for round in 0..40u8 {
        thread::sleep(Duration::from_millis(30));
        server.shared().outside.push_back((ConnId::from_bits(id.to_bits()), vec![round; 9]));
        server.handle.waker().wake();
        client.expect(&frame(b'L', &[round; 9]));
    }
    drop(client);
    server.stop();
}

pub fn a_stale_id_reaches_nobody(options: Options) {
    let server = Server::start(options);
    let first = server.client();
    wait_for(|| server.shared().opened.len() == 1, "the first");
    drop(first);
    server.wait_closed(CloseReason::PeerClosed, 1);
    let mut second = server.client();
    wait_for(|| server.shared().opened.len() == 2, "the second");
    let ids: Vec<ConnId> = server.shared().opened.iter().map(|opened| opened.0).collect();
    assert_eq!(ids[0].slot(), ids[1].slot(), "the slot is used again");
    server.shared().outside.push_back((ids[0], b"for the first".to_vec()));
    server.shared().outside.push_back((ids[1], b"for the second".to_vec()));
    server.handle.waker().wake();
    second.expect(&frame(b'L', b"for the second"));
    assert_eq!(server.shared().reached, [false, true]);
    drop(second);
    server.stop();
}

/// Passes numbers on, with nothing else that could wake its loop.
struct Relay {
    inbox: mpsc::Receiver<u32>,
    outbox: mpsc::Sender<u32>,
}

impl Service for Relay {
    type Conn = ();

    fn opened(&mut self, _: ConnId, _: Peer, _: usize) {}

    fn received(&mut self, _: ConnId, (): &mut (), input: &[u8], _: &mut Out<'_>) -> Step {
        Step::Read { consumed: input.len(), need: 0 }
    }

    fn closed(&mut self, _: ConnId, (): (), _: CloseReason) {}

    fn turn(&mut self, _: &mut Outbox<'_, ()>) -> Turn {
        while let Ok(number) = self.inbox.try_recv() {
            self.outbox.send(number).unwrap();
        }
        Turn::IDLE
    }
}

pub fn no_wake_up_is_lost(options: Options) {
    let ((to, inbox), (outbox, from)) = (mpsc::channel(), mpsc::channel());
    let handle = Handle::new().unwrap();
    let (remote, waker) = (handle.clone(), handle.waker());
    let thread = thread::spawn(move || {
        run(Vec::new(), &options, Relay { inbox, outbox }, &remote).map(drop)
    });
    for number in 0..5000 {
        // Without a connection the loop sleeps without end: a lost call would hang here.
        to.send(number).unwrap();
        waker.wake();
        assert_eq!(from.recv_timeout(PATIENCE), Ok(number));
        for _ in 0..number % 64 * 16 {
            std::hint::spin_loop();
        }
    }
    handle.stop();
    thread.join().unwrap().unwrap();
}

pub fn spinning_and_timers_take_turns(options: Options) {
    let server = Server::start(Options { busy_poll_us: 50, ..options });
    let turns = || server.shared().turns;
    server.shared().turn = Some(Turn { wait_ms_max: 5, ..Turn::IDLE });
    server.handle.waker().wake();
    let before = turns();
    wait_for(|| turns() > before + 10, "turns by the timer");
    server.shared().turn = Some(Turn { spin: true, ..Turn::IDLE });
    server.client().echo(b"while spinning");
    let before = turns();
    wait_for(|| turns() > before + 100, "turns by spinning");
    server.shared().turn = None;
    server.stop();
}

pub fn a_paused_connection_keeps_the_order_of_its_answers(options: Options) {
    let server = Server::start(options);
    let mut client = server.client();
    let frames = [frame(b'E', b"0"), frame(b'W', b"1"), frame(b'E', b"2"), frame(b'W', b"3")];
    client.send(&frames.concat());
    client.expect(&frame(b'E', b"0"));
    client.send(&frame(b'E', b"4"));
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    for expected in [[frame(b'L', b"1"), frame(b'E', b"2")], [frame(b'L', b"3"), frame(b'E', b"4")]]
    {
        wait_for(|| !server.shared().later.is_empty(), "the paused message");
        assert_eq!(server.shared().later.len(), 1, "nothing is read before its answer");
        let answer = server.shared().later.pop_front().unwrap();
        server.shared().outside.push_back(answer);
        server.handle.waker().wake();
        client.expect(&expected.concat());
    }
    assert!(client.read_to_end().is_empty(), "the end that came while paused is seen");
    server.stop();
}
