//! `Graph`: the tensor program. Functional, in topological order, typed by dtype, device and Sym shape. It has no strides, no
//! aliasing and no mutation; what must be mutated is a list of (input, new value) at its end.

use crate::dtype::{DType, Device, Scalar};
use crate::point::PointOp;
use crate::sym::{Sym, Var};
use smallvec::SmallVec;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

pub type Shape = SmallVec<[Sym; 5]>;
pub type Dims = SmallVec<[usize; 5]>;
pub type Args = SmallVec<[NodeId; 4]>;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TensorType {
    pub dtype: DType,
    pub device: Device,
    pub shape: Shape,
}

impl TensorType {
    pub fn new(dtype: DType, shape: impl IntoIterator<Item = Sym>) -> TensorType {
        TensorType { dtype, device: Device::Cpu, shape: shape.into_iter().collect() }
    }

    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    pub fn numel(&self) -> Sym {
        self.shape.iter().product()
    }

    pub fn with_dtype(&self, dtype: DType) -> TensorType {
        TensorType { dtype, ..self.clone() }
    }

    pub fn with_shape(&self, shape: Shape) -> TensorType {
        TensorType { shape, ..self.clone() }
    }
}

/// Where element 0 of a sliced dimension lies and how far apart the elements are; the length is in the node's type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SliceDim {
    pub start: Sym,
    /// Never zero; negative walks backwards.
    pub step: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ReduceOp {
    Sum,
    Prod,
    /// NaN wins.
    Max,
    /// NaN wins.
    Min,
    Any,
    All,
    /// The position (i64) of the first maximum along the one reduced dimension; a NaN is the maximum.
    ArgMax,
    ArgMin,
}

impl ReduceOp {
    pub const ALL: [ReduceOp; 8] = [
        ReduceOp::Sum,
        ReduceOp::Prod,
        ReduceOp::Max,
        ReduceOp::Min,
        ReduceOp::Any,
        ReduceOp::All,
        ReduceOp::ArgMax,
        ReduceOp::ArgMin,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Max => "max",
            ReduceOp::Min => "min",
            ReduceOp::Any => "any",
            ReduceOp::All => "all",
            ReduceOp::ArgMax => "argmax",
            ReduceOp::ArgMin => "argmin",
        }
    }

    pub fn is_arg(self) -> bool {
        matches!(self, ReduceOp::ArgMax | ReduceOp::ArgMin)
    }

    /// What changes nothing when it is combined with a value of type `dtype`.
    pub fn neutral(self, dtype: DType) -> Scalar {
        let (least, most) = dtype.int_range();
        match self {
            ReduceOp::Sum | ReduceOp::Any => Scalar::Int(0),
            ReduceOp::Prod | ReduceOp::All => Scalar::Int(1),
            ReduceOp::Max | ReduceOp::ArgMax if dtype.is_float() => Scalar::Float(f64::NEG_INFINITY),
            ReduceOp::Min | ReduceOp::ArgMin if dtype.is_float() => Scalar::Float(f64::INFINITY),
            ReduceOp::Max | ReduceOp::ArgMax => Scalar::Int(least),
            ReduceOp::Min | ReduceOp::ArgMin => Scalar::Int(most),
        }
    }
}

/// What a scatter does where it writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Combine {
    /// The last of several writes to one place wins.
    Set,
    With(ReduceOp),
}

/// What an index outside of its dimension means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bounds {
    /// Negative indices count from the end; others out of range are an IndexError (`x[index]`).
    Wrap,
    /// Negative indices are out of range too: an IndexError (`embedding`, `index_select`, `index_add`).
    IndexError,
    /// Likewise, a RuntimeError (`gather`, `scatter`).
    RuntimeError,
}

/// What is computed on the result of a matrix product or convolution before it is stored.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Post {
    #[default]
    None,
    Relu,
    /// With the tanh formula if true.
    Gelu(bool),
    Silu,
    Sigmoid,
    Tanh,
    Hardswish,
    Hardtanh(Scalar, Scalar),
    LeakyRelu(Scalar),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ConvAttrs {
    pub stride: SmallVec<[Sym; 3]>,
    pub padding: SmallVec<[Sym; 3]>,
    pub dilation: SmallVec<[Sym; 3]>,
    pub transposed: bool,
    pub output_padding: SmallVec<[Sym; 3]>,
    pub groups: Sym,
    /// Whether the third argument is a bias.
    pub bias: bool,
    /// Whether the last argument is added to the result before `post`.
    pub add: bool,
    pub post: Post,
}

impl ConvAttrs {
    /// Whether a convolution over the planes of one image in f32 is best done by torch's own way: what each place of the result is computed of is written down
    /// as a column, and one product does the rest. The library brings the weights into an order of its own in every call; where there are few places and
    /// many weights the columns are much less than that. Measured on 8 x 8 places: 512 to 256 channels 1.2 MB and 0.68 ms instead of 4.7 and 0.75; 1280 to
    /// 1280 channels a third of the time. On 14 x 14 places for 256 channels, and for more images, which are a product each, it is slower.
    pub fn is_by_columns(&self, weight: &[i64], result: &[i64]) -> bool {
        const LARGE: i64 = 1 << 18;
        let plain = !self.transposed && !self.add && self.post == Post::None;
        let whole = self.groups.as_const() == Some(1) && self.dilation.iter().all(|n| n.as_const() == Some(1));
        let (&[channels, _, _, _], &[1, _, rows, columns]) = (weight, result) else { return false };
        let places = rows.saturating_mul(columns);
        plain && whole && 0 < places && places <= channels / 2 && weight.iter().product::<i64>() >= LARGE
    }
}

/// The call that a weight is packed for. A product has no strides, a convolution has one for each dimension of its window.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Packing {
    /// The shape of the call's first argument; empty if it is not the same in every run.
    pub x: Shape,
    pub stride: SmallVec<[Sym; 3]>,
    pub padding: SmallVec<[Sym; 3]>,
    pub dilation: SmallVec<[Sym; 3]>,
    pub groups: Sym,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AttentionAttrs {
    pub causal: bool,
    /// A float that multiplies the products; None is 1/sqrt(last size of the query).
    pub scale: Option<Scalar>,
    /// Whether a fourth argument is a mask: bool (true: may be seen) or a float that is added.
    pub mask: bool,
}

/// An argument of a library call. Tensors are given by their place in the node's (or step's) tensor list.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Arg {
    None,
    Tensor(u32),
    Int(Sym),
    Float(Scalar),
    Bool(bool),
    Str(String),
    DType(DType),
    Device(Device),
    /// torch's number of a memory format or layout.
    MemoryFormat(i32),
    Layout(i32),
    /// A Python object that only a Python call can take: its place in the side table of the importer.
    Object(u32),
    List(Vec<Arg>),
    Tuple(Vec<Arg>),
    Slice(Box<[Arg; 3]>),
    Dict(Vec<(String, Arg)>),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Callee {
    /// An ATen (or custom) operator through torch's dispatcher: `aten::sort`, overload `stable`. All arguments in schema order.
    Dispatcher { name: String, overload: String },
    /// A Python callable in the importer's side table.
    Python { object: u32, name: String },
}

impl Callee {
    /// As people call it.
    pub fn name(&self) -> &str {
        match self {
            Callee::Dispatcher { name, .. } | Callee::Python { name, .. } => name,
        }
    }
}

/// An output of a library call as torch's fake kernels describe it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LibraryOut {
    pub ty: TensorType,
    pub strides: Shape,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Library {
    pub callee: Callee,
    pub args: Vec<Arg>,
    pub kwargs: Vec<(String, Arg)>,
    /// What it returns; read by `Op::Project`. More than one is a flat tuple.
    pub outs: Vec<LibraryOut>,
    /// Tensor arguments (places in the node's args) that the call writes. It is handed copies, which follow `outs` as further outputs.
    pub mutates: Vec<u32>,
    /// Draws random numbers or has another effect: neither merged, nor dropped, nor moved across another such call.
    pub effect: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// The n-th tensor input.
    Input(u32),
    /// A constant; the type gives shape and dtype.
    Full(Scalar),
    /// A 0-dimensional i64 (or float) tensor that holds the value of a size expression.
    SymValue(Sym),
    /// i64: the position along `dim`.
    Iota {
        dim: usize,
    },

    /// All arguments have the result's shape.
    Point(PointOp),
    /// Conversion as `Tensor.to(dtype)` does it.
    Cast,

    // Views. The shape of the result is in the node's type.
    Reshape,
    /// Dimension k of the result is dimension `perm[k]` of the argument.
    Permute(Dims),
    /// Same rank; dimensions of size 1 are repeated.
    Expand,
    Slice(Vec<SliceDim>),
    /// `Tensor.unfold`: sliding windows over `dim`, `dilation` apart inside, `step` apart between; the window is a new last dimension.
    Unfold {
        dim: usize,
        step: i64,
        dilation: i64,
    },
    /// The diagonal of two dimensions becomes the last dimension, as `torch.diagonal`.
    Diagonal {
        offset: i64,
        dim1: usize,
        dim2: usize,
    },
    /// The argument itself; no gradient flows back through it.
    Detach,
    /// (value, path): the first argument; a gradient flows back through the second, of the same type. For functions whose derivative
    /// eager takes in another way than they are computed.
    Graft,

    /// `value` around the argument; `low[k]` elements in front of dimension k (negative cuts). How many behind is in the type.
    Pad {
        low: Shape,
        value: Scalar,
    },
    Cat {
        dim: usize,
    },
    /// (base, source): base with source written into the slice.
    SliceScatter(Vec<SliceDim>),
    /// (x, index...): `dims[k]` of x is indexed by the k-th index. The indices have one common shape; it takes the place of the
    /// indexed dimensions at position `at` of the result, the dimensions not indexed keep their order around it.
    Index {
        dims: Dims,
        at: usize,
        bounds: Bounds,
    },
    /// (x, index..., values): x with `values` combined into the places that `Index` with the same attributes would read.
    IndexPut {
        dims: Dims,
        at: usize,
        bounds: Bounds,
        combine: Combine,
    },

    /// Reduced dimensions stay with size 1. Sums are in the argument's type (the surface converts).
    Reduce {
        op: ReduceOp,
        dims: Dims,
    },
    /// Inclusive running sum, product, max or min along `dim`. With a second argument what a sum has so far is multiplied by that first:
    /// `y[t] = decay[t] * y[t - 1] + x[t]`, a linear recurrence.
    Scan {
        op: ReduceOp,
        dim: usize,
    },

    /// (a [b.., m, k], b [b.., k, n]): equal batch dimensions. With `bias`, a third argument of shape [n] (or [1, n] or [m, n]) is
    /// added, times `beta`; the product is taken times `alpha`; `post` last.
    Matmul {
        bias: bool,
        add: bool,
        alpha: Scalar,
        beta: Scalar,
        post: Post,
    },
    Conv(Box<ConvAttrs>),
    /// (weight): the same in the library's own format. Only the weight of a product or convolution may be such a value.
    Pack(Box<Packing>),
    /// (q [b.., t, d], k [b.., s, d], v [b.., s, e], mask?).
    Attention(AttentionAttrs),
    Library(Box<Library>),
    /// The n-th output of a library call.
    Project(u32),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node {
    pub op: Op,
    pub args: Args,
    /// For a Library node with several outputs: the first one's.
    pub ty: TensorType,
    /// Place in `Graph::locations`.
    pub location: u32,
}

/// A tensor that comes in: its type and how it lies in memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GraphInput {
    pub name: String,
    pub ty: TensorType,
    pub strides: Shape,
    /// A weight that the user promised not to change (freezing).
    pub frozen: bool,
    /// In the library's own format, as `Op::Pack` gives it.
    pub packed: bool,
}

/// What the caller gets back at one place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GraphOutput {
    pub value: NodeId,
    /// Strides as eager has them.
    pub strides: Shape,
    /// The result shares memory with an input or with another output.
    pub alias: Option<Alias>,
    pub memory: Memory,
}

/// What lies below a result that shares memory with nobody.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Memory {
    /// Nobody asks.
    #[default]
    Any,
    /// Eager makes memory for the result alone: it must not hold what is larger.
    Own,
    /// The result is a part of memory that eager makes as a whole, and begins at this place in it.
    Whole(Sym),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Alias {
    /// A view of the n-th input, at this offset from that input's first element.
    Input(u32, Sym),
    /// A view of the n-th output, at this offset from that output's first element.
    Output(u32, Sym),
}

/// After the run, the n-th input holds `value`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mutation {
    pub input: u32,
    pub value: NodeId,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Graph {
    /// The sizes that are inputs, in the order in which they are passed.
    pub sizes: Vec<Var>,
    pub inputs: Vec<GraphInput>,
    pub nodes: Vec<Node>,
    pub outputs: Vec<GraphOutput>,
    pub mutations: Vec<Mutation>,
    /// `file:line` of the user's code; entry 0 is "".
    pub locations: Vec<String>,
}

impl Graph {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn ty(&self, id: NodeId) -> &TensorType {
        &self.nodes[id.index()].ty
    }

    /// It grows no more: room for other nodes is given back.
    pub fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        self.locations.shrink_to_fit();
    }

    pub fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    /// Whether the value is in the library's own format.
    pub fn is_packed(&self, id: NodeId) -> bool {
        match &self.node(id).op {
            Op::Pack(_) => true,
            Op::Input(n) => self.inputs.get(*n as usize).is_some_and(|input| input.packed),
            _ => false,
        }
    }

    /// The values that the graph is computed for: outputs and mutations.
    pub fn roots(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.outputs.iter().map(|o| o.value).chain(self.mutations.iter().map(|m| m.value))
    }
}

impl Op {
    /// Pure rearrangement of its argument's elements.
    pub fn is_view(&self) -> bool {
        matches!(
            self,
            Op::Reshape | Op::Permute(_) | Op::Expand | Op::Slice(_) | Op::Unfold { .. } | Op::Diagonal { .. } | Op::Detach
        )
    }

    /// Done by a library, not by a kernel of ours.
    pub fn is_call(&self) -> bool {
        matches!(self, Op::Matmul { .. } | Op::Conv(_) | Op::Pack(_) | Op::Attention(_) | Op::Library(_))
    }
}

/// Strides of a contiguous tensor.
pub fn contiguous_strides(shape: &[Sym]) -> Shape {
    let mut strides: Shape = smallvec::smallvec![Sym::ONE; shape.len()];
    for d in (0..shape.len().saturating_sub(1)).rev() {
        strides[d] = &strides[d + 1] * &shape[d + 1].greater(&Sym::ONE);
    }
    strides
}
