//! Scalar ops, by the slopes of their rows.

use super::{Gradients, Site};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::formula::Expr;
use crate::point::{Derivative, Terms, row};
use ox_ir::PointOp;
use ox_ir::graph::NodeId;

pub fn point(b: &mut Builder, site: &Site<'_>, op: PointOp) -> OpResult<Gradients> {
    match row(op).derivative {
        Derivative::None => Err(OpError::unsupported(format!("{} has no derivative", op.name()))),
        Derivative::Zero => Ok(vec![None; site.node.args.len()]),
        Derivative::Call(f) => {
            let grad = site.grad()?;
            site.only(f(b, site.arg(0), grad))
        }
        Derivative::Slopes(slopes) => {
            let terms = terms(b, site, is_by_steps(op))?;
            site.each(|n| {
                let Some(slope) = slopes[n] else { return Ok(None) };
                let grad = slope(&terms).build(b)?;
                Ok(Some(b.cast(grad, b.dtype(site.arg(n)))))
            })
        }
    }
}

/// Whose gradients eager computes by operations that each round to the tensor's type: those that are only moved or scaled, and that of the
/// reciprocal, which every division of a number by a tensor has.
fn is_by_steps(op: PointOp) -> bool {
    matches!(op, PointOp::Neg | PointOp::Add | PointOp::Sub | PointOp::Mul | PointOp::Where | PointOp::Reciprocal)
}

fn terms(b: &mut Builder, site: &Site<'_>, narrow: bool) -> OpResult<Terms> {
    let grad = site.grad()?;
    let mut term = |node: NodeId| {
        let dtype = b.dtype(node);
        Expr::Node(if narrow { node } else { b.cast(node, dtype.compute()) })
    };
    let args = site.node.args.iter().map(|arg| term(*arg)).collect();
    Ok(Terms { args, result: term(site.result), grad: term(grad) })
}
