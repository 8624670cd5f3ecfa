//! Arguments to parameters, by CPython's rules.

use super::{Frame, R, Vm};
use crate::obj::{Obj, dict_get, entries_of, items_of, py, tuple_of};
use crate::record::{Origin, Val};
use crate::source::{Key, Source, SourceId};
use crate::vm::code::CodeInfo;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::rc::Rc;

/// The arguments of one call.
#[derive(Clone, Default, Debug)]
pub struct Args {
    pub positional: Vec<Val>,
    pub keywords: Vec<(Obj, Val)>,
}

impl Args {
    pub fn positional(positional: Vec<Val>) -> Args {
        Args { positional, keywords: Vec::new() }
    }

    pub fn values(&self) -> impl Iterator<Item = &Val> {
        self.positional.iter().chain(self.keywords.iter().map(|(_, value)| value))
    }

    pub fn with_self(mut self, first: Val) -> Args {
        self.positional.insert(0, first);
        self
    }
}

fn wrong(function: &Obj, what: String) -> pyo3::PyErr {
    let name = function.attr("__qualname__").ok().and_then(|q| q.to_str()).unwrap_or_default();
    PyTypeError::new_err(format!("{name}() {what}"))
}

/// A keyword that is none of the parameters, or only ever given by position.
fn unexpected(function: &Obj, positional_only: &[ox_bytecode::Variable], names: &[String], text: &str) -> pyo3::PyErr {
    let misused = positional_only.iter().map(|variable| variable.name.to_string()).filter(|name| names.contains(name));
    let misused: Vec<String> = misused.collect();
    if misused.is_empty() {
        return wrong(function, format!("got an unexpected keyword argument '{text}'"));
    }
    wrong(function, format!("got some positional-only arguments passed as keyword arguments: '{}'", misused.join(", ")))
}

/// `beside`: how many arguments were given for parameters that only take keywords.
fn too_many(function: &Obj, positional: usize, given: usize, beside: usize) -> pyo3::PyErr {
    let defaults = function.attr("__defaults__").map_or(0, |defaults| items_of(&defaults).len());
    let takes = match defaults {
        0 => positional.to_string(),
        _ => format!("from {} to {positional}", positional - defaults.min(positional)),
    };
    let plural = if positional == 1 && defaults == 0 { "" } else { "s" };
    let many = |n: usize| if n == 1 { "" } else { "s" };
    let keywords = match beside {
        0 => String::new(),
        _ => format!(" positional argument{} (and {beside} keyword-only argument{})", many(given), many(beside)),
    };
    let verb = if given == 1 && beside == 0 { "was" } else { "were" };
    wrong(function, format!("takes {takes} positional argument{plural} but {given}{keywords} {verb} given"))
}

impl Vm {
    /// The locals of a new frame.
    pub fn bind(&mut self, code: &Rc<CodeInfo>, function: &Obj, args: Args) -> R<Vec<Option<Val>>> {
        let decoded = &code.code;
        let positional = decoded.arguments.positional as usize;
        let keyword_only = decoded.arguments.keyword_only as usize;
        let named = positional + keyword_only;
        let mut locals: Vec<Option<Val>> = vec![None; decoded.variables.len()];
        let given = args.positional.len();
        let mut rest = Vec::new();
        for (n, value) in args.positional.into_iter().enumerate() {
            if n < positional { locals[n] = Some(value) } else { rest.push(value) }
        }
        let mut extra: Vec<(Obj, Val)> = Vec::new();
        let names: Vec<String> = args.keywords.iter().map(|(name, _)| name.to_str().unwrap_or_default()).collect();
        let first = decoded.arguments.positional_only as usize;
        for (name, value) in args.keywords {
            let text = name.to_str().unwrap_or_default();
            let place = (first..named).find(|n| decoded.variables[*n].name == text);
            match place {
                Some(n) if locals[n].is_some() => {
                    return Err(wrong(function, format!("got multiple values for argument '{text}'")));
                }
                Some(n) => locals[n] = Some(value),
                None if decoded.has_varkeywords() => extra.push((name, value)),
                None => return Err(unexpected(function, &decoded.variables[..first], &names, &text)),
            }
        }
        if !rest.is_empty() && !decoded.has_varargs() {
            let beside = locals[positional..named].iter().flatten().count();
            return Err(too_many(function, positional, given, beside));
        }
        self.fill_defaults(code, function, &mut locals)?;
        let mut next = named;
        if decoded.has_varargs() {
            locals[next] = Some(self.argument_tuple(rest)?);
            next += 1;
        }
        if decoded.has_varkeywords() {
            locals[next] = Some(self.argument_dict(&extra)?);
        }
        Ok(locals)
    }

    fn fill_defaults(&mut self, code: &Rc<CodeInfo>, function: &Obj, locals: &mut [Option<Val>]) -> R<()> {
        let arguments = code.code.arguments;
        let positional = arguments.positional as usize;
        let named = positional + arguments.keyword_only as usize;
        if locals[..named].iter().all(Option::is_some) {
            return Ok(());
        }
        let defaults = function.attr("__defaults__")?;
        let items = items_of(&defaults);
        let first = positional - items.len().min(positional);
        let mut missing = Vec::new();
        let empty = |locals: &[Option<Val>], places: std::ops::Range<usize>| -> Vec<usize> {
            places.filter(|n| locals[*n].is_none()).collect()
        };
        for n in empty(locals, 0..positional) {
            match n.checked_sub(first).and_then(|k| items.get(k).cloned().map(|item| (k, item))) {
                Some((k, item)) => {
                    let at = |of| Source::Item(of, k as u32);
                    locals[n] = Some(self.default(function, "__defaults__", at, (&defaults, &Obj::int(k as i64)), item));
                }
                None => missing.push(n),
            }
        }
        self.complain(code, function, &missing, "positional")?;
        missing.clear();
        let dict = function.attr("__kwdefaults__")?;
        for n in empty(locals, positional..named) {
            let name = Obj::str(&code.code.variables[n].name);
            match if dict.is_none() { None } else { dict_get(&dict, &name) } {
                Some(item) => {
                    let at = |of| Source::Value(of, Key(name.clone()));
                    locals[n] = Some(self.default(function, "__kwdefaults__", at, (&dict, &name), item));
                }
                None => missing.push(n),
            }
        }
        self.complain(code, function, &missing, "keyword-only")
    }

    fn complain(&self, code: &CodeInfo, function: &Obj, missing: &[usize], kind: &str) -> R<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = missing.iter().map(|n| format!("'{}'", code.code.variables[*n].name)).collect();
        let list = match &names[..] {
            [one] => one.clone(),
            [one, two] => format!("{one} and {two}"),
            [init @ .., last] => format!("{}, and {last}", init.join(", ")),
            [] => String::new(),
        };
        let plural = if names.len() == 1 { "" } else { "s" };
        Err(wrong(function, format!("missing {} required {kind} argument{plural}: {list}", names.len())))
    }

    /// A default value, which may be replaced between two calls. A function that was made here has it at a place of a container.
    fn default(
        &mut self,
        function: &Obj,
        member: &'static str,
        at: impl FnOnce(SourceId) -> Source,
        place: (&Obj, &Obj),
        item: Obj,
    ) -> Val {
        let Some(rec) = &mut self.rec else { return item.into() };
        match rec.origin(function) {
            Origin::Outside(id) => {
                let tuple = rec.source(Source::Member(id, member));
                let source = rec.source(at(tuple));
                rec.meet(item, source)
            }
            Origin::Const => {
                let id = rec.pin(function);
                let tuple = rec.source(Source::Member(id, member));
                let source = rec.source(at(tuple));
                rec.meet(item, source)
            }
            _ => Val { free: rec.stowed_at(place.0, place.1, &item), obj: item },
        }
    }

    pub fn tuple(&mut self, values: Vec<Val>) -> R<Val> {
        let items: Vec<Obj> = values.iter().map(|value| self.settled_but_free(value)).collect();
        let tuple = tuple_of(&items)?;
        let made = self.made(tuple.clone());
        self.keep_free(&tuple, 0, &values);
        Ok(made)
    }

    /// As `tuple`, of what is on its way to somebody who asks: numbers in it stay free.
    pub fn argument_tuple(&mut self, values: Vec<Val>) -> R<Val> {
        let items: Vec<Obj> = values.iter().map(|v| v.obj.clone()).collect();
        let tuple = tuple_of(&items)?;
        let made = self.made(tuple.clone());
        values.iter().enumerate().for_each(|(n, value)| self.stow(&tuple, Obj::int(n as i64), value));
        Ok(made)
    }

    /// A dict whose numbers stay free: that of keyword arguments, above all.
    pub fn argument_dict(&mut self, entries: &[(Obj, Val)]) -> R<Val> {
        let dict = PyDict::new(py());
        for (key, value) in entries {
            dict.set_item(key.bind(), value.obj.bind())?;
        }
        let dict: Obj = dict.into();
        let made = self.made(dict.clone());
        entries.iter().for_each(|(key, value)| self.stow(&dict, key.clone(), value));
        Ok(made)
    }

    /// Puts a value into a container of the machine's; what is not a free number needs no note.
    pub fn stow(&mut self, container: &Obj, key: Obj, value: &Val) {
        if let Some(rec) = &mut self.rec {
            rec.stow(container, key, value);
        }
    }

    /// The pieces of `f(*iterable, **mapping)`.
    pub fn spread(&mut self, positional: &Val, mapping: Option<&Val>) -> R<Args> {
        let positional = self.iterate_all(positional)?;
        let mut keywords = Vec::new();
        if let Some(mapping) = mapping {
            keywords = self.mapping_items(mapping)?;
        }
        if keywords.iter().any(|(name, _)| !name.is_instance_of(crate::types::types().str)) {
            return Err(PyTypeError::new_err("keywords must be strings"));
        }
        Ok(Args { positional, keywords })
    }

    /// The entries of a dict, each with where it was found.
    pub fn mapping_items(&mut self, mapping: &Val) -> R<Vec<(Obj, Val)>> {
        let object = mapping.obj.clone();
        let is_dict = object.is_instance_of(crate::types::types().dict);
        if !is_dict && self.rec.is_some() && self.python_method(&object, "__getitem__").is_some() {
            return self.entries_to_add(mapping);
        }
        if !is_dict {
            self.give_up("** of something that is no dict");
            let dict = PyDict::new(py());
            dict.update(object.bind().cast::<pyo3::types::PyMapping>().map_err(pyo3::PyErr::from)?)?;
            return Ok(entries_of(&dict.into()).into_iter().map(|(k, v)| (k, v.into())).collect());
        }
        self.know_keys(&object);
        let mut out = Vec::new();
        for (key, value) in entries_of(&object) {
            let value = self.found_at(&object, &key, value, |of| Source::Value(of, Key(key.clone())));
            out.push((key, value));
        }
        Ok(out)
    }

    pub fn new_frame(&mut self, code: Rc<CodeInfo>, function: &Obj, locals: Vec<Option<Val>>) -> R<Frame> {
        Frame::new(code, function, locals)
    }
}
