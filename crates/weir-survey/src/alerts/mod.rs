//! Alerts: signed webhooks when a budget reaches a share of a limit, when its money expired, and when a file was refused.
//!
//! At each look at all budgets this finds what is new. The bank records it as a memo of the admin door, one per budget and one per file, and
//! only what is sealed is sent. When the receiver has it, or it was given up, the memo says so; a start sends again what none says that of.

pub(crate) mod receiver;
mod told;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender as Commands, channel};
use std::time::Duration;

use ledger::{Door, Memo, Status};
use money::{Instant, Unit};
use serde_json::{Value, json};
use watch::Budget;
use webhook::{Message, Outcome, Report, Sender};
use weir_budgets::alerts::{Shares, WHOLE};
use weir_node::bank::rows::SurveyRow;
use weir_node::bank::{Command, ask};

use told::{Crossing, RefusedFile, Scope, Told};

/// Memos that a look has the bank record; more come with the next one.
const MEMOS_MAX: usize = 256;
/// How long a look waits for their seal before the next one asks again.
const SEAL_WAIT: Duration = Duration::from_millis(50);
/// Memos that are read back in one go.
const PAGE: usize = 256;
/// Above the id of a budget, or the place of a file, in a memo's key.
const OF_BUDGET: u128 = 1 << 64;
const OF_FILE: u128 = 2 << 64;

/// What became of alerts.
#[derive(Debug, Default)]
pub(crate) struct AlertCounts {
    pub(crate) delivered: AtomicU64,
    pub(crate) given_up: AtomicU64,
    pub(crate) waiting: AtomicU64,
}

/// What a look at all budgets found.
pub(crate) struct Looked<'l> {
    pub(crate) now_ms: u64,
    /// Budgets that alert, with how they stand and their shares.
    pub(crate) budgets: &'l [(&'l Budget, &'l SurveyRow, &'l Shares)],
    /// Files that may be refused, by name: when that was, and the first error.
    pub(crate) files: [(&'static str, Option<(u64, String)>); FILES],
}

/// Files that are read while the node runs.
pub(crate) const FILES: usize = 2;

/// What is kept under one key.
#[derive(Clone, Debug, PartialEq)]
enum Kept {
    Budget(Told),
    File(RefusedFile),
}

/// What is to be under some keys; `None`: nothing.
type Batch = Vec<(u128, Option<Kept>)>;
/// Whether the bank recorded each of them, or why it could not.
type Sealed = Result<Vec<bool>, String>;
/// One message: whose, and which place of [`Scope::ALL`].
type Place = (u128, usize);

/// Sends alerts of one node.
pub(crate) struct Alerts {
    node: u16,
    commands: Commands<Command>,
    counts: Arc<AlertCounts>,
    sender: Sender,
    reports: Receiver<Report>,
    /// What is sealed; `None` until the memos were read back.
    kept: Option<HashMap<u128, Kept>>,
    /// What the bank is to record: answered once it is sealed.
    asked: Option<(Batch, Receiver<Sealed>)>,
    /// Keys whose messages are done, which their memos do not say yet.
    done: BTreeSet<u128>,
    due: VecDeque<Place>,
    /// What the sender has, by the id of its message.
    sent: HashMap<String, Place>,
}

impl Alerts {
    pub(crate) fn new(
        node: u16,
        commands: Commands<Command>,
        counts: Arc<AlertCounts>,
        (sender, reports): (Sender, Receiver<Report>),
    ) -> Alerts {
        Alerts {
            node,
            commands,
            counts,
            sender,
            reports,
            kept: None,
            asked: None,
            done: BTreeSet::new(),
            due: VecDeque::new(),
            sent: HashMap::new(),
        }
    }

    /// Takes what is new, and sends what is sealed. `None`: the bank does not answer.
    pub(crate) fn look(&mut self, looked: &Looked<'_>) -> Option<()> {
        self.read_back()?;
        self.take_reports();
        self.take_seal(Duration::ZERO);
        if self.asked.is_none() {
            self.keep(looked);
            self.take_seal(SEAL_WAIT);
        }
        self.send(looked);
        let waiting = self.due.len() + self.sent.len();
        self.counts.waiting.store(waiting as u64, Ordering::Relaxed);
        Some(())
    }

    /// Reads what an earlier run told, and sends again what may not have arrived.
    fn read_back(&mut self) -> Option<()> {
        if self.kept.is_some() {
            return Some(());
        }
        let (mut kept, mut from) = (HashMap::new(), 0);
        loop {
            let (door, max) = (Door::Admin, PAGE);
            let page = ask(&self.commands, |reply| Command::Memos { door, from, max, reply })?;
            let Some((last, _)) = page.last() else { break };
            from = last + 1;
            kept.extend(page.iter().filter_map(|(key, bytes)| Some((*key, read(*key, bytes)?))));
        }
        let waiting = |(key, kept): (&u128, &Kept)| places(*key, kept);
        self.due = kept.iter().flat_map(waiting).collect();
        self.kept = Some(kept);
        Some(())
    }

    /// Notes what became of messages. While the bank records another state of them, they wait.
    fn take_reports(&mut self) {
        while self.asked.is_none() {
            let Ok(report) = self.reports.try_recv() else { return };
            let Some((key, place)) = self.sent.remove(&report.id) else { continue };
            match report.outcome {
                Outcome::Delivered => _ = self.counts.delivered.fetch_add(1, Ordering::Relaxed),
                Outcome::GaveUp(why) => {
                    self.counts.given_up.fetch_add(1, Ordering::Relaxed);
                    let (alert, attempts) = (&report.id, report.attempts);
                    tracing::error!(alert, attempts, why, "an alert was given up");
                }
                Outcome::Gone => {
                    tracing::error!(
                        "the receiver of alerts answered 410: none is sent before the next start"
                    );
                    self.due.push_front((key, place));
                    continue;
                }
                // They are sent again after the next start.
                Outcome::Removed | Outcome::Stopped => continue,
            }
            match self.kept.as_mut().and_then(|kept| kept.get_mut(&key)) {
                Some(Kept::Budget(told)) => {
                    let at_ms = id_at(&report.id);
                    let told = told.0[place].as_mut().filter(|told| Some(told.at_ms) == at_ms);
                    told.into_iter().for_each(|told| told.is_done = true);
                }
                Some(Kept::File(file)) => file.is_done = true,
                None => continue,
            }
            self.done.insert(key);
        }
    }

    /// Takes over what the bank has sealed; what it could not seal is found anew at the next look.
    fn take_seal(&mut self, wait: Duration) {
        let Some((_, sealed)) = &self.asked else { return };
        let Ok(sealed) = sealed.recv_timeout(wait) else { return };
        let (batch, _) = self.asked.take().expect("it was there");
        let (Some(kept), Ok(sealed)) = (self.kept.as_mut(), sealed) else { return };
        for ((key, now), _) in batch.into_iter().zip(sealed).filter(|(_, is_kept)| *is_kept) {
            self.done.remove(&key);
            let before = match &now {
                Some(now) => kept.insert(key, now.clone()),
                None => kept.remove(&key),
            };
            let was = before.iter().flat_map(|before| fresh(key, before)).collect::<Vec<_>>();
            let is = now.iter().flat_map(|now| fresh(key, now));
            self.due.extend(is.filter(|one| !was.contains(one)).map(|(place, _)| place));
        }
    }

    /// Has the bank record what is new, and what is done.
    fn keep(&mut self, looked: &Looked<'_>) {
        let Some(kept) = &self.kept else { return };
        let news = looked.budgets.iter().filter_map(|(budget, row, shares)| {
            let key = OF_BUDGET | u128::from(budget.id);
            let told = match kept.get(&key) {
                Some(Kept::Budget(told)) => *told,
                _ => Told::default(),
            };
            let next = told.next(row, shares, looked.now_ms)?;
            Some((key, Some(Kept::Budget(next))))
        });
        let files = (0..).zip(&looked.files).filter_map(|(place, (_, refused))| {
            let key = OF_FILE | place;
            match (refused, kept.get(&key)) {
                (Some((at_ms, why)), None) => {
                    Some((key, Some(Kept::File(RefusedFile::new(*at_ms, why.clone())))))
                }
                // It was taken again.
                (None, Some(Kept::File(file))) if file.is_done => Some((key, None)),
                _ => None,
            }
        });
        let mut batch: Batch = files.chain(news).take(MEMOS_MAX).collect();
        let done = self.done.iter().filter_map(|key| Some((*key, Some(kept.get(key)?.clone()))));
        let gone = self.gone(looked, kept).take(MEMOS_MAX);
        let more: Vec<_> = done.chain(gone).take(MEMOS_MAX).collect();
        for (key, state) in more {
            if !batch.iter().any(|(other, _)| *other == key) {
                batch.push((key, state));
            }
        }
        if batch.is_empty() {
            return;
        }
        let memo = |(key, kept): &(u128, Option<Kept>)| {
            let bytes = kept.as_ref().map(Kept::to_bytes).unwrap_or_default();
            Memo { door: Door::Admin, key: *key, bytes }
        };
        let (memos, (reply, sealed)) = (batch.iter().map(memo).collect(), channel());
        if self.commands.send(Command::Keep { memos, reply }).is_ok() {
            self.asked = Some((batch, sealed));
        }
    }

    /// Budgets that alert of nothing any more, and of which all was sent: nothing is remembered of them.
    fn gone<'a>(
        &self,
        looked: &Looked<'_>,
        kept: &'a HashMap<u128, Kept>,
    ) -> impl Iterator<Item = (u128, Option<Kept>)> + 'a {
        let is_full = kept.len() > looked.budgets.len() + FILES;
        let known: BTreeSet<u128> = match is_full {
            true => looked.budgets.iter().map(|one| OF_BUDGET | u128::from(one.0.id)).collect(),
            false => BTreeSet::new(),
        };
        let all = kept.iter().filter(move |_| is_full);
        let gone = all.filter(move |(key, kept)| {
            matches!(kept, Kept::Budget(told) if told.is_done() && !known.contains(*key))
        });
        gone.map(|(key, _)| (*key, None))
    }

    /// Gives the sender what it takes.
    fn send(&mut self, looked: &Looked<'_>) {
        while let Some((key, place)) = self.due.pop_front() {
            let Some(message) = self.message(key, place, looked) else { continue };
            let (id, payload) = message;
            if self.sent.contains_key(&id) {
                continue;
            }
            let Ok(message) = Message::new(&id, payload.to_string().into_bytes()) else { continue };
            match self.sender.send(receiver::NAME, message) {
                Ok(()) => _ = self.sent.insert(id, (key, place)),
                // Full, or the receiver said that it wants no more (410): then the next start asks it again.
                Err(_) => {
                    self.due.push_front((key, place));
                    return;
                }
            }
        }
    }

    /// The id and the payload of a message; `None` of what is done.
    fn message(&self, key: u128, place: usize, looked: &Looked<'_>) -> Option<(String, Value)> {
        let low = u64::try_from(key & u128::from(u64::MAX)).expect("masked");
        match self.kept.as_ref()?.get(&key)? {
            Kept::File(file) if !file.is_done => {
                let name = looked.files.get(usize::try_from(low).ok()?)?.0;
                let id = format!("f{low}-refused-{}", file.at_ms);
                let data = json!({"node": self.node, "file": name, "error": file.why});
                Some((id, event("file.refused", file.at_ms, data)))
            }
            Kept::File(_) => None,
            Kept::Budget(told) => {
                let told = told.0[place].filter(|told| !told.is_done)?;
                let scope = Scope::ALL[place];
                let id = format!("b{low}-{}-{}", scope.name(), told.at_ms);
                let known = looked.budgets.iter().find(|(budget, ..)| budget.id == low);
                let data = told_data(scope, told, known.map(|known| known.0));
                let mut data = Value::Object(data);
                (data["node"], data["budget"]) = (self.node.into(), low.to_string().into());
                let kind = match scope {
                    Scope::Expired => "budget.expired",
                    _ => "budget.threshold",
                };
                Some((id, event(kind, told.at_ms, data)))
            }
        }
    }
}

/// What a message says of a budget, which may be gone from the configuration by now.
fn told_data(
    scope: Scope,
    told: Crossing,
    budget: Option<&Budget>,
) -> serde_json::Map<String, Value> {
    let unit = budget.map_or(Unit::Count, |budget| budget.unit);
    let Crossing { share, end_ms, used, limit, .. } = told;
    let mut data = serde_json::Map::new();
    let mut put = |name: &str, value: Value| _ = data.insert(name.to_string(), value);
    if let Some(budget) = budget {
        put("name", json!(budget.name));
        put("handle", json!(budget.handle));
        put("unit", json!(unit.to_string()));
    }
    put("limit", json!(unit.format(limit)));
    if scope == Scope::Expired {
        put("expired", json!(unit.format(used)));
        return data;
    }
    put("window", json!(scope.name()));
    put("window_ends", json!((end_ms > 0).then(|| Instant::from_ms(end_ms).to_string())));
    put("threshold", json!(share_text(share)));
    put("spent", json!(unit.format(used)));
    data
}

/// A share as decimal text: `0.8`.
fn share_text(share: u16) -> String {
    let text = format!("{}.{:04}", share / WHOLE, share % WHOLE);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The form of a message, as Standard Webhooks proposes it.
fn event(kind: &str, at_ms: u64, data: Value) -> Value {
    json!({"type": kind, "timestamp": Instant::from_ms(at_ms).to_string(), "data": data})
}

/// When what a message tells of was seen: the end of its id.
fn id_at(id: &str) -> Option<u64> {
    id.rsplit('-').next()?.parse().ok()
}

/// What is to be sent of a memo.
fn places(key: u128, kept: &Kept) -> Vec<Place> {
    fresh(key, kept).into_iter().map(|(place, _)| place).collect()
}

/// The same, with when it was seen.
fn fresh(key: u128, kept: &Kept) -> Vec<(Place, u64)> {
    match kept {
        Kept::File(file) => (!file.is_done).then_some(((key, 0), file.at_ms)).into_iter().collect(),
        Kept::Budget(told) => {
            let open = |(place, told): (usize, &Option<Crossing>)| {
                told.filter(|told| !told.is_done).map(|told| ((key, place), told.at_ms))
            };
            told.0.iter().enumerate().filter_map(open).collect()
        }
    }
}

/// A memo; `None` of one that this version cannot read.
fn read(key: u128, bytes: &[u8]) -> Option<Kept> {
    match key & !u128::from(u64::MAX) {
        OF_BUDGET => Told::of_bytes(bytes).map(Kept::Budget),
        OF_FILE => RefusedFile::of_bytes(bytes).map(Kept::File),
        _ => None,
    }
}

impl Kept {
    fn to_bytes(&self) -> Box<[u8]> {
        match self {
            Kept::Budget(told) => told.to_bytes(),
            Kept::File(file) => file.to_bytes(),
        }
    }
}

/// Does a budget alert at all? One that ended has nobody to tell.
pub(crate) fn is_told_of(row: &SurveyRow, shares: &Shares) -> bool {
    !shares.is_empty() && row.status != Status::Ended
}
