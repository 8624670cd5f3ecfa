//! Checks of tensors whose sizes are variables, all at once: sizes and strides are read from where torch keeps them into two arrays, and what
//! must hold of them is computed over those. No object is made and nothing is called for a tensor but what says whether it requires grad.
//!
use crate::guard::{Check, Context};
use crate::obj::Obj;
use crate::source::{Source, SourceId, Sources, Values};
use crate::types::types;
use ox_gauge::{Body, Formulas, Kind, Layouts, ROOM, Sizes};
use pyo3::ffi;
use rustc_hash::{FxHashMap, FxHashSet};
use std::slice::from_raw_parts;

/// What a check is to a gauge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Made by itself.
    Alone,
    /// Where the gauge is asked.
    First,
    /// Made by the gauge.
    Part,
}

pub struct Gauge {
    body: Body,
    roles: Vec<Role>,
    runs: Vec<Run>,
    layouts: Layouts,
    facts: Formulas,
}

/// Tensors of one kind that are found side by side.
struct Run {
    kind: Kind,
    place: Place,
}

enum Place {
    /// Items of one list or tuple.
    Items(SourceId, Vec<u32>),
    One(SourceId),
}

impl Gauge {
    /// None where there is nothing to gauge, or some tensor cannot be: its sizes would be missing.
    pub fn new(checks: &[Check], context: &Context<'_>) -> Option<Gauge> {
        let body = context.backend.body()?;
        let sized = |check: &Check| matches!(check, Check::Sized(..));
        let first = checks.iter().position(sized)?;
        let wanted: FxHashMap<SourceId, bool> = checks.iter().filter_map(grad_of).collect();
        let mut gauge =
            Gauge { body, roles: Vec::new(), runs: Vec::new(), layouts: Layouts::default(), facts: Formulas::default() };
        let rows = rows(checks);
        for check in checks {
            let Check::Sized(id, spec) = check else { continue };
            let (tensor, rank) = (&spec.tensor, spec.sizes.len());
            if !(1..=ROOM).contains(&rank) {
                return None;
            }
            let (keys, requires_grad) = (tensor.keys as usize, wanted.get(id).copied());
            gauge.put(
                context.sources,
                &rows,
                *id,
                Kind { class: tensor.class, keys, number: tensor.number, rank, requires_grad },
            );
            gauge.layouts.add(spec)?;
        }
        let tensors: FxHashMap<SourceId, usize> = checks.iter().filter_map(class_of).collect();
        gauge.roles = checks.iter().map(|check| gauge.role_of(check, &tensors)).collect();
        gauge.roles[first] = Role::First;
        Some(gauge)
    }

    /// Whether a check is part of it. A fact is if all that it mentions is read here.
    fn role_of(&mut self, check: &Check, tensors: &FxHashMap<SourceId, usize>) -> Role {
        let is_part = match check {
            Check::Sized(..) => true,
            Check::Type(id, class) => tensors.get(id) == Some(&class.id()),
            Check::RequiresGrad(id, _) => tensors.contains_key(id),
            Check::Fact(fact, _) => self.facts.add(fact, &self.layouts),
            _ => false,
        };
        if is_part { Role::Part } else { Role::Alone }
    }

    /// Behind those that were put before: in their run, if they are alike.
    fn put(&mut self, sources: &Sources, rows: &FxHashSet<SourceId>, id: SourceId, kind: Kind) {
        match (sources.get(id), self.runs.last_mut()) {
            (Source::Item(of, n), Some(Run { kind: last, place: Place::Items(list, items) })) if *last == kind && list == of => {
                items.push(*n);
            }
            (Source::Item(of, n), _) if rows.contains(of) => {
                self.runs.push(Run { kind, place: Place::Items(*of, vec![*n]) });
            }
            _ => self.runs.push(Run { kind, place: Place::One(id) }),
        }
    }

    pub fn role(&self, check: usize) -> Role {
        self.roles[check]
    }

    /// Whether all its checks hold; binds the variables among the sizes.
    pub fn holds(&self, context: &Context<'_>, values: &mut Values<'_>) -> bool {
        let mut sizes = Sizes::new(self.layouts.width() + ROOM);
        let mut at = 0;
        for run in &self.runs {
            let read = |object: *const usize| {
                // SAFETY: a live object, which its place holds, and room for the sizes of all tensors.
                let fits = unsafe {
                    self.body.read(object, &run.kind, sizes.sizes.as_mut_ptr().add(at), sizes.strides.as_mut_ptr().add(at))
                };
                at += run.kind.rank;
                fits
            };
            if !run.place.visit(context.sources, values, read) {
                return false;
            }
        }
        self.layouts.fit(&sizes) && {
            self.layouts.bind(&sizes, &mut values.sizes);
            self.facts.hold(&sizes.sizes[..self.layouts.width()])
        }
    }
}

/// The lists and tuples whose items may be looked at where they lie. Behind an action none: the program may have changed a list since it read
/// the item that the trace means.
fn rows(checks: &[Check]) -> FxHashSet<SourceId> {
    let is_row = |class: &Obj| [types().list, types().tuple].contains(&class.ptr().cast());
    match checks.first() {
        Some(Check::Returned(_)) => FxHashSet::default(),
        _ => checks
            .iter()
            .filter_map(|check| match check {
                Check::Type(id, class) if is_row(class) => Some(*id),
                _ => None,
            })
            .collect(),
    }
}

fn grad_of(check: &Check) -> Option<(SourceId, bool)> {
    match check {
        Check::RequiresGrad(id, wanted) => Some((*id, *wanted)),
        _ => None,
    }
}

fn class_of(check: &Check) -> Option<(SourceId, usize)> {
    match check {
        Check::Sized(id, spec) => Some((*id, spec.tensor.class)),
        _ => None,
    }
}

impl Place {
    /// Whether there are as many objects, and all of them pass. Nothing that is called meanwhile runs code of the program.
    fn visit(&self, sources: &Sources, values: &mut Values<'_>, mut read: impl FnMut(*const usize) -> bool) -> bool {
        match self {
            Place::One(id) => values.get(sources, *id).is_some_and(|object| read(object.ptr().cast())),
            Place::Items(of, items) => values.get(sources, *of).is_some_and(|of| {
                // SAFETY: nobody changes it meanwhile.
                let found = unsafe { items_in(&of) };
                items.iter().all(|n| found.get(*n as usize).is_some_and(|item| read(item.cast())))
            }),
        }
    }
}

/// The items of a list or tuple, where they lie; none of anything else.
///
/// # Safety
/// Nobody may change it while they are looked at.
unsafe fn items_in(of: &Obj) -> &[*const ffi::PyObject] {
    // SAFETY: by the type of the object.
    unsafe {
        let object = of.ptr();
        if ffi::PyList_Check(object) != 0 {
            let list = object.cast::<ffi::PyListObject>();
            let (items, len) = ((*list).ob_item, (*list).ob_base.ob_size as usize);
            if items.is_null() { &[] } else { from_raw_parts(items.cast(), len) }
        } else if ffi::PyTuple_Check(object) != 0 {
            let tuple = object.cast::<ffi::PyTupleObject>();
            from_raw_parts((&raw const (*tuple).ob_item).cast(), (*tuple).ob_base.ob_size as usize)
        } else {
            &[]
        }
    }
}
