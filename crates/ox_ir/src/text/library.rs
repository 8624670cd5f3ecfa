//! The attributes of library calls.

use super::attr::{Attr, print_strides};
use super::cursor::{Parsed, quote};
use super::list;
use super::parser::Parser;
use crate::dtype::Scalar;
use crate::graph::{Arg, Callee, LibraryOut};
use std::fmt;

/// `"aten::sort" "stable"`, or `python 3 "my_op"`.
impl Attr for Callee {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Callee::Dispatcher { name, overload } => write!(f, "{} {}", quote(name), quote(overload)),
            Callee::Python { object, name } => write!(f, "python {object} {}", quote(name)),
        }
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<Callee> {
        if p.cursor.eat_word("python") {
            return Ok(Callee::Python { object: u32::parse(p)?, name: p.cursor.string()? });
        }
        Ok(Callee::Dispatcher { name: p.cursor.string()?, overload: p.cursor.string()? })
    }
}

impl Attr for LibraryOut {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ty)?;
        print_strides(f, &self.ty.shape, &self.strides)
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<LibraryOut> {
        let ty = p.tensor_type()?;
        let strides = p.strides(&ty.shape)?;
        Ok(LibraryOut { ty, strides })
    }
}

/// A keyword argument: `"dim": 1`.
impl Attr for (String, Arg) {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", quote(&self.0))?;
        self.1.print(f)
    }
    fn parse(p: &mut Parser<'_>) -> Parsed<(String, Arg)> {
        let name = p.cursor.string()?;
        p.cursor.expect(":")?;
        Ok((name, Arg::parse(p)?))
    }
}

/// `$0` is the node's first tensor; numbers, flags, strings and lists look as in Python; the rest is named.
impl Attr for Arg {
    fn print(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::None => f.write_str("none"),
            Arg::Tensor(n) => write!(f, "${n}"),
            Arg::Int(value) => write!(f, "{value}"),
            Arg::Float(value) => write!(f, "{}", Scalar::Float(value.as_f64())),
            Arg::Bool(value) => write!(f, "{value}"),
            Arg::Str(value) => value.print(f),
            Arg::DType(dtype) => write!(f, "dtype({dtype})"),
            Arg::Device(device) => write!(f, "device({device})"),
            Arg::MemoryFormat(n) => write!(f, "memory_format({n})"),
            Arg::Layout(n) => write!(f, "layout({n})"),
            Arg::Object(n) => write!(f, "object({n})"),
            Arg::List(items) => items.print(f),
            Arg::Tuple(items) => print_named(f, "tuple", items),
            Arg::Slice(ends) => print_named(f, "slice", ends.as_slice()),
            Arg::Dict(entries) => {
                f.write_str("{")?;
                list(f, entries, |f, entry| entry.print(f))?;
                f.write_str("}")
            }
        }
    }

    fn parse(p: &mut Parser<'_>) -> Parsed<Arg> {
        if p.cursor.peek("[") {
            return Vec::parse(p).map(Arg::List);
        }
        if p.cursor.peek("{") {
            return p.items("{", "}", <(String, Arg)>::parse).map(Arg::Dict);
        }
        if p.cursor.peek("\"") {
            return p.cursor.string().map(Arg::Str);
        }
        if p.cursor.eat("$") {
            return u32::parse(p).map(Arg::Tensor);
        }
        if let Some(arg) = parse_named(p)? {
            return Ok(arg);
        }
        match p.cursor.number_literal().parse() {
            Ok(value @ Scalar::Float(_)) => p.scalar().map(|_| Arg::Float(value)),
            Ok(Scalar::Bool(value)) => p.scalar().map(|_| Arg::Bool(value)),
            _ => p.sym().map(Arg::Int),
        }
    }
}

fn print_named(f: &mut fmt::Formatter<'_>, name: &str, items: &[Arg]) -> fmt::Result {
    write!(f, "{name}(")?;
    list(f, items, |f, item| item.print(f))?;
    f.write_str(")")
}

fn parse_named(p: &mut Parser<'_>) -> Parsed<Option<Arg>> {
    let make: fn(&mut Parser<'_>) -> Parsed<Arg> = match p.cursor.peek_word() {
        "none" => {
            p.cursor.word()?;
            return Ok(Some(Arg::None));
        }
        "dtype" => |p| p.dtype().map(Arg::DType),
        "device" => |p| p.device().map(Arg::Device),
        "memory_format" => |p| p.cursor.int().map(|n| Arg::MemoryFormat(n as i32)),
        "layout" => |p| p.cursor.int().map(|n| Arg::Layout(n as i32)),
        "object" => |p| u32::parse(p).map(Arg::Object),
        "tuple" | "slice" => return parse_sequence(p).map(Some),
        _ => return Ok(None),
    };
    p.cursor.word()?;
    p.cursor.expect("(")?;
    let arg = make(p)?;
    p.cursor.expect(")")?;
    Ok(Some(arg))
}

fn parse_sequence(p: &mut Parser<'_>) -> Parsed<Arg> {
    let tuple = p.cursor.word()? == "tuple";
    let items = p.items("(", ")", Arg::parse)?;
    if tuple {
        return Ok(Arg::Tuple(items));
    }
    match <[Arg; 3]>::try_from(items) {
        Ok(ends) => Ok(Arg::Slice(Box::new(ends))),
        Err(_) => Err(p.cursor.error("a slice has three parts")),
    }
}
