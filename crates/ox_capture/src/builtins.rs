//! What is known of callables by their identity: which functions of C are pure, which are torch's, which the machine does itself.

use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, py};
use crate::record::DONE_FOR_REAL;
use crate::types::types;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

/// Callables that the machine does itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    Len,
    IsInstance,
    IsSubclass,
    Callable,
    HasAttr,
    GetAttr,
    SetAttr,
    DelAttr,
    Next,
    Iter,
    Any,
    All,
    Sum,
    Min,
    Max,
    Sorted,
    Vars,
    Format,
    /// Reads a mode of torch's, which is checked by asking again.
    State,
    /// Reads the grad mode, inference mode or default type, which is checked at the beginning and changed by the program.
    Mode,
    SetMode,
    /// Changes what torch's libraries do, which a graph is told by the process: it stands between two graphs.
    SetLibrary,
    /// A context manager that keeps the mode that it has entered.
    EnterMode,
    LeaveMode,
    /// Reads autocast's state, which is checked at the beginning and changed by the program.
    Autocast,
    SetAutocast,
    /// `has_torch_function` and its like: lazy tensors are plain ones to the program.
    No,
    /// Looks at the frames of its callers.
    OfCallers,
    /// `logging.Logger.isEnabledFor`
    IsEnabled,
    /// `logging.Logger.info` and its like.
    Logs,
    /// `inspect.signature`, of a function that is pinned.
    Signature,
    /// `copy.copy` and `copy.deepcopy`
    Copy,
    /// `torch.autograd.Function.apply`
    Apply,
    /// The program is being compiled.
    Yes,
    /// Gives back its first argument: the beginning of a range that only profilers look at.
    Itself,
    /// Sorts tensors by device and type, which are relied on.
    Grouped,
    /// `torch.optim`'s way to the value of a step counter.
    Value,
    /// How a size is made of another.
    SizeOf,
    /// Does nothing that matters.
    Nothing,
    /// Gives the same object for the same name.
    ByName,
}

/// Functions that, without arguments that say otherwise, are about the frame that calls them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameFunction {
    Globals,
    Locals,
    /// Those of its variables.
    Names,
    Evaluate,
    ExceptionInfo,
    Exception,
}

const FRAME: &[(&str, &str, FrameFunction)] = &[
    ("builtins", "globals", FrameFunction::Globals),
    ("builtins", "locals", FrameFunction::Locals),
    ("builtins", "vars", FrameFunction::Locals),
    ("builtins", "dir", FrameFunction::Names),
    ("builtins", "eval", FrameFunction::Evaluate),
    ("builtins", "exec", FrameFunction::Evaluate),
    ("sys", "exc_info", FrameFunction::ExceptionInfo),
    ("sys", "exception", FrameFunction::Exception),
];

struct Tables {
    known: FxHashMap<usize, Known>,
    pure: FxHashSet<usize>,
    /// Of those, the ones that do not look at the values of a dict.
    of_keys: FxHashSet<usize>,
    operators: FxHashSet<usize>,
    torch: FxHashSet<usize>,
    frame: FxHashMap<usize, FrameFunction>,
    data: FxHashSet<usize>,
    combinatoric: FxHashSet<usize>,
    tensor_base: usize,
    keep: Vec<Obj>,
}

static TABLES: Found<Tables> = Found::new();

const KNOWN: &[(&str, &str, Known)] = &[
    ("builtins", "len", Known::Len),
    ("builtins", "isinstance", Known::IsInstance),
    ("builtins", "issubclass", Known::IsSubclass),
    ("builtins", "callable", Known::Callable),
    ("builtins", "hasattr", Known::HasAttr),
    ("builtins", "getattr", Known::GetAttr),
    ("builtins", "setattr", Known::SetAttr),
    ("builtins", "delattr", Known::DelAttr),
    ("builtins", "next", Known::Next),
    ("builtins", "iter", Known::Iter),
    ("builtins", "any", Known::Any),
    ("builtins", "all", Known::All),
    ("builtins", "sum", Known::Sum),
    ("builtins", "min", Known::Min),
    ("builtins", "max", Known::Max),
    ("builtins", "sorted", Known::Sorted),
    ("builtins", "vars", Known::Vars),
    ("builtins", "format", Known::Format),
    ("builtins", "repr", Known::Format),
    ("torch", "is_grad_enabled", Known::Mode),
    ("torch", "is_inference_mode_enabled", Known::Mode),
    ("torch", "get_default_dtype", Known::Mode),
    ("torch", "get_default_device", Known::Mode),
    ("torch", "is_autocast_enabled", Known::Autocast),
    ("torch", "is_autocast_cpu_enabled", Known::Autocast),
    ("torch", "get_autocast_dtype", Known::Autocast),
    ("torch", "is_autocast_cache_enabled", Known::Autocast),
    ("torch", "autocast_increment_nesting", Known::SetAutocast),
    ("torch", "autocast_decrement_nesting", Known::SetAutocast),
    ("torch", "clear_autocast_cache", Known::SetAutocast),
    ("torch", "set_autocast_enabled", Known::SetAutocast),
    ("torch", "set_autocast_dtype", Known::SetAutocast),
    ("torch", "set_autocast_cache_enabled", Known::SetAutocast),
    ("torch._C", "_is_autocast_available", Known::State),
    ("torch.cuda", "is_bf16_supported", Known::State),
    ("torch.cuda.amp.common", "amp_definitely_not_available", Known::State),
    ("torch._C", "_get_privateuse1_backend_name", Known::State),
    ("torch._C", "_get_tracing_state", Known::State),
    ("torch._C", "_are_functorch_transforms_active", Known::State),
    ("torch._C", "_is_tracing", Known::State),
    ("torch._C", "_jit_get_nvfuser_enabled", Known::State),
    ("torch._C", "_get_deterministic_algorithms", Known::State),
    ("torch._C", "_get_cudnn_enabled", Known::State),
    ("torch._C", "_get_mkldnn_enabled", Known::State),
    ("torch._C", "_get_cudnn_benchmark", Known::State),
    ("torch._C", "_cuda_get_cudnn_benchmark_limit", Known::State),
    ("torch._C", "_get_cudnn_deterministic", Known::State),
    ("torch._C", "_get_cudnn_allow_tf32", Known::State),
    ("torch._C", "_get_cudnn_sdp_enabled", Known::State),
    ("torch._C", "_get_overrideable_sdp_enabled", Known::State),
    ("torch._C", "_get_mkldnn_deterministic", Known::State),
    ("torch._C", "_get_onednn_allow_tf32", Known::State),
    ("torch._C", "_get_fp32_precision_getter", Known::State),
    ("torch._C", "_get_float32_matmul_precision", Known::State),
    ("torch._C", "_get_cublas_allow_tf32", Known::State),
    ("torch._C", "_get_cublas_allow_fp16_reduced_precision_reduction", Known::State),
    ("torch._C", "_get_cublas_allow_bf16_reduced_precision_reduction", Known::State),
    ("torch._C", "_get_cublas_allow_fp16_accumulation", Known::State),
    ("torch._C", "_get_deterministic_algorithms_warn_only", Known::State),
    ("torch._C", "_get_nnpack_enabled", Known::State),
    ("torch._C", "_get_flash_sdp_enabled", Known::State),
    ("torch._C", "_get_math_sdp_enabled", Known::State),
    ("torch._C", "_get_mem_efficient_sdp_enabled", Known::State),
    ("torch._C", "_is_torch_function_enabled", Known::State),
    ("torch._C", "_len_torch_function_stack", Known::State),
    ("torch._C", "_is_torch_function_mode_enabled", Known::State),
    ("torch._C", "_len_torch_dispatch_stack", Known::State),
    ("torch._C", "_get_default_device", Known::State),
    ("torch._C", "_get_privateuse1_backend_name", Known::State),
    ("torch._C", "_set_grad_enabled", Known::SetMode),
    ("torch._C", "_set_default_dtype", Known::SetMode),
    ("torch.autograd.grad_mode", "inference_mode.__enter__", Known::EnterMode),
    ("torch.autograd.grad_mode", "inference_mode.__exit__", Known::LeaveMode),
    ("torch.nn.attention", "_sdpa_kernel", Known::SetLibrary),
    ("torch.backends.cudnn", "set_flags", Known::SetLibrary),
    ("torch.backends.mkldnn", "set_flags", Known::SetLibrary),
    ("torch", "device.__enter__", Known::EnterMode),
    ("torch", "device.__exit__", Known::LeaveMode),
    ("torch._C", "_has_torch_function", Known::No),
    ("torch._C", "_has_torch_function_unary", Known::No),
    ("torch._C", "_has_torch_function_variadic", Known::No),
    ("torch._C", "_log_api_usage_once", Known::Nothing),
    ("inspect", "signature", Known::Signature),
    ("logging", "getLogger", Known::ByName),
    ("logging", "Logger.isEnabledFor", Known::IsEnabled),
    ("logging", "Logger.debug", Known::Logs),
    ("logging", "Logger.info", Known::Logs),
    ("logging", "Logger.warning", Known::Logs),
    ("logging", "Logger.error", Known::Logs),
    ("logging", "Logger.critical", Known::Logs),
    ("_warnings", "_filters_mutated", Known::SetMode),
    ("warnings", "warn", Known::OfCallers),
    ("sys", "_getframe", Known::OfCallers),
    ("sys", "_getframemodulename", Known::OfCallers),
    ("copy", "copy", Known::Copy),
    ("copy", "deepcopy", Known::Copy),
    ("torch._C", "_cuda_isCurrentStreamCapturing", Known::State),
    ("torch._C", "_cuda_getDeviceCount", Known::State),
    ("oxytorch._oxytorch", "size_relation", Known::SizeOf),
    ("torch.compiler", "is_compiling", Known::Yes),
    ("torch.compiler", "is_dynamo_compiling", Known::Yes),
    ("torch._utils", "is_compiling", Known::Yes),
    ("torch.autograd.profiler", "record_function.__enter__", Known::Itself),
    ("torch.autograd.profiler", "record_function.__exit__", Known::Nothing),
    ("torch._C", "_group_tensors_by_device_and_dtype", Known::Grouped),
    ("torch.optim.optimizer", "_get_value", Known::Value),
    ("torch.optim.optimizer", "_stack_if_compiling", Known::Itself),
];

const PURE: &[(&str, &str)] = &[
    ("builtins", "abs ascii bin chr divmod hash hex oct ord pow round"),
    ("math", ""),
    ("_operator", ""),
    ("torch", "is_same_size result_type promote_types can_cast"),
    ("posixpath", ""),
    ("sys", "intern"),
];

/// Classes in C whose objects keep what they are given and ask it nothing, and that `__reduce_ex__` describes.
const DATA: &[(&str, &str)] = &[
    ("builtins", "bytearray"),
    ("collections", "deque defaultdict"),
    ("types", "SimpleNamespace"),
    ("operator", "itemgetter attrgetter methodcaller"),
    ("decimal", "Decimal"),
    ("datetime", "date datetime time timedelta"),
    ("array", "array"),
];

/// Classes of the standard library whose objects never change, and are equal and hashed by what they are alone.
const VALUES: &[(&str, &str)] = &[
    ("decimal", "Decimal"),
    ("fractions", "Fraction"),
    ("pathlib", "PosixPath WindowsPath PurePosixPath PureWindowsPath"),
    ("datetime", "date datetime time timedelta timezone"),
    ("uuid", "UUID"),
];

/// Whether it is an object of one of them. No module is loaded for that.
pub fn is_value(object: &Obj) -> bool {
    let class = object.class();
    let name = object.class_name();
    let is_named = |names: &str| names.split(' ').any(|known| known == name);
    let module = VALUES.iter().find(|(_, names)| is_named(names)).and_then(|(module, _)| {
        // SAFETY: a borrowed reference to a dict.
        let modules = unsafe { Obj::borrowed(pyo3::ffi::PyImport_GetModuleDict()) };
        crate::obj::dict_get(&modules, &Obj::str(module))
    });
    module
        .is_some_and(|module| module.attr(&name).quiet().is_some_and(|known| known.is(&class)) && has_known_zone(object, &module))
}

/// A zone of a class of the program's says itself what a date in it is.
fn has_known_zone(object: &Obj, module: &Obj) -> bool {
    let Some(zone) = object.attr("tzinfo").quiet() else { return true };
    zone.is_none() || module.attr("timezone").quiet().is_some_and(|known| zone.class().is(&known))
}

/// Whether operators on it look at more than their operands: the precision and rounding of decimals are settings of a thread.
pub fn is_by_settings(object: &Obj) -> bool {
    object.class_name() == "Decimal" && is_value(object)
}

/// Bound in C, where functions are torch's operators.
const TORCH: &[&str] = &["_VariableFunctions", "_nn", "_special", "_linalg", "_fft"];

fn tables() -> &'static Tables {
    TABLES.get().expect("loaded with the types")
}

pub fn load(py: Python<'_>) -> PyResult<()> {
    TABLES.or_try_find(|| Tables::load(py)).map(|_| ())
}

impl Tables {
    fn load(py: Python<'_>) -> PyResult<Tables> {
        let mut tables = Tables {
            known: FxHashMap::default(),
            pure: FxHashSet::default(),
            of_keys: FxHashSet::default(),
            operators: FxHashSet::default(),
            torch: FxHashSet::default(),
            frame: FxHashMap::default(),
            data: FxHashSet::default(),
            combinatoric: FxHashSet::default(),
            tensor_base: 0,
            keep: Vec::new(),
        };
        for (module, name, known) in KNOWN {
            // What this version lacks is called by nobody.
            let module = py.import(*module).map(|m| m.into_any());
            if let Ok(object) = name.split('.').fold(module, |at, part| at?.getattr(part)) {
                tables.known.insert(object.as_ptr() as usize, *known);
                tables.keep.push(object.into());
            }
        }
        let apply: Obj = py.import("torch.autograd")?.getattr("Function")?.getattr("apply")?.getattr("__func__")?.into();
        tables.known.insert(apply.id(), Known::Apply);
        tables.keep.push(apply);
        for (module, names) in PURE {
            let module = py.import(*module)?;
            let names: Vec<String> = match names.is_empty() {
                true => module.dir()?.extract()?,
                false => names.split(' ').map(str::to_string).collect(),
            };
            for name in names {
                tables.add_pure(&module, &name)?;
            }
        }
        let core = py.import("torch._C")?;
        for namespace in TORCH {
            let namespace = core.getattr(*namespace)?;
            for name in namespace.dir()?.extract::<Vec<String>>()? {
                let object = namespace.getattr(name.as_str())?;
                if Obj::from(&object).class_is(types().builtin) && !name.starts_with("__") {
                    tables.torch.insert(object.as_ptr() as usize);
                    tables.keep.push(object.into());
                }
            }
        }
        // The functions that `torch` exports are other objects than those of the class.
        for name in py.import("torch")?.dir()?.extract::<Vec<String>>()? {
            let object: Obj = py.import("torch")?.getattr(name.as_str())?.into();
            let is_operator = object.class_is(types().builtin)
                && !name.starts_with("__")
                && object.attr("__self__").quiet().is_some_and(|owner| owner.is_instance_of(types().type_));
            if is_operator || ["tensor", "as_tensor"].contains(&name.as_str()) {
                tables.torch.insert(object.id());
                tables.keep.push(object);
            }
        }
        for (module, name, function) in FRAME {
            let object: Obj = py.import(*module)?.getattr(*name)?.into();
            tables.frame.insert(object.id(), *function);
            tables.keep.push(object);
        }
        for name in ["product", "permutations", "combinations", "combinations_with_replacement"] {
            let class: Obj = py.import("itertools")?.getattr(name)?.into();
            tables.combinatoric.insert(class.id());
            tables.keep.push(class);
        }
        for (module, names) in DATA {
            for name in names.split(' ') {
                let class: Obj = py.import(*module)?.getattr(name)?.into();
                tables.data.insert(class.id());
                tables.keep.push(class);
            }
        }
        for (class, method) in [("str", "maketrans"), ("bytes", "maketrans")] {
            let function: Obj = py.import("builtins")?.getattr(class)?.getattr(method)?.into();
            tables.pure.insert(function.id());
            tables.keep.push(function);
        }
        tables.tensor_base = core.getattr("TensorBase")?.as_ptr() as usize;
        Ok(tables)
    }

    fn add_pure(&mut self, module: &Bound<'_, PyModule>, name: &str) -> PyResult<()> {
        let object: Obj = module.getattr(name)?.into();
        let is_function = object.class_is(types().builtin);
        if !is_function || self.known.contains_key(&object.id()) {
            return Ok(());
        }
        // What `operator.call` does is up to its argument.
        if module.name()? == "_operator" && name == "call" {
            return Ok(());
        }
        if module.name()? == "_operator" {
            self.operators.insert(object.id());
            // These change their first argument.
            if name.starts_with('i') && name != "invert" && name != "inv" && name != "index" && name != "indexOf" && name != "is_"
            {
                return Ok(());
            }
            if matches!(name, "setitem" | "delitem" | "is_" | "is_not" | "iconcat") {
                return Ok(());
            }
            if matches!(name, "contains" | "not_" | "truth") {
                self.of_keys.insert(object.id());
            }
        }
        self.pure.insert(object.id());
        self.keep.push(object);
        Ok(())
    }
}

pub fn known(object: &Obj) -> Option<Known> {
    tables().known.get(&object.id()).copied()
}

/// A function of C whose result depends on the data in its arguments only.
pub fn is_pure(object: &Obj) -> bool {
    tables().pure.contains(&object.id())
}

/// Its result follows from scalars and the items of dicts alone.
pub fn reads_data_only(object: &Obj) -> bool {
    is_pure(object) || reads_keys_only(object)
}

/// Of dicts, its result follows from which keys they have, in whatever order.
pub fn reads_keys_only(object: &Obj) -> bool {
    known(object) == Some(Known::Len) || tables().of_keys.contains(&object.id())
}

pub fn operator_on(object: &Obj) -> bool {
    tables().operators.contains(&object.id())
}

pub fn frame_function(object: &Obj) -> Option<FrameFunction> {
    tables().frame.get(&object.id()).copied()
}

/// Iterators over tuples of what they are given.
pub fn is_combinatoric(class: &Obj) -> bool {
    tables().combinatoric.contains(&class.id())
}

pub fn is_data_class(class: &Obj) -> bool {
    tables().data.contains(&class.id())
}

pub fn is_torch(object: &Obj) -> bool {
    tables().torch.contains(&object.id())
}

pub fn is_tensor_class(class: &Obj) -> bool {
    class.id() == tables().tensor_base || class.ptr() == types().tensor.cast()
}

/// A class of torch's that is written in C: what making one does is not seen.
pub fn is_torch_class(class: &Obj) -> bool {
    crate::recipe::is_subtype(class, types().tensor)
}

pub fn is_pure_class_method(owner: &Obj, name: &str) -> bool {
    (owner.ptr() == types().dict.cast() && name == "fromkeys")
        || (owner.ptr() == types().str.cast() && name == "maketrans")
        || (owner.ptr() == types().float.cast() && name == "fromhex")
        || (owner.ptr() == types().int.cast() && name == "from_bytes")
}

fn module_of(function: &Obj) -> String {
    function.attr("__module__").ok().and_then(|m| m.to_str()).unwrap_or_default()
}

/// A function of torch's (or of the machine's library), written in Python, that the op table knows as a whole.
pub fn is_torch_leaf(function: &Obj) -> bool {
    let module = module_of(function);
    let Some(name) = function.attr("__name__").quiet().and_then(|n| n.to_str()) else { return false };
    match module.as_str() {
        "torch.nn.functional" => ox_ops::surface::lookup("F", &name).is_some() || name == "scaled_dot_product_attention",
        "torch._higher_order_ops.associative_scan" => name == "associative_scan",
        crate::vm::library::MODULE => name == "recurrence",
        "torch.functional" => ox_ops::surface::lookup("torch", &name).is_some(),
        "torch._tensor" => {
            ox_ops::surface::lookup("Tensor", &name).is_some() || (name.starts_with("__") && name != "__contains__")
        }
        _ => false,
    }
}

/// The `__init__` that Dynamo gives `nn.Module` once it has run in the process, to count new modules for itself: the one it replaced.
pub fn unpatched_init(function: &Obj) -> Option<Obj> {
    const PLACE: &str = "torch._dynamo.mutation_guard";
    let is_patch = module_of(function) == PLACE && function.attr("__name__").quiet()?.to_str()? == "patched_init";
    is_patch.then(|| py().import(PLACE).quiet()?.getattr("unpatched_nn_module_init").quiet().map(Obj::from)).flatten()
}

/// Functions in Python that only speak to torch's own compiler. A size is fixed here by what asks for it, not by a mark.
pub fn does_nothing(function: &Obj, has_tensor: impl FnOnce() -> bool) -> bool {
    match module_of(function).as_str() {
        "torch._dynamo.decorators" => match name_of(function).as_str() {
            "mark_static" => has_tensor(),
            name => name == "graph_break",
        },
        SYMBOLIC_SHAPES => matches!(name_of(function).as_str(), "_advise_is_size" | "_advise_is_bounded"),
        _ => false,
    }
}

const SYMBOLIC_SHAPES: &str = "torch.fx.experimental.symbolic_shapes";

/// For a function by which programs say what they know of sizes: the place of the condition that is already an answer.
pub fn condition_of(function: &Obj) -> Option<usize> {
    match (module_of(function).as_str(), name_of(function).as_str()) {
        (
            SYMBOLIC_SHAPES,
            "expect_true" | "guard_or_true" | "guard_or_false" | "guard_size_oblivious" | "statically_known_true",
        ) => Some(0),
        _ => None,
    }
}

/// Whether it asks for symbols of torch's own, which no number is here.
pub fn asks_for_symbols(function: &Obj) -> bool {
    module_of(function) == SYMBOLIC_SHAPES && matches!(name_of(function).as_str(), "is_nested_int" | "is_symbolic")
}

/// `torch._check_with(kind, condition, message)`, which `torch._check` and its like end in.
pub fn is_check(function: &Obj) -> bool {
    module_of(function) == "torch" && name_of(function) == "_check_with"
}

fn name_of(function: &Obj) -> String {
    function.attr("__name__").ok().and_then(|n| n.to_str()).unwrap_or_default()
}

/// Whether torch has written the function.
pub fn is_of_torch(function: &Obj) -> bool {
    let module = module_of(function);
    module == "torch" || module.starts_with("torch.")
}

/// `torch.utils.checkpoint.checkpoint`
pub fn is_checkpoint(function: &Obj) -> bool {
    module_of(function) == "torch.utils.checkpoint"
        && function.attr("__name__").quiet().and_then(|n| n.to_str()).as_deref() == Some("checkpoint")
}

/// Functions in Python that are called as they are: what they do concerns the process, not the program's values.
pub fn not_inlined(function: &Obj) -> Option<String> {
    let module = module_of(function);
    const LEFT: &[&str] = &[
        "torch._dynamo",
        "logging",
        "threading",
        "traceback",
        "importlib",
        "torch.utils.data",
        "torch._inductor",
        "torch.fx",
        "torch.jit",
        "numpy",
        "_pytest",
        "unittest",
        "tokenize",
        "re._",
        "torch._subclasses",
        "torch.library",
        "torch._library",
        "torch.utils.checkpoint",
        "torch.distributed",
        "torch.random",
        "random",
    ];
    let starts = |prefix: &&&str| {
        module.strip_prefix(**prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || prefix.ends_with('_'))
    };
    // Of torch.jit only the questions are asked while a model runs.
    if module == "torch.jit" || module.starts_with("torch.jit.") || module == "torch._jit_internal" {
        return None;
    }
    // What autograd does, it does to real tensors; `torch.autograd.grad_mode` and its like are ordinary code.
    let name = || function.attr("__name__").ok().and_then(|n| n.to_str()).unwrap_or_default();
    if module == "torch.autograd" || (module == "torch._tensor" && DONE_FOR_REAL.contains(&name().as_str())) {
        return Some(format!("{} of {module}", name()));
    }
    // A context: what it calls is left.
    if module == "torch.random" && name() == "fork_rng" {
        return None;
    }
    if is_followed_in_dynamo(&module, function) {
        return None;
    }
    // A logger that has nothing to say.
    if matches!(known(function), Some(Known::Logs | Known::IsEnabled)) {
        return None;
    }
    // A custom operator hands its arguments to the dispatcher.
    if module == "torch._library.custom_ops" && name() == "__call__" {
        return None;
    }
    if let Some(name) = transform(function) {
        return Some(format!("{name} of torch.func"));
    }
    LEFT.iter().find(starts).map(|_| format!("a function of {module}"))
}

/// Code of `torch._dynamo.error_on_graph_break`, as a context and for a function: inside of it the program's own function is called, and the flag that it
/// sets is ours as well. And `torch._dynamo.is_compiling`, which asks `torch.compiler`.
fn is_followed_in_dynamo(module: &str, function: &Obj) -> bool {
    let name = || function.attr("__qualname__").ok().and_then(|name| name.to_str()).unwrap_or_default();
    match module {
        "torch._dynamo.decorators" => {
            name().starts_with("ErrorOnGraphBreakDecoratorContextManager.") || name() == "error_on_graph_break"
        }
        // What `torch.compile` makes of a module: it calls that.
        "torch._dynamo.eval_frame" => name().starts_with("OptimizedModule.") || name() == "_set_in_optimized_module",
        "torch._dynamo.external_utils" => name().starts_with("wrap_dunder_call_ctx_manager") || name() == "is_compiling",
        "torch._dynamo.utils" => matches!(name().as_str(), "_get_error_on_graph_break" | "_set_error_on_graph_break"),
        _ => false,
    }
}

/// Whether it looks at the frames of its callers, for a line to tell.
pub fn looks_at_callers(function: &Obj) -> bool {
    let in_python = || matches!(module_of(function).as_str(), "logging" | "traceback") || crate::vm::asks_for_frames(function);
    known(function) == Some(Known::OfCallers) || function.class_is(types().function) && in_python()
}

/// The name of a function that does a transformation of torch.func's: under it tensors are wrapped, and what is recorded would not be theirs.
/// What it makes of a function bears that one's name and module, so its code is asked.
fn transform(function: &Obj) -> Option<String> {
    const PLACES: &[&str] = &["torch._functorch.eager_transforms", "torch._functorch.vmap"];
    // What only returns another function, or looks at an argument.
    const PLAIN: &[&str] = &["jacrev", "jacfwd", "hessian", "functionalize", "_check_randomness_arg"];
    let module = crate::obj::dict_get(&function.attr("__globals__").quiet()?, &Obj::str("__name__"))?.to_str()?;
    let name = function.attr("__code__").quiet()?.attr("co_name").quiet()?.to_str()?;
    (PLACES.contains(&module.as_str()) && !PLAIN.contains(&name.as_str())).then_some(name)
}
