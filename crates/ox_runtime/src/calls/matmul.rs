//! Matrix products, written straight into the planned buffer by torch's out-variants.

use super::direct_matmul::{DirectProduct, Layouts};
use super::post::PostStep;
use super::{CallStep, arguments, single};
use crate::abi::Handle;
use crate::cuda::blas::Behind;
use crate::error::RunError;
use crate::exec::frame::Run;
use crate::exec::layout::Layout;
use crate::exec::prepare::{Operand, Preparing, Window};
use crate::exec::rows::Hears;
use crate::tensor::{TensorRef, check, make};
use ox_ir::graph::Post;
use ox_ir::plan::View;
use ox_ir::{DType, Device};

pub struct Attrs<'a> {
    pub bias: bool,
    pub add: bool,
    pub alpha: f64,
    pub beta: f64,
    pub post: &'a Post,
}

/// The operands as windows: all of the same rank once `shape` is done with them, bias and add as large as the result.
#[derive(Clone)]
struct Parts {
    a: Window,
    b: Window,
    out: Window,
    bias: Option<Window>,
    add: Option<Window>,
}

struct Product {
    a: Operand,
    b: Operand,
    out: Operand,
    bias: Option<Operand>,
    add: Option<Operand>,
    batched: bool,
    /// By the GPU's library itself, where it can be.
    direct: Option<DirectProduct>,
}

struct MatmulStep {
    products: Vec<Product>,
    alpha: f64,
    beta: f64,
    /// The sum with `add` is rounded by itself, as eager does it: for types shorter than f32.
    add_apart: bool,
    post: PostStep,
}

pub fn prepare(p: &mut Preparing<'_>, attrs: Attrs<'_>, ins: &[View], outs: &[usize]) -> Result<Box<dyn CallStep>, RunError> {
    let (fixed, [bias, add]) = arguments(ins, [attrs.bias, attrs.add], 2)?;
    let out = p.whole(single(outs)?);
    let sizes = out.layout.sizes.clone();
    let wide = |view: Option<&View>| {
        let expand = |view| {
            let window: Window = p.window(view)?;
            let layout = window.layout.expand(&sizes);
            let layout =
                layout.ok_or_else(|| RunError::bug(format!("{:?} cannot be added to {sizes:?}", window.layout.sizes)))?;
            Ok(Window { layout, ..window })
        };
        view.map(expand).transpose()
    };
    let parts = Parts { a: p.window(&fixed[0])?, b: p.window(&fixed[1])?, bias: wide(bias)?, add: wide(add)?, out };
    check_shapes(&parts)?;
    let dtype = parts.out.layout.dtype;
    let mut products = Vec::new();
    if parts.out.layout.numel() > 0 {
        shape(parts, &mut products);
    }
    let products = products.into_iter().map(|parts| product(p, &attrs, parts)).collect();
    let add_apart = dtype.size() < 4;
    Ok(Box::new(MatmulStep {
        products,
        alpha: attrs.alpha,
        beta: attrs.beta,
        add_apart,
        post: PostStep::prepare(attrs.post, dtype, p.device)?,
    }))
}

fn check_shapes(parts: &Parts) -> Result<(), RunError> {
    let (a, b, out) = (&parts.a.layout, &parts.b.layout, &parts.out.layout);
    let r = out.rank();
    let fits = r >= 2
        && a.rank() == r
        && b.rank() == r
        && a.sizes[..r - 1] == out.sizes[..r - 1]
        && b.sizes[..r - 2] == out.sizes[..r - 2]
        && b.sizes[r - 1] == out.sizes[r - 1]
        && a.sizes[r - 1] == b.sizes[r - 2]
        && a.dtype == out.dtype
        && b.dtype == out.dtype;
    if fits { Ok(()) } else { Err(RunError::bug(format!("a product of {a:?} and {b:?} into {out:?}"))) }
}

/// Brings a product to two dimensions if the batch shares one right-hand side, else to three; where strides do not let the
/// batch be one dimension, into several products.
fn shape(parts: Parts, products: &mut Vec<Parts>) {
    let r = parts.out.layout.rank();
    if r == 2 {
        return products.push(parts);
    }
    if let Some(flat) = as_rows(&parts) {
        return products.push(flat);
    }
    match map(&parts, |layout| layout.merge_front(r - 2)) {
        Some(merged) => products.push(merged),
        None => (0..parts.out.layout.sizes[0]).for_each(|at| shape(at_index(&parts, at), products)),
    }
}

fn as_rows(parts: &Parts) -> Option<Parts> {
    let (r, b) = (parts.out.layout.rank(), &parts.b.layout);
    let shared = (0..r - 2).all(|d| b.strides[d] == 0 || b.sizes[d] == 1);
    if !shared {
        return None;
    }
    let matrix = Layout { dtype: b.dtype, sizes: b.sizes[r - 2..].into(), strides: b.strides[r - 2..].into() };
    let rows = Parts { b: parts.out.clone(), ..parts.clone() };
    let rows = map(&rows, |layout| layout.merge_front(r - 1))?;
    Some(Parts { b: Window { layout: matrix, ..parts.b.clone() }, ..rows })
}

fn map(parts: &Parts, f: impl Fn(&Layout) -> Option<Layout>) -> Option<Parts> {
    let one = |w: &Window| Some(Window { layout: f(&w.layout)?, ..w.clone() });
    let maybe = |w: &Option<Window>| match w {
        Some(w) => one(w).map(Some),
        None => Some(None),
    };
    Some(Parts {
        a: one(&parts.a)?,
        b: one(&parts.b)?,
        out: one(&parts.out)?,
        bias: maybe(&parts.bias)?,
        add: maybe(&parts.add)?,
    })
}

fn at_index(parts: &Parts, at: i64) -> Parts {
    let one = |w: &Window| Window {
        buf: w.buf,
        offset: w.offset + at * w.layout.strides[0],
        layout: Layout { dtype: w.layout.dtype, sizes: w.layout.sizes[1..].into(), strides: w.layout.strides[1..].into() },
    };
    let maybe = |w: &Option<Window>| w.as_ref().map(one);
    Parts { a: one(&parts.a), b: one(&parts.b), out: one(&parts.out), bias: maybe(&parts.bias), add: maybe(&parts.add) }
}

/// Whether the library is quicker with the transposed product: of a matrix and one column of f16 it takes four times as long as of a row and the
/// transposed matrix, for which it has the kernel of `mv`.
fn is_better_turned(device: Device, parts: &Parts) -> bool {
    let (a, b, out) = (&parts.a.layout, &parts.b.layout, &parts.out.layout);
    let is_column = out.rank() == 2 && out.sizes[1] == 1 && a.strides[1] == 1 && b.strides[0] == 1;
    device == Device::Cpu && out.dtype == DType::F16 && is_column && parts.bias.is_none() && parts.add.is_none()
}

/// The transposed factors, the other way round. A single row is as far from the next one as it is long: the library goes by that.
fn turned(parts: Parts) -> Parts {
    let Parts { a, b, out, .. } = parts;
    let transposed = |mut window: Window| {
        let Layout { sizes, strides, .. } = &mut window.layout;
        sizes.swap(0, 1);
        strides.swap(0, 1);
        if sizes[0] == 1 {
            strides[0] = sizes[1] * strides[1];
        }
        window
    };
    Parts { a: transposed(b), b: transposed(a), out: transposed(out), bias: None, add: None }
}

fn product(p: &mut Preparing<'_>, attrs: &Attrs<'_>, parts: Parts) -> Product {
    let parts = if is_better_turned(p.device, &parts) { turned(parts) } else { parts };
    let bias = parts.bias.map(|w| if p.device == Device::Cpu { w } else { as_vector(w) });
    let is_plain = parts.add.is_none() && (bias.is_none() || attrs.beta == 1.0);
    let direct = match (p.device, behind(attrs.post)) {
        (Device::Cuda(_), Some(behind)) if is_plain => {
            let bias = bias.as_ref().map(|bias| &bias.layout);
            let layouts = Layouts { a: &parts.a.layout, b: &parts.b.layout, out: &parts.out.layout, bias, behind };
            DirectProduct::of(layouts, attrs.alpha)
        }
        _ => None,
    };
    Product {
        batched: parts.out.layout.rank() == 3,
        a: p.operand(parts.a),
        b: p.operand(parts.b),
        out: p.operand(parts.out),
        bias: bias.map(|w| p.operand(w)),
        add: parts.add.map(|w| p.operand(w)),
        direct,
    }
}

/// What a GPU's library computes on the way.
fn behind(post: &Post) -> Option<Behind> {
    match post {
        Post::None => Some(Behind::Nothing),
        Post::Relu => Some(Behind::Relu),
        Post::Gelu(true) => Some(Behind::Gelu),
        _ => None,
    }
}

/// One row for all of the product's, as a vector: what a GPU's library adds on the way.
fn as_vector(window: Window) -> Window {
    let Layout { dtype, sizes, strides } = &window.layout;
    if sizes.len() != 2 || (strides[0] != 0 && sizes[0] != 1) {
        return window;
    }
    let layout = Layout { dtype: *dtype, sizes: sizes[1..].into(), strides: strides[1..].into() };
    Window { layout, ..window }
}

impl CallStep for MatmulStep {
    fn run(&self, run: &mut Run<'_>) -> Result<(), RunError> {
        for product in &self.products {
            self.run_one(run, product)?;
        }
        Ok(())
    }

    fn tell(&self, run: &mut Run<'_>, hears: &mut Hears<'_>) -> Result<bool, RunError> {
        let [Product { a, b, out, bias, direct: Some(direct), .. }] = &self.products[..] else { return Ok(false) };
        direct.tell(run, *a, *b, *out, *bias, hears)
    }
}

impl MatmulStep {
    fn run_one(&self, run: &mut Run<'_>, product: &Product) -> Result<(), RunError> {
        if let Some(direct) = &product.direct
            && direct.run(run, product.a, product.b, product.out, product.bias)?
        {
            return Ok(());
        }
        let out = run.operand(product.out)?;
        let bias = product.bias.map(|o| run.operand(o)).transpose()?;
        let add = product.add.map(|o| run.operand(o)).transpose()?;
        match (bias, add) {
            (bias, Some(add)) if self.add_apart => {
                self.multiply(run, product, bias.map(|b| (b, self.beta)))?;
                let sum = sum(run, out, add, 1.0)?;
                // SAFETY: both handles are valid; `out` lives in the frame.
                unsafe { TensorRef::from_handle(out) }.copy_from(sum.as_ref())?;
            }
            (Some(bias), Some(add)) => {
                let sum = sum(run, add, bias, self.beta)?;
                self.multiply(run, product, Some((sum.as_ref().handle(), 1.0)))?;
            }
            (None, Some(add)) => self.multiply(run, product, Some((add, 1.0)))?,
            (bias, None) => self.multiply(run, product, bias.map(|b| (b, self.beta)))?,
        }
        // SAFETY: `out` lives in the frame.
        unsafe { self.post.apply(run.abi, out) }
    }

    /// `out = alpha * a @ b + beta * plus`.
    fn multiply(&self, run: &mut Run<'_>, product: &Product, plus: Option<(Handle, f64)>) -> Result<(), RunError> {
        let (ops, alpha) = (run.ops, self.alpha);
        let (out, a, b) = (run.operand(product.out)?, run.operand(product.a)?, run.operand(product.b)?);
        // With beta 0 the summand is not read.
        let plus = if plus.is_none() && alpha != 1.0 { Some((out, 0.0)) } else { plus };
        // SAFETY: all handles live in the frame (or in the caller), and have two or three dimensions as the functions want.
        let code = unsafe {
            match (plus, product.batched) {
                (None, false) => (ops.mm_out)(out, a, b),
                (None, true) => (ops.bmm_out)(out, a, b),
                (Some((plus, beta)), false) => (ops.addmm_out)(out, plus, a, b, beta, alpha),
                (Some((plus, beta)), true) => (ops.baddbmm_out)(out, plus, a, b, beta, alpha),
            }
        };
        check(code, "a matrix product")
    }
}

fn sum(run: &Run<'_>, a: Handle, b: Handle, factor: f64) -> Result<crate::tensor::Tensor, RunError> {
    // SAFETY: valid handles.
    make("add", |out| unsafe { (run.ops.add)(a, b, factor, out) })
}
