//! `PointOp`: the scalar operations. A Graph applies them to whole tensors, a Kernel to one element; they are the same operations.
//!
//! This table gives name, number of arguments and type class. What each means, its test domain and its derivative stand
//! in `ox_ops::point`, row by row in the same order.

use crate::dtype::DType;

/// How the types of the arguments and of the result relate. All tensor arguments of one op have the same type, except the
/// condition of `where`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointClass {
    /// Any number type in, the same out (not bool).
    Number,
    /// Any type in, the same out, bool too.
    Any,
    /// Float in, the same float out.
    Float,
    /// Integer or bool in, the same out.
    Bits,
    /// Any type in, bool out.
    Compare,
    /// Float in, bool out.
    FloatTest,
    /// Bool in, bool out.
    Logic,
    /// (bool, T, T) in, T out.
    Select,
    /// i64 in, i64 out: 64 bits each.
    Word,
}

macro_rules! point_ops {
    ($($(#[$doc:meta])* $variant:ident $name:literal $arity:literal $class:ident;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum PointOp { $($(#[$doc])* $variant,)* }

        impl PointOp {
            pub const ALL: &'static [PointOp] = &[$(PointOp::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { $(PointOp::$variant => $name,)* }
            }

            pub fn arity(self) -> usize {
                match self { $(PointOp::$variant => $arity,)* }
            }

            pub fn class(self) -> PointClass {
                match self { $(PointOp::$variant => PointClass::$class,)* }
            }
        }
    };
}

point_ops! {
    // Arithmetic. Integers wrap.
    Neg "neg" 1 Number;
    Abs "abs" 1 Number;
    Sign "sign" 1 Number;
    Add "add" 2 Number;
    Sub "sub" 2 Number;
    Mul "mul" 2 Number;
    /// True division.
    Div "div" 2 Float;
    /// Division rounded down. Integers: by zero is an error that the kernel reports; INT_MIN // -1 wraps.
    DivFloor "div_floor" 2 Number;
    /// Division rounded to zero; errors as `div_floor`.
    DivTrunc "div_trunc" 2 Number;
    /// The remainder that has the divisor's sign (Python's %).
    Remainder "remainder" 2 Number;
    /// The remainder that has the dividend's sign (C's fmod and %).
    Fmod "fmod" 2 Number;
    /// Integers: exponents below zero give 0, except for bases 1 and -1.
    Pow "pow" 2 Number;
    /// NaN wins.
    Maximum "maximum" 2 Any;
    /// NaN wins.
    Minimum "minimum" 2 Any;
    /// A number wins over NaN.
    Fmax "fmax" 2 Float;
    /// A number wins over NaN.
    Fmin "fmin" 2 Float;
    /// `a*b + c` with one rounding.
    Fma "fma" 3 Float;

    // Rounding.
    Floor "floor" 1 Float;
    Ceil "ceil" 1 Float;
    /// To the nearest, ties to even.
    Round "round" 1 Float;
    Trunc "trunc" 1 Float;

    // Powers and logarithms.
    Sqrt "sqrt" 1 Float;
    Rsqrt "rsqrt" 1 Float;
    Reciprocal "reciprocal" 1 Float;
    Exp "exp" 1 Float;
    Exp2 "exp2" 1 Float;
    Expm1 "expm1" 1 Float;
    Log "log" 1 Float;
    Log2 "log2" 1 Float;
    Log10 "log10" 1 Float;
    Log1p "log1p" 1 Float;

    // Circular and hyperbolic.
    Sin "sin" 1 Float;
    Cos "cos" 1 Float;
    Tan "tan" 1 Float;
    Asin "asin" 1 Float;
    Acos "acos" 1 Float;
    Atan "atan" 1 Float;
    Atan2 "atan2" 2 Float;
    Sinh "sinh" 1 Float;
    Cosh "cosh" 1 Float;
    Tanh "tanh" 1 Float;
    Asinh "asinh" 1 Float;
    Acosh "acosh" 1 Float;
    Atanh "atanh" 1 Float;

    // Special functions.
    Sigmoid "sigmoid" 1 Float;
    Erf "erf" 1 Float;
    Erfc "erfc" 1 Float;
    Lgamma "lgamma" 1 Float;

    // Sign and class of floats.
    Copysign "copysign" 2 Float;
    IsNan "isnan" 1 FloatTest;
    IsInf "isinf" 1 FloatTest;
    SignBit "signbit" 1 FloatTest;

    // Comparison. Any comparison with NaN is false, except `ne`.
    Eq "eq" 2 Compare;
    Ne "ne" 2 Compare;
    Lt "lt" 2 Compare;
    Le "le" 2 Compare;
    Gt "gt" 2 Compare;
    Ge "ge" 2 Compare;

    // Logic and bits.
    And "and" 2 Bits;
    Or "or" 2 Bits;
    Xor "xor" 2 Bits;
    Not "not" 1 Bits;
    /// Shifts by less than 0 or at least the width give 0 (or the sign, for `shr` of signed).
    Shl "shl" 2 Bits;
    /// Arithmetic for signed types.
    Shr "shr" 2 Bits;

    /// `where(condition, a, b)`.
    Where "where" 3 Select;

    // Random bits: Philox 4x32-10 of (key, low half of the counter, high half of the counter). Equal arguments give equal bits.
    /// The low half of its 128 bits.
    Random "random" 3 Word;
    /// The high half.
    RandomHigh "random_high" 3 Word;
}

impl PointOp {
    pub fn from_name(name: &str) -> Option<PointOp> {
        PointOp::ALL.iter().copied().find(|op| op.name() == name)
    }

    /// Whether it takes as long as many others: a series, a loop.
    pub fn is_function(self) -> bool {
        self >= PointOp::Exp && self <= PointOp::Lgamma
            || matches!(self, PointOp::Pow | PointOp::Fmod | PointOp::Remainder | PointOp::Random | PointOp::RandomHigh)
    }

    /// Whether integers that are divided by zero are an error.
    pub fn is_division(self) -> bool {
        matches!(self, PointOp::DivFloor | PointOp::DivTrunc | PointOp::Remainder | PointOp::Fmod)
    }

    /// The result type for arguments of type `dtype` (for `where`: of the two values).
    pub fn result(self, dtype: DType) -> DType {
        match self.class() {
            PointClass::Compare | PointClass::FloatTest | PointClass::Logic => DType::Bool,
            _ => dtype,
        }
    }

    /// Whether the op is defined on `dtype`.
    pub fn accepts(self, dtype: DType) -> bool {
        if dtype.is_complex() {
            return false;
        }
        match self.class() {
            PointClass::Number => dtype != DType::Bool,
            PointClass::Float | PointClass::FloatTest => dtype.is_float(),
            // torch does not shift bools.
            PointClass::Bits if matches!(self, PointOp::Shl | PointOp::Shr) => dtype.is_int(),
            PointClass::Bits => dtype.is_int() || dtype == DType::Bool,
            PointClass::Logic => dtype == DType::Bool,
            PointClass::Word => dtype == DType::I64,
            PointClass::Any | PointClass::Compare | PointClass::Select => true,
        }
    }

    /// Not the extremes: of two zeros they take the first.
    pub fn is_commutative(self) -> bool {
        use PointOp::*;
        matches!(self, Add | Mul | Eq | Ne | And | Or | Xor)
    }
}
