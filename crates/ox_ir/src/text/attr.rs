//! What may stand as an attribute of an op: one printer and one parser for each type.

use super::cursor::{Parsed, quote};
use super::list;
use super::parser::Parser;
use crate::dtype::{DType, Device, Scalar};
use crate::graph::{Bounds, Combine, Dims, Post, ReduceOp, Shape, SliceDim, TensorType, contiguous_strides};
use crate::sym::Sym;
use smallvec::SmallVec;
use std::fmt;

pub(super) trait Attr: Sized + PartialEq {
    /// A flag is named where it is true, and left out where it is false.
    const FLAG: bool = false;

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn parse(p: &mut Parser<'_>) -> Parsed<Self>;
}

impl Attr for bool {
    const FLAG: bool = true;

    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<bool> {
        match p.cursor.peek_word().parse() {
            Ok(value) => {
                p.cursor.word()?;
                Ok(value)
            }
            // The name of a flag alone means true.
            Err(_) => Ok(true),
        }
    }
}

macro_rules! integer_attrs {
    ($($ty:ty),*) => {$(
        impl Attr for $ty {
            fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
            fn parse(p: &mut Parser<'_>) -> Parsed<$ty> {
                let value = p.cursor.int()?;
                <$ty>::try_from(value).map_err(|_| p.cursor.error(format!("{value} is out of range")))
            }
        }
    )*};
}
integer_attrs!(u32, i64, usize);

macro_rules! displayed_attrs {
    ($($ty:ty => $parse:ident),*) => {$(
        impl Attr for $ty {
            fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
            fn parse(p: &mut Parser<'_>) -> Parsed<$ty> {
                p.$parse()
            }
        }
    )*};
}
displayed_attrs!(Sym => sym, Scalar => scalar, DType => dtype, Device => device);

impl Attr for String {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quote(self))
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<String> {
        p.cursor.string()
    }
}

impl<T: Attr> Attr for Vec<T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        list(f, self, |f, item| item.print(f))?;
        f.write_str("]")
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<Vec<T>> {
        p.items("[", "]", T::parse)
    }
}

macro_rules! small_vec_attrs {
    ($($ty:ty => $item:ty),*) => {$(
        impl Attr for $ty {
            fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[")?;
                list(f, self, |f, item| item.print(f))?;
                f.write_str("]")
            }
            fn parse(p: &mut Parser<'_>) -> Parsed<$ty> {
                Ok(p.items("[", "]", <$item>::parse)?.into())
            }
        }
    )*};
}
small_vec_attrs!(Shape => Sym, Dims => usize, SmallVec<[Sym; 3]> => Sym);

/// `f32[s0, 64]`, with `@cuda0` behind it when it does not lie in host memory.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.dtype)?;
        self.shape.print(f)?;
        if self.device == Device::Cpu { Ok(()) } else { write!(f, "@{}", self.device) }
    }
}

pub(super) fn print_strides(f: &mut fmt::Formatter<'_>, shape: &[Sym], strides: &Shape) -> fmt::Result {
    if *strides == contiguous_strides(shape) {
        return Ok(());
    }
    f.write_str(" strides ")?;
    strides.print(f)
}

/// `3`, or `3 by -1` if the step is not 1.
impl Attr for SliceDim {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.start)?;
        if self.step == 1 { Ok(()) } else { write!(f, " by {}", self.step) }
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<SliceDim> {
        let start = p.sym()?;
        let step = if p.cursor.eat_word("by") { p.cursor.int()? } else { 1 };
        Ok(SliceDim { start, step })
    }
}

impl Attr for ReduceOp {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<ReduceOp> {
        let word = p.cursor.peek_word();
        let Some(op) = ReduceOp::ALL.into_iter().find(|op| op.name() == word) else {
            return Err(p.cursor.expected("a reduction"));
        };
        p.cursor.word()?;
        Ok(op)
    }
}

impl Attr for Combine {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Combine::Set => f.write_str("set"),
            Combine::With(op) => op.print(f),
        }
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<Combine> {
        if p.cursor.eat_word("set") { Ok(Combine::Set) } else { ReduceOp::parse(p).map(Combine::With) }
    }
}

impl Attr for Bounds {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bounds::Wrap => "wrap",
            Bounds::IndexError => "index_error",
            Bounds::RuntimeError => "runtime_error",
        })
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<Bounds> {
        Ok(match p.cursor.word()? {
            "wrap" => Bounds::Wrap,
            "index_error" => Bounds::IndexError,
            "runtime_error" => Bounds::RuntimeError,
            other => return Err(p.cursor.error(format!("unknown bounds `{other}`"))),
        })
    }
}

impl<T: Attr> Attr for Option<T> {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            None => f.write_str("none"),
            Some(value) => value.print(f),
        }
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<Option<T>> {
        if p.cursor.eat_word("none") { Ok(None) } else { T::parse(p).map(Some) }
    }
}

impl Attr for Post {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Post::None => f.write_str("none"),
            Post::Relu => f.write_str("relu"),
            Post::Gelu(false) => f.write_str("gelu"),
            Post::Gelu(true) => f.write_str("gelu_tanh"),
            Post::Silu => f.write_str("silu"),
            Post::Sigmoid => f.write_str("sigmoid"),
            Post::Tanh => f.write_str("tanh"),
            Post::Hardswish => f.write_str("hardswish"),
            Post::Hardtanh(lo, hi) => write!(f, "hardtanh({lo}, {hi})"),
            Post::LeakyRelu(slope) => write!(f, "leaky_relu({slope})"),
        }
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<Post> {
        Ok(match p.cursor.word()? {
            "none" => Post::None,
            "relu" => Post::Relu,
            "gelu" => Post::Gelu(false),
            "gelu_tanh" => Post::Gelu(true),
            "silu" => Post::Silu,
            "sigmoid" => Post::Sigmoid,
            "tanh" => Post::Tanh,
            "hardswish" => Post::Hardswish,
            "hardtanh" => match p.items("(", ")", |p| p.scalar())?[..] {
                [lo, hi] => Post::Hardtanh(lo, hi),
                _ => return Err(p.cursor.error("hardtanh takes two bounds")),
            },
            "leaky_relu" => match p.items("(", ")", |p| p.scalar())?[..] {
                [slope] => Post::LeakyRelu(slope),
                _ => return Err(p.cursor.error("leaky_relu takes one slope")),
            },
            other => return Err(p.cursor.error(format!("unknown post-op `{other}`"))),
        })
    }
}
