//! The end of a segment: the graph is computed, lazy tensors become real, and what is alive gets a recipe.

use super::autocast::NoAutocast;
use super::grad::{GradMode, alias};
use super::graph::{GraphRecord, LazyEntry};
use super::inspect::{Inspection, is_machine};
use super::modes::{DefaultType, InferenceMode, NoFunctionModes, make_leaves};
use super::spent::Moment;
use super::{Origin, Rec, Recording, Val};
use crate::backend::Compiled;
use crate::guard::Check;
use crate::interrupt::{Quiet, postponing};
use crate::lazy::{become_real, is_kept};
use crate::log::{Topic, log};
use crate::obj::{Obj, items_of, list_of, py, tuple_of};
use crate::recipe::Recipe;
use crate::source::{Source, SourceId};
use crate::state::TorchState;
use crate::tree::{Effect, End, GraphCall, Segment, call_graph};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict};
use std::rc::Rc;

/// A segment that is being closed.
pub struct Closing {
    pub graph: Option<GraphCall>,
    pub found: Inspection,
    pub effects: Vec<Effect>,
}

/// From here on the graph is for eager, if that must serve a call: it asks for no shadows, each of which is a tensor, without its memory.
pub fn forget_shadows(fx: &Bound<'_, PyAny>) -> PyResult<()> {
    for node in fx.getattr("nodes")?.try_iter()? {
        let meta = node?.getattr("meta")?.cast_into::<PyDict>()?;
        if meta.contains("example_value")? {
            meta.del_item("example_value")?;
        }
    }
    Ok(())
}

impl Recording {
    /// Computes everything because of a use that was not foreseen.
    pub fn settle_all(&mut self, why: &str) -> PyResult<()> {
        self.tainted.get_or_insert_with(|| why.to_string());
        self.compute().map(drop)
    }

    /// Compiles and runs what was recorded; every lazy tensor that somebody holds becomes its result.
    pub fn compute(&mut self) -> PyResult<Option<GraphCall>> {
        self.forget_garbage();
        let mut record = std::mem::replace(&mut self.graph, GraphRecord::new()?);
        record.conversions.clear();
        // SAFETY: reads the count of a live object. One reference is the record's own.
        let is_held = |object: &Obj| unsafe { ffi::Py_REFCNT(object.ptr()) > 1 };
        let must_run = record.unseen(is_held)?;
        let is_live = |lazy: &LazyEntry| must_run.contains(&lazy.node.id()) || is_held(&lazy.object);
        let (live, dead): (Vec<_>, Vec<_>) = record.lazies.into_iter().partition(is_live);
        for lazy in &dead {
            self.ids.remove(&lazy.object.id());
        }
        if record.calls == 0 {
            return Ok(None);
        }
        live.iter().for_each(|lazy| self.rely_on_expansion(&lazy.object));
        let nodes: Vec<Obj> = live.iter().map(|lazy| lazy.node.clone()).collect();
        let output = Obj::str("output");
        let call = record.fx.attr("create_node")?;
        let returned = call.call(&[output.clone(), output, tuple_of(&[tuple_of(&nodes)?])?], None)?;
        if let Some(regions) = &record.regions {
            returned.attr("meta")?.bind().set_item("checkpoint", regions.bind())?;
        }
        if record.is_restated {
            returned.attr("meta")?.bind().set_item("restated", true)?;
        }
        let start = Moment::now();
        let grad = record.grad.map_or(self.state.grad, |(first, _)| first);
        let inference = record.inference.filter(|inference| *inference != self.state.inference);
        let _default = DefaultType::set(&self.state.default_dtype)?;
        let _inference = InferenceMode::be(record.inference.unwrap_or(self.state.inference))?;
        let Compiled { callable, facts } = self.compile_in(grad, &record.fx, record.device.as_ref())?;
        facts.into_iter().for_each(|(fact, at)| self.rely_on_fact(fact, &at));
        let stages = self.backend.stages();
        let inputs: Vec<Obj> = record.inputs.iter().map(|input| input.object.clone()).collect();
        let autocast = TorchState::now()?.autocast.is_on() || self.state.autocast.is_on();
        let results = call_settling(&callable, &inputs, grad, &live)?;
        self.spending.0.computed(start, stages);
        log(Topic::Graph, || graph_lines(&record.fx, &self.place));
        let (mut outputs, mut shared) = (Vec::with_capacity(live.len()), Vec::with_capacity(live.len()));
        for (n, (lazy, result)) in live.iter().zip(&results).enumerate() {
            let source = self.source(Source::Output(self.segment, n as u32));
            self.note_varying(record.follower.as_deref(), &lazy.node, source);
            let is_known = inputs.iter().chain(&results[..n]).any(|other| other.is(result));
            // What a piece has settled is the program's object, which it may keep: later calls give it the result itself.
            let ours = results.iter().filter(|other| other.is(result)).count();
            let is_shared = is_known || (!result.is(&lazy.object) && is_kept(result.bind(), ours)?);
            shared.push(is_shared);
            self.materialise(&lazy.object, result, source, is_shared)?;
            outputs.push(source);
        }
        make_leaves(&record.new_leaves)?;
        forget_shadows(record.fx.bind())?;
        let inputs = record.inputs.iter().map(|input| input.source).collect();
        let changes = record.grad.is_some_and(|(first, last)| first != last);
        let grad = (changes || grad != self.state.grad).then_some(grad);
        Ok(Some(GraphCall { callable, inputs, outputs, shared, grad, inference, autocast }))
    }

    /// The call ends for a reason that is no part of the program: only what somebody can see is computed.
    pub fn interrupted(&mut self) -> PyResult<()> {
        self.forget_garbage();
        // SAFETY: reads the count of a live object. One reference is the record's own.
        let is_held = |lazy: &LazyEntry| unsafe { ffi::Py_REFCNT(lazy.object.ptr()) > 1 };
        if self.graph.lazies.iter().any(is_held) || self.graph.writes_inputs() {
            return self.compute().map(drop);
        }
        Ok(())
    }

    /// Compiles a graph in the grad mode in which it begins.
    fn compile_in(&self, grad: bool, fx: &Obj, device: Option<&Obj>) -> PyResult<Compiled> {
        let _mode = GradMode::set(grad)?;
        let _autocast = NoAutocast::new()?;
        let _modes = NoFunctionModes::new(&TorchState::now()?)?;
        // What the program holds must be computed, whatever comes meanwhile.
        postponing(|| self.backend.compile(fx, device))
    }

    /// Lets go of made objects that nobody else holds, and with them of the lazy tensors inside: those are no results.
    fn forget_garbage(&mut self) {
        self.dicts_of_made.clear();
        // SAFETY: reads the count of a live object. One reference is ours.
        let is_garbage = |object: &Option<Obj>| object.as_ref().is_some_and(|o| unsafe { ffi::Py_REFCNT(o.ptr()) } == 1);
        loop {
            let before = self.ids.len();
            self.ids.retain(|_, (origin, object)| *origin != Origin::Made || !is_garbage(object));
            if self.ids.len() == before {
                break;
            }
        }
        self.machines.retain(|id, _| self.ids.contains_key(id));
        self.forget_stowed_garbage();
    }

    /// The lazy tensor becomes its result. One that is an input, another result again, or a tensor that the program keeps (`is_shared`) is the
    /// same object for everybody: it cannot be swapped away from them, and an object of its own shows its memory. Views of a result hold it
    /// too, but those must find it in the lazy tensor: what becomes of a base, they feel.
    fn materialise(&mut self, lazy: &Obj, result: &Obj, source: SourceId, is_shared: bool) -> PyResult<()> {
        self.register(lazy, Origin::Outside(source));
        // A result that autograd has saved is not swapped either: torch refuses.
        if !result.is(lazy) && (is_shared || become_real(lazy, result).quiet().is_none()) {
            become_real(lazy, &alias(result)?)?;
        }
        Ok(())
    }

    /// Recipes for everything that was done to others.
    pub fn effects(&mut self, found: &mut Inspection) -> Rec<Vec<Effect>> {
        let changes = std::mem::take(&mut self.changes);
        let mut effects = Vec::with_capacity(changes.len());
        for change in &changes {
            let args = change.args.iter().map(|a| self.recipe(a, found)).collect::<Rec<Vec<Recipe>>>()?;
            effects.push(Effect { function: change.function.clone(), args });
        }
        Ok(effects)
    }

    /// The finished segment. What it built is known by a source from now on.
    pub fn segment(&mut self, closing: Closing, end: End) -> Segment {
        let Closing { graph, found, mut effects } = closing;
        effects.extend(spent_effects(&found));
        let mut built = Vec::with_capacity(found.builds.len());
        for (n, object) in found.objects.iter().enumerate() {
            let source = self.source(Source::Built(self.segment, n as u32));
            self.built_now.insert(object.id(), source);
            // An iterator goes on changing without a note: each segment that moves it says anew what it is (`machines`).
            if is_machine(object) {
                self.machines.entry(object.id()).or_insert(source);
                crate::vm::stands(object);
            } else {
                self.register(object, Origin::Outside(source));
            }
            built.push(source);
        }
        self.check_tensors_apart();
        self.check_addresses();
        let places = self.take_places();
        let checks = self.take_checks();
        log(Topic::Guards, || {
            let sources = self.tree.sources.read();
            checks.iter().map(|check| format!("{}: {}", self.place, check.show(&sources))).collect::<Vec<_>>().join("\n")
        });
        Segment {
            number: self.segment,
            checks,
            places,
            graph,
            builds: found.builds,
            built,
            lines: std::mem::take(&mut self.lines),
            effects,
            end,
            used: Default::default(),
            gauge: Default::default(),
            warm: Default::default(),
        }
    }

    /// A class that traces write to has another version in every call.
    fn take_checks(&mut self) -> Vec<Check> {
        self.keep_broken_mark();
        let mut checks = std::mem::take(&mut self.checks);
        checks.shrink_to_fit();
        if self.tree.has_class_writes() {
            for check in &mut checks {
                if let Check::Version(class, _) = check
                    && let Some(portrait) = self.tree.portrait_of(class)
                {
                    *check = Check::Class(Rc::new(portrait));
                }
            }
        }
        checks
    }

    /// The end of a recording that could not go on.
    pub fn gave_up(&mut self, why: String) -> Segment {
        let places = self.take_places();
        let checks = self.take_checks();
        let (builds, built, effects) = (Vec::new(), Vec::new(), Vec::new());
        Segment {
            number: self.segment,
            checks,
            places,
            graph: None,
            builds,
            built,
            lines: Vec::new(),
            effects,
            end: End::GiveUp(why),
            used: Default::default(),
            gauge: Default::default(),
            warm: Default::default(),
        }
    }

    /// After an action nothing is known of what outside objects hold, but they are still found where they were.
    pub fn begin_segment(&mut self) {
        self.segment = self.tree.next_segment();
        self.seen.clear();
        self.versions.clear();
        self.written.clear();
        self.opaque.clear();
        self.originals.clear();
        self.resized.clear();
        self.apart.clear();
        self.forget_stowed();
        self.sizing.begin_segment();
        self.whole.clear();
        self.tokens.clear();
        self.class_reads.clear();
        self.built_now.clear();
        self.moving.clear();
        self.dicts_of_made.clear();
        self.lines.clear();
        let lives_on = |object: &Option<Obj>| object.as_ref().is_some_and(is_machine);
        self.ids.retain(|_, (origin, object)| matches!(origin, Origin::Outside(_)) || lives_on(object));
    }

    /// Objects that an earlier part of the same call found. The result of the action before this part is met like any new object: nobody has
    /// checked it yet.
    pub fn restore(&mut self, found: &[Option<Obj>], result: SourceId) {
        for (n, object) in found.iter().enumerate() {
            if let Some(object) = object
                && n != result.0 as usize
                && !crate::types::types().is_scalar(object)
            {
                let source = SourceId(n as u32);
                let origin = match is_machine(object) {
                    true => Origin::Made,
                    false => Origin::Outside(source),
                };
                if origin == Origin::Made {
                    self.machines.entry(object.id()).or_insert(source);
                }
                self.note_kind(object, origin);
                let first = self.ids.entry(object.id()).or_insert((origin, Some(object.clone()))).0;
                self.rely_on_one_object(object, source, first);
            }
        }
    }

    /// An object that was found at two places is told by the first of them. In the calls before, others may have been there.
    fn rely_on_one_object(&mut self, object: &Obj, source: SourceId, first: Origin) {
        if let Origin::Outside(known) = first
            && known != source
            && !crate::types::types().is_pinnable(object)
        {
            self.check_once(1, source, known.0, || Check::Same(source, known));
        }
    }

    /// Where a value that lives on is found. Only after `segment`, which gives what was built its source.
    pub fn lasting(&mut self, value: &Val) -> Option<Recipe> {
        if let Some(source) = value.free {
            return Some(Recipe::Source(source));
        }
        if let Some(source) = self.built_now.get(&value.obj.id()) {
            return Some(Recipe::Source(*source));
        }
        match self.origin(&value.obj) {
            Origin::Const => Some(Recipe::Const(value.obj.clone())),
            Origin::Outside(source) => Some(Recipe::Source(source)),
            _ => self.resting(&value.obj).map(Recipe::Source),
        }
    }
}

/// Runs a compiled graph for the first time. One that runs in pieces says what a piece has computed before the next one reads it: a lazy
/// tensor then becomes its result at once, so that autograd saves the very tensor that the program holds.
fn call_settling(callable: &Obj, inputs: &[Obj], grad: bool, live: &[LazyEntry]) -> PyResult<Vec<Obj>> {
    let Some(settling) = callable.attr("call_settling").quiet() else { return call_graph(callable, inputs, Some(grad), true) };
    let _mode = GradMode::set(grad)?;
    let _autocast = NoAutocast::new()?;
    let lazies = list_of(&live.iter().map(|lazy| lazy.object.clone()).collect::<Vec<_>>())?;
    let become_result = Obj::from(PyCFunction::new_closure(py(), None, None, |args, _| -> PyResult<Py<PyAny>> {
        let (lazies, place, result) = (args.get_item(0)?, args.get_item(1)?, Obj::from(args.get_item(2)?));
        let lazy = Obj::from(lazies.get_item(place)?);
        // Some other tensor may hold its memory; then it stays as it is until the end.
        let settled = if become_real(&lazy, &result).quiet().is_some() { lazy } else { result };
        Ok(settled.bind().clone().unbind())
    })?);
    Ok(items_of(&settling.call(&[tuple_of(inputs)?, become_result, lazies], None)?))
}

/// A line for each operation, with the user's own; what has none (inputs, outputs) is the function's.
fn graph_lines(fx: &Obj, place: &str) -> String {
    let line = |node: &Obj| -> PyResult<String> {
        let own = node.attr("meta")?.bind().call_method1("get", ("stack_trace",))?.extract::<Option<String>>()?;
        let text: String = node.bind().call_method0("format_node")?.extract()?;
        let own = own.as_deref().and_then(file_and_line);
        Ok(format!("{}: {text}", own.as_deref().unwrap_or(place)))
    };
    let nodes =
        fx.attr("nodes").and_then(|nodes| nodes.bind().try_iter()?.map(|node| line(&node?.into())).collect::<PyResult<Vec<_>>>());
    nodes.map_or_else(|_| fx.text(), |lines| lines.join("\n"))
}

/// What was told here that it goes, and is built all the same, is not told again by CPython.
fn spent_effects(found: &Inspection) -> impl Iterator<Item = Effect> {
    let is_spent = |object: &Obj| crate::vm::finaliser(&object.class()).is_some() && crate::vm::is_spent(object);
    let spent = (0..found.objects.len()).filter(move |n| is_spent(&found.objects[*n]));
    let spender = crate::vm::spender().quiet();
    spent.filter_map(move |n| Some(Effect { function: spender.clone()?, args: vec![Recipe::Built(n as u32)] }))
}

/// Of an entry of a traceback: `File "a.py", line 3, in f`.
fn file_and_line(entry: &str) -> Option<String> {
    let (_, rest) = entry.split_once("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let line: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some(format!("{file}:{line}"))
}
