//! Scalar operations in their forgiving form: operands are promoted, converted and broadcast as torch does it.

use super::Builder;
use crate::error::{OpError, OpResult};
use crate::promote::{Category, result_type};
use crate::surface::Operand;
use ox_ir::graph::NodeId;
use ox_ir::point::PointClass;
use ox_ir::{DType, PointOp, Scalar};

impl Builder {
    fn category(&self, operand: &Operand) -> (Category, DType) {
        match operand {
            Operand::Tensor(node) if self.rank(*node) == 0 => (Category::ZeroDim, self.dtype(*node)),
            Operand::Tensor(node) => (Category::Tensor, self.dtype(*node)),
            Operand::Scalar(Scalar::Float(_)) => (Category::Number, self.default_dtype),
            Operand::Scalar(Scalar::Bool(_)) => (Category::Number, DType::Bool),
            Operand::Scalar(Scalar::Int(_)) | Operand::Sym(_) => (Category::Number, DType::I64),
            Operand::Number(node) if self.dtype(*node).is_float() => (Category::Number, self.default_dtype),
            Operand::Number(_) => (Category::Number, DType::I64),
        }
    }

    /// torch.result_type of all operands.
    pub fn result_type(&self, operands: &[Operand]) -> DType {
        let categories: Vec<_> = operands.iter().map(|o| self.category(o)).collect();
        result_type(&categories, self.default_dtype)
    }

    /// The type in which a float function of a value of `dtype` is computed and returned.
    pub fn float_type(&self, dtype: DType) -> DType {
        if dtype.is_float() || dtype.is_complex() { dtype } else { self.default_dtype }
    }

    /// The operand as a tensor of type `dtype`; numbers become 0-dimensional constants.
    pub fn materialise(&mut self, operand: &Operand, dtype: DType) -> NodeId {
        match operand {
            Operand::Tensor(node) | Operand::Number(node) => self.cast(*node, dtype),
            Operand::Scalar(value) => self.full(*value, dtype, &[]),
            Operand::Sym(sym) => {
                let value = self.sym_value(sym.clone(), DType::I64);
                self.cast(value, dtype)
            }
        }
    }

    /// All operands as tensors of one type and shape.
    pub fn together(&mut self, operands: &[Operand], dtype: DType) -> OpResult<Vec<NodeId>> {
        let nodes: Vec<NodeId> = operands.iter().map(|o| self.materialise(o, dtype)).collect();
        self.broadcast(&nodes)
    }

    /// `op` on operands that are promoted to their common type (a float type for float functions) and broadcast.
    pub fn pointwise(&mut self, op: PointOp, operands: &[Operand]) -> OpResult<NodeId> {
        let common = self.result_type(operands);
        let dtype = match op.class() {
            PointClass::Float | PointClass::FloatTest => self.float_type(common),
            PointClass::Logic => DType::Bool,
            _ => common,
        };
        self.pointwise_in(op, dtype, operands)
    }

    /// As `pointwise`, in a given type.
    pub fn pointwise_in(&mut self, op: PointOp, dtype: DType, operands: &[Operand]) -> OpResult<NodeId> {
        if !op.accepts(dtype) {
            return Err(OpError::unsupported(format!("{} on {dtype}", op.name())));
        }
        let args = self.together(operands, dtype)?;
        self.point(op, &args)
    }

    pub fn unary(&mut self, op: PointOp, x: impl Into<Operand>) -> OpResult<NodeId> {
        self.pointwise(op, &[x.into()])
    }

    pub fn binary(&mut self, op: PointOp, x: impl Into<Operand>, y: impl Into<Operand>) -> OpResult<NodeId> {
        self.pointwise(op, &[x.into(), y.into()])
    }

    /// `torch.where`: the values are promoted, all three broadcast.
    pub fn choose(&mut self, condition: NodeId, x: impl Into<Operand>, y: impl Into<Operand>) -> OpResult<NodeId> {
        let values = [x.into(), y.into()];
        let dtype = self.result_type(&values);
        let condition = self.cast(condition, DType::Bool);
        let [x, y] = values.map(|v| self.materialise(&v, dtype));
        let args = self.broadcast(&[condition, x, y])?;
        self.point(PointOp::Where, &args)
    }
}
