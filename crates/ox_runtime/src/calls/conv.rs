//! Convolutions. torch returns a new tensor; the buffer takes it as it is if it has the planned strides.

use super::dispatch::call_for_tensor;
use super::learned::Learned;
use super::post::{PostStep, onednn_name};
use super::stable_ivalue::Value;
use super::{CallStep, arguments, single};
use crate::abi::{Handle, Ops, abi};
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::layout::{Dims, Layout};
use crate::exec::prepare::{Operand, Preparing};
use crate::exec::rows::Hears;
use crate::tensor::{Tensor, make};
use ox_ir::graph::{ConvAttrs, Post};
use ox_ir::plan::View;
use ox_ir::{DType, Device};
use smallvec::{SmallVec, smallvec};
use std::ffi::{CStr, c_char};
use std::ptr::null;

struct Fused {
    name: &'static CStr,
    numbers: Vec<f64>,
    algorithm: Option<&'static CStr>,
}

enum Weight {
    Plain(Operand),
    /// The buffer of a packed one.
    Packed(usize),
}

pub struct ConvStep {
    x: Operand,
    weight: Weight,
    bias: Option<Operand>,
    add: Option<Operand>,
    out: usize,
    is_empty: bool,
    stride: Dims,
    padding: Dims,
    dilation: Dims,
    transposed: bool,
    output_padding: Dims,
    groups: i64,
    /// oneDNN's own post-op; None: plain convolution, the rest behind it.
    fused: Option<Fused>,
    /// By torch's own way (`ConvAttrs::is_by_columns`): the shape of the window.
    window: Option<Dims>,
    post: PostStep,
    /// On a GPU, in 16 bits (in f32 there are modes): what is known of it, and x, weight and bias.
    learned: Option<(Learned, SmallVec<[Operand; 3]>)>,
}

impl ConvStep {
    pub fn prepare(p: &mut Preparing<'_>, attrs: &ConvAttrs, ins: &[View], outs: &[usize]) -> Result<ConvStep, RunError> {
        let (fixed, [bias, add]) = arguments(ins, [attrs.bias, attrs.add], 2)?;
        let out = single(outs)?;
        let layout = &p.buffers[out].layout;
        let dtype = layout.dtype;
        let (is_empty, result_bytes) = (layout.numel() == 0, layout.bytes());
        let packed = p.packed(&fixed[1]);
        let fused = (packed.is_some() || p.device == Device::Cpu && can_fuse(attrs, dtype, layout.rank(), is_empty)).then(|| {
            let (name, numbers, algorithm) = onednn_name(&attrs.post);
            Fused { name, numbers, algorithm }
        });
        let window = if packed.is_none() && fused.is_none() { window_of_columns(p, attrs, fixed, out)? } else { None };
        let x = p.operand_of(&fixed[0])?;
        let weight = packed.map_or_else(|| p.operand_of(&fixed[1]).map(Weight::Plain), |buf| Ok(Weight::Packed(buf)))?;
        let bias = bias.map(|v| p.operand_of(v)).transpose()?;
        let is_alone = !is_empty && dtype.size() == 2 && !attrs.add && attrs.post == Post::None;
        let learned = match weight {
            Weight::Plain(weight) if p.device != Device::Cpu && is_alone => {
                Some((Learned::new(result_bytes), [x, weight].into_iter().chain(bias).collect()))
            }
            _ => None,
        };
        Ok(ConvStep {
            window,
            x,
            weight,
            is_empty,
            bias,
            learned,
            add: add.map(|v| p.operand_of(v)).transpose()?,
            out,
            stride: p.env.eval_all(&attrs.stride)?,
            padding: p.env.eval_all(&attrs.padding)?,
            dilation: p.env.eval_all(&attrs.dilation)?,
            transposed: attrs.transposed,
            output_padding: p.env.eval_all(&attrs.output_padding)?,
            groups: p.env.eval(&attrs.groups)?,
            fused,
            post: PostStep::prepare(&attrs.post, dtype, p.device)?,
        })
    }

    fn fused(
        &self,
        run: &Run<'_>,
        f: &Fused,
        x: Handle,
        w: Handle,
        bias: *const Handle,
        add: Option<Handle>,
    ) -> Option<Result<Tensor, RunError>> {
        let abi = run.abi;
        let n = self.stride.len() as i64;
        let (padding, stride, dilation) = (self.padding.as_ptr(), self.stride.as_ptr(), self.dilation.as_ptr());
        let numbers: Vec<*const f64> = f.numbers.iter().map(|x| x as *const f64).collect();
        let count = numbers.len() as i64;
        let algorithm = f.algorithm.map(CStr::as_ptr);
        let algorithm = algorithm.as_ref().map_or(null(), |a: &*const c_char| a as *const _);
        let name = f.name.as_ptr();
        // SAFETY: valid handles; the arrays have `n` and `count` elements; the pointers live through the call.
        let made = match add {
            None => {
                let call = abi.aoti_torch_cpu_mkldnn__convolution_pointwise?;
                make("a convolution", |out| unsafe {
                    let scalars = numbers.as_ptr();
                    call(x, w, bias, padding, n, stride, n, dilation, n, self.groups, name, scalars, count, algorithm, out)
                })
            }
            Some(add) => {
                let call = abi.aoti_torch_cpu_mkldnn__convolution_pointwise_binary?;
                let unary = if f.name == c"none" { null() } else { &name as *const *const c_char };
                make("a convolution", |out| unsafe {
                    let (op, alpha, scalars) = (c"add".as_ptr(), null(), numbers.as_ptr());
                    call(
                        x,
                        add,
                        w,
                        bias,
                        padding,
                        n,
                        stride,
                        n,
                        dilation,
                        n,
                        self.groups,
                        op,
                        alpha,
                        unary,
                        scalars,
                        count,
                        algorithm,
                        out,
                    )
                })
            }
        };
        Some(made)
    }

    fn by_columns(&self, run: &Run<'_>, window: &Dims, x: Handle, w: Handle, bias: *const Handle) -> Result<Tensor, RunError> {
        let mut tensors: SmallVec<[Handle; 3]> = smallvec![x, w];
        // SAFETY: null, or a valid handle.
        tensors.extend(unsafe { bias.as_ref() }.copied());
        let bias = if bias.is_null() { Value::None } else { Value::some(Value::Tensor(2)) };
        let ints = |dims: &Dims| Value::ints(dims);
        let values = [Value::Tensor(0), Value::Tensor(1), ints(window), bias, ints(&self.stride), ints(&self.padding)];
        // SAFETY: _slow_conv2d_forward(Tensor self, Tensor weight, SymInt[2] kernel_size, Tensor? bias, SymInt[2] stride, SymInt[2] padding) -> Tensor
        unsafe { call_for_tensor(run.abi, c"aten::_slow_conv2d_forward", c"", &values, &tensors) }
    }

    fn plain(&self, run: &Run<'_>, x: Handle, w: Handle, bias: *const Handle, add: Option<Handle>) -> Result<Tensor, RunError> {
        if let Some(window) = &self.window {
            return self.by_columns(run, window, x, w, bias);
        }
        let mut result = self.convolve(run.ops, x, w, bias)?;
        if let Some(add) = add {
            let before = result.as_ref().handle();
            // SAFETY: valid handles.
            result = make("add", |out| unsafe { (run.ops.add)(before, add, 1.0, out) })?;
        }
        // SAFETY: a valid handle.
        unsafe { self.post.apply(run.abi, result.as_ref().handle())? };
        Ok(result)
    }

    fn convolve(&self, ops: &Ops, x: Handle, w: Handle, bias: *const Handle) -> Result<Tensor, RunError> {
        let n = self.stride.len() as i64;
        let (stride, padding, dilation) = (self.stride.as_ptr(), self.padding.as_ptr(), self.dilation.as_ptr());
        let (more, more_len) = (self.output_padding.as_ptr(), self.output_padding.len() as i64);
        // SAFETY: valid handles; the arrays have the lengths given.
        make("a convolution", |out| unsafe {
            let transposed = self.transposed as i32;
            (ops.convolution)(x, w, bias, stride, n, padding, n, dilation, n, transposed, more, more_len, self.groups, out)
        })
    }
}

/// The shape of the window, if the convolution is one that is done by columns and all of its tensors lie as that way wants them.
fn window_of_columns(p: &Preparing<'_>, attrs: &ConvAttrs, ins: &[View], out: usize) -> Result<Option<Dims>, RunError> {
    let (x, weight, result) = (p.window(&ins[0])?.layout, p.window(&ins[1])?.layout, &p.buffers[out].layout);
    let fits = |layout: &Layout| layout.dtype == DType::F32 && layout.is_dense();
    let chosen = p.device == Device::Cpu
        && attrs.is_by_columns(&weight.sizes, &result.sizes)
        && [&x, &weight, result].into_iter().all(fits)
        && abi()?.torch_new_list_reserve_size.is_some();
    Ok(chosen.then(|| weight.sizes[2..].iter().copied().collect()))
}

/// oneDNN rounds once, behind the post-op. Where that differs from eager's two roundings it is left to f32.
fn can_fuse(attrs: &ConvAttrs, dtype: DType, rank: usize, is_empty: bool) -> bool {
    let something = attrs.add || attrs.post != Post::None;
    let same_rounding = dtype == DType::F32 || (dtype == DType::BF16 && !attrs.add && attrs.post == Post::Relu);
    something && same_rounding && !attrs.transposed && (rank == 4 || rank == 5) && !is_empty
}

impl CallStep for ConvStep {
    fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        if let Some((learned, operands)) = &self.learned
            && let Some(settings) = run.abi.convolution_settings()
        {
            let ops = run.ops;
            let bias = |tensors: &[Handle]| tensors.get(2).map_or(null(), |bias| bias as *const Handle);
            let call = |tensors: &[Handle]| self.convolve(ops, tensors[0], tensors[1], bias(tensors));
            let result = learned.run_for_one(run, operands, settings, call)?;
            return run.deliver(self.out, result);
        }
        let x = run.operand(self.x)?;
        let weight = match self.weight {
            Weight::Packed(_) if self.is_empty => return run.allocate_if_missing(self.out),
            Weight::Packed(buf) => run.packed(buf)?.handle(),
            Weight::Plain(operand) => run.operand(operand)?,
        };
        let bias = self.bias.map(|o| run.operand(o)).transpose()?;
        let add = self.add.map(|o| run.operand(o)).transpose()?;
        let bias_ptr = bias.as_ref().map_or(null(), |b| b as *const Handle);
        let fused = self.fused.as_ref().and_then(|f| self.fused(run, f, x, weight, bias_ptr, add));
        let result = match fused {
            Some(result) => result?,
            None => self.plain(run, x, weight, bias_ptr, add)?,
        };
        run.deliver(self.out, result)
    }

    fn tell(&self, run: &mut Run<'_>, hears: &mut Hears<'_>) -> Result<bool, RunError> {
        let Some((learned, operands)) = &self.learned else { return Ok(false) };
        let Some(settings) = run.abi.convolution_settings() else { return Ok(false) };
        learned.tell(run, operands, settings, &[self.out], hears)
    }
}
