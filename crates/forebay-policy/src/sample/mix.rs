//! From what the user chose to the bits a generator starts from.
//!
//! Users choose seeds 0, 1, 2 and epochs count up, so neighbouring inputs must give unrelated keys. The mixer is the
//! finaliser of `SplitMix64` (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014; constants
//! are Stafford's variant 13).

/// What a key is for. Two purposes under one seed and epoch share no key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Order,
    Draw,
}

/// The golden ratio in 64 bits: the increment of `SplitMix64`.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Odd, and unrelated to the mixer's own constants.
const EPOCH: u64 = 0xd134_2543_de82_ef95;
const OCCURRENCE: u64 = 0xaef1_7502_108e_f2d9;

/// A 64-bit key for one purpose, seed, epoch and occurrence.
///
/// **Invariant:** for one purpose, seed and occurrence, two epochs never share a key: each step is a bijection.
#[inline]
pub(super) fn key(purpose: Purpose, seed: u64, epoch: u64, occurrence: u64) -> u64 {
    let purpose = match purpose {
        Purpose::Order => 0x6f72_6465_7231_0001,
        Purpose::Draw => 0x6472_6177_3100_0001,
    };
    mix(mix(seed.wrapping_add(purpose))
        .wrapping_add(epoch.wrapping_mul(EPOCH))
        .wrapping_add(occurrence.wrapping_mul(OCCURRENCE)))
}

/// The `index`-th word of the `SplitMix64` stream that starts at `key`.
#[inline]
pub(super) fn word(key: u64, index: u64) -> u64 {
    mix(key.wrapping_add(GOLDEN.wrapping_mul(index.wrapping_add(1))))
}

/// A bijection of 64 bits in which every input bit reaches every output bit.
#[inline]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_published_generator() {
        // `SplitMix64` seeded with 0, as in Vigna's `splitmix64.c` and `java.util.SplittableRandom`.
        let published = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([0, 1, 2].map(|index| word(0, index)), published);
    }

    #[test]
    fn purposes_share_no_key() {
        assert_ne!(key(Purpose::Order, 0, 0, 0), key(Purpose::Draw, 0, 0, 0));
    }
}
