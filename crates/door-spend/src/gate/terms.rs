//! What the spend door is set to.

use std::net::SocketAddr;

use access::LiveTokens;
use ledger::keyed::{CLAIM_WAITERS_MAX, CLAIMS_MAX};
use weir_config::config::Config;
use weir_config::doors::{hosts, spend_limits};
use weir_till::OPENINGS_MAX;

use super::waiting::ENTRIES_A_PLACE;
use crate::ReadLimits;

/// Which limit was met where a call is answered `busy`, with what it is set to.
#[derive(Debug)]
pub(super) struct Full {
    pub(super) openings: String,
    pub(super) templates: String,
    pub(super) keys: String,
    pub(super) calls: String,
    pub(super) pages: String,
    pub(super) rows: String,
    pub(super) grants: String,
}

impl Full {
    fn new(config: &Config) -> Full {
        let (spend, budgets, ledger) = (&config.spend, &config.budgets, &config.ledger);
        Full {
            openings: format!(
                "{OPENINGS_MAX} calls of this worker wait for budgets to be made from templates, which is the most; ask again"
            ),
            templates: format!(
                "no further budget is made from a template: budgets.templates_max ({}) are live, or budgets.templates_under_max \
                 ({}) under its parent; ask again, or raise the limit",
                budgets.templates_max, budgets.templates_under_max
            ),
            keys: format!(
                "no further Idempotency-Key is taken: spend.keys_max ({}) answers are kept for spend.keys_keep_s ({}), half of them this \
                 caller's while others have some, {CLAIMS_MAX} calls with keys are under way, or {CLAIM_WAITERS_MAX} wait for this one; ask again",
                spend.keys_max, spend.keys_keep_s
            ),
            calls: format!(
                "spend.calls_waiting_max ({}) calls of this worker wait for the bank, or {ENTRIES_A_PLACE} times as many entries of batches with \
                 them; ask again",
                spend.calls_waiting_max
            ),
            pages: format!(
                "ledger.mark_pages_max ({}) pages of marks are in use; ask again, or raise the limit",
                ledger.mark_pages_max
            ),
            rows: format!(
                "no further hold of several budgets or with an end of its own is taken: as many are open as there may be, or \
                 ledger.mark_pages_max ({}) pages of marks are in use; ask again, or raise the limit",
                ledger.mark_pages_max
            ),
            grants: format!(
                "no further purse is filled: ledger.grants_max ({}) grants are open, or the budget ends at this moment; ask again",
                ledger.grants_max
            ),
        }
    }
}

/// The door's settings, the same for all workers.
#[derive(Debug)]
pub struct SpendTerms {
    pub(super) settings: crate::Settings,
    pub(super) tokens: Option<LiveTokens>,
    pub(super) wait_ms: u64,
    pub(super) waiting_max: usize,
    pub(super) over_factor_max: u64,
    pub(super) full: Full,
}

impl SpendTerms {
    /// Of a door that listens on an address.
    ///
    /// # Errors
    /// The part of the configuration that cannot be used.
    pub fn new(
        config: &Config,
        address: SocketAddr,
        tokens: Option<LiveTokens>,
    ) -> Result<SpendTerms, String> {
        let s = &config.spend;
        let read = ReadLimits {
            hold_ms_max: u32::try_from(config.ledger.hold_ms).unwrap_or(u32::MAX),
            confirm_ms_max: u32::try_from(config.ledger.billing_ms).unwrap_or(u32::MAX),
            entries_max: s.batch_max.into(),
        };
        let http = spend_limits(config);
        http.check().map_err(|error| error.to_string())?;
        let hosts = hosts(&s.hosts, "", address).map_err(|error| format!("hosts: {error}"))?;
        let settings = crate::Settings { http, hosts, read };
        let (wait_ms, waiting_max) = (s.wait_ms, s.calls_waiting_max);
        let (over_factor_max, full) = (s.over_factor_max, Full::new(config));
        Ok(SpendTerms { settings, tokens, wait_ms, waiting_max, over_factor_max, full })
    }
}
