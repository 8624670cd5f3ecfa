//! Why an operation could not be recorded.

use ox_ir::Sym;
use thiserror::Error;

/// The Python exception that eager would raise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ExceptionKind {
    TypeError,
    RuntimeError,
    IndexError,
    ValueError,
    ZeroDivisionError,
    NotImplementedError,
}

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OpError {
    /// Not expressible in Ops: the front end makes it a library node or leaves it to eager.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// Two sizes must be equal, which does not follow from what is known of them, though they were when the program ran.
    #[error("sizes {0} and {1}, which may or may not be equal")]
    Undecided(Sym, Sym),
    /// The user's mistake; raised as eager raises it.
    #[error("{message}")]
    User { kind: ExceptionKind, message: String },
    /// A mistake of ours: a row built something that does not type.
    #[error("bug: {0}")]
    Bug(String),
}

pub type OpResult<T> = Result<T, OpError>;

impl OpError {
    pub fn unsupported(message: impl Into<String>) -> OpError {
        OpError::Unsupported(message.into())
    }

    pub fn bug(message: impl Into<String>) -> OpError {
        OpError::Bug(message.into())
    }

    pub fn runtime(message: impl Into<String>) -> OpError {
        OpError::User { kind: ExceptionKind::RuntimeError, message: message.into() }
    }

    pub fn index(message: impl Into<String>) -> OpError {
        OpError::User { kind: ExceptionKind::IndexError, message: message.into() }
    }

    pub fn type_error(message: impl Into<String>) -> OpError {
        OpError::User { kind: ExceptionKind::TypeError, message: message.into() }
    }

    pub fn value(message: impl Into<String>) -> OpError {
        OpError::User { kind: ExceptionKind::ValueError, message: message.into() }
    }
}
