//! The vault for the admin API: names, versions and counts of its keys.

use door_keys::gate::counts::KeysCounts;
use door_keys::gate::desk::KeyStanding;
use watch::vault::{Vault, VaultKey, VaultPage};

use crate::admin::Status;

/// How the vault stands, with a page of its keys.
pub(super) fn vault(status: &Status, page: &VaultPage) -> Vault {
    let Some(desk) = status.vault() else { return Vault::default() };
    let found = desk.standing(&page.after, page.max);
    let counters = status.counters();
    let sum =
        |count: &dyn Fn(&KeysCounts) -> u64| counters.iter().map(|worker| count(worker.of())).sum();
    let keys: Vec<VaultKey> = found.keys.into_iter().map(shown).collect();
    Vault {
        listen: Some(desk.listen().to_string()),
        sealed: found.sealed,
        count: found.count as u64,
        calls: sum(&|keys| keys.calls.get()),
        items: sum(&|keys| keys.items.get()),
        items_failed: sum(&|keys| keys.items_failed.get()),
        denied: sum(&|keys| keys.denied.get()),
        next: keys.last().filter(|_| found.more).map(|last| last.name.clone()),
        keys,
    }
}

fn shown(key: KeyStanding) -> VaultKey {
    VaultKey {
        name: key.name,
        kind: key.kind.to_owned(),
        latest_version: key.latest,
        versions: key.versions as u64,
        min_decryption_version: key.policy.min_decryption,
        rotated_ms: key.rotated_s.saturating_mul(1_000),
        rotates_every_s: Some(key.policy.auto_rotate_s).filter(|period| *period > 0),
        messages: key.messages.map(|(used, _)| used),
        messages_max: key.messages.map(|(_, max)| max),
        exportable: key.policy.exportable,
        deletion_allowed: key.policy.deletion_allowed,
        soft_deleted: key.policy.soft_deleted,
    }
}
