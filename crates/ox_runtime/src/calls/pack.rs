//! Weights in the library's own format: MKL's for products in f32, oneDNN's for all else.

use super::dispatch::{call, call_for_tensor};
use super::stable_ivalue::Value;
use super::{CallStep, single};
use crate::abi::{Abi, abi};
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::layout::{Dims, Layout};
use crate::exec::prepare::{Operand, Preparing, Window};
use crate::tensor::{Tensor, TensorRef};
use ox_ir::graph::Packing;
use ox_ir::plan::View;
use ox_ir::{DType, Device};

/// What the library of this process can pack on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Packable {
    pub matmul_f32: bool,
    pub matmul_bf16: bool,
    pub conv_f32: bool,
    pub conv_bf16: bool,
}

pub fn packable() -> Packable {
    let Ok(abi) = abi() else { return Packable::default() };
    let conv = abi.aoti_torch_cpu_mkldnn__convolution_pointwise.is_some();
    let bf16 = conv && has_bf16(abi);
    Packable {
        matmul_f32: Mkl::of(abi).is_some(),
        matmul_bf16: bf16 && abi.aoti_torch_cpu__linear_pointwise.is_some(),
        conv_f32: conv,
        conv_bf16: bf16,
    }
}

fn has_bf16(abi: &Abi) -> bool {
    // SAFETY: _is_mkldnn_bf16_supported() -> bool
    let words = unsafe { call(abi, c"mkldnn::_is_mkldnn_bf16_supported", c"", &[], &[], 1) };
    words.is_ok_and(|words| words[0] & 1 == 1)
}

/// MKL's products with packed factors. torch's pip packages carry MKL with 32-bit integers and export these.
#[derive(Clone, Copy)]
pub struct Mkl {
    pack_get_size: unsafe extern "C" fn(i32, i32, i32, i32) -> usize,
    pack: unsafe extern "C" fn(i32, i32, i32, i32, i32, i32, f32, *const f32, i32, *mut f32),
    pub compute: unsafe extern "C" fn(i32, i32, i32, i32, i32, i32, *const f32, i32, *const f32, i32, f32, *mut f32, i32),
}

pub const ROW_MAJOR: i32 = 101;
pub const NOT_TRANSPOSED: i32 = 111;
const TRANSPOSED: i32 = 112;
pub const PACKED: i32 = 151;
const SECOND_FACTOR: i32 = 162;

impl Mkl {
    pub fn of(abi: &Abi) -> Option<Mkl> {
        Some(Mkl {
            pack_get_size: abi.cblas_sgemm_pack_get_size?,
            pack: abi.cblas_sgemm_pack?,
            compute: abi.cblas_sgemm_compute?,
        })
    }

    /// Packs `weight` [n, k], which is contiguous, for products with `rows` rows.
    fn pack(self, weight: TensorRef<'_>, rows: i32, k: i32, n: i32) -> Result<Tensor, RunError> {
        // SAFETY: computes a number.
        let bytes = unsafe { (self.pack_get_size)(SECOND_FACTOR, rows, n, k) } as i64;
        let packed = Tensor::empty_strided(&[bytes], &[1], DType::U8, Device::Cpu)?;
        let (from, to) = (weight.data_ptr()?, packed.as_ref().data_ptr()?);
        // SAFETY: `from` has n * k elements, and `to` the bytes that the library asked for.
        unsafe { (self.pack)(ROW_MAJOR, SECOND_FACTOR, TRANSPOSED, rows, n, k, 1.0, from.cast(), k, to.cast()) };
        Ok(packed)
    }
}

pub fn to_i32(n: i64) -> Result<i32, RunError> {
    i32::try_from(n).map_err(|_| RunError::bug(format!("a packed product with a size of {n}")))
}

struct ConvPacking {
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    groups: i64,
}

pub struct PackStep {
    weight: Operand,
    /// The weight as the library wants it: the matrix of a product as [out, in].
    layout: Layout,
    x: Dims,
    conv: Option<ConvPacking>,
    out: usize,
}

impl PackStep {
    pub fn prepare(p: &mut Preparing<'_>, packing: &Packing, ins: &[View], outs: &[usize]) -> Result<PackStep, RunError> {
        let [weight] = ins else { return Err(RunError::bug(format!("{} weights to pack", ins.len()))) };
        let mut window = p.window(weight)?;
        let is_conv = !packing.stride.is_empty();
        if !is_conv {
            window = turned(window);
        }
        let conv = ConvPacking {
            stride: p.env.eval_all(&packing.stride)?,
            padding: p.env.eval_all(&packing.padding)?,
            dilation: p.env.eval_all(&packing.dilation)?,
            groups: p.env.eval(&packing.groups)?,
        };
        Ok(PackStep {
            layout: window.layout.clone(),
            weight: p.operand(window),
            x: p.env.eval_all(&packing.x)?,
            conv: is_conv.then_some(conv),
            out: single(outs)?,
        })
    }

    /// The weight in dense memory of its own.
    fn dense(&self, run: &mut Run<'_>) -> Result<Tensor, RunError> {
        let handle = run.operand(self.weight)?;
        let mut strides: Dims = self.layout.sizes.iter().map(|_| 1).collect();
        for d in (1..strides.len()).rev() {
            strides[d - 1] = strides[d] * self.layout.sizes[d].max(1);
        }
        let dense = Tensor::empty_strided(&self.layout.sizes, &strides, self.layout.dtype, Device::Cpu)?;
        // SAFETY: the handle lives in the frame.
        dense.as_ref().copy_from(unsafe { TensorRef::from_handle(handle) })?;
        Ok(dense)
    }

    fn pack(&self, abi: &Abi, weight: TensorRef<'_>) -> Result<Tensor, RunError> {
        let unpackable = || RunError::bug(format!("a weight {:?} that cannot be packed", self.layout));
        match &self.conv {
            Some(conv) => pack_conv(abi, weight, conv, &self.x),
            None if self.layout.dtype == DType::F32 => {
                let [rows, _] = self.x[..] else { return Err(unpackable()) };
                let (n, k) = (to_i32(self.layout.sizes[0])?, to_i32(self.layout.sizes[1])?);
                Mkl::of(abi).ok_or_else(unpackable)?.pack(weight, to_i32(rows)?, k, n)
            }
            None => pack_linear(abi, weight, self.x.first().copied()),
        }
    }
}

fn turned(mut window: Window) -> Window {
    window.layout.sizes.reverse();
    window.layout.strides.reverse();
    window
}

fn pack_conv(abi: &Abi, weight: TensorRef<'_>, conv: &ConvPacking, x: &[i64]) -> Result<Tensor, RunError> {
    let ints = |values: &Dims| Value::ints(values);
    let size = if x.is_empty() { Value::None } else { Value::some(Value::ints(x)) };
    let values = [Value::Tensor(0), ints(&conv.padding), ints(&conv.stride), ints(&conv.dilation), Value::Int(conv.groups), size];
    // SAFETY: _reorder_convolution_weight(Tensor self, int[2] padding, int[2] stride, int[2] dilation, int groups, int[]?
    // input_size) -> Tensor
    unsafe { call_for_tensor(abi, c"mkldnn::_reorder_convolution_weight", c"", &values, &[weight.handle()]) }
}

fn pack_linear(abi: &Abi, weight: TensorRef<'_>, rows: Option<i64>) -> Result<Tensor, RunError> {
    let rows = rows.map_or(Value::None, |rows| Value::some(Value::Int(rows)));
    // SAFETY: _reorder_linear_weight(Tensor self, int? batch_size) -> Tensor
    unsafe { call_for_tensor(abi, c"mkldnn::_reorder_linear_weight", c"", &[Value::Tensor(0), rows], &[weight.handle()]) }
}

impl CallStep for PackStep {
    fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        let dense = self.dense(run)?;
        let packed = self.pack(run.abi, dense.as_ref())?;
        run.deliver_packed(self.out, packed);
        Ok(())
    }
}
