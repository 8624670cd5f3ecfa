//! The types and functions of CPython and torch that the machine compares with, looked up once.

use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use pyo3::ffi;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

pub type Type = *mut ffi::PyTypeObject;

macro_rules! types {
    ($($field:ident = $module:literal, $name:literal;)*) => {
        pub struct Types {
            $(pub $field: Type,)*
            scalars: FxHashSet<usize>,
            /// NumPy's numbers.
            numpy: Vec<Obj>,
            pinnable: FxHashSet<usize>,
            /// What the addresses point to.
            #[allow(dead_code)]
            keep: Vec<Obj>,
        }

        impl Types {
            fn load(py: Python<'_>) -> PyResult<Types> {
                let mut keep = Vec::new();
                $(let $field: Type = {
                    let object: Obj = find(py, $module, $name)?;
                    let class = object.ptr().cast();
                    keep.push(object);
                    class
                };)*
                let mut types = Types { $($field,)* scalars: FxHashSet::default(), numpy: Vec::new(), pinnable: FxHashSet::default(), keep };
                types.classify();
                Ok(types)
            }
        }
    };
}

types! {
    object = "builtins", "object";
    type_ = "builtins", "type";
    int = "builtins", "int";
    float = "builtins", "float";
    complex = "builtins", "complex";
    bool = "builtins", "bool";
    str = "builtins", "str";
    bytes = "builtins", "bytes";
    list = "builtins", "list";
    tuple = "builtins", "tuple";
    dict = "builtins", "dict";
    set = "builtins", "set";
    frozenset = "builtins", "frozenset";
    slice = "builtins", "slice";
    range = "builtins", "range";
    zip = "builtins", "zip";
    enumerate = "builtins", "enumerate";
    map = "builtins", "map";
    filter = "builtins", "filter";
    reversed = "builtins", "reversed";
    super_ = "builtins", "super";
    property = "builtins", "property";
    classmethod = "builtins", "classmethod";
    staticmethod = "builtins", "staticmethod";
    base_exception = "builtins", "BaseException";
    exception_group = "builtins", "BaseExceptionGroup";
    none = "types", "NoneType";
    ellipsis = "types", "EllipsisType";
    not_implemented = "types", "NotImplementedType";
    function = "types", "FunctionType";
    method = "types", "MethodType";
    builtin = "types", "BuiltinFunctionType";
    method_descriptor = "types", "MethodDescriptorType";
    wrapper_descriptor = "types", "WrapperDescriptorType";
    method_wrapper = "types", "MethodWrapperType";
    classmethod_descriptor = "types", "ClassMethodDescriptorType";
    getset = "types", "GetSetDescriptorType";
    member = "types", "MemberDescriptorType";
    code = "types", "CodeType";
    cell = "types", "CellType";
    module = "types", "ModuleType";
    mapping_proxy = "types", "MappingProxyType";
    namespace = "types", "SimpleNamespace";
    union = "types", "UnionType";
    generic_alias = "types", "GenericAlias";
    dict_keys = "_collections_abc", "dict_keys";
    dict_values = "_collections_abc", "dict_values";
    dict_items = "_collections_abc", "dict_items";
    partial = "functools", "partial";
    ordered_dict = "collections", "OrderedDict";
    default_dict = "collections", "defaultdict";
    deque = "collections", "deque";
    finfo = "torch", "finfo";
    iinfo = "torch", "iinfo";
    lru_cache = "functools", "_lru_cache_wrapper";
    script_function = "torch._C", "ScriptFunction";
    weak_reference = "weakref", "ReferenceType";
    context_var = "contextvars", "ContextVar";
    tuple_getter = "_collections", "_tuplegetter";
    tensor = "torch", "Tensor";
    parameter = "torch.nn", "Parameter";
    nn_module = "torch.nn", "Module";
    autograd_function = "torch.autograd", "Function";
    optimizer = "torch.optim", "Optimizer";
    size = "torch", "Size";
    dtype = "torch", "dtype";
    device = "torch", "device";
    layout = "torch", "layout";
    memory_format = "torch", "memory_format";
    attention_kernel = "torch._C", "_SDPBackend";
    op_overload = "torch._ops", "OpOverload";
    op_packet = "torch._ops", "OpOverloadPacket";
    higher_order_operator = "torch._ops", "HigherOrderOperator";
    type_var = "typing", "TypeVar";
    special_form = "typing", "_SpecialForm";
}

// SAFETY: the addresses are only compared, and `keep` holds what they point to.
unsafe impl Send for Types {}
unsafe impl Sync for Types {}

static TYPES: Found<Types> = Found::new();

/// The classes of NumPy's numbers, if it is there.
fn numpy_scalars() -> PyResult<Vec<Obj>> {
    let numpy = py().import("numpy")?;
    const NAMES: &str = "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128";
    NAMES.split(' ').map(|name| Ok(numpy.getattr(name)?.into())).collect()
}

fn find(py: Python<'_>, module: &str, name: &str) -> PyResult<Obj> {
    Ok(py.import(module)?.getattr(name)?.into())
}

/// Looked up when the first function is captured; the machine does not run before.
pub fn types() -> &'static Types {
    TYPES.get().expect("loaded by `load`")
}

pub fn load(py: Python<'_>) -> PyResult<()> {
    TYPES.or_try_find(|| Types::load(py)).map(|_| ())
}

impl Types {
    fn classify(&mut self) {
        let scalars = [
            self.int,
            self.float,
            self.complex,
            self.bool,
            self.str,
            self.bytes,
            self.none,
            self.ellipsis,
            self.not_implemented,
            self.dtype,
            self.layout,
            self.memory_format,
            self.device,
            self.attention_kernel,
            self.range,
            self.slice,
        ];
        self.scalars = scalars.into_iter().map(|t| t as usize).collect();
        self.numpy = numpy_scalars().quiet().unwrap_or_default();
        self.scalars.extend(self.numpy.iter().map(|class| class.id()));
        let pinnable = [
            self.type_,
            self.function,
            self.builtin,
            self.method_descriptor,
            self.wrapper_descriptor,
            self.classmethod_descriptor,
            self.getset,
            self.member,
            self.code,
            self.module,
            self.op_overload,
            self.op_packet,
            self.property,
            self.classmethod,
            self.staticmethod,
            self.union,
            self.generic_alias,
            self.type_var,
        ];
        self.pinnable = pinnable.into_iter().map(|t| t as usize).collect();
    }

    /// Compared by value, and never changed. A range or slice counts if what it is made of does.
    pub fn is_scalar(&self, object: &Obj) -> bool {
        self.scalars.contains(&(object.class_ptr() as usize))
    }

    /// A scalar that cannot be gone through.
    pub fn is_indivisible(&self, object: &Obj) -> bool {
        let rows = [self.str, self.bytes, self.range];
        self.is_scalar(object) && !rows.iter().any(|class| object.class_is(*class))
    }

    pub fn is_numpy_scalar(&self, object: &Obj) -> bool {
        self.numpy.iter().any(|class| object.class_is(class.ptr().cast()))
    }

    /// One of the few that a program has, guarded by identity: functions, classes, modules, and words such as `typing.Union`.
    pub fn is_pinnable(&self, object: &Obj) -> bool {
        self.pinnable.contains(&(object.class_ptr() as usize))
            || object.is_instance_of(self.type_)
            || object.is_instance_of(self.special_form)
    }

    pub fn is_tensor(&self, object: &Obj) -> bool {
        object.is_instance_of(self.tensor)
    }

    pub fn is_enum(&self, object: &Obj) -> bool {
        // SAFETY: a live object has a live type, whose type is live.
        let meta = unsafe { ffi::Py_TYPE(object.class_ptr().cast()) };
        // SAFETY: names of types are C strings that live with them.
        let name = unsafe { std::ffi::CStr::from_ptr((*meta).tp_name) };
        matches!(name.to_bytes(), b"EnumType" | b"EnumMeta")
    }
}
