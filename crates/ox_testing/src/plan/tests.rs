use super::*;
use ox_ir::DType;
use ox_ir::graph::{Post, Shape, contiguous_strides};
use ox_ir::kernel::Kernel;
use ox_ir::plan::{Buffer, Place, WriteBack};

fn shape(sizes: &[i64]) -> Shape {
    sizes.iter().map(|n| Sym::from(*n)).collect()
}

fn buffer(sizes: &[i64], strides: &[i64], place: Place) -> Buffer {
    Buffer { dtype: DType::F32, device: Default::default(), shape: shape(sizes), strides: shape(strides), place, packed: false }
}

fn view(plan: &Plan, n: u32) -> View {
    let b = &plan.buffers[n as usize];
    View { buf: BufId(n), shape: b.shape.clone(), strides: b.strides.clone(), offset: Sym::ZERO }
}

fn floats(shape: &[usize], data: &[f64]) -> TensorData {
    TensorData::floats(DType::F32, shape, data)
}

/// neg: b0 (input) to b1 (arena); neg again: b1 to b2 (arena), then b2 to b3 (output).
fn chain(offsets: [i64; 2]) -> Plan {
    let kernel = Kernel::parse(
        "kernel neg(b0: f32 in, b1: f32 out, i0 < 2) lanes=outer { pass { v0 = load b0[i0] v1 = neg v0 store b1[i0] v1 } }",
    )
    .unwrap();
    let double = Kernel::parse(
        "kernel sub(b0: f32 in, b1: f32 in, b2: f32 out, i0 < 2) lanes=outer { pass { v0 = load b0[i0] v1 = load b1[i0] v2 = sub v0 v1 store b2[i0] v2 } }",
    )
    .unwrap();
    let launch = |kernel: u32, bufs: &[u32]| Step::Launch { kernel, bufs: bufs.iter().map(|b| BufId(*b)).collect(), checks: 0 };
    Plan {
        buffers: vec![
            buffer(&[2], &[1], Place::Input(0)),
            buffer(&[2], &[1], Place::Arena(Sym::from(offsets[0]))),
            buffer(&[2], &[1], Place::Arena(Sym::from(offsets[1]))),
            buffer(&[2], &[1], Place::Output(0)),
        ],
        kernels: vec![kernel, double],
        steps: vec![launch(0, &[0, 1]), launch(0, &[1, 2]), launch(1, &[1, 2, 3])],
        outputs: vec![PlanOutput::Buffer(BufId(3))],
        arena_bytes: Some(Sym::from(16i64)),
        ..Plan::default()
    }
}

#[test]
fn buffers_share_one_arena() {
    let x = [floats(&[2], &[1.0, 2.0])];
    assert_eq!(interpret_plan(&chain([0, 8]), &x, &[]).unwrap().outputs, [floats(&[2], &[-2.0, -4.0])]);
    // Planned onto one another, the second overwrites the first.
    assert_eq!(interpret_plan(&chain([0, 0]), &x, &[]).unwrap().outputs, [floats(&[2], &[0.0, 0.0])]);
    assert!(interpret_plan(&chain([0, 12]), &x, &[]).is_err());
}

#[test]
fn memory_that_was_never_written_cannot_be_read() {
    let mut plan = chain([0, 8]);
    plan.steps.remove(1);
    let error = interpret_plan(&plan, &[floats(&[2], &[1.0, 2.0])], &[]).unwrap_err();
    assert!(error.to_string().contains("before it is written"), "{error}");
}

#[test]
fn memory_that_is_gone_is_neither_read_nor_written() {
    let x = [floats(&[2], &[1.0, 2.0])];
    let fails_with = |at: usize, step: Step| {
        let mut plan = chain([0, 8]);
        plan.steps.insert(at, step);
        interpret_plan(&plan, &x, &[]).unwrap_err().to_string()
    };
    assert!(fails_with(1, Step::Release).contains("before it is written"));
    assert!(fails_with(0, Step::Release).contains("memory is gone"));
    assert!(fails_with(0, Step::Drop(BufId(0))).contains("before it is written"));
    let mut given = chain([0, 8]);
    given.steps.push(Step::Drop(BufId(0)));
    given.steps.push(Step::Release);
    let got = interpret_plan(&given, &x, &[]).unwrap();
    assert_eq!((got.outputs.len(), got.inputs), (1, vec![None]));
}

/// A transposed input, a product into a transposed output, a copy, and a write back.
#[test]
fn strides_calls_and_write_backs() {
    let mut plan = Plan {
        buffers: vec![
            buffer(&[2, 2], &[1, 2], Place::Input(0)),
            buffer(&[2, 2], &[1, 2], Place::Output(0)),
            buffer(&[2], &[1], Place::Output(1)),
        ],
        outputs: vec![
            PlanOutput::Buffer(BufId(1)),
            PlanOutput::Buffer(BufId(2)),
            PlanOutput::InputView { input: 0, shape: shape(&[4]), strides: shape(&[1]), offset: Sym::ZERO },
        ],
        ..Plan::default()
    };
    let one = Scalar::Float(1.0);
    let call = Call::Matmul { bias: false, add: false, alpha: one, beta: one, post: Post::None };
    let a = view(&plan, 0);
    plan.steps.push(Step::Call { call, ins: vec![a.clone(), a], outs: vec![BufId(1)], location: 0 });
    let row = View { buf: BufId(1), shape: shape(&[2]), strides: shape(&[2]), offset: Sym::ONE };
    plan.steps.push(Step::Copy { from: row, to: view(&plan, 2) });
    plan.write_backs.push(WriteBack { input: 0, from: view(&plan, 1) });

    let got = interpret_plan(&plan, &[floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])], &[]).unwrap();
    let product = floats(&[2, 2], &[7.0, 10.0, 15.0, 22.0]);
    assert_eq!(got.outputs[0], product);
    assert_eq!(got.outputs[1], floats(&[2], &[15.0, 22.0]));
    assert_eq!(got.inputs[0], Some(product.clone()));
    assert_eq!(got.outputs[2], floats(&[4], &[7.0, 15.0, 10.0, 22.0]));
    assert_eq!(contiguous_strides(&shape(&[2, 2])), shape(&[2, 1]));
}
