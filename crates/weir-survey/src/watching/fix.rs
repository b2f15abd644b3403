//! FIX sessions for the admin API: asked of the worker that has them, acts recorded before they are done.

use std::ops::ControlFlow;
use std::path::Path;

use door_fix::gate::desk::{self, FixDesk, Leg, LegAmounts, Phase, Size, Standing};
use fix_store::{Direction, Kept, Place, read_history_from, session_names};
use money::Amount;
use serde_json::json;
use watch::fix::{
    FixAct, FixChange, FixDirection, FixDurability, FixError, FixKind, FixMessage, FixMessages,
    FixOrder, FixOrderState, FixOrders, FixPage, FixSession, FixState,
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
        desk::FixError::NotTaken | desk::FixError::NotInJournal => FixError::NotReady(text),
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
