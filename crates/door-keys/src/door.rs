//! Paths to what is done.

use vault::{
    Change, ChangeError, Drbg, ItemError, KeyEncryptionKey, KeyName, KeyRecords, KeyStore,
    KeyStoreError, Keys, SecretKey, WipedBytes,
};
use zeroize::Zeroizing;

use crate::answer::{Answer, Audit, HEADERS, Halt, JSON, Pen, RETRY_HEADERS, Refusal};
use crate::base64::Base64;
use crate::body::{Batch, Fields, ItemText};
use crate::bulk::{BULK_PATH, BULK_TYPE, Bulk};
use crate::crypt::Crypt;
use crate::request::{Caller, Method, Request, query_value};
use crate::scope::{Act, Verb};
use crate::work::Work;

/// Bytes of an answer that stay allocated between requests.
const ANSWER_KEPT: usize = 1 << 20;
/// What `list` may say in a query for a `GET` to be a `LIST`.
const LIST_WORDS: [&str; 6] = ["1", "t", "T", "true", "TRUE", "True"];

/// What sealed keys answer, to those who have a token.
const OF_SEALED: [&str; 2] = ["/v1/sys/unseal", "/v1/sys/seal"];

/// What stands behind the door.
pub trait Gate {
    /// Returns the keys. Between two calls of [`Gate::change`] within one request these are the same.
    fn keys(&self) -> &Keys;

    /// Decides on a change, makes it durable and applies it; [`Gate::keys`] has it then. Tells whether there was anything to change.
    ///
    /// # Errors
    /// [`NotChanged`]; nothing has changed.
    fn change(&mut self, change: Change, now_s: u64) -> Result<bool, NotChanged>;

    /// Unseals the keys, which [`Gate::keys`] has then.
    ///
    /// # Errors
    /// [`NotUnsealed`]; they are as they were.
    fn unseal(&mut self, with: Unsealing) -> Result<(), NotUnsealed>;

    /// Seals the keys, as if they had never been unsealed; false: this thread may not, as with [`NotChanged::Elsewhere`].
    fn seal(&mut self) -> bool {
        false
    }
}

/// What a caller unseals with.
pub struct Unsealing {
    /// The key that wraps all keys, or what makes it.
    pub key: UnsealKey,
    /// It may become the one of keys that have none yet. Without this, a mistyped one cannot.
    pub first: bool,
}

/// A key that unseals, as a caller sends it.
pub enum UnsealKey {
    /// The key itself.
    Secret(SecretKey),
    /// A passphrase.
    Passphrase(Zeroizing<String>),
}

/// Why keys were not unsealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotUnsealed {
    /// It is not the key; the text says what was expected and repeats nothing of it.
    Refused(String),
    /// This thread may not wait, as with [`NotChanged::Elsewhere`].
    Elsewhere,
    /// The keys cannot be read or written, for the log of the node; the client is told to ask again.
    Unavailable,
}

/// Why a change did not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotChanged {
    /// It is not possible.
    Impossible(ChangeError),
    /// This thread may not wait until it is durable: [`Door::answer`] ends without an answer, and the request has to be asked on a thread
    /// that may.
    Elsewhere,
    /// It could not be made durable, for the log of the node; the client is told to ask again.
    Unavailable,
}

impl<R: KeyRecords> Gate for KeyStore<R> {
    fn keys(&self) -> &Keys {
        KeyStore::keys(self)
    }

    fn change(&mut self, change: Change, now_s: u64) -> Result<bool, NotChanged> {
        KeyStore::change(self, &change, now_s).map_err(|why| match why {
            KeyStoreError::Change(why) => NotChanged::Impossible(why),
            _ => NotChanged::Unavailable,
        })
    }

    fn unseal(&mut self, with: Unsealing) -> Result<(), NotUnsealed> {
        let UnsealKey::Secret(secret) = with.key else {
            return Err(NotUnsealed::Refused("these keys have no passphrase".into()));
        };
        if !self.keys().is_begun() && !with.first {
            return Err(NotUnsealed::Refused("these keys have no key that wraps them yet".into()));
        }
        KeyStore::unseal(self, KeyEncryptionKey::new(&secret)).map_err(|why| match why {
            KeyStoreError::Unseal(why) => NotUnsealed::Refused(why.to_string()),
            _ => NotUnsealed::Unavailable,
        })
    }

    fn seal(&mut self) -> bool {
        KeyStore::seal(self);
        true
    }
}

/// What a door is set to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The version of OpenBao whose interface this is, as clients that ask are told.
    pub version: String,
    /// A UUID that stays the same over restarts.
    pub cluster_id: String,
    /// Bytes of a body, 1 to 2^31 - 1; more is answered 413.
    pub body_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            version: "2.6.2".into(),
            cluster_id: "00000000-0000-4000-8000-000000000000".into(),
            body_bytes_max: 32 << 20,
        }
    }
}

/// The door of one thread: its settings and its work space. Secrets of a request are wiped when the next one comes, with
/// [`Door::wipe`], and when it is dropped.
pub struct Door {
    settings: Settings,
    room: Room,
}

/// The work space.
pub(crate) struct Room {
    pub(crate) random: Drbg,
    pub(crate) base64: Base64,
    pub(crate) batch: Batch,
    pub(crate) work: Work,
    pub(crate) out: Vec<u8>,
    pub(crate) note: Note,
}

/// What is told of a request besides its answer.
#[derive(Debug, Default)]
pub(crate) struct Note {
    pub(crate) verb: Option<Verb>,
    pub(crate) act: Option<Act>,
    pub(crate) key: String,
    pub(crate) version: u32,
    pub(crate) items: u64,
    pub(crate) failed: u64,
    /// The answer holds plaintexts or keys.
    pub(crate) is_secret: bool,
    /// The answer is a bulk stream.
    pub(crate) is_bulk: bool,
    pub(crate) warnings: Vec<String>,
}

impl Door {
    /// Returns a door.
    ///
    /// # Errors
    /// [`ItemError::NoRandomness`] if the operating system gives none.
    pub fn new(settings: Settings) -> Result<Door, ItemError> {
        let room = Room {
            random: Drbg::new()?,
            base64: Base64::new(),
            batch: Batch::default(),
            work: Work::default(),
            out: Vec::new(),
            note: Note::default(),
        };
        Ok(Door { settings, room })
    }

    /// Answers one request. `caller` is who shows the token, `None` where nobody has it. `None` comes back where the gate said
    /// [`NotChanged::Elsewhere`]: ask again on a thread that may wait; nothing was done that counts.
    ///
    /// Write the audit's line before the answer is sent.
    pub fn answer<G: Gate>(
        &mut self,
        request: &Request<'_>,
        caller: Option<&Caller<'_>>,
        gate: &mut G,
    ) -> Option<Answer<'_>> {
        self.wipe();
        self.room.note = Note::default();
        let status = match self.route(request, caller, gate) {
            Ok(status) => status,
            Err(Halt::Elsewhere) => return None,
            Err(Halt::Refuse(refusal)) => {
                self.wipe();
                refusal.write(&mut self.room.out);
                refusal.status
            }
        };
        if status == 204 {
            self.room.out.clear();
        }
        Some(self.told(status))
    }

    /// Returns what was written, with what is told of it.
    fn told(&self, status: u16) -> Answer<'_> {
        let Note { verb, act, key, version, items, failed, is_bulk, .. } = &self.room.note;
        let (items, failed) =
            if status < 400 { (*items, *failed) } else { (*items, (*failed).max(1)) };
        let (verb, act, version) = (*verb, *act, *version);
        let audit = Audit { verb, act, key, version, items: items.max(1), failed };
        let headers = if matches!(status, 429 | 503) { RETRY_HEADERS } else { HEADERS };
        let content_type = if *is_bulk && status == 200 { BULK_TYPE } else { JSON };
        Answer { status, headers, content_type, body: &self.room.out, audit }
    }

    /// Takes the body of the last answer out, for who keeps it longer than this door waits: a copy of a large one would cost as much as making
    /// half of it.
    pub fn take_body(&mut self) -> WipedBytes {
        self.room.note.is_secret = false;
        WipedBytes::from(std::mem::take(&mut self.room.out))
    }

    /// Overwrites what the last request left of secrets. The next request does so too.
    pub fn wipe(&mut self) {
        if self.room.note.is_secret {
            self.room.out.fill(0);
            zeroize::optimization_barrier(self.room.out.as_slice());
            self.room.note.is_secret = false;
        }
        self.room.work.wipe();
        self.room.out.clear();
        self.room.out.shrink_to(ANSWER_KEPT);
    }

    fn route<G: Gate>(
        &mut self,
        request: &Request<'_>,
        caller: Option<&Caller<'_>>,
        gate: &mut G,
    ) -> Result<u16, Halt> {
        let Door { settings, room } = self;
        let is_list = request.method == Method::Get
            && query_value(request.query, "list").is_some_and(|list| LIST_WORDS.contains(&list));
        let method = if is_list { Method::List } else { request.method };
        let Some(path) = request.path.strip_prefix("/v1/") else {
            return Err(Refusal::missing().into());
        };
        // A list may be asked for as a folder; of a key there is none.
        let may_end =
            method == Method::List || path.starts_with("sys/") || path.starts_with("auth/");
        let path = path.strip_suffix('/').filter(|_| may_end).unwrap_or(path);
        let Request { query, now_s, .. } = *request;
        if let Some(status) = room.open_to_all(settings, method, path, query, now_s, gate.keys()) {
            return Ok(status);
        }
        self.admit(method, request, caller, gate)?.route(path)
    }

    /// Lets a caller in whose request can be answered, sealed or not aside.
    fn admit<'c, G: Gate>(
        &'c mut self,
        method: Method,
        request: &'c Request<'c>,
        caller: Option<&'c Caller<'c>>,
        gate: &'c mut G,
    ) -> Result<Call<'c, G>, Halt> {
        let Door { settings, room } = self;
        // What unseals is for those who have a token, too: guessing is theirs alone, and the first key is nobody else's.
        let sealed = gate.keys().is_sealed() && !OF_SEALED.contains(&request.path);
        let named = request.namespace.map(<[u8]>::trim_ascii).unwrap_or_default();
        if !named.is_empty() && named != b"root" && named != b"root/" && named != b"/" {
            return Err(Refusal::new(404, "namespace not found").into());
        }
        if sealed {
            return Err(vault::Sealed.into());
        }
        let caller = caller.ok_or_else(Refusal::denied)?;
        if request.wrap_ttl.is_some_and(|ttl| !ttl.trim_ascii().is_empty()) {
            return Err(Refusal::bad("response wrapping is not supported").into());
        }
        if request.body.len() > settings.body_bytes_max {
            return Err(Refusal::new(
                413,
                "failed to decode JSON input: http: request body too large",
            )
            .into());
        }
        if method == Method::Patch {
            return Err(Refusal::new(
                415,
                "PATCH is not supported: POST changes what it names and leaves the rest",
            )
            .into());
        }
        Ok(Call { request, method, caller, gate, room, settings })
    }

    /// Begins the bulk stream of a path behind [`BULK_PATH`](crate::BULK_PATH); the request's body is not looked at: give its bytes to
    /// [`Bulk::push`](crate::Bulk::push) as they come.
    ///
    /// # Errors
    /// The answer that refuses it.
    pub fn bulk<G: Gate>(
        &mut self,
        request: &Request<'_>,
        caller: Option<&Caller<'_>>,
        gate: &mut G,
    ) -> Result<Bulk, Answer<'_>> {
        self.wipe();
        self.room.note = Note::default();
        let request = &Request { body: &[], ..*request };
        let begun = self.admit(request.method, request, caller, gate).and_then(|mut call| {
            let path = request.path.strip_prefix(BULK_PATH).ok_or_else(unsupported_path)?;
            call.bulk_stream(path)
        });
        begun.map_err(|why| {
            let refusal = match why {
                Halt::Refuse(refusal) => refusal,
                Halt::Elsewhere => Refusal::new(503, "the node cannot take a bulk stream here"),
            };
            refusal.write(&mut self.room.out);
            self.told(refusal.status)
        })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Door { .. }")
    }
}

/// One request of a caller who was let in.
pub(crate) struct Call<'c, G> {
    pub(crate) request: &'c Request<'c>,
    pub(crate) method: Method,
    pub(crate) caller: &'c Caller<'c>,
    pub(crate) gate: &'c mut G,
    pub(crate) room: &'c mut Room,
    pub(crate) settings: &'c Settings,
}

pub(crate) fn unsupported_path() -> Halt {
    Refusal::framed(404, "unsupported path").into()
}

impl<'c, G: Gate> Call<'c, G> {
    fn route(&mut self, path: &str) -> Result<u16, Halt> {
        let segments: Vec<&str> = path.splitn(7, '/').collect();
        match segments.as_slice() {
            ["transit", rest @ ..] => self.transit(rest),
            ["sys", rest @ ..] => self.sys(rest),
            ["auth", "token", rest @ ..] => self.token(rest),
            _ => {
                let text = format!("no handler for route {path:?}. route entry not found.");
                Err(Refusal::new(404, text).into())
            }
        }
    }

    fn transit(&mut self, segments: &[&str]) -> Result<u16, Halt> {
        use Method::{Delete, Get, List, Post};
        match (segments, self.method) {
            (["keys"], List) => self.list_keys(),
            (["keys", name], Get) => self.read_key(name),
            (["keys", name], Post) => self.create_key(name),
            (["keys", name], Delete) => self.delete_key(name),
            (["keys", name, "rotate"], Post) => self.rotate_key(name),
            (["keys", name, "config"], Post) => self.configure_key(name),
            (["keys", name, "trim"], Post) => self.trim_key(name),
            (["keys", name, "soft-delete"], Delete) => self.soft_delete_key(name, true),
            (["keys", name, "soft-delete-restore"], Post) => self.soft_delete_key(name, false),
            (["export", kind, name], Get) => self.export_key(kind, name, None),
            (["export", kind, name, version], Get) => self.export_key(kind, name, Some(version)),
            (["backup", name], Get) => self.backup_key(name),
            (["restore"], Post) => self.restore_key(None),
            (["restore", name], Post) => self.restore_key(Some(name)),
            (["encrypt", name], Post) => self.crypt(Crypt::Encrypt, name),
            (["decrypt", name], Post) => self.crypt(Crypt::Decrypt, name),
            (["rewrap", name], Post) => self.crypt(Crypt::Rewrap, name),
            (["bulk", verb @ ("encrypt" | "decrypt"), name], Post) => self.bulk_body(verb, name),
            (["datakey", form, name], Post) => self.data_key(form, name),
            (["hmac", name], Post) => self.hmac(name, None),
            (["hmac", name, algorithm], Post) => self.hmac(name, Some(algorithm)),
            (["verify", name], Post) => self.verify(name, None),
            (["verify", name, algorithm], Post) => self.verify(name, Some(algorithm)),
            (["random"], Post) => self.random_bytes("platform", None),
            (["random", source @ ("platform" | "seal" | "all")], Post) => {
                self.random_bytes(source, None)
            }
            (["random", bytes], Post) => self.random_bytes("platform", Some(bytes)),
            (["random", source, bytes], Post) => self.random_bytes(source, Some(bytes)),
            (["hash"], Post) => self.hash(None),
            (["hash", algorithm], Post) => self.hash(Some(algorithm)),
            (["config", "keys"], Get | Post) => self.configure_keys(),
            (["cache-config"], Get | Post) => self.cache_config(),
            (["sign", _] | ["sign", _, _], Post) => {
                Err(Refusal::bad("no key of this node supports signing").into())
            }
            (_, List) => Err(unsupported_path()),
            (["keys"], _)
            | (["keys", _] | ["keys", _, "rotate" | "config" | "trim"], _)
            | (["keys", _, "soft-delete" | "soft-delete-restore"], _)
            | (["export", _, _] | ["export", _, _, _] | ["backup", _], _)
            | (["restore" | "random" | "hash" | "cache-config"], _)
            | (["restore" | "encrypt" | "decrypt" | "rewrap" | "random" | "hash", _], _)
            | (["hmac" | "verify" | "sign", _] | ["hmac" | "verify" | "sign", _, _], _)
            | (["random", _, _], _)
            | (["bulk", "encrypt" | "decrypt", _], _)
            | (["datakey", _, _] | ["config", "keys"], _) => {
                Err(Refusal::framed(405, "unsupported operation").into())
            }
            _ => Err(unsupported_path()),
        }
    }

    /// Notes what is asked of which key, and lets the caller do it or not.
    pub(crate) fn enter(&mut self, verb: Verb, name: &str) -> Result<KeyName, Halt> {
        let name = KeyName::new(name).ok().filter(|name| !name.has_realm());
        let name = name.ok_or_else(unsupported_path)?;
        self.enter_all(verb, name.as_str())?;
        Ok(name)
    }

    /// The same for what belongs to no key, whose name is empty.
    pub(crate) fn enter_all(&mut self, verb: Verb, name: &str) -> Result<(), Halt> {
        self.room.note.verb = Some(verb);
        name.clone_into(&mut self.room.note.key);
        if self.caller.scopes.allows(verb, name) { Ok(()) } else { Err(Refusal::denied().into()) }
    }

    /// [`Call::enter`] for what is one of several acts of a verb.
    pub(crate) fn enter_to(&mut self, act: Act, name: &str) -> Result<KeyName, Halt> {
        self.room.note.act = Some(act);
        self.enter(act.verb(), name)
    }

    /// [`Call::enter_all`] for what is one of several acts of a verb, and belongs to no key.
    pub(crate) fn enter_all_to(&mut self, act: Act) -> Result<(), Halt> {
        self.room.note.act = Some(act);
        self.enter_all(act.verb(), "")
    }

    /// Reads the body; `items` is what the items of its batch have, where it may have one.
    pub(crate) fn fields(&mut self, items: Option<ItemText>) -> Result<Fields<'c>, Halt> {
        Fields::read(self.request.body, items, &mut self.room.batch)
    }

    pub(crate) fn change(&mut self, change: Change) -> Result<bool, Halt> {
        self.gate.change(change, self.request.now_s).map_err(|why| match why {
            NotChanged::Impossible(ChangeError::Sealed(sealed)) => sealed.into(),
            NotChanged::Impossible(ChangeError::Item(why @ ItemError::NoRandomness)) => {
                Refusal::framed(500, why).into()
            }
            NotChanged::Impossible(why) => Refusal::bad(why.to_string()).into(),
            NotChanged::Elsewhere => Halt::Elsewhere,
            NotChanged::Unavailable => {
                Refusal::new(503, "the change could not be made durable: ask again").into()
            }
        })
    }

    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        self.room.note.warnings.push(text.into());
    }

    /// Answers with a frame around what `data` writes between braces.
    pub(crate) fn frame(
        &mut self,
        status: u16,
        data: impl FnOnce(&mut Pen<'_>),
    ) -> Result<u16, Halt> {
        let Room { random, out, note, .. } = &mut *self.room;
        let mut pen = Pen { out };
        pen.open_frame(random);
        pen.raw("{");
        data(&mut pen);
        pen.raw("}");
        pen.close_frame(&note.warnings);
        Ok(status)
    }
}
