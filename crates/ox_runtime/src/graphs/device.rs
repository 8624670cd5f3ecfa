//! What the recordings of one GPU share: the memory for intermediates, and an order. Only one of them runs at a time, whatever streams they are
//! launched on, so that nothing in that memory is needed from one replay to the next.

use crate::cuda::{Event, Stream, driver};
use crate::error::RunError;
use crate::exec::Arena;
use ox_ir::Device;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The last launch of a recording.
#[derive(Clone, Copy)]
struct Last {
    event: Event,
    stream: Option<Stream>,
}

type Lasts = FxHashMap<u8, Last>;

static LAST: Mutex<Option<Lasts>> = Mutex::new(None);

/// While it lives, nobody else launches a recording.
pub struct Turn {
    device: u8,
    stream: Stream,
    lasts: MutexGuard<'static, Option<Lasts>>,
}

impl Turn {
    /// What is launched now runs behind all other recordings of the device.
    pub fn begin(device: u8, stream: Stream) -> Result<Turn, RunError> {
        let mut lasts = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lasts.get_or_insert_default();
        let last = match known.get(&device) {
            Some(last) => *last,
            None => *known.entry(device).or_insert(Last { event: driver()?.new_event()?, stream: None }),
        };
        if last.stream.is_some_and(|other| other != stream) {
            driver()?.order(stream, last.event)?;
        }
        Ok(Turn { device, stream, lasts })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(last) = self.lasts.as_mut().and_then(|lasts| lasts.get_mut(&self.device)) else { return };
        if driver().is_ok_and(|driver| driver.record(last.event, self.stream).is_ok()) {
            last.stream = Some(self.stream);
        }
    }
}

/// Waits until no recording of the device runs: its memory may go then.
pub fn wait(device: u8) {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(|lasts| lasts.get(&device).copied());
    if let (Some(Last { event, stream: Some(_) }), Ok(driver)) = (last, driver()) {
        driver.wait_for(event);
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
