//! What an endpoint and the sender share, and the signatures made with it.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Begins a secret as text.
const PREFIX: &str = "whsec_";
/// Least and most bytes of a secret.
const BYTES_MIN: usize = 24;
const BYTES_MAX: usize = 64;

/// A signing secret. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

/// A text that is no secret. It is not repeated.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("expected {PREFIX} and the base64 of {BYTES_MIN} to {BYTES_MAX} bytes")]
pub struct SecretError;

impl Secret {
    /// A secret as it is shown to people: `whsec_` and base64.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Secret, SecretError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(SecretError)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| SecretError)?;
        let is_sound = (BYTES_MIN..=BYTES_MAX).contains(&bytes.len());
        is_sound.then_some(Secret(bytes)).ok_or(SecretError)
    }

    /// A new secret of 32 bytes of the system's randomness.
    ///
    /// # Errors
    /// The system has none.
    pub fn random() -> std::io::Result<Secret> {
        let mut bytes = vec![0; 32];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Secret(bytes))
    }

    /// The text that the owner of the endpoint gets.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", STANDARD.encode(&self.0))
    }

    fn sign(&self, id: &str, timestamp_s: u64, payload: &[u8]) -> String {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(format!("{id}.{timestamp_s}.").as_bytes());
        mac.update(payload);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The value of the header `webhook-signature`: one signature for each secret. `id` has no full stop, `timestamp_s` is in
/// seconds since the Unix epoch.
#[must_use]
pub fn signatures(secrets: &[Secret], id: &str, timestamp_s: u64, payload: &[u8]) -> String {
    let all: Vec<String> =
        secrets.iter().map(|secret| secret.sign(id, timestamp_s, payload)).collect();
    all.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of the reference libraries.
    #[test]
    fn a_signature_is_that_of_the_reference() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let (id, payload) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let one = std::slice::from_ref(&secret);
        assert_eq!(signatures(one, id, 1_614_265_330, payload), expected);
        let next = Secret::random().unwrap();
        let both = signatures(&[next.clone(), secret], id, 1_614_265_330, payload);
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!((first, second), (&*next.sign(id, 1_614_265_330, payload), expected));
    }

    #[test]
    fn a_secret_is_long_enough_and_never_shown_by_chance() {
        let secret = Secret::random().unwrap();
        assert_eq!(Secret::parse(&secret.text()), Ok(secret.clone()));
        assert!(!format!("{secret:?}").contains(&secret.text()[6..]));
        let of =
            |bytes: usize| Secret::parse(&format!("{PREFIX}{}", STANDARD.encode(vec![7; bytes])));
        assert!(of(24).is_ok() && of(64).is_ok());
        assert_eq!((of(23), of(65)), (Err(SecretError), Err(SecretError)));
        for wrong in
            ["", "whsec_", "whsec_!!", &secret.text()[6..], "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
        {
            assert_eq!(Secret::parse(wrong), Err(SecretError));
        }
    }
}
