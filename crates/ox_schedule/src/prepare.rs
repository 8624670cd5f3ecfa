//! Makes a graph ready: what the later steps may then take for granted.
//!
//! - No computed value is empty (an empty tensor is a constant, a reduction over nothing is its neutral element).
//! - An output or a write-back that would hand out memory it must not share, or in strides its value does not have, is a copy
//!   (a `Cast` to the same type).
//! - Dead nodes are gone.

use crate::layout::{channels_last, is_dense, is_memory, resolve, same_strides, view_base};
use ox_ir::graph::{Node, ReduceOp, Shape, contiguous_strides};
use ox_ir::{DType, Graph, NodeId, Op, Scalar, Sym, TensorType};
use rustc_hash::FxHashSet;

pub fn prepare(graph: &Graph) -> Graph {
    let mut graph = copy_call_args(&replace_empty(graph));
    copy_write_backs(&mut graph);
    copy_outputs(&mut graph);
    drop_dead(&graph)
}

/// A library call takes strided memory: an argument that is a view that strides cannot express is copied first, and
/// the batch dimensions of a matrix product are made one.
fn copy_call_args(graph: &Graph) -> Graph {
    let mut out = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..graph.clone() };
    let mut renamed: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for id in graph.ids() {
        let mut node = graph.node(id).clone();
        node.args.iter_mut().for_each(|a| *a = renamed[a.index()]);
        let flatten = matches!(node.op, Op::Matmul { .. }) && node.ty.rank() > 3;
        let ty = node.ty.clone();
        if flatten {
            node.ty.shape = flat_batch(&node.ty.shape);
            for k in 0..node.args.len() {
                let (arg, rank) = (node.args[k], out.ty(node.args[k]).rank());
                if rank > 3 {
                    let shape = flat_batch(&out.ty(arg).shape);
                    node.args[k] = push_view(&mut out, arg, Op::Reshape, shape);
                }
            }
        }
        if node.op.is_call() {
            for k in 0..node.args.len() {
                if resolve(&out, node.args[k], &|id| default_strides(&out, id)).is_none() {
                    node.args[k] = push_copy(&mut out, node.args[k]);
                }
            }
        }
        let made = out.push(node);
        renamed.push(if flatten { push_view(&mut out, made, Op::Reshape, ty.shape) } else { made });
    }
    out.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
    out.mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
    out
}

fn flat_batch(shape: &[Sym]) -> Shape {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    std::iter::once(batch.iter().product()).chain(matrix.iter().cloned()).collect()
}

fn push_view(graph: &mut Graph, of: NodeId, op: Op, shape: Shape) -> NodeId {
    let (ty, location) = (graph.ty(of).with_shape(shape), graph.node(of).location);
    graph.push(Node { op, args: [of].into_iter().collect(), ty, location })
}

fn is_empty(ty: &TensorType) -> bool {
    ty.shape.iter().any(|n| n.is_zero())
}

fn replace_empty(graph: &Graph) -> Graph {
    let mut out = graph.clone();
    for id in graph.ids() {
        let node = graph.node(id);
        if matches!(node.op, Op::Input(_) | Op::Library(_) | Op::Project(_)) {
            continue;
        }
        let constant = match &node.op {
            _ if is_empty(&node.ty) => Some(Scalar::Int(0)),
            Op::Reduce { op, .. } if is_empty(graph.ty(node.args[0])) => neutral(*op, node.ty.dtype),
            Op::Matmul { bias: false, add: false, .. } if is_empty(graph.ty(node.args[0])) => Some(Scalar::Int(0)),
            _ => None,
        };
        if let Some(value) = constant {
            let node = &mut out.nodes[id.index()];
            node.op = Op::Full(value);
            node.args.clear();
        } else if matches!(node.op, Op::Cat { .. }) {
            out.nodes[id.index()].args.retain(|a| !is_empty(graph.ty(*a)));
        }
    }
    out
}

/// What a reduction over no elements gives, where torch defines it.
pub fn neutral(op: ReduceOp, dtype: DType) -> Option<Scalar> {
    match op {
        ReduceOp::Sum => Some(Scalar::Int(0)),
        ReduceOp::Prod => Some(Scalar::Int(1)),
        ReduceOp::Any => Some(Scalar::Bool(false)),
        ReduceOp::All => Some(Scalar::Bool(true)),
        ReduceOp::Max if dtype.is_float() => Some(Scalar::Float(f64::NEG_INFINITY)),
        ReduceOp::Min if dtype.is_float() => Some(Scalar::Float(f64::INFINITY)),
        _ => None,
    }
}

fn push_copy(graph: &mut Graph, of: NodeId) -> NodeId {
    let (ty, location) = (graph.ty(of).clone(), graph.node(of).location);
    graph.push(Node { op: Op::Cast, args: [of].into_iter().collect(), ty, location })
}

/// A write-back reads its value after other inputs may have been overwritten, so it must not read an input.
fn copy_write_backs(graph: &mut Graph) {
    for k in 0..graph.mutations.len() {
        let value = graph.mutations[k].value;
        let base = view_base(graph, value);
        let strided = resolve(graph, value, &|id| contiguous_strides(&graph.ty(id).shape)).is_some();
        if matches!(graph.node(base).op, Op::Input(_)) || !strided {
            graph.mutations[k].value = push_copy(graph, value);
        }
    }
}

fn copy_outputs(graph: &mut Graph) {
    let mut taken: FxHashSet<NodeId> = FxHashSet::default();
    for k in 0..graph.outputs.len() {
        if graph.outputs[k].alias.is_some() {
            continue;
        }
        let value = graph.outputs[k].value;
        let base = view_base(graph, value);
        if !can_return(graph, k, base) || !taken.insert(base) {
            let copy = push_copy(graph, value);
            graph.outputs[k].value = copy;
            taken.insert(copy);
        }
    }
}

/// Whether output `k` can be a window on the memory of `base` as the scheduler will lay it out.
fn can_return(graph: &Graph, k: usize, base: NodeId) -> bool {
    let output = &graph.outputs[k];
    let op = &graph.node(base).op;
    let shape = &graph.ty(output.value).shape;
    if matches!(op, Op::Input(_)) {
        return false;
    }
    if base == output.value && !is_memory(op) {
        return is_dense(shape, &output.strides);
    }
    let strides = |id: NodeId| default_strides(graph, id);
    resolve(graph, output.value, &strides).is_some_and(|s| same_strides(shape, &s.strides, &output.strides))
}

/// The strides that a node's memory has unless an output asks for others.
pub fn default_strides(graph: &Graph, id: NodeId) -> Shape {
    let node = graph.node(id);
    match &node.op {
        Op::Input(n) => graph.inputs[*n as usize].strides.clone(),
        Op::Project(n) => project_strides(graph, node.args[0], *n),
        Op::Conv(_) => conv_strides(graph, node),
        Op::Attention(_) => attention_strides(&node.ty.shape),
        _ => contiguous_strides(&node.ty.shape),
    }
}

/// A convolution answers in the memory order of its input.
fn conv_strides(graph: &Graph, node: &Node) -> Shape {
    let input = resolve(graph, node.args[0], &|id| default_strides(graph, id)).map(|s| s.strides);
    let given = &graph.ty(node.args[0]).shape;
    let is_last = |s: &Shape| {
        channels_last(given).is_some_and(|c| same_strides(given, s, &c)) && !same_strides(given, s, &contiguous_strides(given))
    };
    match channels_last(&node.ty.shape) {
        Some(strides) if input.as_ref().is_some_and(is_last) => strides,
        _ => contiguous_strides(&node.ty.shape),
    }
}

/// torch's attention kernel writes the heads of one position side by side.
fn attention_strides(shape: &[Sym]) -> Shape {
    let [_, heads, rows, width] = shape else { return contiguous_strides(shape) };
    let row = heads * width;
    Shape::from_iter([rows * &row, width.clone(), row, Sym::ONE])
}

fn project_strides(graph: &Graph, call: NodeId, n: u32) -> Shape {
    let node = graph.node(call);
    let Op::Library(library) = &node.op else { unreachable!("Project of a node that is no library call") };
    match library.outs.get(n as usize) {
        Some(out) => out.strides.clone(),
        None => {
            let arg = node.args[library.mutates[n as usize - library.outs.len()] as usize];
            contiguous_strides(&graph.ty(arg).shape)
        }
    }
}

/// Keeps what outputs, write-backs and effects need; inputs stay, since their numbers are the caller's.
fn drop_dead(graph: &Graph) -> Graph {
    let mut live = vec![false; graph.nodes.len()];
    for id in graph.roots() {
        live[id.index()] = true;
    }
    for id in graph.ids().rev() {
        let node = graph.node(id);
        live[id.index()] |= matches!(&node.op, Op::Library(l) if l.effect);
        if live[id.index()] {
            node.args.iter().for_each(|a| live[a.index()] = true);
        }
    }
    let mut out = Graph { nodes: Vec::new(), ..graph.clone() };
    let mut renamed = vec![NodeId(u32::MAX); graph.nodes.len()];
    for id in graph.ids().filter(|id| live[id.index()]) {
        let mut node = graph.node(id).clone();
        node.args.iter_mut().for_each(|a| *a = renamed[a.index()]);
        renamed[id.index()] = out.push(node);
    }
    out.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
    out.mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
    out
}
