//! The ids in messages: whose they are, and prefixes that keep them apart.

use std::ops::Range;

use fix::{Message, SOH, Tag};

use crate::book::{Book, State};
use crate::report::id;

/// ClOrdID and OrigClOrdID.
const ORDER_TAGS: [Tag; 2] = [11, 41];
/// Ids that a client gives what it asks for, and that come back with the answer: of lists, allocations, quotes, market data, definitions,
/// statuses, sessions, trades, mass statuses, positions, users, networks, messages and more.
const REQUEST_TAGS: [Tag; 26] = [
    66, 70, 117, 131, 262, 320, 324, 335, 391, 526, 548, 568, 571, 584, 693, 710, 755, 790, 793,
    859, 894, 909, 923, 933, 1346, 1430,
];
/// SecondaryClOrdID: an order has a better name.
const WEAK: Tag = 526;

/// An id as it stands towards the venue, with its tag; OrigClOrdID is one of ClOrdID.
pub(crate) fn key(tag: Tag, prefix: &str, value: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + prefix.len() + value.len());
    put_key(&mut key, tag, prefix, value);
    key
}

fn put_key(out: &mut Vec<u8>, tag: Tag, prefix: &str, value: &[u8]) {
    match tag {
        11 | 41 => out.extend_from_slice(b"11="),
        _ => out.extend_from_slice(format!("{tag}=").as_bytes()),
    }
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(value);
}

/// What a client's message does with ids. Its room is used again for the next message.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    keys: Vec<u8>,
    /// Ids that become the client's: where they are in `keys`.
    new: Vec<(Range<usize>, State)>,
    /// Ids of others that may stand for nobody from now on.
    doubtful: Vec<Range<usize>>,
    /// Its own ClOrdID (11) is the client's already.
    is_known: bool,
}

impl Claims {
    /// Looks at a message of a client. An error is the tag of an id that is another client's.
    pub(crate) fn look(
        &mut self,
        message: &Message<'_>,
        client: &str,
        prefix: &str,
        book: &Book,
    ) -> Result<(), Tag> {
        self.keys.clear();
        self.new.clear();
        self.doubtful.clear();
        self.is_known = false;
        let enters = enters(message.msg_type());
        // Most messages ask for nothing: this walk tells, where each tag would have to be looked for.
        let mut asks = false;
        for at in message.body_at()..message.len() {
            let Some(tag) = message.tag_at(at) else { continue };
            asks |= is_request(tag);
            let Some(value) = order_id(message, tag, at) else { continue };
            let key = self.put(tag, prefix, value);
            let owner = book.owner(&self.keys[key.clone()]);
            self.is_known |= tag == 11 && owner.is_some();
            match owner {
                Some((owner, _)) if owner != client => return Err(tag),
                // His own once more: the venue judges it.
                Some((_, state)) if state != State::Closed => {}
                // An order that is not known is from before the book, and the first client's.
                None if tag == 41 && book.owner_before().is_some_and(|first| first != client) => {
                    return Err(tag);
                }
                _ if enters && tag == 11 => self.new.push((key, State::Sent)),
                _ => {}
            }
        }
        if asks { self.look_for_requests(message, client, book) } else { Ok(()) }
    }

    fn look_for_requests(
        &mut self,
        message: &Message<'_>,
        client: &str,
        book: &Book,
    ) -> Result<(), Tag> {
        for tag in REQUEST_TAGS {
            let Some(value) = message.value(tag).filter(|value| !value.is_empty()) else {
                continue;
            };
            let key = self.put(tag, "", value);
            match book.owner(&self.keys[key.clone()]) {
                Some((owner, _)) if owner != client && tag == WEAK => self.doubtful.push(key),
                Some((owner, _)) if owner != client => return Err(tag),
                Some(_) => {}
                None => self.new.push((key, State::Asked)),
            }
        }
        Ok(())
    }

    fn put(&mut self, tag: Tag, prefix: &str, value: &[u8]) -> Range<usize> {
        let start = self.keys.len();
        put_key(&mut self.keys, tag, prefix, value);
        start..self.keys.len()
    }

    /// Whether the client has sent a message with this ClOrdID before.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Ids that become the client's, and as what.
    pub(crate) fn new_ids(&self) -> impl ExactSizeIterator<Item = (&[u8], State)> {
        self.new.iter().map(|(key, state)| (&self.keys[key.clone()], *state))
    }

    /// Ids of others that may stand for nobody from now on.
    pub(crate) fn doubtful_ids(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.doubtful.iter().map(|key| &self.keys[key.clone()])
    }
}

/// Reports whether the ClOrdID (11) of a message of this type is a new one.
pub(crate) fn enters(msg_type: &[u8]) -> bool {
    matches!(msg_type, b"D" | b"E" | b"F" | b"G" | b"s" | b"t" | b"AB" | b"AC")
}

/// Reports whether a field is one of [`REQUEST_TAGS`].
fn is_request(tag: Tag) -> bool {
    const WORDS: [u64; 23] = {
        let (mut words, mut at) = ([0; 23], 0);
        while at < REQUEST_TAGS.len() {
            words[REQUEST_TAGS[at] as usize / 64] |= 1 << (REQUEST_TAGS[at] % 64);
            at += 1;
        }
        words
    };
    WORDS.get(tag as usize / 64).is_some_and(|word| word >> (tag % 64) & 1 == 1)
}

/// The ids of orders in a message, groups included.
fn order_ids<'m>(message: &Message<'m>) -> impl Iterator<Item = (Tag, &'m [u8])> {
    let (message, body) = (*message, message.body_at());
    (body..message.len()).filter_map(move |at| {
        let tag = message.tag_at(at)?;
        Some((tag, order_id(&message, tag, at)?))
    })
}

/// The id of an order in a field, if it is one.
fn order_id<'m>(message: &Message<'m>, tag: Tag, at: usize) -> Option<&'m [u8]> {
    let is_id = ORDER_TAGS.contains(&tag);
    let is_one = |value: &&[u8]| !value.is_empty() && !value.eq_ignore_ascii_case(b"NONE");
    is_id.then(|| message.value_at(at))?.filter(is_one)
}

/// Whose a venue's message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'b> {
    /// It names an order or a request of this client.
    Client(&'b str),
    /// It names orders of several.
    Several,
    /// It names nobody's.
    Nobody,
}

/// Finds whose a venue's message is: by its orders, else by what was asked for, unless something was executed.
pub(crate) fn named<'b>(message: &Message<'_>, book: &'b Book) -> Named<'b> {
    let mut found = Named::Nobody;
    for (tag, value) in order_ids(message) {
        match (book.owner(&key(tag, "", value)), found) {
            (Some((owner, _)), Named::Client(other)) if owner != other => return Named::Several,
            (Some((owner, _)), _) => found = Named::Client(owner),
            (None, _) => {}
        }
    }
    if found != Named::Nobody || is_execution(message) {
        return found;
    }
    let keys = REQUEST_TAGS.iter().filter_map(|tag| Some(key(*tag, "", message.value(*tag)?)));
    let mut owners = keys.filter_map(|key| book.owner(&key)).map(|owner| owner.0);
    owners.next().map_or(Named::Nobody, Named::Client)
}

/// Reports whether a message says that something was executed, or is no more.
fn is_execution(message: &Message<'_>) -> bool {
    let is =
        |tag, values: &[&[u8]]| message.value(tag).is_some_and(|found| values.contains(&found));
    let some = |tag| {
        message
            .value(tag)
            .is_some_and(|value| value.iter().any(|digit| (b'1'..=b'9').contains(digit)))
    };
    message.msg_type() == b"8" && (!is(150, &[b"I"]) && !is(20, &[b"3"]) || some(32))
}

/// The orders whose state a report changes: keys, and what they become.
pub(crate) fn changes(message: &Message<'_>) -> Vec<(Vec<u8>, State)> {
    let id = |tag| id(message, tag);
    let status = message.value(39).unwrap_or_default();
    let (own, original) = match (message.msg_type(), status, message.value(150)) {
        (b"9", ..) => (State::Closed, None),
        (b"8", b"2" | b"4" | b"C", _) => (State::Closed, Some(State::Closed)),
        (b"8", b"8", _) => (State::Closed, None),
        (b"8", _, Some(b"5")) => (State::Live, Some(State::Closed)),
        (b"8", ..) => (State::Live, None),
        _ => return Vec::new(),
    };
    let own = id(11).map(|value| (key(11, "", value), own));
    let original = id(41).zip(original).map(|(value, state)| (key(11, "", value), state));
    own.into_iter().chain(original).collect()
}

/// Writes a message whose ids of orders get a prefix, or lose it if they have it.
pub(crate) fn with_ids(message: &Message<'_>, prefix: &str, put: bool) -> Vec<u8> {
    let changed = |tag: Tag, value: &[u8]| {
        match put {
            true => Some([prefix.as_bytes(), value].concat()),
            false => value.strip_prefix(prefix.as_bytes()).map(<[u8]>::to_vec),
        }
        .filter(|_| ORDER_TAGS.contains(&tag) && !value.is_empty())
    };
    let mut rest = Vec::with_capacity(message.frame().bytes().len() + 64);
    let last = message.len() - 1;
    for at in 2..last {
        let (tag, value) = (message.tag_at(at).unwrap_or(0), message.value_at(at));
        match value.and_then(|value| changed(tag, value)) {
            Some(value) if at >= message.body_at() => put_field(&mut rest, tag, &value),
            _ => rest.extend_from_slice(message.stretch(at, at + 1).unwrap_or_default()),
        }
    }
    let mut out = message.stretch(0, 1).unwrap_or_default().to_vec();
    put_field(&mut out, 9, rest.len().to_string().as_bytes());
    out.append(&mut rest);
    let sum = fix::sum(&out);
    put_field(&mut out, 10, format!("{sum:03}").as_bytes());
    out
}

pub(crate) fn put_field(out: &mut Vec<u8>, tag: Tag, value: &[u8]) {
    out.extend_from_slice(format!("{tag}=").as_bytes());
    out.extend_from_slice(value);
    out.push(SOH);
}
