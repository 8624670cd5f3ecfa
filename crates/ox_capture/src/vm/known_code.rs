//! Functions of the standard library, told by their code, that ask what no trace can keep (addresses, caches of weak references), although
//! their result does not depend on it.

use super::{Args, Called, R, Vm};
use crate::found::Found;
use crate::interrupt::Quiet;
use crate::obj::{Obj, items_of, py};
use crate::record::{Origin, Val};
use crate::source::{Source, cell_contents};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

#[derive(Clone, Copy)]
enum KnownCode {
    /// `dispatch` of `functools.singledispatch`
    Dispatch,
    /// What `reprlib.recursive_repr` makes of a function.
    ShownOnce,
}

const CODES: &[(&str, &str, &[&str], KnownCode)] = &[
    ("functools", "singledispatch", &["dispatch"], KnownCode::Dispatch),
    ("reprlib", "recursive_repr", &["decorating_function", "wrapper"], KnownCode::ShownOnce),
    ("dataclasses", "_recursive_repr", &["wrapper"], KnownCode::ShownOnce),
];

/// By the address of the code, which the functions that are looked into hold.
fn known_codes() -> &'static FxHashMap<usize, KnownCode> {
    static KNOWN: Found<FxHashMap<usize, KnownCode>> = Found::new();
    KNOWN.or_find(|| {
        let find = |module: &str, name: &str, path: &[&str]| -> PyResult<Option<Obj>> {
            let code: Obj = py().import(module)?.getattr(name)?.getattr("__code__")?.into();
            Ok(path.iter().try_fold(code, |code, name| inner_code(&code, name)))
        };
        // What this version lacks is called by nobody.
        let found =
            CODES.iter().filter_map(|(module, name, path, known)| Some((find(module, name, path).quiet()??.id(), *known)));
        found.collect()
    })
}

/// The code of a function inside.
fn inner_code(code: &Obj, name: &str) -> Option<Obj> {
    let constants = items_of(&code.attr("co_consts").quiet()?);
    constants
        .into_iter()
        .find(|c| c.class_is(code.class_ptr()) && c.attr("co_name").quiet().is_some_and(|n| n.to_str().as_deref() == Some(name)))
}

impl Vm {
    /// None for all other functions.
    pub fn call_known_code(&mut self, callable: &Val, code: &Obj, args: &Args) -> R<Option<Called>> {
        let Some(known) = known_codes().get(&code.id()) else { return Ok(None) };
        let [first] = &args.positional[..] else { return Ok(None) };
        match known {
            KnownCode::Dispatch => self.dispatch(callable, first),
            KnownCode::ShownOnce => {
                let Some(function) = self.closure_variable(&callable.obj, "user_function")? else { return Ok(None) };
                let fill = self.closure_variable(&callable.obj, "fillvalue")?.unwrap_or_else(|| Obj::str("...").into());
                self.call_shown(&function, &fill, first).map(Some)
            }
        }
    }

    /// The function for a class: all that is registered is relied on, and for abstract classes that no class was registered with one since.
    fn dispatch(&mut self, callable: &Val, class: &Val) -> R<Option<Called>> {
        let (Some(registry), Some(token)) =
            (self.closure_variable(&callable.obj, "registry")?, self.closure_variable(&callable.obj, "cache_token")?)
        else {
            return Ok(None);
        };
        self.known_data(&registry)?;
        let class = self.settled(class);
        if !token.obj.is_none() {
            let ask: Obj = py().import("abc")?.getattr("get_cache_token")?.into();
            let now = ask.call(&[], None)?;
            if let Some(rec) = &mut self.rec {
                rec.rely_on_state(&ask, &[], &now);
            }
        }
        let found = callable.obj.call(&[class], None)?;
        Ok(Some(Called::Value(found.into())))
    }

    /// What a variable of a function's closure holds; None if it has none of this name.
    fn closure_variable(&mut self, function: &Obj, name: &str) -> R<Option<Val>> {
        let names: Vec<String> = function.attr("__code__")?.attr("co_freevars")?.bind().extract()?;
        let Some(place) = names.iter().position(|own| own == name) else { return Ok(None) };
        let cell = items_of(&function.attr("__closure__")?)[place].clone();
        let Some(content) = cell_contents(&cell) else { return Ok(None) };
        if let (Origin::Outside(id), Some(rec)) = (self.origin(function), &mut self.rec) {
            let tuple = rec.source(Source::Member(id, "__closure__"));
            let source = rec.source(Source::Item(tuple, place as u32));
            rec.meet(cell.clone(), source);
        }
        Ok(Some(self.found_at(&cell, &Obj::str("cell_contents"), content, Source::Cell)))
    }
}
