//! A choice between two constants, `where(c, 1, 0)` or a bool that was converted, stays one under operations with constants. Masks
//! are built this way: `(1 - mask) * -1e9` is one selection, `tril(ones) == 0` a comparison of positions.

use super::Rule;
use crate::rewriter::Rewriter;
use crate::scalar;
use ox_ir::graph::{Node, NodeId, Op};
use ox_ir::{DType, PointOp, Scalar};
use ox_ops::point::convert;
use smallvec::SmallVec;

pub const POINT_OF_CHOICE: Rule = Rule { name: "point-of-choice", apply: point_of_choice };
pub const CAST_OF_CHOICE: Rule = Rule { name: "cast-of-choice", apply: cast_of_choice };

/// `yes` where the condition holds, else `no`.
struct Choice {
    condition: NodeId,
    yes: Scalar,
    no: Scalar,
}

fn choice(graph: &Rewriter, id: NodeId) -> Option<Choice> {
    let node = graph.node(id);
    match node.op {
        Op::Point(PointOp::Where) => {
            let [yes, no] = [graph.constant(node.args[1])?, graph.constant(node.args[2])?];
            Some(Choice { condition: node.args[0], yes, no })
        }
        Op::Cast if graph.ty(node.args[0]).dtype == DType::Bool && !node.ty.dtype.is_complex() => {
            let [yes, no] = [true, false].map(|b| convert(Scalar::Bool(b), node.ty.dtype));
            Some(Choice { condition: node.args[0], yes, no })
        }
        _ => None,
    }
}

fn build(graph: &mut Rewriter, node: &Node, condition: NodeId, [yes, no]: [Scalar; 2]) -> NodeId {
    let [yes, no] = [yes, no].map(|value| graph.full(value, node.ty.clone()));
    graph.point(PointOp::Where, &[condition, yes, no])
}

fn point_of_choice(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let Op::Point(op) = node.op else { return None };
    let at = node.args.iter().position(|a| graph.constant(*a).is_none())?;
    let Choice { condition, yes, no } = choice(graph, node.args[at])?;
    let dtype = graph.ty(node.args[at]).dtype;
    let with = |chosen: Scalar| -> Option<Scalar> {
        let value = |(n, arg): (usize, &NodeId)| if n == at { Some(chosen) } else { graph.constant(*arg) };
        let values: Option<SmallVec<[Scalar; 3]>> = node.args.iter().enumerate().map(value).collect();
        scalar::evaluate(op, dtype, &values?)
    };
    let both = [with(yes)?, with(no)?];
    (op != PointOp::Where).then(|| build(graph, node, condition, both))
}

/// A converted bool is the simplest choice; the others take the conversion in.
fn cast_of_choice(graph: &mut Rewriter, node: &Node) -> Option<NodeId> {
    let from = graph.ty(node.args[0]).dtype;
    let Choice { condition, yes, no } = choice(graph, node.args[0])?;
    let both = [scalar::cast(yes, from, node.ty.dtype)?, scalar::cast(no, from, node.ty.dtype)?];
    Some(build(graph, node, condition, both))
}
