//! The header `Idempotency-Key`, and what a repeat is known by.
//!
//! The IETF draft (draft-ietf-httpapi-idempotency-key-header) makes its value a text in quotes; what most senders send is the
//! same text without them. Both are taken, and mean the same key.

use access::KeySecret;

use crate::call::{CallKind, Keyed};
use crate::problem::BadCall;

/// Longest key, in characters.
pub(crate) const KEY_LEN_MAX: usize = 255;

const SHAPE: &str = "1 to 255 printable ASCII characters, as they are or in quotes";

/// Reads the header's value.
pub(crate) fn parse(value: &[u8]) -> Result<&[u8], BadCall> {
    check(value).ok_or(BadCall::Key(SHAPE))
}

/// A key as it is sent, in the header or in an entry of a batch: without the quotes around it.
pub(crate) fn check(key: &[u8]) -> Option<&[u8]> {
    let key = match key {
        [b'"', inner @ .., b'"'] => inner,
        plain => plain,
    };
    let is_printable = |byte: &u8| (b' '..=b'~').contains(byte);
    ((1..=KEY_LEN_MAX).contains(&key.len()) && key.iter().all(is_printable)).then_some(key)
}

/// What the repeat of a call is known by. A key is its caller's and its call's: nobody meets the answers of another, and a key of
/// one call is no key of another. `body`: the bytes of the call, as they were sent.
pub(crate) fn keyed(
    secret: &KeySecret,
    who: &str,
    kind: CallKind,
    key: &[u8],
    body: &[u8],
) -> Keyed {
    Keyed { key: secret.key_hash(who, kind.name(), key), digest: secret.digest(&[body]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_with_and_without_quotes() {
        let uuid = b"8e03978e-40d5-43e8-bc93-6894a57f9324";
        let quoted = [&b"\""[..], uuid, b"\""].concat();
        assert_eq!((parse(uuid), parse(&quoted)), (Ok(&uuid[..]), Ok(&uuid[..])));
        assert!(parse(&[b'k'; 255]).is_ok() && parse(b"a b").is_ok() && parse(b"a\"b").is_ok());
        for bad in [&b""[..], b"\"\"", b"a\x7f", b"a\tb", b"\xc3\xa9", &[b'k'; 256]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_told_apart_by_who_and_call_and_requests_by_their_bytes() {
        let secret = KeySecret::new([7; 16]);
        let keyed = |who, kind, key, body| keyed(&secret, who, kind, key, body);
        let spend = CallKind::Spend;
        let one = keyed("shop", spend, b"k1", b"{}");
        assert_eq!(one, keyed("shop", spend, b"k1", b"{}"));
        for (who, kind, key) in [
            ("shop", spend, &b"k2"[..]),
            ("", spend, b"k1"),
            ("shopk", spend, b"1"),
            ("shop", CallKind::Settle, b"k1"),
        ] {
            assert_ne!(keyed(who, kind, key, b"{}").key, one.key);
        }
        let other = keyed("shop", spend, b"k1", b"{ }");
        assert!(other.key == one.key && other.digest != one.digest);
    }
}
