//! Random numbers. A graph draws one seed from torch's generator, by a call that keeps its place among other effects. It is the key of the first
//! random tensor; each further one has a key that follows from the last. An element is a function of the key and of its place. So random
//! numbers are computed in any order, fused with what reads them, and computed again where gradients need them; and as keys are values, not
//! constants, equal layers are equal kernels.

use super::Builder;
use crate::error::{OpError, OpResult};
use crate::surface::{Bound, Operand};
use ox_ir::graph::{Arg, Callee, Library, LibraryOut, NodeId, Shape};
use ox_ir::{DType, Device, PointOp, Scalar, Sym, TensorType};

/// What a graph has drawn so far.
#[derive(Default)]
pub(super) struct Draws {
    key: Option<NodeId>,
}

/// The counter at which a key gives the next one. Elements have others.
const NEXT: Scalar = Scalar::Int(-1);

/// 128 random bits for each element of a shape.
pub struct Draw {
    key_and_counter: [NodeId; 3],
}

impl Builder {
    /// Bits for one random tensor. Unsupported where eager's own numbers are asked for, by the user's option or by a generator.
    pub fn draw(&mut self, generator: Option<&Bound>, shape: &[Sym]) -> OpResult<Draw> {
        if self.fallback_random {
            return Err(OpError::unsupported("random numbers as eager draws them"));
        }
        if generator.is_some_and(|args| args.has("generator")) {
            return Err(OpError::unsupported("random numbers of a generator of one's own"));
        }
        let key = self.next_key()?;
        let key = self.broadcast_to(key, shape)?;
        let count: Sym = shape.iter().product();
        let places = self.iota(&[count], 0)?;
        let low = self.reshape(places, shape)?;
        let high = self.full(Scalar::Int(0), DType::I64, shape);
        Ok(Draw { key_and_counter: [key, low, high] })
    }

    fn next_key(&mut self) -> OpResult<NodeId> {
        let key = match self.draws.key {
            None => self.seed()?,
            Some(last) => {
                let next = self.full(NEXT, DType::I64, &[]);
                self.point(PointOp::Random, &[last, next, next])?
            }
        };
        self.draws.key = Some(key);
        Ok(key)
    }

    /// See `is_seed`.
    fn seed(&mut self) -> OpResult<NodeId> {
        let ty = TensorType { dtype: DType::I64, device: self.device, shape: Shape::new() };
        let device = (self.device != Device::Cpu).then(|| ("device".to_string(), Arg::Device(self.device)));
        let library = Library {
            callee: Callee::Dispatcher { name: "aten::randint".into(), overload: String::new() },
            args: vec![Arg::Int(Sym::from(i64::MAX)), Arg::List(Vec::new())],
            kwargs: [("dtype".to_string(), Arg::DType(DType::I64))].into_iter().chain(device).collect(),
            outs: vec![LibraryOut { ty, strides: Shape::new() }],
            mutates: Vec::new(),
            effect: true,
        };
        Ok(self.library(library, &[])?[0])
    }
}

/// Whether a call draws a seed.
pub fn is_seed(call: &Library) -> bool {
    let is_generator = |(name, _): &(String, Arg)| name == "generator";
    call.effect && call.callee.name() == "aten::randint" && call.args.len() == 2 && !call.kwargs.iter().any(is_generator)
}

impl Draw {
    /// The lowest `count` bits of the first half, as an i64 that is not negative.
    fn low(&self, b: &mut Builder, count: u32) -> OpResult<NodeId> {
        let bits = b.point(PointOp::Random, &self.key_and_counter)?;
        lowest(b, bits, count)
    }

    /// True with this probability.
    pub fn chance(&self, b: &mut Builder, probability: f64) -> OpResult<NodeId> {
        let bits = self.low(b, 53)?;
        b.binary(PointOp::Lt, bits, (probability * (1u64 << 53) as f64).round() as i64)
    }

    /// From 0 to below `range`, an i64.
    pub fn below(&self, b: &mut Builder, range: i64) -> OpResult<NodeId> {
        if range < 1 << 31 {
            let bits = self.low(b, 32)?;
            let scaled = b.binary(PointOp::Mul, bits, range)?;
            return b.binary(PointOp::Shr, scaled, 32i64);
        }
        let bits = self.low(b, 63)?;
        b.binary(PointOp::Fmod, bits, range)
    }

    /// Uniform over [0, 1) in steps of the type's precision, as eager's are. Half types are given in f32, unrounded: they are exact.
    pub fn uniform(&self, b: &mut Builder, dtype: DType) -> OpResult<NodeId> {
        let digits = match dtype {
            DType::F64 => 53,
            DType::F16 => 11,
            DType::BF16 => 8,
            _ => 24,
        };
        let bits = self.low(b, digits)?;
        fraction(b, bits, digits, 0.0, dtype.compute())
    }

    /// Uniform over (0, 1), both ends left out, in the type that `dtype` is computed in.
    pub fn inside(&self, b: &mut Builder, dtype: DType) -> OpResult<NodeId> {
        let digits = if dtype == DType::F64 { 52 } else { 23 };
        let bits = self.low(b, digits)?;
        fraction(b, bits, digits, 0.5, dtype.compute())
    }

    /// The normal distribution by the transformation of Box and Muller, in the type that `dtype` is computed in.
    pub fn normal(&self, b: &mut Builder, dtype: DType) -> OpResult<NodeId> {
        let wide = dtype.compute();
        let (radius, angle) = match wide {
            DType::F64 => {
                let (first, second) = (self.low(b, 53)?, b.point(PointOp::RandomHigh, &self.key_and_counter)?);
                let second = lowest(b, second, 53)?;
                (fraction(b, first, 53, 1.0, wide)?, fraction(b, second, 53, 0.0, wide)?)
            }
            _ => {
                let bits = b.point(PointOp::Random, &self.key_and_counter)?;
                let (first, upper) = (lowest(b, bits, 31)?, b.binary(PointOp::Shr, bits, 32i64)?);
                let second = lowest(b, upper, 24)?;
                (fraction(b, first, 31, 1.0, wide)?, fraction(b, second, 24, 0.0, wide)?)
            }
        };
        let log = b.unary(PointOp::Log, radius)?;
        let square = b.binary(PointOp::Mul, log, -2.0)?;
        let radius = b.unary(PointOp::Sqrt, square)?;
        let angle = b.binary(PointOp::Mul, angle, std::f64::consts::TAU)?;
        let cosine = b.unary(PointOp::Cos, angle)?;
        b.binary(PointOp::Mul, radius, cosine)
    }
}

fn lowest(b: &mut Builder, bits: NodeId, count: u32) -> OpResult<NodeId> {
    b.binary(PointOp::And, bits, i64::MAX >> (63 - count))
}

/// `(bits + offset) / 2^digits` in a float type.
fn fraction(b: &mut Builder, bits: NodeId, digits: u32, offset: f64, dtype: DType) -> OpResult<NodeId> {
    // 32-bit integers are converted by vector instructions everywhere.
    let bits = if digits < 32 { b.cast(bits, DType::I32) } else { bits };
    let whole = b.cast(bits, dtype);
    let moved = if offset == 0.0 { whole } else { b.binary(PointOp::Add, whole, offset)? };
    b.pointwise_in(PointOp::Mul, dtype, &[moved.into(), Operand::from(0.5f64.powi(digits as i32))])
}
