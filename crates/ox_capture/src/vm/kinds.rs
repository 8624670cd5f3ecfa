//! `isinstance` and `issubclass`.

use super::operators::is_tensor;
use super::seen::seen_class;
use super::{Args, Called, R, Vm};
use crate::attr::type_lookup;
use crate::builtins::{Known, is_of_torch};
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::record::{Val, is_machine};
use crate::types::types;
use pyo3::ffi;
use pyo3::prelude::*;

impl Vm {
    pub(super) fn is_kind(&mut self, known: Known, callable: &Val, object: &Val, class: &Val) -> R<Called> {
        let kinds = self.known_data(class)?;
        let classes = flattened(&kinds);
        let hook = if known == Known::IsInstance { "__instancecheck__" } else { "__subclasscheck__" };
        if classes.iter().any(|class| self.decides_itself(class, hook, &object.obj)) {
            return match self.python_method(&kinds, hook) {
                Some(method) => self.call_library("asked", vec![method, class.clone(), object.clone()]),
                None => {
                    let classes = self.tuple(classes.into_iter().map(Val::from).collect())?;
                    self.call_library("is_one_of", vec![callable.clone(), object.clone(), classes])
                }
            };
        }
        if known == Known::IsInstance && self.is_asked_for_attributes(&object.obj, &classes)? {
            let args = Args::positional(vec![object.clone(), class.clone()]);
            return self.opaque_call(callable, args, "isinstance() by a protocol, which looks at attributes");
        }
        let answer = match known == Known::IsInstance && is_machine(&object.obj) {
            true => {
                py().import("builtins")?.getattr("issubclass")?.call1((seen_class(&object.obj)?.bind(), kinds.bind()))?.into()
            }
            false => callable.obj.call(&[object.obj.clone(), kinds], None)?,
        };
        if let Some(rec) = &mut self.rec
            && known == Known::IsSubclass
        {
            rec.pin(&object.obj);
        }
        if !answer.truth()? {
            self.rely_on_registers(known, &object.obj, &classes)?;
        }
        Ok(Called::Value(answer.into()))
    }

    /// Whether the class of a class says in Python what is of its kind. What abc has written asks registers, and torch's own looks at tensors.
    fn decides_itself(&mut self, class: &Obj, hook: &str, object: &Obj) -> bool {
        let Some(method) = self.python_method(class, hook).filter(|_| self.rec.is_some()) else { return false };
        // That of protocols looks at the frames of its callers.
        let module = method.obj.attr("__module__").ok().and_then(|module| module.to_str()).unwrap_or_default();
        !matches!(module.as_str(), "abc" | "typing") && !is_of_torch(&method.obj) && object.class_ptr() != class.ptr().cast()
    }

    /// Whether attributes of an object decide if it is one of these: what a class in C has stays what it is, and where the class has all
    /// that is asked for, nobody looks at the object.
    fn is_asked_for_attributes(&mut self, object: &Obj, classes: &[Obj]) -> R<bool> {
        let has_own = || !is_tensor(object) && !types().is_pinnable(object) && crate::source::instance_dict(object).is_some();
        let protocols: Vec<&Obj> = classes.iter().filter(|class| is_protocol(class)).collect();
        if self.rec.is_none() || protocols.is_empty() || !has_own() {
            return Ok(false);
        }
        self.recorded(|rec| Ok(rec.rely_on_class(&object.class())));
        let by_class: Obj = py().import("abc")?.getattr("ABCMeta")?.getattr("__instancecheck__")?.into();
        let fits = |class: &Obj| {
            by_class
                .call(&[class.clone(), object.clone()], None)
                .quiet()
                .is_some_and(|fits| fits.truth().quiet().unwrap_or(false))
        };
        Ok(!protocols.into_iter().all(fits))
    }

    /// A class of the program's may be registered with an abstract one later, which counts such changes. Those of C are registered when they are made.
    fn rely_on_registers(&mut self, known: Known, object: &Obj, classes: &[Obj]) -> R<()> {
        let asked = if known == Known::IsInstance { object.class() } else { object.clone() };
        // SAFETY: `issubclass` has refused what is no type.
        let of_c = unsafe { ffi::PyType_HasFeature(asked.ptr().cast(), ffi::Py_TPFLAGS_IMMUTABLETYPE) != 0 };
        let abstract_classes = py().import("abc")?;
        let meta: Obj = abstract_classes.getattr("ABCMeta")?.into();
        if of_c || is_tensor(object) || !classes.iter().any(|class| class.is_instance_of(meta.ptr().cast())) {
            return Ok(());
        }
        let count: Obj = abstract_classes.getattr("get_cache_token")?.into();
        let now = count.call(&[], None)?;
        if let Some(rec) = &mut self.rec {
            rec.rely_on_state(&count, &[], &now);
        }
        Ok(())
    }
}

/// A protocol that `isinstance` is asked about. A class that was made of one is like others.
fn is_protocol(class: &Obj) -> bool {
    let says = |name: &str| type_lookup(class, &Obj::str(name)).is_some_and(|answer| answer.truth().quiet().unwrap_or(false));
    class.is_instance_of(types().type_) && says("_is_protocol") && says("_is_runtime_protocol")
}

fn flattened(classes: &Obj) -> Vec<Obj> {
    let parts = match classes {
        _ if classes.class_is(types().tuple) => Some(classes.clone()),
        _ if classes.class_is(types().union) => classes.attr("__args__").quiet(),
        _ => None,
    };
    match parts {
        Some(parts) => items_of(&parts).iter().flat_map(flattened).collect(),
        None => vec![classes.clone()],
    }
}
