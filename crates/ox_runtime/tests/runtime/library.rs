//! Operators through the dispatcher and by the host.

use crate::build::*;
use ox_ir::graph::{Arg, Callee, Library, LibraryOut};
use ox_ir::plan::{BufId, Call};
use ox_ir::{DType, Scalar, Sym, TensorType, Var};
use ox_runtime::{HostCalls, RunError, Tensor, TensorRef, supports};
use std::sync::Arc;

const SORT: &str = "aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)";
const TOPK: &str =
    "aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)";
const CUMSUM: &str = "aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor";
const SUM: &str = "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor";
const INDEX: &str = "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor";
const SPLIT: &str = "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]";
const UPSAMPLE: &str = "aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor";
const ONES: &str = "aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor";
const RELU_: &str = "aten::relu_(Tensor(a!) self) -> Tensor(a!)";
const GELU: &str = "aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor";
const CONTIGUOUS: &str = "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)";
const CONJ: &str = "aten::_conj(Tensor(a) self) -> Tensor(a)";
const IMAG: &str = "aten::imag(Tensor(a) self) -> Tensor(a)";
const POW: &str = "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor";

struct Schemas;

impl HostCalls for Schemas {
    /// Doubles the first tensor.
    fn call(&self, call: &Library, tensors: &[TensorRef<'_>], _: &dyn Fn(&Var) -> Option<i64>) -> Result<Vec<Tensor>, RunError> {
        if let Callee::Python { name, .. } = &call.callee
            && name == "raises"
        {
            return Err(RunError::host("the exception"));
        }
        let x = tensors[0].to_owned()?;
        let doubled: Vec<f32> = floats(&x).iter().map(|v| 2.0 * v).collect();
        Ok(vec![tensor(tensors[0].sizes()?, &doubled)])
    }

    fn schema(&self, name: &str, overload: &str) -> Option<String> {
        let full = if overload.is_empty() { format!("{name}(") } else { format!("{name}.{overload}(") };
        let all = [SORT, TOPK, CUMSUM, SUM, INDEX, SPLIT, UPSAMPLE, ONES, RELU_, GELU, CONTIGUOUS, CONJ, IMAG, POW];
        all.iter().find(|s| s.starts_with(&full)).map(|s| s.to_string())
    }
}

fn library(name: &str, overload: &str, args: Vec<Arg>, outs: &[(DType, &[i64])]) -> Library {
    let out = |(dtype, sizes): &(DType, &[i64])| LibraryOut { ty: TensorType::new(*dtype, shape(sizes)), strides: shape(sizes) };
    Library {
        callee: Callee::Dispatcher { name: name.into(), overload: overload.into() },
        args,
        kwargs: Vec::new(),
        outs: outs.iter().map(out).collect(),
        mutates: Vec::new(),
        effect: false,
    }
}

/// Calls on f32 inputs; every result is an output.
fn call(library: Library, inputs: &[(&[i64], &[f32])]) -> Result<Vec<Tensor>, RunError> {
    let mut b = Builder::default();
    let ins: Vec<BufId> = inputs.iter().map(|(sizes, _)| b.input(sizes)).collect();
    let ins = ins.into_iter().map(|i| b.whole(i)).collect();
    let sizes = |s: &[Sym]| s.iter().map(|n| n.as_const().unwrap()).collect::<Vec<_>>();
    let mut outs: Vec<BufId> = Vec::new();
    for out in &library.outs {
        outs.push(b.typed_output(out.ty.dtype, &sizes(&out.ty.shape), None));
    }
    for &at in &library.mutates {
        outs.push(b.output(inputs[at as usize].0));
    }
    b.call(Call::Library(Box::new(library)), ins, &outs);
    let tensors: Vec<Tensor> = inputs.iter().map(|(sizes, values)| tensor(sizes, values)).collect();
    try_run(&b.build_with(Arc::new(Schemas))?, &tensors.iter().collect::<Vec<_>>())
}

fn int(n: i64) -> Arg {
    Arg::Int(Sym::from(n))
}

fn ints(all: &[i64]) -> Arg {
    Arg::List(all.iter().map(|n| int(*n)).collect())
}

#[test]
fn several_results() {
    if !torch() {
        return;
    }
    let x: (&[i64], &[f32]) = (&[2, 3], &[3.0, 1.0, 2.0, -1.0, 5.0, 4.0]);
    let sort = library(
        "aten::sort",
        "",
        vec![Arg::Tensor(0), int(-1), Arg::Bool(true)],
        &[(DType::F32, &[2, 3]), (DType::I64, &[2, 3])],
    );
    let got = call(sort, &[x]).unwrap();
    assert_eq!(floats(&got[0]), [3.0, 2.0, 1.0, 5.0, 4.0, -1.0]);
    assert_eq!(values::<i64>(&got[1]), [0, 2, 1, 1, 2, 0]);
    // The last two arguments are defaults, one is by name.
    let mut topk = library("aten::topk", "", vec![Arg::Tensor(0), int(2)], &[(DType::F32, &[2, 2]), (DType::I64, &[2, 2])]);
    topk.kwargs = vec![("largest".into(), Arg::Bool(false))];
    assert_eq!(floats(&call(topk, &[x]).unwrap()[0]), [1.0, 2.0, -1.0, 4.0]);
}

#[test]
fn optionals_lists_dtypes_and_strings() {
    if !torch() {
        return;
    }
    let x: (&[i64], &[f32]) = (&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let cumsum = library("aten::cumsum", "", vec![Arg::Tensor(0), int(1), Arg::DType(DType::F64)], &[(DType::F64, &[2, 3])]);
    assert_eq!(values::<f64>(&call(cumsum, &[x]).unwrap()[0]), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    let sum = |dim, sizes: &[i64]| {
        library("aten::sum", "dim_IntList", vec![Arg::Tensor(0), dim, Arg::Bool(false), Arg::None], &[(DType::F32, sizes)])
    };
    assert_eq!(floats(&call(sum(int(0), &[3]), &[x]).unwrap()[0]), [5.0, 7.0, 9.0]);
    assert_eq!(floats(&call(sum(ints(&[0, 1]), &[]), &[x]).unwrap()[0]), [21.0]);
    assert_eq!(floats(&call(sum(Arg::None, &[]), &[x]).unwrap()[0]), [21.0]);
    let gelu = library("aten::gelu", "", vec![Arg::Tensor(0), Arg::Str("tanh".into())], &[(DType::F32, &[2, 3])]);
    assert_close(&floats(&call(gelu, &[x]).unwrap()[0])[..2], &[0.841192, 1.954598]);
    let factors = Arg::List(vec![Arg::Float(Scalar::Float(2.0)), Arg::Float(Scalar::Float(1.0))]);
    let up = library("aten::upsample_nearest2d", "vec", vec![Arg::Tensor(0), Arg::None, factors], &[(DType::F32, &[1, 1, 2, 2])]);
    assert_eq!(floats(&call(up, &[(&[1, 1, 1, 2], &[1.0, 2.0])]).unwrap()[0]), [1.0, 2.0, 1.0, 2.0]);
    let ones = library(
        "aten::ones",
        "",
        vec![ints(&[2]), Arg::DType(DType::I64), Arg::Layout(0), Arg::Device(ox_ir::Device::Cpu), Arg::Bool(false)],
        &[(DType::I64, &[2])],
    );
    assert_eq!(values::<i64>(&call(ones, &[]).unwrap()[0]), [1, 1]);
}

#[test]
fn lists_of_tensors_in_and_out() {
    if !torch() {
        return;
    }
    // The parts are views of the argument: they must come back with memory of their own.
    let split = library(
        "aten::split_with_sizes",
        "",
        vec![Arg::Tensor(0), ints(&[1, 2]), int(0)],
        &[(DType::F32, &[1]), (DType::F32, &[2])],
    );
    let got = call(split, &[(&[3], &[1.0, 2.0, 3.0])]).unwrap();
    assert_eq!((floats(&got[0]), floats(&got[1])), (vec![1.0], vec![2.0, 3.0]));

    let mut b = Builder::default();
    let (x, i) = (b.input(&[2, 3]), b.typed_input(DType::I64, &[2], None));
    let y = b.output(&[2, 2]);
    let index = library(
        "aten::index",
        "Tensor",
        vec![Arg::Tensor(0), Arg::List(vec![Arg::None, Arg::Tensor(1)])],
        &[(DType::F32, &[2, 2])],
    );
    let ins = vec![b.whole(x), b.whole(i)];
    b.call(Call::Library(Box::new(index)), ins, &[y]);
    let executable = b.build_with(Arc::new(Schemas)).unwrap();
    let x = tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let got = run(&executable, &[&x, &of_type(DType::I64, &[2], &[1], &[2i64, 0])]);
    assert_eq!(floats(&got[0]), [3.0, 1.0, 6.0, 4.0]);
    // torch raises on a bad index: an error code, not a crash.
    let bad = of_type(DType::I64, &[2], &[1], &[2i64, 9]);
    assert!(matches!(try_run(&executable, &[&x, &bad]), Err(RunError::Torch { .. })));
}

#[test]
fn a_result_that_is_its_argument_gets_memory_of_its_own() {
    if !torch() {
        return;
    }
    let contiguous = library("aten::contiguous", "", vec![Arg::Tensor(0), Arg::MemoryFormat(0)], &[(DType::F32, &[2])]);
    let mut b = Builder::default();
    let (x, y) = (b.input(&[2]), b.output(&[2]));
    let ins = vec![b.whole(x)];
    b.call(Call::Library(Box::new(contiguous)), ins, &[y]);
    let x = tensor(&[2], &[1.0, 2.0]);
    let got = run(&b.build_with(Arc::new(Schemas)).unwrap(), &[&x]);
    assert_ne!(got[0].as_ref().data_ptr().unwrap(), x.as_ref().data_ptr().unwrap());
    assert_eq!(floats(&got[0]), [1.0, 2.0]);
}

#[test]
fn what_a_call_writes_is_a_copy_and_a_further_output() {
    if !torch() {
        return;
    }
    let mut relu = library("aten::relu_", "", vec![Arg::Tensor(0)], &[(DType::F32, &[2])]);
    relu.mutates = vec![0];
    let x = tensor(&[2], &[-1.0, 2.0]);
    let mut b = Builder::default();
    let (input, y, written) = (b.input(&[2]), b.output(&[2]), b.output(&[2]));
    let ins = vec![b.whole(input)];
    b.call(Call::Library(Box::new(relu)), ins, &[y, written]);
    let got = run(&b.build_with(Arc::new(Schemas)).unwrap(), &[&x]);
    assert_eq!(floats(&x), [-1.0, 2.0]);
    assert_eq!((floats(&got[0]), floats(&got[1])), (vec![0.0, 2.0], vec![0.0, 2.0]));
    assert_ne!(got[0].as_ref().data_ptr().unwrap(), got[1].as_ref().data_ptr().unwrap());
}

#[test]
fn what_the_abi_cannot_carry_goes_to_the_host() {
    if !torch() {
        return;
    }
    let pow = library("aten::pow", "Tensor_Scalar", vec![Arg::Tensor(0), Arg::Float(Scalar::Float(2.0))], &[(DType::F32, &[2])]);
    assert!(!supports(&pow, POW));
    let cumsum = library("aten::cumsum", "", vec![Arg::Tensor(0), int(1)], &[(DType::F32, &[2])]);
    assert!(supports(&cumsum, CUMSUM));
    assert!(
        !supports(&library("aten::cumsum", "", vec![Arg::Tensor(0)], &[(DType::F32, &[2])]), CUMSUM),
        "an argument is missing"
    );
    let got = call(pow, &[(&[2], &[3.0, 4.0])]).unwrap();
    assert_eq!(floats(&got[0]), [6.0, 8.0], "the test's host doubles");
    let mut raises = library("", "", vec![Arg::Tensor(0)], &[(DType::F32, &[2])]);
    raises.callee = Callee::Python { object: 0, name: "raises".into() };
    match call(raises, &[(&[2], &[3.0, 4.0])]) {
        Err(RunError::Host { raised, .. }) => assert_eq!(raised.downcast_ref::<&str>(), Some(&"the exception")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lazy_conjugation_and_negation_are_resolved() {
    if !torch() {
        return;
    }
    let mut b = Builder::default();
    let z = b.typed_input(DType::C64, &[2], None);
    let (conj, imag) = (b.library(DType::C64, &[2], None), b.typed_output(DType::F32, &[2], None));
    let ins = vec![b.whole(z)];
    b.call(Call::Library(Box::new(library("aten::_conj", "", vec![Arg::Tensor(0)], &[(DType::C64, &[2])]))), ins, &[conj]);
    let ins = vec![b.whole(conj)];
    b.call(Call::Library(Box::new(library("aten::imag", "", vec![Arg::Tensor(0)], &[(DType::F32, &[2])]))), ins, &[imag]);
    let z = of_type(DType::C64, &[2], &[1], &[[1.0f32, 2.0], [3.0, -4.0]]);
    let got = run(&b.build_with(Arc::new(Schemas)).unwrap(), &[&z]);
    assert_eq!(floats(&got[0]), [-2.0, 4.0]);
}
