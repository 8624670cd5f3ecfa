//! How the points of a kernel are spread over blocks, threads and vectors.
//!
//! A block works on `x` outer points with `y` threads each. The heuristics aim at bytes in flight: a thread should have some 16 to 64
//! bytes under way for each buffer, and the chip should have a few blocks for each of its multiprocessors.

use crate::online;
use ox_ir::kernel::{Axis, BufRole, Inst, Kernel, Lanes, Pass, Val, length};
use ox_ir::sym::VarKind;
use ox_ir::{PointOp, Scalar, Sym, Var};
use rustc_hash::FxHashSet;

/// Bytes of the widest access of one thread.
const WIDEST: i64 = 16;
const MOST_LANES: i64 = 8;
/// With fewer blocks than this for each multiprocessor, some are idle in the end.
const BLOCKS_EACH: i64 = 2;
const BLOCK: i64 = 256;
const MOST_THREADS: i64 = 1024;
/// Packs of a row that a thread holds in registers.
const MOST_ITEMS: i64 = 4;
/// A long row leaves room for no other one on its multiprocessor if its threads hold what they computed, and nothing is read while it is
/// being worked on: so fewer threads hold more of what they read, and compute the rest again.
const MOST_ITEMS_OF_LONG: i64 = 8;
const THREADS_OF_LONG: i64 = 512;
/// Columns of a block: what a warp reads at once.
const SIDE_BY_SIDE: i64 = 32;
const MOST_NEIGHBOURS: i64 = 4;
/// A column with so few elements is one thread's.
const SHORT_COLUMN: i64 = 16;
/// Threads of a row that may be longer than it is taken for.
const FEWEST_OF_A_ROW: i64 = 32;
/// Elements of a column that are worth a thread.
const FEWEST_EACH: i64 = 8;
/// A body this long is not repeated for many lanes: registers run out, and compiling takes long.
const LONG_BODY: usize = 48;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// One thread for `lanes` neighbouring points; no loops.
    Points,
    /// `y` neighbouring threads share a row: they read it side by side.
    Rows,
    /// Neighbouring threads have neighbouring points, and `y` groups of them share the loop.
    Columns,
    /// No loops, but something lies across: neighbouring threads have neighbours along the last axis, and the lanes of a thread run along
    /// this other axis, where what is read lies side by side.
    Tiles(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    pub spread: Spread,
    /// Outer points of a block (in units of `lanes`, for `Points` and `Columns`); for `Tiles` the threads along the last axis.
    pub x: i64,
    /// Threads that share one point's loops. A power of two.
    pub y: i64,
    /// Neighbouring elements that a thread handles at once.
    pub lanes: i64,
    /// If known and few: how often a thread goes around a row's loop.
    pub items: Option<i64>,
}

impl Geometry {
    pub fn threads(&self) -> i64 {
        self.x * self.y
    }

    /// Whether a thread holds as much of its row as it can.
    pub fn is_long_row(&self) -> bool {
        self.items.is_some_and(|items| items > MOST_ITEMS)
    }

    pub fn points_per_block(&self) -> i64 {
        match self.spread {
            Spread::Points | Spread::Columns => self.x * self.lanes,
            Spread::Rows => self.x,
            Spread::Tiles(_) => 1,
        }
    }

    /// What the grid has one block for so many of: points, or whole tiles.
    pub fn points(&self, kernel: &Kernel) -> Sym {
        let Spread::Tiles(across) = self.spread else { return kernel.points() };
        let last = kernel.axes.len() - 1;
        let blocks = |(n, axis): (usize, &Axis)| match n {
            _ if n == across => axis.extent.div_ceil(&Sym::from(self.lanes * self.y)),
            _ if n == last => axis.extent.div_ceil(&Sym::from(self.x)),
            _ => axis.extent.clone(),
        };
        kernel.axes.iter().enumerate().map(blocks).fold(Sym::ONE, |all, n| &all * &n)
    }
}

/// `ordered`: the points of inner loops are visited one after the other, by one thread. `multiprocessors` are those of the GPU.
pub fn choose(kernel: &Kernel, ordered: bool, multiprocessors: u32) -> Geometry {
    let enough = BLOCKS_EACH * multiprocessors as i64;
    let Some(inner) = kernel.passes.iter().map(|pass| &pass.axes).find(|axes| !axes.is_empty()) else {
        return points(kernel, enough);
    };
    let scans = kernel.insts.iter().any(|i| matches!(i.inst, Inst::Scan { .. }));
    let decays = kernel.insts.iter().any(|i| matches!(i.inst, Inst::Scan { decay: Some(_), .. }));
    if ordered || decays || (scans && !kernel.axes.is_empty() && many_points(kernel)) {
        return Geometry { spread: Spread::Columns, x: 64, y: 1, lanes: 1, items: None };
    }
    if scans {
        return Geometry { spread: Spread::Rows, x: 1, y: BLOCK, lanes: 1, items: None };
    }
    if reads_along(kernel) { rows(kernel, inner, enough) } else { columns(kernel, inner, enough) }
}

/// Whether the loops read (and write) side by side along their own last axis, rather than along the last outer one. What all columns or all rounds of the
/// loop share is little, however it lies: the statistics of each row of which columns are added up.
fn reads_along(kernel: &Kernel) -> bool {
    let Some(across) = kernel.axes.last() else { return true };
    let side_by_side = |index: &Sym, axis: &Axis| index.coeff(&axis.var).is_some_and(|c| c.is_one());
    let mut votes = 0;
    for pass in kernel.passes.iter().filter(|pass| !pass.axes.is_empty()) {
        let along = &pass.axes[pass.axes.len() - 1];
        for val in &pass.body {
            if let Inst::Load { index, .. } | Inst::Store { index, .. } = &kernel.inst(*val).inst
                && index.contains(&along.var)
                && index.contains(&across.var)
            {
                let size = kernel.inst(*val).dtype.size() as i64;
                votes += size * (i64::from(side_by_side(index, along)) - i64::from(side_by_side(index, across)));
            }
        }
    }
    votes > 0 || (votes == 0 && kernel.lanes == Lanes::Inner)
}

fn few_points(kernel: &Kernel, enough: i64) -> bool {
    kernel.points().as_const().is_some_and(|n| n < enough)
}

/// As far as is known; else those that were seen.
fn many_points(kernel: &Kernel) -> bool {
    kernel.usual.points.unwrap_or(0).max(kernel.points().bounds().0) >= 1024
}

fn points(kernel: &Kernel, enough: i64) -> Geometry {
    if let Some(tiles) = tiles(kernel, enough) {
        return tiles;
    }
    let body: usize = kernel.passes.iter().map(|pass| pass.body.len()).sum();
    let mut lanes = kernel.axes.last().map_or(1, |axis| widest(kernel, axis, body));
    // Small kernels are short of threads, not of bytes for each.
    while let (true, Some(points)) = (lanes > 1, kernel.points().as_const()) {
        if points / lanes >= enough * BLOCK {
            break;
        }
        lanes /= 2;
    }
    Geometry { spread: Spread::Points, x: BLOCK, y: 1, lanes, items: None }
}

/// Where enough is read across the last axis, and lies side by side along another one.
fn tiles(kernel: &Kernel, enough: i64) -> Option<Geometry> {
    let (last, others) = kernel.axes.split_last()?;
    let is_long = |axis: &Axis| axis.extent.bounds().0 >= 32;
    if !is_long(last) || kernel.points().as_const().is_some_and(|n| n < enough * BLOCK) {
        return None;
    }
    let crosses = |index: &Sym| index.coeff(&last.var).is_some_and(|c| !c.is_zero() && !c.is_one());
    let loads = kernel.insts.iter().filter_map(|i| match &i.inst {
        Inst::Load { index, mask: None, .. } if crosses(index) => Some((index, i.dtype.size() as i64)),
        _ => None,
    });
    let mut wanted: Vec<(usize, i64)> = Vec::new();
    for (index, size) in loads {
        let along = others.iter().position(|axis| is_long(axis) && index.coeff(&axis.var).is_some_and(|c| c.is_one()))?;
        wanted.push((along, size));
    }
    let (across, size) = wanted.iter().copied().max_by_key(|(_, size)| *size)?;
    let mut lanes = (WIDEST / size).min(MOST_LANES);
    while !others[across].extent.is_multiple_of(lanes) {
        lanes /= 2;
    }
    Some(Geometry { spread: Spread::Tiles(across), x: 32, y: 8, lanes, items: None })
}

fn rows(kernel: &Kernel, inner: &[Axis], enough: i64) -> Geometry {
    let body = kernel.passes.iter().map(|pass| pass.body.len()).max().unwrap_or(0);
    let last = inner.last().expect("an inner loop has an axis");
    let lanes = widest(kernel, last, body);
    let Some(length) = length(inner).as_const() else {
        // A few rows may be much longer than those that were seen.
        let usual = kernel.usual.length.filter(|_| many_points(kernel));
        let packs = usual.map_or(BLOCK * MOST_ITEMS, |length| length / lanes);
        let y = (packs / MOST_ITEMS).clamp(FEWEST_OF_A_ROW, BLOCK);
        return Geometry { spread: Spread::Rows, x: rows_of_a_block(y), y, lanes, items: None };
    };
    let packs = (length / lanes).max(1);
    if online::find(kernel).is_some_and(|online| online.is_all) && packs > MOST_ITEMS * BLOCK {
        // Read once: nothing is held, and many rows are under way.
        let y = if few_points(kernel, enough) { MOST_THREADS } else { BLOCK };
        return Geometry { spread: Spread::Rows, x: 1, y, lanes, items: None };
    }
    let each = if few_points(kernel, enough) { 1 } else { MOST_ITEMS };
    let has_scratch = kernel.bufs.iter().any(|b| matches!(b.role, BufRole::Scratch(_)));
    let (most_threads, most_items) = if has_scratch { (MOST_THREADS, MOST_ITEMS) } else { (THREADS_OF_LONG, MOST_ITEMS_OF_LONG) };
    let mut y = 1;
    while (y * each < packs && y < most_threads) || (y * most_items < packs && y < MOST_THREADS) {
        y *= 2;
    }
    let x = rows_of_a_block(y);
    let items = packs.div_euclid(y) + i64::from(packs % y != 0);
    Geometry { spread: Spread::Rows, x, y, lanes, items: (items <= most_items).then_some(items) }
}

/// With `y` threads each.
fn rows_of_a_block(y: i64) -> i64 {
    if y >= 128 { 1 } else { BLOCK / y }
}

/// As many threads for a column as fill the GPU, if each of them has some elements to add up.
fn columns(kernel: &Kernel, inner: &[Axis], enough: i64) -> Geometry {
    let length = length(inner)
        .as_const()
        .unwrap_or_else(|| kernel.usual.length.map_or(1024, |usual| usual.max(FEWEST_EACH * FEWEST_EACH)));
    let points = kernel.points().as_const().or(kernel.usual.points).unwrap_or(1 << 20);
    if length <= SHORT_COLUMN {
        let mut lanes = neighbours(kernel, MOST_LANES);
        while lanes > 1 && points / lanes < enough * BLOCK {
            lanes /= 2;
        }
        return Geometry { spread: Spread::Columns, x: 128, y: 1, lanes, items: None };
    }
    let most = MOST_THREADS / SIDE_BY_SIDE;
    let mut lanes = neighbours(kernel, MOST_NEIGHBOURS);
    while lanes > 1 && points / (SIDE_BY_SIDE * lanes) * most < enough * most / 2 {
        lanes /= 2;
    }
    let blocks = points / (SIDE_BY_SIDE * lanes) + 1;
    let mut y = most;
    // What the threads of a column have found is put together at the cost of all of them: the more blocks there are, the fewer threads they should have.
    while y > 4 && (blocks * y * y > enough * most * most / 2 || length < FEWEST_EACH * y) {
        y /= 2;
    }
    Geometry { spread: Spread::Columns, x: SIDE_BY_SIDE, y, lanes, items: None }
}

/// Columns that a thread may have, `most` of them: what it adds up for each of them stays in registers.
fn neighbours(kernel: &Kernel, most: i64) -> i64 {
    let has_scratch = kernel.bufs.iter().any(|b| matches!(b.role, BufRole::Scratch(_)));
    let looks_up = kernel.insts.iter().any(|i| matches!(i.inst, Inst::CheckIndex { .. }));
    let body = kernel.passes.iter().map(|pass| pass.body.len()).max().unwrap_or(0);
    match kernel.axes.last() {
        Some(last) if !has_scratch && !looks_up => widest(kernel, last, body).min(most),
        _ => 1,
    }
}

/// The most lanes along `axis` for which most bytes move in whole vectors.
fn widest(kernel: &Kernel, axis: &Axis, body: usize) -> i64 {
    let side_by_side = |lanes: i64| -> Vec<(&Sym, i64)> {
        accesses(kernel, &axis.var, lanes).filter(|(index, _)| index.coeff(&axis.var).is_some_and(|c| c.is_one())).collect()
    };
    let Some(smallest) = side_by_side(2).iter().map(|(_, size)| *size).min() else { return 1 };
    let mut lanes = (WIDEST / smallest).min(MOST_LANES);
    if body > LONG_BODY {
        lanes = lanes.min(if body > 3 * LONG_BODY { 1 } else { 4 });
    }
    while lanes > 1 {
        let moved = side_by_side(lanes);
        let all: i64 = moved.iter().map(|(_, size)| size).sum();
        let whole = moved.iter().filter(|(index, _)| is_pack(index, &axis.var, lanes)).map(|(_, size)| size);
        if axis.extent.is_multiple_of(lanes) && 2 * whole.sum::<i64>() > all {
            return lanes;
        }
        lanes /= 2;
    }
    1
}

/// Whether the elements of `lanes` neighbours lie side by side and begin at a multiple of `lanes`.
pub fn is_pack(index: &Sym, var: &Var, lanes: i64) -> bool {
    index.coeff(var).is_some_and(|c| c.is_one()) && (index - &Sym::var(var)).is_multiple_of(lanes)
}

/// Accesses of memory that `lanes` neighbours along an axis do or do not do together, with the bytes of an element.
fn accesses<'k>(kernel: &'k Kernel, along: &Var, lanes: i64) -> impl Iterator<Item = (&'k Sym, i64)> {
    let differing = differing(kernel, along, lanes);
    let is_memory = |buf: u32| kernel.bufs.get(buf as usize).is_some_and(|b| !matches!(b.role, BufRole::Scratch(_)));
    let size = |buf: u32| kernel.bufs.get(buf as usize).map_or(4, |b| b.dtype.size() as i64);
    kernel.insts.iter().filter_map(move |i| match &i.inst {
        Inst::Load { buf, index, mask } if is_memory(*buf) && mask.is_none_or(|(mask, _)| !differing.contains(&mask)) => {
            Some((index, size(*buf)))
        }
        Inst::Store { buf, index, mask: None, .. } if is_memory(*buf) => Some((index, size(*buf))),
        _ => None,
    })
}

/// The values that may be others for one of `lanes` neighbours along an axis.
pub fn differing(kernel: &Kernel, along: &Var, lanes: i64) -> FxHashSet<Val> {
    let mut out = FxHashSet::default();
    for (n, inst) in kernel.insts.iter().enumerate() {
        let differs = match &inst.inst {
            Inst::Const(_) => false,
            Inst::Index(sym) => sym.vars().iter().any(|var| var == along || var.kind() == VarKind::Loaded),
            Inst::Point(op, args) if is_on_one_side(kernel, *op, args, along, lanes) => false,
            Inst::Point(_, args) => args.iter().any(|arg| out.contains(arg)),
            Inst::Cast(arg) => out.contains(arg),
            _ => true,
        };
        if differs {
            out.insert(Val(n as u32));
        }
    }
    out
}

/// Whether it compares places with a bound that lies between two vectors: the parts of what is put together, or padded, are told apart so.
fn is_on_one_side(kernel: &Kernel, op: PointOp, args: &[Val], along: &Var, lanes: i64) -> bool {
    let place = |val: Val| match &kernel.inst(val).inst {
        Inst::Index(sym) => Some(sym.clone()),
        Inst::Const(Scalar::Int(n)) => Some(Sym::from(*n)),
        _ => None,
    };
    let &[a, b] = args else { return false };
    let (Some(a), Some(b)) = (place(a), place(b)) else { return false };
    // How far behind the first place on the other side.
    let behind = match op {
        PointOp::Lt | PointOp::Ge => &a - &b,
        PointOp::Le | PointOp::Gt => &(&a - &b) - 1,
        _ => return false,
    };
    is_pack(&behind, along, lanes) && behind.vars().iter().all(|var| var.kind() != VarKind::Loaded)
}

/// Whether every loop of the kernel runs over the same axes.
pub fn is_uniform(passes: &[Pass]) -> bool {
    let mut loops = passes.iter().map(|pass| &pass.axes).filter(|axes| !axes.is_empty());
    loops.next().is_none_or(|first| loops.all(|axes| axes == first))
}
