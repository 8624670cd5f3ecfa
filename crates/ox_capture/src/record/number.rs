//! Numbers that the graph is given with every call, and numbers inside of containers that the machine made.
//!
//! A slot of the machine carries a number's source. Where such a number is packed into the tuple or dict of a call's arguments, a note is
//! kept of what it was, so that it is still free when it is unpacked.

use super::{Origin, Recording, Val};
use crate::interrupt::Quiet;
use crate::obj::{Obj, entries_of, items_of, keys_but_texts};
use crate::source::{Key, Source, SourceId};
use crate::state::TorchState;
use crate::types::types;
use pyo3::prelude::*;
use rustc_hash::FxHashMap;

/// By container: what stands where, and its source.
#[derive(Default)]
pub struct Stowed(FxHashMap<usize, Vec<(Key, Obj, SourceId)>>);

/// How deep containers are searched for numbers whose values are relied on.
pub const DEPTH: usize = 4;
/// What is computed of a number is looked through that far, since a recursion may go on with it.
const MOST_STEPS: usize = 32;

impl Recording {
    /// Notes that a free number was put into a container of this segment's.
    pub fn stow(&mut self, container: &Obj, key: Obj, value: &Val) {
        if value.free.is_some() {
            self.register(container, Origin::Made);
            self.stow_outside(container, &key, value);
        }
    }

    /// Notes what was stored at a place that others see: a free number is still free when it is read there again. What stood there before is
    /// forgotten.
    pub fn stow_outside(&mut self, object: &Obj, key: &Obj, value: &Val) {
        let key = own_key(object, key);
        if let Some(places) = self.stowed.0.get_mut(&object.id()) {
            places.retain(|(known, ..)| *known != key);
        }
        if let Some(source) = value.free {
            self.stowed.0.entry(object.id()).or_default().push((key, value.obj.clone(), source));
        }
    }

    /// The source of a number at this place, if it is the one that was put there.
    pub fn stowed_at(&self, container: &Obj, key: &Obj, object: &Obj) -> Option<SourceId> {
        let places = self.stowed.0.get(&container.id())?;
        let wanted = own_key(container, key);
        places.iter().find(|(key, value, _)| *key == wanted && value.is(object)).map(|(.., source)| *source)
    }

    /// Somebody reads the container who does not ask where its numbers came from.
    pub(super) fn settle_inside(&mut self, container: &Obj, depth: usize) {
        if self.stowed.0.is_empty() || depth == 0 {
            return;
        }
        let places = self.stowed.0.remove(&container.id());
        let types = types();
        // A tuple of numbers that are all relied on is a constant again.
        let is_flat = [types.tuple, types.slice, types.range].iter().any(|class| container.class_is(*class));
        if places.is_some() && is_flat && self.origin(container) == Origin::Made {
            self.ids.remove(&container.id());
        }
        for (_, value, source) in places.unwrap_or_default() {
            self.check_equal(source, &value);
        }
        if container.is_instance_of(types.list) || container.is_instance_of(types.tuple) {
            items_of(container).iter().for_each(|item| self.settle_inside(item, depth - 1));
        } else if container.is_instance_of(types.dict) {
            entries_of(container).iter().for_each(|(_, value)| self.settle_inside(value, depth - 1));
        }
    }

    /// The same for all but expressions of sizes, which stay free.
    pub fn settle_but_sizes(&mut self, container: &Obj, depth: usize) {
        self.settle_but(container, depth, |rec, _, source| rec.expr_of(source).is_some());
    }

    /// The same where what a graph takes as an input is as free.
    pub fn settle_but_free(&mut self, container: &Obj, depth: usize) {
        let is_given = |rec: &Recording, value: &Obj, source| {
            value.class_is(types().float) && rec.is_run_time(&Val { obj: value.clone(), free: Some(source) }).is_some()
        };
        self.settle_but(container, depth, |rec, value, source| rec.expr_of(source).is_some() || is_given(rec, value, source));
    }

    fn settle_but(&mut self, container: &Obj, depth: usize, stays: impl Fn(&Recording, &Obj, SourceId) -> bool + Copy) {
        if self.stowed.0.is_empty() || depth == 0 {
            return;
        }
        // To all but the machine a range is a number of rounds.
        if container.class_is(types().range) {
            return self.settle_inside(container, 1);
        }
        let places = self.stowed.0.remove(&container.id()).unwrap_or_default();
        let (free, others): (Vec<_>, Vec<_>) = places.into_iter().partition(|(_, value, source)| stays(self, value, *source));
        others.iter().for_each(|(_, value, source)| self.check_equal(*source, value));
        if !free.is_empty() {
            self.stowed.0.insert(container.id(), free);
        }
        let types = types();
        if container.is_instance_of(types.list) || container.is_instance_of(types.tuple) {
            items_of(container).iter().for_each(|item| self.settle_but(item, depth - 1, stays));
        } else if container.is_instance_of(types.dict) {
            entries_of(container).iter().for_each(|(_, value)| self.settle_but(value, depth - 1, stays));
        }
    }

    /// The items of a list have been moved: these stand there now.
    pub fn stow_anew(&mut self, list: &Obj, items: &[Val]) {
        self.stowed.0.remove(&list.id());
        items.iter().enumerate().for_each(|(n, item)| self.stow(list, Obj::int(n as i64), item));
    }

    pub fn has_stowed(&self, container: &Obj) -> bool {
        self.stowed.0.contains_key(&container.id())
    }

    /// What stands at this place is replaced.
    pub fn forget_place(&mut self, container: &Obj, key: &Obj) {
        // A list has other names for its places: from the end, and slices.
        if container.is_instance_of(types().list)
            && !key.bind().extract::<usize>().quiet().is_some_and(|_| key.class_is(types().int))
        {
            return self.forget_places(container);
        }
        if let Some(places) = self.stowed.0.get_mut(&container.id()) {
            let wanted = own_key(container, key);
            places.retain(|(key, ..)| *key != wanted);
        }
    }

    /// What stands at places is replaced or moved.
    pub fn forget_places(&mut self, container: &Obj) {
        self.settle_inside(container, 1);
    }

    pub(super) fn settle_container(&mut self, container: &Obj) {
        self.settle_inside(container, DEPTH);
    }

    /// Containers that nobody holds any more: another object may get the address.
    pub(super) fn forget_stowed_garbage(&mut self) {
        self.stowed.0.retain(|id, _| self.ids.contains_key(id));
    }

    /// Behind an action: what could change it has seen. Tuples that an earlier segment has built hold the numbers that they held.
    pub(super) fn forget_stowed(&mut self) {
        let is_lasting = |id: &usize| match self.ids.get(id) {
            Some((Origin::Outside(_), Some(object))) => object.is_instance_of(types().tuple),
            _ => false,
        };
        self.stowed.0.retain(|id, _| is_lasting(id));
    }

    /// Whether a graph takes the number as an input: its value was seen to change, or it is a setting of an optimizer's. Not where autocast
    /// looks at the arguments of a call.
    pub fn is_run_time(&self, number: &Val) -> Option<SourceId> {
        let source = number.free?;
        if TorchState::now().quiet()?.autocast.is_on() {
            return None;
        }
        let fits = number.obj.class_is(types().float) || number.obj.bind().extract::<i64>().quiet().is_some();
        (fits && (self.is_of_optimizer(source) || self.varies(source))).then_some(source)
    }

    /// Whether it was seen to change, or is computed of variables. A number that was computed in more steps than that is a constant.
    pub(super) fn varies(&self, source: SourceId) -> bool {
        let (sources, varying) = (self.tree.sources.read(), self.tree.varying.read());
        let varies = |id: SourceId| {
            matches!(sources.get(id), Source::Expr(_)) || !varying.is_empty() && varying.contains(&sources.show(id))
        };
        sources.operands(source).into_iter().any(|(id, steps)| steps <= MOST_STEPS && varies(id))
    }

    /// Whether some item of a list or tuple from outside was seen to change.
    pub fn varies_inside(&self, sequence: &Obj) -> bool {
        let Origin::Outside(source) = self.origin(sequence) else { return false };
        let varying = self.tree.varying.read();
        if varying.is_empty() {
            return false;
        }
        let place = self.tree.sources.read().show(source);
        (0..items_of(sequence).len()).any(|n| varying.contains(&format!("{place}[{n}]")))
    }

    pub(super) fn is_of_optimizer(&self, source: SourceId) -> bool {
        let sources = self.tree.sources.read();
        let is_part = |id: SourceId| match sources.get(id) {
            Source::Attr(of, _) | Source::Item(of, _) | Source::Value(of, _) | Source::Dict(of) => self.is_of_optimizer(*of),
            _ => false,
        };
        sources.operands(source).into_iter().any(|(id, _)| self.optimizers.contains(&id) || is_part(id))
    }
}

/// The key under which a dict holds what it finds by an equal one: `d[True]` is the place of `d[1]`.
pub(super) fn own_key(container: &Obj, key: &Obj) -> Key {
    let types = types();
    let is_plain = |key: &Obj| types.is_scalar(key) || types.is_enum(key) || key.is_instance_of(types.tuple);
    let is_it = |own: &Obj| own.is(key) || (is_plain(own) && is_plain(key) && own.bind().eq(key.bind()).quiet().unwrap_or(false));
    // Equal texts are one key. Only members of enumerations may be equal to a text beside it, and most tables have none.
    let keys = || match key.class_is(types.str) {
        true => keys_but_texts(container),
        false => entries_of(container).into_iter().map(|(own, _)| own).collect(),
    };
    let own = if container.is_instance_of(types.dict) { keys().into_iter().find(is_it) } else { None };
    Key(own.unwrap_or_else(|| key.clone()))
}
