//! What the door accepts.

use thiserror::Error;

/// Header lines that a request can have at the very most; [`Limits::headers_max`] is the setting below it.
pub const HEADERS_MAX: usize = 128;

/// What the door accepts of one request, and when it compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of request line and headers, 256 to 65,536; more is answered 431, or 414 when not even the
    /// request line ends. Default: 8,192.
    pub head_bytes_max: usize,
    /// Bytes of the request target, 1 to `head_bytes_max`; more is answered 414. Default: 4,096.
    pub target_bytes_max: usize,
    /// Header lines, 1 to [`HEADERS_MAX`]; more is answered 431. Default: 64.
    pub headers_max: usize,
    /// Bytes of a body as they arrive, with the framing and trailers of a chunked one, 0 to 2^29; more is
    /// answered 413. Default: 262,144.
    pub body_bytes_max: usize,
    /// Bytes of a body after inflating, 1 to 2^29; more is answered 413. Default: 1,048,576.
    pub inflated_bytes_max: usize,
    /// An answer's body of at least so many bytes is compressed for clients that accept gzip;
    /// `usize::MAX` = never. Default: 1,024.
    pub gzip_bytes_min: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes_max: 8 * 1024,
            target_bytes_max: 4 * 1024,
            headers_max: 64,
            body_bytes_max: 256 * 1024,
            inflated_bytes_max: 1024 * 1024,
            gzip_bytes_min: 1024,
        }
    }
}

/// A limit outside its range.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{name} = {found}: expected {expected}")]
pub struct LimitsError {
    /// The limit's name.
    pub name: &'static str,
    /// The value to which it was set.
    pub found: usize,
    /// Its range in words.
    pub expected: &'static str,
}

impl Limits {
    /// Checks every limit against its range.
    ///
    /// # Errors
    /// The first limit outside its range.
    pub fn check(&self) -> Result<(), LimitsError> {
        let bodies = 1 << 29;
        let rules = [
            ("head_bytes_max", self.head_bytes_max, 256..=65_536, "256 to 65,536"),
            (
                "target_bytes_max",
                self.target_bytes_max,
                1..=self.head_bytes_max,
                "1 to head_bytes_max",
            ),
            ("headers_max", self.headers_max, 1..=HEADERS_MAX, "1 to 128"),
            ("body_bytes_max", self.body_bytes_max, 0..=bodies, "0 to 2^29"),
            ("inflated_bytes_max", self.inflated_bytes_max, 1..=bodies, "1 to 2^29"),
        ];
        match rules.into_iter().find(|(_, found, range, _)| !range.contains(found)) {
            Some((name, found, _, expected)) => Err(LimitsError { name, found, expected }),
            None => Ok(()),
        }
    }

    /// Bytes of the largest request: what the transport's `input_bytes_max` must at least be, or it closes
    /// a connection before the door can answer 413.
    pub fn request_bytes_max(&self) -> usize {
        self.head_bytes_max.saturating_add(self.body_bytes_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_and_each_range_is_checked() {
        let fine = Limits::default();
        assert_eq!(fine.check(), Ok(()));
        let wrong = [
            ("head_bytes_max", Limits { head_bytes_max: 255, ..fine }),
            ("target_bytes_max", Limits { target_bytes_max: 8193, ..fine }),
            ("headers_max", Limits { headers_max: HEADERS_MAX + 1, ..fine }),
            ("body_bytes_max", Limits { body_bytes_max: (1 << 29) + 1, ..fine }),
            ("inflated_bytes_max", Limits { inflated_bytes_max: 0, ..fine }),
        ];
        for (name, limits) in wrong {
            assert_eq!(limits.check().unwrap_err().name, name);
        }
    }
}
