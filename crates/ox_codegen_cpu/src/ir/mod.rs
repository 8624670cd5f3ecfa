//! A thin layer over LLVM's C interface in which scalars and vectors are the same thing.
//!
//! inkwell's value types are split by kind (`FloatValue`, `VectorValue` ...), which would double every formula here; LLVM's own
//! builder does not care. A `V` knows its element type and its lanes, and a scalar that meets a vector is splatted.

mod avx512;
mod build;
mod flow;
mod lanes;
mod memory;
mod value;

pub use memory::{Access, Scopes};
pub use value::V;

use crate::host::Host;
use inkwell::context::{AsContextRef, Context};
use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use std::cell::RefCell;
use std::ffi::CString;

/// The element type of an LLVM value. Signedness is a matter of the instruction, as in LLVM.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Elem {
    I1,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    Ptr,
}

impl Elem {
    pub fn is_float(self) -> bool {
        matches!(self, Elem::F16 | Elem::BF16 | Elem::F32 | Elem::F64)
    }

    pub fn bits(self) -> u32 {
        match self {
            Elem::I1 => 1,
            Elem::I8 => 8,
            Elem::I16 | Elem::F16 | Elem::BF16 => 16,
            Elem::I32 | Elem::F32 => 32,
            Elem::I64 | Elem::F64 | Elem::Ptr => 64,
        }
    }

    /// Bytes in memory.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// The integer of the same width.
    pub fn int(self) -> Elem {
        match self {
            Elem::F16 | Elem::BF16 => Elem::I16,
            Elem::F32 => Elem::I32,
            Elem::F64 | Elem::Ptr => Elem::I64,
            int => int,
        }
    }

    /// As intrinsic names spell it.
    fn mangled(self) -> &'static str {
        match self {
            Elem::I1 => "i1",
            Elem::I8 => "i8",
            Elem::I16 => "i16",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
            Elem::F16 => "f16",
            Elem::BF16 => "bf16",
            Elem::F32 => "f32",
            Elem::F64 => "f64",
            Elem::Ptr => "p0",
        }
    }
}

/// One function under construction. The context and the module outlive it.
pub struct Ir {
    context: LLVMContextRef,
    module: LLVMModuleRef,
    builder: LLVMBuilderRef,
    function: LLVMValueRef,
    /// Holds the allocas and nothing else; jumps to the first real block when the function is finished.
    entry: LLVMBasicBlockRef,
    start: LLVMBasicBlockRef,
    spare: RefCell<Option<LLVMValueRef>>,
    /// (constant, lanes, where it lies).
    filled: RefCell<Vec<(LLVMValueRef, u32, LLVMValueRef)>>,
    /// The instructions of AVX-512 (F, VL, BW, DQ) may be used.
    has_avx512: bool,
    /// AVX-512 has conversion to bf16.
    has_bf16: bool,
}

impl Drop for Ir {
    fn drop(&mut self) {
        // SAFETY: the builder was made by `Ir::new` and is used by nobody else.
        unsafe { LLVMDisposeBuilder(self.builder) }
    }
}

/// The parameters of the function that an `Ir` builds.
pub struct Params<'a> {
    pub buffers: V<'a>,
    pub sizes: V<'a>,
    pub begin: V<'a>,
    pub end: V<'a>,
    pub error: V<'a>,
}

impl Ir {
    /// Starts `void name(ptr, ptr, i64, i64, ptr)`, see `ox_ir::abi::KernelFn`.
    ///
    /// # Safety
    /// `context` and `module` must outlive the result; `module` must belong to `context`.
    pub unsafe fn new(context: &Context, module: &Module<'_>, name: &str, host: &Host) -> Ir {
        let (context, module) = ((&context).as_ctx_ref(), module.as_mut_ptr());
        // SAFETY: plain construction calls on a live context and module.
        unsafe {
            let ptr = LLVMPointerTypeInContext(context, 0);
            let int = LLVMInt64TypeInContext(context);
            let mut params = [ptr, ptr, int, int, ptr];
            let ty = LLVMFunctionType(LLVMVoidTypeInContext(context), params.as_mut_ptr(), params.len() as u32, 0);
            let name = CString::new(name).expect("a symbol name without NUL");
            let function = LLVMAddFunction(module, name.as_ptr(), ty);
            let entry = LLVMAppendBasicBlockInContext(context, function, c"entry".as_ptr());
            let start = LLVMAppendBasicBlockInContext(context, function, c"start".as_ptr());
            let builder = LLVMCreateBuilderInContext(context);
            LLVMPositionBuilderAtEnd(builder, start);
            let ir = Ir {
                context,
                module,
                builder,
                function,
                entry,
                start,
                spare: RefCell::new(None),
                filled: RefCell::default(),
                has_avx512: host.has_avx512,
                has_bf16: host.has_bf16,
            };
            ir.function_attributes(host.vector_bits);
            ir
        }
    }

    fn function_attributes(&self, vector_bits: u32) {
        let width = vector_bits.to_string();
        // Without these LLVM splits 512-bit vectors on CPUs whose tuning prefers 256.
        self.string_attribute("prefer-vector-width", &width);
        self.string_attribute("min-legal-vector-width", &width);
        self.string_attribute("no-trapping-math", "true");
        self.enum_attribute("nounwind");
    }

    fn string_attribute(&self, key: &str, value: &str) {
        // SAFETY: both strings are passed with their length.
        unsafe {
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            let attribute = LLVMCreateStringAttribute(self.context, k, key.len() as u32, v, value.len() as u32);
            LLVMAddAttributeAtIndex(self.function, llvm_sys::LLVMAttributeFunctionIndex, attribute);
        }
    }

    fn enum_attribute(&self, key: &str) {
        // SAFETY: the kind comes from LLVM's own table.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(key.as_ptr().cast(), key.len());
            let attribute = LLVMCreateEnumAttribute(self.context, kind, 0);
            LLVMAddAttributeAtIndex(self.function, llvm_sys::LLVMAttributeFunctionIndex, attribute);
        }
    }

    pub fn params(&self) -> Params<'_> {
        let param = |n: u32, elem| {
            // SAFETY: the function has five parameters of these types.
            self.wrap(unsafe { LLVMGetParam(self.function, n) }, elem, 1)
        };
        Params {
            buffers: param(0, Elem::Ptr),
            sizes: param(1, Elem::Ptr),
            begin: param(2, Elem::I64),
            end: param(3, Elem::I64),
            error: param(4, Elem::Ptr),
        }
    }

    /// Returns from the function and closes its entry block.
    pub fn finish(&self) {
        // SAFETY: both blocks belong to this function and lack a terminator.
        unsafe {
            LLVMBuildRetVoid(self.builder);
            LLVMPositionBuilderAtEnd(self.builder, self.entry);
            LLVMBuildBr(self.builder, self.start);
        }
    }

    /// The LLVM type of `lanes` elements; one lane is a scalar.
    fn ty(&self, elem: Elem, lanes: u32) -> LLVMTypeRef {
        // SAFETY: type constructors on a live context.
        unsafe {
            let scalar = match elem {
                Elem::I1 => LLVMInt1TypeInContext(self.context),
                Elem::I8 => LLVMInt8TypeInContext(self.context),
                Elem::I16 => LLVMInt16TypeInContext(self.context),
                Elem::I32 => LLVMInt32TypeInContext(self.context),
                Elem::I64 => LLVMInt64TypeInContext(self.context),
                Elem::F16 => LLVMHalfTypeInContext(self.context),
                Elem::BF16 => LLVMBFloatTypeInContext(self.context),
                Elem::F32 => LLVMFloatTypeInContext(self.context),
                Elem::F64 => LLVMDoubleTypeInContext(self.context),
                Elem::Ptr => LLVMPointerTypeInContext(self.context, 0),
            };
            if lanes == 1 { scalar } else { LLVMVectorType(scalar, lanes) }
        }
    }

    fn wrap(&self, raw: LLVMValueRef, elem: Elem, lanes: u32) -> V<'_> {
        V { ir: self, raw, elem, lanes }
    }
}
