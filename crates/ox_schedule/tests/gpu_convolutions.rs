//! What a GPU's convolutions are given: all of it in channels-last order, the weights too, which the library would bring into it by itself in every call.

use ox_ir::plan::{BufId, Call, Step};
use ox_ir::{Graph, Plan, Sym};
use ox_schedule::{ScheduleOptions, Target, schedule};

fn plan(text: &str) -> Plan {
    let graph = Graph::parse(text).unwrap();
    graph.verify().unwrap();
    let plan = schedule(&graph, &ScheduleOptions { target: Target::Gpu, ..Default::default() }).unwrap();
    plan.verify().unwrap();
    plan
}

fn forward(dtype: &str, window: usize) -> Plan {
    plan(&format!(
        r#"graph(%0: {dtype}[4, 64, 28, 28]@cuda0 strides [50176, 1, 1792, 64] "x", %1: {dtype}[32, 64, {window}, {window}]@cuda0 "w") {{
  %2 = conv(%0, %1, stride=[1, 1], padding=[0, 0], dilation=[1, 1], output_padding=[0, 0], groups=1) : {dtype}[4, 32, {out}, {out}]@cuda0
  return %2 strides [{step}, 1, {row}, 32]
}}"#,
        out = 29 - window,
        row = 32 * (29 - window),
        step = 32 * (29 - window) * (29 - window),
    ))
}

/// Which of the arguments of the call are in channels-last order and no other.
fn lasts(plan: &Plan, is_wanted: impl Fn(&Call) -> bool) -> Vec<bool> {
    let ins = plan.steps.iter().find_map(|step| match step {
        Step::Call { call, ins, .. } if is_wanted(call) => Some(ins),
        _ => None,
    });
    let is_last = |strides: &[Sym]| strides.len() == 4 && strides[1].is_one() && !strides[3].is_one();
    ins.unwrap().iter().map(|view| is_last(&view.strides)).collect()
}

#[test]
fn weights_of_halves_are_brought_into_the_order_of_what_they_meet() {
    let is_conv = |call: &Call| matches!(call, Call::Conv(_));
    let plan = forward("bf16", 3);
    assert_eq!(lasts(&plan, is_conv), [true, true]);
    assert_eq!(plan.kernels.len(), 1, "{plan}");
    // A window of one element is in both orders, and f32 is done in the usual one.
    assert!(forward("bf16", 1).kernels.is_empty());
    assert_eq!(lasts(&forward("f32", 3), is_conv), [false, false]);
}

#[test]
fn so_are_those_of_derivatives() {
    let plan = plan(
        r#"graph(%0: bf16[4, 32, 26, 26]@cuda0 "g", %1: bf16[4, 64, 28, 28]@cuda0 "x", %2: bf16[32, 64, 3, 3]@cuda0 "w") {
  %3 = library(%0, %1, %2, callee="aten::convolution_backward" "", args=[$0, $1, $2, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false]], kwargs=[], outs=[bf16[4, 64, 28, 28]@cuda0 strides [50176, 784, 28, 1], bf16[32, 64, 3, 3]@cuda0 strides [576, 9, 3, 1]]) : bf16[4, 64, 28, 28]@cuda0
  %4 = project(%3, 1) : bf16[32, 64, 3, 3]@cuda0
  return %4
}"#,
    );
    assert_eq!(lasts(&plan, |call| matches!(call, Call::Library(_))), [true, true, true]);
}

/// A head over several planes, or one that is applied again and again.
#[test]
fn weights_that_many_share_are_copied_once() {
    let order = "strides [25088, 1, 896, 32]";
    let window = "stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], groups=1";
    let plan = plan(&format!(
        r#"graph(%0: bf16[4, 32, 28, 28]@cuda0 {order} "x", %1: bf16[32, 32, 3, 3]@cuda0 "w", %2: bf16[4, 32, 28, 28]@cuda0 {order} "y") {{
  %3 = conv(%0, %1, {window}) : bf16[4, 32, 28, 28]@cuda0
  %4 = conv(%2, %1, {window}) : bf16[4, 32, 28, 28]@cuda0
  %5 = conv(%3, %1, {window}) : bf16[4, 32, 28, 28]@cuda0
  return %4 {order}, %5 {order}
}}"#
    ));
    let weights = plan.steps.iter().filter_map(|step| match step {
        Step::Call { call: Call::Conv(_), ins, .. } => Some(ins[1].buf),
        _ => None,
    });
    let weights: Vec<_> = weights.collect();
    assert!(weights.len() == 3 && weights.iter().all(|buf| *buf == weights[0]), "{plan}");
}

/// Two small kernels become one, the first of which both convolutions need: what needs nothing stays where it was, in front of who needs it.
#[test]
fn weights_are_brought_into_order_when_they_are_needed() {
    let plan = plan(
        r#"graph(%0: bf16[4, 256, 8, 8]@cuda0 "x", %1: bf16[256, 256, 3, 3]@cuda0 "w", %2: bf16[256, 256, 3, 3]@cuda0 "v", %3: bf16[256]@cuda0 "s", %4: bf16[256]@cuda0 "t") {
  %5 = exp(%3) : bf16[256]@cuda0
  %6 = reshape(%5) : bf16[1, 256, 1, 1]@cuda0
  %7 = expand(%6) : bf16[4, 256, 8, 8]@cuda0
  %8 = add(%0, %7) : bf16[4, 256, 8, 8]@cuda0
  %9 = conv(%8, %1, stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], groups=1) : bf16[4, 256, 8, 8]@cuda0
  %10 = conv(%9, %2, stride=[1, 1], padding=[1, 1], dilation=[1, 1], output_padding=[0, 0], groups=1) : bf16[4, 256, 8, 8]@cuda0
  %11 = exp(%4) : bf16[256]@cuda0
  return %10, %11, %5
}"#,
    );
    let writes = |step: &Step, buf: BufId| matches!(step, Step::Launch { bufs, .. } if bufs.last() == Some(&buf));
    let convs = plan.steps.iter().enumerate().filter_map(|(at, step)| match step {
        Step::Call { call: Call::Conv(_), ins, .. } => Some((at, ins[1].buf)),
        _ => None,
    });
    let convs: Vec<(usize, BufId)> = convs.collect();
    assert_eq!(convs.len(), 2);
    convs.iter().for_each(|(at, weight)| assert!(writes(&plan.steps[at - 1], *weight), "{plan}"));
}
