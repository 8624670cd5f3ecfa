//! Calls that are recorded as others: what they would do to a shadow, or ask of one, shadows cannot do or know.

use super::graph::{LazyEntry, NotRecorded, Recorded, Shadow, layout_of, tensors_in};
use super::{Origin, Recording, Val, plain};
use crate::interrupt::Quiet;
use crate::lazy::reshape_lazy;
use crate::obj::{Obj, items_of, py};
use crate::state::TorchState;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

const INDEXING: &[&str] = &["getitem", "__getitem__", "setitem", "__setitem__"];

/// What does not divide integers by zero. Those in place have the same names with an underscore, besides.
pub const DIVISIONS: [&str; 15] = [
    "floordiv",
    "mod",
    "ifloordiv",
    "imod",
    "__floordiv__",
    "__mod__",
    "__ifloordiv__",
    "__imod__",
    "__rfloordiv__",
    "__rmod__",
    "floor_divide",
    "remainder",
    "fmod",
    "div",
    "divide",
];

impl Recording {
    /// The call as another one, if it is recorded as that.
    pub(super) fn special_call(
        &mut self,
        callee: &Shadow,
        args: &[Val],
        kwargs: &[(Obj, Val)],
        location: &str,
        state: &TorchState,
    ) -> Recorded<Option<Val>> {
        let name = callee.name();
        if name == "_parse_to" {
            return self.parsed_to(callee, args, kwargs).map(Some);
        }
        if let Some((key, out)) = kwargs.iter().find(|(key, _)| key.to_str().as_deref() == Some("out"))
            && let Some(n) = self.empty_made_here(&out.obj)?
        {
            let rest: Vec<_> = kwargs.iter().filter(|(other, _)| !other.is(key)).cloned().collect();
            return self.call_into_empty(callee, (args, &rest), n, location, state).map(Some);
        }
        self.no_empty_among_outs(&name, kwargs)?;
        if name == "as_tensor"
            && state.default_device.is_none()
            && let [tensor] = args
            && self.is_tensor(&tensor.obj)
        {
            return self.tensor_as_tensor(tensor, kwargs, location, state).map(Some);
        }
        // A size is one only as an instance of its class, and no call of a graph has it as that: other rows of numbers are elements.
        if name == "new"
            && let [_, size] = args
            && size.obj.class_is(types().size)
        {
            let by_size = Shadow::Method(Obj::str("new_empty"));
            return self.torch_call_as_is(&by_size, args, kwargs, location, state).map(Some);
        }
        if INDEXING.contains(&name.as_str())
            && let [tensor, index, rest @ ..] = args
            && let Some(number) = self.number_made_here(&index.obj)?
        {
            let args = [&[tensor.clone(), number.into()], rest].concat();
            return self.torch_call_as_is(callee, &args, kwargs, location, state).map(Some);
        }
        if divides_by_second(&name, kwargs)
            && let [tensor, divisor] = args
            && self.is_integer_by_zero(&tensor.obj, &divisor.obj)?
        {
            return Err(NotRecorded::Break(format!("{name}: integer division by zero")));
        }
        Ok(None)
    }

    /// What `Module.to` is asked for: device and type, those of a tensor among them. No graph computes it, and shadows lie on no device of the
    /// program's: the function is called for real.
    fn parsed_to(&mut self, callee: &Shadow, args: &[Val], kwargs: &[(Obj, Val)]) -> Recorded<Val> {
        let Shadow::Function(function) = callee else { return Err(NotRecorded::Break("_parse_to of a tensor".into())) };
        let mut real = Vec::with_capacity(args.len());
        for arg in args {
            real.push(self.same_place_and_type(arg)?);
        }
        let named = PyDict::new(py());
        for (key, value) in kwargs {
            named.set_item(key.bind(), self.same_place_and_type(value)?.bind())?;
        }
        let wanted = function.call(&real, Some(&named.into())).map_err(|error| NotRecorded::failed("_parse_to: ", error))?;
        self.made(&wanted);
        Ok(wanted.into())
    }

    /// Of a tensor another one, without elements, that the program never sees; what is no tensor is itself.
    fn same_place_and_type(&mut self, value: &Val) -> Recorded<Obj> {
        let object = &value.obj;
        if value.free.is_some() {
            return Err(NotRecorded::Break("_parse_to of a number that changes".into()));
        }
        let (dtype, device) = match self.origin(object) {
            _ if !self.is_tensor(object) => {
                let known = types().is_scalar(object);
                return if known { Ok(object.clone()) } else { Ok(self.translate(object)?.1) };
            }
            Origin::Lazy(n) => (self.graph.lazies[n].shadow.attr("dtype")?, self.device()?),
            Origin::Outside(source) => {
                self.rely_on_tensor(object, source)?;
                (object.attr("dtype")?, object.attr("device")?)
            }
            Origin::Const => (object.attr("dtype")?, object.attr("device")?),
            _ => return Err(NotRecorded::Break("_parse_to of a tensor that the program made elsewhere".into())),
        };
        let kwargs = PyDict::new(py());
        kwargs.set_item("dtype", dtype.bind())?;
        kwargs.set_item("device", device.bind())?;
        Ok(py().import("torch")?.call_method("empty", (0,), Some(&kwargs))?.into())
    }

    /// A tensor is converted as `to` does it, or given back. By its own name the call is a factory to the shadows, which lack the tensor's data.
    fn tensor_as_tensor(&mut self, tensor: &Val, kwargs: &[(Obj, Val)], location: &str, state: &TorchState) -> Recorded<Val> {
        let wanted: Vec<_> = kwargs.iter().filter(|(_, value)| !value.obj.is_none()).cloned().collect();
        if wanted.is_empty() {
            return Ok(tensor.clone());
        }
        let to = Shadow::Method(Obj::str("to"));
        self.torch_call_as_is(&to, std::slice::from_ref(tensor), &wanted, location, state)
    }

    /// Several results that get their sizes: a graph gives them none.
    fn no_empty_among_outs(&self, name: &str, kwargs: &[(Obj, Val)]) -> Recorded<()> {
        let Some((_, outs)) = kwargs.iter().find(|(key, _)| key.to_str().as_deref() == Some("out")) else { return Ok(()) };
        for out in tensors_in(&outs.obj) {
            if self.empty_made_here(&out)?.is_some() {
                return Err(NotRecorded::Break(format!("{name} gives its out= sizes")));
            }
        }
        Ok(())
    }

    /// The place of a lazy tensor without elements that owns its memory: one that `out=` may give a size.
    fn empty_made_here(&self, tensor: &Obj) -> Recorded<Option<usize>> {
        let Origin::Lazy(n) = self.origin(tensor) else { return Ok(None) };
        let shadow = self.graph.lazies[n].shadow.bind();
        let is_empty = shadow.getattr("shape")?.extract::<Vec<i64>>()? == [0];
        Ok((is_empty && !shadow.call_method0("_is_view")?.is_truthy()?).then_some(n))
    }

    /// `out=` of an empty tensor: it becomes the result of the call without it. Where torch's meta kernel lays the two out in different ways, only
    /// the real one knows.
    fn call_into_empty(
        &mut self,
        callee: &Shadow,
        (args, kwargs): (&[Val], &[(Obj, Val)]),
        n: usize,
        location: &str,
        state: &TorchState,
    ) -> Recorded<Val> {
        let out = self.graph.lazies[n].object.clone();
        let laid_out = self.resized_by(callee, args, kwargs, &self.graph.lazies[n].shadow.clone(), state)?;
        let result = self.torch_call_as_is(callee, args, kwargs, location, state)?;
        let result = self.in_type_of(&laid_out, result, location, state)?;
        let Some((node, shadow)) = self.made_alone(&result, &laid_out)? else {
            return Err(NotRecorded::Break(format!("{} gives its out= a size", callee.name())));
        };
        self.stand_for(n, node, shadow);
        let entry = &self.graph.lazies[n];
        reshape_lazy(&entry.object, &entry.shadow, &self.device()?)?;
        Ok(out.into())
    }

    /// The result in the type of another tensor.
    fn in_type_of(&mut self, like: &Obj, result: Val, location: &str, state: &TorchState) -> Recorded<Val> {
        let dtype = like.attr("dtype")?;
        if self.is_tensor(&result.obj) && !self.shadow(&result.obj)?.0.attr("dtype")?.is(&dtype) {
            let to = Shadow::Method(Obj::str("to"));
            return self.torch_call_as_is(&to, &[result, dtype.into()], &[], location, state);
        }
        Ok(result)
    }

    /// Node and shadow of a new tensor of this kind, whose memory nobody else sees.
    fn made_alone(&self, made: &Val, like: &Obj) -> Recorded<Option<(Obj, Obj)>> {
        let Origin::Lazy(n) = self.origin(&made.obj) else { return Ok(None) };
        let LazyEntry { node, shadow, .. } = &self.graph.lazies[n];
        let is_alike = layout_of(shadow) == layout_of(like) && shadow.attr("dtype")?.is(&like.attr("dtype")?);
        let is_view = shadow.bind().call_method0("_is_view")?.is_truthy()?;
        Ok((is_alike && !is_view).then(|| (node.clone(), shadow.clone())))
    }

    /// What the call makes of an empty tensor of the same type.
    fn resized_by(
        &mut self,
        callee: &Shadow,
        args: &[Val],
        kwargs: &[(Obj, Val)],
        like: &Obj,
        state: &TorchState,
    ) -> Recorded<Obj> {
        let empty = Obj::from(py().import("torch")?.call_method1("empty_like", (like.bind(),))?);
        let mut shadows = Vec::with_capacity(args.len());
        for arg in args {
            shadows.push(self.translate(&arg.obj)?.0);
        }
        let named = PyDict::new(py());
        for (key, value) in kwargs {
            named.set_item(key.bind(), self.translate(&value.obj)?.0.bind())?;
        }
        named.set_item("out", empty.bind())?;
        match self.do_on_shadows(callee, &callee.name(), &shadows, &named, state) {
            Ok(_) => Ok(empty),
            Err(error) => Err(NotRecorded::failed(&format!("{}: ", callee.name()), error)),
        }
    }

    /// The number that `torch.tensor` was given, if nobody has written the tensor since.
    fn number_made_here(&self, tensor: &Obj) -> Recorded<Option<Obj>> {
        let Origin::Lazy(n) = self.origin(tensor) else { return Ok(None) };
        let entry = &self.graph.lazies[n];
        let made_by = entry.node.attr("target")?;
        let is_tensor_call = made_by.attr("__name__").quiet().is_some_and(|name| name.to_str().as_deref() == Some("tensor"));
        let number = items_of(&entry.node.attr("args")?).into_iter().next().filter(|number| number.class_is(types().int));
        let is_index = entry.shadow.attr("dtype")?.text() == "torch.int64";
        let is_unwritten = entry
            .shadow
            .attr("_version")
            .quiet()
            .is_some_and(|version| version.bind().extract::<u64>().quiet().is_some_and(|v| v == 0));
        Ok(number.filter(|_| is_tensor_call && is_index && is_unwritten))
    }

    fn is_integer_by_zero(&mut self, tensor: &Obj, divisor: &Obj) -> Recorded<bool> {
        if !self.is_tensor(tensor) || !divisor.class_is(types().int) || divisor.truth()? {
            return Ok(false);
        }
        let dtype = self.shadow(tensor)?.0.attr("dtype")?;
        Ok(!dtype.attr("is_floating_point")?.truth()? && !dtype.attr("is_complex")?.truth()?)
    }
}

/// Whether a call fails where its second argument is zero. `div` does if it rounds.
fn divides_by_second(name: &str, kwargs: &[(Obj, Val)]) -> bool {
    let plain = plain(name);
    let rounds = || !matches!(plain, "div" | "divide") || !kwargs.is_empty();
    DIVISIONS.contains(&plain) && !plain.starts_with("__r") && rounds()
}
