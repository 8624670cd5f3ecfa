//! Whether a function may come to an `autograd.Function` of the program's. Nothing is run for that: what its code names is looked at, and the code
//! that this leads to. Who is found where it is never called, or is not found, costs time or memory, and nothing else.

use crate::attr::type_lookup;
use crate::builtins::is_of_torch;
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, entries_of, items_of};
use crate::source::cell_contents;
use crate::types::types;
use rustc_hash::FxHashSet;

/// A function that leads to more objects than this is not searched to the end.
const MOST: usize = 4096;

pub fn may_have_own_derivative(callable: &Obj) -> bool {
    let mut search = Search { seen: FxHashSet::default(), next: vec![callable.clone()] };
    while let Some(object) = search.next.pop() {
        if search.seen.insert(object.id()) && search.seen.len() < MOST && search.is_one(&object) {
            return true;
        }
    }
    false
}

struct Search {
    /// By address: all of them hang on the callable.
    seen: FxHashSet<usize>,
    next: Vec<Obj>,
}

impl Search {
    /// Whether the object is such a class; if it is another, what it leads to is looked at later.
    fn is_one(&mut self, object: &Obj) -> bool {
        let t = types();
        if object.is_instance_of(t.type_) {
            return object.is_subclass_of(t.autograd_function);
        }
        if object.class_is(t.function) {
            self.follow_function(object);
        } else if object.class_is(t.method) {
            self.follow(object, &["__func__", "__self__"]);
        } else if object.class_is(t.partial) {
            self.follow(object, &["func"]);
        } else if object.is_instance_of(t.nn_module) {
            self.follow_module(object);
        }
        false
    }

    fn follow(&mut self, object: &Obj, members: &[&str]) {
        self.next.extend(members.iter().filter_map(|name| object.attr(name).quiet()));
    }

    fn follow_module(&mut self, module: &Obj) {
        self.next.extend(type_lookup(&module.class(), &Obj::str("forward")));
        let Some(attributes) = module.attr("__dict__").quiet() else { return };
        let values = |dict: &Obj| entries_of(dict).into_iter().map(|(_, value)| value);
        self.next.extend(values(&attributes));
        let inner = dict_get(&attributes, &Obj::str("_modules")).filter(|inner| inner.is_instance_of(types().dict));
        self.next.extend(inner.iter().flat_map(values));
    }

    fn follow_function(&mut self, function: &Obj) {
        let (Ok(code), Ok(globals), Ok(closure)) =
            (function.attr("__code__"), function.attr("__globals__"), function.attr("__closure__"))
        else {
            return;
        };
        if is_of_torch(function) {
            return;
        }
        let names = names_in(&code);
        for found in names.iter().filter_map(|name| dict_get(&globals, name)) {
            // `module.Class.apply`
            if found.class_is(types().module)
                && let Ok(inside) = found.attr("__dict__")
            {
                self.next.extend(names.iter().filter_map(|name| dict_get(&inside, name)));
            }
            self.next.push(found);
        }
        if !closure.is_none() {
            self.next.extend(items_of(&closure).iter().filter_map(cell_contents));
        }
    }
}

/// What the code, and the code inside of it, calls by name.
fn names_in(code: &Obj) -> Vec<Obj> {
    let mut names = code.attr("co_names").map(|names| items_of(&names)).quiet().unwrap_or_default();
    let constants = code.attr("co_consts").map(|constants| items_of(&constants)).quiet().unwrap_or_default();
    let inner = constants.iter().filter(|constant| constant.class_is(types().code));
    names.extend(inner.flat_map(names_in));
    names
}
