//! Messages that another implementation made (pyca/cryptography 48 over OpenSSL) from the formats as the README states them. The GCM rows are
//! what Transit makes of the same key, context and nonce.

use vault::{Drbg, Item, ItemError, Key, KeyEncryptionKey, KeyError, KeyType, SecretKey};

use crate::support::{open, seal};

const PLAINTEXT: &[u8] = b"WEIR-0001-AAAA-BBBB-CCCC-DDDD-01";
const AAD: &[u8] = b"tenant 7, product 9";
const CONTEXT: &[u8] = b"customer 42";

fn key() -> SecretKey {
    SecretKey::from_bytes(&std::array::from_fn(|at| u8::try_from(at).unwrap()))
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn opens(key: Key, aad: &[u8], sealed: &str) {
    assert_eq!(open(&key, &bytes(sealed), aad).unwrap(), PLAINTEXT, "{key:?}");
}

#[test]
fn messages_of_another_implementation_open() {
    opens(
        Key::new(KeyType::Aes256Gcm96, &key()),
        AAD,
        concat!(
            "6465666768696a6b6c6d6e6f1f5e973454d966ae0f4f1ea99b2447bf00804427c82fb0318a95e80cbf8e95796ce8fe15",
            "913607a7a746dde407c94c3f"
        ),
    );
    opens(
        Key::derived(KeyType::Aes256Gcm96, &key(), CONTEXT).unwrap(),
        AAD,
        concat!(
            "6465666768696a6b6c6d6e6fa495e2a2803a17608b0f1472aba35a3b3a5847fa5a691991909c61f6d683f9b107f99dee",
            "b8d3be97c473ae9694a06407"
        ),
    );
    opens(
        Key::new(KeyType::Aes256GcmSiv, &key()),
        AAD,
        concat!(
            "6465666768696a6b6c6d6e6f9c41ae92f07ec08b8f073b11055376fd57154131ff0966b5281959bcc489f4b47110a0e0",
            "de5278c9f7b846c98373b3e7"
        ),
    );
    opens(
        Key::derived(KeyType::Aes256GcmSiv, &key(), CONTEXT).unwrap(),
        AAD,
        concat!(
            "6465666768696a6b6c6d6e6f2c7efa5838ac27d2c76ce4caaa6808d78e6c0831341117cb8f410fc6716d0eeac236feec",
            "b24d3bed637b832145c0ec06"
        ),
    );
    opens(
        Key::new(KeyType::Aes256CbcCmac, &key()),
        AAD,
        concat!(
            "6465666768696a6b6c6d6e6f70717273663f2b22a3be41f4a9c6cf98b5adc86d9fa8b94074f6ae25e8f9ea07bfdfaa77",
            "de4b4ffcfd4a5fb6a76cec8f2b3eae98ec97c1a9ea39941f6cab6ae159785444"
        ),
    );
    opens(
        Key::new(KeyType::Aes256CbcHmacSha256, &key()),
        AAD,
        concat!(
            "6465666768696a6b6c6d6e6f7071727322e4ae9335e1c6478d6ad674d9bbfc429b5db095c80350a16c3e62b4865a5cee",
            "610fa3fe173d92e9bb38977c95f71a2c22f55bba9c0e008637a7f44925b63e7633b8ec078a5896b1c941cfffc443e7ae"
        ),
    );
}

#[test]
fn convergent_messages_are_the_same_byte_for_byte() {
    let gcm = Key::convergent(KeyType::Aes256Gcm96, &key(), CONTEXT).unwrap();
    let expected = bytes(concat!(
        "4f393de4f0f3f8f0f081bdfad8c8cf70d4ca9758ea8af048218008c86de5b2c29bd5e05985953faadb8ad4775ffed50e",
        "1af3d67af71eed16e444d599"
    ));
    assert_eq!(seal(&gcm, PLAINTEXT, b""), expected);
    assert_eq!(open(&gcm, &expected, b"").unwrap(), PLAINTEXT);
    let siv = Key::convergent(KeyType::Aes256GcmSiv, &key(), CONTEXT).unwrap();
    let expected = bytes(concat!(
        "d7867d2d49d46f7d702459cb0832d393d3337dab46e078782194c8f26f26035aa2a583fc7970140086ce676e3b8c5be9",
        "c9e707745cf8aadd3f84d3d6"
    ));
    assert_eq!(seal(&siv, PLAINTEXT, AAD), expected);
    assert_ne!(seal(&siv, PLAINTEXT, b"other")[..12], expected[..12], "the AAD is in the nonce");
}

/// What a running OpenBao (2.7.2) sealed, with a key that was restored there: the first 16 bytes of [`key`].
#[test]
fn messages_of_openbao_with_aes_128_open() {
    let kind = KeyType::Aes128Gcm96;
    opens(
        Key::new(kind, &key()),
        AAD,
        concat!(
            "86fa6186525dc55b27c898ab2ce7c3d1867ab07ebaac9cae20be88504eeefe704c4aaa6ce9f4af784fa2870bf8f85689",
            "c2f44743692da57430225a37"
        ),
    );
    opens(
        Key::derived(kind, &key(), CONTEXT).unwrap(),
        AAD,
        concat!(
            "805f267fe9028dcda30a4bf7b2812794e839d14da781de9033f85cd53a89bb2b6c8487cd68bcca9411970e7314bf3a38",
            "579367ec837644235f821ab6"
        ),
    );
    let convergent = || Key::convergent(kind, &key(), CONTEXT).unwrap();
    let expected = concat!(
        "e501c3d00b3dbd254e3cabf29d54df114f97ed9c31f2867eac88ca3ec7479c1ad3e762336e09e934274290a9961c3ad8",
        "b3ed8712d1f168df1d5a8a08"
    );
    assert_eq!(seal(&convergent(), PLAINTEXT, b""), bytes(expected));
    opens(convergent(), b"", expected);
    // It seals a plaintext with associated data under the same nonce; here that is opened only.
    opens(
        convergent(),
        AAD,
        concat!(
            "e501c3d00b3dbd254e3cabf29d54df114f97ed9c31f2867eac88ca3ec7479c1ad3e762336e09e934274290a9136b2508",
            "469d689a27050919dac90530"
        ),
    );
    // The other 16 bytes are no part of the key.
    let halved = SecretKey::from_bytes(&std::array::from_fn(|at| {
        if at < kind.key_bytes() { key().expose()[at] } else { 0xee }
    }));
    assert_eq!(
        open(&Key::new(kind, &halved), &seal(&Key::new(kind, &key()), b"x", b""), b""),
        Ok(vec![b'x'])
    );
}

#[test]
fn a_wrapped_key_of_another_implementation_unwraps() {
    let kek = KeyEncryptionKey::new(&key());
    let wrapped = bytes(concat!(
        "016465666768696a6b6c6d6e6fd620587eb06899b55a81c10367845a493b0221ecdbc8b9ce577c450c9a5dc82cd3abfd",
        "93b587dfad1112c2b5ab8278da"
    ));
    let data_key = kek.unwrap(&wrapped, "stock/game", 3).unwrap();
    assert_eq!(data_key.expose()[..4], [32, 33, 34, 35]);
    assert_eq!(kek.fingerprint().to_vec(), bytes("b5213b5fb2f795f9"));
}

#[test]
fn convergent_gcm_seals_nothing_with_associated_data() {
    for kind in [KeyType::Aes256Gcm96, KeyType::Aes128Gcm96] {
        let gcm = Key::convergent(kind, &key(), CONTEXT).unwrap();
        let (mut one, mut two) = ([0; 60], [0; 60]);
        let mut items = [Item::new(PLAINTEXT, AAD, &mut one), Item::new(PLAINTEXT, b"", &mut two)];
        gcm.seal(&mut items, &mut Drbg::new().unwrap());
        assert_eq!(items[0].outcome, Err(ItemError::ConvergentAad));
        assert_eq!(items[1].outcome, Ok(60));
    }
}

#[test]
fn derived_and_convergent_keys_need_a_context() {
    for kind in KeyType::ALL {
        assert_eq!(Key::derived(kind, &key(), b"").unwrap_err(), KeyError::NoContext);
        assert_eq!(Key::convergent(kind, &key(), b"").unwrap_err(), KeyError::NoContext);
        let is_gcm = !matches!(kind, KeyType::Aes256CbcCmac | KeyType::Aes256CbcHmacSha256);
        let convergent = Key::convergent(kind, &key(), CONTEXT);
        assert_eq!(convergent.err(), (!is_gcm).then_some(KeyError::NotConvergent(kind)));
        // A context's key is another key than every other context's and than the key itself.
        let sealed = seal(&Key::derived(kind, &key(), CONTEXT).unwrap(), PLAINTEXT, AAD);
        for other in
            [&b"customer 4"[..], b"customer 42\0", b"Customer 42", b"vault/1 context customer 42"]
        {
            let other = Key::derived(kind, &key(), other).unwrap();
            assert_eq!(open(&other, &sealed, AAD), Err(ItemError::Refused));
        }
        assert_eq!(open(&Key::new(kind, &key()), &sealed, AAD), Err(ItemError::Refused));
    }
}
