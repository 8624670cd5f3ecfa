//! The scalar operations as expressions.

use super::ctype::{held, rounded};
use ox_ir::{DType, PointOp};

/// `op` on values of type `operand`, as a value of type `dtype`; None if it is not defined there. `quick`: what it comes to is rounded to
/// 16 bits in the end.
pub fn apply(op: PointOp, args: &[String], operand: DType, dtype: DType, quick: bool) -> Option<String> {
    if let (true, Some(text)) = (quick && operand.compute() == DType::F32, quick_form(op, args)) {
        return Some(rounded(text, dtype));
    }
    let text = match operand {
        _ if op == PointOp::Where => format!("{} ? {} : {}", args[0], args[1], args[2]),
        DType::Bool => boolean(op, args)?,
        _ if operand.is_float() => float(op, args, operand)?,
        _ => integer(op, args, operand)?,
    };
    Some(if is_exact(op) { text } else { rounded(text, dtype) })
}

/// Gives a value of a half type for values of that type, without rounding.
fn is_exact(op: PointOp) -> bool {
    use PointOp::*;
    matches!(op, Neg | Abs | Sign | Maximum | Minimum | Fmax | Fmin | Floor | Ceil | Round | Trunc | Copysign | Where)
        || op.result(DType::F32) == DType::Bool
}

/// Forms that are a little off in the last places of a float, and much shorter.
fn quick_form(op: PointOp, args: &[String]) -> Option<String> {
    use PointOp::*;
    Some(match (op, args) {
        (Exp, [a]) => format!("quick_exp({a})"),
        (Sqrt, [a]) => format!("quick_sqrt({a})"),
        (Div, [a, b]) => format!("quick_div({a}, {b})"),
        (Reciprocal, [a]) => format!("quick_div(1.0f, {a})"),
        (Sigmoid, [a]) => format!("quick_div(1.0f, 1.0f + quick_exp(-{a}))"),
        _ => return None,
    })
}

fn boolean(op: PointOp, args: &[String]) -> Option<String> {
    use PointOp::*;
    Some(match (op, args) {
        (Not, [a]) => format!("!{a}"),
        (And | Minimum, [a, b]) => format!("{a} && {b}"),
        (Or | Maximum, [a, b]) => format!("{a} || {b}"),
        (Xor | Ne, [a, b]) => format!("{a} != {b}"),
        (Eq, [a, b]) => format!("{a} == {b}"),
        (Lt, [a, b]) => format!("!{a} && {b}"),
        (Gt, [a, b]) => format!("{a} && !{b}"),
        (Le, [a, b]) => format!("!{a} || {b}"),
        (Ge, [a, b]) => format!("{a} || !{b}"),
        // As on the byte that holds it: 1 << 1 is not zero.
        (Shl, [a, _]) => a.clone(),
        (Shr, [a, b]) => format!("{a} && !{b}"),
        _ => return None,
    })
}

fn compare(op: PointOp) -> Option<&'static str> {
    Some(match op {
        PointOp::Eq => "==",
        PointOp::Ne => "!=",
        PointOp::Lt => "<",
        PointOp::Le => "<=",
        PointOp::Gt => ">",
        PointOp::Ge => ">=",
        _ => return None,
    })
}

fn float(op: PointOp, args: &[String], dtype: DType) -> Option<String> {
    use PointOp::*;
    // CUDA's functions for float end in f; ours are overloaded.
    let f = if dtype == DType::F64 { "" } else { "f" };
    let one = if dtype == DType::F64 { "1.0" } else { "1.0f" };
    let ty = held(dtype);
    if let ([a, b], Some(sign)) = (args, compare(op)) {
        return Some(format!("{a} {sign} {b}"));
    }
    if let (Some(name), [a]) = (unary_function(op), args) {
        return Some(format!("{name}{f}({a})"));
    }
    Some(match (op, args) {
        (Neg, [a]) => format!("-{a}"),
        (Sign, [a]) => format!("({ty})(({a} > 0) - ({a} < 0))"),
        (Reciprocal, [a]) => format!("{one} / {a}"),
        (Sigmoid, [a]) => format!("{one} / ({one} + exp{f}(-{a}))"),
        (IsNan, [a]) => format!("{a} != {a}"),
        (IsInf, [a]) => format!("is_inf({a})"),
        (SignBit, [a]) => format!("sign_bit({a})"),
        (Add, [a, b]) => format!("{a} + {b}"),
        (Sub, [a, b]) => format!("{a} - {b}"),
        (Mul, [a, b]) => format!("{a} * {b}"),
        (Div, [a, b]) => format!("{a} / {b}"),
        (DivFloor, [a, b]) => format!("div_floor({a}, {b})"),
        (DivTrunc, [a, b]) => format!("trunc{f}({a} / {b})"),
        (Remainder, [a, b]) => format!("remainder_of({a}, {b})"),
        (Fmod, [a, b]) => format!("fmod{f}({a}, {b})"),
        (Pow, [a, b]) => format!("pow{f}({a}, {b})"),
        (Atan2, [a, b]) => format!("atan2{f}({a}, {b})"),
        (Maximum, [a, b]) => format!("maximum({a}, {b})"),
        (Minimum, [a, b]) => format!("minimum({a}, {b})"),
        (Fmax, [a, b]) => format!("fmax{f}({a}, {b})"),
        (Fmin, [a, b]) => format!("fmin{f}({a}, {b})"),
        (Copysign, [a, b]) => format!("copysign{f}({a}, {b})"),
        (Fma, [a, b, c]) => format!("fma{f}({a}, {b}, {c})"),
        _ => return None,
    })
}

/// The name without the `f` for float.
fn unary_function(op: PointOp) -> Option<&'static str> {
    use PointOp::*;
    Some(match op {
        Abs => "fabs",
        Floor => "floor",
        Ceil => "ceil",
        Round => "rint",
        Trunc => "trunc",
        Sqrt => "sqrt",
        Rsqrt => "rsqrt",
        Exp => "exp",
        Exp2 => "exp2",
        Expm1 => "expm1",
        Log => "log",
        Log2 => "log2",
        Log10 => "log10",
        Log1p => "log1p",
        Sin => "sin",
        Cos => "cos",
        Tan => "tan",
        Asin => "asin",
        Acos => "acos",
        Atan => "atan",
        Sinh => "sinh",
        Cosh => "cosh",
        Tanh => "tanh",
        Asinh => "asinh",
        Acosh => "acosh",
        Atanh => "atanh",
        Erf => "erf",
        Erfc => "erfc",
        Lgamma => "lgamma",
        _ => return None,
    })
}

/// They wrap, and no input makes them trap. Arithmetic is done unsigned, where wrapping is defined.
fn integer(op: PointOp, args: &[String], dtype: DType) -> Option<String> {
    use PointOp::*;
    let ty = held(dtype);
    let wide = if dtype == DType::I64 { "unsigned long long" } else { "unsigned" };
    if let ([a, b], Some(sign)) = (args, compare(op)) {
        return Some(format!("{a} {sign} {b}"));
    }
    let wrapping = |sign: &str, a: &str, b: &str| format!("({ty})(({wide}){a} {sign} ({wide}){b})");
    Some(match (op, args) {
        (Neg, [a]) => wrapping("-", "0", a),
        (Abs, [a]) => format!("{a} < 0 ? {} : {a}", wrapping("-", "0", a)),
        (Sign, [a]) => format!("({ty})(({a} > 0) - ({a} < 0))"),
        (Not, [a]) => format!("({ty})~{a}"),
        (Add, [a, b]) => wrapping("+", a, b),
        (Sub, [a, b]) => wrapping("-", a, b),
        (Mul, [a, b]) => wrapping("*", a, b),
        (And, [a, b]) => format!("({ty})({a} & {b})"),
        (Or, [a, b]) => format!("({ty})({a} | {b})"),
        (Xor, [a, b]) => format!("({ty})({a} ^ {b})"),
        (DivTrunc, [a, b]) => format!("int_div<{ty}>({a}, {b})"),
        (DivFloor, [a, b]) => format!("int_div_floor<{ty}>({a}, {b})"),
        (Fmod, [a, b]) => wrapping("-", a, &wrapping("*", &format!("int_div<{ty}>({a}, {b})"), b)),
        (Remainder, [a, b]) => wrapping("-", a, &wrapping("*", &format!("int_div_floor<{ty}>({a}, {b})"), b)),
        (Pow, [a, b]) => format!("int_pow<{ty}>({a}, {b})"),
        (Maximum, [a, b]) => format!("{a} > {b} ? {a} : {b}"),
        (Minimum, [a, b]) => format!("{a} < {b} ? {a} : {b}"),
        (Shl, [a, b]) => format!("int_shl<{ty}>({a}, {b})"),
        (Shr, [a, b]) => format!("int_shr<{ty}>({a}, {b})"),
        (Random, [key, low, high]) => format!("random_bits<0>({key}, {low}, {high})"),
        (RandomHigh, [key, low, high]) => format!("random_bits<2>({key}, {low}, {high})"),
        _ => return None,
    })
}
