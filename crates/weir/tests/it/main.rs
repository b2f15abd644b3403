//! Tests of the whole house: the architecture, and the node as its users drive it.
#![allow(clippy::unwrap_used)] // reason: a failed set-up is a failed test
#![allow(clippy::print_stdout)] // reason: what was skipped, and why, is a result

mod admin_tools;
mod architecture;
mod campaign_files;
mod cli;
mod client;
mod costs;
mod costs_stages;
mod crashes;
mod crowds;
mod edits;
mod edits_pacing;
mod failed_start;
mod first_steps;
mod frames;
mod full_disk;
mod golden_data;
mod hammering;
mod journal_cli;
mod metrics;
mod money_rules;
mod openrtb;
mod openrtb_auction;
mod openrtb_caps;
mod openrtb_disk;
mod openrtb_files;
mod openrtb_guard;
mod openrtb_http;
mod openrtb_money;
mod openrtb_notices;
mod principals;
mod reconciling;
mod reload;
mod reloads;
mod requests;
mod rollback;
mod saves;
mod support;
mod tls_doors;
mod tokens;
mod tools;
mod top;
mod waiting;
mod walk;
mod watching;
