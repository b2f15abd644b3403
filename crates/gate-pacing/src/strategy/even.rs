//! Even: a schedule along a straight line. The line is in the situation: its plan was worked out without a curve.

use super::{Situation, Terms, schedule};

pub(super) fn terms(situation: &Situation) -> Terms {
    schedule::terms(situation)
}
