//! What an attacker does to sealed messages, and what each attempt gets: one error, one text.

use vault::{Drbg, Item, ItemError, Key, KeyType};

use crate::support::{key, open, seal, secret};

const TEXT: &str = "cipher: message authentication failed";

fn assert_refused(outcome: Result<Vec<u8>, ItemError>, attempt: &str) {
    assert_eq!(outcome.unwrap_err().to_string(), TEXT, "{attempt}");
}

#[test]
fn every_flipped_bit_is_refused_with_one_text() {
    for kind in KeyType::ALL {
        let key = key(kind);
        let sealed = seal(&key, &[7; 33], b"row 1");
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_refused(open(&key, &changed, b"row 1"), &format!("{kind}, bit {bit}"));
        }
    }
}

#[test]
fn every_cut_and_every_extension_is_refused() {
    for kind in KeyType::ALL {
        let key = key(kind);
        let sealed = seal(&key, &[7; 40], b"");
        for length in 0..sealed.len() {
            assert_refused(open(&key, &sealed[..length], b""), &format!("{kind}, cut at {length}"));
            assert_refused(open(&key, &sealed[length + 1..], b""), &format!("{kind}, front cut"));
        }
        for more in 1..40 {
            let longer = [&sealed[..], &vec![0; more]].concat();
            assert_refused(open(&key, &longer, b""), &format!("{kind}, {more} bytes more"));
        }
        assert_refused(open(&key, &[0; 256], b""), "zeros");
    }
}

#[test]
fn another_key_and_another_type_are_refused() {
    for kind in KeyType::ALL {
        let sealed = seal(&key(kind), b"serial", b"");
        for bit in 0..kind.key_bytes() * 8 {
            let mut other = *secret(1).expose();
            other[bit / 8] ^= 1 << (bit % 8);
            let other = Key::new(kind, &vault::SecretKey::from_bytes(&other));
            assert_refused(open(&other, &sealed, b""), &format!("{kind}, key bit {bit}"));
        }
        for other in KeyType::ALL.into_iter().filter(|other| *other != kind) {
            assert_refused(open(&key(other), &sealed, b""), &format!("{kind} as {other}"));
        }
    }
}

#[test]
fn associated_data_is_bound_with_its_borders() {
    for kind in KeyType::ALL {
        let key = key(kind);
        let sealed = seal(&key, b"serial of 16 B..", b"product 17");
        let others: [&[u8]; 7] = [
            b"",
            b"product 1",
            b"product 18",
            b"Product 17",
            b"product 17\0",
            b"\0product 17",
            b"product 17product 17",
        ];
        for aad in others {
            assert_refused(open(&key, &sealed, aad), &format!("{kind}, {aad:?}"));
        }
        // Bytes that move from the associated data into the message, and back.
        let joined = [&b"product 17"[..], &sealed].concat();
        for border in 0..joined.len() {
            let (aad, rest) = joined.split_at(border);
            let outcome = open(&key, rest, aad);
            if border == 10 {
                assert_eq!(outcome.unwrap(), b"serial of 16 B..");
            } else {
                assert_refused(outcome, &format!("{kind}, border at {border}"));
            }
        }
        // Associated data filled up to a block is not what was given.
        let sealed = seal(&key, b"x", &[0; 16]);
        for length in (0..48).filter(|length| *length != 16) {
            assert_refused(
                open(&key, &sealed, &vec![0; length]),
                &format!("{kind}, {length} zeros"),
            );
        }
    }
}

#[test]
fn swapped_rows_and_mixed_parts_are_refused() {
    for kind in KeyType::ALL {
        let key = key(kind);
        let (one, two) = (seal(&key, &[1; 32], b"row 1"), seal(&key, &[2; 32], b"row 2"));
        assert_refused(open(&key, &one, b"row 2"), "a row under another's name");
        for at in (4..one.len()).step_by(4) {
            let mixed = [&one[..at], &two[at..]].concat();
            assert_refused(open(&key, &mixed, b"row 1"), &format!("{kind}, mixed at {at}"));
            assert_refused(open(&key, &mixed, b"row 2"), &format!("{kind}, mixed at {at}"));
        }
    }
}

#[test]
fn a_refused_item_leaves_no_plaintext() {
    for kind in KeyType::ALL {
        let key = key(kind);
        let plaintext = b"MARKED-TEXT-MARKED-TEXT-MARKED";
        let mut sealed = seal(&key, plaintext, b"");
        *sealed.last_mut().unwrap() ^= 1;
        let mut output = vec![0xee; 200];
        let mut items = [Item::new(&sealed, b"", &mut output)];
        key.open(&mut items);
        assert_eq!(items[0].outcome, Err(ItemError::Refused));
        assert!(!output.windows(6).any(|window| plaintext.windows(6).any(|part| part == window)));
    }
}

#[test]
fn short_buffers_are_told_and_others_go_on() {
    for kind in KeyType::ALL {
        let key = key(kind);
        let mut random = Drbg::new().unwrap();
        let length = kind.sealed_len(20);
        let mut outputs = vec![vec![0xee_u8; length]; 100];
        outputs[3].truncate(length - 1);
        outputs[70].clear();
        let mut items: Vec<Item<'_>> =
            outputs.iter_mut().map(|output| Item::new(&[9; 20], b"a", output)).collect();
        key.seal(&mut items, &mut random);
        for (at, item) in items.iter().enumerate() {
            let short = at == 3 || at == 70;
            assert_eq!(item.outcome, if short { Err(ItemError::OutputShort) } else { Ok(length) });
        }
        assert!(outputs[3].iter().all(|byte| *byte == 0xee), "an untouched buffer");
        let mut output = vec![0; kind.opened_max(length) - 1];
        let mut items = [Item::new(&outputs[0], b"a", &mut output)];
        key.open(&mut items);
        assert_eq!(items[0].outcome, Err(ItemError::OutputShort));
    }
}

#[test]
fn an_item_that_was_not_worked_on_says_so() {
    let mut output = [0; 8];
    let item = Item::new(b"", b"", &mut output);
    assert_eq!(item.written(), Err(ItemError::Pending));
}
