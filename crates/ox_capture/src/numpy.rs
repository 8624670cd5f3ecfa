//! What is known of NumPy. An array of numbers that the program makes from what it knows is data like a list: its functions run as they are.

use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, entries_of, py};
use pyo3::ffi;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

struct Numpy {
    array: Obj,
    scalar: Obj,
    dtype: Obj,
    pure: FxHashSet<usize>,
    _keep: Vec<Obj>,
}

/// Functions whose result follows from their arguments. Beside them all of NumPy's own ufuncs.
const PURE: &str = "array asarray ascontiguousarray copy zeros ones full zeros_like ones_like full_like arange linspace logspace \
    geomspace eye identity diag diagonal tri tril triu meshgrid indices sum prod mean std var median max min amax amin ptp any all \
    argmax argmin argsort sort lexsort searchsorted unique bincount histogram cumsum cumprod diff stack concatenate vstack hstack dstack \
    column_stack split array_split hsplit vsplit reshape ravel transpose swapaxes moveaxis expand_dims squeeze broadcast_to \
    broadcast_arrays repeat tile flip fliplr flipud roll rot90 pad where nonzero flatnonzero argwhere count_nonzero take \
    take_along_axis clip round around interp outer inner dot vdot tensordot einsum trace cross kron convolve array_equal allclose \
    isclose isin ndim shape size iscomplexobj isscalar result_type promote_types can_cast unravel_index ravel_multi_index \
    nan_to_num nansum nanmean nanmax nanmin \
    bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128";

/// Methods of arrays that do more than compute: they write files, or ask how often the array is held.
const LEFT: &[&str] =
    &["tofile", "dump", "dumps", "resize", "setflags", "__array__", "__reduce__", "__reduce_ex__", "__setstate__"];

fn numpy() -> Option<&'static Numpy> {
    static NUMPY: Found<Option<Numpy>> = Found::new();
    NUMPY.or_find(|| Numpy::load().quiet()).as_ref()
}

impl Numpy {
    fn load() -> PyResult<Numpy> {
        let module = py().import("numpy")?;
        let ufunc = module.getattr("ufunc")?;
        let (mut pure, mut keep) = (FxHashSet::default(), Vec::new());
        // The dict alone: asked by name, the module imports the rest of NumPy.
        for (name, found) in entries_of(&module.dict().into()) {
            let name = name.to_str().unwrap_or_default();
            if found.bind().is_instance(&ufunc)? || PURE.split_whitespace().any(|known| known == name) {
                pure.insert(found.id());
                keep.push(found);
            }
        }
        let class = |name: &str| -> PyResult<Obj> { Ok(module.getattr(name)?.into()) };
        Ok(Numpy { array: class("ndarray")?, scalar: class("generic")?, dtype: class("dtype")?, pure, _keep: keep })
    }
}

/// An array that is no subclass's.
pub fn is_array(object: &Obj) -> bool {
    numpy().is_some_and(|numpy| object.class_is(numpy.array.ptr().cast()))
}

/// An array or a number of NumPy's: its operators take whatever comes for an array of objects.
pub fn takes_objects(object: &Obj) -> bool {
    let is = |class: &Obj| object.is_instance_of(class.ptr().cast());
    numpy().is_some_and(|numpy| is(&numpy.array) || is(&numpy.scalar))
}

/// The class of arrays.
pub fn array_class() -> Option<Obj> {
    numpy().map(|numpy| numpy.array.clone())
}

pub fn is_dtype(object: &Obj) -> bool {
    numpy().is_some_and(|numpy| object.is_instance_of(numpy.dtype.ptr().cast()))
}

/// Whether an array holds numbers and no objects.
pub fn holds_numbers(array: &Obj) -> bool {
    let kind = array.attr("dtype").and_then(|dtype| dtype.attr("kind"));
    kind.quiet().is_some_and(|kind| kind.to_str().is_some_and(|kind| "biufc".contains(kind.as_str())))
}

pub fn is_pure(function: &Obj) -> bool {
    numpy().is_some_and(|numpy| numpy.pure.contains(&function.id()))
}

pub fn is_array_method(class: &Obj, name: &str) -> bool {
    numpy().is_some_and(|numpy| numpy.array.is(class)) && !LEFT.contains(&name)
}

/// `numpy.random.seed`: changes a state that only actions read, and returns nothing.
pub fn is_seed(function: &Obj) -> bool {
    if function.class_name() != "cython_function_or_method" {
        return false;
    }
    // SAFETY: the dict of loaded modules, borrowed.
    let modules = unsafe { Obj::borrowed(ffi::PyImport_GetModuleDict()) };
    let random = dict_get(&modules, &Obj::str("numpy.random"));
    random.and_then(|module| module.attr("seed").quiet()).is_some_and(|seed| seed.is(function))
}
