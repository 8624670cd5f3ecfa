//! Squared deviations from a mean, where the sum that the mean is made of is cut into parts.
//!
//! As they are spelt they wait for the mean, read everything once more, and are cut into parts again: four kernels for both. Instead, the kernel that
//! adds up a part goes through it a second time, while it is at hand, for what it deviates from its own mean `m`, and one kernel behind puts the parts
//! together (Chan, Golub and LeVeque). About the mean of all, from which `m` is `c` away, the squares of a part with `n` elements are
//! `sum((x - m)^2) + c * (2 * sum(x - m) + n * c)`. The second sum would be 0 if `m` were exact; it is rounded, by more than elements deviate where
//! their mean is far from zero. Only what lies close together is subtracted, so that no digits are lost by that: the result is that of the plain way.

use crate::prepare::Prepared;
use crate::split::Halves;
use ox_ir::graph::{Dims, Node, ReduceOp, Shape, SliceDim, contiguous_strides};
use ox_ir::{DType, Graph, NodeId, Op, PointOp, Scalar, Sym, TensorType};

/// `sum((x - mean)^2)` of a `mean` that is made of `sum(x)`, over the same dimensions.
pub struct Deviations {
    pub sum: NodeId,
    pub mean: NodeId,
}

pub fn deviations(graph: &Graph, id: NodeId) -> Option<Deviations> {
    let (squares, dims) = sum_of(graph, id)?;
    let [one, other] = operands(graph, squares, &[PointOp::Mul])?;
    let [x, spread] = operands(graph, one, &[PointOp::Sub]).filter(|_| one == other)?;
    let mean = graph.node(spread).args.first().copied().filter(|_| graph.node(spread).op == Op::Expand)?;
    let [sum, _] = operands(graph, mean, &[PointOp::Div, PointOp::Mul]).filter(|_| graph.ty(mean) == graph.ty(id))?;
    // Of nothing the mean is no number, and the sum is 0.
    let has_elements = dims.iter().all(|dim| graph.ty(x).shape[*dim].is_positive());
    (has_elements && sum_of(graph, sum)? == (x, dims)).then_some(Deviations { sum, mean })
}

fn sum_of(graph: &Graph, id: NodeId) -> Option<(NodeId, &Dims)> {
    let node = graph.node(id);
    match &node.op {
        Op::Reduce { op: ReduceOp::Sum, dims } if matches!(node.ty.dtype, DType::F32 | DType::F64) => Some((node.args[0], dims)),
        _ => None,
    }
}

fn operands(graph: &Graph, id: NodeId, ops: &[PointOp]) -> Option<[NodeId; 2]> {
    let node = graph.node(id);
    match &node.op {
        Op::Point(op) if ops.contains(op) => node.args.as_slice().try_into().ok(),
        _ => None,
    }
}

/// Adds them for `node`, of the halves of the sum and of the mean.
pub fn push(out: &mut Prepared, node: &Node, sum: &Halves, mean: NodeId, strides: Shape) -> NodeId {
    let mut make = Make { out, sum, location: node.location };
    let count = make.counts();
    let own = make.own(count);
    let centred = make.centred(own);
    let squares = make.point(PointOp::Mul, centred, centred);
    let [rest, squares] = [centred, squares].map(|value| make.sum_of_parts(value));
    let mean = make.node(Op::Reshape, &[mean], make.ty(sum.second));
    let mean = make.node(Op::Expand, &[mean], make.ty(sum.first));
    let away = make.point(PointOp::Sub, own, mean);
    let twice = make.point(PointOp::Add, rest, rest);
    let moved = make.point(PointOp::Mul, count, away);
    let factor = make.point(PointOp::Add, twice, moved);
    let more = make.point(PointOp::Mul, factor, away);
    let all = make.point(PointOp::Add, squares, more);
    // Rounding must not make squares negative, of which somebody takes the root.
    let zero = make.full(Scalar::Float(0.0), make.ty(sum.first));
    let all = make.point(PointOp::Maximum, all, zero);
    let wanted = make.out.strides(sum.second);
    let (of_parts, ty) = (make.op(sum.second), make.ty(sum.second));
    let second = make.lying(of_parts, &[all], ty, wanted);
    make.lying(Op::Reshape, &[second], node.ty.clone(), strides)
}

struct Make<'a> {
    out: &'a mut Prepared,
    sum: &'a Halves,
    location: u32,
}

impl Make<'_> {
    fn ty(&self, id: NodeId) -> TensorType {
        self.out.graph.ty(id).clone()
    }

    fn op(&self, id: NodeId) -> Op {
        self.out.graph.node(id).op.clone()
    }

    fn lying(&mut self, op: Op, args: &[NodeId], ty: TensorType, strides: Shape) -> NodeId {
        self.out.push(Node { op, args: args.iter().copied().collect(), ty, location: self.location }, strides)
    }

    fn node(&mut self, op: Op, args: &[NodeId], ty: TensorType) -> NodeId {
        let strides = contiguous_strides(&ty.shape);
        self.lying(op, args, ty, strides)
    }

    fn point(&mut self, op: PointOp, a: NodeId, b: NodeId) -> NodeId {
        self.node(Op::Point(op), &[a, b], self.ty(a))
    }

    fn full(&mut self, value: Scalar, ty: TensorType) -> NodeId {
        self.node(Op::Full(value), &[], ty)
    }

    /// A size for each part.
    fn size(&mut self, size: &Sym, ty: &TensorType) -> NodeId {
        if let Some(known) = size.as_const() {
            return self.full(Scalar::Int(known), ty.clone());
        }
        let value = self.node(Op::SymValue(size.clone()), &[], ty.with_shape(Shape::new()));
        let ones = ty.shape.iter().map(|_| Sym::ONE).collect();
        let value = self.node(Op::Reshape, &[value], ty.with_shape(ones));
        self.node(Op::Expand, &[value], ty.clone())
    }

    /// What the whole was made of which the parts are: itself, or itself filled up.
    fn filled(&self) -> NodeId {
        self.out.graph.node(self.sum.parts).args[0]
    }

    /// How many elements each part has.
    fn counts(&mut self) -> NodeId {
        let (whole, parts, ty) = (self.ty(self.sum.whole).shape, self.ty(self.sum.parts).shape, self.ty(self.sum.first));
        let Op::Reduce { dims, .. } = self.op(self.sum.first) else { unreachable!("halves are reductions") };
        let Some(cut) = self.sum.cut.filter(|_| self.filled() != self.sum.whole) else {
            return self.size(&dims.iter().map(|d| &parts[*d]).product(), &ty);
        };
        // The last parts have fewer elements, or none.
        let wide = TensorType { dtype: DType::I64, ..ty.clone() };
        let [length, end] = [&parts[cut + 1], &whole[cut]].map(|size| self.size(size, &wide));
        let (place, none) = (self.node(Op::Iota { dim: cut }, &[], wide.clone()), self.full(Scalar::Int(0), wide.clone()));
        let begin = self.point(PointOp::Mul, place, length);
        let left = self.point(PointOp::Sub, end, begin);
        let left = self.point(PointOp::Minimum, left, length);
        let left = self.point(PointOp::Maximum, left, none);
        let others: Sym = dims.iter().filter(|d| **d != cut + 1).map(|d| &parts[*d]).product();
        let others = self.size(&others, &wide);
        let count = self.point(PointOp::Mul, left, others);
        self.node(Op::Cast, &[count], ty)
    }

    /// The means of the parts. That of nothing is 0.
    fn own(&mut self, count: NodeId) -> NodeId {
        let mut divisor = count;
        if self.filled() != self.sum.whole {
            let one = self.full(Scalar::Float(1.0), self.ty(count));
            divisor = self.point(PointOp::Maximum, count, one);
        }
        self.point(PointOp::Div, self.sum.first, divisor)
    }

    /// The whole without what each part has in its place.
    fn centred(&mut self, own: NodeId) -> NodeId {
        let Halves { whole, parts, .. } = *self.sum;
        let mut spread = self.node(Op::Expand, &[own], self.ty(parts));
        spread = self.node(Op::Reshape, &[spread], self.ty(self.filled()));
        if self.filled() != whole {
            let all = self.ty(whole).shape.iter().map(|_| SliceDim { start: Sym::ZERO, step: 1 }).collect();
            spread = self.node(Op::Slice(all), &[spread], self.ty(whole));
        }
        self.point(PointOp::Sub, whole, spread)
    }

    /// As the sum was made.
    fn sum_of_parts(&mut self, mut value: NodeId) -> NodeId {
        if self.filled() != self.sum.whole {
            value = self.node(self.op(self.filled()), &[value], self.ty(self.filled()));
        }
        let parts = self.node(Op::Reshape, &[value], self.ty(self.sum.parts));
        self.node(self.op(self.sum.first), &[parts], self.ty(self.sum.first))
    }
}
