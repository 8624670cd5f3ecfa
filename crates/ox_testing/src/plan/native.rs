//! Running a Plan's kernels as machine code, and all the rest as the interpreter does.

use super::Result;
use super::memory::Memory;
use crate::error::InterpretError;
use ox_ir::kernel::{BufRole, Kernel};
use ox_ir::plan::BufId;

/// Runs kernel number n of the plan on these bytes (its parameters that are not scratch, in order) with these sizes.
pub type NativeKernels<'a> = dyn FnMut(u32, &mut [&mut [u8]], &[i64]) -> Result<()> + 'a;

/// Bytes before and behind each buffer that must stay as they are.
const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xa5;
/// Bytes that nobody has written: NaN in every float type, or nearly so.
const UNWRITTEN: u8 = 0xff;

/// Hands the kernel copies of its buffers, and takes back what it may write.
pub(super) fn launch(
    memory: &mut Memory,
    number: u32,
    kernel: &Kernel,
    bufs: &[BufId],
    sizes: &[i64],
    native: &mut NativeKernels<'_>,
) -> Result<()> {
    let guard = [GUARD_BYTE; GUARD];
    let mut copies = Vec::new();
    for buf in bufs {
        let bytes = memory.bytes(&memory.whole(*buf)?);
        let bytes: Vec<u8> = bytes.iter().map(|b| b.unwrap_or(UNWRITTEN)).collect();
        copies.push([&guard[..], &bytes, &guard[..]].concat());
    }
    let mut slices: Vec<&mut [u8]> = copies.iter_mut().map(|copy| inner_mut(copy)).collect();
    native(number, &mut slices, sizes)?;
    let roles = kernel.bufs.iter().map(|b| &b.role).filter(|role| !matches!(role, BufRole::Scratch(_)));
    for ((buf, copy), role) in bufs.iter().zip(&copies).zip(roles) {
        let end = copy.len() - GUARD;
        if copy[..GUARD] != guard || copy[end..] != guard {
            return Err(InterpretError::invalid(format!("{} writes outside of {buf}", kernel.name)));
        }
        let window = memory.whole(*buf)?;
        let before = memory.bytes(&window);
        if *role == BufRole::In && before.iter().zip(&copy[GUARD..end]).any(|(old, new)| old.is_some_and(|old| old != *new)) {
            return Err(InterpretError::invalid(format!("{} writes {buf}, which it only reads", kernel.name)));
        }
        if *role != BufRole::In {
            memory.set_bytes(&window, &copy[GUARD..end]);
        }
    }
    Ok(())
}

fn inner_mut(copy: &mut [u8]) -> &mut [u8] {
    let end = copy.len() - GUARD;
    &mut copy[GUARD..end]
}
