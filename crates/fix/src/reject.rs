//! What a session answers to a message that breaks a rule: Reject (35=3).

use crate::tag::Tag;

/// SessionRejectReason (373) with the text (58) that peers expect. Source: FIX 4.4 volume 2, "Reject", and volume 6 for the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// 0: the tag is no field of this version, 0 or negative.
    InvalidTagNumber,
    /// 1: a field that the message needs is missing.
    RequiredTagMissing,
    /// 2: the field exists, but not in this type of message.
    TagNotDefinedForThisMessageType,
    /// 4: nothing stands behind `=`.
    TagWithoutValue,
    /// 5: the value is none of those that the field may have, or leads nowhere.
    ValueIncorrect,
    /// 6: the value has not the form of the field's type.
    IncorrectDataFormat,
    /// 9: SenderCompID or TargetCompID is another than the session's.
    CompIdProblem,
    /// 10: SendingTime is too far away, or before OrigSendingTime.
    SendingTimeAccuracyProblem,
    /// 11: the type of message does not exist in this version.
    InvalidMsgType,
    /// 13: the field appears twice outside a group, or twice in one entry.
    TagAppearsMoreThanOnce,
    /// 14: a field of the header behind the body, or of the body behind the trailer.
    TagOutOfRequiredOrder,
    /// 15: the entries of a group do not begin with their first field.
    GroupFieldsOutOfOrder,
    /// 16: the count of a group is another than that of its entries.
    IncorrectGroupCount,
}

impl RejectReason {
    /// Returns the value of SessionRejectReason.
    #[must_use]
    pub fn code(self) -> u8 {
        self.entry().0
    }

    /// Returns the value of SessionRejectReason in a version; FIX 4.2 knows 0 to 11 only and gets a Reject without 373 for the others.
    #[must_use]
    pub fn code_in(self, begin_string: &[u8]) -> Option<u8> {
        (begin_string != b"FIX.4.2" || self.code() <= 11).then(|| self.code())
    }

    /// Returns the value of Text.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.entry().1
    }

    fn entry(self) -> (u8, &'static str) {
        match self {
            RejectReason::InvalidTagNumber => (0, "Invalid tag number"),
            RejectReason::RequiredTagMissing => (1, "Required tag missing"),
            RejectReason::TagNotDefinedForThisMessageType => {
                (2, "Tag not defined for this message type")
            }
            RejectReason::TagWithoutValue => (4, "Tag specified without a value"),
            RejectReason::ValueIncorrect => (5, "Value is incorrect (out of range) for this tag"),
            RejectReason::IncorrectDataFormat => (6, "Incorrect data format for value"),
            RejectReason::CompIdProblem => (9, "CompID problem"),
            RejectReason::SendingTimeAccuracyProblem => (10, "SendingTime accuracy problem"),
            RejectReason::InvalidMsgType => (11, "Invalid MsgType"),
            RejectReason::TagAppearsMoreThanOnce => (13, "Tag appears more than once"),
            RejectReason::TagOutOfRequiredOrder => (14, "Tag specified out of required order"),
            RejectReason::GroupFieldsOutOfOrder => (15, "Out of order repeating group members"),
            RejectReason::IncorrectGroupCount => {
                (16, "Incorrect NumInGroup count for repeating group")
            }
        }
    }
}

/// Why a message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", reason.text(), tag.map(|tag| format!(" (tag {tag})")).unwrap_or_default())]
pub struct Rejection {
    /// SessionRejectReason and Text.
    pub reason: RejectReason,
    /// RefTagID (371): the field that is wrong or missing, if it is about one. Negative for a negative tag.
    pub tag: Option<i64>,
}

impl Rejection {
    pub(crate) fn of(reason: RejectReason, tag: Tag) -> Rejection {
        Rejection { reason, tag: Some(i64::from(tag)) }
    }
}
