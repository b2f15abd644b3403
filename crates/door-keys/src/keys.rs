//! Keys made, looked at, changed, deleted, exported.

use vault::{Change, HMAC_KEY_BYTES, KeyConfig, KeyKind, KeyName, KeyPolicy, KeyVersion, NamedKey};

use crate::answer::{Halt, Pen, Refusal};
use crate::backup;
use crate::body::{Fields, Member};
use crate::crypt::kind_named;
use crate::door::{Call, Gate, Room};
use crate::request::query_value;
use crate::scope::{Act, Verb};

impl<G: Gate> Call<'_, G> {
    pub(crate) fn kind_of(&self, fields: &Fields<'_>) -> Result<KeyKind, Halt> {
        let name = fields.text(Member::Type)?;
        let size = fields.number(Member::KeySize)?.filter(|size| *size != 0);
        let name = name.as_deref().unwrap_or("aes256-gcm96");
        // What does not fit has a length that is refused.
        let bytes = size.map_or(HMAC_KEY_BYTES, |size| u16::try_from(size).unwrap_or(u16::MAX));
        let kind = kind_named(name, bytes)?;
        if size.is_some() && kind.sealing().is_some() {
            return Err(Refusal::bad(format!("key_size is not valid for algorithm {kind}")).into());
        }
        Ok(kind)
    }

    pub(crate) fn create_key(&mut self, name: &str) -> Result<u16, Halt> {
        let name = self.enter_to(Act::Create, name)?;
        let fields = self.fields(None)?;
        let flag = |member| Ok::<_, Halt>(fields.flag(member)?.unwrap_or(false));
        let policy = KeyPolicy {
            derived: flag(Member::Derived)?,
            convergent: flag(Member::Convergent)?,
            exportable: flag(Member::Exportable)?,
            allow_plaintext_backup: flag(Member::PlaintextBackup)?,
            auto_rotate_s: fields.seconds(Member::AutoRotate)?.unwrap_or(0),
            ..KeyPolicy::new(self.kind_of(&fields)?)
        };
        if !self.change(Change::Create { name: name.clone(), policy })? {
            self.warn(format!("key {name} already existed"));
        }
        self.policy(&name)
    }

    pub(crate) fn read_key(&mut self, name: &str) -> Result<u16, Halt> {
        let name = self.enter_to(Act::Read, name)?;
        self.policy(&name)
    }

    pub(crate) fn rotate_key(&mut self, name: &str) -> Result<u16, Halt> {
        let name = self.enter_to(Act::Rotate, name)?;
        self.fields(None)?;
        self.change(Change::Rotate(name.clone()))?;
        self.policy(&name)
    }

    pub(crate) fn configure_key(&mut self, name: &str) -> Result<u16, Halt> {
        let name = self.enter_to(Act::Config, name)?;
        let fields = self.fields(None)?;
        if self.gate.keys().get(name.as_str()).is_none() {
            let text = format!("no existing key named {name} could be found");
            return Err(Refusal::bad(text).into());
        }
        let config = KeyConfig {
            min_decryption: fields.version(Member::MinDecryption)?,
            min_encryption: fields.version(Member::MinEncryption)?,
            deletion_allowed: fields.flag(Member::DeletionAllowed)?,
            exportable: fields.flag(Member::Exportable)?,
            allow_plaintext_backup: fields.flag(Member::PlaintextBackup)?,
            auto_rotate_s: fields.seconds(Member::AutoRotate)?,
            ..KeyConfig::default()
        };
        if config.min_decryption == Some(0) {
            self.warn(
                "since Vault 0.3 (prior to the OpenBao fork), transit key numbering starts at 1; forcing minimum to 1",
            );
        }
        self.change(Change::Configure { name: name.clone(), config })?;
        self.policy(&name)
    }

    pub(crate) fn trim_key(&mut self, name: &str) -> Result<u16, Halt> {
        let name = self.enter_to(Act::Trim, name)?;
        let fields = self.fields(None)?;
        if self.gate.keys().get(name.as_str()).is_none() {
            return Err(Refusal::bad("invalid key name").into());
        }
        let least = fields.number(Member::MinAvailable)?;
        let least = least.ok_or_else(|| Refusal::bad("missing min_available_version"))?;
        // A version that no key can have is above the others, as it should be.
        let min_available = match least {
            0 => return Err(Refusal::bad("minimum available version should be positive").into()),
            1.. => u32::try_from(least).unwrap_or(u32::MAX),
            _ => {
                let text = "minimum available version cannot be decremented";
                return Err(Refusal::bad(text).into());
            }
        };
        self.change(Change::Trim { name: name.clone(), min_available })?;
        self.policy(&name)
    }

    /// Takes a key out of use, or back into it.
    pub(crate) fn soft_delete_key(&mut self, name: &str, deleted: bool) -> Result<u16, Halt> {
        let act = if deleted { Act::SoftDelete } else { Act::SoftDeleteRestore };
        let name = self.enter_to(act, name)?;
        self.fields(None)?;
        if self.gate.keys().get(name.as_str()).is_none() {
            // As others do: there is nothing to use any more.
            return Ok(204);
        }
        let config = KeyConfig { soft_deleted: Some(deleted), ..KeyConfig::default() };
        if !self.change(Change::Configure { name: name.clone(), config })? {
            self.warn(match deleted {
                true => "key was already marked as soft deleted",
                false => "key was already restored",
            });
        }
        self.policy(&name)
    }

    pub(crate) fn delete_key(&mut self, name: &str) -> Result<u16, Halt> {
        let name = self.enter_to(Act::Delete, name)?;
        let why = match self.gate.keys().get(name.as_str()) {
            None => "could not delete key; not found",
            Some(key) if !key.policy().deletion_allowed => "deletion is not allowed for this key",
            Some(_) => {
                self.change(Change::Delete(name))?;
                return Ok(204);
            }
        };
        Err(Refusal::bad(format!("error deleting policy {name}: {why}")).into())
    }

    pub(crate) fn list_keys(&mut self) -> Result<u16, Halt> {
        (self.room.note.verb, self.room.note.act) = (Some(Verb::Read), Some(Act::List));
        let scopes = self.caller.scopes;
        if !scopes.allows_some(Verb::Read) {
            return Err(Refusal::denied().into());
        }
        let after = query_value(self.request.query, "after").unwrap_or_default();
        let limit = match query_value(self.request.query, "limit").map(str::parse::<i64>) {
            None => usize::MAX,
            Some(Ok(limit)) => {
                usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX)
            }
            Some(Err(_)) => {
                let text = "Field validation failed: error converting input for field \"limit\": expected a whole number";
                return Err(Refusal::bad(text).into());
            }
        };
        let names = self.gate.keys().iter().map(NamedKey::name);
        let names = names.filter(|name| !name.has_realm() && name.as_str() > after);
        let names = names.filter(|name| scopes.allows(Verb::Read, name.as_str()));
        let mut names = names.map(KeyName::as_str).take(limit).peekable();
        if names.peek().is_none() {
            return Err(Refusal::missing().into());
        }
        let Room { random, out, .. } = &mut *self.room;
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{");
        pen.texts("keys", names);
        pen.raw("}");
        pen.close_frame(&[]);
        Ok(200)
    }

    /// Answers with the policy of a key.
    pub(crate) fn policy(&mut self, name: &KeyName) -> Result<u16, Halt> {
        let Room { random, out, note, .. } = &mut *self.room;
        let key = self.gate.keys().get(name.as_str()).ok_or_else(Refusal::missing)?;
        note.version = key.versions().latest();
        let mut pen = Pen { out };
        pen.open_frame(random);
        write_policy(&mut pen, key);
        pen.close_frame(&note.warnings);
        Ok(200)
    }

    pub(crate) fn export_key(
        &mut self,
        kind: &str,
        name: &str,
        version: Option<&str>,
    ) -> Result<u16, Halt> {
        if !["encryption-key", "hmac-key"].contains(&kind) {
            if ["signing-key", "public-key", "certificate-chain"].contains(&kind) {
                return Err(Refusal::bad(format!(
                    "{kind} is not supported: there are no asymmetric keys"
                ))
                .into());
            }
            return Err(Refusal::bad(format!("invalid export type: {kind}")).into());
        }
        let name = self.enter_to(Act::Export, name)?;
        self.room.note.is_secret = true;
        let Room { random, base64, out, .. } = &mut *self.room;
        let key = self.gate.keys().get(name.as_str()).ok_or_else(Refusal::missing)?;
        let policy = key.policy();
        if !policy.exportable {
            return Err(Refusal::bad("private key material is not exportable").into());
        }
        if policy.soft_deleted {
            return Err(Refusal::soft_deleted().into());
        }
        let is_encryption = kind == "encryption-key";
        if is_encryption && policy.kind.sealing().is_none() {
            let text =
                format!("encryption not supported for the key {name} of type {}", policy.kind);
            return Err(Refusal::bad(text).into());
        }
        let versions = wanted(key, version)?;
        out.reserve(versions.len() * 1024 + 1024);
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{");
        pen.text("name", name.as_str());
        pen.text("type", policy.kind.name());
        pen.member("keys");
        pen.raw("{");
        for version in versions {
            let bytes = match is_encryption {
                true => version.expose_key()?,
                false => version.expose_tag_key()?,
            };
            pen.member(&version.number().to_string());
            pen.raw("\"");
            base64.write(bytes, pen.out);
            pen.raw("\"");
        }
        pen.raw("}}");
        pen.close_frame(&[]);
        Ok(200)
    }

    pub(crate) fn backup_key(&mut self, name: &str) -> Result<u16, Halt> {
        let name = self.enter_to(Act::Backup, name)?;
        self.room.note.is_secret = true;
        let Room { random, base64, out, .. } = &mut *self.room;
        let key = self.gate.keys().get(name.as_str()).ok_or_else(Refusal::missing)?;
        let policy = key.policy();
        if policy.soft_deleted {
            return Err(Refusal::soft_deleted().into());
        }
        for (allowed, what) in [
            (policy.exportable, "exporting is disallowed on the policy"),
            (policy.allow_plaintext_backup, "plaintext backup is disallowed on the policy"),
        ] {
            if !allowed {
                return Err(Refusal::framed(500, what).into());
            }
        }
        let kept = backup::write(key)?;
        out.reserve(kept.len() * 2 + 1024);
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{\"backup\":\"");
        base64.write(&kept, pen.out);
        pen.raw("\"}");
        pen.close_frame(&[]);
        Ok(200)
    }

    pub(crate) fn restore_key(&mut self, name: Option<&str>) -> Result<u16, Halt> {
        let fields = self.fields(None)?;
        let text = fields.text(Member::Backup)?.filter(|text| !text.is_empty());
        let text = text
            .map(zeroize::Zeroizing::new)
            .ok_or_else(|| Refusal::bad("'backup' must be supplied"))?;
        let mut bytes = zeroize::Zeroizing::new(Vec::new());
        let read = self.room.base64.read(&text, &mut bytes);
        read.map_err(|at| Refusal::bad(format!("illegal base64 data at input byte {at}")))?;
        let (own, backup) = backup::read(&bytes).map_err(Refusal::bad)?;
        let name = self.enter_to(Act::Restore, name.unwrap_or(&own))?;
        let force = fields.flag(Member::Force)?.unwrap_or(false);
        self.change(Change::Restore { name, backup, force })?;
        Ok(204)
    }

    /// `config/keys`: whether encrypting with a name that is not there makes the key.
    pub(crate) fn configure_keys(&mut self) -> Result<u16, Halt> {
        self.enter_all_to(Act::ConfigKeys)?;
        if self.method == crate::Method::Post {
            let fields = self.fields(None)?;
            if let Some(disable) = fields.flag(Member::DisableUpsert)? {
                self.change(Change::Upsert(!disable))?;
            }
        }
        let upsert = self.gate.keys().is_upsert_allowed();
        self.frame(200, |pen| pen.flag("disable_upsert", !upsert))
    }

    /// `cache-config`: keys are always in memory, so there is nothing to set.
    pub(crate) fn cache_config(&mut self) -> Result<u16, Halt> {
        self.enter_all_to(Act::CacheConfig)?;
        let size = self.fields(None)?.number(Member::Size)?.unwrap_or(0);
        let size = u64::try_from(size).ok().filter(|size| *size == 0 || *size >= 10);
        let size =
            size.ok_or_else(|| Refusal::bad("size must be 0 or a value greater or equal to 10"))?;
        self.frame(200, |pen| pen.number("size", size))
    }
}

/// Returns the versions that a path asks for: all, `latest`, or one.
fn wanted<'k>(key: &'k NamedKey, version: Option<&str>) -> Result<Vec<&'k KeyVersion>, Halt> {
    let least = key.policy().min_decryption;
    let all = key.versions().iter().map(|(_, version)| &**version);
    let Some(version) = version else {
        return Ok(all.filter(|version| version.number() >= least).collect());
    };
    let number = match version {
        "latest" => key.versions().latest().into(),
        _ => version.parse::<i64>().map_err(|_| Refusal::bad("invalid key version"))?,
    };
    if number < least.into() {
        return Err(Refusal::bad("version for export is below minimum decryption version").into());
    }
    let found = u32::try_from(number)
        .ok()
        .and_then(|number| key.versions().get(number))
        .ok_or_else(|| Refusal::bad("version does not exist or cannot be found"))?;
    Ok(vec![found])
}

fn write_policy(pen: &mut Pen<'_>, key: &NamedKey) {
    let (policy, versions) = (key.policy(), key.versions());
    let seals = policy.kind.sealing().is_some();
    pen.raw("{");
    pen.flag("allow_plaintext_backup", policy.allow_plaintext_backup);
    pen.number("auto_rotate_period", policy.auto_rotate_s);
    if policy.derived {
        pen.flag("convergent_encryption", policy.convergent);
        if policy.convergent {
            pen.member("convergent_encryption_version");
            pen.raw("-1");
        }
    }
    pen.flag("deletion_allowed", policy.deletion_allowed);
    pen.flag("derived", policy.derived);
    pen.flag("exportable", policy.exportable);
    pen.flag("imported_key", policy.imported);
    if policy.derived {
        pen.text("kdf", "hkdf_sha256");
    }
    pen.member("keys");
    pen.raw("{");
    for (number, version) in versions.iter().filter(|(number, _)| *number >= policy.min_decryption)
    {
        pen.number(&number.to_string(), version.created_s());
    }
    pen.raw("}");
    if let KeyKind::Hmac { key_bytes } = policy.kind {
        pen.number("key_size", key_bytes.into());
    }
    pen.number("latest_version", versions.latest().into());
    pen.number("min_available_version", policy.min_available.into());
    pen.number("min_decryption_version", policy.min_decryption.into());
    pen.number("min_encryption_version", policy.min_encryption.into());
    pen.text("name", key.name().as_str());
    pen.flag("soft_deleted", policy.soft_deleted);
    pen.flag("supports_decryption", seals);
    pen.flag("supports_derivation", seals);
    pen.flag("supports_encryption", seals);
    pen.flag("supports_signing", false);
    pen.text("type", policy.kind.name());
    pen.raw("}");
}
