//! The scalar operations, except the functions in `math`.

use super::{Emitter, bits, integer};
use crate::CodegenError;
use crate::ir::V;
use crate::math;
use ox_ir::kernel::Val;
use ox_ir::{DType, PointOp};

impl<'a> Emitter<'a> {
    pub fn point(&self, op: PointOp, args: &[Val], dtype: DType) -> Result<V<'a>, CodegenError> {
        if args.len() != op.arity() {
            return Err(self.malformed(format!("{} takes {} arguments, not {}", op.name(), op.arity(), args.len())));
        }
        let operand = self.dtype(args[args.len() - 1]);
        if !op.accepts(operand) {
            return Err(self.malformed(format!("{} of {operand}", op.name())));
        }
        let values = args.iter().map(|arg| self.value(*arg)).collect::<Result<Vec<_>, _>>()?;
        let mixed = args.iter().skip(usize::from(op == PointOp::Where)).any(|a| self.dtype(*a).compute() != operand.compute());
        if mixed {
            return Err(self.malformed(format!("{} of values of different types", op.name())));
        }
        let result = match operand {
            DType::Bool => boolean(op, &values),
            _ if operand.is_float() => float(op, &values),
            _ => integer::apply(op, &values, operand),
        };
        let result = result.ok_or_else(|| self.unsupported(format!("{} of {operand}", op.name())))?;
        Ok(if is_exact(op) { result } else { bits::round_to(result, dtype) })
    }
}

/// Gives a value of a half type for values of that type, without rounding.
fn is_exact(op: PointOp) -> bool {
    use PointOp::*;
    matches!(op, Neg | Abs | Sign | Maximum | Minimum | Fmax | Fmin | Floor | Ceil | Round | Trunc | Copysign | Where)
        || op.result(DType::F32) == DType::Bool
}

/// `a < b`.
pub fn less<'a>(a: V<'a>, b: V<'a>, dtype: DType) -> V<'a> {
    if dtype.is_signed() { a.lt(b) } else { a.below(b) }
}

/// NaN wins; of two zeros the first.
pub fn maximum<'a>(a: V<'a>, b: V<'a>, dtype: DType) -> V<'a> {
    extremal(a, b, less(a, b, dtype), dtype)
}

/// NaN wins; of two zeros the first.
pub fn minimum<'a>(a: V<'a>, b: V<'a>, dtype: DType) -> V<'a> {
    extremal(a, b, less(b, a, dtype), dtype)
}

/// `b` if it wins or is NaN, else `a`, which may be NaN. The inner choice is what x86's max and min instructions do.
fn extremal<'a>(a: V<'a>, b: V<'a>, b_wins: V<'a>, dtype: DType) -> V<'a> {
    let chosen = b_wins.select(b, a);
    if dtype.is_float() { b.is_nan().select(b, chosen) } else { chosen }
}

fn boolean<'a>(op: PointOp, args: &[V<'a>]) -> Option<V<'a>> {
    use PointOp::*;
    Some(match (op, args) {
        (Where, [c, a, b]) => c.select(*a, *b),
        (Not, [a]) => !*a,
        (And | Minimum, [a, b]) => *a & *b,
        (Or | Maximum, [a, b]) => *a | *b,
        (Xor | Ne, [a, b]) => *a ^ *b,
        (Eq, [a, b]) => !(*a ^ *b),
        (Lt, [a, b]) => !*a & *b,
        (Gt, [a, b]) => *a & !*b,
        (Le, [a, b]) => !*a | *b,
        (Ge, [a, b]) => *a | !*b,
        // As on the byte that holds it: 1 << 1 is not zero.
        (Shl, [a, _]) => *a,
        (Shr, [a, b]) => *a & !*b,
        _ => return None,
    })
}

fn float<'a>(op: PointOp, args: &[V<'a>]) -> Option<V<'a>> {
    match *args {
        [a] => float_unary(op, a),
        [a, b] => float_binary(op, a, b),
        [a, b, c] => match op {
            PointOp::Fma => Some(a.fma(b, c)),
            PointOp::Where => Some(a.select(b, c)),
            _ => None,
        },
        _ => None,
    }
}

fn float_unary(op: PointOp, a: V<'_>) -> Option<V<'_>> {
    use PointOp::*;
    Some(match op {
        Neg => -a,
        Abs => a.abs(),
        Sign => {
            let zero = a.float(0.0);
            a.gt(zero).uitofp(a.elem) - a.lt(zero).uitofp(a.elem)
        }
        Floor => a.floor(),
        Ceil => a.ceil(),
        Round => a.round(),
        Trunc => a.trunc(),
        Sqrt => a.sqrt(),
        Rsqrt => 1.0 / a.sqrt(),
        Reciprocal => 1.0 / a,
        IsNan => a.is_nan(),
        IsInf => a.abs().eq(a.float(f64::INFINITY)),
        SignBit => a.to_bits().lt(a.ir().int(a.elem.int(), 0)),
        _ => return math::unary(op, a),
    })
}

fn float_binary<'a>(op: PointOp, a: V<'a>, b: V<'a>) -> Option<V<'a>> {
    use PointOp::*;
    Some(match op {
        Add => a + b,
        Sub => a - b,
        Mul => a * b,
        Div => a / b,
        DivFloor => div_floor(a, b),
        DivTrunc => (a / b).trunc(),
        Remainder => remainder(a, b),
        Fmod => math::fmod(a, b),
        Pow => math::pow(a, b),
        Atan2 => math::atan2(a, b),
        Maximum => maximum(a, b, DType::F32),
        Minimum => minimum(a, b, DType::F32),
        Fmax => (b.gt(a) | a.is_nan()).select(b, a),
        Fmin => (b.lt(a) | a.is_nan()).select(b, a),
        Copysign => a.copysign(b),
        Eq => a.eq(b),
        Ne => a.ne(b),
        Lt => a.lt(b),
        Le => a.le(b),
        Gt => a.gt(b),
        Ge => a.ge(b),
        _ => return None,
    })
}

/// Whether the remainder is not zero and has the other sign than the divisor.
fn is_off<'a>(remainder: V<'a>, b: V<'a>) -> V<'a> {
    let zero = b.float(0.0);
    remainder.ne(zero) & (b.lt(zero) ^ remainder.lt(zero))
}

fn remainder<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let r = math::fmod(a, b);
    is_off(r, b).select(r + b, r)
}

/// As Python and eager do it: the quotient of what is left after the remainder is taken off, so that `floor` sees no rounding error.
fn div_floor<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let r = math::fmod(a, b);
    let q = (a - r) / b;
    let q = is_off(r, b).select(q - 1.0, q);
    let floor = q.floor();
    let floor = (q - floor).gt(q.float(0.5)).select(floor + 1.0, floor);
    let zero = q.float(0.0).copysign(a / b);
    let result = q.eq(q.float(0.0)).select(zero, floor);
    b.eq(b.float(0.0)).select(a / b, result)
}
