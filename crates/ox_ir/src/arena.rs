//! Places in one piece of memory for buffers that are not all in use at the same time.

use crate::plan::{BufId, Plan, PlanOutput, Step};

/// Every place is a multiple of this.
pub const ALIGN: i64 = 64;

/// The first and the last step at which a buffer's contents matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    pub first: usize,
    pub last: usize,
}

impl Life {
    pub fn meets(self, other: Life) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    pub fn contains(self, step: usize) -> bool {
        (self.first..=self.last).contains(&step)
    }
}

/// Buffers of known sizes. Whoever fills it brings the largest first.
#[derive(Default)]
pub struct Arena {
    placed: Vec<Placed>,
    pub bytes: i64,
}

struct Placed {
    life: Life,
    begin: i64,
    end: i64,
}

impl Arena {
    /// Where a buffer would lie: at the lowest place at which nothing that lives at the same time is in the way.
    pub fn room(&self, life: Life, bytes: i64) -> i64 {
        let in_the_way = self.placed.iter().filter(|placed| placed.life.meets(life));
        let mut taken: Vec<(i64, i64)> = in_the_way.map(|placed| (placed.begin, placed.end)).collect();
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

    /// Puts a buffer there.
    pub fn place(&mut self, life: Life, bytes: i64) -> i64 {
        let begin = self.room(life, bytes);
        let end = begin + bytes;
        self.placed.push(Placed { life, begin, end });
        self.bytes = self.bytes.max(end);
        begin
    }
}

/// Of each buffer that some step mentions; results and what is written back live to the end.
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
        Step::Release => Vec::new(),
    }
}
