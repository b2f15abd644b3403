//! A budget as it is now: how it stood at the last survey, with its configuration of this moment on top, so that a
//! change can be seen in the answer to it.

use money::{Amount, Instant, Unit};
use serde_json::Value;

use super::Parts;
use super::answer::BudgetWhole;
use super::extract::Named;
use crate::model::{Flags, Pacing};
use crate::node::Fields;
use crate::problem::{Kind, Problem};
use crate::query::Row;
use crate::{Budget, Reason, State, Status};

/// A budget with its configuration of now.
pub(super) struct Fresh {
    budget: Budget,
    state: State,
    config: Fields,
    /// The pattern of the template that it was made from.
    template: Option<Box<str>>,
}

impl Parts {
    /// The budget as it is now.
    pub(super) fn fresh(&self, id: u64) -> Result<Fresh, Problem> {
        let view = self.board.view();
        let config = self.node.fields(id);
        let row = view.row(id);
        let template = row.and_then(|row| row.template).map(Box::from);
        let known = row.map(|row| (row.budget.clone(), *row.state));
        let (Some(config), known) = (config, known) else {
            return Err(Problem::no_budget(id));
        };
        // One that was made since the survey is not on the board yet.
        let (mut budget, mut state) = known.unwrap_or_else(|| unseen(id, &config, view.as_of_ms));
        let newer = self.node.revision(id).filter(|revision| *revision != budget.revision);
        if let Some(revision) = newer {
            overlay(&mut budget, &mut state, &config);
            budget.revision = revision;
        }
        Ok(Fresh { budget, state, config, template })
    }

    /// The id of the budget that is meant. One that ended is found by its handle as long as no live one has it.
    pub(super) fn id_of(&self, name: &Named) -> Result<u64, Problem> {
        let handle = match name {
            Named::Id(id) => return Ok(*id),
            Named::Handle(handle) => handle,
        };
        let unknown = || {
            Problem::new(Kind::Unknown, format!("there is no budget with the handle {handle:?}"))
        };
        let ended = || {
            let view = self.board.view();
            let mut all = view.budgets.iter().zip(view.states.iter());
            let named = |(budget, state): &(&Budget, &State)| {
                state.status == Status::Ended && budget.handle.as_ref() == Some(handle)
            };
            all.find(named).map(|(budget, _)| budget.id)
        };
        self.node.id_of(handle).or_else(ended).ok_or_else(unknown)
    }

    /// A budget's name and its unit, also of one that ended, or that no survey has met yet.
    pub(super) fn name_and_unit(&self, id: u64) -> Option<(String, String)> {
        let of = |budget: &Budget| (budget.name.to_string(), budget.unit.to_string());
        let view = self.board.view();
        let known = view.row(id).map(|row| of(row.budget));
        known.or_else(|| self.fresh(id).ok().map(|fresh| of(&fresh.budget)))
    }

    /// All that is known of a budget, with its amounts as at the moment of its lines.
    pub(super) fn whole<'a>(&self, fresh: &'a mut Fresh) -> BudgetWhole<'a> {
        let detail = self.node.detail(fresh.budget.id).unwrap_or_default();
        let template = fresh.template.as_deref();
        if let Some(now) = detail.amounts {
            fresh.state = with_amounts(fresh.state, &now);
        }
        let row = Row { budget: &fresh.budget, state: &fresh.state, template };
        let spark = self.board.spark(fresh.budget.id);
        let source = self.node.source(fresh.budget.id);
        BudgetWhole::new(row, fresh.config.clone(), source, spark.known(), detail)
    }
}

impl Fresh {
    /// The unit of its amounts.
    pub(super) fn unit(&self) -> Unit {
        self.budget.unit
    }

    /// Its ETag.
    pub(super) fn etag(&self) -> String {
        etag(self.budget.revision)
    }
}

/// A revision as an ETag.
pub(super) fn etag(revision: u64) -> String {
    format!("\"{revision}\"")
}

fn text<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.get(name).and_then(Value::as_str)
}

/// How it stood at the last survey, with the amounts of now. The limits are those of its configuration.
fn with_amounts(state: State, now: &State) -> State {
    State {
        flags: now.flags.with(Flags::EDITED, state.flags.has(Flags::EDITED)),
        limit: state.limit,
        daily: state.daily,
        status: state.status,
        reason: state.reason,
        since_ms: state.since_ms,
        top_refusal: state.top_refusal,
        spend_minute: state.spend_minute,
        asks: state.asks,
        grants: state.grants,
        refusals: state.refusals,
        top_refusals: state.top_refusals,
        counted: state.counted,
        ..*now
    }
}

/// A budget that no survey has met.
fn unseen(id: u64, config: &Fields, now_ms: u64) -> (Budget, State) {
    let usd = || Unit::parse("USD").unwrap_or(Unit::Count);
    let parent = config.get("parent").and_then(|parent| match parent {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    });
    let budget = Budget {
        id,
        name: format!("budget {id}").into(),
        handle: text(config, "handle").map(Into::into),
        unit: text(config, "unit").and_then(|unit| Unit::parse(unit).ok()).unwrap_or_else(usd),
        parent,
        campaign: false,
        start_ms: None,
        end_ms: None,
        zone: text(config, "tz").unwrap_or("UTC").into(),
        pacing: Pacing::default(),
        // No revision is this: the configuration is put on top.
        revision: u64::MAX,
    };
    (budget, State { since_ms: now_ms, ..State::default() })
}

/// Puts the configuration on top of what the survey met.
fn overlay(budget: &mut Budget, state: &mut State, config: &Fields) {
    let unit = budget.unit;
    budget.handle = text(config, "handle").map(Into::into);
    let amount = |name| text(config, name).and_then(|text| unit.parse_amount(text).ok());
    let instant =
        |name| text(config, name).and_then(|text| Instant::parse(text).ok()).map(Instant::ms);
    if let Some(name) = text(config, "name") {
        budget.name = name.into();
    }
    if let Some(pacing) = text(config, "pacing").and_then(Pacing::parse) {
        budget.pacing = pacing;
    }
    (budget.start_ms, budget.end_ms) = (instant("start"), instant("end"));
    state.daily = amount("daily");
    if let Some(limit) = amount("limit") {
        let out = Amount::total([state.spent, state.held]).unwrap_or(Amount::ZERO);
        state.available = limit.checked_sub(out).unwrap_or(Amount::ZERO);
        state.limit = limit;
    }
    let paused = text(config, "status") == Some("paused");
    match (paused, state.status) {
        (true, Status::Ended) => {}
        (true, _) => (state.status, state.reason) = (Status::Paused, Reason::Owner),
        // The next survey finds out how it really stands.
        (false, Status::Paused) => (state.status, state.reason) = (Status::Active, Reason::None),
        (false, _) => {}
    }
}
