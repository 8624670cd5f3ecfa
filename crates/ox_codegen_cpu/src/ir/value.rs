//! `V`: a scalar or vector value with the operators of arithmetic, so that formulas read as formulas.

use super::{Elem, Ir};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::{LLVMIntPredicate, LLVMRealPredicate};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

#[derive(Clone, Copy)]
pub struct V<'a> {
    pub(super) ir: &'a Ir,
    pub(super) raw: LLVMValueRef,
    pub elem: Elem,
    /// 1 for a scalar.
    pub lanes: u32,
}

type Binary = unsafe extern "C" fn(LLVMBuilderRef, LLVMValueRef, LLVMValueRef, *const libc_char) -> LLVMValueRef;
#[allow(non_camel_case_types)]
type libc_char = std::ffi::c_char;
pub(super) const NO_NAME: *const libc_char = c"".as_ptr();

impl<'a> V<'a> {
    pub fn ir(self) -> &'a Ir {
        self.ir
    }

    pub fn is_wide(self) -> bool {
        self.lanes > 1
    }

    /// Both values with the same number of lanes.
    pub fn unify(self, other: V<'a>) -> (V<'a>, V<'a>) {
        let lanes = self.lanes.max(other.lanes);
        (self.splat(lanes), other.splat(lanes))
    }

    fn binary(self, other: V<'a>, build: Binary) -> V<'a> {
        assert_eq!(self.elem, other.elem, "operands of one element type");
        let (a, b) = self.unify(other);
        // SAFETY: the operands have the same type, of the kind that `build` takes.
        self.ir.wrap(unsafe { build(self.ir.builder, a.raw, b.raw, NO_NAME) }, a.elem, a.lanes)
    }

    /// A constant of this value's element type.
    pub fn float(self, x: f64) -> V<'a> {
        self.ir.float(self.elem, x)
    }

    /// A constant of this value's element type.
    pub fn int(self, x: i64) -> V<'a> {
        self.ir.int(self.elem, x)
    }

    /// Addition that cannot overflow: for index arithmetic.
    pub fn add_index(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildNSWAdd)
    }

    pub fn mul_index(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildNSWMul)
    }

    pub fn sdiv(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildSDiv)
    }

    pub fn udiv(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildUDiv)
    }

    pub fn srem(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildSRem)
    }

    pub fn urem(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildURem)
    }

    pub fn shl(self, by: V<'a>) -> V<'a> {
        self.binary(by, LLVMBuildShl)
    }

    pub fn lshr(self, by: V<'a>) -> V<'a> {
        self.binary(by, LLVMBuildLShr)
    }

    pub fn ashr(self, by: V<'a>) -> V<'a> {
        self.binary(by, LLVMBuildAShr)
    }

    fn icmp(self, predicate: LLVMIntPredicate, other: V<'a>) -> V<'a> {
        assert_eq!(self.elem, other.elem, "operands of one element type");
        let (a, b) = self.unify(other);
        // SAFETY: integer operands of one type.
        self.ir.wrap(unsafe { LLVMBuildICmp(self.ir.builder, predicate, a.raw, b.raw, NO_NAME) }, Elem::I1, a.lanes)
    }

    fn fcmp(self, predicate: LLVMRealPredicate, other: V<'a>) -> V<'a> {
        assert_eq!(self.elem, other.elem, "operands of one element type");
        let (a, b) = self.unify(other);
        // SAFETY: float operands of one type.
        self.ir.wrap(unsafe { LLVMBuildFCmp(self.ir.builder, predicate, a.raw, b.raw, NO_NAME) }, Elem::I1, a.lanes)
    }

    pub fn eq(self, other: V<'a>) -> V<'a> {
        if self.elem.is_float() {
            return self.fcmp(LLVMRealPredicate::LLVMRealOEQ, other);
        }
        self.icmp(LLVMIntPredicate::LLVMIntEQ, other)
    }

    /// True for NaN.
    pub fn ne(self, other: V<'a>) -> V<'a> {
        if self.elem.is_float() {
            return self.fcmp(LLVMRealPredicate::LLVMRealUNE, other);
        }
        self.icmp(LLVMIntPredicate::LLVMIntNE, other)
    }

    /// Signed for integers; false for NaN.
    pub fn lt(self, other: V<'a>) -> V<'a> {
        if self.elem.is_float() {
            return self.fcmp(LLVMRealPredicate::LLVMRealOLT, other);
        }
        self.icmp(LLVMIntPredicate::LLVMIntSLT, other)
    }

    pub fn le(self, other: V<'a>) -> V<'a> {
        if self.elem.is_float() {
            return self.fcmp(LLVMRealPredicate::LLVMRealOLE, other);
        }
        self.icmp(LLVMIntPredicate::LLVMIntSLE, other)
    }

    pub fn gt(self, other: V<'a>) -> V<'a> {
        other.lt(self)
    }

    pub fn ge(self, other: V<'a>) -> V<'a> {
        other.le(self)
    }

    /// Unsigned.
    pub fn below(self, other: V<'a>) -> V<'a> {
        self.icmp(LLVMIntPredicate::LLVMIntULT, other)
    }

    pub fn below_or_equal(self, other: V<'a>) -> V<'a> {
        self.icmp(LLVMIntPredicate::LLVMIntULE, other)
    }

    pub fn is_nan(self) -> V<'a> {
        self.fcmp(LLVMRealPredicate::LLVMRealUNO, self)
    }

    pub fn is_ordered(self) -> V<'a> {
        self.fcmp(LLVMRealPredicate::LLVMRealORD, self)
    }

    /// `self ? a : b`, lane by lane. The condition is splatted, because a vector choice by a scalar condition becomes a branch; and as a
    /// splat, not as an integer whose bits are the lanes: LLVM 19 does not come to an end where two such masks for AVX-512 meet in an `or`
    /// or `and`, which it makes of nested choices by itself (llvm/llvm-project#123333).
    pub fn select(self, a: V<'a>, b: V<'a>) -> V<'a> {
        assert_eq!((self.elem, a.elem), (Elem::I1, b.elem), "a condition and two values of one type");
        let lanes = self.lanes.max(a.lanes).max(b.lanes);
        let (condition, a, b) = (self.splat(lanes), a.splat(lanes), b.splat(lanes));
        // SAFETY: types as checked.
        self.ir.wrap(unsafe { LLVMBuildSelect(self.ir.builder, condition.raw, a.raw, b.raw, NO_NAME) }, a.elem, lanes)
    }

    pub fn select_f(self, a: V<'a>, b: f64) -> V<'a> {
        self.select(a, a.float(b))
    }
}

impl<'a> Add for V<'a> {
    type Output = V<'a>;
    fn add(self, other: V<'a>) -> V<'a> {
        self.binary(other, if self.elem.is_float() { LLVMBuildFAdd } else { LLVMBuildAdd })
    }
}

impl<'a> Sub for V<'a> {
    type Output = V<'a>;
    fn sub(self, other: V<'a>) -> V<'a> {
        self.binary(other, if self.elem.is_float() { LLVMBuildFSub } else { LLVMBuildSub })
    }
}

impl<'a> Mul for V<'a> {
    type Output = V<'a>;
    fn mul(self, other: V<'a>) -> V<'a> {
        self.binary(other, if self.elem.is_float() { LLVMBuildFMul } else { LLVMBuildMul })
    }
}

/// Of floats.
impl<'a> Div for V<'a> {
    type Output = V<'a>;
    fn div(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildFDiv)
    }
}

impl<'a> Neg for V<'a> {
    type Output = V<'a>;
    fn neg(self) -> V<'a> {
        let build = if self.elem.is_float() { LLVMBuildFNeg } else { LLVMBuildNeg };
        // SAFETY: the builder function matches the kind of the operand.
        self.ir.wrap(unsafe { build(self.ir.builder, self.raw, NO_NAME) }, self.elem, self.lanes)
    }
}

impl<'a> Not for V<'a> {
    type Output = V<'a>;
    fn not(self) -> V<'a> {
        // SAFETY: an integer operand.
        self.ir.wrap(unsafe { LLVMBuildNot(self.ir.builder, self.raw, NO_NAME) }, self.elem, self.lanes)
    }
}

impl<'a> BitAnd for V<'a> {
    type Output = V<'a>;
    fn bitand(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildAnd)
    }
}

impl<'a> BitOr for V<'a> {
    type Output = V<'a>;
    fn bitor(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildOr)
    }
}

impl<'a> BitXor for V<'a> {
    type Output = V<'a>;
    fn bitxor(self, other: V<'a>) -> V<'a> {
        self.binary(other, LLVMBuildXor)
    }
}

macro_rules! with_constants {
    ($($trait:ident $method:ident),*) => {$(
        impl<'a> $trait<f64> for V<'a> {
            type Output = V<'a>;
            fn $method(self, other: f64) -> V<'a> { self.$method(self.float(other)) }
        }
        impl<'a> $trait<V<'a>> for f64 {
            type Output = V<'a>;
            fn $method(self, other: V<'a>) -> V<'a> { other.float(self).$method(other) }
        }
    )*};
}
with_constants!(Add add, Sub sub, Mul mul, Div div);

macro_rules! with_integers {
    ($($trait:ident $method:ident),*) => {$(
        impl<'a> $trait<i64> for V<'a> {
            type Output = V<'a>;
            fn $method(self, other: i64) -> V<'a> { self.$method(self.int(other)) }
        }
    )*};
}
with_integers!(Add add, Sub sub, Mul mul, BitAnd bitand, BitOr bitor, BitXor bitxor);
