//! Vector expansions of the functions of analysis.

pub mod libm;

use crate::ir::{Elem, V};
use ox_ir::PointOp;

pub fn unary(op: PointOp, x: V<'_>) -> Option<V<'_>> {
    let name = match op {
        PointOp::Sigmoid => return Some(1.0 / (1.0 + unary(PointOp::Exp, -x)?)),
        _ => op.name(),
    };
    libm::FUNCTIONS
        .iter()
        .any(|(known, _)| known.strip_prefix("ox_") == Some(name))
        .then(|| if x.elem == Elem::F32 { libm::call_wide(name, &[x]) } else { libm::call(name, &[x]) })
}

/// Exact, as C's. For f32 the quotient in f64 truncates right while it is below 2^28: the operands have 24 bits, so it is further than
/// its rounding error from the next integer; and then `a - q*b` is exact too.
pub fn fmod<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    if a.elem == Elem::F64 {
        return libm::call("fmod", &[a, b]);
    }
    let (a, b) = a.unify(b);
    let (x, y) = (a.fpext(Elem::F64), b.fpext(Elem::F64));
    let q = (x / y).trunc();
    let r = (-q).fma(y, x).fptrunc(Elem::F32).copysign(a);
    let easy = q.abs().lt(q.float((1u64 << 28) as f64)) & b.abs().lt(b.float(f64::INFINITY));
    libm::fix_rare_lanes(r, !easy, "fmod", &[a, b])
}

pub fn pow<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    if a.elem == Elem::F32 { libm::call_wide("pow", &[a, b]) } else { libm::call("pow", &[a, b]) }
}

pub fn atan2<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    if a.elem == Elem::F32 { libm::call_wide("atan2", &[a, b]) } else { libm::call("atan2", &[a, b]) }
}
