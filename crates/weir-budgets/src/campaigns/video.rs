//! What a campaign wants of the players that show its videos: the video part of the targeting.
//!
//! Numbers are those of AdCOM 1.0: plcmt subtypes, placement subtypes, playback methods.

use openrtb::{ATTRIBUTE_SKIPPABLE, Stream, StreamSpec};
use serde_json::Value;

use super::Lists;
use super::fields::{Object, boolean, word};
use super::read::{lists, one};

pub(super) const VIDEO_FIELDS: [&str; 5] =
    ["plcmt", "placement", "startdelay", "playbackmethod", "skip"];

/// The words of `plcmt` and their numbers.
pub(super) const PLCMTS: [(&str, u8); 4] =
    [("instream", 1), ("accompanying", 2), ("interstitial", 3), ("standalone", 4)];

/// The words of `placement`, which exchanges sent before `plcmt`.
pub(super) const PLACEMENTS: [(&str, u8); 5] =
    [("instream", 1), ("inbanner", 2), ("inarticle", 3), ("infeed", 4), ("floating", 5)];

/// The words of `startdelay`.
pub(super) const STARTS: [(&str, Start); 3] =
    [("pre-roll", Start::PreRoll), ("mid-roll", Start::MidRoll), ("post-roll", Start::PostRoll)];

/// The largest number of a playback method.
const PLAYBACK_METHOD_MAX: u8 = 7;

/// Where in the content a video starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Start {
    /// Before it.
    PreRoll,
    /// Within it.
    MidRoll,
    /// After it.
    PostRoll,
}

impl Start {
    /// What a `startdelay` says: seconds into the content, 0 before it, -1 within it, -2 after it. Others are unknown.
    fn of(start_delay_s: i64) -> Option<Start> {
        match start_delay_s {
            0 => Some(Start::PreRoll),
            -1 | 1.. => Some(Start::MidRoll),
            -2 => Some(Start::PostRoll),
            _ => None,
        }
    }
}

/// What a campaign wants of the players that show its videos. The default is all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VideoTargeting {
    /// `plcmt`.
    pub plcmt: Lists<u8>,
    /// `placement`.
    pub placement: Lists<u8>,
    /// `startdelay`.
    pub start: Lists<Start>,
    /// `playbackmethod`.
    pub playback_methods: Lists<u8>,
    /// `skip`: only where people can skip, or only where they cannot.
    pub skip: Option<bool>,
}

impl VideoTargeting {
    /// Does a player agree? One that does not say a property agrees with a list of what is not wanted, and with nothing
    /// that is wanted.
    #[must_use]
    pub fn admits(&self, player: &Stream<'_>) -> bool {
        let small = |number: Option<u32>| number.and_then(|number| u8::try_from(number).ok());
        self.plcmt.admit(|| small(player.plcmt()).into_iter())
            && self.placement.admit(|| small(player.placement()).into_iter())
            && self.start.admit(|| player.start_delay_s().and_then(Start::of).into_iter())
            && self.playback_methods.admit(|| {
                player.playback_methods().iter().filter_map(|method| u8::try_from(method).ok())
            })
            && (self.skip.is_none() || self.skip == player.skippable())
    }
}

impl<T: PartialEq> Lists<T> {
    /// Is at least one of `any` there, and none of `none`? `there` is asked only where something is wanted or not.
    fn admit<I: Iterator<Item = T>>(&self, there: impl Fn() -> I) -> bool {
        (self.any.is_empty() || there().any(|one| self.any.contains(&one)))
            && (self.none.is_empty() || !there().any(|one| self.none.contains(&one)))
    }
}

pub(super) fn video(object: &mut Object<'_, '_>) -> VideoTargeting {
    VideoTargeting {
        plcmt: lists(object, "plcmt", one(numbered(&PLCMTS))),
        placement: lists(object, "placement", one(numbered(&PLACEMENTS))),
        start: lists(object, "startdelay", one(|value: &Value| word(value, &STARTS))),
        playback_methods: lists(object, "playbackmethod", one(playback_method)),
        skip: object.optional("skip", boolean),
    }
}

/// Adds to a video's attributes that people can skip it, where its VAST says so.
pub(super) fn add_skippable(markup: &str, attributes: &mut Vec<u16>) {
    let skippable = StreamSpec::of_vast(markup).skippable;
    if skippable && !attributes.contains(&ATTRIBUTE_SKIPPABLE) {
        attributes.push(ATTRIBUTE_SKIPPABLE);
    }
}

/// A reader of a word, or of the number that it stands for.
fn numbered(words: &'static [(&str, u8)]) -> impl Fn(&Value) -> Result<u8, String> {
    move |value| {
        let number = value.as_u64().and_then(|number| u8::try_from(number).ok());
        let known = number.filter(|number| words.iter().any(|(_, one)| one == number));
        known.map_or_else(
            || {
                let last = words.len();
                word(value, words).map_err(|text| format!("{text}, or a number from 1 to {last}"))
            },
            Ok,
        )
    }
}

fn playback_method(value: &Value) -> Result<u8, String> {
    super::read::number(value, 1..=PLAYBACK_METHOD_MAX)
}

#[cfg(test)]
mod tests {
    use openrtb::{ReadLimits, Reader};
    use serde_json::{Map, json};

    use super::super::fields::Faults;
    use super::*;

    fn read(fields: &Value) -> Result<VideoTargeting, Vec<String>> {
        let mut faults = Faults::default();
        let fields: &Map<String, Value> = fields.as_object().unwrap();
        let video = video(&mut Object::new(fields, &[&VIDEO_FIELDS], &mut faults));
        if faults.is_empty() { Ok(video) } else { Err(faults.into_texts()) }
    }

    fn admits(wanted: &Value, player: &Value) -> bool {
        let body = json!({"id": "1", "imp": [{"id": "1", "video": player}]});
        let wanted = read(wanted).unwrap();
        let mut body = body.to_string().into_bytes();
        let limits = ReadLimits::default();
        let admits = Reader::default().read(&mut body, &limits, |request| {
            wanted.admits(request.imps[0].video.as_ref().unwrap())
        });
        admits.unwrap()
    }

    #[test]
    fn players_agree_by_table() {
        for (wanted, player, expected) in [
            (json!({}), json!({}), true),
            (json!({"plcmt": {"any": ["instream"]}}), json!({"plcmt": 1}), true),
            (json!({"plcmt": {"any": ["instream"]}}), json!({"plcmt": 2}), false),
            (json!({"plcmt": {"any": ["instream"]}}), json!({}), false),
            // What `placement` says is no `plcmt`: before, "in stream" was anything that plays.
            (json!({"plcmt": {"any": ["instream"]}}), json!({"placement": 1}), false),
            (json!({"plcmt": {"none": ["standalone"]}}), json!({"plcmt": 4}), false),
            (json!({"plcmt": {"none": ["standalone"]}}), json!({}), true),
            (json!({"plcmt": {"none": [4]}}), json!({"plcmt": "4"}), false),
            (json!({"placement": {"any": ["infeed", 1]}}), json!({"placement": 4}), true),
            (json!({"placement": {"none": ["floating"]}}), json!({"placement": 5}), false),
            (json!({"placement": {"any": [1]}}), json!({"placement": 257}), false),
            (json!({"startdelay": {"any": ["pre-roll"]}}), json!({"startdelay": 0}), true),
            (json!({"startdelay": {"any": ["pre-roll"]}}), json!({"startdelay": 12}), false),
            (json!({"startdelay": {"any": ["mid-roll"]}}), json!({"startdelay": 12}), true),
            (json!({"startdelay": {"any": ["mid-roll"]}}), json!({"startdelay": -1}), true),
            (json!({"startdelay": {"none": ["post-roll"]}}), json!({"startdelay": -2}), false),
            (json!({"startdelay": {"any": ["post-roll"]}}), json!({"startdelay": -3}), false),
            (json!({"playbackmethod": {"none": [1]}}), json!({"playbackmethod": [2, 1]}), false),
            (json!({"playbackmethod": {"any": [3]}}), json!({"playbackmethod": [2, 3]}), true),
            (json!({"skip": true}), json!({"skip": 1}), true),
            (json!({"skip": true}), json!({}), false),
            (json!({"skip": false}), json!({"skip": 0}), true),
            (json!({"skip": false}), json!({"skip": 1}), false),
            (json!({"skip": true, "plcmt": {"any": [1]}}), json!({"skip": 1, "plcmt": 3}), false),
        ] {
            assert_eq!(admits(&wanted, &player), expected, "{wanted} {player}");
        }
    }

    #[test]
    fn what_is_no_such_property_is_told() {
        let wanted = json!({"plcmt": {"any": ["in-stream", 5]}, "placement": {"none": [0]},
            "startdelay": {"any": [0]}, "playbackmethod": {"any": [8]}, "skip": 1, "size": {}});
        let told = read(&wanted).unwrap_err();
        for expected in [
            "plcmt.any[0]: found \"in-stream\", expected \"instream\", \"accompanying\"",
            "plcmt.any[1]: found 5",
            "placement.none[0]: found 0",
            "startdelay.any[0]: found 0, expected \"pre-roll\"",
            "playbackmethod.any[0]: found 8, expected a whole number from 1 to 7",
            "skip: found 1",
            "size: there is no such field",
        ] {
            assert!(told.iter().any(|one| one.starts_with(expected)), "{expected} in {told:#?}");
        }
        assert_eq!(told.len(), 7, "{told:#?}");
    }
}
