//! What was sent in the wrong dress, but can mean one thing only: put right on the tape, before it is walked again.
//!
//! A request is walked as it is. Where the walk meets a whole number in the place of a text, or an advertiser's address
//! in the place of a domain, it stops, the tape is mended and walked once more. Requests as the specification wants
//! them pay nothing for this.

use simd_json::{Node, StaticNode};

use crate::domain;
use crate::json::size;

/// Most bytes that a whole number of 64 bits takes as text.
const DIGITS_MAX: usize = 20;

/// Turns numbers into texts and addresses into domains, wherever the reader wants those. The digits are kept in `room`;
/// what finds no room stays a number.
pub(crate) fn mend<'t>(nodes: &mut [Node<'t>], room: &'t mut [u8]) {
    Mender { room }.request(nodes);
}

struct Mender<'t> {
    room: &'t mut [u8],
}

impl<'t> Mender<'t> {
    fn request(&mut self, json: &mut [Node<'t>]) {
        each_field(json, |key, value| match key {
            "id" => self.text(value),
            "imp" => each_item(value, |imp| self.imp(imp)),
            "cur" | "wseat" | "bseat" | "acat" | "bcat" | "bapp" | "wlang" | "wlangb" => {
                self.texts(value);
            }
            "badv" => self.domains(value),
            "app" | "dooh" | "site" => self.place(value),
            "user" => self.fields(value, &["id", "buyeruid"]),
            "source" => self.fields(value, &["tid"]),
            _ => {}
        });
    }

    fn imp(&mut self, json: &mut [Node<'t>]) {
        each_field(json, |key, value| match key {
            "id" | "tagid" => self.text(value),
            "video" | "audio" => self.fields(value, &["podid"]),
            "pmp" => each_field(value, |key, deals| {
                if key == "deals" {
                    each_item(deals, |deal| self.deal(deal));
                }
            }),
            _ => {}
        });
    }

    fn deal(&mut self, json: &mut [Node<'t>]) {
        each_field(json, |key, value| match key {
            "id" => self.text(value),
            "wseat" => self.texts(value),
            "wadomain" => self.domains(value),
            _ => {}
        });
    }

    fn place(&mut self, json: &mut [Node<'t>]) {
        each_field(json, |key, value| match key {
            "id" | "bundle" => self.text(value),
            "publisher" => self.fields(value, &["id"]),
            _ => {}
        });
    }

    fn fields(&mut self, json: &mut [Node<'t>], names: &[&str]) {
        each_field(json, |key, value| {
            if names.contains(&key) {
                self.text(value);
            }
        });
    }

    fn texts(&mut self, list: &mut [Node<'t>]) {
        each_item(list, |item| self.text(item));
    }

    fn domains(&mut self, list: &mut [Node<'t>]) {
        each_item(list, |item| match item.first_mut() {
            Some(Node::String(text)) => *text = domain::of(text),
            _ => self.text(item),
        });
    }

    fn text(&mut self, value: &mut [Node<'t>]) {
        let Some(node) = value.first_mut() else { return };
        let (negative, number) = match node {
            Node::Static(StaticNode::I64(number)) => (*number < 0, number.unsigned_abs()),
            Node::Static(StaticNode::U64(number)) => (false, *number),
            _ => return,
        };
        if let Some(text) = self.digits(negative, number) {
            *node = Node::String(text);
        }
    }

    fn digits(&mut self, negative: bool, mut number: u64) -> Option<&'t str> {
        let mut text = [0; DIGITS_MAX];
        let mut at = text.len();
        loop {
            at = at.checked_sub(1)?;
            text[at] = b'0' + u8::try_from(number % 10).ok()?;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        if negative {
            at = at.checked_sub(1)?;
            text[at] = b'-';
        }
        let text = text.get(at..)?;
        if self.room.len() < text.len() {
            return None;
        }
        let (mine, rest) = std::mem::take(&mut self.room).split_at_mut(text.len());
        self.room = rest;
        mine.copy_from_slice(text);
        std::str::from_utf8(mine).ok()
    }
}

fn each_field<'t>(json: &mut [Node<'t>], mut visit: impl FnMut(&str, &mut [Node<'t>])) {
    let Some((Node::Object { .. }, mut rest)) = json.split_first_mut() else { return };
    while let Some((Node::String(key), after)) = rest.split_first_mut() {
        let Some((value, later)) = after.split_at_mut_checked(size(after)) else { return };
        visit(key, value);
        rest = later;
    }
}

/// One value in place of a list is a list of one.
fn each_item<'t>(json: &mut [Node<'t>], mut visit: impl FnMut(&mut [Node<'t>])) {
    let mut rest = match json.first() {
        Some(Node::Array { .. }) => json.get_mut(1..).unwrap_or_default(),
        _ => json,
    };
    while !rest.is_empty() {
        let Some((value, later)) = rest.split_at_mut_checked(size(rest)) else { return };
        visit(value);
        rest = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    /// The request's id after mending, with so much room.
    fn id(body: &str, room: usize) -> Option<String> {
        let (mut body, mut room) = (body.as_bytes().to_vec(), vec![0; room]);
        let mut tape = simd_json::to_tape(&mut body).unwrap();
        mend(&mut tape.0, &mut room);
        Json(&tape.0).field("id").text().map(String::from)
    }

    #[test]
    fn numbers_become_their_digits() {
        for (number, text) in [
            ("0", "0"),
            ("7", "7"),
            ("-7", "-7"),
            ("9223372036854775807", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            let body = format!(r#"{{"x":[{{}},[1]],"id":{number}}}"#);
            assert_eq!(id(&body, body.len()).as_deref(), Some(text), "{body}");
        }
        for other in ["1.5", "true", "null", "{}", "[1]"] {
            assert_eq!(id(&format!(r#"{{"id":{other}}}"#), 99), None, "{other}");
        }
    }

    #[test]
    fn without_room_a_number_stays_one() {
        assert_eq!(id(r#"{"id":123}"#, 2), None);
        assert_eq!(id(r#"{"id":123}"#, 3).as_deref(), Some("123"));
    }
}
