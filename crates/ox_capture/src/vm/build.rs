//! Instructions that make containers, fill them, and take them apart.

use super::asking::ASKED;
use super::flow::called_name;
use super::{Args, Called, R, Vm};
use crate::obj::{Obj, list_of, py, tuple_of};
use crate::record::Val;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PySet;

impl Vm {
    /// A container that this code is filling gets something. If it lived through a break, later calls find it as it was there, and do this
    /// again.
    pub fn list(&mut self, values: &[Val]) -> R<Val> {
        let items: Vec<Obj> = values.iter().map(|value| self.settled_but_free(value)).collect();
        let list = list_of(&items)?;
        let made = self.made(list.clone());
        self.keep_free(&list, 0, values);
        Ok(made)
    }

    /// The list on the stack that is being written down (`[*a, b]`): nobody else has it yet. Where a break came in between and it is given numbers that
    /// vary, a list of this segment's takes its place, which keeps them as what they are.
    pub(super) fn display(&mut self, n: usize, given: &[Val]) -> R<Obj> {
        const FEW: usize = 64;
        let list = self.peek(n);
        let len = list.bind().len()?;
        let is_at_home = self.rec.is_none() || self.is_ours(&list);
        if is_at_home || len > FEW || !given.iter().any(|value| self.stays_free(value)) {
            return Ok(list);
        }
        let items: Vec<Val> = (0..len).map(|place| self.item_at(&list, place)).collect();
        let own = self.list(&items)?;
        let stack = &mut self.frame().stack;
        let place = stack.len() - n;
        stack[place] = Some(own.clone());
        Ok(own.obj)
    }

    /// `list.append`. What others see is given the number itself.
    pub(super) fn append(&mut self, list: &Obj, value: &Val) -> R<()> {
        let is_ours = self.is_ours(list);
        let item = if is_ours { self.settled_but_free(value) } else { self.settled(value) };
        let at = list.bind().len()?;
        self.grow(list, "append", &[item])?;
        if is_ours {
            self.keep_free(list, at, std::slice::from_ref(value));
        }
        Ok(())
    }

    pub(super) fn build_set(&mut self, items: &[Obj]) -> R<Called> {
        if self.asks_for_hashes(items) {
            let (class, list) = (self.builtin("set")?, self.made(list_of(items)?));
            return self.opaque_call(&class.into(), Args::positional(vec![list]), ASKED);
        }
        let set = PySet::empty(py())?;
        for item in items {
            set.add(item.bind())?;
        }
        Ok(Called::Value(self.made(set.into())))
    }

    pub(super) fn build_dict(&mut self, entries: &[(Obj, Val)]) -> R<Called> {
        if self.asks_for_hashes(entries.iter().map(|(key, _)| key)) {
            let (class, pairs) = (self.builtin("dict")?, self.pairs(entries)?);
            return self.opaque_call(&class.into(), Args::positional(vec![pairs]), ASKED);
        }
        self.argument_dict(entries).map(Called::Value)
    }

    /// A list of tuples.
    pub(super) fn pairs(&mut self, entries: &[(Obj, Val)]) -> R<Val> {
        let mut pairs = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            pairs.push(tuple_of(&[key.clone(), self.settled(value)])?);
        }
        Ok(self.made(list_of(&pairs)?))
    }

    /// To a set that this code is filling.
    pub(super) fn add_members(&mut self, set: &Obj, items: Vec<Obj>) -> R<()> {
        if self.asks_for_hashes(&items) {
            let items = self.made(list_of(&items)?);
            return self.fill_for_real(set, "update", items);
        }
        items.into_iter().try_for_each(|item| self.grow(set, "add", &[item]))
    }

    /// To a dict that this code is filling.
    pub(super) fn add_entries(&mut self, dict: &Obj, entries: &[(Obj, Val)]) -> R<()> {
        if self.asks_for_hashes(entries.iter().map(|(key, _)| key)) {
            let pairs = self.pairs(entries)?;
            return self.fill_for_real(dict, "update", pairs);
        }
        entries.iter().try_for_each(|(key, value)| self.add_entry(dict, key, value))
    }

    fn fill_for_real(&mut self, container: &Obj, method: &str, items: Val) -> R<()> {
        let function = container.class().attr(method)?;
        let called = self.call_library("for_real", vec![function.into(), container.clone().into(), items])?;
        self.drop_result(called);
        Ok(())
    }

    fn add_entry(&mut self, dict: &Obj, key: &Obj, value: &Val) -> R<()> {
        let stays_free = self.is_ours(dict) && self.stays_free(value);
        let object = match self.is_ours(dict) {
            true => self.settled_but_free(value),
            false => self.settled(value),
        };
        self.grow(dict, "__setitem__", &[key.clone(), object.clone()])?;
        if let Some(rec) = &mut self.rec {
            rec.stow_outside(dict, key, &if stays_free { value.clone() } else { object.into() });
        }
        Ok(())
    }

    pub(super) fn grow(&mut self, container: &Obj, method: &str, args: &[Obj]) -> R<()> {
        let function = container.class().attr(method)?;
        let objects = [std::slice::from_ref(container), args].concat();
        if matches!(self.origin(container), crate::record::Origin::Outside(_))
            && let Some(rec) = &mut self.rec
        {
            rec.tell_apart(container);
            rec.note_change(function.clone(), objects.iter().cloned().map(Val::from).collect());
            match method {
                "__setitem__" => {
                    rec.mark_keys_changed(container);
                    rec.mark_written(container, &args[0]);
                }
                _ => rec.mark_opaque(container),
            }
        }
        function.call(&objects, None).map(drop)
    }

    pub(super) fn build_slice(&mut self, n: usize) -> R<()> {
        let values = self.pop_many(n);
        let slice = self.slice(&values)?;
        self.push(slice);
        Ok(())
    }

    /// Of a start, an end, and perhaps a step.
    pub fn slice(&mut self, values: &[Val]) -> R<Val> {
        let mut parts = self.all_but_sizes(values);
        parts.resize(3, Obj::none());
        // SAFETY: three live objects.
        let slice = unsafe { Obj::owned(ffi::PySlice_New(parts[0].ptr(), parts[1].ptr(), parts[2].ptr()))? };
        for (name, value) in ["start", "stop", "step"].iter().zip(values) {
            if self.is_size(value) {
                self.stow(&slice, Obj::str(name), value);
            }
        }
        Ok(slice.into())
    }

    pub(super) fn dict_merge(&mut self, n: usize) -> R<()> {
        let mapping = self.pop();
        if is_no_mapping(&mapping.obj) {
            let function = self.peek(n + 2);
            let text = format!("{} argument after ** must be a mapping, not {}", called_name(&function), mapping.obj.type_name());
            return Err(pyo3::exceptions::PyTypeError::new_err(text));
        }
        let entries = self.mapping_items(&mapping)?;
        let dict = self.peek(n);
        for (key, value) in &entries {
            if dict.bind().contains(key.bind())? {
                let function = self.peek(n + 2);
                let text = format!("{} got multiple values for keyword argument {}", called_name(&function), key.text());
                return Err(pyo3::exceptions::PyTypeError::new_err(text));
            }
            self.grow(&dict, "__setitem__", &[key.clone(), value.obj.clone()])?;
            self.stow(&dict, key.clone(), value);
        }
        Ok(())
    }

    fn unpacked(&mut self, value: &Val) -> R<Vec<Val>> {
        if !super::iterate::is_iterable(&value.obj) {
            let text = format!("cannot unpack non-iterable {} object", value.obj.type_name());
            return Err(pyo3::exceptions::PyTypeError::new_err(text));
        }
        self.iterate_all(value)
    }

    pub(super) fn unpack(&mut self, n: usize) -> R<()> {
        if self.collect_first(Some(n + 1))? {
            return Ok(());
        }
        let value = self.pop();
        let items = self.unpacked(&value)?;
        if items.len() != n {
            let text = match items.len() < n {
                true => format!("not enough values to unpack (expected {n}, got {})", items.len()),
                false => format!("too many values to unpack (expected {n})"),
            };
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
        items.into_iter().rev().for_each(|item| self.push(item));
        Ok(())
    }

    pub(super) fn unpack_ex(&mut self, before: usize, after: usize) -> R<()> {
        if self.collect_first(None)? {
            return Ok(());
        }
        let value = self.pop();
        let mut items = self.unpacked(&value)?;
        if items.len() < before + after {
            let text = format!("not enough values to unpack (expected at least {}, got {})", before + after, items.len());
            return Err(pyo3::exceptions::PyValueError::new_err(text));
        }
        let tail = items.split_off(items.len() - after);
        let middle = items.split_off(before);
        tail.into_iter().rev().for_each(|item| self.push(item));
        let middle = self.list(&middle)?;
        self.push(middle);
        items.into_iter().rev().for_each(|item| self.push(item));
        Ok(())
    }

    pub(super) fn match_kind(&mut self, mapping: bool) -> R<()> {
        let object = self.peek(1);
        let flag = if mapping { 1 << 6 } else { 1 << 5 };
        // SAFETY: a live type.
        let matches = unsafe { ffi::PyType_HasFeature(object.class_ptr(), flag) != 0 };
        self.push(Obj::bool(matches));
        Ok(())
    }
}

/// Whether `**` of it fails: it has no keys, and nobody who says otherwise.
pub(super) fn is_no_mapping(object: &Obj) -> bool {
    let class = object.class();
    crate::attr::type_lookup(&class, &Obj::str("keys")).is_none() && crate::attr::is_generic(&class)
}
