//! What can go wrong between a Kernel and its code, on any device.

use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub enum CodegenError {
    /// The kernel asks for something that this backend cannot do.
    #[error("kernel {kernel}: {what}")]
    Unsupported { kernel: String, what: String },
    /// The kernel contradicts itself: a bug in whoever built it.
    #[error("kernel {kernel} is malformed: {what}")]
    Malformed { kernel: String, what: String },
    /// The compiler of this device is not there, or is one that we cannot use.
    #[error("{0}")]
    Missing(String),
    /// What the compiler of this device said to our program.
    #[error("{compiler}: {message}")]
    Refused { compiler: &'static str, message: String },
    #[error("{0}")]
    Panic(String),
}
