//! Import under autograd. A Graph has one word for where gradients end: `Detach`. It is put behind every result that depends on
//! something that requires grad but does not require it itself, be it because of the grad mode, a `detach`, or the function.

use super::call::Request;
use super::detached::is_detach;
use super::held::each_node;
use super::importer::Importer;
use super::refusal::{Import, Refusal};
use ox_ir::graph::{Graph, NodeId, Op};
use ox_ir::{DType, Device, PointOp, Scalar};
use ox_ops::{Fact, FrontValue, OpError, TensorRef, ValueOf};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::{FxHashMap, FxHashSet};

/// Why a view has no gradient of what it shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Apart {
    /// `detach`: autograd knows of no view, but counts writes to it.
    Detached,
    /// `.data`: it does not even count them.
    Data,
    /// Made without grad: a view in autograd's eyes, but gradients do not pass.
    Quiet,
    /// Made with grad in a graph that is called without: a view as any.
    Tracked,
}

/// What is known of gradients while a graph is imported.
#[derive(Default)]
pub(super) struct Grad {
    /// The grad mode at this place of the graph.
    pub enabled: bool,
    /// That in which the whole graph is called.
    pub ambient: bool,
    /// Nobody asks for gradients.
    ignored: bool,
    /// The FX node that is being read.
    pub place: usize,
    /// Whether the n-th tensor input requires grad.
    pub inputs: Vec<bool>,
    /// For each node of the Graph whether a gradient would flow through it to an input.
    flows: Vec<bool>,
    /// For each node of the Graph the place of the FX node that it was made for.
    pub origins: Vec<u32>,
    pub apart: FxHashMap<TensorRef, Apart>,
}

/// A tensor with a gradient that is about to be written.
pub(super) struct Before {
    tensor: TensorRef,
    value: NodeId,
    /// Of all the memory that it lies in.
    whole: NodeId,
}

impl Grad {
    pub fn ambient(py: Python<'_>) -> PyResult<Grad> {
        let enabled = py.import(intern!(py, "torch"))?.call_method0(intern!(py, "is_grad_enabled"))?.is_truthy()?;
        Ok(Grad { enabled, ambient: enabled, ..Grad::default() })
    }

    pub fn ignored() -> Grad {
        Grad { ignored: true, ..Grad::default() }
    }

    fn catch_up(&mut self, graph: &Graph) {
        for id in graph.ids().skip(self.flows.len()) {
            let node = graph.node(id);
            let from_args = || node.args.iter().any(|arg| self.flows[arg.index()]);
            let flows = match &node.op {
                Op::Input(n) => self.inputs.get(*n as usize).copied().unwrap_or(false),
                Op::Detach => false,
                // Its type is that of its first result.
                Op::Library(_) => from_args(),
                _ => (node.ty.dtype.is_float() || node.ty.dtype.is_complex()) && from_args(),
            };
            self.flows.push(flows);
        }
    }

    pub fn flows(&mut self, graph: &Graph, node: NodeId) -> bool {
        self.catch_up(graph);
        self.flows[node.index()]
    }
}

impl<'py> Importer<'py> {
    /// `torch._C._set_grad_enabled(mode)`
    pub(super) fn set_grad_mode(&mut self, args: &[FrontValue]) {
        if let [ValueOf::Bool(enabled)] = args {
            self.grad.enabled = *enabled;
        }
    }

    /// Whether a placeholder's tensor required grad when it came in: the example may have been written since.
    pub(super) fn input_requires_grad(
        &self,
        node: &Bound<'py, PyAny>,
        examples: &Bound<'py, PyAny>,
        argument: usize,
    ) -> Import<bool> {
        if self.grad.ignored {
            return Ok(false);
        }
        if let Some(noted) = self.noted_grad(node)? {
            return Ok(noted);
        }
        let example = match examples.get_item(argument) {
            Ok(example) => Some(example),
            Err(_) => self.meta(node)?,
        };
        let requires = example.map(|example| example.getattr_opt(intern!(self.py, "requires_grad"))).transpose()?.flatten();
        Ok(requires.is_some_and(|requires| requires.is_truthy().unwrap_or(false)))
    }

    /// What our own capture noted when the node was made.
    fn noted_grad(&self, node: &Bound<'py, PyAny>) -> Import<Option<bool>> {
        let meta = node.getattr(intern!(self.py, "meta"))?;
        let noted = meta.cast::<PyDict>()?.get_item(intern!(self.py, "requires_grad"))?;
        Ok(noted.map(|noted| noted.is_truthy()).transpose()?)
    }

    pub(super) fn flows(&mut self, tensor: TensorRef) -> Import<bool> {
        let node = self.recorder.read(tensor).map_err(unsupported)?;
        let graph = self.recorder.builder().graph();
        Ok(self.grad.flows(graph, node))
    }

    /// One of the tensors that a call is about to write may require grad. It must not be written without grad: in eager it would keep the
    /// gradient of what it held before. With grad an argument has another history behind it, which the caller sees: also where what is
    /// written needs no gradient.
    pub(super) fn before_write(&mut self, written: &[TensorRef]) -> Import<Vec<Before>> {
        let mut before = Vec::new();
        for tensor in written {
            if !self.flows(*tensor)? {
                continue;
            }
            if !self.grad.enabled {
                return Err(self.only_eager("a tensor that requires grad is written without grad"));
            }
            if self.is_of_argument(*tensor) {
                return Err(self.only_eager("an argument that requires grad is written"));
            }
            let value = self.recorder.read(*tensor).map_err(unsupported)?;
            before.push(Before { tensor: *tensor, value, whole: self.recorder.whole(*tensor) });
        }
        Ok(before)
    }

    /// What is overwritten as a whole has zeros for a gradient in eager, not none.
    pub(super) fn keep_histories(&mut self, before: Vec<Before>) -> Import<()> {
        for Before { tensor, value, whole } in before {
            let now = self.recorder.whole(tensor);
            if is_made_of(self.recorder.builder().graph(), now, whole) {
                continue;
            }
            let written = self.recorder.read(tensor).map_err(unsupported)?;
            let ty = self.recorder.ty(tensor).clone();
            if !ty.dtype.is_float() {
                continue;
            }
            let builder = self.recorder.builder();
            let never = builder.full(Scalar::Bool(false), DType::Bool, &ty.shape);
            let joined = builder.point(PointOp::Where, &[never, value, written]).map_err(unsupported)?;
            self.recorder.write(tensor, joined).map_err(unsupported)?;
        }
        Ok(())
    }

    fn is_of_argument(&self, tensor: TensorRef) -> bool {
        self.inputs.iter().any(|input| self.recorder.aliases(input.tensor, tensor))
    }

    /// What torch has no derivative of requires grad all the same, and raises when a gradient comes to it: torch does it, and says so.
    pub(super) fn ensure_derivative(&mut self, request: &Request<'py>) -> Import<()> {
        // The example of a quotient that is written in place may have been written since.
        let is_quotient = ["floor_divide", "floordiv"].iter().any(|name| request.name.name.contains(name));
        let has_none = || request.example.as_ref().map_or(Ok(false), has_no_derivative);
        if !self.grad.enabled || !(is_quotient || has_none()?) {
            return Ok(());
        }
        match self.any_flows(&request.tensors())? {
            true => Err(self.only_eager(&format!("{} has no derivative", request.name.name))),
            false => Ok(()),
        }
    }

    /// The attention that a GPU has a derivative of takes heads of a known width, and the best kernel two keys or more. Where sizes vary both are relied
    /// on as they were: nothing else says so.
    pub(super) fn rely_on_heads(&mut self, request: &Request<'py>) -> Import<()> {
        let tensors = request.tensors();
        let [_, key, _, ..] = tensors[..] else { return Ok(()) };
        if request.name.name != "scaled_dot_product_attention" || !self.grad.enabled {
            return Ok(());
        }
        let ty = self.recorder.ty(key).clone();
        let is_half = ty.dtype.is_float() && ty.dtype.size() == 2;
        let [.., keys, width] = &ty.shape[..] else { return Ok(()) };
        if ty.device == Device::Cpu || !is_half || !self.any_flows(&tensors)? {
            return Ok(());
        }
        if width.as_const().is_none() && self.known.hint(width).is_some() {
            return Err(Refusal::Fixed { sizes: width.vars().into_iter().collect(), why: self.location.clone() });
        }
        let is_open = keys.as_var().is_some_and(|var| var.lo() < 2) && self.known.hint(keys).is_some_and(|hint| hint > 1);
        match is_open {
            true => Err(Refusal::Undecided((Fact::AtLeast(keys.clone(), 2), self.location.clone()))),
            false => Ok(()),
        }
    }

    fn any_flows(&mut self, tensors: &[TensorRef]) -> Import<bool> {
        for tensor in tensors {
            if self.flows(*tensor)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Remembers which results of a call are views without a gradient, by themselves or because of what they were made of. `is_opaque`: they are views of the first
    /// argument, of which the recorder does not know.
    pub(super) fn note_apart(&mut self, name: &str, given: &[TensorRef], value: &FrontValue, is_opaque: bool) {
        for tensor in value.tensors() {
            let known = given.iter().find(|from| self.recorder.aliases(**from, tensor));
            let Some(from) = known.or(given.first().filter(|_| is_opaque)) else { continue };
            if given.contains(&tensor) {
                continue;
            }
            let known = self.grad.apart.get(from).copied();
            let apart = match name {
                "data" => Some(Apart::Data),
                // It shares the count of what it was made of.
                "detach" => known.filter(|known| *known == Apart::Data).or(Some(Apart::Detached)),
                _ => known.filter(|known| *known != Apart::Tracked).or(self.made_now()),
            };
            if let Some(apart) = apart {
                self.grad.apart.insert(tensor, apart);
            }
        }
    }

    /// What a view that is made at this place of the graph is to autograd.
    fn made_now(&self) -> Option<Apart> {
        match (self.grad.enabled, self.grad.ambient) {
            (false, _) => Some(Apart::Quiet),
            (true, false) => Some(Apart::Tracked),
            (true, true) => None,
        }
    }

    /// Ends gradients at the results of a call that do not require grad.
    pub(super) fn end_gradients(
        &mut self,
        request: &Request<'py>,
        written: &[TensorRef],
        value: FrontValue,
    ) -> Import<FrontValue> {
        for tensor in written {
            if !self.flows(*tensor)? {
                continue;
            }
            if self.grad.enabled {
                if self.is_of_argument(*tensor) {
                    return Err(self.only_eager("an argument is written with what requires grad"));
                }
            } else {
                let node = self.recorder.read(*tensor).map_err(unsupported)?;
                let cut = self.recorder.builder().detach(node).map_err(unsupported)?;
                self.recorder.write(*tensor, cut).map_err(unsupported)?;
            }
        }
        // The example of what was detached may have been written since.
        let noted = self.grad.enabled && self.noted_grad(&request.node)?.unwrap_or(true) && !is_detach(&request.node)?;
        self.cut(value, request.example.as_ref(), noted, &request.tensors())
    }

    fn cut(
        &mut self,
        value: FrontValue,
        example: Option<&Bound<'py, PyAny>>,
        noted: bool,
        given: &[TensorRef],
    ) -> Import<FrontValue> {
        match value {
            ValueOf::Tensor(tensor) => {
                let requires = match example {
                    Some(example) if noted => example.getattr(intern!(self.py, "requires_grad"))?.is_truthy()?,
                    Some(_) => false,
                    None => noted,
                };
                // What is written later may bring a gradient, which ends here, too.
                let ends_any = self.detached.beside.contains(&self.grad.place);
                if requires || given.contains(&tensor) || !(ends_any || self.flows(tensor)?) {
                    return Ok(ValueOf::Tensor(tensor));
                }
                Ok(ValueOf::Tensor(self.cut_tensor(tensor, given)?))
            }
            ValueOf::Tuple(items) => Ok(ValueOf::Tuple(self.cut_items(items, example, noted, given)?)),
            ValueOf::List(items) => Ok(ValueOf::List(self.cut_items(items, example, noted, given)?)),
            other => Ok(other),
        }
    }

    fn cut_items(
        &mut self,
        items: Vec<FrontValue>,
        example: Option<&Bound<'py, PyAny>>,
        noted: bool,
        given: &[TensorRef],
    ) -> Import<Vec<FrontValue>> {
        let mut out = Vec::with_capacity(items.len());
        for (n, item) in items.into_iter().enumerate() {
            let example = example.and_then(|e| e.get_item(n).ok());
            out.push(self.cut(item, example.as_ref(), noted, given)?);
        }
        Ok(out)
    }

    /// The same tensor without its gradient; it shares memory where the result shared some with an argument.
    fn cut_tensor(&mut self, tensor: TensorRef, given: &[TensorRef]) -> Import<TensorRef> {
        let node = self.recorder.read(tensor).map_err(unsupported)?;
        let cut = self.recorder.builder().detach(node).map_err(unsupported)?;
        let shares = given.iter().any(|arg| self.recorder.aliases(*arg, tensor));
        match shares && !self.detached.alone.contains(&self.grad.place) {
            true => self.recorder.view_of(tensor, cut).map_err(unsupported),
            false => Ok(self.recorder.fresh(cut)),
        }
    }

    /// Whether a tensor requires grad at the end of this graph, by eager's word. Where another piece has written it since with what requires grad, its
    /// example does so, too.
    pub(super) fn requires_grad_here(&self, node: &Bound<'py, PyAny>, tensor: TensorRef, example: bool) -> Import<bool> {
        if self.recorder.is_written(tensor) {
            return Ok(example);
        }
        let is_detached = matches!(self.grad.apart.get(&tensor), Some(Apart::Detached | Apart::Data));
        // What an earlier piece has written is taken to require grad if it ever does, and its views with it: a view without would be none to autograd.
        Ok(example && !is_detached && (self.is_of_argument(tensor) || self.noted_grad(node)?.unwrap_or(true)))
    }

    /// Whether an output requires grad, by eager's word and ours.
    pub(super) fn output_requires_grad(&mut self, tensor: TensorRef, eager: bool) -> Import<bool> {
        let flows = self.flows(tensor)?;
        // Eager says so of views of what requires grad, too.
        if self.grad.ignored || self.grad.apart.get(&tensor) == Some(&Apart::Quiet) {
            return Ok(false);
        }
        match (eager, flows) {
            (true, false) => Err(Refusal::unsupported("a result that requires grad by itself")),
            (eager, _) => Ok(eager),
        }
    }

    fn only_eager(&self, what: &str) -> Refusal {
        Refusal::Cut { place: self.grad.place, what: what.to_string() }
    }

    /// Whether a call is made with grad on something that requires it, and gives something that does.
    pub(super) fn is_training(&self, nodes: &[Bound<'py, PyAny>], examples: &Bound<'py, PyAny>) -> Import<bool> {
        let py = self.py;
        let (mut enabled, mut called, mut arguments, mut requires) = (self.grad.enabled, false, 0, false);
        for node in nodes {
            match node.getattr(intern!(py, "op"))?.extract::<&str>()? {
                "placeholder" => {
                    requires |= self.input_requires_grad(node, examples, arguments)?;
                    arguments += 1;
                }
                "get_attr" => {
                    requires |= self.meta(node)?.is_none_or(|e| e.hasattr(intern!(py, "requires_grad")).unwrap_or(true))
                }
                "output" => {}
                _ => match grad_mode(node)? {
                    Some(mode) => enabled = mode,
                    None => called |= enabled && self.may_require_grad(node)?,
                },
            }
        }
        Ok(called && requires)
    }

    /// Whether what a call gives may require grad. One that gives no tensor may write to some.
    fn may_require_grad(&self, node: &Bound<'py, PyAny>) -> Import<bool> {
        let gives_tensor = self.meta(node)?.is_some_and(|e| e.hasattr(intern!(self.py, "requires_grad")).unwrap_or(false));
        Ok(!gives_tensor || self.noted_grad(node)?.unwrap_or(true))
    }

    /// Graph nodes that have come since the last call belong to this FX node.
    pub(super) fn note_origin(&mut self, place: usize) {
        let count = self.recorder.builder().graph().nodes.len();
        self.grad.origins.resize(count, place as u32);
    }
}

/// Whether torch put a node in the place of a derivative that says that there is none.
fn has_no_derivative(example: &Bound<'_, PyAny>) -> PyResult<bool> {
    let mut found = false;
    each_node(example, &mut |made_by| {
        let name = made_by.call_method0(intern!(made_by.py(), "name"));
        found |= name.is_ok_and(|name| name.extract::<&str>().is_ok_and(|name| name.ends_with("NotImplemented")));
    })?;
    Ok(found)
}

/// The mode that the node sets, if that is what it does.
pub fn grad_mode(node: &Bound<'_, PyAny>) -> PyResult<Option<bool>> {
    let py = node.py();
    let target = node.getattr(intern!(py, "target"))?;
    let name = target.getattr_opt(intern!(py, "__name__"))?;
    if !name.is_some_and(|name| name.extract::<&str>().is_ok_and(|name| name == "_set_grad_enabled")) {
        return Ok(None);
    }
    Ok(Some(node.getattr(intern!(py, "args"))?.get_item(0)?.is_truthy()?))
}

/// Whether a value is computed of another.
fn is_made_of(graph: &Graph, value: NodeId, of: NodeId) -> bool {
    let mut stack = vec![value];
    let mut seen = FxHashSet::default();
    while let Some(id) = stack.pop() {
        if id == of {
            return true;
        }
        // What is made of a node stands behind it.
        let args = graph.node(id).args.iter().copied().filter(|arg| *arg >= of);
        stack.extend(args.filter(|arg| seen.insert(*arg)));
    }
    false
}

fn unsupported(error: OpError) -> Refusal {
    match error {
        OpError::Bug(text) => Refusal::Bug(text),
        other => Refusal::unsupported(other.to_string()),
    }
}
