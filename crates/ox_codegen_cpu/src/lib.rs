//! Kernel to LLVM to machine code.
