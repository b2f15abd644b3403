//! Bytes that all connections of a worker hold together.

use crate::conns::Connection;

/// Memory of answers above which the allocator is asked to give back what is free again, once three quarters are. It would
/// keep it otherwise: it sees buffers of these sizes come and go.
pub(crate) const GIVE_BACK_BYTES: usize = 32 * 1024 * 1024;

/// Bytes held for all connections together. Limits are on the memory, which is more than the bytes that are in it.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) output: usize,
    pub(crate) input: usize,
    pub(crate) output_memory: usize,
    pub(crate) input_memory: usize,
    /// Of TLS: records that are not whole yet, and records to be sent. It has limits of its own: `tls_handshakes_max`, and
    /// what a session keeps of one record.
    pub(crate) tls_memory: usize,
    /// The most memory of all three since what was freed was last given back to the system.
    pub(crate) memory_peak: usize,
    /// Nobody with unsent answers is read until the output fell.
    pub(crate) choked: bool,
}

impl Totals {
    /// Brings the totals in line with one connection.
    pub(crate) fn count<C>(
        &mut self,
        conn: &mut Connection<C>,
        now_ms: u64,
        output_total_bytes_max: usize,
    ) {
        let output = conn.output.len();
        if conn.output_counted == 0 && output > 0 {
            conn.progress_ms = now_ms;
        }
        self.output = self.output - conn.output_counted + output;
        conn.output_counted = output;
        let input = conn.input.len();
        self.input = self.input - conn.input_counted + input;
        conn.input_counted = input;
        let memory = conn.output.memory();
        self.output_memory = self.output_memory - conn.output_memory_counted + memory;
        conn.output_memory_counted = memory;
        let memory = conn.input.memory();
        self.input_memory = self.input_memory - conn.input_memory_counted + memory;
        conn.input_memory_counted = memory;
        if self.output_memory > output_total_bytes_max {
            self.choked = true;
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.output_memory + self.input_memory + self.tls_memory
    }

    /// Did so much go that the system should have it back?
    pub(crate) fn fell(&mut self) -> bool {
        self.memory_peak = self.memory_peak.max(self.memory());
        let fell = self.memory_peak > GIVE_BACK_BYTES && self.memory() < self.memory_peak / 4;
        if fell {
            self.memory_peak = self.memory();
        }
        fell
    }
}

/// A connection with unsent answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    /// Bytes of answers.
    pub(crate) unsent: usize,
    /// Bytes of the buffers they are in.
    pub(crate) memory: usize,
    pub(crate) slot: u32,
}

/// Which connections go, so that at least `over` bytes of memory come free: those that have the most, and nobody within the share of
/// one. A buffer may be larger than what is in it, as one that another connection grew: whose answers are more than the share go before
/// those whose buffers are.
pub(crate) fn who_goes(mut holders: Vec<Holder>, share: usize, over: usize) -> Vec<u32> {
    holders.retain(|holder| holder.memory > share);
    holders.sort_unstable_by_key(|holder| {
        std::cmp::Reverse((holder.unsent > share, holder.memory, holder.slot))
    });
    let mut freed = 0;
    let going = holders.iter().take_while(|holder| {
        let goes = freed < over;
        freed += holder.memory;
        goes
    });
    going.map(|holder| holder.slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_answers_are_many_goes_before_whose_buffer_is_large() {
        let holder = |slot, unsent, memory| Holder { unsent, memory, slot };
        // A ping in a buffer that somebody else grew, two who never read, and one within the share.
        let all =
            vec![holder(0, 40, 900), holder(1, 300, 400), holder(2, 310, 320), holder(3, 90, 100)];
        let goes = |over| who_goes(all.clone(), 100, over);
        assert_eq!(goes(1), [1]);
        assert_eq!(goes(401), [1, 2]);
        assert_eq!(goes(721), [1, 2, 0], "memory is bounded all the same");
        assert_eq!(goes(10_000), [1, 2, 0]);
    }

    #[test]
    fn memory_goes_back_once_most_of_much_is_free() {
        let mut totals = Totals { output_memory: 2 * GIVE_BACK_BYTES, ..Totals::default() };
        assert!(!totals.fell());
        totals.output_memory = GIVE_BACK_BYTES;
        assert!(!totals.fell(), "half of it is in use");
        totals.output_memory = 0;
        assert!(totals.fell());
        assert!(!totals.fell(), "once");
        totals.output_memory = GIVE_BACK_BYTES;
        assert!(!totals.fell());
        totals.output_memory = 0;
        assert!(!totals.fell(), "so little is kept");
    }
}
