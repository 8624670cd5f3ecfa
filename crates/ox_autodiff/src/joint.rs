//! The graph with the gradients of its inputs.

use crate::active::{reached, requires_grad};
use crate::prepare::prepare;
use crate::strides::of_gradient;
use ox_ir::graph::{Args, Combine, GraphInput, GraphOutput, Memory, Node, NodeId, Op, ReduceOp, contiguous_strides};
use ox_ir::{DType, Device, Graph, Scalar, Sym};
use ox_ops::derive::{FusedAttention, Gradients, Site, derive};
use ox_ops::{Builder, OpError, OpResult};

/// Between which inputs and outputs gradients are asked for: the inputs that require grad, and the outputs that will have one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub inputs: Vec<bool>,
    pub outputs: Vec<bool>,
    /// The kernels that attention on a GPU may be.
    pub attention: FusedAttention,
    pub held: Held,
}

/// The inputs and outputs that eager holds until the gradients are computed: whoever writes to them is told so. The others may be written by then,
/// and what gradients need of them is copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    pub inputs: Vec<bool>,
    pub outputs: Vec<bool>,
    /// The outputs that the program itself writes before gradients are computed. Of those that nobody holds large ones are copied, too.
    pub written: Vec<bool>,
}

impl Held {
    /// Nothing is known of results.
    pub fn all_inputs(graph: &Graph) -> Held {
        let none = vec![false; graph.outputs.len()];
        Held { inputs: vec![true; graph.inputs.len()], outputs: none.clone(), written: none }
    }
}

/// A node that has no derivative although a gradient reaches it. It is a node of the graph that was given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{why} ({node})")]
pub struct Undifferentiable {
    pub node: NodeId,
    pub why: String,
    /// Sizes that must be equal for it to have one, where a front end has hints: they were when the program ran.
    pub open: Option<(Sym, Sym)>,
}

/// The inputs of `graph` are those of the original, then the gradient of each wanted output; its outputs are those of the original,
/// then the gradients of inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Joint {
    pub graph: Graph,
    /// How many inputs and outputs the original has.
    pub inputs: usize,
    pub outputs: usize,
    /// For each gradient that comes in, the output that it belongs to.
    pub tangents: Vec<u32>,
    /// For each input of the original, which of the graph's outputs is its gradient; None if nothing depends on it, or nobody asks.
    pub gradients: Vec<Option<u32>>,
}

pub fn joint(graph: &Graph, wanted: &Wanted) -> Result<Joint, Undifferentiable> {
    joined(graph, wanted, |work| work.copy_forward())
}

/// `copy` brings the original into the new graph.
pub fn joined(graph: &Graph, wanted: &Wanted, copy: fn(&mut Work<'_>)) -> Result<Joint, Undifferentiable> {
    check_mutations(graph, wanted)?;
    let prepared = prepare(graph, wanted)?;
    let origin = |error: Undifferentiable| Undifferentiable { node: prepared.origin[error.node.index()], ..error };
    differentiate(&prepared.graph, wanted, copy).map_err(origin)
}

fn differentiate(graph: &Graph, wanted: &Wanted, copy: fn(&mut Work<'_>)) -> Result<Joint, Undifferentiable> {
    let active = requires_grad(graph, wanted);
    let reached = reached(graph, wanted, &active);
    let mut work = Work::new(graph, active, reached);
    copy(&mut work);
    let tangents = work.seed(wanted);
    work.walk_back()?;
    Ok(work.finish(wanted, tangents))
}

/// Writing a tensor that carries a gradient changes the graph that autograd sees of it; that is eager's to do.
fn check_mutations(graph: &Graph, wanted: &Wanted) -> Result<(), Undifferentiable> {
    let active = requires_grad(graph, wanted);
    let of_input = |n: u32| wanted.inputs.get(n as usize).copied().unwrap_or(false);
    match graph.mutations.iter().find(|m| of_input(m.input) || active[m.value.index()]) {
        None => Ok(()),
        Some(mutation) => {
            let why = format!("input {} is written and requires grad", mutation.input);
            Err(Undifferentiable { node: mutation.value, why, open: None })
        }
    }
}

pub struct Work<'a> {
    pub old: &'a Graph,
    pub b: Builder,
    active: Vec<bool>,
    reached: Vec<bool>,
    /// Old nodes in the new graph.
    pub renamed: Vec<NodeId>,
    /// By old node, the sum of the gradients so far.
    grads: Vec<Option<NodeId>>,
    /// By old library call, those of its outputs.
    calls: Vec<Vec<Option<NodeId>>>,
}

impl<'a> Work<'a> {
    fn new(old: &'a Graph, active: Vec<bool>, reached: Vec<bool>) -> Work<'a> {
        let empty = Graph { nodes: Vec::new(), outputs: Vec::new(), mutations: Vec::new(), ..old.clone() };
        let device = old.inputs.iter().map(|input| input.ty.device).find(|d| *d != Device::Cpu).unwrap_or_default();
        let count = old.nodes.len();
        Work {
            old,
            b: Builder::resume(empty, device),
            active,
            reached,
            renamed: Vec::with_capacity(count),
            grads: vec![None; count],
            calls: vec![Vec::new(); count],
        }
    }

    /// The original, without what only said where gradients flow.
    fn copy_forward(&mut self) {
        for id in self.old.ids() {
            let node = self.old.node(id);
            let args: Args = node.args.iter().map(|arg| self.renamed[arg.index()]).collect();
            self.b.stand_at(node.location);
            let new = match &node.op {
                // A call that is made for its derivative gives the value, too.
                Op::Graft if matches!(self.old.node(node.args[1]).op, Op::Project(_)) => args[1],
                Op::Detach | Op::Graft => args[0],
                _ => self.b.copy(node, args),
            };
            self.renamed.push(new);
        }
    }

    /// One input for the gradient of each wanted output.
    fn seed(&mut self, wanted: &Wanted) -> Vec<u32> {
        let mut tangents = Vec::new();
        self.b.stand_at(0);
        for (n, output) in self.old.outputs.iter().enumerate() {
            if !wanted.outputs.get(n).copied().unwrap_or(false) {
                continue;
            }
            let ty = self.old.ty(output.value).clone();
            let strides = contiguous_strides(&ty.shape);
            let input = GraphInput { name: format!("grad_{n}"), ty, strides, frozen: false, packed: false };
            let grad = self.b.input(input);
            tangents.push(n as u32);
            if self.reached[output.value.index()] {
                self.accumulate(output.value, grad);
            }
        }
        tangents
    }

    /// Later uses come first, as in eager: the sum is rounded in the same order.
    fn walk_back(&mut self) -> Result<(), Undifferentiable> {
        for id in self.old.ids().rev() {
            if self.reached[id.index()] {
                self.step(id).map_err(|error| refuse(id, error))?;
            }
        }
        Ok(())
    }
}

pub fn refuse(node: NodeId, error: OpError) -> Undifferentiable {
    let open = match &error {
        OpError::Undecided(a, b) => Some((a.clone(), b.clone())),
        _ => None,
    };
    let why = match error {
        OpError::Unsupported(why) => why,
        other => other.to_string(),
    };
    Undifferentiable { node, why, open }
}

/// A gradient that is summed up in zeros (rows of a table) is summed up in the one that is there instead: a tied table is large, and neither
/// the zeros nor the sum of two of its size need to be written. Half types round the sum of the rows by itself.
fn scattered(graph: &Graph, known: NodeId, grad: NodeId) -> Option<(Node, Args)> {
    let node = graph.node(grad);
    let sums = matches!(node.op, Op::IndexPut { combine: Combine::With(ReduceOp::Sum), .. });
    let into_zeros = || matches!(graph.node(node.args[0]).op, Op::Full(value) if value.as_f64() == 0.0);
    if !sums || !matches!(node.ty.dtype, DType::F32 | DType::F64) || !into_zeros() {
        return None;
    }
    let mut args = node.args.clone();
    args[0] = known;
    Some((node.clone(), args))
}

impl Work<'_> {
    fn accumulate(&mut self, at: NodeId, grad: NodeId) {
        let node = self.old.node(at);
        if let Op::Project(n) = node.op {
            let (call, n) = (node.args[0].index(), n as usize);
            let slots = &mut self.calls[call];
            slots.resize(slots.len().max(n + 1), None);
            let known = slots[n];
            let sum = self.sum(known, grad);
            self.calls[call][n] = Some(sum);
        } else {
            self.grads[at.index()] = Some(self.sum(self.grads[at.index()], grad));
        }
    }

    fn sum(&mut self, known: Option<NodeId>, grad: NodeId) -> NodeId {
        let Some(known) = known else { return grad };
        match scattered(self.b.graph(), known, grad) {
            Some((node, args)) => self.b.copy(&node, args),
            None => self.b.point(ox_ir::PointOp::Add, &[known, grad]).expect("gradients of one value have one type"),
        }
    }

    fn step(&mut self, id: NodeId) -> OpResult<()> {
        let old = self.old.node(id);
        let grads = match &old.op {
            Op::Project(_) | Op::Input(_) => return Ok(()),
            Op::Library(_) => std::mem::take(&mut self.calls[id.index()]),
            _ => vec![self.grads[id.index()]],
        };
        if grads.iter().all(Option::is_none) {
            return Ok(());
        }
        let wanted: Vec<bool> = old.args.iter().map(|arg| self.active[arg.index()]).collect();
        let gradients = self.derive(old, self.renamed[id.index()], &grads, &wanted)?;
        for (arg, grad) in old.args.iter().zip(gradients) {
            if let Some(grad) = grad.filter(|_| self.active[arg.index()]) {
                self.accumulate(*arg, grad);
            }
        }
        Ok(())
    }

    fn derive(&mut self, old: &Node, result: NodeId, grads: &[Option<NodeId>], wanted: &[bool]) -> OpResult<Gradients> {
        let args: Args = old.args.iter().map(|arg| self.renamed[arg.index()]).collect();
        let node = Node { args, ..old.clone() };
        self.b.stand_at(old.location);
        derive(&mut self.b, &Site { node: &node, result, grads, wanted })
    }

    fn finish(self, wanted: &Wanted, tangents: Vec<u32>) -> Joint {
        let Work { old, mut b, reached, renamed, grads, .. } = self;
        b.stand_at(0);
        let mut outputs: Vec<GraphOutput> =
            old.outputs.iter().map(|o| GraphOutput { value: renamed[o.value.index()], ..o.clone() }).collect();
        let mut gradients = vec![None; old.inputs.len()];
        for id in old.ids() {
            let Op::Input(n) = old.node(id).op else { continue };
            let n = n as usize;
            if !wanted.inputs[n] || !reached[id.index()] {
                continue;
            }
            // Eager gives zeros where a gradient arrives by way of a constant function.
            let value = grads[id.index()].unwrap_or_else(|| b.full_like(Scalar::Float(0.0), renamed[id.index()]));
            gradients[n] = Some(outputs.len() as u32);
            let input = &old.inputs[n];
            outputs.push(GraphOutput {
                value,
                strides: of_gradient(&input.ty.shape, &input.strides),
                alias: None,
                memory: Memory::Any,
            });
        }
        let mut mutations = old.mutations.clone();
        mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
        let graph = b.finish(outputs, mutations);
        Joint { graph, inputs: old.inputs.len(), outputs: old.outputs.len(), tangents, gradients }
    }
}
