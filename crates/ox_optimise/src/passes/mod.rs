//! The passes, one per file. Which run, and in which order, stands in `pipeline.rs`.

mod activations;
pub mod additive_masks;
pub mod align_products;
mod attention_mask;
pub mod drop_gradients;
pub mod factor_sums;
pub mod flash_mask;
pub mod flatten_matmul;
pub mod fold_channels;
pub mod free_bias;
mod frozen;
pub mod fuse_attention;
pub mod fuse_bias;
pub mod fuse_post_ops;
pub mod grouped_attention;
pub mod pack_weights;
pub mod remove_dead;
pub mod simplify;
pub mod split_frozen;
pub mod spread_constants;
pub mod wide_sums;
