//! One pass: a loop over its inner axes that the threads of a point share, or straight code.

use super::filled::filled;
use super::outline::is_even;
use super::{Emitter, index, reduce};
use crate::CodegenError;
use crate::geometry::Spread;
use ox_ir::DType;
use ox_ir::graph::ReduceOp;
use ox_ir::kernel::{Inst, Pass, Val, length};

/// Loops around bodies this short are unrolled: several loads of a thread are then under way at once. The threads of a column read
/// single elements, so that more of them are needed.
const SHORT_BODY: usize = 16;
const SHORT_COLUMN: usize = 40;

impl Emitter<'_> {
    pub fn pass(&mut self, pass: &Pass) -> Result<(), CodegenError> {
        self.wait_for_writes(pass);
        if pass.axes.is_empty() {
            return self.row_pass(pass);
        }
        let axes: Vec<String> =
            pass.axes.iter().map(|a| format!("{} < {}", index::name(&a.var), index::text(&a.extent))).collect();
        self.line(format!("// over {}", axes.join(", ")));
        self.carried.begin_pass();
        for val in reductions(self, pass) {
            self.begin_reduction(val);
        }
        if pass.body.iter().any(|val| matches!(self.kernel.inst(*val).inst, Inst::Scan { .. })) {
            self.scan_loop(pass)?;
        } else {
            self.shared_loop(pass)?;
        }
        for val in reductions(self, pass) {
            self.finish_reduction(val);
        }
        self.note_writes(pass);
        Ok(())
    }

    fn begin_reduction(&mut self, val: Val) {
        let (op, dtype) = self.reduction(val);
        let (ty, identity, lanes) = (reduce::running(op, dtype), reduce::identity(op, dtype), self.g.lanes);
        match self.has_column_lanes() {
            _ if self.is_online(val) => self.line(format!("MaxSum a{} = {{{identity}, 0.0f}};", val.0)),
            true => {
                self.line(format!("{ty} a{}[{lanes}];", val.0));
                self.line("#pragma unroll");
                self.line(format!("for (int l = 0; l < {lanes}; ++l) a{}[l] = {identity};", val.0));
            }
            false => self.line(format!("{ty} a{} = {identity};", val.0)),
        }
    }

    /// Straight code: all threads of the point compute it, the first one writes.
    fn row_pass(&mut self, pass: &Pass) -> Result<(), CodegenError> {
        let guard = self.g.y > 1;
        self.guards.extend(guard.then_some("y == 0"));
        self.carried.begin_pass();
        if self.has_column_lanes() {
            self.open("{");
            self.set_lane(self.kernel.axes.last());
            self.body(&pass.body, None)?;
            self.set_lane(None);
            self.close();
        } else {
            self.plain_body(&pass.body)?;
        }
        self.guards.truncate(self.guards.len() - usize::from(guard));
        self.note_writes(pass);
        Ok(())
    }

    /// All of a kernel without loops.
    pub fn point(&mut self) -> Result<(), CodegenError> {
        let all: Vec<Val> = self.kernel.passes.iter().flat_map(|pass| pass.body.iter().copied()).collect();
        let lane = match self.g.spread {
            Spread::Tiles(across) => self.kernel.axes.get(across),
            _ => self.kernel.axes.last(),
        };
        self.set_lane(lane);
        self.body(&all, None)
    }

    /// The loop that the `y` threads of a point share.
    fn shared_loop(&mut self, pass: &Pass) -> Result<(), CodegenError> {
        let columns = self.g.spread == Spread::Columns;
        let (y, lanes, count) = (self.g.y, if columns { 1 } else { self.g.lanes }, length(&pass.axes));
        let limit = index::factor(&count);
        let known = if self.g.spread == Spread::Rows { self.g.items } else { None };
        // A vector lies in one round.
        let is_whole = length(&pass.axes[1..]).is_multiple_of(lanes);
        let filled = if is_whole && known.is_none() { filled(self.kernel, pass) } else { None };
        let mut guarded = false;
        match known {
            Some(items) => {
                self.line("#pragma unroll");
                self.open(format!("for (int k = 0; k < {items}; ++k) {{"));
                let times = if lanes > 1 { format!(" * {lanes}") } else { String::new() };
                self.line(format!("const idx r = (k * {y} + y){times};"));
                guarded = !is_even(&count, lanes, y);
                if guarded {
                    self.open(format!("if (r < {limit}) {{"));
                }
            }
            None => {
                let even = count.as_const().filter(|n| columns && filled.is_none() && n % y == 0).map(|n| n / y);
                if let Some(most) = self.unrolled(pass) {
                    self.line(format!("#pragma unroll {}", even.map_or(most, |rounds| in_whole_rounds(rounds, most))));
                }
                let start = if lanes > 1 { format!("y * {lanes}") } else { "y".into() };
                let limit = match &filled {
                    Some(filled) => {
                        let (first, rest) = (index::text(&pass.axes[0].extent), length(&pass.axes[1..]));
                        let rounds = format!("least(idx({first}), idx({}))", index::text(&filled.rounds));
                        if rest.is_one() { rounds } else { format!("{rounds} * {}", index::factor(&rest)) }
                    }
                    None => limit,
                };
                match even {
                    Some(rounds) => {
                        self.open(format!("for (idx k = 0; k < {rounds}; ++k) {{"));
                        self.line(format!("const idx r = k * {y} + y;"));
                    }
                    None => self.open(format!("for (idx r = {start}; r < {limit}; r += {}) {{", y * lanes)),
                }
            }
        }
        self.decode(&pass.axes, "r");
        self.in_loop = true;
        let lane = if columns { self.kernel.axes.last() } else { pass.axes.last() };
        self.set_lane(lane);
        self.sure = filled.map(|filled| filled.mask);
        self.body(&pass.body, known.map(|_| "k"))?;
        self.sure = None;
        self.set_lane(None);
        self.in_loop = false;
        if guarded {
            self.close();
        }
        self.close();
        Ok(())
    }

    /// How many rounds of its loop are written out, if that is worth it.
    fn unrolled(&self, pass: &Pass) -> Option<i64> {
        match self.g.spread {
            Spread::Columns if pass.body.len() <= SHORT_BODY => Some(8),
            Spread::Columns if pass.body.len() <= SHORT_COLUMN => Some(4),
            Spread::Rows if pass.body.len() <= SHORT_BODY => Some(4),
            _ => None,
        }
    }

    /// Scans run along the last axis, chunk after chunk of as many elements as there are threads; the axes before it one after the other.
    fn scan_loop(&mut self, pass: &Pass) -> Result<(), CodegenError> {
        let (last, outer) = pass.axes.split_last().expect("a loop has an axis");
        for axis in outer {
            let name = index::name(&axis.var);
            self.open(format!("for (idx {name} = 0; {name} < {}; ++{name}) {{", index::factor(&axis.extent)));
        }
        for val in pass.body.iter().filter(|val| matches!(self.kernel.inst(**val).inst, Inst::Scan { .. })) {
            let (op, dtype) = self.reduction(*val);
            self.line(format!("{} a{} = {};", reduce::running(op, dtype), val.0, reduce::identity(op, dtype)));
        }
        self.in_loop = true;
        let (name, extent, y) = (index::name(&last.var), index::factor(&last.extent), self.g.y);
        if y == 1 {
            self.open(format!("for (idx {name} = 0; {name} < {extent}; ++{name}) {{"));
            self.plain_body(&pass.body)?;
        } else {
            self.open(format!("for (idx r = 0; r < {extent}; r += {y}) {{"));
            self.line(format!("const bool here = r + y < {extent};"));
            self.line(format!("const idx {name} = here ? r + y : {extent} - 1;"));
            self.guards.push("here");
            self.plain_body(&pass.body)?;
            self.guards.pop();
        }
        self.in_loop = false;
        for _ in 0..=outer.len() {
            self.close();
        }
        Ok(())
    }

    /// What the threads have found each for itself becomes what they have found together.
    fn finish_reduction(&mut self, val: Val) {
        let (op, dtype) = self.reduction(val);
        let functor = if self.is_online(val) { "JoinMaxSum()" } else { reduce::functor(op, dtype) };
        let (x, y) = (self.g.x, self.g.y);
        let mine = self.running(val);
        let shared = if self.shared_bytes > 0 { "shared" } else { "nullptr" };
        let neighbours = self.has_column_lanes();
        if neighbours && y > 1 {
            self.line(format!("reduce_neighbours<{x}, {y}>(a{}, {functor}, {shared});", val.0));
        }
        let all = match self.g.spread {
            _ if y == 1 || neighbours => mine,
            Spread::Columns => format!("reduce_columns<{x}, {y}>({mine}, {functor}, {shared})"),
            _ => format!("reduce_rows<{y}>({mine}, {functor}, {shared})"),
        };
        if let Some(online) = self.online.filter(|online| online.max == val) {
            self.line(format!("const MaxSum r{} = {all};", val.0));
            self.declare_result(val, format!("r{}.max", val.0));
            return self.declare_result(online.sum, format!("r{}.total()", val.0));
        }
        let all = reduce::finished(op, all, dtype);
        if neighbours {
            self.line("#pragma unroll");
            return self.line(format!("for (int l = 0; l < {}; ++l) w{}[l] = {all};", self.g.lanes, val.0));
        }
        self.declare_result(val, all);
    }

    fn declare_result(&mut self, val: Val, text: String) {
        let ty = super::ctype::held(self.dtype(val));
        self.line(format!("const {ty} v{} = {text};", val.0));
    }

    /// The operation, and the type that is accumulated: for argmax that of the values compared.
    pub fn reduction(&self, val: Val) -> (ReduceOp, DType) {
        match self.kernel.inst(val).inst {
            Inst::ReduceArg { op, value, .. } => (op, self.dtype(value)),
            Inst::Reduce { op, .. } | Inst::Scan { op, .. } => (op, self.dtype(val)),
            _ => unreachable!("only reductions and scans accumulate"),
        }
    }

    fn touched(&self, pass: &Pass, stores: bool) -> Vec<u32> {
        let buf = |val: &Val| match &self.kernel.inst(*val).inst {
            Inst::Store { buf, .. } if stores => Some(*buf),
            Inst::Load { buf, .. } if !stores => Some(*buf),
            _ => None,
        };
        pass.body.iter().filter_map(buf).filter(|buf| !self.cache.in_registers(*buf)).collect()
    }

    /// A pass may read what other threads of its point wrote before.
    fn wait_for_writes(&mut self, pass: &Pass) {
        if self.g.y > 1 && self.touched(pass, false).iter().any(|buf| self.dirty.contains(buf)) {
            self.line("__syncthreads();");
            self.dirty.clear();
        }
    }

    fn note_writes(&mut self, pass: &Pass) {
        self.dirty.extend(self.touched(pass, true));
    }
}

fn reductions(e: &Emitter<'_>, pass: &Pass) -> Vec<Val> {
    let is_reduction = |val: &&Val| matches!(e.kernel.inst(**val).inst, Inst::Reduce { .. } | Inst::ReduceArg { .. });
    pass.body.iter().filter(is_reduction).copied().collect()
}

/// About `most` rounds, so that none are left over, which would be written out as well.
fn in_whole_rounds(rounds: i64, most: i64) -> i64 {
    (most / 2 + 1..=most).rev().find(|n| rounds % n == 0).unwrap_or(most)
}
