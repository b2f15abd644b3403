//! Answers that other threads make, on their way back to the worker whose connection waits for them.

use vault::WipedBytes;

use super::audit::{self, AuditDesk, Told};
use super::keeper::{Asker, Job};
use super::stream::WorkedPiece;
use crate::{Answer, Door, Gate};

/// The answer to a call, owed to the worker that has its connection.
pub(super) type Owed = weir_till::Owed<Late>;
/// Where they arrive.
pub(super) type Arrivals = weir_till::Arrivals<Late>;

/// What other threads make for a worker.
pub(super) enum Late {
    /// The answer to a call.
    Answer(LateAnswer),
    /// What a piece of a stream came to.
    Piece(WorkedPiece),
}

/// An answer that owns its bytes, and wipes them.
#[derive(Debug)]
pub(super) struct LateAnswer {
    pub(super) status: u16,
    pub(super) headers: &'static [u8],
    pub(super) content_type: &'static str,
    pub(super) body: WipedBytes,
    /// Items of a call about keys, and those that failed.
    pub(super) items: Option<(u64, u64)>,
}

impl LateAnswer {
    pub(super) fn of(answer: &Answer<'_>) -> LateAnswer {
        LateAnswer { body: WipedBytes::copy_of(answer.body), ..LateAnswer::around(answer) }
    }

    /// The same without its body.
    fn around(answer: &Answer<'_>) -> LateAnswer {
        let Answer { status, headers, content_type, .. } = *answer;
        let body = WipedBytes::default();
        LateAnswer { status, headers, content_type, body, items: items(answer) }
    }

    /// An answer in the place of one that cannot be given.
    pub(super) fn unavailable(body: &'static [u8]) -> LateAnswer {
        let body = WipedBytes::copy_of(body);
        let (headers, content_type) = (super::RETRY, super::JSON);
        LateAnswer { status: 503, headers, content_type, body, items: None }
    }

    /// The same for whoever owes it.
    pub(super) fn refuse(owed: Owed, body: &'static [u8]) {
        owed.give(Late::Answer(LateAnswer::unavailable(body)));
    }
}

/// Does a call on a thread that may wait, and gives its answer: once its line is written, where it has one. The call comes back where this
/// thread cannot do it.
pub(super) fn answer<G: Gate>(
    door: &mut Door,
    gate: &mut G,
    job: Box<Job>,
    audit: Option<&AuditDesk>,
) -> Result<(), Box<Job>> {
    let caller = job.asker.as_ref().map(Asker::caller);
    let Some(answer) = door.answer(&job.request.request(), caller.as_ref(), gate) else {
        return Err(job);
    };
    let told = job.asker.as_ref().zip(audit).and_then(|(asker, audit)| {
        let line = audit::line(asker.principal.name(), answer.status, &answer.audit);
        line.map(|line| (audit, line))
    });
    let around = LateAnswer::around(&answer);
    let late = Late::Answer(LateAnswer { body: door.take_body(), ..around });
    door.wipe();
    match told {
        Some((audit, line)) => audit.wait(Told { line, answer: Some((job.owed, late)) }),
        None => job.owed.give(late),
    }
    Ok(())
}

/// Items of a call about keys, and those that failed.
pub(super) fn items(answer: &Answer<'_>) -> Option<(u64, u64)> {
    answer.audit.verb.map(|_| (answer.audit.items, answer.audit.failed))
}
