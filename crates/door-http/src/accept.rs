//! `Accept-Encoding`: whether the client wants gzip (RFC 9110, section 12.5.3).

/// What the `Accept-Encoding` lines of one request say, as quality values in thousandths.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accepts {
    gzip: Option<u16>,
    identity: Option<u16>,
    any: Option<u16>,
}

impl Accepts {
    /// Takes in one line's value. What is not understood is skipped: plain answers suit every client.
    pub(crate) fn add(&mut self, value: &[u8]) {
        for item in value.split(|byte| *byte == b',') {
            let mut parts = item.split(|byte| *byte == b';');
            let coding = parts.next().unwrap_or_default().trim_ascii();
            let place =
                if coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip") {
                    &mut self.gzip
                } else if coding.eq_ignore_ascii_case(b"identity") {
                    &mut self.identity
                } else if coding == b"*" {
                    &mut self.any
                } else {
                    continue;
                };
            *place = match parts.next() {
                None => Some(1000),
                Some(weight) => quality(weight),
            };
        }
    }

    /// Gzip is acceptable and not liked less than a plain body.
    pub(crate) fn gzip(self) -> bool {
        let gzip = self.gzip.or(self.any).unwrap_or(0);
        gzip > 0 && gzip >= self.identity.unwrap_or(0)
    }
}

/// `q=0.875` in thousandths: one digit, and at most three behind the point.
fn quality(weight: &[u8]) -> Option<u16> {
    let (name, value) = weight.trim_ascii().split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (whole, decimals) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut thousandths = digit(*whole)? * 1000;
    for (decimal, scale) in decimals.iter().zip([100, 10, 1]) {
        thousandths += digit(*decimal)? * scale;
    }
    (thousandths <= 1000).then_some(thousandths)
}

fn digit(byte: u8) -> Option<u16> {
    byte.is_ascii_digit().then(|| u16::from(byte - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_decide() {
        let cases: [(&[&str], bool); 20] = [
            (&[], false),
            (&[""], false),
            (&["gzip"], true),
            (&["GZip"], true),
            (&["x-gzip"], true),
            (&["deflate, br"], false),
            (&["deflate, gzip;q=1.0, *;q=0.5"], true),
            (&["br", "gzip"], true),
            (&["gzip;q=0"], false),
            (&["gzip;q=0.000"], false),
            (&["gzip; q=0.001"], true),
            (&["gzip;Q=0.5"], true),
            (&["*"], true),
            (&["*;q=0"], false),
            (&["*, gzip;q=0"], false),
            (&["identity, gzip;q=0.5"], false),
            (&["identity;q=0.5, gzip;q=0.5"], true),
            (&["gzip;q=2"], false),
            (&["gzip;q=0.1234"], false),
            (&["gzip;level=9"], false),
        ];
        for (lines, expected) in cases {
            let mut accepts = Accepts::default();
            lines.iter().for_each(|line| accepts.add(line.as_bytes()));
            assert_eq!(accepts.gzip(), expected, "{lines:?}");
        }
    }
}
