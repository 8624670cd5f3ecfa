//! Matrix products in 16 bits by cuBLASLt, called by its own functions: what torch asks the library for in every call (descriptors, the
//! algorithm) is worked out in the first one.

mod fastest;
mod library;
mod planned;
mod shape;

pub use fastest::compared_products;
pub use planned::{Addresses, Planned, When};
pub use shape::{Behind, LARGE, Shape};

/// What all addresses, rows and steps from matrix to matrix are multiples of, in bytes.
const ALIGNED: usize = 16;
