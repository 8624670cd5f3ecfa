//! Calls of classes.

use super::asking::ASKED;
use super::container::by_position;
use super::finalised::finaliser;
use super::reading::Read;
use super::seen::seen_class;
use super::{After, Args, Called, R, Vm, VmIterator};
use crate::attr::type_lookup;
use crate::builtins;
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{Obj, dict_get, items_of, list_of, py, tuple_of};
use crate::record::{Origin, Shadow, Val};
use crate::types::types;
use ox_ops::surface::Place;
use pyo3::ffi;
use pyo3::prelude::*;

impl Vm {
    pub fn construct(&mut self, callable: &Val, args: Args) -> R<Called> {
        let class = callable.obj.clone();
        let t = types();
        let ptr = class.ptr().cast::<ffi::PyTypeObject>();
        if ptr == t.type_ && args.positional.len() == 1 {
            return self.type_of(&args.positional[0]).map(Called::Value);
        }
        if let Some(called) = self.construct_builtin(ptr, callable, &args)? {
            return Ok(called);
        }
        let first_is_made = args.positional.first().is_some_and(|first| self.origin(&first.obj) == Origin::Made);
        if first_is_made && crate::recipe::is_subtype(&class, weak_reference()?) {
            // The recording would keep the object alive.
            self.give_up("a weak reference to an object that was made here");
        }
        if builtins::is_torch_class(&class) {
            return match self.has_tensor(&args) {
                true if builtins::is_tensor_class(&class) => self.torch_call(Shadow::Function(class.clone()), callable, args),
                // A graph gives plain tensors.
                true => self.opaque_call(callable, args, "a tensor of a class of its own (a Parameter) is made"),
                false => self.opaque_call(callable, args, "a class of torch's written in C"),
            };
        }
        self.construct_instance(callable, args)
    }

    fn type_of(&mut self, value: &Val) -> R<Val> {
        let class = match is_lazy(&value.obj) {
            // SAFETY: types live as long as torch.
            true => unsafe { Obj::borrowed(types().tensor.cast()) },
            false => seen_class(&value.obj)?,
        };
        Ok(self.pinned(class))
    }

    fn construct_builtin(&mut self, ptr: crate::types::Type, callable: &Val, args: &Args) -> R<Option<Called>> {
        let t = types();
        let positional = &args.positional;
        let plain = args.keywords.is_empty();
        let takes_iterable = [t.list, t.tuple, t.set, t.frozenset, t.dict, t.ordered_dict, t.deque, t.size].contains(&ptr);
        let is_mapping = |v: &Val| type_lookup(&v.obj.class(), &Obj::str("keys")).is_some();
        if takes_iterable
            && !positional.first().is_some_and(is_mapping)
            && let Some(called) = self.call_with_list(callable, args, 0)?
        {
            return Ok(Some(called));
        }
        if builtins::is_data_class(&callable.obj) {
            if positional.iter().any(|arg| self.is_strange_iterator(&arg.obj)) {
                return self.opaque_call(callable, args.clone(), "an iterator from outside").map(Some);
            }
            return self.new_native(callable, args).map(Some);
        }
        let value = if ptr == t.list && plain && positional.len() <= 1 {
            let values = self.values_of_first(positional)?;
            self.list(&values)?
        } else if ptr == t.int && plain && positional.len() == 1 && self.is_size(&positional[0]) {
            positional[0].clone()
        } else if ptr == t.slice && plain && positional.iter().any(|part| self.is_size(part)) {
            match &positional[..] {
                [stop] => self.slice(&[Obj::none().into(), stop.clone()])?,
                parts => self.slice(parts)?,
            }
        } else if ptr == t.tuple && plain && positional.len() <= 1 {
            match &positional[..] {
                [only] if only.obj.class_is(t.tuple) => only.clone(),
                _ => {
                    let values = self.values_of_first(positional)?;
                    self.tuple(values)?
                }
            }
        } else if ptr == t.frozenset && plain && positional.len() == 1 && positional[0].obj.class_is(t.frozenset) {
            positional[0].clone()
        } else if (ptr == t.set || ptr == t.frozenset) && plain && positional.len() <= 1 {
            let items = self.all_of_first(positional)?;
            if self.asks_for_hashes(&items) {
                let items = self.made(list_of(&items)?);
                return self.opaque_call(callable, Args::positional(vec![items]), ASKED).map(Some);
            }
            let made = callable.obj.call(&[list_of(&items)?], None)?;
            self.made(made)
        } else if ptr == t.dict || ptr == t.ordered_dict {
            return self.new_dict(callable, args).map(Some);
        } else if ptr == t.bool && plain && positional.is_empty() {
            Obj::bool(false).into()
        } else if ptr == t.bool && plain && positional.len() == 1 {
            if super::operators::is_tensor(&positional[0].obj) {
                return self.opaque_call(callable, args.clone(), "the truth of a tensor").map(Some);
            }
            Obj::bool(self.truth(&positional[0])?).into()
        } else if [t.int, t.float, t.str, t.complex, t.bytes].contains(&ptr) {
            return self.new_scalar(callable, args).map(Some);
        } else if [t.none, t.ellipsis, t.not_implemented].contains(&ptr) && plain && positional.is_empty() {
            callable.obj.call(&[], None)?.into()
        } else if ptr == t.range
            && plain
            && let Some(range) = self.range_of_sizes(&callable.obj, positional)?
        {
            range
        } else if ptr == t.slice && plain && (1..=3).contains(&positional.len()) && !self.is_plain_data(args) {
            match &positional[..] {
                [stop] => self.slice(&[Obj::none().into(), stop.clone()])?,
                parts => self.slice(parts)?,
            }
        } else if ptr == t.range
            && plain
            && let Some(called) = self.call_with_number(callable, args, &[0, 1, 2].map(Place::Position))?
        {
            return Ok(Some(called));
        } else if [t.range, t.slice, t.device].contains(&ptr) || ptr == t.object && positional.is_empty() {
            // A number of steps, or a place in a container, is relied on.
            let positional: Vec<Val> =
                positional.iter().map(|arg| if self.is_size(arg) { self.settled(arg).into() } else { arg.clone() }).collect();
            let result = self.pure(&callable.obj, &positional, &args.keywords)?;
            self.made(result.obj)
        } else if [t.finfo, t.iinfo].contains(&ptr) && self.is_plain_data(args) {
            let objects: Vec<Obj> = positional.iter().map(|a| self.settled(a)).collect();
            let made = callable.obj.call(&objects, None)?;
            self.pinned(made)
        } else if ptr == t.enumerate
            && let Some(called) = self.call_with_number(callable, args, &[Place::Position(1), Place::Keyword("start")])?
        {
            return Ok(Some(called));
        } else if [t.zip, t.enumerate, t.map, t.filter, t.reversed].contains(&ptr) {
            return VmIterator::construct(self, callable, args).map(Some);
        } else if builtins::is_combinatoric(&callable.obj) {
            return self.combinations(callable, args).map(Some);
        } else if ptr == t.size {
            let values = self.values_of_first(positional)?;
            if values.iter().any(|value| self.stands_for_number(&value.obj)) {
                let values = self.list(&values)?;
                return self.opaque_call(callable, Args::positional(vec![values]), "sizes that objects stand for").map(Some);
            }
            let items = self.all_but_sizes(&values);
            let made = callable.obj.call(&[tuple_of(&items)?], None)?;
            self.made_of_sizes(made, &values)?
        } else if ptr == t.partial && !positional.is_empty() {
            self.partial(callable, args)?
        } else if [t.super_, t.property, t.classmethod, t.staticmethod, t.method, t.partial].contains(&ptr) {
            let objects: Vec<Obj> = positional.iter().map(|a| self.settled(a)).collect();
            let made = callable.obj.call(&objects, super::native::keywords(&args.keywords)?.as_ref())?;
            if let Some(rec) = &mut self.rec {
                rec.register(&made, Origin::Made);
            }
            made.into()
        } else {
            return Ok(None);
        };
        Ok(Some(Called::Value(value)))
    }

    /// A partial keeps the sizes and inputs among its arguments. One of a partial joins its arguments to those of the other, which are relied on.
    fn partial(&mut self, callable: &Val, args: &Args) -> R<Val> {
        let of = &args.positional[0].obj;
        let before = if of.is_instance_of(types().partial) { items_of(&of.attr("args")?).len() } else { 0 };
        for part in ["args", "keywords"].iter().filter(|_| of.is_instance_of(types().partial)) {
            self.settled(&of.attr(part)?.into());
        }
        let positional = self.all_but_free(&args.positional);
        let named: Vec<(Obj, Val)> =
            args.keywords.iter().map(|(name, value)| (name.clone(), self.settled_but_free(value).into())).collect();
        let made = callable.obj.call(&positional, super::native::keywords(&named)?.as_ref())?;
        let (fixed, keywords) = (made.attr("args")?, made.attr("keywords")?);
        self.keep_free(&fixed, before, &args.positional[1..]);
        for (name, value) in args.keywords.iter().filter(|(_, value)| self.stays_free(value)).cloned().collect::<Vec<_>>() {
            self.stow(&keywords, name, &value);
        }
        Ok(self.made(made))
    }

    /// `itertools.product` and its like: all that they give, in their order.
    fn combinations(&mut self, callable: &Val, args: &Args) -> R<Called> {
        let name = callable.obj.attr("__name__")?.to_str().unwrap_or_default();
        // Of a product all are rows; the others take one, and a number.
        let (args, places, rows) = match name.as_str() {
            "product" => (args.clone(), &[Place::Keyword("repeat")][..], usize::MAX),
            name => {
                let args = by_position(args, &["iterable", "r"]).unwrap_or_else(|| args.clone());
                // A permutation asks nothing for its number.
                (args, if name == "permutations" { &[][..] } else { &[Place::Position(1)] }, 1)
            }
        };
        if let Some(called) = self.call_with_number(callable, &args, places)? {
            return Ok(called);
        }
        for n in 0..args.positional.len().min(rows) {
            if let Some(called) = self.call_with_list(callable, &args, n)? {
                return Ok(called);
            }
        }
        self.all_combinations(callable, &args, rows)
    }

    fn all_combinations(&mut self, callable: &Val, args: &Args, rows: usize) -> R<Called> {
        const MANY: usize = 4096;
        let mut given = Vec::new();
        for (n, arg) in args.positional.iter().enumerate() {
            given.push(match n < rows {
                true => tuple_of(&self.all_of_first(std::slice::from_ref(arg))?)?,
                false => self.settled(arg),
            });
        }
        for (_, value) in &args.keywords {
            self.settled(value);
        }
        let iterator = callable.obj.call(&given, super::native::keywords(&args.keywords)?.as_ref())?;
        let given: Vec<Obj> = iterator.bind().try_iter()?.take(MANY + 1).flatten().map(Obj::from).collect();
        if given.len() > MANY {
            return self.opaque_call(callable, args.clone(), "very many combinations");
        }
        let items = given.into_iter().map(|tuple| self.made(tuple)).collect();
        self.own_iterator(super::Kind::Items { items, at: 0, of: None }).map(Called::Value)
    }

    /// An object of a class in C that keeps what it is given and asks it nothing.
    fn new_native(&mut self, callable: &Val, args: &Args) -> R<Called> {
        if self.asks_what_it_is_given(&callable.obj, &args.positional) {
            return self.opaque_call(callable, args.clone(), &format!("a {} of objects", callable.obj.class_name()));
        }
        let mut objects = Vec::new();
        for arg in &args.positional {
            objects.push(self.known_data(arg)?);
        }
        let keeps = callable.obj.ptr() == types().namespace.cast();
        for (_, value) in &args.keywords {
            let _ = if keeps { self.settled_but_free(value) } else { self.settled(value) };
        }
        let made = callable.obj.call(&objects, super::native::keywords(&args.keywords)?.as_ref())?;
        if let Some(rec) = &mut self.rec {
            rec.register(&made, Origin::Made);
        }
        for (name, value) in args.keywords.iter().filter(|_| keeps) {
            if self.stays_free(value) {
                self.stow(&made, name.clone(), value);
            }
        }
        Ok(Called::Value(made.into()))
    }

    fn values_of_first(&mut self, positional: &[Val]) -> R<Vec<Val>> {
        positional.first().map_or(Ok(Vec::new()), |first| self.iterate_all(first))
    }

    fn all_of_first(&mut self, positional: &[Val]) -> R<Vec<Obj>> {
        let values = self.values_of_first(positional)?;
        Ok(values.iter().map(|v| self.settled(v)).collect())
    }

    fn new_dict(&mut self, callable: &Val, args: &Args) -> R<Called> {
        if let [_, _, ..] = args.positional[..] {
            let objects: Vec<Obj> = args.positional.iter().map(|arg| arg.obj.clone()).collect();
            return callable.obj.call(&objects, None).map(|made| Called::Value(self.made(made)));
        }
        let made = callable.obj.call(&[], None)?;
        let mut entries = Vec::new();
        if let Some(first) = args.positional.first() {
            entries = self.entries_to_add(first)?;
        }
        entries.extend(args.keywords.iter().cloned());
        if self.asks_for_hashes(entries.iter().map(|(key, _)| key)) {
            let pairs = self.pairs(&entries)?;
            return self.opaque_call(callable, Args::positional(vec![pairs]), ASKED);
        }
        let dict = self.made(made);
        self.fill(&dict.obj, &entries)?;
        Ok(Called::Value(dict))
    }

    /// A new dict.
    pub(super) fn dict_of(&mut self, entries: &[(Obj, Val)]) -> R<Val> {
        let dict = self.made(pyo3::types::PyDict::new(py()).into());
        self.fill(&dict.obj, entries)?;
        Ok(dict)
    }

    /// A dict that was just made gets its entries. A key that is given twice has its last value.
    fn fill(&mut self, dict: &Obj, entries: &[(Obj, Val)]) -> R<()> {
        for (key, value) in entries {
            let object = self.settled_but_free(value);
            match dict.is_instance_of(types().ordered_dict) {
                true => dict.bind().set_item(key.bind(), object.bind())?,
                // SAFETY: a dict and live objects. A method of a class of the program's is not asked, as `dict` does not ask it.
                false => crate::recipe::check(unsafe { ffi::PyDict_SetItem(dict.ptr(), key.ptr(), object.ptr()) })?,
            }
            let value = if self.stays_free(value) { value.clone() } else { object.into() };
            if let Some(rec) = &mut self.rec {
                rec.stow_outside(dict, key, &value);
            }
        }
        Ok(())
    }

    /// What `dict(value)` and `update(value)` take from it: the items of a mapping, or pairs.
    pub fn entries_to_add(&mut self, first: &Val) -> R<Vec<(Obj, Val)>> {
        let t = types();
        if first.obj.is_instance_of(t.dict) {
            return self.mapping_items(first);
        }
        let mut entries = Vec::new();
        if !self.is_data(&first.obj)
            && let Some(keys) = self.try_attr(first, &Obj::str("keys"))?
        {
            let keys = self.call_now(&keys, Args::default())?;
            for key in self.iterate_all(&keys)? {
                let value = self.now(|vm| vm.load_item(first, &key))?;
                entries.push((self.settled(&key), value));
            }
            return Ok(entries);
        }
        for (n, pair) in self.iterate_all(first)?.into_iter().enumerate() {
            if t.is_indivisible(&pair.obj) {
                let text = format!("cannot convert dictionary update sequence element #{n} to a sequence");
                return Err(pyo3::exceptions::PyTypeError::new_err(text));
            }
            let pair = self.iterate_all(&pair)?;
            let [key, value] = &pair[..] else {
                let text = format!("dictionary update sequence element #{n} has length {}; 2 is required", pair.len());
                return Err(pyo3::exceptions::PyValueError::new_err(text));
            };
            entries.push((self.settled(key), value.clone()));
        }
        Ok(entries)
    }

    fn new_scalar(&mut self, callable: &Val, args: &Args) -> R<Called> {
        let first = match (args.positional.first(), args.keywords.first()) {
            (Some(first), _) => first,
            (None, Some((_, first))) => first,
            (None, None) => return Ok(Called::Value(callable.obj.call(&[], None)?.into())),
        };
        if super::operators::is_tensor(&first.obj) {
            let why = "a tensor's value as a number or text";
            let name = callable.obj.attr("__name__")?.to_str().unwrap_or_default();
            let is_number = matches!(name.as_str(), "int" | "float") && args.positional.len() == 1 && args.keywords.is_empty();
            return match is_number {
                true => self.read(callable, args.clone(), Read::Numbers, why),
                false => self.opaque_call(callable, args.clone(), why),
            };
        }
        if self.is_plain_data(args) {
            return self.pure(&callable.obj, &args.positional, &args.keywords).map(Called::Value);
        }
        let name = callable.obj.attr("__name__")?.to_str().unwrap_or_default();
        let methods: &[&str] = match name.as_str() {
            "str" => &["__str__", "__repr__"],
            "int" => &["__int__", "__index__"],
            "float" => &["__float__", "__index__"],
            "complex" => &["__complex__", "__float__", "__index__"],
            _ => &["__bytes__"],
        };
        let alone = args.positional.len() == 1 && args.keywords.is_empty();
        for method in methods.iter().filter(|_| alone) {
            let class = first.obj.class();
            match type_lookup(&class, &Obj::str(method)) {
                Some(found) if found.class_is(types().function) => {
                    self.recorded(|rec| Ok(rec.rely_on_class(&class)));
                    let found = self.pinned(found);
                    return self.converted(callable, method, found, first);
                }
                // `object.__str__` asks `__repr__`.
                Some(found) if !(*method == "__str__" && is_of_object(&found, method)) => break,
                _ => {}
            }
        }
        if alone
            && name == "str"
            && let Some(called) = self.container_text(first)?
        {
            return Ok(called);
        }
        if alone && self.is_known_value(&first.obj) {
            return Ok(Called::Value(callable.obj.call(std::slice::from_ref(&first.obj), None)?.into()));
        }
        if let Some(value) = self.plain_part(&first.obj).filter(|_| alone) {
            return Ok(Called::Value(callable.obj.call(&[value], None)?.into()));
        }
        self.opaque_call(callable, args.clone(), &format!("{name}() of a {}", first.obj.class_name()))
    }

    /// What a special method gives, as the type that was asked for.
    fn converted(&mut self, callable: &Val, method: &str, found: Val, value: &Val) -> R<Called> {
        let t = types();
        let (expected, word) = match method {
            "__str__" | "__repr__" => (t.str, "string"),
            "__float__" => (t.float, "float"),
            "__complex__" => (t.complex, "complex"),
            "__bytes__" => (t.bytes, "bytes"),
            _ => (t.int, "int"),
        };
        // SAFETY: the type lives for ever.
        let wanted: Val = unsafe { Obj::borrowed(expected.cast()) }.into();
        let complaint: Val = Obj::str(&format!("{method} returned non-{word} (type {{}})")).into();
        match callable.obj.ptr() == expected.cast() {
            true => self.call_library("of_type", vec![found, value.clone(), wanted, complaint]),
            false => self.call_library("converted", vec![callable.clone(), found, value.clone(), wanted, complaint]),
        }
    }

    /// `cls.__new__`, then `__init__`.
    fn construct_instance(&mut self, callable: &Val, args: Args) -> R<Called> {
        let class = callable.obj.clone();
        let meta = class.class();
        let t = types();
        self.recorded(|rec| Ok(rec.rely_on_class(&class) && rec.rely_on_class(&meta)));
        // SAFETY: a type.
        let plain_meta = unsafe { Obj::borrowed(t.type_.cast()) };
        let own_call = type_lookup(&meta, &Obj::str("__call__"));
        let is_plain = matches!((&own_call, type_lookup(&plain_meta, &Obj::str("__call__"))), (Some(a), Some(b)) if a.is(&b));
        if !is_plain {
            if meta_is_enum(&class) && self.is_plain_data(&args) {
                return self.find_member(callable, args);
            }
            return match own_call {
                Some(function) if function.class_is(t.function) => {
                    let function = self.pinned(function);
                    self.call(&function, args.with_self(callable.clone()))
                }
                // It is not bound: a class of `typing.TypedDict` makes what `dict` makes.
                Some(other) if type_lookup(&other.class(), &Obj::str("__get__")).is_none() => {
                    let other = self.pinned(other);
                    self.call(&other, args)
                }
                _ => self.opaque_call(callable, args, "a class with a metaclass of its own"),
            };
        }
        self.instantiate(callable, args)
    }

    /// `Color(1)`, or a new class: `Enum("Color", "RED BLUE")`.
    fn find_member(&mut self, callable: &Val, args: Args) -> R<Called> {
        let class = callable.obj.clone();
        let finds = class.attr("_member_map_").and_then(|members| Ok(members.bind().len()? > 0)).quiet().unwrap_or(false);
        if !finds {
            return self.call_from_here(callable, args, "a new enumeration");
        }
        let is_there = |value: &Obj| {
            let members = || class.attr("_value2member_map_");
            value.class_ptr() == class.ptr().cast()
                || members().quiet().is_some_and(|members| dict_get(&members, value).is_some())
        };
        let is_found = matches!(&args.positional[..], [value] if args.keywords.is_empty() && is_there(&value.obj));
        let missing = class.attr("_missing_").and_then(|missing| missing.attr("__func__"));
        let is_own =
            |missing: Obj| missing.attr("__module__").quiet().is_some_and(|module| module.to_str().as_deref() != Some("enum"));
        if !is_found && missing.quiet().is_some_and(is_own) {
            return self.opaque_call(callable, args, "an enumeration that finds members by code of the program's");
        }
        let objects: Vec<Obj> = args.positional.iter().map(|arg| self.settled(arg)).collect();
        let names: Vec<(Obj, Val)> = args.keywords.iter().map(|(name, arg)| (name.clone(), self.settled(arg).into())).collect();
        let member = class.call(&objects, super::native::keywords(&names)?.as_ref())?;
        Ok(Called::Value(self.pinned(member)))
    }

    /// `type.__call__(class, ...)`
    pub fn instantiate(&mut self, callable: &Val, args: Args) -> R<Called> {
        let (class, t) = (callable.obj.clone(), types());
        let Some(new) = type_lookup(&class, &Obj::str("__new__")) else {
            return self.opaque_call(callable, args, "a class without __new__");
        };
        // What nobody holds is not made in later calls, but this would be noticed.
        let is_told = type_lookup(&class, &Obj::str("__del__")).is_some();
        if is_told && (self.rec.is_none() || finaliser(&class).is_none()) {
            return self.opaque_call(callable, args, "an object that is told when it goes");
        }
        let object = if new.class_is(t.staticmethod) {
            match self.call_own_new(callable, &new, &args)? {
                Called::Value(object) => object,
                Called::Pushed => return Ok(Called::Pushed),
            }
        } else {
            match self.new_by_c(&class, &new, &args)? {
                Some(object) => object,
                None => {
                    let why = "a class whose instances are made in C";
                    return match names_its_module(&class) {
                        true => self.call_from_here(callable, args, why),
                        false => self.opaque_call(callable, args, why),
                    };
                }
            }
        };
        self.initialise_made(callable, &args, object)
    }

    pub fn initialise(&mut self, object: &Val, args: Args) -> R<Called> {
        let class = object.obj.class();
        let Some(init) = type_lookup(&class, &Obj::str("__init__")) else { return Ok(Called::Value(object.clone())) };
        if init.class_is(types().function) {
            let init = self.pinned(init);
            self.waiting += 1;
            let called = self.call(&init, args.with_self(object.clone()));
            self.waiting -= 1;
            return match called? {
                Called::Pushed => {
                    self.frame().after = After::Instance(object.clone());
                    Ok(Called::Pushed)
                }
                Called::Value(_) => Ok(Called::Value(object.clone())),
            };
        }
        let t = types();
        let is_container = [t.dict, t.list, t.set].iter().any(|base| object.obj.is_instance_of(*base));
        // SAFETY: a type.
        let plain = unsafe { Obj::borrowed(t.object.cast()) };
        let is_plain = type_lookup(&plain, &Obj::str("__init__")).is_some_and(|own| own.is(&init));
        let own_new = type_lookup(&class, &Obj::str("__new__")).is_some_and(|n| n.class_is(t.staticmethod));
        if is_plain && (own_new || (args.positional.is_empty() && args.keywords.is_empty())) {
            return Ok(Called::Value(object.clone()));
        }
        if is_container || is_plain || object.obj.is_instance_of(t.base_exception) {
            let mut objects = vec![object.obj.clone()];
            if self.fill_instance(&init, &object.obj, &args)? {
                return Ok(Called::Value(object.clone()));
            }
            for arg in &args.positional {
                let known = self.known_data(arg)?;
                objects.push(known);
            }
            let named = self.known_keywords(&args)?;
            let hashes = object.obj.is_instance_of(t.dict) || object.obj.is_instance_of(t.set);
            if hashes && objects[1..].iter().any(|given| self.asks_for_members(given)) {
                self.now(|vm| vm.opaque_call(&init.clone().into(), args.with_self(object.clone()), ASKED))?;
                return Ok(Called::Value(object.clone()));
            }
            init.call(&objects, named.as_ref())?;
        }
        Ok(Called::Value(object.clone()))
    }

    /// `dict.__init__` of a class of the program's, with numbers as free as they are in a dict. False where it is about something else.
    fn fill_instance(&mut self, init: &Obj, object: &Obj, args: &Args) -> R<bool> {
        // SAFETY: a type.
        let dict = unsafe { Obj::borrowed(types().dict.cast()) };
        let is_dicts = type_lookup(&dict, &Obj::str("__init__")).is_some_and(|own| own.is(init));
        let is_plain = |first: &Val| first.obj.class_is(types().dict);
        let is_whole = matches!(&args.positional[..], [] | [_]) && args.positional.iter().all(is_plain);
        if !is_dicts || !is_whole || args.positional.iter().any(|given| self.asks_for_members(&given.obj)) {
            return Ok(false);
        }
        let mut entries = match args.positional.first() {
            Some(first) => self.mapping_items(first)?,
            None => Vec::new(),
        };
        entries.extend(args.keywords.iter().cloned());
        self.fill(object, &entries).map(|()| true)
    }

    /// Whether a set is made of what it need not ask.
    fn holds_plain_members(&mut self, args: &Args) -> bool {
        let is_data = args.positional.iter().all(|given| self.is_data(&given.obj) && !self.asks_for_members(&given.obj));
        is_data && args.keywords.is_empty()
    }

    fn known_members(&mut self, args: &Args) -> R<Vec<Obj>> {
        args.positional.iter().map(|given| self.known_data(given)).collect()
    }

    /// Keywords for C, which does not ask where numbers come from.
    fn known_keywords(&mut self, args: &Args) -> R<Option<Obj>> {
        for (_, value) in &args.keywords {
            self.known_data(value)?;
        }
        super::native::keywords(&args.keywords)
    }

    /// A class with an `__init__` of its own may take others than `__new__` of its base does.
    fn keywords_for_new(&mut self, class: &Obj, args: &Args) -> R<Option<Obj>> {
        let overridden = type_lookup(class, &Obj::str("__init__")).is_some_and(|init| init.class_is(types().function));
        if overridden { Ok(None) } else { self.known_keywords(args) }
    }

    /// `__new__` of the built-in bases.
    fn new_by_c(&mut self, class: &Obj, new: &Obj, args: &Args) -> R<Option<Val>> {
        let t = types();
        let mut items = Vec::new();
        let owner = new.attr("__self__").quiet();
        let is_of = |base: crate::types::Type| owner.as_ref().is_some_and(|o| o.ptr() == base.cast());
        let made = if is_of(t.object) {
            // `object.__new__` complains about arguments only if neither method is overridden.
            let overridden = type_lookup(class, &Obj::str("__init__")).is_some_and(|i| i.class_is(t.function));
            let rest: Vec<Obj> = if overridden { Vec::new() } else { args.positional.iter().map(|a| a.obj.clone()).collect() };
            new.call(&[std::slice::from_ref(class), &rest[..]].concat(), None)?
        } else if is_of(t.dict) || is_of(t.list) || is_of(t.ordered_dict) || is_of(t.set) {
            new.call(std::slice::from_ref(class), None)?
        } else if class_is_exception(class) {
            let mut objects = vec![class.clone()];
            objects.extend(args.positional.iter().map(|a| self.settled(a)));
            new.call(&objects, self.known_keywords(args)?.as_ref())?
        } else if is_of(t.tuple) {
            let mut objects = vec![class.clone()];
            if let Some(first) = args.positional.first() {
                items = self.iterate_all(first)?;
                objects.push(tuple_of(&self.all_but_free(&items))?);
            }
            objects.extend(args.positional.iter().skip(1).map(|arg| arg.obj.clone()));
            new.call(&objects, self.keywords_for_new(class, args)?.as_ref())?
        } else if is_of(t.frozenset) && self.holds_plain_members(args) {
            let mut objects = vec![class.clone()];
            objects.extend(self.known_members(args)?);
            new.call(&objects, None)?
        } else if [t.int, t.float, t.str].iter().any(|base| is_of(*base)) && self.is_plain_data(args) {
            let mut objects = vec![class.clone()];
            objects.extend(args.positional.iter().map(|a| self.settled(a)));
            new.call(&objects, self.keywords_for_new(class, args)?.as_ref())?
        } else {
            return Ok(None);
        };
        if let Some(rec) = &mut self.rec {
            rec.made(&made);
            if rec.origin(&made) == Origin::Unknown {
                rec.register(&made, Origin::Made);
            }
            if finaliser(class).is_some() {
                self.suspended.watch(&made);
            }
        }
        self.keep_free(&made, 0, &items);
        Ok(Some(made.into()))
    }

    /// `super().__new__(cls, ...)` in a `__new__` written in Python.
    pub fn call_new(&mut self, callable: &Val, _owner: &Obj, mut args: Args) -> R<Called> {
        let Some(class) = args.positional.first().cloned().filter(|c| c.obj.is_instance_of(types().type_)) else {
            return self.opaque_call(callable, args, "__new__ without a class");
        };
        args.positional.remove(0);
        match self.new_by_c(&class.obj, &callable.obj, &args)? {
            Some(object) => Ok(Called::Value(object)),
            None => {
                let (names_module, why) = (names_its_module(&class.obj), "instances that are made in C");
                let args = args.with_self(class);
                match names_module {
                    true => self.call_from_here(callable, args, why),
                    false => self.opaque_call(callable, args, why),
                }
            }
        }
    }
}

/// Whether what the class makes has the name of the module that asked for it: classes, and variables of types.
fn names_its_module(class: &Obj) -> bool {
    let is_of_typing = || class.attr("__module__").quiet().is_some_and(|module| module.to_str().as_deref() == Some("typing"));
    crate::recipe::is_subtype(class, types().type_) || is_of_typing()
}

fn weak_reference() -> R<crate::types::Type> {
    let class = Obj::from(crate::obj::py().import("weakref")?.getattr("ref")?);
    Ok(class.ptr().cast())
}

/// Whether it is the method that every class has.
fn is_of_object(found: &Obj, name: &str) -> bool {
    // SAFETY: the type lives for ever.
    let object = unsafe { Obj::borrowed(types().object.cast()) };
    type_lookup(&object, &Obj::str(name)).is_some_and(|own| own.is(found))
}

fn class_is_exception(class: &Obj) -> bool {
    crate::recipe::is_subtype(class, types().base_exception)
}

fn meta_is_enum(class: &Obj) -> bool {
    let name = class.class_name();
    name == "EnumType" || name == "EnumMeta"
}
