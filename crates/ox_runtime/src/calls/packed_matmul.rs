//! Products whose second factor is packed.

use super::matmul::Attrs;
use super::pack::{Mkl, NOT_TRANSPOSED, PACKED, ROW_MAJOR, to_i32};
use super::post::{PostStep, onednn_name};
use super::{CallStep, arguments, single};
use crate::abi::{Handle, abi};
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::layout::Layout;
use crate::exec::prepare::{Operand, Preparing, Window};
use crate::tensor::{Tensor, TensorRef, make};
use ox_ir::graph::Post;
use ox_ir::plan::View;
use ox_ir::{DType, Device};
use std::ffi::CStr;
use std::ptr::null;

/// oneDNN's products come in tensors of their own; MKL's are written where we want them.
pub fn returns_new(p: &Preparing<'_>, ins: &[View]) -> bool {
    let weight = ins.get(1).and_then(|weight| p.packed(weight));
    weight.is_some_and(|buf| p.buffers[buf].layout.dtype != DType::F32)
}

pub fn prepare(
    p: &mut Preparing<'_>,
    attrs: Attrs<'_>,
    weight: usize,
    ins: &[View],
    outs: &[usize],
) -> Result<Box<dyn CallStep>, RunError> {
    let (fixed, [bias, _]) = arguments(ins, [attrs.bias, attrs.add], 2)?;
    let (x, out) = (p.window(&fixed[0])?, single(outs)?);
    let layout = p.buffers[out].layout.clone();
    let fits = x.layout.rank() == 2 && layout.rank() == 2 && x.layout.sizes[0] == layout.sizes[0];
    if !fits || attrs.add || attrs.alpha != 1.0 || (attrs.bias && attrs.beta != 1.0) {
        return Err(RunError::bug(format!("a packed product of {:?} into {layout:?}", x.layout)));
    }
    let parts = Parts { x, weight, bias: bias.map(|view| p.window(view)).transpose()?, out };
    match layout.dtype {
        DType::F32 => Ok(Box::new(MklStep::prepare(p, parts, attrs.post)?)),
        _ => Ok(Box::new(LinearStep::prepare(p, parts, attrs.post)?)),
    }
}

/// What a product is made of; weight and result by their buffers.
struct Parts {
    x: Window,
    weight: usize,
    bias: Option<Window>,
    out: usize,
}

/// A matrix in memory: as it lies if the library can take it so, else copied into rows.
struct Matrix {
    operand: Operand,
    layout: Layout,
    copied: bool,
}

impl Matrix {
    fn new(p: &mut Preparing<'_>, window: Window) -> Matrix {
        let (rows, layout) = (in_rows(&window.layout), window.layout.clone());
        let copied = !(window.layout.strides[1] == 1 && window.layout.strides[0] >= window.layout.sizes[1].max(1));
        Matrix { operand: p.operand(window), layout: if copied { rows } else { layout }, copied }
    }

    /// Memory in rows; `held` keeps it if it is a copy.
    fn take(&self, run: &mut Run<'_>, held: &mut Option<Tensor>, filled: bool) -> Result<Handle, RunError> {
        let handle = run.operand(self.operand)?;
        if !self.copied {
            return Ok(handle);
        }
        let copy = Tensor::empty_strided(&self.layout.sizes, &self.layout.strides, self.layout.dtype, Device::Cpu)?;
        if filled {
            // SAFETY: the handle lives in the frame.
            copy.as_ref().copy_from(unsafe { TensorRef::from_handle(handle) })?;
        }
        Ok(held.insert(copy).as_ref().handle())
    }

    fn step(&self) -> Result<i32, RunError> {
        to_i32(self.layout.strides[0])
    }
}

fn in_rows(layout: &Layout) -> Layout {
    Layout { strides: [layout.sizes[1].max(1), 1].into_iter().collect(), ..layout.clone() }
}

struct MklStep {
    mkl: Mkl,
    x: Matrix,
    weight: usize,
    bias: Option<Operand>,
    out: Matrix,
    post: PostStep,
}

impl MklStep {
    fn prepare(p: &mut Preparing<'_>, parts: Parts, post: &Post) -> Result<MklStep, RunError> {
        let out = p.whole(parts.out);
        let wrong = || RunError::bug(format!("a bias that does not fit {:?}", out.layout));
        let wide = |w: Window| Some(Window { layout: w.layout.expand(&out.layout.sizes)?, ..w });
        let bias = parts.bias.map(|w| wide(w).ok_or_else(wrong)).transpose()?;
        Ok(MklStep {
            mkl: Mkl::of(abi()?).ok_or_else(|| RunError::bug("this libtorch has no packed products"))?,
            x: Matrix::new(p, parts.x),
            weight: parts.weight,
            bias: bias.map(|w| p.operand(w)),
            out: Matrix::new(p, out),
            post: PostStep::prepare(post, DType::F32, Device::Cpu)?,
        })
    }

    /// `out = x @ weight + beta * out`.
    fn multiply(&self, run: &Run<'_>, x: TensorRef<'_>, out: TensorRef<'_>, beta: f32) -> Result<(), RunError> {
        let [rows, k] = self.x.layout.sizes[..] else { return Err(RunError::bug("a product of no matrices")) };
        let (rows, k, n) = (to_i32(rows)?, to_i32(k)?, to_i32(self.out.layout.sizes[1])?);
        let (x_step, out_step) = (self.x.step()?, self.out.step()?);
        let (x, out, weight) = (x.data_ptr()?.cast(), out.data_ptr()?.cast(), run.packed(self.weight)?.data_ptr()?.cast());
        // SAFETY: the matrices lie in rows with these sizes and steps, and the weight was packed for them.
        unsafe { (self.mkl.compute)(ROW_MAJOR, NOT_TRANSPOSED, PACKED, rows, n, k, x, x_step, weight, k, beta, out, out_step) };
        Ok(())
    }
}

impl CallStep for MklStep {
    fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        let (mut held_x, mut held_out) = (None, None);
        let x = self.x.take(run, &mut held_x, true)?;
        let target = self.out.take(run, &mut held_out, false)?;
        // SAFETY: the handles live in the frame, or are held above.
        let (x, out) = unsafe { (TensorRef::from_handle(x), TensorRef::from_handle(target)) };
        if let Some(bias) = self.bias {
            // SAFETY: as above.
            out.copy_from(unsafe { TensorRef::from_handle(run.operand(bias)?) })?;
        }
        self.multiply(run, x, out, if self.bias.is_some() { 1.0 } else { 0.0 })?;
        // SAFETY: as above.
        unsafe { self.post.apply(run.abi, target)? };
        match held_out {
            // SAFETY: as above.
            Some(result) => unsafe { TensorRef::from_handle(run.operand(self.out.operand)?) }.copy_from(result.as_ref()),
            None => Ok(()),
        }
    }
}

struct LinearStep {
    x: Matrix,
    weight: usize,
    bias: Option<Operand>,
    out: usize,
    is_empty: bool,
    post: &'static CStr,
}

impl LinearStep {
    fn prepare(p: &mut Preparing<'_>, parts: Parts, post: &Post) -> Result<LinearStep, RunError> {
        let (name, numbers, algorithm) = onednn_name(post);
        if !numbers.is_empty() || algorithm.is_some() {
            return Err(RunError::bug(format!("a packed product with {post:?} behind it")));
        }
        let is_empty = p.buffers[parts.out].layout.numel() == 0;
        let bias = parts.bias.map(|w| p.operand(last_dim(w)));
        Ok(LinearStep { x: Matrix::new(p, parts.x), weight: parts.weight, bias, out: parts.out, is_empty, post: name })
    }
}

/// A bias may have a dimension of one row.
fn last_dim(mut window: Window) -> Window {
    let front = window.layout.rank() - 1;
    window.layout.sizes.drain(..front);
    window.layout.strides.drain(..front);
    window
}

impl CallStep for LinearStep {
    fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        if self.is_empty {
            return run.allocate_if_missing(self.out);
        }
        let mut held = None;
        let x = self.x.take(run, &mut held, true)?;
        let bias = self.bias.map(|o| run.operand(o)).transpose()?;
        let bias = bias.as_ref().map_or(null(), |b| b as *const Handle);
        let weight = run.packed(self.weight)?.handle();
        let missing = || RunError::bug("this libtorch has no packed products");
        let call = run.abi.aoti_torch_cpu__linear_pointwise.ok_or_else(missing)?;
        // SAFETY: valid handles; there are no numbers and no algorithm.
        let result =
            make("a packed product", |out| unsafe { call(x, weight, bias, self.post.as_ptr(), null(), 0, null(), out) })?;
        run.deliver(self.out, result)
    }
}
