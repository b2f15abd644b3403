//! What is known beforehand about a plan's window.

use std::sync::Arc;

use crate::{Landscape, Shape};

/// What is known beforehand about a plan's window; by default nothing. Every part makes the start better and
/// none is needed: the law corrects what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Eligible requests in the window: N. 0 if unknown.
    pub requests: u64,
    /// How they are spread over it; without it, as the plan.
    pub arrivals: Option<Shape>,
    /// What a request will cost at each multiplier: G.
    pub landscape: Option<Arc<Landscape>>,
    /// The multiplier to start from, Q32: the mean of yesterday. Without it, it comes from requests and
    /// landscape.
    pub multiplier_q32: Option<u64>,
}
