//! The type rules: what fits, and what must be refused.

use ox_ir::graph::{Bounds, Combine, ConvAttrs, Dims, Op, ReduceOp, SliceDim};
use ox_ir::{DType, PointOp, Sym, TensorType};
use ox_ops::{check, infer};
use smallvec::smallvec;

fn ty(dtype: DType, shape: &[i64]) -> TensorType {
    TensorType::new(dtype, shape.iter().map(|s| Sym::from(*s)))
}

fn f32(shape: &[i64]) -> TensorType {
    ty(DType::F32, shape)
}

#[test]
fn point_ops_want_equal_types() {
    assert_eq!(infer(&Op::Point(PointOp::Lt), &[&f32(&[2]), &f32(&[2])]).unwrap(), ty(DType::Bool, &[2]));
    assert!(infer(&Op::Point(PointOp::Add), &[&f32(&[2]), &f32(&[1])]).is_err());
    assert!(infer(&Op::Point(PointOp::Add), &[&f32(&[2]), &ty(DType::I64, &[2])]).is_err());
    assert!(infer(&Op::Point(PointOp::Exp), &[&ty(DType::I64, &[2])]).is_err());
    assert!(infer(&Op::Point(PointOp::Where), &[&ty(DType::Bool, &[2]), &f32(&[2]), &f32(&[2])]).is_ok());
}

#[test]
fn index_puts_the_index_shape_where_it_is_told() {
    let (x, i) = (f32(&[2, 3, 4, 5]), ty(DType::I64, &[7, 8]));
    let index = |dims: &[usize], at| Op::Index { dims: Dims::from_slice(dims), at, bounds: Bounds::Wrap };
    assert_eq!(infer(&index(&[1, 2], 1), &[&x, &i, &i]).unwrap(), f32(&[2, 7, 8, 5]));
    assert_eq!(infer(&index(&[0, 2], 0), &[&x, &i, &i]).unwrap(), f32(&[7, 8, 3, 5]));
    assert!(infer(&index(&[1, 1], 0), &[&x, &i, &i]).is_err());
    let put = Op::IndexPut { dims: smallvec![1], at: 1, bounds: Bounds::Wrap, combine: Combine::With(ReduceOp::Sum) };
    assert_eq!(infer(&put, &[&x, &i, &f32(&[2, 7, 8, 4, 5])]).unwrap(), x);
    assert!(infer(&put, &[&x, &i, &f32(&[2, 7, 8, 4])]).is_err());
}

#[test]
fn reductions_keep_dimensions() {
    let reduce = |op, dims: &[usize]| Op::Reduce { op, dims: Dims::from_slice(dims) };
    assert_eq!(infer(&reduce(ReduceOp::Sum, &[0, 2]), &[&f32(&[2, 3, 4])]).unwrap(), f32(&[1, 3, 1]));
    assert_eq!(infer(&reduce(ReduceOp::ArgMax, &[1]), &[&f32(&[2, 3])]).unwrap(), ty(DType::I64, &[2, 1]));
    assert!(infer(&reduce(ReduceOp::ArgMax, &[0, 1]), &[&f32(&[2, 3])]).is_err());
    assert!(infer(&reduce(ReduceOp::Any, &[0]), &[&f32(&[2])]).is_err());
}

#[test]
fn convolution_sizes() {
    let attrs = |stride: i64, padding: i64, transposed| ConvAttrs {
        stride: smallvec![Sym::from(stride)],
        padding: smallvec![Sym::from(padding)],
        dilation: smallvec![Sym::ONE],
        transposed,
        output_padding: smallvec![Sym::ZERO],
        groups: Sym::from(2i64),
        bias: false,
        add: false,
        post: Default::default(),
    };
    let conv = |a: ConvAttrs| Op::Conv(Box::new(a));
    let got = infer(&conv(attrs(2, 1, false)), &[&f32(&[5, 4, 9]), &f32(&[6, 2, 3])]).unwrap();
    assert_eq!(got, f32(&[5, 6, 5]));
    let got = infer(&conv(attrs(2, 1, true)), &[&f32(&[5, 4, 9]), &f32(&[4, 3, 3])]).unwrap();
    assert_eq!(got, f32(&[5, 6, 17]));
    assert!(infer(&conv(attrs(1, 0, false)), &[&f32(&[5, 3, 9]), &f32(&[6, 2, 3])]).is_err());
}

#[test]
fn declared_views_are_checked() {
    let slice = |start: i64, step| Op::Slice(vec![SliceDim { start: Sym::from(start), step }]);
    assert!(check(&slice(1, 2), &[&f32(&[6])], &f32(&[3])).is_ok());
    assert!(check(&slice(2, 2), &[&f32(&[6])], &f32(&[3])).is_err());
    assert!(check(&slice(5, -1), &[&f32(&[6])], &f32(&[6])).is_ok());
    assert!(check(&Op::Reshape, &[&f32(&[6])], &f32(&[2, 3])).is_ok());
    assert!(check(&Op::Reshape, &[&f32(&[6])], &f32(&[2, 2])).is_err());
    assert!(check(&Op::Expand, &[&f32(&[1, 3])], &f32(&[5, 3])).is_ok());
    assert!(check(&Op::Expand, &[&f32(&[2, 3])], &f32(&[4, 3])).is_err());
    let unfold = Op::Unfold { dim: 0, step: 2, dilation: 1 };
    assert!(check(&unfold, &[&f32(&[7])], &f32(&[3, 3])).is_ok());
    assert!(check(&unfold, &[&f32(&[6])], &f32(&[3, 3])).is_err());
}
