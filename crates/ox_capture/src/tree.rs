//! The tree of traces: guards, then a graph, then effects, then an action, then guards again; with a snapshot at every branch.

use crate::class_portrait::{ClassPortrait, Place};
use crate::found::Found;
use crate::gauge::{Gauge, Role};
use crate::guard::{Check, Context};
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, tuple_of};
use crate::recipe::{Build, Recipe, build_all};
use crate::record::Places;
use crate::record::autocast::NoAutocast;
use crate::record::grad::{GradMode, alias};
use crate::record::modes::InferenceMode;
use crate::shared::Shared;
use crate::source::{Key, SourceId, Sources, Values};
use crate::undone::Offer;
use crate::vm::snapshot::Snapshot;
use crate::vm::{Line, at_line, exception_of};
use crate::warm::{Trace, Warmth};
use pyo3::prelude::*;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

/// A compiled graph, and where its inputs are found.
pub struct GraphCall {
    pub callable: Obj,
    pub inputs: Vec<SourceId>,
    pub outputs: Vec<SourceId>,
    /// Which outputs share their object with an input or another output: each gets one of its own.
    pub shared: Vec<bool>,
    /// The grad mode in which it begins, where that is not the segment's or the graph changes it.
    pub grad: Option<bool>,
    /// Inference mode, where that is not the segment's.
    pub inference: Option<bool>,
    /// Whether autocast is on where it runs: the graph has its conversions already.
    pub autocast: bool,
}

/// Something done to objects that others see.
#[derive(Clone)]
pub struct Effect {
    pub function: Obj,
    pub args: Vec<Recipe>,
}

/// A call that only Python can make.
pub struct Action {
    pub function: Recipe,
    pub args: Vec<Recipe>,
    pub kwargs: Vec<(Obj, Recipe)>,
    pub reason: String,
    pub location: String,
    pub result: SourceId,
    /// Where the machine stands while the action runs.
    pub snapshot: Snapshot,
    pub branches: Branches,
}

pub enum End {
    Return(Recipe),
    /// With the lines of its traceback when it was raised first.
    Raise(Recipe, Vec<Line>),
    Action(Box<Action>),
    /// From the beginning of this segment Python does it.
    GiveUp(String),
}

pub struct Segment {
    pub number: u32,
    pub checks: Vec<Check>,
    pub places: Places,
    pub graph: Option<GraphCall>,
    pub builds: Vec<Build>,
    pub built: Vec<SourceId>,
    /// What it leaves in the tracebacks of exceptions, innermost line first.
    pub lines: Vec<(SourceId, Line)>,
    pub effects: Vec<Effect>,
    pub end: End,
    /// Whether a later call has run it.
    pub used: Cell<bool>,
    /// Checks of tensors with variable sizes, made at once. Found out when the first call looks.
    pub gauge: Found<Option<Gauge>>,
    /// Checks that need not be made again, once all have held.
    pub warm: Warmth,
}

/// What may come next.
#[derive(Default)]
pub struct Branches {
    list: Shared<Vec<Rc<Segment>>>,
    /// No more are grown here.
    pub full: Cell<bool>,
}

impl Branches {
    pub fn push(&self, segment: Segment) -> Rc<Segment> {
        let segment = Rc::new(segment);
        self.list.change(|list| list.push(segment.clone()));
        segment
    }

    /// Calls that fit a segment are Python's from there on.
    pub fn give_up(&self, segment: &Rc<Segment>, why: String) {
        let given_up = Rc::new(segment.given_up(why));
        self.list.change(|list| {
            list.iter_mut().filter(|known| Rc::ptr_eq(known, segment)).for_each(|known| *known = given_up.clone())
        });
    }

    /// Calls that fit it are traced anew.
    pub fn remove(&self, segment: &Rc<Segment>) {
        self.list.change(|list| list.retain(|known| !Rc::ptr_eq(known, segment)));
    }

    fn path_to(&self, wanted: &Rc<Segment>, path: &mut Vec<Rc<Segment>>) -> bool {
        for segment in self.all().iter() {
            path.push(segment.clone());
            if Rc::ptr_eq(segment, wanted) || segment.branches().is_some_and(|behind| behind.path_to(wanted, path)) {
                return true;
            }
            path.pop();
        }
        false
    }

    pub fn len(&self) -> usize {
        self.list.read().len()
    }

    pub fn all(&self) -> Rc<Vec<Rc<Segment>>> {
        self.list.read()
    }
}

/// Traces call functions with this code as a whole: see `vm::closed`.
#[derive(Clone)]
struct Closed {
    code: Obj,
    why: String,
    /// Traces that were lost there.
    losses: usize,
}

/// The first time may have been for something that is done once.
const LOSSES: usize = 2;

/// Each costs a trace.
const MOST_CLOSED: usize = 16;

#[derive(Default)]
pub struct Tree {
    pub sources: Shared<Sources>,
    pub branches: Branches,
    pub segments: Cell<u32>,
    /// How often the machine has recorded.
    pub traces: Cell<u32>,
    /// Traces that began behind an action, and that no later call has come to.
    pub unused: Shared<Vec<Rc<Segment>>>,
    /// Places of numbers that were seen to change from call to call.
    pub varying: Shared<FxHashSet<String>>,
    /// The same of tensors' dimensions.
    pub varying_sizes: Shared<FxHashSet<(String, usize)>>,
    /// Dimensions that were not what others of their size were, in some call.
    pub lone_sizes: Shared<FxHashSet<(String, usize)>>,
    /// Attributes of classes that some trace writes.
    class_writes: Shared<FxHashSet<Place>>,
    variables: Cell<u32>,
    /// What runs functions that torch itself checkpoints, captured.
    pub checkpointed: Shared<Option<Obj>>,
    closed: Shared<Vec<Closed>>,
    /// Past the limit of traces: one more, with all sizes variable, and that is the last.
    pub general: Cell<bool>,
}

impl Tree {
    pub fn next_segment(&self) -> u32 {
        let number = self.segments.get();
        self.segments.set(number + 1);
        number
    }

    /// A number for a new variable.
    pub fn next_variable(&self) -> u32 {
        let number = self.variables.get();
        self.variables.set(number + 1);
        number
    }

    pub fn note_class_write(&self, class: &Obj, name: &Obj) {
        self.class_writes.change(|writes| writes.insert((class.id(), Key(name.clone()))));
    }

    pub fn has_class_writes(&self) -> bool {
        !self.class_writes.read().is_empty()
    }

    pub fn writes_to_class(&self, class: &Obj, name: &Obj) -> bool {
        self.class_writes.read().contains(&(class.id(), Key(name.clone())))
    }

    /// The class without what traces write to it or one of its bases, if they do.
    pub fn portrait_of(&self, class: &Obj) -> Option<ClassPortrait> {
        let mro = class.attr("__mro__").map(|mro| items_of(&mro)).quiet().unwrap_or_default();
        let writes = self.class_writes.read();
        let is_changed = writes.iter().any(|(id, _)| mro.iter().any(|base| base.id() == *id));
        is_changed.then(|| ClassPortrait::of(class, &writes))
    }

    /// The segments that a call goes through until this one has ended.
    pub fn path_to(&self, segment: &Rc<Segment>) -> Option<Vec<Rc<Segment>>> {
        let mut path = Vec::new();
        self.branches.path_to(segment, &mut path).then_some(path)
    }

    pub fn is_closed(&self, code: &Obj) -> bool {
        self.closed.read().iter().any(|closed| closed.code.is(code) && closed.losses >= LOSSES)
    }

    /// A trace is lost in the middle of this code. If that goes on, functions with it are called as a whole. False if they are already, or many
    /// others.
    pub fn close(&self, code: &Obj, why: String) -> bool {
        if self.is_closed(code) || self.closed.read().len() >= MOST_CLOSED {
            return false;
        }
        self.closed.change(|closed| match closed.iter_mut().find(|closed| closed.code.is(code)) {
            Some(known) => *known = Closed { why, losses: known.losses + 1, ..known.clone() },
            None => closed.push(Closed { code: code.clone(), why, losses: 1 }),
        });
        true
    }

    /// Why traces were lost in functions, which are called as a whole if that goes on.
    pub fn closed(&self) -> Vec<String> {
        self.closed.read().iter().map(|closed| closed.why.clone()).collect()
    }

    pub fn note_unused<'a>(&self, segments: impl Iterator<Item = &'a Rc<Segment>>) {
        self.unused.change(|unused| {
            unused.retain(|segment| !segment.used.get());
            unused.extend(segments.cloned());
        });
    }

    pub fn source(&self, segment: u32, source: crate::source::Source) -> SourceId {
        self.sources.change(|sources| sources.intern(segment, source))
    }

    pub fn show(&self) -> String {
        let mut out = String::new();
        self.show_branches(&self.branches, 0, &mut out);
        out
    }

    fn show_branches(&self, branches: &Branches, depth: usize, out: &mut String) {
        let segments = branches.all();
        let sources = self.sources.read();
        let pad = "  ".repeat(depth);
        for segment in segments.iter() {
            let _ = writeln!(out, "{pad}segment {}:", segment.number);
            for check in &segment.checks {
                let _ = writeln!(out, "{pad}  if {}", check.show(&sources));
            }
            if let Some(graph) = &segment.graph {
                let inputs: Vec<String> = graph.inputs.iter().map(|i| sources.show(*i)).collect();
                let _ = writeln!(out, "{pad}  run a graph on ({}): {} outputs", inputs.join(", "), graph.outputs.len());
            }
            for (n, build) in segment.builds.iter().enumerate() {
                let _ = writeln!(out, "{pad}  new{n} = {}", build.show(&sources));
            }
            for effect in &segment.effects {
                let args: Vec<String> = effect.args.iter().map(|a| a.show(&sources)).collect();
                let _ = writeln!(out, "{pad}  do {}({})", crate::source::short(&effect.function), args.join(", "));
            }
            match &segment.end {
                End::Return(recipe) => drop(writeln!(out, "{pad}  return {}", recipe.show(&sources))),
                End::Raise(recipe, _) => drop(writeln!(out, "{pad}  raise {}", recipe.show(&sources))),
                End::GiveUp(reason) => drop(writeln!(out, "{pad}  leave to Python: {reason}")),
                End::Action(action) => {
                    let args: Vec<String> = action.args.iter().map(|a| a.show(&sources)).collect();
                    let _ = writeln!(
                        out,
                        "{pad}  call {}({}) at {}: {}",
                        action.function.show(&sources),
                        args.join(", "),
                        action.location,
                        action.reason
                    );
                    self.show_branches(&action.branches, depth + 1, out);
                }
            }
        }
    }
}

impl Segment {
    /// Whether all its checks hold.
    pub fn fits(&self, context: &Context<'_>, values: &mut Values<'_>) -> bool {
        // Behind an action the values of the parts before it are needed too.
        if matches!(self.checks.first(), Some(Check::Returned(_))) {
            return (0..self.checks.len()).all(|n| self.holds(n, context, values));
        }
        if let Some(warm) = self.warm.current(values) {
            values.rely_on(Some((self.number, warm.clone())));
            let fits = warm.rest.iter().all(|n| self.holds(*n, context, values));
            if !fits {
                values.rely_on(None);
            }
            return fits;
        }
        let fits = (0..self.checks.len()).all(|n| self.holds(n, context, values));
        if fits {
            let gauge = self.gauge(context);
            let trace = Trace { checks: &self.checks, gauge, graph: self.graph.as_ref(), effects: &self.effects };
            self.warm.study(&trace, context, values);
        }
        fits
    }

    /// With the same checks, and nothing behind them.
    fn given_up(&self, why: String) -> Segment {
        Segment {
            number: self.number,
            checks: self.checks.clone(),
            places: self.places.clone(),
            graph: None,
            builds: Vec::new(),
            built: Vec::new(),
            lines: Vec::new(),
            effects: Vec::new(),
            end: End::GiveUp(why),
            used: Cell::new(true),
            gauge: Default::default(),
            warm: Default::default(),
        }
    }

    fn gauge(&self, context: &Context<'_>) -> Option<&Gauge> {
        self.gauge.or_find(|| Gauge::new(&self.checks, context)).as_ref()
    }

    /// Whether a check holds, or is made with another one.
    fn holds(&self, check: usize, context: &Context<'_>, values: &mut Values<'_>) -> bool {
        let gauge = self.gauge(context);
        match gauge.map_or(Role::Alone, |gauge| gauge.role(check)) {
            Role::Alone => self.checks[check].holds(context, values),
            Role::First => gauge.is_some_and(|gauge| gauge.holds(context, values)),
            Role::Part => true,
        }
    }

    /// The place of the first check that does not hold, if no argument can be the reason.
    pub fn strange_objection(&self, context: &Context<'_>, values: &mut Values<'_>) -> Option<String> {
        let failed = self.checks.iter().find(|check| !check.holds(context, values))?;
        let place = failed.place()?;
        context.sources.is_behind_the_arguments(place).then(|| context.sources.show(place))
    }

    /// Where the machine stands while its action runs.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        match &self.end {
            End::Action(action) => Some(&action.snapshot),
            _ => None,
        }
    }

    /// What may come behind its action.
    pub fn branches(&self) -> Option<&Branches> {
        match &self.end {
            End::Action(action) => Some(&action.branches),
            _ => None,
        }
    }

    /// Every segment that may come behind this one.
    pub fn behind(&self, look: &mut dyn FnMut(&Segment)) {
        if let End::Action(action) = &self.end {
            for segment in action.branches.all().iter() {
                look(segment);
                segment.behind(look);
            }
        }
    }

    /// Everything up to the end: the graph, what it builds, what it does to others.
    pub fn perform(&self, tree: &Tree, values: &mut Values<'_>) -> PyResult<Vec<Option<Obj>>> {
        if let Some(graph) = &self.graph {
            self.compute(graph, tree, values)?;
        }
        let sources = tree.sources.read();
        for (source, (function, file, line)) in &self.lines {
            if let Some(exception) = values.get(&sources, *source) {
                exception_of(&at_line(PyErr::from_value(exception.bind().clone()), function, file, *line));
            }
        }
        let built = build_all(&self.builds, &sources, values)?;
        for (id, object) in self.built.iter().zip(&built) {
            values.set(*id, object.clone().expect("all are built"));
        }
        let mut calls = Vec::with_capacity(self.effects.len());
        for effect in &self.effects {
            let args = effect.args.iter().map(|a| a.get(&sources, values, &built)).collect::<PyResult<Vec<Obj>>>()?;
            calls.push((&effect.function, args));
        }
        drop(sources);
        for (function, args) in calls {
            function.call(&args, None)?;
        }
        Ok(built)
    }
}

impl Segment {
    fn compute(&self, graph: &GraphCall, tree: &Tree, values: &mut Values<'_>) -> PyResult<()> {
        let warm = values.warm(self.number);
        let bound = warm.as_ref().and_then(|warm| warm.bound.as_ref());
        let wanted = bound.map_or(&graph.inputs, |bound| &bound.varying);
        let inputs: Option<SmallVec<[Obj; 8]>> = {
            let sources = tree.sources.read();
            wanted.iter().map(|id| values.get(&sources, *id)).collect()
        };
        let inputs = inputs.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("oxytorch: an input is gone"))?;
        let _offer = Offer::new(true);
        let _inference = graph.inference.map(InferenceMode::set).transpose()?;
        let results = match bound {
            Some(bound) => {
                let _mode = graph.grad.map(GradMode::set).transpose()?;
                let _autocast = graph.autocast.then(NoAutocast::new).transpose()?;
                bound.graph.call(&inputs)?
            }
            None => call_graph(&graph.callable, &inputs, graph.grad, graph.autocast)?,
        };
        for ((id, shared), result) in graph.outputs.iter().zip(&graph.shared).zip(results) {
            values.set(*id, if *shared { alias(&result)? } else { result });
        }
        Ok(())
    }
}

/// The tensors that a compiled graph returns. `grad`: the mode in which it runs, if not the present one; it is restored in any case,
/// since the graph may change it. `autocast`: whether that may be on, in which case it is off while the graph runs.
pub fn call_graph(callable: &Obj, inputs: &[Obj], grad: Option<bool>, autocast: bool) -> PyResult<Vec<Obj>> {
    let _mode = grad.map(GradMode::set).transpose()?;
    let _autocast = autocast.then(NoAutocast::new).transpose()?;
    let args = tuple_of(inputs)?;
    // SAFETY: a callable and a tuple.
    let result = unsafe { Obj::owned(pyo3::ffi::PyObject_Call(callable.ptr(), args.ptr(), std::ptr::null_mut()))? };
    Ok(items_of(&result))
}

impl Action {
    pub fn perform(&self, tree: &Tree, values: &mut Values<'_>, built: &[Option<Obj>]) -> PyResult<(Obj, Vec<Obj>, Option<Obj>)> {
        let sources = tree.sources.read();
        let function = self.function.get(&sources, values, built)?;
        let args = self.args.iter().map(|a| a.get(&sources, values, built)).collect::<PyResult<Vec<Obj>>>()?;
        let kwargs = match self.kwargs.is_empty() {
            true => None,
            false => {
                let dict = pyo3::types::PyDict::new(crate::obj::py());
                for (name, value) in &self.kwargs {
                    dict.set_item(name.bind(), value.get(&sources, values, built)?.bind())?;
                }
                Some(Obj::from(dict))
            }
        };
        Ok((function, args, kwargs))
    }
}
