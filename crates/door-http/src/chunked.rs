//! Chunked bodies (RFC 9112, section 7.1).
//!
//! A body is walked while it arrives, to find its end, and copied together once it is whole; one that is wanted in pieces is taken as it
//! arrives. Strict where
//! lenient readers have disagreed about where a message ends: line ends are CRLF, a size is hexadecimal
//! digits, an extension holds no control characters.

use crate::refusal::Refusal;

/// Bytes of a chunk's size line with its extensions and CRLF.
const SIZE_LINE_BYTES_MAX: usize = 256;
/// Bytes of one trailer line with its CRLF.
const TRAILER_LINE_BYTES_MAX: usize = 1024;
/// Bytes of all trailers of a body that is not kept.
const TRAILERS_BYTES_MAX: usize = 8 * 1024;
/// The shortest rest of a body after a chunk: a last chunk and an empty line.
const LAST: &[u8] = b"0\r\n\r\n";

/// How far a chunked body was walked. Offsets count from the start of its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    /// Where the body begins.
    start: usize,
    /// The next line: of a chunk, or of the trailers.
    at: usize,
    /// The last chunk is behind.
    trailers: bool,
}

/// What a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Walked {
    /// The message ends here.
    Whole { end: usize },
    /// The message has at least so many bytes; 0 = some more than now.
    More { need: usize },
}

impl Walk {
    pub(crate) fn new(start: usize) -> Self {
        Self { start, at: start, trailers: false }
    }

    /// Walks on in `message`, which has grown at its end since the last call.
    pub(crate) fn advance(
        &mut self,
        message: &[u8],
        body_bytes_max: usize,
    ) -> Result<Walked, Refusal> {
        while !self.trailers {
            let Some(chunk) = Chunk::parse(message, self.at)? else {
                return Ok(Walked::More { need: 0 });
            };
            self.trailers = chunk.is_last();
            let next = if self.trailers { chunk.data } else { chunk.next()? };
            // A body ends at least one empty line later, or one last chunk.
            let rest = if self.trailers { b"\r\n".len() } else { LAST.len() };
            let need = next.saturating_add(rest);
            if need - self.start > body_bytes_max {
                return Err(Refusal::BodyTooLarge);
            }
            if next > message.len() {
                return Ok(Walked::More { need });
            }
            if !self.trailers && &message[next - 2..next] != b"\r\n" {
                return Err(Refusal::BadChunk);
            }
            self.at = next;
        }
        self.skip_trailers(message, body_bytes_max)
    }

    fn skip_trailers(&mut self, message: &[u8], body_bytes_max: usize) -> Result<Walked, Refusal> {
        while let Some(line) = line(message, self.at, TRAILER_LINE_BYTES_MAX)? {
            let end = self.at + line.len() + b"\r\n".len();
            if end - self.start > body_bytes_max {
                return Err(Refusal::BodyTooLarge);
            }
            if line.is_empty() {
                return Ok(Walked::Whole { end });
            }
            if !is_field(line) {
                return Err(Refusal::BadChunk);
            }
            self.at = end;
        }
        Ok(Walked::More { need: 0 })
    }
}

/// A chunked body that is taken as it arrives and not kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chunks {
    /// A chunk's size line comes next.
    Size,
    /// So many bytes of a chunk come next, and its CRLF.
    Data(usize),
    /// So many bytes of trailers have come, and further ones may.
    Trailers(usize),
}

/// What was taken of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Bytes of the input that are done with.
    pub(crate) consumed: usize,
    /// The body is over.
    pub(crate) is_whole: bool,
}

impl Chunks {
    /// Appends the data that begins `input` to `into`, until that has `bytes_max` bytes.
    pub(crate) fn take(
        &mut self,
        input: &[u8],
        into: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<Taken, Refusal> {
        let mut at = 0;
        loop {
            let rest = input.get(at..).unwrap_or_default();
            let room = bytes_max.saturating_sub(into.len());
            let step = match *self {
                Chunks::Data(left) if left > 0 => {
                    let count = left.min(rest.len()).min(room);
                    into.extend_from_slice(rest.get(..count).unwrap_or_default());
                    *self = Chunks::Data(left - count);
                    (count > 0).then_some(count)
                }
                Chunks::Data(_) => match rest {
                    [b'\r', b'\n', ..] => {
                        *self = Chunks::Size;
                        Some(2)
                    }
                    [] | [b'\r'] => None,
                    _ => return Err(Refusal::BadChunk),
                },
                Chunks::Size => Chunk::parse(rest, 0)?.map(|chunk| {
                    let last = chunk.is_last();
                    *self = if last { Chunks::Trailers(0) } else { Chunks::Data(chunk.size) };
                    chunk.data
                }),
                Chunks::Trailers(before) => match trailer(rest, before)? {
                    Some((count, true)) => {
                        return Ok(Taken { consumed: at + count, is_whole: true });
                    }
                    Some((count, false)) => {
                        *self = Chunks::Trailers(before + count);
                        Some(count)
                    }
                    None => None,
                },
            };
            match step {
                Some(count) => at += count,
                None => return Ok(Taken { consumed: at, is_whole: false }),
            }
        }
    }
}

/// The trailer line that begins `rest`: its bytes, and whether it is the empty one that ends the body. `before` is what came of trailers.
fn trailer(rest: &[u8], before: usize) -> Result<Option<(usize, bool)>, Refusal> {
    let Some(line) = line(rest, 0, TRAILER_LINE_BYTES_MAX)? else { return Ok(None) };
    let count = line.len() + b"\r\n".len();
    if before + count > TRAILERS_BYTES_MAX || !(line.is_empty() || is_field(line)) {
        return Err(Refusal::BadChunk);
    }
    Ok(Some((count, line.is_empty())))
}

/// Copies the data of all chunks of the whole body that begins `body` to the end of `into`.
pub(crate) fn join(body: &[u8], into: &mut Vec<u8>) -> Result<(), Refusal> {
    let mut at = 0;
    loop {
        let chunk = Chunk::parse(body, at)?.ok_or(Refusal::BadChunk)?;
        if chunk.is_last() {
            return Ok(());
        }
        let next = chunk.next()?;
        let data = body.get(chunk.data..next - 2).ok_or(Refusal::BadChunk)?;
        into.extend_from_slice(data);
        at = next;
    }
}

/// One chunk's size line.
struct Chunk {
    /// Where its data begins.
    data: usize,
    size: usize,
}

impl Chunk {
    /// The chunk whose line begins at `at`; `None` when the line is not whole.
    fn parse(message: &[u8], at: usize) -> Result<Option<Self>, Refusal> {
        let Some(line) = line(message, at, SIZE_LINE_BYTES_MAX)? else { return Ok(None) };
        let size = size(line).ok_or(Refusal::BadChunk)?;
        Ok(Some(Self { data: at + line.len() + b"\r\n".len(), size }))
    }

    fn is_last(&self) -> bool {
        self.size == 0
    }

    /// Where the next chunk's line begins.
    fn next(&self) -> Result<usize, Refusal> {
        let end = self.data.checked_add(self.size).and_then(|end| end.checked_add(2));
        end.ok_or(Refusal::BodyTooLarge)
    }
}

/// The line that begins at `at`, without its CRLF; `None` when it is not whole.
fn line(message: &[u8], at: usize, bytes_max: usize) -> Result<Option<&[u8]>, Refusal> {
    let rest = message.get(at..).unwrap_or_default();
    let window = &rest[..rest.len().min(bytes_max)];
    match window.iter().position(|byte| *byte == b'\n') {
        Some(end) => window[..end].strip_suffix(b"\r").map(Some).ok_or(Refusal::BadChunk),
        None if rest.len() >= bytes_max => Err(Refusal::BadChunk),
        None => Ok(None),
    }
}

/// The number that begins a size line.
fn size(line: &[u8]) -> Option<usize> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, extension) = line.split_at(digits);
    if digits.is_empty() || digits.len() > 16 || !is_extension(extension) {
        return None;
    }
    usize::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Nothing, or something behind a semicolon.
fn is_extension(text: &[u8]) -> bool {
    text.is_empty() || (text.trim_ascii_start().starts_with(b";") && is_text(text))
}

/// A name, a colon, a value.
fn is_field(line: &[u8]) -> bool {
    let name = line.iter().position(|byte| *byte == b':').unwrap_or(0);
    let graphic = line[..name].iter().all(u8::is_ascii_graphic);
    name > 0 && graphic && is_text(line)
}

/// No control characters but tabs.
fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `body` as it arrives in pieces of `step` bytes, into parts of at most `bytes_max`; returns the data, and what is behind the body.
    fn take(
        body: &[u8],
        step: usize,
        bytes_max: usize,
    ) -> Result<Option<(Vec<u8>, usize)>, Refusal> {
        let (mut chunks, mut data, mut at) = (Chunks::Size, Vec::new(), 0);
        for end in (0..body.len()).step_by(step).chain([body.len()]) {
            loop {
                let mut part = Vec::new();
                let taken = chunks.take(&body[at..end.max(at)], &mut part, bytes_max)?;
                assert!(part.len() <= bytes_max);
                at += taken.consumed;
                let is_full = part.len() == bytes_max;
                data.append(&mut part);
                match (taken.is_whole, is_full) {
                    (true, _) => return Ok(Some((data, body.len() - at))),
                    (false, true) => {}
                    (false, false) => break,
                }
            }
        }
        Ok(None)
    }

    #[test]
    fn a_body_that_is_taken_as_it_arrives_is_the_same_wherever_it_is_cut() {
        let body = b"5\r\nhello\r\n00A;x=y\r\n 0123\r\n678\r\n1\r\n.\r\n0\r\nA: b\r\n\r\nGET /";
        for step in 1..=body.len() {
            for bytes_max in [1, 3, 100] {
                let whole = Some((b"hello 0123\r\n678.".to_vec(), 5));
                assert_eq!(take(body, step, bytes_max), Ok(whole), "{step} {bytes_max}");
            }
        }
        for end in 0..body.len() - b"GET /".len() {
            assert_eq!(take(&body[..end], 3, 100), Ok(None), "{end}");
        }
    }

    #[test]
    fn a_body_that_is_taken_is_as_strict_as_one_that_is_walked() {
        let long_line = [&b"1;"[..], &[b'x'; SIZE_LINE_BYTES_MAX]].concat();
        let endless =
            [&b"0\r\n"[..], &b"A: bcdefgh\r\n".repeat(TRAILERS_BYTES_MAX / 12 + 1)].concat();
        let wrong: [&[u8]; 9] = [
            b"x\r\n",
            b"\r\n",
            b"5\nhello\n",
            b"5\r\nhelloX\r\n",
            b"5\r\nhello\n",
            b"11111111111111111\r\n",
            b"0\r\nno field\r\n\r\n",
            &long_line,
            &endless,
        ];
        for body in wrong {
            for step in [1, 7, body.len()] {
                let shown = body.get(..20).unwrap_or(body).escape_ascii();
                assert_eq!(take(body, step, 100), Err(Refusal::BadChunk), "{shown}");
            }
        }
    }

    /// Walks `body` as it arrives in pieces of `step` bytes.
    fn walk(body: &[u8], step: usize, bytes_max: usize) -> Result<Walked, Refusal> {
        let mut walk = Walk::new(0);
        let mut last = Walked::More { need: 0 };
        for end in (0..body.len()).step_by(step).chain([body.len()]) {
            last = walk.advance(&body[..end], bytes_max)?;
            if matches!(last, Walked::Whole { .. }) {
                break;
            }
        }
        Ok(last)
    }

    #[test]
    fn bodies_end_where_they_end() {
        let cases: [(&[u8], &[u8]); 6] = [
            (b"0\r\n\r\n", b""),
            (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
            (b"1\r\na\r\n00b\r\nbcdefghijkl\r\n000\r\n\r\n", b"abcdefghijkl"),
            (b"A;name=\"value\";x\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
            (b"1 ; spaced\r\n\n\r\n0\r\nDigest: x\r\nEmpty:\r\n\r\n", b"\n"),
            (b"2\r\n\r\n\r\n0;last\r\n\r\n", b"\r\n"),
        ];
        for (body, data) in cases {
            let mut message = body.to_vec();
            message.extend_from_slice(b"GET / HTTP/1.1");
            for step in 1..message.len() {
                let whole = Ok(Walked::Whole { end: body.len() });
                assert_eq!(walk(&message, step, 1000), whole, "{}", body.escape_ascii());
            }
            let mut joined = Vec::new();
            join(&message, &mut joined).unwrap();
            assert_eq!(joined, data);
        }
    }

    #[test]
    fn what_readers_could_disagree_about_is_refused() {
        let cases: [&[u8]; 18] = [
            b"\r\n",
            b"5\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n0\r\n\r\n",
            b"5 \r\nhello\r\n0\r\n\r\n",
            b"+5\r\nhello\r\n0\r\n\r\n",
            b"-1\r\n",
            b"0x5\r\nhello\r\n0\r\n\r\n",
            b"5;a\nb\r\nhello\r\n",
            b"5;a\rb\r\nhello\r\n",
            b"5;\0\r\nhello\r\n",
            b"5,6\r\nhello\r\n",
            b"g\r\n",
            b"11111111111111111\r\n",
            b"5\r\nhelloX\r\n",
            b"5\r\nhello\n\n0\r\n\r\n",
            b"0\r\nno field\r\n\r\n",
            b"0\r\n: no name\r\n\r\n",
            b"0\r\n folded: line\r\n\r\n",
        ];
        for body in cases {
            for step in 1..=body.len() {
                let refused = walk(body, step, 1000);
                assert_eq!(refused, Err(Refusal::BadChunk), "{}", body.escape_ascii());
            }
        }
    }

    #[test]
    fn sizes_are_bounded_before_they_are_read() {
        let too_large = Err(Refusal::BodyTooLarge);
        assert_eq!(walk(b"3e8\r\n", 1, 1000), too_large);
        assert_eq!(walk(b"ffffffffffffffff\r\n", 1, 1000), too_large);
        assert_eq!(walk(b"5\r\nhello\r\n0\r\n\r\n", 1, 15), Ok(Walked::Whole { end: 15 }));
        assert_eq!(walk(b"5\r\nhello\r\n0\r\n\r\n", 1, 14), too_large);
        assert_eq!(walk(b"0\r\nA: 1\r\n\r\n", 1, 10), too_large);
        assert_eq!(walk(&[b'0'; 300], 7, 1000), Err(Refusal::BadChunk));
        assert_eq!(walk(b"8\r\n1", 4, 1000), Ok(Walked::More { need: 3 + 8 + 2 + 5 }));
    }
}
