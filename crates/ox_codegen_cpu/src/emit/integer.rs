//! Integer operations. They wrap, and no input makes them trap.

use super::convert::compute_elem;
use super::point::{less, maximum, minimum};
use crate::ir::{Elem, V};
use crate::math;
use ox_ir::{DType, PointOp};

pub fn apply<'a>(op: PointOp, args: &[V<'a>], dtype: DType) -> Option<V<'a>> {
    use PointOp::*;
    Some(match (op, args) {
        (Neg, [a]) => -*a,
        (Abs, [a]) => {
            if dtype.is_signed() {
                a.abs()
            } else {
                *a
            }
        }
        (Sign, [a]) => sign(*a, dtype),
        (Not, [a]) => !*a,
        (Add, [a, b]) => *a + *b,
        (Sub, [a, b]) => *a - *b,
        (Mul, [a, b]) => *a * *b,
        (DivTrunc, [a, b]) => divide(*a, *b, dtype),
        (DivFloor, [a, b]) => div_floor(*a, *b, dtype),
        (Fmod, [a, b]) => *a - divide(*a, *b, dtype) * *b,
        (Remainder, [a, b]) => *a - div_floor(*a, *b, dtype) * *b,
        (Pow, [a, b]) => power(*a, *b, dtype),
        (Maximum, [a, b]) => maximum(*a, *b, dtype),
        (Minimum, [a, b]) => minimum(*a, *b, dtype),
        (And, [a, b]) => *a & *b,
        (Or, [a, b]) => *a | *b,
        (Xor, [a, b]) => *a ^ *b,
        (Shl, [a, b]) => shift_left(*a, *b),
        (Shr, [a, b]) => shift_right(*a, *b, dtype),
        (Eq, [a, b]) => a.eq(*b),
        (Ne, [a, b]) => a.ne(*b),
        (Lt, [a, b]) => less(*a, *b, dtype),
        (Gt, [a, b]) => less(*b, *a, dtype),
        (Le, [a, b]) => !less(*b, *a, dtype),
        (Ge, [a, b]) => !less(*a, *b, dtype),
        (Where, [c, a, b]) => c.select(*a, *b),
        (Random, [key, low, high]) => math::random(*key, *low, *high, math::Half::Low),
        (RandomHigh, [key, low, high]) => math::random(*key, *low, *high, math::Half::High),
        _ => return None,
    })
}

fn sign(a: V<'_>, dtype: DType) -> V<'_> {
    let positive = a.ne(a.int(0)).select(a.int(1), a.int(0));
    if dtype.is_signed() { a.lt(a.int(0)).select(a.int(-1), positive) } else { positive }
}

/// Rounded to zero. By zero gives anything; the least integer by -1 wraps.
fn divide<'a>(a: V<'a>, b: V<'a>, dtype: DType) -> V<'a> {
    if dtype == DType::I64 {
        return divide_i64(a, b);
    }
    // Exact for 32 bits: the quotient's error is smaller than its distance from the next integer. And it is vector code, which the
    // integer instruction is not.
    let wide = |v: V<'a>| if dtype.is_signed() { v.sitofp(Elem::F64) } else { v.uitofp(Elem::F64) };
    (wide(a) / wide(b)).fptosi(Elem::I32).trunc_to(compute_elem(dtype))
}

fn divide_i64<'a>(a: V<'a>, b: V<'a>) -> V<'a> {
    let negates = b.eq(b.int(-1));
    let safe = (b.eq(b.int(0)) | negates).select(b.int(1), b);
    negates.select(-a, a.sdiv(safe))
}

fn div_floor<'a>(a: V<'a>, b: V<'a>, dtype: DType) -> V<'a> {
    let q = divide(a, b, dtype);
    if !dtype.is_signed() {
        return q;
    }
    let r = a - q * b;
    let off = r.ne(r.int(0)) & (r ^ b).lt(r.int(0));
    off.select(q - 1, q)
}

/// By squaring; at most as many rounds as the largest exponent has bits.
fn power<'a>(base: V<'a>, exponent: V<'a>, dtype: DType) -> V<'a> {
    let ir = base.ir();
    let (base, exponent) = base.unify(exponent);
    let zero = exponent.int(0);
    let negative = if dtype.is_signed() { exponent.lt(zero) } else { ir.bool(false).splat(base.lanes) };
    let one = base.int(1).splat(base.lanes);
    let start = vec![one, base, negative.select(zero, exponent)];
    let rounds = ir.repeat(start, |carried| {
        let [result, base, left] = carried[..] else { unreachable!("three values are carried") };
        let odd = (left & 1).ne(zero);
        let left = left.lshr(left.int(1));
        Ok::<_, std::convert::Infallible>((vec![odd.select(result * base, result), base * base, left], left.ne(zero).any()))
    });
    let Ok(rounds) = rounds;
    let odd = (exponent & 1).ne(zero);
    let of_minus_one = odd.select(base.int(-1), base.int(1));
    let reciprocal = base.eq(base.int(-1)).select(of_minus_one, base.int(0));
    negative.select(base.eq(base.int(1)).select(one, reciprocal), rounds[0])
}

fn is_in_range<'a>(by: V<'a>) -> V<'a> {
    by.below(by.int(by.elem.bits() as i64))
}

fn shift_left<'a>(a: V<'a>, by: V<'a>) -> V<'a> {
    let fits = is_in_range(by);
    fits.select(a.shl(fits.select(by, by.int(0))), a.int(0))
}

fn shift_right<'a>(a: V<'a>, by: V<'a>, dtype: DType) -> V<'a> {
    let fits = is_in_range(by);
    if dtype.is_signed() {
        return a.ashr(fits.select(by, by.int(by.elem.bits() as i64 - 1)));
    }
    fits.select(a.lshr(fits.select(by, by.int(0))), a.int(0))
}
