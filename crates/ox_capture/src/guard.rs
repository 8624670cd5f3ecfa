//! `Check`: what must hold for a trace to be right in a later call.

use crate::backend::Backend;
use crate::class_portrait::ClassPortrait;
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, entries_of};
use crate::source::{SourceId, Sources, Values, generic_attr, instance_dict, key_text, same_value, short};
use crate::state::TorchState;
use crate::types::types;
use ox_gauge::{SizedSpec, TensorSpec};
use ox_ops::{Fact, Var};
use pyo3::ffi;
use pyo3::prelude::*;
use std::rc::Rc;

/// A trace has thousands of them: what is large in one lies elsewhere.
#[derive(Clone, Debug)]
pub enum Check {
    /// How many positional arguments, and the names of the others in their order.
    Call(usize, Vec<Obj>),
    /// torch's modes: grad, autocast, default dtype, no function or dispatch mode.
    State(Box<TorchState>),
    Type(SourceId, Obj),
    Is(SourceId, Obj),
    /// Same type, same value.
    Equal(SourceId, Obj),
    Same(SourceId, SourceId),
    Different(SourceId, SourceId),
    /// No two of these are one object.
    Apart(Vec<SourceId>),
    Len(SourceId, usize),
    /// A dict has just these keys, in this order.
    Keys(SourceId, Vec<Obj>),
    /// A set has just these members, and gives them in this order.
    Members(SourceId, Vec<Obj>),
    NoKey(SourceId, Obj),
    HasKey(SourceId, Obj),
    /// The instance's own dict has no such entry.
    NoAttr(SourceId, Obj),
    /// Nobody but the traces has moved an iterator or generator of the machine's on.
    Unmoved(SourceId),
    /// A cell is empty.
    EmptyCell(SourceId),
    /// Nothing is in the slot that this member of a class stands for.
    EmptySlot(SourceId, Obj),
    /// Nobody has changed the class or its bases.
    Version(Obj, u32),
    /// The same of a class that the trace itself changes.
    Class(Rc<ClassPortrait>),
    /// A function has this code.
    Code(Obj, Obj),
    Tensor(SourceId, Box<TensorSpec>),
    /// A tensor of which some sizes are variables: bound here.
    Sized(SourceId, Box<SizedSpec>),
    /// A whole number that is a variable: bound here.
    Integer(SourceId, Var),
    /// Something that must hold of variables, and the user's line that relies on it.
    Fact(Box<Fact>, String),
    RequiresGrad(SourceId, bool),
    /// Whether the action before returned (or raised).
    Returned(bool),
}

const _: () = assert!(size_of::<Check>() <= 40);

/// What checks look at besides the values.
pub struct Context<'a> {
    pub sources: &'a Sources,
    pub backend: &'a dyn Backend,
    pub returned: bool,
}

/// The name, made once.
fn requires_grad() -> &'static Obj {
    static NAME: Found<Obj> = Found::new();
    NAME.or_find(|| Obj::str("requires_grad"))
}

impl Check {
    pub fn holds(&self, context: &Context<'_>, values: &mut Values<'_>) -> bool {
        let sources = context.sources;
        match self {
            Check::Call(positional, names) => values.args.len() == *positional && has_names(values.kwargs, names),
            Check::State(state) => TorchState::now().quiet().is_some_and(|now| now == **state),
            Check::Type(id, class) => values.get(sources, *id).is_some_and(|v| v.class_is(class.ptr().cast())),
            Check::Is(id, object) => values.get(sources, *id).is_some_and(|v| v.is(object)),
            Check::Equal(id, object) => values.get(sources, *id).is_some_and(|v| same_value(&v, object)),
            Check::Same(a, b) => match (values.get(sources, *a), values.get(sources, *b)) {
                (Some(a), Some(b)) => a.is(&b),
                _ => false,
            },
            Check::Different(a, b) => match (values.get(sources, *a), values.get(sources, *b)) {
                (Some(a), Some(b)) => !a.is(&b),
                _ => false,
            },
            Check::Apart(ids) => {
                let mut found: Vec<usize> = ids.iter().filter_map(|id| values.get(sources, *id).map(|v| v.id())).collect();
                found.sort_unstable();
                found.windows(2).all(|pair| pair[0] != pair[1])
            }
            Check::Len(id, len) => values.get(sources, *id).is_some_and(|v| length(&v) == Some(*len)),
            Check::Keys(id, keys) => values.get(sources, *id).is_some_and(|v| has_keys(&v, keys)),
            Check::Members(id, members) => values.get(sources, *id).is_some_and(|v| has_members(&v, members)),
            Check::NoKey(id, key) => values.get(sources, *id).is_some_and(|v| dict_get(&v, key).is_none()),
            Check::HasKey(id, key) => values.get(sources, *id).is_some_and(|v| dict_get(&v, key).is_some()),
            Check::NoAttr(id, name) => {
                values.get(sources, *id).is_some_and(|v| instance_dict(&v).is_none_or(|dict| dict_get(&dict, name).is_none()))
            }
            Check::Unmoved(id) => values.get(sources, *id).is_some_and(|v| !crate::vm::is_moved(&v)),
            Check::EmptyCell(id) => {
                values.get(sources, *id).is_some_and(|v| v.class_is(types().cell) && crate::source::cell_contents(&v).is_none())
            }
            Check::EmptySlot(id, member) => values.get(sources, *id).is_some_and(|v| is_unset(member, &v)),
            Check::Version(class, version) => version_of(class) == *version,
            Check::Class(portrait) => portrait.fits(),
            // SAFETY: a function; the code is borrowed.
            Check::Code(function, code) => unsafe { ffi::PyFunction_GetCode(function.ptr()) == code.ptr() },
            Check::Tensor(id, spec) => values.get(sources, *id).is_some_and(|v| context.backend.is_like(&v, spec)),
            Check::Sized(id, spec) => match values.get(sources, *id) {
                Some(tensor) => {
                    let bound = &mut values.sizes;
                    context.backend.measure(&tensor, &spec.tensor, &mut |sizes, strides| spec.fits(sizes, strides, bound))
                }
                None => false,
            },
            Check::Integer(id, var) => match values.get(sources, *id).and_then(|v| whole(&v)) {
                Some(number) => {
                    values.sizes.set(var, number);
                    (var.lo()..=var.hi()).contains(&number)
                }
                None => false,
            },
            Check::Fact(fact, _) => fact.holds(&|var| values.sizes.get(var)),
            Check::RequiresGrad(id, wanted) => values
                .get(sources, *id)
                .and_then(|v| generic_attr(&v, requires_grad()))
                .is_some_and(|v| v.is(&Obj::bool(*wanted))),
            Check::Returned(returned) => context.returned == *returned,
        }
    }

    /// What it looks at first.
    pub fn place(&self) -> Option<SourceId> {
        match self {
            Check::Type(id, _) | Check::Is(id, _) | Check::Equal(id, _) | Check::Same(id, _) | Check::Different(id, _) => {
                Some(*id)
            }
            Check::Len(id, _) | Check::Keys(id, _) | Check::Members(id, _) | Check::NoKey(id, _) | Check::HasKey(id, _) => {
                Some(*id)
            }
            Check::NoAttr(id, _) | Check::EmptyCell(id) | Check::EmptySlot(id, _) => Some(*id),
            Check::Tensor(id, _) | Check::RequiresGrad(id, _) => Some(*id),
            Check::Sized(id, _) | Check::Integer(id, _) | Check::Unmoved(id) => Some(*id),
            Check::Call(..) | Check::State(_) | Check::Version(..) | Check::Code(..) | Check::Returned(_) => None,
            Check::Fact(..) | Check::Class(_) => None,
            Check::Apart(ids) => ids.first().copied(),
        }
    }

    /// The source whose value it compares, if that is a number.
    pub fn number(&self) -> Option<SourceId> {
        match self {
            Check::Equal(id, value) if value.class_is(types().int) || value.class_is(types().float) => Some(*id),
            _ => None,
        }
    }

    /// The same for a text.
    pub fn text(&self) -> Option<SourceId> {
        match self {
            Check::Equal(id, value) if value.class_is(types().str) => Some(*id),
            _ => None,
        }
    }

    pub fn show(&self, sources: &Sources) -> String {
        let of = |id: &SourceId| sources.show(*id);
        let list = |items: &[Obj]| items.iter().map(key_text).collect::<Vec<_>>().join(", ");
        match self {
            Check::Call(n, names) => format!("called with {n} arguments and [{}]", list(names)),
            Check::State(state) => format!("torch has {state}"),
            Check::Type(id, class) => format!("type({}) is {}", of(id), short(class)),
            Check::Is(id, object) => format!("{} is {}", of(id), short(object)),
            Check::Equal(id, object) => format!("{} == {}", of(id), object.text()),
            Check::Same(a, b) => format!("{} is {}", of(a), of(b)),
            Check::Different(a, b) => format!("{} is not {}", of(a), of(b)),
            Check::Apart(ids) => format!("{} objects are different ones", ids.len()),
            Check::Len(id, n) => format!("len({}) == {n}", of(id)),
            Check::Keys(id, keys) => format!("list({}) == [{}]", of(id), list(keys)),
            Check::Members(id, keys) => format!("{} == {{{}}}", of(id), list(keys)),
            Check::NoKey(id, key) => format!("{} not in {}", short(key), of(id)),
            Check::HasKey(id, key) => format!("{} in {}", short(key), of(id)),
            Check::NoAttr(id, name) => format!("{} has no own {}", of(id), name),
            Check::Unmoved(id) => format!("{} is where the traces have left it", of(id)),
            Check::EmptyCell(id) => format!("{} is empty", of(id)),
            Check::EmptySlot(id, member) => {
                let name = member.attr("__name__").ok().and_then(|name| name.to_str()).unwrap_or_default();
                format!("{}.{name} is not set", of(id))
            }
            Check::Class(portrait) => format!("class {} is as it was, but for what is written here", short(&portrait.class)),
            Check::Version(class, version) => format!("class {} is at version {version}", short(class)),
            Check::Code(function, _) => format!("{} has its code", short(function)),
            Check::Tensor(id, spec) => format!("{} is {spec}", of(id)),
            Check::Sized(id, spec) => format!("{} is {spec}", of(id)),
            Check::Integer(id, _) => format!("{} is an int", of(id)),
            Check::Fact(fact, line) if line.is_empty() => sources.with_names(&fact.to_string()),
            Check::Fact(fact, line) => format!("{} ({line})", sources.with_names(&fact.to_string())),
            Check::RequiresGrad(id, wanted) => format!("{}.requires_grad is {wanted}", of(id)),
            Check::Returned(returned) => (if *returned { "it returned" } else { "it raised" }).into(),
        }
    }
}

/// Where an object keeps what a member of its class, made by `__slots__`, stands for. None for other members and objects.
pub fn slot_of(member: &Obj, object: &Obj) -> Option<*const usize> {
    // SAFETY: the form of such a descriptor is public; objects of its class, which are looked for first, have the slot.
    unsafe {
        let descriptor = member.ptr().cast::<ffi::PyMemberDescrObject>();
        let is_slot = member.class_is(types().member) && (*(*descriptor).d_member).type_code == ffi::Py_T_OBJECT_EX;
        let is_its = is_slot && object.is_instance_of((*descriptor).d_common.d_type);
        is_its.then(|| object.ptr().cast::<u8>().offset((*(*descriptor).d_member).offset).cast::<usize>().cast_const())
    }
}

fn is_unset(member: &Obj, object: &Obj) -> bool {
    // SAFETY: a slot of a live object.
    slot_of(member, object).is_some_and(|slot| unsafe { *slot } == 0)
}

/// The value of an int that is not too large.
pub fn whole(object: &Obj) -> Option<i64> {
    if object.class_is(types().int) { object.bind().extract().quiet() } else { None }
}

/// Whether a flag says that the number of a class is valid.
fn flags_versions() -> bool {
    static FLAGS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FLAGS.get_or_init(|| crate::obj::py().version_info() < (3, 13))
}

/// CPython's counter of changes to a class; 0 where it does not count them.
pub fn version_of(class: &Obj) -> u32 {
    // SAFETY: `class` is a type object.
    unsafe {
        let class = class.ptr().cast::<ffi::PyTypeObject>();
        // 3.13 has no use for the flag any more: a class that was changed has no number.
        let valid = !flags_versions() || ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_VALID_VERSION_TAG) != 0;
        if valid { (*class).tp_version_tag } else { 0 }
    }
}

fn has_names(kwargs: Option<&Obj>, names: &[Obj]) -> bool {
    let Some(kwargs) = kwargs else { return names.is_empty() };
    let found = entries_of(kwargs);
    found.len() == names.len() && found.iter().zip(names).all(|((key, _), name)| same_value(key, name))
}

pub fn length(object: &Obj) -> Option<usize> {
    let types = types();
    if object.class_is(types.deque) {
        return object.bind().len().quiet();
    }
    let counted = [types.list, types.tuple, types.dict, types.set, types.frozenset];
    if !counted.iter().any(|t| object.is_instance_of(*t)) {
        return None;
    }
    // SAFETY: the generic functions on exact layouts; subclasses may override `__len__` but not these.
    let len = unsafe {
        let ptr = object.ptr();
        if ffi::PyList_Check(ptr) != 0 {
            ffi::PyList_Size(ptr)
        } else if ffi::PyTuple_Check(ptr) != 0 {
            ffi::PyTuple_Size(ptr)
        } else if ffi::PyDict_Check(ptr) != 0 {
            ffi::PyDict_Size(ptr)
        } else {
            ffi::PySet_Size(ptr)
        }
    };
    usize::try_from(len).ok()
}

fn has_keys(dict: &Obj, keys: &[Obj]) -> bool {
    if !dict.is_instance_of(types().dict) || length(dict) != Some(keys.len()) {
        return false;
    }
    entries_of(dict).iter().zip(keys).all(|((key, _), wanted)| key.is(wanted) || same_value(key, wanted))
}

fn has_members(set: &Obj, members: &[Obj]) -> bool {
    let Some(found) = (length(set) == Some(members.len())).then(|| set.bind().try_iter().quiet()).flatten() else { return false };
    found.flatten().map(Obj::from).zip(members).all(|(found, member)| found.is(member) || same_value(&found, member))
}
