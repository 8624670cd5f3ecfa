//! Suspended generators of a break that a replay has gone on from. What is left of them is done by the segments behind: when they go at the end of
//! the call nothing is to be done any more. One that somebody holds then is the program's.

use crate::obj::Obj;
use crate::vm::VmGenerator;
use pyo3::ffi;

#[derive(Default)]
pub struct PassedBy(Vec<Obj>);

impl PassedBy {
    pub fn add(&mut self, generators: Vec<Obj>) {
        for generator in generators {
            if !self.0.iter().any(|known| known.is(&generator)) {
                self.0.push(generator);
            }
        }
        // Those of breaks before this one have been moved on since.
        self.0.iter().for_each(|generator| VmGenerator::mark_spent(generator, true));
    }
}

impl Drop for PassedBy {
    fn drop(&mut self) {
        // SAFETY: live objects.
        let is_held = |generator: &Obj| unsafe { ffi::Py_REFCNT(generator.ptr()) } > 1;
        // Each lets go of those that it waits for.
        while let Some(n) = self.0.iter().position(|generator| !is_held(generator)) {
            drop(self.0.swap_remove(n));
        }
        self.0.iter().for_each(|generator| VmGenerator::mark_spent(generator, false));
    }
}
