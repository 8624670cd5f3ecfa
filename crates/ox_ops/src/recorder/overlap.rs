//! Writes to memory that is shared. A Graph says what a tensor's value becomes; where eager's result depends on the order in which
//! elements are read and written, or where eager refuses, nothing is recorded.

use super::{FrontValue, Recorder, TensorRef};
use crate::error::{OpError, OpResult};
use crate::functional::{Chain, are_apart, are_disjoint, chain_between, overlap_error};
use crate::surface::{self, Bound, Sharing, Slots, Surface};
use crate::value::Value;
use ox_ir::Sym;
use ox_ir::graph::{NodeId, Op};
use rustc_hash::FxHashSet;
use std::borrow::Cow;

/// A call that writes: its row, its arguments, and those as they are read.
pub(super) struct Writing<'a> {
    pub row: &'a Surface,
    pub slots: &'a Slots<TensorRef>,
    pub bound: &'a Bound,
}

/// Memory that a tensor reaches: what its chain of views leaves of its base.
#[derive(PartialEq)]
struct Region<'a> {
    base: usize,
    chain: Cow<'a, Chain>,
}

impl Region<'_> {
    fn meets(&self, other: &Region<'_>) -> bool {
        self.base == other.base && !are_disjoint(&self.chain, &other.chain)
    }
}

fn shared_write_error() -> OpError {
    OpError::unsupported("an argument that is written and overlaps another")
}

impl Recorder {
    /// An input whose elements may share memory among themselves is not written: its new value would not say what eager leaves there.
    /// Where sizes are symbols, whoever runs the Graph has to look.
    pub(super) fn check_overlap(&self, base: usize) -> OpResult<()> {
        let Some(place) = self.bases[base].input else { return Ok(()) };
        let input = &self.builder.graph().inputs[place as usize];
        let numbers = |syms: &[Sym]| syms.iter().map(Sym::as_const).collect::<Option<Vec<i64>>>();
        match (numbers(&input.ty.shape), numbers(&input.strides)) {
            (Some(sizes), Some(strides)) if !are_apart(&sizes, &strides) => Err(overlap_error()),
            _ => Ok(()),
        }
    }

    /// A call is handed copies of what it writes: another argument would not see what it writes to memory that they share.
    pub(super) fn check_alone(&self, args: &[TensorRef], written: usize) -> OpResult<()> {
        let own = self.region(args[written]);
        let mut others = args.iter().enumerate().filter(|(n, _)| *n != written);
        if others.any(|(_, other)| own.meets(&self.region(*other))) { Err(shared_write_error()) } else { Ok(()) }
    }

    fn region(&self, tensor: TensorRef) -> Region<'_> {
        let data = &self.refs[tensor.0 as usize];
        Region { base: data.base, chain: Cow::Borrowed(&data.chain) }
    }

    /// Eager writes while it reads. So an argument that shares a part of what is written is either refused by eager or read in an
    /// order that a Graph does not have. One that is all of it may be read where `in_step`: each element before it is written.
    fn check_apart(&self, written: &Region<'_>, others: &[TensorRef], in_step: &dyn Fn() -> bool) -> OpResult<()> {
        for other in others.iter().map(|other| self.region(*other)).filter(|other| written.meets(other)) {
            if other != *written || !in_step() {
                return Err(shared_write_error());
            }
        }
        Ok(())
    }

    /// The part of the first argument that an assignment to a subscript writes.
    fn assigned(&mut self, tensor: TensorRef, target: NodeId) -> OpResult<Region<'static>> {
        let from = self.read(tensor)?;
        let steps =
            chain_between(self.builder.graph(), from, target).ok_or_else(|| OpError::bug("a subscript that is not a view"))?;
        let data = &self.refs[tensor.0 as usize];
        let chain: Chain = data.chain.iter().cloned().chain(steps).collect();
        Ok(Region { base: data.base, chain: Cow::Owned(chain) })
    }

    /// Before a call that writes `outs`, or where there are none its first argument, is recorded; `value` is what it computes.
    pub(super) fn check_writes(&mut self, call: &Writing<'_>, outs: &[TensorRef], value: &Value) -> OpResult<()> {
        let arguments = |slots: &[(&str, FrontValue)]| slots.iter().flat_map(|(_, v)| v.tensors()).collect::<Vec<_>>();
        for out in outs {
            let others: Vec<TensorRef> =
                outs.iter().filter(|other| *other != out).copied().chain(arguments(call.slots)).collect();
            self.check_apart(&self.region(*out), &others, &|| self.is_in_step(*out, call, value))?;
        }
        let first = Self::first_tensor(call.slots).filter(|_| outs.is_empty());
        let Some(first) = first else { return Ok(()) };
        let others = arguments(&call.slots[1..]);
        match call.row.sharing {
            Sharing::View => Ok(()),
            Sharing::Assign => {
                let (target, gathers) = surface::assigned(&mut self.builder, call.bound)?;
                let target = self.assigned(first, target)?;
                self.check_apart(&target, &others, &|| !gathers)
            }
            _ => self.check_apart(&self.region(first), &others, &|| self.is_in_step(first, call, value)),
        }
    }

    /// Before a call writes arguments beside its first, by their names.
    pub(super) fn check_written(&self, call: &Writing<'_>) -> OpResult<()> {
        for (name, _) in &call.bound.written {
            let (own, others): (Vec<_>, Vec<_>) = call.slots.iter().partition(|(slot, _)| slot == name);
            let others: Vec<TensorRef> = others.iter().flat_map(|(_, value)| value.tensors()).collect();
            for tensor in own.iter().flat_map(|(_, value)| value.tensors()) {
                self.check_apart(&self.region(tensor), &others, &|| false)?;
            }
        }
        Ok(())
    }

    /// Whether `value` is computed of what lies in `written` element by element. What is given in a list is joined, never in step: eager
    /// refuses to write over it.
    fn is_in_step(&self, written: TensorRef, call: &Writing<'_>, value: &Value) -> bool {
        let own = self.region(written);
        let is_joined = |(_, value): &(&str, FrontValue)| value.items().is_some();
        if call.slots.iter().filter(|slot| is_joined(slot)).flat_map(|(_, v)| v.tensors()).any(|t| self.region(t) == own) {
            return false;
        }
        let tensors = call.slots.iter().flat_map(|(_, v)| v.tensors());
        let nodes = call.bound.all_tensors();
        let (same, others): (Vec<_>, Vec<_>) = tensors.zip(nodes).partition(|(tensor, _)| self.region(*tensor) == own);
        let nodes = |pairs: Vec<(TensorRef, NodeId)>| pairs.into_iter().map(|(_, node)| node).collect::<FxHashSet<_>>();
        let (same, others) = (nodes(same), nodes(others));
        let mut seen = FxHashSet::default();
        let mut stack: Vec<(NodeId, bool)> = value.tensors().into_iter().map(|node| (node, true)).collect();
        while let Some((id, in_step)) = stack.pop() {
            if same.contains(&id) && !in_step {
                return false;
            }
            if same.contains(&id) || others.contains(&id) || !seen.insert((id, in_step)) {
                continue;
            }
            let node = self.builder.graph().node(id);
            let in_step = in_step && matches!(node.op, Op::Point(_) | Op::Cast);
            stack.extend(node.args.iter().map(|arg| (*arg, in_step)));
        }
        true
    }
}
