//! The backend as a whole: threads, repetition, objects, errors.

mod support;
use ox_codegen_cpu::{Backend, CodegenError};
use ox_ir::Kernel;
use support::*;

fn add_constant(c: i64) -> Kernel {
    let text = format!(
        "kernel add(b0: i64 in, b1: i64 out, i0 < 20) lanes=outer {{\n  pass {{\n    v0 = load b0[i0]\n    v1 = const {c} : i64\n    v2 = add v0 v1\n    store b1[i0] v2\n  }}\n}}\n"
    );
    parse(&text)
}

#[test]
fn kernels_come_back_in_order_and_equal_ones_share_code() {
    let mut kernels: Vec<Kernel> = (0..12).map(|k| add_constant(k % 5)).collect();
    kernels[7].name = "another name".into();
    let loaded = Backend::new().unwrap().compile(&kernels, 4).unwrap();
    let source: Vec<i64> = (0..20).collect();
    for (k, kernel) in loaded.iter().enumerate() {
        let out = vec![0i64; 20];
        run(kernel, &[&source, &out], &[], 20);
        assert_eq!(out[3], 3 + k as i64 % 5);
        assert_eq!(kernel.function as usize, loaded[k % 5].function as usize);
    }
}

/// Sizes with the same number but other bounds are other kernels: the code may rely on the bounds.
#[test]
fn bounds_of_sizes_are_part_of_a_kernel() {
    let text =
        "kernel k(b0: f32 in, b1: f32 out, i0 < s0) lanes=outer {\n  pass {\n    v0 = load b0[i0]\n    store b1[i0] v0\n  }\n}\n";
    let kernels = [parse(&format!("sizes s0 in 0..8\n{text}")), parse(&format!("sizes s0 in 1..\n{text}"))];
    let loaded = Backend::new().unwrap().compile(&kernels, 1).unwrap();
    assert_ne!(loaded[0].function as usize, loaded[1].function as usize);
}

#[test]
fn an_object_can_be_loaded_again_and_again() {
    let backend = Backend::new().unwrap();
    let object = backend.compile_object(&add_constant(7)).unwrap();
    let (first, second) = (backend.load_object(&object).unwrap(), backend.load_object(&object).unwrap());
    drop(first);
    let (source, out) = (vec![1i64; 20], vec![0i64; 20]);
    run(&second, &[&source, &out], &[], 20);
    assert_eq!(out, vec![8; 20]);
    assert!(backend.load_object(&object[..object.len() / 3]).is_err());
    assert!(backend.load_object(b"not an object").is_err());
}

#[test]
fn code_lives_as_long_as_it_is_kept() {
    let loaded = compile_kernel(&add_constant(9));
    let keep = loaded.keep.clone();
    let function = loaded.function;
    drop(loaded);
    let (source, out) = (vec![1i64; 20], vec![0i64; 20]);
    run(&ox_codegen_cpu::LoadedKernel { function, keep }, &[&source, &out], &[], 20);
    assert_eq!(out, vec![10; 20]);
}

#[test]
fn malformed_kernels_are_refused() {
    let backend = Backend::new().unwrap();
    let mut kernel = add_constant(1);
    kernel.passes[0].body.remove(0);
    assert!(matches!(backend.compile(&[kernel], 1), Err(CodegenError::Malformed { .. })));
    let complex = "kernel k(b0: c64 in, i0 < 4) lanes=outer {\n  pass {\n  }\n}\n";
    assert!(matches!(backend.compile(&[parse(complex)], 1), Err(CodegenError::Unsupported { .. })));
    let large = "kernel k(b0: f32 scratch 100000000, i0 < 4) lanes=inner {\n  pass {\n  }\n}\n";
    assert!(matches!(backend.compile(&[parse(large)], 1), Err(CodegenError::Unsupported { .. })));
}

#[test]
fn the_host_key_names_cpu_and_features() {
    let key = Backend::new().unwrap().host_key();
    assert!(key.contains('+') || cfg!(not(target_arch = "x86_64")), "{key}");
}
