//! Encrypting, decrypting, rewrapping: one or many.

use vault::{BlockUsed, Change, KeyKind, KeyName, KeyPolicy, NamedKey, reserve_wiped};

use crate::answer::{Halt, OneVersion, Pen, Refusal};
use crate::base64::Base64;
use crate::body::{BatchItem, Fields, ItemText, Member};
use crate::door::{Call, Gate, Room};
use crate::json::write_text;
use crate::scope::{Act, Verb};
use crate::work::{ItemFault, PART, Place, Work, sealing};

/// How often a block of messages is asked for: other threads may use it up before.
const BLOCKS_MAX: usize = 64;
/// Bytes of an answer's item besides its text and its reference, more than any has.
const ITEM_BYTES: usize = 256;
/// The same for nearly all items.
const ITEM_BYTES_USUAL: usize = 128;
/// Bytes around all results, more than any answer has.
const FRAME_BYTES: usize = 1024;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crypt {
    Encrypt,
    Decrypt,
    Rewrap,
}

impl Crypt {
    fn verb(self) -> Verb {
        match self {
            Crypt::Encrypt => Verb::Encrypt,
            Crypt::Decrypt => Verb::Decrypt,
            Crypt::Rewrap => Verb::Rewrap,
        }
    }

    fn text(self) -> ItemText {
        match self {
            Crypt::Encrypt => ItemText::Plaintext,
            Crypt::Decrypt => ItemText::Ciphertext,
            Crypt::Rewrap => ItemText::Rewrapped,
        }
    }
}

/// How a batch went.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    done: u64,
    users: u64,
    internal: u64,
    version: OneVersion,
}

impl<G: Gate> Call<'_, G> {
    pub(crate) fn crypt(&mut self, what: Crypt, name: &str) -> Result<u16, Halt> {
        let name = self.enter(what.verb(), name)?;
        let fields = self.fields(Some(what.text()))?;
        let is_batch = fields.is_batch(&self.room.batch)?;
        if !is_batch {
            fields.one(what.text(), &mut self.room.batch)?;
        }
        self.room.note.items = u64::try_from(self.room.batch.items.len()).unwrap_or(u64::MAX);
        self.check_contexts()?;
        self.find(what, &name, &fields)?;
        if what != Crypt::Decrypt {
            self.reserve(&name)?;
        }
        if is_batch { self.many(what, &name, &fields) } else { self.single(what, &name, &fields) }
    }

    /// A context stands in all items or in none.
    fn check_contexts(&self) -> Result<(), Halt> {
        let items = &self.room.batch.items;
        let first = items.first().is_some_and(BatchItem::has_context);
        if items.iter().any(|item| item.has_context() != first) {
            let text = "context should be set either in all the request blocks or in none";
            return Err(Refusal::bad(text).into());
        }
        Ok(())
    }

    /// Finds the key, or makes it where that is allowed.
    fn find(&mut self, what: Crypt, name: &KeyName, fields: &Fields<'_>) -> Result<(), Halt> {
        if let Some(key) = self.gate.keys().get(name.as_str()) {
            let kind = key.policy().kind;
            if key.policy().soft_deleted {
                return Err(Refusal::soft_deleted().into());
            }
            if kind.sealing().is_some() {
                return Ok(());
            }
            return Err(Refusal::seals_nothing(what == Crypt::Encrypt, kind).into());
        }
        if what != Crypt::Encrypt || !self.gate.keys().is_upsert_allowed() {
            return Err(Refusal::bad("encryption key not found").into());
        }
        if !self.caller.scopes.allows(Verb::Admin, name.as_str()) {
            return Err(Refusal::denied().into());
        }
        let kind = self.kind_of(fields)?;
        if kind.sealing().is_none() {
            return Err(Refusal::bad(format!("unknown key type {kind}")).into());
        }
        let derived = self.room.batch.items.first().is_some_and(BatchItem::has_context);
        let convergent = fields.flag(Member::Convergent)?.unwrap_or(false);
        if convergent && !derived {
            let text =
                "convergent encryption requires derivation to be enabled, so context is required";
            return Err(Refusal::bad(text).into());
        }
        let policy = KeyPolicy { derived, convergent, ..KeyPolicy::new(kind) };
        let is_made = self.change(Change::Create { name: name.clone(), policy })?;
        self.room.note.act = is_made.then_some(Act::Create);
        Ok(())
    }

    /// Takes the messages of the batch out of the counts of the versions that will seal them.
    pub(crate) fn reserve(&mut self, name: &KeyName) -> Result<(), Halt> {
        let Some(key) = self.gate.keys().get(name.as_str()) else { return Ok(()) };
        for (version, messages) in messages_of(key, &self.room.batch.items) {
            self.reserve_of(name, version, messages)?;
        }
        Ok(())
    }

    fn reserve_of(&mut self, name: &KeyName, version: u32, messages: u64) -> Result<(), Halt> {
        for _ in 0..BLOCKS_MAX {
            let key = self.gate.keys().get(name.as_str());
            let Some(found) = key.and_then(|key| key.versions().get(version)) else {
                return Ok(());
            };
            match found.count().take(messages) {
                Ok(()) => return Ok(()),
                Err(BlockUsed) => {
                    let name = name.clone();
                    self.change(Change::Reserve { name, version, messages })?;
                }
            }
        }
        Err(Refusal::new(503, "too many messages at once under this key: ask again").into())
    }

    fn single(&mut self, what: Crypt, name: &KeyName, fields: &Fields<'_>) -> Result<u16, Halt> {
        let Room { random, base64, batch, work, out, note, .. } = &mut *self.room;
        let key = found(self.gate.keys().get(name.as_str()))?;
        run(what, fields.body, &batch.items, key, work, base64, random);
        let Some(place) = work.places.first() else { return Err(Refusal::missing().into()) };
        if let Err(why) = place.outcome {
            return Err(match why.is_users() {
                true => Refusal::bad(why.to_string()).into(),
                false => Refusal::framed(500, why).into(),
            });
        }
        out.reserve(place.plain.len().max(place.sealed.len()) * 2 + ITEM_BYTES * 2);
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{");
        Around::default().result(&mut pen, what, place, work, base64);
        pen.raw("}");
        pen.close_frame(&note.warnings);
        note.version = place.version;
        note.is_secret |= what == Crypt::Decrypt;
        Ok(200)
    }

    fn many(&mut self, what: Crypt, name: &KeyName, fields: &Fields<'_>) -> Result<u16, Halt> {
        let partial = fields.number(Member::PartialCode)?;
        let Room { random, base64, batch, work, out, note, .. } = &mut *self.room;
        let key = found(self.gate.keys().get(name.as_str()))?;
        note.is_secret |= what == Crypt::Decrypt;
        reserve_wiped(out, usual_len(what, fields.body.len(), batch.items.len()));
        let (mut tally, mut around) = (Tally::default(), Around::default());
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{\"batch_results\":[");
        for (part, items) in batch.items.chunks(PART).enumerate() {
            run(what, fields.body, items, key, work, base64, random);
            // No plaintext is left behind where an answer has to grow.
            reserve_wiped(pen.out, longest_len(items));
            let room = pen.out.capacity();
            for (at, (place, item)) in work.places.iter().zip(items).enumerate() {
                pen.raw(if part + at > 0 { ",{" } else { "{" });
                match place.outcome {
                    Ok(()) => {
                        tally.done += 1;
                        tally.version.add(place.version);
                        around.result(&mut pen, what, place, work, base64);
                    }
                    Err(why) => {
                        let count =
                            if why.is_users() { &mut tally.users } else { &mut tally.internal };
                        *count += 1;
                        failure(&mut pen, what, why);
                    }
                }
                if item.reference.is_some() {
                    pen.raw(",\"reference\":\"");
                    pen.raw(item.reference.raw(fields.body));
                    pen.raw("\"}");
                } else {
                    pen.raw(",\"reference\":\"\"}");
                }
            }
            debug_assert_eq!(pen.out.capacity(), room, "a part has room for its results");
        }
        pen.raw("]}");
        note.failed = tally.users + tally.internal;
        note.version = tally.version.get();
        let status =
            if what == Crypt::Rewrap { 200 } else { tally.status(partial, &mut note.warnings) };
        pen.close_frame(&note.warnings);
        Ok(status)
    }
}

impl Tally {
    /// Returns the status of a batch: a fault of the client wins over one of ours, and what the client asked for over both.
    fn status(self, partial: Option<i64>, warnings: &mut Vec<String>) -> u16 {
        let own = match self {
            Tally { users: 0, internal: 0, .. } => return 200,
            Tally { users: 0, .. } => 500,
            _ => 400,
        };
        let Some(asked) = partial.filter(|_| self.done > 0) else { return own };
        // A status that ends no answer or has no body cannot be sent with these results.
        match u16::try_from(asked) {
            Ok(asked @ (200..=203 | 205..=303 | 305..=599)) => asked,
            _ => {
                warnings.push(format!(
                    "invalid HTTP response code override from partial_failure_response_code, reverting to {own}"
                ));
                own
            }
        }
    }
}

/// Returns the bytes that the answer to a batch has at most where its items are as usual, with room for its longest part.
fn usual_len(what: Crypt, body: usize, items: usize) -> usize {
    // A sealed text is longer than its plaintext by what is around it, an opened one shorter.
    let texts = if what == Crypt::Decrypt { body } else { body.saturating_mul(4) / 3 };
    let around = if what == Crypt::Decrypt { 0 } else { ITEM_BYTES_USUAL };
    let longest = items.min(PART) * ITEM_BYTES + FRAME_BYTES;
    texts.saturating_add(items.saturating_mul(around)).saturating_add(longest)
}

/// Returns the bytes that the results of a part have at most, with what ends the answer.
fn longest_len(items: &[BatchItem]) -> usize {
    let len = |item: &BatchItem| item.text.len() * 2 + item.reference.len() + ITEM_BYTES;
    items.iter().map(len).sum::<usize>() + FRAME_BYTES
}

fn found(key: Option<&NamedKey>) -> Result<&NamedKey, Halt> {
    key.ok_or_else(|| Refusal::bad("encryption key not found").into())
}

/// Returns how many messages of each version items will make; what may not seal, and fails later alone, is none.
fn messages_of(key: &NamedKey, items: &[BatchItem]) -> Vec<(u32, u64)> {
    let mut wanted: Vec<(u32, u64)> = Vec::new();
    let (mut last, mut number) = (None, None);
    for item in items {
        if last != Some(item.version) {
            last = Some(item.version);
            number = sealing(key, item.version).ok();
        }
        let Some(number) = number else { continue };
        match wanted.iter_mut().find(|(version, _)| *version == number) {
            Some((_, count)) => *count += 1,
            None => wanted.push((number, 1)),
        }
    }
    wanted
}

fn run(
    what: Crypt,
    body: &str,
    items: &[BatchItem],
    key: &NamedKey,
    work: &mut Work,
    base64: &Base64,
    random: &mut vault::Drbg,
) {
    if what == Crypt::Encrypt {
        work.take_plain(body, items, key, base64);
    } else {
        work.take_sealed(body, items, key, base64);
        work.open(key);
    }
    if what == Crypt::Rewrap {
        work.aim(items, key);
    }
    if what != Crypt::Decrypt {
        work.seal(key, random);
    }
    work.write_together(what == Crypt::Decrypt, base64);
}

/// What stands around a result.
#[derive(Default)]
struct Around {
    version: Option<u32>,
    before: String,
    behind: String,
}

impl Around {
    /// Makes it that of a version, if it is another's.
    #[inline]
    fn of(&mut self, what: Crypt, version: u32) {
        if self.version == Some(version) {
            return;
        }
        (self.before, self.behind) = match what {
            Crypt::Decrypt => ("\"plaintext\":\"".into(), "\"".into()),
            _ => (
                format!("\"ciphertext\":\"vault:v{version}:"),
                format!("\",\"key_version\":{version}"),
            ),
        };
        self.version = Some(version);
    }

    #[inline]
    fn result(
        &mut self,
        pen: &mut Pen<'_>,
        what: Crypt,
        place: &Place,
        work: &Work,
        base64: &Base64,
    ) {
        self.of(what, if what == Crypt::Decrypt { 0 } else { place.version });
        pen.raw(&self.before);
        work.write(place, what == Crypt::Decrypt, base64, pen.out);
        pen.raw(&self.behind);
    }
}

fn failure(pen: &mut Pen<'_>, what: Crypt, why: ItemFault) {
    if what == Crypt::Decrypt {
        pen.raw("\"plaintext\":\"\",");
    }
    pen.raw("\"error\":");
    write_text(&why.to_string(), pen.out);
}

/// Returns the type of a name. What is known elsewhere and not offered says so.
pub(crate) fn kind_named(name: &str, key_bytes: u16) -> Result<KeyKind, Halt> {
    if name == vault::HmacKey::NAME {
        return Ok(KeyKind::Hmac { key_bytes });
    }
    name.parse().map(KeyKind::Sealing).map_err(|_| {
        Refusal::bad(format!(
            "unknown key type {name}: offered are aes256-gcm96, aes128-gcm96, aes256-gcm-siv, aes256-cbc-cmac, aes256-cbc-hmac-sha256 and hmac; \
             signing, asymmetric and ChaCha types are not"
        ))
        .into()
    })
}
