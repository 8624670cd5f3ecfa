//! The data of `torch.tensor` and its like. Shadows hold none, so torch does not look at it there: what it refuses is found out by a trial.

use super::graph::{NotRecorded, Recorded};
use super::{Recording, Val};
use crate::obj::{Obj, items_of, list_of, py};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

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
        let numbers = self.without_tensors(&data)?;
        let options = [("dtype", dtype.bind().clone()), ("device", intern!(py(), "cpu").clone().into_any())].into_py_dict(py())?;
        match py().import("torch")?.call_method("tensor", (numbers.bind(),), Some(&options)) {
            Ok(_) => Ok(()),
            Err(error) => Err(NotRecorded::failed(&format!("{name}: "), error)),
        }
    }

    /// With numbers in the place of tensors, which must be of one element.
    fn without_tensors(&mut self, data: &Obj) -> Recorded<Obj> {
        if self.is_tensor(data) {
            let shadow = self.shadow(data)?.0;
            return match shadow.bind().call_method0("numel")?.extract::<usize>() {
                Ok(1) => Ok(Obj::int(0)),
                _ => Err(NotRecorded::Break("a tensor of many elements among the data of another".to_string())),
            };
        }
        let items = items_of(data);
        if items.is_empty() {
            return Ok(data.clone());
        }
        let items = items.iter().map(|item| self.without_tensors(item)).collect::<Recorded<Vec<Obj>>>()?;
        Ok(list_of(&items)?)
    }
}
