//! Autocast is recorded as conversions: a graph means the same wherever it runs, and runs without autocast.

use super::graph::{NotRecorded, Recorded, Shadow, tensors_in};
use super::{Origin, Recording};
use crate::found::Found;
use crate::obj::{Obj, entries_of, items_of, list_of, py, tuple_of};
use crate::state::Autocast;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use smallvec::SmallVec;

struct Functions {
    is_enabled: Obj,
    enable: Obj,
}

static FUNCTIONS: Found<Functions> = Found::new();

fn functions() -> PyResult<&'static Functions> {
    FUNCTIONS.or_try_find(|| {
        let torch = py().import("torch")?;
        Ok(Functions {
            is_enabled: torch.getattr("is_autocast_enabled")?.into(),
            enable: torch.getattr("set_autocast_enabled")?.into(),
        })
    })
}

/// Loaded where autocast is used: it needs torch's fake tensors.
fn conversion() -> PyResult<&'static Obj> {
    static CONVERSION: Found<Obj> = Found::new();
    CONVERSION
        .or_try_find(|| -> PyResult<Obj> { Ok(py().import("oxytorch._autocast")?.getattr("conversion_of_shadows")?.into()) })
}

/// No autocast, until it is dropped.
pub struct NoAutocast {
    /// The kinds of devices for which it was on.
    before: SmallVec<[&'static str; 2]>,
}

impl NoAutocast {
    pub fn new() -> PyResult<NoAutocast> {
        let mut guard = NoAutocast { before: SmallVec::new() };
        for kind in Autocast::KINDS {
            if functions()?.is_enabled.call(&[Obj::str(kind)], None)?.truth()? {
                guard.before.push(kind);
            }
        }
        guard.set(false)?;
        Ok(guard)
    }

    fn set(&self, enabled: bool) -> PyResult<()> {
        let enable = |kind: &&str| functions()?.enable.call(&[Obj::str(kind), Obj::bool(enabled)], None).map(drop);
        self.before.iter().try_for_each(enable)
    }
}

impl Drop for NoAutocast {
    fn drop(&mut self) {
        // Neither the function nor its arguments can be wrong.
        let _ = self.set(true);
    }
}

/// Positional arguments, and the others by name.
type Arguments = (Vec<Obj>, Vec<(Obj, Obj)>);

/// A tensor and the type that it was converted to.
pub type Conversion = (usize, usize);

impl Recording {
    /// The arguments of a call as autocast makes them; None if it does nothing to them.
    pub(super) fn convert(
        &mut self,
        callee: &Shadow,
        args: &[Obj],
        kwargs: &[(Obj, Obj)],
        autocast: &Autocast,
        location: &str,
    ) -> Recorded<Option<Arguments>> {
        let Some(target) = self.target(callee, args, kwargs, autocast)? else { return Ok(None) };
        if callee.is_in_place(&callee.name(), &PyDict::new(py()))
            || kwargs.iter().any(|(key, _)| key.to_str().as_deref() == Some("out"))
        {
            return Err(NotRecorded::Break(format!("{} writes what autocast converts", callee.name())));
        }
        let args = args.iter().map(|arg| self.converted(arg, &target, location)).collect::<Recorded<Vec<Obj>>>()?;
        let mut named = Vec::with_capacity(kwargs.len());
        for (key, value) in kwargs {
            named.push((key.clone(), self.converted(value, &target, location)?));
        }
        Ok(Some((args, named)))
    }

    /// The type that torch's own lists have for the call.
    fn target(&mut self, callee: &Shadow, args: &[Obj], kwargs: &[(Obj, Obj)], autocast: &Autocast) -> Recorded<Option<Obj>> {
        let function = match callee {
            Shadow::Function(function) => function.clone(),
            // SAFETY: types live as long as torch.
            Shadow::Method(name) => unsafe { Obj::borrowed(types().tensor.cast()) }.get_attr(name)?,
            Shadow::Attribute(_) => return Ok(None),
        };
        if args.iter().chain(kwargs.iter().map(|(_, value)| value)).all(|value| tensors_in(value).is_empty()) {
            return Ok(None);
        }
        let mut shadows = Vec::with_capacity(args.len());
        for arg in args {
            shadows.push(self.translate(arg)?.0);
        }
        let named = PyDict::new(py());
        for (key, value) in kwargs {
            named.set_item(key.bind(), self.translate(value)?.0.bind())?;
        }
        // Known only now: the arguments may be the first tensors of the graph.
        let kind = self.device()?.attr("type")?;
        let Some(dtype) = autocast.on(&kind.to_str().unwrap_or_default()) else { return Ok(None) };
        let call = [function, tuple_of(&shadows)?, named.into(), kind, dtype.clone()];
        let target = conversion()?.call(&call, None);
        let target = target.map_err(|error| NotRecorded::failed(&format!("{} under autocast: ", callee.name()), error))?;
        Ok((!target.is_none()).then_some(target))
    }

    fn converted(&mut self, object: &Obj, target: &Obj, location: &str) -> Recorded<Obj> {
        let types = types();
        if self.is_tensor(object) {
            return self.converted_tensor(object, target, location);
        }
        if tensors_in(object).is_empty() {
            return Ok(object.clone());
        }
        if let Origin::Outside(_) = self.origin(object) {
            self.know_whole(object, &mut 4096)?;
        }
        let made = if object.class_is(types.list) || object.class_is(types.tuple) {
            let items =
                items_of(object).iter().map(|item| self.converted(item, target, location)).collect::<Recorded<Vec<Obj>>>()?;
            if object.class_is(types.list) { list_of(&items)? } else { tuple_of(&items)? }
        } else if object.class_is(types.dict) {
            let dict = PyDict::new(py());
            for (key, value) in entries_of(object) {
                dict.set_item(key.bind(), self.converted(&value, target, location)?.bind())?;
            }
            dict.into()
        } else {
            return Err(NotRecorded::Break(format!("a {} of tensors under autocast", object.class_name())));
        };
        self.made(&made);
        Ok(made)
    }

    /// Each tensor is converted once, as autocast does it with weights.
    fn converted_tensor(&mut self, tensor: &Obj, target: &Obj, location: &str) -> Recorded<Obj> {
        let (shadow, _) = self.shadow(tensor)?;
        let dtype = shadow.attr("dtype")?;
        let is_float = shadow.bind().call_method0("is_floating_point")?.is_truthy()?;
        if !is_float || dtype.is(target) || dtype.text() == "torch.float64" {
            return Ok(tensor.clone());
        }
        let key = (tensor.id(), target.id());
        let version = shadow.attr("_version")?.bind().extract::<u64>()?;
        if let Some((known, converted)) = self.graph.conversions.get(&key)
            && *known == version
        {
            return Ok(converted.clone());
        }
        let to = Shadow::Method(Obj::str("to"));
        let converted = self.torch_call(&to, &[tensor.clone().into(), target.clone().into()], &[], location)?.obj;
        self.graph.conversions.insert(key, (version, converted.clone()));
        Ok(converted)
    }
}
