//! Makes a graph ready and decides how its values lie in memory. What the later steps may then take for granted:
//!
//! - Every node has strides, used if it gets memory of its own.
//! - Arguments of library calls are strided views of memory; matrix products have at most one batch dimension.
//! - An output or a write-back that would hand out memory it must not share, or in strides its value does not have, is a copy
//!   (a `Cast` to the same type).
//! - Dead nodes are gone.

use crate::cost::{estimate, numel};
use crate::foresee::{is_conv_backward, is_gpu_conv_backward};
use crate::layout::{
    channels_last, is_channels_last, is_dense, is_folded, is_memory, is_spread, resolve, same_strides, view_base,
};
use crate::parts::{begins, is_whole, suits, tenants, whole_strides};
use crate::{ScheduleError, ScheduleOptions, Target};
use ox_ir::graph::{Alias, GraphOutput, Memory, Node, Shape, contiguous_strides};
use ox_ir::{DType, Device, Graph, NodeId, Op, Sym};
use rustc_hash::{FxHashMap, FxHashSet};

/// How many nodes are looked at before a value counts as far away.
const FAR: usize = 64;

pub struct Prepared {
    pub graph: Graph,
    strides: Vec<Shape>,
    /// Copies of values for convolutions, by the order they are in: weights that many share are copied once.
    copies: FxHashMap<(NodeId, bool), NodeId>,
}

pub fn prepare(graph: &Graph, options: &ScheduleOptions) -> Result<Prepared, ScheduleError> {
    let mut out = Prepared::empty(Graph { nodes: Vec::new(), ..graph.clone() });
    let wishes = Wishes::of(graph, options);
    let mut renamed: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for id in graph.ids() {
        let mut node = graph.node(id).clone();
        node.args.iter_mut().for_each(|a| *a = renamed[a.index()]);
        let made = out.add(node, wishes.strides[id.index()].clone(), wishes.last.get(&id).copied());
        renamed.push(made);
    }
    out.graph.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
    out.graph.mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
    out.copy_write_backs();
    out.copy_outputs()?;
    Ok(out.without_dead())
}

fn has_sizes<'a>(mut all: impl Iterator<Item = &'a Sym>) -> bool {
    all.any(|size| size.as_const().is_none())
}

/// How the outputs from the n-th on would lie if nobody asked for strides.
pub fn natural_layouts(graph: &Graph, n: usize, options: &ScheduleOptions) -> Vec<Shape> {
    let mut free = graph.clone();
    let asked = free.outputs.split_off(n);
    let wishes = Wishes::of(&free, options);
    let mut out = Prepared::empty(Graph { nodes: Vec::new(), ..free });
    let mut renamed: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for id in graph.ids() {
        let mut node = graph.node(id).clone();
        node.args.iter_mut().for_each(|a| *a = renamed[a.index()]);
        renamed.push(out.add(node, wishes.strides[id.index()].clone(), wishes.last.get(&id).copied()));
    }
    let lies = |id: NodeId| out.resolved(renamed[id.index()]).filter(|strides| is_dense(&graph.ty(id).shape, strides));
    asked.iter().map(|o| lies(o.value).unwrap_or_else(|| contiguous_strides(&graph.ty(o.value).shape))).collect()
}

/// What the users of a node would like of its memory.
struct Wishes {
    /// Strides that eager returns it in.
    strides: Vec<Option<Shape>>,
    /// Convolutions, and the values that they take: whether they are to be channels-last.
    last: FxHashMap<NodeId, bool>,
}

impl Wishes {
    fn of(graph: &Graph, options: &ScheduleOptions) -> Wishes {
        let mut strides = vec![None; graph.nodes.len()];
        for output in graph.outputs.iter().filter(|o| o.alias.is_none()) {
            let shape = &graph.ty(output.value).shape;
            if is_computed(&graph.node(output.value).op) && is_dense(shape, &output.strides) {
                strides[output.value.index()] = Some(output.strides.clone());
            }
        }
        let held = held(graph);
        let shows = |k: &usize| held.contains(k) || matches!(graph.outputs[*k].memory, Memory::Whole(_));
        for k in (0..graph.outputs.len()).filter(shows).filter(|k| graph.node(graph.outputs[*k].value).op.is_view()) {
            let output = &graph.outputs[k];
            let whole = view_base(graph, output.value);
            if is_computed(&graph.node(whole).op) && strides[whole.index()].is_none() {
                strides[whole.index()] = whole_strides(graph, output, whole, &tenants(graph, k));
            }
        }
        let mut last = FxHashMap::default();
        let convs: Vec<NodeId> = graph.ids().filter(|id| options.channels_last && is_plane_conv(graph, *id)).collect();
        // Group norms run over whole planes of a few channels: in channels-last order those are slivers of every row.
        let norms = convs.iter().any(|id| is_normed_by_planes(graph, graph.node(*id).args[0]));
        for id in graph.ids().filter(|id| options.channels_last && is_gpu_conv_backward(graph, *id, options.target)) {
            let node = graph.node(id);
            last.insert(id, true);
            node.args[..2].iter().for_each(|arg| {
                last.entry(*arg).or_insert(true);
            });
        }
        for id in convs {
            // A packed convolution knows no other order.
            let better = graph.is_packed(graph.node(id).args[1])
                || match options.target {
                    // The matrix units of a GPU know no other order.
                    Target::Gpu => graph.ty(id).dtype.size() == 2,
                    Target::Cpu if lies_channels_last(graph, graph.node(id).args[0]) => !is_by_columns(graph, id),
                    Target::Cpu => !norms && is_better_channels_last(graph, id),
                };
            last.insert(id, better);
            last.entry(graph.node(id).args[0]).or_insert(better);
        }
        Wishes { strides, last }
    }
}

/// The outputs that others lie in the memory of.
fn held(graph: &Graph) -> FxHashSet<usize> {
    let holder = |output: &GraphOutput| match &output.alias {
        Some(Alias::Output(of, _)) => Some(*of as usize),
        _ => None,
    };
    graph.outputs.iter().filter_map(holder).collect()
}

fn is_computed(op: &Op) -> bool {
    !op.is_view() && !is_memory(op)
}

fn is_plane_conv(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    matches!(&node.op, Op::Conv(attrs) if !attrs.transposed) && node.ty.rank() == 4 && node.ty.dtype.is_float()
}

/// torch repacks the weights in every call, and for channels-last that costs more, the more so for windows larger than one: it must
/// be earned back by the elements that are read and written. The factors are measured on AVX-512.
fn is_better_channels_last(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let weight = &graph.ty(node.args[1]).shape;
    let is_single = weight[2].is_one() && weight[3].is_one();
    // Windows that do not overlap are one matrix product over patches, which the usual order suits better.
    let is_patches = matches!(&node.op, Op::Conv(attrs) if attrs.stride[..] == weight[2..]);
    if is_patches && !is_single || is_by_columns(graph, id) {
        return false;
    }
    let repacked = estimate(&weight.iter().product()) / if is_single { 4 } else { 1 };
    repacked < 2 * (numel(graph.ty(node.args[0])) + numel(&node.ty))
}

/// Whether a value comes in channels-last order (rows of a linear layer seen as an image): eager computes it so, and the usual order would be a copy.
fn lies_channels_last(graph: &Graph, id: NodeId) -> bool {
    natural_order(graph, id, FAR).is_some_and(|strides| is_channels_last(&graph.ty(id).shape, &strides))
}

/// As values lie before convolutions have wishes: what is computed element by element lies as the first tensor that it is made of.
fn natural_order(graph: &Graph, id: NodeId, far: usize) -> Option<Shape> {
    let base = view_base(graph, id);
    let node = graph.node(base);
    let shape = &node.ty.shape;
    let strides = match &node.op {
        Op::Input(n) => graph.inputs[*n as usize].strides.clone(),
        Op::Conv(_) => return None,
        Op::Point(_) | Op::Cast if far > 0 => {
            let first = node.args.iter().find(|arg| !matches!(graph.node(view_base(graph, **arg)).op, Op::Full(_)))?;
            natural_order(graph, *first, far - 1).filter(|strides| is_dense(shape, strides))?
        }
        _ => contiguous_strides(shape),
    };
    resolve(graph, id, &|_| strides.clone()).map(|strided| strided.strides)
}

/// Columns are made of planes.
fn is_by_columns(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let Op::Conv(attrs) = &node.op else { return false };
    let sizes = |shape: &[Sym]| shape.iter().map(estimate).collect::<Vec<i64>>();
    node.ty.dtype == DType::F32 && attrs.is_by_columns(&sizes(&graph.ty(node.args[1]).shape), &sizes(&node.ty.shape))
}

/// Whether a reduction goes into a value, seen through what would be computed in one kernel with it, that is over more (or less) than the channels of a point.
fn is_normed_by_planes(graph: &Graph, id: NodeId) -> bool {
    let channels = &graph.ty(id).shape[1];
    let mut stack = vec![id];
    for _ in 0..FAR {
        let Some(id) = stack.pop() else { return false };
        let node = graph.node(id);
        match &node.op {
            Op::Reduce { dims, .. } => {
                let given = &graph.ty(node.args[0]).shape;
                if dims.iter().map(|d| &given[*d]).product::<Sym>() != *channels {
                    return true;
                }
            }
            Op::Point(_) | Op::Cast => stack.extend(node.args.iter().copied()),
            op if op.is_view() => stack.extend(node.args.iter().copied()),
            _ => {}
        }
    }
    false
}

impl Prepared {
    /// For nodes to be pushed to.
    pub fn empty(graph: Graph) -> Prepared {
        Prepared { graph, strides: Vec::new(), copies: FxHashMap::default() }
    }

    pub fn strides(&self, id: NodeId) -> Shape {
        self.strides[id.index()].clone()
    }

    pub fn push(&mut self, node: Node, strides: Shape) -> NodeId {
        self.strides.push(strides);
        self.graph.push(node)
    }

    pub fn resolved(&self, id: NodeId) -> Option<Shape> {
        resolve(&self.graph, id, &|base| self.strides(base)).map(|s| s.strides)
    }

    /// Adds a node as the later steps want it; the result stands for the original one.
    fn add(&mut self, mut node: Node, wish: Option<Shape>, last: Option<bool>) -> NodeId {
        let shape = node.ty.shape.clone();
        let flatten = matches!(node.op, Op::Matmul { .. }) && node.ty.rank() > 3;
        if flatten {
            self.flatten_batch(&mut node);
        }
        if let (Op::Conv(_), Some(last)) = (&node.op, last) {
            node.args[0] = self.in_order(node.args[0], last);
            // A GPU's library would do it in every call, by a slow kernel.
            if last && node.ty.device != Device::Cpu {
                node.args[1] = self.in_order(node.args[1], true);
            }
        }
        if is_conv_backward(&node.op) && last == Some(true) {
            (0..3).for_each(|k| node.args[k] = self.in_order(node.args[k], true));
        }
        if node.op.is_call() {
            for k in 0..node.args.len() {
                let shape = self.graph.ty(node.args[k]).shape.clone();
                let order = order_of_draws(&node.op, k, &shape);
                let suits = |strides: Shape| {
                    takes(&node.op, k, &strides) && order.is_none_or(|order| same_strides(&shape, &strides, order))
                };
                if !self.resolved(node.args[k]).is_some_and(suits) {
                    let strides = order.cloned().unwrap_or_else(|| contiguous_strides(&shape));
                    node.args[k] = self.push_copy(node.args[k], strides);
                }
            }
        }
        self.settle_attention(&mut node);
        self.foresee_order(&mut node);
        let strides = wish.unwrap_or_else(|| self.natural_strides(&node, last));
        let made = self.push(node, strides);
        if flatten { self.push_reshape(made, shape) } else { made }
    }

    fn flatten_batch(&mut self, node: &mut Node) {
        node.ty.shape = flat_batch(&node.ty.shape);
        for k in 0..node.args.len() {
            let ty = self.graph.ty(node.args[k]);
            if ty.rank() > 3 {
                node.args[k] = self.push_reshape(node.args[k], flat_batch(&ty.shape.clone()));
            }
        }
    }

    /// The value in channels-last or in the usual order, copied if it lies otherwise.
    fn in_order(&mut self, id: NodeId, last: bool) -> NodeId {
        let shape = self.graph.ty(id).shape.clone();
        let wanted = if last { channels_last(&shape) } else { None }.unwrap_or_else(|| contiguous_strides(&shape));
        match self.resolved(id) {
            Some(has) if same_strides(&shape, &has, &wanted) => id,
            _ => match self.copies.get(&(id, last)) {
                Some(copy) => *copy,
                None => {
                    let copy = self.push_copy(id, wanted);
                    self.copies.insert((id, last), copy);
                    copy
                }
            },
        }
    }

    /// The strides of a node's memory where nobody asks for others: what torch's kernels give, for the calls; for a computed
    /// value, those of the first tensor that it is made of, as eager does it.
    fn natural_strides(&self, node: &Node, last: Option<bool>) -> Shape {
        let shape = &node.ty.shape;
        let in_order = |last: bool| if last { channels_last(shape) } else { None }.unwrap_or_else(|| contiguous_strides(shape));
        match &node.op {
            Op::Input(n) => self.graph.inputs[*n as usize].strides.clone(),
            Op::Project(n) => project_strides(&self.graph, node.args[0], *n),
            Op::Attention(_) => attention_strides(shape),
            Op::Conv(_) => {
                let given = &self.graph.ty(node.args[0]).shape;
                in_order(self.resolved(node.args[0]).is_some_and(|s| is_channels_last(given, &s)))
            }
            Op::Point(_) | Op::Cast | Op::SliceScatter(_) => match last {
                Some(last) => in_order(last),
                None => self.followed_strides(node).unwrap_or_else(|| contiguous_strides(shape)),
            },
            _ => in_order(last.unwrap_or(false)),
        }
    }

    /// The strides of the first argument that lies densely in the shape of the result; constants lie nowhere.
    fn followed_strides(&self, node: &Node) -> Option<Shape> {
        let shape = &node.ty.shape;
        let tensors = node.args.iter().filter(|id| {
            let base = view_base(&self.graph, **id);
            self.graph.ty(**id).shape == *shape
                && !matches!(self.graph.node(base).op, Op::Full(_) | Op::Iota { .. } | Op::SymValue(_))
        });
        let strides = tensors.filter_map(|id| self.resolved(*id)).find(|s| is_dense(shape, s))?;
        // What only sizes of 1 tell apart is contiguous.
        let dense = contiguous_strides(shape);
        Some(if same_strides(shape, &strides, &dense) { dense } else { strides })
    }

    pub fn push_copy(&mut self, of: NodeId, strides: Shape) -> NodeId {
        let (ty, location) = (self.graph.ty(of).clone(), self.graph.node(of).location);
        self.push(Node { op: Op::Cast, args: [of].into_iter().collect(), ty, location }, strides)
    }

    fn push_reshape(&mut self, of: NodeId, shape: Shape) -> NodeId {
        let (ty, location) = (self.graph.ty(of).with_shape(shape), self.graph.node(of).location);
        let strides = contiguous_strides(&ty.shape);
        self.push(Node { op: Op::Reshape, args: [of].into_iter().collect(), ty, location }, strides)
    }

    /// A write-back reads its value after other inputs may have been overwritten, so it must not read an input.
    fn copy_write_backs(&mut self) {
        for k in 0..self.graph.mutations.len() {
            let value = self.graph.mutations[k].value;
            let base = view_base(&self.graph, value);
            if matches!(self.graph.node(base).op, Op::Input(_)) || self.resolved(value).is_none() {
                let dense = contiguous_strides(&self.graph.ty(value).shape);
                self.graph.mutations[k].value = self.push_copy(value, dense);
            }
        }
    }

    /// An output that is folded in eager and is no view here lies row by row. Where sizes leave open whether it is, nothing can be promised.
    fn copy_outputs(&mut self) -> Result<(), ScheduleError> {
        let (mut taken, held) = (FxHashSet::<NodeId>::default(), held(&self.graph));
        for k in 0..self.graph.outputs.len() {
            let output = self.graph.outputs[k].clone();
            if output.alias.is_some() {
                continue;
            }
            let base = view_base(&self.graph, output.value);
            if self.can_return(k) && taken.insert(base) {
                continue;
            }
            if let Some(part) = self.push_view(k, &output, held.contains(&k))? {
                self.graph.outputs[k].value = part;
                taken.insert(view_base(&self.graph, part));
                continue;
            }
            let shape = &self.graph.ty(output.value).shape;
            let strides = match () {
                _ if same_strides(shape, &output.strides, &contiguous_strides(shape)) => contiguous_strides(shape),
                _ if is_spread(shape, &output.strides) => output.strides,
                _ if is_folded(shape, &output.strides) => contiguous_strides(shape),
                _ if has_sizes(shape.iter().chain(&output.strides)) => {
                    return Err(ScheduleError::Unsupported(
                        "an output whose strides are not settled by what is known of sizes".into(),
                    ));
                }
                _ => contiguous_strides(shape),
            };
            let copy = self.push_copy(output.value, strides);
            self.graph.outputs[k].value = copy;
            taken.insert(copy);
        }
        Ok(())
    }

    /// The output as a view of memory that is larger than it: others lie there as well, or elements share their places, or may do so.
    fn push_view(&mut self, k: usize, output: &GraphOutput, is_held: bool) -> Result<Option<NodeId>, ScheduleError> {
        let (value, strides) = (output.value, &output.strides);
        let in_whole = matches!(output.memory, Memory::Whole(_)) || is_held && output.memory != Memory::Own;
        if in_whole && !is_whole(&self.graph, value, strides) {
            let unknown = || ScheduleError::Unsupported("results in one memory of which the order is not known".into());
            match self.push_part(output, view_base(&self.graph, value), &tenants(&self.graph, k)) {
                Some(part) => return Ok(Some(part)),
                None if is_held => return Err(unknown()),
                None => {}
            }
        }
        let shape = &self.graph.ty(value).shape;
        if same_strides(shape, strides, &contiguous_strides(shape)) || is_spread(shape, strides) {
            return Ok(None);
        }
        Ok(self.push_repeated(value, strides).or_else(|| self.push_least(output)))
    }

    /// Whether output `k` is a window with eager's strides on memory that may be given away.
    fn can_return(&self, k: usize) -> bool {
        let output = &self.graph.outputs[k];
        let base = view_base(&self.graph, output.value);
        let shape = &self.graph.ty(output.value).shape;
        !matches!(self.graph.node(base).op, Op::Input(_))
            && (output.memory != Memory::Own || base == output.value || is_whole(&self.graph, output.value, &output.strides))
            && self.resolved(output.value).is_some_and(|s| same_strides(shape, &s, &output.strides))
            && self.suits_tenants(k, base)
            && self.begins_in(output, base)
    }

    /// Whether the results that lie in the memory of output `k` lie where they should in that of its base.
    fn suits_tenants(&self, k: usize, base: NodeId) -> bool {
        let (output, tenants) = (&self.graph.outputs[k], tenants(&self.graph, k));
        tenants.is_empty() || suits(&self.graph, output.value, base, &self.strides(base), &output.strides, &tenants)
    }

    /// Whether an output that is a part of `base` begins where eager's does, or could not: eager may have made more than that as a whole.
    fn begins_in(&self, output: &GraphOutput, base: NodeId) -> bool {
        begins(&self.graph, output, base, &self.strides(base))
            || whole_strides(&self.graph, output, base, &[]).is_none_or(|order| !begins(&self.graph, output, base, &order))
    }

    /// Keeps what outputs, write-backs and effects need; inputs stay, since their numbers are the caller's.
    fn without_dead(self) -> Prepared {
        let graph = &self.graph;
        let mut live = vec![false; graph.nodes.len()];
        graph.roots().for_each(|id| live[id.index()] = true);
        for id in graph.ids().rev() {
            let node = graph.node(id);
            live[id.index()] |= matches!(&node.op, Op::Library(l) if l.effect);
            if live[id.index()] {
                node.args.iter().for_each(|a| live[a.index()] = true);
            }
        }
        let mut out = Prepared::empty(Graph { nodes: Vec::new(), ..graph.clone() });
        let mut renamed = vec![NodeId(u32::MAX); graph.nodes.len()];
        for id in graph.ids().filter(|id| live[id.index()]) {
            let mut node = graph.node(id).clone();
            node.args.iter_mut().for_each(|a| *a = renamed[a.index()]);
            renamed[id.index()] = out.push(node, self.strides(id));
        }
        out.graph.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()]);
        out.graph.mutations.iter_mut().for_each(|m| m.value = renamed[m.value.index()]);
        out
    }
}

/// Whether torch's kernel can take its n-th argument as it lies. Medians along a dimension sort in a copy that has the strides of what they are
/// given: where its elements share their places, torch's own results are wrong, and eager's would be of a tensor that has none such.
fn takes(op: &Op, n: usize, strides: &Shape) -> bool {
    let is_median = matches!(op, Op::Library(library) if matches!(library.callee.name(), "aten::median" | "aten::nanmedian"));
    let whole_rows = n < rows_wanted(op);
    (!whole_rows || strides.last().is_none_or(|s| s.is_one())) && !(is_median && strides.iter().any(Sym::is_zero))
}

/// How the n-th argument must lie for torch to draw eager's numbers: it fills a result that lies as the argument does from the beginning of memory.
fn order_of_draws<'a>(op: &'a Op, n: usize, shape: &Shape) -> Option<&'a Shape> {
    const ALIKE: [&str; 6] = ["rand_like", "randn_like", "randint_like", "bernoulli", "dropout", "alpha_dropout"];
    let Op::Library(library) = op else { return None };
    let name = library.callee.name().rsplit([':', '.']).next()?;
    let result = library.outs.first().filter(|out| n == 0 && ALIKE.contains(&name) && out.ty.shape == *shape)?;
    Some(&result.strides)
}

/// How many of the first arguments torch's flash attention wants with the elements of a row side by side.
fn rows_wanted(op: &Op) -> usize {
    match op {
        Op::Library(library) => match library.callee.name() {
            "aten::_scaled_dot_product_flash_attention_for_cpu" => 3,
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward" => 5,
            _ => 0,
        },
        _ => 0,
    }
}

fn flat_batch(shape: &[Sym]) -> Shape {
    let (batch, matrix) = shape.split_at(shape.len() - 2);
    std::iter::once(batch.iter().product()).chain(matrix.iter().cloned()).collect()
}

/// torch's attention kernel writes the heads of one position side by side.
fn attention_strides(shape: &[Sym]) -> Shape {
    let [_, heads, rows, width] = shape else { return contiguous_strides(shape) };
    let row = heads * width;
    Shape::from_iter([rows * &row, width.clone(), row, Sym::ONE])
}

/// The strides of the n-th result of a library call; the copies of arguments that it wrote follow its own results.
pub fn project_strides(graph: &Graph, call: NodeId, n: u32) -> Shape {
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
