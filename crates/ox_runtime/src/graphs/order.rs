//! A replay on another stream than the last: what it must wait for.

use crate::cuda::{Driver, Event, Stream};
use crate::error::RunError;

/// What is asked of the driver.
pub trait Streams {
    fn is_capturing(&self, stream: Stream) -> bool;
    fn record(&self, event: Event, stream: Stream) -> Result<(), RunError>;
    fn order(&self, stream: Stream, event: Event) -> Result<(), RunError>;
}

impl Streams for Driver {
    fn is_capturing(&self, stream: Stream) -> bool {
        Driver::is_capturing(self, stream)
    }

    fn record(&self, event: Event, stream: Stream) -> Result<(), RunError> {
        Driver::record(self, event, stream)
    }

    fn order(&self, stream: Stream, event: Event) -> Result<(), RunError> {
        Driver::order(self, stream, event)
    }
}

/// Of one device.
#[derive(Clone, Copy)]
pub struct Events {
    /// Behind the last launch of a recording.
    pub launched: Event,
    /// For the moment in which a recording goes to another stream.
    pub crossing: Event,
}

/// The streams of a replay.
pub struct Streamed {
    /// Its own.
    pub stream: Stream,
    /// That of the last launch of any recording of the device.
    pub last: Option<Stream>,
    /// Those of the last replays of the same recording and of the one that shares its memory: their results were used there.
    pub before: [Option<Stream>; 2],
}

impl Streamed {
    /// What comes on the stream from now on runs behind all launches of recordings, and behind all that was done with the results that it
    /// overwrites: that stands on `before` by now, since nobody holds them any more.
    pub fn order(&self, driver: &impl Streams, events: Events) -> Result<(), RunError> {
        if self.last.is_some_and(|last| last != self.stream) {
            driver.order(self.stream, events.launched)?;
        }
        let others = self.before.into_iter().flatten().filter(|before| *before != self.stream);
        for before in others {
            if marks(driver, events.crossing, before) {
                driver.order(self.stream, events.crossing)?;
            }
        }
        Ok(())
    }
}

/// A stream that somebody records cannot be waited for, and one that is gone need not.
fn marks(driver: &impl Streams, event: Event, stream: Stream) -> bool {
    !driver.is_capturing(stream) && driver.record(event, stream).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::ffi::c_void;
    use std::ptr::{dangling_mut, null_mut};

    /// Streams are numbers; what was put on each of them, in order.
    #[derive(Default)]
    struct Fake {
        log: RefCell<Vec<String>>,
        capturing: Option<Stream>,
        gone: Option<Stream>,
    }

    impl Streams for Fake {
        fn is_capturing(&self, stream: Stream) -> bool {
            self.capturing == Some(stream)
        }

        fn record(&self, event: Event, stream: Stream) -> Result<(), RunError> {
            if self.gone == Some(stream) {
                return Err(RunError::torch("no such stream"));
            }
            self.log.borrow_mut().push(format!("{} is behind {}", name(event), stream.0 as usize));
            Ok(())
        }

        fn order(&self, stream: Stream, event: Event) -> Result<(), RunError> {
            self.log.borrow_mut().push(format!("{} waits for {}", stream.0 as usize, name(event)));
            Ok(())
        }
    }

    fn stream(n: usize) -> Stream {
        Stream(n as *mut c_void)
    }

    fn name(event: Event) -> &'static str {
        if event == EVENTS.launched { "launched" } else { "crossing" }
    }

    const EVENTS: Events = Events { launched: Event(null_mut()), crossing: Event(dangling_mut()) };

    fn log(driver: Fake, own: usize, last: Option<usize>, before: Option<usize>) -> Vec<String> {
        let streamed = Streamed { stream: stream(own), last: last.map(stream), before: [before.map(stream), None] };
        streamed.order(&driver, EVENTS).unwrap_or_else(|error| panic!("{error}"));
        driver.log.into_inner()
    }

    #[test]
    fn on_the_same_stream_nothing_is_asked() {
        assert!(log(Fake::default(), 1, None, None).is_empty());
        assert!(log(Fake::default(), 1, Some(1), Some(1)).is_empty());
    }

    #[test]
    fn a_first_replay_waits_for_launches_on_other_streams() {
        assert_eq!(log(Fake::default(), 2, Some(1), None), ["2 waits for launched"]);
    }

    /// What stands on the old stream now is waited for, not only the replay.
    #[test]
    fn readers_of_the_results_are_waited_for() {
        let expected = ["2 waits for launched", "crossing is behind 1", "2 waits for crossing"];
        assert_eq!(log(Fake::default(), 2, Some(1), Some(1)), expected);
    }

    #[test]
    fn readers_are_waited_for_though_another_recording_was_launched_here_since() {
        assert_eq!(log(Fake::default(), 2, Some(2), Some(1)), ["crossing is behind 1", "2 waits for crossing"]);
    }

    /// One after the other: an event may be recorded again when it is waited for.
    #[test]
    fn readers_of_what_lies_in_the_same_memory_are_waited_for() {
        let (driver, before) = (Fake::default(), [Some(stream(1)), Some(stream(3))]);
        let streamed = Streamed { stream: stream(2), last: None, before };
        streamed.order(&driver, EVENTS).unwrap_or_else(|error| panic!("{error}"));
        let expected = ["crossing is behind 1", "2 waits for crossing", "crossing is behind 3", "2 waits for crossing"];
        assert_eq!(driver.log.into_inner(), expected);
    }

    #[test]
    fn a_stream_that_is_recorded_or_gone_is_left_alone() {
        let expected = ["2 waits for launched"];
        assert_eq!(log(Fake { capturing: Some(stream(1)), ..Fake::default() }, 2, Some(1), Some(1)), expected);
        assert_eq!(log(Fake { gone: Some(stream(1)), ..Fake::default() }, 2, Some(1), Some(1)), expected);
    }
}
