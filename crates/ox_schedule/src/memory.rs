//! Where the intermediates lie: one arena, offsets planned ahead from the buffers' lifetimes.

use crate::ScheduleOptions;
use crate::arena::{Arena, Life, lives, padded_bytes};
use crate::peak::{Price, lower_peak};
use crate::release::release_early;
use crate::usual::Usual;
use ox_ir::Sym;
use ox_ir::plan::{BufId, Buffer, Place, Plan, PlanOutput, Step};

/// Gives every arena buffer its offset, and drops library buffers and given inputs after their last use.
pub fn place(plan: &mut Plan, options: &ScheduleOptions) {
    let (lives, usual) = (lives(plan), Usual::like(&options.usual));
    let given = given_buffers(plan, &options.given);
    // What was given goes bit by bit, and results take its place: there is no one time at which the arena should go.
    let is_backward = given.contains(&true);
    let release = if is_backward { None } else { release_early(plan, &lives, options.least_bytes, &usual) };
    let price = if is_backward { Price::backward(options.least_bytes) } else { Price::forward(plan, options.least_bytes) };
    let is_placed = release.is_none() && lower_peak(plan, &lives, &given, price.on(options.target), &usual);
    if !is_placed || !sizes_are_known(plan) {
        assign_offsets(plan, &lives, &usual);
    }
    insert_drops(plan, &lives, &given, release);
}

/// Otherwise it is found out for usual sizes which buffers lie outside of the arena, and where the others lie is told by expressions; a run that
/// knows its sizes packs them anew.
fn sizes_are_known(plan: &Plan) -> bool {
    plan.buffers.iter().flat_map(|buffer| &buffer.shape).all(|size| size.as_const().is_some())
}

/// For each buffer, whether it is an input that is nobody's any more once the last step has read it.
fn given_buffers(plan: &Plan, given: &[u32]) -> Vec<bool> {
    let is_seen = |n: u32| {
        plan.outputs.iter().any(|output| matches!(output, PlanOutput::InputView { input, .. } if *input == n))
            || plan.write_backs.iter().any(|write| write.input == n)
    };
    let is_given = |buffer: &Buffer| matches!(buffer.place, Place::Input(n) if given.contains(&n) && !is_seen(n));
    plan.buffers.iter().map(is_given).collect()
}

/// Largest first, each at the lowest offset where nothing that lives at the same time is in the way. Sizes that are not known
/// come last, in slots one behind the other.
fn assign_offsets(plan: &mut Plan, lives: &[Option<Life>], usual: &Usual) {
    let mut waiting: Vec<(usize, Life, Sym)> = Vec::new();
    for (k, buffer) in plan.buffers.iter().enumerate() {
        if let (Place::Arena(_), Some(life)) = (&buffer.place, lives[k]) {
            waiting.push((k, life, padded_bytes(&buffer.shape, buffer.dtype.size() as i64)));
        }
    }
    waiting.sort_by_cached_key(|(k, _, size)| (size.as_const().is_none(), std::cmp::Reverse(usual.value(size)), *k));
    let unknown = waiting.split_off(waiting.partition_point(|(_, _, size)| size.as_const().is_some()));
    let mut arena = Arena::default();
    for (k, life, size) in waiting {
        plan.buffers[k].place = Place::Arena(Sym::from(arena.place(life, size.constant())));
    }
    let mut slots: Vec<Slot> = Vec::new();
    let mut end = Sym::from(arena.bytes);
    for (k, life, size) in unknown {
        let bytes = &plan.buffers[k].shape.iter().product::<Sym>() * plan.buffers[k].dtype.size() as i64;
        let found = slots.iter().position(|slot| slot.has_room(life, &bytes));
        let slot = found.unwrap_or_else(|| {
            slots.push(Slot { at: end.clone(), bytes, tenants: Vec::new() });
            end = &end + &size;
            slots.len() - 1
        });
        slots[slot].tenants.push(life);
        plan.buffers[k].place = Place::Arena(slots[slot].at.clone());
    }
    plan.arena_bytes = (!end.is_zero()).then_some(end);
}

/// A place for buffers that are never in use at the same time, as large as the first of them.
struct Slot {
    at: Sym,
    bytes: Sym,
    tenants: Vec<Life>,
}

impl Slot {
    /// Whether a buffer of so many bytes fits, whatever its sizes are.
    fn has_room(&self, life: Life, bytes: &Sym) -> bool {
        !self.tenants.iter().any(|tenant| tenant.meets(life)) && (&self.bytes - bytes).is_nonneg()
    }
}

/// Before step `release` the arena goes.
fn insert_drops(plan: &mut Plan, lives: &[Option<Life>], given: &[bool], release: Option<usize>) {
    let mut dying: Vec<Vec<BufId>> = vec![Vec::new(); plan.steps.len()];
    for (k, buffer) in plan.buffers.iter().enumerate() {
        let id = BufId(k as u32);
        let ends = given[k] || buffer.place == Place::Library;
        if let Some(life) = lives[k].filter(|life| ends && life.last < plan.steps.len()) {
            dying[life.last].push(id);
        }
    }
    let steps = std::mem::take(&mut plan.steps);
    for (at, (step, dead)) in steps.into_iter().zip(dying).enumerate() {
        plan.steps.extend((release == Some(at)).then_some(Step::Release));
        plan.steps.push(step);
        plan.steps.extend(dead.into_iter().map(Step::Drop));
    }
}
