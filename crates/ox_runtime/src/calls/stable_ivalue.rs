//! Values as the dispatcher's C ABI takes them: a word each, which is an immediate or a handle that the callee takes over.

use crate::abi::{Abi, Handle, StableIValue};
use crate::error::RunError;
use crate::tensor::{Tensor, check, make};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

/// An argument that already has the type that the schema asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An absent optional.
    None,
    /// A present optional: the ABI keeps it behind a pointer.
    Some(Box<Value>),
    /// Place in the call's list of tensors.
    Tensor(u32),
    /// A tensor that is none, where a schema has no optional one.
    Undefined,
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(CString),
    /// ScalarType, Layout or MemoryFormat by torch's number.
    Code(i32),
    Device(i32, i32),
    List(Vec<Value>),
}

impl Value {
    pub fn some(value: Value) -> Value {
        Value::Some(Box::new(value))
    }

    pub fn ints(values: &[i64]) -> Value {
        Value::List(values.iter().map(|&n| Value::Int(n)).collect())
    }

    /// The word for this value; what it points to belongs to the callee.
    pub fn encode(&self, abi: &Abi, tensors: &[Handle]) -> Result<StableIValue, RunError> {
        Ok(match self {
            Value::None => 0,
            Value::Some(inner) => {
                let inner = inner.encode(abi, tensors)?;
                abi.new_boxed(inner).ok_or_else(|| RunError::bug("no operator new in libtorch"))? as StableIValue
            }
            Value::Tensor(at) => new_reference(abi, tensors, *at as usize)?,
            Value::Undefined => undefined(abi)?,
            Value::Int(n) => *n as u64,
            Value::Float(x) => x.to_bits(),
            Value::Bool(b) => *b as u64,
            Value::Str(text) => encode_text(abi, text)?,
            Value::Code(code) => *code as u32 as u64,
            Value::Device(kind, index) => ((*kind as u32 as u64) << 32) | *index as u32 as u64,
            Value::List(items) => encode_list(abi, items, tensors)?,
        })
    }

    /// Whether this libtorch can take it.
    pub fn is_encodable(&self, abi: &Abi) -> bool {
        match self {
            Value::Some(inner) => inner.is_encodable(abi),
            Value::Undefined => abi.aoti_torch_new_uninitialized_tensor.is_some(),
            Value::Str(_) => abi.torch_new_string_handle.is_some(),
            Value::List(items) => abi.torch_new_list_reserve_size.is_some() && items.iter().all(|i| i.is_encodable(abi)),
            _ => true,
        }
    }
}

fn new_reference(abi: &Abi, tensors: &[Handle], at: usize) -> Result<StableIValue, RunError> {
    let handle = *tensors.get(at).ok_or_else(|| RunError::bug(format!("a call names tensor {at} of {}", tensors.len())))?;
    // SAFETY: the handles of a call are valid while it is made.
    let tensor = make("new_tensor_handle", |out| unsafe { (abi.aoti_torch_new_tensor_handle)(handle, out) })?;
    Ok(tensor.into_raw() as StableIValue)
}

fn undefined(abi: &Abi) -> Result<StableIValue, RunError> {
    let new = abi.aoti_torch_new_uninitialized_tensor.ok_or_else(|| RunError::bug("this libtorch has no undefined tensors"))?;
    // SAFETY: a new handle is returned.
    let tensor = make("new_uninitialized_tensor", |out| unsafe { new(out) })?;
    Ok(tensor.into_raw() as StableIValue)
}

fn encode_text(abi: &Abi, text: &CString) -> Result<StableIValue, RunError> {
    let new = abi.torch_new_string_handle.ok_or_else(|| RunError::bug("this libtorch cannot pass strings"))?;
    let mut handle: *mut c_void = null_mut();
    // SAFETY: the text is copied.
    check(unsafe { new(text.as_ptr(), text.as_bytes().len(), &mut handle) }, "new string")?;
    Ok(handle as StableIValue)
}

fn encode_list(abi: &Abi, items: &[Value], tensors: &[Handle]) -> Result<StableIValue, RunError> {
    let (Some(new), Some(push)) = (abi.torch_new_list_reserve_size, abi.torch_list_push_back) else {
        return Err(RunError::bug("this libtorch cannot pass lists"));
    };
    let mut list: *mut c_void = null_mut();
    // SAFETY: makes an empty list; then one word is pushed at a time.
    check(unsafe { new(items.len(), &mut list) }, "new list")?;
    for item in items {
        let word = item.encode(abi, tensors)?;
        check(unsafe { push(list, word) }, "list push")?;
    }
    Ok(list as StableIValue)
}

/// Takes over a tensor that a call returned.
///
/// # Safety
/// `word` must be what a call returned for a result of type Tensor.
pub unsafe fn take_tensor(word: StableIValue) -> Tensor {
    // SAFETY: the caller's promise.
    unsafe { Tensor::from_raw(word as Handle) }
}

/// Takes over a list of tensors that a call returned.
///
/// # Safety
/// `word` must be what a call returned for a result of type Tensor[].
pub unsafe fn take_tensor_list(abi: &Abi, word: StableIValue, into: &mut Vec<Tensor>) -> Result<(), RunError> {
    let (Some(size), Some(get), Some(delete)) = (abi.torch_list_size, abi.torch_list_get_item, abi.torch_delete_list) else {
        return Err(RunError::bug("this libtorch cannot return lists"));
    };
    let list = word as *mut c_void;
    let mut count = 0usize;
    // SAFETY: a valid list; each element is a handle that we now own; the list itself is deleted, not its elements.
    unsafe {
        check(size(list, &mut count), "list size")?;
        for at in 0..count {
            let mut item: StableIValue = 0;
            check(get(list, at, &mut item), "list item")?;
            into.push(take_tensor(item));
        }
        check(delete(list), "delete list")
    }
}
