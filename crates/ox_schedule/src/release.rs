//! When the arena should go.
//!
//! It is held from the beginning of a run. Where results and what the library makes are large at a time at which little of the arena is in use
//! (the logits behind the last layer), both would stand beside each other for nothing: then it goes before, and the few intermediates that
//! are needed then or later are tensors of their own. Few, because the C library's heap takes many tensors that come and go badly:
//! where most intermediates were such tensors, processes held 20 to 40 MB more.

use crate::arena::{Arena, Life};
use crate::peak::{Intermediate, add, timeline};
use crate::usual::Usual;
use ox_ir::plan::{Place, Plan};

/// Intermediates that may be tensors of their own.
const FEW: usize = 4;
/// The peak must fall by so many parts of a hundred: an arena that goes is made anew in the next run.
const PERCENT: i64 = 2;
/// Plans of so many steps may make an arena in each run for less than `least` bytes: it is a small part of their time.
const MANY_STEPS: usize = 32;

/// The step before which the arena goes, if that lowers the most that a run holds by `least` bytes, or by less in a long plan; what is used later is then no longer placed in it.
/// Sizes that are not known are taken for usual ones.
pub fn release_early(plan: &mut Plan, lives: &[Option<Life>], least: i64, usual: &Usual) -> Option<usize> {
    let (intermediates, others) = timeline(plan, lives, &vec![false; plan.buffers.len()], usual);
    let least = if plan.steps.len() < MANY_STEPS { least } else { 0 };
    let largest = others.iter().copied().max()?;
    let at = others.iter().position(|bytes| *bytes == largest)?;
    let now = arena_bytes(intermediates.iter()) + largest;
    let (late, early): (Vec<Intermediate>, Vec<Intermediate>) = intermediates.into_iter().partition(|i| i.life.last >= at);
    let mut held = others;
    late.iter().for_each(|i| add(&mut held, i.life, i.bytes));
    let before = held[..at].iter().max().map_or(0, |bytes| bytes + arena_bytes(early.iter()));
    let then = before.max(held[at..].iter().copied().max()?);
    if late.len() > FEW || now - then < least.max(now / 100 * PERCENT) {
        return None;
    }
    late.iter().for_each(|i| plan.buffers[i.buf].place = Place::Library);
    Some(at)
}

/// Of all intermediates, the largest first.
fn arena_bytes<'a>(intermediates: impl Iterator<Item = &'a Intermediate>) -> i64 {
    let mut arena = Arena::default();
    for Intermediate { life, bytes, .. } in intermediates {
        arena.place(*life, *bytes);
    }
    arena.bytes
}
