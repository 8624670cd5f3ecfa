//! Attention on a GPU with what its derivative needs, where torch's operator returns numbers between its tensors: the dispatcher's ABI reads
//! such results in the wrong order, so these are called by functions of their own.

use crate::abi::{Code, Handle};
use crate::cuda::cuda;
use crate::error::RunError;
use crate::tensor::{Tensor, check};
use libloading::os::unix::Library;
use ox_ir::graph::{Arg, Library as Call};
use std::ptr::{null, null_mut};

type Out = *mut Handle;
type Scale = *const f64;

/// Query, key and value, what is particular, then: dropout, is it causal, a mask for debugging, scale; the result, the logarithms of its sums,
/// two lists of lengths, two lengths, two numbers of a seed, a mask.
macro_rules! attention {
    ($($particular:ty),*) => {
        unsafe extern "C" fn(
            Handle, Handle, Handle, $($particular,)* f64, i32, i32, Scale, Out, Out, Out, Out, *mut i64, *mut i64, Out, Out, Out,
        ) -> Code
    };
}

/// With a mask that is added, and whether the logarithms are wanted.
type Cudnn = attention!(*const Handle, i32);
type Flash = attention!();

/// By the names of torch's header; a torch may lack them.
pub(crate) struct Functions {
    cudnn: Option<Cudnn>,
    flash: Option<Flash>,
}

impl Functions {
    /// SAFETY: `library` must be libtorch_cuda.
    pub unsafe fn find(library: &Library) -> Functions {
        // SAFETY: the symbols' types are those that torch's header declares.
        unsafe {
            Functions {
                cudnn: library.get(b"aoti_torch_cuda__scaled_dot_product_cudnn_attention\0").ok().map(|f| *f),
                flash: library.get(b"aoti_torch_cuda__scaled_dot_product_flash_attention\0").ok().map(|f| *f),
            }
        }
    }

    pub fn has_cudnn(&self) -> bool {
        self.cudnn.is_some()
    }
}

pub struct FusedAttention {
    pub cudnn: bool,
    pub causal: bool,
    pub scale: Option<f64>,
    /// Whether the logarithms of the sums are wanted, where that can be said.
    pub sums: bool,
}

impl FusedAttention {
    pub fn of(call: &Call) -> Option<FusedAttention> {
        let (cudnn, causal_at) = match call.callee.name() {
            "aten::_scaled_dot_product_cudnn_attention" => (true, 6),
            "aten::_scaled_dot_product_flash_attention" => (false, 4),
            _ => return None,
        };
        let scale = call.kwargs.iter().find(|(name, _)| name == "scale").map(|(_, arg)| arg);
        let scale = if let Some(Arg::Float(scale)) = scale { Some(scale.as_f64()) } else { None };
        Some(FusedAttention { cudnn, causal: call.args.get(causal_at) == Some(&Arg::Bool(true)), scale, sums: true })
    }

    /// The result, and the logarithms of its sums. `tensors`: q, k, v, and a mask that is added.
    pub fn call(&self, tensors: &[Handle]) -> Result<Vec<Tensor>, RunError> {
        let [q, k, v, rest @ ..] = tensors else { return Err(RunError::bug("attention of fewer than three tensors")) };
        let mask = rest.first().map_or(null(), |mask| mask as *const Handle);
        let scale = self.scale.as_ref().map_or(null(), |scale| scale as *const f64);
        let mut outs: [Handle; 7] = [null_mut(); 7];
        let [out, sums, a, b, c, d, e] = &mut outs;
        let (mut rows, mut columns, causal, wanted) = (0, 0, i32::from(self.causal), i32::from(self.sums));
        let functions = &cuda()?.attention;
        let missing = || RunError::torch("this torch lacks a function for attention");
        // SAFETY: live handles; torch writes a new tensor, or none, to each of the others, and two numbers.
        let code = unsafe {
            match self.cudnn {
                true => {
                    let call = functions.cudnn.ok_or_else(missing)?;
                    call(*q, *k, *v, mask, wanted, 0.0, causal, 0, scale, out, sums, a, b, &mut rows, &mut columns, c, d, e)
                }
                false => {
                    let call = functions.flash.ok_or_else(missing)?;
                    call(*q, *k, *v, 0.0, causal, 0, scale, out, sums, a, b, &mut rows, &mut columns, c, d, e)
                }
            }
        };
        check(code, "attention")?;
        // SAFETY: tensors that we own; lengths, seeds and a mask for debugging are dropped.
        let owned = outs.into_iter().filter(|out| !out.is_null()).map(|out| unsafe { Tensor::from_raw(out) });
        let mut owned: Vec<Tensor> = owned.collect();
        owned.truncate(2);
        Ok(owned)
    }
}
