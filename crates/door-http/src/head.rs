//! The head of a request, and what it says about the rest.

use std::mem::MaybeUninit;

use httparse::Header;

use crate::accept::Accepts;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::reply::Persistence;
use crate::request::{Method, Methods};

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// After so many bytes.
    Sized(usize),
    /// After its last chunk.
    Chunked,
}

/// How the body is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    #[default]
    Identity,
    Gzip,
}

/// A whole head whose framing is sound.
pub(crate) struct Head<'h, 'b> {
    /// Its bytes, with the empty line.
    pub(crate) len: usize,
    pub(crate) framing: Framing,
    pub(crate) persistence: Persistence,
    /// The client reads answers in chunks.
    pub(crate) reads_chunks: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects: bool,
    /// What is asked, or why it is refused once the body is there.
    pub(crate) ask: Result<Ask<'b>, Refusal>,
    pub(crate) accepts_gzip: bool,
    pub(crate) headers: &'h [Header<'b>],
}

/// What a request asks for.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'b> {
    pub(crate) method: Method,
    pub(crate) path: &'b str,
    pub(crate) query: &'b str,
    pub(crate) coding: Coding,
    pub(crate) json: bool,
    pub(crate) host: Option<&'b [u8]>,
    pub(crate) from_page: bool,
}

/// Places for the headers of a request.
pub(crate) type Slots<'h, 'b> = &'h mut [MaybeUninit<Header<'b>>];

impl<'h, 'b> Head<'h, 'b> {
    /// Parses the head that begins `input`; `None` when its end is not there yet. An error is one after
    /// which nobody knows where the next request begins.
    pub(crate) fn parse(
        input: &'b [u8],
        slots: Slots<'h, 'b>,
        limits: &Limits,
        methods: Methods,
    ) -> Result<Option<Self>, Refusal> {
        let window = &input[..input.len().min(limits.head_bytes_max)];
        let mut request = httparse::Request::new(&mut []);
        let count = limits.headers_max.min(slots.len());
        let slots = &mut slots[..count];
        let len = match request.parse_with_uninit_headers(window, slots) {
            Ok(httparse::Status::Complete(len)) => len,
            Ok(httparse::Status::Partial) if input.len() < limits.head_bytes_max => {
                return Ok(None);
            }
            Ok(httparse::Status::Partial) => return Err(too_large(window)),
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooManyHeaders),
            Err(_) => return Err(Refusal::MalformedHead),
        };
        let (Some(method), Some(target), Some(version)) =
            (request.method, request.path, request.version)
        else {
            return Err(Refusal::MalformedHead);
        };
        if has_bare_newline(&window[..len]) {
            return Err(Refusal::MalformedHead);
        }
        if target.len() > limits.target_bytes_max {
            return Err(Refusal::TargetTooLong);
        }
        let fields = Fields::read(request.headers)?;
        fields.check(version)?;
        Ok(Some(Self {
            len,
            framing: fields.framing(version)?,
            persistence: fields.persistence(version),
            reads_chunks: version >= 1,
            expects: fields.expects && version >= 1,
            ask: fields.ask(methods.parse(method), target),
            accepts_gzip: fields.accepts.gzip(),
            headers: request.headers,
        }))
    }
}

fn too_large(window: &[u8]) -> Refusal {
    match window.contains(&b'\n') {
        true => Refusal::HeadTooLarge,
        false => Refusal::TargetTooLong,
    }
}

/// Whether a line ends without CR: some readers see a line end there, some do not.
fn has_bare_newline(head: &[u8]) -> bool {
    let pairs = head.iter().zip(head.iter().skip(1));
    let bare = pairs.filter(|(before, byte)| **byte == b'\n' && **before != b'\r').count();
    bare > 0 || head.first() == Some(&b'\n')
}

/// What the header lines that the door heeds say, all of them taken together.
#[derive(Default)]
struct Fields<'b> {
    hosts: usize,
    host: Option<&'b [u8]>,
    from_page: bool,
    content_length: Option<usize>,
    transfer_encodings: usize,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects: bool,
    bad_expectation: bool,
    coding: Coding,
    unknown_coding: bool,
    other_than_json: bool,
    accepts: Accepts,
}

impl<'b> Fields<'b> {
    fn read(headers: &[Header<'b>]) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        for header in headers {
            fields.add(header.name, header.value)?;
        }
        Ok(fields)
    }

    fn add(&mut self, name: &str, value: &'b [u8]) -> Result<(), Refusal> {
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        // The length first: it tells most names apart.
        match name.len() {
            4 if is("host") => {
                self.hosts += 1;
                self.host = Some(value);
            }
            6 if is("expect") => self.expect(value),
            6 if is("origin") => self.from_page = true,
            10 if is("connection") => self.connection(value),
            12 if is("content-type") => self.other_than_json |= !is_json(value),
            14 if is("content-length") => self.length(value)?,
            // What somebody typed, or opened from outside of any page, is `none`.
            14 if is("sec-fetch-site") => self.from_page |= !value.eq_ignore_ascii_case(b"none"),
            15 if is("accept-encoding") => self.accepts.add(value),
            16 if is("content-encoding") => self.content_encoding(value),
            17 if is("transfer-encoding") => {
                self.transfer_encodings += 1;
                self.chunked = value.eq_ignore_ascii_case(b"chunked");
            }
            _ => {}
        }
        Ok(())
    }

    fn expect(&mut self, value: &[u8]) {
        let known = value.eq_ignore_ascii_case(b"100-continue");
        self.expects |= known;
        self.bad_expectation |= !known;
    }

    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    /// Repeats of the same length are taken, as lines or as a list (RFC 9112, section 6.3).
    fn length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        for item in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
            let length = decimal(item).ok_or(Refusal::BadContentLength)?;
            if self.content_length.is_some_and(|before| before != length) {
                return Err(Refusal::AmbiguousLength);
            }
            self.content_length = Some(length);
        }
        Ok(())
    }

    fn content_encoding(&mut self, value: &[u8]) {
        let is = |other: &str| value.eq_ignore_ascii_case(other.as_bytes());
        if value.is_empty() || is("identity") {
            return;
        }
        // A body packed twice is nothing that anybody sends.
        self.unknown_coding |= self.coding == Coding::Gzip || !(is("gzip") || is("x-gzip"));
        self.coding = Coding::Gzip;
    }

    fn check(&self, version: u8) -> Result<(), Refusal> {
        if self.hosts > 1 || (self.hosts == 0 && version >= 1) {
            return Err(Refusal::BadHost);
        }
        if self.bad_expectation && version >= 1 {
            return Err(Refusal::BadExpectation);
        }
        Ok(())
    }

    fn framing(&self, version: u8) -> Result<Framing, Refusal> {
        match (self.transfer_encodings, self.content_length) {
            (0, length) => Ok(Framing::Sized(length.unwrap_or(0))),
            (_, Some(_)) => Err(Refusal::AmbiguousLength),
            (1, None) if self.chunked && version >= 1 => Ok(Framing::Chunked),
            (_, None) => Err(Refusal::BadTransferEncoding),
        }
    }

    fn persistence(&self, version: u8) -> Persistence {
        match (self.close, version) {
            (true, _) => Persistence::Close,
            (false, 0) if self.keep_alive => Persistence::KeepAlive,
            (false, 0) => Persistence::Close,
            (false, _) => Persistence::Open,
        }
    }

    fn ask(&self, method: Option<Method>, target: &'b str) -> Result<Ask<'b>, Refusal> {
        let method = method.ok_or(Refusal::UnknownMethod)?;
        let (path, query) = split_target(target).ok_or(Refusal::BadTarget)?;
        if self.unknown_coding {
            return Err(Refusal::UnknownContentEncoding);
        }
        // The authority of an absolute target counts, whatever `Host` says (RFC 9112, section 3.2.2).
        let host = authority(target).map(str::as_bytes).or(self.host);
        let (coding, json) = (self.coding, !self.other_than_json);
        Ok(Ask { method, path, query, coding, json, host, from_page: self.from_page })
    }
}

/// A number of digits only; one that is too large for the type is as good as any other too large one.
fn decimal(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0usize, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| usize::from(byte - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// `application/json`, `text/json` or `.../...+json`, whatever the parameters.
fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let suffix = essence.len().checked_sub(b"+json".len()).map(|at| &essence[at..]);
    essence.eq_ignore_ascii_case(b"application/json")
        || essence.eq_ignore_ascii_case(b"text/json")
        || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+json"))
}

/// Path and query of a target in origin form (`/path?query`) or absolute form (`http://host/path?query`).
fn split_target(target: &str) -> Option<(&str, &str)> {
    if target.contains('#') {
        return None;
    }
    let local = if target.starts_with('/') { target } else { local_part(target)? };
    let (path, query) = local.split_once('?').unwrap_or((local, ""));
    Some((if path.is_empty() { "/" } else { path }, query))
}

/// Whom an absolute target names.
fn authority(target: &str) -> Option<&str> {
    if target.starts_with('/') {
        return None;
    }
    let (_, rest) = target.split_once("://")?;
    rest.split(['/', '?']).next()
}

/// What follows the authority of an absolute target; empty, or from its `/` or `?` on.
fn local_part(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let authority = rest.find(['/', '?']).unwrap_or(rest.len());
    (authority > 0).then(|| &rest[authority..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_split_into_path_and_query() {
        let cases = [
            ("/", Some(("/", ""))),
            ("/a/b?c=d?e", Some(("/a/b", "c=d?e"))),
            ("/a?", Some(("/a", ""))),
            ("//a", Some(("//a", ""))),
            ("http://host/a?b", Some(("/a", "b"))),
            ("HTTPS://host:8/", Some(("/", ""))),
            ("http://host", Some(("/", ""))),
            ("http://host?q", Some(("/", "q"))),
            ("http:///a", None),
            ("ftp://host/a", None),
            ("*", None),
            ("host:80", None),
            ("a", None),
            ("/a#b", None),
        ];
        for (target, expected) in cases {
            assert_eq!(split_target(target), expected, "{target}");
        }
    }

    #[test]
    fn lengths_are_digits() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"0042"), Some(42));
        assert_eq!(decimal(b"99999999999999999999999"), Some(usize::MAX));
        for bad in ["", "+1", "-1", "1 2", "0x10", "1.0", "1e3"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn json_is_known_by_its_type() {
        for yes in ["application/json", "Application/JSON; charset=utf-8", "application/ld+json"] {
            assert!(is_json(yes.as_bytes()), "{yes}");
        }
        for no in ["", "text/plain", "application/jsonp", "application/x-protobuf", "json"] {
            assert!(!is_json(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn a_newline_needs_its_cr() {
        assert!(!has_bare_newline(b"a\r\nb\r\n\r\n"));
        for bad in ["a\nb\r\n\r\n", "a\r\n\n", "\na\r\n", "a\r\nb\n\r\n"] {
            assert!(has_bare_newline(bad.as_bytes()), "{bad:?}");
        }
    }
}
