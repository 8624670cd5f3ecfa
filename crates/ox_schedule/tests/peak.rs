//! The most that a run holds: what the arena costs beside tensors that the library makes.

use ox_ir::Graph;
use ox_ir::plan::{BufId, Place, Plan, Step};
use ox_schedule::schedule;

fn scheduled(text: &str) -> Plan {
    let graph = Graph::parse(text).unwrap();
    let plan = schedule(&graph, &Default::default()).unwrap();
    plan.verify().unwrap_or_else(|e| panic!("{e}\n{plan}"));
    plan
}

fn arena_bytes(plan: &Plan) -> i64 {
    plan.arena_bytes.as_ref().map_or(0, |bytes| bytes.constant())
}

/// The first intermediate is the only large one: held to the end, it would stand beside the large result of the second convolution. The arena
/// cannot go before that, since many small ones come behind it.
#[test]
fn a_large_intermediate_that_is_needed_for_a_short_time_is_a_tensor() {
    let mut text = String::from(
        r#"graph(%0: f32[1, 8, 256, 256] "x", %1: f32[8, 8, 1, 1] "w", %2: f32[64, 8, 1, 1] "v", %3: f32[64, 64] "m") {
  %4 = exp(%0) : f32[1, 8, 256, 256]
  %5 = conv(%4, %1, stride=[2, 2], padding=[0, 0], dilation=[1, 1]) : f32[1, 8, 128, 128]
  %6 = conv(%5, %2, stride=[1, 1], padding=[0, 0], dilation=[1, 1]) : f32[1, 64, 128, 128]
  %7 = reduce(%6, op=sum, dims=[2, 3]) : f32[1, 64, 1, 1]
  %8 = reshape(%7) : f32[1, 64]
"#,
    );
    for n in (8..28).step_by(2) {
        text += &format!("  %{} = exp(%{n}) : f32[1, 64]\n  %{} = matmul(%{}, %3) : f32[1, 64]\n", n + 1, n + 2, n + 1);
    }
    let plan = scheduled(&(text + "  return %28\n}"));
    assert!(!plan.steps.contains(&Step::Release) && arena_bytes(&plan) < 64 << 10, "{plan}");
    let large = plan.buffers.iter().position(|buffer| buffer.shape.len() == 4 && buffer.place == Place::Library).unwrap();
    assert!(plan.buffers[large].shape[3].constant() == 256, "{plan}");
    let dropped = plan.steps.iter().position(|step| *step == Step::Drop(BufId(large as u32)));
    assert!(dropped.is_some_and(|at| at < 3), "{plan}");
}
