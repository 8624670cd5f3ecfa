//! Calls of torch's own operators through its dispatcher: what a row gives back where torch's kernel is the best there is, or has
//! rules (checks of values, ways to round) that only it can keep.

use crate::builder::Builder;
use crate::error::{OpError, OpResult};
use crate::value::{Value, ValueOf};
use ox_ir::graph::{Arg, Callee, Library, LibraryOut, NodeId, Shape, contiguous_strides};
use ox_ir::{DType, Sym, TensorType};

/// A call of one of torch's operators. Arguments in the order of its schema, keyword-only ones by name.
pub struct Operator {
    pub name: &'static str,
    pub overload: &'static str,
    pub args: Vec<Arg>,
    pub kwargs: Vec<(&'static str, Arg)>,
    /// Draws random numbers.
    pub effect: bool,
}

impl Operator {
    /// Of one tensor and these.
    pub fn new(name: &'static str, overload: &'static str, rest: impl IntoIterator<Item = Arg>) -> Operator {
        let args = [Arg::Tensor(0)].into_iter().chain(rest).collect();
        Operator { name, overload, args, kwargs: Vec::new(), effect: false }
    }

    pub fn call(self, b: &mut Builder, tensors: &[NodeId], outs: &[(DType, Shape)]) -> OpResult<Vec<NodeId>> {
        let device = b.ty(tensors[0]).device;
        let out = |(dtype, shape): &(DType, Shape)| LibraryOut {
            ty: TensorType { dtype: *dtype, device, shape: shape.clone() },
            strides: contiguous_strides(shape),
        };
        let library = Library {
            callee: Callee::Dispatcher { name: self.name.into(), overload: self.overload.into() },
            args: self.args,
            kwargs: self.kwargs.into_iter().map(|(name, arg)| (name.to_string(), arg)).collect(),
            outs: outs.iter().map(out).collect(),
            mutates: Vec::new(),
            effect: self.effect,
        };
        b.library(library, tensors)
    }

    /// (values, indices), of one shape.
    pub fn values_and_indices(self, b: &mut Builder, x: NodeId, shape: Shape) -> OpResult<Value> {
        let outs = self.call(b, &[x], &[(b.dtype(x), shape.clone()), (DType::I64, shape)])?;
        Ok(ValueOf::Tuple(outs.into_iter().map(Value::from).collect()))
    }
}

pub fn int(value: i64) -> Arg {
    Arg::Int(Sym::from(value))
}

/// The only result.
pub fn one(outs: Vec<NodeId>) -> OpResult<Value> {
    outs.first().map(|node| Value::from(*node)).ok_or_else(|| OpError::bug("an operator without results"))
}

/// A list of sizes.
pub fn ints(sizes: impl IntoIterator<Item = Sym>) -> Arg {
    Arg::List(sizes.into_iter().map(Arg::Int).collect())
}
