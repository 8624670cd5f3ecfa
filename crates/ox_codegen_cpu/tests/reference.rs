//! Kernels against the reference interpreter: every operation on every type, and random kernels.

mod emulate;
mod random;
mod support;
use half::{bf16, f16};
use ox_codegen_cpu::{Backend, LoadedKernel};
use ox_ir::abi::KernelError;
use ox_ir::kernel::BufRole;
use ox_ir::{DType, Kernel, PointOp, Scalar};
use ox_testing::{TensorData, interpret_kernel};
use random::Case;
use support::*;

fn from_bytes(bytes: &[u8], like: &TensorData) -> TensorData {
    let element = |b: &[u8]| match like.dtype {
        DType::Bool => Scalar::Bool(b[0] != 0),
        DType::U8 => Scalar::Int(b[0] as i64),
        DType::I8 => Scalar::Int(b[0] as i8 as i64),
        DType::I16 => Scalar::Int(i16::from_le_bytes(b.try_into().unwrap()) as i64),
        DType::I32 => Scalar::Int(i32::from_le_bytes(b.try_into().unwrap()) as i64),
        DType::I64 => Scalar::Int(i64::from_le_bytes(b.try_into().unwrap())),
        DType::F16 => Scalar::Float(f16::from_le_bytes(b.try_into().unwrap()).to_f64()),
        DType::BF16 => Scalar::Float(bf16::from_le_bytes(b.try_into().unwrap()).to_f64()),
        DType::F32 => Scalar::Float(f32::from_le_bytes(b.try_into().unwrap()) as f64),
        _ => Scalar::Float(f64::from_le_bytes(b.try_into().unwrap())),
    };
    let data: Vec<Scalar> = bytes.chunks(like.dtype.size()).map(element).collect();
    TensorData::new(like.dtype, &like.shape, data)
}

/// What the machine code makes of these buffers, run in pieces that end at `cuts`.
fn execute(
    loaded: &LoadedKernel,
    kernel: &Kernel,
    buffers: &[TensorData],
    sizes: &[i64],
    points: i64,
    cuts: &[i64],
) -> Vec<TensorData> {
    // Room behind the end, so that an empty buffer has an address.
    let mut bytes: Vec<Vec<u8>> = buffers.iter().map(to_bytes).map(|mut b| (b.resize(b.len() + 8, 0xee), b).1).collect();
    let pointers: Vec<*mut u8> = bytes.iter_mut().map(|b| b.as_mut_ptr()).collect();
    let mut error = KernelError::default();
    let mut from = 0;
    for to in cuts.iter().copied().filter(|c| *c < points).chain([points]) {
        // SAFETY: the interpreter has run the same kernel on the same buffers, inside their bounds.
        unsafe { (loaded.function)(pointers.as_ptr(), sizes.as_ptr(), from, to, &mut error) };
        from = to;
    }
    assert_eq!(*error.check.get_mut(), 0, "{kernel}");
    assert!(bytes.iter().all(|b| b.ends_with(&[0xee; 8])), "written behind the end by {kernel}");
    bytes.iter().zip(buffers).map(|(b, t)| from_bytes(&b[..b.len() - 8], t)).collect()
}

/// Integers and bools exactly, floats to a few units of the last place and a share of the largest value.
fn assert_same(got: &TensorData, want: &TensorData, kernel: &Kernel) {
    let tolerance = match got.dtype {
        DType::BF16 => 1.0 / 64.0,
        DType::F16 => 1.0 / 512.0,
        DType::F32 => 4e-6,
        _ => 1e-12,
    };
    for (n, (g, w)) in got.data.iter().zip(&want.data).enumerate() {
        let fine = match (g, w) {
            (Scalar::Float(g), Scalar::Float(w)) => {
                g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * w.abs().max(1e-6)
            }
            _ => g == w,
        };
        assert!(fine, "element {n}: {g} instead of {w} in\n{kernel}");
    }
}

fn check_on(backend: &Backend, case: &Case) {
    let Case { kernel, buffers, sizes, points, cuts } = case;
    compare(case, &execute(&compile_with(backend, kernel), kernel, buffers, sizes, *points, cuts));
}

/// What was written must be what the interpreter writes.
fn compare(case: &Case, got: &[TensorData]) {
    let Case { kernel, buffers, sizes, .. } = case;
    let mut want = buffers.to_vec();
    interpret_kernel(kernel, want.as_mut_slice(), sizes).unwrap_or_else(|e| panic!("{e:?} in\n{kernel}"));
    let written = kernel.bufs.iter().filter(|b| !matches!(b.role, BufRole::Scratch(_))).map(|b| b.role != BufRole::In);
    for ((g, w), _) in got.iter().zip(&want).zip(written).filter(|(_, written)| *written) {
        assert_same(g, w, kernel);
    }
}

const DTYPES: [DType; 10] =
    [DType::Bool, DType::U8, DType::I8, DType::I16, DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64];

/// Edge values of a type, and some ordinary ones.
fn values(dtype: DType, count: usize, seed: u64) -> TensorData {
    let ordinary = numbers(count, seed);
    let edges: &[f64] = &[0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e30, 100.0, -3.0];
    let value = |n: usize| match dtype {
        DType::Bool => Scalar::Bool(ordinary[n] > 0.0),
        _ if dtype.is_float() && n.is_multiple_of(3) => Scalar::Float(edges[(n / 3 + seed as usize) % edges.len()]),
        _ if dtype.is_float() => Scalar::Float(ordinary[n] as f64),
        DType::U8 => Scalar::Int((ordinary[n] * 1000.0) as i64 & 0xff),
        _ => Scalar::Int((ordinary[n] * 30.0) as i64),
    };
    TensorData::new(dtype, &[count], (0..count).map(value))
}

/// One kernel with this operation.
fn point_kernel(op: PointOp, dtype: DType, lanes: &str) -> Kernel {
    let arity = op.arity();
    let operand = |n: usize| if op == PointOp::Where && n == 0 { DType::Bool } else { dtype };
    let result = op.result(dtype);
    let params: Vec<String> = (0..arity).map(|n| format!("b{n}: {} in", operand(n))).collect();
    let loads: String = (0..arity).map(|n| format!("    v{n} = load b{n}[i0]\n")).collect();
    let args: Vec<String> = (0..arity).map(|n| format!("v{n}")).collect();
    parse(&format!(
        "kernel k({}, b{arity}: {result} out, i0 < 53) lanes={lanes} {{\n  pass {{\n{loads}    v{arity} = {} {}\n    store b{arity}[i0] v{arity}\n  }}\n}}\n",
        params.join(", "),
        op.name(),
        args.join(" ")
    ))
}

/// Division by zero is an error that another instruction reports; what it gives does not matter.
fn avoid_zero(op: PointOp, dtype: DType, tensor: &mut TensorData) {
    use PointOp::*;
    if !dtype.is_float() && matches!(op, DivFloor | DivTrunc | Remainder | Fmod) {
        tensor.data.iter_mut().filter(|x| x.as_i64() == 0).for_each(|x| *x = Scalar::Int(3));
    }
}

fn operations() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in PointOp::ALL {
        for dtype in DTYPES.into_iter().filter(|d| op.accepts(*d)) {
            let mut buffers: Vec<TensorData> = (0..op.arity()).map(|n| values(dtype, 53, n as u64 + 1)).collect();
            if *op == PointOp::Where {
                buffers[0] = values(DType::Bool, 53, 9);
            }
            avoid_zero(*op, dtype, buffers.last_mut().expect("an operand"));
            buffers.push(values(op.result(dtype), 53, 7));
            for lanes in ["outer", "none"] {
                let kernel = point_kernel(*op, dtype, lanes);
                cases.push(Case { kernel, buffers: buffers.clone(), sizes: vec![], points: 53, cuts: vec![17] });
            }
        }
    }
    cases
}

fn casts() -> Vec<Case> {
    let mut cases = Vec::new();
    for (from, to) in DTYPES.into_iter().flat_map(|from| DTYPES.map(|to| (from, to))) {
        let text = format!(
            "kernel k(b0: {from} in, b1: {to} out, i0 < 53) lanes=outer {{\n  pass {{\n    v0 = load b0[i0]\n    v1 = cast v0 : {to}\n    store b1[i0] v1\n  }}\n}}\n"
        );
        let mut source = values(from, 53, 5);
        if from.is_float() && !to.is_float() && to != DType::Bool {
            // Out of range there is no right answer.
            source.data.iter_mut().for_each(|x| *x = Scalar::Float(x.as_f64().clamp(-100.0, 100.0)));
            source.data.iter_mut().filter(|x| x.as_f64().is_nan()).for_each(|x| *x = Scalar::Float(1.75));
        }
        let buffers = vec![source, values(to, 53, 6)];
        cases.push(Case { kernel: parse(&text), buffers, sizes: vec![], points: 53, cuts: vec![] });
    }
    cases
}

#[test]
fn every_operation_on_every_type() {
    operations().iter().for_each(|case| check_on(&backend(), case));
}

#[test]
fn every_cast() {
    casts().iter().for_each(|case| check_on(&backend(), case));
}

#[test]
fn random_kernels() {
    (1..=240).for_each(|seed| check_on(&backend(), &random::case(seed)));
}

/// The same code generator with vectors of 256 and of 128 bits.
#[test]
#[cfg(target_arch = "x86_64")]
fn random_kernels_on_narrower_vectors() {
    let mut backends = vec![Backend::for_cpu("x86-64-v2", "+sse4.2,+sse4.1,+ssse3,+popcnt").unwrap()];
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") && std::is_x86_feature_detected!("f16c") {
        backends.push(Backend::for_cpu("haswell", "+avx2,+fma,+f16c,+avx,+sse4.2").unwrap());
    }
    for backend in backends {
        (1001..=1090).for_each(|seed| check_on(&backend, &random::case(seed)));
    }
}

/// And with those of 64-bit Arm.
#[test]
fn kernels_on_arm() {
    let cases: Vec<Case> = operations().into_iter().chain(casts()).chain((2001..=2240).map(random::case)).collect();
    let call = |case: &Case| emulate::Call {
        kernel: case.kernel.clone(),
        buffers: case.buffers.iter().map(to_bytes).collect(),
        sizes: case.sizes.clone(),
        ends: case.cuts.iter().copied().filter(|c| *c < case.points).chain([case.points]).collect(),
    };
    let calls: Vec<emulate::Call> = cases.iter().map(call).collect();
    let assembly = emulate::backend().emit_assembly(&calls[0].kernel).unwrap();
    assert!(assembly.contains("v0."), "no vector registers in\n{assembly}");
    for (case, got) in cases.iter().zip(emulate::run(&calls).unwrap_or_default()) {
        let got: Vec<TensorData> = got.iter().zip(&case.buffers).map(|(bytes, like)| from_bytes(bytes, like)).collect();
        compare(case, &got);
    }
}
