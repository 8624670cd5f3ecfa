//! Types that eager's kernels for the CPU are not there for, where the Ops of a row would have an answer. Such a call is left to torch, which
//! refuses it in its own words. `test_refused_types.py` goes through all of torch's functions.

use super::Surface;
use ox_ir::{DType, Device, TensorType};

type Types = fn(DType) -> bool;

const BOOL: Types = |dtype| dtype == DType::Bool;
const INTEGERS: Types = |dtype| dtype.is_int();
const NO_FLOATS: Types = |dtype| !dtype.is_float();
const HALVES: Types = |dtype| matches!(dtype, DType::F16 | DType::BF16);

/// By the first name of the row, and the type of the first argument.
const REFUSED: &[(&str, Types)] = &[
    ("F.adaptive_max_pool1d", NO_FLOATS),
    ("F.adaptive_max_pool2d", NO_FLOATS),
    ("F.adaptive_max_pool3d", NO_FLOATS),
    ("F.lp_pool3d", HALVES),
    ("F.multilabel_margin_loss", NO_FLOATS),
    ("F.multilabel_soft_margin_loss", INTEGERS),
    ("F.unfold", INTEGERS),
    ("addcmul", BOOL),
    ("avg_pool3d", HALVES),
    ("bucketize", BOOL),
    ("clamp", BOOL),
    ("kthvalue", BOOL),
    ("logcumsumexp", NO_FLOATS),
    ("max_pool1d", NO_FLOATS),
    ("max_pool2d", BOOL),
    ("median", BOOL),
    ("nanmedian", BOOL),
    ("reflection_pad1d", BOOL),
    ("searchsorted", BOOL),
    ("tanhshrink", BOOL),
    ("threshold", BOOL),
    ("topk", BOOL),
    ("trace", BOOL),
    ("trace", HALVES),
];

/// Whether eager refuses a row's function of tensors like this one.
pub fn refuses(row: &Surface, first: &TensorType) -> bool {
    let is_refused = |(name, types): &(&str, Types)| row.names[0] == *name && types(first.dtype);
    first.device == Device::Cpu && REFUSED.iter().any(is_refused)
}
