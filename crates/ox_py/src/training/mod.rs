//! Graphs of which a result requires grad: two programs behind one `torch.autograd.Function`.
//!
//! - `views`: results that share memory are made outside of that function, by torch, so that autograd knows of it.
//! - `parts`: results and inputs that are nodes of autograd's by themselves.
//! - `reach`: between which inputs and results gradients flow.
//! - `backward`: the program for the gradients that there are; `chosen`: which of them are asked for.
//! - `spent`: several backward passes through one call; `knots`: where eager's graph of it lets go of something.
//! - `known`: what was found out for some of them; `unseen`: what is computed for our books, which nobody sees.
//! - `counted`: results that eager alone has saved, and who writes to them.
//! - `again`: second derivatives by eager; `second`: those of graphs with random numbers of our own.
//! - `attention`: which of torch's kernels for it a GPU has.
//! - here: the callable, and its forward.

mod again;
mod apart;
mod attention;
mod backward;
mod chosen;
mod counted;
mod knots;
mod known;
mod parts;
mod reach;
mod second;
mod spent;
mod unseen;
mod views;

use again::{Kept, is_batched};
pub use attention::fused_attention;
pub use backward::Backward;
pub use counted::{Counted, counted};
pub use parts::{Gate, gates};
pub use reach::{Again, draws_seeds_only, has_effects, reach, read_and_written};
pub use second::Second;
pub use spent::Ways;
use spent::{Pass, version_of};
use views::Whole;
pub use views::{Place, Views};

use crate::callable::{NativeCallable, Sizes};
use crate::error::{Verdict, judge, no_memory};
use crate::fx::{Gradients, OutTree, Slot};
use crate::rewind::Rewind;
use crate::tensor::Crossing;
use crate::unheard;
use ox_capture::Found;
use ox_capture::{GradMode, InternalError, Obj, instead, take_offer, undone};
use ox_driver::Source;
use ox_runtime::TensorRef;
use pyo3::exceptions::{PyException, PyRuntimeError, PyZeroDivisionError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::atomic::Ordering::Relaxed;

// A run that failed before anything was done: eager serves the call.
pyo3::create_exception!(oxytorch, Served, PyException);

/// Why and where; with the exception that the run ended in, where eager has a poorer one.
fn served(why: &str, location: &str, own: Option<PyErr>) -> PyErr {
    let own = own.map(|error| Python::attach(|py| error.into_value(py)));
    Served::new_err((why.to_string(), location.to_string(), own))
}

/// In anomaly mode torch names the operation whose gradient failed, and where the program did it: eager's do.
fn is_watched(py: Python<'_>) -> PyResult<bool> {
    static ASK: Found<Py<PyAny>> = Found::new();
    let find = || Ok::<_, PyErr>(py.import("torch._C")?.getattr("is_anomaly_enabled")?.unbind());
    ASK.or_try_find(find)?.bind(py).call0()?.is_truthy()
}

#[pyclass(frozen, module = "oxytorch._oxytorch")]
pub struct TrainingCallable {
    /// Its program is the forward one, its graph has the results that the autograd function returns.
    pub(crate) native: NativeCallable,
    pub(crate) gradients: Gradients,
    /// How many results of the forward program are the user's; those behind are saved.
    pub(crate) results: usize,
    pub(crate) views: Views,
    pub(crate) backward: Backward,
    pub(crate) ways: Ways,
    /// The inputs that have gradients, by the results that depend on them.
    pub(crate) gates: Vec<Gate>,
    /// How a second derivative is taken.
    pub(crate) again: Again,
    /// The inputs that it needs as they were before the call.
    pub(crate) copied: Vec<bool>,
    /// The results that eager's graph saves and the backward program does not read.
    pub(crate) counted: Vec<Counted>,
    pub(crate) second: Found<Second>,
}

#[pymethods]
impl TrainingCallable {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(slf: &Bound<'py, Self>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let (native, undoable) = (&this.native, take_offer());
        let eager = || native.eager.bind(py).call1(args.clone());
        if native.is_for_eager(py)? || is_watched(py)? {
            return eager();
        }
        let crossing = Crossing::get(py)?;
        let Some(numbers) = native.numbers(args)? else { return eager() };
        let operands = native.operands(args)?;
        let (handles, sizes) = native.unpack(py, crossing, &operands, &numbers)?;
        if let Some(done) = native.refused(args, &sizes, undoable)? {
            return Ok(done);
        }
        if !native.may_run(&handles) {
            return eager();
        }
        let mut numbers = numbers.iter();
        let mut inputs: Vec<Bound<'py, PyAny>> = Vec::with_capacity(args.len());
        let mut others = Vec::new();
        for (slot, arg) in native.slots.iter().zip(operands.iter()) {
            match slot {
                Slot::Tensor => inputs.push(arg),
                Slot::Number(_) => {
                    let number = numbers.next().map(|number| crossing.wrap(py, number.as_ref())).transpose()?;
                    inputs.extend(number);
                }
                Slot::Ignored => others.push(arg),
                Slot::Size => {}
            }
        }
        inputs.extend(native.constants.iter().map(|c| c.bind(py).clone()));
        // Where a result requires grad, grad was on when it was computed; what was on before belongs to other results.
        let outcome = {
            let _mode = GradMode::set(true)?;
            let results = Self::apply(slf, &sizes, others, &inputs);
            results.and_then(|results| this.pack(py, &native.outputs, args, &inputs, &results, &sizes))
        };
        match outcome {
            Err(error) if error.is_instance_of::<Served>(py) => {
                type Why<'py> = (String, String, Option<Bound<'py, PyAny>>);
                let (why, location, own): Why<'py> = error.value(py).getattr(intern!(py, "args"))?.extract()?;
                let undone = undone(own.map(PyErr::from_value));
                if undoable {
                    return Err(undone);
                }
                let done = native.serve_by_eager(py, &why, &location, args).map(Obj::from);
                instead(&undone, done).map(|object| object.bind().clone())
            }
            outcome => outcome,
        }
    }

    /// Runs the forward program: the results, what is to be saved, and the results that no gradient is asked for.
    fn forward<'py>(
        &self,
        py: Python<'py>,
        sizes: Vec<i64>,
        inputs: &Bound<'py, PyTuple>,
    ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyList>, Bound<'py, PyList>)> {
        let crossing = Crossing::get(py)?;
        let handles = unwrap_all(crossing, inputs.iter_borrowed().map(|i| i.to_owned()))?;
        let handles: Vec<TensorRef<'_>> = handles.iter().map(|(_, handle)| *handle).collect();
        let rewind = Rewind::new(py, self.native.rewinds)?;
        let tensors = match py.detach(|| self.native.program.run(&handles, &sizes)) {
            Ok(tensors) => tensors,
            Err(error) => {
                self.native.leave_to_eager_without_kernels(&self.native.program);
                return Err(self.failed(py, judge(py, rewind.undo(error)?))?);
            }
        };
        let wrapped: Vec<Bound<'py, PyAny>> =
            tensors.iter().map(|tensor| crossing.wrap(py, tensor.as_ref())).collect::<PyResult<_>>()?;
        let saved = PyList::empty(py);
        for source in &self.backward.sources {
            match source {
                Source::Saved(n) => saved.append(&wrapped[self.results + *n as usize])?,
                Source::Input(n) => saved.append(inputs.get_item(*n as usize)?)?,
                Source::Output(n) => saved.append(&wrapped[*n as usize])?,
                Source::Gradient(_) => {}
            }
        }
        let results = &wrapped[..self.results];
        let plain = results.iter().zip(&self.gradients.outputs).filter(|(_, grad)| !**grad).map(|(result, _)| result);
        Ok((PyTuple::new(py, results)?, saved, PyList::new(py, plain)?))
    }

    /// The gradients of all inputs, None where nothing flows. `ctx` is the autograd function's.
    /// `following` says what autograd goes on with behind each input.
    fn backward<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        grads: &Bound<'py, PyTuple>,
        following: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = ctx.py();
        let choice = self.backward.choice(grads, following)?;
        if is_batched(grads)? {
            return PyTuple::new(py, self.by_eager_alone(ctx, grads, &choice)?);
        }
        let sizes: Vec<i64> = ctx.getattr(intern!(py, "sizes"))?.extract()?;
        let saved = self.saved(ctx, &choice)?;
        // From here on what other passes do not need is held here alone, and the program lets go of it piece by piece.
        self.let_go(ctx, Pass { choice: choice.clone(), end: 0 }, &saved)?;
        let gradients = self.backward.run(py, self, &sizes, saved, grads, &choice)?;
        self.forget_code();
        Ok(gradients)
    }

    /// The inputs for a second derivative, and what tells whether somebody has written to them; None where they are not kept.
    fn keep<'py>(&self, inputs: &Bound<'py, PyTuple>) -> PyResult<Option<Kept<'py>>> {
        self.keep_inputs(inputs)
    }

    /// How often they were written until now.
    fn versions(&self, seen: &Bound<'_, PyTuple>) -> PyResult<Vec<Option<i64>>> {
        seen.iter().map(|tensor| version_of(&tensor)).collect()
    }

    /// What counts writes to those results that eager alone has saved.
    fn count<'py>(&self, results: &Bound<'py, PyTuple>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.counters(results)
    }

    /// The moment of now among the writes that torch does not count.
    #[getter]
    fn moment(&self) -> i64 {
        unheard::now()
    }

    /// A gradient has come to a result that is a node by itself. `ctx` is the call's.
    fn arrive(&self, ctx: &Bound<'_, PyAny>, result: usize, grad: Bound<'_, PyAny>) -> PyResult<()> {
        self.arrive_at(ctx, result, grad)
    }

    /// The gradients of inputs that are a node by themselves.
    fn leave(&self, ctx: &Bound<'_, PyAny>, gate: usize) -> PyResult<Vec<Py<PyAny>>> {
        let gradients = self.leave_by(ctx, gate)?;
        self.forget_code();
        Ok(gradients)
    }

    /// Whether several results with gradients may be one node.
    #[getter]
    fn shares(&self) -> bool {
        self.gradients.outputs.iter().filter(|wanted| **wanted).count() > 1
    }

    /// Whether it could be computed again: then its inputs are kept for a second derivative.
    #[getter]
    fn repeatable(&self) -> bool {
        self.again != Again::Never
    }

    /// Whether random numbers may be drawn that would then be drawn again.
    #[getter]
    fn draws(&self) -> bool {
        self.again != Again::Never && has_effects(&self.native.graph)
    }

    /// The gradients of all inputs as functions of them, for a second derivative.
    fn again<'py>(
        &self,
        ctx: &Bound<'py, PyAny>,
        grads: &Bound<'py, PyTuple>,
        following: &Bound<'py, PyTuple>,
    ) -> PyResult<Vec<Option<Bound<'py, PyAny>>>> {
        self.differentiably(ctx, grads, &self.backward.choice(grads, following)?)
    }

    fn __repr__(&self) -> String {
        let plan = self.native.program.plan();
        format!("<oxytorch graph with gradients: {} inputs, {} steps>", self.native.graph.inputs.len(), plan.steps.len())
    }
}

/// Backward passes of a graph behind which code is forgotten: the next calls take shorter ways.
const SETTLING: u32 = 3;

impl TrainingCallable {
    /// The optimizer comes next, with which the process is at its largest: what captured and planned the graph and ran the first passes is not needed.
    fn forget_code(&self) {
        if self.backward.passes.load(Relaxed) < SETTLING && self.backward.passes.fetch_add(1, Relaxed) < SETTLING {
            ox_driver::forget_code();
        }
    }

    /// The results of the autograd function. `others` are the arguments that the program does not take, for eager.
    fn apply<'py>(
        slf: &Bound<'py, Self>,
        sizes: &[i64],
        others: Vec<Bound<'py, PyAny>>,
        inputs: &[Bound<'py, PyAny>],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (py, this) = (slf.py(), slf.get());
        let (sizes, others) = (PyTuple::new(py, sizes)?, PyTuple::new(py, others)?);
        if this.is_parted(inputs)? {
            return Self::apply_in_parts(slf, sizes, others, inputs);
        }
        let nothing = py.None().into_bound(py);
        let mut call = vec![slf.clone().into_any(), sizes.into_any(), others.into_any(), nothing.clone(), nothing];
        for (place, input) in inputs.iter().enumerate() {
            call.push(match this.gradients.inputs[place] && !this.backward.is_reached(place) {
                // autograd would walk on behind it, to a graph that may be gone.
                true => input.call_method0(intern!(py, "detach"))?,
                false => input.clone(),
            });
        }
        Ok(autograd_function(py)?.call1(PyTuple::new(py, call)?)?.cast_into()?)
    }

    /// The arguments of the eager computation, with other tensors in them; `sizes` and `others` are the call's.
    fn arguments<'py>(
        &self,
        py: Python<'py>,
        sizes: Vec<i64>,
        others: &Bound<'py, PyTuple>,
        inputs: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (mut tensors, mut sizes, mut others) = (inputs.iter(), sizes.into_iter(), others.iter());
        let mut args = Vec::new();
        for slot in &self.native.slots {
            args.push(match slot {
                Slot::Tensor => tensors.next().ok_or_else(|| PyRuntimeError::new_err("too few tensors"))?,
                Slot::Number(_) => {
                    let number = tensors.next().ok_or_else(|| PyRuntimeError::new_err("too few tensors"))?;
                    number.call_method0("item")?
                }
                Slot::Size => sizes.next().unwrap_or_default().into_pyobject(py)?.into_any(),
                Slot::Ignored => others.next().ok_or_else(|| PyRuntimeError::new_err("too few arguments"))?,
            });
        }
        PyTuple::new(py, args)
    }

    /// From what eager returns, the results that the autograd function has, in their order.
    fn roots<'py>(&self, py: Python<'py>, returned: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let mut found: Vec<Option<Bound<'py, PyAny>>> = vec![None; self.results];
        self.collect(&self.native.outputs, returned, &mut found)?;
        PyList::new(py, found)
    }

    /// The exception for a failed run.
    fn failed(&self, py: Python<'_>, verdict: Verdict) -> PyResult<PyErr> {
        Ok(match verdict {
            Verdict::Raise(error) => error,
            Verdict::Mistake(error, _) if !self.native.may_ask_eager() => error,
            Verdict::Mistake(error, location) if error.is_instance_of::<PyZeroDivisionError>(py) => {
                served("", &location, Some(error))
            }
            Verdict::Mistake(error, location) => served(&error.to_string(), &location, None),
            Verdict::Eager { why, location } => served(&why, &location, None),
            Verdict::NoMemory { bytes, device } => served(&no_memory(bytes, device), "", None),
            Verdict::Bug(message) => {
                self.native.give_up(py, &message)?;
                served("", "", None)
            }
            Verdict::LateBug(message) => {
                self.native.give_up(py, &message)?;
                InternalError::new_err(format!("oxytorch: internal error: {message}"))
            }
        })
    }

    fn pack<'py>(
        &self,
        py: Python<'py>,
        tree: &OutTree,
        args: &Bound<'py, PyTuple>,
        inputs: &[Bound<'py, PyAny>],
        results: &Bound<'py, PyTuple>,
        sizes: &Sizes,
    ) -> PyResult<Bound<'py, PyAny>> {
        let all = |items: &[OutTree]| -> PyResult<Vec<Bound<'py, PyAny>>> {
            items.iter().map(|item| self.pack(py, item, args, inputs, results, sizes)).collect()
        };
        Ok(match tree {
            OutTree::Tensor(n) | OutTree::Detached(n) | OutTree::Data(n) | OutTree::Quiet(n) | OutTree::Tracked(n) => {
                match &self.views.places[*n] {
                    Place::Result(n) => results.get_item(*n)?,
                    Place::View(view) => {
                        let whole = Whole { inputs, results, size: &|sym| self.native.size(sym, sizes) };
                        match tree {
                            OutTree::Detached(_) => view.make(py, &whole)?.call_method0(intern!(py, "detach"))?,
                            OutTree::Data(_) => view.make(py, &whole)?.getattr(intern!(py, "data"))?,
                            OutTree::Quiet(_) => view.make_without_grad(&whole)?,
                            _ => view.make(py, &whole)?,
                        }
                    }
                }
            }
            OutTree::Argument(n) => args.get_item(*n)?,
            OutTree::Constant(n) => self.native.constants[*n].bind(py).clone(),
            OutTree::Size(sym) => self.native.size(sym, sizes)?.into_pyobject(py)?.into_any(),
            OutTree::Object(object) => object.bind(py).clone(),
            OutTree::Tuple(children) => PyTuple::new(py, all(children)?)?.into_any(),
            OutTree::List(children) => PyList::new(py, all(children)?)?.into_any(),
        })
    }

    fn collect<'py>(&self, tree: &OutTree, object: &Bound<'py, PyAny>, found: &mut [Option<Bound<'py, PyAny>>]) -> PyResult<()> {
        match tree {
            OutTree::Tensor(n) | OutTree::Detached(n) | OutTree::Data(n) | OutTree::Quiet(n) | OutTree::Tracked(n) => {
                if let Place::Result(n) = self.views.places[*n] {
                    found[n] = Some(object.clone());
                }
            }
            OutTree::Tuple(children) | OutTree::List(children) => {
                for (n, child) in children.iter().enumerate() {
                    self.collect(child, &object.get_item(n)?, found)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Handles with the objects that keep them alive.
fn unwrap_all<'a, 'py>(
    crossing: &Crossing,
    objects: impl Iterator<Item = Bound<'py, PyAny>>,
) -> PyResult<Vec<(Bound<'py, PyAny>, TensorRef<'a>)>> {
    objects
        .map(|object| {
            // SAFETY: the object is kept beside the handle.
            let handle = unsafe { crossing.unwrap(&object)? };
            Ok((object, handle))
        })
        .collect()
}

/// `oxytorch._training.CompiledFunction.apply`
fn autograd_function(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static APPLY: Found<Py<PyAny>> = Found::new();
    let apply = APPLY
        .or_try_find(|| -> PyResult<Py<PyAny>> { Ok(autograd(py)?.getattr("CompiledFunction")?.getattr("apply")?.unbind()) })?;
    Ok(apply.bind(py))
}

fn autograd(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import(intern!(py, "oxytorch._training"))
}
