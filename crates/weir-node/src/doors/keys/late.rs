//! Answers that other threads make, on their way back to the worker whose connection waits for them.

use door_keys::Answer;
use vault::WipedBytes;

use super::audit::{self, AuditDesk, Told};
use super::keeper::Asker;
use super::stream::WorkedPiece;

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
        let body = WipedBytes::copy_of(answer.body);
        let Answer { status, headers, content_type, .. } = *answer;
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

/// Gives an answer that a thread made which may wait: once its line is written, where it has one.
pub(super) fn give(
    answer: &Answer<'_>,
    asker: Option<&Asker>,
    audit: Option<&AuditDesk>,
    owed: Owed,
) {
    let late = Late::Answer(LateAnswer::of(answer));
    let told = asker.zip(audit).and_then(|(asker, audit)| {
        let line = audit::line(asker.principal.name(), answer.status, &answer.audit);
        line.map(|line| (audit, line))
    });
    match told {
        Some((audit, line)) => audit.wait(Told { line, answer: Some((owed, late)) }),
        None => owed.give(late),
    }
}

/// Items of a call about keys, and those that failed.
pub(super) fn items(answer: &Answer<'_>) -> Option<(u64, u64)> {
    answer.audit.verb.map(|_| (answer.audit.items, answer.audit.failed))
}
