//! All ways to read a message give the same answers.

use crate::made::{BODY_BYTES_MAX, indexes, made_of_bytes, text};
use fix::{Fault, Framing, Garbled, Simd, frame};
use proptest::prelude::*;

/// Bytes of which many mean something to the parser.
fn busy_bytes(len_max: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => Just(1_u8), 4 => Just(b'='), 8 => b'0'..=b'9', 3 => any::<u8>()];
    proptest::collection::vec(byte, 0..len_max)
}

/// Fields that are often good, sometimes data fields, sometimes broken.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let tag = prop_oneof![
        Just("95".to_string()),
        Just("96".to_string()),
        Just("354".to_string()),
        Just("355".to_string()),
        Just("1401".to_string()),
        (1_u32..100_000).prop_map(|tag| tag.to_string()),
        "-?[0-9]{0,11}",
        "[0-9a=]{0,9}",
    ];
    let value =
        prop_oneof![(0_u32..20).prop_map(|n| n.to_string()), "[ -~]{0,12}", "[\x01=0-9]{0,6}"];
    let field = (tag, value).prop_map(|(tag, value)| format!("{tag}={value}\x01"));
    proptest::collection::vec(field, 0..80).prop_map(|fields| fields.concat().into_bytes())
}

/// Fields of which each has a tag of at most four digits, so that one pass may read them all; one may be a data field, or longer.
fn short_fields() -> impl Strategy<Value = Vec<u8>> {
    let tag =
        prop_oneof![4 => 1_u32..1_000, 2 => 1_000_u32..10_000, 1 => Just(95), 1 => Just(1401)];
    let field = (tag, "[ -~]{0,20}").prop_map(|(tag, value)| format!("{tag}={value}\x01"));
    let last = prop_oneof![9 => Just(String::new()), 1 => "[0-9]{0,6}=x\x01"];
    (proptest::collection::vec(field, 0..60), last)
        .prop_map(|(fields, last)| (fields.concat() + &last).into_bytes())
}

fn oracle(bytes: &[u8]) -> Vec<u32> {
    let ends = (1_u32..).zip(bytes).filter(|(_, byte)| **byte == 1);
    ends.map(|(end, _)| end).collect()
}

#[test]
fn the_fastest_way_is_first_and_the_portable_one_last() {
    let names: Vec<&str> = Simd::all().map(Simd::name).collect();
    assert_eq!(Simd::best().name(), names[0]);
    assert_eq!(names.last(), Some(&"portable"));
    println!("ways of this processor: {names:?}");
}

/// Every length up to four blocks and a bit, at every alignment to a block; SOH before and behind must not be found.
#[test]
fn all_ways_find_the_same_ends_at_every_length_and_alignment() {
    let room: Vec<u8> = (0..512_u32)
        .map(|at| if at.wrapping_mul(2_654_435_761) >> 29 == 0 { 1 } else { b'x' })
        .collect();
    for simd in Simd::all() {
        let mut ends = [0; 600];
        for from in 0..64 {
            for len in 0..280 {
                let bytes = &room[from..from + len];
                let found = simd.field_ends(bytes, &mut ends).unwrap();
                assert_eq!(ends[..found], oracle(bytes), "{} {from} {len}", simd.name());
            }
        }
    }
}

/// Messages of nothing but SOH, and a room that is just enough or one short.
#[test]
fn ends_without_room_are_refused() {
    for simd in Simd::all() {
        for len in [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 200] {
            let bytes = vec![1; len];
            let mut ends = vec![0; len];
            assert_eq!(simd.field_ends(&bytes, &mut ends), Some(len), "{}", simd.name());
            assert_eq!(ends, oracle(&bytes));
            if len > 0 {
                assert_eq!(simd.field_ends(&bytes, &mut ends[1..]), None, "{} {len}", simd.name());
            }
        }
    }
}

type Answer = Result<(String, Vec<u32>, Option<Fault>), Garbled>;

fn answers(bytes: &[u8]) -> Vec<Answer> {
    let Framing::Whole(frame) = frame(bytes, BODY_BYTES_MAX) else { panic!("no whole message") };
    let read = |index: &mut fix::Index| {
        let message = index.read(frame)?;
        let places = message.fields().map(|field| field.tag).collect();
        Ok((text(&message), places, message.fault()))
    };
    indexes().iter_mut().map(read).collect()
}

/// Tags of every length, and what is none, at every alignment to a block.
#[test]
fn all_ways_read_the_same_tags_at_every_alignment() {
    let tags = [
        "1", "9", "0", "01", "10", "99", "00", "100", "999", "099", "1000", "9999", "0999",
        "10000", "65535", "65536", "-1", "1a", "a", "12a", "123a", "12345a", "/", ":", "1:", "12/",
        "",
    ];
    for tag in tags {
        for before in 0..70 {
            let body = format!("35=D\x0158={}\x01{tag}=x\x0144=\x01", "y".repeat(before));
            let answers = answers(&made_of_bytes("FIX.4.4", body.as_bytes()));
            assert!(answers.windows(2).all(|two| two[0] == two[1]), "{tag} {before}: {answers:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn all_ways_find_the_same_ends(bytes in busy_bytes(400), room in 0_usize..200) {
        let wanted = oracle(&bytes);
        for simd in Simd::all() {
            let mut ends = vec![0; room];
            let found = simd.field_ends(&bytes, &mut ends);
            if wanted.len() <= room {
                prop_assert_eq!(found, Some(wanted.len()));
                prop_assert_eq!(&ends[..wanted.len()], &wanted[..]);
            } else {
                prop_assert_eq!(found, None);
            }
        }
    }

    #[test]
    fn all_ways_read_the_same_fields(body in prop_oneof![fields(), busy_bytes(300)]) {
        let body = [b"35=D\x01", &body[..], b"58=x\x01"].concat();
        let answers = answers(&made_of_bytes("FIX.4.4", &body));
        prop_assert!(answers.windows(2).all(|two| two[0] == two[1]), "{:?}", answers);
    }

    #[test]
    fn all_ways_read_the_same_short_fields(body in short_fields()) {
        let answers = answers(&made_of_bytes("FIX.4.4", &[b"35=D\x01", &body[..]].concat()));
        prop_assert!(answers.windows(2).all(|two| two[0] == two[1]), "{:?}", answers);
    }

    #[test]
    fn all_ways_look_up_the_same_field(tags in proptest::collection::vec(1_u32..90, 0..120), from in 0_usize..130) {
        let mut body = b"35=D\x01".to_vec();
        for tag in &tags {
            body.extend_from_slice(format!("{}=x\x01", tag * 7).as_bytes());
        }
        let bytes = made_of_bytes("FIX.4.4", &body);
        let Framing::Whole(frame) = frame(&bytes, BODY_BYTES_MAX) else { panic!("no whole message") };
        for mut index in indexes() {
            let message = index.read(frame).unwrap();
            let fields: Vec<u32> = message.fields().map(|field| field.tag).collect();
            for tag in (1..90).map(|tag| tag * 7) {
                let wanted = (from..fields.len()).find(|at| fields[*at] == tag);
                prop_assert_eq!(message.find_from(tag, from), wanted);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in busy_bytes(300), start in any::<bool>()) {
        let mut rest = if start { [b"8=FIX.4.4\x019=".as_slice(), &bytes].concat() } else { bytes };
        let mut index = fix::Index::new(64);
        loop {
            match frame(&rest, 200) {
                Framing::Whole(frame) => {
                    let _ = index.read(frame).map(|message| text(&message));
                    let len = frame.bytes().len();
                    rest.drain(..len);
                }
                Framing::Ignored { skip, .. } => {
                    prop_assert!(skip >= 1 && skip <= rest.len());
                    rest.drain(..skip);
                }
                Framing::Partial { more } => { prop_assert!(more >= 1); break }
                Framing::TooLong { body_bytes } => { prop_assert!(body_bytes > 200); break }
            }
        }
    }
}
