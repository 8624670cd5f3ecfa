//! Sizes inside of containers: tuples, lists and slices that the program builds of sizes keep the expressions of what is in them, as far as
//! the machine does the building.

use super::{Args, R, Vm};
use crate::obj::{Obj, list_of};
use crate::record::{DEPTH, Val};
use crate::state::TorchState;
use crate::types::types;
use ox_bytecode::{BinaryOp, CompareOp};
use pyo3::prelude::*;

impl Vm {
    /// Whether the value is an expression of sizes.
    pub fn is_size(&self, value: &Val) -> bool {
        let source = value.free.zip(self.rec.as_ref());
        source.is_some_and(|(source, rec)| rec.expr_of(source).is_some())
    }

    /// 1 if a size is another one itself, whatever that is; 2 if it is made of it in another way; otherwise 0. 3 if that cannot be told: the
    /// other one is of a part before this. Nothing is relied on.
    pub fn size_relation(&self, size: &Val, of: &Val) -> i64 {
        let sym = |value: &Val| self.rec.as_ref().zip(value.free).and_then(|(rec, source)| rec.expr_of(source));
        let Some((rec, of)) = self.rec.as_ref().zip(sym(of)).filter(|(rec, of)| rec.is_of_this_segment(of)) else { return 3 };
        match sym(size) {
            Some(size) if size == of => 1,
            Some(size) if of.vars().iter().any(|var| rec.is_made_of(&size, var)) => 2,
            _ => 0,
        }
    }

    /// The object, its value relied on unless that is an expression of sizes, or has some inside.
    pub fn settled_but_sizes(&mut self, value: &Val) -> Obj {
        if self.is_size(value) {
            return value.obj.clone();
        }
        match (&mut self.rec, value.free) {
            (Some(rec), None) => {
                rec.settle_but_sizes(&value.obj, DEPTH);
                value.obj.clone()
            }
            _ => self.settled(value),
        }
    }

    pub fn all_but_sizes(&mut self, values: &[Val]) -> Vec<Obj> {
        values.iter().map(|value| self.settled_but_sizes(value)).collect()
    }

    /// Notes which items of a container of ours, from the first on, are expressions.
    pub fn keep_sizes(&mut self, container: &Obj, first: usize, values: &[Val]) {
        for (n, value) in values.iter().enumerate() {
            if self.is_size(value) {
                self.stow(container, Obj::int((first + n) as i64), value);
            }
        }
    }

    /// `list.append` on a list of ours of which some items are sizes, or this one is. False if it is another call.
    pub fn append_size(&mut self, args: &Args) -> R<bool> {
        let [list, item] = &args.positional[..] else { return Ok(false) };
        let is_ours = list.obj.class_is(types().list) && self.is_ours(&list.obj) && args.keywords.is_empty();
        if !is_ours || !(self.is_size(item) || self.holds_sizes(&list.obj)) {
            return Ok(false);
        }
        let object = self.settled_but_sizes(item);
        let at = list.obj.bind().len()?;
        list.obj.bind().call_method1("append", (object.bind(),))?;
        self.keep_sizes(&list.obj, at, std::slice::from_ref(item));
        Ok(true)
    }

    /// `sizes += shape[:2]` and `sizes.extend(shape)` of a list of ours. False if it is about something else.
    pub fn extend_by_sizes(&mut self, list: &Val, more: &Val) -> R<bool> {
        let is_sequence = |object: &Obj| object.class_is(types().list) || object.is_instance_of(types().tuple);
        let is_ours = list.obj.class_is(types().list) && self.is_ours(&list.obj) && is_sequence(&more.obj);
        if !is_ours || !(self.holds_sizes(&list.obj) || self.holds_sizes(&more.obj)) {
            return Ok(false);
        }
        let values = self.items_to_join(&more.obj)?;
        let (objects, at) = (self.all_but_sizes(&values), list.obj.bind().len()?);
        list.obj.bind().call_method1("extend", (list_of(&objects)?.bind(),))?;
        self.keep_sizes(&list.obj, at, &values);
        Ok(true)
    }

    /// `math.prod(shape)`, `divmod(n, 4)`: as the arithmetic that they are, so that sizes stay expressions.
    pub fn size_function(&mut self, function: &Obj, args: &Args) -> R<Option<Val>> {
        if !args.positional.iter().any(|arg| self.is_size(arg) || self.holds_sizes(&arg.obj)) {
            return Ok(None);
        }
        let name = function.attr("__name__").ok().and_then(|name| name.to_str()).unwrap_or_default();
        match (name.as_str(), &args.positional[..], &args.keywords[..]) {
            ("prod", [sizes], []) if self.holds_sizes(&sizes.obj) => {
                let items = self.items_made_here(&sizes.obj);
                let are_whole = items.iter().all(|item| item.obj.class_is(types().int));
                if are_whole { self.product(&items).map(Some) } else { Ok(None) }
            }
            ("divmod", [left, right], []) if self.is_size(left) || self.is_size(right) => {
                let quotient = self.now(|vm| vm.binary(BinaryOp::FloorDivide, false, left, right))?;
                let rest = self.now(|vm| vm.binary(BinaryOp::Remainder, false, left, right))?;
                self.tuple(vec![quotient, rest]).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Of numbers, as CPython multiplies them: from the first to the last.
    pub fn product(&mut self, numbers: &[Val]) -> R<Val> {
        numbers
            .iter()
            .try_fold(Obj::int(1).into(), |all, number| self.now(|vm| vm.binary(BinaryOp::Multiply, false, &all, number)))
    }

    /// An argument of a torch call, if the graph takes it as an expression. Autocast looks at the arguments by itself.
    pub fn size_for_graph(&mut self, value: &Val) -> Option<Val> {
        if self.rec.is_none() || TorchState::now().ok()?.autocast.is_on() {
            return None;
        }
        match value.free {
            Some(_) => self.is_size(value).then(|| value.clone()),
            None => {
                let value = self.with_items_of_its_own(value).ok()?;
                Some(self.settled_but_sizes(&value).into())
            }
        }
    }

    /// `counts.tolist()` as it is: a list from outside whose items vary is taken item by item.
    fn with_items_of_its_own(&mut self, value: &Val) -> R<Val> {
        let is_read = value.obj.class_is(types().list) && self.rec.as_ref().is_some_and(|rec| rec.varies_inside(&value.obj));
        if !is_read {
            return Ok(value.clone());
        }
        let items = self.iterate_all(value)?;
        let objects: Vec<Obj> = items.iter().map(|item| item.obj.clone()).collect();
        self.made_of_sizes(list_of(&objects)?, &items)
    }

    /// A tuple or list of ours with expressions in it.
    pub fn holds_sizes(&self, object: &Obj) -> bool {
        let is_sequence = object.is_instance_of(types().tuple) || object.class_is(types().list);
        is_sequence && self.rec.as_ref().is_some_and(|rec| rec.has_stowed(object))
    }

    /// `shape[:-1]`
    pub fn slice_of_sizes(&mut self, object: &Obj, index: &Obj) -> R<Option<Val>> {
        if !index.class_is(types().slice) || !self.holds_sizes(object) {
            return Ok(None);
        }
        let values = self.items_made_here(object);
        let places: (isize, isize, isize) = index.bind().call_method1("indices", (values.len(),))?.extract()?;
        let mut taken = Vec::new();
        let mut at = places.0;
        while (places.2 > 0 && at < places.1) || (places.2 < 0 && at > places.1) {
            taken.push(values[at as usize].clone());
            at += places.2;
        }
        let cut = Obj::from(object.bind().get_item(index.bind())?);
        self.made_of_sizes(cut, &taken).map(Some)
    }

    /// `shape + (1, n)`, `[1] + list(shape)`. A list that is added to in place stays the list that it is.
    pub fn joined_sizes(&mut self, left: &Obj, right: &Obj, in_place: bool) -> R<Option<Val>> {
        let are_tuples = left.is_instance_of(types().tuple) && right.is_instance_of(types().tuple);
        let are_lists = left.class_is(types().list) && right.class_is(types().list) && !in_place;
        if !(are_tuples || are_lists) || !(self.holds_sizes(left) || self.holds_sizes(right)) {
            return Ok(None);
        }
        let values = [self.items_to_join(left)?, self.items_to_join(right)?].concat();
        let joined = Obj::from(left.bind().add(right.bind())?);
        self.made_of_sizes(joined, &values).map(Some)
    }

    /// A sequence from outside (the size of a window that a module has) is taken item by item.
    fn items_to_join(&mut self, sequence: &Obj) -> R<Vec<Val>> {
        match self.origin(sequence) {
            crate::record::Origin::Outside(_) => self.iterate_all(&sequence.clone().into()),
            _ => Ok(self.items_made_here(sequence)),
        }
    }

    /// Items that were not looked at: all numbers among them are as free as they were.
    pub fn made_of_sizes(&mut self, container: Obj, values: &[Val]) -> R<Val> {
        let made = self.made(container.clone());
        values.iter().enumerate().for_each(|(n, value)| self.stow(&container, Obj::int(n as i64), value));
        Ok(made)
    }

    /// `shape == (b, n)`: size by size, up to the first that differs.
    pub fn compare_sizes(&mut self, op: CompareOp, left: &Obj, right: &Obj) -> R<Option<bool>> {
        let wanted = match op {
            CompareOp::Equal => true,
            CompareOp::NotEqual => false,
            _ => return Ok(None),
        };
        let are_tuples = left.is_instance_of(types().tuple) && right.is_instance_of(types().tuple);
        if !are_tuples || !(self.holds_sizes(left) || self.holds_sizes(right)) {
            return Ok(None);
        }
        let (ours, theirs) = (self.items_made_here(left), self.items_made_here(right));
        let is_int = |value: &Val| value.obj.class_is(types().int);
        let is_ours = |vm: &Vm, object: &Obj| !matches!(vm.origin(object), crate::record::Origin::Outside(_));
        if !ours.iter().chain(&theirs).all(is_int) || !is_ours(self, left) || !is_ours(self, right) {
            return Ok(None);
        }
        if ours.len() != theirs.len() {
            return Ok(Some(!wanted));
        }
        for (a, b) in ours.iter().zip(&theirs) {
            let same = self.pure_call("eq", &[a.clone(), b.clone()])?;
            if !same.obj.truth()? {
                return Ok(Some(!wanted));
            }
        }
        Ok(Some(wanted))
    }
}
