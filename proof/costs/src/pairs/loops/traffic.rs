//! What client and server of a loop say to each other.

use std::io::Write as _;

use door_transport::Out;
use fix::{Envelope, Framing, Index, Sending, frame};

const MESSAGE_BYTES: usize = 64;
const ANSWER_BYTES: usize = 32;
/// Numbers of orders begin here, so that all have the same length.
const FIRST: u64 = 1_000_000;
/// An order is no longer, before and behind the server.
const ORDER_BYTES_MAX: usize = 512;
const TIME: &[u8; 21] = b"20261123-10:15:30.123";
const ID: &[u8] = b"\x0111=ORD-";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// Messages that begin with their number; so do the answers.
    Numbers,
    /// FIX orders, which come back.
    Orders,
}

impl Traffic {
    pub(super) fn name(self) -> String {
        match self {
            Traffic::Numbers => {
                format!("messages of {MESSAGE_BYTES} bytes, answers of {ANSWER_BYTES}")
            }
            Traffic::Orders => format!(
                "FIX orders of {} bytes, each framed, summed, indexed and sent back with another header",
                order(FIRST).len()
            ),
        }
    }

    /// Appends the message of a number.
    pub(super) fn put(self, number: u64, to: &mut Vec<u8>) {
        match self {
            Traffic::Numbers => {
                to.extend_from_slice(&number.to_le_bytes());
                to.resize(to.len() + MESSAGE_BYTES - 8, 0);
            }
            Traffic::Orders => to.extend_from_slice(&order(FIRST + number)),
        }
    }

    pub(super) fn answer_bytes(self) -> usize {
        match self {
            Traffic::Numbers => ANSWER_BYTES,
            // The same CompIDs and the same digits: only the number, the time and the checksum are others.
            Traffic::Orders => order(FIRST).len(),
        }
    }

    /// The number of a message or an answer.
    pub(super) fn number_of(self, bytes: &[u8]) -> u64 {
        if self == Traffic::Numbers {
            return bytes.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
        }
        let id = bytes.windows(ID.len()).position(|part| part == ID);
        let digits = id.and_then(|at| bytes.get(at + ID.len()..)?.first_chunk::<7>());
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        digits.map_or(0, |number: u64| number.saturating_sub(FIRST))
    }
}

fn order(number: u64) -> Vec<u8> {
    let body = format!(
        "35=D|34={number}|49=CLIENT1|52=20261123-10:15:30.000|56=GATE|50=TRADER7|11=ORD-{number}|1=ACCT-1234|55=MSFT|207=XNAS|54=1|\
         60=20261123-10:15:30.123|38=12345|40=2|44=1234.5678|59=0|15=USD|21=1|58=desk eleven|"
    )
    .replace('|', "\x01");
    let mut message = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
    let sum = fix::sum(&message);
    // A Vec takes all that is written.
    let _ = write!(message, "10={sum:03}\x01");
    message
}

/// The server's part.
#[derive(Debug)]
pub(super) struct Answers {
    traffic: Traffic,
    index: Index,
    envelope: Envelope,
    seq: u64,
}

impl Answers {
    pub(super) fn new(traffic: Traffic) -> Answers {
        let envelope = Envelope::new("FIX.4.4", "CLIENT1", "GATE");
        let envelope = envelope.expect("values without SOH");
        Answers { traffic, index: Index::new(64), envelope, seq: FIRST }
    }

    /// Answers all whole messages; returns how many bytes and messages these were.
    pub(super) fn put(&mut self, input: &[u8], out: &mut Out<'_>) -> (usize, u64) {
        match self.traffic {
            Traffic::Numbers => numbers(input, out),
            Traffic::Orders => self.orders(input, out),
        }
    }

    fn orders(&mut self, input: &[u8], out: &mut Out<'_>) -> (usize, u64) {
        let (mut used, mut count) = (0, 0);
        while let Framing::Whole(whole) = frame(&input[used..], ORDER_BYTES_MAX) {
            used += whole.bytes().len();
            let Ok(message) = self.index.read(whole) else { continue };
            self.seq += 1;
            let sending = Sending { seq: self.seq, time: TIME, first_sent: None };
            let room = out.reserve(ORDER_BYTES_MAX);
            // One that was not written is missed by the client.
            let len = self.envelope.write(&message, sending, room).unwrap_or(0);
            out.commit(len);
            count += 1;
        }
        (used, count)
    }
}

fn numbers(input: &[u8], out: &mut Out<'_>) -> (usize, u64) {
    let (messages, rest) = input.as_chunks::<MESSAGE_BYTES>();
    let answers = out.reserve(messages.len() * ANSWER_BYTES);
    for (message, answer) in messages.iter().zip(answers.as_chunks_mut::<ANSWER_BYTES>().0) {
        answer.copy_from_slice(&message[..ANSWER_BYTES]);
    }
    out.commit(messages.len() * ANSWER_BYTES);
    (input.len() - rest.len(), messages.len() as u64)
}
