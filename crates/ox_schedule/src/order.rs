//! The loops of an emitted kernel: which axis the lanes run along, in which order the axes are nested, which of them are one.

use ox_ir::kernel::{Axis, Inst, Kernel, Lanes, Pass, TypedInst, Val};
use ox_ir::sym::VarKind;
use ox_ir::{Sym, Var};

/// Settles lanes and axis order, joins axes, and renumbers, so that equal loops are equal kernels.
pub fn settle(kernel: &mut Kernel) {
    let lane = choose_lane(kernel);
    sort_axes(kernel, lane.as_ref());
    join_axes(kernel);
    renumber(kernel);
}

/// An inner loop is as good as endless from here on.
const MANY: i64 = 256;

/// Index expressions of memory accesses with their weight in bytes, as often as their loop runs for one outer point; stores count double,
/// since a scattered store hurts most. What says where others read counts nothing: it may have 8 bytes where they have one, and side by side it is of
/// no use if they are then apart.
fn accesses(kernel: &Kernel) -> impl Iterator<Item = (&Sym, i64)> {
    kernel.passes.iter().flat_map(move |pass| {
        let times = trips(pass);
        let counted = pass.body.iter().filter(|v| !is_place(kernel, **v));
        counted.filter_map(move |v| weigh(kernel.inst(*v)).map(|(index, bytes)| (index, bytes * times)))
    })
}

/// Whether it is checked as an index, perhaps as another type of integers.
fn is_place(kernel: &Kernel, val: Val) -> bool {
    kernel.insts.iter().zip(0..).any(|(typed, n)| match &typed.inst {
        Inst::CheckIndex { value, .. } => *value == val,
        Inst::Cast(of) => *of == val && is_place(kernel, Val(n)),
        _ => false,
    })
}

fn weigh(inst: &TypedInst) -> Option<(&Sym, i64)> {
    let bytes = inst.dtype.size() as i64;
    match &inst.inst {
        Inst::Load { index, .. } => Some((index, bytes)),
        Inst::Store { index, .. } => Some((index, 2 * bytes)),
        _ => None,
    }
}

fn trips(pass: &Pass) -> i64 {
    let points = pass.axes.iter().fold(1i64, |n, axis| n.saturating_mul(axis.extent.bounds().1.max(1)));
    points.min(MANY)
}

fn inner_axes(kernel: &Kernel) -> Vec<Axis> {
    kernel.passes.iter().map(|p| &p.axes).find(|a| !a.is_empty()).cloned().unwrap_or_default()
}

/// The axis along which most bytes are read and written side by side. Among equals the last inner, then the last outer one.
fn choose_lane(kernel: &mut Kernel) -> Option<Var> {
    let inner = inner_axes(kernel);
    let must_be_outer = kernel.insts.iter().any(|typed| is_one_by_one(kernel, &typed.inst));
    let mut best: Option<(i64, Var, Lanes)> = None;
    let candidates = inner.iter().rev().map(|a| (a, Lanes::Inner)).chain(kernel.axes.iter().rev().map(|a| (a, Lanes::Outer)));
    for (axis, lanes) in candidates.filter(|(_, lanes)| *lanes == Lanes::Outer || !must_be_outer) {
        let score = lane_score(kernel, axis);
        if best.as_ref().is_none_or(|b| score > b.0) {
            best = Some((score, axis.var.clone(), lanes));
        }
    }
    let (_, var, lanes) = best?;
    if must_be_outer && is_better_without_lanes(kernel, &var) {
        return None;
    }
    kernel.lanes = lanes;
    Some(var)
}

/// Hardly anything is computed, and nothing lies side by side along the lanes: to collect them and to write them one by one takes longer than to do all
/// one by one (a scatter of 1024x1024 numbers along its rows: 2.2 ms with lanes, 0.45 without).
fn is_better_without_lanes(kernel: &Kernel, lane: &Var) -> bool {
    const LITTLE: usize = 4;
    let work = |typed: &TypedInst| match typed.inst {
        Inst::Point(op, _) if op.is_function() => LITTLE + 1,
        Inst::Point(..) | Inst::Scan { .. } => 1,
        _ => 0,
    };
    kernel.insts.iter().map(work).sum::<usize>() <= LITTLE
        && !accesses(kernel).any(|(index, _)| index.coeff(lane).is_some_and(|step| step.is_one()))
}

/// Whether lanes cannot run along the inner axes, since their points depend on one another.
fn is_one_by_one(kernel: &Kernel, inst: &Inst) -> bool {
    match inst {
        Inst::Scan { .. } => !kernel.scans_in_any_order(inst),
        Inst::Store { index, .. } => index.any_var(&mut |v| v.kind() == VarKind::Loaded) && !inner_axes(kernel).is_empty(),
        _ => false,
    }
}

fn lane_score(kernel: &Kernel, axis: &Axis) -> i64 {
    let contiguous: i64 = accesses(kernel)
        .map(|(index, weight)| match index.coeff(&axis.var).and_then(|c| c.as_const()) {
            Some(1) => 4 * weight,
            Some(0) => 2 * weight,
            _ => 0,
        })
        .sum();
    let any_unit = accesses(kernel).any(|(index, _)| index.coeff(&axis.var).is_some_and(|c| c.is_one()));
    // A short axis leaves most lanes idle.
    let filled = axis.extent.bounds().1.min(16);
    contiguous * filled * if any_unit { 4 } else { 1 }
}

/// Axes with large steps outside, small ones inside; the lane axis last.
fn sort_axes(kernel: &mut Kernel, lane: Option<&Var>) {
    let step = |kernel: &Kernel, axis: &Axis| {
        let main = accesses(kernel).filter(|(index, _)| index.contains(&axis.var)).max_by_key(|(_, w)| *w);
        let step = main.and_then(|(index, _)| index.coeff(&axis.var)).and_then(|c| c.as_const()).unwrap_or(i64::MAX);
        (lane == Some(&axis.var), std::cmp::Reverse(step.saturating_abs()))
    };
    let sorted = |axes: &[Axis]| {
        let mut axes = axes.to_vec();
        axes.sort_by_cached_key(|a| step(kernel, a));
        axes
    };
    let outer = sorted(&kernel.axes);
    if !order_matters(kernel) {
        let inner = sorted(&inner_axes(kernel));
        set_inner(kernel, inner);
    }
    kernel.axes = outer;
}

/// Whether the points of the inner axes must be visited in row-major order: the first maximum, the last write.
fn order_matters(kernel: &Kernel) -> bool {
    let is_ordered = |inst: &Inst| matches!(inst, Inst::ReduceArg { .. } | Inst::Scan { .. }) || is_one_by_one(kernel, inst);
    kernel.insts.iter().any(|typed| is_ordered(&typed.inst))
}

fn set_inner(kernel: &mut Kernel, inner: Vec<Axis>) {
    for pass in kernel.passes.iter_mut().filter(|p| !p.axes.is_empty()) {
        pass.axes = inner.clone();
    }
}

/// Two neighbouring axes that every expression walks as if they were one become one.
fn join_axes(kernel: &mut Kernel) {
    let mut axes = std::mem::take(&mut kernel.axes);
    join_list(kernel, &mut axes);
    kernel.axes = axes;
    let mut inner = inner_axes(kernel);
    join_list(kernel, &mut inner);
    set_inner(kernel, inner);
}

fn join_list(kernel: &mut Kernel, axes: &mut Vec<Axis>) {
    let mut k = 1;
    while k < axes.len() {
        let (a, b) = (axes[k - 1].clone(), axes[k].clone());
        if !expressions(kernel).all(|e| joinable(e, &a, &b)) {
            k += 1;
            continue;
        }
        let extent = &a.extent * &b.extent;
        let joined = Var::axis(b.var.id(), extent.clone());
        let replace = |v: &Var| match v {
            v if *v == a.var => Some(Sym::ZERO),
            v if *v == b.var => Some(Sym::var(&joined)),
            _ => None,
        };
        substitute(kernel, &replace);
        axes[k] = Axis { var: joined.clone(), extent };
        axes.remove(k - 1);
    }
}

fn joinable(e: &Sym, a: &Axis, b: &Axis) -> bool {
    match (e.coeff(&a.var), e.coeff(&b.var)) {
        (Some(ca), Some(cb)) => ca == &cb * &b.extent,
        _ => false,
    }
}

/// Every index expression of the kernel.
fn expressions(kernel: &Kernel) -> impl Iterator<Item = &Sym> {
    kernel.insts.iter().filter_map(|i| match &i.inst {
        Inst::Load { index, .. } | Inst::Store { index, .. } | Inst::Index(index) => Some(index),
        Inst::ReduceArg { position, .. } => Some(position),
        _ => None,
    })
}

fn substitute(kernel: &mut Kernel, f: &dyn Fn(&Var) -> Option<Sym>) {
    for inst in &mut kernel.insts {
        match &mut inst.inst {
            Inst::Load { index, .. } | Inst::Store { index, .. } | Inst::Index(index) => *index = index.subst(f),
            Inst::ReduceArg { position, .. } => *position = position.subst(f),
            _ => {}
        }
    }
}

/// Axes are numbered by place (outer, then inner) and instructions by pass; then the kernel says which sizes it takes.
fn renumber(kernel: &mut Kernel) {
    let inner = inner_axes(kernel);
    let all: Vec<Axis> = kernel.axes.iter().chain(&inner).cloned().collect();
    let fresh: Vec<Var> = all.iter().enumerate().map(|(k, a)| Var::axis(k as u32, a.extent.clone())).collect();
    let to = |v: &Var| all.iter().position(|a| a.var == *v).map(|k| Sym::var(&fresh[k]));
    substitute(kernel, &to);
    let outer = kernel.axes.len();
    for (axis, var) in kernel.axes.iter_mut().zip(&fresh) {
        axis.var = var.clone();
    }
    let inner = inner.into_iter().zip(&fresh[outer..]).map(|(a, var)| Axis { var: var.clone(), ..a }).collect();
    set_inner(kernel, inner);
    renumber_insts(kernel);
    kernel.sizes = sizes(kernel);
}

fn renumber_insts(kernel: &mut Kernel) {
    let order: Vec<_> = kernel.passes.iter().flat_map(|p| p.body.iter().copied()).collect();
    let mut place = vec![0u32; kernel.insts.len()];
    for (new, old) in order.iter().enumerate() {
        place[old.index()] = new as u32;
    }
    let mut insts: Vec<_> = order.iter().map(|v| kernel.insts[v.index()].clone()).collect();
    for inst in &mut insts {
        for_each_arg(&mut inst.inst, &mut |v| v.0 = place[v.index()]);
    }
    kernel.insts = insts;
    for pass in &mut kernel.passes {
        pass.body.iter_mut().for_each(|v| v.0 = place[v.index()]);
    }
}

/// The values that an instruction reads.
pub fn for_each_arg(inst: &mut Inst, f: &mut dyn FnMut(&mut ox_ir::kernel::Val)) {
    match inst {
        Inst::Const(_) | Inst::Index(_) => {}
        Inst::Load { mask, .. } => {
            if let Some((m, _)) = mask {
                f(m)
            }
        }
        Inst::Point(_, args) => args.iter_mut().for_each(f),
        Inst::Cast(v) => f(v),
        Inst::Reduce { value, .. } | Inst::ReduceArg { value, .. } => f(value),
        Inst::Scan { value, decay, .. } => {
            f(value);
            decay.iter_mut().for_each(f);
        }
        Inst::CheckIndex { value, .. } | Inst::CheckNonZero { value, .. } => f(value),
        Inst::Store { value, mask, .. } => {
            f(value);
            if let Some(m) = mask {
                f(m)
            }
        }
    }
}

fn sizes(kernel: &Kernel) -> Vec<Var> {
    let mut out = std::collections::BTreeSet::new();
    let extents = kernel.axes.iter().chain(kernel.passes.iter().flat_map(|p| &p.axes)).map(|a| &a.extent);
    let checks = kernel.insts.iter().filter_map(|i| match &i.inst {
        Inst::CheckIndex { extent, .. } => Some(extent),
        _ => None,
    });
    for e in extents.chain(checks).chain(expressions(kernel)) {
        out.extend(e.vars().into_iter().filter(|v| v.kind() == VarKind::Size));
    }
    out.into_iter().collect()
}
