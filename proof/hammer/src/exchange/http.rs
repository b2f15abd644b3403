//! The client's half of HTTP/1.1: a reader of responses.

use crate::pipe::MESSAGE_LEN_MAX;

/// Longest body of a response, in bytes.
const BODY_LEN_MAX: usize = MESSAGE_LEN_MAX as usize;

/// Header lines of a response at most.
const HEADERS_MAX: usize = 64;
/// A whole response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response<'a> {
    /// Status code.
    pub status: u16,
    /// The body, put together where it came in chunks.
    pub body: &'a [u8],
    /// The server closes the connection after it.
    pub closes: bool,
    /// Bytes it took of the input.
    pub len: usize,
}

/// How the end of a body is known.
enum Ends {
    At(usize),
    Chunked,
}

/// Reads the first response of `input`; `None` while it is not whole. `scratch` is used for bodies in chunks.
///
/// # Errors
/// In words: this is no response that the reader understands.
pub(crate) fn response<'a>(
    input: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<Option<Response<'a>>, String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(input).map_err(|e| format!("no HTTP response: {e}"))?;
    let httparse::Status::Complete(head_len) = parsed else { return Ok(None) };
    let status = head.code.unwrap_or(0);
    let (ends, closes) = framing(status, &head)?;
    let rest = &input[head_len..];
    match ends {
        Ends::At(len) if rest.len() < len => Ok(None),
        Ends::At(len) => {
            Ok(Some(Response { status, body: &rest[..len], closes, len: head_len + len }))
        }
        Ends::Chunked => {
            scratch.clear();
            let Some(len) = unchunk(rest, scratch)? else { return Ok(None) };
            Ok(Some(Response { status, body: scratch, closes, len: head_len + len }))
        }
    }
}

fn framing(status: u16, head: &httparse::Response<'_, '_>) -> Result<(Ends, bool), String> {
    let (mut ends, mut closes) = (None, head.version == Some(0));
    for header in &*head.headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let value = || std::str::from_utf8(header.value).unwrap_or("").trim();
        if is("content-length") {
            let len = value().parse().ok().filter(|len| *len <= BODY_LEN_MAX);
            ends = Some(Ends::At(len.ok_or_else(|| format!("Content-Length '{}'", value()))?));
        } else if is("transfer-encoding") {
            ends = Some(Ends::Chunked);
        } else if is("connection") {
            closes |= value().eq_ignore_ascii_case("close");
        } else if is("content-encoding") && !value().eq_ignore_ascii_case("identity") {
            return Err(format!("Content-Encoding '{}', which was not asked for", value()));
        }
    }
    match ends {
        _ if matches!(status, 100..=199 | 204 | 304) => Ok((Ends::At(0), closes)),
        Some(ends) => Ok((ends, closes)),
        None => Err(format!("a {status} response that does not tell its length")),
    }
}

/// Puts the chunks together; returns the bytes they took, `None` while they are not whole.
fn unchunk(input: &[u8], body: &mut Vec<u8>) -> Result<Option<usize>, String> {
    let mut used = 0;
    loop {
        let size = httparse::parse_chunk_size(&input[used..]).map_err(|_| "a bad chunk size")?;
        let httparse::Status::Complete((line, len)) = size else { return Ok(None) };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > BODY_LEN_MAX - body.len() {
            return Err(format!("a body of more than {BODY_LEN_MAX} bytes"));
        }
        used += line;
        let Some(chunk) = input.get(used..used + len + 2) else { return Ok(None) };
        if &chunk[len..] != b"\r\n" {
            return Err("a chunk without its end (or trailers, which are not read)".into());
        }
        body.extend_from_slice(&chunk[..len]);
        used += len + 2;
        if len == 0 {
            return Ok(Some(used));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX: y\r\n\r\nhello\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\n\r\n\
        HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn responses_follow_each_other() {
        let (mut rest, mut scratch, mut seen) = (STREAM, Vec::new(), Vec::new());
        while let Some(r) = response(rest, &mut scratch).unwrap() {
            seen.push((r.status, String::from_utf8(r.body.to_vec()).unwrap(), r.closes));
            rest = &rest[r.len..];
        }
        let expected =
            [(204, "", false), (200, "hello", false), (200, "abcde", false), (400, "", true)];
        assert_eq!(seen, expected.map(|(status, body, closes)| (status, body.to_owned(), closes)));
    }

    #[test]
    fn a_part_of_a_response_is_none() {
        let mut scratch = Vec::new();
        let first = b"HTTP/1.1 204 No Content\r\n\r\n".len();
        for cut in 0..first {
            assert_eq!(response(&STREAM[..cut], &mut scratch), Ok(None), "{cut}");
        }
        let chunked = &STREAM[STREAM.len() - 145..];
        let begin = chunked.windows(5).position(|w| w == b"HTTP/").unwrap();
        let whole = response(&chunked[begin..], &mut scratch).unwrap().unwrap().len;
        for cut in 0..whole {
            assert_eq!(response(&chunked[begin..begin + cut], &mut scratch), Ok(None), "{cut}");
        }
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for wrong in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        ] {
            assert!(
                response(wrong, &mut Vec::new()).is_err(),
                "{}",
                String::from_utf8_lossy(wrong)
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0..STREAM.len()) {
            let mut stream = STREAM.to_vec();
            stream.splice(at..at, bytes);
            let mut rest = &stream[..];
            let mut scratch = Vec::new();
            while let Ok(Some(r)) = response(rest, &mut scratch) {
                prop_assert!(r.len > 0);
                rest = &rest[r.len..];
            }
        }
    }
}
