//! Which intermediates are better off outside of the arena.
//!
//! The arena is held for the whole of a run. Where results and what the library makes are large at a time at which little of the arena is in
//! use, both stand beside each other for nothing: then the intermediates that are in use at other times become tensors of their own,
//! which torch's allocator makes and takes back.

use crate::arena::{Arena, Life, padded_bytes};
use ox_ir::plan::{Buffer, Call, Place, Plan, Step};

/// Smaller ones stay: making a tensor costs more than their bytes are worth.
const SMALL: i64 = 16 << 10;
/// Larger ones stay: the C library maps them anew in every run, page by page.
const LARGE: i64 = 32 << 20;
/// The peak must be able to fall by so many bytes: where memory is not scarce, a call should not make tensors.
const LEAST: i64 = 256 << 10;
/// Every step on the way must lower it by at least this fraction of itself.
const WORTH: i64 = 2000;
/// Sizes of the arena that are tried.
const TRIES: usize = 12;

pub struct Intermediate {
    pub buf: usize,
    pub life: Life,
    pub bytes: i64,
}

/// Places of arena buffers, and those that found none.
struct Packing {
    arena: i64,
    outside: Vec<usize>,
}

/// Makes tensors of intermediates where that lowers the most that a run holds. Nothing is done where sizes are not known.
pub fn lower_peak(plan: &mut Plan, lives: &[Option<Life>], given: &[bool]) {
    let Some((intermediates, others)) = timeline(plan, lives, given) else { return };
    let whole = pack(&intermediates, i64::MAX);
    let mut best = (whole.arena + others.iter().max().copied().unwrap_or(0), whole);
    let ideal = peak(&others, intermediates.iter());
    if best.0 - ideal < LEAST {
        return;
    }
    for limit in limits(&intermediates, &others) {
        let packing = pack(&intermediates, limit);
        let outside = intermediates.iter().filter(|i| packing.outside.contains(&i.buf));
        let held = packing.arena + peak(&others, outside);
        if best.0 - held >= best.0 / WORTH {
            best = (held, packing);
        }
    }
    for buf in best.1.outside {
        plan.buffers[buf].place = Place::Library;
    }
}

/// The arena's buffers, and the bytes of all other memory that is made in each step, or let go behind it.
pub fn timeline(plan: &Plan, lives: &[Option<Life>], given: &[bool]) -> Option<(Vec<Intermediate>, Vec<i64>)> {
    let mut others: Vec<i64> = plan.steps.iter().map(|step| scratch(plan, step)).collect::<Option<_>>()?;
    let mut intermediates = Vec::new();
    for (buf, (buffer, life)) in plan.buffers.iter().zip(lives).enumerate() {
        let Some(life) = *life else { continue };
        match buffer.place {
            Place::Input(_) if given[buf] => add(&mut others, Life { first: 0, ..life }, bytes_of(buffer)?),
            Place::Input(_) => {}
            Place::Arena(_) => {
                let bytes = padded_bytes(&buffer.shape, buffer.dtype.size() as i64).as_const()?;
                intermediates.push(Intermediate { buf, life, bytes });
            }
            Place::Output(_) | Place::Library => add(&mut others, life, bytes_of(buffer)?),
        }
    }
    intermediates.sort_by_key(|i| (std::cmp::Reverse(i.bytes), i.buf));
    Some((intermediates, others))
}

fn bytes_of(buffer: &Buffer) -> Option<i64> {
    Some(buffer.shape.iter().map(|n| n.as_const()).product::<Option<i64>>()? * buffer.dtype.size() as i64)
}

/// What a call makes for itself: a convolution brings its weights, and often what it reads, into an order of its own.
fn scratch(plan: &Plan, step: &Step) -> Option<i64> {
    let Step::Call { call: Call::Conv(_), ins, .. } = step else { return Some(0) };
    let read = ins.iter().take(2).map(|view| &plan.buffers[view.buf.index()]);
    read.filter(|buffer| !buffer.packed).map(bytes_of).sum()
}

pub fn add(steps: &mut [i64], life: Life, bytes: i64) {
    let end = steps.len().min(life.last + 1);
    steps[life.first..end].iter_mut().for_each(|held| *held += bytes);
}

fn peak<'a>(others: &[i64], tensors: impl Iterator<Item = &'a Intermediate>) -> i64 {
    let mut held = others.to_vec();
    tensors.for_each(|tensor| add(&mut held, tensor.life, tensor.bytes));
    held.into_iter().max().unwrap_or(0)
}

/// Sizes for the arena, the largest first: what is in use when most is held, and the sizes of intermediates.
fn limits(intermediates: &[Intermediate], others: &[i64]) -> Vec<i64> {
    let mut held = others.to_vec();
    intermediates.iter().for_each(|i| add(&mut held, i.life, i.bytes));
    let fullest = held.iter().enumerate().max_by_key(|(_, bytes)| **bytes).map_or(0, |(step, _)| step);
    let in_use = held.get(fullest).copied().unwrap_or(0) - others.get(fullest).copied().unwrap_or(0);
    let mut limits: Vec<i64> = intermediates.iter().map(|i| i.bytes).chain([in_use]).filter(|bytes| *bytes > SMALL).collect();
    limits.sort_unstable();
    limits.dedup();
    let step = limits.len().div_ceil(TRIES).max(1);
    let mut chosen: Vec<i64> = limits.into_iter().rev().step_by(step).chain([in_use, 0]).collect();
    chosen.sort_unstable_by_key(|limit| std::cmp::Reverse(*limit));
    chosen
}

/// As the arena will be planned, but for what would reach beyond `limit`.
fn pack(intermediates: &[Intermediate], limit: i64) -> Packing {
    let (mut arena, mut outside) = (Arena::default(), Vec::new());
    for Intermediate { buf, life, bytes } in intermediates {
        if arena.room(*life, *bytes) + bytes > limit && (SMALL..=LARGE).contains(bytes) {
            outside.push(*buf);
        } else {
            arena.place(*life, *bytes);
        }
    }
    Packing { arena: arena.bytes, outside }
}
