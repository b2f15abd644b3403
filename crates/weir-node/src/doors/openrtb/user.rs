//! Who a request is about, where it may be used at all.

use door_openrtb::Top;
use gate_profile::user_key;

/// The key of the user's profile: of the buyer's id, the exchange's, the device's, or that of an identity provider, the
/// first that is there.
///
/// `None` where there is no id, and where the request forbids to use it: for children (`coppa`), under the GDPR without a
/// text of consent, and after an opt-out of sale (`us_privacy`). The device's id is not used of people who limit
/// tracking. Whether a text of consent covers us is not read.
pub(super) fn user_of(top: &Top<'_>) -> Option<u64> {
    let (user, device, regs) = (&top.user, &top.device, &top.regs);
    let no_consent = regs.gdpr == Some(true) && user.consent.is_none();
    if regs.coppa || no_consent || regs.us_privacy.is_some_and(opts_out) {
        return None;
    }
    let tracked = !device.limits_tracking && !device.do_not_track;
    let device_id = device.ifa.filter(|id| tracked && !is_zero(id));
    let id = user.buyer_uid.or(user.id).or(device_id).or_else(|| {
        let provided = user.eids.iter().next()?;
        Some(provided.id)
    });
    id.map(user_key)
}

/// The third letter of a US privacy text (IAB CCPA, version 1) is the opt-out of sale.
fn opts_out(text: &str) -> bool {
    matches!(text.as_bytes(), [b'1', _, b'Y' | b'y', ..])
}

/// Devices say an id of zeros where they have none.
fn is_zero(id: &str) -> bool {
    id.bytes().all(|byte| byte == b'0' || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use door_openrtb::{ReadLimits, Reader};

    fn user(fields: &str) -> Option<u64> {
        let mut body = format!(r#"{{"id":"1","imp":[{{"id":"1"}}],{fields}}}"#).into_bytes();
        let read = |request: &door_openrtb::BidRequest<'_>| user_of(&request.top);
        Reader::default().read(&mut body, &ReadLimits::default(), read).unwrap()
    }

    #[test]
    fn the_first_id_counts() {
        let both = r#""user":{"id":"u","buyeruid":"b"},"device":{"ifa":"d"}"#;
        assert_eq!(user(both), Some(user_key("b")));
        assert_eq!(user(r#""user":{"id":"u"},"device":{"ifa":"d"}"#), Some(user_key("u")));
        assert_eq!(user(r#""device":{"ifa":"d"}"#), Some(user_key("d")));
        let provided = r#""user":{"eids":[{"source":"p.example","uids":[{"id":"e"}]}]}"#;
        assert_eq!(user(provided), Some(user_key("e")));
        assert_eq!(user(r#""at":1"#), None);
    }

    #[test]
    fn what_may_not_be_used_is_not() {
        for forbidden in [
            r#""user":{"id":"u"},"regs":{"coppa":1}"#,
            r#""user":{"id":"u"},"regs":{"gdpr":1}"#,
            r#""user":{"id":"u"},"regs":{"ext":{"gdpr":1}}"#,
            r#""user":{"id":"u"},"regs":{"us_privacy":"1YYN"}"#,
            r#""device":{"ifa":"d","lmt":1}"#,
            r#""device":{"ifa":"00000000-0000-0000-0000-000000000000"}"#,
        ] {
            assert_eq!(user(forbidden), None, "{forbidden}");
        }
        let consent = r#""user":{"id":"u","consent":"CPx"},"regs":{"gdpr":1}"#;
        assert_eq!(user(consent), Some(user_key("u")));
        assert_eq!(user(r#""user":{"id":"u"},"regs":{"us_privacy":"1YNN"}"#), Some(user_key("u")));
    }
}
