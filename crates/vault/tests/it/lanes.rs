//! The bulk type beside a second implementation: `cbc` and `cmac`, one message after the other.

use aes::Aes256;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use cmac::{Cmac, KeyInit, Mac};
use hkdf::Hkdf;
use proptest::prelude::*;
use sha2::Sha256;
use vault::{Drbg, Item, ItemError, Key, KeyType, SecretKey};

use crate::support;

const KIND: KeyType = KeyType::Aes256CbcCmac;

/// The type as the README states it, without lanes.
struct Oracle {
    enc: [u8; 32],
    mac: [u8; 32],
}

impl Oracle {
    fn new(secret: &SecretKey) -> Oracle {
        let sub_key = |purpose: &str| {
            let mut key = [0; 32];
            let info = format!("vault/1 aes256-cbc-cmac {purpose}");
            Hkdf::<Sha256>::new(None, secret.expose()).expand(info.as_bytes(), &mut key).unwrap();
            key
        };
        Oracle { enc: sub_key("enc"), mac: sub_key("mac") }
    }

    fn tag(&self, aad: &[u8], text: &[u8]) -> Vec<u8> {
        let mut mac = Cmac::<Aes256>::new(&self.mac.into());
        mac.update(b"cbc-cmac");
        mac.update(&u64::try_from(aad.len()).unwrap().to_be_bytes());
        mac.update(aad);
        mac.update(&vec![0; aad.len().next_multiple_of(16) - aad.len()]);
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    }

    fn seal(&self, iv: [u8; 16], plaintext: &[u8], aad: &[u8]) -> Vec<u8> {
        let cipher = cbc::Encryptor::<Aes256>::new(&self.enc.into(), &iv.into());
        let mut sealed = iv.to_vec();
        sealed.extend(cipher.encrypt_padded_vec::<Pkcs7>(plaintext));
        sealed.extend(self.tag(aad, &sealed));
        sealed
    }

    fn open(&self, sealed: &[u8], aad: &[u8]) -> Option<Vec<u8>> {
        let (text, tag) = sealed.split_at_checked(sealed.len().checked_sub(16)?)?;
        let (iv, text) = (text.first_chunk::<16>()?, text);
        if self.tag(aad, text) != tag {
            return None;
        }
        let cipher = cbc::Decryptor::<Aes256>::new(&self.enc.into(), iv.into());
        cipher.decrypt_padded_vec::<Pkcs7>(&text[16..]).ok()
    }
}

fn messages() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let short = || proptest::collection::vec(any::<u8>(), 0..70);
    let long = proptest::collection::vec(any::<u8>(), 0..900);
    let text = prop_oneof![8 => short(), 1 => long];
    let mixed = proptest::collection::vec((text, short()), 0..150);
    // Of one length, as a table of serials is.
    let even =
        (0..150_usize, 0..80_usize, 0..40_usize, any::<u8>()).prop_map(|(n, len, aad, byte)| {
            (0..n)
                .map(|at| (vec![byte ^ u8::try_from(at).unwrap(); len], vec![byte; aad]))
                .collect()
        });
    prop_oneof![mixed, even]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn batches_are_what_the_second_implementation_says(messages in messages()) {
        let secret = support::secret(3);
        let (key, oracle) = (Key::new(KIND, &secret), Oracle::new(&secret));
        let mut outputs: Vec<Vec<u8>> =
            messages.iter().map(|(text, _)| vec![0; KIND.sealed_len(text.len())]).collect();
        let mut items: Vec<Item<'_>> = messages.iter().zip(&mut outputs)
            .map(|((text, aad), output)| Item::new(text, aad, output)).collect();
        key.seal(&mut items, &mut Drbg::new().unwrap());
        for item in &items {
            prop_assert_eq!(item.outcome, Ok(KIND.sealed_len(item.input.len())));
        }
        for ((text, aad), sealed) in messages.iter().zip(&outputs) {
            let iv: [u8; 16] = *sealed.first_chunk().unwrap();
            prop_assert_eq!(&oracle.seal(iv, text, aad), sealed);
        }
        let mut opened: Vec<Vec<u8>> =
            outputs.iter().map(|sealed| vec![0; KIND.opened_max(sealed.len())]).collect();
        let mut items: Vec<Item<'_>> = messages.iter().zip(&outputs).zip(&mut opened)
            .map(|(((_, aad), sealed), output)| Item::new(sealed, aad, output)).collect();
        key.open(&mut items);
        for (item, (text, _)) in items.iter().zip(&messages) {
            prop_assert_eq!(item.written(), Ok(text.as_slice()));
        }
    }

    /// Good messages among damaged ones: both implementations have the same opinion of each.
    #[test]
    fn a_damaged_message_does_not_stop_its_batch(messages in messages(), damage in any::<u64>()) {
        let secret = support::secret(3);
        let (key, oracle) = (Key::new(KIND, &secret), Oracle::new(&secret));
        let damaged: Vec<Vec<u8>> = messages.iter().zip(0_u64..).map(|((text, aad), at)| {
            let dice = damage.wrapping_mul(at + 1).rotate_left(17);
            let mut sealed = oracle.seal([9; 16], text, aad);
            let place = usize::try_from(dice >> 8).unwrap() % sealed.len();
            match dice % 4 {
                0 => sealed[place] ^= 1 << (dice % 7),
                1 => sealed.truncate(place),
                _ => {}
            }
            sealed
        }).collect();
        let mut opened: Vec<Vec<u8>> =
            damaged.iter().map(|sealed| vec![0xee; KIND.opened_max(sealed.len())]).collect();
        let mut items: Vec<Item<'_>> = messages.iter().zip(&damaged).zip(&mut opened)
            .map(|(((_, aad), sealed), output)| Item::new(sealed, aad, output)).collect();
        key.open(&mut items);
        for item in &items {
            let expected = oracle.open(item.input, item.aad);
            prop_assert_eq!(item.written().map(<[u8]>::to_vec), expected.ok_or(ItemError::Refused));
        }
    }
}

#[test]
fn one_long_message_among_short_ones() {
    let key = support::key(KIND);
    let long = vec![5; 100_000];
    let texts: Vec<&[u8]> = (0..64).map(|at| if at == 20 { &long[..] } else { b"short" }).collect();
    for (at, sealed) in texts.iter().map(|text| support::seal(&key, text, b"")).enumerate() {
        assert_eq!(support::open(&key, &sealed, b"").unwrap(), texts[at]);
    }
    let mut outputs: Vec<Vec<u8>> =
        texts.iter().map(|text| vec![0; KIND.sealed_len(text.len())]).collect();
    let mut items: Vec<Item<'_>> =
        texts.iter().zip(&mut outputs).map(|(text, output)| Item::new(text, b"", output)).collect();
    key.seal(&mut items, &mut Drbg::new().unwrap());
    for (text, sealed) in texts.iter().zip(&outputs) {
        assert_eq!(support::open(&key, sealed, b"").unwrap(), *text);
    }
}
