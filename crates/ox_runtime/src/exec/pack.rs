//! Where the intermediates of a plan for any sizes lie, once the sizes are known. The plan's own places are right for all sizes, which costs memory:
//! there only what certainly fits shares a place.

use super::prepare::{Buffer, Home};
use ox_ir::arena::{ALIGN, Arena, lives};
use ox_ir::plan::Plan;
use std::cmp::Reverse;

/// More than so many take longer to pack than the memory is worth in a call that may come only once.
const MANY: usize = 512;

/// Moves buffers to places as close together as their sizes allow; the bytes of the arena. `planned`: those that the plan says.
pub fn pack(plan: &Plan, buffers: &mut [Buffer], planned: usize) -> usize {
    let is_known = plan.arena_bytes.as_ref().is_none_or(|bytes| bytes.as_const().is_some());
    let lives = lives(plan);
    let lies_there = |n: &usize| matches!(buffers[*n].home, Home::Arena(_)) && lives[*n].is_some();
    let mut inside: Vec<usize> = if is_known { Vec::new() } else { (0..buffers.len()).filter(lies_there).collect() };
    if inside.is_empty() || inside.len() > MANY {
        return planned;
    }
    inside.sort_by_key(|n| (Reverse(bytes_of(&buffers[*n])), *n));
    let mut arena = Arena::default();
    let life = |n: usize| lives[n].expect("it has one");
    let places: Vec<i64> = inside.iter().map(|n| arena.place(life(*n), bytes_of(&buffers[*n]))).collect();
    if arena.bytes as usize >= planned {
        return planned;
    }
    for (n, at) in inside.into_iter().zip(places) {
        buffers[n].home = Home::Arena(at as usize);
    }
    // What no step mentions has no place of its own.
    let unseen = |(n, buffer): &(usize, &mut Buffer)| matches!(buffer.home, Home::Arena(_)) && lives[*n].is_none();
    buffers.iter_mut().enumerate().filter(unseen).for_each(|(_, buffer)| buffer.home = Home::Arena(0));
    arena.bytes as usize
}

fn bytes_of(buffer: &Buffer) -> i64 {
    let bytes = buffer.layout.span() * buffer.layout.dtype.size() as i64;
    (bytes + ALIGN - 1) / ALIGN * ALIGN
}
