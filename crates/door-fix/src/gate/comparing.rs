//! The ledger's holds of orders and the books of venues, compared before a worker runs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use fix_store::{Checkpoint, FileStores, Options};
use ledger::NamedSay;
use weir_config::config::Config;
use weir_door::NamedRows;
use xxhash_rust::xxh3::xxh3_64;

use super::{checkpoints, entries, lines};

/// Returns which start of the machine this is; a number of its own where nobody knows.
pub(super) fn boot() -> u32 {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| {
        let mut random = [0; 16];
        // Zeros are one start as good as another: what left in it is doubtful in all others.
        let _ = getrandom::fill(&mut random);
        random.into()
    });
    u32::try_from(xxh3_64(&id) >> 32).unwrap_or(0).max(1)
}

/// How many holds the comparison of this start left in doubt, until the worker that has the door counts them.
static DOUBTFUL: AtomicUsize = AtomicUsize::new(0);

/// Orders of books whose amounts the comparison of this start left unsaid, by their keys.
static UNSAID: Mutex<Vec<u128>> = Mutex::new(Vec::new());

/// Takes how many holds are in doubt.
pub(super) fn take_doubtful() -> usize {
    DOUBTFUL.swap(0, Ordering::Relaxed)
}

/// Takes the orders whose amounts are unsaid.
pub(super) fn take_unsaid() -> Vec<u128> {
    std::mem::take(&mut UNSAID.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Says what of the ledger's holds differs from the books. What nobody can say is told in the log.
pub(super) fn compare(config: &Config, rows: &NamedRows<'_>) -> Result<Vec<NamedSay>, String> {
    let is_limited = config.arrays.fix_session.iter().any(|one| one.limits == "budgets");
    if !is_limited && rows.holds().next().is_none() {
        return Ok(Vec::new());
    }
    let sessions = entries::sessions(config).map_err(|errors| lines(&errors))?;
    let known = checkpoints::known(rows.memos());
    let told = |error: fix_store::OpenError| format!("fix: {error}");
    let folder = config.node.data_dir.join("fix");
    let mut stores = FileStores::open(&folder, Options::default()).map_err(told)?;
    for (name, durability) in sessions.stores() {
        stores.add(name, durability, 0).map_err(told)?;
    }
    let names: Vec<String> = sessions.stores().map(|(name, _)| name.to_owned()).collect();
    let is_behind = |stores: &mut FileStores<_>, at: usize| {
        let Some(then) = known.get(&names[at]) else { return false };
        let memo = stores.kept(at);
        memo.is_none_or(|memo| {
            Checkpoint { name: names[at].clone(), memo, is_set: false }.is_behind(&then.memo)
        })
    };
    let compared = crate::compare(&sessions, &mut stores, is_behind, rows.holds(), boot());
    DOUBTFUL.store(compared.doubtful.len() + compared.unsaid.len(), Ordering::Relaxed);
    *UNSAID.lock().unwrap_or_else(PoisonError::into_inner) =
        compared.unsaid.iter().map(|say| say.key).collect();
    for say in &compared.unsaid {
        let (order, key) = (&say.label, format!("{:032x}", say.key));
        tracing::error!(
            %order,
            key,
            "FIX: the ledger holds nothing for an order of which the book of its venue has amounts, and may have booked them before: they are not booked again. Compare the order with the venue"
        );
    }
    for hold in &compared.doubtful {
        let (order, key) = (&hold.label, format!("{:032x}", hold.key));
        tracing::error!(
            %order,
            key,
            "FIX: the ledger holds money for an order of which the book of its venue cannot say whether it left: the hold stays. Compare the order with the venue"
        );
    }
    Ok(compared.says)
}
