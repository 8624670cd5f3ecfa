//! Rules on scalar operations, written as text: `(mul ?x 1)` becomes `?x`.
//!
//! A pattern is a variable `?x ?y ?z`, a number, or an operation by its name in `PointOp`. A number matches a constant of any
//! type that has exactly this value: `0` is not `-0.0`; `true` and `false` match bools only. Arguments of commutative operations match in either order.

use super::{arithmetic, logic, power};
use crate::rewriter::Rewriter;
use ox_ir::graph::{Node, NodeId, Op};
use ox_ir::{DType, PointOp, Scalar, TensorType};
use ox_ops::builder::scalar_of;
use ox_ops::point::convert;
use smallvec::SmallVec;
use std::sync::LazyLock;

/// The types of `?x` for which a rule holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    Any,
    Float,
    /// Integers proper.
    Int,
    Bool,
    /// Integers and bool.
    Bits,
}

impl On {
    pub fn holds(self, dtype: DType) -> bool {
        match self {
            On::Any => !dtype.is_complex(),
            On::Float => dtype.is_float(),
            On::Int => dtype.is_int(),
            On::Bool => dtype == DType::Bool,
            On::Bits => dtype.is_int() || dtype == DType::Bool,
        }
    }
}

/// (name, types of ?x, pattern, replacement).
pub type Row = (&'static str, On, &'static str, &'static str);

/// All rows, in the order in which they are tried.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    arithmetic::ROWS.iter().chain(power::ROWS).chain(logic::ROWS)
}

#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    Var(usize),
    Number(Scalar),
    Apply(PointOp, Vec<Pattern>),
}

struct Compiled {
    name: &'static str,
    on: On,
    args: Vec<Pattern>,
    to: Pattern,
}

/// Compiled rows by the operation at their root.
static RULES: LazyLock<Vec<Vec<Compiled>>> = LazyLock::new(|| {
    let mut by_root: Vec<Vec<Compiled>> = PointOp::ALL.iter().map(|_| Vec::new()).collect();
    for (name, on, from, to) in rows() {
        let Pattern::Apply(root, args) = parse(from) else { panic!("rule {name} has no operation at its root") };
        by_root[root as usize].push(Compiled { name, on: *on, args, to: parse(to) });
    }
    by_root
});

/// Panics on text that is not a pattern: the rows are part of the program, and a test reads them all.
pub fn parse(text: &str) -> Pattern {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let pattern = parse_words(&mut words);
    assert!(words.next().is_none(), "more than one pattern in `{text}`");
    pattern
}

fn parse_words<'a>(words: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> Pattern {
    let word = words.next().expect("a pattern");
    if let Some(place) = ["?x", "?y", "?z"].iter().position(|v| *v == word) {
        return Pattern::Var(place);
    }
    if word != "(" {
        return Pattern::Number(word.parse().unwrap_or_else(|()| panic!("`{word}` is no number")));
    }
    let name = words.next().expect("an operation");
    let op = PointOp::from_name(name).unwrap_or_else(|| panic!("`{name}` is no operation"));
    let args = (0..op.arity()).map(|_| parse_words(words)).collect();
    assert_eq!(words.next(), Some(")"), "too many arguments of {name}");
    Pattern::Apply(op, args)
}

/// What ?x, ?y and ?z stand for.
pub type Bound = [Option<NodeId>; 3];

pub fn apply(graph: &mut Rewriter, node: &Node, op: PointOp) -> Option<(&'static str, NodeId)> {
    for rule in &RULES[op as usize] {
        let Some(bound) = match_args(graph, op, &node.args, &rule.args, Bound::default()) else { continue };
        let x = bound[0].expect("every pattern has an ?x");
        if rule.on.holds(graph.ty(x).dtype) {
            return Some((rule.name, build(graph, &rule.to, &bound, &node.ty)));
        }
    }
    None
}

/// Matches a pattern with an operation at its root.
pub fn matches(graph: &Rewriter, node: &Node, pattern: &Pattern) -> Option<Bound> {
    match pattern {
        Pattern::Apply(op, args) if node.op == Op::Point(*op) => match_args(graph, *op, &node.args, args, Bound::default()),
        _ => None,
    }
}

fn match_args(graph: &Rewriter, op: PointOp, args: &[NodeId], patterns: &[Pattern], bound: Bound) -> Option<Bound> {
    let in_order = |order: &mut dyn Iterator<Item = &NodeId>| {
        order.zip(patterns).try_fold(bound, |bound, (arg, pattern)| match_one(graph, *arg, pattern, bound))
    };
    let straight = in_order(&mut args.iter());
    if straight.is_none() && op.is_commutative() { in_order(&mut args.iter().rev()) } else { straight }
}

fn match_one(graph: &Rewriter, id: NodeId, pattern: &Pattern, mut bound: Bound) -> Option<Bound> {
    match pattern {
        Pattern::Var(place) => match bound[*place] {
            Some(known) => (known == id).then_some(bound),
            None => {
                bound[*place] = Some(id);
                Some(bound)
            }
        },
        Pattern::Number(value) => {
            let dtype = graph.ty(id).dtype;
            let found = convert(graph.constant(id)?, dtype);
            (found == convert(*value, dtype) && fits(dtype, *value)).then_some(bound)
        }
        Pattern::Apply(op, patterns) => {
            let node = graph.node(id);
            (node.op == Op::Point(*op)).then(|| match_args(graph, *op, &node.args, patterns, bound))?
        }
    }
}

/// Whether a type has this value, up to the rounding of floats: 2 is no bool, 0.5 no integer, `true` a bool only.
fn fits(dtype: DType, value: Scalar) -> bool {
    if matches!(value, Scalar::Bool(_)) && dtype != DType::Bool {
        return false;
    }
    scalar_of(dtype, value).as_f64() == value.as_f64()
}

/// Numbers inside of the replacement have the type of ?x, one at its root that of the node.
fn build(graph: &mut Rewriter, to: &Pattern, bound: &Bound, ty: &TensorType) -> NodeId {
    match to {
        Pattern::Var(place) => bound[*place].expect("the pattern binds what the replacement uses"),
        Pattern::Number(value) => graph.full(scalar_of(ty.dtype, *value), ty.clone()),
        Pattern::Apply(op, args) => {
            let of_x = graph.ty(bound[0].expect("every pattern has an ?x")).clone();
            let args: SmallVec<[NodeId; 3]> = args.iter().map(|a| build(graph, a, bound, &of_x)).collect();
            graph.point(*op, &args)
        }
    }
}
