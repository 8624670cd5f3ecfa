//! What the program has written in this segment, and what stood there before.

use super::number::own_key;
use super::relied::is_set;
use super::{Origin, Original, REMEMBERED, Rec, Recording, inspect};
use crate::obj::{Obj, entries_of, items_of};
use crate::source::instance_dict;
use crate::types::types;

impl Recording {
    /// The instance's dict is asked for. That of an object made here is no object of its own: it has no recipe, but what it holds is known.
    pub fn note_dict(&mut self, object: &Obj, dict: &Obj) {
        if self.origin(object) == Origin::Made {
            self.dicts_of_made.insert(dict.id(), dict.clone());
        }
    }

    pub fn is_dict_of_made(&self, dict: &Obj) -> bool {
        self.dicts_of_made.contains_key(&dict.id())
    }

    // Locations.

    pub fn is_written(&self, object: &Obj, key: &Obj) -> bool {
        self.written.get(&object.id()).is_some_and(|keys| keys.contains(&own_key(object, key)))
    }

    /// Whether a later call finds other attributes first than the program sees now.
    pub fn has_writes(&self, object: &Obj) -> bool {
        let is_written = |place: &Obj| self.has_writes_to(place) || self.is_resized(place);
        let is_outside = matches!(self.origin(object), Origin::Outside(_));
        is_outside && (is_written(object) || instance_dict(object).is_some_and(|dict| is_written(&dict)))
    }

    pub(super) fn has_writes_to(&self, object: &Obj) -> bool {
        self.written.contains_key(&object.id())
    }

    pub fn mark_written(&mut self, object: &Obj, key: &Obj) {
        self.written.entry(object.id()).or_default().insert(own_key(object, key));
    }

    pub fn is_opaque(&self, object: &Obj) -> bool {
        self.opaque.contains(&object.id())
    }

    /// To be called before the change.
    pub fn mark_opaque(&mut self, object: &Obj) {
        if !self.whole.contains(&object.id()) {
            self.remember(object);
            self.opaque.insert(object.id());
        }
    }

    fn remember(&mut self, object: &Obj) {
        let small = crate::guard::length(object).is_some_and(|len| len <= REMEMBERED);
        if !small || self.originals.contains_key(&object.id()) {
            return;
        }
        let original = match object.is_instance_of(types().dict) {
            true => Original::Entries(entries_of(object)),
            false if is_set(object) => Original::Items(inspect::members_of(object)),
            false => Original::Items(items_of(object)),
        };
        self.originals.insert(object.id(), original);
    }

    /// A container that was changed is read: what it held before is relied on now.
    pub fn recover(&mut self, object: &Obj) -> Rec<()> {
        if self.is_resized(object) { self.know_whole(object, &mut REMEMBERED.clone()) } else { Ok(()) }
    }

    /// To be called before the change.
    pub fn mark_keys_changed(&mut self, object: &Obj) {
        if !self.whole.contains(&object.id()) {
            self.remember(object);
            self.resized.insert(object.id());
        }
    }

    pub fn is_whole(&self, object: &Obj) -> bool {
        self.whole.contains(&object.id())
    }

    /// Whether a later call finds another size or other keys first than the program sees now.
    pub fn is_resized(&self, object: &Obj) -> bool {
        self.resized.contains(&object.id()) || self.opaque.contains(&object.id())
    }
}
