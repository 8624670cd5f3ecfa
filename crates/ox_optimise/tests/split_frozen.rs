//! The two parts of a graph compute together what the whole does.

mod common;

use common::{Random, inputs};
use ox_ir::{Graph, Op};
use ox_optimise::{OptimiseOptions, Optimised, PackWeights, optimise, split_frozen};
use ox_testing::{TensorData, assert_close, interpret_graph};

fn run_parts(parts: &Optimised, inputs: &[TensorData]) -> Vec<TensorData> {
    let mut all = inputs.to_vec();
    if let Some(prelude) = &parts.prelude {
        assert_eq!(prelude.first as usize, inputs.len());
        let frozen: Vec<TensorData> = prelude.inputs.iter().map(|n| inputs[*n as usize].clone()).collect();
        all.extend(interpret_graph(&prelude.graph, &frozen, &[]).expect("the prelude runs").outputs);
    }
    interpret_graph(&parts.graph, &all, &[]).expect("the main part runs").outputs
}

#[track_caller]
fn check(text: &str) -> Optimised {
    let graph = Graph::parse(text).expect("a graph");
    let parts = split_frozen(optimise(
        graph.clone(),
        &OptimiseOptions { freezing: true, pack_weights: PackWeights::ALL, ..OptimiseOptions::default() },
    ));
    let inputs = inputs(&graph, &[], &mut Random(3), false);
    let expected = interpret_graph(&graph, &inputs, &[]).expect("the graph runs").outputs;
    let got = run_parts(&parts, &inputs);
    assert_eq!(got.len(), expected.len());
    got.iter().zip(&expected).for_each(|(a, b)| assert_close(a, b));
    parts
}

#[test]
fn a_batch_norm_is_folded_once() {
    let parts = check(
        r#"graph(%0: f32[1, 3, 5, 5] "x", %1: f32[4, 3, 3, 3] "weight" frozen, %2: f32[4] "variance" frozen, %3: f32[4] "shift" frozen) {
  %4 = conv(%0, %1, stride=[1, 1], padding=[1, 1], dilation=[1, 1]) : f32[1, 4, 5, 5]
  %5 = abs(%2) : f32[4]
  %6 = reshape(%5) : f32[1, 4, 1, 1]
  %7 = expand(%6) : f32[1, 4, 5, 5]
  %8 = mul(%4, %7) : f32[1, 4, 5, 5]
  %9 = reshape(%3) : f32[1, 4, 1, 1]
  %10 = expand(%9) : f32[1, 4, 5, 5]
  %11 = add(%8, %10) : f32[1, 4, 5, 5]
  return %11
}"#,
    );
    let prelude = parts.prelude.expect("work on frozen weights");
    assert_eq!(prelude.inputs, [1, 2]);
    // One convolution is left, on weights that came out of the prelude.
    let computed: Vec<&Op> = parts.graph.nodes.iter().map(|n| &n.op).filter(|op| !matches!(op, Op::Input(_))).collect();
    assert!(matches!(computed[..], [Op::Conv(_)]), "{}", parts.graph);
}

#[test]
fn a_packed_weight_is_an_input_of_the_rest() {
    let text = r#"graph(%0: f32[8, 384] "x", %1: f32[256, 384] "weight" frozen, %2: f32[1, 3, 5, 5] "image", %3: f32[4, 3, 3, 3] "window" frozen) {
  %4 = permute(%1, [1, 0]) : f32[384, 256]
  %5 = matmul(%0, %4) : f32[8, 256]
  %6 = conv(%2, %3, stride=[1, 1], padding=[1, 1], dilation=[1, 1]) : f32[1, 4, 5, 5]
  return %5, %6
}"#;
    let parts = check(text);
    assert!(parts.graph.inputs[4..].iter().all(|input| input.packed), "{}", parts.graph);
    assert_eq!(Graph::parse(&parts.graph.to_string()).as_ref(), Ok(&parts.graph));
    let prelude = parts.prelude.expect("weights to pack");
    let packs = prelude.graph.nodes.iter().filter(|n| matches!(n.op, Op::Pack(_))).count();
    assert_eq!((packs, prelude.inputs.len()), (2, 2), "{}", prelude.graph);
    prelude.graph.verify().expect("a right prelude");
    parts.graph.verify().expect("a right rest");
}

#[test]
fn products_in_f32_are_packed_for_few_hundred_rows() {
    let options = OptimiseOptions { freezing: true, pack_weights: PackWeights::ALL, ..OptimiseOptions::default() };
    for (rows, packed) in [(1, false), (7, false), (8, true), (512, true), (513, false)] {
        let text = format!(
            r#"graph(%0: f32[{rows}, 384] "x", %1: f32[384, 256] "weight" frozen) {{
  %2 = matmul(%0, %1) : f32[{rows}, 256]
  return %2
}}"#
        );
        let graph = optimise(Graph::parse(&text).expect("a graph"), &options);
        assert_eq!(graph.nodes.iter().any(|n| matches!(n.op, Op::Pack(_))), packed, "{graph}");
    }
}

#[test]
fn views_and_positions_are_not_worth_a_prelude() {
    let parts = check(
        r#"graph(%0: f32[2, 3] "x", %1: f32[4, 3] "weight" frozen) {
  %2 = permute(%1, [1, 0]) : f32[3, 4]
  %3 = matmul(%0, %2) : f32[2, 4]
  %4 = iota(dim=1) : i64[2, 4]
  %5 = cast(%4) : f32[2, 4]
  %6 = add(%3, %5) : f32[2, 4]
  return %6
}"#,
    );
    assert!(parts.prelude.is_none());
}

#[test]
fn what_depends_on_a_size_runs_every_time() {
    let attributes = ["slice(%1, [s0, 0]) : f32[4, 3]", "pad(%1, low=[s0, 0], value=0) : f32[4, 3]"];
    for attribute in attributes {
        let text = format!(
            r#"sizes s0 in 0..5
graph(%0: f32[s0, 3] "x", %1: f32[8, 3] "weight" frozen) {{
  %2 = {attribute}
  %3 = exp(%2) : f32[4, 3]
  return %3
}}"#
        );
        let graph = Graph::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(split_frozen(graph).prelude.is_none(), "{text}");
    }
}

#[test]
fn an_input_that_is_written_is_not_frozen() {
    let text = r#"graph(%0: f32[4] "x", %1: f32[4] "mean" frozen) {
  %2 = exp(%1) : f32[4]
  %3 = add(%2, %0) : f32[4]
  mutate 1 = %3
  return %3
}"#;
    assert!(check(text).prelude.is_none());
}
