//! Torch calls: done on the shadows, and recorded as nodes.

use super::data::refuse_endless;
use super::device;
use super::graph::{LazyEntry, NotRecorded, Recorded, Shadow, layout_of, tensors_in, tools};
use super::memory::refuse_beyond_memory;
use super::outs::Outs;
use super::overlap::refuse_partial_overlaps;
use super::plain_sizes::PlainSizes;
use super::shared::refuse_overlapping_writes;
use super::writes::{refuse_odd_flag, written};
use super::{Origin, Recording, Val, grad};
use crate::guard::Check;
use crate::interrupt::Quiet;
use crate::lazy::{is_lazy, make_lazy, reshape_lazy};
use crate::obj::{Obj, items_of, list_of, py, tuple_of};
use crate::state::TorchState;
use crate::types::types;
use ox_ops::surface::Place;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Functions that make tensors of nothing: their shadows are made on the meta device.
pub const FACTORIES: &[&str] = &[
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

impl Recording {
    /// Records a torch call. Arguments are settled, but for numbers that become inputs.
    pub fn torch_call(&mut self, callee: &Shadow, args: &[Val], kwargs: &[(Obj, Val)], location: &str) -> Recorded<Val> {
        let name = callee.name();
        refuse_endless(args, kwargs)?;
        let state = self.check_modes()?;
        if state.autocast.is_on() && name != "to" && !DONE_FOR_REAL.contains(&name.as_str()) {
            // No number is free here: `is_run_time` sees to that.
            let objects: Vec<Obj> = args.iter().map(|arg| arg.obj.clone()).collect();
            let named: Vec<(Obj, Obj)> = kwargs.iter().map(|(key, value)| (key.clone(), value.obj.clone())).collect();
            if let Some((args, kwargs)) = self.convert(callee, &objects, &named, &state.autocast, location)? {
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
        self.refuse_odd_data(&name, args, kwargs)?;
        let reshapes = RESHAPING.contains(&name.as_str());
        if reshapes && !args.first().is_some_and(|arg| is_lazy(&arg.obj)) {
            return Err(NotRecorded::Break(format!("{name} gives a tensor from outside another shape")));
        }
        // The example of its node is another tensor, which is as it was computed.
        let is_new_leaf = |tensor: &Obj| self.graph.new_leaves.iter().any(|leaf| leaf.id() == tensor.id());
        if reshapes && is_new_leaf(&args[0].obj) {
            return Err(NotRecorded::Break(format!("{name} gives a new leaf another shape")));
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
        refuse_odd_flag(callee, args, kwargs)?;
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
        if let (Some(device), Shadow::Function(function)) = (&state.default_device, callee) {
            name_device(&name, function, device, &node_kwargs)?;
        }
        if let Some(out) = shadow_kwargs.get_item("out")?.filter(|out| out.hasattr("numel").quiet().unwrap_or(false))
            && out.call_method0("numel")?.extract::<usize>()? == 0
        {
            return Err(NotRecorded::Break(format!("{name} gives its out= a size")));
        }
        if !reshapes {
            let written = written(callee, &name, &shadow_args, &shadow_kwargs)?;
            refuse_overlapping_writes(&written)?;
            refuse_partial_overlaps(&name, &written, &shadow_args, &shadow_kwargs)?;
        }
        let outs = Outs::of(&shadow_kwargs)?;
        let done = self.do_on_shadows(callee, &name, &shadow_args, &shadow_kwargs, state);
        if outs.have_changed()? {
            return Err(NotRecorded::Break(format!("{name} gives its out= another size")));
        }
        let result = match done {
            Ok(result) => self.memory_order(callee, &name, &shadow_args, &shadow_kwargs, result)?,
            Err(error) => return Err(NotRecorded::failed(&format!("{name}: "), error)),
        };
        let result = match name.as_str() {
            "_native_multi_head_attention" => super::factory::without_weights(&shadow_args, &shadow_kwargs, result)?,
            _ => result,
        };
        self.refuse_changed_inputs(&name, &shadow_args)?;
        self.refuse_shared_writes()?;
        if reshapes {
            reshape_lazy(&args[0].obj, &shadow_args[0], &self.device()?)?;
        }
        let tensors = tensors_in(&result);
        refuse_beyond_memory(&name, &tensors)?;
        if tensors.is_empty() && !callee.is_in_place(&name, &node_kwargs) {
            if result.is_none() && callee.is_operator() {
                return Err(NotRecorded::Break(format!("{name} returns nothing: it is called for what it does")));
            }
            let value = self.plain_result(&name, result)?;
            return Ok(self.sized_result(&name, args, value.obj));
        }
        self.settle_type(callee, &result, (&shadow_args, &shadow_kwargs), &node_kwargs, state)?;
        self.enter_modes(state)?;
        let writes = callee.is_in_place(&name, &node_kwargs) || node_kwargs.contains("out")?;
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
        self.follow_call(&node, writes)?;
        self.spending.0.ops.update(|ops| ops + 1);
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
        if let Some(regions) = &self.graph.regions {
            node.attr("meta")?.bind().set_item("checkpoint", regions.bind())?;
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

    fn made_how(&self, callee: &Shadow, state: &TorchState) -> PyResult<super::quick::Made> {
        let is_python = matches!(callee, Shadow::Function(function) if function.class_is(types().function));
        Ok(super::quick::Made { grad: state.has_histories(), is_on_cpu: self.is_on_cpu()?, is_python })
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
        // Under autocast the versions of shadows count.
        let is_plain = !matches!(callee, Shadow::Attribute(_)) && !state.autocast.is_on();
        if is_plain
            && state.has_histories()
            && name == "scaled_dot_product_attention"
            && let Some(known) = self.fused_attention(args, named)?
        {
            return Ok(known);
        }
        if is_plain && let Some(known) = super::quick::shadow(name, args, named, self.made_how(callee, state)?)? {
            return Ok(known);
        }
        let mended = super::mended::arguments(name, args, named)?;
        let (args, named) = mended.as_ref().map_or((args, named), |(args, named)| (&args[..], named));
        let kwargs = &Obj::from(named);
        let _plain = PlainSizes::stand_in()?;
        let result = match callee {
            Shadow::Function(function) if name == "arange" => {
                let known = super::factory::arange(args, named)?;
                known.map_or_else(|| function.call(args, Some(kwargs)), Ok)
            }
            Shadow::Function(function) => function.call(args, Some(kwargs)),
            Shadow::Method(_) if name == "cpu" => Ok(args[0].clone()),
            Shadow::Method(method) => args[0].get_attr(method)?.call(&args[1..], Some(kwargs)),
            Shadow::Attribute(attribute) => args[0].get_attr(attribute),
        };
        super::mended::result(name, args, result?)
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

/// The graph runs where the program may have left the mode that says where tensors are made.
fn name_device(name: &str, function: &Obj, device: &Obj, kwargs: &Bound<'_, PyDict>) -> Recorded<()> {
    let is_given = kwargs.get_item("device")?.is_some_and(|device| !device.is_none());
    if is_given || !device::constructors()?.bind().contains(function.bind())? {
        return Ok(());
    }
    if !FACTORIES.contains(&name) {
        return Err(NotRecorded::Break(format!("{name}, on a device that a mode says")));
    }
    Ok(kwargs.set_item("device", device.bind())?)
}
