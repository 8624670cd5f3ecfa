//! Frozen weights of products and convolutions are packed in the library's own format, once, instead of in every call.
//!
//! What is packed was measured call by call against torch's plain ones (AVX-512, one thread, the shapes of the workloads):
//! - Convolutions over planes: 10 to 35 % faster than the better of the two memory orders, the more the larger the weight is against
//!   its planes. Windows over one or three dimensions and transposed convolutions stay as they are.
//! - Products in f32: 10 to 50 % faster from 8 rows to 256, up to 5 % at 512, nothing beyond, where the product outweighs the packing;
//!   slower below, where MKL has better kernels for plain matrices; nothing for matrices that fit the first caches.
//!   MKL packs for a number of rows, so that must be known.
//! - Products in bf16: 2 to 5 % faster, 20 to 30 % with few rows.

use super::frozen::{Changes, Frozen};
use crate::options::PackWeights;
use crate::rewriter::{Fired, Rewriter};
use ox_ir::graph::{ConvAttrs, Graph, Node, NodeId, Op, Packing, Shape};
use ox_ir::{DType, Sym};
use smallvec::SmallVec;

const FEWEST_ROWS: i64 = 8;
const MOST_ROWS: i64 = 512;
/// Elements of a matrix that MKL reads fast enough as it is.
const SMALL_MATRIX: i64 = 1 << 16;

pub fn pack_weights(graph: Graph, options: &PackWeights) -> (Graph, Fired) {
    let mut frozen = Frozen::new(&graph);
    Rewriter::new().rebuild(graph, move |new, mut node| {
        let packing = packing(new, &node, options);
        let Some(packing) = packing.filter(|_| frozen.changes(new, node.args[1]) == Changes::IfThawed) else {
            return new.emit(node);
        };
        let ty = new.ty(node.args[1]).clone();
        node.args[1] = new.make(Op::Pack(Box::new(packing)), [node.args[1]], ty);
        let call = new.emit(node);
        new.fire("pack-weight", call)
    })
}

/// How the weight of a call is packed, where that is possible and pays.
fn packing(graph: &Rewriter, node: &Node, options: &PackWeights) -> Option<Packing> {
    match &node.op {
        Op::Matmul { .. } if is_plain_product(graph, node) && is_worth_packing(graph, node, options) => {
            Some(product(fixed_shape(graph, node.args[0])))
        }
        Op::Conv(attrs) if is_over_planes(attrs) && !is_empty(graph, node.args[1]) => {
            let able = match node.ty.dtype {
                DType::F32 => options.conv_f32,
                DType::BF16 => options.conv_bf16,
                _ => false,
            };
            able.then(|| convolution(attrs, fixed_shape(graph, node.args[0])))
        }
        _ => None,
    }
}

fn product(x: Shape) -> Packing {
    let none = SmallVec::new;
    Packing { x, stride: none(), padding: none(), dilation: none(), groups: Sym::ONE }
}

fn convolution(attrs: &ConvAttrs, x: Shape) -> Packing {
    let ConvAttrs { stride, padding, dilation, groups, .. } = attrs.clone();
    Packing { x, stride, padding, dilation, groups }
}

fn is_over_planes(attrs: &ConvAttrs) -> bool {
    let numbers = attrs.stride.iter().chain(&attrs.padding).chain(&attrs.dilation).chain([&attrs.groups]);
    attrs.stride.len() == 2 && !attrs.transposed && !attrs.add && numbers.into_iter().all(|n| n.as_const().is_some())
}

/// Two matrices, and a vector at most behind them: what the packed products can do.
fn is_plain_product(graph: &Rewriter, node: &Node) -> bool {
    let Op::Matmul { bias, add, alpha, beta, .. } = &node.op else { return false };
    let is_vector = |id: NodeId| {
        let shape = &graph.ty(id).shape;
        shape.last() == node.ty.shape.last() && shape[..shape.len() - 1].iter().all(Sym::is_one)
    };
    let unscaled = alpha.as_f64() == 1.0 && (!bias || (beta.as_f64() == 1.0 && is_vector(node.args[2])));
    node.ty.rank() == 2 && !add && unscaled && !is_empty(graph, node.args[1])
}

fn is_worth_packing(graph: &Rewriter, node: &Node, options: &PackWeights) -> bool {
    let elements: Option<i64> = graph.ty(node.args[1]).numel().as_const();
    let rows = node.ty.shape[0].as_const();
    match node.ty.dtype {
        DType::F32 => {
            let pays = rows.is_some_and(|n| (FEWEST_ROWS..=MOST_ROWS).contains(&n));
            options.matmul_f32 && pays && elements.is_some_and(|n| n > SMALL_MATRIX)
        }
        DType::BF16 => options.matmul_bf16,
        _ => false,
    }
}

fn is_empty(graph: &Rewriter, id: NodeId) -> bool {
    graph.ty(id).shape.iter().any(Sym::is_zero)
}

/// The shape if it is the same in every run, else an empty one.
fn fixed_shape(graph: &Rewriter, id: NodeId) -> Shape {
    let shape = &graph.ty(id).shape;
    if shape.iter().all(|n| n.as_const().is_some()) { shape.clone() } else { Shape::new() }
}
