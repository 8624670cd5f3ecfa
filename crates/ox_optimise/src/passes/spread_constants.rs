//! A constant that eager returns as the expansion of a smaller one: the rules have made one of both, and the strides that eager shows are
//! those of the small one.

use ox_ir::Sym;
use ox_ir::graph::{Graph, Node, Op, Shape};
use smallvec::smallvec;

pub fn spread_constants(mut graph: Graph) -> Graph {
    for n in 0..graph.outputs.len() {
        let (value, alias) = (graph.outputs[n].value, &graph.outputs[n].alias);
        let node = graph.node(value).clone();
        let small = small_shape(&node.ty.shape, &graph.outputs[n].strides);
        if !matches!(node.op, Op::Full(_)) || alias.is_some() || small == node.ty.shape {
            continue;
        }
        let source = graph.push(Node { ty: node.ty.with_shape(small), ..node.clone() });
        graph.outputs[n].value = graph.push(Node { op: Op::Expand, args: smallvec![source], ..node });
    }
    graph
}

/// Without the dimensions whose elements all lie in one place.
fn small_shape(shape: &Shape, strides: &Shape) -> Shape {
    let is_spread = |size: &Sym, stride: &Sym| stride.is_zero() && size.is_positive();
    shape.iter().zip(strides).map(|(size, stride)| if is_spread(size, stride) { Sym::ONE } else { size.clone() }).collect()
}
