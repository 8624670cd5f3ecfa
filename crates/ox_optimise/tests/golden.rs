//! Golden files: text in, text out, one file for each pass. Each case is also run before and after.

mod common;

use common::{Agree, assert_agree};
use ox_ir::{Graph, Op};
use ox_optimise::{FreeBias, FusePostOps, OptimiseOptions, PackWeights, PostOps, optimise};
use ox_testing::golden::golden;

/// What is switched on for the cases of a file.
fn options(file: &str) -> OptimiseOptions {
    let usual = OptimiseOptions::default();
    let all = FusePostOps { conv: PostOps::ALL, matmul: PostOps::ALL, ..usual.fuse_post_ops };
    match file {
        "fuse_post_ops" => OptimiseOptions { fuse_post_ops: all, ..usual },
        "fuse_half_post_ops" => OptimiseOptions { fuse_post_ops: of_halves(usual.fuse_post_ops), ..usual },
        "fuse_half_post_ops_unrounded" => {
            OptimiseOptions { fuse_post_ops: of_halves(usual.fuse_post_ops), round_intermediates: false, ..usual }
        }
        "free_conv_bias" => OptimiseOptions { free_bias: FreeBias::OfConvolutions, ..usual },
        "pack_weights" => OptimiseOptions { freezing: true, pack_weights: PackWeights::ALL, ..usual },
        "additive_masks" => OptimiseOptions { additive_masks: true, ..usual },
        "grouped_attention" => OptimiseOptions { grouped_attention: true, ..usual },
        "wide_sums" => OptimiseOptions { wide_sums: true, ..usual },
        "align_products" => OptimiseOptions { align_products: Some(16), ..usual },
        "fold_channels" => OptimiseOptions { freezing: true, ..usual },
        _ => usual,
    }
}

/// As a GPU's library has them.
fn of_halves(usual: FusePostOps) -> FusePostOps {
    FusePostOps { half_matmul: PostOps::OF_CUBLAS, ..usual }
}

#[test]
fn optimised() {
    golden("optimise", |file, input| {
        let before = Graph::parse(input).map_err(|e| e.to_string())?;
        before.verify().map_err(|e| e.to_string())?;
        let after = optimise(before.clone(), &options(file));
        let agree = if file == "simplify" { Agree::Exactly } else { Agree::Closely };
        // A library call has no meaning without the library.
        if !before.nodes.iter().any(|n| matches!(n.op, Op::Library(_))) {
            assert_agree(&before, &after, agree, 7);
        }
        Ok::<_, String>(after.to_string())
    });
}
