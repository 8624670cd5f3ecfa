//! What can go wrong in a run.

use ox_ir::Device;
use std::any::Any;

/// The Python exception that a user error becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exception {
    IndexError,
    RuntimeError,
    ZeroDivisionError,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The user's program is wrong: to be raised, with the user's own line.
    #[error("{message}")]
    User { kind: Exception, message: String, location: String },
    /// The inputs are not those that the Plan was made for. Nothing has been computed or written.
    #[error("the inputs do not fit the compiled plan: {0}")]
    Mismatch(String),
    /// torch refused a call. The ABI gives an error code only (the text goes to stderr), so that a caller who wants torch's own
    /// exception runs the same function in eager: a run that fails so has done nothing that shows.
    #[error("{message}")]
    Torch { message: String, location: String },
    /// torch has no memory for a tensor of so many bytes. Likewise.
    #[error("there is no memory for {bytes} bytes on {device}")]
    Memory { bytes: usize, device: Device },
    /// What the host raised inside `HostCalls::call`, carried through untouched.
    #[error("an exception was raised by a call into the host")]
    Host { raised: Box<dyn Any + Send>, location: String },
    /// The run failed when it had already done what must not be done twice (a random number drawn, a call of unknown effect, an input
    /// written): the caller must not run the same function again.
    #[error("{0}")]
    Spent(Box<RunError>),
    /// A mistake of ours: a Plan that contradicts itself or torch.
    #[error("internal error: {0}")]
    Bug(String),
}

impl RunError {
    pub fn torch(message: impl Into<String>) -> RunError {
        RunError::Torch { message: message.into(), location: String::new() }
    }

    pub fn host(raised: impl Any + Send) -> RunError {
        RunError::Host { raised: Box::new(raised), location: String::new() }
    }

    pub fn bug(message: impl Into<String>) -> RunError {
        RunError::Bug(message.into())
    }

    /// Fills in the user's line where the error has a place for it and none yet.
    pub(crate) fn at(mut self, line: &str) -> RunError {
        if let RunError::User { location, .. } | RunError::Torch { location, .. } | RunError::Host { location, .. } = &mut self
            && location.is_empty()
        {
            *location = line.to_string();
        }
        self
    }
}
