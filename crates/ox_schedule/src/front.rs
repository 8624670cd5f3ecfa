//! Kernels of single numbers run before the others around them. Then what is left stands side by side and can run at once, and the
//! numbers of one parameter of an optimizer do not wait for the update of another.

use ox_ir::plan::{BufId, Plan, Step};
use rustc_hash::FxHashSet;

/// Reorders runs of launches. Every buffer is written by one launch so far, but for scatters and shares, which are no single numbers.
pub fn numbers_first(plan: &mut Plan) {
    let steps = std::mem::take(&mut plan.steps);
    let mut run = Vec::new();
    for step in steps {
        match step {
            Step::Launch { .. } => run.push(step),
            other => {
                flush(plan, &mut run);
                plan.steps.push(other);
            }
        }
    }
    flush(plan, &mut run);
}

fn flush(plan: &mut Plan, run: &mut Vec<Step>) {
    let mut written_later: FxHashSet<BufId> = FxHashSet::default();
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for step in run.drain(..) {
        let Step::Launch { kernel, bufs, .. } = &step else { continue };
        let is_number = plan.kernels[*kernel as usize].axes.is_empty() && bufs.iter().all(|buf| is_single(plan, *buf));
        if is_number && !bufs.iter().any(|buf| written_later.contains(buf)) {
            first.push(step);
        } else {
            written_later.extend(bufs.iter().copied());
            rest.push(step);
        }
    }
    plan.steps.append(&mut first);
    plan.steps.append(&mut rest);
}

fn is_single(plan: &Plan, buf: BufId) -> bool {
    plan.buffers[buf.index()].shape.iter().all(|size| size.is_one())
}
