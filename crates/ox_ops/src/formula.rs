//! Formulas: expressions over nodes of one shape and type, written with operators.

use crate::builder::Builder;
use crate::error::OpResult;
use crate::surface::Operand;
use ox_ir::graph::NodeId;
use ox_ir::{PointOp, Scalar};
use std::ops::{Add, Div, Mul, Neg, Sub};

#[derive(Clone, Debug)]
pub enum Expr {
    Node(NodeId),
    Number(f64),
    Point(PointOp, Vec<Expr>),
}

impl Expr {
    pub fn unary(self, op: PointOp) -> Expr {
        Expr::Point(op, vec![self])
    }

    pub fn binary(self, op: PointOp, other: impl Into<Expr>) -> Expr {
        Expr::Point(op, vec![self, other.into()])
    }

    pub fn square(self) -> Expr {
        self.clone() * self
    }

    /// `x` where this holds, else `y`.
    pub fn pick(self, x: impl Into<Expr>, y: impl Into<Expr>) -> Expr {
        Expr::Point(PointOp::Where, vec![self, x.into(), y.into()])
    }

    pub fn eq(self, other: impl Into<Expr>) -> Expr {
        self.binary(PointOp::Eq, other)
    }

    pub fn ge(self, other: impl Into<Expr>) -> Expr {
        self.binary(PointOp::Ge, other)
    }

    pub fn gt(self, other: impl Into<Expr>) -> Expr {
        self.binary(PointOp::Gt, other)
    }

    pub fn lt(self, other: impl Into<Expr>) -> Expr {
        self.binary(PointOp::Lt, other)
    }

    pub fn le(self, other: impl Into<Expr>) -> Expr {
        self.binary(PointOp::Le, other)
    }

    /// Of bools.
    pub fn and(self, other: Expr) -> Expr {
        self.binary(PointOp::And, other)
    }

    pub fn or(self, other: Expr) -> Expr {
        self.binary(PointOp::Or, other)
    }

    /// Numbers take the type of the nodes that they meet, and shapes are broadcast.
    pub fn build(self, b: &mut Builder) -> OpResult<NodeId> {
        match self.operand(b)? {
            Operand::Tensor(node) => Ok(node),
            number => Ok(b.materialise(&number, b.default_dtype)),
        }
    }

    fn operand(self, b: &mut Builder) -> OpResult<Operand> {
        match self {
            Expr::Node(node) => Ok(Operand::Tensor(node)),
            Expr::Number(x) => Ok(Operand::Scalar(Scalar::Float(x))),
            Expr::Point(op, args) => {
                let args = args.into_iter().map(|arg| arg.operand(b)).collect::<OpResult<Vec<_>>>()?;
                Ok(Operand::Tensor(point(b, op, &args)?))
            }
        }
    }
}

fn point(b: &mut Builder, op: PointOp, args: &[Operand]) -> OpResult<NodeId> {
    match (op, args) {
        (PointOp::Where, [Operand::Tensor(condition), x, y]) => b.choose(*condition, x.clone(), y.clone()),
        _ => b.pointwise(op, args),
    }
}

impl From<NodeId> for Expr {
    fn from(node: NodeId) -> Expr {
        Expr::Node(node)
    }
}

impl From<f64> for Expr {
    fn from(number: f64) -> Expr {
        Expr::Number(number)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl<T: Into<Expr>> $trait<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                self.binary(PointOp::$op, other)
            }
        }

        impl $trait<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                Expr::Number(self).binary(PointOp::$op, other)
            }
        }
    )*};
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        self.unary(PointOp::Neg)
    }
}
