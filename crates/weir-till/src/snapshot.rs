//! What all doors of a worker read and none of them changes: the configuration in force, and the facts of the run.

use std::collections::HashMap;
use std::sync::Arc;

use ledger::Bank;
use table::{Map, Secret, TextMap};
use weir_budgets::campaign_index::CampaignIndex;
use weir_budgets::orders::OrderIndex;
use wire::Handle;

/// One configuration, immutable, the same for all workers: which budgets there are and where their purses stand.
#[derive(Debug)]
pub struct Snapshot {
    /// Rises by one with each configuration; 0 before the first one.
    pub number: u32,
    /// Budget id to slot.
    pub slots: Map<u32>,
    /// Unit code by slot, as on the wire.
    pub units: Vec<[u8; 4]>,
    /// The handles of its budgets.
    pub names: Names,
    /// The campaigns that bid, with the slots of their budgets as their places.
    pub campaign_index: Arc<CampaignIndex>,
    /// The budgets that limit orders.
    pub orders: Arc<OrderIndex>,
}

impl Snapshot {
    /// Before the first configuration.
    pub fn empty(secret: Secret) -> Arc<Snapshot> {
        let slots = Map::with_capacity(secret, 0);
        let campaign_index = CampaignIndex::empty();
        let (units, names, orders) = (Vec::new(), Names::none(), Arc::default());
        Arc::new(Snapshot { number: 0, slots, units, names, campaign_index, orders })
    }

    /// Is it a configuration, if perhaps one without budgets? Before the first one nobody knows which budgets there are.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        self.number > 0
    }
}

/// Handles of one configuration, both ways.
#[derive(Debug)]
pub struct Names {
    /// The slot and the id by the whole text, behind a hash with a key that is drawn at the start: strangers cannot choose handles that
    /// collide.
    budgets: TextMap<12>,
    /// By slot, those of ended budgets too: who may name a budget may also settle what was held of it.
    handles: HashMap<u32, Handle>,
}

impl Names {
    /// Of the budgets of a configuration.
    pub fn new(secret: Secret, bank: &Bank) -> Names {
        let live: Vec<(&Handle, u32, u64)> =
            bank.handles().map(|(name, slot)| (name, slot, bank.spec(slot).id)).collect();
        let all = (0..u32::try_from(bank.slots()).unwrap_or(u32::MAX))
            .filter_map(|slot| Some((slot, bank.spec(slot).handle.clone()?)));
        Names { budgets: by_text(secret, &live), handles: all.collect() }
    }

    /// Of no budget.
    pub fn none() -> Names {
        Names { budgets: by_text(Secret::new(0), &[]), handles: HashMap::new() }
    }

    /// The slot and the id of the budget with this handle.
    pub fn find(&self, handle: &str) -> Option<(u32, u64)> {
        let value = self.budgets.get(handle)?;
        let (slot, id) = value.split_first_chunk::<4>()?;
        Some((u32::from_le_bytes(*slot), u64::from_le_bytes(id.try_into().ok()?)))
    }

    /// The handle of the budget in this slot.
    pub fn handle(&self, slot: u32) -> Option<&Handle> {
        self.handles.get(&slot)
    }
}

/// Handles, each with the slot and the id of its budget.
fn by_text(secret: Secret, named: &[(&Handle, u32, u64)]) -> TextMap<12> {
    let value = |slot: u32, id: u64| {
        let mut value = [0; 12];
        value[..4].copy_from_slice(&slot.to_le_bytes());
        value[4..].copy_from_slice(&id.to_le_bytes());
        value
    };
    let texts = named.iter().map(|(name, slot, id)| (name.as_str(), value(*slot, *id)));
    TextMap::build(secret, texts)
        .expect("the bank has each handle once, and none of more than 128 bytes")
}

/// What does not change in a run.
#[derive(Debug)]
pub struct Facts {
    /// Number of the node.
    pub node: u16,
    /// Number of the run.
    pub run: u32,
    /// Least life of an unconfirmed hold.
    pub hold_ms: u32,
    /// Billing window.
    pub billing_ms: u32,
    /// No clock of this run shows an earlier instant: an earlier run has acted on it.
    pub earliest_ms: u64,
    /// Keeps strangers from choosing ids that collide in our tables.
    pub secret: u128,
    /// What keys of idempotency are hashed under.
    pub answer_secret: access::KeySecret,
}
