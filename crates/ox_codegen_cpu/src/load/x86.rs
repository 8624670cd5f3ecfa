//! How x86-64 refers to addresses, by the numbers of its ABI.

use super::link::{Machine, Values, write};

pub const NUMBER: u16 = 62;

pub const MACHINE: Machine = Machine {
    // jmp [rip + 2], and two bytes that are never run
    stub: [0xff, 0x25, 2, 0, 0, 0, 0x66, 0x90],
    fill,
};

const ABSOLUTE_64: u32 = 1;
const RELATIVE_32: u32 = 2;
const CALL_32: u32 = 4;
const WORD_32: [u32; 3] = [9, 41, 42];
const RELATIVE_64: u32 = 24;

fn fill(place: &mut [u8], kind: u32, values: Values) -> Option<()> {
    let Values { place: here, target, word } = values;
    match kind {
        ABSOLUTE_64 => write(place, target.to_le_bytes()),
        RELATIVE_64 => write(place, target.wrapping_sub(here).to_le_bytes()),
        RELATIVE_32 | CALL_32 => write(place, near(target, here)?.to_le_bytes()),
        kind if WORD_32.contains(&kind) => write(place, near(word, here)?.to_le_bytes()),
        _ => None,
    }
}

fn near(target: u64, here: u64) -> Option<i32> {
    i32::try_from(target.wrapping_sub(here) as i64).ok()
}
