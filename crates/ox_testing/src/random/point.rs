//! Scalar operations and conversions.

use super::build::{Gen, Meta};
use ox_ir::graph::{NodeId, Op, TensorType};
use ox_ir::point::PointClass;
use ox_ir::{DType, PointOp};

/// Where a small difference of a float argument may become a large one of the result.
fn jumps(op: PointOp) -> bool {
    use PointOp::*;
    let smooth = matches!(
        op,
        Neg | Abs | Add | Sub | Mul | Maximum | Minimum | Fmax | Fmin | Sin | Cos | Atan | Tanh | Sigmoid | Erf | Where
    );
    !smooth
}

/// Where the sign of a NaN, which means nothing, would show.
fn reads_sign(op: PointOp) -> bool {
    matches!(op, PointOp::SignBit | PointOp::Copysign)
}

/// How large the elements of a float result can be.
fn float_bound(op: PointOp, args: &[f64]) -> f64 {
    use PointOp::*;
    let most = args.iter().copied().fold(0.0, f64::max);
    match op {
        Neg | Abs | Maximum | Minimum | Fmax | Fmin | Trunc | Copysign => most,
        Floor | Ceil | Round => most + 1.0,
        Add | Sub => args.iter().sum(),
        Mul => args.iter().product(),
        Fma => args[0] * args[1] + args[2],
        Sin | Cos | Tanh | Sigmoid | Erf | Sign | Atan if most.is_finite() => 2.0,
        Exp | Sinh | Cosh | Exp2 | Expm1 if most < 6.0 => 500.0,
        Where => args[1].max(args[2]),
        _ => f64::INFINITY,
    }
}

impl Gen<'_> {
    pub fn point(&mut self) -> Option<NodeId> {
        let first = self.any();
        let ty = self.graph.ty(first).clone();
        let op = *self.rng.pick(PointOp::ALL);
        if !op.accepts(ty.dtype) {
            return None;
        }
        let mut args = Vec::new();
        if op.class() == PointClass::Select {
            args.push(self.operand(DType::Bool, &ty.shape)?);
        }
        args.push(first);
        while args.len() < op.arity() {
            args.push(self.operand(ty.dtype, &ty.shape)?);
        }
        if ty.dtype.is_int() && matches!(op, PointOp::DivFloor | PointOp::DivTrunc | PointOp::Remainder | PointOp::Fmod) {
            args[1] = self.nonzero(args[1])?;
        }
        let fuzzy = args.iter().any(|a| self.meta[a.index()].fuzzy);
        let signed_nan = reads_sign(op) && args.iter().any(|a| !self.meta[a.index()].bound.is_finite());
        if (fuzzy && jumps(op)) || (ty.dtype.is_float() && signed_nan) {
            return None;
        }
        let bounds: Vec<f64> = args.iter().map(|a| self.meta[a.index()].bound).collect();
        // A product of hundreds of factors is off by more than a period.
        if self.config.large && fuzzy && matches!(op, PointOp::Sin | PointOp::Cos) && !bounds[0].is_finite() {
            return None;
        }
        let result = op.result(ty.dtype);
        let bound = if result.is_float() { float_bound(op, &bounds) } else { f64::INFINITY };
        // The half types overflow early.
        let bound = if bound > 1e4 && result.size() == 2 { f64::INFINITY } else { bound };
        let fuzzy = fuzzy || (result.is_float() && !ox_ops::point::row(op).exact);
        self.push(Op::Point(op), &args, TensorType::new(result, ty.shape), Meta { fuzzy, bound })
    }

    /// The argument with its lowest bit set.
    fn nonzero(&mut self, id: NodeId) -> Option<NodeId> {
        let ty = self.graph.ty(id).clone();
        let meta = Meta { fuzzy: false, bound: f64::INFINITY };
        let one = self.push(Op::Full(ox_ir::Scalar::Int(1)), &[], ty.clone(), Meta { fuzzy: false, bound: 1.0 })?;
        self.push(Op::Point(PointOp::Or), &[id, one], ty, meta)
    }

    pub fn cast(&mut self) -> Option<NodeId> {
        let (id, dtype) = (self.any(), self.dtype());
        self.cast_to(id, dtype)
    }

    /// None where the conversion is undefined (a large float to an integer) or would make a small difference large.
    pub fn cast_to(&mut self, id: NodeId, dtype: DType) -> Option<NodeId> {
        let (ty, meta) = (self.graph.ty(id).clone(), self.meta[id.index()]);
        if ty.dtype == dtype {
            return Some(id);
        }
        let whole = !dtype.is_float();
        if ty.dtype.is_float() && whole && (meta.fuzzy || (dtype != DType::Bool && meta.bound > 100.0)) {
            return None;
        }
        // Negative floats do not fit the unsigned type.
        if ty.dtype.is_float() && dtype == DType::U8 {
            return None;
        }
        // Rounding a difference in the last bit to few bits makes it larger.
        if meta.fuzzy && dtype.size() < ty.dtype.size() {
            return None;
        }
        let bound = if ty.dtype.is_float() && dtype.is_float() && meta.bound < 1e4 { meta.bound } else { f64::INFINITY };
        let bound = if ty.dtype == DType::Bool { 1.0 } else { bound };
        self.push(Op::Cast, &[id], ty.with_dtype(dtype), Meta { fuzzy: meta.fuzzy, bound })
    }
}
