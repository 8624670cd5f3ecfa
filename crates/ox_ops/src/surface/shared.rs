//! What the tables of reductions, norms, losses and contractions share.

use super::bound::{Bound, Operand};
use crate::builder::Builder;
use crate::error::{ExceptionKind, OpError, OpResult};
use crate::infer::{differ, unequal};
use crate::promote::torch_name;
use crate::value::{Value, ValueOf};
use ox_ir::graph::{NodeId, ReduceOp};
use ox_ir::{DType, PointOp, Sym};

/// A tensor argument that kernels can compute on: complex ones are left to the library.
pub fn real(b: &Builder, args: &Bound, name: &str) -> OpResult<NodeId> {
    let x = args.tensor(name)?;
    if b.dtype(x).is_complex() {
        return Err(OpError::unsupported(format!("{} tensors", b.dtype(x))));
    }
    Ok(x)
}

pub fn opt_real(b: &Builder, args: &Bound, name: &str) -> OpResult<Option<NodeId>> {
    if args.has(name) { real(b, args, name).map(Some) } else { Ok(None) }
}

/// A tensor argument of a float type; `what` names the function in eager's message.
pub fn float(b: &Builder, args: &Bound, name: &str, what: &str) -> OpResult<NodeId> {
    let x = real(b, args, name)?;
    require_float(b, x, what)?;
    Ok(x)
}

pub fn require_float(b: &Builder, x: NodeId, what: &str) -> OpResult<()> {
    let dtype = b.dtype(x);
    if dtype.is_float() {
        return Ok(());
    }
    Err(OpError::unsupported(format!("{what} on {}", torch_name(dtype))))
}

pub fn not_implemented(message: String) -> OpError {
    OpError::User { kind: ExceptionKind::NotImplementedError, message }
}

/// A tensor argument of a float type, where eager also takes whole numbers by rules of its own.
pub fn only_float(b: &Builder, args: &Bound, name: &str, what: &str) -> OpResult<NodeId> {
    let x = real(b, args, name)?;
    match b.dtype(x).is_float() {
        true => Ok(x),
        false => Err(OpError::unsupported(format!("{what} of {}", b.dtype(x)))),
    }
}

/// The value in the type that torch computes in: f32 for the half types.
pub fn wide(b: &mut Builder, x: NodeId) -> NodeId {
    let dtype = b.dtype(x).compute();
    b.cast(x, dtype)
}

/// Dimensions as reductions take them: None and the empty list are all; a 0-dimensional tensor has none to give.
pub fn reduced_dims(args: &Bound, name: &str, rank: usize) -> OpResult<Vec<usize>> {
    let dims = args.dims(name, rank)?;
    Ok(dims.into_iter().filter(|d| *d < rank).collect())
}

/// Takes away the dimensions that a reduction left with size 1, unless they are to be kept.
pub fn drop_dims(b: &mut Builder, x: NodeId, dims: &[usize], keepdim: bool) -> OpResult<NodeId> {
    if keepdim { Ok(x) } else { b.squeeze(x, dims) }
}

/// How many elements lie in `dims`.
pub fn count_in(b: &Builder, x: NodeId, dims: &[usize]) -> Sym {
    dims.iter().map(|d| &b.ty(x).shape[*d]).product()
}

/// A size as an operand of arithmetic on tensors.
pub fn size_operand(size: &Sym) -> Operand {
    match size.as_const() {
        Some(n) => Operand::from(n),
        None => Operand::Sym(size.clone()),
    }
}

pub fn sum_over(b: &mut Builder, x: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    b.reduce(ReduceOp::Sum, x, dims)
}

/// The mean over `dims`, which stay with size 1. `x` is of a type that sums are computed in.
pub fn mean_over(b: &mut Builder, x: NodeId, dims: &[usize]) -> OpResult<NodeId> {
    let count = size_operand(&count_in(b, x, dims));
    let sum = sum_over(b, x, dims)?;
    b.binary(PointOp::Div, sum, count)
}

pub fn square(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    b.point(PointOp::Mul, &[x, x])
}

/// `x` without its mean over `dims`, and the mean of its squares: what norms and variances are made of, in two passes.
pub fn centred(b: &mut Builder, x: NodeId, dims: &[usize]) -> OpResult<(NodeId, NodeId)> {
    let mean = mean_over(b, x, dims)?;
    Ok((b.binary(PointOp::Sub, x, mean)?, mean))
}

/// Not zero, as a bool tensor.
pub fn truth(b: &mut Builder, x: NodeId) -> OpResult<NodeId> {
    if b.dtype(x) == DType::Bool {
        return Ok(x);
    }
    b.binary(PointOp::Ne, x, 0i64)
}

/// A vector of per-channel values laid out to broadcast over [N, C, ...].
pub fn per_channel(b: &mut Builder, values: NodeId, rank: usize) -> OpResult<NodeId> {
    let count = b.ty(values).numel();
    let shape: Vec<Sym> = (0..rank).map(|d| if d == 1 { count.clone() } else { Sym::ONE }).collect();
    b.reshape(values, &shape)
}

pub fn tuple<const N: usize>(nodes: [NodeId; N]) -> Value {
    ValueOf::Tuple(nodes.into_iter().map(Value::from).collect())
}

/// One int for all of `n` dimensions, or one each.
pub fn per_dim(args: &Bound, name: &str, n: usize) -> OpResult<Vec<Sym>> {
    let given = args.ints(name)?;
    match given.len() {
        1 => Ok(vec![given[0].clone(); n]),
        len if len == n => Ok(given),
        len => Err(OpError::runtime(format!("`{name}` must be one int or {n} of them, not {len}"))),
    }
}

/// As `per_dim`, of ints that must be known now.
pub fn known_per_dim(args: &Bound, name: &str, n: usize) -> OpResult<Vec<i64>> {
    let known: Option<Vec<i64>> = per_dim(args, name, n)?.iter().map(|s| s.as_const()).collect();
    known.ok_or_else(|| OpError::unsupported(format!("`{name}` that is not known now")))
}

/// Whether a flag that may be None is set.
pub fn flag(args: &Bound, name: &str) -> OpResult<bool> {
    if args.has(name) { args.boolean(name) } else { Ok(false) }
}

/// Whether `n` divides the size; where that depends on the size's value at run time, the call is not ours.
pub fn divides(n: i64, size: &Sym) -> OpResult<bool> {
    match size.as_const() {
        Some(known) => Ok(n > 0 && known % n == 0),
        None if n > 0 && size.is_multiple_of(n) => Ok(true),
        None if n > 0 => same_sizes(&[&size.div(&Sym::from(n)) * n], std::slice::from_ref(size)),
        None => Err(OpError::unsupported(format!("whether {n} divides {size}"))),
    }
}

/// Whether two shapes are equal; where that depends on sizes' values at run time, the call is not ours.
pub fn same_sizes(a: &[Sym], b: &[Sym]) -> OpResult<bool> {
    if a == b {
        return Ok(true);
    }
    if a.len() != b.len() || a.iter().zip(b).any(|(x, y)| differ(x, y)) {
        return Ok(false);
    }
    Err(unequal(a, b, format!("whether {a:?} equals {b:?}")))
}
