//! `functools.lru_cache`. Its function runs where the program calls it and the cache has nothing, and nowhere else: where arguments are
//! constants of the trace, later calls look for the result where the cache keeps it, and count as hits. Other calls are made for real, between
//! two graphs.

use super::native::keywords;
use super::operators::is_tensor;
use super::reading::Read;
use super::{Args, Called, R, Vm};
use crate::attr::is_as_of_object;
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, tuple_of};
use crate::record::{Origin, Recording, Val};
use crate::source::{Key, Source};
use crate::types::types;
use pyo3::ffi;
use std::ffi::{c_int, c_void};

/// How deep tuples among the arguments may be.
const DEPTH: usize = 4;

/// The dict of a cache, and the result of an entry in one with a limit, as `Source::Member`.
const TABLE: &str = "<entries>";
const RESULT: &str = "<result>";

/// An entry of a cache with a limit; also the head of the list of them. Layouts of CPython 3.11 to 3.13.
#[repr(C)]
struct Entry {
    head: ffi::PyObject,
    links: [*mut c_void; 2],
    hash: ffi::Py_hash_t,
    key: *mut ffi::PyObject,
    result: *mut ffi::PyObject,
}

#[repr(C)]
struct Cache {
    root: Entry,
    wrapper: *const c_void,
    typed: c_int,
    table: *mut ffi::PyObject,
    hits: isize,
    function: *mut ffi::PyObject,
    /// Negative if there is none.
    limit: isize,
    misses: isize,
    /// Stands between places and names in a key.
    mark: *mut ffi::PyObject,
}

pub fn is_part(name: &str) -> bool {
    name == TABLE || name == RESULT
}

/// A part of a cache or of an entry of one; the outer None stands for parts of other objects.
pub fn part(of: &Obj, name: &str) -> Option<Option<Obj>> {
    // SAFETY: these names are given to parts of caches and their entries alone.
    unsafe {
        match name {
            TABLE => Some(Obj::borrowed_opt((*of.ptr().cast::<Cache>()).table)),
            RESULT => Some(Obj::borrowed_opt((*of.ptr().cast::<Entry>()).result)),
            _ => None,
        }
    }
}

fn layout(cached: &Obj) -> &Cache {
    // SAFETY: the type was looked at.
    unsafe { &*cached.ptr().cast::<Cache>() }
}

impl Vm {
    pub(super) fn call_cached(&mut self, callable: &Val, args: Args) -> R<Called> {
        let cached = &callable.obj;
        if self.is_computed_of_sizes(cached, &args) {
            let inner = self.pinned(cached.attr("__wrapped__")?);
            return self.call(&inner, args);
        }
        if self.is_asked_by_constants(cached, &args) {
            return self.ask_cache(cached, &args).map(Called::Value);
        }
        let read = Read::Like(self.varying_in(&args));
        self.read(callable, args, read, "a function with a cache, of which the arguments are no constants")
    }

    /// What einops computes of shapes has no effects, and nobody changes it: it stays an expression of sizes.
    fn is_computed_of_sizes(&mut self, cached: &Obj, args: &Args) -> bool {
        let is_of_einops = |module: Obj| module.to_str().is_some_and(|module| module.starts_with("einops."));
        !self.varying_in(args).is_empty() && cached.attr("__module__").quiet().is_some_and(is_of_einops)
    }

    fn is_asked_by_constants(&self, cached: &Obj, args: &Args) -> bool {
        let Cache { typed, limit, .. } = layout(cached);
        let is_kept = *typed == 0 && *limit != 0 && matches!(self.origin(cached), Origin::Outside(_) | Origin::Const);
        is_kept && args.positional.iter().chain(args.keywords.iter().map(|(_, value)| value)).all(|value| self.is_constant(value))
    }

    /// A number that was not seen to change, data, or an object from outside that is told by its identity.
    fn is_constant(&self, value: &Val) -> bool {
        let (object, t) = (&value.obj, types());
        if self.is_size(value) || self.rec.as_ref().is_some_and(|rec| rec.is_run_time(value).is_some()) {
            return false;
        }
        if t.is_scalar(object) || t.is_pinnable(object) || t.is_enum(object) {
            return true;
        }
        if object.is_instance_of(t.tuple) {
            return self.is_plain(object, DEPTH) && !self.holds_sizes(object);
        }
        // What the cache has of a module may be shared by traces of many.
        let is_told_apart = !is_tensor(object) && !object.is_instance_of(t.nn_module) && has_plain_hash(&object.class());
        // An argument may be another object in every call.
        let stays = |rec: &Recording| match rec.origin(object) {
            Origin::Outside(source) => rec.tree.sources.read().is_of_surroundings(source),
            _ => false,
        };
        is_told_apart && self.rec.as_deref().is_some_and(stays)
    }

    fn ask_cache(&mut self, cached: &Obj, args: &Args) -> R<Val> {
        self.rely_on_cached(&cached.clone().into());
        let mut parts = Vec::new();
        for value in &args.positional {
            parts.push(self.rely_on_cached(value));
        }
        let mut names = Vec::new();
        for (name, value) in &args.keywords {
            names.extend([name.clone(), self.rely_on_cached(value)]);
        }
        // SAFETY: the type lives for ever.
        let partial = unsafe { Obj::borrowed(types().partial.cast()) };
        let ask = partial.call(&[std::slice::from_ref(cached), &parts].concat(), keywords(&args.keywords)?.as_ref())?;
        // Later calls count as hits, and make the entry the youngest one.
        if let Some(rec) = &mut self.rec {
            rec.note_change(ask.clone(), Vec::new());
        }
        let result = match ask.call(&[], None) {
            Ok(result) => result,
            Err(error) => {
                self.give_up("a function with a cache that has raised an exception: it runs in every call");
                return Err(error);
            }
        };
        let key = key_of(cached, &parts, names)?;
        // SAFETY: a cache has a dict.
        let table = unsafe { Obj::borrowed(layout(cached).table) };
        let Some(rec) = &mut self.rec else { return Ok(result.into()) };
        let cache = rec.source(Source::Pinned(Key(cached.clone())));
        let entries = rec.source(Source::Member(cache, TABLE));
        let (mut found, mut source) = (dict_get(&table, &key), rec.source(Source::Value(entries, Key(key))));
        if layout(cached).limit > 0 {
            found = found.and_then(|entry| part(&entry, RESULT).flatten());
            source = rec.source(Source::Member(source, RESULT));
        }
        if found.is_none_or(|found| !found.is(&result)) {
            self.give_up("a cache that does not keep what its function gives");
            return Ok(result.into());
        }
        Ok(rec.meet(result, source))
    }

    /// The object, which is the same in later calls, or equal.
    fn rely_on_cached(&mut self, value: &Val) -> Obj {
        let object = self.settled(value);
        let class = object.class();
        self.recorded(|rec| {
            rec.know_whole(&object, &mut usize::MAX.clone())?;
            if let Origin::Outside(source) = rec.origin(&object)
                && !object.is_instance_of(types().tuple)
            {
                rec.rely_on_identity(&object, source);
                rec.rely_on_class(&class);
            }
            Ok(())
        });
        object
    }
}

/// As `functools` makes it.
fn key_of(cached: &Obj, positional: &[Obj], names: Vec<Obj>) -> R<Obj> {
    if let ([only], true) = (positional, names.is_empty())
        && (only.class_is(types().str) || only.class_is(types().int))
    {
        return Ok(only.clone());
    }
    // SAFETY: a cache has its mark.
    let mark = unsafe { Obj::borrowed(layout(cached).mark) };
    let mark = (!names.is_empty()).then_some(mark);
    tuple_of(&positional.iter().cloned().chain(mark).chain(names).collect::<Vec<_>>())
}

/// Whether its instances are told apart by their addresses.
fn has_plain_hash(class: &Obj) -> bool {
    ["__hash__", "__eq__"].iter().all(|name| is_as_of_object(class, name))
}
