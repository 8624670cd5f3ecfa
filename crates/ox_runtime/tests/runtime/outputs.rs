//! Results, aliases and writes into inputs.

use crate::build::*;
use ox_ir::graph::Post;
use ox_ir::plan::{Call, PlanOutput, Step, WriteBack};
use ox_ir::{DType, Scalar, Sym};
use ox_runtime::abi;

#[test]
fn planned_strides_and_offsets_of_inputs() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let x = b.typed_input(DType::F32, &[2, 3], Some(&[1, 2]));
    let y = b.typed_output(DType::F32, &[2, 3], Some(&[1, 2]));
    let (from, to) = (b.whole(x), b.whole(y));
    b.plan.steps.push(Step::Copy { from, to });
    let executable = b.build();
    // A window that begins at the third element of its storage.
    let storage = tensor(&[8], &[9.0, 9.0, 0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let x = storage.as_ref().reinterpret(&[2, 3], &[1, 2], 2).unwrap();
    let got = run(&executable, &[&x]);
    assert_eq!(floats(&got[0]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(got[0].as_ref().strides().unwrap(), [1, 2]);
}

#[test]
fn copies_convert() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, y) = (b.input(&[3]), b.typed_output(DType::I64, &[2, 3], None));
    let (from, to) = (b.view(x, &[2, 3], &[0, 1], 0), b.whole(y));
    b.plan.steps.push(Step::Copy { from, to });
    let got = run(&b.build(), &[&tensor(&[3], &[1.9, -2.9, 3.0])]);
    assert_eq!(values::<i64>(&got[0]), [1, -2, 3, 1, -2, 3]);
}

#[test]
fn outputs_may_alias_inputs_and_each_other() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, y) = (b.input(&[4]), b.output(&[4]));
    b.launch(twice_plus_one, Sym::from(4i64), &[x, y]);
    b.plan.outputs.push(PlanOutput::InputView { input: 0, shape: shape(&[2]), strides: shape(&[2]), offset: Sym::ONE });
    b.plan.outputs.push(PlanOutput::View(b.view(y, &[2], &[1], 2)));
    b.plan.outputs.push(PlanOutput::Buffer(x));
    b.plan.outputs.push(PlanOutput::Buffer(y));
    let x = tensor(&[4], &[0.0, 1.0, 2.0, 3.0]);
    let got = run(&b.build(), &[&x]);
    let data = |at: usize| got[at].as_ref().data_ptr().unwrap();
    assert_eq!(floats(&got[1]), [1.0, 3.0]);
    assert_eq!(data(1), x.as_ref().data_ptr().unwrap().wrapping_add(4));
    assert_eq!(floats(&got[2]), [5.0, 7.0]);
    assert_eq!(data(2), data(0).wrapping_add(8));
    assert_eq!(got[3].as_ref().impl_ptr(), x.as_ref().impl_ptr(), "an input that is returned is the same tensor");
    assert_eq!(got[4].as_ref().impl_ptr(), got[0].as_ref().impl_ptr());
}

#[test]
fn a_view_of_an_input_is_counted_from_where_the_input_begins() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    b.input(&[4]);
    b.plan.outputs.push(PlanOutput::InputView { input: 0, shape: shape(&[2]), strides: shape(&[2]), offset: Sym::ONE });
    let executable = b.build();
    let storage = tensor(&[8], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    for start in [0, 3, 4] {
        let x = storage.as_ref().reinterpret(&[4], &[1], start).unwrap();
        let got = run(&executable, &[&x]);
        assert_eq!(floats(&got[0]), [start as f32 + 1.0, start as f32 + 3.0]);
    }
}

#[test]
fn results_outlive_the_executable() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, t, y) = (b.input(&[4]), b.arena(DType::F32, &[4]), b.output(&[4]));
    b.launch(twice_plus_one, Sym::from(4i64), &[x, t]);
    b.launch(twice_plus_one, Sym::from(4i64), &[t, y]);
    let got = run(&b.build(), &[&tensor(&[4], &[0.0, 1.0, 2.0, 3.0])]);
    assert_eq!(floats(&got[0]), [3.0, 7.0, 11.0, 15.0]);
}

#[test]
fn inputs_are_written_after_everything_else() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, t, y) = (b.input(&[3]), b.arena(DType::F32, &[3]), b.output(&[3]));
    b.launch(twice_plus_one, Sym::from(3i64), &[x, t]);
    b.launch(twice_plus_one, Sym::from(3i64), &[x, y]);
    let from = b.whole(t);
    b.plan.write_backs.push(WriteBack { input: 0, from });
    let executable = b.build();
    let x = tensor(&[3], &[0.0, 1.0, 2.0]);
    for (result, after) in [([1.0, 3.0, 5.0], [1.0, 3.0, 5.0]), ([3.0, 7.0, 11.0], [3.0, 7.0, 11.0])] {
        assert_eq!(floats(&run(&executable, &[&x])[0]), result);
        assert_eq!(floats(&x), after);
    }
}

#[test]
fn two_inputs_may_be_swapped() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, y) = (b.input(&[2]), b.input(&[2]));
    let (from_y, from_x) = (b.whole(y), b.whole(x));
    b.plan.write_backs = vec![WriteBack { input: 0, from: from_y }, WriteBack { input: 1, from: from_x }];
    let (x, y) = (tensor(&[2], &[1.0, 2.0]), tensor(&[2], &[3.0, 4.0]));
    run(&b.build(), &[&x, &y]);
    assert_eq!((floats(&x), floats(&y)), (vec![3.0, 4.0], vec![1.0, 2.0]));
}

#[test]
fn the_grad_mode_is_left_as_it_was() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, y) = (b.input(&[2]), b.output(&[2]));
    b.launch(twice_plus_one, Sym::from(2i64), &[x, y]);
    let executable = b.build();
    let abi = abi::abi().unwrap();
    for mode in [true, false] {
        // SAFETY: sets and reads a thread-local flag.
        unsafe {
            (abi.aoti_torch_grad_mode_set_enabled)(mode);
            run(&executable, &[&tensor(&[2], &[1.0, 2.0])]);
            assert_eq!((abi.aoti_torch_grad_mode_is_enabled)(), mode);
        }
    }
}

#[test]
fn buffers_without_elements_need_no_writer() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (w, empty, y) = (b.input(&[3, 2]), b.output(&[0, 3]), b.output(&[0, 2]));
    let ins = vec![b.whole(empty), b.whole(w)];
    let call = Call::Matmul { bias: false, add: false, alpha: Scalar::Float(1.0), beta: Scalar::Float(1.0), post: Post::None };
    b.call(call, ins, &[y]);
    let unwritten = b.library(DType::F32, &[0, 4], None);
    b.plan.outputs.push(PlanOutput::View(b.view(unwritten, &[4, 0], &[1, 4], 0)));
    let got = run(&b.build(), &[&tensor(&[3, 2], &[0.0; 6])]);
    let sizes: Vec<_> = got.iter().map(|t| t.as_ref().sizes().unwrap()).collect();
    assert_eq!(sizes, [[0, 3], [0, 2], [4, 0]]);
}
