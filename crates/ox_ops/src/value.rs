//! What front ends pass to operations and get back: Python's values, with tensors of kind `T`.

use crate::error::{OpError, OpResult};
use ox_ir::graph::NodeId;
use ox_ir::{DType, Device, Scalar, Sym};

#[derive(Clone, PartialEq, Debug)]
pub enum ValueOf<T> {
    Tensor(T),
    /// A Python number that is only known when the graph runs: a 0-dimensional tensor (f64 or i64) that does not promote.
    Number(T),
    Int(Sym),
    Float(f64),
    Bool(bool),
    None,
    Str(String),
    DType(DType),
    Device(Device),
    /// torch's number of a memory format.
    MemoryFormat(i32),
    Layout(i32),
    List(Vec<ValueOf<T>>),
    Tuple(Vec<ValueOf<T>>),
    /// start, stop, step.
    Slice(Box<[ValueOf<T>; 3]>),
    Ellipsis,
    /// A Python object in the front end's side table.
    Object(u32),
}

/// A value inside the table: tensors are nodes.
pub type Value = ValueOf<NodeId>;

impl<T> ValueOf<T> {
    pub fn int(value: i64) -> ValueOf<T> {
        ValueOf::Int(Sym::from(value))
    }

    pub fn is_none(&self) -> bool {
        matches!(self, ValueOf::None)
    }

    /// The items of a list or tuple.
    pub fn items(&self) -> Option<&[ValueOf<T>]> {
        match self {
            ValueOf::List(items) | ValueOf::Tuple(items) => Some(items),
            _ => None,
        }
    }

    /// A number that is known now.
    pub fn as_scalar(&self) -> Option<Scalar> {
        match self {
            ValueOf::Int(sym) => sym.as_const().map(Scalar::Int),
            ValueOf::Float(x) => Some(Scalar::Float(*x)),
            ValueOf::Bool(x) => Some(Scalar::Bool(*x)),
            _ => None,
        }
    }

    /// An integer; bools count, as in Python.
    pub fn as_int(&self) -> Option<Sym> {
        match self {
            ValueOf::Int(sym) => Some(sym.clone()),
            ValueOf::Bool(x) => Some(Sym::from(*x as i64)),
            _ => None,
        }
    }

    /// The same value with every tensor replaced.
    pub fn map<U>(&self, f: &mut dyn FnMut(&T) -> OpResult<U>) -> OpResult<ValueOf<U>> {
        Ok(match self {
            ValueOf::Tensor(t) => ValueOf::Tensor(f(t)?),
            ValueOf::Number(t) => ValueOf::Number(f(t)?),
            ValueOf::Int(x) => ValueOf::Int(x.clone()),
            ValueOf::Float(x) => ValueOf::Float(*x),
            ValueOf::Bool(x) => ValueOf::Bool(*x),
            ValueOf::None => ValueOf::None,
            ValueOf::Str(x) => ValueOf::Str(x.clone()),
            ValueOf::DType(x) => ValueOf::DType(*x),
            ValueOf::Device(x) => ValueOf::Device(*x),
            ValueOf::MemoryFormat(x) => ValueOf::MemoryFormat(*x),
            ValueOf::Layout(x) => ValueOf::Layout(*x),
            ValueOf::List(items) => ValueOf::List(items.iter().map(|v| v.map(f)).collect::<OpResult<_>>()?),
            ValueOf::Tuple(items) => ValueOf::Tuple(items.iter().map(|v| v.map(f)).collect::<OpResult<_>>()?),
            ValueOf::Slice(s) => ValueOf::Slice(Box::new([s[0].map(f)?, s[1].map(f)?, s[2].map(f)?])),
            ValueOf::Ellipsis => ValueOf::Ellipsis,
            ValueOf::Object(x) => ValueOf::Object(*x),
        })
    }

    pub fn kind(&self) -> &'static str {
        match self {
            ValueOf::Tensor(_) => "Tensor",
            ValueOf::Number(_) => "number",
            ValueOf::Int(_) => "int",
            ValueOf::Float(_) => "float",
            ValueOf::Bool(_) => "bool",
            ValueOf::None => "None",
            ValueOf::Str(_) => "str",
            ValueOf::DType(_) => "dtype",
            ValueOf::Device(_) => "device",
            ValueOf::MemoryFormat(_) => "memory_format",
            ValueOf::Layout(_) => "layout",
            ValueOf::List(_) => "list",
            ValueOf::Tuple(_) => "tuple",
            ValueOf::Slice(_) => "slice",
            ValueOf::Ellipsis => "ellipsis",
            ValueOf::Object(_) => "object",
        }
    }
}

impl<T: Copy> ValueOf<T> {
    pub fn as_tensor(&self) -> Option<T> {
        match self {
            ValueOf::Tensor(t) => Some(*t),
            _ => None,
        }
    }

    /// All tensors inside, in order.
    pub fn tensors(&self) -> Vec<T> {
        let mut out = Vec::new();
        let gathered: Result<ValueOf<()>, OpError> = self.map(&mut |t| {
            out.push(*t);
            Ok(())
        });
        debug_assert!(gathered.is_ok());
        out
    }
}

impl<T> From<i64> for ValueOf<T> {
    fn from(value: i64) -> ValueOf<T> {
        ValueOf::int(value)
    }
}

impl From<NodeId> for Value {
    fn from(node: NodeId) -> Value {
        ValueOf::Tensor(node)
    }
}
