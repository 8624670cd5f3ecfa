//! Object code to a function that can be called.
//!
//! Every object has a linker session of its own: nothing is shared between kernels, so that dropping one frees all of it.

use crate::CodegenError;
use crate::math::libm;
use llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use llvm_sys::orc2::lljit::*;
use llvm_sys::orc2::*;
use ox_ir::abi::KernelFn;
use std::ffi::{CStr, CString};
use std::ptr;

/// The one symbol that an object defines.
pub const SYMBOL: &str = "ox_kernel";

/// Executable memory with one kernel.
pub struct Code {
    jit: LLVMOrcLLJITRef,
}

// SAFETY: after loading, the session is only touched by `drop`; the code itself is immutable.
unsafe impl Send for Code {}
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: made by `load` and disposed of once; an error here has nobody to be told.
        unsafe {
            let _ = check(LLVMOrcDisposeLLJIT(self.jit));
        }
    }
}

pub fn load(object: &[u8]) -> Result<(KernelFn, Code), CodegenError> {
    // SAFETY: each handle is used as the ORC C interface documents, and `Code` owns the session from the moment it exists.
    unsafe {
        let mut jit = ptr::null_mut();
        check(LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()))?;
        let code = Code { jit };
        let library = LLVMOrcLLJITGetMainJITDylib(jit);
        define_library_functions(jit, library)?;
        let bytes = LLVMCreateMemoryBufferWithMemoryRangeCopy(object.as_ptr().cast(), object.len(), c"kernel".as_ptr());
        check(LLVMOrcLLJITAddObjectFile(jit, library, bytes))?;
        let mut address = 0;
        let symbol = CString::new(SYMBOL).expect("no NUL");
        check(LLVMOrcLLJITLookup(jit, &mut address, symbol.as_ptr()))?;
        // The symbol was emitted with exactly this signature.
        let function = std::mem::transmute::<usize, KernelFn>(address as usize);
        Ok((function, code))
    }
}

/// Generated code may call what `libm::FUNCTIONS` lists and nothing else; the process's exports do not matter.
unsafe fn define_library_functions(jit: LLVMOrcLLJITRef, library: LLVMOrcJITDylibRef) -> Result<(), CodegenError> {
    // SAFETY: the names are NUL-terminated, and `LLVMOrcAbsoluteSymbols` takes over the interned ones.
    unsafe {
        let mut symbols: Vec<LLVMOrcCSymbolMapPair> = libm::FUNCTIONS
            .iter()
            .map(|(name, address)| {
                let name = CString::new(*name).expect("no NUL");
                let flags = LLVMJITSymbolFlags {
                    GenericFlags: LLVMJITSymbolGenericFlags::LLVMJITSymbolGenericFlagsExported as u8,
                    TargetFlags: 0,
                };
                let symbol = LLVMJITEvaluatedSymbol { Address: address() as u64, Flags: flags };
                LLVMOrcCSymbolMapPair { Name: LLVMOrcLLJITMangleAndIntern(jit, name.as_ptr()), Sym: symbol }
            })
            .collect();
        check(LLVMOrcJITDylibDefine(library, LLVMOrcAbsoluteSymbols(symbols.as_mut_ptr(), symbols.len())))
    }
}

unsafe fn check(error: LLVMErrorRef) -> Result<(), CodegenError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the message belongs to us until disposed of.
    unsafe {
        let text = LLVMGetErrorMessage(error);
        let message = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(text);
        Err(CodegenError::Llvm(message))
    }
}
