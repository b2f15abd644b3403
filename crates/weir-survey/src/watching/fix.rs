//! FIX sessions for the admin API: asked of the worker that has them, acts recorded before they are done.

use std::ops::ControlFlow;
use std::path::Path;

use door_fix::gate::desk::{self, FixDesk, Leg, LegAmounts, Phase, Size, Standing};
use door_fix::gate::kill::{Kill, KillScope};
use fix_store::{Direction, Kept, Place, read_history_from, session_names};
use money::Amount;
use serde_json::json;
use watch::fix::{
    FixAct, FixChange, FixDirection, FixDurability, FixError, FixKill, FixKillChange, FixKillScope,
    FixKills, FixKind, FixMessage, FixMessages, FixOrder, FixOrderState, FixOrders, FixPage,
    FixSession, FixState,
};
use watch::node::{Action, AuditSession, Fields};
use weir_edits::{Edits, SessionDeed};

/// A page of messages ends with the one that makes it larger.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// How all sessions stand.
pub(super) fn sessions(desk: Option<&FixDesk>) -> Result<Vec<FixSession>, FixError> {
    let Some(desk) = desk else { return Ok(Vec::new()) };
    Ok(desk.sessions().map_err(told)?.into_iter().map(shown).collect())
}

/// A page of messages from the files in `folder`, which the worker may be writing.
pub(super) fn messages(
    folder: &Path,
    session: &str,
    page: &FixPage,
) -> Result<FixMessages, FixError> {
    let failed = |error: fix_store::OpenError| FixError::NotReady(error.to_string());
    let known = if folder.exists() { session_names(folder).map_err(failed)? } else { Vec::new() };
    if !known.iter().any(|name| name == session) {
        let error = desk::FixError::Unknown { name: session.to_owned(), known };
        return Err(FixError::Unknown(error.to_string()));
    }
    let from = page.cursor.map_or(Place::default(), |(segment, offset)| Place { segment, offset });
    let us = |ms: u64| i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
    let to_us = page.to_ms.map_or(i64::MAX, us);
    let (mut found, mut bytes, mut next) = (FixMessages::default(), 0, from);
    read_history_from(folder, session, from, page.from_ms.map_or(i64::MIN, us), |kept| {
        if found.messages.len() >= page.max || bytes >= PAGE_BYTES_MAX {
            found.next = Some(format!("{}:{}", next.segment, next.offset));
            return ControlFlow::Break(());
        }
        next = kept.next;
        if kept.at_us < to_us {
            bytes += kept.message.map_or(0, written_bytes);
            found.messages.push(message(&kept));
        }
        ControlFlow::Continue(())
    })
    .map_err(failed)?;
    Ok(found)
}

/// How many pages of the worker one of ours is made of at most.
const ORDER_PAGES_MAX: usize = 16;

/// A page of orders, of those that a budget binds where one is named. The worker gives few at once, so that nothing waits for it.
pub(super) fn orders(
    desk: Option<&FixDesk>,
    mut from: u64,
    max: usize,
    budget: Option<u64>,
) -> Result<FixOrders, FixError> {
    let mut found = FixOrders::default();
    let Some(desk) = desk else { return Ok(found) };
    for _ in 0..ORDER_PAGES_MAX {
        let (orders, next) = desk.orders(from, max - found.orders.len()).map_err(told)?;
        let is_meant = |order: &desk::OrderView| {
            budget.is_none_or(|id| order.legs.iter().any(|(leg, _)| leg.budget == id))
        };
        found.orders.extend(orders.into_iter().filter(is_meant).map(order));
        found.next = next.map(|next| next.to_string());
        match next {
            Some(next) if found.orders.len() < max => from = next,
            _ => break,
        }
    }
    Ok(found)
}

fn order(order: desk::OrderView) -> FixOrder {
    let said = |text: String| Some(text).filter(|text| !text.is_empty());
    let standing = order.standing;
    let (quantity, price) = match standing.size {
        Some(Size::Quantity { quantity, price }) => {
            (Some(quantity.to_string()), (price.mantissa() > 0).then(|| price.to_string()))
        }
        Some(Size::Cash(_)) | None => (None, None),
    };
    FixOrder {
        session: order.session,
        venue: order.venue,
        cl_ord_id: order.cl_ord_id,
        order_id: said(order.order_id),
        account: said(order.account),
        symbol: said(order.symbol),
        side: said(order.side),
        quantity,
        price,
        cum: standing.executed.map(|number| number.to_string()),
        leaves: standing.open.map(|number| number.to_string()),
        state: match order.phase {
            Phase::Closed => FixOrderState::Closed,
            _ if order.is_in_doubt => FixOrderState::InDoubt,
            _ if order.is_replacing => FixOrderState::Replacing,
            _ => FixOrderState::Open,
        },
        hold: of_legs(&order.legs, |of| Some(of.hold)),
        booked: of_legs(&order.legs, LegAmounts::booked),
    }
}

/// An amount of each budget that binds an order, by the budget's id; nothing of an order that none binds.
fn of_legs(
    legs: &[(Leg, LegAmounts)],
    amount: impl Fn(&LegAmounts) -> Option<Amount>,
) -> Option<serde_json::Value> {
    let of = |(leg, of): &(Leg, LegAmounts)| {
        let text = amount(of).map(|amount| leg.unit.format(amount));
        (leg.budget.to_string(), text.into())
    };
    (!legs.is_empty()).then(|| serde_json::Value::Object(legs.iter().map(of).collect()))
}

/// About how many bytes a message takes in an answer: each SOH is `\u0001` there.
fn written_bytes(message: &[u8]) -> usize {
    message.len() + 5 * message.iter().filter(|byte| byte.is_ascii_control()).count()
}

fn message(kept: &Kept<'_>) -> FixMessage {
    let text = kept.message.map(std::str::from_utf8);
    let is_text = matches!(text, None | Some(Ok(_)));
    let hex = kept.message.filter(|_| !is_text);
    FixMessage {
        at_us: u64::try_from(kept.at_us).unwrap_or(0),
        direction: match kept.direction {
            Direction::In => FixDirection::In,
            Direction::Out => FixDirection::Out,
        },
        message: text.and_then(Result::ok).map(str::to_owned),
        hex: hex.map(|bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
    }
}

/// Records and does something; returns how the session stands then.
pub(super) fn act(
    desk: Option<&FixDesk>,
    edits: &Edits,
    change: FixChange,
) -> Result<FixSession, FixError> {
    let find = || {
        let found = sessions(desk)?;
        let names: Vec<String> = found.iter().map(|one| one.name.clone()).collect();
        let session = found.into_iter().find(|one| one.name == change.session);
        session.ok_or_else(|| {
            let error = desk::FixError::Unknown { name: change.session.clone(), known: names };
            FixError::Unknown(error.to_string())
        })
    };
    let before = find()?;
    let Some(desk) = desk else { return Ok(before) };
    let (action, asked) = asked(change.act);
    let session = AuditSession {
        name: change.session.clone(),
        before: numbers(before.next_out, before.next_in),
        after: after(change.act),
    };
    let deed = SessionDeed { who: change.who.into(), why: change.why.into(), action, session };
    let act = || desk.act(&change.session, asked);
    let may_be_done = |error: &desk::FixError| {
        matches!(error, desk::FixError::Silent | desk::FixError::NotInJournal)
    };
    edits.act_on_session(deed, act, may_be_done)?.map_err(told)?;
    find()
}

/// Whose orders are stopped.
pub(super) fn kills(desk: Option<&FixDesk>) -> Result<FixKills, FixError> {
    let Some(desk) = desk else { return Ok(FixKills::default()) };
    let scope = |scope| match scope {
        KillScope::Session => FixKillScope::Session,
        KillScope::Account => FixKillScope::Account,
        KillScope::Firm => FixKillScope::Firm,
    };
    let shown = |view: door_fix::gate::kill::KillView| {
        let Kill { scope: of, name, reason, who, at_ms } = view.kill;
        let (sealed, sessions) = (view.is_sealed, view.sessions);
        let who = Some(who).filter(|who| !who.is_empty());
        FixKill { scope: scope(of), name, reason, who, at_ms, sealed, sessions }
    };
    Ok(FixKills { kills: desk.kills().map_err(told)?.into_iter().map(shown).collect() })
}

/// Stops orders and records it, or records that they pass again and lets them. A kill waits for no disk: it is in force before it is recorded.
pub(super) fn kill(
    desk: Option<&FixDesk>,
    edits: &Edits,
    change: FixKillChange,
) -> Result<FixKills, FixError> {
    let off = || FixError::Unknown("the FIX door is off: there are no orders to stop".into());
    let desk = desk.ok_or_else(off)?;
    let FixKillChange { who, has_token, why, scope, name, stops } = change;
    let scope = match scope {
        FixKillScope::Session => KillScope::Session,
        FixKillScope::Account => KillScope::Account,
        FixKillScope::Firm => KillScope::Firm,
    };
    let action = if stops { Action::FixKill } else { Action::FixEnable };
    let orders = |word: &str| Fields::from_iter([("orders".into(), json!(word))]);
    let (before, after) = match stops {
        true => (Fields::new(), orders("stopped")),
        false => (orders("stopped"), Fields::new()),
    };
    let session = AuditSession { name: format!("{} {name}", scope.name()), before, after };
    let deed = SessionDeed { who: who.to_string(), why: why.to_string(), action, session };
    let who = if has_token { String::from(who) } else { String::new() };
    let may_be_done = |error: &desk::FixError| {
        matches!(error, desk::FixError::Silent | desk::FixError::KillNotSealed)
    };
    if stops {
        let done = desk.kill(Kill { scope, name, reason: why.into(), who, at_ms: 0 });
        if done.as_ref().is_err_and(|error| !may_be_done(error)) {
            return done.map_err(told).and_then(|()| kills(Some(desk)));
        }
        let recorded = edits.act_on_session(deed, || Ok::<_, desk::FixError>(()), may_be_done);
        done.map_err(told)?;
        recorded.map(drop).map_err(not_audited)?;
    } else {
        let enable = || desk.enable(scope, name, who);
        edits.act_on_session(deed, enable, may_be_done)?.map_err(told)?;
    }
    kills(Some(desk))
}

/// A kill is in force whatever the audit's disk does.
fn not_audited(error: watch::node::EditError) -> FixError {
    let why = error.to_string();
    let why = why.strip_prefix("nothing was done: ").unwrap_or(&why);
    FixError::NotReady(format!(
        "the orders are stopped, but the audit cannot record who did it: {why}"
    ))
}

/// What is asked of the worker, and how the audit calls it.
fn asked(act: FixAct) -> (Action, desk::FixAct) {
    match act {
        FixAct::Sequence { next_out, next_in } => {
            (Action::FixSequence, desk::FixAct::Sequence { next_out, next_in })
        }
        FixAct::Reset => (Action::FixReset, desk::FixAct::Reset),
        FixAct::Resend { from, to } => (Action::FixResend, desk::FixAct::Resend { from, to }),
        FixAct::LogOut => (Action::FixLogout, desk::FixAct::LogOut),
    }
}

/// What the audit shows beside the numbers before.
fn after(act: FixAct) -> Fields {
    match act {
        FixAct::Sequence { next_out, next_in } => numbers(next_out, next_in),
        FixAct::Reset => numbers(1, 1),
        FixAct::Resend { from, to } => {
            Fields::from_iter([("from".into(), json!(from)), ("to".into(), json!(to))])
        }
        FixAct::LogOut => Fields::new(),
    }
}

fn numbers(next_out: u64, next_in: u64) -> Fields {
    let numbers = [("next_out", next_out), ("next_in", next_in)];
    numbers.into_iter().map(|(name, number)| (name.to_string(), json!(number))).collect()
}

fn told(error: desk::FixError) -> FixError {
    let text = error.to_string();
    match error {
        desk::FixError::Unknown { .. } => FixError::Unknown(text),
        desk::FixError::LoggedOn => FixError::LoggedOn(text),
        desk::FixError::NotLoggedOn => FixError::NotLoggedOn(text),
        desk::FixError::Number { field, found, expected } => {
            FixError::Unfit(field, found, expected)
        }
        desk::FixError::NotKilled(..) => FixError::Unknown(text),
        desk::FixError::OwnKill(_) => FixError::Forbidden(text),
        desk::FixError::NotTaken
        | desk::FixError::NotInJournal
        | desk::FixError::KillNotSealed
        | desk::FixError::StillKilled
        | desk::FixError::TooManyKills => FixError::NotReady(text),
        desk::FixError::Store(_) => FixError::NotReady(format!("nothing was done: {text}")),
        desk::FixError::Silent => FixError::NotReady(format!(
            "{text}: what was asked for may still be done; GET /v1/fix/sessions shows it"
        )),
    }
}

fn shown(session: desk::FixSession) -> FixSession {
    FixSession {
        name: session.name,
        kind: if session.is_venue { FixKind::Venue } else { FixKind::Client },
        begin_string: session.begin_string,
        sender_comp_id: session.sender_comp_id,
        target_comp_id: session.target_comp_id,
        state: match session.state {
            Standing::Waiting => FixState::Waiting,
            Standing::LoggingOn => FixState::LoggingOn,
            Standing::LoggedOn => FixState::LoggedOn,
            Standing::Resending => FixState::Resending,
            Standing::LoggingOut => FixState::LoggingOut,
            Standing::OutOfSchedule => FixState::OutOfSchedule,
        },
        next_out: session.next_out,
        next_in: session.next_in,
        address: session.address.map(|address| address.to_string()),
        last_in_ms: session.last_in_ms,
        last_out_ms: session.last_out_ms,
        route: session.route,
        durability: match session.is_sealed {
            true => FixDurability::Sealed,
            false => FixDurability::Written,
        },
        gaps: session.gaps,
        messages_in: session.messages_in,
        messages_out: session.messages_out,
        latency_p50_us: session.latency_p50_p99_us.map(|[p50, _]| p50),
        latency_p99_us: session.latency_p50_p99_us.map(|[_, p99]| p99),
    }
}
