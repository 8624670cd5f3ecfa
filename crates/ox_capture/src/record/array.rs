//! NumPy's arrays in a trace: how they are made again, and as tensors.

use super::graph::{NotRecorded, Recorded, tensors_in};
use super::inspect::Inspection;
use super::{Origin, Rec, Recording, Val, abandon};
use crate::interrupt::Quiet;
use crate::numpy;
use crate::obj::{Obj, items_of, py};
use crate::recipe::{Recipe, Rest, Shape};
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Arrays that are larger do not become constants of a graph.
const LARGE: usize = 1 << 16;

/// The arguments of a call, by place and by name.
type Arguments = (Vec<Val>, Vec<(Obj, Val)>);

impl Recording {
    /// An array is a copy of what it is now; one that shows another's memory is made on that one.
    pub(super) fn array_shape(&self, array: &Obj, found: &mut Inspection) -> Rec<Option<Shape>> {
        if !numpy::is_array(array) {
            return Ok(None);
        }
        let (Some(class), Ok(base)) = (numpy::array_class(), array.attr("base")) else { return Ok(None) };
        if !numpy::holds_numbers(array) || !has_flag(array, "writeable") {
            return abandon("an array of NumPy's that holds objects or cannot be written");
        }
        let made = |by: Obj, args| Ok(Some(Shape::Made { by: Recipe::Const(by), args, names: vec![], rest: Rest::default() }));
        let lost = |error: PyErr| super::Abandon(error.to_string());
        if base.is_none() {
            let copy = class.attr("__copy__").map_err(lost)?;
            let now = copy.call(std::slice::from_ref(array), None).map_err(lost)?;
            return made(copy, vec![Recipe::Const(now)]);
        }
        if !numpy::is_array(&base) || !has_flag(&base, "c_contiguous") {
            return abandon("an array of NumPy's on memory that is not its own");
        }
        let constant = |name: &str| array.attr(name).map(Recipe::Const).map_err(lost);
        let offset = address(array).and_then(|own| Ok(Obj::int(own - address(&base)?))).map_err(lost)?;
        let memory = match self.origin(&base) {
            Origin::Unknown => self.recipe_of_made(&base, found)?,
            _ => self.recipe_of(&base, found)?,
        };
        made(class, vec![constant("shape")?, constant("dtype")?, memory, Recipe::Const(offset), constant("strides")?])
    }

    /// `torch.tensor` and its like, with numbers of NumPy's among the data: the type of those counts.
    pub(super) fn type_of_numbers(&self, args: &[Val], kwargs: &[(Obj, Val)]) -> Recorded<Option<Arguments>> {
        let Some(data) = args.first().map(|arg| &arg.obj).filter(|data| holds_numpy(data)) else { return Ok(None) };
        if is_typed(kwargs) || !tensors_in(data).is_empty() {
            return Ok(None);
        }
        let dtype = py().import("torch")?.call_method1("tensor", (data.bind(),))?.getattr("dtype")?;
        Ok(Some((args.to_vec(), with_dtype(kwargs, dtype.into()))))
    }

    fn is_own_array(&self, object: &Obj) -> bool {
        numpy::is_array(object) && self.origin(object) == Origin::Made
    }

    /// `torch.tensor` of an array that the program made is that of its numbers, in the type that torch has for them.
    pub(super) fn numbers_of_array(&self, args: &[Val], kwargs: &[(Obj, Val)]) -> Recorded<Option<Arguments>> {
        let Some(array) = args.first().map(|arg| &arg.obj).filter(|array| self.is_own_array(array)) else { return Ok(None) };
        let size: usize = array.bind().getattr("size")?.extract()?;
        if size == 0 || size > LARGE {
            return Err(NotRecorded::Break(format!("a tensor of an array of {size} numbers")));
        }
        let numbers = Obj::from(array.bind().call_method0("tolist")?);
        let mut args = args.to_vec();
        args[0] = numbers.into();
        let kwargs = if is_typed(kwargs) { kwargs.to_vec() } else { with_dtype(kwargs, torch_dtype(array)?) };
        Ok(Some((args, kwargs)))
    }
}

fn is_dtype_name(name: &Obj) -> bool {
    name.to_str().as_deref() == Some("dtype")
}

fn is_typed(kwargs: &[(Obj, Val)]) -> bool {
    kwargs.iter().any(|(name, value)| is_dtype_name(name) && !value.obj.is_none())
}

fn with_dtype(kwargs: &[(Obj, Val)], dtype: Obj) -> Vec<(Obj, Val)> {
    let others = kwargs.iter().filter(|(name, _)| !is_dtype_name(name)).cloned();
    others.chain([(Obj::str("dtype"), dtype.into())]).collect()
}

/// A number of NumPy's, or a list with one inside.
fn holds_numpy(data: &Obj) -> bool {
    types().is_numpy_scalar(data) || items_of(data).iter().any(holds_numpy)
}

fn has_flag(array: &Obj, name: &str) -> bool {
    array.attr("flags").and_then(|flags| flags.attr(name)?.truth()).quiet().unwrap_or(false)
}

fn address(array: &Obj) -> PyResult<i64> {
    let interface = array.attr("__array_interface__")?;
    interface.bind().get_item("data")?.get_item(0)?.extract()
}

fn torch_dtype(array: &Obj) -> PyResult<Obj> {
    let options = PyDict::new(py());
    options.set_item("dtype", array.attr("dtype")?.bind())?;
    let empty = py().import("numpy")?.getattr("empty")?.call((0,), Some(&options))?;
    Ok(py().import("torch")?.call_method1("from_numpy", (empty,))?.getattr("dtype")?.into())
}
