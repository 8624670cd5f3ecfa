//! Functions of C that call back into Python, as the machine runs them: written in Python, in `library/`. What is under way in them then
//! stands in frames, and a break may come anywhere inside. Nothing of it is seen by the program: not in tracebacks, and not in what it
//! gets (see NATIVE in `library/iterators.py`).

use super::operators::is_tensor;
use super::{After, Args, Called, Flow, R, Vm};
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, items_of, py};
use crate::record::Val;
use crate::types::types;
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyDict, PyTuple};

/// The file that code of the library names. Its frames are not the user's.
pub const FILE: &str = "<oxytorch>";

/// They share their names. `iterators.py` puts functions of the files above it into its tables.
const SOURCES: [&str; 11] = [
    include_str!("library/calls.py"),
    include_str!("library/builtins.py"),
    include_str!("library/special_methods.py"),
    include_str!("library/containers.py"),
    include_str!("library/texts.py"),
    include_str!("library/matching.py"),
    include_str!("library/iteration.py"),
    include_str!("library/iterators.py"),
    include_str!("library/control.py"),
    include_str!("library/scans.py"),
    include_str!("library/attention.py"),
];

/// The name of the module that its functions say they are of.
pub const MODULE: &str = "oxytorch.library";

struct Library {
    names: Obj,
    stands_for: Obj,
    native: Obj,
    classes: Obj,
}

static LIBRARY: Found<Library> = Found::new();

fn library() -> R<&'static Library> {
    LIBRARY.or_try_find(|| {
        let names = PyDict::new(py());
        names.set_item("__name__", MODULE)?;
        names.set_item("write_unraisable", PyCFunction::new_closure(py(), Some(c"write_unraisable"), None, write_unraisable)?)?;
        let compile = py().import("builtins")?.getattr("compile")?;
        for source in SOURCES {
            let code = compile.call1((source, FILE, "exec"))?;
            py().import("builtins")?.getattr("exec")?.call1((code, &names))?;
        }
        let table = |name: &str| -> R<Obj> { Ok(Obj::from(&names).bind().get_item(name)?.into()) };
        Ok(Library {
            stands_for: table("STANDS_FOR")?,
            native: table("NATIVE")?,
            classes: table("CLASSES")?,
            names: names.into(),
        })
    })
}

/// An exception that has nowhere to go, as CPython reports it: with the method that raised it, if that was one.
fn write_unraisable(args: &Bound<'_, PyTuple>, _: Option<&Bound<'_, PyDict>>) -> R<()> {
    let method = args.get_item(1)?;
    PyErr::from_value(args.get_item(0)?).write_unraisable(args.py(), Some(&method).filter(|method| !method.is_none()));
    Ok(())
}

pub fn function(name: &str) -> R<Obj> {
    Ok(library()?.names.bind().get_item(name)?.into())
}

/// What the machine runs in the place of a callable of C, or of one of torch's that compiles what it is given.
fn stand_in(callable: &Obj) -> Option<Obj> {
    let types = types();
    let is_of = |class: &_| callable.class_is(*class);
    let may_be =
        [types.builtin, types.type_, types.function].iter().any(is_of) || callable.is_instance_of(types.higher_order_operator);
    if may_be { dict_get(&library().quiet()?.stands_for, callable) } else { None }
}

/// What makes the iterator of C that a generator of the library stands for.
pub fn native_of(function: &Obj) -> Option<Obj> {
    dict_get(&library().quiet()?.native, function)
}

/// The class of C that a generator of the library stands for.
pub fn class_of(function: &Obj) -> Option<Obj> {
    dict_get(&library().quiet()?.classes, function)
}

/// Compiles the library once.
pub fn load(_: Python<'_>) -> R<()> {
    library().map(drop)
}

impl Vm {
    /// Runs a function of the library as a frame.
    pub fn call_library(&mut self, name: &str, args: Vec<Val>) -> R<Called> {
        let function = self.pinned(function(name)?);
        self.call_function(&function, Args::positional(args))
    }

    /// None if nothing of the library stands for the callable.
    pub fn call_stand_in(&mut self, callable: &Obj, args: &Args) -> R<Option<Called>> {
        let Some(function) = stand_in(callable) else { return Ok(None) };
        let function = self.pinned(function);
        self.call_function(&function, args.clone()).map(Some)
    }

    /// The question of `by_element` in `library/attention.py`: of what a function made, and of what.
    pub fn is_by_element(&mut self, args: &Args) -> Val {
        let (made, lanes) = (&args.positional[0].obj, items_of(&args.positional[1].obj));
        let is_one = self.rec.as_mut().is_some_and(|rec| rec.is_by_element(made, &lanes));
        Obj::bool(is_one).into()
    }

    /// Whether iteration over it runs code of the program's, in which a break may come.
    pub fn runs_code(&self, object: &Obj) -> bool {
        let t = types();
        if crate::record::is_machine(object) {
            return object.bind().is_instance_of::<super::VmGenerator>() || !self.made_here(object);
        }
        if super::operators::is_tensor(object) {
            return false;
        }
        let python =
            |name: &str| crate::attr::type_lookup(&object.class(), &Obj::str(name)).map(|found| found.class_is(t.function));
        match python("__iter__") {
            Some(in_python) => in_python || python("__next__") == Some(true),
            None => python("__getitem__") == Some(true),
        }
    }

    /// A call of C's whose argument at `place` is an iterable that runs code: made again, with a list. None if it does not.
    pub fn call_with_list(&mut self, callable: &Val, args: &Args, place: usize) -> R<Option<Called>> {
        let Some(iterable) = args.positional.get(place).cloned() else { return Ok(None) };
        if self.rec.is_none() || self.waiting > 0 || !self.runs_code(&iterable.obj) {
            return Ok(None);
        }
        let before = self.tuple(args.positional[..place].to_vec())?;
        let after = self.tuple(args.positional[place + 1..].to_vec())?;
        let names = self.names(&args.keywords)?;
        self.call_library("with_list", vec![callable.clone(), before, iterable, after, names]).map(Some)
    }

    /// Named arguments as a dict of this call's.
    pub fn names(&mut self, keywords: &[(Obj, Val)]) -> R<Val> {
        let names = PyDict::new(py());
        for (name, value) in keywords {
            names.set_item(name.bind(), self.settled(value).bind())?;
        }
        Ok(self.made(names.into()))
    }

    /// Whether a container that grows by it must do so item by item, since it may look at what is there already.
    pub fn grows_by(&self, iterable: &Val) -> bool {
        self.rec.is_some() && self.waiting == 0 && self.runs_code(&iterable.obj)
    }

    /// A list, a deque or a set that grows by an iterable that runs code, which may look at it: each item is there when the next one is asked for.
    pub fn grow_one_by_one(&mut self, callable: &Val, name: &str, args: &Args) -> R<Option<Called>> {
        let [owner, iterable] = &args.positional[..] else { return Ok(None) };
        let grows = match name {
            "extend" | "extendleft" => owner.obj.is_instance_of(types().list) || owner.obj.class_is(types().deque),
            "update" => owner.obj.is_instance_of(types().set),
            _ => false,
        };
        if !grows || !self.grows_by(iterable) {
            return Ok(None);
        }
        self.call_library("grow", vec![callable.clone(), owner.clone(), iterable.clone()]).map(Some)
    }

    /// `items[1:] = values`, where asking for the values runs code or is a call of torch's.
    pub fn store_run(&mut self, items: &Val, places: &Obj, values: &Val) -> R<Option<Called>> {
        let is_run = items.obj.is_instance_of(types().list) && places.class_is(types().slice);
        if !is_run || self.rec.is_none() || self.waiting > 0 || !(is_tensor(&values.obj) || self.runs_code(&values.obj)) {
            return Ok(None);
        }
        self.call_library("store_run", vec![items.clone(), places.clone().into(), values.clone()]).map(Some)
    }

    /// For an instruction with an iterable on top of the stack: if that runs code, the instruction comes again with a list.
    pub fn collect_first(&mut self, limit: Option<usize>) -> R<bool> {
        let top = self.frame().stack.last().cloned().flatten();
        let Some(iterable) = top.filter(|v| self.rec.is_some() && self.runs_code(&v.obj)) else { return Ok(false) };
        self.pop_slot();
        let limit = limit.map_or_else(Obj::none, |limit| Obj::int(limit as i64));
        let called = self.call_library("collect", vec![iterable, limit.into()])?;
        self.again(called)?;
        Ok(true)
    }

    /// The instruction comes again when the frame that was pushed has returned, with its value on the stack.
    pub fn again(&mut self, called: Called) -> R<Flow> {
        match called {
            Called::Pushed => self.frame().after = After::Again,
            Called::Value(value) => {
                self.push(value);
                self.frame().pc -= 1;
            }
        }
        Ok(Flow::Next)
    }

    /// What the frame that was pushed returns is of no interest.
    pub fn drop_result(&mut self, called: Called) {
        if let Called::Pushed = called
            && matches!(self.frame().after, After::Push)
        {
            self.frame().after = After::Drop;
        }
    }

    /// The same in the place of a call that gives None.
    pub fn as_none(&mut self, called: Called) -> Called {
        match called {
            Called::Value(_) => Called::Value(Obj::none().into()),
            Called::Pushed => {
                self.frame().after = After::Nothing;
                Called::Pushed
            }
        }
    }
}
