//! How 64-bit Arm refers to addresses, by the numbers of its ABI: instructions hold pieces of them.

use super::link::{Machine, Values, write};

pub const NUMBER: u16 = 183;

pub const MACHINE: Machine = Machine {
    // ldr x16, #8; br x16
    stub: [0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6],
    fill,
};

const PAGE: u64 = 4096;

fn fill(place: &mut [u8], kind: u32, values: Values) -> Option<()> {
    let Values { place: here, target, word } = values;
    match kind {
        257 => write(place, target.to_le_bytes()),
        260 => write(place, target.wrapping_sub(here).to_le_bytes()),
        261 => write(place, i32::try_from(distance(target, here)).ok()?.to_le_bytes()),
        275 | 276 => page(place, target, here),
        277 | 278 => low_bits(place, target, 1),
        284 => low_bits(place, target, 2),
        285 => low_bits(place, target, 4),
        286 => low_bits(place, target, 8),
        299 => low_bits(place, target, 16),
        282 | 283 => jump(place, distance(target, here)),
        311 => page(place, word, here),
        312 => low_bits(place, word, 8),
        _ => None,
    }
}

fn distance(target: u64, here: u64) -> i64 {
    target.wrapping_sub(here) as i64
}

/// Or-s bits into the instruction.
fn insert(place: &mut [u8], bits: u32) -> Option<()> {
    let old = u32::from_le_bytes(place.get(..4)?.try_into().ok()?);
    write(place, (old | bits).to_le_bytes())
}

/// `adrp`: how many pages away, in 21 bits, the lowest two of which stand apart.
fn page(place: &mut [u8], target: u64, here: u64) -> Option<()> {
    let pages = distance(target & !(PAGE - 1), here & !(PAGE - 1)) >> 12;
    let fits = (-(1 << 20)..1 << 20).contains(&pages);
    fits.then(|| insert(place, (pages as u32 & 3) << 29 | (pages as u32 >> 2 & 0x7ffff) << 5))?
}

/// The place in its page, in units of what is loaded or stored.
fn low_bits(place: &mut [u8], target: u64, unit: u64) -> Option<()> {
    let low = target & (PAGE - 1);
    low.is_multiple_of(unit).then(|| insert(place, ((low / unit) as u32) << 10))?
}

/// `b` and `bl`: how many instructions away, in 26 bits.
fn jump(place: &mut [u8], distance: i64) -> Option<()> {
    let fits = distance % 4 == 0 && (-(1 << 27)..1 << 27).contains(&distance);
    fits.then(|| insert(place, (distance >> 2) as u32 & 0x3ffffff))?
}
