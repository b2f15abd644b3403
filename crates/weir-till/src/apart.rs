//! What a worker says to the bank beside the messages of its purses.

use std::sync::Arc;

use access::Principal;
use ledger::{Keyed, TimedRequest, ToBank};

use crate::NamedRequest;

/// A message to the bank that no purse sends.
#[derive(Clone, Debug)]
pub struct Apart {
    /// How many of the purses' unsent messages go before it: stamps must rise.
    pub before: usize,
    /// Whose scopes the bank judges before it books, where they limit anything.
    pub limited: Option<Arc<Principal>>,
    /// What is asked.
    pub message: ApartMessage,
}

/// What [`Apart`] asks.
#[derive(Clone, Debug)]
pub enum ApartMessage {
    /// About a request with a key of idempotency, or of a memo.
    Keyed(Keyed),
    /// [`ToBank::Resolve`], of somebody whom scopes limit.
    Resolve(ToBank),
    /// About named holds.
    Named(Box<NamedRequest>),
    /// About a hold that ends by time.
    Timed(Box<TimedRequest>),
}

impl Apart {
    /// Tells whether this scope-limited asker may not name the budget with this id and this handle.
    #[must_use]
    pub fn is_outside(&self, id: u64, handle: Option<&str>) -> bool {
        self.limited.as_ref().is_some_and(|asker| !asker.scopes().allows(id, handle))
    }
}
