//! The table of ops as they stand in text. Printer and parser are both made from it, so a new op is one new row.
//!
//! A row is a name, the variant, and its attributes in the order of the text: `()` for none, `(T)` for one that stands
//! without a name, `{name: T = default}` for named ones, `[Struct]` for those of a struct that has a table of its own below.

use super::attr::Attr;
use super::cursor::Parsed;
use super::parser::Parser;
use crate::dtype::Scalar;
use crate::graph::{
    Arg, AttentionAttrs, Bounds, Callee, Combine, ConvAttrs, Dims, Library, LibraryOut, Op, Packing, Post, ReduceOp, Shape,
    SliceDim,
};
use crate::plan::Call;
use crate::point::PointOp;
use crate::sym::Sym;
use smallvec::SmallVec;
use std::fmt;

type Spatial = SmallVec<[Sym; 3]>;

/// Writes `, name=value` for each attribute; the first thing in the parentheses has no comma before it.
pub(super) struct AttrPrinter<'a, 'f> {
    pub f: &'a mut fmt::Formatter<'f>,
    pub first: bool,
}

impl AttrPrinter<'_, '_> {
    pub fn comma(&mut self) -> fmt::Result {
        if std::mem::take(&mut self.first) { Ok(()) } else { self.f.write_str(", ") }
    }

    fn bare<T: Attr>(&mut self, value: &T) -> fmt::Result {
        self.comma()?;
        value.print(self.f)
    }

    fn named<T: Attr>(&mut self, name: &str, value: &T, default: Option<T>) -> fmt::Result {
        if default.is_some_and(|d| d == *value) {
            return Ok(());
        }
        self.comma()?;
        self.f.write_str(name)?;
        if T::FLAG {
            return Ok(());
        }
        self.f.write_str("=")?;
        value.print(self.f)
    }
}

/// Reads the attributes behind the arguments, in the order of the table.
pub(super) struct AttrParser<'a, 't> {
    pub p: &'a mut Parser<'t>,
    pub first: bool,
}

impl AttrParser<'_, '_> {
    fn comma(&mut self) -> Parsed<()> {
        if std::mem::take(&mut self.first) { Ok(()) } else { self.p.cursor.expect(",") }
    }

    fn bare<T: Attr>(&mut self) -> Parsed<T> {
        self.comma()?;
        T::parse(self.p)
    }

    fn named<T: Attr>(&mut self, name: &str, default: Option<T>) -> Parsed<T> {
        if !self.is_next(name) {
            return default.ok_or_else(|| self.p.cursor.expected(format!("the attribute `{name}`")));
        }
        self.comma()?;
        self.p.cursor.expect_word(name)?;
        if !T::FLAG {
            self.p.cursor.expect("=")?;
        }
        T::parse(self.p)
    }

    fn is_next(&mut self, name: &str) -> bool {
        self.p.cursor.peek_word_after(if self.first { "" } else { "," }) == name
    }
}

macro_rules! default {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

macro_rules! pattern {
    ($variant:ident ()) => { Op::$variant };
    ($variant:ident ($field:ident : $ty:ty)) => { Op::$variant($field) };
    ($variant:ident {$($field:ident : $ty:ty $(= $default:expr)?),*}) => { Op::$variant { $($field),* } };
    ($variant:ident [$ty:ty]) => { Op::$variant(_) };
}

macro_rules! print_attrs {
    ($out:ident $op:ident $variant:ident ()) => { Ok(()) };
    ($out:ident $op:ident $variant:ident ($field:ident : $ty:ty)) => { $out.bare::<$ty>($field) };
    ($out:ident $op:ident $variant:ident {$($field:ident : $ty:ty $(= $default:expr)?),*}) => {{
        $($out.named::<$ty>(stringify!($field), $field, default!($($default)?))?;)*
        Ok(())
    }};
    ($out:ident $op:ident $variant:ident [$ty:ty]) => {
        match $op {
            Op::$variant(attrs) => attrs.print_fields($out),
            _ => unreachable!("the arm of this variant"),
        }
    };
}

macro_rules! parse_attrs {
    ($in:ident $variant:ident ()) => { Op::$variant };
    ($in:ident $variant:ident ($field:ident : $ty:ty)) => { Op::$variant($in.bare::<$ty>()?) };
    ($in:ident $variant:ident {$($field:ident : $ty:ty $(= $default:expr)?),*}) => {
        Op::$variant { $($field: $in.named::<$ty>(stringify!($field), default!($($default)?))?),* }
    };
    ($in:ident $variant:ident [$ty:ty]) => { Op::$variant(<$ty>::parse_fields($in)?.into()) };
}

macro_rules! op_table {
    ($($name:literal $variant:ident $attrs:tt;)*) => {
        /// The name of an op in text. Scalar ops have the names of `PointOp`.
        pub fn op_name(op: &Op) -> &'static str {
            match op {
                Op::Point(point) => point.name(),
                $(op_table!(@any $variant $attrs) => $name,)*
            }
        }

        pub(super) fn print_attrs(op: &Op, out: &mut AttrPrinter<'_, '_>) -> fmt::Result {
            match op {
                Op::Point(_) => Ok(()),
                $(pattern!($variant $attrs) => print_attrs!(out op $variant $attrs),)*
            }
        }

        pub(super) fn parse_attrs(name: &str, from: &mut AttrParser<'_, '_>) -> Parsed<Op> {
            if let Some(op) = PointOp::from_name(name) {
                return Ok(Op::Point(op));
            }
            Ok(match name {
                $($name => parse_attrs!(from $variant $attrs),)*
                _ => return Err(from.p.cursor.error(format!("unknown op `{name}`"))),
            })
        }
    };
    (@any $variant:ident ()) => { Op::$variant };
    (@any $variant:ident {$($rest:tt)*}) => { Op::$variant { .. } };
    (@any $variant:ident $other:tt) => { Op::$variant(..) };
}

trait Fields: Sized {
    fn print_fields(&self, out: &mut AttrPrinter<'_, '_>) -> fmt::Result;
    fn parse_fields(from: &mut AttrParser<'_, '_>) -> Parsed<Self>;
}

macro_rules! struct_table {
    ($($ty:ident {$($field:ident : $field_ty:ty $(= $default:expr)?),* $(,)?})*) => {$(
        impl Fields for $ty {
            fn print_fields(&self, out: &mut AttrPrinter<'_, '_>) -> fmt::Result {
                $(out.named::<$field_ty>(stringify!($field), &self.$field, default!($($default)?))?;)*
                Ok(())
            }
            fn parse_fields(from: &mut AttrParser<'_, '_>) -> Parsed<$ty> {
                Ok($ty { $($field: from.named::<$field_ty>(stringify!($field), default!($($default)?))?),* })
            }
        }
    )*};
}

op_table! {
    "input" Input(index: u32);
    "full" Full(value: Scalar);
    "sym_value" SymValue(value: Sym);
    "iota" Iota{dim: usize};

    "cast" Cast();

    "reshape" Reshape();
    "permute" Permute(perm: Dims);
    "expand" Expand();
    "slice" Slice(at: Vec<SliceDim>);
    "unfold" Unfold{dim: usize, step: i64 = 1, dilation: i64 = 1};
    "diagonal" Diagonal{offset: i64 = 0, dim1: usize, dim2: usize};
    "detach" Detach();
    "graft" Graft();

    "pad" Pad{low: Shape, value: Scalar};
    "cat" Cat{dim: usize};
    "slice_scatter" SliceScatter(at: Vec<SliceDim>);
    "index" Index{dims: Dims, at: usize, bounds: Bounds = Bounds::Wrap};
    "index_put" IndexPut{dims: Dims, at: usize, bounds: Bounds = Bounds::Wrap, combine: Combine = Combine::Set};

    "reduce" Reduce{op: ReduceOp, dims: Dims};
    "scan" Scan{op: ReduceOp, dim: usize};

    "matmul" Matmul{
        bias: bool = false, add: bool = false, alpha: Scalar = Scalar::Float(1.0), beta: Scalar = Scalar::Float(1.0), post: Post = Post::None
    };
    "conv" Conv[ConvAttrs];
    "pack" Pack[Packing];
    "attention" Attention[AttentionAttrs];
    "library" Library[Library];
    "project" Project(index: u32);
}

struct_table! {
    ConvAttrs {
        stride: Spatial,
        padding: Spatial,
        dilation: Spatial,
        transposed: bool = false,
        output_padding: Spatial = Spatial::new(),
        groups: Sym = Sym::ONE,
        bias: bool = false,
        add: bool = false,
        post: Post = Post::None,
    }
    Packing {
        x: Shape = Shape::new(),
        stride: Spatial = Spatial::new(),
        padding: Spatial = Spatial::new(),
        dilation: Spatial = Spatial::new(),
        groups: Sym = Sym::ONE,
    }
    AttentionAttrs {
        causal: bool = false,
        scale: Option<Scalar> = None,
        mask: bool = false,
    }
    Library {
        callee: Callee,
        args: Vec<Arg> = vec![],
        kwargs: Vec<(String, Arg)> = vec![],
        outs: Vec<LibraryOut>,
        mutates: Vec<u32> = vec![],
        effect: bool = false,
    }
}

/// The op that a Plan's call is.
pub(super) fn op_of_call(call: &Call) -> Op {
    match call.clone() {
        Call::Matmul { bias, add, alpha, beta, post } => Op::Matmul { bias, add, alpha, beta, post },
        Call::Conv(attrs) => Op::Conv(attrs),
        Call::Pack(packing) => Op::Pack(packing),
        Call::Attention(attrs) => Op::Attention(attrs),
        Call::Library(library) => Op::Library(library),
    }
}
