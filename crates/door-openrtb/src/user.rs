//! Who a request is about, where it may be used at all.

use gate_profile::user_key;
use openrtb::{PersonalData, Privacy, Top};

/// The key of the user's profile: of the buyer's id, the exchange's, the device's, or that of an identity provider, the
/// first that is there. `None` where there is no id, and where privacy forbids the use of ids.
pub(super) fn user_of(top: &Top<'_>, privacy: Privacy) -> Option<u64> {
    if !privacy.permits(PersonalData::Ids) {
        return None;
    }
    let user = &top.user;
    let device_id = top.device.ifa.filter(|id| !is_zero(id));
    let id = user.buyer_uid.or(user.id).or(device_id).or_else(|| {
        let provided = user.eids.iter().next()?;
        Some(provided.id)
    });
    id.map(user_key)
}

/// Devices say an id of zeros where they have none.
fn is_zero(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use openrtb::{BidRequest, PrivacyTerms, ReadLimits, Reader};

    /// Consent of a user to vendor 25 and all purposes, and to purposes 1 to 3 only.
    const CONSENT: [&str; 2] = [
        "CAAAAAAAAAAAAABABAENABEoAP___wAAAAYYAMgAAAIAAAAA",
        "CAAAAAAAAAAAAABABAENABEgAOAAAAAAAAYYAMgAAAIAAAAA",
    ];

    fn user(vendor: Option<u16>, fields: &str) -> Option<u64> {
        let mut body = format!(r#"{{"id":"1","imp":[{{"id":"1"}}],{fields}}}"#).into_bytes();
        let terms = PrivacyTerms { vendor, ..PrivacyTerms::default() };
        let read =
            |request: &BidRequest<'_>| user_of(&request.top, Privacy::of(&request.top, &terms));
        Reader::default().read(&mut body, &ReadLimits::default(), read).unwrap()
    }

    #[test]
    fn the_first_id_counts() {
        let both = r#""user":{"id":"u","buyeruid":"b"},"device":{"ifa":"d"}"#;
        assert_eq!(user(None, both), Some(user_key("b")));
        assert_eq!(user(None, r#""user":{"id":"u"},"device":{"ifa":"d"}"#), Some(user_key("u")));
        assert_eq!(user(None, r#""device":{"ifa":"d"}"#), Some(user_key("d")));
        let provided = r#""user":{"eids":[{"source":"p.example","uids":[{"id":"e"}]}]}"#;
        assert_eq!(user(None, provided), Some(user_key("e")));
        assert_eq!(user(None, r#""at":1"#), None);
    }

    #[test]
    fn what_may_not_be_used_is_not() {
        for forbidden in [
            r#""user":{"id":"u"},"regs":{"coppa":1}"#,
            r#""user":{"id":"u"},"regs":{"gdpr":1}"#,
            r#""user":{"id":"u"},"regs":{"ext":{"gdpr":1}}"#,
            r#""user":{"id":"u","consent":"CPx"},"regs":{"gdpr":1}"#,
            r#""user":{"id":"u"},"regs":{"us_privacy":"1YYN"}"#,
            r#""user":{"id":"u"},"regs":{"gpc":1}"#,
            r#""user":{"id":"u"},"device":{"dnt":1}"#,
            r#""device":{"ifa":"d","lmt":1}"#,
            r#""device":{"ifa":"00000000-0000-0000-0000-000000000000"}"#,
        ] {
            assert_eq!(user(Some(25), forbidden), None, "{forbidden}");
        }
        let consent =
            |text| format!(r#""user":{{"id":"u","consent":"{text}"}},"regs":{{"gdpr":1}}"#);
        assert_eq!(user(Some(25), &consent(CONSENT[0])), Some(user_key("u")));
        assert_eq!(user(Some(25), &consent(CONSENT[1])), None, "a purpose");
        assert_eq!(user(Some(24), &consent(CONSENT[0])), None, "another vendor");
        assert_eq!(user(None, &consent(CONSENT[0])), None, "no vendor at all");
        let sold = r#""user":{"id":"u"},"regs":{"us_privacy":"1YNN"}"#;
        assert_eq!(user(None, sold), Some(user_key("u")));
    }
}
