//! Passwords are not kept.

use fix::{Framing, Index, SOH, frame};
use memchr::memchr;

/// What stands in the place of a value.
const MASK: &[u8] = b"***";
/// RawData, Password, NewPassword, and EncryptedPasswordMethod to EncryptedNewPassword.
const MASKED: [u32; 8] = [96, 554, 925, 1400, 1401, 1402, 1403, 1404];
/// More fields than any Logon has.
const FIELDS_MAX: usize = 4_096;

/// Returns the message as it is to be kept, if it is a Logon or a UserRequest; any other is kept as it is.
///
/// BodyLength and CheckSum are those of the masked message. Where fields cannot be told apart, everything behind them is masked.
pub(crate) fn masked(message: &[u8]) -> Option<Vec<u8>> {
    let msg_type = msg_type(message)?;
    if !matches!(msg_type, b"A" | b"BE") {
        return None;
    }
    let mut begin = message.split(|byte| *byte == SOH).next().unwrap_or_default().to_vec();
    begin.push(SOH);
    let mut body = Vec::with_capacity(message.len());
    let mut index = Index::new(FIELDS_MAX);
    let read = match frame(message, usize::MAX) {
        Framing::Whole(frame) => index.read(frame).ok(),
        _ => None,
    };
    match read {
        Some(read) => {
            let last = read.len() - usize::from(read.fault().is_none());
            for at in 2..last {
                match read.tag_at(at) {
                    Some(tag) if MASKED.contains(&tag) => put(&mut body, tag, MASK),
                    _ => body.extend_from_slice(read.stretch(at, at + 1).unwrap_or_default()),
                }
            }
            if read.fault().is_some() {
                put(&mut body, 58, MASK);
            }
        }
        None => {
            put(&mut body, 35, msg_type);
            put(&mut body, 58, MASK);
        }
    }
    let mut kept = begin;
    put(&mut kept, 9, body.len().to_string().as_bytes());
    kept.append(&mut body);
    let sum = fix::sum(&kept);
    put(&mut kept, 10, format!("{sum:03}").as_bytes());
    Some(kept)
}

/// The value of the third field.
fn msg_type(message: &[u8]) -> Option<&[u8]> {
    let begin_string = memchr(SOH, message)?;
    let body_length = memchr(SOH, &message[begin_string + 1..])?;
    let rest = message[begin_string + body_length + 2..].strip_prefix(b"35=")?;
    Some(&rest[..memchr(SOH, rest).unwrap_or(rest.len())])
}

fn put(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    out.extend_from_slice(tag.to_string().as_bytes());
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(SOH);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> Vec<u8> {
        let body = body.replace('|', "\x01");
        let mut message = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
        let sum = fix::sum(&message);
        put(&mut message, 10, format!("{sum:03}").as_bytes());
        message
    }

    fn kept(body: &str) -> String {
        let masked = masked(&message(body)).unwrap();
        let Framing::Whole(whole) = frame(&masked, usize::MAX) else { panic!("{masked:?}") };
        assert_eq!(whole.bytes().len(), masked.len());
        let text = String::from_utf8(masked).unwrap().replace('\x01', "|");
        let body = text.split_once("|35=").unwrap().1.rsplit_once("10=").unwrap().0;
        format!("35={body}")
    }

    #[test]
    fn passwords_become_stars_wherever_they_stand() {
        assert_eq!(
            kept("35=A|34=1|553=me|554=pw|108=30|925=|"),
            "35=A|34=1|553=me|554=***|108=30|925=***|"
        );
        assert_eq!(kept("35=A|554=a|554=b|"), "35=A|554=***|554=***|");
        let user_request = "35=BE|1400=1|1401=3|1402=a|b|1403=1|1404=x|95=3|96=c|d|58=t|";
        let masked = "35=BE|1400=***|1401=***|1402=***|1403=***|1404=***|95=3|96=***|58=t|";
        assert_eq!(kept(user_request), masked);
    }

    #[test]
    fn where_fields_cannot_be_told_apart_nothing_behind_them_is_kept() {
        assert_eq!(kept("35=A|34=1|95=9|96=a|554=pw|"), "35=A|34=1|95=9|58=***|");
        assert_eq!(kept("35=A|34=1|x|554=pw|"), "35=A|58=***|");
    }

    #[test]
    fn other_messages_are_kept_as_they_are() {
        for body in ["35=D|554=x|", "35=AE|96=x|", "35=B|95=1|96=x|"] {
            assert_eq!(masked(&message(body)), None);
        }
        assert_eq!(masked(b""), None);
    }
}
