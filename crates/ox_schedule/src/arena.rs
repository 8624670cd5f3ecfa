//! What buffers take in an arena.

use ox_ir::Sym;
use ox_ir::arena::ALIGN;
pub use ox_ir::arena::{Arena, Life, lives};

/// What a buffer takes.
pub fn padded_bytes(shape: &[Sym], element: i64) -> Sym {
    let bytes = &shape.iter().product::<Sym>() * element;
    &(bytes + (ALIGN - 1)).div(&Sym::from(ALIGN)) * ALIGN
}
