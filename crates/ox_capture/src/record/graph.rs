//! The graph being recorded: `torch.fx` nodes, and for each tensor its shadow on the meta device.
//!
//! A torch call is done twice: on the shadows, by torch's own meta kernels, which gives shapes, strides, types, aliasing and whether it would
//! raise; and as a node of the graph, which is computed later.

use super::autocast::Conversion;
use crate::backend::Sizes;
use crate::found::Found;
use crate::interrupt::{Quiet, is_interrupt};
use crate::lazy::is_lazy;
use crate::obj::{Obj, entries_of, items_of, message, py, tuple_of};
use crate::source::SourceId;
use crate::types::types;
use ox_ops::Sym;
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rustc_hash::{FxHashMap, FxHashSet};

pub struct LazyEntry {
    pub object: Obj,
    pub node: Obj,
    pub shadow: Obj,
}

pub struct InputEntry {
    pub object: Obj,
    pub source: SourceId,
    pub node: Obj,
    pub shadow: Obj,
    /// Of the shadow, before any call of the graph.
    pub version: Option<u64>,
}

pub struct GraphRecord {
    pub fx: Obj,
    pub inputs: Vec<InputEntry>,
    pub lazies: Vec<LazyEntry>,
    pub calls: usize,
    /// The parts of the program that the next call belongs to, if they are to be computed again in backward, the outermost first.
    pub regions: Option<Obj>,
    /// Whether the next call may stand between two graphs.
    pub may_stand_apart: bool,
    /// Where its tensors lie; None before the first.
    pub device: Option<Obj>,
    /// The grad mode in which its first call is made, and the one in which the next would be.
    pub grad: Option<(bool, bool)>,
    /// Whether it runs in inference mode; None before the first call.
    pub inference: Option<bool>,
    /// Places in `lazies` of what fails for some values.
    pub(super) risky: Vec<usize>,
    /// Whether an input gets other memory behind it, before a gradient is computed.
    pub(super) is_restated: bool,
    /// Lazy tensors that the program made leaves that require grad.
    pub new_leaves: Vec<Obj>,
    /// Tensors that autocast has converted: their version then, and the result.
    pub(super) conversions: FxHashMap<Conversion, (u64, Obj)>,
    pub(super) by_input: FxHashMap<usize, usize>,
    /// Places in `inputs`, by what autograd knows them as views of, and whether there are several of one.
    pub(super) by_base: FxHashMap<usize, Vec<usize>>,
    pub(super) has_kin: bool,
    /// Follows the sizes of its tensors, once one of them is a variable.
    pub(super) follower: Option<Box<dyn Sizes>>,
    /// Nodes of size expressions.
    pub(super) size_nodes: FxHashMap<Sym, Obj>,
    pub(super) size_calls: usize,
    /// Places in `lazies`.
    pub(super) by_lazy_shadow: FxHashMap<usize, usize>,
    /// Tensors by their shadows, with the sizes and strides when they came in: a graph cannot give an input another shape.
    pub(super) by_shadow: FxHashMap<usize, (Obj, String)>,
}

/// What a torch call is to Python.
#[derive(Clone, Debug)]
pub enum Shadow {
    Function(Obj),
    Method(Obj),
    Attribute(Obj),
}

pub(super) struct Tools {
    pub graph: Obj,
    pub empty_strided: Obj,
    pub getattr: Obj,
    pub meta: Obj,
}

static TOOLS: Found<Tools> = Found::new();

pub(super) fn tools() -> PyResult<&'static Tools> {
    let py = py();
    TOOLS.or_try_find(|| {
        super::meta_kernels::run_without_dynamo()?;
        let torch: Obj = py.import("torch")?.into();
        Ok(Tools {
            graph: py.import("torch.fx")?.getattr("Graph")?.into(),
            empty_strided: torch.attr("empty_strided")?,
            getattr: py.import("builtins")?.getattr("getattr")?.into(),
            meta: torch.attr("device")?.call(&[Obj::str("meta")], None)?,
        })
    })
}

impl GraphRecord {
    pub fn new() -> PyResult<GraphRecord> {
        let (inputs, lazies) = (Vec::new(), Vec::new());
        let fx = tools()?.graph.call(&[], None)?;
        let (conversions, by_input, by_base, by_lazy_shadow, by_shadow, size_nodes) = Default::default();
        Ok(GraphRecord {
            fx,
            inputs,
            lazies,
            calls: 0,
            regions: None,
            may_stand_apart: false,
            device: None,
            grad: None,
            inference: None,
            risky: Vec::new(),
            is_restated: false,
            new_leaves: Vec::new(),
            conversions,
            by_input,
            by_base,
            has_kin: false,
            follower: None,
            size_nodes,
            size_calls: 0,
            by_lazy_shadow,
            by_shadow,
        })
    }

    pub fn node(&mut self, op: &str, target: &Obj, args: &[Obj], kwargs: Option<&Obj>, name: &str) -> PyResult<Obj> {
        let kwargs = kwargs.cloned().unwrap_or_else(|| PyDict::new(py()).into());
        let call = self.fx.attr("create_node")?;
        call.call(&[Obj::str(op), target.clone(), tuple_of(args)?, kwargs, Obj::str(name)], None)
    }
}

impl GraphRecord {
    /// Whether a tensor from outside has other values once it has run: torch counts writes to the shadows too.
    pub fn writes_inputs(&self) -> bool {
        self.written_inputs().next().is_some()
    }

    fn written_inputs(&self) -> impl Iterator<Item = &InputEntry> {
        let version = |shadow: &Obj| shadow.attr("_version").quiet().and_then(|version| version.bind().extract::<u64>().quiet());
        self.inputs.iter().filter(move |input| types().is_tensor(&input.shadow) && version(&input.shadow) != Some(0))
    }
}

/// Why a call was not recorded: it is done for real.
pub enum NotRecorded {
    /// With the reason.
    Break(String),
    /// The data decides what size the result has, and shadows have none.
    Decided(String),
    /// A tensor was asked for its number, and shadows have none.
    Number(String),
    /// Torch must do it, on the tensors themselves, for this reason.
    ByTorch(&'static str),
    /// Torch must do it, of sizes that vary: nobody says what becomes of them.
    Varying,
    Abandon(String),
    /// An interrupt came meanwhile.
    Raise(PyErr),
}

impl From<PyErr> for NotRecorded {
    fn from(error: PyErr) -> NotRecorded {
        NotRecorded::failed("", error)
    }
}

impl NotRecorded {
    /// What was tried raised, or an interrupt came meanwhile, which is not about what was tried.
    pub(super) fn failed(what: &str, error: PyErr) -> NotRecorded {
        match () {
            () if is_interrupt(&error) => NotRecorded::Raise(error),
            () if data_decides(&error) || looks_at_data(what, &error) => NotRecorded::Decided(format!("{what}{error}")),
            () if asks_for_a_number(&error) => NotRecorded::Number(format!("{what}{error}")),
            () => NotRecorded::Break(format!("{what}{error}")),
        }
    }
}

/// What torch's kernels for shapes raise of an operator whose result the data decides. Where an operator has no such kernel at all, torch has
/// no class of its own for that, only these words.
fn data_decides(error: &PyErr) -> bool {
    let class = error.get_type(py());
    let is_named = class.name().quiet().is_some_and(|name| name == "DynamicOutputShapeException");
    is_named || error.is_instance_of::<PyRuntimeError>(py()) && message(error).contains("data-dependent shape")
}

/// torch has no class for it.
fn asks_for_a_number(error: &PyErr) -> bool {
    error.is_instance_of::<PyRuntimeError>(py()) && message(error).contains("Tensor.item() cannot be called on meta tensors")
}

/// A function that is made of others, one of which looks at values and so has no kernel for shapes: `istft` compares its window with zeros.
fn looks_at_data(what: &str, error: &PyErr) -> bool {
    let text = if error.is_instance_of::<PyNotImplementedError>(py()) { message(error) } else { String::new() };
    let inner =
        text.strip_prefix("aten::").and_then(|text| text.split_once(": attempted to run this operator with Meta tensors"));
    inner.is_some_and(|(inner, _)| what.strip_suffix(": ").is_some_and(|name| name != inner))
}

impl From<super::Abandon> for NotRecorded {
    fn from(error: super::Abandon) -> NotRecorded {
        NotRecorded::Abandon(error.0)
    }
}

pub(super) type Recorded<T> = Result<T, NotRecorded>;

pub(super) fn layout_of(shadow: &Obj) -> String {
    let stride = shadow.bind().call_method0("stride").map(|s| Obj::from(s).text()).quiet().unwrap_or_default();
    format!("{} {stride}", shadow.attr("shape").map(|s| s.text()).quiet().unwrap_or_default())
}

impl Shadow {
    pub fn name(&self) -> String {
        match self {
            Shadow::Function(function) => {
                function.attr("__name__").quiet().and_then(|n| n.to_str()).unwrap_or_else(|| function.text())
            }
            Shadow::Method(name) | Shadow::Attribute(name) => name.to_str().unwrap_or_default(),
        }
    }

    /// One of the dispatcher's, by `torch.ops`.
    pub(super) fn is_operator(&self) -> bool {
        let is_one = |function: &Obj| function.class_is(types().op_overload) || function.class_is(types().op_packet);
        matches!(self, Shadow::Function(function) if is_one(function))
    }
}

/// In containers, too, of which some hold themselves.
pub fn tensors_in(object: &Obj) -> Vec<Obj> {
    let types = types();
    let (mut found, mut open, mut seen) = (Vec::new(), vec![object.clone()], FxHashSet::default());
    while let Some(object) = open.pop() {
        if types.is_tensor(&object) || is_lazy(&object) {
            found.push(object);
            continue;
        }
        let inside: Vec<Obj> = if object.is_instance_of(types.tuple) || object.is_instance_of(types.list) {
            items_of(&object)
        } else if object.class_is(types.dict) {
            entries_of(&object).into_iter().map(|(_, value)| value).collect()
        } else {
            continue;
        };
        if seen.insert(object.id()) {
            open.extend(inside.into_iter().rev());
        }
    }
    found
}
