//! Matrix products, and what may follow on the result of a product or convolution.

use super::Result;
use crate::error::InterpretError;
use crate::tensor::TensorData;
use ox_ir::graph::Post;
use ox_ir::{DType, Scalar};

/// The attributes of `Op::Matmul`.
pub(crate) struct Matmul<'a> {
    pub bias: bool,
    pub add: bool,
    pub alpha: Scalar,
    pub beta: Scalar,
    pub post: &'a Post,
}

/// `post(alpha * a @ b + beta * bias + add)`, rounded once.
pub(crate) fn matmul(attrs: &Matmul<'_>, args: &[&TensorData], dtype: DType) -> Result<TensorData> {
    let expected = 2 + usize::from(attrs.bias) + usize::from(attrs.add);
    if args.len() != expected || args[0].shape.len() < 2 || args[0].shape.len() != args[1].shape.len() {
        return Err(InterpretError::invalid("a matrix product of wrong arguments"));
    }
    let (a, b) = (args[0], args[1]);
    let rank = a.shape.len();
    let k = a.shape[rank - 1];
    if b.shape[rank - 2] != k || a.shape[..rank - 2] != b.shape[..rank - 2] {
        return Err(InterpretError::invalid(format!("the matrices {:?} and {:?} do not fit", a.shape, b.shape)));
    }
    let mut shape = a.shape.clone();
    shape[rank - 1] = b.shape[rank - 1];
    let bias = attrs.bias.then(|| args[2]);
    let add = attrs.add.then(|| args[args.len() - 1]);
    Ok(TensorData::from_fn(dtype, &shape, |index| {
        let product = |l: usize| {
            let (mut ai, mut bi) = (index.to_vec(), index.to_vec());
            ai[rank - 1] = l;
            bi[rank - 2] = l;
            (a.get(&ai), b.get(&bi))
        };
        if !dtype.is_float() {
            return int_element(
                attrs,
                (0..k).map(product),
                bias.map(|t| t.get_broadcast(index)),
                add.map(|t| t.get_broadcast(index)),
            );
        }
        let sum: f64 = (0..k).map(product).map(|(x, y)| x.as_f64() * y.as_f64()).sum();
        let bias = bias.map_or(0.0, |t| attrs.beta.as_f64() * t.get_broadcast(index).as_f64());
        let add = add.map_or(0.0, |t| t.get_broadcast(index).as_f64());
        Scalar::Float(post(attrs.post, attrs.alpha.as_f64() * sum + bias + add))
    }))
}

/// Integers are exact and wrap; they have no `post` but relu.
fn int_element(
    attrs: &Matmul<'_>,
    products: impl Iterator<Item = (Scalar, Scalar)>,
    bias: Option<Scalar>,
    add: Option<Scalar>,
) -> Scalar {
    let sum = products.fold(0i64, |acc, (x, y)| acc.wrapping_add(x.as_i64().wrapping_mul(y.as_i64())));
    let bias = bias.map_or(0, |x| attrs.beta.as_i64().wrapping_mul(x.as_i64()));
    let result = attrs.alpha.as_i64().wrapping_mul(sum).wrapping_add(bias).wrapping_add(add.map_or(0, |x| x.as_i64()));
    Scalar::Int(if *attrs.post == Post::Relu { result.max(0) } else { result })
}

pub(crate) fn post(post: &Post, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    // Clamping keeps NaN.
    let clamp = |x: f64, lo: f64, hi: f64| {
        if x < lo {
            lo
        } else if x > hi {
            hi
        } else {
            x
        }
    };
    match post {
        Post::None => x,
        Post::Relu => clamp(x, 0.0, f64::INFINITY),
        Post::Gelu(false) => 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Post::Gelu(true) => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Post::Silu => x * sigmoid(x),
        Post::Sigmoid => sigmoid(x),
        Post::Tanh => x.tanh(),
        Post::Hardswish => x * clamp(x + 3.0, 0.0, 6.0) / 6.0,
        Post::Hardtanh(lo, hi) => clamp(x, lo.as_f64(), hi.as_f64()),
        Post::LeakyRelu(slope) => {
            if x > 0.0 {
                x
            } else {
                x * slope.as_f64()
            }
        }
    }
}
