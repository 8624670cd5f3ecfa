//! The methods of containers, as the machine does them.

use super::asking::ASKED;
use super::native::keywords;
use super::operators::is_tensor;
use super::{Args, Called, R, Vm, VmGenerator, VmIterator};
use crate::attr::type_lookup;
use crate::obj::{Obj, dict_get, list_of};
use crate::record::{Origin, Val};
use crate::types::types;
use ox_ops::surface::Place;
use pyo3::prelude::*;

impl Vm {
    pub(super) fn dict_method(&mut self, callable: &Val, name: &str, owner: &Val, rest: &Args) -> R<Option<Called>> {
        let dict = owner.obj.clone();
        let rest = &match name {
            _ if rest.keywords.is_empty() || name == "update" => rest.clone(),
            "setdefault" | "pop" if dict.is_instance_of(types().ordered_dict) => match by_position(rest, &["key", "default"]) {
                Some(rest) => rest,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let value = match (name, &rest.positional[..]) {
            ("get", [key, default @ ..]) => {
                let key = self.settled(key);
                let is_plain = types().is_scalar(&key) || types().is_pinnable(&key) || types().is_enum(&key);
                if !is_plain && !self.is_known_value(&key) {
                    return Ok(None);
                }
                match dict_get(&dict, &key) {
                    Some(_) => self.dict_value(&dict, &key).expect("it is there"),
                    None => {
                        self.recorded(|rec| rec.check_no_key(&dict, &key));
                        default.first().cloned().unwrap_or_else(|| Obj::none().into())
                    }
                }
            }
            ("__getitem__", [key]) if types().is_scalar(&key.obj) || types().is_pinnable(&key.obj) => {
                let key = self.settled(key);
                return self.dict_item(&dict, &key).map(Some);
            }
            ("__contains__", [key]) => {
                let key = self.settled(key);
                if self.asks_to_find(&dict, &key) {
                    return Ok(None);
                }
                let found = dict_get(&dict, &key).is_some();
                match found {
                    true => self.recorded(|rec| rec.check_has_key(&dict, &key)),
                    false => self.recorded(|rec| rec.check_no_key(&dict, &key)),
                };
                Obj::bool(found).into()
            }
            ("__setitem__", [key, value]) => {
                self.store_item_plainly(owner, key, value.clone(), &callable.obj)?;
                Obj::none().into()
            }
            ("setdefault", [key, default @ ..]) => {
                let index = self.settled(key);
                if self.asks_to_find(&dict, &index) {
                    return Ok(None);
                }
                if let Some(found) = self.dict_value(&dict, &index) {
                    return Ok(Some(Called::Value(found)));
                }
                self.recorded(|rec| rec.check_no_key(&dict, &index));
                let default = default.first().cloned().unwrap_or_else(|| Obj::none().into());
                self.now(|vm| vm.store_item(owner, key, default.clone()))?;
                default
            }
            ("pop", [key, default])
                if self.is_ours(&dict) && super::read::is_key(&key.obj) && dict_get(&dict, &key.obj).is_none() =>
            {
                drop(self.settled(key));
                default.clone()
            }
            ("pop", [key, ..]) if self.is_ours(&dict) && types().is_scalar(&key.obj) && dict_get(&dict, &key.obj).is_some() => {
                let key = self.settled(key);
                let value = self.dict_value(&dict, &key).expect("it is there");
                if let Some(rec) = &mut self.rec {
                    rec.forget_place(&dict, &key);
                }
                callable.obj.call(&[dict, key], None)?;
                value
            }
            ("update", [pairs]) if self.grows_by(pairs) && self.try_attr(pairs, &Obj::str("keys"))?.is_none() => {
                let names = self.names(&rest.keywords)?;
                return self.call_library("grow_dict", vec![callable.clone(), owner.clone(), pairs.clone(), names]).map(Some);
            }
            ("update", positional @ ([] | [_])) => {
                let mut entries = Vec::new();
                if let Some(first) = positional.first() {
                    entries = self.entries_to_add(first)?;
                }
                entries.extend(rest.keywords.iter().cloned());
                if self.asks_for_hashes(entries.iter().map(|(key, _)| key)) {
                    let pairs = self.pairs(&entries)?;
                    return self.opaque_call(callable, Args::positional(vec![owner.clone(), pairs]), ASKED).map(Some);
                }
                for (key, value) in entries {
                    self.now(|vm| vm.store_item(owner, &key.into(), value))?;
                }
                Obj::none().into()
            }
            ("keys" | "values" | "items", []) => {
                let view = callable.obj.call(std::slice::from_ref(&dict), None)?;
                if let Some(rec) = &mut self.rec {
                    rec.register(&view, Origin::Made);
                }
                view.into()
            }
            _ => return Ok(None),
        };
        Ok(Some(Called::Value(value)))
    }

    /// `dict.__setitem__(d, k, v)`: the class's own method is not asked.
    fn store_item_plainly(&mut self, owner: &Val, key: &Val, value: Val, function: &Obj) -> R<()> {
        let index = self.settled(key);
        if matches!(self.origin(&owner.obj), Origin::Outside(_))
            && let Some(rec) = &mut self.rec
        {
            rec.tell_apart(&owner.obj);
            rec.note_change(function.clone(), vec![owner.clone(), key.clone(), value.clone()]);
            rec.mark_keys_changed(&owner.obj);
            rec.mark_written(&owner.obj, &index);
        }
        let value = self.settled(&value);
        if let Some(rec) = &mut self.rec {
            rec.forget_place(&owner.obj, &index);
        }
        function.call(&[owner.obj.clone(), index, value], None).map(drop)
    }

    pub(super) fn read_method(&mut self, callable: &Val, name: &str, args: Args) -> R<Called> {
        if iterates_argument(name)
            && let Some(called) = self.call_with_list(callable, &args, 1)?
        {
            return Ok(called);
        }
        if name == "join" && args.positional.get(1).is_some_and(|pieces| !super::iterate::is_iterable(&pieces.obj)) {
            return Err(pyo3::exceptions::PyTypeError::new_err("can only join an iterable"));
        }
        // An iterable of ours is no data yet.
        let mut args = args;
        if name == "join" || name == "union" {
            for arg in args.positional.iter_mut().skip(1) {
                if !self.is_data(&arg.obj) {
                    let items: Vec<Obj> = self.iterate_all(arg)?.iter().map(|v| self.settled(v)).collect();
                    *arg = self.made(list_of(&items)?);
                }
            }
        }
        if name == "copy" && self.holds_sizes(&args.positional[0].obj) {
            let items = self.items_made_here(&args.positional[0].obj);
            return self.list(&items).map(Called::Value);
        }
        let is_dict = args.positional[0].obj.class_is(types().dict);
        if name == "copy" && is_dict && self.rec.as_ref().is_some_and(|rec| rec.has_stowed(&args.positional[0].obj)) {
            let entries = self.mapping_items(&args.positional[0])?;
            return self.dict_of(&entries).map(Called::Value);
        }
        let shallow = matches!(name, "copy" | "__len__" | "__iter__");
        let is_plain = shallow || self.is_plain_data(&args);
        if (!is_plain || self.compares_sizes(&args))
            && let Some(called) = self.search_objects(name, &args)?
        {
            return Ok(called);
        }
        if !is_plain {
            let text = match (name, &args.positional[..]) {
                ("__repr__" | "__str__", [only]) => self.container_text(only)?,
                ("format", [text, ..]) if text.obj.class_is(types().str) => self.format_fields(&args)?,
                _ => None,
            };
            if let Some(called) = text {
                return Ok(called);
            }
            let why = format!("the method {name} on objects that are no plain data");
            return self.opaque_call(callable, args, &why);
        }
        self.pure(&callable.obj, &args.positional, &args.keywords).map(Called::Value)
    }

    /// Whether a size is looked for in a sequence, or something in a sequence with sizes.
    pub(super) fn compares_sizes(&self, args: &Args) -> bool {
        let [owner, item, ..] = &args.positional[..] else { return false };
        self.holds_sizes(&owner.obj) || self.is_size(item)
    }

    /// Methods of lists and tuples that compare objects by their own methods, or sizes.
    fn search_objects(&mut self, name: &str, args: &Args) -> R<Option<Called>> {
        let [owner, item, rest @ ..] = &args.positional[..] else { return Ok(None) };
        let t = types();
        if ![t.list, t.tuple, t.size, t.deque].iter().any(|class| owner.obj.class_is(*class)) || is_tensor(&item.obj) {
            return Ok(None);
        }
        let complaint: Val = match (owner.obj.class_name().as_str(), name) {
            ("tuple" | "Size", _) => Obj::str("tuple.index(x): x not in tuple").into(),
            ("list", "remove") => Obj::str("list.remove(x): x not in list").into(),
            // Behind the text of what was looked for.
            (kind, _) => Obj::str(&format!("{{!r}} is not in {kind}")).into(),
        };
        let limit = |n: usize| rest.get(n).cloned().unwrap_or_else(|| Obj::none().into());
        let called = match name {
            "count" => self.call_library("count", vec![owner.clone(), item.clone()])?,
            "__contains__" => self.call_library("contains", vec![owner.clone(), item.clone()])?,
            "index" => self.call_library("index", vec![owner.clone(), item.clone(), complaint, limit(0), limit(1)])?,
            "remove" => self.call_library("remove", vec![owner.clone(), item.clone(), complaint])?,
            _ => return Ok(None),
        };
        Ok(Some(called))
    }

    pub(super) fn changing_method(&mut self, callable: &Val, name: &str, args: Args) -> R<Called> {
        if let Some(called) = self.grow_one_by_one(callable, name, &args)? {
            return Ok(called);
        }
        if matches!(name, "extend" | "update" | "__init__" | "extendleft")
            && let Some(called) = self.call_with_list(callable, &args, 1)?
        {
            return Ok(called);
        }
        if let ("__setitem__", [items, places, values]) = (name, &args.positional[..])
            && let Some(called) = self.store_run(items, &places.obj, values)?
        {
            return Ok(called);
        }
        if matches!(name, "remove" | "index" | "count" | "__contains__")
            && (!self.is_plain_data(&args) || self.compares_sizes(&args))
        {
            return match self.search_objects(name, &args)? {
                Some(called) => Ok(called),
                None => self.opaque_call(callable, args, &format!("the method {name} on objects that are no plain data")),
            };
        }
        let is_sequence = args.positional[0].obj.is_instance_of(types().list) || args.positional[0].obj.class_is(types().deque);
        if is_sequence
            && matches!(name, "insert" | "pop" | "rotate" | "__delitem__" | "__setitem__")
            && let Some(called) = self.call_with_number(callable, &args, &[Place::Position(1)])?
        {
            return Ok(called);
        }
        if args.keywords.is_empty()
            && let Some(value) = self.change_list_of_sizes(&callable.obj, name, &args)?
        {
            return Ok(Called::Value(value));
        }
        let owner = args.positional[0].clone();
        let is_outside = !matches!(self.origin(&owner.obj), Origin::Made);
        let mut values = vec![owner.clone()];
        for arg in &args.positional[1..] {
            let takes_iterable = matches!(name, "extend" | "update" | "__init__" | "extendleft") || name.ends_with("_update");
            values.push(match takes_iterable && !self.is_data(&arg.obj) {
                true => {
                    let items: Vec<Obj> = self.iterate_all(arg)?.iter().map(|v| self.settled(v)).collect();
                    self.made(list_of(&items)?)
                }
                false => arg.clone(),
            });
            if takes_iterable {
                let last = values.last().expect("just pushed").clone();
                self.known_data(&last)?;
            }
        }
        if name == "sort"
            && let Some(called) = self.call_with_truth(callable, &args, "reverse")?
        {
            return Ok(called);
        }
        if name == "sort"
            && (!args.keywords.is_empty()
                || self.holds_sizes(&owner.obj)
                || !self.is_plain_data(&Args::positional(vec![owner.clone()])))
        {
            return self.sort_in_place(&owner, &args);
        }
        if self.asks_for_keys(name, &values) {
            return self.opaque_call(callable, Args { positional: values, keywords: args.keywords }, ASKED);
        }
        let blind = matches!(name, "append" | "extend" | "add" | "appendleft");
        if is_outside {
            if !blind {
                self.known_data(&owner)?;
            }
            if let Some(rec) = &mut self.rec {
                rec.tell_apart(&owner.obj);
                rec.note_change(callable.obj.clone(), values.clone());
                rec.mark_opaque(&owner.obj);
            }
        }
        if let ("append", true, [list, item], []) = (name, is_outside, &values[..], &args.keywords[..])
            && list.obj.class_is(types().list)
        {
            return self.append_for_others(callable, list, item).map(Called::Value);
        }
        let is_set = crate::record::is_set(&owner.obj);
        let given = |vm: &mut Vm, n: usize, v: &Val| match n {
            0 if is_outside && blind => v.obj.clone(),
            _ if is_set => vm.as_key(v),
            _ => vm.settled(v),
        };
        let objects: Vec<Obj> = values.iter().enumerate().map(|(n, v)| given(self, n, v)).collect();
        let result = callable.obj.call(&objects, keywords(&args.keywords)?.as_ref())?;
        Ok(Called::Value(self.made_or_known(result)))
    }

    /// `append` to a list that others see: the item stands behind those that were there, and whoever looks for it relies on these.
    fn append_for_others(&mut self, callable: &Val, list: &Val, item: &Val) -> R<Val> {
        let place = Obj::int(list.obj.bind().len()? as i64);
        self.settle_for_others(item);
        if let Some(rec) = &mut self.rec {
            rec.stow_outside(&list.obj, &place, item);
        }
        callable.obj.call(&[list.obj.clone(), item.obj.clone()], None).map(Val::from)
    }

    /// Whether a method of a set or dict asks for hashes that only the program knows.
    fn asks_for_keys(&mut self, name: &str, args: &[Val]) -> bool {
        let t = types();
        let owner = &args[0].obj;
        if ![t.set, t.frozenset, t.dict].iter().any(|class| owner.is_instance_of(*class)) {
            return false;
        }
        match name {
            "clear" | "popitem" | "copy" => false,
            "update" | "__init__" => args[1..].iter().any(|arg| self.asks_for_members(&arg.obj)),
            _ if name.ends_with("_update") || name.starts_with("__i") => {
                args[1..].iter().any(|arg| self.asks_for_members(&arg.obj))
            }
            _ => args.get(1).is_some_and(|key| self.asks_to_find(owner, &key.obj)),
        }
    }

    fn sort_in_place(&mut self, owner: &Val, args: &Args) -> R<Called> {
        let option = |name: &str| args.keywords.iter().find(|(k, _)| k.to_str().as_deref() == Some(name)).map(|(_, v)| v.clone());
        let key = option("key").unwrap_or_else(|| Obj::none().into());
        let reverse = option("reverse").unwrap_or_else(|| Obj::bool(false).into());
        let sorted = self.builtin("sorted")?;
        self.call_library("sort_in_place", vec![sorted.into(), owner.clone(), key, reverse])
    }

    /// Functions of C on objects of this segment's: heaps of data, and the names of an instance.
    pub fn call_on_own(&mut self, function: &Obj, args: &Args) -> R<Option<Val>> {
        let Some(first) = args.positional.first().filter(|first| args.keywords.is_empty() && self.is_ours(&first.obj)) else {
            return Ok(None);
        };
        let text = |name: &str| function.attr(name).ok().and_then(|part| part.to_str()).unwrap_or_default();
        if text("__module__") == "_heapq" && first.obj.class_is(types().list) && self.is_plain_data(args) {
            let objects = args.positional.iter().map(|arg| self.known_data(arg)).collect::<R<Vec<Obj>>>()?;
            if let Some(rec) = &mut self.rec {
                rec.forget_places(&objects[0]);
            }
            let result = function.call(&objects, None)?;
            return Ok(Some(self.made_or_known(result)));
        }
        if text("__name__") == "dir" && args.positional.len() == 1 && is_named_by_dict(&first.obj) {
            let class = first.obj.class();
            if self.recorded(|rec| Ok(rec.rely_on_class(&class))) == Some(true) {
                let names = function.call(std::slice::from_ref(&first.obj), None)?;
                return Ok(Some(self.made(names)));
            }
        }
        Ok(None)
    }

    pub fn made_or_known(&mut self, object: Obj) -> Val {
        match self.origin(&object) {
            Origin::Unknown => self.made(object),
            _ => object.into(),
        }
    }

    pub fn is_iterable_here(&self, object: &Obj) -> bool {
        let ours = object.bind().is_instance_of::<VmGenerator>() || object.bind().is_instance_of::<VmIterator>();
        ours || self.rec.as_ref().is_some_and(|rec| rec.viewed(object).is_some())
    }
}

/// Methods of changeable containers that only look.
pub(super) fn is_reader(name: &str) -> bool {
    const READERS: &[&str] = &[
        "copy",
        "count",
        "index",
        "__len__",
        "__contains__",
        "__getitem__",
        "__eq__",
        "__ne__",
        "__iter__",
        "__add__",
        "__mul__",
        "__rmul__",
        "__or__",
        "__and__",
        "__sub__",
        "__xor__",
        "union",
        "intersection",
        "difference",
        "symmetric_difference",
        "issubset",
        "issuperset",
        "isdisjoint",
        "__repr__",
        "__reversed__",
        "__le__",
        "__lt__",
        "__ge__",
        "__gt__",
    ];
    READERS.contains(&name)
}

/// Methods that only look, and whose argument is an iterable to them: to all others it is an object like any.
fn iterates_argument(name: &str) -> bool {
    const ITERATING: &[&str] =
        &["join", "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint"];
    ITERATING.contains(&name)
}

/// Whether its class and its dict say all that `dir` says of it.
fn is_named_by_dict(object: &Obj) -> bool {
    // SAFETY: the type lives for ever.
    let base = unsafe { Obj::borrowed(types().object.cast()) };
    let hook = |class: &Obj| type_lookup(class, &Obj::str("__dir__"));
    let is_plain = hook(&object.class()).zip(hook(&base)).is_some_and(|(own, plain)| own.is(&plain));
    is_plain && crate::record::is_plain_instance(object)
}

/// Arguments of these names, all by their places. None if there are others.
pub(super) fn by_position(args: &Args, names: &[&str]) -> Option<Args> {
    let mut positional = args.positional.clone();
    for place in positional.len()..positional.len() + args.keywords.len() {
        let name = *names.get(place)?;
        let (_, value) = args.keywords.iter().find(|(keyword, _)| keyword.to_str().as_deref() == Some(name))?;
        positional.push(value.clone());
    }
    Some(Args::positional(positional))
}
