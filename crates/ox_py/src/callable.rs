//! `NativeCallable`: what Dynamo calls in place of the graph that it captured.

use crate::error::{Verdict, at_location, judge, no_memory, report_bug, warn_once};
use crate::fx::{OutTree, Pinned, Slot};
use crate::limits::Limits;
use crate::rewind::Rewind;
use crate::tensor::Crossing;
use crate::unheard;
use ox_capture::Found;
use ox_capture::{GradMode, InternalError, Obj, instead, take_offer, undone};
use ox_driver::{Program, Race};
use ox_ir::plan::{Place, WriteBack};
use ox_ir::{DType, Graph, Sym, Var};
use ox_ops::are_apart;
use ox_runtime::{RunError, Tensor, TensorRef};
use pyo3::exceptions::{PyOverflowError, PyRuntimeError, PyTypeError, PyZeroDivisionError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use smallvec::SmallVec;
use std::fmt::Display;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) type Handles<'a> = SmallVec<[TensorRef<'a>; 32]>;
pub(crate) type Sizes = SmallVec<[i64; 8]>;
type Numbers = SmallVec<[Tensor; 8]>;

#[pyclass(frozen, module = "oxytorch._oxytorch")]
pub struct NativeCallable {
    pub(crate) program: Program,
    /// Its nodes are kept for derivatives only: they are a megabyte in a UNet.
    pub(crate) graph: Graph,
    /// Shown if the run finds a bug, where the nodes are gone.
    pub(crate) text: Option<Box<str>>,
    pub(crate) on_cpu: bool,
    pub(crate) slots: Vec<Slot>,
    pub(crate) constants: Vec<Py<PyAny>>,
    pub(crate) outputs: OutTree,
    /// The same computation, done by torch.
    pub(crate) eager: Py<PyAny>,
    /// A bug was found, or eager is faster: eager does it from now on.
    pub(crate) broken: AtomicBool,
    pub(crate) pinned: Vec<Pinned>,
    pub(crate) limits: Limits,
    pub(crate) race: Race,
    /// Whether a run that fails may have drawn a seed before.
    pub(crate) rewinds: bool,
    /// The arguments that it writes without autograd's counting it.
    pub(crate) unheard: Vec<usize>,
}

#[pymethods]
impl NativeCallable {
    #[pyo3(signature = (*args))]
    pub(crate) fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        if self.race.is_open() { self.call_and_race(py, args) } else { self.serve(py, args) }
    }

    fn __repr__(&self) -> String {
        let plan = self.program.plan();
        format!(
            "<oxytorch graph: {} inputs, {} steps, {} kernels>",
            self.graph.inputs.len(),
            plan.steps.len(),
            plan.kernels.len()
        )
    }
}

impl NativeCallable {
    pub(crate) fn serve<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let undoable = take_offer();
        if self.is_for_eager(py)? {
            return self.eager.bind(py).call1(args.clone());
        }
        let crossing = Crossing::get(py)?;
        let Some(numbers) = self.numbers(args)? else { return self.eager.bind(py).call1(args.clone()) };
        let operands = self.operands(args)?;
        let (handles, sizes) = self.unpack(py, crossing, &operands, &numbers)?;
        if let Some(done) = self.refused(args, &sizes, undoable)? {
            return Ok(done);
        }
        if !self.may_run(&handles) {
            return self.eager.bind(py).call1(args.clone());
        }
        if !self.tell_of_writes(py, &operands)? {
            return self.eager.bind(py).call1(args.clone());
        }
        let rewind = Rewind::new(py, self.rewinds)?;
        match py.detach(|| self.program.run(&handles, &sizes)) {
            Ok(tensors) => {
                let given = |n: usize| args.get_item(n);
                self.pack(py, crossing, &self.outputs, &given, &tensors, &sizes)
            }
            Err(error) => self.recover(py, rewind.undo(error)?, args, undoable),
        }
    }

    /// What the program is called with: the `.data` of arguments whose versions stay, which has a version of its own.
    pub(crate) fn operands<'py>(&self, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        if self.unheard.is_empty() {
            return Ok(args.clone());
        }
        let mut operands: Vec<Bound<'py, PyAny>> = args.iter().collect();
        for place in &self.unheard {
            unheard::note(&operands[*place])?;
            operands[*place] = operands[*place].getattr(intern!(args.py(), "data"))?;
        }
        PyTuple::new(args.py(), operands)
    }

    /// Whether the program cannot serve a call: a bug was found in it, or forward derivatives are taken, which it does not know.
    pub(crate) fn is_for_eager(&self, py: Python<'_>) -> PyResult<bool> {
        static FORWARD: Found<Py<PyModule>> = Found::new();
        if self.broken.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let import = || py.import("torch.autograd.forward_ad").map(Bound::unbind);
        let level = FORWARD.or_try_find(import)?.bind(py).getattr(intern!(py, "_current_level"))?;
        Ok(level.extract::<isize>()? >= 0)
    }

    /// Counts up the versions of the inputs that kernels write in place, for autograd, which must notice. False if eager refuses to write one: tensors
    /// that were made in inference mode are not written outside of it.
    fn tell_of_writes(&self, py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<bool> {
        let plan = self.program.plan();
        let is_own = |write: &&WriteBack| plan.buffers[write.from.buf.index()].place == Place::Input(write.input);
        let mut written = plan.write_backs.iter().filter(is_own).map(|write| write.input as usize).peekable();
        if written.peek().is_none() {
            return Ok(true);
        }
        let passed: Vec<usize> =
            (0..self.slots.len()).filter(|n| self.slots[*n] != Slot::Ignored && self.slots[*n] != Slot::Size).collect();
        let tensors = PyList::empty(py);
        for input in written {
            match passed.get(input) {
                Some(n) => tensors.append(args.get_borrowed_item(*n)?)?,
                None => tensors.append(&self.constants[input - passed.len()])?,
            }
        }
        let torch = py.import(intern!(py, "torch._C"))?;
        let is_of_inference = |tensor: Bound<'_, PyAny>| tensor.call_method0(intern!(py, "is_inference"))?.is_truthy();
        let refused = tensors.iter().map(is_of_inference).collect::<PyResult<Vec<bool>>>()?.contains(&true);
        if refused && !torch.call_method0(intern!(py, "is_inference_mode_enabled"))?.is_truthy()? {
            return Ok(false);
        }
        torch.call_method1(intern!(py, "_increment_version"), (tensors,))?;
        Ok(true)
    }

    /// Tensors for the numbers among the arguments.
    /// None if an int is too large for a tensor.
    pub(crate) fn numbers(&self, args: &Bound<'_, PyTuple>) -> PyResult<Option<Numbers>> {
        let failed = |error: ox_runtime::RunError| PyRuntimeError::new_err(format!("oxytorch: {error}"));
        let mut numbers = Numbers::new();
        for (slot, arg) in self.slots.iter().zip(args.iter_borrowed()) {
            let Slot::Number(dtype) = slot else { continue };
            let bits = match dtype {
                DType::F64 => arg.extract::<f64>()?.to_bits(),
                _ => match arg.extract::<i64>() {
                    Ok(number) => number as u64,
                    Err(error) if error.is_instance_of::<PyOverflowError>(args.py()) => return Ok(None),
                    Err(error) => return Err(error),
                },
            };
            numbers.push(Tensor::number(bits, *dtype).map_err(failed)?);
        }
        Ok(Some(numbers))
    }

    pub(crate) fn unpack<'a>(
        &'a self,
        py: Python<'_>,
        crossing: &Crossing,
        args: &'a Bound<'_, PyTuple>,
        numbers: &'a [Tensor],
    ) -> PyResult<(Handles<'a>, Sizes)> {
        if args.len() != self.slots.len() {
            return Err(PyTypeError::new_err(format!("the graph takes {} arguments, not {}", self.slots.len(), args.len())));
        }
        let (mut handles, mut sizes) = (Handles::new(), Sizes::new());
        let mut numbers = numbers.iter();
        for (slot, arg) in self.slots.iter().zip(args.iter_borrowed()) {
            match slot {
                // SAFETY: `args` holds a reference to the object for 'a.
                Slot::Tensor => handles.push(unsafe { crossing.unwrap(&arg)? }),
                Slot::Number(_) => handles.extend(numbers.next().map(Tensor::as_ref)),
                Slot::Size => sizes.push(arg.extract()?),
                Slot::Ignored => {}
            }
        }
        for constant in &self.constants {
            // SAFETY: `self` holds a reference to the object for 'a.
            handles.push(unsafe { crossing.unwrap(constant.bind(py))? });
        }
        Ok((handles, sizes))
    }

    /// A run has failed: the program does the work, where the caller can make it do so, or else eager does the call, if that is allowed.
    pub(crate) fn recover<'py>(
        &self,
        py: Python<'py>,
        error: RunError,
        args: &Bound<'py, PyTuple>,
        undoable: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.leave_to_eager_without_kernels(&self.program);
        match judge(py, error) {
            Verdict::Raise(error) => Err(error),
            Verdict::Mistake(error, _) if !self.may_ask_eager() => Err(error),
            Verdict::Mistake(error, location) if error.is_instance_of::<PyZeroDivisionError>(py) => {
                let undone = undone(Some(error));
                if undoable {
                    return Err(undone);
                }
                // What stands before it is done.
                let done = self.serve_by_eager(py, "", &location, args).map(Obj::from);
                instead(&undone, done).map(|object| object.bind().clone())
            }
            Verdict::Mistake(..) if undoable => Err(undone(None)),
            Verdict::Eager { location, .. } if undoable && !location.is_empty() => Err(undone(None)),
            Verdict::Mistake(error, location) => self.serve_by_eager(py, &error.to_string(), &location, args),
            Verdict::Eager { why, location } => self.serve_by_eager(py, &why, &location, args),
            Verdict::NoMemory { bytes, device } => self.serve_by_eager(py, &no_memory(bytes, device), "", args),
            Verdict::Bug(message) => {
                self.give_up(py, &message)?;
                self.eager.bind(py).call1(args.clone())
            }
            Verdict::LateBug(message) => {
                self.give_up(py, &message)?;
                Err(InternalError::new_err(format!("oxytorch: internal error: {message}")))
            }
        }
    }

    /// A run of one of its programs has failed. If that was for want of a kernel, the next would fail, too: eager does it from now on.
    pub(crate) fn leave_to_eager_without_kernels(&self, program: &Program) {
        if program.lacks_kernels() {
            self.broken.store(true, Ordering::Relaxed);
        }
    }

    /// On a GPU an index out of range ends eager's use of the device.
    pub(crate) fn may_ask_eager(&self) -> bool {
        self.on_cpu
    }

    /// Mostly eager raises here, in its own words. Where it does not, the user should know who did the work, unless it was said already.
    pub(crate) fn serve_by_eager<'py>(
        &self,
        py: Python<'py>,
        why: &str,
        location: &str,
        args: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let at_user_s_line = |error: PyErr| {
            if !location.is_empty() {
                // The lines of the graph's code say nothing to the user.
                error.set_traceback(py, None);
            }
            at_location(error, location)
        };
        let result = self.eager.bind(py).call1(args.clone()).map_err(at_user_s_line)?;
        if !why.is_empty() {
            warn_once(py, &format!("oxytorch: a call was served by eager: {why}"))?;
        }
        Ok(result)
    }

    pub(crate) fn give_up(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        self.broken.store(true, Ordering::Relaxed);
        let graph: &dyn Display = self.text.as_ref().map_or(&self.graph, |text| text);
        report_bug(py, message, &[("graph", graph), ("plan", self.program.plan())])
    }

    /// Whether the code is right for where these inputs lie in memory.
    pub(crate) fn may_run(&self, handles: &Handles<'_>) -> bool {
        !self.writes_shared_memory(handles) && self.pinned.iter().all(|pinned| is_at(handles, pinned))
    }

    /// An input that the graph writes overlaps another in memory or itself, or may: the graph was captured for separate elements.
    fn writes_shared_memory(&self, handles: &Handles<'_>) -> bool {
        if self.graph.mutations.is_empty() {
            return false;
        }
        let Some(extents) = handles.iter().map(extent).collect::<Option<SmallVec<[_; 32]>>>() else { return true };
        let is_folded = |tensor: &TensorRef<'_>| {
            !tensor.sizes().is_ok_and(|sizes| tensor.strides().is_ok_and(|strides| are_apart(sizes, strides)))
        };
        let written: SmallVec<[usize; 32]> = self.graph.mutations.iter().map(|mutation| mutation.input as usize).collect();
        written.iter().any(|n| is_folded(&handles[*n])) || overlap(&extents, &written)
    }

    pub(crate) fn pack<'py>(
        &self,
        py: Python<'py>,
        crossing: &Crossing,
        tree: &OutTree,
        given: &dyn Fn(usize) -> PyResult<Bound<'py, PyAny>>,
        tensors: &[Tensor],
        sizes: &[i64],
    ) -> PyResult<Bound<'py, PyAny>> {
        let items = |items: &[OutTree]| -> PyResult<Vec<Bound<'py, PyAny>>> {
            items.iter().map(|item| self.pack(py, crossing, item, given, tensors, sizes)).collect()
        };
        Ok(match tree {
            OutTree::Detached(n) if self.graph.outputs[*n].alias.is_some() => {
                crossing.wrap(py, tensors[*n].as_ref())?.call_method0(intern!(py, "detach"))?
            }
            OutTree::Data(n) if self.graph.outputs[*n].alias.is_some() => {
                crossing.wrap(py, tensors[*n].as_ref())?.getattr(intern!(py, "data"))?
            }
            OutTree::Quiet(n) if self.graph.outputs[*n].alias.is_some() => {
                made_in(false, crossing.wrap(py, tensors[*n].as_ref())?)?
            }
            OutTree::Tracked(n) if self.graph.outputs[*n].alias.is_some() => {
                made_in(true, crossing.wrap(py, tensors[*n].as_ref())?)?
            }
            OutTree::Tensor(n) | OutTree::Detached(n) | OutTree::Data(n) | OutTree::Quiet(n) | OutTree::Tracked(n) => {
                crossing.wrap(py, tensors[*n].as_ref())?
            }
            OutTree::Argument(n) => given(*n)?,
            OutTree::Constant(n) => self.constants[*n].bind(py).clone(),
            OutTree::Size(sym) => self.size(sym, sizes)?.into_pyobject(py)?.into_any(),
            OutTree::Object(object) => object.bind(py).clone(),
            OutTree::Tuple(children) => PyTuple::new(py, items(children)?)?.into_any(),
            OutTree::List(children) => PyList::new(py, items(children)?)?.into_any(),
        })
    }

    pub(crate) fn size(&self, sym: &Sym, sizes: &[i64]) -> PyResult<i64> {
        let value = |var: &Var| self.graph.sizes.iter().position(|known| known == var).map(|n| sizes[n]);
        sym.eval(&value).ok_or_else(|| PyOverflowError::new_err(format!("the size {sym} cannot be computed")))
    }
}

/// The same view of the same base, as if it had been made with or without grad.
fn made_in(mode: bool, view: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = view.py();
    let base = view.getattr(intern!(py, "_base"))?;
    if base.is_none() {
        return Ok(view);
    }
    let _mode = GradMode::set(mode)?;
    let of_view = |name| view.call_method0(name);
    let layout = (of_view(intern!(py, "size"))?, of_view(intern!(py, "stride"))?, of_view(intern!(py, "storage_offset"))?);
    base.call_method1(intern!(py, "as_strided"), layout)
}

fn is_at(handles: &Handles<'_>, pinned: &Pinned) -> bool {
    handles[pinned.input].storage_offset().is_ok_and(|offset| offset == pinned.offset)
}

/// Whether one of the written ranges meets any other. Walks them in the order of their beginnings.
fn overlap(extents: &[Range<usize>], written: &[usize]) -> bool {
    let mut ranges: SmallVec<[(usize, usize, bool); 32]> = extents.iter().map(|range| (range.start, range.end, false)).collect();
    written.iter().for_each(|n| ranges[*n].2 = true);
    ranges.retain(|(start, end, _)| start < end);
    ranges.sort_unstable();
    let (mut end_of_all, mut end_of_written) = (0, 0);
    for (start, end, is_written) in ranges {
        if start < end_of_written || (is_written && start < end_of_all) {
            return true;
        }
        end_of_all = end_of_all.max(end);
        if is_written {
            end_of_written = end_of_written.max(end);
        }
    }
    false
}

/// The bytes that a tensor spans; none of them if it has no elements. `None` if torch does not tell.
fn extent(tensor: &TensorRef<'_>) -> Option<Range<usize>> {
    let (sizes, strides) = (tensor.sizes().ok()?, tensor.strides().ok()?);
    if sizes.contains(&0) {
        return Some(0..0);
    }
    let last: i64 = sizes.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum();
    let start = tensor.data_ptr().ok()? as usize;
    Some(start..start + (last as usize + 1) * tensor.dtype().ok()??.size())
}

#[cfg(test)]
mod tests {
    use super::overlap;

    #[test]
    fn only_ranges_of_which_one_is_written_may_not_meet() {
        let ranges = [0..4, 4..8, 6..9, 20..20, 20..24];
        assert!(!overlap(&ranges, &[0]));
        assert!(overlap(&ranges, &[1]));
        assert!(overlap(&ranges, &[2]));
        assert!(!overlap(&ranges, &[3, 4]));
        assert!(overlap(&[0..9, 1..2, 3..4], &[2]));
        assert!(overlap(&[0..9, 1..2, 3..4], &[0]));
        assert!(!overlap(&[0..9, 1..2, 3..4], &[]));
    }
}
