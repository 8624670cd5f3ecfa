//! Loops that are nothing but cuts and a few operations between them: eager does them as well, and what the data decides in each turn would
//! be traced anew for other data.

use super::{Attach, Vm};
use crate::policy::error_on_graph_break;
use crate::tree::Segment;
use std::rc::Rc;

/// Graphs of fewer operations are hardly worth their calls.
const FEW: usize = 8;
/// If so many of them, one behind the other, have fewer in the mean, then what they are of is not worth recording.
const MANY: usize = 32;

/// A graph that ended before its trace did.
pub(super) struct Crumb {
    /// The user's line at which it ended.
    location: String,
    /// Its operations.
    calls: usize,
    /// Where the segment stands.
    before: Attach,
    segment: Rc<Segment>,
}

impl Vm {
    pub(super) fn note_crumb(&mut self, calls: usize, before: Attach, segment: Rc<Segment>) {
        if calls > 0 {
            self.crumbs.push(Crumb { location: self.location(), calls, before, segment });
        }
    }

    /// Gives a loop of crumbs up: from the first of them on it is Python's, in later calls, too, whatever they decide in it.
    pub(super) fn sweep_crumbs(&mut self, why: &str) {
        let Some(first) = self.first_of_many_crumbs().filter(|_| self.rec.is_some()) else { return };
        let why = format!("{why}; in a loop that is cut every few operations");
        self.give_up(&why);
        let Crumb { before, segment, .. } = &self.crumbs[first];
        before.branches(&self.tree).give_up(segment, why);
    }

    fn first_of_many_crumbs(&self) -> Option<usize> {
        let first = self.crumbs.len().checked_sub(MANY)?;
        let last = &self.crumbs[first..];
        let location = self.location();
        let is_loop = last.iter().filter(|crumb| crumb.location == location).count() > 1;
        let are_small = last.iter().map(|crumb| crumb.calls).sum::<usize>() < MANY * FEW;
        // A graph of many operations in front of the loop is worth its call.
        let small = last.iter().position(|crumb| crumb.calls < FEW)?;
        (is_loop && are_small && !self.settings.fullgraph && !error_on_graph_break()).then_some(first + small)
    }
}
