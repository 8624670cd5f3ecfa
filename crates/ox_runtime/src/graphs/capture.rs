//! The recording of one graph: begun and ended by the host, since torch's allocator and generators must know of it.

use crate::error::RunError;
use ox_ir::failure::{Panic, guarded};
use std::ffi::c_void;

/// What this thread launches is being recorded. Dropped before its end, the recording is given up, and the thread is as it was.
pub trait Capture {
    /// The stream that is recorded, which is torch's current one meanwhile.
    fn stream(&self) -> *mut c_void;

    fn end(self: Box<Self>) -> Result<Box<dyn Captured>, RunError>;
}

/// torch's name for a memory pool.
pub type PoolId = (u64, u64);

/// A graph that can be launched. It holds the memory that was allocated while it was recorded.
pub trait Captured: Send + Sync {
    /// The driver's handle.
    fn handle(&self) -> *mut c_void;

    /// The memory pool that it was recorded in; None where another recording could not lie in it.
    fn pool(&self) -> Option<PoolId>;

    /// Launches it on torch's current stream, where it goes on with the numbers of torch's generator.
    fn replay(&self) -> Result<(), RunError>;
}

/// Records what `body` launches. However it ends, nothing is recorded any more behind it.
pub fn record<T>(
    capture: Box<dyn Capture>,
    body: impl FnOnce(*mut c_void) -> Result<T, RunError>,
) -> Result<(Box<dyn Captured>, T), RunError> {
    let stream = capture.stream();
    let made = guarded(|| body(stream)).unwrap_or_else(|Panic(text)| Err(RunError::Bug(text)))?;
    Ok((capture.end()?, made))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::ptr::null_mut;
    use std::rc::Rc;

    type Log = Rc<RefCell<Vec<&'static str>>>;

    /// A driver that writes down what it is asked for.
    struct Fake {
        log: Log,
        ends: bool,
        is_open: bool,
    }

    struct Done;

    impl Captured for Done {
        fn handle(&self) -> *mut c_void {
            null_mut()
        }

        fn pool(&self) -> Option<PoolId> {
            None
        }

        fn replay(&self) -> Result<(), RunError> {
            Ok(())
        }
    }

    impl Capture for Fake {
        fn stream(&self) -> *mut c_void {
            null_mut()
        }

        fn end(mut self: Box<Self>) -> Result<Box<dyn Captured>, RunError> {
            self.is_open = false;
            self.log.borrow_mut().push("end");
            if self.ends { Ok(Box::new(Done)) } else { Err(RunError::torch("invalidated")) }
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            self.log.borrow_mut().push(if self.is_open { "give up" } else { "closed" });
        }
    }

    fn begin(ends: bool) -> (Log, Box<Fake>) {
        let log = Log::default();
        log.borrow_mut().push("begin");
        (log.clone(), Box::new(Fake { log, ends, is_open: true }))
    }

    #[test]
    fn a_recording_ends_with_what_was_made() {
        let (log, capture) = begin(true);
        let (_, made) = record(capture, |_| Ok(7)).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((made, &log.borrow()[..]), (7, &["begin", "end", "closed"][..]));
    }

    #[test]
    fn an_error_inside_ends_it() {
        let (log, capture) = begin(true);
        let error = record(capture, |_| Err::<(), _>(RunError::torch("no memory"))).err().map(|error| error.to_string());
        assert_eq!((error.as_deref(), &log.borrow()[..]), (Some("no memory"), &["begin", "give up"][..]));
    }

    #[test]
    fn a_panic_inside_ends_it() {
        let (log, capture) = begin(true);
        let result = record(capture, |_| -> Result<(), RunError> { panic!("here") });
        assert!(matches!(result, Err(RunError::Bug(_))));
        assert_eq!(log.borrow()[..], ["begin", "give up"]);
    }

    #[test]
    fn a_recording_that_became_invalid_is_an_error() {
        let (log, capture) = begin(false);
        assert!(record(capture, |_| Ok(())).is_err());
        assert_eq!(log.borrow()[..], ["begin", "end", "closed"]);
    }
}
