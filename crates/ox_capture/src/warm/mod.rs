//! Checks that need not be made again. Once all checks of a trace have held, most of them hold until a dict changes (`watch`) or a word
//! of memory does (`words`); only arguments, classes and modes are looked at in every call. Graphs are bound to the tensors among
//! their inputs that stay the same.

mod study;
mod watch;
mod words;

pub use words::Words;

use crate::backend::BoundGraph;
use crate::guard::{Check, Context};
use crate::obj::Obj;
use crate::source::{SourceId, Values, instance_dict};
use crate::tree::GraphCall;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use study::Study;
use watch::Watches;

/// What is known to hold until something changes.
pub struct Warm {
    watches: Watches,
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
        !self.watches.are_stale() && self.words.hold() && self.owners.iter().all(has_dict)
    }

    /// After all checks have held: which of them need not be made again.
    fn new(checks: &[Check], graph: Option<&GraphCall>, context: &Context<'_>, values: &mut Values<'_>) -> Option<Warm> {
        let mut study = Study {
            sources: context.sources,
            backend: context.backend,
            values,
            watches: Watches::new()?,
            words: Words::default(),
            stable: Default::default(),
            owners: Vec::new(),
            watched: Default::default(),
            portrayed: Default::default(),
        };
        let rest: Vec<usize> = (0..checks.len()).filter(|n| !study.is_settled(&checks[*n])).collect();
        let bound = graph.and_then(|graph| bind(&mut study, graph));
        let mut base = Vec::new();
        for (id, _) in study.stable.iter().filter(|(_, stable)| **stable) {
            let at = id.0 as usize;
            base.resize(base.len().max(at + 1), None);
            base[at] = study.values.get(study.sources, *id);
        }
        let Study { watches, words, owners, .. } = study;
        Some(Warm { watches, words, owners, base, rest, bound })
    }
}

/// Inputs that are portrayed are as they were whenever the graph runs.
fn bind(study: &mut Study<'_, '_>, graph: &GraphCall) -> Option<Binding> {
    let mut known = Vec::with_capacity(graph.inputs.len());
    let mut varying = Vec::new();
    for id in &graph.inputs {
        let fixed = match study.is_stable(*id) {
            true => study.values.get(study.sources, *id).filter(|tensor| study.portrayed.contains(&tensor.id())),
            false => None,
        };
        if fixed.is_none() {
            varying.push(*id);
        }
        known.push(fixed);
    }
    let graph = study.backend.bind(&graph.callable, known)?;
    Some(Binding { graph, varying })
}

/// A trace's warmth. Finding out what is stable costs as much as hundreds of calls, so a trace that keeps changing is studied ever less
/// often.
#[derive(Default)]
pub struct Warmth {
    now: RefCell<Option<Rc<Warm>>>,
    /// Calls that were served by what is known now.
    served: Cell<u32>,
    /// Calls to wait before the next study, and how many the last one waited.
    wait: Cell<(u32, u32)>,
}

impl Warmth {
    /// What holds now, if anything does. What does not goes to the values, which die when nothing is borrowed: that may run code.
    pub fn current(&self, values: &mut Values<'_>) -> Option<Rc<Warm>> {
        let warm = self.now.borrow().clone()?;
        if warm.is_valid() {
            self.served.set(self.served.get().saturating_add(1));
            return Some(warm);
        }
        let (_, last) = self.wait.get();
        let next = if self.served.replace(0) < WORTH { (last * 2).clamp(1, LONGEST) } else { 0 };
        self.wait.set((next, next));
        values.outlive(warm);
        self.now.take();
        None
    }

    /// All checks have held just now.
    pub fn study(&self, checks: &[Check], graph: Option<&GraphCall>, context: &Context<'_>, values: &mut Values<'_>) {
        let (left, last) = self.wait.get();
        if left > 0 {
            return self.wait.set((left - 1, last));
        }
        self.now.replace(Warm::new(checks, graph, context, values).map(Rc::new));
    }
}

/// A study has paid for itself after as many calls.
const WORTH: u32 = 64;
const LONGEST: u32 = 4096;
