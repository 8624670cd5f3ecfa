//! The objects of the `torch` package that we compare with and call, looked up once.

use ox_capture::Found;
use ox_ir::{DType, Device};
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use rustc_hash::FxHashMap;

pub struct Torch {
    pub tensor: Py<PyType>,
    pub parameter: Py<PyType>,
    pub sym_int: Py<PyType>,
    pub sym_float: Py<PyType>,
    pub sym_bool: Py<PyType>,
    pub device: Py<PyType>,
    pub fx_node: Py<PyType>,
    pub op_overload: Py<PyType>,
    pub op_overload_packet: Py<PyType>,
    /// By the address of the dtype object; these live as long as torch does.
    dtypes: FxHashMap<usize, DType>,
    dtype_objects: Vec<(DType, Py<PyAny>)>,
    /// torch's numbers of memory formats and layouts, by object address, and back.
    enums: Vec<(EnumKind, i32, Py<PyAny>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EnumKind {
    MemoryFormat,
    Layout,
}

static TORCH: Found<Torch> = Found::new();

const DTYPES: [(DType, &str); 12] = [
    (DType::Bool, "bool"),
    (DType::U8, "uint8"),
    (DType::I8, "int8"),
    (DType::I16, "int16"),
    (DType::I32, "int32"),
    (DType::I64, "int64"),
    (DType::F16, "float16"),
    (DType::BF16, "bfloat16"),
    (DType::F32, "float32"),
    (DType::F64, "float64"),
    (DType::C64, "complex64"),
    (DType::C128, "complex128"),
];

/// The numbers are c10's, which the C ABI uses too.
const ENUMS: [(EnumKind, i32, &str); 6] = [
    (EnumKind::MemoryFormat, 0, "contiguous_format"),
    (EnumKind::MemoryFormat, 1, "preserve_format"),
    (EnumKind::MemoryFormat, 2, "channels_last"),
    (EnumKind::MemoryFormat, 3, "channels_last_3d"),
    (EnumKind::Layout, 0, "strided"),
    (EnumKind::Layout, 1, "sparse_coo"),
];

impl Torch {
    pub fn get(py: Python<'_>) -> PyResult<&Torch> {
        TORCH.or_try_find(|| Torch::load(py))
    }

    fn load(py: Python<'_>) -> PyResult<Torch> {
        let torch = py.import("torch")?;
        let class = |module: &str, name: &str| -> PyResult<Py<PyType>> {
            let object = py.import(module)?.getattr(name)?;
            Ok(object
                .cast_into::<PyType>()
                .map_err(|_| PyImportError::new_err(format!("{module}.{name} is not a class")))?
                .unbind())
        };
        let mut dtypes = FxHashMap::default();
        let mut dtype_objects = Vec::new();
        for (dtype, name) in DTYPES {
            let object = torch.getattr(name)?;
            dtypes.insert(object.as_ptr() as usize, dtype);
            dtype_objects.push((dtype, object.unbind()));
        }
        let mut enums = Vec::new();
        for (kind, number, name) in ENUMS {
            enums.push((kind, number, torch.getattr(name)?.unbind()));
        }
        Ok(Torch {
            tensor: class("torch", "Tensor")?,
            parameter: class("torch.nn", "Parameter")?,
            sym_int: class("torch", "SymInt")?,
            sym_float: class("torch", "SymFloat")?,
            sym_bool: class("torch", "SymBool")?,
            device: class("torch", "device")?,
            fx_node: class("torch.fx", "Node")?,
            op_overload: class("torch._ops", "OpOverload")?,
            op_overload_packet: class("torch._ops", "OpOverloadPacket")?,
            dtypes,
            dtype_objects,
            enums,
        })
    }

    /// None for the types that we have no name for (quantised, float8, unsigned of more than 8 bits).
    pub fn dtype_of(&self, object: &Bound<'_, PyAny>) -> Option<DType> {
        self.dtypes.get(&(object.as_ptr() as usize)).copied()
    }

    pub fn dtype_object<'py>(&self, py: Python<'py>, dtype: DType) -> Bound<'py, PyAny> {
        let (_, object) = self.dtype_objects.iter().find(|(d, _)| *d == dtype).expect("every dtype has an object");
        object.bind(py).clone()
    }

    pub fn enum_number(&self, object: &Bound<'_, PyAny>) -> Option<(EnumKind, i32)> {
        self.enums.iter().find(|(_, _, o)| o.is(object)).map(|(kind, number, _)| (*kind, *number))
    }

    pub fn enum_object<'py>(&self, py: Python<'py>, kind: EnumKind, number: i32) -> Option<Bound<'py, PyAny>> {
        self.enums.iter().find(|(k, n, _)| (*k, *n) == (kind, number)).map(|(_, _, object)| object.bind(py).clone())
    }
}

pub fn device_of(object: &Bound<'_, PyAny>) -> PyResult<Device> {
    let py = object.py();
    let kind = object.getattr(pyo3::intern!(py, "type"))?;
    match kind.extract::<&str>()? {
        "cpu" => Ok(Device::Cpu),
        "cuda" => {
            let index = object.getattr(pyo3::intern!(py, "index"))?.extract::<Option<u8>>()?;
            Ok(Device::Cuda(index.unwrap_or(0)))
        }
        _ => Ok(Device::Other),
    }
}

pub fn device_object<'py>(py: Python<'py>, device: Device) -> PyResult<Bound<'py, PyAny>> {
    let class = Torch::get(py)?.device.bind(py);
    match device {
        Device::Cpu => class.call1(("cpu",)),
        Device::Cuda(index) => class.call1(("cuda", index)),
        Device::Other => Err(pyo3::exceptions::PyNotImplementedError::new_err("a device that is neither CPU nor CUDA")),
    }
}
