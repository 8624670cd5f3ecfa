//! Operators, comparisons, truth.

use super::asking::{ASKED, is_by_identity};
use super::{Args, Called, Flow, R, Vm};
use crate::attr::{is_as_of_object, type_lookup};
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::Obj;
use crate::record::{Origin, Val};
use crate::types::types;
use ox_bytecode::{BinaryOp, CompareOp, UnaryOp};
use ox_ops::surface::Place;
use pyo3::prelude::*;

/// The name of the operator module's function, and what stands between the underscores of the special methods.
fn binary_name(op: BinaryOp) -> (&'static str, &'static str) {
    match op {
        BinaryOp::Add => ("add", "add"),
        BinaryOp::And => ("and_", "and"),
        BinaryOp::FloorDivide => ("floordiv", "floordiv"),
        BinaryOp::LeftShift => ("lshift", "lshift"),
        BinaryOp::MatrixMultiply => ("matmul", "matmul"),
        BinaryOp::Multiply => ("mul", "mul"),
        BinaryOp::Remainder => ("mod", "mod"),
        BinaryOp::Or => ("or_", "or"),
        BinaryOp::Power => ("pow", "pow"),
        BinaryOp::RightShift => ("rshift", "rshift"),
        BinaryOp::Subtract => ("sub", "sub"),
        BinaryOp::TrueDivide => ("truediv", "truediv"),
        BinaryOp::Xor => ("xor", "xor"),
    }
}

/// How CPython writes an operator in its complaints.
fn sign_of(name: &str) -> &str {
    match name {
        "add" => "+",
        "and_" => "&",
        "floordiv" => "//",
        "lshift" => "<<",
        "matmul" => "@",
        "mul" => "*",
        "mod" => "%",
        "or_" => "|",
        "pow" => "** or pow()",
        "rshift" => ">>",
        "sub" => "-",
        "truediv" => "/",
        "xor" => "^",
        "divmod" => "divmod()",
        "lt" => "<",
        "le" => "<=",
        "gt" => ">",
        "ge" => ">=",
        "iadd" => "+=",
        "iand" => "&=",
        "ifloordiv" => "//=",
        "ilshift" => "<<=",
        "imatmul" => "@=",
        "imul" => "*=",
        "imod" => "%=",
        "ior" => "|=",
        "ipow" => "**=",
        "irshift" => ">>=",
        "isub" => "-=",
        "itruediv" => "/=",
        "ixor" => "^=",
        other => other,
    }
}

/// The comparison, its special method, and the one of the other side.
fn compare_name(op: CompareOp) -> (&'static str, &'static str, &'static str) {
    match op {
        CompareOp::Less => ("lt", "__lt__", "__gt__"),
        CompareOp::LessEqual => ("le", "__le__", "__ge__"),
        CompareOp::Equal => ("eq", "__eq__", "__eq__"),
        CompareOp::NotEqual => ("ne", "__ne__", "__ne__"),
        CompareOp::Greater => ("gt", "__gt__", "__lt__"),
        CompareOp::GreaterEqual => ("ge", "__ge__", "__le__"),
    }
}

pub fn is_tensor(object: &Obj) -> bool {
    is_lazy(object) || types().is_tensor(object)
}

impl Vm {
    /// A method of the class that is written in Python.
    pub fn python_method(&mut self, object: &Obj, name: &str) -> Option<Val> {
        let class = object.class();
        let found = type_lookup(&class, &Obj::str(name)).filter(|f| f.class_is(types().function))?;
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        Some(self.pinned(found))
    }

    pub fn is_data(&self, object: &Obj) -> bool {
        let t = types();
        let containers = [t.list, t.tuple, t.dict, t.set, t.frozenset, t.size, t.slice];
        t.is_scalar(object) || containers.iter().any(|c| object.class_is(*c))
    }

    pub fn unary(&mut self, op: UnaryOp, value: &Val) -> R<Called> {
        let (function, method) = match op {
            UnaryOp::Not => {
                let truth = self.truth(value)?;
                return Ok(Called::Value(Obj::bool(!truth).into()));
            }
            UnaryOp::Negative => ("neg", "__neg__"),
            UnaryOp::Positive => ("pos", "__pos__"),
            UnaryOp::Invert => ("invert", "__invert__"),
        };
        let native = self.operator(function)?;
        if self.rec.is_none() {
            return Ok(Called::Value(native.call(std::slice::from_ref(&value.obj), None)?.into()));
        }
        if is_tensor(&value.obj) {
            return self.torch_operator(function, std::slice::from_ref(value));
        }
        if self.is_own_array(&value.obj) {
            return self.on_arrays(&native, &Args::positional(vec![value.clone()])).map(Called::Value);
        }
        if self.is_data(&value.obj) {
            return self.pure_call(function, std::slice::from_ref(value)).map(Called::Value);
        }
        match self.python_method(&value.obj, method) {
            Some(method) => self.call(&method, Args::positional(vec![value.clone()])),
            None => self.opaque_call(&native.into(), Args::positional(vec![value.clone()]), "an operator of a class in C"),
        }
    }

    pub fn binary(&mut self, op: BinaryOp, in_place: bool, left: &Val, right: &Val) -> R<Called> {
        let (name, method) = binary_name(op);
        let function = if in_place { format!("i{}", name.trim_end_matches('_')) } else { name.to_string() };
        let native = self.operator(&function)?;
        if self.rec.is_none() {
            return Ok(Called::Value(native.call(&[left.obj.clone(), right.obj.clone()], None)?.into()));
        }
        if (is_tensor(&left.obj) || is_tensor(&right.obj)) && !self.is_objects_business(method, in_place, left, right) {
            return self.torch_operator(&function, &[left.clone(), right.clone()]);
        }
        let is_text = left.obj.class_is(types().str) || left.obj.class_is(types().bytes);
        if name == "mod" && is_text && !self.is_plain_data(&Args::positional(vec![right.clone()])) {
            return self.fill_in(&native, left, right);
        }
        if self.is_data(&left.obj) && self.is_data(&right.obj) {
            return self.data_operator(name, &function, in_place, left, right);
        }
        let is_asked = crate::attr::type_lookup(&right.obj.class(), &Obj::str("__radd__")).is_some();
        if function == "iadd" && left.obj.class_is(types().list) && !is_asked {
            return self.call_library("extended", vec![left.clone(), right.clone()]);
        }
        let (forward, reflected) = (format!("__{method}__"), format!("__r{method}__"));
        self.by_methods(&native, &forward, &reflected, left, right)
    }

    fn data_operator(&mut self, name: &str, function: &str, in_place: bool, left: &Val, right: &Val) -> R<Called> {
        if name == "add"
            && let Some(joined) = self.joined_sizes(&left.obj, &right.obj, in_place)?
        {
            return Ok(Called::Value(joined));
        }
        if function == "mul"
            && let Some(repeated) = self.repeated_sizes(left, right)?
        {
            return Ok(Called::Value(repeated));
        }
        if function == "iadd" && self.extend_by_sizes(left, right)? {
            return Ok(Called::Value(left.clone()));
        }
        let t = types();
        let hashes = |side: &Val| [t.set, t.frozenset, t.dict].iter().any(|class| side.obj.class_is(*class));
        if hashes(left) && hashes(right) && (self.asks_for_members(&left.obj) || self.asks_for_members(&right.obj)) {
            let native = self.operator(function)?;
            return self.opaque_call(&native.into(), Args::positional(vec![left.clone(), right.clone()]), ASKED);
        }
        if name == "or_"
            && let Some(joined) = self.joined_dicts(left, right, in_place)?
        {
            return Ok(Called::Value(joined));
        }
        let changes = in_place && [t.list, t.set, t.dict].iter().any(|c| left.obj.class_is(*c));
        if !changes {
            return self.pure_call(name, &[left.clone(), right.clone()]).map(Called::Value);
        }
        if matches!(self.origin(&left.obj), Origin::Made) {
            let right = self.known_data(right)?;
            if let Some(rec) = &mut self.rec {
                rec.forget_places(&left.obj);
            }
            let result = self.operator(function)?.call(&[left.obj.clone(), right], None)?;
            return Ok(Called::Value(result.into()));
        }
        let right = self.known_data(right)?;
        if self.rec.is_some() {
            self.note(&format!("operator.{function}"), vec![left.clone(), right.clone().into()])?;
            if let Some(rec) = &mut self.rec {
                rec.mark_opaque(&left.obj);
            }
        }
        let result = self.operator(function)?.call(&[left.obj.clone(), right], None)?;
        Ok(Called::Value(result.into()))
    }

    /// `left | right` of dicts of which one has numbers that vary. None of any others.
    fn joined_dicts(&mut self, left: &Val, right: &Val, in_place: bool) -> R<Option<Val>> {
        let are_dicts = [left, right].iter().all(|side| side.obj.class_is(types().dict));
        let is_free = |side: &Val| self.rec.as_ref().is_some_and(|rec| rec.has_stowed(&side.obj));
        if !are_dicts || !(is_free(left) || is_free(right)) {
            return Ok(None);
        }
        let more = self.mapping_items(right)?;
        if in_place {
            for (key, value) in more {
                self.now(|vm| vm.store_item(left, &key.into(), value))?;
            }
            return Ok(Some(left.clone()));
        }
        let entries = [self.mapping_items(left)?, more].concat();
        self.dict_of(&entries).map(Some)
    }

    /// By the special methods of both sides, the right one's first if it is of a subclass.
    pub fn by_methods(&mut self, native: &Obj, forward: &str, reflected: &str, left: &Val, right: &Val) -> R<Called> {
        if forward == "__ne__"
            && let Some(called) = self.unlike(left, right)?
        {
            return Ok(called);
        }
        let name = native.attr("__name__").ok().and_then(|n| n.to_str()).unwrap_or_default();
        // A tensor leaves it to the other side.
        let own = if is_tensor(&left.obj) { None } else { self.python_method(&left.obj, forward) };
        let other = match left.obj.class_ptr() == right.obj.class_ptr() && reflected.starts_with("__r") {
            true => None,
            false => self.python_method(&right.obj, reflected),
        };
        let in_place = match name.strip_prefix('i') {
            Some(method) => self.python_method(&left.obj, &format!("__i{method}__")),
            None => None,
        };
        let nobody = own.is_none() && other.is_none() && in_place.is_none();
        if nobody && is_hint(&left.obj) && is_hint(&right.obj) {
            let made = native.call(&[left.obj.clone(), right.obj.clone()], None)?;
            return Ok(Called::Value(self.pinned(made)));
        }
        if nobody {
            let args = Args::positional(vec![left.clone(), right.clone()]);
            let t = types();
            if left.obj.class_is(t.method) && right.obj.class_is(t.method) && matches!(forward, "__eq__" | "__ne__") {
                return self.same_methods(left, right, forward == "__eq__");
            }
            if forward == "__add__" && left.obj.is_instance_of(t.tuple) && right.obj.is_instance_of(t.tuple) {
                return self.pure(native, &[left.clone(), right.clone()], &[]).map(Called::Value);
            }
            if let Some([one, other]) = self.plain_parts(&left.obj, &right.obj) {
                [left, right].into_iter().for_each(|value| drop(self.settled(value)));
                let (left, right) = (one, other);
                return self.pure(native, &[left.into(), right.into()], &[]).map(Called::Value);
            }
            if forward == "__mul__" {
                let mut places = Vec::new();
                if is_repeated_by_c(&left.obj) {
                    places.push(Place::Position(1));
                }
                // What stands on the left of `*=` takes no number on its right.
                if is_repeated_by_c(&right.obj) && name != "imul" {
                    places.push(Place::Position(0));
                }
                if let Some(called) = self.call_with_number(&native.clone().into(), &args, &places)? {
                    return Ok(called);
                }
            }
            let changes = name.starts_with('i') && matches!(self.origin(&left.obj), Origin::Outside(_));
            let is_comparison = matches!(name.as_str(), "eq" | "ne" | "lt" | "le" | "gt" | "ge");
            if !is_comparison && [left, right].into_iter().any(|side| crate::builtins::is_by_settings(&side.obj)) {
                return self.opaque_call(&native.clone().into(), args, "an operator of decimals");
            }
            let are_known = [left, right].into_iter().all(|side| self.is_operand_of_c(&side.obj)) && !changes;
            if are_known || self.asks_nobody(&left.obj) && self.asks_nobody(&right.obj) {
                let objects = [self.known_data(left)?, self.known_data(right)?];
                for object in &objects {
                    self.know_viewed(object);
                }
                let result = native.call(&objects, None)?;
                return Ok(Called::Value(self.made_or_known(result)));
            }
            return self.opaque_call(&native.clone().into(), args, "an operator of a class in C");
        }
        let own = own.or_else(|| self.c_method(&left.obj, forward, &right.obj));
        // Of one class only comparisons are asked of both sides.
        let other = match left.obj.class_ptr() == right.obj.class_ptr() && reflected.starts_with("__r") {
            true => other,
            false => other.or_else(|| self.c_method(&right.obj, reflected, &left.obj)),
        };
        // Of operators CPython asks a subclass first only if that has a method of its own.
        let is_first = || !reflected.starts_with("__r") || overrides(&right.obj, &left.obj, reflected);
        let other_first = other.is_some() && is_of_subclass(&right.obj, &left.obj) && is_first();
        let mut tries = vec![(own, [left.clone(), right.clone()]), (other, [right.clone(), left.clone()])];
        if other_first {
            tries.reverse();
        }
        tries.insert(0, (in_place, [left.clone(), right.clone()]));
        let mut list = Vec::new();
        for (method, [one, other]) in tries {
            if let Some(method) = method {
                list.push(self.tuple(vec![method, one, other])?);
            }
        }
        let tries = self.tuple(list)?;
        if name == "eq" {
            return self.call_library("compare", vec![tries, left.clone(), right.clone()]);
        }
        let t = types();
        let is_row = |side: &&Val| [t.list, t.tuple, t.str, t.bytes].iter().any(|class| side.obj.class_is(*class));
        // What stands on the left of `*=` is changed, or takes no number on its right.
        let rows: &[&Val] = if name == "imul" { &[left] } else { &[left, right] };
        if let (true, Some(row)) = (forward == "__mul__", rows.iter().copied().find(is_row)) {
            let number = if std::ptr::eq(row, left) { right } else { left };
            let repeat = native.clone().into();
            return self.call_library("operate_or_repeat", vec![tries, repeat, row.clone(), number.clone()]);
        }
        let (mine, other) = (left.obj.class_name(), right.obj.class_name());
        let complaint = match name.as_str() {
            "lt" | "le" | "gt" | "ge" => {
                format!("'{}' not supported between instances of '{mine}' and '{other}'", sign_of(&name))
            }
            _ => format!("unsupported operand type(s) for {}: '{mine}' and '{other}'", sign_of(&name)),
        };
        self.call_library("operate", vec![tries, Obj::str(&complaint).into()])
    }

    /// The operator of a class in C that knows what to do with the other side: it is an array, or the other is of a class of the program's that has a base in C.
    /// What joins or repeats sequences comes behind all others, which know nothing of those that are no such sequence.
    fn c_method(&mut self, object: &Obj, name: &str, other: &Obj) -> Option<Val> {
        let class = object.class();
        let found = type_lookup(&class, &Obj::str(name)).filter(|method| method.class_is(types().wrapper_descriptor))?;
        let is_of_sequences = matches!(name, "__add__" | "__mul__" | "__rmul__") && is_sequence(object);
        let knows = match is_of_sequences {
            true => name == "__add__" && other.is_instance_of(object.class_ptr()),
            // A decimal knows what a fraction is.
            false => crate::numpy::takes_objects(object) || has_base_in_c(other) || crate::builtins::is_by_settings(object),
        };
        if !knows || is_as_of_object(&class, name) {
            return None;
        }
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        Some(self.pinned(found))
    }

    /// `left != right`, by methods of the program's. Where a class has none for this, `object` asks whether they are equal.
    fn unlike(&mut self, left: &Val, right: &Val) -> R<Option<Called>> {
        let (mut tries, mut is_asked) = (Vec::new(), false);
        for (one, other) in [(left, right), (right, left)] {
            let is_left_out = is_as_of_object(&one.obj.class(), "__ne__");
            let method = self.python_method(&one.obj, if is_left_out { "__eq__" } else { "__ne__" });
            is_asked |= method.is_some();
            if let Some(method) = method.or_else(|| self.c_method(&one.obj, "__ne__", &other.obj)) {
                tries.push(self.tuple(vec![method, one.clone(), other.clone(), Obj::bool(is_left_out).into()])?);
            }
        }
        if !is_asked {
            return Ok(None);
        }
        if is_of_subclass(&right.obj, &left.obj) {
            tries.reverse();
        }
        let tries = self.tuple(tries)?;
        self.call_library("unlike", vec![tries, left.clone(), right.clone()]).map(Some)
    }

    /// The number or text in an object of a class of the program's that leaves operators to its base.
    pub fn plain_part(&self, object: &Obj) -> Option<Obj> {
        self.rec.as_ref().and_then(|rec| rec.plain_part(object))
    }

    /// Of two operands, one of which is such an object.
    fn plain_parts(&self, left: &Obj, right: &Obj) -> Option<[Obj; 2]> {
        let part = |object: &Obj| self.plain_part(object).or_else(|| types().is_scalar(object).then(|| object.clone()));
        let has_own = self.plain_part(left).is_some() || self.plain_part(right).is_some();
        if has_own { Some([part(left)?, part(right)?]) } else { None }
    }

    /// Bound methods are the same if their objects and their functions are.
    fn same_methods(&mut self, left: &Val, right: &Val, equal: bool) -> R<Called> {
        let mut same = true;
        for part in ["__self__", "__func__"] {
            let (mine, other) = (self.member(&left.obj, part)?, self.member(&right.obj, part)?);
            same &= self.is_same(&mine, &other);
        }
        Ok(Called::Value(Obj::bool(same == equal).into()))
    }

    /// Whether operators on the object run no code of the program's: data, or an instance whose class defines none.
    fn asks_nobody(&self, object: &Obj) -> bool {
        let t = types();
        let is_view = [t.dict_keys, t.dict_items].iter().any(|class| object.is_instance_of(*class));
        self.is_plain_data(&Args::positional(vec![object.clone().into()]))
            || (is_view && self.rec.as_ref().is_some_and(|rec| rec.viewed(object).is_some()))
            || (crate::record::is_python_instance(object) && !is_tensor(object) && !self.runs_code(object) && !has_keys(object))
    }

    /// A path, a fraction or a number, or a set of a class of the program's that leaves operators to its base: C does what it does with it without a word of
    /// the program's.
    fn is_operand_of_c(&mut self, object: &Obj) -> bool {
        let t = types();
        if t.is_scalar(object) || self.is_known_value(object) {
            return true;
        }
        let is_set = [t.set, t.frozenset].iter().any(|base| object.is_instance_of(*base));
        is_set && !self.runs_code(object) && !self.asks_for_members(object)
    }

    /// A tuple with names, or of another class of the program's that leaves comparisons to its base.
    fn is_compared_as_tuple(&self, object: &Obj) -> bool {
        let names = ["__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__iter__", "__len__"];
        let is_plain = object.class_is(types().tuple) || object.class_is(types().size);
        object.is_instance_of(types().tuple) && !is_plain && names.iter().all(|name| self.uses_slot(object, name, types().tuple))
    }

    fn as_tuple(&mut self, value: &Val) -> R<Val> {
        if !self.is_compared_as_tuple(&value.obj) {
            return Ok(value.clone());
        }
        let class = value.obj.class();
        self.recorded(|rec| Ok(rec.rely_on_class(&class)));
        let items = self.iterate_all(value)?;
        self.tuple(items)
    }

    fn know_viewed(&mut self, object: &Obj) {
        if let Some(dict) = self.rec.as_ref().and_then(|rec| rec.viewed(object)) {
            self.know_all(&dict);
        }
    }

    pub fn compare(&mut self, op: CompareOp, left: &Val, right: &Val) -> R<Called> {
        let (function, forward, reflected) = compare_name(op);
        let native = self.operator(function)?;
        if self.rec.is_none() {
            return Ok(Called::Value(native.call(&[left.obj.clone(), right.obj.clone()], None)?.into()));
        }
        let t = types();
        if is_tensor(&left.obj) || is_tensor(&right.obj) {
            let by_identity = |o: &Obj| o.is_none() || o.class_is(t.str);
            if (by_identity(&left.obj) || by_identity(&right.obj)) && (function == "eq" || function == "ne") {
                return Ok(Called::Value(Obj::bool(function == "ne").into()));
            }
            return self.torch_operator(function, &[left.clone(), right.clone()]);
        }
        if let Some(answer) = self.compare_sizes(op, &left.obj, &right.obj)? {
            return Ok(Called::Value(Obj::bool(answer).into()));
        }
        let named = [left, right].map(|side| self.is_compared_as_tuple(&side.obj));
        let is_tuple = |n: usize, side: &Val| named[n] || side.obj.class_is(t.tuple) || side.obj.class_is(t.size);
        if named.contains(&true) && is_tuple(0, left) && is_tuple(1, right) {
            let (left, right) = (self.as_tuple(left)?, self.as_tuple(right)?);
            return self.compare(op, &left, &right);
        }
        let is_fixed = |vm: &Vm, o: &Obj| t.is_pinnable(o) || t.is_enum(o) || vm.is_data(o);
        if is_fixed(self, &left.obj) && is_fixed(self, &right.obj) {
            if let Some(called) = self.compare_containers(op, &native, left, right)? {
                return Ok(called);
            }
            return self.pure_call(function, &[left.clone(), right.clone()]).map(Called::Value);
        }
        let plain_eq = |o: &Obj| {
            // SAFETY: a type.
            let object = unsafe { Obj::borrowed(t.object.cast()) };
            let eq = Obj::str("__eq__");
            t.is_scalar(o) || matches!((type_lookup(&o.class(), &eq), type_lookup(&object, &eq)), (Some(a), Some(b)) if a.is(&b))
        };
        let is_left_out = |o: &Obj| t.is_scalar(o) || op == CompareOp::Equal || is_as_of_object(&o.class(), "__ne__");
        let is_plain = |o: &Obj| plain_eq(o) && is_left_out(o);
        if matches!(op, CompareOp::Equal | CompareOp::NotEqual) && is_plain(&left.obj) && is_plain(&right.obj) {
            let same = self.is_same(left, right);
            return Ok(Called::Value(Obj::bool(same == (op == CompareOp::Equal)).into()));
        }
        self.by_methods(&native, forward, reflected, left, right)
    }

    pub fn is_same(&mut self, left: &Val, right: &Val) -> bool {
        match &mut self.rec {
            Some(rec) => rec.is_same(left, right),
            None => left.obj.is(&right.obj),
        }
    }

    pub fn op_contains(&mut self, negated: bool) -> R<Flow> {
        let (container, item) = (self.pop(), self.pop());
        let called = self.contains(&container, &item, negated)?;
        self.take(called)
    }

    /// `item in container`, or `not in`.
    pub fn contains(&mut self, container: &Val, item: &Val, negated: bool) -> R<Called> {
        let answer = |found: bool| Ok(Called::Value(Obj::bool(found != negated).into()));
        let this = &container.obj;
        if self.rec.is_none() {
            return answer(this.bind().contains(item.obj.bind())?);
        }
        let t = types();
        if is_tensor(this) {
            return self.contains_for_real(container, item, negated, "`in` of a tensor");
        }
        if this.is_instance_of(t.dict) && self.uses_slot(this, "__contains__", t.dict) {
            if let Some(found) = self.size_among_keys(container, item)? {
                return answer(found);
            }
            let key = self.as_key(item);
            if self.is_fixed_key(&key) {
                return answer(self.dict_contains(this, &key)?);
            }
            if let Some(found) = self.find_key(this, &key) {
                return answer(found.is_some());
            }
        }
        if let Some(method) = self.python_method(this, "__contains__") {
            let name = if negated { "asked_not" } else { "asked" };
            return self.call_library(name, vec![method, container.clone(), item.clone()]);
        }
        let shows_keys = this.is_instance_of(t.dict_keys) || this.class_is(t.mapping_proxy);
        if let Some(dict) = self.rec.as_ref().and_then(|rec| rec.viewed(this)).filter(|_| shows_keys) {
            return self.contains(&dict.into(), item, negated);
        }
        let both = Args::positional(vec![container.clone(), item.clone()]);
        let is_hashed = [t.set, t.frozenset, t.dict].iter().any(|class| this.class_is(*class));
        if is_hashed && self.asks_to_find(this, &item.obj) {
            return self.contains_for_real(container, item, negated, ASKED);
        }
        let is_own_set = self.is_ours(this) && [t.set, t.frozenset].iter().any(|base| this.is_instance_of(*base));
        if is_own_set && !self.runs_code(this) && !self.asks_to_find(this, &item.obj) {
            let item = self.as_key(item);
            return answer(this.bind().contains(item.bind())?);
        }
        if is_hashed && self.is_ours(this) && is_by_identity(&item.obj) {
            return answer(this.bind().contains(item.obj.bind())?);
        }
        let is_data = self.is_data(this) || t.is_pinnable(this) || this.class_is(t.mapping_proxy);
        let compares = [t.list, t.tuple, t.size].iter().any(|class| this.class_is(*class));
        if is_data && (!compares || self.is_plain_data(&both) && !self.compares_sizes(&both)) {
            let value = self.pure_call("contains", &[container.clone(), item.clone()])?;
            return answer(value.obj.truth()?);
        }
        let is_sequence = [t.list, t.tuple, t.deque].iter().any(|class| this.is_instance_of(*class));
        if is_sequence || self.is_iterable_here(this) || self.runs_code(this) {
            let name = if negated { "lacks" } else { "contains" };
            return self.call_library(name, vec![container.clone(), item.clone()]);
        }
        self.contains_for_real(container, item, negated, "`in` of a class in C")
    }

    fn contains_for_real(&mut self, container: &Val, item: &Val, negated: bool, why: &str) -> R<Called> {
        let function = if negated { super::library::function("is_not_in")? } else { self.operator("contains")? };
        self.opaque_call(&function.into(), Args::positional(vec![container.clone(), item.clone()]), why)
    }

    /// Looks for a key that is compared by identity (tensors, objects without `__eq__`) in a dict of this call's. None if another kind
    /// of key or dict is at hand.
    pub fn find_key(&mut self, dict: &Obj, key: &Obj) -> Option<Option<Obj>> {
        const FEW: usize = 64;
        let is_ours = self.origin(dict) == Origin::Made || self.rec.as_ref().is_some_and(|rec| rec.is_whole(dict));
        let entries = crate::obj::entries_of(dict);
        if !is_ours || !is_by_identity(key) || entries.len() > FEW {
            return None;
        }
        let mut found = None;
        for (other, value) in entries {
            if is_by_identity(&other) && self.is_same(&other.into(), &key.clone().into()) {
                found = Some(value);
            }
        }
        Some(found)
    }

    /// A size is compared with each of a few numbers (the milestones of a schedule): which it is, is not relied on.
    fn size_among_keys(&mut self, dict: &Val, size: &Val) -> R<Option<bool>> {
        const FEW: usize = 16;
        let keys = crate::obj::entries_of(&dict.obj);
        if !self.is_size(size) || keys.len() > FEW || !keys.iter().all(|(key, _)| key.class_is(types().int)) {
            return Ok(None);
        }
        for key in self.iterate_all(dict)? {
            let same = self.pure_call("eq", &[key, size.clone()])?;
            if self.truth(&same)? {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    fn dict_contains(&mut self, dict: &Obj, key: &Obj) -> R<bool> {
        match crate::obj::dict_get(dict, key) {
            Some(_) => {
                self.recorded(|rec| rec.check_has_key(dict, key));
                Ok(true)
            }
            None => {
                self.recorded(|rec| rec.check_no_key(dict, key));
                Ok(false)
            }
        }
    }

    /// `bool(value)`.
    pub fn truth(&mut self, value: &Val) -> R<bool> {
        let object = &value.obj;
        if self.rec.is_none() {
            return object.truth();
        }
        let t = types();
        if is_tensor(object) {
            let value = self.opaque_now("truth", std::slice::from_ref(value), "the truth of a tensor")?;
            let settled = self.settled(&value);
            return settled.truth();
        }
        if t.is_scalar(object) {
            return self.scalar_truth(value);
        }
        let counted = [t.list, t.tuple, t.dict, t.set, t.frozenset, t.deque];
        if counted.iter().any(|c| object.is_instance_of(*c)) && !self.overrides_truth(object) {
            self.know_emptiness(object);
            return object.truth();
        }
        if t.is_pinnable(object) || t.is_enum(object) || self.is_own_array(object) {
            return object.truth();
        }
        if let Some(called) = self.truth_by_method(value)? {
            let answer = match called {
                Called::Value(answer) => answer,
                Called::Pushed => self.finish_pushed()?,
            };
            return self.truth(&answer);
        }
        let class = object.class();
        let has = |name: &str| type_lookup(&class, &Obj::str(name)).is_some();
        if !has("__bool__") && !has("__len__") {
            self.recorded(|rec| Ok(rec.rely_on_class(&class)));
            return Ok(true);
        }
        let answer = self.opaque_now("truth", std::slice::from_ref(value), "the truth of a class in C")?;
        let settled = self.settled(&answer);
        settled.truth()
    }

    /// `__bool__` or `__len__` of the program's. None if it has neither.
    pub fn truth_by_method(&mut self, value: &Val) -> R<Option<Called>> {
        if self.rec.is_none() || is_tensor(&value.obj) || types().is_scalar(&value.obj) {
            return Ok(None);
        }
        if let Some(method) = self.python_method(&value.obj, "__bool__") {
            return self.call_library("truth", vec![method, value.clone()]).map(Some);
        }
        match self.python_method(&value.obj, "__len__") {
            Some(_) => self.call_library("truth_by_length", vec![value.clone()]).map(Some),
            None => Ok(None),
        }
    }

    fn overrides_truth(&self, object: &Obj) -> bool {
        let python = |name: &str| type_lookup(&object.class(), &Obj::str(name)).is_some_and(|f| f.class_is(types().function));
        python("__bool__") || python("__len__")
    }

    /// A number's truth is relied on, not its value.
    fn scalar_truth(&mut self, value: &Val) -> R<bool> {
        if value.free.is_some() {
            let answer = self.pure_call("truth", std::slice::from_ref(value))?;
            return answer.obj.truth();
        }
        self.settled(value).truth()
    }

    fn know_emptiness(&mut self, object: &Obj) {
        let Origin::Outside(id) = self.origin(object) else { return };
        let object = object.clone();
        let Some(truth) = self.operator("truth").quiet() else { return };
        self.recorded(|rec| rec.check_pure(&truth, &[id], &object, &Obj::bool(object.truth().quiet().unwrap_or(true))));
    }
}

/// A class, or what stands for one in a type hint: `int | None`, `list[int]`.
fn is_hint(object: &Obj) -> bool {
    let t = types();
    object.is_none() || object.is_instance_of(t.type_) || object.class_is(t.union) || object.class_is(t.generic_alias)
}

/// A mapping, to whoever asks.
fn has_keys(object: &Obj) -> bool {
    type_lookup(&object.class(), &Obj::str("keys")).is_some()
}

/// Whether it has the parts of a type of C's other than `object`.
fn has_base_in_c(object: &Obj) -> bool {
    crate::record::built_in_base(&object.class()).is_some_and(|base| base.ptr() != types().object.cast())
}

fn is_sequence(object: &Obj) -> bool {
    let t = types();
    [t.list, t.tuple, t.str, t.bytes, t.deque].iter().any(|class| object.is_instance_of(*class))
}

/// Whether the two classes have different methods of this name.
fn overrides(object: &Obj, base: &Obj, name: &str) -> bool {
    let method = |of: &Obj| type_lookup(&of.class(), &Obj::str(name)).map(|method| method.id());
    method(object) != method(base)
}

/// A row of C's, which is as often as a number says.
fn is_repeated_by_c(object: &Obj) -> bool {
    // SAFETY: a live type; its slots live as long.
    unsafe { (*object.class_ptr()).tp_as_sequence.as_ref() }.is_some_and(|slots| slots.sq_repeat.is_some())
}

fn is_of_subclass(object: &Obj, base: &Obj) -> bool {
    object.class_ptr() != base.class_ptr() && object.is_instance_of(base.class_ptr())
}
