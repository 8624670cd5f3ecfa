//! The type rule of every Op: what it gives for arguments of given types, and whether a declared type is right.

mod contract;
mod index;
mod view;

use crate::decide;
use crate::error::{OpError, OpResult};
use ox_ir::graph::{Op, ReduceOp, Shape};
use ox_ir::point::PointClass;
use ox_ir::{DType, Device, PointOp, Sym, TensorType};

pub use contract::conv_out_size;
pub use index::index_shape;

/// The type of `op` on `args`. Ops whose result is not determined by their arguments (views that carry their target shape, casts,
/// constants, library calls) have no rule here: their type is declared, and `check` says whether it can be.
pub fn infer(op: &Op, args: &[&TensorType]) -> OpResult<TensorType> {
    match op {
        Op::Point(point) => infer_point(*point, args),
        Op::Permute(perm) => view::infer_permute(perm, one(op, args)?),
        Op::Diagonal { offset, dim1, dim2 } => view::infer_diagonal(*offset, *dim1, *dim2, one(op, args)?),
        Op::Cat { dim } => infer_cat(*dim, args),
        Op::SliceScatter(dims) => view::infer_slice_scatter(dims, args),
        Op::Index { dims, at, .. } => index::infer_index(dims, *at, args),
        Op::IndexPut { dims, at, .. } => index::infer_index_put(dims, *at, args),
        Op::Reduce { op: reduce, dims } => infer_reduce(*reduce, dims, one(op, args)?),
        Op::Scan { op: scan, dim } => infer_scan(*scan, *dim, args),
        Op::Matmul { bias, add, .. } => contract::infer_matmul(*bias, *add, args),
        Op::Conv(attrs) => contract::infer_conv(attrs, args),
        Op::Pack(_) | Op::Detach => one(op, args).cloned(),
        Op::Graft => {
            let fits = matches!(args, [value, path] if value == path);
            require(fits, || format!("graft of {args:?}"))?;
            Ok(args[0].clone())
        }
        Op::Attention(attrs) => contract::infer_attention(attrs, args),
        _ => Err(OpError::bug(format!("the type of {op:?} must be declared"))),
    }
}

/// Whether a node `op(args)` may have the type `ty`.
pub fn check(op: &Op, args: &[&TensorType], ty: &TensorType) -> OpResult<()> {
    match op {
        Op::Input(_) | Op::Full(_) | Op::SymValue(_) => no_args(op, args),
        Op::Iota { dim } => {
            no_args(op, args)?;
            require(*dim < ty.rank() && ty.dtype == DType::I64, || format!("iota over dimension {dim} of {ty:?}"))
        }
        Op::Cast => require(one(op, args)?.shape == ty.shape, || format!("cast changes the shape to {ty:?}")),
        Op::Reshape => view::check_reshape(one(op, args)?, ty),
        Op::Expand => view::check_expand(one(op, args)?, ty),
        Op::Slice(dims) => view::check_slice(dims, one(op, args)?, ty),
        Op::Unfold { dim, step, dilation } => view::check_unfold(*dim, *step, *dilation, one(op, args)?, ty),
        Op::Pad { low, .. } => {
            let arg = one(op, args)?;
            require(low.len() == arg.rank() && ty.rank() == arg.rank() && ty.dtype == arg.dtype, || {
                format!("pad of {arg:?} to {ty:?}")
            })
        }
        Op::Library(_) | Op::Project(_) => Ok(()),
        _ => {
            let inferred = infer(op, args)?;
            require(inferred == *ty, || format!("{op:?} gives {inferred:?}, not {ty:?}"))
        }
    }
}

fn infer_point(op: PointOp, args: &[&TensorType]) -> OpResult<TensorType> {
    require(args.len() == op.arity(), || format!("{} takes {} arguments, not {}", op.name(), op.arity(), args.len()))?;
    let (first, values) = match op.class() {
        PointClass::Select => {
            require(args[0].dtype == DType::Bool, || format!("{} on a condition of type {}", op.name(), args[0].dtype))?;
            (args[1], &args[1..])
        }
        _ => (args[0], args),
    };
    if first.dtype.is_complex() {
        return Err(OpError::unsupported(format!("{} of complex numbers", op.name())));
    }
    require(op.accepts(first.dtype), || format!("{} is not defined on {}", op.name(), first.dtype))?;
    let same = values.iter().all(|t| t.dtype == first.dtype) && args.iter().all(|t| t.shape == first.shape);
    require(same, || format!("{} on different types {args:?}", op.name()))?;
    Ok(TensorType { dtype: op.result(first.dtype), device: common_device(args), shape: first.shape.clone() })
}

fn infer_cat(dim: usize, args: &[&TensorType]) -> OpResult<TensorType> {
    let first = *args.first().ok_or_else(|| OpError::bug("cat of nothing"))?;
    let fits = |t: &&TensorType| {
        t.dtype == first.dtype
            && t.rank() == first.rank()
            && t.shape.iter().zip(&first.shape).enumerate().all(|(d, (a, b))| d == dim || a == b)
    };
    require(dim < first.rank() && args.iter().all(fits), || format!("cat along {dim} of {args:?}"))?;
    let mut shape = first.shape.clone();
    shape[dim] = args.iter().map(|t| &t.shape[dim]).sum();
    Ok(TensorType { dtype: first.dtype, device: common_device(args), shape })
}

fn infer_reduce(op: ReduceOp, dims: &[usize], arg: &TensorType) -> OpResult<TensorType> {
    let ordered = dims.windows(2).all(|w| w[0] < w[1]) && dims.iter().all(|d| *d < arg.rank());
    require(ordered && !dims.is_empty(), || format!("reduction over {dims:?} of {arg:?}"))?;
    let dtype = match op {
        ReduceOp::Any | ReduceOp::All => {
            require(arg.dtype == DType::Bool, || format!("{} on {}", op.name(), arg.dtype))?;
            DType::Bool
        }
        ReduceOp::ArgMax | ReduceOp::ArgMin => {
            require(dims.len() == 1, || format!("{} over several dimensions", op.name()))?;
            DType::I64
        }
        ReduceOp::Sum | ReduceOp::Prod => {
            require(arg.dtype != DType::Bool && !arg.dtype.is_complex(), || format!("{} on {}", op.name(), arg.dtype))?;
            arg.dtype
        }
        ReduceOp::Max | ReduceOp::Min => arg.dtype,
    };
    let shape = arg.shape.iter().enumerate().map(|(d, s)| if dims.contains(&d) { Sym::ONE } else { s.clone() }).collect();
    Ok(arg.with_dtype(dtype).with_shape(shape))
}

fn infer_scan(op: ReduceOp, dim: usize, args: &[&TensorType]) -> OpResult<TensorType> {
    let fits = match args {
        [arg] => matches!(op, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Max | ReduceOp::Min) && dim < arg.rank(),
        [arg, decay] => op == ReduceOp::Sum && dim < arg.rank() && arg == decay,
        _ => false,
    };
    require(fits, || format!("scan {} along {dim} of {args:?}", op.name()))?;
    Ok(args[0].clone())
}

/// The device that the result lies on: constants and 0-dimensional CPU tensors follow the others.
fn common_device(args: &[&TensorType]) -> Device {
    args.iter().map(|t| t.device).find(|d| *d != Device::Cpu).unwrap_or_default()
}

fn one<'a>(op: &Op, args: &[&'a TensorType]) -> OpResult<&'a TensorType> {
    match args {
        [arg] => Ok(arg),
        _ => Err(OpError::bug(format!("{op:?} takes one argument, not {}", args.len()))),
    }
}

fn no_args(op: &Op, args: &[&TensorType]) -> OpResult<()> {
    require(args.is_empty(), || format!("{op:?} takes no arguments"))
}

fn require(condition: bool, message: impl FnOnce() -> String) -> OpResult<()> {
    if condition { Ok(()) } else { Err(OpError::Bug(message())) }
}

/// As `differ`, for others.
pub fn are_different(a: &Sym, b: &Sym) -> bool {
    differ(a, b)
}

/// Whether two sizes certainly differ (they may still differ at run time if this is false), or do at the hints.
pub(crate) fn differ(a: &Sym, b: &Sym) -> bool {
    let gap = a - b;
    if gap.is_zero() {
        return false;
    }
    gap.is_positive() || (-&gap).is_positive() || decide::differ_here(a, b) == Some(true)
}

/// Whether two shapes are equal; `Unsupported` if that depends on sizes that are not known.
pub(crate) fn same_shape(a: &[Sym], b: &[Sym]) -> OpResult<bool> {
    if a == b {
        return Ok(true);
    }
    if a.len() != b.len() || a.iter().zip(b).any(|(a, b)| differ(a, b)) {
        return Ok(false);
    }
    Err(unequal(a, b, format!("shapes {a:?} and {b:?}, which may or may not be equal")))
}

/// The error of shapes that do not certainly differ, by the first sizes that are not the same.
pub(crate) fn unequal(a: &[Sym], b: &[Sym], what: String) -> OpError {
    match a.iter().zip(b).find(|(a, b)| a != b) {
        Some((a, b)) => decide::undecided(a, b, what),
        None => OpError::unsupported(what),
    }
}

pub(crate) fn shape_text(shape: &Shape) -> String {
    let items: Vec<String> = shape.iter().map(|s| s.to_string()).collect();
    format!("[{}]", items.join(", "))
}
