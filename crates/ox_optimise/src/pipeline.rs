//! The whole order of passes.

use crate::OptimiseOptions;
use crate::passes::additive_masks::additive_masks;
use crate::passes::align_products::align_products;
use crate::passes::drop_gradients::drop_gradients;
use crate::passes::flatten_matmul::flatten_matmul;
use crate::passes::fold_channels::fold_channels;
use crate::passes::free_bias::free_bias;
use crate::passes::fuse_attention::fuse_attention;
use crate::passes::fuse_bias::fuse_bias;
use crate::passes::fuse_post_ops::fuse_post_ops;
use crate::passes::grouped_attention::grouped_attention;
use crate::passes::pack_weights::pack_weights;
use crate::passes::remove_dead::remove_dead;
use crate::passes::simplify::simplify;
use crate::passes::spread_constants::spread_constants;
use crate::passes::wide_sums::wide_sums;
use crate::rewriter::Fired;
use ox_ir::Graph;
use std::time::{Duration, Instant};

/// What one pass did.
#[derive(Clone, Debug)]
pub struct PassReport {
    pub name: &'static str,
    pub time: Duration,
    pub nodes_before: usize,
    pub nodes_after: usize,
    /// The rules that were applied, and how often.
    pub rules: Vec<(&'static str, u32)>,
}

/// The graph in its best form for scheduling, with what each pass did.
pub fn optimise_reported(graph: Graph, options: &OptimiseOptions) -> (Graph, Vec<PassReport>) {
    let mut line = Pipeline { graph, reports: Vec::new() };
    // What only derivatives look at is gone before anything counts uses.
    // Then rules, so that every later pass sees one spelling of each thing; then without what was replaced, since dead users would
    // hide that a value has a single use.
    line.pass("drop_gradients", drop_gradients);
    line.rules("simplify", simplify);
    line.pass("remove_dead", remove_dead);
    // Before the products in it change their form.
    if options.fuse_attention {
        line.rules("fuse_attention", fuse_attention);
    }
    if options.grouped_attention {
        line.rules("grouped_attention", grouped_attention);
    }
    // Flat products first: a bias is a vector for them.
    line.rules("flatten_matmul", flatten_matmul);
    line.rules("fuse_bias", |graph| fuse_bias(graph, options.round_intermediates));
    // Before post-operations: a batch norm stands between a convolution and its activation.
    if options.freezing {
        line.rules("fold_channels", fold_channels);
        // Behind all that changes weights, before what only packed calls take over.
        line.rules("pack_weights", |graph| pack_weights(graph, &options.pack_weights));
    }
    line.rules("fuse_post_ops", |graph| fuse_post_ops(graph, &options.fuse_post_ops, options.round_intermediates));
    // The passes above put views where they needed them, and leave behind what they replaced.
    if line.reports.iter().skip(3).any(|report| !report.rules.is_empty()) {
        line.rules("simplify", simplify);
        line.pass("remove_dead", remove_dead);
    }
    // Behind the rules that know what a mask hides.
    if options.additive_masks {
        line.rules("additive_masks", additive_masks);
        line.pass("remove_dead", remove_dead);
    }
    if options.wide_sums {
        line.rules("wide_sums", wide_sums);
    }
    // Last: the rules before look for a bias where eager has it.
    line.rules("free_bias", |graph| free_bias(graph, options.free_bias));
    // Behind all rules, which would see through it.
    if let Some(least) = options.align_products {
        line.rules("align_products", |graph| align_products(graph, least));
    }
    // Behind all rules, which would undo it.
    line.pass("spread_constants", spread_constants);
    (line.graph, line.reports)
}

/// As `optimise_reported`, for those who want the graph alone.
pub fn optimise(graph: Graph, options: &OptimiseOptions) -> Graph {
    optimise_reported(graph, options).0
}

struct Pipeline {
    graph: Graph,
    reports: Vec<PassReport>,
}

impl Pipeline {
    fn pass(&mut self, name: &'static str, pass: impl FnOnce(Graph) -> Graph) {
        self.rules(name, |graph| (pass(graph), Fired::default()));
    }

    fn rules(&mut self, name: &'static str, pass: impl FnOnce(Graph) -> (Graph, Fired)) {
        let (start, nodes_before) = (Instant::now(), self.graph.nodes.len());
        let (graph, fired) = pass(std::mem::take(&mut self.graph));
        let (time, nodes_after) = (start.elapsed(), graph.nodes.len());
        self.graph = graph;
        #[cfg(debug_assertions)]
        self.graph.verify().unwrap_or_else(|error| panic!("{name} made a wrong graph: {error}\n{}", self.graph));
        self.reports.push(PassReport { name, time, nodes_before, nodes_after, rules: fired.into_iter().collect() });
    }
}
