//! The thread that changes keys, which takes a write to the disk.
//!
//! It is the only writer of the keys. A call that changes them is done here as a whole; what a large call in the pool has to have changed comes
//! as a change alone. Either is answered once the change is durable and workers have it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use access::Principal;
use vault::{Change, ChangeError, KeyName, KeyStore, KeyStoreError, Keys, Sealed, WipedBytes};
use vault_store::TravellingFile;
use zeroize::Zeroizing;

use super::again::{self, Again};
use super::audit::{AuditDesk, Told};
use super::late::{self, Owed};
use super::live::LiveKeys;
use super::open::KeysPlace;
use crate::{Act, Caller, Gate, KeyScopes, Method, NotChanged, NotUnsealed, Request, Unsealing};

/// Calls that may wait for the keeper.
const JOBS_MAX: usize = 1_024;
/// How often it is looked for keys whose period of rotation has ended.
const ROTATE_LOOK: Duration = Duration::from_secs(60);
/// Whom the audit names where the node itself does something.
const NODE: &str = "node";

/// Who asks, with its scopes.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) principal: Arc<Principal>,
    pub(super) scopes: Arc<KeyScopes>,
}

impl Asker {
    pub(super) fn caller(&self) -> Caller<'_> {
        Caller { name: self.principal.name(), scopes: &self.scopes }
    }
}

/// A request that owns its bytes, and wipes them.
pub(super) struct OwnedRequest {
    method: Method,
    path: String,
    query: String,
    namespace: Option<Vec<u8>>,
    wrap_ttl: Option<Vec<u8>>,
    token: Option<Zeroizing<Vec<u8>>>,
    body: WipedBytes,
    now_s: u64,
}

impl OwnedRequest {
    pub(super) fn of(request: &Request<'_>) -> OwnedRequest {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        OwnedRequest {
            method: request.method,
            path: request.path.to_owned(),
            query: request.query.to_owned(),
            namespace: owned(request.namespace),
            wrap_ttl: owned(request.wrap_ttl),
            token: owned(request.token).map(Zeroizing::new),
            body: WipedBytes::copy_of(request.body),
            now_s: request.now_s,
        }
    }

    /// The same of a request whose body of `bytes` bytes is still to come, piece by piece.
    pub(super) fn begun(request: &Request<'_>, bytes: usize) -> OwnedRequest {
        let mut begun = OwnedRequest::of(request);
        begun.body.reserve(bytes);
        begun
    }

    /// Makes room for a body of so many bytes.
    pub(super) fn make_room(&mut self, bytes: usize) {
        self.body.reserve(bytes.saturating_sub(self.body.len()));
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Takes the next piece of its body.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.body.reserve(bytes.len());
        self.body.extend_from_slice(bytes);
    }

    /// Its body is whole now.
    pub(super) fn is_whole(&mut self, now_s: u64) {
        self.now_s = now_s;
    }

    /// The token that it came with.
    pub(super) fn token(&self) -> Option<&[u8]> {
        self.token.as_deref().map(Vec::as_slice)
    }

    /// Bytes of its body.
    pub(super) fn body_len(&self) -> usize {
        self.body.len()
    }

    pub(super) fn request(&self) -> Request<'_> {
        Request {
            method: self.method,
            path: &self.path,
            query: &self.query,
            namespace: self.namespace.as_deref(),
            wrap_ttl: self.wrap_ttl.as_deref(),
            token: self.token(),
            body: &self.body,
            now_s: self.now_s,
        }
    }
}

/// Its body was only ever added to.
impl Drop for OwnedRequest {
    fn drop(&mut self) {
        std::mem::take(&mut self.body).discard_added();
    }
}

/// A call for another thread.
pub(super) struct Job {
    pub(super) request: OwnedRequest,
    pub(super) asker: Option<Asker>,
    pub(super) owed: Owed,
}

/// What the keeper is asked.
enum Task {
    Call(Box<Job>),
    /// A change for a thread that waits for it.
    Change {
        change: Change,
        now_s: u64,
        reply: SyncSender<Result<bool, NotChanged>>,
    },
}

/// Where calls and changes are left for the keeper.
#[derive(Clone)]
pub(super) struct KeeperDesk {
    tasks: SyncSender<Task>,
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

impl KeeperDesk {
    /// Leaves a call, or gives it back: as many wait as may, or as many bytes.
    pub(super) fn ask(&self, job: Box<Job>) -> Result<(), Box<Job>> {
        let bytes = job.request.body.len();
        if self.bytes.load(Relaxed).saturating_add(bytes) > self.bytes_max {
            return Err(job);
        }
        // Several workers may pass the check at once: then it is a body of each too much.
        self.bytes.fetch_add(bytes, Relaxed);
        let left = self.tasks.try_send(Task::Call(job));
        left.or_else(|full| match full {
            TrySendError::Full(Task::Call(job)) | TrySendError::Disconnected(Task::Call(job)) => {
                self.bytes.fetch_sub(bytes, Relaxed);
                Err(job)
            }
            TrySendError::Full(_) | TrySendError::Disconnected(_) => Ok(()),
        })
    }

    /// Asks for a change, and waits until it is durable and readers have it.
    pub(super) fn change(&self, change: Change, now_s: u64) -> Result<bool, NotChanged> {
        let (reply, changed) = sync_channel(1);
        let asked = self.tasks.send(Task::Change { change, now_s, reply });
        asked.map_err(|_| NotChanged::Unavailable)?;
        changed.recv().map_err(|_| NotChanged::Unavailable)?
    }
}

/// The keeper, before its thread runs.
pub(super) struct Keeper {
    /// `None`: sealed, until somebody brings the key.
    pub(super) store: Option<KeyStore<TravellingFile>>,
    /// No keys at all, as long as there is no store.
    pub(super) sealed: Keys,
    pub(super) place: KeysPlace,
    pub(super) live: LiveKeys,
    pub(super) door: crate::Door,
    pub(super) audit: Option<AuditDesk>,
    /// Changes that could not be made durable.
    pub(super) failed: Arc<AtomicU64>,
    /// Asks another Transit for the key as long as nobody has brought it; `None` where there is none, and once somebody sealed or unsealed.
    pub(super) again: Option<Again>,
}

impl Keeper {
    /// Returns the desk of this keeper, and what its thread runs: until every desk is gone.
    pub(super) fn ready(self, body_bytes_max: usize) -> (KeeperDesk, impl FnOnce() + Send) {
        let (tasks, queue) = sync_channel(JOBS_MAX);
        let bytes = Arc::new(AtomicUsize::new(0));
        let desk = KeeperDesk { tasks, bytes: Arc::clone(&bytes), bytes_max: body_bytes_max * 2 };
        (desk, move || self.run(&queue, &bytes))
    }

    fn run(mut self, queue: &Receiver<Task>, bytes: &AtomicUsize) {
        let mut rotate_at = Instant::now();
        self.store.iter_mut().for_each(begin);
        loop {
            if Instant::now() >= rotate_at {
                self.rotate_due();
                rotate_at = Instant::now() + ROTATE_LOOK;
            }
            let wait = rotate_at.saturating_duration_since(Instant::now());
            let wait = if self.again() { wait.min(again::LOOK) } else { wait };
            match queue.recv_timeout(wait) {
                Ok(Task::Call(job)) => {
                    let count = job.request.body_len();
                    self.answer(job);
                    bytes.fetch_sub(count, Relaxed);
                }
                Ok(Task::Change { change, now_s, reply }) => {
                    let changed = self.gate().change(change, now_s);
                    // Whoever asked waits, or is gone.
                    let _ = reply.send(changed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Takes the key that another Transit brings, as long as nobody else has. True: look again soon.
    fn again(&mut self) -> bool {
        let Keeper { store, place, live, again, .. } = self;
        let Some(asking) = again else { return false };
        if store.is_some() {
            *again = None;
            return false;
        }
        let Some(brought) = asking.look() else { return true };
        match place.unseal_by(asking.transit(), brought) {
            Ok(mut unsealed) => {
                begin(&mut unsealed);
                live.replace(unsealed.keys().clone());
                tracing::info!(
                    keys = unsealed.keys().len(),
                    "{}: the keys were unsealed",
                    asking.transit()
                );
                (*store, *again) = (Some(unsealed), None);
            }
            Err(why) => asking.failed(&why),
        }
        again.is_some()
    }

    fn answer(&mut self, job: Box<Job>) {
        let Keeper { store, sealed, place, live, door, audit, failed, again } = self;
        let mut gate = KeepGate { store, sealed, place, live, failed, again };
        // This thread may wait, so that nothing comes back.
        let _ = late::answer(door, &mut gate, job, audit.as_ref());
    }

    fn gate(&mut self) -> KeepGate<'_> {
        let Keeper { store, sealed, place, live, failed, again, .. } = self;
        KeepGate { store, sealed, place, live, failed, again }
    }

    /// Rotates keys whose period has ended.
    fn rotate_due(&mut self) {
        let now_s = now_s();
        let Some(store) = &self.store else { return };
        let due: Vec<KeyName> = store.keys().due(now_s).cloned().collect();
        for name in due {
            let text = name.as_str().to_owned();
            let rotated = self.gate().change(Change::Rotate(name), now_s);
            let failed = u64::from(rotated.is_err());
            if let Some(audit) = &self.audit {
                let audit_of = crate::Audit {
                    verb: Some(Act::Rotate.verb()),
                    act: Some(Act::Rotate),
                    key: &text,
                    items: 1,
                    failed,
                    ..crate::Audit::default()
                };
                let line = super::audit::line(NODE, 0, &audit_of);
                line.into_iter().for_each(|line| audit.wait(Told { line, answer: None }));
            }
            tracing::info!(key = text, failed, "the period of a key has ended: it was rotated");
        }
    }
}

/// From now on changes can be sent to a log on other machines, where there is one; what a folder has that nothing was sent of is sent first.
fn begin(store: &mut KeyStore<TravellingFile>) {
    if let Err(error) = store.records_mut().begin() {
        tracing::error!(%error, "the keys of this data folder are not in the log on other machines yet: they go with the next change");
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The keys where they may be changed.
struct KeepGate<'a> {
    store: &'a mut Option<KeyStore<TravellingFile>>,
    sealed: &'a Keys,
    place: &'a KeysPlace,
    live: &'a LiveKeys,
    failed: &'a AtomicU64,
    again: &'a mut Option<Again>,
}

impl Gate for KeepGate<'_> {
    fn keys(&self) -> &Keys {
        self.store.as_ref().map_or(self.sealed, KeyStore::keys)
    }

    fn unseal(&mut self, with: Unsealing) -> Result<(), NotUnsealed> {
        let store = self.store.insert(self.place.unseal(with)?);
        begin(store);
        self.live.replace(store.keys().clone());
        tracing::info!(keys = store.keys().len(), "the keys were unsealed");
        Ok(())
    }

    fn seal(&mut self) -> bool {
        // Whoever seals means it: no other Transit unseals before the next start.
        (*self.store, *self.again) = (None, None);
        self.live.replace(self.sealed.clone());
        tracing::info!("the keys were sealed");
        true
    }

    fn change(&mut self, change: Change, now_s: u64) -> Result<bool, NotChanged> {
        // A snapshot shares the counts of messages with the store.
        let is_seen = matches!(change, Change::Reserve { .. });
        let Some(store) = &mut *self.store else {
            return Err(NotChanged::Impossible(ChangeError::Sealed(Sealed)));
        };
        let changed = store.change(&change, now_s).map_err(|why| match why {
            KeyStoreError::Change(why) => NotChanged::Impossible(why),
            other => {
                self.failed.fetch_add(1, Relaxed);
                tracing::error!(error = %other, "a change of keys was refused: it is not durable");
                NotChanged::Unavailable
            }
        })?;
        if changed && !is_seen {
            self.live.replace(store.keys().clone());
        }
        Ok(changed)
    }
}
