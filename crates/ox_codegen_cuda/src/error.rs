pub use ox_ir::CodegenError;

/// What NVRTC said to our text.
pub fn nvrtc(message: impl ToString) -> CodegenError {
    CodegenError::Refused { compiler: "NVRTC", message: message.to_string() }
}
