//! Attention on a GPU: torch's fused kernels, and what their derivatives are called with.

mod common;

use common::{all_wanted, simplified};
use ox_autodiff::{Wanted, joint};
use ox_ir::Graph;
use ox_ir::graph::{Arg, Library, Op};
use ox_ops::derive::FusedAttention;

const ALL: FusedAttention = FusedAttention { cudnn: true, flash: true, efficient: true };

fn graph(dtype: &str, tokens: usize, mask: &str) -> String {
    let ty = format!("{dtype}[2, 4, {tokens}, 64]@cuda0");
    format!(
        "graph(%0: {ty} \"q\", %1: {ty} \"k\", %2: {ty} \"v\") {{
  %3 = {mask} : bool[2, 1, {tokens}, {tokens}]@cuda0
  %4 = expand(%3) : bool[2, 4, {tokens}, {tokens}]@cuda0
  %5 = attention(%0, %1, %2, %4, mask) : {ty}
  return %5
}}"
    )
}

/// The library calls of the joint graph.
fn calls(text: &str, attention: FusedAttention) -> Vec<Library> {
    let graph = Graph::parse(text).unwrap();
    let joint = simplified(joint(&graph, &Wanted { attention, ..all_wanted(&graph) }).unwrap());
    joint.graph.verify().unwrap();
    let call = |node: &ox_ir::Node| if let Op::Library(call) = &node.op { Some((**call).clone()) } else { None };
    joint.graph.nodes.iter().filter_map(call).collect()
}

fn names(calls: &[Library]) -> Vec<&str> {
    calls.iter().map(|call| call.callee.name()).collect()
}

#[test]
fn a_mask_that_hides_nothing_is_not_handed_over() {
    let found = calls(&graph("bf16", 32, "full(true)"), ALL);
    assert_eq!(
        names(&found),
        ["aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_cudnn_attention_backward"]
    );
    assert_eq!(found[0].args[3], Arg::None);
    assert_eq!(found[1].args[8], Arg::None);
    assert_eq!(found[1].args[14], Arg::Bool(false));
}

#[test]
fn the_kernel_is_eagers() {
    let without_cudnn = FusedAttention { cudnn: false, ..ALL };
    let kernel = |dtype: &str, tokens: usize, may: FusedAttention| {
        calls(&graph(dtype, tokens, "full(true)"), may).first().map(|call| call.callee.name().to_string())
    };
    let efficient = Some("aten::_scaled_dot_product_efficient_attention".to_string());
    assert_eq!(kernel("bf16", 32, without_cudnn), efficient);
    assert_eq!(kernel("f32", 32, ALL), efficient);
    // Rows of masks that are not whole vectors, and types without a kernel, are spelt out.
    assert_eq!(kernel("f32", 33, ALL), None);
    assert_eq!(kernel("f64", 32, ALL), None);
}
