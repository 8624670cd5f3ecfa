//! Which checks of a trace cannot fail before something changes that is watched.

use super::fields::{hold_field, hold_version};
use super::setters::{body_is_told, class_is_told, dict_is_told};
use super::signal::Signal;
use super::slot::Anchor;
use super::watch::Watches;
use crate::attr::type_lookup;
use crate::backend::Backend;
use crate::builtins;
use crate::guard::{Check, Context, slot_of};
use crate::obj::{Obj, dict_get, entries_of, items_of};
use crate::recipe::Recipe;
use crate::source::{Key, Source, SourceId, Sources, Values, instance_dict};
use crate::tree::Effect;
use crate::types::types;
use ox_gauge::{Depth, Words};
use pyo3::ffi;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::mem::offset_of;
use std::rc::Rc;

pub struct Study<'a, 'b> {
    pub sources: &'a Sources,
    pub backend: &'a dyn Backend,
    pub values: &'a mut Values<'b>,
    pub watches: Watches,
    pub words: Words,
    /// Sources whose value stays what it is until something watched changes. All of those values are kept alive.
    pub stable: FxHashMap<SourceId, bool>,
    /// Instances whose dicts are watched, but not the place that refers to them.
    pub owners: Vec<(Obj, usize)>,
    pub watched: FxHashSet<usize>,
    /// Tensors that the words describe, memory and all.
    pub portrayed: FxHashSet<usize>,
    /// Arguments that are the same objects in the calls that this is for.
    pub anchors: SmallVec<[Anchor; 1]>,
    /// Whether other objects are looked at in every call.
    pub only_modules: bool,
    signal: Rc<Signal>,
    /// Places that the trace itself writes.
    written: FxHashSet<(SourceId, Key)>,
}

impl<'a, 'b> Study<'a, 'b> {
    /// None where CPython does not tell of changes.
    pub fn new(
        effects: &[Effect],
        context: &Context<'a>,
        values: &'a mut Values<'b>,
        signal: &Rc<Signal>,
    ) -> Option<Study<'a, 'b>> {
        Some(Study {
            sources: context.sources,
            backend: context.backend,
            values,
            watches: Watches::new(signal)?,
            words: Words::default(),
            stable: Default::default(),
            owners: Vec::new(),
            watched: Default::default(),
            portrayed: Default::default(),
            anchors: SmallVec::new(),
            only_modules: false,
            signal: signal.clone(),
            written: effects.iter().filter_map(place_of).map(|(of, key)| (owner_of(context.sources, of), key)).collect(),
        })
    }

    /// The values of sources that stay what they are. Arguments come with each call.
    pub fn values_that_stay(&mut self) -> Vec<Option<Obj>> {
        let mut base = Vec::new();
        let stable: Vec<SourceId> = self.stable.iter().filter(|(_, stable)| **stable).map(|(id, _)| *id).collect();
        for id in stable.into_iter().filter(|id| !matches!(self.sources.get(*id), Source::Arg(_))) {
            let at = id.0 as usize;
            base.resize(base.len().max(at + 1), None);
            base[at] = self.value(id);
        }
        base
    }
}

impl Study<'_, '_> {
    fn value(&mut self, id: SourceId) -> Option<Obj> {
        self.values.get(self.sources, id)
    }

    /// Whether the check cannot fail before something watched changes.
    pub fn is_settled(&mut self, check: &Check) -> bool {
        match check {
            Check::Is(id, _) | Check::Equal(id, _) => self.is_stable(*id),
            Check::Same(a, b) | Check::Different(a, b) => self.is_stable(*a) && self.is_stable(*b),
            Check::Apart(ids) => ids.iter().all(|id| self.is_stable(*id)),
            Check::Type(id, _) => self.is_stable(*id) && self.hold_class(*id),
            Check::Len(id, _) => self.is_stable(*id) && self.hold_length(*id),
            Check::NoKey(id, key) | Check::HasKey(id, key) => {
                !self.is_written(*id, key) && self.is_stable(*id) && self.watch_dict(*id, Some(key))
            }
            Check::Keys(id, keys) => {
                self.is_stable(*id) && self.value(*id).is_some_and(|d| tells_order(&d, keys.len())) && self.watch_dict(*id, None)
            }
            // SAFETY: the trace holds the class with its checks.
            Check::Version(class, _) => unsafe {
                hold_version(&mut self.words, class);
                true
            },
            // SAFETY: the trace holds the function with its checks.
            Check::Code(function, code) => unsafe { hold_field(&mut self.words, function, "__code__", code) },
            Check::NoAttr(id, name) => self.is_stable(*id) && self.watch_attr(*id, name),
            Check::EmptySlot(id, member) => self.is_stable(*id) && self.hold_slot(*id, member),
            Check::Tensor(id, _) => self.is_stable(*id) && self.portray(*id),
            _ => false,
        }
    }

    /// An object of a class of C's keeps its class; any other may be given another.
    fn hold_class(&mut self, id: SourceId) -> bool {
        let Some(object) = self.value(id) else { return false };
        // SAFETY: a live class.
        let fixed = unsafe { ffi::PyType_HasFeature(object.class_ptr(), ffi::Py_TPFLAGS_IMMUTABLETYPE) != 0 };
        let is_portrayed = object.is_instance_of(types().tensor) && self.portray(id);
        if is_portrayed || (fixed && !object.is_instance_of(types().module)) {
            return true;
        }
        if class_is_told() {
            self.watches.add_object(&object);
        } else {
            // SAFETY: the header of an object that is kept alive.
            unsafe { self.words.add(Depth::Object, object.ptr().cast::<u8>().add(offset_of!(ffi::PyObject, ob_type)).cast(), 1) };
        }
        true
    }

    /// The length of a list stands in its header; a tuple's does not change.
    fn hold_length(&mut self, id: SourceId) -> bool {
        let Some(object) = self.value(id) else { return false };
        if object.class_is(types().list) {
            // SAFETY: the header of an exact list that is kept alive.
            unsafe {
                self.words.add(Depth::Object, object.ptr().cast::<u8>().add(offset_of!(ffi::PyVarObject, ob_size)).cast(), 1)
            };
            return true;
        }
        object.class_is(types().tuple) || (object.class_is(types().dict) && self.watches.add(&object, None))
    }

    /// The class of a tensor, and what torch keeps of it (sizes, strides, type, device, where its memory is), stay as they are.
    fn portray(&mut self, id: SourceId) -> bool {
        let Some(tensor) = self.value(id) else { return false };
        if self.portrayed.contains(&tensor.id()) {
            return true;
        }
        let is_told = class_is_told() && body_is_told();
        if is_told {
            self.watches.add_object(&tensor);
        }
        self.backend.portray(&tensor, is_told, &mut self.words) && self.portrayed.insert(tensor.id())
    }

    fn watch_dict(&mut self, id: SourceId, key: Option<&Obj>) -> bool {
        let Some(dict) = self.value(id).filter(|d| d.is_instance_of(types().dict)) else { return false };
        self.watches.add(&dict, key)
    }

    /// An attribute that lies in the instance's dict, in a slot, or is a part of a function. What the class says of the name is a check of its own.
    fn hold_attr(&mut self, of: SourceId, name: &Obj, id: SourceId) -> bool {
        let Some(owner) = self.value(of) else { return false };
        if let Some(name) = name.to_str().filter(|_| owner.class_is(types().function) || owner.class_is(types().code))
            && self.hold_member(of, &name, id)
        {
            return true;
        }
        if instance_dict(&owner).is_some_and(|dict| dict_get(&dict, name).is_some()) {
            return self.watch_attr(of, name);
        }
        type_lookup(&owner.class(), name).is_some_and(|member| self.hold_slot(of, &member))
    }

    /// An instance's entry.
    fn watch_attr(&mut self, id: SourceId, name: &Obj) -> bool {
        self.watch_owner(id).is_some_and(|dict| self.watches.add(&dict, Some(name)))
    }

    /// The dict of an instance, which may be given another one as a whole.
    fn watch_owner(&mut self, id: SourceId) -> Option<Obj> {
        let owner = self.value(id)?;
        let dict = instance_dict(&owner)?;
        if self.watched.insert(owner.id()) {
            match dict_place(&owner, &dict) {
                Some(_) if dict_is_told(&owner) => self.watches.add_object(&owner),
                // SAFETY: a part of an object that is kept alive, or is in the call's hands.
                Some(place) => unsafe { self.words.add(Depth::Object, place, 1) },
                None if self.is_anchored(&owner) => return None,
                None => self.owners.push((owner, dict.id())),
            }
        }
        Some(dict)
    }

    /// Whether the trace itself writes there.
    fn is_written(&self, of: SourceId, key: &Obj) -> bool {
        self.written.contains(&(owner_of(self.sources, of), Key(key.clone())))
    }

    pub fn is_stable(&mut self, id: SourceId) -> bool {
        if let Some(known) = self.stable.get(&id) {
            return *known;
        }
        let stable = self.find_stable(id);
        self.stable.insert(id, stable);
        stable
    }

    fn find_stable(&mut self, id: SourceId) -> bool {
        match self.sources.get(id) {
            Source::Root | Source::Pinned(_) => self.value(id).is_some(),
            Source::Arg(n) => self.anchor(*n as usize),
            Source::Attr(of, key) | Source::Value(of, key) if self.is_written(*of, &key.0) => false,
            Source::Cell(of) if self.is_written(*of, &Obj::none()) => false,
            Source::Attr(of, name) => self.is_stable(*of) && self.hold_attr(*of, &name.0, id),
            Source::Dict(of) => self.is_stable(*of) && self.watch_owner(*of).is_some(),
            Source::Value(of, key) => self.is_stable(*of) && self.watch_dict(*of, Some(&key.0)),
            Source::Item(of, n) => self.is_stable(*of) && self.hold_item(*of, *n as usize),
            Source::Cell(of) => self.is_stable(*of) && self.hold_contents(*of, id),
            Source::Member(of, name) => self.is_stable(*of) && self.hold_member(*of, name, id),
            Source::Compute(function, args) => {
                let keys_only = builtins::reads_keys_only(&function.0);
                let is_stable = |study: &mut Self, arg: &SourceId| study.is_stable_data(*arg, keys_only);
                !args.is_empty() && builtins::reads_data_only(&function.0) && args.iter().all(|arg| is_stable(self, arg))
            }
            _ => false,
        }
    }

    /// An argument that later calls may bring again.
    fn anchor(&mut self, argument: usize) -> bool {
        let object =
            self.values.args.get(argument).filter(|object| !self.only_modules || object.is_instance_of(types().nn_module));
        let anchor = object.and_then(|object| Anchor::new(argument, object, &self.signal));
        let found = anchor.is_some();
        self.anchors.extend(anchor);
        found
    }

    fn is_anchored(&self, object: &Obj) -> bool {
        self.anchors.iter().any(|anchor| anchor.is(object))
    }

    /// A list's item: its length, the place of its items, and the item.
    fn hold_item(&mut self, of: SourceId, n: usize) -> bool {
        let Some(list) = self.value(of) else { return false };
        if list.class_is(types().tuple) {
            return true;
        }
        if !list.class_is(types().list) || !self.hold_length(of) {
            return false;
        }
        // SAFETY: an exact list that is kept alive; the item is there as long as length and place are what they are.
        unsafe {
            let list = list.ptr().cast::<ffi::PyListObject>();
            if n >= (*list).ob_base.ob_size as usize {
                return false;
            }
            self.words.add(Depth::Object, (&raw const (*list).ob_item).cast(), 1);
            self.words.add(Depth::Body, (*list).ob_item.add(n).cast(), 1);
        }
        true
    }

    /// A cell holds nothing but its contents, behind its header.
    fn hold_contents(&mut self, of: SourceId, id: SourceId) -> bool {
        let (Some(cell), Some(contents)) = (self.value(of), self.value(id)) else { return false };
        if !cell.class_is(types().cell) {
            return false;
        }
        // SAFETY: a cell that is kept alive is a header and one pointer.
        unsafe {
            let place = cell.ptr().add(1).cast::<usize>();
            *place == contents.id() && {
                self.words.add(Depth::Object, place, 1);
                true
            }
        }
    }

    /// What is in a slot, or that nothing is.
    fn hold_slot(&mut self, of: SourceId, member: &Obj) -> bool {
        let slot = self.value(of).and_then(|owner| slot_of(member, &owner));
        // SAFETY: a part of an object that is kept alive, or is in the call's hands.
        slot.is_some_and(|slot| {
            unsafe { self.words.add(Depth::Object, slot, 1) };
            true
        })
    }

    /// Parts of functions, methods and code that cannot be set, and those of functions that can. An entry of a cache leaves it before it gets another result.
    fn hold_member(&mut self, of: SourceId, name: &str, id: SourceId) -> bool {
        let (Some(owner), Some(value)) = (self.value(of), self.value(id)) else { return false };
        crate::vm::cached::is_part(name)
            || owner.class_is(types().code)
            || (owner.class_is(types().function) && matches!(name, "__closure__" | "__globals__"))
            || (owner.class_is(types().method) && matches!(name, "__self__" | "__func__"))
            // SAFETY: the function is kept alive, or is in the call's hands.
            || unsafe { hold_field(&mut self.words, &owner, name, &value) }
    }

    /// Data that cannot change by itself, or a dict of such data that is watched: what lies deeper is not.
    fn is_stable_data(&mut self, id: SourceId, keys_only: bool) -> bool {
        if !self.is_stable(id) {
            return false;
        }
        let Some(value) = self.value(id) else { return false };
        if !value.is_instance_of(types().dict) {
            return is_data(&value);
        }
        // An OrderedDict changes its order without a word.
        let is_flat = || value.class_is(types().dict) && entries_of(&value).iter().all(|(_, item)| is_data(item));
        (keys_only || is_flat()) && self.watches.add(&value, None)
    }
}

fn is_data(object: &Obj) -> bool {
    let is_one = |object: &Obj| types().is_scalar(object) || types().is_pinnable(object);
    is_one(object) || (object.class_is(types().tuple) && items_of(object).iter().all(is_one))
}

/// Whether we hear of it when a dict has other keys, or gives them in another order. An OrderedDict changes that without a word, if there are several.
fn tells_order(dict: &Obj, keys: usize) -> bool {
    dict.class_is(types().dict) || keys <= 1
}

/// An instance, if this is its dict: its attributes are the entries.
fn owner_of(sources: &Sources, id: SourceId) -> SourceId {
    match sources.get(id) {
        Source::Dict(of) => *of,
        _ => id,
    }
}

/// The place that an effect writes, if it names one: an attribute, an item or the contents of a cell.
fn place_of(effect: &Effect) -> Option<(SourceId, Key)> {
    match &effect.args[..] {
        [Recipe::Source(of), Recipe::Const(key), _] => Some((*of, Key(key.clone()))),
        [Recipe::Source(of), _] => Some((*of, Key(Obj::none()))),
        _ => None,
    }
}

/// Where an instance refers to its dict: at the offset that its class gives, or in front of the object.
fn dict_place(owner: &Obj, dict: &Obj) -> Option<*const usize> {
    /// CPython 3.12 keeps it three words before an object whose dict it manages.
    const MANAGED: isize = -3;
    // SAFETY: a live object. The place is inside of it if its class says so; the one in front exists for managed dicts only.
    unsafe {
        let class = owner.class_ptr();
        let place = match (*class).tp_dictoffset {
            offset if offset > 0 => owner.ptr().cast::<u8>().offset(offset).cast::<usize>(),
            _ if crate::source::has_managed_dict(class) => owner.ptr().cast::<usize>().offset(MANAGED),
            _ => return None,
        };
        (*place == dict.id()).then_some(place.cast_const())
    }
}
