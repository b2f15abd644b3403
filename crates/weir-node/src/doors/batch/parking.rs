//! Frames with the flag `awaitFill` that wait for the bank before they are judged: a purse is short of their asks.
//!
//! Wants go to the bank in the order in which frames came, and an echo behind them comes back in that order, so frames leave in
//! order as well: a frame is due once its echo or a later one is back, or its time is up.

use std::collections::VecDeque;

use door_batch::Client;

/// Frames that may wait on one worker.
const FRAMES_MAX: usize = 256;
/// Bytes of all of them.
const BYTES_MAX: usize = 4 << 20;

/// A frame that waits.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// The connection, as bits of its id.
    pub(crate) conn: u64,
    pub(crate) client: Client,
    pub(crate) frame: Vec<u8>,
    number: u64,
    until_ms: u64,
}

/// The frames of a worker that wait.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    /// In the order in which they came; all wait for the same time.
    frames: VecDeque<Parked>,
    bytes: usize,
    /// Of the last frame that came.
    number: u64,
    /// Of the last frame that an echo was asked for.
    echoed: u64,
    /// All frames up to this one are answered by the bank.
    answered: u64,
    /// Kept for their memory.
    spare: Vec<Parked>,
    /// Work space: what a frame asks of each slot.
    pub(crate) asked: Vec<(u32, i64)>,
}

impl Parking {
    /// Would a frame of so many bytes find a place?
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.frames.len() < FRAMES_MAX && self.bytes + bytes <= BYTES_MAX
    }

    /// Keeps a copy of a frame, up to an instant of the steady clock. There must be room.
    pub(crate) fn park(&mut self, conn: u64, client: Client, frame: &[u8], until_ms: u64) {
        assert!(self.has_room(frame.len()), "asked before");
        let mut parked = self.spare.pop().unwrap_or_default();
        self.number += 1;
        (parked.conn, parked.client, parked.number, parked.until_ms) =
            (conn, client, self.number, until_ms);
        parked.frame.clear();
        parked.frame.extend_from_slice(frame);
        self.bytes += frame.len();
        self.frames.push_back(parked);
    }

    /// The number to ask an echo for, behind the wants of the frames that came since the last one.
    pub(crate) fn next_echo(&mut self) -> Option<u64> {
        let number = (self.number > self.echoed).then_some(self.number);
        self.echoed = self.number;
        number
    }

    /// An echo is back.
    pub(crate) fn echoed(&mut self, number: u64) {
        self.answered = self.answered.max(number);
    }

    /// The next frame that the bank has answered, or whose time is up.
    pub(crate) fn next_due(&mut self, steady_ms: u64) -> Option<Parked> {
        let answered = self.answered;
        let is_due =
            |parked: &mut Parked| parked.number <= answered || parked.until_ms <= steady_ms;
        let parked = self.frames.pop_front_if(is_due)?;
        self.bytes -= parked.frame.len();
        Some(parked)
    }

    /// A frame that was judged; its memory is used again.
    pub(crate) fn recycle(&mut self, mut parked: Parked) {
        // Large ones are seldom: they are not kept for ever.
        if parked.frame.capacity() <= BYTES_MAX / FRAMES_MAX {
            parked.client = Client::default();
            self.spare.push(parked);
        }
    }

    /// Waits a frame of this connection?
    pub(crate) fn has(&self, conn: u64) -> bool {
        self.frames.iter().any(|parked| parked.conn == conn)
    }

    /// How long the first one still waits, ms; `None` if there is none.
    pub(crate) fn wait_ms(&self, steady_ms: u64) -> Option<u64> {
        self.frames.front().map(|parked| parked.until_ms.saturating_sub(steady_ms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(parking: &mut Parking, steady_ms: u64) -> Vec<u64> {
        std::iter::from_fn(|| {
            let parked = parking.next_due(steady_ms)?;
            let conn = parked.conn;
            parking.recycle(parked);
            Some(conn)
        })
        .collect()
    }

    #[test]
    fn frames_leave_in_order_when_their_echo_is_back_or_their_time_is_up() {
        let mut parking = Parking::default();
        parking.park(1, Client::default(), &[1], 10);
        parking.park(2, Client::default(), &[2], 10);
        assert_eq!((parking.next_echo(), parking.next_echo()), (Some(2), None));
        parking.park(3, Client::default(), &[3], 12);
        assert_eq!(parking.next_echo(), Some(3));
        assert_eq!((parking.wait_ms(4), parking.wait_ms(99)), (Some(6), Some(0)));
        assert_eq!(due(&mut parking, 9), [0_u64; 0]);
        parking.echoed(2);
        assert_eq!(due(&mut parking, 9), [1, 2], "one echo for the two that came together");
        assert_eq!(due(&mut parking, 12), [3], "its time is up");
        parking.echoed(3);
        assert_eq!((due(&mut parking, 99), parking.wait_ms(0)), (vec![], None), "an echo too late");
        assert!(parking.is_empty());
        // An echo that is too late for one frame is none for the next.
        parking.park(4, Client::default(), &[4], 200);
        assert_eq!(due(&mut parking, 100), [0_u64; 0]);
    }

    #[test]
    fn they_are_bounded_in_number_and_bytes() {
        let mut parking = Parking::default();
        for conn in 0..FRAMES_MAX as u64 {
            assert!(parking.has_room(100));
            parking.park(conn, Client::default(), &[0; 100], 10);
        }
        assert!(!parking.has_room(1));
        assert_eq!(due(&mut parking, 10).len(), FRAMES_MAX);
        let large = vec![0; BYTES_MAX / 2];
        parking.park(1, Client::default(), &large, 10);
        parking.park(2, Client::default(), &large, 10);
        assert!(!parking.has_room(1) && parking.has_room(0));
        assert_eq!(due(&mut parking, 10), [1, 2]);
        assert!(parking.has_room(BYTES_MAX));
        assert!(parking.spare.iter().all(|parked| parked.frame.capacity() < BYTES_MAX / 2));
    }
}
