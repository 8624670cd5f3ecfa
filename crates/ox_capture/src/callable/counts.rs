//! What is counted of a captured function's calls, for tests and people.

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
    /// Seconds spent in tracing, and within that in compiling and running graphs for the first time.
    pub seconds: Cell<(f64, f64)>,
    /// The same by the clock of the thread, which stands still while others have the processor.
    pub thread_seconds: Cell<(f64, f64)>,
    /// Seconds spent in the stages of the compiler.
    pub stages: RefCell<Vec<(&'static str, f64)>>,
    pub called: Cell<bool>,
    /// Whether it was said that traces are not used again.
    pub told: Cell<bool>,
}

impl Counts {
    pub fn clear(&self) {
        self.traced.take();
        self.breaks.take();
        self.reads.take();
        self.ops.take();
        self.graphs.take();
        self.recompiles.take();
        self.seconds.take();
        self.thread_seconds.take();
        self.stages.take();
        self.called.take();
        self.told.take();
    }
}
