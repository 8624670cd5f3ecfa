//! Kernels: points, threads, sizes, checks.

use crate::build::*;
use ox_ir::abi::KernelError;
use ox_ir::kernel::{Inst, TypedInst, Val};
use ox_ir::plan::{Check, CheckKind, PlanOutput, Step};
use ox_ir::{DType, Sym, Var};
use ox_runtime::{Exception, NoHost, RunError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn every_point_runs_once() {
    if !torch() {
        return;
    }
    for n in [1, 7, 64, 1000, 300_001] {
        let mut b = Builder::default();
        let (x, t, y) = (b.input(&[n]), b.arena(DType::F32, &[n]), b.output(&[n]));
        b.launch(twice_plus_one, Sym::from(n), &[x, t]);
        b.launch(twice_plus_one, Sym::from(n), &[t, y]);
        let executable = b.build();
        let x = sample(n);
        let want: Vec<f32> = x.iter().map(|v| 4.0 * v + 3.0).collect();
        assert_eq!(floats(&run(&executable, &[&tensor(&[n], &x)])[0]), want);
    }
}

unsafe extern "C" fn count_up(bufs: *const *mut u8, _: *const i64, begin: i64, end: i64, _: *mut KernelError) {
    // SAFETY: one f32 buffer with at least `end` elements, which threads write at different places.
    unsafe { (begin as usize..end as usize).for_each(|i| *(*bufs as *mut f32).add(i) += 1.0) };
}

#[test]
fn a_large_launch_is_split_without_overlap() {
    if !torch() {
        return;
    }
    let n = 10_000_019;
    let mut b = Builder::default();
    let x = b.input(&[n]);
    b.launch(count_up, Sym::from(n), &[x]);
    let executable = b.build();
    let x = tensor(&[n], &vec![0.0; n as usize]);
    run(&executable, &[&x]);
    assert!(floats(&x).iter().all(|v| *v == 1.0));
}

#[test]
fn no_points_is_no_launch() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, y) = (b.input(&[0, 3]), b.output(&[0, 3]));
    b.launch(twice_plus_one, Sym::ZERO, &[x, y]);
    let results = run(&b.build(), &[&tensor(&[0, 3], &[])]);
    assert_eq!(results[0].as_ref().sizes().unwrap(), [0, 3]);
}

unsafe extern "C" fn write_size(bufs: *const *mut u8, sizes: *const i64, begin: i64, end: i64, _: *mut KernelError) {
    // SAFETY: one f32 buffer, one size.
    unsafe { (begin as usize..end as usize).for_each(|i| *(*bufs as *mut f32).add(i) = *sizes as f32) };
}

#[test]
fn sizes_reach_kernels_and_outputs() {
    if !torch() {
        return;
    }
    let n = Var::size(0, 0, 1 << 40, 1);
    let mut b = Builder::default();
    b.plan.sizes = vec![n.clone()];
    let (t, y) = (b.arena(DType::F32, &[1]), b.output(&[1]));
    for buf in [t, y] {
        b.plan.buffers[buf.index()].shape[0] = Sym::var(&n);
    }
    b.plan.arena_bytes = Some(Sym::var(&n) * 4);
    b.launch(write_size, Sym::var(&n), &[t]);
    b.launch(twice_plus_one, Sym::var(&n), &[t, y]);
    let executable = b.build_with(Arc::new(NoHost)).unwrap();
    for n in (0..40).chain([5, 1000, 3]) {
        let results = executable.run(&[], &[n]).unwrap();
        assert_eq!(floats(&results[0]), vec![2.0 * n as f32 + 1.0; n as usize]);
    }
    assert!(matches!(executable.run(&[], &[]), Err(RunError::Mismatch(_))));
    assert!(executable.run(&[], &[-1]).is_err());
    assert!(executable.run(&[], &[1 << 39]).is_err(), "two terabytes");
}

unsafe extern "C" fn fails_at_seven(_: *const *mut u8, _: *const i64, begin: i64, end: i64, error: *mut KernelError) {
    // SAFETY: the runtime passes a valid error record.
    let error = unsafe { &*error };
    if (begin..end).contains(&7) && error.check.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        error.value.store(12, Ordering::Release);
        error.extent.store(10, Ordering::Release);
    }
}

#[test]
fn a_failed_check_is_a_user_error_and_writes_nothing_back() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, y) = (b.input(&[16]), b.output(&[16]));
    b.launch(twice_plus_one, Sym::from(16i64), &[x, y]);
    b.launch(fails_at_seven, Sym::from(16i64), &[x, y]);
    let check = Inst::CheckNonZero { value: Val(0), check: 0 };
    if let Some(Step::Launch { checks, .. }) = b.plan.steps.last_mut() {
        *checks = 1;
    }
    b.plan.kernels[1].insts.push(TypedInst { inst: check, dtype: DType::I64 });
    b.plan.locations = vec!["".into(), "model.py:12".into()];
    b.plan.checks = vec![
        Check { kind: CheckKind::ZeroDivision("ZeroDivisionError".into()), location: 0 },
        Check { kind: CheckKind::IndexError("index {value} is out of bounds for size {extent}".into()), location: 1 },
    ];
    let from = b.whole(y);
    b.plan.write_backs.push(ox_ir::plan::WriteBack { input: 0, from });
    let executable = b.build();
    let x = tensor(&[16], &[1.0; 16]);
    match try_run(&executable, &[&x]) {
        Err(RunError::User { kind, message, location }) => {
            assert_eq!(kind, Exception::IndexError);
            assert_eq!(message, "index 12 is out of bounds for size 10");
            assert_eq!(location, "model.py:12");
        }
        other => panic!("expected a user error, got {other:?}"),
    }
    assert_eq!(floats(&x), [1.0; 16]);
}

#[test]
fn wrong_inputs_are_a_mismatch() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let (x, y) = (b.input(&[2, 3]), b.output(&[2, 3]));
    b.launch(twice_plus_one, Sym::from(6i64), &[x, y]);
    let executable = b.build();
    let wrong = [
        tensor(&[3, 2], &[0.0; 6]),
        tensor(&[6], &[0.0; 6]),
        strided(&[2, 3], &[1, 2], &[0.0; 6]),
        of_type(DType::F64, &[2, 3], &[3, 1], &[0.0f64; 6]),
    ];
    for x in &wrong {
        assert!(matches!(try_run(&executable, &[x]), Err(RunError::Mismatch(_))));
    }
    assert!(matches!(try_run(&executable, &[]), Err(RunError::Mismatch(_))));
    run(&executable, &[&tensor(&[2, 3], &[0.0; 6])]);
}

#[test]
fn plans_that_contradict_themselves_are_bugs() {
    if !torch() {
        return;
    }
    let refused = |make: &dyn Fn(&mut Builder)| {
        let mut b = Builder::default();
        let (x, t, y) = (b.input(&[4]), b.arena(DType::F32, &[4]), b.output(&[4]));
        b.launch(twice_plus_one, Sym::from(4i64), &[x, t]);
        b.launch(twice_plus_one, Sym::from(4i64), &[t, y]);
        make(&mut b);
        assert!(matches!(b.build_with(Arc::new(NoHost)), Err(RunError::Bug(_))));
    };
    refused(&|b| b.plan.arena_bytes = Some(Sym::from(12i64)));
    refused(&|b| b.plan.buffers[0].dtype = DType::F64);
    refused(&|b| b.plan.kernels.clear());
    refused(&|b| b.plan.outputs[0] = PlanOutput::Buffer(ox_ir::plan::BufId(1)));
    refused(&|b| {
        let (from, to) = (b.view(ox_ir::plan::BufId(0), &[4], &[1], 1), b.whole(ox_ir::plan::BufId(2)));
        b.plan.steps.push(ox_ir::plan::Step::Copy { from, to });
    });
}
