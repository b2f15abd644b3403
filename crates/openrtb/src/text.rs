//! JSON text as it is written.

/// Writes `text` as the inside of a JSON string.
pub(crate) fn push_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    let special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    while let Some(at) = rest.iter().position(special) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                let hex = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Writes `,"name":["a","b"]`; nothing for an empty list.
pub(crate) fn push_list(out: &mut Vec<u8>, name: &str, list: &[&str]) {
    if list.is_empty() {
        return;
    }
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    let mut mark = b'[';
    for text in list {
        out.extend_from_slice(&[mark, b'"']);
        push_escaped(out, text);
        out.push(b'"');
        mark = b',';
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_comes_back_from_a_json_reader(text in any::<String>()) {
            let mut out = vec![b'"'];
            push_escaped(&mut out, &text);
            out.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn so_do_controls(bytes in proptest::collection::vec(0_u8..0x30, 0..40)) {
            let text = String::from_utf8(bytes).unwrap();
            let mut out = vec![b'"'];
            push_escaped(&mut out, &text);
            out.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
