//! What libraries compute: products, convolutions and attention.

use super::build::{Gen, Meta};
use ox_ir::graph::{AttentionAttrs, ConvAttrs, NodeId, Op, Post, Shape, TensorType};
use ox_ir::{DType, PointOp, Scalar, Sym};

impl Gen<'_> {
    pub fn call(&mut self) -> Option<NodeId> {
        match self.rng.below(5) {
            0 => self.conv(),
            1 => self.attention(),
            _ => self.matmul(),
        }
    }

    /// A float tensor with so many dimensions whose elements are not large.
    fn moderate(&mut self, ranks: std::ops::RangeInclusive<usize>) -> Option<NodeId> {
        self.any_where(|g, id| {
            let ty = g.graph.ty(id);
            let float = matches!(ty.dtype, DType::F32 | DType::F64);
            float && ranks.contains(&ty.rank()) && g.meta[id.index()].bound < 100.0 && ty.shape.iter().all(|n| n.is_positive())
        })
    }

    /// An operand with values in -1..1, so that sums of products stay small.
    fn small_operand(&mut self, dtype: DType, shape: Shape) -> Option<NodeId> {
        let raw = self.operand(dtype, &shape)?;
        let meta = self.meta[raw.index()];
        if !meta.bound.is_finite() {
            return None;
        }
        let meta = Meta { fuzzy: meta.fuzzy, bound: 1.0 };
        self.push(Op::Point(PointOp::Sin), &[raw], TensorType::new(dtype, shape), meta)
    }

    fn post(&mut self) -> Post {
        self.rng.pick(&[Post::None, Post::None, Post::Relu, Post::Silu]).clone()
    }

    fn product(&mut self, op: Op, args: &[NodeId], shape: Shape) -> Option<NodeId> {
        let ty = self.graph.ty(args[0]).with_shape(shape);
        let bound = self.meta[args[0].index()].bound * 300.0;
        self.push(op, args, ty, Meta { fuzzy: true, bound })
    }

    fn matmul(&mut self) -> Option<NodeId> {
        let a = self.moderate(2..=3)?;
        let ty = self.graph.ty(a).clone();
        let rank = ty.rank();
        let n = self.size();
        let mut b_shape = ty.shape.clone();
        b_shape[rank - 2] = ty.shape[rank - 1].clone();
        b_shape[rank - 1] = n.clone();
        let mut args = vec![a, self.small_operand(ty.dtype, b_shape)?];
        let bias = self.rng.percent(30);
        if bias {
            args.push(self.small_operand(ty.dtype, Shape::from_iter([n.clone()]))?);
        }
        let mut shape = ty.shape;
        shape[rank - 1] = n;
        let one = Scalar::Float(1.0);
        let op = Op::Matmul { bias, add: false, alpha: one, beta: one, post: self.post() };
        self.product(op, &args, shape)
    }

    /// Along the last dimension of [batch, channels, length].
    fn conv(&mut self) -> Option<NodeId> {
        let x = self.moderate(3..=3)?;
        let ty = self.graph.ty(x).clone();
        let (out_channels, kernel) = (self.rng.int(1, 4), self.rng.int(1, 2));
        let padding = self.rng.int(0, 1);
        let weight = Shape::from_iter([Sym::from(out_channels), ty.shape[1].clone(), Sym::from(kernel)]);
        let weight = self.small_operand(ty.dtype, weight)?;
        let len = &ty.shape[2] + (2 * padding - (kernel - 1));
        if !len.is_positive() {
            return None;
        }
        let shape = Shape::from_iter([ty.shape[0].clone(), Sym::from(out_channels), len]);
        let one = |n: i64| smallvec::smallvec![Sym::from(n)];
        let attrs = ConvAttrs {
            stride: one(1),
            padding: one(padding),
            dilation: one(1),
            transposed: false,
            output_padding: one(0),
            groups: Sym::ONE,
            bias: false,
            add: false,
            post: self.post(),
        };
        self.product(Op::Conv(Box::new(attrs)), &[x, weight], shape)
    }

    /// [batch, heads, rows, width].
    fn attention(&mut self) -> Option<NodeId> {
        let v = self.moderate(4..=4)?;
        let ty = self.graph.ty(v).clone();
        let q = self.small_operand(ty.dtype, ty.shape.clone())?;
        let k = self.small_operand(ty.dtype, ty.shape.clone())?;
        let attrs = AttentionAttrs { causal: self.rng.percent(50), scale: None, mask: false };
        let bound = self.meta[v.index()].bound;
        self.push(Op::Attention(attrs), &[q, k, v], ty, Meta { fuzzy: true, bound })
    }
}
