//! What a row says of an order beside its amounts, and its bytes.

use gate_orders::Order;

/// What a row says of an order beside its amounts. ClOrdIDs are as the venue has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    /// ClOrdID (11) of the version that the venue has.
    pub(crate) id: &'a [u8],
    /// OrderID (37).
    pub(crate) order_id: &'a [u8],
    /// Account (1).
    pub(crate) account: &'a [u8],
    /// Symbol (55).
    pub(crate) symbol: &'a [u8],
    /// Side (54).
    pub(crate) side: &'a [u8],
    /// TimeInForce (59).
    pub(crate) tif: &'a [u8],
    /// Number of the last version that was sent.
    pub(crate) last: u64,
    /// Versions that wait for the venue's answer: number and ClOrdID.
    pub(crate) waits: Vec<(u64, &'a [u8])>,
    /// The key of its named hold, if budgets bind it.
    pub(crate) key: Option<u128>,
}

pub(crate) fn key_of(id: &[u8], order_id: &[u8]) -> Vec<u8> {
    if id.is_empty() { [b"37=", order_id].concat() } else { [b"11=", id].concat() }
}

/// Beside the number of waiting versions: there is a key.
const HAS_KEY: u8 = 0x80;

impl<'a> Head<'a> {
    /// Reports whether a report of the venue has come.
    pub(crate) fn is_answered(&self, order: &Order) -> bool {
        let executed = order.standing().executed;
        !self.order_id.is_empty() || executed.is_none_or(|executed| executed.mantissa() > 0)
    }

    /// The id that names the order in its book: a ClOrdID, or the OrderID of one whose reports have none.
    pub(crate) fn key(&self) -> Vec<u8> {
        key_of(self.id, self.order_id)
    }

    /// The version of this ClOrdID waits no more. Returns its number.
    pub(crate) fn take_wait(&mut self, id: &[u8]) -> Option<u64> {
        let at = self.waits.iter().position(|wait| wait.1 == id)?;
        Some(self.waits.remove(at).0)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let texts = [self.id, self.order_id, self.account, self.symbol, self.side, self.tif];
        texts.into_iter().for_each(|text| put_text(text, out));
        out.extend_from_slice(&self.last.to_le_bytes());
        let waits = self.waits.len().min(usize::from(!HAS_KEY));
        out.push(u8::try_from(waits).unwrap_or(0) | if self.key.is_some() { HAS_KEY } else { 0 });
        for (number, id) in self.waits.iter().take(waits) {
            out.extend_from_slice(&number.to_le_bytes());
            put_text(id, out);
        }
        if let Some(key) = self.key {
            out.extend_from_slice(&key.to_le_bytes());
        }
    }

    /// Reads a head from the front of the bytes.
    pub(crate) fn take(bytes: &mut &'a [u8]) -> Option<Head<'a>> {
        let mut texts = [&[][..]; 6];
        for text in &mut texts {
            *text = take_text(bytes)?;
        }
        let [id, order_id, account, symbol, side, tif] = texts;
        let (last, [waiting]) = (take_number(bytes)?, take_bytes(bytes)?);
        let mut wait = |_| Some((take_number(bytes)?, take_text(bytes)?));
        let waits = (0..waiting & !HAS_KEY).map(&mut wait).collect::<Option<Vec<_>>>()?;
        let key = match waiting & HAS_KEY {
            0 => None,
            _ => Some(u128::from_le_bytes(take_bytes(bytes)?)),
        };
        Some(Head { id, order_id, account, symbol, side, tif, last, waits, key })
    }
}

/// The OrderID (37) in the bytes of a head, which are read no further.
pub(crate) fn order_id(mut bytes: &[u8]) -> &[u8] {
    take_text(&mut bytes).and_then(|_| take_text(&mut bytes)).unwrap_or_default()
}

/// What does not fit is no id that a message could name, and no text that a person wants to read.
pub(crate) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    let length = u16::try_from(text.len()).unwrap_or(0);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&text[..usize::from(length)]);
}

fn take_bytes<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

pub(crate) fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u16::from_le_bytes(take_bytes(bytes)?);
    let (text, rest) = bytes.split_at_checked(length.into())?;
    *bytes = rest;
    Some(text)
}

pub(crate) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    take_bytes(bytes).map(u64::from_le_bytes)
}
