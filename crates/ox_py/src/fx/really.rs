//! Calls that torch's fake kernels foretell another result of than its real ones give. What the graph says behind such a call follows from the
//! wrong shape or type: the whole of it is left to eager.

use super::call::Request;
use super::importer::Importer;
use super::refusal::Import;
use ox_ir::{Device, TensorType};
use ox_ops::{FrontValue, ValueOf};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

/// The most elements that a tensor is made with to find out.
const ELEMENTS: i64 = 1 << 20;

impl<'py> Importer<'py> {
    /// Whether torch itself has the table's result and not the one that it foretold. Asked where the two differ.
    pub(super) fn is_misled(&self, request: &Request<'py>, value: &FrontValue) -> Import<bool> {
        let (ValueOf::Tensor(tensor), Some(example)) = (value, &request.example) else { return Ok(false) };
        let ours = self.recorder.ty(*tensor);
        let Ok(real) = self.called_for_real(request, ours.device) else { return Ok(false) };
        let (Ok(real), Ok(fake)) = (Seen::of(&real), Seen::of(example)) else { return Ok(false) };
        Ok(real != fake && self.torch.dtype_of(real.dtype.bind(self.py)) == Some(ours.dtype) && real.fits(ours))
    }

    /// The call on zeros of the sizes and types of its arguments.
    fn called_for_real(&self, request: &Request<'py>, device: Device) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let without_fakes = py.import("torch._subclasses.fake_tensor")?.getattr("unset_fake_temporarily")?.call0()?;
        without_fakes.call_method0("__enter__")?;
        let result = self.call_on_zeros(&request.node, device);
        without_fakes.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
        result
    }

    fn call_on_zeros(&self, node: &Bound<'py, PyAny>, device: Device) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        let map_arg = py.import("torch.fx")?.getattr("map_arg")?;
        let device = match device {
            Device::Cuda(n) => format!("cuda:{n}"),
            _ => "cpu".to_string(),
        };
        let zeros = PyCFunction::new_closure(py, None, None, move |args, _| zeros_for(&args.get_item(0)?, &device))?;
        let args = map_arg.call1((node.getattr(intern!(py, "args"))?, &zeros))?.cast_into::<PyTuple>()?;
        let kwargs = map_arg.call1((node.getattr(intern!(py, "kwargs"))?, &zeros))?.cast_into::<PyDict>()?;
        let target = node.getattr(intern!(py, "target"))?;
        match node.getattr(intern!(py, "op"))?.extract::<&str>()? {
            "call_function" => target.call(args, Some(&kwargs)),
            "call_method" => {
                let method = args.get_item(0)?.getattr(target.extract::<&str>()?)?;
                method.call(args.get_slice(1, args.len()), Some(&kwargs))
            }
            _ => Err(PyValueError::new_err("a module")),
        }
    }
}

/// What stands for the value of a node.
fn zeros_for(node: &Bound<'_, PyAny>, device: &str) -> PyResult<Py<PyAny>> {
    let py = node.py();
    let meta = node.getattr(intern!(py, "meta"))?.cast_into::<PyDict>()?;
    let example = match meta.get_item("example_value")? {
        Some(example) => example,
        None => meta.get_item("val")?.ok_or_else(|| PyValueError::new_err("a node without an example"))?,
    };
    if !example.is_instance(&py.import("torch")?.getattr("Tensor")?)? {
        return Ok(plain(&example)?.unbind());
    }
    let sizes = sizes_of(&example)?;
    if sizes.iter().try_fold(1i64, |all, size| all.checked_mul(*size)).is_none_or(|all| all > ELEMENTS) {
        return Err(PyValueError::new_err("a large tensor"));
    }
    let options = PyDict::new(py);
    options.set_item("dtype", example.getattr(intern!(py, "dtype"))?)?;
    options.set_item("device", device)?;
    Ok(py.import("torch")?.call_method("zeros", (sizes,), Some(&options))?.unbind())
}

/// A size as it was when the graph was made. Asking for its hint is no guard.
fn plain<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if !value.is_instance(&py.import("torch")?.getattr("SymInt")?)? {
        return Ok(value.clone());
    }
    py.import("torch.fx.experimental.symbolic_shapes")?.getattr("hint_int")?.call1((value,))
}

fn sizes_of(tensor: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let shape = tensor.getattr(intern!(tensor.py(), "shape"))?;
    shape.try_iter()?.map(|size| plain(&size?)?.extract()).collect()
}

/// Shape and type of a tensor.
struct Seen {
    sizes: Vec<i64>,
    dtype: Py<PyAny>,
}

impl PartialEq for Seen {
    fn eq(&self, other: &Seen) -> bool {
        self.sizes == other.sizes && self.dtype.is(&other.dtype)
    }
}

impl Seen {
    fn of(tensor: &Bound<'_, PyAny>) -> PyResult<Seen> {
        Ok(Seen { sizes: sizes_of(tensor)?, dtype: tensor.getattr(intern!(tensor.py(), "dtype"))?.unbind() })
    }

    fn fits(&self, ty: &TensorType) -> bool {
        let fits = |(size, known): (&i64, &ox_ir::Sym)| known.as_const().is_none_or(|known| known == *size);
        self.sizes.len() == ty.rank() && self.sizes.iter().zip(&ty.shape).all(fits)
    }
}
