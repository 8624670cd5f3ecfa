//! Checks that need not be made again. Once all checks of a trace have held, most of them hold until a dict changes (`watch`) or a word
//! of memory does (`ox_gauge`); only arguments, classes and modes are looked at in every call. Graphs are bound to the tensors among
//! their inputs that stay the same.
//!
//! What is found out holds for one set of objects (`slot`): a trace that is shared by many modules, which get in as arguments, has one for each.
//! When something changes, what was kept alive for it is let go (`signal`).

mod fields;
mod setters;
mod signal;
mod slot;
mod study;
mod watch;

use crate::backend::BoundGraph;
use crate::gauge::{Gauge, Role};
use crate::guard::{Check, Context};
use crate::interrupt::Quiet;
use crate::obj::Obj;
use crate::source::{Source, SourceId, Values, instance_dict};
use crate::tree::{Effect, GraphCall};
use ox_gauge::Words;
use pyo3::prelude::*;
use signal::Signal;
use slot::Slot;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use study::Study;
use watch::Watches;

/// What is known to hold until something changes.
pub struct Warm {
    signal: Rc<Signal>,
    /// Ended when this goes.
    _watches: Watches,
    words: Words,
    owners: Vec<(Obj, usize)>,
    /// The values of sources that stay what they are.
    pub base: Vec<Option<Obj>>,
    /// The checks that are made all the same.
    pub rest: Vec<usize>,
    pub bound: Option<Binding>,
}

/// A graph bound to some of its inputs.
pub struct Binding {
    pub graph: Box<dyn BoundGraph>,
    /// The others.
    pub varying: Vec<SourceId>,
}

impl Warm {
    fn is_valid(&self) -> bool {
        let has_dict = |(owner, dict): &(Obj, usize)| instance_dict(owner).is_some_and(|now| now.id() == *dict);
        !self.signal.is_raised() && self.words.hold() && self.owners.iter().all(has_dict)
    }

    /// After all checks have held: which of them need not be made again.
    fn study(trace: &Trace<'_>, context: &Context<'_>, values: &mut Values<'_>, only_modules: bool) -> Option<Rc<Slot>> {
        let signal = Rc::new(Signal::default());
        let mut study = Study::new(trace.effects, context, values, &signal)?;
        study.only_modules = only_modules;
        let role = |n: &usize| trace.gauge.map_or(Role::Alone, |gauge| gauge.role(*n));
        let others = (0..trace.checks.len()).filter(|n| role(n) != Role::Part);
        let rest: Vec<usize> = others.filter(|n| role(n) == Role::First || !study.is_settled(&trace.checks[*n])).collect();
        let bound = trace.graph.and_then(|graph| bind(&mut study, graph));
        let base = study.values_that_stay();
        let Study { watches, mut words, owners, anchors, .. } = study;
        words.settle();
        Some(Slot::new(anchors, Warm { signal, _watches: watches, words, owners, base, rest, bound }))
    }
}

/// What of a segment is studied.
pub struct Trace<'a> {
    pub checks: &'a [Check],
    pub gauge: Option<&'a Gauge>,
    pub graph: Option<&'a GraphCall>,
    pub effects: &'a [Effect],
}

/// Inputs that are portrayed are as they were whenever the graph runs.
fn bind(study: &mut Study<'_, '_>, graph: &GraphCall) -> Option<Binding> {
    let mut known = Vec::with_capacity(graph.inputs.len());
    let mut varying = Vec::new();
    let mut sizes = Vec::new();
    for id in &graph.inputs {
        let is_size = matches!(study.sources.get(*id), Source::Expr(_));
        sizes.push(if is_size { study.values.get(study.sources, *id)?.bind().extract().quiet() } else { None });
        let fixed = match study.is_stable(*id) {
            true => study.values.get(study.sources, *id).filter(|tensor| study.portrayed.contains(&tensor.id())),
            false => None,
        };
        if fixed.is_none() {
            varying.push(*id);
        }
        known.push(fixed);
    }
    let graph = study.backend.bind(&graph.callable, known, &sizes)?;
    Some(Binding { graph, varying })
}

/// A trace's warmth. Finding out what is stable costs as much as hundreds of calls, so a trace that keeps changing is studied ever less
/// often.
#[derive(Default)]
pub struct Warmth {
    slots: RefCell<Vec<Rc<Slot>>>,
    /// Calls to wait before the next study, and how many the last one waited.
    wait: Cell<(u32, u32)>,
    /// How many studies were for objects that did not come again.
    strangers: Cell<u32>,
}

impl Warmth {
    /// What holds now, if anything does. What does not goes to the values, which die when nothing is borrowed: that may run code.
    pub fn current(&self, values: &mut Values<'_>) -> Option<Rc<Warm>> {
        let slot = self.slots.borrow().iter().find(|slot| slot.is_for(values.args)).cloned()?;
        if let Some(warm) = slot.warm() {
            if warm.is_valid() {
                slot.served.set(slot.served.get().saturating_add(1));
                return Some(warm);
            }
            values.outlive(warm);
            drop(slot.empty());
        }
        self.forget(&slot);
        None
    }

    fn forget(&self, slot: &Rc<Slot>) {
        let (_, last) = self.wait.get();
        let was_worth_it = slot.served.get() >= WORTH;
        let next = if was_worth_it { 0 } else { (last * 2).clamp(1, LONGEST) };
        self.wait.set((next, next));
        self.strangers.set(self.strangers.get() + u32::from(!was_worth_it && slot.is_for_an_object()));
        self.slots.borrow_mut().retain(|known| !Rc::ptr_eq(known, slot));
    }

    /// Whether arguments that are no modules are other objects in every call.
    fn only_modules_last(&self) -> bool {
        let is_strange = |slot: &&Rc<Slot>| slot.is_for_an_object() && slot.served.get() == 0;
        self.strangers.get() as usize + self.slots.borrow().iter().filter(is_strange).count() >= FEW
    }

    /// All checks have held just now.
    pub fn study(&self, trace: &Trace<'_>, context: &Context<'_>, values: &mut Values<'_>) {
        let empty = self.slots.borrow().iter().find(|slot| slot.is_empty()).cloned();
        empty.iter().for_each(|slot| self.forget(slot));
        let (left, last) = self.wait.get();
        if left > 0 {
            return self.wait.set((left - 1, last));
        }
        let Some(slot) = Warm::study(trace, context, values, self.only_modules_last()) else { return };
        let oldest = self.slots.borrow().first().filter(|_| self.slots.borrow().len() >= MANY).cloned();
        if let Some(oldest) = oldest {
            oldest.empty().into_iter().for_each(|warm| values.outlive(warm));
            self.forget(&oldest);
        }
        self.slots.borrow_mut().push(slot);
    }
}

/// A study has paid for itself after as many calls.
const WORTH: u32 = 64;
const LONGEST: u32 = 4096;
/// Objects that did not come again before none is expected to.
const FEW: usize = 4;
/// More objects than the repeated blocks of any model.
const MANY: usize = 256;
