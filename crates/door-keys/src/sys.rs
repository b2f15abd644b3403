//! What clients ask of the server itself, and of their own token.

use vault::{KEY_BYTES, Keys, SecretKey};
use zeroize::Zeroizing;

use crate::answer::{Halt, Pen, Refusal, uuid};
use crate::body::Member;
use crate::door::{
    Call, Gate, NotUnsealed, Room, Settings, UnsealKey, Unsealing, unsupported_path,
};
use crate::request::{Method, query_value};
use crate::scope::{Act, KeyScopes, Verb};

/// The one mount, without its slash.
const MOUNT: &str = "transit";
const HEALTH_CODES: &str = "{\"errors\":[\"activecode, sealedcode, standbycode, uninitcode: expected a status from 200 to 999\"]}\n";
/// Digits of a key that unseals.
const KEY_DIGITS: usize = 2 * KEY_BYTES;

impl Room {
    /// Answers what everybody may ask, sealed or not; `None` if the path is another one.
    pub(crate) fn open_to_all(
        &mut self,
        settings: &Settings,
        method: Method,
        path: &str,
        query: &str,
        now_s: u64,
        keys: &Keys,
    ) -> Option<u16> {
        let sealed = keys.is_sealed();
        let mut pen = Pen { out: &mut self.out };
        match (path, method) {
            ("sys/health", Method::Get) => {
                let Some(status) = health_status(query, sealed) else {
                    pen.raw(HEALTH_CODES);
                    return Some(400);
                };
                pen.raw("{\"initialized\":true");
                pen.flag("sealed", sealed);
                pen.flag("standby", false);
                pen.text("replication_performance_mode", "disabled");
                pen.text("replication_dr_mode", "disabled");
                pen.number("server_time_utc", now_s);
                pen.text("version", &settings.version);
                pen.text("cluster_name", "weir");
                pen.text("cluster_id", &settings.cluster_id);
                pen.raw("}\n");
                Some(status)
            }
            ("sys/seal-status", Method::Get) => {
                seal_status(&mut pen, settings, sealed);
                Some(200)
            }
            ("sys/init", Method::Get) => {
                // There is nothing to initialise: the first key that unseals is the folder's.
                pen.raw("{\"initialized\":true}\n");
                Some(200)
            }
            ("sys/leader", Method::Get) => {
                pen.raw("{\"ha_enabled\":false}\n");
                Some(200)
            }
            _ => None,
        }
    }
}

/// The status of a health check, which its query may say; `None` where a status that it says is none that ends an answer.
fn health_status(query: &str, sealed: bool) -> Option<u16> {
    let said = |name| match query_value(query, name) {
        None | Some("") => Some(None),
        Some(code) => code.parse().ok().filter(|code| (200..=999).contains(code)).map(Some),
    };
    // All are looked at, whatever the state is: a check that is wrong is told at once.
    let (sealed_code, active_code) = (said("sealedcode")?, said("activecode")?);
    said("standbycode").and(said("uninitcode"))?;
    Some(if sealed { sealed_code.unwrap_or(503) } else { active_code.unwrap_or(200) })
}

fn seal_status(pen: &mut Pen<'_>, settings: &Settings, sealed: bool) {
    pen.raw("{\"type\":\"shamir\",\"initialized\":true");
    pen.flag("sealed", sealed);
    pen.raw(",\"t\":1,\"n\":1,\"progress\":0,\"nonce\":\"\"");
    pen.text("version", &settings.version);
    pen.raw(",\"commit_date\":\"\",\"build_date\":\"\",\"migration\":false");
    pen.text("cluster_name", "weir");
    pen.text("cluster_id", &settings.cluster_id);
    pen.raw(",\"recovery_seal\":false");
    pen.text("storage_type", "weir");
    pen.raw("}\n");
}

impl<G: Gate> Call<'_, G> {
    pub(crate) fn sys(&mut self, segments: &[&str]) -> Result<u16, Halt> {
        match (segments, self.method) {
            (["mounts"], Method::Get) => self.doubled(|pen, settings| {
                pen.member("transit/");
                pen.raw("{");
                mount(pen, settings);
                pen.raw("}");
            }),
            (["mounts", MOUNT], Method::Get) => self.doubled(mount),
            // Of any path below the mount, as tools ask before they use one.
            (["internal", "ui", "mounts", MOUNT, ..], Method::Get) => {
                let settings = self.settings;
                self.frame(200, |pen| {
                    mount(pen, settings);
                    pen.text("path", "transit/");
                })
            }
            (["health"], Method::Post | Method::Delete | Method::List) => {
                Err(Refusal { status: 405, text: None }.into())
            }
            (["mounts", MOUNT], Method::Post) => {
                Err(Refusal::bad("path is already in use at transit/").into())
            }
            (["mounts", ..], Method::Post | Method::Delete) => {
                Err(Refusal::bad("there is one mount, transit/, and it stays").into())
            }
            (["capabilities-self"], Method::Post) => self.capabilities(),
            (["unseal"], Method::Post) => self.unseal(),
            (["seal"], Method::Post) => self.seal(),
            (
                ["mounts"]
                | ["mounts", MOUNT]
                | ["health" | "seal-status" | "init" | "leader" | "capabilities-self"]
                | ["unseal" | "seal"],
                _,
            ) => Err(Refusal::framed(405, "unsupported operation").into()),
            (["internal", "ui", "mounts", name, ..], Method::Get) => {
                let text = format!(
                    "preflight capability check returned 403, please ensure client's policies grant access to path \"{name}/\""
                );
                Err(Refusal::new(403, text).into())
            }
            (["mounts", name], Method::Get) => {
                Err(Refusal::bad(format!("No secret engine mount at {name}/")).into())
            }
            _ => Err(unsupported_path()),
        }
    }

    pub(crate) fn token(&mut self, segments: &[&str]) -> Result<u16, Halt> {
        match (segments, self.method) {
            (["lookup-self"], Method::Get | Method::Post) => self.lookup_self(),
            (["renew-self"], Method::Post) => Err(Refusal::bad("lease is not renewable").into()),
            (["create"] | ["create-orphan"], Method::Post) => Err(Refusal::bad(
                "tokens come from the file of tokens of this node; none are made here (Terraform: skip_child_token = true)",
            )
            .into()),
            (["revoke-self"], Method::Post) => Err(Refusal::bad(
                "tokens come from the file of tokens of this node: take its line away to revoke one",
            )
            .into()),
            (["lookup-self" | "renew-self" | "create" | "revoke-self"], _) => {
                Err(Refusal::framed(405, "unsupported operation").into())
            }
            _ => Err(unsupported_path()),
        }
    }

    fn lookup_self(&mut self) -> Result<u16, Halt> {
        let token = self.request.token.unwrap_or_default();
        let (id, caller) = (String::from_utf8_lossy(token).into_owned(), self.caller);
        self.room.note.is_secret = true;
        self.frame(200, |pen| {
            pen.text("accessor", caller.name);
            pen.raw(",\"creation_time\":0,\"creation_ttl\":0");
            pen.text("display_name", caller.name);
            pen.raw(",\"entity_id\":\"\",\"expire_time\":null,\"explicit_max_ttl\":0");
            pen.text("id", &id);
            pen.raw(",\"meta\":null,\"num_uses\":0,\"orphan\":true");
            pen.text("path", "auth/token/create");
            let policy =
                if caller.scopes.is_limited() { caller.scopes.to_string() } else { "root".into() };
            pen.texts("policies", policy.split(','));
            pen.raw(",\"renewable\":false,\"ttl\":0,\"type\":\"service\"");
        })
    }

    /// Unseals with a key, as others do with a share of one, or with a passphrase. What is unsealed stays so.
    fn unseal(&mut self) -> Result<u16, Halt> {
        self.enter_all_to(Act::Unseal)?;
        let fields = self.fields(None)?;
        let text = |member| {
            let text = fields.text(member)?.filter(|text| !text.is_empty());
            Ok::<_, Halt>(text.map(Zeroizing::new))
        };
        let key = match (text(Member::Key)?, text(Member::Passphrase)?) {
            (Some(key), None) => {
                let secret = (key.len() == KEY_DIGITS).then(|| SecretKey::parse(key.as_bytes()));
                let text = "'key': expected 64 hexadecimal digits";
                UnsealKey::Secret(secret.flatten().ok_or_else(|| Refusal::bad(text))?)
            }
            (None, Some(passphrase)) => UnsealKey::Passphrase(passphrase),
            _ => return Err(Refusal::bad("expected one of 'key' and 'passphrase'").into()),
        };
        let first = fields.flag(Member::First)?.unwrap_or(false);
        if self.gate.keys().is_sealed() {
            self.gate.unseal(Unsealing { key, first }).map_err(|why| match why {
                NotUnsealed::Refused(why) => Refusal::bad(why).into(),
                NotUnsealed::Elsewhere => Halt::Elsewhere,
                NotUnsealed::Unavailable => Refusal::new(
                    503,
                    "the keys cannot be read or written: the node's log says why; ask again",
                )
                .into(),
            })?;
        }
        let sealed = self.gate.keys().is_sealed();
        seal_status(&mut Pen { out: &mut self.room.out }, self.settings, sealed);
        Ok(200)
    }

    /// Seals the keys. What is sealed stays so.
    fn seal(&mut self) -> Result<u16, Halt> {
        self.enter_all_to(Act::Seal)?;
        if self.gate.keys().is_sealed() || self.gate.seal() {
            Ok(204)
        } else {
            Err(Halt::Elsewhere)
        }
    }

    fn capabilities(&mut self) -> Result<u16, Halt> {
        let fields = self.fields(None)?;
        let mut paths = fields.texts(Member::Paths)?;
        paths.extend(fields.texts(Member::Path)?);
        if paths.is_empty() {
            return Err(Refusal::bad("paths must be supplied").into());
        }
        let scopes = self.caller.scopes;
        let found: Vec<_> = paths.iter().map(|path| capabilities_of(scopes, path)).collect();
        self.doubled(|pen, _| {
            for (path, found) in paths.iter().zip(&found) {
                pen.texts(path, found.iter().copied());
            }
            if let [found] = found.as_slice() {
                pen.texts("capabilities", found.iter().copied());
            }
        })
    }

    /// Answers with a frame whose data stands beside it too: older clients look there.
    fn doubled(&mut self, data: impl Fn(&mut Pen<'_>, &Settings)) -> Result<u16, Halt> {
        let Room { random, out, .. } = &mut *self.room;
        let mut pen = Pen { out };
        pen.raw("{");
        pen.text("request_id", &uuid(random));
        pen.raw(",\"lease_id\":\"\",\"renewable\":false,\"lease_duration\":0,");
        data(&mut pen, self.settings);
        pen.raw(",\"data\":{");
        data(&mut pen, self.settings);
        pen.raw("}");
        pen.close_frame(&[]);
        Ok(200)
    }
}

fn mount(pen: &mut Pen<'_>, settings: &Settings) {
    pen.text("accessor", "transit_weir");
    pen.raw(
        ",\"config\":{\"default_lease_ttl\":0,\"force_no_cache\":false,\"max_lease_ttl\":0},\
         \"deprecation_status\":\"supported\",\"description\":\"\",\"external_entropy_access\":false,\"local\":false,\"options\":{},\"plugin_version\":\"\",\
         \"running_plugin_version\":\"\",\"running_sha256\":\"\",\"seal_wrap\":false,\"type\":\"transit\"",
    );
    pen.text("uuid", &settings.cluster_id);
}

/// Returns what scopes allow at a path.
fn capabilities_of(scopes: &KeyScopes, path: &str) -> Vec<&'static str> {
    if !scopes.is_limited() {
        return vec!["root"];
    }
    let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let name = segments.get(2).copied().unwrap_or_default();
    let allows = |verb| scopes.allows(verb, name);
    let mut found = Vec::new();
    match segments.as_slice() {
        [MOUNT, "keys"] if scopes.allows_some(Verb::Read) => found.push("list"),
        [MOUNT, "keys", _] => {
            found.extend(
                allows(Verb::Admin).then_some(["create", "update", "delete"]).into_iter().flatten(),
            );
            found.extend(allows(Verb::Read).then_some("read"));
        }
        [MOUNT, "keys", _, _] | [MOUNT, "restore", _] if allows(Verb::Admin) => {
            found.push("update")
        }
        [MOUNT, "export", _, name, ..] if scopes.allows(Verb::Export, name) => found.push("read"),
        [MOUNT, "backup", _] if allows(Verb::Export) => found.push("read"),
        [MOUNT, "bulk", verb @ ("encrypt" | "decrypt"), name] => {
            let verb = if *verb == "encrypt" { Verb::Encrypt } else { Verb::Decrypt };
            found.extend(scopes.allows(verb, name).then_some("update"));
        }
        [MOUNT, "datakey", _, name] if scopes.allows(Verb::Datakey, name) => found.push("update"),
        [MOUNT, verb @ ("random" | "hash"), ..] => {
            let verb = if *verb == "random" { Verb::Random } else { Verb::Hash };
            found.extend(scopes.allows(verb, "").then_some("update"));
        }
        [MOUNT, verb, _, ..] => {
            let known = Verb::ALL.into_iter().find(|known| known.name() == *verb);
            found.extend(known.filter(|verb| allows(*verb)).map(|_| "update"));
        }
        ["auth", "token", "lookup-self"] | ["sys", "mounts", ..] => found.push("read"),
        _ => {}
    }
    if found.is_empty() { vec!["deny"] } else { found }
}
