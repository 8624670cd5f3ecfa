//! What a mask in front of a softmax is known to leave visible.
//!
//! The library gives zeros for a query that sees nothing, where a softmax written out gives NaN (behind -inf) or the mean (behind
//! a large finite number). So a mask may be handed over only if every query provably sees something, or if its fill is
//! so large that adding it swallows any product.

use crate::linear::Linear;
use crate::rewriter::Rewriter;
use crate::shapes::same_but_units;
use ox_ir::graph::{NodeId, Op};
use ox_ir::{DType, PointOp, Scalar, Sym};
use ox_ops::point::convert;

/// Fills at or below this make a masked product vanish beside any visible one.
const HIDES: f64 = -1e9;
/// Finite fills at or below this swallow a product that is added to them, so that adding is the same as replacing.
const SWALLOWS: f64 = -1e30;

/// The mask to hand over.
pub enum Mask {
    None,
    /// The library's own causal mask.
    Causal,
    /// A bool (true: visible) or float mask, with the shape of the products.
    Tensor(NodeId),
}

/// Products are kept where `condition` is `kept_if`, elsewhere replaced by `fill`.
pub struct Selection {
    pub condition: NodeId,
    pub kept_if: bool,
    pub fill: f64,
}

/// The mask for `where(condition, products, fill)` and its mirror; None if it is not known to be the same.
pub fn select(graph: &mut Rewriter, selection: &Selection, dtype: DType) -> Option<Mask> {
    let Selection { condition, kept_if, fill } = *selection;
    if fill > HIDES || fill.is_nan() {
        return None;
    }
    match distance_bound(graph, condition, kept_if) {
        Some(0) => return Some(Mask::Causal),
        Some(bound) if bound > 0 => {
            let visible = if kept_if { condition } else { graph.point(PointOp::Not, &[condition]) };
            return Some(Mask::Tensor(visible));
        }
        _ => {}
    }
    if !(SWALLOWS >= fill && fill.is_finite()) {
        return None;
    }
    let ty = graph.ty(condition).with_dtype(dtype);
    let [zero, fill] = [0.0, fill].map(|value| graph.full(Scalar::Float(value), ty.clone()));
    let (yes, no) = if kept_if { (zero, fill) } else { (fill, zero) };
    Some(Mask::Tensor(graph.point(PointOp::Where, &[condition, yes, no])))
}

/// The mask for `products + mask`.
pub fn added(graph: &mut Rewriter, mask: NodeId) -> Option<Mask> {
    let dtype = graph.ty(mask).dtype;
    if is_finite(graph, mask, 8) {
        return Some(Mask::Tensor(mask));
    }
    let (small, views) = below_broadcast(graph, mask);
    let selection = selection_of(graph, small)?;
    match select(graph, &selection, dtype)? {
        Mask::Tensor(small) => Some(Mask::Tensor(broadcast_again(graph, small, &views))),
        other => Some(other),
    }
}

/// What is broadcast by expansions and by sizes 1 in front of the rows and columns, and the views that do it, outermost first.
fn below_broadcast(graph: &Rewriter, mut id: NodeId) -> (NodeId, Vec<NodeId>) {
    let mut views = Vec::new();
    let keeps_matrix = |from: &[Sym], to: &[Sym]| {
        from.len() >= 2 && to.len() >= 2 && from[from.len() - 2..] == to[to.len() - 2..] && same_but_units(from, to)
    };
    loop {
        let node = graph.node(id);
        let passes = match node.op {
            Op::Expand => true,
            Op::Reshape => keeps_matrix(&graph.ty(node.args[0]).shape, &node.ty.shape),
            _ => false,
        };
        if !passes {
            return (id, views);
        }
        views.push(id);
        id = node.args[0];
    }
}

fn broadcast_again(graph: &mut Rewriter, small: NodeId, views: &[NodeId]) -> NodeId {
    views.iter().rev().fold(small, |x, view| {
        let (op, ty) = (graph.op(*view).clone(), graph.ty(*view).with_dtype(graph.ty(x).dtype));
        graph.make(op, [x], ty)
    })
}

/// A mask that is zero on one side of a condition and a constant on the other.
fn selection_of(graph: &Rewriter, mask: NodeId) -> Option<Selection> {
    let node = graph.node(mask);
    if node.op != Op::Point(PointOp::Where) {
        return None;
    }
    let [yes, no] = [graph.constant(node.args[1])?.as_f64(), graph.constant(node.args[2])?.as_f64()];
    let kept_if = yes == 0.0;
    let fill = if kept_if { no } else { yes };
    (yes == 0.0 || no == 0.0).then_some(Selection { condition: node.args[0], kept_if, fill })
}

/// If products are kept exactly where `row - column + bound >= 0`: the bound.
pub fn distance_bound(graph: &Rewriter, condition: NodeId, kept_if: bool) -> Option<i64> {
    let node = graph.node(below_broadcast(graph, condition).0);
    let Op::Point(op) = node.op else { return None };
    if !matches!(op, PointOp::Ge | PointOp::Gt | PointOp::Le | PointOp::Lt) {
        return None;
    }
    let difference = Linear::of(graph, node.args[0])?.plus(&Linear::of(graph, node.args[1])?, -1);
    // The condition as `excess >= 0`; what is not above 0 is below 0, so that -excess - 1 >= 0.
    let opposite = |x: Linear| x.times(-1).map(|x| x.plus(&Linear::constant(Sym::ONE), -1));
    let excess = match op {
        PointOp::Ge => difference,
        PointOp::Lt => opposite(difference)?,
        PointOp::Le => difference.times(-1)?,
        _ => difference.plus(&Linear::constant(Sym::ONE), -1),
    };
    let excess = if kept_if { excess } else { opposite(excess)? };
    let rank = node.ty.rank();
    let is_distance = rank >= 2 && excess.along[..] == [(rank - 2, 1), (rank - 1, -1)];
    is_distance.then(|| excess.start.as_const())?
}

/// Whether no element can be infinite or NaN.
fn is_finite(graph: &Rewriter, id: NodeId, depth: u32) -> bool {
    let node = graph.node(id);
    let all = |args: &[NodeId]| depth > 0 && args.iter().all(|a| is_finite(graph, *a, depth - 1));
    match &node.op {
        Op::Full(value) => convert(*value, node.ty.dtype).as_f64().is_finite(),
        Op::Point(PointOp::Where) => all(&node.args[1..]),
        Op::Cast => graph.ty(node.args[0]).dtype == DType::Bool,
        op if op.is_view() => all(&node.args),
        _ => false,
    }
}
