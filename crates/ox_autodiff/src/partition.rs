//! The joint graph cut in two.

use crate::cost::{Fixed, Level, Standing, bytes, is_small, saving};
use crate::flow::{INFINITE, Network};
use crate::joint::{Held, Joint};
use ox_ir::Graph;
use ox_ir::graph::{GraphInput, GraphOutput, Memory, NodeId, Op, contiguous_strides};

/// Where an input of the backward graph comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The n-th saved value: an output of the forward graph behind the user's.
    Saved(u32),
    /// The n-th input of the forward graph.
    Input(u32),
    /// The n-th result of the user's.
    Output(u32),
    /// The gradient of the n-th result of the user's.
    Gradient(u32),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// Inputs as in the original; outputs: the user's, then what is saved.
    pub forward: Graph,
    /// Outputs: the gradients that are not None, in the order of the inputs that they belong to.
    pub backward: Graph,
    /// How many of the forward graph's outputs are the user's.
    pub outputs: usize,
    /// For each input of the backward graph, in order.
    pub sources: Vec<Source>,
    /// For each input of the forward graph, which output of the backward graph is its gradient.
    pub gradients: Vec<Option<u32>>,
}

/// `budget`: 1 computes again only what is cheap; less computes more again, until no more than that share of it is kept.
pub fn partition(joint: &Joint, held: &Held, budget: f64) -> Split {
    let work = Work::new(joint, held);
    let usual = work.choose(Level::Cheap);
    if budget >= 1.0 {
        return work.split(&usual);
    }
    let most = (work.bytes_of(&usual) as f64 * budget) as u64;
    let mut saved = usual;
    for level in &Level::ALL[1..] {
        if work.bytes_of(&saved) > most {
            saved = work.choose(*level);
        }
    }
    work.split(&saved)
}

struct Work<'a> {
    joint: &'a Joint,
    held: &'a Held,
    graph: &'a Graph,
    /// Does not depend on an incoming gradient.
    primal: Vec<bool>,
    /// A gradient is computed from it.
    needed: Vec<bool>,
    /// The user's results depend on it.
    forward: Vec<bool>,
}

impl<'a> Work<'a> {
    fn new(joint: &'a Joint, held: &'a Held) -> Work<'a> {
        let graph = &joint.graph;
        let mut primal = vec![true; graph.nodes.len()];
        for (n, node) in graph.nodes.iter().enumerate() {
            primal[n] = match node.op {
                Op::Input(input) => (input as usize) < joint.inputs,
                _ => node.args.iter().all(|arg| primal[arg.index()]),
            };
        }
        let mut needed = vec![false; graph.nodes.len()];
        graph.outputs[joint.outputs..].iter().for_each(|output| needed[output.value.index()] = true);
        for id in graph.ids().rev().filter(|id| !primal[id.index()]) {
            if needed[id.index()] {
                graph.node(id).args.iter().for_each(|arg| needed[arg.index()] = true);
            }
        }
        let mut forward = vec![false; graph.nodes.len()];
        let results = graph.outputs[..joint.outputs].iter().map(|o| o.value).chain(graph.mutations.iter().map(|m| m.value));
        results.for_each(|id| forward[id.index()] = true);
        for id in graph.ids().rev() {
            forward[id.index()] |= matches!(&graph.node(id).op, Op::Library(library) if library.effect);
            if forward[id.index()] {
                graph.node(id).args.iter().for_each(|arg| forward[arg.index()] = true);
            }
        }
        Work { joint, held, graph, primal, needed, forward }
    }

    fn is_written(&self, input: u32) -> bool {
        self.graph.mutations.iter().any(|mutation| mutation.input == input)
    }

    fn result(&self, id: NodeId) -> Option<usize> {
        self.graph.outputs[..self.joint.outputs].iter().position(|o| o.value == id && o.alias.is_none())
    }

    /// What the user has as well and is kept as it is: held inputs, unless the graph overwrites them, and results, unless they are copied in no time or
    /// the program writes them.
    fn shared(&self, id: NodeId) -> Option<Source> {
        match self.graph.node(id).op {
            Op::Input(n) => (!self.is_written(n) && self.held.inputs[n as usize]).then_some(Source::Input(n)),
            _ => {
                let is_large = !is_small(self.graph.ty(id));
                let stays = |n: &usize| self.held.outputs[*n] || is_large && !self.held.written[*n];
                self.result(id).filter(stays).map(|n| Source::Output(n as u32))
            }
        }
    }

    /// What eager holds costs nothing more, a large result the memory that it takes until then; what the user may write is written a second time.
    fn price(&self, id: NodeId, fixed: &Fixed<'_>) -> u64 {
        let shared = self.shared(id);
        let standing = match shared {
            Some(Source::Output(n)) if !self.held.outputs[n as usize] => Standing::Written,
            Some(Source::Output(_)) if !is_small(self.graph.ty(id)) => Standing::Passing,
            Some(_) => return 0,
            None if !self.forward[id.index()] || self.result(id).is_some() => Standing::Foreign,
            None if fixed.is_written(id) => Standing::Written,
            None => Standing::Passing,
        };
        saving(self.graph.node(id), standing)
    }

    /// What is kept, besides inputs that are there anyway.
    fn bytes_of(&self, saved: &[bool]) -> u64 {
        let is_there = |id: NodeId| matches!(self.shared(id), Some(Source::Input(_)));
        let is_kept = |id: &NodeId| saved[id.index()] && !is_there(*id);
        self.graph.ids().filter(is_kept).map(|id| bytes(self.graph.ty(id))).sum()
    }

    /// For each node, whether its value crosses from the forward to the backward graph.
    fn choose(&self, level: Level) -> Vec<bool> {
        let fixed = Fixed::new(self.graph, &self.primal, &self.forward, level);
        let count = self.graph.nodes.len();
        let (source, sink) = (2 * count, 2 * count + 1);
        let mut network = Network::new(2 * count + 2);
        for id in self.graph.ids().filter(|id| self.primal[id.index()]) {
            let (before, behind) = (2 * id.index(), 2 * id.index() + 1);
            let node = self.graph.node(id);
            network.edge(before, behind, self.price(id, &fixed));
            node.args.iter().for_each(|arg| network.edge(2 * arg.index() + 1, before, INFINITE));
            if matches!(node.op, Op::Input(_)) || fixed.is_fixed(id) {
                network.edge(source, before, INFINITE);
            }
            if self.needed[id.index()] {
                network.edge(behind, sink, INFINITE);
            }
        }
        let late = network.sink_side(source, sink);
        (0..count).map(|n| self.primal[n] && !late[2 * n] && late[2 * n + 1]).collect()
    }

    fn split(&self, saved: &[bool]) -> Split {
        let crossing: Vec<NodeId> = self.graph.ids().filter(|id| saved[id.index()]).collect();
        let mut sources: Vec<(Source, NodeId)> = Vec::new();
        let mut kept: Vec<NodeId> = Vec::new();
        let mut borrowed: Vec<(Source, NodeId)> = Vec::new();
        for id in crossing {
            match self.shared(id) {
                Some(source) => borrowed.push((source, id)),
                None => {
                    sources.push((Source::Saved(kept.len() as u32), id));
                    kept.push(id);
                }
            }
        }
        sources.extend(borrowed);
        let forward = self.forward(&kept);
        let (backward, sources) = self.backward(sources);
        let gradients = self.joint.gradients.iter().map(|g| g.map(|n| n - self.joint.outputs as u32)).collect();
        Split { forward, backward, outputs: self.joint.outputs, sources, gradients }
    }

    fn forward(&self, kept: &[NodeId]) -> Graph {
        let mut graph = self.graph.clone();
        graph.inputs.truncate(self.joint.inputs);
        graph.outputs.truncate(self.joint.outputs);
        for id in kept {
            let strides = contiguous_strides(&self.graph.ty(*id).shape);
            graph.outputs.push(GraphOutput { value: *id, strides, alias: None, memory: Memory::Any });
        }
        retain(graph, |node| match &node.op {
            Op::Input(n) => (*n as usize) < self.joint.inputs,
            Op::Library(library) => library.effect,
            _ => false,
        })
    }

    /// What crosses becomes an input, and so do the gradients.
    fn backward(&self, mut sources: Vec<(Source, NodeId)>) -> (Graph, Vec<Source>) {
        let tangents = self.joint.tangents.iter().enumerate().map(|(k, n)| (Source::Gradient(*n), self.joint.inputs + k));
        for (source, input) in tangents {
            let is_it = |id: &NodeId| self.graph.node(*id).op == Op::Input(input as u32);
            sources.push((source, self.graph.ids().find(is_it).expect("a node for each gradient that comes in")));
        }
        let mut graph = Graph {
            inputs: sources.iter().map(|(source, id)| self.incoming(*source, *id)).collect(),
            nodes: Vec::new(),
            outputs: self.graph.outputs[self.joint.outputs..].to_vec(),
            mutations: Vec::new(),
            ..self.graph.clone()
        };
        let mut renamed: Vec<Option<NodeId>> = vec![None; self.graph.nodes.len()];
        for (n, (_, id)) in sources.iter().enumerate() {
            let node = ox_ir::Node {
                op: Op::Input(n as u32),
                args: [].into_iter().collect(),
                location: 0,
                ..self.graph.node(*id).clone()
            };
            renamed[id.index()] = Some(graph.push(node));
        }
        let needed = self.computed_behind(&renamed);
        for id in self.graph.ids().filter(|id| needed[id.index()]) {
            let mut node = self.graph.node(id).clone();
            assert!(!matches!(node.op, Op::Input(_)), "what a gradient is made of was not kept");
            node.args.iter_mut().for_each(|arg| *arg = renamed[arg.index()].expect("what a value is made of comes before it"));
            renamed[id.index()] = Some(graph.push(node));
        }
        graph.outputs.iter_mut().for_each(|o| o.value = renamed[o.value.index()].expect("every gradient is computed"));
        (graph, sources.into_iter().map(|(source, _)| source).collect())
    }

    /// The nodes that the backward graph computes, given that the others come in.
    fn computed_behind(&self, given: &[Option<NodeId>]) -> Vec<bool> {
        let mut needed = vec![false; self.graph.nodes.len()];
        self.graph.outputs[self.joint.outputs..].iter().for_each(|output| needed[output.value.index()] = true);
        for id in self.graph.ids().rev() {
            if given[id.index()].is_some() {
                needed[id.index()] = false;
            } else if needed[id.index()] {
                self.graph.node(id).args.iter().for_each(|arg| needed[arg.index()] = true);
            }
        }
        needed
    }

    fn incoming(&self, source: Source, id: NodeId) -> GraphInput {
        let ty = self.graph.ty(id).clone();
        let original = |n: usize| GraphInput { frozen: false, ..self.graph.inputs[n].clone() };
        match source {
            Source::Input(n) => original(n as usize),
            Source::Gradient(n) => {
                let place = self.joint.tangents.iter().position(|t| *t == n).expect("a gradient that comes in");
                original(self.joint.inputs + place)
            }
            Source::Output(n) => {
                let strides = self.graph.outputs[n as usize].strides.clone();
                GraphInput { name: format!("output_{n}"), ty, strides, frozen: false, packed: false }
            }
            Source::Saved(n) => {
                let strides = contiguous_strides(&ty.shape);
                GraphInput { name: format!("saved_{n}"), ty, strides, frozen: false, packed: false }
            }
        }
    }
}

/// Keeps the results, what `stays`, and what they need.
pub fn retain(mut graph: Graph, stays: impl Fn(&ox_ir::Node) -> bool) -> Graph {
    let mut live: Vec<bool> = graph.nodes.iter().map(stays).collect();
    graph.roots().for_each(|root| live[root.index()] = true);
    for id in graph.ids().rev() {
        if live[id.index()] {
            graph.node(id).args.iter().for_each(|arg| live[arg.index()] = true);
        }
    }
    let mut renamed = vec![NodeId(0); graph.nodes.len()];
    let nodes = std::mem::take(&mut graph.nodes);
    for (n, mut node) in nodes.into_iter().enumerate().filter(|(n, _)| live[*n]) {
        node.args.iter_mut().for_each(|arg| *arg = renamed[arg.index()]);
        renamed[n] = graph.push(node);
    }
    graph.outputs.iter_mut().for_each(|output| output.value = renamed[output.value.index()]);
    graph.mutations.iter_mut().for_each(|mutation| mutation.value = renamed[mutation.value.index()]);
    graph
}
