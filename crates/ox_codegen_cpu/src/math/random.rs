//! Philox 4x32-10. A word of 32 bits stands in a lane of 64, where its product fits.

use crate::ir::V;

const ROUNDS: i64 = 10;
const MULTIPLIERS: [i64; 2] = [0xd251_1f53, 0xcd9e_8d57];
const STEPS: [i64; 2] = [0x9e37_79b9, 0xbb67_ae85];
const WORD: i64 = 0xffff_ffff;

pub enum Half {
    Low,
    High,
}

/// Half of the 128 bits; all arguments are i64.
pub fn random<'a>(key: V<'a>, low: V<'a>, high: V<'a>, half: Half) -> V<'a> {
    let mut word = [low & WORD, upper(low), high & WORD, upper(high)];
    for round in 0..ROUNDS {
        let keys = [(key + STEPS[0] * round) & WORD, (upper(key) + STEPS[1] * round) & WORD];
        // Bits above 32 of the right words are never looked at: a product takes the lower half, and so does the end.
        let [a, b] = [(word[0] & WORD) * MULTIPLIERS[0], (word[2] & WORD) * MULTIPLIERS[1]];
        word = [upper(b) ^ word[1] ^ keys[0], b, upper(a) ^ word[3] ^ keys[1], a];
    }
    let [first, second] = match half {
        Half::Low => [word[0], word[1]],
        Half::High => [word[2], word[3]],
    };
    (first & WORD) | second.shl(second.int(32))
}

fn upper(x: V<'_>) -> V<'_> {
    x.lshr(x.int(32))
}
