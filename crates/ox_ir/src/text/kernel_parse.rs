//! Parsing a Kernel. Values may have any numbers; they are numbered anew in the order of the text.

use super::attr::Attr;
use super::cursor::{ParseError, Parsed};
use super::kernel_print::usual_dtype;
use super::parser::Parser;
use crate::graph::{Combine, ReduceOp};
use crate::kernel::{Axis, BufParam, BufRole, Inst, Kernel, Lanes, Pass, TypedInst, Usual, Val};
use crate::point::PointOp;
use crate::sym::{Sym, Var};
use rustc_hash::FxHashMap;

impl Kernel {
    pub fn parse(text: &str) -> Result<Kernel, ParseError> {
        let mut p = Parser::new(text);
        let kernel = KernelParser { p: &mut p, bufs: vec![], insts: vec![], vals: FxHashMap::default() }.kernel()?;
        if p.cursor.at_end() { Ok(kernel) } else { Err(p.cursor.expected("the end of the kernel")) }
    }
}

struct KernelParser<'a, 't> {
    p: &'a mut Parser<'t>,
    bufs: Vec<BufParam>,
    insts: Vec<TypedInst>,
    vals: FxHashMap<u32, Val>,
}

impl KernelParser<'_, '_> {
    fn kernel(mut self) -> Parsed<Kernel> {
        let sizes = self.p.sizes()?;
        self.p.cursor.expect_word("kernel")?;
        let name = if self.p.cursor.peek("\"") { self.p.cursor.string()? } else { self.p.cursor.word()?.to_string() };
        let axes = self.params()?;
        let lanes = self.lanes()?;
        let parallel = self.p.cursor.eat_word("parallel");
        let usual = Usual { length: self.usual("length")?, points: self.usual("points")? };
        self.p.cursor.expect("{")?;
        let mut passes = Vec::new();
        while self.p.cursor.eat_word("pass") {
            passes.push(self.pass()?);
        }
        self.p.cursor.expect("}")?;
        Ok(Kernel { name, sizes, bufs: self.bufs, axes, insts: self.insts, passes, lanes, parallel, usual })
    }

    /// Buffers first, then the outer axes.
    fn params(&mut self) -> Parsed<Vec<Axis>> {
        let mut axes = Vec::new();
        self.p.cursor.expect("(")?;
        while !self.p.cursor.eat(")") {
            if self.p.cursor.peek("b") {
                let buf = self.buf_param()?;
                self.bufs.push(buf);
            } else {
                axes.push(self.axis()?);
            }
            if !self.p.cursor.peek(")") {
                self.p.cursor.expect(",")?;
            }
        }
        Ok(axes)
    }

    fn buf_param(&mut self) -> Parsed<BufParam> {
        if self.p.numbered('b')? as usize != self.bufs.len() {
            return Err(self.p.cursor.error("buffers are numbered in order"));
        }
        self.p.cursor.expect(":")?;
        let dtype = self.p.dtype()?;
        let role = match self.p.cursor.word()? {
            "in" => BufRole::In,
            "out" => BufRole::Out,
            "inout" => BufRole::InOut,
            "scratch" => BufRole::Scratch(self.p.cursor.int()?),
            other => return Err(self.p.cursor.error(format!("unknown role `{other}`"))),
        };
        Ok(BufParam { dtype, role })
    }

    fn axis(&mut self) -> Parsed<Axis> {
        let id = self.p.numbered('i')?;
        self.p.cursor.expect("<")?;
        let extent = self.p.sym()?;
        let var = Var::axis(id, extent.clone());
        self.p.vars.push(var.clone());
        Ok(Axis { var, extent })
    }

    fn lanes(&mut self) -> Parsed<Lanes> {
        self.p.cursor.expect_word("lanes")?;
        self.p.cursor.expect("=")?;
        let word = self.p.cursor.word()?;
        let known = Lanes::NAMES.into_iter().find(|(_, name)| *name == word);
        known.map(|(lanes, _)| lanes).ok_or_else(|| self.p.cursor.error(format!("unknown lanes `{word}`")))
    }

    fn usual(&mut self, word: &str) -> Parsed<Option<i64>> {
        if !self.p.cursor.eat_word(word) {
            return Ok(None);
        }
        self.p.cursor.expect("=")?;
        self.p.cursor.int().map(Some)
    }

    /// The variables of a pass with inner axes end with it; those of a pass without are seen by the later passes.
    fn pass(&mut self) -> Parsed<Pass> {
        let outer_vars = self.p.vars.len();
        let mut pass = Pass::default();
        while !self.p.cursor.eat("{") {
            pass.axes.push(self.axis()?);
            if !self.p.cursor.peek("{") {
                self.p.cursor.expect(",")?;
            }
        }
        while !self.p.cursor.eat("}") {
            let val = self.typed_inst()?;
            pass.body.push(val);
        }
        if !pass.axes.is_empty() {
            self.p.vars.truncate(outer_vars);
        }
        Ok(pass)
    }

    fn typed_inst(&mut self) -> Parsed<Val> {
        let has_value = !matches!(self.p.cursor.peek_word(), "store" | "check_nonzero");
        let number = if has_value { Some(self.p.numbered('v')?) } else { None };
        if has_value {
            self.p.cursor.expect("=")?;
        }
        let inst = self.inst()?;
        let dtype = if self.p.cursor.eat(":") { Some(self.p.dtype()?) } else { usual_dtype(&self.bufs, &self.insts, &inst) };
        let Some(dtype) = dtype else { return Err(self.p.cursor.error("the type must be given: `: f32`")) };
        self.insts.push(TypedInst { inst, dtype });
        let val = Val(self.insts.len() as u32 - 1);
        if number.is_some_and(|number| self.vals.insert(number, val).is_some()) {
            return Err(self.p.cursor.error("a value is defined twice"));
        }
        Ok(val)
    }

    fn inst(&mut self) -> Parsed<Inst> {
        let name = self.p.cursor.word()?;
        match name {
            "const" => self.p.scalar().map(Inst::Const),
            "index" => self.p.sym().map(Inst::Index),
            "load" => self.load(),
            "cast" => self.val().map(Inst::Cast),
            "reduce" => self.reduce(),
            "scan" => self.scan(),
            "check_index" => self.check_index(),
            "check_nonzero" => Ok(Inst::CheckNonZero { value: self.val()?, check: self.check()? }),
            "store" => self.store(),
            _ => {
                let Some(op) = PointOp::from_name(name) else {
                    return Err(self.p.cursor.error(format!("unknown instruction `{name}`")));
                };
                let args = (0..op.arity()).map(|_| self.val()).collect::<Parsed<_>>()?;
                Ok(Inst::Point(op, args))
            }
        }
    }

    fn load(&mut self) -> Parsed<Inst> {
        let (buf, index) = self.element()?;
        let mask = if self.p.cursor.eat_word("if") {
            let mask = self.val()?;
            self.p.cursor.expect_word("else")?;
            Some((mask, self.p.scalar()?))
        } else {
            None
        };
        Ok(Inst::Load { buf, index, mask })
    }

    fn reduce(&mut self) -> Parsed<Inst> {
        let op = ReduceOp::parse(self.p)?;
        let value = self.val()?;
        if !self.p.cursor.eat_word("at") {
            return Ok(Inst::Reduce { op, value });
        }
        Ok(Inst::ReduceArg { op, value, position: self.p.sym()? })
    }

    fn scan(&mut self) -> Parsed<Inst> {
        let op = ReduceOp::parse(self.p)?;
        let value = self.val()?;
        let decay = if self.p.cursor.eat_word("decay") { Some(self.val()?) } else { None };
        Ok(Inst::Scan { op, value, decay })
    }

    fn check_index(&mut self) -> Parsed<Inst> {
        let value = self.val()?;
        let id = self.p.numbered('j')?;
        self.p.cursor.expect("<")?;
        let extent = self.p.sym()?;
        let wrap = self.p.cursor.eat_word("wrap");
        let check = self.check()?;
        let var = Var::loaded(id, extent.clone());
        self.p.vars.push(var.clone());
        Ok(Inst::CheckIndex { value, var, extent, wrap, check })
    }

    fn store(&mut self) -> Parsed<Inst> {
        let named = ReduceOp::ALL.iter().any(|op| op.name() == self.p.cursor.peek_word());
        let combine = if named { Combine::parse(self.p)? } else { Combine::Set };
        let (buf, index) = self.element()?;
        let value = self.val()?;
        let mask = if self.p.cursor.eat_word("if") { Some(self.val()?) } else { None };
        Ok(Inst::Store { buf, index, value, combine, mask })
    }

    /// `b0[4*i0 + i1]`.
    fn element(&mut self) -> Parsed<(u32, Sym)> {
        let buf = self.p.numbered('b')?;
        self.p.cursor.expect("[")?;
        let index = self.p.sym()?;
        self.p.cursor.expect("]")?;
        Ok((buf, index))
    }

    fn check(&mut self) -> Parsed<u32> {
        self.p.cursor.expect_word("check")?;
        u32::parse(self.p)
    }

    fn val(&mut self) -> Parsed<Val> {
        let number = self.p.numbered('v')?;
        self.vals.get(&number).copied().ok_or_else(|| self.p.cursor.error(format!("v{number} is not defined yet")))
    }
}
