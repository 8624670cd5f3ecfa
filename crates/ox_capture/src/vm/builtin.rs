//! Built-in functions and the methods of containers, as the machine does them.

use super::native::keywords;
use super::operators::is_tensor;
use super::{Args, Called, R, Vm, VmGenerator, VmIterator};
use crate::attr::type_lookup;
use crate::builtins::Known;
use crate::obj::{Obj, dict_get, list_of, py};
use crate::record::{Origin, Val};
use crate::types::types;
use ox_bytecode::{BinaryOp, CompareOp};
use pyo3::exceptions::{PyAttributeError, PyStopIteration, PyTypeError, PyValueError};
use pyo3::prelude::*;

impl Vm {
    pub fn builtin_call(&mut self, known: Known, callable: &Val, args: Args) -> R<Called> {
        let positional = args.positional.clone();
        let native = |vm: &mut Vm, why: &str| vm.opaque_call(callable, args.clone(), why);
        let value = match (known, &positional[..]) {
            (Known::Len, [object]) => return self.len(callable, object),
            (Known::IsInstance | Known::IsSubclass, [object, class]) => {
                let class = self.known_data(class)?;
                let answer = callable.obj.call(&[object.obj.clone(), class], None)?;
                if let Some(rec) = &mut self.rec
                    && known == Known::IsSubclass
                {
                    rec.pin(&object.obj);
                }
                answer.into()
            }
            (Known::Callable, [object]) => callable.obj.call(std::slice::from_ref(&object.obj), None)?.into(),
            (Known::HasAttr, [object, name]) => {
                let name = self.settled(name);
                Obj::bool(self.try_attr(object, &name)?.is_some()).into()
            }
            (Known::GetAttr, [object, name]) => {
                let name = self.settled(name);
                return self.load_attr(object, &name);
            }
            (Known::GetAttr, [object, name, default]) => {
                let name = self.settled(name);
                match self.try_attr(object, &name)? {
                    Some(found) => found,
                    None => default.clone(),
                }
            }
            (Known::SetAttr, [object, name, value]) => {
                let name = self.settled(name);
                if let Called::Pushed = self.store_attr(object, &name, value.clone())? {
                    self.finish_pushed()?;
                }
                Obj::none().into()
            }
            (Known::DelAttr, [object, name]) => {
                let name = self.settled(name);
                self.delete_attr(object, &name)?;
                Obj::none().into()
            }
            (Known::Next, [iterator]) => return self.next_call(callable, iterator),
            (Known::Next, [iterator, default]) => match iterator.obj.bind().is_instance_of::<VmIterator>() {
                true => self.next_of(iterator)?.unwrap_or_else(|| default.clone()),
                false => return self.call_library("next_or", vec![iterator.clone(), default.clone()]),
            },
            (Known::Iter, [object]) => return self.iter(object),
            (Known::Iter, [function, sentinel]) => return self.call_library("until", vec![function.clone(), sentinel.clone()]),
            (Known::Any, [iterable]) => return self.call_library("is_any", vec![iterable.clone()]),
            (Known::All, [iterable]) => return self.call_library("are_all", vec![iterable.clone()]),
            (Known::Sum, [iterable, rest @ ..]) => match self.call_with_list(callable, &args, 0)? {
                Some(called) => return Ok(called),
                None => return self.sum(iterable, rest.first(), &args),
            },
            (Known::Min | Known::Max, [_, ..]) => return self.extreme(known, callable, &args),
            (Known::Sorted, [iterable]) => match self.call_with_list(callable, &args, 0)? {
                Some(called) => return Ok(called),
                None => return self.sorted(callable, iterable, &args),
            },
            (Known::Vars, [object]) => return self.load_attr(object, &Obj::str("__dict__")),
            (Known::Format, [object, ..]) => return self.format_object(callable, object, &args),
            (Known::Apply, [class, inputs @ ..]) => return self.apply_function(callable, class, inputs, &args),
            (Known::Grad, []) => callable.obj.call(&[], None)?.into(),
            (Known::State, _) if args.keywords.is_empty() => {
                let objects: Vec<Obj> = positional.iter().map(|a| self.settled(a)).collect();
                let state = callable.obj.call(&objects, None)?;
                if !types().is_scalar(&state) {
                    return native(self, "a mode of torch's that is no plain value");
                }
                if let Some(rec) = &mut self.rec {
                    rec.rely_on_state(&callable.obj, &objects, &state);
                }
                state.into()
            }
            (Known::Autocast, _) if args.keywords.is_empty() && is_of_cpu(&positional) => {
                let objects: Vec<Obj> = positional.iter().map(|a| self.settled(a)).collect();
                callable.obj.call(&objects, None)?.into()
            }
            (Known::SetAutocast, _) if args.keywords.is_empty() && is_of_cpu(&positional) => {
                let objects: Vec<Obj> = positional.iter().map(|a| self.settled(a)).collect();
                if let Some(rec) = &mut self.rec {
                    rec.note_change(callable.obj.clone(), objects.iter().cloned().map(Val::from).collect());
                }
                callable.obj.call(&objects, None)?.into()
            }
            (Known::SetGrad, [value]) => {
                let object = self.settled(value);
                if let Some(rec) = &mut self.rec {
                    rec.note_change(callable.obj.clone(), vec![object.clone().into()]);
                }
                callable.obj.call(&[object], None)?.into()
            }
            (Known::No, _) if !self.has_other_tensor(&args) => Obj::bool(false).into(),
            (Known::Signature, [function]) if self.is_fixed_function(&function.obj) => {
                let signature = callable.obj.call(std::slice::from_ref(&function.obj), None)?;
                self.pinned(signature)
            }
            (Known::ByName, names) if args.keywords.is_empty() && names.iter().all(|name| types().is_scalar(&name.obj)) => {
                let names: Vec<Obj> = names.iter().map(|name| self.settled(name)).collect();
                let found = callable.obj.call(&names, None)?;
                self.pinned(found)
            }
            (Known::Copy, _) if args.keywords.is_empty() => return self.copy(callable, args.clone()),
            (Known::Yes, _) => Obj::bool(true).into(),
            (Known::Nothing, _) => Obj::none().into(),
            (Known::Itself, [first, ..]) => first.clone(),
            (Known::Value, [object]) => return self.step_value(object),
            (Known::Grouped, [_, ..]) if args.keywords.is_empty() => self.group_tensors(callable, &positional)?,
            _ => return native(self, "a built-in function with unusual arguments"),
        };
        Ok(Called::Value(value))
    }

    /// A function (or a method of one) that the trace keeps.
    fn is_fixed_function(&self, object: &Obj) -> bool {
        let function = match object.class_is(types().method) {
            true => object.attr("__func__").ok(),
            false => Some(object.clone()),
        };
        function.is_some_and(|f| f.class_is(types().function) && matches!(self.origin(&f), Origin::Const | Origin::Outside(_)))
    }

    /// A tensor of a class that changes what torch does with it.
    fn has_other_tensor(&self, args: &Args) -> bool {
        let types = types();
        let other =
            |o: &Obj| types.is_tensor(o) && !crate::lazy::is_lazy(o) && !o.class_is(types.tensor) && !o.class_is(types.parameter);
        let inside: Vec<Obj> = args.positional.iter().flat_map(|a| crate::record::tensors_in(&a.obj)).collect();
        inside.iter().any(other)
    }

    /// None if there is no such attribute.
    pub fn try_attr(&mut self, object: &Val, name: &Obj) -> R<Option<Val>> {
        let depth = self.frames.len();
        match self.now(|vm| vm.load_attr(object, name)) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_instance_of::<PyAttributeError>(crate::obj::py()) && !self.fatal => {
                self.frames.truncate(depth);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn len(&mut self, callable: &Val, object: &Val) -> R<Called> {
        let t = types();
        let this = &object.obj;
        if is_tensor(this) {
            let shape = self.now(|vm| vm.tensor_field(object, &Obj::str("shape")))?;
            return match self.items_made_here(&shape.obj).first() {
                Some(first) => Ok(Called::Value(first.clone())),
                None => Err(PyTypeError::new_err("len() of a 0-d tensor")),
            };
        }
        if let Some(method) = type_lookup(&this.class(), &Obj::str("__len__")).filter(|m| m.class_is(t.function)) {
            let class = this.class();
            self.recorded(|rec| Ok(rec.rely_on_class(&class)));
            let method = self.pinned(method);
            return self.call_library("length", vec![method, object.clone()]);
        }
        if let Some(dict) = self.rec.as_ref().and_then(|rec| rec.viewed(this)) {
            return self.len(callable, &dict.into());
        }
        if self.holds_sizes(this) {
            return Ok(Called::Value(Obj::int(this.bind().len()? as i64).into()));
        }
        let counted = [t.list, t.tuple, t.dict, t.set, t.frozenset, t.str, t.bytes, t.range, t.mapping_proxy];
        if counted.iter().any(|c| this.is_instance_of(*c)) {
            return self.pure(&callable.obj, std::slice::from_ref(object), &[]).map(Called::Value);
        }
        if this.class_is(t.deque) {
            self.know_len(this);
            return Ok(Called::Value(Obj::int(this.bind().len()? as i64).into()));
        }
        // CPython's words for what has no length.
        if self.is_own_data(this) || type_lookup(&this.class(), &Obj::str("__len__")).is_none() {
            return Ok(Called::Value(Obj::int(this.bind().len()? as i64).into()));
        }
        self.opaque_call(callable, Args::positional(vec![object.clone()]), &format!("len() of a {}", this.class_name()))
    }

    /// What `__len__` returned, if it may.
    pub fn as_length(&mut self, len: Val) -> R<Val> {
        if !len.obj.is_instance_of(types().int) {
            let text = format!("'{}' object cannot be interpreted as an integer", len.obj.class_name());
            return Err(PyTypeError::new_err(text));
        }
        let zero: Val = Obj::int(0).into();
        let negative = self.pure_call("lt", &[len.clone(), zero])?;
        match negative.obj.truth()? {
            true => Err(PyValueError::new_err("__len__() should return >= 0")),
            false => Ok(len),
        }
    }

    fn sum(&mut self, iterable: &Val, start: Option<&Val>, args: &Args) -> R<Called> {
        let named = args.keywords.iter().find(|(k, _)| k.to_str().as_deref() == Some("start")).map(|(_, v)| v);
        let mut total = start.or(named).cloned().unwrap_or_else(|| Obj::int(0).into());
        let items = self.iterate_all(iterable)?;
        let is_number = |v: &Val| types().is_scalar(&v.obj) && !v.obj.class_is(types().str) && !v.obj.class_is(types().bytes);
        let is_float = |v: &Val| v.obj.class_is(types().float) || v.obj.class_is(types().complex);
        if items.iter().chain([&total]).all(is_number) && items.iter().chain([&total]).any(is_float) {
            // CPython loses less on the way than one addition after the other.
            let objects: Vec<Obj> = items.iter().map(|v| self.settled(v)).collect();
            let list = self.made(list_of(&objects)?);
            return self.pure_by_name("sum", &[list, total]).map(Called::Value);
        }
        if !items.iter().chain([&total]).all(is_number) {
            let objects: Vec<Obj> = items.iter().map(|v| self.settled(v)).collect();
            let list = self.made(list_of(&objects)?);
            return self.call_library("add_all", vec![list, total]);
        }
        for item in items {
            total = self.now(|vm| vm.binary(BinaryOp::Add, false, &total, &item))?;
        }
        Ok(Called::Value(total))
    }

    fn extreme(&mut self, known: Known, callable: &Val, args: &Args) -> R<Called> {
        let option = |name: &str| args.keywords.iter().find(|(k, _)| k.to_str().as_deref() == Some(name)).map(|(_, v)| v.clone());
        let key = option("key").filter(|k| !k.obj.is_none());
        // Whether one is larger is a question for its value: the whole call is made for real.
        if key.is_none() && args.positional.len() > 1 && args.positional.iter().any(|item| is_tensor(&item.obj)) {
            return self.opaque_call(callable, args.clone(), "the truth of a tensor");
        }
        let is_number = |v: &Val| v.obj.class_is(types().int) || v.obj.class_is(types().float);
        let op = if known == Known::Max { CompareOp::Greater } else { CompareOp::Less };
        if let [first, rest @ ..] = &args.positional[..]
            && key.is_none()
            && !rest.is_empty()
            && args.positional.iter().all(is_number)
        {
            let mut best = first.clone();
            for item in rest {
                let answer = self.now(|vm| vm.compare(op, item, &best))?;
                if self.truth(&answer)? {
                    best = item.clone();
                }
            }
            return Ok(Called::Value(best));
        }
        let iterable = match &args.positional[..] {
            [iterable] => iterable.clone(),
            many => self.tuple(many.to_vec())?,
        };
        let name = callable.obj.attr("__name__")?;
        let default = self.tuple(option("default").into_iter().collect())?;
        let greater: Val = Obj::bool(known == Known::Max).into();
        let key = key.unwrap_or_else(|| Obj::none().into());
        self.call_library("extreme", vec![iterable, key, greater, name.into(), default])
    }

    fn sorted(&mut self, callable: &Val, iterable: &Val, args: &Args) -> R<Called> {
        let items: Vec<Val> = self.iterate_all(iterable)?;
        let objects: Vec<Obj> = items.iter().map(|v| self.settled(v)).collect();
        let list = self.made(list_of(&objects)?);
        let key = args.keywords.iter().find(|(k, v)| k.to_str().as_deref() == Some("key") && !v.obj.is_none()).cloned();
        let rest: Vec<(Obj, Val)> = args.keywords.iter().filter(|(k, _)| k.to_str().as_deref() != Some("key")).cloned().collect();
        let reverse = rest.first().map_or_else(|| Obj::bool(false).into(), |(_, v)| v.clone());
        let Some((_, key)) = key else {
            if !self.is_plain_data(&Args::positional(vec![list.clone()])) {
                return self.sort_objects(callable, args, list.clone(), list, reverse);
            }
            return self.pure(&callable.obj, &[list], &rest).map(Called::Value);
        };
        let Some(ranks) = ranks_of(&key.obj) else {
            return self.call_library("sort_by", vec![callable.clone(), list, key, reverse]);
        };
        // Sorted by rank, then by place: CPython compares without meeting the items.
        self.known_data(&ranks.clone().into())?;
        if !self.is_plain_data(&Args::positional(vec![ranks.clone().into()])) {
            return self.sort_objects(callable, args, list, ranks.into(), reverse);
        }
        let sorted = callable.obj.call(&[list.obj], keywords(&args.keywords)?.as_ref())?;
        Ok(Called::Value(self.made(sorted)))
    }

    /// By the methods of the objects. Many are compared in an order that only CPython knows.
    fn sort_objects(&mut self, callable: &Val, args: &Args, items: Val, ranks: Val, reverse: Val) -> R<Called> {
        const FEW: usize = 64;
        if crate::obj::items_of(&items.obj).len() >= FEW {
            return self.opaque_call(callable, args.clone(), "sorted() of many objects");
        }
        let reverse = self.truth(&reverse)?;
        self.call_library("sort_objects", vec![items, ranks, Obj::bool(reverse).into()])
    }

    fn format_object(&mut self, callable: &Val, object: &Val, args: &Args) -> R<Called> {
        if self.is_plain_data(args) {
            return self.pure(&callable.obj, &args.positional, &args.keywords).map(Called::Value);
        }
        let t = types();
        let name = callable.obj.attr("__name__")?.to_str().unwrap_or_default();
        let spec = args.positional.get(1).cloned().unwrap_or_else(|| Obj::str("").into());
        let class = object.obj.class();
        let python = |name: &str| type_lookup(&class, &Obj::str(name)).filter(|f| f.class_is(t.function));
        let empty = spec.obj.to_str().is_some_and(|text| text.is_empty());
        if name == "format"
            && !is_tensor(&object.obj)
            && let Some(found) = python("__format__")
        {
            self.recorded(|rec| Ok(rec.rely_on_class(&class)));
            let found = self.pinned(found);
            return self.call_library("formatted", vec![found, object.clone(), spec]);
        }
        if !is_tensor(&object.obj) && (name == "repr" || empty) {
            let methods: &[&str] = if name == "format" { &["__str__", "__repr__"] } else { &["__repr__"] };
            if let Some((method, found)) = methods.iter().find_map(|method| Some((method, python(method)?))) {
                self.recorded(|rec| Ok(rec.rely_on_class(&class)));
                let found = self.pinned(found);
                // SAFETY: the type lives for ever.
                let text: Val = unsafe { Obj::borrowed(t.str.cast()) }.into();
                let complaint: Val = Obj::str(&format!("{method} returned non-string (type {{}})")).into();
                return self.call_library("of_type", vec![found, object.clone(), text, complaint]);
            }
        }
        self.opaque_call(callable, args.clone(), &format!("the text of a {}", object.obj.class_name()))
    }

    // Methods of containers.

    pub fn call_container_method(&mut self, callable: &Val, class: &Obj, name: &str, args: Args) -> R<Called> {
        let t = types();
        let owner = args.positional[0].clone();
        let ptr = class.ptr().cast();
        let rest = Args { positional: args.positional[1..].to_vec(), keywords: args.keywords.clone() };
        if let Some(called) = self.object_method(class, name, &owner, &rest)? {
            return Ok(called);
        }
        if owner.obj.bind().is_instance_of::<VmIterator>() && name == "__next__" {
            return match self.next_of(&owner)? {
                Some(value) => Ok(Called::Value(value)),
                None => Err(PyStopIteration::new_err(())),
            };
        }
        if ptr == t.context_var
            && let Some(value) = self.context_var_method(callable, name, &owner, &rest)?
        {
            return Ok(Called::Value(value));
        }
        if (ptr == t.dict || ptr == t.ordered_dict)
            && let Some(called) = self.dict_method(callable, name, &owner, &rest)?
        {
            return Ok(called);
        }
        let immutable =
            [t.str, t.int, t.float, t.bytes, t.bool, t.complex, t.tuple, t.frozenset, t.range, t.slice, t.size, t.dtype];
        let reads = is_reader(name);
        let containers = [t.list, t.dict, t.set, t.ordered_dict];
        if immutable.contains(&ptr) || (containers.contains(&ptr) && reads) {
            return self.read_method(callable, name, args);
        }
        if containers.contains(&ptr) || ptr == t.deque {
            return self.changing_method(callable, name, args);
        }
        if let Some(called) = self.call_array_method(callable, class, name, &args)? {
            return Ok(called);
        }
        if self.is_own_data(&owner.obj) && crate::builtins::is_data_class(class) {
            return self.native_method(callable, args);
        }
        let why = format!("the method {name} of a {}", owner.obj.class_name());
        self.opaque_call(callable, args, &why)
    }

    /// A method of an object of this segment's, of a class in C that keeps what it is given.
    fn native_method(&mut self, callable: &Val, args: Args) -> R<Called> {
        let mut objects = Vec::new();
        for arg in &args.positional {
            objects.push(self.known_data(arg)?);
        }
        for (_, value) in &args.keywords {
            self.settled(value);
        }
        let result = callable.obj.call(&objects, keywords(&args.keywords)?.as_ref())?;
        Ok(Called::Value(self.made_or_known(result)))
    }

    /// Variables of the thread's context: read with a check, set for real and again in later calls. What is reset before anybody else could
    /// look was never set.
    fn context_var_method(&mut self, callable: &Val, name: &str, owner: &Val, rest: &Args) -> R<Option<Val>> {
        let variable = owner.obj.clone();
        let key = Obj::str("value");
        match (name, &rest.positional[..]) {
            ("get", defaults) => {
                let mut args = vec![owner.clone()];
                args.extend(defaults.iter().cloned());
                let objects: Vec<Obj> = args.iter().map(|a| a.obj.clone()).collect();
                let value = callable.obj.call(&objects, None)?;
                let written = self.rec.as_ref().is_some_and(|rec| rec.is_written(&variable, &key));
                if written || self.origin(&value) == Origin::Made {
                    return Ok(Some(value.into()));
                }
                let Some(rec) = &mut self.rec else { return Ok(Some(value.into())) };
                let sources: Option<Vec<_>> = args.iter().map(|a| rec.source_of(a)).collect();
                let Some(sources) = sources else { return Ok(None) };
                let source = rec.source(crate::source::Source::Compute(crate::source::Key(callable.obj.clone()), sources));
                Ok(Some(rec.meet(value, source)))
            }
            ("set", [value]) => {
                let object = self.settled(value);
                let token = callable.obj.call(&[variable.clone(), object.clone()], None)?;
                if let Some(rec) = &mut self.rec {
                    rec.register(&token, Origin::Made);
                    rec.note_change(callable.obj.clone(), vec![owner.clone(), value.clone()]);
                    rec.mark_written(&variable, &key);
                    rec.note_token(&token);
                }
                Ok(Some(token.into()))
            }
            ("reset", [token]) if self.rec.as_mut().is_some_and(|rec| rec.take_token(&token.obj)) => {
                callable.obj.call(&[variable, token.obj.clone()], None)?;
                Ok(Some(Obj::none().into()))
            }
            _ => Ok(None),
        }
    }

    /// `object`'s and `type`'s own.
    fn object_method(&mut self, class: &Obj, name: &str, owner: &Val, rest: &Args) -> R<Option<Called>> {
        let t = types();
        let is_object = class.ptr() == t.object.cast();
        let value = match (name, &rest.positional[..]) {
            ("__init__", []) if is_object => Obj::none().into(),
            ("__init__", args) if rest.keywords.is_empty() && self.is_made_exception(class, &owner.obj) => {
                let mut objects = vec![owner.obj.clone()];
                objects.extend(args.iter().map(|arg| self.settled(arg)));
                class.attr("__init__")?.call(&objects, None)?.into()
            }
            (method, args) if is_exception_method(method) && self.is_made_exception(class, &owner.obj) => {
                return self.exception_method(class, method, owner, args).map(Some);
            }
            ("__setattr__", [attribute, value]) if is_object => {
                let attribute = self.settled(attribute);
                self.store_plain_attr(owner, &attribute, value.clone())?;
                Obj::none().into()
            }
            ("__getattribute__", [attribute]) if is_object => {
                let attribute = self.settled(attribute);
                return self.plain_attr(owner, &attribute).map(Some);
            }
            ("__delattr__", [attribute]) if is_object => {
                let attribute = self.settled(attribute);
                self.delete_attr(owner, &attribute)?;
                Obj::none().into()
            }
            ("__eq__", [other]) if is_object => Obj::bool(self.is_same(owner, other)).into(),
            _ => return Ok(None),
        };
        Ok(Some(Called::Value(value)))
    }

    /// What an exception of this call's does with itself, by its class in C.
    fn exception_method(&mut self, class: &Obj, name: &str, owner: &Val, args: &[Val]) -> R<Called> {
        let mut objects = vec![owner.obj.clone()];
        for arg in args {
            objects.push(self.known_data(arg)?);
        }
        let result = class.attr(name)?.call(&objects, None)?;
        let parts = if result.class_is(types().tuple) { crate::obj::items_of(&result) } else { vec![result.clone()] };
        parts.iter().filter(|part| part.is_instance_of(types().base_exception)).for_each(|part| self.made_group(part));
        Ok(Called::Value(self.made_or_known(result)))
    }

    /// An exception of this call's, to be filled by its class in C.
    fn is_made_exception(&self, class: &Obj, object: &Obj) -> bool {
        crate::recipe::is_subtype(class, types().base_exception) && self.origin(object) == Origin::Made
    }

    fn dict_method(&mut self, callable: &Val, name: &str, owner: &Val, rest: &Args) -> R<Option<Called>> {
        let dict = owner.obj.clone();
        let value = match (name, &rest.positional[..]) {
            ("get", [key, default @ ..]) => {
                let key = self.settled(key);
                if !types().is_scalar(&key) && !types().is_pinnable(&key) && !types().is_enum(&key) {
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
                if let Some(found) = self.dict_value(&dict, &index) {
                    return Ok(Some(Called::Value(found)));
                }
                self.recorded(|rec| rec.check_no_key(&dict, &index));
                let default = default.first().cloned().unwrap_or_else(|| Obj::none().into());
                self.now(|vm| vm.store_item(owner, key, default.clone()))?;
                default
            }
            ("update", positional) => {
                let mut entries = Vec::new();
                if let Some(first) = positional.first() {
                    entries = self.entries_to_add(first)?;
                }
                entries.extend(rest.keywords.iter().cloned());
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

    /// `torch.autograd.Function.apply` where nobody asks for gradients: its `forward`, with a context that nobody reads.
    fn apply_function(&mut self, callable: &Val, class: &Val, inputs: &[Val], args: &Args) -> R<Called> {
        let function = py().import("torch.autograd.function")?;
        let plain_setup = Obj::from(function.getattr("Function")?.getattr("setup_context")?);
        let has_setup = !class.obj.attr("setup_context")?.is(&plain_setup);
        let wants_gradients = py().import("torch")?.call_method0("is_grad_enabled")?.is_truthy()?;
        if wants_gradients || has_setup || !args.keywords.is_empty() {
            return self.opaque_call(callable, args.clone(), "a torch.autograd.Function that may need gradients");
        }
        let context = function.getattr("FunctionCtx")?.call0()?;
        context.setattr("needs_input_grad", pyo3::types::PyTuple::new(py(), vec![false; inputs.len()])?)?;
        let context = self.made(context.into());
        self.recorded(|rec| Ok(rec.rely_on_class(&class.obj)));
        let forward = self.pinned(class.obj.attr("forward")?);
        self.call(&forward, Args::positional([&[context], inputs].concat()))
    }

    fn read_method(&mut self, callable: &Val, name: &str, args: Args) -> R<Called> {
        if let Some(called) = self.call_with_list(callable, &args, 1)? {
            return Ok(called);
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
        let shallow = matches!(name, "copy" | "__len__" | "__iter__");
        if !shallow && !self.is_plain_data(&args) {
            if let Some(called) = self.search_objects(name, &args)? {
                return Ok(called);
            }
            let why = format!("the method {name} on objects that are no plain data");
            return self.opaque_call(callable, args, &why);
        }
        self.pure(&callable.obj, &args.positional, &args.keywords).map(Called::Value)
    }

    /// Methods of lists and tuples that compare objects by their own methods.
    fn search_objects(&mut self, name: &str, args: &Args) -> R<Option<Called>> {
        let [owner, item, rest @ ..] = &args.positional[..] else { return Ok(None) };
        let t = types();
        if ![t.list, t.tuple, t.deque].iter().any(|class| owner.obj.class_is(*class)) || is_tensor(&item.obj) {
            return Ok(None);
        }
        let kind = owner.obj.class_name();
        let complaint: Val = match (kind.as_str(), name) {
            ("tuple", _) => Obj::str("tuple.index(x): x not in tuple").into(),
            (_, "remove") => Obj::str("list.remove(x): x not in list").into(),
            _ if types().is_scalar(&item.obj) => Obj::str(&format!("{} is not in list", item.obj.text())).into(),
            _ => Obj::str("list.index(x): x not in list").into(),
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

    fn changing_method(&mut self, callable: &Val, name: &str, args: Args) -> R<Called> {
        if matches!(name, "extend" | "update" | "__init__" | "extendleft")
            && let Some(called) = self.call_with_list(callable, &args, 1)?
        {
            return Ok(called);
        }
        if name == "remove"
            && !self.is_plain_data(&args)
            && let Some(called) = self.search_objects(name, &args)?
        {
            return Ok(called);
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
        if name == "sort" && (!args.keywords.is_empty() || !self.is_plain_data(&Args::positional(vec![owner.clone()]))) {
            return self.sort_in_place(&owner, &args);
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
        let objects: Vec<Obj> = values.iter().map(|v| self.settled(v)).collect();
        let result = callable.obj.call(&objects, keywords(&args.keywords)?.as_ref())?;
        Ok(Called::Value(self.made_or_known(result)))
    }

    fn sort_in_place(&mut self, owner: &Val, args: &Args) -> R<Called> {
        let option = |name: &str| args.keywords.iter().find(|(k, _)| k.to_str().as_deref() == Some(name)).map(|(_, v)| v.clone());
        let key = option("key").unwrap_or_else(|| Obj::none().into());
        let reverse = option("reverse").unwrap_or_else(|| Obj::bool(false).into());
        let sorted = self.builtin("sorted")?;
        self.call_library("sort_in_place", vec![sorted.into(), owner.clone(), key, reverse])
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
fn is_reader(name: &str) -> bool {
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

/// Methods of exceptions that are about the exception alone.
fn is_exception_method(name: &str) -> bool {
    matches!(name, "add_note" | "with_traceback" | "split" | "subgroup")
}

/// The list behind `ranks.__getitem__`.
fn ranks_of(key: &Obj) -> Option<Obj> {
    let is_item = key.class_is(types().builtin) && key.attr("__name__").ok()?.to_str()? == "__getitem__";
    is_item.then(|| key.attr("__self__").ok()).flatten().filter(|ranks| ranks.class_is(types().list))
}

/// Whether autocast's state is that of the CPU, or of all devices: the only one that is followed.
fn is_of_cpu(args: &[Val]) -> bool {
    args.first().is_none_or(|device| !device.obj.class_is(types().str) || device.obj.to_str().as_deref() == Some("cpu"))
}
