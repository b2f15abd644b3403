//! Traffic: a schedule along an hourly curve. The curve is in the situation: its plan was worked out with it.

use super::{Situation, Terms, schedule};

pub(super) fn terms(situation: &Situation) -> Terms {
    schedule::terms(situation)
}
