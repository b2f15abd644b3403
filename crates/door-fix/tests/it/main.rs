//! What the door promises, driven with byte strings.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod acceptance;
mod adopt;
mod attacks;
mod clients;
mod config;
mod desk;
mod kills;
mod limits;
mod operate;
mod orders;
mod passing;
mod resend;
mod resets;
mod stores;
