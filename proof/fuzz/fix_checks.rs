// What must hold for any bytes that a FIX peer sends. The fuzz target calls this function, and so does the test that replays its corpus
// in plain `cargo test`.

use fix::{
    DataFields, Decimal, Dictionary, Envelope, Framing, Index, Message, Sending, Simd, Timestamp,
    Validation, frame, sum,
};

const BODY_BYTES_MAX: usize = 8_192;
const FIELDS_MAX: usize = 256;

/// The bytes as they are, and each of their lines as the body of a message whose length and sum are right: so that what stands behind
/// the frame is reached.
pub(crate) fn fix_parse(bytes: &[u8]) {
    stream(bytes);
    let lines = bytes.split(|byte| *byte == b'\n');
    let framed: Vec<u8> = lines.flat_map(|line| message(&bars_to_soh(line))).collect();
    stream(&framed);
}

/// Seeds are written with bars, as people do.
fn bars_to_soh(line: &[u8]) -> Vec<u8> {
    line.iter().map(|byte| if *byte == b'|' { 1 } else { *byte }).collect()
}

fn message(body: &[u8]) -> Vec<u8> {
    let mut message = format!("8=FIX.4.4\x019={}\x01", body.len()).into_bytes();
    message.extend_from_slice(body);
    message.extend_from_slice(format!("10={:03}\x01", sum(&message)).as_bytes());
    message
}

/// Every message of a stream, whatever stands between them; reading always comes forward.
fn stream(mut bytes: &[u8]) {
    loop {
        match frame(bytes, BODY_BYTES_MAX) {
            Framing::Partial { more } => return assert!(more > 0),
            Framing::TooLong { body_bytes } => return assert!(body_bytes > BODY_BYTES_MAX as u64),
            Framing::Ignored { skip, .. } => {
                assert!(skip > 0 && skip <= bytes.len());
                bytes = &bytes[skip..];
            }
            Framing::Whole(whole) => {
                let length = whole.bytes().len();
                assert!(bytes.starts_with(whole.bytes()) && length > 0);
                read_in_all_ways(whole);
                bytes = &bytes[length..];
            }
        }
    }
}

/// Every way of reading finds the same fields.
fn read_in_all_ways(whole: fix::Frame<'_>) {
    let mut first = None;
    for simd in Simd::all() {
        let mut index = Index::with(FIELDS_MAX, simd, DataFields::standard());
        let found = index.read(whole).map(|message| {
            let fields = message.fields().map(|field| (field.tag, field.value.to_vec()));
            let fields: Vec<_> = fields.collect();
            look(&message);
            (fields, message.fault())
        });
        let first = first.get_or_insert_with(|| found.clone());
        assert_eq!(*first, found, "{}", simd.name());
    }
}

fn look(message: &Message<'_>) {
    for field in message.fields() {
        if let Ok(decimal) = Decimal::parse(field.value) {
            assert_eq!(
                Decimal::parse(decimal.to_string().as_bytes()).as_ref().map(|d| d.at_places(18)),
                Ok(decimal.at_places(18))
            );
        }
        std::hint::black_box(Timestamp::parse(field.value));
        assert!(message.find(field.tag).is_some());
    }
    for dictionary in [Dictionary::fix42(), Dictionary::fix44(), Dictionary::fixt11_fix50sp2()] {
        let judged = Validation::Full(&dictionary).check(message);
        assert_eq!(judged, Validation::Full(&dictionary).check(message));
        std::hint::black_box(Validation::Structure.check(message).is_ok());
    }
    rewrite(message);
}

/// What is passed on is a whole message again.
fn rewrite(message: &Message<'_>) {
    let envelope = Envelope::new("FIX.4.4", "GATE", "VENUE").expect("plain texts");
    let sending = Sending { seq: 7, time: b"20261123-10:15:30.000", first_sent: None };
    let mut out = vec![0; 2 * BODY_BYTES_MAX];
    let Ok(length) = envelope.write(message, sending, &mut out) else { return };
    let Framing::Whole(again) = frame(&out[..length], 2 * BODY_BYTES_MAX) else {
        panic!("what was written is no message: {:?}", String::from_utf8_lossy(&out[..length]))
    };
    assert_eq!(again.bytes().len(), length);
}
