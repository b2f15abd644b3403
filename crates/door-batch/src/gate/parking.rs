//! Frames with a single ask, or with the flag `awaitFill`, that wait for the bank before they are judged: a purse is short of their asks.

use weir_till::{DueQueue, FillWait, Waits};

use crate::Client;

/// Frames that may wait on one worker.
const FRAMES_MAX: usize = 256;
/// Bytes of all of them.
const BYTES_MAX: usize = 4 << 20;

/// A frame that waits.
#[derive(Debug)]
pub(crate) struct Parked {
    /// The connection, as bits of its id.
    pub(crate) conn: u64,
    pub(crate) client: Client,
    pub(crate) frame: Vec<u8>,
    /// How long it waits, and how often the bank is asked for it; then it is judged in any case.
    pub(crate) wait: FillWait,
}

impl Parked {
    fn new(wait: FillWait) -> Parked {
        Parked { conn: 0, client: Client::default(), frame: Vec::new(), wait }
    }
}

/// The frames of a worker that wait: for an echo behind the wants that went to the bank for them, or until their time is up. They leave
/// in order, but for those for which the bank is asked again.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    pub(crate) frames: DueQueue<Parked>,
    bytes: usize,
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

    /// Keeps a copy of a frame for which the bank was asked, up to an instant of the steady clock. There must be room.
    pub(crate) fn park(
        &mut self,
        conn: u64,
        client: Client,
        frame: &[u8],
        (wait, until_ms): (FillWait, u64),
    ) {
        assert!(self.has_room(frame.len()), "asked before");
        let mut parked = self.spare.pop().unwrap_or_else(|| Parked::new(wait));
        (parked.conn, parked.client, parked.wait) = (conn, client, wait);
        parked.frame.clear();
        parked.frame.extend_from_slice(frame);
        self.bytes += frame.len();
        self.frames.push(parked, until_ms);
    }

    /// The next frame that the bank has answered, or whose time is up.
    pub(crate) fn next_due(&mut self, steady_ms: u64) -> Option<Parked> {
        let parked = self.frames.take_first_due(steady_ms)?;
        self.bytes -= parked.frame.len();
        Some(parked)
    }

    /// Keeps one that was due and waits on; one that does not is given back.
    pub(crate) fn park_again(&mut self, parked: Parked, waits: Waits) -> Option<Parked> {
        let bytes = parked.frame.len();
        let parked = self.frames.push_waiting(parked, waits);
        self.bytes += if parked.is_none() { bytes } else { 0 };
        parked
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
    fn they_are_bounded_in_number_and_bytes() {
        let mut parking = Parking::default();
        for conn in 0..FRAMES_MAX as u64 {
            assert!(parking.has_room(100));
            parking.park(conn, Client::default(), &[0; 100], (FillWait::lasting(10), 10));
        }
        assert!(!parking.has_room(1) && parking.has(0));
        assert_eq!(due(&mut parking, 10).len(), FRAMES_MAX);
        let large = vec![0; BYTES_MAX / 2];
        parking.park(1, Client::default(), &large, (FillWait::lasting(10), 10));
        parking.park(2, Client::default(), &large, (FillWait::lasting(10), 10));
        assert!(!parking.has_room(1) && parking.has_room(0));
        assert_eq!(due(&mut parking, 10), [1, 2]);
        assert!(parking.has_room(BYTES_MAX) && !parking.has(2));
        assert!(parking.spare.iter().all(|parked| parked.frame.capacity() < BYTES_MAX / 2));
    }
}
