//! `Bound`: the arguments of one call, by the names in its signature, with typed access.

use super::signature::{self, Slots};
use crate::decide::fixed;
use crate::error::{OpError, OpResult};
use crate::value::{Value, ValueOf};
use ox_ir::graph::{NodeId, Shape};
use ox_ir::{DType, Scalar, Sym};

/// A tensor, or a Python number that has not become one yet (it takes part in promotion by its kind alone).
#[derive(Clone, PartialEq, Debug)]
pub enum Operand {
    Tensor(NodeId),
    Scalar(Scalar),
    /// An integer that is only known at run time.
    Sym(Sym),
    /// A number that is only known at run time, in a 0-dimensional tensor.
    Number(NodeId),
}

impl Operand {
    pub fn tensor(&self) -> Option<NodeId> {
        match self {
            Operand::Tensor(node) => Some(*node),
            _ => None,
        }
    }
}

impl From<NodeId> for Operand {
    fn from(node: NodeId) -> Operand {
        Operand::Tensor(node)
    }
}

impl From<f64> for Operand {
    fn from(value: f64) -> Operand {
        Operand::Scalar(Scalar::Float(value))
    }
}

impl From<i64> for Operand {
    fn from(value: i64) -> Operand {
        Operand::Scalar(Scalar::Int(value))
    }
}

pub struct Bound {
    slots: Slots<NodeId>,
    /// Arguments that the operation writes although it is not an in-place one (running statistics), with their new values.
    pub(crate) written: Vec<(&'static str, NodeId)>,
    /// How eager's first argument lies, where that was asked (`by_order`) and is known.
    pub(crate) strides: Option<Shape>,
}

impl Bound {
    pub fn new(signature: &'static str, args: &[Value], kwargs: &[(String, Value)]) -> OpResult<Bound> {
        Ok(Bound::from_slots(signature::bind(signature, args, kwargs)?))
    }

    pub(crate) fn from_slots(slots: Slots<NodeId>) -> Bound {
        Bound { slots, written: Vec::new(), strides: None }
    }

    /// The argument as it was given (or its default). Asking for a name that is not in the signature is a mistake of the row.
    pub fn value(&self, name: &str) -> &Value {
        let slot = self.slots.iter().find(|(n, _)| *n == name);
        &slot.unwrap_or_else(|| panic!("a row asks for `{name}`, which its signature does not have")).1
    }

    pub fn has(&self, name: &str) -> bool {
        !self.value(name).is_none()
    }

    /// Whether the signature has this parameter at all.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.slots.iter().any(|(n, _)| *n == name)
    }

    /// The arguments, in the order of the signature.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Value> {
        self.slots.iter().map(|(_, value)| value)
    }

    /// All tensors among the arguments, in the order of the signature.
    pub(crate) fn all_tensors(&self) -> impl Iterator<Item = NodeId> {
        self.slots.iter().flat_map(|(_, value)| value.tensors())
    }

    /// Says that the call also leaves `value` in the tensor argument `name`.
    pub fn write(&mut self, name: &'static str, value: NodeId) {
        self.written.push((name, value));
    }

    fn expected<T>(&self, name: &str, what: &str) -> OpResult<T> {
        Err(OpError::unsupported(format!("argument `{name}`: expected {what}, got {}", self.value(name).kind())))
    }

    pub fn tensor(&self, name: &str) -> OpResult<NodeId> {
        self.value(name).as_tensor().map_or_else(|| self.expected(name, "a tensor"), Ok)
    }

    pub fn opt_tensor(&self, name: &str) -> OpResult<Option<NodeId>> {
        if self.has(name) { self.tensor(name).map(Some) } else { Ok(None) }
    }

    /// A list of tensors.
    pub fn tensors(&self, name: &str) -> OpResult<Vec<NodeId>> {
        let items = self.value(name).items();
        let tensors: Option<Vec<NodeId>> = items.and_then(|items| items.iter().map(|v| v.as_tensor()).collect());
        tensors.map_or_else(|| self.expected(name, "a list of tensors"), Ok)
    }

    pub fn operand(&self, name: &str) -> OpResult<Operand> {
        match self.value(name) {
            ValueOf::Tensor(node) => Ok(Operand::Tensor(*node)),
            ValueOf::Number(node) => Ok(Operand::Number(*node)),
            ValueOf::Int(sym) if sym.as_const().is_none() => Ok(Operand::Sym(sym.clone())),
            other => other.as_scalar().map_or_else(|| self.expected(name, "a tensor or a number"), |s| Ok(Operand::Scalar(s))),
        }
    }

    pub fn opt_operand(&self, name: &str) -> OpResult<Option<Operand>> {
        if self.has(name) { self.operand(name).map(Some) } else { Ok(None) }
    }

    /// A number. A tensor in the place of one is read when the graph runs.
    pub fn number(&self, name: &str) -> OpResult<Operand> {
        Ok(match self.operand(name)? {
            Operand::Tensor(node) => Operand::Number(node),
            other => other,
        })
    }

    /// A number that is known now.
    pub fn scalar(&self, name: &str) -> OpResult<Scalar> {
        self.value(name).as_scalar().map_or_else(|| self.expected(name, "a number"), Ok)
    }

    pub fn int(&self, name: &str) -> OpResult<Sym> {
        self.value(name).as_int().map_or_else(|| self.expected(name, "an int"), Ok)
    }

    pub fn opt_int(&self, name: &str) -> OpResult<Option<Sym>> {
        if self.has(name) { self.int(name).map(Some) } else { Ok(None) }
    }

    /// An integer that must be known now.
    pub fn const_int(&self, name: &str) -> OpResult<i64> {
        known_now(&self.int(name)?).map_or_else(|| self.expected(name, "an int that is known now"), Ok)
    }

    /// A list of ints; one int counts as a list of one.
    pub fn ints(&self, name: &str) -> OpResult<Vec<Sym>> {
        if let Some(one) = self.value(name).as_int() {
            return Ok(vec![one]);
        }
        let items = self.value(name).items();
        let ints: Option<Vec<Sym>> = items.and_then(|items| items.iter().map(|v| v.as_int()).collect());
        ints.map_or_else(|| self.expected(name, "ints"), Ok)
    }

    pub fn const_ints(&self, name: &str) -> OpResult<Vec<i64>> {
        let known: Option<Vec<i64>> = self.ints(name)?.iter().map(known_now).collect();
        known.map_or_else(|| self.expected(name, "ints that are known now"), Ok)
    }

    /// A float; ints and bools count.
    pub fn float(&self, name: &str) -> OpResult<f64> {
        Ok(self.scalar(name)?.as_f64())
    }

    pub fn opt_float(&self, name: &str) -> OpResult<Option<f64>> {
        if self.has(name) { self.float(name).map(Some) } else { Ok(None) }
    }

    pub fn boolean(&self, name: &str) -> OpResult<bool> {
        match self.value(name) {
            ValueOf::Bool(x) => Ok(*x),
            ValueOf::Int(sym) if sym.as_const().is_some() => Ok(!sym.is_zero()),
            _ => self.expected(name, "a bool"),
        }
    }

    pub fn opt_dtype(&self, name: &str) -> OpResult<Option<DType>> {
        match self.value(name) {
            ValueOf::DType(x) => Ok(Some(*x)),
            ValueOf::None => Ok(None),
            _ => self.expected(name, "a dtype"),
        }
    }

    pub fn str(&self, name: &str) -> OpResult<&str> {
        match self.value(name) {
            ValueOf::Str(text) => Ok(text),
            _ => self.expected(name, "a string"),
        }
    }

    /// A dimension of a tensor of rank `rank`, counted from the end if negative.
    pub fn dim(&self, name: &str, rank: usize) -> OpResult<usize> {
        wrap_dim(self.const_int(name)?, rank)
    }

    /// Dimensions without repetition. None is all of them; so is an empty list, as torch's reductions take it.
    pub fn dims(&self, name: &str, rank: usize) -> OpResult<Vec<usize>> {
        if !self.has(name) {
            return Ok((0..rank).collect());
        }
        let given = self.const_ints(name)?;
        if given.is_empty() {
            return Ok((0..rank).collect());
        }
        wrap_dims(&given, rank)
    }
}

/// A number that varies and is no size (an argument that says which dimension) is relied on where only its value says what is to be done.
fn known_now(int: &Sym) -> Option<i64> {
    let is_number = || int.vars().iter().all(|var| var.lo() < 0);
    int.as_const().or_else(|| if is_number() { fixed(int) } else { None })
}

/// A dimension number as torch takes it: -rank..rank, and a 0-dimensional tensor acts as if it had one dimension.
pub fn wrap_dim(dim: i64, rank: usize) -> OpResult<usize> {
    let n = rank.max(1) as i64;
    if dim < -n || dim >= n {
        let message = format!("Dimension out of range (expected to be in range of [{}, {}], but got {dim})", -n, n - 1);
        return Err(OpError::index(message));
    }
    Ok(if dim < 0 { dim + n } else { dim } as usize)
}

pub fn wrap_dims(dims: &[i64], rank: usize) -> OpResult<Vec<usize>> {
    let mut out: Vec<usize> = Vec::with_capacity(dims.len());
    for dim in dims {
        let dim = wrap_dim(*dim, rank)?;
        if out.contains(&dim) {
            return Err(OpError::runtime(format!("dim {dim} appears multiple times in the list of dims")));
        }
        out.push(dim);
    }
    Ok(out)
}
