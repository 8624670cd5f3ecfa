//! Loops that are nothing but cuts and a few operations between them: eager does them as well, and what the data decides in each turn would
//! be traced anew for other data.

use super::{Attach, Vm};
use crate::policy::error_on_graph_break;
use crate::tree::Segment;
use std::rc::Rc;

/// Graphs of fewer operations are hardly worth their calls.
pub(super) const FEW: usize = 8;
/// If so many of them, one behind the other, have fewer in the mean, then what they are of is not worth recording.
const MANY: usize = 32;

/// A segment that ended before its trace did.
pub(super) struct Crumb {
    /// The user's line at which it ended.
    pub location: String,
    /// The operations of its graph.
    pub calls: usize,
    /// Where the segment stands.
    pub before: Attach,
    pub segment: Rc<Segment>,
}

impl Vm {
    pub(super) fn note_crumb(&mut self, calls: usize, before: Attach, segment: Rc<Segment>) {
        self.crumbs.push(Crumb { location: self.location(), calls, before, segment });
    }

    /// Gives a loop of crumbs up: the function that it is in is called as a whole, so that what its callers do behind it is recorded. Where there is
    /// none, all is Python's from the first crumb on, in later calls, too, whatever they decide in it.
    pub(super) fn sweep_crumbs(&mut self, why: &str) {
        let Some(first) = self.first_of_many_crumbs().filter(|_| self.rec.is_some()) else { return };
        let why = format!("{why}; in a loop that is cut every few operations");
        if self.closes_around(first, &why) {
            return self.lose_trace();
        }
        let Crumb { before, segment, .. } = &self.crumbs[first];
        let (before, segment) = (before.clone(), segment.clone());
        self.give_up_for_good(&why);
        before.branches(&self.tree).give_up(&segment, why);
    }

    /// Where it stands among all.
    fn first_of_many_crumbs(&self) -> Option<usize> {
        let crumbs = self.crumbs.iter().enumerate().rev();
        let mut last: Vec<(usize, &Crumb)> = crumbs.filter(|(_, crumb)| crumb.calls > 0).take(MANY).collect();
        last.reverse();
        let location = self.location();
        let is_loop = last.iter().filter(|(_, crumb)| crumb.location == location).count() > 1;
        let are_small = last.iter().map(|(_, crumb)| crumb.calls).sum::<usize>() < MANY * FEW;
        // A graph of many operations in front of the loop is worth its call.
        let (small, _) = last.iter().copied().find(|(_, crumb)| crumb.calls < FEW)?;
        let is_many = last.len() == MANY && is_loop && are_small;
        (is_many && !self.settings.fullgraph && !error_on_graph_break()).then_some(small)
    }
}
