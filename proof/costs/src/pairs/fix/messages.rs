//! FIX messages as order flow has them: values made up, lengths as in the field.

use std::fmt::Write as _;

use probe::compare::Random;

const SOH: char = '\u{1}';

/// New orders and execution reports, half and half.
pub(in crate::pairs) fn messages(count: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let message = |number| {
        let body = if random.below(2) == 0 {
            order(&mut random, number)
        } else {
            report(&mut random, number)
        };
        framed(&body)
    };
    (1..=count).map(message).collect()
}

/// `NewOrderSingle`, with the fields that are optional now and then.
fn order(random: &mut Random, number: usize) -> String {
    let mut body = header("D", random, number);
    field(&mut body, 11, format_args!("{}-{number:08}", digits(random, 6)));
    field(&mut body, 1, format_args!("ACCT{}", digits(random, 5)));
    field(&mut body, 21, "1");
    field(&mut body, 55, symbol(random));
    sometimes(random, &mut body, 48, "US0378331005");
    sometimes(random, &mut body, 22, "4");
    sometimes(random, &mut body, 207, "XNAS");
    field(&mut body, 54, 1 + random.below(2));
    field(&mut body, 60, time(random));
    field(&mut body, 38, 100 * (1 + random.below(99)));
    field(&mut body, 40, "2");
    field(&mut body, 44, price(random));
    field(&mut body, 15, "USD");
    field(&mut body, 59, random.below(5));
    sometimes(random, &mut body, 58, "client desk 7, algo VWAP");
    body
}

/// `ExecutionReport`.
fn report(random: &mut Random, number: usize) -> String {
    let mut body = header("8", random, number);
    let quantity = 100 * (1 + random.below(99));
    field(&mut body, 37, format_args!("O{}", digits(random, 10)));
    field(&mut body, 11, format_args!("{}-{number:08}", digits(random, 6)));
    field(&mut body, 17, format_args!("E{}", digits(random, 12)));
    field(&mut body, 150, "F");
    field(&mut body, 39, 1 + random.below(2));
    field(&mut body, 1, format_args!("ACCT{}", digits(random, 5)));
    field(&mut body, 55, symbol(random));
    field(&mut body, 54, 1 + random.below(2));
    field(&mut body, 38, quantity);
    field(&mut body, 44, price(random));
    field(&mut body, 32, quantity / 2);
    field(&mut body, 31, price(random));
    field(&mut body, 151, quantity / 2);
    field(&mut body, 14, quantity / 2);
    field(&mut body, 6, price(random));
    sometimes(random, &mut body, 30, "XNAS");
    sometimes(random, &mut body, 76, "BROKER01");
    sometimes(random, &mut body, 12, "0.0035");
    field(&mut body, 60, time(random));
    sometimes(random, &mut body, 58, "partially filled");
    body
}

fn header(kind: &str, random: &mut Random, number: usize) -> String {
    let mut body = String::new();
    field(&mut body, 35, kind);
    field(&mut body, 34, number);
    field(&mut body, 49, "BUYSIDE01");
    sometimes(random, &mut body, 50, "TRADER12");
    field(&mut body, 52, time(random));
    field(&mut body, 56, "VENUEGW");
    body
}

/// With begin, length and check sum.
fn framed(body: &str) -> Vec<u8> {
    let mut message = String::new();
    field(&mut message, 8, "FIX.4.4");
    field(&mut message, 9, body.len());
    message.push_str(body);
    let sum: u32 = message.bytes().map(u32::from).sum();
    field(&mut message, 10, format_args!("{:03}", sum % 256));
    message.into_bytes()
}

fn field(message: &mut String, tag: u32, value: impl std::fmt::Display) {
    let _ = write!(message, "{tag}={value}{SOH}");
}

fn sometimes(random: &mut Random, message: &mut String, tag: u32, value: &str) {
    if random.below(3) == 0 {
        field(message, tag, value);
    }
}

fn digits(random: &mut Random, count: usize) -> String {
    (0..count).map(|_| char::from(b"0123456789"[random.below(10)])).collect()
}

fn symbol(random: &mut Random) -> &'static str {
    ["F", "IBM", "MSFT", "GOOGL", "BRK.B", "ESZ26"][random.below(6)]
}

fn price(random: &mut Random) -> String {
    format!("{}.{:02}", 1 + random.below(1_999), random.below(100))
}

fn time(random: &mut Random) -> String {
    let (h, m, s, ms) = (random.below(24), random.below(60), random.below(60), random.below(1_000));
    format!("20261121-{h:02}:{m:02}:{s:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sound_and_of_the_stated_lengths() {
        let made = messages(500, 7);
        assert_eq!(made, messages(500, 7));
        assert_ne!(made, messages(500, 8));
        for message in &made {
            let text = std::str::from_utf8(message).unwrap();
            assert!((150..=400).contains(&text.len()), "{} bytes: {text}", text.len());
            let (front, end) = text.rsplit_once("10=").unwrap();
            let sum: u32 = front.bytes().map(u32::from).sum();
            assert_eq!(end, format!("{:03}\u{1}", sum % 256));
            let fields: Vec<&str> = front.split_terminator(SOH).collect();
            assert!(fields.iter().all(|field| field.contains('=')), "{text}");
            let body: usize = fields[2..].iter().map(|field| field.len() + 1).sum();
            assert_eq!(fields[1], format!("9={body}"));
        }
    }
}
