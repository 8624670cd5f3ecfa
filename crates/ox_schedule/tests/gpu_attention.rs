//! The derivative of an attention by cuDNN: its result lies as the queries, whatever is known of sizes.

use ox_ir::plan::{Call, Step};
use ox_ir::{Graph, Sym};
use ox_schedule::{ScheduleOptions, Target, schedule};

/// The strides of what the last call of the library is given.
fn given(text: &str) -> Vec<String> {
    let graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    let plan = schedule(&graph, &ScheduleOptions { target: Target::Gpu, ..Default::default() }).unwrap();
    plan.verify().unwrap();
    let given = plan.steps.iter().rev().find_map(|step| match step {
        Step::Call { call: Call::Library(_), ins, .. } => Some(ins),
        _ => None,
    });
    let text = |strides: &[Sym]| strides.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    given.unwrap().iter().map(|view| text(&view.strides)).collect()
}

/// The strides of the queries and of the result that the derivative is given.
fn strides(order: &str, of_result: &str) -> [String; 2] {
    let ty = "bf16[s0, 4, s1, 64]@cuda0";
    let text = format!(
        r#"sizes s0 in 1.., s1 in 2..
graph(%0: {ty} "g", %1: {ty} strides {order} "q", %2: {ty} "k", %3: {ty} "v", %4: {ty} strides {of_result} "o", %5: f32[s0, 4, s1, 1]@cuda0 "l") {{
  %6 = library(%0, %1, %2, %3, %4, %5, callee="aten::_scaled_dot_product_cudnn_attention_backward" "", args=[$0, $1, $2, $3, $4, $5], kwargs=[], outs=[{ty}, {ty}, {ty}]) : {ty}
  %7 = project(%6, 0) : {ty}
  return %7
}}"#
    );
    let given = given(&text);
    [1, 4].map(|n: usize| given[n].clone())
}

const HEADS: &str = "[256*s1, 64*s1, 64, 1]";
const ROWS: &str = "[256*s1, 64, 256, 1]";

#[test]
fn the_result_lies_as_the_queries() {
    assert_eq!(strides(HEADS, HEADS), ["256*s1, 64*s1, 64, 1"; 2]);
    assert_eq!(strides(HEADS, ROWS), ["256*s1, 64*s1, 64, 1"; 2]);
    // Of one projection for all three.
    assert_eq!(strides("[768*s1, 64, 768, 1]", HEADS), ["768*s1, 64, 768, 1", "256*s1, 64, 256, 1"]);
}

#[test]
fn queries_in_no_known_order_are_copied() {
    assert_eq!(strides("[256*s1, 100000, 256, 1]", ROWS), ["256*s1, 64*s1, 64, 1"; 2]);
}

/// torch's own operators take values of another width than queries.
#[test]
fn the_result_is_as_wide_as_the_values() {
    let (q, v) = ("bf16[2, 4, 128, 64]@cuda0", "bf16[2, 4, 128, 32]@cuda0");
    let text = format!(
        r#"graph(%0: {v} "g", %1: {q} strides [32768, 64, 256, 1] "q", %2: {q} "k", %3: {v} "v", %4: f32[2, 4, 128, 1]@cuda0 "l") {{
  %5 = library(%1, %2, %3, callee="aten::_scaled_dot_product_cudnn_attention" "", args=[$0, $1, $2, none, true, 0.0, false, false], kwargs=[], outs=[{v}]) : {v}
  %6 = project(%5, 0) : {v}
  %7 = library(%0, %1, %2, %3, %6, %4, callee="aten::_scaled_dot_product_cudnn_attention_backward" "", args=[$0, $1, $2, $3, $4, $5], kwargs=[], outs=[{q}, {q}, {v}]) : {q}
  %8 = project(%7, 0) : {q}
  return %8
}}"#
    );
    assert_eq!(given(&text)[4], "16384, 32, 128, 1");
}
