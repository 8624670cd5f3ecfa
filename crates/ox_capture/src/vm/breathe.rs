//! Between instructions: signals are handled, and other threads get their turn, as in CPython's own loop.

use super::{R, Vm};
use crate::interrupt::take_late;
use crate::obj::py;
use pyo3::PyErr;
use std::time::{Duration, Instant};

/// How many loops and calls may begin between two looks.
const OFTEN: u32 = 32;
/// How long one thread runs while others wait: `sys.getswitchinterval()`, unless somebody changes it.
const TURN: Duration = Duration::from_millis(5);

/// When others were last thought of.
pub struct Breath {
    steps: u32,
    last: Instant,
}

impl Breath {
    pub fn new() -> Breath {
        Breath { steps: 0, last: Instant::now() }
    }
}

impl Vm {
    /// Where a loop goes back and where a function begins: every program comes by here again and again. Nothing is borrowed then.
    pub fn breathe(&mut self) -> R<()> {
        self.breath.steps += 1;
        if self.breath.steps < OFTEN {
            return Ok(());
        }
        self.breath.steps = 0;
        if let Err(error) = py().check_signals() {
            return Err(self.interrupted(error));
        }
        if self.breath.last.elapsed() >= TURN {
            py().detach(|| ());
            self.breath.last = Instant::now();
        }
        Ok(())
    }

    /// Whatever the handler raised, and whoever catches it: no part of the function.
    fn interrupted(&mut self, error: PyErr) -> PyErr {
        self.stop_recording().err().unwrap_or(error)
    }

    /// What a handler raised while a graph was compiled.
    pub fn late_interrupt(&mut self) -> Option<PyErr> {
        take_late().map(|error| self.interrupted(error))
    }
}
