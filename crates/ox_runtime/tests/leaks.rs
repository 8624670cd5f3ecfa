//! Memory over many runs and many plans. One test in its own process, so that nothing else allocates meanwhile.

#[allow(dead_code)]
#[path = "runtime/build.rs"]
mod build;

use build::*;
use ox_ir::abi::KernelError;
use ox_ir::graph::{Arg, Callee, Library, LibraryOut};
use ox_ir::kernel::{Inst, TypedInst, Val};
use ox_ir::plan::{Call, Check, CheckKind, PlanOutput};
use ox_ir::{DType, Sym, TensorType, Var};
use ox_runtime::{Executable, HostCalls, RunError, Tensor, TensorRef};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn assert_flat(what: &str, runs: usize, mut run: impl FnMut()) {
    (0..20).for_each(|_| run());
    let before = resident_bytes();
    (0..runs).for_each(|_| run());
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 3 << 20, "{what}: grew by {grown} bytes in {runs} runs");
}

struct Sum;

impl HostCalls for Sum {
    fn call(&self, _: &Library, _: &[TensorRef<'_>], _: &dyn Fn(&Var) -> Option<i64>) -> Result<Vec<Tensor>, RunError> {
        unreachable!()
    }

    fn schema(&self, _: &str, _: &str) -> Option<String> {
        Some("aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor".into())
    }
}

/// Optionals, lists and results through the dispatcher; a view of the input as a second output.
fn sum_plan(n: i64) -> Executable {
    let mut b = Builder::default();
    let (x, y) = (b.input(&[n, n]), b.output(&[n]));
    let library = Library {
        callee: Callee::Dispatcher { name: "aten::sum".into(), overload: "dim_IntList".into() },
        args: vec![Arg::Tensor(0), Arg::List(vec![Arg::Int(Sym::ONE)]), Arg::Bool(false), Arg::DType(DType::F32)],
        kwargs: Vec::new(),
        outs: vec![LibraryOut { ty: TensorType::new(DType::F32, shape(&[n])), strides: shape(&[1]) }],
        mutates: Vec::new(),
        effect: false,
    };
    let ins = vec![b.whole(x)];
    b.call(Call::Library(Box::new(library)), ins, &[y]);
    b.plan.outputs.push(PlanOutput::InputView { input: 0, shape: shape(&[n]), strides: shape(&[1]), offset: Sym::ZERO });
    b.build_with(Arc::new(Sum)).unwrap()
}

unsafe extern "C" fn fails(_: *const *mut u8, _: *const i64, _: i64, _: i64, error: *mut KernelError) {
    // SAFETY: the runtime passes a valid error record.
    unsafe { (*error).check.store(1, Ordering::Release) };
}

fn failing_plan(n: i64) -> Executable {
    let mut b = Builder::default();
    let (x, t, y) = (b.input(&[n, n]), b.arena(DType::F32, &[n, n]), b.output(&[n, n]));
    b.launch(twice_plus_one, Sym::from(n * n), &[x, t]);
    b.launch(twice_plus_one, Sym::from(n * n), &[t, y]);
    b.launch(fails, Sym::ONE, &[t, y]);
    let inst = Inst::CheckNonZero { value: Val(0), check: 0 };
    b.plan.kernels[2].insts.push(TypedInst { inst, dtype: DType::I64 });
    b.plan.checks = vec![Check { kind: CheckKind::ZeroDivision("division by zero".into()), location: 0 }];
    b.build()
}

#[test]
fn memory_is_flat() {
    if !torch() {
        return;
    }
    let n = 160;
    let x = tensor(&[n, n], &sample(n * n));
    let product = product_plan(n);
    assert_flat("runs", 1000, || drop(run(&product, &[&x])));
    let (sum, few) = (sum_plan(8), tensor(&[8, 8], &sample(64)));
    assert_flat("dispatcher calls", 30_000, || drop(run(&sum, &[&few])));
    let failing = failing_plan(n);
    assert_flat("failed runs", 1000, || assert!(matches!(try_run(&failing, &[&x]), Err(RunError::User { .. }))));
    assert_flat("plans made and dropped", 1000, || drop(run(&product_plan(n), &[&x])));
}
