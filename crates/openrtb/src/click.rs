//! Clicks: addresses that people follow from a creative, and who follows them that is no person.
//!
//! ```text
//! {base}/n/click/{id}      sends on to where the creative leads
//! {base}/n/track/{id}      a pixel: the creative leads there by itself
//! ```
//! Both have the same id, a fourth one beside those of the bid's notices.

use std::sync::Arc;

use door_http::{Method, Request, Response};

use crate::notice::{BadNotice, NOTICE_PATH, NoticeId, decode_id};

/// Bytes of an address that clicks lead to, at most.
pub const CLICK_BYTES_MAX: usize = 2_048;

/// What an address of a click answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClickKind {
    /// It sends on.
    Click,
    /// Nothing: 204.
    Track,
}

impl ClickKind {
    /// Its name in paths.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClickKind::Click => "click",
            ClickKind::Track => "track",
        }
    }

    /// The methods that its address takes, as a header line.
    pub(crate) fn allow(self) -> &'static [u8] {
        match self {
            ClickKind::Click => b"Allow: GET, HEAD\r\n",
            ClickKind::Track => b"Allow: GET, HEAD, POST\r\n",
        }
    }

    pub(crate) fn takes(self, method: Method) -> bool {
        matches!(method, Method::Get | Method::Head)
            || self == ClickKind::Track && method == Method::Post
    }

    /// Of the path of a click; with what stands behind its name.
    pub(crate) fn of(path: &str) -> Option<(ClickKind, &str)> {
        let (name, rest) = path.strip_prefix(NOTICE_PATH)?.split_once('/')?;
        let kind =
            [ClickKind::Click, ClickKind::Track].into_iter().find(|kind| kind.name() == name)?;
        Some((kind, rest))
    }
}

/// Who follows an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visitor {
    /// A person, as far as can be told.
    Person,
    /// A program that says so in its `User-Agent`, or has none.
    Crawler,
    /// A browser that loads what may be clicked next.
    Prefetch,
    /// Somebody who only asks what would be answered.
    Head,
}

impl Visitor {
    /// By the head of a request.
    #[must_use]
    pub fn of(request: &Request<'_>) -> Visitor {
        let says = |name| request.headers(name).any(|value| contains(value, b"prefetch"));
        if request.method == Method::Head {
            return Visitor::Head;
        }
        if says("Purpose") || says("Sec-Purpose") {
            return Visitor::Prefetch;
        }
        match request.header("User-Agent") {
            Some(agent) if !agent.is_empty() && !is_crawler(agent) => Visitor::Person,
            _ => Visitor::Crawler,
        }
    }
}

/// Words of programs' names, in lower case, by their first letter: what the public list `crawler-user-agents` comes down to.
fn crawlers(first: u8) -> &'static [&'static [u8]] {
    match first {
        b'a' => &[b"apache-httpclient", b"apis-google", b"archive.org_", b"axios/"],
        b'b' => &[b"bot", b"biglotron", b"bingpreview", b"brandverity"],
        b'c' => &[b"crawl", b"curl/", b"chrome-lighthouse"],
        b'd' => &[b"daumoa"],
        b'e' => &[b"embedly"],
        b'f' => &[
            b"facebookexternalhit",
            b"facebookcatalog",
            b"feedfetcher",
            b"findlink",
            b"flipboardproxy",
        ],
        b'g' => &[b"go-http-client", b"google-inspectiontool", b"google-safety", b"grub.org"],
        b'h' => &[b"headlesschrome", b"heritrix", b"httrack", b"httpunit"],
        b'i' => &[b"ia_archiver", b"ips-agent"],
        b'j' => &[b"java/"],
        b'l' => &[b"libwww"],
        b'm' => &[b"mediapartners"],
        b'n' => &[b"netcraft", b"node-fetch", b"nutch"],
        b'p' => &[b"phantomjs", b"pingdom", b"postmanruntime", b"python-"],
        b'q' => &[b"qwantify"],
        b's' => &[b"scrapy", b"siteimprove", b"skypeuripreview", b"slurp", b"spider"],
        b't' => &[b"teoma"],
        b'v' => &[b"vkshare"],
        b'w' => &[b"w3c_validator", b"wget", b"whatsapp/"],
        _ => &[],
    }
}

/// Makers of phones whose names have such a word in them.
const PHONES: [&[u8]; 1] = [b"cubot"];

fn is_crawler(agent: &[u8]) -> bool {
    (0..agent.len()).any(|at| {
        let begins = |word: &&&[u8]| begins_with(&agent[at..], word);
        let found = crawlers(agent[at].to_ascii_lowercase()).iter().find(begins);
        found.is_some_and(|word| {
            let ends = |phone: &&[u8]| {
                at + word.len() >= phone.len()
                    && begins_with(&agent[at + word.len() - phone.len()..], phone)
            };
            !PHONES.iter().any(ends)
        })
    })
}

fn begins_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word))
}

/// One click.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Click<'a> {
    /// What its address answers.
    pub kind: ClickKind,
    /// The bytes that the bid gave as its click id.
    pub id: &'a [u8],
    /// Who follows it.
    pub visitor: Visitor,
    /// What the last header says that tells from where.
    pub address: Option<&'a [u8]>,
}

impl<'a> Click<'a> {
    /// Reads what stands behind the name of a click's path; the id is decoded into `room`.
    ///
    /// # Errors
    /// It has no id.
    pub(crate) fn parse(
        kind: ClickKind,
        rest: &str,
        (request, address_header): (&Request<'a>, &str),
        room: &'a mut NoticeId,
    ) -> Result<Click<'a>, BadNotice> {
        let id = rest.split_once('/').map_or(rest, |(id, _)| id);
        let (visitor, address) = (Visitor::of(request), request.headers(address_header).last());
        Ok(Click { kind, id: decode_id(id, room)?, visitor, address })
    }
}

/// Where a click leads, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect(Arc<[u8]>);

impl Redirect {
    /// To an address of 1 to [`CLICK_BYTES_MAX`] bytes of the web, without anything that must be escaped; `None` for any other text.
    #[must_use]
    pub fn to(address: &str) -> Option<Redirect> {
        let after = |scheme: &str| {
            begins_with(address.as_bytes(), scheme.as_bytes()).then(|| &address[scheme.len()..])
        };
        let host = after("https://").or_else(|| after("http://"))?;
        let sound = address.len() <= CLICK_BYTES_MAX
            && address.bytes().all(|byte| byte.is_ascii_graphic())
            && host.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '[');
        sound.then(|| {
            Redirect(
                format!("Location: {address}\r\nCache-Control: no-store\r\n").as_bytes().into(),
            )
        })
    }
}

/// What came of a click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clicked {
    /// It is answered now.
    Now(ClickStatus),
    /// It is answered once it is sealed, or has waited too long: by the session's `answer` with [`clicked`].
    Later,
}

/// How a click is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClickStatus {
    /// 302: that way.
    To(Redirect),
    /// 204: a pixel.
    Taken,
    /// 404: none of ours.
    Unknown,
}

/// The answer to a click.
#[must_use]
pub fn clicked(status: &ClickStatus) -> Response<'_> {
    match status {
        ClickStatus::To(Redirect(headers)) => Response { headers, ..Response::empty(302) },
        ClickStatus::Taken => {
            Response { headers: b"Cache-Control: no-store\r\n", ..Response::empty(204) }
        }
        ClickStatus::Unknown => Response::empty(404),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_from_people() {
        for (agent, crawler) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
                false,
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 [FBAN/FBIOS]",
                false,
            ),
            (
                "Mozilla/5.0 (Linux; Android 11; CUBOT NOTE 20) AppleWebKit/537.36 Chrome/90 Mobile Safari/537.36",
                false,
            ),
            ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", true),
            ("Mozilla/5.0 (Linux; Android 11; CUBOT NOTE 20) (compatible; bingbot/2.0)", true),
            ("Mediapartners-Google", true),
            (
                "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
                true,
            ),
            ("WGETbot/1.0 (+http://wget.alanreed.org)", true),
            ("Wget/1.20.3 (linux-gnu)", true),
            ("Python-urllib/3.7", true),
            ("python-requests/2.22.0", true),
            ("Go-http-client/2.0", true),
            ("ia_archiver-web.archive.org", true),
            ("NutchCVS/0.7.1", true),
            ("curl/8.5.0", true),
            ("bo", false),
            ("bot", true),
        ] {
            assert_eq!(is_crawler(agent.as_bytes()), crawler, "{agent}");
        }
    }

    #[test]
    fn only_addresses_of_the_web_are_led_to() {
        let long = |len: usize| format!("https://a.example/{}", "x".repeat(len - 18));
        for (address, sound) in [
            ("https://brand.example/landing?a=1&b=%20#x", true),
            ("HTTP://brand.example", true),
            ("https://[::1]:8080/x", true),
            (&long(CLICK_BYTES_MAX), true),
            (&long(CLICK_BYTES_MAX + 1), false),
            ("", false),
            ("https://", false),
            ("https:///x", false),
            ("//brand.example", false),
            ("javascript:alert(1)", false),
            ("ftp://brand.example", false),
            ("https://brand.example/\r\nSet-Cookie: a", false),
            ("https://brand.example/a b", false),
            ("https://b\u{fc}cher.example/", false),
        ] {
            let redirect = Redirect::to(address);
            assert_eq!(redirect.is_some(), sound, "{address}");
            let status = redirect.map(ClickStatus::To);
            let expected = format!("Location: {address}\r\nCache-Control: no-store\r\n");
            let answer = status.as_ref().map(|status| clicked(status));
            assert!(answer.is_none_or(|it| it.status == 302 && it.headers == expected.as_bytes()));
        }
    }
}
