//! Hostile keys: sets that ruin an unkeyed or a weakly mixed table leave this one as it is with random
//! keys. The limits below were set from random keys: mean 1.049 lines at the highest load, longest
//! 9 to 16.

use table::{Map, Secret, spread};

/// Filled to a load of just below one half, the worst there is.
const KEYS: u64 = (1 << 15) - 100;
const SECRETS: u64 = 40;
const MEAN_THOUSANDTHS_MAX: u64 = 1_065;
const LONGEST_MAX: usize = 24;

fn secret(number: u64) -> Secret {
    Secret::new(u128::from(spread(number)) << 64 | u128::from(spread(!number)))
}

fn assert_spread(name: &str, key: impl Fn(u64) -> u64) {
    for number in 0..SECRETS {
        let map = Map::build(secret(number), (0..KEYS).map(|n| (key(n), 0u32))).expect("distinct");
        let lengths = map.probe_lengths();
        assert!(
            lengths.mean_thousandths <= MEAN_THOUSANDTHS_MAX && lengths.max <= LONGEST_MAX,
            "{name}, secret {number}: {lengths:?}"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "statistics over millions of keys; no unsafe code is involved")]
fn random_keys_set_the_scale() {
    assert_spread("random", spread);
}

#[test]
#[cfg_attr(miri, ignore = "statistics over millions of keys; no unsafe code is involved")]
fn sequences_and_multiples_of_powers_of_two_spread() {
    for shift in [0, 1, 4, 8, 16, 24, 32, 40, 48, 49] {
        assert_spread(&format!("multiples of 2^{shift}"), |n| n << shift);
    }
}

#[test]
#[cfg_attr(miri, ignore = "statistics over millions of keys; no unsafe code is involved")]
fn grids_and_turned_counters_spread() {
    assert_spread("grid of halves", |n| ((n % 181) << 32) | (n / 181));
    assert_spread("grid of ends", |n| ((n % 181) << 48) | (n / 181));
    assert_spread("byte-swapped counter", u64::swap_bytes);
    assert_spread("bit-reversed counter", u64::reverse_bits);
    assert_spread("steps of the golden ratio", |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
}

/// Inverse of an odd number modulo 2^64, by Newton's steps.
fn inverse(odd: u64) -> u64 {
    (0..6).fold(odd, |x, _| x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x))))
}

/// All of these keys start at the same place of a table that multiplies by a known constant and takes
/// the high bits, and of one that takes the low bits of a known finisher.
#[test]
#[cfg_attr(miri, ignore = "statistics over millions of keys; no unsafe code is involved")]
fn keys_built_to_collide_under_known_hashes_spread() {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let back = inverse(GOLDEN);
    let top_bits_zero = |n: u64| n.wrapping_mul(back);
    assert!((0..1000).all(|n| top_bits_zero(n).wrapping_mul(GOLDEN) >> 48 == 0));
    assert_spread("collide under a golden multiply", top_bits_zero);

    let unspread = |x: u64| {
        // SplitMix64's finisher, backwards.
        let x = x ^ (x >> 31) ^ (x >> 62);
        let x = x.wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
        let x = x ^ (x >> 27) ^ (x >> 54);
        let x = x.wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9));
        x ^ (x >> 30) ^ (x >> 60)
    };
    assert!((0..1000).all(|n| spread(unspread(n << 32)) == n << 32));
    assert_spread("collide under a known finisher", |n| unspread(n << 32));
}

#[test]
fn a_secret_does_not_show_itself() {
    assert_eq!(format!("{:?}", secret(3)), "Secret(..)");
}
