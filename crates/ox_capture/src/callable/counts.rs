//! What is counted of a captured function's calls, for tests and people.

use crate::record::spent::{Moment, Seconds, Spent};
use crate::vm::Break;
use std::cell::{Cell, RefCell};

/// Since it was made, or since the last reset.
#[derive(Default)]
pub struct Counts {
    /// How many calls the machine ran, and where and why it broke.
    pub traced: Cell<usize>,
    pub breaks: RefCell<Vec<Break>>,
    pub reads: RefCell<Vec<String>>,
    pub ops: Cell<usize>,
    pub graphs: Cell<usize>,
    /// Why calls were traced although there were traces.
    pub recompiles: RefCell<Vec<String>>,
    /// Spent in tracing, and in compiling and running graphs for the first time.
    pub traces: Cell<Seconds>,
    pub computing: Cell<Seconds>,
    /// Seconds spent in the stages of the compiler.
    pub stages: RefCell<Vec<(&'static str, f64)>>,
    pub called: Cell<bool>,
    /// Whether it was said that traces are not used again.
    pub told: Cell<bool>,
}

impl Counts {
    /// Of a call that began at `start`.
    pub fn spend(&self, start: Moment, spent: &Spent) {
        let (recorded, computing) = (spent.ended().since(start), spent.computing.get());
        self.ops.update(|ops| ops + spent.ops.get());
        self.traces.update(|traces| traces + (recorded - computing));
        self.computing.update(|all| all + computing);
        self.stages.borrow_mut().append(&mut spent.stages.borrow_mut());
    }

    pub fn clear(&self) {
        self.traced.take();
        self.breaks.take();
        self.reads.take();
        self.ops.take();
        self.graphs.take();
        self.recompiles.take();
        self.traces.take();
        self.computing.take();
        self.stages.take();
        self.called.take();
        self.told.take();
    }
}
