use super::*;
use crate::tensor::TensorData;
use ox_ir::DType;

fn floats(data: &[f64]) -> TensorData {
    TensorData::floats(DType::F32, &[data.len()], data)
}

fn ints(data: &[i64]) -> TensorData {
    TensorData::ints(DType::I64, &[data.len()], data)
}

#[track_caller]
fn run(text: &str, bufs: &mut [TensorData], sizes: &[i64]) -> Result<()> {
    interpret_kernel(&Kernel::parse(text).unwrap(), bufs, sizes)
}

#[test]
fn softmax_rows() {
    let text = "sizes s0 in 1..9
        kernel softmax(b0: f32 in, b1: f32 out, b2: f32 scratch 2, i0 < s0) lanes=inner parallel {
          pass i1 < 2 { v0 = load b0[2*i0 + i1] v1 = reduce max v0 }
          pass i1 < 2 { v2 = load b0[2*i0 + i1] v3 = sub v2 v1 v4 = exp v3 store b2[i1] v4 v5 = reduce sum v4 }
          pass i1 < 2 { v6 = load b2[i1] v7 = div v6 v5 store b1[2*i0 + i1] v7 }
        }";
    let mut bufs = [floats(&[0.0, 0.0, 1.0, 3.0]), floats(&[9.0; 4])];
    run(text, &mut bufs, &[2]).unwrap();
    let e = 2f64.exp();
    crate::assert_close(&bufs[1], &floats(&[0.5, 0.5, 1.0 / (1.0 + e), e / (1.0 + e)]));
}

#[test]
fn masks() {
    let text = "kernel pad(b0: f32 in, b1: f32 out, i0 < 4) lanes=outer {
          pass { v0 = index i0 v1 = const 2 : i64 v2 = lt v0 v1 v3 = load b0[i0] if v2 else 7.0 store b1[i0] v3
                 v4 = const 9.0 : f32 v5 = eq v0 v1 store b1[i0] v4 if v5 }
        }";
    let mut bufs = [floats(&[1.0, 2.0]), floats(&[0.0; 4])];
    run(text, &mut bufs, &[]).unwrap();
    assert_eq!(bufs[1], floats(&[1.0, 2.0, 9.0, 7.0]));
}

#[test]
fn gathers_check_their_index() {
    let text = "kernel gather(b0: f32 in, b1: i64 in, b2: f32 out, i0 < 2) lanes=outer {
          pass { v0 = load b1[i0] v1 = check_index v0 j0 < 3 wrap check 5 }
          pass i1 < 2 { v2 = load b0[2*j0 + i1] store b2[2*i0 + i1] v2 }
        }";
    let mut bufs = [floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), ints(&[-1, 1]), floats(&[0.0; 4])];
    run(text, &mut bufs, &[]).unwrap();
    assert_eq!(bufs[2], floats(&[4.0, 5.0, 2.0, 3.0]));
    bufs[1] = ints(&[0, 3]);
    assert_eq!(run(text, &mut bufs, &[]), Err(InterpretError::Check { check: 5, value: 3, extent: 3 }));
    bufs[1] = ints(&[0, -4]);
    assert_eq!(run(text, &mut bufs, &[]), Err(InterpretError::Check { check: 5, value: -4, extent: 3 }));
}

#[test]
fn scatter_add_and_zero_checks() {
    let text = "kernel scatter(b0: i64 in, b1: i64 inout, i0 < 3) lanes=none {
          pass { v0 = load b0[i0] check_nonzero v0 check 1 v2 = check_index v0 j0 < 4 check 0 store sum b1[j0] v2 }
        }";
    let mut bufs = [ints(&[2, 1, 2]), ints(&[5, 5, 5, 5])];
    run(text, &mut bufs, &[]).unwrap();
    assert_eq!(bufs[1], ints(&[5, 6, 9, 5]));
    bufs[0] = ints(&[1, 0, 1]);
    assert_eq!(run(text, &mut bufs, &[]), Err(InterpretError::Check { check: 1, value: 0, extent: 0 }));
}

#[test]
fn scans_restart_with_the_last_axis_and_argmax_keeps_positions() {
    let text = "kernel scan(b0: i64 in, b1: i64 out, b2: i64 out) lanes=inner {
          pass i0 < 2, i1 < 3 { v0 = load b0[3*i0 + i1] v1 = scan sum v0 store b1[3*i0 + i1] v1 v3 = reduce argmax v0 at 3*i0 + i1 }
          pass { store b2[0] v3 }
        }";
    let mut bufs = [ints(&[1, 2, 9, 4, 9, 6]), ints(&[0; 6]), ints(&[0])];
    run(text, &mut bufs, &[]).unwrap();
    assert_eq!(bufs[1], ints(&[1, 3, 12, 4, 13, 19]));
    assert_eq!(bufs[2], ints(&[2]));
}

#[test]
fn empty_reductions_give_the_neutral_value() {
    let text = "sizes s0 in 0..9
        kernel sum(b0: f32 in, b1: f32 out) lanes=inner {
          pass i0 < s0 { v0 = load b0[i0] v1 = reduce max v0 }
          pass { store b1[0] v1 }
        }";
    let mut bufs = [floats(&[]), floats(&[0.0])];
    run(text, &mut bufs, &[0]).unwrap();
    assert_eq!(bufs[1], floats(&[f64::NEG_INFINITY]));
}

/// A kernel that says it is parallel must not depend on the order of its points.
#[test]
fn order_between_parallel_points_shows() {
    let text = |parallel: &str| {
        format!("kernel last(b0: i64 out, i0 < 3) lanes=none{parallel} {{ pass {{ v0 = index i0 store b0[0] v0 }} }}")
    };
    let mut bufs = [ints(&[9])];
    run(&text(""), &mut bufs, &[]).unwrap();
    assert_eq!(bufs[0], ints(&[2]));
    run(&text(" parallel"), &mut bufs, &[]).unwrap();
    assert_eq!(bufs[0], ints(&[0]));
}

#[track_caller]
fn wrong(body: &str, message: &str) {
    let text = format!("kernel k(b0: f32 in, b1: f32 out, b2: f32 scratch 2) lanes=none {{ {body} }}");
    let error = run(&text, &mut [floats(&[1.0]), floats(&[1.0])], &[]).unwrap_err();
    assert!(matches!(&error, InterpretError::Invalid(m) if m.contains(message)), "{error}");
}

#[test]
fn wrong_kernels_are_found() {
    wrong("pass { v0 = load b0[1] }", "element 1 of buffer 0");
    wrong("pass { v0 = load b2[0] }", "before it is written");
    wrong("pass { v0 = load b0[0] store b0[0] v0 }", "not to be written");
    wrong("pass i0 < 1 { v0 = load b0[0] } pass { store b1[0] v0 }", "v0 is not to be seen");
    wrong("pass i0 < 1 { v0 = load b0[0] v1 = reduce sum v0 store b1[0] v1 }", "v1 is not to be seen");
}
