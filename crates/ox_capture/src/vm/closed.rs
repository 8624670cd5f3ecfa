//! Functions in whose middle a trace cannot be left: what the machine holds there could not be made again by a later call. The trace in which that
//! is found out is lost. If the next one is, too, those behind it call the function as a whole, and what stands around the call is recorded.

use super::crumbs::{Crumb, FEW};
use super::{After, Attach, Frame, Vm};
use crate::log::{Topic, log};
use crate::policy::error_on_graph_break;
use crate::tree::Segment;
use std::rc::Rc;

impl Vm {
    /// Nothing can be kept in the middle of the frame at this depth. This trace is lost if the next can go around the function in which that is;
    /// else the call is Python's from here on.
    pub(super) fn give_up_in(&mut self, depth: usize, why: &str) {
        match self.closes(depth, why) {
            true => self.lose_trace(),
            false => self.give_up_for_good(why),
        }
    }

    pub(super) fn lose_trace(&mut self) {
        if let Err(error) = self.stop_recording() {
            self.fatal = true;
            error.restore(crate::obj::py());
        }
    }

    /// A class is another one in each call, for which what is done with it would be traced anew: the function that makes it and works with it is called
    /// as a whole if that goes on.
    pub(super) fn class_is_made(&mut self) {
        if self.closes(self.depth_to_leave(), "a class is made") {
            self.lose_trace();
        }
    }

    fn closes(&self, depth: usize, why: &str) -> bool {
        let may_break = !self.settings.fullgraph && !error_on_graph_break();
        // A function of C's that is compiled by itself has no frame.
        let function = self.frames.iter().take(depth + 1).rposition(is_function);
        // The function that was compiled is entered by nobody who could go around it.
        let Some(at) = function.filter(|at| *at > 0 && self.rec.is_some() && may_break) else { return false };
        let Some(entered) = self.entered_by(at) else { return false };
        let closes = self.closes_at(at, why);
        if let (true, Some(Crumb { before, segment, .. })) = (closes, entered) {
            before.branches(&self.tree).remove(segment);
        }
        closes
    }

    /// The same for the innermost function in which all crumbs were left behind since the machine stood here first, if those are nearly all that it has
    /// done. `first`: of all crumbs that are swept; those in front of the loop may be others'. An earlier trace may have entered the function.
    pub(super) fn closes_around(&self, first: usize, why: &str) -> bool {
        let stands = |segment: &Segment, at: usize| {
            segment.snapshot().is_some_and(|snapshot| snapshot.stands_in(at, &self.frames[at].code.object))
        };
        let location = self.location();
        let Some(turn) = self.crumbs[first..].iter().position(|crumb| crumb.location == location) else { return false };
        let is_around = |at: &usize| {
            is_function(&self.frames[*at]) && self.crumbs[first + turn..].iter().all(|crumb| stands(&crumb.segment, *at))
        };
        let Some(at) = (1..self.frames.len()).rev().find(is_around).filter(|_| self.waiting == 0) else { return false };
        let Some(path) = self.crumbs.last().and_then(|crumb| self.tree.path_to(&crumb.segment)) else { return false };
        let entered = path.iter().rposition(|segment| !stands(segment, at)).map_or(0, |outside| outside + 1);
        let Some((entered, inside)) = path[entered..].split_first() else { return false };
        let is_inside = |crumb: &&Crumb| inside.iter().any(|segment| Rc::ptr_eq(segment, &crumb.segment));
        let (count, calls) = self.crumbs.iter().filter(is_inside).fold((0, 0), |(n, sum), crumb| (n + 1, sum + crumb.calls));
        let closes = calls < FEW * count && self.closes_at(at, why);
        if closes {
            let before = path[..path.len() - inside.len() - 1].last().and_then(|before| before.branches());
            before.unwrap_or(&self.tree.branches).remove(entered);
        }
        closes
    }

    fn closes_at(&self, at: usize, why: &str) -> bool {
        let Frame { code, function, .. } = &self.frames[at];
        let why =
            format!("{why} (at {}); if that goes on, {} is called as a whole", self.location(), crate::source::short(function));
        let closes = self.tree.close(&code.object, why.clone());
        if closes {
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
