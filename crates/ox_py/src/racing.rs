//! The first calls of a graph, timed beside eager's.

use crate::callable::NativeCallable;
use ox_capture::{Topic, is_interrupt, log};
use ox_driver::{Outcome, Turn};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl NativeCallable {
    /// Serves a call, and takes a time while it is not settled who is faster. Eager goes first, so that its result is gone when ours is
    /// computed, and is not short of the memory that we keep.
    pub(crate) fn call_and_race<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let Some(mut tally) = self.race.enter() else { return self.serve(py, args) };
        match tally.next_turn() {
            Turn::First => {
                let begin = Instant::now();
                let result = self.serve(py, args);
                self.race.count_first(begin.elapsed());
                result
            }
            Turn::Own => {
                let begin = Instant::now();
                let result = self.serve(py, args);
                tally.count_own(begin.elapsed());
                result
            }
            Turn::Eagers => {
                ox_runtime::free_idle_arenas();
                let begin = Instant::now();
                match self.eager.bind(py).call1(args.clone()) {
                    Ok(_) => {
                        let outcome = self.race.count_eagers(&mut tally, begin.elapsed());
                        self.settle(outcome, tally.times());
                    }
                    Err(error) if !is_interrupt(&error) => {
                        // If ours does not raise as well, eager has no memory for it: then it is not asked again.
                        let result = self.serve(py, args)?;
                        self.race.close();
                        return Ok(result);
                    }
                    Err(error) => return Err(error),
                }
                self.serve(py, args)
            }
        }
    }

    fn settle(&self, outcome: Outcome, (own, eager): (Duration, Duration)) {
        let winner = match outcome {
            Outcome::Open => return,
            Outcome::Ours => "compiled",
            Outcome::Eagers => "eager",
        };
        // A bug may have been found meanwhile.
        self.broken.fetch_or(outcome == Outcome::Eagers, Ordering::Relaxed);
        let place = self.graph.locations.iter().find(|line| !line.is_empty()).map_or("", String::as_str);
        log(Topic::Races, || format!("{place}: {own:.1?} compiled, {eager:.1?} in eager: {winner} it is"));
    }
}
