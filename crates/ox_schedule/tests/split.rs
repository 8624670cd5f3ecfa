//! Reductions that are cut, by how what they read lies in memory.

use ox_ir::Graph;
use ox_ir::kernel::Usual;
use ox_schedule::{ScheduleOptions, Target, schedule};

/// The points of the kernel that reads the input.
fn first_points(text: &str) -> i64 {
    let graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    let plan = schedule(&graph, &ScheduleOptions { target: Target::Gpu, ..Default::default() }).unwrap();
    plan.verify().unwrap();
    assert_eq!(plan.kernels.len(), 2, "{plan}");
    plan.kernels[0].points().as_const().unwrap()
}

const GROUPS: &str = r#"graph(%0: bf16[4, 128, 64, 64]@cuda0 STRIDES "x", %1: bf16[128]@cuda0 "bias") {
  %2 = reshape(%1) : bf16[1, 128, 1, 1]@cuda0
  %3 = expand(%2) : bf16[4, 128, 64, 64]@cuda0
  %4 = add(%0, %3) : bf16[4, 128, 64, 64]@cuda0
  %5 = reshape(%4) : bf16[4, 32, 4, 64, 64]@cuda0
  %6 = cast(%5) : f32[4, 32, 4, 64, 64]@cuda0
  %7 = reduce(%6, op=sum, dims=[2, 3, 4]) : f32[4, 32, 1, 1, 1]@cuda0
  return %7
}"#;

/// Channels lie side by side: whether a sum is one of columns is seen through the operations in front of it.
#[test]
fn groups_of_channels_that_lie_side_by_side_fill_a_gpu() {
    assert_eq!(first_points(&GROUPS.replace("STRIDES", "strides [524288, 1, 8192, 128]")), 4 * 128 * 32);
    assert_eq!(first_points(&GROUPS.replace("STRIDES ", "")), 4 * 32 * 4);
}

/// Each step reads the one before in two ways, and the first of them says nothing about how it lies.
#[test]
fn many_paths_to_one_value_are_walked_once() {
    let mut text = String::from("graph(%0: f32[64, 4096]@cuda0 \"x\") {\n");
    let mut last = 0;
    for _ in 0..200 {
        let (slice, expand, product) = (last + 1, last + 2, last + 3);
        text += &format!("  %{slice} = slice(%{last}, [0, 0]) : f32[64, 1]@cuda0\n");
        text += &format!("  %{expand} = expand(%{slice}) : f32[64, 4096]@cuda0\n");
        text += &format!("  %{product} = mul(%{expand}, %{last}) : f32[64, 4096]@cuda0\n");
        last = product;
    }
    text += &format!("  %{} = reduce(%{last}, op=sum, dims=[1]) : f32[64, 1]@cuda0\n  return %{}\n}}", last + 1, last + 1);
    let graph = Graph::parse(&text).unwrap();
    let plan = schedule(&graph, &ScheduleOptions { target: Target::Gpu, ..Default::default() }).unwrap();
    plan.verify().unwrap();
}

/// The gradient of a bias where batch and sequence vary, the statistics of images: what lies as one dimension is cut as one.
#[test]
fn dimensions_of_any_size_that_lie_as_one_are_cut_as_one() {
    let plan = |input: &str, dims: &str, result: &str| {
        let text = format!(
            "sizes s0 in 1.., s1 in 1..\ngraph(%0: {input} \"x\") {{\n  %1 = reduce(%0, op=sum, dims={dims}) : {result}\n  return %1\n}}"
        );
        let graph = Graph::parse(&text).unwrap();
        graph.verify().unwrap();
        let plan = schedule(&graph, &ScheduleOptions { target: Target::Gpu, ..Default::default() }).unwrap();
        plan.verify().unwrap();
        plan.to_string()
    };
    let bias = plan("f32[s0, s1, 768]@cuda0", "[0, 1]", "f32[1, 1, 768]@cuda0");
    assert!(bias.contains("i0 < 32, i1 < 768) lanes=outer parallel length=128 {\n  pass i2 < (s0*s1 + 31)//32 {"), "{bias}");
    let channels_last = "f32[s0, 256, s1, s1]@cuda0 strides [256*s1*s1, 1, 256*s1, 256]";
    let images = plan(channels_last, "[0, 2, 3]", "f32[1, 256, 1, 1]@cuda0");
    assert!(
        images.contains("i0 < 198, i1 < 256) lanes=outer parallel length=2048 {\n  pass i2 < (s0*s1*s1 + 197)//198 {"),
        "{images}"
    );
}

/// Rows of any length and number are spread over as many threads as they usually have elements for: the kernel says how long they usually
/// are, and how many.
#[test]
fn a_kernel_for_a_gpu_knows_about_how_large_it_is() {
    let text = r#"sizes s0 in 1.., s1 in 1..
graph(%0: f32[s0, 2048, s1]@cuda0 "x") {
  %1 = reduce(%0, op=max, dims=[2]) : f32[s0, 2048, 1]@cuda0
  return %1
}"#;
    let graph = Graph::parse(text).unwrap();
    let usual = vec![(graph.sizes[0].clone(), 60), (graph.sizes[1].clone(), 150)];
    for target in [Target::Gpu, Target::Cpu] {
        let plan = schedule(&graph, &ScheduleOptions { target, usual: usual.clone(), ..Default::default() }).unwrap();
        let expected = match target {
            Target::Gpu => Usual { length: Some(256), points: Some(1 << 17) },
            _ => Usual::default(),
        };
        assert_eq!(plan.kernels[0].usual, expected, "{plan}");
        let again = ox_ir::Kernel::parse(&plan.kernels[0].to_string()).unwrap();
        assert_eq!(again.usual, expected);
    }
}
