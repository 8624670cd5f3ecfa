//! Functions in whose middle a trace cannot be left: what the machine holds there could not be made again by a later call. The trace in which that
//! is found out is lost. If the next one is, too, those behind it call the function as a whole, and what stands around the call is recorded.

use super::crumbs::{Crumb, FEW};
use super::{After, Attach, Frame, Vm};
use crate::log::{Topic, log};
use crate::policy::error_on_graph_break;

impl Vm {
    /// Nothing can be kept in the middle of the frame at this depth. This trace is lost if the next can go around the function in which that is;
    /// else the call is Python's from here on.
    pub(super) fn give_up_in(&mut self, depth: usize, why: &str) {
        if !self.closes(depth, why) {
            return self.give_up_for_good(why);
        }
        if let Err(error) = self.stop_recording() {
            self.fatal = true;
            error.restore(crate::obj::py());
        }
    }

    fn closes(&self, depth: usize, why: &str) -> bool {
        let may_break = !self.settings.fullgraph && !error_on_graph_break();
        // A function of C's that is compiled by itself has no frame.
        let function = self.frames.iter().take(depth + 1).rposition(is_function);
        // The function that was compiled is entered by nobody who could go around it.
        let Some(at) = function.filter(|at| *at > 0 && self.rec.is_some() && may_break) else { return false };
        let Some(entered) = self.entered_by(at) else { return false };
        let Frame { code, function, .. } = &self.frames[at];
        let why =
            format!("{why} (at {}); if that goes on, {} is called as a whole", self.location(), crate::source::short(function));
        let closes = self.tree.close(&code.object, why.clone());
        if closes {
            if let Some(Crumb { before, segment, .. }) = entered {
                before.branches(&self.tree).remove(segment);
            }
            log(Topic::GraphBreaks, || why);
        }
        closes
    }

    /// The segment of this trace in which the frame was entered, unless it is the present one. None if much of what the frame does would be lost
    /// with it.
    fn entered_by(&self, depth: usize) -> Option<Option<&Crumb>> {
        if !self.stands_at(&self.attach, depth) {
            return Some(None);
        }
        let outside = self.crumbs.iter().rposition(|crumb| !self.stands_at(&crumb.before, depth))?;
        let inside = self.crumbs[outside + 1..].iter().map(|crumb| crumb.calls);
        let calls = inside.chain(self.rec.as_ref().map(|rec| rec.graph.calls)).sum::<usize>();
        (calls < FEW).then(|| self.crumbs.get(outside))
    }

    /// Whether the frame at this depth stood there already when this segment ended.
    fn stands_at(&self, attach: &Attach, depth: usize) -> bool {
        let Attach::Action(segment) = attach else { return false };
        segment.snapshot().is_some_and(|snapshot| snapshot.stands_in(depth, &self.frames[depth].code.object))
    }

    /// Where the machine stands, or the innermost frame outside of which nothing waits in Rust.
    pub(super) fn depth_to_leave(&self) -> usize {
        let handed = self.frames.iter().position(|frame| matches!(frame.after, After::Hand));
        handed.unwrap_or(self.frames.len()).saturating_sub(1)
    }
}

/// One that the program calls by its name: a generator's frame goes on when it is asked for its next value.
fn is_function(frame: &Frame) -> bool {
    frame.generator.is_none() && !frame.code.hidden
}
