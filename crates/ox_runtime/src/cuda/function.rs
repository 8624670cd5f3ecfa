//! Kernels that can be launched. Their image may still be under way when programs have them: whoever launches first waits for it.

use super::driver::{Driver, Function, Grid, Library, Stream, driver};
use crate::background;
use crate::error::RunError;
use ox_ir::abi::GpuKernel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// What the driver loads. Kernels of one image share it.
pub struct Image {
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    Awaited,
    Loaded(Library),
    Failed(Failure),
}

/// Why there is none.
#[derive(Clone, Debug)]
enum Failure {
    /// The compiler did not make it: a mistake of ours.
    Uncompiled(String),
    /// The driver did not take it: there is no memory left, say.
    Refused(String),
}

/// Whoever makes an image. Dropped without having done so, it leaves one that nobody waits for.
pub struct Maker(Arc<Image>);

impl Image {
    pub fn awaited() -> (Arc<Image>, Maker) {
        let image = Arc::new(Image { state: Mutex::new(State::Awaited), changed: Condvar::new() });
        (image.clone(), Maker(image))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is of no use, and asked for again it might be.
    pub fn has_failed(&self) -> bool {
        matches!(*self.state(), State::Failed(_))
    }

    /// Waits for it. `symbol`: what it is wanted for.
    fn library(&self, symbol: &str) -> Result<Library, RunError> {
        let is_awaited = |state: &mut State| matches!(state, State::Awaited) && !background::is_child();
        match &*self.changed.wait_while(self.state(), is_awaited).unwrap_or_else(PoisonError::into_inner) {
            State::Awaited => Err(RunError::torch("a process that was forked while kernels were compiled does not have them")),
            State::Loaded(library) => Ok(*library),
            State::Failed(Failure::Uncompiled(why)) => Err(RunError::bug(format!("the kernel {symbol} was not compiled: {why}"))),
            State::Failed(Failure::Refused(why)) => Err(RunError::torch(format!("the kernel {symbol} was not loaded: {why}"))),
        }
    }

    fn settle(&self, made: State) {
        let mut state = self.state();
        if matches!(*state, State::Awaited) {
            *state = made;
            self.changed.notify_all();
        }
    }
}

impl Maker {
    /// Loads it, on the thread that made it.
    pub fn give(self, made: Result<Vec<u8>, String>) {
        let load = |cubin: Vec<u8>| driver()?.load_image(&cubin, "an image of kernels");
        let loaded =
            made.map_err(Failure::Uncompiled).and_then(|cubin| load(cubin).map_err(|error| Failure::Refused(error.to_string())));
        self.0.settle(loaded.map_or_else(State::Failed, State::Loaded));
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.0.settle(State::Failed(Failure::Uncompiled("whoever compiled it has given up".into())));
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let (State::Loaded(library), Ok(driver)) = (&*self.state(), driver()) {
            // SAFETY: the functions that came from it hold it.
            unsafe { driver.unload(*library) };
        }
    }
}

/// Makes the same kernel for arguments that lie anywhere, and for any sizes.
pub type Careful = Box<dyn Fn() -> Result<(GpuKernel, Vec<u8>), RunError> + Send + Sync>;

/// A kernel that can be launched on any GPU of its architecture.
pub struct GpuFunction {
    pub kernel: GpuKernel,
    pub image: Arc<Image>,
    /// Or why the driver does not give it.
    found: OnceLock<Result<Function, String>>,
    careful: Careful,
    /// What `careful` has made, or why it could not: few programs ever need it.
    made: OnceLock<Result<Arc<GpuFunction>, String>>,
}

impl GpuFunction {
    pub fn new(kernel: GpuKernel, image: Arc<Image>, careful: Careful) -> Arc<GpuFunction> {
        Arc::new(GpuFunction { kernel, image, found: OnceLock::new(), careful, made: OnceLock::new() })
    }

    /// Waits for it.
    pub(crate) fn function(&self) -> Result<Function, RunError> {
        if let Some(Ok(known)) = self.found.get() {
            return Ok(*known);
        }
        let GpuKernel { symbol, shared_bytes, .. } = &self.kernel;
        let library = self.image.library(symbol)?;
        let find = || driver()?.find(library, symbol, *shared_bytes);
        // Refused as an image is: eager can do without.
        self.found.get_or_init(|| find().map_err(|error| error.to_string())).clone().map_err(RunError::torch)
    }

    /// Whether it can never be launched.
    pub fn has_failed(&self) -> bool {
        self.image.has_failed() || matches!(self.found.get(), Some(Err(_)))
    }

    /// The kernel for these arguments, and for wide sizes, if it must be another one.
    pub(crate) fn other_for(&self, args: &[*mut u8], wide: bool) -> Result<Option<&Arc<GpuFunction>>, RunError> {
        if !wide && self.kernel.aligned.iter().all(|(place, bytes)| (args[*place] as usize).is_multiple_of(*bytes)) {
            return Ok(None);
        }
        let make = || {
            let (kernel, cubin) = (self.careful)()?;
            let (image, maker) = Image::awaited();
            maker.give(Ok(cubin));
            let never = || Err(RunError::bug("a careful kernel takes all arguments"));
            Ok(GpuFunction::new(kernel, image, Box::new(never)))
        };
        match self.made.get_or_init(|| make().map_err(|error: RunError| error.to_string())) {
            Ok(made) => Ok(Some(made)),
            Err(why) => Err(RunError::bug(why)),
        }
    }

    /// Starts the kernel behind what the stream has to do already.
    ///
    /// SAFETY: `args` must be the kernel's arguments, one word each.
    pub(crate) unsafe fn launch(
        &self,
        driver: &Driver,
        blocks: u32,
        stream: Stream,
        args: &mut [*mut u8],
    ) -> Result<(), RunError> {
        let GpuKernel { threads, shared_bytes, symbol, .. } = &self.kernel;
        let grid = Grid { blocks, threads: *threads, shared_bytes: *shared_bytes };
        // SAFETY: the caller's promise.
        unsafe { driver.launch(self.function()?, grid, stream, args, symbol) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn whoever_launches_first_waits_for_the_image() {
        let (image, maker) = Image::awaited();
        let waiting = std::thread::spawn({
            let image = image.clone();
            move || image.library("sum").map_err(|error| error.to_string())
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished() && !image.has_failed());
        maker.give(Err("no such instruction".into()));
        let error = waiting.join().unwrap_or_else(|_| panic!("it waits")).err();
        assert!(error.is_some_and(|error| error.contains("the kernel sum") && error.contains("no such instruction")));
        assert!(image.has_failed());
    }

    #[test]
    fn an_image_that_nobody_makes_has_failed() {
        let (image, maker) = Image::awaited();
        drop(maker);
        assert!(image.has_failed() && matches!(image.library("sum"), Err(RunError::Bug(_))));
    }

    /// No cubin, and on most machines no driver either.
    #[test]
    fn what_the_driver_refuses_is_no_mistake_of_ours() {
        let (image, maker) = Image::awaited();
        maker.give(Ok(vec![0; 64]));
        assert!(image.has_failed() && matches!(image.library("sum"), Err(RunError::Torch { .. })));
    }
}
