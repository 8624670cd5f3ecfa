//! What the caller may choose.

/// Which operations a library call may take over as its last step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PostOps {
    /// `relu`, the one that every library has.
    pub relu: bool,
    /// `gelu`, `silu`, `sigmoid`, `tanh`, `hardswish`, `hardtanh`, `leaky_relu`.
    pub others: bool,
    /// The sum with another tensor (a residual connection).
    pub add: bool,
}

impl PostOps {
    pub const NONE: PostOps = PostOps { relu: false, others: false, add: false };
    pub const ALL: PostOps = PostOps { relu: true, others: true, add: true };
}

/// Post-operations by kind of call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FusePostOps {
    pub conv: PostOps,
    pub matmul: PostOps,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptimiseOptions {
    /// Keep f16 and bf16 roundings between operations where eager has them.
    pub round_intermediates: bool,
    /// Weights marked `frozen` may be treated as constants.
    pub freezing: bool,
    /// Replace attention that is spelt out by the library's.
    pub fuse_attention: bool,
    pub fuse_post_ops: FusePostOps,
}

impl Default for OptimiseOptions {
    /// No post-operations: MKL's product takes none, and torch's convolution that does repacks its operands for them, which
    /// costs more than the kernel of ours behind a plain one (a 3x3 convolution over 64 planes of 32x32: 1.8 ms, 2.7 ms with a sum).
    fn default() -> OptimiseOptions {
        OptimiseOptions {
            round_intermediates: true,
            freezing: false,
            fuse_attention: true,
            fuse_post_ops: FusePostOps { conv: PostOps::NONE, matmul: PostOps::NONE },
        }
    }
}
