//! Where the intermediates lie: one arena, offsets planned ahead from the buffers' lifetimes.

use crate::peak::lower_peak;
use ox_ir::Sym;
use ox_ir::plan::{BufId, Buffer, Place, Plan, PlanOutput, Step};

const ALIGN: i64 = 64;

/// The first and the last step at which a buffer's contents matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    pub first: usize,
    pub last: usize,
}

impl Life {
    fn meets(self, other: Life) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Gives every arena buffer its offset, and drops library buffers and `given` inputs after their last use.
pub fn place(plan: &mut Plan, given: &[u32]) {
    let lives = lives(plan);
    let given = given_buffers(plan, given);
    lower_peak(plan, &lives, &given);
    assign_offsets(plan, &lives);
    insert_drops(plan, &lives, &given);
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

pub fn lives(plan: &Plan) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; plan.buffers.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        for buf in buffers_of(step) {
            let life = lives[buf.index()].get_or_insert(Life { first: at, last: at });
            life.last = at;
        }
    }
    let end = plan.steps.len();
    let returned = plan.outputs.iter().filter_map(returned_buffer);
    for buf in returned.chain(plan.write_backs.iter().map(|w| w.from.buf)) {
        if let Some(life) = &mut lives[buf.index()] {
            life.last = end;
        }
    }
    lives
}

fn returned_buffer(output: &PlanOutput) -> Option<BufId> {
    match output {
        PlanOutput::Buffer(buf) => Some(*buf),
        PlanOutput::View(view) => Some(view.buf),
        PlanOutput::InputView { .. } => None,
    }
}

fn buffers_of(step: &Step) -> Vec<BufId> {
    match step {
        Step::Launch { bufs, .. } => bufs.clone(),
        Step::Call { ins, outs, .. } => ins.iter().map(|v| v.buf).chain(outs.iter().copied()).collect(),
        Step::Copy { from, to } => vec![from.buf, to.buf],
        Step::Drop(buf) => vec![*buf],
    }
}

/// Largest first, each at the lowest offset where nothing that lives at the same time is in the way. Sizes that are not known
/// come last, one behind the other, shared only where they are equal.
fn assign_offsets(plan: &mut Plan, lives: &[Option<Life>]) {
    let mut waiting: Vec<(usize, Life, Sym)> = Vec::new();
    for (k, buffer) in plan.buffers.iter().enumerate() {
        if let (Place::Arena(_), Some(life)) = (&buffer.place, lives[k]) {
            waiting.push((k, life, padded_bytes(&buffer.shape, buffer.dtype.size() as i64)));
        }
    }
    waiting.sort_by_key(|(k, _, size)| (std::cmp::Reverse(size.as_const().unwrap_or(-1)), *k));
    let mut placed: Vec<(Life, i64, i64)> = Vec::new();
    let mut slots: Vec<(Sym, Sym, Vec<Life>)> = Vec::new();
    let mut end = Sym::ZERO;
    for (k, life, size) in waiting {
        let offset = match size.as_const() {
            Some(bytes) => {
                let at = lowest_gap(&placed, life, bytes);
                placed.push((life, at, at + bytes));
                end = Sym::from(end.constant().max(at + bytes));
                Sym::from(at)
            }
            None => symbolic_slot(&mut slots, &mut end, life, size),
        };
        plan.buffers[k].place = Place::Arena(offset);
    }
    plan.arena_bytes = (!end.is_zero()).then_some(end);
}

fn padded_bytes(shape: &[Sym], element: i64) -> Sym {
    let bytes = &shape.iter().product::<Sym>() * element;
    &(bytes + (ALIGN - 1)).div(&Sym::from(ALIGN)) * ALIGN
}

pub fn lowest_gap(placed: &[(Life, i64, i64)], life: Life, bytes: i64) -> i64 {
    let mut taken: Vec<(i64, i64)> = placed.iter().filter(|p| p.0.meets(life)).map(|p| (p.1, p.2)).collect();
    taken.sort_unstable();
    let mut at = 0;
    for (begin, end) in taken {
        if begin - at >= bytes {
            break;
        }
        at = at.max(end);
    }
    at
}

fn symbolic_slot(slots: &mut Vec<(Sym, Sym, Vec<Life>)>, end: &mut Sym, life: Life, size: Sym) -> Sym {
    if let Some((at, _, tenants)) = slots.iter_mut().find(|(_, s, t)| *s == size && !t.iter().any(|l| l.meets(life))) {
        tenants.push(life);
        return at.clone();
    }
    let at = end.clone();
    *end = &*end + &size;
    slots.push((at.clone(), size, vec![life]));
    at
}

fn insert_drops(plan: &mut Plan, lives: &[Option<Life>], given: &[bool]) {
    let mut dying: Vec<Vec<BufId>> = vec![Vec::new(); plan.steps.len()];
    for (k, buffer) in plan.buffers.iter().enumerate() {
        let id = BufId(k as u32);
        let ends = given[k] || buffer.place == Place::Library;
        if let Some(life) = lives[k].filter(|life| ends && life.last < plan.steps.len()) {
            dying[life.last].push(id);
        }
    }
    let steps = std::mem::take(&mut plan.steps);
    for (step, dead) in steps.into_iter().zip(dying) {
        plan.steps.push(step);
        plan.steps.extend(dead.into_iter().map(Step::Drop));
    }
}
