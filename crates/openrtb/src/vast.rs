//! What video or audio needs of a player: said by its owner or read from its VAST, and held against the impression.
//!
//! Lists are those of AdCOM 1.0: creative subtypes of audio and video (protocols), API frameworks, linearity modes.

use crate::ad::Ad;
use crate::check::Violation;
use crate::lists::{Ints, Texts};
use crate::request::Stream;

/// Versions of VAST, with the protocol of an inline ad and of a wrapper.
const VAST_VERSIONS: [(&str, u32, u32); 7] = [
    ("1.0", 1, 4),
    ("2.0", 2, 5),
    ("3.0", 3, 6),
    ("4.0", 7, 8),
    ("4.1", 11, 12),
    ("4.2", 13, 14),
    ("4.3", 15, 16),
];
const DAAST_PROTOCOLS: (u32, u32) = (9, 10);
const VPAID_APIS: [u32; 2] = [1, 2];
const SIMID_APIS: [u32; 2] = [8, 9];
const LINEAR: u32 = 1;
const NON_LINEAR: u32 = 2;

/// What video or audio needs of a player.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSpec<'a> {
    /// Its protocol. Unknown, it only fits where any is taken.
    pub protocol: Option<u32>,
    /// The types of its media files, of which the player must play one; empty = not known, as of wrappers.
    pub mimes: Vec<&'a str>,
    /// Frameworks of which the player must offer one; empty = none is needed.
    pub apis: Vec<u32>,
    /// 1 linear, 2 not; `None` = both, or not known.
    pub linearity: Option<u32>,
    /// How long it plays, in seconds, begun ones counted.
    pub duration_s: Option<u32>,
    /// People can skip it; its bids then need the attribute [`ATTRIBUTE_SKIPPABLE`].
    pub skippable: bool,
}

/// In AdCOM's list of attributes: a video that people can skip.
pub const ATTRIBUTE_SKIPPABLE: u16 = 16;

impl<'a> StreamSpec<'a> {
    /// Reads what VAST (or DAAST) says of itself. What it does not say is not known.
    #[must_use]
    pub fn of_vast(markup: &'a str) -> StreamSpec<'a> {
        let mut spec = StreamSpec::default();
        let (mut version, mut is_wrapper, mut is_daast) = (None, false, false);
        let (mut linear, mut non_linear, mut plain_file) = (false, false, false);
        for tag in Tags(markup) {
            match tag.name {
                "VAST" => version = tag.attribute("version"),
                "DAAST" => is_daast = true,
                "Wrapper" => is_wrapper = true,
                "Linear" => {
                    linear = true;
                    spec.skippable |= tag.attribute("skipoffset").is_some();
                }
                "NonLinear" => non_linear = true,
                "Duration" => spec.duration_s = spec.duration_s.max(seconds(tag.text)),
                "MediaFile" => {
                    spec.mimes.extend(tag.attribute("type").filter(|mime| !mime.is_empty()));
                    let needed = tag.attribute("apiFramework").and_then(apis_of);
                    plain_file |= needed.is_none();
                    spec.apis.extend(needed.into_iter().flatten());
                }
                _ => {}
            }
        }
        let known = VAST_VERSIONS.iter().find(|(text, ..)| version == Some(*text));
        let protocols = known.map(|(_, inline, wrapper)| (*inline, *wrapper));
        let protocols = if is_daast { Some(DAAST_PROTOCOLS) } else { protocols };
        spec.protocol =
            protocols.map(|(inline, wrapper)| if is_wrapper { wrapper } else { inline });
        spec.linearity = match (linear, non_linear) {
            (true, false) => Some(LINEAR),
            (false, true) => Some(NON_LINEAR),
            _ => None,
        };
        // A file that needs no framework plays everywhere.
        if plain_file {
            spec.apis.clear();
        }
        spec.apis.sort_unstable();
        spec.apis.dedup();
        spec
    }
}

fn apis_of(name: &str) -> Option<[u32; 2]> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    if is("VPAID") {
        return Some(VPAID_APIS);
    }
    is("SIMID").then_some(SIMID_APIS)
}

/// Seconds of `HH:MM:SS` or `HH:MM:SS.mmm`, begun ones counted.
fn seconds(text: &str) -> Option<u32> {
    let (whole, fraction) = match text.trim().split_once('.') {
        Some((whole, fraction)) => (whole, fraction.bytes().any(|digit| digit != b'0')),
        None => (text.trim(), false),
    };
    let mut parts = whole.split(':').map(|part| part.parse::<u32>().ok());
    let (hours, minutes, rest) = (parts.next()??, parts.next()??, parts.next()??);
    let total = hours.checked_mul(3_600)?.checked_add(minutes.checked_mul(60)?)?;
    let total = total.checked_add(rest)?.checked_add(u32::from(fraction))?;
    parts.next().is_none().then_some(total)
}

/// What an [`Ad`] keeps of a [`StreamSpec`].
#[derive(Clone, Debug)]
pub(crate) struct StreamNeeds {
    protocol: Option<u32>,
    mimes: Box<[Box<str>]>,
    apis: Box<[u32]>,
    linearity: Option<u32>,
}

impl StreamNeeds {
    pub(crate) fn new(spec: &StreamSpec<'_>) -> StreamNeeds {
        StreamNeeds {
            protocol: spec.protocol,
            mimes: spec.mimes.iter().map(|mime| Box::from(*mime)).collect(),
            apis: spec.apis.as_slice().into(),
            linearity: spec.linearity,
        }
    }

    pub(crate) fn fits(&self, stream: &Stream<'_>) -> Result<(), Violation> {
        let holds = |holds, violation| if holds { Ok(()) } else { Err(violation) };
        let has = |list: Ints<'_>, number: u32| list.contains(number);
        let protocols = stream.protocols;
        let speaks = self.protocol.is_some_and(|protocol| protocols.contains(protocol));
        holds(protocols.is_empty() || speaks, Violation::Protocol)?;
        let plays = |mimes: Texts<'_>| {
            mimes.iter().any(|mime| self.mimes.iter().any(|own| own.eq_ignore_ascii_case(mime)))
        };
        let is_open = self.mimes.is_empty() || stream.mimes.is_empty();
        holds(is_open || plays(stream.mimes), Violation::Mime)?;
        // An API that is not listed is not supported (3.2.7, `api`).
        let offers = self.apis.iter().any(|api| has(stream.apis, *api));
        holds(self.apis.is_empty() || offers, Violation::Api)?;
        let takes = |own| stream.linearity().is_none_or(|asked| asked == own);
        holds(self.linearity.is_none_or(takes), Violation::Linearity)
    }
}

impl Ad {
    /// The same creative, with what it needs of a player. It is then held against `protocols`, `mimes`, `api` and
    /// `linearity` of impressions, and its bids say `protocol`, `api` and `apis`. `duration_s` of the spec counts where
    /// the creative says none.
    #[must_use]
    pub fn with_stream(mut self, spec: &StreamSpec<'_>) -> Ad {
        let mut fields = std::mem::take(&mut self.fields).into_vec();
        let mut push = |text: String| fields.extend_from_slice(text.as_bytes());
        if let Some(protocol) = spec.protocol {
            push(format!(",\"protocol\":{protocol}"));
        }
        if let [api] = spec.apis.as_slice() {
            push(format!(",\"api\":{api}"));
        }
        if !spec.apis.is_empty() {
            push(format!(",\"apis\":{:?}", spec.apis).replace(' ', ""));
        }
        if let (None, Some(seconds)) = (self.duration_s, spec.duration_s) {
            push(format!(",\"dur\":{seconds}"));
            self.duration_s = Some(seconds);
        }
        self.fields = fields.into();
        self.stream = Some(StreamNeeds::new(spec));
        self
    }

    /// Can a player show it? Of a creative that does not say what it needs ([`with_stream`](Self::with_stream)) nobody
    /// knows, and yes is the answer. Durations and attributes are not looked at here.
    ///
    /// # Errors
    /// What the player lacks.
    pub fn fits_player(&self, stream: &Stream<'_>) -> Result<(), Violation> {
        self.stream.as_ref().map_or(Ok(()), |needs| needs.fits(stream))
    }
}

/// An opening tag, and the text up to the next one.
struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    text: &'a str,
}

impl<'a> Tag<'a> {
    fn attribute(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.attributes;
        while let Some((key, after)) = rest.split_once('=') {
            let after = after.trim_start();
            let quote = after.chars().next().filter(|mark| matches!(mark, '"' | '\''))?;
            let (value, behind) = after.get(1..)?.split_once(quote)?;
            if key.trim() == name {
                return Some(value.trim());
            }
            rest = behind;
        }
        None
    }
}

/// The opening tags of XML, in order; comments and CDATA are passed over. It is no validating reader: what is no XML
/// gives fewer tags.
struct Tags<'a>(&'a str);

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        loop {
            let (_, rest) = self.0.split_once('<')?;
            let skipped = [("!--", "-->"), ("![CDATA[", "]]>")]
                .into_iter()
                .find_map(|(start, end)| Some((rest.strip_prefix(start)?, end)));
            if let Some((inside, end)) = skipped {
                self.0 = inside.split_once(end)?.1;
                continue;
            }
            let (tag, after) = rest.split_once('>')?;
            self.0 = after;
            let tag = tag.strip_suffix('/').unwrap_or(tag);
            let (name, attributes) =
                tag.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((tag, ""));
            if name.starts_with(['/', '?', '!']) {
                continue;
            }
            let text = after.split('<').next().unwrap_or("");
            return Some(Tag { name, attributes, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn vast_tells_what_it_needs() {
        let inline = r#"<?xml version="1.0"?><!-- <VAST version="2.0"> --><VAST xmlns:x="a=b" version='4.2'><Ad><InLine>
            <Creatives><Creative><Linear><Duration> 00:01:15.250 </Duration><MediaFiles>
            <MediaFile type="video/mp4" delivery="progressive"><![CDATA[https://a.example/<Wrapper>]]></MediaFile>
            <MediaFile type="application/javascript" apiFramework="VPAID"/></MediaFiles></Linear></Creative></Creatives>
            </InLine></Ad></VAST>"#;
        let expected = StreamSpec {
            protocol: Some(13),
            mimes: vec!["video/mp4", "application/javascript"],
            apis: Vec::new(),
            linearity: Some(1),
            duration_s: Some(76),
            skippable: false,
        };
        assert_eq!(StreamSpec::of_vast(inline), expected);
        let vpaid = r#"<VAST version="3.0"><MediaFile apiFramework="vpaid" type="application/javascript"/></VAST>"#;
        let spec = StreamSpec::of_vast(vpaid);
        assert_eq!((spec.protocol, spec.apis), (Some(3), vec![1, 2]));
        let wrapper = r#"<VAST version="2.0"><Ad><Wrapper></Wrapper></Ad></VAST>"#;
        assert_eq!(StreamSpec::of_vast(wrapper).protocol, Some(5));
        assert_eq!(StreamSpec::of_vast("<DAAST version=\"1.0\"/>").protocol, Some(9));
        assert_eq!(StreamSpec::of_vast("<VAST version=\"9.9\">").protocol, None);
        assert_eq!(StreamSpec::of_vast("no markup"), StreamSpec::default());
        assert!(StreamSpec::of_vast("<Linear skipoffset=\"00:00:05\">").skippable);
        assert_eq!(StreamSpec::of_vast("<NonLinear/>").linearity, Some(2));
        assert_eq!(StreamSpec::of_vast("<Linear/><NonLinear/>").linearity, None);
    }

    #[test]
    fn durations_count_begun_seconds() {
        for (text, expected) in [
            ("00:00:15", Some(15)),
            ("00:00:15.000", Some(15)),
            ("01:00:00.001", Some(3_601)),
            ("15", None),
            ("00:15", None),
            ("00:00:15:00", None),
            ("99999999:00:00", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_markup_is_read_without_a_panic(markup in "[<>a-zA-Z!/=\"' \\[\\]-]{0,60}") {
            let _ = StreamSpec::of_vast(&markup);
            let _ = StreamSpec::of_vast(&format!("<VAST {markup}"));
        }
    }
}
