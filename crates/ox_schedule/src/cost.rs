//! What things cost: the prices behind the choice of what is stored, inlined and fused.

use ox_ir::{Graph, NodeId, Op, PointOp, Sym, TensorType};

/// The size that is assumed for a dimension that is not known.
const GUESS: i64 = 256;

/// A number for a size: itself, or a guess inside its bounds.
pub fn estimate(size: &Sym) -> i64 {
    size.eval(&|v| Some(GUESS.clamp(v.lo(), v.hi().max(v.lo())))).unwrap_or(i64::MAX / 1024)
}

pub fn numel(ty: &TensorType) -> i64 {
    estimate(&ty.numel()).max(1)
}

pub fn bytes(ty: &TensorType) -> i64 {
    numel(ty).saturating_mul(ty.dtype.size() as i64)
}

/// Rough cycles per vector of one application of an op; loads are priced by their bytes, not here.
pub fn op_cost(graph: &Graph, id: NodeId) -> i64 {
    let node = graph.node(id);
    match &node.op {
        Op::Point(op) => point_cost(*op),
        Op::Cast => 1,
        Op::Pad { .. } | Op::SliceScatter(_) | Op::Index { .. } => 2,
        Op::Cat { .. } => 2 * node.args.len() as i64,
        _ => 0,
    }
}

pub fn point_cost(op: PointOp) -> i64 {
    use PointOp::*;
    match op {
        Div | Sqrt | Rsqrt | Reciprocal | DivFloor | DivTrunc | Remainder | Fmod => 4,
        Exp | Exp2 | Log | Log2 | Log10 | Sigmoid | Sin | Cos => 10,
        Expm1 | Log1p | Tanh | Erf | Tan | Sinh | Cosh => 16,
        Pow | Atan2 | Asin | Acos | Atan | Asinh | Acosh | Atanh | Erfc | Lgamma => 30,
        // Ten rounds, on vectors of twice the width.
        Random | RandomHigh => 120,
        _ => 1,
    }
}
