//! AES over many messages at once.
//!
//! CBC and CMAC are chains: a block needs the one before it. So a single message uses a small part of what the CPU's AES units can
//! do. Here up to [`LANES`] messages advance together, one block of each per step, and a step is one call of the block cipher.
//!
//! Messages are copied into [`Window`]s, step by step and lane by lane, so that steps run over memory without gaps. A lane whose message has
//! ended keeps its chain while others go on.

use crate::Item;
use aes::Block;
use aes::cipher::consts::U16;
use aes::cipher::inout::InOutBuf;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{
    BlockCipherDecrypt, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt,
    BlockSizeUser,
};

/// Messages that advance together. The widest back end of the `aes` crate (VAES with 512-bit registers) works on this many blocks.
pub(crate) const LANES: usize = 64;
/// Up to this many lanes, one block after the other is cheaper than a full step (measured: 64 blocks cost what 16 single ones do).
pub(crate) const FEW: usize = 16;
/// Bytes of an AES block.
pub(crate) const BLOCK: usize = 16;
/// Steps of a window.
pub(crate) const STEPS: usize = 4;

/// One block of each of `L` lanes.
pub(crate) type Step<const L: usize> = [Block; L];
/// A few steps of all lanes.
pub(crate) type Window<const L: usize> = [[Block; L]; STEPS];

/// The memory that a group of messages is worked on in; made once for a batch.
pub(crate) struct Scratch<const L: usize> {
    /// The chains of CBC.
    pub(crate) chain: Step<L>,
    /// The IVs.
    pub(crate) ivs: Step<L>,
    /// The chains of the MAC, in the end the tags.
    pub(crate) mac: Step<L>,
    /// Steps of the associated data.
    pub(crate) aad: Window<L>,
    /// Steps of the messages.
    pub(crate) text: Window<L>,
    /// Blocks of the associated data.
    pub(crate) aad_blocks: Lengths<L>,
    /// Blocks of the messages.
    pub(crate) text_blocks: Lengths<L>,
}

impl<const L: usize> Scratch<L> {
    /// Returns memory of zeros.
    #[inline]
    pub(crate) fn new() -> Scratch<L> {
        let (step, lengths) = ([Block::default(); L], Lengths::NONE);
        Scratch {
            chain: step,
            ivs: step,
            mac: step,
            aad: [step; STEPS],
            text: [step; STEPS],
            aad_blocks: lengths,
            text_blocks: lengths,
        }
    }
}

/// How many blocks each lane has. Lanes without a message have none.
#[derive(Clone, Copy)]
pub(crate) struct Lengths<const L: usize> {
    blocks: [usize; L],
    lanes: usize,
    shortest: usize,
    longest: usize,
}

impl<const L: usize> Lengths<L> {
    /// No lanes.
    pub(crate) const NONE: Lengths<L> =
        Lengths { blocks: [0; L], lanes: 0, shortest: usize::MAX, longest: 0 };

    /// Forgets all lanes.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        (self.lanes, self.shortest, self.longest) = (0, usize::MAX, 0);
    }

    /// Adds a lane of so many blocks.
    #[inline(always)]
    pub(crate) fn push(&mut self, blocks: usize) {
        if let Some(place) = self.blocks.get_mut(self.lanes) {
            *place = blocks;
            self.lanes += 1;
            self.shortest = self.shortest.min(blocks);
            self.longest = self.longest.max(blocks);
        }
    }

    /// Returns the steps that the longest lane needs.
    #[inline]
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Tells whether the lane has no block from step `at` on.
    #[inline(always)]
    pub(crate) fn has_ended(&self, lane: usize, at: usize) -> bool {
        self.blocks.get(lane).is_none_or(|blocks| *blocks <= at)
    }

    fn counts(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().take(self.lanes).copied()
    }

    /// Tells whether every lane has a block at this step.
    #[inline]
    fn is_full(&self, at: usize) -> bool {
        at < self.shortest
    }

    /// Returns the steps of the window that begins at step `first`, if every lane has a block in each of them, and whether the last of
    /// them ends all lanes. `None` if only some lanes have blocks, or only some lanes end.
    #[inline]
    fn even(&self, first: usize) -> Option<(usize, bool)> {
        let steps = self.longest.saturating_sub(first).min(STEPS);
        let ends = self.shortest == self.longest;
        let even = ends || first + steps < self.shortest;
        even.then_some((steps, first + steps == self.longest))
    }

    /// Advances the chains over a window. With `replace`, the window has the chains' values afterwards; `last` is XORed into the last
    /// block of each lane.
    #[inline]
    pub(crate) fn advance(
        &self,
        cipher: &impl BlockCipherEncrypt<BlockSize = U16>,
        chain: &mut Step<L>,
        window: &mut Window<L>,
        first: usize,
        replace: bool,
        last: Option<&[u8; BLOCK]>,
    ) {
        if let Some((steps, ends)) = self.even(first) {
            let steps = window.get_mut(..steps).unwrap_or_default();
            let last = last.filter(|_| ends);
            let lanes = self.lanes;
            return cipher.encrypt_with_backend(Chained { chain, steps, lanes, replace, last });
        }
        for (at, step) in (first..self.longest).zip(window) {
            self.absorb(chain, step, at);
            if let Some(last) = last {
                self.absorb_last(chain, last, at);
            }
            self.encrypt(cipher, chain, at);
            if replace {
                *step = *chain;
            }
        }
    }

    /// Encrypts the chains of the lanes that have a block at step `at`; the others stay as they are.
    fn encrypt(
        &self,
        cipher: &impl BlockCipherEncrypt<BlockSize = U16>,
        chain: &mut Step<L>,
        at: usize,
    ) {
        if self.is_full(at) {
            return encrypt(cipher, chain, self.lanes);
        }
        let (mut few, mut count) = ([Block::default(); L], 0);
        for ((from, _), to) in self.active(chain, at).zip(&mut few) {
            *to = *from;
            count += 1;
        }
        encrypt(cipher, &mut few, count);
        for ((to, _), from) in self.active(chain, at).zip(&few) {
            *to = *from;
        }
    }

    /// XORs a step of input into the chains of the lanes that have a block there.
    fn absorb(&self, chain: &mut Step<L>, input: &Step<L>, at: usize) {
        if self.is_full(at) {
            let pairs = chain.iter_mut().zip(input).take(self.lanes);
            return pairs.for_each(|(block, bytes)| xor(block, &bytes.0));
        }
        let blocks = chain.iter_mut().zip(input).zip(self.counts());
        for ((block, bytes), _) in blocks.filter(|(_, count)| at < *count) {
            xor(block, &bytes.0);
        }
    }

    /// XORs the same bytes into the chains of the lanes whose last block is at step `at`.
    fn absorb_last(&self, chain: &mut Step<L>, bytes: &[u8; BLOCK], at: usize) {
        if at + 1 < self.shortest {
            return;
        }
        let blocks = chain.iter_mut().zip(self.counts());
        for (block, _) in blocks.filter(|(_, count)| at + 1 == *count) {
            xor(block, bytes);
        }
    }

    fn active<'a>(
        &'a self,
        chain: &'a mut Step<L>,
        at: usize,
    ) -> impl Iterator<Item = (&'a mut Block, usize)> {
        chain.iter_mut().zip(self.counts()).filter(move |(_, count)| at < *count)
    }
}

/// Steps of a chain in which every lane has a block. Everything runs inside one call of the cipher, so that the compiler may use the wide
/// registers that the cipher uses for the XORs too, and loads the round keys once.
pub(crate) struct Chained<'a, const L: usize> {
    /// The chains.
    pub(crate) chain: &'a mut Step<L>,
    /// What goes into them.
    pub(crate) steps: &'a mut [Step<L>],
    /// How many lanes count.
    pub(crate) lanes: usize,
    /// Are the steps replaced by the chains (CBC) or left as they are (a MAC)?
    pub(crate) replace: bool,
    /// XORed into the last step, where it ends the messages.
    pub(crate) last: Option<&'a [u8; BLOCK]>,
}

impl<const L: usize> BlockSizeUser for Chained<'_, L> {
    type BlockSize = U16;
}

impl<const L: usize> BlockCipherEncClosure for Chained<'_, L> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let used = blocks_of(self.lanes, B::ParBlocksSize::USIZE).min(L);
        let Some(chain) = self.chain.get_mut(..used) else { return };
        let ends_at = self.steps.len();
        for (number, step) in (1..).zip(self.steps) {
            xor_wide(chain, step);
            if let Some(last) = self.last.filter(|_| number == ends_at) {
                chain.iter_mut().for_each(|block| xor(block, last));
            }
            let (wide, narrow) = InOutBuf::from(&mut *chain).into_chunks();
            for blocks in wide {
                backend.encrypt_par_blocks(blocks);
            }
            backend.encrypt_tail_blocks(narrow);
            if self.replace {
                for (to, from) in step.iter_mut().zip(chain.iter()) {
                    *to = *from;
                }
            }
        }
    }
}

/// Returns how many blocks to encrypt where `lanes` count and the back end takes `wide` at once: more than these, where the rest would cost
/// more one by one than in a wide step.
#[inline(always)]
fn blocks_of(lanes: usize, wide: usize) -> usize {
    // A single block costs what four of a wide step do.
    let is_short = lanes <= FEW || lanes % wide * 4 <= wide;
    if is_short { lanes } else { lanes.next_multiple_of(wide) }
}

/// Encrypts the first `count` blocks. The content of the others afterwards is unspecified.
#[inline]
pub(crate) fn encrypt<const L: usize>(
    cipher: &impl BlockCipherEncrypt<BlockSize = U16>,
    step: &mut Step<L>,
    count: usize,
) {
    if count > FEW {
        cipher.encrypt_blocks(step);
    } else if let Some(blocks) = step.get_mut(..count) {
        cipher.encrypt_blocks(blocks);
    }
}

/// Decrypts the first `count` blocks of each of the first `steps` steps. The content of the others afterwards is unspecified.
#[inline]
pub(crate) fn decrypt<const L: usize>(
    cipher: &impl BlockCipherDecrypt<BlockSize = U16>,
    window: &mut Window<L>,
    count: usize,
    steps: usize,
) {
    let steps = window.get_mut(..steps.min(STEPS)).unwrap_or_default();
    if count > FEW || count == L {
        return cipher.decrypt_blocks(steps.as_flattened_mut());
    }
    for step in steps {
        cipher.decrypt_blocks(step.get_mut(..count).unwrap_or_default());
    }
}

/// Asks for the memory of the next group, which is worked on after this one: between two groups the processor's own prefetch loses its way.
#[inline(always)]
pub(crate) fn prefetch(group: &[Item<'_>], lane: usize) {
    let Some(item) = group.get(lane) else { return };
    for bytes in [item.input, item.aad, item.output] {
        bytes.first().into_iter().for_each(table::prefetch);
        bytes.last().into_iter().for_each(table::prefetch);
    }
}

/// Overwrites blocks with zeros, in a way that the compiler does not leave out.
#[inline]
pub(crate) fn wipe(blocks: &mut [Block]) {
    blocks.fill(Block::default());
    zeroize::optimization_barrier(blocks);
}

/// XORs 16 bytes into a block.
#[inline(always)]
pub(crate) fn xor(block: &mut Block, bytes: &[u8; BLOCK]) {
    block.0 = xored(&block.0, bytes);
}

/// Returns the XOR of two blocks. As numbers: a loop over bytes becomes one, where the compiler cannot see that they do not overlap.
#[inline(always)]
fn xored(one: &[u8; BLOCK], other: &[u8; BLOCK]) -> [u8; BLOCK] {
    (u128::from_ne_bytes(*one) ^ u128::from_ne_bytes(*other)).to_ne_bytes()
}

/// XORs blocks into blocks, four at a time, as the widest registers do.
#[inline(always)]
fn xor_wide(to: &mut [Block], from: &[Block]) {
    let (to, to_rest) = Block::cast_slice_to_core_mut(to).as_chunks_mut::<4>();
    let (from, from_rest) =
        Block::cast_slice_to_core(from.get(..to.len() * 4 + to_rest.len()).unwrap_or_default())
            .as_chunks::<4>();
    for (to, from) in to.iter_mut().zip(from) {
        let (one, other) = (to.as_flattened_mut(), from.as_flattened());
        let mut both = [0; 4 * BLOCK];
        for ((both, one), other) in both.iter_mut().zip(one.iter()).zip(other) {
            *both = one ^ other;
        }
        one.copy_from_slice(&both);
    }
    for (to, from) in to_rest.iter_mut().zip(from_rest) {
        *to = xored(to, from);
    }
}

/// XORs the first `count` blocks of `other` into those of `step`.
#[inline(always)]
pub(crate) fn xor_all<const L: usize>(step: &mut Step<L>, other: &Step<L>, count: usize) {
    for (block, bytes) in step.iter_mut().zip(other).take(count) {
        xor(block, &bytes.0);
    }
}

/// Copies the blocks of `bytes` from block `first` on into a lane of a window. With `closing`, what is left after the last whole block
/// (possibly nothing) is a block too, filled up with that byte.
#[inline(always)]
pub(crate) fn gather<const L: usize>(
    window: &mut Window<L>,
    lane: usize,
    bytes: &[u8],
    first: usize,
    closing: Option<u8>,
) {
    let (blocks, rest) = bytes.get(first * BLOCK..).unwrap_or_default().as_chunks::<BLOCK>();
    let mut steps = window.iter_mut().filter_map(|step| step.get_mut(lane));
    for (place, block) in steps.by_ref().zip(blocks) {
        place.0 = *block;
    }
    let Some(filler) = closing else { return };
    if blocks.len() < STEPS
        && let Some(place) = window.get_mut(blocks.len()).and_then(|step| step.get_mut(lane))
    {
        place.0 = closing_block(bytes, rest, filler);
    }
}

/// Returns `rest`, the end of `bytes`, filled up to a block.
#[inline(always)]
fn closing_block(bytes: &[u8], rest: &[u8], filler: u8) -> [u8; BLOCK] {
    let fill = u128::from_ne_bytes([filler; BLOCK]);
    if rest.is_empty() {
        return fill.to_ne_bytes();
    }
    if let Some(last) = bytes.last_chunk::<BLOCK>() {
        // One load of 16 bytes and shifts, instead of a loop over bytes.
        let bits = rest.len() * 8;
        return ((u128::from_le_bytes(*last) >> (128 - bits)) | (fill << bits)).to_le_bytes();
    }
    let mut block = [filler; BLOCK];
    for (to, from) in block.iter_mut().zip(rest) {
        *to = *from;
    }
    block
}

/// Copies a lane of a window to `bytes`, from block `first` on, as far as both reach.
#[inline(always)]
pub(crate) fn scatter<const L: usize>(
    window: &Window<L>,
    lane: usize,
    bytes: &mut [u8],
    first: usize,
) {
    let (blocks, _) = bytes.get_mut(first * BLOCK..).unwrap_or_default().as_chunks_mut::<BLOCK>();
    for (place, block) in blocks.iter_mut().zip(window.iter().filter_map(|step| step.get(lane))) {
        *place = block.0;
    }
}

/// Copies a lane of a window to `bytes`, from block `first` on, each block XORed with the same block of `other`.
#[inline(always)]
pub(crate) fn scatter_xored<const L: usize>(
    window: &Window<L>,
    lane: usize,
    bytes: &mut [u8],
    other: &[u8],
    first: usize,
) {
    let (places, _) = bytes.get_mut(first * BLOCK..).unwrap_or_default().as_chunks_mut::<BLOCK>();
    let (others, _) = other.get(first * BLOCK..).unwrap_or_default().as_chunks::<BLOCK>();
    let blocks = window.iter().filter_map(|step| step.get(lane));
    for ((place, other), block) in places.iter_mut().zip(others).zip(blocks) {
        *place = xored(&block.0, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_that_is_short_is_not_rounded_up() {
        // Back ends take 8, 30 or 64 at once.
        for (lanes, wide, blocks) in [
            (16, 64, 16),
            (17, 64, 64),
            (63, 64, 64),
            (64, 64, 64),
            (17, 30, 30),
            (32, 30, 32),
            (37, 30, 37),
            (38, 30, 60),
            (64, 30, 64),
            (18, 8, 18),
            (19, 8, 24),
        ] {
            assert_eq!(blocks_of(lanes, wide), blocks, "{lanes} of {wide}");
        }
    }
}
