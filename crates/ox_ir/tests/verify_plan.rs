//! Plans are built by hand here: they have no parser.

use ox_ir::graph::{Shape, contiguous_strides};
use ox_ir::plan::{BufId, Buffer, Place, PlanOutput, Step, View};
use ox_ir::{DType, Kernel, Plan, Sym};

fn shape(sizes: &[i64]) -> Shape {
    sizes.iter().map(|n| Sym::from(*n)).collect()
}

fn buffer(n: i64, place: Place) -> Buffer {
    let shape = shape(&[n]);
    Buffer { dtype: DType::F32, device: Default::default(), strides: contiguous_strides(&shape), shape, place, packed: false }
}

fn arena(n: i64, at: i64) -> Buffer {
    buffer(n, Place::Arena(Sym::from(at)))
}

fn launch(bufs: &[u32]) -> Step {
    Step::Launch { kernel: 0, bufs: bufs.iter().map(|b| BufId(*b)).collect(), checks: 0 }
}

fn view(buf: u32, n: i64, offset: i64) -> View {
    View { buf: BufId(buf), shape: shape(&[n]), strides: shape(&[1]), offset: Sym::from(offset) }
}

/// b0 (input) to b1, b1 to b2, b2 to b3 (output), each by a copying kernel.
fn chain(b1: Buffer, b2: Buffer) -> Plan {
    let copy = "kernel copy(b0: f32 in, b1: f32 out, i0 < 4) lanes=outer { pass { v0 = load b0[i0] store b1[i0] v0 } }";
    Plan {
        buffers: vec![buffer(4, Place::Input(0)), b1, b2, buffer(4, Place::Output(0))],
        kernels: vec![Kernel::parse(copy).unwrap()],
        steps: vec![launch(&[0, 1]), launch(&[1, 2]), launch(&[2, 3])],
        outputs: vec![PlanOutput::Buffer(BufId(3))],
        arena_bytes: Some(Sym::from(32i64)),
        ..Plan::default()
    }
}

#[track_caller]
fn wrong(plan: &Plan, message: &str) {
    let error = plan.verify().expect_err("it is wrong").to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn right_plans_pass() {
    assert_eq!(chain(arena(4, 0), arena(4, 16)).verify(), Ok(()));
}

#[test]
fn buffers_that_live_together_do_not_overlap() {
    let mut plan = chain(arena(4, 0), arena(4, 8));
    plan.steps[2] = launch(&[1, 3]);
    plan.steps.push(launch(&[2, 3]));
    wrong(&plan, "b2: it shares bytes with b1");
    // b1 dies in the step that makes b2, but in that step both are there.
    wrong(&chain(arena(4, 0), arena(4, 0)), "b2: it shares bytes with b1");
    wrong(&chain(arena(4, 0), arena(4, 20)), "b2: bytes 20..36 lie outside of the arena");
}

#[test]
fn nothing_is_read_before_it_is_written() {
    let mut plan = chain(arena(4, 0), arena(4, 16));
    plan.steps.remove(0);
    wrong(&plan, "step 0: b1 is read before it is written");
    let mut plan = chain(arena(4, 0), arena(4, 16));
    plan.steps.pop();
    wrong(&plan, "output 0: b3 is read before it is written");
}

/// A kernel may read what it wrote itself.
#[test]
fn a_buffer_that_is_written_first_needs_no_content() {
    let kernel = |body: &str| Kernel::parse(&format!("kernel k(b0: f32 in, b1: f32 inout) lanes=none {{ {body} }}")).unwrap();
    let mut plan = chain(arena(4, 0), arena(4, 16));
    plan.kernels[0] = kernel("pass i0 < 4 { v0 = load b0[i0] store b1[i0] v0 } pass i0 < 4 { v2 = load b1[i0] store b1[i0] v2 }");
    assert_eq!(plan.verify(), Ok(()));
    plan.kernels[0] = kernel("pass i0 < 4 { v0 = load b0[i0] store sum b1[i0] v0 }");
    wrong(&plan, "step 0: b1 is read before it is written");
}

#[test]
fn launches_fit_their_kernels() {
    let mut plan = chain(arena(4, 0), arena(4, 16));
    plan.steps[1] = launch(&[1]);
    wrong(&plan, "1 buffers for 2 parameters");
    plan.steps[1] = Step::Launch { kernel: 3, bufs: vec![], checks: 0 };
    wrong(&plan, "there is no kernel 3");
    let mut typed = chain(arena(4, 0), arena(4, 16));
    typed.buffers[1].dtype = DType::I32;
    wrong(&typed, "b1 is i32, copy wants f32");
    let mut checked = chain(arena(4, 0), arena(4, 16));
    let text = "kernel copy(b0: f32 in, b1: f32 out, i0 < 4) lanes=outer { pass { v0 = load b0[i0] store b1[i0] v0 v1 = index i0 check_nonzero v1 check 0 } }";
    checked.kernels[0] = Kernel::parse(text).unwrap();
    wrong(&checked, "its last check does not exist");
}

#[test]
fn views_stay_inside_of_their_buffers() {
    let mut plan = chain(arena(4, 0), arena(4, 16));
    plan.steps[2] = Step::Copy { from: view(2, 2, 2), to: view(3, 2, 0) };
    assert_eq!(plan.verify(), Ok(()));
    plan.steps[2] = Step::Copy { from: view(2, 2, 3), to: view(3, 2, 0) };
    wrong(&plan, "a view of b2 to element 3 + 2 of 4");
    plan.steps[2] = Step::Copy { from: view(2, 2, 0), to: view(3, 2, -1) };
    wrong(&plan, "a view of b3");
    plan.steps[2] = Step::Drop(BufId(2));
    wrong(&plan, "b2 is neither a library's nor an input");
}

#[test]
fn plans_print_what_happens() {
    let mut plan = chain(arena(4, 0), arena(4, 16));
    plan.steps[2] = Step::Copy { from: view(2, 2, 2), to: view(3, 4, 0) };
    plan.locations = vec!["".into(), "model.py:7".into()];
    let one = ox_ir::Scalar::Float(1.0);
    let call = ox_ir::plan::Call::Matmul { bias: true, add: false, alpha: one, beta: one, post: ox_ir::graph::Post::Relu };
    let ins = vec![view(0, 4, 0), view(1, 4, 0), view(2, 4, 0)];
    plan.steps.push(Step::Call { call, ins, outs: vec![BufId(3)], location: 1 });
    let text = plan.to_string();
    let (plan_text, kernel_text) = text.split_once("\n\n").unwrap();
    let expected = "\
plan {
  arena 32 bytes
  b0: f32[4] input 0
  b1: f32[4] arena at 0
  b2: f32[4] arena at 16
  b3: f32[4] output 0
  launch 0 copy(b0, b1)
  launch 0 copy(b1, b2)
  copy b2[2] at 2 to b3
  b3 = call matmul(b0, b1, b2, bias, post=relu)  # model.py:7
  return b3
}";
    assert_eq!(plan_text, expected);
    assert!(kernel_text.starts_with("# kernel 0\nkernel copy("), "{kernel_text}");
}
