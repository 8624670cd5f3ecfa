//! Random bits by counting: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3", 2011). A bijection of
//! the counter for each key, so that any element can be computed at any time, in any order, and computed again.

use super::IntMeaning::Three;
use super::PointRow;
use ox_ir::PointOp;

pub(super) const ROWS: &[PointRow] = &[
    PointRow::int(PointOp::Random, Three(|key, low, high| half(philox(key, low, high), 0))),
    PointRow::int(PointOp::RandomHigh, Three(|key, low, high| half(philox(key, low, high), 2))),
];

const ROUNDS: usize = 10;
const MULTIPLIERS: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];
/// What the two words of the key grow by from round to round.
const STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

fn philox(key: i64, low: i64, high: i64) -> [u32; 4] {
    let mut key = [key as u32, (key >> 32) as u32];
    let mut word = [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32];
    for _ in 0..ROUNDS {
        let [a, b] = [MULTIPLIERS[0] * word[0] as u64, MULTIPLIERS[1] * word[2] as u64];
        word = [(b >> 32) as u32 ^ word[1] ^ key[0], b as u32, (a >> 32) as u32 ^ word[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(STEPS[0]), key[1].wrapping_add(STEPS[1])];
    }
    word
}

fn half(words: [u32; 4], first: usize) -> i64 {
    (words[first] as u64 | (words[first + 1] as u64) << 32) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::apply;
    use ox_ir::{DType, Scalar};

    /// The known answers that are published with Random123: counter, key, result.
    const KNOWN: [([u32; 4], [u32; 2], [u32; 4]); 3] = [
        ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
        ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
        (
            [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
            [0xa4093822, 0x299f31d0],
            [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
        ),
    ];

    #[test]
    fn known_answers() {
        let word = |pair: &[u32]| Scalar::Int((pair[0] as u64 | (pair[1] as u64) << 32) as i64);
        for (counter, key, result) in KNOWN {
            let args = [word(&key), word(&counter[..2]), word(&counter[2..])];
            assert_eq!(apply(PointOp::Random, DType::I64, &args), Ok(word(&result[..2])));
            assert_eq!(apply(PointOp::RandomHigh, DType::I64, &args), Ok(word(&result[2..])));
        }
    }
}
