//! How a run of a reference interpreter can end without a result.

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InterpretError {
    #[error("index {value} is out of bounds for a dimension of size {extent}")]
    IndexError { value: i64, extent: i64 },
    /// The same, where torch raises a RuntimeError.
    #[error("index {value} is out of bounds for a dimension of size {extent} (RuntimeError)")]
    RuntimeError { value: i64, extent: i64 },
    #[error("integer division by zero")]
    ZeroDivision,
    /// A check of a kernel failed. Only from `interpret_kernel`: what a check means stands in the Plan.
    #[error("check {check} failed: value {value}, extent {extent}")]
    Check { check: u32, value: i64, extent: i64 },
    #[error("there is no reference for {0}")]
    Unsupported(String),
    /// The program itself is wrong: no right compiler makes it.
    #[error("the program is wrong: {0}")]
    Invalid(String),
}

impl InterpretError {
    pub fn invalid(message: impl std::fmt::Display) -> InterpretError {
        InterpretError::Invalid(message.to_string())
    }
}

impl From<crate::scalar::DivisionByZero> for InterpretError {
    fn from(_: crate::scalar::DivisionByZero) -> InterpretError {
        InterpretError::ZeroDivision
    }
}
