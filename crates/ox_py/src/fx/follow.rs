//! A graph imported while it is captured, for the sizes of its tensors.

use super::importer::{How, Importer};
use super::refusal::{Import, Refusal};
use super::sizes::{Known, UNSETTLED, hint_of};
use crate::recorded::Recorded;
use ox_capture::{Obj, Sizes};
use ox_driver::guarded;
use ox_ir::{Device, Sym};
use ox_ops::{Noted, ValueOf, at_hints};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub struct Follower {
    graph: Bound<'static, PyAny>,
    nodes: Vec<Bound<'static, PyAny>>,
    known: Known,
    /// What was relied on since the importer began.
    noted: Vec<Noted>,
    device: Device,
    /// None before the first node, and when something could not be followed.
    importer: Option<Importer<'static>>,
    lost: bool,
}

impl Follower {
    pub fn new(graph: &Obj, device: Device) -> PyResult<Follower> {
        let recorded = Bound::new(ox_capture::py(), Recorded::new(graph.bind().clone().unbind(), None))?;
        Ok(Follower {
            graph: recorded.into_any(),
            nodes: Vec::new(),
            known: Known::default(),
            noted: Vec::new(),
            device,
            importer: None,
            lost: false,
        })
    }

    /// False, with the node forgotten, for a call that cannot take sizes as variables, if it may stand apart.
    fn take(&mut self, node: Bound<'static, PyAny>, may_stand_apart: bool) -> Import<bool> {
        if let Some((var, hint)) = hint_of(&node)? {
            self.known.hints.insert(var.clone(), hint);
            if let Some(importer) = &mut self.importer {
                importer.known.hints.insert(var, hint);
            }
        }
        self.nodes.push(node);
        let (mut from, mut taken) = (self.nodes.len() - 1, true);
        // As often as `sizes::import` asks; what is not settled by then is fixed.
        let most = 4 * self.known.hints.len();
        for round in 0..=most + 2 {
            let (result, facts) = at_hints(self.known.hints.clone(), || self.step_from(from));
            self.noted.extend(facts);
            match result {
                Ok(()) => return Ok(taken),
                // What was recorded of it before it was refused goes, too.
                Err(Refusal::Left { .. }) if may_stand_apart && taken => {
                    self.nodes.pop();
                    taken = false;
                }
                Err(refusal) if round > most && refusal.asks_of_sizes() => self.known.fix_all(UNSETTLED),
                Err(refusal) => self.known.learn_from(refusal, &self.noted)?,
            }
            self.noted.clear();
            (self.importer, from) = (None, 0);
        }
        Err(Refusal::unsupported(UNSETTLED))
    }

    fn step_from(&mut self, from: usize) -> Import<()> {
        let device = Some(self.device);
        let how =
            How { freezing: false, fallback_random: false, device, fixed: None, learned: &[], written: false, looking: true };
        let mut from = from;
        let importer = match &mut self.importer {
            Some(importer) => importer,
            None => {
                from = 0;
                let mut importer = Importer::new(&self.graph, how, &self.known)?;
                importer.find_stale_of(&self.nodes)?;
                self.importer.insert(importer)
            }
        };
        let examples = PyTuple::empty(ox_capture::py()).into_any();
        (from..self.nodes.len()).try_for_each(|place| importer.step(place, &self.nodes[place], &examples))
    }
}

impl Sizes for Follower {
    fn follow(&mut self, node: &Obj, may_stand_apart: bool) -> bool {
        if self.lost {
            return true;
        }
        let taken = guarded(|| self.take(node.bind().clone(), may_stand_apart));
        self.lost = !matches!(taken, Ok(Ok(_)) | Ok(Err(Refusal::Cut { .. })));
        !matches!(taken, Ok(Ok(false)))
    }

    fn of(&self, node: &Obj) -> Option<Vec<Sym>> {
        let importer = self.importer.as_ref().filter(|_| !self.lost)?;
        match importer.value_of(node.id())? {
            ValueOf::Tensor(tensor) => Some(importer.shape_now(*tensor)),
            _ => None,
        }
    }

    fn offset(&self, node: &Obj) -> Option<Sym> {
        let importer = self.importer.as_ref().filter(|_| !self.lost)?;
        match importer.value_of(node.id())? {
            ValueOf::Tensor(tensor) => Some(importer.layout_now(*tensor)?.offset),
            _ => None,
        }
    }

    fn strides(&self, node: &Obj) -> Option<Vec<Sym>> {
        let importer = self.importer.as_ref().filter(|_| !self.lost)?;
        match importer.value_of(node.id())? {
            ValueOf::Tensor(tensor) => Some(importer.layout_now(*tensor)?.strides.to_vec()),
            _ => None,
        }
    }
}
