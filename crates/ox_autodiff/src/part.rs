//! The part of a backward graph that some of its gradients need, given that some come in.

use crate::active::carries;
use crate::partition::{Source, retain};
use ox_ir::graph::{Args, Node, NodeId, Op};
use ox_ir::{Graph, PointOp, Scalar};

/// A backward graph for some gradients.
pub struct Part {
    pub graph: Graph,
    /// For each input of the whole, whether it is one of the part's; their order is the same.
    pub inputs: Vec<bool>,
}

/// `present`: for each result of the forward graph, whether it has a gradient. `wanted`: for each output of the backward graph, whether it is
/// asked for. What is computed of absent gradients alone is nothing, as eager's undefined gradients are: not zero times what was saved, which
/// may be infinite.
pub fn part(graph: &Graph, sources: &[Source], present: &[bool], wanted: &[bool]) -> Part {
    let made = without_nothing(graph, &nothing(graph, sources, present), wanted);
    only_used(retain(made, |_| false))
}

/// By node, whether it is made of absent gradients alone.
fn nothing(graph: &Graph, sources: &[Source], present: &[bool]) -> Vec<bool> {
    let of = |gradient: &dyn Fn(bool) -> bool| {
        let mut behind = vec![false; graph.nodes.len()];
        for (n, node) in graph.nodes.iter().enumerate() {
            behind[n] = match node.op {
                Op::Input(input) => matches!(sources[input as usize], Source::Gradient(of) if gradient(present[of as usize])),
                _ => node.args.iter().any(|arg| behind[arg.index()]),
            };
        }
        behind
    };
    let (of_any, of_present) = (of(&|_| true), of(&|present| present));
    let is_gradient = |node: &Node| carries(node) || matches!(node.op, Op::Library(_) | Op::Project(_));
    (0..graph.nodes.len()).map(|n| of_any[n] && !of_present[n] && is_gradient(&graph.nodes[n])).collect()
}

fn without_nothing(graph: &Graph, nothing: &[bool], wanted: &[bool]) -> Graph {
    let mut wanted = wanted.iter();
    let outputs = graph.outputs.iter().filter(|_| *wanted.next().unwrap_or(&false)).cloned().collect();
    let mut made = Graph { nodes: Vec::with_capacity(graph.nodes.len()), outputs, ..graph.clone() };
    let mut renamed: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for id in graph.ids() {
        let node = graph.node(id);
        let args: Args = node.args.iter().map(|arg| renamed[arg.index()]).collect();
        let new = match sole_term(graph, node, nothing) {
            _ if nothing[id.index()] => made.push(zeros(node)),
            Some(term) => renamed[term.index()],
            None => made.push(Node { args, ..node.clone() }),
        };
        renamed.push(new);
    }
    made.outputs.iter_mut().for_each(|output| output.value = renamed[output.value.index()]);
    made
}

/// Of a sum of two gradients the one that there is.
fn sole_term(graph: &Graph, node: &Node, nothing: &[bool]) -> Option<NodeId> {
    let [a, b] = node.args[..] else { return None };
    let term = match (nothing[a.index()], nothing[b.index()]) {
        (true, false) => b,
        (false, true) => a,
        _ => return None,
    };
    (node.op == Op::Point(PointOp::Add) && *graph.ty(term) == node.ty).then_some(term)
}

fn zeros(node: &Node) -> Node {
    Node { op: Op::Full(Scalar::Float(0.0)), args: Args::new(), ..node.clone() }
}

/// Without the inputs that no node stands for.
fn only_used(mut graph: Graph) -> Part {
    let mut inputs = vec![false; graph.inputs.len()];
    for node in &graph.nodes {
        if let Op::Input(n) = node.op {
            inputs[n as usize] = true;
        }
    }
    let mut used = inputs.iter();
    graph.inputs.retain(|_| *used.next().unwrap_or(&false));
    let number = |n: u32| inputs[..n as usize].iter().filter(|used| **used).count() as u32;
    for node in &mut graph.nodes {
        if let Op::Input(n) = &mut node.op {
            *n = number(*n);
        }
    }
    Part { graph, inputs }
}
