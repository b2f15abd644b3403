//! Properties of plans, and whole days of simulated traffic under each of them.

mod days;
mod laws;
