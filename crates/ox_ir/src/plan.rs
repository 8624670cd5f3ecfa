//! `Plan`: the flat list of steps that runs one Graph, with one memory plan.

use crate::dtype::{DType, Device, Scalar};
use crate::graph::{AttentionAttrs, Combine, ConvAttrs, Library, Packing, Post, Shape};
use crate::kernel::Kernel;
use crate::sym::{Sym, Var};

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufId(pub u32);

impl BufId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a buffer's memory comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The n-th tensor that the caller passed; offset 0 is its first element (its data pointer).
    Input(u32),
    /// At this byte offset of the Plan's arena.
    Arena(Sym),
    /// A fresh tensor that the caller gets as its n-th result.
    Output(u32),
    /// A tensor that is made by the library call that writes it, or right before the first step that does, and dropped after its last
    /// use.
    Library,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    pub dtype: DType,
    pub device: Device,
    pub shape: Shape,
    pub strides: Shape,
    pub place: Place,
    /// In the library's own format: not memory that a view can be taken of.
    pub packed: bool,
}

/// A strided window on a buffer; `offset` counts elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    pub buf: BufId,
    pub shape: Shape,
    pub strides: Shape,
    pub offset: Sym,
}

/// What a failed check means: an exception and its text. `{value}` and `{extent}` are filled in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CheckKind {
    IndexError(String),
    RuntimeError(String),
    ZeroDivision(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    pub kind: CheckKind,
    pub location: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// `out = post(alpha * a @ b + beta * bias)`, ins: a, b, bias?, add?. 2-d or 3-d (batched).
    Matmul { bias: bool, add: bool, alpha: Scalar, beta: Scalar, post: Post },
    /// ins: x, weight, bias?, add?.
    Conv(Box<ConvAttrs>),
    /// ins: weight.
    Pack(Box<Packing>),
    /// ins: q, k, v (4-d), mask?.
    Attention(AttentionAttrs),
    /// ins: the tensors that its `Arg::Tensor`s name.
    Library(Box<Library>),
}

// A Plan has few steps, and its runner wants them flat.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Runs `Plan::kernels[kernel]` on these buffers (its parameters that are not scratch, in order). The kernel's check
    /// number 0 is `Plan::checks[checks]`.
    Launch {
        kernel: u32,
        bufs: Vec<BufId>,
        checks: u32,
    },
    Call {
        call: Call,
        ins: Vec<View>,
        outs: Vec<BufId>,
        location: u32,
    },
    /// Strided copy (also with conversion), by torch.
    Copy {
        from: View,
        to: View,
    },
    /// The last use of a Library-placed buffer is over, or that of an input that the caller gives away.
    Drop(BufId),
    /// No buffer in the arena is used any more.
    Release,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlanOutput {
    Buffer(BufId),
    /// A view of the n-th input's storage, at an offset from that input's first element.
    InputView {
        input: u32,
        shape: Shape,
        strides: Shape,
        offset: Sym,
    },
    /// A view of another buffer that is an output.
    View(View),
}

/// After everything else: input `input` is overwritten with this view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WriteBack {
    pub input: u32,
    pub from: View,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    pub sizes: Vec<Var>,
    pub buffers: Vec<Buffer>,
    /// Each distinct kernel once.
    pub kernels: Vec<Kernel>,
    /// By kernel: the user's lines that it comes from, as places in `locations`. For people, like its name.
    pub origins: Vec<Vec<u32>>,
    pub steps: Vec<Step>,
    pub outputs: Vec<PlanOutput>,
    pub write_backs: Vec<WriteBack>,
    pub arena_bytes: Option<Sym>,
    pub checks: Vec<Check>,
    pub locations: Vec<String>,
}

impl Plan {
    /// The user's lines that a kernel comes from: those of its first use.
    pub fn lines_of(&self, kernel: usize) -> impl Iterator<Item = &str> {
        let places = self.origins.get(kernel).into_iter().flatten();
        places.filter_map(|place| self.locations.get(*place as usize)).map(String::as_str).filter(|line| !line.is_empty())
    }

    /// It grows no more: room for other steps is given back.
    pub fn shrink(&mut self) {
        self.steps.shrink_to_fit();
        self.buffers.shrink_to_fit();
        self.kernels.shrink_to_fit();
        self.kernels.iter_mut().for_each(|kernel| kernel.insts.shrink_to_fit());
    }
}

/// Scatter combines that need no order between writes.
pub fn is_unordered(combine: Combine) -> bool {
    !matches!(combine, Combine::Set)
}
