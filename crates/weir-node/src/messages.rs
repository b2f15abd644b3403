//! What the threads of a node hand to each other: messages over rings, and the configuration that all read.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::Sender as Reply;

use gate_auction::Fates;
use gate_pacing::Pace;
use ledger::{Bank, Claimed, KeyRing, Keyed, MemoAnswer, ToBank, ToWorker};
use table::{Map, Secret, TextMap};
use weir_config::campaign_index::CampaignIndex;
use weir_config::templates::Templates;
use wire::{Handle, Verdict};

use door_spend::Standing;

use crate::bank::books::{BookLine, Totals};
use crate::counters::SlotCells;
use crate::opened::Made;
use crate::questions::Question;

/// From a worker to the bank.
#[derive(Debug)]
pub(crate) enum Up {
    /// The ledger's business.
    Ledger(ToBank),
    /// The ledger's business, of requests with keys of idempotency and of memos; with what the worker counted for its order.
    Keyed(Box<(usize, Keyed)>),
    /// A client's question; `conn` comes back with the answer.
    Question { conn: u64, question: Question },
    /// A door wants the budget with this handle, which no configuration names: make it, if a template matches.
    Open(Box<str>),
    /// Replaced on the worker, to be freed elsewhere: freeing a large table takes long.
    Old(Old),
}

/// What workers do not free themselves.
#[derive(Debug)]
#[allow(dead_code, reason = "only carried to where it is dropped")]
pub(crate) enum Old {
    Snapshot(Arc<Snapshot>),
    Paces(Box<[Pace]>),
}

/// From the bank to a worker.
#[derive(Debug)]
pub(crate) enum Down {
    /// The ledger's business.
    Ledger(ToWorker),
    /// What became of a claim of a key.
    Claimed { reply: u64, claimed: Box<Claimed> },
    /// What became of a memo of a door.
    Memo { reply: u64, answer: Box<MemoAnswer> },
    /// A new configuration and the parameters of its plans, in force from the next batch on.
    Snapshot(Arc<Snapshot>, Box<[Pace]>),
    /// New parameters of all plans, by slot.
    Paces(Box<[Pace]>),
    /// The token keys from now on.
    Keys(Arc<KeyRing>),
    /// Other templates are in force.
    Templates(Arc<Templates>),
    /// The budget that was asked for by its handle, or why there is none.
    Opened(Arc<str>, Result<Made, Verdict>),
    /// A budget that was made on its first ask ended.
    Ended(Arc<str>),
    /// Somebody wants to know what became of a campaign in this worker's auctions.
    Why { campaign: u64, reply: Reply<Option<Fates>> },
    /// The same of many campaigns; those that the worker does not know are left out.
    Fates { campaigns: Arc<[u64]>, reply: Reply<Vec<(u64, Fates)>> },
    /// The journal cannot seal records (true), or can again (false).
    JournalFails(bool),
    /// The answer to a question.
    Answer { conn: u64, answer: Box<Answer> },
}

/// What a client asked to know.
#[derive(Debug)]
pub(crate) enum Answer {
    Books {
        frame: u64,
        now_ms: u64,
        more: bool,
        lines: Vec<BookLine>,
    },
    Totals {
        frame: u64,
        now_ms: u64,
        totals: Totals,
    },
    /// Where one budget stands; `None`: there is none of this name.
    Budget(Option<Box<Standing>>),
}

/// One configuration, immutable: which budgets there are and where their purses stand.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Rises by one with each configuration.
    pub(crate) number: u32,
    /// Budget id to slot.
    pub(crate) slots: Map<u32>,
    /// Unit code by slot, as on the wire.
    pub(crate) units: Vec<[u8; 4]>,
    /// The handles of its budgets; the same for all workers.
    pub(crate) names: Arc<Names>,
    /// The campaigns that bid...
    pub(crate) campaign_index: Arc<CampaignIndex>,
    /// ...and the slots of their budgets, by the campaign's slot in the campaign index.
    pub(crate) purses: Arc<[u32]>,
    /// What the worker says of each slot, for the bank and for statements.
    pub(crate) cells: SlotCells,
}

impl Snapshot {
    /// Before the first configuration.
    pub(crate) fn empty(secret: Secret) -> Arc<Snapshot> {
        let slots = Map::with_capacity(secret, 0);
        let (campaign_index, purses) = (CampaignIndex::empty(), Arc::new([]));
        let (cells, names) = (SlotCells::new(0), Arc::new(Names::none()));
        let units = Vec::new();
        Arc::new(Snapshot { number: 0, slots, units, names, campaign_index, purses, cells })
    }
}

/// Handles of live budgets of one configuration, both ways.
#[derive(Debug)]
pub(crate) struct Names {
    /// The slot and the id by the whole text, behind a hash with a key that is drawn at the start: strangers cannot choose handles that
    /// collide.
    budgets: TextMap<12>,
    /// By slot.
    handles: HashMap<u32, Handle>,
}

impl Names {
    /// Of the budgets of a configuration.
    pub(crate) fn new(secret: Secret, bank: &Bank) -> Names {
        let named = |(name, slot): (&Handle, u32)| (name.clone(), slot, bank.spec(slot).id);
        Names::build(secret, bank.handles().map(named).collect())
    }

    /// Of no budget.
    pub(crate) fn none() -> Names {
        Names::build(Secret::new(0), Vec::new())
    }

    /// Of handles, each with the slot and the id of its budget.
    fn build(secret: Secret, named: Vec<(Handle, u32, u64)>) -> Names {
        let value = |slot: u32, id: u64| {
            let mut value = [0; 12];
            value[..4].copy_from_slice(&slot.to_le_bytes());
            value[4..].copy_from_slice(&id.to_le_bytes());
            value
        };
        let texts = named.iter().map(|(name, slot, id)| (name.as_str(), value(*slot, *id)));
        let budgets = TextMap::build(secret, texts)
            .expect("the bank has each handle once, and none of more than 128 bytes");
        let handles = named.into_iter().map(|(name, slot, _)| (slot, name)).collect();
        Names { budgets, handles }
    }

    /// The slot and the id of the budget with this handle.
    pub(crate) fn find(&self, handle: &str) -> Option<(u32, u64)> {
        let value = self.budgets.get(handle)?;
        let (slot, id) = value.split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*slot), u64::from_le_bytes(id.try_into().ok()?)))
    }

    /// The handle of the budget in this slot.
    pub(crate) fn handle(&self, slot: u32) -> Option<&Handle> {
        self.handles.get(&slot)
    }
}

/// What does not change in a run.
#[derive(Debug)]
pub(crate) struct Facts {
    /// Number of the node.
    pub(crate) node: u16,
    /// Number of the run.
    pub(crate) run: u32,
    /// Least life of an unconfirmed hold.
    pub(crate) hold_ms: u32,
    /// Billing window.
    pub(crate) billing_ms: u32,
    /// No clock of this run shows an earlier instant: an earlier run has acted on it.
    pub(crate) earliest_ms: u64,
    /// Keeps strangers from choosing ids that collide in our tables.
    pub(crate) secret: u128,
    /// What keys of idempotency are hashed under.
    pub(crate) answer_secret: access::KeySecret,
}
