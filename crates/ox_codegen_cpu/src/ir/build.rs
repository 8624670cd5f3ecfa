//! Constants, conversions and intrinsic calls.

use super::value::NO_NAME;
use super::{Elem, Ir, V};
use llvm_sys::LLVMOpcode;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use std::ffi::CString;

impl Ir {
    pub fn float(&self, elem: Elem, x: f64) -> V<'_> {
        // SAFETY: a float type.
        self.wrap(unsafe { LLVMConstReal(self.ty(elem, 1), x) }, elem, 1)
    }

    pub fn int(&self, elem: Elem, x: i64) -> V<'_> {
        // SAFETY: an integer type; LLVM takes its low bits.
        self.wrap(unsafe { LLVMConstInt(self.ty(elem, 1), x as u64, 1) }, elem, 1)
    }

    pub fn index(&self, x: i64) -> V<'_> {
        self.int(Elem::I64, x)
    }

    pub fn bool(&self, x: bool) -> V<'_> {
        self.int(Elem::I1, x as i64)
    }

    /// `0, 1, 2, ...`
    pub fn iota(&self, elem: Elem, lanes: u32) -> V<'_> {
        if lanes == 1 {
            return self.int(elem, 0);
        }
        let mut items: Vec<LLVMValueRef> = (0..lanes).map(|n| self.int(elem, n as i64).raw).collect();
        // SAFETY: constants of one type.
        self.wrap(unsafe { LLVMConstVector(items.as_mut_ptr(), lanes) }, elem, lanes)
    }

    /// These constants side by side.
    pub fn vector(&self, elem: Elem, numbers: &[f64]) -> V<'_> {
        let mut items: Vec<LLVMValueRef> = numbers.iter().map(|x| self.float(elem, *x).raw).collect();
        let lanes = items.len() as u32;
        // SAFETY: constants of one type.
        self.wrap(unsafe { LLVMConstVector(items.as_mut_ptr(), lanes) }, elem, lanes)
    }

    pub(super) fn undef(&self, elem: Elem, lanes: u32) -> V<'_> {
        // SAFETY: any first-class type has a poison value.
        self.wrap(unsafe { LLVMGetPoison(self.ty(elem, lanes)) }, elem, lanes)
    }

    pub fn null(&self, elem: Elem, lanes: u32) -> V<'_> {
        // SAFETY: any first-class type has a zero.
        self.wrap(unsafe { LLVMConstNull(self.ty(elem, lanes)) }, elem, lanes)
    }

    /// Calls an overloaded intrinsic such as `llvm.fma.v16f32`.
    pub(super) fn intrinsic(&self, name: &str, overload: &[(Elem, u32)], args: &[V<'_>], result: (Elem, u32)) -> V<'_> {
        self.call(&mangled(name, overload), args, Some(result))
    }

    pub(super) fn void_intrinsic(&self, name: &str, overload: &[(Elem, u32)], args: &[V<'_>]) -> V<'_> {
        self.call(&mangled(name, overload), args, None)
    }

    /// Calls an external function or intrinsic by name, declaring it on first use. `None` is void.
    pub fn call(&self, name: &str, args: &[V<'_>], result: Option<(Elem, u32)>) -> V<'_> {
        let mut types: Vec<LLVMTypeRef> = args.iter().map(|a| self.ty(a.elem, a.lanes)).collect();
        let mut raw: Vec<LLVMValueRef> = args.iter().map(|a| a.raw).collect();
        let (elem, lanes) = result.unwrap_or((Elem::I1, 1));
        let name = CString::new(name).expect("a symbol name without NUL");
        // SAFETY: the function is declared with exactly the types of these arguments.
        unsafe {
            let returns = if result.is_some() { self.ty(elem, lanes) } else { LLVMVoidTypeInContext(self.context) };
            let ty = LLVMFunctionType(returns, types.as_mut_ptr(), types.len() as u32, 0);
            let mut function = LLVMGetNamedFunction(self.module, name.as_ptr());
            if function.is_null() {
                function = LLVMAddFunction(self.module, name.as_ptr(), ty);
            }
            let raw = LLVMBuildCall2(self.builder, ty, function, raw.as_mut_ptr(), raw.len() as u32, NO_NAME);
            self.wrap(raw, elem, lanes)
        }
    }
}

fn mangled(name: &str, overload: &[(Elem, u32)]) -> String {
    let mut full = name.to_string();
    for (elem, lanes) in overload {
        full.push('.');
        if *lanes > 1 {
            full.push_str(&format!("v{lanes}"));
        }
        full.push_str(elem.mangled());
    }
    full
}

impl<'a> V<'a> {
    fn cast(self, op: LLVMOpcode, elem: Elem) -> V<'a> {
        if self.elem == elem {
            return self;
        }
        // SAFETY: callers pair the opcode with the element types that it takes.
        let raw = unsafe { LLVMBuildCast(self.ir.builder, op, self.raw, self.ir.ty(elem, self.lanes), NO_NAME) };
        self.ir.wrap(raw, elem, self.lanes)
    }

    /// The same bits as another type of the same width.
    pub fn bits_as(self, elem: Elem) -> V<'a> {
        self.cast(LLVMOpcode::LLVMBitCast, elem)
    }

    /// The float's bits as an integer.
    pub fn to_bits(self) -> V<'a> {
        self.bits_as(self.elem.int())
    }

    pub fn zext(self, elem: Elem) -> V<'a> {
        self.cast(LLVMOpcode::LLVMZExt, elem)
    }

    pub fn sext(self, elem: Elem) -> V<'a> {
        self.cast(LLVMOpcode::LLVMSExt, elem)
    }

    pub fn trunc_to(self, elem: Elem) -> V<'a> {
        self.cast(LLVMOpcode::LLVMTrunc, elem)
    }

    pub fn fpext(self, elem: Elem) -> V<'a> {
        self.cast(LLVMOpcode::LLVMFPExt, elem)
    }

    pub fn fptrunc(self, elem: Elem) -> V<'a> {
        self.cast(LLVMOpcode::LLVMFPTrunc, elem)
    }

    pub fn sitofp(self, elem: Elem) -> V<'a> {
        self.cast(LLVMOpcode::LLVMSIToFP, elem)
    }

    pub fn uitofp(self, elem: Elem) -> V<'a> {
        self.cast(LLVMOpcode::LLVMUIToFP, elem)
    }

    /// Truncation. Out of range gives some value (what the host's instruction gives), never poison.
    pub fn fptosi(self, elem: Elem) -> V<'a> {
        let v = self.cast(LLVMOpcode::LLVMFPToSI, elem);
        // SAFETY: freeze takes any value.
        self.ir.wrap(unsafe { LLVMBuildFreeze(self.ir.builder, v.raw, NO_NAME) }, elem, self.lanes)
    }

    /// The same value, of which LLVM does not know how it was made: where a choice is converted and one side of it is out of range, it would drop that
    /// side, as if it were never chosen.
    pub fn fenced(self) -> V<'a> {
        self.unary_intrinsic("llvm.arithmetic.fence")
    }

    /// f16 as f32. What is computed of that and narrowed again LLVM would compute of halves, if the result is the same; processors without such
    /// arithmetic do that lane by lane (rounding down took ten times as long). So it does not know where the value comes from, but of a constant.
    pub fn widened(self) -> V<'a> {
        let wide = self.fpext(Elem::F32);
        // SAFETY: a question about a value.
        let is_constant = unsafe { LLVMIsConstant(wide.raw) } != 0;
        if is_constant { wide } else { wide.fenced() }
    }

    /// f32 as f16. What was widened is the half that it was.
    pub fn narrowed(self) -> V<'a> {
        self.half().unwrap_or_else(|| self.fptrunc(Elem::F16))
    }

    /// What it was widened from, if that is all that happened.
    fn half(self) -> Option<V<'a>> {
        let (fence, ty) = (c"llvm.arithmetic.fence", self.ir.ty(Elem::F16, self.lanes));
        // SAFETY: questions about values; a fence and a conversion have an operand, and a call of an intrinsic a function.
        unsafe {
            let id = LLVMLookupIntrinsicID(fence.as_ptr(), fence.count_bytes());
            let is_fence = !LLVMIsAIntrinsicInst(self.raw).is_null() && LLVMGetIntrinsicID(LLVMGetCalledValue(self.raw)) == id;
            let wide = if is_fence { LLVMIsAFPExtInst(LLVMGetOperand(self.raw, 0)) } else { return None };
            let half = if wide.is_null() { return None } else { LLVMGetOperand(wide, 0) };
            (LLVMTypeOf(half) == ty).then(|| self.ir.wrap(half, Elem::F16, self.lanes))
        }
    }

    /// Sign-extends, truncates or leaves alone.
    pub fn resize_signed(self, elem: Elem) -> V<'a> {
        if elem.bits() > self.elem.bits() { self.sext(elem) } else { self.trunc_to(elem) }
    }

    fn unary_intrinsic(self, name: &str) -> V<'a> {
        self.ir.intrinsic(name, &[(self.elem, self.lanes)], &[self], (self.elem, self.lanes))
    }

    fn binary_intrinsic(self, name: &str, other: V<'a>) -> V<'a> {
        let (a, b) = self.unify(other);
        self.ir.intrinsic(name, &[(a.elem, a.lanes)], &[a, b], (a.elem, a.lanes))
    }

    /// `self * b + c` with one rounding.
    pub fn fma(self, b: V<'a>, c: V<'a>) -> V<'a> {
        let lanes = self.lanes.max(b.lanes).max(c.lanes);
        let args = [self.splat(lanes), b.splat(lanes), c.splat(lanes)];
        self.ir.intrinsic("llvm.fma", &[(self.elem, lanes)], &args, (self.elem, lanes))
    }

    pub fn sqrt(self) -> V<'a> {
        self.unary_intrinsic("llvm.sqrt")
    }

    pub fn floor(self) -> V<'a> {
        self.unary_intrinsic("llvm.floor")
    }

    pub fn ceil(self) -> V<'a> {
        self.unary_intrinsic("llvm.ceil")
    }

    pub fn trunc(self) -> V<'a> {
        self.unary_intrinsic("llvm.trunc")
    }

    /// To the nearest, ties to even.
    pub fn round(self) -> V<'a> {
        self.unary_intrinsic("llvm.roundeven")
    }

    pub fn abs(self) -> V<'a> {
        if self.elem.is_float() {
            return self.unary_intrinsic("llvm.fabs");
        }
        self.lt(self.int(0)).select(-self, self)
    }

    pub fn copysign(self, sign: V<'a>) -> V<'a> {
        self.binary_intrinsic("llvm.copysign", sign)
    }

    /// The position of the lowest set bit; the width for zero.
    pub fn trailing_zeros(self) -> V<'a> {
        let args = [self, self.ir.bool(false)];
        self.ir.intrinsic("llvm.cttz", &[(self.elem, self.lanes)], &args, (self.elem, self.lanes))
    }
}
