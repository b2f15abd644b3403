//! What one worker's event loop may use: backend, buffers, limits, time-outs.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Which kernel interface carries the event loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// io_uring where the kernel allows it, epoll otherwise; the reason is logged.
    #[default]
    Auto,
    /// io_uring, or an error that says why not.
    IoUring,
    /// epoll, which every Linux has.
    Epoll,
}

/// A word that names no transport.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("unknown transport {found:?}: expected \"auto\", \"io_uring\" or \"epoll\"")]
pub struct TransportError {
    /// The word as written.
    pub found: String,
}

impl FromStr for Transport {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "io_uring" => Ok(Self::IoUring),
            "epoll" => Ok(Self::Epoll),
            other => Err(TransportError { found: other.to_owned() }),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::IoUring => "io_uring",
            Self::Epoll => "epoll",
        })
    }
}

/// When io_uring runs the second half of an operation. Epoll ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskRun {
    /// Only when the worker asks for completions (`DEFER_TASKRUN`, Linux 6.1).
    #[default]
    Defer,
    /// At any entry into the kernel, without an interrupt (`COOP_TASKRUN`, Linux 5.19).
    Coop,
}

/// Limits and choices of one worker's event loop. Every limit is per worker.
///
/// Memory that peers can make a worker hold is at most `input_total_bytes_max` plus
/// `output_total_bytes_max` and a quarter, plus what one wake-up adds (`output_bytes_max` and a quarter of it for
/// the connection that passes the total, the receive buffers), plus about 300 bytes per connection (25 kB with
/// TLS, and 64 KiB for each handshake), plus `receive_buffers * receive_buffer_bytes`, plus 16 MiB of spare buffers. What counts towards the
/// totals is what is allocated, not what is in it. When most of more than 32 MiB is free again, the
/// system gets it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The backend. Default: auto.
    pub transport: Transport,
    /// How io_uring completes. Default: defer.
    pub cooperative: TaskRun,
    /// Connections open at once, 1 to 1,000,000. One more is accepted, closed at once and counted
    /// in `refused_full`. Default: 16,384.
    pub connections_max: usize,
    /// Buffers the kernel may fill between two wake-ups (io_uring only): a power of two from 2 to
    /// 32,768. It begins with 64 and takes more when it needs them. Default: 256.
    pub receive_buffers: u16,
    /// Bytes of one such buffer, and what epoll reads from one connection in one wake-up: 64 to
    /// 1,048,576. Default: 65,536.
    pub receive_buffer_bytes: u32,
    /// Bytes of one connection's unfinished message, 1 to 2^30: the largest message a door accepts.
    /// More closes it with [`TooLarge`](crate::CloseReason::TooLarge). Default: 1 MiB.
    pub input_bytes_max: usize,
    /// Unfinished messages of all connections together. Beyond it a connection that has more than its share of them is
    /// closed with [`Overload`](crate::CloseReason::Overload). Default: 64 MiB.
    pub input_total_bytes_max: usize,
    /// Bytes of one connection's unsent answers. Above it the connection is no longer read, until
    /// half of it is left. Default: 256 KiB.
    pub output_bytes_max: usize,
    /// Unsent answers of all connections together. Above it nobody who has some is read, until half of it is left, and nobody gets
    /// more than the share of one. A quarter above it those that have the most are closed with
    /// [`Overload`](crate::CloseReason::Overload). Default: 64 MiB.
    pub output_total_bytes_max: usize,
    /// A connection without one whole message for so long is closed; 0 = never. Default: 300,000.
    pub idle_ms_max: u64,
    /// A message begun and not finished for so long closes its connection; 0 = never. Default: 10,000.
    pub partial_ms_max: u64,
    /// A peer that takes none of its waiting answers for so long is closed; 0 = never. Default: 10,000.
    pub stalled_ms_max: u64,
    /// After a stop is asked for: how long the service may drain and peers may take their answers.
    /// Default: 5,000.
    pub stop_grace_ms_max: u64,
    /// A TLS handshake that takes longer ends; 0 = never. Default: 10,000.
    pub tls_handshake_ms_max: u64,
    /// TLS handshakes at once, 1 to 1,000,000, from the client's first whole message on. For one more the oldest ends, of the door and
    /// the peer that have the most. Each holds at most 64 KiB of its peer's, and a wake-up goes on with at most 8. Those that have not said so
    /// much are four times as many at most, and 16,384, by the same rule. Default: 1,024.
    pub tls_handshakes_max: usize,
    /// How long to poll without sleeping after the last event, in microseconds; 0 = sleep at once.
    /// Burns the core; buys the wake-up latency. Default: 0.
    pub busy_poll_us: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            transport: Transport::Auto,
            cooperative: TaskRun::Defer,
            connections_max: 16_384,
            receive_buffers: 256,
            receive_buffer_bytes: 64 * 1024,
            input_bytes_max: 1024 * 1024,
            input_total_bytes_max: 64 * 1024 * 1024,
            output_bytes_max: 256 * 1024,
            output_total_bytes_max: 64 * 1024 * 1024,
            idle_ms_max: 300_000,
            partial_ms_max: 10_000,
            stalled_ms_max: 10_000,
            stop_grace_ms_max: 5_000,
            tls_handshake_ms_max: 10_000,
            tls_handshakes_max: 1_024,
            busy_poll_us: 0,
        }
    }
}

/// The limits of the connections of one listener or one dial, where they are not those of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// As [`Options::input_bytes_max`], and not above it.
    pub input_bytes_max: usize,
    /// As [`Options::idle_ms_max`].
    pub idle_ms_max: u64,
    /// Bytes that come after a stop was asked for are handed over as before, until the service has drained: for protocols that end with
    /// a message of both sides. Otherwise they stay unread.
    pub reads_while_stopping: bool,
}

/// An option outside its range.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{name} = {found}: expected {expected}")]
pub struct OptionsError {
    /// The option's name.
    pub name: &'static str,
    /// What it was set to.
    pub found: u64,
    /// Its range in words.
    pub expected: &'static str,
}

impl Options {
    /// The limits of connections whose listener or dial has none of its own.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            input_bytes_max: self.input_bytes_max,
            idle_ms_max: self.idle_ms_max,
            reads_while_stopping: false,
        }
    }

    /// Checks every option against its range.
    ///
    /// # Errors
    /// The first option outside its range.
    pub fn check(&self) -> Result<(), OptionsError> {
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let sizes = |n: usize| (1..=1 << 30).contains(&n);
        let rules = [
            (
                "connections_max",
                wide(self.connections_max),
                (1..=1_000_000).contains(&self.connections_max),
                "1 to 1,000,000",
            ),
            (
                "tls_handshakes_max",
                wide(self.tls_handshakes_max),
                (1..=1_000_000).contains(&self.tls_handshakes_max),
                "1 to 1,000,000",
            ),
            (
                "receive_buffers",
                u64::from(self.receive_buffers),
                self.receive_buffers.is_power_of_two()
                    && (2..=32_768).contains(&self.receive_buffers),
                "a power of two from 2 to 32,768",
            ),
            (
                "receive_buffer_bytes",
                u64::from(self.receive_buffer_bytes),
                (64..=1_048_576).contains(&self.receive_buffer_bytes),
                "64 to 1,048,576",
            ),
            (
                "input_bytes_max",
                wide(self.input_bytes_max),
                sizes(self.input_bytes_max),
                "1 to 2^30",
            ),
            (
                "output_bytes_max",
                wide(self.output_bytes_max),
                sizes(self.output_bytes_max),
                "1 to 2^30",
            ),
            (
                "input_total_bytes_max",
                wide(self.input_total_bytes_max),
                self.input_total_bytes_max >= self.input_bytes_max,
                "at least input_bytes_max",
            ),
            (
                "output_total_bytes_max",
                wide(self.output_total_bytes_max),
                self.output_total_bytes_max >= self.output_bytes_max,
                "at least output_bytes_max",
            ),
        ];
        match rules.into_iter().find(|(_, _, holds, _)| !holds) {
            Some((name, found, _, expected)) => Err(OptionsError { name, found, expected }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transport_text_round_trips() {
        for transport in [Transport::Auto, Transport::IoUring, Transport::Epoll] {
            assert_eq!(transport.to_string().parse(), Ok(transport));
        }
        let error = "uring".parse::<Transport>().unwrap_err();
        assert!(error.to_string().contains("\"uring\""), "{error}");
    }

    #[test]
    fn the_defaults_hold_and_each_range_is_checked() {
        assert_eq!(Options::default().check(), Ok(()));
        let wrong = [
            ("connections_max", Options { connections_max: 0, ..Options::default() }),
            ("tls_handshakes_max", Options { tls_handshakes_max: 0, ..Options::default() }),
            ("receive_buffers", Options { receive_buffers: 100, ..Options::default() }),
            ("receive_buffer_bytes", Options { receive_buffer_bytes: 1, ..Options::default() }),
            ("input_bytes_max", Options { input_bytes_max: 0, ..Options::default() }),
            ("output_bytes_max", Options { output_bytes_max: 0, ..Options::default() }),
            ("input_total_bytes_max", Options { input_total_bytes_max: 1, ..Options::default() }),
            ("output_total_bytes_max", Options { output_total_bytes_max: 1, ..Options::default() }),
        ];
        for (name, options) in wrong {
            assert_eq!(options.check().unwrap_err().name, name);
        }
    }
}
