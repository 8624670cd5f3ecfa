//! What the recordings of one GPU share: the memory for intermediates, and an order. Only one of them runs at a time, whatever streams they are
//! launched on, so that nothing in that memory is needed from one replay to the next.

use super::order::{Events, Streamed};
use crate::cuda::{Event, Stream, driver};
use crate::error::RunError;
use crate::exec::Arena;
use ox_ir::Device;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// By device. Locked for a moment only, so that whoever holds Python's lock may ask.
static EVENTS: Mutex<Vec<(u8, Events)>> = Mutex::new(Vec::new());

/// By device: the stream of the last launch of a recording. Locked while something is launched, which may need Python.
static STREAMS: Mutex<Vec<(u8, Stream)>> = Mutex::new(Vec::new());

fn known_events(device: u8) -> Option<Events> {
    let events = EVENTS.lock().unwrap_or_else(PoisonError::into_inner);
    events.iter().find(|(known, _)| *known == device).map(|(_, events)| *events)
}

/// While it lives, nobody else launches a recording.
pub struct Turn {
    device: u8,
    stream: Stream,
    event: Event,
    streams: MutexGuard<'static, Vec<(u8, Stream)>>,
}

impl Turn {
    /// What is launched now runs behind all other recordings of the device, and behind all that `before` has to do by now: the stream on which
    /// the results of the last replay were used.
    pub fn begin(device: u8, stream: Stream, before: Option<Stream>) -> Result<Turn, RunError> {
        let streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
        let events = match known_events(device) {
            Some(events) => events,
            None => {
                let fresh = Events { launched: driver()?.new_event()?, crossing: driver()?.new_event()? };
                EVENTS.lock().unwrap_or_else(PoisonError::into_inner).push((device, fresh));
                fresh
            }
        };
        let last = streams.iter().find(|(known, _)| *known == device).map(|(_, last)| *last);
        Streamed { stream, last, before }.order(driver()?, events)?;
        Ok(Turn { device, stream, event: events.launched, streams })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if driver().is_ok_and(|driver| driver.record(self.event, self.stream).is_ok()) {
            self.streams.retain(|(known, _)| *known != self.device);
            self.streams.push((self.device, self.stream));
        }
    }
}

/// Waits until no recording of the device runs: its memory may go then.
pub fn wait(device: u8) {
    if let (Some(events), Ok(driver)) = (known_events(device), driver()) {
        driver.wait_for(events.launched);
    }
}

/// Memory for intermediates, as long as a recording needs it. One that is too small stays with those that have it.
pub fn arena(bytes: usize, device: Device) -> Result<Arc<Arena>, RunError> {
    static ARENAS: Mutex<Vec<(Device, Weak<Arena>)>> = Mutex::new(Vec::new());
    let mut arenas = ARENAS.lock().unwrap_or_else(PoisonError::into_inner);
    arenas.retain(|(_, arena)| arena.strong_count() > 0);
    let of_device = arenas.iter().filter(|(known, _)| *known == device).filter_map(|(_, arena)| arena.upgrade());
    if let Some(found) = of_device.filter(|arena| arena.bytes() >= bytes).min_by_key(|arena| arena.bytes()) {
        return Ok(found);
    }
    let fresh = Arc::new(Arena::new(bytes, device)?);
    arenas.push((device, Arc::downgrade(&fresh)));
    Ok(fresh)
}

/// Only one thread records at a time. None if another does.
pub fn recorder() -> Option<MutexGuard<'static, ()>> {
    static RECORDER: Mutex<()> = Mutex::new(());
    match RECORDER.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}
