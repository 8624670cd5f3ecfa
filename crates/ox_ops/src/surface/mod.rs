//! What torch's functions mean in Ops: a table of names, signatures and building functions.
//!
//! A row is found by its name alone ("add" serves `torch.add`, `Tensor.add`, `operator.add` and `aten::add`), except where a
//! namespace gives the name another meaning; then a row named `F.pad` or `Tensor.to` comes first. In-place forms have no rows:
//! the Recorder makes them from these.
//!
//! To add rows: write a file with `pub const ROWS: &[Surface]`, and list it in `TABLES`.

mod activation;
mod adaptive;
mod addmm;
mod attention;
mod batch_norm;
mod binary;
mod blocks;
mod bound;
mod compare;
mod conv;
mod convert;
mod create;
mod cross_entropy;
mod diagonal;
mod dropout;
mod einsum;
mod gather;
mod inspect;
mod join;
mod loss;
mod margin;
mod matmul;
mod moments;
mod nearest;
mod norm;
mod numbers;
mod operator;
mod overflow;
mod pad;
mod pool;
mod random;
mod reduce;
mod resize;
mod scan;
mod scatter;
mod shared;
mod shuffle;
mod signature;
mod slope;
mod softmax;
mod sort;
mod special;
mod split;
mod steps;
mod subscript;
mod types;
mod unary;
mod vectors;
mod view;
mod writes;

use crate::builder::Builder;
use crate::error::OpResult;
use crate::value::Value;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

pub use bound::{Bound, Operand, wrap_dim, wrap_dims};
pub use numbers::{Place, reads_number, takes_number};
pub use operator::Operator;
pub(crate) use overflow::check_numbers;
pub use overflow::{converts_numbers, fits};
pub use resize::by_order;
pub(crate) use signature::{Slots, bind};
pub use softmax::{safe_softmax_along, softmax_along};
pub(crate) use subscript::assigned;
pub(crate) use types::refuses;
pub use writes::{first_argument, writes_first};

/// Whether what a row returns shares memory with its first argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// New memory, always (even if the value is the argument's).
    Fresh,
    /// A view of the first argument, always.
    View,
    /// A view if the row returned its first argument or a view of it; the front end may know better.
    Maybe,
    /// The n-th result is a view of the n-th tensor of the first argument, a list.
    Each,
    /// Writes the result into its first argument and returns None.
    Assign,
}

pub type BuildFn = fn(&mut Builder, &mut Bound) -> OpResult<Value>;

pub struct Surface {
    pub names: &'static [&'static str],
    pub signature: &'static str,
    pub sharing: Sharing,
    pub build: BuildFn,
}

/// A row whose results are new tensors.
pub const fn fresh(names: &'static [&'static str], signature: &'static str, build: BuildFn) -> Surface {
    Surface { names, signature, sharing: Sharing::Fresh, build }
}

/// A row whose results are views of its first argument.
pub const fn view(names: &'static [&'static str], signature: &'static str, build: BuildFn) -> Surface {
    Surface { names, signature, sharing: Sharing::View, build }
}

/// A row that may return its first argument or a view of it.
pub const fn maybe(names: &'static [&'static str], signature: &'static str, build: BuildFn) -> Surface {
    Surface { names, signature, sharing: Sharing::Maybe, build }
}

/// A row that gives a view of each of the tensors in its first argument.
pub const fn each(names: &'static [&'static str], signature: &'static str, build: BuildFn) -> Surface {
    Surface { names, signature, sharing: Sharing::Each, build }
}

/// A row that writes its first argument.
pub const fn assign(names: &'static [&'static str], signature: &'static str, build: BuildFn) -> Surface {
    Surface { names, signature, sharing: Sharing::Assign, build }
}

const TABLES: &[&[Surface]] = &[
    activation::ROWS,
    adaptive::ROWS,
    addmm::ROWS,
    attention::ROWS,
    batch_norm::ROWS,
    binary::ROWS,
    blocks::ROWS,
    compare::ROWS,
    conv::ROWS,
    convert::ROWS,
    create::ROWS,
    diagonal::ROWS,
    dropout::ROWS,
    cross_entropy::ROWS,
    einsum::ROWS,
    gather::ROWS,
    inspect::ROWS,
    join::ROWS,
    loss::ROWS,
    margin::ROWS,
    matmul::ROWS,
    moments::ROWS,
    norm::ROWS,
    pad::ROWS,
    pool::ROWS,
    random::ROWS,
    reduce::ROWS,
    resize::ROWS,
    scan::ROWS,
    scatter::ROWS,
    shuffle::ROWS,
    softmax::ROWS,
    sort::ROWS,
    special::ROWS,
    split::ROWS,
    steps::ROWS,
    subscript::ROWS,
    unary::ROWS,
    vectors::ROWS,
    view::ROWS,
];

/// Tables of functions that give each element of the elements at its place.
const ELEMENTWISE: &[&[Surface]] = &[activation::ROWS, binary::ROWS, compare::ROWS, convert::ROWS, unary::ROWS];
/// But for these, which halve a dimension, have a number for each channel, or draw.
const NOT_ELEMENTWISE: [&str; 3] = ["glu", "prelu", "rrelu"];

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Surface> {
    TABLES.iter().flat_map(|table| table.iter())
}

pub(crate) fn is_elementwise(row: &Surface) -> bool {
    let is_listed = ELEMENTWISE.iter().flat_map(|table| table.iter()).any(|listed| listed.names == row.names);
    is_listed && !NOT_ELEMENTWISE.contains(&row.names[0])
}

fn index() -> &'static FxHashMap<&'static str, &'static Surface> {
    static INDEX: OnceLock<FxHashMap<&'static str, &'static Surface>> = OnceLock::new();
    INDEX.get_or_init(|| rows().flat_map(|row| row.names.iter().map(move |name| (*name, row))).collect())
}

/// Namespaces whose names mean the same as everybody's unless a row says otherwise. All others (`special`, `linalg`, ...) are
/// found under their prefix only.
const SHARED: &[&str] = &["torch", "Tensor", "F", "operator", "aten"];

/// The row for a function. `namespace` is "torch", "Tensor", "F" (torch.nn.functional), "operator", "aten", "special", "linalg" ...
pub fn lookup(namespace: &str, name: &str) -> Option<&'static Surface> {
    let prefixed = format!("{namespace}.{name}");
    if let Some(row) = index().get(prefixed.as_str()) {
        return Some(row);
    }
    if SHARED.contains(&namespace) { index().get(name).copied() } else { None }
}
