//! What the tests share.

use ox_autodiff::{Held, Joint, Wanted};
use ox_ir::Graph;
use ox_optimise::passes::flash_mask::flash_mask;
use ox_optimise::passes::remove_dead::remove_dead;
use ox_optimise::passes::simplify::simplify;

/// All floats that are not overwritten.
pub fn all_wanted(graph: &Graph) -> Wanted {
    let written = |n: usize| graph.mutations.iter().any(|m| m.input as usize == n);
    Wanted {
        inputs: graph.inputs.iter().enumerate().map(|(n, input)| input.ty.dtype.is_float() && !written(n)).collect(),
        outputs: graph.outputs.iter().map(|output| graph.ty(output.value).dtype.is_float()).collect(),
        attention: Default::default(),
        held: Held::all_inputs(graph),
    }
}

pub fn simplified(joint: Joint) -> Joint {
    Joint { graph: remove_dead(flash_mask(simplify(joint.graph).0).0), ..joint }
}
