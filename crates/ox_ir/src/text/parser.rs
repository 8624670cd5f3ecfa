//! What Graph and Kernel texts have in common: sizes, expressions, scalars, types.

use super::cursor::{Cursor, Parsed};
use crate::dtype::{DType, Device, Scalar};
use crate::graph::{Shape, TensorType, contiguous_strides};
use crate::sym::{Sym, Var, parse_sym_at};

/// A cursor, with the variables that are in scope. Later ones hide earlier ones of the same name.
pub(super) struct Parser<'a> {
    pub cursor: Cursor<'a>,
    pub vars: Vec<Var>,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Parser<'a> {
        Parser { cursor: Cursor::new(text), vars: Vec::new() }
    }

    pub fn sym(&mut self) -> Parsed<Sym> {
        let vars = &self.vars;
        parse_sym_at(&mut self.cursor, &|name| vars.iter().rev().find(|v| v.to_string() == name).cloned())
    }

    /// Items between `open` and `close`, with commas.
    pub fn items<T>(&mut self, open: &str, close: &str, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.cursor.expect(open)?;
        let mut out = Vec::new();
        if self.cursor.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if self.cursor.eat(close) {
                return Ok(out);
            }
            self.cursor.expect(",")?;
        }
    }

    pub fn shape(&mut self) -> Parsed<Shape> {
        Ok(self.items("[", "]", |p| p.sym())?.into())
    }

    pub fn dtype(&mut self) -> Parsed<DType> {
        let word = self.cursor.peek_word();
        let Ok(dtype) = word.parse() else { return Err(self.cursor.expected("an element type")) };
        self.cursor.word()?;
        Ok(dtype)
    }

    pub fn device(&mut self) -> Parsed<Device> {
        let word = self.cursor.peek_word();
        let Ok(device) = word.parse() else { return Err(self.cursor.expected("a device")) };
        self.cursor.word()?;
        Ok(device)
    }

    /// `f32[s0, 64]`, with `@cuda0` behind it when it does not lie in host memory.
    pub fn tensor_type(&mut self) -> Parsed<TensorType> {
        let dtype = self.dtype()?;
        let shape = self.shape()?;
        let device = if self.cursor.eat("@") { self.device()? } else { Device::Cpu };
        Ok(TensorType { dtype, device, shape })
    }

    /// `strides [1, 64]`, or nothing for a contiguous tensor.
    pub fn strides(&mut self, shape: &[Sym]) -> Parsed<Shape> {
        if self.cursor.eat_word("strides") { self.shape() } else { Ok(contiguous_strides(shape)) }
    }

    pub fn scalar(&mut self) -> Parsed<Scalar> {
        let literal = self.cursor.number_literal();
        let Ok(scalar) = literal.parse() else { return Err(self.cursor.expected("a number")) };
        self.cursor.take(literal);
        Ok(scalar)
    }

    /// `sizes s0 in 2..1024 by 8, s1 in 0..`, if the text starts so. The sizes are in scope from here on.
    pub fn sizes(&mut self) -> Parsed<Vec<Var>> {
        let mut sizes = Vec::new();
        if self.cursor.eat_word("sizes") {
            loop {
                sizes.push(self.size()?);
                if !self.cursor.eat(",") {
                    break;
                }
            }
        }
        self.vars.extend(sizes.iter().cloned());
        Ok(sizes)
    }

    fn size(&mut self) -> Parsed<Var> {
        let id = self.numbered('s')?;
        self.cursor.expect_word("in")?;
        let lo = self.cursor.int()?;
        self.cursor.expect("..")?;
        let hi = self.cursor.int().unwrap_or(i64::MAX);
        let divisor = if self.cursor.eat_word("by") { self.cursor.int()? } else { 1 };
        Ok(Var::size(id, lo, hi, divisor))
    }

    /// A letter with a number: `s0`, `b3`.
    pub fn numbered(&mut self, letter: char) -> Parsed<u32> {
        let word = self.cursor.peek_word();
        let Some(id) = word.strip_prefix(letter).and_then(|digits| digits.parse().ok()) else {
            return Err(self.cursor.expected(format!("`{letter}` and a number")));
        };
        self.cursor.word()?;
        Ok(id)
    }
}
