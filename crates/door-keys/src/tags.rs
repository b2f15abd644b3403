//! Tags, hashes, random bytes, data keys.

use vault::{HashAlgorithm, KeyVersion, NamedKey, TextError, VersionError, split_text};
use zeroize::Zeroizing;

use crate::answer::{Halt, OneVersion, Pen, Refusal};
use crate::base64::Base64;
use crate::body::{BatchItem, Fields, ItemText, Member};
use crate::door::{Call, Gate, Room};
use crate::json::write_text;
use crate::scope::Verb;
use crate::work::{ItemFault, sealing};

/// Random bytes that one call gets at most, as in Transit.
const RANDOM_MAX: i64 = 128 << 10;

impl<G: Gate> Call<'_, G> {
    pub(crate) fn hmac(&mut self, name: &str, algorithm: Option<&str>) -> Result<u16, Halt> {
        self.tags(Verb::Hmac, name, algorithm)
    }

    pub(crate) fn verify(&mut self, name: &str, algorithm: Option<&str>) -> Result<u16, Halt> {
        self.tags(Verb::Verify, name, algorithm)
    }

    fn tags(&mut self, verb: Verb, name: &str, algorithm: Option<&str>) -> Result<u16, Halt> {
        let name = self.enter(verb, name)?;
        let fields = self.fields(Some(ItemText::Input))?;
        let is_batch = fields.is_batch(&self.room.batch)?;
        let other = (verb == Verb::Verify).then_some(Member::HashAlgorithm);
        let algorithm = algorithm_of(&fields, algorithm, other)?;
        let version = fields.number(Member::KeyVersion)?.unwrap_or(0);
        if !is_batch {
            fields.one(ItemText::Input, &mut self.room.batch)?;
        }
        let Room { random, base64, batch, out, note, .. } = &mut *self.room;
        note.items = u64::try_from(batch.items.len()).unwrap_or(u64::MAX);
        let key = self.gate.keys().get(name.as_str());
        let key = key.ok_or_else(|| Refusal::bad("encryption key not found"))?;
        if key.policy().soft_deleted {
            return Err(Refusal::soft_deleted().into());
        }
        if verb == Verb::Hmac {
            tagging(key, version).map_err(Refusal::bad)?;
        } else {
            check_tags(&fields, &batch.items, is_batch, key)?;
        }
        let mut tagger = Tagger {
            key,
            algorithm,
            body: fields.body,
            base64,
            text: Zeroizing::default(),
            bytes: Zeroizing::default(),
        };
        let mut pen = Pen { out };
        if !is_batch {
            let mut data = Vec::new();
            let first = batch.items.first().copied().unwrap_or(BatchItem::EMPTY);
            let done = tagger.judge(verb, &first, version, &mut Pen { out: &mut data });
            note.version = done.map_err(Refusal::bad)?;
            pen.open_frame(random);
            pen.out.extend_from_slice(&data);
            pen.raw("}");
            pen.close_frame(&[]);
            return Ok(200);
        }
        pen.open_frame(random);
        pen.raw("{\"batch_results\":[");
        let mut one = OneVersion::default();
        for (at, item) in batch.items.iter().enumerate() {
            pen.raw(if at > 0 { "," } else { "" });
            let version = if item.version == 0 { version } else { item.version };
            let before = pen.out.len();
            match tagger.judge(verb, item, version, &mut pen) {
                Ok(number) => one.add(number),
                Err(why) => {
                    note.failed += 1;
                    pen.out.truncate(before);
                    pen.raw("{\"error\":");
                    write_text(&why, pen.out);
                }
            }
            pen.raw(",\"reference\":\"");
            pen.raw(item.reference.raw(fields.body));
            pen.raw("\"}");
        }
        pen.raw("]}");
        note.version = one.get();
        pen.close_frame(&[]);
        Ok(200)
    }

    pub(crate) fn random_bytes(&mut self, source: &str, bytes: Option<&str>) -> Result<u16, Halt> {
        self.enter_all(Verb::Random, "")?;
        let fields = self.fields(None)?;
        let asked = match bytes {
            Some(text) => {
                text.parse().map_err(|_| Refusal::bad("error parsing url-set byte count"))?
            }
            None => fields.number(Member::Bytes)?.unwrap_or(32),
        };
        if asked < 1 {
            return Err(Refusal::bad("'bytes' cannot be less than 1").into());
        }
        if asked > RANDOM_MAX {
            return Err(Refusal::bad(format!("'bytes' should be less than {RANDOM_MAX}")).into());
        }
        let format = format_of(&fields, "base64")?;
        let hex = is_hex(&format).ok_or_else(|| {
            let text = format!("unsupported encoding format {format:?}");
            Refusal::bad(text + "; must be \"hex\" or \"base64\"")
        })?;
        if !["platform", "seal", "all"].contains(&source) {
            let text = format!("unsupported entropy source {source:?}");
            return Err(
                Refusal::bad(text + "; must be \"platform\" or \"seal\", or \"all\"").into()
            );
        }
        if source == "seal" {
            self.warn("no seal/entropy augmentation available, using platform entropy source");
        }
        self.room.note.is_secret = true;
        let mut bytes = Zeroizing::new(vec![0; usize::try_from(asked).unwrap_or(0)]);
        let Room { random, base64, out, note, .. } = &mut *self.room;
        random
            .reseed()
            .and_then(|()| random.fill(&mut bytes))
            .map_err(|why| Refusal::framed(500, why))?;
        out.reserve(bytes.len() * 2 + 1024);
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{\"random_bytes\":\"");
        write_bytes(&mut pen, &bytes, hex, base64);
        pen.raw("\"}");
        pen.close_frame(&note.warnings);
        Ok(200)
    }

    pub(crate) fn hash(&mut self, algorithm: Option<&str>) -> Result<u16, Halt> {
        self.enter_all(Verb::Hash, "")?;
        let fields = self.fields(None)?;
        let algorithm = algorithm_of(&fields, algorithm, None)?;
        let format = format_of(&fields, "hex")?;
        let hex = is_hex(&format).ok_or_else(|| {
            let text = format!("unsupported encoding format {format}");
            Refusal::bad(text + "; must be \"hex\" or \"base64\"")
        })?;
        let Some(text) = fields.text(Member::Input)? else {
            return Err(Refusal::bad("input missing").into());
        };
        let Room { random, base64, out, .. } = &mut *self.room;
        let text = Zeroizing::new(text);
        let mut input = Zeroizing::new(Vec::with_capacity(text.len()));
        base64.read(&text, &mut input).map_err(|at| {
            Refusal::bad(format!(
                "unable to decode input as base64: illegal base64 data at input byte {at}"
            ))
        })?;
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{\"sum\":\"");
        write_bytes(&mut pen, algorithm.sum(&input).as_bytes(), hex, base64);
        pen.raw("\"}");
        pen.close_frame(&[]);
        Ok(200)
    }

    /// A random key, sealed, and in clear where that is asked for.
    pub(crate) fn data_key(&mut self, form: &str, name: &str) -> Result<u16, Halt> {
        let name = self.enter(Verb::Datakey, name)?;
        let in_clear = form == "plaintext";
        if !in_clear && form != "wrapped" {
            return Err(Refusal::bad("Invalid path, must be 'plaintext' or 'wrapped'").into());
        }
        let fields = self.fields(None)?;
        let bytes = match fields.number(Member::Bits)?.unwrap_or(256) {
            128 => 16,
            256 => 32,
            512 => 64,
            _ => return Err(Refusal::bad("invalid bit length").into()),
        };
        let item = self.data_key_item(&fields)?;
        let policy = self.gate.keys().get(name.as_str()).map(|key| *key.policy());
        let policy = policy.ok_or_else(|| Refusal::bad("encryption key not found"))?;
        if policy.soft_deleted {
            return Err(Refusal::soft_deleted().into());
        }
        let kind = policy.kind;
        if kind.sealing().is_none() {
            return Err(Refusal::seals_nothing(true, kind).into());
        }
        self.room.batch.items.clear();
        self.room.batch.items.push(item);
        self.reserve(&name)?;
        let Room { random, base64, work, out, note, .. } = &mut *self.room;
        let key = self.gate.keys().get(name.as_str());
        let key = key.ok_or_else(|| Refusal::bad("encryption key not found"))?;
        let mut plain = Zeroizing::new(vec![0; bytes]);
        random
            .reseed()
            .and_then(|()| random.fill(&mut plain))
            .map_err(|why| Refusal::framed(500, why))?;
        work.take_bytes(fields.body, &item, &plain, key, base64);
        work.seal(key, random);
        let Some(place) = work.places.first() else { return Err(Refusal::missing().into()) };
        place.outcome.map_err(|why| match why {
            ItemFault::Base64(_) => Refusal::bad("failed to base64-decode context"),
            why if why.is_users() => Refusal::bad(why.to_string()),
            why => Refusal::framed(500, why),
        })?;
        (note.is_secret, note.version) = (in_clear, place.version);
        out.reserve(2048);
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{\"ciphertext\":\"vault:v");
        pen.digits(place.version.into());
        pen.raw(":");
        base64.write(work.sealed.get(&place.sealed), pen.out);
        pen.raw("\"");
        pen.number("key_version", place.version.into());
        if in_clear {
            pen.raw(",\"plaintext\":\"");
            base64.write(&plain, pen.out);
            pen.raw("\"");
        }
        pen.raw("}");
        pen.close_frame(&[]);
        Ok(200)
    }

    fn data_key_item(&self, fields: &Fields<'_>) -> Result<BatchItem, Halt> {
        Ok(BatchItem {
            context: fields.span(Member::Context)?,
            aad: fields.span(Member::AssociatedData)?,
            version: fields.number(Member::KeyVersion)?.unwrap_or(0),
            ..BatchItem::EMPTY
        })
    }
}

/// Returns the algorithm of the path or the body; `newer` is the member that may name it besides `algorithm`.
fn algorithm_of(
    fields: &Fields<'_>,
    of_path: Option<&str>,
    newer: Option<Member>,
) -> Result<HashAlgorithm, Halt> {
    let old = fields.text(Member::Algorithm)?;
    let new = newer.map(|member| fields.text(member)).transpose()?.flatten();
    let of_body = new.or(old).filter(|name| !name.is_empty());
    let name = of_path.map(String::from).or(of_body);
    let Some(name) = name else { return Ok(HashAlgorithm::default()) };
    name.parse().map_err(|why| Refusal::bad(format!("{why}, not {name:?}")).into())
}

fn format_of(fields: &Fields<'_>, default: &str) -> Result<String, Halt> {
    Ok(fields.text(Member::Format)?.unwrap_or_else(|| default.to_owned()))
}

fn is_hex(format: &str) -> Option<bool> {
    match format {
        "hex" => Some(true),
        "base64" => Some(false),
        _ => None,
    }
}

/// Returns the version that makes tags where `wanted` is asked for.
fn tagging(key: &NamedKey, wanted: i64) -> Result<u32, String> {
    sealing(key, wanted).map_err(|why| match why {
        ItemFault::Version(VersionError::AboveLatest) => {
            let latest = key.versions().latest();
            format!("key version does not exist; latest key version is {latest}")
        }
        _ => "cannot generate HMAC: version is too old (disallowed by policy)".into(),
    })
}

/// Refuses what has no tags to judge.
fn check_tags(
    fields: &Fields<'_>,
    items: &[BatchItem],
    is_batch: bool,
    key: &NamedKey,
) -> Result<(), Halt> {
    if fields.text(Member::Signature)?.is_some() {
        let text = format!("key type {} does not support verification", key.policy().kind);
        return Err(Refusal::bad(text).into());
    }
    let with_tags = items.iter().filter(|item| item.tag.is_some()).count();
    let text = match with_tags {
        all if all == items.len() => return Ok(()),
        _ if !is_batch => "neither a 'signature' nor an 'hmac' were given to verify",
        0 => "no batch_input elements have 'signature' or 'hmac'",
        _ => "some elements of batch_input are missing 'hmac'",
    };
    Err(Refusal::bad(text).into())
}

fn write_bytes(pen: &mut Pen<'_>, bytes: &[u8], hex: bool, base64: &Base64) {
    if !hex {
        return base64.write(bytes, pen.out);
    }
    for byte in bytes {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
        pen.out.extend_from_slice(&[digit(byte >> 4), digit(*byte)]);
    }
}

/// Makes and judges tags of one key.
struct Tagger<'k> {
    key: &'k NamedKey,
    algorithm: HashAlgorithm,
    body: &'k str,
    base64: &'k Base64,
    text: Zeroizing<String>,
    bytes: Zeroizing<Vec<u8>>,
}

impl Tagger<'_> {
    /// Writes the beginning of an object: a tag, or whether one is right. Returns the version that made or judged it.
    fn judge(
        &mut self,
        verb: Verb,
        item: &BatchItem,
        version: i64,
        pen: &mut Pen<'_>,
    ) -> Result<u32, String> {
        if !item.text.is_some() {
            let is_verified = verb == Verb::Verify;
            return Err(
                if is_verified { "missing input" } else { ItemText::Input.missing() }.into()
            );
        }
        self.bytes.clear();
        let input = item.text.text(self.body, &mut self.text);
        self.base64.read(input, &mut self.bytes).map_err(|at| {
            format!("unable to decode input as base64: illegal base64 data at input byte {at}")
        })?;
        if verb == Verb::Hmac {
            let number = tagging(self.key, version)?;
            let tag = self.version(number)?.tag(self.algorithm, &self.bytes);
            let tag = tag.map_err(|why| why.to_string())?;
            pen.raw("{\"hmac\":\"vault:v");
            pen.digits(number.into());
            pen.raw(":");
            self.base64.write(tag.as_bytes(), pen.out);
            pen.raw("\"");
            return Ok(number);
        }
        let mut tag = Vec::new();
        let written = item.tag.text(self.body, &mut self.text);
        let (number, encoded) = split_text(written).map_err(tag_text)?;
        self.key.versions().opening(number).map_err(|why| match why {
            VersionError::TooNew => "invalid HMAC: version is too new".to_string(),
            VersionError::TooOld => {
                "cannot verify HMAC: version is too old (disallowed by policy)".into()
            }
            other => other.to_string(),
        })?;
        self.base64.read(encoded, &mut tag).map_err(|at| {
            format!(
                "unable to decode verification HMAC as base64: illegal base64 data at input byte {at}"
            )
        })?;
        let valid = self.version(number)?.verify(self.algorithm, &self.bytes, &tag);
        pen.raw("{");
        pen.flag("valid", valid.map_err(|why| why.to_string())?);
        Ok(number)
    }

    fn version(&self, number: u32) -> Result<&KeyVersion, String> {
        let found = self.key.versions().get(number);
        found.map(|version| &**version).ok_or_else(|| VersionError::Gone.to_string())
    }
}

fn tag_text(why: TextError) -> String {
    match why {
        TextError::NoPrefix => "invalid HMAC to verify: no prefix",
        TextError::Fields => "invalid HMAC: wrong number of fields",
        TextError::Version => "invalid HMAC: version number could not be decoded",
        TextError::Base64 => "invalid HMAC: could not decode base64",
    }
    .into()
}
