//! Tensors and numbers from outside as inputs of the graph, and the arguments of a call as the shadows and the graph see them.

use super::device;
use super::graph::{InputEntry, NotRecorded, Recorded, layout_of, tools};
use super::modes::ordinary_mode_for;
use super::shared::version_of;
use super::{Origin, Rec, Recording, Val, abandon, grad};
use crate::guard::Check;
use crate::interrupt::Quiet;
use crate::obj::{Obj, entries_of, items_of, list_of, py, tuple_of};
use crate::source::{Source, SourceId};
use crate::types::types;
use ox_ops::surface::{Place, reads_number};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};

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

    pub(super) fn input(&mut self, tensor: &Obj, source: SourceId) -> Recorded<(Obj, Obj)> {
        if let Some(n) = self.graph.by_input.get(&tensor.id()) {
            let entry = &self.graph.inputs[*n];
            return Ok((entry.shadow.clone(), entry.node.clone()));
        }
        self.rely_on_tensor(tensor, source)?;
        self.refuse_written_elsewhere(tensor)?;
        self.join_device(&tensor.attr("device")?)?;
        let bind = tensor.bind();
        let kwargs = PyDict::new(py());
        kwargs.set_item("dtype", bind.getattr("dtype")?)?;
        kwargs.set_item("device", tools()?.meta.bind())?;
        let (shape, strides) = (tensor.attr("shape")?, Obj::from(bind.call_method0("stride")?));
        let _own_mode = ordinary_mode_for(tensor)?;
        let shadow = tools()?.empty_strided.call(&[shape, strides], Some(&kwargs.into()))?;
        let needs_grad = grad::requires_grad(tensor)?;
        if self.knows_grad() {
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
        let version = version_of(&shadow);
        self.graph.inputs.push(InputEntry {
            object: tensor.clone(),
            source,
            node: node.clone(),
            shadow: shadow.clone(),
            version,
        });
        self.note_kin();
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
            // Torch takes what is neither Python's nor a whole number for a float: numpy.bool_ among them.
            if number.class_is(types.bool) || number.class_is(types.complex) && !object.is_instance_of(types.complex) {
                return Err(NotRecorded::Break(format!("a number of NumPy's type {}", object.class_name())));
            }
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

    /// What stands in a container: a size that is a variable is its node, and a number that was left free is an input.
    fn translate_at(&mut self, container: &Obj, key: &Obj, item: &Obj) -> Recorded<(Obj, Obj)> {
        let Some(source) = self.stowed_at(container, key, item) else { return self.translate(item) };
        match self.expr_of(source) {
            Some(size) => Ok((item.clone(), self.size_node(&size)?)),
            None if self.is_run_time(&Val { obj: item.clone(), free: Some(source) }).is_some() => self.number_input(item, source),
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
        self.follow(&node);
        let object = number.clone();
        self.graph.inputs.push(InputEntry { object, source, node: node.clone(), shadow: number.clone(), version: None });
        Ok((number.clone(), node))
    }

    /// An argument for the shadows and for the graph. A tensor in the place of a number stands for what it holds, which shadows lack.
    pub(super) fn argument(&mut self, function: &str, place: Place<'_>, value: &Val) -> Recorded<(Obj, Obj)> {
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
}

/// A function whose result depends on nothing but its arguments: it reads neither globals nor a closure, and has no attributes to ask.
fn is_closed_function(object: &Obj) -> bool {
    let is_empty = |part: PyResult<Obj>| {
        part.quiet().is_some_and(|part| part.is_none() || part.bind().len().quiet().is_some_and(|len| len == 0))
    };
    object.class_is(types().function)
        && ["__closure__", "__defaults__", "__kwdefaults__"].iter().all(|name| is_empty(object.attr(name)))
        && is_empty(object.attr("__code__").and_then(|code| code.attr("co_names")))
}

/// A number of the kind that a shadow would hold; for lists and vectors, as many. torch reads no tensor that requires a gradient.
fn stand_in(shadow: &Obj) -> PyResult<Obj> {
    let types = types();
    if shadow.is_instance_of(types.list) || shadow.is_instance_of(types.tuple) {
        let items = items_of(shadow).iter().map(stand_in).collect::<PyResult<Vec<Obj>>>()?;
        return list_of(&items);
    }
    if !types.is_tensor(shadow) {
        return Ok(shadow.clone());
    }
    let dtype = shadow.attr("dtype")?;
    if shadow.attr("requires_grad")?.truth()? || dtype.attr("is_complex")?.truth()? {
        return Ok(shadow.clone());
    }
    let one: Obj = match dtype.attr("is_floating_point")?.truth()? {
        true => pyo3::types::PyFloat::new(py(), 1.0).into(),
        false if dtype.is(&Obj::from(py().import("torch")?.getattr("bool")?)) => Obj::bool(true),
        false => Obj::int(1),
    };
    match shadow.bind().call_method0("dim")?.extract::<usize>()? {
        0 => Ok(one),
        1 => list_of(&vec![one; shadow.bind().call_method0("numel")?.extract()?]),
        _ => Ok(shadow.clone()),
    }
}
