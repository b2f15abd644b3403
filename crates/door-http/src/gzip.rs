//! Gzip bodies (RFC 1952) over deflate states that are reused.

use flate2::{Compress, Compression, Crc, Decompress, FlushCompress, FlushDecompress, Status};

use crate::refusal::Refusal;
use crate::room::{ROOM_BYTES_KEPT, SPARE_BYTES, grow};

/// Members that one body may consist of.
const MEMBERS_MAX: usize = 64;
/// Checksum and size behind each member.
const TRAILER_BYTES: usize = 8;

/// Reads gzip bodies.
pub(crate) struct Inflater(Decompress);

impl Inflater {
    pub(crate) fn new() -> Self {
        Self(Decompress::new(false))
    }

    /// Inflates `packed`, one gzip member or several, to the start of `into`, which grows as far as needed.
    /// Gives the size.
    pub(crate) fn inflate(
        &mut self,
        packed: &[u8],
        into: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<usize, Refusal> {
        let (mut rest, mut filled) = (packed, 0);
        for _ in 0..MEMBERS_MAX {
            let (used, end) = self.member(rest, into, filled, bytes_max)?;
            filled = end;
            rest = &rest[used..];
            if rest.is_empty() {
                return Ok(filled);
            }
        }
        Err(Refusal::BadGzip)
    }

    /// Inflates the member that begins `packed` to `into[from..]`; gives what it took and where it ends.
    fn member(
        &mut self,
        packed: &[u8],
        into: &mut Vec<u8>,
        from: usize,
        bytes_max: usize,
    ) -> Result<(usize, usize), Refusal> {
        let head = header_len(packed).ok_or(Refusal::BadGzip)?;
        let (taken, end) = self.stream(&packed[head..], into, from, bytes_max)?;
        let trailer = head + taken;
        let Some([c0, c1, c2, c3, s0, s1, s2, s3]) = packed[trailer..].first_chunk() else {
            return Err(Refusal::BadGzip);
        };
        let data = &into[from..end];
        let mut crc = Crc::new();
        crc.update(data);
        let sound = crc.sum() == u32::from_le_bytes([*c0, *c1, *c2, *c3])
            && u32::try_from(data.len()) == Ok(u32::from_le_bytes([*s0, *s1, *s2, *s3]));
        if !sound {
            return Err(Refusal::BadGzip);
        }
        Ok((trailer + TRAILER_BYTES, end))
    }

    /// Inflates one deflate stream.
    fn stream(
        &mut self,
        packed: &[u8],
        into: &mut Vec<u8>,
        from: usize,
        bytes_max: usize,
    ) -> Result<(usize, usize), Refusal> {
        self.0.reset(false);
        let (mut taken, mut end) = (0, from);
        loop {
            // One byte more than allowed tells a body that just fits from one that does not.
            let limit = (into.len() - SPARE_BYTES).min(bytes_max.saturating_add(1));
            let (in_before, out_before) = (self.0.total_in(), self.0.total_out());
            let status = self
                .0
                .decompress(&packed[taken..], &mut into[end..limit], FlushDecompress::Finish)
                .map_err(|_| Refusal::BadGzip)?;
            taken += small(self.0.total_in() - in_before);
            end += small(self.0.total_out() - out_before);
            if end > bytes_max {
                return Err(Refusal::InflatedTooLarge);
            }
            match status {
                Status::StreamEnd => return Ok((taken, end)),
                Status::Ok | Status::BufError if end == limit => grow(into, 2 * limit),
                Status::Ok | Status::BufError => return Err(Refusal::BadGzip),
            }
        }
    }
}

/// A count of bytes of one buffer.
fn small(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The length of the member header that begins `bytes`; `None` when it is none, or is cut.
fn header_len(bytes: &[u8]) -> Option<usize> {
    const CHECKSUM: u8 = 1 << 1;
    const EXTRA: u8 = 1 << 2;
    const NAME: u8 = 1 << 3;
    const COMMENT: u8 = 1 << 4;
    const RESERVED: u8 = 0b1110_0000;
    let [0x1f, 0x8b, 8, flags, _, _, _, _, _, _, rest @ ..] = bytes else { return None };
    if flags & RESERVED != 0 {
        return None;
    }
    let mut rest = rest;
    if flags & EXTRA != 0 {
        let (size, behind) = rest.split_first_chunk()?;
        rest = behind.get(usize::from(u16::from_le_bytes(*size))..)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & CHECKSUM != 0 {
        let (found, behind) = rest.split_first_chunk()?;
        let mut crc = Crc::new();
        crc.update(&bytes[..bytes.len() - rest.len()]);
        if (crc.sum() & 0xffff) != u32::from(u16::from_le_bytes(*found)) {
            return None;
        }
        rest = behind;
    }
    Some(bytes.len() - rest.len())
}

/// Writes gzip bodies. Fast rather than small: an answer is compressed for every request.
pub(crate) struct Deflater {
    state: Compress,
    packed: Vec<u8>,
}

impl Deflater {
    pub(crate) fn new() -> Self {
        const WINDOW_BITS: u8 = 15;
        let state = Compress::new_gzip(Compression::fast(), WINDOW_BITS);
        Self { state, packed: Vec::new() }
    }

    /// `body` as one gzip member; `None` when that would not be smaller.
    pub(crate) fn deflate(&mut self, body: &[u8]) -> Option<&[u8]> {
        self.state.reset();
        self.packed.truncate(ROOM_BYTES_KEPT);
        self.packed.shrink_to(ROOM_BYTES_KEPT);
        if self.packed.len() < body.len() {
            self.packed.resize(body.len(), 0);
        }
        let packed = &mut self.packed[..body.len()];
        let status = self.state.compress(body, packed, FlushCompress::Finish);
        let size = small(self.state.total_out());
        matches!(status, Ok(Status::StreamEnd)).then_some(&self.packed[..size])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(body: &[u8]) -> Vec<u8> {
        Deflater::new().deflate(body).unwrap().to_vec()
    }

    fn unpack(packed: &[u8], bytes_max: usize) -> Result<Vec<u8>, Refusal> {
        let mut into = vec![0; 256 + SPARE_BYTES];
        let size = Inflater::new().inflate(packed, &mut into, bytes_max)?;
        into.truncate(size);
        Ok(into)
    }

    fn text(count: usize) -> Vec<u8> {
        (0..count).map(|at| b"{\"imp\":[{\"id\":\"1\"}]}"[at * at % 21]).collect()
    }

    #[test]
    fn what_is_packed_unpacks_one_member_or_many() {
        let mut all = (Vec::new(), Vec::new());
        for size in [100, 5000, 257, 100_000] {
            assert_eq!(unpack(&pack(&text(size)), 100_000).unwrap(), text(size));
            all.0.extend(pack(&text(size)));
            all.1.extend(text(size));
        }
        assert_eq!(unpack(&all.0, all.1.len()).unwrap(), all.1);
        assert_eq!(unpack(&all.0, all.1.len() - 1), Err(Refusal::InflatedTooLarge));
    }

    #[test]
    fn states_are_as_new_after_a_failure() {
        let (mut inflater, mut into) = (Inflater::new(), vec![0; 10_000]);
        let packed = pack(&text(3000));
        for _ in 0..3 {
            let cut = &packed[..packed.len() / 2];
            assert_eq!(inflater.inflate(cut, &mut into, 5000), Err(Refusal::BadGzip));
            assert_eq!(inflater.inflate(&packed, &mut into, 5000), Ok(3000));
        }
        let mut deflater = Deflater::new();
        assert_eq!(deflater.deflate(&packed), None, "what does not shrink is left as it is");
        assert_eq!(deflater.deflate(&text(3000)).unwrap(), packed);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let packed = pack(&text(300));
        for cut in 0..packed.len() {
            assert_eq!(unpack(&packed[..cut], 1000), Err(Refusal::BadGzip), "{cut}");
        }
        // Where a flipped bit says the same in another way, nothing is lost.
        for (at, bit) in (0..packed.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bad = packed.clone();
            bad[at] ^= 1 << bit;
            if let Ok(same) = unpack(&bad, 1000) {
                assert!(same == text(300), "byte {at}, bit {bit}");
            }
        }
        let mut tail = packed.clone();
        tail.push(0);
        assert_eq!(unpack(&tail, 1000), Err(Refusal::BadGzip));
    }

    #[test]
    fn all_header_fields_are_skipped() {
        let packed = pack(b"text text text text text text text text");
        let mut full = packed[..10].to_vec();
        full[3] = 0b1_1110;
        full.extend_from_slice(b"\x05\0extraname\0comment\0");
        let mut crc = Crc::new();
        crc.update(&full);
        full.extend_from_slice(&crc.sum().to_le_bytes()[..2]);
        full.extend_from_slice(&packed[10..]);
        assert_eq!(unpack(&full, 1000).unwrap(), b"text text text text text text text text");
        full[12] ^= 1;
        assert_eq!(unpack(&full, 1000), Err(Refusal::BadGzip));
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let packed = pack(&vec![0; 10 << 20]);
        assert!(packed.len() < 128 << 10, "{}", packed.len());
        assert_eq!(unpack(&packed, 1 << 20), Err(Refusal::InflatedTooLarge));
        let empty = pack_empty().repeat(MEMBERS_MAX + 1);
        assert_eq!(unpack(&empty, 1000), Err(Refusal::BadGzip));
        assert_eq!(unpack(&pack_empty().repeat(MEMBERS_MAX), 1000).unwrap(), b"");
    }

    fn pack_empty() -> Vec<u8> {
        [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0][..], &[0; 8]].concat()
    }
}
