//! What a library computes: products, convolutions, attention, and calls by name.

use super::graph::Checked;
use super::{Check, differ, ensure, same_shape, same_type};
use crate::graph::{Arg, ConvAttrs, Library, Op, Packing};
use crate::sym::Sym;

impl Checked<'_> {
    pub(super) fn call(&self) -> Check {
        match &self.node.op {
            Op::Matmul { bias, add, .. } => self.matmul(*bias, *add),
            Op::Conv(attrs) => self.conv(attrs),
            Op::Pack(packing) => self.pack(packing),
            Op::Attention(attrs) => self.attention(attrs.mask),
            Op::Library(library) => self.library(library),
            Op::Project(n) => self.project(*n as usize),
            other => unreachable!("{other:?} is checked elsewhere"),
        }
    }

    fn matmul(&self, bias: bool, add: bool) -> Check {
        self.arity(2 + usize::from(bias) + usize::from(add))?;
        self.same_dtype()?;
        let (a, b, rank) = (self.arg(0), self.arg(1), self.ty.rank());
        ensure(rank >= 2 && a.rank() == rank && b.rank() == rank, || "matrices of different rank".into())?;
        ensure(!differ(&a.shape[rank - 1], &b.shape[rank - 2]), || format!("{a} and {b} do not fit"))?;
        ensure(same_shape(&a.shape[..rank - 2], &b.shape[..rank - 2]), || "the batches differ".into())?;
        let mut shape = a.shape.clone();
        shape[rank - 1] = b.shape[rank - 1].clone();
        self.has_shape(&shape)?;
        (2..self.node.args.len()).try_for_each(|n| self.broadcasts(&self.arg(n).shape))
    }

    /// Can be expanded to the result's shape, aligned at the last dimension.
    fn broadcasts(&self, shape: &[Sym]) -> Check {
        let skip = self.ty.rank().checked_sub(shape.len());
        let fits = skip.is_some_and(|skip| shape.iter().zip(&self.ty.shape[skip..]).all(|(a, b)| a.is_one() || !differ(a, b)));
        ensure(fits, || format!("{shape:?} cannot be added to the result"))
    }

    fn conv(&self, attrs: &ConvAttrs) -> Check {
        self.arity(2 + usize::from(attrs.bias) + usize::from(attrs.add))?;
        self.same_dtype()?;
        let (x, weight, rank) = (self.arg(0), self.arg(1), self.ty.rank());
        ensure(rank >= 3 && x.rank() == rank && weight.rank() == rank, || "tensors of different rank".into())?;
        let lengths = [&attrs.stride, &attrs.padding, &attrs.dilation];
        ensure(lengths.iter().all(|l| l.len() == rank - 2), || "one stride, padding and dilation for each dimension".into())?;
        ensure(!attrs.transposed || attrs.output_padding.len() == rank - 2, || "one output padding for each dimension".into())?;
        ensure(!differ(&x.shape[0], &self.ty.shape[0]), || "the batches differ".into())?;
        let (from, to) = if attrs.transposed { (&self.ty.shape[1], &x.shape[1]) } else { (&x.shape[1], &self.ty.shape[1]) };
        ensure(!differ(to, &weight.shape[0]), || format!("{to} channels, but the weight has {}", weight.shape[0]))?;
        let grouped = &weight.shape[1] * &attrs.groups;
        ensure(!differ(from, &grouped), || format!("{from} channels, but the weight has {grouped}"))
    }

    fn pack(&self, packing: &Packing) -> Check {
        self.arity(1)?;
        same_type(self.ty, self.arg(0))?;
        let dims = packing.stride.len();
        ensure(self.ty.rank() == dims + 2, || format!("a window of {dims} dimensions")).and_then(|()| {
            ensure(packing.padding.len() == dims && packing.dilation.len() == dims, || "strides of another rank".into())
        })?;
        self.known_sizes(packing.x.iter().chain(&packing.stride).chain(&packing.padding).chain(&packing.dilation))
    }

    fn attention(&self, mask: bool) -> Check {
        self.arity(3 + usize::from(mask))?;
        let (q, k, v, rank) = (self.arg(0), self.arg(1), self.arg(2), self.ty.rank());
        ensure(rank >= 2 && [q, k, v].iter().all(|t| t.rank() == rank && t.dtype == self.ty.dtype), || {
            "q, k and v do not fit".into()
        })?;
        ensure(!differ(&q.shape[rank - 1], &k.shape[rank - 1]), || "q and k have rows of different length".into())?;
        ensure(!differ(&k.shape[rank - 2], &v.shape[rank - 2]), || "k and v have different numbers of rows".into())?;
        let mut shape = q.shape.clone();
        shape[rank - 1] = v.shape[rank - 1].clone();
        self.has_shape(&shape)
    }

    fn library(&self, library: &Library) -> Check {
        let args = self.node.args.len();
        let named = library.args.iter().chain(library.kwargs.iter().map(|(_, arg)| arg));
        named.into_iter().try_for_each(|arg| tensors_exist(arg, args))?;
        let mutated = library.mutates.iter().all(|n| (*n as usize) < args);
        ensure(mutated, || "it mutates a tensor that it does not have".into())?;
        library.outs.iter().try_for_each(|out| self.known_sizes(out.ty.shape.iter().chain(&out.strides)))?;
        library.outs.first().map_or(Ok(()), |out| same_type(self.ty, &out.ty))
    }

    fn project(&self, n: usize) -> Check {
        self.arity(1)?;
        let call = self.graph.node(self.node.args[0]);
        let Op::Library(library) = &call.op else { return Err("it projects what is not a library call".into()) };
        let mutated = n.checked_sub(library.outs.len()).and_then(|k| library.mutates.get(k));
        match (library.outs.get(n), mutated) {
            (Some(out), _) => same_type(self.ty, &out.ty),
            (None, Some(arg)) => same_type(self.ty, self.graph.ty(call.args[*arg as usize])),
            (None, None) => Err(format!("there is no output {n}")),
        }
    }
}

fn tensors_exist(arg: &Arg, count: usize) -> Check {
    match arg {
        Arg::Tensor(n) => ensure((*n as usize) < count, || format!("there is no tensor ${n}")),
        Arg::List(items) | Arg::Tuple(items) => items.iter().try_for_each(|item| tensors_exist(item, count)),
        Arg::Slice(ends) => ends.iter().try_for_each(|item| tensors_exist(item, count)),
        Arg::Dict(entries) => entries.iter().try_for_each(|(_, item)| tensors_exist(item, count)),
        _ => Ok(()),
    }
}
