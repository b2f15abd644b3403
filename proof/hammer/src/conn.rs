//! One connection of the readiness loop: its buffers and its frames in flight.

use std::collections::VecDeque;

use mio::net::TcpStream;
use wire::{Action, DecideFlags, decide, resolve};

use crate::notices::{Kind, Notice, Waiting};
use crate::pipe::Pipe;

/// Frames of notices in flight on one connection.
pub(crate) const NOTICE_FRAMES_MAX: usize = 16;

/// A frame of asks that waits for its answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flight {
    /// Its number; 0 where the place is free.
    pub frame: u64,
    /// First row of the table.
    pub first: usize,
    /// When it was due (open loop) or written (closed loop), ns since the start of the run.
    pub from_ns: u64,
    /// When it was written.
    pub sent_ns: u64,
    /// What the request ids of the rows were changed by.
    pub id_xor: u64,
}

/// A frame of notices that waits for its answer.
#[derive(Debug)]
pub(crate) struct NoticeFlight {
    /// Its number.
    pub frame: u64,
    /// When it was written, ns since the start of the run.
    pub sent_ns: u64,
    /// What is in it, in order.
    pub notices: Vec<Notice>,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    /// The socket with its buffers.
    pub pipe: Pipe,
    ring: Vec<Flight>,
    sequence: u64,
    /// Frames of asks in flight.
    pub in_flight: u64,
    /// Frames of notices in flight, oldest first.
    pub notice_flights: VecDeque<NoticeFlight>,
    /// Notices not yet sent.
    pub waiting: Waiting,
    spare: Vec<Vec<Notice>>,
}

/// Numbers of frames of notices are odd, those of asks even.
pub(crate) const fn is_notice_frame(frame: u64) -> bool {
    frame & 1 == 1
}

impl Conn {
    /// A connection that may have `in_flight_max` frames of asks in flight.
    pub(crate) fn new(stream: TcpStream, in_flight_max: usize) -> Self {
        let places = in_flight_max.next_power_of_two();
        Self {
            pipe: Pipe::new(stream),
            ring: vec![Flight::default(); places],
            sequence: 0,
            in_flight: 0,
            notice_flights: VecDeque::new(),
            waiting: Waiting::default(),
            spare: Vec::new(),
        }
    }

    /// Whether another frame of asks may be encoded: fewer than `depth` in flight, its place is free, the node reads.
    #[inline]
    pub(crate) fn has_room(&self, depth: usize) -> bool {
        let next = self.sequence + 1;
        self.in_flight < depth as u64
            && self.ring[self.place(next << 1)].frame == 0
            && self.pipe.has_room()
    }

    /// Encodes a frame of asks from consecutive rows, with their request ids changed by `id_xor`.
    #[inline]
    pub(crate) fn ask(
        &mut self,
        rows: &[decide::Ask],
        flags: DecideFlags,
        id_xor: u64,
        mut flight: Flight,
    ) -> Result<(), wire::EncodeError> {
        self.sequence += 1;
        let frame = self.sequence << 1;
        self.pipe.append(decide::encoded_len(rows.len()), |buf| {
            let (asks, encoder) =
                decide::encode(buf, &decide::Block::new(frame, flags))?.asks_mut(rows.len())?;
            asks.copy_from_slice(rows);
            for ask in asks {
                ask.set_request_id(ask.request_id() ^ id_xor);
            }
            Ok::<_, wire::EncodeError>(encoder.finish())
        })?;
        flight.frame = frame;
        flight.id_xor = id_xor;
        let place = self.place(frame);
        self.ring[place] = flight;
        self.in_flight += 1;
        Ok(())
    }

    /// Takes the flight that an answer names; `None` if there is none.
    #[inline]
    pub(crate) fn answered(&mut self, frame: u64) -> Option<Flight> {
        let place = self.place(frame);
        let flight = self.ring[place];
        if flight.frame != frame || frame == 0 {
            return None;
        }
        self.ring[place].frame = 0;
        self.in_flight -= 1;
        Some(flight)
    }

    /// Encodes a frame of notices.
    pub(crate) fn notify(
        &mut self,
        notices: Vec<Notice>,
        sent_ns: u64,
    ) -> Result<(), wire::EncodeError> {
        self.sequence += 1;
        let frame = self.sequence << 1 | 1;
        self.pipe.append(resolve::encoded_len(notices.len()), |buf| {
            let (entries, encoder) =
                resolve::encode(buf, &resolve::Block::new(frame))?.resolves_mut(notices.len())?;
            for (entry, notice) in entries.iter_mut().zip(&notices) {
                let (action, amount) = match notice.kind {
                    Kind::Confirm => (Action::Confirm, 0),
                    Kind::Settle | Kind::Again { .. } => (Action::Settle, notice.price),
                    Kind::Release => (Action::Release, 0),
                };
                *entry = resolve::Item::new(notice.token, amount, action, notice.request_id);
            }
            Ok::<_, wire::EncodeError>(encoder.finish())
        })?;
        self.notice_flights.push_back(NoticeFlight { frame, sent_ns, notices });
        Ok(())
    }

    /// Takes the frame of notices that an answer names.
    pub(crate) fn notices_answered(&mut self, frame: u64) -> Option<NoticeFlight> {
        let at = self.notice_flights.iter().position(|flight| flight.frame == frame)?;
        self.notice_flights.remove(at)
    }

    /// An empty list of notices, used before if possible.
    pub(crate) fn spare_list(&mut self) -> Vec<Notice> {
        self.spare.pop().unwrap_or_default()
    }

    /// Gives a list back.
    pub(crate) fn give_back(&mut self, mut list: Vec<Notice>) {
        list.clear();
        self.spare.push(list);
    }

    /// Nothing waits, nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.notice_flights.is_empty() && self.waiting.is_empty()
    }

    /// Notices in flight.
    pub(crate) fn notices_in_flight(&self) -> usize {
        self.notice_flights.iter().map(|flight| flight.notices.len()).sum()
    }

    #[inline]
    fn place(&self, frame: u64) -> usize {
        let sequence = usize::try_from(frame >> 1).unwrap_or(0);
        sequence & (self.ring.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asks::Repeat;
    use wire::{Message, Split};

    fn conn(in_flight_max: usize) -> (Conn, std::net::TcpListener) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        (Conn::new(TcpStream::from_std(stream), in_flight_max), listener)
    }

    fn row(request_id: u64) -> decide::Ask {
        decide::Ask::new(request_id, 7, 1_000, 3, *b"USD\0", 0, 0)
    }

    #[test]
    fn frames_carry_the_rows_with_fresh_ids() {
        let (mut conn, _listener) = conn(4);
        let rows = [row(1), row(2)];
        conn.ask(&rows, DecideFlags::REMEMBER, 0xff00, Flight::default()).unwrap();
        conn.ask(&rows, DecideFlags::REMEMBER, 0xee00, Flight::default()).unwrap();
        let sent = conn.pipe.out().clone();
        let Ok(Split::Frame(first)) = wire::frame::split(&sent, 1 << 20) else {
            panic!("no frame");
        };
        let Ok(Message::Decide(decide)) = Message::decode(first) else { panic!("no Decide") };
        let ids: Vec<u64> = decide.asks().iter().map(wire::decide::Ask::request_id).collect();
        assert_eq!(ids, [0xff01, 0xff02]);
        assert!(decide.asks().iter().all(|a| a.budget_id() == 7 && a.amount() == 1_000));
        assert_eq!(sent.len(), first.len() * 2, "the second follows without a gap");
    }

    #[test]
    fn an_answer_is_taken_once_and_only_if_it_was_asked() {
        let (mut conn, _listener) = conn(2);
        conn.ask(&[row(1)], DecideFlags::NONE, 0, Flight { first: 5, ..Flight::default() })
            .unwrap();
        conn.ask(&[row(1)], DecideFlags::NONE, 0, Flight { first: 6, ..Flight::default() })
            .unwrap();
        assert!(!conn.has_room(2));
        assert!(conn.answered(0).is_none() && conn.answered(6).is_none());
        assert_eq!(conn.answered(4).map(|f| f.first), Some(6), "answers may overtake each other");
        assert!(conn.answered(4).is_none());
        assert_eq!(conn.in_flight, 1);
        assert_eq!(conn.answered(2).map(|f| f.first), Some(5));
        assert!(conn.has_room(2));
    }

    #[test]
    fn notices_become_the_actions_they_are() {
        let (mut conn, _listener) = conn(2);
        let notice = |kind| Notice {
            token: [9; 32],
            request_id: 78,
            due_ns: 0,
            alive_until_ns: 0,
            gone_from_ns: 0,
            price: 77,
            hold: 100,
            budget: 0,
            kind,
            repeat: Repeat::Never,
            confirmed: false,
            attempts: 0,
        };
        let again = Kind::Again { first: None };
        let kinds = [Kind::Confirm, Kind::Settle, again, Kind::Release];
        conn.notify(kinds.map(notice).to_vec(), 0).unwrap();
        let sent = conn.pipe.out().clone();
        let Ok(Message::Resolve(resolve)) = Message::decode(&sent) else {
            panic!("no Resolve");
        };
        let sent: Vec<_> = resolve.resolves().iter().map(|r| (r.action(), r.amount())).collect();
        let settle = (Some(Action::Settle), 77);
        assert_eq!(sent, [(Some(Action::Confirm), 0), settle, settle, (Some(Action::Release), 0)]);
        assert!(resolve.resolves().iter().all(|r| r.request_id() == Some(78)));
        assert!(is_notice_frame(resolve.frame()));
        assert!(conn.notices_answered(resolve.frame()).is_some() && conn.is_idle());
    }
}
