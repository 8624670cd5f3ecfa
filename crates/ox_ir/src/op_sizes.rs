//! The size expressions among the attributes of an operation.

use crate::graph::{Arg, ConvAttrs, Library, Op, Packing};
use crate::sym::Sym;

impl Op {
    /// Whether an attribute of it may be another number in another run; the types of its arguments and result are not asked.
    pub fn varies_with_sizes(&self) -> bool {
        match self {
            Op::SymValue(size) => varies(size),
            Op::Slice(dims) | Op::SliceScatter(dims) => dims.iter().any(|dim| varies(&dim.start)),
            Op::Pad { low, .. } => low.iter().any(varies),
            Op::Conv(attrs) => attrs.varies(),
            Op::Pack(packing) => packing.varies(),
            Op::Library(library) => library.varies(),
            Op::Input(_) | Op::Full(_) | Op::Iota { .. } | Op::Point(_) | Op::Cast => false,
            Op::Reshape | Op::Permute(_) | Op::Expand | Op::Unfold { .. } | Op::Diagonal { .. } => false,
            Op::Detach | Op::Graft | Op::Cat { .. } | Op::Index { .. } | Op::IndexPut { .. } => false,
            Op::Reduce { .. } | Op::Scan { .. } | Op::Matmul { .. } | Op::Attention(_) | Op::Project(_) => false,
        }
    }
}

fn varies(size: &Sym) -> bool {
    size.as_const().is_none()
}

impl ConvAttrs {
    fn varies(&self) -> bool {
        let lengths = [&self.stride, &self.padding, &self.dilation, &self.output_padding];
        lengths.into_iter().flatten().chain([&self.groups]).any(varies)
    }
}

impl Packing {
    fn varies(&self) -> bool {
        let lengths = [&self.stride, &self.padding, &self.dilation];
        self.x.iter().chain(lengths.into_iter().flatten()).chain([&self.groups]).any(varies)
    }
}

impl Library {
    fn varies(&self) -> bool {
        let outs = self.outs.iter().any(|out| out.ty.shape.iter().chain(&out.strides).any(varies));
        outs || self.args.iter().chain(self.kwargs.iter().map(|(_, arg)| arg)).any(Arg::varies)
    }
}

impl Arg {
    fn varies(&self) -> bool {
        match self {
            Arg::Int(size) => varies(size),
            Arg::List(items) | Arg::Tuple(items) => items.iter().any(Arg::varies),
            Arg::Slice(ends) => ends.iter().any(Arg::varies),
            Arg::Dict(entries) => entries.iter().any(|(_, arg)| arg.varies()),
            Arg::None | Arg::Tensor(_) | Arg::Float(_) | Arg::Bool(_) | Arg::Str(_) | Arg::DType(_) => false,
            Arg::Device(_) | Arg::MemoryFormat(_) | Arg::Layout(_) | Arg::Object(_) => false,
        }
    }
}
