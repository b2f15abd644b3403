// Sorting of 50,000 rows by index: stable radix passes over order-preserving keys. A comparator takes 12-34 ms here, this about one.

const DIGIT_BITS = 11;
const BUCKETS = 1 << DIGIT_BITS;
const MASK = BUCKETS - 1;
const LAST = 0xffff_ffff;

/** Doubles as two words that sort like them; none (NaN) comes last whichever way. */
export interface Words {
  readonly high: Uint32Array;
  readonly low: Uint32Array;
}

/** Writes the words of these rows' values. */
export function writeWords(
  { high, low }: Words,
  values: Float64Array,
  rows: Uint32Array,
  descending: boolean,
): void {
  const halves = new Uint32Array(values.buffer, values.byteOffset, 2 * values.length);
  const flip = descending ? LAST : 0;
  for (let i = 0; i < rows.length; i += 1) {
    const row = rows[i]!;
    const none = Number.isNaN(values[row]!);
    const top = halves[2 * row + 1]!;
    // Negative numbers sort the other way round, and before all others.
    const sign = top >>> 31 === 1 ? LAST : 0;
    high[row] = none ? LAST : (top ^ (sign | 0x8000_0000) ^ flip) >>> 0;
    low[row] = none ? LAST : (halves[2 * row]! ^ sign ^ flip) >>> 0;
  }
}

/** Sorts `order` (rows) by `key[row]`, keeping the order of equals. `spare` has its length. Returns the one that holds the result. */
export function radixSort(order: Uint32Array, key: Uint32Array, spare: Uint32Array): Uint32Array {
  let [from, to] = [order, spare];
  for (let shift = 0; shift < 32; shift += DIGIT_BITS) {
    if (pass(from, to, key, shift)) [from, to] = [to, from];
  }
  return from;
}

/** One digit; false if all rows share it and nothing had to move. */
function pass(from: Uint32Array, to: Uint32Array, key: Uint32Array, shift: number): boolean {
  const starts = new Uint32Array(BUCKETS);
  for (let i = 0; i < from.length; i += 1) starts[(key[from[i]!]! >>> shift) & MASK]! += 1;
  if (from.length === 0 || starts[(key[from[0]!]! >>> shift) & MASK] === from.length) return false;
  let sum = 0;
  for (let digit = 0; digit < BUCKETS; digit += 1) {
    const count = starts[digit]!;
    starts[digit] = sum;
    sum += count;
  }
  for (let i = 0; i < from.length; i += 1) {
    const row = from[i]!;
    const digit = (key[row]! >>> shift) & MASK;
    to[starts[digit]!] = row;
    starts[digit]! += 1;
  }
  return true;
}
