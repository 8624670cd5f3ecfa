//! Kernels on NVIDIA GPUs. Memory and streams are torch's; loading and launching go to the driver, which is looked up at run time: on a
//! machine without one, everything else still works.

pub(crate) mod blas;
mod driver;
mod function;
mod launch;
mod pool;
mod report;
mod torch;

pub(crate) use driver::{Driver, Event, Rows, Stream, driver};
pub use driver::{Properties, properties};
pub use function::{Careful, GpuFunction, Image, Maker};
pub(crate) use launch::GpuLaunch;
pub use pool::{Job as CompileJob, submit};
pub(crate) use torch::{CudaGuard, cuda};
