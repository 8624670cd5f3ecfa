//! Pointwise kernels: lane modes, sizes, strides, masks.

mod support;
use support::*;

const CHAIN: &str = "sizes s0 in 0..
kernel chain(b0: f32 in, b1: f32 in, b2: f32 out, i0 < s0) lanes=LANES {
  pass {
    v0 = load b0[i0]
    v1 = load b1[i0]
    v2 = mul v0 v1
    v3 = const 0.5 : f32
    v4 = add v2 v3
    v5 = sub v4 v0
    store b2[i0] v5
  }
}
";

#[test]
fn chain_in_every_lane_mode_and_size() {
    for lanes in ["outer", "inner", "none"] {
        let kernel = compile(&CHAIN.replace("LANES", lanes));
        for n in SIZES {
            let (a, b) = (numbers(n, 1), numbers(n, 2));
            let out = vec![-1.0f32; n + 1];
            run(&kernel, &[&a, &b, &out], &[n as i64], n as i64);
            let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a * b + 0.5 - a).chain([-1.0]).collect();
            assert_eq!(out, want, "{lanes} {n}");
        }
    }
}

#[test]
fn points_may_be_cut_anywhere() {
    let text = "kernel rows(b0: f32 in, b1: f32 in, b2: f32 out, i0 < 3, i1 < 5, i2 < 21) lanes=LANES {
  pass {
    v0 = load b0[105*i0 + 21*i1 + i2]
    v1 = load b1[i0 + 3*i2]
    v2 = add v0 v1
    store b2[i0 + 3*i1 + 15*i2] v2
  }
}
";
    for lanes in ["outer", "none", "inner"] {
        let kernel = compile(&text.replace("LANES", lanes));
        let (a, b) = (numbers(315, 1), numbers(63, 2));
        let mut want = vec![0.0f32; 315];
        for (n, x) in a.iter().enumerate() {
            let (i, j, k) = (n / 105, n / 21 % 5, n % 21);
            want[i + 3 * j + 15 * k] = x + b[i + 3 * k];
        }
        for cuts in [vec![], vec![1], vec![20, 21, 22], vec![7, 7, 100, 110, 300], (1..315).collect()] {
            let out = vec![0.0f32; 315];
            run_cut(&kernel, &[&a, &b, &out], &[], 315, &cuts);
            assert_eq!(out, want, "{lanes} {cuts:?}");
        }
    }
}

#[test]
fn reversed_broadcast_and_divided_indices() {
    let text = "kernel flip(b0: f32 in, b1: f32 in, b2: f32 in, b3: f32 out, i0 < 2, i1 < 37) lanes=LANES {
  pass {
    v0 = load b0[37*i0 - i1 + 36]
    v1 = load b1[i0]
    v2 = load b2[i1 // 4 + 10*(i1 % 4)]
    v3 = add v0 v1
    v4 = add v3 v2
    store b3[-37*i0 - i1 + 73] v4
  }
}
";
    let (a, b, c) = (numbers(74, 1), numbers(2, 2), numbers(40, 3));
    let mut want = vec![0.0f32; 74];
    for i in 0..2 {
        for j in 0..37 {
            want[73 - 37 * i - j] = a[37 * i + 36 - j] + b[i] + c[j / 4 + 10 * (j % 4)];
        }
    }
    for lanes in ["outer", "none"] {
        let out = vec![0.0f32; 74];
        run(&compile(&text.replace("LANES", lanes)), &[&a, &b, &c, &out], &[], 74);
        assert_eq!(out, want, "{lanes}");
    }
}

#[test]
fn masked_load_does_not_read_and_masked_store_does_not_write() {
    // A pad of two in front: the index is negative where the mask is off.
    let text = "sizes s0 in 0..
kernel pad(b0: DTYPE in, b1: DTYPE out, b2: DTYPE out, i0 < s0 + 4) lanes=LANES {
  pass {
    v0 = index i0
    v1 = const 2 : i64
    v2 = ge v0 v1
    v3 = index i0 - s0 - 2
    v4 = const 0 : i64
    v5 = lt v3 v4
    v6 = and v2 v5
    v7 = load b0[STEP*i0 - 2*STEP] if v6 else 7
    store b1[i0] v7
    store b2[STEP*i0 - 2*STEP] v7 if v6
  }
}
";
    for lanes in ["outer", "none"] {
        for (dtype, step) in [("i32", 1), ("i32", 3), ("i32", -1), ("u8", 1), ("u8", 3), ("i64", 5)] {
            let kernel = compile(&text.replace("LANES", lanes).replace("DTYPE", dtype).replace("STEP", &step.to_string()));
            for n in [0usize, 1, 5, 16, 40] {
                check_pad(&kernel, dtype, step, n);
            }
        }
    }
}

fn check_pad(kernel: &ox_codegen_cpu::LoadedKernel, dtype: &str, step: i64, n: usize) {
    macro_rules! check {
        ($t:ty) => {{
            let room = n * step.unsigned_abs() as usize + 1;
            let source: Vec<$t> = (0..room).map(|k| (k % 100) as $t + 10).collect();
            let (out, copy) = (vec![0 as $t; n + 4], vec![0 as $t; room]);
            let first = if step < 0 { room - 1 } else { 0 };
            let shifted = |v: &Vec<$t>| v[first..].as_ptr() as *mut u8;
            let pointers = [shifted(&source), out.as_ptr() as *mut u8, shifted(&copy)];
            let mut error = ox_ir::abi::KernelError::default();
            let sizes = [n as i64];
            unsafe { (kernel.function)(pointers.as_ptr(), sizes.as_ptr(), 0, n as i64 + 4, &mut error) };
            let at = |k: usize| source[(first as i64 + step * k as i64) as usize];
            let want: Vec<$t> = (0..n + 4).map(|k| if (2..n + 2).contains(&k) { at(k - 2) } else { 7 }).collect();
            assert_eq!(out, want, "{dtype} {step} {n}");
            for k in 0..room {
                let (offset, step) = (k as i64 - first as i64, step);
                let written = offset % step == 0 && (0..n as i64).contains(&(offset / step));
                assert_eq!(copy[k], if written { source[k] } else { 0 }, "{dtype} {step} {n} at {k}");
            }
        }};
    }
    match dtype {
        "i32" => check!(i32),
        "u8" => check!(u8),
        _ => check!(i64),
    }
}

#[test]
fn sizes_are_arguments() {
    let text = "sizes s0 in 0.., s1 in 0..
kernel transpose(b0: f32 in, b1: f32 out, i0 < s0, i1 < s1) lanes=outer {
  pass {
    v0 = load b0[s0*i1 + i0]
    store b1[s1*i0 + i1] v0
  }
}
";
    let kernel = compile(text);
    for (rows, columns) in [(0, 5), (5, 0), (1, 1), (3, 17), (18, 33)] {
        let source = numbers(rows * columns, 5);
        let out = vec![0.0f32; rows * columns];
        run(&kernel, &[&source, &out], &[rows as i64, columns as i64], (rows * columns) as i64);
        for i in 0..rows {
            for j in 0..columns {
                assert_eq!(out[i * columns + j], source[j * rows + i]);
            }
        }
    }
}

/// Choices by conditions that are the same in all lanes, inside of one another: the gradient of a sum over what was joined of three parts. In a
/// thread that is left behind: LLVM cannot be stopped.
#[cfg(target_arch = "x86_64")]
#[test]
fn choices_inside_of_one_another_come_to_an_end() {
    let features = "+avx2,+fma,+f16c,+avx512f,+avx512vl,+avx512bw,+avx512dq";
    let kernel = parse(include_str!("kernels/choices.txt"));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let backend = ox_codegen_cpu::Backend::for_cpu("skylake-avx512", features).unwrap();
        tell.send(backend.compile_object(&kernel).is_ok())
    });
    assert_eq!(told.recv_timeout(std::time::Duration::from_secs(120)), Ok(true));
}
