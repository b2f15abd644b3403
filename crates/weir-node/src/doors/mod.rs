//! The doors of a worker: each is one crate, one line in `Doors`, and one in `weir_config::doors`.
//!
//! What a door is, stands in `weir-door`. `doors!` makes a worker's set of doors out of a list.

use std::net::SocketAddr;
use std::sync::Arc;

use door_batch::gate::{BatchDoor, BatchTerms};
pub(crate) use door_fix::gate::checkpoints::Known as FixKnown;
use door_fix::gate::desk::FixDesk;
use door_fix::gate::{FixDoor, FixTerms, entries};
use door_keys::gate::desk::KeysDesk;
use door_keys::gate::{self as keys_gate, KeysDoor, KeysTerms, KeysThreads, section};
use door_openrtb::exchanges::{self, ExchangeDesk};
use door_openrtb::{BidTerms, Meanings, OpenRtbDoor};
use door_spend::gate::{SpendDoor, SpendTerms};
use door_transport::cores::Placement;
use door_transport::{Handle, Waker};
use gate_profile::Profiles;
use vault_store::Carrier;
use weir_config::config::{Config, Judge};

use crate::error::StartError;
use weir_door::{Door, DoorFacts, DoorSet, OnDoors, Tokens, WorkerCounters, doors};

/// The doors of a worker, in the order of `weir_config::doors::DOORS`: what stage rows, metrics and status are made of.
pub const DOORS: &[DoorFacts] = Doors::FACTS;

/// Who judges sections of `weir.toml`.
pub const JUDGES: &[Judge] =
    &[entries::judge, section::judge, exchanges::judge, crate::cluster::judge];

/// Who judges files that entries of `weir.toml` name.
pub const JUDGES_OF_FILES: &[Judge] = &[entries::judge_files, crate::cluster::judge_files];

doors! {
    /// The doors of a node's worker.
    Doors, Session, DoorId {
        Batch = batch: BatchDoor,
        OpenRtb = openrtb: OpenRtbDoor,
        Spend = spend: SpendDoor,
        Fix = fix: FixDoor,
        Keys = keys: KeysDoor,
    }
}

impl Doors {
    /// Makes the doors of the worker with this number, which count in `counters`; who has answers for it wakes it.
    pub(crate) fn new(
        parts: &Parts,
        on: OnDoors,
        worker: u16,
        waker: Waker,
        counters: &Arc<WorkerCounters>,
    ) -> Doors {
        let Parts { terms: DoorTerms { batch, openrtb, spend, fix, keys }, .. } = parts;
        let (bids, calls) = (Arc::clone(openrtb), Arc::clone(spend));
        let (profiles, meanings) = (parts.profiles.clone(), parts.meanings.clone());
        Doors {
            on,
            batch: BatchDoor::new(DoorId::Batch as u8, Arc::clone(batch), counters),
            openrtb: OpenRtbDoor::new(DoorId::OpenRtb as u8, bids, profiles, meanings, counters),
            spend: SpendDoor::new(DoorId::Spend as u8, calls, Arc::clone(counters)),
            fix: FixDoor::new(on, DoorId::Fix as u8, fix, counters),
            keys: KeysDoor::new(keys.as_ref(), worker, waker, counters),
        }
    }
}

/// What the doors of a worker are made of.
pub(crate) struct Parts {
    pub(crate) terms: DoorTerms,
    pub(crate) profiles: Profiles,
    pub(crate) meanings: Arc<dyn Meanings>,
}

/// What the doors of all workers are set to.
#[derive(Clone, Debug)]
pub(crate) struct DoorTerms {
    batch: Arc<BatchTerms>,
    openrtb: Arc<BidTerms>,
    spend: Arc<SpendTerms>,
    fix: Arc<FixTerms>,
    keys: Option<Arc<KeysTerms>>,
}

impl DoorTerms {
    /// Reads them from a configuration. `addresses` are where the doors listen, by place; `None` for one that is off. `keys` is what
    /// [`keys_gate::open`] opened, `fix_known` what the journal knows of FIX sessions, `rest` the cores that workers leave.
    ///
    /// # Errors
    /// The part of the configuration that a door cannot use.
    pub(crate) fn new(
        config: &Config,
        addresses: &[Option<SocketAddr>],
        tokens: &Tokens,
        now_ms: u64,
        (keys, fix_known): (Option<Arc<KeysTerms>>, FixKnown),
        rest: &[usize],
    ) -> Result<DoorTerms, StartError> {
        // A door that is off is judged as one on loopback, and asked by nobody.
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = |door: DoorId| addresses[door as usize].unwrap_or(nowhere);
        let fix_is_on = addresses[DoorId::Fix as usize].is_some();
        let tokens = |name| tokens.of(name).cloned();
        let bids = BidTerms::new(config, address(DoorId::OpenRtb)).map_err(StartError::OpenRtb)?;
        let calls = SpendTerms::new(config, address(DoorId::Spend), tokens(SpendDoor::NAME));
        let fix = FixTerms::new(config, fix_is_on, now_ms, (fix_known, rest));
        let fix = fix.map_err(StartError::Fix)?;
        Ok(DoorTerms {
            batch: Arc::new(BatchTerms::new(config, tokens(BatchDoor::NAME))),
            openrtb: Arc::new(bids),
            spend: Arc::new(calls.map_err(StartError::Spend)?),
            fix: Arc::new(fix),
            keys,
        })
    }
}

/// Opens the keys behind their door; see [`keys_gate::open`].
///
/// # Errors
/// What the door cannot have, and what to do.
pub(crate) fn open_keys(
    config: &Config,
    addresses: &[Option<SocketAddr>],
    tokens: &Tokens,
    cores: &Placement,
    carrier: Option<Carrier>,
) -> Result<(Option<Arc<KeysTerms>>, KeysThreads), StartError> {
    let (address, tokens) = (addresses[DoorId::Keys as usize], tokens.of(KeysDoor::NAME));
    keys_gate::open(config, address, tokens, cores, carrier).map_err(StartError::Keys)
}

impl DoorTerms {
    /// Where the doors are reached from outside, by these workers, each with the doors that it has.
    pub(crate) fn desks<'w>(
        &self,
        mut workers: impl Iterator<Item = (OnDoors, &'w Handle)>,
    ) -> Desks {
        let home = workers.find(|(on, _)| on.has(DoorId::Fix as usize));
        let fix = home.and_then(|(_, handle)| self.fix.desk(handle.waker()));
        let exchanges = self.openrtb.exchanges().clone();
        Desks { fix, vault: self.keys.as_deref().map(KeysTerms::desk), exchanges }
    }
}

/// Where people reach what stands behind doors; `None` where the door is off.
#[derive(Debug)]
pub(crate) struct Desks {
    /// FIX sessions.
    pub(crate) fix: Option<FixDesk>,
    /// The keys of the vault.
    pub(crate) vault: Option<KeysDesk>,
    /// Exchanges of the OpenRTB door, also where that is off.
    pub(crate) exchanges: ExchangeDesk,
}

#[cfg(test)]
mod echo;

const _: () = assert!(
    DOORS.len() == weir_config::doors::DOORS.len() && DOORS.len() <= 16,
    "the doors of a worker are those of the configuration, and a reply has four bits for them"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doors_of_a_worker_are_those_of_the_configuration() {
        let configured = weir_config::doors::DOORS.map(|door| door.name);
        assert_eq!(DOORS.iter().map(|door| door.name).collect::<Vec<_>>(), configured);
        assert_eq!((DoorId::Batch as u8, DoorId::OpenRtb as u8, DoorId::Spend as u8), (0, 1, 2));
        assert_eq!((DoorId::Fix as u8, DoorId::Keys as u8), (3, 4));
    }
}
