//! What binds a sealed row of a table to its place.

use crate::KeyType;

/// Bytes of the associated data of a row.
pub const ROW_AAD_BYTES: usize = 38;

/// The place of a row. As associated data it makes a sealed row open in that place only: not in another row, product or tenant, not
/// for another purpose, and not relabelled as another type or version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlace {
    /// The type that seals the row.
    pub kind: KeyType,
    /// The version of the key.
    pub key_version: u32,
    /// Whose row it is.
    pub tenant: u64,
    /// The table.
    pub product: u64,
    /// The row.
    pub row: u64,
    /// What is sealed and in which form, for example `serial/1`.
    pub purpose: [u8; 8],
}

impl RowPlace {
    /// Returns the associated data: every field with a fixed width, so that no two places have the same. Format 1 (u8), type
    /// ([`KeyType::code`], u8), version (u32), tenant, product, row (u64 each), purpose; little-endian.
    pub fn aad(&self) -> [u8; ROW_AAD_BYTES] {
        let version = self.key_version.to_le_bytes();
        let numbers = [self.tenant, self.product, self.row].map(u64::to_le_bytes);
        let fields = [1, self.kind.code()].into_iter().chain(version);
        let fields = fields.chain(numbers.into_iter().flatten()).chain(self.purpose);
        let mut aad = [0; ROW_AAD_BYTES];
        aad.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        aad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: RowPlace = RowPlace {
        kind: KeyType::Aes256GcmSiv,
        key_version: 0x0403_0201,
        tenant: 7,
        product: 8,
        row: 9,
        purpose: *b"serial/1",
    };

    #[test]
    fn the_bytes_are_as_stated() {
        let numbers =
            [[7, 0, 0, 0, 0, 0, 0, 0], [8, 0, 0, 0, 0, 0, 0, 0], [9, 0, 0, 0, 0, 0, 0, 0]];
        let expected = [&[1, 2, 1, 2, 3, 4][..], numbers.as_flattened(), b"serial/1"].concat();
        assert_eq!(PLACE.aad().to_vec(), expected);
    }

    #[test]
    fn every_field_counts() {
        let others = [
            RowPlace { kind: KeyType::Aes256CbcCmac, ..PLACE },
            RowPlace { key_version: 5, ..PLACE },
            RowPlace { tenant: 8, ..PLACE },
            RowPlace { product: 7, ..PLACE },
            RowPlace { row: 1 << 63, ..PLACE },
            RowPlace { purpose: *b"serial/2", ..PLACE },
        ];
        assert!(others.iter().all(|other| other.aad() != PLACE.aad()));
        let codes: std::collections::BTreeSet<u8> = KeyType::ALL.map(KeyType::code).into();
        assert_eq!(codes.len(), KeyType::ALL.len(), "a code per type");
    }
}
