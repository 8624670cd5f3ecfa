//! Random graphs and inputs for them, for differential tests: any two ways of running a graph must agree on these.
//!
//! All nodes are live. Where rounding may differ between right implementations (after a float sum), no operation follows that would
//! turn a small difference into a large one.

mod build;
mod calls;
mod data;
mod inputs;
mod point;
mod reduce;
mod rng;
mod sizes;
mod views;

pub use inputs::{random_inputs, random_sizes};
pub use rng::Rng;

use build::Gen;
use ox_ir::DType;
use ox_ir::graph::{Alias, Graph, GraphOutput, Memory, Mutation, NodeId, Shape, contiguous_strides};

#[derive(Clone, Debug)]
pub struct RandomConfig {
    /// About how many nodes besides the inputs.
    pub nodes: usize,
    pub inputs: usize,
    pub dtypes: Vec<DType>,
    /// Whether some sizes are only known at run time.
    pub symbolic: bool,
    /// Whether those are expressions of variables with random facts.
    pub expressions: bool,
    /// Products, convolutions and attention too.
    pub calls: bool,
    /// Index and IndexPut too.
    pub indexing: bool,
    /// Dimensions of up to some thousand elements: what a GPU spreads over blocks.
    pub large: bool,
}

impl Default for RandomConfig {
    fn default() -> RandomConfig {
        let dtypes = vec![DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32, DType::U8, DType::Bool];
        RandomConfig {
            nodes: 12,
            inputs: 3,
            dtypes,
            symbolic: false,
            expressions: false,
            calls: true,
            indexing: true,
            large: false,
        }
    }
}

/// The graph of a seed: always the same for the same configuration.
pub fn random_graph(seed: u64, config: &RandomConfig) -> Graph {
    let mut g = Gen::new(seed, config);
    // One that came out too large is left out.
    while g.graph.inputs.len() < config.inputs.max(1) {
        g.input();
    }
    let enough = g.graph.nodes.len() + config.nodes;
    // A try may find nothing to do; there are always more.
    for _ in 0..config.nodes * 20 {
        if g.graph.nodes.len() >= enough {
            break;
        }
        g.grow();
    }
    g.finish()
}

impl Gen<'_> {
    fn grow(&mut self) {
        let indexing = if self.config.indexing { 10 } else { 0 };
        let calls = if self.config.calls { 4 } else { 0 };
        let roll = self.rng.below(86 + indexing + calls);
        match roll {
            0..35 => drop(self.point()),
            35..39 => drop(self.cast()),
            39..42 => drop(self.source()),
            42..62 => drop(self.view()),
            62..72 => drop(self.reshuffle()),
            72..86 => drop(self.reduction()),
            _ if roll < 86 + indexing => drop(self.indexed()),
            _ => drop(self.call()),
        }
    }

    /// Everything that nothing uses is an output, in random layouts; some inputs are overwritten.
    fn finish(mut self) -> Graph {
        let mut used = vec![false; self.graph.nodes.len()];
        self.graph.nodes.iter().flat_map(|n| &n.args).for_each(|arg| used[arg.index()] = true);
        self.mutate(&mut used);
        let unused: Vec<NodeId> = self.graph.ids().filter(|id| !used[id.index()]).collect();
        for value in unused {
            self.output(value);
        }
        if self.rng.percent(30) {
            let any = self.any();
            self.output(any);
        }
        self.graph
    }

    fn mutate(&mut self, used: &mut [bool]) {
        for n in 0..self.graph.inputs.len() {
            let overlaps = self.graph.inputs[n].strides.iter().any(|s| s.is_zero());
            let fits: Vec<NodeId> =
                self.graph.ids().filter(|id| self.graph.ty(*id) == &self.graph.inputs[n].ty && id.index() != n).collect();
            if overlaps || fits.is_empty() || !self.rng.percent(15) {
                continue;
            }
            let value = *self.rng.pick(&fits);
            used[value.index()] = true;
            self.graph.mutations.push(Mutation { input: n as u32, value });
        }
    }

    fn output(&mut self, value: NodeId) {
        let input = value.index();
        let mutated = self.graph.mutations.iter().any(|m| m.input as usize == input);
        if input < self.graph.inputs.len() && !mutated && self.rng.percent(50) {
            let strides = self.graph.inputs[input].strides.clone();
            self.graph.outputs.push(GraphOutput {
                value,
                strides,
                alias: Some(Alias::Input(input as u32, 0i64.into())),
                memory: Memory::Any,
            });
            return;
        }
        let shape = self.graph.ty(value).shape.clone();
        let strides = if self.rng.percent(80) { contiguous_strides(&shape) } else { self.permuted_strides(&shape) };
        self.graph.outputs.push(GraphOutput { value, strides, alias: None, memory: Memory::Any });
    }

    /// Dense, with the dimensions in another order.
    pub(self) fn permuted_strides(&mut self, shape: &Shape) -> Shape {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        self.rng.shuffle(&mut order);
        let dense = contiguous_strides(&order.iter().map(|d| shape[*d].clone()).collect::<Vec<_>>());
        let mut strides = shape.clone();
        order.iter().zip(dense).for_each(|(d, stride)| strides[*d] = stride);
        strides
    }
}

#[cfg(test)]
mod tests;
