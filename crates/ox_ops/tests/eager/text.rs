//! The little Python of the golden files.

use crate::case::Statement;
use ox_ir::{DType, Scalar};
use ox_testing::TensorData;

#[derive(Clone, Debug)]
pub enum Expr {
    Name(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    None,
    Str(String),
    DType(DType),
    Ellipsis,
    List(Vec<Expr>),
    Tuple(Vec<Expr>),
    Slice(Vec<Expr>),
}

/// `f32[2,3] 1.0 2.0 ...`
pub fn parse_tensor(text: &str) -> TensorData {
    let (kind, rest) = text.split_once('[').expect("a shape");
    let (shape, values) = rest.split_once(']').expect("the end of the shape");
    let dtype: DType = kind.parse().expect("a dtype");
    let shape: Vec<usize> = shape.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().expect("a size")).collect();
    TensorData::new(dtype, &shape, values.split_whitespace().map(parse_scalar))
}

fn parse_scalar(text: &str) -> Scalar {
    match text {
        "true" => Scalar::Bool(true),
        "false" => Scalar::Bool(false),
        _ => text.parse::<i64>().map(Scalar::Int).unwrap_or_else(|_| Scalar::Float(text.parse().expect("a number"))),
    }
}

/// `a = torch.add(x, 2, alpha=0.5)`
pub fn parse_call(line: &str) -> Statement {
    let (target, call) = match line.split_once(" = ") {
        Some((target, call)) if !target.contains('(') => (Some(target.to_string()), call),
        _ => (None, line),
    };
    let (function, rest) = call.split_once('(').expect("a call");
    let (namespace, name) = function.split_once('.').expect("a namespace");
    let mut p = Parser { rest };
    let (mut args, mut kwargs) = (Vec::new(), Vec::new());
    while !p.eat(")") {
        match p.keyword() {
            Some(name) => kwargs.push((name, p.expr())),
            None => args.push(p.expr()),
        }
        p.eat(",");
    }
    Statement { target, namespace: namespace.into(), name: name.into(), args, kwargs }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        self.rest.strip_prefix(token).map(|rest| self.rest = rest).is_some()
    }

    fn word(&mut self) -> String {
        self.rest = self.rest.trim_start();
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "._-+".contains(c))).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_string()
    }

    fn keyword(&mut self) -> Option<String> {
        let before = self.rest;
        let word = self.word();
        if !word.is_empty() && self.eat("=") {
            return Some(word);
        }
        self.rest = before;
        None
    }

    fn items(&mut self, end: &str) -> Vec<Expr> {
        let mut items = Vec::new();
        while !self.eat(end) {
            items.push(self.expr());
            self.eat(",");
        }
        items
    }

    fn expr(&mut self) -> Expr {
        if self.eat("[") {
            return Expr::List(self.items("]"));
        }
        if self.eat("(") {
            return Expr::Tuple(self.items(")"));
        }
        if self.eat("slice(") {
            return Expr::Slice(slice_parts(self.items(")")));
        }
        if self.eat("'") {
            let (text, rest) = self.rest.split_once('\'').expect("the end of a string");
            let text = text.to_string();
            self.rest = rest;
            return Expr::Str(text);
        }
        word_expr(self.word())
    }
}

/// Python's `slice(stop)`, `slice(start, stop)`, `slice(start, stop, step)`.
fn slice_parts(mut parts: Vec<Expr>) -> Vec<Expr> {
    if parts.len() == 1 {
        parts.insert(0, Expr::None);
    }
    parts.resize(3, Expr::None);
    parts
}

fn word_expr(word: String) -> Expr {
    match word.as_str() {
        "True" => Expr::Bool(true),
        "False" => Expr::Bool(false),
        "None" => Expr::None,
        "..." => Expr::Ellipsis,
        "inf" | "nan" | "-inf" => Expr::Float(word.parse().expect("a float")),
        "torch.bool" => Expr::DType(DType::Bool),
        "torch.uint8" => Expr::DType(DType::U8),
        "torch.int16" => Expr::DType(DType::I16),
        "torch.int64" => Expr::DType(DType::I64),
        "torch.bfloat16" => Expr::DType(DType::BF16),
        "torch.float32" => Expr::DType(DType::F32),
        "torch.float64" => Expr::DType(DType::F64),
        text => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(n), _) => Expr::Int(n),
            (_, Ok(x)) => Expr::Float(x),
            _ => Expr::Name(word),
        },
    }
}
