//! Results of torch's operators that lie as their arguments do.

use crate::Target;
use crate::layout::{channels_last, is_channels_last};
use crate::prepare::Prepared;
use ox_ir::graph::{Node, Op, Shape};
use ox_ir::{Graph, NodeId, Sym};

pub const CONV_BACKWARD: &str = "aten::convolution_backward";
/// The result lies as the first argument.
const LIKE_FIRST: [&str; 2] = ["aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_flash_attention"];
/// All results, or the gradient, are in the order of this argument if it is channels-last.
const IN_ORDER: [(&str, usize); 3] =
    [(CONV_BACKWARD, 1), ("aten::max_pool2d_with_indices", 0), ("aten::max_pool2d_with_indices_backward", 1)];
/// Each gradient lies as the argument behind the gradient that came in.
const LIKE_OTHERS: [&str; 2] =
    ["aten::_scaled_dot_product_cudnn_attention_backward", "aten::_scaled_dot_product_flash_attention_backward"];

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
            let strides = self.resolved(*arg).and_then(|strides| packed(&out.ty.shape, &strides));
            out.strides = strides.unwrap_or_else(|| out.strides.clone());
        }
    }
}

/// Dense strides in the order of these: what torch gives a tensor that is made like another. None if the order is not known.
fn packed(shape: &Shape, strides: &Shape) -> Option<Shape> {
    let known: Vec<i64> = strides.iter().map(|s| s.as_const()).collect::<Option<_>>()?;
    let mut order: Vec<usize> = (0..shape.len()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(known[*d]));
    let mut packed: Shape = strides.clone();
    let mut step = Sym::ONE;
    for d in order.into_iter().rev() {
        packed[d] = step.clone();
        step = &step * &shape[d];
    }
    Some(packed)
}
