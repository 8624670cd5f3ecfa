//! Results of torch's operators that lie as their arguments do.

use crate::Target;
use crate::layout::{channels_last, is_channels_last, same_strides};
use crate::prepare::Prepared;
use ox_ir::graph::{Node, Op, Shape, contiguous_strides};
use ox_ir::{Graph, NodeId, Sym};

pub const CONV_BACKWARD: &str = "aten::convolution_backward";
/// The result lies as the first argument.
const LIKE_FIRST: [&str; 2] = [CUDNN, "aten::_scaled_dot_product_flash_attention"];
/// All results, or the gradient, are in the order of this argument if it is channels-last.
const IN_ORDER: [(&str, usize); 3] =
    [(CONV_BACKWARD, 1), ("aten::max_pool2d_with_indices", 0), ("aten::max_pool2d_with_indices_backward", 1)];
/// Each gradient lies as the argument behind the gradient that came in.
const LIKE_OTHERS: [&str; 2] = [CUDNN_BACKWARD, "aten::_scaled_dot_product_flash_attention_backward"];
const CUDNN: &str = "aten::_scaled_dot_product_cudnn_attention";
const CUDNN_BACKWARD: &str = "aten::_scaled_dot_product_cudnn_attention_backward";

pub fn is_conv_backward(op: &Op) -> bool {
    matches!(op, Op::Library(library) if library.callee.name() == CONV_BACKWARD)
}

/// Derivatives of convolutions over planes that are best done in channels-last order, as the convolutions are.
pub fn is_gpu_conv_backward(graph: &Graph, id: NodeId, target: Target) -> bool {
    let node = graph.node(id);
    let ty = || graph.ty(node.args[0]);
    target == Target::Gpu && is_conv_backward(&node.op) && ty().rank() == 4 && ty().dtype.size() == 2
}

impl Prepared {
    /// Corrects what the call says of its results' strides.
    pub fn foresee_order(&self, node: &mut Node) {
        let Op::Library(library) = &mut node.op else { return };
        let name = library.callee.name().to_string();
        if let Some((_, arg)) = IN_ORDER.iter().find(|(known, _)| *known == name) {
            let given = &self.graph.ty(node.args[*arg]).shape;
            if self.resolved(node.args[*arg]).is_some_and(|s| is_channels_last(given, &s)) {
                for out in &mut library.outs {
                    out.strides = channels_last(&out.ty.shape).unwrap_or_else(|| out.strides.clone());
                }
            }
        }
        let like = match () {
            _ if LIKE_FIRST.contains(&name.as_str()) => 0..1,
            _ if LIKE_OTHERS.contains(&name.as_str()) => 1..4,
            _ => return,
        };
        for (out, arg) in library.outs.iter_mut().zip(&node.args[like]) {
            out.strides = self.packed_like(*arg, &out.ty.shape).unwrap_or_else(|| out.strides.clone());
        }
    }

    /// torch keeps cuDNN's plans for the derivative of an attention by how queries, keys and values lie, and takes them for a result that lies in
    /// any order: gradients are wrong unless it lies as the queries, as eager's does. Where the order of those is not known they are copied.
    pub fn settle_attention(&mut self, node: &mut Node) {
        let Op::Library(library) = &node.op else { return };
        let (query, result) = match library.callee.name() {
            CUDNN => (0, None),
            CUDNN_BACKWARD => (1, Some(4)),
            _ => return,
        };
        // The result's rows are as wide as those of the values, which may not be as wide as the queries'.
        let shape = self.graph.ty(node.args[result.unwrap_or(query)]).shape.clone();
        let like = self.packed_like(node.args[query], &shape).unwrap_or_else(|| {
            let dense = contiguous_strides(&self.graph.ty(node.args[query]).shape);
            node.args[query] = self.push_copy(node.args[query], dense);
            contiguous_strides(&shape)
        });
        let lies_so = |id: NodeId| self.resolved(id).is_some_and(|strides| same_strides(&shape, &strides, &like));
        if let Some(n) = result.filter(|n| !lies_so(node.args[*n])) {
            node.args[n] = self.push_copy(node.args[n], like);
        }
    }

    /// The strides that torch gives a tensor of this shape in the order of another one.
    fn packed_like(&self, id: NodeId, shape: &Shape) -> Option<Shape> {
        self.resolved(id).and_then(|strides| packed(shape, &strides))
    }
}

/// Dense strides in the order of these: what torch gives a tensor that is made like another. None if the order is not known.
fn packed(shape: &Shape, strides: &Shape) -> Option<Shape> {
    let is_above = |a: usize, b: usize| is_at_least(&strides[a], &strides[b]);
    let dims = 0..shape.len();
    let is_known = dims.clone().all(|a| (0..a).all(|b| is_above(a, b) || is_above(b, a)));
    let mut order: Vec<usize> = is_known.then(|| dims.collect())?;
    order.sort_by(|a, b| is_above(*b, *a).cmp(&is_above(*a, *b)));
    let mut packed: Shape = strides.clone();
    let mut step = Sym::ONE;
    for d in order.into_iter().rev() {
        packed[d] = step.clone();
        step = &step * &shape[d];
    }
    Some(packed)
}

/// As a difference, or as a multiple: of two products of sizes the first does not tell.
fn is_at_least(a: &Sym, b: &Sym) -> bool {
    let times = || Some(a.div(b)).filter(|times| &(times * b) == a);
    (a - b).is_nonneg() || b.is_nonneg() && times().is_some_and(|times| times.is_positive())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ox_ir::Var;

    #[test]
    fn the_order_of_dimensions_is_known_where_sizes_vary() {
        let (batch, rows) = (Sym::var(&Var::size(0, 1, i64::MAX, 1)), Sym::var(&Var::size(1, 1, i64::MAX, 1)));
        let four = |parts: [&Sym; 4]| -> Shape { parts.into_iter().cloned().collect() };
        let (heads, width, one) = (Sym::from(4i64), Sym::from(64i64), Sym::ONE);
        let shape = four([&batch, &heads, &rows, &width]);
        let by_heads = four([&(&rows * 256), &(&rows * 64), &width, &one]);
        assert_eq!(packed(&shape, &by_heads), Some(by_heads.clone()));
        let many = Sym::var(&Var::size(2, 1, i64::MAX, 1));
        let by_any_heads = four([&(&(&many * &rows) * 64), &(&rows * 64), &width, &one]);
        assert_eq!(packed(&four([&batch, &many, &rows, &width]), &by_any_heads), Some(by_any_heads.clone()));
        // One projection for queries, keys and values.
        let by_rows = four([&(&rows * 768), &width, &Sym::from(768i64), &one]);
        assert_eq!(packed(&shape, &by_rows), Some(four([&(&rows * 256), &width, &Sym::from(256i64), &one])));
        // Whether batches or rows lie closer together depends on their number.
        assert_eq!(packed(&shape, &four([&(&rows * 64), &width, &(&batch * 64), &one])), None);
    }
}
