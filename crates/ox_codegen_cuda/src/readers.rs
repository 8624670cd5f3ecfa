//! NVRTC, as often as there is one: each reads one text at a time.

use crate::CodegenError;
use crate::nvrtc::Nvrtc;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::available_parallelism;

/// With fewer cores they are busy with what comes behind reading, and a second library is memory for nothing.
const CORES_FOR_TWO: usize = 4;

pub struct Readers {
    readers: Vec<Reader>,
}

struct Reader {
    nvrtc: Nvrtc,
    /// Calls that are inside of it.
    calls: AtomicUsize,
}

impl Readers {
    pub fn find(folders: &[PathBuf]) -> Result<Readers, CodegenError> {
        let first = Nvrtc::find(folders)?;
        let has_cores = available_parallelism().is_ok_and(|cores| cores.get() >= CORES_FOR_TWO);
        let twin = if has_cores { first.twin() } else { None };
        let reader = |nvrtc| Reader { nvrtc, calls: AtomicUsize::new(0) };
        Ok(Readers { readers: [first].into_iter().chain(twin).map(reader).collect() })
    }

    pub fn all(&self) -> impl Iterator<Item = &Nvrtc> {
        self.readers.iter().map(|reader| &reader.nvrtc)
    }

    /// The one that the fewest use. Two threads may choose the same at one time: one of them waits a little then.
    pub fn lend<T>(&self, work: impl FnOnce(&Nvrtc) -> T) -> T {
        let reader = self.readers.iter().min_by_key(|reader| reader.calls.load(Relaxed)).expect("the first is always there");
        let _call = Call::new(&reader.calls);
        work(&reader.nvrtc)
    }
}

/// Counted as long as it lives, whatever way the call ends.
struct Call<'a>(&'a AtomicUsize);

impl Call<'_> {
    fn new(calls: &AtomicUsize) -> Call<'_> {
        calls.fetch_add(1, Relaxed);
        Call(calls)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
