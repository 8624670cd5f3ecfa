//! Kernels on NVIDIA GPUs. Memory and streams are torch's; loading and launching go to the driver, which is looked up at run time: on a
//! machine without one, everything else still works.

pub(crate) mod blas;
mod chain;
mod driver;
mod function;
mod launch;
mod launched;
mod pool;
mod repeat;
mod report;
mod row;
mod torch;
mod watch;

pub use blas::compared_products;
pub(crate) use chain::Chain;
pub use chain::launched_rows;
pub(crate) use driver::{Driver, Event, Rows, Stream, driver};
pub use driver::{Properties, properties};
pub use function::{Careful, GpuFunction, Image, Maker};
pub(crate) use launch::GpuLaunch;
pub(crate) use launched::{Launched, Refused, What, launch_each};
pub use pool::{Job as CompileJob, end as end_pool, submit};
pub(crate) use repeat::{Extent, Repeat};
pub(crate) use torch::{CudaGuard, StreamGuard, cuda};
