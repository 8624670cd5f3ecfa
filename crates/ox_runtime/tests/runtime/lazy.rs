//! Kernels for a GPU that are still being compiled when their Plan runs. No GPU is needed to see what becomes of one that fails: the other steps
//! are a CPU's.

use crate::build::*;
use ox_ir::abi::GpuKernel;
use ox_ir::graph::{Arg, Callee, Library, LibraryOut};
use ox_ir::plan::{BufId, Call};
use ox_ir::{DType, Sym, TensorType, Var};
use ox_runtime::{Executable, GpuFunction, HostCalls, Image, Kernels, Maker, RunError, Tensor, TensorRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const COUNT: i64 = 4;

/// Counts what it is called for.
#[derive(Default)]
struct Counting(AtomicUsize);

impl HostCalls for Counting {
    fn call(&self, _: &Library, tensors: &[TensorRef<'_>], _: &dyn Fn(&Var) -> Option<i64>) -> Result<Vec<Tensor>, RunError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(vec![tensors[0].duplicate()?])
    }

    fn schema(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// A kernel over so many points, and who compiles it.
fn kernel(symbol: &str, points: i64) -> (Arc<GpuFunction>, Maker) {
    let (image, maker) = Image::awaited();
    let kernel = GpuKernel {
        symbol: symbol.into(),
        threads: 32,
        points_per_block: 32,
        points: Sym::from(points),
        shared_bytes: 0,
        aligned: Vec::new(),
        narrow: Vec::new(),
    };
    (GpuFunction::new(kernel, image, Box::new(|| Err(RunError::bug("nobody asks for it")))), maker)
}

/// Has the host called.
fn called(b: &mut Builder, from: BufId, to: BufId, effect: bool) {
    let library = Library {
        callee: Callee::Python { object: 0, name: "counts".into() },
        args: vec![Arg::Tensor(0)],
        kwargs: Vec::new(),
        outs: vec![LibraryOut { ty: TensorType::new(DType::F32, shape(&[COUNT])), strides: shape(&[1]) }],
        mutates: Vec::new(),
        effect,
    };
    let ins = vec![b.whole(from)];
    b.call(Call::Library(Box::new(library)), ins, &[to]);
}

/// Not `Spent`: the caller may do the call in another way.
fn assert_unspent(error: RunError, symbol: &str, why: &str) {
    let RunError::Bug(text) = &error else { panic!("{error:?}") };
    assert!(text.contains(symbol) && text.contains(why), "{text}");
}

#[test]
fn a_kernel_that_fails_is_known_before_a_call_of_unknown_effect() {
    if !torch() {
        return;
    }
    let host = Arc::new(Counting::default());
    let (function, maker) = kernel("second", COUNT);
    let mut b = Builder::default();
    let (x, t, y) = (b.input(&[COUNT]), b.library(DType::F32, &[COUNT], None), b.output(&[COUNT]));
    called(&mut b, x, t, true);
    b.launch(twice_plus_one, Sym::from(COUNT), &[t, y]);
    let executable = Executable::new(b.plan, Kernels::Gpu(vec![function]), host.clone()).unwrap();
    assert!(!executable.lacks_kernels());
    let failing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        maker.give(Err("no registers".into()));
    });
    let x = tensor(&[COUNT], &sample(COUNT));
    for _ in 0..2 {
        assert_unspent(try_run(&executable, &[&x]).unwrap_err(), "second", "no registers");
        assert_eq!(host.0.load(Ordering::Relaxed), 0, "it was called");
    }
    assert!(executable.lacks_kernels() && failing.join().is_ok());
}

/// The one that overwrites an input has no points, so that no GPU is asked for it. The call between the two may be done twice.
#[test]
fn a_kernel_that_fails_is_known_before_an_input_is_overwritten() {
    if !torch() {
        return;
    }
    let host = Arc::new(Counting::default());
    let ((first, _first), (second, maker)) = (kernel("first", 0), kernel("second", COUNT));
    let mut b = Builder::default();
    let (p, t, y) = (b.input(&[COUNT]), b.library(DType::F32, &[COUNT], None), b.output(&[COUNT]));
    b.launch(twice_plus_one, Sym::from(COUNT), &[p]);
    called(&mut b, p, t, false);
    b.launch(twice_plus_one, Sym::from(COUNT), &[t, y]);
    let executable = Executable::new(b.plan, Kernels::Gpu(vec![first, second]), host.clone()).unwrap();
    maker.give(Err("no registers".into()));
    let error = try_run(&executable, &[&tensor(&[COUNT], &sample(COUNT))]).unwrap_err();
    assert_eq!(host.0.load(Ordering::Relaxed), 0, "it was called");
    assert_unspent(error, "second", "no registers");
}
