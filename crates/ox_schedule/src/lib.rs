//! Graph to Plan: what is stored, what is fused into which kernel, which library calls are made in which order, and where
//! everything lies in memory.
//!
//! The steps, in order: `prepare` (copies where memory must not be shared, and how everything lies: `foresee`), `split` (reductions that would leave threads idle, with `deviations` from means of theirs), `roots` (what may be stored), `fuse` (which
//! roots are one kernel), `emit` + `order` (the kernels), `build` (the Plan), `front` (single numbers), `reuse` (results in the place of operands), `memory`
//! (where all that lies: `arena`) with `release` (when it goes) and `peak` (what is better off outside of it),
//! for `usual` sizes where they vary.

mod arena;
mod build;
mod coords;
mod cost;
mod deviations;
mod emit;
mod empty;
mod foresee;
mod front;
mod fuse;
mod layout;
mod memory;
mod name;
mod order;
mod parts;
mod peak;
mod prepare;
mod release;
mod repeated;
mod reuse;
mod roots;
mod space;
mod split;
mod usual;

use ox_ir::graph::Shape;
use ox_ir::{Graph, Plan, Var};

/// What the kernels will run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Tens of threads.
    Cpu,
    /// Tens of thousands.
    Gpu,
}

#[derive(Clone, Debug)]
pub struct ScheduleOptions {
    pub target: Target,
    /// Run 2-d convolutions, and what lies between them, in channels-last memory order.
    pub channels_last: bool,
    /// Let kernels write the new value of an input into the input itself.
    pub overwrite_inputs: bool,
    /// Inputs that the caller gives away: they are let go after their last use.
    pub given: Vec<u32>,
    /// The peak of memory must be able to fall by so many bytes before intermediates leave the arena for it.
    pub least_bytes: i64,
    /// Sizes that vary as they were seen.
    pub usual: Vec<(Var, i64)>,
}

impl Default for ScheduleOptions {
    fn default() -> ScheduleOptions {
        ScheduleOptions {
            target: Target::Cpu,
            channels_last: true,
            overwrite_inputs: false,
            given: Vec::new(),
            least_bytes: 256 << 10,
            usual: Vec::new(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// A graph that the scheduler cannot express as a Plan; the caller runs it in another way.
    #[error("cannot schedule: {0}")]
    Unsupported(String),
    #[error("bug in the scheduler: {0}")]
    Bug(String),
}

/// The strides in which the outputs from the n-th on cost least: those that their values have anyway.
pub fn natural_layouts(graph: &Graph, n: usize, options: &ScheduleOptions) -> Vec<Shape> {
    prepare::natural_layouts(graph, n, options)
}

/// The Plan that computes `graph`.
pub fn schedule(graph: &Graph, options: &ScheduleOptions) -> Result<Plan, ScheduleError> {
    let prepared = prepare::prepare(&empty::replace_empty(graph), options)?;
    let usual = usual::Usual::like(&options.usual);
    let prepared = split::split_reductions(prepared, options.target, &usual);
    let graph = &prepared.graph;
    let roots = roots::choose_roots(graph);
    let strides = |id| prepared.strides(id);
    let ctx = emit::Context { graph, is_root: &roots.is_root, strides: &strides };
    let units = fuse::fuse(&ctx, &roots, options.target);
    let mut plan = build::Build::new(&ctx, &roots, units).plan()?;
    front::numbers_first(&mut plan);
    reuse::reuse(&mut plan, options.overwrite_inputs);
    if options.target == Target::Gpu {
        plan.kernels.iter_mut().for_each(|kernel| kernel.usual = usual.of(kernel));
    }
    build::share_kernels(&mut plan);
    memory::place(&mut plan, options);
    Ok(plan)
}
