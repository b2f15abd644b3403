//! Messages for tests, written with `|` for SOH.

use fix::{Frame, Framing, Index, Message, frame, sum};

/// Larger than any message of these tests.
pub(crate) const BODY_BYTES_MAX: usize = 65_536;

/// The bytes of a message from its first field and what follows BodyLength; adds 9 and 10.
pub(crate) fn made(begin: &str, body: &str) -> Vec<u8> {
    made_of_bytes(begin, body.replace('|', "\x01").as_bytes())
}

/// The same for a body that may hold any bytes.
pub(crate) fn made_of_bytes(begin: &str, body: &[u8]) -> Vec<u8> {
    let mut message = format!("8={begin}\x019={}\x01", body.len()).into_bytes();
    message.extend_from_slice(body);
    let sum = sum(&message);
    message.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
    message
}

/// The frame of bytes that are one whole message.
pub(crate) fn whole(bytes: &[u8]) -> Frame<'_> {
    match frame(bytes, BODY_BYTES_MAX) {
        Framing::Whole(frame) => {
            assert_eq!(frame.bytes(), bytes);
            frame
        }
        other => panic!("{other:?}: {}", String::from_utf8_lossy(bytes)),
    }
}

/// The fields as text, `tag=value|` each.
pub(crate) fn text(message: &Message<'_>) -> String {
    let fields = message.fields().enumerate().map(|(at, field)| {
        let tag = String::from_utf8_lossy(message.tag_text_at(at).unwrap()).into_owned();
        format!("{tag}={}|", String::from_utf8_lossy(field.value).replace('\x01', "<SOH>"))
    });
    fields.collect()
}

/// Every index there is, one per way of this processor.
pub(crate) fn indexes() -> Vec<Index> {
    fix::Simd::all().map(|simd| Index::with(512, simd, fix::DataFields::standard())).collect()
}

/// A NewOrderSingle of 223 bytes and 22 fields, as gateways send it; `seed` changes its ids, price and quantity, never its length.
pub(crate) fn order(seed: u32) -> Vec<u8> {
    let id = 10_000_000 + seed % 80_000_000;
    let body = format!(
        "35=D|49=CLIENT1|56=GATE|34={:05}|52=20261123-10:15:30.123|50=TRADER7|11=ORD-{id}|1=ACCT-{:04}|55=MSFT|207=XNAS|54={}|\
         60=20261123-10:15:30.122|38={}|40=2|44={}.{:04}|59=0|15=USD|21=1|58=desk eleven|",
        10_000 + seed % 80_000,
        seed % 10_000,
        1 + seed % 2,
        100 + seed % 900,
        100 + seed % 900,
        seed % 10_000,
    );
    made("FIX.4.4", &body)
}
