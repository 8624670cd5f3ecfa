//! What is computed on the result of a product or convolution: in place, by torch's own operators.

use super::dispatch::call_for_tensor;
use super::stable_ivalue::Value;
use crate::abi::{Abi, Handle, abi};
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef, check};
use ox_ir::graph::Post;
use ox_ir::{DType, Device};
use std::ffi::{CStr, CString};

/// An operator that changes its first argument.
struct InPlace {
    name: &'static CStr,
    overload: &'static CStr,
    values: Vec<Value>,
    /// Tensors behind the first.
    constants: Vec<Tensor>,
}

/// A `Post` ready to be applied to tensors of one dtype.
pub struct PostStep {
    op: Option<InPlace>,
}

impl PostStep {
    pub fn prepare(post: &Post, dtype: DType, device: Device) -> Result<PostStep, RunError> {
        let simple = |name| InPlace { name, overload: c"", values: vec![Value::Tensor(0)], constants: Vec::new() };
        let op = match post {
            Post::None => None,
            Post::Relu => Some(simple(c"aten::relu_")),
            Post::Silu => Some(simple(c"aten::silu_")),
            Post::Sigmoid => Some(simple(c"aten::sigmoid_")),
            Post::Tanh => Some(simple(c"aten::tanh_")),
            Post::Hardswish => Some(simple(c"aten::hardswish_")),
            Post::Gelu(tanh) => {
                let formula = CString::from(if *tanh { c"tanh" } else { c"none" });
                Some(InPlace { values: vec![Value::Tensor(0), Value::Str(formula)], ..simple(c"aten::gelu_") })
            }
            Post::Hardtanh(low, high) => Some(InPlace {
                overload: c"Tensor",
                values: vec![Value::Tensor(0), Value::some(Value::Tensor(1)), Value::some(Value::Tensor(2))],
                constants: vec![constant(low.as_f64(), dtype, device)?, constant(high.as_f64(), dtype, device)?],
                ..simple(c"aten::clamp_")
            }),
            // Not in place, because the ABI cannot pass the slope as a number: prelu takes it as a tensor.
            Post::LeakyRelu(slope) => Some(InPlace {
                values: vec![Value::Tensor(0), Value::Tensor(1)],
                constants: vec![constant(slope.as_f64(), dtype, device)?],
                ..simple(c"aten::_prelu_kernel")
            }),
        };
        Ok(PostStep { op })
    }

    /// SAFETY: `target` must be a valid handle.
    pub unsafe fn apply(&self, abi: &Abi, target: Handle) -> Result<(), RunError> {
        let Some(op) = &self.op else { return Ok(()) };
        let mut tensors = vec![target];
        tensors.extend(op.constants.iter().map(|t| t.as_ref().handle()));
        // SAFETY: the values were made for the operator's schema; each returns one tensor.
        unsafe {
            let result = call_for_tensor(abi, op.name, op.overload, &op.values, &tensors)?;
            let target = TensorRef::from_handle(target);
            if result.as_ref().data_ptr()? == target.data_ptr()? { Ok(()) } else { target.copy_from(result.as_ref()) }
        }
    }
}

fn constant(value: f64, dtype: DType, device: Device) -> Result<Tensor, RunError> {
    let tensor = Tensor::empty_strided(&[], &[], dtype, device)?;
    // SAFETY: a valid handle.
    check(unsafe { (abi()?.ops(device)?.fill)(tensor.as_ref().handle(), value) }, "fill_")?;
    Ok(tensor)
}

/// How oneDNN names a post-op, its numbers and its algorithm.
pub fn onednn_name(post: &Post) -> (&'static CStr, Vec<f64>, Option<&'static CStr>) {
    match post {
        Post::None => (c"none", vec![], None),
        Post::Relu => (c"relu", vec![], None),
        Post::Gelu(tanh) => (c"gelu", vec![], Some(if *tanh { c"tanh" } else { c"none" })),
        Post::Silu => (c"swish", vec![], None),
        Post::Sigmoid => (c"sigmoid", vec![], None),
        Post::Tanh => (c"tanh", vec![], None),
        Post::Hardswish => (c"hardswish", vec![], None),
        Post::Hardtanh(low, high) => (c"hardtanh", vec![low.as_f64(), high.as_f64()], None),
        Post::LeakyRelu(slope) => (c"leaky_relu", vec![slope.as_f64()], None),
    }
}
