//! Bits of base64url text, read where they lie: a letter is six bits, the highest first.

/// A reader of bits. At the end, and at a letter that is none, it gives `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'t> {
    text: &'t [u8],
    /// The next bit's place.
    at: usize,
}

impl<'t> Bits<'t> {
    pub(crate) fn new(text: &'t str) -> Bits<'t> {
        Bits { text: text.as_bytes(), at: 0 }
    }

    /// The same text, from this bit on.
    pub(crate) fn from(self, at: usize) -> Bits<'t> {
        Bits { at, ..self }
    }

    /// One bit.
    pub(crate) fn flag(&mut self) -> Option<bool> {
        let value = sextet(*self.text.get(self.at / 6)?)?;
        let bit = value >> (5 - self.at % 6) & 1;
        self.at += 1;
        Some(bit == 1)
    }

    /// A number of at most 32 bits.
    pub(crate) fn int(&mut self, bits: u32) -> Option<u32> {
        let mut value = 0_u32;
        for _ in 0..bits {
            value = value << 1 | u32::from(self.flag()?);
        }
        Some(value)
    }

    /// Passes over bits that must be there.
    pub(crate) fn skip(&mut self, bits: usize) -> Option<()> {
        let end = self.at.checked_add(bits)?;
        (end <= self.text.len().checked_mul(6)?).then(|| self.at = end)
    }

    /// A number in Fibonacci coding (GPP, About Fibonacci Encoding): the sum of 1, 2, 3, 5, 8, ... whose bits are set,
    /// up to two set bits in a row.
    pub(crate) fn fibonacci(&mut self) -> Option<u32> {
        let (mut value, mut this, mut next, mut before) = (0_u32, 1_u32, 2_u32, false);
        loop {
            let is_set = self.flag()?;
            if is_set && before {
                return Some(value);
            }
            if is_set {
                value = value.checked_add(this)?;
            }
            before = is_set;
            (this, next) = (next, this.checked_add(next)?);
        }
    }
}

/// Is it a letter of base64url?
pub(crate) fn is_letter(letter: u8) -> bool {
    sextet(letter).is_some()
}

fn sextet(letter: u8) -> Option<u8> {
    Some(match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_highest_first() {
        let mut bits = Bits::new("C_A");
        assert_eq!((bits.int(6), bits.int(3), bits.flag()), (Some(2), Some(7), Some(true)));
        assert_eq!((bits.skip(2), bits.int(6), bits.flag()), (Some(()), Some(0), None));
        assert_eq!(Bits::new("A").int(7), None);
        assert_eq!(Bits::new("A=").from(6).flag(), None);
        assert_eq!((Bits::new("AA").skip(13), Bits::new("AA").skip(12)), (None, Some(())));
    }

    /// The table of the specification. Bits are padded to letters.
    #[test]
    fn fibonacci_numbers_by_the_specification() {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        for (code, value) in [
            ("11", 1),
            ("011", 2),
            ("0011", 3),
            ("1011", 4),
            ("00011", 5),
            ("10011", 6),
            ("01011", 7),
        ] {
            let place = usize::from_str_radix(&format!("{code:0<6}"), 2).unwrap();
            let text = char::from(LETTERS[place]).to_string();
            assert_eq!(Bits::new(&text).fibonacci(), Some(value), "{code}");
        }
        assert_eq!(Bits::new(&"A".repeat(99)).fibonacci(), None, "no end, no overflow");
        assert_eq!(Bits::new(&"q".repeat(99)).fibonacci(), None);
    }
}
