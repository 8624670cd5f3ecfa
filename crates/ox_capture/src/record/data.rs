//! The data of `torch.tensor` and its like. Shadows hold none, so torch does not look at it there: what it refuses is found out by a trial.

use super::graph::{NotRecorded, Recorded};
use super::inspect::is_heap_type;
use super::{Recording, Val, parts_of};
use crate::obj::{DEEPEST, Obj, entries_of, items_of, list_of, py};
use crate::types::types;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;
use rustc_hash::FxHashSet;

impl Recording {
    /// Lists that are no tensor are torch's to refuse, where the program may keep the exception.
    pub(super) fn refuse_odd_data(&mut self, name: &str, args: &[Val], kwargs: &[(Obj, Val)]) -> Recorded<()> {
        let place = match name {
            "tensor" | "as_tensor" | "asarray" => 0,
            "new_tensor" => 1,
            _ => return Ok(()),
        };
        let named = |wanted: &[&str]| {
            let found = kwargs.iter().find(|(key, _)| key.to_str().is_some_and(|key| wanted.contains(&key.as_str())));
            found.map(|(_, value)| value.obj.clone())
        };
        let data = args.get(place).map(|data| data.obj.clone()).or_else(|| named(&["data", "obj"]));
        let Some(data) = data.filter(|data| !items_of(data).is_empty()) else { return Ok(()) };
        let dtype = match named(&["dtype"]).filter(|dtype| !dtype.is_none()) {
            None if name == "new_tensor" => self.shadow(&args[0].obj)?.0.attr("dtype")?,
            dtype => dtype.unwrap_or_else(Obj::none),
        };
        let is_whole = !dtype.is_none() && is_whole(&dtype)?;
        let numbers = self.without_tensors(&data, is_whole)?;
        let options = [("dtype", dtype.bind().clone()), ("device", intern!(py(), "cpu").clone().into_any())].into_py_dict(py())?;
        match py().import("torch")?.call_method("tensor", (numbers.bind(),), Some(&options)) {
            Ok(_) => Ok(()),
            Err(error) => Err(NotRecorded::failed(&format!("{name}: "), error)),
        }
    }

    /// With numbers in the place of tensors, which must be of one element. `is_whole`: for a type of whole numbers, which tensors of others are not asked for.
    fn without_tensors(&mut self, data: &Obj, is_whole: bool) -> Recorded<Obj> {
        let by_python = |why: &str| Err(NotRecorded::Break(format!("{why} among the data of a tensor")));
        if self.is_tensor(data) {
            let shadow = self.shadow(data)?.0;
            let kind = shadow.attr("dtype")?;
            let is_fraction = kind.attr("is_floating_point")?.truth()? || kind.attr("is_complex")?.truth()?;
            return match shadow.bind().call_method0("numel")?.extract::<usize>() {
                Ok(1) if !(is_whole && is_fraction) => Ok(Obj::int(0)),
                Ok(1) => by_python("a tensor of another type"),
                _ => by_python("a tensor of many elements"),
            };
        }
        // Its methods would be asked twice.
        if is_heap_type(&data.class()) && items_of(data).is_empty() {
            return by_python("an object of the program's");
        }
        let items = items_of(data);
        if items.is_empty() {
            return Ok(data.clone());
        }
        let items = items.iter().map(|item| self.without_tensors(item, is_whole)).collect::<Recorded<Vec<Obj>>>()?;
        Ok(list_of(&items)?)
    }
}

/// torch takes Python's own types for its types: `dtype=int`.
fn is_whole(dtype: &Obj) -> PyResult<bool> {
    if dtype.is_instance_of(types().type_) {
        return Ok(dtype.ptr() == types().int.cast() || dtype.ptr() == types().bool.cast());
    }
    Ok(!dtype.attr("is_floating_point")?.truth()? && !dtype.attr("is_complex")?.truth()?)
}

/// What an argument holds, as far as it is looked through.
fn held_by(data: &Obj) -> Vec<Obj> {
    match data.class_is(types().dict) {
        true => entries_of(data).into_iter().map(|(_, value)| value).collect(),
        false => parts_of(data),
    }
}

/// Lists that contain themselves, or very many others, are torch's to refuse: whoever walks through them here would not come back.
pub(super) fn refuse_endless(args: &[Val], kwargs: &[(Obj, Val)]) -> Recorded<()> {
    let mut values = args.iter().chain(kwargs.iter().map(|(_, value)| value));
    match values.any(|value| is_endless(&value.obj, &mut Vec::new(), &mut FxHashSet::default())) {
        true => Err(NotRecorded::Break("a list that contains itself among the arguments".to_string())),
        false => Ok(()),
    }
}

/// `path`: the lists that it lies in. `seen`: those that come to an end.
fn is_endless(data: &Obj, path: &mut Vec<usize>, seen: &mut FxHashSet<usize>) -> bool {
    let items = held_by(data);
    if items.is_empty() || seen.contains(&data.id()) {
        return false;
    }
    if path.contains(&data.id()) || path.len() > DEEPEST {
        return true;
    }
    path.push(data.id());
    let endless = items.iter().any(|item| is_endless(item, path, seen));
    path.pop();
    seen.insert(data.id());
    endless
}
