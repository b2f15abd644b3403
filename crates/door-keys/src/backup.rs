//! Backups of keys in the form that OpenBao and Vault give them, so that a key can move either way.
//!
//! ```text
//! {"policy":{"name":..,"type":0,"keys":{"1":{"key":base64,"hmac_key":base64,"time":RFC 3339,"creation_time":seconds,..}},
//!            "latest_version":1,"min_decryption_version":1,..},
//!  "archived_keys":{"keys":[version min_available_version, the next, ..]}}
//! ```
//!
//! A type of our own is 1000 and its code, which others refuse. `weir_messages` says how many messages a version may have sealed.

use vault::{KeyBackup, KeyBackupVersion, KeyKind, KeyPolicy, KeyType, NamedKey, Sealed};
use zeroize::Zeroizing;

use crate::answer::Pen;
use crate::base64::Base64;
use crate::json::{Cursor, Value};

/// Types of others, as they number them.
const GCM: i64 = 0;
const GCM_128: i64 = 8;
const HMAC: i64 = 10;
const HMAC_OF_VAULT: i64 = 11;
/// Types of our own: this and their code.
const OWN: i64 = 1000;
/// HKDF-SHA256, as others number it.
const HKDF: i64 = 1;
/// How convergent nonces are made today.
const CONVERGENT: i64 = 3;
/// Versions of one backup at most.
const VERSIONS_MAX: u32 = 100_000;

/// Returns the number of a type in a backup.
fn number_of(kind: KeyType) -> i64 {
    match kind {
        KeyType::Aes256Gcm96 => GCM,
        KeyType::Aes128Gcm96 => GCM_128,
        KeyType::Aes256GcmSiv | KeyType::Aes256CbcCmac | KeyType::Aes256CbcHmacSha256 => {
            OWN + i64::from(kind.code())
        }
    }
}

/// Writes a key in clear.
pub(crate) fn write(key: &NamedKey) -> Result<Zeroizing<Vec<u8>>, Sealed> {
    let (policy, versions) = (key.policy(), key.versions());
    // Enough for all, so that no copy of a key is left behind where the text has grown.
    let mut out = Zeroizing::new(Vec::with_capacity(2048 + versions.iter().count() * 4096));
    let base64 = Base64::new();
    let mut pen = Pen { out: &mut out };
    let (kind, key_size) = match policy.kind {
        KeyKind::Sealing(kind) => (number_of(kind), 0),
        KeyKind::Hmac { key_bytes } => (HMAC, key_bytes),
    };
    pen.raw("{\"policy\":{");
    pen.text("name", key.name().as_str());
    pen.number("key_size", key_size.into());
    pen.member("keys");
    pen.raw("{");
    for (number, version) in versions.iter() {
        pen.member(&number.to_string());
        write_version(&mut pen, version, policy, &base64)?;
    }
    pen.raw("}");
    pen.flag("derived", policy.derived);
    pen.number("kdf", u64::from(policy.derived));
    pen.flag("convergent_encryption", policy.convergent);
    pen.flag("exportable", policy.exportable);
    pen.number("min_decryption_version", policy.min_decryption.into());
    pen.number("min_encryption_version", policy.min_encryption.into());
    pen.number("latest_version", versions.latest().into());
    pen.number("archive_version", versions.latest().into());
    pen.number("archive_min_version", policy.min_available.into());
    pen.number("min_available_version", policy.min_available.into());
    pen.flag("deletion_allowed", policy.deletion_allowed);
    pen.raw(",\"convergent_version\":-1");
    pen.member("type");
    pen.raw(&kind.to_string());
    pen.raw(",\"backup_info\":null,\"restore_info\":null");
    pen.flag("allow_plaintext_backup", policy.allow_plaintext_backup);
    pen.text("version_template", "");
    pen.text("storage_prefix", "");
    pen.number("auto_rotate_period", policy.auto_rotate_s.saturating_mul(1_000_000_000));
    pen.flag("Imported", policy.imported);
    pen.flag("soft_deleted", false);
    pen.raw("},\"archived_keys\":{\"keys\":[");
    // The archive begins with the least version that is available; 0 is a version that never was.
    if policy.min_available == 0 {
        pen.raw("{}");
    }
    for (at, (_, version)) in versions.iter().enumerate() {
        if at > 0 || policy.min_available == 0 {
            pen.raw(",");
        }
        write_version(&mut pen, version, policy, &base64)?;
    }
    pen.raw("]}}");
    Ok(out)
}

fn write_version(
    pen: &mut Pen<'_>,
    version: &vault::KeyVersion,
    policy: &KeyPolicy,
    base64: &Base64,
) -> Result<(), Sealed> {
    pen.raw("{\"key\":\"");
    base64.write(version.expose_key()?, pen.out);
    pen.raw("\",\"hmac_key\":\"");
    base64.write(version.expose_tag_key()?, pen.out);
    pen.raw("\"");
    pen.text("time", &rfc3339(version.created_s()));
    pen.text("public_key", "");
    pen.number("convergent_version", if policy.convergent { 3 } else { 0 });
    pen.number("creation_time", version.created_s());
    pen.number("weir_messages", version.count().reserved());
    pen.raw("}");
    Ok(())
}

/// Writes seconds since 1970 as a date and time in UTC.
fn rfc3339(seconds: u64) -> String {
    // Days are counted from 1 March of the year 0, so that leap days end a year (Gregorian calendar, 400 years a cycle).
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = (era * 400 + year + carry).min(9999);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// An object whose members were found; the last counts of those with one name.
struct Object<'a> {
    raw: &'a str,
    members: Vec<(String, Value<'a>)>,
}

impl<'a> Object<'a> {
    fn read(raw: &'a str) -> Result<Object<'a>, String> {
        let mut members = Vec::new();
        let mut cursor = Cursor::new(raw.as_bytes()).map_err(|why| why.to_string())?;
        let read = cursor.members(|cursor, name| {
            let mut room = String::new();
            members.push((name.text(raw, &mut room).to_owned(), cursor.value(1)?));
            Ok(())
        });
        read.and_then(|()| cursor.end()).map_err(|why| why.to_string())?;
        Ok(Object { raw, members })
    }

    fn get(&self, name: &str) -> Value<'a> {
        let found = self.members.iter().rev().find(|(known, _)| known == name);
        found.map_or(Value::Null, |(_, value)| *value)
    }

    fn object(&self, name: &str) -> Result<Object<'a>, String> {
        match self.get(name) {
            Value::Object(raw) => Object::read(raw),
            _ => Err(format!("{name}: expected an object")),
        }
    }

    fn number(&self, name: &str) -> Result<i64, String> {
        match self.get(name) {
            Value::Null => Ok(0),
            Value::Number(span) => {
                span.raw(self.raw).parse().map_err(|_| format!("{name}: expected a whole number"))
            }
            _ => Err(format!("{name}: expected a whole number")),
        }
    }

    fn version(&self, name: &str) -> Result<u32, String> {
        u32::try_from(self.number(name)?).map_err(|_| format!("{name}: expected a version"))
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name) == Value::Flag(true)
    }

    fn bytes(&self, name: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(1024));
        let Value::Text(span) = self.get(name) else { return Ok(bytes) };
        let mut room = Zeroizing::new(String::new());
        let read = Base64::new().read(span.text(self.raw, &mut room), &mut bytes);
        read.map_err(|at| format!("{name}: illegal base64 data at input byte {at}"))?;
        Ok(bytes)
    }
}

/// Reads a key in clear: its name and what it is. The error says what is wrong and repeats nothing of it.
pub(crate) fn read(bytes: &[u8]) -> Result<(String, KeyBackup), String> {
    let wrong = |why: String| format!("the backup cannot be read: {why}");
    parse(bytes).map_err(wrong)
}

fn parse(bytes: &[u8]) -> Result<(String, KeyBackup), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_string())?;
    let whole = Object::read(text)?;
    let policy = whole.object("policy")?;
    let name = match policy.get("name") {
        Value::Text(span) => span.raw(policy.raw).to_owned(),
        _ => return Err("name: expected a text".into()),
    };
    let keys = policy.object("keys")?;
    let archived = match whole.get("archived_keys") {
        Value::Object(raw) => archived(raw)?,
        _ => Vec::new(),
    };
    let (least, latest) =
        (policy.version("min_available_version")?, policy.version("latest_version")?);
    let first = least.max(1);
    if latest < first || latest - first >= VERSIONS_MAX {
        return Err(format!(
            "latest_version: expected at least {first}, and at most {VERSIONS_MAX} versions"
        ));
    }
    let mut versions = Vec::new();
    for number in first..=latest {
        let own = keys.object(&number.to_string());
        let entry = own.or_else(|_| {
            let kept = usize::try_from(number - least).ok().and_then(|at| archived.get(at));
            kept.map_or(Err(format!("version {number} is missing")), |raw| Object::read(raw))
        })?;
        versions.push(version(number, &entry, policy.flag("convergent_encryption"))?);
    }
    let policy = policy_of(&policy, &versions)?;
    Ok((name, KeyBackup { policy, versions }))
}

/// Returns the entries of the archive, as they are written.
fn archived(raw: &str) -> Result<Vec<&str>, String> {
    let Value::Array(raw) = Object::read(raw)?.get("keys") else { return Ok(Vec::new()) };
    let mut entries = Vec::new();
    let mut cursor = Cursor::new(raw.as_bytes()).map_err(|why| why.to_string())?;
    let read = cursor.elements(|cursor| {
        entries.push(match cursor.value(2)? {
            Value::Object(raw) => raw,
            _ => "{}",
        });
        Ok(())
    });
    read.map_err(|why| why.to_string())?;
    Ok(entries)
}

fn version(number: u32, entry: &Object<'_>, convergent: bool) -> Result<KeyBackupVersion, String> {
    let nonces = entry.number("convergent_version")?;
    if convergent && nonces != 0 && nonces != CONVERGENT {
        return Err(format!(
            "version {number} makes convergent nonces in an old way; rotate and rewrap it before"
        ));
    }
    let seconds = |name| entry.number(name).map(|number| u64::try_from(number).unwrap_or(0));
    Ok(KeyBackupVersion {
        number,
        created_s: seconds("creation_time")?,
        messages: seconds("weir_messages")?,
        key: entry.bytes("key")?,
        tag_key: entry.bytes("hmac_key")?,
    })
}

fn policy_of(policy: &Object<'_>, versions: &[KeyBackupVersion]) -> Result<KeyPolicy, String> {
    let kind = match policy.number("type")? {
        HMAC | HMAC_OF_VAULT => {
            let bytes = versions.first().map_or(0, |version| version.key.len());
            KeyKind::Hmac { key_bytes: u16::try_from(bytes).unwrap_or(u16::MAX) }
        }
        other => {
            let known = KeyType::ALL.into_iter().find(|kind| number_of(*kind) == other);
            KeyKind::Sealing(known.ok_or("type: this type of keys is not offered here")?)
        }
    };
    let derived = policy.flag("derived");
    if derived && policy.number("kdf")? != HKDF {
        return Err("kdf: keys of contexts are made in an old way that is not offered here".into());
    }
    let nanoseconds = u64::try_from(policy.number("auto_rotate_period")?).unwrap_or(0);
    Ok(KeyPolicy {
        kind,
        derived,
        convergent: policy.flag("convergent_encryption"),
        exportable: policy.flag("exportable"),
        allow_plaintext_backup: policy.flag("allow_plaintext_backup"),
        deletion_allowed: policy.flag("deletion_allowed"),
        imported: true,
        soft_deleted: policy.flag("soft_deleted"),
        min_decryption: policy.version("min_decryption_version")?.max(1),
        min_encryption: policy.version("min_encryption_version")?,
        min_available: policy.version("min_available_version")?,
        auto_rotate_s: nanoseconds / 1_000_000_000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_763_816_555, "2025-11-22T13:02:35Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
        ];
        for (seconds, text) in known {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn what_is_no_backup_says_what_is_wrong() {
        let entry = r#"{"key":"AAAA","hmac_key":"AAAA"}"#;
        let known = [
            ("", "unexpected EOF"),
            ("[]", "expected an object"),
            ("{}", "policy: expected an object"),
            (r#"{"policy":{}}"#, "name: expected a text"),
            (r#"{"policy":{"name":"a"}}"#, "keys: expected an object"),
            (r#"{"policy":{"name":"a","keys":{}}}"#, "latest_version"),
            (r#"{"policy":{"name":"a","keys":{},"latest_version":4000000000}}"#, "latest_version"),
            (r#"{"policy":{"name":"a","keys":{},"latest_version":1}}"#, "version 1 is missing"),
            (r#"{"policy":{"name":"a","keys":{"1":ENTRY},"latest_version":1,"type":1}}"#, "type"),
            (
                r#"{"policy":{"name":"a","keys":{"1":ENTRY},"latest_version":1,"derived":true}}"#,
                "kdf",
            ),
            (
                r#"{"policy":{"name":"a","keys":{"1":{"key":"!"}},"latest_version":1}}"#,
                "key: illegal",
            ),
        ];
        for (text, why) in known {
            let error = read(text.replace("ENTRY", entry).as_bytes()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
