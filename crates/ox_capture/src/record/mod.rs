//! What is recorded while the machine runs: where objects came from, what was relied on, what was computed, what was done to others.

mod arguments;
mod array;
mod attention;
pub mod autocast;
mod calls;
mod conv;
mod data;
mod describe;
mod device;
mod factory;
pub mod grad;
mod graph;
mod inspect;
mod integer;
mod lanes;
mod machines;
mod memory;
mod mended;
mod meta_kernels;
pub mod modes;
mod number;
mod order;
mod outs;
mod overlap;
mod peek;
mod places;
mod plain_sizes;
mod quick;
mod relied;
mod segment;
mod shared;
mod sizes;
mod special;
pub mod spent;
mod tried;
mod unseen;
mod writes;
mod written;

pub use calls::{DONE_FOR_REAL, FACTORIES};
pub use describe::referents;
pub use graph::{NotRecorded, Shadow, tensors_in};
pub use inspect::{Inspection, built_in_base, is_machine, is_plain_instance, is_python_instance, members_of};
pub use number::DEPTH;
pub use places::{Place, Places};
pub use plain_sizes::PlainSizes;
pub use relied::is_set;
pub use segment::{Closing, forget_shadows};
pub use special::DIVISIONS;
pub use writes::{is_integer_type, plain};

use crate::backend::Backend;
use crate::guard::Check;
use crate::interrupt::Quiet;
use crate::lazy::is_lazy;
use crate::obj::{DEEPEST, Obj, entries_of, items_of};
use crate::source::{Key, Source, SourceId};
use crate::state::TorchState;
use crate::tree::Tree;
use crate::types::types;
use crate::vm::Line;
use graph::GraphRecord;
use pyo3::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use spent::Spending;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// A slot of the machine: an object, and for numbers that nobody has looked at yet where they came from.
#[derive(Clone, Debug)]
pub struct Val {
    pub obj: Obj,
    pub free: Option<SourceId>,
}

impl From<Obj> for Val {
    fn from(obj: Obj) -> Val {
        Val { obj, free: None }
    }
}

/// Where an object came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Compared by value, or the same in every call.
    Const,
    Outside(SourceId),
    /// Made in this segment; nobody else sees it before its end.
    Made,
    /// The n-th lazy tensor.
    Lazy(usize),
    Unknown,
}

/// The content of a container before its first change.
enum Original {
    Items(Vec<Obj>),
    Entries(Vec<(Obj, Obj)>),
}

impl Original {
    fn parts(&self) -> Box<dyn Iterator<Item = &Obj> + '_> {
        match self {
            Original::Items(items) => Box::new(items.iter()),
            Original::Entries(entries) => Box::new(entries.iter().flat_map(|(key, value)| [key, value])),
        }
    }
}

/// Containers that are larger are not looked at again once they were changed.
const REMEMBERED: usize = 512;

/// The call that gives an object again: of what left the machine as an iterator or generator of CPython's.
pub struct MadeBy {
    pub object: Obj,
    pub by: Obj,
    pub args: Vec<Obj>,
    /// Of the last arguments.
    pub names: Vec<Obj>,
    /// For `__setstate__`.
    pub state: Option<Obj>,
}

/// A change to an object that others see.
pub struct Change {
    pub function: Obj,
    pub args: Vec<Val>,
}

pub struct Recording {
    pub tree: Rc<Tree>,
    pub backend: Arc<dyn Backend>,
    pub segment: u32,
    pub checks: Vec<Check>,
    /// Where they were made, as far as that is known.
    places: Places,
    seen: FxHashSet<(u8, u32, u32)>,
    /// Numbers and strings from outside, as they were when they were first read.
    met: FxHashMap<SourceId, Obj>,
    /// One of them was another when it was read again: a signal's handler or another thread has changed it, and no trace can say when.
    pub contradicted: bool,
    /// Whether autocast is no longer as it was found.
    pub autocast_is_set: bool,
    versions: FxHashSet<usize>,
    /// By address; the object is held, so that the address stays its own.
    ids: FxHashMap<usize, (Origin, Option<Obj>)>,
    /// Locations that were written, by their objects: what they hold is what was stored, not what a later call would find first.
    written: FxHashMap<usize, FxHashSet<Key>>,
    /// Containers that were changed although not all that is in them is known.
    opaque: FxHashSet<usize>,
    /// Containers that got items or keys, or lost some.
    resized: FxHashSet<usize>,
    /// Containers whose whole content is known.
    whole: FxHashSet<usize>,
    /// What the segment that was just closed built.
    built_now: FxHashMap<usize, SourceId>,
    /// The dicts of instances that were made here, by address.
    dicts_of_made: FxHashMap<usize, Obj>,
    /// Lines that this segment leaves in tracebacks of exceptions that it did not make.
    lines: Vec<(SourceId, Line)>,
    /// What containers held before the program changed them: a later call finds that first.
    originals: FxHashMap<usize, Original>,
    /// Objects that were told apart from all others of their class.
    apart: FxHashSet<usize>,
    /// Free numbers inside of containers.
    stowed: number::Stowed,
    pub sizing: sizes::Sizing,
    /// Sources of optimizers.
    optimizers: FxHashSet<SourceId>,
    /// Sources of torch's modules.
    modules: FxHashSet<SourceId>,
    /// Names of attributes that were found on classes, as something that does not change.
    pub class_reads: FxHashSet<Key>,
    /// What hangs on tensors was changed.
    changes_tensors: bool,
    /// Sources of objects that sets and dicts tell apart by their addresses.
    by_address: BTreeSet<SourceId>,
    /// How many of them are known to be different.
    told_apart: usize,
    /// Objects of this segment's that have said their hashes, by those.
    hashed: FxHashMap<isize, Vec<Obj>>,
    pub changes: Vec<Change>,
    /// How many of them are known to have been made.
    made_changes: usize,
    /// Where the machine's iterators and generators were first built, by address: they stay the same objects.
    machines: FxHashMap<usize, SourceId>,
    /// Those of them that this segment has moved on.
    moving: FxHashSet<usize>,
    /// By address.
    calls: FxHashMap<usize, MadeBy>,
    /// Exceptions that the program raised by itself, by address.
    pub raised: FxHashSet<usize>,
    /// Tokens of context variables, and the changes that gave them.
    tokens: Vec<(usize, usize)>,
    pub graph: GraphRecord,
    /// A use of a lazy tensor that was not foreseen: what the machine knows may be wrong from here on.
    pub tainted: Option<String>,
    pub state: TorchState,
    /// The function's file and line, for people.
    pub place: String,
    pub spending: Spending,
}

/// Recording cannot go on.
#[derive(Debug)]
pub struct Abandon(pub String);

pub type Rec<T> = Result<T, Abandon>;

pub fn abandon<T>(why: impl Into<String>) -> Rec<T> {
    Err(Abandon(why.into()))
}

impl Recording {
    pub fn new(tree: Rc<Tree>, backend: Arc<dyn Backend>, state: TorchState) -> PyResult<Recording> {
        let segment = tree.next_segment();
        Ok(Recording {
            tree,
            backend,
            segment,
            checks: Vec::new(),
            places: Places::new(),
            seen: FxHashSet::default(),
            versions: FxHashSet::default(),
            ids: FxHashMap::default(),
            written: FxHashMap::default(),
            opaque: FxHashSet::default(),
            resized: FxHashSet::default(),
            whole: FxHashSet::default(),
            apart: FxHashSet::default(),
            stowed: number::Stowed::default(),
            sizing: sizes::Sizing::default(),
            optimizers: FxHashSet::default(),
            modules: FxHashSet::default(),
            class_reads: FxHashSet::default(),
            changes_tensors: false,
            by_address: BTreeSet::new(),
            told_apart: 0,
            hashed: FxHashMap::default(),
            originals: FxHashMap::default(),
            built_now: FxHashMap::default(),
            dicts_of_made: FxHashMap::default(),
            lines: Vec::new(),
            changes: Vec::new(),
            made_changes: 0,
            machines: FxHashMap::default(),
            moving: FxHashSet::default(),
            calls: FxHashMap::default(),
            raised: FxHashSet::default(),
            tokens: Vec::new(),
            graph: GraphRecord::new()?,
            tainted: None,
            met: FxHashMap::default(),
            contradicted: false,
            autocast_is_set: false,
            state,
            place: String::new(),
            spending: Spending::default(),
        })
    }

    pub fn source(&self, source: Source) -> SourceId {
        self.tree.source(self.segment, source)
    }

    /// Adds a check unless it is there already. `kind` tells the kinds of checks on the same sources apart.
    fn check_once(&mut self, kind: u8, a: SourceId, b: u32, check: impl FnOnce() -> Check) {
        if self.seen.insert((kind, a.0, b)) {
            self.checks.push(check());
        }
    }

    pub fn origin(&self, object: &Obj) -> Origin {
        if let Some((origin, _)) = self.ids.get(&object.id()) {
            return *origin;
        }
        if is_constant(object) || is_fixed(object) && self.is_of_constants(object) {
            return Origin::Const;
        }
        Origin::Unknown
    }

    fn is_of_constants(&self, object: &Obj) -> bool {
        let inside = |object: &Obj, depth: usize| parts_of(object).into_iter().map(move |part| (part, depth));
        let mut open: Vec<(Obj, usize)> = inside(object, 1).collect();
        let mut seen = FxHashSet::default();
        while let Some((part, depth)) = open.pop() {
            match self.ids.get(&part.id()) {
                Some((Origin::Const, _)) => {}
                None if is_constant(&part) => {}
                None if is_fixed(&part) && depth < DEEPEST => {
                    if seen.insert(part.id()) {
                        open.extend(inside(&part, depth + 1));
                    }
                }
                _ => return false,
            }
        }
        true
    }

    pub fn register(&mut self, object: &Obj, origin: Origin) {
        self.note_kind(object, origin);
        self.ids.insert(object.id(), (origin, Some(object.clone())));
    }

    /// Of what attributes mean more.
    fn note_kind(&mut self, object: &Obj, origin: Origin) {
        let Origin::Outside(source) = origin else { return };
        if object.is_instance_of(types().nn_module) {
            self.modules.insert(source);
        } else if object.is_instance_of(types().optimizer) {
            self.optimizers.insert(source);
        }
    }

    /// Whether it is kept alive here, so that its address stays its own.
    pub fn holds(&self, object: &Obj) -> bool {
        self.ids.get(&object.id()).is_some_and(|(_, held)| held.is_some())
    }

    /// How many references to it are held here.
    pub fn holding(&self, object: &Obj) -> usize {
        let by_calls = self.calls.values().flat_map(|call| call.args.iter().chain([&call.object]));
        let by_changes = self.changes.iter().flat_map(|change| change.args.iter().map(|arg| &arg.obj));
        let by_originals = self.originals.values().flat_map(Original::parts);
        let noted = by_calls.chain(by_changes).chain(by_originals).filter(|part| part.is(object));
        usize::from(self.holds(object)) + usize::from(self.dicts_of_made.contains_key(&object.id())) + noted.count()
    }

    /// What this segment and those before it made, as far as it is kept alive here.
    pub fn made_objects(&self) -> Vec<Obj> {
        let sources = self.tree.sources.read();
        let is_made = |origin: &Origin| match origin {
            Origin::Made => true,
            Origin::Outside(source) => matches!(sources.get(*source), Source::Built(..)),
            _ => false,
        };
        let made = self.ids.values().filter(|(origin, _)| is_made(origin)).filter_map(|(_, object)| object.as_ref());
        let dicts = self.dicts_of_made.values().filter(|dict| !self.holds(dict));
        made.chain(dicts).cloned().collect()
    }

    fn register_lazy(&mut self, object: &Obj, n: usize) {
        self.ids.insert(object.id(), (Origin::Lazy(n), None));
    }

    /// An object that this segment made, with everything new inside it.
    pub fn made(&mut self, object: &Obj) {
        if self.origin(object) != Origin::Unknown {
            return;
        }
        let types = types();
        self.register(object, Origin::Made);
        self.whole.insert(object.id());
        if object.is_instance_of(types.list) || object.is_instance_of(types.tuple) {
            items_of(object).iter().for_each(|item| self.made_inside(item));
        } else if object.is_instance_of(types.dict) {
            for (key, value) in entries_of(object) {
                self.made_inside(&key);
                self.made_inside(&value);
            }
        }
    }

    /// An object that a call of C's gives again.
    pub fn made_by(&mut self, call: MadeBy) {
        self.register(&call.object, Origin::Made);
        self.calls.insert(call.object.id(), call);
    }

    fn made_inside(&mut self, object: &Obj) {
        let types = types();
        let is_container = [types.list, types.tuple, types.dict, types.set, types.frozenset].iter().any(|t| object.class_is(*t));
        if is_container {
            self.made(object);
        }
    }

    /// An exception that was raised in this segment.
    pub fn made_exception(&mut self, exception: &Obj) {
        if self.origin(exception) == Origin::Unknown {
            self.register(exception, Origin::Made);
        }
    }

    /// An exception has left a frame, or was caught in it: later calls leave the line in the traceback of theirs. What was made here is described with all of
    /// its lines.
    pub fn note_line(&mut self, exception: &Obj, line: impl FnOnce() -> Line) {
        if let Origin::Outside(source) = self.origin(exception) {
            self.lines.push((source, line()));
        }
    }

    pub fn has_lines(&self, exception: &Obj) -> bool {
        matches!(self.origin(exception), Origin::Outside(source) if self.lines.iter().any(|(known, _)| *known == source))
    }

    /// Keeps an object that is the same as long as the checks hold: it hangs on a class whose version is checked, or it was compared.
    pub fn pin(&mut self, object: &Obj) -> SourceId {
        if let Origin::Outside(id) = self.origin(object) {
            return id;
        }
        let id = self.source(Source::Pinned(Key(object.clone())));
        self.register(object, Origin::Outside(id));
        id
    }

    /// An object found at an outside place.
    pub fn meet(&mut self, object: Obj, source: SourceId) -> Val {
        let types = types();
        if types.is_scalar(&object) {
            return self.meet_scalar(object, source);
        }
        match self.origin(&object) {
            Origin::Outside(known) => {
                let fixed = types.is_pinnable(&object) && matches!(self.tree.sources.read().get(known), Source::Pinned(_));
                if fixed {
                    self.check_once(3, source, 0, || Check::Is(source, object.clone()));
                } else if known != source {
                    self.check_once(1, source, known.0, || Check::Same(source, known));
                }
            }
            Origin::Made | Origin::Lazy(_) => {}
            Origin::Const | Origin::Unknown => self.meet_new(&object, source),
        }
        object.into()
    }

    fn meet_new(&mut self, object: &Obj, source: SourceId) {
        let types = types();
        let by_code = object.class_is(types.function) && !self.is_fixed_place(source);
        if by_code {
            let class = object.class();
            self.check_once(2, source, 0, || Check::Type(source, class));
            self.register(object, Origin::Outside(source));
            for member in ["__code__", "__globals__"] {
                let part = self.source(Source::Member(source, member));
                if let Some(object) = object.attr(member).quiet() {
                    self.check_once(3, part, 0, || Check::Is(part, object));
                }
            }
        } else if types.is_pinnable(object) || types.is_enum(object) || self.is_value_of_surroundings(object, source) {
            self.check_once(3, source, 0, || Check::Is(source, object.clone()));
            self.pin(object);
        } else {
            let class = object.class();
            self.check_once(2, source, 0, || Check::Type(source, class));
            self.register(object, Origin::Outside(source));
        }
    }

    /// An object that never changes, found where the program keeps its settings: the same in every call.
    fn is_value_of_surroundings(&self, object: &Obj, source: SourceId) -> bool {
        crate::builtins::is_value(object) && self.tree.sources.read().is_of_surroundings(source)
    }

    /// A name of a module or class: what is bound there rarely changes.
    fn is_fixed_place(&self, source: SourceId) -> bool {
        let sources = self.tree.sources.read();
        let parent = match sources.get(source) {
            Source::Pinned(_) | Source::Root => return true,
            Source::Value(parent, _) | Source::Attr(parent, _) => *parent,
            _ => return false,
        };
        matches!(sources.get(parent), Source::Pinned(_))
    }

    fn meet_scalar(&mut self, object: Obj, source: SourceId) -> Val {
        let types = types();
        let first = self.met.entry(source).or_insert_with(|| object.clone());
        let is_same = first.is(&object) || first.class().is(&object.class()) && first.text() == object.text();
        self.contradicted |= !is_same;
        let is_answer = object.class_is(types.bool) && matches!(self.tree.sources.read().get(source), Source::Result(_));
        if object.class_is(types.int) || object.class_is(types.float) || is_answer {
            self.rely_on_type(source, &object);
            return self.varying_integer(&object, source).unwrap_or(Val { obj: object, free: Some(source) });
        }
        self.check_equal(source, &object);
        object.into()
    }

    /// The dict that a view (or a proxy) shows: one of this call's making, or one of a dict that the trace keeps.
    pub fn viewed(&self, object: &Obj) -> Option<Obj> {
        let t = types();
        if ![t.dict_keys, t.dict_values, t.dict_items, t.mapping_proxy].iter().any(|class| object.is_instance_of(*class)) {
            return None;
        }
        let dict = || referents(object).pop().filter(|dict| dict.is_instance_of(t.dict));
        match self.origin(object) {
            Origin::Made => dict(),
            Origin::Outside(id) if matches!(self.tree.sources.read().get(id), Source::Built(..)) => dict(),
            // The parameters of a signature. A class keeps its dict to itself.
            _ if object.class_is(t.mapping_proxy) => dict().filter(|dict| self.is_pinned(dict)),
            _ => None,
        }
    }

    /// The same object in every call.
    pub fn is_pinned(&self, object: &Obj) -> bool {
        match self.origin(object) {
            Origin::Const => true,
            Origin::Outside(id) => matches!(self.tree.sources.read().get(id), Source::Pinned(_)),
            _ => false,
        }
    }

    /// The last change can be taken back with this token.
    pub fn note_token(&mut self, token: &Obj) {
        self.tokens.push((token.id(), self.changes.len() - 1));
    }

    /// Takes back the change that gave the token, if nobody saw it yet.
    pub fn take_token(&mut self, token: &Obj) -> bool {
        let Some(at) = self.tokens.iter().position(|(id, _)| *id == token.id()) else { return false };
        let (_, change) = self.tokens.remove(at);
        self.changes.remove(change);
        for (_, later) in self.tokens.iter_mut().filter(|(_, later)| *later > change) {
            *later -= 1;
        }
        true
    }

    /// Notes a change to an object that others see, which is made for real in the same instruction.
    pub fn note_change(&mut self, function: Obj, args: Vec<Val>) {
        self.changes.push(Change { function, args });
    }

    /// What was noted was made; if not, the last change has failed, and nothing came of it.
    pub fn settle_changes(&mut self, were_made: bool) {
        if !were_made && self.changes.len() == self.made_changes + 1 {
            self.changes.pop();
        }
        self.made_changes = self.changes.len();
    }

    pub fn is_tensor(&self, object: &Obj) -> bool {
        is_lazy(object) || types().is_tensor(object)
    }
}

/// What holds it for good, or is a list of it.
fn parts_of(object: &Obj) -> Vec<Obj> {
    if object.class_is(types().slice) {
        return ["start", "stop", "step"].iter().filter_map(|name| object.attr(name).quiet()).collect();
    }
    if object.class_is(types().frozenset) {
        return object.bind().try_iter().map(|i| i.flatten().map(Obj::from).collect()).quiet().unwrap_or_default();
    }
    items_of(object)
}

/// A value that holds no others: it is all that counts, and is relied on.
pub fn is_constant(object: &Obj) -> bool {
    let types = types();
    types.is_scalar(object) && !object.class_is(types.slice) || types.is_pinnable(object) || types.is_enum(object)
}

/// Whether it holds what it was made of for good.
fn is_fixed(object: &Obj) -> bool {
    let types = types();
    [types.tuple, types.frozenset, types.slice].iter().any(|class| object.class_is(*class))
}
