//! Attention under autograd on a GPU: the fused kernels of torch's, with what their derivatives need. Which of them eager would take
//! depends on the GPU and on the user's settings; those are asked outside.

use super::{Gradients, Site};
use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use ox_ir::graph::{Arg, AttentionAttrs, Callee, Library, LibraryOut, NodeId, Op, contiguous_strides};
use ox_ir::{DType, Scalar, Sym, TensorType};
use smallvec::smallvec;

/// The kernels that may be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FusedAttention {
    pub cudnn: bool,
    pub flash: bool,
    pub efficient: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fused {
    Cudnn,
    Flash,
    Efficient,
}

pub const CUDNN: &str = "aten::_scaled_dot_product_cudnn_attention";
pub const FLASH: &str = "aten::_scaled_dot_product_flash_attention";
pub const EFFICIENT: &str = "aten::_scaled_dot_product_efficient_attention";

/// Elements that a row of a mask must be a multiple of: the kernel reads whole vectors.
const MASK_ROW: i64 = 16;
/// The efficient kernel writes a logarithm for every row of its tiles.
const TILE: i64 = 32;

impl Fused {
    /// The one that eager would take for these arguments, if there is one.
    pub fn choose(b: &Builder, attrs: &AttentionAttrs, args: &[NodeId], may: FusedAttention) -> Option<Fused> {
        let [q, k, v] = [b.ty(args[0]), b.ty(args[1]), b.ty(args[2])];
        let half = matches!(q.dtype, DType::BF16 | DType::F16);
        let width = q.shape.last()?.as_const().filter(|n| n % 8 == 0 && *n > 0)?;
        let fits = q.rank() == 4 && v.shape[3] == q.shape[3] && [q, k].iter().all(|t| t.shape.iter().all(Sym::is_positive));
        if !fits || !(half || q.dtype == DType::F32) {
            return None;
        }
        let (rows, columns) = (&q.shape[2], &k.shape[2]);
        let flash_sees_it = !(attrs.mask || attrs.causal && rows != columns);
        match () {
            _ if may.cudnn && half && width <= 128 && columns.bounds().0 > 1 => Some(Fused::Cudnn),
            _ if may.flash && half && width <= 256 && flash_sees_it => Some(Fused::Flash),
            _ if may.efficient && (!attrs.mask || columns.is_multiple_of(MASK_ROW)) => Some(Fused::Efficient),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Fused::Cudnn => CUDNN,
            Fused::Flash => FLASH,
            Fused::Efficient => EFFICIENT,
        }
    }

    fn of(name: &str) -> Option<Fused> {
        [Fused::Cudnn, Fused::Flash, Fused::Efficient].into_iter().find(|kernel| kernel.name() == name)
    }

    /// `mask` is added to the products, in their type.
    pub fn call(self, b: &mut Builder, attrs: &AttentionAttrs, qkv: &[NodeId], mask: Option<NodeId>) -> OpResult<NodeId> {
        let mut tensors = qkv.to_vec();
        let bias = match mask {
            Some(mask) => {
                tensors.push(if self == Fused::Cudnn { unexpanded(b, mask)? } else { mask });
                Arg::Tensor(3)
            }
            None => Arg::None,
        };
        let (p, causal) = (Arg::Float(Scalar::Float(0.0)), Arg::Bool(attrs.causal));
        let rest = match self {
            Fused::Cudnn => vec![bias, Arg::Bool(true), p, causal, Arg::Bool(false)],
            Fused::Flash => vec![p, causal, Arg::Bool(false)],
            Fused::Efficient => vec![bias, Arg::Bool(true), p, causal],
        };
        let out = b.ty(qkv[0]).clone();
        // Seeds; the other two are called by a function of their own, which gives no more than these.
        let unused = if self == Fused::Efficient { 2 } else { 0 };
        let outs = [heads_inside(out.clone()), dense(self.sums(&out))].into_iter().chain((0..unused).map(|_| nothing(&out)));
        let library = Library {
            callee: Callee::Dispatcher { name: self.name().into(), overload: String::new() },
            args: (0..3).map(Arg::Tensor).chain(rest).collect(),
            kwargs: vec![("scale".into(), attrs.scale.map_or(Arg::None, Arg::Float))],
            outs: outs.collect(),
            mutates: Vec::new(),
            effect: false,
        };
        Ok(b.library(library, &tensors)?[0])
    }

    /// The logarithms of the sums of each row.
    fn sums(self, out: &TensorType) -> TensorType {
        let [batch, heads, rows] = [0, 1, 2].map(|d| out.shape[d].clone());
        out.with_dtype(DType::F32).with_shape(match self {
            Fused::Cudnn => smallvec![batch, heads, rows, Sym::ONE],
            Fused::Flash => smallvec![batch, heads, rows],
            Fused::Efficient => smallvec![batch, heads, &rows.div_ceil(&Sym::from(TILE)) * &Sym::from(TILE)],
        })
    }

    /// Of the derivative: after the gradient, q, k, v, the result and the logarithms. What was drawn is not looked at where nothing is
    /// dropped, so that no tensor is given for it.
    fn backward_args(self, causal: Arg, mask: Arg, [rows, columns]: [Sym; 2]) -> Vec<Arg> {
        let p = Arg::Float(Scalar::Float(0.0));
        let [rows, columns] = [rows, columns].map(Arg::Int);
        let none = || Arg::None;
        let rest = match self {
            Fused::Cudnn => vec![none(), none(), mask.clone(), none(), none(), rows, columns, p, causal],
            Fused::Flash => vec![none(), none(), rows, columns, p, causal, none(), none()],
            Fused::Efficient => vec![none(), none(), p, Arg::List([true, true, true, false].map(Arg::Bool).into()), causal],
        };
        let mut args: Vec<Arg> = (0..6).map(Arg::Tensor).chain(rest).collect();
        if self == Fused::Efficient {
            args.insert(4, mask);
        }
        args
    }

    /// Where `is_causal` stands among the arguments of the call.
    fn causal_at(self) -> usize {
        match self {
            Fused::Cudnn | Fused::Efficient => 6,
            Fused::Flash => 4,
        }
    }
}

/// The derivative of such a call.
pub fn backward(b: &mut Builder, site: &Site<'_>, library: &Library) -> OpResult<Gradients> {
    let kernel = Fused::of(library.callee.name()).ok_or_else(|| OpError::bug("no fused attention"))?;
    let grad = site.grad()?;
    let [out, sums] = [0, 1].map(|n: usize| b.project(site.result, n as u32, library.outs[n].ty.clone()));
    let mut tensors = vec![grad, site.arg(0), site.arg(1), site.arg(2), out, sums];
    tensors.extend(site.node.args.get(3));
    let mask = site.node.args.get(3).map_or(Arg::None, |_| Arg::Tensor(6));
    let lengths = [0, 1].map(|n| b.ty(site.arg(n)).shape[2].clone());
    let mut outs: Vec<LibraryOut> = site.node.args[..3].iter().map(|arg| heads_inside(b.ty(*arg).clone())).collect();
    if kernel == Fused::Efficient {
        outs.push(nothing(b.ty(out)));
    }
    let call = Library {
        callee: Callee::Dispatcher { name: format!("{}_backward", kernel.name()), overload: String::new() },
        args: kernel.backward_args(library.args[kernel.causal_at()].clone(), mask, lengths),
        kwargs: library.kwargs.clone(),
        outs,
        mutates: Vec::new(),
        effect: false,
    };
    let outs = b.library(call, &tensors)?;
    Ok((0..site.node.args.len()).map(|n| outs.get(n).copied().filter(|_| n < 3 && site.wanted[n])).collect())
}

/// The kernel looks at a mask that all heads share once.
fn unexpanded(b: &mut Builder, mask: NodeId) -> OpResult<NodeId> {
    let node = b.graph().node(mask);
    let inner = node.args.first().copied().filter(|_| node.op == Op::Expand);
    let Some(inner) = inner.filter(|inner| b.rank(*inner) == 4) else { return Ok(mask) };
    let (mut shape, whole) = (b.shape(inner), b.shape(mask));
    shape[2..].clone_from_slice(&whole[2..]);
    b.expand(inner, &shape)
}

/// Positions in front of heads in memory.
pub fn heads_inside(ty: TensorType) -> LibraryOut {
    let [heads, rows, width] = [&ty.shape[1], &ty.shape[2], &ty.shape[3]];
    let row = heads * width;
    let strides = smallvec![rows * &row, width.clone(), row, Sym::ONE];
    LibraryOut { strides, ty }
}

fn dense(ty: TensorType) -> LibraryOut {
    LibraryOut { strides: contiguous_strides(&ty.shape), ty }
}

/// A result that nobody looks at.
fn nothing(like: &TensorType) -> LibraryOut {
    dense(like.with_shape(smallvec![Sym::ZERO]))
}
