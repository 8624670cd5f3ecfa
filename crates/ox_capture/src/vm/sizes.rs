//! Sizes inside of containers: tuples, lists and slices that the program builds of sizes keep the expressions of what is in them, as far as
//! the machine does the building.

use super::{Args, R, Vm};
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, list_of, py, tuple_of};
use crate::record::{DEPTH, Origin, Val};
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

    /// Whether a container of ours may hold the number as what it is: an expression of sizes, or what a graph takes as an input.
    pub fn stays_free(&self, value: &Val) -> bool {
        let is_given = || self.rec.as_ref().is_some_and(|rec| rec.is_run_time(value).is_some());
        self.is_size(value) || value.obj.class_is(types().float) && is_given()
    }

    /// The same, where numbers that graphs take as inputs are as free as sizes.
    pub fn settled_but_free(&mut self, value: &Val) -> Obj {
        if self.stays_free(value) {
            return value.obj.clone();
        }
        match (&mut self.rec, value.free) {
            (Some(rec), None) => {
                rec.settle_but_free(&value.obj, DEPTH);
                value.obj.clone()
            }
            _ => self.settled(value),
        }
    }

    pub fn all_but_sizes(&mut self, values: &[Val]) -> Vec<Obj> {
        values.iter().map(|value| self.settled_but_sizes(value)).collect()
    }

    pub fn all_but_free(&mut self, values: &[Val]) -> Vec<Obj> {
        values.iter().map(|value| self.settled_but_free(value)).collect()
    }

    /// Notes which items of a container of ours, from the first on, are expressions, or numbers that graphs take as inputs.
    pub fn keep_free(&mut self, container: &Obj, first: usize, values: &[Val]) {
        for (n, value) in values.iter().enumerate() {
            if self.stays_free(value) {
                self.stow(container, Obj::int((first + n) as i64), value);
            }
        }
    }

    /// Whether a list of ours has sizes in it, or is given some.
    pub fn is_list_of_sizes(&self, list: &Obj, given: &[Val]) -> bool {
        let is_ours = list.class_is(types().list) && self.is_ours(list);
        is_ours && (self.holds_sizes(list) || given.iter().any(|item| self.stays_free(item)))
    }

    /// Changes a list of ours that is given these items, and says which item came out. The change is made once more on a list of numbers: these
    /// tell where each item stands then.
    pub fn rearrange(&mut self, list: &Obj, given: &[Val], change: impl Fn(&Obj, &[Obj]) -> R<Obj>) -> R<Val> {
        let values = [self.items_made_here(list), given.to_vec()].concat();
        let objects: Vec<Obj> = given.iter().map(|value| self.settled_but_free(value)).collect();
        let len = values.len() - given.len();
        let numbers: Vec<Obj> = (0..values.len()).map(|n| Obj::int(n as i64)).collect();
        let moved = list_of(&numbers[..len])?;
        let nothing = change(list, &objects)?;
        let out = change(&moved, &numbers[len..])?;
        let value_of = |number: &Obj| Ok::<_, PyErr>(values[number.bind().extract::<usize>()?].clone());
        let places = items_of(&moved).iter().map(value_of).collect::<R<Vec<Val>>>()?;
        if let Some(rec) = &mut self.rec {
            rec.stow_anew(list, &places);
        }
        if out.is_none() { Ok(nothing.into()) } else { value_of(&out) }
    }

    /// A method that changes a list of ours with sizes. None if it is about something else, or about values.
    pub fn change_list_of_sizes(&mut self, method: &Obj, name: &str, args: &Args) -> R<Option<Val>> {
        let [list, args @ ..] = &args.positional[..] else { return Ok(None) };
        let (fixed, given) = match (name, args) {
            ("append", [item]) => (vec![], vec![item.clone()]),
            ("insert", [place, item]) => (vec![place.clone()], vec![item.clone()]),
            ("pop" | "reverse" | "clear", places) => (places.to_vec(), vec![]),
            ("extend", [more]) => return Ok(self.extend_by_sizes(list, more)?.then(|| Obj::none().into())),
            _ => return Ok(None),
        };
        if !self.is_list_of_sizes(&list.obj, &given) {
            return Ok(None);
        }
        let fixed: Vec<Obj> = fixed.iter().map(|arg| self.settled(arg)).collect();
        let change = |list: &Obj, items: &[Obj]| method.call(&[std::slice::from_ref(list), &fixed, items].concat(), None);
        self.rearrange(&list.obj, &given, change).map(Some)
    }

    /// `sizes += shape[:2]` and `sizes.extend(shape)` of a list of ours. False if it is about something else.
    pub fn extend_by_sizes(&mut self, list: &Val, more: &Val) -> R<bool> {
        let Some(values) = self.given_at_once(&list.obj, &more.obj)? else { return Ok(false) };
        let extend = |list: &Obj, items: &[Obj]| Ok(list.bind().call_method1("extend", (list_of(items)?.bind(),))?.into());
        self.rearrange(&list.obj, &values, extend).map(|_| true)
    }

    /// What a list of ours gets from a sequence, where there are sizes in one of them.
    fn given_at_once(&mut self, list: &Obj, more: &Obj) -> R<Option<Vec<Val>>> {
        let is_sequence = more.class_is(types().list) || more.is_instance_of(types().tuple);
        let has_sizes = || self.is_list_of_sizes(list, &[]) || (self.is_ours(list) && self.gives_sizes(more));
        if is_sequence && list.class_is(types().list) && has_sizes() { self.items_to_join(more).map(Some) } else { Ok(None) }
    }

    /// `sizes[0] = n`, `sizes[1:] = shape`. False if it is about something else.
    pub fn store_sizes(&mut self, list: &Obj, index: &Obj, value: &Val) -> R<bool> {
        let given = match index.class_is(types().slice) {
            true => self.given_at_once(list, &value.obj)?,
            false => self.is_list_of_sizes(list, std::slice::from_ref(value)).then(|| vec![value.clone()]),
        };
        let Some(given) = given else { return Ok(false) };
        let store = |list: &Obj, items: &[Obj]| {
            let value = if index.class_is(types().slice) { list_of(items)? } else { items[0].clone() };
            list.bind().set_item(index.bind(), value.bind()).map(|()| Obj::none())
        };
        self.rearrange(list, &given, store).map(|_| true)
    }

    /// `shape * 2`
    pub fn repeated_sizes(&mut self, left: &Val, right: &Val) -> R<Option<Val>> {
        let (sizes, times) = if self.holds_sizes(&left.obj) { (left, right) } else { (right, left) };
        if !self.holds_sizes(&sizes.obj) || !times.obj.class_is(types().int) {
            return Ok(None);
        }
        let times = self.settled(times);
        let values = self.items_made_here(&sizes.obj);
        let repeated = Obj::from(sizes.obj.bind().mul(times.bind())?);
        let len = repeated.bind().len()?;
        let values: Vec<Val> = values.into_iter().cycle().take(len).collect();
        self.made_of_sizes(repeated, &values).map(Some)
    }

    /// `range(0, n, 4)`: as a slice, it keeps what it is made of.
    pub fn range_of_sizes(&mut self, class: &Obj, args: &[Val]) -> R<Option<Val>> {
        let (zero, one): (Val, Val) = (Obj::int(0).into(), Obj::int(1).into());
        let parts = match args {
            [stop] => [zero, stop.clone(), one],
            [start, stop] => [start.clone(), stop.clone(), one],
            [start, stop, step] if !self.is_size(step) => [start.clone(), stop.clone(), step.clone()],
            _ => return Ok(None),
        };
        let are_whole = parts.iter().all(|part| part.obj.class_is(types().int));
        if !are_whole || !parts.iter().any(|part| self.is_size(part)) {
            return Ok(None);
        }
        let range = class.call(&self.all_but_sizes(&parts), None)?;
        for (name, part) in ["start", "stop", "step"].iter().zip(&parts) {
            self.stow(&range, Obj::str(name), part);
        }
        Ok(Some(range.into()))
    }

    /// The start, the step and the length of a range of sizes; None of any other. Whether it is empty is relied on.
    pub fn range_parts(&mut self, range: &Obj) -> R<Option<(Val, Val, Val)>> {
        if !range.class_is(types().range) || !self.rec.as_ref().is_some_and(|rec| rec.has_stowed(range)) {
            return Ok(None);
        }
        let mut part = |name: &str| self.member_of_made(range, name);
        let (start, stop, step) = (part("start")?, part("stop")?, part("step")?);
        let forward = step.obj.bind().gt(0)?;
        let (from, to) = if forward { (&start, &stop) } else { (&stop, &start) };
        let stride: Val = Obj::from(step.obj.bind().abs()?).into();
        let is_filled = self.pure_call("gt", &[to.clone(), from.clone()])?;
        if !is_filled.obj.truth()? {
            return Ok(Some((start, step, Obj::int(0).into())));
        }
        // As many as there are strides between, the last of them begun.
        let gap = self.pure_call("sub", &[to.clone(), from.clone()])?;
        let rest: Val = Obj::from(stride.obj.bind().sub(1)?).into();
        let gap = self.pure_call("add", &[gap, rest])?;
        let length = self.pure_call("floordiv", &[gap, stride])?;
        Ok(Some((start, step, length)))
    }

    fn member_of_made(&mut self, object: &Obj, name: &str) -> R<Val> {
        let (key, found) = (Obj::str(name), object.attr(name)?);
        let free = self.rec.as_ref().and_then(|rec| rec.stowed_at(object, &key, &found));
        Ok(Val { obj: found, free })
    }

    pub fn length_of_range(&mut self, range: &Obj) -> R<Option<Val>> {
        Ok(self.range_parts(range)?.map(|(.., length)| length))
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
                match items.iter().all(|item| item.obj.class_is(types().int)) {
                    true => self.product(&items).map(Some),
                    false => self.of_row(function, &items, None).map(Some),
                }
            }
            ("fsum", [row], []) if self.holds_sizes(&row.obj) => {
                let items = self.items_made_here(&row.obj);
                self.of_row(function, &items, None).map(Some)
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
        if self.rec.is_none() || TorchState::now().quiet()?.autocast.is_on() {
            return None;
        }
        match value.free {
            Some(_) => self.is_size(value).then(|| value.clone()),
            None => {
                let value = self.with_items_of_its_own(value).quiet()?;
                Some(self.settled_but_sizes(&value).into())
            }
        }
    }

    /// `counts.tolist()` as it is, a shape that was made in front of a break: a sequence from outside whose items vary is taken item by item.
    fn with_items_of_its_own(&mut self, value: &Val) -> R<Val> {
        let t = types();
        let is_sequence = [t.list, t.tuple, t.size].iter().any(|class| value.obj.class_is(*class));
        if !is_sequence || self.is_ours(&value.obj) || !self.gives_sizes(&value.obj) {
            return Ok(value.clone());
        }
        let items = self.iterate_all(value)?;
        let objects: Vec<Obj> = items.iter().map(|item| item.obj.clone()).collect();
        let copy =
            if value.obj.class_is(t.list) { list_of(&objects)? } else { value.obj.class().call(&[tuple_of(&objects)?], None)? };
        self.made_of_sizes(copy, &items)
    }

    fn varies_inside(&self, sequence: &Obj) -> bool {
        self.rec.as_ref().is_some_and(|rec| rec.varies_inside(sequence))
    }

    /// A tuple or list of ours with expressions in it.
    pub fn holds_sizes(&self, object: &Obj) -> bool {
        let is_sequence = object.is_instance_of(types().tuple) || object.class_is(types().list) && self.is_ours(object);
        is_sequence && self.rec.as_ref().is_some_and(|rec| rec.has_stowed(object))
    }

    /// The same, or one from outside whose items vary.
    fn gives_sizes(&self, sequence: &Obj) -> bool {
        self.holds_sizes(sequence) || self.varies_inside(sequence)
    }

    /// `shape[:-1]`
    pub fn slice_of_sizes(&mut self, object: &Obj, index: &Obj) -> R<Option<Val>> {
        if !index.class_is(types().slice) || !self.holds_sizes(object) {
            return Ok(None);
        }
        let values = self.items_made_here(object);
        let taken: Vec<Val> = places_of(index, values.len())?.into_iter().map(|place| values[place].clone()).collect();
        let cut = Obj::from(object.bind().get_item(index.bind())?);
        self.made_of_sizes(cut, &taken).map(Some)
    }

    /// A slice of a list or tuple from outside, item by item: what is left out is of no interest, and numbers stay free. None for many items.
    pub fn slice_from_outside(&mut self, object: &Obj, index: &Obj) -> R<Option<Val>> {
        const FEW: usize = 64;
        let t = types();
        let is_sequence = object.class_is(t.list) || object.class_is(t.tuple);
        if !is_sequence || !index.class_is(t.slice) || !matches!(self.origin(object), Origin::Outside(_)) {
            return Ok(None);
        }
        let len = crate::guard::length(object).unwrap_or(0);
        let places = places_of(index, len)?;
        if places.len() > FEW {
            return Ok(None);
        }
        self.know_len(object);
        if object.class_is(t.tuple) && places.iter().copied().eq(0..len) {
            return Ok(Some(object.clone().into()));
        }
        let taken: Vec<Val> = places.into_iter().map(|place| self.item_at(object, place)).collect();
        if object.class_is(t.list) { self.list(&taken).map(Some) } else { self.tuple(taken).map(Some) }
    }

    /// `shape + (1, n)`, `[1] + list(shape)`. A list that is added to in place stays the list that it is.
    pub fn joined_sizes(&mut self, left: &Obj, right: &Obj, in_place: bool) -> R<Option<Val>> {
        let are_tuples = left.is_instance_of(types().tuple) && right.is_instance_of(types().tuple);
        let are_lists = left.class_is(types().list) && right.class_is(types().list) && !in_place;
        if !(are_tuples || are_lists) || !(self.gives_sizes(left) || self.gives_sizes(right)) {
            return Ok(None);
        }
        let values = [self.items_to_join(left)?, self.items_to_join(right)?].concat();
        let joined = Obj::from(left.bind().add(right.bind())?);
        self.made_of_sizes(joined, &values).map(Some)
    }

    /// A sequence from outside (the size of a window that a module has) is taken item by item.
    fn items_to_join(&mut self, sequence: &Obj) -> R<Vec<Val>> {
        match self.origin(sequence) {
            Origin::Outside(_) => self.iterate_all(&sequence.clone().into()),
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
        let are_lists = left.class_is(types().list) && right.class_is(types().list);
        if !(are_tuples || are_lists) || !(self.holds_sizes(left) || self.holds_sizes(right)) {
            return Ok(None);
        }
        let (ours, theirs) = (self.items_made_here(left), self.items_made_here(right));
        let is_int = |value: &Val| value.obj.class_is(types().int);
        let is_ours = |vm: &Vm, object: &Obj| !matches!(vm.origin(object), Origin::Outside(_)) || vm.holds_sizes(object);
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

/// Where the items of a slice stand.
fn places_of(slice: &Obj, len: usize) -> R<Vec<usize>> {
    // A range cuts bounds and steps that are beyond all indices, as a list does.
    let all = py().import("builtins")?.getattr("range")?.call1((len,))?;
    all.get_item(slice.bind())?.try_iter()?.map(|place| place?.extract()).collect()
}
