//! `compile_fx`: a graph module in, a callable out. Whatever cannot be compiled comes back as it was.

use crate::anatomy::Anatomy;
use crate::callable::NativeCallable;
use crate::error::{options_error, report_bug, tell_once, warn_once};
use crate::fx::{
    How, IN_EAGER, IN_PIECES, Imported, Layout, RESHAPED_LATER, Refusal, fixed_sizes, hints_of, import, reshapes_earlier,
    restated, writes_beside_detached, writes_saved_unheard,
};
use crate::kernels::{log_cache, log_kernels};
use crate::pieces::{self, Pieces, Region, Step, Undoing, Written};
use crate::report::{LastCompile, remember};
use crate::rewind::rewinds;
use crate::training::{
    Again, Backward, TrainingCallable, Views, Ways, counted, fused_attention, gates, has_effects, reach, read_and_written,
};
use crate::watched::watched;
use ox_capture::Found;
use ox_capture::{GradMode, forget_shadows, is_interrupt};
use ox_driver::{CompileError, Held, OptionValue, Options, Panic, Race, Training, TrainingError, Wanted, guarded};
use ox_ir::failure::{fault, inject};
use ox_ir::plan::{self, Call};
use ox_ir::{Device, Graph};
use ox_ops::{Fact, Hints, Noted, at_hints};
use ox_runtime::HostCalls;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

/// Compiles a graph that Dynamo captured.
#[pyfunction]
#[pyo3(signature = (gm, example_inputs, mode=None, options=None))]
pub fn compile_fx<'py>(
    gm: &Bound<'py, PyAny>,
    example_inputs: &Bound<'py, PyAny>,
    mode: Option<&str>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = parse_options(mode, options)?;
    pieces::inline_checkpoints(gm, GradMode::is_on()?)?;
    if pieces::reads_what_others_write(&pieces::ordered(gm)?)? {
        return Err(left_as_it_is(
            gm.py(),
            "a checkpointed function reads what is written behind it, and Dynamo does not tell whether it was given it",
        )?);
    }
    pieces::merge_selves(gm)?;
    watched(gm, example_inputs, compile_graph(gm, example_inputs, &options, None)?.0)
}

/// `device` is where the examples' tensors stand for, if they lie on the meta device. Also what must hold of the sizes of a captured graph.
pub fn compile_graph<'py>(
    gm: &Bound<'py, PyAny>,
    example_inputs: &Bound<'py, PyAny>,
    options: &Options,
    device: Option<Device>,
) -> PyResult<(Bound<'py, PyAny>, Vec<Noted>)> {
    // The runtime keeps large results, if it knows torch's storages.
    Anatomy::get(gm.py()).ok();
    let (facts, layouts) = (RefCell::default(), RefCell::default());
    let options = &Options { deterministic: is_deterministic(gm.py())?, ..options.clone() };
    let job = Job {
        options,
        device,
        fixed: None,
        learned: &[],
        recomputed: None,
        covered: false,
        written: false,
        facts: &facts,
        layouts: &layouts,
    };
    let nodes = pieces::ordered(gm)?;
    let only_eager = match restated(&nodes)? {
        Some(what) => Some(what),
        None if writes_saved_unheard(&nodes)? => Some("a write by way of .data to what a gradient needs"),
        None if writes_beside_detached(&nodes)? => {
            Some("a write of what requires grad beside a detached view of the same memory")
        }
        None if pieces::shows_outdated_parts(&nodes)? => Some("a part of a split of what was written behind it"),
        None => None,
    };
    if let Some(what) = only_eager {
        return Ok((job.left(gm, Refusal::unsupported(what))?, facts.take()));
    }
    let views = pieces::visible_views(&nodes)?;
    let (mut cuts, regions) = (pieces::visible_cuts(&nodes, &views)?, pieces::region_cuts(&nodes, 0)?);
    let by_eager = pieces::spare_writing(&nodes, &regions, &mut cuts)?;
    cuts.extend(regions);
    cuts.sort_unstable();
    let compiled = match cuts.is_empty() && views.is_empty() {
        true => job.whole(gm, example_inputs)?,
        false => job.in_pieces(gm, example_inputs, &cuts, &by_eager)?,
    };
    Ok((compiled, facts.take()))
}

/// Dynamo and our own capture both see to it that a change of this leads to another graph.
fn is_deterministic(py: Python<'_>) -> PyResult<bool> {
    py.import(intern!(py, "torch"))?.call_method0(intern!(py, "are_deterministic_algorithms_enabled"))?.is_truthy()
}

/// How graphs are compiled.
#[derive(Clone, Copy)]
struct Job<'a> {
    options: &'a Options,
    device: Option<Device>,
    /// The sizes of the whole graph, for its pieces, where they are constants: those of values that eager gives to other pieces are not known
    /// otherwise.
    fixed: Option<&'a Hints>,
    /// What gradients have asked of sizes.
    learned: &'a [Noted],
    /// What was relied on of sizes.
    facts: &'a RefCell<Vec<Noted>>,
    /// How the results of the last graph lie in memory, if it was imported.
    layouts: &'a RefCell<Option<Vec<Option<Layout>>>>,
    /// Nothing but arguments is kept for backward, as `torch.utils.checkpoint` does it.
    recomputed: Option<Region>,
    /// It runs under torch's own checkpoint.
    covered: bool,
    /// It is a piece of a graph that may write what another piece shows.
    written: bool,
}

impl Job<'_> {
    /// One piece behind the other. Eager runs those that begin at `by_eager`, and makes views.
    fn in_pieces<'py>(
        self,
        gm: &Bound<'py, PyAny>,
        examples: &Bound<'py, PyAny>,
        cuts: &[usize],
        by_eager: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = gm.py();
        let hints = match self.fixed.cloned().map_or_else(|| hints_of(gm), Ok) {
            Ok(hints) => hints,
            Err(refusal) => return self.refused(gm, refusal),
        };
        let mut job = self;
        let mut layouts = FxHashMap::default();
        let cut = pieces::cut_with_views(gm, examples, cuts)?;
        let mut steps = Vec::with_capacity(cut.pieces.len());
        let rows = cut.pieces.iter().map(|piece| pieces::ordered(&piece.module)).collect::<PyResult<Vec<_>>>()?;
        if reshapes_earlier(&rows)? {
            return self.left(gm, Refusal::unsupported(RESHAPED_LATER));
        }
        let writing = rows.iter().map(|nodes| pieces::may_write(nodes)).collect::<PyResult<Vec<bool>>>()?;
        for (n, piece) in cut.pieces.into_iter().enumerate() {
            job.written = self.written || writing[n + 1..].contains(&true);
            piece.describe(&layouts)?;
            self.layouts.take();
            let within = job.within(piece.regions.first().copied());
            let callable = match piece.views || by_eager.contains(&piece.start) {
                true => {
                    if job.fixed.is_none() && !hints.is_empty() {
                        within.look_at(&piece.module, piece.examples.as_any());
                    }
                    within.as_it_was(&piece.module, piece.module.getattr(intern!(py, "forward"))?)?
                }
                false => within.whole(&piece.module, piece.examples.as_any())?,
            };
            match self.layouts.take() {
                Some(found) => layouts.extend(piece.outputs.iter().copied().zip(found).filter_map(|(n, of)| Some((n, of?)))),
                None if job.fixed.is_none() => {
                    self.facts.borrow_mut().extend(fixed_sizes(&hints, IN_PIECES));
                    job.fixed = Some(&hints);
                }
                None => {}
            }
            forget_shadows(&piece.module.getattr(intern!(py, "graph"))?)?;
            let is_ours = runs_purely(&callable);
            let is_pure = !writing[n] && is_ours.unwrap_or(piece.views);
            let undoing = Undoing { is_ours: is_ours.is_some(), is_pure };
            steps.push(Step {
                callable: callable.unbind(),
                inputs: piece.inputs,
                outputs: piece.outputs,
                last: Vec::new(),
                undoing,
            });
        }
        if job.fixed.is_none() {
            // For those behind it, if it is a piece itself.
            let known = |row: Vec<usize>| row.iter().map(|n| layouts.get(n).cloned().map(Some)).collect();
            self.layouts.replace(cut.result.row().and_then(known));
        }
        let written = match cut.written.is_empty() {
            true => None,
            false => Some(Written { arguments: cut.written, eager: pieces::by_eager(gm, 0)?.unbind() }),
        };
        Ok(Bound::new(py, Pieces::new(cut.values, steps, cut.result, written))?.into_any())
    }

    fn within(self, region: Option<Region>) -> Self {
        Job { recomputed: self.recomputed.or(region.filter(|_| !self.covered)), ..self }
    }

    /// A graph that is left to eager.
    fn refused<'py>(self, gm: &Bound<'py, PyAny>, refusal: Refusal) -> PyResult<Bound<'py, PyAny>> {
        self.as_it_was(gm, refused(gm, refusal)?)
    }

    /// What eager runs, under the checkpoints that it was under.
    fn as_it_was<'py>(self, gm: &Bound<'py, PyAny>, eager: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.recomputed {
            Some(region) => pieces::checkpointed(gm, &pieces::by_eager(gm, 1)?, region),
            None if self.covered => Ok(eager),
            None => pieces::by_eager(gm, 0),
        }
    }

    fn whole<'py>(self, gm: &Bound<'py, PyAny>, example_inputs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = gm.py();
        let start = Instant::now();
        let imported = match self.read(gm, example_inputs, false) {
            Ok(imported) => imported,
            Err(refusal) => return self.unread(gm, example_inputs, refusal),
        };
        let import = start.elapsed();
        if imported.outdated {
            return self.refused(gm, Refusal::unsupported("a view that was made without grad, of what was written behind it"));
        }
        if self.recomputed.is_some() && !imported.graph.mutations.is_empty() {
            // Done once more when it is computed again.
            return self.refused(gm, Refusal::unsupported("writes in a checkpointed function"));
        }
        if self.recomputed.is_some_and(|region| !region.preserves) && has_effects(&imported.graph) {
            return self
                .refused(gm, Refusal::unsupported("random numbers in a checkpointed function that are others the second time"));
        }
        if imported.gradients.outputs.contains(&true) {
            if let Some(region) = self.recomputed
                && pieces::reads_what_is_written(gm, region)?
            {
                return self.refused(gm, Refusal::unsupported("a checkpointed function that holds what is written behind it"));
            }
            return self.training(gm, example_inputs, imported, import);
        }
        let Imported { mut graph, slots, constants, outputs, host, python_calls, pinned, limits, weights, unheard, seen, .. } =
            imported;
        graph.shrink();
        let host = Arc::new(host.into_host());
        let options = Options { overwrite_inputs: true, weights, usual: seen, ..self.options.clone() };
        let compiled = match py.detach(|| ox_driver::compile(&graph, &options, host)) {
            Ok(compiled) => compiled,
            Err(error) => return self.not_compiled(gm, error, &graph),
        };
        self.note(py, &compiled.report, is_on_cpu(&graph))?;
        log_kernels(&graph, compiled.program.plan());
        let graphs = compiled.program.graph_status();
        remember(LastCompile { import, report: compiled.report, python_calls, eager: None, graphs });
        let eager = gm.getattr(intern!(py, "forward"))?.unbind();
        let broken = AtomicBool::new(false);
        let race = Race::new(&graph, options.race_eager);
        let rewinds = rewinds(&graph, &compiled.program);
        let (program, on_cpu, text) = (compiled.program, is_on_cpu(&graph), Some(graph.to_string().into_boxed_str()));
        graph.nodes = Vec::new();
        let callable = NativeCallable {
            program,
            graph,
            text,
            on_cpu,
            slots,
            constants,
            outputs,
            eager,
            broken,
            pinned,
            limits,
            race,
            rewinds,
            unheard,
        };
        Ok(Bound::new(py, callable)?.into_any())
    }

    /// Imports a graph, and notes what was learned of its sizes and of how its results lie in memory.
    fn read(self, gm: &Bound<'_, PyAny>, examples: &Bound<'_, PyAny>, looking: bool) -> Result<Imported, Refusal> {
        let how = How {
            freezing: self.options.freezing,
            fallback_random: self.options.fallback_random,
            device: self.device,
            fixed: self.fixed,
            learned: self.learned,
            written: self.written,
            looking,
        };
        let read = || {
            fault("import");
            import(gm, examples, how)
        };
        let mut imported = guarded(read).unwrap_or_else(|Panic(message)| Err(Refusal::Bug(message)))?;
        self.layouts.replace(Some(imported.layouts()));
        self.facts.borrow_mut().append(&mut imported.facts);
        Ok(imported)
    }

    /// What eager runs may be read all the same, for what is made of its results. Where it cannot be, nothing is known of them.
    fn look_at(self, gm: &Bound<'_, PyAny>, examples: &Bound<'_, PyAny>) {
        let _ = self.read(gm, examples, true);
    }

    /// A graph whose import did not come to its end.
    fn unread<'py>(self, gm: &Bound<'py, PyAny>, examples: &Bound<'py, PyAny>, refusal: Refusal) -> PyResult<Bound<'py, PyAny>> {
        match refusal {
            Refusal::Cut { place, what } => self.around(gm, examples, place, &what),
            refusal => self.left(gm, refusal),
        }
    }

    /// To eager. What the import would have relied on is not known, and what torch said of the captured sizes (the number of parts, a shape)
    /// stands in the graph: they are constants.
    fn left<'py>(self, gm: &Bound<'py, PyAny>, refusal: Refusal) -> PyResult<Bound<'py, PyAny>> {
        match hints_of(gm) {
            Ok(hints) => self.facts.borrow_mut().extend(fixed_sizes(&hints, IN_EAGER)),
            Err(refusal) => return self.refused(gm, refusal),
        }
        self.refused(gm, refusal)
    }

    fn note(self, py: Python<'_>, report: &ox_driver::Report, on_cpu: bool) -> PyResult<()> {
        log_cache(report, self.options, on_cpu);
        report.trouble.iter().try_for_each(|trouble| tell_once(py, &format!("oxytorch: {trouble}")))?;
        report.notes.iter().try_for_each(|note| warn_once(py, &format!("oxytorch: {note}")))
    }

    /// A graph of which a result requires grad.
    fn training<'py>(
        self,
        gm: &Bound<'py, PyAny>,
        examples: &Bound<'py, PyAny>,
        imported: Imported,
        import: Duration,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = gm.py();
        let Imported {
            mut graph,
            slots,
            constants,
            outputs,
            host,
            python_calls,
            pinned,
            limits,
            weights,
            mut gradients,
            held,
            saved_behind,
            unheard,
            seen,
            ..
        } = imported;
        let Some(views) = Views::take(&mut graph, &gradients.inputs, &mut gradients.outputs) else {
            return self.refused(gm, Refusal::unsupported("results that share memory in part"));
        };
        graph.shrink();
        let attention = fused_attention(py, &graph, self.options.deterministic);
        // torch's checkpoint holds all arguments.
        let (held, saved_behind) = match self.recomputed {
            Some(_) => (Held::all_inputs(&graph), Vec::new()),
            None => (views.held(held), views.of_results(&saved_behind)),
        };
        let wanted = Wanted { inputs: gradients.inputs.clone(), outputs: gradients.outputs.clone(), attention, held };
        let host: Arc<dyn HostCalls> = Arc::new(host.into_host());
        let budget = if self.recomputed.is_some() { 0 } else { self.options.activation_memory_budget };
        let options = Options { freezing: false, activation_memory_budget: budget, weights, usual: seen, ..self.options.clone() };
        let compiled = match py.detach(|| ox_driver::compile_training(&graph, &wanted, &options, host.clone())) {
            Ok(compiled) => compiled,
            Err(TrainingError::Undifferentiable(at)) => {
                if let Some(open) = self.open_question(gm, &graph, &wanted)? {
                    let learned = [self.learned, &[open]].concat();
                    return Job { learned: &learned, ..self }.whole(gm, examples);
                }
                let place = gradients.origins.get(at.node.index()).map_or(0, |place| *place as usize);
                return self.around(gm, examples, place, &at.why);
            }
            Err(TrainingError::Compile(error)) => return self.not_compiled(gm, error, &graph),
        };
        self.note(py, &compiled.forward.report, is_on_cpu(&graph))?;
        self.note(py, &compiled.backward.report, is_on_cpu(&graph))?;
        log_kernels(&graph, compiled.forward.program.plan());
        log_kernels(&graph, compiled.backward.program.plan());
        let graphs = compiled.forward.program.graph_status();
        remember(LastCompile { import, report: compiled.forward.report.clone(), python_calls, eager: None, graphs });
        let reach = reach(&graph, &gradients);
        // One node of torch's checkpoint is one of ours.
        let is_one = self.recomputed.is_some_and(|region| region.reentrant);
        let gates = gates(&reach, &gradients);
        let (again, copied) = (Again::of(&graph, &gradients, constants.len()), read_and_written(&graph, &gradients));
        let Training { forward, backward, graph: mut of_gradients, sources, gradients: places, .. } = compiled;
        of_gradients.shrink();
        let counted = counted(&saved_behind, &wanted.outputs, &sources);
        let backward = Backward {
            graph: of_gradients,
            sources,
            gradients: places,
            reach,
            options,
            host,
            together: is_one,
            program: Arc::new(backward.program),
            others: Default::default(),
            needs: Default::default(),
            passes: AtomicU32::new(0),
        };
        let (results, eager) = (graph.outputs.len(), gm.getattr(intern!(py, "forward"))?.unbind());
        let (program, broken) = (forward.program, AtomicBool::new(false));
        let (race, rewinds) = (Race::new(&graph, false), rewinds(&graph, &program));
        let (text, on_cpu) = (None, is_on_cpu(&graph));
        let native = NativeCallable {
            program,
            graph,
            text,
            on_cpu,
            slots,
            constants,
            outputs,
            eager,
            broken,
            pinned,
            limits,
            race,
            rewinds,
            unheard,
        };
        let (second, ways) = (Found::new(), Ways::default());
        let callable =
            TrainingCallable { native, gradients, results, views, backward, ways, gates, again, copied, counted, second };
        Ok(Bound::new(py, callable)?.into_any())
    }

    /// What derivatives must know of sizes, if that is all that they lack. What was noted while the graph was read says nothing to them.
    fn open_question(self, gm: &Bound<'_, PyAny>, graph: &Graph, wanted: &Wanted) -> PyResult<Option<Noted>> {
        let Ok(hints) = hints_of(gm) else { return Ok(None) };
        if hints.is_empty() || self.fixed.is_some() {
            return Ok(None);
        }
        let (joint, _) = at_hints(hints, || ox_driver::joint(graph, wanted));
        let open = joint.err().and_then(|at| at.open).map(|(a, b)| (Fact::Equal(a, b), "a gradient".to_string()));
        Ok(open.filter(|open| !self.learned.contains(open)))
    }

    fn not_compiled<'py>(self, gm: &Bound<'py, PyAny>, error: CompileError, graph: &Graph) -> PyResult<Bound<'py, PyAny>> {
        match error {
            CompileError::Unsupported(what) => self.refused(gm, Refusal::unsupported(what)),
            error @ CompileError::Bug { .. } => self.as_it_was(gm, bug(gm, &error.to_string(), Some(graph))?),
        }
    }

    /// A graph with a node that only torch can differentiate: eager does that one, between two compiled pieces.
    fn around<'py>(
        self,
        gm: &Bound<'py, PyAny>,
        examples: &Bound<'py, PyAny>,
        place: usize,
        what: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let nodes = pieces::ordered(gm)?;
        let is_call = nodes.get(place).is_some_and(|node| pieces::is_computed(node).unwrap_or(false));
        // What is written in a part that is done again is written as often as eager does it.
        let is_repeated = self.recomputed.is_some() && (pieces::may_write(&nodes)? || pieces::has_several_results(&nodes)?);
        if !is_call || pieces::computed(&nodes)? == 1 || is_repeated {
            let refusal = Refusal::unsupported(what);
            return if self.read(gm, examples, true).is_ok() { self.refused(gm, refusal) } else { self.left(gm, refusal) };
        }
        warn_once(gm.py(), &format!("oxytorch: one operation is left to eager for its gradient: {what}"))?;
        // Pieces of a checkpointed part keep what goes from one to the next: torch's own checkpoint takes it from them.
        let job = Job { recomputed: None, covered: self.recomputed.is_some() || self.covered, ..self };
        let pieces = job.in_pieces(gm, examples, &[place, place + 1], &[place])?;
        match self.recomputed {
            // It writes nothing, and has one result: the variant that keeps less is as good.
            Some(region) => pieces::checkpointed(gm, &pieces, Region { reentrant: false, ..region }),
            None => Ok(pieces),
        }
    }
}

/// For tests: see `ox_ir::failure::inject`.
#[pyfunction]
#[pyo3(signature = (stage=None))]
pub fn inject_fault(stage: Option<&str>) {
    inject(stage);
}

/// Raises ValueError for an unknown mode or option.
#[pyfunction]
#[pyo3(signature = (mode=None, options=None))]
pub fn check_options(mode: Option<&str>, options: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    parse_options(mode, options).map(|_| ())
}

pub fn parse_options(mode: Option<&str>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Options> {
    let mut named: Vec<(String, OptionValue)> = Vec::new();
    for (key, value) in options.into_iter().flat_map(|dict| dict.iter()) {
        named.push((key.str()?.extract()?, option_value(&value)?));
    }
    Options::new(mode, named.iter().map(|(k, v)| (k.as_str(), v.clone()))).map_err(options_error)
}

pub fn option_value(value: &Bound<'_, PyAny>) -> PyResult<OptionValue> {
    if value.is_exact_instance_of::<PyBool>() {
        return Ok(OptionValue::Bool(value.is_truthy()?));
    }
    if value.is_instance_of::<PyInt>()
        && let Ok(number) = value.extract()
    {
        return Ok(OptionValue::Int(number));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(OptionValue::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(OptionValue::Str(value.extract()?));
    }
    Ok(OptionValue::Other(value.get_type().name()?.extract()?))
}

/// Eager, with one warning that says why.
fn refused<'py>(gm: &Bound<'py, PyAny>, refusal: Refusal) -> PyResult<Bound<'py, PyAny>> {
    let py = gm.py();
    let reason = match refusal {
        Refusal::Bug(message) => return bug(gm, &message, None),
        // An interrupt says nothing of the graph.
        Refusal::Python(error) if is_interrupt(&error) => return Err(error),
        Refusal::Python(error) => return bug(gm, &format!("reading the graph raised {error}"), None),
        Refusal::Cut { what, .. } | Refusal::Fixed { why: what, .. } | Refusal::Left { why: what, .. } => what,
        Refusal::Undecided((fact, _)) => format!("it is not known whether {fact}"),
        Refusal::Unsupported { what, location } if location.is_empty() => what,
        Refusal::Unsupported { what, location } => format!("{what} (at {location})"),
    };
    warn_once(py, &format!("oxytorch: this graph runs in eager: {reason}"))?;
    eager(gm, reason)
}

/// Whether a run of a program of ours can be repeated. None for what is no such program.
fn runs_purely(callable: &Bound<'_, PyAny>) -> Option<bool> {
    let program = match (callable.cast::<NativeCallable>(), callable.cast::<TrainingCallable>()) {
        (Ok(native), _) => &native.get().program,
        (_, Ok(training)) => &training.get().native.program,
        _ => return None,
    };
    let has_effect = |step: &plan::Step| matches!(step, plan::Step::Call { call: Call::Library(library), .. } if library.effect);
    Some(!program.plan().steps.iter().any(has_effect))
}

/// Dynamo lets the function run as it is, of which its graph does not tell all that matters. From then on, for all who share its code.
fn left_as_it_is(py: Python<'_>, why: &str) -> PyResult<PyErr> {
    warn_once(py, &format!("oxytorch: a function runs as it is from now on: {why}"))?;
    Ok(PyErr::from_value(py.import("torch._dynamo.exc")?.getattr("SkipFrame")?.call1((why,))?))
}

fn is_on_cpu(graph: &Graph) -> bool {
    graph.nodes.iter().all(|node| node.ty.device == Device::Cpu)
}

fn bug<'py>(gm: &Bound<'py, PyAny>, message: &str, graph: Option<&Graph>) -> PyResult<Bound<'py, PyAny>> {
    let py = gm.py();
    let fx: String = gm.getattr(intern!(py, "code")).and_then(|code| code.extract()).unwrap_or_default();
    let mut details: Vec<(&str, &dyn Display)> = vec![("fx graph", &fx)];
    if let Some(graph) = graph {
        details.push(("graph", graph));
    }
    report_bug(py, message, &details)?;
    eager(gm, format!("internal error: {message}"))
}

fn eager<'py>(gm: &Bound<'py, PyAny>, reason: String) -> PyResult<Bound<'py, PyAny>> {
    remember(LastCompile { eager: Some(reason), ..LastCompile::default() });
    gm.getattr(intern!(gm.py(), "forward"))
}
