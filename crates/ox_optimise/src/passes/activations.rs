//! Activation functions, found in the scalar operations that they are written as.

use crate::rewriter::Rewriter;
use crate::rules::pattern::{Bound, Pattern, matches, parse};
use ox_ir::graph::{Node, NodeId, Op, Post};
use ox_ir::{PointOp, Scalar};
use std::sync::LazyLock;

/// (formula, how often it reads ?x, what it is). ?y and ?z are constants.
type Row = (&'static str, u32, fn(&[Option<Scalar>; 3]) -> Option<Post>);

const FORMULAS: &[Row] = &[
    ("(maximum ?x 0)", 1, |_| Some(Post::Relu)),
    ("(sigmoid ?x)", 1, |_| Some(Post::Sigmoid)),
    ("(tanh ?x)", 1, |_| Some(Post::Tanh)),
    ("(div ?x (add (exp (neg ?x)) 1))", 2, |_| Some(Post::Silu)),
    ("(mul ?x (sigmoid ?x))", 2, |_| Some(Post::Silu)),
    ("(minimum (maximum ?x ?y) ?z)", 1, |c| Some(Post::Hardtanh(c[1]?, c[2]?))),
    ("(where (gt ?x 0) ?x (mul ?x ?y))", 3, |c| Some(Post::LeakyRelu(c[1]?))),
    ("(div (mul ?x (minimum (maximum (add ?x 3) 0) 6)) 6)", 2, |_| Some(Post::Hardswish)),
    ("(mul (mul ?x 0.5) (add (erf (mul ?x 0.7071067811865476)) 1))", 2, |_| Some(Post::Gelu(false))),
    ("(mul (mul ?x 0.5) (add (tanh (mul (add ?x (mul (mul (mul ?x ?x) ?x) 0.044715)) 0.7978845608028654)) 1))", 5, |_| {
        Some(Post::Gelu(true))
    }),
];

struct Formula {
    root: PointOp,
    pattern: Pattern,
    reads: u32,
    post: fn(&[Option<Scalar>; 3]) -> Option<Post>,
}

static COMPILED: LazyLock<Vec<Formula>> = LazyLock::new(|| {
    let compile = |(text, reads, post): &Row| {
        let pattern = parse(text);
        let Pattern::Apply(root, _) = pattern else { panic!("`{text}` is no operation") };
        Formula { root, pattern, reads: *reads, post: *post }
    };
    FORMULAS.iter().map(compile).collect()
});

/// The activation that ends in `node`, and what it is taken of; only if nothing else reads that or anything in between.
pub fn find(graph: &Rewriter, node: &Node) -> Option<(NodeId, Post)> {
    let Op::Point(op) = node.op else { return None };
    COMPILED.iter().filter(|f| f.root == op).find_map(|formula| {
        let bound: Bound = matches(graph, node, &formula.pattern)?;
        let x = bound[0]?;
        let post = (formula.post)(&bound.map(|id| id.and_then(|id| graph.constant(id))))?;
        (graph.uses(x) == formula.reads && is_private(graph, &node.args, x)).then_some((x, post))
    })
}

/// Whether every value between `args` and `x` is used once.
fn is_private(graph: &Rewriter, args: &[NodeId], x: NodeId) -> bool {
    args.iter().all(|id| {
        let node = graph.node(*id);
        *id == x || graph.constant(*id).is_some() || (graph.uses(*id) == 1 && is_private(graph, &node.args, x))
    })
}
