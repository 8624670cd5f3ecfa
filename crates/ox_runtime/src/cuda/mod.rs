//! Kernels on NVIDIA GPUs. Memory and streams are torch's; loading and launching go to the driver, which is looked up at run time: on a
//! machine without one, everything else still works.

pub(crate) mod blas;
mod driver;
mod launch;
mod report;
mod torch;

pub use driver::{Careful, GpuFunction, Properties, properties};
pub(crate) use driver::{Driver, Event, Rows, Stream, driver};
pub(crate) use launch::GpuLaunch;
pub(crate) use torch::{CudaGuard, cuda};
