//! FIX sessions for the admin API: asked of the worker that has them, acts recorded before they are done.

use serde_json::json;
use watch::fix::{FixAct, FixChange, FixDurability, FixError, FixKind, FixSession, FixState};
use watch::node::{Action, AuditSession, Fields};
use weir_edits::{Edits, SessionDeed};
use weir_node::doors::fix::desk::{self, FixDesk, Standing};

/// How all sessions stand.
pub(super) fn sessions(desk: Option<&FixDesk>) -> Result<Vec<FixSession>, FixError> {
    let Some(desk) = desk else { return Ok(Vec::new()) };
    Ok(desk.sessions().map_err(told)?.into_iter().map(shown).collect())
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
    let may_be_done = |error: &desk::FixError| *error == desk::FixError::Silent;
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
    }
}
