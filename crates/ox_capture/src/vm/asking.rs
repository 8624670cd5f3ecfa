//! What C asks objects in containers: their hashes, whether they are equal, which number they stand for.

use super::{Args, Called, R, Vm};
use crate::attr::{is_as_of_object, type_lookup};
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, entries_of, items_of};
use crate::record::{Val, is_constant, members_of};
use crate::source::generic_attr;
use crate::types::types;
use ox_bytecode::CompareOp;
use ox_ops::surface::Place;
use pyo3::prelude::*;

/// How deep keys are looked into.
const DEPTH: usize = 8;

/// Why a call is made for real.
pub const ASKED: &str = "a set or dict of objects with a hash of their own";

impl Vm {
    /// Whether CPython, to find these in a set or dict, runs code of the program's or reads what nobody has noted. If it does not, those
    /// that are told by their addresses are different ones in later calls, too.
    pub fn asks_for_hashes<'a>(&mut self, keys: impl IntoIterator<Item = &'a Obj>) -> bool {
        self.rec.is_some() && keys.into_iter().any(|key| self.asks_for_hash(key, DEPTH))
    }

    /// A path, a fraction or a date that is the same in every call, or is made of what is.
    pub fn is_known_value(&mut self, object: &Obj) -> bool {
        if !crate::builtins::is_value(object)
            || !(self.is_ours(object) || self.rec.as_ref().is_some_and(|rec| rec.is_pinned(object)))
        {
            return false;
        }
        self.settled(&object.clone().into());
        self.rec.is_some()
    }

    fn asks_for_hash(&mut self, key: &Obj, depth: usize) -> bool {
        if is_constant(key) || self.is_known_value(key) {
            return false;
        }
        if is_by_identity(key) {
            let class = key.class();
            self.recorded(|rec| {
                rec.tell_by_address(key);
                Ok(rec.rely_on_class(&class))
            });
            return false;
        }
        if let Some(parts) = hashed_parts(key) {
            self.know_all(key);
            return depth == 0 || parts.iter().any(|part| self.asks_for_hash(part, depth - 1));
        }
        // CPython has the words for what has none.
        let class = key.class();
        let has_none = type_lookup(&class, &Obj::str("__hash__")).is_none_or(|hash| hash.is_none());
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        !has_none && self.plain_part(key).is_none() && !self.is_own_data(key) && !self.answers_here(key)
    }

    /// An object of this call's, with methods that only look: run by the machine, so that what they read is relied on, they give CPython the
    /// same answers afterwards.
    fn answers_here(&mut self, key: &Obj) -> bool {
        if !self.is_ours(key) {
            return false;
        }
        let methods = (self.python_method(key, "__hash__"), self.python_method(key, "__eq__"));
        let (Some(hash), Some(equal)) = methods else { return false };
        if !is_quiet(key, &[&hash.obj, &equal.obj], DEPTH) {
            return false;
        }
        let depth = self.frames.len();
        let answered = self.hash_and_compare(&hash, key);
        if answered.is_err() && !self.fatal {
            self.frames.truncate(depth);
        }
        answered.is_ok() && self.rec.is_some()
    }

    fn hash_and_compare(&mut self, hash: &Val, key: &Obj) -> R<()> {
        let key: Val = key.clone().into();
        let hash = self.now(|vm| vm.call_library("hashed", vec![hash.clone(), key.clone()]))?;
        let hash: isize = self.settled(&hash).bind().extract()?;
        for other in self.rec.as_mut().map(|rec| rec.hashed_alike(hash, &key.obj)).unwrap_or_default() {
            self.now(|vm| vm.compare(CompareOp::Equal, &other.into(), &key))?;
        }
        Ok(())
    }

    /// An object as a key. What is told by its address is not read: numbers in it stay free.
    pub fn as_key(&mut self, value: &Val) -> Obj {
        if is_by_identity(&value.obj) { value.obj.clone() } else { self.settled(value) }
    }

    /// The same of a key and what it is compared with. What is in a container of this call's was asked when it was put there.
    pub fn asks_to_find(&mut self, container: &Obj, key: &Obj) -> bool {
        if self.asks_for_hashes([key]) {
            return true;
        }
        let is_alone = is_constant(key) || is_by_identity(key) || self.is_ours(container);
        // Values that others have put there are compared without code of the program's.
        !is_alone
            && self
                .members_to_ask(container)
                .iter()
                .any(|member| !crate::builtins::is_value(member) && self.asks_for_hashes([member]))
    }

    /// The same of the members of a set, the keys of a dict, or the items of another iterable.
    pub fn asks_for_members(&mut self, container: &Obj) -> bool {
        let members = self.members_to_ask(container);
        self.asks_for_hashes(&members)
    }

    fn members_to_ask(&self, container: &Obj) -> Vec<Obj> {
        let t = types();
        let is_set = container.is_instance_of(t.set) || container.is_instance_of(t.frozenset);
        let is_sequence = container.is_instance_of(t.list) || container.is_instance_of(t.tuple);
        match container {
            _ if is_set => members_of(container),
            _ if is_sequence => items_of(container),
            _ if container.is_instance_of(t.dict) => entries_of(container).into_iter().map(|(key, _)| key).collect(),
            _ => Vec::new(),
        }
    }

    /// Containers of objects that are compared by methods or addresses of their own. None for other data.
    pub fn compare_containers(&mut self, op: CompareOp, native: &Obj, left: &Val, right: &Val) -> R<Option<Called>> {
        let t = types();
        let (one, other) = (&left.obj, &right.obj);
        if is_told_by_value(one, DEPTH) && is_told_by_value(other, DEPTH) {
            return Ok(None);
        }
        let both =
            |classes: &[crate::types::Type]| [one, other].iter().all(|side| classes.iter().any(|class| side.class_is(*class)));
        let equality = match op {
            CompareOp::Equal => Some(true),
            CompareOp::NotEqual => Some(false),
            _ => None,
        };
        let args = vec![left.clone(), right.clone()];
        if both(&[t.list]) || both(&[t.tuple, t.size]) {
            return match equality {
                Some(true) => self.call_library("equal", args).map(Some),
                Some(false) => self.call_library("unequal", args).map(Some),
                None => self.call_library("ordered", [vec![native.clone().into()], args].concat()).map(Some),
            };
        }
        let are_tables = both(&[t.dict]);
        if (are_tables || both(&[t.set, t.frozenset])) && (self.asks_for_members(one) || self.asks_for_members(other)) {
            return self.opaque_call(&native.clone().into(), Args::positional(args), ASKED).map(Some);
        }
        match equality.filter(|_| are_tables) {
            Some(true) => self.call_library("equal_tables", args).map(Some),
            Some(false) => self.call_library("unequal_tables", args).map(Some),
            None if both(&[t.slice]) => {
                self.opaque_call(&native.clone().into(), Args::positional(args), "a comparison of slices").map(Some)
            }
            None => Ok(None),
        }
    }

    /// Whether an object of a class in C that keeps things does more with these than keep them.
    pub fn asks_what_it_is_given(&mut self, class: &Obj, given: &[Val]) -> bool {
        let name = class.attr("__name__").ok().and_then(|name| name.to_str()).unwrap_or_default();
        match name.as_str() {
            "deque" => given.get(1).is_some_and(|length| self.stands_for_number(&length.obj)),
            "defaultdict" => given.get(1).is_some_and(|entries| self.asks_for_members(&entries.obj)),
            "bytearray" | "array" | "Decimal" | "date" | "datetime" | "time" | "timedelta" => {
                !self.is_plain_data(&Args::positional(given.to_vec()))
            }
            _ => false,
        }
    }

    /// An object that says which number it stands for: by code of the program's, or a tensor, whose value is read.
    pub fn stands_for_number(&self, object: &Obj) -> bool {
        let method = || type_lookup(&object.class(), &Obj::str("__index__"));
        self.rec.is_some()
            && !types().is_scalar(object)
            && !object.is_instance_of(types().int)
            && (super::operators::is_tensor(object) || method().is_some_and(|method| method.class_is(types().function)))
    }

    /// A call of C's that asks one of these arguments for its number where it is such an object, or a slice of them: made again, with the number. None
    /// if none is.
    pub fn call_with_number(&mut self, callable: &Val, args: &Args, places: &[Place<'_>]) -> R<Option<Called>> {
        let asked = |object: &Obj| match object.class_is(types().slice) {
            true => slice_parts(object).iter().any(|part| self.stands_for_number(part)),
            false => self.stands_for_number(object),
        };
        let Some(place) = places.iter().find(|place| args.at(**place).is_some_and(|arg| asked(&arg.obj))) else {
            return Ok(None);
        };
        self.call_with("with_number", callable, args, *place).map(Some)
    }

    /// The same of a call that asks whether an argument is true.
    pub fn call_with_truth(&mut self, callable: &Val, args: &Args, name: &str) -> R<Option<Called>> {
        let place = Place::Keyword(name);
        match args.at(place).is_some_and(|arg| !types().is_scalar(&arg.obj)) {
            true => self.call_with("with_truth", callable, args, place).map(Some),
            false => Ok(None),
        }
    }

    /// A function of the library that makes the call with another argument at this place.
    fn call_with(&mut self, function: &str, callable: &Val, args: &Args, place: Place<'_>) -> R<Called> {
        let place = match place {
            Place::Position(n) => Obj::int(n as i64),
            Place::Keyword(name) => Obj::str(name),
        };
        let (positional, named) = (self.list(&args.positional)?, self.argument_dict(&args.keywords)?);
        self.call_library(function, vec![callable.clone(), positional, named, place.into()])
    }
}

fn is_told_by_value(object: &Obj, depth: usize) -> bool {
    let t = types();
    if is_constant(object) || crate::numpy::is_dtype(object) {
        return true;
    }
    let parts = match object {
        _ if depth == 0 => return false,
        _ if object.class_is(t.slice) => slice_parts(object),
        _ if [t.list, t.tuple, t.size].iter().any(|class| object.class_is(*class)) => items_of(object),
        _ if object.class_is(t.set) || object.class_is(t.frozenset) => members_of(object),
        _ if object.class_is(t.dict) => entries_of(object).into_iter().flat_map(|(key, value)| [key, value]).collect(),
        _ => return false,
    };
    parts.iter().all(|part| is_told_by_value(part, depth - 1))
}

pub fn slice_parts(slice: &Obj) -> Vec<Obj> {
    ["start", "stop", "step"].iter().filter_map(|part| slice.attr(part).quiet()).collect()
}

/// What the hash of an object is made of, where C says so.
fn hashed_parts(object: &Obj) -> Option<Vec<Obj>> {
    let t = types();
    let leaves_to = |base: crate::types::Type| {
        // SAFETY: a type.
        let base = unsafe { Obj::borrowed(base.cast()) };
        ["__hash__", "__eq__"].into_iter().all(|name| {
            let name = Obj::str(name);
            type_lookup(&object.class(), &name).zip(type_lookup(&base, &name)).is_some_and(|(own, plain)| own.is(&plain))
        })
    };
    if object.is_instance_of(t.tuple) && (object.class_is(t.size) || leaves_to(t.tuple)) {
        return Some(items_of(object));
    }
    if object.is_instance_of(t.frozenset) && leaves_to(t.frozenset) {
        return Some(members_of(object));
    }
    object.class_is(t.slice).then(|| slice_parts(object))
}

/// Whether CPython tells objects of the class apart by their addresses alone.
pub fn is_by_identity(object: &Obj) -> bool {
    // SAFETY: a type.
    let base = unsafe { Obj::borrowed(types().object.cast()) };
    let same = |name: &str| {
        let name = Obj::str(name);
        matches!((type_lookup(&object.class(), &name), type_lookup(&base, &name)), (Some(a), Some(b)) if a.is(&b))
    };
    super::operators::is_tensor(object) || (same("__eq__") && same("__hash__"))
}

/// Whether these methods of an object only look, and run no code that may do more: neither to read attributes, nor as methods of what is there.
fn is_quiet(object: &Obj, methods: &[&Obj], depth: usize) -> bool {
    let class = object.class();
    let asks_others = type_lookup(&class, &Obj::str("__getattr__")).is_some() || !is_as_of_object(&class, "__getattribute__");
    if depth == 0 || asks_others {
        return false;
    }
    let is_kept = |name: &Obj| {
        let found = type_lookup(&class, name);
        let is_plain = found.is_none_or(|found| {
            let t = types();
            [t.member, t.getset].iter().any(|kind| found.class_is(*kind))
                || type_lookup(&found.class(), &Obj::str("__get__")).is_none()
        });
        is_plain && generic_attr(object, name).is_none_or(|kept| says_quietly(&kept, depth - 1))
    };
    methods.iter().all(|method| attributes_looked_at(method).is_some_and(|names| names.iter().all(is_kept)))
}

/// Whether hash and equality of an object are told by C alone, or by methods that only look.
fn says_quietly(object: &Obj, depth: usize) -> bool {
    let t = types();
    if is_constant(object) || is_by_identity(object) {
        return true;
    }
    let parts = match object {
        _ if object.is_instance_of(t.list) => Some(items_of(object)),
        _ if object.is_instance_of(t.dict) => {
            Some(entries_of(object).into_iter().flat_map(|(key, value)| [key, value]).collect())
        }
        _ => hashed_parts(object),
    };
    if let Some(parts) = parts {
        return depth > 0 && parts.iter().all(|part| says_quietly(part, depth - 1));
    }
    let methods: Vec<Obj> =
        ["__hash__", "__eq__"].iter().filter_map(|name| type_lookup(&object.class(), &Obj::str(name))).collect();
    let in_python: Vec<&Obj> = methods.iter().filter(|method| method.class_is(t.function)).collect();
    in_python.is_empty() || is_quiet(object, &in_python, depth)
}

/// The attributes that a method reads. None if it stores anything or calls what may.
fn attributes_looked_at(function: &Obj) -> Option<Vec<Obj>> {
    use ox_bytecode::Instruction as I;
    const LOOKING: &[&str] =
        &["abs", "all", "any", "hash", "id", "isinstance", "issubclass", "len", "max", "min", "round", "sum"];
    let code = function.attr("__code__").quiet().and_then(|code| super::code_info(&code))?;
    let found = |name: &Obj| {
        let of = |names: &str| dict_get(&function.attr(names).quiet()?, name);
        of("__globals__").or_else(|| of("__builtins__"))
    };
    let only_looks = |name: &Obj| match found(name) {
        Some(object) if object.class_is(types().builtin) => LOOKING.contains(&name.to_str().unwrap_or_default().as_str()),
        Some(object) => types().is_scalar(&object) || object.is_instance_of(types().type_),
        None => false,
    };
    let looks = code.code.instructions.iter().all(|instruction| match instruction {
        I::LoadGlobal(name) => only_looks(&code.names[name.index()]),
        I::LoadMethod(_) | I::LoadSuperAttr { .. } | I::LoadDeref(_) | I::CallFunctionEx { .. } | I::MakeFunction => false,
        I::StoreAttr(_) | I::StoreSubscr | I::StoreGlobal(_) | I::StoreDeref(_) | I::ImportName(_) | I::ReturnGenerator => false,
        I::DeleteAttr(_) | I::DeleteSubscr | I::DeleteGlobal(_) | I::DeleteDeref(_) => false,
        _ => true,
    });
    let attribute = |instruction: &I| match instruction {
        I::LoadAttr(name) => Some(code.names[name.index()].clone()),
        _ => None,
    };
    looks.then(|| code.code.instructions.iter().filter_map(attribute).collect())
}
