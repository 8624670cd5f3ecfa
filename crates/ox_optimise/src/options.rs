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
    /// A product through MKL takes no post-operations, so a kernel of ours is as fast behind it; oneDNN's convolution saves a
    /// pass over the result with them.
    fn default() -> OptimiseOptions {
        OptimiseOptions {
            round_intermediates: true,
            freezing: false,
            fuse_attention: true,
            fuse_post_ops: FusePostOps { conv: PostOps { others: false, ..PostOps::ALL }, matmul: PostOps::NONE },
        }
    }
}
