//! Why a trace does not fit a call, for people: what was relied on and what came instead, the user's line that relies on it, and what can be
//! done about it.

use crate::guard::{Check, Context, length};
use crate::interrupt::Quiet;
use crate::obj::{Obj, entries_of};
use crate::record::members_of;
use crate::source::{Source, SourceId, Sources, Values, key_text, short};
use crate::state::TorchState;
use crate::tree::Segment;
use crate::types::types;
use ox_gauge::{Bound, Size, TensorSpec};
use ox_ops::{Fact, Var};
use std::fmt;

/// What a trace has against a call.
pub struct Objection {
    /// The check that does not hold, by its number.
    pub check: usize,
    what: String,
    /// The user's line, "" if none is known.
    line: String,
    advice: &'static str,
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = if self.line.is_empty() { String::new() } else { format!(", relied on at {}", self.line) };
        write!(f, "{}{line}; {}", self.what, self.advice)
    }
}

const SIZES: &str = "sizes that change are variables from now on: mark_dynamic or dynamic=True makes them so at once";
const RANGE: &str = "the declared range does not hold it: declare a larger one";
const NEVER: &str = "dynamic=False compiles anew for every size: leave it out";
const SMALL: &str = "a size of 0 or 1 that a trace begins with is a constant in it: let the first calls have larger ones";
const APART: &str = "sizes that were equal are told apart from now on: give them different values in the first call";
const ASKED: &str =
    "where the program asks for sizes, each answer is compiled for itself: pad the sizes, or do without the question";
const LAYOUT: &str = "memory is compiled for as it lies: call contiguous() before";
const DTYPE: &str = "each type is compiled for itself: convert before the call";
const NUMBER: &str = "numbers that change are inputs from now on where torch takes them: a tensor is one at once";
const VALUE: &str = "each value is compiled for itself: keep it the same, or choose outside of the compiled function";
const OBJECT: &str = "each kind of object is compiled for itself: give it the same kind in every call";
const MODE: &str = "each mode is compiled for itself: call it in the same mode";
const CODE: &str = "classes and functions were changed after the first call: change them before it";
const SHARING: &str = "tensors that are one object are compiled for as such: pass copies, or the same in every call";

/// What was there and what is, in words; and what to do.
type Difference = (String, &'static str);

impl Segment {
    /// The first of its checks that does not hold. `dynamic`: whether sizes may be variables.
    pub fn objection(&self, context: &Context<'_>, values: &mut Values<'_>, dynamic: Option<bool>) -> Option<Objection> {
        let check = self.checks.iter().position(|check| !check.holds(context, values))?;
        let failed = &self.checks[check];
        let (what, advice) = difference(failed, context, values, dynamic);
        let place = || self.places.get(check).and_then(Option::as_ref).map(|place| place.line());
        let line = match failed {
            Check::Fact(_, line) if !line.is_empty() => line.clone(),
            _ => place().unwrap_or_default(),
        };
        Some(Objection { check, what, line, advice })
    }
}

fn difference(check: &Check, context: &Context<'_>, values: &mut Values<'_>, dynamic: Option<bool>) -> Difference {
    let sources = context.sources;
    let of = |id: &SourceId| sources.tell(*id);
    if let Check::Call(count, names) = check {
        let found = values.kwargs.map(entries_of).unwrap_or_default().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        return (changed("the call", &call_text(*count, names), Some(call_text(values.args.len(), &found))), OBJECT);
    }
    if let Check::Tensor(id, _) | Check::Sized(id, _) = check {
        return tensor_difference(check, *id, context, values, dynamic);
    }
    if let Check::Equal(id, old) | Check::Is(id, old) = check {
        let (found, made_of) = (values.get(sources, *id), operands(*id, sources, values));
        let text = |value: &Obj| if matches!(check, Check::Equal(..)) { value.text() } else { short(value) };
        let is_number = old.class_is(types().int) || old.class_is(types().float);
        let what = changed(&of(id), &text(old), found.as_ref().map(text));
        return (format!("{what}{made_of}"), if is_number { NUMBER } else { VALUE });
    }
    let mut now = |id: &SourceId| values.get(sources, *id);
    match check {
        Check::Type(id, class) => {
            (changed(&format!("type({})", of(id)), &short(class), now(id).map(|v| short(&v.class()))), OBJECT)
        }
        Check::Len(id, len) => {
            let found = now(id).and_then(|v| length(&v)).map(|n| n.to_string());
            (changed(&format!("len({})", of(id)), &len.to_string(), found), OBJECT)
        }
        Check::Keys(id, keys) => {
            let found = now(id).map(|dict| entries_of(&dict).into_iter().map(|(key, _)| key).collect::<Vec<_>>());
            (changed(&format!("list({})", of(id)), &list_text(keys), found.map(|keys| list_text(&keys))), OBJECT)
        }
        Check::NoKey(id, key) => (changed(&format!("{} in {}", key_text(key), of(id)), "False", Some("True".into())), VALUE),
        Check::HasKey(id, key) => (changed(&format!("{} in {}", key_text(key), of(id)), "True", Some("False".into())), VALUE),
        Check::NoAttr(id, name) => (format!("{} had no attribute {} of its own and has one", of(id), name), VALUE),
        Check::Members(id, old) => {
            let found = now(id).map(|set| members_of(&set)).map(|members| list_text(&members));
            (changed(&format!("list({})", of(id)), &list_text(old), found), VALUE)
        }
        Check::RequiresGrad(id, wanted) => {
            (changed(&format!("{}.requires_grad", of(id)), &wanted.to_string(), Some((!wanted).to_string())), MODE)
        }
        Check::Fact(fact, _) => (broken_fact(fact, sources, &values.sizes), ASKED),
        Check::State(old) => {
            (changed("the state of torch", &old.to_string(), TorchState::now().quiet().map(|now| now.to_string())), MODE)
        }
        Check::Class(portrait) => (format!("class {} was changed", short(&portrait.class)), CODE),
        Check::Version(class, _) => (format!("class {} was changed", short(class)), CODE),
        Check::Code(function, _) => (format!("{} was given other code", short(function)), CODE),
        Check::Same(..) | Check::Different(..) | Check::Apart(..) => (not(check, sources), SHARING),
        _ => (not(check, sources), OBJECT),
    }
}

/// What a value that is computed is computed of, as it is now: `(arg1.v > 1)` of `arg1.v`.
fn operands(id: SourceId, sources: &Sources, values: &mut Values<'_>) -> String {
    let Source::Compute(_, args) = sources.get(id) else { return String::new() };
    let mut told = Vec::new();
    for arg in args.iter().filter(|arg| !matches!(sources.get(**arg), Source::Pinned(_))) {
        let found = values.get(sources, *arg).filter(|found| types().is_scalar(found));
        told.extend(found.map(|found| format!("{} is {}", sources.tell(*arg), found.text())));
    }
    if told.is_empty() { String::new() } else { format!(": {}", told.join(" and ")) }
}

fn list_text(items: &[Obj]) -> String {
    format!("[{}]", items.iter().map(key_text).collect::<Vec<_>>().join(", "))
}

fn call_text(count: usize, names: &[Obj]) -> String {
    let named = if names.is_empty() { String::new() } else { format!(" and {} by name", list_text(names)) };
    format!("with {count} argument{}{named}", if count == 1 { "" } else { "s" })
}

fn not(check: &Check, sources: &Sources) -> String {
    sources.with_names(&format!("not {}", check.show(sources)))
}

fn changed(place: &str, old: &str, new: Option<String>) -> String {
    match new {
        Some(new) => format!("{place} was {old} and is {new}"),
        None => format!("{place} was {old} and is gone"),
    }
}

fn broken_fact(fact: &Fact, sources: &Sources, bound: &Bound) -> String {
    let value = |var: &Var| Some(format!("{var} is {}", bound.get(var)?));
    let found = fact.vars().iter().filter_map(value).collect::<Vec<_>>().join(" and ");
    sources.with_names(&format!("{fact} does not hold: {found}"))
}

/// The first in which a tensor is another: its type, its rank, its sizes, how it lies, its kind.
fn tensor_difference(
    check: &Check,
    id: SourceId,
    context: &Context<'_>,
    values: &mut Values<'_>,
    dynamic: Option<bool>,
) -> Difference {
    let place = context.sources.tell(id);
    let (old, sizes) = match check {
        Check::Sized(_, spec) => (&spec.tensor, spec.sizes.clone()),
        Check::Tensor(_, spec) => (&**spec, spec.sizes.iter().map(|size| Size::Known(*size)).collect()),
        _ => return (not(check, context.sources), OBJECT),
    };
    let found = values.get(context.sources, id);
    let Some(new) = found.as_ref().and_then(|tensor| context.backend.describe(tensor)) else {
        return (changed(&place, &old.to_string(), found.map(|object| format!("a {}", object.class_name()))), OBJECT);
    };
    if old.dtype != new.dtype {
        return (changed(&format!("the type of {place}"), &old.dtype_name, Some(new.dtype_name)), DTYPE);
    }
    if old.sizes.len() != new.sizes.len() {
        return (changed(&format!("{place}.shape"), &format!("{:?}", old.sizes), Some(format!("{:?}", new.sizes))), OBJECT);
    }
    size_differences(&place, &sizes, &new, context.sources, &values.sizes, dynamic).unwrap_or_else(|| {
        match old.keys == new.keys {
            true => {
                (changed(&format!("{place}.stride()"), &format!("{:?}", old.strides), Some(format!("{:?}", new.strides))), LAYOUT)
            }
            false => (format!("{place} is another kind of tensor, or on another device"), OBJECT),
        }
    })
}

/// All sizes that are others.
fn size_differences(
    place: &str,
    sizes: &[Size],
    new: &TensorSpec,
    sources: &Sources,
    bound: &Bound,
    dynamic: Option<bool>,
) -> Option<Difference> {
    let mut advice = if dynamic == Some(false) { NEVER } else { SIZES };
    let mut told = Vec::new();
    for (d, (size, found)) in sizes.iter().zip(&new.sizes).enumerate() {
        let name = format!("{place}.shape[{d}]");
        match size {
            Size::Known(old) if old != found => {
                told.push(changed(&name, &old.to_string(), Some(found.to_string())));
                advice = if *old <= 1 && dynamic != Some(false) { SMALL } else { advice };
            }
            Size::Bind(var) if !(var.lo()..=var.hi()).contains(found) => {
                told.push(changed(&name, &format!("{} to {}", var.lo(), var.hi()), Some(found.to_string())));
                advice = RANGE;
            }
            Size::Same(var) if bound.get(var) != Some(*found) => {
                let other = bound.get(var).map_or(String::new(), |other| format!(", which is {other}"));
                told.push(format!("{name} was {}{other}, and is {found}", sources.with_names(&var.to_string())));
                advice = APART;
            }
            _ => {}
        }
    }
    (!told.is_empty()).then(|| (told.join(" and "), advice))
}
