//! LLVM's code generators, those that are asked for and no others.
//!
//! LLVM's own functions for "all" and for "native" pull every target that it was built with into the extension: 20 MB, and hundreds of
//! static constructors that run when it is loaded. A binding refers to them even if nobody calls them; so they are defined here, as what
//! they are to us.

use llvm_sys::target::*;
use std::ffi::c_int;

pub fn initialise_native() {
    #[cfg(target_arch = "x86_64")]
    initialise_x86();
    #[cfg(target_arch = "aarch64")]
    initialise_arm();
}

#[cfg(any(target_arch = "x86_64", feature = "foreign"))]
pub fn initialise_x86() {
    // SAFETY: what is known already is left as it is; `Host::detect` calls it once.
    unsafe {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
    }
}

#[cfg(any(target_arch = "aarch64", feature = "foreign"))]
pub fn initialise_arm() {
    // SAFETY: as above.
    unsafe {
        LLVMInitializeAArch64TargetInfo();
        LLVMInitializeAArch64Target();
        LLVMInitializeAArch64TargetMC();
        LLVMInitializeAArch64AsmPrinter();
    }
}

macro_rules! never_called {
    ($($name:ident $(-> $result:ty)?;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() $(-> $result)? {
            unreachable!("initialise_native is called instead")
        }
    )*};
}

never_called! {
    LLVM_InitializeAllTargetInfos;
    LLVM_InitializeAllTargets;
    LLVM_InitializeAllTargetMCs;
    LLVM_InitializeAllAsmPrinters;
    LLVM_InitializeAllAsmParsers;
    LLVM_InitializeAllDisassemblers;
    LLVM_InitializeNativeTarget -> c_int;
    LLVM_InitializeNativeAsmParser -> c_int;
    LLVM_InitializeNativeAsmPrinter -> c_int;
    LLVM_InitializeNativeDisassembler -> c_int;
}
