//! Generators that nobody holds any more: CPython closes them at once, which runs their `finally` clauses and leaves their contexts. So are objects
//! told that have a `__del__` (`finalised`).

use super::finalised::{finaliser, is_spent, spend_object};
use super::{Args, Frame, R, Val, Vm, VmGenerator, VmIterator};
use crate::obj::{Obj, tuple_of};
use crate::record::is_machine;
use ox_bytecode::Instruction;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::{c_int, c_void};

/// So many objects are counted again and again, instruction by instruction.
const MANY: usize = 64;

/// Generators that stand inside of a clause or a context, and objects that are told when they go.
#[derive(Default)]
pub struct Suspended {
    list: Vec<Obj>,
    /// New objects that hold one of them or another of these: iterators, outer generators, containers, instances.
    carriers: Vec<Obj>,
    /// Carriers that only the recording holds: for the program they are gone.
    dead: Vec<Obj>,
    /// By address: the references that dead carriers hold.
    by_dead: FxHashMap<usize, usize>,
    /// By address: in which order the variables of frames that were just left let go of them. All others go in the order in which they were made.
    places: FxHashMap<usize, usize>,
    /// By address: how many references there were, those of frames apart, and how many of them nothing explained.
    counted: FxHashMap<usize, ((usize, usize), usize)>,
    /// Those that the earlier part of the call left open, until they are found.
    expected: Vec<Obj>,
    /// Those that were closed: one that gives out values even then is left alone.
    closed: Vec<Obj>,
    /// Exceptions, and what frames that they have left held: it lives as long as they do, by their tracebacks.
    kept: Vec<(Obj, Vec<Obj>)>,
}

impl Suspended {
    /// The generator has given out a value, and its frame waits.
    pub fn note(&mut self, generator: &Obj, frame: &Frame) {
        if contains(&self.closed, generator) {
            return;
        }
        if is_inside(frame) {
            if !contains(&self.list, generator) {
                self.admit(generator);
                self.list.push(generator.clone());
            }
        } else if !self.list.is_empty() && !contains(&self.list, generator) && !contains(&self.carriers, generator) {
            let is_known = |value: &Val| contains(&self.list, &value.obj) || contains(&self.carriers, &value.obj);
            if values_of(frame).any(is_known) {
                self.carry(generator.clone());
            }
        }
    }

    /// A new object that is told when it goes.
    pub fn watch(&mut self, object: &Obj) {
        if !contains(&self.list, object) {
            self.admit(object);
            self.list.push(object.clone());
        }
    }

    /// An object whose references count from now on.
    fn admit(&mut self, object: &Obj) {
        let alone = FxHashSet::from_iter([object.id()]);
        let by_dead: usize = self.dead.iter().map(|carrier| held_by(carrier, &alone).len()).sum();
        if by_dead > 0 {
            self.by_dead.insert(object.id(), by_dead);
        }
    }

    fn carry(&mut self, carrier: Obj) {
        self.admit(&carrier);
        self.carriers.push(carrier);
    }

    /// It is done.
    pub fn forget(&mut self, generator: &Obj) {
        self.list.retain(|known| !known.is(generator));
        self.by_dead.remove(&generator.id());
        self.counted.remove(&generator.id());
        if self.list.is_empty() {
            self.carriers.clear();
            self.dead.clear();
            self.by_dead.clear();
            self.counted.clear();
        }
    }

    /// A frame is left: its variables go in their order.
    fn leave(&mut self, frame: &Frame) {
        let known = self.known();
        let mut places: FxHashMap<usize, usize> = FxHashMap::default();
        // The last that holds one lets it go.
        let values: Vec<&Val> = values_of(frame).collect();
        for (place, value) in values.into_iter().enumerate().rev() {
            self.reach(&value.obj, place, &known, &mut places);
        }
        // Behind them goes what an inner frame has let go of, and an exception keeps.
        let behind = 1 + places.values().max().copied().unwrap_or(0);
        for (id, place) in std::mem::take(&mut self.places) {
            places.entry(id).or_insert(behind + place);
        }
        self.places = places;
    }

    /// Notes the place for the object and for what it holds, unless they have one.
    fn reach(&self, object: &Obj, place: usize, known: &FxHashSet<usize>, places: &mut FxHashMap<usize, usize>) {
        if !known.contains(&object.id()) || places.contains_key(&object.id()) {
            return;
        }
        places.insert(object.id(), place);
        let held = held_by(object, known);
        for inner in self.list.iter().chain(&self.carriers).filter(|inner| held.contains(&inner.id())) {
            self.reach(inner, place, known, places);
        }
    }

    pub fn all(&self) -> &[Obj] {
        &self.list
    }

    /// Objects that are to be told when they go, by whomever they are held: in a circle it is the collector of garbage that finds them.
    pub fn told(&self) -> impl Iterator<Item = &Obj> {
        self.list.iter().filter(|object| !object.bind().is_instance_of::<VmGenerator>())
    }

    pub fn expect(&mut self, generator: Obj) {
        self.expected.push(generator);
    }

    pub fn kept(&self) -> &[(Obj, Vec<Obj>)] {
        &self.kept
    }

    pub fn keep(&mut self, exception: Obj, held: Vec<Obj>) {
        self.kept.push((exception, held));
    }

    /// Generators that an earlier part of the call left behind. Others among those that it built were closed since, although their frames stand where
    /// they stood.
    fn adopt(&mut self) {
        for object in std::mem::take(&mut self.expected) {
            if let Ok(generator) = object.bind().cast::<VmGenerator>() {
                generator.borrow().with_frame(|frame| frame.into_iter().for_each(|frame| self.note(&object, frame)));
            } else if !is_spent(&object) {
                self.watch(&object);
            }
        }
    }

    /// How many references to the object are not the program's, but those of objects that are gone for it.
    fn by_dead(&self, object: &Obj) -> usize {
        self.by_dead.get(&object.id()).copied().unwrap_or(0)
    }

    fn known(&self) -> FxHashSet<usize> {
        self.list.iter().chain(&self.carriers).map(Obj::id).collect()
    }

    /// What the carrier holds, the program holds no more by it.
    fn bury(&mut self, at: usize) {
        let carrier = self.carriers.swap_remove(at);
        for held in held_by(&carrier, &self.known()) {
            *self.by_dead.entry(held).or_default() += 1;
        }
        self.dead.push(carrier);
    }
}

/// Tuples and lists (what a `zip` goes through is one) let go of their items from the last to the first, dicts from the first to the last, which is how the
/// collector of garbage sees them, too.
fn in_order_of_items(mut generators: Vec<Obj>, just_dead: &[Obj]) -> Vec<Obj> {
    let ids: FxHashSet<usize> = generators.iter().map(Obj::id).collect();
    for carrier in just_dead.iter().filter(|carrier| has_items(carrier)) {
        let items = held_by(carrier, &ids);
        let places: Vec<usize> = (0..generators.len()).filter(|n| items.contains(&generators[*n].id())).collect();
        let mut held: Vec<Obj> = places.iter().map(|n| generators[*n].clone()).collect();
        held.sort_by_key(|generator| items.iter().position(|id| *id == generator.id()));
        places.into_iter().zip(held).for_each(|(place, generator)| generators[place] = generator);
    }
    generators
}

/// Nothing more is done when they go.
fn spend(gone: &[Obj]) {
    for object in gone {
        match object.bind().cast::<VmGenerator>() {
            Ok(generator) => generator.borrow().spend(),
            Err(_) => drop(spend_object(object)),
        }
    }
}

fn has_items(object: &Obj) -> bool {
    let object = object.bind();
    object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() || object.is_instance_of::<PyDict>()
}

fn contains(list: &[Obj], object: &Obj) -> bool {
    list.iter().any(|known| known.is(object))
}

fn values_of(frame: &Frame) -> impl Iterator<Item = &Val> {
    frame.locals.iter().chain(&frame.stack).flatten()
}

fn references(object: &Obj) -> usize {
    // SAFETY: reads the count of a live object.
    unsafe { ffi::Py_REFCNT(object.ptr()) as usize }
}

/// Whether something is to be done when the frame is left where it stands. Every generator has a handler for a StopIteration that passes: that
/// one begins otherwise. So does that around what `yield from` waits for, behind which others may come.
pub fn is_inside(frame: &Frame) -> bool {
    let code = &frame.code.code;
    let mut at = frame.pc.saturating_sub(1);
    while let Some(handler) = code.handler(at) {
        match code.instructions.get(handler.target.index()) {
            Some(Instruction::PushExcInfo) => return true,
            Some(Instruction::CleanupThrow) => at = handler.target.index(),
            _ => return false,
        }
    }
    false
}

/// What a generator waits for in a `yield from`.
pub fn awaited(frame: &Frame) -> Option<Obj> {
    let code = &frame.code.code;
    let handler = code.handler(frame.pc.saturating_sub(1))?;
    let waits = code.instructions.get(handler.target.index()) == Some(&Instruction::CleanupThrow);
    frame.stack.last()?.as_ref().filter(|_| waits).map(|value| value.obj.clone())
}

/// The generator that this one waits for: it is closed first.
fn inner_of(generator: &Obj) -> Option<Obj> {
    let generator = generator.bind().cast::<VmGenerator>().ok()?;
    let inner = generator.borrow().with_frame(|frame| frame.and_then(awaited))?;
    Some(inner).filter(|inner| inner.bind().is_instance_of::<VmGenerator>())
}

/// With those that they wait for, each in front of the one that does.
fn innermost_first(generators: Vec<Obj>) -> Vec<Obj> {
    let mut all: Vec<Obj> = Vec::with_capacity(generators.len());
    for generator in generators {
        let chain: Vec<Obj> = std::iter::successors(Some(generator), inner_of).collect();
        for generator in chain.into_iter().rev() {
            if !contains(&all, &generator) {
                all.push(generator);
            }
        }
    }
    all
}

/// The known objects that an object refers to, once for each reference.
fn held_by(object: &Obj, known: &FxHashSet<usize>) -> Vec<usize> {
    let mut found = Vec::new();
    each_referent(object, &mut |id| {
        if known.contains(&id) {
            found.push(id);
        }
    });
    found
}

/// The addresses of what an object refers to, as the collector of garbage sees it.
fn each_referent(object: &Obj, mut look: &mut dyn FnMut(usize)) {
    if let Ok(generator) = object.bind().cast::<VmGenerator>() {
        return generator
            .borrow()
            .with_frame(|frame| frame.into_iter().flat_map(values_of).for_each(|value| look(value.obj.id())));
    }
    if let Ok(iterator) = object.bind().cast::<VmIterator>() {
        return iterator.borrow().kind.borrow().parts().1.iter().for_each(|value| look(value.obj.id()));
    }
    // SAFETY: a live object; types that take part in collecting garbage tell what their objects refer to.
    unsafe {
        let class = ffi::Py_TYPE(object.ptr());
        if ffi::PyType_HasFeature(class, ffi::Py_TPFLAGS_HAVE_GC) != 0
            && let Some(traverse) = (*class).tp_traverse
        {
            traverse(object.ptr(), visit, (&raw mut look).cast());
        }
    }
}

unsafe extern "C" fn visit(object: *mut ffi::PyObject, look: *mut c_void) -> c_int {
    // SAFETY: `each_referent` passes this.
    let look = unsafe { &mut *look.cast::<&mut dyn FnMut(usize)>() };
    look(object as usize);
    0
}

/// Dicts and tuples that an object is made of, and that nobody else has: the arguments of an exception. Of an instance its dict, if it is an
/// object by now, whoever has that.
fn parts_of(object: &Obj) -> Vec<Obj> {
    let mut parts = Vec::new();
    if is_machine(object) {
        return parts;
    }
    // SAFETY: live objects.
    unsafe {
        let is_instance = ffi::PyType_HasFeature(ffi::Py_TYPE(object.ptr()), ffi::Py_TPFLAGS_HEAPTYPE) != 0;
        each_referent(object, &mut |id| {
            let part = id as *mut ffi::PyObject;
            let is_alone = ffi::Py_REFCNT(part) == 1 && ffi::PyTuple_CheckExact(part) != 0;
            if is_alone || ffi::PyDict_CheckExact(part) != 0 && (is_instance || ffi::Py_REFCNT(part) == 1) {
                parts.push(Obj::borrowed(part));
            }
        });
    }
    parts
}

impl Vm {
    /// This machine goes on where an earlier part of the call ended.
    pub fn adopt_suspended(&mut self) {
        match self.rec.is_some() {
            true => self.suspended.adopt(),
            false => self.suspended.expected.clear(),
        }
    }

    /// What this machine did never happened: nothing is closed.
    pub fn undo_suspended(&self) {
        spend(&self.suspended.list);
    }

    /// What is not told yet is made by later calls, too: the collector of garbage may find it.
    pub fn keep_told(&mut self) {
        self.told = self.suspended.told().cloned().collect();
    }

    /// Nothing is recorded any more, so that all references are the program's: each goes when the last of them does.
    pub fn forget_suspended(&mut self) {
        let kept = std::mem::take(&mut self.suspended.kept);
        self.suspended = Suspended { kept, ..Suspended::default() };
    }

    /// The outermost frame returns, and holds objects that are told when they go: its variables go first, so that what they do then is done as in any
    /// other place. The frame returns again behind that.
    pub fn lets_go_first(&mut self, value: &Val) -> bool {
        let [frame] = &mut self.frames[..] else { return false };
        let is_watched = |value: &Val| {
            self.suspended.list.iter().any(|object| !object.bind().is_instance_of::<VmGenerator>() && !object.is(&value.obj))
        };
        if self.rec.is_none() || frame.generator.is_some() || !is_watched(value) || frame.locals.iter().all(Option::is_none) {
            return false;
        }
        let frame = self.frames.pop().expect("there is one");
        self.leave_suspended(&frame);
        self.frames.push(frame);
        let frame = self.frame();
        frame.locals.iter_mut().for_each(|local| *local = None);
        frame.stack.push(Some(value.clone()));
        frame.pc -= 1;
        true
    }

    /// A frame is left.
    pub fn leave_suspended(&mut self, frame: &Frame) {
        if !self.suspended.list.is_empty() {
            self.find_carriers();
            self.suspended.leave(frame);
        }
    }

    /// An exception leaves a frame, and keeps what that held.
    pub fn leave_by_exception(&mut self, frame: &Frame, error: &PyErr) {
        self.leave_suspended(frame);
        let (known, is_plain) = (self.suspended.known(), self.rec.is_none());
        let is_kept = |object: &Obj| known.contains(&object.id()) || (is_plain && object.bind().is_instance_of::<VmGenerator>());
        let held: Vec<Obj> = values_of(frame).map(|value| &value.obj).filter(|object| is_kept(object)).cloned().collect();
        if !held.is_empty() {
            self.suspended.keep(error.value(crate::obj::py()).clone().into(), held);
        }
    }

    /// Exceptions that are gone keep nothing.
    fn let_go_with_exceptions(&mut self) {
        let kept = std::mem::take(&mut self.suspended.kept);
        let is_gone = |exception: &Obj| {
            let here = kept.iter().filter(|(other, _)| other.is(exception)).count();
            let recorded = self.rec.as_ref().map_or(0, |rec| rec.holding(exception));
            references(exception) <= here + recorded + self.suspended.by_dead(exception)
        };
        let gone: Vec<bool> = kept.iter().map(|(exception, _)| is_gone(exception)).collect();
        self.suspended.kept = kept.into_iter().zip(gone).filter(|(_, gone)| !gone).map(|(kept, _)| kept).collect();
    }

    /// The next instruction is the first of closing those that there are.
    pub fn close_abandoned(&mut self) -> R<()> {
        if !self.suspended.kept.is_empty() {
            self.let_go_with_exceptions();
        }
        if self.suspended.list.is_empty() {
            return Ok(());
        }
        let generators = self.take_abandoned();
        if generators.is_empty() {
            return Ok(());
        }
        if self.rec.is_some() && self.waiting == 0 {
            let finalisers: Vec<Obj> =
                generators.iter().map(|object| finaliser(&object.class()).unwrap_or_else(Obj::none)).collect();
            let finalisers = self.pinned(tuple_of(&finalisers)?);
            let called =
                self.call_library("abandon", std::iter::once(finalisers).chain(generators.into_iter().map(Val::from)).collect())?;
            self.drop_result(called);
        } else {
            generators.iter().for_each(|generator| self.close_now(generator));
        }
        Ok(())
    }

    /// The outermost frame is gone, with what its variables held. An exception that leaves it keeps them alive in CPython; nobody could close
    /// them later.
    pub fn close_abandoned_at_the_end(&mut self) {
        if self.frames.is_empty() {
            self.suspended.kept.clear();
        }
        while self.frames.is_empty() && !self.suspended.list.is_empty() && !self.fatal {
            self.find_carriers();
            let generators = self.take_abandoned();
            if generators.is_empty() {
                break;
            }
            generators.iter().for_each(|generator| self.close_now(generator));
        }
    }

    /// What it raises then has nowhere to go.
    fn close_now(&mut self, generator: &Obj) {
        let (source, done) = match (generator.bind().cast::<VmGenerator>(), finaliser(&generator.class())) {
            (Ok(bound), _) => (generator.clone(), self.generator_method(&bound.clone(), "close", Args::default()).map(drop)),
            (_, Some(finaliser)) => {
                let method = self.pinned(finaliser.clone());
                (finaliser, self.call_now(&method, Args::positional(vec![generator.clone().into()])).map(drop))
            }
            _ => return,
        };
        if let Err(error) = done {
            error.write_unraisable(crate::obj::py(), Some(source.bind()));
        }
    }

    /// All that are abandoned by now, in the order in which they are to be closed.
    fn take_abandoned(&mut self) -> Vec<Obj> {
        if self.rec.is_some() && self.has_unknown_holders() {
            self.find_carriers();
            self.suspended.counted.clear();
            self.has_unknown_holders();
        }
        let buried = self.suspended.dead.len();
        self.bury_carriers();
        let list = std::mem::take(&mut self.suspended.list);
        let (mut gone, alive): (Vec<Obj>, Vec<Obj>) = list.into_iter().partition(|generator| self.is_abandoned(generator));
        let places = std::mem::take(&mut self.suspended.places);
        gone.sort_by_key(|generator| places.get(&generator.id()).copied().unwrap_or(usize::MAX));
        let gone = innermost_first(in_order_of_items(gone, &self.suspended.dead[buried..]));
        self.suspended.list = alive.into_iter().filter(|generator| !contains(&gone, generator)).collect();
        let (generators, objects): (Vec<&Obj>, Vec<&Obj>) =
            gone.iter().partition(|object| object.bind().is_instance_of::<VmGenerator>());
        self.suspended.closed.extend(generators.into_iter().cloned());
        for object in objects {
            self.spend_gone(object);
            self.suspended.forget(object);
            // What it holds goes when its method has returned.
            if !self.suspended.list.is_empty() {
                self.suspended.carry(object.clone());
            }
        }
        spend(&gone);
        gone
    }

    fn is_abandoned(&self, generator: &Obj) -> bool {
        let recorded = self.rec.as_ref().map_or(0, |rec| rec.holding(generator));
        // One reference is the list's.
        references(generator) <= 1 + recorded + self.suspended.by_dead(generator)
    }

    /// Whether something new holds one of them that is neither a frame nor a carrier. A frame may have handed one over to it, so that there are as many
    /// references as before.
    fn has_unknown_holders(&mut self) -> bool {
        let mut is_any = false;
        for n in 0..self.suspended.list.len() + self.suspended.carriers.len() {
            let object = self.suspended.list.iter().chain(&self.suspended.carriers).nth(n).expect("counted");
            let (id, count) = (object.id(), (references(object), self.held_by_frames(object)));
            let (before, unknown) = self.suspended.counted.get(&id).copied().unwrap_or_default();
            if before != count {
                let now = self.unknown_holders(object);
                is_any |= now > unknown;
                self.suspended.counted.insert(id, (count, now));
            }
        }
        is_any
    }

    fn held_by_frames(&self, object: &Obj) -> usize {
        self.frames.iter().flat_map(values_of).filter(|value| value.obj.is(object)).count()
    }

    fn unknown_holders(&self, object: &Obj) -> usize {
        let alone = FxHashSet::from_iter([object.id()]);
        let by_carriers: usize = self.suspended.carriers.iter().map(|carrier| held_by(carrier, &alone).len()).sum();
        let by_rec = self.rec.as_ref().map_or(0, |rec| rec.holding(object));
        let by_dead = self.suspended.by_dead(object);
        // One reference is the list's.
        references(object).saturating_sub(1 + by_rec + by_dead + by_carriers + self.held_by_frames(object))
    }

    /// What holds them, by whatever way, of all that the recording keeps alive.
    fn find_carriers(&mut self) {
        let Some(rec) = self.rec.as_ref() else { return };
        let mut holders: Vec<Obj> = rec.made_objects();
        let parts: FxHashMap<usize, Obj> = holders.iter().flat_map(parts_of).map(|part| (part.id(), part)).collect();
        holders.extend(parts.into_values().filter(|part| rec.holding(part) == 0));
        let mut held: Vec<(usize, usize)> = Vec::new();
        for (n, holder) in holders.iter().enumerate() {
            each_referent(holder, &mut |id| held.push((id, n)));
        }
        let mut known = self.suspended.known();
        known.extend(self.suspended.dead.iter().map(Obj::id));
        loop {
            let is_new = |(id, n): &&(usize, usize)| known.contains(id) && !known.contains(&holders[*n].id());
            let found: FxHashSet<usize> = held.iter().filter(is_new).map(|(_, n)| *n).collect();
            // With more than that, it is closed when the call ends at the latest.
            if found.is_empty() || self.suspended.carriers.len() + found.len() > MANY {
                break;
            }
            for n in found {
                known.insert(holders[n].id());
                self.suspended.carry(holders[n].clone());
            }
        }
    }

    fn bury_carriers(&mut self) {
        let Some(rec) = self.rec.as_ref() else { return };
        loop {
            let is_dead = |carrier: &Obj| {
                // One reference is the list's.
                references(carrier) <= 1 + rec.holding(carrier) + self.suspended.by_dead(carrier)
            };
            let Some(at) = self.suspended.carriers.iter().position(is_dead) else { break };
            self.suspended.bury(at);
        }
    }
}
