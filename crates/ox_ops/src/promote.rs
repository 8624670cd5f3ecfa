//! torch's type promotion.

use ox_ir::DType;

/// How a value takes part in promotion: dimensions count more than 0-dimensional tensors, those more than Python numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Category {
    Tensor,
    ZeroDim,
    Number,
}

/// The common type of two tensors of equal category.
pub fn promote_types(a: DType, b: DType) -> DType {
    use DType::*;
    if a == b {
        return a;
    }
    let (low, high) = if rank(a) <= rank(b) { (a, b) } else { (b, a) };
    match (low, high) {
        (U8, I8) => I16,
        (F16, BF16) => F32,
        (F64, C64) => C128,
        _ => high,
    }
}

/// Bool < u8 < signed integers < floats < complex. Each pair of neighbours that does not contain the other is a case above.
fn rank(dtype: DType) -> usize {
    DType::ALL.iter().position(|d| *d == dtype).unwrap_or(0)
}

/// The common type of all operands. A Python number is I64, Bool or (float) the default type, in category `Number`.
pub fn result_type(operands: &[(Category, DType)], default: DType) -> DType {
    let of = |category: Category| {
        let types = operands.iter().filter(|(c, _)| *c == category).map(|(_, d)| *d);
        types.reduce(promote_types)
    };
    let number = of(Category::Number).map(|d| if d.is_float() { default } else { d });
    combine(of(Category::Tensor), combine(of(Category::ZeroDim), number)).unwrap_or(default)
}

/// A higher category decides, unless the lower one is of a higher kind (bool, integer, float, complex).
fn combine(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    let (Some(high), Some(low)) = (higher, lower) else { return higher.or(lower) };
    if high.is_complex() {
        return higher;
    }
    if high.is_float() {
        return Some(if low.is_complex() { complex_of(high) } else { high });
    }
    if high == DType::Bool || low.is_float() || low.is_complex() {
        return Some(promote_types(high, low));
    }
    higher
}

fn complex_of(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::C128 } else { DType::C64 }
}

/// Whether a result of type `from` may be stored in a tensor of type `to` by an in-place operation.
pub fn can_cast(from: DType, to: DType) -> bool {
    if from.is_complex() && !to.is_complex() {
        return false;
    }
    if from.is_float() && !(to.is_float() || to.is_complex()) {
        return false;
    }
    from == DType::Bool || to != DType::Bool
}

/// What torch's messages call the type.
pub fn torch_name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "Bool",
        DType::U8 => "Byte",
        DType::I8 => "Char",
        DType::I16 => "Short",
        DType::I32 => "Int",
        DType::I64 => "Long",
        DType::F16 => "Half",
        DType::BF16 => "BFloat16",
        DType::F32 => "Float",
        DType::F64 => "Double",
        DType::C64 => "ComplexFloat",
        DType::C128 => "ComplexDouble",
    }
}
