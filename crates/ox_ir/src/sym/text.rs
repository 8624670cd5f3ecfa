//! The text form: `4*s0 + i1`, `(s0 + 1)//2`, `i0 % 3`, `min(s0, 8)`.

use super::{Atom, Sym, Var, VarKind};
use std::fmt;

impl fmt::Display for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.kind() {
            VarKind::Size => 's',
            VarKind::Axis => 'i',
            VarKind::Loaded => 'j',
        };
        write!(f, "{letter}{}", self.id())
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Var(v) => write!(f, "{v}"),
            Atom::Div(p) => write!(f, "({} // {})", p.0, p.1),
            Atom::Mod(p) => write!(f, "({} % {})", p.0, p.1),
            Atom::Min(p) => write!(f, "min({}, {})", p.0, p.1),
            Atom::Max(p) => write!(f, "max({}, {})", p.0, p.1),
        }
    }
}

impl fmt::Display for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(c) = self.as_const() {
            return write!(f, "{c}");
        }
        if self.terms().len() > 1 || self.constant() != 0 {
            f.write_str("(")?;
        }
        for (n, (mono, c)) in self.terms().iter().enumerate() {
            match (n, *c < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            if c.unsigned_abs() != 1 {
                write!(f, "{}*", c.unsigned_abs())?;
            }
            for (k, atom) in mono.iter().enumerate() {
                if k > 0 {
                    f.write_str("*")?;
                }
                write!(f, "{atom}")?;
            }
        }
        match self.constant() {
            0 => {}
            c if c < 0 => write!(f, " - {}", c.unsigned_abs())?,
            c => write!(f, " + {c}")?,
        }
        if self.terms().len() > 1 || self.constant() != 0 {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Parses one expression. `lookup` gives the variable that a name such as `s0` stands for.
pub fn parse_sym(text: &str, lookup: &dyn Fn(&str) -> Option<Var>) -> Result<Sym, String> {
    let mut p = Parser { rest: text, lookup };
    let sym = p.sum()?;
    p.skip();
    if p.rest.is_empty() { Ok(sym) } else { Err(format!("unexpected `{}` in `{text}`", p.rest)) }
}

struct Parser<'a> {
    rest: &'a str,
    lookup: &'a dyn Fn(&str) -> Option<Var>,
}

impl<'a> Parser<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.eat(token) { Ok(()) } else { Err(format!("expected `{token}` before `{}`", self.rest)) }
    }

    fn sum(&mut self) -> Result<Sym, String> {
        let mut acc = if self.eat("-") { -&self.product()? } else { self.product()? };
        loop {
            if self.eat("+") {
                acc = &acc + &self.product()?;
            } else if self.eat("-") {
                acc = &acc - &self.product()?;
            } else {
                return Ok(acc);
            }
        }
    }

    fn product(&mut self) -> Result<Sym, String> {
        let mut acc = self.primary()?;
        loop {
            if self.eat("//") {
                acc = acc.div(&self.primary()?);
            } else if self.eat("*") {
                acc = &acc * &self.primary()?;
            } else if self.eat("%") {
                acc = acc.rem(&self.primary()?);
            } else {
                return Ok(acc);
            }
        }
    }

    fn primary(&mut self) -> Result<Sym, String> {
        if self.eat("(") {
            let inner = self.sum()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.eat("-") {
            return Ok(-&self.primary()?);
        }
        let word = self.word();
        if let Ok(value) = word.parse::<i64>() {
            return Ok(Sym::from(value));
        }
        if word == "min" || word == "max" {
            self.expect("(")?;
            let a = self.sum()?;
            self.expect(",")?;
            let b = self.sum()?;
            self.expect(")")?;
            return Ok(if word == "min" { a.lesser(&b) } else { a.greater(&b) });
        }
        (self.lookup)(word).map(|v| Sym::var(&v)).ok_or_else(|| format!("unknown name `{word}`"))
    }

    fn word(&mut self) -> &'a str {
        self.skip();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }
}
