//! Artifacts on disk: what one process has compiled, and the next need not compile again.
//!
//! - `key`: what an artifact was made of, as 32 bytes.
//! - `artifact`: how one lies in its file: what it is, a checksum, the bytes.
//! - `folder`: where they lie, and whether that is safe to read.
//! - `store`: find one, keep one.
//! - `room`: what was not used for longest goes when there are too many.
//!
//! An artifact is a file of its own, named after its key. It is written under another name and then renamed, so nobody ever sees a half of it, and there
//! is no lock that a killed process could leave. Whoever finds a file that is not what it says takes it away, and compiles. Artifacts are
//! machine code: only files are read that belong to the user and that nobody else may write.

mod artifact;
mod folder;
mod key;
mod room;
mod store;

pub use folder::{Place, Trouble};
pub use key::Key;
pub use store::Store;
