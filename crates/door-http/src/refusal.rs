//! Why the door refuses a request.

use std::fmt;

/// Why the door answered a request itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The head is not HTTP/1.0 or 1.1: request line, header line, line end, version, folded line.
    MalformedHead,
    /// The head is larger than `head_bytes_max`.
    HeadTooLarge,
    /// More header lines than `headers_max`.
    TooManyHeaders,
    /// The target is larger than `target_bytes_max`.
    TargetTooLong,
    /// An HTTP/1.1 request without `Host`, or any request with several.
    BadHost,
    /// Two statements of the body's length: `Content-Length` beside `Transfer-Encoding`, or several
    /// different `Content-Length`s.
    AmbiguousLength,
    /// A `Content-Length` that is not digits.
    BadContentLength,
    /// A `Transfer-Encoding` that is not exactly `chunked`, or one in HTTP/1.0.
    BadTransferEncoding,
    /// A chunk without a proper size or end, or a malformed trailer.
    BadChunk,
    /// The body is larger than `body_bytes_max`.
    BodyTooLarge,
    /// An `Expect` that is not `100-continue`.
    BadExpectation,
    /// A method that the application does not take ([`Methods`](crate::Methods)), or `CONNECT`.
    UnknownMethod,
    /// A target that is neither a path nor an absolute `http` address.
    BadTarget,
    /// A `Content-Encoding` that is neither gzip nor identity.
    UnknownContentEncoding,
    /// The inflated body is larger than `inflated_bytes_max`.
    InflatedTooLarge,
    /// The body is no gzip stream: damaged, cut, or followed by something else.
    BadGzip,
}

impl Refusal {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 16] = [
        Self::MalformedHead,
        Self::HeadTooLarge,
        Self::TooManyHeaders,
        Self::TargetTooLong,
        Self::BadHost,
        Self::AmbiguousLength,
        Self::BadContentLength,
        Self::BadTransferEncoding,
        Self::BadChunk,
        Self::BodyTooLarge,
        Self::BadExpectation,
        Self::UnknownMethod,
        Self::BadTarget,
        Self::UnknownContentEncoding,
        Self::InflatedTooLarge,
        Self::BadGzip,
    ];

    /// The reason's name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::MalformedHead => "malformed_head",
            Self::HeadTooLarge => "head_too_large",
            Self::TooManyHeaders => "too_many_headers",
            Self::TargetTooLong => "target_too_long",
            Self::BadHost => "bad_host",
            Self::AmbiguousLength => "ambiguous_length",
            Self::BadContentLength => "bad_content_length",
            Self::BadTransferEncoding => "bad_transfer_encoding",
            Self::BadChunk => "bad_chunk",
            Self::BodyTooLarge => "body_too_large",
            Self::BadExpectation => "bad_expectation",
            Self::UnknownMethod => "unknown_method",
            Self::BadTarget => "bad_target",
            Self::UnknownContentEncoding => "unknown_content_encoding",
            Self::InflatedTooLarge => "inflated_too_large",
            Self::BadGzip => "bad_gzip",
        }
    }

    /// The status that the client gets.
    pub fn status(self) -> u16 {
        match self {
            Self::MalformedHead
            | Self::BadHost
            | Self::AmbiguousLength
            | Self::BadContentLength
            | Self::BadTransferEncoding
            | Self::BadChunk
            | Self::BadTarget
            | Self::BadGzip => 400,
            Self::UnknownMethod => 405,
            Self::BodyTooLarge | Self::InflatedTooLarge => 413,
            Self::TargetTooLong => 414,
            Self::UnknownContentEncoding => 415,
            Self::BadExpectation => 417,
            Self::HeadTooLarge | Self::TooManyHeaders => 431,
        }
    }

    /// Whether the connection ends with it: where the next request begins is unknown, or too far away.
    pub fn closes(self) -> bool {
        !matches!(
            self,
            Self::UnknownMethod
                | Self::BadTarget
                | Self::UnknownContentEncoding
                | Self::InflatedTooLarge
                | Self::BadGzip
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_place_a_name_of_its_own_and_a_client_status() {
        for (place, why) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
            assert!((400..500).contains(&why.status()), "{why}");
            let same = Refusal::ALL.into_iter().filter(|other| other.name() == why.name());
            assert_eq!(same.count(), 1, "{why}");
        }
    }
}
