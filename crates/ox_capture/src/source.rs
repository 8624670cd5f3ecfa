//! `Source`: how a later call finds an object again that this call read.

use crate::attr::{has_get, is_c_descriptor, is_data_descriptor, type_lookup};
use crate::interrupt::Quiet;
use crate::obj::{Obj, dict_get, items_of, py};
use crate::types::types;
use crate::warm::Warm;
use ox_gauge::Bound;
use ox_ops::Sym;
use pyo3::ffi;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::fmt;
use std::rc::Rc;

/// Texts of sources are no longer than this and what one part adds, in bytes.
const MOST_SHOWN: usize = 2000;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SourceId(pub u32);

/// A Python object as a key: by exact type and value for scalars, by identity for everything else.
#[derive(Clone, Debug)]
pub struct Key(pub Obj);

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.0.is(&other.0) || (types().is_scalar(&self.0) && same_value(&self.0, &other.0))
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        let hash = if types().is_scalar(&self.0) { self.0.bind().hash().quiet().unwrap_or(0) } else { self.0.id() as isize };
        hash.hash(state);
    }
}

/// Same type and same value; a NaN is equal to itself, and 0.0 is not -0.0.
pub fn same_value(a: &Obj, b: &Obj) -> bool {
    if a.is(b) {
        return true;
    }
    if a.class_ptr() != b.class_ptr() {
        return false;
    }
    let types = types();
    if a.class_is(types.float) {
        return a.bind().extract::<f64>().quiet().map(f64::to_bits) == b.bind().extract::<f64>().quiet().map(f64::to_bits);
    }
    if types.is_numpy_scalar(a) {
        let bytes = |number: &Obj| number.bind().call_method0("tobytes").quiet()?.extract::<Vec<u8>>().quiet();
        return bytes(a) == bytes(b);
    }
    // Equal complex numbers may differ in the signs of their zeros: their texts tell.
    if a.class_is(types.complex) {
        return a.text() == b.text();
    }
    a.bind().eq(b.bind()).quiet().unwrap_or(false)
}

/// What is read where. Only C code of CPython's runs when one is evaluated: the checks in front of it see to that.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The compiled callable's own function or module.
    Root,
    Arg(u32),
    Kwarg(Key),
    /// An object that the trace keeps alive.
    Pinned(Key),
    /// An attribute by the generic rules; the checks rule out descriptors that run Python.
    Attr(SourceId, Key),
    /// An item of a list or tuple.
    Item(SourceId, u32),
    /// The value at a key of a dict.
    Value(SourceId, Key),
    /// An instance's own dict.
    Dict(SourceId),
    /// What a cell holds.
    Cell(SourceId),
    /// An attribute of a function, method, partial or the like that its type stores as a C member.
    Member(SourceId, &'static str),
    /// The value of a pure function of C.
    Compute(Key, Vec<SourceId>),
    /// An expression of sizes, which the checks of tensors bind.
    Expr(Sym),
    /// A tensor that the graph of a segment returned, or `None` for "the action's result".
    Output(u32, u32),
    /// An object that a segment built.
    Built(u32, u32),
    /// What the action behind a segment returned or raised.
    Result(u32),
}

/// All sources of a tree of traces. Locations are told apart by the segment that reads them: an action may change what they hold.
#[derive(Default, Clone)]
pub struct Sources {
    list: Vec<(u32, Source)>,
    known: FxHashMap<(u32, Source), SourceId>,
    /// What people call the variables among sizes, by number.
    names: Vec<String>,
    /// What is called behind segments.
    actions: FxHashMap<u32, String>,
}

impl Sources {
    pub fn intern(&mut self, segment: u32, source: Source) -> SourceId {
        let segment = if source.is_location() { segment } else { 0 };
        let entry = (segment, source);
        if let Some(id) = self.known.get(&entry) {
            return *id;
        }
        let id = SourceId(self.list.len() as u32);
        self.list.push(entry.clone());
        self.known.insert(entry, id);
        id
    }

    pub fn get(&self, id: SourceId) -> &Source {
        &self.list[id.0 as usize].1
    }

    /// Whether it is found without looking at what the function was called with, or at what calls inside it returned.
    pub fn is_behind_the_arguments(&self, id: SourceId) -> bool {
        match self.get(id) {
            Source::Arg(_) | Source::Kwarg(_) | Source::Result(_) | Source::Expr(_) => false,
            Source::Attr(of, _) | Source::Item(of, _) | Source::Value(of, _) | Source::Member(of, _) => {
                self.is_behind_the_arguments(*of)
            }
            Source::Dict(of) | Source::Cell(of) => self.is_behind_the_arguments(*of),
            Source::Compute(_, args) => args.iter().all(|arg| self.is_behind_the_arguments(*arg)),
            Source::Root | Source::Pinned(_) | Source::Output(..) | Source::Built(..) => true,
        }
    }

    /// For a value where a module would keep its parameters and buffers: whose it is.
    pub fn owner_of_weight(&self, id: SourceId) -> Option<SourceId> {
        let Source::Value(table, _) = self.get(id) else { return None };
        let (owner, name) = match self.get(*table) {
            Source::Attr(owner, name) => (*owner, name),
            Source::Value(dict, name) => match self.get(*dict) {
                Source::Dict(owner) => (*owner, name),
                _ => return None,
            },
            _ => return None,
        };
        let is_table = name.0.to_str().is_some_and(|name| name == "_parameters" || name == "_buffers");
        is_table.then_some(owner)
    }

    pub fn name_variable(&mut self, id: u32, name: String) {
        let (at, name) = (id as usize, self.with_names(&name));
        self.names.resize(self.names.len().max(at + 1), String::new());
        self.names[at] = name;
    }

    /// What is called behind a segment, for people.
    pub fn name_action(&mut self, segment: u32, name: String) {
        self.actions.insert(segment, name);
    }

    /// The same with the names of what it is made of.
    pub fn tell(&self, id: SourceId) -> String {
        self.with_names(&self.show(id))
    }

    /// A text with the names of variables in the place of their numbers (`s3` is `arg0.shape[1]`), and of calls behind segments (`s3.result`).
    pub fn with_names(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('s') {
            let digits: String = rest[at + 1..].chars().take_while(char::is_ascii_digit).collect();
            let is_word = rest[..at].chars().next_back().is_some_and(|c| c.is_ascii_alphanumeric() || "_'\"".contains(c));
            let behind = &rest[at + 1 + digits.len()..];
            let number = digits.parse::<u32>().ok().filter(|_| !is_word);
            let is_made = [".out", ".new"].iter().any(|made| behind.starts_with(made));
            let (name, behind) = match behind.strip_prefix(".result") {
                Some(further) => (number.and_then(|id| self.actions.get(&id)).map(|name| format!("{name}(...)")), further),
                None => (number.and_then(|id| self.names.get(id as usize)).filter(|_| !is_made).cloned(), behind),
            };
            out.push_str(&rest[..at]);
            let plain = &rest[at..rest.len() - behind.len()];
            out.push_str(name.as_deref().filter(|name| !name.is_empty()).unwrap_or(plain));
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    /// Whether it is found without what the function was called with, and was not computed on the way.
    pub fn is_of_surroundings(&self, id: SourceId) -> bool {
        match self.get(id) {
            Source::Output(..) | Source::Built(..) => false,
            Source::Attr(of, _) | Source::Item(of, _) | Source::Value(of, _) | Source::Member(of, _) => {
                self.is_of_surroundings(*of)
            }
            Source::Dict(of) | Source::Cell(of) => self.is_of_surroundings(*of),
            _ => self.is_behind_the_arguments(id),
        }
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// What a value is computed of, itself first, with the fewest steps that lead there. What is used several times comes once: a number that is
    /// added to itself again and again is made of as many as there are ways through all sums.
    pub fn operands(&self, id: SourceId) -> Vec<(SourceId, usize)> {
        let (mut found, mut seen, mut at) = (vec![(id, 0)], FxHashSet::from_iter([id]), 0);
        while let Some((id, steps)) = found.get(at).copied() {
            if let Source::Compute(_, args) = self.get(id) {
                found.extend(args.iter().filter(|arg| seen.insert(**arg)).map(|arg| (*arg, steps + 1)));
            }
            at += 1;
        }
        found
    }

    /// As a text, of which the end is left out if it is long.
    pub fn show(&self, id: SourceId) -> String {
        let mut text = String::new();
        self.write(id, &mut text);
        text
    }

    fn write(&self, id: SourceId, out: &mut String) {
        if out.len() > MOST_SHOWN {
            return out.push('…');
        }
        let (of, rest) = match self.get(id) {
            Source::Compute(function, args) => return self.write_call(&short(&function.0), args, out),
            Source::Root => (None, "root".into()),
            Source::Arg(n) => (None, format!("arg{n}")),
            Source::Kwarg(name) => (None, format!("kwarg[{}]", name.0.text())),
            Source::Pinned(object) if types().is_scalar(&object.0) => (None, short(&object.0)),
            Source::Pinned(object) => (None, format!("<{}>", short(&object.0))),
            Source::Attr(of, name) => (Some(of), format!(".{}", name.0)),
            Source::Item(of, n) => (Some(of), format!("[{n}]")),
            Source::Value(of, key) => (Some(of), format!("[{}]", key_text(&key.0))),
            Source::Dict(of) => (Some(of), ".__dict__".into()),
            Source::Cell(of) => (Some(of), ".cell_contents".into()),
            Source::Member(of, name) => (Some(of), format!(".{name}")),
            Source::Expr(sym) => (None, sym.to_string()),
            Source::Output(segment, n) => (None, format!("s{segment}.out{n}")),
            Source::Built(segment, n) => (None, format!("s{segment}.new{n}")),
            Source::Result(segment) => (None, format!("s{segment}.result")),
        };
        of.into_iter().for_each(|of| self.write(*of, out));
        out.push_str(&rest);
    }

    fn write_call(&self, name: &str, args: &[SourceId], out: &mut String) {
        if let (Some(sign), [left, right]) = (sign_of(name), args) {
            self.write_operand(*left, out);
            out.push_str(&format!(" {sign} "));
            return self.write_operand(*right, out);
        }
        out.push_str(&format!("{name}("));
        for (n, arg) in args.iter().enumerate() {
            out.push_str(if n == 0 { "" } else { ", " });
            self.write(*arg, out);
        }
        out.push(')');
    }

    /// Beside a sign.
    fn write_operand(&self, id: SourceId, out: &mut String) {
        let is_plain = match self.get(id) {
            Source::Compute(function, _) => sign_of(&short(&function.0)).is_none(),
            Source::Expr(sym) => sym.as_var().is_some(),
            _ => true,
        };
        if is_plain {
            return self.write(id, out);
        }
        out.push('(');
        self.write(id, out);
        out.push(')');
    }
}

/// The sign of a function of the operator module.
fn sign_of(name: &str) -> Option<&'static str> {
    const SIGNS: &[(&str, &str)] = &[
        ("lt", "<"),
        ("le", "<="),
        ("gt", ">"),
        ("ge", ">="),
        ("eq", "=="),
        ("ne", "!="),
        ("add", "+"),
        ("sub", "-"),
        ("mul", "*"),
        ("truediv", "/"),
        ("floordiv", "//"),
        ("mod", "%"),
        ("pow", "**"),
    ];
    SIGNS.iter().find(|(known, _)| *known == name).map(|(_, sign)| *sign)
}

/// What people call an object: its name, its text where that is short, or its class. No code of the program's is asked.
pub fn short(object: &Obj) -> String {
    if object.class_is(types().code)
        && let (Ok(name), Ok(line)) = (object.attr("co_qualname"), object.attr("co_firstlineno"))
    {
        return format!("the code of {} at line {}", name, line);
    }
    if let Some(name) = own_name(object) {
        return name;
    }
    let is_scope = |dict: &&Obj| dict.class_is(types().dict);
    if let Some(module) = Some(object).filter(is_scope).and_then(|dict| dict_get(dict, &Obj::str("__name__"))?.to_str()) {
        return format!("the globals of {module}");
    }
    let text = if has_plain_text(object) { object.text() } else { String::new() };
    if (1..=40).contains(&text.len()) { text } else { format!("a {}", object.class_name()) }
}

/// The name that a class, a function, a method or a module has.
fn own_name(object: &Obj) -> Option<String> {
    if object.class_is(types().method) {
        return own_name(&object.attr("__func__").quiet()?);
    }
    ["__qualname__", "__name__"].into_iter().find_map(|name| {
        let name = Obj::str(name);
        let found = type_lookup(&object.class(), &name);
        let is_computed =
            found.is_some_and(|found| has_get(&found) && ![types().getset, types().member].contains(&found.class_ptr()));
        let kept = (!is_computed).then(|| generic_attr(object, &name)).flatten()?;
        Some(kept.to_str().unwrap_or_else(|| object.class_name()))
    })
}

/// A key of a dict as people read it, different for different keys.
pub fn key_text(key: &Obj) -> String {
    if has_plain_text(key) { key.text() } else { format!("{} at {:#x}", short(key), key.id()) }
}

/// Whether its `repr` is short work. That of a tensor is all its numbers, that of a module's globals every tensor in them, and that of an
/// object is the program's code.
fn has_plain_text(object: &Obj) -> bool {
    const LONGEST: usize = 20;
    let types = types();
    let is_row = || object.class_is(types.tuple) || object.class_is(types.list);
    let is_plain_row = |items: &[Obj]| items.len() <= LONGEST && items.iter().all(|item| types.is_scalar(item));
    types.is_scalar(object) || is_row() && is_plain_row(&items_of(object))
}

impl Source {
    /// Whether another time another object may be found there.
    fn is_location(&self) -> bool {
        use Source::*;
        matches!(self, Attr(..) | Item(..) | Value(..) | Dict(..) | Cell(..) | Member(..) | Compute(..))
    }
}

/// The values of sources in one call.
pub struct Values<'a> {
    pub root: &'a Obj,
    pub args: &'a [Obj],
    pub kwargs: Option<&'a Obj>,
    /// What the variables among sizes are.
    pub sizes: Bound,
    found: Found,
    /// Values that earlier calls found, and that have not changed.
    warm: Option<(u32, Rc<Warm>)>,
    /// What must not die before the values do.
    kept: SmallVec<[Rc<Warm>; 2]>,
}

/// Values by source: while they are few, in a list.
#[derive(Default)]
struct Found {
    few: SmallVec<[(SourceId, Obj); Found::FEW]>,
    many: Vec<Option<Obj>>,
}

impl Found {
    /// As many lie in the values themselves.
    const FEW: usize = 12;
    /// More are looked for by number. A place for each source of a tree is memory that is cleared and walked through in every call, so what a call finds whose checks are mostly settled
    /// stays a list.
    const MANY: usize = 64;

    fn get(&self, id: SourceId) -> Option<&Obj> {
        let few = self.few.iter().find(|(known, _)| *known == id).map(|(_, value)| value);
        few.or_else(|| self.many.get(id.0 as usize).and_then(Option::as_ref))
    }

    fn set(&mut self, id: SourceId, value: Obj) {
        if let Some((_, old)) = self.few.iter_mut().find(|(known, _)| *known == id) {
            *old = value;
        } else if self.many.is_empty() && self.few.len() < Found::MANY {
            self.few.push((id, value));
        } else {
            for (id, value) in std::mem::take(&mut self.few) {
                self.put(id, value);
            }
            self.put(id, value);
        }
    }

    fn put(&mut self, id: SourceId, value: Obj) {
        let at = id.0 as usize;
        if self.many.len() <= at {
            self.many.resize(at + 1, None);
        }
        self.many[at] = Some(value);
    }
}

impl<'a> Values<'a> {
    pub fn new(root: &'a Obj, args: &'a [Obj], kwargs: Option<&'a Obj>) -> Values<'a> {
        Values { root, args, kwargs, sizes: Bound::default(), found: Found::default(), warm: None, kept: SmallVec::new() }
    }

    /// From now on what is known of a segment's sources is taken as found; with None, nothing has been.
    pub fn rely_on(&mut self, warm: Option<(u32, Rc<Warm>)>) {
        self.found = Found::default();
        self.warm = warm;
    }

    /// What is known to hold for a segment in this call.
    pub fn warm(&self, segment: u32) -> Option<Rc<Warm>> {
        self.warm.as_ref().filter(|(of, _)| *of == segment).map(|(_, warm)| warm.clone())
    }

    pub fn outlive(&mut self, warm: Rc<Warm>) {
        self.kept.push(warm);
    }

    pub fn set(&mut self, id: SourceId, value: Obj) {
        self.found.set(id, value);
    }

    fn known(&self, id: SourceId) -> Option<&Obj> {
        let warm = || self.warm.as_ref().and_then(|(_, warm)| warm.base.get(id.0 as usize)).and_then(Option::as_ref);
        self.found.get(id).or_else(warm)
    }

    /// Everything that was found in this call, by source.
    pub fn all(&self) -> Vec<Option<Obj>> {
        let few = self.found.few.iter().map(|(id, _)| id.0 as usize + 1).max().unwrap_or(0);
        let base = self.warm.as_ref().map_or(0, |(_, warm)| warm.base.len());
        let len = self.found.many.len().max(base).max(few);
        (0..len).map(|n| self.known(SourceId(n as u32)).cloned()).collect()
    }

    /// Nobody asks any more.
    pub fn forget(&mut self) {
        drop(std::mem::take(&mut self.found));
    }

    /// None if there is nothing (any more).
    pub fn get(&mut self, sources: &Sources, id: SourceId) -> Option<Obj> {
        if let Some(value) = self.known(id) {
            return Some(value.clone());
        }
        let value = self.read(sources, sources.get(id))?;
        self.set(id, value.clone());
        Some(value)
    }

    fn read(&mut self, sources: &Sources, source: &Source) -> Option<Obj> {
        match source {
            Source::Root => Some(self.root.clone()),
            Source::Arg(n) => self.args.get(*n as usize).cloned(),
            Source::Kwarg(name) => dict_get(self.kwargs?, &name.0),
            Source::Pinned(object) => Some(object.0.clone()),
            Source::Attr(of, name) => kept_attr(&self.get(sources, *of)?, &name.0),
            Source::Item(of, n) => item(&self.get(sources, *of)?, *n as usize),
            Source::Value(of, key) => {
                let of = self.get(sources, *of)?;
                of.is_instance_of(types().dict).then(|| dict_get(&of, &key.0)).flatten()
            }
            Source::Dict(of) => instance_dict(&self.get(sources, *of)?),
            Source::Cell(of) => cell_contents(&self.get(sources, *of)?),
            Source::Member(of, name) => member(&self.get(sources, *of)?, name),
            Source::Compute(function, args) => {
                let args: Option<Vec<Obj>> = args.iter().map(|a| self.get(sources, *a)).collect();
                function.0.call(&args?, None).quiet()
            }
            Source::Expr(sym) => self.sizes.eval(sym).map(Obj::int),
            Source::Output(..) | Source::Built(..) | Source::Result(..) => None,
        }
    }
}

fn item(of: &Obj, n: usize) -> Option<Obj> {
    let types = types();
    if of.class_is(types.deque) {
        return of.bind().get_item(n).quiet().map(Obj::from);
    }
    if of.is_instance_of(types.list) || of.is_instance_of(types.tuple) { item_of(of, n) } else { None }
}

/// A field that a type of C keeps; of functions without asking for it by name.
fn member(of: &Obj, name: &str) -> Option<Obj> {
    if let Some(part) = crate::vm::cached::part(of, name) {
        return part;
    }
    if !of.class_is(types().function) {
        return of.attr(name).quiet();
    }
    // SAFETY: a function; borrowed or null, which Python shows as None.
    let part = unsafe {
        Obj::borrowed_opt(match name {
            "__code__" => ffi::PyFunction_GetCode(of.ptr()),
            "__globals__" => ffi::PyFunction_GetGlobals(of.ptr()),
            "__defaults__" => ffi::PyFunction_GetDefaults(of.ptr()),
            "__kwdefaults__" => ffi::PyFunction_GetKwDefaults(of.ptr()),
            "__closure__" => ffi::PyFunction_GetClosure(of.ptr()),
            _ => return of.attr(name).quiet(),
        })
    };
    Some(part.unwrap_or_else(Obj::none))
}

/// An item of a list or tuple.
pub fn item_of(of: &Obj, n: usize) -> Option<Obj> {
    // SAFETY: a list or tuple; the index is checked against its length.
    unsafe {
        let is_list = ffi::PyList_Check(of.ptr()) != 0;
        let len = if is_list { ffi::PyList_Size(of.ptr()) } else { ffi::PyTuple_Size(of.ptr()) };
        if n as isize >= len {
            return None;
        }
        let found = if is_list { ffi::PyList_GetItem(of.ptr(), n as isize) } else { ffi::PyTuple_GetItem(of.ptr(), n as isize) };
        Obj::borrowed_opt(found)
    }
}

/// An attribute that an object keeps. Where it keeps none, code of the program's that would compute one is not run: a check looks, and changes nothing.
fn kept_attr(of: &Obj, name: &Obj) -> Option<Obj> {
    let on_class = type_lookup(&of.class(), name);
    match on_class.is_some_and(|found| !is_data_descriptor(&found) && has_get(&found) && !is_c_descriptor(&found)) {
        true => instance_dict(of).and_then(|dict| dict_get(&dict, name)),
        false => generic_attr(of, name),
    }
}

/// `object.__getattribute__`, None if there is no such attribute.
pub fn generic_attr(of: &Obj, name: &Obj) -> Option<Obj> {
    // SAFETY: live objects; a new reference or null with an exception.
    let found = unsafe { ffi::PyObject_GenericGetAttr(of.ptr(), name.ptr()) };
    if found.is_null() {
        drop(PyErr::take(py()));
    }
    // SAFETY: as above, the exception is gone.
    unsafe { Obj::owned_opt(found) }
}

/// The instance's dict, if its type gives it one.
pub fn instance_dict(of: &Obj) -> Option<Obj> {
    // SAFETY: a live object; a type with neither offset nor managed dict has none.
    unsafe {
        let class = of.class_ptr();
        if (*class).tp_dictoffset == 0 && !has_managed_dict(class) {
            return None;
        }
        let dict = ffi::PyObject_GenericGetDict(of.ptr(), std::ptr::null_mut());
        if dict.is_null() {
            ffi::PyErr_Clear();
        }
        Obj::owned_opt(dict)
    }
}

/// # Safety
/// `class` must be a live type.
pub unsafe fn has_managed_dict(class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: passed on.
    unsafe { ffi::PyType_HasFeature(class, MANAGED_DICT) != 0 }
}

/// `Py_TPFLAGS_MANAGED_DICT`.
const MANAGED_DICT: std::ffi::c_ulong = 1 << 4;

pub fn cell_contents(cell: &Obj) -> Option<Obj> {
    if !cell.class_is(types().cell) {
        return None;
    }
    // SAFETY: a cell; a new reference or null (empty).
    unsafe { Obj::owned_opt(ffi::PyCell_Get(cell.ptr())) }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for n in 0..self.list.len() {
            writeln!(f, "{n}: {}", self.show(SourceId(n as u32)))?;
        }
        Ok(())
    }
}
