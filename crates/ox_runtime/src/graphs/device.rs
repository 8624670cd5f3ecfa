//! What the recordings of one GPU share: the memory for intermediates, and an order. Only one of them runs at a time, whatever streams they are
//! launched on, so that nothing in that memory is needed from one replay to the next.

use super::order::{Events, Streamed};
use crate::calls::library::HostCalls;
use crate::cuda::{Event, Stream, driver};
use crate::error::RunError;
use crate::exec::Arena;
use ox_ir::Device;
use std::collections::VecDeque;
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
    /// What is launched now runs behind all other recordings of the device, and behind all that `before` have to do by now: the streams on which
    /// the results of the last replay were used.
    pub fn begin(device: u8, stream: Stream, before: [Option<Stream>; 2]) -> Result<Turn, RunError> {
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

/// What the last calls without a recording needed for intermediates: those of a step that will be recorded next.
static EXPECTED: Mutex<VecDeque<(Device, usize)>> = Mutex::new(VecDeque::new());

/// So many of them are remembered.
const EXPECTATIONS: usize = 8;

/// A call that may be recorded when it comes again needs so many bytes.
pub fn expect(bytes: usize, device: Device) {
    let mut expected = EXPECTED.lock().unwrap_or_else(PoisonError::into_inner);
    expected.truncate(EXPECTATIONS - 1);
    expected.push_front((device, bytes));
}

/// The bytes of a new arena: the backward pass of a forward pass that is recorded first should find room in it. What is far larger may belong to
/// another model, and would save little.
fn with_room(bytes: usize, expected: impl Iterator<Item = usize>) -> usize {
    expected.filter(|more| *more / 4 <= bytes).fold(bytes, usize::max)
}

/// Memory for intermediates, as long as a recording needs it. One that is too small stays with those that have it. On a GPU it lies in a memory pool
/// and belongs to no tensor, as with torch's own recordings, where torch has such pools.
pub fn arena(bytes: usize, device: Device, host: &dyn HostCalls) -> Result<Arc<Arena>, RunError> {
    static ARENAS: Mutex<Vec<(Device, Weak<Arena>)>> = Mutex::new(Vec::new());
    let mut arenas = ARENAS.lock().unwrap_or_else(PoisonError::into_inner);
    arenas.retain(|(_, arena)| arena.strong_count() > 0);
    let of_device = arenas.iter().filter(|(known, _)| *known == device).filter_map(|(_, arena)| arena.upgrade());
    if let Some(found) = of_device.filter(|arena| arena.bytes() >= bytes).min_by_key(|arena| arena.bytes()) {
        return Ok(found);
    }
    let expected = EXPECTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let of_device = expected.into_iter().filter(|(known, _)| *known == device).map(|(_, bytes)| bytes);
    let bytes = with_room(bytes, of_device);
    let reserved = match device {
        Device::Cuda(index) => host.reserve(index, bytes)?,
        _ => None,
    };
    let fresh = Arc::new(match reserved {
        Some((start, owner)) => Arena::reserved(start as *mut u8, bytes, owner),
        None => Arena::new(bytes, device)?,
    });
    arenas.push((device, Arc::downgrade(&fresh)));
    Ok(fresh)
}

/// For tests, on the CPU: what a `Turn` is on a GPU. Recordings share their memory for intermediates.
pub fn emulated_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_has_room_for_what_came_before_it_is_made() {
        assert_eq!(with_room(100, [50, 300, 200].into_iter()), 300);
        assert_eq!(with_room(100, [50, 404, 4000].into_iter()), 100);
        assert_eq!(with_room(100, std::iter::empty()), 100);
    }
}
