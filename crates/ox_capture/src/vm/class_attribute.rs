//! Attributes of classes that the program writes.

use super::store::name_of;
use super::{R, Vm};
use crate::attr::{has_get, is_data_descriptor, type_lookup};
use crate::class_portrait::{entry_reader, own_entry, owner_of};
use crate::obj::Obj;
use crate::record::Val;
use crate::source::{Key, Source};
use crate::types::types;
use pyo3::ffi;
use pyo3::prelude::*;

impl Vm {
    /// What a class (or a base) holds under a name that some trace writes to; it is read like any place outside. None for all others, which
    /// the class's version counts.
    pub(super) fn written_on_class(&mut self, class: &Obj, name: &Obj) -> R<Option<Val>> {
        let Some(rec) = &mut self.rec else { return Ok(None) };
        if !rec.tree.has_class_writes() {
            rec.class_reads.insert(Key(name.clone()));
            return Ok(None);
        }
        let found = owner_of(class, name).and_then(|owner| Some((own_entry(&owner, name)?, owner)));
        let Some((found, owner)) = found.filter(|(_, owner)| rec.tree.writes_to_class(owner, name)) else {
            rec.class_reads.insert(Key(name.clone()));
            return Ok(None);
        };
        if has_get(&found) {
            return Ok(None);
        }
        if rec.is_written(&owner, name) {
            let free = rec.stowed_at(&owner, name, &found);
            return Ok(Some(Val { obj: found, free }));
        }
        let source = rec.class_entry(&owner, name)?;
        Ok(Some(rec.meet(found, source)))
    }

    /// Whether later calls can write the attribute again: nothing but the class's dict changes by it.
    pub(super) fn is_plain_class_place(&self, class: &Obj, name: &Obj) -> bool {
        // SAFETY: a type.
        let fixed = unsafe { ffi::PyType_HasFeature(class.ptr().cast(), ffi::Py_TPFLAGS_IMMUTABLETYPE) != 0 };
        let is_plain = is_as_of_type(&class.class(), "__setattr__");
        let is_special = name.to_str().is_none_or(|name| name.starts_with("__"));
        let holds_descriptor = own_entry(class, name).is_some_and(|entry| has_get(&entry));
        !fixed && is_plain && !is_special && !holds_descriptor && self.rec.is_some()
    }

    /// Whether code of a metaclass, a property or another descriptor, stands for what is set or deleted on a class.
    pub(super) fn is_set_by_metaclass(&self, object: &Obj, name: &Obj) -> bool {
        let (meta, t) = (object.class(), types());
        let is_code = |found: &Obj| is_data_descriptor(found) && !found.class_is(t.getset) && !found.class_is(t.member);
        object.is_instance_of(t.type_)
            && ["__setattr__", "__delattr__"].iter().all(|hook| is_as_of_type(&meta, hook))
            && type_lookup(&meta, name).is_some_and(|found| is_code(&found))
    }

    pub(super) fn store_class_attr(&mut self, class: &Val, name: &Obj, value: Val) -> R<()> {
        let this = class.obj.clone();
        if has_get(&value.obj) || !self.is_plain_class_place(&this, name) {
            // Every check of the class's version would fail from now on.
            self.give_up("an attribute of a class is set");
            return this.bind().setattr(name_of(name)?, value.obj.bind());
        }
        self.begin_class_write(&this, name)?;
        self.note("setattr", vec![class.clone(), name.clone().into(), value.clone()])?;
        self.settle_for_others(&value);
        this.bind().setattr(name_of(name)?, value.obj.bind())?;
        if let Some(rec) = &mut self.rec {
            rec.mark_written(&this, name);
            rec.stow_outside(&this, name, &value);
        }
        Ok(())
    }

    pub(super) fn delete_class_attr(&mut self, class: &Val, name: &Obj) -> R<()> {
        let this = class.obj.clone();
        if !self.is_plain_class_place(&this, name) || own_entry(&this, name).is_none() {
            self.give_up("an attribute of a class is deleted");
            return this.bind().delattr(name_of(name)?);
        }
        self.begin_class_write(&this, name)?;
        self.note("delattr", vec![class.clone(), name.clone().into()])?;
        this.bind().delattr(name_of(name)?)?;
        if let Some(rec) = &mut self.rec {
            rec.mark_written(&this, name);
        }
        Ok(())
    }

    /// To be called before the change. What was read under this name, as something that does not change, is relied on now.
    fn begin_class_write(&mut self, class: &Obj, name: &Obj) -> R<()> {
        self.pinned(class.clone());
        let Some(rec) = &mut self.rec else { return Ok(()) };
        if rec.class_reads.remove(&Key(name.clone())) && !rec.is_written(class, name) {
            let source = rec.class_entry(class, name)?;
            let before =
                own_entry(class, name).unwrap_or_else(|| crate::obj::py().NotImplemented().into_bound(crate::obj::py()).into());
            match types().is_scalar(&before) {
                true => rec.check_equal(source, &before),
                false => rec.rely_on_identity(&before, source),
            }
        }
        rec.tree.note_class_write(class, name);
        Ok(())
    }
}

/// Whether a metaclass has `type`'s own method of this name.
fn is_as_of_type(meta: &Obj, name: &str) -> bool {
    let name = Obj::str(name);
    // SAFETY: the type lives for ever.
    let plain = unsafe { Obj::borrowed(types().type_.cast()) };
    type_lookup(meta, &name).zip(type_lookup(&plain, &name)).is_some_and(|(a, b)| a.is(&b))
}

impl crate::record::Recording {
    fn class_entry(&mut self, class: &Obj, name: &Obj) -> R<crate::source::SourceId> {
        let args = [class, name].map(|object| self.source(Source::Pinned(Key(object.clone())))).to_vec();
        Ok(self.source(Source::Compute(Key(entry_reader()?), args)))
    }
}
