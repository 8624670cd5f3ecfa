//! The classes of the machine's own iterators and generators, as the program sees them: those of CPython's that they stand for.

use super::entries::Entries;
use super::iterate::Kind;
use super::{R, VmGenerator, VmIterator, library};
use crate::obj::{Obj, py};
use crate::types::types;
use pyo3::prelude::*;

/// The class that an object says it has. Of what is not the machine's that is the class that it has.
pub fn seen_class(object: &Obj) -> R<Obj> {
    if let Ok(iterator) = object.bind().cast::<VmIterator>() {
        return class_of_kind(&iterator.borrow().kind.borrow());
    }
    let Ok(generator) = object.bind().cast::<VmGenerator>() else { return Ok(object.class()) };
    let function = generator.borrow().made_by();
    match function.and_then(|function| library::class_of(&function)) {
        Some(class) => Ok(class),
        None => Ok(py().import("types")?.getattr("GeneratorType")?.into()),
    }
}

fn class_of_kind(kind: &Kind) -> R<Obj> {
    let builtin = |name: &str| -> R<Obj> { Ok(py().import("builtins")?.getattr(name)?.into()) };
    let iterator_of = |object: &Obj| -> R<Obj> { Ok(Obj::from(object.bind().try_iter()?).class()) };
    match kind {
        Kind::Sequence { of, .. } | Kind::Items { of: Some((of, _)), .. } => iterator_of(of),
        Kind::Items { of: None, .. } => iterator_of(&crate::obj::list_of(&[])?),
        Kind::Entries(Entries { dict, gives, .. }) => {
            let class = if dict.is_instance_of(types().ordered_dict) { types().ordered_dict } else { types().dict };
            // SAFETY: the types live for ever.
            let class = unsafe { Obj::borrowed(class.cast()) };
            iterator_of(&class.attr(gives.method())?.call(std::slice::from_ref(dict), None)?)
        }
        Kind::Backwards { of, .. } => Ok(builtin("reversed")?.call(std::slice::from_ref(of), None)?.class()),
        Kind::Zip { .. } => builtin("zip"),
        Kind::Enumerate { .. } => builtin("enumerate"),
    }
}
