//! The text forms of Graph and Kernel (printed and parsed) and of Plan (printed).
//!
//! What is printed can be parsed back to an equal value, except that numbers which only name things (node, value and location
//! numbers) are given out anew in the order of the text.

mod attr;
pub(crate) mod cursor;
mod graph_parse;
mod graph_print;
mod kernel_parse;
mod kernel_print;
mod library;
mod ops;
mod parser;
mod plan_print;

pub use cursor::ParseError;
pub use ops::op_name;

use crate::sym::Var;
use std::fmt;

/// Prints items with a comma between them.
pub(crate) fn list<T>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = T>,
    mut print: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (n, item) in items.into_iter().enumerate() {
        if n > 0 {
            f.write_str(", ")?;
        }
        print(f, item)?;
    }
    Ok(())
}

/// `sizes s0 in 2..1024 by 8, s1 in 0..`: both ends belong to the interval.
fn print_sizes(f: &mut fmt::Formatter<'_>, sizes: &[Var]) -> fmt::Result {
    if sizes.is_empty() {
        return Ok(());
    }
    f.write_str("sizes ")?;
    list(f, sizes, |f, v| {
        write!(f, "{v} in {}..", v.lo())?;
        if v.hi() != i64::MAX {
            write!(f, "{}", v.hi())?;
        }
        if v.divisor() != 1 { write!(f, " by {}", v.divisor()) } else { Ok(()) }
    })?;
    f.write_str("\n")
}
