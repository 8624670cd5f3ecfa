//! Large results are written past the caches, aligned or not.

mod support;
use ox_codegen_cpu::Backend;
use ox_ir::abi::KernelError;
use support::*;

const COUNT: usize = 13 << 20;

const POINTWISE: &str = "kernel large(b0: f32 in, b1: f32 out, i0 < 13631488) lanes=outer parallel {
  pass {
    v0 = load b0[i0]
    v1 = add v0 v0
    store b1[i0] v1
  }
}
";

const ROWS: &str = "kernel rows(b0: f32 in, b1: f32 out, i0 < 262144) lanes=inner parallel {
  pass i1 < 52 {
    v0 = load b0[52*i0 + i1]
    v1 = reduce max v0
  }
  pass i1 < 52 {
    v2 = load b0[52*i0 + i1]
    v3 = sub v2 v1
    store b1[52*i0 + i1] v3
  }
}
";

/// Runs on an output that starts `shift` elements into its memory, in two parts.
fn run_shifted(text: &str, source: &[f32], shift: usize, points: i64) -> Vec<f32> {
    let kernel = compile(text);
    let mut out = vec![-1.0f32; COUNT + 20];
    let pointers = [source.as_ptr() as *mut u8, out[shift..].as_mut_ptr().cast()];
    let mut error = KernelError::default();
    for (from, to) in [(0, points / 3 + 1), (points / 3 + 1, points)] {
        // SAFETY: the buffers are as large as the kernel says.
        unsafe { (kernel.function)(pointers.as_ptr(), std::ptr::null(), from, to, &mut error) };
    }
    assert!(out[..shift].iter().chain(&out[shift + COUNT..]).all(|x| *x == -1.0), "nothing outside is written");
    out[shift..shift + COUNT].to_vec()
}

#[test]
fn large_results_are_right_at_any_alignment() {
    let source = numbers(COUNT, 1);
    let doubled: Vec<f32> = source.iter().map(|x| x + x).collect();
    let less_max = |row: &[f32]| {
        let most = row.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        row.iter().map(|x| x - most).collect::<Vec<_>>()
    };
    let centred: Vec<f32> = source.chunks(52).flat_map(less_max).collect();
    for shift in [0, 1, 4, 12] {
        assert!(run_shifted(POINTWISE, &source, shift, COUNT as i64) == doubled, "pointwise {shift}");
        assert!(run_shifted(ROWS, &source, shift, 262144) == centred, "rows {shift}");
    }
}

#[test]
fn small_results_are_not_streamed() {
    let backend = Backend::new().unwrap();
    let streams = |text: &str| backend.emit_ir(&parse(text)).unwrap().contains("!nontemporal");
    let wide = cfg!(target_arch = "x86_64") && std::is_x86_feature_detected!("avx2");
    assert_eq!((streams(POINTWISE), streams(ROWS)), (wide, wide));
    assert!(!streams(&POINTWISE.replace("13631488", "1048576")));
}
