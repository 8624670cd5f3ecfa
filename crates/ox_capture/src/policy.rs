//! What is done with a call that no trace fits: `torch.compiler.set_stance`, and the settings of `oxytorch.config`.

use crate::declared::line_outside;
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, entries_of, items_of};
use crate::source::key_text;
use crate::types::types;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

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
    /// Another backend has the functions: `force_backend=`.
    Elsewhere,
}

/// The namespace of a module of torch's, if somebody has loaded it. Before that nobody can have set anything there.
struct Namespace {
    module: &'static str,
    found: Found<Obj>,
}

impl Namespace {
    const fn new(module: &'static str) -> Namespace {
        Namespace { module, found: Found::new() }
    }

    fn get(&self, name: &Obj) -> Option<Obj> {
        if let Some(found) = self.found.get() {
            return dict_get(found, name);
        }
        let found = loaded(self.module)?.attr("__dict__").quiet()?;
        dict_get(self.found.or_find(|| found), name)
    }
}

fn loaded(module: &str) -> Option<Obj> {
    // SAFETY: the dict of loaded modules, borrowed.
    let modules = unsafe { Obj::borrowed(ffi::PyImport_GetModuleDict()) };
    dict_get(&modules, &Obj::str(module))
}

/// `torch._dynamo.config.disable`: what is compiled is used, and nothing more is compiled.
pub fn is_disabled() -> bool {
    let disable = loaded("torch._dynamo.config").and_then(|config| config.attr("disable").quiet());
    disable.is_some_and(|disable| disable.truth().quiet().unwrap_or(false))
}

/// A name that is looked up in every call.
struct Name(Found<Obj>, &'static str);

impl Name {
    const fn new(text: &'static str) -> Name {
        Name(Found::new(), text)
    }

    fn get(&self) -> &Obj {
        self.0.or_find(|| Obj::str(self.1))
    }
}

/// `torch._dynamo.error_on_graph_break`, which holds while a function is traced.
pub fn error_on_graph_break() -> bool {
    static UTILS: Namespace = Namespace::new("torch._dynamo.utils");
    static FLAG: Name = Name::new("_error_on_graph_break");
    UTILS.get(FLAG.get()).is_some_and(|flag| flag.truth().quiet().unwrap_or(false))
}

/// What `torch._dynamo.mark_dynamic` and its like say of a tensor's dimensions.
#[derive(Default)]
pub struct Marks {
    dynamic: Vec<usize>,
    /// Those that must not be constants.
    pub strict: Vec<usize>,
    fixed: Vec<usize>,
    ranges: Vec<(usize, Option<i64>, Option<i64>)>,
}

impl Marks {
    pub fn of(tensor: &Obj) -> Marks {
        let marked = crate::source::instance_dict(tensor).filter(|dict| dict.bind().len().quiet().is_some_and(|len| len > 0));
        let Some(dict) = marked else { return Marks::default() };
        let set = |name: &str| -> Vec<Obj> {
            let found = dict_get(&dict, &Obj::str(name));
            found.and_then(|set| Some(set.bind().try_iter().ok()?.flatten().map(Obj::from).collect())).unwrap_or_default()
        };
        let rank = tensor.attr("ndim").ok().and_then(|rank| rank.bind().extract::<i64>().ok()).unwrap_or(0);
        // Counted from the end if negative. What is still negative is beyond any rank.
        let place = |dim: i64| if dim < 0 { (dim + rank) as usize } else { dim as usize };
        let dims = |name: &str| -> Vec<usize> {
            set(name).iter().filter_map(|dim| Some(place(dim.bind().extract::<i64>().quiet()?))).collect()
        };
        let part = |range: &Obj, name: &str| range.attr(name).quiet().and_then(|n| n.bind().extract::<i64>().quiet());
        let range = |range: &Obj| Some((place(part(range, "dim")?), part(range, "min"), part(range, "max")));
        Marks {
            dynamic: [dims("_dynamo_dynamic_indices"), dims("_dynamo_weak_dynamic_indices")].concat(),
            strict: dims("_dynamo_dynamic_indices"),
            fixed: dims("_dynamo_static_indices"),
            ranges: set("_dynamo_dynamic_range").iter().filter_map(range).collect(),
        }
    }

    /// Whether a dimension is marked as one that varies (or one that does not).
    pub fn of_dim(&self, dim: usize) -> Option<bool> {
        match (self.dynamic.contains(&dim), self.fixed.contains(&dim)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// What is wrong with them on a tensor of these sizes.
    fn objection(&self, sizes: &[i64]) -> Option<String> {
        if let Some(dim) = self.strict.iter().find(|dim| self.fixed.contains(dim)) {
            return Some(format!("dimension {dim} is marked both as one that varies and as one that does not"));
        }
        let marked = self.dynamic.iter().chain(&self.fixed);
        if let Some(dim) = marked.copied().find(|dim| *dim >= sizes.len()) {
            // As it was given.
            let given = if dim as i64 >= 0 { dim as i64 } else { dim as i64 - sizes.len() as i64 };
            return Some(format!("dimension {given} is marked, but it has {} dimensions", sizes.len()));
        }
        self.ranges.iter().find_map(|(dim, lo, hi)| {
            let (lo, hi, size) = (lo.unwrap_or(0), hi.unwrap_or(i64::MAX), *sizes.get(*dim)?);
            let text = if hi == i64::MAX { format!("{lo} or more") } else { format!("{lo} to {hi}") };
            let declared = format!("dimension {dim} is declared by mark_dynamic to be {text}");
            match (lo > hi, (lo..=hi).contains(&size)) {
                (true, _) => Some(format!("{declared}, which nothing is")),
                (_, false) => Some(format!("{declared}, but its size is {size}")),
                _ => None,
            }
        })
    }

    /// The same for people.
    pub fn complaint(&self, name: &str, sizes: &[i64]) -> Option<String> {
        let called = || line_outside().map(|line| format!(" (called at {line})")).quiet().unwrap_or_default();
        self.objection(sizes).map(|why| format!("oxytorch: {name}: {why}{}", called()))
    }

    /// Raises for marks of arguments that cannot be kept.
    pub fn check(arguments: &[(String, Obj)]) -> PyResult<()> {
        // What they hold is named by its place in what holds it: a whole name would be as long as it lies deep.
        let mut places: Vec<(Option<usize>, String)> = Vec::new();
        let mut open: Vec<(Option<usize>, String, Obj)> =
            arguments.iter().rev().map(|(name, argument)| (None, name.clone(), argument.clone())).collect();
        let mut seen = FxHashSet::default();
        while let Some((outer, place, object)) = open.pop() {
            let is_tensor = types().is_tensor(&object);
            if !is_tensor && !seen.insert(object.id()) {
                continue;
            }
            let here = Some(places.len());
            places.push((outer, place));
            if is_tensor {
                Marks::check_tensor(&object, || name_of(&places, here))?;
            } else {
                open.extend(parts_of(&object).into_iter().rev().map(|(place, part)| (here, place, part)));
            }
        }
        Ok(())
    }

    fn check_tensor(tensor: &Obj, name: impl FnOnce() -> String) -> PyResult<()> {
        let marks = Marks::of(tensor);
        if marks.dynamic.is_empty() && marks.ranges.is_empty() {
            return Ok(());
        }
        // Sizes of a nested tensor are no numbers; torch itself marks those that vary.
        let sizes = tensor.attr("shape").quiet().and_then(|shape| shape.bind().extract::<Vec<i64>>().quiet());
        match sizes.and_then(|sizes| marks.complaint(&name(), &sizes)) {
            Some(why) => Err(PyValueError::new_err(why)),
            None => Ok(()),
        }
    }

    /// The range of a dimension's size.
    pub fn range(&self, dim: usize, least: i64) -> (i64, i64) {
        let declared = self.ranges.iter().find(|(known, ..)| *known == dim);
        let (lo, hi) = declared.map_or((None, None), |(_, lo, hi)| (*lo, *hi));
        (lo.unwrap_or(least).max(least), hi.unwrap_or(i64::MAX))
    }
}

/// What a container of an argument holds, and where.
fn parts_of(object: &Obj) -> Vec<(String, Obj)> {
    if object.class_is(types().dict) {
        return entries_of(object).into_iter().map(|(key, value)| (format!("[{}]", key_text(&key)), value)).collect();
    }
    match object.class_is(types().list) || object.is_instance_of(types().tuple) {
        true => items_of(object).into_iter().enumerate().map(|(n, item)| (format!("[{n}]"), item)).collect(),
        false => Vec::new(),
    }
}

fn name_of(places: &[(Option<usize>, String)], place: Option<usize>) -> String {
    let outwards = std::iter::successors(place, |at| places[*at].0);
    let mut parts: Vec<&str> = outwards.map(|at| places[at].1.as_str()).collect();
    parts.reverse();
    parts.concat()
}

impl Stance {
    pub fn now() -> Stance {
        Stance::read().unwrap_or(Stance::Default)
    }

    fn keeper() -> Option<Obj> {
        static KEEPER: Namespace = Namespace::new("torch._dynamo.eval_frame");
        static STANCE: Name = Name::new("_stance");
        KEEPER.get(STANCE.get())
    }

    /// What `force_backend=` asks for, if that is not this one.
    pub fn backend() -> Option<Obj> {
        static BACKEND: Name = Name::new("backend");
        let backend = Stance::keeper()?.get_attr(BACKEND.get()).quiet()?;
        (!backend.is_none() && backend.to_str().as_deref() != Some("oxytorch")).then_some(backend)
    }

    fn read() -> Option<Stance> {
        static STANCE: Name = Name::new("stance");
        let stance = Stance::keeper()?.get_attr(STANCE.get()).quiet()?;
        Some(match stance.bind().extract::<&str>().quiet()? {
            "force_eager" => Stance::ForceEager,
            "eager_on_recompile" => Stance::EagerOnRecompile,
            "fail_on_recompile" => Stance::FailOnRecompile,
            "eager_then_compile" | "aot_eager_then_compile" => Stance::EagerThenCompile,
            _ if Stance::backend().is_some() => Stance::Elsewhere,
            _ => Stance::Default,
        })
    }
}
