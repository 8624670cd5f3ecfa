//! Gradients as a graph of their own, to be differentiated once more.
//!
//! Two things are different from a joint graph, whose derivative nobody takes. Where eager stops gradients it stops those of second order, too:
//! such a `Detach` stays. And where a value has a slope that is not its formula's (`Graft`), it keeps it; but the factors in that slope,
//! constants when the first derivative is taken, are functions of the inputs for the second.

use crate::joint::{Joint, Undifferentiable, Wanted, Work, joined};
use crate::partition::retain;
use ox_ir::Graph;
use ox_ir::graph::{Args, NodeId, Op};

/// The inputs of its graph are those of the original, then the gradient of each wanted output; its outputs are the gradients of inputs.
pub fn gradient_graph(graph: &Graph, wanted: &Wanted) -> Result<Joint, Undifferentiable> {
    let Joint { mut graph, inputs, outputs, tangents, gradients } = joined(graph, wanted, copy_faithfully)?;
    graph.outputs.drain(..outputs);
    graph.mutations.clear();
    let graph = retain(graph, |node| match &node.op {
        Op::Input(_) => true,
        Op::Library(library) => library.effect,
        _ => false,
    });
    let gradients = gradients.into_iter().map(|place| place.map(|n| n - outputs as u32)).collect();
    Ok(Joint { graph, inputs, outputs: 0, tangents, gradients })
}

/// Every node as it is. What derivatives are made of are copies of those in which a slope's factors are no constants.
fn copy_faithfully(work: &mut Work<'_>) {
    let on_value_side = value_side(work.old);
    let mut kept: Vec<NodeId> = Vec::with_capacity(work.old.nodes.len());
    for id in work.old.ids() {
        let node = work.old.node(id);
        work.b.stand_at(node.location);
        let [plain, open]: [Args; 2] =
            [&kept, &work.renamed].map(|names| node.args.iter().map(|arg| names[arg.index()]).collect());
        let same = work.b.copy(node, plain.clone());
        kept.push(same);
        let renamed = match &node.op {
            Op::Detach if !on_value_side[id.index()] => open[0],
            Op::Graft | Op::Library(_) | Op::Project(_) => same,
            _ if open == plain => same,
            _ => work.b.copy(node, open),
        };
        work.renamed.push(renamed);
    }
}

/// The nodes that results are made of; the others are parts of slopes.
fn value_side(graph: &Graph) -> Vec<bool> {
    let mut seen = vec![false; graph.nodes.len()];
    graph.roots().for_each(|root| seen[root.index()] = true);
    for id in graph.ids().rev() {
        if seen[id.index()] {
            let node = graph.node(id);
            let of_value = if node.op == Op::Graft { 1 } else { node.args.len() };
            node.args.iter().take(of_value).for_each(|arg| seen[arg.index()] = true);
        }
    }
    seen
}
