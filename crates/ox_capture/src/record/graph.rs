//! The graph being recorded: `torch.fx` nodes, and for each tensor its shadow on the meta device.
//!
//! A torch call is done twice: on the shadows, by torch's own meta kernels, which gives shapes, strides, types, aliasing and whether it would
//! raise; and as a node of the graph, which is computed later.

use super::autocast::Conversion;
use super::device;
use super::modes::ordinary_mode_for;
use super::{Origin, Rec, Recording, Val, abandon, grad};
use crate::backend::Sizes;
use crate::guard::Check;
use crate::interrupt::is_interrupt;
use crate::lazy::{is_lazy, make_lazy, reshape_lazy};
use crate::obj::{Obj, entries_of, items_of, list_of, py, tuple_of};
use crate::source::{Source, SourceId};
use crate::state::TorchState;
use crate::types::types;
use ox_ops::Sym;
use ox_ops::surface::{Place, reads_number};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PySlice};
use rustc_hash::FxHashMap;

pub struct LazyEntry {
    pub object: Obj,
    pub node: Obj,
    pub shadow: Obj,
}

pub struct InputEntry {
    pub object: Obj,
    pub source: SourceId,
    pub node: Obj,
    pub shadow: Obj,
}

pub struct GraphRecord {
    pub fx: Obj,
    pub inputs: Vec<InputEntry>,
    pub lazies: Vec<LazyEntry>,
    pub calls: usize,
    /// The part of the program that the next call belongs to, if that is to be computed again in backward.
    pub region: Option<Obj>,
    /// Where its tensors lie; None before the first.
    pub device: Option<Obj>,
    /// The grad mode in which its first call is made, and the one in which the next would be.
    pub grad: Option<(bool, bool)>,
    /// Whether it runs in inference mode; None before the first call.
    pub inference: Option<bool>,
    /// Lazy tensors that the program made leaves that require grad.
    pub new_leaves: Vec<Obj>,
    /// Tensors that autocast has converted: their version then, and the result.
    pub(super) conversions: FxHashMap<Conversion, (u64, Obj)>,
    by_input: FxHashMap<usize, usize>,
    /// Follows the sizes of its tensors, once one of them is a variable.
    pub(super) follower: Option<Box<dyn Sizes>>,
    /// Nodes of size expressions.
    pub(super) size_nodes: FxHashMap<Sym, Obj>,
    pub(super) size_calls: usize,
    /// Places in `lazies`.
    by_lazy_shadow: FxHashMap<usize, usize>,
    /// Tensors by their shadows, with the sizes and strides when they came in: a graph cannot give an input another shape.
    by_shadow: FxHashMap<usize, (Obj, String)>,
}

/// What a torch call is to Python.
#[derive(Clone, Debug)]
pub enum Shadow {
    Function(Obj),
    Method(Obj),
    Attribute(Obj),
}

struct Tools {
    graph: Obj,
    empty_strided: Obj,
    getattr: Obj,
    meta: Obj,
}

static TOOLS: PyOnceLock<Tools> = PyOnceLock::new();

fn tools() -> PyResult<&'static Tools> {
    let py = py();
    TOOLS.get_or_try_init(py, || {
        super::meta_kernels::run_without_dynamo()?;
        let torch: Obj = py.import("torch")?.into();
        Ok(Tools {
            graph: py.import("torch.fx")?.getattr("Graph")?.into(),
            empty_strided: torch.attr("empty_strided")?,
            getattr: py.import("builtins")?.getattr("getattr")?.into(),
            meta: torch.attr("device")?.call(&[Obj::str("meta")], None)?,
        })
    })
}

/// Functions that make tensors of nothing: their shadows are made on the meta device.
pub(super) const FACTORIES: &[&str] = &[
    "zeros",
    "ones",
    "empty",
    "full",
    "arange",
    "linspace",
    "logspace",
    "eye",
    "rand",
    "randn",
    "randint",
    "randperm",
    "tensor",
    "scalar_tensor",
    "empty_strided",
    "tril_indices",
    "triu_indices",
    "hann_window",
    "hamming_window",
    "bartlett_window",
    "blackman_window",
    "kaiser_window",
    "as_tensor",
    "asarray",
    "normal",
    "range",
];

/// Methods after which a tensor is a view of what it was. Recorded of what the trace has made; inputs are changed for real.
const RESHAPING: &[&str] = &["t_", "transpose_", "unsqueeze_", "squeeze_", "swapaxes_", "swapdims_"];

/// Functions that look at a tensor's values or memory, or change what it is and not only what it holds: done for real. So are torch's fused
/// encoder layers, which take nested tensors; and its fused optimizer steps, which are one kernel already.
pub const DONE_FOR_REAL: &[&str] = &[
    "_fused_adam_",
    "_fused_adamw_",
    "_fused_adagrad_",
    "_fused_sgd_",
    "_transformer_encoder_layer_fwd",
    "__repr__",
    "__format__",
    "__hash__",
    "resize_",
    "resize_as_",
    "set_",
    "as_strided_",
    "requires_grad_",
    "detach_",
    "backward",
    "register_hook",
    "share_memory_",
    "pin_memory",
    "__array__",
    "numpy",
    "tolist",
    "item",
    "__dlpack__",
    "data_ptr",
    "storage",
    "untyped_storage",
    "storage_offset",
    "retain_grad",
    "apply_",
    "map_",
    "rename_",
    "names",
    "__setstate__",
    "_typed_storage",
    "storage_type",
    "is_shared",
    "__reduce_ex__",
    "__deepcopy__",
    "to_sparse",
    "coalesce",
    "cuda",
    "xpu",
    "mps",
    "_is_view",
    "is_set_to",
    "is_pinned",
    "module_load",
    "rename",
    "refine_names",
    "align_to",
    "unflatten_names",
    "grad",
    "_grad",
    "_base",
    "_version",
    "_cdata",
    "grad_fn",
    "_backward_hooks",
    "__cuda_array_interface__",
    "_post_accumulate_grad_hooks",
];

impl GraphRecord {
    pub fn new() -> PyResult<GraphRecord> {
        let (inputs, lazies) = (Vec::new(), Vec::new());
        let fx = tools()?.graph.call(&[], None)?;
        let (conversions, by_input, by_lazy_shadow, by_shadow, size_nodes) = Default::default();
        Ok(GraphRecord {
            fx,
            inputs,
            lazies,
            calls: 0,
            region: None,
            device: None,
            grad: None,
            inference: None,
            new_leaves: Vec::new(),
            conversions,
            by_input,
            follower: None,
            size_nodes,
            size_calls: 0,
            by_lazy_shadow,
            by_shadow,
        })
    }

    pub fn node(&mut self, op: &str, target: &Obj, args: &[Obj], kwargs: Option<&Obj>, name: &str) -> PyResult<Obj> {
        let kwargs = kwargs.cloned().unwrap_or_else(|| PyDict::new(py()).into());
        let call = self.fx.attr("create_node")?;
        call.call(&[Obj::str(op), target.clone(), tuple_of(args)?, kwargs, Obj::str(name)], None)
    }
}

impl GraphRecord {
    /// Whether a tensor from outside has other values once it has run: torch counts writes to the shadows too.
    pub fn writes_inputs(&self) -> bool {
        let version = |shadow: &Obj| shadow.attr("_version").ok().and_then(|version| version.bind().extract::<u64>().ok());
        self.inputs.iter().any(|input| types().is_tensor(&input.shadow) && version(&input.shadow) != Some(0))
    }
}

/// Why a call was not recorded: it is done for real.
pub enum NotRecorded {
    /// With the reason.
    Break(String),
    Abandon(String),
    /// An interrupt came meanwhile.
    Raise(PyErr),
}

impl From<PyErr> for NotRecorded {
    fn from(error: PyErr) -> NotRecorded {
        NotRecorded::failed("", error)
    }
}

impl NotRecorded {
    /// What was tried raised, or an interrupt came meanwhile, which is not about what was tried.
    pub(super) fn failed(what: &str, error: PyErr) -> NotRecorded {
        match is_interrupt(&error) {
            true => NotRecorded::Raise(error),
            false => NotRecorded::Break(format!("{what}{error}")),
        }
    }
}

impl From<super::Abandon> for NotRecorded {
    fn from(error: super::Abandon) -> NotRecorded {
        NotRecorded::Abandon(error.0)
    }
}

pub(super) type Recorded<T> = Result<T, NotRecorded>;

pub(super) fn layout_of(shadow: &Obj) -> String {
    let stride = shadow.bind().call_method0("stride").map(|s| s.to_string()).unwrap_or_default();
    format!("{} {stride}", shadow.attr("shape").map(|s| s.text()).unwrap_or_default())
}

impl Recording {
    /// The tensor's shadow and node; a tensor from outside becomes an input.
    pub(super) fn shadow(&mut self, tensor: &Obj) -> Recorded<(Obj, Obj)> {
        match self.origin(tensor) {
            Origin::Lazy(n) => {
                let entry = &self.graph.lazies[n];
                Ok((entry.shadow.clone(), entry.node.clone()))
            }
            Origin::Outside(source) => self.input(tensor, source),
            _ => Err(NotRecorded::Abandon("a tensor that came from nowhere".into())),
        }
    }

    fn input(&mut self, tensor: &Obj, source: SourceId) -> Recorded<(Obj, Obj)> {
        if let Some(n) = self.graph.by_input.get(&tensor.id()) {
            let entry = &self.graph.inputs[*n];
            return Ok((entry.shadow.clone(), entry.node.clone()));
        }
        self.rely_on_tensor(tensor, source)?;
        self.join_device(&tensor.attr("device")?)?;
        let bind = tensor.bind();
        let kwargs = PyDict::new(py());
        kwargs.set_item("dtype", bind.getattr("dtype")?)?;
        kwargs.set_item("device", tools()?.meta.bind())?;
        let (shape, strides) = (tensor.attr("shape")?, Obj::from(bind.call_method0("stride")?));
        let _own_mode = ordinary_mode_for(tensor)?;
        let shadow = tools()?.empty_strided.call(&[shape, strides], Some(&kwargs.into()))?;
        let needs_grad = grad::requires_grad(tensor)?;
        if self.state.grad || self.graph.grad.is_some_and(|(first, now)| first || now) {
            self.checks.push(Check::RequiresGrad(source, needs_grad));
        }
        if needs_grad {
            grad::require_grad(&shadow, grad::is_leaf(tensor)?)?;
        }
        self.size_inputs(tensor)?;
        let name = self.input_name(source);
        let node = self.graph.node("placeholder", &Obj::str(&name), &[], None, &name)?;
        node.attr("meta")?.bind().set_item("example_value", shadow.bind())?;
        node.attr("meta")?.bind().set_item("requires_grad", needs_grad)?;
        node.attr("meta")?.bind().set_item("weight", self.is_of_a_module(source))?;
        self.note_shape(tensor, source, &node)?;
        self.follow(&node);
        self.graph.by_input.insert(tensor.id(), self.graph.inputs.len());
        self.graph.by_shadow.insert(shadow.id(), (tensor.clone(), layout_of(&shadow)));
        self.graph.inputs.push(InputEntry { object: tensor.clone(), source, node: node.clone(), shadow: shadow.clone() });
        Ok((shadow, node))
    }

    /// Whether it is a parameter or buffer of a module.
    fn is_of_a_module(&self, source: SourceId) -> bool {
        self.tree.sources.read().owner_of_weight(source).is_some_and(|owner| self.modules.contains(&owner))
    }

    /// As Dynamo names its placeholders: parameters and buffers can be told by it.
    fn input_name(&self, source: SourceId) -> String {
        let text = self.tree.sources.read().show(source);
        let mut name: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        name = name.replace("__buffers_", "_buffers_");
        format!("in{}_{name}", self.graph.inputs.len())
    }

    /// The tensor's type, size and strides are relied on.
    pub fn rely_on_tensor(&mut self, tensor: &Obj, source: SourceId) -> Rec<()> {
        let Some(spec) = self.backend.describe(tensor) else {
            return abandon(format!("a tensor that is no plain dense one on CPU or CUDA: {}", tensor.class_name()));
        };
        if self.seen.insert((9, source.0, 0)) {
            let check = self.tensor_check(tensor, source, spec);
            self.checks.push(check);
        }
        Ok(())
    }

    /// Replaces every tensor inside a value: by shadows and by nodes.
    pub(super) fn translate(&mut self, object: &Obj) -> Recorded<(Obj, Obj)> {
        let types = types();
        if self.is_tensor(object) {
            return self.shadow(object);
        }
        if types.is_numpy_scalar(object) {
            let number: Obj = object.bind().call_method0("item")?.into();
            return Ok((number.clone(), number));
        }
        if types.is_scalar(object) && !object.class_is(types.slice) {
            return Ok((self.move_device(object)?, object.clone()));
        }
        // A member of an enum of numbers, or a number of a class of the program's.
        let is_number = object.is_instance_of(types.int) || object.is_instance_of(types.float);
        if is_number && let Some(number) = super::describe::plain_value(object).filter(|_| self.is_of_this_call(object)) {
            return Ok((number.clone(), number));
        }
        if let Some(dtype) = device::dtype_of_class(object)? {
            return Ok((dtype.clone(), dtype));
        }
        if let Origin::Outside(_) = self.origin(object) {
            self.know_whole(object, &mut 4096)?;
        }
        if object.is_instance_of(types.tuple) || object.is_instance_of(types.list) {
            let mut pairs = Vec::new();
            for (n, item) in items_of(object).into_iter().enumerate() {
                pairs.push(self.translate_at(object, &Obj::int(n as i64), &item)?);
            }
            let (shadows, nodes): (Vec<Obj>, Vec<Obj>) = pairs.into_iter().unzip();
            return Ok(if object.is_instance_of(types.tuple) {
                (tuple_of(&shadows)?, tuple_of(&nodes)?)
            } else {
                (list_of(&shadows)?, list_of(&nodes)?)
            });
        }
        if object.class_is(types.slice) {
            let slice = object.bind();
            let mut parts = Vec::new();
            for name in ["start", "stop", "step"] {
                parts.push(self.translate_at(object, &Obj::str(name), &slice.getattr(name)?.into())?);
            }
            let make = |pick: &dyn Fn(&(Obj, Obj)) -> Obj| -> PyResult<Obj> {
                let parts: Vec<Obj> = parts.iter().map(pick).collect();
                Obj::from(py().get_type::<PySlice>()).call(&parts, None)
            };
            return Ok((make(&|p| p.0.clone())?, make(&|p| p.1.clone())?));
        }
        if object.is_instance_of(types.dict) {
            let (shadows, nodes) = (PyDict::new(py()), PyDict::new(py()));
            for (key, value) in entries_of(object) {
                let (shadow, node) = self.translate_at(object, &key, &value)?;
                shadows.set_item(key.bind(), shadow.bind())?;
                nodes.set_item(key.bind(), node.bind())?;
            }
            return Ok((shadows.into(), nodes.into()));
        }
        match self.origin(object) {
            Origin::Const => Ok((object.clone(), object.clone())),
            Origin::Made if is_closed_function(object) => Ok((object.clone(), object.clone())),
            _ => Err(NotRecorded::Break(format!("an argument of type {}", object.class_name()))),
        }
    }

    /// The number or text in an instance of a subclass of its type, which is the same in every call.
    pub fn plain_part(&self, object: &Obj) -> Option<Obj> {
        let t = types();
        let is_own = ![t.int, t.float, t.str, t.complex, t.bool].iter().any(|class| object.class_is(*class));
        if is_own && self.is_of_this_call(object) { super::describe::plain_value(object) } else { None }
    }

    /// The same in every call, or made in each.
    fn is_of_this_call(&self, object: &Obj) -> bool {
        match self.origin(object) {
            Origin::Const | Origin::Made => true,
            Origin::Outside(id) => matches!(self.tree.sources.read().get(id), Source::Pinned(_)),
            _ => false,
        }
    }

    /// What stands in a container: a size that is a variable is its node.
    fn translate_at(&mut self, container: &Obj, key: &Obj, item: &Obj) -> Recorded<(Obj, Obj)> {
        match self.stowed_at(container, key, item).and_then(|source| self.expr_of(source)) {
            Some(size) => Ok((item.clone(), self.size_node(&size)?)),
            None => self.translate(item),
        }
    }

    /// Shadows live on the meta device.
    fn move_device(&mut self, object: &Obj) -> Recorded<Obj> {
        if object.class_is(types().device) {
            self.join_device(object)?;
            return Ok(tools()?.meta.clone());
        }
        Ok(object.clone())
    }

    /// A number that the graph is given with every call.
    fn number_input(&mut self, number: &Obj, source: SourceId) -> Recorded<(Obj, Obj)> {
        if let Some(entry) = self.graph.inputs.iter().find(|entry| entry.source == source) {
            return Ok((number.clone(), entry.node.clone()));
        }
        let name = self.input_name(source);
        let node = self.graph.node("placeholder", &Obj::str(&name), &[], None, &name)?;
        let meta = node.attr("meta")?;
        meta.bind().set_item("example_value", number.bind())?;
        meta.bind().set_item("run_time_number", true)?;
        let object = number.clone();
        self.graph.inputs.push(InputEntry { object, source, node: node.clone(), shadow: number.clone() });
        Ok((number.clone(), node))
    }

    /// An argument for the shadows and for the graph. A tensor in the place of a number stands for what it holds, which shadows lack.
    fn argument(&mut self, function: &str, place: Place<'_>, value: &Val) -> Recorded<(Obj, Obj)> {
        if let Some(source) = value.free {
            return match self.expr_of(source) {
                Some(size) => Ok((value.obj.clone(), self.size_node(&size)?)),
                None => self.number_input(&value.obj, source),
            };
        }
        let (shadow, node) = self.translate(&value.obj)?;
        match reads_number(function, place) {
            true => Ok((stand_in(&shadow)?, node)),
            false => Ok((shadow, node)),
        }
    }

    /// Records a torch call. Arguments are settled, but for numbers that become inputs.
    pub fn torch_call(&mut self, callee: &Shadow, args: &[Val], kwargs: &[(Obj, Val)], location: &str) -> Recorded<Val> {
        let name = callee.name();
        let state = self.check_modes()?;
        if let Some(dtype) = &state.autocast
            && name != "to"
            && !DONE_FOR_REAL.contains(&name.as_str())
        {
            // No number is free here: `is_run_time` sees to that.
            let objects: Vec<Obj> = args.iter().map(|arg| arg.obj.clone()).collect();
            let named: Vec<(Obj, Obj)> = kwargs.iter().map(|(key, value)| (key.clone(), value.obj.clone())).collect();
            if let Some((args, kwargs)) = self.convert(callee, &objects, &named, dtype, location)? {
                let args: Vec<Val> = args.into_iter().map(Val::from).collect();
                let kwargs: Vec<(Obj, Val)> = kwargs.into_iter().map(|(key, value)| (key, value.into())).collect();
                return self.torch_call_as_is(callee, &args, &kwargs, location, &state);
            }
        }
        self.torch_call_as_is(callee, args, kwargs, location, &state)
    }

    /// The same, without what autocast does.
    pub(super) fn torch_call_as_is(
        &mut self,
        callee: &Shadow,
        args: &[Val],
        kwargs: &[(Obj, Val)],
        location: &str,
        state: &TorchState,
    ) -> Recorded<Val> {
        let name = callee.name();
        if name == "tensor"
            && let Some((args, kwargs)) = self.numbers_of_array(args, kwargs)?
        {
            return self.torch_call_as_is(callee, &args, &kwargs, location, state);
        }
        if matches!(name.as_str(), "tensor" | "as_tensor" | "asarray")
            && let Some((args, kwargs)) = self.type_of_numbers(args, kwargs)?
        {
            return self.torch_call_as_is(callee, &args, &kwargs, location, state);
        }
        if DONE_FOR_REAL.contains(&name.as_str()) {
            return Err(NotRecorded::Break(format!("{name} looks at a tensor's values or memory")));
        }
        if let Some(value) = self.special_call(callee, args, kwargs, location, state)? {
            return Ok(value);
        }
        let reshapes = RESHAPING.contains(&name.as_str());
        if reshapes && !args.first().is_some_and(|arg| is_lazy(&arg.obj)) {
            return Err(NotRecorded::Break(format!("{name} gives a tensor from outside another shape")));
        }
        if let ("is_inference", [tensor]) = (name.as_str(), args)
            && let Origin::Outside(source) = self.origin(&tensor.obj)
        {
            // Its dispatch keys tell.
            self.rely_on_tensor(&tensor.obj, source)?;
            return Ok(Obj::from(tensor.obj.bind().call_method0("is_inference")?).into());
        }
        if name == "as_tensor" && args.len() == 1 && kwargs.is_empty() && self.is_tensor(&args[0].obj) {
            return Ok(args[0].clone());
        }
        if name == "type" && args.len() == 1 && kwargs.is_empty() {
            return self.type_name(&args[0].obj);
        }
        let mut pairs = Vec::with_capacity(args.len());
        for (n, arg) in args.iter().enumerate() {
            pairs.push(self.argument(&name, Place::Position(n), arg)?);
        }
        let (mut shadow_args, node_args): (Vec<Obj>, Vec<Obj>) = pairs.into_iter().unzip();
        let (shadow_kwargs, node_kwargs) = (PyDict::new(py()), PyDict::new(py()));
        for (key, value) in kwargs {
            let text = key.to_str().unwrap_or_default();
            let (mut shadow, node) = self.argument(&name, Place::Keyword(&text), value)?;
            if text == "device" && value.obj.class_is(types().str) {
                shadow = self.device_by_name(&value.obj)?;
            }
            shadow_kwargs.set_item(key.bind(), shadow.bind())?;
            node_kwargs.set_item(key.bind(), node.bind())?;
        }
        self.steer_device(callee, &name, &mut shadow_args, &shadow_kwargs)?;
        if let Some(out) = shadow_kwargs.get_item("out")?.filter(|out| out.hasattr("numel").unwrap_or(false))
            && out.call_method0("numel")?.extract::<usize>()? == 0
        {
            return Err(NotRecorded::Break(format!("{name} gives its out= a size")));
        }
        let result = match self.do_on_shadows(callee, &name, &shadow_args, &shadow_kwargs, state) {
            Ok(result) => self.memory_order(&name, &shadow_args, &shadow_kwargs, result)?,
            Err(error) => return Err(NotRecorded::failed(&format!("{name}: "), error)),
        };
        let result = match name.as_str() {
            "_native_multi_head_attention" => super::factory::without_weights(&shadow_args, &shadow_kwargs, result)?,
            _ => result,
        };
        self.refuse_changed_inputs(&name, &shadow_args)?;
        if reshapes {
            reshape_lazy(&args[0].obj, &shadow_args[0], &self.device()?)?;
        }
        let tensors = tensors_in(&result);
        if tensors.is_empty() && !callee.is_in_place(&name, &node_kwargs) {
            let value = self.plain_result(&name, result)?;
            return Ok(self.sized_result(&name, args, value.obj));
        }
        self.settle_type(callee, &result, (&shadow_args, &shadow_kwargs), &node_kwargs, state)?;
        self.enter_modes(state)?;
        let node = match callee {
            Shadow::Function(function) => self.call_node("call_function", function, &node_args, node_kwargs.into())?,
            Shadow::Method(name) => self.call_node("call_method", name, &node_args, node_kwargs.into())?,
            Shadow::Attribute(name) => {
                let args = [node_args[0].clone(), name.clone()];
                self.call_node("call_function", &tools()?.getattr, &args, node_kwargs.into())?
            }
        };
        let meta = node.attr("meta")?;
        meta.bind().set_item("example_value", result.bind())?;
        meta.bind().set_item("requires_grad", grad::any_requires_grad(&tensors)?)?;
        meta.bind().set_item("stack_trace", location)?;
        self.follow(&node);
        self.ops += 1;
        Ok(self.wrap(&result, &node)?.into())
    }

    /// `x.type()`, which names type and device: that of another tensor of the kind.
    fn type_name(&mut self, tensor: &Obj) -> Recorded<Val> {
        let (shadow, _) = self.shadow(tensor)?;
        let kwargs = PyDict::new(py());
        kwargs.set_item("dtype", shadow.attr("dtype")?.bind())?;
        kwargs.set_item("device", self.device()?.bind())?;
        let alike = py().import("torch")?.call_method("empty", (0,), Some(&kwargs))?;
        Ok(Obj::from(alike.call_method0("type")?).into())
    }

    /// Shadows do not feel what a mode does to real tensors, and the graph runs when the program may have left it.
    fn check_modes(&self) -> Recorded<TorchState> {
        let now = TorchState::now()?;
        if let Some(objection) = now.objection() {
            return Err(NotRecorded::Abandon(objection.into()));
        }
        Ok(now)
    }

    pub(super) fn call_node(&mut self, op: &str, target: &Obj, args: &[Obj], kwargs: Obj) -> PyResult<Obj> {
        self.graph.calls += 1;
        let name = format!("n{}", self.graph.calls);
        let node = self.graph.node(op, target, args, Some(&kwargs), &name)?;
        if let Some(region) = &self.graph.region {
            node.attr("meta")?.bind().set_item("checkpoint", region.bind())?;
        }
        Ok(node)
    }

    fn device_by_name(&mut self, name: &Obj) -> Recorded<Obj> {
        self.join_device(&device::named(&name.to_str().unwrap_or_default())?)?;
        Ok(tools()?.meta.clone())
    }

    /// Where the shadow call must name the meta device by itself.
    fn steer_device(&mut self, callee: &Shadow, name: &str, args: &mut [Obj], kwargs: &Bound<'_, PyDict>) -> Recorded<()> {
        if let Shadow::Function(_) = callee
            && FACTORIES.contains(&name)
        {
            if kwargs.contains("generator")? && !kwargs.get_item("generator")?.is_none_or(|g| g.is_none()) {
                return Err(NotRecorded::Break("a generator of one's own".into()));
            }
            let given = kwargs.get_item("device")?.filter(|d| !d.is_none());
            if given.is_none() {
                self.join_device(&Obj::from(py().import("torch")?.call_method0("get_default_device")?))?;
                kwargs.set_item("device", tools()?.meta.bind())?;
            }
        }
        if name == "cpu" && !args.is_empty() {
            self.join_device(&device::named("cpu")?)?;
        }
        // `x.to("cpu")`
        if name == "to"
            && let Some(target) = args.get_mut(1)
            && target.class_is(types().str)
        {
            *target = self.device_by_name(target)?;
        }
        Ok(())
    }

    pub(super) fn do_on_shadows(
        &self,
        callee: &Shadow,
        name: &str,
        args: &[Obj],
        named: &Bound<'static, PyDict>,
        state: &TorchState,
    ) -> PyResult<Obj> {
        let _hooks = grad::NoHooks::new()?;
        let is_call = !matches!(callee, Shadow::Attribute(_));
        // Under autocast the versions of shadows count.
        if is_call
            && state.autocast.is_none()
            && self.is_on_cpu()?
            && let Some(known) = super::quick::shadow(name, args, named, state.grad)?
        {
            return Ok(known);
        }
        let kwargs = &Obj::from(named);
        match callee {
            Shadow::Function(function) if name == "arange" => {
                let known = super::factory::arange(args, named)?;
                known.map_or_else(|| function.call(args, Some(kwargs)), Ok)
            }
            Shadow::Function(function) => function.call(args, Some(kwargs)),
            Shadow::Method(_) if name == "cpu" => Ok(args[0].clone()),
            Shadow::Method(method) => args[0].get_attr(method)?.call(&args[1..], Some(kwargs)),
            Shadow::Attribute(attribute) => args[0].get_attr(attribute),
        }
    }

    fn refuse_changed_inputs(&self, name: &str, args: &[Obj]) -> Recorded<()> {
        if !name.ends_with('_') {
            return Ok(());
        }
        let written = args.iter().flat_map(tensors_in);
        let inputs = written.filter_map(|shadow| self.graph.by_shadow.get(&shadow.id()).map(|(_, layout)| (shadow, layout)));
        match inputs.into_iter().any(|(shadow, layout)| layout_of(&shadow) != *layout) {
            true => Err(NotRecorded::Abandon(format!("{name} gives an input another shape"))),
            false => Ok(()),
        }
    }

    /// A result without tensors: known from the shadows.
    fn plain_result(&mut self, name: &str, result: Obj) -> Recorded<Val> {
        let types = types();
        if result.class_is(types.device) {
            return Ok(self.device()?.into());
        }
        let device = self.device()?;
        let is_cuda = device.attr("type")?.to_str().as_deref() == Some("cuda");
        match name {
            "is_meta" => return Ok(Obj::bool(false).into()),
            "is_cpu" => return Ok(Obj::bool(!is_cuda).into()),
            "is_cuda" => return Ok(Obj::bool(is_cuda).into()),
            "get_device" if is_cuda => return Ok(device.attr("index")?.into()),
            _ => {}
        }
        let known = types.is_scalar(&result) || result.is_instance_of(types.tuple) || result.class_is(types.list);
        if !known {
            return Err(NotRecorded::Break(format!("{name} returns a {}", result.class_name())));
        }
        self.made(&result);
        Ok(result.into())
    }

    /// Lazy tensors in the place of shadows.
    fn wrap(&mut self, result: &Obj, node: &Obj) -> Recorded<Obj> {
        let types = types();
        if types.is_tensor(result) {
            return self.wrap_tensor(result, node);
        }
        if !(result.is_instance_of(types.tuple) || result.is_instance_of(types.list)) {
            return Ok(result.clone());
        }
        let getitem: Obj = py().import("operator")?.getattr("getitem")?.into();
        let mut items = Vec::new();
        for (n, item) in items_of(result).into_iter().enumerate() {
            if !types.is_tensor(&item) {
                items.push(item);
                continue;
            }
            let kwargs = PyDict::new(py()).into();
            let part = self.call_node("call_function", &getitem, &[node.clone(), Obj::int(n as i64)], kwargs)?;
            part.attr("meta")?.bind().set_item("example_value", item.bind())?;
            part.attr("meta")?.bind().set_item("requires_grad", grad::requires_grad(&item)?)?;
            self.follow(&part);
            items.push(self.wrap_tensor(&item, &part)?);
        }
        let made = if result.class_is(types.tuple) {
            tuple_of(&items)?
        } else if result.class_is(types.list) {
            list_of(&items)?
        } else {
            result.class().call(&[tuple_of(&items)?], None)?
        };
        self.made(&made);
        Ok(made)
    }

    fn wrap_tensor(&mut self, shadow: &Obj, node: &Obj) -> Recorded<Obj> {
        // An in-place call returns its argument, the same object.
        if let Some(known) = self.graph.by_shadow.get(&shadow.id()) {
            return Ok(known.0.clone());
        }
        if let Some(n) = self.graph.by_lazy_shadow.get(&shadow.id()) {
            return Ok(self.graph.lazies[*n].object.clone());
        }
        let object = make_lazy(shadow, &self.device()?)?;
        let n = self.graph.lazies.len();
        self.graph.by_lazy_shadow.insert(shadow.id(), n);
        self.graph.lazies.push(LazyEntry { object: object.clone(), node: node.clone(), shadow: shadow.clone() });
        self.register_lazy(&object, n);
        Ok(object)
    }

    /// The lazy tensor is what another node computes from here on.
    pub(super) fn stand_for(&mut self, n: usize, node: Obj, shadow: Obj) {
        self.graph.by_lazy_shadow.insert(shadow.id(), n);
        let entry = &mut self.graph.lazies[n];
        (entry.node, entry.shadow) = (node, shadow);
    }

    /// An attribute of a tensor: by its shadow.
    pub fn tensor_attribute(&mut self, tensor: &Obj, name: &Obj, location: &str) -> Recorded<Val> {
        if let (Origin::Outside(source), Some("requires_grad" | "is_leaf")) = (self.origin(tensor), name.to_str().as_deref())
            && !self.is_written(tensor, &Obj::str("requires_grad"))
        {
            self.checks.push(Check::RequiresGrad(source, grad::requires_grad(tensor)?));
        }
        self.torch_call(&Shadow::Attribute(name.clone()), &[tensor.clone().into()], &[], location)
    }
}

/// A function whose result depends on nothing but its arguments: it reads neither globals nor a closure, and has no attributes to ask.
fn is_closed_function(object: &Obj) -> bool {
    let is_empty = |part: PyResult<Obj>| part.is_ok_and(|part| part.is_none() || part.bind().len().is_ok_and(|len| len == 0));
    object.class_is(types().function)
        && ["__closure__", "__defaults__", "__kwdefaults__"].iter().all(|name| is_empty(object.attr(name)))
        && is_empty(object.attr("__code__").and_then(|code| code.attr("co_names")))
}

impl Shadow {
    pub fn name(&self) -> String {
        match self {
            Shadow::Function(function) => {
                function.attr("__name__").ok().and_then(|n| n.to_str()).unwrap_or_else(|| function.text())
            }
            Shadow::Method(name) | Shadow::Attribute(name) => name.to_str().unwrap_or_default(),
        }
    }
}

/// A number of the kind that a shadow would hold; for lists and vectors, as many.
fn stand_in(shadow: &Obj) -> PyResult<Obj> {
    let types = types();
    if shadow.is_instance_of(types.list) || shadow.is_instance_of(types.tuple) {
        let items = items_of(shadow).iter().map(stand_in).collect::<PyResult<Vec<Obj>>>()?;
        return list_of(&items);
    }
    if !types.is_tensor(shadow) {
        return Ok(shadow.clone());
    }
    let is_float = shadow.attr("dtype")?.attr("is_floating_point")?.truth()?;
    let one: Obj = if is_float { pyo3::types::PyFloat::new(py(), 1.0).into() } else { Obj::int(1) };
    match shadow.bind().call_method0("dim")?.extract::<usize>()? {
        0 => Ok(one),
        1 => list_of(&vec![one; shadow.bind().call_method0("numel")?.extract()?]),
        _ => Ok(shadow.clone()),
    }
}

/// In containers, too, of which some hold themselves.
pub fn tensors_in(object: &Obj) -> Vec<Obj> {
    let mut found = Vec::new();
    collect_tensors(object, &mut Vec::new(), &mut found);
    found
}

fn collect_tensors(object: &Obj, open: &mut Vec<usize>, found: &mut Vec<Obj>) {
    let types = types();
    if types.is_tensor(object) || is_lazy(object) {
        return found.push(object.clone());
    }
    let inside = if object.is_instance_of(types.tuple) || object.is_instance_of(types.list) {
        items_of(object)
    } else if object.class_is(types.dict) {
        entries_of(object).into_iter().map(|(_, value)| value).collect()
    } else {
        return;
    };
    if !open.contains(&object.id()) {
        open.push(object.id());
        inside.iter().for_each(|item| collect_tensors(item, open, found));
        open.pop();
    }
}
