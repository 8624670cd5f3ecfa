//! What the caller may choose.

use ox_ir::graph::Post;

/// Which operations a library call may take over as its last step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PostOps {
    /// `relu`, the one that every library has.
    pub relu: bool,
    /// `gelu` by the formula with tanh, the other one that a GPU's has.
    pub gelu_tanh: bool,
    /// The other `gelu`, `silu`, `sigmoid`, `tanh`, `hardswish`, `hardtanh`, `leaky_relu`.
    pub others: bool,
    /// The sum with another tensor (a residual connection).
    pub add: bool,
}

impl PostOps {
    pub const NONE: PostOps = PostOps { relu: false, gelu_tanh: false, others: false, add: false };
    pub const ALL: PostOps = PostOps { relu: true, gelu_tanh: true, others: true, add: true };
    /// What cuBLASLt computes on the way, for next to nothing (`scripts/gpu_report.py --parts products`).
    pub const OF_CUBLAS: PostOps = PostOps { relu: true, gelu_tanh: true, ..PostOps::NONE };

    pub fn takes(&self, post: &Post) -> bool {
        match post {
            Post::Relu => self.relu,
            Post::Gelu(true) => self.gelu_tanh,
            _ => self.others,
        }
    }
}

/// Post-operations by kind of call; of the packed ones in oneDNN's format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FusePostOps {
    pub conv: PostOps,
    pub matmul: PostOps,
    /// Of products in 16 bits whose rows lie as a GPU's library wants them.
    pub half_matmul: PostOps,
    pub packed_conv: PostOps,
    pub packed_matmul: PostOps,
}

/// Which frozen weights the library of this machine can pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackWeights {
    pub matmul_f32: bool,
    pub matmul_bf16: bool,
    pub conv_f32: bool,
    pub conv_bf16: bool,
}

impl PackWeights {
    pub const NONE: PackWeights = PackWeights { matmul_f32: false, matmul_bf16: false, conv_f32: false, conv_bf16: false };
    pub const ALL: PackWeights = PackWeights { matmul_f32: true, matmul_bf16: true, conv_f32: true, conv_bf16: true };
}

/// Whose bias kernels add, rather than the library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeBias {
    /// Of products in f32 and f64 whose results only kernels read: `addmm` on the CPU writes the bias into every row first, and in a half type the sum would be rounded twice.
    OfProducts,
    /// Of convolutions: on a GPU torch adds it by a kernel of its own, to what has been rounded already. A product's is added on the way there.
    OfConvolutions,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptimiseOptions {
    /// Keep f16 and bf16 roundings between operations where eager has them.
    pub round_intermediates: bool,
    /// Weights marked `frozen` may be treated as constants.
    pub freezing: bool,
    /// Pack frozen weights, if `freezing`.
    pub pack_weights: PackWeights,
    /// Replace attention that is spelt out by the library's.
    pub fuse_attention: bool,
    /// Let attention read keys and values with fewer heads than queries have.
    pub grouped_attention: bool,
    pub free_bias: FreeBias,
    /// Masks of booleans become numbers that are added.
    pub additive_masks: bool,
    /// Scattered sums in 16 bits are taken in f32.
    pub wide_sums: bool,
    /// Give the rows of products in 16 bits an alignment that the matrix units of GPUs like, from so many rows and columns on.
    pub align_products: Option<i64>,
    pub fuse_post_ops: FusePostOps,
}

impl Default for OptimiseOptions {
    /// No post-operations: MKL's product takes none, and torch's convolution that does repacks its operands for them, which
    /// costs more than the kernel of ours behind a plain one (a 3x3 convolution over 64 planes of 32x32: 1.8 ms, 2.7 ms with a sum).
    /// Behind a packed one an activation is free, but the sum with a tensor is not: that tensor is copied first.
    fn default() -> OptimiseOptions {
        OptimiseOptions {
            round_intermediates: true,
            freezing: false,
            fuse_attention: true,
            grouped_attention: false,
            free_bias: FreeBias::OfProducts,
            additive_masks: false,
            wide_sums: false,
            align_products: None,
            pack_weights: PackWeights::NONE,
            fuse_post_ops: FusePostOps {
                conv: PostOps::NONE,
                matmul: PostOps::NONE,
                half_matmul: PostOps::NONE,
                packed_conv: PostOps { add: false, ..PostOps::ALL },
                packed_matmul: PostOps { relu: true, ..PostOps::NONE },
            },
        }
    }
}
