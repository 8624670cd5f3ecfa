//! What a compile did, in numbers.

use ox_ir::Plan;
use ox_ir::graph::Callee;
use ox_ir::plan::{Call, Step};
use std::time::{Duration, Instant};

/// An operation that Python does at run time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PythonStep {
    pub name: String,
    /// The user's `file:line`.
    pub location: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// In the order in which they ran.
    pub stages: Vec<(&'static str, Duration)>,
    /// Before optimisation.
    pub graph_nodes: usize,
    /// After it.
    pub optimised_nodes: usize,
    pub steps: usize,
    /// Distinct kernels of the Plan.
    pub kernels: usize,
    /// Kernels that no earlier graph of the process had, and that were not read. On a GPU some of these may be read, too: that is found out later.
    pub kernels_compiled: usize,
    /// Kernels that another process had compiled.
    pub kernels_read: usize,
    pub launches: usize,
    /// What all intermediates together take; None if it depends on sizes that are not known yet.
    pub arena_bytes: Option<i64>,
    /// Calls of torch's kernels, by name, in the order of first use.
    pub library_calls: Vec<(String, usize)>,
    pub python_steps: Vec<PythonStep>,
    /// What the user should hear of: a dump that could not be written.
    pub notes: Vec<String>,
    /// Why compiled kernels are not kept for other processes. It is no reason to fail, even where warnings are errors.
    pub trouble: Option<String>,
}

impl Report {
    pub(crate) fn time<T>(&mut self, stage: &'static str, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = f();
        self.stages.push((stage, start.elapsed()));
        result
    }

    pub fn total(&self) -> Duration {
        self.stages.iter().map(|(_, time)| *time).sum()
    }

    pub(crate) fn describe_plan(&mut self, plan: &Plan) {
        self.steps = plan.steps.len();
        self.kernels = plan.kernels.len();
        self.arena_bytes = plan.arena_bytes.as_ref().map_or(Some(0), |bytes| bytes.as_const());
        for step in &plan.steps {
            match step {
                Step::Launch { .. } => self.launches += 1,
                Step::Call { call, location, .. } => self.count_call(plan, call, *location),
                Step::Copy { .. } => self.count("copy"),
                Step::Drop(_) | Step::Release => {}
            }
        }
    }

    fn count_call(&mut self, plan: &Plan, call: &Call, location: u32) {
        match call {
            Call::Matmul { .. } => self.count("matmul"),
            Call::Conv(_) => self.count("convolution"),
            Call::Pack(_) => self.count("pack"),
            Call::Attention(_) => self.count("attention"),
            Call::Library(library) => match &library.callee {
                Callee::Dispatcher { name, .. } => self.count(name),
                Callee::Python { name, .. } => {
                    let location = plan.locations.get(location as usize).cloned().unwrap_or_default();
                    self.python_steps.push(PythonStep { name: name.clone(), location });
                }
            },
        }
    }

    fn count(&mut self, name: &str) {
        match self.library_calls.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += 1,
            None => self.library_calls.push((name.to_string(), 1)),
        }
    }
}
