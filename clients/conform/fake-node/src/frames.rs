//! The frames that a node reads and writes.

use wire::{decided, extended, found, pong, refused, resolved, welcome};

use crate::play::Output;
use crate::scenario::{Answer, NodeScript};

/// The longest frame that is accepted, in bytes.
pub(crate) const FRAME_BYTES_MAX: u32 = 1 << 20;

/// One ask.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) request_id: u64,
    pub(crate) budget: u64,
    pub(crate) amount: i64,
    pub(crate) user: u64,
    pub(crate) unit: [u8; 4],
    pub(crate) pod: u16,
    pub(crate) reserved: u16,
}

impl From<&wire::decide::Ask> for Ask {
    fn from(ask: &wire::decide::Ask) -> Ask {
        Ask {
            request_id: ask.request_id(),
            budget: ask.budget_id(),
            amount: ask.amount(),
            user: ask.user_id(),
            unit: ask.unit(),
            pod: ask.pod(),
            reserved: ask.reserved(),
        }
    }
}

/// The action of a later end, which has a message of its own; its amount is the time in ms.
pub(crate) const EXTEND: u8 = 4;

/// One confirm, settle, release or later end.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) token: [u8; 32],
    pub(crate) amount: i64,
    pub(crate) action: u8,
    pub(crate) request_id: u64,
}

impl From<wire::resolve::ItemView<'_>> for Entry {
    fn from(item: wire::resolve::ItemView<'_>) -> Entry {
        Entry {
            token: *item.token(),
            amount: item.amount(),
            action: item.action_raw(),
            request_id: item.request_id().unwrap_or(0),
        }
    }
}

impl From<&wire::extend::Hold> for Entry {
    fn from(hold: &wire::extend::Hold) -> Entry {
        let (token, amount) = (*hold.token(), i64::from(hold.confirm_ms()));
        Entry { token, amount, action: EXTEND, request_id: 0 }
    }
}

impl Entry {
    /// The name of its action.
    pub(crate) fn name(&self) -> &'static str {
        if self.action == EXTEND {
            return "extend";
        }
        wire::Action::from_raw(self.action).map_or("unknown action", wire::Action::name)
    }
}

/// Runs an encoder over a buffer that is long enough.
fn written(
    len: usize,
    encode: impl FnOnce(&mut [u8]) -> Result<usize, wire::EncodeError>,
) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let used = encode(&mut bytes).unwrap_or(0);
    bytes.truncate(used);
    bytes
}

pub(crate) fn welcome(script: &NodeScript, node: usize) -> Vec<u8> {
    let node = u16::try_from(node).unwrap_or(u16::MAX);
    let (version, batch_max) = (script.version, script.batch_max);
    let block =
        welcome::Block::new(version, node, 1, batch_max, 0, FRAME_BYTES_MAX, 15_000, 3_600_000, 0);
    written(welcome::encoded_len(), |buf| Ok(welcome::encode(buf, &block)?.finish()))
}

pub(crate) fn found(frame: u64, verdict: u8, budget: u64) -> Vec<u8> {
    let mut block = found::Block::new(frame, budget, *b"COUN", wire::Verdict::Granted);
    block.set_verdict_raw(verdict);
    written(found::encoded_len(), |buf| Ok(found::encode(buf, &block)?.finish()))
}

pub(crate) fn pong(frame: u64) -> Vec<u8> {
    let block = pong::Block::new(frame, 0);
    written(pong::encoded_len(), |buf| Ok(pong::encode(buf, &block)?.finish()))
}

pub(crate) fn refused(frame: u64, reason: u8) -> Vec<u8> {
    let mut block = refused::Block::new(frame, wire::Reason::Malformed);
    block.set_reason_raw(reason);
    let detail = "the script says so";
    written(refused::encoded_len(detail.len()), |buf| {
        Ok(refused::encode(buf, &block)?.detail(detail)?.finish())
    })
}

pub(crate) fn decided(frame: u64, answers: &[(u8, [u8; 32])]) -> Vec<u8> {
    let block = decided::Block::new(frame, 1);
    written(decided::encoded_len(answers.len()), |buf| {
        let (entries, encoder) = decided::encode(buf, &block)?.answers_mut(answers.len())?;
        for (entry, (verdict, token)) in entries.iter_mut().zip(answers) {
            entry.set_verdict_raw(*verdict);
            entry.set_token(*token);
        }
        Ok(encoder.finish())
    })
}

pub(crate) fn resolved(frame: u64, answers: &[(u8, bool)]) -> Vec<u8> {
    let block = resolved::Block::new(frame);
    written(resolved::encoded_len(answers.len()), |buf| {
        let (entries, encoder) = resolved::encode(buf, &block)?.answers_mut(answers.len())?;
        for (entry, (verdict, repeat)) in entries.iter_mut().zip(answers) {
            entry.set_verdict_raw(*verdict);
            let flag = wire::ResolvedFlags::REPEAT;
            entry.set_flags(if *repeat { flag } else { wire::ResolvedFlags::NONE });
        }
        Ok(encoder.finish())
    })
}

/// The answers to later ends; their deadlines count from 0.
pub(crate) fn extended(frame: u64, entries: &[Entry], answers: &[(u8, bool)]) -> Vec<u8> {
    let block = extended::Block::new(frame);
    let answers = entries.iter().zip(answers).map(|(entry, (verdict, repeat))| {
        let flags = if *repeat { wire::ResolvedFlags::REPEAT } else { wire::ResolvedFlags::NONE };
        let deadline_ms = entry.amount.unsigned_abs();
        let mut answer = extended::Answer::new(wire::Verdict::Extended, flags, deadline_ms);
        answer.set_verdict_raw(*verdict);
        answer
    });
    let answers: Vec<extended::Answer> = answers.collect();
    written(extended::encoded_len(answers.len()), |buf| {
        Ok(extended::encode(buf, &block)?.answers(&answers)?.finish())
    })
}

/// The bytes of hexadecimal digits; what is no pair of digits is left out.
pub(crate) fn from_hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks_exact(2).filter_map(pair).collect()
}

/// The deliveries of one answer.
pub(crate) fn deliver(bytes: Vec<u8>, answer: &Answer, outputs: &mut Vec<Output>) {
    let mut bytes = if answer.newer { newer(&bytes) } else { bytes };
    if let Some(cut) = answer.cut {
        bytes.truncate(cut);
    }
    if answer.twice {
        outputs.push(Output::Send(bytes.clone(), answer.pieces));
    }
    outputs.push(Output::Send(bytes, answer.pieces));
}

/// Bytes that a later version adds to blocks and entries.
const ADDED: [u8; 3] = [0xA5; 3];

/// A message as a later version of the schema would write it: its block and the entries of its group are longer, and another group
/// follows. Only for messages with at most one group and no data.
fn newer(frame: &[u8]) -> Vec<u8> {
    let number =
        |at: usize| frame.get(at..at + 2).map_or(0, |two| u16::from_le_bytes([two[0], two[1]]));
    let block_len = number(6);
    let block_end = 14 + usize::from(block_len);
    let mut bytes = frame[..block_end].to_vec();
    bytes.extend(ADDED);
    bytes[6..8].copy_from_slice(&(block_len + 3).to_le_bytes());
    bytes[12..14].copy_from_slice(&99_u16.to_le_bytes());
    if frame.len() > block_end {
        let (entry_len, count) = (number(block_end), number(block_end + 2));
        bytes.extend((entry_len + 3).to_le_bytes());
        bytes.extend(count.to_le_bytes());
        for entry in frame[block_end + 4..].chunks_exact(usize::from(entry_len).max(1)) {
            bytes.extend(entry);
            bytes.extend(ADDED);
        }
    }
    bytes.extend([2, 0, 1, 0, 0xA5, 0xA5]);
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Message;

    #[test]
    fn a_later_version_can_still_be_read() {
        let old = decided(7, &[(0, [9; 32]), (8, [0; 32])]);
        let new = newer(&old);
        assert!(new.len() > old.len());
        let Ok(Message::Decided(decided)) = Message::decode(&new) else { panic!("no Decided") };
        let verdicts: Vec<u8> =
            decided.answers().iter().map(|answer| answer.verdict_raw()).collect();
        assert_eq!((decided.frame(), verdicts), (7, vec![0, 8]));
        let new = newer(&welcome(&NodeScript::default(), 3));
        let Ok(Message::Welcome(welcome)) = Message::decode(&new) else { panic!("no Welcome") };
        assert_eq!((welcome.node(), welcome.batch_max()), (3, 1000));
    }

    #[test]
    fn hexadecimal_digits_are_bytes() {
        assert_eq!(from_hex("00 ff1"), [0, 255]);
    }
}
