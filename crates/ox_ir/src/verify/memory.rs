//! The memory plan: buffers that are alive at one time do not share bytes of the arena.

use super::VerifyError;
use crate::plan::{BufId, Place, Plan, PlanOutput, Step};

/// A buffer of the arena whose place is known, and the steps during which it holds something.
struct Live {
    buf: usize,
    bytes: std::ops::Range<i64>,
    steps: std::ops::RangeInclusive<usize>,
}

impl Plan {
    pub(super) fn verify_memory(&self) -> Result<(), VerifyError> {
        let live: Vec<Live> = (0..self.buffers.len()).filter_map(|buf| self.live(buf)).collect();
        let released = self.steps.iter().position(|step| *step == Step::Release).unwrap_or(usize::MAX);
        let arena = self.arena_bytes.as_ref().map_or(Some(0), |bytes| bytes.as_const());
        for (n, a) in live.iter().enumerate() {
            let error = |message: String| VerifyError { at: format!("b{}", a.buf), message };
            if arena.is_some_and(|arena| a.bytes.start < 0 || a.bytes.end > arena) {
                return Err(error(format!("bytes {:?} lie outside of the arena", a.bytes)));
            }
            if *a.steps.end() > released {
                return Err(error(format!("it is used in step {}, when the arena is gone", a.steps.end())));
            }
            for b in &live[..n] {
                let bytes = a.bytes.start < b.bytes.end && b.bytes.start < a.bytes.end;
                let steps = a.steps.start() <= b.steps.end() && b.steps.start() <= a.steps.end();
                if bytes && steps {
                    return Err(error(format!("it shares bytes with b{} during steps {:?} and {:?}", b.buf, a.steps, b.steps)));
                }
            }
        }
        Ok(())
    }

    /// None for a buffer elsewhere, of unknown place or size, or never used. In the step that ends one life no other may begin
    /// in the same bytes: the buffers of one step do not overlap.
    fn live(&self, buf: usize) -> Option<Live> {
        let buffer = &self.buffers[buf];
        let Place::Arena(offset) = &buffer.place else { return None };
        let start = offset.as_const()?;
        let len = Plan::room(&buffer.shape, &buffer.strides)?.as_const()?;
        let mut uses = self.steps.iter().enumerate().filter(|(_, step)| mentions(step, BufId(buf as u32))).map(|(n, _)| n);
        let first = uses.clone().next()?;
        let last = if self.is_result(BufId(buf as u32)) { self.steps.len() } else { uses.next_back()? };
        Some(Live { buf, bytes: start..start + len * buffer.dtype.size() as i64, steps: first..=last })
    }

    fn is_result(&self, buf: BufId) -> bool {
        let output = |o: &PlanOutput| match o {
            PlanOutput::Buffer(b) => *b == buf,
            PlanOutput::View(view) => view.buf == buf,
            PlanOutput::InputView { .. } => false,
        };
        self.outputs.iter().any(output) || self.write_backs.iter().any(|w| w.from.buf == buf)
    }
}

fn mentions(step: &Step, buf: BufId) -> bool {
    match step {
        Step::Launch { bufs, .. } => bufs.contains(&buf),
        Step::Call { ins, outs, .. } => ins.iter().any(|view| view.buf == buf) || outs.contains(&buf),
        Step::Copy { from, to } => from.buf == buf || to.buf == buf,
        Step::Drop(b) => *b == buf,
        Step::Release => false,
    }
}
