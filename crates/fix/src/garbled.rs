//! Why bytes are no message.

/// What is wrong with bytes that are ignored as garbled: no answer, and the sequence number does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Garbled {
    /// The bytes do not begin with `8=FIX`, or BeginString does not end.
    #[error("no BeginString: a message begins with 8=FIX and its version")]
    NoBeginString,
    /// The second field is another than BodyLength.
    #[error("the second field is not BodyLength (9)")]
    BodyLengthNotSecond,
    /// BodyLength has something else than 1 to 10 digits.
    #[error("BodyLength (9) is no number")]
    BodyLengthNoNumber,
    /// BodyLength does not lead to CheckSum.
    #[error("BodyLength (9) does not lead to CheckSum (10)")]
    BodyLength,
    /// CheckSum is not three digits between 000 and 255.
    #[error("CheckSum (10) is not three digits between 000 and 255")]
    CheckSumNoNumber,
    /// CheckSum is another than the sum of the bytes before it.
    #[error("CheckSum (10) is wrong")]
    CheckSum,
    /// The third field is another than MsgType.
    #[error("the third field is not MsgType (35)")]
    MsgTypeNotThird,
    /// A field has no `=`, or what stands before it is no number without leading zeros of at most nine digits.
    #[error("the field at byte {at} does not begin with a tag and =")]
    Tag {
        /// Where the field begins, from the start of the message.
        at: u32,
    },
    /// The message has more fields than the index has room for.
    #[error("the message has more than {fields_max} fields")]
    TooManyFields {
        /// The room of the index.
        fields_max: u32,
    },
}
