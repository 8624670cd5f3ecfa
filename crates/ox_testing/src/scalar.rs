//! The meaning of scalar operations stands in the op table.

pub use ox_ops::point::{DivisionByZero, apply, convert, round, wrap};
