//! What the keys door counts.

use counters::{Counter, counters};

counters! {
    /// Counters of one worker.
    #[derive(Debug, Default)]
    pub struct KeysCounts of Counter, in "doors.keys" {
        calls: "Calls about keys, answered with whatever status.";
        items: "Items of these calls: plaintexts, sealed messages, tags; 1 of a call without a batch.";
        items_failed: "Items that failed, each with an error of its own.";
        denied: "Requests answered 403: no token, one that nobody has, or one whose role or scopes do not allow it.";
        limited: "Requests answered 429: the token had made its calls of this second (`keys.rate_per_s`).";
        busy: "Requests answered 503 because too many waited (`keys.calls_waiting_max`).";
        by_keeper: "Calls that the keeper did: changes of keys, and calls that began a block of messages.";
        by_pool: "Calls that were too large for a worker to do by itself: the pool's.";
        gathered: "Of the calls that were too large, those whose bodies of more than 256 KiB were put together as they arrived.";
        bodies_slow: "Bodies that arrived in parts and did not come on for `transport.partial_ms_max`, so that their connections were closed.";
        streams: "Bulk streams that came in pieces.";
        streams_cut: "Of these, those that ended early: a fault, or a client that was gone.";
        clients_gone: "Calls whose client was gone when the answer was there.";
        of_pages: "Requests of pages in browsers, and under names that the door does not have; refused.";
        refused_http: "Requests that are no sound HTTP.";
        changes_failed: "Changes of keys that could not be made durable; the calls were answered 503.", failing("keys_changes", "/docs/vault.md#alarms");
        audit_failures: "Times that the audit could no longer be written, so that calls about keys were refused.", failing("keys_audit", "/docs/vault.md#alarms");
        audit_dropped: "Files of the audit that were removed before their time, because `keys.audit_bytes_max` had no room.", failing("keys_audit_dropped", "/docs/vault.md#alarms");
    }
}

impl KeysCounts {
    /// A request has its answer; `items`: of a call about keys, with those that failed.
    pub(super) fn tell(&self, status: u16, items: Option<(u64, u64)>) {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        self.denied.add(usize::from(status == 403));
        if let Some((items, failed)) = items {
            self.calls.add(1);
            self.items.add(count(items));
            self.items_failed.add(count(failed));
        }
    }
}
