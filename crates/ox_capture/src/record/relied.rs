//! What is relied on of objects from outside: the checks of the trace.

use super::{Origin, Original, Rec, Recording, Val, abandon, inspect};
use crate::guard::{Check, version_of};
use crate::obj::{Obj, entries_of, items_of};
use crate::source::{Key, Source, SourceId, instance_dict, same_value};
use crate::types::types;
use ox_ops::{Fact, Sym};
use pyo3::ffi;
use pyo3::prelude::*;

/// The kind of checks of lengths.
const LEN: u8 = 6;

impl Recording {
    pub fn check_equal(&mut self, source: SourceId, object: &Obj) {
        if let (Some(size), Ok(value)) = (self.expr_of(source), object.bind().extract::<i64>()) {
            let line = self.sizing.line.clone();
            return self.rely_on_fact(Fact::Equal(size, Sym::from(value)), &line);
        }
        let singleton = object.is_none() || object.class_is(types().bool);
        self.check_once(4, source, 0, || match singleton {
            true => Check::Is(source, object.clone()),
            false => Check::Equal(source, object.clone()),
        });
    }

    /// That a later call finds something of this class there: what is computed may raise.
    pub fn rely_on_type(&mut self, source: SourceId, object: &Obj) {
        let class = object.class();
        self.check_once(2, source, 0, || Check::Type(source, class));
    }

    /// The value of a number is relied on.
    pub fn settle(&mut self, value: &Val) -> Obj {
        match value.free {
            Some(source) => self.check_equal(source, &value.obj),
            None => self.settle_container(&value.obj),
        }
        value.obj.clone()
    }

    /// Where to find the value in a later call. None for what was made here.
    pub fn source_of(&mut self, value: &Val) -> Option<SourceId> {
        if let Some(source) = value.free {
            return Some(source);
        }
        match self.origin(&value.obj) {
            Origin::Outside(id) => Some(id),
            Origin::Const => Some(self.source(Source::Pinned(Key(value.obj.clone())))),
            _ => None,
        }
    }

    /// Relies on the code of a function that is pinned.
    pub fn rely_on_code(&mut self, function: &Obj, code: &Obj) {
        let fixed = match self.origin(function) {
            Origin::Outside(id) => matches!(self.tree.sources.read().get(id), Source::Pinned(_)),
            Origin::Const => true,
            _ => false,
        };
        if fixed && self.versions.insert(function.id()) {
            self.pin(function);
            self.checks.push(Check::Code(function.clone(), code.clone()));
        }
    }

    /// Relies on the class as it is now. False if CPython does not count its changes.
    pub fn rely_on_class(&mut self, class: &Obj) -> bool {
        if self.versions.contains(&class.id()) {
            return true;
        }
        // SAFETY: `class` is a type.
        let immutable = unsafe { ffi::PyType_HasFeature(class.ptr().cast(), ffi::Py_TPFLAGS_IMMUTABLETYPE) != 0 };
        if !immutable {
            crate::attr::type_lookup(class, &Obj::str("__init__"));
            let version = version_of(class);
            if version == 0 {
                return false;
            }
            self.checks.push(Check::Version(class.clone(), version));
        }
        self.versions.insert(class.id());
        self.pin(class);
        true
    }

    pub fn check_has_key(&mut self, dict: &Obj, key: &Obj) -> Rec<()> {
        let Origin::Outside(id) = self.origin(dict) else { return Ok(()) };
        if self.is_written(dict, key) || self.whole.contains(&dict.id()) {
            return Ok(());
        }
        if self.is_opaque(dict) {
            return self.recover(dict);
        }
        self.checks.push(Check::HasKey(id, key.clone()));
        Ok(())
    }

    /// A pure function of C gives the same result again for what these sources hold.
    pub fn check_pure(&mut self, function: &Obj, args: &[SourceId], first: &Obj, result: &Obj) -> Rec<()> {
        if self.is_whole(first) {
            return Ok(());
        }
        if self.is_resized(first) {
            return self.recover(first);
        }
        let source = self.source(Source::Compute(Key(function.clone()), args.to_vec()));
        self.check_equal(source, result);
        Ok(())
    }

    /// A mode of torch's is what it is now.
    pub fn rely_on_state(&mut self, function: &Obj, args: &[Obj], state: &Obj) {
        let args = args.iter().map(|a| self.source(Source::Pinned(Key(a.clone())))).collect();
        let source = self.source(Source::Compute(Key(function.clone()), args));
        self.check_equal(source, state);
    }

    /// Later calls must come with this very object.
    pub fn rely_on_identity(&mut self, object: &Obj, source: SourceId) {
        self.check_once(3, source, 0, || Check::Is(source, object.clone()));
    }

    /// As `tell_apart`, for tensors, of which there may be many: at the end of the segment they are compared all at once.
    pub fn tell_tensors_apart(&mut self) {
        self.changes_tensors = true;
    }

    pub(super) fn check_tensors_apart(&mut self) {
        if std::mem::take(&mut self.changes_tensors) {
            let mut sources: Vec<SourceId> = self
                .ids
                .values()
                .filter_map(|(origin, object)| match (origin, object) {
                    (Origin::Outside(id), Some(object)) if types().is_tensor(object) => Some(*id),
                    _ => None,
                })
                .collect();
            sources.sort_unstable();
            self.checks.push(Check::Apart(sources));
        }
    }

    /// A set or dict has the object, or is asked for it, and tells it from others by its address.
    pub fn tell_by_address(&mut self, object: &Obj) {
        if let Origin::Outside(source) = self.origin(object) {
            self.by_address.insert(source);
        }
    }

    /// The others that have the same hash. From now on it is one of them.
    pub fn hashed_alike(&mut self, hash: isize, object: &Obj) -> Vec<Obj> {
        let alike = self.hashed.entry(hash).or_default();
        let others = alike.iter().filter(|other| !other.is(object)).cloned().collect();
        if !alike.iter().any(|other| other.is(object)) {
            alike.push(object.clone());
        }
        others
    }

    pub(super) fn check_addresses(&mut self) {
        if self.by_address.len() > self.told_apart.max(1) {
            self.told_apart = self.by_address.len();
            self.checks.push(Check::Apart(self.by_address.iter().copied().collect()));
        }
    }

    /// Before an object is changed: in no later call may it be another one that this trace looks at.
    pub fn tell_apart(&mut self, object: &Obj) {
        let Origin::Outside(own) = self.origin(object) else { return };
        if !self.apart.insert(object.id()) || types().is_pinnable(object) {
            return;
        }
        let class = object.class_ptr();
        let others: Vec<SourceId> = self
            .ids
            .values()
            .filter_map(|(origin, other)| match (origin, other) {
                (Origin::Outside(id), Some(other)) if other.class_is(class) && !other.is(object) => Some(*id),
                _ => None,
            })
            .collect();
        for other in others {
            let (a, b) = (own.min(other), own.max(other));
            self.check_once(8, a, b.0, || Check::Different(a, b));
        }
    }

    /// An object that stands at a place of `parent`, which was reached from outside; no check if it was put there by the program.
    pub fn meet_at(&mut self, parent: &Obj, key: &Obj, object: Obj, source: impl FnOnce(SourceId) -> Source) -> Rec<Val> {
        let free = self.stowed_at(parent, key, &object);
        let Origin::Outside(id) = self.origin(parent) else { return Ok(Val { obj: object, free }) };
        let is_kept = free.is_some() && parent.is_instance_of(types().tuple);
        if is_kept || self.is_written(parent, key) || self.whole.contains(&parent.id()) {
            return Ok(Val { obj: object, free });
        }
        if self.is_opaque(parent) {
            self.recover(parent)?;
            let free = self.stowed_at(parent, key, &object);
            return Ok(Val { obj: object, free });
        }
        let source = self.source(source(id));
        Ok(self.meet(object, source))
    }

    /// An attribute that an object keeps in its dict. Where that has been changed as a dict, it is an entry.
    pub fn meet_attr(&mut self, object: &Obj, name: &Obj, found: Obj) -> Rec<Val> {
        let key = Key(name.clone());
        match self.dict_changed(object, name) {
            Some(dict) => self.meet_at(&dict, name, found, |of| Source::Value(of, key)),
            None => self.meet_at(object, name, found, |of| Source::Attr(of, key)),
        }
    }

    /// The dict of an object, if the program has changed it by another way than the attribute.
    fn dict_changed(&mut self, object: &Obj, name: &Obj) -> Option<Obj> {
        let Origin::Outside(of) = self.origin(object) else { return None };
        let dict = instance_dict(object)?;
        let is_replaced = self.has_writes_to(object) && self.is_written(object, &Obj::str("__dict__"));
        if !(is_replaced || self.is_written(&dict, name) || self.is_opaque(&dict) || self.is_whole(&dict)) {
            return None;
        }
        if !is_replaced && matches!(self.origin(&dict), Origin::Outside(_)) {
            let source = self.source(Source::Dict(of));
            self.meet(dict.clone(), source);
        }
        Some(dict)
    }

    pub fn check_no_key(&mut self, dict: &Obj, key: &Obj) -> Rec<()> {
        let Origin::Outside(id) = self.origin(dict) else { return Ok(()) };
        if self.is_written(dict, key) || self.whole.contains(&dict.id()) {
            return Ok(());
        }
        if self.is_opaque(dict) {
            return self.recover(dict);
        }
        let key_id = self.source(Source::Pinned(Key(key.clone())));
        self.check_once(10, id, key_id.0, || Check::NoKey(id, key.clone()));
        Ok(())
    }

    pub fn check_no_attr(&mut self, object: &Obj, name: &Obj) -> Rec<()> {
        let Origin::Outside(id) = self.origin(object) else { return Ok(()) };
        // What hangs on a class is counted by its version; a function has a dict like any instance.
        let fixed = types().is_pinnable(object) && !object.class_is(types().function);
        if self.is_written(object, name) || fixed {
            return Ok(());
        }
        if let Some(dict) = self.dict_changed(object, name) {
            return self.check_no_key(&dict, name);
        }
        let name_id = self.source(Source::Pinned(Key(name.clone())));
        self.check_once(5, id, name_id.0, || Check::NoAttr(id, name.clone()));
        Ok(())
    }

    /// Makes the whole content of a container known: each item has a source, a value, or was made here.
    pub fn know_whole(&mut self, object: &Obj, budget: &mut usize) -> Rec<()> {
        let Origin::Outside(id) = self.origin(object) else { return Ok(()) };
        if self.whole.contains(&object.id()) {
            return Ok(());
        }
        let original = self.originals.remove(&object.id());
        if self.is_resized(object) && original.is_none() {
            return abandon("reading a large container that was changed before");
        }
        let types = types();
        if object.is_instance_of(types.list) || object.is_instance_of(types.tuple) || object.class_is(types.deque) {
            let items = match original {
                Some(Original::Items(items)) => items,
                _ => items_of(object),
            };
            self.spend(budget, items.len())?;
            self.rely_on_len(id, items.len());
            for (n, item) in items.into_iter().enumerate() {
                let source = self.source(Source::Item(id, n as u32));
                let item = self.meet(item, source);
                self.settle(&item);
                self.know_whole(&item.obj, budget)?;
            }
        } else if object.is_instance_of(types.dict) {
            let entries = match original {
                Some(Original::Entries(entries)) => entries,
                _ => entries_of(object),
            };
            self.spend(budget, entries.len())?;
            self.check_keys(id, entries.iter().map(|(key, _)| key.clone()).collect())?;
            for (key, value) in entries {
                let source = self.source(Source::Value(id, Key(key)));
                let value = self.meet(value, source);
                self.settle(&value);
                self.know_whole(&value.obj, budget)?;
            }
        } else if object.is_instance_of(types.set) || object.is_instance_of(types.frozenset) {
            let members = match original {
                Some(Original::Items(items)) => items,
                _ => inspect::members_of(object),
            };
            self.spend(budget, members.len())?;
            if members.iter().any(|m| self.origin(m) != Origin::Const) {
                return abandon("a set of objects that are no constants");
            }
            self.checks.push(Check::Members(id, members));
        } else {
            return Ok(());
        }
        self.opaque.remove(&object.id());
        self.resized.remove(&object.id());
        self.whole.insert(object.id());
        Ok(())
    }

    /// How long a container was when the segment began.
    pub fn rely_on_len(&mut self, container: SourceId, len: usize) {
        self.check_once(LEN, container, 0, || Check::Len(container, len));
    }

    /// Whether that is relied on: what the program has added and taken away since is known.
    pub fn relies_on_len(&self, container: SourceId) -> bool {
        self.seen.contains(&(LEN, container.0, 0))
    }

    /// That nothing is in the slot of an object that a member of its class stands for.
    pub fn rely_on_unset(&mut self, object: SourceId, member: &Obj) {
        let member_id = self.source(Source::Pinned(Key(member.clone())));
        self.check_once(11, object, member_id.0, || Check::EmptySlot(object, member.clone()));
    }

    /// That nothing is in a cell.
    pub fn rely_on_empty(&mut self, cell: SourceId) {
        self.check_once(12, cell, 0, || Check::EmptyCell(cell));
    }

    fn spend(&self, budget: &mut usize, items: usize) -> Rec<()> {
        *budget = match budget.checked_sub(items + 1) {
            Some(left) => left,
            None => return abandon("a container with very many items"),
        };
        Ok(())
    }

    /// The keys of an outside dict, in order.
    pub fn check_keys(&mut self, dict: SourceId, keys: Vec<Obj>) -> Rec<()> {
        for key in &keys {
            if !matches!(self.origin(key), Origin::Const | Origin::Outside(_)) {
                return abandon("a dict with keys that were made here");
            }
        }
        self.check_once(7, dict, 0, || Check::Keys(dict, keys));
        Ok(())
    }

    /// `a is b`, relied on in later calls.
    pub fn is_same(&mut self, a: &Val, b: &Val) -> bool {
        if let Some(answer) = self.is_same_size(a, b) {
            return answer;
        }
        // A number is no object of another type, whatever its value is.
        let is_free_number = |value: &Val| value.free.is_some() && !value.obj.class_is(types().bool);
        if (is_free_number(a) || is_free_number(b)) && a.obj.class_ptr() != b.obj.class_ptr() {
            return false;
        }
        // What is in a container is of no interest.
        [a, b].into_iter().filter(|value| value.free.is_some()).for_each(|value| drop(self.settle(value)));
        let (left, right) = (a.obj.clone(), b.obj.clone());
        [&left, &right].into_iter().for_each(|object| self.rely_on_expansion(object));
        let same = left.is(&right);
        if let (Origin::Outside(x), Origin::Outside(y)) = (self.origin(&left), self.origin(&right))
            && !same
        {
            // Objects of other types cannot be the same one: their types are checked.
            if left.class_ptr() == right.class_ptr() {
                let (x, y) = (x.min(y), x.max(y));
                self.check_once(8, x, y.0, || Check::Different(x, y));
            }
        }
        same || (types().is_scalar(&left) && left.class_is(types().str) && same_value(&left, &right) && left.is(&right))
    }
}

pub fn is_set(object: &Obj) -> bool {
    object.is_instance_of(types().set) || object.is_instance_of(types().frozenset)
}
