//! The machine's iterators and generators, in the segments behind the one that built them.

use super::inspect::Inspection;
use super::{Origin, Rec, Recording};
use crate::guard::Check;
use crate::obj::Obj;
use crate::source::SourceId;
use crate::vm::is_moved;

impl Recording {
    /// This segment moves an iterator or generator on. False if its place is not known: other code has moved it, or another call gave it away
    /// and it has come back from outside.
    pub fn moves_on(&mut self, object: &Obj) -> bool {
        let Some(source) = self.machines.get(&object.id()).copied() else { return self.origin(object) == Origin::Made };
        if !is_moved(object) && self.moving.insert(object.id()) {
            self.checks.push(Check::Unmoved(source));
        }
        !is_moved(object)
    }

    /// Where one was built that this segment has not moved: it stands where it stood.
    pub fn resting(&self, object: &Obj) -> Option<SourceId> {
        self.machines.get(&object.id()).filter(|_| !self.moving.contains(&object.id())).copied()
    }

    /// Those that this segment has moved, as they are now, wherever they are held: what an earlier segment built is not looked into again.
    pub fn inspect_machines(&self, found: &mut Inspection) -> Rec<()> {
        let mut ids: Vec<_> = self.machines.iter().map(|(id, source)| (source.0, *id)).collect();
        ids.sort_unstable();
        let mut objects = ids.iter().filter_map(|(_, id)| self.ids.get(id)?.1.as_ref());
        objects.try_for_each(|object| self.recipe_of(object, found).map(drop))
    }
}
