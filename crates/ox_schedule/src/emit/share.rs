//! A concatenation of many parts as several kernels, each of which writes its share of the result: in one kernel, every element would be asked in which of all
//! parts it lies, and the code for that grows with their number.

use super::{Context, Emitted, Emitter, Illegal, PassId};
use crate::cost::{estimate, numel};
use crate::roots::MOST_CAT_PARTS;
use crate::space::Space;
use ox_ir::graph::{Combine, Node};
use ox_ir::kernel::{BufRole, Inst};
use ox_ir::rows::MOST_PIECES;
use ox_ir::{Device, Graph, NodeId, Op, Sym};

/// So many are one kernel. Of 80 parts it took LLVM and NVRTC a second, and of 320 twenty and nine.
const MOST_PARTS: usize = 16;
const SHARE: usize = 8;
/// On a CPU a kernel of its own costs a part less than the question, from so many elements on that lie side by side in rows of that length. 16 parts
/// of a million elements each took 930 ms in one kernel, where eager takes 40.
const LARGE: i64 = 1 << 15;
const ROW: i64 = 64;
/// In rows of so many elements the code generator makes pieces.
const LEAST_ROW: i64 = 64;

/// Whether it is computed so. `required`: it must be in memory as a whole, whatever reads it.
pub fn has_shares(graph: &Graph, node: &Node, required: bool) -> bool {
    let Op::Cat { dim } = node.op else { return false };
    let alone = || node.args.iter().filter(|part| is_alone(graph, **part, dim)).map(|part| numel(graph.ty(*part))).sum::<i64>();
    let (parts, is_kept) = (node.args.len(), required || node.args.len() > MOST_CAT_PARTS);
    parts > MOST_PARTS || is_kept && 2 * alone() > numel(&node.ty)
}

/// Whether the code generator knows in which part each vector of a row lies, so that one kernel is as good, and writes row after row.
pub fn is_in_pieces(node: &Node) -> bool {
    let Op::Cat { dim } = node.op else { return false };
    dim + 1 == node.ty.rank() && node.args.len() <= MOST_PIECES && node.ty.shape[dim].as_const().is_some_and(|n| n >= LEAST_ROW)
}

/// Whether all that it reads lies side by side along its rows, or is the same there. What is read across them is read in tiles, which a kernel of several parts has
/// not.
fn reads_along(share: &Emitted) -> bool {
    let Some(lanes) = share.kernel.axes.last() else { return false };
    let steps = share.kernel.insts.iter().filter_map(|typed| match &typed.inst {
        Inst::Load { index, .. } => Some(index.coeff(&lanes.var).and_then(|step| step.as_const())),
        _ => None,
    });
    steps.into_iter().all(|step| step.is_some_and(|step| step.abs() <= 1))
}

fn is_alone(graph: &Graph, part: NodeId, dim: usize) -> bool {
    let ty = graph.ty(part);
    let row: Sym = ty.shape[dim..].iter().product();
    ty.device == Device::Cpu && numel(ty) >= LARGE && estimate(&row) >= ROW
}

/// The kernels, in order.
pub fn emit_shares(ctx: &Context, id: NodeId) -> Result<Vec<Emitted>, Illegal> {
    let node = ctx.graph.node(id);
    let Op::Cat { dim } = node.op else { unreachable!("only concatenations have shares") };
    if is_in_pieces(node) {
        let whole = emit_share(ctx, id, (node, dim), &Sym::ZERO, BufRole::Out)?;
        if reads_along(&whole) {
            return Ok(vec![whole]);
        }
    }
    let mut begin = Sym::ZERO;
    let mut shares = Vec::new();
    for parts in together(ctx.graph, &node.args, dim) {
        let extent: Sym = parts.iter().fold(Sym::ZERO, |all, part| &all + &ctx.graph.ty(*part).shape[dim]);
        let mut shape = node.ty.shape.clone();
        shape[dim] = extent.clone();
        if !extent.is_zero() {
            let share = Node { args: parts.iter().copied().collect(), ty: node.ty.with_shape(shape), ..node.clone() };
            // The others keep what those before them have written.
            let role = if shares.is_empty() { BufRole::Out } else { BufRole::InOut };
            shares.push(emit_share(ctx, id, (&share, dim), &begin, role)?);
        }
        begin = &begin + &extent;
    }
    Ok(shares)
}

/// The parts of each share.
fn together<'a>(graph: &Graph, parts: &'a [NodeId], dim: usize) -> Vec<&'a [NodeId]> {
    let small = |part: &NodeId| !is_alone(graph, *part, dim);
    let runs = parts.chunk_by(|part, next| small(part) && small(next));
    runs.flat_map(|run| run.chunks(SHARE)).collect()
}

/// `begin`: where it begins in the result.
fn emit_share(ctx: &Context, id: NodeId, (share, dim): (&Node, usize), begin: &Sym, role: BufRole) -> Result<Emitted, Illegal> {
    let space = Space::new(&share.ty.shape, &[]);
    let mut e = Emitter::new(ctx, &[], &space)?;
    let coords = e.full_coords(&share.ty.shape)?;
    let value = e.cat(share, dim, coords.clone(), None, PassId { level: 0, full: false })?;
    let mut target = coords;
    target[dim] = &target[dim] + begin;
    e.write(id, &target, value, role, Combine::Set, false);
    Ok(e.finish())
}
