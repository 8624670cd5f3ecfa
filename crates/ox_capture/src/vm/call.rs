//! Calls: which kind of callable it is decides who does it.

use super::asking::{ASKED, slice_parts};
use super::native::keywords;
use super::operators::is_tensor;
use super::reading::Read;
use super::{After, Args, Called, Frame, R, Vm, code_info};
use crate::attr::type_lookup;
use crate::builtins::{self, Known};
use crate::interrupt::Quiet;
use crate::obj::{Obj, entries_of, items_of};
use crate::record::{Origin, Shadow, Val};
use crate::source::{Key, Source};
use crate::types::types;
use pyo3::exceptions::PyRecursionError;
use pyo3::ffi;
use pyo3::prelude::*;

/// As deep as CPython lets a program go by default.
const DEPTH: usize = 900;

impl Vm {
    pub fn call(&mut self, callable: &Val, args: Args) -> R<Called> {
        let args = if self.has_texts { self.with_known_texts(callable, args) } else { args };
        if let Some(called) = self.call_frame_function(callable, &args)? {
            return Ok(called);
        }
        if self.rec.is_none() {
            return match ends_what_was_recorded(&callable.obj) {
                true => Ok(Called::Value(Obj::none().into())),
                false => self.call_plainly(callable, &args).map(Called::Value),
            };
        }
        if self.is_in_library("for_real") {
            return self.opaque_call(callable, args, "a store that only C can make");
        }
        if self.is_in_library("by_torch") {
            return self.opaque_call(callable, args, "a function of torch's with values that no graph takes there");
        }
        if self.is_in_library("between_graphs") {
            return self.read(
                callable,
                args,
                Read::Nothing,
                "a write of a number of values that the data decides, or to what another tensor of the graph shares",
            );
        }
        if self.is_in_library("by_element") {
            return Ok(Called::Value(self.is_by_element(&args)));
        }
        let types = types();
        let this = callable.obj.clone();
        if !self.is_in_library("as_a_whole")
            && let Some(called) = self.call_stand_in(&this, &args)?
        {
            return Ok(called);
        }
        if let Some(called) = self.call_numpy(callable, &args)? {
            return Ok(called);
        }
        if let Some(known) = builtins::known(&this) {
            return self.call_known(known, callable, args);
        }
        if this.class_is(types.function) {
            return self.call_function(callable, args);
        }
        if this.class_is(types.method) {
            let function = self.member(&this, "__func__")?;
            let object = self.member(&this, "__self__")?;
            return self.call(&function, args.with_self(object));
        }
        if this.class_is(types.builtin) || this.class_is(types.method_wrapper) {
            return self.call_builtin_method(callable, args);
        }
        if this.class_is(types.method_descriptor) || this.class_is(types.wrapper_descriptor) {
            return self.call_descriptor(callable, args);
        }
        if this.is_instance_of(types.type_) {
            return self.construct(callable, args);
        }
        if this.class_is(types.partial) {
            return self.call_partial(&this, args);
        }
        if this.class_is(types.op_overload) || this.class_is(types.op_packet) {
            return self.torch_call(Shadow::Function(this.clone()), callable, args);
        }
        if this.class_is(types.weak_reference)
            && args.positional.is_empty()
            && let Some(value) = self.follow_reference(&this)?
        {
            return Ok(Called::Value(value));
        }
        if this.class_is(types.script_function) {
            let in_python = super::library::function("scripted")?.call(std::slice::from_ref(&this), None)?;
            return self.torch_call(Shadow::Function(in_python), callable, args);
        }
        if this.class_is(types.lru_cache) {
            return self.call_cached(callable, args);
        }
        if is_ufunc(&this) && self.are_scalars(&args) {
            return self.pure(&this, &args.positional, &args.keywords).map(Called::Value);
        }
        if let Some(called) = self.call_getter(&this, &args)? {
            return Ok(called);
        }
        if let Some(inner) = crate::callable::inner_function(&this) {
            let inner = self.pinned(inner);
            return self.call(&inner, args);
        }
        self.call_instance(callable, args)
    }

    /// Whether the innermost frame is of this function of the library.
    fn is_in_library(&self, name: &str) -> bool {
        self.frames.last().is_some_and(|frame| frame.is_of_library(name))
    }

    fn call_plainly(&mut self, callable: &Val, args: &Args) -> R<Val> {
        if builtins::looks_at_callers(&callable.obj) {
            let (from_here, args) = self.calling_from_here(callable, args.clone())?;
            let positional: Vec<Obj> = args.positional.iter().map(|a| a.obj.clone()).collect();
            return Ok(from_here.call(&positional, keywords(&args.keywords)?.as_ref())?.into());
        }
        if let ([only], true) = (&args.positional[..], callable.obj.ptr() == types().type_.cast()) {
            return Ok(super::seen::seen_class(&only.obj)?.into());
        }
        let positional: Vec<Obj> = args.positional.iter().map(|a| a.obj.clone()).collect();
        Ok(callable.obj.call(&positional, keywords(&args.keywords)?.as_ref())?.into())
    }

    /// A field of a method, partial or the like.
    pub fn member(&mut self, object: &Obj, name: &'static str) -> R<Val> {
        let found = object.attr(name)?;
        Ok(self.found_at(object, &Obj::str(name), found, |of| Source::Member(of, name)))
    }

    /// An instance of a class with `__call__`.
    fn call_instance(&mut self, callable: &Val, args: Args) -> R<Called> {
        let class = callable.obj.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        match type_lookup(&class, &Obj::str("__call__")) {
            Some(function) if function.class_is(types().function) || crate::callable::inner_function(&function).is_some() => {
                let function = self.pinned(function);
                self.call(&function, args.with_self(callable.clone()))
            }
            None => self.call_plainly(callable, &args).map(Called::Value),
            _ => {
                let why = format!("a call of a {}", callable.obj.class_name());
                self.opaque_call(callable, args, &why)
            }
        }
    }

    /// `operator.itemgetter` and its like, by what they say of themselves.
    fn call_getter(&mut self, getter: &Obj, args: &Args) -> R<Option<Called>> {
        let ([of], true) = (&args.positional[..], args.keywords.is_empty()) else { return Ok(None) };
        let function = match getter.class_name().as_str() {
            "itemgetter" => "get_items",
            "attrgetter" => "get_attributes",
            "methodcaller" => "call_method",
            _ => return Ok(None),
        };
        if !builtins::is_data_class(&getter.class()) || !(self.is_ours(getter) || self.is_pinned(getter)) {
            return Ok(None);
        }
        let parts = items_of(&Obj::from(getter.bind().call_method0("__reduce__")?));
        // `methodcaller` with named arguments is a partial of itself.
        if parts[0].class_is(types().partial) {
            return Ok(None);
        }
        let known = self.made(parts[1].clone());
        self.call_library(function, vec![of.clone(), known]).map(Some)
    }

    /// What a weak reference from outside refers to, or None if that is gone.
    fn follow_reference(&mut self, reference: &Obj) -> R<Option<Val>> {
        let Origin::Outside(source) = self.origin(reference) else { return Ok(None) };
        let follow = reference.class().attr("__call__")?;
        let value = reference.call(&[], None)?;
        let rec = self.rec.as_mut().expect("an origin is a recording's");
        let source = rec.source(Source::Compute(Key(follow), vec![source]));
        Ok(Some(rec.meet(value, source)))
    }

    fn call_partial(&mut self, partial: &Obj, args: Args) -> R<Called> {
        let function = self.member(partial, "func")?;
        let fixed = self.member(partial, "args")?;
        let named = self.member(partial, "keywords")?;
        let mut positional = self.iterate_all(&fixed)?;
        positional.extend(args.positional);
        let mut keywords = self.mapping_items(&named)?;
        for (key, value) in args.keywords {
            match keywords.iter_mut().find(|(k, _)| k.to_str() == key.to_str()) {
                Some(entry) => entry.1 = value,
                None => keywords.push((key, value)),
            }
        }
        self.call(&function, Args { positional, keywords })
    }

    pub fn has_tensor(&self, args: &Args) -> bool {
        let holds = |value: &Val| !crate::record::tensors_in(&value.obj).is_empty();
        args.positional.iter().any(holds) || args.keywords.iter().any(|(_, value)| holds(value))
    }

    // Python functions.

    pub fn call_function(&mut self, callable: &Val, args: Args) -> R<Called> {
        let function = &callable.obj;
        if let Some(init) = builtins::unpatched_init(function) {
            let init = self.pinned(init);
            return self.call_function(&init, args);
        }
        if let Some(called) = self.call_checkpoint(callable, &args)? {
            return Ok(called);
        }
        if let Some(called) = self.call_marked(callable, &args)? {
            return Ok(called);
        }
        if builtins::is_torch_leaf(function) && self.has_tensor(&args) {
            let callee = wrapped_method(function).map_or_else(|| Shadow::Function(function.clone()), Shadow::Method);
            return self.torch_call(callee, callable, args);
        }
        if builtins::does_nothing(function, || self.has_tensor(&args)) {
            return Ok(Called::Value(Obj::none().into()));
        }
        if let Some(value) = self.fact(function, &args) {
            return Ok(Called::Value(value));
        }
        if let Some(why) = builtins::not_inlined(function) {
            if builtins::looks_at_callers(function) {
                return self.call_from_here(callable, args, &why);
            }
            return self.opaque_call(callable, args, &why);
        }
        let Some(code) = code_info(&function.attr("__code__")?) else {
            let why = "a function of a kind that is not captured";
            return match builtins::looks_at_callers(function) {
                true => self.call_from_here(callable, args, why),
                false => self.opaque_call(callable, args, why),
            };
        };
        if let Some(rec) = self.rec.as_mut().filter(|_| !code.hidden) {
            rec.rely_on_code(function, &code.object);
        }
        if let Some(called) = self.call_known_code(callable, &code.object, &args)? {
            return Ok(called);
        }
        if self.rec.is_some() && self.tree.is_closed(&code.object) {
            let why = format!("a call of {}, in the middle of which nothing can be kept", crate::source::short(function));
            return self.opaque_call(callable, args, &why);
        }
        if self.frames.len() > DEPTH {
            self.give_up("very deep recursion");
            if self.frames.len() > DEPTH + 50 {
                return Err(PyRecursionError::new_err("maximum recursion depth exceeded"));
            }
            return self.call_plainly(callable, &args).map(Called::Value);
        }
        let locals = self.bind(&code, function, args)?;
        let frame = self.new_frame(code, function, locals)?;
        self.frames.push(frame);
        Ok(Called::Pushed)
    }

    pub fn push_frame(&mut self, frame: Frame, after: After) {
        self.frames.push(Frame { after, ..frame });
    }

    // Functions and methods of C.

    fn call_builtin_method(&mut self, callable: &Val, args: Args) -> R<Called> {
        let this = callable.obj.clone();
        if builtins::is_torch(&this) {
            return self.torch_call(Shadow::Function(this), callable, args);
        }
        let (owner, name) = (this.attr("__self__")?, this.attr("__name__")?);
        let is_function = this.class_is(types().builtin) && owner.is_instance_of(types().module);
        if is_function || owner.is_none() {
            return self.call_c_function(callable, args);
        }
        if owner.is_instance_of(types().type_) {
            return self.call_class_builtin(callable, &owner, &name, args);
        }
        let owner = match self.origin(&owner) {
            Origin::Unknown => self.member(&this, "__self__")?,
            _ => owner.into(),
        };
        if self.is_own_generator(&owner.obj) {
            return self.call_generator(&owner, &name, args);
        }
        match type_lookup(&owner.obj.class(), &name) {
            Some(descriptor)
                if descriptor.class_is(types().method_descriptor) || descriptor.class_is(types().wrapper_descriptor) =>
            {
                let descriptor = self.pinned(descriptor);
                self.call_descriptor(&descriptor, args.with_self(owner))
            }
            _ => self.opaque_call(callable, args, &format!("a method {} of C", name)),
        }
    }

    /// `dict.fromkeys`, `object.__new__`, `tuple.__new__`
    fn call_class_builtin(&mut self, callable: &Val, owner: &Obj, name: &Obj, args: Args) -> R<Called> {
        let text = name.to_str().unwrap_or_default();
        if text == "__new__" {
            return self.call_new(callable, owner, args);
        }
        if text == "__call__"
            && callable.obj.attr("__objclass__").quiet().is_some_and(|class| class.ptr() == types().type_.cast())
        {
            return self.instantiate(&owner.clone().into(), args);
        }
        if text == "fromkeys"
            && let Some(called) = self.call_with_list(callable, &args, 0)?
        {
            return Ok(called);
        }
        let moves = args.positional.first().is_some_and(|first| self.is_strange_iterator(&first.obj));
        if text == "fromkeys" && args.positional.first().is_some_and(|first| self.asks_for_members(&first.obj)) {
            return self.opaque_call(callable, args, ASKED);
        }
        if let ("fromkeys", [keys, value], true) = (&*text, &args.positional[..], owner.ptr() == types().dict.cast())
            && self.is_data(&keys.obj)
            && self.stays_free(value)
        {
            let keys = self.iterate_all(keys)?;
            let entries: Vec<(Obj, Val)> = keys.iter().map(|key| (self.as_key(key), value.clone())).collect();
            return self.dict_of(&entries).map(Called::Value);
        }
        if builtins::is_pure_class_method(owner, &text) && !moves {
            return self.pure(&callable.obj, &args.positional, &args.keywords).map(Called::Value);
        }
        self.opaque_call(callable, args, &format!("{}.{text}", owner.class_name()))
    }

    fn call_c_function(&mut self, callable: &Val, args: Args) -> R<Called> {
        let this = callable.obj.clone();
        if builtins::is_pure(&this) && self.is_plain_data(&args) {
            if let Some(value) = self.size_function(&this, &args)? {
                return Ok(Called::Value(value));
            }
            return self.pure(&this, &args.positional, &args.keywords).map(Called::Value);
        }
        if let Some(called) = self.call_by_method(&this, &args)? {
            return Ok(called);
        }
        if let Some(value) = self.call_on_own(&this, &args)? {
            return Ok(Called::Value(value));
        }
        let name = this.attr("__name__").ok().and_then(|n| n.to_str()).unwrap_or_default();
        let rounds = || crate::attr::type_lookup(&args.positional[0].obj.class(), &Obj::str("__round__")).is_some();
        let is_method = name == "abs" || (name == "round" && args.positional.first().is_some_and(|_| rounds()));
        if is_method && args.positional.first().is_some_and(|a| is_tensor(&a.obj)) {
            return self.torch_call(Shadow::Method(Obj::str(&name)), callable, args);
        }
        if builtins::operator_on(&this) || name == "pow" {
            return self.call_operator(&name, callable, args);
        }
        let why = format!("the function {name} of C");
        self.opaque_call(callable, args, &why)
    }

    /// Functions of C that ask a special method of the program's.
    fn call_by_method(&mut self, function: &Obj, args: &Args) -> R<Option<Called>> {
        let name = function.attr("__name__").ok().and_then(|n| n.to_str()).unwrap_or_default();
        if let ("index", [tensor]) = (name.as_str(), &args.positional[..])
            && is_tensor(&tensor.obj)
        {
            return self.index_of_tensor(args).map(Some);
        }
        let Some(first) = args.positional.first().filter(|first| !is_tensor(&first.obj)).cloned() else { return Ok(None) };
        let mut python = |method: &str| self.python_method(&first.obj, method);
        let called = match (name.as_str(), &args.positional[1..]) {
            ("abs", []) => python("__abs__").map(|method| self.call(&method, args.clone())),
            ("round", [] | [_]) => python("__round__").map(|method| self.call(&method, args.clone())),
            ("hash", []) => python("__hash__").map(|method| self.call_library("hashed", vec![method, first])),
            ("pow", [_, _]) => python("__pow__").map(|method| self.call(&method, args.clone())),
            ("index", []) => python("__index__").map(|method| self.call_library("whole", vec![method, first])),
            ("divmod", [second]) => {
                let native = function.clone();
                Some(self.by_methods(&native, "__divmod__", "__rdivmod__", &first, second))
            }
            _ => None,
        };
        called.transpose()
    }

    fn index_of_tensor(&mut self, args: &Args) -> R<Called> {
        const INDEX: &str = "__index__";
        // SAFETY: types live as long as torch.
        let method = unsafe { Obj::borrowed(types().tensor.cast()) }.attr(INDEX)?;
        self.torch_call(Shadow::Method(Obj::str(INDEX)), &method.into(), args.clone())
    }

    /// `operator.add(a, b)` is `a + b`.
    fn call_operator(&mut self, name: &str, callable: &Val, args: Args) -> R<Called> {
        use ox_bytecode::{BinaryOp as B, CompareOp as C};
        if let ([value], Some(op)) = (&args.positional[..], unary_operator(name)) {
            return self.unary(op, value);
        }
        if let ([value], "truth") = (&args.positional[..], name)
            && !is_tensor(&value.obj)
        {
            return Ok(Called::Value(Obj::bool(self.truth(value)?).into()));
        }
        if let ([container, key, value], "setitem") = (&args.positional[..], name) {
            let called = self.store_item(container, key, value.clone())?;
            return Ok(self.as_none(called));
        }
        let [left, right] = &args.positional[..] else {
            return self.opaque_call(callable, args, "an operator of the operator module");
        };
        let binary = match name {
            "imul" => return self.binary(B::Multiply, true, left, right),
            "add" => B::Add,
            "sub" => B::Subtract,
            "mul" => B::Multiply,
            "truediv" => B::TrueDivide,
            "floordiv" => B::FloorDivide,
            "mod" => B::Remainder,
            "matmul" => B::MatrixMultiply,
            "pow" => B::Power,
            "and_" => B::And,
            "or_" => B::Or,
            "xor" => B::Xor,
            "lshift" => B::LeftShift,
            "rshift" => B::RightShift,
            "contains" => return self.contains(left, right, false),
            "is_" => return Ok(Called::Value(Obj::bool(self.is_same(left, right)).into())),
            "is_not" => return Ok(Called::Value(Obj::bool(!self.is_same(left, right)).into())),
            "getitem" => return self.load_item(left, right),
            "delitem" => {
                let called = self.delete_item(left, right)?;
                return Ok(self.as_none(called));
            }
            "eq" => return self.compare(C::Equal, left, right),
            "ne" => return self.compare(C::NotEqual, left, right),
            "lt" => return self.compare(C::Less, left, right),
            "le" => return self.compare(C::LessEqual, left, right),
            "gt" => return self.compare(C::Greater, left, right),
            "ge" => return self.compare(C::GreaterEqual, left, right),
            _ => return self.opaque_call(callable, args, "an operator of the operator module"),
        };
        self.binary(binary, false, left, right)
    }

    /// Nothing in the arguments can run code of the program's.
    pub fn is_plain_data(&self, args: &Args) -> bool {
        args.positional.iter().chain(args.keywords.iter().map(|(_, v)| v)).all(|v| self.is_plain(&v.obj, 4))
    }

    pub(super) fn is_plain(&self, object: &Obj, depth: usize) -> bool {
        let t = types();
        if object.class_is(t.slice) {
            return slice_parts(object).iter().all(|part| !part.class_is(t.slice) && self.is_plain(part, depth));
        }
        if t.is_scalar(object) || t.is_pinnable(object) || t.is_enum(object) {
            return true;
        }
        if depth == 0 {
            return false;
        }
        if self.is_own_array(object) || crate::numpy::is_dtype(object) {
            return true;
        }
        // SAFETY: a live type.
        let built_in = unsafe { ffi::PyType_HasFeature(object.class_ptr(), ffi::Py_TPFLAGS_IMMUTABLETYPE) != 0 };
        if object.class_is(t.object) || object.class_is(t.builtin) {
            return true;
        }
        let in_python = |name: &str| type_lookup(&object.class(), &Obj::str(name)).is_some_and(|f| f.class_is(t.function));
        if object.is_instance_of(t.base_exception)
            && (built_in || !["__str__", "__repr__", "__eq__", "__hash__"].into_iter().any(in_python))
        {
            return object.attr("args").quiet().is_some_and(|args| self.is_plain(&args, depth - 1));
        }
        if [t.list, t.tuple, t.size, t.deque].iter().any(|class| object.class_is(*class)) {
            return items_of(object).iter().all(|item| self.is_plain(item, depth - 1));
        }
        if object.class_is(t.dict) || object.class_is(t.ordered_dict) {
            return entries_of(object).iter().all(|(k, v)| self.is_plain(k, 1) && self.is_plain(v, depth - 1));
        }
        if object.class_is(t.set) || object.class_is(t.frozenset) {
            return object
                .bind()
                .try_iter()
                .quiet()
                .is_some_and(|items| items.flatten().all(|item| self.is_plain(&item.into(), depth - 1)));
        }
        false
    }

    fn are_scalars(&self, args: &Args) -> bool {
        args.keywords.is_empty() && args.positional.iter().all(|arg| types().is_scalar(&arg.obj))
    }

    fn call_descriptor(&mut self, callable: &Val, args: Args) -> R<Called> {
        let this = callable.obj.clone();
        let (Some(owner), Ok(class), Ok(name)) =
            (args.positional.first().cloned(), this.attr("__objclass__"), this.attr("__name__"))
        else {
            return self.opaque_call(callable, args, "a method without an object");
        };
        if let Some(known) = builtins::known(&this) {
            return self.call_known(known, callable, args);
        }
        let text = name.to_str().unwrap_or_default();
        if class.ptr() == types().type_.cast() && text == "__call__" && owner.obj.is_instance_of(types().type_) {
            let args = Args { positional: args.positional[1..].to_vec(), keywords: args.keywords };
            return self.instantiate(&owner, args);
        }
        if builtins::is_tensor_class(&class) {
            if text == "__getitem__" || text == "__setitem__" {
                let operator = text.trim_matches('_').to_string();
                return self.torch_operator(&operator, &args.positional);
            }
            return self.torch_call(Shadow::Method(name), callable, args);
        }
        // `function.__get__(object, class)` is a bound method.
        if text == "__get__"
            && (owner.obj.class_is(types().function) || crate::callable::inner_function(&owner.obj).is_some())
            && let Some(object) = args.positional.get(1).filter(|object| !object.obj.is_none())
        {
            return self.bound(&owner, object).map(Called::Value);
        }
        if is_tensor(&owner.obj) {
            return self.opaque_call(callable, args, &format!("{text} of a tensor"));
        }
        if self.is_own_generator(&owner.obj) {
            let mut args = args;
            args.positional.remove(0);
            return self.call_generator(&owner, &name, args);
        }
        self.call_container_method(callable, &class, &text, args)
    }

    /// What is known of a callable by its identity.
    fn call_known(&mut self, known: Known, callable: &Val, args: Args) -> R<Called> {
        self.builtin_call(known, callable, args)
    }

    /// An entry of a dict that belongs to another object.
    pub fn dict_value(&mut self, dict: &Obj, key: &Obj) -> Option<Val> {
        let found = crate::obj::dict_get(dict, key)?;
        Some(self.found_at(dict, key, found, |of| Source::Value(of, Key(key.clone()))))
    }
}

/// The end of a profiler's range that began while there was a recording, in which such ranges are nothing.
fn ends_what_was_recorded(exit: &Obj) -> bool {
    exit.class_is(types().method)
        && exit.attr("__func__").quiet().is_some_and(|function| builtins::known(&function) == Some(Known::Nothing))
        && exit.attr("__self__").and_then(|range| range.attr("record")).quiet().is_some_and(|record| record.is_none())
}

/// One of NumPy's functions of numbers.
fn is_ufunc(object: &Obj) -> bool {
    let class = object.class();
    object.class_name() == "ufunc"
        && class.attr("__module__").quiet().is_some_and(|module| module.to_str().as_deref() == Some("numpy"))
}

fn unary_operator(name: &str) -> Option<ox_bytecode::UnaryOp> {
    use ox_bytecode::UnaryOp::*;
    match name {
        "neg" => Some(Negative),
        "pos" => Some(Positive),
        "invert" | "inv" => Some(Invert),
        "not_" => Some(Not),
        _ => None,
    }
}

/// The name of the method of C that a function of torch's stands in front of (`Tensor.__pow__`): the text of a graph, by which eager may have to run it, would
/// name it as a part of the module, where it is not.
fn wrapped_method(function: &Obj) -> Option<Obj> {
    let method = function.attr("__wrapped__").quiet().filter(|method| method.class_is(types().method_descriptor))?;
    method.attr("__name__").quiet()
}
