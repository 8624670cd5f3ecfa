//! Calls of operators by name, with values that already have the schema's types.

use super::stable_ivalue::{Value, take_tensor};
use crate::abi::{Abi, Handle, StableIValue, abi};
use crate::error::RunError;
use crate::tensor::{Tensor, TensorRef};
use smallvec::{SmallVec, smallvec};
use std::ffi::CStr;

pub type Words = SmallVec<[StableIValue; 12]>;

/// The results are the first `returns` words, each to be taken over by its type.
///
/// # Safety
/// `values` must be all arguments of the operator, with the types of its schema, which returns `returns` values.
pub unsafe fn call(
    abi: &Abi,
    name: &CStr,
    overload: &CStr,
    values: &[Value],
    tensors: &[Handle],
    returns: usize,
) -> Result<Words, RunError> {
    let mut stack: Words = smallvec![0; values.len().max(returns)];
    for (word, value) in stack.iter_mut().zip(values) {
        *word = value.encode(abi, tensors)?;
    }
    // SAFETY: the caller's promise.
    let code = unsafe { abi.call_dispatcher(name.as_ptr(), overload.as_ptr(), &mut stack) };
    if code != 0 {
        return Err(RunError::torch(format!("torch refused: {}", name.to_string_lossy())));
    }
    stack.truncate(returns);
    Ok(stack)
}

/// Calls an operator that returns one tensor.
///
/// # Safety
/// As for `call`.
pub unsafe fn call_for_tensor(
    abi: &Abi,
    name: &CStr,
    overload: &CStr,
    values: &[Value],
    tensors: &[Handle],
) -> Result<Tensor, RunError> {
    // SAFETY: the caller's promise.
    unsafe { Ok(take_tensor(call(abi, name, overload, values, tensors, 1)?[0])) }
}

/// `Tensor.as_strided`: a view that autograd knows of.
pub fn as_strided(base: TensorRef<'_>, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Tensor, RunError> {
    let values = [Value::Tensor(0), Value::ints(sizes), Value::ints(strides), Value::some(Value::Int(offset))];
    // SAFETY: as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)
    unsafe { call_for_tensor(abi()?, c"aten::as_strided", c"", &values, &[base.handle()]) }
}

/// Copies each of the tensors to the one at the same place, in one call.
pub fn copy_each(targets: &[Handle], values: &[Handle]) -> Result<(), RunError> {
    let count = targets.len() as u32;
    let list = |range: std::ops::Range<u32>| Value::List(range.map(Value::Tensor).collect());
    let all: Vec<Handle> = targets.iter().chain(values).copied().collect();
    // SAFETY: _foreach_copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()
    unsafe {
        call(abi()?, c"aten::_foreach_copy_", c"", &[list(0..count), list(count..2 * count), Value::Bool(false)], &all, 0)?
    };
    Ok(())
}

/// The tensor without lazy conjugation or negation.
pub fn resolve(tensor: Tensor) -> Result<Tensor, RunError> {
    let abi = abi()?;
    // SAFETY: resolve_conj(Tensor(a) self) -> Tensor(a), and likewise resolve_neg.
    unsafe {
        let tensor = call_for_tensor(abi, c"aten::resolve_conj", c"", &[Value::Tensor(0)], &[tensor.as_ref().handle()])?;
        call_for_tensor(abi, c"aten::resolve_neg", c"", &[Value::Tensor(0)], &[tensor.as_ref().handle()])
    }
}
