use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub enum CodegenError {
    /// The kernel asks for something that this backend cannot do.
    #[error("kernel {kernel}: {what}")]
    Unsupported { kernel: String, what: String },
    /// The kernel contradicts itself: a bug in whoever built it.
    #[error("kernel {kernel} is malformed: {what}")]
    Malformed { kernel: String, what: String },
    #[error("LLVM: {0}")]
    Llvm(String),
    #[error("{0}")]
    Panic(String),
}
