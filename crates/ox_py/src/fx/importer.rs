//! FX graph to Graph: one walk over the nodes.

use super::autocast::Autocast;
use super::call::{Callee, Request};
use super::detached::Places;
use super::fake::{Fake, describe, lazy_bit, place};
use super::grad::Grad;
use super::names::{Name, Names};
use super::outputs::OutTree;
use super::refusal::{Import, Refusal};
use super::sizes::Known;
use super::stale::{RESHAPED_LATER, Stale};
use super::symint::Symbols;
use super::unheard::Heard;
use crate::host::HostTable;
use crate::limits::Limits;
use crate::report::PythonCall;
use crate::torch::Torch;
use ox_driver::Held;
use ox_ir::graph::{Graph, GraphInput, Shape};
use ox_ir::{DType, Device, Var};
use ox_ops::{FrontValue, Hints, Noted, Recorder, TensorRef, ValueOf};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat};
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// What one argument of the compiled callable is to the Graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// The next tensor input.
    Tensor,
    /// The next size.
    Size,
    /// The next tensor input: a Python number, in a tensor that is made for the call.
    Number(DType),
    /// Known when the graph was captured, and guarded: not passed on.
    Ignored,
}

/// A Graph, and what is needed to call what is made of it.
pub struct Imported {
    pub graph: Graph,
    pub slots: Vec<Slot>,
    /// Tensors of the module that are inputs of the Graph, behind those that are passed.
    pub constants: Vec<Py<PyAny>>,
    pub outputs: OutTree,
    pub host: HostTable,
    pub python_calls: Vec<PythonCall>,
    pub pinned: Vec<Pinned>,
    pub limits: Limits,
    /// By input: a parameter or buffer of a module.
    pub weights: Vec<bool>,
    pub gradients: Gradients,
    pub held: Held,
    /// In training, for each output which of them lie in memory that eager saves between its gradient and those of the arguments.
    pub saved_behind: Vec<Vec<bool>>,
    /// The arguments that are written, but so that autograd does not count it.
    pub unheard: Vec<usize>,
    /// Whether a result is a view that was made without grad, of what was written since. torch refuses to compute with it, which it knows by when the
    /// view was made.
    pub outdated: bool,
    /// What was relied on of the sizes of a captured graph.
    pub facts: Vec<Noted>,
    /// The sizes that vary, as they were.
    pub seen: Vec<(Var, i64)>,
}

/// How a result lies in memory.
#[derive(Clone, Debug)]
pub struct Layout {
    pub shape: Shape,
    pub strides: Shape,
}

impl Imported {
    /// Of the tensors that are returned in a row; None for constants of the module, which no size makes.
    pub fn layouts(&self) -> Vec<Option<Layout>> {
        let OutTree::Tuple(items) = &self.outputs else { return Vec::new() };
        items.iter().map(|item| self.layout(item)).collect()
    }

    fn layout(&self, item: &OutTree) -> Option<Layout> {
        let (shape, strides) = match item {
            OutTree::Tensor(n) | OutTree::Detached(n) | OutTree::Data(n) | OutTree::Quiet(n) | OutTree::Tracked(n) => {
                let output = self.graph.outputs.get(*n)?;
                (&self.graph.ty(output.value).shape, &output.strides)
            }
            OutTree::Argument(n) => {
                let before = self.slots.iter().take(*n).filter(|slot| matches!(slot, Slot::Tensor | Slot::Number(_)));
                let input = self.graph.inputs.get(before.count())?;
                (&input.ty.shape, &input.strides)
            }
            _ => return None,
        };
        Some(Layout { shape: shape.clone(), strides: strides.clone() })
    }
}

/// What autograd must know of an imported graph.
#[derive(Clone, Debug, Default)]
pub struct Gradients {
    /// Whether the n-th tensor input requires grad.
    pub inputs: Vec<bool>,
    /// Whether the n-th output of the Graph does.
    pub outputs: Vec<bool>,
    /// For each node of the Graph the place of the FX node that it was made for.
    pub origins: Vec<u32>,
    /// The grad mode in which the graph is called.
    pub ambient: bool,
}

/// The code is right only if the n-th tensor input begins here in its storage, which Dynamo does not guard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pinned {
    pub input: usize,
    pub offset: i64,
}

pub(super) struct InputInfo {
    pub tensor: TensorRef,
    pub storage: usize,
    /// Where in the storage it began when the graph was captured.
    pub offset: ox_ir::Sym,
    /// A result of another piece of the graph.
    pub handed_on: bool,
}

pub struct Importer<'py> {
    pub(super) py: Python<'py>,
    pub(super) torch: &'py Torch,
    pub(super) gm: Bound<'py, PyAny>,
    pub(super) recorder: Recorder,
    pub(super) symbols: Symbols,
    /// The sizes of a captured graph.
    pub(super) known: Known,
    /// Strides of what was made first in each memory, by its number.
    pub(super) made: FxHashMap<usize, Vec<i64>>,
    /// What eager copied or not because of how it lay in memory.
    pub(super) by_layout: Vec<super::layouts::ByLayout>,
    /// What was made of what.
    pub(super) making: Vec<super::layouts::Making>,
    pub(super) names: Names,
    /// Values by the address of their node, which the graph keeps alive.
    pub(super) env: FxHashMap<usize, FrontValue>,
    pub(super) host: HostTable,
    pub(super) slots: Vec<Slot>,
    pub(super) inputs: Vec<InputInfo>,
    pub(super) constants: Vec<(Py<PyAny>, TensorRef)>,
    pub(super) python_calls: Vec<PythonCall>,
    pub(super) location: String,
    /// Whether parameters may be taken as never changing.
    pub(super) freezing: bool,
    /// By input: a parameter or buffer of a module.
    pub(super) weights: Vec<bool>,
    /// What the meta device of the examples stands for.
    pub(super) device: Option<Device>,
    /// Storages of which a Python call returned a view that the recorder cannot follow, and the call: writes to them would be lost
    /// on one side.
    pub(super) opaque_views: FxHashMap<usize, String>,
    pub(super) pinned: Vec<Pinned>,
    pub(super) autocast: Autocast,
    pub(super) stale: Stale,
    pub(super) grad: Grad,
    pub(super) heard: Heard,
    /// Whether gradients are followed.
    pub(super) training: bool,
    /// The calls that detach.
    pub(super) detached: Places,
    /// Whether another piece of the graph may write what this one returns.
    pub(super) written: bool,
}

/// Calls that only steer torch: nothing is computed, and what they steer is settled when the graph is compiled.
const STEERING: &[&str] =
    &["_log_api_usage_once", "_set_deterministic_algorithms", "_assert_scalar", "_check", "sym_constrain_range"];

/// One attempt, with what is known of the sizes.
pub(super) fn attempt<'py>(
    gm: &Bound<'py, PyAny>,
    examples: &Bound<'py, PyAny>,
    how: How<'_>,
    known: &Known,
) -> Import<Imported> {
    Importer::new(gm, how, known)?.walk(examples)
}

/// How a graph is imported.
#[derive(Clone, Copy)]
pub struct How<'a> {
    /// Whether parameters may be taken as never changing.
    pub freezing: bool,
    /// Whether random numbers are eager's.
    pub fallback_random: bool,
    /// What the meta device of the examples stands for.
    pub device: Option<Device>,
    /// Of a piece: the sizes of the whole graph, all of which are taken as they are now.
    pub fixed: Option<&'a Hints>,
    /// What must hold of sizes, besides what is found out.
    pub learned: &'a [Noted],
    /// Of a piece: whether another may write what it returns.
    pub written: bool,
    /// Whether sizes and places in memory are all that is asked for, whoever differentiates it.
    pub looking: bool,
}

impl<'py> Importer<'py> {
    pub(super) fn new(gm: &Bound<'py, PyAny>, how: How<'_>, known: &Known) -> Import<Importer<'py>> {
        let py = gm.py();
        let mut importer = Importer {
            py,
            torch: Torch::get(py)?,
            gm: gm.clone(),
            recorder: Recorder::new(),
            symbols: Symbols::default(),
            known: known.clone(),
            made: FxHashMap::default(),
            by_layout: Vec::new(),
            making: Vec::new(),
            names: Names::default(),
            env: FxHashMap::default(),
            host: HostTable::default(),
            slots: Vec::new(),
            inputs: Vec::new(),
            constants: Vec::new(),
            python_calls: Vec::new(),
            location: String::new(),
            freezing: how.freezing,
            weights: Vec::new(),
            device: how.device,
            opaque_views: FxHashMap::default(),
            pinned: Vec::new(),
            autocast: Autocast::ambient(py)?,
            stale: Stale::default(),
            grad: if how.looking { Grad::ignored() } else { Grad::ambient(py)? },
            heard: Heard::default(),
            training: false,
            detached: Places::default(),
            written: how.written,
        };
        importer.recorder.builder().fallback_random = how.fallback_random;
        importer.prepare()?;
        Ok(importer)
    }

    fn prepare(&mut self) -> Import<()> {
        let torch = self.py.import(intern!(self.py, "torch"))?;
        let default = torch.call_method0(intern!(self.py, "get_default_dtype"))?;
        if let Some(dtype) = self.torch.dtype_of(&default) {
            self.recorder.builder().default_dtype = dtype;
        }
        let deterministic = torch.call_method0(intern!(self.py, "are_deterministic_algorithms_enabled"))?.is_truthy()?;
        self.recorder.builder().deterministic = deterministic;
        Ok(())
    }

    fn walk(mut self, examples: &Bound<'py, PyAny>) -> Import<Imported> {
        let py = self.py;
        let nodes: Vec<Bound<'py, PyAny>> =
            self.gm.getattr(intern!(py, "graph"))?.getattr(intern!(py, "nodes"))?.try_iter()?.collect::<PyResult<_>>()?;
        self.stale = self.find_stale(&nodes)?;
        self.training = self.is_training(&nodes, examples)?;
        if self.training {
            self.detached = Places::of(&nodes)?;
        }
        for (place, node) in nodes.iter().enumerate() {
            if node.getattr(intern!(py, "op"))?.extract::<&str>()? == "output" {
                return self.finish(node);
            }
            self.step(place, node, examples)?;
        }
        Err(Refusal::Bug("an FX graph without an output node".into()))
    }

    /// Before nodes that were all recorded already.
    pub(super) fn find_stale_of(&mut self, nodes: &[Bound<'py, PyAny>]) -> Import<()> {
        self.stale = self.find_stale(nodes)?;
        Ok(())
    }

    /// The value of the node at an address.
    pub(super) fn value_of(&self, node: usize) -> Option<&FrontValue> {
        self.env.get(&node)
    }

    pub(super) fn shape_now(&self, tensor: TensorRef) -> Vec<ox_ir::Sym> {
        self.recorder.ty(tensor).shape.to_vec()
    }

    /// Any node but the output.
    pub(super) fn step(&mut self, place: usize, node: &Bound<'py, PyAny>, examples: &Bound<'py, PyAny>) -> Import<()> {
        let py = self.py;
        self.stale.arrive(node);
        self.grad.place = place;
        let op = node.getattr(intern!(py, "op"))?;
        let op: &str = op.extract()?;
        let value = match op {
            "placeholder" => self.placeholder(node, examples)?,
            "get_attr" => self.get_attr(node)?,
            "call_function" | "call_method" | "call_module" => {
                self.set_location(node)?;
                let location = self.location.clone();
                self.call_node(node, op).map_err(|e| e.at(&location))?
            }
            other => return Err(Refusal::unsupported(format!("an FX node of kind {other}"))),
        };
        self.note_origin(place);
        self.env.insert(node.as_ptr() as usize, value);
        Ok(())
    }

    pub(super) fn meta(&self, node: &Bound<'py, PyAny>) -> Import<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let meta = node.getattr(intern!(py, "meta"))?;
        let meta = meta.cast::<PyDict>()?;
        Ok(match meta.get_item(intern!(py, "example_value"))? {
            Some(value) => Some(value),
            None => meta.get_item(intern!(py, "val"))?,
        })
    }

    /// `file:line` of the innermost frame in the node's stack trace.
    fn set_location(&mut self, node: &Bound<'py, PyAny>) -> Import<()> {
        let py = self.py;
        let meta = node.getattr(intern!(py, "meta"))?;
        let trace = meta.cast::<PyDict>()?.get_item(intern!(py, "stack_trace"))?;
        let trace = trace.and_then(|t| t.extract::<String>().ok());
        self.location = trace.as_deref().and_then(last_frame).unwrap_or_default();
        self.recorder.set_location(&self.location);
        ox_ops::decide::stand_at(&self.location);
        Ok(())
    }

    fn placeholder(&mut self, node: &Bound<'py, PyAny>, examples: &Bound<'py, PyAny>) -> Import<FrontValue> {
        let example = match self.meta(node)? {
            Some(example) => example,
            None => examples.get_item(self.slots.len())?,
        };
        if example.is_instance(self.torch.sym_int.bind(self.py))? {
            return self.size_placeholder(&example);
        }
        if let Some(size) = self.captured_size(node)? {
            return self.captured_size_placeholder(size);
        }
        if self.is_run_time_number(node)? {
            return self.number_placeholder(node, &example);
        }
        if !example.is_instance(self.torch.tensor.bind(self.py))? {
            self.slots.push(Slot::Ignored);
            return match self.number(&example)? {
                Some(number) => Ok(number),
                None => Ok(ValueOf::Object(self.host.add_missing())),
            };
        }
        let name: String = node.getattr(intern!(self.py, "name"))?.extract()?;
        let requires_grad = self.input_requires_grad(node, examples, self.slots.len())?;
        self.grad.inputs.push(requires_grad);
        self.slots.push(Slot::Tensor);
        let is_weight = self.hangs_on_a_module(node)?;
        let sizes = self.captured_sizes(node)?;
        let tensor = self.tensor_input(&example, sizes, name, is_weight)?;
        let handed_on = node.getattr(intern!(self.py, "meta"))?.cast::<PyDict>()?.contains(intern!(self.py, "handed_on"))?;
        self.inputs.last_mut().into_iter().for_each(|input| input.handed_on = handed_on);
        Ok(ValueOf::Tensor(tensor))
    }

    /// Whether a placeholder stands for a parameter or buffer of a module, by where our capture or Dynamo found it. An argument may be
    /// another tensor in every call, whatever its type and name.
    fn hangs_on_a_module(&self, node: &Bound<'py, PyAny>) -> Import<bool> {
        let py = self.py;
        if let Some(captured) = node.getattr(intern!(py, "meta"))?.cast::<PyDict>()?.get_item(intern!(py, "weight"))? {
            return Ok(captured.is_truthy()?);
        }
        let Some(source) = node.getattr_opt(intern!(py, "_dynamo_source"))? else { return Ok(false) };
        let sources = py.import(intern!(py, "torch._dynamo.source"))?;
        let kinds =
            (sources.getattr(intern!(py, "ParamBufferSource"))?, sources.getattr(intern!(py, "UnspecializedParamBufferSource"))?)
                .into_pyobject(py)?;
        // `module._buffers["mean"]`: the item of a dictionary that is known to be a module's.
        let holder = source.getattr_opt(intern!(py, "base"))?;
        Ok(source.is_instance(&kinds)? || holder.is_some_and(|holder| holder.is_instance(&kinds).unwrap_or(false)))
    }

    fn size_placeholder(&mut self, example: &Bound<'py, PyAny>) -> Import<FrontValue> {
        let Some(var) = self.symbols.declare(example)? else {
            // Specialised while tracing: the guard holds it to this value.
            self.slots.push(Slot::Ignored);
            return self.value(example);
        };
        if self.recorder.builder().graph().sizes.contains(&var) {
            self.slots.push(Slot::Ignored);
            return Ok(ValueOf::Int(ox_ir::Sym::var(&var)));
        }
        self.slots.push(Slot::Size);
        Ok(ValueOf::Int(self.recorder.builder().size(var)))
    }

    /// Whether capture passes a number with every call instead of relying on its value.
    fn is_run_time_number(&self, node: &Bound<'py, PyAny>) -> Import<bool> {
        let meta = node.getattr(intern!(self.py, "meta"))?;
        Ok(meta.cast::<PyDict>()?.contains(intern!(self.py, "run_time_number"))?)
    }

    fn number_placeholder(&mut self, node: &Bound<'py, PyAny>, example: &Bound<'py, PyAny>) -> Import<FrontValue> {
        let dtype = if example.is_instance_of::<PyFloat>() { DType::F64 } else { DType::I64 };
        let name: String = node.getattr(intern!(self.py, "name"))?.extract()?;
        let ty = ox_ir::TensorType::new(dtype, []);
        let input = GraphInput { name, ty, strides: Default::default(), frozen: false, packed: false };
        let tensor = self.recorder.input(input);
        self.slots.push(Slot::Number(dtype));
        self.grad.inputs.push(false);
        self.weights.push(false);
        self.inputs.push(InputInfo { tensor, storage: usize::MAX, offset: ox_ir::Sym::ZERO, handed_on: false });
        Ok(ValueOf::Number(tensor))
    }

    fn tensor_input(
        &mut self,
        example: &Bound<'py, PyAny>,
        sizes: Option<(Shape, Shape)>,
        name: String,
        is_weight: bool,
    ) -> Import<TensorRef> {
        let mut fake = self.describe(example)?;
        if let Some((shape, strides)) = sizes {
            (fake.ty.shape, fake.strides) = (shape, strides);
        }
        if let Some(foreign) = lazy_bit(example)? {
            return Err(Refusal::unsupported(foreign.to_string()));
        }
        // The first tensor decides where the graph is computed.
        if self.inputs.is_empty() && matches!(fake.ty.device, Device::Cpu | Device::Cuda(_)) {
            self.recorder.builder().device = fake.ty.device;
        }
        let device = self.recorder.builder().device;
        if fake.ty.device != device {
            let found = example.getattr(intern!(self.py, "device"))?;
            return Err(Refusal::unsupported(format!("a tensor on {found} beside one on {device}")));
        }
        let (storage, offset) = place(&self.symbols, example)?.map_or((0, ox_ir::Sym::ZERO), |p| (p.storage, p.offset));
        self.weights.push(is_weight);
        let frozen = is_weight && self.freezing;
        let tensor = self.recorder.input(GraphInput { name, ty: fake.ty, strides: fake.strides, frozen, packed: false });
        self.inputs.push(InputInfo { tensor, storage, offset, handed_on: false });
        Ok(tensor)
    }

    pub(super) fn describe(&self, tensor: &Bound<'py, PyAny>) -> Import<Fake> {
        if self.stale.contains(tensor) {
            return Err(Refusal::unsupported(RESHAPED_LATER));
        }
        let mut fake =
            describe(self.torch, &self.symbols, tensor)?.map_err(|foreign| Refusal::unsupported(foreign.to_string()))?;
        if let (Device::Other, Some(device)) = (fake.ty.device, self.device) {
            fake.ty.device = device;
        }
        Ok(fake)
    }

    /// A tensor or module that hangs on the graph module.
    fn get_attr(&mut self, node: &Bound<'py, PyAny>) -> Import<FrontValue> {
        let target: String = node.getattr(intern!(self.py, "target"))?.extract()?;
        let mut object = self.gm.clone();
        for part in target.split('.') {
            object = object.getattr(part)?;
        }
        if !object.is_instance(self.torch.tensor.bind(self.py))? {
            return Ok(ValueOf::Object(self.host.add(&object)));
        }
        if let Some((_, tensor)) = self.constants.iter().find(|(known, _)| known.is(&object)) {
            return Ok(ValueOf::Tensor(*tensor));
        }
        let example = self.meta(node)?.unwrap_or_else(|| object.clone());
        let is_weight = object.is_instance(self.torch.parameter.bind(self.py))?;
        self.grad.inputs.push(object.getattr(intern!(self.py, "requires_grad"))?.is_truthy()?);
        let tensor = self.tensor_input(&example, None, target, is_weight)?;
        // The graph holds it, so that it stays where it is.
        self.weights.last_mut().into_iter().for_each(|weight| *weight = true);
        self.constants.push((object.unbind(), tensor));
        Ok(ValueOf::Tensor(tensor))
    }

    fn call_node(&mut self, node: &Bound<'py, PyAny>, op: &str) -> Import<FrontValue> {
        let py = self.py;
        if let Some(size) = self.captured_size(node)? {
            return Ok(ValueOf::Int(size));
        }
        let target = node.getattr(intern!(py, "target"))?;
        let (mut args, kwargs) = self.arguments(node)?;
        let (name, callee) = match op {
            "call_method" => {
                let method: String = target.extract()?;
                (Rc::new(Name::method(&method)), Callee::Method(method))
            }
            "call_function" => (self.names.of_function(self.torch, &target)?, Callee::Function(target.clone())),
            _ => return Err(Refusal::unsupported("a call of a submodule")),
        };
        if STEERING.contains(&name.name.as_str()) {
            return Ok(ValueOf::None);
        }
        match name.name.as_str() {
            "_set_grad_enabled" => {
                self.set_grad_mode(&args);
                return Ok(ValueOf::None);
            }
            "_enter_autocast" => return self.enter_autocast(node),
            "_exit_autocast" => return self.exit_autocast(),
            _ => {}
        }
        let example = self.meta(node)?;
        // `x.T` and its like are functions of x by another spelling.
        if name.namespace == "operator"
            && name.name == "getattr"
            && let [ValueOf::Tensor(_), ValueOf::Str(attribute)] = &args[..]
        {
            let (name, callee) = (Rc::new(Name::method(attribute)), Callee::Attribute(attribute.clone()));
            args.truncate(1);
            return self.call(Request { node: node.clone(), name, callee, args, kwargs, example });
        }
        self.call(Request { node: node.clone(), name, callee, args, kwargs, example })
    }
}

/// The last `File "x.py", line 3` of a stack trace as `x.py:3`.
fn last_frame(trace: &str) -> Option<String> {
    let line = trace.lines().rev().find(|line| line.trim_start().starts_with("File \""))?;
    let (_, rest) = line.split_once("File \"")?;
    let (file, rest) = rest.split_once("\", line ")?;
    let number = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(format!("{file}:{number}"))
}
