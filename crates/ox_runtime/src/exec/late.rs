//! When the arena is made.
//!
//! It is kept from run to run, whatever their sizes. Where a run holds most before it needs more than a little of it (the first layers of a network
//! for images), it lies beside all that for nothing, and it may be that of other sizes, which need a larger one. Such a run lets go of what is kept,
//! makes its own when it is needed, and keeps it for nobody; the few intermediates of before are tensors of their own.

use super::Arena;
use super::frame::Run;
use super::prepare::{Buffer, Home, bytes_of};
use crate::error::RunError;
use ox_ir::arena::{Life, lives};
use ox_ir::plan::Plan;

/// The tensors that a run makes must be so many times as large as the arena: made in every run, it costs little beside them.
const TIMES: i64 = 8;
/// Runs that hold less are over before a tensor is made.
const LEAST: i64 = 1 << 20;
/// Intermediates that may be tensors of their own.
const FEW: usize = 4;

#[derive(Clone, Debug)]
pub struct Late {
    /// The step before which the arena is made.
    pub step: usize,
    /// Intermediates that lie outside of it, with the last steps that use them.
    pub outside: Vec<(usize, usize)>,
    /// Idle arenas that are not larger are let go before.
    pub idle_bytes: usize,
}

/// Where it should not be there from the beginning; some buffers then leave it.
pub fn late_arena(plan: &Plan, buffers: &mut [Buffer], arena_bytes: usize) -> Option<Late> {
    let lives = lives(plan);
    let lived = |n: usize| lives[n].map(|life| (n, life));
    let inside: Vec<(usize, Life)> =
        (0..buffers.len()).filter(|n| matches!(buffers[*n].home, Home::Arena(_))).filter_map(lived).collect();
    let mut held = vec![0; plan.steps.len()];
    let owned = (0..buffers.len()).filter(|n| buffers[*n].home == Home::Owned).filter_map(lived);
    owned.for_each(|(n, life)| add(&mut held, life, bytes_of(buffers, n)));
    let (fullest, most) = held.iter().copied().enumerate().max_by_key(|(_, bytes)| *bytes)?;
    let (early, later): (Vec<_>, Vec<_>) = inside.into_iter().partition(|(_, life)| life.first <= fullest);
    let step = later.iter().map(|(_, life)| life.first).min()?;
    early.iter().for_each(|(n, life)| add(&mut held, *life, bytes_of(buffers, *n)));
    let behind = held[step..].iter().copied().max().unwrap_or(0);
    let is_worth_it = most >= LEAST && most >= behind + arena_bytes as i64 && most / TIMES >= arena_bytes as i64;
    if !is_worth_it || early.len() > FEW {
        return None;
    }
    early.iter().for_each(|(n, _)| buffers[*n].home = Home::Owned);
    let outside = early.into_iter().map(|(n, life)| (n, life.last)).collect();
    Some(Late { step, outside, idle_bytes: (most / TIMES) as usize })
}

fn add(held: &mut [i64], life: Life, bytes: i64) {
    let end = held.len().min(life.last + 1);
    held[life.first..end].iter_mut().for_each(|held| *held += bytes);
}

impl Run<'_> {
    /// Makes the arena, where it is not there from the beginning.
    pub fn make_arena(&mut self) -> Result<(), RunError> {
        if self.arena.is_some() {
            return Ok(());
        }
        self.arena = Some(Arena::new(self.prepared.arena_bytes, self.device)?);
        let lies_there = |at: &usize| matches!(self.prepared.buffers[*at].home, Home::Arena(_));
        let inside: Vec<usize> = (0..self.prepared.buffers.len()).filter(lies_there).collect();
        inside.into_iter().try_for_each(|at| self.place_buffer(at))
    }
}
