//! What is done with a call that no trace fits: `torch.compiler.set_stance`, and the settings of `oxytorch.config`.

use crate::obj::{Obj, dict_get, entries_of, items_of, py};
use crate::types::types;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `torch.compiler.set_stance`, by what it means here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stance {
    Default,
    /// Nothing compiled is used.
    ForceEager,
    /// What is compiled is used; nothing new is.
    EagerOnRecompile,
    FailOnRecompile,
    /// The first call of each function is plain Python.
    EagerThenCompile,
}

/// The namespace of a module of torch's, if somebody has loaded it. Before that nobody can have set anything there.
struct Namespace {
    module: &'static str,
    found: PyOnceLock<Obj>,
}

impl Namespace {
    const fn new(module: &'static str) -> Namespace {
        Namespace { module, found: PyOnceLock::new() }
    }

    fn get(&self, name: &Obj) -> Option<Obj> {
        if let Some(found) = self.found.get(py()) {
            return dict_get(found, name);
        }
        // SAFETY: the dict of loaded modules, borrowed.
        let modules = unsafe { Obj::borrowed(ffi::PyImport_GetModuleDict()) };
        let module = dict_get(&modules, &Obj::str(self.module))?;
        let found = module.attr("__dict__").ok()?;
        dict_get(self.found.get_or_init(py(), || found), name)
    }
}

/// A name that is looked up in every call.
struct Name(PyOnceLock<Obj>, &'static str);

impl Name {
    const fn new(text: &'static str) -> Name {
        Name(PyOnceLock::new(), text)
    }

    fn get(&self) -> &Obj {
        self.0.get_or_init(py(), || Obj::str(self.1))
    }
}

/// `torch._dynamo.error_on_graph_break`, which holds while a function is traced.
pub fn error_on_graph_break() -> bool {
    static UTILS: Namespace = Namespace::new("torch._dynamo.utils");
    static FLAG: Name = Name::new("_error_on_graph_break");
    UTILS.get(FLAG.get()).is_some_and(|flag| flag.truth().unwrap_or(false))
}

/// Whether a tensor among the arguments was marked by `torch._dynamo.mark_dynamic` or `maybe_mark_dynamic`.
pub fn wants_dynamic(arguments: &[Obj]) -> bool {
    arguments.iter().any(|argument| {
        if types().is_tensor(argument) {
            let is_marked = |name: &str| argument.attr(name).is_ok_and(|marks| marks.truth().unwrap_or(false));
            return is_marked("_dynamo_dynamic_indices") || is_marked("_dynamo_weak_dynamic_indices");
        }
        let inside: Vec<Obj> = match argument.class_is(types().dict) {
            true => entries_of(argument).into_iter().map(|(_, value)| value).collect(),
            false if argument.class_is(types().list) || argument.class_is(types().tuple) => items_of(argument),
            false => return false,
        };
        wants_dynamic(&inside)
    })
}

impl Stance {
    pub fn now() -> Stance {
        Stance::read().unwrap_or(Stance::Default)
    }

    fn read() -> Option<Stance> {
        static KEEPER: Namespace = Namespace::new("torch._dynamo.eval_frame");
        static STANCE: Name = Name::new("_stance");
        let stance = KEEPER.get(STANCE.get())?.attr("stance").ok()?;
        Some(match stance.bind().extract::<&str>().ok()? {
            "force_eager" => Stance::ForceEager,
            "eager_on_recompile" => Stance::EagerOnRecompile,
            "fail_on_recompile" => Stance::FailOnRecompile,
            "eager_then_compile" | "aot_eager_then_compile" => Stance::EagerThenCompile,
            _ => Stance::Default,
        })
    }
}
