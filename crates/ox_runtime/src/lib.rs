//! Runs Plans over torch's stable C ABI, found at run time in the libtorch that the process has already loaded.
//!
//! - `abi`: the C functions, looked up once.
//! - `tensor`: torch tensors as owned and borrowed handles.
//! - `exec`: an `Executable` is a Plan with its compiled kernels; it may be run from many threads at once.
//! - `cuda`: kernels on NVIDIA GPUs, through the driver.
//! - `graphs`: runs on a GPU that are recorded and launched again as a whole.
//! - `variants`: kernels for sizes that recur, compiled in the background.
//! - `background`: what threads that compile beside the program's have to mind.
//! - `own`: what this extension is to the system.
//! - `calls`: the steps that torch's library does: matrix products, convolutions, attention, any operator.

pub mod abi;
mod background;
mod calls;
mod cuda;
mod error;
mod exec;
mod graphs;
mod own;
mod tensor;
mod variants;

pub use background::{Gate, end_background};
pub use calls::library::{HostCalls, NoHost, Reserved};
pub use calls::pack::{Packable, packable};
pub use calls::schema::{Schema, supports};
pub use cuda::{
    Careful, CompileJob, GpuFunction, Image, Maker, Properties, compared_products, launched_rows, properties, submit,
};
pub use error::{Exception, RunError};
pub use exec::known::Known;
pub use exec::{
    Executable, Input, Kernels, LoadedFn, StoragePlaces, free_idle_arenas, give_back_if_grown, idle_arena_bytes, kept_bytes,
    learn_storages,
};
pub use graphs::{Capture, Captured, GraphSettings, GraphStatus, PoolId};
pub use own::{build, user};
pub use tensor::{Tensor, TensorRef};
pub use variants::{Foreground, Specialise, VariantCounts, counts as variant_counts, on_variant, wait as wait_for_variants};
