//! Operations that fail for some values, where the program has a clause for that.
//!
//! A graph is computed behind the clause. Where the indices are known, or cheap to know, the operation is tried here, for its exception
//! alone; otherwise the graph ends in front of it. Exceptions that only pass (`finally`, the contexts of torch's) need nothing of this.

use super::native::keywords;
use super::{Args, Frame, R, Vm, VmGenerator};
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{Obj, items_of, list_of, py, tuple_of};
use crate::policy::error_on_graph_break;
use crate::recipe::is_subtype;
use crate::record::grad::GradMode;
use crate::record::{DIVISIONS, Recording, Shadow, Val, is_integer_type, plain, tensors_in};
use crate::types::types;
use ox_bytecode::{Handler, Instruction};
use ox_ops::surface::writes_first;
use pyo3::exceptions::{PyIndexError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Operations that read or write where a tensor of integers or bools says. Those in place have the same names with an underscore.
const INDEXED: [&str; 23] = [
    "getitem",
    "setitem",
    "__getitem__",
    "__setitem__",
    "index_select",
    "gather",
    "take",
    "take_along_dim",
    "embedding",
    "embedding_bag",
    "nll_loss",
    "cross_entropy",
    "one_hot",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "masked_scatter",
    "bincount",
];
/// Those of them whose first argument says where. That of the others is what is read or written, and may be anything.
const PLACES_FIRST: [&str; 4] = ["embedding", "embedding_bag", "one_hot", "bincount"];
/// Done only where the graph would have to end otherwise.
const COSTLY: [&str; 1] = ["cross_entropy"];
/// Those that need matrices of a certain kind.
const MATRICES: [&str; 3] = ["cholesky", "inverse", "pinverse"];
/// Those that need probabilities, rates or deviations. They are never tried: what they draw is drawn once.
const DRAWS: [&str; 4] = ["bernoulli", "multinomial", "normal", "poisson"];
/// A clause's class is loaded by so many instructions at most.
const CLASS: usize = 8;
/// Clauses around clauses.
const DEEP: usize = 16;

impl Vm {
    /// Whether there are values for which the operation raises.
    pub fn may_fail(&self, callee: &Shadow, args: &Args) -> bool {
        self.rec.as_ref().is_some_and(|rec| may_fail(&callee.name(), args, rec))
    }

    /// Whether the graph must end in front of this operation, which may fail. It is tried, where that can be done, and its exception is the program's.
    pub fn must_be_seen(&mut self, callee: &Shadow, callable: &Val, args: &Args) -> R<bool> {
        // What stands for elements may be more than what the operation is meant for.
        if self.frames.iter().any(|frame| frame.is_of_library("of_elements")) {
            return Ok(false);
        }
        let name = callee.name();
        // Without a clause the graph may fail later, but what the program does meanwhile would have been done: what is cheap is tried all
        // the same.
        let may_end = self.frames.iter().any(catches) && !self.settings.fullgraph && !error_on_graph_break();
        let is_tried = may_end || (is_listed(plain(&name)) && !COSTLY.contains(&name.as_str()));
        let Some(rec) = self.rec.as_mut() else { return Ok(false) };
        let Some(known) = known(args, rec, &name).filter(|_| is_tried) else { return Ok(may_end) };
        let _mode = GradMode::set(false)?;
        let positional: Vec<Obj> = known.positional.into_iter().map(|arg| arg.obj).collect();
        if let Err(error) = callable.obj.call(&positional, keywords(&known.keywords)?.as_ref()) {
            // A part may be written before it fails.
            if writes_first(&name) {
                return Ok(may_end);
            }
            // Another call with the same checks may succeed: nothing is kept of this one.
            rec.contradicted = true;
            return Err(error);
        }
        Ok(false)
    }
}

/// The arguments as they will be; where only places matter, others of the right size. What is written is a tensor that nobody knows. None if
/// they cannot be known yet.
fn known(args: &Args, rec: &Recording, name: &str) -> Option<Args> {
    let has_out = args.keywords.iter().any(|(key, _)| key.to_str().as_deref() == Some("out"));
    if has_out || DRAWS.contains(&plain(name)) {
        return None;
    }
    let all_matter = !INDEXED.contains(&plain(name));
    let first_matters = all_matter || PLACES_FIRST.contains(&plain(name));
    let matters = |tensor: &Obj| all_matter || rec.dtype_on_cpu(tensor).is_none_or(|dtype| is_integer_type(&dtype));
    let value = |tensor: &Obj| match (matters(tensor), is_lazy(tensor)) {
        (true, true) => rec.peek(tensor),
        (false, true) => rec.stand_in(tensor),
        (matters, false) => (!matters || rec.is_settled(tensor)).then(|| tensor.clone()),
    };
    let any = |tensor: &Obj| if is_lazy(tensor) { rec.stand_in(tensor) } else { Some(tensor.clone()) };
    let written = args.positional.first().filter(|_| writes_first(name)).map(|arg| filled(&arg.obj, &any));
    let written = match written {
        Some(stand_in) => Some(stand_in?.attr("clone").and_then(|clone| clone.call(&[], None)).quiet()?),
        None => None,
    };
    let by = |n: usize| if n == 0 && !first_matters { &any as &dyn Fn(&Obj) -> Option<Obj> } else { &value };
    let rest = args.positional.iter().enumerate().skip(usize::from(written.is_some()));
    let read = rest.map(|(n, arg)| filled(&arg.obj, by(n)));
    let positional = written.into_iter().map(Some).chain(read).map(|arg| arg.map(Val::from)).collect::<Option<Vec<Val>>>()?;
    let named = args.keywords.iter().map(|(name, arg)| Some((name.clone(), filled(&arg.obj, &value)?.into())));
    Some(Args { positional, keywords: named.collect::<Option<Vec<(Obj, Val)>>>()? })
}

/// With the values of tensors in their places.
pub(super) fn filled(object: &Obj, value: &dyn Fn(&Obj) -> Option<Obj>) -> Option<Obj> {
    let types = types();
    if is_lazy(object) || types.is_tensor(object) {
        return value(object);
    }
    let each = || items_of(object).iter().map(|item| filled(item, value)).collect::<Option<Vec<Obj>>>();
    if object.class_is(types.tuple) {
        return tuple_of(&each()?).quiet();
    }
    if object.class_is(types.list) {
        return list_of(&each()?).quiet();
    }
    Some(object.clone())
}

pub(super) fn tensors_of(args: &Args) -> impl Iterator<Item = Obj> + '_ {
    let named = args.keywords.iter().map(|(_, value)| value);
    args.positional.iter().chain(named).flat_map(|arg| tensors_in(&arg.obj))
}

/// Whether it goes by integers, which are cheap to look at.
fn is_listed(plain: &str) -> bool {
    INDEXED.contains(&plain) || DIVISIONS.contains(&plain)
}

/// Whether there are values for which the operation raises. A GPU tells of them later, or not at all.
fn may_fail(name: &str, args: &Args, rec: &Recording) -> bool {
    let plain = plain(name);
    let is_matrix = || MATRICES.contains(&plain) || plain.starts_with("linalg_");
    if !is_listed(plain) && !DRAWS.contains(&plain) && !is_matrix() {
        return false;
    }
    let Some(dtypes) = tensors_of(args).map(|tensor| rec.dtype_on_cpu(&tensor)).collect::<Option<Vec<Obj>>>() else {
        return false;
    };
    let mut integers = dtypes.iter().map(is_integer_type);
    match plain {
        _ if PLACES_FIRST.contains(&plain) => integers.any(|is| is),
        _ if INDEXED.contains(&plain) => integers.skip(usize::from(!args.positional.is_empty())).any(|is| is),
        _ if DIVISIONS.contains(&plain) => integers.all(|is| is),
        // Shadows know about numbers.
        _ if DRAWS.contains(&plain) => dtypes.len() > usize::from(writes_first(name)),
        _ => true,
    }
}

/// Whether the frame may keep an exception of the instruction at which it stands.
fn catches(frame: &Frame) -> bool {
    let mut next = frame.code.code.handler(frame.pc.saturating_sub(1));
    for _ in 0..DEEP {
        let Some(handler) = next else { return false };
        if keeps(frame, handler) {
            return true;
        }
        next = frame.code.code.handler(handler.target.index());
    }
    true
}

/// Whether a handler may keep an exception.
fn keeps(frame: &Frame, handler: &Handler) -> bool {
    let (all, mut at) = (&frame.code.code.instructions, handler.target.index());
    if all.get(at) != Some(&Instruction::PushExcInfo) {
        return false;
    }
    at += 1;
    if all.get(at) == Some(&Instruction::WithExceptStart) {
        let exit = frame.stack[..handler.depth as usize].last();
        return exit.and_then(Option::as_ref).is_none_or(|exit| manager_keeps(&exit.obj));
    }
    loop {
        match all.get(at) {
            // Any exception.
            Some(Instruction::PopTop) | None => return true,
            Some(Instruction::Reraise(_)) => return false,
            _ => {}
        }
        // Without a class it is what `finally` does.
        let compares = |i: &Instruction| matches!(i, Instruction::CheckExcMatch | Instruction::CheckEgMatch);
        let Some(length) = all[at..].iter().take(CLASS).position(compares) else { return false };
        let is_foreign = match all[at] {
            Instruction::LoadGlobal(name) if length == 1 => is_foreign(&frame.code.names[name.index()], frame),
            _ => false,
        };
        let Some(Instruction::JumpIf { label, .. }) = all.get(at + length + 1).filter(|_| is_foreign) else { return true };
        at = label.index();
    }
}

/// Whether this names a class of exceptions that no operation raises for its values.
fn is_foreign(name: &Obj, frame: &Frame) -> bool {
    let found = [&frame.globals, &frame.builtins].into_iter().find_map(|names| names.bind().get_item(name.bind()).quiet());
    let Some(class) = found.and_then(|found| found.cast_into::<PyType>().ok()) else { return false };
    let class: Obj = class.into_any().into();
    let plain = [py().get_type::<PyIndexError>(), py().get_type::<PyRuntimeError>()].map(|raised| Obj::from(raised.into_any()));
    let of_matrices = py().import("torch._C").and_then(|core| core.getattr("_LinAlgError")).map(Obj::from);
    !plain.iter().chain(&of_matrices).any(|raised| is_subtype(raised, class.ptr().cast()))
}

/// The same of a context, by its bound `__exit__`.
fn manager_keeps(exit: &Obj) -> bool {
    let word = |class: &Obj, name: &str| class.attr(name).ok().and_then(|word| word.to_str()).unwrap_or_default();
    let Some(manager) = exit.attr("__self__").quiet() else { return true };
    let class = manager.class();
    let (module, name) = (word(&class, "__module__"), word(&class, "__name__"));
    if module.split('.').next() == Some("torch") || (module.as_str(), name.as_str()) == ("contextlib", "nullcontext") {
        return false;
    }
    let Some(generator) = manager.attr("gen").map(|generator| generator.bind().clone()).quiet() else { return true };
    // One that is written as a generator stands at its `yield`.
    match generator.cast::<VmGenerator>() {
        Ok(generator) if module == "contextlib" => {
            generator.borrow().with_frame(|frame| frame.cloned()).is_none_or(|frame| catches(&frame))
        }
        _ => true,
    }
}
