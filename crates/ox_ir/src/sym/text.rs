//! The text form: `4*s0 + i1`, `(s0 + 1)//2`, `i0%3`, `min(s0, 8)`.

use super::{Atom, Sym, Var, VarKind};
use crate::text::ParseError;
use crate::text::cursor::{Cursor, Parsed};
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

/// A division or remainder stands without parentheses, since `*`, `//` and `%` are read from the left; a product puts them around it.
impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Var(v) => write!(f, "{v}"),
            Atom::Div(p) => write!(f, "{}//{}", Operand(&p.0), Operand(&p.1)),
            Atom::Mod(p) => write!(f, "{}%{}", Operand(&p.0), Operand(&p.1)),
            Atom::Min(p) => write!(f, "min({}, {})", p.0, p.1),
            Atom::Max(p) => write!(f, "max({}, {})", p.0, p.1),
        }
    }
}

/// An operand of a division: in parentheses unless it is a variable or a number.
struct Operand<'a>(&'a Sym);

impl fmt::Display for Operand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simple = self.0.as_var().is_some() || self.0.as_const().is_some_and(|c| c >= 0);
        if simple { write!(f, "{}", self.0) } else { write!(f, "({})", self.0) }
    }
}

impl fmt::Display for Sym {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(c) = self.as_const() {
            return write!(f, "{c}");
        }
        for (n, (mono, c)) in self.terms().iter().enumerate() {
            f.write_str(match (n, *c < 0) {
                (0, true) => "-",
                (0, false) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            })?;
            print_term(f, mono, c.unsigned_abs(), *c < 0)?;
        }
        match self.constant() {
            0 => Ok(()),
            c if c < 0 => write!(f, " - {}", c.unsigned_abs()),
            c => write!(f, " + {c}"),
        }
    }
}

fn print_term(f: &mut fmt::Formatter<'_>, mono: &[Atom], coeff: u64, negative: bool) -> fmt::Result {
    if coeff != 1 {
        write!(f, "{coeff}*")?;
    }
    let alone = coeff == 1 && mono.len() == 1 && !negative;
    for (k, atom) in mono.iter().enumerate() {
        if k > 0 {
            f.write_str("*")?;
        }
        match atom {
            Atom::Div(_) | Atom::Mod(_) if !alone => write!(f, "({atom})")?,
            _ => write!(f, "{atom}")?,
        }
    }
    Ok(())
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
pub fn parse_sym(text: &str, lookup: &dyn Fn(&str) -> Option<Var>) -> Result<Sym, ParseError> {
    let mut cursor = Cursor::new(text);
    let sym = parse_sym_at(&mut cursor, lookup)?;
    if cursor.at_end() { Ok(sym) } else { Err(cursor.expected("the end of the expression")) }
}

/// Parses the longest expression at the cursor.
pub(crate) fn parse_sym_at(cursor: &mut Cursor<'_>, lookup: &dyn Fn(&str) -> Option<Var>) -> Parsed<Sym> {
    Parser { cursor, lookup }.sum()
}

struct Parser<'a, 't> {
    cursor: &'a mut Cursor<'t>,
    lookup: &'a dyn Fn(&str) -> Option<Var>,
}

impl Parser<'_, '_> {
    fn sum(&mut self) -> Parsed<Sym> {
        let mut acc = self.product()?;
        loop {
            if self.cursor.eat("+") {
                acc = &acc + &self.product()?;
            } else if self.cursor.eat("-") {
                acc = &acc - &self.product()?;
            } else {
                return Ok(acc);
            }
        }
    }

    fn product(&mut self) -> Parsed<Sym> {
        let mut acc = self.primary()?;
        loop {
            if self.cursor.eat("//") {
                acc = acc.div(&self.primary()?);
            } else if self.cursor.eat("*") {
                acc = &acc * &self.primary()?;
            } else if self.cursor.eat("%") {
                acc = acc.rem(&self.primary()?);
            } else {
                return Ok(acc);
            }
        }
    }

    fn primary(&mut self) -> Parsed<Sym> {
        if self.cursor.eat("(") {
            let inner = self.sum()?;
            self.cursor.expect(")")?;
            return Ok(inner);
        }
        if self.cursor.eat("-") {
            return self.negated();
        }
        let word = self.cursor.peek_word();
        if word == "min" || word == "max" {
            return self.extremum();
        }
        let value = word.parse::<i64>().map(Sym::from).ok().or_else(|| (self.lookup)(word).map(|v| Sym::var(&v)));
        let Some(value) = value else { return Err(self.cursor.expected("a size expression")) };
        self.cursor.word()?;
        Ok(value)
    }

    /// Behind a minus sign. The least i64 has no positive counterpart, so the digits are read together with the sign.
    fn negated(&mut self) -> Parsed<Sym> {
        match format!("-{}", self.cursor.peek_word()).parse::<i64>() {
            Ok(value) => {
                self.cursor.word()?;
                Ok(Sym::from(value))
            }
            Err(_) => Ok(-&self.primary()?),
        }
    }

    fn extremum(&mut self) -> Parsed<Sym> {
        let least = self.cursor.word()? == "min";
        self.cursor.expect("(")?;
        let a = self.sum()?;
        self.cursor.expect(",")?;
        let b = self.sum()?;
        self.cursor.expect(")")?;
        Ok(if least { a.lesser(&b) } else { a.greater(&b) })
    }
}
