// What must hold for any bytes at all. The fuzz targets call these functions, and so does the test that replays their
// corpora in plain `cargo test`.

use wire::frame::{self, Split};
use wire::{FrameError, Message, Visitor, journal};

/// Longest frame accepted in these checks, in bytes.
const FRAME_LEN_MAX: u32 = 65_536;

/// One frame: split, decode, touch every field.
pub(crate) fn frame_decode(data: &[u8]) {
    let _ = frame::frame_number_hint(data);
    match frame::split(data, FRAME_LEN_MAX) {
        Ok(Split::Frame(whole)) => {
            assert!(whole.len() >= wire::FRAME_LEN_MIN && whole.len() <= data.len());
            decode(whole);
        }
        Ok(Split::Incomplete { need }) => {
            assert!(need > data.len());
            assert!(need <= FRAME_LEN_MAX as usize);
        }
        Err(error) => explain(error),
    }
    decode(data);
}

/// A stream in chunks (the first byte says how long they are) gives the same frames and the same error as in one piece.
pub(crate) fn frame_stream(data: &[u8]) {
    let Some((first, stream)) = data.split_first() else { return };
    let mut whole = Vec::new();
    let whole_end = take_frames(stream, &mut whole);

    let (mut pieces, mut pieces_end) = (Vec::new(), Ok(()));
    let mut waiting = Vec::new();
    for chunk in stream.chunks(usize::from(*first % 64) + 1) {
        waiting.extend_from_slice(chunk);
        let before = pieces.len();
        pieces_end = take_frames(&waiting, &mut pieces);
        let used: usize = pieces[before..].iter().map(Vec::len).sum();
        waiting.drain(..used);
        if pieces_end.is_err() {
            break;
        }
    }
    assert_eq!(whole, pieces);
    assert_eq!(whole_end, pieces_end);
    whole.iter().for_each(|frame| decode(frame));
}

fn take_frames(mut stream: &[u8], frames: &mut Vec<Vec<u8>>) -> Result<(), FrameError> {
    while let Split::Frame(whole) = frame::split(stream, FRAME_LEN_MAX)? {
        frames.push(whole.to_vec());
        stream = &stream[whole.len()..];
    }
    Ok(())
}

fn decode(frame: &[u8]) {
    match Message::decode(frame) {
        Ok(message) => {
            assert_eq!(frame::template_id(frame), Some(message.template_id()));
            touch(|visitor| message.visit(visitor));
            encode_again(&message, frame);
        }
        Err(error) => explain(error),
    }
}

/// Our own encoder gives back the bytes of a frame whose writer had exactly our layout.
fn encode_again(message: &Message<'_>, frame: &[u8]) {
    let Message::Decide(decide) = message else { return };
    let Some(asks) = decide.asks().as_slice() else { return };
    let mut again = vec![0; wire::decide::encoded_len(asks.len())];
    let is_full = "encoded_len says how long it is";
    let encoder = wire::decide::encode(&mut again, decide.block()).expect(is_full);
    // Version and block length may differ from ours, the content may not.
    if asks.len() <= 65_534 {
        encoder.asks(asks).expect(is_full).finish();
        assert_eq!(Message::decode(&again).expect("our own frame").name(), "Decide");
        if frame.len() == again.len() && frame[..14] == again[..14] {
            assert_eq!(frame, again);
        }
    }
}

/// The bytes of one record of the journal, or what a damaged disk made of them: decode, touch every field, and encode
/// those kinds again that have a group or data.
pub(crate) fn journal_decode(data: &[u8]) {
    let message = match journal::Message::decode(data) {
        Ok(message) => message,
        Err(error) => return explain(error),
    };
    assert_eq!(data[2..4], message.template_id().to_le_bytes());
    touch(|visitor| message.visit(visitor));
    let again = match &message {
        journal::Message::StateGrant(grant) => grant_again(grant),
        journal::Message::Operator(operator) => operator_again(operator),
        journal::Message::Edited(edited) => edited_again(edited),
        _ => None,
    };
    // A newer writer may have sent more than is known here.
    let Some(again) = again.filter(|_| data[6..8] == journal::SCHEMA_VERSION.to_le_bytes()) else {
        return;
    };
    assert_eq!(journal::Message::decode(&again).expect("our own record").name(), message.name());
    if again.len() == data.len() && again[..8] == data[..8] {
        assert_eq!(again, data);
    }
}

fn grant_again(grant: &journal::StateGrant<'_>) -> Option<Vec<u8>> {
    let billing = grant.billing().as_slice().filter(|entries| entries.len() <= 65_534)?;
    // Who wrote before these were known wrote other bytes.
    let unconfirmed = grant.unconfirmed()?.as_slice().filter(|entries| entries.len() <= 65_534)?;
    let unbilled = grant.unbilled()?.as_slice().filter(|entries| entries.len() <= 65_534)?;
    let rests = grant.rests()?.as_slice().filter(|entries| entries.len() <= 65_534)?;
    let block = journal::state_grant::Block::new(
        grant.grant(),
        grant.budget_id(),
        grant.billing_ms(),
        grant.out(),
        grant.stage_ms(),
        grant.day0_ms(),
        grant.day1_ms(),
        grant.day2_ms(),
        grant.day3_ms(),
        grant.worker(),
        grant.stage()?,
        grant.keeps()?,
        grant.expired_ms()?,
    );
    let lens = (billing.len(), unconfirmed.len(), unbilled.len(), rests.len());
    let mut again = vec![0; journal::state_grant::encoded_len(lens.0, lens.1, lens.2, lens.3)];
    let encoder = journal::state_grant::encode(&mut again, &block);
    let encoder = encoder.and_then(|e| e.billing(billing)).and_then(|e| e.unconfirmed(unconfirmed));
    let encoder = encoder.and_then(|e| e.unbilled(unbilled)).and_then(|e| e.rests(rests));
    encoder.expect("encoded_len says how long it is").finish();
    Some(again)
}

fn operator_again(operator: &journal::Operator<'_>) -> Option<Vec<u8>> {
    let (who, why) = (operator.who().ok()?, operator.why().ok()?);
    let mut again = vec![0; journal::operator::encoded_len(who.len(), why.len())];
    let encoder = journal::operator::encode(&mut again, operator.block());
    let encoder = encoder.and_then(|e| e.who(who)).and_then(|e| e.why(why));
    encoder.expect("encoded_len says how long it is").finish();
    Some(again)
}

fn edited_again(edited: &journal::Edited<'_>) -> Option<Vec<u8>> {
    let (before, after) = (edited.before().ok()?, edited.after().ok()?);
    let mut again = vec![0; journal::edited::encoded_len(before.len(), after.len())];
    let encoder = journal::edited::encode(&mut again, edited.block());
    let encoder = encoder.and_then(|e| e.before(before)).and_then(|e| e.after(after));
    encoder.expect("encoded_len says how long it is").finish();
    Some(again)
}

fn touch(visit: impl FnOnce(&mut dyn Visitor)) {
    let mut touch = Touch::default();
    visit(&mut touch);
    assert_eq!(touch.entries_seen, touch.entries_said);
}

fn explain(error: FrameError) {
    assert!(!error.to_string().is_empty());
    let _ = error.reason();
}

/// Looks at every byte of every field.
#[derive(Default)]
struct Touch {
    sum: u64,
    entries_said: usize,
    entries_seen: usize,
}

impl Touch {
    fn add(&mut self, bytes: &[u8]) {
        self.sum = bytes
            .iter()
            .fold(self.sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    }
}

impl Visitor for Touch {
    fn number(&mut self, _name: &'static str, value: i128) {
        self.add(&value.to_le_bytes());
    }

    fn choice(&mut self, _name: &'static str, raw: u8, _label: Option<&'static str>) {
        self.add(&[raw]);
    }

    fn bytes(&mut self, _name: &'static str, value: &[u8]) {
        self.add(value);
    }

    fn text(&mut self, _name: &'static str, value: &[u8]) {
        let _ = std::str::from_utf8(value);
        self.add(value);
    }

    fn group(&mut self, _name: &'static str, len: usize) {
        self.entries_said += len;
    }

    fn entry(&mut self) {
        self.entries_seen += 1;
    }

    fn group_end(&mut self) {
        std::hint::black_box(self.sum);
    }
}
