//! A kernel at some of its sizes takes the place of the general one, and one that is given what it would compute of sizes does: the same results,
//! bit for bit.

mod random;
mod support;
use ox_codegen_cpu::Backend;
use ox_ir::Kernel;
use ox_ir::abi::KernelError;
use ox_ir::lift::{Lift, Lifted};
use support::*;

fn at(kernel: &Kernel, sizes: &[i64]) -> Kernel {
    let place = |var: &ox_ir::Var| kernel.sizes.iter().position(|known| known == var);
    kernel.at(&|var| place(var).map(|n| sizes[n])).unwrap()
}

/// With the sizes that it is given.
fn lifted(kernel: &Kernel, how: Lift, sizes: &[i64]) -> (Kernel, Vec<i64>) {
    let Lifted { kernel: lifted, sizes: given } = kernel.lifted(how);
    lifted.verify().unwrap_or_else(|error| panic!("{error}\n{lifted}"));
    let value = |var: &ox_ir::Var| kernel.sizes.iter().position(|known| known == var).map(|n| sizes[n]);
    (lifted, given.iter().map(|sym| sym.eval(&value).unwrap()).collect())
}

/// The bytes of all buffers after a run of this code.
fn run(backend: &Backend, kernel: &Kernel, buffers: &[Vec<u8>], sizes: &[i64], points: i64, cuts: &[i64]) -> Vec<Vec<u8>> {
    let loaded = compile_with(backend, kernel);
    let mut bytes = buffers.to_vec();
    let pointers: Vec<*mut u8> = bytes.iter_mut().map(|b| b.as_mut_ptr()).collect();
    let (mut error, mut from) = (KernelError::default(), 0);
    for to in cuts.iter().copied().filter(|c| *c < points).chain([points]) {
        // SAFETY: the buffers are as large as the kernel says.
        unsafe { (loaded.function)(pointers.as_ptr(), sizes.as_ptr(), from, to, &mut error) };
        from = to;
    }
    assert_eq!(*error.check.get_mut(), 0, "{kernel}");
    bytes
}

#[test]
fn rows_of_every_length() {
    let text = |lanes: &str| {
        format!(
            "sizes s0 in 0.., s1 in 0..
kernel rows(b0: f32 in, b1: f32 out, b2: f32 out, i0 < s0) lanes={lanes} {{
  pass i1 < s1 {{
    v0 = load b0[s1*i0 + i1]
    v1 = reduce sum v0
    v2 = mul v0 v0
    v3 = reduce sum v2
  }}
  pass {{
    store b1[i0] v1
    store b2[i0] v3
  }}
}}
"
        )
    };
    let (general, special) = (backend(), backend().for_known_sizes());
    for lanes in ["inner", "outer"] {
        let kernel = parse(&text(lanes));
        for n in (1..40).chain([96, 97, 160, 224, 225, 255, 5000]) {
            let sizes = [19, n as i64];
            let source: Vec<u8> = numbers(19 * n, n as u64).iter().flat_map(|x| x.to_le_bytes()).collect();
            let buffers = [source, vec![0; 19 * 4], vec![0; 19 * 4]];
            let want = run(&general, &kernel, &buffers, &sizes, 19, &[5]);
            let got = run(&special, &at(&kernel, &sizes), &buffers, &[], 19, &[5]);
            assert!(got == want, "rows of {n}, lanes {lanes}");
        }
    }
}

#[test]
fn random_kernels() {
    let mut with_sizes = 0;
    for seed in 3001..=3240 {
        let random::Case { kernel, buffers, sizes, points, cuts } = random::case(seed);
        // Room behind the end, so that an empty buffer has an address.
        let bytes: Vec<Vec<u8>> = buffers.iter().map(|b| [to_bytes(b), vec![0; 8]].concat()).collect();
        with_sizes += usize::from(!sizes.is_empty());
        let want = run(&backend(), &kernel, &bytes, &sizes, points, &cuts);
        let got = run(&backend().for_known_sizes(), &at(&kernel, &sizes), &bytes, &[], points, &cuts);
        assert!(got == want, "{kernel}");
        for how in [Lift::Sizes, Lift::Numbers] {
            let (lifted, given) = lifted(&kernel, how, &sizes);
            let got = run(&backend(), &lifted, &bytes, &given, points, &cuts);
            assert!(got == want, "{kernel}\n{lifted}");
        }
    }
    assert!(with_sizes > 100, "{with_sizes} of the kernels have sizes");
}
