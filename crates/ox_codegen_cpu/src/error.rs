pub use ox_ir::CodegenError;

/// What LLVM said.
pub fn llvm(message: impl ToString) -> CodegenError {
    CodegenError::Refused { compiler: "LLVM", message: message.to_string() }
}

/// What is wrong with object code.
pub fn broken(message: impl ToString) -> CodegenError {
    CodegenError::Refused { compiler: "object code", message: message.to_string() }
}
