//! Scaled dot product attention: torch's flash kernel for the CPU, or cuDNN's, where eager would take it, else eager's own operator.

use super::dispatch::{self, call_for_tensor};
use super::fused_attention::FusedAttention;
use super::learned::Learned;
use super::stable_ivalue::Value;
use super::{CallStep, arguments, single};
use crate::abi::Handle;
use crate::cuda::cuda;
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::layout::{Dims, Layout};
use crate::exec::prepare::{Operand, Preparing, Window};
use crate::exec::rows::Hears;
use crate::tensor::{Tensor, make};
use ox_ir::graph::AttentionAttrs;
use ox_ir::plan::View;
use ox_ir::{DType, Device};
use smallvec::SmallVec;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, PoisonError};

pub struct AttentionStep {
    q: Operand,
    k: Operand,
    v: Operand,
    mask: Option<Operand>,
    causal: bool,
    scale: Option<f64>,
    flash: bool,
    /// Each head of keys and values serves several of the query.
    grouped: bool,
    /// On a GPU: under which of the user's settings it was asked what eager takes, and whether that is cuDNN.
    choice: Option<Mutex<Option<(u64, bool)>>>,
    learned: Learned,
    /// The result has other dimensions in front than the call's: its leading sizes.
    front: Option<Dims>,
    out: usize,
    empty: bool,
}

impl AttentionStep {
    pub fn prepare(
        p: &mut Preparing<'_>,
        attrs: &AttentionAttrs,
        ins: &[View],
        outs: &[usize],
    ) -> Result<AttentionStep, RunError> {
        let (fixed, [mask]) = arguments(ins, [attrs.mask], 3)?;
        let out = single(outs)?;
        let windows = [p.window(&fixed[0])?, p.window(&fixed[1])?, p.window(&fixed[2])?];
        let mask = mask.map(|v| p.window(v)).transpose()?;
        let planned = &p.buffers[out].layout;
        let (empty, rank, result_bytes) = (planned.numel() == 0, planned.rank(), planned.bytes());
        let shaped = four_dims(&windows, &mask).map(|(windows, mask)| match p.device {
            Device::Cpu => (windows, mask.map(unrepeated)),
            _ => (windows, mask),
        });
        let heads = |w: &Window| w.layout.rank().checked_sub(3).map(|d| w.layout.sizes[d]);
        let grouped = heads(&windows[0]) != heads(&windows[1]);
        let front = (shaped.is_some() && rank != 4).then(|| planned.sizes[..rank - 2].into());
        let flash = p.device == Device::Cpu && shaped.as_ref().is_some_and(|(w, mask)| flash_takes(w, mask));
        // A mask of booleans is made a number of by the operator.
        let is_numeric = mask.as_ref().is_none_or(|mask| mask.layout.dtype != DType::Bool);
        let by_cudnn = p.device != Device::Cpu && is_numeric && shaped.is_some() && cuda()?.attention.has_cudnn();
        let ([q, k, v], mask) = match shaped {
            Some(shaped) => shaped,
            None => (windows, mask),
        };
        Ok(AttentionStep {
            q: p.operand(q),
            k: p.operand(k),
            v: p.operand(v),
            mask: mask.map(|w| p.operand(w)),
            causal: attrs.causal,
            scale: attrs.scale.map(|s| s.as_f64()),
            flash,
            grouped,
            choice: by_cudnn.then(Mutex::default),
            learned: Learned::new(result_bytes),
            front,
            out,
            empty,
        })
    }

    fn by_flash(&self, run: &Run<'_>, [q, k, v]: [Handle; 3], mask: *const Handle) -> Option<Result<Tensor, RunError>> {
        let call = run.abi.aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu.filter(|_| self.flash)?;
        let scale = self.scale.as_ref().map_or(null(), |s| s as *const f64);
        let mut sums: Handle = null_mut();
        // SAFETY: valid handles and pointers; two new tensors are returned.
        let result = make("attention", |out| unsafe { call(q, k, v, 0.0, self.causal as i32, mask, scale, out, &mut sums) });
        if !sums.is_null() {
            // SAFETY: the logarithms of the sums, which we own and do not need.
            drop(unsafe { Tensor::from_raw(sums) });
        }
        Some(result)
    }

    /// Where eager takes cuDNN's kernels: these at once, without the operator that looks for one.
    fn by_cudnn(&self, run: &mut Run<'_>) -> Option<Result<Tensor, RunError>> {
        self.choice.as_ref()?;
        let settings = run.abi.attention_settings()?;
        if !self.takes_cudnn(run, settings)? {
            return None;
        }
        let call = FusedAttention { cudnn: true, causal: self.causal, scale: self.scale, sums: false };
        let first = |made: Vec<Tensor>| made.into_iter().next().ok_or_else(|| RunError::bug("attention returned nothing"));
        Some(self.learned.run_for_one(run, &self.operands(), settings, |tensors| call.call(tensors).and_then(first)))
    }

    /// Whether eager takes cuDNN's kernels under these settings; None where it does not say.
    fn takes_cudnn(&self, run: &mut Run<'_>, settings: u64) -> Option<bool> {
        let mut choice = self.choice.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        match *choice {
            Some((known, takes)) if known == settings => Some(takes),
            _ => {
                let takes = self.eager_takes(run).ok()? == CUDNN;
                *choice = Some((settings, takes));
                Some(takes)
            }
        }
    }

    /// q, k, v and the mask.
    fn operands(&self) -> SmallVec<[Operand; 4]> {
        [self.q, self.k, self.v].into_iter().chain(self.mask).collect()
    }

    fn eager_takes(&self, run: &mut Run<'_>) -> Result<u64, RunError> {
        let tensors: Vec<Handle> = self.operands().into_iter().map(|operand| run.operand(operand)).collect::<Result<_, _>>()?;
        let mask = tensors.get(3).copied();
        // SAFETY: _fused_sdp_choice has the arguments of scaled_dot_product_attention, and returns an int.
        unsafe { Ok(dispatch::call(run.abi, c"aten::_fused_sdp_choice", c"", &self.values(mask), &tensors, 1)?[0]) }
    }

    fn by_operator(&self, run: &Run<'_>, qkv: [Handle; 3], mask: Option<Handle>) -> Result<Tensor, RunError> {
        let tensors: Vec<Handle> = qkv.into_iter().chain(mask).collect();
        // SAFETY: scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.,
        // bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor
        unsafe { call_for_tensor(run.abi, c"aten::scaled_dot_product_attention", c"", &self.values(mask), &tensors) }
    }

    fn values(&self, mask: Option<Handle>) -> [Value; 8] {
        [
            Value::Tensor(0),
            Value::Tensor(1),
            Value::Tensor(2),
            mask.map_or(Value::None, |_| Value::some(Value::Tensor(3))),
            Value::Float(0.0),
            Value::Bool(self.causal),
            self.scale.map_or(Value::None, |s| Value::some(Value::Float(s))),
            Value::Bool(self.grouped),
        ]
    }
}

/// `at::SDPBackend::cudnn_attention`.
const CUDNN: u64 = 3;

impl CallStep for AttentionStep {
    fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        if self.empty {
            return run.allocate_if_missing(self.out);
        }
        let qkv = [run.operand(self.q)?, run.operand(self.k)?, run.operand(self.v)?];
        let mask = self.mask.map(|o| run.operand(o)).transpose()?;
        let mask_ptr = mask.as_ref().map_or(null(), |m| m as *const Handle);
        let result = match self.by_flash(run, qkv, mask_ptr) {
            Some(result) => result?,
            None => match self.by_cudnn(run) {
                Some(result) => result?,
                None => self.by_operator(run, qkv, mask)?,
            },
        };
        let result = match &self.front {
            Some(front) => refold(result, front)?,
            None => result,
        };
        run.deliver(self.out, result)
    }

    fn tell(&self, run: &mut Run<'_>, hears: &mut Hears<'_>) -> Result<bool, RunError> {
        let known = self.choice.as_ref().and_then(|choice| *choice.lock().unwrap_or_else(PoisonError::into_inner));
        // Other settings than at the last call are left to `run`.
        let settings = match (known, run.abi.attention_settings()) {
            (Some((known, true)), Some(settings)) if known == settings && !self.empty && self.front.is_none() => settings,
            _ => return Ok(false),
        };
        self.learned.tell(run, &self.operands(), settings, &[self.out], hears)
    }
}

/// Brings q, k and v to four dimensions without a copy: ones in front, or leading dimensions merged.
fn four_dims(windows: &[Window; 3], mask: &Option<Window>) -> Option<([Window; 3], Option<Window>)> {
    let fit = |w: &Window| {
        let layout = match w.layout.rank() {
            0..=4 => w.layout.pad_front(4),
            rank => w.layout.merge_front(rank - 3)?,
        };
        Some(Window { layout, ..w.clone() })
    };
    let rank = windows[0].layout.rank();
    let mask = match mask {
        None => None,
        Some(w) if w.layout.rank() <= 4 && rank <= 4 => Some(Window { layout: w.layout.pad_front(4), ..w.clone() }),
        Some(w) => {
            let sizes: Dims = windows[0].layout.sizes[..rank - 2].iter().chain(&mask_tail(&w.layout)).copied().collect();
            let layout = w.layout.expand(&sizes)?.merge_front(rank - 3)?;
            Some(Window { layout, ..w.clone() })
        }
    };
    Some(([fit(&windows[0])?, fit(&windows[1])?, fit(&windows[2])?], mask))
}

/// A mask as it lies in memory: torch makes numbers of booleans in as many places as the mask says that it has, and broadcasts them itself.
fn unrepeated(mut mask: Window) -> Window {
    let Layout { sizes, strides, .. } = &mut mask.layout;
    let but_keys = sizes.len().saturating_sub(1);
    let repeated = sizes.iter_mut().zip(strides).take(but_keys).filter(|(_, stride)| **stride == 0);
    repeated.for_each(|(size, _)| *size = (*size).min(1));
    mask
}

fn mask_tail(mask: &Layout) -> [i64; 2] {
    let at = |back: usize| mask.rank().checked_sub(back).map_or(1, |d| mask.sizes[d]);
    [at(2), at(1)]
}

/// The conditions under which eager chooses its flash kernel.
fn flash_takes(windows: &[Window; 3], mask: &Option<Window>) -> bool {
    let [q, k, v] = windows.each_ref().map(|w| &w.layout);
    let same = |d: usize| q.sizes[d] == k.sizes[d] && q.sizes[d] == v.sizes[d];
    let qkv = [q, k, v];
    q.dtype.is_float()
        && qkv.iter().all(|l| l.dtype == q.dtype && l.strides[3] == 1 && l.numel() > 0)
        && same(0)
        && k.sizes[1] == v.sizes[1]
        && q.sizes[1] % k.sizes[1] == 0
        && same(3)
        && k.sizes[2] == v.sizes[2]
        && mask.as_ref().is_none_or(|m| mask_fits(&m.layout, q, k))
}

fn mask_fits(mask: &Layout, q: &Layout, k: &Layout) -> bool {
    let wanted = [q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]];
    mask.dtype == q.dtype && mask.rank() == 4 && mask.sizes.iter().zip(wanted).all(|(m, n)| *m == n || *m == 1)
}

/// Gives the two leading dimensions of a result the sizes `front`.
fn refold(result: Tensor, front: &[i64]) -> Result<Tensor, RunError> {
    let tensor = result.as_ref();
    let (sizes, strides) = (tensor.sizes()?, tensor.strides()?);
    let mut new_sizes: Dims = front.into();
    let mut new_strides: Dims = front.into();
    // The last of the leading dimensions is the heads'; those before it were merged into (or are missing from) the batch.
    let mut step = strides[0];
    for d in (0..front.len()).rev() {
        if d + 1 == front.len() {
            new_strides[d] = strides[1];
        } else {
            new_strides[d] = step;
            step *= front[d];
        }
    }
    new_sizes.extend_from_slice(&sizes[2..]);
    new_strides.extend_from_slice(&strides[2..]);
    tensor.reinterpret(&new_sizes, &new_strides, 0)
}
