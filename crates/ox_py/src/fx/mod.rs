//! FX graphs (as Dynamo captures them, before AOTAutograd) to Graphs.
//!
//! - `importer`: the walk over the nodes; inputs and constants.
//! - `call`: one call, recorded through the surface table and checked against torch's fake tensors.
//! - `undeclared`: functions that write without saying so.
//! - `library`, `dispatch`: calls that the table does not know, done by torch at run time.
//! - `drawn`: random numbers of torch's.
//! - `args`, `names`, `symint`, `fake`: Python's values, functions, size expressions and tensors as ours.
//! - `autocast`: the conversions of arguments inside of its regions.
//! - `grad`: where gradients end; `held`: what eager's graph holds of arguments and results.
//! - `as_strided`: the one function that sees how tensors lie in memory.
//! - `memory_order`: where torch's fake kernels foretell another than eager's.
//! - `really`: where they foretell another shape or type.
//! - `stale`: examples that show what a tensor becomes later.
//! - `outputs`: what the graph returns.
//! - `sizes`, `follow`: captured graphs with sizes that are not constants; `layouts`: how their tensors lie in memory.

mod args;
mod as_strided;
mod autocast;
mod call;
mod detached;
mod dispatch;
mod drawn;
mod fake;
mod follow;
mod grad;
mod held;
mod importer;
mod layouts;
mod library;
mod memory_order;
mod names;
mod outputs;
mod really;
mod refusal;
mod sizes;
mod stale;
mod symint;
mod undeclared;
mod unheard;

pub use call::Callee;
pub use detached::{called, is_detach, writes_beside_detached};
pub use fake::{move_examples, storages};
pub use follow::Follower;
pub use grad::grad_mode;
pub use held::SavedBy;
pub use importer::{Gradients, How, Imported, Layout, Pinned, Slot};
pub use outputs::OutTree;
pub use refusal::Refusal;
pub use sizes::{IN_EAGER, IN_PIECES, fixed_sizes, hints_of, import};
pub use stale::{RESHAPED_LATER, reshapes_earlier, restated};
pub use unheard::writes_saved_unheard;
