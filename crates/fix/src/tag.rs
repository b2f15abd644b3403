//! Tags that the engine itself knows, and sets of tags.

/// The number of a field: 1 to 999,999,999. 0 stands for a tag that is a number but no field's: `0` itself, or a negative one.
pub type Tag = u32;

/// BeginString, the first field.
pub const BEGIN_STRING: Tag = 8;
/// BodyLength, the second field.
pub const BODY_LENGTH: Tag = 9;
/// CheckSum, the last field.
pub const CHECK_SUM: Tag = 10;
/// MsgSeqNum.
pub const MSG_SEQ_NUM: Tag = 34;
/// MsgType, the third field.
pub const MSG_TYPE: Tag = 35;
/// PossDupFlag.
pub const POSS_DUP_FLAG: Tag = 43;
/// SenderCompID.
pub const SENDER_COMP_ID: Tag = 49;
/// SendingTime.
pub const SENDING_TIME: Tag = 52;
/// TargetCompID.
pub const TARGET_COMP_ID: Tag = 56;
/// Signature, of the trailer.
pub const SIGNATURE: Tag = 89;
/// SignatureLength, of the trailer.
pub const SIGNATURE_LENGTH: Tag = 93;
/// OrigSendingTime.
pub const ORIG_SENDING_TIME: Tag = 122;
/// LastMsgSeqNumProcessed.
pub const LAST_MSG_SEQ_NUM_PROCESSED: Tag = 369;

/// Fields of the standard header of FIX 4.2, 4.4 and FIXT 1.1 (the members of its group NoHops, 627, with them).
const HEADER: [u16; 34] = [
    8, 9, 34, 35, 43, 49, 50, 52, 56, 57, 90, 91, 97, 115, 116, 122, 128, 129, 142, 143, 144, 145,
    212, 213, 347, 369, 370, 627, 628, 629, 630, 1128, 1129, 1156,
];

/// Reports whether a field belongs to the standard header. ApplVerID (1128), CstmApplVerID (1129) and ApplExtID (1156) do in FIXT 1.1;
/// OnBehalfOfSendingTime (370) did in FIX 4.2. DefaultApplVerID (1137) belongs to the body of a Logon and does not count.
#[must_use]
pub fn is_header(tag: Tag) -> bool {
    HEADER_WORDS.get(tag as usize / 64).is_some_and(|word| word >> (tag % 64) & 1 == 1)
}

/// Reports whether a field belongs to the standard trailer: 10, 89, 93.
#[must_use]
pub fn is_trailer(tag: Tag) -> bool {
    matches!(tag, CHECK_SUM | SIGNATURE | SIGNATURE_LENGTH)
}

const HEADER_WORDS: [u64; 19] = words(&HEADER);

const fn words(tags: &[u16]) -> [u64; 19] {
    let (mut words, mut at) = ([0; 19], 0);
    while at < tags.len() {
        words[tags[at] as usize / 64] |= 1 << (tags[at] % 64);
        at += 1;
    }
    words
}

/// Which fields say the length of the data field behind them, whose value may hold any byte, SOH and `=` too.
///
/// [`DataFields::standard`] has those of FIX 4.2, 4.4, FIXT 1.1 and 5.0 SP2; a dictionary may add its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFields {
    /// Bit `tag % 64` of word `tag / 64 % 16`: a tag whose bit is not set is no length field. One that is set may be one.
    pub(crate) filter: [u64; 16],
    /// (length field, data field), ascending.
    pairs: Vec<(u16, u16)>,
}

/// Every field of type DATA or XMLDATA with the length field that comes before it.
const STANDARD: [(u16, u16); 28] = [
    (90, 91),
    (93, 89),
    (95, 96),
    (212, 213),
    (348, 349),
    (350, 351),
    (352, 353),
    (354, 355),
    (356, 357),
    (358, 359),
    (360, 361),
    (362, 363),
    (364, 365),
    (445, 446),
    (618, 619),
    (621, 622),
    (1184, 1185),
    (1277, 1278),
    (1280, 1281),
    (1282, 1283),
    (1359, 1360),
    (1397, 1398),
    (1401, 1402),
    (1403, 1404),
    (1468, 1469),
    (1525, 1527),
    (1618, 1619),
    (1620, 1621),
];

impl DataFields {
    /// Returns the pairs of the published versions.
    #[must_use]
    pub fn standard() -> DataFields {
        let mut fields = DataFields { filter: [0; 16], pairs: Vec::new() };
        for (length, data) in STANDARD {
            fields.add(length, data);
        }
        fields
    }

    /// Adds a pair: the value of `data`, which comes directly behind `length`, has that many bytes. A later pair of a length field
    /// replaces an earlier one.
    pub fn add(&mut self, length: u16, data: u16) {
        self.filter[usize::from(length) / 64 % 16] |= 1 << (length % 64);
        match self.pairs.binary_search_by_key(&length, |pair| pair.0) {
            Ok(at) => self.pairs[at].1 = data,
            Err(at) => self.pairs.insert(at, (length, data)),
        }
    }

    /// Returns the data field that comes behind a length field.
    #[must_use]
    pub fn data_of(&self, length: u16) -> Option<u16> {
        if !self.may_be_length(length) {
            return None;
        }
        let at = self.pairs.binary_search_by_key(&length, |pair| pair.0).ok()?;
        self.pairs.get(at).map(|pair| pair.1)
    }

    /// Reports whether a field is the data half of a pair.
    #[must_use]
    pub fn is_data(&self, tag: Tag) -> bool {
        self.pairs.iter().any(|pair| Tag::from(pair.1) == tag)
    }

    pub(crate) fn may_be_length(&self, tag: u16) -> bool {
        self.filter[usize::from(tag) / 64 % 16] >> (tag % 64) & 1 == 1
    }
}

impl Default for DataFields {
    fn default() -> DataFields {
        DataFields::standard()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_found_and_no_other() {
        let fields = DataFields::standard();
        for tag in 0..=u16::MAX {
            let wanted = STANDARD.iter().find(|pair| pair.0 == tag).map(|pair| pair.1);
            assert_eq!(fields.data_of(tag), wanted, "{tag}");
        }
        assert!(fields.is_data(89) && fields.is_data(96) && !fields.is_data(95));
    }

    #[test]
    fn header_fields_are_those_of_the_standard_header() {
        let header: Vec<Tag> = (0..70_000).filter(|tag| is_header(*tag)).collect();
        assert_eq!(header, HEADER.map(Tag::from));
        assert!(!is_header(1137));
        assert!(is_trailer(10) && is_trailer(93) && !is_trailer(9));
    }
}
